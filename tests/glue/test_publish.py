from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from matchmaker import glue, parse_ad, parse_ads, parse_expr
from matchmaker.classad import UNDEFINED, ClassAd
from matchmaker.glue.clean import text_of
from matchmaker.glue.entries import rdn, rdns
from matchmaker.glue.flatten import unflatten
from matchmaker.glue.publish.site import common, host_values, with_site
from matchmaker.glue.publish.trees import entries13
from matchmaker.glue.readers.ldif import Attributes, Entry, read_entries, write_entries
from matchmaker.glue.records import ComputingElement, GlueCluster, GlueRecords, StorageElement
from matchmaker.glue.schema import ancestry, attribute
from tests.glue.sites import GLUE13, LONG

QUEUE = '[ CEid = "ce.s.grid:8443/cream-slurm-long"; GlueSiteUniqueID = "S" ]'


def published(source: list[ClassAd], version: str = "both") -> tuple[str, list[str]]:
    text = io.StringIO()
    issues = glue.write_ldif(source, text, version=version)  # type: ignore[arg-type]
    return text.getvalue(), [issue.rule for issue in issues]


def read(text: str) -> list[Entry]:
    issues: list[glue.Issue] = []
    found = list(read_entries(io.StringIO(text), issues.append))
    assert issues == []
    return found


@given(st.dictionaries(st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,8}", fullmatch=True), st.text()))
def test_what_is_written_is_read(found: dict[str, str]) -> None:
    entry = Entry("o=grid", Attributes(found.items()))
    text = io.StringIO()
    write_entries([entry], text)
    assert text.getvalue().isascii()
    assert all(len(line) <= 76 for line in text.getvalue().split("\n"))
    wanted = Attributes((k, v) for k, v in found.items() if k.lower() not in ("dn", "changetype"))
    if len(wanted) == len(found):
        [back] = read(text.getvalue())
        assert (back.dn, back.attributes) == (entry.dn, entry.attributes)


@given(st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1, max_size=20))
def test_names_keep_what_they_are_made_of(value: str) -> None:
    name = f"{rdn('GlueCEUniqueID', value)},o=grid"
    assert rdns(name)["o"] == "grid"
    if value == value.strip():
        assert rdns(name)["glueceuniqueid"] == value


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("GlueCEStateFreeCPUs", 7, "7"),
        ("GlueCEStateFreeCPUs", 7.6, "8"),
        ("GlueCEStateFreeCPUs", True, "true"),
        ("GlueCEStateFreeCPUs", 1e300, None),
        ("GlueCEStateFreeCPUs", float("nan"), None),
        ("GlueCEPolicyMaxTotalJobs", glue.UNLIMITED, "0"),
        ("GlueCEPolicyMaxCPUTime", glue.UNLIMITED, "999999999"),
        ("GlueHostNetworkAdapterOutboundIP", False, "FALSE"),
        ("GLUE2ExecutionEnvironmentConnectivityIn", False, "false"),
        ("GLUE2BenchmarkValue", 8.2, "8.2"),
        ("GlueSiteDescription", "caf\u00e9", None),
        ("GLUE2DomainDescription", "caf\u00e9", "caf\u00e9"),
        ("GlueCEName", "a\nb", None),
        ("GlueCEName", "", None),
        ("GlueCEName", ClassAd(), None),
        ("NoSuchName", "x", None),
    ],
)
def test_values_as_a_directory_has_them(name: str, value: object, expected: str | None) -> None:
    assert text_of(name, value) == expected  # type: ignore[arg-type]


def test_what_cannot_be_published_is_told() -> None:
    ad = parse_ad(QUEUE)
    ad["GlueCEName"] = "caf\u00e9"
    ad["GlueCEStateFreeCPUs"] = "many"
    text, rules = published([ad], "1.3")
    assert rules == ["publish.value"] * 2
    assert "many" not in text


def test_entries_have_what_their_classes_must_have() -> None:
    hosts = list(parse_ads("[ Memory = 4000; Cpus = 4 ] [ Memory = 2000; Cpus = 8 ]"))
    for source in ([parse_ad(QUEUE)], glue.read_ldif(GLUE13.split("\n")).computing_elements()):
        text = io.StringIO()
        assert glue.write_ldif(glue.describe_site(source, hosts, split=True), text) == ()
        entries = read(text.getvalue())
        names = {entry.dn for entry in entries}
        assert len(names) == len(entries)
        for entry in entries:
            _, comma, above = entry.dn.partition(",")
            assert not comma or above in names
            for kind in entry.attributes["objectClass"]:
                for known in ancestry(kind):
                    assert all(name in entry.attributes for name in known.must), (kind, entry)
            assert all(attribute(n) or n in ("objectClass", "o") for n in entry.attributes)


