from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker import ERROR, UNDEFINED, ClassAd, match, parse_ad, parse_expr
from matchmaker.classad.evaluate import evaluate_counted
from matchmaker.classad.functions.control import fqan_member
from matchmaker.classad.values import is_error

STORAGE = """
[ storage = [ CloseSEs = {
    [ name = "se1"; free = 50 ], [ name = "se2"; free = 500 ], [ name = "se3" ] } ] ]
"""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("anyMatch({[a = 1], [a = 2]}, target.a > 1)", True),
        ("anyMatch({[a = 1], [b = 2]}, target.a > 1)", UNDEFINED),
        ("anyMatch({[a = 1]}, target.a > 1)", False),
        ("anyMatch({}, target.a > 1)", False),
        ("anyMatch({[a = 2], 5}, target.a > 1)", True),
        ("anyMatch({[a = 1], 5}, target.a > 1)", ERROR),
        ("anyMatch({[a = 1]}, target.a)", ERROR),
        ("anyMatch({[a = 1]}, 1 / 0)", ERROR),
        ("anyMatch(undefined, true)", UNDEFINED),
        ("anyMatch(5, true)", ERROR),
        ("anyMatch(error, true)", ERROR),
        ("allMatch({[a = 1], [a = 2]}, target.a > 0)", True),
        ("allMatch({[a = 1], [a = 2]}, target.a > 1)", False),
        ("allMatch({[b = 1], [a = 2]}, target.a > 1)", UNDEFINED),
        ("allMatch({[b = 1], [a = 1]}, target.a > 1)", False),
        ("allMatch({}, false)", True),
        ("whichMatch({[a = 1], [a = 2], [b = 1]}, target.a > 0)[1].a", 2),
        ("whichMatch({[a = 1]}, target.a > 1)", UNDEFINED),
        ("size(whichMatch({[a = 1], [b = 2]}, target.a > 0))", 1),
        ("whichMatch({[a = 1], 7}, target.a > 0)", ERROR),
        # The names of each other.
        ("[n = 3; m = anyMatch({[a = 1], [a = 3]}, other.a == MY.n)].m", True),
        ("[n = 3; m = anyMatch({[a = TARGET.n]}, target.a == 3)].m", True),
        # An ad of the list is met by itself: what it lacks is looked for in the other, as always.
        ("[n = 3; l = {[a = n]}; m = anyMatch(l, target.a == 3)].m", True),
        ("[n = 3; l = {[a = k]}; k = 1; m = anyMatch(l, target.a == 1)].m", True),
        ("[ i = [ k = 1; l = {[a = k]} ]; m = anyMatch(i.l, target.a == 1)].m", UNDEFINED),
        ("[n = 3; m = anyMatch({[a = {[b = 3]}]}, anyMatch(target.a, target.b == MY.n))].m", True),
    ],
)
def test_values(text: str, value: Any) -> None:
    found = parse_expr(text).eval()
    assert found is value or found == value, found


def test_storage_of_a_queue() -> None:
    queue = parse_ad(STORAGE)
    job = parse_ad("""[ Wanted = 100;
        Requirements = anyMatch(other.storage.CloseSEs, target.free > MY.Wanted) ]""")
    assert match(job, queue).matched
    found = parse_expr("whichMatch(other.storage.CloseSEs, target.free > MY.Wanted)[0].name")
    assert found.eval(job, queue) == "se2"
    assert (
        parse_expr("allMatch(other.storage.CloseSEs, target.free > 10)").eval(job, queue)
        is UNDEFINED
    )
    # Afterwards TARGET is the queue again.
    after = parse_expr("anyMatch(other.storage.CloseSEs, target.free > 100) && target.storage is 1")
    assert after.eval(job, queue) is False


def test_many_ads_take_steps() -> None:
    job = ClassAd({"l": parse_expr("{" + ", ".join(["[a = 1]"] * 3000) + "}")})
    job["m"] = parse_expr("allMatch(l, allMatch(MY.l, target.a == 1))")
    found = job.eval("m")
    assert found is ERROR or found == ERROR


def test_long_rules_take_steps() -> None:
    """The text of the rules counts for each name, however short the names are."""
    rules = ["VOMS:/" + "a" * 4000] * 100
    call = parse_expr("FQANmember(n, l)")
    for count in (1, 5):
        _, used = evaluate_counted(call, ClassAd({"n": ["/b"] * count, "l": rules}), None)
        assert used.steps > count * 100_000
    found = call.eval(ClassAd({"n": ["/b"] * 20, "l": rules}))
    assert is_error(found)
    assert "steps" in str(found.reason)


@pytest.mark.parametrize(
    ("name", "rule", "covered"),
    [
        ("VOMS:/cms", "VOMS:/cms", True),
        ("VOMS:/cms", "VOMS:/cms/Role=NULL", True),
        ("VOMS:/cms/Role=NULL/Capability=NULL", "VOMS:/cms", True),
        ("VOMS:/cms/Role=pilot", "VOMS:/cms", False),
        ("VOMS:/cms/Role=pilot/Capability=x", "VOMS:/cms/Role=pilot", True),
        ("VOMS:/cms/Role=pilot", "VOMS:/cms/*", True),
        ("VOMS:/cms", "VOMS:/cms/*", True),
        ("VOMS:/cms/it", "VOMS:/cms/*/Role=NULL", True),
        ("VOMS:/cms/it", "VOMS:/cms", False),
        ("VOMS:/cmsx", "VOMS:/cms", False),
        ("voms:/cms", "VOMS:/cms", True),
        ("DENY:/cms/role=bad", " DENY: /cms/Role=bad", True),
        ("VOMS:/CMS", "VOMS:/cms", False),
        ("DENY:/cms/Role=pilot", "VOMS:/cms/Role=pilot", False),
        ("DENY:/cms/Role=pilot", "DENY:/cms/*", True),
        ("VOMS:/cms", "VO:cms", False),
    ],
)
def test_names_of_groups_and_roles(name: str, rule: str, covered: bool) -> None:
    assert fqan_member(name, ["other", 7, rule]) is covered


def test_types_of_names_and_rules() -> None:
    for text, value in {
        'FQANmember(undefined, {"a"})': UNDEFINED,
        'FQANmember("a", undefined)': UNDEFINED,
        'FQANmember(5, {"a"})': ERROR,
        'FQANmember("a", "a")': ERROR,
        'FQANmember("a", {})': False,
        'FQANmember("/a", {"VOMS:/a"}, "VOMS:")': True,
        'FQANmember("/a", {"VOMS:/a"}, "DENY:")': False,
        'FQANmember({"/b", "/a"}, {"VOMS:/a"}, "VOMS:")': True,
        'FQANmember({"/b", 5}, {"VOMS:/b"}, "VOMS:")': ERROR,
        'FQANmember({}, {"VOMS:/b"}, "VOMS:")': False,
        'FQANmember("/a", {"VOMS:/a"}, undefined)': UNDEFINED,
        'FQANmember("/a", {"VOMS:/a"}, 5)': ERROR,
    }.items():
        found = parse_expr(text).eval()
        assert found is value or found == value, text


pieces = st.text("ab/*=", max_size=8)


@given(pieces, st.text("ab/=", max_size=8))
def test_a_star_is_any_text(pattern: str, path: str) -> None:
    rule, name = f"/{pattern}/Role=r", f"/{path}/Role=r"
    expected = re.fullmatch(".*".join(map(re.escape, rule.split("*"))), name) is not None
    assert fqan_member(name, [rule]) is expected
