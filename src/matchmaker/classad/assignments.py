"""Assignments in a text, at the speed of Python's compiled functions: how ads are read.

A text is checked first, by compiled patterns and the fast parser, so that each error is reported
at once. What it says may be read later, when the ad is looked at. Most assignments are of plain
values, which JSON writes alike: Python's compiled reader of JSON takes those of an ad in one call.
None means that the fast parser does not take a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from json.decoder import JSONDecoder
from json.scanner import make_scanner
from typing import Any, Final

from matchmaker.classad.ad import ClassAd, Content
from matchmaker.classad.cache import Cache
from matchmaker.classad.limits import LIMITS
from matchmaker.classad.nodes import Literal
from matchmaker.classad.parser import deferred, parse_expr, parsed_ad
from matchmaker.classad.scanner import ASSIGNABLE, NEW, SEPARATORS, Layout, inside_of
from matchmaker.classad.spellings import Shape, shape_of
from matchmaker.classad.values import MAX_INT, MIN_INT

_scan: Final = make_scanner(JSONDecoder())  # type: ignore[arg-type]


def value_of(text: str) -> Any:
    """What an ad holds for the text of an expression, perhaps deferred; None as above.

    >>> value_of("undefined"), value_of("a+1"), value_of("a+")
    (UNDEFINED, Expr('a + 1'), None)
    """
    node = deferred(text)
    return node.value if type(node) is Literal else node


def parse_value(text: str) -> Any:
    """The same by the grammar where it must be, and never deferred. Raises ParseError.

    >>> parse_value("a + 1"), parse_value("true")
    (Expr('a + 1'), True)
    """
    node = parse_expr(text)
    return node.value if type(node) is Literal else node


def ad_of(
    text: str, layout: Layout, convert: Callable[[str], Any] = value_of, start: int = 0
) -> tuple[ClassAd | None, int]:
    """The ad of the assignments that begin at a position, and where it ends; None as above.

    The ad is read when it is looked at. `convert` reads expressions.

    >>> print(*ad_of("a = 1; b=a+1", NEW))
    [ a = 1; b = a + 1 ] 12
    """
    end = _plain_end(text, layout, start)
    parts = [text[start:end]]
    others = []
    while end < len(text) and text[end] != layout.last:
        found = layout.other.match(text, end)
        if found is None:
            return None, end
        name, string, expression = found.groups()
        value = convert(expression) if string is None else string.replace('\\"', '"')
        if value is None:
            return None, end
        end = _plain_end(text, layout, found.end())
        parts += f"{name} = null{layout.between}", text[found.end() : end]
        others.append(value)
    plain = "".join(parts).rstrip(SEPARATORS)
    return ClassAd.unread(partial(_content, plain, others, layout.between)), end


def _plain_end(text: str, layout: Layout, start: int) -> int:
    """Where those of the assignments end that have a plain value."""
    found = layout.plain.match(text, start)
    return found.end() if found else start


_shapes: Final[Cache[tuple[str, ...], Shape]] = Cache("names in texts", 1 << 22)
"""What `shape_of` gives, by the names as they stand in a text: the next ad mostly has the same."""


def _content(text: str, others: Sequence[Any], between: str) -> Content:
    """What an ad holds for assignments of plain values, and for null one of the others."""
    parts = text.replace(between, "=").split("=") if text else []
    names = tuple(parts[::2])
    values: list[Any] = _scan(f"[{','.join(parts[1::2])}]", 0)[0]
    if others:
        rest = iter(others)
        values = [next(rest) if each is None else each for each in values]
    folded, unusual = _shapes[names] or _kept(names, tuple(map(str.strip, names)))
    return dict(zip(folded, values, strict=True)), unusual and unusual.copy(), bool(others)


def _kept(key: tuple[str, ...], names: tuple[str, ...]) -> Shape:
    return _shapes.put(key, shape_of(names), 100 * len(key) + 3 * sum(map(len, key)))


def ad_in(text: str) -> ClassAd | None:
    """The ad of a text in brackets, None if the fast parser does not take it."""
    if len(text) > LIMITS.text:
        return None
    if len(text) < _SMALL and text[:1] + text[-1:] == "[]":
        ad = _small_ad(text[1:-1].rstrip(SEPARATORS))
        if ad is not None:
            return ad
    inside = inside_of(text)
    ad = None if inside is None else ad_of(inside.rstrip(SEPARATORS), NEW)[0]
    if ad is not None:
        return ad.looked_at()
    node = parsed_ad(text)
    return ClassAd.from_expression(node) if node is not None else None


_SMALL: Final = 2000
_MARKED: Final = re.compile(rf"\x80 *+({ASSIGNABLE}) *+\x81")


def _small_ad(inside: str) -> ClassAd | None:
    """The ad of a text that is an object of JSON but for its separators; None for another text.

    The separators become those of JSON, with marks that no such text has. If each key stands
    between two of them and none is left, each was a name, and what follows it one value.
    """
    if "{" in inside or "(" in inside or "\\" in inside or not inside.isascii():
        return None
    marked = inside.replace(";", ',"\x80').replace("=", '\x81":')
    try:
        content, end = _scan(f'{{"\x80{marked}}}', 0)
        wide = [
            value
            for value in content.values()
            if value.__class__ is not str and not MIN_INT <= value <= MAX_INT
        ]
    except (StopIteration, ValueError, TypeError, RecursionError):
        return None
    # Each separator has become two characters longer.
    whole = end == len(marked) + 4 and len(marked) - len(inside) == 4 * len(content) - 2
    if wide or not whole:
        return None
    shape = _shapes[tuple(content)]
    if shape is None:
        names = [found[1] for found in map(_MARKED.fullmatch, content) if found]
        if len(names) < len(content):
            return None
        shape = _kept(tuple(content), tuple(names))
    folded, unusual = shape
    return ClassAd.of(dict(zip(folded, content.values(), strict=True)), unusual and unusual.copy())
