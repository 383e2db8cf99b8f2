"""What is hard to write, format by format, and what HTCondor makes of it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from matchmaker import ClassAd, ParseError, dumps, parse_ad, parse_ads, read_ads, write_ads
from matchmaker.classad.formats import FORMATS
from matchmaker.classad.nodes import Call, Literal

HARD = [
    "two\nlines", "a\rb", "\r\n", "back\\", "\\", 'q"\\', "\\\n", '\\"', "x\ty", "\x01\x7f",
    "\ufffe\uffff", "\x85\u2028", "/Expr(1)/", "/Expr()/", 'eval( "\\"x\\"" )', "<s>&amp;]]>", "",
]  # fmt: skip


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("text", HARD)
def test_hard_strings_read_back(format_: str, text: str) -> None:
    ad = ClassAd(
        {"s": text, "e": Call("f", (Literal(text), Literal("y"))), "l": [text, {"n": text}]}
    )
    assert parse_ad(dumps(ad, format_), format_) == ad


@pytest.mark.oracle
@pytest.mark.parametrize("text", [text for text in HARD if text.isascii()])
def test_htcondor_evaluates_what_the_old_format_cannot_say(text: str) -> None:
    classad2 = pytest.importorskip("classad2")
    ad = ClassAd({"s": Literal(text), "e": Call("strcat", (Literal(text), Literal("y")))})
    [read] = classad2.parseAds(dumps(ad, "old") + "\n")
    assert (read.eval("s"), read.eval("e")) == (text, text + "y")


def test_the_old_format_of_hard_strings() -> None:
    ad = parse_ad(r'[ a = "two\nlines"; b = "tail\\"; c = f("tail\\", "it") ]')
    assert dumps(ad, "old").split("\n") == [
        r'a = eval( "\"two\nlines\"" )',
        r'b = "tail\"',
        r'c = f(eval( "\"tail\134\"" ), "it")',
    ]


@pytest.mark.parametrize(
    "text", ['eval("\\"x\\"")', 'eval("1")', "eval( x )", 'MyEval( "\\"x\\"" )']
)
def test_other_calls_of_eval_stay_calls(text: str) -> None:
    ad = parse_ad(f"a = {text}", "old")
    assert isinstance(ad["a"], Call)
    assert parse_ad(dumps(ad, "old"), "old") == ad


def test_an_error_behind_such_a_string_has_its_column() -> None:
    with pytest.raises(ParseError) as caught:
        parse_ad('a = eval( "\\"x\\n\\"" ) + )', "old")
    assert caught.value.column == 25


def test_ads_without_attributes_are_kept() -> None:
    ads = [ClassAd(), ClassAd({"a": 1}), ClassAd(), ClassAd()]
    for format_ in FORMATS:
        file = io.StringIO()
        write_ads(ads, file, format_)
        assert list(parse_ads(file.getvalue(), format_)) == ads


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize(
    ("ad", "message"),
    [
        (ClassAd({"s": "a\0b"}), r"s: no format can hold the character \\0"),
        (ClassAd({"s": "\ud800"}), r"s: no format can hold U\+D800, half of a surrogate pair"),
        (ClassAd({"s": "\ufffe\ud800"}), r"U\+D800"),
        (ClassAd({"a\0": 1}), "no format can hold"),
        (ClassAd({"": 1}), "no format can hold a name of no characters"),
        (ClassAd({"x": {"": 1}}), "x: no format can hold a name of no characters"),
        (ClassAd({"\udfff": 1}), r"U\+DFFF"),
    ],
)  # fmt: skip
def test_what_no_format_can_hold_is_refused(format_: str, ad: ClassAd, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dumps(ad, format_)


@pytest.mark.parametrize("format_", FORMATS)
def test_what_is_nested_too_deep_to_be_read_is_not_written(format_: str) -> None:
    ad = ClassAd({"a": 1})
    for _ in range(198):
        ad = ClassAd({"a": [ad["a"]]})
    assert parse_ad(dumps(ad, format_), format_) == ad
    for _ in range(2):
        ad = ClassAd({"a": [ad["a"]]})
    with pytest.raises(ValueError, match="at most 200 is read back"):
        dumps(ad, format_)


def test_a_path_is_written_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "ads"
    assert write_ads([ClassAd({"a": 1})], path, "old") == 1
    assert path.read_text() == "a = 1\n"
    # From the file itself, in another format.
    assert write_ads(read_ads(path), str(path), "json") == 1
    assert path.read_text() == '[\n{"a": 1}\n]\n'
    with pytest.raises(ValueError, match="no format"):
        write_ads([ClassAd({"a": 1}), ClassAd({"a": "\0"})], path)
    assert path.read_text() == '[\n{"a": 1}\n]\n'
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError, match="missing"):
        write_ads([], tmp_path / "missing" / "out")
