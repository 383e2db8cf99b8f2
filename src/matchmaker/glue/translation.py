"""Values of GLUE 2.0 under the names, in the units and in the spellings of GLUE 1.3, and back.

Most follow from the schema: the ``glue2`` of an attribute of GLUE 1.3 and the units of both. The
rest has a function here: the id of a queue, its state, its access rules, benchmarks, applications
and sizes. (GFD.147; the table of the gLite broker, which forgot the units.) Values that came from
GLUE 2.0 stay in a nested ad, and are published as they were. Those that GLUE 2.0 has no word for go
to OtherInfo, as ``GlueCEPolicyPriority=1``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final
from urllib.parse import urlsplit

from matchmaker.classad import UNDEFINED, ClassAd, Value
from matchmaker.classad.values import is_number
from matchmaker.glue.access import POLICY_RULE, denies, vo_of
from matchmaker.glue.clean import CleanValues, text_of, typed, whole
from matchmaker.glue.clean.rules import HS06, UNLIMITED, moment
from matchmaker.glue.entries import CleanEntry, finding
from matchmaker.glue.issues import Issue, Report
from matchmaker.glue.records import Values, texts
from matchmaker.glue.schema import (
    Attribute,
    attribute,
    attributes,
    benchmark_attributes,
    convert,
    short_names,
)

CE_ID: Final = "CEid"
VO_VIEW: Final = "VOView"
"""Marks in OtherInfo, ``CEid=…`` and ``VOView=…``, that name the queue of GLUE 1.3 of a share."""

_QUEUE = ("GlueCE", "GlueCEInfo", "GlueCEState", "GlueCEPolicy")
_HOST = (
    *("GlueHostArchitecture", "GlueHostProcessor", "GlueHostMainMemory"),
    *("GlueHostNetworkAdapter", "GlueHostOperatingSystem"),
)
STATES = ("production", "queueing", "draining", "closed")
# The products that submit as another does, by the name of that one.
_LRMS = {"openpbs": "pbs", "pbspro": "pbs", "gridengine": "sge", "sungridengine": "sge"}


def marks(record: CleanEntry, name: str) -> tuple[str, ...]:
    """Return the values of ``name=value`` among a record's OtherInfo.

    CREAM and HTCondor-CE put their names before the mark's.

    >>> from matchmaker.glue.entries import Attributes, Entry
    >>> entry = Entry("GLUE2ShareID=s", Attributes())
    >>> record = CleanEntry(entry, "s", {"GLUE2EntityOtherInfo": ["CREAMCEId=h:8443/cream-pbs-q"]})
    >>> marks(record, "CEid")
    ('h:8443/cream-pbs-q',)
    """
    lower = name.lower()
    wanted = (lower, f"cream{lower}", f"htcondor{lower}")
    pairs = [text.partition("=") for text in record.texts("GLUE2EntityOtherInfo")]
    return tuple([v.strip() for k, _, v in pairs if k.strip().lower() in wanted and v.strip()])


@cache
def _nearest(owners: tuple[str, ...]) -> Mapping[str, tuple[tuple[Attribute, Attribute], ...]]:
    """Pair attributes of GLUE 2.0 with those of GLUE 1.3, of certain classes, nearest to them."""
    found: dict[str, tuple[tuple[Attribute, Attribute], ...]] = {}
    for known in dict.fromkeys(attributes().values()):
        source = attribute(known.glue2)
        if source is not None and known.owner in owners and "from" not in known.apart:
            found[source.name] = (*found.get(source.name, ()), (source, known))
    return found


def to_glue1(values: Values, *owners: str) -> CleanValues:
    """Put values of GLUE 2.0 under the nearest names of GLUE 1.3, in their units.

    >>> to_glue1({"GLUE2ComputingShareMaxCPUTime": 86400}, "GlueCEPolicy")
    {'GlueCEPolicyMaxCPUTime': 1440}
    """
    made = CleanValues()
    cleaned: Mapping[str, Issue] = getattr(values, "cleaned", {})
    nearest = _nearest(owners)
    for name, value in values.items():
        for source, known in nearest.get(name, ()):
            found = _as(known, source, value)
            if found is not None:
                made[known.name] = found
                if name in cleaned:
                    made.cleaned[known.name] = cleaned[name]
    return made


def _as(known: Attribute, source: Attribute, value: Value) -> Value | None:
    """Convert a value to the unit and multiplicity of an attribute; None if that cannot be."""
    if isinstance(value, list) and not known.multi:
        value = value[0] if value else UNDEFINED
    if isinstance(value, bool):
        return value if known.classad in ("boolean", "string") else int(value)
    if isinstance(value, (int, float)) and value != UNLIMITED:
        converted = convert(value, source.unit, known.unit)
        if converted is None or (rounded := whole(converted)) is None:
            return None
        value = rounded if known.classad == "integer" else converted
    return [value] if known.multi and not isinstance(value, list) else value


def in_other_info(record: CleanEntry, prefixes: tuple[str, ...]) -> CleanValues:
    """Return the values under names of GLUE 1.3 in OtherInfo: ``GlueCEPolicyPriority=1``."""
    made = CleanValues()
    lists: dict[str, list[Value]] = {}
    for text in record.texts("GLUE2EntityOtherInfo"):
        name, equals, value = text.partition("=")
        known = attribute(name.strip()) if equals and name.startswith(prefixes) else None
        if known is None or known.version != "1.3":
            continue
        found = typed(known, value.strip())
        if found is None:
            continue
        if known.multi:
            lists.setdefault(known.name, []).append(found)
        else:
            made[known.name] = found
    made.update(lists)
    return made


CONTACTS: Final[Mapping[str, str]] = {
    "general": "GlueSiteEmailContact",
    "usersupport": "GlueSiteUserSupportContact",
    "sysadmin": "GlueSiteSysAdminContact",
    "security": "GlueSiteSecurityContact",
}
"""The contacts of a site by type."""


def site(
    domain: CleanEntry, places: Sequence[CleanEntry], contacts: Sequence[CleanEntry] = ()
) -> CleanValues:
    """Return the values of a GlueSite."""
    made = to_glue1(domain.values, "GlueSite")
    for place in places[:1]:
        known = to_glue1(place.values, "GlueSite")
        made.take(known)
        for degree in ("GlueSiteLatitude", "GlueSiteLongitude"):  # texts in GLUE 1.3
            if isinstance(degrees := known.get(degree), (int, float)):
                made[degree] = f"{degrees:.15g}"
    for contact in contacts:
        ours = CONTACTS.get(contact.text("GLUE2ContactType").lower(), "")
        if ours and (address := contact.text("GLUE2ContactDetail")):
            made.setdefault(ours, address)
    made["GlueSiteUniqueID"] = domain.id
    if (name := domain.values.get("GLUE2EntityName")) is not None:
        made["GlueSiteName"] = name
    return made


def cluster(manager: CleanEntry) -> CleanValues:
    """Return the values of a GlueCluster."""
    made = to_glue1(manager.values, "GlueCluster")
    made.take(in_other_info(manager, ("GlueCluster",)))
    made["GlueClusterUniqueID"] = manager.id
    return made


def subcluster(
    environment: CleanEntry,
    manager: CleanEntry,
    speeds: Sequence[CleanEntry],
    applications: Sequence[CleanEntry],
    *,
    report: Report,
    rules: frozenset[str],
) -> CleanValues:
    """Return the values of a GlueSubCluster: one instance of an environment, and their number."""
    made = to_glue1(manager.values, "GlueSubCluster")
    made.take(to_glue1(environment.values, "GlueSubCluster", *_HOST))
    made["GlueSubClusterUniqueID"] = environment.id
    instances = environment.values.get("GLUE2ExecutionEnvironmentTotalInstances")
    for kind in ("Physical", "Logical"):
        each = environment.values.get(f"GLUE2ExecutionEnvironment{kind}CPUs")
        total = manager.values.get(f"GLUE2ComputingManagerTotal{kind}CPUs")
        if isinstance(each, int) and isinstance(instances, int):
            total = whole(each * instances)
        if total is not None:
            made[f"GlueSubCluster{kind}CPUs"] = total
    made.update(_benchmarks(speeds, report, rules))
    made.take(in_other_info(environment, ("GlueSubCluster", "GlueHost")))
    if tags := [tag for tag in map(_tag, applications) if tag]:
        made["GlueHostApplicationSoftwareRunTimeEnvironment"] = list(dict.fromkeys(tags))
    return made


def _benchmarks(
    speeds: Iterable[CleanEntry], report: Report, rules: frozenset[str]
) -> dict[str, Value]:
    made: dict[str, Value] = {}
    others: list[tuple[CleanEntry, float]] = []
    for speed in speeds:
        kind = speed.text("GLUE2BenchmarkType").lower().replace("-", "")
        value = speed.values.get("GLUE2BenchmarkValue")
        if not is_number(value):
            continue
        if (name := benchmark_attributes().get(kind)) is not None:
            if (score := whole(value)) is not None:
                made[name] = score
        elif kind == "hepspec06":
            others.append((speed, value))
    for speed, value in others:
        score = whole(value * HS06)
        if "clean.benchmark" in rules and "GlueHostBenchmarkSI00" not in made and score is not None:
            said = f"SI00 taken as {HS06} times HEP-SPEC06"
            report(finding(speed, "clean.benchmark", said, str(value)))
            made["GlueHostBenchmarkSI00"] = score
    return made


def _tag(application: CleanEntry) -> str:
    name = application.text("GLUE2ApplicationEnvironmentAppName")
    version = application.text("GLUE2ApplicationEnvironmentAppVersion")
    return f"{name}-{version}" if name and version else name


_HOSTNAME: Final = re.compile(r"[a-z0-9._:%-]+")


def address(endpoint: CleanEntry | None) -> tuple[str, int | None]:
    """Return the host and port of an endpoint; none if its URL has none."""
    url = endpoint.text("GLUE2EndpointURL") if endpoint is not None else ""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "", None
    host = parts.hostname or ""
    if _HOSTNAME.fullmatch(host) is None or not url.isprintable():
        return "", None
    return host, port or {"https": 443, "http": 80}.get(parts.scheme)


def _interface(endpoint: CleanEntry) -> str:
    """Return the last word of an interface's name: ``cream`` of ``org.glite.ce.CREAM``."""
    name = endpoint.text("GLUE2EndpointInterfaceName").rpartition(".")[2].lower()
    return re.sub(r"[^a-z0-9_]", "_", name)


