"""EGI's glue-validator and gstat-validation: we find what they find, and publish what passes."""

from __future__ import annotations

import io
import tomllib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker import glue, parse_ads
from matchmaker._data import data_text
from matchmaker.cli.commands import nodes as commands
from matchmaker.glue import VALIDATORS, Attributes, Entry, Issue
from matchmaker.glue.clean.rules import AT_MOST, SUMS
from matchmaker.glue.clean.validators import validated
from matchmaker.glue.publish.site import site_values, with_site
from matchmaker.glue.publish.trees import entries13, entries20

EXAMPLES = Path(__file__).parents[2] / "examples"
SAVED = tuple(str(EXAMPLES / name) for name in ("torque-nodes.xml", "torque-queues.txt"))
NOW = datetime(2026, 6, 1, tzinfo=UTC)
TABLE = tomllib.loads(data_text("schemas", "glue", "checks.toml"))
SITE = """name = "Site S"
description = "For the tests"
web = "https://www.s.org/"
location = "Milano, Italy"
latitude = 45.47
longitude = 9.19
support = "support@s.org"
admin = "mailto:grid@s.org"
security = "security@s.org"
"""


def found(entries: Iterable[Entry], at: datetime = NOW) -> list[Issue]:
    issues: list[Issue] = []
    assert list(validated(entries, VALIDATORS, at, issues.append)) == list(entries)
    return issues


def as_ldif(entries: Iterable[Entry]) -> list[str]:
    """The lines of entries."""
    return [
        line
        for e in entries
        for line in (
            f"dn: {e.dn}",
            *(f"{n}: {t}" for n, ts in e.attributes.items() for t in ts),
            "",
        )
    ]


def codes(*pairs: str) -> set[str]:
    """The codes of one entry: its attributes, as ``name=value``."""
    made = [tuple(pair.split("=", 1)) for pair in pairs]
    entry = Entry("GLUE2ID=x,GLUE2DomainID=S,o=glue", Attributes(made))  # type: ignore[arg-type]
    return {issue.rule for issue in found([entry])}


EXAMPLE: dict[str, str] = {}
"""For each code an entry that breaks it, as ``name=value; name=value``."""


def _examples(prefix: str, text: str) -> None:
    for line in text.strip().splitlines():
        code, _, pairs = line.strip().partition(" ")
        EXAMPLE[f"{prefix}.{code}"] = pairs


