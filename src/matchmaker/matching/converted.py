"""A pool in other forms: saved pools, tables of Arrow and pandas, and Parquet files.

``Pool`` has these methods from here. What the forms hold is in ``columns.saved``, ``columns.arrow``
and ``columns.parquet``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import IO, Any, Final, Self

from matchmaker._files import replacing_bytes
from matchmaker.classad.operators import ascii_fold
from matchmaker.matching.columns.store import Store
from matchmaker.matching.keys import distinct
from matchmaker.matching.tables import data_frame

_ATTRS: Final = "classad"
"""Where a frame of pandas says which columns hold expressions."""


def _check_expressions(doubtful: Iterable[str], named: Collection[str]) -> None:
    """Warns of columns that are text and may be expressions, for the caller's caller."""
    for name in doubtful:
        warnings.warn(
            f"{name} is text in this table, and no expression: its field lost the mark that"
            f" to_arrow() set; if it is one say expressions=[{name!r}]",
            stacklevel=3,
        )
    if isinstance(named, str):
        raise TypeError(f"names of columns were expected, not one string: [{named!r}]")


class Convertible:
    """Ads by key that become files and tables, and come from them."""

    __slots__ = ("_store", "key")

    key: str
    _store: Store

    @classmethod
    def _around(cls, store: Store, key: str) -> Self:
        raise NotImplementedError

    @classmethod
    def load(cls, path: str | os.PathLike[str] | IO[bytes]) -> Self:
        """Reads the pool that ``save`` wrote to a file, given by its path or open for bytes.

        The file may come from a stranger: nothing in it is executed. Raises ValueError if it is
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
        """Writes the pool, as it is now, to a file that ``load`` reads, in Arrow's IPC format.

        The file replaces an older one when it is complete. Raises OSError if it cannot be written,
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
        an expression. Raises ValueError, naming the column, for what no ad can hold, for text that
        is no expression, and for rows without the key or with the same one; TypeError for what is
        no table; ImportError where pyarrow is not installed. Which type becomes which is listed in
        docs/pools.md.

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

        Strings that repeat are dictionaries; what Arrow has no type for is the text of its
        expression, which the field's metadata says. Raises ValueError for a string with half of a
        surrogate pair; ImportError where pyarrow is not installed.
        """
        from matchmaker.matching.columns import to_arrow

        return to_arrow.table_of(self._store.parts(), self.key)

    @classmethod
    def from_pandas(
        cls, frame: Any, key: str | None = None, expressions: Collection[str] = ()
    ) -> Self:
        """The pool of the rows of a pandas ``DataFrame``; see ``from_arrow``.

        Which columns hold expressions, and which the key, is in the frame's ``attrs`` where
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
        ImportError where pandas or pyarrow is not installed.
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

        Raises ValueError where it is no Parquet, or no longer a whole one, and OSError where it
        cannot be read.
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
        in memory until ``forget``. A change of the pool reads all columns. Raises ValueError and
        OSError as ``read_parquet`` does, for damage in the values of a column when that is read.

        >>> from matchmaker import ClassAd, Pool
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Pool([ClassAd(Name="a", Cpus=4)]).write_parquet(f"{folder}/slots")
        ...     Pool.open_parquet(f"{folder}/slots").match(ClassAd()).keys
        ('a',)
        """
        from matchmaker.matching.columns import arrow, parquet

        file = parquet.opened(path)
        _check_expressions(arrow.unmarked(file.schema_arrow, expressions), expressions)
        key = arrow.key_noted(file.schema_arrow, key)
        with distinct(key):
            parts = parquet.stored_parts(file, path, key, expressions)
            return cls._around(Store.restored(ascii_fold(key), parts), key)

    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes the ads as a Parquet file, put in place as a whole; see ``to_arrow``."""
        table = self.to_arrow()
        from pyarrow import parquet

        with replacing_bytes(path) as file:
            parquet.write_table(table, file, write_page_checksum=True)
