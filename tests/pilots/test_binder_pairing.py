"""Clients and free slots: who gets which, and why a client waits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import matchmaker as mm
from matchmaker.pilots.binder.exchange import pair, why_waiting

SLOTS = st.lists(
    st.builds(
        lambda cpus, wall: f"Cpus = {cpus}; Requirements = TARGET.Wall <= {wall}",
        st.integers(1, 3), st.sampled_from([10, 20]),
    ), max_size=8,
)  # fmt: skip
CLIENTS = st.lists(
    st.builds(
        lambda wall, cpus, rank: (
            f"[ Wall = {wall}; Requirements = TARGET.Cpus >= {cpus}; Rank = {rank} ]"
        ),
        st.sampled_from([5, 15, 25]), st.integers(1, 3),
        st.sampled_from(["TARGET.Cpus", "-TARGET.Cpus", "0", "undefined", '"x"']),
    ), max_size=8,
)  # fmt: skip


def one_by_one(slots: mm.Pool, waiting: dict[str, mm.ClassAd]) -> dict[str, str]:
    """The rule in its plainest form: the best for the first client is taken from the pool."""
    pairs = {}
    for id_, ad in waiting.items():
        for key in slots.top(ad, 1).keys:
            pairs[id_] = key
            slots.remove(key)
    return pairs


@settings(max_examples=60)
@given(slots=SLOTS, clients=CLIENTS)
def test_all_at_once_is_as_one_after_the_other(slots: list[str], clients: list[str]) -> None:
    ads = [mm.parse_ad(f'[ Name = "s{n}"; {text} ]') for n, text in enumerate(slots)]
    waiting = {f"c{n}": mm.parse_ad(text) for n, text in enumerate(clients)}
    assert pair(mm.Pool(ads), waiting.items()) == one_by_one(mm.Pool(ads), waiting)


def test_the_first_client_gets_the_only_slot() -> None:
    slots = mm.Pool(mm.parse_ads('[ Name = "s" ]'))
    assert pair(slots, [("z", mm.ClassAd()), ("a", mm.ClassAd())]) == {"z": "s"}
    assert slots.keys() == ["s"]


def test_more_clients_of_a_kind_than_are_ranked_at_first_all_get_slots() -> None:
    slots = mm.Pool(mm.ClassAd(Name=f"s{n:03}") for n in range(150))
    pairs = pair(slots, [(str(n), mm.ClassAd()) for n in range(200)])
    assert pairs == {str(n): f"s{n:03}" for n in range(150)}


def test_a_slot_refuses_a_client_that_its_pilot_cannot_serve_in_time() -> None:
    slots = mm.Pool([mm.parse_ad('[ Name = "s"; Requirements = TARGET.WallClock < 60 ]')])
    assert pair(slots, [("c", mm.ClassAd(WallClock=90))]) == {}
    assert "satisfy it, but refuse the job" in why_waiting(slots, mm.ClassAd(WallClock=90))


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ('[ Application = "blast" ]', "no pilot has the application blast; there are: render"),
        ('[ Application = "a\\n\\e[31m" ]', "no pilot has the application a"),
        ("[ Requirements = TARGET.Cpus > 9 ]", "0 of 2 match"),
        ("[ Requirements = error ]", "0 of 2 match"),
        ('[ Application = "render" ]', "all 1 slots that match are taken"),
    ],
)
def test_a_client_that_waits_learns_why(client: str, words: str) -> None:
    slots = mm.Pool(
        mm.parse_ads('[ Name = "a"; Cpus = 2; Applications = {"render"}; Requirements ='
                     ' TARGET.Application =?= "render" ] [ Name = "b"; Cpus = 1;'
                     " Applications = {3, undefined}; Requirements = false ]")
    )  # fmt: skip
    said = why_waiting(slots, mm.parse_ad(client))
    assert words in said
    assert said.isprintable()
    assert len(said) <= 1000


def test_many_applications_are_named_in_part() -> None:
    slots = mm.Pool([mm.ClassAd(Name="s", Applications=[f"app{n:02}" for n in range(2000)])])
    said = why_waiting(slots, mm.ClassAd(Application="x" * 5000))
    assert said.startswith("no pilot has the application xxx")
    assert len(said) <= 1000
