"""What strangers' ads may not do: fill the memory or take for ever. Each attempt ends in ERROR."""

from __future__ import annotations

import re
import resource
import time
from pathlib import Path
from typing import Any

import attrs
import pytest
import regex

from matchmaker import ParseError, _limits, parse_ad, parse_expr
from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.functions import environments, patterns
from matchmaker.classad.functions.patterns import search
from matchmaker.classad.nodes import Attr, Binary, Expr
from matchmaker.classad.state import Budget
from matchmaker.classad.values import is_error
from matchmaker.classad.walks import weight
from tests.classad.results import value
from tests.limits import fields

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"

pytestmark = pytest.mark.slow

LONG = "x" * 1_000_000
SHORTER = "y" * 50_000


def chain(form: str, last: str, length: int = 40) -> str:
    """An ad in which each attribute is made of the next one; `form` has it as {0}."""
    links = "; ".join(f"a{i} = {form.format(f'a{i + 1}')}" for i in range(length))
    return f"[ {links}; a{length} = {last} ]"


def many(text: str, number: int) -> str:
    return "{" + ", ".join([text] * number) + "}"


def holding(text: str) -> str:
    """An ad with a text."""
    return f'[ b = "{text}" ]'


BACKSLASH = "\\"
MANY_ATTRIBUTES = f"[ {'; '.join(f'x{i} = y + {i}' for i in range(3000))} ]"

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
    "words": (many("argsToList(b)", 3000), holding("x " * 300_000)),
    "quoted words": (many("argsToList(b)", 3000), holding("'' " * 200_000)),
    "an open quote": (many("argsToList(b)", 3000), holding("'" * 599_999)),
    "environments": (
        many("mergeEnvironment(b)", 3000), holding(" ".join(f"a{i}=" for i in range(60_000))),
    ),
    "sums": (many("stringListSum(b)", 3000), holding("1 " * 300_000)),
    "delimiters": (many('split("a b", b)', 3000), holding(LONG)),
    "ads as text": (many("strcmp(MY, MY)", 1000), MANY_ATTRIBUTES),
    "lists of ads as text": (many("versioncmp({MY}, {MY})", 1000), MANY_ATTRIBUTES),
    "ads in text": (many('strcat(MY, MY) is ""', 1000), MANY_ATTRIBUTES),
    "accounts": (many('userHome(strcat("u", random(1000000)))', 200), "[]"),
    "white space in a time": (many("relTime(b)", 3000), holding(" " * 600_000 + "x")),
    "white space in a date": (many("absTime(b)", 3000), holding(f"2004-01-01{' ' * 600_000}x")),
    "digits of a second": (
        many("absTime(b)", 3000), holding(f"2004-01-01T00:00:00.{'1' * 600_000}x"),
    ),
    "names of attributes": (many("[][b]", 3000), holding("ß" * 600_000)),
    "letter case": (many("b == b", 3000), holding("ß" * 600_000)),
    "groups without a character": (
        f'size(replaceAll("x()", b, "{BACKSLASH * 2}1{BACKSLASH * 2}1"))', holding("x" * 120_000),
    ),
    "many groups": (f'size(replaceAll("{"()" * 1500}x", b, ""))', holding("x" * 120_000)),
    "times taken apart": ("a", f"[ a = {many('b', 300)}; b = {many('splitTime(1)', 300)} ]"),
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


REASONS = {
    "steps": ("a0", chain("strcat({0}, {0})", '"0123456789"'), "more than 1000000 steps"),
    "depth": ("a0", chain("-" * 30 + "{0}", "1"), "lead more than 300 levels deep"),
    "text that reads itself": ("eval(b)", holding("eval(b)"), "eval() leads more than 300 levels"),
    "text": (
        f'replaceAll(".", b, "{"0" * 1000}")', holding("x" * 2_000), "characters, at most 1048576",
    ),
    "elements": ("split(b)", holding("a " * 250_000), "give 250000 elements, at most 200000"),
    "a long pattern": ("regexp(b, b)", holding(SHORTER), "50000 characters, at most 4000"),
    "a large pattern": ('regexp("(a{999}){99}", "a")', "[]", "to a size of 99000, at most 50000"),
    "a deep pattern": (
        f'regexp("{"(" * 251}a{")" * 251}", "a")', "[]", "groups 251 deep, at most 250",
    ),
    "a long search": ('regexp("a", b)', holding("x" * 131_073), "at most 131072 characters, not"),
    "a long replacement": ('replace("a", b, "")', holding("x" * 131_073), "at most 131072"),
    "a slow pattern": ('regexp("(x+x+)+y", b)', holding("x" * 5000), "takes too long to match"),
    "a pattern in itself": ('regexp("(?R)", "a")', "[]", "gave up on '(?R)': it takes too long"),
    "a group in itself": ('regexp("(?<g>(?&g)a|)", "b")', "[]", "takes too long to match"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "ad", "reason"), REASONS.values(), ids=REASONS.keys())
