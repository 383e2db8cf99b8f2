"""Make a shard: some of the slots of a pool at one epoch, as a worker holds it.

Pure functions make it from a file, or from the previous shard and updates. If a worker is lost,
another one makes the same shard again. No ad is sent as a pickle: jobs and updates are text for the
parser, many slots a saved pool. ``questions`` has the questions to a shard.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import ParseError
from matchmaker.classad.formats import parse_ads, read_ads
from matchmaker.classad.operators import ascii_fold
from matchmaker.matching.assignment import Policy
from matchmaker.matching.columns import saved
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.saved import MAGIC
from matchmaker.matching.columns.store import Layout, Store, View
from matchmaker.matching.pool import Pool, key_of
from matchmaker.matching.snapshot import Snapshot
from matchmaker.shards.cluster import VERSION, ShardError, refuse_version

if TYPE_CHECKING:
    import numpy.typing as npt


def ads_to_bytes(ads: Iterable[ClassAd]) -> bytes:
    """Ads as text.

    >>> list(ads_from_bytes(ads_to_bytes([ClassAd(A=1), ClassAd()]))) == [ClassAd(A=1), ClassAd()]
    True
    """
    return "\n".join(map(str, ads)).encode("utf-8", "surrogatepass")


def ads_from_bytes(data: bytes) -> list[ClassAd]:
    """The ads that ``ads_to_bytes`` wrote."""
    return list(parse_ads(data.decode("utf-8", "surrogatepass"), format="new"))


def slots_to_bytes(view: View, key: str, rows: Rows | None = None) -> bytes:
    """Some of the slots of a view, or all, as a saved pool."""
    file = io.BytesIO()
    saved.save(view.parts(rows), key, file)
    return file.getvalue()


def columns_to_bytes(view: View, key: str, wanted: frozenset[str] | None) -> bytes:
    """All slots of a view with some of their attributes, or with all, as a saved pool."""
    parts = view.parts()
    if wanted is not None:
        wanted |= {ascii_fold(key)}
        layouts = [
            Layout.of(tuple([name for name in layout.names if ascii_fold(name) in wanted]))
            for layout in parts.layouts
        ]
        columns = {name: column for name, column in parts.columns.items() if name in wanted}
        parts = attrs.evolve(parts, columns=columns, layouts=layouts)
    file = io.BytesIO()
    saved.save(parts, key, file)
    return file.getvalue()


def slots_from_bytes(data: bytes) -> Pool:
    """The slots that ``slots_to_bytes`` wrote."""
    return Pool.load(io.BytesIO(data))


def view_from_bytes(parts: Sequence[bytes]) -> View:
    """The slots of several that ``slots_to_bytes`` wrote, in order."""
    found = [saved.load(io.BytesIO(data), "slots") for data in parts]
    key, store = found[0]
    if len(found) > 1:
        store = Store(ascii_fold(key))
        store.absorb(each.parts().block(list(each)) for _, each in found)
    return store.view()


def policy_to_bytes(policy: Policy) -> bytes:
    """The terms of a policy that slots are asked with."""
    resources = {name: str(expression) for name, expression in policy.resources.items()}
    return json.dumps([resources, str(policy.free), dict(policy.names)]).encode()


def policy_from_bytes(data: bytes) -> Policy:
    """A policy with the terms that ``policy_to_bytes`` wrote."""
    resources, free, names = json.loads(data)
    return Policy(resources=resources, free=free, names=names)


NUMBERS: Final = 40
"""Bits of the number of a row within its shard; the number of the shard is above them. What is
entered later has the numbers of one shard more, so that rows are in the order of one pool."""

_PARQUET: Final = b"PAR1"


@attrs.frozen(slots=True)
class ShardSource:
    """The source of a shard's slots: a file that workers can read, or a saved pool.

    ``first`` is the number of the first row. ``key`` is the attribute that tells slots apart, or
    None for that of a saved pool or else Name; ``expressions`` are the columns of a Parquet file
    that hold expressions. ``mark`` is the size and checksum of the file when the shards began,
    empty for a saved pool.
    """

    name: str
    first: int = 0
    version: str = VERSION
    data: bytes | None = None
    key: str | None = None
    expressions: tuple[str, ...] = ()
    mark: str = ""


@attrs.frozen(slots=True)
class ShardUpdate:
    """The changes of an update in one shard: ads as bytes of text, and keys.

    ``fresh`` numbers those of the ads, at the end, that are new. ``stamp`` names the shard that
    comes of it.
    """

    ads: bytes
    gone: tuple[str, ...]
    fresh: tuple[int, ...]
    stamp: str


class Shard:
    """Slots at one epoch. ``numbers`` are those of their rows among the rows of all shards."""

    def __init__(self, name: str, stamp: str, pool: Pool, numbers: npt.NDArray[np.int64]) -> None:
        """`numbers` has one for each slot, in the order of the pool."""
        self.name = name
        self.stamp = stamp
        self.pool = pool
        self.slots: Snapshot = pool.snapshot()
        view = self.slots._view
        self.rows: Rows = view.rows()
        self.numbers = np.full(view.size, -1, np.int64)
        self.numbers[self.rows] = numbers
        self.latest = stamp
        """The shard whose slots the pool holds by now."""

    def rows_of(self, numbers: npt.NDArray[np.int64]) -> Rows:
        """The rows of the slots of some numbers.

        A shard that was made again may hold them in other rows, but in the same order.
        """
        return self.rows[np.searchsorted(self.numbers[self.rows], numbers)]

    @property
    def key(self) -> str:
        """The attribute that tells slots apart."""
        return self.pool.key

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, key: str) -> bool:
        # The pool knows its keys; those of a snapshot are put in order first.
        return key in (self.pool if self.latest == self.stamp else self.slots)

    def __sizeof__(self) -> int:
        """About how many bytes another worker would have to fetch."""
        return 1000 + 8 * len(self.numbers) * (4 + len(self.slots._view.held))

    def __reduce__(self) -> tuple[Callable[..., Shard], tuple[Any, ...]]:
        # Another worker gets a saved pool, and no pickles of ads.
        data = slots_to_bytes(self.slots._view, self.key)
        return _restored, (self.name, self.stamp, data, self.numbers[self.rows])


def _restored(name: str, stamp: str, data: bytes, numbers: npt.NDArray[np.int64]) -> Shard:
    return Shard(name, stamp, slots_from_bytes(data), numbers)


def load(source: ShardSource) -> Shard:
    """The shard of a source. Raises ShardError, with the name."""
    refuse_version(f"the worker of shard {source.name}", VERSION, source.version)
    with _named(source):
        pool = _pool(source)
    if source.data is None and marked(source) != source.mark:
        raise ShardError(
            f"shard {source.name}: the file is another than when the shards began; make them again"
        )
    return Shard(source.name, "", pool, source.first + np.arange(len(pool), dtype=np.int64))


def marked(source: ShardSource) -> str:
    """The size and checksum of a source's file. Raises ShardError if it cannot be read."""
    size = checksum = 0
    with _named(source), Path(source.name).open("rb") as file:
        while piece := file.read(1 << 20):
            size += len(piece)
            checksum = zlib.crc32(piece, checksum)
    return f"{size}-{checksum:08x}"


