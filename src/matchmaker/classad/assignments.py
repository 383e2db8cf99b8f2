"""Assignments in a text, at the speed of Python's compiled functions: how ads are read.

A text is checked at once, by compiled patterns and the fast parser, so that each error is reported.
What it says is read when the ad is looked at: most assignments are of plain values, which JSON
writes alike, and Python's compiled reader of JSON takes those of an ad in one call. None means that
the fast parser does not take a text.
"""

from __future__ import annotations

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
from matchmaker.classad.scanner import NEW, SEPARATORS, Layout, inside_of
from matchmaker.classad.spellings import Shape, shape_of

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
    shape = _shapes[names]
    if shape is None:
        shape = shape_of(tuple(map(str.strip, names)))
        _shapes.put(names, shape, 100 * len(names) + 3 * sum(map(len, names)))
    folded, unusual = shape
    return dict(zip(folded, values, strict=True)), unusual and unusual.copy(), bool(others)


def ad_in(text: str) -> ClassAd | None:
    """The ad of a text in brackets, None if the fast parser does not take it."""
    if len(text) > LIMITS.text:
        return None
    inside = inside_of(text)
    ad = None if inside is None else ad_of(inside.rstrip(SEPARATORS), NEW)[0]
    if ad is not None:
        return ad
    node = parsed_ad(text)
    return ClassAd.from_expression(node) if node is not None else None
