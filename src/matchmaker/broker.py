"""Global matchmaking: which computing elements (queues) may take a job, and which is best.

The rules are the gLite broker's: both sides must agree, the broker's own conditions hold, a queue
whose rank is not a number is left out, an ad past its expiry is not believed. Where the ads come
from is ``glue``'s affair.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Final

import attrs

from matchmaker.classad import ClassAd, Expr, parse_expr
from matchmaker.classad.ad import first_text
from matchmaker.classad.nodes import Binary
from matchmaker.glue import Glue, expires, unwrap
from matchmaker.glue.flatten import authorised
from matchmaker.matching.names import FOLDED_REQUIREMENTS, RANK, REQUIREMENTS
from matchmaker.matching.ranking import best_first, fuzzy
from matchmaker.matching.selection import Refusal, Selection, select

if TYPE_CHECKING:
    from matchmaker.matching.pool import Pool

__all__ = [
    "ADMISSION",
    "AUTHORISED",
    "DEFAULT_RANK",
    "DEFAULT_REQUIREMENTS",
    "NOT_DENIED",
    "NOT_FULL",
    "Choice",
    "Rules",
    "choose",
    "choose_many",
    "named",
    "pool",
]

DEFAULT_RANK: Final = "-other.GlueCEStateEstimatedResponseTime"
DEFAULT_REQUIREMENTS: Final = """other.GlueCEStateStatus is undefined
    || other.GlueCEStateStatus == "Production\""""
"""What a job without requirements asks for: a queue in production, where one says what it is."""

AUTHORISED: Final = authorised("MY", "other.GlueCEAccessControlBaseRule")
"""A rule of access covers everybody, as GLUE 2.0 writes it, or the job's certificate, organisation,
or VOMS group and role."""

NOT_DENIED: Final = """FQANmember(strcat("DENY:", MY.FQAN), other.GlueCEAccessControlBaseRule)
    isnt true"""
"""No rule denies the job's VOMS group and role."""

NOT_FULL: Final = """other.GlueCEPolicyMaxTotalJobs is undefined
    || other.GlueCEPolicyMaxTotalJobs == 0
    || (other.GlueCEStateRunningJobs + other.GlueCEStateWaitingJobs
        < other.GlueCEPolicyMaxTotalJobs) isnt false"""
"""The queue has fewer jobs than it takes; a limit of 0 is none, and unknown numbers are enough."""

ADMISSION: Final = (AUTHORISED, NOT_DENIED, NOT_FULL)
"""The broker's own conditions, which go before the job's requirements. (gLite WMS.)"""

NAMES: Final = ("CEid", "GlueCEUniqueID", "id", "Name")
"""The attributes that may name a computing element, the first that it has."""

KEY: Final = "BrokerName"
"""The attribute under which a pool of computing elements has their names."""


@attrs.frozen(slots=True, kw_only=True)
class Rules:
    """How the broker decides.

    ``admission`` are its own conditions, expressions with the job as MY, as text. ``both_ways``
    says whether the requirements of queues count. Queues in ``tried`` had this job before: they
    come after all others, the one that was tried first before the next. With ``fuzzy``, a number
    above 0, queues are drawn by lot, better ranks sooner (:func:`matchmaker.Pool.top` says how).
    """

    admission: Sequence[str] = ADMISSION
    both_ways: bool = True
    tried: Sequence[str] = ()
    fuzzy: float | None = None


DEFAULT: Final = Rules()


def choose(
    job: ClassAd,
    ces: Glue | Iterable[ClassAd],
    at: datetime | None = None,
    tie: random.Random | None = None,
    rules: Rules = DEFAULT,
) -> Selection:
    """Filters and ranks computing elements for a job, with a reason for each that is refused.

    ``ces`` is a GLUE snapshot, or ads of computing elements, also in the wrapping of an information
    system (``[id; update_time; expiry_time; info = […]]``). ``at`` is the time by which an ad must
    not have expired, now if not given. A job without Requirements wants a queue in production;
    without Rank it prefers the shortest estimated response time. Equal ranks go by name, or by
    chance where ``tie`` is given; ``rules.fuzzy`` draws with it too, or with a fresh one. (gLite
    WMS, matchmaking; see docs/broker.md.)

    Raises ParseError for an admission that is no expression.

    >>> from matchmaker import parse_ad
    >>> job = parse_ad("[ Requirements = other.FreeCPUs > 0; Rank = other.FreeCPUs ]")
    >>> found = choose(job, [parse_ad('[ CEid = "a"; FreeCPUs = 3 ]'), parse_ad('[ CEid = "b" ]')])
    >>> found.chosen.name, found.refused[0].reason
    ('a', 'the job refuses: other.FreeCPUs > 0 is undefined (FreeCPUs = undefined)')
    """
    chance = tie if tie is not None else random.Random()  # noqa: S311 - spreads jobs only
    current, expired = _current(_ads(ces), at)
    found = select(
        _asking(job), current, tie=tie, both_ways=rules.both_ways, admission=_conditions(rules)
    )
    ranked = found.ranked
    order = _order([c.name for c in ranked], [c.rank for c in ranked], rules, chance)
    return Selection(tuple(ranked[place] for place in order), (*found.refused, *expired))


@attrs.frozen(slots=True)
class Choice:
    """What the broker decides for one of many jobs: names of queues, best first, and their ranks.

    ``unranked`` names those that match, and that are left out because their rank is no number.
    """

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    unranked: tuple[str, ...] = ()

    @property
    def chosen(self) -> str | None:
        """The name of the best, or None where nothing matches."""
        return self.names[0] if self.names else None


