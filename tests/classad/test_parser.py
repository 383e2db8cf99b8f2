"""Reading: syntax, syntax errors told well, and printing back."""

from __future__ import annotations

import itertools
import sys
from datetime import timedelta
from typing import Any

import pytest

from matchmaker import Expr, ParseError, parse_ad, parse_expr
from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from tests.classad.results import ERROR, UNDEFINED, assert_gives

PRINTED = [
    ("a", "a"),
    ("1", "1"),
    ("-1", "-1"),
    ("- 1", "-(1)"),
    ("1 -1", "1 - 1"),
    ("a-1", "a - 1"),
    ("-(1)", "-(1)"),
    ("- a", "-a"),
    ("--a", "--a"),
    ("!(!a)", "!!a"),
    (".5", "0.5"),
    ("1e3", "1000.0"),
    ("1E-7", "1e-07"),
    ("TRUE", "true"),
    ("Undefined", "undefined"),
    ("(((a)))", "a"),
    ("(a+b)*c", "(a + b) * c"),
    ("a+b*c", "a + b * c"),
    ("a-(b-c)", "a - (b - c)"),
    ("(a-b)-c", "a - b - c"),
    ("a=?=b", "a =?= b"),
    ("a =!= b", "a =!= b"),
    ("a IS b", "a =?= b"),
    ("a?b:c?d:e", "a ? b : c ? d : e"),
    ("(a?b:c)?d:e", "(a ? b : c) ? d : e"),
    ("a ? : b", "a ?: b"),
    ("a?:b", "a ?: b"),
    ("f(  a,b )", "f(a, b)"),
    ("'my f'(1)", "'my f'(1)"),
    ("a . b", "a.b"),
    ("a[0].b", "a[0].b"),
    (".a", ".a"),
    ("(1).a", "(1).a"),
    ("{ 1,{}, [] }", "{1, {}, [ ]}"),
    ("[a=1;;b=2;]", "[ a = 1; b = 2 ]"),
    ("[a=1;A=2]", "[ a = 2 ]"),
    ('"a" "b"', '"ab"'),
    (r'"\101\t\"\q"', r'"A\t\"q"'),
    ("'true'", "'true'"),
    ("'x y'", "'x y'"),
    ("'plain'", "plain"),
    ("a // comment\n + b /* another */", "a + b"),
    ('real("inf")', 'real("INF")'),
    ('REAL("-Inf")', 'real("-INF")'),
    ('real("nan")', 'real("NaN")'),
    ('real("1.5")', 'real("1.5")'),
    ('relTime("1d")', 'relTime("1+00:00:00")'),
    ('absTime("2004-01-01 00:00Z")', 'absTime("2004-01-01T00:00:00+00:00")'),
    ('absTime("garbage")', 'absTime("garbage")'),
    ("a\n\t+b", "a + b"),
]


@pytest.mark.parametrize(("text", "printed"), PRINTED)
def test_printing(text: str, printed: str) -> None:
    expression = parse_expr(text)
    assert str(expression) == printed
    assert parse_expr(printed) is expression


