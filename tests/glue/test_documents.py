from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker import broker, glue, parse_ad, parse_ads
from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad import ClassAd, parse_expr
from matchmaker.glue.issues import Issue
from matchmaker.glue.readers.documents import read_json
from tests.limits import fields

pytestmark = pytest.mark.slow

# In the shape of ARC's document: a tree, with associations between what is beside each other.
XML = """\
<?xml version="1.0" encoding="UTF-8"?>
<InfoRoot>
 <Domains xmlns="http://schemas.ogf.org/glue/2009/03/spec_2.0_r1">
  <AdminDomain BaseType="Domain">
   <ID>urn:ad:S</ID><Name>S</Name>
   <Services>
    <ComputingService BaseType="Service" CreationTime="2026-01-01T00:00:00Z" Validity="3600">
     <ID>urn:ogf:ComputingService:arc.s.grid:arex</ID>
     <Type>org.nordugrid.arex</Type><QualityLevel>production</QualityLevel>
     <ComputingEndpoint BaseType="Endpoint">
      <ID>urn:ep:rest</ID><URL>https://arc.s.grid:443/arex</URL>
      <Capability>executionmanagement.jobcreation</Capability>
      <InterfaceName>org.nordugrid.arcrest</InterfaceName>
      <ServingState>production</ServingState>
      <AccessPolicy><ID>urn:ap</ID><Rule>VO:atlas</Rule><Rule>VO:cms</Rule></AccessPolicy>
      <Associations><ComputingShareID>urn:share:long</ComputingShareID></Associations>
     </ComputingEndpoint>
     <ComputingEndpoint BaseType="Endpoint">
      <ID>urn:ep:ldap</ID><URL>ldap://arc.s.grid:2135/o=glue</URL>
      <Capability>information.discovery.resource</Capability>
     </ComputingEndpoint>
     <ComputingShare BaseType="Share">
      <ID>urn:share:long</ID><MappingQueue>long</MappingQueue>
      <MaxWallTime>172800</MaxWallTime><ServingState>production</ServingState>
      <FreeSlots>17</FreeSlots><WaitingJobs>4</WaitingJobs>
      <MappingPolicy><ID>urn:mp</ID><Scheme>basic</Scheme><Rule>VO:atlas</Rule></MappingPolicy>
      <Associations><ExecutionEnvironmentID>urn:ee:1</ExecutionEnvironmentID></Associations>
     </ComputingShare>
     <ComputingManager BaseType="Manager">
      <ID>urn:cm</ID><ProductName>SLURM</ProductName><TotalSlots>96</TotalSlots>
      <ExecutionEnvironments>
       <ExecutionEnvironment BaseType="Resource">
        <ID>urn:ee:1</ID><Platform>x86_64</Platform><MainMemorySize>64000</MainMemorySize>
        <LogicalCPUs>16</LogicalCPUs><TotalInstances>6</TotalInstances>
        <ConnectivityOut>true</ConnectivityOut>
        <Benchmark><ID>urn:b</ID><Type>hep-spec06</Type><Value>10.4</Value></Benchmark>
       </ExecutionEnvironment>
      </ExecutionEnvironments>
      <ApplicationEnvironments>
       <ApplicationEnvironment><ID>urn:app</ID><AppName>ENV/PROXY</AppName></ApplicationEnvironment>
      </ApplicationEnvironments>
     </ComputingManager>
    </ComputingService>
   </Services>
  </AdminDomain>
 </Domains>
</InfoRoot>
"""

# In the shape of ipf's: a list for each class, and associations alone.
JSON = {
    "ComputingService": [
        {
            "ID": "urn:service",
            "Name": "Slurm",
            "Associations": {"ComputingManagerID": ["urn:cm"], "ComputingShareID": ["urn:normal"]},
        }
    ],
    "ComputingManager": [
        {
            "ID": "urn:cm",
            "ProductName": "SLURM",
            "TotalSlots": 512,
            "Reservation": True,
            "Associations": {"ComputingServiceID": "urn:service"},
        }
    ],
    "ComputingShare": [
        {
            "ID": "urn:normal",
            "Name": "normal",
            "MappingQueue": "normal",
            "ServingState": "production",
            "MaxWallTime": 86400,
            "FreeSlots": 40,
            "WaitingJobs": 0,
            "Extension": {"Priority": 3},
            "Associations": {"ExecutionEnvironmentID": ["urn:ee"]},
        }
    ],
    "ExecutionEnvironment": [
        {
            "ID": "urn:ee",
            "Platform": "x86_64",
            "MainMemorySize": 128000,
            "LogicalCPUs": 64,
            "ConnectivityOut": "true",
            "Associations": {"ComputingManagerID": "urn:cm"},
        }
    ],
    "ComputingActivity": [{"ID": "urn:job"}],
}


def read(text: str | bytes) -> glue.Glue:
    now = datetime(2026, 1, 1, 0, 30, tzinfo=UTC)
    return glue.read(io.BytesIO(text.encode() if isinstance(text, str) else text), at=now)


def only(found: glue.Glue) -> ClassAd:
    [ad] = found.computing_elements()
    return ad


