"""Terms: the demands on a host that a batch system understands, and which hosts meet them.

A term asks for at least or at most a number, or for one of some names. A group is a disjunction of
conjunctions of terms; a list of groups is their conjunction.

``of_domain`` and ``of_tag`` translate sets of values of an attribute into terms, exactly or erring
to one side. If ``sure``, the terms imply the condition; otherwise the condition implies the terms.
They return groups of terms and why these are not exact, empty if they are, and raise NoTermError if
no terms imply the condition, or if it implies none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from collections.abc import Mapping as MappingType
from fractions import Fraction
from typing import Final, TypeAlias

import attrs

from matchmaker.batch.errors import NoTermError
from matchmaker.batch.mapping import Mapping
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

# Amounts are never negative, so that a maximum alone is a run from 0.
SIZES: Final = numbers(">=", 0)
# Domains count true as 1 and false as 0.
_BOOLEANS: Final = numbers("==", 0) | numbers("==", 1)
_RELATIONS: Final = {"min": ">=", "max": "<=", "count": "=="}


@attrs.frozen(slots=True)
class FlagTerm:
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
        """The option or resource that the term sets, or an empty name, and its setting.

        Minima of one attribute in one unit set the same: the largest counts.
        """
        setting = assigned(self.template)
        subject = ascii_fold(self.rule.attribute), self.rule.unit
        if self.kind in ("min", "max"):
            return setting or self.template, (self.template, self.kind, *subject)
        return setting, (self.template, *subject, self.number, self.names, self.negated)

    def admits(self, value: Value) -> bool | None:
        """Tell whether a host with a value of the attribute satisfies the term; None if unknown."""
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

        >>> FlagTerm(Rule("Ram", "min", "--mem={value}G", unit=Fraction(1024)), "min", 2).meaning
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


Group: TypeAlias = tuple[tuple[FlagTerm, ...], ...]


def meaning(group: Group) -> list[Box]:
    """Return the hosts that a group admits: one box for each alternative, never too small.

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
    """Tell whether groups admit a host, whose attributes ``value`` gives; None if unknown.

    Three-valued ``&&`` and ``||``: an unknown part matters only if no other part decides.
    """
    verdict: bool | None = True
    for group in groups:
        outcomes = [
            all_of(term.admits(value(term.rule.attribute)) for term in terms) for terms in group
        ]
        known = True if True in outcomes else None if None in outcomes else False
        if known is False:
            return False
        verdict = verdict if known else None
    return verdict


def all_of(outcomes: Iterable[bool | None]) -> bool | None:
    """Join outcomes by a three-valued ``&&``; None is unknown."""
    found = set(outcomes)
    return False if False in found else None if None in found else True


# --- options that are set once --------------------------------------------------------------------


def clash(groups: Iterable[Group], taken: MappingType[str, object]) -> str:
    """Return an option that groups set twice, or to something else than ``taken``; or empty."""
    known = dict(taken)
    for option, value in assignments(groups):
        if known.setdefault(option, value) != value:
            return option
    return ""


def assignments(groups: Iterable[Group]) -> Iterator[tuple[str, object]]:
    """Yield the options that groups of one alternative set, with their settings."""
    for group in groups:
        for term in group[0] if len(group) == 1 else ():
            if term.assignment[0]:
                yield term.assignment


# --- values and names -----------------------------------------------------------------------------


def is_feature(rule: Rule) -> bool:
    """Tell whether a rule asks for features of nodes by name, in the terms of all features."""
    return bool(rule.named) and not slot_of(rule.term)


def values_of(rule: Rule) -> Domain:
    """Return the values that the attribute of a rule has on hosts, by the mapping."""
    if rule.kind in ("min", "max", "range") or (rule.kind == "eq" and rule.flag):
        return SIZES
    if rule.kind == "bucket":
        return MISSING | (_named_values(rule, rule.buckets) if rule.complete else SIZES)
    if rule.kind == "eq" and rule.complete:
        return Domain(texts=_texts(rule, rule.features.values()))
    return {"eq": TEXTS, "member": LISTS, "bool": _BOOLEANS}.get(rule.kind, ANY)


def names_of(rule: Rule, value: Value) -> set[str] | None:
    """Return the batch system's names for a host's value; None for a value of a wrong kind."""
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
    """Return the folded texts that some names stand for."""
    wanted = set(names)
    return frozenset(ascii_fold(text) for text, name in rule.features.items() if name in wanted)


def _named_values(rule: Rule, names: Iterable[str]) -> Domain:
    """Return the values that some names stand for."""
    if rule.kind == "eq":
        return Domain(texts=_texts(rule, names))
    if rule.kind == "bool":
        several = [numbers("==", text == "true") for text in _texts(rule, names)]
    else:
        several = [bucket(*rule.buckets[name]) for name in names]
    return ~common([~domain for domain in several]) if several else NOTHING


def bucket(low: int, high: float) -> Domain:
    """Return the numbers of a bucket, both ends included; ``high`` is infinite for an open one."""
    return numbers(">=", low) & numbers("<=", high)


