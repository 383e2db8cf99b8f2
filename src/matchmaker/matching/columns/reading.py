"""Text to the rows of a store, without an ad for each.

Ads of one pool share most of their lines. So the assignments of many ads are numbered by their
text, and each that differs is read once, together with the others of its attribute: a column of
integers or of plain strings takes no step of Python for each. The rest of this module is numbers.

An ad with anything else than ``name = value``, with one name twice, or whose key is not a constant,
is *odd*: the reader of its format makes the ad or the error, in its turn.

A large file is read by several processes, each a part of it that ends with an ad. A process leaves
its part as a saved pool, and no ad is pickled. If one of them fails, for whatever reason, the file
is read by this process, which finds the error in order. A file in brackets is cut between the
seeming end of an ad and the beginning of the next. If that is within an ad, a string or a comment,
the part before it ends unclosed, and its process fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import chain, pairwise, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import IO, Any, Final, TypeAlias, cast

import attrs
import numpy as np
import numpy.typing as npt

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd, spelling_of
from matchmaker.classad.errors import ParseError
from matchmaker.classad.formats import AdStream, ads_in, new, old, opened
from matchmaker.classad.formats.new import BRACKETED, AssignmentTable
from matchmaker.classad.formats.stream import (
    AdText,
    Report,
    cut,
    pieces_of,
    strict,
    without_mark,
)
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.parser import INTEGERS, NAME, REALS, SPACES, MissError, inside_of
from matchmaker.matching.columns import saved
from matchmaker.matching.columns.column import MISSING, Coded, Column, ContentTable, Rows, narrowest
from matchmaker.matching.columns.forms import FEW, hardly_repeating
from matchmaker.matching.columns.store import Layout, NumberedNames, RowBlock, Store, key_from

LARGE: Final = 1 << 22
"""Characters of text that are read together. More take less time, and leave larger holes in memory
behind."""

CHUNK: Final = 1 << 20
"""Bytes of a file that are read at once."""

# Numbered in portions that stay in the processor's cache.
_MANY: Final = 2000
_END: Final = ""
"""Stands behind the assignments of an ad."""
_ODD_TEXT: Final = "="
"""Stands for an ad that is odd."""

Found: TypeAlias = "Iterator[tuple[Any, list[str], int]]"
"""The ads of a stream: a source, the texts of assignments, and the number of characters."""


class _Heads(dict[str, int]):
    """Number the heads of assignments; ``names`` has the number of each one's name, or -1."""

    def __init__(self, shared: NumberedNames) -> None:
        super().__init__()
        self.names: list[int] = []
        self.unusual: dict[int, tuple[str, str]] = {}
        self._shared = shared

    def __missing__(self, head: str) -> int:
        code = self[head] = len(self)
        name = head.strip(SPACES)
        known = spelling_of(name) if NAME(name) else _END
        if not isinstance(known, str):
            self.unusual[code] = known
            known = known[0]
        self.names.append(self._shared[known] if known else -1)
        return code


@attrs.define(slots=True)
class Batch:
    """The assignments of some ads, numbered by their texts.

    ``sources`` has for each ad what its format's reader takes, or an error in its place in the
    stream; ``codes`` the numbers, with 0 behind each ad. ``fresh`` are those of texts that came for
    the first time, ``head_of`` and ``values`` what stands around their signs.
    """

    heads: _Heads

    sources: list[Any] = attrs.field(factory=list)
    codes: list[Rows] = attrs.field(factory=list)
    fresh: list[Rows] = attrs.field(factory=list)
    head_of: list[Rows] = attrs.field(factory=list)
    values: list[str] = attrs.field(factory=list)
    count: int = 1
    size: int = 0
    _known: dict[str, int] = attrs.field(factory=lambda: {_END: 0})
    _pending: list[str] = attrs.field(factory=list)

    def add(self, source: Any, texts: list[str], size: int) -> None:
        """Take an ad, which has `size` characters."""
        self.sources.append(source)
        self._pending += texts
        self._pending.append(_END)
        self.size += size
        if len(self._pending) > _MANY:
            self.number()

    def number(self) -> None:
        """Number the assignments that were taken, while they are in the processor's cache."""
        texts, self._pending = self._pending, []
        first, self.count = self.count, self.count + len(texts)
        # A number that is given to a text met before is left out.
        codes = np.fromiter(
            map(self._known.setdefault, texts, range(first, self.count)), np.intp, len(texts)
        )
        fresh = np.flatnonzero(codes == np.arange(first, self.count))
        self.codes.append(codes)
        self.fresh.append(fresh + first)
        found = [texts[at] for at in fresh.tolist()]
        cuts = list(chain.from_iterable(map(str.partition, found, repeat(" = "))))
        if _END in cuts[1::3]:
            cuts = list(chain.from_iterable(map(str.partition, found, repeat("="))))
            cuts = list(map(str.strip, cuts, repeat(SPACES)))
        self.head_of.append(
            np.fromiter(map(self.heads.__getitem__, cuts[::3]), np.intp, len(found))
        )
        self.values += cuts[2::3]


