"""The theorem of reduction: the residual is true of a host exactly when the requirement is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import (
    ClassAd,
    Expr,
    ReductionError,
    Verdict,
    parse_expr,
    reduce,
    reduce_many,
)
from matchmaker.classad.nodes import Attr, Binary, Call, ListExpr, Literal, Ternary, Unary
from matchmaker.classad.operators import truth
from matchmaker.classad.values import ERROR, UNDEFINED
from matchmaker.classad.walks import fold, postorder
from matchmaker.reduction.simplify import MATCH, OUTCOME, VALUE, simplify
from tests.canonical import canonical
from tests.cases import cases as scaled
from tests.paranoid import paranoid

HOSTS = ("HostA", "HostB", "HostC")
FACTS = ("FactA", "FactB", "FactC")
JOBS = ("WantA", "WantB")


def scope(name: str) -> str:
    return "host" if name.lower().startswith("host") else "policy"


scalars = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.5, -1.5, 2.0, float("nan"), float("inf")]),
    st.booleans(),
    st.sampled_from(["a", "A", "b", ""]),
    st.just(UNDEFINED),
    st.just(ERROR),
)
values = st.one_of(scalars, scalars, st.lists(scalars, max_size=3))


def reference(name: str) -> st.SearchStrategy[Expr]:
    words = {"h": ("other", "target", "TARGET"), "f": ("other", "TARGET"), "w": ("MY", "self")}
    scoped = [Attr(Attr(None, word, False), name, False) for word in words[name[0].lower()]]
    return st.sampled_from([*scoped, Attr(None, name, False)])


leaves = st.one_of(
    st.sampled_from(HOSTS + FACTS + JOBS + ("Missing",)).flatmap(
        lambda name: reference(name if name != "Missing" else "FactMissing")
    ),
    scalars.map(Literal),
)


def larger(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    binary = st.sampled_from(
        ["&&", "||"] * 5
        + ["==", "!=", "<", "<=", ">", ">="] * 2
        + ["is", "isnt", "+", "-", "*", "/", "?:"]
    )
    unary = st.sampled_from(["!", "!", "!", "-"])
    tests = st.sampled_from(["isUndefined", "isError", "isString", "isInteger", "isReal"])
    return st.one_of(
        st.builds(Binary, binary, inner, inner),
        st.builds(Binary, binary, inner, inner),
        st.builds(Unary, unary, inner),
        st.builds(Ternary, inner, inner, inner),
        st.builds(lambda name, x: Call(name, (x,)), tests, inner),
        st.builds(lambda c, x, y: Call("ifThenElse", (c, x, y)), inner, inner, inner),
        st.builds(lambda x, items: Call("member", (x, ListExpr(tuple(items)))),
                  inner, st.lists(inner, max_size=2)),
    )  # fmt: skip


expressions = st.recursive(leaves, larger, max_leaves=12)


@st.composite
def conditions(draw: st.DrawFn) -> Expr:
    """Requirements as people write them: comparisons joined by connectives and ternaries."""
    relation = st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "is"])
    atom = st.builds(Binary, relation, leaves, leaves)
    tree = st.recursive(
        atom,
        lambda inner: st.one_of(
            st.builds(Binary, st.sampled_from(["&&", "||"]), inner, inner),
            st.builds(Ternary, inner, inner, inner),
            st.builds(Unary, st.just("!"), inner),
        ),
        max_leaves=8,
    )
    return draw(tree)


def ads(names: tuple[str, ...], content: st.SearchStrategy[object]) -> st.SearchStrategy[ClassAd]:
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, content)).map(ClassAd)


hosts = ads(HOSTS, values)
# A queue speaks of its hosts too, and what it says of them must not count.
queues = ads(FACTS + HOSTS, st.one_of(values, leaves))


@st.composite
def cases(draw: st.DrawFn) -> tuple[ClassAd, ClassAd, list[ClassAd]]:
    job = draw(ads(JOBS, st.one_of(values, leaves)))
    job["Requirements"] = draw(st.one_of(expressions, conditions()))
    return job, draw(queues), draw(st.lists(hosts, min_size=1, max_size=6))


def of_host(queue: ClassAd, host: ClassAd) -> ClassAd:
    """The ad that a requirement meets: the queue's facts with one host's own attributes."""
    both = ClassAd((name, e) for name, e in queue.items() if scope(name) != "host")
    both.update(host)
    return both


@settings(max_examples=scaled(300))
@given(cases())
def test_residual_is_true_exactly_when_the_requirement_is(
    case: tuple[ClassAd, ClassAd, list[ClassAd]],
) -> None:
    job, queue, several = case
    reduction = reduce(job, queue, scope)
    for host in several:
        wanted = job.eval("Requirements", target=of_host(queue, host))
        given_ = reduction.residual.eval(my=job, target=host)
        assert (truth(wanted) is True) == (truth(given_) is True), reduction.explain()
        if wanted is True:
            assert given_ is True
        if reduction.verdict is Verdict.NEVER:
            assert truth(wanted) is not True
        if reduction.verdict is Verdict.ALWAYS:
            assert truth(wanted) is True


@st.composite
def shadowing(draw: st.DrawFn) -> tuple[ClassAd, ClassAd, list[ClassAd]]:
    """Ads with attributes named like scopes, which lead to the host, in both of them."""
    job, queue, several = draw(cases())
    word = draw(st.sampled_from(["my", "self", "target", "other", "parent", "root", "toplevel"]))
    behind = Attr(Attr(None, word, False), draw(st.sampled_from([*FACTS, "y", word])), False)
    host = st.sampled_from(HOSTS)
    held = draw(st.one_of(host.flatmap(reference), host.flatmap(reference), leaves, values))
    draw(st.sampled_from([job, queue, queue]))[word] = held
    queue["FactA"] = behind
    test = draw(st.sampled_from(["isUndefined", "isError", "isInteger"]))
    looked = draw(st.sampled_from([behind, parse_expr("other.FactA"), parse_expr("FactA")]))
    condition = Call(test, (looked,))
    whole = Binary(draw(st.sampled_from(["&&", "||"])), condition, job.expr("Requirements"))
    job["Requirements"] = draw(st.sampled_from([condition, whole]))
    return job, queue, several


@given(shadowing())
def test_a_scopes_word_is_a_name_wherever_an_ad_defines_it(
    case: tuple[ClassAd, ClassAd, list[ClassAd]],
) -> None:
    job, queue, several = case
    try:
        residual = reduce(job, queue, scope).residual
    except ReductionError:
        return
    for host in several:
        wanted = truth(job.eval("Requirements", target=of_host(queue, host))) is True
        assert (truth(residual.eval(my=job, target=host)) is True) == wanted


twins = st.one_of(
    st.sampled_from([
        (1, 1.0, True), (0, 0.0, -0.0, False), ("a", "A"), (UNDEFINED, float("nan")),
        (datetime(2020, 1, 1, tzinfo=UTC),
         datetime(2020, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
    ]).flatmap(st.permutations),
    st.lists(scalars, min_size=2, max_size=2),
)  # fmt: skip
wrapped = st.sampled_from([lambda x: x, lambda x: [x], lambda x: [[x], "a"], lambda x: {"x": x}])


@given(twins, wrapped, st.sampled_from(["{}", "{}[0]", "{}.x", "{}[0][0]", "string({})"]))
def test_queues_are_reduced_together_only_if_nothing_tells_them_apart(
    several: list[object], wrap: Callable[[object], object], path: str
) -> None:
    queues = [ClassAd(FactA=wrap(value)) for value in several]
    for queue in queues:
        job = ClassAd(WantA=queue["FactA"])
        sides = path.format("other.FactA"), path.format("MY.WantA")
        job["Requirements"] = parse_expr("({0} is {1}) && 1.0 / ({0}) isnt 0".format(*sides))
        together = reduce_many(job, queues, scope)
        each = [reduce(job, one, scope) for one in queues]
        assert [made.residual for made in together] == [made.residual for made in each]


CHANCE = parse_expr("random(2)")
host_names = st.sampled_from(HOSTS).flatmap(reference)
chances = st.recursive(
    st.one_of(st.just(CHANCE), host_names),
    lambda inner: st.one_of(
        st.builds(Binary, st.sampled_from(["&&", "||", "=="]), inner, inner),
        st.builds(lambda condition, x: Ternary(condition, x, x), inner, host_names),
        st.builds(Unary, st.just("!"), inner),
    ),
    max_leaves=4,
)


@given(chances, st.sampled_from([MATCH, OUTCOME, VALUE]))
def test_a_volatile_call_is_never_repeated_or_merged(node: Expr, demand: frozenset[str]) -> None:
    assert fold(simplify(node, demand), _count) == fold(node, _count)


def _count(node: Expr, parts: tuple[int, ...]) -> int:
    """How often ``random(2)`` stands in an expression."""
    return sum(parts) + (node is CHANCE)


@given(cases())
def test_residual_names_hosts_only_and_prints_back(
    case: tuple[ClassAd, ClassAd, list[ClassAd]],
) -> None:
    job, queue, _ = case
    residual = reduce(job, queue, scope).residual
    names = {n.name for n in postorder(residual) if isinstance(n, Attr)} - {"other"}
    assert all(scope(name) == "host" for name in names)
    assert parse_expr(str(residual)) is residual


@settings(max_examples=scaled(300))
@given(st.one_of(expressions, conditions()), hosts, st.sampled_from([MATCH, OUTCOME, VALUE]))
def test_simplification_keeps_what_is_demanded(
    node: Expr, host: ClassAd, demand: frozenset[str]
) -> None:
    before = node.eval(target=host)
    after = simplify(node, demand).eval(target=host)
    if demand == VALUE:
        assert canonical(after) == canonical(before)
    elif demand == OUTCOME:
        assert repr(truth(after)).split("(")[0] == repr(truth(before)).split("(")[0]
    else:
        assert (truth(after) is True) == (truth(before) is True)


@given(cases())
def test_every_rewrite_of_a_reduction_is_sound(
    case: tuple[ClassAd, ClassAd, list[ClassAd]],
) -> None:
    job, queue, _ = case
    with paranoid():
        reduce(job, queue, scope)


@pytest.mark.parametrize("demand", [MATCH, OUTCOME, VALUE])
@given(node=expressions)
def test_simplification_never_grows_past_its_laws(node: Expr, demand: frozenset[str]) -> None:
    once = simplify(node, demand)
    assert len(list(postorder(once))) <= 2 * len(list(postorder(node))) + 8
