"""Jobs and slots that take too much: an answer is that of the scalar form, or an error."""

from __future__ import annotations

import random
from typing import Any

import pytest

from matchmaker import ClassAd, Pool, match, parse_ad
from matchmaker.classad import bounds, evaluate
from matchmaker.matching.columns import evaluator, scalar, work
from matchmaker.matching.idle import Outcome


def hostile(number: int, attribute: str = "Memory", seed: str = "0123456789") -> ClassAd:
    """An ad whose attribute takes more steps than an evaluation may."""
    doubled = "; ".join(f"z{n} = strcat(z{n + 1}, z{n + 1})" for n in range(17))
    text = f'size([ {doubled}; z17 = "{seed}{number}" ].z0)'
    return parse_ad(f'[ Name = "a{number}"; {attribute} = {text} ]')


def plain(count: int) -> list[ClassAd]:
    return [ClassAd({"Name": f"n{n}", "Memory": 1000 + n % 50}) for n in range(count)]


def by_pair(ads: list[ClassAd], job: ClassAd) -> set[str]:
    return {str(ad.eval("Name")) for ad in ads if match(job, ad).matched}


def test_hostile_slots_do_not_stand_in_the_way_of_others_whatever_their_order() -> None:
    ads = [*(hostile(n) for n in range(3)), *plain(200)]
    job = parse_ad("[ Requirements = TARGET.Memory > 100; Rank = TARGET.Memory ]")
    for order in (ads, ads[::-1], random.Random(3).sample(ads, len(ads))):
        found = Pool(order).match(job)
        assert set(found.keys) == {f"n{n}" for n in range(200)}
        assert min(found.ranks) == 1000.0
        assert found.error == (
            f"the job's requirements: {bounds.TOO_MANY_STEPS}; "
            f"the job's rank: {bounds.TOO_MANY_STEPS}"
        )


def test_what_is_hostile_may_still_match_where_it_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evaluator, "FEW_ROWS", 0)
    ads = [*(hostile(n) for n in range(2)), *plain(40)]
    for text in ("true || TARGET.Memory > 1", "TARGET.Memory is error", "isError(TARGET.Memory)",
                 'TARGET.Name == "a0" || TARGET.Memory > 1020'):  # fmt: skip
        job = parse_ad(f"[ Requirements = {text} ]")
        assert set(Pool(ads).match(job).keys) == by_pair(ads, job)


def test_what_a_hostile_expression_comes_to_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool([*(hostile(n) for n in range(3)), *plain(60)])
    pool.match(parse_ad("[ Requirements = TARGET.Memory > 1 ]"))
    costly: list[object] = []
    counted = evaluate.evaluate_counted

    def watched(*given: Any) -> object:
        found = counted(*given)
        if found[1].steps > 1000:
            costly.append(given)
        return found

    monkeypatch.setattr(scalar, "evaluate_counted", watched)
    assert len(pool.match(parse_ad("[ Requirements = TARGET.Memory > 1020 ]"))) == 29
    assert costly == []


def test_the_clauses_of_a_job_have_one_budget_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_STEPS", 120)
    monkeypatch.setattr(evaluate, "MAX_STEPS", 120)
    ads = [ClassAd({"Name": "x" * (n + 1), "Cpus": n % 3}) for n in range(60)]
    clause = "size(strcat(TARGET.Name, TARGET.Name)) > 1"
    for count in (1, 2, 3, 4):
        # Different clauses, so that each has a mask of its own.
        text = " && ".join(f"{clause} + {n} - {n}" for n in range(count))
        job = parse_ad(f"[ Requirements = {text} && TARGET.Cpus < 2 ]")
        pool = Pool(ads)
        for _ in range(2):
            assert set(pool.match(job).keys) == by_pair(ads, job)


def test_one_stranger_is_not_asked_about_all_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "FLAT", 3_000_000)
    ads = plain(300)
    for number, ad in enumerate(ads):
        ad["Load"] = number / 300
    ads[7] = hostile(7, "Requirements")
    ads[7]["Memory"] = parse_ad('[ a = strcat("x", Load) ]')["a"]
    pool = Pool(ads)
    found = pool.match(parse_ad("[ Requirements = true ]"))
    assert len(found) == 299
    assert found.error == f"the slot's requirements: {bounds.TOO_MANY_STEPS}"


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "FLAT", 20_000)
    monkeypatch.setattr(work, "EACH", 0)


