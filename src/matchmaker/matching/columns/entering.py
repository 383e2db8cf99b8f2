"""Rows of a column set from another column, form by form: how blocks of ads enter a store."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from matchmaker.matching.columns import forms, sparse
from matchmaker.matching.columns.column import Coded, Column, Numeric, Rows, narrowest, stamp
from matchmaker.matching.columns.contents import OTHER
from matchmaker.matching.columns.loose import Loose
from matchmaker.matching.columns.sparse import Sparse
from matchmaker.matching.columns.texts import Texts, greatest

_SURE: Final = 256
"""The number of rows from which contents that hardly repeat are expected to go on so."""


def entered(column: Column, rows: Rows | slice, other: Column, size: int) -> Column:
    """A column whose rows hold what another holds, one after the other.

    It is the column itself, to which no view may hold on, or one of another form: of a pool of
    `size` rows.
    """
    if isinstance(column, Sparse) and (len(column.held) + len(other)) * sparse.SPARSE >= size:
        column = column.coded()
    if isinstance(column, Coded):
        if isinstance(other, Coded):
            _codes(column, rows, other)
            return column
        fresh = len(column.table) == 1 and len(other) >= _SURE
        if fresh or len(column.table) + len(other) > max(forms.MANY, size // 4):
            column = forms.of_form(other, column)
    if isinstance(other, Coded) and isinstance(column, (Numeric, Texts)):
        other = forms.of_form(column, other)
    if isinstance(column, Loose) and isinstance(other, Loose):
        column.fill(rows, other.rows)
    elif isinstance(column, Numeric) and isinstance(other, Numeric):
        _numbers(column, rows, other)
    elif isinstance(column, Texts) and isinstance(other, Texts):
        _strings(column, rows, other)
    else:
        column.fill(rows, other.contents(range(len(other))))
    return column


def _codes(column: Coded, rows: Rows | slice, other: Coded) -> None:
    if len(column.table) == 1:
        column.table = other.table.twin()
        moved = np.arange(len(column.table))
    else:
        moved = np.array([0, *column.table.codes(other.table[1:])], np.intp)
    if len(column.table) - 1 >> (column.codes.itemsize << 3):
        column.codes = column.codes.astype(narrowest(len(column.table)))
    column.codes[rows] = moved[other.codes]
    column.version = stamp()


def _numbers(column: Numeric, rows: Rows | slice, other: Numeric) -> None:
    column.kinds[rows] = other.kinds
    column.bits[rows] = _with_codes(column, other, other.kinds == OTHER, other.bits)
    column.version = stamp()


def _strings(column: Texts, rows: Rows | slice, other: Texts) -> None:
    begin = column.heap.add(other.heap.data[: other.heap.used].tobytes())
    elsewhere = other.other(len(other))
    starts = _with_codes(column, other, elsewhere, other.starts.astype(np.int64) + begin)
    lengths = other.lengths.astype(np.int64)
    column.reach(int(starts.max(initial=0)), int(lengths[~elsewhere].max(initial=0)))
    lengths[elsewhere] = greatest(column.lengths)
    before = column.lengths[rows]
    column.waste += int(before[before < greatest(column.lengths)].sum()) + other.waste
    column.starts[rows], column.lengths[rows] = starts, lengths
    column.version = stamp()


def _with_codes(column: Numeric | Texts, other: Numeric | Texts, elsewhere: Any, held: Any) -> Any:
    """What the rows of another column hold, with the codes of this one's table where it counts."""
    if not elsewhere.any():
        return held
    moved = np.array(column.table.codes(other.table), np.int64)
    codes = other.bits if isinstance(other, Numeric) else other.starts
    held = held.copy()
    held[elsewhere] = moved[codes[elsewhere].astype(np.intp)]
    return held
