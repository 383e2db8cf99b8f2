from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, Pool, match, parse_ad, parse_ads, parse_expr
from matchmaker.classad import state
from matchmaker.matching.columns.masks import MOST_NAMED
from matchmaker.matching.pool import PoolChanges

MACHINES = """
[ Name = "a"; Cpus = 2; Memory = 100 ]
[ Name = "b"; Cpus = 8; Memory = 100 ]
[ Name = "c"; Cpus = 8; Memory = 400; Requirements = other.Owner == "ana" ]
[ Name = "d"; Cpus = 4; Memory = undefined ]
"""
JOB = parse_ad('[ Owner = "ben"; Requirements = other.Cpus >= 4; Rank = other.Memory ]')


@pytest.fixture
def pool() -> Pool:
    return Pool(parse_ads(MACHINES), key="Name")


def test_match_gives_keys_ranks_and_rows_in_the_pools_order(pool: Pool) -> None:
    found = pool.match(JOB)
    assert found.keys == ("b", "d")
    assert found.ranks == (100.0, 0.0)
    assert found.rows == (1, 3)
    assert found.unranked == ("d",)
    assert len(found) == 2


def test_a_job_without_rank_has_nothing_unranked(pool: Pool) -> None:
    found = pool.match(parse_ad("[]"))
    assert found.keys == ("a", "b", "d")
    assert found.ranks == (0.0, 0.0, 0.0)
    assert found.unranked == ()


def test_match_is_the_pairwise_match(pool: Pool) -> None:
    for text in ("[]", '[Owner = "ana"]', "[Requirements = other.Memory > 1]", str(JOB)):
        job = parse_ad(text)
        expected = [pool[name] for name in "abcd" if match(job, pool[name]).matched]
        assert [pool[key] for key in pool.match(job).keys] == expected


def test_top_is_best_first(pool: Pool) -> None:
    job = parse_ad('[ Owner = "ana"; Rank = other.Cpus ]')
    assert pool.top(job, 10).keys == ("b", "c", "d", "a")
    assert pool.top(job, 2).keys == ("b", "c")
    assert pool.top(job, 2).ranks == (8.0, 8.0)
    assert pool.top(job, 2).rows == (1, 2)
    assert pool.top(job, 0).keys == ()


def test_top_breaks_ties_by_chance_where_asked(pool: Pool) -> None:
    job = parse_ad('[ Owner = "ana"; Rank = other.Cpus ]')
    firsts = {pool.top(job, 1, tie=random.Random(seed)).keys for seed in range(30)}
    assert firsts == {("b",), ("c",)}


def test_equal_jobs_give_equal_matches_in_order(pool: Pool) -> None:
    jobs = [JOB, parse_ad("[ Requirements = other.Cpus < 4 ]"), JOB.copy(), parse_ad("[]")]
    assert list(pool.match_many(jobs)) == [pool.match(job) for job in jobs]


def test_jobs_that_differ_in_what_machines_ask_are_not_taken_for_equal(pool: Pool) -> None:
    ana = parse_ad('[ Owner = "ana"; Requirements = other.Cpus == 8 ]')
    ben = parse_ad('[ Owner = "ben"; Requirements = other.Cpus == 8 ]')
    assert [found.keys for found in pool.match_many([ana, ben, ana])] == [
        ("b", "c"),
        ("b",),
        ("b", "c"),
    ]


def test_update_enters_and_replaces(pool: Pool) -> None:
    pool.update(parse_ad('[ Name = "a"; Cpus = 16 ]'))
    pool.update(parse_ad('[ Name = "e"; Cpus = 16 ]'))
    assert len(pool) == 5
    assert pool.match(parse_ad("[ Requirements = other.Cpus == 16 ]")).keys == ("a", "e")


def test_remove_takes_out(pool: Pool) -> None:
    pool.remove("b")
    assert len(pool) == 3
    assert pool.match(JOB).keys == ("d",)
    assert [ad.eval("Name") for ad in pool] == ["a", "c", "d"]
    with pytest.raises(KeyError):
        pool.remove("b")
    with pytest.raises(KeyError):
        pool["b"]


def test_keys_tell_ads_apart() -> None:
    with pytest.raises(ValueError, match="two ads have Name = 'a'"):
        Pool(parse_ads('[Name = "a"] [Name = "a"]'))
    with pytest.raises(ValueError, match="an ad has no Name"):
        Pool([ClassAd({"Cpus": 1})])
    for value, shown in (("{ 1 }", "{1}"), ("1.5", "1.5"), ("true", "true"), ("1 > 0", "true")):
        said = re.escape(f"an ad has Name = {shown}; a key is a string or an integer: [ Name")
        with pytest.raises(ValueError, match=said):
            Pool([parse_ad(f"[ Name = {value} ]")])


