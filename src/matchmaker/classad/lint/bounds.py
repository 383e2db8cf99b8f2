"""Bounds that clauses set to one attribute, and whether they leave nothing, or everything.

Only clauses ``attribute relation constant`` are looked at, and ``isUndefined(attribute)``. An
attribute may be a real, so that ``x > 4 && x < 5`` leaves something.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias, TypeGuard

import attrs

from matchmaker.classad.nodes import Attr, Call, Expr, Unary, compared
from matchmaker.classad.operators import BINARY, IDENTITY, ascii_fold
from matchmaker.classad.places import Place
from matchmaker.classad.values import UNDEFINED, UndefinedType, Value

# From here on integers and reals differ in what they can tell apart.
_EXACT: Final = 2**53


@attrs.frozen(slots=True, eq=False)
class Bound:
    """A clause: the attribute, its relation to a constant, and where it stands."""

    attribute: Expr
    relation: str
    value: float | str | UndefinedType
    place: Place

    @property
    def is_text(self) -> bool:
        """Whether it compares with a string."""
        return isinstance(self.value, str)

    @property
    def is_exact(self) -> bool:
        """Whether it compares by type too, and with undefined."""
        return self.relation in IDENTITY

    def holds_of(self, value: Value) -> bool:
        """Whether the clause is true where the attribute has a value."""
        return BINARY[self.relation](value, self.value) is True

    def __str__(self) -> str:
        return str(self.place.node)


def bound_of(place: Place) -> Bound | None:
    """The bound that a clause sets, if it is of the plain form."""
    node = place.node
    asked = _asked_for(node)
    if asked is not None:
        return Bound(asked, "is", UNDEFINED, place)
    if isinstance(node, Unary) and node.operator == "!":
        asked = _asked_for(node.operand)
        return Bound(asked, "isnt", UNDEFINED, place) if asked is not None else None
    found = compared(node)
    if found is None or not isinstance(found[0], Attr):
        return None
    attribute, relation, value = found
    exactly = relation in IDENTITY
    if exactly and (value is UNDEFINED or isinstance(value, bool)):
        return Bound(attribute, relation, value, place)
    if isinstance(value, str):
        return Bound(attribute, relation, value if exactly else ascii_fold(value), place)
    return Bound(attribute, relation, value, place) if _is_plain_number(value) else None


def _asked_for(node: Expr) -> Attr | None:
    """The attribute x of ``isUndefined(x)``."""
    if isinstance(node, Call) and node.function.lower() == "isundefined":
        [asked, *_] = [*node.arguments, None]
        return asked if isinstance(asked, Attr) and len(node.arguments) == 1 else None
    return None


def _is_plain_number(value: object) -> TypeGuard[float]:
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
        and abs(value) < _EXACT
    )


def contradictions(bounds: Iterable[Bound]) -> Iterator[tuple[Bound, Bound]]:
    """Pairs of bounds, joined by ``&&``, that no value meets: the first pair of each attribute."""
    for group in _by_attribute(bounds):
        pair = _first(group, excludes)
        if pair is not None:
            yield pair


def coverings(bounds: Iterable[Bound]) -> Iterator[tuple[Bound, Bound]]:
    """Pairs of bounds, joined by ``||``, one of which every number (or every string) meets."""
    for group in _by_attribute(bounds):
        pair = _first(group, covers)
        if pair is not None:
            yield pair


_Test: TypeAlias = "Callable[[Bound, Bound], bool]"

# Pairs of more bounds than these are not tried.
_MOST: Final = 60


def _by_attribute(bounds: Iterable[Bound]) -> list[list[Bound]]:
    groups: dict[Expr, list[Bound]] = {}
    for bound in bounds:
        groups.setdefault(bound.attribute, []).append(bound)
    return [group[:_MOST] for group in groups.values() if len(group) > 1]


def _first(group: Sequence[Bound], test: _Test) -> tuple[Bound, Bound] | None:
    for later, second in enumerate(group):
        for first in group[:later]:
            if test(first, second):
                return first, second
    return None


def excludes(one: Bound, other: Bound) -> bool:
    """Whether no value meets both."""
    return _excludes(one, other) or _excludes(other, one)


def _excludes(one: Bound, other: Bound) -> bool:
    """The same, if it is enough to be right for one order of the two."""
    if one.relation == "is":
        return not other.holds_of(one.value)
    if one.is_exact or other.is_exact:
        return False
    low, high = one.value, other.value
    if isinstance(low, str) or isinstance(high, str):
        if not (isinstance(low, str) and isinstance(high, str)):
            # A string and a number: one of the two is an error.
            return True
        if one.relation == "==" == other.relation:
            return low != high
        return one.relation == "==" and other.relation == "!=" and low == high
    if not (_is_plain_number(low) and _is_plain_number(high)):
        return False
    if one.relation in (">", ">=", "==") and other.relation in ("<", "<=", "=="):
        strict = one.relation == ">" or other.relation == "<"
        return low > high or (low == high and strict)
    return one.relation == "==" and other.relation == "!=" and low == high


def covers(one: Bound, other: Bound) -> bool:
    """Whether every value of the kind meets one of them."""
    return _covers(one, other) or _covers(other, one)


def _covers(one: Bound, other: Bound) -> bool:
    """The same, if it is enough to be right for one order of the two."""
    if one.relation == "isnt":
        # All values but one meet it.
        return other.holds_of(one.value)
    if one.is_exact or other.is_exact or one.is_text is not other.is_text:
        return False
    if one.relation == "!=":
        # All values of the kind but one meet it.
        return other.holds_of(one.value)
    edge, value = one.value, other.value
    if not (_is_plain_number(edge) and _is_plain_number(value)):
        return False
    if one.relation in ("<", "<=") and other.relation in (">", ">="):
        return value < edge or (value == edge and (one.relation == "<=" or other.relation == ">="))
    return False
