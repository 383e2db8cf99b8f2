"""Whether slots that match are free: by each attribute, in all words, and never by silence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker import ClassAd, Pool, parse_ad, parse_ads, parse_expr
from matchmaker.matching.states import NAMES, SlotState, SlotStates, in_words, state_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("slot", "state"),
    [
        ('[ State = "Unclaimed" ]', SlotState.FREE),
        ('[ State = "unclaimed"; Activity = "Benchmarking" ]', SlotState.FREE),
        ("[ Available = true ]", SlotState.FREE),
        ('[ State = "Unclaimed"; Start = TARGET.Owner == "ana" ]', SlotState.FREE),
        ('[ State = "Claimed"; Activity = "Busy" ]', SlotState.CLAIMED),
        ('[ State = "Claimed"; Activity = "Suspended" ]', SlotState.CLAIMED),
        ('[ State = "Preempting"; Activity = "Vacating" ]', SlotState.CLAIMED),
        ('[ Activity = "Busy" ]', SlotState.CLAIMED),
        ('[ State = "Claimed"; Activity = "Retiring" ]', SlotState.DRAINING),
        ('[ State = "Drained" ]', SlotState.DRAINING),
        ('[ State = "Unclaimed"; Draining = true ]', SlotState.DRAINING),
        ('[ State = "Owner" ]', SlotState.OWNER),
        ('[ State = "Matched" ]', SlotState.RESERVED),
        ('[ State = "Backfill" ]', SlotState.OTHER),
        ('[ State = "Unclaimed"; Available = false ]', SlotState.UNAVAILABLE),
        ("[ Available = false ]", SlotState.UNAVAILABLE),
        ('[ State = "Unclaimed"; PartitionableSlot = true; Cpus = 0 ]', SlotState.FULL),
        ('[ State = "Unclaimed"; Start = false ]', SlotState.SHUT),
        ('[ State = "Unclaimed"; Start = TARGET.Owner == "ben" ]', SlotState.SHUT),
        # Nothing of this says that the slot is free.
        ("[ ]", SlotState.UNSAID),
        ('[ Activity = "Idle" ]', SlotState.UNSAID),
        ("[ State = 1 ]", SlotState.UNSAID),
        ("[ State = error; Available = true ]", SlotState.UNSAID),
        ('[ State = "Unclaimed"; Available = "no" ]', SlotState.UNSAID),
        ('[ State = "Unclaimed"; Start = undefined ]', SlotState.UNSAID),
        ('[ State = "Unclaimed"; Start = TARGET.NoSuch > 1 ]', SlotState.UNSAID),
        ('[ State = "Unclaimed"; Start = "yes" ]', SlotState.UNSAID),
        ('[ State = TARGET.Wish; Wish = "Unclaimed" ]', SlotState.UNSAID),
    ],
)
def test_the_state_of_a_slot(slot: str, state: SlotState) -> None:
    job = parse_ad('[ Owner = "ana"; Wish = "Unclaimed" ]')
    assert state_of(job, parse_ad(slot)) is state
    ad = parse_ad(slot)
    ad["Name"] = "a"
    found = Pool([ad]).explain(job)
    assert found.states == {state.value: found.matched}


def test_a_pool_may_have_names_of_its_own() -> None:
    names = {"State": "Slot Stand", "Start": "Lets"}
    slots = list(
        parse_ads("""
      [ Name = "a"; 'Slot Stand' = "Unclaimed"; State = "Claimed" ]
      [ Name = "b"; 'Slot Stand' = "Claimed"; State = "Unclaimed" ]
      [ Name = "c"; 'Slot Stand' = "Unclaimed"; Lets = TARGET.Cpus > 4; Start = true ]""")
    )
    job = parse_ad("[ Cpus = 1 ]")
    assert Pool(slots).explain(job, names=names).states == {"free": 1, "claimed": 1, "shut": 1}
    assert state_of(job, slots[0], names) is SlotState.FREE
    assert Pool(slots).explain_pair(job, "b", names=names).state is SlotState.CLAIMED
    with pytest.raises(ValueError, match="Stat is none of State, Activity, Available"):
        Pool(slots).explain(job, names={"Stat": "x"})


def test_free_slots_are_counted_among_those_that_match() -> None:
    pool = Pool(
        parse_ads("""
      [ Name = "a"; Cpus = 4; State = "Unclaimed" ] [ Name = "b"; Cpus = 8; State = "Claimed" ]
      [ Name = "c"; Cpus = 8; State = "Drained" ] [ Name = "d"; Cpus = 8 ]
      [ Name = "e"; Cpus = 1; State = "Unclaimed" ] [ Name = "f"; Cpus = 2; State = "Owner" ]""")
    )
    found = pool.explain(parse_ad("[ Requirements = TARGET.Cpus > 3 ]"))
    assert found.states == {"free": 1, "claimed": 1, "draining": 1, "unsaid": 1}
    assert found.summary() == "4 of 6 match, 1 of them free now"
    said = "not free: 1 claimed, 1 draining; 1 does not say whether it is free"
    assert str(found).splitlines()[2:4] == [found.summary(), said]
    assert [str(s) for s in found.suggestions] == [
        "TARGET.Cpus > 3 -> 0 gains 2 slots, 1 of them free now",
        "dropping clause 1, TARGET.Cpus > 3, gains 2 slots, 1 of them free now",
        "TARGET.Cpus > 3 -> 1 gains 1 slot, and it is not free now",
    ]
    assert [s.free for s in found.suggestions] == [1, 1, 0]


@pytest.mark.parametrize(
    ("states", "summary", "words"),
    [
        ("U U", "2 of 2 match, all of them free now", ""),
        ("U", "1 of 1 match, and it is free now", ""),
        ("C", "1 of 1 match, and it is not free now", "not free: 1 claimed"),
        ("C C", "2 of 2 match, none of them free now", "not free: 2 claimed"),
        ("C -", "2 of 2 match, none of them known to be free now",
         "not free: 1 claimed; 1 does not say whether it is free"),
        ("U - -", "3 of 3 match, 1 of them free now", "2 do not say whether they are free"),
        ("- -", "2 of 2 match", "none says whether it is free"),
    ],
)  # fmt: skip
def test_how_it_is_put(states: str, summary: str, words: str) -> None:
    ads = [
        ClassAd(Name=n, **({} if s == "-" else {"State": {"U": "Unclaimed", "C": "Claimed"}[s]}))
        for n, s in enumerate(states.split())
    ]
    found = Pool(ads).explain(ClassAd())
    assert (found.summary(), in_words(found.states)) == (summary, words)


_VALUES = st.sampled_from([
    '"Owner"', '"Unclaimed"', '"CLAIMED"', '"Drained"', '"Matched"', '"Preempting"', '"Busy"',
    '"Retiring"', '"Idle"', "true", "false", "1", "0", "undefined", "error", "TARGET.Want",
    "TARGET.Want > 3", "MY.Cpus < 4", "{true}", '"odd"',
])  # fmt: skip


@given(
    st.lists(st.dictionaries(st.sampled_from([*NAMES, "Cpus", "PartitionableSlot"]), _VALUES)),
    st.dictionaries(st.sampled_from(["Want", "My", "Target"]), _VALUES),
)
def test_many_are_as_each_alone(slots: list[dict[str, str]], asking: dict[str, str]) -> None:
    job = ClassAd({name: parse_expr(text) for name, text in asking.items()})
    ads = [
        ClassAd({"Name": n} | {name: parse_expr(text) for name, text in slot.items()})
        for n, slot in enumerate(slots)
    ]
    view = Pool(ads).snapshot()._view
    codes = SlotStates.of(view).codes(job, view.rows()).tolist()
    assert [list(SlotState)[code] for code in codes] == [state_of(job, ad) for ad in ads]
