"""From published text to cleaned values of an ad, by the schema's types and the cleaning rules.

Follows the broker of the gLite middleware: an attribute with many values is a list, integers are
numbers, a bare true, false or undefined is that value, all else is a string. A text that does not
fit its type is reported and undefined: it is never guessed at. Each rule of `rules` has an id, is
switched off by leaving out the id, and reports the raw value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from matchmaker.classad import UNDEFINED, ClassAd, Value
from matchmaker.classad.values import MAX_INT
from matchmaker.glue.clean.rules import (
    ENTRY_RULES,
    RULES_OF_ACCESS,
    TEXT_RULES,
    UNLIMITED,
    CheckedEntry,
    TextRule,
)
from matchmaker.glue.entries import Attributes, Entry
from matchmaker.glue.issues import Issue, Report, issue
from matchmaker.glue.schema import Attribute, attribute

ALL_RULES: Final = frozenset([*(r.id for r in TEXT_RULES), *(r.id for r in ENTRY_RULES)])
ALWAYS: Final = frozenset({"clean.access-rule"})
"""Rules that cannot be switched off: no rule of access fails open."""
# The first of these contradicts clean.limit-unknown, the second makes a value up.
DEFAULT_RULES: Final = ALL_RULES - {"clean.limit-unlimited", "clean.cpu-time"}
VALIDATORS: Final = frozenset({"glue-validator", "gstat"})
"""Tools of EGI whose tests are made too, if the rules name them; they change no value."""


def check_rules(rules: frozenset[str]) -> None:
    """Raise ValueError for an id that no rule has.

    >>> check_rules(frozenset({"clean.colour"}))
    Traceback (most recent call last):
    ...
    ValueError: no cleaning rule is called 'clean.colour'
    """
    for unknown in sorted(rules - ALL_RULES - VALIDATORS):
        raise ValueError(f"no cleaning rule is called {unknown!r}")


def clean_text(name: str, text: str, rules: frozenset[str], say: Report) -> str | None:
    """Apply the rules that are on to one text; None for "not known".

    >>> found = []
    >>> clean_text("GlueCEStateStatus", "queuing", DEFAULT_RULES, found.append)
    'Queueing'
    >>> [finding.rule for finding in found]
    ['clean.status']
    """
    return _cleaned(name, text, _about(name, rules), say)


def _cleaned(name: str, text: str, rules: Iterable[TextRule], say: Report) -> str | None:
    meant = text
    for rule in rules:
        found = rule.apply(name, meant)
        if found != meant:
            say(issue(rule.id, rule.message, attribute=name, raw=text))
        if found is None:
            return None
        meant = found
    return meant


def _about(name: str, rules: frozenset[str]) -> tuple[TextRule, ...]:
    on = rules | ALWAYS
    return tuple(rule for rule in TEXT_RULES if rule.id in on and rule.about(name))


# No longer than 64 bits take; the lengths of the second keep the search linear.
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}\Z")
_REAL = re.compile(
    r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?\Z"
)
_BARE: Mapping[str, Value] = {"true": True, "false": False, "undefined": UNDEFINED}
# Most texts are longer, and need not be folded.
_LONGEST_BARE: Final = max(map(len, _BARE))


def typed(known: Attribute | None, text: str) -> Value | None:
    """Return the value of one published text; None if it does not fit the attribute's type.

    An attribute that the schema does not have is taken for a string. The text has no space around.
    A string of an ad cannot hold the character NUL.

    >>> from matchmaker.glue.schema import attribute
    >>> typed(attribute("GlueHostBenchmarkSI00"), "620")
    620
    >>> typed(attribute("GlueHostBenchmarkSI00"), "381 (dual)") is None
    True
    >>> typed(attribute("GlueHostNetworkAdapterOutboundIP"), "TRUE")
    True
    """
    bare = _BARE.get(text.lower()) if len(text) <= _LONGEST_BARE else None
    kind = "string" if known is None else known.classad
    if kind in ("integer", "real") and bare is not UNDEFINED:
        return _number(text, kind)
    if bare is not None or kind == "boolean" or "\0" in text:
        return bare
    return text


def _number(text: str, kind: str) -> int | float | None:
    if kind == "integer" and _INTEGER.match(text):
        return whole(int(text))
    if not _REAL.match(text):
        return None
    real = float(text)
    return real if abs(real) != float("inf") else None


def whole(number: float) -> int | None:
    """Round a number to an integer of an ad; None for one beyond 64 bits, and for no number.

    >>> whole(2.6), whole(9 * 10**18 * 9), whole(float("inf")), whole(float("nan"))
    (3, None, None, None)
    """
    return round(number) if abs(number) <= MAX_INT else None


class CleanValues(dict[str, Value]):
    """Values by attribute, and the issue of each that a rule changed or doubted."""

    __slots__ = ("_cleaned",)

    _cleaned: dict[str, Issue] | None  # most have none

    def __init__(self, *args: Any, **named: Value) -> None:
        super().__init__(*args, **named)
        self._cleaned = None

    @property
    def cleaned(self) -> dict[str, Issue]:
        """The issues by attribute."""
        if self._cleaned is None:
            self._cleaned = {}
        return self._cleaned

    def __copy__(self) -> CleanValues:
        made = CleanValues(self)
        made._cleaned = self._cleaned and dict(self._cleaned)
        return made

    def take(self, other: Mapping[str, Value], issues: Mapping[str, Issue] | None = None) -> None:
        """Add values, with the issues of their cleaning."""
        self.update(other)
        known = issues if issues is not None else getattr(other, "cleaned", {})
        for name in other if known or self._cleaned else ():
            self.cleaned.pop(name, None)
            if name in known:
                self.cleaned[name] = known[name]


_KEPT: Final = 1 << 17
"""Texts that a cleaner remembers in all. A grid of 3,000 queues has 115,000 that differ."""
_LONG: Final = 200
"""Longer texts are not kept: they do not come again."""


@attrs.define(slots=True)
class _Column:
    """An attribute by one spelling: its rules, and the values of texts met so far.

    `on_entries` are the rules on entries that have it, as bits by their place in `ENTRY_RULES`.
    `plain` has the value of each text in which no rule found anything, `doubted` that of each other
    text with the findings.
    """

    known: Attribute | None
    name: str
    multi: bool
    rules: tuple[TextRule, ...]
    on_entries: int
    plain: dict[str, Value] = attrs.Factory(dict)
    doubted: dict[str, tuple[Value, list[Issue]]] = attrs.Factory(dict)


@attrs.define(slots=True)
class Cleaner:
    """Cleans the entries of one source; it remembers the values of texts that come again.

    Entries are fresh or stale by the time `now`.
    """

    report: Report
    rules: frozenset[str] = DEFAULT_RULES
    now: datetime = attrs.Factory(lambda: datetime.now(UTC))
    _columns: dict[str, _Column] = attrs.field(factory=dict, init=False)
    _kept: int = attrs.field(default=0, init=False)

    def values(self, entry: Entry, report: Report | None = None) -> CleanValues:
        """Return the cleaned values of an entry by attribute, in the schema's spelling.

        A value that a rule found unusable is UNDEFINED, not absent: it hides the same attribute of
        another entry (of the CE under a VOView), as the published value would.
        """
        found = CleanValues()
        tell = self.report if report is None else report

        def say(finding: Issue) -> None:
            placed = attrs.evolve(finding, line=entry.line, dn=entry.dn)
            found.cleaned.setdefault(finding.attribute, placed)
            tell(placed)

        columns = self._columns
        on_entries = 0
        for spelling, texts in entry.attributes.values_by_name.items():
            column = columns.get(spelling) or self._column(spelling)
            on_entries |= column.on_entries
            if len(texts) == 1 and (only := column.plain.get(texts[0])) is not None:  # most are so
                if not column.multi:
                    found[column.name] = only
                else:
                    found[column.name] = [only] if only is not UNDEFINED else []
                continue
            kept = self._values(column, texts, say)
            if column.multi:
                found[column.name] = [value for value in kept if value is not UNDEFINED]
            elif kept:
                if len(kept) > 1 and column.known is not None:
                    said = "has one value by the schema; the first was taken"
                    raw = "; ".join(texts)
                    say(issue("typed.several", said, attribute=column.name, raw=raw))
                    kept = kept[:1]
                found[column.name] = kept[0] if len(kept) == 1 else kept
        if on_entries:
            case = CheckedEntry(found, entry.attributes, self.now, say, ENTRY_RULES[0])
            for place, rule in enumerate(ENTRY_RULES):
                if on_entries >> place & 1:
                    case.rule = rule
                    rule.apply(case)
        return found

    def _values(self, column: _Column, texts: Iterable[str], say: Report) -> list[Value]:
        """Return the values of the texts of one attribute, without those that are empty."""
        kept: list[Value] = []
        for raw in texts:
            value = column.plain.get(raw)
            if value is None:
                value, findings = column.doubted.get(raw) or self._met(column, raw)
                for finding in findings:
                    say(finding)
            if value is not None:
                kept.append(value)
        return kept

    def _column(self, spelling: str) -> _Column:
        known = attribute(spelling)
        name = spelling if known is None else known.name
        on_entries = sum(
            1 << place
            for place, rule in enumerate(ENTRY_RULES)
            if rule.id in self.rules and name in rule.about
        )
        multi = known is not None and known.multi
        made = _Column(known, name, multi, _about(name, self.rules), on_entries)
        self._remember()
        self._columns[spelling] = made
        return made

    def _met(self, column: _Column, raw: str) -> tuple[Value | None, list[Issue]]:
        """Clean and remember a new text: its value, None for an empty one, and the findings."""
        text = raw.strip()
        if not text and column.name not in RULES_OF_ACCESS:
            return None, []
        findings: list[Issue] = []
        meant = _cleaned(column.name, text, column.rules, findings.append)
        value = UNDEFINED if meant is None else typed(column.known, meant)
        if value is None:
            what = "string" if column.known is None else column.known.classad
            said = f"not of type {what}, taken as undefined"
            findings.append(issue("typed.mismatch", said, attribute=column.name, raw=raw))
            value = UNDEFINED
        if len(raw) <= _LONG:
            self._remember()
            if findings:
                column.doubted[raw] = value, findings
            else:
                column.plain[raw] = value
        return value, findings

    def _remember(self) -> None:
        """Count the remembered texts; forget all of them at the limit."""
        self._kept += 1
        if self._kept > _KEPT:
            self._columns.clear()
            self._kept = 0


def values(
    entry: Entry, report: Report, rules: frozenset[str] = DEFAULT_RULES, now: datetime | None = None
) -> CleanValues:
    """Clean one entry as a `Cleaner` does.

    >>> issues = []
    >>> entry = Entry("o=grid", Attributes([("gluecestatewaitingjobs", "444444"),
    ...                                     ("GlueForeignKey", "GlueClusterUniqueID=h")]))
    >>> values(entry, issues.append)
    {'GlueCEStateWaitingJobs': UNDEFINED, 'GlueForeignKey': ['GlueClusterUniqueID=h']}
    >>> print(issues[0].rule, issues[0].raw)
    clean.default-number 444444
    """
    return Cleaner(report, rules, now or datetime.now(UTC)).values(entry)


def doubts(ad: ClassAd, name: str, now: datetime | None = None) -> list[Issue]:
    """Return the findings of the rules in an ad's attributes of GLUE, as if they were published.

    >>> from matchmaker.classad import parse_ad
    >>> ad = parse_ad('[ GlueCEStateWaitingJobs = 444444; GlueCEStateFreeCPUs = "many"; X = 1 ]')
    >>> [(issue.rule, issue.attribute) for issue in doubts(ad, "q")]
    [('clean.default-number', 'GlueCEStateWaitingJobs'), ('typed.mismatch', 'GlueCEStateFreeCPUs')]
    """
    issues: list[Issue] = []
    values(Entry(name, Attributes(_published(ad))), issues.append, now=now)
    return issues


def _published(ad: ClassAd) -> Iterator[tuple[str, str]]:
    for name in ad:
        if attribute(name) is None:
            continue
        value = ad.eval(name)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, bool | int | float | str):
                yield name, str(item)


# 0 jobs is the usual way to publish no limit of these (clean.no-limit reads it back).
_ZERO_IS_NO_LIMIT = {"GlueCEPolicyMaxTotalJobs", "GLUE2ComputingShareMaxTotalJobs"}


def text_of(name: str, value: Value) -> str | None:
    """Write a value as a directory holds it; None if the attribute cannot hold it.

    >>> text_of("GlueHostNetworkAdapterOutboundIP", True), text_of("GlueCEStateFreeCPUs", 7)
    ('TRUE', '7')
    >>> text_of("GlueCEStateFreeCPUs", "many") is None
    True
    """
    known = attribute(name)
    if known is None or isinstance(value, ClassAd):
        return None
    if isinstance(value, bool):
        # GLUE 2.0 has its booleans as text, in small letters.
        return str(value).upper() if known.ldap == "boolean" else str(value).lower()
    if known.classad in ("integer", "real"):
        return _number_text(name, known.ldap, value)
    if known.ldap == "boolean" or not isinstance(value, str):
        return None
    text = value.strip()
    if not text or (known.version == "1.3" and not text.isascii()) or not text.isprintable():
        return None
    return text


def _number_text(name: str, ldap: str, value: Value) -> str | None:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    if abs(value) > MAX_INT:  # no reader takes it for a number
        return None
    if value == UNLIMITED and name in _ZERO_IS_NO_LIMIT:
        return "0"
    return str(round(value)) if ldap == "integer" else f"{value:.15g}"
