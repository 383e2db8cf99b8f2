from __future__ import annotations

from typing import Any

import pytest

from matchmaker import Assignment, ClassAd, Outcome, ParseError, Policy, Pool, parse_ad, parse_ads
from matchmaker.classad import state
from matchmaker.classad.values import MAX_INT
from matchmaker.matching import candidates

STATIC = """
[ Name = "a"; Cpus = 1; Memory = 1000 ]
[ Name = "b"; Cpus = 4; Memory = 4000 ]
[ Name = "c"; Cpus = 2; Memory = 2000 ]
"""
DIVISIBLE = """
[ Name = "p"; PartitionableSlot = true; Cpus = 8; Memory = 8000; Disk = 500; GPUs = 1 ]
[ Name = "q"; PartitionableSlot = true; Cpus = 4; Memory = 8000 ]
"""


def assign(slots: str, jobs: str | list[ClassAd], **terms: Any) -> Assignment:
    ads = list(parse_ads(jobs)) if isinstance(jobs, str) else jobs
    return Pool(parse_ads(slots)).assign(ads, Policy(**terms))


def slots_of(found: Assignment) -> list[str | None]:
    return [placement.slot for placement in found.placements]


def reasons(found: Assignment) -> list[str]:
    return [placement.reason for placement in found.idle]


# --- slots ----------------------------------------------------------------------------------------


def test_a_static_slot_serves_one_job_and_goes_to_who_ranks_it_highest_first() -> None:
    found = assign(STATIC, "[ Rank = TARGET.Memory ] " * 4)
    assert slots_of(found) == ["b", "c", "a", None]
    assert [p.rank for p in found.placed] == [4000.0, 2000.0, 1000.0]
    assert found.placed[0].taken == {"Cpus": 4, "Memory": 4000}
    assert reasons(found) == ["3 slots match: 3 taken"]
    assert found.left == {}


def test_equal_ranks_go_by_key_whatever_the_order_of_the_slots() -> None:
    slots = "".join(f'[ Name = "{name}"; Cpus = 1 ]' for name in "dbeac")
    assert slots_of(assign(slots, "[ ]" * 5)) == ["a", "b", "c", "d", "e"]


def test_a_partitionable_slot_gives_parts_until_something_runs_out() -> None:
    found = assign(DIVISIBLE, "[ RequestCpus = 2; RequestMemory = 3000; RequestDisk = 100 ] " * 4)
    assert slots_of(found) == ["p", "p", None, None]
    assert found.placed[0].taken == {"Cpus": 2, "Memory": 3000, "Disk": 100}
    assert found.left == {"p": {"Cpus": 4, "Memory": 2000, "Disk": 300, "GPUs": 1}}
    assert set(reasons(found)) == {
        "2 slots match: 1 with too little Memory, 1 with too little Disk"
    }


def test_a_job_that_does_not_say_takes_one_cpu() -> None:
    found = assign(DIVISIBLE, "[ ] " * 13)
    assert [p.slot for p in found.placed] == ["p"] * 8 + ["q"] * 4
    assert found.placed[0].taken == {"Cpus": 1}
    assert reasons(found) == ["2 slots match: 2 with too little Cpus"]


def test_a_job_hides_neither_its_requests_nor_its_owner() -> None:
    hiding = 'my = [ RequestCpus = 0; RequestMemory = 0; Owner = "ben"; JobPrio = 9 ]'
    jobs = f'[ Owner = "ana"; RequestCpus = 6; {hiding} ]' * 3
    found = assign(DIVISIBLE, jobs)
    assert slots_of(found) == ["p", None, None]
    assert {placement.group for placement in found.placements} == {"ana"}


def test_a_gpu_is_given_once() -> None:
    found = assign(DIVISIBLE, "[ RequestGPUs = 1 ] " * 2)
    assert slots_of(found) == ["p", None]
    assert reasons(found) == ["2 slots match: 2 with too little GPUs"]


