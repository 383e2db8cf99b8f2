"""A negotiation cycle gives each job what trying every slot for it, one by one, would give it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import Assignment, ClassAd, Expr, Outcome, Policy, Pool, Value, match, parse_expr
from matchmaker.classad.ad import literal
from matchmaker.classad.values import ERROR, MAX_INT, MIN_INT, UNDEFINED, is_error
from matchmaker.matching import candidates
from matchmaker.matching.columns import evaluator
from tests.cases import cases

REQUESTS = {"Cpus": 1, "Memory": 0, "Disk": 0, "GPUs": 0}
"""What a job takes of each resource if it does not say."""


@pytest.fixture(params=["as it comes", "few at a time, by column"], scope="module")
def form(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patched:
        if request.param != "as it comes":
            patched.setattr(candidates, "FIRST", 1)
            patched.setattr(candidates, "EACH", 0)
            patched.setattr(candidates, "ALIKE", 1)
            patched.setattr(evaluator, "FEW_ROWS", 0)
            patched.setattr(evaluator, "FEW", 0)
        yield request.param


# --- trying every slot ----------------------------------------------------------------------------


@attrs.frozen
class Tried:
    """What the plain way comes to: for each job its slot, rank and part, and the turns."""

    given: dict[int, tuple[str, float, dict[str, int | float]]]
    order: list[int]
    usage: dict[str, float]
    ads: dict[str, ClassAd]


def amount(value: Value) -> int | float | None:
    if not isinstance(value, (bool, int, float)) or not math.isfinite(value) or value < 0:
        return None
    if isinstance(value, float) and (value % 1 or value >= 2**53):
        return value
    return int(value)


def number(value: Value) -> float | None:
    plain = isinstance(value, (bool, int, float)) and not math.isnan(value)
    return float(value) if plain else None  # type: ignore[arg-type]


def asked(job: ClassAd, slot: ClassAd) -> dict[str, int | float] | None:
    """What a job asks of a slot, or None where that is no amount."""
    found = {}
    for name, default in REQUESTS.items():
        value = parse_expr(f"MY.Request{name}").eval(job, slot)
        wanted = amount(default if value is UNDEFINED else value)
        if wanted is None:
            return None
        if wanted:
            found[name] = wanted
    return found


def part(job: ClassAd, slot: ClassAd) -> dict[str, int | float] | None:
    """What a job would take of a partitionable slot, or None where that cannot be."""
    taken = asked(job, slot)
    if taken is None or any(n > (amount(slot.eval(name)) or 0) for name, n in taken.items()):
        return None
    return taken


def tried(slots: dict[str, ClassAd], jobs: list[ClassAd], shares: dict[str, float]) -> Tried:
    found = Tried({}, [], {}, {key: ad.copy() for key, ad in slots.items()})
    static = {key for key, ad in slots.items() if ad.eval("PartitionableSlot") is not True}
    free = {
        key
        for key, ad in slots.items()
        if ad.eval("State") is UNDEFINED or parse_expr('MY.State == "Unclaimed"').eval(ad) is True
        if ad.eval("START") is not False
    }
    waiting: dict[str, list[tuple[float, float, int]]] = {}
    for place, job in enumerate(jobs):
        group = job.eval("AccountingGroup")
        group = job.eval("Owner") if group is UNDEFINED else group
        if is_error(group) or is_error(job.eval("JobPrio")):
            continue
        priority, submitted = number(job.eval("JobPrio")) or 0.0, number(job.eval("QDate"))
        line = waiting.setdefault(group if isinstance(group, str) else "<none>", [])
        line.append((-priority, math.inf if submitted is None else submitted, place))
    found.usage.update(dict.fromkeys(waiting, 0.0))
    while any(waiting.values()):
        group = min(
            (group for group, line in waiting.items() if line),
            key=lambda name: (found.usage[name] / shares.get(name, 1.0), name),
        )
        turn = min(waiting[group])
        waiting[group].remove(turn)
        place = turn[2]
        found.order.append(place)
        job = jobs[place]
        options = []
        for key in free:
            ad = found.ads[key]
            outcome = match(job, ad)
            fits = asked(job, ad) is not None if key in static else part(job, ad) is not None
            if outcome.matched and fits:
                options.append((-(number(outcome.rank) or 0.0), key))
        if not options:
            continue
        fall, key = min(options)
        ad = found.ads[key]
        if key in static:
            own = {name: amount(ad.eval(name)) for name in REQUESTS}
            taken = {name: has for name, has in own.items() if has}
            free.remove(key)
        else:
            taken = part(job, ad) or {}
            has = {name: amount(ad.eval(name)) or 0 for name in taken}
            for name, wanted in taken.items():
                ad[name] = literal(amount(has[name] - wanted) or 0)
        found.given[place] = key, 0.0 - fall, taken
        found.usage[group] += taken.get("Cpus", 1)
    return found


def check(slots: list[ClassAd], jobs: list[ClassAd], shares: dict[str, float]) -> Assignment:
    held = {str(ad.eval("Name")): ad for ad in slots}
    before = {key: str(ad) for key, ad in held.items()}
    pool = Pool(slots)
    found = pool.assign(jobs, Policy(share=shares))
    expected = tried(held, jobs, shares)
    assert list(found.order) == expected.order
    given = {p.number: (p.slot, p.rank, p.taken) for p in found.placed}
    assert given == expected.given
    assert found.usage == expected.usage
    for key, left in found.left.items():
        assert left == {
            name: has for name in left if (has := amount(expected.ads[key].eval(name))) is not None
        }
    # The pool is as it was, and of each job something is said.
    assert {ad.eval("Name"): str(ad) for ad in pool} == before
    assert [p.number for p in found.placements] == list(range(len(jobs)))
    for placement in found.idle:
        assert placement.reason
        matches = [key for key, ad in held.items() if match(jobs[placement.number], ad).matched]
        if placement.outcome is Outcome.NO_MATCH:
            assert matches == []
        elif placement.outcome is Outcome.NO_ROOM:
            assert placement.reason.startswith(f"{len(matches)} slot")
    return found


# --- what is tried --------------------------------------------------------------------------------


def some(*texts: str) -> st.SearchStrategy[Expr]:
    return st.sampled_from([parse_expr(text) for text in texts])


RANKS = some(
    "TARGET.Memory", "-TARGET.Memory", "TARGET.Cpus * 100 - TARGET.Memory", "TARGET.Memory > 150",
    "TARGET.Memory % 3", "TARGET.GPUs", "TARGET.Speed", '"best"', "TARGET.Memory / 0.0", "1",
)  # fmt: skip
WANTS = some(
    "TARGET.Memory >= MY.RequestMemory", "TARGET.Memory < 250", "TARGET.Cpus >= MY.RequestCpus",
    "TARGET.Cpus * 100 > TARGET.Memory", "TARGET.Memory % 100 == 0 || TARGET.Cpus == 1", "true",
    'TARGET.Arch == "x" && TARGET.Memory > 0', "isUndefined(TARGET.GPUs) || TARGET.GPUs < 2",
)  # fmt: skip
STARTS = some(
    "TARGET.RequestMemory <= MY.Memory && (TARGET.RequestCpus ?: 1) <= Cpus", "START",
    'TARGET.Owner != "ana"', "Memory >= 50", "Cpus * 50 <= Memory", "TARGET.JobPrio > 0", "true",
)  # fmt: skip
AMOUNTS = st.sampled_from([0, 1, 2, 3, 0.5, 2.0])
MEMORY = st.sampled_from([0, 50, 100, 150, 200, 300, 100.5])


def ads(
    always: dict[str, st.SearchStrategy[Any]], at_times: dict[str, st.SearchStrategy[Any]]
) -> st.SearchStrategy[ClassAd]:
    return st.fixed_dictionaries(always, optional=at_times).map(ClassAd)


JOBS = ads(
    {"RequestMemory": MEMORY},
    {
        "Owner": st.sampled_from(["ana", "ben", "cyd"]),
        "AccountingGroup": st.sampled_from(["physics", "chemistry"]),
        "JobPrio": st.integers(-1, 2),
        "QDate": st.integers(0, 2),
        "RequestCpus": AMOUNTS,
        "RequestGPUs": st.integers(0, 1),
        "RequestDisk": MEMORY | some("TARGET.Disk / 2", "MY.RequestMemory * 2"),
        "Requirements": WANTS,
        "Rank": RANKS,
    },
)
SLOTS = ads(
    {},
    {
        "PartitionableSlot": st.sampled_from([True, True, True, False]),
        "Cpus": st.integers(1, 6),
        "Memory": MEMORY.map(lambda memory: memory * 3) | some("Whole - 20", "700 - Cpus * 100"),
        "Whole": st.sampled_from([120, 320]),
        "Disk": MEMORY.map(lambda disk: disk * 2) | some("Cpus * 60", "Memory"),
        "GPUs": st.integers(0, 2),
        "Arch": st.just("x"),
        "Speed": st.sampled_from([1, 2.5]),
        "State": st.sampled_from(["Unclaimed", "Unclaimed", "Claimed"]),
        "START": some("Memory > 60", "TARGET.RequestCpus < 3 && SlotWeight > 1"),
        "SlotWeight": some("Cpus"),
        "Requirements": STARTS,
    },
)


def named(given: list[ClassAd]) -> list[ClassAd]:
    """The slots with names that are not in the order of the slots."""
    return [ClassAd(ad, Name=f"s{(place * 7 + 3) % 11}") for place, ad in enumerate(given)]


slots_of = st.lists(SLOTS, min_size=1, max_size=6).map(named)
shares_of = st.dictionaries(
    st.sampled_from(["ana", "ben", "physics", "<none>"]), st.sampled_from([0.5, 1.0, 3.0])
)


@st.composite
def crowds(draw: st.DrawFn, one: st.SearchStrategy[ClassAd] = JOBS) -> list[ClassAd]:
    """Jobs of which many are alike."""
    stock = draw(st.lists(one, min_size=1, max_size=4))
    return draw(st.lists(st.sampled_from(stock), min_size=1, max_size=14))


@given(slots_of, crowds(), shares_of)
@settings(max_examples=cases(300))
def test_a_cycle_gives_what_trying_every_slot_gives(
    form: str, slots: list[ClassAd], jobs: list[ClassAd], shares: dict[str, float]
) -> None:
    check(slots, jobs, shares)


ODD_VALUES = st.sampled_from([
    0, 1, 2, -1, True, False, 0.0, -0.0, 0.5, -0.5, 2**53, 2**53 + 1, 2.0**53, MAX_INT, MIN_INT,
    1e300, 5e-324, math.inf, -math.inf, math.nan, UNDEFINED, ERROR, "8 GB", "", "ana",
])  # fmt: skip
ODD_EXPRESSIONS = some(
    "1 / 0", "TARGET.Memory", "TARGET.Memory + 1", "MY.Memory", "TARGET.RequestMemory", "{ 1 }",
    "[ a = 1 ]", "TARGET.Memory - 1", "TARGET.Cpus is undefined", "RequestCpus", "Cpus", "MY",
)  # fmt: skip
ODD = ODD_VALUES | ODD_EXPRESSIONS
NAMES = ["Cpus", "Memory", "Disk", "GPUs"]
ODD_JOBS = st.dictionaries(
    st.sampled_from([
        *(f"Request{name}" for name in NAMES), "Owner", "AccountingGroup", "JobPrio", "QDate",
        "Requirements", "Rank", "Memory",
    ]),
    ODD | WANTS,
).map(ClassAd)  # fmt: skip
ODD_SLOTS = st.dictionaries(
    st.sampled_from([*NAMES, "PartitionableSlot", "State", "Requirements"]),
    ODD | st.just(True) | STARTS,
).map(ClassAd)


@given(st.lists(ODD_SLOTS, min_size=1, max_size=5).map(named), crowds(ODD_JOBS))
@settings(max_examples=cases(300))
def test_ads_that_make_no_sense_do_no_harm(
    form: str, slots: list[ClassAd], jobs: list[ClassAd]
) -> None:
    check(slots, jobs, {})


@given(slots_of, crowds(), shares_of)
@settings(max_examples=60)
def test_nothing_is_given_twice(
    form: str, slots: list[ClassAd], jobs: list[ClassAd], shares: dict[str, float]
) -> None:
    found = check(slots, jobs, shares)
    for ad in slots:
        key = str(ad.eval("Name"))
        given = [p.taken for p in found.placed if p.slot == key]
        if ad.eval("PartitionableSlot") is not True:
            assert len(given) <= 1
            continue
        for name in NAMES:
            if isinstance(ad._held.get(name.lower()), Expr):
                continue  # said in terms of what others take too
            has = amount(ad.eval(name)) or 0
            assert sum(taken.get(name, 0) for taken in given) <= has
            if key in found.left and name in found.left[key]:
                assert found.left[key][name] == has - sum(taken.get(name, 0) for taken in given)
