"""The cleaning rules on the values of one entry together: what makes sense beside what.

A rule gets a `Case` and changes its values in place, or only doubts them; it names each and its raw
text. Which are on, and who applies them, is in `clean`; the attributes that they are about are in
``schemas/glue/rules.toml``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from matchmaker.classad import UNDEFINED
from matchmaker.glue.clean.case import HEPSPEC, HS06, OTHER, SI00, TABLES, Case, EntryRule
from matchmaker.glue.clean.texts import UNLIMITED
from matchmaker.glue.schema import attribute

_NAMES: Final = TABLES["names"]


def no_dynamic_information(case: Case) -> None:
    """444444 waiting and nothing free: none of the queue's figures are known, the zeros neither."""
    for waiting, names in TABLES["figures"].items():
        if "444444" in case.raw.get(waiting, ()) and case.values.get(names[0]) == 0:
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
        case.say(SI00, text, "")


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


ENTRY_RULES: Final = (
    EntryRule(
        "clean.no-dynamic-information",
        "the provider had no figures, taken as undefined",
        no_dynamic_information,
    ),
    EntryRule("clean.unit", "a number of the next larger unit, converted", small_unit),
    EntryRule("clean.cpu-time", "taken as 0.8 of the wall time", cpu_time_from_wall_time),
    EntryRule("clean.no-limit", "0 jobs, taken as no limit", no_limit),
    EntryRule("clean.slots-per-job", "no number of slots, taken as undefined", slots_per_job),
    EntryRule("clean.memory-size", "suspicious: more than 4 TB or less than 100 MB", memory_size),
    EntryRule("clean.benchmark", f"SI00 taken as {HS06} times HEP-SPEC06", benchmark),
    EntryRule("clean.stale", "not a current entry", stale),
)
