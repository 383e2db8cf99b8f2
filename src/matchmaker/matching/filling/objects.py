"""JSON by columns: what its compiled decoder made of many ads, attribute by attribute.

An ad is regular if its names are plain text, no two of them are one to an ad, and none is written
with an escape. What its attributes hold is found for all ads together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from matchmaker.classad.assignments import name_in
from matchmaker.classad.deferred import Deferred
from matchmaker.classad.formats import json
from matchmaker.classad.formats.old import is_text
from matchmaker.classad.formats.stream import Part
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.values import MAX_INT, MIN_INT
from matchmaker.matching.columns.column import Coded, Column, Numeric, Rows, Table
from matchmaker.matching.columns.contents import ABSENT, identity
from matchmaker.matching.columns.loose import Loose
from matchmaker.matching.columns.texts import without
from matchmaker.matching.filling import alike, lines, values

Mask: TypeAlias = "npt.NDArray[np.bool_]"


@attrs.frozen(slots=True, eq=False)
class Columns:
    """The columns of regular ads: the names of each ad, what they hold by folded name, its key."""

    layouts: list[tuple[str, ...]]
    layout: npt.NDArray[Any]
    """Which of the layouts each regular ad has; in the order of the ads, like the keys."""

    columns: list[tuple[str, Rows, Column]]
    keys: list[str]


_NESTED: Final = frozenset({dict, list, type(None)})
_FLAT: Final = frozenset({str, int, bool})


def unusual(parts: Sequence[Part]) -> Mask:
    """Which ads only their reader takes, as far as each shows by itself."""
    return np.array(
        [
            part.decoded.__class__ is not dict
            or "\\u" in part.text
            or not json.is_plain(part.text)
            or not is_text(part.text)
            for part in parts
        ],
        np.bool_,
    )


def columns_of(parts: Sequence[Part], others: Mask, key: str) -> Columns | None:
    """The columns of regular ads; None where some turn out to be others, which is noted."""
    together: dict[tuple[str, ...], list[int]] = {}
    for ad, other in enumerate(others.tolist()):
        if not other:
            together.setdefault(tuple(parts[ad].decoded), []).append(ad)
    layouts: list[tuple[str, ...]] = []
    layout = np.zeros(len(parts), np.intp)
    places: dict[str, list[Rows]] = {}
    held: dict[str, list[Any]] = {}
    for names, ads in together.items():
        folded = list(map(ascii_fold, names))
        rows = np.array(ads)
        if "" in names or len(set(folded)) < len(names) or key not in folded:
            others[rows] = True
            continue
        layout[rows] = len(layouts)
        layouts.append(names)
        by_name = zip(*[parts[ad].decoded.values() for ad in ads], strict=True)
        for name, some in zip(folded, by_name, strict=True):
            places.setdefault(name, []).append(rows)
            held.setdefault(name, []).extend(some)
    if len(held) > max(lines.FEW, sum(map(len, held.values())) // 128):
        others[:] = True
        return Columns([], layout[:0], [], [])
    columns = []
    keys = np.empty(len(parts), object)
    bad: list[Rows] = []
    for name, found in places.items():
        rows = np.concatenate(found)
        contents, unread = _contents(held.pop(name))
        if name == key:
            unread += [at for at, each in enumerate(contents) if each.__class__ not in (str, int)]
            keys[rows] = list(map(str, contents))
        if unread:
            bad.append(rows[unread])
        columns.append((name, rows, column_of(contents)))
    if bad:
        others[np.concatenate(bad)] = True
        return None
    return Columns(layouts, layout[~others], columns, keys[~others].tolist())


def _contents(found: list[Any]) -> tuple[list[Any], list[int]]:
    """What ads hold for values of JSON, and where are those that cannot be read."""
    kinds = set(map(type, found))
    strings = found if kinds == {str} else [each for each in found if each.__class__ is str]
    numbers = found if kinds == {int} else [each for each in found if each.__class__ is int]
    if not (
        kinds & _NESTED
        or json.BEGIN in "\n".join(strings)
        or (numbers and not MIN_INT <= min(numbers) <= max(numbers) <= MAX_INT)
    ):
        return found, []
    odd = [at for at, each in enumerate(found) if _is_odd(each)]
    read = _read([found[at] for at in odd])
    for at, each in zip(odd, read, strict=True):
        found[at] = each
    return found, [at for at, each in zip(odd, read, strict=True) if each is None]


def _is_odd(value: Any) -> bool:
    """Whether a value of JSON is more than what it is there, or no content."""
    kind = value.__class__
    if kind is str:
        return bool(value.startswith(json.BEGIN))
    return kind in _NESTED or (kind is int and not MIN_INT <= value <= MAX_INT)


def _read(odd: list[Any]) -> list[Any]:
    """What ads hold for values that are more than what they are in JSON."""
    try:
        written = list(map(repr, odd))
    except RecursionError:
        return list(map(json.content, odd))
    distinct = dict(zip(written, odd, strict=True))
    held: dict[str, Any] = {}
    if len(distinct) >= values.SAMPLE:
        patterns: dict[Any, str | None] = {}
        expressions = {each: _expression(item, patterns) for each, item in distinct.items()}
        known = {each: text for each, text in expressions.items() if text is not None}
        sure = alike.known(list(known.values()))
        held = {
            each: Deferred(text)
            for (each, text), one in zip(known.items(), sure, strict=True)
            if one
        }
    for each, item in distinct.items():
        if each not in held:
            held[each] = json.content(item)
    return [held[each] for each in written]


def _expression(item: Any, patterns: dict[Any, str | None]) -> str | None:
    """The text of an expression, and of a nested ad of plain values; None for all else.

    `patterns` has, by names and kinds of values, how such nested ads are written.
    """
    if item.__class__ is str:
        return json.expression_in(item)
    if item.__class__ is not dict:
        return None
    held = tuple(item.values())
    form = (*item, *map(type, held))
    if form not in patterns:
        patterns[form] = _pattern(item)
    pattern = patterns[form]
    text = pattern % held if pattern is not None else None
    if text is None or "\\" in text or not text.isprintable() or f'"{json.BEGIN}' in text:
        return None
    quotes = pattern.count('"') if pattern is not None else 0
    fits = all(0 <= each <= MAX_INT for each in held if each.__class__ is int)
    return text if fits and text.count('"') == quotes else None


def _pattern(item: dict[str, Any]) -> str | None:
    folded = set(map(ascii_fold, item))
    kinds = list(map(type, item.values()))
    if not item or len(folded) < len(item) or not _FLAT.issuperset(kinds):
        return None
    if any(name_in(name) != name for name in item):
        return None
    written = zip(item, kinds, strict=True)
    parts = [f'{name} = "%s"' if kind is str else f"{name} = %s" for name, kind in written]
    return f"[ {'; '.join(parts)} ]"


def column_of(contents: list[Any]) -> Column:
    """The column of what ads hold; of expressions that were not read some may be, for good."""
    if Deferred in set(map(type, contents)):
        late = [at for at, each in enumerate(contents) if each.__class__ is Deferred]
        if values.OFTEN * len(late) > len(contents):
            return Loose(contents)
        for at in late:
            contents[at] = contents[at].held
    sample = contents[: values.SAMPLE]
    if len(sample) == values.SAMPLE and 4 * len(set(map(identity, sample))) > values.SAMPLE:
        found = _hardly_repeating(contents)
        if found is not None:
            return found
    return Coded.of(contents)


def _hardly_repeating(contents: list[Any]) -> Column | None:
    """A column of mostly numbers or mostly strings; None where they are neither."""
    size = len(contents)
    kinds = list(map(type, contents))
    integers, reals, strings = map(kinds.count, (int, float, str))
    column: Column
    if 4 * (integers + reals) >= 3 * size:
        column = Numeric(np.full(size, ABSENT, np.uint8), np.zeros(size, np.int64), Table())
    elif 4 * strings >= 3 * size:
        column = without(size)
    else:
        return None
    distinct = dict.fromkeys(kinds)
    if len(distinct) == 1:
        column.fill(slice(size), contents)
        return column
    for kind in distinct:
        # A column takes contents of one kind together.
        places = [at for at, each in enumerate(kinds) if each is kind]
        column.fill(np.array(places), [contents[at] for at in places])
    return column
