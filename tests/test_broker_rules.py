"""The gLite broker's own rules: access, limits, gang matching, ties by lot, queues tried before."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import (
    ClassAd,
    ParseError,
    batch,
    broker,
    glue,
    match,
    parse_ad,
    parse_ads,
    parse_expr,
)
from matchmaker._limits import UNCACHED_POOL
from matchmaker.broker import Rules, choosing
from matchmaker.matching import snapshot as snapshots
from matchmaker.matching.columns.masks import MatchDecision
from matchmaker.matching.ranking import rank_number
from matchmaker.matching.selection import Selection
from matchmaker.matching.snapshot import Snapshot

RULES = "GlueCEAccessControlBaseRule"
ANY = "Requirements = true; Rank = 0"


def refusals(found: Selection) -> list[tuple[str, str]]:
    return [(refusal.name, refusal.by) for refusal in found.refused]


@pytest.mark.parametrize(
    ("who", "admits"),
    [
        ('VirtualOrganisation = "cms"', {"vo", "open"}),
        ('VirtualOrganisation = "CMS"', {"vo", "open"}),
        ('CertificateSubject = "/C=IT/CN=Ada"', {"dn", "open"}),
        ('FQAN = "/cms/Role=pilot/Capability=NULL"', {"vo", "pilots", "group", "open"}),
        ('FQAN = "/cms"', {"vo", "group", "open", "denied"}),
        ('FQAN = "/atlas"; VirtualOrganisation = "atlas"', {"open"}),
        ("", {"open"}),
    ],
)
def test_access(who: str, admits: set[str]) -> None:
    queues = f"""
    [ CEid = "vo"; {RULES} = {{ "VO:cms" }} ]
    [ CEid = "dn"; {RULES} = {{ "VO:none", "/C=IT/CN=Ada" }} ]
    [ CEid = "pilots"; {RULES} = {{ "VOMS:/cms/Role=pilot" }} ]
    [ CEid = "group"; {RULES} = {{ "VOMS:/cms/*" }} ]
    [ CEid = "denied"; {RULES} = {{ "VOMS:/cms/*", "DENY:/cms/Role=pilot" }} ]
    [ CEid = "open" ]
    """
    job = parse_ad(f"[ {ANY}; {who} ]")
    found = broker.choose(job, parse_ads(queues))
    assert {candidate.name for candidate in found.ranked} == admits
    assert {by for _, by in refusals(found)} <= {"broker"}
    without = broker.choose(job, parse_ads(queues), rules=Rules(admission=()))
    assert len(without.ranked) == 6


@pytest.mark.parametrize(
    ("fqan", "admitted"),
    [
        ('"/cms"', True),
        ('{ "/cms", "/cms/it" }', True),
        ('{ "/cms", "/cms/Role=bad" }', False),
        ("{ }", True),
        ('{ "/cms", 5 }', False),
        ("5", False),
        ("undefined", True),
    ],
)
def test_any_role_of_a_list_is_denied(fqan: str, admitted: bool) -> None:
    queue = parse_ad(f'[ CEid = "q"; {RULES} = {{ "VO:cms", "DENY:/cms/Role=bad" }} ]')
    job = parse_ad(f'[ {ANY}; VirtualOrganisation = "cms"; FQAN = {fqan} ]')
    assert (broker.choose(job, [queue]).chosen is not None) is admitted


def test_a_queue_does_not_say_who_the_job_is() -> None:
    queue = parse_ad(f'[ CEid = "q"; {RULES} = {{ "VO:cms" }}; Mine = "cms"; FQAN = "/cms" ]')
    for text in ("other.Mine", "Mine", "TARGET.Mine"):
        job = parse_ad(f"[ {ANY}; VirtualOrganisation = {text} ]")
        assert broker.choose(job, [queue]).chosen is None
    job = parse_ad(f'[ {ANY}; Group = "cms"; VirtualOrganisation = MY.Group ]')
    assert broker.choose(job, [queue]).chosen is not None


HIDING = (
    f'other = [ {RULES} = {{ "VO:cms" }} ]',
    f'other = my; {RULES} = {{ "VO:cms" }}',
    'MY = [ VirtualOrganisation = "atlas" ]',
    'Target = other; my = other; other = [ VirtualOrganisation = "atlas" ]',
    "other = 1; parent = other; self = my",
)


GUARDED = f"""
[ CEid = "theirs"; {RULES} = {{ "VO:atlas", "VOMS:/cms/Role=pilot" }} ]
[ CEid = "denied"; {RULES} = {{ "VO:cms", "DENY:VO:cms" }} ]
[ CEid = "ours"; {RULES} = {{ "VO:cms" }} ] [ CEid = "open" ] [ CEid = "closed"; {RULES} = {{}} ]
[ CEid = "full"; GlueCEPolicyMaxTotalJobs = 1; GlueCEStateRunningJobs = 1;
  GlueCEStateWaitingJobs = 0 ]
