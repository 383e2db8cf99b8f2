"""Hold one attribute of many ads: what each row has, in as little space as its contents allow.

A *content* is a plain value or an expression (``ClassAd.content``), or MISSING if the ad lacks the
attribute. Forms of a column:

- ``Coded``: a small number a row and a table of the distinct contents, for what repeats.
- ``Numeric``: a kind and 64 bits a row, for numbers that hardly repeat.
- ``Texts``, in ``forms``: bytes in a heap, for strings that hardly repeat.
- ``ObjectColumn``: the contents themselves, for anything else that hardly repeats.

``forms`` decides which form a column has, ``store`` which rows there are; ``evaluator`` evaluates
expressions on columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from itertools import count
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from struct import Struct
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from matchmaker.classad import nodes
from matchmaker.classad.ad import literal
from matchmaker.classad.nodes import (
    AdExpr,
    Attr,
    Binary,
    Call,
    Expr,
    ListExpr,
    Subscript,
    Ternary,
    Unary,
)
from matchmaker.classad.values import ErrorType, UndefinedType
from matchmaker.classad.walks import postorder

Bits: TypeAlias = "npt.NDArray[np.int64]"
Kinds: TypeAlias = "npt.NDArray[np.uint8]"


class Missing:
    """The content of a row whose ad lacks the attribute."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()

# The kinds of plain values, as rows of numbers know them. A truth is one of the first four.
FALSE, TRUE, UNDEFINED_KIND, ERROR_KIND, INTEGER, REAL, OTHER, ABSENT = range(8)

THEMSELVES: Final[frozenset[type]] = frozenset({str, int, bool, UndefinedType, timedelta}) | {
    Attr, Unary, Binary, Ternary, Call, Subscript, ListExpr, AdExpr,
}  # fmt: skip
"""The classes of contents that are their own stand-ins."""


def identity(content: Any) -> Any:
    """A hashable stand-in: equal for contents of one class that are one to an ad, lists too.

    >>> identity([0.0]) is identity([-0.0]), identity([2]) is identity([2])
    (False, True)
    """
    kind = content.__class__
    if kind in THEMSELVES:
        return content
    return literal(content) if kind is list else nodes.identity(content)


def same(one: Any, other: Any) -> bool:
    """Whether two contents are one to an ad."""
    if one is other:
        return True
    kind = one.__class__
    if kind is not other.__class__:
        return False
    return bool(one == other if kind in THEMSELVES else identity(one) == identity(other))


def differing_places(ones: list[Any], others: list[Any]) -> list[int]:
    """Return the places at which two lists of contents differ."""
    # Python compares whole lists twenty times as fast as a loop does; most columns are equal.
    kinds = list(map(type, others))
    if ones == others and THEMSELVES.issuperset(kinds) and list(map(type, ones)) == kinds:
        return []
    pairs = enumerate(zip(ones, others, strict=True))
    return [at for at, (one, other) in pairs if one is not other and not same(one, other)]


def bits_of(real: float) -> int:
    """The 64 bits of a real, as an integer."""
    bits: int = _INTEGER.unpack(_REAL.pack(real))[0]
    return bits


_INTEGER: Final = Struct("q")
_REAL: Final = Struct("d")


def encoded(contents: Sequence[Any]) -> tuple[Kinds, Bits]:
    """Encode contents as kinds and bits; OTHER, with zero bits, for neither numbers nor truths."""
    classes = set(map(type, contents))
    if classes == {int}:
        return np.full(len(contents), INTEGER, np.uint8), np.array(contents, np.int64)
    if classes == {float}:
        bits = np.array(contents, np.float64).view(np.int64)
        return np.full(len(contents), REAL, np.uint8), bits
    if classes == {bool}:
        # A truth is its own kind.
        return np.array(contents, np.uint8), np.array(contents, np.int64)
    kinds = np.full(len(contents), OTHER, np.uint8)
    bits = np.zeros(len(contents), np.int64)
    reals = bits.view(np.float64)
    for i, content in enumerate(contents):
        kind = content.__class__
        if kind is int:
            kinds[i], bits[i] = INTEGER, content
        elif kind is float:
            kinds[i], reals[i] = REAL, content
        elif kind in _KINDS:
            kinds[i] = bits[i] = _KINDS[kind] if kind is not bool else content
    return kinds, bits


