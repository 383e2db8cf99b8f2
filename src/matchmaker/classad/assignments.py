"""What ads hold for the texts of assignments, at the speed of Python's compiled functions.

Both formats of text are cut into assignments, each a name and the text of an expression. Most are
plain values, which JSON writes alike: Python's compiled reader of JSON takes those of an ad in one
call. The rest goes to the fast parser. None means that it does not take a text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from json.decoder import JSONDecoder
from json.scanner import make_scanner
from sys import intern
from typing import Any, Final

from matchmaker.classad.ad import ClassAd, is_unusual
from matchmaker.classad.cache import Cache
from matchmaker.classad.deferred import Deferred
from matchmaker.classad.footprint import size_of_text
from matchmaker.classad.limits import LIMITS
from matchmaker.classad.nodes import Literal
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.parser import deferred, parse_expr, parsed_ad
from matchmaker.classad.scanner import SEPARATORS, cuts_of, inside_of, name_and_value
from matchmaker.classad.values import MAX_INT, MIN_INT


def _refused(_: str) -> None:
    """Refuses what only JSON calls a number."""
    raise ValueError


_scan: Final = make_scanner(JSONDecoder(parse_constant=_refused))  # type: ignore[arg-type]
_PLAIN: Final = frozenset(' "0123456789')
"""What plain values begin with, besides two words and negative numbers."""

_WORDS: Final = frozenset({"true", "false"})


def value_of(text: str) -> Any:
    """What an ad holds for the text of an expression, perhaps deferred; None as above.

    >>> value_of("undefined"), value_of("a+1"), value_of("a+")
    (UNDEFINED, Expr('a + 1'), None)
    """
    node = deferred(text)
    return node.value if type(node) is Literal else node


def parse_value(text: str) -> Any:
    """The same by the grammar where it must be, and never deferred. Raises ParseError.

    >>> parse_value("a + 1"), parse_value("true")
    (Expr('a + 1'), True)
    """
    node = parse_expr(text)
    return node.value if type(node) is Literal else node


_names: Final[Cache[str, str]] = Cache("names as ads spell them", 1 << 22)
"""The folded names of those that are spelled as they were first, with what stands around them."""


def _usual(name: str, key: str) -> str:
    """The folded form of a name that is spelled as it was first, kept under a key; else empty."""
    spelled, more = name_and_value(f"{name}=")
    folded = intern(ascii_fold(spelled))
    usual = spelled and not more and not is_unusual(folded, spelled)
    return _names.put(key, folded) if usual else ""


_assignments: Final[Cache[str, tuple[str, Any]]] = Cache("assignments by text", 1 << 24)
"""Folded names and what ads hold: most counters are idle, and policies are those of the pool.

