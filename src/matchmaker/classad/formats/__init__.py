"""Ads as text: four formats behind one dispatch, for reading and for writing.

``new`` is ads in brackets, ``old`` one assignment a line with a blank line between ads, ``json``
and ``xml`` are HTCondor's. Each has a module, ``stream`` has their common parts; this one
tells them apart and opens files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from typing import IO, Final, Literal

import attrs

from matchmaker._files import replacing
from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd, an_ad, some_ads
from matchmaker.classad.errors import ParseError, shorten
from matchmaker.classad.formats import json, new, old, xml
from matchmaker.classad.formats.new import ad_in
from matchmaker.classad.formats.stream import (
    BARE,
    CHUNK,
    Report,
    detect,
    pieces_at,
    pieces_in,
    pieces_of,
    strict,
    without_mark,
)
from matchmaker.classad.nodes import AdExpr, Attr, Call, Expr
from matchmaker.classad.nodes import Literal as Constant
from matchmaker.classad.walks import postorder

Source = str | os.PathLike[str] | IO[str] | IO[bytes]
Target = str | os.PathLike[str] | IO[str]
Errors = Literal["strict", "report"]


@attrs.frozen(slots=True)
class _Format:
    """Functions that read a stream of text pieces and write one ad, and the frame around many.

    ``alone``: an ad that is the only one has nothing around it.
    """

    read: Callable[[Iterator[str], Report], Iterator[ClassAd]]
    write: Callable[[ClassAd], str]
    before: str = ""
    between: str = "\n"
    after: str = "\n"
    alone: bool = False


_FORMATS: Final[Mapping[str, _Format]] = {
    "new": _Format(new.read, new.write, "{\n", "\n,\n", "\n}\n", alone=True),
    "old": _Format(old.read, old.write, between="\n\n"),
    "json": _Format(json.read, json.write, "[\n", ",\n", "\n]\n"),
    "xml": _Format(xml.read, xml.write, xml.PROLOGUE, "\n", "\n</classads>\n"),
}

FORMATS: Final = tuple(_FORMATS)

_AT_ONCE: Final[Mapping[str, Callable[[str], ClassAd | None]]] = {
    "auto": ad_in, "new": ad_in, "json": json.ad_in,
}  # fmt: skip
"""Readers of a text that is one ad and no more; None for any other text."""


def parse_ad(text: str, format: str = "auto") -> ClassAd:
    """Reads the one ad that a text holds, in format 'new', 'old', 'json', 'xml' or 'auto'.

    Raises ParseError, with its place, for anything but exactly one ad.

    >>> parse_ad("[ Cpus = 4; Memory = Cpus * 2048 ]").eval("Memory")
    8192
    >>> parse_ad("Cpus = 4").eval("Cpus")
    4
    """
    read = _AT_ONCE.get(format)
    if read is not None and isinstance(text, str):
        ad = read(text) if text.isascii() else None
        if ad is not None:
            return ad
    ads = parse_ads(text, format)
    first = next(ads, None)
    if first is None:
        raise ParseError("no ad was found", expected=("an ad such as [ Cpus = 4 ]",))
    if next(ads, None) is not None:
        raise ParseError("more than one ad was found", hint="use parse_ads for several")
    return first


def parse_ads(
    text: str,
    format: str = "auto",
    *,
    errors: Errors = "strict",
    report: Callable[[ParseError], object] | None = None,
) -> Iterator[ClassAd]:
    r"""Reads the ads of a text one after the other; ParseError with its place.

    With ``errors='report'`` errors are given to ``report`` and their text is left out, as by
    :func:`read_ads`.

    >>> [ad.eval("a") for ad in parse_ads("[a = 1] [a = 2]")]
    [1, 2]
    >>> wrong = []
    >>> [len(ad) for ad in parse_ads("a = 1\nb = 2 x\n", errors="report", report=wrong.append)]
    [1]
    >>> print(wrong[0].summary())
    line 2, column 7: unexpected 'x'; expected an operator or the end
    """
    if not isinstance(text, str):
        raise TypeError(f"text was expected, not {type(text).__name__}; read_ads takes files")
    return _read(pieces_in(text), format, "", reporter(errors, report))


def read_ads(
    source: Source,
    format: str = "auto",
    *,
    errors: Errors = "strict",
    report: Callable[[ParseError], object] | None = None,
) -> Iterator[ClassAd]:
    """Reads the ads of a file, given by its path or open for text or bytes (UTF-8).

    Ads are given one by one as they are read, in constant memory. Raises OSError if the file
    cannot be read and ParseError, with the file's name and line, if it is not in `format`.

    With ``errors='report'`` each ParseError is given to ``report`` in place of being raised, the
    ``append`` of a list for one, and reading goes on behind it: without a bad line of the old
    format, without a bad ad of the others. Behind XML that is broken as such nothing can be read,
    and that is reported too.
    """
    done = reporter(errors, report)
    pieces, name = _pieces(source)
    return _read(pieces, format, name, done)


def dumps(ad: ClassAd, format: str = "new") -> str:
    """One ad as text, without a newline at its end; it reads back equal in the same format.

    Raises ValueError for a NUL or half a surrogate pair in a string, an empty name, and nesting
    beyond the limit of reading: no format can hold them.

    >>> print(dumps(ClassAd({"a": 1, "s": "x"}), format="old"))
    a = 1
    s = "x"
    """
    chosen = _format(format)
    if format == "xml":
        return f"{chosen.before}{_text(ad, chosen)}{chosen.after}".rstrip("\n")
    return _text(ad, chosen)


def write_ads(ads: Iterable[ClassAd], file: Target, format: str = "new") -> int:
    """Writes ads to a text file as a stream that ``read_ads`` reads back; gives their number.

    Several ads are framed as HTCondor's tools do it, in the new format as ``{ [..], [..] }``; one
    alone of the new format has no frame, so that it is a job description too. A file given by its
    path is put in place, as a whole, when all has been written: it may be the one that the ads are
    read from, and an error on the way leaves it as it was. Raises TypeError for anything but ads.
    """
    chosen = _format(format)
    if isinstance(file, (str, os.PathLike)):
        with replacing(file) as opened:
            return _write(ads, opened, chosen)
    _has(file, "write")
    return _write(ads, file, chosen)


def _pieces(source: Source, chunk: int = CHUNK) -> tuple[Iterator[str], str]:
    """The text of a file, piece by piece, and the file's name."""
    if isinstance(source, (str, os.PathLike)):
        return pieces_at(source, chunk), os.fspath(source)
    _has(source, "read")
    return pieces_of(source, chunk), str(getattr(source, "name", ""))


