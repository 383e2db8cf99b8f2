"""Functions on strings, versions, patterns, environments, arguments, and on expressions."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.functions.patterns import regexp, translated
from matchmaker.classad.functions.strings import join, strcat
from matchmaker.classad.state import Budget
from matchmaker.classad.values import is_error
from tests.classad.results import ERROR, UNDEFINED, assert_gives
from tests.limits import fields


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("strcat()", ""),
        ('strcat("a", 1, true, {1})', "a1true{ 1 }"),
        ("strcat(undefined, error)", UNDEFINED),
        ("strcat(error, undefined)", ERROR),
        ("join()", ""),
        ('join(",")', ""),
        ('join(",", "a", "b")', "a,b"),
        ('join(",", "a", undefined)', "a"),
        ('join(",", {1, 2})', "1,2"),
        ('join({"a", "b"})', "ab"),
        ('join(",", {"", "a", ""})', "a,"),
        ('join(",", {"a", {"b"}})', 'a,{ "b" }'),
        ('join(undefined, "a", "b")', "ab"),
        ('join(",", undefined)', UNDEFINED),
        ('join(",", {"a", error})', ERROR),
        ('toUpper("héß")', "Héß"),
        ('toLower("ÀB")', "Àb"),
        ("toUpper(true)", "TRUE"),
        ("toLower(undefined)", UNDEFINED),
        ('substr("abcdef", 2)', "cdef"),
        ('substr("abcdef", -2)', "ef"),
        ('substr("abcdef", -2, -1)', "e"),
        ('substr("abcdef", 1, 0)', ""),
        ('substr("abcdef", 1, 100)', "bcdef"),
        ('substr("abcdef", 4, -3)', ""),
        ('substr("abcdef", 99)', ""),
        ('substr("a", undefined)', UNDEFINED),
        ('substr("a", true)', ERROR),
        ('substr("a", 0, 1.0)', ERROR),
        ('strcmp("a", "B")', 1),
        ('stricmp("a", "B")', -1),
        ("strcmp(1, 1)", 0),
        ("strcmp(1, undefined)", UNDEFINED),
        ("strcmp(1, error)", ERROR),
        ('split("a, b c")', ["a", "b", "c"]),
        ('split("a,,b")', ["a", "", "b"]),
        ('split(",a,")', ["a"]),
        ('split(" a ; b", ";")', [" a ", " b"]),
        ('split("abc", "")', ["abc"]),
        ("split(1)", ERROR),
        ('splitUserName("a@b@c")', ["a", "b@c"]),
        ('splitSlotName("slot1@h")', ["slot1", "h"]),
        ('splitSlotName("h")', ["", "h"]),
    ],
)
def test_string_function(text: str, expected: Any) -> None:
    assert_gives(text, expected)


@pytest.mark.parametrize(
    ("older", "newer"),
    [("1.9", "1.10"), ("1.2", "1.2.0"), ("1.02", "1.2"), ("001", "01"), ("8.9.1", "8.10.0"),
     ("a9b", "a10b"), ("1.2", "1.2a"), ("1", "a"), ("0", "1"), ("00", "0"), ("9", "10")],
)  # fmt: skip
def test_version_order(older: str, newer: str) -> None:
    assert_gives(f'versioncmp("{older}", "{newer}") < 0', True)
    assert_gives(f'versioncmp("{newer}", "{older}") > 0', True)
    for relation, expected in (("LT", True), ("LE", True), ("GT", False), ("GE", False)):
        assert_gives(f'version{relation}("{older}", "{newer}")', expected)
    assert_gives(f'versionEQ("{older}", "{newer}")', False)
    assert_gives(f'versionEQ("{older}", "{older}")', True)
    assert_gives(f'version_in_range("{older}", "{older}", "{newer}")', True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('versioncmp("1", undefined)', UNDEFINED),
        ('versionLE(error, "1")', ERROR),
        ('version_in_range(undefined, "1", "2")', ERROR),
        ('version_in_range("1", undefined, "2")', UNDEFINED),
    ],
)
def test_version_function(text: str, expected: Any) -> None:
    assert_gives(text, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('regexp("b+", "abba")', True),
        ('regexp("^b", "ab")', False),
        ('regexp("A", "a", "i")', True),
        ('regexp("A", "a", "I")', False),
        ('regexp("^b", "a\nb", "m")', True),
        ('regexp("a.b", "a\nb")', False),
        ('regexp("a.b", "a\nb", "s")', True),
        ('regexp("a b # c", "ab", "x")', True),
        ('regexp("", "a")', True),
        ('regexp("(", "a")', ERROR),
        ("regexp(undefined, 1)", UNDEFINED),
        ("regexp(undefined, error)", ERROR),
        ('regexp("a", 1)', ERROR),
        (r'regexp("^slot[0-9]+@\\w+$", "slot1@host")', True),
        (r'regexp("\\d", "5")', True),
        ('regexpMember("^a", {"b", "ab"})', True),
        ('regexpMember("a", {undefined, "b"})', UNDEFINED),
        ('regexpMember("a", {undefined, "a"})', True),
        ('regexpMember("a", {"b", 1})', ERROR),
        ('regexpMember("a", {"a", 1})', True),
        ('regexpMember("a", {})', False),
        ('regexpMember("(", {"a"})', ERROR),
        (r'regexps("(b)(c)?", "abd", "<\\1>")', "<b>"),
        (r'regexps("(b)(c)?", "abd", "<\\2>")', ERROR),
        (r'regexps("(b)|(c)", "c", "\\1\\2")', "c"),
        ('regexps("b", "abdb", "x", "g")', "xx"),
        ('regexps("b", "abdb", "x", "fg")', "axdx"),
        ('regexps("z", "abdb", "x")', ""),
        ('regexps("z", "abdb", "x", "f")', "abdb"),
        (r'regexps("a", "a", "\\x\\")', "\\x\\"),
        ('replace("b", "abcb", "x")', "axcb"),
        ('replaceAll("b", "abcb", "x")', "axcx"),
        ('replaceAll("B", "abcb", "x", "i")', "axcx"),
        ('replaceAll("^", "ab", "-")', "-ab"),
        ('replaceAll("b*", "abc", "-")', ERROR),
        ('replace("a", undefined, "x")', UNDEFINED),
    ],
)
def test_pattern_function(text: str, expected: Any) -> None:
    assert_gives(text, expected)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"a\z", "a\n", False),
        (r"a\Z", "a\n", True),
        (r"\Qa.b\E", "a.b", True),
        (r"\Qa.b\E", "axb", False),
        (r"\Q(", "(", True),
        ("a{x}", "a{x}", True),
        ("(?:foo){e<=1}", "fo", False),
        ("a{2}", "aa", True),
        ("[[]", "[", True),
        ("[]a]", "]", True),
        ("[a&&b]", "&", True),
        ("[+--b]", "-", True),
        ("[[:alpha:][:digit:]]", "5", True),
        ("[[:^alpha:]]", "5", True),
        (r"\x{41}\x42", "AB", True),
        (r"\h\R", "\t\n", True),
        (r"(?<n>a)\k<n>\g1", "aaa", True),
        (r"\e\cA", "\x1b\x01", True),
        (r"\w", "é", False),
        ("é", "É", False),
        ("(a(?1)?b)", "aabb", True),
        ("(?>a+)ab", "aab", False),
    ],
)
def test_pattern_syntax_is_pcre(pattern: str, text: str, matches: bool) -> None:
    options = ("i",) if pattern == "é" else ()
    assert regexp(pattern, text, *options) is matches


@pytest.mark.parametrize(
    "pattern",
    [r"\y", r"\L<x>", "(", "[a", "a**", "\\", "(?<n>", "x" * 20_000, "[[:ALPHA:]]", "[[:^Digit:]]"],
)
def test_broken_pattern(pattern: str) -> None:
    assert is_error(regexp(pattern, "a"))


def test_translation_keeps_plain_patterns() -> None:
    for pattern in ("abc", r"\d+\.\w*", "^(a|b)?[^c-e]{1,3}$", r"(?i)a\b"):
        assert translated(pattern) == pattern


def test_pattern_that_takes_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "seconds", 0.01)
    given = regexp("(a|a?b?)+(c|a)+$", "a" * 5000 + "b")
    assert given is False or is_error(given)
    hostile = regexp(r"^(\w+\s?)*\d$", "word " * 60 + "!")
    assert hostile is False or is_error(hostile)


def test_patterns_in_many_threads() -> None:
    wrong: list[int] = []

    def search() -> None:
        wrong.extend(i for i in range(700) if regexp(f"^{i}$", str(i)) is not True)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_length_of_text_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fields(LIMITS), "result", 10)
    assert strcat("12345", "67890") == "1234567890"
    assert is_error(strcat("12345", "678901"))
    assert is_error(join(",", "12345", "67890"))


def test_text_cannot_double_without_end() -> None:
    doubling = "; ".join(f"a{i} = strcat(a{i + 1}, a{i + 1})" for i in range(40))
    assert_gives("size(a0)", ERROR, f'[ {doubling}; a40 = "0123456789" ]')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('envV1ToV2("b=x y;a=1")', "a=1 b=x' 'y"),
        ('envV1ToV2("a=it\'s")', "a=it''''s"),
        ('envV1ToV2("")', ""),
        ('envV1ToV2("a")', ERROR),
        ("envV1ToV2(undefined)", UNDEFINED),
        ("mergeEnvironment()", ""),
        ('mergeEnvironment("a=1 b=2", undefined, "b=\'3 4\'")', "a=1 b=3' '4"),
        ('mergeEnvironment("a=\'1")', ERROR),
        ('mergeEnvironment("=1")', ERROR),
        ("mergeEnvironment(1)", ERROR),
        ('listToArgs({"a", "b c", "it\'s", ""})', "a b' 'c it''''s ''"),
        ('listToArgs({"a", "b"}, 1)', "a b"),
        ('listToArgs({"", "a"}, 1)', "a"),
        ('listToArgs({"", "", "a", "", "b", ""}, 1)', "a  b "),
        ('listToArgs({""}, 1)', ""),
        ('listToArgs({"a\\013b"}, 1)', "a\vb"),
        ('listToArgs({"a b"}, 1)', ERROR),
        ("listToArgs({1})", ERROR),
        ('listToArgs({"a"}, 3)', ERROR),
        ("argsToList(\"a 'b c' d''\")", ["a", "b c", "d"]),
        ("argsToList(\"'it''s'\")", ["it's"]),
        ("argsToList(\"a 'b c'\", 1)", ["a", "'b", "c'"]),
        ('argsToList("a \'b")', ERROR),
        ("argsToList(undefined)", ERROR),
        ('userHome("no such user")', UNDEFINED),
        ('userHome("no such user", "/home")', "/home"),
        ("userHome(1)", ERROR),
        ('userMap("m", "u")', UNDEFINED),
        ('userMap("m", "u", "p", "d")', "d"),
    ],
)
def test_environment_function(text: str, expected: Any) -> None:
    assert_gives(text, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ifThenElse(1, 2, 3)", 2),
        ("ifThenElse(0.0, 2, 3)", 3),
        ('ifThenElse("a", 2, 3)', ERROR),
        ("ifThenElse(undefined, 2, 3)", UNDEFINED),
        ('[a = 1; b = eval("a + 1")].b', 2),
        ('[a = 1; b = eval(strcat("a", "+", 1))].b', 2),
        ("eval(2.5)", 2.5),
        ("eval({1})", [1]),
        ('eval("")', ERROR),
        ("eval(undefined)", ERROR),
        ("debug(1 + 1)", 2),
        ('[a = b || "x"; t = unparse(a)].t', 'b || "x"'),
        ("[t = unparse(a)].t", ""),
        ("[t = unparse(x.y)].t", ""),
        ("unparse(1)", ERROR),
        ("unparse(a)", ""),
        ("[a = x + TARGET.y + MY.z + q; q = 1; t = unresolved(a)].t", "y,x,z"),
        ("[a = x + q; q = w + Z; t = unresolved(a)].t", "w,x,Z"),
        ("[a = x.y + z.w.v; t = unresolved(a)].t", "x.y,z.w.v"),
        ("[a = f(x, {y, [z = w]}); t = unresolved(a)].t", "w,x,y"),
        ("[a = a + b; b = a; t = unresolved(a)].t", ""),
        ('[a = x + y; t = unresolved(a, "X")].t', True),
        ('[a = x + y; t = unresolved(a, "q")].t', False),
        ('[a = x + y; t = unresolved(a, "(")].t', ERROR),
        ("[t = unresolved(a)].t", UNDEFINED),
        ("unresolved(1)", ERROR),
    ],
)
def test_function_of_expressions(text: str, expected: Any) -> None:
    assert_gives(text, expected)
