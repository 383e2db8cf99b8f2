"""What is published, a real server with the real schema takes entry by entry, and gives back."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from matchmaker import broker, glue, parse_ad, parse_ads
from matchmaker.classad import UNDEFINED, ClassAd, Value
from matchmaker.glue.publish import key
from matchmaker.glue.publish.site import os_release_values
from matchmaker.glue.records import (
    Bind,
    ComputingElement,
    GlueCluster,
    GlueRecords,
    GlueSite,
    StorageArea,
    StorageElement,
    SubCluster,
    VOView,
)
from tests.cli.conftest import Run, classad
from tests.glue.sites import GLUE13, GLUE20, JOBS
from tests.services.daemons import ServiceUnavailable
from tests.services.gridengine import LIBRARY, QueueOf, working
from tests.services.slapd import Start, slapd
from tests.services.slurm import SlurmNode, SlurmOracle, farm

__all__ = ["classad", "slapd"]

pytestmark = pytest.mark.service

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SITE = (EXAMPLES / "site.ldif").read_bytes().split(b"\n")

ONLY_ONE = {  # what one of the schemas has no word for, or makes anew
    *("GLUE2", "GlueForeignKey", "GlueChunkKey", "GlueSchemaVersionMajor"),
    *("GlueSchemaVersionMinor", "GlueVOViewLocalID", "storage", "GlueClusterUniqueID"),
}


def ldif(source: glue.Glue | list[ClassAd], version: str) -> str:
    text = io.StringIO()
    glue.write_ldif(source, text, version=version)  # type: ignore[arg-type]
    return text.getvalue()


def ads(found: glue.Glue) -> dict[str, ClassAd]:
    return {str(ad.eval("CEid")): ad for ad in found.computing_elements()}


def told(ad: ClassAd, without: set[str]) -> dict[str, object]:
    """What an ad says, but for what it does not know: lists in one order, empty ones nothing."""
    values = {name: ad.eval(name) for name in ad if name not in without}
    return {name: plain(value) for name, value in values.items() if plain(value) not in ("", [])}


def plain(value: Value) -> object:
    if isinstance(value, list):
        return sorted(str(plain(item)) for item in value)
    if isinstance(value, ClassAd):
        return sorted((name.lower(), str(plain(value.eval(name)))) for name in value)
    return "" if value is UNDEFINED else str(value)


@pytest.mark.parametrize("lines", [SITE, GLUE13.split("\n"), GLUE20.split("\n")])
def test_a_round_trip_over_a_server_loses_nothing(slapd: Start, lines: list[str]) -> None:
    """Server, reader, ads, LDIF, server, reader: the same ads, in both schemas."""
    read = glue.read_ldif(lines)
    first = glue.read_ldap(slapd(ldif(read, "1.3")), timeout=10)
    again = glue.read_ldap(slapd(ldif(first.computing_elements(), "1.3")), timeout=10)
    assert len(ads(first)) == len(ads(again)) > 0
    for name, ad in ads(first).items():
        assert told(ads(again)[name], set()) == told(ad, set()), name
    first = glue.read_ldap(slapd(ldif(read, "2.0")), timeout=10)
    again = glue.read_ldap(slapd(ldif(first.computing_elements(), "2.0")), timeout=10)
    assert len(ads(first)) == len(ads(again)) > 0
    for name, ad in ads(first).items():
        assert told(ads(again)[name], {"storage"}) == told(ad, {"storage"}), name


@pytest.mark.parametrize("lines", [SITE, GLUE13.split("\n")])
def test_both_schemas_tell_the_same(slapd: Start, lines: list[str]) -> None:
    read = glue.read_ldif(lines)
    url = slapd(ldif(read, "both"))
    old = ads(glue.read_ldap(url, "o=grid", timeout=10))
    new = ads(glue.read_ldap(url, "o=glue", timeout=10))
    assert set(old) == set(new) == set(ads(read))
    unlike = ONLY_ONE | {"GlueSubClusterLogicalCPUs", "GlueSiteUniqueID"}
    for name, ad in old.items():
        one, other = told(ad, unlike), told(new[name], unlike)
        assert {key: other.get(key) for key in one} == one, name
        # GLUE 2.0 must have the address of an endpoint, which is in the queue's id, and its use.
        assert {key.removeprefix("GlueCEInfo") for key in other.keys() - one.keys()} <= {
            *(
                "ContactString",
                "GatekeeperPort",
                "JobManager",
                "HostName",
                "GlueCECapability",
                "GlueCEImplementationName",
            ),
        }
    for text in [*JOBS, (EXAMPLES / "job.jdl").read_text()]:
        job = parse_ad(text)
        first = broker.choose(job, old.values()).ranked
        second = broker.choose(job, new.values()).ranked
        assert [(c.name, c.rank) for c in first] == [(c.name, c.rank) for c in second], text


def test_a_site_described_by_its_queues_and_hosts(slapd: Start) -> None:
    queues = list(
        parse_ads(
            '[ CEid = "ce.s.grid:8443/cream-slurm-long"; GlueSiteUniqueID = "S, the site+";'
            '  GlueCEStateStatus = "Production"; GlueCEPolicyMaxCPUTime = 600;'
            '  GlueCEAccessControlBaseRule = { "VO:egee" } ]'
        )
    )
    hosts = list(parse_ads((EXAMPLES / "nodes.ad").read_text(encoding="utf-8")))
    for split, count in ((False, 1), (True, 6)):
        text = io.StringIO()
        described = glue.describe_site(queues, hosts, split=split)
        assert glue.write_ldif(described, text) == ()
        url = slapd(text.getvalue())
        for base in ("o=grid", "o=glue"):
            found = glue.read_ldap(url, base, timeout=10)
            [ce] = found.snapshot.computing_elements
            assert ce.cluster is not None
            assert ce.cluster.site_id == "S, the site+"
            assert len(ce.cluster.subclusters) == count
            [ad] = found.computing_elements(glue.lowest_memory)
            least = min(int(str(host.eval("GlueHostMainMemoryRAMSize"))) for host in hosts)
            assert ad.eval("GlueHostMainMemoryRAMSize") == least
            assert ad.eval("GlueCEPolicyMaxCPUTime") == 600


# Each case starts a server: to look for a smaller one would take minutes.
QUICK = (Phase.explicit, Phase.generate)
ODD = ("a b", " a", "#a", "a,b", "a+b=c", 'a"b', "a\\b", "a\\2cb", "a;b<c>", "a\nb", "a\tb",
       "caf\u00e9", "fi", "\ufb01", "\u00ad", "\u65e5\u672c", "a\u00a0b", "a\u2028b", "true",
       "undefined", "a/b", "(a*)", "a\x7f",
       "a?b", "a#b", "a@b", "[a")  # fmt: skip


@settings(max_examples=5, deadline=None, phases=QUICK)
@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12), max_size=40))
@example(list(ODD))
def test_odd_ids_are_taken_and_given_back(slapd: Start, odd: list[str]) -> None:
    """Queues, views, clusters, hosts, sites and storage of any names; what is left out is told."""
    clusters = [
        GlueCluster(name, {}, name, GlueSite(name, {}), (SubCluster(name, {}),))
        for name in [*odd, "x"]
    ]
    elements = [StorageElement(name, {}, (StorageArea(name, {}),)) for name in [*odd, "x"]]
    queues = [
        ComputingElement(
            # A queue whose address cannot be read has no view: only its host's mark counts.
            f"ce:1/cream-pbs-{name.strip()}",
            {"GlueCEAccessControlBaseRule": ["VO:x"]},
            cluster,
            (VOView(name, {"GlueCEAccessControlBaseRule": ["VO:y"]}),),
            (Bind(element.id, name, {}, element),),
            (element.id,),
        )
        for name, cluster, element in zip([*odd, "x"], clusters, elements, strict=True)
    ]
    sites = [cluster.site for cluster in clusters if cluster.site is not None]
    snapshot = GlueRecords(tuple(sites), tuple(clusters), tuple(queues), tuple(elements))
    for version, base in (("1.3", "o=grid"), ("2.0", "o=glue")):
        text = io.StringIO()
        issues = glue.write_ldif(snapshot, text, version=version)  # type: ignore[arg-type]
        assert {issue.rule for issue in issues} <= {
            *("publish.id", "publish.duplicate", "publish.value", "publish.no-site"),
        }
        back = glue.read_ldap(slapd(text.getvalue()), base, timeout=10).snapshot
        for told, read in (
            (queues, back.computing_elements),
            (clusters, back.clusters),
            (elements, back.storage_elements),
            (sites, back.sites),
        ):
            lost = {issue.raw for issue in issues if issue.rule != "publish.value"}
            kept = [record.id.strip() for record in told if record.id.strip() not in lost]
            assert {r.id for r in read} >= set(kept), version
        for ce in back.computing_elements:
            if ce.cluster is not None and ce.cluster.site_id:
                assert key(f"ce:1/cream-pbs-{ce.cluster.id}") == key(ce.id)
                assert ce.cluster.site_id == ce.cluster.id


def test_a_real_batch_system_is_published_and_chosen(
    slapd: Start,
    slurm: Callable[[Iterable[SlurmNode]], SlurmOracle],
    classad: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Slurm tells of itself, a server takes every entry, and the broker chooses from the server."""
    oracle = slurm(
        [SlurmNode("n1", cpus=2, memory_mb=1000), SlurmNode("n2", cpus=8, memory_mb=8000)]
    )
    for name, value in oracle.environment.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "site.ldif"
    where = ("--endpoint", "ce.s.grid:8443/cream", "--site", "S", "--vo", "cms")
    done = classad("publish", "--lrms", "slurm", *where, "-o", path)
    assert (done.status, done.out, done.err) == (0, "", "")
    # Its partition has no limit, and says so.
    for limit in ("GlueCEPolicyMaxWallClockTime", "GLUE2ComputingShareMaxWallTime"):
        assert f"{limit}: 999999999\n" in path.read_text(encoding="ascii")
    url = slapd(path.read_text(encoding="ascii"))
    name = "ce.s.grid:8443/cream-slurm-main"
    job = (
        '[ VirtualOrganisation = "cms"; Requirements = other.GlueCEInfoTotalCPUs == 10'
        " && other.GlueHostMainMemoryRAMSize >= 1000; Rank = other.GlueCEStateFreeCPUs ]"
    )
    for base in ("o=grid", "o=glue"):
        decided = classad("broker", "-", "--ldap", f"{url}/{base}", "--json", stdin=job)
        assert decided.status == 0, decided.err
        assert json.loads(decided.out)["queues"]["chosen"] == name
        foreign = job.replace('"cms"', '"atlas"')
        assert classad("broker", "-", "--ldap", f"{url}/{base}", stdin=foreign).status == 1
    # What it says in two steps, over files, is the same.
    queues, nodes = tmp_path / "q.ad", tmp_path / "n.ad"
    assert classad("nodes", "--lrms", "slurm", "--queues", "--write", queues).status == 0
    assert classad("nodes", "--lrms", "slurm", "--write", nodes).status == 0
    alone = classad("publish", "--ce", queues, "--nodes", nodes)
    assert (alone.status, alone.out) == (2, "")
    assert "main is a queue of slurm" in alone.err
    again = classad("publish", "--ce", queues, "--nodes", nodes, *where)
    assert (again.status, again.out) == (0, path.read_text(encoding="ascii"))