_examples(
    "glue-validator",
    """
    E001 GLUE2EntityCreationTime=2030-01-01T00:00:00Z
    E002 GLUE2EntityCreationTime=2026-05-01T00:00:00Z; GLUE2EntityValidity=3600
    E003 GLUE2EntityOtherInfo=Share=cms:101
    E004 GLUE2EntityOtherInfo=Share=cms:10; GLUE2EntityOtherInfo=Share=cms:20
    E005 GLUE2EntityOtherInfo=Share=cms
    E007 GLUE2EntityOtherInfo=Share=cms:60; GLUE2EntityOtherInfo=Share=atlas:60
    E008 GLUE2LocationLongitude=-181
    E009 GLUE2LocationLatitude=91
    E010 GLUE2EndpointStartTime=2030-01-01T00:00:00Z
    E011 GLUE2EndpointDowntimeAnnounce=2030-01-01T00:00:00Z
    E012 GLUE2EndpointDowntimeStart=2026-06-02; GLUE2EndpointDowntimeEnd=2026-06-01
    E013 GLUE2EndpointDowntimeEnd=2026-06-01T00:00:00Z
    E014 GLUE2StorageServiceCapacityTotalSize=9000; GLUE2StorageServiceCapacityUsedSize=1000
    E015 GLUE2StorageServiceCapacityTotalSize=10; GLUE2StorageServiceCapacityFreeSize=11
    E016 GLUE2StorageServiceCapacityTotalSize=10; GLUE2StorageServiceCapacityUsedSize=11
    E017 GLUE2StorageServiceCapacityTotalSize=10; GLUE2StorageServiceCapacityReservedSize=11
    E018 GLUE2StorageShareCapacityTotalSize=9000; GLUE2StorageShareCapacityUsedSize=1000
    E019 GLUE2StorageShareCapacityTotalSize=10; GLUE2StorageShareCapacityFreeSize=11
    E020 GLUE2StorageShareCapacityTotalSize=10; GLUE2StorageShareCapacityUsedSize=11
    E021 objectClass=GLUE2NoClass
    E022 GLUE2ComputingShareWaitingJobs=444444
    E023 GLUE2ComputingShareEstimatedAverageWaitingTime=2146660842
    E024 GLUE2ComputingShareEstimatedWorstWaitingTime=2146660842
    E025 objectClass=GLUE2Domain
    E026 GLUE2ContactDomainForeignKey=T
    W001 GLUE2EntityCreationTime=2020-01-01T00:00:00Z
    W002 GLUE2EntityValidity=3600
    W003 GLUE2EntityOtherInfo=ProfileName=OSG
    W004 GLUE2EntityOtherInfo=ProfileVersion=
    W006 GLUE2EndpointStartTime=2020-01-01T00:00:00Z
    W007 GLUE2EndpointDowntimeAnnounce=2020-01-01T00:00:00Z
    W008 GLUE2EndpointDowntimeAnnounce=2026-05-01T00:00:00Z
    W009 GLUE2EndpointDowntimeStart=2028-01-01T00:00:00Z
    W010 GLUE2EndpointDowntimeStart=2020-01-01T00:00:00Z
    W011 GLUE2EndpointDowntimeEnd=2028-01-01T00:00:00Z
    W012 GLUE2EndpointDowntimeEnd=2020-01-01T00:00:00Z
    W020 GLUE2ComputingShareMaxTotalJobs=0
    W022 GLUE2ComputingShareMaxUserRunningJobs=0
    W024 GLUE2ComputingShareMaxSlotsPerJob=0
    W026 GLUE2ComputingShareMaxMainMemory=99
    W031 GLUE2ComputingManagerTotalSlots=21; GLUE2ComputingManagerTotalLogicalCPUs=10
    W032 GLUE2ComputingManagerTotalSlots=21; GLUE2ComputingManagerSlotsUsedByLocalJobs=21
    W033 GLUE2ComputingManagerTotalSlots=21; GLUE2ComputingManagerSlotsUsedByGridJobs=21
    W034 objectClass=GLUE2Policy
    W035 GLUE2UserDomainMember=a
    W036 objectClass=GLUE2Policy; GLUE2PolicyScheme=basic; GLUE2PolicyScheme=gacl
    W037 GLUE2ContactType=boss
    W038 objectClass=GLUE2Policy; GLUE2PolicyScheme=
    W039 GLUE2ServiceID=_a
    W040 GLUE2EndpointID=_a
    W041 GLUE2EndpointImplementationVersion=package cream is not installed
    W042 GLUE2ExecutionEnvironmentPlatform=vax
    W043 GLUE2ExecutionEnvironmentOSFamily=vms
    W044 GLUE2ExecutionEnvironmentOSName=vms
    I001 GLUE2EntityOtherInfo=GRID=Mine
    I002 GLUE2EntityOtherInfo=CONFIG=by hand
    I003 GLUE2EntityOtherInfo=EGI_NGI=Mine
    I004 GLUE2EntityOtherInfo=BLOG=here
    I005 GLUE2EntityOtherInfo=ICON=here
    I006 GLUE2EntityOtherInfo=WLCG_TIER=7
    I008 GLUE2EntityOtherInfo=WLCG_NAMEICON=here
    I009 GLUE2EntityOtherInfo=MiddlewareName=Mine
    I010 GLUE2EntityOtherInfo=MiddlewareVersion=
    I011 GLUE2EntityOtherInfo=HostDN=
    I012 GLUE2EntityOtherInfo=Share=a b:3
    I013 GLUE2EntityOtherInfo=CPUScalingReferenceXX=3
    I019 GLUE2EndpointIssuerCA=unknown
    I020 GLUE2EndpointTrustedCA=unknown
    I043 GLUE2ComputingShareMaxMainMemory=100000
    I044 GLUE2ComputingShareGuaranteedMainMemory=100000
    I045 GLUE2ComputingShareMaxVirtualMemory=100000
    I046 GLUE2ComputingShareEstimatedAverageWaitingTime=1000000
    I047 GLUE2ComputingShareEstimatedWorstWaitingTime=1000000
    I048 GLUE2ComputingShareFreeSlots=1000000
    I049 GLUE2ComputingShareUsedSlots=1000000
    I050 GLUE2ComputingShareRequestedSlots=1000000
    I051 GLUE2ComputingManagerTotalLogicalCPUs=9
    I052 GLUE2ComputingManagerTotalLogicalCPUs=1000000
    I053 GLUE2ComputingManagerTotalPhysicalCPUs=9
    I054 GLUE2ComputingManagerTotalPhysicalCPUs=1000000
    I055 GLUE2ComputingManagerTotalSlots=9
    I056 GLUE2ComputingManagerTotalSlots=1000000
    I063 GLUE2ExecutionEnvironmentTotalInstances=9
    I064 GLUE2ExecutionEnvironmentTotalInstances=1000000
    I065 GLUE2ExecutionEnvironmentTotalInstances=90; GLUE2ExecutionEnvironmentUsedInstances=90
    I066 GLUE2ExecutionEnvironmentTotalInstances=9; GLUE2ExecutionEnvironmentUnavailableInstances=9
    I067 GLUE2ExecutionEnvironmentPhysicalCPUs=11
    I068 GLUE2ExecutionEnvironmentLogicalCPUs=1000
    I069 GLUE2ExecutionEnvironmentCPUClockSpeed=10001
    I070 GLUE2ExecutionEnvironmentCPUClockSpeed=99
    I071 GLUE2ExecutionEnvironmentCPUTimeScalingFactor=1.5
    I072 GLUE2ExecutionEnvironmentCPUTimeScalingFactor=0.1
    I073 GLUE2ExecutionEnvironmentWallTimeScalingFactor=1.5
    I074 GLUE2ExecutionEnvironmentWallTimeScalingFactor=0.1
    I075 GLUE2ExecutionEnvironmentMainMemorySize=1000000
    I076 GLUE2ExecutionEnvironmentMainMemorySize=99
    I077 GLUE2ExecutionEnvironmentVirtualMemorySize=1000000
    I078 GLUE2ExecutionEnvironmentVirtualMemorySize=99
    I079 GLUE2ApplicationEnvironmentRemovalDate=2020-01-01T00:00:00Z
    I080 GLUE2ApplicationEnvironmentMaxSlots=0
    I081 GLUE2ApplicationEnvironmentMaxJobs=0
    I082 GLUE2ApplicationEnvironmentMaxUserSeats=0
    I083 GLUE2ApplicationEnvironmentMaxSlots=1; GLUE2ApplicationEnvironmentFreeSlots=2
    I084 GLUE2ApplicationEnvironmentMaxJobs=1; GLUE2ApplicationEnvironmentFreeJobs=2
    I085 GLUE2ApplicationEnvironmentMaxUserSeats=1; GLUE2ApplicationEnvironmentFreeUserSeats=2
    I086 GLUE2StorageServiceCapacityType=online; GLUE2StorageServiceCapacityTotalSize=999
    I087 GLUE2StorageServiceCapacityType=online; GLUE2StorageServiceCapacityTotalSize=1000000001
    I088 GLUE2StorageShareAccessLatency=offline
    I089 GLUE2StorageShareDefaultLifeTime=99999
    I090 GLUE2StorageShareMaximumLifeTime=99999
    I091 GLUE2StorageShareCapacityTotalSize=999
    I092 GLUE2StorageShareCapacityTotalSize=1000000001
    I093 GLUE2ToComputingServiceBandwidth=99
    I094 GLUE2ToComputingServiceBandwidth=100001
    I095 objectClass=GLUE2Service
    I096 GLUE2ComputingShareMaxMainMemory=444444
    I097 GLUE2ComputingShareMaxVirtualMemory=444444
    """,
)
for _first, _kind, _names, _value in (
    (14, "ComputingService", "Running Waiting Staging Suspended PreLRMSWaiting", "Jobs=1000000"),
    (21, "ComputingEndpoint", "Running Waiting Staging Suspended PreLRMSWaiting", "Jobs=1000000"),
    (26, "ComputingShare", "MaxWall MaxMultiSlotWall DefaultWall MaxCPU MaxTotalCPU DefaultCPU",
        "Time=999999999"),
    (32, "ComputingShare", "MaxTotal MaxRunning MaxWaiting", "Jobs=999999999"),
    (35, "ComputingShare", ("Running LocalRunning Waiting LocalWaiting Suspended LocalSuspended"
        " Staging PreLRMSWaiting"), "Jobs=1000000"),
    (57, "ComputingManager", ("WorkingAreaTotal WorkingAreaFree WorkingAreaMultiSlotTotal"
        " WorkingAreaMultiSlotFree CacheTotal CacheFree"), "=1000000"),
):  # fmt: skip
    for _number, _name in enumerate(_names.split(), _first):
        EXAMPLE[f"glue-validator.I{_number:03}"] = f"GLUE2{_kind}{_name}{_value}"
