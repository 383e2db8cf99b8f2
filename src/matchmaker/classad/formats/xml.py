"""HTCondor's XML: ``<classads><c><a n="Cpus"><i>4</i></a></c></classads>``.

Declarations of entities and attributes are refused, so that no document can swell; nothing is ever
fetched. Names and strings have the backslashes that they have between quotes, as HTCondor has it:
so they can hold characters that XML cannot. HTCondor's reader knows no entities but ``&amp; &lt;
&gt;``, and never ends at an empty list written as ``<l/>``: neither is written here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import attrs

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import ParseError, shorten, under
from matchmaker.classad.formats.stream import Report, bounded, check_text, strict
from matchmaker.classad.nodes import FALSE, TRUE, AdExpr, Expr, ListExpr, Literal
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.printer import quote, unescape, unparse
from matchmaker.classad.values import ERROR, UNDEFINED, is_error, parse_absolute, parse_relative

if TYPE_CHECKING:
    from xml.parsers.expat import XMLParserType

PROLOGUE: Final = '<?xml version="1.0"?>\n<!DOCTYPE classads SYSTEM "classads.dtd">\n<classads>\n'

_DEEPEST: Final = 3 * LIMITS.nesting
"""How many elements may be open: an ad within an ad opens two of them."""

_BROKEN: Final = re.compile("[\ud800-\udfff]")
"""What stands for a byte that is no UTF-8."""

_SIZE: Final = 16
"""What an element counts as in an ad's length, above its text."""

_PIECE: Final = 8
"""What a piece of text counts as above its characters: each line, each entity is one."""

_NOT_FINITE: Final = frozenset({"inf", "+inf", "-inf", "nan", "+nan", "-nan"})
_NAMES: Final = {"inf": "INF", "-inf": "-INF", "nan": "NaN"}

_FORBIDDEN: Final = re.compile("[\ufffe\uffff]")
"""What may not stand in XML and has no escape in an ad."""


def read(pieces: Iterator[str], report: Report = strict) -> Iterator[ClassAd]:
    """The ads of an XML document, one by one. Reports ParseErrors with the line.

    Behind text that is not XML, and in a document of another kind, nothing more is read, whatever
    the report does.
    """
    from xml.parsers.expat import ExpatError

    reader = _Reader()
    line = 1
    begun = False
    for piece in chain(pieces, ("",)):
        text = piece
        if not begun:
            # Nothing may stand before an XML declaration, but empty lines often do.
            text = piece.lstrip()
            reader.skipped += piece.count("\n") - text.count("\n")
            begun = bool(text)
        fatal = None
        try:
            reader.feed(_BROKEN.split(text, 1)[0], last=not piece)
            check_text(piece, line)
        except ParseError as error:
            fatal = error
        except ExpatError as error:
            message = str(error).partition(":")[0]
            at = error.lineno + reader.skipped
            fatal = ParseError(f"not XML: {message}", line=at, column=error.offset + 1)
        line += piece.count("\n")
        for found in reader.found:
            if isinstance(found, ParseError):
                report(found)
            else:
                yield found
        reader.found.clear()
        if fatal is not None:
            report(fatal)
            return


@attrs.define(slots=True)
class _Element:
    """An element that has begun: its text and children, as far as they have come."""

    tag: str
    attributes: Mapping[str, str]
    line: int
    text: list[str] = attrs.Factory(list)
    parts: list[Any] = attrs.Factory(list)

    def content(self) -> str:
        return "".join(self.text)


class _Reader:
    """Handlers of the parser. They put ads, and errors in place of bad ones, in `found`."""

    def __init__(self) -> None:
        from xml.parsers.expat import ParserCreate

        self.found: list[ClassAd | ParseError] = []
        self.skipped = 0
        self._open: list[_Element] = []
        self._too_deep = 0
        self._size = 0
        self._wrong: ParseError | None = None
        self._told = False
        self.parser: XMLParserType = ParserCreate("utf-8")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.EntityDeclHandler = partial(self._refuse, "entity")
        # A default value would be written once and be there as often as its element.
        self.parser.AttlistDeclHandler = partial(self._refuse, "attribute")
        self._unread = 0

    def feed(self, text: str, *, last: bool) -> None:
        """Read on. Raises ParseError and ExpatError if nothing behind can be read."""
        before = self.parser.CurrentByteIndex
        self.parser.Parse(text, last)
        # What has no end in sight, such as a name or a comment, is kept by the parser.
        moved = self.parser.CurrentByteIndex != before
        self._unread = 0 if moved else self._unread + len(text)
        if self._unread > LIMITS.text:
            raise ParseError(
                f"a tag or comment of over {LIMITS.text} characters", line=self._line()
            )

    def _line(self) -> int:
        return self.parser.CurrentLineNumber + self.skipped

    def _refuse(self, what: str, *_: object) -> None:
        raise ParseError(f"{what} declarations are not allowed", line=self._line())

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._open and tag not in ("classads", "c"):
            raise ParseError(
                f"<{shorten(tag, 60)}> is no document of ads",
                line=self._line(),
                expected=("<classads>", "<c>"),
            )
        self._size += _SIZE + sum(map(len, attributes.values()))
        if len(self._open) < _DEEPEST:
            self._open.append(_Element(tag, attributes, self._line()))
        else:
            self._too_deep += 1
            self._note(ParseError("nested too deep", line=self._line()))

    def _text(self, text: str) -> None:
        if not self._open or self._wrong:
            return
        element = self._open[-1]
        if element.tag in _LEAVES:
            self._size += len(text) + _PIECE
            element.text.append(text)
        elif not text.isspace():
            shown = repr(shorten(text.strip(), 60))
            self._note(ParseError(f"{shown} in <{shorten(element.tag, 60)}>", line=self._line()))
        if self._size > LIMITS.text:
            message = f"an ad goes on for over {LIMITS.text} characters"
            self._note(ParseError(message, line=element.line))
            # Reported at once: its end may never come.
            self.found += [self._wrong] if self._wrong else []
            self._told = True

    def _end(self, _: str) -> None:
        if self._too_deep:
            self._too_deep -= 1
            return
        element = self._open.pop()
        outermost = not self._open or (len(self._open) == 1 and self._open[0].tag == "classads")
        if outermost and element.tag == "classads":
            return
        if outermost and element.tag != "c":
            message = f"<{shorten(element.tag, 60)}> in <classads>"
            self._note(ParseError(message, line=element.line, expected=("<c>",)))
        part: Any = None
        if self._wrong is None:
            try:
                part = _PARTS.get(element.tag, _unknown)(element)
                part = bounded(part, element.line) if outermost else part
            except ParseError as error:
                self._note(error.at("", element.line))
        if outermost:
            if not self._told:
                self.found.append(part if self._wrong is None else self._wrong)
            self._wrong = None
            self._told = False
            self._size = 0
        elif self._wrong is None:
            # An ad within an ad is an expression.
            self._open[-1].parts.append(part.expression() if isinstance(part, ClassAd) else part)

    def _note(self, error: ParseError) -> None:
        """Keep the first error of an ad, with the attribute's name."""
        if self._wrong is not None:
            return
        names = [element.attributes.get("n", "") for element in self._open if element.tag == "a"]
        self._wrong = under(names[0] if names else "", error, error.line)
        for element in self._open:
            element.text.clear()
            element.parts.clear()


