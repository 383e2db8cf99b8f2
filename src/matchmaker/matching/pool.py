"""Many ads by key, matched one after the other: the plain form of a pool, and its explanation.

A pool is asked by one job at a time or by many; jobs that are equal are matched once.
What two ads say of each other is in ``pair``.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import attrs

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import conjuncts
from matchmaker.classad.operators import truth
from matchmaker.classad.unparse import unparse
from matchmaker.matching.pair import (
    RANK,
    REQUIREMENTS,
    match,
    requirements_value,
    shorten,
)
from matchmaker.matching.ranking import best_first, rank_number


@attrs.frozen(slots=True)
class Matches:
    """What matched: keys, ranks and row numbers, one entry an ad, in step with each other.

    A rank that is not a number counts as 0.0, as in HTCondor; ``unranked`` names those keys.
    """

    keys: tuple[str, ...]
    ranks: tuple[float, ...]
    rows: tuple[int, ...]
    unranked: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.keys)


@attrs.frozen(slots=True)
class ClauseCount:
    """A clause, how many ads satisfy it alone, and how many satisfy it and all before it."""

    text: str
    matched: int
    cumulative: int


@attrs.frozen(slots=True)
class Explanation:
    """Why a job matches as few ads of a pool as it does."""

    total: int
    clauses: tuple[ClauseCount, ...]
    refused_by_ads: int
    matched: int
    suggestions: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{'alone':>8} {'so far':>8}  clause"]
        lines += [f"{c.matched:>8} {c.cumulative:>8}  {shorten(c.text)}" for c in self.clauses]
        lines.append(f"{self.matched} of {self.total} match")
        if self.refused_by_ads:
            lines[-1] += f"; {self.refused_by_ads} satisfy it, but refuse the job"
        return "\n".join([*lines, *self.suggestions])


class Pool:
    """Ads under the value of one of their attributes.

    >>> from matchmaker import parse_ad, parse_ads
    >>> pool = Pool(parse_ads('[Name = "a"; Cpus = 2] [Name = "b"; Cpus = 8]'), key="Name")
    >>> job = parse_ad("[Requirements = TARGET.Cpus >= 2; Rank = TARGET.Cpus]")
    >>> pool.match(job).keys, pool.top(job, 1).keys
    (('a', 'b'), ('b',))
    """

    __slots__ = ("_ads", "key")

    def __init__(self, ads: Iterable[ClassAd] = (), key: str = "Name") -> None:
        """Raises ValueError for an ad without the key, and for two ads with the same one."""
        self.key = key
        self._ads: dict[str, ClassAd] = {}
        for ad in ads:
            name = self._key_of(ad)
            if name in self._ads:
                raise ValueError(f"two ads have {key} = {name!r}; the key must tell ads apart")
            self._ads[name] = ad

    def _key_of(self, ad: ClassAd) -> str:
        value = ad.eval(self.key)
        if not isinstance(value, (str, int)):
            # The ad is at fault, not the type of what the caller gave.
            raise ValueError(f"an ad has no {self.key}: {shorten(str(ad), 60)}")  # noqa: TRY004
        return str(value)

    def __len__(self) -> int:
        return len(self._ads)

    def __iter__(self) -> Iterator[ClassAd]:
        return iter(self._ads.values())

    def __contains__(self, name: object) -> bool:
        return name in self._ads

    def __getitem__(self, name: str) -> ClassAd:
        return self._ads[name]

    def update(self, ad: ClassAd) -> None:
        """Enters an ad, in the place of the one with its key if there is one."""
        self._ads[self._key_of(ad)] = ad

    def remove(self, name: str) -> None:
        """Takes the ad with a key out. Raises KeyError where there is none."""
        del self._ads[name]

    def match(self, job: ClassAd) -> Matches:
        """All ads that match the job, both ways, in the pool's order."""
        keys, ranks, rows, unranked = [], [], [], []
        for row, (name, ad) in enumerate(self._ads.items()):
            outcome = match(job, ad)
            if outcome.matched:
                rank = rank_number(outcome.rank)
                if rank is None and RANK in job:
                    unranked.append(name)
                keys.append(name)
                ranks.append(rank if rank is not None else 0.0)
                rows.append(row)
        return Matches(tuple(keys), tuple(ranks), tuple(rows), tuple(unranked))

    def top(self, job: ClassAd, count: int, tie: random.Random | None = None) -> Matches:
        """The best that match, best first; equal ranks by key, or by chance with `tie`.

        Raises ValueError for a negative count.
        """
        if count < 0:
            raise ValueError(f"the best {count} cannot be given")
        found = self.match(job)
        order = best_first(
            range(len(found)), lambda i: found.ranks[i], lambda i: found.keys[i], tie
        )[:count]
        return Matches(
            tuple(found.keys[i] for i in order),
            tuple(found.ranks[i] for i in order),
            tuple(found.rows[i] for i in order),
            found.unranked,
        )

    def match_many(self, jobs: Iterable[ClassAd]) -> Iterator[Matches]:
        """The matches of each job, in order. Equal jobs are matched once."""
        known: dict[object, Matches] = {}
        for job in jobs:
            cluster = job.expression()
            if cluster not in known:
                known[cluster] = self.match(job)
            yield known[cluster]

    def explain(self, job: ClassAd) -> Explanation:
        """How many ads each clause of the job's requirements leaves, alone and cumulatively."""
        ads = list(self._ads.values())
        left = ads
        counted = []
        for clause in conjuncts(job[REQUIREMENTS]) if REQUIREMENTS in job else []:
            alone = [ad for ad in ads if truth(clause.eval(job, ad)) is True]
            chosen = {id(ad) for ad in alone}
            left = [ad for ad in left if id(ad) in chosen]
            counted.append(ClauseCount(unparse(clause), len(alone), len(left)))
        matched = sum(requirements_value(ad, job) is True for ad in left)
        return Explanation(len(ads), tuple(counted), len(left) - matched, matched)