_examples(
    "gstat",
    """
    CE.Attribute.Exist objectClass=GlueCE
    CE.Attribute.OptionalExist objectClass=GlueCE
    service.attribute.missing objectClass=GlueCE
    CE.PolicyAssignedJobSlots.Value GlueCEPolicyAssignedJobSlots=0
    CE.Status.Value GlueCEStateStatus=production
    CE.AccessControlBaseRule.Value GlueCEAccessControlBaseRule=cms
    CE.Capability.Exist GlueCECapability=Share=cms:10
    CE.Capability.Value GlueCECapability=CPUScalingReferenceSI00=0
    CE.UniqueID.Unique objectClass=GlueCE; GlueCEUniqueID=a
    Cluster.UniqueID.Unique objectClass=GlueCluster; GlueClusterUniqueID=a
    Cluster.UniqueID.Exist objectClass=GlueCluster
    Cluster.ForeignKey.Value GlueClusterUniqueID=a; GlueForeignKey=GlueCEUniqueID=b
    SubCluster.UniqueID.Unique objectClass=GlueSubCluster; GlueSubClusterUniqueID=a
    SubCluster.Attribute.Exist objectClass=GlueSubCluster
    SubCluster.Attribute.OptionalExist objectClass=GlueSubCluster
    SubCluster.CPU.Value GlueSubClusterLogicalCPUs=-1
    SubCluster.OtherDescription.Cores GlueHostProcessorOtherDescription=Cores=four
    SubCluster.OtherDescription.Benchmark GlueHostProcessorOtherDescription=Cores=4
    value.error GlueSubClusterPhysicalCPUs=9; GlueSubClusterLogicalCPUs=8
    site.mandatory_attrs.missing_attr objectClass=GlueSite
    site.coordinates.no_coordinates objectClass=GlueSite
    site.ID_equals_name.difference GlueSiteUniqueID=a; GlueSiteName=b
    site.email.incorrect GlueSiteEmailContact=mailto: root@s.org
    site.URL.incorrect GlueSiteWeb=at home
    site.OhterInfo.no_GRID_info GlueSiteOtherInfo=A=b
    site.OhterInfo.incorrect_format GlueSiteOtherInfo=hello
    site.OtherInfo.invalid_NGI GlueSiteOtherInfo=EGI_NGI=Mine
    site.OhterInfo.missing_WLCG GlueSiteOtherInfo=WLCG_TIER=2
    sanity.missing.error objectClass=GlueCE
    sanity.missing.info objectClass=GlueSE
    sanity.format GlueCEUniqueID=long
    sanity.negative GlueCEInfoTotalCPUs=-1
    sanity.usage GlueCEStateWaitingJobs=500; GlueCEInfoTotalCPUs=10
    sanity.full GlueCEStateWaitingJobs=1500; GlueCEInfoTotalCPUs=10
    sanity.version GlueServiceType=SRM; GlueServiceVersion=3
    sanity.os GlueHostOperatingSystemName=vms
    sanity.unset GlueSETotalOnlineSize=unset
    sanity.zero GlueSETotalOnlineSize=0
    SE.Attribute.Exist objectClass=GlueSE
    SE.Attribute.OptionalExist objectClass=GlueSE
    SE.Attribute.Unique GlueSEUniqueID=a; GlueForeignKey=GlueSiteUniqueID=a; GlueForeignKey=b
    SE.UniqueID.Unique objectClass=GlueSE; GlueSEUniqueID=a
    SE.GlueSA.Exist objectClass=GlueSE
    SE.ForeignKey.Value GlueSEUniqueID=a; GlueForeignKey=b
    SE.Deprecated.Exist GlueSEPort=8443
    SE.Size.Value GlueSESizeFree=-1
    SE.Status.Value GlueSEStatus=up
    SE.Architecture.Value GlueSEArchitecture=raid
    SE.ImplementationName.Value GlueSEImplementationName=mine
    SA.LocalID.Exist objectClass=GlueSA
    SA.Attribute.Exist objectClass=GlueSA
    SA.Deprecated.Exist GlueSARoot=/a
    SA.Size.Valid GlueSAUsedOnlineSize=2; GlueSATotalOnlineSize=1
    SA.Size.Value GlueSAUsedOnlineSize=-1
    SA.Size GlueSATotalOnlineSize=100000000000000001
    SA.Capability GlueSACapability=scratch
    SA.ExpirationMode GlueSAExpirationMode=never
    Service.Status GlueServiceStatus=up
    VOInfo.LocalID.Exist objectClass=GlueVOInfo
    VOInfo.Path.Unique GlueVOInfoPath=/a; GlueVOInfoPath=/b
    SEControlProtocol.LocalID.Exist objectClass=GlueSEControlProtocol
    SEControlProtocol.Type.Exist objectClass=GlueSEControlProtocol
    SEControlProtocol.Version.Exist objectClass=GlueSEControlProtocol
    SEControlProtocol.Endpoint.Exist objectClass=GlueSEControlProtocol
    SEControlProtocol.Type GlueSEControlProtocolType=srm_v1
    SEControlProtocol.Endpoint GlueSEControlProtocolType=SRM; GlueSEControlProtocolEndpoint=httpg://se/
    SRM.Version GlueSEControlProtocolType=SRM; GlueSEControlProtocolVersion=3
    SEAccessProtocol.LocalID.Exist objectClass=GlueSEAccessProtocol
    SEAccessProtocol.Type.Exist objectClass=GlueSEAccessProtocol
    SEAccessProtocol.Version.Exist objectClass=GlueSEAccessProtocol
    SEAccessProtocol.Type GlueSEAccessProtocolType=smb
    SEAccessProtocol.SupportedSecurity GlueSEAccessProtocolType=gsiftp
    sanity.value GlueCEInfoTotalCPUs=many
    sanity.duplicate.error GlueSiteLatitude=1; GlueSiteLatitude=2
    sanity.duplicate.info GlueSEName=a; GlueSEName=b
    site.values.attribute_empty GlueSiteWeb=
    service.type.value GlueServiceType=mine
    service.attribute.syntax GlueServiceUniqueID=a; GlueForeignKey=S
    Service.Attribute.Exist GlueServiceType=SRM; GlueServiceVersion=2.2.0
    Service.AccessControlBaseRule GlueServiceAccessControlBaseRule=cms
    Service.UniqueID.Unique objectClass=GlueService; GlueServiceUniqueID=a
    SA.AccessControlBaseRule GlueSAAccessControlBaseRule=cms
    SA.LocalID.Unique objectClass=GlueSA; GlueChunkKey=GlueSEUniqueID=a; GlueSALocalID=a
    VOInfo.AccessControlBaseRule GlueVOInfoAccessControlBaseRule=cms
    VOInfo.ChunkKey GlueVOInfoLocalID=a; GlueChunkKey=GlueSALocalID
    VOInfo.LocalID.Unique objectClass=GlueVOInfo; GlueVOInfoLocalID=a
    SEControlProtocol.LocalID.Unique objectClass=GlueSEControlProtocol; GlueChunkKey=a
    SEAccessProtocol.LocalID.Unique objectClass=GlueSEAccessProtocol; GlueChunkKey=a
    """,
)

