"""The fixed cases that both sides are asked: all operators and functions on values of all types.

Scopes are tried in ``scopes``, random expressions are made in ``generate``, and those written by
hand are in ``expressions.txt``.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from matchmaker.classad.functions import FUNCTIONS, Function
from matchmaker.classad.functions.control import GLITE
from matchmaker.classad.operators import BINARY, UNARY
from tests.oracle import scopes
from tests.oracle.oracle import Case
from tests.oracle.vocabulary import ARGUMENTS, LEAVES, SIGNATURES

# Values as they are written, of every type, with the ones at the edge.
VALUES: Final = (
    "undefined", "error", "true", "false",
    "0", "1", "-1", "2", "7", "63", "64", "9223372036854775807", "-9223372036854775808",
    "9007199254740993", "0.0", "-0.0", "0.5", "2.5", "-2.5", "9007199254740992.0", "1e308",
    "1e-320", 'real("INF")', 'real("-INF")', 'real("NaN")',
    '""', '"a"', '"A"', '"abc"', '"10"', '"9"', '"_"', '"Z"', '"true"', '"a, b"', '"1,2.5"',
    "{}", "{1,2}", '{"a",undefined}', "{{1},[a=1]}", "{[a=1],[a=2]}", "[]", "[a=1]",
    'absTime("2004-01-01T00:00:00+00:00")', 'absTime("2004-01-01T01:00:00+01:00")',
    "relTime(90)", "relTime(-1.5)", "missing",
)  # fmt: skip

# Those that every pair of is tried: one or two of each type, and the extremes.
PAIRED: Final = (
    "undefined", "error", "true", "false", "0", "1", "-1", "64", "9223372036854775807",
    "-9223372036854775808", "9007199254740993", "-0.0", "2.5", "9007199254740992.0", "1e308",
    'real("-INF")', 'real("NaN")', '""', '"a"', '"A"', '"10"', "{1,2}", "[a=1]",
    'absTime("2004-01-01T00:00:00+00:00")', 'absTime("2004-01-01T01:00:00+01:00")',
    "relTime(90)", "relTime(-1.5)",
)  # fmt: skip

# One of each type, for every pair of arguments.
TYPES: Final = (
    "undefined", "error", "true", "7", "-2.5", '"a"', '"1,2.5"', "{1,2}", '{"a",undefined}',
    "[a=1]", 'absTime("2004-01-01T01:00:00+01:00")', "relTime(90)",
)  # fmt: skip

# What these give depends on the moment, on chance, or on the configuration of a pool.
UNREPEATABLE: Final = GLITE | {"time", "currenttime", "daytime", "random", "usermap"}

# Of times beyond all calendars these give what happens to stand in HTCondor's memory.
BEYOND: Final = ("9223372036854775807", "-9223372036854775808", "9007199254740993")
CALENDARS: Final = frozenset({"splitTime", "formatTime"})

SAMPLES: Final = {2: 60, 3: 120, 4: 60}
"""How many further combinations a function is asked, by the number of arguments."""

SENSIBLE: Final = 20
"""How many calls with sensible arguments a function is asked, for each kind of call."""

# Calls of functions that take the name of an attribute, which is to stand for something.
NAMING: Final = {
    "unparse": ("unparse({})",),
    "unresolved": ("unresolved({})", 'unresolved({}, "o")', 'unresolved({}, "^T")'),
    "evalInEachContext": ("evalInEachContext({}, ads)", "evalInEachContext({}, {{inner, inner}})"),
    "countMatches": ("countMatches({}, ads)", "countMatches({}, {{[ own = 0 ], inner}})"),
}


def operators() -> list[str]:
    """Every operator, as a pattern for the texts of its operands."""
    infix = [symbol for symbol in BINARY if symbol != "?:"]
    return [
        *(f"{symbol}({{0}})" for symbol in UNARY),
        *(f"({{0}}) {symbol} ({{1}})" for symbol in infix),
        "({0}) ?: ({1})",
        "({0})[{1}]",
        "({0}).a",
        "({0}) ? 1 : ({1})",
    ]


def operator_cases(pattern: str) -> Iterator[Case]:
    """An operator on all values, or between all pairs."""
    if "{1}" not in pattern:
        for value in VALUES:
            yield Case(pattern.format(value))
        return
    for values in itertools.product(PAIRED, repeat=2):
        yield Case(pattern.format(*values))


def functions() -> list[Function]:
    """Every function whose result can be compared, in an order that no move of code changes.

    So random cases stay the same. Functions that the list lacks come last.
    """
    listed = (Path(__file__).parent / "functions.txt").read_text("utf-8").split()
    names = dict.fromkeys([name for name in listed if name in FUNCTIONS] + list(FUNCTIONS))
    return [FUNCTIONS[name] for name in names if name not in UNREPEATABLE]


def function_cases(function: Function) -> Iterator[Case]:
    """A function with none to four arguments: each value, each pair of types, a fixed sample.

    And with sensible arguments, by which it has a result.
    """
    chance = random.Random(function.name)
    values = [value for value in VALUES if value not in BEYOND or function.name not in CALENDARS]
    if function.name not in ("formatTime", "absTime"):
        # These two give the present where they have no argument.
        yield Case(f"{function.name}()")
    for value in values:
        yield Case(f"{function.name}({value})")
    if function.accepts(2):
        for pair in itertools.product(TYPES, repeat=2):
            yield Case(f"{function.name}({', '.join(pair)})")
    for count, sample in SAMPLES.items():
        for _ in range(sample if function.accepts(count) else 2):
            chosen = [chance.choice(values) for _ in range(count)]
            yield Case(f"{function.name}({', '.join(chosen)})")
    for kinds in _signatures(function):
        for _ in range(SENSIBLE):
            chosen = [chance.choice(_sensible(kind)) for kind in kinds]
            yield Case(f"{function.name}({', '.join(chosen)})")
    for call in NAMING.get(function.name, ()):
        for name in (*scopes.NAMES, "inner.up", "TARGET.mine", "MY.uses"):
            yield Case(call.format(name), scopes.MY)
            yield Case(call.format(name), scopes.MY, scopes.TARGET)


def _signatures(function: Function) -> list[list[str]]:
    """The kinds of arguments that a function is for; names are asked for by themselves."""
    return [
        kinds
        for calls in SIGNATURES.values()
        for name, kinds in calls
        if name == function.name and "name" not in kinds
    ]


def _sensible(kind: str) -> tuple[str, ...]:
    if kind == "any":
        return VALUES
    return ARGUMENTS[kind] if kind in ARGUMENTS else LEAVES[kind]


def written_cases() -> list[Case]:
    """The expressions written by hand."""
    text = Path(__file__).with_name("expressions.txt").read_text(encoding="utf-8")
    return [Case(line) for line in text.splitlines() if line and not line.startswith("#")]