def _lrms(manager: CleanEntry | None) -> str:
    name = manager.text("GLUE2ManagerProductName").strip().lower() if manager is not None else ""
    return _LRMS.get(name, name) if name.isascii() else ""  # none has such a name


def queue_name(share: CleanEntry) -> str:
    """Return the queue of a share as its batch system calls it; empty if it is not known."""
    if "GLUE2ComputingShareMappingQueue" in share.values:
        return share.text("GLUE2ComputingShareMappingQueue")
    return share.text("GLUE2EntityName")


def ce_id(endpoint: CleanEntry | None, share: CleanEntry, manager: CleanEntry | None) -> str:
    """Return the id of GLUE 1.3 for a share at an endpoint: ``host:port/interface-lrms-queue``.

    The id that a share publishes itself (``CEid=`` in OtherInfo, as CREAM does) is believed if its
    host is the endpoint's. If a part is not known the share goes by its own id.
    """
    host, port = address(endpoint)
    for said in marks(share, CE_ID):
        named = said.partition("/")[0].partition(":")[0].lower()
        if endpoint is None or named == host.lower():
            return said
    queue = queue_name(share)
    lrms = _lrms(manager).replace("-", "_")
    if endpoint is None or not (host and port and lrms and queue and _interface(endpoint)):
        return share.id
    return f"{host}:{port}/{_interface(endpoint)}-{lrms}-{queue}"


