"""Ads of the new format cut at the speed of NumPy: names and values of thousands.

The readers' cutter gives the text of each ad. Here are found the separators and signs that stand
outside of strings and inner brackets. An ad in which anything else than plain assignments may
stand, such as comments or quoted names, is left to its reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from matchmaker.classad.assignments import contents_of, name_in
from matchmaker.classad.formats.stream import Part
from matchmaker.classad.limits import LIMITS
from matchmaker.classad.nodes import Expr
from matchmaker.classad.parser import value_of
from matchmaker.matching.filling.lines import TOGETHER, Lines, Mask, lines_at

Bytes: TypeAlias = "npt.NDArray[np.uint8]"
Positions: TypeAlias = "npt.NDArray[Any]"

_QUOTE, _BACKSLASH, _SLASH, _STAR = b'"\\/*'
_OPENING, _SEPARATOR, _SIGN = b"[;="
_DEEPER: Final = np.isin(np.arange(256), [*b"[{("]).astype(np.int8)
_DEPTH: Final = _DEEPER - np.isin(np.arange(256), [*b"]})"]).astype(np.int8)
_SPACE: Final = np.isin(np.arange(256), [*b" \t\r\n"])
_SPACES: Final = 64
"""With more spaces than this around a name or value, an ad is left to its reader."""


_REFUSED: Final = (*b"'#", _SLASH)
"""Bytes that outside of strings leave an ad to its reader: a slash only where a comment begins."""


def new_contents(texts: list[str]) -> list[Any]:
    """What ads hold for texts of values, None for one that cannot be read."""
    return contents_of(texts, _value)


def _value(text: str) -> Any:
    held = value_of(text)
    # What stands in an ad is one deeper.
    return None if isinstance(held, Expr) and held.depth >= LIMITS.nesting else held


def _name(beginning: str) -> str | None:
    return name_in(beginning.partition("=")[0].strip())


def lines_in(parts: list[Part]) -> tuple[Lines, Mask]:
    """The assignments of ads, and which of the ads must be read by their reader."""
    texts = [_encoded(part.text) for part in parts]
    data = b"\n".join(texts)
    lengths = np.fromiter(map(len, texts), np.int32, len(texts))
    begins = np.cumsum(lengths + 1, dtype=np.int32) - lengths - 1
    others = lengths > LIMITS.syntax
    others |= lengths < 2
    found = []
    for first, last in _groups(begins):
        some = slice(first, last)
        start = int(begins[first])
        own = data[start : int(begins[last - 1] + lengths[last - 1])]
        ad, *places = _assignments(own, begins[some] - start, lengths[some], others[some])
        found.append((ad + first, *(each + start for each in places)))
    ad, starts, values, ends = (
        np.concatenate([np.zeros(0, np.int32), *each])
        for each in (zip(*found, strict=True) if found else [()] * 4)
    )
    return lines_at(data, ad, starts, values, ends, len(texts), _name), others


def _groups(begins: Positions) -> Iterator[tuple[int, int]]:
    """Which ads, from one up to another, are looked at together."""
    first = 0
    while first < len(begins):
        last = max(first + 1, int(np.searchsorted(begins, begins[first] + TOGETHER)))
        yield first, last
        first = last


def _assignments(
    data: bytes, begins: Positions, lengths: Positions, others: Mask
) -> tuple[Positions, Positions, Positions, Positions]:
    """Of the assignments in ads: which ad, and where they, their values and their ends are.

    Notes the ads that must be read by their reader.
    """
    held = np.frombuffer(data, np.uint8)
    others[~others] = held[begins[~others]] != _OPENING
    at, part, depth = _outside(data, begins, others)
    others[part[(depth < 0) | ((depth == 0) & (at != (begins + lengths)[part] - 1))]] = True
    # The last bracket is at the end, and closes the first.
    closed = np.zeros(len(begins), np.bool_)
    closed[part[depth == 0]] = True
    others |= ~closed
    byte = held[at]
    first = (at == begins[part]) & (byte == _OPENING)
    bounds = (depth == 0) | first | ((depth == 1) & (byte == _SEPARATOR))
    signs = (depth == 1) & (byte == _SIGN)
    told = (bounds | signs) & ~others[part]
    at, part, signs = at[told], part[told], signs[told]
    bounds = np.flatnonzero(~signs)
    # Behind an assignment's beginning comes its sign, or none before its end.
    following = np.minimum(bounds + 1, max(len(at) - 1, 0))
    values = np.where(signs[following], at[following], len(held)) + 1
    at, part = at[bounds], part[bounds]
    within = part[1:] == part[:-1]
    ad, starts, ends = part[1:][within], at[:-1][within] + 1, at[1:][within]
    values = values[:-1][within]
    last = np.append(ad[1:] != ad[:-1], True)[: len(ad)]
    _strip(held, starts, ends, ad, others)
    blank = starts == ends
    others[ad[blank & ~last]] = True
    ad, starts, values, ends = (each[~blank] for each in (ad, starts, values, ends))
    others[ad[values > ends]] = True
    taken = ~others[ad]
    ad, starts, values, ends = (each[taken] for each in (ad, starts, values, ends))
    _strip(held, values, ends, ad, others)
    return ad, starts, values, ends


def _encoded(text: str) -> bytes:
    """The text; nothing of one that is not UTF-8, so that its reader says it."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return b""