def test_the_xml_of_arc() -> None:
    found = read(XML)
    assert [issue.rule for issue in found.issues] == ["clean.benchmark"]
    ad = only(found)
    expected = {
        "CEid": "arc.s.grid:443/arcrest-slurm-long",
        "GlueCEPolicyMaxWallClockTime": 2880,
        "GlueCEStateFreeCPUs": 17,
        "GlueCEStateStatus": "Production",
        "GlueCEInfoTotalCPUs": 96,
        "GlueCEAccessControlBaseRule": ["VO:atlas"],
        "GlueHostMainMemoryRAMSize": 64000,
        "GlueHostArchitectureSMPSize": 16,
        "GlueHostBenchmarkSI00": 2600,
        "GlueHostNetworkAdapterOutboundIP": True,
        "GlueHostApplicationSoftwareRunTimeEnvironment": ["ENV/PROXY"],
        "GlueSiteUniqueID": "urn:ad:S",
    }
    assert {name: ad.eval(name) for name in expected} == expected
    assert ad.eval(parse_expr("GLUE2.Computing.Share.MaxWallTime")) == 172800
    job = parse_ad('[ VirtualOrganisation = "atlas"; Rank = other.GlueCEStateFreeCPUs ]')
    assert broker.choose(job, found).chosen is not None


def test_the_json_of_ipf() -> None:
    found = read("\n " + json.dumps(JSON))
    assert [issue.rule for issue in found.issues] == ["link.no-endpoint", "access.none"]
    ad = only(found)
    assert ad.eval("CEid") == "urn:normal"
    assert ad.eval("GlueCEPolicyMaxWallClockTime") == 1440
    assert ad.eval("GlueHostMainMemoryRAMSize") == 128000
    assert ad.eval("LRMSType") == "slurm"
    assert ad.eval(parse_expr("GLUE2.Computing.Manager.Reservation")) is True


def test_the_same_tree_as_json() -> None:
    """ARC gives its document as JSON too: the same names, one level each."""
    tree = {
        "Domains": {
            "AdminDomain": {
                "ID": "urn:ad:S",
                "Services": {
                    "ComputingService": {
                        "ID": "urn:c",
                        "ComputingEndpoint": {
                            "ID": "urn:ep",
                            "URL": "https://arc.s.grid:443/arex",
                            "InterfaceName": "org.nordugrid.arcrest",
                        },
                        "ComputingShare": [
                            {"ID": "urn:s", "MappingQueue": "long", "MaxWallTime": "172800"}
                        ],
                        "ComputingManager": {"ID": "urn:m", "ProductName": "SLURM"},
                    }
                },
            }
        }
    }
    ad = only(read(json.dumps(tree)))
    assert ad.eval("CEid") == "arc.s.grid:443/arcrest-slurm-long"
    assert ad.eval("GlueSiteUniqueID") == "urn:ad:S"


def test_ldif_is_told_apart() -> None:
    text = "\n# a dump\ndn: GlueCEUniqueID=h:1/jm-pbs-q,o=grid\nobjectClass: GlueCE\n"
    assert only(read(text)).eval("CEid") == "h:1/jm-pbs-q"
    assert read("").computing_elements() == []


def test_a_document_that_breaks_off_is_partial() -> None:
    cut = XML.index("<ComputingManager")
    found = read(XML[:cut])
    assert {"document.partial", "link.no-cluster"} <= {issue.rule for issue in found.issues}
    assert only(found).eval("GlueCEStateFreeCPUs") == 17


@pytest.mark.parametrize("service", ["7", "null", '"x"', "[7]", "[[]]", "true"])
def test_a_service_that_is_no_object_is_a_finding(service: str) -> None:
    """Its queues are lost with it."""
    text = f'{{"ComputingService": {service}, "ComputingShare": [{{"ID": "s"}}]}}'
    found = glue.read(io.BytesIO(text.encode()))
    assert [i.rule for i in found.issues if i.level == "E"][:1] == ["document.no-object"]
    assert found.computing_elements() == []


def test_rules_count_in_a_service_without_an_id() -> None:
    share = '{"ID": "s", "MappingPolicy": {"ID": "p", "Rule": "VO:cms"}}'
    for ident in ('"ID": "S", ', ""):
        text = f'{{"ComputingService": {{{ident}"ComputingShare": {share}}}}}'
        [ad] = glue.read(io.BytesIO(text.encode())).computing_elements()
        assert ad.eval("GlueCEAccessControlBaseRule") == ["VO:cms"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<a", "not a GLUE 2.0 document"),
        ("<a></b>", "not a GLUE 2.0 document"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', "entities"),
        ('<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>', "entities"),
        ("<a>" * 100, "nested"),
        ("{", "not a GLUE 2.0 document"),
        ('{"a": ' * 100_000, "not a GLUE 2.0 document"),
        ('{"a": ' * 100 + "1" + "}" * 100, "nested"),
    ],
)
def test_what_is_no_document(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read(text)


@given(st.data())
def test_a_damaged_document_never_crashes(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from([XML.encode(), json.dumps(JSON).encode()]))
    part = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(part)))
        part[place : place + data.draw(st.integers(0, 30))] = data.draw(st.binary(max_size=6))
    try:
        found = read(bytes(part))
    except ValueError:
        return
    for ad in found.computing_elements():
        assert isinstance(ad.eval("CEid"), str)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["ComputingShare", "ComputingService", "ID", "Associations", "x"])
                | st.sampled_from(["ComputingEndpointID", "ComputingServiceID", "MaxWallTime"]),
                inner,
                max_size=4,
            )
        ),
    )
)
def test_any_json_is_read_or_refused(value: object) -> None:
    try:
        found = read(json.dumps({"ComputingShare": value, "Domains": [value]}))
    except ValueError as error:
        assert "JSON of no form that is known" in str(error)  # noqa: PT017 - it may be read too
        return
    assert all(isinstance(ad.eval("CEid"), str) for ad in found.computing_elements())


