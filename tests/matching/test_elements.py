"""Clauses that ask each ad of a list, such as the GPUs of a slot: which element fails which."""

from __future__ import annotations

import pytest

from matchmaker import ClassAd, Pool, match, parse_ad, parse_expr
from matchmaker.matching.explanation import Explanation
from matchmaker.matching.pair import clauses, refusal

REQUIRES = "Capability >= 8.0 && GlobalMemoryMb >= 40000"
COUNTED = "countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= MY.RequestGPUs"

GPUS = {
    "t4": "Capability = 7.5; GlobalMemoryMb = 15000",
    "v100": "Capability = 7.0; GlobalMemoryMb = 32000",
    "a100": "Capability = 8.0; GlobalMemoryMb = 40000",
    "a10": "Capability = 8.6; GlobalMemoryMb = 23000",
    "titan": "Capability = 7.0; GlobalMemoryMb = 48000",
}


def slot(name: str, *gpus: str) -> ClassAd:
    """A slot as HTCondor 25 describes it: the list names attributes that hold the GPUs' ads."""
    named = ", ".join(f"GPUs_{gpu}" for gpu in gpus)
    ads = "; ".join(f'GPUs_{gpu} = [ Id = "{gpu}"; {GPUS[gpu]} ]' for gpu in gpus)
    return parse_ad(
        f'[ Name = "{name}"; State = "Unclaimed"; GPUs = {len(gpus)};'
        f" AvailableGPUs = {{ {named} }}; {ads} ]"
    )


def job(requires: str = REQUIRES, count: int = 1, clause: str = COUNTED) -> ClassAd:
    return parse_ad(
        f"[ RequestGPUs = {count}; RequireGPUs = {requires}; Requirements = TARGET.GPUs > 0"
        f" && {clause} ]"
    )


SLOTS = [
    slot("old", "t4", "v100"), slot("older", "v100"), slot("big", "titan"),
    slot("small", "a10", "t4"), slot("two", "titan", "titan"),
]  # fmt: skip


def explained(asked: ClassAd, slots: list[ClassAd] = SLOTS) -> Explanation:
    found = Pool(slots).explain(asked)
    for one in found.suggestions:
        # What is promised is what matching gives.
        assert one.matched == sum(match(one.job, ad).matched for ad in slots)
        assert one.gain == one.matched - found.matched
    return found


def test_each_gpu_says_which_condition_it_fails_and_by_how_much() -> None:
    pair = Pool(SLOTS).explain_pair(job(), "small")
    assert [str(one) for one in pair.job_clauses[2:]] == [
        "2.1   a10: GlobalMemoryMb >= 40000 is false (GlobalMemoryMb = 23000), 17000 too low",
        "2.2   t4: Capability >= 8.0 is false (Capability = 7.5), 0.5 too low",
        "2.2   t4: GlobalMemoryMb >= 40000 is false (GlobalMemoryMb = 15000), 25000 too low",
    ]
    good = Pool([slot("good", "t4", "a100")]).explain_pair(job(), "good")
    assert str(good.job_clauses[-1]) == f"2.2   a100: {REQUIRES} is true"


def test_no_fact_is_false() -> None:
    found = clauses(job(), SLOTS[3])[1]
    assert found.facts == (
        ("countMatches(MY.RequireGPUs, TARGET.AvailableGPUs)", 0),
        ("size(TARGET.AvailableGPUs)", 2), ("RequestGPUs", 1),
    )  # fmt: skip
    without = refusal(parse_ad(f"[ RequestGPUs = 1; Requirements = {COUNTED} ]"), ClassAd())
    assert without is not None
    assert str(without).endswith(" = 0, AvailableGPUs = undefined, RequestGPUs = 1)")


def test_a_pool_counts_the_elements_of_the_slots_that_fail() -> None:
    [found] = explained(job()).elements
    assert str(found) == (
        "clause 2 refuses 5 slots: 0 of their 8 elements of TARGET.AvailableGPUs satisfy"
        " RequireGPUs"
    )
    assert [(c.text, c.matched, c.cumulative, c.near, c.nearest) for c in found.conditions] == [
        ("Capability >= 8.0", 1, 1, 3, "Capability = 7.0, 1 too low"),
        ("GlobalMemoryMb >= 40000", 3, 0, 1, "GlobalMemoryMb = 23000, 17000 too low"),
    ]
    assert str(found) in str(explained(job()))


def test_advice_is_on_the_condition() -> None:
    found = [str(one) for one in explained(job()).suggestions]
    free = "all of them free now"
    assert f"RequireGPUs: Capability >= 8.0 -> 7.0 gains 2 slots, {free}" in found
    one = "gains 1 slot, and it is free now"
    assert f"RequireGPUs: GlobalMemoryMb >= 40000 -> 23000 {one}" in found
    assert any(text.startswith("dropping condition 1 of RequireGPUs, Capability") for text in found)


NONE_HAS = "no element of TARGET.AvailableGPUs has"
REQUIRE = "RequireGPUs"
MEANT = "did you mean Capability?"


