"""Hold many ads by key, which may come, change and go while jobs are matched with them.

Questions to a pool are answered by a ``Snapshot`` of it; how the ads are held is in ``columns``.
"""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, Self, TypeAlias

import attrs

from matchmaker._files import replacing_bytes
from matchmaker._limits import POOL_LIMITS as LIMITS
from matchmaker._limits import PoolLimits
from matchmaker.classad.ad import ClassAd, an_ad, an_expression, some_ads
from matchmaker.classad.errors import ParseError, shorten
from matchmaker.classad.formats import Errors, Source, opened, reporter
from matchmaker.classad.nodes import Expr
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.values import Value, is_number
from matchmaker.matching.assignment import Assignment, Policy
from matchmaker.matching.columns.masks import MaskCache
from matchmaker.matching.columns.reading import CHUNK, blocks_of
from matchmaker.matching.columns.store import DuplicateKeyError, Store, key_from
from matchmaker.matching.explanation import Explanation, PairExplanation, explain, explain_pair
from matchmaker.matching.pair import value_text
from matchmaker.matching.ranking import rank_number
from matchmaker.matching.results import data_frame
from matchmaker.matching.snapshot import Matches, Plan, Snapshot, ads_in


def key_of(ad: ClassAd, attribute: str) -> str:
    """The key of an ad, by the attribute that has it. Raise ValueError for an ad without one."""
    folded = ascii_fold(attribute)
    value: Any = ad._held.get(folded)
    if isinstance(value, Expr):
        value = ad.eval(value)
    key = key_from(value)
    if key is not None:
        return key
    # The ad is at fault, not the type of what the caller gave.
    shown = shorten(str(ad), 60)
    if folded not in ad._held:
        raise ValueError(f"an ad has no {attribute}: {shown}")
    raise ValueError(
        f"an ad has {attribute} = {shorten(value_text(value), 60)}; "
        f"a key is a string or an integer: {shown}"
    )


@contextmanager
def distinct(key: str) -> Iterator[None]:
    """Turn a DuplicateKeyError into a ValueError for people."""
    try:
        yield
    except DuplicateKeyError as duplicate:
        raise ValueError(_duplicates(key, duplicate.keys)) from None


def _duplicates(key: str, again: Sequence[str]) -> str:
    """The error message for duplicate keys: the first few, and how many ads have them."""
    names = list(dict.fromkeys(again))
    shown = ", ".join(shorten(repr(name), 60) for name in names[:5])
    if len(names) == 1:
        ads = "two" if len(again) == 1 else str(len(again) + 1)
        return f"{ads} ads have {key} = {shown}; the key must tell ads apart"
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"several ads have the same {key}: {shown}{more}; the key must tell ads apart"


_ATTRS: Final = "classad"
"""Where a frame of pandas says which columns hold expressions."""


def _check_expressions(doubtful: Iterable[str], named: Collection[str]) -> None:
    """Warn of columns that are text and may be expressions, for the caller's caller."""
    for name in doubtful:
        warnings.warn(
            f"{name} is text in this table, and no expression: its field lost the mark that"
            f" to_arrow() set; if it is one say expressions=[{name!r}]",
            stacklevel=3,
        )
    if isinstance(named, str):
        raise TypeError(f"names of columns were expected, not one string: [{named!r}]")


Naming: TypeAlias = Callable[[ClassAd], tuple[str | None, ClassAd]]
"""Gives the key of an ad, None if it has none, and the ad to enter under it."""


