"""How fast a pool is written, read and changed: lines for the table of ``pools.py``.

``python benchmarks/storage.py [NUMBER]`` prints them alone, for that many slots.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pools import Row, pool_of, seconds, slots

import matchmaker as mm


def rows(pool: mm.Pool, rounds: int) -> Iterator[Row]:
    """Saving and loading, Arrow and Parquet, and ads that come, change and go one by one."""
    with tempfile.TemporaryDirectory() as folder:
        saved, parquet = Path(folder, "pool"), Path(folder, "pool.parquet")
        works: list[tuple[str, Callable[[], object]]] = [
            ("save", lambda: pool.save(saved)),
            ("load", lambda: mm.Pool.load(saved)),
        ]
        try:
            table = pool.to_arrow()
        except ImportError:
            pass
        else:
            works += [
                ("to Arrow", pool.to_arrow),
                ("from Arrow", lambda: mm.Pool.from_arrow(table)),
                ("to Parquet", lambda: pool.write_parquet(parquet)),
                ("from Parquet", lambda: mm.Pool.read_parquet(parquet)),
            ]
        for what, work in works:
            yield Row(f"  {what}, {len(pool):,} slots", seconds(work, rounds))
        sizes = [f"{path.stat().st_size / len(pool):.0f} B" for path in (saved, parquet)
                 if path.exists()]  # fmt: skip
        print(f"an ad in a saved pool and in Parquet: {', '.join(sizes)}")
    ads = [mm.ClassAd({**slot, "LoadAvg": 0.5, "State": "Drained"}) for slot in slots(5_000)]
    keys = [str(ad.eval(pool.key)) for ad in ads]
    changes: list[tuple[str, Callable[[], object]]] = [
        ("updates", lambda: list(map(pool.update, ads))),
        ("removals", lambda: list(map(pool.remove, keys))),
        ("new ads", lambda: list(map(pool.update, ads))),
    ]
    for what, work in changes:
        ours = seconds(work, 1)
        yield Row(f"  {len(ads):,} {what}", ours, note=f"{len(ads) / ours:,.0f} a second")


if __name__ == "__main__":
    for row in rows(pool_of(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000), 5):
        print(row)
