"""Bounds that clauses set to one attribute, and whether they leave nothing, or everything.

Only clauses ``attribute relation constant`` are looked at. An attribute may be a real, so that
``x > 4 && x < 5`` leaves something.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias, TypeGuard

import attrs

from matchmaker.classad.nodes import Attr, Binary, Expr, Literal
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.places import Place

_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}

# From here on integers and reals differ in what they can tell apart.
_EXACT: Final = 2**53


@attrs.frozen(slots=True, eq=False)
class Bound:
    """A clause: the attribute, its relation to a constant, and where it stands."""

    attribute: Expr
    relation: str
    value: float | str
    place: Place

    def __str__(self) -> str:
        return str(self.place.node)


def bound_of(place: Place) -> Bound | None:
    """The bound that a clause sets, if it is of the plain form."""
    node = place.node
    if not isinstance(node, Binary) or node.operator not in _MIRRORED:
        return None
    for attribute, constant, relation in (
        (node.left, node.right, node.operator),
        (node.right, node.left, _MIRRORED[node.operator]),
    ):
        if isinstance(attribute, Attr) and isinstance(constant, Literal):
            value = constant.value
            if isinstance(value, str):
                return Bound(attribute, relation, ascii_fold(value), place)
            if _is_plain_number(value):
                return Bound(attribute, relation, value, place)
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
        pair = _first(group, _excludes)
        if pair is not None:
            yield pair


def coverings(bounds: Iterable[Bound]) -> Iterator[tuple[Bound, Bound]]:
    """Pairs of bounds, joined by ``||``, one of which every number (or every string) meets."""
    for group in _by_attribute(bounds):
        pair = _first(group, _covers)
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
            if test(first, second) or test(second, first):
                return first, second
    return None


def _excludes(one: Bound, other: Bound) -> bool:
    """Whether no value meets both. It is enough to be right for one order of the two."""
    if isinstance(one.value, str) or isinstance(other.value, str):
        if not (isinstance(one.value, str) and isinstance(other.value, str)):
            # A string and a number: one of the two is an error.
            return True
        if one.relation == "==" == other.relation:
            return one.value != other.value
        return one.relation == "==" and other.relation == "!=" and one.value == other.value
    low, high = one.value, other.value
    if one.relation in (">", ">=", "==") and other.relation in ("<", "<=", "=="):
        strict = one.relation == ">" or other.relation == "<"
        return low > high or (low == high and strict)
    return one.relation == "==" and other.relation == "!=" and low == high


def _covers(one: Bound, other: Bound) -> bool:
    """Whether every value of the kind meets one of them. Enough to be right for one order."""
    if isinstance(one.value, str) or isinstance(other.value, str):
        both = isinstance(one.value, str) and isinstance(other.value, str)
        differ = one.value != other.value
        if not both or one.relation != "!=":
            return False
        return (other.relation == "!=" and differ) or (other.relation == "==" and not differ)
    edge, value = one.value, other.value
    if one.relation == "!=":
        return _meets(edge, other)
    if one.relation in ("<", "<=") and other.relation in (">", ">="):
        return value < edge or (value == edge and (one.relation == "<=" or other.relation == ">="))
    return False


def _meets(number: float, bound: Bound) -> bool:
    value = bound.value
    if isinstance(value, str):
        return False
    return {
        "<": number < value, "<=": number <= value, ">": number > value,
        ">=": number >= value, "==": number == value, "!=": number != value,
    }[bound.relation]  # fmt: skip
