"""Evaluates expressions with HTCondor's own library: JSON requests in, JSON answers out.

A script for a process of its own, because the library keeps state, can hang, and can crash. It uses
nothing of the project. One line is a list of requests, each a list of the expression and the two
ads as text, empty where there is none. One line for each request is its answer: the value as a list
that begins with its type, see ``encoded``.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import os
import sys
from typing import Any

os.environ["TZ"] = "UTC"
os.environ["CONDOR_CONFIG"] = "ONLY_ENV"

# First, because it gives the process the semantics that users of HTCondor see.
import htcondor2  # noqa: F401 # isort: skip
import classad2  # isort: skip

DEPTH = 3
"""How deep the parts of a value are looked at: it may hold itself."""

# What of an attribute's name would end the quotes around it.
QUOTED = str.maketrans({"\\": "\\\\", "'": "\\'"})


@functools.lru_cache(maxsize=64)
def ad(text: str) -> Any:
    """An ad, read once for all the expressions that are asked in it; None for no text."""
    return classad2.ClassAd(text) if text else None


class Question:
    """One expression between two ads."""

    def __init__(self, my: str, target: str) -> None:
        self.my = ad(my)
        self.target = ad(target)

    def value(self, text: str) -> Any:
        return classad2.ExprTree(text).eval(self.my, self.target)

    def encoded(self, text: str, depth: int = DEPTH) -> list[Any]:
        """The value of an expression as plain data."""
        return self.of(self.value(text), text, depth)

    def of(self, value: Any, text: str, depth: int) -> list[Any]:
        """A value as plain data; `text` is an expression that gives it, to ask about its parts."""
        if value is classad2.Value.Error:
            return ["error"]
        if value is classad2.Value.Undefined:
            return ["undefined"]
        if isinstance(value, bool):
            return ["boolean", value]
        if isinstance(value, int):
            return ["integer", str(value)]
        if isinstance(value, float):
            # The bindings give a relative time as a plain number of seconds.
            relative = self.value(f"isRelTime({text})") is True
            return ["relative time" if relative else "real", repr(value)]
        if isinstance(value, str):
            return ["string", value]
        if isinstance(value, dt.datetime):
            # The bindings forget the offset; the library's own text has it.
            return ["absolute time", self.value(f"string({text})")]
        if isinstance(value, list):
            if not depth:
                return ["list", len(value)]
            return ["list", [self.item(item, f"({text})[{i}]", depth - 1)
                             for i, item in enumerate(value)]]  # fmt: skip
        if isinstance(value, classad2.ClassAd):
            names = sorted(value, key=str.lower)
            if not depth:
                return ["classad", [name.lower() for name in names]]
            return ["classad", [[name.lower(),
                                 self.encoded(f"({text}).'{name.translate(QUOTED)}'", depth - 1)]
                                for name in names]]  # fmt: skip
        raise TypeError(type(value).__name__)

    def item(self, value: Any, text: str, depth: int) -> list[Any]:
        # What is taken out of a list has lost the ad in which it stood.
        if isinstance(value, (classad2.ExprTree, classad2.ClassAd, list)):
            return self.encoded(text, depth)
        return self.of(value, text, depth)


def answer(text: str, my: str = "", target: str = "") -> list[Any]:
    """The encoded value, or why there is none: text that is ``unreadable``, or an ``exception``."""
    try:
        # The bindings set the text inside an ad, which it must not leave; alone, a bracket too many
        # would not be noticed. They also want a comment to end with its line.
        classad2.ExprTree(f"{text}\n"), classad2.ExprTree(f"({text}\n)")
        ad(my), ad(target)
    except classad2.ClassAdException:
        return ["unreadable"]
    try:
        return Question(my, target).encoded(f"{text}\n")
    except (classad2.ClassAdException, UnicodeDecodeError, OverflowError, ValueError) as error:
        return ["exception", type(error).__name__]


def main() -> None:
    """Answers until the input ends."""
    for line in sys.stdin:
        for request in json.loads(line):
            print(json.dumps(answer(*request)), flush=True)  # noqa: T201 - its output


if __name__ == "__main__":
    main()