CODES = {
    f"glue-validator.{letter}{number:03}"
    for letter, last in (("E", 26), ("W", 45), ("I", 97))
    for number in range(1, last + 1)
} | {"glue-validator.I999"}
"""What glue-validator 2.0.24 lists in its messages."""

_GSTAT = """
    connection.error
    site.mandatory_attrs.missing_attr site.mandatory_attrs.exception site.values.attribute_empty
    site.values.typeError site.ID_equals_name.difference site.ID_equals_name.typeError
    site.email.incorrect site.coordinates.no_coordinates site.coordinates.no_location_in_google
    site.coordinates.incorrect_latitude site.coordinates.incorrect_longitude site.URL.incorrect
    site.OhterInfo.no_GRID_info site.OhterInfo.incorrect_GRID_value site.OtherInfo.invalid_NGI
    site.OhterInfo.missing_WLCG site.OhterInfo.incorrect_format
    sanity.missing.error sanity.missing.info sanity.value sanity.duplicate.error
    sanity.duplicate.info sanity.existence sanity.ce sanity.se sanity.format sanity.size
    sanity.unset sanity.zero sanity.negative sanity.version sanity.os sanity.numeric sanity.usage
    sanity.full
    service.attribute.missing service.attribute.syntax service.published service.registered
    service.type.value
    value.error CE.Attribute.Exist CE.Attribute.OptionalExist CE.UniqueID.Unique
    CE.PolicyAssignedJobSlots.Value CE.Status.Value CE.GlueCluster.Exist
    CE.AccessControlBaseRule.Value CE.Capability.Exist CE.Capability.Value
    Cluster.ForeignKey.Value Cluster.UniqueID.Exist Cluster.UniqueID.Unique
    SubCluster.Attribute.Exist SubCluster.Attribute.OptionalExist SubCluster.UniqueID.Unique
    SubCluster.CPU.Value SubCluster.OtherDescription.Cores SubCluster.OtherDescription.Benchmark
    SE.Attribute.Exist SE.Attribute.OptionalExist SE.Attribute.Unique SE.UniqueID.Unique
    SE.ImplementationName.Value SE.Status.Value SE.Architecture.Value SE.ForeignKey.Value
    SE.Deprecated.Exist SE.GlueSA.Exist SE.Size.Value
    SA.Attribute.Exist SA.Deprecated.Exist SA.Size.Valid SA.Size SA.LocalID.Exist
    SA.LocalID.Unique SA.Size.Value SA.Capability.Exist SA.Capability SA.Path SA.ExpirationMode
    SA.AccessControlBaseRule
    VOInfo.Exist VOInfo.Tag VOInfo.LocalID.Exist VOInfo.LocalID.Unique VOInfo.Path.Unique
    VOInfo.Path VOInfo.ChunkKey VOInfo.AccessControlBaseRule
    SEControlProtocol.LocalID.Exist SEControlProtocol.LocalID.Unique SEControlProtocol.Exist
    SEControlProtocol.Type.Exist SEControlProtocol.Version.Exist SEControlProtocol.Endpoint.Exist
    SEControlProtocol.Service SEControlProtocol.Type SEControlProtocol.Endpoint SRM.Version
    SEAccessProtocol.SupportedSecurity SEAccessProtocol.Version.Exist SEAccessProtocol.Type
    SEAccessProtocol.Type.Exist SEAccessProtocol.LocalID.Exist SEAccessProtocol.LocalID.Unique
    Service.Status Service.Attribute.Exist Service.UniqueID.Unique Service.AccessControlBaseRule
"""
CODES |= {f"gstat.{code}" for code in _GSTAT.split()}
"""What the programs of gstat-validation 2.0.52 list or give."""