def test_a_key_may_be_a_number_or_an_expression() -> None:
    assert Pool([ClassAd({"Id": 7})], key="Id").match(ClassAd()).keys == ("7",)
    named = parse_ad('[ Slot = 1; Name = strcat("slot", string(Slot)) ]')
    assert Pool([named]).match(ClassAd()).keys == ("slot1",)


def test_an_empty_pool_matches_nothing() -> None:
    assert len(Pool()) == 0
    assert Pool().match(JOB).keys == ()
    assert Pool().top(JOB, 3).keys == ()
    assert Pool().explain(JOB).matched == 0


def test_explain_counts_each_clause_alone_and_with_those_before(pool: Pool) -> None:
    job = parse_ad(
        '[ Owner = "ben"; Requirements = other.Cpus >= 4 && other.Memory >= 400 && true ]'
    )
    found = pool.explain(job)
    assert [(c.text, c.matched, c.cumulative) for c in found.clauses] == [
        ("other.Cpus >= 4", 3, 3),
        ("other.Memory >= 400", 1, 1),
        ("true", 4, 1),
    ]
    assert (found.total, found.refused_by_ads, found.matched) == (4, 1, 0)
    text = str(found)
    assert "0 of 4 match; 1 satisfy" in text
    assert "other.Memory >= 400" in text


def test_explain_agrees_with_match(pool: Pool) -> None:
    for text in (
        "[]",
        str(JOB),
        '[Owner = "ana"; Requirements = other.Memory > 1 || other.Cpus > 2]',
    ):
        job = parse_ad(text)
        assert pool.explain(job).matched == len(pool.match(job))


def test_a_job_past_its_budget_says_so_and_the_others_go_on(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state.Budget, "limit", 50)
    hungry = " + ".join(["size(TARGET.Name)"] * 100)
    many = [ClassAd({"Name": str(number), "Cpus": number}) for number in range(40)]
    large = Pool(many)
    jobs = [
        parse_ad("[ Requirements = TARGET.Cpus > 30 ]"),
        parse_ad(f"[ Requirements = {hungry} > 0 ]"),
        parse_ad("[ Requirements = TARGET.Cpus > 20 ]"),
    ]
    first, greedy, last = large.match_many(jobs)
    assert (len(first), len(greedy), len(last)) == (9, 0, 19)
    assert first.error is None
    assert greedy.error == f"the job's requirements: {state.too_many_steps()}"


def same_as_each_match(pool: Pool, job: ClassAd) -> None:
    expected = [ad.eval("Name") for ad in pool if match(job, ad).matched]
    assert list(pool.match(job).keys) == expected


@pytest.mark.parametrize("word", ["target", "other", "my", "self", "parent"])
def test_jobs_that_hide_a_scope_are_not_taken_for_others(word: str) -> None:
    pool = Pool(ClassAd({"Name": str(number), "a": number}) for number in range(40))
    requirement = "Requirements = TARGET.a == 3 && MY.w == 3; w = 3"
    plain = parse_ad(f"[ {requirement} ]")
    hiding = parse_ad(f"[ {requirement}; {word} = [ a = 3; w = 4 ] ]")
    for jobs in ([plain, hiding], [hiding, plain]):
        found = [set(each.keys) for each in pool.match_many(jobs)]
        assert found == [{ad.eval("Name") for ad in pool if match(j, ad).matched} for j in jobs]


def test_a_plan_leaves_removed_ads_out() -> None:
    pool = Pool(ClassAd(Name=f"n{n}", Cpus=n % 3) for n in range(3000))
    for n in range(750):
        pool.remove(f"n{n}")
    assert str(pool.plan("TARGET.Cpus > 0")) == (
        "TARGET.Cpus > 0: by value of cpus (2250 rows, 3 evaluations)"
    )


def test_the_clock_is_read_anew_and_may_be_an_attribute() -> None:
    clock = [f"CurrentTime = {number}.5;" if number % 7 else "" for number in range(700)]
    pool = Pool(parse_ad(f'[ Name = "{n}"; {text} ]') for n, text in enumerate(clock))
    same_as_each_match(pool, parse_ad("[ Requirements = CurrentTime > 5 ]"))
    steps = pool.plan("TARGET.CurrentTime > 5 || CurrentTime < 3").steps
    assert [step.way for step in steps] == ["by row"]


def test_what_is_an_error_for_all_rows_is_one_for_some_of_them() -> None:
    halves = [f"x = {number}.5;" if number % 7 else "" for number in range(700)]
    pool = Pool(parse_ad(f'[ Name = "{n}"; {text} ]') for n, text in enumerate(halves))
    same_as_each_match(pool, parse_ad("[ Requirements = (TARGET.x % 2.0) ?: true ]"))


