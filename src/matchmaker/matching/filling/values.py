"""Columns of the texts of values: what hardly repeats at the speed of Arrow, the rest once each.

Integers, reals and strings as they mostly are written are converted all at once. Every other text
is read by the readers of ``classad``, once for all ads that have it: so expressions are interned.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import repeat
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from matchmaker.classad.deferred import Deferred
from matchmaker.matching.columns.arrow import coded, strings
from matchmaker.matching.columns.arrow_types import Array, array_of, numpy_of, pyarrow
from matchmaker.matching.columns.column import Column, Numeric, Rows, Table
from matchmaker.matching.columns.contents import ABSENT, INTEGER, MISSING, REAL
from matchmaker.matching.columns.entering import entered
from matchmaker.matching.columns.loose import Loose
from matchmaker.matching.columns.texts import Heap, Texts
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


def column_of(values: Array, contents_of: Contents) -> tuple[Column, Rows]:
    """The column of the texts of values, and which of them cannot be read."""
    sample = values.slice(0, SAMPLE)
    if len(sample) == SAMPLE and 4 * len(sample.dictionary_encode().dictionary) > SAMPLE:
        plain = _integers(values) or _strings(values)
        found = (plain, _NO_ROWS) if plain is not None else _mixed(values, contents_of)
        if found is not None:
            return found
    return _one_by_one(values, contents_of)


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


def _mixed(values: Array, contents_of: Contents) -> tuple[Column, Rows] | None:
    """The column where most are numbers, or most are strings; None where they are neither."""
    integer = _like(values, _INTEGER)
    real = ~integer
    real[real] = _like(values.filter(array_of(real)), _REAL)
    size, enough = len(values), 3 * len(values) // 4
    column: Column
    parts: list[tuple[Mask, Callable[[Array], Column | None]]]
    if np.count_nonzero(integer | real) >= enough:
        column = Numeric(np.full(size, ABSENT, np.uint8), np.zeros(size, np.int64), Table())
        others = ~(integer | real)
        parts = [(integer, _integers), (real, _reals)]
    elif np.count_nonzero(string := _like(values, _STRING)) >= enough:
        lengths = np.full(size, 255, np.uint8)
        column = Texts(np.zeros(size, np.uint32), lengths, Heap(), Table((MISSING,)))
        others, parts = ~string, [(string, _strings)]
    else:
        return None
    for mask, read in parts:
        part = read(values.filter(array_of(mask))) if mask.any() else None
        if part is not None:
            column = entered(column, np.flatnonzero(mask), part, size)
        else:
            others = others | mask
    places = np.flatnonzero(others)
    if not len(places):
        return column, places
    rest, bad = _one_by_one(values.take(array_of(places)), contents_of)
    return entered(column, places, rest, size), places[bad]


def _like(values: Array, pattern: str) -> Mask:
    import pyarrow.compute as pc

    found: Mask = numpy_of(pc.match_substring_regex(values, pattern))
    return found


def _integers(values: Array) -> Numeric | None:
    """The column of texts that are all integers, written in the one way that needs no rules."""
    pa = pyarrow()
    if not values[0].as_py()[-1:].isdigit():
        return None
    with suppress(pa.ArrowInvalid):
        found = values.cast(pa.int64())
        if found.cast(pa.string()).equals(values):
            return Numeric(np.full(len(found), INTEGER, np.uint8), numpy_of(found).copy(), Table())
    return None


def _reals(values: Array) -> Numeric:
    """The column of texts that are known to be reals."""
    found = numpy_of(values.cast(pyarrow().float64())).view(np.int64)
    return Numeric(np.full(len(found), REAL, np.uint8), found.copy(), Table())


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
