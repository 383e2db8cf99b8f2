from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from matchmaker import ClassAd, Pool, parse_ad, parse_ads, parse_expr
from matchmaker.classad.ad import literal
from matchmaker.classad.values import ERROR, MAX_INT, MIN_INT, UNDEFINED
from matchmaker.matching.columns import forms
from matchmaker.matching.columns.column import Coded, Numeric
from matchmaker.matching.columns.forms import Texts

pytestmark = pytest.mark.slow


@pytest.fixture(params=["as it comes", "not coded"], autouse=True)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "not coded":
        monkeypatch.setattr(forms, "MANY", 0)


MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def read(values: list[Any], kind: Any = None, metadata: Any = None) -> list[Any]:
    """What ads hold of an Arrow column: a plain value, an expression, or None for nothing."""
    array = values if isinstance(values, pa.Array) else pa.array(values, kind)
    fields = [pa.field("Name", pa.int64()), pa.field("x", array.type, metadata=metadata)]
    names = pa.array(range(len(values)), pa.int64())
    pool = Pool.from_arrow(pa.table([names, array], schema=pa.schema(fields)))
    return [ad._held.get("x") for ad in pool]


def written(*contents: Any) -> Any:
    """The Arrow column of contents, None being nothing."""
    ads = [
        ClassAd({"Name": n, **({} if content is None else {"x": content})})
        for n, content in enumerate(contents)
    ]
    table = Pool(ads).to_arrow()
    assert list(Pool.from_arrow(table)) == ads
    return table.field("x"), table.column("x")


# --- from Arrow -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64()]
)
def test_integers_of_any_width(kind: Any) -> None:
    found = read([0, 1, None, 100, 100], kind)
    assert found == [0, 1, None, 100, 100]
    assert all(type(value) in (int, type(None)) for value in found)


def test_integers_at_the_edge() -> None:
    assert read([MIN_INT, MAX_INT, None], pa.int64()) == [MIN_INT, MAX_INT, None]
    assert read([MAX_INT, 0], pa.uint64()) == [MAX_INT, 0]
    with pytest.raises(ValueError, match=r"x: 9223372036854775808 does not fit 64 bits; cast"):
        read([MAX_INT + 1, 0], pa.uint64())


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_reals(kind: Any) -> None:
    found = read(pa.array([0.0, -0.0, 0.5, None, math.inf, math.nan], pa.float64()).cast(kind))
    assert [repr(value) for value in found] == ["0.0", "-0.0", "0.5", "None", "inf", "nan"]


def test_truths() -> None:
    assert read([True, None, False, True]) == [True, None, False, True]


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
)
def test_strings(kind: Any) -> None:
    values = ["", "a", None, "a\0b", "é\U0001f600", "x" * 300, "a"]
    assert read(pa.array(values, pa.string()).cast(kind)) == values


def test_a_slice_of_an_array() -> None:
    array = pa.array(["no", "a", None, "é" * 200, "no"])[1:4]
    assert read(array) == ["a", None, "é" * 200]
    assert read(pa.array([9, 1, None, 9])[1:3]) == [1, None]


def test_dictionaries_with_what_repeats_and_nulls() -> None:
    words = pa.array(["a", None, "a", "unused"])
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None], pa.int8()), words)
    assert read(array) == ["a", None, "a", None]
    numbers = pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array([7, 8], pa.uint8()))
    assert read(numbers) == [8, 7]


def test_times() -> None:
    moment = datetime(2026, 7, 1, 12, 30, 15, 250, tzinfo=UTC)
    local = moment.astimezone(timezone(timedelta(hours=2)))
    assert read([moment, None], pa.timestamp("us", "UTC")) == [moment, None]
    for zone in ("Europe/Rome", "+02:00"):
        [found] = read([moment], pa.timestamp("us", zone))
        assert (found, found.utcoffset()) == (local, timedelta(hours=2))
        assert literal(found) is literal(local)
    [naive] = read([moment.replace(tzinfo=None)], pa.timestamp("us"))
    assert literal(naive) is literal(moment)
    [cut] = read(pa.array([1_000_000_001_999], pa.timestamp("ns", "UTC")))
    assert cut == datetime(1970, 1, 1, 0, 16, 40, 1, tzinfo=UTC)
    assert read(pa.array([1], pa.date32())) == [datetime(1970, 1, 2, tzinfo=UTC)]
    assert read([timedelta(seconds=-1.5), None]) == [timedelta(seconds=-1.5), None]
    assert read(pa.array([7], pa.duration("s"))) == [timedelta(seconds=7)]
    with pytest.raises(ValueError, match=r"^x: "):
        read(pa.array([MAX_INT], pa.timestamp("us", "UTC")))
    with pytest.raises(ValueError, match=r"^x: "):
        read(pa.array([MAX_INT], pa.timestamp("s", "UTC")))


