"""The old format cut at the speed of NumPy and Arrow: the names and values of thousands of ads.

Only the cut is made here. Whether a name is one is asked once for each distinct beginning of a
line; what the values are is found in ``values``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from matchmaker.classad.assignments import name_in
from matchmaker.classad.limits import LIMITS
from matchmaker.classad.operators import ascii_fold
from matchmaker.matching.columns.arrow_types import Array, array_of, numpy_of, pyarrow
from matchmaker.matching.columns.column import Rows, narrowest

Mask: TypeAlias = "npt.NDArray[np.bool_]"
Places: TypeAlias = "npt.NDArray[np.int32]"

_LINE_END, _EQUALS, _SPACE = b"\n= "
TOGETHER: Final = 1 << 18
"""Bytes that are searched together: what is found in them stays in the processor's cache."""
FEW: Final = 1000
"""With more distinct beginnings of lines than this, and few lines to each, columns do not pay."""


@attrs.frozen(slots=True, eq=False)
class Lines:
    """The lines of some text that are not empty: those of an ad follow each other.

    Of each line there is the number of its ad, its own number from 0, where it begins and ends, and
    the number of its beginning, up to the value. ``names`` has the name, as it is spelled, for each
    distinct beginning, None where the grammar must decide what it is.
    """

    data: bytes
    ad: npt.NDArray[np.intp]
    number: npt.NDArray[np.intp]
    starts: Places
    ends: Places
    beginning: Places
    names: list[str | None]
    pieces: Array
    """Of each line, what stands before the value, the value, and what is behind it."""

    ads: int
    """The number of ads, those without lines too."""

    def texts(self, ads: Rows) -> Iterator[tuple[int, str, int]]:
        """The numbers of some ads with their texts, and with the numbers of their first lines."""
        firsts = np.searchsorted(self.ad, ads).tolist()
        lasts = (np.searchsorted(self.ad, ads, side="right") - 1).tolist()
        for ad, first, last in zip(ads.tolist(), firsts, lasts, strict=True):
            text = self.data[self.starts[first] : self.ends[last]].decode()
            yield ad, text, int(self.number[first])

    def values(self, lines: Rows) -> Array:
        """The texts of the values of some lines."""
        return self.pieces.take(array_of(3 * lines + 1))


def lines_of(text: str) -> Lines:
    """The lines of a text of whole ads. Each has a name, or the ad is to be read otherwise."""
    data = f"{text}\n".encode()
    held = np.frombuffer(data, np.uint8)
    ends, signs = _signs(data, held)
    starts = np.append(np.int32(0), ends[:-1] + 1)
    filled = ends > starts
    first = filled.copy()
    first[1:] &= ~filled[:-1]
    number = np.flatnonzero(filled)
    starts, ends, signs = starts[filled], ends[filled], signs[filled]
    # A line without the sign has nothing before its value, which is no name.
    values = np.where(signs < ends, signs + 1, starts)
    values += (values > starts) & (values < ends) & (held[values] == _SPACE)
    ad = np.cumsum(first)[filled] - 1
    count = int(ad[-1]) + 1 if len(ad) else 0
    return lines_at(data, ad, starts, values, ends, count, _name, number)


def _signs(data: bytes, held: npt.NDArray[np.uint8]) -> tuple[Places, Places]:
    """Where each line ends, and where its first sign is: at its end if it has none."""
    found: list[tuple[Places, Places]] = []
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin + TOGETHER) + 1 or len(data)
        own = held[begin:end]
        at = np.flatnonzero((own == _LINE_END) | (own == _EQUALS))
        breaks = np.flatnonzero(own[at] == _LINE_END)
        firsts = np.append(0, breaks[:-1] + 1)
        found.append(((at[breaks] + begin).astype(np.int32), (at[firsts] + begin).astype(np.int32)))
        begin = end
    ends, signs = zip(*found, strict=True)
    return np.concatenate(ends), np.concatenate(signs)


