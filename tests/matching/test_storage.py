from __future__ import annotations

import io
import random
import stat
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from matchmaker import ClassAd, Pool, parse_ad, parse_ads, parse_expr
from matchmaker.classad.nodes import Attr, Binary, Literal
from matchmaker.matching.columns import saved as format_
from matchmaker.matching.columns.arrow import KEY
from matchmaker.matching.columns.saved import PoolFileError

pytestmark = pytest.mark.slow

ADS = """
[ Name = "a"; Cpus = 2; Load = 0.5; Tags = { "x", 1 }; START = TARGET.Owner != "eve" ]
[ name = "b"; Cpus = 8; Load = real("NaN"); Since = absTime("2026-01-02T03:04:05+01:00") ]
[ Cpus = undefined; Name = strcat("c", ""); Nested = [ a = 1; b = x ]; Up = true ]
"""


@pytest.fixture
def pool() -> Pool:
    return Pool(parse_ads(ADS))


def large() -> Pool:
    """A pool that has a column of each form."""
    wanted = parse_expr("TARGET.x")
    return Pool(
        ClassAd({
            "Name": f"wn{n:05}é", "Cpus": n % 5, "Disk": n * 3, "Load": n / 7,
            "Want": Binary(">", wanted, Literal(n)), **({"GPUs": n} if n in (70, 3000) else {}),
        })
        for n in range(6000)
    )  # fmt: skip


def saved(pool: Pool) -> bytes:
    file = io.BytesIO()
    format_.save(pool._store.parts(), pool.key, file)
    return file.getvalue()


def loaded(data: bytes) -> Pool:
    return Pool.load(io.BytesIO(data))


# --- saving and loading ---------------------------------------------------------------------------


def test_a_saved_pool_is_loaded_as_it_was(pool: Pool, tmp_path: Path) -> None:
    pool.save(tmp_path / "pool")
    twin = Pool.load(tmp_path / "pool")
    assert twin.key == "Name"
    assert twin.keys() == ["a", "b", "c"]
    assert [list(ad) for ad in twin] == [list(ad) for ad in pool]
    assert list(twin) == list(pool)
    with (tmp_path / "pool").open("rb") as file:
        assert list(Pool.load(file)) == list(pool)


def test_a_large_pool_is_loaded_as_it_was() -> None:
    pool = large()
    forms = {type(column).__name__ for column in pool._store._columns.values()}
    assert forms == {"Coded", "Numeric", "Texts", "ObjectColumn", "Sparse"}
    for number in range(0, 6000, 3):
        pool.remove(f"wn{number:05}é")
    pool.update(ClassAd({"Name": "new", "Disk": "none", "Cpus": parse_expr("1 + x")}))
    twin = loaded(saved(pool))
    assert twin.keys() == pool.keys()
    assert list(twin) == list(pool)
    job = parse_ad("[ Requirements = TARGET.Disk > 9000 && TARGET.Cpus > 1; Rank = TARGET.Load ]")
    assert twin.top(job, 9) == pool.top(job, 9)
    twin.update(ClassAd({"Name": "wn00001é", "Load": "x"}))
    twin.remove("new")
    assert len(twin) == len(pool) - 1
    assert list(loaded(saved(twin))) == list(twin)


@pytest.mark.parametrize("count", [1, 3000])
def test_strings_with_nul_are_saved(count: int, tmp_path: Path) -> None:
    ads = [ClassAd({"Name": f"n{n}\0", "T": f"a{n}\0b", "U": "\0"}) for n in range(count)]
    Pool(ads).save(tmp_path / "pool")
    assert list(Pool.load(tmp_path / "pool")) == ads


def test_a_list_with_nul_is_refused_with_its_reason(tmp_path: Path) -> None:
    pool = Pool([ClassAd({"Name": "a", "List": ["\0"]})])
    with pytest.raises(
        ValueError, match=r"^List: no file can hold .*, since a string in it has NUL"
    ):
        pool.save(tmp_path / "pool")
    assert list(tmp_path.iterdir()) == []