def _has(file: object, method: str) -> None:
    if not hasattr(file, method):
        raise TypeError(f"a path or an open file was expected, not {type(file).__name__}")


def _write(ads: Iterable[ClassAd], file: IO[str], chosen: _Format) -> int:
    texts = (_text(ad, chosen) for ad in some_ads(ads))
    # How the first one is written depends on whether there is another.
    begin = list(islice(texts, 2))
    if len(begin) < 2 and chosen.alone:
        file.write("".join(begin) + "\n")
        return len(begin)
    file.write(chosen.before)
    count = 0
    for text in chain(begin, texts):
        file.write((chosen.between if count else "") + text)
        count += 1
    file.write(chosen.after)
    return count


def _format(name: str) -> _Format:
    try:
        return _FORMATS[name]
    except KeyError:
        raise ValueError(f"unknown format {name!r}; there are {', '.join(FORMATS)}") from None


def reporter(errors: str, report: Callable[[ParseError], object] | None) -> Report:
    """Choose the treatment of errors from a caller's arguments."""
    if errors not in ("strict", "report"):
        raise ValueError(f"errors is 'strict' or 'report', not {errors!r}")
    if (errors == "report") != (report is not None):
        raise ValueError("errors='report' and report=, such as a list's append, go together")
    return report or strict


@attrs.frozen(slots=True)
class AdStream:
    """The pieces of a file, its format, and the treatment of errors."""

    format: str
    pieces: Iterator[str]
    report: Report


@contextmanager
def opened(source: Source, format: str, report: Report, chunk: int) -> Iterator[AdStream]:
    """A file to be read in pieces of `chunk` bytes. A ParseError that is raised names the file."""
    pieces, name = _pieces(source, chunk)
    with _located(pieces, format, name, report) as found:
        yield found


@contextmanager
def _located(pieces: Iterator[str], name: str, source: str, report: Report) -> Iterator[AdStream]:
    placed = report
    if source and report is not strict:

        def placed(error: ParseError) -> None:
            report(error.at(source))

    try:
        pieces = without_mark(pieces)
        if name in ("auto", "new"):
            found, pieces = detect(pieces)
            name = found if name == "auto" or found == BARE else name
        yield AdStream(name, pieces, placed)
    except ParseError as error:
        raise (error.at(source) if source and report is strict else error) from None


def ads_in(found: AdStream) -> Iterator[ClassAd]:
    """The ads of a stream, one by one."""
    read = new.read_bare if found.format == BARE else _format(found.format).read
    return read(found.pieces, found.report)


def _read(pieces: Iterator[str], name: str, source: str, report: Report) -> Iterator[ClassAd]:
    with _located(pieces, name, source, report) as found:
        yield from ads_in(found)


def _text(ad: ClassAd, chosen: _Format) -> str:
    """Write an ad. Raises ValueError if it would not be read back, TypeError for other objects."""
    ad = an_ad(ad)
    deepest = max((held.depth for held in ad._held.values() if isinstance(held, Expr)), default=0)
    if deepest + (chosen.write is new.write) > LIMITS.nesting:
        raise ValueError(f"the ad nests {deepest + 1} deep, at most {LIMITS.nesting} is read back")
    try:
        text = chosen.write(ad)
    except ValueError:
        _check_all(ad)
        raise
    if _is_suspicious(text):
        _check_all(ad)
    return text


# What the text of an ad holds if one of its strings is such that no format can hold it.
_SUSPICIOUS: Final = ("\\000", "\\u0000", "\\ud", "\0", "''", '""')
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _is_suspicious(text: str) -> bool:
    # Six searches of C take a tenth of the time of one pattern for all.
    odd = any(part in text for part in _SUSPICIOUS)
    return odd or not (text.isascii() or _SURROGATE.search(text) is None)


def _check_all(ad: ClassAd) -> None:
    for name, expression in ad.expressions().items():
        _check(name, name)
        for node in postorder(expression):
            _check_node(node, name)


def _check_node(node: Expr, within: str) -> None:
    if isinstance(node, Constant) and isinstance(node.value, str):
        _check(node.value or "-", within)
    elif isinstance(node, Attr):
        _check(node.name, within)
    elif isinstance(node, Call):
        _check(node.function, within)
    elif isinstance(node, AdExpr):
        for name in node.names:
            _check(name, within)


def _check(text: str, within: str) -> None:
    wrong = "a name of no characters" if not text else "the character \\0" if "\0" in text else ""
    half = re.search("[\ud800-\udfff]", text)
    if half is not None:
        wrong = f"U+{ord(half[0]):04X}, half of a surrogate pair"
    if wrong:
        where = shorten(within.encode("ascii", "backslashreplace").decode(), 60)
        raise ValueError(f"{where}: no format can hold {wrong}")
