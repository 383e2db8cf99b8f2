"""From published text to values of an ad, by the schema's types.

Follows the broker of the gLite middleware: what is not single-valued is a list, integers are
numbers, a bare true, false or undefined is that value, all else is a string. A text that does not
fit its type is reported and undefined: it is never guessed at. Which texts stand for "not known" is
in `clean`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import attrs

from matchmaker.classad import UNDEFINED, ClassAd, Value
from matchmaker.classad.cache import Cache, size_of
from matchmaker.classad.values import MAX_INT
from matchmaker.glue.clean.rules import DEFAULT_RULES, clean_entry, clean_text
from matchmaker.glue.clean.texts import RULES_OF_ACCESS
from matchmaker.glue.entries import Attributes, Entry
from matchmaker.glue.issues import Issue, Report, issue
from matchmaker.glue.schema import Attribute, attribute

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}\Z")
_REAL = re.compile(
    r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?\Z"
)
_BARE: Mapping[str, Value] = {"true": True, "false": False, "undefined": UNDEFINED}


def typed(known: Attribute | None, text: str) -> Value | None:
    """The value of one published text; None where it does not fit the attribute's type.

    A string of an ad cannot hold the character NUL.

    Args:
        known: the attribute, or None for one that the schema does not have, taken for a string.
        text: as published, without surrounding space.

    >>> from matchmaker.glue.schema import attribute
    >>> typed(attribute("GlueHostBenchmarkSI00"), "620")
    620
    >>> typed(attribute("GlueHostBenchmarkSI00"), "381 (dual)") is None
    True
    >>> typed(attribute("GlueHostNetworkAdapterOutboundIP"), "TRUE")
    True
    """
    if text.lower() == "undefined":
        return UNDEFINED
    kind = "string" if known is None else known.classad
    if kind in ("integer", "real"):
        return _number(text, kind)
    bare = _BARE.get(text.lower())
    if kind == "boolean" or "\0" in text:
        return bare
    return text if bare is None else bare


def _number(text: str, kind: str) -> int | float | None:
    if kind == "integer" and _INTEGER.match(text):
        return whole(int(text))
    if not _REAL.match(text):
        return None
    real = float(text)
    return real if abs(real) != float("inf") else None


def whole(number: float) -> int | None:
    """A number as an integer of an ad, rounded; None for one beyond 64 bits, and for no number.

    >>> whole(2.6), whole(9 * 10**18 * 9), whole(float("inf")), whole(float("nan"))
    (3, None, None, None)
    """
    return round(number) if abs(number) <= MAX_INT else None


class Facts(dict[str, Value]):
    """Values by attribute, and for each that a rule changed or doubted the issue that says so."""

    __slots__ = ("cleaned",)

    def __init__(self, *args: Any, **named: Value) -> None:
        super().__init__(*args, **named)
        self.cleaned: dict[str, Issue] = {}

    def take(self, other: Mapping[str, Value], issues: Mapping[str, Issue] | None = None) -> None:
        """Add the values of another, with what is known of their cleaning."""
        self.update(other)
        known = issues if issues is not None else getattr(other, "cleaned", {})
        for name in other:
            self.cleaned.pop(name, None)
            if name in known:
                self.cleaned[name] = known[name]


def values(
    entry: Entry,
    report: Report,
    rules: frozenset[str] = DEFAULT_RULES,
    now: datetime | None = None,
) -> Facts:
    """The cleaned values of an entry by attribute, in the schema's spelling.

    A value that a rule found unusable is UNDEFINED, not absent: it hides what another entry (the CE
    under a VOView) says of the same attribute, as the published value would.

    >>> from matchmaker.glue.entries import Attributes, Entry
    >>> issues = []
    >>> entry = Entry("o=grid", Attributes([("gluecestatewaitingjobs", "444444"),
    ...                                     ("GlueForeignKey", "GlueClusterUniqueID=h")]))
    >>> values(entry, issues.append)
    {'GlueCEStateWaitingJobs': UNDEFINED, 'GlueForeignKey': ['GlueClusterUniqueID=h']}
    >>> print(issues[0].rule, issues[0].raw)
    clean.default-number 444444
    """
    found = Facts()

    def say(finding: Issue) -> None:
        placed = attrs.evolve(finding, line=entry.line, dn=entry.dn)
        found.cleaned.setdefault(finding.attribute, placed)
        report(placed)

    for spelling, texts in entry.attributes.values_by_name.items():
        known = attribute(spelling)
        name = spelling if known is None else known.name
        kept: list[Value] = []
        for raw in texts:
            value, findings = _meanings[spelling, raw, rules] or _meant(spelling, raw, rules)
            for finding in findings:
                say(finding)
            if value is not None:
                kept.append(value)
        if known is not None and known.multi:
            found[name] = [value for value in kept if value is not UNDEFINED]
        elif kept:
            if len(kept) > 1 and known is not None:
                said = "has one value by the schema; the first was taken"
                raw = "; ".join(texts)
                say(issue("typed.several", said, attribute=name, raw=raw))
            found[name] = kept[0] if known is not None or len(kept) == 1 else kept
    clean_entry(found, entry.attributes, rules, now or datetime.now(UTC), say)
    return found


_Meaning: TypeAlias = "tuple[Value | None, tuple[Issue, ...]]"

# The same few texts fill a dump: versions, statuses, zeros, tags of software.
_meanings: Final[Cache[tuple[str, str, frozenset[str]], _Meaning]] = Cache(
    "values of descriptions by text", 1 << 24
)
_LONG: Final = 200
"""Longer texts are not kept: they do not come again."""


def _meant(spelling: str, raw: str, rules: frozenset[str]) -> _Meaning:
    """The cleaned value of one text, None for an empty one, and what the rules found; kept."""
    meaning = _found(spelling, raw, rules)
    if len(spelling) + len(raw) <= _LONG:
        # Each finding holds the text once more.
        size = (2 + len(meaning[1])) * (size_of(spelling) + size_of(raw)) + size_of(meaning)
        _meanings.put((spelling, raw, rules), meaning, size)
    return meaning


def _found(spelling: str, raw: str, rules: frozenset[str]) -> _Meaning:
    known = attribute(spelling)
    name = spelling if known is None else known.name
    if not (text := raw.strip()) and name not in RULES_OF_ACCESS:
        return None, ()
    findings: list[Issue] = []
    cleaned = clean_text(name, text, rules, findings.append)
    value = UNDEFINED if cleaned is None else typed(known, cleaned)
    if value is None:
        what = "string" if known is None else known.classad
        said = f"not of type {what}, taken as undefined"
        findings.append(issue("typed.mismatch", said, attribute=name, raw=raw))
        value = UNDEFINED
    return value, tuple(findings)


def doubts(ad: ClassAd, name: str, now: datetime | None = None) -> list[Issue]:
    """What the rules would say of an ad's attributes of GLUE, were they published; it stays as is.

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