def queue(
    endpoint: CleanEntry | None, share: CleanEntry, manager: CleanEntry | None
) -> CleanValues:
    """Return the values of a GlueCE: a share, seen through an endpoint, run by a manager.

    A share's time of creation and validity become ``update_time`` and ``expiry_time`` (seconds), as
    in an ad of the founding talk; after that it is not believed.
    """
    made = CleanValues()
    for record in (manager, endpoint, share):  # the later says more of the queue
        if record is not None:
            made.take(to_glue1(record.values, *_QUEUE))
    states = [share.values.get("GLUE2ComputingShareServingState")]
    if endpoint is not None:
        states.append(endpoint.values.get("GLUE2EndpointServingState"))
    if (state := _worst(*states)) is not None:
        made["GlueCEStateStatus"] = state
    if lrms := _lrms(manager):
        made["GlueCEInfoLRMSType"] = lrms
    slots = manager.values.get("GLUE2ComputingManagerTotalSlots") if manager is not None else None
    if slots is not None:
        made.setdefault("GlueCEInfoTotalCPUs", slots)
    host, port = address(endpoint)
    if endpoint is not None and host:
        made["GlueCEInfoHostName"] = host
        made["GlueCEInfoJobManager"] = _interface(endpoint)
        made["GlueCEInfoContactString"] = [endpoint.text("GLUE2EndpointURL")]
        if port is not None:
            made["GlueCEInfoGatekeeperPort"] = port
    made.take(in_other_info(share, ("GlueCE", "GlueInformationService")))
    created = moment(share.values.get("GLUE2EntityCreationTime"))
    valid = share.values.get("GLUE2EntityValidity")
    if created is not None and isinstance(valid, int):
        made["update_time"] = int(created.timestamp())
        made["expiry_time"] = valid
    return made