def test_text_is_no_ad(pool: Pool) -> None:
    for ask in (pool.match, lambda job: match(job, JOB), lambda job: match(JOB, job)):
        with pytest.raises(TypeError, match="an ad was expected, not str"):
            ask("[ Requirements = true ]")  # type: ignore[arg-type]
    given: list[tuple[Callable[[], object], str]] = [
        (lambda: Pool([{"Name": "a"}]), "an ad was expected, not dict"),  # type: ignore[list-item]
        (lambda: Pool("[ a = 1 ]"), "several ads were expected, not str; parse_ads"),  # type: ignore[arg-type]
        (lambda: Pool(JOB), "several ads were expected, not ClassAd, such as a list"),  # type: ignore[arg-type]
        (lambda: Pool(3), "several ads were expected, not int"),  # type: ignore[arg-type]
        (lambda: pool.update("[ a = 1 ]"), "an ad was expected, not str"),  # type: ignore[arg-type]
        (lambda: pool.assign("x"), "several ads were expected, not str"),  # type: ignore[arg-type]
        (lambda: pool.assign(["x"]), "an ad was expected, not str"),  # type: ignore[list-item]
        (lambda: list(pool.match_many(JOB)), "several ads"),  # type: ignore[arg-type]
        (lambda: pool.plan(3), "an expression was expected, as an Expr or as text, not int"),  # type: ignore[arg-type]
        (lambda: pool.plan("a", "x"), "an ad was expected, not str"),  # type: ignore[arg-type]
        (lambda: pool.snapshot().values(3), "an expression was expected"),  # type: ignore[arg-type]
        (lambda: pool.explain("x"), "an ad was expected, not str"),  # type: ignore[arg-type]
        (lambda: pool.explain_pair("x", "a"), "an ad was expected, not str"),  # type: ignore[arg-type]
    ]
    for call, said in given:
        with pytest.raises(TypeError, match=said):
            call()


def test_a_snapshot_is_asked_as_its_pool_is(pool: Pool) -> None:
    job = parse_ad('[ Owner = "ana"; Rank = other.Cpus ]')
    for fuzzy in (None, 0.5):
        drawn = [
            one.top(job, 3, tie=random.Random(1), fuzzy=fuzzy) for one in (pool, pool.snapshot())
        ]
        assert drawn[0] == drawn[1]


def test_top_tells_what_it_takes() -> None:
    pool = Pool(parse_ads('[ Name = "a" ]'))
    job: Any = ClassAd()
    odd: Any = "a"
    with pytest.raises(TypeError, match="fuzzy takes a number, not str"):
        pool.top(job, 1, fuzzy=odd)
    with pytest.raises(TypeError, match="an integer, not str"):
        pool.top(job, odd)
    assert pool.top(job, 1, fuzzy=2).keys == ("a",)


def test_names_that_double_take_no_time() -> None:
    """Each name stands twice in what the one before it means."""
    chain = "; ".join(f"A{n} = A{n + 1} && A{n + 1} && true" for n in range(15))
    job = parse_ad(f"[ {chain}; A15 = TARGET.x > 1; Requirements = A0 ]")
    pool = Pool([parse_ad('[ Name = "a"; x = 2 ]'), parse_ad('[ Name = "b"; x = 1 ]')])
    masks = pool.snapshot()._masks(job)
    assert masks.mine().tolist() == [True, False]
    assert masks._named_yet <= MOST_NAMED


# --- all ads replaced -----------------------------------------------------------------------------


def test_replace_says_what_became_different_and_leaves_the_rest(pool: Pool) -> None:
    then = pool.snapshot()
    held = dict(pool._store._columns)
    new = [*parse_ads(MACHINES)][:3]
    assert not pool.replace([*new, parse_ad('[ name = "d"; cpus = 4; Memory = undefined ]')])
    assert all(pool._store._columns[name] is column for name, column in held.items() if name != "d")
    new[1]["Memory"] = 101
    assert pool.replace(new) == PoolChanges((), ("b",), ("d",))
    assert pool.replace([parse_ad('[ Name = "e" ]'), *new]) == PoolChanges(("e",), (), ())
    assert (pool.keys(), list(pool)[:3]) == (["a", "b", "c", "e"], new)
    assert list(then) == list(parse_ads(MACHINES))
    assert pool.match(JOB).keys == ("b",)
    assert pool.match(JOB).ranks == (101.0,)