"""
HELD = st.sampled_from(
    ["1", "undefined", "error", "my", "other", "target", "parent", "self.other", f"MY.{RULES}",
     f'[ {RULES} = {{ "ALL" }} ]', '[ VirtualOrganisation = "atlas" ]', "[ GlueCEId = 1 ]",
     "[ GlueCEPolicyMaxTotalJobs = 0 ]", '[ FQAN = "/cms/Role=pilot" ]', "[ other = parent ]"]
)  # fmt: skip
NAMED = st.sampled_from(
    ["my", "MY", "self", "other", "Other", "target", "TARGET", "parent", "root", "toplevel",
     RULES, "GlueCEPolicyMaxTotalJobs"]
)  # fmt: skip


@given(st.dictionaries(NAMED, HELD, max_size=4))
def test_no_attribute_beside_who_it_is_opens_a_queue_to_a_job(beside: dict[str, str]) -> None:
    held = "; ".join(f"{name} = {value}" for name, value in beside.items())
    who = f'VirtualOrganisation = "cms"; FQAN = "/cms"; {ANY}'
    found = broker.choose(parse_ad(f"[ {who}; {held} ]"), parse_ads(GUARDED))
    assert sorted(candidate.name for candidate in found.ranked) == ["open", "ours"]


@pytest.mark.parametrize("hidden", HIDING)
def test_a_job_hides_no_queue_from_the_broker(hidden: str) -> None:
    texts = (
        f'[ CEid = "theirs"; {RULES} = {{ "VO:atlas" }} ]',
        f'[ CEid = "denied"; {RULES} = {{ "VO:cms", "DENY:VO:cms" }} ]',
        f'[ CEid = "ours"; {RULES} = {{ "VO:cms" }} ]',
    )
    job = parse_ad(f'[ VirtualOrganisation = "cms"; {ANY}; {hidden} ]')
    queues = [parse_ad(text) for text in texts]
    found = broker.choose(job, queues)
    assert [candidate.name for candidate in found.ranked] == ["ours"]
    assert [(each.by, each.clause is not None) for each in found.refused] == [("broker", True)] * 2
    assert [each.names for each in broker.choose_many([job], queues)] == [("ours",)]


@pytest.mark.parametrize("fuzzy", [-1, 0, 0.0, float("nan"), float("inf"), "1", True])
def test_a_factor_that_is_none(fuzzy: float) -> None:
    with pytest.raises((ValueError, TypeError), match="fuzzy is a number above 0"):
        Rules(fuzzy=fuzzy)


def test_what_is_given_in_the_place_of_ads() -> None:
    job, queue = parse_ad("[]"), parse_ad('[ CEid = "q" ]')
    for ask in (
        lambda: broker.choose("[]", [queue]),  # type: ignore[arg-type]
        lambda: broker.choose(job, queue),  # type: ignore[arg-type]
        lambda: broker.choose(job, "site.ldif"),  # type: ignore[arg-type]
        lambda: broker.choose(job, [1]),  # type: ignore[list-item]
        lambda: broker.pool(queue),  # type: ignore[arg-type]
        lambda: list(broker.choose_many(job, [queue])),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match=r"(an ad was|several ads were) expected"):
            ask()
    with pytest.raises(TypeError, match="tried takes several texts"):
        Rules(tried="ce1")
    with pytest.raises(TypeError, match="admission takes several texts"):
        Rules(admission="true")


def test_a_selection_is_shown_without_being_worked_out() -> None:
    found = broker.choose(parse_ad(f"[ {ANY} ]"), [parse_ad('[ CEid = "q" ]')])
    assert repr(found.refused) == "<0, each made when it is asked for>"


def test_limits_of_jobs() -> None:
    queues = """
    [ CEid = "full"; GlueCEPolicyMaxTotalJobs = 9;
      GlueCEStateRunningJobs = 7; GlueCEStateWaitingJobs = 2 ]
    [ CEid = "room"; GlueCEPolicyMaxTotalJobs = 9;
      GlueCEStateRunningJobs = 6; GlueCEStateWaitingJobs = 2 ]
    [ CEid = "nolimit"; GlueCEPolicyMaxTotalJobs = 0;
      GlueCEStateRunningJobs = 6; GlueCEStateWaitingJobs = 2 ]
    [ CEid = "unknown"; GlueCEPolicyMaxTotalJobs = 9; GlueCEStateRunningJobs = 6 ]
    """
    found = broker.choose(parse_ad(f"[ {ANY} ]"), parse_ads(queues))
    assert refusals(found) == [("full", "broker")]
    assert "GlueCEStateRunningJobs" in found.refused[0].reason


def test_defaults_want_production_where_a_status_is_told() -> None:
    queues = """
    [ CEid = "drains"; GlueCEStateStatus = "Draining"; GlueCEStateEstimatedResponseTime = 1 ]
    [ CEid = "works"; GlueCEStateStatus = "production"; GlueCEStateEstimatedResponseTime = 2 ]
    [ CEid = "silent"; GlueCEStateEstimatedResponseTime = 3 ]
    """
    found = broker.choose(parse_ad("[]"), parse_ads(queues))
    assert [candidate.name for candidate in found.ranked] == ["works", "silent"]
    # A job that asks for something else is not corrected.
    found = broker.choose(parse_ad("[ Requirements = true ]"), parse_ads(queues))
    assert found.chosen is not None
    assert found.chosen.name == "drains"


def test_one_way() -> None:
    queues = '[ CEid = "shy"; Requirements = false ] [ CEid = "b"; Requirements = true ]'
    job = parse_ad(f"[ {ANY} ]")
    assert refusals(broker.choose(job, parse_ads(queues))) == [("shy", "resource")]
    rules = Rules(both_ways=False)
    assert refusals(broker.choose(job, parse_ads(queues), rules=rules)) == []
    (choice,) = broker.choose_many([job], broker.pool(parse_ads(queues)), rules=rules)
    assert choice.names == ("b", "shy")


def test_queues_tried_before_come_last() -> None:
    queues = "".join(f'[ CEid = "{name}"; F = {rank} ]' for rank, name in enumerate("abcd"))
    job = parse_ad("[ Requirements = true; Rank = other.F ]")
    found = broker.choose(job, parse_ads(queues), rules=Rules(tried=("d", "a", "nothere")))
    assert [candidate.name for candidate in found.ranked] == ["c", "b", "d", "a"]


def test_gang_matching_with_storage() -> None:
    queues = """
    [ CEid = "near"; storage = [ CloseSEs = { [ name = "se1"; free = 500 ] } ] ]
    [ CEid = "small"; storage = [ CloseSEs = { [ name = "se2"; free = 5 ] } ] ]
    [ CEid = "none" ]
    """
    job = parse_ad("""[ Need = 100; Rank = 0;
        Requirements = anyMatch(other.storage.CloseSEs, target.free > MY.Need) ]""")
    found = broker.choose(job, parse_ads(queues))
    assert [candidate.name for candidate in found.ranked] == ["near"]
    (choice,) = broker.choose_many([job], broker.pool(parse_ads(queues)))
    assert choice.names == ("near",)


def test_by_lot_better_ranks_come_sooner_and_a_seed_gives_the_same_again() -> None:
    queues = list(parse_ads("".join(f'[ CEid = "{n}"; F = {n} ]' for n in range(6))))
    job = parse_ad("[ Requirements = true; Rank = other.F ]")
    rules = Rules(fuzzy=1.0)

    def order(seed: int) -> list[str]:
        found = broker.choose(job, queues, tie=random.Random(seed), rules=rules)
        return [candidate.name for candidate in found.ranked]

    assert order(5) == order(5)
    firsts = Counter(order(seed)[0] for seed in range(200))
    assert firsts["5"] > firsts["1"]
    assert len(firsts) > 2
    assert sorted(order(1)) == [str(n) for n in range(6)]


def test_a_condition_of_the_broker_that_is_none() -> None:
    with pytest.raises(ParseError):
        broker.choose(parse_ad("[]"), [], rules=Rules(admission=("other. >",)))


# --- one semantics, whichever way it is asked -----------------------------------------------------

numbers = st.integers(0, 3)
queue_texts = st.builds(
    lambda number, full, vo, rank, more: (
        f'[ CEid = "q{number}"; F = {rank}; GlueCEPolicyMaxTotalJobs = {full};'
        f' GlueCEStateRunningJobs = 1; GlueCEStateWaitingJobs = 1; {RULES} = {{ "VO:{vo}" }};'
        f' Requirements = other.Size < {number + 1} {more} ]'
    ),
    st.integers(0, 30), numbers, st.sampled_from(["a", "b"]),
    st.sampled_from(["0", "1", "2.5", "undefined", '"x"', "true", 'real("NaN")']),
    st.sampled_from(["", "&& other.Requirements isnt 1", '&& other.VirtualOrganisation is "a"',
                     "; update_time = 0; expiry_time = 50", '; BrokerName = "b"',
                     "; update_time = 0; expiry_time = 5"]),
)  # fmt: skip
job_texts = st.builds(
    lambda vo, size, rank, more: (
        f"[ VirtualOrganisation = {vo}; Size = {size}; Rank = {rank};"
        f" Requirements = other.F isnt {size} {more} ]"
    ),
    st.sampled_from(['"a"', '"b"', "other.Vo", 'ifThenElse(other.F is undefined, "a", "b")']),
    numbers,
    st.sampled_from(["other.F", "-other.F", "1", "other.Requirements", "MY.Requirements"]),
    st.sampled_from(["", "&& MY.Requirements", "|| other.BrokerName is undefined",
                     '&& other.BrokerName isnt "b"', "&& other.Requirements",
                     "&& anyMatch({[ a = 1 ]}, target.a == MY.Size)",
                     "; MY = [ Size = 2 ]", '; FQAN = { "/a" }']),
)  # fmt: skip
queue_lists = st.lists(queue_texts, max_size=20, unique_by=lambda text: text.split('"')[1])
AT = datetime.fromtimestamp(20, tz=UTC)
CONDITIONS = (*broker.ADMISSION, "MY.Requirements || other.F isnt 0")


def by_pairs(
    job: ClassAd, queues: list[ClassAd], rules: Rules
) -> tuple[list[tuple[str, float]], dict[str, str]]:
    """What the broker decides, pair by pair: who is ranked how, and who refuses."""
    asking = job.copy()
    for name in choosing.IDENTITY:
        if name in asking:
            asking[name] = job.eval(name)
    ranked: list[tuple[str, float]] = []
    refused: dict[str, str] = {}
    for queue in queues:
        name = str(queue.eval("CEid"))
        end = glue.expires(queue)
        found = match(asking, queue)
        conditions = [parse_expr(text).eval(asking, queue) for text in rules.admission]
        rank = rank_number(found.rank)
        if end is not None and end < AT:
            refused[name] = "expiry"
        elif found.left is not True:
            refused[name] = "job"
        elif rules.both_ways and found.right is not True:
            refused[name] = "resource"
        elif not all(value is True for value in conditions):
            refused[name] = "broker"
        elif rank is None:
            refused[name] = "rank"
        else:
            ranked.append((name, rank))
    ranked.sort(key=lambda one: (-one[1], one[0]))
    return [one for name in ("", *rules.tried) for one in ranked
            if (one[0] == name if name else one[0] not in rules.tried)], refused  # fmt: skip


@pytest.mark.slow
@settings(deadline=None)
@given(queue_lists, st.lists(job_texts, max_size=4), st.booleans())
def test_by_columns_as_pair_by_pair(queues: list[str], jobs: list[str], both_ways: bool) -> None:
    rules = Rules(both_ways=both_ways, tried=("q1", "q2"), admission=CONDITIONS)
    ads = list(parse_ads("\n".join(queues)))
    asked = [parse_ad(job) for job in jobs]
    kept = broker.pool(ads)
    many = list(broker.choose_many(asked, kept, rules=rules, at=AT))
    for job, choice in zip(asked, many, strict=True):
        ranked, refused = by_pairs(job, ads, rules)
        for given_as in (ads, kept):
            found = broker.choose(job, given_as, at=AT, rules=rules)
            assert [(one.name, one.rank) for one in found.ranked] == ranked
            assert {one.name: one.by for one in found.refused} == refused
            assert all(one.clause is None or one.clause.value is not True for one in found.refused)
            assert [one.ad for one in found.ranked] == [kept[one.name] for one in found.ranked]
        assert list(zip(choice.names, choice.ranks, strict=True)) == ranked
        assert set(choice.unranked) == {name for name, by in refused.items() if by == "rank"}


elements = st.lists(
    st.sampled_from([
        "[ free = 2 ]", "[ free = Need ]", "[ free = TARGET.Need ]", "[ k = 3; free = k ]",
        "[ free = n ]", "[ n = 1; free = MY.n + TARGET.n ]", "[ ]", "5", "[ free = F ]",
        "[ more = { [ b = 2 ] } ]",
    ]),
    max_size=3,
).map(", ".join)  # fmt: skip
stores = st.builds(
    lambda inside, n, more: f"n = {n}; storage = [ {more} CloseSEs = {{ {inside} }} ]",
    elements, numbers, st.sampled_from(["", "k = 2;", "Need = 9;"]),
)  # fmt: skip
gangs = st.sampled_from(
    [
        "anyMatch(other.storage.CloseSEs, target.free > MY.Need)",
        "anyMatch(other.storage.CloseSEs, free > Need)",
        "allMatch(other.storage.CloseSEs, other.free >= n)",
        "whichMatch(other.storage.CloseSEs, target.free > 1)[0].free is 2",
        "anyMatch(other.storage.CloseSEs, anyMatch(target.more, target.b == MY.Need))",
        "size(whichMatch(storage.CloseSEs, target.free < Need)) > 0",
        "anyMatch(other.storage.CloseSEs, target.free == other.n)",
        "anyMatch(near, target.free > MY.Need)",
    ]
)


@settings(deadline=None)
@given(
    st.lists(stores, min_size=1, max_size=6), gangs, numbers,
    st.sampled_from(["", "n = 1;", "F = other.n;", "near = other.storage.CloseSEs;"]),
    st.sampled_from(["true", "anyMatch(storage.CloseSEs, target.free > other.Need)"]),
)  # fmt: skip
def test_gang_matching_by_columns(
    held: list[str], gang: str, need: int, own: str, theirs: str
) -> None:
    ads = [
        parse_ad(f'[ CEid = "q{number}"; {held[number % len(held)]}; Requirements = {theirs} ]')
        for number in range(20)
    ]
    job = parse_ad(f"[ Need = {need}; {own} Requirements = {gang}; Rank = size({gang}) ?: 0 ]")
    rules = Rules(admission=())
    ranked, refused = by_pairs(job, ads, rules)
    found = broker.choose(job, broker.pool(ads), at=AT, rules=rules)
    assert [(one.name, one.rank) for one in found.ranked] == ranked
    assert {one.name: one.by for one in found.refused} == refused


def test_gang_matching_is_for_each_distinct_list() -> None:
    ads = [
        parse_ad(f'[ CEid = "q{number}"; storage = [ free = {{ [ free = {number % 3} ] }} ] ]')
        for number in range(300)
    ]
    plan = broker.pool(ads).plan("anyMatch(other.storage.free, target.free > 1)")
    assert plan.steps[0].way == "by value"
    assert plan.steps[0].count <= 4


def test_a_job_without_a_rank_takes_a_queue_without_a_response_time_last() -> None:
    queues = [parse_ad(f"[ CEid = {ad} ]") for ad in (
        '"told"; GlueCEStateEstimatedResponseTime = 90000', '"silent"',
        '"wrong"; GlueCEStateEstimatedResponseTime = "soon"',
    )]  # fmt: skip
    found = broker.choose(parse_ad("[ ]"), queues)
    assert [one.name for one in found.ranked] == ["told", "silent"]
    assert [one.name for one in found.refused] == ["wrong"]
    own = parse_ad("[ Rank = -other.GlueCEStateEstimatedResponseTime ]")
    assert [one.name for one in broker.choose(own, queues).ranked] == ["told"]


# --- queues of nodes ------------------------------------------------------------------------------

NODES = """
[ Name = "wn1"; Machine = "wn1"; LRMSType = "slurm"; Cpus = 4; FreeCpus = 3; Available = true;
  GlueHostMainMemoryRAMSize = 2000; Queues = { "gpu", "main" } ]
