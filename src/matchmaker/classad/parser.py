"""Text to expressions: tokens become nodes by the precedence of operators.

One compiled pattern cuts a text into tokens; text that it does not cover ends in an empty token.
The rest goes to the grammar, ``classad.lark``, which defines the syntax, decides, and alone reports
errors: line, column, alternatives and a hint. A property and a fuzz target hold both equal. How
assignments make an ad is in ``formats.new``; files and streams are read in ``formats``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any, Final, TypeVar

from matchmaker._cache import BoundedCache
from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker._stack import with_room
from matchmaker.classad.errors import ParseError
from matchmaker.classad.nodes import (
    FALSE,
    NAMED,
    PRECEDENCE,
    TRUE,
    AdExpr,
    Attr,
    Expr,
    ListExpr,
    Literal,
    Subscript,
    Ternary,
    Unary,
    ad_expression,
    binary,
    call,
    constant,
)
from matchmaker.classad.printer import RESERVED, unescape
from matchmaker.classad.printer import quote as between
from matchmaker.classad.values import ERROR, MAX_INT, MIN_INT, UNDEFINED

SPACES: Final = " \t\r\n\f\v"
SEPARATORS: Final = SPACES + ";"
_SPACE: Final = rf"[{SPACES}]*+"
_LONG_COMMENT: Final = r"/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/"
_GAP: Final = rf"{_SPACE}(?:(?://[^\n]*+|{_LONG_COMMENT}){_SPACE})*+"
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*+(?!\w)"
_STRING: Final = r'"[^"\\\0]*+(?:\\[^\0][^"\\\0]*+)*+"'
_QUOTED: Final = r"'(?:[^'\\\0]++|\\[^\0])++'"
_REAL: Final = r"[0-9]*+\.[0-9]++(?:[eE][+-]?[0-9]++)?|[0-9]++[eE][+-]?[0-9]++"
_NUMBER: Final = rf"-?(?:{_REAL}|0|[1-9][0-9]*+)(?![\w.])"
_SYMBOL: Final = (
    r"[(){}\[\],;:~^*%+]|/(?![/*])|\|\|?|&&?|=(?:[?!]?=)?|!=?|<[<=]?|>(?:>>?|=)?|\?(?:\s*+:)?"
)
# Clauses in parentheses come again in other expressions, and lists and ads are mostly of constants:
# so the innermost brackets, with all that is in them, are one token.
_FLAT: Final = rf"""[^()\[\]{{}}"'/\0]*+(?:{_STRING}[^()\[\]{{}}"'/\0]*+)*+"""
_GROUP: Final = rf"\({_FLAT}\)|\{{{_FLAT}\}}|\[{_FLAT}\]"

# What comes most often comes first. What no token begins with takes all the rest, so that the time
# stays linear.
_TOKEN: Final = re.compile(
    rf"({_NAME}(?:\.{_NAME})?+|{_GROUP}|{_SYMBOL}|{_STRING}(?:{_GAP}{_STRING})*+|{_NUMBER}|[-.]|{_QUOTED}){_GAP}|.++",
    re.DOTALL,
)
STRING: Final = re.compile(rf"(?://[^\n]*+|{_LONG_COMMENT})|({_STRING})")
"""Takes the strings of a token, as its group, and the comments between them."""

REAL: Final = re.compile(rf"-?(?:{_REAL})").fullmatch
"""Takes a number that is a real."""

_INTEGER: Final = "-?(?:0|[1-9][0-9]{0,17})"
INTEGERS: Final = re.compile(rf"{_INTEGER}(?:\0{_INTEGER})*+").fullmatch
"""Takes integers that fit 64 bits, with NULs between them."""

REALS: Final = re.compile(rf"-?(?:{_REAL})(?:\0-?(?:{_REAL}))*+").fullmatch
"""Takes reals, with NULs between them."""

ONE_STRING: Final = re.compile(_STRING).fullmatch
"""Takes a string alone."""

_LEADING: Final = re.compile(_GAP)


def tokens_of(text: str) -> list[str]:
    """Cut a text into tokens, with an empty one at the end and for text that is not a token.

    One token are: a minus sign and digits after it, also of a subtraction; two names with a
    dot between them; strings side by side; brackets that hold no others, and no comments or quoted
    names, which could hide a bracket.

    >>> tokens_of("a.b -5 ? : (c + 1) // end")
    ['a.b', '-5', '? :', '(c + 1)', '']
    >>> tokens_of("a @ b")
    ['a', '', '']
    """
    begin = _LEADING.match(text)
    tokens: list[str] = _TOKEN.findall(text, begin.end() if begin else 0)
    tokens.append("")
    return tokens


# --- ads in brackets ------------------------------------------------------------------------------

# In an ad a comment ends before its last bracket.
_COMMENT: Final = rf"//[^\n]*+\n|{_LONG_COMMENT}"
_BETWEEN: Final = rf"{_SPACE}(?:(?:{_COMMENT}){_SPACE})*+"
_ATOMS: Final = rf"{_STRING}|{_QUOTED}|{_COMMENT}|/(?![/*])"
# What stands between the brackets of an ad, as far as it nests three deep.
_INSIDE = "(?!)"
for _ in range(3):
    _INSIDE = rf"""[^"'/\[\]]*+(?:(?:{_ATOMS}|\[{_INSIDE}\])[^"'/\[\]]*+)*+"""

_OPENING: Final = re.compile(rf"{_BETWEEN}\[{_BETWEEN}((?:;{_BETWEEN})*+)")
# What is no assignment takes all the rest.
_PIECES: Final = re.compile(
    rf"""([^;"'/\[\]]*+(?:(?:{_ATOMS}|\[{_INSIDE}\])[^;"'/\[\]]*+)*+);|.++""", re.DOTALL
)


def begins_ad(text: str) -> bool:
    """Whether the first token of a text is an ad's bracket."""
    return _OPENING.match(text) is not None


def inside_of(text: str) -> str | None:
    """The assignments between the brackets of an ad; None if only the grammar can say.

    >>> inside_of(" [ a = 1; ]"), inside_of("[ ; ]"), inside_of("a = 1")
    ('a = 1', None, None)
    """
    text = text.rstrip(SPACES)
    opening = _OPENING.match(text)
    if opening is None or text[-1] != "]":
        return None
    start, end = opening.end(), len(text) - 1
    return (
        None if start > end or (start == end and opening[1]) else text[start:end].rstrip(SEPARATORS)
    )


def assignments_in(inside: str) -> list[str]:
    """Cut the text between the brackets of an ad at its semicolons.

    Some of the texts may be empty, or no assignments.

    >>> assignments_in('a = "x;y"; b = [c = 1; d = 2]')
    ['a = "x;y"', ' b = [c = 1; d = 2]']
    """
    return _PIECES.findall(inside + ";") if inside else []


NAME: Final = re.compile(
    r"(?:[A-DGHJ-SV-Z_a-dghj-sv-z]|[EFITUefitu](?!(?i:rror|alse|snt|s|rue|ndefined)\b))"
    r"[A-Za-z0-9_]*+"
).fullmatch
"""Takes a name that needs no quotes."""


_R = TypeVar("_R")

# Larger tables make long streams slower: sixteen times as many took 1.4 times as long for 20,000
# slots. A character may be a node, which takes up to 800 bytes with its compiled code.
_known: Final[BoundedCache[str, Expr]] = BoundedCache("expressions by text", 1 << 15)
"""The expressions of texts that were met: whole ones, clauses in parentheses, names, constants."""


def parse_expr(text: str) -> Expr:
    """Reads one expression.

    The same text gives the same object. Raises ParseError with line, column, a caret,
    alternatives and a hint. (HTCondor manual, "ClassAd Syntax"; the grammar is classad.lark.)

    >>> str(parse_expr("Cpus*2 >= (Want)"))
    'Cpus * 2 >= Want'
    """
    if not isinstance(text, str):
        raise TypeError(f"text was expected, not {type(text).__name__}")
    node = parsed(text)
    return by_grammar(text, "expression") if node is None else node


def parse_ad_expr(text: str) -> AdExpr:
    """Reads one ad in brackets as a node; ParseError as in :func:`parse_expr`."""
    if not isinstance(text, str):
        raise TypeError(f"text was expected, not {type(text).__name__}")
    node = parsed_ad(text)
    return by_grammar(text, "ad") if node is None else node


def parse_value(text: str) -> Any:
    """Parse an expression; return the value of a literal. Raises ParseError.

    >>> parse_value("a + 1"), parse_value("true")
    (Expr('a + 1'), True)
    """
    node = parse_expr(text)
    return node.value if type(node) is Literal else node


def parsed(text: str) -> Expr | None:
    """The expression of a text, None if only the grammar may take it."""
    node = _known.get(text)
    if node is not None:
        return node
    if len(text) > LIMITS.syntax and (len(text) > LIMITS.text or _outside(text) > LIMITS.syntax):
        return None
    try:
        node = with_room(_whole, text)
    except (MissError, RecursionError):
        return None
    return node if node.depth <= LIMITS.nesting else None


def parsed_ad(text: str) -> AdExpr | None:
    """The ad of a text, None if only the grammar may take it."""
    node = parsed(text) if begins_ad(text) else None
    return node if isinstance(node, AdExpr) else None


# --- the grammar ----------------------------------------------------------------------------------

_SPAN: Final = re.compile(
    r"""//[^\n]*+|/\*.*?\*/|'(?:[^'\\]|\\.)*+'|("(?:[^"\\]|\\.)*+")""", re.DOTALL
)
"""Spans that may have quotes: comments, quoted names, and strings as group 1."""


def _outside(text: str) -> int:
    """The characters outside of strings, if there may be too many."""
    if len(text) <= LIMITS.syntax:
        return 0
    return len(text) - sum(len(span[1] or "") for span in _SPAN.finditer(text))


def by_grammar(text: str, start: str) -> Any:
    """Parse a text by a rule of the grammar, `expression` or `ad`. Raises ParseError."""
    if len(text) > LIMITS.text:
        raise ParseError(f"{len(text)} characters in one piece, at most {LIMITS.text} are allowed")
    outside = _outside(text)
    if outside > LIMITS.syntax:
        raise ParseError(
            f"{outside} characters outside of strings in one piece,"
            f" at most {LIMITS.syntax} are allowed",
            hint="give the parts names of their own",
        )
    if _is_too_deep(text):
        raise ParseError(f"nested more than {LIMITS.nesting} deep", hint=_INSTEAD)
    from matchmaker.classad.grammar import parse

    tree: Any = parse(text, start)
    if tree.depth > LIMITS.nesting:
        raise ParseError(
            f"nested {tree.depth} deep, at most {LIMITS.nesting} is allowed", hint=_INSTEAD
        )
    return tree


_INSTEAD: Final = "give the inner parts names of their own"


def _is_too_deep(text: str) -> bool:
    """Whether a text nests so deep that the grammar would take its time to find that."""
    try:
        with_room(_whole, text)
    except (DepthError, RecursionError):
        return True
    except MissError:
        return False
    return False


# --- precedence climbing --------------------------------------------------------------------------

_Tokens = Iterator[str]
"""The tokens that come next. Whoever reads one has passed it."""


class MissError(Exception):
    """Ends the parsing of a text that is left to the grammar."""


class DepthError(MissError):
    """Ends the parsing of a text that nests too deep."""


def _whole(text: str, key: str = "") -> Expr:
    """The expression of a text. Raises MissError, and RecursionError for one that nests too deep.

    It may be a little deeper than the limit. It is
    kept by the text, or by `key`, which is the text in parentheses.
    """
    node = _within(text, _until)
    return _kept(key or text, node)


def _kept(text: str, node: Expr) -> Expr:
    return _known.put(text, node, len(text)) if node.depth <= LIMITS.nesting else node


def _within(text: str, read: Callable[[str, _Tokens], _R]) -> _R:
    """Read all tokens of a text by a function."""
    tokens = iter(tokens_of(text))
    found = read("", tokens)
    # An empty token stands at the end, and in place of what is none.
    if next(tokens, None) is not None:
        raise MissError
    return found


def _until(end: str, tokens: _Tokens) -> Expr:
    """The expression up to a token."""
    node, symbol = _expression(tokens)
    if node is None or symbol != end:
        raise MissError
    return node


def _expression(tokens: _Tokens) -> tuple[Expr | None, str]:
    """The expression that comes next, if there is one, and the token that ends it."""
    # The last operator that waits for its right side: how tightly it binds, and its left side,
    # which a prefix has not; and what stood here when it came.
    above, operator, left = _NOTHING
    waiting: list[tuple[int, str, Expr | None]] = []
    node: Expr | None = None
    before = ""
    for symbol in tokens:
        if node is None:
            before = symbol
            node = _known.get(symbol)
            if node is not None:
                continue
            read = _PRIMARIES.get(symbol[:1])
            if symbol in _PREFIXES and above <= _UNARY:
                if len(waiting) > LIMITS.nesting:
                    raise DepthError
                waiting.append((above, operator, left))
                above, operator, left = _UNARY, symbol, None
            elif read is not None:
                node = read(symbol, tokens)
            elif operator:
                raise MissError
            else:
                return None, symbol
            continue
        level = _LEVELS.get(symbol) or _unusual_level(symbol)
        while above >= level:
            node = binary(operator, left, node) if left is not None else Unary(operator, node)
            above, operator, left = waiting.pop()
        if level >= _SELECTION:
            node = _selected(node, symbol, before, tokens)
            if node.depth > LIMITS.nesting:
                raise DepthError
            before = ""
        elif level > _TERNARY:
            waiting.append((above, operator, left))
            above, left, node = level, node, None
            operator = symbol if level not in _RENAMED else _name_of(symbol)
            if level == _SUM and len(symbol) > 1:
                # The sign of a number after an operand subtracts it.
                before, node = "", _number(symbol[1:], tokens)
        else:
            return (node, symbol) if level == _END else _chosen(node, tokens)
    raise MissError


def _unusual_level(symbol: str) -> int:
    """How tightly a token binds that holds more than an operator: digits, spaces, arguments."""
    level = _BEGINS.get(symbol[:1])
    if level is None:
        raise MissError
    return level


def _name_of(symbol: str) -> str:
    return "?:" if symbol[0] == "?" else "-" if symbol[0] == "-" else _NAMED.get(symbol, symbol)


def _chosen(condition: Expr, tokens: _Tokens) -> tuple[Expr, str]:
    """One of two expressions by a condition, and the token behind."""
    then = _until(":", tokens)
    otherwise, symbol = _expression(tokens)
    if otherwise is None:
        raise MissError
    return Ternary(condition, then, otherwise), symbol


def _selected(base: Expr, symbol: str, before: str, tokens: _Tokens) -> Expr:
    """Parse a selection from `base`, an element of it, or a call."""
    if symbol == "[":
        return Subscript(base, _until("]", tokens))
    if symbol[0] == "[":
        return Subscript(base, _whole(symbol[1:-1]))
    if symbol == "(":
        return call(_name(before), _items(")", tokens))
    if symbol[0] == "(":
        # With a name, or it would be the clause that such parentheses are by themselves.
        name = _name(before)
        whole = name + symbol
        node = _known.get(whole)
        if node is None:
            node = _kept(whole, call(name, _within(symbol[1:-1], _items)))
        return node
    for name in _names(next(tokens)):
        base = Attr(base, name, False)
    return base


# Each of these is given the token that begins it, which has been passed.


def _word(symbol: str, tokens: _Tokens) -> Expr:
    if symbol[0] == "'":
        return Attr(None, _unescaped(symbol), False)
    first, _, second = symbol.partition(".")
    constant = _CONSTANTS.get(first.lower())
    node = Attr(None, _name(first), False) if constant is None else constant
    if second:
        node = Attr(node, _name(second), False)
    return _known.put(symbol, node, len(symbol))


def _absolute(symbol: str, tokens: _Tokens) -> Expr:
    if symbol != ".":
        return _number(symbol, tokens)
    first, *more = _names(next(tokens))
    node = Attr(None, first, True)
    for name in more:
        node = Attr(node, name, False)
    return node


def _number(symbol: str, _: _Tokens) -> Expr:
    if symbol.isdecimal() and len(symbol) < 19:
        return constant(int(symbol))
    if symbol == "-":
        raise MissError
    if not symbol.lstrip("-").isdecimal():
        return constant(float(symbol))
    # Over 20 digits cannot fit; int() on millions of them would take its time.
    if len(symbol) > 20 or not MIN_INT <= (number := int(symbol)) <= MAX_INT:
        raise MissError
    return constant(number)


def _string(symbol: str, _: _Tokens) -> Expr:
    if '"' in symbol[1:-1]:
        # Several side by side, perhaps.
        return constant("".join(map(_unescaped, filter(None, STRING.findall(symbol)))))
    return constant(_unescaped(symbol))


def _group(symbol: str, tokens: _Tokens) -> Expr:
    if symbol == "(":
        return _until(")", tokens)
    return _whole(symbol[1:-1], symbol)


def _list(symbol: str, tokens: _Tokens) -> Expr:
    if symbol == "{":
        return ListExpr(_items("}", tokens))
    inside = symbol[1:-1]
    try:
        items = tuple(map(_part, inside.split(","))) if inside.strip(SPACES) else ()
    except MissError:
        # A comma in a string, perhaps.
        items = _within(inside, _items)
    return ListExpr(items)


def _part(text: str) -> Expr:
    """The expression of a text between separators: mostly a constant."""
    text = text.strip(SPACES)
    node = _known.get(text)
    if node is not None:
        return node
    if text.isdecimal() and text[0] != "0" and len(text) < 19 and text.isascii():
        return constant(int(text))
    if text[:1] == '"' and text.find('"', 1) == len(text) - 1 and "\\" not in text:
        return constant(text[1:-1])
    return _whole(text)


def _ad(symbol: str, tokens: _Tokens) -> Expr:
    if symbol == "[":
        return _assignments("]", tokens)
    inside = symbol[1:-1]
    parts = [part.partition("=") for part in inside.rstrip(SEPARATORS).split(";")]
    try:
        return ad_expression([(_plain_name(head), _part(rest)) for head, _, rest in parts])
    except MissError:
        return _within(inside, _assignments)


def _plain_name(text: str) -> str:
    name = text.strip(SPACES)
    if NAME(name) is None:
        raise MissError
    return name


def _assignments(closing: str, tokens: _Tokens) -> Expr:
    """The ad of assignments, up to a bracket."""
    assignments: list[tuple[str, Expr]] = []
    separated = False
    symbol = next(tokens)
    while symbol != closing:
        if symbol == ";":
            separated = True
            symbol = next(tokens)
            continue
        name = _name(symbol)
        if next(tokens) != "=":
            raise MissError
        node, symbol = _expression(tokens)
        if node is None or symbol not in (";", closing):
            raise MissError
        assignments.append((name, node))
    if separated and not assignments:
        raise MissError
    return ad_expression(assignments)


def _items(closing: str, tokens: _Tokens) -> tuple[Expr, ...]:
    """Expressions between commas, up to a bracket."""
    items: list[Expr] = []
    symbol = ","
    while symbol == ",":
        node, symbol = _expression(tokens)
        if node is not None:
            items.append(node)
        elif items or symbol != closing:
            raise MissError
    if symbol != closing:
        raise MissError
    return tuple(items)


def _names(symbol: str) -> Iterable[str]:
    return map(_name, [symbol] if symbol[:1] == "'" else symbol.split("."))


def _name(symbol: str) -> str:
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
_CONSTANTS: Final[dict[str, Expr]] = {
    "true": TRUE, "false": FALSE, "undefined": Literal(UNDEFINED), "error": Literal(ERROR),
}  # fmt: skip
_NAMED: Final = NAMED | {word: name for name in NAMED.values() for word in _spellings(name)}
_LEVELS = {
    symbol: level
    for level, symbols in enumerate(
        (["", ")", "]", "}", ",", ";", ":"], ["?"], *PRECEDENCE, [], ["?:"], [".", "[", "("]),
        start=1,
    )
    for symbol in symbols
}
_LEVELS |= {spelled: _LEVELS[name] for spelled, name in _NAMED.items()}
"""How tightly operators bind; those of one level group from the left. What ends an expression comes
first, and what is part of an operand last."""
_END: Final = _LEVELS[""]
_TERNARY: Final = _LEVELS["?"]
_SUM: Final = _LEVELS["+"]
_ELVIS: Final = _LEVELS["?:"]
_RENAMED: Final = frozenset({_SUM, _ELVIS, _LEVELS["=="]})
_SELECTION: Final = _LEVELS["."]
_BEGINS: Final = {"-": _SUM, "?": _ELVIS, "(": _SELECTION, "[": _SELECTION}
_UNARY: Final = _ELVIS - 1
_NOTHING: Final[tuple[int, str, Expr | None]] = (-1, "", None)
_PRIMARIES: Final[dict[str, Callable[[str, _Tokens], Expr]]] = {
    **dict.fromkeys((*_LETTERS, "'"), _word),
    **dict.fromkeys("0123456789-", _number),
    '"': _string, "(": _group, "{": _list, "[": _ad, ".": _absolute,
}  # fmt: skip


def quote(text: str) -> str:
    r"""A string as it is written in an expression, in ASCII; ``unquote`` reads it back.

    Raises ValueError for a NUL and half a surrogate pair, which no string of an ad holds.

    >>> print(quote('say "é"'), unquote(quote('say "é"')))
    "say \"\303\251\"" say "é"
    """
    if not isinstance(text, str):
        raise TypeError(f"text was expected, not {type(text).__name__}")
    if "\0" in text:
        raise ValueError("a string cannot hold the character \\0")
    return "".join(
        char if char.isascii() else "".join(f"\\{byte:03o}" for byte in char.encode())
        for char in between(text, '"')
    )


def unquote(text: str) -> str:
    r"""The string that a text writes in double quotes. Raises ValueError for any other text.

    >>> unquote(r'"a\tb"')
    'a\tb'
    """
    node = parse_expr(text)
    # In parentheses it would be an expression, which has a value of its own.
    if not isinstance(node, Literal) or not isinstance(node.value, str) or text.lstrip()[0] == "(":
        raise ValueError(f"a string in double quotes was expected, not {text[:60]}")
    return node.value
