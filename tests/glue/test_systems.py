"""Documents of today's information systems: what is read of them, and that they are told apart."""

from __future__ import annotations

import copy
import io
import json
import re
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, broker, dumps, glue, parse_ad
from matchmaker._data import data_text
from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.glue import Glue, GlueRecords, systems
from matchmaker.glue.access import RULES
from matchmaker.glue.flatten import pending, with_downtimes
from matchmaker.glue.records import Downtime
from matchmaker.glue.systems import merging
from matchmaker.glue.systems.building import Endpoint, QueueBuilder, name
from matchmaker.glue.systems.queues_toml import DowntimeEntry, QueueEntry
from tests.glue.providers import SITES

PANDA: dict[str, Any] = {
    "NORTH_UCORE": {
        "name": "NORTH_UCORE",
        "panda_resource": "NORTH_UCORE",
        "gocname": "NORTH-T2",
        "vo_name": "atlas",
        "state": "ACTIVE",
        "status": "online",
        "resource_type": "GRID",
        "corecount": 8,
        "maxrss": 16000,
        "maxtime": 345600,
        "wnconnectivity": "full#IPv4",
        "is_virtual": False,
        "queues": [
            {
                "ce_endpoint": "https://arc1.north.example:443/arex",
                "ce_flavour": "ARC-CE",
                "ce_jobmanager": "slurm",
                "ce_queue_name": "grid",
                "ce_state": "ACTIVE",
                "ce_queue_maxwctime": 2880,
                "ce_queue_maxcputime": 23040,
            },
            {
                "ce_endpoint": "condor1.north.example",
                "ce_flavour": "HTCONDOR-CE",
                "ce_jobmanager": "condor",
                "ce_queue_name": "default",
                "ce_state": "INACTIVE",
            },
        ],
    },
    "SOUTH": {
        "panda_resource": "SOUTH",
        "rc_site": "SOUTH-T3",
        "vo_name": "dune",
        "state": "ACTIVE",
        "status": "brokeroff",
        "corecount": None,
        "maxrss": "4000",
        "maxtime": 0,
        "queues": [
            {
                "ce_endpoint": "arc.south.example:2811",
                "ce_flavour": "ARC-CE",
                "ce_jobmanager": "Slurm",
                "ce_queue_name": "short",
                "ce_queue_maxwctime": "1440",
            }
        ],
    },
    "VIRTUAL": {"panda_resource": "VIRTUAL", "is_virtual": True, "queues": []},
    "NOWHERE": {"panda_resource": "NOWHERE", "vo_name": "atlas", "queues": []},
}

CES: dict[str, Any] = {
    "EAST-T1": [
        {
            "name": "EAST-arc",
            "endpoint": "arc.east.example:443",
            "flavour": "ARC-CE",
            "jobmanager": "slurm",
            "country_code": "SE",
            "state": "ACTIVE",
            "status": "Production",
            "queues": {
                "long": {"name": "long", "max_wallclocktime": 4320, "max_cputime": 4320},
                "tiny": {"name": "tiny", "max_wallclocktime": 60, "status": "closed"},
            },
        },
        {"name": "EAST-ce", "endpoint": "ce.east.example", "flavour": "HTCONDOR-CE", "queues": {}},
    ]
}


def read(document: object, at: datetime | None = None) -> Glue:
    return glue.read(io.BytesIO(json.dumps(document).encode()), at=at)


def ads(found: Glue) -> dict[str, ClassAd]:
    return {str(ad.eval("CEid")): ad for ad in found.computing_elements()}


ARC = "arc1.north.example:443/nordugrid-slurm-grid"
CONDOR = "condor1.north.example:9619/condorce-condor-default"
SOUTH = "arc.south.example:443/nordugrid-slurm-short"


def test_panda_queues_of_cric() -> None:
    found = read(PANDA)
    by_id = ads(found)
    assert set(by_id) == {ARC, CONDOR, SOUTH}
    wanted: dict[str, object] = {
        "GlueCEInfoHostName": "arc1.north.example",
        "GlueSiteUniqueID": "NORTH-T2",
        "QueueName": "grid",
        "LRMSType": "slurm",
        "GlueCEStateStatus": "Production",
        "GlueCEPolicyMaxWallClockTime": 5760,  # maxtime is of the PanDA queue, in seconds
        "GlueCEPolicyMaxCPUTime": 23040,
        "GlueHostMainMemoryRAMSize": 16000,
        "GlueHostArchitectureSMPSize": 8,
        "MaxMemoryPerNode": 16000,
        "MaxCpusPerNode": 8,
        "GlueHostNetworkAdapterOutboundIP": True,
        "GlueCEAccessControlBaseRule": ["VO:atlas"],
        "PandaQueue": "NORTH_UCORE",
        "InformationSystem": "CRIC",
        "GridResource": "arc https://arc1.north.example:443/arex/rest/1.0",
    }
    assert {name: by_id[ARC].eval(name) for name in wanted} == wanted
    assert by_id[CONDOR].eval("GlueCEStateStatus") == "Closed"
    south = by_id[SOUTH]
    assert south.eval("GlueCEStateStatus") == "Draining"
    assert south.eval("GlueCEPolicyMaxWallClockTime") == 1440
    assert south.eval("GlueHostMainMemoryRAMSize") == 4000
    assert "GlueHostArchitectureSMPSize" not in south
    assert [(issue.rule, issue.raw) for issue in found.issues] == [
        ("system.no-endpoint", "NOWHERE")
    ]


