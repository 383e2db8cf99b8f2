"""Never or later: what a job matches when the jobs on the machines end."""

from __future__ import annotations

import random

import pytest

from matchmaker import ClassAd, Pool, match, parse_ad, parse_ads, parse_expr
from matchmaker.matching.explanation import Explanation
from matchmaker.matching.states import SlotState, state_of

NAMES = ("Cpus", "Memory", "GPUs")


def machine(name: str, free: tuple[int, int, int], whole: tuple[int, int, int]) -> ClassAd:
    text = "; ".join(
        f"{n} = {has}; TotalSlot{n} = {all_}"
        for n, has, all_ in zip(NAMES, free, whole, strict=True)
    )
    return parse_ad(
        f'[ Name = "{name}"; PartitionableSlot = true; State = "Unclaimed"; {text};'
        " Requirements = START && TARGET.RequestCpus <= MY.Cpus; START = true ]"
    )


def job(cpus: int = 1, memory: int = 1000, gpus: int = 0) -> ClassAd:
    return parse_ad(
        f"[ RequestCpus = {cpus}; RequestMemory = {memory}; RequestGPUs = {gpus}; Requirements ="
        " TARGET.Cpus >= RequestCpus && TARGET.Memory >= RequestMemory"
        " && TARGET.GPUs >= RequestGPUs ]"
    )


SLOTS = [
    *(machine(f"busy{n}", (0, 500, 0), (64, 256000, 4)) for n in range(12)),
    *(machine(f"small{n}", (2, 4000, 0), (8, 16000, 0)) for n in range(31)),
]


def explained(asked: ClassAd, slots: list[ClassAd] = SLOTS) -> Explanation:
    return Pool(slots).explain(asked)


def test_a_job_that_waits_is_told_from_one_that_never_runs() -> None:
    found = explained(job(16, 100_000))
    assert found.standing()[-1] == "0 free now, 12 when their jobs end, 31 never"
    assert str(found.later) in str(found)
    never = explained(job(16, 300_000)).later
    assert never is not None
    assert (never.now, never.later, never.never) == (0, 0, 43)
    some = explained(job(2, 2000)).later
    assert some is not None
    assert (some.now, some.later, some.never) == (31, 12, 0)


def test_advice_on_the_moment_is_marked_and_what_lasts_is_beside_it() -> None:
    found = explained(job(4, 2000))
    [first] = map(str, found.suggestions)
    assert first == (
        "RequestCpus 4 -> 2 gains 31 slots, all of them free now; only for now: without the "
        "change they match when their jobs end"
    )
    assert found.suggestions[0].sooner == 31
    never = explained(job(16, 300_000))
    assert never.suggestions == ()
    advice = [str(one) for one in never.advice()]
    assert "when their jobs end: RequestMemory 300000 -> 256000 gains 12 slots" in advice


def test_the_gpus_of_a_machine_come_back_with_their_jobs() -> None:
    slot = parse_ad(
        '[ Name = "g"; PartitionableSlot = true; State = "Unclaimed"; Cpus = 4; TotalSlotCpus = 8;'
        " GPUs = 1; TotalSlotGPUs = 2; AvailableGPUs = { GPUs_GPU_1a };"
        ' AssignedGPUs = "GPU-1a, GPU-2b, GPU-3c"; OfflineGPUs = "GPU-3c";'
        " GPUs_GPU_1a = [ Capability = 7.0 ]; GPUs_GPU_2b = [ Capability = 8.0 ];"
        " GPUs_GPU_3c = [ Capability = 9.0 ] ]"
    )

    def at(least: float) -> str:
        asked = parse_ad(
            f"[ RequireGPUs = Capability >= {least}; Requirements ="
            " countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= 1 ]"
        )
        return str(explained(asked, [slot]).later)

    assert [at(7.0), at(8.0), at(9.0)] == [
        "1 free now, 0 when their jobs end, 0 never",
        "0 free now, 1 when their jobs end, 0 never",
        "0 free now, 0 when their jobs end, 1 never",
    ]


BUSY = """Name = "g"; PartitionableSlot = true; State = "Unclaimed"; Cpus = 1; TotalSlotCpus = 8;
    GPUs = 1; TotalSlotGPUs = 2"""
USED = "GPUs_GPU_2b = [ Capability = 8.0 ]"
LISTED = "AvailableGPUs = { GPUs_GPU_1a }; GPUs_GPU_1a = [ Capability = 7.0 ]; GPUs_Count = 9"
BOTH = "0 free now, 1 when their jobs end, 0 never"
NEVER = "0 free now, 0 when their jobs end, 1 never"
PERHAPS = (
    "0 free now, 0 when their jobs end, 0 never, 1 perhaps: their ads do not describe the GPUs in"
    " use"
)