def test_what_hosts_have_in_common() -> None:
    nodes = [
        {"GlueHostBenchmarkSI00": 620, "GlueHostNetworkAdapterOutboundIP": True, "x": "a"},
        {"GlueHostBenchmarkSI00": 400, "GlueHostNetworkAdapterOutboundIP": False, "x": "b"},
    ]
    assert common(nodes) == {  # type: ignore[arg-type]
        "GlueHostBenchmarkSI00": 400,
        "GlueHostNetworkAdapterOutboundIP": False,
    }
    tags = "GlueHostApplicationSoftwareRunTimeEnvironment"
    assert common([{tags: ["a", "b"]}, {tags: ["b", "c"]}]) == {tags: ["b"]}
    assert common([{"GlueHostBenchmarkSI00": 620}, {}]) == {}
    assert common([{"GlueHostBenchmarkSI00": UNDEFINED}, {"GlueHostBenchmarkSI00": 1}]) == {}


def test_hosts_by_the_names_of_condor() -> None:
    host = parse_ad(
        '[ Memory = 4000; TotalMemory = 8000; Cpus = 1; TotalCpus = 4; Arch = "X86_64";'
        ' GlueHostBenchmarkSI00 = "381 (dual)"; Features = { "x" } ]'
    )
    assert host_values(host) == {
        "GlueHostMainMemoryRAMSize": 8000,
        "GlueHostArchitectureSMPSize": 4,
        "GlueHostArchitecturePlatformType": "x86_64",
    }


def test_ads_go_back_to_what_they_are_made_of() -> None:
    read = glue.read_ldif(GLUE13.split("\n"))
    made = unflatten(read.computing_elements())
    assert [ce.id for ce in made.computing_elements] == [
        ce.id for ce in read.snapshot.computing_elements
    ]
    long = made.computing_elements[0]
    assert long.id == LONG
    assert [view.id for view in long.views] == ["cms"]
    assert long.cluster is not None
    assert long.cluster.subclusters[0].values["GlueHostMainMemoryRAMSize"] == 16000
    assert [(b.se_id, b.mount) for b in long.binds] == [("se.s.grid", "/data")]
    assert [area.id for area in made.storage_elements[0].areas] == ["cms"]


def test_a_queue_needs_an_id(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="CEid"):
        glue.write_ldif([parse_ad("[ LRMSType = 1 ]")], tmp_path / "x.ldif")
    with pytest.raises(ValueError, match="versions"):
        glue.write_ldif([], tmp_path / "x.ldif", version="3")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("host", ["n_?x", "a#b", "a@b", "[x", "a b", "ce.s.grid"])
def test_a_queue_keeps_its_id_where_its_host_is_none_of_a_url(host: str) -> None:
    name = f"{host}:1/cream-pbs-long"
    entries = read(published([ClassAd({"CEid": name})], "2.0")[0])
    [entry] = [e for e in entries if e.dn.startswith("GLUE2ShareID")]
    assert entry.attributes["GLUE2ShareID"] == (name,)
    text = io.StringIO(published([ClassAd({"CEid": name})], "2.0")[0])
    [ad] = glue.read_ldif(text).computing_elements()
    assert ad.eval("CEid") == name


def test_a_link_stays_one_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    kept, link, pipe = tmp_path / "kept.ldif", tmp_path / "site.ldif", tmp_path / "pipe"
    kept.touch(mode=0o640)
    link.symlink_to(kept)
    glue.write_ldif([parse_ad(QUEUE)], link)
    assert link.is_symlink()
    assert "GlueCEUniqueID: ce.s.grid" in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    os.mkfifo(pipe)
    taken = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        glue.write_ldif([parse_ad(QUEUE)], pipe)
        assert os.read(taken, 1 << 20) == kept.read_bytes()
    finally:
        os.close(taken)
    assert pipe.is_fifo()
    assert sorted(tmp_path.iterdir()) == [kept, pipe, link]


