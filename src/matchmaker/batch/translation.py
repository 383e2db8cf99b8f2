"""Translates sets of values of an attribute into terms, exactly or erring to one side.

If ``sure``, the terms imply the condition; otherwise the condition implies the terms. The functions
return groups of terms and why they are not exact, empty if they are. They raise NoTermError if no
terms imply the condition, or if it implies none.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from fractions import Fraction

from matchmaker.batch.errors import NoTermError
from matchmaker.batch.mapping import Mapping
from matchmaker.batch.rules import Rule
from matchmaker.batch.terms import SIZES, Group, Term, bucket
from matchmaker.classad.operators import ascii_fold
from matchmaker.reduction.domains import LISTS, MISSING, NOTHING, TEXTS, Domain, Tag, common


def of_domain(table: Mapping, rule: Rule, domain: Domain, *, sure: bool) -> tuple[list[Group], str]:
    """The terms for an attribute whose value must be in a domain."""
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
    """The terms for a text that a list must hold, or must not hold."""
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


def _without(table: Mapping, rule: Rule, names: Iterable[str]) -> Term:
    term = Term(rule, "name", names=tuple(names), negated=True)
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
    spans: list[tuple[tuple[Term, ...], str]] = []
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
) -> tuple[tuple[Term, ...], str]:
    """The terms for a number from ``low`` to ``high``."""
    if rule.kind == "eq":
        if low != high:
            raise NoTermError(
                f"{table.lrms} can only be asked for an exact number of {rule.attribute}"
            )
        return (Term(rule, "count", low),), ""
    terms: list[Term] = []
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


def _bound(table: Mapping, rule: Rule, kind: str, bound: int, *, sure: bool) -> tuple[Term, str]:
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
    return Term(rule, kind, number), "" if number == exact else rounded


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
    """The terms for one of some names."""
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
    """A number for people: integers in full, others with ten digits."""
    return str(number) if number.denominator == 1 else f"{float(number):.10g}"


def _named(rule: Rule, names: Iterable[str]) -> Term:
    return Term(rule, "name", names=tuple(names))


def _run(low: tuple[float, int], high: tuple[float, int]) -> tuple[int, int | None] | None:
    """The integers between two cuts, the second None without an end; None if there are none."""
    if low[0] == math.inf:
        return None  # Beyond an open end stands infinity alone, which is no integer.
    first = math.floor(low[0]) + 1 if low[1] else math.ceil(low[0])
    if high[0] == math.inf:
        return first, None
    last = math.floor(high[0]) if high[1] else math.ceil(high[0]) - 1
    return (first, last) if first <= last else None
