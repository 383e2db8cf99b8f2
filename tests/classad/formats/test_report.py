"""``errors='report'``: what is wrong is told with its place and left out; the rest is read."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from matchmaker import ClassAd, ParseError, parse_ads, read_ads
from matchmaker.classad.formats import FORMATS
from tests.classad.formats.trickle import Trickle

pytestmark = pytest.mark.slow


def found(text: str, format_: str = "auto") -> tuple[list[object], list[int]]:
    """The values of ``a`` in the ads of a text, and the lines of what is wrong in it."""
    wrong: list[ParseError] = []
    ads = list(parse_ads(text, format_, errors="report", report=wrong.append))
    again: list[ParseError] = []
    assert list(read_ads(Trickle(text), format_, errors="report", report=again.append)) == ads
    assert [error.line for error in again] == [error.line for error in wrong]
    with pytest.raises(ParseError) as caught:
        list(parse_ads(text, format_))
    assert caught.value.line
    return [ad.eval("a") for ad in ads], [error.line for error in wrong]


def test_a_bad_line_of_the_old_format_is_left_out() -> None:
    wrong: list[ParseError] = []
    text = "a = 1\nb = 2 GB\nc = 3\n\nnonsense\n\na = 2\n"
    ads = list(parse_ads(text, "old", errors="report", report=wrong.append))
    assert ads == [ClassAd({"a": 1, "c": 3}), ClassAd({"a": 2})]
    assert [(error.line, error.column) for error in wrong] == [(2, 7), (5, 1)]


@pytest.mark.parametrize(
    ("text", "values", "lines"),
    [
        ("[a = 1]\n[a = ]\n[a = 3]", [1, 3], [2]),
        ("{ [a = 1], [a = ], [a = 3] }", [1, 3], [1]),
        # Ads within a bad ad are none of the stream's.
        ("[a = {\n[ a = 5 ] };\nb = ]\n[a = 3]", [3], [3]),
        # Where no bracket closes an ad the next one begins a line.
        ("[a = 1\n[a = 2]\n[a = 3]", [2, 3], [2]),
        ('[a = 1]\n[a = "2]\n[a = 3]\n[a = 4]', [1, 3, 4], [2]),
        ("[a = 1; b = /* ]\n[a = 2]\n[a = 3]", [2, 3], [1]),
        ("[a = 1]\njunk\n[a = 3] junk", [1, 3], [2, 3]),
        ("[a = 1] ]\n[a = 2]", [1, 2], [1]),
        ("{ [a = 1],\n[a = 2]", [1, 2], [1]),
        ("[a = 1] }\n[a = 2]", [1, 2], [1]),
        ("[a = 1] /* { */ // {\n}\n[a = 2]", [1, 2], [2]),
        ("[a = 1] {}}}\n}{\n[a = 2] }", [1, 2], [1, 2]),
        ("// {\n\n{ [a = 1]", [1], [3]),
    ],
)
def test_a_bad_ad_of_the_new_format_is_left_out(
    text: str, values: list[object], lines: list[int]
) -> None:
    assert found(text, "new") == (values, lines)


@pytest.mark.parametrize(
    ("text", "values", "lines"),
    [
        ('{"a": 1}\n{"a": }\n{"a": 3}', [1, 3], [2]),
        ('[{"a": 1}, {"a": tru}, {"a": 3}]', [1, 3], [1]),
        ('{"a": 1}\n{"a": 2\n{"a": 3}\n{"a": 4}', [1, 3, 4], [3]),
        ('{"a": 1}\n{"a": "2}\n{"a": 3}', [1, 3], [2]),
        ('{"a": 1}\n5\n{"a": 3}', [1, 3], [2]),
        ('{"a": "\\/Expr(1 +)\\/"}\n{"a": 3}', [3], [1]),
        ('{"a": 9223372036854775808}\n{"a": 3}', [3], [1]),
        ('{"a": "\\u0000"}\n{"a": "\\ud800"}\n{"": 1}\n{"a": 3}', [3], [1, 2, 3]),
        ('[{"a": 1},\n{"a": 2}', [1, 2], [1]),
    ],
)
def test_a_bad_object_is_left_out(text: str, values: list[object], lines: list[int]) -> None:
    assert found(text, "json") == (values, lines)


def test_a_bad_ad_of_xml_is_left_out() -> None:
    text = """<classads>
