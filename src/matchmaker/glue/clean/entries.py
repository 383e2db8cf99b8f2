"""The cleaning rules on the values of one entry together: what makes sense beside what.

A rule gets a `Case` and changes its values in place, or only doubts them, as the cross-checks do:
values that cannot all be true are left. It names each and its raw text. Which are on, and who
applies them, is in `typed`; the attributes that they are about are in ``schemas/glue/rules.toml``.
EGI's glue-validator makes the same cross-checks for GLUE 2.0; a finding has its code beside ours.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs

from matchmaker._data import data_text
from matchmaker.classad import UNDEFINED, Value
from matchmaker.glue.clean.texts import UNLIMITED
from matchmaker.glue.issues import Report, issue
from matchmaker.glue.records import texts
from matchmaker.glue.schema import attribute

TABLES: Final[Mapping[str, Any]] = tomllib.loads(data_text("schemas", "glue", "rules.toml"))
OTHER: Final = "GlueHostProcessorOtherDescription"
SI00: Final = "GlueHostBenchmarkSI00"
HEPSPEC: Final = re.compile(
    r"Benchmark\s*=\s*\(?\s*([0-9]{1,6}(?:\.[0-9]{0,6})?)\s*\)?\s*-?\s*HEP-?SPEC06", re.IGNORECASE
)

HS06: Final = 250
"""SPECint2000 of one HEP-SPEC06: 4 HS06 are 1 kSI2k, by the convention of the LHC grid."""


@attrs.frozen(slots=True)
class EntryRule:
    """A rule on an entry.

    Attributes:
        id: what switches it and marks its findings.
        message: what it found and did, for people.
        apply: judges a `Case`.
        about: the attributes of which an entry has at least one if the rule can find anything.
    """

    id: str
    message: str
    apply: Callable[[Case], None]
    about: frozenset[str]


@attrs.define(slots=True)
class Case:
    """What a rule judges.

    Attributes:
        values: of the entry, typed and cleaned one by one.
        raw: the texts that were published.
        now: the time by which entries are fresh or stale.
        report: called for each finding.
        rule: that is applied.
    """

    values: MutableMapping[str, Value]
    raw: Mapping[str, tuple[str, ...]]
    now: datetime
    report: Report
    rule: EntryRule

    def say(self, name: str, text: str, more: str = "") -> None:
        """Reports a finding: the attribute, its raw text, and what to add to the rule's message."""
        message = f"{self.rule.message}: {more}" if more else self.rule.message
        self.report(issue(self.rule.id, message, attribute=name, raw=text))

    def number(self, name: str) -> int | float | None:
        """The number that an attribute holds."""
        found = self.values.get(name)
        return found if type(found) is int or type(found) is float else None

    def put(self, name: str, value: Value, more: str = "") -> None:
        """Changes a value, and reports it."""
        self.values[name] = value
        self.doubt(name, more)

    def doubt(self, name: str, more: str = "") -> None:
        """Leaves a value, and reports it."""
        self.say(name, "; ".join(self.raw.get(name, ())), more)


_NAMES: Final = TABLES["names"]


def no_dynamic_information(case: Case) -> None:
    """444444 waiting and nothing free: none of the queue's figures are known, the zeros neither."""
    for waiting, names in TABLES["figures"].items():
        if case.values.get(names[0]) == 0 and "444444" in case.raw.get(waiting, ()):
            for name in names:
                if case.values.get(name) == 0:
                    case.put(name, UNDEFINED)


_CPU_TIMES: Final = _NAMES["cpu_times"]
_USUAL_HOURS = {12, 24, 36, 48, 168}


