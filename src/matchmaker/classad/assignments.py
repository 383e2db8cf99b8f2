"""Assignments in a text, at the speed of Python's compiled functions: how ads are read.

Most assignments are of plain values, which JSON writes alike: Python's compiled reader of JSON
takes those of an ad in one call. None means that the fast parser does not take a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from json.decoder import JSONDecoder
from json.scanner import make_scanner
from math import hypot
from typing import Any, Final

import attrs

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.cache import Cache
from matchmaker.classad.limits import LIMITS
from matchmaker.classad.parser import parsed_ad, read_value, value_of, value_of_common
from matchmaker.classad.scanner import (
    ASSIGNABLE,
    ASSIGNMENT,
    LONGEST,
    PLAIN,
    SEPARATORS,
    common,
    inside_of,
)
from matchmaker.classad.spellings import Shape, shape_of
from matchmaker.classad.values import MAX_INT, MIN_INT

_VALUES: Final = re.compile(PLAIN)
_OTHER: Final = re.compile(ASSIGNMENT + PLAIN)
_scan: Final = make_scanner(JSONDecoder())  # type: ignore[arg-type]


@attrs.frozen(slots=True)
class _Lines:
    """What is known of lines of assignments, from others that began alike."""

    heads: tuple[str, ...]
    """What stands in each line before the value."""

    length: int
    """The characters of all heads."""

    shape: Shape

    others: tuple[int, ...]
    """The lines whose values were not plain."""


_lines: Final[Cache[tuple[int, str], _Lines]] = Cache("names in lines", 1 << 22)
"""By the number of lines and the name in the middle: the next ad mostly has all alike."""


def ad_of_lines(lines: Sequence[str], convert: Callable[[str], Any] = value_of) -> ClassAd | None:
    r"""The ad of assignments, one a line; None as above. `convert` reads what is no plain value.

    >>> print(ad_of_lines(["a = 1", "b=a+1"]), ad_of_lines(["a = 1", "2"]))
    [ a = 1; b = a + 1 ] None
    """
    key = (len(lines), lines[len(lines) // 2].partition("=")[0])
    known = _lines[key]
    values = [] if known is None else [*map(str.removeprefix, lines, known.heads)]
    if known is None or len("".join(values)) + known.length != len("".join(lines)):
        known = _lines_of(lines)
        if known is None:
            return None
        values = [line[len(head) :] for line, head in zip(lines, known.heads, strict=True)]
        _keep(key, known, known.others)
    return _ad_with(key, known, values, convert)


def note(lines: Sequence[str]) -> None:
    """Notes that there are such lines of an ad: for some of them a pattern is made."""
    if next(_met) % _OFTEN == 0 and len(lines) < _LONG:
        known = _lines_of(lines)
        # Making a pattern takes a microsecond for each character.
        short = known is not None and known.length < 20 * _LONG
        if known is not None and short and next(_unmade, None) is not None:
            heads = "(.*+)\n".join(map(re.escape, known.heads))
            pattern = re.compile(rf"{heads}(.*+)(?:\n\n++|\n?\Z)")
            key = (len(lines), lines[len(lines) // 2].partition("=")[0])
            size = 400 * len(lines) + 8 * known.length
            _patterns.put(lines[0].partition("=")[0], (pattern, known.heads, key), size)


def ad_at(text: str, start: int, convert: Callable[[str], Any]) -> tuple[ClassAd, int] | None:
    """The ad that begins at a place of a text, and where the next does; None for rare names."""
    end = text.find("=", start, start + _LONG)
    often = _patterns[text[start:end]] if end > 0 else None
    if often is None:
        return None
    pattern, heads, key = often
    known = _lines[key]
    found = pattern.match(text, start)
    if found is None or known is None or known.heads != heads:
        return None
    ad = _ad_with(key, known, list(found.groups()), convert)
    return None if ad is None else (ad, found.end())


_met: Final = count()
_OFTEN: Final = 64
_LONG: Final = 1000
_unmade: Final = iter(range(64))
"""The patterns that may still be made: ``re`` keeps each of them too."""

_patterns: Final[Cache[str, tuple[re.Pattern[str], tuple[str, ...], tuple[int, str]]]] = Cache(
    "patterns of lines", 1 << 22
)
"""By its first name, what takes the lines of an ad that comes often; its heads; its key above."""


def _ad_with(
    key: tuple[int, str], known: _Lines, values: list[str], convert: Callable[[str], Any]
) -> ClassAd | None:
    others = known.others
    held = _plain(values, others)
    if held is None:
        found = (at for at, value in enumerate(values) if _plain([value]) is None)
        others = _keep(key, known, {*others, *found}).others
        held = _plain(values, others)
    if held is None:
        return None
    for at in others:
        value = convert(values[at])
        if value is None:
            return None
        held[at] = value
    if len(others) > _SPARE:
        rest = [at for at in others if held[at].__class__ not in _PLAIN]
        if len(others) - len(rest) > _SPARE:
            # An ad of another kind has come between.
            _keep(key, known, rest)
    folded, unusual = known.shape
    content = dict(zip(folded, held, strict=False))
    return ClassAd._of(content, unusual and unusual.copy(), deferred=bool(others))


_PLAIN: Final = frozenset({bool, int, float, str})
_SPARE: Final = 16
"""So many plain values may be read as the others are: one by one."""


def _lines_of(lines: Sequence[str]) -> _Lines | None:
    """What there is to know of lines; None if the grammar must decide on a name."""
    parts = [line.partition("=") for line in lines]
    names = [name for name, _, _ in parts]
    if not all(sign for _, sign, _ in parts) or not _NAMES.fullmatch("=".join(names)):
        return None
    others = [at for at, (_, _, value) in enumerate(parts) if not _may_be_plain(value)]
    heads = tuple(
        [
            line[: -len(value.lstrip(" ")) or None]
            for line, (_, _, value) in zip(lines, parts, strict=True)
        ]
    )
    spelled = tuple([name.strip(" \t") for name in names])
    return _Lines(heads, len("".join(heads)), shape_of(spelled), tuple(others))


def _keep(key: tuple[int, str], known: _Lines, others: Iterable[int]) -> _Lines:
    known = attrs.evolve(known, others=tuple(sorted(others)))
    return _lines.put(key, known, _size(known.heads))


def name_in(text: str) -> str | None:
    """The name in what stands before the sign of an assignment; None for one that is quoted.

    >>> name_in(" Cpus "), name_in("a b"), name_in("true")
    ('Cpus', None, None)
    """
    return text.strip(" \t") if _NAMES.fullmatch(text) and "=" not in text else None


def contents_of(texts: list[str], convert: Callable[[str], Any]) -> list[Any]:
    """What ads hold for texts of values, each by itself; None for one that cannot be read.

    `convert` reads what is no plain value, as for ``ad_of_lines``; what it gives may be deferred.

    >>> contents_of(["1", '"x"', "a+1", "a+"], value_of)
    [1, 'x', Expr('a + 1'), None]
    """
    others = [at for at, text in enumerate(texts) if not _may_be_plain(text)]
    held = _plain(texts, others)
    if held is None:
        found = [_plain([text]) for text in texts]
        others = [at for at, each in enumerate(found) if each is None]
        held = [each and each[0] for each in found]
    for at in others:
        held[at] = convert(texts[at])
    return held


_NAMES: Final = re.compile(rf"[ \t]*+{ASSIGNABLE}[ \t]*+(?:=[ \t]*+{ASSIGNABLE}[ \t]*+)*+")
_may_be_plain: Final = re.compile(r'[ \t]*+(?:["\-0-9]|true|false)').match


def _plain(texts: list[str], others: Sequence[int] = ()) -> list[Any] | None:
    """The values of texts, but for those of the others; None if one is no plain value in a line.

    No string of JSON goes over the end of a line, so that each text is one value.
    """
    if others:
        texts = texts.copy()
        for at in others:
            texts[at] = "0"
    text = "[" + ",\n".join(texts) + "]"
    if "\\" in text and text.count("\\") != text.count('\\"'):
        return None
    try:
        held: list[Any]
        held, end = _scan(text, 0)
        numbers = [value for value in held if type(value) is not str]
        # As fast as Python can look at all of them; what is near the bounds is looked at by itself.
        if not hypot(*numbers) < _FAR and not all(MIN_INT <= each <= MAX_INT for each in numbers):
            return None
    except (StopIteration, ValueError, TypeError, ArithmeticError, RecursionError):
        return None
    return held if end == len(text) and len(held) == len(texts) else None


_FAR: Final = 2.0**62


def _ad_inside(text: str) -> ClassAd | None:
    """The ad of assignments, each with a semicolon behind it; None as above."""
    found = _VALUES.match(text)
    parts = [found[0]] if found is not None else []
    others: list[Any] = []
    while found is not None:
        at = found.end()
        if at == len(text):
            return _ad_of("".join(parts).rstrip(SEPARATORS), others)
        found = common().match(text, at, at + min(LONGEST, LIMITS.syntax))
        if found is not None:
            name, string, expression, plain = found.groups()
            value = value_of_common(expression) if string is None else string.replace('\\"', '"')
        else:
            found = _OTHER.match(text, at)
            if found is None:
                break
            name, expression, plain = found.groups()
            value = read_value(expression)
        if name is None or value is None:
            break
        parts.append(f"{name} = null;")
        parts.append(plain)
        others.append(value)
    return None


def _ad_of(text: str, others: Sequence[Any]) -> ClassAd:
    """The ad of assignments of plain values, and of null for one of the others."""
    parts = text.replace(";", "=").split("=") if text else []
    names = tuple(map(str.strip, parts[::2]))
    values: list[Any] = _scan(f"[{','.join(parts[1::2])}]", 0)[0]
    if others:
        rest = iter(others)
        values = [next(rest) if each is None else each for each in values]
    folded, unusual = shape_of(names)
    content = dict(zip(folded, values, strict=True))
    return ClassAd._of(content, unusual and unusual.copy(), deferred=bool(others))


def _size(names: tuple[str, ...]) -> int:
    return 108 * len(names) + 3 * sum(map(len, names))


def ad_in(text: str) -> ClassAd | None:
    """The ad of a text in brackets, None if the fast parser does not take it."""
    if len(text) > LIMITS.text:
        return None
    if len(text) < _SMALL and text[:1] + text[-1:] == "[]" and text.isascii():
        ad = ad_of_lines(text[1:-1].rstrip(SEPARATORS).split(";"), _nothing)
        if ad is not None:
            return ad
    inside = inside_of(text)
    inside = None if inside is None else inside.rstrip(SEPARATORS)
    ad = None if inside is None else _ad_inside(inside and inside + ";")
    if ad is not None:
        return ad
    node = parsed_ad(text)
    return ClassAd.from_expression(node) if node is not None else None


_SMALL: Final = 2000


def _nothing(_: str) -> None:
    """Takes nothing: a semicolon may stand within what is no plain value."""