_KINDS: Final[dict[Any, int]] = {
    bool: TRUE,
    UndefinedType: UNDEFINED_KIND,
    ErrorType: ERROR_KIND,
}


Codes: TypeAlias = "npt.NDArray[np.unsignedinteger[Any]]"
Rows: TypeAlias = "npt.NDArray[np.intp]"

# Smaller arrays would waste most of their last page; the allocator reuses them well.
_LARGE: Final = 1 << 16
_stamps = count(1)


def stamp() -> int:
    """A number never given before: the version of a column that has changed."""
    return next(_stamps)


def narrowest(size: int) -> type[np.unsignedinteger[Any]]:
    """The narrowest type for codes below `size`."""
    if size <= 1 << 16:
        return np.uint8 if size <= 1 << 8 else np.uint16
    return np.uint32 if size <= 1 << 32 else np.uint64


def with_capacity(array: npt.NDArray[Any], size: int, room: int) -> npt.NDArray[Any]:
    """A copy of the first `size` entries, with zeros behind them."""
    copy = zeros(room, array.dtype)
    copy[:size] = array[:size]
    return copy


def zeros(size: int, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of zeros. A large one is of pages that go back to the system with it.

    The allocator of C keeps freed memory, in holes between blocks in use: columns that grow would
    leave as much in holes as they hold.
    """
    length = size * np.dtype(kind).itemsize
    if length < _LARGE:
        return np.zeros(size, kind)
    return np.frombuffer(mmap(-1, length, MAP_PRIVATE | MAP_ANONYMOUS), kind)


def numbers(rows: Iterable[int]) -> Rows:
    """Return rows as an array."""
    return rows if isinstance(rows, np.ndarray) else np.fromiter(rows, np.intp)


class Column:
    """The interface of all forms.

    ``version`` changes with every change of a cell; ``shown`` notes that a view may show the
    column, so that it must not be changed. ``lookup`` caches the index of strings of ``evaluator``.
    """

    __slots__ = ("_lacks", "lookup", "shown", "version")

    def __init__(self) -> None:
        self.version = stamp()
        self.shown = False
        self._lacks = (0, 0, False)
        self.lookup: tuple[tuple[int, int], Any] | None = None

    def __len__(self) -> int:
        """How many rows there is room for."""
        raise NotImplementedError

    def get(self, row: int) -> Any:
        """The content of a row."""
        raise NotImplementedError

    def put(self, row: int, content: Any) -> None:
        """Set the content of a row below the capacity."""
        raise NotImplementedError

    def fill(self, rows: Rows | slice, contents: Sequence[Any]) -> None:
        """Set the contents of many rows below the capacity."""
        places = range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()
        for row, content in zip(places, contents, strict=True):
            self.put(row, content)

    def take(self, rows: Rows) -> Column:
        """A column of some of the rows, which may change while this one does not."""
        raise NotImplementedError

    def copy(self, size: int, room: int) -> Column:
        """A column of the first `size` rows with room for more, which are MISSING."""
        raise NotImplementedError

    def expressions(self) -> list[Expr]:
        """The distinct expressions among the contents; some may be of rows that are gone."""
        raise NotImplementedError

    def dynamic(self) -> list[Expr]:
        """The distinct expressions among the contents other than constants, such as nested ads."""
        return [node for node in self.expressions() if is_dynamic(node)]

    def missing(self, size: int) -> npt.NDArray[np.bool_]:
        """Which of the first `size` rows lack the attribute."""
        raise NotImplementedError

    def lacks(self, size: int) -> bool:
        """Whether one of the first `size` rows lacks the attribute."""
        version, known, lacks = self._lacks
        if (version, known) != (self.version, size):
            lacks = bool(self.missing(size).any())
            self._lacks = (self.version, size, lacks)
        return lacks

    def contents(self, rows: Iterable[int]) -> list[Any]:
        """The contents of rows."""
        return [self.get(row) for row in rows]


def is_dynamic(node: Expr) -> bool:
    """Whether an expression names an attribute or calls a function."""
    return any(isinstance(part, (Attr, Call)) for part in postorder(node))


class ContentTable(list[Any]):
    """Distinct contents by code. It only grows, so that columns copied from each other share it.

    The codes by contents take more room than all else, and are made anew when they are needed.
    """

    __slots__ = ("_found", "_known", "lookup")

    def __init__(self, contents: Iterable[Any] = ()) -> None:
        super().__init__()
        self._known: dict[type, dict[Any, int]] = {}
        self._found: tuple[int, list[Expr], list[Expr]] = (0, [], [])
        self.lookup: tuple[int, Any] | None = None
        for content in contents:
            self.code(content)

    def duplicate(self) -> ContentTable:
        """A table of the same contents, which grows by itself."""
        fresh = ContentTable()
        fresh.extend(self)
        return fresh

    def forget(self) -> None:
        """Give up the codes by contents, until one is asked for."""
        self._known = {}

    def _codes_of(self, kind: type) -> dict[Any, int]:
        """The codes of contents of a class, by what stands for them."""
        if not self._known:
            for code, content in enumerate(self):
                key = content if content.__class__ in THEMSELVES else identity(content)
                self._known.setdefault(content.__class__, {})[key] = code
        return self._known.setdefault(kind, {})

    def code(self, content: Any) -> int:
        """The code of a content, which enters the table if it is new."""
        kind = content.__class__
        key = content if kind in THEMSELVES else identity(content)
        known = self._known.get(kind)
        if known is None:
            known = self._codes_of(kind)
        code = known.setdefault(key, len(self))
        if code == len(self):
            self.append(content)
        return code

    def codes(self, contents: Sequence[Any]) -> list[int]:
        """The codes of many contents; new ones enter the table."""
        if len(contents) == 1:
            return [self.code(contents[0])]
        kinds = dict.fromkeys(map(type, contents))
        if len(kinds) > 1:
            found = np.zeros(len(contents), np.intp)
            for each_kind in kinds:
                places = [at for at, each in enumerate(contents) if each.__class__ is each_kind]
                found[places] = self.codes([contents[at] for at in places])
            return found.tolist()
        if not kinds:
            return []
        (kind,) = kinds
        known = self._codes_of(kind)
        keys = contents if kind in THEMSELVES else _identities(kind, contents)
        new = [key for key in dict.fromkeys(keys) if key not in known]
        known.update(zip(new, range(len(self), len(self) + len(new)), strict=True))
        if keys is contents:
            self.extend(new)
        elif new:
            # The first of those that are one to an ad stays.
            firsts = dict(zip(reversed(keys), reversed(contents), strict=True))
            self.extend(map(firsts.__getitem__, new))
        return list(map(known.__getitem__, keys))

    def expressions(self) -> list[Expr]:
        """The expressions in it."""
        return self._sorted()[0]

    def dynamic(self) -> list[Expr]:
        """The expressions in it other than constants."""
        return self._sorted()[1]

    def _sorted(self) -> tuple[list[Expr], list[Expr]]:
        seen, found, dynamic = self._found
        if seen < len(self):
            entered = self[seen:]
            fresh = [content for content in entered if isinstance(content, Expr)]
            found, dynamic = found + fresh, dynamic + list(filter(is_dynamic, fresh))
            self._found = (seen + len(entered), found, dynamic)
        return found, dynamic


def _identities(kind: type, contents: Sequence[Any]) -> list[Any]:
    if kind is float:
        return [each if each and each == each else repr(each) for each in contents]  # noqa: PLR0124
    return list(map(identity, contents))


class Tabled(Column):
    """A column with a table that holds all its expressions."""

    __slots__ = ("table",)
    table: ContentTable

    def expressions(self) -> list[Expr]:
        return self.table.expressions()

    def dynamic(self) -> list[Expr]:
        return self.table.dynamic()


class Coded(Tabled):
    """A code a row and a table of distinct contents; the first is MISSING."""

    __slots__ = ("_plain", "_used", "codes")

    def __init__(self, codes: Codes, table: ContentTable | None = None) -> None:
        super().__init__()
        self.codes = codes
        self.table = table if table is not None else ContentTable((MISSING,))
        self._plain: tuple[int, Kinds, Bits] | None = None
        self._used: tuple[int, int, Rows] | None = None

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def of(cls, contents: Sequence[Any]) -> Coded:
        """A column of contents, one after the other."""
        table = ContentTable((MISSING,))
        codes = table.codes(contents)
        return cls(np.array(codes, narrowest(len(table))), table)

    def get(self, row: int) -> Any:
        return self.table[self.codes[row]]

    def contents(self, rows: Iterable[int]) -> list[Any]:
        codes = self.codes[numbers(rows)]
        return list(map(self.table.__getitem__, codes.tolist()))

    def put(self, row: int, content: Any) -> None:
        code = self.table.code(content)
        codes = self.codes
        if codes.item(row) == code:
            return
        if code >> (codes.itemsize << 3):
            codes = self.codes = codes.astype(narrowest(code + 1))
        codes[row] = code
        self.version = stamp()

    def fill(self, rows: Rows | slice, contents: Sequence[Any]) -> None:
        codes = self.table.codes(contents)
        if len(self.table) - 1 >> (self.codes.itemsize << 3):
            self.codes = self.codes.astype(narrowest(len(self.table)))
        self.codes[rows] = codes
        self.version = stamp()

    def take(self, rows: Rows) -> Coded:
        return Coded(self.codes[rows], self.table)

    def copy(self, size: int, room: int) -> Coded:
        return Coded(with_capacity(self.codes, size, room), self.table)

    def missing(self, size: int) -> npt.NDArray[np.bool_]:
        return np.equal(self.codes[:size], 0)

    def content(self, name: str, code: int) -> dict[str, Any]:
        """The content of an ad that has an entry of the table under a name, and nothing else."""
        return {name: self.table[code]} if code else {}

    def used(self, size: int) -> Rows:
        """The codes that some of the first `size` rows have, in ascending order."""
        used = self._used
        if used is None or used[:2] != (self.version, size):
            used = self._used = self.version, size, used_codes(self.codes[:size], len(self.table))
        return used[2]

    def plain(self) -> tuple[Kinds, Bits]:
        """The kind and the bits of each entry of the table; OTHER for other values."""
        plain = self._plain
        if plain is None or plain[0] != len(self.table):
            table = self.table[:]
            plain = self._plain = (len(table), *encoded(table))
        return plain[1:]


def used_codes(codes: Codes, size: int) -> Rows:
    """Which of the codes below `size` occur, in ascending order."""
    if len(codes) << 2 < size:
        return np.unique(codes).astype(np.intp)
    return np.flatnonzero(np.bincount(codes, minlength=size))


class Numeric(Tabled):
    """A kind and 64 bits a row: those of the integer or real, else a code of the other contents."""

    __slots__ = ("bits", "kinds")

    def __init__(self, kinds: Kinds, bits: Bits, table: ContentTable) -> None:
        """`table` has the other contents."""
        super().__init__()
        self.kinds = kinds
        self.bits = bits
        self.table = table

    def __len__(self) -> int:
        return len(self.kinds)

    def get(self, row: int) -> Any:
        kind = self.kinds[row]
        if kind == INTEGER:
            return int(self.bits[row])
        if kind == REAL:
            return float(self.bits[row : row + 1].view(np.float64)[0])
        return MISSING if kind == ABSENT else self.table[self.bits[row]]

    def contents(self, rows: Iterable[int]) -> list[Any]:
        places = numbers(rows)
        kinds, bits = self.kinds[places], self.bits[places]
        found: list[Any] = bits.tolist()
        reals = np.flatnonzero(kinds == REAL)
        for place, real in zip(reals.tolist(), bits.view(np.float64)[reals].tolist(), strict=True):
            found[place] = real
        for place in np.flatnonzero((kinds != REAL) & (kinds != INTEGER)).tolist():
            found[place] = MISSING if kinds[place] == ABSENT else self.table[found[place]]
        return found

    def put(self, row: int, content: Any) -> None:
        if content.__class__ is int:
            kind, bits = INTEGER, content
        elif content.__class__ is float:
            kind, bits = REAL, bits_of(content)
        elif content is MISSING:
            kind, bits = ABSENT, 0
        else:
            kind, bits = OTHER, self.table.code(content)
        if self.bits.item(row) != bits or self.kinds.item(row) != kind:
            self.kinds[row], self.bits[row] = kind, bits
            self.version = stamp()

    def fill(self, rows: Rows | slice, contents: Sequence[Any]) -> None:
        kinds, bits = encoded(contents)
        for place in np.flatnonzero((kinds != INTEGER) & (kinds != REAL)).tolist():
            missing = contents[place] is MISSING
            kinds[place] = ABSENT if missing else OTHER
            bits[place] = 0 if missing else self.table.code(contents[place])
        self.kinds[rows], self.bits[rows] = kinds, bits
        self.version = stamp()

    def take(self, rows: Rows) -> Numeric:
        return Numeric(self.kinds[rows], self.bits[rows], self.table)

    def copy(self, size: int, room: int) -> Numeric:
        kinds, bits = with_capacity(self.kinds, size, room), with_capacity(self.bits, size, room)
        kinds[size:] = ABSENT
        return Numeric(kinds, bits, self.table)

    def missing(self, size: int) -> npt.NDArray[np.bool_]:
        return np.equal(self.kinds[:size], ABSENT)


class ObjectColumn(Column):
    """The contents of the rows, one by one."""

    __slots__ = ("rows",)

    def __init__(self, rows: list[Any]) -> None:
        super().__init__()
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def get(self, row: int) -> Any:
        return self.rows[row]

    def put(self, row: int, content: Any) -> None:
        if not same(self.get(row), content):
            self.rows[row] = content
            self.version = stamp()

    def fill(self, rows: Rows | slice, contents: Sequence[Any]) -> None:
        places = range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()
        for row, content in zip(places, contents, strict=True):
            self.rows[row] = content
        self.version = stamp()

    def take(self, rows: Rows) -> ObjectColumn:
        return ObjectColumn([self.rows[row] for row in rows.tolist()])

    def copy(self, size: int, room: int) -> ObjectColumn:
        return ObjectColumn(self.rows[:size] + [MISSING] * (room - size))

    def expressions(self) -> list[Expr]:
        held = self.contents(range(len(self.rows)))
        return list(dict.fromkeys(content for content in held if isinstance(content, Expr)))

    def missing(self, size: int) -> npt.NDArray[np.bool_]:
        return np.fromiter((c is MISSING for c in self.rows[:size]), np.bool_, size)


class StoredColumn(Column):
    """A column in a file, and its length. It never changes: the copies that are made do."""

    __slots__ = ("_found", "_read", "_size")

    def __init__(self, read: Callable[[], Column], size: int) -> None:
        super().__init__()
        self._read = read
        self._size = size
        self._found: Column | None = None

    def column(self) -> Column:
        """Return the column in memory; it stays there until it is released."""
        found = self._found
        if found is None:
            found = self._read()
            found.version = self.version
            found.shown = True
            self._found = found
        return found

    def release(self) -> None:
        """Drop the column from memory."""
        self._found = None

    def __len__(self) -> int:
        return self._size

    def get(self, row: int) -> Any:
        return self.column().get(row)

    def take(self, rows: Rows) -> Column:
        return self.column().take(rows)

    def copy(self, size: int, room: int) -> Column:
        return self.column().copy(size, room)


def in_memory(column: Column) -> Column:
    """The column, read if need be."""
    return column.column() if isinstance(column, StoredColumn) else column
