"""A binder and pilots as processes of their own, which a test may kill and start again."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from matchmaker.pilots.binder.admission import load_key
from matchmaker.pilots.wire import connect
from matchmaker.pilots.wire.connect import BinderAddress
from matchmaker.pilots.wire.protocol import Token, TokenScope, sign

COMMAND = (sys.executable, "-c", "from matchmaker.cli import main; main()")


def free_port() -> int:
    """A port that nobody uses, below those that the system gives out by itself.

    A binder that is killed comes back on it, and until then nobody else may take it.
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port


class Grid:
    """A folder, a binder's address, and the processes that were started."""

    def __init__(self, folder: Path, *, lease: float = 3.0, tables: str | None = None) -> None:
        self.folder = folder
        self.lease = lease
        self.tables = tables
        self.address = f"127.0.0.1:{free_port()}"
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.logs = folder / "logs"
        self.logs.mkdir()
        for scope in (TokenScope.CLIENT, TokenScope.ADMIN, TokenScope.FACTORY):
            (folder / f"{scope}.token").write_text(self.token(scope))

    def token(self, scope: TokenScope, **more: Any) -> str:
        """The text of a new token."""
        plain = {"subject": str(scope), "pool": "binder", "ends": time.time() + 86_400, **more}
        return sign(load_key(self.folder / "key"), Token(scope=scope, **plain))

    def pilot_token(self, **more: Any) -> Path:
        """A new file with the token of one pilot, which removes it."""
        file = self.folder / f"pilot.{secrets.token_hex(4)}.token"
        file.write_text(self.token(TokenScope.PILOT, **more))
        return file

    def place(self, scope: TokenScope = TokenScope.CLIENT) -> BinderAddress:
        token = (self.folder / f"{scope}.token").read_text()
        return BinderAddress(address=self.address, token=token)

    def start(self, name: str, *words: object, **environment: str) -> subprocess.Popen[str]:
        """Starts ``classad`` with words, under a name."""
        log = (self.logs / f"{name}.log").open("a")
        process = subprocess.Popen(
            [*COMMAND, *map(str, words)], stdout=subprocess.PIPE, stderr=log, text=True,
            env={**os.environ, "CLASSAD_BINDER": self.address, **environment},
        )  # fmt: skip
        log.close()
        self.running[name] = process
        return process

    def binder(self, *more: str) -> None:
        """Starts the binder, and waits until it listens."""
        if self.tables is not None:
            more = (*more, "--tables", self.tables)
        process = self.start(
            "binder", "binder", "run", "--folder", self.folder, "--listen", self.address,
            "--lease", self.lease, *more,
        )  # fmt: skip
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], 60)
        assert ready, "the binder does not listen"
        line = process.stdout.readline()
        assert "listens" in line, (self.logs / "binder.log").read_text()

    def pilot(self, name: str, *words: object) -> None:
        """Starts a pilot."""
        work = self.folder / f"work.{name}"
        self.start(name, "pilot", "--token", self.pilot_token(), "--dir", work, *words)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Sends a signal to a process, and waits for its end where it cannot survive."""
        process = self.running[name]
        process.send_signal(number)
        if number is signal.SIGKILL:
            process.wait(30)
            self._closed(process)

    def end(self, name: str, seconds: float = 60.0) -> str:
        """Asks a process to end; gives what it printed."""
        process = self.running.pop(name)
        process.send_signal(signal.SIGCONT)
        process.terminate()
        printed, _ = process.communicate(timeout=seconds)
        if process.returncode == -signal.SIGTERM:
            # It had only just begun, and did not yet listen to signals.
            return "has ended at its start"
        return printed

    @staticmethod
    def _closed(process: subprocess.Popen[str]) -> None:
        if process.stdout is not None:
            process.stdout.close()

    def close(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait(30)
            self._closed(process)

    async def jobs(self) -> list[connect.JobFacts]:
        """All jobs; waits until the binder answers."""
        deadline = time.monotonic() + 60
        while True:
            try:
                async with connect.binder(self.place()) as binder:
                    return [job async for job in binder.jobs()]
            except (OSError, ValueError):
                assert time.monotonic() < deadline, "the binder does not answer"
                await asyncio.sleep(0.1)


@contextmanager
def grid(folder: Path, **how: Any) -> Iterator[Grid]:
    """A grid whose processes are all gone at the end."""
    made = Grid(folder, **how)
    try:
        yield made
    finally:
        made.close()


def with_text(text: str) -> list[int]:
    """The processes with a text in their words or their environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                if text.encode() in (place / name).read_bytes():
                    found.append(int(place.name))
                    break
            except OSError:
                continue
    return [pid for pid in found if pid != os.getpid()]
