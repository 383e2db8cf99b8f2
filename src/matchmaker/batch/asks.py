"""What a rule of a mapping can say of a set of values: as asks, exactly or erring to one side.

An ``Ask`` is one thing that a batch system is asked for: at least so much, at most so much, one of
some names. What is asked for together is a list of groups; a group is alternatives, each some asks
that all must hold.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final, TypeAlias

import attrs

from matchmaker.batch.errors import UnsayableError
from matchmaker.batch.mapping import Mapping as Table
from matchmaker.batch.rules import Rule
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.values import Value
from matchmaker.reduction.domains import ANY, LISTS, MISSING, NOTHING, TEXTS, Domain, Tag, numbers

SIZES: Final = numbers(">=", 0)
_BOOLEANS: Final = numbers("==", 0) | numbers("==", 1)


@attrs.frozen(slots=True)
class Ask:
    """One thing asked of a host: a number at least or at most, or one of some names (or none)."""

    rule: Rule
    kind: str
    number: int = 0
    names: tuple[str, ...] = ()
    negated: bool = False

    @property
    def is_option(self) -> bool:
        """Whether it is an option of its own, which nothing else can be joined with."""
        return self.template.startswith("-")

    @property
    def template(self) -> str:
        """The template that it is put into."""
        known = {"min": self.rule.flag, "max": self.rule.greatest, "count": self.rule.flag}
        return known.get(self.kind, self.rule.term)

    @property
    def given(self) -> tuple[str, object]:
        """The option or resource that it gives a value to, if to one, and that value.

        Of several minima with one template the largest counts: they are the same.
        """
        if self.kind in ("min", "max"):
            return assigned(self.template), self.template
        return assigned(self.template), (self.template, self.number, self.names, self.negated)

    def admits(self, value: Value) -> bool | None:
        """Whether a host whose attribute has a value is admitted; None where none can say."""
        rule = self.rule
        if self.kind in ("min", "max", "count"):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                return None
            finite = isinstance(value, int) or math.isfinite(value)
            has = Fraction(value) / rule.unit if finite else value
            if self.kind == "count":
                return has == self.number
            return has >= self.number if self.kind == "min" else has <= self.number
        names = names_of(rule, value)
        return None if names is None else (not names.isdisjoint(self.names)) != self.negated


Group: TypeAlias = tuple[tuple[Ask, ...], ...]


_ASSIGNED: Final = re.compile(r"(--[^={<>]*)|([A-Za-z_][\w.]*)=(?!=)")


def assigned(template: str) -> str:
    """What a template gives a value to, so that a second value would undo the first; or nothing.

    >>> assigned("--mem={value}M"), assigned("-l h_vmem={value}G"), assigned("maxmem>={value}")
    ('--mem', 'h_vmem', '')
    """
    found = _ASSIGNED.match(template.removeprefix("-l "))
    return (found.group(1) or found.group(2)) if found else ""


def clash(groups: Iterable[Group], taken: Mapping[str, object]) -> str:
    """What groups give two values to, or another one than it is ``taken`` for; or nothing."""
    known = dict(taken)
    for what, value in all_given(groups):
        if known.setdefault(what, value) != value:
            return what
    return ""


def all_given(groups: Iterable[Group]) -> Iterator[tuple[str, object]]:
    """What groups of one alternative give a value to, and which."""
    for ask in (ask for group in groups if len(group) == 1 for ask in group[0]):
        if ask.given[0]:
            yield ask.given


def values_of(rule: Rule) -> Domain:
    """The values that hosts have, by the mapping's word."""
    if rule.kind in ("min", "max", "range") or (rule.kind == "eq" and rule.flag):
        return SIZES
    if rule.kind == "bucket":
        found = MISSING
        for low, high in rule.buckets.values():
            found = found | (numbers(">=", low) & numbers("<=", high))
        return found
    if rule.kind == "eq" and rule.complete:
        return Domain(texts=frozenset(map(ascii_fold, rule.features)))
    return {"eq": TEXTS, "member": LISTS, "bool": _BOOLEANS}.get(rule.kind, ANY)


def names_of(rule: Rule, value: Value) -> set[str] | None:
    """The batch system's names for a host's value; None for a value of a wrong kind."""
    if rule.kind == "bucket":
        if isinstance(value, bool) or not isinstance(value, (int, float)):
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