def test_lists_and_nested_ads() -> None:
    assert [str(found) for found in read([[1, None], [], [3]])] == ["{1, undefined}", "{}", "{3}"]
    assert read([None, ["a"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))) == [
        None, literal(["a"])
    ]  # fmt: skip
    found = read([{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}])
    assert [None if f is None else str(f) for f in found] == [
        '[ a = 1; b = {"x"} ]', None, "[ ]"
    ]  # fmt: skip
    [deep] = read([[{"t": datetime(2026, 1, 1, tzinfo=UTC)}]])
    assert str(deep) == '{[ t = absTime("2026-01-01T00:00:00+00:00") ]}'


def test_expressions() -> None:
    mark = {b"classad": b"expression"}
    found = read(["a + 1", "true", None, '"text"', "undefined"], pa.string(), mark)
    assert found == [parse_expr("a + 1"), True, None, "text", UNDEFINED]
    assert read(["a + 1"], pa.string()) == ["a + 1"]
    with pytest.raises(ValueError, match=r"x: row 1: line 1, column 4: the text ends too early"):
        read(["1 +"], pa.string(), mark)
    with pytest.raises(ValueError, match="x: is said to hold expressions, but is of type int64"):
        read([1], pa.int64(), mark)


@pytest.mark.parametrize(
    "array",
    [
        pa.array([b"x"]),
        pa.array([1], pa.time32("s")),
        pa.array([1], pa.decimal128(5, 2)),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        pa.array([[b"x"]]),
        pa.array([{"a": b"x"}]),
    ],
)
def test_types_that_ads_do_not_have_are_told(array: Any) -> None:
    with pytest.raises(ValueError, match=r"^x: Arrow's .* is no type of ClassAds; cast"):
        read(array)


def test_broken_strings_are_told() -> None:
    offsets, data = pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")
    broken = pa.Array.from_buffers(pa.string(), 1, [None, offsets, data])
    with pytest.raises(ValueError, match=r"^x: .*UTF8"):
        read(broken)


STRUCT = pa.struct([("ns", pa.timestamp("ns")), ("s", pa.timestamp("s"))])


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (2**62, pa.timestamp("s")),
        ({"ns": 5, "s": 2**62}, STRUCT),
        ({"at[ns": 2**62}, pa.struct([("at[ns", pa.timestamp("s"))])),
        ([{"ns": 5, "s": 2**62}], pa.list_(STRUCT)),
        ([{"ns": 5, "s": 2**62}], pa.large_list(STRUCT)),
        ([{"ns": 5, "s": 2**62}], pa.list_(STRUCT, 1)),
        ({"ns": 5, "d": 2**62}, pa.struct([("ns", pa.duration("ns")), ("d", pa.duration("s"))])),
    ],
)
def test_no_time_overflows_beside_one_that_is_cut(value: Any, kind: Any) -> None:
    with pytest.raises(ValueError, match=r"^x: .*out of bounds"):
        read([value], kind)


def test_nanoseconds_are_cut_wherever_they_are() -> None:
    micro = timedelta(microseconds=1)
    start = datetime(1970, 1, 1, tzinfo=UTC)
    [ad] = read([{"ns": 5999, "s": 2}], STRUCT)
    assert ad is literal(ClassAd({"ns": start + 5 * micro, "s": start + timedelta(seconds=2)}))
    for kind in (pa.list_, pa.large_list, lambda one: pa.list_(one, 2)):
        assert read([[1999, None]], kind(pa.duration("ns"))) == [literal([micro, UNDEFINED])]
    words = pa.array([5999, 5999], pa.timestamp("ns")).dictionary_encode()
    assert read(words) == [start + 5 * micro] * 2
    nested = pa.StructArray.from_arrays([words], ["t"])
    assert read(nested) == [literal(ClassAd({"t": start + 5 * micro}))] * 2


def test_fields_that_differ_in_case_alone_are_told() -> None:
    for kind in (
        pa.struct([("A", pa.int8()), ("b", pa.int8()), ("a", pa.int8())]),
        pa.struct([("a", pa.int8()), ("a", pa.int8())]),
    ):
        array = pa.StructArray.from_arrays(
            [pa.array([1], pa.int8())] * kind.num_fields, fields=list(kind)
        )
        for one in (array, pa.ListArray.from_arrays(pa.array([0, 1]), array)):
            with pytest.raises(ValueError, match=r"^x: two fields are [Aa] and a to a ClassAd$"):
                read(one)


