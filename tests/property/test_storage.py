"""What is written of a pool and read again is the pool, whatever its ads hold and in which form."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, Pool
from matchmaker.classad.nodes import Call, Literal
from tests import strategies
from tests.cases import cases
from tests.property.test_columns import in_each_form, pools

keys = st.integers(0, 9).map(str)
changes = st.lists(st.tuples(keys, st.none() | strategies.ads(max_size=4)), max_size=6)


def changed(ads: list[ClassAd], changes: list[tuple[str, ClassAd | None]]) -> Pool:
    """A pool of ads, some of which have come, changed or gone since it was made."""
    pool = Pool(map(keyed, map(str, range(len(ads))), ads), key="Key")
    for key, ad in changes:
        if ad is not None:
            pool.update(keyed(key, ad))
        elif key in pool:
            pool.remove(key)
    return pool


def keyed(key: str, ad: ClassAd) -> ClassAd:
    """The ad with a key, which for some is an expression."""
    twin = ad.copy()
    plain = Literal(key)
    twin["Key"] = plain if int(key) % 3 else Call("strcat", (plain, Literal("")))
    return twin


def shown(pool: Pool) -> list[tuple[str, list[str], ClassAd]]:
    """Keys, spellings in their order, and ads, which are equal where they hold the same."""
    return [(key, list(ad), ad) for key, ad in zip(pool.keys(), pool, strict=True)]


@given(pools(), changes, keys, strategies.ads())
@settings(max_examples=cases(150))
def test_a_saved_pool_is_loaded_as_it_was(
    ads: list[ClassAd],
    changes: list[tuple[str, ClassAd | None]],
    key: str,
    ad: ClassAd,
) -> None:
    for _ in in_each_form():
        save_and_load(changed(ads, changes), key, ad)


def save_and_load(pool: Pool, key: str, ad: ClassAd) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pool")
        pool.save(path)
        twin = Pool.load(path)
    assert shown(twin) == shown(pool)
    assert twin.key == "Key"
    for each in (pool, twin):
        each.update(keyed(key, ad))
        each.remove(each.keys()[0])
    assert shown(twin) == shown(pool)


@given(pools(), changes)
@settings(max_examples=cases(150))
def test_a_pool_comes_back_from_arrow_and_parquet(
    ads: list[ClassAd], changes: list[tuple[str, ClassAd | None]]
) -> None:
    for _ in in_each_form():
        write_and_read(changed(ads, changes))


def write_and_read(pool: Pool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pool")
        pool.write_parquet(path)
        twins = [Pool.from_arrow(pool.to_arrow()), Pool.read_parquet(path)]
    for twin in twins:
        assert twin.keys() == pool.keys()
        assert list(twin) == list(pool)