@contextmanager
def _named(source: ShardSource) -> Iterator[None]:
    """Raises ShardError, with the name of the shard, for what reading its slots raises."""
    try:
        yield
    except (ValueError, OSError, ImportError, MemoryError) as error:
        said = error.summary() if isinstance(error, ParseError) else str(error)
        why = said or type(error).__name__
        named = why if source.name in why else f"shard {source.name}: {why}"
        raise ShardError(named) from None


def _pool(source: ShardSource) -> Pool:
    if source.data is not None:
        return slots_from_bytes(source.data)
    with Path(source.name).open("rb") as file:
        first = file.read(len(MAGIC))
    if first == MAGIC:
        pool = Pool.load(source.name)
        return pool if source.key in (None, pool.key) else Pool(pool, source.key)
    if first.startswith(_PARQUET):
        return Pool.read_parquet(source.name, source.key, source.expressions)
    return Pool(read_ads(source.name), source.key or "Name")


def stamp_after(stamp: str, ads: bytes, gone: Iterable[str]) -> str:
    """The name of the shard that an update makes from a named shard."""
    return hashlib.blake2b(repr((stamp, ads, list(gone))).encode(), digest_size=16).hexdigest()


def changed(shard: Shard, change: ShardUpdate) -> Shard:
    """The shard after a change. Raises ShardError for one that follows from another shard."""
    ads = ads_from_bytes(change.ads)
    if stamp_after(shard.stamp, change.ads, change.gone) != change.stamp:
        raise ShardError(
            f"shard {shard.name}: an update was lost on the way; the one that came does not"
            " follow from what the shard holds"
        )
    # The pool is shared with the shard before, which keeps what it shows, if nothing else is in it.
    pool = shard.pool
    if shard.latest != shard.stamp:
        pool = slots_from_bytes(slots_to_bytes(shard.slots._view, shard.key))
    view = shard.slots._view
    numbers = shard.numbers
    if change.gone:
        rows = [row for key in change.gone if (row := shard.slots._row(key)) is not None]
        numbers = numbers.copy()
        numbers[rows] = -1
    shard.latest = change.stamp
    for key in change.gone:
        pool.remove(key)
    for ad in ads:
        pool.update(ad)
    left = numbers[view.rows()]
    fresh = np.array(change.fresh, np.int64)
    return Shard(shard.name, change.stamp, pool, np.concatenate([left[left >= 0], fresh]))


def squashed(changes: Iterable[ShardUpdate], key: str) -> ShardUpdate:
    """One change of a shard's file that has the same effect as several changes in order.

    It leaves out ads that were replaced or removed later. ``key`` is the attribute that tells slots
    apart.
    """
    gone: dict[str, None] = {}
    entered: dict[str, tuple[ClassAd, int]] = {}
    for change in changes:
        for name in change.gone:
            # A slot with a number came after the file.
            if entered.pop(name, (None, -1))[1] < 0:
                gone[name] = None
        ads = ads_from_bytes(change.ads)
        numbers = (*[-1] * (len(ads) - len(change.fresh)), *change.fresh)
        for ad, number in zip(ads, numbers, strict=True):
            name = key_of(ad, key)
            entered[name] = ad, entered[name][1] if name in entered else number
    order = sorted(entered.values(), key=lambda each: each[1])
    data, names = ads_to_bytes(ad for ad, _ in order), tuple(gone)
    fresh = tuple(number for _, number in order if number >= 0)
    return ShardUpdate(data, names, fresh, stamp_after("", data, names))


def hashes(shard: Shard) -> npt.NDArray[np.uint64]:
    """A number for each key, the same for the same key on every worker."""
    keys = shard.slots._view.keys.of(shard.rows.tolist())
    each = (hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8) for key in keys)
    return np.frombuffer(b"".join(one.digest() for one in each), np.uint64)
