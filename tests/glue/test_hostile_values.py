from __future__ import annotations

import io

import pytest

from matchmaker import broker, glue, parse_ad
from matchmaker.classad import UNDEFINED
from matchmaker.glue.schema import attribute
from tests.glue.sites import GLUE13, GLUE20

SHARE = """dn: GLUE2ServiceID=s,o=glue
objectClass: GLUE2Service
objectClass: GLUE2ComputingService
GLUE2ServiceID: s

dn: GLUE2ShareID=h,GLUE2ServiceID=s,o=glue
objectClass: GLUE2Share
objectClass: GLUE2ComputingShare
GLUE2ShareID: h
GLUE2ComputingShareServingState: production
GLUE2ShareComputingServiceForeignKey: s
GLUE2ComputingShareServiceForeignKey: s
{}
"""


def _counts(name: str) -> bool:
    known = attribute(name)
    return known is not None and known.classad in ("integer", "real")


HOSTS = """dn: GLUE2ServiceID=s,o=glue
objectClass: GLUE2ComputingService

dn: GLUE2ManagerID=m,GLUE2ServiceID=s,o=glue
objectClass: GLUE2ComputingManager

dn: GLUE2ResourceID=e,GLUE2ManagerID=m,GLUE2ServiceID=s,o=glue
objectClass: GLUE2ExecutionEnvironment
GLUE2ExecutionEnvironmentPhysicalCPUs: 9000000000000000000
GLUE2ExecutionEnvironmentTotalInstances: 9000000000000000000

dn: GLUE2BenchmarkID=b,GLUE2ResourceID=e,GLUE2ManagerID=m,GLUE2ServiceID=s,o=glue
objectClass: GLUE2Benchmark
GLUE2BenchmarkType: {}
GLUE2BenchmarkValue: 1e307

dn: GLUE2ShareID=q,GLUE2ServiceID=s,o=glue
objectClass: GLUE2ComputingShare
"""


@pytest.mark.parametrize(
    "line",
    [
        "GLUE2ComputingShareFreeSlots: 1e20",
        "GLUE2ComputingShareMaxTotalJobs: 1e20",
        "GLUE2ComputingShareMaxCPUTime: 1e300",
        "GLUE2ComputingShareMaxCPUTime: 9223372036854775807",
    ],
)
def test_one_number_beyond_all_measure_spoils_nothing(line: str) -> None:
    found = glue.read_ldif(io.StringIO(SHARE.format(line)))
    ads = list(found.computing_elements())
    assert ads
    for ad in ads:
        for name in ad:
            ad.eval(name)


@pytest.mark.parametrize("site", [GLUE13, GLUE20], ids=["1.3", "2.0"])
@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 0, -1, 1e307, -1e307, 5e-324])
def test_a_site_whose_every_number_is_the_same(site: str, number: float) -> None:
    """Whatever the number, all is read, gives ads, is decided on and is published."""
    lines = [
        f"{name}: {number}" if _counts(name) else line
        for line in site.split("\n")
        for name in [line.partition(":")[0]]
    ]
    found = glue.read_ldif(lines)
    ads = found.computing_elements()
    assert len(ads) == len(glue.read_ldif(site.split("\n")).computing_elements()) > 0
    for ad in ads:
        for name in ad:
            ad.eval(name)
    broker.choose(parse_ad("[ Rank = other.GlueHostBenchmarkSI00 ]"), found)
    glue.write_ldif(found, io.StringIO())
    glue.write_ldif(ads, io.StringIO())


@pytest.mark.parametrize("kind", ["specint2000", "hep-spec06"])
def test_the_hosts_of_one_site_beyond_all_measure(kind: str) -> None:
    lines = HOSTS.format(kind).split("\n")
    found = glue.read_ldif(lines)
    [ad] = found.computing_elements()
    assert ad.eval("GlueHostBenchmarkSI00") is UNDEFINED
    assert ad.eval("GlueSubClusterPhysicalCPUs") is UNDEFINED
    glue.write_ldif(found, io.StringIO())


@pytest.mark.parametrize("number", ['real("INF")', 'real("NaN")', "1.0e300", "true", '"x"'])
def test_a_catalogue_of_the_osg_beyond_all_measure(number: str) -> None:
    entry = f'[ Name = "w"; Memory = {number}; CPUs = {number}; MaxWallTime = {number} ]'
    ce = parse_ad(f'[ Name = "ce.t2.edu"; OSG_ResourceCatalog = {{ {entry} }} ]')
    [ad] = glue.read_osg([ce]).computing_elements()
    for name in ("GlueHostMainMemoryRAMSize", "GlueHostArchitectureSMPSize"):
        assert ad.eval(name) is UNDEFINED
    assert ad.eval("GlueCEPolicyMaxWallClockTime") is UNDEFINED


def test_what_looks_like_a_lost_line_is_read_back_as_it_was_written() -> None:
    queue = parse_ad("""[ CEid = "h:1/a-pbs-q"; GlueCEAccessControlBaseRule = { "VO:cms" };
        GlueCEName = "qGlueCEAccessControlBaseRule: VO:evil" ]""")
    file = io.StringIO()
    glue.write_ldif(glue.describe_site([queue], []), file, version="1.3")
    file.seek(0)
    (read,) = glue.read_ldif(file).computing_elements()
    assert read.eval("GlueCEAccessControlBaseRule") == ["VO:cms"]
    assert read.eval("GlueCEName") == queue.eval("GlueCEName")


def test_an_encoding_that_there_is_none_of() -> None:
    with pytest.raises(ValueError, match="not a GLUE"):
        glue.read(io.BytesIO(b'<?xml version="1.0" encoding="foobar"?><a/>'))
