"""What a fix needs: the text of a place, and parentheses where the text around asks for them."""

from __future__ import annotations

import re
from typing import Final

from matchmaker._limits import LINT_LIMITS as LIMITS
from matchmaker.classad.errors import ParseError
from matchmaker.classad.nodes import AdExpr, Binary, Call, ListExpr
from matchmaker.classad.parser import parse_ad_expr, parse_expr
from matchmaker.linting.model import Definition, Place, Site

# What stands in them is a whole expression.
_HOLDERS: Final = (AdExpr, ListExpr, Call)


def text_of(site: Site, place: Place) -> str:
    """The text of a place with the parentheses around it."""
    return site.piece.text[place.outer_start : place.outer_end]


def with_operator(site: Site, operator: str) -> str:
    """The text of a binary operation with another operator."""
    place = site.place
    if place.operator is None:
        return ""
    text = site.piece.text
    start, end = place.operator
    before, after = text[place.start : start], text[end : place.end]
    if operator.isalpha():
        # A word needs space around it, which `a==b` has not.
        operator = " " * (not before[-1:].isspace()) + operator + " " * (not after[:1].isspace())
    return before + operator + after


def with_doubled(site: Site) -> str:
    """The text of a chain ``a & b & c`` or ``a | b | c`` with each operator doubled."""
    place, text = site.place, site.piece.text
    node = place.node
    end = place.end
    parts: list[str] = []
    while isinstance(place.node, Binary) and isinstance(node, Binary) and place.operator:
        if place.node.operator != node.operator or (parts and place.bracketed):
            break
        parts.append(node.operator + text[place.operator[0] : end])
        end = place.operator[0]
        place = place.parts[0]
    parts.append(text[site.place.start : end])
    return "".join(reversed(parts))


def whole(site: Site, fix: str) -> str:
    """A fix for the whole of a site, in parentheses where it would be torn apart without."""
    if site.place.bracketed:
        return fix
    wrapped = f"({fix})"
    if site.above is None or isinstance(site.above.place.node, _HOLDERS):
        return fix
    if len(site.piece.text) > LIMITS.fixed:
        return wrapped
    text, place = site.piece.text, site.place
    parse = parse_ad_expr if site.piece.is_ad else parse_expr
    try:
        same = parse(text[: place.start] + fix + text[place.end :]) is parse(
            text[: place.start] + wrapped + text[place.end :]
        )
    except ParseError:
        same = False
    return fix if same else wrapped


def commented_out(definition: Definition) -> tuple[int, int, str]:
    """The span of a definition, and what makes a comment of it; empty where that cannot be."""
    piece, start = definition.name_piece, definition.name.start
    if not piece.is_ad:
        # A line of the old format.
        end = len(piece.text.rstrip())
        return start, end, f"# {piece.text[start:end]}"
    end = definition.value.outer_end
    semicolon = _SEMICOLON.match(piece.text, end)
    end = semicolon.end() if semicolon else end
    text = piece.text[start:end]
    return start, end, "" if "*/" in text else f"/* {text} */"


_SEMICOLON: Final = re.compile(r"\s*;")
