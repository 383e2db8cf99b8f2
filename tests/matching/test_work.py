"""Jobs and slots that take too much: an answer is that of the scalar form, or an error."""

from __future__ import annotations

import random
from typing import Any

import pytest

from matchmaker import ClassAd, Pool, match, parse_ad
from matchmaker._limits import CLASSAD_LIMITS, PoolLimits
from matchmaker._limits import POOL_LIMITS as LIMITS
from matchmaker.classad import evaluate, state
from matchmaker.classad import evaluate as evaluation
from matchmaker.matching.assignment import Outcome
from matchmaker.matching.columns import evaluator
from matchmaker.matching.columns.evaluator import OverworkError
from matchmaker.matching.explanation.counts import Counts, notes
from tests.limits import fields

pytestmark = pytest.mark.slow


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
            f"the job's requirements: {state.too_many_steps(evaluator.allowance(203))}; "
            f"the job's rank: {state.too_many_steps(evaluator.allowance(203))}"
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


def test_a_part_that_takes_too_much_is_not_taken_for_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(fields(LIMITS), "flat", 200_000)
    monkeypatch.setitem(fields(LIMITS), "each", 40)
    ads = [ClassAd({"Name": f"n{n}", "Note": "x" * (4 * n), "Cpus": n % 3}) for n in range(400)]
    long = "(TARGET.Cpus > 0 ? strcat(TARGET.Note, TARGET.Note) : 1)"
    for text in (f"{long} is error", f"isError({long})", f"!({long} isnt error)"):
        found = Pool(ads).match(parse_ad(f"[ Requirements = {text} ]"))
        assert len(found) == 0
        assert found.error is not None


