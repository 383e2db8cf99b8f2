from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from matchmaker import ClassAd, Expr, Pool, match, parse_ad, parse_expr
from matchmaker.classad.nodes import Binary, Literal
from matchmaker.matching.columns import store
from matchmaker.matching.columns.column import Coded, Column, Numeric, ObjectColumn
from matchmaker.matching.columns.forms import Sparse, Texts
from matchmaker.matching.columns.store import Store

pytestmark = pytest.mark.slow


def held(pool: Pool) -> dict[str, Column]:
    return pool._store._columns


def machine(number: int, **more: Any) -> ClassAd:
    return ClassAd({"Name": f"wn{number}", "Cpus": number % 4, "Disk": number, **more})


def above(number: int) -> Expr:
    """An expression that no other has, made faster than it is parsed."""
    return Binary(">", parse_expr("TARGET.x"), Literal(number))


# --- forms ----------------------------------------------------------------------------------------


def test_each_column_has_the_form_that_suits_what_it_holds() -> None:
    start = parse_expr("TARGET.Owner != 'x'")
    pool = Pool(
        machine(n, Load=n / 7, START=start, Want=above(n))
        for n in range(5000)
    )  # fmt: skip
    forms = {name: type(column) for name, column in held(pool).items()}
    assert forms == {
        "name": Texts, "cpus": Coded, "disk": Numeric, "load": Numeric, "start": Coded,
        "want": ObjectColumn,
    }  # fmt: skip
    assert pool["wn4321"] == machine(4321, Load=4321 / 7, START=start, Want=pool["wn4321"]["Want"])


def test_distinct_strings_take_their_bytes_and_a_few_more() -> None:
    names = [f"host-{number:07}.example.org" for number in range(50_000)]
    pool = Pool(ClassAd({"Name": name, "Path": f"/{name}"}) for name in names)
    own = sum(len(name) + len(name) + 1 for name in names)
    column = held(pool)["name"]
    assert isinstance(column, Texts)
    assert sum(taken(column) for column in held(pool).values()) < own * 1.2 + 2 * 5 * len(names)
    assert taken_by_keys(pool) == 8 * len(names)
    assert pool.match(parse_ad("[ ]")).keys == tuple(names)


def taken(column: Column) -> int:
    """The bytes in a column's arrays."""
    names = ("codes", "kinds", "bits", "starts", "lengths")
    arrays = [getattr(column, name, None) for name in names]
    heap = len(column.heap.data) if isinstance(column, Texts) else 0
    return heap + sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


def taken_by_keys(pool: Pool) -> int:
    index = pool._store._index
    assert not index._recent
    return index._entries.nbytes


def test_attributes_of_few_ads_take_no_room_in_the_others() -> None:
    ads = [machine(number, **{f"Only{number}": number}) for number in range(8192)]
    pool = Pool(ads)
    own = [column for name, column in held(pool).items() if name.startswith("only")]
    assert len(own) == 8192
    dense = [column for column in own if not isinstance(column, Sparse)]
    assert sum(taken(column) for column in dense) < 8192 * 1024
    assert pool["wn8000"] == ads[8000]
    assert pool.match(parse_ad("[ Requirements = TARGET.Only8000 > 1 ]")).keys == ("wn8000",)
    job = parse_ad("[ Requirements = TARGET.Only5 =?= undefined ]")
    assert len(pool.match(job)) == 8191
    pool.update(machine(8000))
    assert len(pool.match(parse_ad("[ Requirements = TARGET.Only8000 > 1 ]"))) == 0


def test_what_is_no_longer_held_is_given_up() -> None:
    pool = Pool(machine(number, Load=number / 7, Owner=f"u{number}") for number in range(5000))
    for round_ in range(12):
        for number in range(0, 5000, 2):
            ad = machine(number, Load=0.5, Owner=f"user {number} of round {round_}")
            ad["Load"] = above(10_000 * round_ + number)
            ad[f"Since{round_}_{number}"] = True
            del ad["Disk"]
            pool.update(ad)
    columns = held(pool)
    owner, load = columns["owner"], columns["load"]
    assert isinstance(owner, Texts)
    assert owner.heap.used < 5000 * 100
    assert isinstance(load, ObjectColumn)
    assert len(columns) < 5000
    assert len(pool._store._layouts) < 3 * 5000
    assert len(pool._store._names) < 3 * 5000
    assert pool["wn7"] == machine(7, Load=1.0, Owner="u7")
    assert pool["wn8"]["Owner"] == ClassAd({"x": "user 8 of round 11"})["x"]


def test_a_column_that_a_view_shows_is_copied_only_where_it_changes() -> None:
    pool = Pool(machine(number) for number in range(10))
    view = pool.snapshot()._view
    pool.update(machine(3, Disk=99))
    columns = held(pool)
    assert columns["cpus"] is view.held["cpus"]
    assert columns["disk"] is not view.held["disk"]
    assert view.ad(3) == machine(3)


# --- keys -----------------------------------------------------------------------------------------


@pytest.fixture(params=["hashes as they are", "all hashes equal", "few hashes"])
def hashes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "all hashes equal":
        monkeypatch.setattr(store, "hash", lambda key: 7, raising=False)
    elif request.param == "few hashes":
        monkeypatch.setattr(store, "hash", lambda key: -len(key), raising=False)
    monkeypatch.setattr(store, "_RECENT", 8)