def test_requirements_of_both_sides_see_what_is_left() -> None:
    slots = """[ Name = "p"; PartitionableSlot = true; Cpus = 8; Memory = 1000; Whole = Cpus == 8;
                 Requirements = Whole || TARGET.Owner == "ana" ]"""
    owners = '[ Owner = "ben" ][ Owner = "ben"; QDate = 1 ][ Owner = "ana"; QDate = 2 ]'
    found = assign(slots, owners, group='"all"', priority="-(MY.QDate ?: 0)")
    assert slots_of(found) == ["p", None, "p"]
    assert reasons(found) == ["1 slot matches: 1 no longer a match with what is left"]


def test_a_slot_may_match_or_rank_higher_only_once_it_has_less() -> None:
    slots = '[ Name = "p"; PartitionableSlot = true; Cpus = 3 ][ Name = "q"; Cpus = 2 ]'
    picky = "[ JobPrio = 0; Requirements = TARGET.Cpus == 2 && TARGET.PartitionableSlot ]"
    assert slots_of(assign(slots, picky + "[ JobPrio = 1; Requirements = TARGET.Cpus > 2 ]")) == [
        "p", "p",
    ]  # fmt: skip
    small = "[ Rank = -TARGET.Cpus; RequestCpus = 1 ]"
    two = slots + '[ Name = "r"; PartitionableSlot = true; Cpus = 3 ]'
    found = assign(two, small * 5)
    assert slots_of(found) == ["q", "p", "p", "p", "r"]
    assert [p.rank for p in found.placements] == [-2.0, -3.0, -2.0, -1.0, -3.0]


