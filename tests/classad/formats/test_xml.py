from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from matchmaker import ClassAd, ParseError, dumps, parse_ad, parse_ads, read_ads, write_ads
from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from tests.classad.formats.trickle import Trickle
from tests.limits import fields

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


ADS = [
    '[ a = 1; b = a + 1; c = "x" ]',
    '[ i = -5; r = 0.1; w = 2.0; inf = real("INF"); nan = real("NaN"); zero = -0.0 ]',
    "[ t = true; f = false; u = undefined; e = error ]",
    '[ l = { 1, "a", { 2.5 }, [ x = y ] }; n = [ a = 1; b = [ c = a ] ]; empty = { } ]',
    r'[ s = "<tag> & \"quote\" \\ it\'s ]]> é ☃"; plain = ""; space = "  two  " ]',
    r'[ s = "line\nbreak"; t = "tab\t"; bell = "\007"; r = "a\rb" ]',
    '[ t = absTime("2005-10-03T15:05:00Z"); r = relTime("01:00:00") ]',
    '[ q = member("a", other.L) && x < 5 ? "<" : [ y = 1 ].y ]',
    "[ 'two words' = 1; 'it\\'s' = 2; '<&\"' = 3 ]",
    "[ ]",
]


@pytest.mark.parametrize("text", ADS)
def test_written_ads_read_back(text: str) -> None:
    ad = parse_ad(text, "new")
    assert parse_ad(dumps(ad, "xml"), "xml") == ad


def test_names_with_a_line_break_read_back() -> None:
    ad = ClassAd({"two\nlines": 1, "tab\tbed": 2})
    assert parse_ad(dumps(ad, "xml"), "xml") == ad


def test_streams_read_back_and_are_xml() -> None:
    ads = [parse_ad(text, "new") for text in ADS]
    for count in (0, 1, 2, len(ads)):
        file = io.StringIO()
        assert write_ads(ads[:count], file, "xml") == count
        root = ET.fromstring(file.getvalue())  # noqa: S314 - our own text
        assert [child.tag for child in root] == ["c"] * count
        assert list(parse_ads(file.getvalue(), "xml")) == ads[:count]
        assert list(read_ads(Trickle(file.getvalue()), "xml")) == ads[:count]


def test_what_other_writers_write_is_read() -> None:
    text = """<?xml version="1.0"?>
    <!DOCTYPE classads SYSTEM "classads.dtd">
    <classads>
    <c>
        <a n="MyType"><s>Machine</s></a>
        <a n="Cpus"><i>4</i></a>
        <a n="Load"><r>1.500000000000000E+00</r></a>
        <a n="Up"><b v="t"/></a>
        <a n="Down"><b v="f"/></a>
        <a n="Nothing"><un/></a>
        <a n="Wrong"><er/></a>
        <a n="Start"><e>TARGET.Owner == "ana" &amp;&amp; Cpus &gt; 2</e></a>
        <a n="L"><l><i>1</i><s>a</s><l/></l></a>
        <a n="N"><c><a n="x"><i>1</i></a></c></a>
        <a n="Empty"><s/></a>
    </c>
    </classads>
    """
    assert parse_ad(text, "xml") == parse_ad(
        '[ MyType = "Machine"; Cpus = 4; Load = 1.5; Up = true; Down = false; Nothing = undefined;'
        ' Wrong = error; Start = TARGET.Owner == "ana" && Cpus > 2; L = { 1, "a", { } };'
        ' N = [ x = 1 ]; Empty = "" ]'
    )


def test_one_ad_without_a_frame_is_read() -> None:
    assert parse_ad('<c><a n="x"><i>1</i></a></c>', "xml") == ClassAd({"x": 1})