def cpu_time_from_wall_time(case: Case) -> None:
    """Without a limit on CPU time, 0.8 of that on wall time, as DIRAC has it. Off by default."""
    for cpu, wall in (_CPU_TIMES[0], _CPU_TIMES[2]):
        limit = case.values.get(wall)
        if cpu not in case.raw and isinstance(limit, int):
            case.put(cpu, limit if limit == UNLIMITED else limit * 4 // 5)


def small_unit(case: Case) -> None:
    """A limit of 12, 24, 36, 48 or 168 minutes of CPU time is as many hours, in the wrong unit.

    GLUE 1.3 has minutes and some publish hours; GLUE 2.0 has seconds and some publish minutes. The
    limit of wall time beside it is mended where it is such a number too, or would be the lower of
    the two: CERN has published 10080 and 30240 minutes as seconds.
    """
    for names in _CPU_TIMES:
        for name in names:
            known, number = attribute(name), case.number(name)
            if known is None or number is None:
                break
            minutes = number / 60 if known.unit == "seconds" else number
            mended = name != names[0] and number < (case.number(names[0]) or 0)
            if minutes not in _USUAL_HOURS and not mended:
                break
            _times_sixty(case, name, number)


_SHARE_TIME = re.compile(r"GLUE2ComputingShare\w+?(CPU|Wall)Time")


def _times_sixty(case: Case, name: str, number: float) -> None:
    """Converts a limit, and those beside it that were published with the same number."""
    alike = [name]
    if kind := _SHARE_TIME.fullmatch(name):
        times = ((n, _SHARE_TIME.fullmatch(n)) for n in case.values if n != name)
        alike += [n for n, m in times if m and m[1] == kind[1] and case.number(n) == number]
    for each in alike:
        case.put(each, int(number * 60))


def no_limit(case: Case) -> None:
    """At most 0 jobs is no limit: a queue for none would be closed."""
    for name in _NAMES["total_jobs"]:
        if case.values.get(name) == 0:
            case.put(name, UNLIMITED)


MOST_SLOTS: Final = 1_000_000
"""Slots that a job may ask for; the largest machines of the world have as many nodes at most."""


def slots_per_job(case: Case) -> None:
    """More slots a job than any machine has, or fewer than one: not known."""
    for name in _NAMES["slots"]:
        number = case.number(name)
        if number is not None and number != UNLIMITED and not 1 <= number <= MOST_SLOTS:
            case.put(name, UNDEFINED)


def memory_size(case: Case) -> None:
    """More than 4 TB or less than 100 MB of memory is doubted, and left: it may be true."""
    for name in _NAMES["memory"]:
        number = case.number(name)
        if number is not None and number != UNLIMITED and not 100 <= number <= 4_000_000:
            case.doubt(name)


def benchmark(case: Case) -> None:
    """SI00 where only the processor's other description has a speed, in HEP-SPEC06 a core.

    The text is ``Cores=4,Benchmark=8.2-HEP-SPEC06``, with spaces and brackets in the wild.
    """
    text = case.values.get(OTHER)
    if not isinstance(text, str) or case.number(SI00):
        return
    if found := HEPSPEC.search(text[:1000]):
        case.values[SI00] = round(float(found[1]) * HS06)
        case.say(SI00, text)


_YEAR = timedelta(days=365)
_CREATED, _VALID = "GLUE2EntityCreationTime", "GLUE2EntityValidity"


def moment(text: object) -> datetime | None:
    """A time as GLUE 2.0 has it, ``2013-05-27T12:00:00Z``; without a zone it is UTC.

    >>> moment("2013-05-27T12:00:00Z")
    datetime.datetime(2013, 5, 27, 12, 0, tzinfo=datetime.timezone.utc)
    >>> moment("yesterday") is None
    True
    """
    if not isinstance(text, str) or not text[:1].isdecimal():
        return None
    try:
        time = datetime.fromisoformat(text.strip())
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def stale(case: Case) -> None:
    """An entry past its validity, from the future, or older than a year: doubted, and left."""
    created = moment(case.values.get(_CREATED))
    if created is None:
        return
    valid = case.number(_VALID)
    age = case.now - created
    if age < timedelta(minutes=-10):  # clocks differ
        case.doubt(_CREATED, "it is from the future")
    elif age > _YEAR:
        case.doubt(_CREATED, "it is older than a year")
    elif valid is not None and age.total_seconds() > valid:
        case.doubt(_CREATED, f"it was valid for {valid:g} s")


# Cross-checks

AT_MOST: Final = tuple((small, large, code) for small, large, code in TABLES["at_most"])
SUMS: Final = tuple(
    (total, tuple(facts["of"]), facts["code"]) for total, facts in TABLES["sums"].items()
)
MAIL: Final[Mapping[str, str]] = TABLES["mail"]

_ADDRESS: Final = re.compile(
    r"(?:mailto:)?\s{0,9}[^\s@:]{1,200}@[\w-]{1,80}(?:\.[\w-]{1,80}){1,10}(?:\?\S{0,500})?\s{0,9}"
)


def _said(text: str, code: str) -> str:
    return f"{text} (glue-validator {code})" if code else text


def order(case: Case) -> None:
    """A lower bound above its upper one, or more of a part than of the whole."""
    for name, large, code in AT_MOST:
        if name not in case.values or large not in case.values:
            continue
        number, other = case.number(name), case.number(large)
        if number is None or other is None or UNLIMITED in (number, other):
            continue
        if number > other:
            case.doubt(name, _said(f"it is above {large}, which is {other}", code))


def sums(case: Case) -> None:
    """A total of jobs unlike what it is the sum of, by more than a tenth."""
    for name, parts, code in SUMS:
        if (total := case.number(name)) is None:
            continue
        known = [number for part in parts if (number := case.number(part)) is not None]
        if not known or (len(known) < 2 and sum(known) <= total):
            continue
        if abs(sum(known) - total) > total / 10:
            case.doubt(name, _said(f"its parts make {sum(known)}", code))


def speeds(case: Case) -> None:
    """SI00 and HEP-SPEC06 that differ by more than a tenth, at 250 SI00 a HEP-SPEC06."""
    number, text = case.number(SI00), case.values.get(OTHER)
    if not number or not isinstance(text, str) or SI00 not in case.raw:
        return
    if found := HEPSPEC.search(text[:1000]):
        score = float(found[1]) * HS06
        if abs(score - number) > number / 10:
            case.doubt(SI00, f"{found[1]} HEP-SPEC06 beside it are {score:g}")


def mail(case: Case) -> None:
    """A malformed address of mail."""
    for name in MAIL:
        for text in texts(case.values.get(name)):
            # A contact of GLUE 2.0 may be the address of a page.
            page = name == "GLUE2ContactDetail" and text.startswith(("http:", "https:"))
            parts = re.split("[;,]", text[:10_000])
            if not page and not all(map(_ADDRESS.fullmatch, parts)):
                case.say(name, text, _said("expected is mailto:name@host", MAIL[name]))


def _all(rows: Iterable[Iterable[str]]) -> frozenset[str]:
    return frozenset(name for row in rows for name in row)


ENTRY_RULES: Final = (
    EntryRule(
        "clean.no-dynamic-information",
        "the provider had no figures, taken as undefined",
        no_dynamic_information,
        frozenset(TABLES["figures"]),
    ),
    EntryRule(
        "clean.unit",
        "a number of the next larger unit, converted",
        small_unit,
        _all(_CPU_TIMES),
    ),
    EntryRule(
        "clean.cpu-time",
        "taken as 0.8 of the wall time",
        cpu_time_from_wall_time,
        _all(_CPU_TIMES),
    ),
    EntryRule(
        "clean.no-limit", "0 jobs, taken as no limit", no_limit, frozenset(_NAMES["total_jobs"])
    ),
    EntryRule(
        "clean.slots-per-job",
        "no number of slots, taken as undefined",
        slots_per_job,
        frozenset(_NAMES["slots"]),
    ),
    EntryRule(
        "clean.memory-size",
        "suspicious: more than 4 TB or less than 100 MB",
        memory_size,
        frozenset(_NAMES["memory"]),
    ),
    EntryRule(
        "clean.benchmark", f"SI00 taken as {HS06} times HEP-SPEC06", benchmark, frozenset({OTHER})
    ),
    EntryRule("clean.stale", "not a current entry", stale, frozenset({_CREATED})),
    EntryRule(
        "clean.order",
        "doubtful",
        order,
        _all(pair[:2] for pair in AT_MOST),
    ),
    EntryRule("clean.sum", "doubtful total", sums, frozenset(total for total, _, _ in SUMS)),
    EntryRule("clean.speed", "doubtful", speeds, frozenset({SI00})),
    EntryRule("clean.mail", "no address of mail", mail, frozenset(MAIL)),
)
"""Those that change values, and then the cross-checks."""