def _worst(share: Value | None, endpoint: Value | None = None) -> Value | None:
    """Return the less inviting of the states of share and endpoint.

    A share whose state is unknown by its own word has none by an endpoint in production.
    """
    known = [s.lower() for s in (share, endpoint) if isinstance(s, str) and s.lower() in STATES]
    worst = max(known, key=STATES.index, default=None)
    if worst is None or (share is UNDEFINED and worst == "production"):
        return None if share is None and endpoint is None else UNDEFINED
    return worst.capitalize()


def storage(service: CleanEntry, totals: Sequence[CleanEntry]) -> CleanValues:
    """Return the values of a GlueSE."""
    made = to_glue1(service.values, "GlueSE")
    made.take(in_other_info(service, ("GlueSE",)))
    made["GlueSEUniqueID"] = service.id
    for total in totals:
        kind = total.text("GLUE2StorageServiceCapacityType").capitalize()
        for what in ("Total", "Used"):
            size = total.values.get(f"GLUE2StorageServiceCapacity{what}Size")
            if kind in ("Online", "Nearline") and size is not None:
                made[f"GlueSE{what}{kind}Size"] = size
    return made


def areas(
    share: CleanEntry, mapping: Sequence[CleanEntry], sizes: Sequence[CleanEntry]
) -> Iterator[tuple[str, CleanValues]]:
    """Yield the values of GlueSAs, one for each VO of a storage share, by the VO's name."""
    made = to_glue1(share.values, "GlueSA")
    for size in sizes:
        kind = size.text("GLUE2StorageShareCapacityType").capitalize()
        for what in ("Total", "Used", "Free", "Reserved"):
            value = size.values.get(f"GLUE2StorageShareCapacity{what}Size")
            if kind in ("Online", "Nearline") and value is not None:
                made[f"GlueSA{what}{kind}Size"] = value
        if kind == "Online":
            made.take(to_glue1(size.values, "GlueSAState"))
    made.take(in_other_info(share, ("GlueSA",)))
    rules = [rule for policy in mapping for rule in policy.texts(POLICY_RULE)]
    if rules:
        made["GlueSAAccessControlBaseRule"] = list(rules)
    names = dict.fromkeys(vo_of(rule) or rule for rule in rules if not denies(rule))
    for name in names if any(map(vo_of, rules)) else [share.id]:
        area = CleanValues({"GlueSALocalID": name})
        area.take({k: v for k, v in made.items() if k not in area}, made.cleaned)
        yield name, area