def test_what_is_removed_is_not_in_the_file(pool: Pool) -> None:
    pool.update(parse_ad('[ Name = "b"; Secret = "hidden"; Other = strcat("hid", "den") ]'))
    pool.update(parse_ad('[ Name = "b" ]'))
    assert b"hid" not in saved(pool)


def test_an_empty_pool_is_saved() -> None:
    pool = loaded(saved(Pool(key="Id")))
    assert (len(pool), pool.key) == (0, "Id")
    pool.update(ClassAd({"Id": 1}))
    assert pool.keys() == ["1"]


def test_the_file_can_be_read_with_pyarrow(pool: Pool, tmp_path: Path) -> None:
    pool.save(tmp_path / "pool.arrow")
    table = pa.ipc.open_file(tmp_path / "pool.arrow").read_all()
    assert table.num_rows == 3
    assert table.column("Cpus").to_pylist() == ["2", "8", '{"expr": "undefined"}']
    assert table.schema.field("Cpus").metadata == {b"classad": b"json"}
    assert table.column("Load").to_pylist()[:1] == [0.5]


def test_names_of_each_ad_are_kept_where_they_differ(pool: Pool) -> None:
    same = Pool(ClassAd({"Name": f"n{n}", **({"A": 1} if n < 2 else {}), "B": n}) for n in range(3))
    assert "names" not in table_of(saved(same)).schema.names
    assert "names" in table_of(saved(pool)).schema.names
    assert loaded(saved(Pool([ClassAd({"Name": 1, "names": 2})])))["1"] == ClassAd(Name=1, names=2)


def test_keys_that_no_ad_says_are_kept() -> None:
    pool = Pool.of_named([("first", ClassAd(Cpus=2)), ("second", ClassAd(Cpus=2))])
    assert loaded(saved(pool)).keys() == ["first", "second"]


def test_attributes_that_hardly_any_ad_has_take_little_room() -> None:
    ads = [ClassAd({"Name": f"n{n}", f"Own{n}": n, "Same": 1}) for n in range(5000)]
    data = saved(Pool(ads))
    assert len(data) < 200 * len(ads)
    assert list(loaded(data)) == ads
    for wrong in ("[]", '{"a": 1}', "[" * 100_000, '{"same": "1"}', '{"other": "1"}'):
        refused(changed(data, "few", [wrong] * 5000))


def test_any_string_is_kept(tmp_path: Path) -> None:
    ads = [ClassAd({"Name": "a", "S": "\ud800 \0", "M": 1}), ClassAd({"Name": "b", "M": "\0"})]
    many = [ClassAd({"Name": f"{n}\udfff", "S": f"\0{n}\ud800"}) for n in range(5000)]
    for some in (ads, many):
        assert list(loaded(saved(Pool(some)))) == some


def test_saving_puts_the_file_in_place_as_a_whole(pool: Pool, tmp_path: Path) -> None:
    path = tmp_path / "pool"
    pool.save(path)
    path.chmod(0o640)
    before = path.read_bytes()
    pool.update(ClassAd({"Name": "z", "Bad": Attr(None, "", False)}))
    with pytest.raises(ValueError, match="Bad: no file can hold"):
        pool.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    pool.remove("z")
    pool.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_loading_tells_of_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Pool.load(tmp_path / "none")


# --- files that are damaged, or meant to do damage ------------------------------------------------


def table_of(data: bytes) -> Any:
    return pa.ipc.open_file(io.BytesIO(data)).read_all()


def forged(table: Any, **options: Any) -> bytes:
    """A file of any table, with the checksum that it must have."""
    noted = {KEY: b"Name", **(table.schema.metadata or {})}
    sound = format_.checksum(table, noted[KEY].decode()) if not options.get("sum") else "0"
    table = table.replace_schema_metadata({**noted, format_.SUM: sound.encode()})
    file = io.BytesIO()
    compression = pa.ipc.IpcWriteOptions(compression=options.get("compression"))
    with pa.ipc.new_file(file, table.schema, options=compression) as writer:
        writer.write_table(table, options.get("pieces"))
    return file.getvalue()


