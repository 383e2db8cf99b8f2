from __future__ import annotations

from datetime import UTC, datetime

import pytest

from matchmaker import broker, glue, parse_ad, parse_expr
from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad import UNDEFINED, ClassAd, Value
from matchmaker.glue.access import ALSO, RULES
from matchmaker.glue.publish import with_one_list
from matchmaker.glue.query import admits
from tests.glue.sites import GLUE13, GLUE20, JOBS, LONG, SHORT
from tests.limits import fields

pytestmark = pytest.mark.slow


def read(text: str) -> glue.Glue:
    return glue.read_ldif(text.split("\n"))


def by_id(found: glue.Glue) -> dict[str, ClassAd]:
    ads = {str(ad.eval("CEid")): ad for ad in found.computing_elements()}
    assert len(ads) == len(found.computing_elements())
    return ads


def ordered(value: Value) -> object:
    """A value to compare: lists of an information system come in any order."""
    return sorted(map(str, value)) if isinstance(value, list) else repr(value)


@pytest.fixture(scope="module")
def old() -> glue.Glue:
    return read(GLUE13)


@pytest.fixture(scope="module")
def new() -> glue.Glue:
    return read(GLUE20)


def test_a_site_of_glue_2_links_up(new: glue.Glue) -> None:
    assert {issue.rule for issue in new.issues} == {
        "clean.benchmark",
        "clean.default-number",
        "clean.limit-unknown",
        "clean.platform",
    }
    [site] = new.snapshot.sites
    assert (site.id, site.values["GlueSiteName"]) == ("S", "Site S")
    assert [ce.id for ce in new.snapshot.computing_elements] == [LONG, SHORT]
    long = new.snapshot.computing_elements[0]
    assert [view.id for view in long.views] == ["cms"]
    assert long.cluster is not None
    assert long.cluster.site is site
    assert [sub.id for sub in long.cluster.subclusters] == ["nodes"]
    assert long.binds[0].se is new.snapshot.storage_elements[0]
    assert new.snapshot.computing_elements[1].binds == ()


def test_both_descriptions_give_the_same_queues(old: glue.Glue, new: glue.Glue) -> None:
    one, other = by_id(old), by_id(new)
    assert set(one) == set(other) == {LONG, f"{LONG}/cms", SHORT}
    unlike = {  # ids of entries, and what only one of the schemas has
        *("GlueForeignKey", "GlueChunkKey", "GlueClusterUniqueID", "GlueVOViewLocalID", "storage"),
        *("GLUE2", RULES, ALSO),
    }
    for name, ad in one.items():
        for vo in ("cms", "dteam", "lhcb", "atlas"):
            assert admits(other[name], vo) is admits(ad, vo), (name, vo)
        for key in set(ad) - unlike:
            assert ordered(other[name].eval(key)) == ordered(ad.eval(key)), key


def test_both_descriptions_give_the_same_matches(old: glue.Glue, new: glue.Glue) -> None:
    answers = set()
    for text in JOBS:
        job = parse_ad(text)
        one, other = broker.choose(job, old), broker.choose(job, new)
        ranked = tuple((c.name, c.rank) for c in one.ranked)
        assert ranked == tuple((c.name, c.rank) for c in other.ranked), text
        assert {r.name for r in one.refused} == {r.name for r in other.refused}
        answers.add(ranked)
    assert len(answers) >= 6  # the jobs do tell queues apart


def test_the_names_of_glue_2_keep_their_units(new: glue.Glue) -> None:
    ad = by_id(new)[f"{LONG}/cms"]
    for text, expected in {
        "GLUE2.Computing.Share.MaxCPUTime": 172800,
        "GLUE2.Computing.Share.FreeSlots": 4,
        "GLUE2.Computing.Endpoint.InterfaceName": "org.glite.ce.CREAM",
        "GLUE2.Computing.Manager.ProductName": "SLURM",
        "GLUE2.Computing.Service.ID": "ce.s.grid",
        "GLUE2.ExecutionEnvironment.MainMemorySize": 16000,
        "GLUE2.ExecutionEnvironment.ConnectivityOut": True,
        "GLUE2.Benchmark[0].Value": 8.8,
        "size(GLUE2.ApplicationEnvironment)": 2,
    }.items():
        assert ad.eval(parse_expr(text)) == expected, text
    assert ad.eval("GlueCEPolicyMaxCPUTime") == 2880


def test_both_in_one_dump_are_one_site() -> None:
    found = read(GLUE13 + "\n" + GLUE20)
    assert len(found.snapshot.sites) == 1
    assert len(found.computing_elements()) == 3
    assert "GLUE2" not in found.computing_elements()[0]


