"""What a person does with a pool, its matches and an assignment, at a prompt or in a notebook."""

from __future__ import annotations

from typing import Any

import pytest

import matchmaker as mm
from matchmaker import batch, pilots
from matchmaker.matching.selection import select
from matchmaker.matching.snapshot import Snapshot

SLOTS = """
[ Name = "a<1>"; Cpus = 2; State = "Unclaimed" ]
[ Name = "b"; Cpus = 8; Memory = 4000; State = "Unclaimed"; PartitionableSlot = true ]
[ Name = "c"; Cpus = 1; State = "Owner" ]
"""


@pytest.fixture
def pool() -> mm.Pool:
    return mm.Pool(mm.parse_ads(SLOTS))


def test_a_pool_says_what_it_holds(pool: mm.Pool) -> None:
    assert repr(pool) == "<Pool of 3 ads by Name: 'a<1>', 'b', 'c'>"
    assert repr(pool.snapshot()) == "<Snapshot of 3 ads: 'a<1>', 'b', 'c'>"
    assert repr(mm.Pool()) == "<Pool of 0 ads by Name>"
    many = mm.Pool(mm.parse_ads("".join(f"[ Name = {n} ]" for n in range(50))))
    assert repr(many) == "<Pool of 50 ads by Name: '0', '1', '2', '3', '4', ...>"


def test_what_was_found_is_gone_through(pool: mm.Pool) -> None:
    job = mm.parse_ad('[ Owner = "ana"; Rank = TARGET.Cpus ]')
    found = pool.match(job)
    assert list(found) == [("a<1>", 2.0), ("b", 8.0), ("c", 1.0)]
    cycle = pool.assign([job, job])
    assert [placement.slot for placement in cycle] == ["b", "b"]
    selection = select(job, [("x", mm.ClassAd(Cpus=1)), ("y", mm.ClassAd(Cpus=2))])
    assert [candidate.name for candidate in selection] == ["y", "x"]


def test_a_notebook_shows_tables_in_which_nothing_is_markup(pool: mm.Pool) -> None:
    job = mm.parse_ad('[ Owner = "ana<b>"; Rank = TARGET.Cpus; Requirements = TARGET.Cpus < 4 ]')
    found = pool.match(job)._repr_html_()
    assert "a&lt;1&gt;" in found
    assert "a<1>" not in found
    assert "ana&lt;b&gt;" in pool.assign([job])._repr_html_()
    named = [("<i>", mm.ClassAd(Cpus=1)), ("y", mm.ClassAd(Cpus=9))]
    shown = select(job, named)._repr_html_()
    assert "&lt;i&gt;" in shown
    assert "<i>" not in shown
    many = mm.Pool(mm.parse_ads("".join(f"[ Name = {n} ]" for n in range(500))))
    assert many.match(mm.ClassAd())._repr_html_().count("<tr>") < 40


def test_what_was_found_is_a_table_of_arrow_and_of_pandas(pool: mm.Pool) -> None:
    job = mm.parse_ad('[ Owner = "ana"; Rank = TARGET.Cpus ]')
    table = pool.match(job).to_arrow()
    assert table.to_pydict() == {
        "key": ["a<1>", "b", "c"], "rank": [2.0, 8.0, 1.0], "unranked": [False, False, False],
    }  # fmt: skip
    cycle = pool.assign([job, mm.parse_ad("[ RequestCpus = 64 ]")])
    rows = cycle.to_arrow().to_pylist()
    assert [(row["number"], row["slot"], row["outcome"]) for row in rows] == [
        (0, "b", "placed"), (1, "a<1>", "placed"),
    ]  # fmt: skip
    selection = select(job, [("x", mm.ClassAd(Cpus=1)), ("y", mm.ClassAd(Cpus=2))])
    assert selection.to_arrow().to_pydict()["name"] == ["y", "x"]
    frame = pool.match(job).to_pandas()
    assert list(frame["key"]) == ["a<1>", "b", "c"]
    assert list(cycle.to_pandas()["slot"]) == ["b", "a<1>"]


def test_attributes_of_one_ad_are_set(pool: mm.Pool) -> None:
    pool.set("b", State="Claimed", Load=mm.parse_expr("Cpus / 2"))
    assert pool["b"].eval("State") == "Claimed"
    assert pool["b"].eval("Load") == 4
    assert pool["b"].eval("Memory") == 4000
    before = pool.snapshot()
    pool.set("b", state="Unclaimed")
    assert before["b"].eval("State") == "Claimed"
    assert list(pool["b"]).count("State") == 1
    with pytest.raises(KeyError, match="nowhere"):
        pool.set("nowhere", State="Claimed")
    with pytest.raises(ValueError, match="Name is the key"):
        pool.set("b", name="z")
    assert pool.keys() == ["a<1>", "b", "c"]