# --- values ---------------------------------------------------------------------------------------

_ODD: Final[Any] = object()


def values_of(name: str, texts: list[str], table: AssignmentTable) -> tuple[list[Any], list[int]]:
    """Read the texts of values of one attribute; tell the places of those that are odd."""
    joined = "\0".join(texts)
    if joined.count("\0") == len(texts) - 1:
        if joined[:1] == '"':
            if joined.count('"') == 2 * len(texts) and "\\" not in joined and joined[-1] == '"':
                found: list[Any] = joined[1:-1].split('"\0"')
                # As many strings as texts: so each text is one.
                if len(found) == len(texts):
                    return found, []
        elif INTEGERS(joined):
            return list(map(int, texts)), []
        elif REALS(joined):
            return list(map(float, texts)), []
    values = [_value_of(name, text, table) for text in texts]
    return values, [at for at, value in enumerate(values) if value is _ODD]


def _value_of(name: str, text: str, table: AssignmentTable) -> Any:
    # A comment may hide a semicolon, upon which the next assignment is none.
    if table is BRACKETED and ("//" in text or "/*" in text) and not _WITHOUT_COMMENT(text):
        return _ODD
    try:
        return table[f"{name} = {text}"][1]
    except MissError:
        return _ODD


_WITHOUT_COMMENT: Final = re.compile(
    r"""(?:[^"'/]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+'|/(?![/*]))*+""",
    re.DOTALL,
).fullmatch
"""Takes a text in which no comment begins: names in quotes may have the quote of a string."""


def _column(values: list[Any], places: Rows) -> Column:
    """The column whose rows have the values at some places."""
    column: Column | None = None
    if len(places) >= FEW and 2 * len(values) > len(places):
        column = hardly_repeating(values)
    if column is not None:
        return column.take(places)
    table = ContentTable((MISSING,))
    codes = np.array(table.codes(values), narrowest(len(table)))
    return Coded(codes[places], table)


# --- blocks ---------------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class _Rows:
    """The ads of a batch that are not odd: keys, layouts, and by folded name rows and a column."""

    keys: list[str]
    layouts: list[Layout]
    columns: list[tuple[str, Rows, Column]]


