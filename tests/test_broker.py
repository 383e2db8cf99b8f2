from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from matchmaker import (
    ClassAd,
    Pool,
    ReductionError,
    batch,
    broker,
    glue,
    nodes,
    parse_ad,
    parse_ads,
    read_ads,
    reduce,
)
from matchmaker.classad import UNDEFINED, Value
from matchmaker.glue.access import RULES, of_ad, required
from matchmaker.matching.selection import Selection

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
AT = datetime(2005, 10, 3, 15, 5, tzinfo=UTC)

QUEUES = """
[ CEid = "a"; FreeCPUs = 3; GlueCEStateEstimatedResponseTime = 50 ]
[ CEid = "b"; FreeCPUs = 9; GlueCEStateEstimatedResponseTime = 70 ]
[ CEid = "c"; FreeCPUs = 3; GlueCEStateEstimatedResponseTime = 10 ]
[ CEid = "d"; FreeCPUs = 0 ]
"""


def choose(job: str, queues: str = QUEUES) -> Selection:
    return broker.choose(parse_ad(job), parse_ads(queues))


def names(found: Selection) -> list[str]:
    return [candidate.name for candidate in found.ranked]


def test_ranks_by_the_jobs_rank_and_equals_by_name() -> None:
    found = choose("[ Requirements = other.FreeCPUs > 0; Rank = other.FreeCPUs ]")
    assert names(found) == ["b", "a", "c"]
    assert [c.rank for c in found.ranked] == [9.0, 3.0, 3.0]
    assert [r.reason for r in found.refused] == [
        "the job refuses: other.FreeCPUs > 0 is false (FreeCPUs = 0)"
    ]


def test_equals_by_chance_where_asked() -> None:
    job = parse_ad("[ Rank = 1 ]")
    firsts = {
        broker.choose(job, parse_ads(QUEUES), tie=random.Random(seed)).ranked[0].name
        for seed in range(40)
    }
    assert firsts == {"a", "b", "c", "d"}


def test_without_rank_the_shortest_response_time_is_best() -> None:
    found = choose("[]")
    assert names(found) == ["c", "a", "b", "d"]


def test_a_queue_whose_rank_is_no_number_is_left_out_with_its_reason() -> None:
    found = choose("[ Rank = other.Nothing ]")
    assert found.chosen is None
    assert {r.reason for r in found.refused} == {
        "the job's rank of it is undefined, not a number: Nothing is undefined"
    }


def test_an_undefined_rank_names_what_is_undefined_and_not_what_is_known() -> None:
    found = choose("[ Rank = other.FreeCPUs * MY.Weight - other.Gone; Weight = 2 ]")
    (refusal, *_) = found.refused
    assert refusal.reason.endswith("is undefined, not a number: Gone is undefined")
    assert refusal.clause is not None
    assert dict(refusal.clause.facts) == {"FreeCPUs": 3, "Weight": 2, "Gone": UNDEFINED}


def test_a_job_without_requirements_accepts_what_accepts_it() -> None:
    queues = """
    [ CEid = "open"; GlueCEStateEstimatedResponseTime = 1 ]
    [ CEid = "ours"; GlueCEStateEstimatedResponseTime = 2; Requirements = other.VO == "EGEE" ]
    [ CEid = "theirs"; GlueCEStateEstimatedResponseTime = 3; Requirements = other.VO == "cms" ]
    """
    found = choose('[ VO = "EGEE" ]', queues)
    assert names(found) == ["open", "ours"]
    assert [(r.name, r.by) for r in found.refused] == [("theirs", "resource")]


