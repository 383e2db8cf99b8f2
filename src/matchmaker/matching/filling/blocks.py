"""A text of ads as rows of columns, with those ads that only their reader takes among them.

An ad is *regular* if each line assigns a value to a plain name that comes once, and its key is a
string or an integer. All others are read one by one, in their order: so errors are those of the
reader, and come first where they stand first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import numpy as np

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.formats import old
from matchmaker.classad.formats.stream import Part, Report
from matchmaker.classad.limits import LIMITS
from matchmaker.matching.columns.column import Column, Rows
from matchmaker.matching.columns.keys import unsaid
from matchmaker.matching.columns.views import Block, Layout
from matchmaker.matching.filling.brackets import Form, lines_in
from matchmaker.matching.filling.lines import Lines, Mask, Names, lines_of, names_of, unusual
from matchmaker.matching.filling.values import Contents, column_of

KeyOf: TypeAlias = "Callable[[ClassAd], str]"


_NO_ROWS: Final = np.zeros(0, np.intp)


def block_of(text: str, number: int, key: str, key_of: KeyOf, report: Report) -> Block:
    """The rows of a text of whole ads in the old format, whose first line has a number.

    `key` is the folded name of the key attribute; `key_of` gives the key of an ad that does not
    simply say it, or raises ValueError.
    """
    lines = lines_of(text)

    def read(others: Rows) -> Iterator[tuple[int, Iterable[ClassAd]]]:
        for ad, own, at in lines.texts(others):
            if len(own) > LIMITS.text:
                report(old.too_long(number + at))
                yield ad, ()
            else:
                yield ad, old.ads_within(own, number + at, report)

    return _block(lines, unusual(lines), old.contents, read, key=key, key_of=key_of)


def block_of_parts(parts: list[Part], form: Form, key: str, key_of: KeyOf, report: Report) -> Block:
    """The rows of the texts of ads, each in brackets; the rest as above."""
    lines, others = lines_in(parts, form)

    def read(others: Rows) -> Iterator[tuple[int, Iterable[ClassAd]]]:
        for ad in others.tolist():
            yield ad, form.read(iter([parts[ad]]), report)

    return _block(lines, others | unusual(lines), form.contents, read, key=key, key_of=key_of)


def _block(
    lines: Lines, others: Mask, contents_of: Contents,
    read: Callable[[Rows], Iterator[tuple[int, Iterable[ClassAd]]]], *, key: str, key_of: KeyOf,
) -> Block:  # fmt: skip
    """The rows of lines. Ads that are not regular are read."""
    while (found := _columns(lines, names_of(lines, ~others), others, contents_of, key)) is None:
        pass
    names, columns, keys = found
    counts = np.ones(lines.ads, np.intp)
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
        keys,
        list(map(Layout.of, names.layouts)),
        names.layout,
        [(name, rows[place], column) for name, place, column in columns],
    )


def _columns(
    lines: Lines, names: Names, others: Mask, contents_of: Contents, key: str
) -> tuple[Names, list[tuple[str, Rows, Column]], list[str]] | None:
    """The names and columns of regular ads, with the numbers of the ads, and the keys of these.

    None where some ads turn out not to be regular: they are noted among the others.
    """
    columns = []
    regular = np.flatnonzero(~others)
    keys: list[str] = []
    bad = [] if key in names.folded else [regular]
    texts, begin = lines.values(np.concatenate([_NO_ROWS, *names.lines])), 0
    for folded, taken in zip(names.folded, names.lines, strict=True):
        column, unread = column_of(texts.slice(begin, len(taken)), contents_of)
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
        return names, columns, keys
    for some in bad:
        others[some] = True
    return None
