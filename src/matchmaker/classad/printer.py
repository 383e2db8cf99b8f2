"""Expressions and ads as text that reads back equal: quotes, escapes, parentheses.

The escapes are C's, with octal numbers for other control characters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from matchmaker.classad.errors import shorten
from matchmaker.classad.nodes import (
    NAMED,
    PRECEDENCE,
    AdExpr,
    Attr,
    Binary,
    Call,
    Expr,
    ListExpr,
    Literal,
    Subscript,
    Ternary,
    Unary,
)
from matchmaker.classad.values import Value, is_error

RESERVED: Final = frozenset({"true", "false", "undefined", "error", "is", "isnt"})
"""The words that are no names, in small letters."""

_SPECIAL: Final = re.compile(r"[\x00-\x1f\x7f\\\"']")
_WRITTEN: Final = {
    "\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v", "\f": "\\f", "\r": "\\r",
    "\\": "\\\\",
}  # fmt: skip
_ESCAPE: Final = re.compile(
    r"(?:\\[23][0-7]{2})++|\\([0-3][0-7]{0,2}|[4-7][0-7]?|[^0-7])", re.DOTALL
)
_ESCAPES: Final = {"a": "\a", "b": "\b", "v": "\v", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


def unparse_name(name: str) -> str:
    r"""An attribute name as it is written: in single quotes if it is not a plain word.

    >>> unparse_name("Cpus"), unparse_name("true"), unparse_name("it's")
    ('Cpus', "'true'", "'it\\'s'")
    """
    plain = name.isidentifier() and name.isascii() and name.lower() not in RESERVED
    return name if plain else quote(name, "'")


def quote(text: str, mark: str) -> str:
    """Text between two quotation marks, escaped so that it reads back equal."""

    def escaped(match: re.Match[str]) -> str:
        char = match[0]
        if char in "\"'":
            return "\\" + char if char == mark else char
        return _WRITTEN.get(char) or f"\\{ord(char):03o}"

    if text.isprintable() and "\\" not in text and mark not in text:
        return mark + text + mark
    return mark + _SPECIAL.sub(escaped, text) + mark


def unescape(body: str) -> str:
    r"""Read back the text between the quotes of a string.

    An unknown escape stands for its character. Octal numbers above 127 are bytes of UTF-8, as
    HTCondor writes them, and characters if they are not UTF-8. Raises ValueError for a NUL, which
    no string holds.

    >>> unescape(r"a\tb\101\q caf\303\251 \351")
    'a\tbAq café é'
    """
    plain = body.replace('\\"', '"')
    return _ESCAPE.sub(_character, body) if "\\" in plain else plain


def _character(match: re.Match[str]) -> str:
    escape = match[1]
    if escape is None:
        codes = bytes(int(code, 8) for code in match[0][1:].split("\\"))
        try:
            return codes.decode()
        except UnicodeDecodeError:
            return codes.decode("latin-1")
    if escape[0] in "01234567":
        code = int(escape, 8)
        if code == 0:
            raise ValueError("a string cannot hold the character \\0")
        return chr(code)
    return _ESCAPES.get(escape, escape)


_LEVEL: Final = {
    operator: level for level, operators in enumerate(PRECEDENCE, 1) for operator in operators
} | {"?:": 12}
_TERNARY, _OR, _SUM, _UNARY, _POSTFIX, _PRIMARY = 0, 1, 9, 11, 13, 14
_MIXED: Final = range(3, _SUM)
_COMPARISONS: Final = (6, 7)
_SYMBOLS: Final = {word: symbol for symbol, word in NAMED.items()}

# A piece of output still to be made: text, or a node and the loosest level it may have unbracketed.
_Piece: TypeAlias = "str | tuple[Expr, int]"


def unparse(root: Expr, most: int | None = None) -> str:
    """The text of an expression, or as much of it as a part of `most` characters needs.

    >>> from matchmaker import parse_expr
    >>> unparse(parse_expr("((a+b))*-c =?= {1,'x y'}[0] ? [z=1;] : .5"))
    "(a + b) * -c =?= {1, 'x y'}[0] ? [ z = 1 ] : 0.5"
    >>> unparse(parse_expr("WantGPU == TotalGPUs > 0")), unparse(parse_expr("a & b & c << 2"))
    ('WantGPU == (TotalGPUs > 0)', 'a & b & (c << 2)')
    """
    written: list[str] = []
    length = 0
    pending: list[_Piece] = [(root, _TERNARY)]
    while pending and (most is None or length <= most):
        piece = pending.pop()
        if isinstance(piece, str):
            written.append(piece)
            length += len(piece)
            continue
        node, loosest = piece
        pieces = _PIECES[type(node)](node)
        if _level(node) < loosest:
            pieces = ["(", *pieces, ")"]
        pending.extend(reversed(pieces))
    return "".join(written)


def unparse_held(held: Any, text_of: Callable[[Expr], str] = unparse) -> str:
    """Print an attribute's plain value or expression."""
    kind = held.__class__
    if kind is int:
        return str(held)
    if kind is str and held.isprintable() and '"' not in held and "\\" not in held:
        return f'"{held}"'
    return text_of(held) if isinstance(held, Expr) else unparse_value(held)