@pytest.mark.parametrize(
    ("text", "line", "column", "found", "expected", "hint"),
    [
        ("1 +", 1, 4, "ends too early", "a value", ""),
        ("1 +\n  * 2", 2, 3, "'*'", "a value", ""),
        ("", 1, 1, "ends too early", "a value", ""),
        ("(1 + 2", 1, 7, "ends too early", "')'", "a '(' is still open"),
        ("{1, 2", 1, 6, "ends too early", "'}'", "a '{' is still open"),
        ("[a = 1", 1, 7, "ends too early", "']'", "a '[' is still open"),
        ("1 + 2)", 1, 6, "')'", "", "there is no '(' for it"),
        ("{1}}", 1, 4, "'}'", "", "there is no '{' for it"),
        ("[a = (1 ]", 1, 9, "']'", "", "a '(' is still open"),
        ("[a = 1)]", 1, 7, "')'", "", "there is no '(' for it"),
        ("a => b", 1, 3, "'='", "an operator", "use >="),
        ("a =< b", 1, 3, "'='", "an operator", "use <="),
        ('a =~ "x"', 1, 3, "'='", "an operator", "use regexp(pattern, text)"),
        ("a <> b", 1, 4, "'>'", "a value", "use !="),
        ("a && not x", 1, 10, "'x'", "an operator", "use !"),
        ("a isnot b", 1, 3, "'isnot'", "an operator", "use =!="),
        ("a is not undefined", 1, 10, "'undefined'", "an operator", "use =!="),
        ("Memory > 10 GB", 1, 13, "'GB'", "an operator", "numbers have no units"),
        ("Disk > 1.5GiB", 1, 8, "'1'", "a value", "numbers have no units"),
        ("a == \u201cx\u201d", 1, 6, "LEFT DOUBLE QUOTATION MARK", "a value", "plain quotes"),
        ("a ==\u00a01", 1, 5, "NO-BREAK SPACE (U+00A0)", "a value", "put a plain space"),
        ("Memory > $(Want)", 1, 10, "'$'", "a value", "macros are for submit files"),
        ("[ +Want = 1 ]", 1, 3, "'+'", "an attribute name", "no + before it"),
        ("TARGET,x > 1", 1, 7, "','", "", "TARGET.x"),
        ("a && b;", 1, 7, "';'", "", "no ; at the end"),
        ("a = 1", 1, 3, "'='", "an operator", "use == to compare"),
        ('"abc', 1, 1, "'\"'", "a value", "this string is not closed"),
        ("'abc", 1, 1, '"\'"', "a value", "not closed"),
        ("1 /* abc", 1, 3, "'/'", "an operator", "this comment is not closed"),
        ("1.", 1, 1, "'1'", "a value", "a real needs a digit after the dot"),
        ("0x1F", 1, 1, "'0x1F'", "a value", "integers are decimal"),
        ("010", 1, 1, "'010'", "a value", "without leading zeros"),
        ("1a", 1, 1, "'1a'", "a value", "a name cannot begin with a digit"),
        ("a and b", 1, 3, "'and'", "an operator", "use &&"),
        ("a or b", 1, 3, "'or'", "an operator", "use ||"),
        ("{1, }", 1, 5, "'}'", "a value", "something is missing before it"),
        ("a ?: -x", 1, 6, "'-'", "", "put the right side of ?: in parentheses"),
        ("a.true", 1, 3, "'true'", "an attribute name", "this word is reserved"),
        ("a b", 1, 3, "'b'", "an operator", ""),
        ("[a = 1, b = 2]", 1, 7, "','", "';'", ""),
        ("99999999999999999999", 1, 1, "does not fit 64 bits", "", "write it as a real"),
        ('"a\\0b"', 1, 1, "\\0", "", ""),
        ("x in {1, 2}", 1, 3, "'in'", "an operator", "use member(value, list)"),
        ("x not in {1}", 1, 3, "'not'", "an operator", "use !member(value, list)"),
        ("job->Cpus > 2", 1, 5, "'>'", "a value", "select with a dot, as in job.Cpus"),
        ('Name like "wn%"', 1, 6, "'like'", "an operator", "use regexp(pattern, text)"),
        ('Name !~ "wn"', 1, 6, "'!'", "an operator", "use regexp(pattern, text)"),
        ("a === b", 1, 5, "'='", "a value", "use ==, or =?="),
        ("a !== b", 1, 5, "'='", "a value", "use !=, or =!="),
        ("2 ** 3", 1, 4, "'*'", "a value", "use pow(base, exponent)"),
        ("a ?? b", 1, 4, "'?'", "a value", "use ?:"),
        ('"a"b"', 1, 4, "'b'", "an operator", 'a quote in a string is written \\"'),
        ('x == "say "hi" now"', 1, 12, "'hi'", "an operator", 'is written \\"'),
        ("Größe > 5", 1, 1, "'Größe'", "a value", "quote a name with letters beyond A to Z"),
        ("[ Größe = 5 ]", 1, 3, "'Größe'", "name", "quote a name with letters beyond A to Z"),
        ("1_000", 1, 1, "'1_000'", "a value", "write the digits of a number together"),
        ("x > 1,000", 1, 6, "','", "an operator", "write the digits of a number together"),
        ("1e", 1, 1, "'1e'", "a value", "an exponent needs digits, as in 1e3"),
        ("1e+ + 2", 1, 1, "'1e'", "a value", "an exponent needs digits, as in 1e3"),
        ("[ 1a = 5 ]", 1, 3, "'1a'", "name", "quote a name that begins with a digit"),
        ("[ b = 1; 1a = 5 ]", 1, 10, "'1a'", "name", "quote a name that begins with a digit"),
        ("}", 1, 1, "'}'", "a value", "there is no '{' for it"),
        ("a == ]", 1, 6, "']'", "a value", "there is no '[' for it"),
        ("[a]", 1, 3, "']'", "'='", ""),
        ("[a = 1, b = 2]", 1, 7, "','", "';'", "separate assignments with ;"),
        ('[ "a" = 1 ]', 1, 3, '"a"', "name", "a name takes no double quotes"),
        ("a, b", 1, 2, "','", "an operator", ""),
    ],
)
def test_syntax_error(  # noqa: PLR0917 - a row of the table
    text: str, line: int, column: int, found: str, expected: str, hint: str
) -> None:
    with pytest.raises(ParseError) as caught:
        parse_expr(text)
    error = caught.value
    assert (error.line, error.column) == (line, column)
    assert found in error.message
    assert hint in error.hint
    if expected:
        assert any(expected in word for word in error.expected), error.expected


