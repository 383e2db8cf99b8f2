"""Sets of the values that an attribute may have, and boxes: what is demanded of several attributes.

The value of an attribute is a number (a boolean counts as one), a text, missing, a list, or
something else: an error, an ad, a time.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import reduce as fold
from typing import Final, TypeAlias

import attrs

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import Expr
from matchmaker.classad.operators import ascii_fold, truth
from matchmaker.classad.values import UNDEFINED, Value

Cut: TypeAlias = tuple[float, int]
"""A place between numbers: just before one (0) or just after it (1)."""

_START: Final[Cut] = (-math.inf, 0)


@attrs.frozen(slots=True)
class Domain:
    """A set of values of an attribute.

    The numbers in it begin at the first of ``cuts``, end at the second and so on; ``nan`` is apart.
    ``texts`` are folded, and are all but these where ``but`` is set.

    >>> numbers(">", 5) & numbers("<=", 9)
    Domain(numbers in (5, 9])
    >>> 6 in numbers(">", 5), "six" in numbers(">", 5), UNDEFINED in MISSING
    (True, False, True)
    """

    cuts: tuple[Cut, ...] = ()
    nan: bool = False
    texts: frozenset[str] = frozenset()
    but: bool = False
    missing: bool = False
    lists: bool = False
    other: bool = False

    def __contains__(self, value: Value) -> bool:
        if isinstance(value, (int, float)):
            if math.isnan(value):
                return self.nan
            return bisect_right(self.cuts, (value, 0)) % 2 == 1
        if isinstance(value, str):
            return (ascii_fold(value) in self.texts) != self.but
        if value is UNDEFINED:
            return self.missing
        return self.lists if isinstance(value, list) else self.other

    def __invert__(self) -> Domain:
        cuts = self.cuts[1:] if self.cuts[:1] == (_START,) else (_START, *self.cuts)
        return Domain(
            cuts, not self.nan, self.texts, not self.but,
            not self.missing, not self.lists, not self.other,
        )  # fmt: skip

    def __and__(self, other: Domain) -> Domain:
        if other is ANY or self is other:
            return self
        if self is ANY:
            return other
        if self.but and other.but:
            texts, but = self.texts | other.texts, True
        elif self.but:
            texts, but = other.texts - self.texts, False
        else:
            texts, but = self.texts - other.texts if other.but else self.texts & other.texts, False
        return Domain(
            _common(self.cuts, other.cuts), self.nan and other.nan, texts, but,
            self.missing and other.missing, self.lists and other.lists, self.other and other.other,
        )  # fmt: skip

    def __or__(self, other: Domain) -> Domain:
        return ~(~self & ~other)

    def __le__(self, other: Domain) -> bool:
        return self & other == self

    @property
    def spans(self) -> list[tuple[Cut, Cut]]:
        """The runs of numbers in it, each from one cut to another."""
        ends = [*self.cuts, (math.inf, 1)]
        return list(zip(ends[0:-1:2], ends[1::2], strict=False))

    def __repr__(self) -> str:
        parts = [
            f"numbers in {'[('[low[1]]}{low[0]}, {high[0]}{')]'[high[1]]}"
            for low, high in self.spans
        ]
        if self.texts or self.but:
            parts.append(f"texts {'but ' if self.but else ''}{sorted(self.texts)}")
        parts += [name for name in ("nan", "missing", "lists", "other") if getattr(self, name)]
        return f"Domain({'; '.join(parts)})"


def _common(left: tuple[Cut, ...], right: tuple[Cut, ...]) -> tuple[Cut, ...]:
    cuts: list[Cut] = []
    inside = False
    for cut in sorted({*left, *right}):
        both = all(bisect_right(side, cut) % 2 == 1 for side in (left, right))
        if both != inside:
            cuts.append(cut)
            inside = both
    return tuple(cuts)


NOTHING: Final = Domain()
ANY: Final = ~NOTHING
NUMBERS: Final = Domain((_START,), nan=True)
TEXTS: Final = Domain(but=True)
MISSING: Final = Domain(missing=True)
LISTS: Final = Domain(lists=True)


def numbers(relation: str, bound: float) -> Domain:
    """The numbers x for which ``x relation bound``; for ``!=`` with what is no number beside.

    >>> numbers("!=", 5)
    Domain(numbers in [-inf, 5); numbers in (5, inf]; nan)
    """
    before, after = (bound, 0), (bound, 1)
    cuts: dict[str, tuple[Cut, ...]] = {
        "<": (_START, before), "<=": (_START, after), ">": (after,), ">=": (before,),
        "==": (before, after), "!=": (_START, before, after),
    }  # fmt: skip
    return Domain(cuts[relation], nan=relation == "!=")


@attrs.frozen(slots=True, order=True)
class Tag:
    """A list has a text, or has it not. The attribute's name and the text are folded."""

    attribute: str
    text: str
    has: bool