def of_domain(table: Mapping, rule: Rule, domain: Domain, *, sure: bool) -> tuple[list[Group], str]:
    """Translate the demand that the value of an attribute is in a domain."""
    if rule.kind in ("min", "max", "range") or (rule.kind == "eq" and rule.flag):
        return _number(table, rule, domain & SIZES, sure=sure)
    if rule.kind == "bucket":
        return _bucket(table, rule, domain, sure=sure)
    if rule.kind == "bool":
        return _boolean(table, rule, domain)
    if rule.kind == "eq":
        return _text(table, rule, domain & TEXTS, sure=sure)
    if domain == LISTS:
        return [], ""
    raise NoTermError(f"{table.lrms} can only be asked for a text in its list for {rule.attribute}")


def of_tag(table: Mapping, rule: Rule | None, tag: Tag, *, sure: bool) -> tuple[list[Group], str]:
    """Translate the demand that a list holds a text, or does not hold it."""
    if rule is None or rule.kind != "member":
        raise NoTermError(f"no flag for a text in a list of {tag.attribute}")
    wide = tag.has is not sure
    names, lost = _unmixed(rule, _names(rule, tag.text), {tag.text}, wide=wide)
    term = _named(rule, names) if tag.has else _without(table, rule, names)
    return [((term,),)], lost


def _names(rule: Rule, text: str) -> tuple[str, ...]:
    found = {name for known, name in rule.features.items() if ascii_fold(known) == text}
    if len(found) != 1:
        number = "several features" if found else "no feature"
        raise NoTermError(f"the mapping has {number} for {rule.attribute} {text!r}")
    return tuple(found)


def _unmixed(
    rule: Rule, names: Iterable[str], texts: Collection[str], *, wide: bool
) -> tuple[list[str], str]:
    """Drop the names that stand for other texts, too, unless ``wide``."""
    every = list(dict.fromkeys(names))
    mixed = [
        name for text, name in rule.features.items()
        if name in every and ascii_fold(text) not in texts
    ]  # fmt: skip
    if not mixed:
        return every, ""
    lost = f"feature {mixed[0]} stands for another {rule.attribute}, too"
    kept = every if wide else [name for name in every if name not in mixed]
    if not kept:
        raise NoTermError(lost)
    return kept, lost


def _without(table: Mapping, rule: Rule, names: Iterable[str]) -> FlagTerm:
    term = FlagTerm(rule, "name", names=tuple(names), negated=True)
    if not (rule.negate or (table.terms.not_ and not term.is_option)):
        raise NoTermError(f"{table.lrms} cannot be asked for hosts without a feature")
    return term


# --- numbers


def _number(table: Mapping, rule: Rule, domain: Domain, *, sure: bool) -> tuple[list[Group], str]:
    runs = [run for span in domain.spans if (run := _run(*span)) is not None]
    if not runs:
        raise NoTermError(f"no whole number of {rule.attribute} satisfies it")
    if len(runs) == 1:
        terms, lost = _span(table, rule, *runs[0], sure=sure)
        return [(terms,)] if terms else [], lost
    spans: list[tuple[tuple[FlagTerm, ...], str]] = []
    for low, high in runs:
        try:
            spans.append(_span(table, rule, low, high, sure=sure))
        except NoTermError:
            continue
    can_join = (
        len(spans) == len(runs)
        and not any(lost or not terms for terms, lost in spans)
        and table.terms.or_
        and not any(term.is_option for terms, _ in spans for term in terms)
    )
    if can_join:
        return [tuple(terms for terms, _ in spans)], ""
    lost = f"{table.lrms} can only be asked for one run of {rule.attribute}"
    if sure:
        if not spans:
            raise NoTermError(lost)
        return [(spans[0][0],)], lost
    terms, _ = _span(table, rule, runs[0][0], runs[-1][1], sure=sure)
    return [(terms,)] if terms else [], lost


def _span(
    table: Mapping, rule: Rule, low: int, high: int | None, *, sure: bool
) -> tuple[tuple[FlagTerm, ...], str]:
    """Translate a run of numbers from ``low`` to ``high``."""
    if rule.kind == "eq":
        if low != high:
            raise NoTermError(
                f"{table.lrms} can only be asked for an exact number of {rule.attribute}"
            )
        return (FlagTerm(rule, "count", low),), ""
    terms: list[FlagTerm] = []
    lost: list[str] = []
    for kind, bound in (("min", low), ("max", high)):
        if bound is None or (kind == "min" and bound <= 0):
            continue
        try:
            term, loss = _bound(table, rule, kind, bound, sure=sure)
            # A minimum of 0 is written nowhere.
            terms += [term] if kind == "max" or term.number else []
            lost += [loss] if loss else []
        except NoTermError as error:
            if sure:
                raise
            lost.append(str(error))
    if lost and not terms:
        raise NoTermError(lost[0])
    return tuple(terms), "; ".join(lost)