def test_the_job_keeps_its_own_rank() -> None:
    job = parse_ad("[]")
    broker.choose(job, parse_ads(QUEUES))
    assert len(job) == 0


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('[ CEid = "a"; GlueCEUniqueID = "b"; id = "c"; Name = "d" ]', "a"),
        ('[ GlueCEUniqueID = "b"; id = "c"; Name = "d" ]', "b"),
        ('[ id = "c"; Name = "d" ]', "c"),
        ('[ Name = "d" ]', "d"),
        ('[ CEid = undefined; Name = "d" ]', "d"),
        ('[ CEid = ""; Name = "d" ]', "d"),
        ("[ x = 1 ]", "CE 1"),
        ('[ id = "w"; info = [ GlueCEUniqueID = "inner" ] ]', "inner"),
        ('[ id = "w"; info = [ x = 1 ] ]', "w"),
    ],
)
def test_names(text: str, name: str) -> None:
    assert [found for found, _ in broker.named([parse_ad(text)])] == [name]


# --- expiry ---------------------------------------------------------------------------------------

# Published at 15:04:42 and good for five minutes.
WRAPPED = '[ id = "q"; update_time = 1128351882; expiry_time = 300; info = [ Free = 1 ] ]'


@pytest.mark.parametrize(
    ("seconds", "believed"), [(-3600, True), (0, True), (299, True), (300, True), (301, False)]
)
def test_an_ad_is_believed_until_it_expires(seconds: int, believed: bool) -> None:
    at = datetime.fromtimestamp(1128351882 + seconds, tz=UTC)
    found = broker.choose(parse_ad("[ Rank = other.Free ]"), [parse_ad(WRAPPED)], at=at)
    assert names(found) == (["q"] if believed else [])
    if not believed:
        assert [(r.name, r.by, r.reason) for r in found.refused] == [
            ("q", "expiry", "its ad expired at 2005-10-03T15:09:42Z")
        ]


def test_a_time_of_another_zone_is_the_same_time() -> None:
    at = datetime(2005, 10, 3, 17, 5, tzinfo=timezone(timedelta(hours=2)))
    assert broker.choose(parse_ad("[ Rank = 1 ]"), [parse_ad(WRAPPED)], at=at).chosen is not None


def test_by_default_it_is_now() -> None:
    assert broker.choose(parse_ad("[ Rank = 1 ]"), [parse_ad(WRAPPED)]).chosen is None


@pytest.mark.parametrize(
    "times", ["", "update_time = 1;", "expiry_time = 1;", 'update_time = "1"; expiry_time = 1;',
              "update_time = 1e300; expiry_time = 1;"]
)  # fmt: skip
def test_an_ad_without_both_times_does_not_expire(times: str) -> None:
    ads = [parse_ad(f'[ {times} CEid = "q" ]')]
    assert broker.choose(parse_ad("[ Rank = 1 ]"), ads).chosen is not None


def test_an_expired_ad_is_not_asked_anything() -> None:
    found = broker.choose(parse_ad("[ Requirements = false ]"), [parse_ad(WRAPPED)])
    assert [r.by for r in found.refused] == ["expiry"]


# --- the examples ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def examples() -> Selection:
    job = parse_ad((EXAMPLES / "job.jdl").read_text())
    ads = glue.read_ldif(EXAMPLES / "site.ldif").computing_elements()
    ads += read_ads(EXAMPLES / "atlfarm006.ad")
    return broker.choose(job, ads, at=AT)


def test_the_examples_ranking(examples: Selection) -> None:
    assert [(c.name, c.rank) for c in examples.ranked] == [
        ("ce01.cnaf.grid:8443/cream-slurm-egee", 212.0),
        ("ce2.lyon.grid:8443/cream-slurm-grid", 96.0),
        ("ce01.cnaf.grid:8443/cream-slurm-long/EGEE", 40.0),
        ("ce.lyon.grid:2119/jobmanager-sge-long", 25.0),
        ("atlfarm006.mi.infn.it:2119/blah-pbs-long", 1.0),
    ]


def test_every_refusal_has_the_clause_that_refused(examples: Selection) -> None:
    assert len(examples.refused) == 15
    for refused in examples.refused:
        assert refused.by in ("job", "resource")
        assert refused.clause is not None
        assert refused.clause.value is not True
        if str(refused.clause.expression) == "AuthorizationCheck":
            assert refused.reason.startswith("it refuses the job: no rule of access covers the job")
        else:
            assert refused.reason.endswith(str(refused.clause))