def test_each_code_of_the_tools_is_tested_or_has_its_reason() -> None:
    ours = {f"glue-validator.{code}" for *_, code in (*AT_MOST, *SUMS) if code}
    never = TABLE["never"]
    assert EXAMPLE.keys() | ours | never.keys() == CODES
    assert not never.keys() & (EXAMPLE.keys() | ours)
    assert all(reason.strip() for reason in never.values())


def test_a_value_of_a_service_is_doubted_once() -> None:
    """Its endpoints and queues repeat it; another service, value or attribute counts anew."""

    def doubted(*entries: tuple[str, str]) -> list[str]:
        made = [Entry(dn, _attributes(text)) for dn, text in entries]
        return [i.raw for i in found(made) if i.rule == "glue-validator.W037"]

    word = "GLUE2EndpointInterfaceName=mine"
    ends = [(f"GLUE2EndpointID=e{n},GLUE2ServiceID=s,o=glue", word) for n in range(14)]
    assert doubted(*ends) == ["mine"]
    other = "GLUE2EndpointID=e,GLUE2ServiceID=t,o=glue"
    assert doubted(*ends, (other, word), (ends[0][0], f"{word[:-4]}ours")) == [
        *("mine", "mine", "ours"),
    ]
    lrms = "GlueCEInfoLRMSType=slurm"
    ces = [f"GlueCEUniqueID={host}:1/b-slurm-q{n},o=grid" for host in "ab" for n in range(7)]
    assert doubted(*((ce, lrms) for ce in ces)) == ["slurm", "slurm"]
    assert doubted(("o=glue", word), ("o=glue", word)) == ["mine", "mine"]