@pytest.mark.usefixtures("hashes")
def test_a_store_is_a_table_of_ads_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SETTLE_EVERY", 16)
    chance = random.Random(3)
    pool = Pool((machine(number) for number in range(60)), key="Name")
    expected = {f"wn{number}": machine(number) for number in range(60)}
    for _ in range(800):
        number = chance.randrange(120)
        name = f"wn{number}"
        if chance.random() < 0.45 and name in expected:
            pool.remove(name)
            del expected[name]
            with pytest.raises(KeyError):
                pool.remove(name)
        else:
            ad = machine(number, Load=chance.random())
            if number % 5 == 0:
                ad["Name"] = parse_expr(f'strcat("wn", {number})')
            pool.update(ad)
            expected[name] = ad
        assert len(pool) == len(expected)
        assert (name in pool) == (name in expected)
    assert pool.keys() == list(expected)
    assert list(pool) == list(expected.values())
    snapshot = pool.snapshot()
    for number in range(130):
        name = f"wn{number}"
        assert (name in snapshot) == (name in expected)
        if name in expected:
            assert pool[name] == snapshot[name] == expected[name]
    assert "wn" not in pool
    assert 7 not in pool


def test_rows_that_are_gone_are_given_up() -> None:
    names = [parse_expr(f'strcat("wn", {number})') if number % 3 else f"wn{number}"
             for number in range(4000)]  # fmt: skip
    pool = Pool(machine(number, Name=name) for number, name in enumerate(names))
    then = pool.snapshot()
    for number in range(4000):
        if number % 4:
            pool.remove(f"wn{number}")
    assert pool.snapshot()._view.size < 2500
    assert pool.keys() == [f"wn{number}" for number in range(0, 4000, 4)]
    assert [ad.eval("Disk") for ad in pool] == list(range(0, 4000, 4))
    assert all(pool[f"wn{number}"].eval("Disk") == number for number in range(0, 4000, 4))
    pool.update(machine(1))
    assert pool.keys()[-1] == "wn1"
    assert [ad.eval("Disk") for ad in then] == list(range(4000))
    assert then["wn1"].eval("Disk") == 1


def test_a_row_that_is_gone_is_not_found_by_what_it_shows() -> None:
    pool = Pool([machine(1), machine(2)])
    pool.remove("wn1")
    assert "MISSING" not in pool
    assert str(pool.keys()) == "['wn2']"


def test_all_keys_that_come_again_are_told() -> None:
    ads = [ClassAd({"Name": name}) for name in "abcabdbb"]
    with pytest.raises(ValueError, match="several ads have the same Name: 'a', 'b'; the key must"):
        Pool(ads)
    with pytest.raises(ValueError, match="3 ads have Name = 'a'"):
        Pool([ClassAd({"Name": "a"})] * 3)
    many = [ClassAd({"Id": number // 2}) for number in range(40)]
    with pytest.raises(ValueError, match=r"same Id: '0', '1', '2', '3', '4' and 15 more;"):
        Pool(many, key="Id")


def test_keys_that_are_equal_as_text_are_equal() -> None:
    with pytest.raises(ValueError, match="two ads have Id = '7'"):
        Pool([ClassAd({"Id": 7}), ClassAd({"Id": "7"})], key="Id")
    pool = Pool([ClassAd({"Id": 7})], key="ID")
    pool.update(ClassAd({"Id": "7"}))
    assert list(pool) == [ClassAd({"Id": "7"})]


def test_ads_are_entered_as_they_come() -> None:
    taken: list[int] = []

    def ads() -> Iterator[ClassAd]:
        for number in range(3000):
            taken.append(number)
            yield machine(number)

    assert len(Pool(ads())) == len(taken) == 3000


# --- strings --------------------------------------------------------------------------------------


def test_strings_of_any_length_and_kind_are_kept_exactly() -> None:
    chance = random.Random(5)
    alphabet = "aé\u4e2d\U0001f600\0\ud800\udc00 "
    held = Store()
    expected: dict[str, Any] = {}
    for number in range(6000):
        length = chance.choice((0, 3, 85, 254, 255, 256, 257))
        text: Any = "".join(chance.choices(alphabet, k=length)) + str(number)
        if number in (5500, 5600):
            text = "x" * 70_000 + str(number)
        content = text if number % 7 else parse_expr(f"a + {number % 100}")
        expected[str(number)] = content
        held.put(str(number), ClassAd({"Text": content}))
    assert isinstance(held.view().columns["text"], Texts)
    assert {key: held.ad(key)._held["text"] for key in expected} == expected
    column = held.view().columns["text"]
    assert column.contents(range(6000)) == list(expected.values())
    assert column.contents([5, 4, 7]) == [column.get(5), column.get(4), column.get(7)]
    assert column.contents(range(9, 2, -3)) == [column.get(9), column.get(6), column.get(3)]


def test_matches_are_those_of_each_pair_when_nothing_repeats() -> None:
    ads = [machine(number, Tag=f"t{number}", Load=number / 3) for number in range(5000)]
    pool = Pool(ads)
    for number in range(0, 5000, 50):
        pool.remove(f"wn{number}")
    for text in ('TARGET.Tag == "T77"', "TARGET.Load > 1600", 'TARGET.Name < "wn2"'):
        job = parse_ad(f"[ Requirements = {text}; Rank = TARGET.Disk ]")
        expected = [
            f"wn{n}" for n in range(5000) if n % 50 and match(job, ads[n]).matched
        ]  # fmt: skip
        assert list(pool.match(job).keys) == expected
        assert list(pool.top(job, 3).keys) == expected[::-1][:3]
