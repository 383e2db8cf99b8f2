"""Ask and change a pool in shards: ``Across`` is one epoch, ``Shards`` the epochs in turn."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import uuid
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import attrs
import numpy as np

from matchmaker.classad.ad import ClassAd, an_ad, some_ads
from matchmaker.classad.errors import shorten
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.printer import unparse_name
from matchmaker.matching.assignment import Assignment, NegotiationCycle, Policy
from matchmaker.matching.columns.dependencies import Clusters
from matchmaker.matching.columns.masks import MaskCache
from matchmaker.matching.columns.store import Store, View
from matchmaker.matching.explanation import Explanation, PairExplanation, explain, explain_pair
from matchmaker.matching.explanation.suggestions import columns_of_machines
from matchmaker.matching.pool import Pool, key_of
from matchmaker.matching.snapshot import Matches, Snapshot, checked
from matchmaker.matching.states import own_names
from matchmaker.shards import questions
from matchmaker.shards.cluster import Client, DaskCluster, Future, ShardError, cores
from matchmaker.shards.shard import (
    NUMBERS,
    ShardSource,
    ShardUpdate,
    ads_from_bytes,
    ads_to_bytes,
    changed,
    load,
    marked,
    slots_to_bytes,
    squashed,
    stamp_after,
    view_from_bytes,
)
from matchmaker.shards.supply import (
    ShardedSupply,
    check_distinct,
    key_of_shards,
    keys_met_twice,
    merged_best,
    merged_matches,
    merged_states,
    outline_of,
)

if TYPE_CHECKING:
    import numpy.typing as npt


BATCH: Final = 64
"""How many jobs of ``match_many`` are asked for at once."""


@attrs.frozen(eq=False, repr=False)
class Across:
    """The slots of all shards at one epoch, with the interface of a ``Snapshot``.

    ``shards`` are the names of the shards with their futures, in the order of their rows;
    ``outline`` and ``firsts`` are as in ``merge``. ``total`` is how many slots there are.
    """

    key: str
    epoch: int
    total: int
    workers: DaskCluster
    shards: tuple[tuple[str, Future], ...]
    outline: View
    firsts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return self.total

    def __repr__(self) -> str:
        return f"<{self.total:,} ads by {self.key} in {len(self.shards)} shards>"

    def __getitem__(self, key: str) -> ClassAd:
        for data in self._ask(questions.ads, [key]):
            for ad in ads_from_bytes(data):
                return ad
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and any(any(has) for has in self._ask(questions.holds, [key]))

    def _ask(self, question: Callable[..., Any], *args: Any) -> list[Any]:
        return self.workers.ask(self.shards, question, [args] * len(self.shards))

    @cached_property
    def _clusters(self) -> Clusters:
        return Clusters(self.outline.columns)

    def cluster(self, job: ClassAd) -> Hashable:
        """The autocluster of a job: equal for jobs that match these slots alike."""
        return self._clusters.of(job)

    def match(self, job: ClassAd) -> Matches:
        """See :meth:`Pool.match`."""
        return next(self.match_many([job]))

    def top(
        self,
        job: ClassAd,
        count: int,
        tie: random.Random | None = None,
        fuzzy: float | None = None,
    ) -> Matches:
        """See :meth:`Pool.top`."""
        checked(count, fuzzy)
        if tie is not None or fuzzy is not None:
            return self.match(job).drawn(count, tie, fuzzy)
        found = self._ask(questions.best, ads_to_bytes([an_ad(job)]), count)
        return merged_best([each[0] for each in found], self.firsts, count)

    def match_many(self, jobs: Iterable[ClassAd]) -> Iterator[Matches]:
        """See :meth:`Pool.match_many`."""
        pending = iter(some_ads(jobs))
        while some := list(islice(pending, BATCH)):
            clusters = [self.cluster(job) for job in some]
            kinds = dict(zip(reversed(clusters), reversed(some), strict=True))
            answers = self._ask(questions.matches, ads_to_bytes(kinds.values()))
            found = {
                cluster: merged_matches([each[place] for each in answers], self.firsts)
                for place, cluster in enumerate(kinds)
            }
            yield from (copy(found[cluster]) for cluster in clusters)

    def states(self, job: ClassAd, names: Mapping[str, str] | None = None) -> dict[str, int]:
        """How many of the slots that match a job are in which state, as ``States`` has it."""
        data = ads_to_bytes([an_ad(job)])
        return merged_states(self._ask(questions.states, data, dict(names or {})))

    def assign(self, jobs: Iterable[ClassAd], policy: Policy | None = None) -> Assignment:
        """See :meth:`Pool.assign`: fair share and quotas are in one place, for all shards."""
        policy = policy if policy is not None else Policy()
        if not isinstance(policy, Policy):
            raise TypeError(f"a Policy was expected, not {type(policy).__name__}")
        supply = ShardedSupply(self.workers, self.shards, self.outline, self.total, policy)
        return NegotiationCycle(supply, list(some_ads(jobs)), policy).run()

    def explain_pair(
        self, job: ClassAd, key: str, *, names: Mapping[str, str] | None = None
    ) -> PairExplanation:
        """See :meth:`Pool.explain_pair`."""
        return explain_pair(key, an_ad(job), self[key], names)

    def explain(self, job: ClassAd, *, names: Mapping[str, str] | None = None) -> Explanation:
        """See :meth:`Pool.explain`.

        The attributes that the answer needs are collected from all shards into one pool.
        """
        job = an_ad(job)
        # The size of a whole machine may be an expression on other attributes of its slot.
        machines = columns_of_machines(self.outline.columns)
        own = [
            parse_expr(f"MY.{unparse_name(name)}") for name in (*own_names(names or {}), *machines)
        ]
        wanted = Clusters(self.outline.columns, own).significant(job)
        if wanted is not None:
            wanted = {*wanted, *machines}
        found = self._ask(questions.columns, None if wanted is None else frozenset(wanted))
        view = view_from_bytes([each.slots for each in found])
        order = np.argsort(np.concatenate([each.numbers for each in found]), kind="stable")
        store = Store.restored(ascii_fold(self.key), view.parts(order))
        known: dict[str, str] = {}
        for each in found:
            known = each.names | known
        return explain(Snapshot(store.view(), MaskCache()), job, names, known)


Path_: TypeAlias = "str | os.PathLike[str]"

CHAIN: Final = 64
"""After this many updates a shard is made again from its file, and they become one."""


@attrs.frozen(slots=True, eq=False)
class _Made:
    """A shard at an epoch: the future, its source and updates, and its stamp."""

    source: ShardSource
    future: Future
    stamp: str = ""
    changes: tuple[ShardUpdate, ...] = ()


class Shards:
    """The interface of a pool over slots in shards, on the workers of Dask.

    Args:
        slots: files, each of which is a shard: saved pools, Parquet, or ads as text. Workers read
            them, by the same path. Or a pool, which is divided.
        client: a ``distributed.Client``, or None to start workers on this machine, which end with
            ``close``.
        key: the attribute that tells slots apart; without it Name, or that of saved pools.
        shards: into how many shards a pool is divided: by default one for each worker.
        workers: how many workers are started; by default one for each processor.
        timeout: seconds that a question may take.
        expressions: columns of Parquet files that hold expressions.

    Raises ShardError, a ValueError that names the shard, for slots that no pool would take: damaged
    files, slots without keys, keys that come twice, in one shard or in two. Raises ClusterError, an
    OSError, if the cluster cannot answer or is of another version.

    A program that starts workers has its own start under ``if __name__ == "__main__":``, since each
    worker imports it.
    """

    def __init__(
        self,
        slots: Pool | Path_ | Sequence[Path_],
        client: Client | None = None,
        *,
        key: str | None = None,
        shards: int | None = None,
        workers: int | None = None,
        timeout: float = 600.0,
        expressions: Sequence[str] = (),
    ) -> None:
        for what, number in (("shards", shards), ("workers", workers)):
            if number is not None and number < 1:
                raise ValueError(f"{what} = {number}: one at least is needed")
        self._with_client = client is None
        self._folder: str | None = None
        if client is None:
            self._cluster = DaskCluster.local(workers or cores(), timeout)
        else:
            self._cluster = DaskCluster(client, timeout)
        try:
            count = self._cluster.check()
            sources = self._sources(slots, key, shards or count, tuple(expressions))
            self._start(sources)
        except BaseException:
            self.close()
            raise

    def _sources(
        self, slots: Pool | Path_ | Sequence[Path_], key: str | None, count: int,
        expressions: tuple[str, ...],
    ) -> list[ShardSource]:  # fmt: skip
        if isinstance(slots, Pool):
            if key is not None and key != slots.key:
                slots = Pool(slots, key)
            return self._divided(slots, count)
        paths = [slots] if isinstance(slots, (str, os.PathLike)) else list(slots)
        names = [str(Path(path).absolute()) for path in paths]
        if not names:
            raise ShardError("no file is given, and so there is no shard")
        for name in names:
            if names.count(name) > 1:
                raise ShardError(f"shard {name} is given twice")
        return [
            ShardSource(name, n << NUMBERS, key=key, expressions=expressions)
            for n, name in enumerate(names)
        ]

    def _divided(self, pool: Pool, count: int) -> list[ShardSource]:
        """The shards of a pool: files, if the workers are on this machine, or else bytes."""
        view = pool.snapshot()._view
        pieces = np.array_split(view.rows(), count)
        data = [slots_to_bytes(view, pool.key, rows) for rows in pieces]
        if self._cluster.ours is None:
            return [
                ShardSource(f"{n + 1} of {count}", n << NUMBERS, data=each)
                for n, each in enumerate(data)
            ]
        self._folder = tempfile.mkdtemp(prefix="classad-shards-")
        found = []
        for number, each in enumerate(data):
            path = Path(self._folder) / f"{number + 1}.arrow"
            path.write_bytes(each)
            found.append(ShardSource(str(path), number << NUMBERS))
        return found

    def _start(self, sources: Sequence[ShardSource]) -> None:
        run = uuid.uuid4().hex[:12]
        self._run = run
        files = [source for source in sources if source.data is None]
        marks = [self._cluster.submit(marked, source, pure=False) for source in files]
        names = [source.name for source in files]
        found = dict(zip(names, self._cluster.results(names, marks), strict=True))
        sources = [attrs.evolve(source, mark=found.get(source.name, "")) for source in sources]
        self._made = tuple(
            _Made(source, self._cluster.submit(load, source, key=f"matchmaker-shard-{run}-{n}-0"))
            for n, source in enumerate(sources)
        )
        named = self._named()
        known = self._cluster.ask(named, questions.summary, [()] * len(named))
        key = key_of_shards(known)
        again = keys_met_twice(known)
        if len(again):
            both = self._cluster.ask(named, questions.keys_of, [(again,)] * len(named))
            check_distinct(key, [name for name, _ in named], both)
        firsts = np.cumsum([0, *(each.total for each in known)])
        self._next = 0
        self._now = Across(
            key=key, epoch=0, total=int(firsts[-1]), workers=self._cluster, shards=tuple(named),
            outline=outline_of([each.dynamic for each in known]), firsts=firsts,
        )  # fmt: skip

    def _named(self) -> list[tuple[str, Future]]:
        return [(one.source.name, one.future) for one in self._made]

    # --- its end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Gives up the shards, and ends the workers that were started here."""
        self._made = ()
        self._cluster.close(with_client=self._with_client)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- changes ----------------------------------------------------------------------------------

    def update(self, ads: ClassAd | Iterable[ClassAd], remove: Iterable[str] = ()) -> int:
        """Removes the slots with some keys and enters ads, all at once: the next epoch.

        An ad replaces the one with its key; one with a new key is put in any shard. Matches that
        run go on with the epoch they began with. Gives the number of the epoch.

        Raises ValueError for an ad without the key or with that of another, KeyError if no slot has
        a key to remove, and ClusterError if a shard cannot take the update; all shards then stay at
        the epoch before.
        """
        entered: dict[str, ClassAd] = {}
        for ad in some_ads([ads] if isinstance(ads, ClassAd) else ads):
            key = key_of(ad, self.key)
            if key in entered:
                raise ValueError(f"two ads of an update have {self.key} = {shorten(repr(key), 60)}")
            entered[key] = ad
        gone = list(dict.fromkeys(remove))
        return self._advance(entered, gone)

    def remove(self, key: str) -> int:
        """Removes the slot with a key: the next epoch. Raises KeyError if there is none."""
        return self.update((), [key])

    def _advance(self, entered: Mapping[str, ClassAd], gone: Sequence[str]) -> int:
        now = self._now
        keys = list(dict.fromkeys([*gone, *entered]))
        named = self._named()
        held = self._cluster.ask(named, questions.holds, [(keys,)] * len(named))
        where = {
            key: shard
            for shard, each in enumerate(held)
            for key, has in zip(keys, each, strict=True)
            if has
        }
        for key in gone:
            if key not in where:
                raise KeyError(key)
        count = len(self._made)
        removed: list[list[str]] = [[] for _ in range(count)]
        put: list[list[ClassAd]] = [[] for _ in range(count)]
        new: list[list[tuple[ClassAd, int]]] = [[] for _ in range(count)]
        following = self._next
        for key in gone:
            removed[where.pop(key)].append(key)
        for key, ad in entered.items():
            if key in where:
                put[where[key]].append(ad)
                continue
            shard = zlib.crc32(key.encode("utf-8", "surrogatepass")) % count
            new[shard].append((ad, (count << NUMBERS) + following))
            following += 1
        made = []
        epoch = now.epoch + 1
        for number, one in enumerate(self._made):
            ads = [*put[number], *(ad for ad, _ in new[number])]
            if not ads and not removed[number]:
                made.append(one)
                continue
            data, names = ads_to_bytes(ads), tuple(removed[number])
            stamp = stamp_after(one.stamp, data, names)
            change = ShardUpdate(data, names, tuple(place for _, place in new[number]), stamp)
            made.append(self._after(one, change, f"matchmaker-shard-{self._run}-{number}-{epoch}"))
        fresh = [one for one, before in zip(made, self._made, strict=True) if one is not before]
        # All shards have the update, or none is asked at the new epoch.
        stamps = self._cluster.ask(
            [(one.source.name, one.future) for one in fresh], questions.stamp, [()] * len(fresh)
        )
        for one, stamp in zip(fresh, stamps, strict=True):
            if stamp != one.stamp:
                raise ShardError(f"shard {one.source.name}: an update was lost on the way")
        shards = [(one.source.name, one.future) for one in made]
        dynamic = self._cluster.ask(shards, questions.dynamic, [()] * len(shards))
        total = len(now) - len(gone) + following - self._next
        self._made, self._next = tuple(made), following
        self._now = attrs.evolve(
            now, epoch=epoch, total=total, shards=tuple(shards), outline=outline_of(dynamic)
        )
        return epoch

    def _after(self, one: _Made, change: ShardUpdate, name: str) -> _Made:
        changes = (*one.changes, change)
        if len(changes) < CHAIN:
            future = self._cluster.submit(changed, one.future, change, key=name)
            return _Made(one.source, future, change.stamp, changes)
        # So that a lost shard is not made again through every epoch there was.
        whole = squashed(changes, self.key)
        base = self._cluster.submit(load, one.source, key=f"{name}-file")
        future = self._cluster.submit(changed, base, whole, key=name)
        return _Made(one.source, future, whole.stamp, (whole,))

    # --- questions --------------------------------------------------------------------------------

    def snapshot(self) -> Across:
        """The shards at this epoch. It costs nothing."""
        return self._now

    @property
    def key(self) -> str:
        """The attribute that tells slots apart."""
        return self._now.key

    @property
    def epoch(self) -> int:
        """How many updates there were."""
        return self._now.epoch

    def __len__(self) -> int:
        return len(self._now)

    def __getitem__(self, key: str) -> ClassAd:
        return self._now[key]

    def __contains__(self, key: object) -> bool:
        return key in self._now

    def __repr__(self) -> str:
        return repr(self._now).replace("<", "<Shards of ", 1)

    def match(self, job: ClassAd) -> Matches:
        """All slots that match the job, both ways: see :meth:`Pool.match`."""
        return self._now.match(job)

    def top(
        self,
        job: ClassAd,
        count: int,
        tie: random.Random | None = None,
        fuzzy: float | None = None,
    ) -> Matches:
        """The best that match, best first: see :meth:`Pool.top`."""
        return self._now.top(job, count, tie, fuzzy)

    def match_many(self, jobs: Iterable[ClassAd]) -> Iterator[Matches]:
        """The matches of each job, all at one epoch: see :meth:`Pool.match_many`."""
        yield from self._now.match_many(jobs)

    def states(self, job: ClassAd, names: Mapping[str, str] | None = None) -> dict[str, int]:
        """How many of the slots that match a job are in which state: see :meth:`Across.states`."""
        return self._now.states(job, names)

    def assign(self, jobs: Iterable[ClassAd], policy: Policy | None = None) -> Assignment:
        """One negotiation cycle over all shards: see :meth:`Pool.assign`."""
        return self._now.assign(jobs, policy)

    def explain(self, job: ClassAd, *, names: Mapping[str, str] | None = None) -> Explanation:
        """Why the job matches as few slots as it does: see :meth:`Across.explain`."""
        return self._now.explain(job, names=names)

    def explain_pair(
        self, job: ClassAd, key: str, *, names: Mapping[str, str] | None = None
    ) -> PairExplanation:
        """All about the job and one slot: see :meth:`Pool.explain_pair`."""
        return self._now.explain_pair(job, key, names=names)