def test_nesting_has_the_depth_that_text_may_have() -> None:
    def nested(depth: int) -> Any:
        array = pa.array([1])
        for _ in range(depth):
            array = pa.ListArray.from_arrays(pa.array([0, 1]), array)
        return array

    [held] = read(nested(199))
    assert parse_expr(str(held)) is held
    for depth in (200, 1000):
        with pytest.raises(ValueError, match=r"^x: is nested more than 200 levels deep$"):
            read(nested(depth))


@pytest.mark.parametrize("zone", ["Nowhere/Atall", "+27:00", "../etc"])
def test_a_zone_that_nobody_knows_is_told(zone: str) -> None:
    for kind in (pa.timestamp("s", zone), pa.list_(pa.timestamp("s", zone))):
        with pytest.raises(ValueError, match="is no time zone that is known here") as told:
            read([[0] if pa.types.is_list(kind) else 0], kind)
        assert str(told.value).startswith(f"x: {zone} ")


def test_record_batches_are_tables_and_nothing_else_is() -> None:
    batch = pa.record_batch({"Name": ["a", "b"], "Cpus": [1, 2]})
    assert list(Pool.from_arrow(batch)) == list(Pool.from_arrow(pa.table(batch)))
    for given in (5, {"Name": ["a"]}, [batch], None, pa.array(["a"])):
        with pytest.raises(TypeError, match=r"a pyarrow.Table or RecordBatch was expected, not"):
            Pool.from_arrow(given)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), "str")])
def test_columns_of_text_that_hold_expressions_by_name(kind: Any, tmp_path: Path) -> None:
    texts = ["TARGET.Cpus > 1", None, "true", "TARGET.Cpus > 1"]
    table = pa.table({
        "Name": ["a", "b", "c", "d"], "Requirements": pa.array(texts, kind), "START": texts,
    })  # fmt: skip
    pool = Pool.from_arrow(table, expressions=["requirements"])
    assert pool["a"]["Requirements"] is parse_expr("TARGET.Cpus > 1")
    assert pool["a"]["START"] == "TARGET.Cpus > 1"
    assert "Requirements" not in pool["b"]
    assert pool.match(parse_ad("[ Cpus = 2 ]")).keys == ("a", "b", "c", "d")
    assert pool.match(parse_ad("[ Cpus = 1 ]")).keys == ("b", "c")
    # As strings they are true of nothing.
    with pytest.warns(UserWarning, match="Requirements is text"):
        text = Pool.from_arrow(table)
    assert text.match(parse_ad("[ Cpus = 2 ]")).keys == ("b",)
    path = tmp_path / "pool.parquet"
    pa.parquet.write_table(table, path)
    assert list(Pool.read_parquet(path, expressions=("Requirements",))) == list(pool)


def test_text_that_is_no_expression_is_told_with_its_row() -> None:
    def made(*texts: str | None, names: Any = ("x",)) -> Pool:
        table = pa.table({"Name": list(range(len(texts))), "x": pa.array(texts, pa.string())})
        return Pool.from_arrow(table, expressions=names)

    with pytest.raises(ValueError, match=r"^x: row 3: line 1, column 4: the text ends too early"):
        made("1", None, "1 +", "1 +")
    with pytest.raises(ValueError, match=r"^no column is named Rank, which is to hold expressions"):
        made("1", names=["x", "Rank"])
    with pytest.raises(TypeError, match=r"not one string: \['x'\]"):
        made("1", names="x")
    with pytest.raises(ValueError, match=r"^x: is said to hold expressions, but is of type int64"):
        Pool.from_arrow(pa.table({"Name": ["a"], "x": [1]}), expressions=["x"])
    # Of what no row has nothing is said.
    unused = pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["1", "1 +"]))
    table = pa.table({"Name": ["a"], "x": unused})
    assert Pool.from_arrow(table, expressions=["x"])["a"]["x"] == 1


@pytest.mark.parametrize("data", [b"", b"[ a = 1 ]", b"PAR1" + b"x" * 40 + b"PAR1"])
def test_a_file_that_is_no_parquet_is_told(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "pool.parquet"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"/pool\.parquet: not a Parquet file, or only a part"):
        Pool.read_parquet(path)
    with path.open("rb") as file, pytest.raises(ValueError, match="not a Parquet file"):
        Pool.read_parquet(file)
    with pytest.raises(ValueError, match=r"^not a Parquet file"):
        Pool.read_parquet(BytesIO(data))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Pool.read_parquet(tmp_path / "nowhere")


