"""Text to tokens: the lexical part of the fast parser, by compiled patterns.

What the patterns mean is defined by the terminals of ``classad.lark``; text that they do not cover
ends in an empty token, and the grammar decides. How tokens make a tree is in ``climbing``.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

SPACES: Final = " \t\r\n\f\v"
SEPARATORS: Final = SPACES + ";"
_SPACE: Final = rf"[{SPACES}]*+"
_LONG_COMMENT: Final = r"/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/"
_GAP: Final = rf"{_SPACE}(?:(?://[^\n]*+|{_LONG_COMMENT}){_SPACE})*+"
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*+(?!\w)"
_STRING: Final = r'"[^"\\\0]*+(?:\\[^\0][^"\\\0]*+)*+"'
_QUOTED: Final = r"'(?:[^'\\\0]++|\\[^\0])++'"
_NUMBER: Final = (
    r"-?(?:[0-9]*+\.[0-9]++(?:[eE][+-]?[0-9]++)?|[0-9]++[eE][+-]?[0-9]++|0|[1-9][0-9]*+)(?![\w.])"
)
_SYMBOL: Final = (
    r"[(){}\[\],;:~^*%+]|/(?![/*])|\|\|?|&&?|=(?:[?!]?=)?|!=?|<[<=]?|>(?:>>?|=)?|\?(?:\s*+:)?"
)

# What comes most often comes first. What no token begins with takes all the rest, so that the time
# stays linear.
_TOKEN: Final = re.compile(
    rf"({_NAME}(?:\.{_NAME})?+|{_SYMBOL}|{_STRING}(?:{_GAP}{_STRING})*+|{_NUMBER}|[-.]|{_QUOTED}){_GAP}|.++",
    re.DOTALL,
)
STRING: Final = re.compile(rf"(?://[^\n]*+|{_LONG_COMMENT})|({_STRING})")
"""Takes the strings of a token, as its group, and the comments between them."""

_LEADING: Final = re.compile(_GAP)


def tokens_of(text: str) -> list[str]:
    """The tokens of a text, then an empty one, as also in place of what is no token.

    A minus sign and digits after it are one token, also where the sign subtracts, and so are two
    names with a dot between them, and strings side by side.

    >>> tokens_of("a.b -5 ? : c // end")
    ['a.b', '-5', '? :', 'c', '']
    >>> tokens_of("a @ b")
    ['a', '', '']
    """
    begin = _LEADING.match(text)
    tokens: list[str] = _TOKEN.findall(text, begin.end() if begin else 0)
    tokens.append("")
    return tokens


# In an ad a comment ends before its last bracket.
_COMMENT: Final = rf"//[^\n]*+\n|{_LONG_COMMENT}"
_BETWEEN: Final = rf"{_SPACE}(?:(?:{_COMMENT}){_SPACE})*+"
_ATOMS: Final = rf"{_STRING}|{_QUOTED}|{_COMMENT}|/(?![/*])"
# What stands between the brackets of an ad, as far as it nests three deep.
_INSIDE = "(?!)"
for _ in range(3):
    _INSIDE = rf"""[^"'/\[\]]*+(?:(?:{_ATOMS}|\[{_INSIDE}\])[^"'/\[\]]*+)*+"""

_OPENING: Final = re.compile(rf"{_BETWEEN}\[{_BETWEEN}((?:;{_BETWEEN})*+)")


def begins_ad(text: str) -> bool:
    """Whether the first token of a text is an ad's bracket."""
    return _OPENING.match(text) is not None


def inside_of(text: str) -> str | None:
    """What stands between the brackets of an ad; None where only the grammar can say.

    >>> inside_of(" [ a = 1; ]"), inside_of("[ ; ]"), inside_of("a = 1")
    ('a = 1; ', None, None)
    """
    text = text.rstrip(SPACES)
    opening = _OPENING.match(text)
    if opening is None or text[-1] != "]":
        return None
    start, end = opening.end(), len(text) - 1
    return None if start > end or (start == end and opening[1]) else text[start:end]


ASSIGNABLE: Final = (
    r"(?:[A-DGHJ-SV-Z_a-dghj-sv-z]|[EFITUefitu](?!(?i:rror|alse|snt|s|rue|ndefined)\b))"
    r"[A-Za-z0-9_]*+"
)
_SMALL_NUMBER: Final = r"-?(?:0|[1-9][0-9]{0,17}+)(?:\.[0-9]{1,40}+)?+(?:[eE][+-]?[0-9]{1,4}+)?+"
# No string among these has a semicolon or an equals sign in it.
_PRINTABLE: Final = r'[ !#-:<>-\[\]-~]*+(?:\\"[ !#-:<>-\[\]-~]*+)*+'
_VALUE: Final = rf'(?:{_SMALL_NUMBER}|"{_PRINTABLE}"|true|false)'
_EQUALS: Final = rf"{_SPACE}=[{SPACES}]*+"
_CLOSED: Final = rf"{_SPACE};"

# As they are mostly spelled, and otherwise.
PLAIN: Final = (
    rf"((?: ?+{ASSIGNABLE} = {_VALUE};|{_SPACE}{ASSIGNABLE}{_EQUALS}{_VALUE}{_CLOSED})*+)"
)
"""A pattern that takes as many assignments as it can of a plain value, which JSON writes alike, to
a name.

This and the patterns below take assignments up to their semicolons: the last one needs one too."""

_BEGUN: Final = rf"{_BETWEEN}(?:;{_BETWEEN})*+({ASSIGNABLE})"
ASSIGNMENT: Final = (
    rf"{_BEGUN}{_EQUALS}"
    rf"""([^;"'/\[\]]*+(?:(?:{_ATOMS}|\[{_INSIDE}\])[^;"'/\[\]]*+)*+){_CLOSED}"""
)
"""A pattern that takes one assignment to a name: its groups are that and the expression's text."""


# --- expressions of the common forms --------------------------------------------------------------

LONGEST: Final = 4000
"""Up to this length, and in two brackets or four parentheses within each other, an expression is
known by a pattern."""

_WORD: Final = rf"(?!(?i:isn?t?)\b)[A-Za-z_]\w*+(?:\.{ASSIGNABLE}){{0,3}}+"
_PLAIN_NUMBER: Final = r"(?:0|[1-9]\d{0,17}+)(?:\.\d{1,18}+)?+(?![\w.])"
_PLAIN_STRING: Final = r'"[^"\\\0]*+(?:\\"[^"\\\0]*+)*+"'
_OPERATOR: Final = r"(?:\|\|?+|&&?+|=[?!]?+=|!=|<[<=]?+|>(?:>>?+|=)?+|[-+*%^]|/(?![/*]))"
_END: Final = r"(?:[)\]},:;?]|\Z)"


def _operations(*operands: str) -> str:
    """Operands, and operators between them, up to what ends an expression."""
    # What comes most often comes first.
    plain = rf"{_WORD}(?!{_SPACE}\()|{_PLAIN_STRING}|{_PLAIN_NUMBER}"
    unit = rf"[-+!~]{{0,2}}+(?:{'|'.join((plain, *operands))})"
    next_ = rf"{_OPERATOR}{_SPACE}(?!{_END})|(?={_END})"
    return rf"{_SPACE}(?:{unit}{_SPACE}(?:{next_}))++"


def _listed(item: str) -> str:
    return rf"{_SPACE}(?:{item}(?:,(?!{_SPACE}[)}}])|(?=[)}}])))*+"


def _called(argument: str) -> str:
    return rf"{ASSIGNABLE}{_SPACE}\({_listed(argument)}\)"


@cache
def common() -> re.Pattern[str]:
    """Takes an assignment and what PLAIN takes behind it, if its form is certain to be one.

    Its groups are the name, what stands in a string that knows no escape but that of a quote, the
    text of another expression, and what PLAIN takes. Without a name it takes an expression.
    """
    plain = _operations()
    chosen = rf"\?{plain}:{plain}"
    items = rf"\{{{_listed(plain)}\}}"
    value = _operations(items)
    ad = rf"\[{_SPACE}(?:{ASSIGNABLE}{_SPACE}={value}(?:(?:;{_SPACE})++|(?=\])))*+\]"
    group = rf"\({plain}(?:{chosen})?+\)"
    once = _operations(_called(plain), group, items, ad)
    lists = rf"\{{{_listed(_operations(items, ad))}\}}"
    groups = rf"\({once}\)"
    for _ in range(2):
        groups = rf"\({_operations(_called(plain), group, groups)}\)"
    twice = _operations(_called(once), group, groups, lists, ad)
    begun = rf"(?:{_BEGUN}{_SPACE}=(?![=?!]){_SPACE})?+"
    string = r'"((?:[^"\\\n\0]++|\\")*+)"'
    value = rf"(?:{string}{_CLOSED}|({twice}(?:{chosen})?+){_CLOSED})"
    return re.compile(begun + value + PLAIN, re.ASCII)


def is_common(text: str) -> bool:
    """Whether a text is an expression for certain: most are known so without being read.

    >>> is_common("TARGET.Memory >= 2 * (a + 1) && f(b)"), is_common("((((((1))))))")
    (True, False)
    >>> is_common("a = 1"), is_common("a; b = 1")
    (False, False)
    """
    found = common().fullmatch(text + ";") if len(text) <= LONGEST else None
    return found is not None and found[1] is None and not found[4]
