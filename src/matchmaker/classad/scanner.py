"""Text to tokens: the lexical part of the fast parser, by compiled patterns.

What the patterns mean is defined by the terminals of ``classad.lark``; text that they do not cover
ends in an empty token, and the grammar decides. How tokens make a tree is in ``parser``.
"""

from __future__ import annotations

import re
from typing import Final

_SPACE: Final = r"[ \t\r\n\f\v]*+"
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
    rf"({_NAME}(?:\.{_NAME})?+|{_SYMBOL}|{_STRING}|{_NUMBER}|[-.]|{_QUOTED}){_GAP}|.++", re.DOTALL
)
_LEADING: Final = re.compile(_GAP)


def tokens_of(text: str) -> list[str]:
    """The tokens of a text, then an empty one, as also in place of what is no token.

    A minus sign and digits after it are one token, also where the sign subtracts, and so are two
    names with a dot between them.

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

_ASSIGNMENT: Final = re.compile(
    rf"""([^;"'/\[\]]++(?:(?:{_ATOMS}|\[{_INSIDE}\])[^;"'/\[\]]*+)*+)(?:\Z|(?:;{_BETWEEN})++)|.++""",
    re.DOTALL,
)
_OPENING: Final = re.compile(rf"{_BETWEEN}\[{_BETWEEN}((?:;{_BETWEEN})*+)")


def begins_ad(text: str) -> bool:
    """Whether the first token of a text is an ad's bracket."""
    return _OPENING.match(text) is not None


def assignments_of(text: str) -> list[str]:
    """The texts between the semicolons of an ad in brackets.

    Empty ones stand for what is none, and for what cannot be told here.

    >>> assignments_of("[ a = 1; b = [c = ';'] ]"), assignments_of("[ a = ]")
    (['a = 1', "b = [c = ';'] "], ['a = '])
    """
    text = text.rstrip(" \t\r\n\f\v")
    opening = _OPENING.match(text)
    if opening is None or text[-1] != "]":
        return [""]
    start, end = opening.end(), len(text) - 1
    if start >= end:
        return [""] if opening[1] or start > end else []
    return _ASSIGNMENT.findall(text, start, end)


_ASSIGNED: Final = re.compile(rf"{_SPACE}({_NAME}){_SPACE}=")


def name_and_value(assignment: str) -> tuple[str, str]:
    """The name and the text of the expression; empty for what is not assigned to a plain name.

    >>> name_and_value(" a=1 "), name_and_value("'a' = 1")
    (('a', '1'), ('', ''))
    """
    found = _ASSIGNED.match(assignment)
    return (found[1], assignment[found.end() :].strip(" \t\r\n\f\v")) if found else ("", "")
