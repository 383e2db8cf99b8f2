"""The fast parser: from tokens to nodes by precedence climbing, and what an ad holds for a text.

``grammars/classad.lark`` defines the syntax. What is not taken here, by None, goes to the grammar,
which takes or refuses it, and alone tells of errors: with line, column, what was expected and a
hint. A property and a fuzz target hold both equal. Whole files and streams are read in ``formats``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import product
from json.decoder import JSONDecoder
from json.scanner import make_scanner
from sys import intern
from typing import Any, Final

from matchmaker.classad.ad import ClassAd, unusual
from matchmaker.classad.cache import ENTRY, Cache
from matchmaker.classad.errors import ParseError
from matchmaker.classad.forms import NAMED, ad_expression, call
from matchmaker.classad.nodes import (
    FALSE,
    TRUE,
    AdExpr,
    Attr,
    Binary,
    Expr,
    ListExpr,
    Literal,
    Subscript,
    Ternary,
    Unary,
)
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.quoting import unescape
from matchmaker.classad.scanner import assignments_of, plain_name, tokens_of
from matchmaker.classad.stack import with_room
from matchmaker.classad.values import ERROR, MAX_INT, MIN_INT, UNDEFINED

MAX_NESTING: Final = 200
"""How deep an expression may nest. Long chains of one operator do not count as nesting."""

MAX_TEXT: Final = 1 << 24
"""How many characters an expression or an ad may have."""

MAX_SYNTAX: Final = 1 << 20
"""How many of them may stand outside of strings in an expression, or in an ad that is read whole.

A character of a string takes a byte or a few, any other up to a hundred.
"""

_SPAN: Final = re.compile(
    r"""//[^\n]*+|/\*.*?\*/|'(?:[^'\\]|\\.)*+'|("(?:[^"\\]|\\.)*+")""", re.DOTALL
)
"""What a quote may stand in: comments, quoted names, and strings as group 1."""


def _outside(text: str) -> int:
    """The characters outside of strings, if there may be too many."""
    if len(text) <= MAX_SYNTAX:
        return 0
    return len(text) - sum(len(span[1] or "") for span in _SPAN.finditer(text))


_held: Final[Cache[str, Any]] = Cache("what ads hold, by text", 1 << 24)
"""Expressions, and short plain values, by texts that both formats read alike: no backslashes."""

_SHORT: Final = 4
"""Plain values with fewer characters come again."""


def parse_expr(text: str) -> Expr:
    """Reads one expression.

    The same text gives the same object. Raises ParseError with line, column, a caret, what was
    expected and a hint. (HTCondor manual, "ClassAd Syntax"; the grammar is classad.lark.)

    >>> str(parse_expr("Cpus*2 >= (Want)"))
    'Cpus * 2 >= Want'
    """
    if not isinstance(text, str):
        raise TypeError(f"text was expected, not {type(text).__name__}")
    held = _held[text]
    if held is None:
        return _remembered(text) or by_grammar(text, "expression")
    return held if isinstance(held, Expr) else Literal(held)


def parse_ad_expr(text: str) -> AdExpr:
    """Reads one ad in brackets as a node; ParseError as in :func:`parse_expr`."""
    if not isinstance(text, str):
        raise TypeError(f"text was expected, not {type(text).__name__}")
    node = parsed(text)
    return node if isinstance(node, AdExpr) else by_grammar(text, "ad")


def by_grammar(text: str, start: str) -> Any:
    """What a text denotes by a rule of the grammar, `expression` or `ad`. Raises ParseError."""
    if len(text) > MAX_TEXT:
        raise ParseError(f"{len(text)} characters in one piece, at most {MAX_TEXT} are allowed")
    outside = _outside(text)
    if outside > MAX_SYNTAX:
        raise ParseError(
            f"{outside} characters outside of strings in one piece,"
            f" at most {MAX_SYNTAX} are allowed",
            hint="give the parts names of their own",
        )
    from matchmaker.classad.grammar import parse

    tree: Any = parse(text, start)
    if tree.depth > MAX_NESTING:
        raise ParseError(
            f"nested {tree.depth} deep, at most {MAX_NESTING} is allowed",
            hint="give the inner parts names of their own",
        )
    return tree


# --- expressions ----------------------------------------------------------------------------------


def parsed(text: str) -> Expr | None:
    """The expression of a text, None if the fast parser does not take it."""
    if len(text) > MAX_TEXT or _outside(text) > MAX_SYNTAX:
        return None
    try:
        node = with_room(lambda: _Reader(tokens_of(text)).whole())
    except (_MissError, RecursionError):
        return None
    return node if node.depth <= MAX_NESTING else None


class _MissError(Exception):
    """Ends the reading of what only the grammar may take."""


_MISS: Final = _MissError()


