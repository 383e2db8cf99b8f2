"""From tokens to nodes by precedence climbing.

The syntax is that of ``classad.lark``. What is not taken here ends in a MissError, upon which the
grammar decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Final

from matchmaker.classad.cache import Cache
from matchmaker.classad.footprint import NODE
from matchmaker.classad.forms import NAMED, ad_expression, call
from matchmaker.classad.nodes import (
    FALSE,
    TRUE,
    Attr,
    Binary,
    Expr,
    ListExpr,
    Literal,
    Subscript,
    Ternary,
    Unary,
)
from matchmaker.classad.quoting import unescape
from matchmaker.classad.scanner import RESERVED, tokens_of
from matchmaker.classad.values import ERROR, MAX_INT, MIN_INT, UNDEFINED

_words: Final[Cache[str, Expr]] = Cache("names in expressions", 1 << 23)
"""What words denote, and two with a dot between them."""


class MissError(Exception):
    """Ends the reading of what only the grammar may take."""


def expression_of(text: str) -> Expr:
    """The expression of a text. Raises MissError, and RecursionError for one that nests too deep.

    >>> expression_of("a + b * 2")
    Expr('a + b * 2')
    """
    return _Reader(tokens_of(text)).whole()


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
            raise MissError
        return node

    def expression(self, loosest: int) -> Expr:
        """An expression of operators that bind as tightly as `loosest`, or tighter."""
        tokens = self.tokens
        symbol = tokens[self.at]
        self.at += 1
        left = _words.get(symbol)
        if left is None or tokens[self.at] == "(":
            if symbol in _PREFIXES and loosest <= _UNARY:
                left = Unary(symbol, self.expression(_UNARY))
            elif (read := _PRIMARIES.get(symbol[:1])) is not None:
                left = read(self, symbol)
            else:
                raise MissError
        while True:
            symbol = tokens[self.at]
            level = _LEVELS.get(symbol)
            if level is None:
                if symbol[:1] == "?":
                    symbol, level = "?:", _ELVIS
                elif symbol[:1] == "-" and loosest <= _SUM:
                    # The sign of a number after an operand subtracts it.
                    tokens[self.at] = symbol[1:]
                    self.at -= 1
                    symbol, level = "-", _SUM
                else:
                    return left
            if level < loosest:
                return left
            self.at += 1
            if level == _SELECTION:
                left = self.selected(left, symbol)
            elif level == _TERNARY:
                then = self.expression(_TERNARY)
                self.take(":")
                return Ternary(left, then, self.expression(_TERNARY))
            else:
                left = Binary(_NAMED.get(symbol, symbol), left, self.right(level))

    def right(self, level: int) -> Expr:
        """The right side of an operator: mostly a word that nothing behind it binds."""
        word = _words.get(self.tokens[self.at])
        if word is None or _BEHIND.get(self.tokens[self.at + 1], _SELECTION) > level:
            return self.expression(level + 1)
        self.at += 1
        return word

    def selected(self, base: Expr, symbol: str) -> Expr:
        """An attribute or an element of an expression."""
        if symbol == "[":
            node = Subscript(base, self.expression(_TERNARY))
            self.take("]")
            return node
        for name in self.names():
            base = Attr(base, name, False)
        return base

    # Each of these is given the token that begins it, which has been passed.

    def word(self, symbol: str) -> Expr:
        if self.tokens[self.at] == "(":
            self.at += 1
            return call(self.name(symbol), self.items(")"))
        if symbol[0] == "'":
            return Attr(None, self.name(symbol), False)
        first, _, second = symbol.partition(".")
        node = _CONSTANTS.get(first.lower()) or Attr(None, self.name(first), False)
        if second:
            node = Attr(node, self.name(second), False)
        return _words.put(symbol, node, 2 * NODE + 4 * len(symbol))

    def absolute(self, symbol: str) -> Expr:
        if symbol != ".":
            return self.number(symbol)
        first, *more = self.names()
        node = Attr(None, first, True)
        for name in more:
            node = Attr(node, name, False)
        return node

    def number(self, symbol: str) -> Expr:
        if symbol.isdecimal() and len(symbol) < 19:
            return Literal(int(symbol))
        if symbol == "-":
            raise MissError
        if not symbol.lstrip("-").isdecimal():
            return Literal(float(symbol))
        # Over 20 digits cannot fit; int() on millions of them would take its time.
        if len(symbol) > 20 or not MIN_INT <= (number := int(symbol)) <= MAX_INT:
            raise MissError
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
                raise MissError
        if self.at > begin and not assignments:
            raise MissError
        self.at += 1
        return ad_expression(assignments)

    # --- parts ---

    def take(self, symbol: str) -> None:
        if self.tokens[self.at] != symbol:
            raise MissError
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

    def names(self) -> Iterable[str]:
        """The names behind a dot: one, or two with a dot between them."""
        symbol = self.tokens[self.at]
        self.at += 1
        return map(self.name, [symbol] if symbol[:1] == "'" else symbol.split("."))

    def name(self, symbol: str) -> str:
        if symbol[:1] == "'":
            return _unescaped(symbol)
        if symbol[:1] not in _LETTERS or "." in symbol or symbol.lower() in RESERVED:
            raise MissError
        return symbol


def _unescaped(symbol: str) -> str:
    if "\\" not in symbol:
        return symbol[1:-1]
    try:
        return unescape(symbol[1:-1])
    except ValueError:
        raise MissError from None


def _spellings(word: str) -> Iterable[str]:
    return map("".join, product(*zip(word, word.upper(), strict=True)))


_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_PREFIXES: Final = frozenset("-+!~")
_AFTER_ASSIGNMENT: Final = frozenset(";]")
_CONSTANTS: Final[dict[str, Expr]] = {
    "true": TRUE, "false": FALSE, "undefined": Literal(UNDEFINED), "error": Literal(ERROR),
}  # fmt: skip
_NAMED: Final = NAMED | {word: name for name in NAMED.values() for word in _spellings(name)}
_LEVELS: Final = {
    symbol: level
    for level, symbols in enumerate(
        (["?"], ["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!=", *_NAMED], ["<", "<=", ">", ">="],
         ["<<", ">>", ">>>"], ["+", "-"], ["*", "/", "%"], [], ["?:"], [".", "["])
    )
    for symbol in symbols
}  # fmt: skip
"""How tightly operators bind; those of one level group from the left."""
_BEHIND: Final = _LEVELS | dict.fromkeys(("", ")", "]", "}", ",", ";", ":"), -1)
"""The same, and what ends an expression."""
_TERNARY: Final = _LEVELS["?"]
_SUM: Final = _LEVELS["+"]
_ELVIS: Final = _LEVELS["?:"]
_SELECTION: Final = _LEVELS["."]
_UNARY: Final = _ELVIS - 1
_PRIMARIES: Final[dict[str, Callable[[_Reader, str], Expr]]] = {
    **dict.fromkeys((*_LETTERS, "'"), _Reader.word),
    **dict.fromkeys("0123456789-", _Reader.number),
    '"': _Reader.string, "(": _Reader.group, "{": _Reader.list, "[": _Reader.ad,
    ".": _Reader.absolute,
}  # fmt: skip