OSG = """
[ MyType = "Scheduler"; Name = "ce1.t2.edu"; OSG_ResourceGroup = "T2_Edu"; OSG_Resource = "T2_CE1";
  OSG_BatchSystems = "Slurm";
  OSG_ResourceCatalog = {
    [ Name = "whole"; Memory = 64000; CPUs = 16; MaxWallTime = 2880; AllowedVOs = { "osg" } ],
    [ Memory = 2500; CPUs = 1; MaxWallTime = 1440; AllowedVOs = { "cms" } ], 7 } ]
[ Name = "schedd.elsewhere" ]
"""


def test_the_collector_of_the_osg() -> None:
    found = glue.read_osg(parse_ads(OSG))
    assert [issue.rule for issue in found.issues] == ["osg.entry", "osg.no-catalog"]
    ads = {str(ad.eval("CEid")): ad for ad in found.computing_elements()}
    assert set(ads) == {
        "ce1.t2.edu:9619/condorce-slurm-whole",
        "ce1.t2.edu:9619/condorce-slurm-resource2",
    }
    ad = ads["ce1.t2.edu:9619/condorce-slurm-whole"]
    assert ad.eval("GlueHostMainMemoryRAMSize") == 64000
    assert ad.eval("GlueCEPolicyMaxWallClockTime") == 2880
    assert ad.eval("GlueSiteUniqueID") == "T2_Edu"
    job = parse_ad(
        '[ VirtualOrganisation = "osg"; Requirements = other.GlueHostMainMemoryRAMSize > 1000;'
        "  Rank = 1 ]"
    )
    [one] = broker.choose(job, found).ranked
    assert one.name.endswith("-whole")


def swelling(depth: int, leaves: int) -> bytes:
    """Services within services, with long ids, and many small objects in the innermost."""
    inner: dict[str, Any] = {"ComputingShare": [{"ID": str(n)} for n in range(leaves)]}
    for level in range(depth):
        inner = {"ComputingService": [{"ID": f"{level}" + "x" * 2000, **inner}]}
    return json.dumps(inner).encode()


def test_ids_within_ids_do_not_swell() -> None:
    data = swelling(50, 5000)
    issues: list[Issue] = []
    total = sum(len(entry.dn) for entry in read_json(io.BytesIO(data), issues.append))
    assert total < 17 * len(data) + 70_000
    assert [issue.rule for issue in issues] == ["document.partial"]
    assert issues[0].partial


def test_associations_of_many_with_many_do_not_swell() -> None:
    service = {"ID": "s", "Associations": {"ComputingShareID": ["a"] * 3000}}
    data = json.dumps({"ComputingService": service, "ComputingShare": [{"ID": "a"}] * 3000})
    issues: list[Issue] = []
    found = list(read_json(io.BytesIO(data.encode()), issues.append))
    keys = sum(len(entry.attributes.get("GLUE2ShareServiceForeignKey", ())) for entry in found)
    assert keys <= 17 * len(data)
    assert [issue.rule for issue in issues] == ["document.partial"]


def test_links_of_many_with_many_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 20 shares is on each of 20 sets of hosts, and each has 20 storage elements close."""
    close = [{"LocalID": f"b{n}", "Associations": {"StorageServiceID": "x"}} for n in range(20)]
    document = {
        "ComputingService": {
            "ID": "s",
            "ComputingManager": {
                "ID": "m",
                "ExecutionEnvironment": [{"ID": f"e{n}"} for n in range(20)],
            },
            "ComputingShare": [{"ID": f"s{n}"} for n in range(20)],
            "ToStorageService": close,
        }
    }
    data = json.dumps(document).encode()

    def links() -> tuple[int, int, int]:
        found = glue.read(io.BytesIO(data))
        queues = found.snapshot.computing_elements
        rules = [issue.rule for issue in found.issues]
        hosts = sum(len(queue.cluster.subclusters) for queue in queues if queue.cluster)
        return hosts, sum(len(queue.binds) for queue in queues), rules.count("link.too-many")

    assert links() == (400, 400, 0)
    monkeypatch.setitem(fields(LIMITS), "links", 100)
    monkeypatch.setitem(fields(LIMITS), "links_each", 0)
    hosts, binds, told = links()
    assert hosts + binds == 100
    assert told == 1