def unparse_ad(
    names: Iterable[str], held: Iterable[Any], text_of: Callable[[Expr], str] = unparse
) -> str:
    r"""Print an ad with these names, and the values or expressions of each.

    >>> unparse_ad(["a", "is"], [1, "x"])
    '[ a = 1; \'is\' = "x" ]'
    """
    pairs = zip(names, held, strict=True)
    parts = [f"{unparse_name(name)} = {unparse_held(each, text_of)}" for name, each in pairs]
    return f"[ {'; '.join(parts)} ]" if parts else "[ ]"


def brief(node: Expr, most: int = 160) -> str:
    """The text of an expression for a message, with an ellipsis if it is longer than `most`.

    >>> from matchmaker import parse_expr
    >>> brief(parse_expr("TARGET.Memory > 100 && TARGET.Cpus > 1"), 22)
    'TARGET.Memory > 100...'
    """
    return shorten(unparse(node, most), most)


def symbol_of(operator: str) -> str:
    """Return an operator as it is printed: ``=?=`` for ``is``."""
    return _SYMBOLS.get(operator, operator)


def _level(node: Expr) -> int:
    if isinstance(node, Binary):
        # HTCondor 23 reads ?: as loosely as a ternary, 25 as tightly as a selection: in brackets it
        # is the same to both.
        return _TERNARY if node.operator == "?:" else _LEVEL[node.operator]
    if isinstance(node, Ternary):
        return _TERNARY
    if isinstance(node, Unary):
        return _UNARY
    if isinstance(node, (Attr, Subscript)):
        return _POSTFIX
    return _PRIMARY


def _attribute(node: Attr) -> list[_Piece]:
    name = unparse_name(node.name)
    if node.base is None:
        return ["." + name] if node.absolute else [name]
    if isinstance(node.base, Literal) and isinstance(node.base.value, (int, float)):
        return ["(", (node.base, _TERNARY), ").", name]
    return [(node.base, _POSTFIX), ".", name]


def _unary(node: Unary) -> list[_Piece]:
    if node.operator == "-" and _begins_with_digit(node.operand):
        return ["-(", (node.operand, _TERNARY), ")"]
    return [node.operator, (node.operand, _UNARY)]


def _begins_with_digit(node: Expr) -> bool:
    """Whether a minus sign set before the node would become part of its first number."""
    while isinstance(node, (Attr, Binary, Subscript)):
        inner = node.left if isinstance(node, Binary) else node.base
        if inner is None or (isinstance(node, Attr) and isinstance(inner, Literal)):
            return False
        node = inner
    return isinstance(node, Literal) and unparse_value(node.value)[0].isdigit()


def _binary(node: Binary) -> list[_Piece]:
    level = _LEVEL[node.operator]
    if node.operator == "?:" and isinstance(node.left, Binary) and node.left.operator == "?:":
        # A chain is one value, however it is bracketed.
        return [(node.left, _TERNARY), " ?: ", (node.right, level + 1)]
    symbol = f" {symbol_of(node.operator)} "
    if level not in _MIXED:
        return [(node.left, level), symbol, (node.right, level + 1)]
    left = node.left
    chain = isinstance(left, Binary) and left.operator == node.operator
    loosest = level if chain and level not in _COMPARISONS else _SUM
    return [(left, loosest), symbol, (node.right, _SUM)]


def _ternary(node: Ternary) -> list[_Piece]:
    return [
        (node.condition, _OR), " ? ", (node.then, _TERNARY), " : ", (node.otherwise, _TERNARY),
    ]  # fmt: skip


def _separated(items: tuple[Expr, ...]) -> list[_Piece]:
    pieces: list[_Piece] = []
    for item in items:
        pieces += (", ", (item, _TERNARY))
    return pieces[1:]


def _ad(node: AdExpr) -> list[_Piece]:
    if not node.names:
        return ["[ ]"]
    pieces: list[_Piece] = ["[ "]
    for name, expression in zip(node.names, node.expressions, strict=True):
        pieces += (unparse_name(name), " = ", (expression, _TERNARY), "; ")
    return [*pieces[:-1], " ]"]


_PIECES: Final[Mapping[type, Callable[[Any], list[_Piece]]]] = {
    Literal: lambda n: [unparse_value(n.value)],
    Attr: _attribute,
    Unary: _unary,
    Binary: _binary,
    Ternary: _ternary,
    Call: lambda n: [unparse_name(n.function), "(", *_separated(n.arguments), ")"],
    Subscript: lambda n: [(n.base, _POSTFIX), "[", (n.index, _TERNARY), "]"],
    ListExpr: lambda n: ["{", *_separated(n.items), "}"],
    AdExpr: _ad,
}


def unparse_value(value: Value) -> str:
    r"""A plain value as it is written; reals with the fewest digits that read back equal.

    >>> unparse_value('say "hi"'), unparse_value(0.1), unparse_value(float("-inf"))
    ('"say \\"hi\\""', '0.1', 'real("-INF")')
    >>> unparse_value(["a", True, 1])
    '{"a", true, 1}'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isfinite(value):
            return repr(value)
        return 'real("NaN")' if math.isnan(value) else f'real("{"-" if value < 0 else ""}INF")'
    if isinstance(value, str):
        return quote(value, '"')
    if isinstance(value, (datetime, timedelta)):
        from matchmaker.classad.values import format_time

        return format_time(value)
    if isinstance(value, list):
        return f"{{{', '.join(map(unparse_value, value))}}}"
    if is_error(value):
        return "error"
    return str(value).lower()
