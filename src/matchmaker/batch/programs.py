"""Run a program without a shell, for a bounded time and output.

A program that takes too long, prints too much, or is abandoned is ended, together with everything
that it has started.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

# As much as a pipe of Linux holds: larger pieces are never read at once.
_PIECE: Final = 1 << 16


class ProgramError(Exception):
    """A program cannot be run to its end; the message says why, without its name."""


class NoProgramError(ProgramError):
    """The program does not exist."""


@attrs.frozen(slots=True)
class ProgramResult:
    """The exit status of a program, its output, and its standard error."""

    status: int
    output: bytes
    complaint: bytes


def run(
    argv: Sequence[str],
    *,
    seconds: float,
    most: int,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    umask: int = -1,
) -> ProgramResult:
    """Run a program to its end, for some seconds at most.

    ``most`` bounds the bytes of standard output and error together. Environment, working folder and
    umask are by default those of this process. Raises NoProgramError if the program does not exist,
    and ProgramError if it cannot be started, takes too long or prints too much.

    >>> run(["printf", "%s", "$(id)"], seconds=10, most=100)
    ProgramResult(status=0, output=b'$(id)', complaint=b'')
    """
    try:
        process = subprocess.Popen(  # noqa: S603 - words, and no shell
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else dict(env),
            cwd=cwd,
            umask=umask,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise NoProgramError(error.strerror or "not found") from None
    except OSError as error:
        raise ProgramError(error.strerror or str(error)) from None
    end = time.monotonic() + seconds
    with process:
        try:
            output, complaint = _both(process, end, most)
            status = process.wait(max(0.0, end - time.monotonic()))
        except (TimeoutError, subprocess.TimeoutExpired):
            _end(process)
            raise ProgramError(f"it did not end within {seconds:g} seconds") from None
        except BaseException:
            _end(process)
            raise
    return ProgramResult(status, output, complaint)


def _both(process: subprocess.Popen[bytes], end: float, most: int) -> tuple[bytes, bytes]:
    """Read standard output and error together, so that neither waits for the other."""
    assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018 - pipes
    said: dict[object, list[bytes]] = {process.stdout: [], process.stderr: []}
    size = 0
    with selectors.DefaultSelector() as waiting:
        for pipe in said:
            waiting.register(pipe, selectors.EVENT_READ)  # type: ignore[arg-type]
        while waiting.get_map():
            ready = waiting.select(max(0.0, end - time.monotonic()))
            if not ready or time.monotonic() > end:
                raise TimeoutError
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE)
                size += len(piece)
                if size > most:
                    raise ProgramError(f"too much output: more than {_size(most)}")
                if piece:
                    said[key.fileobj].append(piece)
                else:
                    waiting.unregister(key.fileobj)
    return b"".join(said[process.stdout]), b"".join(said[process.stderr])


def _size(number: int) -> str:
    return f"{number >> 20} MiB" if number >= 1 << 20 else f"{number >> 10} KiB"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program with all that it has started, which may hold the pipes open."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
