"""Domains are sets of values of one attribute; boxes constrain several attributes.

The value of an attribute is a number (a boolean counts as one), a text, missing, a list, or
something else: an error, an ad, a time.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
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
    ``texts`` are folded, and are all but these if ``but`` is set.

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
        return common((self, other))

    def __or__(self, other: Domain) -> Domain:
        return ~(~self & ~other)

    def __le__(self, other: Domain) -> bool:
        if self is other or other is ANY:
            return True
        if (
            (self.nan and not other.nan)
            or (self.missing and not other.missing)
            or (self.lists and not other.lists)
            or (self.other and not other.other)
        ):
            return False
        if self.but:
            texts = other.but and other.texts <= self.texts
        elif other.but:
            texts = other.texts.isdisjoint(self.texts)
        else:
            texts = self.texts <= other.texts
        return texts and _covered(self.cuts, other.cuts)

    @property
    def spans(self) -> list[tuple[Cut, Cut]]:
        """The intervals of numbers in the domain, each from one cut to the next."""
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


def common(domains: Sequence[Domain]) -> Domain:
    """The intersection of one or more domains.

    >>> common([numbers(">", 5), numbers("<=", 9), numbers("!=", 7)])
    Domain(numbers in (5, 7); numbers in (7, 9])
    """
    if len(domains) == 1:
        return domains[0]
    nan = missing = lists = other = True
    listed: list[frozenset[str]] = []
    ruled_out: list[frozenset[str]] = []
    for domain in domains:
        nan, missing = nan and domain.nan, missing and domain.missing
        lists, other = lists and domain.lists, other and domain.other
        (ruled_out if domain.but else listed).append(domain.texts)
    none = frozenset[str]().union(*ruled_out)
    texts = listed[0].intersection(*listed[1:]) - none if listed else none
    cuts = _overlap([domain.cuts for domain in domains])
    return Domain(cuts, nan, texts, not listed, missing, lists, other)


def _overlap(several: Sequence[tuple[Cut, ...]]) -> tuple[Cut, ...]:
    """The cuts of the intersection of several sets of intervals."""
    steps: dict[Cut, int] = {}
    for cuts in several:
        for place, cut in enumerate(cuts):
            steps[cut] = steps.get(cut, 0) + (-1 if place % 2 else 1)
    found: list[Cut] = []
    inside = 0
    for cut in sorted(steps):
        before, inside = inside, inside + steps[cut]
        if (before == len(several)) != (inside == len(several)):
            found.append(cut)
    return tuple(found)


def _covered(inner: tuple[Cut, ...], outer: tuple[Cut, ...]) -> bool:
    """Whether each interval of one set lies within an interval of another."""
    for place in range(0, len(inner), 2):
        at = bisect_right(outer, inner[place])
        if not at % 2:
            return False
        if at < len(outer) and (place + 1 == len(inner) or outer[at] < inner[place + 1]):
            return False
    return True


NOTHING: Final = Domain()
ANY: Final = ~NOTHING
NUMBERS: Final = Domain((_START,), nan=True)
TEXTS: Final = Domain(but=True)
MISSING: Final = Domain(missing=True)
LISTS: Final = Domain(lists=True)


def numbers(relation: str, bound: float) -> Domain:
    """The numbers x with ``x relation bound``; NaN is one of them for ``!=``.

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
    """Requires that a list contains a text, or lacks it. Both the name and the text are folded."""

    attribute: str
    text: str
    has: bool

    @property
    def opposite(self) -> Tag:
        """The tag that requires the contrary."""
        return Tag(self.attribute, self.text, not self.has)


