"""Several changes of a job together: they gain what they promise, and no fewer gain anything."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, Explanation, Pool, match, parse_ad, parse_ads, parse_expr
from matchmaker._limits import EXPLANATION_LIMITS as LIMITS
from matchmaker.classad.nodes import Expr
from matchmaker.classad.walks import conjunction
from matchmaker.matching.explanation import suggestions as searching

pytestmark = pytest.mark.slow


def explained(job: str, ads: str) -> Explanation:
    return Pool(parse_ads(ads)).explain(parse_ad(job))


SLOTS = """
[ Name = "a"; Arch = "X"; Cpus = 4; Memory = 4096; State = "Unclaimed" ]
[ Name = "b"; Arch = "X"; Cpus = 6; Memory = 8096; State = "Claimed" ]
[ Name = "c"; Arch = "X"; Cpus = 1; Memory = 8096; State = "Claimed" ]
"""


def test_what_helps_where_each_of_several_clauses_is_fatal() -> None:
    found = explained(
        '[ Requirements = TARGET.Arch == "ARM" && TARGET.Memory >= 900000 && TARGET.Cpus > 2 ]',
        SLOTS,
    )
    assert found.suggestions == ()
    assert str(found.joint) == (
        "2 changes together gain 2 slots, 1 of them free now (fewer changes gain nothing): "
        'drop clause 1, TARGET.Arch == "ARM"; change TARGET.Memory >= 900000 -> 4096 in clause 2'
    )
    assert found.joint is not None
    assert str(found.joint) in str(found)
    assert "drop clause 1" in found.html()
    assert str(found.joint.job["Requirements"]) == "TARGET.Memory >= 4096 && TARGET.Cpus > 2"


def test_one_attribute_may_please_clauses_of_both_sides() -> None:
    slots = '[ Name = "a"; Memory = 4; Disk = 9; Requirements = TARGET.RequestMemory <= Memory ]'
    found = explained(
        """[ RequestMemory = 8; Requirements = TARGET.Memory >= RequestMemory
        && TARGET.Disk >= 2 * RequestMemory && TARGET.Arch == "X" && Fits; Fits = TARGET.Gpu ]""",
        slots,
    )
    assert found.joint is not None
    assert [str(one) for one in found.joint.changes] == [
        "change RequestMemory 8 -> 4",
        'drop clause 3, TARGET.Arch == "X"',
        "drop clause 4, TARGET.Gpu",
    ]


def test_where_a_change_alone_gains_or_nothing_does_there_is_none() -> None:
    job = "[ Requirements = TARGET.Cpus > 99 && TARGET.Memory > 1 ]"
    assert explained(job, SLOTS).joint is None
    refusing = '[ Name = "a"; Requirements = false ]'
    assert explained("[ Requirements = TARGET.A == 1 && TARGET.B == 2 ]", refusing).joint is None
    assert explained("[ ]", "").joint is None


def test_beyond_twelve_clauses_the_words_say_that_not_all_was_tried() -> None:
    clauses = " && ".join(f"TARGET.Cpus >= {90 + n}" for n in range(14))
    found = explained(f"[ Requirements = {clauses} ]", SLOTS)
    assert found.joint is not None
    assert (found.joint.exact, found.joint.gain, len(found.joint.changes)) == (False, 3, 14)
    assert "(fewer may do: not all were tried)" in str(found.joint)


def test_a_search_that_takes_too_much_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    job = """[ A = 1; B = 2; C = 3; Requirements = TARGET.A > A && TARGET.B > B && TARGET.C > C
      && TARGET.D > 0 ]"""
    slots = '[ Name = "a"; A = 0; B = 0; C = 0; D = 0 ]'
    found = explained(job, slots)
    assert found.joint is not None
    assert (len(found.joint.changes), found.joint.exact) == (4, True)
    monkeypatch.setattr(searching, "LIMITS", LIMITS.__class__(joint=2))
    found = explained(job, slots)
    assert found.joint is not None
    assert (len(found.joint.changes), found.joint.exact) == (4, False)


# --- against brute force --------------------------------------------------------------------------

slots = st.lists(
    st.fixed_dictionaries({
        "Memory": st.sampled_from([1, 2, 3, 4, 6, 8]),
        "Cpus": st.integers(1, 4),
        "Arch": st.sampled_from(["X", "Y"]),
        "Requirements": st.sampled_from([
            "true", "false", "TARGET.Want < 6", "TARGET.Want <= MY.Memory", 'TARGET.Site == "B"',
            'TARGET.Site == "B" && TARGET.Want < 4', "TARGET.Nice",
        ]).map(parse_expr),
    }).map(ClassAd),
    max_size=8,
)  # fmt: skip
clauses = st.lists(
    st.sampled_from([
        "TARGET.Memory >= MY.Want", "TARGET.Memory > 5", "TARGET.Cpus >= 3", "TARGET.Cpus >= 9",
        'TARGET.Arch == "Z"', "MY.Want < TARGET.Cpus", "MY.Want > 6", 'TARGET.Arch == "X"',
        "TARGET.NoSuch", "TARGET.Memory < 2", "TARGET.Gpus >= 1",
    ]),
    min_size=1, max_size=5, unique=True,
)  # fmt: skip


def matching(job: ClassAd, ads: list[ClassAd]) -> int:
    return sum(match(job, ad).matched for ad in ads)


def gains(
    job: ClassAd, wanted: list[Expr], ads: list[ClassAd], size: int
) -> list[tuple[bool, int]]:
    """What each set of a size gains, and whether it only drops clauses."""
    before = matching(job, ads)
    found = []
    for want, site in product([None, *range(-1, 10)], [None, "B"]):
        changed = job.copy()
        for name, value in (("Want", want), ("Site", site)):
            if value is not None:
                changed[name] = value
        number = size - sum(value is not None for value in (want, site))
        for places in combinations(range(len(wanted)), number) if number >= 0 else ():
            kept = [clause for place, clause in enumerate(wanted) if place not in places]
            changed["Requirements"] = conjunction(kept)
            found.append((number == size, matching(changed, ads) - before))
    return found


@given(clauses, st.integers(0, 9), st.sampled_from(["A", "B"]), slots)
@settings(max_examples=60)
def test_the_smallest_set_is_the_smallest_and_gains_what_it_promises(
    texts: list[str], want: int, site: str, ads: list[ClassAd]
) -> None:
    wanted = list(map(parse_expr, texts))
    job = ClassAd(Want=want, Site=site, Requirements=conjunction(wanted))
    for number, ad in enumerate(ads):
        ad["Name"] = number
    found = Pool(ads).explain(job)
    if found.suggestions:
        assert found.joint is None
        return
    size = len(wanted) + 3 if found.joint is None else len(found.joint.changes)
    for fewer in range(1, size):
        assert max((gain for _, gain in gains(job, wanted, ads, fewer)), default=0) <= 0
    if found.joint is not None:
        assert found.joint.exact
        promised = matching(found.joint.job, ads)
        assert found.joint.matched == promised == matching(job, ads) + found.joint.gain
        others = [gain for drops, gain in gains(job, wanted, ads, size) if drops]
        assert found.joint.gain >= max(others, default=0)


def test_what_a_pool_held_before_does_not_spell_the_advice() -> None:
    wanted = parse_ad('[ Want = 2; Requirements = TARGET.Os == "linux" ]')
    pool = Pool([parse_ad('[ Name = "s0"; Requirements = TARGET.Os =?= "LINUX" ]')])
    pool.update(parse_ad('[ Name = "s1"; Requirements = TARGET.cpus == 2 ]'))
    pool.update(parse_ad('[ Name = "s0"; Requirements = TARGET.Cpus > 0 ]'))
    kept = str(pool.explain(wanted))
    assert kept == str(Pool(list(pool)).explain(wanted))
    assert "change Cpus undefined -> 2" in kept
