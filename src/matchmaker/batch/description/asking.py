"""Running a batch system's own commands: without a shell, for a bounded time and output."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from typing import Final

from matchmaker.batch.description.texts import MOST, DescriptionError

SECONDS: Final = 60.0

_PIECE: Final = 1 << 16
_SAID: Final = 300
"""How much of what a command complained of is repeated."""


def ask(argv: Sequence[str]) -> str:
    """What a command prints, in the C locale.

    Raises DescriptionError where it is not installed, fails, says too much or takes too long.

    >>> ask(["printf", "%s", "n1"])
    'n1'
    """
    name = argv[0]
    try:
        process = subprocess.Popen(  # noqa: S603 - words of our own, and no shell
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise DescriptionError(
            f"{name}: no such command here; give what it prints in files instead"
        ) from None
    except OSError as error:
        raise DescriptionError(f"{name}: {error.strerror}") from None
    with process:
        try:
            output, complaint = _both(process, name)
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise DescriptionError(f"{name}: no end within {SECONDS:.0f} seconds") from None
        except BaseException:
            process.kill()
            raise
    if code != 0:
        said = " ".join(complaint.decode("utf-8", "replace").split())[:_SAID]
        raise DescriptionError(
            f"{' '.join(argv)}: it failed with status {code}: {said or 'silent'}"
        )
    return output.decode("utf-8", "replace")


def _both(process: subprocess.Popen[bytes], name: str) -> tuple[bytes, bytes]:
    """Standard output and error, read together so that neither waits for the other."""
    assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018 - pipes
    said: dict[object, list[bytes]] = {process.stdout: [], process.stderr: []}
    size = 0
    end = time.monotonic() + SECONDS
    with selectors.DefaultSelector() as waiting:
        for pipe in said:
            waiting.register(pipe, selectors.EVENT_READ)  # type: ignore[arg-type]
        while waiting.get_map():
            ready = waiting.select(max(0.0, end - time.monotonic()))
            if not ready:
                raise DescriptionError(f"{name}: no answer within {SECONDS:.0f} seconds")
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE)
                size += len(piece)
                if size > MOST:
                    raise DescriptionError(f"{name}: it prints more than {MOST >> 20} MiB")
                if piece:
                    said[key.fileobj].append(piece)
                else:
                    waiting.unregister(key.fileobj)
    return b"".join(said[process.stdout]), b"".join(said[process.stderr])