def test_slots_that_have_given_a_part_go_by_key_too(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = "".join(
        f'[ Name = "{name}"; PartitionableSlot = true; Cpus = 3 ]' for name in ("z", "k", "a")
    )
    found = assign(slots, "[ RequestCpus = 2; JobPrio = 1 ]" * 3 + "[ ]" * 3)
    assert slots_of(found) == ["a", "k", "z", "a", "k", "z"]


def test_more_slots_are_put_in_order_when_the_first_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(candidates, "FIRST", 1)
    monkeypatch.setattr(candidates, "EACH", 0)
    slots = "".join(f"[ Name = {n}; Cpus = {n % 7} ]" for n in range(40))
    found = assign(slots, "[ Rank = TARGET.Cpus ]" * 41)
    expected = sorted(range(40), key=lambda n: (-(n % 7), str(n)))
    assert slots_of(found) == [*map(str, expected), None]


@pytest.mark.parametrize("alike", [1, 100])
def test_kinds_that_rank_slots_alike_pass_over_what_does_not_match(
    monkeypatch: pytest.MonkeyPatch, alike: int
) -> None:
    monkeypatch.setattr(candidates, "FIRST", 2)
    monkeypatch.setattr(candidates, "EACH", 0)
    monkeypatch.setattr(candidates, "ALIKE", alike)
    slots = "".join(f"[ Name = {n}; Cpus = 1; Load = {n % 7}; Rack = {n % 3} ]" for n in range(60))
    jobs = "".join(
        f"[ Requirements = TARGET.Rack == {n % 3}; Rank = TARGET.Load - 3 ]" for n in range(61)
    )
    best = {rack: sorted(range(rack, 60, 3), key=lambda n: (-(n % 7), str(n))) for rack in range(3)}
    expected = [str(best[n % 3][n // 3]) if n < 60 else None for n in range(61)]
    assert slots_of(assign(slots, jobs)) == expected


def test_integers_too_large_for_reals_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "FIRST", 1)
    monkeypatch.setattr(candidates, "EACH", 0)
    large = 2**53
    slots = f"""[ Name = "a"; PartitionableSlot = true; Cpus = 1; Memory = {large} ]
                [ Name = "b"; PartitionableSlot = true; Cpus = 1; Memory = {large} ]
                [ Name = "c"; PartitionableSlot = true; Cpus = 9; Memory = {large + 1} ]"""
    found = assign(slots, f"[ RequestMemory = {large + 1} ]" * 2)
    assert slots_of(found) == ["c", None]
    assert found.left == {"c": {"Cpus": 8, "Memory": 0}}
    assert reasons(found) == ["3 slots match: 3 with too little Memory"]
    found = assign(slots, f"[ RequestMemory = {large + 2} ]")
    assert reasons(found) == ["3 slots match: 3 with too little Memory"]


def test_whole_amounts_are_integers_and_others_are_not() -> None:
    found = assign(DIVISIBLE, "[ RequestCpus = 0.5; RequestMemory = 1000.0 ]" * 3)
    assert found.left["p"] == {"Cpus": 6.5, "Memory": 5000, "Disk": 500, "GPUs": 1}
    assert isinstance(found.left["p"]["Memory"], int)


def test_a_request_may_depend_on_the_slot() -> None:
    found = assign(DIVISIBLE, "[ RequestMemory = TARGET.Memory / 2 ]" * 2)
    assert [p.taken["Memory"] for p in found.placed] == [4000, 2000]


def test_a_slot_may_say_one_resource_in_terms_of_another() -> None:
    slots = """[ Name = "p"; PartitionableSlot = true; Cpus = 4; Memory = 5000 - Cpus * 1000;
                 Disk = Cpus * 10 ]"""
    large = "[ RequestMemory = 1500 ]"
    found = assign(slots, f"{large}[ ]{large}[ RequestDisk = 25 ][ RequestDisk = 15 ]")
    assert slots_of(found) == [None, "p", "p", None, "p"]
    assert found.left == {"p": {"Cpus": 1, "Memory": 500, "Disk": 5}}


def test_resources_may_be_others() -> None:
    slots = '[ Name = "p"; PartitionableSlot = true; Cpus = 1; Licences = 300 ]'
    job = parse_ad("[ Want = 130 ]")
    found = assign(slots, [job, job, job], resources={"licences": "quantize(MY.Want, 150)"})
    assert slots_of(found) == ["p", "p", None]
    assert found.left == {"p": {"licences": 0}}


def test_jobs_that_differ_only_in_what_they_ask_are_told_apart() -> None:
    jobs = "[ RequestCpus = 8 ][ RequestCpus = 4 ]"
    assert slots_of(assign(DIVISIBLE, jobs)) == ["p", "q"]


def test_slots_that_are_not_free_are_not_given() -> None:
    slots = '[ Name = "a"; State = "Claimed" ][ Name = "b"; State = "Owner" ]'
    assert reasons(assign(slots, "[ ]")) == ["2 slots match: 1 claimed, 1 kept by their owners"]
    assert slots_of(assign(slots, "[ ]", free='State == "Owner"')) == ["b"]
    assert slots_of(assign('[ Name = "a"; State = "unclaimed" ]', "[ ]")) == ["a"]


def test_only_true_makes_a_slot_partitionable() -> None:
    slots = '[ Name = "a"; PartitionableSlot = 1; Cpus = 9 ][ Name = "b"; PartitionableSlot = "x" ]'
    assert slots_of(assign(slots, "[ ]" * 3)) == ["a", "b", None]


def test_the_pool_stays_as_it_is_and_removed_slots_are_gone() -> None:
    pool = Pool(parse_ads(DIVISIBLE + STATIC))
    pool.remove("p")
    found = pool.assign([ClassAd({"RequestMemory": 8000}), ClassAd()])
    assert slots_of(found) == ["a", "b"]
    found = pool.assign(
        [parse_ad("[ RequestMemory = 8000; Requirements = TARGET.Memory >= 8000 ]")]
    )
    assert slots_of(found) == ["q"]
    assert pool["q"].eval("Memory") == 8000


# --- the order of jobs ----------------------------------------------------------------------------


def test_jobs_of_a_group_come_by_priority_then_submission_then_as_given() -> None:
    jobs = """[ QDate = 5 ] [ JobPrio = 2; QDate = 9 ] [ QDate = 3 ] [ ] [ QDate = 3 ]
              [ JobPrio = -1; QDate = 0 ] [ JobPrio = "high"; QDate = 4 ]"""
    found = assign("", jobs)
    assert found.order == (1, 2, 4, 6, 0, 3, 5)
    assert {p.group for p in found.placements} == {"<none>"}
    assert assign("", jobs, priority="MY.QDate").order == (1, 0, 6, 2, 4, 5, 3)


def test_groups_take_turns_by_what_they_use() -> None:
    jobs = '[ Owner = "ana" ]' * 4 + '[ Owner = "ben"; RequestCpus = 2 ]' * 2
    found = assign(DIVISIBLE, jobs)
    # ana 1; ben 2; ana 2; then equal, so that ana is first by name; ben 4.
    assert found.order == (0, 4, 1, 2, 5, 3)
    assert found.usage == {"ana": 4.0, "ben": 4.0}


def test_an_accounting_group_stands_before_the_owner() -> None:
    found = assign("", '[ Owner = "ana"; AccountingGroup = "physics" ][ Owner = "ben" ]')
    assert [p.group for p in found.placements] == ["physics", "ben"]
    found = assign("", '[ Vo = "atlas" ][ Vo = 7 ]', group="MY.Vo")
    assert [p.group for p in found.placements] == ["atlas", "<none>"]


def test_shares_and_usage_weigh() -> None:
    slots = "".join(f"[ Name = {n}; Cpus = 1 ]" for n in range(12))
    jobs = [ClassAd(Owner=owner) for owner in ["ana"] * 12 + ["ben"] * 12]

    def counts(**terms: Any) -> list[int]:
        found = assign(slots, jobs, **terms)
        return [sum(p.group == owner for p in found.placed) for owner in ("ana", "ben")]

    assert counts() == [6, 6]
    assert counts(share={"ben": 3}) == [3, 9]
    assert counts(share='MY.Owner == "ana" ? 5 : 1') == [10, 2]
    assert counts(usage={"ana": 8.0}) == [2, 10]
    assert counts(share={"ana": 0}) == [0, 12]
    assert counts(share='MY.Owner == "ana" ? "lots" : 1') == [0, 12]
    assert assign(slots, jobs, usage={"ana": 8.0, "cyd": 1.0}).usage == {
        "ana": 10.0, "ben": 10.0, "cyd": 1.0,
    }  # fmt: skip


def test_a_static_slot_costs_its_cpus_and_one_without_any_counts_as_one() -> None:
    jobs = '[ Owner = "ana" ]'
    assert assign('[ Name = "a"; Cpus = 4 ]', jobs).usage == {"ana": 4.0}
    assert assign('[ Name = "a" ]', jobs).usage == {"ana": 1.0}
    none = '[ Owner = "ana"; RequestCpus = 0 ]' * 3
    assert assign(DIVISIBLE, none).usage == {"ana": 3.0}


def test_jobs_without_a_slot_use_nothing() -> None:
    found = assign("", '[ Owner = "ana" ]')
    assert (found.usage, reasons(found)) == ({"ana": 0.0}, ["there are no slots"])


def test_terms_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="ana cannot have a share or usage of -1"):
        Policy(share={"ana": -1})
    with pytest.raises(ValueError, match="nan"):
        Policy(usage={"ana": float("nan")})
    with pytest.raises(ValueError, match="a resource is named twice: Cpus, CPUS"):
        Policy(resources={"Cpus": "1", "CPUS": "1"})
    with pytest.raises(ParseError):
        Policy(priority="MY.JobPrio +")


# --- reasons --------------------------------------------------------------------------------------


def test_the_clause_at_which_the_last_slots_fall_away_is_named() -> None:
    job = "[ Requirements = TARGET.Memory >= 1500 && TARGET.Cpus > 8 && TARGET.Memory > 0 ]"
    found = assign(STATIC, job)
    assert found.idle[0].outcome is Outcome.NO_MATCH
    said = "the job refuses the last 2 of 3 slots: on b TARGET.Cpus > 8 is false"
    assert reasons(found) == [f"{said} (Cpus = 4)"]
    found = assign(STATIC, '[ Requirements = TARGET.Arch == "x" ]')
    assert reasons(found) == [
        'the job refuses all 3 slots: on a TARGET.Arch == "x" is undefined (Arch = undefined)'
    ]
    found = assign('[ Name = "a" ]', "[ Requirements = false ]")
    assert reasons(found) == ["the job refuses the only slot: on a false is false"]


def test_slots_that_refuse_the_job_are_named() -> None:
    slots = '[ Name = "a"; START = TARGET.Want > 1; Requirements = START ][ Name = "b"; M = 1 ]'
    found = assign(slots, "[ Requirements = TARGET.M is undefined; Want = 1 ]")
    assert found.idle[0].outcome is Outcome.NO_MATCH
    said = "the job is refused by the last of 2 slots"
    assert reasons(found) == [f"{said}: on a START is false: TARGET.Want > 1 (Want = 1)"]


def test_slots_that_match_are_counted_by_why_they_are_not_to_be_had() -> None:
    slots = DIVISIBLE + STATIC + '[ Name = "x"; State = "Claimed" ]'
    jobs = "[ JobPrio = 1; RequestCpus = 3; Requirements = TARGET.PartitionableSlot ]" * 3
    found = assign(slots, jobs + "[ RequestCpus = 3; RequestMemory = 5000 ]" * 4)
    assert slots_of(found) == ["p", "p", "q", "a", "b", "c", None]
    assert found.idle[0].outcome is Outcome.NO_ROOM
    assert reasons(found) == ["6 slots match: 3 taken, 2 with too little Cpus, 1 claimed"]
    assert str(found) == (
        "6 of 7 jobs placed\n1 idle: 6 slots match: 3 taken, 2 with too little Cpus, 1 claimed"
    )


def test_jobs_that_are_alike_are_told_anew_once_one_of_them_was_placed() -> None:
    slots = '[ Name = "p"; PartitionableSlot = true; Cpus = 4; Memory = 10 ]'
    picky = """[ JobPrio = {}; RequestMemory = 1;
                 Requirements = TARGET.Cpus % 2 == 0 && TARGET.Memory > 0 ]"""
    odd = "[ JobPrio = {} ]"
    found = assign(
        slots,
        picky.format(9) + picky.format(8) + odd.format(7) + picky.format(6)
        + odd.format(5) + picky.format(4),
    )  # fmt: skip
    assert slots_of(found) == ["p", None, "p", "p", "p", None]
    assert reasons(found) == [
        "1 slot matches: 1 no longer a match with what is left",
        "1 slot matches: 1 with too little Cpus",
    ]


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"share": 2}, "numbers by group were expected, not int"),
        ({"share": {"ana": "2"}}, "the share or usage of ana is a number, not str"),
        ({"usage": {"ana": None}}, "the share or usage of ana is a number, not NoneType"),
        ({"usage": {7: 1.0}}, "groups go by their names, not by int"),
        ({"usage": "ana"}, "numbers by group were expected, not str"),
        ({"free": True}, "an expression was expected, as an Expr or as text, not bool"),
        ({"resources": "Cpus"}, "expressions by resource were expected, not str"),
        ({"resources": {"Cpus": 1}}, "an expression was expected, as an Expr or as text, not int"),
    ],
)
def test_terms_of_another_type_are_told(terms: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Policy(**terms)


@pytest.mark.parametrize(
    ("request_", "value"),
    [
        ('"8 GB"', '"8 GB"'),
        ("-1", "-1"),
        ('real("NaN")', 'real("NaN")'),
        ('real("INF")', 'real("INF")'),
        ("{ 1 }", "{1}"),
        ("1 / 0", "error: integer division by zero"),
    ],
)
def test_a_request_that_is_no_amount_is_the_jobs_error(request_: str, value: str) -> None:
    found = assign(DIVISIBLE, f"[ RequestMemory = {request_} ][ ]")
    assert slots_of(found) == [None, "p"]
    assert found.idle[0].outcome is Outcome.ERROR
    said = f"MY.RequestMemory ?: 0 is {value}, which is no amount of Memory"
    assert reasons(found) == [said]
    # A static slot is taken whole, but only by a job that makes sense; nor does a match matter.
    for slots in (STATIC, STATIC + DIVISIBLE, '[ Name = "a"; State = "Claimed" ]', ""):
        for more in ("", "; Requirements = false"):
            found = assign(slots, f"[ RequestMemory = {request_}{more} ]")
            assert found.idle[0].outcome is Outcome.ERROR
            assert reasons(found) == [said]


def test_a_request_that_is_no_amount_for_some_slots_does_not_get_those() -> None:
    slots = """[ Name = "a"; n = -1 ] [ Name = "b"; n = 1 ] [ Name = "c"; State = "Claimed" ]
               [ Name = "d"; n = -1; PartitionableSlot = true; Cpus = 9 ]"""
    found = assign(slots, "[ RequestCpus = TARGET.n ]" * 2)
    assert slots_of(found) == ["b", None]
    said = "MY.RequestCpus ?: 1 is -1, which is no amount of Cpus"
    counts = "1 taken, 2 where the request is no amount, 1 claimed"
    assert reasons(found) == [f"4 slots match: {counts}; {said}"]
    assert found.idle[0].outcome is Outcome.NO_ROOM
    found = assign('[ Name = "a"; n = -1 ]', "[ RequestCpus = TARGET.n ]")
    assert found.idle[0].outcome is Outcome.ERROR


def test_no_key_steers_who_reads_a_reason() -> None:
    pool = Pool([ClassAd({"Name": "a\x1b[31m\u202e", "Cpus": 1})])
    found = pool.assign([parse_ad("[ Requirements = TARGET.Cpus > 1 ]")])
    [reason] = reasons(found)
    assert reason == "the job refuses the only slot: on a?[31m? TARGET.Cpus > 1 is false (Cpus = 1)"


def test_undefined_requests_and_requests_of_nothing_take_nothing() -> None:
    jobs = "[ RequestMemory = undefined; RequestCpus = 0; RequestGPUs = false ]" * 3
    found = assign(DIVISIBLE, jobs)
    assert slots_of(found) == ["p", "p", "p"]
    assert [p.taken for p in found.placed] == [{}, {}, {}]
    assert found.left == {}


@pytest.mark.parametrize("request_", [str(MAX_INT), "1e300", "9000"])
def test_huge_requests_find_no_room(request_: str) -> None:
    found = assign(DIVISIBLE, f"[ RequestMemory = {request_} ]")
    assert reasons(found) == ["2 slots match: 2 with too little Memory"]


def test_what_is_not_a_number_in_a_slot_is_nothing() -> None:
    slots = """[ Name = "a"; PartitionableSlot = true; Cpus = "many" ]
               [ Name = "b"; PartitionableSlot = true; Cpus = -4 ]
               [ Name = "c"; PartitionableSlot = true; Cpus = 1 / 0 ]
               [ Name = "d"; PartitionableSlot = true ]"""
    assert reasons(assign(slots, "[ ]")) == ["4 slots match: 4 with too little Cpus"]


# Each doubling takes twice as many steps: the thirtieth is never reached.
PAST_ITS_BUDGET = (
    "".join(f"x{n} = x{n - 1} + x{n - 1};" for n in range(1, 30)) + "x0 = TARGET.Cpus;"
)


def test_a_job_past_its_budget_is_an_error_with_its_reason_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state.Budget, "limit", 1000)
    jobs = f"""[ {PAST_ITS_BUDGET} Requirements = x29 > 0 ] [ ]
               [ {PAST_ITS_BUDGET} RequestMemory = x29 ]
               [ {PAST_ITS_BUDGET.replace("TARGET.Cpus", "1")} JobPrio = x29 ]
               [ {PAST_ITS_BUDGET.replace("TARGET.Cpus", "1")} Owner = x29 ]
               [ {PAST_ITS_BUDGET} Rank = x29 ]"""
    found = assign(DIVISIBLE, jobs)
    steps = f"error: {state.too_many_steps()}"
    assert slots_of(found) == [None, "p", None, None, None, "p"]
    assert {p.outcome for p in found.idle} == {Outcome.ERROR}
    first, second, third, fourth = reasons(found)
    assert first.startswith(f"the job refuses all 2 slots: on p x29 > 0 is {steps}")
    assert second.endswith(f"MY.RequestMemory ?: 0 is {steps}, which is no amount of Memory")
    assert third == f"the job's priority is {steps}"
    assert fourth == f"the job's group is {steps}"
    assert [p.number for p in found.unranked] == [5]
    assert found.order == (0, 1, 2, 5)


