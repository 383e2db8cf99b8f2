"""HTCondor's XML: ``<classads><c><a n="Cpus"><i>4</i></a></c></classads>``.

Entity declarations are refused, so that no document can swell; nothing is ever fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING, Any, Final, cast

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import ParseError
from matchmaker.classad.nodes import AdExpr, Expr, ListExpr, Literal
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.unparse import unparse
from matchmaker.classad.values import ERROR, UNDEFINED, is_error

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

PROLOGUE: Final = '<?xml version="1.0"?>\n<!DOCTYPE classads SYSTEM "classads.dtd">\n<classads>\n'


def read(pieces: Iterator[str]) -> Iterator[ClassAd]:
    """The ads of an XML document, one by one. Raises ParseError."""
    from xml.etree.ElementTree import ParseError as XmlError
    from xml.etree.ElementTree import XMLPullParser

    parser: XMLPullParser[Any] = XMLPullParser(["start", "end"])
    depth = 0
    root: Element | None = None
    tail = ""
    try:
        for piece in pieces:
            if "<!ENTITY" in tail + piece:
                raise ParseError("entity declarations are not allowed")
            tail = piece[-16:]
            parser.feed(piece)
            for event, element in cast("Iterable[tuple[str, Element]]", parser.read_events()):
                if event == "start":
                    depth += element.tag == "c"
                    root = root if root is not None else element
                    if root.tag not in ("classads", "c"):
                        raise ParseError(f"<{root.tag[:40]}> is no document of ads")
                elif element.tag == "c":
                    depth -= 1
                    if depth == 0:
                        yield ClassAd.from_expression(_ad(element))
                        if root is not None and root is not element:
                            root.clear()
        parser.close()
    except XmlError as error:
        line, column = error.position
        raise ParseError(f"not XML: {error.msg}", line=line, column=column + 1) from None


def write(ad: ClassAd) -> str:
    """An ad as one element ``<c>`` on one line."""
    return _element(ad.expression())


def _ad(element: Element) -> AdExpr:
    ad = ClassAd()
    for attribute in element:
        name = attribute.get("n")
        if attribute.tag != "a" or not name or len(attribute) != 1:
            raise ParseError(f"<{attribute.tag}> in <c>", expected=('<a n="name">value</a>',))
        ad[name] = _expression(attribute[0])
    return ad.expression()


def _expression(element: Element) -> Expr:
    text = element.text or ""
    match element.tag:
        case "s":
            return Literal(text)
        case "i" | "r" | "e" | "n":
            return parse_expr(text)
        case "b":
            return Literal((element.get("v") or text).strip().lower() in ("t", "true"))
        case "un":
            return Literal(UNDEFINED)
        case "er":
            return Literal(ERROR)
        case "l":
            return ListExpr(tuple(_expression(item) for item in element))
        case "c":
            return _ad(element)
    raise ParseError(f"unknown element <{element.tag}>", expected=("<i>", "<r>", "<s>", "<e>"))


def _element(node: Expr) -> str:
    if isinstance(node, AdExpr):
        pairs = zip(node.names, node.expressions, strict=True)
        return "<c>" + "".join(f'<a n="{escape(n)}">{_element(e)}</a>' for n, e in pairs) + "</c>"
    if isinstance(node, ListExpr):
        return "<l>" + "".join(map(_element, node.items)) + "</l>"
    if isinstance(node, Literal):
        value = node.value
        if value is UNDEFINED:
            return "<un/>"
        if is_error(value):
            return "<er/>"
        if isinstance(value, bool):
            return f'<b v="{"t" if value else "f"}"/>'
        if isinstance(value, int):
            return f"<i>{value}</i>"
        if isinstance(value, str) and value.isprintable():
            return f"<s>{escape(value)}</s>"
    return f"<e>{escape(unparse(node))}</e>"