@pytest.mark.parametrize(
    ("status", "read"),
    [
        ("Production", "Production"),
        ("Draining", "Draining"),
        ("Broken", UNDEFINED),
        ("", UNDEFINED),
    ],
)
def test_a_status_that_is_not_known_is_not_published_as_production(
    status: str, read: object
) -> None:
    ad = ClassAd({"CEid": "ce.s.grid:8443/cream-slurm-long"})
    if status:
        ad["GlueCEStateStatus"] = status
    text = io.StringIO()
    glue.write_ldif([ad], text, version="2.0")
    [back] = glue.read_ldif(text.getvalue().splitlines()).computing_elements()
    assert back.eval("GlueCEStateStatus") == read


@pytest.mark.parametrize("version", ["1.3", "2.0"])
def test_a_queue_that_admits_nobody_is_told_of(version: Literal["1.3", "2.0"]) -> None:
    ad = parse_ad(QUEUE)
    ad["GlueCEAccessControlBaseRule"] = []
    issues = glue.write_ldif([ad], io.StringIO(), version=version)
    assert [issue.rule for issue in issues] == ["publish.access"]


@pytest.mark.parametrize("version", ["1.3", "2.0"])
def test_rules_that_depend_on_the_job_are_told_of(version: Literal["1.3", "2.0"]) -> None:
    ad = parse_ad(QUEUE)
    ad["GlueCEAccessControlBaseRule"] = parse_expr("other.x")
    assert published([ad], version)[1] == ["publish.access"]


@pytest.mark.parametrize("version", ["1.3", "2.0"])
def test_one_rule_need_not_be_in_a_list(version: Literal["1.3", "2.0"]) -> None:
    ad = parse_ad(QUEUE)
    ad["GlueCEAccessControlBaseRule"] = "VO:cms"
    text, issues = published([ad], version)
    assert issues == []
    [back] = glue.read_ldif(text.splitlines()).computing_elements()
    assert back.eval("GlueCEAccessControlBaseRule") == ["VO:cms"]


@pytest.mark.parametrize("version", ["1.3", "2.0"])
@pytest.mark.parametrize("text", ['real("NaN")', 'real("INF")', '-real("INF")', "error", '"x"'])
@pytest.mark.parametrize(
    "name", ["GlueCEStateFreeCPUs", "GlueHostBenchmarkSI00", "GlueCEPolicyMaxCPUTime"]
)
def test_no_number_costs_no_more_than_itself(
    version: Literal["1.3", "2.0"], name: str, text: str
) -> None:
    ad = parse_ad(QUEUE)
    ad["GlueSubClusterUniqueID"] = "ce.s.grid"
    ad["GlueCEStateWaitingJobs"] = 3
    ad[name] = parse_expr(text)
    out, issues = published([ad], version)
    assert issues == ["publish.value"]
    [back] = glue.read_ldif(out.splitlines()).computing_elements()
    assert back.eval("GlueCEStateWaitingJobs") == 3
    assert back.eval(name) is UNDEFINED


def test_what_belongs_to_no_site_is_not_given_to_another() -> None:
    element = '[ name = "se.x"; mount = "/x" ]'
    alone = parse_ad(f'[ CEid = "ce.x:1/cream-pbs-q"; CloseStorageElements = {{ {element} }} ]')
    text, issues = published([parse_ad(QUEUE), alone])
    assert issues == ["publish.no-site"]
    for version in ("o=grid", "o=glue"):
        lines = [entry for entry in read(text) if entry.dn.endswith(version)]
        assert not any("ce.x" in entry.dn and "=S," in entry.dn for entry in lines)
        assert any("ce.x" in entry.dn and "=resource," in entry.dn for entry in lines)
    back = glue.read_ldif(text.splitlines())
    assert [site.id for site in back.snapshot.sites] == ["S"]
    for base in ("o=grid", "o=glue"):
        part = "\n\n".join(e for e in text.split("\n\n") if base in e.replace("\n ", ""))
        sites = {
            ad.eval("CEid"): ad.eval("GlueSiteUniqueID")
            for ad in glue.read_ldif(part.splitlines()).computing_elements()
        }
        assert sites["ce.x:1/cream-pbs-q"] is UNDEFINED
        assert sites["ce.s.grid:8443/cream-slurm-long"] == "S"


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["Draining"], "draining"),
        (["Draining", "Production"], "production"),
        (["Draining", "Closed"], "undefined"),
        (["Draining", None], "undefined"),
        ([None], "undefined"),
    ],
)
def test_an_endpoint_is_in_no_better_state_than_its_queues(
    states: list[str | None], expected: str
) -> None:
    ads = []
    for number, state in enumerate(states):
        ad = ClassAd({"CEid": f"ce.s.grid:8443/cream-slurm-q{number}", "GlueSiteUniqueID": "S"})
        if state is not None:
            ad["GlueCEStateStatus"] = state
        ads.append(ad)
    text, issues = published(ads, "2.0")
    assert issues == []
    [endpoint] = [e for e in read(text) if e.dn.startswith("GLUE2EndpointID")]
    assert endpoint.attributes["GLUE2EndpointServingState"] == (expected,)
    back = {
        ad.eval("QueueName"): ad.eval("GlueCEStateStatus")
        for ad in glue.read_ldif(text.splitlines()).computing_elements()
    }
    wanted = {f"q{n}": UNDEFINED if s is None else s for n, s in enumerate(states)}
    assert back == wanted


