"""OSG's collector and topology, GOCDB, and the entries of a glideinWMS factory."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker import ClassAd, broker, dumps, glue, parse_ad
from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.batch import load_mapping
from matchmaker.glue import Glue
from matchmaker.glue.flatten import with_downtimes
from matchmaker.glue.records import Downtime
from matchmaker.glue.systems import osg
from matchmaker.glue.systems.building import time_of
from matchmaker.glue.systems.merging import with_registered
from tests.glue.registries import (
    COLLECTOR,
    ENDPOINTS,
    FACTORY,
    GROUP,
    GROUP_DOWNTIMES,
    RESOURCES,
    SITES,
    outages,
    rg_downtimes,
)
from tests.test_growth import calls

BEFORE = datetime(2026, 11, 30, tzinfo=UTC)
NOON, EVENING = (datetime(2026, 12, 1, hour, tzinfo=UTC) for hour in (12, 18))


def read(text: str, at: datetime = BEFORE) -> Glue:
    return glue.read(io.BytesIO(text.encode()), at=at)


def by_id(found: Glue) -> dict[str, ClassAd]:
    return {str(ad.eval("CEid")): ad for ad in found.computing_elements()}


def values(ad: ClassAd, *names: str) -> dict[str, object]:
    return {name: ad.eval(name) for name in names if name in ad}


def rules(found: Glue) -> dict[str, int]:
    counted: dict[str, int] = {}
    for issue in found.issues:
        counted[issue.rule] = counted.get(issue.rule, 0) + issue.count
    return counted


# The collector of the OSG


@pytest.mark.parametrize("format", ["new", "old", "json", "xml"])
def test_the_collectors_ads_are_read_in_every_format(format: str) -> None:  # noqa: A002
    text = dumps(parse_ad(COLLECTOR), format)
    found = by_id(read(f"[\n{text}\n]" if format == "json" else text))
    main = found["ce1.lake.example:9620/condorce-slurm-main"]
    wanted = {
        "GlueSiteUniqueID": "Lake",
        "OSG_Resource": "Lake-CE1",
        "QueueName": "grid",
        "VOTag": "lake",
        "Subclusters": ["main"],
        "GridResource": "condor ce1.lake.example ce1.lake.example:9620",
        "GlueCEInfoGatekeeperPort": 9620,
        "GlueHostMainMemoryRAMSize": 16000,
        "GlueCEPolicyMaxWallClockTime": 1440,
        # Sites write quotes around names, and any case. (glideinWMS, OSG_autoconf)
        "GlueCEAccessControlBaseRule": ["VO:cms", "VO:OSG"],
        "InformationSystem": "OSG collector",
    }
    assert values(main, *wanted) == wanted
    gpu = found["ce1.lake.example:9620/condorce-slurm-gpu"]
    wanted = {
        "GPUs": 2,
        "GlueCEPolicyMaxTotalJobs": 30,
        "QueueName": "gpu",
        "GlueHostOperatingSystemName": "rhel9",
        "IsPilotEntry": True,
        "RequireSingularity": False,
        "AccessUnknown": True,  # HTCondor-CE takes an empty list as none
    }
    assert values(gpu, *wanted, "GlueCEAccessControlBaseRule") == wanted
    whole = found["ce1.lake.example:9620/condorce-slurm-whole"]
    wanted = {"WholeNode": True, "GlueHostArchitectureSMPSize": 64}
    assert values(whole, *wanted, "GlueHostMainMemoryRAMSize") == wanted


def test_a_ce_that_does_not_say_how_it_is_reached_has_the_usual_port() -> None:
    for said in ("undefined", '"batch slurm ce1"', '"condor a b:99999"', '"condor a b\\n:1"'):
        ad = parse_ad(COLLECTOR)
        ad["grid_resource"] = parse_ad(f"[ a = {said} ]").expr("a")
        main = next(iter(glue.read_osg([ad]).computing_elements()))
        assert main.eval("GridResource") == "condor ce1.lake.example ce1.lake.example:9619"


@pytest.mark.parametrize("vos", ['{ "cms", 7 }', '{ "cms", "a b" }', "7"])
def test_allowed_vos_that_are_no_list_of_vos_admit_nobody(vos: str) -> None:
    ad = parse_ad(COLLECTOR.replace('{ "cms", "\\"OSG\\"" }', vos))
    found = glue.read_osg([ad])
    assert next(iter(found.computing_elements())).eval("GlueCEAccessControlBaseRule") == []
    assert rules(found)["clean.access-rule"] == 1


def test_entries_of_one_name_admit_whom_both_admit() -> None:
    text = COLLECTOR.replace('Name = "gpu"', 'Name = "main"').replace("{  }", '{ "atlas" }')
    found = glue.read_osg([parse_ad(text)])
    assert rules(found)["link.duplicate"] == 1
    job = parse_ad('[ VirtualOrganisation = "cms"; Requirements = other.VOTag == "lake" ]')
    assert not broker.choose(job, found).ranked


# OSG topology


def test_topology_names_computing_elements_without_their_queues() -> None:
    found = read(RESOURCES)
    ads = by_id(found)
    assert set(ads) == {f"ce{n}.lake.example:{p}" for n, p in ((1, 9619), (2, 9700), (3, 9619))}
    wanted = {
        "QueuesUnknown": True,
        "AccessUnknown": True,
        "OSG_Resource": "Lake-CE1",
        "OSG_Facility": "University of the Lake",
        "OSG_Site": "Lake Computing",
        "VOOwnership": ["CMS=60"],
        "GlueSiteUniqueID": "Lake",
        "GlueCEStateStatus": "Production",
        "GlueCEInfoHostName": "ce1.lake.example",
        "GlueCEImplementationName": "htcondor-ce",
        "GridResource": "condor ce1.lake.example ce1.lake.example:9619",
        "InformationSystem": "OSG topology",
    }
    unknown = ("QueueName", "LRMSType", "GlueCEInfoTotalCPUs", "GlueHostMainMemoryRAMSize")
    assert values(ads["ce1.lake.example:9619"], *wanted, *unknown) == wanted
    assert ads["ce3.lake.example:9619"].eval("GlueCEStateStatus") == "Closed"
    assert rules(found) == {"access.none": 3}
    [site] = found.snapshot.sites
    assert site.values["GlueSiteDescription"] == "A cluster by the lake"


def test_the_port_of_a_gatekeeper_before_htcondor_ce_is_none_of_it() -> None:
    found = by_id(read(RESOURCES.replace("ce2.lake.example:9700", "ce2.lake.example:2119")))
    assert "ce2.lake.example:9619" in found


def test_a_file_of_topologys_repository() -> None:
    found = read(GROUP)
    ads = by_id(found)
    assert set(ads) == {"ce1.lake.example:9619", "ce3.lake.example:9619"}
    wanted = {"OSG_Resource": "Lake-CE1", "VOOwnership": ["CMS=60"]}
    assert values(ads["ce1.lake.example:9619"], *wanted, "GlueSiteUniqueID") == wanted
    assert ads["ce3.lake.example:9619"].eval("GlueCEStateStatus") == "Closed"
    disabled = by_id(read("Disable: true\n" + GROUP.strip()))
    assert disabled["ce1.lake.example:9619"].eval("GlueCEStateStatus") == "Closed"


def test_of_resources_on_one_host_one_that_takes_jobs_counts() -> None:
    twice = RESOURCES.replace("ce3.lake.example", "ce1.lake.example")
    for text in (twice, twice.replace("True</Active>", "X</Active>", 1)):
        ad = by_id(read(text))["ce1.lake.example:9619"]
        assert ad.eval("GlueCEStateStatus") == ("Closed" if "X<" in text else "Production")


def test_of_two_that_take_jobs_at_one_endpoint_the_first_counts() -> None:
    found = by_id(read(RESOURCES.replace("ce2.lake.example:9700", "ce1.lake.example")))
    assert found["ce1.lake.example:9619"].eval("OSG_Resource") == "Lake-CE1"


def test_a_queue_stays_open_if_one_registry_has_its_host_open() -> None:
    named = [
        ClassAd(QueuesUnknown=True, GlueCEInfoHostName="ce", GlueCEStateStatus=status,
                GlueSiteUniqueID="REGISTRY", ServiceType="ARC-CE")
        for status in ("Closed", "Production")
    ]  # fmt: skip
    queue = ClassAd(CEid="q", GlueCEInfoHostName="ce", GlueSiteUniqueID="OWN")
    *_, told = with_registered([*named, queue])
    assert told is not None
    assert "GlueCEStateStatus" not in told
    # A registry adds to what the queue says, and replaces nothing.
    assert (told["GlueSiteUniqueID"], told["ServiceType"]) == ("OWN", "ARC-CE")


def test_a_time_east_of_greenwich() -> None:
    assert time_of("Dec 1, 2026 17:00 +0500") == NOON
    assert time_of("Dec 1, 2026 07:00 -0500") == NOON


def test_a_downtime_within_another_does_not_end_it() -> None:
    inner = Downtime("ce", "CE", NOON + timedelta(hours=1), NOON + timedelta(hours=2))
    queue = ClassAd(CEid="q", GlueCEInfoHostName="ce")
    [ad] = with_downtimes([queue], [Downtime("ce", "CE", NOON, EVENING), inner])
    assert (ad["DowntimeStart"], ad["DowntimeEnd"]) == (NOON, EVENING)


def test_few_of_the_downtimes_of_a_host_are_heeded() -> None:
    """Each begins as the one before ends."""
    hours = [BEFORE + timedelta(hours=n) for n in range(LIMITS.downtimes + 2)]
    [ad] = with_downtimes(
        [ClassAd(CEid="q", GlueCEInfoHostName="ce")],
        (Downtime("ce", "CE", start, end) for start, end in pairwise(hours)),
    )
    assert ad["DowntimeEnd"] == hours[LIMITS.downtimes]


@pytest.mark.parametrize(
    ("text", "places", "reason"),
    [
        (rg_downtimes(), ["ce1.lake.example"],
         "scheduled: The pump of the lake is replaced"),
        (GROUP_DOWNTIMES, ["Lake-CE1"], "unscheduled: Power cut: no cooling"),
        (outages(), ["arc.fjord.example"], "scheduled: Storage & network are moved"),
        (outages(nested=True), ["arc.fjord.example"], "scheduled: Storage & network are moved"),
    ],
)  # fmt: skip
def test_downtimes_say_from_when_to_when_and_why(text: str, places: list[str], reason: str) -> None:
    found = read(text).snapshot.downtimes
    assert [downtime.ce for downtime in found] == places
    for downtime in found:
        assert (downtime.start, downtime.end) == (NOON, EVENING)
        assert (downtime.severity, downtime.reason) == ("OUTAGE", reason)
    assert not read(text, at=EVENING).snapshot.downtimes


@pytest.mark.parametrize(
    ("text", "severities"),
    [
        (rg_downtimes(severity="Severe"), ["OUTAGE"]),
        (rg_downtimes(severity="Intermittent Outage"), ["INTERMITTENT OUTAGE"]),
        (rg_downtimes(severity="No Significant Outage Expected"),
         ["NO SIGNIFICANT OUTAGE EXPECTED"]),
        (rg_downtimes(service="Squid"), []),
        (outages(severity="WARNING"), ["WARNING"]),
        (outages(kind="SRM"), []),
        (outages(kind="Site-BDII", nested=True), []),
        ("<results/>", []),
        ("<results><meta><count>0</count></meta></results>", []),
    ],
)  # fmt: skip
def test_what_closes_a_computing_element(text: str, severities: list[str]) -> None:
    found = read(text)
    assert [downtime.severity for downtime in found.snapshot.downtimes] == severities
    assert rules(found) == {"link.no-queue": 1}  # and no error: there is none to list


# GOCDB


def test_endpoints_of_gocdb() -> None:
    found = read(ENDPOINTS)
    ads = by_id(found)
    assert set(ads) == {f"{host}.fjord.example:{port}" for host, port in
                        (("arc", 8443), ("htc", 9619), ("test", 9619))}  # fmt: skip
    wanted = {
        "QueuesUnknown": True,
        "GlueSiteUniqueID": "FJORD-T2",
        "GlueCEImplementationName": "arc-ce",
        "GridResource": "arc https://arc.fjord.example:8443/arex/rest/1.0",
        "GlueCEStateStatus": "Production",
        "Scopes": ["EGI", "wlcg"],
        "ServiceType": "ARC-CE",
        "InformationSystem": "GOCDB",
    }
    assert values(ads["arc.fjord.example:8443"], *wanted) == wanted
    assert ads["test.fjord.example:9619"].eval("GlueCEStateStatus") == "Closed"
    # Many have the address that ARC had before REST, with a queue behind it.
    old = ENDPOINTS.replace("https://arc.fjord.example:8443/arex",
                            "arc.fjord.example:2811/nordugrid-Condor-grid")  # fmt: skip
    arc = by_id(read(old))["arc.fjord.example:443"]
    assert arc.eval("GlueCEInfoContactString") == ["https://arc.fjord.example:443/arex"]


def test_the_address_of_another_host_is_none_of_a_computing_element() -> None:
    found = by_id(read(ENDPOINTS.replace("https://arc.fjord", "https://portal.fjord")))
    assert "arc.fjord.example:443" in found


def test_cream_is_told_a_queue_so_that_a_registry_does_not_say_how_it_is_reached() -> None:
    found = by_id(read(ENDPOINTS.replace("<SERVICE_TYPE>ARC-CE", "<SERVICE_TYPE>CREAM-CE")))
    ad = found["arc.fjord.example:8443"]
    assert ad.eval("GlueCEImplementationName") == "cream-ce"
    assert "GridResource" not in ad


def test_the_address_of_an_information_system_is_none_of_a_computing_element() -> None:
    found = read(ENDPOINTS.replace("https://arc.fjord.example:8443/arex",
                                   "ldap://arc.fjord.example:2135"))  # fmt: skip
    assert "arc.fjord.example:443" in by_id(found)


@pytest.mark.parametrize(("most", "told"), [(100, False), (1, True)])
def test_a_full_page_of_gocdb_tells_of_the_next(most: int, told: bool) -> None:
    meta = f"""<results><meta><link rel="self" href="https://goc.egi.eu/a"/>
      <link rel="next" href="https://goc.egi.eu/b"/><count>1</count>
      <max_page_size>{most}</max_page_size></meta>"""
    found = read(outages().replace("<results>", meta))
    pages = [issue.raw for issue in found.issues if issue.rule == "system.page"]
    assert pages == (["https://goc.egi.eu/b"] if told else [])
    assert len(found.snapshot.downtimes) == 1


def test_sites_of_gocdb() -> None:
    [site] = read(SITES).snapshot.sites
    assert site.id == "FJORD-T2"
    assert site.values["GlueSiteDescription"] == "University by the Fjord"
    both = SITES.replace("</results>", "").replace(
        "Certified", "Suspended"
    ) + ENDPOINTS.removeprefix("<results>")
    assert {ad.eval("GlueCEStateStatus") for ad in read(both).computing_elements()} == {"Closed"}


# glideinWMS


def test_entries_of_a_factory() -> None:
    found = read(FACTORY)
    ads = by_id(found)
    main, gpu, long, short, cream = (
        "ce1.lake.example:9619/condorce-unknown-grid",
        "ce1.lake.example:9619/condorce-unknown-gpu",
        "arc.fjord.example:443/nordugrid-unknown-long",
        "arc.fjord.example:443/nordugrid-unknown-short",
        "ce.hill.example:8443/cream-lsf-grid",
    )
    assert set(ads) == {main, gpu, long, short, cream}
    wanted = {
        "GlideinEntry": "Lake_main",
        "QueueName": "grid",
        "GlueSiteUniqueID": "Lake",
        "OSG_Resource": "Lake-CE1",
        "GlueHostArchitectureSMPSize": 8,
        "GlueHostMainMemoryRAMSize": 16000,
        "MaxCpusPerNode": 8,
        "MaxMemoryPerNode": 16000,
        "GlueCEPolicyMaxWallClockTime": 1410,  # minutes, of 84,600 s
        "GlueCEPolicyMaxTotalJobs": 500,
        "GlueCEStateStatus": "Production",
        "GlueCEAccessControlBaseRule": ["VO:CMS", "VO:OSGVO", "VO:OSG"],
        "GridResource": "condor ce1.lake.example ce1.lake.example:9619",
        "InformationSystem": "glideinWMS",
    }
    assert values(ads[main], *wanted, "GPUs", "GlueHostOperatingSystemName") == wanted
    wanted = {
        "GPUs": 2,
        "WholeNode": True,
        "GlueHostArchitectureSMPSize": 4,
        "GlueHostOperatingSystemName": "rhel8",
        "GlueCEAccessControlBaseRule": ["VO:glowGPU", "VO:glow"],
    }
    assert values(ads[gpu], *wanted, "GlueHostMainMemoryRAMSize") == wanted
    assert ads[long].eval("GridResource") == "arc https://arc.fjord.example:443/arex/rest/1.0"
    wanted = {"GlueCEStateStatus": "Closed", "LRMSType": "lsf", "AccessUnknown": True}
    assert values(ads[cream], *wanted) == wanted
    assert rules(found) == {"system.entry": 1, "access.none": 1}


@pytest.mark.parametrize("part", ["set", "entry", ""])
def test_an_entry_of_a_set_has_what_its_set_has(part: str) -> None:
    def enabled(of: str) -> str:
        return str(of != part)

    found = read(f"""<glidein><entries/><entry_sets>
      <entry_set name="s" enabled="{enabled("set")}">
        <attrs><attr name="GLIDEIN_Max_Walltime" value="30"/></attrs>
        <entries><entry name="e" gridtype="condor" gatekeeper="ce.lake.example"
          enabled="{enabled("entry")}"/></entries>
      </entry_set></entry_sets></glidein>""")
    [ad] = found.computing_elements()
    assert ad.eval("GlueCEStateStatus") == ("Closed" if part else "Production")
    # A limit of less than a minute is no limit of nothing.
    assert ad.eval("GlueCEPolicyMaxWallClockTime") == 1


def test_gatekeepers_of_cream() -> None:
    def entry(gatekeeper: str) -> str:
        return f'<entry name="e" gridtype="cream" gatekeeper="{gatekeeper}"/>'

    gatekeepers = (
        "https://a.example:8443/ce-cream/services/CREAM2 pbs long",
        "b.example:8443/cream-pbs-long",
        "c.example:8443/cream-pbs-two words",
    )
    entries = "".join(map(entry, gatekeepers))
    found = read(f"<glidein><entries>{entries}</entries></glidein>")
    assert [str(ad["CEid"]) for ad in found.computing_elements()] == [
        "a.example:8443/cream-pbs-long",
        "b.example:8443/cream-pbs-long",
        "c.example:8443/cream-pbs-default",
    ]


def test_entries_at_one_queue_are_views_of_it() -> None:
    text = FACTORY.replace('value="gpu"', 'value="grid"')
    ads = by_id(read(text))
    queue = "ce1.lake.example:9619/condorce-unknown-grid"
    views = {name: ad for name, ad in ads.items() if ad.eval("GlueCEUniqueID") == queue}
    assert set(views) == {f"{queue}/Lake_main", f"{queue}/Lake_gpu"}
    assert "GPUs" not in views[f"{queue}/Lake_main"]


# Strangers' documents

DOCUMENTS = (RESOURCES, GROUP, GROUP_DOWNTIMES, rg_downtimes(), SITES, ENDPOINTS, outages(),
             outages(nested=True), FACTORY)  # fmt: skip


@given(st.data())
def test_a_damaged_document_is_read_or_refused(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(DOCUMENTS))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 40)))
        pieces = ["", "<", "</", ">", "\0", "9" * 30, "- ", ": ", "{", "*a", "&amp;", "x" * 2000,
                  "\ud800", text[start:end] * 2, "Dec 99, 0000 99:99 +9999"]  # fmt: skip
        text = text[:start] + data.draw(st.sampled_from(pieces)) + text[end:]
    try:
        found = glue.read(io.BytesIO(text.encode("utf-8", "surrogatepass")))
    except ValueError as error:
        assert str(error)  # noqa: PT017 - it may be read too
        return
    for ad in found.computing_elements():
        assert "\n" not in str(ad.eval("CEid"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('<!DOCTYPE results [<!ENTITY a "aaaa">]><results>&a;</results>', "declares entities"),
        ("<results>" + "<SITE>" * 5000, "nested more than"),
        ("<Downtimes><CurrentDowntimes>", "not XML"),
        ("Resources: &a\n  x: *a\nGroupID: 1\n", "aliases"),
        ("Resources:\n" + "".join(f"{' ' * n}a:\n" for n in range(1, 2000)), "nested more than"),
        ("Resources: {" * 20, "not YAML|nested"),
        ("Resources: [\n", "not YAML"),
        ("- Class: {\n", "not YAML"),
        ("Resources: 7\n", "no form that is known"),
        ("<results>" + "<SITE/>" * 600_000 + "</results>", "more than .* objects"),
        ("GroupID: 1\nResources: [" + "a," * 600_000 + "]", "more than .* objects"),
    ],
)
def test_what_no_registry_gives_is_refused_with_a_reason(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read(text)


def test_entries_that_say_nothing_are_left_out_and_told() -> None:
    text = RESOURCES.replace("<FQDN>ce2.lake.example", "<FQDN>no host").replace(
        "ce2.lake.example:9700", "\x85"
    )
    assert rules(read(text)) == {"system.no-endpoint": 1, "access.none": 2}
    late = rg_downtimes().replace("Dec 01, 2026 18:00", "Dec 32, 2026 18:00")
    assert rules(read(late)) == {"system.downtime": 1, "link.no-queue": 1}
    swapped = outages().replace("1796148000", "17961480000000000000000")
    assert rules(read(swapped)) == {"system.downtime": 1, "link.no-queue": 1}
    mixed = "- Class: x\n  ResourceName: a\n  StartTime: b\n  EndTime: c\n- 7\n"
    assert rules(read(mixed)) == {"system.entry": 1, "link.no-queue": 1}


def test_downtimes_that_close_no_queue_are_told() -> None:
    downtimes = read(rg_downtimes())
    [place] = {downtime.ce for downtime in downtimes.snapshot.downtimes}
    for host, told in [(place.upper(), 0), ("other.example", 1)]:
        queue = ClassAd(CEid=f"{host}:9619/condorce-slurm-q")
        found = broker.merged([("queues", [queue]), ("downtimes", downtimes)])
        issues = [issue for _, issue in found.issues if issue.rule == "source.downtime"]
        assert [(issue.raw, issue.level) for issue in issues] == [(place, "I")] * told


def test_a_packed_document_is_read() -> None:
    packed = io.BytesIO(gzip.compress(RESOURCES.encode()))
    assert len(glue.read(packed).computing_elements()) == 3


def test_yaml_is_read_as_texts() -> None:
    text = b"a: 1\nb: [yes, 012, 2026-12-01]\n? [x]\n: y\nc:\nd: null\ne: ~\nf: 'null'\n"
    assert osg.parse_yaml(text) == {
        "a": "1", "b": ["yes", "012", "2026-12-01"], "": "y", "c": "", "d": "", "e": "",
        "f": "null",
    }  # fmt: skip
    assert osg.YAML.match(GROUP.encode())


def test_yaml_without_its_library_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(ValueError, match=r"classad-matchmaker\[yaml\].*rgsummary/xml"):
        read(GROUP)


# Several of them about one queue


def test_a_factorys_entry_adds_to_the_queue_that_the_collector_has() -> None:
    collector = read(COLLECTOR.replace("9620", "9619"))
    found = broker.merged({"factory": read(FACTORY), "collector": collector})
    queues = {queue.name: queue.ad for queue in found.all}
    main = queues["ce1.lake.example:9619/condorce-slurm-main"]
    wanted = {
        "GlideinEntry": "Lake_main",
        "GlueCEPolicyMaxTotalJobs": 500,
        "GlueCEPolicyMaxWallClockTime": 1440,
        "GlueCEAccessControlBaseRule": ["VO:cms", "VO:OSG"],
        "AlsoDescribedBy": ["glideinWMS"],
    }
    assert values(main, *wanted) == wanted
    assert "ce1.lake.example:9619/condorce-unknown-grid" not in queues


def test_no_flag_names_a_queue_that_nobody_named() -> None:
    job = parse_ad('[ VirtualOrganisation = "cms"; Requirements = true ]')
    hosts = broker.Hosts(mapping=load_mapping("slurm"))
    for entry, flags in (("main", ("--partition=grid",)), ("whole", ())):
        name = f"ce1.lake.example:9620/condorce-slurm-{entry}"
        route = broker.route(job, read(COLLECTOR), hosts, queue=name)
        assert route.submission is not None
        assert route.submission.argv == flags


def test_the_work_grows_with_queues_and_not_with_what_is_said_of_their_host_too() -> None:
    """A stranger's documents: many downtimes, and many CEs at ports, of the host of many queues."""

    def work(count: int) -> Callable[[], object]:
        queues = [ClassAd(CEid=f"h:1/a-b-{n}", GlueCEInfoHostName="h") for n in range(count)]
        named = [
            ClassAd(CEid=f"h:{n}", GlueCEInfoHostName="h", QueuesUnknown=True) for n in range(count)
        ]
        down = [Downtime("h", "CE", NOON, EVENING, reason=str(n)) for n in range(count)]
        return lambda: (with_downtimes(queues, down), with_registered([*named, *queues]))

    assert calls(work(300)) < 3 * calls(work(150))
    [ad] = with_downtimes(
        [ClassAd(CEid="h:1")], [Downtime("h", "CE", NOON, EVENING, reason="x" * 9000)]
    )
    assert len(str(ad.eval("DowntimeReason"))) < 2000


