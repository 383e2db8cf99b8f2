"""Columns of the texts of values: what hardly repeats at the speed of Arrow, the rest once each.

Integers, reals and strings as they mostly are written are converted all at once. Every other text
is read by the readers of ``classad``, once for all ads that have it: so expressions are interned.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any, Final, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from matchmaker.classad.deferred import Deferred
from matchmaker.matching.columns.arrow import coded, strings
from matchmaker.matching.columns.arrow_types import Array, array_of, numpy_of, pyarrow
from matchmaker.matching.columns.column import (
    Coded,
    Column,
    Numeric,
    Rows,
    Table,
    narrowest,
)
from matchmaker.matching.columns.contents import (
    ABSENT,
    FALSE,
    INTEGER,
    MISSING,
    OTHER,
    REAL,
    TRUE,
    Bits,
    Kinds,
)
from matchmaker.matching.columns.entering import entered
from matchmaker.matching.columns.loose import Loose
from matchmaker.matching.columns.texts import Texts, without
from matchmaker.matching.filling import alike

Contents: TypeAlias = "Callable[[list[str]], list[Any]]"
"""What ads hold for texts of values, None for one that cannot be read."""
Mask: TypeAlias = "npt.NDArray[np.bool_]"

_NO_ROWS: Final = np.zeros(0, np.intp)
SAMPLE: Final = 64
OFTEN: Final = 4
_INTEGER: Final = r"^(?:0|-?[1-9][0-9]{0,17})$"
_REAL: Final = r"^-?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,40}(?:[eE][+-]?[0-9]{1,2})?$"
_STRING: Final = r'^"[^"\\\x00-\x1f]*"$'


@attrs.frozen(slots=True, eq=False)
class Values:
    """The texts of values, and what those are that are numbers or truths in their common spelling.

    Kinds and bits are those of a column of numbers; the kind of all else is OTHER.
    """

    texts: Array
    kinds: Kinds
    bits: Bits

    def __len__(self) -> int:
        return len(self.kinds)

    def slice(self, begin: int, length: int) -> Values:
        """Some of them, side by side."""
        some = slice(begin, begin + length)
        return Values(self.texts.slice(begin, length), self.kinds[some], self.bits[some])


def values_of(texts: Array) -> Values:
    """The values of texts, whatever their attributes: one conversion for all of a kind."""
    pa = pyarrow()
    size = len(texts)
    kinds, bits = np.full(size, OTHER, np.uint8), np.zeros(size, np.int64)
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + size + 1]
    held = np.frombuffer(data or b" ", np.uint8)
    first, last = held.take(ends[:-1], mode="clip"), held.take(ends[1:] - 1, mode="clip")
    lengths = ends[1:] - ends[:-1]
    # Counters mostly count nothing, or little.
    digits = (lengths == 1) & np.take(_DIGIT, last)
    kinds[digits] = INTEGER
    bits[digits] = last[digits] - ord("0")
    places = np.flatnonzero((lengths > 1) & np.take(_BEGINS, first) & np.take(_DIGIT, last))
    numbers = texts.take(array_of(places))
    for pattern, kind, as_ in ((_INTEGER, INTEGER, pa.int64()), (_REAL, REAL, pa.float64())):
        found = _like(numbers, pattern)
        kinds[places[found]] = kind
        bits[places[found]] = numpy_of(numbers.filter(array_of(found)).cast(as_)).view(np.int64)
        places, numbers = places[~found], numbers.filter(array_of(~found))
    places = np.flatnonzero((lengths > 3) & (lengths < 6) & (last == _TRUTHS_END))
    words = texts.take(array_of(places))
    for pattern, truth in (("^false$", FALSE), ("^true$", TRUE)):
        said = places[_like(words, pattern)]
        kinds[said] = bits[said] = truth
    return Values(texts, kinds, bits)


_DIGIT: Final = np.isin(np.arange(256), [*b"0123456789"])
_BEGINS: Final = _DIGIT | (np.arange(256) == ord("-"))
_TRUTHS_END: Final = ord("e")


def column_of(values: Values, contents_of: Contents) -> tuple[Column, Rows]:
    """The column of values, and which of them cannot be read."""
    if _hardly_repeats(values):
        plain = _strings(values.texts) if values.kinds[0] == OTHER else None
        found = (plain, _NO_ROWS) if plain is not None else _mixed(values, contents_of)
        if found is not None:
            return found
    if not (values.kinds == OTHER).any():
        return _repeating(values), _NO_ROWS
    return _one_by_one(values.texts, contents_of)


def _hardly_repeats(values: Values) -> bool:
    if len(values) < SAMPLE:
        return False
    sample = values.slice(0, SAMPLE)
    if (sample.kinds == OTHER).any():
        distinct = len(sample.texts.dictionary_encode().dictionary)
    else:
        distinct = len(set(zip(sample.kinds.tolist(), sample.bits.tolist(), strict=True)))
    return 4 * distinct > SAMPLE


def _repeating(values: Values) -> Column:
    """The column of numbers and truths of which each distinct one is kept once."""
    codes = numpy_of(values.texts.dictionary_encode().indices)
    # The last to be written is the first of its code.
    firsts = np.zeros(int(codes.max(initial=-1)) + 1, np.intp)
    firsts[codes[::-1]] = np.arange(len(codes))[::-1]
    kinds, bits = values.kinds[firsts], values.bits[firsts]
    table = Table((MISSING,))
    moved = np.zeros(len(firsts), np.intp)
    for kind in (FALSE, TRUE, INTEGER, REAL):
        some = kinds == kind
        held = bits[some]
        contents = held.view(np.float64) if kind == REAL else held
        moved[some] = table.codes((contents if kind in _NUMBERS else held == 1).tolist())
    return Coded(moved[codes].astype(narrowest(len(table))), table)


_NUMBERS: Final = (INTEGER, REAL)


def _one_by_one(values: Array, contents_of: Contents) -> tuple[Column, Rows]:
    """Each distinct text is read once."""
    distinct = values.dictionary_encode()
    contents = _contents(distinct.dictionary.to_pylist(), contents_of)
    codes = numpy_of(distinct.indices)
    deferred = [content.__class__ is Deferred for content in contents]
    if OFTEN * sum(deferred) > len(values):
        # Most of these expressions are hardly ever looked at.
        column: Column = Loose([contents[code] for code in codes.tolist()])
    else:
        held = [each.held if late else each for each, late in zip(contents, deferred, strict=True)]
        column = coded(codes, [MISSING if each is None else each for each in held])
    unread = [code for code, content in enumerate(contents) if content is None]
    bad = np.flatnonzero(np.isin(codes, unread)) if unread else _NO_ROWS
    return column, bad


def _contents(texts: list[str], contents_of: Contents) -> list[Any]:
    """What `contents_of` gives; many expressions that are alike are not read one by one."""
    if len(texts) < SAMPLE or 2 * sum(map(str.startswith, texts[:SAMPLE], _PLAIN)) > SAMPLE:
        return contents_of(texts)
    sure = alike.known(texts)
    rest = iter(contents_of([text for text, one in zip(texts, sure, strict=True) if not one]))
    pairs = zip(texts, sure, strict=True)
    return [Deferred(text.strip()) if one else next(rest) for text, one in pairs]


_PLAIN: Final = repeat(('"', *"-0123456789"))


def _mixed(values: Values, contents_of: Contents) -> tuple[Column, Rows] | None:
    """The column where most are numbers, or most are strings; None where they are neither."""
    size, enough = len(values), 3 * len(values) // 4
    column: Column
    others = values.kinds == OTHER
    truths = (values.kinds == FALSE) | (values.kinds == TRUE)
    if size - np.count_nonzero(others | truths) >= enough:
        kinds = values.kinds.copy()
        kinds[others], kinds[truths] = ABSENT, OTHER
        # The bits of a truth are its code.
        column = Numeric(kinds, values.bits.copy(), Table((False, True) if truths.any() else ()))
    elif np.count_nonzero(string := _like(values.texts, _STRING)) >= enough:
        column = without(size)
        others = ~string
        part = _strings(values.texts.filter(array_of(string)))
        if part is None:
            return None
        column = entered(column, np.flatnonzero(string), part, size)
    else:
        return None
    places = np.flatnonzero(others)
    if not len(places):
        return column, places
    rest, bad = _one_by_one(values.texts.take(array_of(places)), contents_of)
    return entered(column, places, rest, size), places[bad]


def _like(values: Array, pattern: str) -> Mask:
    import pyarrow.compute as pc

    found: Mask = numpy_of(pc.match_substring_regex(values, pattern))
    return found


def _strings(values: Array) -> Texts | None:
    """The column of texts that are all strings without quotes or escapes in them."""
    import pyarrow.compute as pc

    pa = pyarrow()
    quoted = pc.and_(pc.starts_with(values, '"'), pc.ends_with(values, '"'))
    if not pc.all(quoted).as_py() or pc.min(pc.binary_length(values)).as_py() < 2:
        return None
    found = strings(pc.binary_slice(values.view(pa.binary()), 1, -1).cast(pa.large_string()))
    return None if _ODD[found.heap.data].any() else found


_ODD: Final = np.isin(np.arange(256), [*range(32), *b'"\\'])
"""The bytes in a string that say that there is more to it."""