def test_ids_that_are_one_to_a_directory_are_told_of() -> None:
    ads = [
        ClassAd({"CEid": f"ce.s.grid:8443/cream-slurm-{queue}", "GlueSiteUniqueID": "S"})
        for queue in ("long", "Long", "caf\u00e9")
    ]
    assert published(ads, "1.3")[1] == ["publish.duplicate", "publish.id"]
    text, issues = published(ads, "2.0")
    assert issues == ["publish.duplicate"]
    names = {ad.eval("QueueName") for ad in glue.read_ldif(text.splitlines()).computing_elements()}
    assert names == {"long", "caf\u00e9"}


def test_many_queues_with_much_storage_are_published_in_one_pass() -> None:
    """Each queue is looked at a few times, not once for each storage element."""
    looks = 0

    class Counted(list[ComputingElement]):
        def __iter__(self) -> Iterator[ComputingElement]:
            nonlocal looks
            looks += 1
            return super().__iter__()

    elements = tuple(StorageElement(f"se{n}", {}) for n in range(50))
    ce = ComputingElement("ce:1/cream-pbs-q", {}, GlueCluster("ce", {}, "S"))
    snapshot = GlueRecords((), (), Counted([ce]), elements)  # type: ignore[arg-type]
    issues: list[glue.Issue] = []
    assert len(list(entries13(snapshot, issues.append))) > 50
    assert len(issues) == 50  # of no site
    assert looks < 10


def test_each_queue_has_the_hosts_that_it_may_use(tmp_path: Path) -> None:
    queues = [
        ClassAd({"QueueName": name, "LRMSType": "slurm", "GlueCEPolicyMaxCPUTime": 100})
        for name in ("long", "big", "other")
    ]
    hosts = list(
        parse_ads(
            '[ Memory = 4000; Cpus = 4; Queues = { "long", "other" } ]'
            '[ Memory = 64000; Cpus = 16; Queues = { "long", "big", "other" } ]'
            "[ Memory = 99000; Cpus = 1; Available = false; Queues = {} ]"
        )
    )
    placed = glue.place(queues, "ce.s.grid:8443/cream", site="S", vos=["cms"])
    for version, split in (("1.3", False), ("1.3", True), ("2.0", False), ("2.0", True)):
        text = io.StringIO()
        described = glue.describe_site(placed, hosts, split=split)
        assert glue.write_ldif(described, text, version=version) == ()  # type: ignore[arg-type]
        back = glue.read_ldif(text.getvalue().splitlines())
        assert back.issues == ()
        memory = {
            ad.eval("QueueName"): ad.eval("GlueHostMainMemoryRAMSize")
            for ad in back.computing_elements(glue.lowest_memory)
        }
        assert memory == {"long": 4000, "big": 64000, "other": 4000}
        again = io.StringIO()
        glue.write_ldif(back.computing_elements(glue.lowest_memory), again, version=version)  # type: ignore[arg-type]
        [big] = [
            ad.eval("GlueHostMainMemoryRAMSize")
            for ad in glue.read_ldif(again.getvalue().splitlines()).computing_elements()
            if ad.eval("QueueName") == "big"
        ]
        assert big == 64000