def test_a_damaged_parquet_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "pool.parquet"
    Pool([ClassAd({"Name": f"slot{n}", "x": n}) for n in range(500)]).write_parquet(path)
    data = bytearray(path.read_bytes())
    data[8:200] = b"\xff" * 192
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"pool\.parquet: not a Parquet file, or only a part"):
        Pool.read_parquet(path)


def test_columns_of_nulls_hold_nothing() -> None:
    assert read([None, None], pa.null()) == [None, None]
    assert read([None, None], pa.int32()) == [None, None]
    table = pa.table({"Name": pa.array([], pa.string())})
    assert len(Pool.from_arrow(table)) == 0


def test_chunks_and_many_attributes_that_rows_lack() -> None:
    rows: list[dict[str, Any]] = [
        {"Name": f"wn{n}", **{f"a{i}": n for i in range(70) if (n >> (i % 3)) & 1 or i == n}}
        for n in range(70)
    ]
    schema = pa.schema([("Name", pa.string()), *((f"a{i}", pa.int64()) for i in range(70))])
    parts = [pa.Table.from_pylist(rows[i : i + 9], schema=schema) for i in range(0, 70, 9)]
    pool = Pool.from_arrow(pa.concat_tables(parts))
    assert list(pool) == [ClassAd(row) for row in rows]
    assert [list(ad) for ad in pool] == [list(row) for row in rows]


def test_the_forms_of_large_columns() -> None:
    count = 6000
    table = pa.table({
        "Name": [f"wn{n}" for n in range(count)], "Disk": range(count),
        "Load": [None if n == 5 else n / 7 for n in range(count)], "Cpus": [4] * count,
    })  # fmt: skip
    pool = Pool.from_arrow(table)
    forms = {name: type(column) for name, column in pool._store._columns.items()}
    assert forms == {"name": Texts, "disk": Numeric, "load": Numeric, "cpus": Coded}
    assert pool["wn5"] == ClassAd(Name="wn5", Disk=5, Cpus=4)
    assert pool["wn6"] == ClassAd(Name="wn6", Disk=6, Load=6 / 7, Cpus=4)
    pool.update(ClassAd(Name="wn6", Disk="none"))
    pool.remove("wn5")
    assert len(pool.match(parse_ad("[ Requirements = TARGET.Disk < 10 ]"))) == 8
    back = pool.to_arrow()
    assert [back.schema.field(name).type for name in ("Name", "Load")] == [
        pa.string(),
        pa.float64(),
    ]
    assert list(Pool.from_arrow(back)) == list(pool)


# --- keys -----------------------------------------------------------------------------------------


def test_keys_of_tables() -> None:
    table = pa.table({"Id": [1, 2], "Name": ["a", "b"]})
    assert Pool.from_arrow(table).keys() == ["a", "b"]
    assert Pool.from_arrow(table, key="ID").keys() == ["1", "2"]
    twin = Pool.from_arrow(Pool.from_arrow(table, key="Id").to_arrow())
    assert (twin.key, twin.keys()) == ("Id", ["1", "2"])
    text = pa.field("Name", pa.string(), metadata={b"classad": b"expression"})
    named = pa.table([['strcat("wn", Id)'] * 2, [1, 2]], schema=pa.schema([text, ("Id", "int64")]))
    assert Pool.from_arrow(named).keys() == ["wn1", "wn2"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"Id": [1]}, "row 1 of the table has no Name"),
        ({"Name": ["a", None]}, "row 2 of the table has no Name"),
        ({"Name": ["a", "b"], "NAME": ["a", "b"]}, "two columns are Name and NAME to a ClassAd"),
        ({"Name": [0.5]}, "row 1 of the table has Name = 0.5; a key is a string or an integer"),
        ({"Name": [True, False]}, "row 1 of the table has Name = true; a key is a string"),
        ({"Name": ["a", "b", "a", "b"]}, "several ads have the same Name: 'a', 'b'; the key"),
    ],
)
def test_tables_without_keys_are_told(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Pool.from_arrow(pa.table(columns))


# --- to Arrow -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("contents", "kind"),
    [
        ((1, None, MAX_INT), pa.int64()),
        ((1.5, None, -0.0), pa.float64()),
        ((True, False, None), pa.bool_()),
        ((timedelta(seconds=1), None), pa.duration("us")),
        ((datetime(2026, 1, 1, tzinfo=UTC), None), pa.timestamp("us", "UTC")),
        (([1, 2], [], None, [UNDEFINED]), pa.list_(pa.int64())),
        (([[1.5], []], [[]]), pa.list_(pa.list_(pa.float64()))),
        (({"a": 1, "b": "x"}, None), pa.struct([("a", pa.int64()), ("b", pa.string())])),
        (([{"a": []}], [{"a": [1]}]), pa.list_(pa.struct([("a", pa.list_(pa.int64()))]))),
    ],
)
def test_what_arrow_has_a_type_for(contents: tuple[Any, ...], kind: Any) -> None:
    field, column = written(*contents)
    assert field.type == kind
    assert not field.metadata
    assert column.null_count == contents.count(None)