def test_panda_queues_that_share_a_batch_queue_are_views_of_it() -> None:
    both = {name: copy.deepcopy(PANDA["NORTH_UCORE"]) for name in ("NORTH_UCORE", "NORTH_DUNE")}
    both["NORTH_DUNE"] |= {"vo_name": "dune", "maxrss": 2000, "corecount": 1}
    del both["NORTH_DUNE"]["queues"][1]
    by_id = ads(read(both))
    assert set(by_id) == {f"{ARC}/NORTH_UCORE", f"{ARC}/NORTH_DUNE", CONDOR}
    dune = by_id[f"{ARC}/NORTH_DUNE"]
    assert dune.eval("GlueCEUniqueID") == ARC
    assert dune.eval("GlueCEAccessControlBaseRule") == ["VO:dune"]
    assert dune.eval("MaxMemoryPerNode") == 2000
    assert by_id[f"{ARC}/NORTH_UCORE"].eval("MaxMemoryPerNode") == 16000


def test_limits_of_a_processor_are_multiplied() -> None:
    document = {"NORTH": PANDA["NORTH_UCORE"] | {"catchall": "x,per_core_attr", "maxrss": 2000}}
    assert ads(read(document))[ARC].eval("MaxMemoryPerNode") == 16000


def test_a_limit_beyond_64_bits_is_left_out_and_no_other_queue_with_it() -> None:
    large = {"catchall": "per_core_attr", "maxrss": 2**62, "corecount": 2**62}
    document = {"NORTH": PANDA["NORTH_UCORE"] | large}
    assert "MaxMemoryPerNode" not in ads(read(document))[ARC]


def test_ces_of_cric() -> None:
    found = read(CES)
    by_id = ads(found)
    assert set(by_id) == {
        "arc.east.example:443/nordugrid-slurm-long",
        "arc.east.example:443/nordugrid-slurm-tiny",
        "ce.east.example:9619/condorce-unknown-default",
    }
    long = by_id["arc.east.example:443/nordugrid-slurm-long"]
    assert long.eval("GlueSiteUniqueID") == "EAST-T1"
    assert long.eval("GlueCEPolicyMaxWallClockTime") == 4320
    assert "GlueCEAccessControlBaseRule" not in long
    assert long.eval("AccessUnknown") is True
    tiny = by_id["arc.east.example:443/nordugrid-slurm-tiny"]
    assert tiny.eval("GlueCEStateStatus") == "Closed"
    by_name = {ce["name"]: ce for ce in CES["EAST-T1"]}
    assert set(ads(read(by_name))) == set(by_id)


def test_what_a_collector_of_htcondor_ce_says_for_cric() -> None:
    document = {
        "ce_services": {
            "West_CE": {
                "endpoint": "ce.west.example:9619",
                "flavour": "HTCONDOR-CE",
                "jobmanager": "slurm",
                "site": "West",
                "status": "Production",
            }
        },
        "queues": {
            "West_CE": {
                "gpu": {"name": "gpu", "max_wallclocktime": 1440, "memory": 64000, "cpus": 8}
            }
        },
        "failed_ces": {},
        "resource_groups": {},
    }
    [ad] = read(document).computing_elements()
    assert ad.eval("CEid") == "ce.west.example:9619/condorce-slurm-gpu"
    assert ad.eval("GlueHostMainMemoryRAMSize") == 64000
    assert ad.eval("GlueSiteUniqueID") == "West"


CRR: dict[str, Any] = {
    "computingresources": {
        "WEST-condor": {
            "site": "WEST-HEP",
            "type": "batch",
            "jobmanager": "condor",
            "status": "production",
            "number_logical_cpus": 1600,
            "capacity_hs06": 17000.5,
            "os": "AlmaLinux 9",
            "max_walltime_minutes": 4300,
            "max_memory_gb": 2.083,
            "assigned_vos": ["ATLAS", "dune"],
            "publication_time": 1795000000,
            "shares": {
                "long": {"type": "queue", "max_memory_gb": 3, "assigned_vos": ["atlas"]},
                "short": {"type": "queue", "max_walltime_minutes": 60},
            },
            "accesspoints": {
                "ARC": {
                    "endpoint_urls": ["gsiftp://arc1.west.example:2811", "arc2.west.example"],
                    "flavour": "ARC-CE",
                    "version": "6.1",
                },
                "CE": {
                    "endpoint_urls": ["ce.west.example:9619"],
                    "flavour": "HTCondor-CE",
                    "version": "23.0",
                    "shares": ["short"],
                },
            },
        },
        "WEST-plain": {
            "site": "WEST-HEP",
            "jobmanager": "slurm",
            "coprocessor": "GPU",
            "memory_GB": 4,
            "default_cputime_minutes": 100,
            "assigned_vos": [],
            "accesspoints": {
                "A": {
                    "endpoint_urls": ["arc3.west.example:2811/nordugrid-SLURM-gridq"],
                    "flavour": "ARC-CE",
                }
            },
        },
        "WEST-vac": {"type": "vacuum", "jobmanager": "VAC", "max_memory_gb": 9999999},
    }
}