class _Reader:
    """Reads an expression from its tokens, of which the one at `at` comes next."""

    __slots__ = ("at", "tokens")

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.at = 0

    def whole(self) -> Expr:
        """The expression of all tokens."""
        node = self.expression(_TERNARY)
        if self.at != len(self.tokens) - 1:
            raise _MISS
        return node

    def expression(self, loosest: int) -> Expr:
        """An expression of operators that bind as tightly as `loosest`, or tighter."""
        left = self.operand()
        tokens = self.tokens
        while True:
            symbol = tokens[self.at]
            level = _LEVELS.get(symbol)
            if level is None:
                if symbol[:1] != "-" or loosest > _SUM:
                    return left
                # The sign of a number after an operand subtracts it.
                tokens[self.at] = symbol[1:]
                left = Binary("-", left, self.expression(_SUM + 1))
            elif level < loosest:
                return left
            else:
                self.at += 1
                if level == _TERNARY:
                    then = self.expression(_TERNARY)
                    self.take(":")
                    return Ternary(left, then, self.expression(_TERNARY))
                left = Binary(_NAMED.get(symbol, symbol), left, self.expression(level + 1))

    def operand(self) -> Expr:
        """An operand of binary operators, with the operators before and behind it."""
        tokens = self.tokens
        symbol = tokens[self.at]
        if symbol in _PREFIXES:
            signs = []
            while symbol in _PREFIXES:
                signs.append(symbol)
                self.at += 1
                symbol = tokens[self.at]
            node = self.operand()
            for sign in reversed(signs):
                node = Unary(sign, node)
            return node
        node = self.selected()
        while (symbol := tokens[self.at])[:1] == "?" and len(symbol) > 1:
            self.at += 1
            node = Binary("?:", node, self.selected())
        return node

    def selected(self) -> Expr:
        """A primary expression with its selections and subscripts."""
        tokens = self.tokens
        symbol = tokens[self.at]
        self.at += 1
        read = _PRIMARIES.get(symbol[:1])
        if read is None:
            raise _MISS
        node = read(self, symbol)
        while True:
            symbol = tokens[self.at]
            if symbol == ".":
                name = self.name(tokens[self.at + 1])
                self.at += 2
                node = Attr(node, name, False)
            elif symbol == "[":
                self.at += 1
                node = Subscript(node, self.expression(_TERNARY))
                self.take("]")
            else:
                return node

    # Each of these is given the token that begins it, which has been passed.

    def word(self, symbol: str) -> Expr:
        if symbol[0] != "'":
            constant = _CONSTANTS.get(symbol.lower())
            if constant is not None:
                return constant
        name = self.name(symbol)
        if self.tokens[self.at] == "(":
            self.at += 1
            return call(name, self.items(")"))
        return Attr(None, name, False)

    def absolute(self, symbol: str) -> Expr:
        if symbol != ".":
            return self.number(symbol)
        name = self.name(self.tokens[self.at])
        self.at += 1
        return Attr(None, name, True)

    def number(self, symbol: str) -> Expr:
        if symbol == "-":
            raise _MISS
        if not symbol.lstrip("-").isdecimal():
            return Literal(float(symbol))
        # Over 20 digits cannot fit; int() on millions of them would take its time.
        if len(symbol) > 20 or not MIN_INT <= (number := int(symbol)) <= MAX_INT:
            raise _MISS
        return Literal(number)

    def string(self, symbol: str) -> Expr:
        text = _unescaped(symbol)
        while self.tokens[self.at][:1] == '"':
            text += _unescaped(self.tokens[self.at])
            self.at += 1
        return Literal(text)

    def group(self, _: str) -> Expr:
        node = self.expression(_TERNARY)
        self.take(")")
        return node

    def list(self, _: str) -> Expr:
        return ListExpr(self.items("}"))

    def ad(self, _: str) -> Expr:
        assignments: list[tuple[str, Expr]] = []
        tokens = self.tokens
        begin = self.at
        while True:
            while tokens[self.at] == ";":
                self.at += 1
            if tokens[self.at] == "]":
                break
            name = self.name(tokens[self.at])
            self.at += 1
            self.take("=")
            assignments.append((name, self.expression(_TERNARY)))
            if tokens[self.at] not in _AFTER_ASSIGNMENT:
                raise _MISS
        if self.at > begin and not assignments:
            raise _MISS
        self.at += 1
        return ad_expression(assignments)

    # --- parts ---

    def take(self, symbol: str) -> None:
        if self.tokens[self.at] != symbol:
            raise _MISS
        self.at += 1

    def items(self, closing: str) -> tuple[Expr, ...]:
        """Expressions between commas, up to a bracket."""
        items: list[Expr] = []
        if self.tokens[self.at] != closing:
            items.append(self.expression(_TERNARY))
            while self.tokens[self.at] == ",":
                self.at += 1
                items.append(self.expression(_TERNARY))
        self.take(closing)
        return tuple(items)

    def name(self, symbol: str) -> str:
        if symbol[:1] == "'":
            return _unescaped(symbol)
        if not symbol or symbol[0] not in _LETTERS or symbol.lower() in _RESERVED:
            raise _MISS
        return symbol


