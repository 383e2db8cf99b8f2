"""The reference implementation as an object to ask. Our own answers are in ``answers``."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import attrs

WORKER: Final = Path(__file__).with_name("worker.py")

SECONDS: Final = 10.0
"""How long the reference implementation may take for one expression before it counts as hanging."""

BATCH: Final = 200
"""How many cases are sent at once."""

Answer: TypeAlias = "list[Any]"
"""A value as plain data: a list that begins with its type, or with why there is no value."""

HANGS: Final[Answer] = ["hangs"]
CRASHES: Final[Answer] = ["crashes"]


@attrs.frozen(slots=True)
class Case:
    """An expression in an ad, perhaps matched with another ad. An empty text is no ad at all."""

    text: str
    my: str = "[ ]"
    target: str = ""

    def __str__(self) -> str:
        where = f"  in {self.my}" if self.my != "[ ]" else ""
        match = f"  with {self.target}" if self.target else ""
        return f"{self.text}{where}{match}"


class Oracle:
    """A child process with the reference implementation, started again when it hangs or crashes."""

    def __init__(self, worker: Path = WORKER, seconds: float = SECONDS) -> None:
        self.worker = worker
        self.seconds = seconds
        self.starts = 0
        """How many processes have been started so far."""
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()

    def ask(self, case: Case) -> Answer:
        """The answer to one case; see :meth:`answers`."""
        return self.answers([case])[0]

    def answers(self, cases: list[Case]) -> list[Answer]:
        """The encoded values of cases; else ``unreadable``, an ``exception``, HANGS or CRASHES.

        A process that crashes is asked for the same case once more, in a fresh process and alone,
        so that the case bears no blame for those before it.
        """
        answers: list[Answer] = []
        suspect = -1
        while len(answers) < len(cases):
            alone = len(answers) == suspect
            pending = cases[len(answers) :][: 1 if alone else None]
            self._send(pending)
            for _ in pending:
                answer = self._receive()
                if answer is None and not alone:
                    suspect = len(answers)
                    break
                answers.append(CRASHES if answer is None else answer)
                if answers[-1] in (CRASHES, HANGS):
                    break
        return answers

    def _send(self, cases: list[Case]) -> None:
        process = self._running()
        assert process.stdin is not None
        # One line, which the worker reads to its end before it begins to answer.
        with contextlib.suppress(OSError):
            requests = [[case.text, case.my, case.target] for case in cases]
            process.stdin.write(json.dumps(requests) + "\n")
            process.stdin.flush()

    def _receive(self) -> Answer | None:
        """The next answer; None, with the process ended, where there is none any more."""
        try:
            line = self._lines.get(timeout=self.seconds)
        except queue.Empty:
            self.close()
            return HANGS
        if not line.endswith("\n"):
            self.close()
            return None
        answer: Answer = json.loads(line)
        return answer

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            self.starts += 1
            self._process = subprocess.Popen(
                [sys.executable, str(self.worker)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
            )
            # A queue of its own, so that a line of a process given up on is never read.
            self._lines = queue.Queue()
            assert self._process.stdout is not None
            threading.Thread(
                target=_feed, args=(self._process.stdout, self._lines), daemon=True
            ).start()
        return self._process

    def close(self) -> None:
        """Ends the child process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            with contextlib.suppress(OSError):
                if process.stdin is not None:
                    process.stdin.close()


def _feed(lines: IO[str], into: queue.Queue[str]) -> None:
    with lines:
        for line in lines:
            into.put(line)
    into.put("")


def batches(cases: Iterable[Case], size: int = BATCH) -> Iterator[list[Case]]:
    """The cases in lists of at most `size`, as they come."""
    remaining = iter(cases)
    while batch := list(islice(remaining, size)):
        yield batch