@pytest.mark.parametrize("length", [150, 200, 208, 209, 230, 260, 900])
def test_ids_too_long_for_a_directory_are_left_out_and_said(slapd: Start, length: int) -> None:
    """OpenLDAP holds 244 bytes of a part of a name; in GLUE 2.0 the queue's id is not its name."""
    queues = [
        ClassAd(
            {
                "CEid": f"ce.s.org:1/cream-pbs-{name}",
                "GlueSiteUniqueID": "S",
                "GlueCEAccessControlBaseRule": ["VO:cms"],
                "CloseStorageElements": [ClassAd({"name": f"se{name}", "mount": "/a"})],
                "GlueHostApplicationSoftwareRunTimeEnvironment": [name],
            }
        )
        for name in ("short", "q" * length, "\u00e9" * (length // 3), "," * (length // 3))
    ]
    text = io.StringIO()
    told = glue.write_ldif(queues, text)
    url = slapd(text.getvalue())
    wanted = {str(ad.eval("CEid")) for ad in queues}
    lost = {issue.raw for issue in told if issue.rule == "publish.id"}
    old = set(ads(glue.read_ldap(url, "o=grid", timeout=10)))
    assert "ce.s.org:1/cream-pbs-short" in old
    assert bool(lost) or old == wanted
    assert (f"ce.s.org:1/cream-pbs-{'q' * length}" in old) == (length <= 208)
    new = ads(glue.read_ldap(url, "o=glue", timeout=10))
    assert set(new) == wanted
    for ad in new.values():
        assert ad.eval("GlueCEAccessControlBaseRule") == ["VO:cms"]


SITE_FILE = """name = "S"
description = "A site of the tests"
web = "https://www.s.org/"
location = "Milano, Italy"
latitude = 45.47
longitude = 9.19
mail = "grid@s.org"
support = "support@s.org"
admin = "admin@s.org"
security = "security@s.org"
"""


PARTITIONS = (
    SlurmNode("a1", cpus=2, memory_mb=520, partitions=("small", "all")),
    SlurmNode("a2", cpus=2, memory_mb=500, partitions=("small", "all")),
    SlurmNode("b1", cpus=8, memory_mb=1600, partitions=("mixed", "all")),
    SlurmNode("b2", cpus=4, memory_mb=900, partitions=("mixed", "all")),
    SlurmNode("c1", cpus=8, memory_mb=3000, partitions=("big", "twin", "all")),
)
Hosts = list[tuple[Any, ...]]
QUEUES: dict[str, Hosts] = {
    "small": [(500, 2, 4)],
    "mixed": [(900, 4, 4), (1600, 8, 8)],
    "big": [(3000, 8, 8)],
    "twin": [(3000, 8, 8)],
    "all": [(500, 2, 4), (900, 4, 4), (1600, 8, 8), (3000, 8, 8)],
    "empty": [(UNDEFINED, UNDEFINED, 0)],
}
"""The memory and the cores of a node of each group of like ones, and the cores of the group."""


@contextmanager
def batch_system(lrms: str) -> Iterator[tuple[dict[str, str], dict[str, Hosts]]]:
    """Runs a real batch system; how its commands are to ask it, and the nodes of its queues.

    Some of its queues share nodes, and the last has none.
    """
    with ExitStack() as stack:
        try:
            if lrms == "slurm":
                oracle = stack.enter_context(farm(PARTITIONS, "PartitionName=empty\n")).oracle
                yield {**oracle.environment}, QUEUES
                return
            engine = stack.enter_context(working())
        except ServiceUnavailable as error:
            pytest.skip(f"no {lrms} here: {error}")
        empty = QueueOf("empty.q", settings={"hostlist": "NONE"})
        engine.configure([], [QueueOf("short.q", slots=2), empty])
        environment = {**engine.environment, "PATH": f"{LIBRARY}:{os.environ['PATH']}"}
        said = engine.run(["qhost", "-h", "localhost"]).splitlines()[-1].split()
        cores, memory = int(said[2]), round(float(said[-4].rstrip("G")) * 1024)
        here = [(memory, cores, cores)]
        yield environment, {"all.q": here, "short.q": here, "empty.q": [(UNDEFINED, UNDEFINED, 0)]}


def hosts_of(ce: ComputingElement) -> Hosts:
    names = (
        "GlueHostMainMemoryRAMSize",
        "GlueHostArchitectureSMPSize",
        "GlueSubClusterLogicalCPUs",
    )
    subs = ce.cluster.subclusters if ce.cluster is not None else ()
    return [tuple(sub.values.get(name, UNDEFINED) for name in names) for sub in subs]


def least(hosts: Hosts) -> Hosts:
    """All nodes of a queue as one group, which promises what each of them has."""
    memory, cores, everywhere = zip(*hosts, strict=True) if hosts else ((), (), ())
    return [(min(memory), min(cores), sum(everywhere))] if hosts else []


def run_validator(command: str, path: Path, classad: Run) -> None:
    """The program finds no error, warns only of what is not there, and finds what we find."""
    old, new = path.read_text(encoding="ascii").split("\ndn: o=glue\n")
    for text, options in ((old, ("-g", "glue1", "-s", "general")), (f"dn: o=glue\n{new}", ())):
        tree = path.with_suffix(".tree")
        tree.write_text(text, encoding="ascii")
        argv = [*shlex.split(command), "-f", str(tree), *options, "-v", "3"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert re.search(r"^(OK|WARNING) - errors 0, ", done.stdout), done
        told = Counter(
            re.findall(r"^ ?(\w+) Affected attribute: (\w+)$", done.stdout, re.MULTILINE)
        )
        assert {code for code, _ in told if code[0] in "EW"} == {"W034"}
        ours: Counter[tuple[str, str]] = Counter()
        for one in json.loads(classad("ces", "--ldif", tree, "--check", "--json").out):
            tool, _, code = one["rule"].partition(".")
            gone = re.search(r"it does not have (.*) in ", one["text"])
            # The program tests this of entries of the class GlueCEInfo alone.
            if tool == "glue-validator" and one["attribute"] != "GlueCEInfoLRMSType":
                names = gone[1].split(", ") if gone else [one["attribute"]]
                ours.update((code, name) for name in names)
        assert ours == told


@pytest.mark.parametrize("lrms", ["slurm", "sge"])
def test_each_queue_of_a_real_batch_system_has_its_nodes_and_passes_the_validators(
    lrms: str,
    slapd: Start,
    classad: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """By EGI's rules no error and no warning, in files and from a server, in both schemas."""
    path, place = tmp_path / "site.ldif", tmp_path / "site.toml"
    place.write_text(SITE_FILE)
    where = ["--endpoint", "ce.s.org:8443/cream", "--vo", "cms", "--site-file", place]
    system = os_release_values(Path("/etc/os-release").read_text(encoding="utf-8"))
    if lrms == "sge":  # which does not tell even the kernel of its nodes
        where += ["--os-release", tmp_path / "os-release"]
        (tmp_path / "os-release").write_text("ID=ubuntu\nVERSION_ID='24.04'\n")
        system = {**system, "GlueHostOperatingSystemName": "Ubuntu"}
    with batch_system(lrms) as (environment, queues):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        together = {queue: least(hosts) for queue, hosts in queues.items()}
        for more, shown in (((), queues), (("--together",), together)):
            done = classad("publish", "--lrms", lrms, *where, *more, "-o", path)
            assert (done.status, done.out) == (0, "")
            [warning] = done.err.splitlines()
            assert re.search(r"closed, as .* no nodes for them: 1 queue \(\S+-empty\S*\)$", warning)
            if program := os.environ.get("GLUE_VALIDATOR"):
                run_validator(program, path, classad)
            url = slapd(path.read_text(encoding="ascii"))
            for source in (("--ldif", path), ("--ldap", url)):
                told = json.loads(classad("ces", *source, "--check", "--json").out)
                assert {"glue-validator.I095", "glue-validator.W034"} <= {o["rule"] for o in told}
                # glue-validator knows no Slurm; 999999999 is our word for no limit; GLUE 2.0 must
                # have the memory of nodes, even of none.
                known = {"GlueCEInfoLRMSType", "GLUE2ExecutionEnvironmentMainMemorySize"}
                wrong = [o for o in told if o["level"] != "I" and o["attribute"] not in known]
                assert [o["text"] for o in wrong if o["rule"] != "clean.limit-unknown"] == []
            for base in ("o=grid", "o=glue"):
                found = glue.read_ldap(url, base, timeout=10)
                assert [site.id for site in found.snapshot.sites] == ["S"]
                read = {ce.id.rpartition("-")[2]: ce for ce in found.snapshot.computing_elements}
                assert {queue: hosts_of(ce) for queue, ce in read.items()} == shown
                for one, other in (("big", "twin"), ("all.q", "short.q")):
                    assert one not in read or read[one].cluster == read[other].cluster
                [empty] = (ce for queue, ce in read.items() if queue.startswith("empty"))
                assert empty.values["GlueCEStateStatus"] == "Closed"
                for ad in found.computing_elements():
                    name = "GlueHostOperatingSystemName"
                    assert ad.eval(name) == system[name]
            # A node of several queues counts once.
            cores = {tuple(host) for hosts in queues.values() for host in hosts}
            [total] = re.findall(r"TotalLogicalCPUs: (\d+)$", path.read_text(), re.MULTILINE)
            assert int(total) == sum(all_of_them for *_, all_of_them in cores)
    kinds = set(re.findall(r"^objectClass: (\w+)$", path.read_text(), re.MULTILINE))
    assert kinds >= {"GLUE2AccessPolicy", "GLUE2MappingPolicy", "GLUE2Location", "GLUE2Contact"}
    assert kinds >= {"GlueSite", "GlueCluster", "GlueSubCluster", "GlueCE"}


def test_a_slurm_that_was_not_told_of_memory_is_told_of(
    slurm: Callable[[Iterable[SlurmNode]], SlurmOracle],
    classad: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without RealMemory a node has 1 MB, and Slurm refuses all jobs that ask for memory."""
    oracle = slurm([SlurmNode("n1", cpus=2, memory_mb=1), SlurmNode("n2", cpus=2, memory_mb=1000)])
    assert oracle.selected(["--mem=100"]) == {"n2"}
    for name, value in oracle.environment.items():
        monkeypatch.setenv(name, value)
    done = classad("publish", "--lrms", "slurm", "--endpoint", "ce.s.org:8443/cream",
                   "--site", "S", "--vo", "cms")  # fmt: skip
    assert done.status == 0
    [warning] = done.err.splitlines()
    assert "slurm gives 1 node (n1) less than 100 MB of memory" in warning
    assert "RealMemory in slurm.conf" in warning


NAMES = (
    *("GlueCEName", "GlueCEStateStatus", "GlueCEStateFreeCPUs", "GlueCEPolicyMaxCPUTime"),
    *("GlueCEAccessControlBaseRule", "GlueCEInfoContactString", "GlueCEInfoLRMSType"),
    *("GlueCEPolicyMaxTotalJobs", "GlueCEHostingCluster", "GlueClusterName", "GlueClusterService"),
    *("GlueHostMainMemoryRAMSize", "GlueHostBenchmarkSI00", "GlueHostOperatingSystemName"),
    *("GlueHostNetworkAdapterOutboundIP", "GlueHostApplicationSoftwareRunTimeEnvironment"),
    *("GlueHostArchitecturePlatformType", "CloseStorageElements", "GlueInformationServiceURL"),
)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
SCALARS = st.one_of(
    st.sampled_from(["VO:cms", "production", "linux", "https://ce/x", 444444, 0, -1, UNDEFINED]),
    *(WORDS, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats()),
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), SCALARS.map(lambda v: ClassAd({"x": v})))


@settings(max_examples=4, deadline=None, phases=QUICK)
@given(st.lists(st.dictionaries(st.sampled_from(NAMES), VALUES), min_size=1, max_size=40))
@example([{"GlueCEInfoContactString": "https://ce/x"}, {"GlueCEInfoContactString": "https://[/"}])
def test_whatever_an_ad_says_a_server_takes_what_is_published(
    slapd: Start, told: list[dict[str, Value]]
) -> None:
    queues = [
        ClassAd({"CEid": f"ce{number}:1/cream-pbs-q", "GlueSiteUniqueID": "S",
                 "GlueSubClusterUniqueID": f"ce{number}", **values})
        for number, values in enumerate(told)
    ]  # fmt: skip
    url = slapd(ldif(queues, "both"))
    for base in ("o=grid", "o=glue"):
        assert set(ads(glue.read_ldap(url, base, timeout=10))) == {
            str(ad.eval("CEid")) for ad in queues
        }


def test_queues_with_hosts_of_their_own_are_taken(
    slapd: Start, classad: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(EXAMPLES)
    path = tmp_path / "site.ldif"
    saved = ("--saved", "torque-nodes.xml", "--saved", "torque-queues.txt")
    where = ("--endpoint", "ce.s.grid:8443/cream", "--site", "S", "--vo", "cms")
    for split in ((), ("--split",)):
        done = classad("publish", "--lrms", "torque", *saved, *where, *split, "-o", path)
        assert (done.status, done.err) == (0, "")
        url = slapd(path.read_text(encoding="ascii"))
        for base in ("o=grid", "o=glue"):
            found = glue.read_ldap(url, base, timeout=10)
            assert found.issues == ()
            memory = {
                ad.eval("QueueName"): ad.eval("GlueHostMainMemoryRAMSize")
                for ad in found.computing_elements(glue.lowest_memory)
            }
            assert memory == {"long": 8000, "big": 32000}