SLOW = "size(strcat(TARGET.Name, TARGET.Name, TARGET.Name))"


@pytest.mark.usefixtures("little")
def test_a_job_that_takes_too_much_on_all_ads_is_an_error_and_the_others_go_on() -> None:
    pool = Pool(ClassAd({"Name": f"n{n}", "Load": n / 700, "Cpus": n % 4}) for n in range(700))
    fast = parse_ad("[ Requirements = TARGET.Cpus > 1; Rank = TARGET.Cpus ]")
    slow = parse_ad(f"[ Requirements = TARGET.Cpus > 1 && {SLOW} > 3; Rank = TARGET.Load ]")
    ranked = parse_ad(f"[ Requirements = TARGET.Cpus > 1; Rank = {SLOW} ]")
    for _ in range(2):
        first, second, third, last = pool.match_many([fast, slow, ranked, fast])
        assert first == last == pool.match(fast)
        assert len(first) == 350
        assert first.error is None
        for found, whose in ((second, "requirements"), (third, "rank")):
            assert len(found) == 0
            assert found.error is not None
            assert found.error.startswith(
                f"the job's {whose} took more than 20,000 steps on all 700 ads together, at size("
            )
        assert pool.top(slow, 3).error == second.error


@pytest.mark.usefixtures("little")
def test_the_requirements_of_slots_that_take_too_much_are_said_to() -> None:
    policy = "size(strcat(Name, Name, Name)) > 1"
    text = "".join(f'[ Name = "n{n}"; Requirements = {policy} ]' for n in range(700))
    pool = Pool(map(parse_ad, text.replace("][", "]\n[").splitlines()))
    error = pool.match(ClassAd()).error
    assert error is not None
    assert error.startswith("the slots' requirements took more than 20,000 steps on all 700 ads")
    assert policy.split(" >", maxsplit=1)[0] in error


@pytest.mark.usefixtures("little")
def test_a_cycle_leaves_such_jobs_idle_with_the_reason() -> None:
    pool = Pool(ClassAd({"Name": f"n{n}", "Load": n / 700, "Cpus": n % 4}) for n in range(700))
    fast = parse_ad("[ Requirements = TARGET.Cpus > 1 ]")
    slow = parse_ad(f"[ Requirements = {SLOW} > 3 ]")
    ranked = parse_ad(f"[ Rank = {SLOW} ]")
    found = pool.assign([fast, slow, ranked, slow, fast])
    assert [p.outcome for p in found.placements] == [
        Outcome.PLACED, Outcome.ERROR, Outcome.ERROR, Outcome.ERROR, Outcome.PLACED,
    ]  # fmt: skip
    assert found.placements[1].reason == pool.match(slow).error
    assert found.placements[2].reason == pool.match(ranked).error


@pytest.mark.usefixtures("little")
def test_a_cycle_in_which_the_slots_take_too_much_places_nothing() -> None:
    text = "size(strcat(Name, Name, Name)) > 1"
    slots = [parse_ad(f'[ Name = "n{n}"; PartitionableSlot = {text} ]') for n in range(700)]
    (placement,) = Pool(slots).assign([ClassAd()]).placements
    assert placement.outcome is Outcome.ERROR
    assert "took more than 20,000 steps on all 700 ads together" in placement.reason


@pytest.mark.usefixtures("little")
def test_an_explanation_says_it_too() -> None:
    pool = Pool(ClassAd({"Name": f"n{n}"}) for n in range(700))
    job = parse_ad(f"[ Requirements = {SLOW} > 3 ]")
    found = pool.explain(job)
    assert (found.total, found.matched) == (700, 0)
    assert found.error == pool.match(job).error
    assert str(found.error) in str(found)


def test_an_answer_does_not_depend_on_what_was_asked_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ads = [ClassAd({"Name": f"n{n}", "Load": n / 700}) for n in range(100)]
    one, other = f"{SLOW} > 3", f"{SLOW} > 4"
    both = parse_ad(f"[ Requirements = {one} && {other} ]")
    monkeypatch.setattr(work, "EACH", 0)
    for flat in range(2000, 12_000, 500):
        monkeypatch.setattr(work, "FLAT", flat)
        fresh, used = Pool(ads), Pool(ads)
        for clause in (one, other):
            used.match(parse_ad(f"[ Requirements = {clause} ]"))
        assert fresh.match(both).error == used.match(both).error
        assert fresh.match(both) == used.match(both)
