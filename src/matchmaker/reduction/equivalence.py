"""Classes of ads that agree in all attributes on which a decision depends.

Queues with the same facts have the same reduction, nodes with the same attributes the same answer,
so each is computed once. An ad that depends on more than attributes is a class by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.functions import INSIDE
from matchmaker.classad.nodes import INEXACT, Expr, identity
from matchmaker.classad.walks import names_of
from matchmaker.reduction.facts import is_moving


def alike(
    ads: Iterable[ClassAd], significant: Iterable[str], other: ClassAd | None = None
) -> list[list[int]]:
    """The indices of ads in classes that agree in the attributes of some folded names.

    What their expressions name in turn counts too, also where it leads through the ``other`` ad of
    a match and back.

    >>> from matchmaker import parse_ads
    >>> alike(parse_ads("[ A = 1; B = 1 ] [ A = 1; B = 2 ] [ A = C; C = 1 ]"), {"a"})
    [[0, 1], [2]]
    """
    every = list(ads)
    names, inexact = set(significant), frozenset(INEXACT)
    look = cache(names_in)
    while True:
        whole = other is not None and _leads_through(other, names, look)
        order = sorted(names)
        # Expressions are interned: two that are equal are one object.
        classes: dict[tuple[tuple[Any, ...], tuple[type, ...]], list[int]] = {}
        for place, ad in enumerate(every):
            held = tuple(map(ad._held.get, order))
            kinds = tuple(map(type, held))
            if not inexact.isdisjoint(kinds):
                held = tuple(map(identity, held))
            classes.setdefault((held, kinds), []).append(place)
        more: set[str] = set()
        found: list[list[int]] = []
        for (held, _), places in classes.items():
            alone = whole
            for part in held:
                if isinstance(part, Expr):
                    needed = look(part)
                    alone = alone or needed is None
                    more |= needed or set()
            found += [[place] for place in places] if alone else [places]
        if more <= names:
            return found
        names |= more


def _leads_through(ad: ClassAd, names: set[str], look: Callable[[Expr], set[str] | None]) -> bool:
    """Adds the names that an ad's attributes lead to; true if one depends on more than names."""
    pending = list(names)
    for name in pending:
        part = ad._held.get(name)
        if isinstance(part, Expr):
            needed = look(part)
            if needed is None:
                return True
            pending += needed - names
            names |= needed
    return False


def names_in(node: Expr) -> set[str] | None:
    """Every name in an expression, folded; None if it depends on whole ads or on the time.

    >>> from matchmaker import parse_expr
    >>> sorted(names_in(parse_expr("other.A > b")) or ()), names_in(parse_expr("size(other) > 1"))
    (['a', 'b', 'other'], None)
    """
    names = names_of(node)
    if is_moving(names) or names.traits & INSIDE:
        return None
    return {name for path in names.paths for name in path.folded}
