"""Strings that are looked up in an index of a column are found as the scalar form finds them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, Pool, match, parse_expr
from matchmaker.classad.ad import literal
from matchmaker.classad.values import ERROR, UNDEFINED, is_error
from matchmaker.matching.columns import evaluator, forms
from matchmaker.matching.columns import store as stores
from tests.cases import cases

strings = st.sampled_from(["a", "A", "b", "B", "ab", "AB", "é", "É", "", "\udc80"])
held = strings | strings | st.sampled_from([1, True, 0.5, UNDEFINED, ERROR, parse_expr('"A"'),
                                            parse_expr("MY.Other"), parse_expr("{1}")])  # fmt: skip
machines = st.fixed_dictionaries({}, optional={"Host": held, "Other": held})


@pytest.fixture(params=["coded", "rows"], scope="module")
def form(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(evaluator, "FEW_ROWS", 0)
        patched.setattr(evaluator, "FEW", 0)
        if request.param == "rows":
            patched.setattr(forms, "MANY", 0)
            patched.setattr(stores, "SETTLE_EVERY", 0)
            patched.setattr(forms, "_recoded", lambda column, size, many: forms._texts(column))
        yield request.param


def plain(value: object) -> tuple[str, str]:
    """A value with its type, without the reason of an error."""
    return value.__class__.__name__, "" if is_error(value) else repr(value)


@st.composite
def conditions(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(["TARGET.Host", "Host", "MY.Host"]))
    text = draw(st.sampled_from(['"a"', '"AB"', '"\u00e9"', "MY.Mine", "MY.Missing"]))
    listed = draw(
        st.sampled_from(['{ "a", "AB" }', '{ "\u00c9" }', "{ }", "MY.List", '{ "a", 1 }'])
    )
    operator = draw(st.sampled_from(["==", "!=", "=?=", "=!="]))
    member = draw(st.sampled_from(["member", "identicalMember"]))
    return draw(
        st.sampled_from([
            f"{name} {operator} {text}", f"{text} {operator} {name}", f"{member}({name}, {listed})",
            f"{member}(strcat({name}), {listed})",
            f"ifThenElse({name} {operator} {text}, {name}, 1)",
        ])
    )  # fmt: skip


jobs = st.fixed_dictionaries(
    {"Mine": st.sampled_from(["a", "B", "", 3])}, optional={"Host": st.just("ab")}
)


@given(st.lists(machines, min_size=1, max_size=12), conditions(), jobs, machines)
@settings(max_examples=cases(200), deadline=None)
def test_what_is_looked_up_is_what_each_pair_finds(
    form: str,
    ads: list[dict[str, object]],
    text: str,
    own: dict[str, object],
    changed: dict[str, object],
) -> None:
    pool = Pool(ClassAd({"Name": str(n), **ad}) for n, ad in enumerate(ads))
    node = parse_expr(text)
    job = ClassAd({**own, "List": literal(["b", "AB"]), "Requirements": node})
    for _ in range(2):
        found = pool.snapshot().values(node, job)
        assert list(map(plain, found)) == [plain(node.eval(job, ad)) for ad in pool]
        expected = tuple(ad.eval("Name") for ad in pool if match(job, ad).matched)
        assert pool.match(job).keys == expected
        pool.update(ClassAd({"Name": "0", **changed}))