def _unescaped(symbol: str) -> str:
    try:
        return unescape(symbol[1:-1])
    except ValueError:
        raise _MISS from None


def _spellings(word: str) -> Iterable[str]:
    return map("".join, product(*zip(word, word.upper(), strict=True)))


_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_PREFIXES: Final = frozenset("-+!~")
_AFTER_ASSIGNMENT: Final = frozenset(";]")
_CONSTANTS: Final[dict[str, Expr]] = {
    "true": TRUE, "false": FALSE, "undefined": Literal(UNDEFINED), "error": Literal(ERROR),
}  # fmt: skip
_RESERVED: Final = frozenset({*_CONSTANTS, "is", "isnt"})
_NAMED: Final = NAMED | {word: name for name in NAMED.values() for word in _spellings(name)}
_LEVELS: Final = {
    symbol: level
    for level, symbols in enumerate(
        (["?"], ["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!=", *_NAMED], ["<", "<=", ">", ">="],
         ["<<", ">>", ">>>"], ["+", "-"], ["*", "/", "%"])
    )
    for symbol in symbols
}  # fmt: skip
"""How tightly binary operators bind; those of one level group from the left."""
_TERNARY: Final = _LEVELS["?"]
_SUM: Final = _LEVELS["+"]
_PRIMARIES: Final[dict[str, Callable[[_Reader, str], Expr]]] = {
    **dict.fromkeys((*_LETTERS, "'"), _Reader.word),
    **dict.fromkeys("0123456789-", _Reader.number),
    '"': _Reader.string, "(": _Reader.group, "{": _Reader.list, "[": _Reader.ad,
    ".": _Reader.absolute,
}  # fmt: skip


# --- what ads hold --------------------------------------------------------------------------------


def _refused(_: str) -> None:
    """Refuses what only JSON calls a number."""
    raise ValueError


_scan: Final = make_scanner(JSONDecoder(parse_constant=_refused))  # type: ignore[arg-type]
_PLAIN: Final = frozenset('"-0123456789tf')
"""What plain values begin with. JSON writes them alike, and Python's reader of it is compiled."""


def value_of(text: str) -> Any:
    """What an ad holds for the text of an expression: a plain value, or a node; None as above.

    >>> value_of(" 42 "), value_of('"x"'), value_of("TRUE"), value_of("a+1"), value_of("a+")
    (42, 'x', True, Expr('a + 1'), None)
    """
    held = _held[text]
    if held is None:
        held = _remembered(text)
        return held.value if type(held) is Literal else held
    return held


def _remembered(text: str) -> Expr | None:
    node = parsed(text)
    if node is not None and type(node) is not Literal and "\\" not in text:
        # As size_of() would say, had each name and operator four characters.
        _held.put(text, node, 200 * len(text))
    return node


def parse_value(text: str) -> Any:
    """The same by the grammar where it must be. Raises ParseError."""
    node = parse_expr(text)
    return node.value if type(node) is Literal else node


_names: Final[Cache[str, str]] = Cache("names as ads spell them", 1 << 22)
"""The folded names of those that are spelled as they were first, with spaces around or without."""


def ad_of(
    assignments: Iterable[tuple[str, str, str]], convert: Callable[[str], Any] = value_of
) -> ClassAd | None:
    """The ad of names and texts, None where one of them is not taken; `convert` reads texts.

    >>> print(ad_of([("a", "=", "1"), ("b", "=", "a+1")]))
    [ a = 1; b = a + 1 ]
    """
    content: dict[str, Any] = {}
    names: dict[str, str] = {}
    known = _held.get
    for name, _, text in assignments:
        folded = _names[name] or _fold(name, content, names)
        if not folded:
            return None
        value = known(text)
        if value is None:
            end = -1
            if text[:1] in _PLAIN:
                try:
                    value, end = _scan(text, 0)
                except (StopIteration, ValueError):
                    end = -1
            if (
                end != len(text)
                # Not all integers fit, and other escapes differ.
                or (end > 18 and type(value) is int)
                or ("\\" in text and "\\" in text.replace('\\"', ""))
            ):
                value = convert(text)
                if value is None:
                    return None
            elif end < _SHORT:
                _held.put(text, value, ENTRY)
        content[folded] = value
    return ClassAd.of(content, names or None)


def _fold(name: str, content: dict[str, Any], names: dict[str, str]) -> str:
    """The folded name, empty for what is no plain name; notes an unusual spelling in `names`."""
    plain = plain_name(name)
    if plain.lower() in _RESERVED:
        return ""
    folded = intern(ascii_fold(plain))
    if not unusual(folded, plain):
        _names.put(name, folded)
    elif folded not in content:
        names[folded] = plain
    return folded


def ad_in(text: str) -> ClassAd | None:
    """The ad of a text in brackets, None if the fast parser does not take it."""
    if len(text) > MAX_TEXT:
        return None
    ad = ad_of(assignments_of(text))
    if ad is None:
        node = parsed(text)
        return ClassAd.from_expression(node) if isinstance(node, AdExpr) else None
    return ad
