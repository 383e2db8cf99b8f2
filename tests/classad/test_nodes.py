"""Trees: interning, copies, walks, references and clauses."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from matchmaker import ERROR, UNDEFINED, ClassAd, Expr, parse_ad, parse_expr
from matchmaker.classad.ad import literal
from matchmaker.classad.nodes import FALSE, TRUE, Attr, Binary, Literal, References
from matchmaker.classad.values import ErrorType, Value
from matchmaker.classad.walks import children, conjunction, conjuncts, fold, postorder, rebuild
from tests.canonical import fields_of

TEXTS = [
    "1", "1.5", '"a"', "true", "undefined", "error", "a", ".a", "MY.a", "-a", "!a", "a + b",
    "a ?: b", "a ? b : c", "f(a, 1)", "a[0]", "{a, b}", "[x = a; y = b]", 'relTime("1d")',
    'real("NaN")', 'real("-INF")', "a.b.c[1]",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_equal_trees_are_one_object(text: str) -> None:
    tree = parse_expr(text)
    assert parse_expr(f" {text} ") is tree
    assert type(tree)(*fields_of(tree)) is tree
    assert rebuild(tree, children(tree)) is tree


@pytest.mark.parametrize("text", TEXTS)
def test_copies_are_the_same_object(text: str) -> None:
    tree = parse_expr(text)
    assert copy.copy(tree) is tree
    assert copy.deepcopy(tree) is tree
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(tree, protocol)) is tree  # noqa: S301 - our own


def test_nodes_are_frozen() -> None:
    tree = parse_expr("a + b")
    with pytest.raises(AttributeError):
        tree.operator = "-"  # type: ignore[attr-defined]


def test_literals_of_other_types_are_other_nodes() -> None:
    plus, minus = timezone(timedelta(hours=1)), timezone(timedelta(hours=-1))
    noon = datetime(2004, 1, 1, 12, tzinfo=UTC)
    values: list[Value] = [
        1, 1.0, True, "1", 0, 0.0, -0.0, False, math.nan, math.inf, UNDEFINED, ERROR,
        ErrorType("why"), noon, noon.astimezone(plus), noon.astimezone(minus), timedelta(1),
    ]  # fmt: skip
    assert len({Literal(value) for value in values}) == len(values)
    assert Literal(math.nan) is Literal(float("nan"))


def test_a_time_of_a_named_zone_is_the_time_of_its_offset() -> None:
    named = datetime(2024, 3, 30, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    fixed = named.replace(tzinfo=timezone(timedelta(hours=1)))
    for time in (named, fixed):
        ad = ClassAd(Start=time, Later=parse_expr('Start + relTime("1+00:00:00")'))
        held = ad.eval("Start")
        assert isinstance(held, datetime)
        assert (held, held.tzinfo) == (fixed, fixed.tzinfo)
        # The clocks go forward in the night between.
        assert ad.eval("Later") == fixed + timedelta(days=1)
    earliest = datetime(1, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo"))
    assert literal(earliest) is literal(earliest.replace(tzinfo=timezone(earliest.utcoffset())))  # type: ignore[arg-type]


def test_interning_in_many_threads() -> None:
    found: list[Expr] = []

    def build() -> None:
        found.extend(Binary("+", Attr(None, f"n{i}", False), Literal(i)) for i in range(300))

    threads = [threading.Thread(target=build) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 300


def test_postorder_visits_each_distinct_node_once() -> None:
    tree = parse_expr("(a + b) * (a + b) + f(a, {b, a})")
    nodes = list(postorder(tree))
    assert len(nodes) == len(set(nodes))
    assert nodes[-1] is tree
    for node in nodes:
        assert all(nodes.index(child) < nodes.index(node) for child in children(node))


def test_fold_of_a_long_chain() -> None:
    tree = parse_expr(" || ".join(f"a == {i}" for i in range(5000)))
    assert fold(tree, lambda node, parts: 1 + max(parts, default=0)) == 5001


def test_fold_computes_shared_nodes_once() -> None:
    tree: Expr = Literal(1)
    for _ in range(60):
        tree = Binary("+", tree, tree)
    assert fold(tree, lambda node, parts: sum(parts) if parts else 1) == 2**60


def test_rebuild_around_other_children() -> None:
    for text in TEXTS:
        tree = parse_expr(text)
        renamed = rebuild(tree, tuple(Literal(7) for _ in children(tree)))
        assert type(renamed) is type(tree)
        assert all(child is Literal(7) for child in children(renamed))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", References(unscoped=("a",))),
        ("MY.a + self.b", References(my=("a", "b"))),
        ("TARGET.a + other.A + target.b", References(target=("a", "b"))),
        ("a.b", References(unscoped=("a",))),
        ("a + MY.a + TARGET.a", References(("a",), ("a",), ("a",))),
        ("MY", References(unscoped=("MY",))),
        ("f(a, {b, [c = d]})", References(unscoped=("a", "b", "d"))),
        ("Cpus > 1 && CPUS < 5", References(unscoped=("Cpus",))),
        ("1 + 2", References()),
    ],
)
def test_references(text: str, expected: References) -> None:
    assert parse_expr(text).references() == expected


def test_references_of_an_ad() -> None:
    ad = parse_ad("[a = x + TARGET.y; b = MY.z]")
    assert ad.references() == References(my=("z",), target=("y",), unscoped=("x",))


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("a", ["a"]),
        ("a && b && c", ["a", "b", "c"]),
        ("a && (b && c)", ["a", "b", "c"]),
        ("(a || b) && !(c && d)", ["a || b", "!(c && d)"]),
    ],
)
def test_conjuncts(text: str, clauses: list[str]) -> None:
    assert [str(clause) for clause in conjuncts(parse_expr(text))] == clauses


def test_conjunction() -> None:
    clauses = conjuncts(parse_expr("a && b && c"))
    assert conjunction(clauses) is parse_expr("a && b && c")
    assert conjunction([]) is TRUE
    assert conjunction([FALSE]) is FALSE


def test_literal_of_values() -> None:
    assert str(literal([1, "a", [True]])) == '{1, "a", {true}}'
    assert str(literal(parse_ad("[a = b + 1]"))) == "[ a = b + 1 ]"
    assert literal(ErrorType("why")) is literal(ERROR)
    assert str(literal(timedelta(days=1))) == 'relTime("1+00:00:00")'
