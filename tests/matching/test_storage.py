from __future__ import annotations

import io
import json
import random
import stat
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from matchmaker import ClassAd, Pool, parse_ad, parse_ads, parse_expr
from matchmaker.classad.nodes import Attr, Binary, Literal
from matchmaker.matching.columns.saved import PoolFileError

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
    from matchmaker.matching.columns import saved

    saved.save(pool._store, pool.key, file)
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
    assert forms == {"Coded", "Numeric", "Texts", "Loose", "Sparse"}
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
        ValueError, match=r"^list: no file can hold .*, since a string in it has NUL"
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


def test_the_file_can_be_read_with_numpy(pool: Pool, tmp_path: Path) -> None:
    pool.save(tmp_path / "pool.npz")
    with np.load(tmp_path / "pool.npz", allow_pickle=False) as archive:
        index = json.loads(archive["pool.json"])
        assert index["rows"] == 3
        names = [column["name"] for column in index["columns"]]
        assert archive[f"{names.index('cpus')}.codes"].tolist() == [1, 2, 3]
    assert [c["contents"] for c in index["columns"] if c["name"] == "cpus"] == [
        [2, 8, {"expr": "undefined"}]
    ]


def test_saving_puts_the_file_in_place_as_a_whole(pool: Pool, tmp_path: Path) -> None:
    path = tmp_path / "pool"
    pool.save(path)
    path.chmod(0o640)
    before = path.read_bytes()
    pool.update(ClassAd({"Name": "z", "Bad": Attr(None, "", False)}))
    with pytest.raises(ValueError, match="bad: no file can hold"):
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


def parts(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return file.getvalue()


def array(values: Any, kind: str) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.array(values, kind), (1, 0))
    return file.getvalue()


def refused(data: bytes) -> str:
    with pytest.raises(PoolFileError) as caught:
        loaded(data)
    text = str(caught.value)
    assert text.startswith("saved pool: ")
    assert "\n" not in text
    assert len(text) < 300
    return text


def with_index(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    held = parts(data)
    index = json.loads(held["pool.json"])
    change(index)
    return packed({**held, "pool.json": json.dumps(index).encode()})


def column(index: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in index["columns"] if c["name"] == name)
    return found


def number(data: bytes, name: str) -> int:
    names = [c["name"] for c in json.loads(parts(data)["pool.json"])["columns"]]
    return names.index(name)


@pytest.mark.parametrize("data", [b"", b"PK", b"[ Name = 1 ]", b"PK\x03\x04" + bytes(100)])
def test_what_is_no_saved_pool_is_refused(data: bytes) -> None:
    assert "not a saved pool, or only a part of one" in refused(data)


def test_a_file_cut_short_is_refused(pool: Pool) -> None:
    data = saved(pool)
    for size in range(0, len(data), 37):
        refused(data[:size])


def test_a_file_with_changed_bytes_is_refused_or_read(pool: Pool) -> None:
    data = saved(pool)
    chance = random.Random(1)
    read = 0
    for place in range(0, len(data), 3):
        changed = bytearray(data)
        changed[place] ^= chance.randrange(1, 256)
        try:
            loaded(bytes(changed))
        except PoolFileError:
            continue
        # What no checksum covers does not matter: times, flags and the like.
        read += 1
    assert read < len(data) / 10


def test_changed_contents_with_right_checksums_are_refused_or_read(pool: Pool) -> None:
    held = parts(saved(pool))
    chance = random.Random(2)
    outcomes = set()
    for _ in range(1500):
        name = chance.choice(list(held))
        changed = bytearray(held[name])
        changed[chance.randrange(len(changed))] ^= chance.randrange(1, 256)
        try:
            twin = loaded(packed({**held, name: bytes(changed)}))
            list(twin)
            twin.match(parse_ad("[ Requirements = TARGET.Cpus > 1 ]"))
            outcomes.add("read")
        except PoolFileError:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}


WRONG_INDEX: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("no matchmaker pool", lambda i: i.pop("format")),
    ("of version 2; this program reads version 1", lambda i: i.update(version=2)),
    ("rows is not of type", lambda i: i.update(rows=True)),
    ("rows is not of type", lambda i: i.update(rows="3")),
    ("a number of rows below 0", lambda i: i.update(rows=-1)),
    ("layout: not as long as it should be", lambda i: i.update(rows=4)),
    ("layout: not as long as it should be", lambda i: i.update(rows=10**15)),
    ("names: not a string", lambda i: i["names"].append(7)),
    ("layouts: not places of names", lambda i: i["layouts"].append([99])),
    ("layouts: not places of names", lambda i: i["layouts"].append([-1])),
    ("layouts: not places of names", lambda i: i["layouts"].append(7)),
    ("layouts: a name comes twice", lambda i: i["layouts"].append([0, 0])),
    ("layout: a code without an entry", lambda i: i["layouts"].pop()),
    ("not in the rows that it should be in", lambda i: i["layouts"][0].pop()),
    ("the column extra is missing", lambda i: (i["names"].append("Extra"),
                                               i["layouts"][0].append(len(i["names"]) - 1))),
    ("columns: not as they should be", lambda i: i["columns"].append(7)),
    ("the column cpus comes twice", lambda i: column(i, "load").update(name="cpus")),
    ("of unknown form 'neat'", lambda i: column(i, "cpus").update(form="neat")),
    ("1.kinds.npy is missing", lambda i: column(i, "cpus").update(form="numeric")),
    ("cpus: a content comes twice", lambda i: column(i, "cpus")["contents"].append(2)),
    ("cpus: a code without a content", lambda i: column(i, "cpus")["contents"].pop()),
    ("cpus: None is not a content", lambda i: column(i, "cpus")["contents"].append(None)),
    ("is not a content", lambda i: column(i, "cpus")["contents"].append(2**63)),
    ("is not a content", lambda i: column(i, "cpus")["contents"].append({"expr": 1})),
    ("is not a content", lambda i: column(i, "cpus")["contents"].append({"text": "1"})),
    ("start: line 1, column 4: ", lambda i: column(i, "start").update(contents=[{"expr": "1 +"}])),
    ("nested", lambda i: column(i, "start").update(contents=[{"expr": "{" * 300 + "}" * 300}])),
    ("computed: not a row and a key", lambda i: i["computed"].append([3, "x"])),
    ("computed: not a row and a key", lambda i: i["computed"].append([True, "x"])),
    ("ad 3 has no Name", lambda i: i.update(computed=[])),
    ("two ads have the key 'a'", lambda i: i.update(computed=[[2, "a"]])),
    ("ads without Nick", lambda i: i.update(key="Nick")),
]  # fmt: skip