def pool(ces: Glue | Iterable[ClassAd], at: datetime | None = None, rules: Rules = DEFAULT) -> Pool:
    """Computing elements as a pool for :func:`choose_many`: those not expired, by their names.

    Where ``rules`` say one way only, without the requirements of queues, whichever rules come
    later. Raises ValueError where two have one name.

    >>> from matchmaker import parse_ad
    >>> kept = pool([parse_ad('[ CEid = "a"; FreeCPUs = 3 ]'), parse_ad('[ CEid = "b" ]')])
    >>> kept.keys()
    ['a', 'b']
    """
    from matchmaker.matching.pool import Pool

    def kept() -> Iterator[ClassAd]:
        for name, ad in _current(_ads(ces), at)[0]:
            copied = ad.copy()
            copied[KEY] = name
            if not rules.both_ways and REQUIREMENTS in copied:
                del copied[REQUIREMENTS]
            yield copied

    return Pool(kept(), key=KEY)


def choose_many(
    jobs: Iterable[ClassAd],
    queues: Pool,
    tie: random.Random | None = None,
    rules: Rules = DEFAULT,
) -> Iterator[Choice]:
    """What :func:`choose` ranks, for many jobs at once, by the columns of a pool of :func:`pool`.

    Whether the requirements of queues count was said when the pool was made, and must be said of
    ``rules`` alike: raises ValueError where the pool has requirements that are not to count.
    Raises ParseError for an admission that is no expression.

    >>> from matchmaker import parse_ad
    >>> kept = pool([parse_ad('[ CEid = "a"; FreeCPUs = 3 ]'), parse_ad('[ CEid = "b" ]')])
    >>> jobs = [parse_ad(f"[ Requirements = other.FreeCPUs > {n}; Rank = 1 ]") for n in (1, 5)]
    >>> [choice.chosen for choice in choose_many(jobs, kept)]
    ['a', None]
    """
    chance = tie if tie is not None else random.Random()  # noqa: S311 - spreads jobs only
    if not rules.both_ways and FOLDED_REQUIREMENTS in queues.snapshot().view.columns:
        raise ValueError("the pool was made with the requirements of queues: give pool() the rules")
    asking = (_admitted(_asking(job), rules) for job in jobs)
    for found in queues.match_many(asking):
        without = set(found.unranked)
        ranked = [
            (name, rank)
            for name, rank in zip(found.keys, found.ranks, strict=True)
            if name not in without
        ]
        ranked = best_first(ranked, lambda one: one[1], lambda one: one[0], tie)
        names, ranks = [name for name, _ in ranked], [rank for _, rank in ranked]
        order = _order(names, ranks, rules, chance)
        yield Choice(
            tuple(names[place] for place in order),
            tuple(ranks[place] for place in order),
            found.unranked,
        )


def named(ads: Iterable[ClassAd]) -> Iterator[tuple[str, ClassAd]]:
    """Each computing element, out of its wrapping, with the name that it goes by."""
    for number, wrapped in enumerate(ads, 1):
        ad = unwrap(wrapped)
        yield first_text(ad, NAMES) or f"CE {number}", ad


def _ads(ces: Glue | Iterable[ClassAd]) -> Iterable[ClassAd]:
    return ces.computing_elements() if isinstance(ces, Glue) else ces


def _current(
    ads: Iterable[ClassAd], at: datetime | None
) -> tuple[list[tuple[str, ClassAd]], list[Refusal]]:
    """Those that have not expired, and the others with their reasons."""
    now = at if at is not None else datetime.now(UTC)
    current: list[tuple[str, ClassAd]] = []
    expired: list[Refusal] = []
    for name, ad in named(ads):
        end = expires(ad)
        if end is not None and end < now:
            expired.append(
                Refusal(name, ad, "expiry", f"its ad expired at {end:%Y-%m-%dT%H:%M:%SZ}")
            )
        else:
            current.append((name, ad))
    return current, expired


def _asking(job: ClassAd) -> ClassAd:
    """The job with requirements and a rank, its own or those of the broker."""
    if RANK in job and REQUIREMENTS in job:
        return job
    asking = job.copy()
    asking.setdefault(RANK, _expression(DEFAULT_RANK))
    asking.setdefault(REQUIREMENTS, _expression(DEFAULT_REQUIREMENTS))
    return asking


def _conditions(rules: Rules) -> list[Expr]:
    return [_expression(text) for text in rules.admission]


def _admitted(job: ClassAd, rules: Rules) -> ClassAd:
    """The job with the broker's conditions behind its own."""
    asking = job.copy()
    for condition in _conditions(rules):
        asking[REQUIREMENTS] = Binary("&&", asking[REQUIREMENTS], condition)
    return asking


def _order(
    names: Sequence[str], ranks: Sequence[float], rules: Rules, chance: random.Random
) -> list[int]:
    """The places of what is ranked already: drawn by lot where that is wanted, the tried last."""
    order = list(range(len(names)))
    if rules.fuzzy is not None:
        import numpy as np

        order = fuzzy(np.array(ranks, dtype=np.float64), len(names), chance, rules.fuzzy)
    tried = {name: number for number, name in enumerate(rules.tried, 1)}
    return sorted(order, key=lambda place: tried.get(names[place], 0)) if tried else order


@cache
def _expression(text: str) -> Expr:
    return parse_expr(text)