@pytest.mark.parametrize(
    ("slot", "least", "cpus", "expected"),
    [
        (f"{LISTED}; {USED}", 8.0, 4, BOTH),
        (f"{LISTED}; {USED}", 9.0, 4, NEVER),
        (LISTED, 8.0, 4, PERHAPS),
        (LISTED, 8.0, 9, NEVER),
        ("TotalSlotGPUs = 1; " + LISTED, 8.0, 4, NEVER),
        ("TotalSlotGPUs = undefined; TotalGPUs = 2; " + LISTED, 8.0, 4, PERHAPS),
        ("AvailableGPUs = { [ Capability = 7.0 ] }", 8.0, 4, PERHAPS),
        ("AvailableGPUs = { }", 8.0, 4, PERHAPS),
        ("AvailableGPUs = { [ Capability = 7.0 ], [ Capability = 7.1 ] }", 8.0, 4, NEVER),
        ('AssignedGPUs = "GPU-1a, GPU-2b"; ' + LISTED, 8.0, 4, PERHAPS),
        ("GPUs_GPU_1a = [ Capability = 7.0 ]", 8.0, 4, NEVER),
    ],
)
def test_gpus_that_an_ad_does_not_list_are_not_never(
    slot: str, least: float, cpus: int, expected: str
) -> None:
    asked = parse_ad(
        f"[ RequireGPUs = Capability >= {least}; RequestCpus = {cpus}; Requirements ="
        " TARGET.Cpus >= RequestCpus && countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= 1 ]"
    )
    other = parse_ad('[ Name = "o"; AvailableGPUs = { } ]')
    assert str(explained(asked, [parse_ad(f"[ {BUSY}; {slot} ]")]).later) == expected
    found = explained(asked, [parse_ad(f"[ {BUSY}; {slot} ]"), other]).later
    assert found is not None
    assert found.never == 1 + expected.count("1 never")


def test_more_gpus_than_a_machine_has_are_never() -> None:
    slot = parse_ad(f"[ {BUSY}; {LISTED} ]")
    for number, expected in ((2, PERHAPS), (3, NEVER)):
        asked = parse_ad(
            f"[ RequireGPUs = Capability >= 8.0; RequestGPUs = {number}; Requirements ="
            " countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs ]"
        )
        assert str(explained(asked, [slot]).later) == expected


def test_pools_without_partitionable_slots_say_nothing_of_it() -> None:
    assert explained(job(), [parse_ad('[ Name = "a"; TotalSlotCpus = 9 ]')]).later is None
    assert explained(job(), []).later is None


def test_dynamic_slots_are_part_of_their_machines() -> None:
    part = parse_ad('[ Name = "part"; DynamicSlot = true; State = "Claimed"; Cpus = 1 ]')
    found = explained(job(16, 100_000), [*SLOTS, part]).later
    assert found is not None
    assert (found.now, found.later, found.never) == (0, 12, 31)


def test_owners_keep_their_machines() -> None:
    slot = machine("own", (4, 4000, 0), (4, 4000, 0))
    slot["State"] = "Owner"
    assert str(explained(job(), [slot]).later) == (
        "0 free now, 0 when their jobs end, 0 never, 1 when their owners let them"
    )


def test_more_free_slots_than_are_gained_are_counted() -> None:
    # The change loses a claimed slot, and gains two free ones.
    slots = parse_ads("""
      [ Name = 1; State = "Claimed"; Memory = 9; Requirements = TARGET.Want == 8 ]
      [ Name = 2; State = "Unclaimed"; Memory = 5; Requirements = TARGET.Want < 6 ]
      [ Name = 3; State = "Unclaimed"; Memory = 5; Requirements = TARGET.Want < 6 ] """)
    found = explained(parse_ad("[ Want = 8; Requirements = TARGET.Memory > 1 ]"), [*slots])
    assert [(one.gain, one.free) for one in found.suggestions] == [(1, 2)]
    assert str(found.suggestions[0]) == "Want 8 -> 5 gains 1 slot, and 2 free ones more"


@pytest.mark.parametrize("seed", range(12))
def test_later_and_never_are_those_of_ads_of_whole_machines(seed: int) -> None:
    chance = random.Random(seed)

    def one(name: str) -> ClassAd:
        whole = chance.choice([2, 8, 64]), chance.choice([2000, 8000]), chance.choice([0, 4])
        slot = machine(name, tuple(chance.randint(0, most) for most in whole), whole)  # type: ignore[arg-type]
        if chance.random() < 0.3:
            del slot[f"TotalSlot{chance.choice(NAMES)}"]
        if chance.random() < 0.2:
            slot[chance.choice(NAMES)] = parse_expr("TotalSlotCpus / 2")
        if chance.random() < 0.2:
            del slot["PartitionableSlot"]
        slot["State"] = chance.choice(["Unclaimed", "Unclaimed", "Claimed", "Owner"])
        if chance.random() < 0.1:
            slot["START"] = parse_expr('TARGET.Owner == "ana"')
        return slot

    slots = [one(f"s{n}") for n in range(60)]
    for _ in range(4):
        asked = job(chance.choice([1, 4, 32]), chance.choice([1, 3000, 9000]), chance.randint(0, 2))
        found = explained(asked, slots)
        then = []
        for slot in slots:
            copy = slot.copy()
            if "PartitionableSlot" in slot:
                for name in NAMES:
                    if f"TotalSlot{name}" in slot:
                        copy[name] = slot.eval(f"TotalSlot{name}")
            then.append(copy)
        today = [match(asked, slot).matched for slot in slots]
        ever = [match(asked, one).matched or has for one, has in zip(then, today, strict=True)]
        now = [
            has and state_of(asked, slot) is SlotState.FREE
            for has, slot in zip(today, slots, strict=True)
        ]
        assert found.later is not None
        assert (found.later.now, found.later.never) == (sum(now), ever.count(False))
        owned = sum(
            whole and state_of(asked, slot) in (SlotState.OWNER, SlotState.SHUT, SlotState.OTHER)
            for whole, slot in zip(ever, then, strict=True)
        )
        assert found.later.other == owned
        for change in found.suggestions:
            gained = [
                match(change.job, slot).matched and not has
                for slot, has in zip(slots, today, strict=True)
            ]
            sooner = sum(a and b for a, b in zip(gained, ever, strict=True))
            assert change.sooner == sooner