[ Name = "wn2"; Machine = "wn2"; LRMSType = "slurm"; Cpus = 8; FreeCpus = 8; Available = false;
  GlueHostMainMemoryRAMSize = 8000; Queues = { "main" } ]
[ Name = "wn3"; Machine = "wn3"; Cpus = 2; GlueHostMainMemoryRAMSize = 9000; Queues = { } ]
"""
BIG = "[ Requirements = other.GlueHostMainMemoryRAMSize >= 4000; Rank = other.P ?: 0 ]"


def hosts(nodes: str = NODES) -> broker.Hosts:
    return broker.Hosts(nodes=list(parse_ads(nodes)), mapping=batch.load_mapping("slurm"))


def test_queues_are_made_of_what_nodes_list() -> None:
    gpu, main = broker.of_nodes(parse_ads(NODES))
    assert (gpu.eval("QueueName"), main.eval("QueueName")) == ("gpu", "main")
    assert main.eval("GlueCEInfoTotalCPUs") == 12
    assert main.eval("GlueCEStateFreeCPUs") == 3, "a node that takes no jobs has none free"
    assert main.eval("LRMSType") == "slurm"


def test_a_queue_matches_by_its_nodes_and_flags_are_for_these_alone() -> None:
    known = hosts()
    found = broker.route(parse_ad(BIG), broker.of_nodes(known.nodes or ()), known)
    assert found.queue is not None
    assert found.queue.name == "main"
    assert found.nodes is not None
    assert found.submission is not None
    assert [each.name for each in found.nodes.refused] == ["wn1", "wn2"], "wn3 is of no queue"
    certificate = found.submission.certificate
    assert certificate is not None
    assert (certificate.nodes, certificate.accepted) == (2, 1)
    assert found.selection is not None
    assert [refusal.name for refusal in found.selection.refused] == ["gpu"]
    # The only node that will do takes no jobs, and nobody knows whether it will.
    assert found.submission.waits
    assert str(found.submission.verdict) == "necessary"
    assert found.submission.dropped[-1].reason == "no node that will do takes jobs now: wn2"
    back = hosts(NODES.replace("Available = false", "Available = true"))
    again = broker.route(parse_ad(BIG), broker.of_nodes(back.nodes or ()), back).submission
    assert again is not None
    assert (str(again.verdict), again.waits) == ("exact", False)


def test_flags_for_a_named_queue_do_not_count_the_nodes_of_others() -> None:
    known = hosts()
    found = broker.route(parse_ad(BIG), broker.of_nodes(known.nodes or ()), known, queue="gpu")
    assert isinstance(found.failure, batch.NoHostError)
    assert found.submission is None


def test_a_queue_without_nodes_is_no_place_for_a_job() -> None:
    queue = parse_ad('[ Name = "q"; QueueName = "empty"; GlueHostMainMemoryRAMSize = 9000 ]')
    found = broker.route(parse_ad(BIG), [queue], hosts())
    assert isinstance(found.failure, batch.NoHostError)
    assert "none of the 3 worker nodes is of the queue empty" in str(found.failure)
    assert "gpu, main" in str(found.failure)


def test_a_better_queue_is_passed_over_if_none_of_its_nodes_will_do() -> None:
    """What a queue publishes of its hosts may be too much: the nodes decide."""
    queues = parse_ads(
        '[ Name = "gpu"; QueueName = "gpu"; P = 9; GlueHostMainMemoryRAMSize = 64000 ]'
        '[ Name = "main"; QueueName = "main"; P = 1; GlueHostMainMemoryRAMSize = 64000 ]'
    )
    found = broker.route(parse_ad(BIG), queues, hosts())
    assert found.queue is not None
    assert found.queue.name == "main"
    assert [name for name, _ in found.passed_over] == ["gpu"]
    assert "no node of the inventory will do" in found.passed_over[0][1]


def test_nodes_without_queues_may_be_of_any() -> None:
    nodes = NODES.replace("Queues", "Others")
    queue = parse_ad('[ Name = "q"; QueueName = "q"; GlueHostMainMemoryRAMSize = 9000 ]')
    found = broker.route(parse_ad(BIG), [queue], hosts(nodes))
    assert found.submission is not None
    assert found.submission.certificate is not None
    assert found.submission.certificate.nodes == 3


def test_the_default_queue_comes_first_of_equals() -> None:
    queues = list(parse_ads(
        '[ Name = "a"; P = 1 ] [ Name = "z"; P = 1; IsDefault = true ] [ Name = "b"; P = 2 ]'
    ))  # fmt: skip
    job = parse_ad("[ Requirements = true; Rank = other.P ]")
    assert [each.name for each in broker.choose(job, queues).ranked] == ["b", "z", "a"]
    assert next(iter(broker.choose_many([job], broker.pool(queues)))).names == ("b", "z", "a")


# --- limits and states of queues ------------------------------------------------------------------

ALONE = """
[ Name = "wn1"; Cpus = 8; GlueHostMainMemoryRAMSize = 8000; GlueHostArchitectureSMPSize = 8;
  Queues = { "closed", "gpu", "main" }; QueueAds = {
    [ Name = "closed"; GlueCEStateStatus = "Draining" ],
    [ Name = "gpu"; GlueCEStateStatus = "Production"; GlueCEPolicyMaxWallClockTime = 600 ],
    [ Name = "main"; IsDefault = true; GlueCEStateStatus = "Production";
      GlueCEPolicyMaxWallClockTime = 60; MaxCpusPerNode = 4; MaxMemoryPerNode = 3000 ] } ]
