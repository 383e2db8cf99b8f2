"""Translates sets of values of an attribute into terms, exactly or erring to one side."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from fractions import Fraction

import attrs

from matchmaker.batch.errors import NoTermError
from matchmaker.batch.mapping import Mapping
from matchmaker.batch.rules import Rule
from matchmaker.batch.terms import SIZES, Group, Term, bucket
from matchmaker.classad.operators import ascii_fold
from matchmaker.reduction.domains import LISTS, MISSING, NOTHING, TEXTS, Domain, Tag


@attrs.frozen(slots=True)
class Translator:
    """Translates conditions on one attribute into terms of one mapping.

    If ``sure``, the terms imply the condition; otherwise the condition implies the terms. Both
    methods return groups of terms and why they are not exact, empty if they are. They raise
    NoTermError if no terms imply the condition, or if it implies none.
    """

    table: Mapping
    sure: bool

    def domain(self, rule: Rule, domain: Domain) -> tuple[list[Group], str]:
        """The terms for an attribute whose value must be in a domain."""
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
        raise NoTermError(
            f"{self._who} can only be asked for a text in its list for {rule.attribute}"
        )

    def tag(self, rule: Rule | None, tag: Tag) -> tuple[list[Group], str]:
        """The terms for a text that a list must hold, or must not hold."""
        if rule is None or rule.kind != "member":
            raise NoTermError(f"no flag for a text in a list of {tag.attribute}")
        wide = tag.has is not self.sure
        names, lost = self._unmixed(rule, self._names(rule, tag.text), {tag.text}, wide=wide)
        term = _named(rule, names) if tag.has else self._without(rule, names)
        return [((term,),)], lost

    @property
    def _who(self) -> str:
        return self.table.lrms

    def _names(self, rule: Rule, text: str) -> tuple[str, ...]:
        found = {name for known, name in rule.features.items() if ascii_fold(known) == text}
        if len(found) != 1:
            number = "several features" if found else "no feature"
            raise NoTermError(f"the mapping has {number} for {rule.attribute} {text!r}")
        return tuple(found)

    def _unmixed(
        self, rule: Rule, names: Iterable[str], texts: Collection[str], *, wide: bool
    ) -> tuple[list[str], str]:
        """The names for texts, without those that stand for other texts too unless ``wide``."""
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

    def _without(self, rule: Rule, names: Iterable[str]) -> Term:
        if not (self.table.terms.not_ or rule.negate):
            raise NoTermError(f"{self._who} cannot be asked for hosts without a feature")
        return Term(rule, "name", names=tuple(names), negated=True)

    # --- numbers

    def _number(self, rule: Rule, domain: Domain) -> tuple[list[Group], str]:
        runs = [run for span in domain.spans if (run := _run(*span)) is not None]
        if not runs:
            raise NoTermError(f"no whole number of {rule.attribute} satisfies it")
        if len(runs) == 1:
            terms, lost = self._span(rule, *runs[0])
            return [(terms,)] if terms else [], lost
        spans: list[tuple[tuple[Term, ...], str]] = []
        for low, high in runs:
            try:
                spans.append(self._span(rule, low, high))
            except NoTermError:
                continue
        can_join = (
            len(spans) == len(runs)
            and not any(lost or not terms for terms, lost in spans)
            and self.table.terms.or_
            and not any(term.is_option for terms, _ in spans for term in terms)
        )
        if can_join:
            return [tuple(terms for terms, _ in spans)], ""
        lost = f"{self._who} can only be asked for one run of {rule.attribute}"
        if self.sure:
            if not spans:
                raise NoTermError(lost)
            return [(spans[0][0],)], lost
        terms, _ = self._span(rule, runs[0][0], runs[-1][1])
        return [(terms,)] if terms else [], lost

    def _span(self, rule: Rule, low: int, high: int | None) -> tuple[tuple[Term, ...], str]:
        """The terms for a number from ``low`` to ``high``."""
        if rule.kind == "eq":
            if low != high:
                raise NoTermError(
                    f"{self._who} can only be asked for an exact number of {rule.attribute}"
                )
            return (Term(rule, "count", low),), ""
        terms: list[Term] = []
        lost: list[str] = []
        for kind, bound in (("min", low), ("max", high)):
            if bound is None or (kind == "min" and bound <= 0):
                continue
            try:
                term, loss = self._bound(rule, kind, bound)
                terms.append(term)
                lost += [loss] if loss else []
            except NoTermError as error:
                if self.sure:
                    raise
                lost.append(str(error))
        if lost and not terms:
            raise NoTermError(lost[0])
        return tuple(terms), "; ".join(lost)

    def _bound(self, rule: Rule, kind: str, bound: int) -> tuple[Term, str]:
        if not (rule.flag if kind == "min" else rule.greatest):
            known = "minimum" if rule.flag else "maximum"
            raise NoTermError(f"{self._who} can only be asked for a {known} of {rule.attribute}")
        exact = bound / rule.unit
        # A sure minimum is rounded up and a sure maximum down; one that excludes no good host,
        # the other way.
        up = (kind == "min") == self.sure
        fixed = rule.rounding != "safe" and exact.denominator != 1
        if fixed and up != (rule.rounding == "up"):
            raise NoTermError(f"the mapping rounds {rule.attribute} {rule.rounding}")
        number = math.ceil(exact) if up else math.floor(exact)
        if number > rule.most:
            raise NoTermError(
                f"{self._who} cannot count {bound} of {rule.attribute}: the most is "
                f"{_decimal(rule.most * rule.unit)}"
            )
        rounded = f"{rule.attribute} is rounded to {_decimal(number * rule.unit)}"
        return Term(rule, kind, number), "" if number == exact else rounded

    # --- names

    def _text(self, rule: Rule, domain: Domain) -> tuple[list[Group], str]:
        if domain.but and not domain.texts:
            return [], ""
        found: list[str] = []
        unknown = ""
        for text in sorted(domain.texts):
            try:
                found += self._names(rule, text)
            except NoTermError as error:
                unknown = str(error)
        # Without the names for some texts, alternatives are fewer and exclusions are fewer: the
        # first is safe for terms that are sure, the second for others.
        if unknown and not (found and self.sure is not domain.but):
            raise NoTermError(unknown)
        names, mixed = self._unmixed(rule, found, domain.texts, wide=self.sure is domain.but)
        if not domain.but:
            groups, lost = self._any(rule, names)
            return groups, unknown or mixed or lost
        together = rule.negate and rule.join
        several = [tuple(names)] if together else [(name,) for name in names]
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
        if MISSING & domain != NOTHING:
            raise NoTermError(f"no feature stands for a host without {rule.attribute}")
        values = {name: bucket(low, high) for name, (low, high) in rule.buckets.items()}
        touched = [name for name, each in values.items() if each & domain != NOTHING]
        whole = [name for name in touched if values[name] <= domain]
        names = whole if self.sure else touched
        if not names:
            raise NoTermError(f"no bucket of {rule.attribute} makes sure of it")
        groups, lost = self._any(rule, names)
        width = "narrower" if self.sure else "wider"
        return groups, f"the buckets of {rule.attribute} are {width}" if whole != touched else lost

    def _any(self, rule: Rule, names: list[str]) -> tuple[list[Group], str]:
        """The terms for one of some names."""
        if len(names) == 1 or rule.join:
            return [((_named(rule, names),),)], ""
        if self.table.terms.or_:
            return [tuple((_named(rule, (name,)),) for name in names)], ""
        lost = f"{self._who} cannot be asked for one of several features of {rule.attribute}"
        if not self.sure:
            raise NoTermError(lost)
        return [((_named(rule, names[:1]),),)], lost


def _decimal(number: Fraction) -> str:
    """A number for people: integers in full, others with ten digits."""
    return str(number) if number.denominator == 1 else f"{float(number):.10g}"


def _named(rule: Rule, names: Iterable[str]) -> Term:
    return Term(rule, "name", names=tuple(names))


def _run(low: tuple[float, int], high: tuple[float, int]) -> tuple[int, int | None] | None:
    """The integers between two cuts, the second None without an end; None if there are none."""
    first = math.floor(low[0]) + 1 if low[1] else math.ceil(low[0])
    if high[0] == math.inf:
        return first, None
    last = math.floor(high[0]) if high[1] else math.ceil(high[0]) - 1
    return (first, last) if first <= last else None