@attrs.frozen(slots=True)
class PoolChanges:
    """The keys of ads that ``Pool.replace`` entered, changed and removed."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    vanished: tuple[str, ...]

    def __bool__(self) -> bool:
        """Whether anything became different."""
        return bool(self.added or self.changed or self.vanished)


class Pool:
    """Ads under the value of one of their attributes, a string or an integer.

    Any thread may read or change it; a running match goes on with the pool as it was. The ad that
    it gives back is equal to the one put in, but another object: to change it, ``update`` the pool.
    `limits` bound the work of a question (docs/safety.md).

    >>> from matchmaker import parse_ad, parse_ads
    >>> pool = Pool(parse_ads('[ Name = "a"; Cpus = 2 ] [ Name = "b"; Cpus = 8 ]'), key="Name")
    >>> job = parse_ad("[ Requirements = TARGET.Cpus >= 2; Rank = TARGET.Cpus ]")
    >>> pool.match(job).keys, pool.top(job, 1).keys
    (('a', 'b'), ('b',))
    """

    __slots__ = ("_cache", "_folded", "_naming", "_store", "key")

    def __init__(
        self, ads: Iterable[ClassAd] = (), key: str = "Name", *, limits: PoolLimits = LIMITS
    ) -> None:
        """Raise ValueError for an ad without the key, or for two ads with the same one."""
        self.key = key
        self._cache = MaskCache(limits)
        self._folded = ascii_fold(key)
        self._naming: Naming | None = None
        self._store = Store(self._folded)
        with distinct(key):
            self._store.extend((self._key_of(ad), ad) for ad in some_ads(ads))

    @classmethod
    def of_named(
        cls,
        ads: Iterable[tuple[str, ClassAd]],
        key: str = "Name",
        naming: Naming | None = None,
    ) -> Pool:
        """The pool of ads by names that are given with them, whether or not the ads say them.

        ``update`` and ``replace`` go by the ad's own `key`; or by `naming`, which gives the key of
        an ad, or None, and the ad to enter. Raise ValueError for two ads of one name.

        >>> Pool.of_named([("first", ClassAd(Cpus=2))]).keys()
        ['first']
        """
        pool = cls(key=key)
        pool._naming = naming
        with distinct(key):
            pool._store.extend((name, an_ad(ad)) for name, ad in ads)
        return pool

    @classmethod
    def read(
        cls,
        source: Source,
        key: str = "Name",
        format: str = "auto",  # noqa: A002 - as read_ads has it
        *,
        errors: Errors = "strict",
        report: Callable[[ParseError], object] | None = None,
        processes: int = 1,
    ) -> Pool:
        r"""The pool of the ads of a file: ``Pool(read_ads(source, format), key)``.

        A file of hundreds of megabytes in the old or new format or in JSON, given by its path, may
        be read by several `processes`, if ads end with lines and pyarrow is installed. Raises
        ParseError and OSError as ``read_ads`` does, ValueError as ``Pool`` does.

        >>> import io
        >>> Pool.read(io.StringIO('Name = "a"\nCpus = 4\n\nName = "b"\nCpus = 8\n')).keys()
        ['a', 'b']
        """
        pool = cls(key=key)
        if processes > 1 and errors == "strict" and isinstance(source, (str, os.PathLike)):
            from matchmaker.matching.columns.reading import fill_from_parts, parts_of_file

            parts = parts_of_file(source, format, processes)
            with distinct(key):
                if parts and fill_from_parts(pool._store, source, key, parts):
                    return pool
        done = reporter(errors, report)
        with distinct(key), opened(source, format, done, CHUNK) as stream:
            store = pool._store
            store.absorb(blocks_of(stream, store.names, pool._folded, pool._key_of))
        return pool

    @classmethod
    def _around(cls, store: Store, key: str) -> Self:
        pool = cls(key=key)
        pool._store = store
        return pool

    def _key_of(self, ad: ClassAd) -> str:
        return key_of(ad, self.key)

    def _entry(self, ad: ClassAd) -> tuple[str, ClassAd]:
        """The key of an ad that is to be entered, and the ad itself."""
        name, ad = (None, ad) if self._naming is None else self._naming(ad)
        return self._key_of(ad) if name is None else name, ad

    def __reduce__(self) -> tuple[Callable[..., Pool], tuple[object, ...]]:
        # Pickled and copied as its ads: columns, masks and locks belong to one pool.
        return Pool.of_named, (self.snapshot().named(), self.key, self._naming)

    def __repr__(self) -> str:
        return f"<Pool of {ads_in(self._store.view(), f' by {self.key}')}>"

    def __len__(self) -> int:
        return len(self._store)

    def __iter__(self) -> Iterator[ClassAd]:
        return iter(self.snapshot())

    def __contains__(self, name: object) -> bool:
        return name in self._store

    def __getitem__(self, name: str) -> ClassAd:
        return self._store.ad(name)

    def keys(self) -> list[str]:
        """The keys, in the order in which they were entered."""
        return list(self._store)

    def update(self, ad: ClassAd) -> None:
        """Enter an ad, replacing the one with its key.

        Raise ValueError for an ad without the key.
        """
        self._store.put(*self._entry(an_ad(ad)))

    def replace(self, ads: Iterable[ClassAd]) -> PoolChanges:
        """Enter these ads in place of all that the pool has, and return the differences.

        The pool is then equal to a new one of the same ads, but for the order: ads that stay keep
        their places. Ads that are equal to those of the pool are left alone, so masks of clauses,
        and the columns that snapshots share, stay too. Whoever matches meanwhile sees all of the
        change or nothing.

        Raise ValueError for an ad without the key, and for two ads with the same one. The pool is
        then as it was.

        >>> from matchmaker import parse_ads
        >>> pool = Pool(parse_ads('[ Name = "a"; Cpus = 2 ] [ Name = "b"; Cpus = 8 ]'))
        >>> pool.replace(parse_ads('[ Name = "b"; Cpus = 4 ] [ Name = "c"; Cpus = 1 ]'))
        PoolChanges(added=('c',), changed=('b',), vanished=('a',))
        """
        entries = list(map(self._entry, some_ads(ads)))
        with distinct(self.key):
            return PoolChanges(*map(tuple, self._store.replace(entries)))

    def set(self, name: str, /, **attributes: Expr | Value) -> None:
        """Set attributes of the ad with a key: to values, or to expressions.

        Raise KeyError if no ad has the key, ValueError for the key attribute, and TypeError for
        what no ad can hold.

        >>> from matchmaker import parse_ads
        >>> pool = Pool(parse_ads('[ Name = "a"; State = "Unclaimed" ]'))
        >>> pool.set("a", State="Claimed", Load=0.5)
        >>> print(pool["a"])
        [ Name = "a"; State = "Claimed"; Load = 0.5 ]
        """
        if self._folded in map(ascii_fold, attributes):
            raise ValueError(f"{self.key} is the key of the ads: remove the ad and enter another")
        self._store.change(name, attributes)

    def expire(
        self, now: float, expires: Expr | str = "MY.LastHeardFrom + MY.ClassAdLifetime"
    ) -> list[str]:
        """Remove the ads that are out of date at a time, and return their keys.

        Args:
            now: seconds since 1970, or on any clock that the ads go by.
            expires: an expression of each ad: the last time at which it holds. As HTCondor's
                collector has it, an ad lasts ClassAdLifetime seconds from LastHeardFrom on. If it
                is not a number, the ad does not expire.

        >>> from matchmaker import parse_ads
        >>> ads = parse_ads("[ Name = 1; LastHeardFrom = 100; ClassAdLifetime = 900 ] [ Name = 2 ]")
        >>> pool = Pool(ads)
        >>> pool.expire(1000), pool.expire(1001), pool.keys()
        ([], ['1'], ['2'])
        """
        if not is_number(now):
            raise TypeError(f"a time in seconds was expected, not {type(now).__name__}")
        expression = an_expression(expires)

        def over(value: Value) -> bool:
            last = rank_number(value)
            return last is not None and last < now

        then = self.snapshot()
        keys = then._view.keys.of(then._view.rows().tolist())
        old = [k for k, v in zip(keys, then._own_values(expression), strict=True) if over(v)]
        # Another thread may have entered a newer ad meanwhile, or have removed this one.
        return [key for key in old if self._store.drop(key, lambda ad: over(ad.eval(expression)))]

    def remove(self, name: str) -> None:
        """Remove the ad with a key. Raise KeyError if no ad has it."""
        self._store.remove(name)

    def snapshot(self) -> Snapshot:
        """The pool as it is now. It costs little until the pool changes."""
        return Snapshot(self._store.view(), self._cache)

    def forget(self) -> None:
        """Drop the masks of clauses and ranks kept between jobs, to free memory.

        Columns that ``open_parquet`` left in their file go back there too.
        """
        self._cache = MaskCache(self._cache.limits)
        self._store.release()

    def match(self, job: ClassAd) -> Matches:
        """All ads that match the job, both ways, in the pool's order."""
        return self.snapshot().match(job)

    def top(
        self,
        job: ClassAd,
        count: int,
        tie: random.Random | None = None,
        fuzzy: float | None = None,
    ) -> Matches:
        """The best that match, best first; equal ranks by key, or by chance with `tie`.

        With ``fuzzy`` all are drawn by lot, the better ones sooner: see ``ranking.fuzzy``, whose
        factor it is; `tie` is then the source of chance. Raise ValueError for a negative count,
        and TypeError for a count or factor of another type.
        """
        return self.snapshot().top(job, count, tie, fuzzy)

    def match_many(self, jobs: Iterable[ClassAd]) -> Iterator[Matches]:
        """The matches of each job, in order, all with the pool as it was at the first.

        Jobs with the same values of all attributes that the pool's ads, or their own requirements
        and rank, depend on are matched once (autoclusters).
        """
        yield from self.snapshot().match_many(jobs)

    def assign(self, jobs: Iterable[ClassAd], policy: Policy | None = None) -> Assignment:
        """One negotiation cycle: each job its best free slot, the jobs in a fair order.

        The pool stays as it is. The rules are those of ``matching.assignment``, their terms those
        of a ``Policy``. A job without a slot has a reason; no ad raises.
        """
        return self.snapshot().assign(jobs, policy)

    def plan(self, expression: Expr | str, job: ClassAd | None = None) -> Plan:
        """Evaluate an expression of a job on all ads, and name the strategy used for each part.

        ``once``, ``by value`` and ``by combination`` of columns apply the scalar form as often as
        there are distinct contents; ``by lookup`` finds strings in an index of a column; ``by
        column`` works on whole columns; ``by row`` applies the scalar form to each ad.

        >>> from matchmaker import parse_ads
        >>> pool = Pool(parse_ads("".join(f"[ Name = {n}; Cpus = {n % 2} ]" for n in range(99))))
        >>> print(pool.plan("TARGET.Cpus > 0 && TARGET.Name < 3"))
        TARGET.Cpus > 0 && TARGET.Name < 3: by column of cpus, name (99 rows)
          TARGET.Cpus > 0: by value of cpus (99 rows, 2 evaluations)
          TARGET.Name < 3: by column of name (99 rows)
            TARGET.Name: by column of name (99 rows)
            3: once (99 rows, 1 evaluations)
        """
        return self.snapshot().plan(expression, job)

    def explain(self, job: ClassAd, *, names: Mapping[str, str] | None = None) -> Explanation:
        """Why the job matches as few ads as it does.

        `names` are the pool's own names for State, Activity, Available, Draining and Start, which
        say whether a slot is free. Raise ValueError for a name of anything else.
        """
        return explain(self.snapshot(), an_ad(job), names)

    def explain_pair(
        self, job: ClassAd, key: str, *, names: Mapping[str, str] | None = None
    ) -> PairExplanation:
        """All about the job and the ad with a key; `names` as in ``explain``.

        Raise KeyError if no ad has the key.
        """
        return explain_pair(key, an_ad(job), self[key], names)

    # --- as files and tables ----------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | os.PathLike[str] | IO[bytes]) -> Self:
        """Read the pool that ``save`` wrote to a file, given by its path or open for bytes.

        The file may come from a stranger: nothing in it is executed. Raise ValueError if it is
        not a saved pool, or is damaged; OSError if it cannot be read; ImportError without pyarrow.
        """
        from matchmaker.matching.columns import saved

        if isinstance(path, (str, os.PathLike)):
            with Path(path).open("rb") as file:
                key, store = saved.load(file, os.fspath(path))
        else:
            key, store = saved.load(path, str(getattr(path, "name", "saved pool")))
        return cls._around(store, key)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the pool, as it is now, to a file that ``load`` reads, in Arrow's IPC format.

        The file replaces an older one when it is complete. Raise OSError if it cannot be written,
        ValueError for an expression that was made by hand and that no text stands for, and
        ImportError without pyarrow. The format is described in docs/pools.md.

        >>> from matchmaker import ClassAd, Pool
        >>> import tempfile
        >>> pool = Pool([ClassAd(Name="a", Cpus=4)])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     pool.save(f"{folder}/pool.arrow")
        ...     print(Pool.load(f"{folder}/pool.arrow")["a"])
        [ Name = "a"; Cpus = 4 ]
        """
        from matchmaker.matching.columns import saved

        with replacing_bytes(path) as file:
            saved.save(self._store.parts(), self.key, file)

    @classmethod
    def from_arrow(
        cls, table: Any, key: str | None = None, expressions: Collection[str] = ()
    ) -> Self:
        """The pool of the rows of a ``pyarrow.Table``: a column an attribute, null for none.

        A record batch will do as well. Without `key` it is the one that ``to_arrow`` noted in the
        table, or else Name. Text is a string; in the columns that `expressions` names it is read as
        an expression. Raise ValueError, naming the column, for values that no ad can hold, for
        text that cannot be parsed, and for rows without the key or with the same one; TypeError for
        other objects than tables; ImportError without pyarrow. Which type becomes which is listed
        in docs/pools.md.

        >>> from matchmaker import Pool
        >>> import pyarrow as pa
        >>> table = pa.table({"Name": ["a"], "Requirements": ["TARGET.Cpus < 8"]})
        >>> print(*Pool.from_arrow(table, expressions=["Requirements"]))
        [ Name = "a"; Requirements = TARGET.Cpus < 8 ]
        """
        from matchmaker.matching.columns import arrow

        table = arrow.table_from(table)
        _check_expressions(arrow.unmarked(table.schema, expressions), expressions)
        key = arrow.key_noted(table.schema, key)
        with distinct(key):
            store = Store.restored(ascii_fold(key), arrow.parts_of(table, key, expressions))
        return cls._around(store, key)

    def to_arrow(self) -> Any:
        """The ads as a ``pyarrow.Table`` in the pool's order, from which ``from_arrow`` makes them.

        Strings that repeat are dictionaries; contents without a type in Arrow are texts of
        expressions, which the field's metadata says. Raise ValueError for a string with half of a
        surrogate pair; ImportError without pyarrow.
        """
        from matchmaker.matching.columns import arrow

        return arrow.table_of(self._store.parts(), self.key)

    @classmethod
    def from_pandas(
        cls, frame: Any, key: str | None = None, expressions: Collection[str] = ()
    ) -> Self:
        """The pool of the rows of a pandas ``DataFrame``; see ``from_arrow``.

        Which columns hold expressions, and which the key, is in the frame's ``attrs`` if
        ``to_pandas`` made it; pandas keeps these for parts of a frame, and not for all else.
        """
        from matchmaker.matching.columns import arrow

        said = frame.attrs.get(_ATTRS, {})
        present = [name for name in said.get("expressions", ()) if name in frame.columns]
        table = arrow.frame_table(frame, said.get("key"))
        return cls.from_arrow(table, key, [*expressions, *present])

    def to_pandas(self) -> Any:
        """The ads as a pandas ``DataFrame``, from which ``from_pandas`` makes them.

        Expressions are text, and their columns are named in the frame's ``attrs``. Raises
        ImportError without pandas or pyarrow.
        """
        from matchmaker.matching.columns import arrow

        table = self.to_arrow()
        frame = data_frame(table)
        frame.attrs[_ATTRS] = {"key": self.key, "expressions": arrow.marked(table.schema)}
        return frame

    @classmethod
    def read_parquet(
        cls,
        path: str | os.PathLike[str] | IO[bytes],
        key: str | None = None,
        expressions: Collection[str] = (),
    ) -> Self:
        """The pool of a Parquet file, given by its path or open for bytes; see ``from_arrow``.

        Raise ValueError if it is not Parquet, or no longer a whole one, and OSError if it cannot
        be read.
        """
        from matchmaker.matching.columns import arrow

        return cls.from_arrow(arrow.parquet_table(path), key, expressions)

    @classmethod
    def open_parquet(
        cls,
        path: str | os.PathLike[str],
        key: str | None = None,
        expressions: Collection[str] = (),
    ) -> Self:
        """The pool of a Parquet file that may be larger than memory; see ``from_arrow``.

        Keys and expressions are read at once, and every other column when a job needs it; it stays
        in memory until ``forget``. A change of the pool reads all columns. Raise ValueError and
        OSError as ``read_parquet`` does, for damage in the values of a column when that is read.

        >>> from matchmaker import ClassAd, Pool
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Pool([ClassAd(Name="a", Cpus=4)]).write_parquet(f"{folder}/slots")
        ...     Pool.open_parquet(f"{folder}/slots").match(ClassAd()).keys
        ('a',)
        """
        from matchmaker.matching.columns import arrow

        file = arrow.opened(path)
        _check_expressions(arrow.unmarked(file.schema_arrow, expressions), expressions)
        key = arrow.key_noted(file.schema_arrow, key)
        with distinct(key):
            parts = arrow.stored_parts(file, path, key, expressions)
            return cls._around(Store.restored(ascii_fold(key), parts), key)

    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the ads as a Parquet file, put in place as a whole; see ``to_arrow``."""
        table = self.to_arrow()
        from pyarrow import parquet

        with replacing_bytes(path) as file:
            parquet.write_table(table, file, write_page_checksum=True)