def _outside(
    data: bytes, begins: Positions, others: Mask
) -> tuple[Positions, Positions, Positions]:
    """Where signs and brackets stand outside of strings, in which ad, and how deep behind each."""
    held = np.frombuffer(data, np.uint8)
    special = _DEPTH != 0
    special[[_QUOTE, _SEPARATOR, _SIGN, *_REFUSED]] = True
    at = np.flatnonzero(np.frombuffer(data.translate(special.tobytes()), np.bool_))
    at = at[~_escaped(held, at)]
    quotes = held[at] == _QUOTE
    bounds = np.append(np.searchsorted(at, begins), len(at))
    # Only whether a count is odd matters, and that outlives an overflow.
    odd = np.append(0, np.cumsum(quotes, dtype=np.uint8)) & 1
    open_at = odd[bounds]
    others |= open_at[1:] != open_at[:-1]
    outside = odd[1:] == (np.repeat(open_at[:-1], np.diff(bounds)) if open_at.any() else 0)
    at = at[outside & ~quotes]
    byte = held[at]
    bounds = np.append(np.searchsorted(at, begins), len(at))
    part = np.repeat(np.arange(len(begins), dtype=np.int32), np.diff(bounds))
    doubtful = np.take(np.isin(np.arange(256), _REFUSED), byte)
    slashes = np.flatnonzero(byte == _SLASH)
    following = held[np.minimum(at[slashes] + 1, len(held) - 1)]
    doubtful[slashes[(following != _SLASH) & (following != _STAR)]] = False
    others[part[doubtful]] = True
    sums = np.append(0, np.cumsum(np.take(_DEPTH, byte), dtype=np.int32))
    return at, part, sums[1:] - np.repeat(sums[bounds[:-1]], np.diff(bounds))


def _escaped(held: Bytes, at: Positions) -> Mask:
    """Which positions are those of quotes behind an odd number of backslashes."""
    found = np.zeros(len(at), np.bool_)
    behind = np.flatnonzero((held[at] == _QUOTE) & (at > 0))
    behind = behind[held[at[behind] - 1] == _BACKSLASH]
    if len(behind):
        slashes = np.flatnonzero(held == _BACKSLASH)
        numbers = np.arange(len(slashes))
        begins = np.append(True, np.diff(slashes) != 1)
        runs = numbers - np.maximum.accumulate(np.where(begins, numbers, 0)) + 1
        found[behind] = runs[np.searchsorted(slashes, at[behind] - 1)] & 1 != 0
    return found


def _strip(held: Bytes, starts: Positions, ends: Positions, ad: Positions, others: Mask) -> None:
    """Moves beginnings and ends over spaces; notes ads with too many of them."""
    for places, step, ahead in ((starts, 1, 0), (ends, -1, -1)):
        # Nearly all of them have one space, or none.
        spaced = (starts < ends) & _SPACE[held.take(places + ahead, mode="clip")]
        np.add(places, step, out=places, where=spaced)
        spaced &= (starts < ends) & _SPACE[held.take(places + ahead, mode="clip")]
        moving = np.flatnonzero(spaced)
        for _ in range(_SPACES):
            if not len(moving):
                break
            places[moving] += step
            moving = moving[starts[moving] < ends[moving]]
            moving = moving[_SPACE[held[places[moving] + ahead]]]
        others[ad[moving]] = True
