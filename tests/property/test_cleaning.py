"""Values of entries as a cleaner gives them, held to each rule applied by itself to each text."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from matchmaker.classad import UNDEFINED, Value
from matchmaker.glue.clean import ALL_RULES, ALWAYS, Cleaner, typed
from matchmaker.glue.clean.rules import (
    AT_MOST,
    ENTRY_RULES,
    OTHER,
    RULES_OF_ACCESS,
    SUMS,
    TABLES,
    TEXT_RULES,
    CheckedEntry,
)
from matchmaker.glue.entries import Attributes, Entry
from matchmaker.glue.issues import Issue, issue
from matchmaker.glue.schema import attribute, attributes

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
# Those that rules look at come often.
_RULED = sorted(
    {name for rule in ENTRY_RULES for name in rule.about}
    | {name for pair in AT_MOST for name in pair[:2]}
    | {name for total, parts, _ in SUMS for name in (total, *parts)}
    | {name for names in TABLES["figures"].values() for name in names}
    | {"GlueCEStateStatus", "GLUE2EntityValidity", "GlueHostArchitecturePlatformType"}
    | RULES_OF_ACCESS
)
_ALL = sorted({known.name for known in attributes().values()})
_TEXTS = (
    *("444444", "9999999", "999999999", "2147483647", "2146660842", "0", "12", "36", "720"),
    *("10080", "99", "-1", "1e400", "UNDEFINEDVALUE", "unset", "n.a", "N/A", "FIXME", "none"),
    *("/UNDEFINEDPATH", "", "  ", " 7 ", "true", "False", "undefined", "http://www.example.org/x"),
    *("h.invalid:8443", "example.organic", "amd64", "Intel(R) Xeon(R) Gold", "production"),
    *("Queuing", "CLOSED", "fine", "vo:cms", "VO:cms", " deny: VO:x", "EGEE", "DENY:ALL", "\0"),
    *("a\0b", "mailto:a@b.org", "a at b", "Cores=4,Benchmark=8.2-HEP-SPEC06"),
    *("2026-03-01T11:30:00Z", "2011-01-01T00:00:00", "3600"),
)  # fmt: skip


_TOGETHER = (
    ("GlueCEStateWaitingJobs", "444444"),
    ("GlueCEStateFreeCPUs", "0"),
    (OTHER, "Cores=4,Benchmark=8.2-HEP-SPEC06"),
)


def drawn(rnd: Random) -> Entry:
    """An entry with attributes of the schema and others, in any case, whose values repeat."""
    names = rnd.sample(_RULED, rnd.randrange(25)) + rnd.sample(_ALL, 6) + ["Other"]
    pairs = [
        (name if rnd.randrange(9) else name.lower(), _text(rnd))
        for name in names
        for _ in range(1 if rnd.randrange(5) else 2)
    ]
    if rnd.random() < 0.3:  # what chance hardly brings together
        pairs = [pair for pair in pairs if pair[0] not in dict(_TOGETHER)] + [*_TOGETHER]
    return Entry("GlueCEUniqueID=x,o=grid", Attributes(pairs), rnd.randrange(99))


def _text(rnd: Random) -> str:
    number = str(rnd.randrange(rnd.choice((20, 1000, 10**8))))
    return number if rnd.random() < 0.4 else rnd.choice(_TEXTS)


def applied(entry: Entry, rules: frozenset[str]) -> tuple[dict[str, Value], list[Issue]]:
    """The values and findings, every rule asked about every text, and nothing remembered."""
    found: dict[str, Value] = {}
    findings: list[Issue] = []
    for spelling, texts in entry.attributes.items():
        known = attribute(spelling)
        name = spelling if known is None else known.name
        kept: list[Value] = []
        for raw in texts:
            text: str | None = raw.strip()
            if not text and name not in RULES_OF_ACCESS:
                continue
            for rule in TEXT_RULES:
                if rule.id in rules | ALWAYS and rule.about(name) and text is not None:
                    before, text = text, rule.apply(name, text)
                    if text != before:
                        told = issue(rule.id, rule.message, attribute=name, raw=raw.strip())
                        findings.append(told)
            value = UNDEFINED if text is None else typed(known, text)
            if value is None:
                kind = "string" if known is None else known.classad
                said = f"not of type {kind}, taken as undefined"
                findings.append(issue("typed.mismatch", said, attribute=name, raw=raw))
                value = UNDEFINED
            kept.append(value)
        if known is not None and known.multi:
            found[name] = [value for value in kept if value is not UNDEFINED]
        elif len(kept) > 1 and known is not None:
            said = "has one value by the schema; the first was taken"
            findings.append(issue("typed.several", said, attribute=name, raw="; ".join(texts)))
            found[name] = kept[0]
        elif kept:
            found[name] = kept[0] if len(kept) == 1 else kept
    for judged in ENTRY_RULES:
        if judged.id in rules:
            judged.apply(CheckedEntry(found, entry.attributes, NOW, findings.append, judged))
    return found, findings


@given(
    st.integers(0, 2**32),
    st.sampled_from([ALL_RULES, frozenset[str](), ALL_RULES - {"clean.limit-unlimited"}]),
)
def test_a_cleaner_finds_in_entries_what_each_rule_finds_by_itself(
    seed: int, rules: frozenset[str]
) -> None:
    """What it remembers of texts and which rules it leaves out changes no value and finding."""
    rnd = Random(seed)
    some = [drawn(rnd) for _ in range(5)]
    findings: list[Issue] = []
    cleaner = Cleaner(findings.append, rules, NOW)
    for entry in (*some, *some):
        del findings[:]
        wanted, told = applied(entry, rules)
        assert list(cleaner.values(entry).items()) == list(wanted.items())
        about = [(i.rule, i.message, i.attribute, i.raw) for i in findings]
        assert about == [(i.rule, i.message, i.attribute, i.raw) for i in told]
        assert all((i.dn, i.line) == (entry.dn, entry.line) for i in findings)
