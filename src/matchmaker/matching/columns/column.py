"""One attribute of many ads: what each row holds, in as little space as its contents allow.

A *content* is what an ad holds under a name (``ClassAd.content``): a plain value or an expression,
or MISSING where the row's ad lacks the attribute. Three forms of a column:

- ``Coded``: a small number a row and a table of the distinct contents, for what repeats.
- ``Numeric``: a kind and 64 bits a row, for numbers that hardly repeat.
- ``Loose``: the contents themselves, for anything else that hardly repeats.

Which rows there are is the affair of ``store``; what expressions make of columns, of ``evaluator``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

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
    literal,
)
from matchmaker.classad.values import ErrorType, UndefinedType

Bits: TypeAlias = "npt.NDArray[np.int64]"
Codes: TypeAlias = "npt.NDArray[np.unsignedinteger[Any]]"
Kinds: TypeAlias = "npt.NDArray[np.uint8]"
Rows: TypeAlias = "npt.NDArray[np.intp]"


class Missing:
    """The class of what a row holds under a name that its ad lacks."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()

# The kinds of plain values, as rows of numbers know them. A truth is one of the first four.
FALSE, TRUE, UNDEFINED_KIND, ERROR_KIND, INTEGER, REAL, OTHER, ABSENT = range(8)

_THEMSELVES: Final[frozenset[type]] = frozenset({str, int, bool, UndefinedType, timedelta}) | {
    Attr, Unary, Binary, Ternary, Call, Subscript, ListExpr, AdExpr,
}  # fmt: skip
"""The classes of contents that are their own stand-ins."""

MANY: Final = 4096
"""With more distinct contents than this, and few rows to each, a column is not coded."""

_stamps = count(1)


def stamp() -> int:
    """A number never given before: the version of a column that has changed."""
    return next(_stamps)


def identity(content: Any) -> Any:
    """A hashable stand-in that tells contents of one class apart as ads do: 0.0 from -0.0.

    >>> identity(0.0) == identity(-0.0), identity(2) == identity(2)
    (False, True)
    """
    kind = content.__class__
    if kind is float:
        return repr(content) if not content or math.isnan(content) else content
    if kind is datetime:
        return content, content.utcoffset()
    if kind is ErrorType:
        return content.reason
    if kind is list:
        return literal(content)
    return content


def _same(one: Any, other: Any) -> bool:
    return one is other or (
        one.__class__ is other.__class__ and bool(identity(one) == identity(other))
    )


def narrowest(size: int) -> type[np.unsignedinteger[Any]]:
    """The narrowest type for codes below `size`."""
    return np.uint8 if size <= 1 << 8 else np.uint16 if size <= 1 << 16 else np.uint32