"""


def sent(job: str, nodes: str = ALONE, table: str | None = None) -> str | None:
    """Where nodes alone send a job."""
    known = list(parse_ads(nodes))
    mapping = batch.load_mapping("slurm", table)
    found = broker.route(
        parse_ad(f"[ Requirements = true; {job} ]"), broker.of_nodes(known),
        broker.Hosts(nodes=known, mapping=mapping),
    )  # fmt: skip
    assert found.submission is None or str(found.submission.verdict) == "exact"
    return found.queue.name if found.queue is not None and found.submission is not None else None


def test_nodes_alone_tell_the_limits_and_the_default_of_their_queues() -> None:
    assert sent("") == "main", "the default, not the first by name"
    assert sent("MaxWallTime = 60; RequestCpus = 4; RequestMemory = 3000") == "main"
    assert sent("MaxWallTime = 61") == "gpu"
    assert sent("RequestCpus = 5") == "gpu"
    assert sent("RequestMemory = 3001") == "gpu"
    assert sent("MaxWallTime = 601") is None
    silent = ALONE.partition("QueueAds")[0] + "]"
    assert sent("", silent) == "closed", "nobody told"


@pytest.mark.parametrize(
    ("entry", "job", "queue"),
    [
        ("wall = { value = 'MY.Hours * 3600', flag = '--time={value}', unit = 60 }",
         "Hours = 2", "gpu"),
        ("Minutes = { flag = '--time={value}' }", "Minutes = 61", "gpu"),
        ("Minutes = { flag = '--time={value}' }", "Minutes = 601", None),
        ("Until = { kind = 'time', flag = '--time={value}', unit = 60 }",
         'Until = "02:00:00"', "gpu"),
        ("Until = { kind = 'text', pattern = '[0-9-]+', flag = '--time={value}' }",
         'Until = "0-2"', "gpu"),
        ("wall = {}\n[flags]\ntime = ['--time={wall:hms}', '--time=2:00:00']", "", "gpu"),
    ],
)  # fmt: skip
def test_a_time_counts_whatever_writes_it(
    tmp_path: Path, entry: str, job: str, queue: str | None
) -> None:
    path = tmp_path / "site.toml"
    path.write_text(f"[requests]\n{entry}\n")
    assert sent(job, table=str(path)) == queue


def test_a_time_that_nobody_can_read_is_not_exact(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(
        "[requests]\nLast = { kind = 'text', pattern = '[a-z]+', flag = '--time={value}' }"
    )
    known = list(parse_ads(ALONE))
    hosts = broker.Hosts(nodes=known, mapping=batch.load_mapping("slurm", path))
    job = parse_ad('[ Requirements = true; Last = "noon" ]')
    found = broker.route(job, broker.of_nodes(known), hosts, queue="main").submission
    assert found is not None
    assert str(found.verdict) == "necessary"
    said = "nobody can tell whether --time=noon is within the 60 minutes of the queue"
    assert found.dropped[-1].reason == said


def test_a_limit_is_none_of_what_hosts_have() -> None:
    """A host may have more memory than a queue gives a job."""
    known = list(parse_ads(ALONE))
    hosts = broker.Hosts(nodes=known, mapping=batch.load_mapping("slurm"))
    found = broker.route(parse_ad(BIG), broker.of_nodes(known), hosts, queue="main").submission
    assert found is not None
    assert (found.argv, str(found.verdict)) == (("--partition=main",), "exact")


def test_memory_brings_processors_where_each_has_a_limit() -> None:
    queue = parse_ad('[ Name = "q"; QueueName = "q"; MaxMemoryPerCpu = 500 ]')
    nodes = list(parse_ads(ALONE.partition("Queues")[0] + "]"))
    hosts = broker.Hosts(nodes=nodes, mapping=batch.load_mapping("slurm"))

    def taken(memory: int) -> bool:
        job = parse_ad(f"[ Requirements = true; RequestMemory = {memory} ]")
        return broker.route(job, [queue], hosts).submission is not None

    assert (taken(4000), taken(4001)) == (True, False), "of 8 processors"


def test_another_queue_is_tried_where_flags_find_a_limit(tmp_path: Path) -> None:
    """Also where nodes do not say which queue they are of, or nobody knows them."""
    path = tmp_path / "site.toml"
    path.write_text(
        "[requests]\nwall = { value = 'MY.Hours * 3600', flag = '--time={value}', unit = 60 }"
    )
    queues = list(parse_ads(
        '[ Name = "a"; QueueName = "a"; GlueCEPolicyMaxWallClockTime = 60 ]'
        '[ Name = "b"; QueueName = "b"; GlueCEPolicyMaxWallClockTime = 0 ]'
    ))  # fmt: skip
    hosts = broker.Hosts(mapping=batch.load_mapping("slurm", path))
    found = broker.route(parse_ad("[ Requirements = true; Hours = 2 ]"), queues, hosts)
    assert found.queue is not None
    assert found.queue.name == "b"
    [(name, why)] = found.passed_over
    assert name == "a"
    assert "more wall time than the queue allows" in why


@pytest.mark.parametrize("state", ["Draining", "Closed"])
def test_a_queue_that_takes_no_jobs_gets_none(state: str) -> None:
    own = parse_ad("[ Requirements = true ]")
    local = parse_ad(f'[ Name = "q"; QueueName = "q"; GlueCEStateStatus = "{state}" ]')
    [refusal] = broker.choose(own, [local]).refused
    assert "the batch system takes no jobs for the queue" in refusal.reason
    hosts = broker.Hosts(mapping=batch.load_mapping("slurm"))
    failure = broker.route(own, [local], hosts, queue="q").failure
    assert isinstance(failure, batch.NotTakenError)
    # Of a grid's queue the job decides; without requirements, gLite's default does.
    grids = ClassAd(local)
    grids["GlueCEUniqueID"] = "ce:2119/jobmanager-pbs-q"
    assert broker.choose(own, [grids]).chosen is not None
    assert broker.choose(parse_ad("[ ]"), [grids]).chosen is None
    # A partition that is DOWN takes jobs and runs none.
    waits = parse_ad('[ Name = "q"; QueueName = "q"; GlueCEStateStatus = "Queueing" ]')
    assert broker.choose(own, [waits]).chosen is not None


def test_a_queue_where_the_job_can_start_comes_before_one_where_it_waits() -> None:
    nodes = """
    [ Name = "a1"; Queues = { "a" }; Available = false; NodeState = "DOWN" ]
    [ Name = "b1"; Queues = { "b" }; Available = true ]"""
    known = list(parse_ads(nodes))
    hosts = broker.Hosts(nodes=known, mapping=batch.load_mapping("slurm"))
    job = parse_ad("[ Requirements = true ]")
    found = broker.route(job, broker.of_nodes(known), hosts)
    assert found.queue is not None
    assert found.queue.name == "b"
    assert found.passed_over == (("a", "no node that will do takes jobs now: a1 is DOWN"),)
    known = list(parse_ads(nodes.replace("true", "false")))
    found = broker.route(
        job, broker.of_nodes(known), broker.Hosts(nodes=known, mapping=hosts.mapping)
    )
    assert found.queue is not None
    assert (found.queue.name, found.passed_over) == ("a", ())
    assert found.submission is not None
    assert found.submission.waits
    sure = broker.Hosts(nodes=known, mapping=hosts.mapping, want=batch.Fit.SUFFICIENT)
    made = broker.route(job, broker.of_nodes(known), sure).submission
    assert made is not None
    assert str(made.verdict) == "sufficient"


# --- many jobs share the free slots --------------------------------------------------------------


PLAIN = parse_ad("[ Requirements = true; Rank = other.P ]")
SLOTS = parse_expr("GlueCEStateFreeJobSlots ?: GlueCEStateFreeCPUs")


def free(**queues: str) -> str:
    return " ".join(f'[ CEid = "{name}"; {held} ]' for name, held in queues.items())


def chosen(queues: str, jobs: list[ClassAd], rules: Rules | None = None) -> list[str | None]:
    found = broker.choose_many(jobs, parse_ads(queues), rules=rules or Rules())
    return [None if one.chosen is None else one.chosen + "?" * one.waits for one in found]


def test_no_slot_is_given_away_twice() -> None:
    """A broker with 200 jobs put 102 of them on a queue with 55 slots."""
    queues = free(
        best="P = 3; GlueCEStateFreeJobSlots = 55",
        next="P = 2; GlueCEStateFreeCPUs = 99",
        last="P = 1; GlueCEStateFreeCPUs = 100",
    )
    assert Counter(chosen(queues, [PLAIN] * 200)) == {"best": 55, "next": 99, "last": 46}
    assert set(chosen(queues, [PLAIN] * 200, Rules(free_slots=None))) == {"best"}


def test_a_job_takes_as_many_slots_as_it_has_processors() -> None:
    queues = free(a="P = 2; GlueCEStateFreeJobSlots = 5", b="P = 1; GlueCEStateFreeJobSlots = 4")
    texts = ("RequestCpus = 4", "CPUNumber = 4", "RequestCpus = 1 + 1", "RequestCpus = 1")
    jobs = [parse_ad(f"[ Requirements = true; Rank = other.P; {text} ]") for text in texts]
    assert chosen(queues, jobs) == ["a", "b", "a?", "a"]


def test_a_job_waits_for_the_best_queue_when_all_are_full_but_not_beyond_the_limit() -> None:
    limit = "GlueCEStateRunningJobs = 8; GlueCEStateWaitingJobs = 0; GlueCEPolicyMaxTotalJobs = 10"
    a = f"P = 2; GlueCEStateFreeJobSlots = 1; {limit}"
    assert chosen(free(a=a), [PLAIN] * 3) == ["a", "a?", None]
    queues = free(a=a, b="P = 1; GlueCEStateFreeCPUs = 0")
    assert chosen(queues, [PLAIN] * 4) == ["a", "a?", "b?", "b?"]
    unlimited = broker.choose_many([PLAIN] * 4, parse_ads(queues), rules=Rules(admission=()))
    assert [(one.chosen, one.waits, one.rank) for one in unlimited][1:] == [("a", True, 2.0)] * 3


def test_a_queue_starts_no_more_jobs_than_it_may_run() -> None:
    running = "GlueCEPolicyMaxRunningJobs = 5; GlueCEStateRunningJobs = 4"
    queues = free(
        a=f"P = 2; GlueCEStateFreeCPUs = 9; {running}",
        b="P = 1; GlueCEStateFreeCPUs = 9; GlueCEPolicyMaxRunningJobs = 0",
    )
    assert chosen(queues, [PLAIN] * 3) == ["a", "b", "b"]


def test_a_queue_that_does_not_tell_its_free_slots_has_room() -> None:
    queues = free(silent="P = 2", other="P = 1; GlueCEStateFreeCPUs = 9", odd='Mine = "x"; P = 3')
    mine = Rules(free_slots="other.Mine")
    for rules in (Rules(), mine):
        assert chosen(queues, [PLAIN] * 3, rules) == ["odd"] * 3
    assert chosen(free(a="P = 2; Mine = 1", b="P = 1"), [PLAIN] * 3, mine) == ["a", "b", "b"]


def test_each_kind_of_job_is_decided_once_in_whatever_order_they_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Decisions of 50 kinds that took turns did not fit in a cache, and were made 5,000 times."""
    asked: list[ClassAd] = []
    decide = Snapshot.decide

    def counting(self: Snapshot, job: ClassAd, *more: Any, **by_name: Any) -> MatchDecision:
        asked.append(job)
        return decide(self, job, *more, **by_name)

    monkeypatch.setattr(Snapshot, "decide", counting)
    monkeypatch.setattr(snapshots, "LIMITS", UNCACHED_POOL)
    kept = broker.pool(parse_ads(free(a="P = 2", b="P = 1")))
    jobs = [parse_ad(f"[ Requirements = other.P > {n % 5}; Rank = other.P ]") for n in range(50)]
    for rules in (Rules(), Rules(fuzzy=1.0)):
        asked.clear()
        assert len(broker.choose_many(jobs, kept, rules=rules)) == 50
        assert len(asked) == 5


