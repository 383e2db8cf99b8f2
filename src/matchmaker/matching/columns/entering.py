"""How ads enter a store: what they hold by attribute, as columns, and those set into its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import methodcaller
from typing import Any, Final

import numpy as np

from matchmaker.classad.ad import ClassAd
from matchmaker.matching.columns import forms, sparse
from matchmaker.matching.columns.column import (
    Coded,
    Column,
    Numeric,
    Rows,
    Table,
    narrowest,
    stamp,
)
from matchmaker.matching.columns.contents import ABSENT, OTHER, encoded
from matchmaker.matching.columns.loose import Loose
from matchmaker.matching.columns.sparse import Sparse
from matchmaker.matching.columns.texts import Texts, greatest, without
from matchmaker.matching.columns.views import Layout, NumberedNames

_SURE: Final = 256
"""The number of rows from which contents that hardly repeat are expected to go on so."""


def by_attribute(
    ads: Sequence[ClassAd], names: NumberedNames
) -> tuple[list[Layout], Iterator[tuple[str, Rows, list[Any]]]]:
    """Sort the contents of ads by attribute.

    Returns the layout of each ad, and for each folded name the numbers of the ads that have the
    attribute, with their contents. Ads of one pool have hundreds of attributes, and hardly two ads
    the same ones: so the contents of all ads are sorted at once.
    """
    held = [ad._held for ad in ads]
    counts = np.fromiter(map(len, held), np.intp, len(held))
    total = int(counts.sum())
    numbers = names.order(chain.from_iterable(held), total)
    parts = np.split(numbers, np.cumsum(counts)[:-1])
    layouts = [Layout(names, part, ad._names) for part, ad in zip(parts, ads, strict=True)]
    contents = np.empty(total, object)
    contents[:] = list(chain.from_iterable(map(_values, held)))
    # A stable sort of 16 bits goes by their digits: it takes no comparisons.
    order = np.argsort(numbers, kind="stable")
    rows = np.repeat(np.arange(len(held)), counts)[order]
    return layouts, _cut(names, np.bincount(numbers), rows, contents[order])


def _cut(
    names: NumberedNames, sizes: Rows, rows: Rows, contents: Any
) -> Iterator[tuple[str, Rows, list[Any]]]:
    begin = 0
    for number, size in enumerate(sizes.tolist()):
        if size:
            some = slice(begin, begin + size)
            yield names.by_number[number], rows[some], contents[some].tolist()
            begin += size


_values: Final = methodcaller("values")


def column_of(contents: list[Any]) -> Column:
    """Make a column of contents, in the form that takes the least room."""
    # That 1, 1.0 and true count as one here makes no difference to speak of.
    if len(contents) >= forms.FEW and 2 * len(set(contents)) > len(contents):
        return hardly_repeating(contents) or Coded.of(contents)
    return Coded.of(contents)


def hardly_repeating(contents: list[Any]) -> Column | None:
    """A column of mostly numbers or mostly strings; None where they are neither."""
    size = len(contents)
    kinds = list(map(type, contents))
    integers, reals, strings = map(kinds.count, (int, float, str))
    column: Column
    if integers + reals == size:
        return Numeric(*encoded(contents), Table())
    if 4 * (integers + reals) >= 3 * size:
        column = Numeric(np.full(size, ABSENT, np.uint8), np.zeros(size, np.int64), Table())
    elif 4 * strings >= 3 * size:
        column = without(size)
    else:
        return None
    for kind in dict.fromkeys(kinds):
        # A column takes contents of one kind together.
        places = [at for at, each in enumerate(kinds) if each is kind]
        column.fill(np.array(places), [contents[at] for at in places])
    return column


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
