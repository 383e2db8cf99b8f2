"""A pool that stays in its Parquet file is the pool that the whole file makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, Pool, parse_ad, parse_ads
from matchmaker.matching.columns.column import StoredColumn
from tests import strategies

ADS = """
  [ Name = "a"; Cpus = 4; Memory = 100; Load = 0.5; Tags = { "x" }; Requirements = TARGET.Prio > 1 ]
  [ Name = "b"; Cpus = 8; Memory = 200; Tags = { "x", "y" }; Requirements = true ]
  [ Name = "c"; Cpus = 2; Memory = 300; Load = 0.1; Machine = "m"; Requirements = true ]"""
JOB = parse_ad("[ Prio = 2; Requirements = TARGET.Cpus >= 4; Rank = TARGET.Memory ]")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "slots.parquet"
    Pool(parse_ads(ADS)).write_parquet(found)
    return found


def shown(pool: Pool) -> list[Any]:
    return [(key, list(ad), ad) for key, ad in zip(pool.keys(), pool, strict=True)]


def in_memory(pool: Pool) -> set[str]:
    """The columns that are in memory of those that need not be."""
    columns = pool._store._columns.items()
    return {
        n for n, column in columns if isinstance(column, StoredColumn) and column._found is not None
    }


def test_a_job_reads_the_columns_that_it_names(path: Path) -> None:
    pool = Pool.open_parquet(path)
    assert in_memory(pool) == set()
    assert pool.match(JOB).keys == ("a", "b")
    assert in_memory(pool) == {"cpus", "memory"}
    pool.forget()
    assert in_memory(pool) == set()
    assert pool.top(JOB, 1).keys == ("b",)
    assert shown(pool) == shown(Pool.read_parquet(path))


@given(st.lists(strategies.ads(), max_size=6))
@settings(max_examples=60)
def test_an_open_pool_is_the_pool_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, ads: list[ClassAd]
) -> None:
    path = tmp_path_factory.mktemp("pools") / "pool"
    named = [ClassAd({**dict(ad.items()), "Key": str(at)}) for at, ad in enumerate(ads)]
    Pool(named, key="Key").write_parquet(path)
    opened, whole = Pool.open_parquet(path), Pool.read_parquet(path)
    assert shown(opened) == shown(whole)
    assert opened.match(JOB).keys == whole.match(JOB).keys
    first, second = opened.to_arrow(), whole.to_arrow()
    assert first.schema.equals(second.schema)
    # To Arrow no table with NaN in it equals another.
    assert repr(first.to_pydict()) == repr(second.to_pydict())


def test_an_open_pool_may_change_and_its_snapshots_do_not(path: Path) -> None:
    pool, whole = Pool.open_parquet(path), Pool.read_parquet(path)
    then = pool.snapshot()
    for each in (pool, whole):
        each.set("a", Cpus=1)
        each.update(parse_ad('[ Name = "d"; Cpus = 64 ]'))
        each.remove("b")
    assert shown(pool) == shown(whole)
    assert then.match(JOB).keys == ("a", "b")
    assert pool.match(JOB).keys == whole.match(JOB).keys
    assert shown(Pool(pool)) == shown(whole)


def test_the_file_may_be_replaced_while_its_pool_is_open(path: Path) -> None:
    pool = Pool.open_parquet(path)
    Pool(parse_ads('[ Name = "z" ]')).write_parquet(path)
    assert pool.match(JOB).keys == ("a", "b")


def test_what_no_ad_can_hold_is_said_when_the_file_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "slots"
    for column, text in [
        (pa.array([b"x"]), "Value: .*binary"),
        (pa.array([2**64 - 1], pa.uint64()), "Value: .*64 bits"),
    ]:
        pq.write_table(pa.table({"Name": ["a"], "Value": column}), path)
        with pytest.raises(ValueError, match=text):
            Pool.open_parquet(path)
    pq.write_table(pa.table({"Name": ["a", "a"]}), path)
    with pytest.raises(ValueError, match="two ads have Name"):
        Pool.open_parquet(path)
    pq.write_table(pa.table({"Name": ["a"], "Start": ["1 +"]}), path)
    with pytest.raises(ValueError, match="Start: row 1"):
        Pool.open_parquet(path, expressions=["Start"])
    pq.write_table(pa.table({"Name": ["a", None], "Value": [1, 2]}), path)
    with pytest.raises(ValueError, match="row 2 of the table has no Name"):
        Pool.open_parquet(path)


def test_damage_in_a_column_is_named_when_the_column_is_read(tmp_path: Path) -> None:
    path = tmp_path / "slots"
    numbers = list(range(50_000))
    table = pa.table({"Name": list(map(str, numbers)), "Cpus": numbers})
    pq.write_table(table, path, write_page_checksum=True, use_dictionary=False)
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    data = bytearray(path.read_bytes())
    middle = column.data_page_offset + column.total_compressed_size // 2
    data[middle : middle + 64] = bytes(64)
    path.write_bytes(data)
    pool = Pool.open_parquet(path)
    with pytest.raises(ValueError, match=r"slots: (Cpus|not a Parquet file)"):
        pool.match(JOB)
    with pytest.raises(ValueError, match="not a Parquet file"):
        Pool.open_parquet(__file__)
    with pytest.raises(FileNotFoundError):
        Pool.open_parquet(tmp_path / "none")