def without(part: str) -> glue.Glue:
    """The site less the entries whose names begin so."""
    kept = [e for e in GLUE20.split("\n\n") if not e.strip().startswith(f"dn: {part}")]
    return read("\n\n".join(kept))


def test_parts_that_are_missing_are_reported() -> None:
    rules = {issue.rule for issue in without("GLUE2DomainID").issues}
    assert "link.elsewhere" in rules
    lost = without("GLUE2EndpointID=cream")
    assert "link.no-endpoint" in {issue.rule for issue in lost.issues}
    assert {ce.id for ce in lost.snapshot.computing_elements} == {"long", "long_cms", "short"}
    lost = without("GLUE2ManagerID")
    assert {"link.no-cluster", "link.dangling"} <= {issue.rule for issue in lost.issues}
    assert all(ce.cluster is None for ce in lost.snapshot.computing_elements)
    lost = without("GLUE2ResourceID=nodes,")
    assert {"link.no-subcluster", "link.dangling"} <= {issue.rule for issue in lost.issues}
    assert lost.computing_elements()[0].eval("GlueHostMainMemoryRAMSize") is UNDEFINED
    lost = without("GLUE2ServiceID=ce")
    assert lost.computing_elements() == []
    assert len([i for i in lost.issues if i.rule == "link.dangling"]) >= 6


def test_keys_are_not_needed_where_the_tree_says_it() -> None:
    bare = "\n".join(line for line in GLUE20.split("\n") if "ForeignKey" not in line)
    found = read(bare)
    assert set(by_id(found)) == {LONG, f"{LONG}/cms", SHORT}
    assert by_id(found)[SHORT].eval("GlueHostMainMemoryRAMSize") == 16000


def test_shares_of_one_queue_are_views_of_it() -> None:
    text = GLUE20.replace("GLUE2EntityOtherInfo: VOView=cms\n", "").replace(
        "GLUE2PolicyRule: VO:cms\nGLUE2PolicyRule: VO:dteam",
        "GLUE2PolicyRule: VO:dteam",
    )
    found = by_id(read(text))
    assert set(found) == {f"{LONG}/long", f"{LONG}/long_cms", SHORT}
    assert found[f"{LONG}/long"].eval("GlueCEStateFreeCPUs") == 12
    assert found[f"{LONG}/long_cms"].eval("GlueCEStateFreeCPUs") == 4
    assert found[f"{LONG}/long"].eval("GlueCEPolicyMaxCPUTime") == 2880


def test_a_queue_is_as_inviting_as_the_worse_of_share_and_endpoint() -> None:
    text = GLUE20.replace(
        "GLUE2EndpointServingState: production", "GLUE2EndpointServingState: closed"
    )
    assert {ad.eval("GlueCEStateStatus") for ad in by_id(read(text)).values()} == {"Closed"}


@pytest.mark.parametrize(
    ("share", "endpoint", "expected"),
    [
        ([], [], []),
        (["VO:a"], [], []),
        ([], ["VO:a"], []),
        (["DENY:/a/x"], ["VO:a"], ["DENY:/a/x"]),
        (["VO:all"], ["VO:b"], []),
        (["all"], ["VO:b"], ["VO:b"]),
        (["VO:a", "VO:b"], ["VO:b"], ["VO:b"]),
        (["VO:a"], ["VO:A"], ["VO:a"]),
        (["VOMS:/a/x"], ["VOMS:/a/y"], []),
        (["VO:a"], ["ALL"], ["VO:a"]),
        (["VO:a", "DENY:/CN=x"], ["VO:a", "DENY:/CN=y"], ["VO:a", "DENY:/CN=x", "DENY:/CN=y"]),
    ],
)
def test_one_list_is_published_of_two(
    share: list[str], endpoint: list[str], expected: list[str]
) -> None:
    own: dict[str, Value] = {RULES: list[Value](share), ALSO: [list[Value](endpoint)]}
    assert with_one_list(own) == {RULES: expected}
    assert with_one_list({RULES: ["VO:a"]}) == {RULES: ["VO:a"]}


def test_benchmarks_are_converted_only_if_the_rule_is_on() -> None:
    found = glue.read_ldif(GLUE20.split("\n"), rules=glue.DEFAULT_RULES - {"clean.benchmark"})
    assert found.computing_elements()[0].eval("GlueHostBenchmarkSI00") is UNDEFINED