room_texts = st.builds(
    lambda p, more: f"P = {p}; {more}",
    st.integers(0, 2),
    st.sampled_from(["", "GlueCEStateFreeJobSlots = -1"]) | st.integers(0, 5).map(
        lambda n: f"GlueCEStateFreeJobSlots = {n}"
    ) | st.integers(0, 5).map(lambda n: f"GlueCEStateFreeCPUs = {n}; Only = 1"),
)  # fmt: skip
asked_texts = st.builds(
    lambda where, cpus: f"[ Requirements = {where}; Rank = other.P; RequestCpus = {cpus} ]",
    st.sampled_from(["true", "other.P > 0", "other.Only is undefined", "other.P < 0"]),
    st.integers(0, 3),
)


@settings(deadline=None)
@given(st.lists(room_texts, max_size=4), st.lists(asked_texts, max_size=20), st.booleans())
def test_no_queue_gets_more_than_its_slots_while_another_that_matches_has_some(
    rooms: list[str], asked: list[str], by_lot: bool
) -> None:
    ads = [parse_ad(f'[ CEid = "q{at}"; {text} ]') for at, text in enumerate(rooms)]
    jobs = list(map(parse_ad, asked))
    left = {str(ad.eval("CEid")): n for ad in ads if isinstance(n := ad.eval(SLOTS), int)}
    rules = Rules(fuzzy=1.0 if by_lot else None)
    for job, choice in zip(jobs, broker.choose_many(jobs, ads, rules=rules), strict=True):
        wanted = max(1, job.eval("RequestCpus", int))
        roomy = [name for name in choice.names if left.get(name, wanted) >= wanted]
        assert choice.chosen == next(iter([*roomy, *choice.names]), None)
        assert choice.waits == (bool(choice.names) and not roomy)
        if choice.chosen in left and not choice.waits:
            left[choice.chosen] -= wanted
            assert left[choice.chosen] >= 0