def _bound(
    table: Mapping, rule: Rule, kind: str, bound: int, *, sure: bool
) -> tuple[FlagTerm, str]:
    if not (rule.flag if kind == "min" else rule.greatest):
        known = "minimum" if rule.flag else "maximum"
        raise NoTermError(f"{table.lrms} can only be asked for a {known} of {rule.attribute}")
    exact = bound / rule.unit
    # A sure minimum is rounded up and a sure maximum down; one that excludes no good host,
    # the other way.
    up = (kind == "min") == sure
    fixed = rule.rounding != "safe" and exact.denominator != 1
    if fixed and up != (rule.rounding == "up"):
        raise NoTermError(f"the mapping rounds {rule.attribute} {rule.rounding}")
    number = math.ceil(exact) if up else math.floor(exact)
    if number > rule.most:
        raise NoTermError(
            f"{table.lrms} cannot be asked for {bound} of {rule.attribute}: the most is "
            f"{_decimal(rule.most * rule.unit)}"
        )
    rounded = f"{rule.attribute} is rounded to {_decimal(number * rule.unit)}"
    return FlagTerm(rule, kind, number), "" if number == exact else rounded


# --- names


def _text(table: Mapping, rule: Rule, domain: Domain, *, sure: bool) -> tuple[list[Group], str]:
    if domain.but and not domain.texts:
        return [], ""
    found: list[str] = []
    unknown = ""
    for text in sorted(domain.texts):
        try:
            found += _names(rule, text)
        except NoTermError as error:
            unknown = str(error)
    # Without the names for some texts, alternatives are fewer and exclusions are fewer: the
    # first is safe for terms that are sure, the second for others.
    if unknown and not (found and sure is not domain.but):
        raise NoTermError(unknown)
    names, mixed = _unmixed(rule, found, domain.texts, wide=sure is domain.but)
    if not domain.but:
        groups, lost = _any(table, rule, names, sure=sure)
        return groups, unknown or mixed or lost
    together = rule.negate and rule.join
    several = [tuple(names)] if together else [(name,) for name in names]
    return [((_without(table, rule, each),),) for each in several], unknown or mixed


def _boolean(table: Mapping, rule: Rule, domain: Domain) -> tuple[list[Group], str]:
    wanted = [value for value in (True, False) if value in domain]
    if len(wanted) != 1:
        return [], ""
    if wanted == [True]:
        return [((_named(rule, (rule.features["true"],)),),)], ""
    if "false" in rule.features:
        return [((_named(rule, (rule.features["false"],)),),)], ""
    return [((_without(table, rule, (rule.features["true"],)),),)], ""


def _bucket(table: Mapping, rule: Rule, domain: Domain, *, sure: bool) -> tuple[list[Group], str]:
    if MISSING & domain != NOTHING:
        raise NoTermError(f"no feature stands for a host without {rule.attribute}")
    values = {name: bucket(low, high) for name, (low, high) in rule.buckets.items()}
    touched = [name for name, each in values.items() if each & domain != NOTHING]
    if not sure and not rule.complete:
        left = domain & SIZES & common([~each for each in values.values()])
        runs = [run for span in left.spans if (run := _run(*span)) is not None]
        if runs:
            first, above = runs[0][0], all(high < runs[0][0] for _, high in rule.buckets.values())
            what = "the last one end with inf" if above else "one include it"
            raise NoTermError(
                f"no bucket of {rule.attribute} stands for {first}: let {what}, or say complete ="
                " true if no host has such a number"
            )
    whole = [name for name in touched if values[name] <= domain]
    names = whole if sure else touched
    if not names:
        raise NoTermError(f"no bucket of {rule.attribute} makes sure of it")
    groups, lost = _any(table, rule, names, sure=sure)
    width = "narrower" if sure else "wider"
    return groups, f"the buckets of {rule.attribute} are {width}" if whole != touched else lost


def _any(table: Mapping, rule: Rule, names: list[str], *, sure: bool) -> tuple[list[Group], str]:
    """Translate the demand for one of some names."""
    if len(names) == 1 or rule.join:
        return [((_named(rule, names),),)], ""
    several = [_named(rule, (name,)) for name in names]
    if table.terms.or_ and not any(term.is_option for term in several):
        return [tuple((term,) for term in several)], ""
    lost = f"{table.lrms} cannot be asked for one of several features of {rule.attribute}"
    if not sure:
        raise NoTermError(lost)
    return [((_named(rule, names[:1]),),)], lost


def _decimal(number: Fraction) -> str:
    """Write a number for people: integers in full, others with ten digits."""
    return str(number) if number.denominator == 1 else f"{float(number):.10g}"


def _named(rule: Rule, names: Iterable[str]) -> FlagTerm:
    return FlagTerm(rule, "name", names=tuple(names))


def _run(low: tuple[float, int], high: tuple[float, int]) -> tuple[int, int | None] | None:
    """Return the first and last integer between two cuts (None: open end); None without any."""
    if low[0] == math.inf:
        return None  # Beyond an open end stands infinity alone, which is no integer.
    first = math.floor(low[0]) + 1 if low[1] else math.ceil(low[0])
    if high[0] == math.inf:
        return first, None
    last = math.floor(high[0]) if high[1] else math.ceil(high[0]) - 1
    return (first, last) if first <= last else None
