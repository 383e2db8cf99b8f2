"""Which form a column has: the one in which its contents take the least room."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from matchmaker.matching.columns.column import Coded, Column, Numeric, Rows, Table, narrowest
from matchmaker.matching.columns.contents import ABSENT, MISSING, OTHER, encoded
from matchmaker.matching.columns.loose import Loose
from matchmaker.matching.columns.texts import Texts, texts

MANY: Final = 4096
"""With more distinct contents than this, and few rows to each, a column is not coded."""

FEW: Final = 64
"""Of fewer contents nobody can tell whether they hardly repeat."""

_NUMBERS: Final = 4
_STRINGS: Final = 2
"""A column is not coded, either, if there are less than so many rows to a number or a string."""


def settled(column: Column, size: int) -> Column:
    """The column in the form that suits its first `size` rows.

    A coded one whose contents hardly repeat gets another form; one whose table or heap is full of
    what no row holds any more gets a new one. What the rows hold stays as it is, and so does the
    version.
    """
    fresh = column
    many = max(MANY, size // 4)
    if isinstance(column, Coded):
        if len(column.table) > many:
            fresh = _recoded(column, size, many)
    elif isinstance(column, Numeric):
        if len(column.table) > many:
            fresh = _with_fewer_others(column, column.kinds == OTHER, column.bits, size, many)
    elif isinstance(column, Texts):
        if len(column.table) > many:
            other = column.other(len(column.starts))
            fresh = _with_fewer_others(column, other, column.starts, size, many)
        elif column.waste > 1 << 16 and 2 * column.waste > column.heap.used:
            fresh = column.repacked()
    fresh.version = column.version
    return fresh


def compact(column: Column, size: int) -> Column:
    """The column in the form in which its first `size` rows take the least room, or nearly so.

    What entered in blocks may have seemed to be new each time, or to come again.
    """
    fresh = uncoded(column, size) if isinstance(column, Coded) else _repeating(column, size)
    fresh.version = column.version
    return fresh


def uncoded(column: Column, size: int) -> Column:
    """The column, or one of bare numbers or strings: their objects take more than a few codes."""
    if not isinstance(column, Coded):
        return column
    column.table.forget()
    distinct = len(column.table) - 1
    if distinct < FEW or distinct * _NUMBERS <= size:
        return column
    kinds = list(map(type, column.table))
    fresh: Column = column
    if 4 * (kinds.count(int) + kinds.count(float)) >= 3 * distinct:
        fresh = _numeric(column)
    elif 4 * kinds.count(str) >= 3 * distinct and distinct * _STRINGS > size:
        fresh = _texts(column)
    fresh.version = column.version
    return fresh


def _repeating(column: Column, size: int) -> Column:
    """The column, or a coded one where its first `size` rows hold few numbers that come again."""
    if not isinstance(column, Numeric):
        return column
    most = MANY // 2 if size > MANY else size // _NUMBERS
    if len(np.unique(column.bits[: size : 1 + size // (MANY + 1)])) > most:
        return column
    table = Table((MISSING,))
    codes = np.zeros(len(column), np.uint16)
    for kind in np.unique(column.kinds[:size]).tolist():
        rows = np.flatnonzero(column.kinds[:size] == kind)
        _, firsts, places = np.unique(column.bits[rows], return_index=True, return_inverse=True)
        if len(table) + len(firsts) > MANY:
            return column
        held = np.array(table.codes(column.contents(rows[firsts].tolist())), np.uint16)
        codes[rows] = held[places]
    return Coded(codes.astype(narrowest(len(table))), table)


def unshared(column: Column) -> Column:
    """A copy in which numbers may be put at any time, without regard to who reads the original."""
    return _numeric(column) if isinstance(column, Coded) else column.take(np.arange(len(column)))


def of_form(pattern: Column, column: Coded) -> Column:
    """A coded column in the form that another has, which is not coded."""
    if isinstance(pattern, Numeric):
        return _numeric(column)
    return _texts(column) if isinstance(pattern, Texts) else _loose(column, len(column))


def _recoded(column: Coded, size: int, many: int) -> Column:
    table = column.table
    used = np.flatnonzero(np.bincount(column.codes[:size], minlength=len(table)))
    if len(used) <= many // 2:
        return _coded(column, used)
    held = [table[code].__class__ for code in used.tolist()]
    if 4 * sum(kind in (int, float) for kind in held) >= 3 * len(held):
        return _numeric(column)
    if 4 * held.count(str) >= 3 * len(held):
        return _texts(column)
    return _loose(column, size)


def _coded(column: Coded, used: Rows) -> Coded:
    table = Table((MISSING,))
    moved = np.zeros(len(column.table), np.uint32)
    moved[used] = table.codes([column.table[code] for code in used.tolist()])
    return Coded(moved[column.codes].astype(narrowest(len(table))), table)


def _numeric(column: Coded) -> Numeric:
    kinds, bits = encoded(column.table)
    others = Table()
    for code, content in enumerate(column.table):
        if content.__class__ not in (int, float):
            kinds[code], bits[code] = OTHER, others.code(content)
    kinds[0] = ABSENT
    return Numeric(kinds[column.codes], bits[column.codes], others)


def _texts(column: Coded) -> Texts:
    table = column.table
    entries = texts([content if content.__class__ is str else "" for content in table])
    for code, content in enumerate(table):
        if content.__class__ is not str:
            entries.put(code, content)
    return entries.take(column.codes.astype(np.intp))


def _loose(column: Column, size: int) -> Loose:
    return Loose(column.contents(range(size)) + [MISSING] * (len(column) - size))


def _with_fewer_others(
    column: Numeric | Texts, other: Any, codes: Any, size: int, many: int
) -> Column:
    """The same without those of the other contents that no row holds any more.

    Where too many are left, numbers or strings are no longer what the column is about.
    """
    used = np.unique(codes[other])
    if len(used) > many // 2:
        return _loose(column, size)
    others = Table((MISSING,)) if isinstance(column, Texts) else Table()
    moved = codes.copy()
    places = others.codes([column.table[code] for code in used.tolist()])
    moved[other] = np.array(places)[np.searchsorted(used, codes[other])]
    if isinstance(column, Texts):
        return Texts(moved, column.lengths.copy(), column.heap, others, column.waste)
    return Numeric(column.kinds.copy(), moved, others)