def test_times_with_offsets() -> None:
    for offset, zone in ((90, "+01:30"), (-90, "-01:30")):
        time = datetime(2026, 1, 1, tzinfo=timezone(timedelta(minutes=offset)))
        assert written(time)[0].type == pa.timestamp("us", zone)


@pytest.mark.parametrize(
    "contents",
    [
        (1, 2.0),
        (1, True),
        (UNDEFINED,),
        (ERROR, 1),
        (parse_expr("a + 1"), 7, "text", None),
        ([1, "x"],),
        ([1], ["x"]),
        ({"a": UNDEFINED},),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1}, {"A": 1}),
        ({},),
        (timedelta.max,),
        (
            datetime(2026, 1, 1, tzinfo=UTC),
            datetime(2026, 1, 1, tzinfo=timezone(timedelta(1 / 24))),
        ),
        (datetime(2026, 1, 1, tzinfo=timezone(timedelta(seconds=7))),),
    ],
)
def test_what_arrow_has_no_type_for_travels_as_text(contents: tuple[Any, ...]) -> None:
    field, _ = written(*contents)
    assert field.metadata == {b"classad": b"expression"}
    assert field.type.value_type == pa.string()


def test_strings_that_repeat_are_dictionaries() -> None:
    field, column = written(*["a", "b", None, "a"] * 3)
    if pa.types.is_dictionary(field.type):
        assert field.type.value_type == pa.string()
    assert column.to_pylist() == ["a", "b", None, "a"] * 3
    wide = Pool(ClassAd(Name=n, x=f"s{n % 200}") for n in range(1000)).to_arrow()
    assert Pool.from_arrow(wide)["999"] == ClassAd(Name=999, x="s199")


def test_half_of_a_surrogate_pair_is_told() -> None:
    for text in ("\ud800", "x\udc00"):
        with pytest.raises(ValueError, match="Name: Arrow cannot hold half of a surrogate pair"):
            Pool([ClassAd(Name=text), ClassAd(Name="b"), ClassAd(Name="c")]).to_arrow()


def test_the_table_keeps_the_order_and_the_spelling() -> None:
    pool = Pool(parse_ads('[ Name = "b"; CPUS = 1 ] [ Disk = 2; Name = "a" ]'))
    table = pool.to_arrow()
    assert table.column_names == ["Name", "CPUS", "Disk"]
    assert table.column("Name").to_pylist() == ["b", "a"]
    assert table.schema.metadata == {b"classad.key": b"Name"}


# --- files, and without pyarrow -------------------------------------------------------------------


def test_parquet_and_back(tmp_path: Path) -> None:
    pool = Pool(parse_ads('[ Name = "b"; x = y + 1; l = {1}; t = 1.5 ] [ Name = "a"; x = 2 ]'))
    path = tmp_path / "pool.parquet"
    pool.write_parquet(path)
    assert path.read_bytes()[:4] == b"PAR1"
    assert list(Pool.read_parquet(path)) == list(pool)
    with path.open("rb") as file:
        assert list(Pool.read_parquet(file)) == list(pool)
    with pytest.raises(ValueError, match=r"row 1 of the table has t = 1\.5"):
        Pool.read_parquet(path, key="t")
    with pytest.raises(FileNotFoundError):
        Pool.read_parquet(tmp_path / "none")


def test_without_pyarrow_it_is_said_what_to_install(hide_pyarrow: Callable[[], None]) -> None:
    hide_pyarrow()
    for use in (
        lambda: Pool().to_arrow(),
        lambda: Pool.from_arrow(None),
        lambda: Pool.read_parquet("pool"),
        lambda: Pool().write_parquet("pool"),
    ):
        with pytest.raises(ImportError, match=r"pip install 'classad-matchmaker\[arrow\]'"):
            use()


def test_lists_of_nothing_but_undefined_go_both_ways() -> None:
    pool = Pool(parse_ads('[ Name = "a"; Items = { undefined, undefined } ]'))
    assert list(Pool.from_arrow(pool.to_arrow())) == list(pool)