def test_a_rank_that_is_no_number_counts_as_0_and_is_listed() -> None:
    jobs = '[ Rank = "best" ][ Rank = TARGET.Speed ][ Rank = 0 ][ ]'
    found = assign(DIVISIBLE, jobs)
    assert [p.rank for p in found.placements] == [0.0] * 4
    assert [p.number for p in found.unranked] == [0, 1]


def test_no_jobs_are_no_trouble() -> None:
    found = assign(STATIC, "")
    assert (found.placements, found.order, str(found)) == ((), (), "0 of 0 jobs placed")


# --- terms that change nothing --------------------------------------------------------------------


def test_the_group_of_an_htcondor_job_is_without_its_user() -> None:
    jobs = """[ AccountingGroup = "group_atlas.u0" ] [ AccountingGroup = "group_a.b.u1" ]
      [ AccountingGroup = "cms" ] [ AcctGroup = "lhcb.x"; AccountingGroup = "lhcb.x.u" ]
      [ Owner = "ana" ] [ AccountingGroup = 7; Owner = "ben" ]"""
    assert [p.group for p in assign("", jobs).placements] == [
        "group_atlas", "group_a.b", "cms", "lhcb.x", "ana", "<none>",
    ]  # fmt: skip
    # So a share of the group counts, whoever its users are.
    slots = "".join(f'[ Name = "{n}" ]' for n in range(3))
    jobs = '[ AccountingGroup = "atlas.a" ][ AccountingGroup = "atlas.b" ][ Owner = "ana" ]' * 3
    found = assign(slots, jobs, share={"atlas": 2})
    assert dict(found.usage) == {"ana": 1.0, "atlas": 2.0}
    assert found.notes == ()


