"""One large file of ads read by several processes, each a part of it that ends with an ad.

A process leaves its part as a saved pool, in Arrow's format, and no ad is pickled. Where one of
them fails, for whatever reason, the file is read by this process, which finds the error in order.

A file in brackets is cut where an ad seems to end and the next to begin. If that is within an ad,
a string or a comment, the part before it ends in what is not closed, and its process fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import IO, Final, cast

import attrs

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.formats import Stream, opened
from matchmaker.classad.formats.stream import CHUNK, pieces_of, strict, without_mark
from matchmaker.classad.operators import ascii_fold
from matchmaker.matching.columns import saved
from matchmaker.matching.columns.keys import key_from
from matchmaker.matching.columns.reading import blocks_of
from matchmaker.matching.columns.store import Store
from matchmaker.matching.columns.views import Block

LEAST: Final = 1 << 26
"""The least number of bytes for which a process is worth its start."""

_MODULE: Final = "matchmaker.matching.filling"
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
class Part:
    """A part of a file: its format, where it begins and ends, and what its ads stand between.

    Each part of a list of ads is a list, whose first and last bracket may stand in other parts.
    """

    format: str
    begin: int
    end: int
    before: str = ""
    after: str = ""


def parts_of_file(path: str | os.PathLike[str], format_: str, count: int) -> list[Part]:
    """The parts of a file, at most `count`; none where it cannot be cut."""
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
        Part(name, begin, end, before if begin else "", after if end < size else "")
        for begin, end in pairwise(sorted(cuts))
    ]


def fill_from_parts(
    store: Store, path: str | os.PathLike[str], key: str, parts: list[Part]
) -> bool:
    """Enters the ads of a file's parts; False, and nothing is entered, if a process failed.

    Raises DuplicateKeyError.
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


def _block(path: Path) -> Block:
    """The rows of a saved pool."""
    with path.open("rb") as file:
        _, store = saved.load(file, str(path))
    return store.parts().block(list(store))


def _plain_key(ad: ClassAd, folded: str) -> str:
    """The key of an ad that simply says it. Raises ValueError for any other."""
    content = ad._held.get(folded)
    key = key_from(content)
    if key is None:
        raise ValueError("this process looks at no keys that are evaluated")
    return key


def _pieces(path: str, part: Part) -> Iterator[str]:
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
    """Leaves a part of a file as a saved pool: what a process does."""
    format_, begin, end, before, after, key, output = argv
    part = Part(format_, int(begin), int(end), before, after)
    folded = ascii_fold(key)
    store = Store(folded)
    pieces = _pieces(path, part)
    stream = Stream(format_, without_mark(pieces) if part.begin == 0 else pieces, strict)
    store.absorb(blocks_of(stream, store.names, folded, lambda ad: _plain_key(ad, folded)))
    with Path(output).open("wb") as file:
        saved.save(store.parts(), key, file)


if __name__ == "__main__":
    _main(*sys.argv[1:])
