"""The reference implementation as an object to ask, and our own answers in the same form."""

from __future__ import annotations

import contextlib
import json
import math
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any, Final

import attrs

from matchmaker import ClassAd, ParseError, parse_ad, parse_expr
from matchmaker.classad.functions.conversions import to_text
from matchmaker.classad.values import UNDEFINED, Value, is_error

WORKER: Final = Path(__file__).with_name("worker.py")

SECONDS: Final = 10.0
"""How long the reference implementation may take for one expression before it counts as hanging."""


@attrs.frozen(slots=True)
class Case:
    """An expression, perhaps in an ad, perhaps matched with another ad."""

    text: str
    my: str = ""
    target: str = ""


@attrs.frozen(slots=True)
class Compared:
    """What both give for a case, as lists that begin with the type of the value."""

    case: Case
    ours: list[Any]
    theirs: list[Any]

    def __str__(self) -> str:
        where = f"  in {self.case.my}" if self.case.my else ""
        match = f"  with {self.case.target}" if self.case.target else ""
        return f"{self.case.text}{where}{match}: ours {self.ours}, HTCondor's {self.theirs}"


class Oracle:
    """A child process with the reference implementation, started again when it hangs or crashes."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()

    def ask(self, case: Case) -> list[Any]:
        """The encoded value of a case, or ``["hangs"]``, ``["crashes"]``, ``["unreadable"]``."""
        process = self._running()
        request = {"text": case.text, "my": case.my, "target": case.target}
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = self._lines.get(timeout=SECONDS)
        except queue.Empty:
            self.close()
            return ["hangs"]
        except OSError:
            line = ""
        if not line:
            self.close()
            return ["crashes"]
        answer: list[Any] = json.loads(line)
        return answer

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(WORKER)],
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


def encoded(value: Value) -> list[Any]:
    """A value in the form in which the worker gives its own."""
    if is_error(value):
        return ["error"]
    if value is UNDEFINED:
        return ["undefined"]
    if isinstance(value, bool):
        return ["boolean", value]
    if isinstance(value, int):
        return ["integer", str(value)]
    if isinstance(value, float):
        return ["real", repr(value)]
    if isinstance(value, str):
        return ["string", value]
    if isinstance(value, datetime):
        return ["absolute time", to_text(value)]
    if isinstance(value, timedelta):
        return ["relative time", repr(value.total_seconds())]
    if isinstance(value, list):
        return ["list", [encoded(item) for item in value]]
    assert isinstance(value, ClassAd)
    return ["classad", sorted(name.lower() for name in value)]


def ours(case: Case) -> list[Any]:
    """Our own answer to a case."""
    try:
        expression = parse_expr(case.text)
    except ParseError:
        return ["unreadable"]
    my = parse_ad(case.my) if case.my else None
    target = parse_ad(case.target) if case.target else None
    return encoded(expression.eval(my, target))


def compared(oracle: Oracle, cases: Iterable[Case]) -> list[Compared]:
    """Both answers to each of the cases."""
    return [Compared(case, ours(case), oracle.ask(case)) for case in cases]


def agree(one: Compared) -> bool:
    """Whether both answers are the same. What HTCondor refuses to evaluate is an error with us."""
    if one.theirs[0] == "exception":
        return one.ours == ["error"]
    return _same(one.ours, one.theirs)


def _same(left: list[Any], right: list[Any]) -> bool:
    if left[0] != right[0]:
        return False
    if left[0] == "list":
        return len(left[1]) == len(right[1]) and all(map(_same, left[1], right[1]))
    if left[0] == "relative time":
        # A relative time has microseconds with us.
        return math.isclose(float(left[1]), float(right[1]), rel_tol=1e-12, abs_tol=1e-6)
    return left == right
