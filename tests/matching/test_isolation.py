"""What is saved of a pool is the pool at one moment, whatever is entered meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from matchmaker import ClassAd, Pool, parse_expr
from matchmaker.matching.columns import arrow


def state(number: int) -> list[ClassAd]:
    """Ads whose every attribute tells which state of the pool they are of, in every form."""
    return [
        ClassAd({
            "Name": f"n{n}", "A": number, "B": parse_expr(f"{number} + x"), "C": f"{number} {n}",
            "D": number * 100_000 + n, "E": float(number), **({"F": number} if n == 7 else {}),
        })
        for n in range(5000)
    ]  # fmt: skip


def _saved(pool: Pool, path: Path) -> Pool:
    pool.save(path)
    return Pool.load(path)


def _parquet(pool: Pool, path: Path) -> Pool:
    pool.write_parquet(path)
    return Pool.read_parquet(path)


WAYS: dict[str, Callable[[Pool, Path], Pool]] = {
    "save": _saved,
    "Parquet": _parquet,
    "Arrow": lambda pool, path: Pool.from_arrow(pool.to_arrow()),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_saved_is_one_state(
    way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pool, first = Pool(state(1)), state(1)
    fresh, asked = state(2), 0
    one_array = arrow._array

    def meanwhile(*arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        pool.update(fresh[asked])
        pool.remove(f"n{4000 + asked}")
        return one_array(*arguments)

    monkeypatch.setattr(arrow, "_array", meanwhile)
    saved = WAYS[way](pool, tmp_path / "pool")
    assert asked >= 6
    assert list(saved) == first


def test_a_table_does_not_change_with_its_pool() -> None:
    pool = Pool(state(1))
    table = pool.to_arrow()
    for ad in state(2):
        pool.update(ad)
    assert list(Pool.from_arrow(table)) == state(1)


def test_keys_that_are_asked_for_later_are_those_of_the_match() -> None:
    pool = Pool(ClassAd(Name=f"s{number}") for number in range(4))
    found = pool.match(ClassAd())
    pool.remove("s2")
    pool.update(ClassAd(Name="s2", Cpus=1))
    pool.remove("s0")
    assert found.keys == ("s0", "s1", "s2", "s3")


def test_a_snapshot_keeps_what_was_removed_though_masks_are_shared() -> None:
    pool = Pool([ClassAd(Name="a"), ClassAd(Name="b", GPUs=0)])
    job = ClassAd(Requirements=parse_expr("isUndefined(TARGET.GPUs) || TARGET.GPUs < 2"))
    then = pool.snapshot()
    pool.remove("a")
    assert pool.match(job).keys == ("b",)
    assert then.match(job).keys == ("a", "b")