@pytest.mark.parametrize(
    ("ad", "endpoint", "site", "vos", "said"),
    [
        ("[ QueueName = 1 ]", "ce:1/x", "S", [], "neither a CEid"),
        ('[ QueueName = "q"; LRMSType = "pbs" ]', None, "S", [], "the endpoint"),
        ('[ QueueName = "q"; LRMSType = "pbs" ]', "ce:70000/x", "S", [], "no endpoint"),
        ('[ QueueName = "q"; LRMSType = "pbs" ]', "ce:1/x-y", "S", [], "no endpoint"),
        ('[ QueueName = "q"; LRMSType = "pbs" ]', "https://ce:1/x", "S", [], "no endpoint"),
        ('[ CEid = "q" ]', None, " ", [], "a site needs a name"),
        ('[ CEid = "q" ]', None, "S", [""], "no virtual organisation"),
        ('[ CEid = "q" ]', None, "S", ["a\nb"], "no virtual organisation"),
        ('[ CEid = "q" ]', None, "S", ["cms atlas"], "give each name separately"),
        ('[ CEid = "q" ]', None, "S", ["VOMS:cms"], "begins with a slash"),
    ],
)
def test_what_does_not_place_a_queue(
    ad: str, endpoint: str | None, site: str, vos: list[str], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        glue.place([parse_ad(ad)], endpoint, site=site, vos=vos)


def test_a_file_that_cannot_be_written_has_the_name_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "none" / "site.ldif"
    with pytest.raises(OSError, match="No such file") as caught:
        glue.write_ldif([parse_ad(QUEUE)], path)
    assert caught.value.filename == str(path)


def test_what_queues_say_of_themselves_stays() -> None:
    ad = parse_ad(QUEUE)
    ad["GlueCEAccessControlBaseRule"] = ["VO:atlas"]
    assert glue.place([ad], "x:1/y", site="T", vos=["cms"]) == [ad]


def test_a_batch_systems_queue_is_not_published_by_its_name_alone() -> None:
    with pytest.raises(ValueError, match="place"):
        glue.describe_site([ClassAd({"Name": "main", "QueueName": "main", "LRMSType": "slurm"})])


def test_slots_of_one_machine_are_one_machine() -> None:
    slot = '[ Machine = "wn1"; Memory = 1000; TotalMemory = 4000; Cpus = 1; TotalCpus = 4 ]'
    other = slot.replace("wn1", "wn2")
    hosts = list(parse_ads(f"{slot} {slot} {other}"))
    [cluster] = glue.describe_site([parse_ad(QUEUE)], hosts).clusters
    [sub] = cluster.subclusters
    assert sub.values["GlueSubClusterLogicalCPUs"] == 8
    assert sub.values["GlueHostMainMemoryRAMSize"] == 4000


def test_classes_of_nodes_are_of_what_lasts() -> None:
    hosts = list(
        parse_ads(
            "[ Memory = 4000; Cpus = 4; GlueHostProcessorLoadLast1Min = 12 ]"
            '[ Memory = 4000; Cpus = 4; GlueHostProcessorLoadLast1Min = 99; GlueHostName = "a" ]'
            "[ Cpus = 4; Available = false ] [ Memory = 2000; Cpus = 8 ]"
        )
    )
    [cluster] = glue.describe_site([parse_ad(QUEUE)], hosts, split=True).clusters
    found = [
        (sub.values["GlueHostMainMemoryRAMSize"], sub.values["GlueSubClusterLogicalCPUs"])
        for sub in cluster.subclusters
    ]
    assert found == [(2000, 8), (4000, 12)]


NODES = st.lists(
    st.tuples(st.sampled_from([1000, 1080, 2000, 64000]), st.frozensets(st.sampled_from("abcd"))),
    min_size=1,
    max_size=8,
)


@settings(max_examples=25)
@given(NODES, st.booleans())
@example([(2000, frozenset("a")), (16000, frozenset("b")), (64000, frozenset("c"))], True)
@example([(2000, frozenset("ab")), (16000, frozenset("bc")), (64000, frozenset("d"))], False)
def test_each_queue_is_read_back_with_the_nodes_of_its_own(
    nodes: list[tuple[int, frozenset[str]]], split: bool
) -> None:
    """Whichever nodes queues share: in both trees, beside what the site says of itself."""
    behind = {q: [memory for memory, queues in nodes if q in queues] for q in "abcd"}
    ads = [
        ClassAd({"QueueName": q, "LRMSType": "slurm", "GlueCEInfoTotalCPUs": 2 * len(hosts)})
        for q, hosts in behind.items()
    ]
    hosts = [
        ClassAd({"Machine": f"n{number}", "Memory": memory, "Cpus": 2, "Queues": sorted(queues)})
        for number, (memory, queues) in enumerate(nodes)
    ]
    placed = glue.place(ads, "ce.s.org:8443/cream", site="S", vos=["cms"])
    records = glue.describe_site(placed, hosts, split=split)
    records = with_site(records, {"GlueSiteName": "S"})
    versions: tuple[Literal["1.3", "2.0"], ...] = ("1.3", "2.0")
    for version in versions:
        file = io.StringIO()
        assert glue.write_ldif(records, file, version=version) == ()
        text = file.getvalue().replace("\n ", "")
        names = re.findall("^(?:GlueSubClusterUniqueID|GLUE2ResourceID): (.*)$", text, re.MULTILINE)
        assert len(names) == len(set(names))
        for ce in glue.read_ldif(text.splitlines()).snapshot.computing_elements:
            own = behind[ce.id[-1]]
            assert (ce.values.get("GlueCEStateStatus") == "Closed") == (not own)
            assert ce.cluster is not None
            found = [
                (
                    sub.values.get("GlueHostMainMemoryRAMSize"),
                    sub.values["GlueSubClusterLogicalCPUs"],
                )
                for sub in ce.cluster.subclusters
            ]
            if not own:
                assert found in ([(UNDEFINED, 0)], [(None, 0)])
            elif not split:
                assert found == [(min(own), 2 * len(own))]
            else:
                # 1000 and 1080 are alike.
                groups = [
                    [m for m in own if low <= m <= high]
                    for low, high in ((1000, 1080), (2000, 2000), (16000, 16000), (64000, 64000))
                ]
                assert found == [(min(g), 2 * len(g)) for g in groups if g]
        if version == "2.0":
            pattern = re.compile(r"^GLUE2ComputingManagerTotalLogicalCPUs: (\d+)$", re.MULTILINE)
            assert pattern.findall(text) == [str(2 * sum(bool(queues) for _, queues in nodes))]


def test_a_queue_that_says_it_has_no_processors_is_open_if_nodes_are_behind_it() -> None:
    ad = parse_ad(QUEUE)
    ad["GlueCEInfoTotalCPUs"], ad["GlueCEStateStatus"] = 0, "Production"
    for node, status in (("[ Cpus = 4 ]", "Production"), ("[ Queues = {} ]", "Closed")):
        [ce] = glue.describe_site([ad], [parse_ad(node)]).computing_elements
        assert ce.values["GlueCEStateStatus"] == status
    [ce] = glue.describe_site([ad]).computing_elements
    assert ce.values["GlueCEStateStatus"] == "Production"


def test_a_queue_whose_nodes_are_not_shown_does_not_get_those_of_others() -> None:
    """As Slurm hides cloud nodes that sleep: of their memory nothing is known."""
    offer = {"LRMSType": "slurm", "GlueCEInfoTotalCPUs": 8, "GlueCEStateStatus": "Production"}
    ads = [ClassAd({"QueueName": name, **offer}) for name in ("cloud", "seen")]
    placed = glue.place(ads, "ce.s.org:443/arex", site="S", vos=["cms"])
    node = parse_ad(
        '[ Machine = "n"; Cpus = 8; Memory = 4000; Arch = "X86_64"; Queues = {"seen"} ]'
    )
    records = glue.describe_site(placed, [node])
    versions: tuple[Literal["1.3", "2.0"], ...] = ("1.3", "2.0")
    for version in versions:
        file = io.StringIO()
        assert glue.write_ldif(records, file, version=version) == ()
        found = glue.read_ldif(file.getvalue().splitlines()).computing_elements()
        memory = {ad.eval("QueueName"): ad.eval("GlueHostMainMemoryRAMSize") for ad in found}
        assert memory == {"cloud": UNDEFINED, "seen": 4000}
        assert {ad.eval("GlueCEStateStatus") for ad in found} == {"Production"}
        assert {ad.eval("GlueHostArchitecturePlatformType") for ad in found} == {"x86_64"}
