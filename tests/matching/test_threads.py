"""Readers match while a writer changes the pool: each sees it as it was at one moment."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator

import pytest

from matchmaker import ClassAd, Pool, parse_ad, parse_expr
from tests.busy import busy

pytestmark = pytest.mark.slow

SIZE = 1500


def slot(name: int, total: int) -> ClassAd:
    """An ad whose attributes agree with each other: free and busy make the total."""
    busy = (name * 7919 + total) % (total + 1)
    return ClassAd({
        "Name": f"slot{name}", "Total": total, "Busy": busy, "Free": total - busy,
        "Load": busy / 3, "Owner": f"user{total}", "Same": f"user{total}",
        **({"Rare": total} if total % 50 == 0 else {}),
        "START": parse_expr("TARGET.Want <= MY.Free || true"), "Requirements": parse_expr("START"),
    })  # fmt: skip


@pytest.fixture(autouse=True)
def _often_switched() -> Iterator[None]:
    """Threads take turns as often as they can, so that what can go wrong does."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def run(pool: Pool, readers: list[Callable[[], None]], changes: int) -> None:
    """Runs the readers again and again while as many changes are made."""
    chance = random.Random(1)
    with busy(list(readers)):
        for number in range(changes):
            name = chance.randrange(SIZE + 200)
            if chance.random() < 0.2 and f"slot{name}" in pool:
                pool.remove(f"slot{name}")
            else:
                pool.update(slot(name, number % 400))


def test_what_a_reader_sees_holds_together() -> None:
    pool = Pool(slot(name, name % 400) for name in range(SIZE))
    sound = parse_ad("""[
        Want = 0;
        Requirements = TARGET.Total == TARGET.Busy + TARGET.Free && TARGET.Owner == TARGET.Same
                       && TARGET.Load == TARGET.Busy / 3.0
                       && (TARGET.Rare =?= undefined || TARGET.Rare == TARGET.Total);
        Rank = TARGET.Free
    ]""")
    odd = parse_ad("[ Want = 0; Requirements = TARGET.Owner != TARGET.Same ]")

    def matching() -> None:
        snapshot = pool.snapshot()
        found = snapshot.match(sound)
        assert len(found) == len(snapshot)
        assert len(set(found.keys)) == len(found)
        assert snapshot.match(sound) == found
        assert len(snapshot.match(odd)) == 0
        best = snapshot.top(sound, 3)
        assert best.ranks[0] == max(found.ranks, default=0.0)

    def looking() -> None:
        snapshot = pool.snapshot()
        for key in random.sample(range(SIZE), 5):
            if f"slot{key}" in snapshot:
                ad = snapshot[f"slot{key}"]
                assert ad == slot(key, ad.eval("Total"))  # type: ignore[arg-type]
        assert all(ad == slot(int(str(ad.eval("Name"))[4:]), ad.eval("Total"))  # type: ignore[arg-type]
                   for ad in list(snapshot)[:20])  # fmt: skip

    def asking() -> None:
        assert pool.explain(sound).matched > 0
        assert len(pool.keys()) > 0
        try:
            ad = pool["slot7"]
        except KeyError:
            return
        assert ad == slot(7, ad.eval("Total"))  # type: ignore[arg-type]

    run(pool, [matching, looking, asking], 6000)
    assert all(ad == slot(int(key[4:]), ad.eval("Total"))  # type: ignore[arg-type]
               for key, ad in zip(pool.keys(), pool, strict=True))  # fmt: skip


def test_a_pool_is_saved_while_it_changes(tmp_path: str) -> None:
    pool = Pool(slot(name, name % 400) for name in range(SIZE))
    path = f"{tmp_path}/pool"

    def saving() -> None:
        pool.save(path)
        for ad in Pool.load(path):
            assert ad == slot(int(str(ad.eval("Name"))[4:]), ad.eval("Total"))  # type: ignore[arg-type]

    run(pool, [saving], 3000)
