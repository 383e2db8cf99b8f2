"""The smallest case that still shows what a large one showed, by trying ever smaller ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from matchmaker import Expr, ParseError, parse_expr
from matchmaker.classad.nodes import AdExpr, Call
from matchmaker.classad.walks import children, rebuild
from tests.oracle.oracle import Case

ROUNDS: Final = 60
"""How often a smaller case is looked for at most."""

TRIED: Final = 300
"""How many smaller cases are tried in a round at most."""

AT_ONCE: Final = 20
"""How many of them are asked about together."""

PRESENT: Final = ("abstime", "formattime")
"""Functions that give the present where they have no argument, which is never the same."""

SIMPLE: Final = tuple(
    map(parse_expr, ("undefined", "error", "true", "0", "1", '"a"', "{ }", "[ ]"))
)


def minimised(case: Case, shows: Callable[[list[Case]], list[bool]]) -> Case:
    """A smaller case of which `shows` says so too; it is asked about many cases at once.

    >>> print(minimised(Case("1 + size(strcat(x, 2))"), lambda cases:
    ...     ["strcat" in case.text for case in cases]))
    strcat()
    """
    for _ in range(ROUNDS):
        smaller = sorted((other for other in set(_smaller(case)) if _size(other) < _size(case)),
                         key=_size)[:TRIED]  # fmt: skip
        for start in range(0, len(smaller), AT_ONCE):
            some = smaller[start : start + AT_ONCE]
            found = [other for other, so in zip(some, shows(some), strict=True) if so]
            if found:
                case = found[0]
                break
        else:
            break
    return case


def _size(case: Case) -> tuple[int, str]:
    # Of two as long the one that comes first, so that the result does not hang on chance.
    return len(str(case)), str(case)


def _smaller(case: Case) -> Iterator[Case]:
    for text in _simpler_texts(case.text):
        yield Case(text, case.my, case.target)
    for my in _simpler_ads(case.my):
        yield Case(case.text, my, case.target)
    if case.target:
        yield Case(case.text, case.my)
        yield Case(case.text, case.target)
        for target in _simpler_ads(case.target):
            yield Case(case.text, case.my, target)


def _simpler_texts(text: str) -> Iterator[str]:
    try:
        node = parse_expr(text)
    except ParseError:
        # What cannot be read can only be cut.
        for length in (8, 4, 2, 1):
            yield from (text[:i] + text[i + length :] for i in range(0, len(text), length))
        return
    yield str(node)
    for simpler in _simpler(node):
        yield str(simpler)


def _simpler_ads(text: str) -> Iterator[str]:
    if text in ("", "[ ]"):
        return
    yield "[ ]"
    try:
        ad = parse_expr(text)
    except ParseError:
        return
    yield from (str(simpler) for simpler in _simpler(ad) if isinstance(simpler, AdExpr))


def _simpler(node: Expr) -> Iterator[Expr]:
    """Expressions with a part left out, put in the place of the whole, or replaced."""
    parts = children(node)
    yield from parts
    if parts:
        yield from SIMPLE
    if isinstance(node, AdExpr):
        for i in range(len(parts)):
            yield AdExpr(
                node.names[:i] + node.names[i + 1 :],
                node.expressions[:i] + node.expressions[i + 1 :],
            )
    elif len(parts) > 0:
        yield from _with_fewer(node)
    for i, part in enumerate(parts):
        for simpler in _simpler(part):
            yield rebuild(node, (*parts[:i], simpler, *parts[i + 1 :]))


def _with_fewer(node: Expr) -> Iterator[Expr]:
    """A call or a list without one of its elements."""
    parts = children(node)
    if len(parts) == 1 and isinstance(node, Call) and node.function.lower() in PRESENT:
        return
    for i in range(len(parts)):
        try:
            yield rebuild(node, parts[:i] + parts[i + 1 :])
        except (TypeError, IndexError):
            # What has a fixed number of operands.
            return