@pytest.mark.parametrize(
    "text", ["a @ b", "a # b", "f(a @", "{ a @", "[ a = 1 @", "a ? b @", "[ @", "x[1 @", "a.@", "@"]
)
def test_at_most_four_expected_tokens_are_listed(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_expr(text)
    assert 1 <= len(caught.value.expected) <= 4


def test_a_bracket_that_is_open_is_not_said_to_be_missing() -> None:
    with pytest.raises(ParseError) as caught:
        parse_expr("[a]")
    assert not caught.value.hint


def test_syntax_error_shows_the_line_and_a_caret() -> None:
    with pytest.raises(ParseError) as caught:
        parse_expr("Cpus > 1 &&\nMemory = 2")
    first, line, caret = str(caught.value).split("\n")
    assert first.startswith("line 2, column 8: unexpected '='")
    assert line == "  Memory = 2"
    assert caret.index("^") == line.index("=")


def test_caret_is_seen_in_a_long_line() -> None:
    with pytest.raises(ParseError) as caught:
        parse_expr("a + " * 500 + ")")
    _, line, caret = str(caught.value).split("\n")
    assert len(line) < 100
    assert line[caret.index("^")] == ")"


@pytest.mark.parametrize(
    "text",
    ["-", "a..b", "a.", "f(", "f(,)", "f(1,)", "[1]", "[a]", "[a=]", "{,}", "a ? b", "a ? b :",
     "1 2", '"a" b', "a[]", "a[1", "a ! b", "= 1", "a &&& b", "a ==== b", "1..2", "1e", "1e+",
     "--", "a::b", "@", "a;b", "''", "'a", "\\", "a\0", '"\0"'],
)  # fmt: skip
def test_unreadable(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_expr(text)
    assert caught.value.line == 1
    assert caught.value.column >= 1


@pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775809", "1" * 5000])
def test_integer_that_does_not_fit(number: str) -> None:
    with pytest.raises(ParseError, match="does not fit 64 bits"):
        parse_expr(number)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1e400", float("inf")),
        ("5-3", 2),
        ("5 -3", 2),
        ("5- -3", 8),
        ("{1}[0]-1", 0),
        ("(1)-1", 0),
        ('"x" " " "y"', "x y"),
        ('"line\nbreak"', "line\nbreak"),
        (r'"\t"', "\t"),
        ("'int'(1.5)", 1),
        ("INT(1.5)", 1),
        ("undefined ? : 1", 1),
        ("error", ERROR),
        ("'error'", UNDEFINED),
        ("isnt", None),
        ("is", None),
        ("isnta", UNDEFINED),
    ],
)
def test_meaning(text: str, expected: Any) -> None:
    if expected is None:
        with pytest.raises(ParseError):
            parse_expr(text)
    else:
        assert_gives(text, expected)


def test_text_must_be_text() -> None:
    with pytest.raises(TypeError):
        parse_expr(1)  # type: ignore[arg-type]