def test_ads_expire_by_what_they_say() -> None:
    pool = mm.Pool(
        mm.parse_ads("""
      [ Name = "old"; LastHeardFrom = 100; ClassAdLifetime = 900 ]
      [ Name = "new"; LastHeardFrom = 900; ClassAdLifetime = 900 ]
      [ Name = "silent" ]
      [ Name = "odd"; LastHeardFrom = "yesterday"; ClassAdLifetime = 900 ]""")
    )
    assert pool.expire(1000) == []
    assert pool.expire(1001) == ["old"]
    assert pool.keys() == ["new", "silent", "odd"]
    assert pool.expire(5, "MY.LastHeardFrom - 896") == ["new"]


def test_an_ad_that_was_renewed_meanwhile_does_not_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = mm.Pool(
        mm.parse_ads("""
      [ Name = "renewed"; Until = 1 ] [ Name = "removed"; Until = 1 ] [ Name = "old"; Until = 1 ]
      """)
    )
    values = Snapshot._own_values

    def meanwhile(self: Snapshot, expression: mm.Expr) -> list[mm.Value]:
        found = values(self, expression)
        pool.set("renewed", Until=9)
        pool.remove("removed")
        return found

    monkeypatch.setattr(Snapshot, "_own_values", meanwhile)
    assert pool.expire(5, "MY.Until") == ["old"]
    assert pool.keys() == ["renewed"]


def test_an_assignment_is_entered_in_the_pool(pool: mm.Pool) -> None:
    job = mm.parse_ad('[ Owner = "ana"; RequestCpus = 3; RequestMemory = 1000 ]')
    cycle = pool.assign([job, job, mm.parse_ad("[ ]")])
    assert repr(cycle) == f"<Assignment: {len(cycle.placed)} of 3 jobs placed>"
    cycle.apply(pool)
    assert pool["b"].eval("Cpus") == 8 - sum(p.taken["Cpus"] for p in cycle.placed if p.slot == "b")
    assert pool["b"].eval("State") == "Unclaimed"
    again = pool.assign([mm.parse_ad("[ RequestCpus = 3 ]")] * 5)
    taken = {p.slot for p in cycle.placed} - {"b"}
    assert not taken & {p.slot for p in again.placed}
    pool.remove("b")
    with pytest.raises(KeyError, match="b"):
        cycle.apply(pool)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda pool: pool.assign([], {}), "a Policy was expected, not dict"),
        (lambda pool: pool.match("[ ]"), "an ad was expected, not str"),
        (
            lambda _: batch.flags(mm.ClassAd(), "slurm"),  # type: ignore[arg-type]
            "a reduction was expected, not ClassAd",
        ),
        (lambda pool: pool.set("b", State=object()), "object"),
        (lambda pool: pool.expire("now"), "a time in seconds was expected, not str"),
        (lambda _: mm.reduce(mm.ClassAd(), "q", mm.glue.scope), "an ad was expected, not str"),  # type: ignore[arg-type]
        (lambda _: mm.reduce(mm.ClassAd(), mm.ClassAd(), {}), "scope is a function of a name"),  # type: ignore[arg-type]
        (lambda _: mm.reduce_many(mm.ClassAd(), mm.ClassAd(), mm.glue.scope), "several ads were"),  # type: ignore[arg-type]
        (lambda _: mm.trace(5), "an expression was expected, as an Expr or as text, not int"),  # type: ignore[arg-type]
        (lambda _: mm.write_ads([], 5), "a path or an open file was expected, not int"),  # type: ignore[arg-type]
        (lambda _: mm.read_ads(5), "a path or an open file was expected, not int"),  # type: ignore[arg-type]
        (lambda _: mm.glue.read_ldif(5), "a path, a file or lines were expected, not int"),  # type: ignore[arg-type]
        (lambda pool: pool.assign([]).apply("x"), "a Pool was expected, not str"),
        (lambda _: pilots.decide("x"), "a pilots.PilotSnapshot was expected, not str"),  # type: ignore[arg-type]
        (lambda _: mm.ClassAd(5), "attributes by name were expected, not int"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_get_a_sentence(pool: mm.Pool, call: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        call(pool)


def test_expressions_come_back_from_arrow_and_pandas() -> None:
    pool = mm.Pool(mm.parse_ads('[ Name = "a"; Requirements = TARGET.Cpus < 8; Cpus = 2 ]'))
    assert list(mm.Pool.from_pandas(pool.to_pandas())) == list(pool)
    frame = pool.to_pandas()
    frame = frame[frame["Cpus"] > 1].copy()
    assert list(mm.Pool.from_pandas(frame)) == list(pool)
    frame.attrs.clear()
    with pytest.warns(UserWarning, match="Requirements is text"):
        lost = mm.Pool.from_pandas(frame)
    assert lost["a"].eval("Requirements") == "TARGET.Cpus < 8"
    table = pool.to_arrow().replace_schema_metadata(None)
    with pytest.warns(UserWarning, match="Requirements is text"):
        mm.Pool.from_arrow(table.cast(_without_marks(table.schema)))


def _without_marks(schema: Any) -> Any:
    import pyarrow as pa

    return pa.schema([field.remove_metadata() for field in schema])
