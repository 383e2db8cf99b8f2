"""Paranoid mode: every rewrite of a simplification is checked by evaluation.

The expression and its rewritten form are evaluated on hosts generated from their constants: each
attribute just below, at and just above a number, a text, or a value of another type. If a demanded
outcome differs, the rewrite rule is unsound, and `UnsoundError` names the host. ``conftest`` turns
it on for some folders.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from matchmaker.classad.ad import ClassAd, literal
from matchmaker.classad.functions import Trait
from matchmaker.classad.nodes import Attr, Expr, Literal
from matchmaker.classad.printer import unparse
from matchmaker.classad.values import ERROR, MAX_INT, MIN_INT, UNDEFINED, Value
from matchmaker.classad.walks import postorder
from matchmaker.reduction.boxes import outcome
from matchmaker.reduction.facts import traits
from matchmaker.reduction.simplify import VALUE, Demand, watched

MOST_NODES: Final = 200
"""Larger expressions are not checked as a whole; their parts are."""

HOSTS: Final = 12

_KINDS: Final[tuple[Value, ...]] = (
    UNDEFINED,
    ERROR,
    True,
    False,
    0,
    1.5,
    float("nan"),
    "",
    "a",
    [],
)


class UnsoundError(AssertionError):
    """A rewrite changed a demanded outcome; the message names the host."""


@contextmanager
def paranoid() -> Iterator[None]:
    """Within it, every rewrite of a simplification is checked.

    >>> from matchmaker import parse_expr
    >>> from matchmaker.reduction.simplify import simplify
    >>> with paranoid():
    ...     print(simplify(parse_expr("x > 5 ? 1 < 2 : false")))
    x > 5
    """
    with watched(check):
        yield


def check(before: Expr, demand: Demand, after: Expr) -> None:
    """Raises UnsoundError if a rewrite changes a demanded outcome."""
    parts = {*postorder(before), *postorder(after)}
    if len(parts) > MOST_NODES or any(Trait.VOLATILE in traits(part) for part in parts):
        return
    attributes = [part for part in parts if isinstance(part, Attr)]
    bases = {part.base for part in attributes}
    names = sorted({part.folded for part in attributes if part not in bases})
    values = list(_KINDS)
    for part in parts:
        if isinstance(part, Literal):
            values += _around(part.value)
    chance = random.Random(len(parts))
    hosts = [ClassAd({name: chance.choice(values) for name in names}) for _ in range(HOSTS)]
    if len(names) <= 1:
        hosts = [ClassAd(dict.fromkeys(names, value)) for value in (values if names else [0])]
    for host in hosts:
        one, other = (_seen(node.eval(host, host), demand) for node in (before, after))
        if one != other:
            raise UnsoundError(
                f"{unparse(before)} became {unparse(after)}, which is {other} and not {one} "
                f"for {host!r}"
            )


def _around(value: Value) -> list[Value]:
    """A constant and, of a number, its neighbours."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return [value]
    near = [value - 1, value, value + 1]
    return [each for each in near if isinstance(each, float) or MIN_INT <= each <= MAX_INT]


def _seen(value: Value, demand: Demand) -> str:
    """The demanded part of a value, as a text that is equal for equal values."""
    if demand == VALUE:
        return unparse(literal(value))
    name = outcome(value)
    return name if name in demand else "none"