@pytest.mark.parametrize("opening", ["{", "f(", "!", "a ? b : ", "[a=", "a["])
def test_nesting_is_bounded(opening: str) -> None:
    closing = {"{": "}", "f(": ")", "[a=": "]", "a[": "]"}.get(opening, "")
    fits = LIMITS.nesting - 2
    parse_expr(opening * fits + "1" + closing * fits)
    with pytest.raises(ParseError, match="nested"):
        parse_expr(opening * 300 + "1" + closing * 300)


@pytest.mark.slow
def test_deep_text_does_not_exhaust_the_stack() -> None:
    for text in ("(" * 20_000, "{" * 20_000, "!" * 20_000 + "a", "-" * 20_000):
        with pytest.raises(ParseError):
            parse_expr(text)


@pytest.mark.parametrize(
    "text",
    ["!" * 1_000_000 + "a", "- " * 100_000 + "a", "a?b:" * 100_000 + "c",
     "a?" * 100_000 + "b" + ":c" * 100_000, "(" * 100_000, "[a=" * 100_000,
     "a" + ".a" * 100_000, "a" + "[0]" * 100_000, "f(" * 100_000],
    ids=lambda text: text[:4],
)  # fmt: skip
def test_what_nests_without_end_is_refused_in_few_steps(text: str) -> None:
    steps = itertools.count()
    sys.setprofile(lambda *event: next(steps))
    try:
        with pytest.raises(ParseError, match="nested more than 200 deep"):
            parse_expr(text)
    finally:
        sys.setprofile(None)
    assert next(steps) < 200_000


@pytest.mark.parametrize("text", ["!" * 200_000 + "a", "a?b:" * 50_000 + "c"], ids=("!", "?:"))
@pytest.mark.parametrize(
    "form", ["[ r = {} ]", "r = {}", r'{{"r": "\/Expr({})\/"}}', '<c><a n="r"><e>{}</e></a></c>']
)
def test_what_nests_without_end_is_refused_in_few_steps_in_every_format(
    form: str, text: str
) -> None:
    steps = itertools.count()
    sys.setprofile(lambda *event: next(steps))
    try:
        with pytest.raises(ParseError, match="nested more than 200 deep"):
            parse_ad(form.format(text))
    finally:
        sys.setprofile(None)
    assert next(steps) < 600_000


def test_long_chains_are_no_nesting() -> None:
    for operator in ("||", "&&", "+", "|"):
        text = f" {operator} ".join(["a"] * 5000)
        assert str(parse_expr(text)) == text


def test_ad() -> None:
    ad = parse_ad("[ B = 1; a = B + 1; 'x y' = [c = a] ]")
    assert list(ad) == ["B", "a", "x y"]
    assert str(ad) == "[ B = 1; a = B + 1; 'x y' = [ c = a ] ]"


def test_white_space_in_times_is_no_riddle() -> None:
    assert_gives(f'relTime("1d{" " * 20_000}2h")', timedelta(days=1, hours=2))
    assert_gives(f'absTime("2004-01-01{" " * 20_000}00:00Z") == absTime("2004-01-01T00:00Z")', True)
    assert_gives(f'relTime("{" " * 20_000}soon")', ERROR)


def test_an_expression_that_begins_like_a_number_is_read_when_it_is_looked_at() -> None:
    for number in range(3):
        ad = parse_ad(
            f'[ Name = "p{number}"; Partitionable = true; Cpus = {number};'
            f" Memory = 5{number}00 - Cpus * 1000; Disk = Cpus * 1{number} ]"
        )
        assert isinstance(ad._held["memory"], Expr)
        assert ad.eval("Memory") == 5000 + 100 * number - 1000 * number


@pytest.mark.parametrize(
    "text", ["{" * 300 + "}" * 300, "f(" * 210 + "1" + ")" * 210, "[a=" * 201 + "1" + "]" * 201]
)
def test_a_text_that_nests_too_deep_is_refused_each_time(text: str) -> None:
    for whole in (text, f"[ a = {text} ]", f"a = {text}", f"b = 1 + {text}"):
        read = parse_expr if whole == text else parse_ad
        for _ in range(3):
            with pytest.raises(ParseError, match="nested"):
                read(whole)
