"""Bounds that clauses set to one attribute, and whether they leave nothing, or everything.

Only clauses ``attribute relation constant`` are looked at, and ``isUndefined(attribute)``. An
attribute may be a real, so that ``x > 4 && x < 5`` leaves something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import attrs

from matchmaker._limits import LINT_LIMITS as LIMITS
from matchmaker.classad.nodes import Attr, Call, Expr, Unary
from matchmaker.classad.operators import BINARY, IDENTITY, ascii_fold
from matchmaker.classad.values import UNDEFINED, UndefinedType, Value, is_number
from matchmaker.classad.walks import compared
from matchmaker.linting.model import Place
from matchmaker.reduction.atoms import divided
from matchmaker.reduction.domains import NOTHING, TEXTS, Domain, numbers


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

    @property
    def domain(self) -> Domain:
        """The values that meet it, and perhaps more strings."""
        split = divided(self.relation, self.value)
        return TEXTS if split is None else split[0]

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
    if not is_number(value):
        return None
    exact = divided("==", value) is not None
    return Bound(attribute, relation, value, place) if exact else None


def _asked_for(node: Expr) -> Attr | None:
    """The attribute x of ``isUndefined(x)``."""
    if isinstance(node, Call) and node.function.lower() == "isundefined":
        [asked, *_] = [*node.arguments, None]
        return asked if isinstance(asked, Attr) and len(node.arguments) == 1 else None
    return None


def contradictions(bounds: Iterable[Bound]) -> Iterator[tuple[Bound, Bound]]:
    """Pairs of bounds, joined by ``&&``, that no value meets: the first pair of each attribute."""
    return _pairs(bounds, excludes)


def coverings(bounds: Iterable[Bound]) -> Iterator[tuple[Bound, Bound]]:
    """Pairs of bounds, joined by ``||``, one of which every number (or every string) meets."""
    return _pairs(bounds, covers)


def _pairs(
    bounds: Iterable[Bound], test: Callable[[Bound, Bound], bool]
) -> Iterator[tuple[Bound, Bound]]:
    groups: dict[Expr, list[Bound]] = {}
    for bound in bounds:
        groups.setdefault(bound.attribute, []).append(bound)
    for group in groups.values():
        pairs = (
            (first, second)
            for later, second in enumerate(group[: LIMITS.bounds])
            for first in group[:later]
            if test(first, second)
        )
        found = next(pairs, None)
        if found is not None:
            yield found


def excludes(one: Bound, other: Bound) -> bool:
    """Whether no value meets both."""
    for this, its in ((one, other), (other, one)):
        if this.relation == "is":
            return not its.holds_of(this.value)
    return not (one.is_exact or other.is_exact) and one.domain & other.domain == NOTHING


def covers(one: Bound, other: Bound) -> bool:
    """Whether every value of the kind meets one of them."""
    for this, its in ((one, other), (other, one)):
        same_kind = not its.is_exact and this.is_text is its.is_text
        if this.relation == "isnt" or (this.relation == "!=" and same_kind):
            # All values but one meet it.
            return its.holds_of(this.value)
    if one.is_exact or other.is_exact or one.is_text or other.is_text:
        return False
    return one.domain | other.domain >= _ALL_NUMBERS


_ALL_NUMBERS: Final = numbers("<", 0) | numbers(">=", 0)
