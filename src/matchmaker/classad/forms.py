"""What the forms of the syntax denote where that is more than one node: for both parsers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from matchmaker.classad.nodes import AdExpr, Call, Expr, Literal
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.times import parse_absolute, parse_relative
from matchmaker.classad.values import Value

NAMED: Final = {"=?=": "is", "=!=": "isnt"}
"""Operators that nodes have under another name."""

PRECEDENCE: Final = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!=", "is", "isnt"), ("<", "<=", ">", ">="),
    ("<<", ">>", ">>>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
"""Operators of two operands but ``?:``, the loosest first; those of a level group from the left."""

_NOT_FINITE: Final = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}


def call(function: str, arguments: tuple[Expr, ...]) -> Expr:
    """A call; ``real("INF")``, ``absTime("…")`` and ``relTime("…")`` are the literals they denote.

    Such values have no other way to be written, and HTCondor reads them so too.
    """
    if len(arguments) == 1 and type(arguments[0]) is Literal:
        value = _constant(function.lower(), arguments[0].value)
        if value is not None:
            return Literal(value)
    return Call(function, arguments)


def _constant(function: str, text: Value) -> Value | None:
    if not isinstance(text, str):
        return None
    if function == "real":
        return _NOT_FINITE.get(text.lower())
    if function == "abstime":
        return parse_absolute(text)
    return parse_relative(text) if function == "reltime" else None


def ad_expression(assignments: Iterable[tuple[str, Expr]]) -> AdExpr:
    """An ad; the last of duplicates counts, under the first one's spelling and place."""
    entries: dict[str, tuple[str, Expr]] = {}
    for name, expression in assignments:
        folded = ascii_fold(name)
        entries[folded] = (entries[folded][0] if folded in entries else name, expression)
    names, expressions = zip(*entries.values(), strict=True) if entries else ((), ())
    return AdExpr(names, expressions)