# --- what is given as queues, and a pool that is kept current ------------------------------------

SITE = ["dn: GlueCEUniqueID=h:1/jm-pbs-q,o=grid", "objectClass: GlueCE",
        "GlueCEUniqueID: h:1/jm-pbs-q", "GlueCEAccessControlBaseRule: VO:cms"]  # fmt: skip


def test_what_was_merged_is_taken_wherever_queues_are() -> None:
    found = broker.merged([
        ("site", glue.read_ldif(SITE)),
        ("mine", parse_ads("[ P = 1 ] [ Name = 'x'; P = 2 ]".replace("'", '"'))),
    ])  # fmt: skip
    names = ["h:1/jm-pbs-q", "CE 2", "x"]
    assert [queue.name for queue in found.all] == names
    assert list(found) == found.ads
    assert broker.pool(found).keys() == names
    job = parse_ad('[ Requirements = true; Rank = 1; VirtualOrganisation = "cms" ]')
    # Those without rules come after the one that is known to admit the job.
    assert [one.name for one in broker.choose(job, found).ranked] == names
    assert broker.choose_many([job], found)[0].names == tuple(names)
    taken = broker.route(job, found, queue="CE 2")
    assert taken.queue is not None
    assert taken.queue.name == "CE 2"


def test_a_pool_of_queues_is_kept_current_by_the_names_that_queues_give_themselves() -> None:
    queues = '[ Name = "a"; P = 1 ] [ id = "b"; info = [ CEid = "c"; P = 1 ] ]'
    kept = broker.pool(parse_ads(queues))
    assert kept.keys() == ["a", "c"]
    kept.update(parse_ad('[ Name = "a"; P = 2 ]'))
    kept.update(parse_ad('[ id = "b"; info = [ CEid = "c"; P = 3 ] ]'))
    assert [kept["a"].eval("P"), kept["c"].eval("P")] == [2, 3]
    for each in (kept, pickle.loads(pickle.dumps(kept))):  # noqa: S301 - its own
        changes = each.replace(broker.merged([("s", glue.read_ldif(SITE)), ("t", [kept["a"]])]))
        assert changes.added == ("h:1/jm-pbs-q",)
        assert (changes.changed, changes.vanished) == ((), ("c",))
    with pytest.raises(ValueError, match="an ad has no CEid"):
        kept.update(parse_ad("[ P = 1 ]"))


