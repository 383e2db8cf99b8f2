"""Evaluates expressions with HTCondor's own library: JSON requests in, JSON answers out.

A script for a process of its own, because the library keeps state, can hang, and can crash. It uses
nothing of the project. One line is one request; it holds ``text`` and perhaps ``my`` and
``target``, ads as text. An answer is the value as a list that begins with its type; see
``encoded``.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from typing import Any

os.environ["TZ"] = "UTC"
os.environ["CONDOR_CONFIG"] = "ONLY_ENV"

# First, because it gives the process the semantics that users of HTCondor see.
import htcondor2  # noqa: F401 # isort: skip
import classad2  # isort: skip


class Question:
    """One expression between two ads."""

    def __init__(self, request: dict[str, str]) -> None:
        self.text = request["text"]
        self.my = classad2.ClassAd(request["my"]) if request.get("my") else None
        self.target = classad2.ClassAd(request["target"]) if request.get("target") else None

    def value(self, text: str) -> Any:
        return classad2.ExprTree(text).eval(self.my, self.target)

    def encoded(self, value: Any, text: str) -> list[Any]:
        """A value as plain data; `text` is an expression that gives it, to ask about its type."""
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
            return ["list", [self.item(item, f"({text})[{i}]") for i, item in enumerate(value)]]
        if isinstance(value, classad2.ClassAd):
            return ["classad", sorted(name.lower() for name in value)]
        raise TypeError(type(value).__name__)

    def item(self, value: Any, text: str) -> list[Any]:
        if isinstance(value, classad2.ExprTree):
            value = value.eval(self.my, self.target)
        return self.encoded(value, text)


def answer(request: dict[str, str]) -> list[Any]:
    """The encoded value, or why there is none: ``unreadable`` text, or an ``exception``."""
    try:
        classad2.ExprTree(request["text"])
    except classad2.ClassAdException:
        return ["unreadable"]
    try:
        question = Question(request)
        return question.encoded(question.value(question.text), question.text)
    except (classad2.ClassAdException, UnicodeDecodeError, OverflowError, ValueError) as error:
        return ["exception", type(error).__name__]


def main() -> None:
    """Answers until the input ends."""
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)  # noqa: T201 - its output


if __name__ == "__main__":
    main()