def bind(record: CleanEntry) -> dict[str, Value]:
    """Return the values of a GlueCESEBind."""
    names = {
        "GlueCESEBindCEAccesspoint": "GLUE2ToStorageServiceLocalPath",
        "GlueCESEBindSEUniqueID": "GLUE2ToStorageServiceStorageServiceForeignKey",
    }
    return {ours: record.values[name] for ours, name in names.items() if name in record.values}


# GLUE 2.0 requires a family, and GLUE 1.3 has only the system's name.
_FAMILIES: Final = (
    ("linux", r"linux|scientific|centos|red ?hat|rhel|alma|rocky|debian|ubuntu|suse|slc?\d*\Z"),
    ("windows", r"windows|win(?:nt|xp|\d+)"),
    ("macosx", r"mac ?os|darwin"),
    ("solaris", r"solaris|sunos"),
    ("aix", r"aix"),
)


def to_glue2(values: Values, *owners: str) -> dict[str, Value]:
    """Put values of GLUE 1.3 under the names and in the units of classes of GLUE 2.0."""
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


def remainder(values: Values, shown: Values, *owners: str) -> dict[str, Value]:
    """Return the values of GLUE 1.3 that those of GLUE 2.0 do not give back as they were."""
    back, speeds = to_glue1(shown, *owners), set(benchmark_attributes().values())
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
    """Return the state of a queue as GLUE 2.0 spells it; empty if it is not known.

    >>> state({"GlueCEStateStatus": "Draining"}), state({"GlueCEStateStatus": UNDEFINED})
    ('draining', '')
    """
    return serving(values.get("GlueCEStateStatus"))


def serving(value: Value | None) -> str:
    """Return a state of GLUE 1.3 as GLUE 2.0 spells it; empty if it has no word for it."""
    text = value.lower() if isinstance(value, str) else ""
    return text if text in STATES else ""


def family(name: Value | None) -> str:
    """Return the family of an operating system by its name; empty if it is not known.

    >>> family("ScientificSL"), family("SLC"), family("BeOS")
    ('linux', 'linux', '')
    """
    if isinstance(name, str):
        for known, pattern in _FAMILIES:
            if re.match(pattern, name, re.IGNORECASE):
                return known
    return ""


def _full(ad: Value | None, kind: str) -> dict[str, Value]:
    names = short_names(kind)
    if not isinstance(ad, ClassAd):
        return {}
    return {names[n.lower()]: ad.eval(n) for n in ad if n.lower() in names}


def _part(values: Values, name: str) -> Value | None:
    whole = values.get("GLUE2")
    return whole.eval(name) if isinstance(whole, ClassAd) else None


def nested(values: Values, kind: str) -> dict[str, Value]:
    """Return the values of a class of GLUE 2.0 for a queue or hosts, by its own names."""
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
    """Yield the benchmarks of hosts: those of GLUE 2.0, else the numbers of GLUE 1.3."""
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
    """Yield the applications of hosts: those of GLUE 2.0, else the tags of GLUE 1.3."""
    if "GLUE2" in values:
        yield from _several(values, "ApplicationEnvironment")
        return
    for tag in texts(values.get("GlueHostApplicationSoftwareRunTimeEnvironment")):
        yield {"GLUE2ApplicationEnvironmentAppName": tag}