def refused(data: bytes) -> str:
    with pytest.raises(PoolFileError) as caught:
        loaded(data)
    text = str(caught.value)
    assert text.startswith("saved pool: ")
    assert "\n" not in text
    assert len(text) < 300
    return text


@pytest.mark.parametrize("data", [b"", b"ARROW1", b"[ Name = 1 ]", b"ARROW1\0\0" + bytes(100)])
def test_what_is_no_saved_pool_is_refused(data: bytes) -> None:
    assert "not a saved pool, or only a part of one" in refused(data)


def test_a_pool_in_the_old_form_is_told_apart() -> None:
    assert "convert ADS --to pool" in refused(b"PK\x03\x04" + bytes(100))


def test_a_file_cut_short_is_refused(pool: Pool) -> None:
    data = saved(pool)
    for size in range(0, len(data), 37):
        refused(data[:size])


def test_changed_bytes_are_refused_or_do_not_matter(pool: Pool) -> None:
    data = saved(pool)
    chance = random.Random(1)
    outcomes = set()
    for place in range(0, len(data), 5):
        changed = bytearray(data)
        changed[place] ^= chance.randrange(1, 256)
        try:
            twin = loaded(bytes(changed))
        except PoolFileError:
            outcomes.add("refused")
        else:
            assert list(twin) == list(pool)
            outcomes.add("read")
    assert outcomes == {"read", "refused"}


def changed(data: bytes, name: str, values: Any, metadata: Any = None) -> bytes:
    """A file with another column in the place of one, and the checksum right."""
    table = table_of(data)
    place = table.schema.get_field_index(name)
    field = table.schema.field(place)
    array = pa.array(values) if isinstance(values, list) else values
    metadata = field.metadata if metadata is None else metadata
    fresh = pa.field(name, array.type, metadata=metadata)
    return forged(table.set_column(place, fresh, array))


JSON: Final = {b"classad": b"json"}
WRONG: list[tuple[str, str, Any, Any]] = [
    ("Cpus: a column of type", "Cpus", pa.array([1, 2, 3], pa.int8()), {}),
    ("Cpus: a column of type", "Cpus", [[1], [2], [3]], {}),
    ("Cpus: a column of type null", "Cpus", pa.nulls(3), {}),
    ("Cpus: a column of type run_end_encoded", "Cpus",
     pa.RunEndEncodedArray.from_arrays([3], ["x"]), {}),
    ("Cpus: row 1: 'neat' is no content", "Cpus", ["neat", "1", "2"], JSON),
    ("Cpus: row 2: ", "Cpus", ["1", '{"expr": "1 +"}', "2"], JSON),
    ("Cpus: row 1: ", "Cpus", ['{"expr": "%s"}' % ("{" * 300 + "}" * 300), "1", "2"], JSON),
    ("is no content", "Cpus", ["[" * 100_000, "1", "2"], JSON),
    ("is no content", "Cpus", [str(2**63), "1", "2"], JSON),
    ("is no content", "Cpus", ['{"expr": 1}', "1", "2"], JSON),
    ("Cpus: row 1: ", "Cpus", ["1" * 5000, "1", "2"], JSON),
    ("Cpus: is said to hold", "Cpus", [1, 2, 3], JSON),
    ("the names of an ad are not those of its columns", "Cpus", ["1", None, "2"], JSON),
    ("names and keys are strings", "keys", [1, 2, 3], None),
    ("row 3 has Name = 'c', and is kept under the key 'a'", "keys", [None, None, "a"], None),
    ("names of an ad are a list of strings", "names", ["7"] * 3, None),
    ("names of an ad are a list of strings", "names", pa.nulls(3, pa.string()), None),
    ("names of an ad are a list of strings", "names", ["[" * 100_000] * 3, None),
    ("Expecting value", "names", ["x"] * 3, None),
    ("a name of an ad comes twice", "names", ['["a", "A"]'] * 3, None),
    ("the names of an ad are not those of its columns", "names", ['["Name"]'] * 3, None),
]  # fmt: skip


