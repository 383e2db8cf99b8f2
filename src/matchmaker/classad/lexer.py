"""Text to tokens, and ads in brackets to assignments: the patterns of the syntax.

What the patterns mean is defined by the terminals of ``classad.lark``; text that they do not cover
ends in an empty token, upon which the grammar decides. How tokens make a tree is in ``parser``.
"""

from __future__ import annotations

import re
from typing import Final

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
    """The tokens of a text, then an empty one, as also in place of what is no token.

    One token are: a minus sign and digits after it, also where the sign subtracts; two names with a
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
    """Cut what stands between the brackets of an ad at its semicolons.

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