Texts with backslashes are read by each format in its own way.
"""

_SHORT: Final = 6
"""Longer plain values are not kept, nor longer assignments with an expression: few come again."""

_LONG: Final = 100


def ad_of(assignments: Sequence[str], convert: Callable[[str], Any] = value_of) -> ClassAd | None:
    """The ad of assignments, None where one of them is not taken, or where a name comes twice.

    `convert` reads expressions.

    >>> print(ad_of(["a = 1", "b=a+1"]))
    [ a = 1; b = a + 1 ]
    """
    equals = " = " if assignments and " = " in assignments[0] else "="
    known = _assignments.get
    held: dict[str, Any] = {}
    unusual: dict[str, str] = {}
    names: list[str] = []
    texts: list[str] = []
    new: list[str] = []
    for assignment in assignments:
        found = known(assignment)
        if found is not None:
            held[found[0]] = found[1]
            continue
        name, _, text = assignment.partition(equals)
        folded = _names[name] or _usual(name, name)
        if not folded:
            spelled, text = name_and_value(assignment)
            if not spelled:
                return None
            folded = intern(ascii_fold(spelled))
            if is_unusual(folded, spelled):
                unusual[folded] = spelled
        held[folded] = None
        names.append(folded)
        texts.append(text)
        new.append(assignment)
    odd = [at for at, text in enumerate(texts) if text[:1] not in _PLAIN and text not in _WORDS]
    values = _values(texts, odd, convert)
    if values is None or len(held) < len(assignments):
        return None
    held.update(zip(names, values, strict=True))
    if not unusual:
        # Of an ad most of which is known, other plain values hardly come again.
        known_less = 2 * len(names) > len(assignments)
        for at in range(len(names)) if known_less else odd:
            if len(texts[at]) < _SHORT and len(new[at]) < _LONG:
                _learn(new[at], names[at], values[at])
    deferred = Deferred in map(type, values)
    return ClassAd.of(held, unusual or None, deferred=deferred)


def _learn(assignment: str, name: str, value: Any) -> None:
    """Keeps an assignment that may well come again."""
    if type(value) is not Deferred and "\\" not in assignment:
        plain = isinstance(value, (int, float, str))
        size = 4 * len(assignment) if plain else size_of_text(assignment)
        _assignments.put(assignment, (name, value), size)


def _values(texts: list[str], odd: list[int], convert: Callable[[str], Any]) -> list[Any] | None:
    """What an ad holds for texts, of which the `odd` are no plain values: 0 takes their places."""
    expressions = []
    for at in odd:
        text = texts[at]
        number = _plain([text]) if text[:1] == "-" and text[1:2].isdigit() else None
        expression = number[0] if number else convert(text)
        if expression is None:
            return None
        expressions.append(expression)
        texts[at] = "0"
    values = _mostly_plain(texts, convert)
    if values is not None:
        for at, expression in zip(odd, expressions, strict=True):
            values[at] = expression
    return values


def _mostly_plain(texts: list[str], convert: Callable[[str], Any]) -> list[Any] | None:
    """The same for texts that begin like plain values."""
    values = _plain(texts)
    if values is not None:
        return values
    if len(texts) == 1:
        value = convert(texts[0])
        return None if value is None else [value.held if type(value) is Deferred else value]
    half = len(texts) // 2
    first = _mostly_plain(texts[:half], convert)
    rest = None if first is None else _mostly_plain(texts[half:], convert)
    return None if first is None or rest is None else first + rest


def _plain(texts: list[str]) -> list[Any] | None:
    """The values of texts if all are plain, and JSON and this language read them alike.

    No string of JSON goes over the end of a line, and so no value over its own: what stands between
    commas or brackets in one of them is seen by the number or by the kinds of values.
    """
    joined = ",\n".join(texts)
    try:
        values, end = _scan(f"[{joined}]", 0)
        wide = [
            each for each in values if each.__class__ is not str and not MIN_INT <= each <= MAX_INT
        ]
    except (StopIteration, ValueError, TypeError, RecursionError):
        return None
    escaped = "\\" in joined and "\\" in joined.replace('\\"', "")
    whole = end == len(joined) + 2 and len(values) == len(texts)
    return values if whole and not wide and not escaped else None


def ad_in(text: str) -> ClassAd | None:
    """The ad of a text in brackets, None if the fast parser does not take it."""
    if len(text) > LIMITS.text:
        return None
    inside = inside_of(text)
    if inside is not None:
        ad = _small_ad(inside) if len(inside) < _SMALL else None
        if ad is not None:
            return ad
        for assignments in cuts_of(inside):
            ad = ad_of(assignments)
            if ad is not None:
                return ad
    node = parsed_ad(text)
    return ClassAd.from_expression(node) if node is not None else None


_SMALL: Final = 2000


def _small_ad(inside: str) -> ClassAd | None:
    """The ad of a text that is an object of JSON but for its separators; None for another text.

    The separators become those of JSON, with marks that no such text has. If each key stands
    between two of them and none is left, each was a name, and what follows it one value.
    """
    if "{" in inside or "(" in inside or "\\" in inside or not inside.isascii():
        return None
    text = inside.rstrip(SEPARATORS)
    marked = text.replace(";", ',"\x80').replace("=", '\x81":')
    try:
        content, end = _scan(f'{{"\x80{marked}}}', 0)
        held = {
            _names[name] or _marked(name): value
            for name, value in content.items()
            if value.__class__ is str or MIN_INT <= value <= MAX_INT
        }
    except (StopIteration, ValueError, TypeError, RecursionError):
        return None
    # Each separator has become two characters longer.
    whole = end == len(marked) + 4 and len(marked) - len(text) == 4 * len(content) - 2
    plain = len(held) == len(content) and "" not in held
    return ClassAd.of(held) if whole and plain else None


def _marked(key: str) -> str:
    return _usual(key[1:-1], key) if key[:1] + key[-1:] == "\x80\x81" else ""
