from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from matchmaker import ClassAd, ParseError, dumps, parse_ad, parse_ads, read_ads, write_ads
from tests.classad.formats.trickle import Trickle

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


ADS = [
    '[ a = 1; b = a + 1; c = "x" ]',
    "[ i = -5; big = 9223372036854775807; small = -9223372036854775807; r = 0.1; w = 2.0 ]",
    '[ inf = real("INF"); minus = real("-INF"); nan = real("NaN"); zero = -0.0; huge = 1e300 ]',
    "[ t = true; f = false; u = undefined; e = error ]",
    '[ l = { 1, "a", { 2.5 }, [ x = y ] }; n = [ a = 1; b = [ c = a ] ]; empty = { } ]',
    r'[ s = "quote \" back \\ line\n tab\t é ☃" ]',
    '[ s = "/Expr(1 + 1)/" ]',
    '[ s = "/Expr(not an expression"; t = "Expr(1)/"; u = "/Expr()/" ]',
    '[ t = absTime("2005-10-03T15:05:00Z"); r = relTime("01:00:00") ]',
    '[ q = member("a/b", other.L) ? f("/Expr(x)/") : [ y = 1 ].y ]',
    "[ 'two words' = 1; 'it\\'s' = 2; 'true' = 3 ]",
    "[ ]",
]


@pytest.mark.parametrize("text", ADS)
def test_written_ads_read_back(text: str) -> None:
    ad = parse_ad(text, "new")
    written = dumps(ad, "json")
    assert parse_ad(written, "json") == ad
    assert isinstance(json.loads(written), dict)


def test_streams_read_back_and_are_json() -> None:
    ads = [parse_ad(text, "new") for text in ADS]
    for count in (0, 1, 2, len(ads)):
        file = io.StringIO()
        assert write_ads(ads[:count], file, "json") == count
        assert len(json.loads(file.getvalue())) == count
        assert list(parse_ads(file.getvalue(), "json")) == ads[:count]
        assert list(read_ads(Trickle(file.getvalue()), "json")) == ads[:count]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("1", "1"),
        ("1.5", "1.5"),
        ("true", "true"),
        ("undefined", "null"),
        ('"x"', '"x"'),
        ("{ 1, a }", r'[1, "\/Expr(a)\/"]'),
        ("a + 1", r'"\/Expr(a + 1)\/"'),
        ("error", r'"\/Expr(error)\/"'),
        ("[ b = c ]", r'{"b": "\/Expr(c)\/"}'),
    ],
)
def test_values_as_json_has_them(value: str, written: str) -> None:
    text = dumps(parse_ad(f"[ v = {value} ]"), "json")
    assert json.loads(text) == json.loads(f'{{"v": {written}}}')


def test_an_expression_is_marked_as_other_readers_know_it() -> None:
    # HTCondor tells an expression from a text by the escaped slashes.
    assert dumps(parse_ad("[ e = a + 1 ]"), "json").count(r'"\/Expr(a + 1)\/"') == 1
    assert dumps(parse_ad('[ e = b == "x" ]'), "json").endswith(r')\/"}')


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('{"a": 1}', 1),
        ('{"a": 1}{"a": 2}', 2),
        ('{"a": 1}\n{"a": 2}\n', 2),
        ('[{"a": 1}, {"a": 2}]', 2),
        ('[\n{"a": 1}\n,\n{"a": 2}\n]\n', 2),
        ("[]", 0),
        ("", 0),
        ("{}", 1),
    ],
)
def test_one_object_several_or_a_list(text: str, count: int) -> None:
    assert len(list(parse_ads(text, "json"))) == count


def test_what_other_writers_write_is_read() -> None:
    ad = parse_ad(
        r'{"s": "\u00e9\n", "e": "\/Expr(a + 1)\/", "p": "/Expr(b)/", "n": null, "r": 1E+02}',
        "json",
    )
    assert ad == parse_ad('[ s = "é\\n"; e = a + 1; p = "/Expr(b)/"; n = undefined; r = 100.0 ]')


def test_the_last_of_duplicates_counts() -> None:
    assert parse_ad('{"Cpus": 1, "cpus": 2}', "json") == ClassAd({"Cpus": 2})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"a": 1', 1),
        ('{"a": }', 1),
        ('{"a": 1}\n{"b" 2}', 2),
        ('[{"a": 1},\n\n {"b": tru}]', 3),
        ("{'a': 1}", 1),
        ("5", 1),
        ('{"a": 1}\n"text"', 2),
        ("null", 1),
        ('{"a": 9223372036854775808}', 1),
        (r'{"a": "\/Expr(1 +)\/"}', 1),
        ('{"a": 1}\n{"a": "\\/Expr(1 2)\\/"}', 2),
        ('{"a": "x', 1),
        ('{"a": ' + "[" * 100_000, 1),
    ],
)
def test_errors_have_their_line(text: str, line: int) -> None:
    with pytest.raises(ParseError) as caught:
        list(parse_ads(text, "json"))
    assert caught.value.line == line
    assert len(caught.value.summary()) < 500


def test_an_endless_number_is_an_error() -> None:
    with pytest.raises(ParseError):
        parse_ad('{"a": ' + "9" * 10_000 + "}", "json")


def test_deep_nesting_is_an_error_and_not_a_crash() -> None:
    deep = '{"a": ' * 5000 + "1" + "}" * 5000
    with pytest.raises(ParseError):
        parse_ad(deep, "json")


@pytest.mark.parametrize("name", ["atlfarm006.ad", "job.jdl"])
def test_the_examples_read_back(name: str) -> None:
    [ad] = read_ads(EXAMPLES / name)
    assert parse_ad(dumps(ad, "json"), "json") == ad


def test_strings_without_end_are_looked_at_once() -> None:
    wrong: list[ParseError] = []
    text = '{"a": "' + '\\"{' * 100_000 + '\n{"a": 1}'
    assert list(parse_ads(text, "json", errors="report", report=wrong.append)) == [ClassAd(a=1)]
    assert [error.line for error in wrong] == [1]
