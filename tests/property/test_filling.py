"""A stream that goes into columns gives the ads that its reader gives, and the same errors."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, ParseError, Pool, read_ads
from matchmaker.matching.columns import forms, reading, store
from tests.cases import cases

FORMS = ["as it comes", "nothing coded", "sparse"]


@pytest.fixture(params=FORMS, scope="module", autouse=True)
def form(request: pytest.FixtureRequest) -> Iterator[None]:
    """Blocks of few ads, and columns of each form."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store, "_BATCH", 5)
        patched.setattr(forms, "FEW", 3)
        if request.param != FORMS[0]:
            patched.setattr(reading, "LARGE", 100)
        if request.param == "nothing coded":
            patched.setattr(forms, "MANY", 0)
            patched.setattr(forms, "_SURE", 0)
            patched.setattr(store, "SETTLE_EVERY", 0)
        if request.param == "sparse":
            patched.setattr(store, "DENSE", 0)
        yield


NUMBERS = ["0", "-0", "7", "-12", "007", "0x1F", "1K", "+5", "9223372036854775807",
           "9223372036854775808", "-9223372036854775808", "1.5", "-0.0", "1.", ".5", "1e3",
           "1.5E-05", "1.0e400", "1.7976931348623157e308", "12345678901234567.25", "0.1", "00.5",
           "NaN", "Infinity", "inf", "1,2", "[1]", "null", "1_000"]  # fmt: skip
STRINGS = ['""', '"a"', '"slot1@wn1"', '"A"', r'"C:\new"', r'"say \"x\""', '"tab\there"',
           '"é ✓"', '"half', '"a" "b"', '"', '"a"b"', '"x\\"', '"=1"', '"\x7f"',
           '"nul\\0"']  # fmt: skip
OTHERS = ["true", "FALSE", "undefined", "error", "a + 1", "TARGET.Cpus > 2", "a +", "", " ",
          "{1, 2}", "[ b = 1 ]", "{  }", "MY.x =?= undefined", "# no comment",
          "x y", "f(", "a=1"]  # fmt: skip
NAMES = ["Name", "Cpus", "cpus", "Memory", "Rank", "Load", "a", "Start"]
HEADS = [*NAMES, "'quoted name'", "two words", "", "true", "#", "é", "a.b", "x-y"]
SIGNS = [" = ", "=", " =", "= ", "  =  ", "\t=\t", " = ", " = "]

value = st.sampled_from([*NUMBERS, *STRINGS, *OTHERS]) | st.integers(0, 10**6).map(str)
plain = st.sampled_from([*NUMBERS[:3], *STRINGS[:4], *OTHERS[:6]]) | st.integers(0, 99).map(str)


def assignments(names: list[str], held: Any, signs: list[str]) -> st.SearchStrategy[str]:
    assigned = st.tuples(st.sampled_from(names), st.sampled_from(signs), held)
    return assigned.map("".join)


odd = assignments(HEADS, value, SIGNS) | st.sampled_from(
    ["# note", "  # note", "# [ ]", " ", "\t", "no sign", "\x0c", "Name"]
)
regular = st.lists(
    assignments(NAMES, plain, [" = "]), max_size=4, unique_by=lambda s: s[:4].lower()
)
ads = st.tuples(st.booleans(), regular, st.lists(odd, max_size=1)).map(
    lambda parts: [*parts[1], *parts[2]] if parts[0] else parts[1]
)


def columns(kind: Callable[[int], str], size: int) -> list[list[str]]:
    """Ads with one attribute that differs in each."""
    return [[f"Name = {number}", f"Value = {kind(number)}"] for number in range(1000, 1000 + size)]


KINDS: list[Callable[[int], str]] = [
    str, lambda n: str(-n), lambda n: f"{n}.25", lambda n: f'"text {n}"', lambda n: f"a + {n}",
    lambda n: str(n) if n % 3 else f"{n}.5", lambda n: f'"{n}"' if n % 5 else "undefined",
    lambda n: str(n) if n % 7 else f"Cpus * {n}", lambda n: f'"é{n}"', lambda n: f"0{n}",
    lambda n: str(n) if n % 6 else '"text"', lambda n: f"{n}e2", lambda n: rf'"\"{n}\""',
    lambda n: f"0x{n}", lambda n: f"{n}K", lambda n: f" {n}", lambda n: f"+{n}", lambda n: f"{n}.",
    lambda n: str(n) if n % 5 else ("true", "false")[n % 2], lambda n: ("0", "0.0", "false")[n % 3],
    lambda n: ("-0.0", "0.0", "0", "true", "TRUE", "0.00")[n % 6],
]  # fmt: skip
many = st.builds(columns, st.sampled_from(KINDS), st.integers(0, 12))
streams_of_ads = st.builds(
    lambda some, rows, more: [*some, *rows, *more],
    st.lists(ads, max_size=5), many, st.lists(ads, max_size=3),
)  # fmt: skip


