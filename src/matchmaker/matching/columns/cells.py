"""Contents as text: of an expression, or of JSON, and back. For what a file has no type for."""

from __future__ import annotations

import json
from typing import Any

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.ad import literal
from matchmaker.classad.errors import ParseError
from matchmaker.classad.nodes import Expr
from matchmaker.classad.parser import parse_expr, parse_value
from matchmaker.classad.printer import unparse
from matchmaker.classad.values import MAX_INT, MIN_INT


def node_of(content: Any) -> Expr:
    """The expression that a content is, or that has it as its value."""
    return content if isinstance(content, Expr) else literal(content)


def text_of(content: Any) -> str:
    """The text from which a content is read. Raises ValueError if there is no such text.

    That is so only for what was made by hand: an empty name, a string with NUL in a list, half of a
    surrogate pair, nesting beyond what is read.

    >>> text_of("x"), text_of(float("inf"))
    ('"x"', 'real("INF")')
    """
    node = node_of(content)
    text = unparse(node)
    # Most texts cannot fail to be read back; of the others it is made sure.
    plain = text.isascii() and text.isprintable() and not ("\\" in text or "''" in text)
    if node.depth > LIMITS.nesting or not (plain or _reads_back(node, text)):
        shown = text[:60].encode("ascii", "backslashreplace").decode()
        nul = ", since a string in it has NUL" if "\\000" in text else ""
        raise ValueError(f"no file can hold {shown}{nul}")
    return text


def _reads_back(node: Expr, text: str) -> bool:
    try:
        return parse_expr(text) is node
    except ParseError:
        return False


def cell_of(content: Any) -> str:
    """A content as JSON: a string, number or truth, else an object with the expression's text.

    Any string can be written so, with NUL and half a surrogate pair too. Raises ValueError for a
    content that no text stands for.

    >>> cell_of("x"), cell_of(1.0), cell_of(parse_expr("a + 1"))
    ('"x"', '1.0', '{"expr": "a + 1"}')
    """
    kind = content.__class__
    if kind in (str, int, bool) or (kind is float and abs(content) < float("inf")):
        return json.dumps(content)
    return json.dumps({"expr": text_of(content)})


def content_of_cell(text: str) -> Any:
    """The content of a cell. Raises ValueError, and ParseError for the text of an expression.

    >>> content_of_cell('"x"'), content_of_cell('{"expr": "a + 1"}')
    ('x', Expr('a + 1'))
    """
    try:
        cell = json.loads(text)
    except (ValueError, RecursionError):
        cell = None
    if type(cell) is dict and len(cell) == 1 and type(cell.get("expr")) is str:
        return parse_value(cell["expr"])
    if type(cell) in (str, bool, float) or (type(cell) is int and MIN_INT <= cell <= MAX_INT):
        return cell
    raise ValueError(f"{text[:60]!r} is no content")
