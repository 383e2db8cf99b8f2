"""Files with secrets: the binder's key, and tokens."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

_BYTES: Final = 32


class KeyFileError(ValueError):
    """A file with a key cannot be used; the message says why and what to do."""


def own_key(file: Path) -> bytes:
    """The key of a binder; creates the file if there is none.

    Raises KeyFileError for a file that others may read or that holds no key, and OSError.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     len(own_key(Path(folder, "key"))), own_key(Path(folder, "key")) == b""
    (32, False)
    """
    with suppress(FileExistsError):
        written(file, secrets.token_hex(_BYTES) + "\n")
    with file.open("rb") as opened:
        mode = os.fstat(opened.fileno()).st_mode
        text = opened.read(4 * _BYTES)
    if mode & 0o077:
        raise KeyFileError(f"{file}: others may read this key: chmod 600 it, and make new tokens")
    try:
        key = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        key = b""
    if len(key) != _BYTES:
        raise KeyFileError(f"{file}: {2 * _BYTES} digits of base 16 were expected")
    return key


def written(file: Path, text: str) -> None:
    """Writes a new file that its owner alone may read; whole, or not at all.

    Raises FileExistsError if there is a file of that name, and OSError.
    """
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(opened, "w", encoding="ascii") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        # A link fails where the name is taken; a rename would replace what has it.
        try:
            file.hardlink_to(temporary)
        except FileExistsError as error:
            # The system names the temporary file.
            raise FileExistsError(error.errno, error.strerror, str(file)) from None
    finally:
        temporary.unlink()