@attrs.frozen(slots=True)
class _Reader:
    """Make blocks of the batches of a stream.

    ``table`` reads other values than plain ones; ``key`` is the folded name of the key;
    ``read_odd`` gives the ads of a source, and ``key_of`` their keys.
    """

    names: NumberedNames
    table: AssignmentTable
    key: str
    key_of: Callable[[ClassAd], str]
    read_odd: Callable[[Any], Iterator[ClassAd]]

    def block(self, batch: Batch) -> RowBlock:
        """The rows of a batch. Raises what ``read_odd`` and ``key_of`` raise."""
        batch.number()
        odd = {at for at, each in enumerate(batch.sources) if isinstance(each, ParseError)}
        made = None
        while made is None:
            made = self._rows(batch, odd)
        widths = np.ones(len(batch.sources), np.intp)
        ads: list[tuple[str, ClassAd]] = []
        for at in sorted(odd):
            before = len(ads)
            ads += [(self.key_of(ad), ad) for ad in self.read_odd(batch.sources[at])]
            widths[at] = len(ads) - before
        begins = np.cumsum(widths) - widths
        is_odd = np.zeros(len(widths), np.bool_)
        is_odd[list(odd)] = True
        where = np.flatnonzero(np.repeat(is_odd, widths))
        columns = [(folded, begins[rows], column) for folded, rows, column in made.columns]
        layout = np.arange(len(made.layouts))
        return RowBlock(where, ads, begins[~is_odd], made.keys, made.layouts, layout, columns)

    def _rows(self, batch: Batch, odd: set[int]) -> _Rows | None:
        """The rows that are not odd; None if there are more that are, which are added."""
        codes = np.concatenate(batch.codes)
        row_of = np.cumsum(codes == 0)
        some = codes > 0
        if odd:
            some &= ~np.isin(row_of, list(odd))
        codes, row_of = codes[some], row_of[some]
        heads = batch.heads
        head_of = np.concatenate(batch.head_of)
        fresh = np.concatenate(batch.fresh)
        number_of = np.full(batch.count, -1, np.intp)
        number_of[fresh] = np.array(heads.names, np.intp)[head_of]
        numbers = number_of[codes]
        odd_before = len(odd)
        odd.update(row_of[numbers < 0].tolist())
        if len(odd) > odd_before:
            return None
        keys, columns = self._columns(batch, row_of, codes, number_of, odd)
        kept = [row for row in range(len(batch.sources)) if row not in odd]
        odd.update(row for row in kept if keys.get(row) is None)
        if len(odd) > odd_before:
            return None
        spellings = _spellings(heads, fresh, head_of, codes, row_of) if heads.unusual else {}
        parts = np.split(_narrow(numbers, self.names), np.searchsorted(row_of, kept[1:]))
        layouts = [
            Layout(self.names, part, spellings.get(row))
            for row, part in zip(kept, parts, strict=False)
        ]
        return _Rows([keys[row] or _END for row in kept], layouts, columns)

    def _columns(
        self, batch: Batch, row_of: Rows, codes: Rows, number_of: Rows, odd: set[int]
    ) -> tuple[dict[int, str | None], list[tuple[str, Rows, Column]]]:
        """The keys and the columns of rows; those that turn out to be odd are added."""
        # Of each text that a row has: its place among those sorted by name.
        fresh = np.concatenate(batch.fresh)
        used = np.zeros(batch.count, np.bool_)
        used[codes] = True
        by_name = np.argsort(number_of[fresh], kind="stable")
        by_name = by_name[used[fresh[by_name]]]
        place_of = np.zeros(batch.count, np.intp)
        place_of[fresh[by_name]] = np.arange(len(by_name))
        texts = np.fromiter(batch.values, object, len(batch.values))[by_name].tolist()
        firsts = number_of[fresh[by_name]].searchsorted(np.arange(len(self.names) + 1)).tolist()
        # A stable sort of 16 bits goes by their digits: it takes no comparisons.
        numbers = _narrow(number_of[codes], self.names)
        order = np.argsort(numbers, kind="stable")
        rows, places, numbers = row_of[order], place_of[codes[order]], numbers[order]
        twice = (numbers[1:] == numbers[:-1]) & (rows[1:] == rows[:-1])
        odd.update(rows[1:][twice].tolist())
        keys: dict[int, str | None] = {}
        columns: list[tuple[str, Rows, Column]] = []
        begin = 0
        for number, size in enumerate(np.bincount(numbers).tolist()):
            if size:
                folded = self.names.by_number[number]
                first, last = firsts[number], firsts[number + 1]
                own, at = rows[begin : begin + size], places[begin : begin + size] - first
                begin += size
                values, wrong = values_of(folded, texts[first:last], self.table)
                if wrong:
                    odd.update(own[np.isin(at, wrong)].tolist())
                else:
                    columns.append((folded, own, _column(values, at)))
                if folded == self.key:
                    each = map(values.__getitem__, at.tolist())
                    keys = dict(zip(own.tolist(), map(key_from, each), strict=True))
        return keys, columns


def _narrow(numbers: Rows, names: NumberedNames) -> npt.NDArray[Any]:
    return numbers.astype(np.uint16 if len(names) <= 1 << 16 else np.uint32)


def _spellings(
    heads: _Heads, fresh: Rows, head_of: Rows, codes: Rows, row_of: Rows
) -> dict[int, dict[str, str]]:
    """The unusual spellings of names, by row."""
    odd = np.isin(head_of, list(heads.unusual))
    spelled = dict(zip(fresh[odd].tolist(), head_of[odd].tolist(), strict=True))
    some = np.isin(codes, list(spelled))
    found: dict[int, dict[str, str]] = {}
    for code, row in zip(codes[some].tolist(), row_of[some].tolist(), strict=True):
        folded, name = heads.unusual[spelled[code]]
        found.setdefault(row, {})[folded] = name
    return found


