"""The published rules of EGI's glue-validator for GLUE 2.0, code by code, as a table.

Rules of errors (E) all, of warnings (W) those that a computing service can break; notes (I) doubt
large and small numbers, and are left out. Written anew from what the rules say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import attrs

from matchmaker.glue import Entry
from matchmaker.glue.clean.checks import AT_MOST, SUMS
from matchmaker.glue.clean.entries import moment
from matchmaker.glue.linking import rdns
from matchmaker.glue.schema import attribute, classes

NOW: Final = datetime(2026, 6, 1, tzinfo=UTC)


@attrs.frozen(slots=True)
class Seen:
    """An entry as the rules see it."""

    entry: Entry

    def texts(self, name: str) -> tuple[str, ...]:
        return self.entry.attributes.get(name, ())

    def number(self, name: str) -> int | None:
        found = self.texts(name)
        return int(found[0]) if found else None


Rule = Callable[[Seen], bool]
"""Whether an entry is sound."""


def later(name: str, span: timedelta = timedelta(seconds=120)) -> Rule:
    return lambda e: all((t := moment(x)) is None or t <= NOW + span for x in e.texts(name))


def valid(e: Seen) -> bool:
    created = moment(next(iter(e.texts("GLUE2EntityCreationTime")), None))
    valid_for = e.number("GLUE2EntityValidity")
    return created is None or valid_for is None or created + timedelta(seconds=valid_for) >= NOW


def shares(e: Seen) -> list[tuple[str, str]]:
    said = [t for t in e.texts("GLUE2EntityOtherInfo") if t.startswith("Share=")]
    return [t.removeprefix("Share=").partition(":")[::2] for t in said]


def within(name: str, most: float) -> Rule:
    return lambda e: all(-most < float(text) < most for text in e.texts(name))


def never(name: str, number: str) -> Rule:
    return lambda e: number not in e.texts(name)


def of_domain(e: Seen) -> bool:
    keys = [n for n in e.entry.attributes if n.endswith(("DomainForeignKey",))]
    placed = rdns(e.entry.dn).get("glue2domainid")
    return all(text == placed for name in keys for text in e.texts(name))


def at_most(small: str, large: str) -> Rule:
    def sound(e: Seen) -> bool:
        one, other = e.number(small), e.number(large)
        return one is None or other is None or one <= other

    return sound


def adds_up(total: str, parts: tuple[str, ...]) -> Rule:
    def sound(e: Seen) -> bool:
        said = e.number(total)
        return said is None or abs(sum(e.number(p) or 0 for p in parts) - said) <= said / 10

    return sound


def one_of(name: str, words: str) -> Rule:
    known = set(words.split())
    return lambda e: set(e.texts(name)) <= known


def like(name: str, pattern: str) -> Rule:
    return lambda e: all(re.fullmatch(pattern, text) for text in e.texts(name))


def has(kind: str, names: str) -> Rule:
    return lambda e: kind not in e.texts("objectClass") or all(map(e.texts, names.split()))


def single(e: Seen) -> bool:
    found = ((attribute(name), values) for name, values in e.entry.attributes.items())
    return all(len(values) == 1 or known is None or known.multi for known, values in found)


S, M, X = "GLUE2ComputingShare", "GLUE2ComputingManager", "GLUE2ExecutionEnvironment"
URL = r"(?:https?|ftps?|sftp|gsiftp|httpg|ldap|gsissh)://[\w.-]+\.[a-zA-Z]{2,6}(?::\d+)?(?:/\S*)?"

RULES: Final[tuple[tuple[str, Rule], ...]] = (
    ("E001", later("GLUE2EntityCreationTime")),
    ("E002", valid),
    ("E003", lambda e: all(0 <= int(part) <= 100 for _, part in shares(e))),
    ("E004", lambda e: len({vo for vo, _ in shares(e)}) == len(shares(e))),
    ("E005", lambda e: all(part for _, part in shares(e))),
    ("E007", lambda e: sum(int(part) for _, part in shares(e)) <= 100),
    ("E008", within("GLUE2LocationLongitude", 180)),
    ("E009", within("GLUE2LocationLatitude", 90)),
    ("E010", later("GLUE2EndpointStartTime")),
    ("E011", later("GLUE2EndpointDowntimeAnnounce")),
    ("E013", lambda e: not e.texts("GLUE2EndpointDowntimeEnd")
        or bool(e.texts("GLUE2EndpointDowntimeStart"))),
    ("E021", lambda e: all(c.lower() in classes() or c == "organization"
        for c in e.texts("objectClass")) and bool(e.texts("objectClass"))),
    ("E022", never(f"{S}WaitingJobs", "444444")),
    ("E023", never(f"{S}EstimatedAverageWaitingTime", "2146660842")),
    ("E024", never(f"{S}EstimatedWorstWaitingTime", "2146660842")),
    ("E026", of_domain),
    *((code, at_most(small, large)) for small, large, code in AT_MOST if code),
    *((code, adds_up(total, parts)) for total, parts, code in SUMS if code),
    ("W020", never(f"{S}MaxTotalJobs", "0")),
    ("W022", never(f"{S}MaxUserRunningJobs", "0")),
    ("W024", never(f"{S}MaxSlotsPerJob", "0")),
    ("W026", lambda e: (e.number(f"{S}MaxMainMemory") or 100) >= 100),
    ("W034", has("GLUE2Location", "GLUE2LocationID")),
    ("W034", has("GLUE2Contact", "GLUE2ContactID GLUE2ContactDetail GLUE2ContactType")),
    ("W034", has("GLUE2Service", "GLUE2ServiceID GLUE2ServiceType GLUE2ServiceQualityLevel"
        " GLUE2ServiceAdminDomainForeignKey")),
    ("W034", has("GLUE2Endpoint", "GLUE2EndpointID GLUE2EndpointURL GLUE2EndpointInterfaceName"
        " GLUE2EndpointImplementationName GLUE2EndpointQualityLevel GLUE2EndpointHealthState"
        " GLUE2EndpointServingState")),
    ("W034", has("GLUE2Policy", "GLUE2PolicyID GLUE2PolicyScheme GLUE2PolicyRule")),
    ("W034", has("GLUE2Manager", "GLUE2ManagerID GLUE2ManagerProductName")),
    ("W034", has(M, f"{M}TotalLogicalCPUs {M}ComputingServiceForeignKey")),
    ("W034", has(S, f"{S}ServingState {S}FreeSlots")),
    ("W034", has(X, f"{X}Platform {X}MainMemorySize {X}OSFamily {X}ConnectivityIn"
        f" {X}ConnectivityOut {X}ComputingManagerForeignKey")),
    ("W036", single),
    ("W037", like("GLUE2EndpointURL", URL)),
    ("W037", like("GLUE2DomainWWW", URL)),
    ("W037", like("GLUE2ContactDetail", r"mailto:.+@[\w.-]+\.\w{2,}|https?://.+")),
    ("W037", one_of("GLUE2ContactType", "general security sysadmin usersupport")),
    ("W037", one_of("GLUE2ServiceQualityLevel", "development pre-production production testing")),
    ("W037", one_of("GLUE2EndpointQualityLevel", "development pre-production production testing")),
    ("W037", one_of("GLUE2EndpointHealthState", "critical ok other unknown warning")),
    ("W037", one_of("GLUE2EndpointServingState", "closed draining production queueing")),
    ("W037", one_of(f"{S}ServingState", "closed draining production queueing")),
    ("W037", one_of("GLUE2PolicyScheme", "basic gacl org.glite.standard")),
    ("W037", one_of("GLUE2ServiceType", "org.glite.ce.CREAM org.nordugrid.arex CE")),
    ("W037", one_of("GLUE2EndpointInterfaceName",
        "org.glite.ce.CREAM org.nordugrid.arex org.nordugrid.gridftpjob")),
    ("W037", one_of("GLUE2BenchmarkType",
        "bogomips cfp2006 cint2006 linpack specfp2000 specint2000 hep-spec06")),
    ("W037", one_of(f"{X}ConnectivityIn", "true false undefined")),
    ("W037", one_of(f"{X}ConnectivityOut", "true false undefined")),
    ("W038", lambda e: all(text for texts in e.entry.attributes.values() for text in texts)),
    ("W039", lambda e: not any(t.startswith("_") for t in e.texts("GLUE2ServiceID"))),
    ("W040", lambda e: not any(t.startswith("_") for t in e.texts("GLUE2EndpointID"))),
    ("W042", one_of(f"{X}Platform", "amd64 i386 i686 itanium powerpc sparc x86_64")),
    ("W043", one_of(f"{X}OSFamily", "linux macosx solaris windows")),
)  # fmt: skip


def findings(entry: Entry) -> Iterator[str]:
    """The codes of the rules that an entry of GLUE 2.0 breaks."""
    for code, sound in RULES:
        if not sound(Seen(entry)):
            yield code
