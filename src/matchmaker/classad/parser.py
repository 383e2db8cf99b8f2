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

from matchmaker.classad.ad import ClassAd, is_unusual
from matchmaker.classad.cache import ENTRY, Cache
from matchmaker.classad.errors import ParseError
from matchmaker.classad.footprint import NODE
from matchmaker.classad.forms import NAMED, ad_expression, call
from matchmaker.classad.limits import LIMITS
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
from matchmaker.classad.scanner import assignments_of, begins_ad, name_and_value, tokens_of
from matchmaker.classad.stack import with_room
from matchmaker.classad.values import ERROR, MAX_INT, MIN_INT, UNDEFINED

_SPAN: Final = re.compile(
    r"""//[^\n]*+|/\*.*?\*/|'(?:[^'\\]|\\.)*+'|("(?:[^"\\]|\\.)*+")""", re.DOTALL
)
"""What a quote may stand in: comments, quoted names, and strings as group 1."""


def _outside(text: str) -> int:
    """The characters outside of strings, if there may be too many."""
    if len(text) <= LIMITS.syntax:
        return 0
    return len(text) - sum(len(span[1] or "") for span in _SPAN.finditer(text))


_known: Final[Cache[str, Expr]] = Cache("expressions by text", 1 << 24)
_words: Final[Cache[str, Expr]] = Cache("names in expressions", 1 << 23)
"""What words denote, and two with a dot between them."""


def parse_expr(text: str) -> Expr:
    """Reads one expression.

    The same text gives the same object. Raises ParseError with line, column, a caret, what was
    expected and a hint. (HTCondor manual, "ClassAd Syntax"; the grammar is classad.lark.)

    >>> str(parse_expr("Cpus*2 >= (Want)"))
    'Cpus * 2 >= Want'
    """
    if not isinstance(text, str):
        raise TypeError(f"text was expected, not {type(text).__name__}")
    node = _known[text]
    if node is None:
        node = parsed(text) or by_grammar(text, "expression")
        # As size_of() would say, had each name and operator four characters.
        _known.put(text, node, NODE // 4 * len(text))
    return node


def parse_ad_expr(text: str) -> AdExpr:
    """Reads one ad in brackets as a node; ParseError as in :func:`parse_expr`."""
    if not isinstance(text, str):
        raise TypeError(f"text was expected, not {type(text).__name__}")
    return _parsed_ad(text) or by_grammar(text, "ad")


def by_grammar(text: str, start: str) -> Any:
    """What a text denotes by a rule of the grammar, `expression` or `ad`. Raises ParseError."""
    if len(text) > LIMITS.text:
        raise ParseError(f"{len(text)} characters in one piece, at most {LIMITS.text} are allowed")
    outside = _outside(text)
    if outside > LIMITS.syntax:
        raise ParseError(
            f"{outside} characters outside of strings in one piece,"
            f" at most {LIMITS.syntax} are allowed",
            hint="give the parts names of their own",
        )
    from matchmaker.classad.grammar import parse

    tree: Any = parse(text, start)
    if tree.depth > LIMITS.nesting:
        raise ParseError(
            f"nested {tree.depth} deep, at most {LIMITS.nesting} is allowed",
            hint="give the inner parts names of their own",
        )
    return tree


# --- expressions ----------------------------------------------------------------------------------


def parsed(text: str) -> Expr | None:
    """The expression of a text, None if the fast parser does not take it."""
    if len(text) > LIMITS.text or _outside(text) > LIMITS.syntax:
        return None
    try:
        node = with_room(lambda: _Reader(tokens_of(text)).whole())
    except (_MissError, RecursionError):
        return None
    return node if node.depth <= LIMITS.nesting else None


def _parsed_ad(text: str) -> AdExpr | None:
    node = parsed(text)
    return node if isinstance(node, AdExpr) and begins_ad(text) else None


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
                raise _MISS
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
                left = Binary(_NAMED.get(symbol, symbol), left, self.expression(level + 1))

    def selected(self, base: Expr, symbol: str) -> Expr:
        """An attribute or an element of an expression."""
        if symbol == "[":
            node = Subscript(base, self.expression(_TERNARY))
            self.take("]")
            return node
        names = self.tokens[self.at]
        self.at += 1
        for name in [names] if names[:1] == "'" else names.split("."):
            base = Attr(base, self.name(name), False)
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
        name, _, second = self.tokens[self.at].partition(".")
        node = Attr(None, self.name(name), True)
        self.at += 1
        return Attr(node, self.name(second), False) if second else node

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
        if symbol[:1] not in _LETTERS or "." in symbol or symbol.lower() in _RESERVED:
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
         ["<<", ">>", ">>>"], ["+", "-"], ["*", "/", "%"], [], ["?:"], [".", "["])
    )
    for symbol in symbols
}  # fmt: skip
"""How tightly operators bind; those of one level group from the left."""
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
    node = parsed(text)
    return node.value if type(node) is Literal else node


def parse_value(text: str) -> Any:
    """The same by the grammar where it must be. Raises ParseError."""
    node = parse_expr(text)
    return node.value if type(node) is Literal else node


_names: Final[Cache[str, str]] = Cache("names as ads spell them", 1 << 22)
"""The folded names of those that are spelled as they were first."""

_assignments: Final[Cache[str, tuple[str, Any]]] = Cache("assignments by text", 1 << 24)
"""Folded names and what ads hold, of what comes again: expressions, and values of few characters.

Not of texts with backslashes, which each format reads in its own way.
"""

_FEW: Final = {str: 14, int: 4, float: 4, bool: 5}
"""The most characters of a plain value that is kept."""


def ad_of(assignments: Iterable[str], convert: Callable[[str], Any] = value_of) -> ClassAd | None:
    """The ad of assignments, None where one of them is not taken; `convert` reads expressions.

    >>> print(ad_of(["a = 1", "b=a+1"]))
    [ a = 1; b = a + 1 ]
    """
    content: dict[str, Any] = {}
    unusual: dict[str, str] = {}
    fresh: dict[str, tuple[str, Any]] = {}
    size = 0
    known = _assignments.get
    for assignment in assignments:
        found = known(assignment)
        if found is not None:
            content[found[0]] = found[1]
            continue
        name, _, text = assignment.partition(" = ")
        folded = _names[name]
        if folded is None:
            name, text = name_and_value(assignment)
            folded = _names[name] or _fold(name, content, unusual)
            if not folded:
                return None
        value, end = None, -1
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
            end = 0
        if end <= _FEW.get(type(value), 0) and "\\" not in assignment and name in _names:
            fresh[assignment] = folded, value
            size += ENTRY + 4 * len(assignment) + (0 if end else NODE // 4 * len(text))
        content[folded] = value
    if fresh:
        _assignments.put_all(fresh, size)
    return ClassAd.of(content, unusual or None)


def _fold(name: str, content: dict[str, Any], unusual: dict[str, str]) -> str:
    """The folded name, empty for a word that is none; notes an unusual spelling."""
    if name.lower() in _RESERVED:
        return ""
    folded = intern(ascii_fold(name))
    if not is_unusual(folded, name):
        _names.put(name, folded)
    elif folded not in content:
        unusual[folded] = name
    return folded


def ad_in(text: str) -> ClassAd | None:
    """The ad of a text in brackets, None if the fast parser does not take it."""
    if len(text) > LIMITS.text or not begins_ad(text):
        return None
    ad = ad_of(assignments_of(text))
    if ad is not None:
        return ad
    node = _parsed_ad(text)
    return ClassAd.from_expression(node) if node is not None else None