<c><a n="a"><i>1</i></a></c>
<c><a n="b"><z/></a></c>
<c><a n="a"><e>1 +</e></a><a n="b"><c><a n="x"><i>2</i></a></c></a></c>
<c><a n="a"><b v="x"/></a></c>
<c>text</c>
<d/>
<c><a n="a"><i>2</i></a></c>
</classads>"""
    assert found(text) == ([1, 2], [3, 4, 5, 6, 7])


def test_text_of_xml_that_is_none_of_an_ad_is_told_with_its_line() -> None:
    assert found("<classads>\n\ntext\n<c><a n='a'><i>1</i></a></c></classads>") == ([], [3])


def test_ads_of_xml_before_a_bad_byte_are_read() -> None:
    data = b"\n<classads><c><a n='a'><i>1</i></a></c>\n<c>\xff</c></classads>"
    wrong: list[ParseError] = []
    ads = list(read_ads(io.BytesIO(data), errors="report", report=wrong.append))
    assert ads == [ClassAd({"a": 1})]
    assert [error.summary() for error in wrong] == ["line 3: byte 0xff is not UTF-8 text"]


def test_a_byte_order_mark_may_come_alone() -> None:
    assert list(read_ads(Trickle("\ufeff[ a = 1 ]"))) == [ClassAd({"a": 1})]


def test_behind_broken_xml_nothing_is_read_and_that_is_reported() -> None:
    text = '<classads>\n<c><a n="a"><i>1</i></a></c>\n<c></d>\n<c><a n="a"><i>2</i></a></c>'
    assert found(text, "xml") == ([1], [3])


@pytest.mark.parametrize("format_", FORMATS)
def test_bytes_that_are_no_text_are_reported(format_: str, tmp_path: Path) -> None:
    path = tmp_path / "ads"
    text = {
        "new": b'[a = 1]\n[a = "\xff"]\n[a = 3]',
        "old": b'a = 1\n\nb = "\xff"\na = 2\n\na = 3',
        "json": b'{"a": 1}\n{"a": "\xff"}\n{"a": 3}',
        "xml": b'<classads>\n<c><a n="a"><s>\xff</s></a></c></classads>',
    }[format_]
    path.write_bytes(text)
    wrong: list[ParseError] = []
    ads = list(read_ads(path, errors="report", report=wrong.append))
    assert [ad.eval("a") for ad in ads] == {"old": [1, 2, 3], "xml": []}.get(format_, [1, 3])
    assert [error.message for error in wrong] == ["byte 0xff is not UTF-8 text"]
    assert wrong[0].source == str(path)
    assert wrong[0].line == (3 if format_ == "old" else 2)


@pytest.mark.parametrize("kind", ["[a = 1\n", '[a = "\n', "[a = /*\n", "[a = 1]]\n", "]\n", "[[\n"])
def test_a_stream_of_nothing_but_faults_comes_to_an_end(kind: str) -> None:
    count = 3000
    wrong: list[ParseError] = []
    assert list(parse_ads(kind * count, "new", errors="report", report=wrong.append)) == [] or (
        kind == "[a = 1]]\n"
    )
    assert len(wrong) >= count // 3


def test_errors_and_report_go_together() -> None:
    with pytest.raises(ValueError, match="go together"):
        parse_ads("", errors="report")
    with pytest.raises(ValueError, match="go together"):
        read_ads("x", report=print)
    with pytest.raises(ValueError, match="'strict' or 'report', not 'ignore'"):
        parse_ads("", errors="ignore")  # type: ignore[arg-type]


def test_what_a_report_raises_ends_the_reading() -> None:
    def stop(error: ParseError) -> None:
        raise KeyError(error.line)

    with pytest.raises(KeyError, match="2"):
        list(parse_ads("a = 1\nb", "old", errors="report", report=stop))
