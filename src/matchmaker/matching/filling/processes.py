"""One large file of old ads read by several processes, each a part of it that ends with an ad.

A process leaves its part as a saved pool, in Arrow's format, and no ad is pickled. Where one of
them fails, for whatever reason, the file is read by this process, which finds the error in order.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final, cast

import attrs

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.formats import Stream, opened
from matchmaker.classad.formats.stream import pieces_of, strict, without_mark
from matchmaker.classad.operators import ascii_fold
from matchmaker.matching.columns import saved
from matchmaker.matching.columns.keys import key_from
from matchmaker.matching.columns.store import Store
from matchmaker.matching.columns.views import Block
from matchmaker.matching.filling.streams import CHUNK, fill

LEAST: Final = 1 << 26
"""A process is worth its beginning from so many bytes on."""

_MODULE: Final = "matchmaker.matching.filling.processes"
_HEAD: Final = 1 << 16
_FAR: Final = 1 << 24
_BETWEEN: Final = re.compile(rb"\n\r?\n")


def parts_of_file(path: str | os.PathLike[str], format_: str, count: int) -> list[tuple[int, int]]:
    """Where the parts of a file begin and end: so many at most, none where it cannot be cut."""
    size = Path(path).stat().st_size
    count = min(count, size // LEAST)
    with opened(path, format_, strict, _HEAD) as stream:
        if stream.format != "old" or count < 2:
            return []
    cuts = {0, size}
    with Path(path).open("rb") as file:
        for number in range(1, count):
            begin = size * number // count
            file.seek(begin)
            found = _BETWEEN.search(file.read(_FAR))
            if found is not None:
                cuts.add(begin + found.end())
    return list(pairwise(sorted(cuts))) if len(cuts) > 2 else []


def fill_from_parts(
    store: Store, path: str | os.PathLike[str], key: str, parts: list[tuple[int, int]]
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
                [*command, *map(str, part), key, str(output)], stdin=none, stdout=none, stderr=none
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
    content = ad.content.get(folded)
    key = key_from(content)
    if key is None:
        raise ValueError("this process looks at no keys that are evaluated")
    return key


def _pieces(path: str, begin: int, end: int) -> Iterator[str]:
    """The text of a part of a file."""
    with Path(path).open("rb") as file:
        file.seek(begin)
        left = end - begin

        def read(size: int) -> bytes:
            nonlocal left
            data = file.read(min(size, left))
            left -= len(data)
            return data

        yield from pieces_of(cast("IO[bytes]", _Reader(read)), CHUNK)


@attrs.frozen(slots=True)
class _Reader:
    """What ``pieces_of`` needs of a file."""

    read: Callable[[int], bytes]


def _main(path: str, begin: str, end: str, key: str, output: str) -> None:
    """Leaves a part of a file as a saved pool: what a process does."""
    folded = ascii_fold(key)
    store = Store(folded)
    pieces = _pieces(path, int(begin), int(end))
    stream = Stream("old", without_mark(pieces) if begin == "0" else pieces, strict)
    fill(store, folded, lambda ad: _plain_key(ad, folded), stream)
    with Path(output).open("wb") as file:
        saved.save(store.parts(), key, file)


if __name__ == "__main__":
    _main(*sys.argv[1:])