def test_one_stranger_is_not_asked_about_all_the_others() -> None:
    ads = plain(300)
    for number, ad in enumerate(ads):
        ad["Load"] = number / 300
    ads[7] = hostile(7, "Requirements")
    ads[7]["Memory"] = parse_ad('[ a = strcat("x", Load) ]')["a"]
    pool = Pool(ads)
    found = pool.match(parse_ad("[ Requirements = true ]"))
    assert len(found) == 299
    reason = state.too_many_steps(evaluator.allowance(300))
    assert found.error == f"the slot's requirements: {reason}"


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps of each evaluation of the scalar form, as they are made."""
    made: list[int] = []
    counted = evaluate.evaluate_counted

    def watched(*given: Any) -> tuple[Any, state.Budget]:
        value, used = counted(*given)
        made.append(used.steps)
        return value, used

    for module in (evaluator, evaluation):
        monkeypatch.setattr(module, "evaluate_counted", watched)
    return made


def nested(inner: str, deep: int) -> str:
    """A call that evaluates `inner` as often as the list has elements, to the power of `deep`."""
    for _ in range(deep):
        inner = f"size(evalInEachContext({inner}, MY.L))"
    return inner


ELEMENTS = "L = {" + ", ".join(f"[i = {n}]" for n in range(50)) + "}"


def steps_of(slot: ClassAd) -> int:
    return evaluate.evaluate_counted(slot.expr("Requirements"), slot, OWNER)[1].steps


OWNER = parse_ad('[ Owner = "ana"; Requirements = TARGET.Cpus > 2; Rank = TARGET.Memory ]')


def good(count: int) -> list[ClassAd]:
    text = '[ Name = "n{0}"; Cpus = {1}; Memory = {2}; Requirements = TARGET.Owner != "eve" ]'
    return [parse_ad(text.format(n, n % 8, 1000 + n)) for n in range(count)]


def greedy(count: int) -> list[ClassAd]:
    text = f"Cpus = 8; {ELEMENTS}; Requirements = {nested('i', 3)}"
    return [parse_ad(f'[ Name = "h{n}"; {text} > 0 && {n} >= 0 ]') for n in range(count)]


def test_greedy_slots_within_their_bounds_are_errors_alone(steps: list[int]) -> None:
    """Each takes nearly as much as one evaluation may."""
    ads = [*good(1000), *greedy(120)]
    assert match(OWNER, ads[-1]).matched
    assert steps_of(ads[-1]) > 400_000
    pool = Pool(ads)
    expected = [ad.eval("Name") for ad in ads[:1000] if match(OWNER, ad).matched]
    steps.clear()
    found = pool.match(OWNER)
    assert list(found.keys) == expected
    each = evaluator.allowance(1120)
    assert found.error == f"the slot's requirements: {state.too_many_steps(each)}"
    assert sum(steps) <= LIMITS.flat + 1120 * LIMITS.each
    assert list(pool.assign([OWNER] * 3).placements[0].slot or "") == list("n999")
    explained = pool.explain(OWNER)
    assert (explained.matched, explained.refused_by_ads) == (len(expected), 120)
    assert found.error == f"the slot's requirements: {explained.error}"
    # Where there are few slots, each has as much as a pair has.
    assert len(Pool(ads[-2:]).match(OWNER)) == 2


GREEDY_JOB = f"""[ {ELEMENTS}; Requirements = {nested("i + TARGET.Cpus", 4)} > 0
                   && {nested("i + TARGET.Memory", 4)} > 0;
                   RequestCpus = {nested("i", 4)}; JobPrio = {nested("i", 4)} ]"""


def test_a_greedy_job_takes_what_the_pool_allows_it(
    steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fields(LIMITS), "flat", LIMITS.flat // 10)
    for count in (40, 200):
        pool, job = Pool(good(count)), parse_ad(GREEDY_JOB)
        most = LIMITS.flat + count * LIMITS.each
        steps.clear()
        found = pool.match(job)
        assert len(found) == 0
        each = evaluator.allowance(count)
        assert found.error == f"the job's requirements: {state.too_many_steps(each)}"
        assert sum(steps) <= 2 * most
        steps.clear()
        explained = pool.explain(job)
        assert explained.matched == 0
        assert explained.error is not None
        assert sum(steps) <= 4 * most
        steps.clear()
        first, second = pool.assign([job, OWNER]).placements
        assert (first.outcome, second.outcome) == (Outcome.ERROR, Outcome.PLACED)
        assert "evaluation took more than" in first.reason
        assert sum(steps) <= 4 * most + 4 * CLASSAD_LIMITS.steps


def test_what_is_evaluated_once_for_many_may_take_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fields(LIMITS), "each", 100)
    monkeypatch.setitem(fields(LIMITS), "flat", 0)
    text = f'Text = "{"x" * 8000}"; Requirements = size(strcat(MY.Text, MY.Text)) > 0'
    ads = [parse_ad(f'[ Name = "n{n}"; {text} ]') for n in range(300)]
    assert len(Pool(ads).match(ClassAd())) == 300
    job = parse_ad(f"[ {text} && TARGET.Name != 3 ]")
    assert len(Pool(ClassAd({"Name": n}) for n in range(300)).match(job)) == 299


def test_long_texts_are_counted_where_columns_compare_them() -> None:
    long = "x" * 500_000
    ads = [ClassAd({"Name": f"n{n}", "Note": f"{long}{n}"}) for n in range(20)]
    job = ClassAd({"Note": f"{long}7"})
    job["Requirements"] = parse_ad("[ a = " + "MY.Note == TARGET.Note && " * 20 + "true ]")["a"]
    found = Pool(ads).match(job)
    assert len(found) == 0
    assert found.error is not None


SLOW = "size(strcat(TARGET.Name, TARGET.Name, TARGET.Name))"


def test_an_answer_does_not_depend_on_what_was_asked_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ads = [ClassAd({"Name": f"n{n}", "Load": n / 700}) for n in range(100)]
    one, other = f"{SLOW} > 3", f"{SLOW} > 4"
    both = parse_ad(f"[ Requirements = {one} && {other} ]")
    monkeypatch.setitem(fields(LIMITS), "flat", 0)
    for each in range(10, 100, 5):
        monkeypatch.setitem(fields(LIMITS), "each", each)
        fresh, used = Pool(ads), Pool(ads)
        for clause in (one, other):
            used.match(parse_ad(f"[ Requirements = {clause} ]"))
        assert fresh.match(both).error == used.match(both).error
        assert fresh.match(both) == used.match(both)


def test_a_pool_may_have_narrower_limits_of_its_own() -> None:
    ads = [parse_ad(f'[ Name = "{n}"; Id = "x{n}" ]') for n in range(8)]
    doubled = "; ".join(f"z{n} = strcat(z{n + 1}, z{n + 1})" for n in range(8))
    job = parse_ad(f"[ Requirements = size([ {doubled}; z8 = TARGET.Id ].z0) > 0 ]")
    assert len(Pool(ads).match(job)) == 8
    narrow = Pool(ads, limits=PoolLimits(flat=800, each=100))
    narrow.forget()
    found = narrow.match(job)
    assert (len(found), found.error) == (
        0, "the job's requirements: evaluation took more than 200 steps"
    )  # fmt: skip
    assert "stopped after 1,600 steps" in str(narrow.explain(job).error)


def test_words_on_errors_that_take_too_much_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool([parse_ad('[ Name = "a"; Memory = "x" ]')])
    job = parse_ad("[ Requirements = TARGET.Memory + 1 > 3 ]")
    assert any("is an error" in each for each in pool.explain(job).notes)

    counts = Counts(pool.snapshot(), job)

    def too_much(*_: object) -> None:
        raise OverworkError

    monkeypatch.setattr(Counts, "fails", too_much)
    assert not any("is an error" in each for each in notes(counts))