def test_terms_that_change_nothing_are_told() -> None:
    jobs = '[ AccountingGroup = "atlas.a" ][ Owner = "ana" ]'
    assert assign(STATIC, jobs, share={"Atlas": 2, "cms": 1}, usage={"lhcb": 3}).notes == (
        "no job is of Atlas, cms, for which a share is given; did you mean atlas?",
        "no job is of lhcb, for which a usage is given",
    )
    found = assign(STATIC, jobs, group="MY.Vo")
    assert found.notes == ("no job has a group: all are of <none>, by MY.Vo",)
    assert str(found).splitlines()[-1] == found.notes[0]
    resources = {"Cpus": "MY.RequestCpus ?: 1", "Licences": "1", "Memory": "MY.Mem ?: 0"}
    assert assign(STATIC, jobs, resources=resources).notes == (
        "no slot has Licences, which is a resource of the policy",
        "no job asks for Memory: MY.Mem ?: 0 is 0 for all of them",
    )
    assert assign(STATIC, "[ Mem = 3 ]" + jobs, resources={"Memory": "MY.Mem ?: 0"}).notes == ()
    assert assign(STATIC, jobs, resources={"Memory": "TARGET.Memory / 2"}).notes == ()
    assert assign(STATIC, "", share={"x": 1}, group="MY.Vo").notes == ()
    many = {f"group{n}": 1 for n in range(10)}
    assert "group7 and 2 more, for which" in assign(STATIC, jobs, share=many).notes[0]


def test_slots_that_say_they_are_not_free_are_not_given() -> None:
    slots = """[ Name = "a"; Available = false ] [ Name = "b"; Draining = true ]
      [ Name = "c"; State = "Unclaimed"; Start = false ] [ Name = "d"; Stand = "Claimed" ]"""
    assert slots_of(assign(slots, "[ ]" * 2)) == ["d", None]
    free = 'MY.Stand isnt "Claimed"'
    [placement] = assign(slots, "[ ]", free=f"{free} && false", names={"State": "Stand"}).placements
    assert placement.counts == {
        "claimed": 1, "draining": 1, "unavailable": 1, "not free by the policy": 1,
    }  # fmt: skip
    with pytest.raises(ValueError, match="Stat is none of State"):
        Policy(names={"Stat": "x"})