def test_levels_are_those_of_the_tool_or_have_their_reason() -> None:
    pairs = (*EXAMPLE.items(), ("glue-validator.W037", "GLUE2EndpointInterfaceName=mine"))
    levels = {
        (issue.rule.removeprefix("glue-validator."), issue.level)
        for _, text in pairs
        for issue in found([Entry("GLUE2DomainID=S,o=glue", _attributes(text))])
        if issue.rule.startswith("glue-validator.")
    }
    # See docs/glue.md: what is missing, and words outside of open lists.
    assert {code for code, level in levels if code[0] != level} == {"W034", "W037", "W044", "E025"}


def _attributes(text: str) -> Attributes:
    return Attributes(tuple(pair.split("=", 1)) for pair in text.split("; "))  # type: ignore[misc]


def test_each_code_has_an_example() -> None:
    parts = ("absent", "words", "open", "once", "beside", "rules")
    generic = {f"glue-validator.{code}" for code in ("E021", "W036", "W038")}
    assert EXAMPLE.keys() == {code for part in parts for code in TABLE[part]} | generic


@pytest.mark.parametrize("code", sorted(EXAMPLE))
def test_each_code_is_found(code: str) -> None:
    made = _attributes(EXAMPLE[code])
    count = 2 if code in TABLE["once"] else 1
    entries = [Entry(f"GLUE2ID={n},GLUE2DomainID=S,o=glue", made) for n in range(count)]
    assert code in {issue.rule for issue in found(entries)}


@pytest.mark.parametrize(
    ("part", "code"), [(part, code) for part in ("words", "open") for code in TABLE[part]]
)
def test_each_vocabulary_takes_its_words(part: str, code: str) -> None:
    for name, text in TABLE[part][code].items():
        words = text if "|" in text else TABLE["open"]["glue-validator.W037"][text]
        for word in words.split("|"):
            assert code not in codes(f"{name}={word}") or code == "glue-validator.W037"
        assert code in codes(f"{name}=no word of it")


