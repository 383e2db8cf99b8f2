"""From Lark to nodes: the parser made from ``grammars/classad.lark``, and its errors in words.

Loading Lark takes its time, so that this module is imported when the first text comes that
``parser``, the way in, does not take.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Any, Final

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedInput, UnexpectedToken

from matchmaker._data import data_text
from matchmaker.classad import nodes
from matchmaker.classad.errors import ParseError, shorten
from matchmaker.classad.nodes import FALSE, NAMED, TRUE, Attr, Expr, Literal, ad_expression, call
from matchmaker.classad.printer import unescape
from matchmaker.classad.values import ERROR, MAX_INT, MIN_INT, UNDEFINED

_OPERANDS: Final = frozenset(
    {"INTEGER", "REAL", "STRING", "TRUE", "FALSE", "UNDEFINED", "ERROR", "NAME", "QUOTED",
     "LPAR", "LBRACE", "LSQB", "PLUS", "MINUS", "NOT", "INVERT", "DOT"}
)  # fmt: skip
_OPERATORS: Final = frozenset(
    {"OR", "AND", "BIT_OR", "BIT_XOR", "BIT_AND", "EQUALITY", "RELATION", "SHIFT", "PLUS", "MINUS",
     "MULTIPLY", "ELVIS", "QMARK", "DOT", "LSQB", "LPAR"}
)  # fmt: skip
_WORDS: Final = {
    "RPAR": "')'", "RBRACE": "'}'", "RSQB": "']'", "COMMA": "','", "COLON": "':'",
    "SEMICOLON": "';'", "EQUAL": "'='", "LSQB": "'['", "$END": "the end",
}  # fmt: skip
_MOST_EXPECTED: Final = 4
_OPENED: Final = {"RPAR": "(", "RBRACE": "{", "RSQB": "["}
_BRACKETS: Final = {")": "(", "}": "{", "]": "["}
_UNCLOSED: Final = re.compile(r'"(?:[^"\\]++|\\.)*+\Z', re.DOTALL)
_LINE: Final = 500
_COMMENT_AT_END: Final = re.compile(
    r"""(?:\A|\n)(?:[^"'/\n]|"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+'|/(?!/))*+//[^\n]*+\s*\Z"""
)

_NEAR: Final = 40
"""How many characters before and after an error a hint may depend on."""


def parse(text: str, start: str) -> Any:
    """Parse a text by the rule `start`. Raises ParseError with its place."""
    text = without_mark(text)
    try:
        return lark(NODES).parse(text, start=start)
    except UnexpectedInput as error:
        wrong = _explained(error, text, start)
    # Raised here, it holds nothing of Lark's, which cannot be sent to another process.
    raise wrong


def without_mark(text: str) -> str:
    """Replace a byte order mark by a space, so that columns stay."""
    return " " + text[1:] if text.startswith("\ufeff") else text


@cache
def lark(made: Transformer[Token, Any] | None = None) -> Lark:
    """Make the parser: of nodes by the transformer `made`, or of a tree with positions."""
    return Lark(
        data_text("grammars", "classad.lark"),
        parser="lalr",
        lexer="contextual",
        start=["expression", "ad"],
        maybe_placeholders=False,
        propagate_positions=made is None,
        transformer=made,
    )


def _unescaped(token: Token) -> str:
    try:
        return unescape(token[1:-1])
    except ValueError as error:
        raise _at(token, str(error)) from None


def _at(token: Token, message: str, hint: str = "") -> ParseError:
    return ParseError(message, line=token.line or 0, column=token.column or 0, hint=hint)


@v_args(inline=True)
class _Nodes(Transformer[Token, Any]):
    """Called by the parser as it reduces each rule, so that no tree of Lark's is ever built."""

    def integer(self, token: Token) -> Expr:
        # Over 20 digits cannot fit; int() on millions of them would take its time.
        number = int(token) if len(token) <= 20 else MAX_INT + 1
        if not MIN_INT <= number <= MAX_INT:
            raise _at(token, f"{token[:40]} does not fit 64 bits", "write it as a real")
        return Literal(number)

    def real(self, token: Token) -> Expr:
        return Literal(float(token))

    def string(self, *tokens: Token) -> Expr:
        return Literal("".join(_unescaped(token) for token in tokens))

    def true(self, _: Token) -> Expr:
        return TRUE

    def false(self, _: Token) -> Expr:
        return FALSE

    def undefined(self, _: Token) -> Expr:
        return Literal(UNDEFINED)

    def error(self, _: Token) -> Expr:
        return Literal(ERROR)

    def name(self, token: Token) -> str:
        return str(token)

    def quoted_name(self, token: Token) -> str:
        return _unescaped(token)

    def attribute(self, name: str) -> Expr:
        return Attr(None, name, False)

    def absolute(self, name: str) -> Expr:
        return Attr(None, name, True)

    def select(self, base: Expr, name: str) -> Expr:
        return Attr(base, name, False)

    def subscript(self, base: Expr, index: Expr) -> Expr:
        return nodes.Subscript(base, index)

    def call(self, function: str, *arguments: Expr) -> Expr:
        return call(function, arguments)

    def list(self, *items: Expr) -> Expr:
        return nodes.ListExpr(items)

    def assignment(self, name: str, expression: Expr) -> tuple[str, Expr]:
        return name, expression

    def ad(self, *assignments: tuple[str, Expr]) -> Expr:
        return ad_expression(assignments)

    def unary(self, operator: Token, operand: Expr) -> Expr:
        return nodes.Unary(str(operator), operand)

    def binary(self, left: Expr, operator: Token, right: Expr) -> Expr:
        symbol = operator.lower()
        return nodes.Binary("?:" if symbol[0] == "?" else NAMED.get(symbol, symbol), left, right)

    def ternary(self, condition: Expr, then: Expr, otherwise: Expr) -> Expr:
        return nodes.Ternary(condition, then, otherwise)


def _explained(error: UnexpectedInput, text: str, start: str) -> ParseError:
    """Word Lark's report: found, expected, hint."""
    line, column = error.line, error.column
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        line = text.count("\n") + 1
        column = len(text) - text.rfind("\n")
        found, rest = "the text ends too early", ""
        names = set(error.accepts)
    else:
        rest = text[error.pos_in_stream :]
        if isinstance(error, UnexpectedToken):
            found = f"unexpected {_shown(str(error.token))}"
            names = set(error.accepts) or _accepted(text[: error.pos_in_stream], start)
        else:
            word = re.match(r"\w+|.", rest, re.DOTALL)
            found = f"unexpected {_shown(word[0] if word else rest[:1])}"
            names = _accepted(text[: error.pos_in_stream], start)
    before = text[: (error.pos_in_stream)] if rest else text
    return ParseError(
        found,
        text=text,
        line=line,
        column=column,
        expected=_expected(names),
        hint=_hint(rest, before, names),
    )


def _accepted(before: str, start: str) -> set[str]:
    """The terminals that may come next; the lexer knows only which ones may come in such places."""
    parser: Any = lark(NODES).parse_interactive(before, start=start)
    try:
        parser.exhaust_lexer()
    except UnexpectedInput:
        # What stands before is read by what follows it: `1.5.` begins `1.5.x`.
        return set()
    return set(parser.accepts())


def _shown(token: str) -> str:
    """A token for a message; a character that people may not know or see has its name."""
    if len(token) == 1 and not token.isascii() and not token.isalnum():
        mark = f"{token!r}, " if token.isprintable() else ""
        return f"{mark}{unicodedata.name(token, 'a character')} (U+{ord(token):04X})"
    return repr(shorten(token, 30))


def _expected(names: set[str]) -> tuple[str, ...]:
    words: list[str] = []
    if {"INTEGER", "STRING"} <= names:
        words.append("a value")
        names = names - _OPERANDS
    elif {"OR", "AND"} <= names:
        words.append("an operator")
        names = names - _OPERATORS - {"STRING"}
    if "NAME" in names:
        words.append("an attribute name")
    words += [word for name, word in _WORDS.items() if name in names]
    return tuple(words[:_MOST_EXPECTED])


def _hint(rest: str, before: str, names: set[str]) -> str:
    own = _BRACKETS.get(rest[:1], "")
    is_open = bool(own) and before.count(own) > before.count(rest[0])
    if own and not is_open:
        return f"there is no '{own}' for it"
    if _UNCLOSED.match(rest):
        return "this string is not closed"
    around = f"{before[-_NEAR:]}\0{rest[:_NEAR]}"
    if "SEMICOLON" in names and "NAME" not in names and re.match(r"\w+\s*=(?![=?!])", rest):
        return "a ; is missing before it"
    for pattern, operand, hint in _HINTS:
        here = operand is None or operand == ("INTEGER" in names)
        if here and re.search(pattern, around, re.IGNORECASE | re.DOTALL):
            return hint
    if not rest and _COMMENT_AT_END.search(before[-_LINE:]):
        return "// begins a comment, up to the end of the line"
    opened = next((mark for name, mark in _OPENED.items() if name in names), "")
    return f"a '{opened}' is still open" if opened and (is_open or not rest) else ""


# What stands around the error, which is at \0; whether a value was expected there (None: either);
# the hint.
_HINTS: Final[tuple[tuple[str, bool | None, str], ...]] = (
    (r"\0'", None, "this quoted name is not closed, or is empty; text takes double quotes"),
    (r"\0/\*", None, "this comment is not closed"),
    (r"\0[\u2018-\u201f\u00ab\u00bb\u2039\u203a\uff02]", None, 'text takes plain quotes: "text"'),
    (r"\0[\u00a0\u2000-\u200d\u202f\u2060\u3000\ufeff]", None, "put a plain space"),
    (r"\0\$\$?\(", None, "macros are for submit files; here write an attribute or its value"),
    (r"-\0>", True, "select with a dot, as in job.Cpus"),
    (r"==\0=", True, "use ==, or =?= where type and case count"),
    (r"!=\0=", True, "use !=, or =!= where type and case count"),
    (r"\*\0\*", True, "use pow(base, exponent)"),
    (r"\?\0\?", True, "use ?:"),
    (r"\0in\b", False, "use member(value, list)"),
    (r"\0not\s+in\b", False, "use !member(value, list)"),
    (r"\0(contains|has)\b", False, "use member(value, list), or regexp(pattern, text)"),
    (r"\0(like|matches|[~!]~|~=)", False, "use regexp(pattern, text)"),
    (r'"\0\w[^"\n]*"', False, r'a quote in a string is written \"'),
    (r"\0\w*[^\W\x00-\x7f]", None, "quote a name with letters beyond A to Z: 'name'"),
    (r"\0=>", False, "use >="),
    (r"\0=<", False, "use <="),
    (r"\0=~", False, "use regexp(pattern, text)"),
    (r"<\0>", True, "use !="),
    (r"\0=(?![=?!])", False, "use == to compare"),
    (r"\0(isnot|is_not|isn't)\b", False, "use =!="),
    (r"\bis\s+not\s*\0", False, "use =!="),
    (r"(?<![\w.])not\s+\0|\0not\b", None, "use !"),
    (r"\0and\b", False, "use &&"),
    (r"\0or\b", False, "use ||"),
    (r"\d\s*\0[kmgtp]i?b?\b|\0-?[\d.]+[kmgtp]i?b?\b", None,
     "numbers have no units: Memory is in MB, Disk in kB"),
    (r"\0-?\d+\.(?!\d)", True, "a real needs a digit after the dot"),
    (r"\0-?[\d.]+(_\d+)+\b|\d\0,\d{3}\b", None, "write the digits of a number together"),
    (r"\0-?[\d.]+e[-+]?(?!\d)", True, "an exponent needs digits, as in 1e3"),
    (r"(?:[.;]|\[\s*)\s*\0\d", None, "quote a name that begins with a digit: '1a'"),
    (r"\0-?0x[0-9a-f]+|\0-?0\d", True, "integers are decimal, without leading zeros"),
    (r"\0-?\d+[a-z_]", True, "a name cannot begin with a digit"),
    (r"\0,\s*\w+\s*=(?![=?!])", False, "separate assignments with ;"),
    (r'[\[;]\s*\0"', False, "a name takes no double quotes"),
    (r"\0\+\s*\w+\s*=(?![=?!])", False, "in an ad a name has no + before it"),
    (r"\b(my|target|other)\s*\0,", False, "select with a dot, as in TARGET.x"),
    (r"\0;\s*\Z", False, "no ; at the end of an expression"),
    (r"\0[}\])]", True, "something is missing before it"),
    (r"\0(true|false|undefined|error|is|isnt)\b", None,
     "this word is reserved; quote it as 'word'"),
    (r"\0(&(?!&)|\|(?!\|))", True, "a value is missing before it"),
    (r"\?:\s*\0", True, "put the right side of ?: in parentheses"),
)  # fmt: skip


NODES: Final = _Nodes()
"""Makes nodes of what the grammar reads."""