untyped: Any = broker
SLIPS: list[tuple[Callable[[Any, Any], object], str]] = [
    (lambda job, queues: untyped.merged([queues]), "a source is a name with a description"),
    (lambda job, queues: untyped.merged([("a", "site.ldif")]), "several ads were expected"),
    (lambda job, queues: untyped.route(job, queues, [job]), r"hosts are a Hosts\(nodes="),
    (lambda job, queues: untyped.Hosts(mapping="slurm"), "mapping is what load_mapping"),
    (lambda job, queues: untyped.Hosts(nodes=job), "several ads were expected, not ClassAd"),
    (lambda job, queues: untyped.choose(job, queues, at="2005-10-03"), "at is a datetime"),
    (lambda job, queues: untyped.choose_many([job], queues, tie=7), "tie is a random.Random"),
    (lambda job, queues: untyped.choose(job, queues, rules="x"), "rules is a Rules, such as"),
    (lambda job, queues: untyped.choose_many([job], queues, rules="x"), "rules is a Rules"),
    (lambda job, queues: untyped.route(job, queues, rules="x"), "rules is a Rules"),
    (lambda job, queues: untyped.Rules(free_slots=7), "free_slots takes an expression as text"),
    # Rules in the place of a time were taken for one, and had no effect.
    (
        lambda job, queues: untyped.choose(job, queues, untyped.Rules()),
        "takes 2 positional arguments",
    ),
]