def test_what_is_sound_breaks_no_rule() -> None:
    """Sound values beside those of `EXAMPLE`, at the bounds."""
    assert codes(
        "objectClass=GLUE2Entity",
        "GLUE2EntityCreationTime=2026-05-31T23:00:00Z",
        "GLUE2EntityValidity=3600",
        "GLUE2EntityOtherInfo=Share=cms:60",
        "GLUE2EntityOtherInfo=Share=atlas:40",
        "GLUE2EntityOtherInfo=ProfileName=EGI",
        "GLUE2EntityOtherInfo=GRID=EGI",
        "GLUE2LocationLatitude=45.47",
        "GLUE2LocationLongitude=-179.9",
        "GLUE2ContactDomainForeignKey=S",
        "GLUE2ContactType=general",
        "GLUE2EndpointURL=https://ce.s.org:8443/cream",
        "GLUE2EndpointStartTime=2026-05-31T23:00:00Z",
        "GLUE2EndpointDowntimeAnnounce=2026-05-31T23:00:00Z",
        "GLUE2EndpointDowntimeStart=2026-06-01T00:00:00Z",
        "GLUE2EndpointDowntimeEnd=2026-06-02T00:00:00Z",
        "GLUE2StorageServiceCapacityTotalSize=9000",
        "GLUE2StorageServiceCapacityType=online",
        "GLUE2StorageServiceCapacityUsedSize=1000",
        "GLUE2StorageServiceCapacityFreeSize=8000",
        "GLUE2StorageServiceCapacityReservedSize=0",
        "GLUE2ComputingShareWaitingJobs=0",
        "GLUE2ComputingManagerTotalSlots=20",
        "GLUE2ComputingManagerTotalLogicalCPUs=10",
    ) == set()  # fmt: skip
    assert codes(
        "GlueCEUniqueID=ce.s.org:8443/cream-pbs-long",
        "GlueCEStateStatus=Production",
        "GlueCEStateWaitingJobs=499",
        "GlueCEInfoTotalCPUs=10",
        "GlueCEInfoLRMSType=torque",
        "GlueCEPolicyAssignedJobSlots=1",
        "GlueCEAccessControlBaseRule=VOMS:/atlas/Role=a",
        "GlueCECapability=CPUScalingReferenceSI00=2000",
        "GlueCECapability=Share=cms:100",
    ) == set()  # fmt: skip
    assert codes(
        "GlueSubClusterPhysicalCPUs=2",
        "GlueSubClusterLogicalCPUs=8",
        "GlueHostProcessorOtherDescription=Cores=4,Benchmark=8.0-HEP-SPEC06",
        "GlueHostBenchmarkSI00=2000",
        "GlueHostApplicationSoftwareRunTimeEnvironment=VO-cms-a",
        "GlueHostNetworkAdapterOutboundIP=TRUE",
    ) == set()  # fmt: skip
    assert codes(
        "GlueSiteUniqueID=S",
        "GlueSiteName=S",
        "GlueSiteWeb=http://www.s.org/x",
        "GlueSiteEmailContact=mailto: grid@s.org",
        "GlueSiteOtherInfo=GRID=EGI",
        "GlueSiteOtherInfo=EGI_NGI=NGI_IT",
        "GlueSiteLatitude=45.47",
    ) == set()  # fmt: skip


NAMES = sorted({n for rows in TABLE["rules"].values() for names, *_ in rows for n in names.split()})


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*NAMES, "objectClass", "repeated", "value", "x"]),
            st.one_of(
                st.text(max_size=12),
                st.sampled_from(["-1", "9" * 30, "1e400", "nan", "a\0b", "\ud800", "Share=a:1"]),
                st.sampled_from(["GlueCE", "GlueSite", "GLUE2Entity", "GLUE2ComputingShare"]),
            ),
        ),
        max_size=8,
    )
)
def test_whatever_is_published_is_tested(pairs: list[tuple[str, str]]) -> None:
    issues = found([Entry("GLUE2ID=x,o=glue", Attributes(pairs))])
    assert all(issue.rule in EXAMPLE and issue.level in "EWI" for issue in issues)


def test_comparisons_of_ours_have_the_codes_too() -> None:
    known = {code for *_, code in (*AT_MOST, *SUMS) if code}
    lacking = {f"W{n:03}" for n in (5, *range(13, 20), 21, 23, 25, *range(27, 31))} - known
    assert lacking == set()


def test_check_finds_by_either_code() -> None:
    lines = ["dn: GlueCEUniqueID=a,o=grid", "objectClass: GlueCE", "GlueCEUniqueID: a",
             "GlueCEStateStatus: Queuing"]  # fmt: skip
    rules = glue.DEFAULT_RULES | VALIDATORS
    read = {issue.rule: issue.level for issue in glue.read_ldif(lines, rules=rules).issues}
    assert read["clean.status"] == read["gstat.CE.Status.Value"] == "W"
    assert read["gstat.CE.Attribute.Exist"] == "I"
    plain = {issue.rule for issue in glue.read_ldif(lines).issues}
    assert not any(rule.startswith(tuple(VALIDATORS)) for rule in plain)


@pytest.fixture(scope="module", params=[False, True], ids=["together", "split"])
def site(request: pytest.FixtureRequest) -> glue.GlueRecords:
    """A site of a batch system, with all that its site file says."""
    told = commands.described("torque", SAVED)
    queues = glue.place(told.queues, "ce.s.org:8443/cream", site="S", vos=["cms", "/atlas"])
    made = glue.describe_site(queues, told.nodes, split=request.param)
    return with_site(made, site_values(SITE))