def lines_at(  # noqa: PLR0917 - arrays that belong together
    data: bytes, ad: Rows, starts: Any, values: Any, ends: Any, ads: int,
    name: Callable[[str], str | None], number: Rows | None = None,
) -> Lines:  # fmt: skip
    """The lines that begin and end at some places, with the name in each distinct beginning."""
    pa = pyarrow()
    offsets = np.empty(3 * len(starts) + 1, np.int32)
    offsets[0:-1:3], offsets[1:-1:3], offsets[2::3], offsets[-1] = starts, values, ends, len(data)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    pieces = pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)
    found = pieces.take(array_of(np.arange(0, 3 * len(starts), 3))).dictionary_encode()
    few = len(found.dictionary) <= max(FEW, len(starts) // 128)
    names = [name(each) if few else None for each in found.dictionary.to_pylist()]
    number = np.zeros(len(starts), np.intp) if number is None else number
    return Lines(data, ad, number, starts, ends, numpy_of(found.indices), names, pieces, ads)


def _name(beginning: str) -> str | None:
    name, sign, _ = beginning.partition("=")
    return name_in(name) if sign else None


@attrs.frozen(slots=True, eq=False)
class Names:
    """Which lines of regular ads have which name, by folded name, and the names of each ad."""

    folded: list[str]
    lines: list[Rows]
    """For each folded name its lines, in ascending order."""

    layouts: list[tuple[str, ...]]
    layout: npt.NDArray[Any]
    """The names of each regular ad, as they are spelled, by number; in the order of the ads."""


def unusual(lines: Lines) -> Mask:
    """Which ads have a line without a plain name, or the same name twice, or are too long."""
    found = np.bincount(lines.ad, lines.ends + 1 - lines.starts, lines.ads) > LIMITS.text
    _, codes = _numbered(lines, ascii_fold)
    found[lines.ad[codes < 0]] = True
    order = np.argsort(codes, kind="stable")
    ads, sorted_codes = lines.ad[order], codes[order]
    again = (ads[1:] == ads[:-1]) & (sorted_codes[1:] == sorted_codes[:-1])
    found[ads[1:][again]] = True
    return found


def names_of(lines: Lines, regular: Mask) -> Names:
    """The names of the ads that are regular, each of whose lines has a name."""
    pa = pyarrow()
    taken = np.flatnonzero(regular[lines.ad])
    folded, codes = _numbered(lines, ascii_fold)
    order = taken[np.argsort(codes[taken], kind="stable")]
    ends = np.cumsum(np.bincount(codes[taken], minlength=len(folded)))[:-1]
    parts = np.split(order, ends)
    present = [at for at, part in enumerate(parts) if len(part)]
    spelled, numbers = _numbered(lines, lambda name: name)
    kind = narrowest(len(spelled))
    numbers = numbers[taken].astype(kind)
    offsets = np.zeros(int(np.count_nonzero(regular)) + 1, np.int32)
    counts = np.bincount(lines.ad[taken], minlength=lines.ads)[regular]
    np.cumsum(counts * numbers.itemsize, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(numbers.tobytes())]
    alike = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers).dictionary_encode()
    layouts = [
        tuple([spelled[number] for number in np.frombuffer(each, kind).tolist()])
        for each in alike.dictionary.to_pylist()
    ]
    return Names(
        [folded[at] for at in present], [parts[at] for at in present], layouts,
        numpy_of(alike.indices),
    )  # fmt: skip


def _numbered(lines: Lines, form: Callable[[str], str]) -> tuple[list[str], npt.NDArray[Any]]:
    """The distinct forms of the names, and which of them each line has; -1 for none."""
    numbers: dict[str, int] = {}
    by_beginning = np.array(
        [
            -1 if name is None else numbers.setdefault(form(name), len(numbers))
            for name in lines.names
        ],
        np.int16 if len(lines.names) < 1 << 15 else np.int32,
    )
    return list(numbers), by_beginning[lines.beginning]