def test_what_a_job_asks_too_much_of_is_told_in_words() -> None:
    queue = parse_ad('[ CEid = "q"; MaxCpusPerNode = 4; MaxMemoryPerNode = 9000 ]')
    for asked, fact in [
        ("RequestCpus = 8", "RequestCpus = 8, MaxCpusPerNode = 4"),
        ("RequestMemory = 9500", "RequestMemory = 9500, MaxMemoryPerNode = 9000"),
    ]:
        [refused] = broker.choose(parse_ad(f"[ {asked}; Rank = 1 ]"), [queue]).refused
        said = "the broker refuses: the job asks for more on a node than the queue allows"
        assert refused.reason == f"{said} ({fact})"


def test_a_reason_names_nothing_that_a_user_cannot_set() -> None:
    site = glue.read_ldif("examples/providers/cream-glue1.ldif")
    job = parse_ad('[ FQAN = "/zulu"; Rank = 1 ]')
    for refused in broker.choose(job, site).refused:
        assert "no rule of access covers the job" in refused.reason
        assert "IgnoreAccess" not in refused.reason


def test_the_brokers_own_conditions_are_told_in_words() -> None:
    queue = """[ CEid = "q"; GlueCEAccessControlBaseRule = { "VO:cms", "DENY:/cms/Role=bad" };
        GlueCEPolicyMaxTotalJobs = 4; GlueCEStateRunningJobs = 2; GlueCEStateWaitingJobs = 2 ]"""
    said = {}
    for vo, fqan in (("lhcb", "/lhcb"), ("cms", "/cms/Role=bad"), ("cms", "/cms")):
        job = parse_ad(f'[ VirtualOrganisation = "{vo}"; FQAN = "{fqan}"; Rank = 1 ]')
        [refused] = broker.choose(job, [parse_ad(queue)]).refused
        assert refused.by == "broker"
        said[fqan] = refused.reason
    rules = 'GlueCEAccessControlBaseRule = {"VO:cms", "DENY:/cms/Role=bad"}, AccessAlso = undefined'
    assert said == {
        "/lhcb": f"the broker refuses: no rule of access covers the job ({rules},"
        ' CertificateSubject = undefined, VirtualOrganisation = "lhcb", FQAN = "/lhcb")',
        "/cms/Role=bad": f"the broker refuses: a rule of access denies the job ({rules},"
        ' CertificateSubject = undefined, VirtualOrganisation = "cms", FQAN = "/cms/Role=bad")',
        "/cms": "the broker refuses: the queue has as many jobs as it takes"
        " (GlueCEPolicyMaxTotalJobs = 4, GlueCEStateRunningJobs = 2, GlueCEStateWaitingJobs = 2)",
    }


def test_some_examples_are_refused_for_each_of_the_talks_reasons(examples: Selection) -> None:
    by_name = {refused.name: refused for refused in examples.refused}
    drain = by_name["ce.ral.grid:2119/jobmanager-pbs-drain"]
    assert drain.reason == (
        'the job refuses: other.GlueCEStateStatus == "Production" is false'
        ' (GlueCEStateStatus = "Draining")'
    )
    assert by_name["ce02.cnaf.grid:2119/jobmanager-lsf-cms"].by == "resource"


def test_a_snapshot_can_be_given_as_it_is() -> None:
    job = parse_ad((EXAMPLES / "job.jdl").read_text())
    found = broker.choose(job, glue.read_ldif(EXAMPLES / "site.ldif"))
    assert found.chosen is not None
    assert found.chosen.name == "ce01.cnaf.grid:8443/cream-slurm-egee"