# --- formats --------------------------------------------------------------------------------------


def _old_ads(pieces: Iterator[str], report: Report) -> Found:
    for text, first in old.whole_ads(pieces, report):
        line = first
        plain = old.is_text(text)
        for ad in text.split("\n\n"):
            begin = line + len(ad) - len(ad.lstrip("\n"))
            line += ad.count("\n") + 2
            stripped = ad.strip("\n")
            if stripped:
                lines = stripped.split("\n") if plain else [_ODD_TEXT]
                yield (stripped, begin), lines, len(ad)


def _new_ads(pieces: Iterator[str], report: Report) -> Found:
    for part in cut(pieces, new.SYNTAX, report):
        text = part.text
        plain = len(text) <= LIMITS.text and old.is_text(text)
        inside = inside_of(text) if plain else None
        yield part, [_ODD_TEXT] if inside is None else _assignments(inside), len(text)


def _assignments(inside: str) -> list[str]:
    """Cut at semicolons that are not in strings or inner ads. If one hides elsewhere, it is odd."""
    texts = inside.split(";")
    unfinished = [
        at
        for at, text in enumerate(texts)
        if ('"' in text and text.count('"') & 1)
        or (("[" in text or "]" in text) and text.count("[") != text.count("]"))
    ]
    found: list[str] = []
    # Of what is open at the end of a text: where it began, whether that is a string, how deep.
    done = begin = string = depth = 0
    for at in unfinished:
        if not string and not depth:
            begin = at
        string ^= texts[at].count('"') & 1
        depth += texts[at].count("[") - texts[at].count("]")
        if not string and not depth:
            found += texts[done:begin]
            done = at + 1
            found.append(";".join(texts[begin:done]))
    found += texts[done:]
    return [_ODD_TEXT] if _END in found else found


def _batches(
    ads: Callable[[Iterator[str], Report], Found], stream: AdStream, names: NumberedNames
) -> Iterator[Batch]:
    """The ads of a stream, and between them its errors, which are reported in their turn."""
    batch = Batch(_Heads(names))

    def note(error: ParseError) -> None:
        batch.add(error, [_ODD_TEXT], 0)

    try:
        for source, texts, size in ads(stream.pieces, strict if stream.report is strict else note):
            batch.add(source, texts, size)
            if batch.size > LARGE:
                yield batch
                batch = Batch(_Heads(names))
    except ParseError as error:
        note(error)
    if batch.sources:
        yield batch


def blocks_of(
    stream: AdStream, names: NumberedNames, key: str, key_of: Callable[[ClassAd], str]
) -> Iterator[RowBlock]:
    """Read the ads of a stream as blocks of a store with these names; `key` is folded.

    `key_of` gives the key of an ad that does not simply say it. Raise ParseError, and what
    `key_of` raises.
    """
    report = stream.report

    def read(source: Any) -> Iterator[ClassAd]:
        if isinstance(source, ParseError):
            report(source)
        elif isinstance(source, AdText):
            yield from new.read_parts(iter([source]), report)
        else:
            text, number = source
            yield from old.ads_within(text, number, report)

    if stream.format == "old":
        ads, table = _old_ads, old.LINES
    elif stream.format == "new":
        ads, table = _new_ads, BRACKETED
    else:
        yield from RowBlock.of_ads((key_of(ad), ad) for ad in ads_in(stream))
        return
    reader = _Reader(names, table, key, key_of, read)
    yield from map(reader.block, _batches(ads, stream, names))


LEAST: Final = 1 << 26
"""The least number of bytes for which a process is worth its start."""

_MODULE: Final = "matchmaker.matching.columns.reading"
# The bytes in which the format is recognised, and in which the end of an ad is sought.
_HEAD: Final = 1 << 16
_FAR: Final = 1 << 24
_BETWEEN: Final = {
    "old": re.compile(rb"\n\r?\n"),
    "new": re.compile(rb"\][,;]?+\r?+\n[\s,;]*+(?=\[)"),
    "json": re.compile(rb"\},?+\r?+\n[\s,]*+(?=\{)"),
}
_LISTS: Final = {"new": ("{", "}"), "json": ("[", "]")}
_LISTED: Final = {
    "new": re.compile(rb"(?:\xef\xbb\xbf)?\s*+\{"),
    "json": re.compile(rb"(?:\xef\xbb\xbf)?\s*+\["),
}