@attrs.frozen(slots=True)
class Speaker:
    """Says conditions in one mapping's terms, erring to one side.

    Of ``sure`` asks the condition follows; otherwise they follow from the condition. Both methods
    give the groups with what they lose in words, empty where they say it exactly, and raise
    UnsayableError where a sure speaker can say nothing, or another would say nothing at all.
    """

    table: Table
    sure: bool

    def domain(self, rule: Rule, domain: Domain) -> tuple[list[Group], str]:
        """The asks for an attribute whose value must be in a domain."""
        if rule.kind in ("min", "max", "range") or (rule.kind == "eq" and rule.flag):
            return self._number(rule, domain & SIZES)
        if rule.kind == "bucket":
            return self._bucket(rule, domain)
        if rule.kind == "bool":
            return self._boolean(rule, domain)
        if rule.kind == "eq":
            return self._text(rule, domain & TEXTS)
        if domain == LISTS:
            return [], ""
        raise UnsayableError(f"{self._who} can only be asked for a text in its list for "
                             f"{rule.attribute}")  # fmt: skip

    def tag(self, rule: Rule | None, tag: Tag) -> tuple[list[Group], str]:
        """The asks for a text that must be in a list, or must not be."""
        if rule is None or rule.kind != "member":
            raise UnsayableError(f"no flag for a text in a list of {tag.attribute}")
        wide = tag.has is not self.sure
        names, lost = self._apart(rule, self._names(rule, tag.text), {tag.text}, wide=wide)
        ask = _named(rule, names) if tag.has else self._without(rule, tuple(names))
        return [((ask,),)], lost

    @property
    def _who(self) -> str:
        return self.table.lrms

    def _names(self, rule: Rule, text: str) -> tuple[str, ...]:
        found = {name for known, name in rule.features.items() if ascii_fold(known) == text}
        if len(found) != 1:
            number = "several features" if found else "no feature"
            raise UnsayableError(f"the mapping has {number} for {rule.attribute} {text!r}")
        return tuple(found)

    def _apart(
        self, rule: Rule, names: Iterable[str], texts: Collection[str], *, wide: bool
    ) -> tuple[list[str], str]:
        """The names for texts, and what is lost where one stands for another text, too.

        Such a name is asked for only where more hosts than have the texts are the safe side.
        """
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
            raise UnsayableError(lost)
        return kept, lost

    def _without(self, rule: Rule, names: tuple[str, ...]) -> Ask:
        if not (self.table.terms.not_ or rule.negate):
            raise UnsayableError(f"{self._who} cannot be told what a host must not have")
        return Ask(rule, "name", names=names, negated=True)

    # --- numbers

    def _number(self, rule: Rule, domain: Domain) -> tuple[list[Group], str]:
        runs = [run for span in domain.spans if (run := _run(*span)) is not None]
        if not runs:
            raise UnsayableError(f"no whole number of {rule.attribute} will do")
        each: list[tuple[tuple[Ask, ...], str]] = []
        for low, high in runs:
            try:
                each.append(self._span(rule, low, high))
            except UnsayableError:
                if len(runs) == 1:
                    raise
        if len(runs) == 1:
            return [(each[0][0],)] if each[0][0] else [], each[0][1]
        joined = (
            len(each) == len(runs)
            and not any(lost or not asks for asks, lost in each)
            and self.table.terms.or_
            and not any(ask.is_option for asks, _ in each for ask in asks)
        )
        if joined:
            return [tuple(asks for asks, _ in each)], ""
        lost = f"{self._who} can only be asked for one run of {rule.attribute}"
        if self.sure:
            if not each:
                raise UnsayableError(lost)
            return [(each[0][0],)], lost
        asks, _ = self._span(rule, runs[0][0], runs[-1][1])
        return [(asks,)] if asks else [], lost

    def _span(self, rule: Rule, low: int, high: int | None) -> tuple[tuple[Ask, ...], str]:
        """The asks for a number of at least and at most so much."""
        if rule.kind == "eq":
            if low != high:
                raise UnsayableError(
                    f"{self._who} can only be asked for exactly so much {rule.attribute}"
                )
            return (Ask(rule, "count", low),), ""
        asks: list[Ask] = []
        lost: list[str] = []
        for kind, bound in (("min", low), ("max", high)):
            if bound is None or (kind == "min" and bound <= 0):
                continue
            try:
                ask, loss = self._bound(rule, kind, bound)
                asks.append(ask)
                lost += [loss] if loss else []
            except UnsayableError as error:
                if self.sure:
                    raise
                lost.append(str(error))
        if lost and not asks:
            raise UnsayableError(lost[0])
        return tuple(asks), "; ".join(lost)

    def _bound(self, rule: Rule, kind: str, bound: int) -> tuple[Ask, str]:
        if not (rule.flag if kind == "min" else rule.greatest):
            least = "at least" if rule.flag else "at most"
            raise UnsayableError(
                f"{self._who} can only be asked for {least} so much {rule.attribute}"
            )
        exact = bound / rule.unit
        # To be sure a minimum is rounded up and a maximum down; not to refuse a good host, the
        # other way.
        up = (kind == "min") == self.sure
        fixed = rule.rounding != "safe" and exact.denominator != 1
        if fixed and up != (rule.rounding == "up"):
            raise UnsayableError(f"the mapping rounds {rule.attribute} {rule.rounding}")
        number = math.ceil(exact) if up else math.floor(exact)
        if number > rule.most:
            raise UnsayableError(
                f"{self._who} cannot count so much {rule.attribute}: {bound} is more than "
                f"{_decimal(rule.most * rule.unit)}"
            )
        loss = (
            ""
            if number == exact
            else f"{rule.attribute} is rounded to {_decimal(number * rule.unit)}"
        )
        return Ask(rule, kind, number), loss

    # --- names

    def _text(self, rule: Rule, domain: Domain) -> tuple[list[Group], str]:
        if domain.but and not domain.texts:
            return [], ""
        found: list[str] = []
        unknown = ""
        for text in sorted(domain.texts):
            try:
                found += self._names(rule, text)
            except UnsayableError as error:
                unknown = str(error)
        # One text of several must not be missing where hosts that have it would be lost, or sure.
        if unknown and not (found and self.sure is not domain.but):
            raise UnsayableError(unknown)
        wide = self.sure is domain.but
        names, mixed = self._apart(rule, found, domain.texts, wide=wide)
        if not domain.but:
            groups, lost = self._any(rule, names)
            return groups, unknown or mixed or lost
        several = [tuple(names)] if rule.negate and rule.join else [(name,) for name in names]
        return [((self._without(rule, each),),) for each in several], unknown or mixed

    def _boolean(self, rule: Rule, domain: Domain) -> tuple[list[Group], str]:
        wanted = [value for value in (True, False) if value in domain]
        if len(wanted) != 1:
            return [], ""
        if wanted == [True]:
            return [((_named(rule, (rule.features["true"],)),),)], ""
        if "false" in rule.features:
            return [((_named(rule, (rule.features["false"],)),),)], ""
        return [((self._without(rule, (rule.features["true"],)),),)], ""

    def _bucket(self, rule: Rule, domain: Domain) -> tuple[list[Group], str]:
        whole, part = [], []
        for name, (low, high) in rule.buckets.items():
            bucket = numbers(">=", low) & numbers("<=", high)
            if bucket <= domain:
                whole.append(name)
            elif bucket & domain != NOTHING:
                part.append(name)
        if MISSING & domain != NOTHING:
            raise UnsayableError(f"no feature stands for a host without {rule.attribute}")
        names = whole if self.sure else [*whole, *part]
        if not names:
            raise UnsayableError(f"no bucket of {rule.attribute} will surely do")
        groups, lost = self._any(rule, [name for name in rule.buckets if name in names])
        said = f"the buckets of {rule.attribute} are {'wider' if not self.sure else 'narrower'}"
        return groups, said if part else lost

    def _any(self, rule: Rule, names: list[str]) -> tuple[list[Group], str]:
        """The asks for one of some names."""
        if len(names) == 1 or rule.join:
            return [((_named(rule, names),),)], ""
        if self.table.terms.or_:
            return [tuple((_named(rule, (name,)),) for name in names)], ""
        lost = f"{self._who} cannot be asked for one of several features of {rule.attribute}"
        if not self.sure:
            raise UnsayableError(lost)
        return [((_named(rule, names[:1]),),)], lost


def _decimal(number: Fraction) -> str:
    """A number for people: a whole one in full, another in as many digits as one reads."""
    return str(number) if number.denominator == 1 else f"{float(number):.10g}"


def _named(rule: Rule, names: Iterable[str]) -> Ask:
    return Ask(rule, "name", names=tuple(names))


def _run(low: tuple[float, int], high: tuple[float, int]) -> tuple[int, int | None] | None:
    """The whole numbers between two cuts, the second None without an end; None if there is none."""
    first = math.floor(low[0]) + 1 if low[1] else math.ceil(low[0])
    if high[0] == math.inf:
        return first, None
    last = math.floor(high[0]) if high[1] else math.ceil(high[0]) - 1
    return (first, last) if first <= last else None