MEMORY = "GlueHostMainMemoryRAMSize"
ROUTED = parse_ad(f"[ Requirements = other.Up && other.{MEMORY} >= 2000; Rank = other.FreeCPUs ]")
ROUTES = list(
    parse_ads("""
[ CEid = "a"; Up = true; FreeCPUs = 3 ] [ CEid = "b"; Up = true; FreeCPUs = 9; LRMSType = "PBS" ]
[ CEid = "c"; Up = false; FreeCPUs = 99 ]
""")
)
NODES = tuple(parse_ads(f'[ Name = "n1"; {MEMORY} = 1000 ] [ Name = "n2"; {MEMORY} = 4000 ]'))
# Where no queue says what it knows of its hosts, all of them may do.
OPEN = parse_ad(f"[ Requirements = other.Up && other.{MEMORY} isnt 7; Rank = other.FreeCPUs ]")


def test_a_route_is_the_answers_of_the_parts() -> None:
    hosts = broker.Hosts(nodes=NODES, mapping=batch.load_mapping("slurm"))
    found = broker.route(ROUTED, ROUTES, hosts, queue="a")
    reduction = reduce(ROUTED, ROUTES[0], glue.scope)
    assert found == broker.Route(
        queue=broker.Queue("a", ROUTES[0]),
        reduction=reduction,
        nodes=nodes.choose(ROUTED, NODES, reduction.residual),
        submission=batch.flags(reduction, "slurm", inventory=NODES),
    )
    assert [node.name for node in found.nodes.ranked] == ["n2"]  # type: ignore[union-attr]


def test_a_route_leaves_out_nodes_that_take_no_jobs_now() -> None:
    down = ClassAd(NODES[1], Available=False)
    found = broker.route(ROUTED, ROUTES, broker.Hosts(nodes=[*NODES[:1], down]), queue="a")
    assert found.nodes is not None
    assert found.nodes.chosen is None
    assert "Available = false" in found.nodes.refused[1].reason


def test_a_route_takes_the_best_queue() -> None:
    selection = broker.choose(OPEN, ROUTES)
    for queues in (ROUTES, broker.pool(ROUTES)):
        found = broker.route(OPEN, queues)
        assert found.selection == selection
        assert (found.queue, found.nodes, found.submission) == (
            broker.Queue("b", ROUTES[1]),
            None,
            None,
        )
        assert str(found.reduction.residual) == f"other.{MEMORY} =!= 7"  # type: ignore[union-attr]


def test_a_route_ends_where_a_question_has_no_answer() -> None:
    slurm = broker.Hosts(mapping=batch.load_mapping("slurm"), nodes=NODES)
    nowhere = broker.route(parse_ad("[ Requirements = false ]"), ROUTES, slurm)
    assert nowhere == broker.Route(selection=nowhere.selection)
    volatile = parse_ad(f"[ Requirements = eval(other.{MEMORY}) isnt 7 ]")
    irreducible = broker.route(volatile, ROUTES, slurm, queue="a")
    assert isinstance(irreducible.failure, ReductionError)
    assert (irreducible.reduction, irreducible.nodes, irreducible.submission) == (None, None, None)
    elsewhere = broker.route(OPEN, ROUTES, slurm)
    assert str(elsewhere.failure) == "b is run by PBS, not by slurm; name another queue"
    assert elsewhere.submission is None
    large = parse_ad(f"[ Requirements = other.{MEMORY} > 9999 ]")
    homeless = broker.route(large, ROUTES, slurm, queue="a")
    assert homeless.nodes is not None
    assert homeless.nodes.chosen is None
    assert isinstance(homeless.failure, batch.NoHostError)


def test_blah_stands_before_every_batch_system() -> None:
    hosts = broker.Hosts(mapping=batch.load_mapping("blah"))
    assert broker.route(OPEN, ROUTES, hosts, queue="b").failure is None


@pytest.mark.parametrize("queues", [ROUTES, broker.pool(ROUTES)], ids=["ads", "pool"])
def test_a_route_over_a_queue_that_there_is_not(queues: list[ClassAd] | Pool) -> None:
    with pytest.raises(ValueError, match="no queue is named z"):
        broker.route(ROUTED, queues, queue="z")


