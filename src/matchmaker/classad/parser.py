"""The way from text to an expression or an ad. The grammar's own affairs are in ``grammar``.

Whole files and streams of ads are read in ``formats``. A syntax error is told with its line, its
column, what was expected and a hint.
"""

from __future__ import annotations

from typing import Any, Final

from matchmaker.classad.cache import Cache
from matchmaker.classad.errors import ParseError
from matchmaker.classad.nodes import AdExpr, Expr, Literal
from matchmaker.classad.times import parse_absolute, parse_relative
from matchmaker.classad.values import Value

MAX_NESTING: Final = 200
"""How deep an expression may nest. Long chains of one operator do not count as nesting."""

MAX_TEXT: Final = 1 << 24
"""How many characters an expression or an ad may have."""

_known: Final[Cache[str, Expr]] = Cache("expressions by text", 1 << 24)


def parse_expr(text: str) -> Expr:
    """Reads one expression.

    The same text gives the same object. Raises ParseError with line, column, a caret, what was
    expected and a hint. (HTCondor manual, "ClassAd Syntax"; the grammar is classad.lark.)

    >>> str(parse_expr("Cpus*2 >= (Want)"))
    'Cpus * 2 >= Want'
    """
    if not isinstance(text, str):
        raise TypeError(f"text was expected, not {type(text).__name__}")
    return _known[text] or _known.put(text, _parse(text, "expression"))


def parse_ad_expr(text: str) -> AdExpr:
    """Reads one ad in brackets as a node; ParseError as in :func:`parse_expr`."""
    ad: AdExpr = _parse(text, "ad")
    return ad


def _parse(text: str, start: str) -> Any:
    if not isinstance(text, str):
        raise TypeError(f"text was expected, not {type(text).__name__}")
    if len(text) > MAX_TEXT:
        raise ParseError(f"{len(text)} characters in one piece, at most {MAX_TEXT} are allowed")
    from matchmaker.classad.grammar import parse

    tree: Any = parse(text, start)
    if tree.depth > MAX_NESTING:
        raise ParseError(
            f"nested {tree.depth} deep, at most {MAX_NESTING} is allowed",
            hint="give the inner parts names of their own",
        )
    return tree


def constant_call(function: str, arguments: tuple[Expr, ...]) -> Expr | None:
    """The literal that ``real("INF")``, ``absTime("…")`` or ``relTime("…")`` stands for.

    Such values have no other way to be written, and HTCondor reads them so too.
    """
    if len(arguments) != 1 or not isinstance(arguments[0], Literal):
        return None
    text = arguments[0].value
    name = function.lower()
    if not isinstance(text, str):
        return None
    value: Value | None = None
    if name == "real":
        value = _NOT_FINITE.get(text.lower())
    elif name == "abstime":
        value = parse_absolute(text)
    elif name == "reltime":
        value = parse_relative(text)
    return Literal(value) if value is not None else None


_NOT_FINITE: Final = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}
