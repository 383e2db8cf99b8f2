"""What ads hold for the texts of assignments, at the speed of Python's compiled functions.

Both formats of text are cut into assignments, each a name and the text of an expression. Most are
plain values; the rest goes to the fast parser. None means that it does not take a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from json.decoder import JSONDecoder
from json.scanner import make_scanner
from sys import intern
from typing import Any, Final

from matchmaker.classad.ad import ClassAd, is_unusual
from matchmaker.classad.cache import ENTRY, Cache
from matchmaker.classad.climbing import RESERVED
from matchmaker.classad.footprint import NODE
from matchmaker.classad.limits import LIMITS
from matchmaker.classad.nodes import Literal
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.parser import parse_expr, parsed, parsed_ad
from matchmaker.classad.scanner import assignments_of, begins_ad, name_and_value


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
    if name.lower() in RESERVED:
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
    node = parsed_ad(text)
    return ClassAd.from_expression(node) if node is not None else None