def test_an_error_says_which_bound(text: str, ad: str, reason: str) -> None:
    given = value(text, ad)
    assert is_error(given)
    assert reason in given.reason


def test_a_pattern_within_itself_may_match() -> None:
    assert value(r'regexp("^(\\((?1)*\\))$", "(()(()))")') is True
    assert value(r'regexp("^(\\((?1)*\\))$", "(()(())")') is False


def test_patterns_are_kept_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = patterns._Patterns("test", 1 << 15)
    monkeypatch.setattr(patterns, "_patterns", kept)
    assert value('regexp("a{1000}b", "x")') is False
    [one] = kept.values()
    for number in range(400):
        assert value(f'regexp("c{{1000}}{number}", "x")') is False
        assert kept.size <= kept.most
    assert ("a{1000}b", "") not in kept
    assert one not in kept.values()
    noted = vars(regex._main)["_locale_sensitive"]
    assert len(noted) < 300, "the library keeps none of them either"
    assert value('regexp("(", "x")') == value('regexp("(", "x")')
    assert is_error(value("regexp(b, b)", holding(SHORTER)))
    assert max(len(pattern) for pattern, _ in kept) < 20, "what is too long is not kept"


def test_delimiters_leave_nothing_behind() -> None:
    re.purge()
    for number in range(20):
        other = chr(0x4E00 + number)
        assert value(f'split("a{other}b", "{other}xyz")') == ["a", "b"]
        assert value(f'stringListSize("a{other}b", "{other}xyz")') == 2
    assert not any("xyz" in key[1] for key in re._cache)  # type: ignore[attr-defined]


SLOW = "(x+x+)+y"
TEXT = "x" * 2000


def test_patterns_share_the_time_of_an_evaluation() -> None:
    # Each one alone would take the whole time.
    start = time.thread_time()
    given = value(many(f'regexp("{SLOW}", b)', 200), f'[ b = "{TEXT}" ]')
    assert time.thread_time() - start < 4 * LIMITS.seconds + 2
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
    assert time.thread_time() - start < 4 * LIMITS.seconds + 2


def test_time_is_used_up_by_searches_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget()
    assert search("regexp", "a+b", "xaab", "", budget) is True
    assert 0 < budget.searched < LIMITS.seconds
    budget.searched = LIMITS.seconds
    assert is_error(search("regexp", "a+b", "xaab", "", budget))
    assert search("regexp", "a+b", "xaab") is True
    monkeypatch.setattr(Budget, "seconds", 0.0)
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
    "empty words": (f'join("-", split("{"," * 100_000}"))', ""),
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


PAGES = [value for name, value in vars(_limits).items() if name.endswith("_LIMITS")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: type(page).__name__)
def test_the_guide_has_a_line_for_each_limit(page: Any) -> None:
    text = (ROOT / "docs" / "safety.md").read_text("utf-8")
    for field in attrs.fields(type(page)):
        value = getattr(page, field.name)
        assert f"| {field.metadata['counted']} | {value:,} |" in text


def test_the_guide_says_what_an_account_costs() -> None:
    safety = (ROOT / "docs" / "safety.md").read_text("utf-8")
    assert f"`userHome`\n  {environments.LOOKUP:,}" in safety


def test_what_no_one_writes_by_hand_is_refused_and_long_strings_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(fields(LIMITS), "syntax", 100)
    long = '"' + 'x\\"' * 100 + '"'
    many = " + ".join(["its_sum"] * 40)
    hidden = (f'/*"*/{many}/*"*/', f"'\"' + {many} + '\"'", f'//"\n{many}//"\n')
    for around in ("{}", "[ a = {} ]", "[ a = [ b = 1 ]; c = {} ]"):
        read = parse_expr if around == "{}" else parse_ad
        assert str(read(around.format(long)))
        for text in (many, *hidden):
            with pytest.raises(ParseError, match="outside of strings in one piece, at most 100"):
                read(around.format(text))
    assert len(parse_ad("; ".join(f"a{n} = b + {n}" for n in range(40)).join("[]"))) == 40