def _plain(text: str) -> str:
    """A name or a string, which stands here as between quotes."""
    if "\\" not in text:
        return text
    try:
        plain = unescape(text)
    except ValueError as error:
        raise ParseError(str(error)) from None
    check_text(plain, 1)
    return plain


def _attribute(element: _Element) -> tuple[str, Expr]:
    name = _plain(element.attributes.get("n", ""))
    if not name or len(element.parts) != 1 or not isinstance(element.parts[0], Expr):
        raise ParseError("<a> in <c>", expected=('<a n="name">value</a>',))
    return name, element.parts[0]


def _ad(element: _Element) -> ClassAd:
    for part in element.parts:
        if not isinstance(part, tuple):
            raise ParseError(f"<{_tag(part)}> in <c>", expected=('<a n="name">value</a>',))
    return ClassAd(element.parts)


def _list(element: _Element) -> Expr:
    for part in element.parts:
        if not isinstance(part, Expr):
            raise ParseError("<a> in <l>", expected=("<i>", "<s>", "<e>"))
    return ListExpr(tuple(element.parts))


def _tag(part: Expr) -> str:
    return _element(part)[1:].partition(">")[0].partition(" ")[0].rstrip("/")


def _number(element: _Element) -> Expr:
    text = element.content().strip()
    if text.lower() in _NOT_FINITE:
        return Literal(float(text))
    number = parse_expr(text)
    if isinstance(number, Literal) and isinstance(number.value, (int, float)):
        return number
    raise ParseError(f"{shorten(text, 60)!r} is no number")


def _boolean(element: _Element) -> Expr:
    text = (element.attributes.get("v") or element.content()).strip().lower()
    if text in ("t", "true", "f", "false"):
        return TRUE if text in ("t", "true") else FALSE
    raise ParseError(f"{shorten(text, 60)!r} is neither true nor false", expected=('<b v="t"/>',))


def _time(element: _Element) -> Expr:
    text = element.content()
    time = parse_absolute(text) if element.tag == "at" else parse_relative(text)
    if time is None:
        raise ParseError(f"{shorten(text, 60)!r} is no time")
    return Literal(time)


def _unknown(element: _Element) -> Expr:
    raise ParseError(
        f"unknown element <{shorten(element.tag, 60)}>", expected=("<i>", "<r>", "<s>", "<e>")
    )


_LEAVES: Final[Mapping[str, Callable[[_Element], Expr]]] = {
    "s": lambda element: Literal(_plain(element.content())),
    "i": _number,
    "r": _number,
    "n": _number,
    "e": lambda element: parse_expr(element.content()),
    "b": _boolean,
    "at": _time,
    "rt": _time,
    "un": lambda _: Literal(UNDEFINED),
    "er": lambda _: Literal(ERROR),
}
_PARTS: Final[Mapping[str, Callable[[_Element], Any]]] = {
    **_LEAVES,
    "a": _attribute,
    "l": _list,
    "c": _ad,
}


def write(ad: ClassAd) -> str:
    """An ad as one element ``<c>`` on one line."""
    return _element(ad.expression())


def _element(node: Expr) -> str:
    if isinstance(node, AdExpr):
        pairs = zip(node.names, node.expressions, strict=True)
        return "<c>" + "".join(f"<a {_named(n)}>{_element(e)}</a>" for n, e in pairs) + "</c>"
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
        if isinstance(value, float):
            return f"<r>{value if math.isfinite(value) else _NAMES[str(value)]}</r>"
        if isinstance(value, str):
            return f"<s>{_body(value)}</s>"
    return f"<e>{_escaped(unparse(node))}</e>"


def _named(name: str) -> str:
    return 'n="{}"'.format(_body(name).replace('"', "\\042"))


def _body(text: str) -> str:
    """A name or a string without the quotes around it."""
    return _escaped(quote(text, "'")[1:-1].replace("\\'", "'"))


def _escaped(text: str) -> str:
    """Escape text between tags. Bytes of characters that XML cannot hold become numbers."""
    text = _FORBIDDEN.sub(lambda found: "".join(f"\\{b:03o}" for b in found[0].encode()), text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