def text_of(some: list[list[str]], end: str, between: int) -> str:
    named = [
        [f'Name = "ad{number}"', *ad] if number % 8 else ad for number, ad in enumerate(some, 1)
    ]
    return (end * (1 + between)).join(end.join(ad) for ad in named)


def outcome(make: Callable[[], Pool]) -> Any:
    """The pool, key by key and ad by ad, or the error that it ends in."""
    try:
        pool = make()
    except (ParseError, ValueError) as error:
        return type(error), str(error)
    return [
        (key, list(ad), held(ad), pool[key] == ad)
        for key, ad in zip(pool.keys(), pool, strict=True)
    ]


def one_by_one(ads: Iterator[ClassAd]) -> Any:
    """The same, of ads that are read and never stand in columns together."""
    try:
        some, keys = [], []
        for ad in ads:
            some.append(ad)
            keys += Pool([ad]).keys()
        Pool([ClassAd(Name=key) for key in keys])
    except (ParseError, ValueError) as error:
        return type(error), str(error)
    return [(key, list(ad), held(ad), True) for key, ad in zip(keys, some, strict=True)]


def held(ad: ClassAd) -> list[tuple[type, str]]:
    return [(type(content), repr(content)) for content in ad._held.values()]


@given(streams_of_ads, st.sampled_from(["\n", "\r\n"]), st.integers(1, 2))
@settings(max_examples=cases(150))
def test_a_stream_in_columns_is_the_pool_of_its_ads(
    some: list[list[str]], end: str, between: int
) -> None:
    text = text_of(some, end, between)
    expected = one_by_one(read_ads(io.StringIO(text), "old"))
    assert outcome(lambda: Pool.read(io.StringIO(text), format="old")) == expected
    theirs: list[ParseError] = []
    expected = one_by_one(read_ads(io.StringIO(text), "old", errors="report", report=theirs.append))
    ours: list[ParseError] = []
    found = outcome(lambda: filled(text, ours.append))
    assert (found, list(map(str, ours))) == (expected, list(map(str, theirs)))


def filled(text: str, report: Callable[[ParseError], object]) -> Pool:
    return Pool.read(io.StringIO(text), format="old", errors="report", report=report)


# --- the new format and JSON ----------------------------------------------------------------------

NEW_VALUES = [
    *NUMBERS, "true", "FALSE", "undefined", "error", "a + 1", "TARGET.Cpus > 2", "a +", "", " ",
    '""', '"a"', r'"say \"x\""', r'"back\\"', r'"\\\"]"', '"new\nline"', '"a ; b = [ 2 "', '"é ✓"',
    '"half', '"a" "b"', "{1, 2}", '[ b = 1; c = "]" ]', "( 1 ; 2 )", "{ 1 ; 2 }", "{ ]", "a == 2",
    "'q;' + 1", "1 // c ; d = 1\n", "1 /* ; d = 1 */", "1 # ; d = 1\n", "4 / 2", "\t7 ", "= 1",
    '"/Expr(a)/"', 'f(x, "y")', "f(", "a ? b : c", '"nul\\0"', "\udc80", " " * 70 + "1",
    "'\"' + 1 // \"", "'/\"/' + 1", "(" * 30 + "1" + ")" * 30, "[a=" * 255 + "1" + "]" * 255,
]  # fmt: skip
JSON_VALUES = [
    *NUMBERS, "true", "false", "null", "nul", "", " ", '""', '"a"', r'"say \"x\""', r'"back\\"',
    r'"\\\"}"', '"new\nline"', r'"new\nline"', '"a , \\"b\\": { 2 "', '"é ✓"', r'"\u00e9"',
    r'"\ud800"',
    r'"\u0000"', '"half', '"a" "b"', "[1, 2]", '{"b": 1, "c": "}"}', "{1: 2}", "[ }", "[}, {]",
    r'"\/Expr(a + 1)\/"', '"/Expr(a + 1)/"', r'"\/Expr(x == \"y\")\/"', r'"\/Expr(a +)\/"',
    '"/home/x"',
    '"/"', r'["\/Expr(b)\/", null, 18446744073709551616]', "-Infinity", "1 2", "\t7 ", "'a'",
    "// c\n 1", "\udc80", "[" * 300 + "]" * 300, '{"a": {"": 1}}', "1e999", "9" * 5000,
]  # fmt: skip
SPACED = ["", " ", "\n", "\r\n\t", "  "]
spaced = st.sampled_from(SPACED)