def test_a_batch_system_passes(site: glue.GlueRecords) -> None:
    issues: list[glue.Issue] = []
    for entries in (list(entries13(site, issues.append)), list(entries20(site, issues.append))):
        assert [str(issue) for issue in found(entries) if issue.level != "I"] == []
    assert issues == []
    kinds = {name for e in entries20(site, print) for name in e.attributes["objectClass"]}
    assert {"GLUE2AccessPolicy", "GLUE2MappingPolicy", "GLUE2Location", "GLUE2Contact"} <= kinds


def test_what_passes_is_read_back(site: glue.GlueRecords) -> None:
    entries = [*entries13(site, print), *entries20(site, print)]
    for some in (entries, list(entries20(site, print))):
        lines = as_ldif(some)
        read = glue.read_ldif(lines)
        assert read.issues == ()
        [made] = read.snapshot.sites
        assert {**made.values} == {**made.values, **site_values(SITE)}
        queues = read.computing_elements()
        assert {q.eval("CEid") for q in queues} == {ce.id for ce in site.computing_elements}
        for queue in queues:
            assert queue.eval("GlueCEAccessControlBaseRule") == ["VO:cms", "VOMS:/atlas"]


@pytest.mark.parametrize("trees", ["1.3", "2.0", "both"])
def test_a_site_that_several_servers_collect_is_published_once(
    site: glue.GlueRecords, trees: str
) -> None:
    """As under a site's and a top-level BDII: what is repeated is a note, and not repeated."""

    def lines(text: str) -> list[str]:
        return text.replace("\n ", "").splitlines()

    def published(source: glue.GlueRecords) -> str:
        file = io.StringIO()
        assert glue.write_ldif(source, file, version=trees) == ()  # type: ignore[arg-type]
        return file.getvalue()

    once = published(site)
    read = glue.read_ldif(lines(once))
    assert read.issues == ()
    other = once.replace("\n ", "").replace(",Mds-Vo-name=local,o=grid", ",o=grid")
    other = other.replace(",GLUE2GroupID=grid,o=glue", ",o=glue")
    twice = glue.read_ldif(lines(once) + lines(other))
    assert {(issue.level, issue.rule) for issue in twice.issues} == {("I", "link.repeated")}
    assert published(twice.snapshot) == published(read.snapshot)


def test_a_dump_published_again_has_no_error() -> None:
    read = glue.read_ldif(EXAMPLES / "site.ldif").snapshot
    issues: list[glue.Issue] = []
    again = found([*entries13(read, issues.append), *entries20(read, issues.append)])
    assert [str(issue) for issue in again if issue.level == "E"] == []
    assert "publish.no-site" in {issue.rule for issue in issues}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('nam = "x"', "no key 'nam'"),
        ("latitude = 91", "latitude is a number of degrees from -90 to 90: found 91"),
        ("longitude = true", "longitude is a number"),
        ('admin = "nobody"', "admin is an address of mail"),
        ('name = "a\\nb"', "name is a text on one line"),
        ("name = 7", "name is a text on one line: found 7"),
        ("=", "line 1"),
    ],
)
def test_a_site_file_with_a_fault_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        site_values(text)


def test_a_share_that_admits_nobody_stays_closed_beside_others() -> None:
    ads = list(
        parse_ads(
            """[ CEid = "ce.s.org:8443/cream-pbs-a"; GlueCEAccessControlBaseRule = {"VO:cms"} ]
               [ CEid = "ce.s.org:8443/cream-pbs-b"; GlueCEAccessControlBaseRule = {} ]"""
        )
    )
    entries = entries20(glue.describe_site(ads), lambda issue: None)
    lines = as_ldif(entries)
    rules = {
        ad.eval("QueueName"): ad.eval("GlueCEAccessControlBaseRule")
        for ad in glue.read_ldif(lines).computing_elements()
    }
    assert rules == {"a": ["VO:cms"], "b": ["DENY:ALL"]}


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("jobmanager", "org.edg.gatekeeper"),
        ("nordugrid", "org.nordugrid.gridftpjob"),
        ("emies", "org.ogf.glue.emies.activitycreation"),
        ("condorce", "org.opensciencegrid.htcondorce"),
    ],
)
def test_the_word_of_an_endpoint_is_published_as_the_schema_has_it(word: str, name: str) -> None:
    queue = parse_ads('[ QueueName = "long"; LRMSType = "slurm" ]')
    [ad] = glue.place(queue, f"ce.s.org:2119/{word}", site="S", vos=["cms"])
    entries = list(entries20(glue.describe_site([ad]), print))
    [said] = [n for e in entries for n in e.attributes.get("GLUE2EndpointInterfaceName", ())]
    assert said == name
    # The tool knows the interfaces of its time.
    strange = {i.raw for i in found(entries) if i.attribute == "GLUE2EndpointInterfaceName"}
    assert strange == ({name} if word == "condorce" else set())
    [read] = glue.read_ldif(as_ldif(entries)).computing_elements()
    assert read.eval("CEid") == f"ce.s.org:2119/{word}-slurm-long"
