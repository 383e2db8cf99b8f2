"""Expressions whose values surprise people, as HTCondor 25 gives them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from matchmaker.classad.values import MAX_INT, MIN_INT
from tests.classad.results import ERROR, UNDEFINED, assert_gives

INF, NAN = math.inf, math.nan

TABLE: list[tuple[str, Any]] = [
    ("error && false", ERROR),
    ("false && error", False),
    ("undefined && error", ERROR),
    ("undefined || true", True),
    ('"a" || true', ERROR),
    ("undefined ? 1 : 2", UNDEFINED),
    ("0.1 ? 1 : 2", 1),
    ("error ?: 1", ERROR),
    ("1 + undefined ?: 2", 3),
    ("-undefined ?: 2", -2),
    ('"a" == "A"', True),
    ('"a" =?= "A"', False),
    ('"1" == 1', ERROR),
    ('"Z" < "_"', False),
    ('"10" < "9"', True),
    ("1 =?= 1.0", False),
    ("true == 1", True),
    ("true =?= 1", False),
    ("true + true", 2),
    ("-true", ERROR),
    ("{1,2} =?= {1,2}", ERROR),
    ("{1} == undefined", UNDEFINED),
    ("{1} is 1", False),
    ("1/0", ERROR),
    ("1.0/0", ERROR),
    ("-1.0/0", -INF),
    ("0.0/0", NAN),
    ("1e308*10", ERROR),
    ("-1e308*10", -INF),
    ("5.5 % 2", ERROR),
    ("-7%2", -1),
    ("7%-2", 1),
    ("9223372036854775807+1", MIN_INT),
    ("-9223372036854775808/-1", MAX_INT),
    ("-9223372036854775808%-1", 0),
    ("1<<64", 1),
    ("1<<-1", MIN_INT),
    ("1<2<3", True),
    ("9007199254740993==9007199254740992.0", True),
    ('"x".a', ERROR),
    ("undefined.a", UNDEFINED),
    ("{1,2}[2]", ERROR),
    ("{1,2}[-1]", ERROR),
    ("{1,2}[true]", ERROR),
    ('[a=1]["b"]', UNDEFINED),
    ("{[a=1],3}.a", [1, ERROR]),
    ('member("1",{1,"1"})', True),
    ("member(undefined,{1})", UNDEFINED),
    ("member(2,{undefined,1})", False),
    ("member(2,{error,2})", True),
    ("identicalMember(undefined,{undefined})", True),
    ('regexpMember("a",{"b",undefined})', UNDEFINED),
    ('strcat("a",undefined)', UNDEFINED),
    ('join(",",{"a",undefined,"b"})', "a,b"),
    ("strcat(1.5)", "1.500000000000000E+00"),
    ('int("12abc")', 12),
    ('int("0x10")', 16),
    ('int("1e3")', 1000),
    ('int("")', ERROR),
    ("round(2.5)", 2),
    ('bool("yes")', UNDEFINED),
    ("sum({})", 0),
    ("avg({})", 0),
    ("max({1,1.0})", 1.0),
    ("quantize(20,{1,4,8})", 24),
    ('substr("abcdef",1,-2)', "bcd"),
    ('substr("abcdef",-10,2)', "ab"),
    ('anyCompare("==",{undefined,1},1)', False),
    # HTCondor makes a real of such a literal; see tests/oracle/differences.py.
    ('isRelTime(relTime("1d"))', True),
    ("isRelTime(relTime(86400))", True),
    ("relTime(2)+1", ERROR),
    ('string(absTime("2004-02-30T00:00:00Z"))', "2004-03-01T00:00:00-00:00"),
    ('version_in_range("1.10","1.9","1.11")', True),
    ('versioncmp("1.02","1.2")', -1),
    ('stringListMember(undefined,"a")', False),
    ("countMatches(x,undefined)", 0),
    (r'regexp("\d+","12")', False),
    ('replaceAll("","ab","-")', ERROR),
    ("isUndefined(nofunc())", False),
    ("round(undefined)", ERROR),
    ('floor("abc")', ERROR),
    ("undefined == error", ERROR),
    ("1 & 2 == 2", ERROR),
    ("[a=isUndefined(b); b=a].a", True),
    ("[a=1;b=[c=a]].b.c", 1),
    ("undefined ?: 1 + 2", 3),
]


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_surprising(text: str, expected: Any) -> None:
    assert_gives(text, expected)