def test_a_report_of_computing_resources() -> None:
    found = read(CRR)
    by_id = ads(found)
    assert set(by_id) == {
        "arc1.west.example:443/nordugrid-condor-long",
        "arc1.west.example:443/nordugrid-condor-short",
        "arc2.west.example:443/nordugrid-condor-long",
        "arc2.west.example:443/nordugrid-condor-short",
        "ce.west.example:9619/condorce-condor-short",
        "arc3.west.example:443/nordugrid-slurm-gridq",
    }
    long = by_id["arc1.west.example:443/nordugrid-condor-long"]
    wanted: dict[str, object] = {
        "GlueSiteUniqueID": "WEST-HEP",
        "GlueCEPolicyMaxWallClockTime": 4300,
        "GlueHostMainMemoryRAMSize": 3000,
        "GlueHostOperatingSystemName": "AlmaLinux 9",
        "GlueCEInfoTotalCPUs": 1600,
        "GlueCEStateStatus": "Production",
        "GlueCEAccessControlBaseRule": ["VO:atlas"],
        "InformationSystem": "CRR",
    }
    assert {name: long.eval(name) for name in wanted} == wanted
    short = by_id["ce.west.example:9619/condorce-condor-short"]
    assert short.eval("GlueCEPolicyMaxWallClockTime") == 60
    assert short.eval("GlueHostMainMemoryRAMSize") == 2083
    assert short.eval("GlueCEAccessControlBaseRule") == ["VO:ATLAS", "VO:dune"]
    plain = by_id["arc3.west.example:443/nordugrid-slurm-gridq"]
    assert plain.eval("AccessUnknown") is True
    assert plain.eval("GPUs") == 1
    assert plain.eval("GlueHostMainMemoryRAMSize") == 4000
    assert [(issue.rule, issue.raw) for issue in found.issues] == [
        ("system.no-endpoint", "WEST-vac"),
        ("access.none", "arc3.west.example:443/nordugrid-slurm-gridq"),
    ]


@pytest.mark.parametrize(
    ("size", "megabytes"), [("2.5", 2500), (4, 4000), (True, None), (0.0001, None), ("x", None)]
)
def test_memory_of_crr(size: object, megabytes: int | None) -> None:
    resource = {"memory_gb": size, "accesspoints": {"a": {"endpoint_urls": ["ce.example"]}}}
    [ad] = ads(read({"computingresources": {"r": resource}})).values()
    assert (ad["GlueHostMainMemoryRAMSize"] if megabytes else None) == megabytes
    assert ("GlueHostMainMemoryRAMSize" in ad) is (megabytes is not None)


@pytest.mark.parametrize(("status", "open_"), [("Production", True), ("testing", False)])
def test_the_quality_of_a_resource_is_no_state_of_its_queues(status: str, open_: bool) -> None:
    document = copy.deepcopy(CRR)
    document["computingresources"]["WEST-condor"]["status"] = status
    ads = [ad for ad in read(document).computing_elements() if "QualityLevel" in ad]
    assert {ad.eval("QualityLevel") for ad in ads} == {status.lower()}
    assert [("GlueCEStateStatus" in ad) for ad in ads] == [open_] * len(ads)


def test_the_proposal_before_crr() -> None:
    service = {
        "ce_name": "gate",
        "cs_endpointurl": "https://gate.example:8888",
        "cs_flavour": "HTCONDOR-CE",
        "cs_jobmanager": "condor",
        "cs_state": "closed",
        "cs_queue_name": "long",
        "cs_queue_maxcputime": 0,
        "cs_queue_maxwalltime": 4300,
        "cs_queue_maxmainmemory": "8048",
        "cs_queue_maxrunningjobs": "2824",
        "cs_assigned_vo": ["ATLAS", "CMS"],
    }
    [ad] = read({"computingservices": [service]}).computing_elements()
    assert ad.eval("CEid") == "gate.example:8888/condorce-condor-long"
    assert ad.eval("GlueHostMainMemoryRAMSize") == 8048
    assert ad.eval("GlueCEPolicyMaxRunningJobs") == 2824
    assert ad.eval("GlueCEStateStatus") == "Closed"


def test_the_queues_of_a_resource_are_bounded() -> None:
    resource = {
        "shares": {f"q{number}": {} for number in range(200)},
        "accesspoints": {
            "A": {"endpoint_urls": [f"ce{n}.example" for n in range(200)], "flavour": "ARC-CE"}
        },
    }
    found = read({"computingresources": {"R": resource}})
    assert len(found.computing_elements()) == 1000
    assert "link.too-many" in {issue.rule for issue in found.issues}


# queues.toml

TOML = (Path(__file__).resolve().parents[2] / "examples" / "queues.toml").read_bytes()