def _grown(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    larger = np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger


class Column:
    """What the forms have in common.

    ``version`` changes with every change of a cell; ``shown`` notes that a view may show the
    column, so that it must not be changed.
    """

    __slots__ = ("_lacks", "shown", "version")

    def __init__(self) -> None:
        self.version = stamp()
        self.shown = False
        self._lacks = (0, 0, False)

    def get(self, row: int) -> Any:
        """The content of a row."""
        raise NotImplementedError

    def put(self, row: int, content: Any) -> None:
        """Sets the content of a row that there is room for."""
        raise NotImplementedError

    def fill(self, rows: slice, contents: Sequence[Any]) -> None:
        """Sets the contents of rows that follow each other."""
        for row, content in zip(range(rows.start, rows.stop), contents, strict=True):
            self.put(row, content)

    def grow(self, size: int) -> None:
        """Makes room for that many rows; new ones are MISSING."""
        raise NotImplementedError

    def take(self, rows: Rows | slice) -> Column:
        """A column of some of the rows, which may change while this one does not."""
        raise NotImplementedError

    def expressions(self) -> list[Expr]:
        """The distinct expressions among the contents; some may be of rows that are gone."""
        raise NotImplementedError

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


class Coded(Column):
    """A code a row and a table of distinct contents, of which the first is MISSING.

    The table only grows, so that columns copied from each other share it.
    """

    __slots__ = ("_found", "_plain", "codes", "index", "table")

    def __init__(self, size: int = 0) -> None:
        super().__init__()
        self.codes: Codes = np.zeros(size, np.uint8)
        self.table: list[Any] = [MISSING]
        self.index: dict[type, dict[Any, int]] = {}
        self._found: tuple[int, list[Expr]] = (0, [])
        self._plain: tuple[int, Kinds, Bits] | None = None

    def get(self, row: int) -> Any:
        """The content of a row."""
        return self.table[self.codes[row]]

    def code(self, content: Any) -> int:
        """The code of a content, which enters the table if it is new."""
        kind = content.__class__
        known = self.index.get(kind)
        if known is None:
            if content is MISSING:
                return 0
            known = self.index[kind] = {}
        key = content if kind in _THEMSELVES else identity(content)
        code = known.get(key)
        if code is None:
            code = known[key] = len(self.table)
            self.table.append(content)
        return code

    def put(self, row: int, content: Any) -> None:
        """Sets the content of a row."""
        code = self.code(content)
        codes = self.codes
        if code >> (codes.itemsize << 3):
            codes = self.codes = codes.astype(narrowest(code + 1))
        if codes[row] != code:
            codes[row] = code
            self.version = stamp()

    def fill(self, rows: slice, contents: Sequence[Any]) -> None:
        """Sets the contents of rows that follow each other."""
        kinds = set(map(type, contents))
        kind = kinds.pop()
        codes: list[Any] = []
        if not kinds and kind in _THEMSELVES and kind in self.index:
            codes = list(map(self.index[kind].get, contents))
        if not codes or None in codes:
            codes = list(map(self.code, contents))
        if len(self.table) - 1 >> (self.codes.itemsize << 3):
            self.codes = self.codes.astype(narrowest(len(self.table)))
        self.codes[rows] = codes
        self.version = stamp()

    def grow(self, size: int) -> None:
        """Makes room for that many rows."""
        self.codes = _grown(self.codes, size)

    def take(self, rows: Rows | slice) -> Coded:
        """A column of some of the rows."""
        twin = Coded()
        twin.codes, twin.table, twin.index = self.codes[rows].copy(), self.table, self.index
        return twin

    def expressions(self) -> list[Expr]:
        """The distinct expressions among the contents."""
        seen, found = self._found
        if seen < len(self.table):
            fresh = self.table[seen:]
            found = found + [c for c in fresh if isinstance(c, Expr)]
            self._found = (seen + len(fresh), found)
        return found

    def missing(self, size: int) -> npt.NDArray[np.bool_]:
        """Which of the first `size` rows lack the attribute."""
        return np.equal(self.codes[:size], 0)

    def entries(self) -> Coded:
        """A column that has each entry of the table once, MISSING first."""
        twin = Coded()
        twin.table, twin.index = self.table[:], self.index
        twin.codes = np.arange(len(twin.table), dtype=narrowest(len(twin.table)))
        return twin

    def plain(self) -> tuple[Kinds, Bits]:
        """The kind and the bits of each entry of the table; OTHER where it is no plain value."""
        plain = self._plain
        if plain is None or plain[0] != len(self.table):
            table = self.table[:]
            plain = self._plain = (len(table), *encoded(table))
        return plain[1:]


class Numeric(Column):
    """A kind and 64 bits a row: those of the integer or real, else a place among the others."""

    __slots__ = ("bits", "kinds", "others")

    def __init__(self, kinds: Kinds, bits: Bits, others: list[Any]) -> None:
        super().__init__()
        self.kinds = kinds
        self.bits = bits
        self.others = others

    def get(self, row: int) -> Any:
        """The content of a row."""
        kind = self.kinds[row]
        if kind == INTEGER:
            return int(self.bits[row])
        if kind == REAL:
            return float(self.bits[row : row + 1].view(np.float64)[0])
        return MISSING if kind == ABSENT else self.others[self.bits[row]]

    def put(self, row: int, content: Any) -> None:
        """Sets the content of a row."""
        if content.__class__ is int:
            kind, bits = INTEGER, content
        elif content.__class__ is float:
            kind, bits = REAL, _bits_of(content)
        elif content is MISSING:
            kind, bits = ABSENT, 0
        else:
            if self.kinds[row] == OTHER and _same(self.get(row), content):
                return
            kind, bits = OTHER, len(self.others)
            self.others.append(content)
        if self.bits[row] != bits or self.kinds[row] != kind:
            self.kinds[row], self.bits[row] = kind, bits
            self.version = stamp()

    def grow(self, size: int) -> None:
        """Makes room for that many rows."""
        before = len(self.kinds)
        self.kinds, self.bits = _grown(self.kinds, size), _grown(self.bits, size)
        self.kinds[before:] = ABSENT

    def take(self, rows: Rows | slice) -> Numeric:
        """A column of some of the rows."""
        return Numeric(self.kinds[rows].copy(), self.bits[rows].copy(), self.others)

    def expressions(self) -> list[Expr]:
        """The distinct expressions among the contents."""
        return list(dict.fromkeys(filter(_is_expression, self.others)))

    def missing(self, size: int) -> npt.NDArray[np.bool_]:
        """Which of the first `size` rows lack the attribute."""
        return np.equal(self.kinds[:size], ABSENT)


class Loose(Column):
    """The contents of the rows, one by one."""

    __slots__ = ("rows",)

    def __init__(self, rows: list[Any]) -> None:
        super().__init__()
        self.rows = rows

    def get(self, row: int) -> Any:
        """The content of a row."""
        return self.rows[row]

    def put(self, row: int, content: Any) -> None:
        """Sets the content of a row."""
        if not _same(self.rows[row], content):
            self.rows[row] = content
            self.version = stamp()

    def grow(self, size: int) -> None:
        """Makes room for that many rows."""
        self.rows.extend([MISSING] * (size - len(self.rows)))

    def take(self, rows: Rows | slice) -> Loose:
        """A column of some of the rows."""
        return Loose(self.rows[rows] if isinstance(rows, slice) else self.contents(rows.tolist()))

    def expressions(self) -> list[Expr]:
        """The distinct expressions among the contents."""
        return list(dict.fromkeys(filter(_is_expression, self.rows)))

    def missing(self, size: int) -> npt.NDArray[np.bool_]:
        """Which of the first `size` rows lack the attribute."""
        return np.fromiter((c is MISSING for c in self.rows[:size]), np.bool_, size)


def _is_expression(content: Any) -> bool:
    return isinstance(content, Expr)


def _bits_of(real: float) -> int:
    return int(np.float64(real).view(np.int64))


def encoded(contents: Sequence[Any]) -> tuple[Kinds, Bits]:
    """Contents as kinds and bits; OTHER, with no bits, for what is neither number nor truth."""
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


def settled(column: Column, size: int) -> Column:
    """The column in the form that suits its first `size` rows best.

    A coded one whose contents hardly repeat becomes numeric or loose, and one whose table is full
    of what no row holds any more gets a new table. The others stay as they are.
    """
    if not isinstance(column, Coded) or len(column.table) <= max(MANY, size // 4):
        return column
    used = np.unique(column.codes[:size])
    if len(used) <= max(MANY // 2, size // 8):
        return _retabled(column, used)
    numbers = sum(c.__class__ in (int, float) for c in column.table)
    if 4 * numbers >= 3 * len(column.table):
        return _numeric(column)
    capacity = len(column.codes)
    rows = column.contents(range(size))
    return Loose(rows + [MISSING] * (capacity - size))


def _retabled(column: Coded, used: Codes) -> Coded:
    fresh = Coded()
    moved = np.zeros(len(column.table), np.uint32)
    for code in used.tolist():
        moved[code] = fresh.code(column.table[code])
    fresh.codes = moved[column.codes].astype(narrowest(len(fresh.table)))
    return fresh


def unshared(column: Column) -> Column:
    """A copy in which numbers may be put at any time, without regard to who reads the original."""
    return _numeric(column) if isinstance(column, Coded) else column.take(slice(None))


def _numeric(column: Coded) -> Numeric:
    table = column.table[:]
    kinds, bits = encoded(table)
    others: list[Any] = []
    for code, content in enumerate(table):
        if content.__class__ not in (int, float):
            kinds[code], bits[code] = OTHER, len(others)
            others.append(content)
    kinds[0] = ABSENT
    return Numeric(kinds[column.codes], bits[column.codes], others)
