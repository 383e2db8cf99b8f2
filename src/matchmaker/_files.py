"""Files that are replaced as a whole or not at all, and plain files to read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO


@contextmanager
def plain(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A plain file to read; a pipe is not waited for. Raises OSError for anything else."""
    with open(path, "rb", opener=lambda at, flags: os.open(at, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "no plain file", path)
        yield file


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    """A text file (UTF-8) that takes the place of `path` when the block ends without an error.

    In all else it is like ``replacing_bytes``.
    """
    with replacing_bytes(path) as file:
        text = TextIOWrapper(file, encoding="utf-8", newline="\n")
        yield text
        text.detach()


@contextmanager
def replacing_bytes(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` when the block ends without an error.

    A link stays one, and what it leads to is replaced. A device or a pipe is written to directly.
    Raises OSError, with the path, where that cannot be.
    """
    # Here, because few that read ads write files.
    import tempfile

    target = Path(path).resolve()
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG | 0o666 & ~_umask()
    if not stat.S_ISREG(mode):
        with Path(path).open("wb") as file:
            yield file
        return
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    except OSError as error:
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).chmod(stat.S_IMODE(mode))
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