@pytest.mark.parametrize(("said", "change"), WRONG_INDEX)
def test_what_is_wrong_in_the_index_is_told(
    pool: Pool, said: str, change: Callable[[dict[str, Any]], object]
) -> None:
    assert said in refused(with_index(saved(pool), change))


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, "{}", "7", '{"rows": NaN}', "\x00\xff", "1" * 5000]
)
def test_an_index_that_is_no_json_or_another_is_refused(pool: Pool, text: str) -> None:
    refused(packed({**parts(saved(pool)), "pool.json": text.encode("latin-1")}))


def wrong_arrays() -> Iterator[tuple[str, str, str, bytes]]:
    yield "cpus", "codes", "a code without a content", array([1, 2, 9], "<u1")
    yield "cpus", "codes", "an array of type int8", array([1, 2, 3], "<i1")
    yield "cpus", "codes", "not as long as it should be", array([1, 2], "<u1")
    yield "cpus", "codes", "not an array", array([[1, 2, 3]], "<u1")
    yield "cpus", "codes", "not an array", array([1, 2, 3], ">u2")
    yield "cpus", "codes", "not an array", array([1.0, 2.0, 3.0], "<f8")
    yield "cpus", "codes", "not in the rows that it should be in", array([1, 2, 0], "<u1")
    yield "cpus", "codes", "not as long as it should be", array([1, 2, 3], "<u1") + b"more"
    yield "cpus", "codes", "not an array", b""
    huge = array([1, 2, 3], "<u1").replace(b"(3,)", b"(%d,)" % 10**12)
    yield "cpus", "codes", "not an array", huge


@pytest.mark.parametrize(("name", "kind", "said", "data"), list(wrong_arrays()))
def test_what_is_wrong_in_an_array_is_told(
    pool: Pool, name: str, kind: str, said: str, data: bytes
) -> None:
    whole = saved(pool)
    held = parts(whole)
    part = f"{number(whole, name)}.{kind}.npy"
    assert part in held
    assert said in refused(packed({**held, part: data}))
    del held[part]
    assert f"{part} is missing" in refused(packed(held))


def test_an_array_of_objects_is_not_unpickled(pool: Pool) -> None:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.array([exit, 1, 2], object), allow_pickle=True)
    whole = saved(pool)
    part = f"{number(whole, 'cpus')}.codes.npy"
    assert "not an array" in refused(packed({**parts(whole), part: file.getvalue()}))


def wrong_forms() -> Iterator[tuple[str, str, str, bytes]]:
    size = 6000
    whole = array(np.full(size, 255), "<u1")
    yield "name", "lengths", "not a code for each row", whole
    yield "name", "lengths", "bytes are missing", array(np.full(size, 7), "<u1")
    yield "name", "lengths", "bytes are missing", array(np.full(size, 2**63), "<u8")
    lengths = np.full(size, 9)
    lengths[:2] = 8, 10
    yield "name", "lengths", "a string cut in a character", array(lengths, "<u1")
    yield "name", "bytes", "invalid start byte", array(np.full(size * 9, 255), "<u1")
    yield "name", "bytes", "bytes are missing", array(np.zeros(5), "<u1")
    yield "disk", "kinds", "a code without a content", array(np.full(size, 3), "<u1")
    yield "disk", "kinds", "a code without a content", array(np.full(size, 6), "<u1")
    yield "disk", "bits", "not as long as it should be", array([1], "<i8")
    yield "gpus", "rows", "not rows", array([1, 1], "<u8")
    yield "gpus", "rows", "not rows", array([1, size], "<u8")
    yield "gpus", "rows", "not in the rows that it should be in", array([1, 2], "<u8")


def test_what_is_wrong_in_any_form_is_told() -> None:
    whole = saved(large())
    held = parts(whole)
    for name, kind, said, data in wrong_forms():
        part = f"{number(whole, name)}.{kind}.npy"
        assert part in held
        assert said in refused(packed({**held, part: data})), (name, kind)
    short = with_index(whole, lambda index: column(index, "want")["contents"].pop())
    assert "want: not as long as it should be" in refused(short)


def test_a_compressed_file_is_refused(pool: Pool) -> None:
    assert "is compressed" in refused(packed(parts(saved(pool)), zipfile.ZIP_DEFLATED))


def test_parts_that_overlap_are_refused(pool: Pool) -> None:
    file = io.BytesIO(saved(pool))
    with zipfile.ZipFile(file, "a") as archive:
        archive.filelist.extend(archive.infolist() * 9)
        archive._didModify = True  # type: ignore[attr-defined]
    assert "parts overlap" in refused(file.getvalue())
