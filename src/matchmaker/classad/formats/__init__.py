"""Ads as text: four formats behind one dispatch, for reading and for writing.

``new`` is ads in brackets, ``old`` one assignment a line with a blank line between ads, ``json``
and ``xml`` are HTCondor's. Each module here knows one of them; this one tells them apart and opens
files.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final

import attrs

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import ParseError
from matchmaker.classad.formats import json, new, old, xml
from matchmaker.classad.scanner import read_flat_ad

Source = str | os.PathLike[str] | IO[str] | IO[bytes]


@attrs.frozen(slots=True)
class _Format:
    """How to read a stream of text pieces, how to write one ad, and what stands around many."""

    read: Callable[[Iterator[str]], Iterator[ClassAd]]
    write: Callable[[ClassAd], str]
    before: str = ""
    between: str = "\n"
    after: str = "\n"


_FORMATS: Final[Mapping[str, _Format]] = {
    "new": _Format(new.read, new.write),
    "old": _Format(old.read, old.write, between="\n\n"),
    "json": _Format(json.read, json.write, "[\n", ",\n", "\n]\n"),
    "xml": _Format(xml.read, xml.write, xml.PROLOGUE, "\n", "\n</classads>\n"),
}

FORMATS: Final = tuple(_FORMATS)

_CHUNK: Final = 1 << 16


def parse_ad(text: str, format: str = "auto") -> ClassAd:
    """Reads the one ad that a text holds, in format 'new', 'old', 'json', 'xml' or 'auto'.

    Raises ParseError, with its place, for anything but exactly one ad.

    >>> parse_ad("[ Cpus = 4; Memory = Cpus * 2048 ]").eval("Memory")
    8192
    >>> parse_ad("Cpus = 4").eval("Cpus")
    4
    """
    if format in ("auto", "new") and isinstance(text, str):
        ad = read_flat_ad(text)
        if ad is not None:
            return ad
    ads = parse_ads(text, format)
    first = next(ads, None)
    if first is None:
        raise ParseError("no ad was found", expected=("an ad such as [ Cpus = 4 ]",))
    if next(ads, None) is not None:
        raise ParseError("more than one ad was found", hint="use parse_ads for several")
    return first


def parse_ads(text: str, format: str = "auto") -> Iterator[ClassAd]:
    """Reads the ads of a text one after the other; ParseError with its place.

    >>> [ad.eval("a") for ad in parse_ads("[a = 1] [a = 2]")]
    [1, 2]
    """
    if not isinstance(text, str):
        raise TypeError(f"text was expected, not {type(text).__name__}; read_ads takes files")
    return _read(iter((text,)), format, "")


def read_ads(source: Source, format: str = "auto") -> Iterator[ClassAd]:
    """Reads the ads of a file, given by its path or open for text or bytes (UTF-8).

    Ads are given one by one as they are read. Raises OSError where the file cannot be read and
    ParseError, with the file's name and line, where it is not what `format` says.
    """
    if isinstance(source, (str, os.PathLike)):
        with Path(source).open("rb") as file:
            yield from _read(_pieces(file), format, os.fspath(source))
    else:
        yield from _read(_pieces(source), format, str(getattr(source, "name", "")))


def dumps(ad: ClassAd, format: str = "new") -> str:
    """One ad as text, without a newline at its end.

    >>> print(dumps(ClassAd({"a": 1, "s": "x"}), format="old"))
    a = 1
    s = "x"
    """
    chosen = _format(format)
    if format == "xml":
        return f"{chosen.before}{chosen.write(ad)}{chosen.after}".rstrip("\n")
    return chosen.write(ad)


def write_ads(ads: Iterable[ClassAd], file: IO[str], format: str = "new") -> int:
    """Writes ads to a text file as a stream that ``read_ads`` reads back; gives their number.

    >>> import io
    >>> file = io.StringIO()
    >>> write_ads([ClassAd({"a": 1}), ClassAd({"a": 2})], file, "old")
    2
    >>> _ = file.seek(0)
    >>> [ad.eval("a") for ad in read_ads(file)]
    [1, 2]
    """
    chosen = _format(format)
    file.write(chosen.before)
    count = 0
    for ad in ads:
        file.write((chosen.between if count else "") + chosen.write(ad))
        count += 1
    file.write(chosen.after)
    return count


def _format(name: str) -> _Format:
    try:
        return _FORMATS[name]
    except KeyError:
        raise ValueError(f"unknown format {name!r}; there are {', '.join(FORMATS)}") from None


def _read(pieces: Iterator[str], name: str, source: str) -> Iterator[ClassAd]:
    try:
        if name == "auto":
            name, pieces = _detect(pieces)
        yield from _format(name).read(pieces)
    except ParseError as error:
        raise (error.at(source) if source else error) from None


def _pieces(file: IO[str] | IO[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    line = 1
    while True:
        data = file.read(_CHUNK)
        if isinstance(data, bytes):
            try:
                text = decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                line += data[: error.start].count(b"\n")
                raise ParseError(
                    f"byte {error.object[error.start]:#04x} is not UTF-8 text", line=line
                ) from None
        else:
            text = data
        line += text.count("\n")
        if text:
            yield text
        if not data:
            return


def _detect(pieces: Iterator[str]) -> tuple[str, Iterator[str]]:
    """The format that a text seems to be in, from its first words, and the whole text again."""
    head = ""
    start = ""
    for piece in pieces:
        head += piece
        start = _LEADING.sub("", head, count=1)
        if len(start) > 1:
            break
    rest = _again(head, pieces)
    for pattern, name in _SIGNS:
        if pattern.match(start):
            return name, rest
    return "old", rest


def _again(head: str, pieces: Iterator[str]) -> Iterator[str]:
    yield head
    yield from pieces


_LEADING: Final = re.compile(r"\A(?:\s+|//[^\n]*(?:\n|\Z)|#[^\n]*(?:\n|\Z)|/\*.*?\*/)+", re.DOTALL)
_SIGNS: Final = (
    (re.compile(r"<"), "xml"),
    (re.compile(r'\{\s*["}]|\[\s*\{'), "json"),
    (re.compile(r"[\[{]"), "new"),
)