def test_queues_that_people_write_down() -> None:
    found = glue.read(io.BytesIO(TOML), at=datetime(2026, 11, 1, tzinfo=UTC))
    assert found.issues == ()
    by_id = ads(found)
    assert set(by_id) == {
        "arc.valley.example:443/nordugrid-slurm-long",
        "ce.valley.example:9619/condorce-condor-default",
    }
    long = by_id["arc.valley.example:443/nordugrid-slurm-long"]
    wanted: dict[str, object] = {
        "GlueSiteUniqueID": "VALLEY-T3",
        "GlueCEPolicyMaxWallClockTime": 2880,
        "GlueHostMainMemoryRAMSize": 256000,
        "MaxCpusPerNode": 64,
        "GlueHostOperatingSystemRelease": "9.4",
        "GlueCEAccessControlBaseRule": ["VO:atlas", "VO:dune"],
        "DowntimeStart": datetime(2026, 12, 1, 8, tzinfo=UTC),
        "DowntimeEnd": datetime(2026, 12, 1, 18, tzinfo=UTC),
        "DowntimeReason": "new cooling",
    }
    assert {name: long.eval(name) for name in wanted} == wanted
    over = glue.read(io.BytesIO(TOML), at=datetime(2026, 12, 2, tzinfo=UTC))
    assert "DowntimeStart" not in ads(over)["arc.valley.example:443/nordugrid-slurm-long"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[queue]]\nendpoint = 7\n", "queue 1: endpoint: a text is expected: 7"),
        ('[[queue]]\nendpoint = "a"\nfoo = 1\n', "queue 1: unknown: foo"),
        ('[defaults]\nfoo = 1\n[[queue]]\nendpoint = "a"\n', "queue 1: unknown: foo"),
        ('[[queue]]\nname = "q"\n', "queue 1: endpoint: missing"),
        ('[[queue]]\nendpoint = "a b"\n', "queue 1: endpoint: not a host, host:port or URL"),
        ('[[queue]]\nendpoint = "a"\nmax_cpus = "7"\n', "max_cpus: a number above 0"),
        ('[[queue]]\nendpoint = "a"\nmax_cpus = true\n', "max_cpus: a number above 0"),
        ('[[queue]]\nendpoint = "a"\nmax_cpus = 99999999999999999999\n', "max_cpus: a number"),
        ('[[queue]]\nendpoint = "a"\nname = "x y"\n', "name: a name without blanks"),
        ('[[queue]]\nendpoint = "a"\nvos = "atlas"\n', "vos: a list of texts"),
        ('[[queue]]\nendpoint = "a"\nvos = ["a b"]\n', "vos: not the name of a VO"),
        ('[[queue]]\nendpoint = "a"\nrules = ["atlas"]\n', "rules: not a rule"),
        ('[[queue]]\nendpoint = "a"\nstatus = "up"\n', "status: one of Production"),
        ('[[queue]]\nendpoint = "a\n', "not TOML: "),
        ('[queue]\nendpoint = "a"\n', "TOML of no form that is known"),
        ('[[downtime]]\nce = "a"\nstart = 2026-01-02\nend = 7\n', "start: a time is expected"),
        (
            '[[downtime]]\nce = "a"\nstart = 2026-01-02T00:00:00\nend = 2026-01-02T00:00:00Z\n',
            "downtime 1: end: it has to be after start",
        ),
    ],
)
def test_faults_of_people_are_said_with_their_places(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        glue.read(io.BytesIO(text.encode()))


@pytest.mark.parametrize("part", ["a.", '"a" . ', "'a'."])
def test_a_key_of_many_parts_is_refused_before_it_takes_memory(part: str) -> None:
    text = f"[[queue]]\n{part * 20_000}a = 1\n"
    with pytest.raises(ValueError, match="not TOML: nested too deeply"):
        glue.read(io.BytesIO(text.encode()))


def test_the_schema_of_queues_toml_is_that_of_the_reader() -> None:
    schema = json.loads(data_text("schemas", "queues.json"))
    jsonschema.Draft202012Validator.check_schema(schema)
    for table, kind in (("queue", QueueEntry), ("downtime", DowntimeEntry)):
        fields = attrs.fields(kind)
        described = schema["$defs"][table]
        assert list(described["properties"]) == [field.name for field in fields]
        needed = [field.name for field in fields if field.default is attrs.NOTHING]
        assert described["required"] == needed
    written = json.loads(json.dumps(tomllib.loads(TOML.decode()), default=str))
    jsonschema.Draft202012Validator(schema).validate(written)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate({"queue": [{"endpoint": 7}]})


JOB = parse_ad("""[ VirtualOrganisation = "atlas"; RequestMemory = 8000; MaxWallTime = 600;
    Requirements = other.GlueHostMainMemoryRAMSize >= 8000
        && other.GlueCEStateStatus == "Production"; Rank = 1 ]""")


def test_a_job_finds_a_ce_of_cric() -> None:
    found = broker.choose(JOB, read(PANDA))
    assert [queue.name for queue in found.ranked] == [ARC]
    reasons = {refusal.name: refusal.reason for refusal in found.refused}
    assert "other.GlueCEStateStatus" in reasons[CONDOR]
    large = parse_ad(
        '[ VirtualOrganisation = "atlas"; RequestMemory = 16001; Requirements = true ]'
    )
    assert not broker.choose(large, read(PANDA)).ranked


@pytest.mark.parametrize("text", ['{"foo": {"bar": 1}}', "[1, 2]", "{}", '{"a": [[]]}', "<a/>"])
def test_a_document_of_no_known_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no form that is known; known are GLUE .*CRIC"):
        glue.read(io.BytesIO(text.encode()))


def test_the_queues_of_a_document_are_bounded() -> None:
    issues: list[glue.Issue] = []
    builder = QueueBuilder("CRIC", issues.append, room=3)
    for number in range(5):
        endpoint = Endpoint("arc-ce", f"ce{number}.example", 443)
        builder.add(endpoint, "q", lrms="", site="", view="", values={RULES: []})
    assert len(builder.records().computing_elements) == 3
    assert [(issue.rule, issue.count) for issue in issues] == [("link.too-many", 2)]


def test_an_endpoint() -> None:
    assert Endpoint.of("ce.example", "HTCondor-CE") == Endpoint("htcondor-ce", "ce.example", 9619)
    assert Endpoint.of("a/b c", "ARC-CE") is None
    assert Endpoint.of("ce.example:0", "ARC-CE") is None
    assert Endpoint.of("to.be.set", "ARC-CE") is None
    assert Endpoint.of("a" * (LIMITS.raw + 1), "ARC-CE") is None
    assert Endpoint.of("gsiftp://ce.example:2812", "ARC-CE") == Endpoint(
        "arc-ce", "ce.example", 443
    )
    # Half of a surrogate pair is in no ad.
    assert Endpoint.of("ce.example", "\ud800-CE") == Endpoint("?-ce", "ce.example", 443)
    assert Endpoint("arc-ce", "ce", 443).queue_id("a/b-c", "q") == "ce:443/nordugrid-a_b_c-q"
    assert name("q" * LIMITS.raw)
    assert not name("q" * (LIMITS.raw + 1))
    assert Endpoint.of(7, None) is None


@given(st.data())
def test_a_hostile_document_is_read_or_refused(data: st.DataObject) -> None:
    """A value of a real document is replaced by any other."""
    document = copy.deepcopy(data.draw(st.sampled_from([PANDA, CES, CRR])))
    for _ in range(data.draw(st.integers(1, 4))):
        _damage(document, data)
    try:
        found = read(document)
    except ValueError as error:
        assert "no form that is known" in str(error)  # noqa: PT017 - it may be read too
        return
    for ad in found.computing_elements():
        assert dumps(ad)
        ident = ad.eval("CEid")
        assert isinstance(ident, str)
        assert "\n" not in ident
        memory = ad.eval("MaxMemoryPerNode")
        assert "MaxMemoryPerNode" not in ad or (isinstance(memory, int) and memory > 0)
    broker.choose(JOB, found)


ANY: st.SearchStrategy[Any] = st.sampled_from(
    ["\ud800", None, True, -1, 0, 1e400, float("nan"), 10**30, "", "\0", "a\nb", "x" * 100_000, [],
     {}, [[]], {"a": {}}, [1, "two"], "ARC-CE", "ACTIVE"]
)  # fmt: skip


def _damage(place: Any, data: st.DataObject) -> None:
    """Replace one value somewhere in a document."""
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if isinstance(inner, (dict, list)) and inner and data.draw(st.booleans()):
            place = inner
        else:
            place[key] = copy.deepcopy(data.draw(ANY))
            return


# On the way to a queue


def test_a_job_gets_to_a_queue_of_a_grid() -> None:
    by_id = ads(read(PANDA))
    job = parse_ad("[ RequestCpus = 4; RequestMemory = 4001.5 ]")
    assert broker.grid_lines(job, by_id[ARC]) == (
        "universe = grid",
        "grid_resource = arc https://arc1.north.example:443/arex/rest/1.0",
        (
            "arc_resources = <QueueName>grid</QueueName><SlotRequirement><NumberOfSlots>4"
            "</NumberOfSlots><SlotsPerHost>4</SlotsPerHost></SlotRequirement>"
            "<IndividualPhysicalMemory>1049100288</IndividualPhysicalMemory>"
        ),
    )
    # No queue is named default.
    assert broker.grid_lines(ClassAd(), by_id[CONDOR]) == (
        "universe = grid",
        "grid_resource = condor condor1.north.example condor1.north.example:9619",
    )
    cream = Endpoint("cream-ce", "ce.example", 8443)
    queue = ClassAd(GridResource=cream.grid_resource("pbs", "long"))
    assert broker.grid_lines(ClassAd(), queue)[1] == (
        "grid_resource = cream https://ce.example:8443/ce-cream/services/CREAM2 pbs long"
    )
    assert broker.grid_lines(ClassAd(), ClassAd(CEid="ce.example:8443/cream-pbs-long")) == ()
    url = ClassAd(GlueCEInfoContactString=["https://arc.example:443/arex"], QueueName="q")
    assert "arc.example:443" in broker.grid_lines(ClassAd(), url)[1]
    url = ClassAd(GlueCEInfoContactString=["condor://ce.example:9619"])
    assert (
        broker.grid_lines(ClassAd(), url)[1] == "grid_resource = condor ce.example ce.example:9619"
    )


@pytest.mark.parametrize(
    "resource",
    [
        "condor a $(HOME)",
        "condor a\nqueue 9",
        "cream a pbs q\\",
        "batch pbs",
        "condor",
        "arc  x",
        "",
    ],
)
def test_no_queue_writes_lines_of_its_own(resource: str) -> None:
    assert broker.grid_lines(ClassAd(), ClassAd(GridResource=resource)) == ()
    named = ClassAd(GridResource="condor a a:9619", QueueName='q"\nqueue')
    assert len(broker.grid_lines(ClassAd(), named)) == 2


# Several systems about one queue


BDII = """
dn: GlueSiteUniqueID=NORTH-T2,o=grid
objectClass: GlueSite
GlueSiteUniqueID: NORTH-T2

dn: GlueCEUniqueID=arc1.north.example:2811/nordugrid-SLURM-grid,o=grid
objectClass: GlueCE
GlueCEUniqueID: arc1.north.example:2811/nordugrid-SLURM-grid
GlueCEInfoHostName: arc1.north.example
GlueCEInfoGatekeeperPort: 2811
GlueCEStateStatus: Production
GlueCEStateFreeCPUs: 12
GlueCEPolicyMaxWallClockTime: 1000
GlueCEAccessControlBaseRule: VO:atlas
GlueCEAccessControlBaseRule: VO:cms
"""
IN_BDII = "arc1.north.example:2811/nordugrid-SLURM-grid"


def of_vo(found: Any, vo: str) -> set[str]:
    job = parse_ad(f'[ VirtualOrganisation = "{vo}"; Requirements = true; Rank = 1 ]')
    return {queue.name for queue in broker.choose(job, found).ranked}


def bdii() -> Glue:
    return glue.read(io.BytesIO(BDII.encode()))


@pytest.mark.parametrize("turned", [False, True])
def test_the_queue_itself_is_trusted_before_a_catalogue(turned: bool) -> None:
    sources: list[tuple[str, Glue]] = [("bdii", bdii()), ("cric", read(PANDA))]
    found = broker.merged(reversed(sources) if turned else sources)
    by_name = {queue.name: queue for queue in found.all}
    assert set(by_name) == {IN_BDII, CONDOR, SOUTH}
    queue = by_name[IN_BDII]
    assert queue.source == "bdii"
    wanted: dict[str, object] = {
        "GlueCEStateFreeCPUs": 12,
        "GlueCEPolicyMaxWallClockTime": 1000,  # the queue's own word
        "GlueHostMainMemoryRAMSize": 16000,  # what only CRIC says
        "PandaQueue": "NORTH_UCORE",
        "GridResource": "arc https://arc1.north.example:443/arex/rest/1.0",
        "AlsoDescribedBy": ["CRIC"],
    }
    assert {name: queue.ad.eval(name) for name in wanted} == wanted
    # CRIC tells of ATLAS alone, and shuts nobody else out.
    assert IN_BDII in of_vo(found, "cms")
    assert IN_BDII in of_vo(found, "atlas")


def test_a_catalogue_admits_nobody_beyond_the_queue() -> None:
    document = {"NORTH": PANDA["NORTH_UCORE"] | {"vo_name": "dune"}}
    found = broker.merged([("bdii", bdii()), ("cric", read(document))])
    assert {queue.name for queue in found.all} == {IN_BDII, CONDOR}
    assert of_vo(found, "dune") == {CONDOR}
    assert "MaxMemoryPerNode" not in found.all[0].ad
    [conflict] = [
        (source, issue.raw) for source, issue in found.issues if issue.rule == "access.conflict"
    ]
    assert conflict == ("cric", f"{ARC}: dune")


def test_clouds_are_no_computing_elements() -> None:
    queue = {"ce_endpoint": "https://k8s.cloud.example", "ce_flavour": "KUBERNETES"}
    found = read({"CLOUD": PANDA["NORTH_UCORE"] | {"queues": [queue]}})
    assert list(found) == []
    assert "system.entry" in {issue.rule for issue in found.issues}


@pytest.mark.parametrize("rules", [True, False])
def test_entries_of_a_catalogue_are_views_of_a_queue_that_tells_of_itself(rules: bool) -> None:
    """PanDA queues of one batch queue have VOs and limits of their own; none hides another."""
    entry = PANDA["NORTH_UCORE"]
    document = {
        name: entry | {"vo_name": vo, "corecount": cores, "maxrss": memory, "status": status}
        for name, vo, cores, memory, status in (
            ("ONE", "atlas", 1, 2000, "online"),
            ("EIGHT", "atlas", 8, 16000, "online"),
            ("OFF", "atlas", 8, 64000, "offline"),
            ("CMS", "cms", 4, 9000, "online"),
        )
    }
    text = "\n".join(line for line in BDII.splitlines() if rules or "AccessControl" not in line)
    sources = [("bdii", glue.read(io.BytesIO(text.encode()))), ("cric", read(document))]
    for turned in (sources, sources[::-1]):
        found = broker.merged(turned)

        def chosen(vo: str, cores: int, memory: int, found: Any = found) -> list[str]:
            job = parse_ad(f"""[
                VirtualOrganisation = "{vo}"; RequestCpus = {cores}; Rank = 1;
                Requirements = other.GlueHostMainMemoryRAMSize >= {memory}
                    && other.GlueCEStateStatus == "Production"
            ]""")
            return [queue.name for queue in broker.choose(job, found).ranked]

        assert chosen("atlas", 8, 12000)[0] == f"{IN_BDII}/EIGHT"
        assert chosen("cms", 4, 8000) == [f"{IN_BDII}/CMS"]
        assert chosen("cms", 8, 8000) == []
        assert chosen("dune", 1, 1) == []
        # By itself the queue is as it says, with its rules; if it has none, its views are all.
        assert (IN_BDII in {queue.name for queue in found.all}) == rules
    entry = ClassAd({
        "CEid": ARC, "GlueCEUniqueID": ARC, "QueueName": "grid", "InformationSystem": "glideinWMS",
        "GlueCEAccessControlBaseRule": ["VO:dune"],
    })  # fmt: skip
    also = broker.merged([*sources, ("factory", [entry])])
    assert bool(of_vo(also, "dune")) is not rules


def test_catalogues_of_two_experiments_add_their_views() -> None:
    entry = ClassAd({
        "CEid": CONDOR, "GlueCEUniqueID": CONDOR, "QueueName": "default",
        "InformationSystem": "glideinWMS", "GlueCEAccessControlBaseRule": ["VO:cms"],
    })  # fmt: skip
    found = broker.merged([("cric", read(PANDA)), ("factory", [entry])])
    assert f"{CONDOR}/glideinWMS" in of_vo(found, "cms")
    assert CONDOR in of_vo(found, "atlas")


@pytest.mark.parametrize(
    ("system", "refused"), [("CRR", ("dune",)), ("OSG collector", ("dune",)), ("CRIC", ())]
)
def test_a_site_speaks_of_all_who_may_use_its_queue(system: str, refused: tuple[str, ...]) -> None:
    """A catalogue speaks of those that it serves, so that the next one adds a view."""
    first, second = (
        ClassAd({"CEid": ARC, RULES: [f"VO:{vo}"], "InformationSystem": name})
        for vo, name in (("atlas", system), ("dune", "glideinWMS"))
    )
    assert merging.merge_by_trust([(1, first), (2, second)])[1].refused == refused


def test_a_catalogue_without_rules_makes_no_queue_unknown() -> None:
    queue = ClassAd({"CEid": ARC, RULES: ["VO:atlas"]})
    other = ClassAd(CEid=ARC, AccessUnknown=True, PandaQueue="P", InformationSystem="CRIC")
    told = merging.merge_by_trust([(1, queue), (2, other)])[0].ad
    assert told is not None
    assert told["PandaQueue"] == "P"
    assert "AccessUnknown" not in told


def test_more_descriptions_of_a_queue_than_are_honest_are_not_merged() -> None:
    queue = ClassAd(CEid=ARC)
    other = ClassAd(CEid=ARC, InformationSystem="CRIC")
    for more, merged in ((1, True), (0, False)):
        found = merging.merge_by_trust([(1, queue), *[(2, other)] * (LIMITS.queues - more)])
        assert (found[-1].view is not None) is merged


@pytest.mark.parametrize("key", ["gocname", "rc_site", "atlas_site"])
def test_the_site_of_a_panda_queue(key: str) -> None:
    item = copy.deepcopy(PANDA["NORTH_UCORE"])
    for name_ in ("gocname", "rc_site", "atlas_site"):
        item.pop(name_, None)
    found = read({"NORTH_UCORE": item | {key: "NORTH"}})
    assert {site.id for site in found.snapshot.sites} == {"NORTH"}


def test_rules_that_nobody_nearer_publishes_are_taken() -> None:
    text = "\n".join(line for line in BDII.splitlines() if "AccessControl" not in line)
    alone = glue.read(io.BytesIO(text.encode()))
    found = broker.merged([("bdii", alone), ("cric", read(PANDA))])
    [queue] = [queue for queue in found.all if queue.name == IN_BDII]
    assert queue.ad.eval("GlueCEAccessControlBaseRule") == ["VO:atlas"]
    assert "AccessUnknown" not in queue.ad


def test_what_people_wrote_down_is_trusted_most() -> None:
    text = """[[queue]]
        endpoint = "arc1.north.example"
        flavour = "arc-ce"
        name = "grid"
        lrms = "slurm"
        max_wall_time = 77
        vos = ["dune", "atlas"]
        """
    mine = glue.read(io.BytesIO(text.encode()))
    found = broker.merged({"bdii": bdii(), "cric": read(PANDA), "mine": mine})
    [queue] = [queue for queue in found.all if queue.name == ARC]
    assert queue.source == "mine"
    assert queue.ad.eval("GlueCEPolicyMaxWallClockTime") == 77
    assert queue.ad.eval("GlueCEStateFreeCPUs") == 12
    assert queue.ad.eval("AlsoDescribedBy") == ["GLUE", "CRIC"]
    assert of_vo(found, "dune") == {ARC, SOUTH}
    assert of_vo(found, "cms") == set()


@pytest.mark.parametrize("turned", [False, True])
def test_a_denial_counts_beside_what_people_wrote_down(turned: bool) -> None:
    text = """[[queue]]
        endpoint = "arc1.north.example"
        flavour = "arc-ce"
        name = "grid"
        lrms = "slurm"
        vos = ["atlas"]
        """
    denying = f"{BDII}GlueCEAccessControlBaseRule: DENY:/atlas/Role=bad\n"
    sources = [
        ("mine", glue.read(io.BytesIO(text.encode()))),
        ("bdii", glue.read_ldif(denying.split("\n"))),
    ]
    found = broker.merged(sources[::-1] if turned else sources)
    good, bad = (
        ClassAd(VirtualOrganisation="atlas", FQAN=f"/atlas/Role={role}") for role in ("good", "bad")
    )
    assert len(broker.choose(good, found).ranked) == 1
    assert len(broker.choose(bad, found).ranked) == 0


# Downtimes

DAY = datetime(2026, 12, 1, tzinfo=UTC)


def down(ce: str, start: int, hours: int, **more: str) -> Downtime:
    begins = DAY + timedelta(hours=start)
    return Downtime(ce, "ARC-CE", begins, begins + timedelta(hours=hours), **more)


def asked(found: object, hour: float, wall: int | None = None) -> list[str]:
    job = JOB.copy()
    job.pop("MaxWallTime")
    if wall is not None:
        job["MaxWallTime"] = wall
    at = DAY + timedelta(hours=hour)
    chosen = broker.choose(job, found, at=at)  # type: ignore[arg-type]
    [choice] = broker.choose_many([job], found, at=at)  # type: ignore[arg-type]
    assert list(choice.names) == [queue.name for queue in chosen.ranked]
    return list(choice.names)


@pytest.mark.parametrize("place", ["arc1.north.example", "ARC1.north.example:443", ARC])
def test_a_downtime_closes_a_queue_from_and_to(place: str) -> None:
    found = broker.merged(
        {"cric": read(PANDA), "gocdb": announced(down(place, 8, 10, reason="new cooling"))}
    )
    assert asked(found, 7) == [ARC]
    assert asked(found, 7, wall=60) == [ARC]
    assert asked(found, 7, wall=61) == []
    assert asked(found, 8) == []
    assert asked(found, 17.99) == []
    assert asked(found, 18) == [ARC]
    job = JOB.copy()
    [reason] = [
        refusal.reason
        for refusal in broker.choose(job, found, at=DAY + timedelta(hours=9)).refused
        if refusal.name == ARC
    ]
    assert reason == (
        "the broker refuses: the queue has a downtime"
        " from 2026-12-01T08:00:00Z to 2026-12-01T18:00:00Z: new cooling"
    )


def announced(*downtimes: Downtime) -> Glue:
    return Glue(GlueRecords((), (), (), (), downtimes), ())


def test_a_warning_closes_nothing_and_neighbours_are_one() -> None:
    [ad] = with_downtimes([ClassAd(CEid=ARC)], [down(ARC, 1, 5, severity="WARNING")])
    assert "DowntimeStart" not in ad
    several = [down(ARC, 4, 2, reason="b"), down(ARC, 1, 3, reason="a"), down(ARC, 20, 1)]
    [ad] = with_downtimes([ClassAd(CEid=ARC)], several)
    hours = [ad.eval(name) for name in ("DowntimeStart", "DowntimeEnd", "DowntimeReason")]
    assert hours == [DAY + timedelta(hours=1), DAY + timedelta(hours=6), "a; b"]
    assert pending(several, DAY + timedelta(hours=10)) == (several[2],)


def test_each_system_is_in_the_table_once() -> None:
    names = [system.name for system in systems.SYSTEMS]
    assert len(set(names)) == len(names)
    assert all(name in systems.known_forms() for name in names)


SYSTEMS_DRAWN = st.sampled_from([None, "OSG collector", "CRR", "CRIC", "glideinWMS", "queues.toml"])
VOS = ("atlas", "cms", "dune")


@pytest.mark.parametrize("site", ["arc", "arc, GLUE 1.3", "htcondor-ce", "cream"])
def test_what_providers_publish_is_united_with_a_catalogue(site: str) -> None:
    published = glue.read(io.BytesIO(SITES[site].text().encode()))
    first = merging.address_of(published.computing_elements()[0])
    assert first is not None
    host, port, queue = first
    flavour = {9619: "HTCONDOR-CE", 8443: "CREAM-CE"}.get(port, "ARC-CE")
    its = {"ce_endpoint": f"{host}:{port}", "ce_flavour": flavour, "ce_queue_name": queue}
    entry = {"siteid": "X", "vo_name": "atlas", "maxrss": 7000, "queues": [its]}
    found = broker.merged({"site": published, "cric": read({"X": entry})})
    assert {each.source for each in found.all} == {"site"}
    told = [ad.eval("PandaQueue") for ad in found.ads if "PandaQueue" in ad]
    assert told
    assert set(told) == {"X"}


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            SYSTEMS_DRAWN,
            st.lists(st.none() | st.sets(st.sampled_from(VOS)), min_size=1, max_size=2),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_who_uses_a_queue_that_several_describe(
    drawn: list[tuple[str | None, list[set[str] | None]]],
) -> None:
    sources = []
    for number, (system, views) in enumerate(drawn):
        its = []
        for view, vos in enumerate(views):
            ad = ClassAd(CEid=f"{ARC}/{view}", GlueCEUniqueID=ARC, QueueName="grid", Rank=number)
            if system is not None:
                ad["InformationSystem"] = system
            if vos is not None:
                ad["GlueCEAccessControlBaseRule"] = [f"VO:{vo}" for vo in sorted(vos)]
            its.append(ad)
        sources.append((f"source{number}", its))
    found = broker.merged(sources)
    order = [merging.ORDER[system or ""] for system, _ in drawn]
    known = [
        (level, views)
        for level, (_, views) in zip(order, drawn, strict=True)
        if all(vos is not None for vos in views)
    ]
    for vo in VOS:
        admitted = bool(of_vo(found, vo))
        if all(vos is None for _, views in drawn for vos in views):
            assert admitted
        # Nobody comes in whom each description refuses.
        if all(vos is not None and vo not in vos for _, views in drawn for vos in views):
            assert not admitted
        # The one most trusted system that publishes rules decides, if it speaks for the queue.
        first = min(order)
        of_first = [views for level, views in known if level == first]
        if first <= 2 and order.count(first) == 1 and of_first:
            assert admitted == any(vos is not None and vo in vos for vos in of_first[0])