@pytest.mark.parametrize(
    ("requires", "note"),
    [
        ("Capabilty >= 8 && GlobalMemoryMb > 1", f"{NONE_HAS} Capabilty ({REQUIRE}); {MEANT}"),
        ("Zone > 1", f"{NONE_HAS} Zone ({REQUIRE})"),
        (
            'Capability > "x"',
            'RequireGPUs: Capability > "x" is an error: real > string has no meaning',
        ),
    ],
)
def test_a_name_that_no_element_has_and_an_error_are_told(requires: str, note: str) -> None:
    assert explained(job(requires)).notes == (note,)
    assert note in str(explained(job(requires)))
    assert explained(job()).notes == ()


def test_of_text_the_condition_says_what_elements_have() -> None:
    [found] = explained(job('Id =?= "T4" && Id == "h100"')).elements
    assert [str(one) for one in found.conditions] == [
        'Id =?= "T4" (nearest: Id = "t4")', 'Id == "h100" (nearest: Id = "titan")',
    ]  # fmt: skip
    [found] = explained(job("regexp(Id, Other)")).elements
    assert str(found.conditions[0]) == "regexp(Id, Other)"
    texts = [str(one) for one in explained(job('Id is "T4"')).suggestions]
    assert 'RequireGPUs: Id =?= "T4" -> "t4" gains 2 slots, all of them free now' in texts


def test_as_many_elements_as_wanted_must_satisfy_it() -> None:
    two = explained(job(count=2))
    texts = [str(one) for one in two.suggestions]
    assert "RequireGPUs: Capability >= 8.0 -> 7.0 gains 1 slot, and it is free now" in texts
    fewer = explained(job("Capability > 7", 2), [slot("a", "a100", "v100"), slot("b", "v100")])
    assert any(str(one).startswith("RequestGPUs 2 -> 1 gains 1") for one in fewer.suggestions)
    beyond = COUNTED.replace(">=", ">")
    fewer = explained(job("Capability > 7", 2, beyond), [slot("a", "a100", "a10")])
    assert any(str(one).startswith("RequestGPUs 2 -> 1 gains 1") for one in fewer.suggestions)


EACH = "evalInEachContext(Capability, TARGET.AvailableGPUs)"


@pytest.mark.parametrize(
    ("clause", "advice"),
    [
        (f'anyCompare(">=", {EACH}, 9.0)', "clause 2: Capability >= 9.0 -> 7.0 gains 5 slots"),
        (f"member(9.0, {EACH})", "clause 2: Capability == 9.0 -> 7.0 gains 4 slots"),
        (
            "member(true, evalInEachContext(9.0 <= Capability, TARGET.AvailableGPUs))",
            "clause 2: Capability >= 9.0 -> 7.0 gains 5 slots",
        ),
        (
            "countMatches(Capability > 9, TARGET.AvailableGPUs) > 0",
            "clause 2: Capability > 9 -> 6 gains 5 slots",
        ),
        (
            "countMatches(Capability > 5, TARGET.AvailableGPUs) >= 4",
            "clause 2: countMatches(Capability > 5, TARGET.AvailableGPUs) 4 -> 1 gains 5 slots",
        ),
        (
            '1 <= countMatches(Id == "h100", TARGET.AvailableGPUs)',
            'clause 2: Id == "h100" -> "t4" gains 2 slots',
        ),
    ],
)  # fmt: skip
def test_each_spelling_has_its_advice(clause: str, advice: str) -> None:
    found = explained(job(clause=clause))
    assert found.matched == 0
    assert any(str(one).startswith(advice) for one in found.suggestions), found.suggestions


def test_a_name_means_in_an_element_what_it_means_there() -> None:
    # The job has attributes that are called like those of the elements.
    asked = job()
    asked["Capability"] = 99
    asked["GlobalMemoryMb"] = parse_expr("1 + 1")
    assert explained(asked).elements == explained(job()).elements


@pytest.mark.parametrize(
    "held", ["{}", "undefined", "7", "{1, 2}", "{[a = 1], undefined}", "error", '"a"']
)
def test_lists_that_are_none_do_no_harm(held: str) -> None:
    ad = parse_ad(f'[ Name = "a"; GPUs = 1; AvailableGPUs = {held} ]')
    found = explained(job(), [ad])
    assert found.matched == 0
    assert str(Pool([ad]).explain_pair(job(), "a")).startswith("the job refuses a")


def test_many_long_lists_are_counted_and_come_to_an_end() -> None:
    ads = ", ".join(f"[ Capability = {n} ]" for n in range(500))
    slots = [parse_ad(f"[ Name = {n}; GPUs = 1; AvailableGPUs = {{{ads}}} ]") for n in range(200)]
    found = Pool(slots).explain(job(" && ".join(f"Capability > {n}" for n in range(500, 560))))
    assert found.matched == 0
    assert any("not all changes" in note for note in found.notes) or found.error
