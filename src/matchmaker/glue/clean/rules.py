"""The cleaning rules: what providers publish in place of a fact, on one text and on one entry.

A `TextRule` judges one text: the placeholders of the GLUE 1.3 specification, the checks of
glue-validator, and the defaults of widespread information providers. An `EntryRule` gets a
`CheckedEntry` and judges values together: it changes them in place, or only doubts values that
cannot all be true. Each finding has the raw text, and the code of EGI's glue-validator where that
makes the same check. `Cleaner` applies the rules; the attributes that they are about are in
``schemas/glue/rules.toml``.
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
from matchmaker.glue.access import POLICY_RULE, RULES, UNREADABLE, is_rule
from matchmaker.glue.issues import Report, issue
from matchmaker.glue.records import texts
from matchmaker.glue.schema import attribute

UNLIMITED: Final = 999_999_999
"""The value of a limit under the rule ``clean.limit-unlimited``: the number that templates publish.
So a limit has three states: a number, UNDEFINED (not known), and this (none)."""


@attrs.frozen(slots=True)
class TextRule:
    """A rule on one text.

    `apply` maps an attribute's name and a text to the text that is meant: the same one, another, or
    None for "not known". `about` tells whether it can find anything in an attribute of a name.
    """

    id: str
    message: str
    apply: Callable[[str, str], str | None]
    about: Callable[[str], bool]


# Four fours or nines may be a count: 4444 jobs, 9999 minutes.
_SAME_DIGIT = re.compile(r"(?:4{6,}|9{5,})\Z")
_PLACEHOLDER = re.compile(
    r"UNDEFINEDVALUE(?:\s*:.*)?|/?UNDEFINEDPATH(?:/.*)?|UNDEFINEDUSER"
    r"|192\.0\.2\.250|2001:DB8::FFFF"
    r"|unset|not defined|n\.a\.?|n/a|FIXME|none",
    re.IGNORECASE | re.DOTALL,
)
# Looked at first: few texts begin so, and the pattern is slow.
_PLACEHOLDERS_BEGIN = frozenset("Uu/12NnFf")
_EXAMPLE_HOST = re.compile(r"(?:^|[/@:.])(?:example\.org|[\w-]+\.invalid)(?=$|[:/])", re.IGNORECASE)
# The schema has four states; Queuing is the usual misspelling of one.
_STATUS = {
    "production": "Production",
    "closed": "Closed",
    "draining": "Draining",
    "queueing": "Queueing",
    "queuing": "Queueing",
}
_AMD64 = re.compile(r"amd64|x64|em64t|intel64|x86[-_]64|Intel\(R\) Xeon\(R\).*", re.IGNORECASE)
_PLATFORMS = {"GlueHostArchitecturePlatformType", "GLUE2ExecutionEnvironmentPlatform"}
_STATUSES = {"GlueCEStateStatus"}
_SERVING = {"GLUE2ComputingShareServingState", "GLUE2EndpointServingState"}
RULES_OF_ACCESS: Final = frozenset({RULES, POLICY_RULE})
"""The attributes that hold the rules of access of queues."""


def default_number(name: str, text: str) -> str | None:
    """Take 444444 and its like, which a provider prints when it could not find out, for unknown.

    So are a number of six or more fours and, in a limit, one of five or more nines. Numbers that
    mean "no limit" to some are left to the limit rules.

    >>> default_number("GlueCEStateWaitingJobs", "444444") is None
    True
    >>> default_number("GlueCEStateWaitingJobs", "44")
    '44'
    """
    known = attribute(name)
    if known is None or not text.isdecimal() or is_limit(name, text):
        return text
    if text in map(str, known.sentinel):
        return None
    counted = known.scope == "policy" or bool(known.sentinel)
    if not counted or not _SAME_DIGIT.match(text):
        return text
    return None if text[0] == "4" or known.scope == "policy" else text


def response_time(name: str, text: str) -> str | None:
    """Take 2146660842 seconds, the default of response times, for unknown.

    >>> response_time("GlueCEStateWorstResponseTime", "2146660842") is None
    True
    """
    known = attribute(name)
    times = known is not None and 2146660842 in known.sentinel
    return None if times and text == "2146660842" else text


# GLUE 1.3 has the first; the others are the greatest of 18 digits and of 32 bits.
_NO_LIMIT = frozenset({"999999999", "9" * 18, "2147483647"})


def is_limit(name: str, text: str) -> bool:
    """Whether a text is a number that is published both for "not known" and for "no limit"."""
    known = attribute(name)
    return known is not None and known.scope == "policy" and text in _NO_LIMIT


def limit_unknown(name: str, text: str) -> str | None:
    """Take 999999999 as a limit for "not known", as the GLUE specification says.

    >>> limit_unknown("GlueCEPolicyMaxCPUTime", "999999999") is None
    True
    """
    return None if is_limit(name, text) else text


def limit_unlimited(name: str, text: str) -> str | None:
    """Take 999999999 as a limit for "no limit", as templates of providers mean it. Off by default.

    >>> limit_unlimited("GlueCEPolicyMaxCPUTime", "2147483647")
    '999999999'
    """
    return str(UNLIMITED) if is_limit(name, text) else text


def placeholder(name: str, text: str) -> str | None:
    """Take the specification's UNDEFINEDVALUE, and others found in the wild, for unknown.

    >>> placeholder("GlueHostProcessorModel", "n.a") is None
    True
    """
    return None if text[:1] in _PLACEHOLDERS_BEGIN and _PLACEHOLDER.fullmatch(text) else text


def example_host(name: str, text: str) -> str | None:
    """Take a host of example.org or .invalid, placeholders of the specification, for unknown.

    >>> example_host("GlueSiteWeb", "http://www.example.org/") is None
    True
    """
    folded = text.lower()
    if "example.org" not in folded and ".invalid" not in folded:
        return text  # as nearly all are, for a tenth of the time of the pattern
    return None if _EXAMPLE_HOST.search(text) else text


def platform(name: str, text: str) -> str | None:
    """Spell x86_64 in one way, down to a processor's name. Never guesses from an unknown name.

    >>> platform("GlueHostArchitecturePlatformType", "amd64")
    'x86_64'
    """
    return "x86_64" if name in _PLATFORMS and _AMD64.fullmatch(text) else text


def case(name: str, text: str) -> str | None:
    """Write ``VO:`` for ``vo:`` and ``Production`` for ``production``.

    Space within a rule is dropped only if it denies: no mending admits anybody.

    >>> case("GlueCEAccessControlBaseRule", "vo:EGEE"), case("GlueCEStateStatus", "CLOSED")
    ('VO:EGEE', 'Closed')
    """
    if name in RULES_OF_ACCESS:
        prefix, colon, rest = text.partition(":")
        if colon and (kind := prefix.strip().upper()) in ("VO", "VOMS", "DENY"):
            return f"DENY:{rest.strip()}" if kind == "DENY" else f"{prefix.upper()}:{rest}"
    if name in _STATUSES and (meant := _STATUS.get(text.lower())) and meant.lower() == text.lower():
        return meant
    return text


def status(name: str, text: str) -> str | None:
    """Spell the state of a queue: Production, Closed, Draining or Queueing; None for another.

    >>> status("GlueCEStateStatus", "Queuing"), status("GlueCEStateStatus", "fine") is None
    ('Queueing', True)
    """
    if name in _SERVING:  # GLUE 2.0 spells them small, and must have one
        if text == "undefined":
            return text
        meant = _STATUS.get(text.lower())
        return text if meant == text.capitalize() else meant and meant.lower()
    if name not in _STATUSES or text in _STATUS.values():
        return text
    return _STATUS.get(text.lower())


def access_rule(name: str, text: str) -> str | None:
    """Mark a text that cannot be a rule of access, so that its policy admits nobody.

    >>> access_rule("GlueCEAccessControlBaseRule", "EGEE")
    'unreadable'
    """
    return text if name not in RULES_OF_ACCESS or is_rule(text) else UNREADABLE


def _texts(name: str) -> bool:
    # A rule of access names no host, and one that denies must not be taken for nothing.
    known = attribute(name)
    return name not in RULES_OF_ACCESS and (known is None or known.classad == "string")


def _limits(name: str) -> bool:
    known = attribute(name)
    return known is not None and known.scope == "policy"


def _counts(name: str) -> bool:
    known = attribute(name)
    return _limits(name) or (known is not None and bool(known.sentinel))


def _spelt(name: str) -> bool:
    return name in RULES_OF_ACCESS | _STATUSES | _SERVING


TEXT_RULES: Final = (
    TextRule("clean.placeholder", "a placeholder, taken as undefined", placeholder, _texts),
    TextRule("clean.example-host", "a placeholder host, taken as undefined", example_host, _texts),
    TextRule("clean.response-time", "a provider's default time, taken as undefined", response_time,
             _counts),
    TextRule("clean.limit-unlimited", "a placeholder limit, taken as no limit", limit_unlimited,
             _limits),
    TextRule("clean.limit-unknown", "a placeholder limit, taken as undefined", limit_unknown,
             _limits),
    TextRule("clean.default-number", "a provider's default, taken as undefined", default_number,
             _counts),
    TextRule("clean.platform", "another name of x86_64", platform, _PLATFORMS.__contains__),
    TextRule("clean.case", "another case", case, _spelt),
    TextRule("clean.status", "not a status of a queue as the schema spells it", status, _spelt),
    TextRule(
        "clean.access-rule",
        "not a rule of access; the policy or queue that has it admits nobody by its own rules",
        access_rule, RULES_OF_ACCESS.__contains__,
    ),
)  # fmt: skip

TABLES: Final[Mapping[str, Any]] = tomllib.loads(data_text("schemas", "glue", "rules.toml"))
OTHER: Final = "GlueHostProcessorOtherDescription"
SI00: Final = "GlueHostBenchmarkSI00"
# Bounded numbers, since the text is a stranger's.
HEPSPEC: Final = re.compile(
    r"Benchmark\s*=\s*\(?\s*([0-9]{1,6}(?:\.[0-9]{0,6})?)\s*\)?\s*-?\s*HEP-?SPEC06", re.IGNORECASE
)

HS06: Final = 250
"""SPECint2000 of one HEP-SPEC06: 4 HS06 are 1 kSI2k, by the convention of the LHC grid."""


@attrs.frozen(slots=True)
class EntryRule:
    """A rule on an entry, which needs at least one of the attributes that it is `about`."""

    id: str
    message: str
    apply: Callable[[CheckedEntry], None]
    about: frozenset[str]


@attrs.define(slots=True)
class CheckedEntry:
    """An entry for a rule to judge: its typed and cleaned values, and the published texts."""

    values: MutableMapping[str, Value]
    raw: Mapping[str, tuple[str, ...]]
    now: datetime
    report: Report
    rule: EntryRule

    def say(self, name: str, text: str, more: str = "") -> None:
        """Report a finding: the attribute, its raw text, and an addition to the rule's message."""
        message = f"{self.rule.message}: {more}" if more else self.rule.message
        self.report(issue(self.rule.id, message, attribute=name, raw=text))

    def number(self, name: str) -> int | float | None:
        """Return the number that an attribute holds, or None."""
        found = self.values.get(name)
        return found if type(found) is int or type(found) is float else None

    def put(self, name: str, value: Value, more: str = "") -> None:
        """Change a value, and report it."""
        self.values[name] = value
        self.doubt(name, more)

    def doubt(self, name: str, more: str = "") -> None:
        """Report a value, and leave it."""
        self.say(name, "; ".join(self.raw.get(name, ())), more)


