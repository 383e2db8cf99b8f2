r"""Patterns in PCRE's syntax: in the syntax of the package `regex`, and how large they are.

``translated`` rewrites what the two read differently: ``\Z``, ``\z``, ``\Q…\E``, ``\h``, ``\R``,
and braces that PCRE takes literally. Matching, and its bounds, are in ``functions.patterns``.
"""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"""
    \\Q(?P<quoted>.*?)(?:\\E|\Z)
    | \\E (?P<end>)
    | \\x\{(?P<code>[0-9a-fA-F]{1,6})\}
    | \\c(?P<control>[\x20-\x7e])
    | \\(?P<property>[pP]\{[^}]*\})
    | \\(?:g\{?(?P<group>\d{1,2})\}?|k(?:\{(?P<name>\w+)\}|<(?P<other_name>\w+)>))
    | \\(?P<escape>.)
    | \{(?!\d+(?:,\d*)?\}) (?P<brace>)
    | (?P<class>\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*\])
    | (?P<other>.)
    """,
    re.DOTALL | re.VERBOSE,
)

_ESCAPES: Final = {
    "Z": r"(?=\n?\Z)",
    "z": r"\Z",
    "h": r"[ \t]",
    "H": r"[^ \t]",
    "R": r"(?>\r\n|[\n\v\f\r])",
    "N": r"[^\n]",
    "e": r"\x1b",
    "v": r"[\n\v\f\r]",
    "V": r"[^\n\v\f\r]",
}
# Escapes that mean something to one of the two but not to PCRE: a mistake there, and so here.
_UNKNOWN: Final = frozenset("CFIJLMOTUYijlmoquy")

_NAMED: Final = re.compile(r"\[:\^?(\w+):\]")
_NAMES: Final = frozenset({
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
})  # fmt: skip
"""The classes of characters that have names, in lower case alone; `regex` minds no case."""


_UNIT: Final = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?P<least>\d+)(?:,\d*)?\}|.", re.DOTALL
)


def expanded(pattern: str) -> int:
    """About how many units a pattern has once its least repetitions are written out.

    That is what `regex` does with them, so that a few nested ones would fill the memory.

    >>> expanded("a+b"), expanded("(ab){3}"), expanded("((a{100}){100}){100}")
    (3, 9, 1010100)
    """
    sizes, last = [0], 0
    for unit in _UNIT.finditer(pattern):
        if unit["least"] is not None:
            # Far past the bound it need not be exact, only small enough to calculate with.
            more = min(last * max(0, int(unit["least"][:9]) - 1), 10**9)
            sizes[-1] += more
            last += more
        elif unit[0] == "(":
            sizes.append(1)
        elif unit[0] == ")" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
        else:
            last = 1
            sizes[-1] += 1
    return sum(sizes)


def nesting(pattern: str) -> int:
    """How deep the groups of a pattern stand in each other.

    >>> nesting("a+b"), nesting("(a(b)c)(d)")
    (0, 2)
    """
    depth = deepest = 0
    for unit in _UNIT.finditer(pattern):
        depth += (unit[0] == "(") - (unit[0] == ")")
        deepest = max(deepest, depth)
    return deepest


def translated(pattern: str) -> str:
    r"""A pattern of PCRE's in the syntax of `regex`. ValueError on what has no meaning.

    >>> translated(r"a{x}\z"), translated(r"\Qa.b\E")
    ('a\\{x}\\Z', 'a\\.b')
    """
    return _TOKEN.sub(_translated_token, pattern.removeprefix("(*UTF8)").removeprefix("(*UTF)"))


def _translated_token(match: re.Match[str]) -> str:
    quoted, escape = match["quoted"], match["escape"]
    if quoted is not None:
        return re.escape(quoted)
    if match["code"] is not None:
        return re.escape(chr(int(match["code"], 16)))
    if match["control"] is not None:
        return re.escape(chr(ord(match["control"].upper()) ^ 64))
    if match["property"] is not None:
        return "\\" + match["property"]
    group = match["group"] or match["name"] or match["other_name"]
    if group is not None:
        return f"\\g<{group}>"
    if escape is not None:
        if escape in _UNKNOWN:
            raise ValueError(f"\\{escape} has no meaning in a pattern")
        return _ESCAPES.get(escape, "\\" + escape)
    if match["brace"] is not None:
        return r"\{"
    if match["class"] is not None:
        for named in _NAMED.findall(match["class"]):
            if named not in _NAMES:
                raise ValueError(f"[:{named}:] is no class of characters")
        # `regex` would take a further [ for the beginning of a set inside the set.
        return re.sub(r"(?<!\\)(?!^)\[(?!:)", r"\\[", match["class"])
    return match["other"] or ""
