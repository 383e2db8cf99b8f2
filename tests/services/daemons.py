"""Starting servers of the machine's own for tests, and stopping them: in the foreground, by pid."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

# Daemons live in sbin, which is often missing from the path of an ordinary user.
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])

START_SECONDS = 60.0


class ServiceUnavailable(Exception):  # noqa: N818 - a state of this machine, not an error in a test
    """The servers cannot be started on this machine; the message says why."""


def program(name: str) -> str:
    """The path of a program; one that is missing is `ServiceUnavailable`."""
    found = shutil.which(name, path=PATH)
    if found is None:
        raise ServiceUnavailable(f"{name} not found (`make test` installs it where it may)")
    return found


def free_port() -> int:
    """A port of the loopback address on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-10:]) or "(no output)"


@contextlib.contextmanager
def daemon(
    argv: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a daemon in the foreground, its output in ``log``; end it with what it started."""
    # If the test process itself is killed, the kernel stops the daemon.
    setpriv = shutil.which("setpriv", path=PATH)
    guard = [setpriv, "--pdeathsig", "TERM", "--"] if setpriv else []
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*guard, *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={"PATH": PATH, **(environment or {})},
            cwd=log.parent,
            # A group of its own: an interrupt at the keyboard must not reach it before we stop it.
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            # Nothing of it is to be kept, and some take long to end in order. Its group is its own.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def wait(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the daemon answers; an end or a silence of it is `ServiceUnavailable`."""
    give_up = time.monotonic() + START_SECONDS
    while not ready():
        name = log.stem
        if process.poll() is not None:
            raise ServiceUnavailable(f"{name} ended at once:\n{tail(log)}")
        if time.monotonic() > give_up:
            raise ServiceUnavailable(f"{name} does not answer:\n{tail(log)}")
        time.sleep(0.02)