def test_a_replacement_that_is_refused_changes_nothing(pool: Pool) -> None:
    before = list(pool)
    for ads, said in (
        ('[ Name = "x" ] [ Cpus = 1 ]', "an ad has no Name"),
        ('[ Name = "x" ] [ Name = "a" ] [ Name = "x" ] [ Name = "x" ]', "3 ads have Name = .x."),
    ):
        with pytest.raises(ValueError, match=said):
            pool.replace(parse_ads(ads))
    with pytest.raises(TypeError, match="several ads were expected, not ClassAd"):
        pool.replace(parse_ad('[ Name = "x" ]'))  # type: ignore[arg-type]
    assert list(pool) == before


contents = st.sampled_from([
    "1", "2", "1.0", "0.0", "-0.0", "true", '"a"', '"A"', "undefined", "error", "{ 1, 2 }",
    "[ x = 1 ]", "other.Owner", "Cpus + 1", "Memory", 'absTime("2020-01-01T00:00:00+00:00")',
])  # fmt: skip
machines = st.dictionaries(
    st.sampled_from(["Cpus", "Memory", "memory", "Rank2", "Requirements"]), contents, max_size=4
)
some_machines = st.dictionaries(st.sampled_from("abcdef"), machines, max_size=6)


def ads_of(held: dict[str, dict[str, str]]) -> list[ClassAd]:
    return [
        parse_ad("[ " + "".join(f"{n} = {v}; " for n, v in ad.items()) + f'Name = "{name}" ]')
        for name, ad in held.items()
    ]


@settings(deadline=None)
@given(st.lists(some_machines, min_size=2, max_size=4), st.booleans())
def test_a_replaced_pool_is_equal_to_a_new_one(
    states: list[dict[str, dict[str, str]]], watched: bool
) -> None:
    pool = Pool()
    jobs = [JOB, parse_ad("[ Owner = 1; Rank = other.Cpus; Requirements = other.Memory > 0 ]")]
    views = []
    for wanted in states:
        ads, before = ads_of(wanted), {name: pool[name] for name in pool.keys()}  # noqa: SIM118
        if watched:
            views.append((pool.snapshot(), list(pool)))
        changes, new = pool.replace(ads), Pool(ads)
        names = set(wanted)
        assert set(changes.added) == names - before.keys()
        assert set(changes.vanished) == before.keys() - names
        assert list(changes.changed) == [n for n in wanted if n in before and new[n] != before[n]]
        assert bool(changes) == (before != {name: new[name] for name in names})
        assert {n: str(pool[n]) for n in pool.keys()} == {n: str(new[n]) for n in names}  # noqa: SIM118
        assert len(pool) == len(new)
        for job in jobs:
            assert sorted(pool.match(job)) == sorted(new.match(job))
            assert list(pool.top(job, 9)) == list(new.top(job, 9))
    assert all(list(view) == ads for view, ads in views)


def test_replace_in_columns_of_every_form() -> None:
    def machine(number: int, more: int = 0) -> ClassAd:
        ad = ClassAd(Name=f"wn{number}", Cpus=number % 4, Disk=number * 7 + more, Load=number / 7)
        ad["Want"] = parse_expr(f"TARGET.x > {number % 1500 + more}")
        if number % 700 == 0:
            ad[f"Rare{number % 3}"] = f"{number}"
        return ad

    pool = Pool(map(machine, range(4000)))
    assert not pool.replace(map(machine, range(4000)))
    new = [machine(n, int(n % 100 == 0)) for n in range(1000, 7000)]
    changes = pool.replace(new)
    assert changes.vanished == tuple(f"wn{n}" for n in range(1000))
    assert changes.changed == tuple(f"wn{n}" for n in range(1000, 4000, 100))
    assert changes.added == tuple(f"wn{n}" for n in range(4000, 7000))
    assert list(pool) == new
    assert (
        pool.match(parse_ad("[ x = 1499 ]")).keys == Pool(new).match(parse_ad("[ x = 1499 ]")).keys
    )


def test_the_clauses_of_jobs_count_in_the_cache_of_masks() -> None:
    """A mask of a few rows is small beside the clause that it is kept for."""
    pool = Pool([ClassAd(Name=f"slot{number}", Memory=number) for number in range(10)])
    for number in range(20):
        text = " || ".join(f"TARGET.Memory == {number * 1000 + each}" for each in range(50))
        pool.match(ClassAd(Requirements=parse_expr(f"({text})")))
    # Each clause has 150 nodes, of which each takes some hundred bytes.
    assert pool._cache._entries.size > 20 * 150 * 400


def test_a_removed_slot_says_nothing_of_the_states_of_others() -> None:
    ads = [ClassAd(Name="a", PartitionableSlot=True), ClassAd(Name="b", State="Claimed")]
    pool = Pool(ads, key="Name")
    pool.remove("b")
    job = ClassAd(Requirements=True)
    assert pool.explain(job) == Pool(ads[:1], key="Name").explain(job)
