"""Reading the tables of a mapping file; every error names file, table, key and what was found."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from collections.abc import Mapping as MappingType
from fractions import Fraction
from typing import Any, Final, NoReturn

import attrs

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.errors import MappingError
from matchmaker.classad.quoting import closest, shorten
from matchmaker.classad.values import MAX_INT, is_integer, is_number

LEAST_UNIT: Final = 1e-12

_MISSING: Final = object()


@attrs.frozen(slots=True)
class Section:
    """A table of a mapping file.

    Attributes:
        where: the name of the file.
        name: the name of the table; empty for the file itself.
        facts: its keys and values.
    """

    where: str
    name: str
    facts: MappingType[str, Any]

    def fail(self, key: str, expected: str, found: object = _MISSING) -> NoReturn:
        """Raises MappingError for a key of the table, or for the table if ``key`` is empty."""
        if found is _MISSING:
            found = self.facts.get(key, _MISSING)
        table = f"[{self.name}]" if self.name else ""
        place = f"{' '.join(filter(None, (table, key)))}" or "the file"
        text = "nothing" if found is _MISSING else shorten(repr(found), LIMITS.shown)
        raise MappingError(f"{self.where}: {place}: expected {expected}, found {text}")

    def only(self, known: Collection[str]) -> None:
        """Raises MappingError for a key that is not known, or differs from one in case."""
        for key in self.facts:
            if key not in known:
                near = alike(key, known)
                self.fail(key, f"{one_of(known)}{near}", self.facts[key])

    def section(self, key: str) -> Section:
        """The table under a key; an empty one without the key."""
        facts = self.facts.get(key, {})
        name = f"{self.name}.{key}" if self.name else key
        if not isinstance(facts, dict):
            Section(self.where, name, {}).fail("", "a table", facts)
        return Section(self.where, name, facts)

    def choice(self, key: str, choices: Iterable[Any], default: Any) -> Any:
        """A value that must be one of some."""
        found = self.facts.get(key, default)
        choices = tuple(choices)
        if not any(found is each or (found == each and type(found) is type(each))
                   for each in choices):  # fmt: skip
            self.fail(key, one_of([repr(choice) for choice in choices]))
        return found

    def text(self, key: str, default: str) -> str:
        """A text of ASCII characters on one line."""
        found = self.facts.get(key, default)
        if not isinstance(found, str) or not (found.isascii() and (found + "x").isprintable()):
            self.fail(key, "a text of ASCII characters")
        return found

    def words(self, key: str, default: Iterable[str] = ()) -> tuple[str, ...]:
        """A list of texts."""
        found = self.facts.get(key, list(default))
        if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
            self.fail(key, "a list of words")
        return tuple(found)

    def most(self, key: str, default: int) -> int:
        """The largest number that is allowed."""
        found = self.facts.get(key, default)
        if not is_integer(found) or not 0 < found <= MAX_INT:
            self.fail(key, "a positive integer")
        return found

    def unit(self) -> Fraction:
        """The size of a unit: exactly the decimal that the file has."""
        found = self.facts.get("unit", 1)
        number = is_number(found)
        if not number or not LEAST_UNIT <= found < MAX_INT:
            self.fail("unit", "a number above 0")
        return Fraction(str(found))


def one_of(names: Iterable[str]) -> str:
    """Names as alternatives, for a message.

    >>> one_of(["min", "max", "eq"])
    'min, max or eq'
    """
    *first, last = [*names] or ["nothing"]
    return f"{', '.join(first)} or {last}" if first else last


def alike(name: str, known: Iterable[str]) -> str:
    """A question whether another name was meant; empty if none is similar.

    >>> alike("el99", ["el8", "el9", "gpu"]), alike("x", ["el8"])
    ('; did you mean el9?', '')
    """
    near = closest(name, {each.lower(): each for each in known}, 0.6)
    return f"; did you mean {near}?" if near else ""
