"""Where we differ from HTCondor on purpose: the one list, each with its reason and examples.

A difference excuses a disagreement only if its predicate holds for it. ``test_differences`` checks
of every example that both sides still answer so, so that nothing stays here without need.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

import attrs

from tests.oracle.oracle import Case, Compared


@attrs.frozen(slots=True)
class Example:
    """An expression, and what we make of it (see ``encoded``)."""

    text: str
    ours: list[Any]
    my: str = ""
    target: str = ""

    @property
    def case(self) -> Case:
        """The example as a case to ask both sides."""
        return Case(self.text, self.my, self.target)


@attrs.frozen(slots=True)
class Difference:
    """A kind of disagreement, why it is meant, and examples of it."""

    name: str
    reason: str
    excuses: Callable[[Compared], bool]
    examples: tuple[Example, ...]


def reason(one: Compared) -> str | None:
    """Why a disagreement is meant, or None where it is a fault."""
    return next((known.reason for known in DIFFERENCES if known.excuses(one)), None)


_LARGE: Final = re.compile(r"\d{10,}|\d+e\+?\d\d|INF|NaN", re.IGNORECASE)
_LARGEST: Final = 86400 * 999_999_999


def _mentions(pattern: str) -> Callable[[Compared], bool]:
    found = re.compile(pattern, re.IGNORECASE | re.DOTALL)
    return lambda one: found.search(one.case.text) is not None


def _kinds(ours: str, theirs: str) -> Callable[[Compared], bool]:
    return lambda one: one.ours[0] == ours and one.theirs[0] == theirs


def _all(*conditions: Callable[[Compared], bool]) -> Callable[[Compared], bool]:
    return lambda one: all(condition(one) for condition in conditions)


def _any(*conditions: Callable[[Compared], bool]) -> Callable[[Compared], bool]:
    return lambda one: any(condition(one) for condition in conditions)


def _holds(encoded: list[Any], test: Callable[[list[Any]], bool]) -> bool:
    """Whether a test holds for an encoded value, or for an element of a list."""
    if encoded[0] == "list":
        return any(_holds(item, test) for item in encoded[1])
    return test(encoded)


def _is_long(encoded: list[Any]) -> bool:
    if encoded[0] != "relative time":
        return False
    seconds = float(encoded[1])
    return not math.isfinite(seconds) or abs(seconds) > _LARGEST


def _same_but_spaces(one: Compared) -> bool:
    ours, theirs = (str(answer).replace("[  ]", "[ ]") for answer in (one.ours, one.theirs))
    return ours == theirs


_TIME_FUNCTIONS = r"\b(absTime|relTime|interval|splitTime|formatTime|get[A-Z]\w+)\("

DIFFERENCES: Final = (
    Difference(
        "literals",
        "an integer that does not fit 64 bits is a syntax error; HTCondor reads it as 0",
        _kinds("unreadable", "integer"),
        (Example("9223372036854775808", ["unreadable"]),),
    ),
    Difference(
        "characters",
        "strings are counted and matched in characters; HTCondor counts bytes of UTF-8",
        _mentions(r"[^\x00-\x7f]"),
        (
            Example('size("é")', ["integer", "1"]),
            Example('substr("héllo", 1, 1)', ["string", "é"]),
            Example('regexp("^.$", "é")', ["boolean", True]),
        ),
    ),
    Difference(
        "saturation",
        "a real that is no 64-bit integer becomes the nearest one, NaN 0; in C++ it is undefined",
        _all(
            _mentions(r"\b(int|floor|ceil|ceiling|round|pow)\("),
            lambda one: one.theirs == ["integer", str(-(2**63))],
        ),
        (
            Example("int(1e30)", ["integer", str(2**63 - 1)]),
            Example('floor(real("NaN"))', ["integer", "0"]),
            Example("pow(2, 63)", ["integer", str(2**63 - 1)]),
        ),
    ),
    Difference(
        "powers",
        "a power of integers is exact; HTCondor goes by way of a real and adds one half",
        _all(_mentions(r"\bpow\("), _kinds("integer", "integer")),
        (
            Example("pow(-2, 3)", ["integer", "-8"]),
            Example("pow(3, 39)", ["integer", "4052555153018976267"]),
        ),
    ),
    Difference(
        "shifts",
        "a shift right keeps all bits; HTCondor's goes wrong by 0 places, and of the least integer",
        _all(_mentions(">>"), _mentions(r"-\(*\d")),
        (
            Example("-1 >>> 0", ["integer", "-1"]),
            Example("-9223372036854775808 >> -1", ["integer", "-1"]),
        ),
    ),
    Difference(
        "32 bits",
        "positions and seconds have 64 bits; HTCondor drops all but 32 of them",
        _all(
            _any(_mentions(_TIME_FUNCTIONS), _mentions(r"\]\s*$|\)\[")),
            lambda one: _LARGE.search(one.case.text) is not None,
        ),
        (
            Example("{1, 2}[4294967296]", ["error"]),
            Example("interval(10000000000)", ["string", "115740+17:46:40"]),
            Example("relTime(2147483648)", ["relative time", "2147483648.0"]),
            Example("absTime(2147483648)", ["absolute time", "2038-01-19T03:14:08-00:00"]),
        ),
    ),
    Difference(
        "long times",
        "a relative time is finite and below 10^9 days, an absolute one in the years 1 to 9999",
        _any(
            _all(
                lambda one: _holds(one.ours, lambda item: item[0] == "error"),
                lambda one: _holds(one.theirs, _is_long),
            ),
            _all(
                _kinds("error", "relative time"),
                _mentions(r"/ *\(?(0|-?0\.0|real\(|1e-)|INF|NaN"),
            ),
            _all(
                lambda one: one.ours[0] == "error",
                _mentions(r"absTime\((\"?(\d{6}|0001|\S*1e)|\d+, *\d{6})"),
            ),
        ),
        (
            Example("relTime(1) / 0", ["error"]),
            Example("relTime(1) * 1e300", ["error"]),
            Example('relTime(90) / real("INF")', ["error"]),
        ),
    ),
    Difference(
        "fractions of times",
        "absolute times keep fractions of a second; HTCondor's have whole seconds",
        _all(
            _mentions(r"absTime\("),
            _mentions(r"\d\.\d"),
            _any(
                _kinds("absolute time", "absolute time"),
                _kinds("string", "unreadable"),
                _kinds("absolute time", "unreadable"),
                _kinds("boolean", "boolean"),
            ),
        ),
        (
            Example(
                "absTime(10, 0) - relTime(2.5)", ["absolute time", "1970-01-01T00:00:07-00:00"]
            ),
            Example(
                'absTime("2004-01-01T00:00:00.5Z")',
                ["absolute time", "2004-01-01T00:00:00-00:00"],
            ),
        ),
    ),
    Difference(
        "relative time literals",
        'relTime("…") is a relative time; HTCondor 25 makes a real of the literal',
        _any(_mentions(r"\brelTime\(\""), _mentions(r"evalInEachContext\(.*relTime\(")),
        (
            Example('isRelTime(relTime("1d"))', ["boolean", True]),
            Example('relTime("1d") + 1', ["error"]),
        ),
    ),
    Difference(
        "texts of times",
        "a text that is no time is an error where it is evaluated, and a computed text is read too",
        _mentions(r"\b(absTime|relTime)\( *(\"|strcat\()"),
        (
            Example('absTime("garbage")', ["error"]),
            Example('absTime(strcat("garbage", ""))', ["error"]),
            Example('relTime(strcat("1", "d"))', ["relative time", "86400.0"]),
            Example('absTime("2004-01")', ["error"]),
        ),
    ),
    Difference(
        "incomplete dates",
        "an ad without a day is formatted as the first of the month; HTCondor writes a day 0",
        _all(_mentions(r"formatTime\( *\["), _kinds("string", "string")),
        (Example('formatTime([Year = 2004; Month = 5], "%d")', ["string", "01"]),),
    ),
    Difference(
        "texts of lists and ads",
        "the text of a list has its values, that of an ad our spelling; HTCondor has expressions",
        _any(
            _same_but_spaces,
            _all(_mentions(r"\b(strcmp|stricmp|version\w+)\("), _mentions(r"[{\[]")),
            _all(
                _mentions(r"\b(string|strcat|join|toUpper|toLower|unparse|eval)\b"),
                _kinds("string", "string"),
                _mentions(r"[{\[]"),
            ),
        ),
        (
            Example("string({1 + 1})", ["string", "{ 2 }"]),
            Example("string([])", ["string", "[ ]"]),
            Example("[a = 0.1; b = unparse(a)].b", ["string", "0.1"]),
        ),
    ),
    Difference(
        "lists in circles",
        "the elements of a list are evaluated with it, so that a circle through one is undefined",
        _mentions(r"\[x = \{x\}\]"),
        (Example("[x = {x}].x[0]", ["undefined"]),),
    ),
    Difference(
        "largest of a string list",
        "stringListMax finds the largest of negative numbers; HTCondor begins at 0",
        _mentions(r"\bstringListMax\(.*-"),
        (Example('stringListMax("-1,-2")', ["integer", "-1"]),),
    ),
    Difference(
        "broken patterns",
        "a broken pattern is an error in regexpMember as it is in regexp; HTCondor says false",
        _all(_mentions(r"\bregexpMember\("), _kinds("error", "boolean")),
        (Example('regexpMember("(", {"a"})', ["error"]),),
    ),
    Difference(
        "regular expressions",
        "another library matches them: it knows look-behind of any length, and no PCRE verbs",
        _all(
            _mentions(r"\b(regexp|regexps|replace|replaceAll|regexpMember)\("),
            _mentions(r"\\\\[oNCQPb]|\(\*|\(\?<=a\*|\[\\\\d-z|\[a-\\\\d|\(a\+\)\+|\"gm?\""),
        ),
        (
            Example('regexp("(?<=a*)b", "ab")', ["boolean", True]),
            Example('regexp("(*ANYCRLF)a", "a")', ["error"]),
            Example(r'regexps("^", "ab", "-", "g")', ["string", "-"]),
        ),
    ),
    Difference(
        "one syntax",
        "eval() reads what any other text is read as; HTCondor's takes octal numbers there",
        _all(_mentions(r"\beval\("), _kinds("error", "integer")),
        (Example('eval("-01")', ["error"]),),
    ),
    Difference(
        "the outermost ad",
        "root and parent of an ad in a match end with that ad; HTCondor shows its own match ad",
        _all(
            lambda one: one.case.target != "", _mentions(r"\b(root|toplevel|parent)\b|(^|\W)\.\w")
        ),
        (
            Example("isUndefined(parent)", ["boolean", True], "[a = 1]", "[b = 1]"),
            Example("root.a", ["integer", "1"], "[a = 1]", "[b = 1]"),
        ),
    ),
    Difference(
        "unresolved",
        "unresolved() and evalInEachContext() take a bare name from the ad itself, not from TARGET",
        _all(
            lambda one: one.case.target != "",
            _mentions(r"\b(unresolved|evalInEachContext)\("),
        ),
        (Example("unresolved(a)", ["undefined"], "[b = 1]", "[a = c]"),),
    ),
    Difference(
        "parentheses",
        "a name in parentheses is the name; HTCondor takes it as an expression in countMatches()",
        _mentions(r"\b(countMatches|evalInEachContext)\(\(\w+\)"),
        (Example("[f = x > 1; n = countMatches((f), {[x = 2]})].n", ["integer", "1"]),),
    ),
    Difference(
        "bounds",
        "long chains are evaluated; HTCondor gives up at a depth of 400",
        _all(lambda one: one.theirs[0] in ("exception", "crashes", "hangs")),
        (
            Example(" || ".join(["false"] * 500), ["boolean", False]),
            Example(" + ".join(["1"] * 500), ["integer", "500"]),
        ),
    ),
)