@pytest.mark.parametrize(("said", "name", "values", "metadata"), WRONG)
def test_what_is_wrong_in_a_column_is_told(
    pool: Pool, said: str, name: str, values: Any, metadata: Any
) -> None:
    assert said in refused(changed(saved(pool), name, values, metadata))


@pytest.mark.parametrize("role", ["few", "keys"])
def test_what_is_read_for_each_row_stands_there_for_each_row(role: str) -> None:
    # A dictionary would say a long text once, to be read for every row.
    ads = [ClassAd({"Name": f"n{n}", f"Own{n}": n}) for n in range(5000)]
    data = saved(Pool.of_named((f"k{n}", ClassAd(Own=n)) for n in range(9)) if role == "keys"
                 else Pool(ads))  # fmt: skip
    table = table_of(data)
    place = table.schema.get_field_index(role)
    array = table.column(place).combine_chunks().dictionary_encode()
    field = pa.field(role, array.type, metadata=table.schema.field(place).metadata)
    assert f"{role}: a column of type dictionary" in refused(
        forged(table.set_column(place, field, array))
    )


def test_names_of_many_ads_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ads = [ClassAd({"Name": f"n{n}", f"Own{n}": n, "A": 1, "B": 2}) for n in range(5000)]
    data = saved(Pool(ads))
    swapped = ['["Name", "A", "B", "Own1"]'] * 5000
    assert "the names of an ad are not" in refused(changed(data, "names", swapped))
    assert list(loaded(data)) == ads


def test_one_key_for_two_ads_is_refused() -> None:
    data = saved(Pool.of_named([("first", ClassAd(Cpus=2)), ("second", ClassAd(Cpus=2))]))
    assert "two ads have the key 'first'" in refused(changed(data, "keys", ["first"] * 2))


@pytest.mark.parametrize("name", ["a", 7, parse_expr('strcat("a", "")')])
def test_keys_that_contradict_the_key_attribute_are_refused(name: Any) -> None:
    pool = Pool.of_named([("other", ClassAd(Name=name)), ("b", ClassAd(Name="b"))])
    with pytest.raises(ValueError, match=r"row 1 has Name = '[a7]', and is kept under .*'other'"):
        saved(pool)
    # The same in a file that someone else has made.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(format_, "_check_keys", lambda *given: None)
        data = saved(pool)
    assert "row 1 has Name = " in refused(data)
    moving = Pool.of_named([("then", ClassAd(Name=parse_expr("strcat(time())")))])
    assert loaded(saved(moving)).keys() == ["then"]


def test_what_is_wrong_in_a_file_is_told(pool: Pool) -> None:
    data = saved(pool)
    table = table_of(data)
    assert "checksum is another" in refused(forged(table, sum=True))
    assert "come in pieces" in refused(forged(table, pieces=2))
    for compression in ("lz4", "zstd"):
        assert "it is compressed" in refused(forged(table, compression=compression))
    file = io.BytesIO()
    with pa.ipc.new_file(file, table.schema.remove_metadata()) as writer:
        writer.write_table(table.replace_schema_metadata(None))
    assert "no key attribute" in refused(file.getvalue())
    twice = table.append_column("cpus", table.column("Cpus"))
    assert "two columns are" in refused(forged(twice))


def test_columns_that_overlap_are_refused() -> None:
    # The description of a batch says where each column lies: here two are told to lie in one place.
    pool = Pool(ClassAd({"Name": f"n{n}", "A": n * 3, "B": n * 5}) for n in range(10_000))
    data = saved(pool)
    noted = np.frombuffer(data[: len(data) // 8 * 8], np.int64)
    [place, *_] = np.flatnonzero(noted == 80_000).tolist()
    changed = bytearray(data)
    for number in np.flatnonzero(noted == 80_000).tolist():
        if number != place:
            changed[number * 8 - 8 : number * 8] = noted[place - 1].tobytes()
    assert changed != data
    refused(bytes(changed))
