r"""HTCondor's JSON: an ad is an object; an expression is a string ``\/Expr(…)\/``.

The escapes of the two slashes tell an expression from a string. A decoder of JSON drops them, so
that a text in which a string looks like an expression is rewritten before (:func:`settled`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from json.scanner import make_scanner
from typing import Any, Final

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd, literal
from matchmaker.classad.errors import ParseError, under
from matchmaker.classad.formats.stream import (
    AdText,
    BracketSyntax,
    Report,
    ads_of,
    check_depth,
    check_text,
    cut,
    placed,
    strict,
    text_of,
)
from matchmaker.classad.nodes import AdExpr, Expr, ListExpr, Literal, ad_expression
from matchmaker.classad.parser import parse_expr, parse_value
from matchmaker.classad.printer import quote
from matchmaker.classad.values import MAX_INT, MIN_INT, UNDEFINED, Value


def _no_constant(name: str) -> float:
    return float(name.replace("Infinity", "inf"))


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)
_scan: Final = make_scanner(_DECODER)  # type: ignore[arg-type]


def _decode(text: str, start: int) -> tuple[Any, int] | None:
    """Decode the object at a place of a text; return it and its end, or None for the cutter."""
    try:
        found: tuple[Any, int] = _scan(text, start)
    except (StopIteration, ValueError, RecursionError):
        return None
    return found


SYNTAX: Final = BracketSyntax(
    around="{}",
    lists="[]",
    nesting="{}[]",
    hiding=r'"(?:[^"\\\n]++|\\.)*+"',
    begun=r'"(?:[^"\\\n]++|\\.)*+\\?\Z|/\Z',
    broken=r'"(?:[^"\\\n]++|\\.)*+\\?(?=\n)',
    decode=_decode,
)
BEGIN: Final = "/Expr("
"""How a decoded string begins that stands for an expression."""
_EXPR: Final = re.compile(r"/Expr\((.*)\)/", re.DOTALL)
_LOOKS: Final = re.compile(r"/Expr\(.*\)/", re.DOTALL | re.IGNORECASE)
# Two patterns, because each is quick by what it begins with.
_UNMARKED: Final = re.compile(r'"/[Ee][Xx][Pp][Rr]\(')
_SPELLED: Final = re.compile(r'"\\/(?!Expr\()[Ee][Xx][Pp][Rr]\(')
_STRING: Final = re.compile(r'("(?:[^"\\\n]++|\\.)*+")([ \t\r\n]*+:)?+')
"""Takes a string, and the colon behind it if it is a name."""


def is_plain(text: str) -> bool:
    """Whether a decoded string of this JSON looks like an expression only if it is one."""
    if ')/"' in text or "\\u00" in text:
        return False
    # What hardly any text has is looked for first: that takes a tenth of the time of a pattern.
    if ('"/e' in text or '"/E' in text) and _UNMARKED.search(text):
        return False
    spelled = text.count('"\\/E') + text.count('"\\/e')
    return spelled == text.count('"\\/Expr(') or _SPELLED.search(text) is None


def settled(text: str) -> str:
    r"""JSON in which each string that looks like an expression when decoded is one.

    Like HTCondor, only strings with the escapes of both slashes are expressions; another
    string becomes the expression that is this string.

    >>> settled(r'["/Expr(a)/", "\/Expr(a)\/"]')
    '["/Expr(\\"/Expr(a)/\\")/", "/Expr(a)/"]'
    """
    return text if is_plain(text) else _STRING.sub(_settle, text)


def _may_look(content: Any) -> bool:
    """Whether a string in an object may look like an expression; a nested one may."""
    return not isinstance(content, dict) or any(
        item[:6].lower() == "/expr(" if item.__class__ is str else item.__class__ in _OTHERS
        for item in content.values()
    )


def _settle(found: re.Match[str]) -> str:
    string, colon = found.groups()
    try:
        value = "" if colon else _DECODER.decode(string)
    except json.JSONDecodeError:
        return found[0]
    if not _LOOKS.fullmatch(value):
        return found[0]
    is_marked = string.startswith('"\\/') and string.endswith('\\/"')
    inside = value[len(BEGIN) : -2] if is_marked else quote(value, '"')
    return json.dumps(f"{BEGIN}{inside})/")


def marked(text: str) -> str:
    """JSON whose strings ``/Expr(…)/`` are all expressions, with these marked as HTCondor does."""
    # In other strings an escaped slash changes nothing.
    return text.replace('"/Expr(', '"\\/Expr(').replace(')/"', ')\\/"')


def read(pieces: Iterator[str], report: Report = strict) -> Iterator[ClassAd]:
    """The ads of a text: an object, several, or a list. Reports ParseErrors with the line."""
    return read_parts(cut(pieces, SYNTAX, report), report)


def read_parts(parts: Iterator[AdText], report: Report = strict) -> Iterator[ClassAd]:
    """The ads of texts that are already cut."""
    return ads_of(parts, report, _ad)


def ad_in(text: str) -> ClassAd | None:
    """The ad of a text that is one object and nothing else; None for another text."""
    try:
        return _ad(AdText(text, 1, 0)) if len(text) <= LIMITS.text else None
    except ParseError:
        return None


def _ad(part: AdText) -> ClassAd:
    try:
        content = part.decoded
        if content is None:
            content = _DECODER.decode(part.text)
        if _may_look(content) and not is_plain(part.text):
            content = _DECODER.decode(settled(part.text))
    except json.JSONDecodeError as error:
        wrong = ParseError(
            f"not JSON: {error.msg}", text=part.text, line=error.lineno, column=error.colno
        )
        raise placed(wrong, part.line, part.column) from None
    except RecursionError:
        raise ParseError("nested too deep", line=part.line) from None
    except ValueError:
        # Python refuses to read a number of thousands of digits.
        raise ParseError("a number does not fit 64 bits", line=part.line) from None
    if not isinstance(content, dict):
        raise ParseError("an ad is a JSON object", line=part.line)
    held = list(content.values())
    # By an escape alone, a text may hold what no string of an ad does.
    doubtful = "\\u" in part.text or "" in content
    odd = [
        (at, name)
        for at, (name, item) in enumerate(content.items())
        if doubtful
        or (item[:1] == "/" if item.__class__ is str else item.__class__ in _OTHERS)
        or (item.__class__ is int and not MIN_INT <= item <= MAX_INT)
    ]
    for at, name in odd:
        try:
            held[at] = _held(held[at])
            check_depth(held[at])
            _name(name)
        except RecursionError:
            raise ParseError("nested too deep", line=part.line) from None
        except ParseError as error:
            raise under(name, error, part.line) from None
    return ClassAd._of_values(list(content), held)


def write(ad: ClassAd) -> str:
    """An ad as one JSON object on one line."""
    held = zip(ad, ad._held.values(), strict=True)
    return marked(json.dumps({name: _written(each) for name, each in held}, ensure_ascii=False))


def _written(held: Any) -> Any:
    """Convert a value or an expression of an ad to JSON's."""
    kind = held.__class__
    if kind is int or kind is bool or (kind is str and held[:1] != "/"):
        return held
    if kind is float and math.isfinite(held):
        return held
    return _plain(held if isinstance(held, Expr) else Literal(held))


def encode(value: Value) -> Any:
    """A value as what ``json.dumps`` takes."""
    return _plain(literal(value))


_OTHERS: Final = frozenset({dict, list, type(None)})
"""What JSON has and an ad does not hold as it is."""


def _name(name: str) -> str:
    if not name:
        raise ParseError("an attribute has a name of no characters")
    return _text(name)


def _text(text: str) -> str:
    if not text.isprintable():
        if "\0" in text:
            raise ParseError("a string cannot hold the character \\0")
        check_text(text, 1)
    return text


def _held(value: Any) -> Any:
    """Convert a value of JSON to the form that an ad stores."""
    if isinstance(value, str):
        match = _EXPR.fullmatch(value)
        return parse_value(match[1]) if match else _text(value)
    node = _expression(value)
    return node.value if type(node) is Literal else node


def _expression(value: Any) -> Expr:
    if isinstance(value, str):
        match = _EXPR.fullmatch(value)
        return parse_expr(match[1]) if match else Literal(_text(value))
    if isinstance(value, dict):
        return ad_expression((_name(name), _expression(item)) for name, item in value.items())
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
    return f"/Expr({text_of(node)})/"