_NAMES: Final = TABLES["names"]


def no_dynamic_information(case: CheckedEntry) -> None:
    """Take the zeros beside 444444 waiting jobs for unknown: the provider had no figures."""
    for waiting, names in TABLES["figures"].items():
        if case.values.get(names[0]) == 0 and "444444" in case.raw.get(waiting, ()):
            for name in names:
                if case.values.get(name) == 0:
                    case.put(name, UNDEFINED)


_CPU_TIMES: Final = _NAMES["cpu_times"]
# Half a day to a week: as minutes, no queue for grid jobs would be so short.
_USUAL_HOURS = {12, 24, 36, 48, 168}


def cpu_time_from_wall_time(case: CheckedEntry) -> None:
    """Limit CPU time to 0.8 of the wall time, as DIRAC does. Off by default."""
    for cpu, wall in (_CPU_TIMES[0], _CPU_TIMES[2]):
        limit = case.values.get(wall)
        if cpu not in case.raw and isinstance(limit, int):
            case.put(cpu, limit if limit == UNLIMITED else limit * 4 // 5)


def small_unit(case: CheckedEntry) -> None:
    """Convert a limit of 12, 24, 36, 48 or 168 minutes of CPU time, which is as many hours.

    GLUE 1.3 has minutes and some publish hours; GLUE 2.0 has seconds and some publish minutes. The
    limit of wall time beside it is mended if it is such a number too, or would be the lower of the
    two: CERN has published 10080 and 30240 minutes as seconds.
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


def _times_sixty(case: CheckedEntry, name: str, number: float) -> None:
    """Convert a limit, and those beside it that were published with the same number."""
    alike = [name]
    if kind := _SHARE_TIME.fullmatch(name):
        times = ((n, _SHARE_TIME.fullmatch(n)) for n in case.values if n != name)
        alike += [n for n, m in times if m and m[1] == kind[1] and case.number(n) == number]
    for each in alike:
        case.put(each, int(number * 60))


def no_limit(case: CheckedEntry) -> None:
    """Take a limit of 0 jobs for none: a queue for no jobs would be closed."""
    for name in _NAMES["total_jobs"]:
        if case.values.get(name) == 0:
            case.put(name, UNLIMITED)


MOST_SLOTS: Final = 1_000_000
"""Slots that a job may ask for; the largest machines of the world have as many nodes at most."""


def slots_per_job(case: CheckedEntry) -> None:
    """Take fewer than one slot a job, or more than any machine has, for unknown."""
    for name in _NAMES["slots"]:
        number = case.number(name)
        if number is not None and number != UNLIMITED and not 1 <= number <= MOST_SLOTS:
            case.put(name, UNDEFINED)


def memory_size(case: CheckedEntry) -> None:
    """Doubt more than 4 TB or less than 100 MB of memory; it may be true."""
    for name in _NAMES["memory"]:
        number = case.number(name)
        if number is not None and number != UNLIMITED and not 100 <= number <= 4_000_000:
            case.doubt(name)


def benchmark(case: CheckedEntry) -> None:
    """Take SI00 from the HEP-SPEC06 a core in the processor's other description.

    The text is ``Cores=4,Benchmark=8.2-HEP-SPEC06``, with spaces and brackets in the wild.
    """
    text = case.values.get(OTHER)
    if not isinstance(text, str) or case.number(SI00):
        return
    if found := HEPSPEC.search(text[:1000]):
        case.values[SI00] = round(float(found[1]) * HS06)
        case.say(SI00, text)


# Entries are made anew every few minutes; one so old is a leftover of a dead provider.
_YEAR = timedelta(days=365)
_CREATED, _VALID = "GLUE2EntityCreationTime", "GLUE2EntityValidity"


def moment(text: object) -> datetime | None:
    """Parse a time of GLUE 2.0, ``2013-05-27T12:00:00Z``; without a zone it is UTC.

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


def stale(case: CheckedEntry) -> None:
    """Doubt an entry past its validity, from the future, or older than a year."""
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

# A loose pattern with bounded parts: it finds a missing @ or host, and judges no more.
_ADDRESS: Final = re.compile(
    r"(?:mailto:)?\s{0,9}[^\s@:]{1,200}@[\w-]{1,80}(?:\.[\w-]{1,80}){1,10}(?:\?\S{0,500})?\s{0,9}"
)


def _said(text: str, code: str) -> str:
    return f"{text} (glue-validator {code})" if code else text


def order(case: CheckedEntry) -> None:
    """Doubt a lower bound above its upper one, and a part larger than the whole."""
    for name, large, code in AT_MOST:
        if name not in case.values or large not in case.values:
            continue
        number, other = case.number(name), case.number(large)
        if number is None or other is None or UNLIMITED in (number, other):
            continue
        if number > other:
            case.doubt(name, _said(f"it is above {large}, which is {other}", code))


def sums(case: CheckedEntry) -> None:
    """Doubt a total of jobs that differs from its sum by more than a tenth."""
    for name, parts, code in SUMS:
        if (total := case.number(name)) is None:
            continue
        known = [number for part in parts if (number := case.number(part)) is not None]
        if not known or (len(known) < 2 and sum(known) <= total):
            continue
        if abs(sum(known) - total) > total / 10:
            case.doubt(name, _said(f"its parts make {sum(known)}", code))


def speeds(case: CheckedEntry) -> None:
    """Doubt SI00 and HEP-SPEC06 that differ by more than a tenth, at 250 SI00 a HEP-SPEC06."""
    number, text = case.number(SI00), case.values.get(OTHER)
    if not number or not isinstance(text, str) or SI00 not in case.raw:
        return
    if found := HEPSPEC.search(text[:1000]):
        score = float(found[1]) * HS06
        if abs(score - number) > number / 10:
            case.doubt(SI00, f"{found[1]} HEP-SPEC06 beside it are {score:g}")


def mail(case: CheckedEntry) -> None:
    """Doubt a malformed address of mail."""
    for name in MAIL:
        for text in texts(case.values.get(name)):
            # A contact of GLUE 2.0 may be the address of a page.
            page = name == "GLUE2ContactDetail" and text.startswith(("http:", "https:"))
            parts = re.split("[;,]", text[:10_000])
            if not page and not all(map(_ADDRESS.fullmatch, parts)):
                case.say(name, text, _said("expected is mailto:name@host", MAIL[name]))


_CPU_LIMITS: Final = frozenset(name for names in _CPU_TIMES for name in names)
_ROWS: tuple[tuple[str, str, Callable[[CheckedEntry], None], Iterable[str]], ...] = (
    ("clean.no-dynamic-information", "the provider had no figures, taken as undefined",
     no_dynamic_information, TABLES["figures"]),
    ("clean.unit", "a number of the next larger unit, converted", small_unit, _CPU_LIMITS),
    ("clean.cpu-time", "taken as 0.8 of the wall time", cpu_time_from_wall_time, _CPU_LIMITS),
    ("clean.no-limit", "0 jobs, taken as no limit", no_limit, _NAMES["total_jobs"]),
    ("clean.slots-per-job", "no number of slots, taken as undefined", slots_per_job,
     _NAMES["slots"]),
    ("clean.memory-size", "suspicious: more than 4 TB or less than 100 MB", memory_size,
     _NAMES["memory"]),
    ("clean.benchmark", f"SI00 taken as {HS06} times HEP-SPEC06", benchmark, (OTHER,)),
    ("clean.stale", "not a current entry", stale, (_CREATED,)),
    ("clean.order", "doubtful", order, (name for pair in AT_MOST for name in pair[:2])),
    ("clean.sum", "doubtful total", sums, (total for total, _, _ in SUMS)),
    ("clean.speed", "doubtful", speeds, (SI00,)),
    ("clean.mail", "no address of mail", mail, MAIL),
)  # fmt: skip
ENTRY_RULES: Final = tuple(
    EntryRule(name, said, apply, frozenset(about)) for name, said, apply, about in _ROWS
)
"""Those that change values, and then the cross-checks."""