def test_stale_shares_expire() -> None:
    made = "GLUE2EntityCreationTime: 2013-05-27T12:00:00Z\nGLUE2EntityValidity: 3600\n"
    text = GLUE20.replace("GLUE2ShareID: short\n", "GLUE2ShareID: short\n" + made)
    soon, later = datetime(2013, 5, 27, 12, 30, tzinfo=UTC), datetime(2013, 5, 28, tzinfo=UTC)
    job = parse_ad('[ VirtualOrganisation = "cms"; Requirements = other.QueueName == "short" ]')
    for at, rules, chosen in ((soon, [], SHORT), (later, ["clean.stale"], None)):
        found = glue.read_ldif(text.split("\n"), at=at)
        assert [i.rule for i in found.issues if i.rule == "clean.stale"] == rules
        best = broker.choose(job, found, at=at).chosen
        assert (best.name if best else None) == chosen


@pytest.mark.parametrize("version", ["1.3", "2.0"])
def test_provenance_goes_with_a_queue(old: glue.Glue, new: glue.Glue, version: str) -> None:
    found = {"1.3": old, "2.0": new}[version]
    known = found.provenance(SHORT)
    assert (known["GlueCEStateWaitingJobs"].rule, known["GlueCEStateWaitingJobs"].raw) == (
        "clean.default-number",
        "444444",
    )
    view = found.provenance(f"{LONG}/cms")
    assert view["GlueCEPolicyMaxTotalJobs"].rule == "clean.limit-unknown"
    assert "GlueCEStateWaitingJobs" not in view
    with pytest.raises(KeyError):
        found.provenance("elsewhere")


def test_everybody_is_admitted_where_all_are() -> None:
    text = GLUE20.replace("GLUE2PolicyRule: VO:dteam\n", "").replace("VO:lhcb", "ALL")
    text = text.replace("VO:cms\nGLUE2AccessPolicy", "ALL\nGLUE2AccessPolicy", 1)
    job = parse_ad('[ VirtualOrganisation = "xyz"; Requirements = true; Rank = 1 ]')
    assert [c.name for c in broker.choose(job, read(text)).ranked] == [SHORT]


def many(endpoints: int, shares: int, applications: int = 0) -> list[str]:
    """A service all whose shares are at all its endpoints, and hosts that have all applications."""
    place = "GLUE2ServiceID=s,o=glue"
    entries: list[tuple[str, str, list[str]]] = [(place, "ComputingService", [])]
    entries.append((f"GLUE2ManagerID=m,{place}", "ComputingManager", []))
    for n in range(endpoints):
        said = [f"GLUE2EndpointURL: https://h{n}.s.grid:443/", "GLUE2EndpointInterfaceName: x.rest"]
        entries.append((f"GLUE2EndpointID=e{n},{place}", "ComputingEndpoint", said))
    for n in range(shares):
        said = [f"GLUE2ComputingShareMappingQueue: q{n}"]
        entries.append((f"GLUE2ShareID=s{n},{place}", "ComputingShare", said))
    for n in range(applications):
        said = [f"GLUE2ApplicationEnvironmentAppName: app{n}"]
        dn = f"GLUE2ApplicationEnvironmentID=a{n},GLUE2ManagerID=m,{place}"
        entries.append((dn, "ApplicationEnvironment", said))
        dn = f"GLUE2ResourceID=r{n},GLUE2ManagerID=m,{place}"
        entries.append((dn, "ExecutionEnvironment", []))
    return [
        line
        for dn, kind, said in entries
        for line in [f"dn: {dn}", f"objectClass: GLUE2{kind}", *said, ""]
    ]


def test_shares_at_endpoints_are_so_many_queues_at_most() -> None:
    found = glue.read_ldif(many(5, 30))
    assert len(found.computing_elements()) == 150
    assert "link.too-many" not in {issue.rule for issue in found.issues}
    found = glue.read_ldif(many(60, 60))
    assert sum(len(ce.views) for ce in found.snapshot.computing_elements) == 2400
    [issue] = [issue for issue in found.issues if issue.rule == "link.too-many"]
    assert issue.message.startswith("more than 2400 queues, shares at endpoints")
    assert issue.level == "E"


def test_applications_of_hosts_are_so_many_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fields(LIMITS), "tags", 500)
    found = glue.read_ldif(many(1, 1, 60))
    [cluster] = found.snapshot.clusters
    name = "GlueHostApplicationSoftwareRunTimeEnvironment"
    tags = [sub.values.get(name) for sub in cluster.subclusters]
    assert sum(len(tag) for tag in tags if isinstance(tag, list)) == 2400
    assert "link.too-many" in {issue.rule for issue in found.issues}
