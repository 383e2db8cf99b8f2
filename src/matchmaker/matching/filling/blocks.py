"""A text of ads as rows of columns, with those ads that only their reader takes among them.

An ad is *regular* if each line assigns a value to a plain name that comes once, and its key is a
string or an integer. All others are read one by one, in their order: so errors are those of the
reader, and come first where they stand first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.formats import json, new, old
from matchmaker.classad.formats.stream import Part, Report
from matchmaker.classad.limits import LIMITS
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.keys import unsaid
from matchmaker.matching.columns.views import Block, Layout
from matchmaker.matching.filling import objects
from matchmaker.matching.filling.brackets import lines_in, new_contents
from matchmaker.matching.filling.lines import Lines, Mask, lines_of, names_of, unusual
from matchmaker.matching.filling.objects import Columns
from matchmaker.matching.filling.values import Contents, column_of, values_of

KeyOf: TypeAlias = "Callable[[ClassAd], str]"
Read: TypeAlias = "Iterator[tuple[int, Iterable[ClassAd]]]"
"""The numbers of ads that are read, each with the ads that its text turns out to be."""


_NO_ROWS: Final = np.zeros(0, np.intp)


def block_of(text: str, number: int, key: str, key_of: KeyOf, report: Report) -> Block:
    """The rows of a text of whole ads in the old format, whose first line has a number.

    `key` is the folded name of the key attribute; `key_of` gives the key of an ad that does not
    simply say it, or raises ValueError.
    """
    lines = lines_of(text)

    def read(others: Rows) -> Read:
        for ad, own, at in lines.texts(others):
            if len(own) > LIMITS.text:
                report(old.too_long(number + at))
                yield ad, ()
            else:
                yield ad, old.ads_within(own, number + at, report)

    others = unusual(lines)
    return _block(others, lambda: _columns(lines, others, old.contents, key), read, key_of)


def block_of_parts(parts: list[Part], key: str, key_of: KeyOf, report: Report) -> Block:
    """The rows of the texts of ads in brackets; the rest as above."""
    lines, others = lines_in(parts)
    others |= unusual(lines)
    read = partial(_read, new.read_parts, parts, report)
    return _block(others, lambda: _columns(lines, others, new_contents, key), read, key_of)


def block_of_objects(parts: list[Part], key: str, key_of: KeyOf, report: Report) -> Block:
    """The rows of ads in JSON; the rest as above."""
    others = objects.unusual(parts)
    read = partial(_read, json.read_parts, parts, report)
    return _block(others, lambda: objects.columns_of(parts, others, key), read, key_of)


def _read(
    reader: Callable[[Iterator[Part], Report], Iterator[ClassAd]],
    parts: list[Part],
    report: Report,
    others: Rows,
) -> Read:
    for ad in others.tolist():
        yield ad, reader(iter([parts[ad]]), report)


def _block(
    others: Mask, regular: Callable[[], Columns | None], read: Callable[[Rows], Read], key_of: KeyOf
) -> Block:
    """The rows of ads, of which the regular ones come in columns and the others are read."""
    while (found := regular()) is None:
        pass
    counts = np.ones(len(others), np.intp)
    ads: list[tuple[str, ClassAd]] = []
    for ad, some in read(np.flatnonzero(others)):
        before = len(ads)
        ads += [(key_of(each), each) for each in some]
        counts[ad] = len(ads) - before
    ends = np.cumsum(counts)
    rows = ends - counts
    read_ones = np.ones(int(ends[-1]) if len(ends) else 0, np.bool_)
    read_ones[rows[~others]] = False
    return Block(
        np.flatnonzero(read_ones),
        ads,
        rows[~others],
        found.keys,
        list(map(Layout.of, found.layouts)),
        found.layout,
        [(name, rows[place], column) for name, place, column in found.columns],
    )


def _columns(lines: Lines, others: Mask, contents_of: Contents, key: str) -> Columns | None:
    """The columns of regular ads; None where some turn out to be others, which is noted."""
    names = names_of(lines, ~others)
    columns = []
    regular = np.flatnonzero(~others)
    keys: list[str] = []
    bad = [] if key in names.folded else [regular]
    values = values_of(lines.values(np.concatenate([_NO_ROWS, *names.lines])))
    begin = 0
    for folded, taken in zip(names.folded, names.lines, strict=True):
        column, unread = column_of(values.slice(begin, len(taken)), contents_of)
        begin += len(taken)
        place = lines.ad[taken]
        bad.append(place[unread])
        if folded == key:
            lacking = ~others
            lacking[place] = False
            bad += [place[unsaid(column, len(place))], np.flatnonzero(lacking)]
            keys = list(map(str, column.contents(range(len(place)))))
        columns.append((folded, place, column))
    if not any(map(len, bad)):
        return Columns(names.layouts, names.layout, columns, keys)
    for some in bad:
        others[some] = True
    return None