@attrs.frozen(slots=True)
class Box:
    """Constraints: domains of attributes by folded name, tags, expressions that must be true."""

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
        """The intersection of two boxes; None if it is empty."""
        domains = dict(self.domains)
        for name, domain in other.domains.items():
            both = domains.get(name, ANY) & domain
            if both == NOTHING:
                return None
            domains[name] = both
        tags = self.tags | other.tags
        if any(tag.opposite in tags for tag in tags):
            return None
        return Box(domains, tags, tuple(dict.fromkeys((*self.others, *other.others))))

    def by_subject(self) -> dict[str, Box]:
        """One box for each attribute, by folded name, with its domain and its tags."""
        tags: dict[str, set[Tag]] = {}
        for tag in self.tags:
            tags.setdefault(tag.attribute, set()).add(tag)
        own = self.domains
        return {
            name: Box({name: own[name]} if name in own else {}, frozenset(tags.get(name, ())))
            for name in (*own, *(tags.keys() - own.keys()))
        }

    def on(self, boxes: Iterable[Box]) -> Box:
        """The part of this box on attributes and tags that other boxes constrain too."""
        names: dict[str, None] = {}
        tags: set[Tag] = set()
        for box in boxes:
            names |= dict.fromkeys(box.domains)
            tags |= box.tags
        known = {name: self.domains[name] for name in names if name in self.domains}
        return Box(
            known, frozenset(t for tag in tags for t in (tag, tag.opposite) if t in self.tags)
        )

    def within(self, other: Box) -> bool:
        """Whether the other box surely contains this one."""
        return (
            other.tags <= self.tags
            and all(part in self.others for part in other.others)
            and not self.beyond(other)
        )

    def beyond(self, other: Box) -> list[str]:
        """The attributes whose values here may lie outside of the other box."""
        own = self.domains
        return [n for n, d in other.domains.items() if n not in own or not own[n] <= d]


def meet_all(boxes: Iterable[Box]) -> Box | None:
    """The intersection of any number of boxes; None if it is empty.

    >>> meet_all([Box({"a": numbers(">", 5)}), Box({"a": numbers("<", 3)})]) is None
    True
    """
    demanded: dict[str, list[Domain]] = {}
    tags: set[Tag] = set()
    others: dict[Expr, None] = {}
    for box in boxes:
        for name, domain in box.domains.items():
            demanded.setdefault(name, []).append(domain)
        tags |= box.tags
        others |= dict.fromkeys(box.others)
    domains = {name: common(several) for name, several in demanded.items()}
    if NOTHING in domains.values() or any(tag.opposite in tags for tag in tags):
        return None
    return Box(domains, frozenset(tags), tuple(others))


def first_contrary(boxes: Sequence[Box]) -> int:
    """The index of the first box whose intersection with those before it is empty."""
    return bisect_left(range(len(boxes)), True, key=lambda n: meet_all(boxes[: n + 1]) is None)


def _has(value: Value, text: str) -> bool | None:
    if not isinstance(value, list):
        return None
    return any(isinstance(item, str) and ascii_fold(item) == text for item in value)


def hull(boxes: Iterable[Box]) -> Box:
    """The smallest box of domains and tags that contains all boxes."""
    return fold(_around, (attrs.evolve(box, others=()) for box in boxes))


def _around(left: Box, right: Box) -> Box:
    joined = {name: left.domains[name] | right.domains[name]
              for name in left.domains if name in right.domains}  # fmt: skip
    domains = {name: domain for name, domain in joined.items() if domain != ANY}
    return Box(domains, left.tags & right.tags)


def as_one(left: Box, right: Box) -> Box | None:
    """The union of two boxes that differ in one domain only; None for any other two."""
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
    """A box enlarged by a part of another one, if the two differ in one constraint only."""
    if not all(part in box.others for part in other.others):
        return box
    apart = box.beyond(other)
    lacking = other.tags - box.tags
    if len(apart) == 1 and not lacking and apart[0] in box.domains:
        name = apart[0]
        joined = {**box.domains, name: box.domains[name] | other.domains[name]}
        return attrs.evolve(box, domains=joined)
    if len(lacking) == 1 and not apart:
        opposites = {tag.opposite for tag in lacking}
        return attrs.evolve(box, tags=box.tags - opposites) if opposites <= box.tags else box
    return box
