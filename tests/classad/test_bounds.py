"""What strangers' ads may not do: fill the memory or take for ever. Each attempt ends in ERROR."""

from __future__ import annotations

import resource
import time
from typing import Any

import pytest

from matchmaker import parse_ad, parse_expr
from matchmaker.classad.bounds import SECONDS, Budget
from matchmaker.classad.functions import patterns
from matchmaker.classad.functions.patterns import search
from matchmaker.classad.nodes import Attr, Binary, Expr, weight
from matchmaker.classad.values import is_error
from tests.classad.results import value

LONG = "x" * 1_000_000
SHORTER = "y" * 50_000


def chain(form: str, last: str, length: int = 40) -> str:
    """An ad in which each attribute is made of the next one; `form` has it as {0}."""
    links = "; ".join(f"a{i} = {form.format(f'a{i + 1}')}" for i in range(length))
    return f"[ {links}; a{length} = {last} ]"


def many(text: str, number: int) -> str:
    return "{" + ", ".join([text] * number) + "}"


HOSTILE = {
    "strcat": ("a0", chain("strcat({0}, {0})", '"0123456789"')),
    "many long results": (many("strcat(b, b)", 3000), f'[ b = "{SHORTER}" ]'),
    "join": ("join(b, " + many("b", 20_000) + ")", f'[ b = "{LONG}" ]'),
    "join of lists": ("a0", chain('join("-", {{ {0}, {0}, {0} }})', '"0123456789"')),
    "replaceAll": ('replaceAll("x", b, b)', f'[ b = "{LONG}" ]'),
    "replaceAll again": ("a0", chain('replaceAll(".", {0}, "xx")', '"0123456789"')),
    "replaceAll with nothing": ('replaceAll("x?", b, "")', f'[ b = "{LONG}" ]'),
    "lists": ("size(a0)", chain("{{ {0}, {0} }}", "{1}")),
    "lists as text": ("string(a0)", chain("{{ {0}, {0} }}", "{1}")),
    "text in a list": ("strcat(" + many("b", 20_000) + ")", f'[ b = "{LONG}" ]'),
    "a list of text": (many("b", 20_000), f'[ b = "{LONG}" ]'),
    "member": ("member(b, " + many("c", 20_000) + ")", f'[ b = "{SHORTER}"; c = "{SHORTER}z" ]'),
    "anyCompare": ('anyCompare("<", ' + many('"x"', 20_000) + ", b)", f'[ b = "{SHORTER}" ]'),
    "comparisons": (
        "a",
        f'[ a = {many("c", 3000)}; c = {" || ".join(["b < b"] * 999)}; b = "{LONG}" ]',
    ),
    "large expressions": (
        "a", f"[ a = {many('b', 10_000)}; b = {'+'.join(['1'] * 5000)} ]",
    ),
    "in each context": (
        "countMatches(b, " + many("[]", 20_000) + ")", f"[ b = {'+'.join(['1'] * 5000)} ]",
    ),
    "eval": ("eval(b)", f'[ b = "{"1+" * 200_000}1" ]'),
    "eval again": (
        many("eval(strcat(b, random(100000)))", 300), f'[ b = "{"1+" * 20_000}" ]',
    ),
    "elements": (many("stringListSize(b)", 3000), f'[ b = "{"1 " * 100_000}" ]'),
    "unparse": (many("unparse(b)", 3000), f"[ b = {'+'.join(['1'] * 20_000)} ]"),
    "nested repetitions": ('regexp("((((a{1000}){1000}){1000}){1000})", "a")', "[]"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "ad"), HOSTILE.values(), ids=HOSTILE.keys())
def test_too_much_is_an_error(text: str, ad: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    expression, my = parse_expr(text), parse_ad(ad)
    start = time.thread_time()
    given = expression.eval(my)
    taken = time.thread_time() - start
    assert is_error(given)
    assert given.reason
    assert taken < 20, "seconds, where without bounds it would be hours"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 300 * 1024, "kilobytes, where without bounds it would be gigabytes"


SLOW = "(x+x+)+y"
TEXT = "x" * 2000


def test_patterns_share_the_time_of_an_evaluation() -> None:
    # Each one alone would take the whole time.
    start = time.thread_time()
    given = value(many(f'regexp("{SLOW}", b)', 200), f'[ b = "{TEXT}" ]')
    assert time.thread_time() - start < 4 * SECONDS + 2
    assert len(given) == 200
    assert all(is_error(item) for item in given)
    assert "takes too long" in given[0].reason
    assert "more than 0.5 seconds" in given[-1].reason


@pytest.mark.parametrize(
    "text",
    [
        'regexpMember("(x+x+)+y", {0})',
        'stringList_regexpMember("(x+x+)+y", join(" ", {0}))',
        'countMatches(regexps("(x+x+)+y", b, "") == "", {1})',
    ],
)
def test_every_function_with_patterns_shares_the_time(text: str) -> None:
    written = text.format(many("b", 100), many("[ c = 1 ]", 100))
    start = time.thread_time()
    value(written, f'[ b = "{TEXT}" ]')
    assert time.thread_time() - start < 4 * SECONDS + 2


def test_time_is_used_up_by_searches_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget()
    assert search("regexp", "a+b", "xaab", "", budget) is True
    assert 0 < budget.searched < SECONDS
    budget.searched = SECONDS
    assert is_error(search("regexp", "a+b", "xaab", "", budget))
    assert search("regexp", "a+b", "xaab") is True
    monkeypatch.setattr(patterns, "SECONDS", 0.0)
    assert is_error(value('regexp("a", "a")'))


def test_a_new_evaluation_has_all_the_time_again() -> None:
    assert is_error(value(f'regexp("{SLOW}", "{TEXT}")'))
    assert value('regexp("^y+$", "yyy")') is True


def test_broken_and_known_patterns_in_one_evaluation() -> None:
    given = value('{regexp("(", "a"), regexp("a", "a")}')
    assert is_error(given[0])
    assert given[1] is True


@pytest.mark.parametrize("pattern", ["(ab){1000}", "[{]{3}", r"\\{9{2}", "(a{99}){99}", "a{,5}"])
def test_usual_repetitions_are_fine(pattern: str) -> None:
    assert isinstance(value(f'regexp("{pattern}", "a")'), bool)


HONEST: dict[str, tuple[str, Any]] = {
    "many attributes": ("a0 + a0", 2 * (2**12)),
    "a long text": (f'size(strcat("{SHORTER}", "{SHORTER}"))', 100_000),
    "a long list": ("size(" + many('"slot1@wn1.example.org"', 5000) + ")", 5000),
    "split": (f'size(split("{"a " * 5000}"))', 5000),
    "many patterns": (
        "size(" + many('regexp("^slot[0-9]+@", "slot1@wn1.example.org")', 2000) + ")", 2000,
    ),
    "members": ('member("x", ' + many('"slot1@wn1.example.org"', 5000) + ")", False),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), HONEST.values(), ids=HONEST.keys())
def test_what_people_write_is_within_the_bounds(text: str, expected: Any) -> None:
    assert value(text, chain("{0} + {0}", "1 + 0", 12)) == expected


def test_shared_nodes_count_each_time() -> None:
    """A tree of two to the power of 40 nodes, made of 40: never evaluated, never compiled."""
    node: Expr = Attr(None, "x", False)
    for _ in range(40):
        node = Binary("+", node, node)
    assert weight(node) == 2**41 - 1
    for _ in range(20):
        given = node.eval(parse_ad("[ x = 1 ]"))
        assert is_error(given)
        assert "steps" in given.reason
