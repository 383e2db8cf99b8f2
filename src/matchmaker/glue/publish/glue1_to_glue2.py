"""Values of GLUE 1.3 under the names and in the units of GLUE 2.0: the inverse of `glue2_to_glue1`.

What came from GLUE 2.0 has its own values beside, in a nested ad, and these are published as they
were. What GLUE 2.0 has no word for goes to OtherInfo, as ``GlueCEPolicyPriority=1``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

from matchmaker.classad import UNDEFINED, ClassAd, Value
from matchmaker.classad.values import is_number
from matchmaker.glue.clean import text_of
from matchmaker.glue.clean.rules import HS06, UNLIMITED
from matchmaker.glue.records import Values, texts
from matchmaker.glue.schema import attribute, benchmark_attributes, convert, short_names
from matchmaker.glue.v2 import glue2_to_glue1 as translate

_FAMILIES: Final = (
    (
        "linux",
        r"linux|scientific|centos|red ?hat|rhel|alma|rocky|debian|ubuntu|suse|slc?\d*\Z",
    ),
    ("windows", r"windows|win(?:nt|xp|\d+)"),
    ("macosx", r"mac ?os|darwin"),
    ("solaris", r"solaris|sunos"),
    ("aix", r"aix"),
)


def renamed(values: Values, *owners: str) -> dict[str, Value]:
    """Values of GLUE 1.3 under the names and in the units of classes of GLUE 2.0."""
    made: dict[str, Value] = {}
    for name, value in values.items():
        known = attribute(name)
        other = attribute(known.glue2) if known is not None and known.glue2 else None
        if known is None or other is None or other.owner not in owners or "to" in known.apart:
            continue
        if isinstance(value, float) and not math.isfinite(value):
            continue
        number = is_number(value)
        unit = known.unit if number and value != UNLIMITED else other.unit
        shown = convert(value, unit, other.unit) if isinstance(value, (int, float)) else value
        if other.classad == "boolean" and not isinstance(value, bool):
            continue
        if shown is not None and shown is not UNDEFINED:
            made.setdefault(other.name, shown)
    return made


def left(values: Values, shown: Values, *owners: str) -> dict[str, Value]:
    """The values of GLUE 1.3 that those of GLUE 2.0 do not give back as they were."""
    back, speeds = translate.renamed(shown, *owners), set(benchmark_attributes().values())
    found: dict[str, Value] = {}
    for name, value in values.items():
        known = attribute(name)
        if known is None or known.version != "1.3" or value is UNDEFINED or "rest" in known.apart:
            continue
        if name in speeds and _is_speed(name, value):
            continue
        if back.get(name) != value:
            found[name] = value
    return found


def _is_speed(name: str, value: Value) -> bool:
    return isinstance(value, (int, float)) and text_of(name, value) is not None


def state(values: Values) -> str:
    """The state of a queue as GLUE 2.0 spells it; empty where it is not known.

    >>> state({"GlueCEStateStatus": "Draining"}), state({"GlueCEStateStatus": UNDEFINED})
    ('draining', '')
    """
    return serving(values.get("GlueCEStateStatus"))


def serving(value: Value | None) -> str:
    """A word of GLUE 1.3 for what serves, as GLUE 2.0 spells it; empty where it has none for it."""
    text = value.lower() if isinstance(value, str) else ""
    return text if text in translate.STATES else ""


def family(name: Value | None) -> str:
    """The family of an operating system by its name; empty where it is not known.

    >>> family("ScientificSL"), family("SLC"), family("BeOS")
    ('linux', 'linux', '')
    """
    if isinstance(name, str):
        for known, pattern in _FAMILIES:
            if re.match(pattern, name, re.IGNORECASE):
                return known
    return ""


# --- what came from GLUE 2.0 ----------------------------------------------------------------------


def _full(ad: Value | None, kind: str) -> dict[str, Value]:
    names = short_names(kind)
    if not isinstance(ad, ClassAd):
        return {}
    return {names[n.lower()]: ad.eval(n) for n in ad if n.lower() in names}


def _part(values: Values, name: str) -> Value | None:
    whole = values.get("GLUE2")
    return whole.eval(name) if isinstance(whole, ClassAd) else None


def nested(values: Values, kind: str) -> dict[str, Value]:
    """What a class of GLUE 2.0 said of a queue or of hosts, by its own names; empty for nothing."""
    if kind == "GLUE2ExecutionEnvironment":
        return _full(_part(values, "ExecutionEnvironment"), kind)
    computing = _part(values, "Computing")
    part = kind.removeprefix("GLUE2Computing")
    return _full(computing.eval(part), kind) if isinstance(computing, ClassAd) else {}


def _several(values: Values, part: str) -> Iterator[dict[str, Value]]:
    listed = _part(values, part)
    for ad in listed if isinstance(listed, list) else ():
        if found := _full(ad, f"GLUE2{part}"):
            yield found


def benchmarks(values: Values) -> Iterator[dict[str, Value]]:
    """The benchmarks of hosts: those of GLUE 2.0, else what GLUE 1.3 has numbers for."""
    if "GLUE2" in values:
        yield from _several(values, "Benchmark")
        return
    for name, source in benchmark_attributes().items():
        value = values.get(source)
        if isinstance(value, (int, float)) and _is_speed(source, value):
            yield {"GLUE2BenchmarkType": name, "GLUE2BenchmarkValue": float(value)}
            if name == "specint2000":
                speed = round(value / HS06, 2)
                yield {"GLUE2BenchmarkType": "hep-spec06", "GLUE2BenchmarkValue": speed}


def applications(values: Values) -> Iterator[dict[str, Value]]:
    """The applications of hosts: those of GLUE 2.0, else the tags of GLUE 1.3."""
    if "GLUE2" in values:
        yield from _several(values, "ApplicationEnvironment")
        return
    for tag in texts(values.get("GlueHostApplicationSoftwareRunTimeEnvironment")):
        yield {"GLUE2ApplicationEnvironmentAppName": tag}