def _factory(count: int) -> str:
    attributes = "".join(f'<attr name="a{n}" value="1"/>' for n in range(count))
    entries = "".join(
        f'<entry name="e{n}" gridtype="condor" gatekeeper="ce{n}.example"/>' for n in range(count)
    )
    inner = f"<attrs>{attributes}</attrs><entries>{entries}</entries>"
    return f"<glidein><entries/><entry_sets><entry_set>{inner}</entry_set></entry_sets></glidein>"


def _report(count: int) -> str:
    shares: dict[str, object] = {f"s{n}": {} for n in range(count)}
    urls = [f"ce{n}.example" for n in range(count)]
    points = {"a": {"shares": ["none"], "endpoint_urls": urls}}
    return json.dumps({"computingresources": {"r": {"shares": shares, "accesspoints": points}}})


def _collector(count: int) -> str:
    ad = 'Name = "ce.example"\nOSG_ResourceCatalog = {{ [ Name = "q"; AllowedVOs = "vo{}" ] }}'
    return "\n\n".join(ad.format(number) for number in range(count))


@pytest.mark.parametrize(
    ("document", "count", "queues"),
    [(_factory, 6_000, 6_000), (_report, 40_000, 0), (_collector, 6_000, 1)],
    ids=["attributes of a set of entries", "shares of no access point", "ads of one queue"],
)
def test_what_many_share_is_looked_at_once(
    document: Callable[[int], str], count: int, queues: int
) -> None:
    assert len(list(read(document(count)).computing_elements())) == queues


def test_a_size_of_the_collector_below_0_is_unknown() -> None:
    entry = '[ Name = "q"; CPUs = -4; Memory = -1; MaxWallTime = 0; AllowedVOs = "cms" ]'
    found = read(f'Name = "ce.example"\nOSG_ResourceCatalog = {{ {entry} }}')
    [ad] = found.computing_elements()
    assert "GlueHostArchitectureSMPSize" not in ad
    assert "GlueHostMainMemoryRAMSize" not in ad
    assert ad["GlueCEPolicyMaxWallClockTime"] == 0
