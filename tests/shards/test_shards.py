"""Any number of shards, in any order of arrival, answer as one pool does, byte by byte."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, Matches, Policy, Pool, Shards, parse_ad, parse_expr
from matchmaker.shards import ShardError
from matchmaker.shards.shard import marked
from tests.property.test_assignment import (
    ODD_JOBS,
    ODD_SLOTS,
    crowds,
    named,
    shares_of,
    slots_of,
)
from tests.shards.inline import Inline, written

QUICK = [Phase.explicit, Phase.reuse, Phase.generate]
"""An example makes shards many times over, and takes too long for a search for a shorter one."""


def same_matches(one: Matches, other: Matches) -> None:
    assert one == other
    assert one.rows == other.rows
    assert one.error == other.error
    # NaN and the sign of zero too.
    assert one.rank_array.tobytes() == other.rank_array.tobytes()


def same_answers(shards: Shards, pool: Pool, jobs: list[ClassAd], policy: Policy) -> None:
    for job, found in zip(jobs, shards.match_many(jobs), strict=True):
        same_matches(found, pool.match(job))
        same_matches(shards.top(job, 2), pool.top(job, 2))
        assert shards.top(job, 2, tie=random.Random(3)) == pool.top(job, 2, tie=random.Random(3))
        ours, theirs = shards.explain(job), pool.explain(job)
        assert (ours, str(ours)) == (theirs, str(theirs))
    whole, spread = pool.assign(jobs, policy), shards.assign(jobs, policy)
    assert written(spread) == written(whole)


def update_both(shards: Shards, pool: Pool, ads: list[ClassAd], gone: list[str]) -> None:
    shards.update(ads, gone)
    for key in gone:
        pool.remove(key)
    for ad in ads:
        pool.update(ad)


@given(slots_of, crowds(), shares_of, st.integers(1, 7), st.randoms(use_true_random=False))
@settings(max_examples=15, phases=QUICK)
def test_shards_answer_as_one_pool(
    slots: list[ClassAd],
    jobs: list[ClassAd],
    shares: dict[str, float],
    count: int,
    chance: random.Random,
) -> None:
    with Shards(Pool(slots), Inline(chance), shards=count) as shards:
        same_answers(shards, Pool(slots), jobs, Policy(share=shares))


@given(
    st.lists(ODD_SLOTS, min_size=1, max_size=5).map(named),
    crowds(ODD_JOBS),
    st.integers(1, 7),
    st.randoms(use_true_random=False),
)
@settings(max_examples=15, phases=QUICK)
def test_ads_that_make_no_sense_are_answered_as_in_one_pool(
    slots: list[ClassAd], jobs: list[ClassAd], count: int, chance: random.Random
) -> None:
    with Shards(Pool(slots), Inline(chance), shards=count) as shards:
        same_answers(shards, Pool(slots), jobs, Policy())


@given(
    slots_of,
    st.lists(st.tuples(slots_of, st.sets(st.integers(0, 10), max_size=2)), max_size=3),
    crowds(),
    st.integers(1, 5),
    st.randoms(use_true_random=False),
)
@settings(max_examples=12, phases=QUICK)
def test_updates_come_as_in_one_pool(
    slots: list[ClassAd],
    updates: list[tuple[list[ClassAd], set[int]]],
    jobs: list[ClassAd],
    count: int,
    chance: random.Random,
) -> None:
    pool = Pool(slots)
    with Shards(pool, Inline(chance), shards=count) as shards:
        before, then = shards.snapshot(), [pool.match(job) for job in jobs]
        for ads, numbers in updates:
            gone = [f"s{number}" for number in sorted(numbers) if f"s{number}" in pool]
            update_both(shards, pool, ads, gone)
            assert len(shards) == len(pool)
            same_answers(shards, pool, jobs, Policy())
        assert list(before.match_many(jobs)) == then
        assert shards.epoch == len(updates)


@given(
    slots_of,
    st.lists(st.tuples(slots_of, st.sets(st.integers(0, 10), max_size=3)), min_size=2, max_size=6),
    st.integers(2, 4),
    st.randoms(use_true_random=False),
)
@settings(max_examples=25, phases=QUICK)
def test_many_updates_become_one_that_comes_to_the_same(
    slots: list[ClassAd],
    updates: list[tuple[list[ClassAd], set[int]]],
    chain: int,
    chance: random.Random,
) -> None:
    pool = Pool(slots)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("matchmaker.shards.shards.CHAIN", chain)
        with Shards(pool, Inline(chance), shards=2) as shards:
            for ads, numbers in updates:
                gone = [f"s{number}" for number in sorted(numbers) if f"s{number}" in pool]
                update_both(shards, pool, ads, gone)
                every = parse_ad("[Requirements = true]")
                same_matches(shards.match(every), pool.match(every))
                assert all(shards[key] == pool[key] for key in tuple(pool.keys()))
                assert all(len(one.changes) < chain for one in shards._made)


def test_a_file_that_is_replaced_is_said(tmp_path: Path) -> None:
    first, second = Pool(slots(3)), Pool(slots(4))
    first.save(tmp_path / "pool")
    with Shards(tmp_path / "pool", Inline(random.Random(1))) as shards:
        every = parse_ad("[Requirements = true]")
        assert len(shards.match(every)) == 3
        second.save(tmp_path / "pool")
        # By chance the shard is made from its file again.
        with pytest.raises(ShardError, match=r"pool: the file is another than when"):
            assert {len(shards.match(every)) for _ in range(100)} == {3}


def test_no_checksum_is_asked_of_a_divided_pool() -> None:
    class Asked(Inline):
        def submit(self, function: Any, *args: Any, **options: Any) -> Any:
            assert function is not marked
            return super().submit(function, *args, **options)

    with Shards(Pool(slots(4)), Asked(random.Random(1)), shards=2) as shards:
        assert len(shards) == 4


def slots(count: int, seed: int = 7) -> list[ClassAd]:
    chance = random.Random(seed)
    return [
        ClassAd(
            Name=f"slot{number}",
            Cpus=chance.randrange(1, 9),
            Memory=chance.randrange(1, 99) * 100,
            KFlops=chance.randrange(50),
            PartitionableSlot=chance.random() < 0.5,
        )
        for number in range(count)
    ]


def jobs(count: int, seed: int = 7) -> list[ClassAd]:
    chance = random.Random(seed)
    ranks = "TARGET.KFlops", "-TARGET.Memory", "TARGET.Cpus", "0"
    return [
        parse_ad(
            f'[ Owner = "u{number % 3}"; RequestCpus = {chance.randrange(1, 4)};'
            f" RequestMemory = {chance.randrange(1, 40) * 100};"
            " Requirements = TARGET.Memory >= MY.RequestMemory"
            f" && TARGET.KFlops > {chance.randrange(45)}; Rank = {chance.choice(ranks)} ]"
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("count", [3, 7])
def test_a_cycle_with_contention_is_that_of_one_pool(count: int) -> None:
    pool, many = Pool(slots(120)), jobs(150)
    with Shards(pool, Inline(random.Random(1)), shards=count) as shards:
        assert written(shards.assign(many)) == written(pool.assign(many))


# --- on a real cluster ----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 7])
def test_a_cluster_answers_as_one_pool(client: Any, count: int) -> None:
    pool, many = Pool(slots(100)), jobs(60)
    with Shards(pool, client, shards=count) as shards:
        same_answers(shards, pool, many[:10], Policy())
        assert written(shards.assign(many)) == written(pool.assign(many))
        assert str(shards.explain_pair(many[0], "slot3")) == str(
            pool.explain_pair(many[0], "slot3")
        )
        new = ClassAd(Name="new", Cpus=9, Memory=9900, KFlops=99)
        update_both(shards, pool, [new], ["slot5"])
        same_answers(shards, pool, many[:10], Policy())


def test_files_are_shards(client: Any, tmp_path: Path) -> None:
    ads = slots(30)
    pieces = [ads[:10], ads[10:20], ads[20:]]
    paths = [tmp_path / "a.arrow", tmp_path / "b.parquet", tmp_path / "c.ads"]
    Pool(pieces[0]).save(paths[0])
    Pool(pieces[1]).write_parquet(paths[1])
    paths[2].write_text("\n".join(map(str, pieces[2])))
    with Shards(paths, client) as shards:
        same_answers(shards, Pool(ads), jobs(5), Policy())
        assert (len(shards), shards.key, shards["slot29"]) == (30, "Name", ads[29])
        assert "slot0" in shards
        assert "slot30" not in shards


def test_shards_explain_and_advise_as_one_pool(client: Any) -> None:
    pool, (job,) = Pool(slots(100)), jobs(1)
    job["Requirements"] = parse_expr("TARGET.Cpus >= RequestCpus && TARGET.Memroy > 10")
    job["RequestCpus"] = 1000
    with Shards(pool, client, shards=3) as shards:
        found, expected = shards.explain(job), pool.explain(job)
        assert (found, str(found)) == (expected, str(expected))
        assert found.advice()
        assert any("did you mean Memory" in note for note in found.notes)


def test_nothing_of_dask_is_loaded_before_it_is_used() -> None:
    import subprocess
    import sys

    code = "import sys, matchmaker.shards; print(*({'dask', 'distributed'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