@pytest.mark.parametrize(("ask", "said"), SLIPS)
def test_slips_of_an_author_are_answered_by_what_to_write(
    ask: Callable[[Any, Any], object], said: str
) -> None:
    with pytest.raises(TypeError, match=said):
        ask(parse_ad("[]"), [parse_ad('[ CEid = "q" ]')])


def test_an_unknown_queue_is_answered_by_those_of_that_local_name() -> None:
    queues = list(parse_ads('[ CEid = "h:1/ce-pbs-short" ] [ CEid = "h:1/ce-pbs-long" ]'))
    with pytest.raises(ValueError, match=r"named long; there are h:1/ce-pbs-long$"):
        broker.route(PLAIN, queues, queue="long")
    with pytest.raises(ValueError, match=r"there are h:1/ce-pbs-short, h:1/ce-pbs-long$"):
        broker.route(PLAIN, queues, queue="gpu")


def test_hosts_take_any_iterable_of_nodes_and_sources_a_mapping() -> None:
    known = broker.Hosts(nodes=parse_ads(NODES))
    assert broker.route(parse_ad(BIG), broker.of_nodes(known.nodes or ()), known).queue is not None
    sources: dict[str, Iterable[ClassAd]] = {"site": glue.read_ldif(SITE)}
    found = broker.merged(sources | {"mine": list(parse_ads('[ Name = "x" ]'))})
    assert [(queue.name, queue.source) for queue in found.all] == [
        ("h:1/jm-pbs-q", "site"),
        ("x", "mine"),
    ]
    assert len(found) == 2


def test_decisions_are_short_to_print() -> None:
    queues = parse_ads(" ".join(f'[ CEid = "q{n}" ]' for n in range(400)))
    (choice,) = broker.choose_many([parse_ad(f"[ {ANY} ]")], queues)
    assert len(repr(choice)) < 300
    assert "'q0', 'q1', 'q10', ... 400" in repr(choice)
    (refused,) = broker.choose(
        parse_ad("[ Requirements = false ]"), parse_ads('[ Name = "a" ]')
    ).refused
    assert str(refused) == "a: the job refuses: false is false"