@attrs.frozen(slots=True)
class Box:
    """A domain for each of some attributes, by folded name; tags; expressions that must be true."""

    domains: Mapping[str, Domain] = attrs.Factory(dict)
    tags: frozenset[Tag] = frozenset()
    others: tuple[Expr, ...] = ()

    def accepts(self, host: ClassAd, job: ClassAd | None = None) -> bool:
        """Whether a host's ad is in the box; expressions are evaluated with the job as ``MY``."""
        return (
            all(host.eval(name) in domain for name, domain in self.domains.items())
            and all(_has(host.eval(tag.attribute), tag.text) is tag.has for tag in self.tags)
            and all(truth(other.eval(my=job, target=host)) is True for other in self.others)
        )

    def meet(self, other: Box) -> Box | None:
        """What is in both; None where nothing can be."""
        domains = dict(self.domains)
        for name, domain in other.domains.items():
            both = domains.get(name, ANY) & domain
            if both == NOTHING:
                return None
            domains[name] = both
        tags = self.tags | other.tags
        if any(Tag(tag.attribute, tag.text, not tag.has) in tags for tag in tags):
            return None
        return Box(domains, tags, tuple(dict.fromkeys((*self.others, *other.others))))

    def within(self, other: Box) -> bool:
        """Whether all that is here is surely in the other box."""
        return (
            other.tags <= self.tags
            and all(part in self.others for part in other.others)
            and all(self.domains.get(n, ANY) <= domain for n, domain in other.domains.items())
        )


def _has(value: Value, text: str) -> bool | None:
    if not isinstance(value, list):
        return None
    return any(isinstance(item, str) and ascii_fold(item) == text for item in value)


def hull(boxes: Iterable[Box]) -> Box:
    """The smallest box of domains and tags around all boxes: what is true of each host in them."""
    return fold(_around, (attrs.evolve(box, others=()) for box in boxes))


def _around(left: Box, right: Box) -> Box:
    joined = {name: left.domains[name] | right.domains[name]
              for name in left.domains if name in right.domains}  # fmt: skip
    domains = {name: domain for name, domain in joined.items() if domain != ANY}
    return Box(domains, left.tags & right.tags)


def as_one(left: Box, right: Box) -> Box | None:
    """Two boxes that differ in the domain of one attribute, as one box; None for others."""
    if left.tags != right.tags or left.others != right.others:
        return None
    if left.domains.keys() != right.domains.keys():
        return None
    differing = [name for name, domain in left.domains.items() if right.domains[name] != domain]
    if len(differing) != 1:
        return None
    name = differing[0]
    return attrs.evolve(
        left, domains={**left.domains, name: left.domains[name] | right.domains[name]}
    )


def widened(box: Box, other: Box) -> Box:
    """A box with what it lacks of another, where the two differ in one demand alone."""
    for name, domain in box.domains.items():
        if name in other.domains:
            swapped = attrs.evolve(box, domains={**box.domains, name: other.domains[name]})
            if swapped.within(other):
                joined = {**box.domains, name: domain | other.domains[name]}
                return attrs.evolve(box, domains=joined)
    for tag in box.tags:
        opposite = Tag(tag.attribute, tag.text, not tag.has)
        rest = box.tags - {tag}
        if opposite in other.tags and Box(box.domains, rest | {opposite}, box.others).within(other):
            return attrs.evolve(box, tags=rest)
    return box