@attrs.frozen(slots=True)
class FilePart:
    """A part of a file: its format, its first and last byte, and the brackets around its ads.

    Each part of a list of ads is a list, whose first and last bracket may stand in other parts.
    """

    format: str
    begin: int
    end: int
    before: str = ""
    after: str = ""


def parts_of_file(path: str | os.PathLike[str], format_: str, count: int) -> list[FilePart]:
    """Cut a file into at most `count` parts; none if it cannot be cut."""
    size = Path(path).stat().st_size
    count = min(count, size // LEAST)
    with opened(path, format_, strict, _HEAD) as stream:
        name = stream.format
    between = _BETWEEN.get(name)
    if between is None or count < 2:
        return []
    cuts = {0, size}
    with Path(path).open("rb") as file:
        listed = name in _LISTED and _LISTED[name].match(file.read(_HEAD)) is not None
        for number in range(1, count):
            begin = size * number // count
            file.seek(begin)
            found = between.search(file.read(_FAR))
            if found is not None:
                cuts.add(begin + found.end())
    if len(cuts) < 3:
        return []
    before, after = _LISTS[name] if listed else ("", "")
    return [
        FilePart(name, begin, end, before if begin else "", after if end < size else "")
        for begin, end in pairwise(sorted(cuts))
    ]


def fill_from_parts(
    store: Store, path: str | os.PathLike[str], key: str, parts: list[FilePart]
) -> bool:
    """Enter the ads of a file's parts; return False, with nothing entered, if a process failed.

    Raise DuplicateKeyError.
    """
    with TemporaryDirectory() as folder:
        outputs = [Path(folder, str(number)) for number in range(len(parts))]
        command = [sys.executable, "-P", "-m", _MODULE, os.fspath(path)]
        none = subprocess.DEVNULL
        workers = [
            subprocess.Popen(  # noqa: S603 - this interpreter and module, an argument vector
                [*command, *map(str, attrs.astuple(part)), key, str(output)],
                stdin=none,
                stdout=none,
                stderr=none,
            )
            for part, output in zip(parts, outputs, strict=True)
        ]
        try:
            if any(worker.wait() for worker in workers):
                return False
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
        store.absorb(_block(output) for output in outputs)
    return True


def _block(path: Path) -> RowBlock:
    """The rows of a saved pool."""
    with path.open("rb") as file:
        _, store = saved.load(file, str(path))
    return store.parts().block(list(store))


def _plain_key(ad: ClassAd, folded: str) -> str:
    """Return the key of an ad, if a plain value holds it. Raise ValueError otherwise."""
    content = ad._held.get(folded)
    key = key_from(content)
    if key is None:
        raise ValueError("this process looks at no keys that are evaluated")
    return key


def _pieces(path: str, part: FilePart) -> Iterator[str]:
    """The text of a part of a file."""
    if part.before:
        yield part.before
    with Path(path).open("rb") as file:
        file.seek(part.begin)
        left = part.end - part.begin

        def read(size: int) -> bytes:
            nonlocal left
            data = file.read(min(size, left))
            left -= len(data)
            return data

        yield from pieces_of(cast("IO[bytes]", SimpleNamespace(read=read)), CHUNK)
    if part.after:
        yield part.after


def _main(path: str, *argv: str) -> None:
    """Save a part of a file as a pool, as a process of its own."""
    format_, begin, end, before, after, key, output = argv
    part = FilePart(format_, int(begin), int(end), before, after)
    folded = ascii_fold(key)
    store = Store(folded)
    pieces = _pieces(path, part)
    stream = AdStream(format_, without_mark(pieces) if part.begin == 0 else pieces, strict)
    store.absorb(blocks_of(stream, store.names, folded, lambda ad: _plain_key(ad, folded)))
    with Path(output).open("wb") as file:
        saved.save(store.parts(), key, file)


if __name__ == "__main__":
    _main(*sys.argv[1:])
