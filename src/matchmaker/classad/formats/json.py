"""HTCondor's JSON: an ad is an object; what JSON cannot say is a string ``/Expr(…)/``."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import ParseError
from matchmaker.classad.nodes import AdExpr, Expr, ListExpr, Literal, literal
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.unparse import unparse
from matchmaker.classad.values import MAX_INT, MIN_INT, UNDEFINED, Value

_EXPR: Final = re.compile(r"/Expr\((.*)\)/", re.DOTALL)
_BETWEEN: Final = re.compile(r"[\s,\[\]]*")


def read(pieces: Iterator[str]) -> Iterator[ClassAd]:
    """The ads of a text: an object, several, or a list of them. Raises ParseError with the line."""
    text = "".join(pieces)
    decoder = json.JSONDecoder(object_pairs_hook=_Object, parse_constant=_no_constant)
    position = _BETWEEN.match(text).end()  # type: ignore[union-attr]
    while position < len(text):
        line = text.count("\n", 0, position) + 1
        try:
            value, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise ParseError(
                f"not JSON: {error.msg}", text=text, line=error.lineno, column=error.colno
            ) from None
        except RecursionError:
            raise ParseError("nested too deep", line=line) from None
        if not isinstance(value, _Object):
            raise ParseError("an ad is a JSON object", line=line)
        try:
            yield ClassAd((name, _expression(item)) for name, item in value)
        except ParseError as error:
            raise error.at("", line) from None
        position = _BETWEEN.match(text, position).end()  # type: ignore[union-attr]


def write(ad: ClassAd) -> str:
    """An ad as one JSON object on one line."""
    return json.dumps(_plain(ad.expression()), ensure_ascii=False).replace('"/Expr(', '"\\/Expr(')


def encode(value: Value) -> Any:
    """A value as what ``json.dumps`` takes."""
    return _plain(literal(value))


class _Object(list[tuple[str, Any]]):
    """The pairs of a JSON object: kept apart from lists, and all of them, duplicates too."""


def _no_constant(name: str) -> float:
    return float(name.replace("Infinity", "inf"))


def _expression(value: Any) -> Expr:
    if isinstance(value, str):
        match = _EXPR.fullmatch(value)
        return parse_expr(match[1]) if match else Literal(value)
    if isinstance(value, _Object):
        return ClassAd((name, _expression(item)) for name, item in value).expression()
    if isinstance(value, list):
        return ListExpr(tuple(_expression(item) for item in value))
    if value is None:
        return Literal(UNDEFINED)
    if isinstance(value, int) and not MIN_INT <= value <= MAX_INT:
        raise ParseError(f"{str(value)[:40]} does not fit 64 bits")
    return Literal(value)


def _plain(node: Expr) -> Any:
    if isinstance(node, AdExpr):
        return dict(zip(node.names, map(_plain, node.expressions), strict=True))
    if isinstance(node, ListExpr):
        return [_plain(item) for item in node.items]
    if isinstance(node, Literal):
        value = node.value
        if value is UNDEFINED:
            return None
        if isinstance(value, float) and math.isfinite(value):
            return value
        if isinstance(value, int) or (isinstance(value, str) and not _EXPR.fullmatch(value)):
            return value
    return f"/Expr({unparse(node)})/"
