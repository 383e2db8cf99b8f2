"""Job descriptions as users of gLite and DIRAC write them: ads of the new format, loosely.

The brackets around the ad may be missing, and a ``#`` outside of strings begins a comment. Here
such a text is recognized, and made one of the new format with every line in its place.
"""

from __future__ import annotations

import re
from typing import Final

# What has no end goes up to the end of the text, so that it is looked at once.
_STRINGS: Final = r'"(?:[^"\\]|\\.)*+(?:"|\Z)' + r"|'(?:[^'\\]|\\.)*+(?:'|\Z)"
_COMMENT: Final = re.compile(rf"{_STRINGS}|//[^\n]*|/\*.*?(?:\*/|\Z)|(\#[^\n]*)", re.DOTALL)

_ASSIGNMENT: Final = r"(?:'[^'\n]+'|[A-Za-z_]\w*)\s*=(?![=?!])"
_BEGIN: Final = re.compile(_ASSIGNMENT)
_MAYBE: Final = re.compile(r"(?:'[^'\n]*'?|[A-Za-z_]\w*)\s*=?\Z")
# Names of the old format may hold almost anything, if there is space around the sign.
_NEXT_LINE: Final = re.compile(rf"""[ \t\r]*(?:\n|\#|//|{_ASSIGNMENT}|[^\s='"]++[ \t]+=[ \t])""")
_TOKEN: Final = re.compile(
    r"""(?P<hides>"(?:[^"\\\n]|\\[^\n])*+"|'(?:[^'\\\n]|\\[^\n])*+'|\#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\Z))"""
    r"""|[\[{(]|[\]})]|[;\n"']""",
    re.DOTALL,
)
_FAR: Final = 1 << 14
"""How many characters the first assignment may have."""


def is_bare(text: str, begin: int) -> bool | None:
    r"""Whether an ad without brackets begins there: its first assignment ends with a semicolon.

    In the old format it ends with its line. None where more of the text is needed.

    >>> is_bare('Executable = "/bin/ls"; ', 0), is_bare("a = [ b = 1; c = 2 ]\nd = 3", 0)
    (True, False)
    """
    match = _BEGIN.match(text, begin)
    if match is None:
        return None if _MAYBE.match(text, begin) else False
    depth = 0
    for token in _TOKEN.finditer(text, match.end(), begin + _FAR):
        if token["hides"]:
            continue
        mark = token[0]
        if mark in "[{(":
            depth += 1
        elif mark in "]})":
            depth -= 1
        elif mark in "\"'":
            # Not closed on its line: only the old format has such strings.
            return False if "\n" in text[token.end() :] else None
        elif depth <= 0 and mark == ";":
            return True
        elif depth <= 0 and _NEXT_LINE.match(text, token.end()):
            return False
    return False if len(text) - begin > _FAR else None


def in_brackets(text: str) -> str:
    """A bare text as an ad of the new format, which begins on the line before."""
    return f"[\n{without_comments(text)}\n]"


def without_comments(text: str) -> str:
    """The same text with spaces in place of the comments that begin with ``#``.

    >>> without_comments('a = "#1" # one')
    'a = "#1"      '
    """
    if "#" not in text:
        return text
    return _COMMENT.sub(lambda match: " " * len(match[0]) if match[1] else match[0], text)