def bracketed(form: str, values: list[str], often: list[str]) -> st.SearchStrategy[str]:
    """Streams of ads in brackets, some of them odd."""
    new = form == "new"
    opening, closing, sign, separator = "[]=;" if new else "{}:,"
    quoted = str if new else '"{}"'.format
    named = st.sampled_from([*map(quoted, NAMES), *map(quoted, NAMES)])
    other = st.sampled_from(
        ["'quoted name'", '"a b"', '""', "two words", "true", r'"\u0061"', "é", "x"]
    )

    def assigned(name: Any, held: Any) -> st.SearchStrategy[str]:
        return st.tuples(spaced, name, spaced, st.just(sign), spaced, held, spaced).map("".join)

    plain = st.sampled_from(often) | st.integers(0, 10**4).map(str)
    regular = st.lists(assigned(named, plain), max_size=4)
    irregular = st.lists(assigned(named | other, st.sampled_from(values)), max_size=1)
    loose = st.lists(st.sampled_from(["", " ", "junk", "# c\n", "/* ; */"]), max_size=1)

    def ad(number: int, parts: tuple[list[str], list[str], list[str]]) -> str:
        key = [f'{quoted("Name")} {sign} "ad{number}"'] if number % 8 else []
        return opening + separator.join([*key, *parts[0], *parts[1], *parts[2]]) + closing

    rows = st.lists(
        st.tuples(regular, st.just([]) | irregular, st.just([]) | st.just([]) | loose), max_size=8
    )
    between = st.sampled_from(
        ["\n", "\n\n", " ", ",", ", ", "", " x\n", "// [\n", "{", "]", "/* */"]
    )
    ends = st.sampled_from(["", "\n", "[", '{"', closing])

    def text(some: list[Any], betweens: list[str], listed: bool, end: str) -> str:
        gaps = [*betweens, *["\n"] * len(some)]
        body = "".join(
            ad(n, each) + gap for (n, each), gap in zip(enumerate(some, 1), gaps, strict=False)
        )
        return ("{" + body + "}" if new else "[" + body + "]") + end if listed else body + end

    usual: st.SearchStrategy[list[str]] = st.just([]) | st.lists(between, max_size=8)
    return st.builds(text, rows, usual, st.booleans(), st.just("") | ends)


def of_kind(form: str, text: str, size: int) -> str:
    """Ads with one attribute that differs in each."""
    held = [text.replace("0", str(1000 + number)) for number in range(size)]
    if form == "new":
        return "\n".join(f"[ Name = {n}; Value = {each}; ]" for n, each in enumerate(held))
    return "\n".join(f'{{"Name": {n}, "Value": {each}}}' for n, each in enumerate(held))


KINDS_OF = {
    "new": ["0", "-0", "0.25", '"t 0"', "a + 0", '"\\"0\\""', "0K", '"\\\\0"',
            "{ 0 }", "[ b = 0 ]"],
    "json": ["0", "-0", "0.25", '"t 0"', '"/0"', '"\\"0\\""', "0E2", '"\\/Expr(a + 0)\\/"',
             '"/Expr(a + 0)/"', "[0]", '{"b": 0}', '{"b": 0, "c": "x0", "d": true, "e": 1}',
             '{"b": 0, "B": 1}', '{"b c": 0}', '{"true": 0}', '{"": 0}', '{"b": "x\\"0"}',
             '{"b": "\\\\0"}', '{"b": "/Expr(c + 0)/"}', '{"b": "\\n0"}', '{"b": -0}',
             '{"b": 0000000000000000}', '{"b": "%s0%"}', '{"b": 0.5}', '{"b": "é0"}',
             '"/Expr(a + 0"', '"/Expr(a == \\"0\\")/"', '"\\u0041"', "0000000000000000"],
}  # fmt: skip
OFTEN = {
    "new": ["1", "2.5", '"a"', "true", "undefined", "a + 1", r'"\"x\""', "Cpus * 2 > Memory + 17"],
    "json": ["1", "2.5", '"a"', "true", "null", r'"\/Expr(a + 1)\/"', r'"\"x\""', '"/home"'],
}
STREAMS = {
    form: bracketed(form, values, OFTEN[form])
    | st.builds(of_kind, st.just(form), st.sampled_from(KINDS_OF[form]), st.integers(0, 12))
    for form, values in (("new", NEW_VALUES), ("json", JSON_VALUES))
}


@pytest.mark.parametrize("name", ["new", "json"])
@given(data=st.data())
@settings(max_examples=cases(150))
def test_a_stream_in_brackets_is_the_pool_of_its_ads(name: str, data: st.DataObject) -> None:
    text = data.draw(STREAMS[name])
    expected = one_by_one(read_ads(io.StringIO(text), name))
    assert outcome(lambda: Pool.read(io.StringIO(text), format=name)) == expected
    theirs: list[ParseError] = []
    ours: list[ParseError] = []
    expected = one_by_one(read_ads(io.StringIO(text), name, errors="report", report=theirs.append))
    found = outcome(
        lambda: Pool.read(io.StringIO(text), format=name, errors="report", report=ours.append)
    )
    assert (found, list(map(str, ours))) == (expected, list(map(str, theirs)))


def test_a_quote_in_a_quoted_name_opens_no_string() -> None:
    text = """[ Name = "n"; a = '"' + 1 // "; b = 2\n; c = 3 ]"""
    [ad] = Pool.read(io.StringIO(text), format="new")
    assert [ad] == list(read_ads(io.StringIO(text), "new"))
    assert "b" not in ad


def test_quotes_within_a_comment_take_no_time_of_each_other() -> None:
    text = '[ Name = "n"; a = 1 // "' + r"\"" * 200_000 + "\n ]"
    assert Pool.read(io.StringIO(text), format="new").keys() == ["n"]