def test_queues_of_several_sources_are_merged() -> None:
    site = glue.read_ldif(EXAMPLES / "site.ldif")
    found = broker.merged([("site", site), ("again", site), ("ads", ROUTES)])
    assert [queue.name for queue in found.all] == [
        name for name, _ in broker.named([*site.computing_elements(), *ROUTES])
    ]
    assert {queue.source for queue in found.all} == {"site", "ads"}
    again = [issue for source, issue in found.issues if source == "again"]
    assert sum(issue.rule == "source.duplicate" for issue in again) == len(found.all) - 3
    assert found.records == site.snapshot
    assert found.whole
    with pytest.raises(ValueError, match="empty: no entry of a GLUE information system"):
        broker.merged([("empty", glue.read(BytesIO(b"dn: o=grid\n")))])
    with pytest.raises(ValueError, match="empty: no ad of a queue"):
        broker.merged([("empty", [])])


def test_no_further_source_opens_a_queue() -> None:
    def queue(name: str, *rules: str) -> ClassAd:
        own = {RULES: list[Any](rules)} if rules else {}
        return ClassAd({"CEid": name, "GlueCEUniqueID": "q", **own})

    def merged(*sources: list[ClassAd]) -> dict[str, list[Value]]:
        found = broker.merged([(f"s{n}", ads) for n, ads in enumerate(sources)])
        return {each.name: required(of_ad(each.ad)) for each in found.all}

    narrow, wide = queue("q", "VO:cms", "DENY:/cms/Role=bad"), queue("q", "VO:cms", "VO:atlas")
    [one] = required(of_ad(narrow))
    [other] = required(of_ad(wide))
    assert merged([narrow], [wide]) == {"q": [one, other]}
    assert merged([wide], [narrow]) == merged([wide, narrow]) == {"q": [other, one]}
    assert merged([narrow], [narrow]) == {"q": [one]}
    assert merged([queue("q")], [narrow]) == merged([narrow], [queue("q")]) == {"q": [one]}
    closed = ClassAd({"CEid": "q", "GlueCEUniqueID": "q", RULES: []})
    assert merged([queue("q")], [closed]) == merged([closed], [queue("q")]) == {"q": [[]]}
    assert merged([queue("q")], [queue("q")]) == {"q": []}
    # A view is of the queue that another source describes without it.
    view = queue("q/v", "VO:atlas", "VO:lhcb")
    [third] = required(of_ad(view))
    assert merged([narrow], [view]) == {"q": [one, third], "q/v": [third, one]}
    assert merged([narrow, view], [narrow, view]) == {"q": [one], "q/v": [third]}
    # Of the views of another source one must admit.
    some = merged([narrow], [queue("q/w", "VO:cms"), view])
    assert some["q"] == [one, [[["VO:cms"]], [third]]]
    found = broker.merged([("one", [narrow]), ("other", [wide])])
    assert [(s, i.rule) for s, i in found.issues] == [
        ("other", "access.conflict"), ("other", "source.duplicate"),
    ]  # fmt: skip


def test_the_records_of_no_further_source_open_a_queue() -> None:
    text = "dn: GlueCEUniqueID=q,o=grid\nobjectClass: GlueCE\nGlueCEAccessControlBaseRule: VO:cms\n"
    one, other = (
        glue.read(BytesIO((text + more).encode())) for more in ("", f"{RULES}: VO:atlas\n")
    )
    lists: list[Value] = [["VO:cms"], ["VO:cms", "VO:atlas"]]
    for sources in ([("a", one), ("b", other)], [("a", other), ("b", one)]):
        found = broker.merged(sources)
        assert [required(ce.values) for ce in found.records.computing_elements] == [lists]
        assert [required(of_ad(ad)) for ad in found] == [lists]
        lists.reverse()


def test_the_talks_ce_refuses_another_organisation() -> None:
    job = parse_ad('[ VirtualOrganisation = "cms"; CertificateSubject = "/CN=Ana"; Rank = 1 ]')
    found = broker.choose(job, read_ads(EXAMPLES / "atlfarm006.ad"), at=AT)
    assert [refused.by for refused in found.refused] == ["resource"]
    assert "AuthorizationCheck is false" in found.refused[0].reason