def test_the_last_of_duplicates_counts() -> None:
    text = '<c><a n="X"><i>1</i></a><a n="x"><i>2</i></a></c>'
    assert parse_ad(text, "xml") == ClassAd({"X": 2})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<classads>", "not XML"),
        ('<classads><c><a n="x"><i>1</i></a></c>', "not XML"),
        ("<classads></c>", "not XML"),
        ('<c><a n="x"><i>1 2</i></a></c>', "unexpected"),
        ('<c><a n="x"><e>1 +</e></a></c>', "ends too early"),
        ('<c><a n="x"><i>9223372036854775808</i></a></c>', "64 bits"),
        ('<c><a n="x"><z/></a></c>', "unknown element <z>"),
        ("<c><a><i>1</i></a></c>", "<a> in <c>"),
        ('<c><a n=""><i>1</i></a></c>', "<a> in <c>"),
        ('<c><a n="x"/></c>', "<a> in <c>"),
        ('<c><a n="x"><i>1</i><i>2</i></a></c>', "<a> in <c>"),
        ("<c><i>1</i></c>", "<i> in <c>"),
    ],
)
def test_what_is_no_ad_is_an_error(text: str, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        parse_ad(text, "xml")


@pytest.mark.parametrize(
    "text", ["<html><body>an error page</body></html>", "<ads><ad/></ads>", "<s>text</s>"]
)
def test_a_document_of_another_kind_is_an_error_and_not_a_stream_of_none(text: str) -> None:
    with pytest.raises(ParseError):
        list(parse_ads(text, "xml"))


def test_errors_have_their_line() -> None:
    text = '<classads>\n<c><a n="x"><i>1</i></a></c>\n<c>\n</x></classads>'
    with pytest.raises(ParseError) as caught:
        list(parse_ads(text, "xml"))
    assert (caught.value.line, caught.value.column) == (4, 3)


SWELLING = """<?xml version="1.0"?>
<!DOCTYPE c [ <!ENTITY a "aaaaaaaaaa"> <!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"> ]>
<c><a n="x"><s>&b;</s></a></c>"""


@pytest.mark.parametrize("kind", [io.StringIO, Trickle])
def test_entities_are_refused(kind: type[io.StringIO]) -> None:
    with pytest.raises(ParseError, match="entity declarations"):
        list(read_ads(kind(SWELLING), "xml"))


def test_deep_nesting_is_an_error_and_not_a_crash() -> None:
    deep = '<c><a n="x">' + "<l>" * 20_000 + "</l>" * 20_000 + "</a></c>"
    with pytest.raises(ParseError):
        parse_ad(deep, "xml")


def test_ads_come_one_by_one() -> None:
    text = '<classads><c><a n="x"><i>1</i></a></c>\n<c><a n="x"><z/></a></c></classads>'
    ads = read_ads(Trickle(text), "xml")
    assert next(ads).eval("x") == 1
    with pytest.raises(ParseError):
        next(ads)


@pytest.mark.parametrize("name", ["atlfarm006.ad", "job.jdl"])
def test_the_examples_read_back(name: str) -> None:
    [ad] = read_ads(EXAMPLES / name)
    assert parse_ad(dumps(ad, "xml"), "xml") == ad


@pytest.mark.parametrize("kind", [io.StringIO, Trickle])
def test_default_values_of_attributes_are_refused(kind: type[io.StringIO]) -> None:
    """A default is written once, and would be there as often as its element."""
    text = f'<!DOCTYPE c [<!ATTLIST a n CDATA "{"x" * 1000}">]><c><a><i>1</i></a></c>'
    with pytest.raises(ParseError, match="attribute declarations"):
        list(read_ads(kind(text), "xml"))


@pytest.mark.parametrize("begun", ['<c><a n="', "<c><!--", "<c><?a ", "<!DOCTYPE c [<!--"])
def test_a_tag_without_end_is_not_kept_for_ever(
    begun: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fields(LIMITS), "text", 1 << 20)

    class Endless(io.StringIO):
        """A file of which the beginning is read, and then ever the same."""

        count = 0

        def read(self, size: int | None = -1, /) -> str:
            self.count += 1
            assert self.count < 1000, "read for ever"
            return begun if self.count == 1 else " " * 65_536

    with pytest.raises(ParseError, match="a tag or comment of over"):
        list(read_ads(Endless(), "xml"))


def test_long_attributes_count_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fields(LIMITS), "text", 10_000)
    element = f'<a n="{"x" * 1000}"><i>1</i></a>'
    assert len(parse_ad(f"<c>{element}</c>", "xml")) == 1
    wrong: list[ParseError] = []
    text = f"<c>{element * 20}</c>"
    assert list(parse_ads(text, "xml", errors="report", report=wrong.append)) == []
    assert ["an ad goes on" in error.message for error in wrong] == [True]


@pytest.mark.parametrize(
    ("written", "text"),
    [(r"a\\b", r"a\b"), (r"a\"b", 'a"b'), ('a"b', 'a"b'), (r"a\nb", "a\nb"), (r"\101", "A"),
     (r"\d", "d"), ("a\\", "a\\")],
)  # fmt: skip
def test_a_string_has_the_backslashes_that_it_has_between_quotes(written: str, text: str) -> None:
    # As condor_status reads it, and prints it with -xml.
    ad = parse_ad(f'<c><a n="A"><s>{written}</s></a></c>', format="xml")
    assert ad.eval("A") == text


def test_a_backslash_is_written_as_two() -> None:
    assert r"<s>C:\\temp</s>" in dumps(ClassAd({"Dir": r"C:\temp"}), format="xml")


def test_a_string_with_a_nul_is_an_error_there_too() -> None:
    with pytest.raises(ParseError, match="cannot hold"):
        parse_ad(r'<c><a n="A"><s>a\0b</s></a></c>', format="xml")
