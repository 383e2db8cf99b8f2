"""Terms: what a batch system can be asked of a host, and which hosts have it.

A term asks for at least or at most a number, or for one of some names. A group is a disjunction of
conjunctions of terms; a list of groups is their conjunction. Which terms stand for a condition is
in ``translation``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final, TypeAlias

import attrs

from matchmaker.batch.rules import Rule
from matchmaker.batch.templates import VALUE, assigned, slot_of, slots
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.values import Value, is_number
from matchmaker.reduction.domains import (
    ANY,
    LISTS,
    MISSING,
    NOTHING,
    TEXTS,
    Box,
    Domain,
    Tag,
    common,
    meet_all,
    numbers,
)

SIZES: Final = numbers(">=", 0)
_BOOLEANS: Final = numbers("==", 0) | numbers("==", 1)
_RELATIONS: Final = {"min": ">=", "max": "<=", "count": "=="}


@attrs.frozen(slots=True)
class Term:
    """One demand on a host: a number at least, at most or equal, or one of some names (or none).

    ``kind`` is ``min``, ``max``, ``count`` or ``name``; ``number`` is in the rule's unit.
    """

    rule: Rule
    kind: str
    number: int = 0
    names: tuple[str, ...] = ()
    negated: bool = False

    @property
    def template(self) -> str:
        """The template that the number or the names are put into."""
        if self.kind == "name":
            return self.rule.negate if self.negated and self.without else self.rule.term
        return self.rule.greatest if self.kind == "max" else self.rule.flag

    @property
    def without(self) -> bool:
        """Whether the rule has a template for hosts without names."""
        return VALUE in slots(self.rule.negate)

    @property
    def slot(self) -> str:
        """The slot of ``[flags]`` that the term fills; empty for one with other words."""
        return slot_of(self.template)

    @property
    def is_option(self) -> bool:
        """Whether the term is an option, or part of one, which cannot be joined with others."""
        return self.template.startswith("-") or bool(self.slot)

    @property
    def assignment(self) -> tuple[str, object]:
        """The option or resource that the term sets, or an empty name, and what it sets it to.

        Minima of one attribute in one unit set the same: the largest counts.
        """
        setting = assigned(self.template)
        subject = ascii_fold(self.rule.attribute), self.rule.unit
        if self.kind in ("min", "max"):
            return setting or self.template, (self.template, self.kind, *subject)
        return setting, (self.template, *subject, self.number, self.names, self.negated)

    def admits(self, value: Value) -> bool | None:
        """Whether a host with a value of the attribute satisfies the term; None if unknown."""
        rule = self.rule
        if self.kind in _RELATIONS:
            if not is_number(value):
                return None
            finite = isinstance(value, int) or math.isfinite(value)
            has = Fraction(value) / rule.unit if finite else value
            if self.kind == "count":
                return has == self.number
            return has >= self.number if self.kind == "min" else has <= self.number
        names = names_of(rule, value)
        return None if names is None else (not names.isdisjoint(self.names)) != self.negated

    @property
    def meaning(self) -> Box:
        """The hosts that satisfy the term, by the mapping; sometimes a box around them.

        >>> Term(Rule("Ram", "min", "--mem={value}G", unit=Fraction(1024)), "min", 2).meaning
        Box(domains={'ram': Domain(numbers in [2048, inf])}, tags=frozenset(), others=())
        """
        rule, name = self.rule, ascii_fold(self.rule.attribute)
        if self.kind in _RELATIONS:
            bound = self.number * rule.unit
            whole = bound.denominator == 1
            domain = numbers(_RELATIONS[self.kind], int(bound) if whole else float(bound))
            return Box({name: domain & SIZES if self.kind == "max" else domain})
        if rule.kind == "member":
            texts = _texts(rule, self.names)
            if self.negated or len(texts) == 1:
                return Box(tags=frozenset(Tag(name, text, not self.negated) for text in texts))
            return Box()
        domain = _named_values(rule, self.names)
        return Box({name: values_of(rule) & ~domain if self.negated else domain})


Group: TypeAlias = tuple[tuple[Term, ...], ...]


def meaning(group: Group) -> list[Box]:
    """The hosts that a group admits: one box for each alternative, never too small.

    Alternatives on the same attribute give one box.
    """
    if len(group) == 1 == len(group[0]):
        return [group[0][0].meaning]
    met = (meet_all([term.meaning for term in terms]) for terms in group)
    boxes = [box for box in met if box is not None]
    names = {name for box in boxes for name in box.domains}
    if len(names) != 1 or not all(box.domains and not box.tags for box in boxes):
        return boxes
    name = names.pop()
    return [Box({name: ~common([~box.domains[name] for box in boxes])})]


def admits(groups: Iterable[Group], value: Callable[[str], Value]) -> bool | None:
    """Whether groups admit a host, whose attributes ``value`` gives; None if unknown.

    Three-valued ``&&`` and ``||``: what is unknown matters only where nothing else decides.
    """
    verdict: bool | None = True
    for group in groups:
        outcomes = [_all(terms, value) for terms in group]
        known = True if True in outcomes else None if None in outcomes else False
        if known is False:
            return False
        verdict = verdict if known else None
    return verdict


def _all(terms: Iterable[Term], value: Callable[[str], Value]) -> bool | None:
    outcomes = [term.admits(value(term.rule.attribute)) for term in terms]
    return False if False in outcomes else None if None in outcomes else True


# --- options that are set once --------------------------------------------------------------------


def clash(groups: Iterable[Group], taken: Mapping[str, object]) -> str:
    """An option that groups set twice, or to something else than it is ``taken`` for; or empty."""
    known = dict(taken)
    for option, value in assignments(groups):
        if known.setdefault(option, value) != value:
            return option
    return ""


def assignments(groups: Iterable[Group]) -> Iterator[tuple[str, object]]:
    """The options that groups of one alternative set, and what they set them to."""
    for group in groups:
        for term in group[0] if len(group) == 1 else ():
            if term.assignment[0]:
                yield term.assignment


# --- values and names -----------------------------------------------------------------------------


def is_feature(rule: Rule) -> bool:
    """Whether a rule asks for features of nodes by name, in the terms of all features."""
    return bool(rule.named) and not slot_of(rule.term)


def values_of(rule: Rule) -> Domain:
    """The values that the attribute of a rule has on hosts, by the mapping."""
    if rule.kind in ("min", "max", "range") or (rule.kind == "eq" and rule.flag):
        return SIZES
    if rule.kind == "bucket":
        return MISSING | (_named_values(rule, rule.buckets) if rule.complete else SIZES)
    if rule.kind == "eq" and rule.complete:
        return Domain(texts=_texts(rule, rule.features.values()))
    return {"eq": TEXTS, "member": LISTS, "bool": _BOOLEANS}.get(rule.kind, ANY)


def names_of(rule: Rule, value: Value) -> set[str] | None:
    """The batch system's names for a host's value; None for a value of a wrong kind."""
    if rule.kind == "bucket":
        if not is_number(value):
            return set()
        return {name for name, (low, high) in rule.buckets.items() if low <= value <= high}
    if rule.kind == "bool":
        if not isinstance(value, bool):
            return None
        name = rule.features.get("true" if value else "false")
        return set() if name is None else {name}
    texts = value if rule.kind == "member" else [value]
    if not isinstance(texts, list):
        return None
    folded = {ascii_fold(text) for text in texts if isinstance(text, str)}
    if rule.kind == "eq" and not folded:
        return None
    return {name for text, name in rule.features.items() if ascii_fold(text) in folded}


def _texts(rule: Rule, names: Iterable[str]) -> frozenset[str]:
    """The folded texts that some names stand for."""
    wanted = set(names)
    return frozenset(ascii_fold(text) for text, name in rule.features.items() if name in wanted)


def _named_values(rule: Rule, names: Iterable[str]) -> Domain:
    """The values that some names stand for."""
    if rule.kind == "eq":
        return Domain(texts=_texts(rule, names))
    if rule.kind == "bool":
        several = [numbers("==", text == "true") for text in _texts(rule, names)]
    else:
        several = [bucket(*rule.buckets[name]) for name in names]
    return ~common([~domain for domain in several]) if several else NOTHING


def bucket(low: int, high: float) -> Domain:
    """The numbers of a bucket, both ends included; ``high`` is infinite for an open bucket."""
    return numbers(">=", low) & numbers("<=", high)
