"""Telling the formats apart, and what is the same for all of them: files, bytes, encodings."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from matchmaker import ClassAd, ParseError, dumps, parse_ad, parse_ads, read_ads, write_ads
from matchmaker.classad.formats import FORMATS

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


class TrickleBytes(io.BytesIO):
    """A file that gives one byte at a time, whatever is asked for."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(1 if size != 0 else 0)


SAMPLE = [
    parse_ad('[ Name = "né ☃"; Cpus = 4; Start = TARGET.x > 1; L = { 1, "a" } ]'),
    parse_ad("[ Cpus = 1 ]"),
]


def written(format_: str, ads: list[ClassAd]) -> str:
    file = io.StringIO()
    write_ads(ads, file, format_)
    return file.getvalue()


def test_the_four_formats() -> None:
    assert FORMATS == ("new", "old", "json", "xml")


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_what_is_written_is_detected(format_: str, count: int) -> None:
    text = written(format_, SAMPLE[:count])
    if count == 0 and format_ == "json":
        assert text.split() == ["[", "]"]  # which is an empty ad in the new format
        return
    assert list(parse_ads(text)) == SAMPLE[:count]
    assert list(read_ads(TrickleBytes(text.encode()))) == SAMPLE[:count]


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("lead", ["", "\n\n", "  \t", "\ufeff"])
def test_space_and_a_byte_order_mark_in_front_do_not_mislead(format_: str, lead: str) -> None:
    text = lead + written(format_, SAMPLE).lstrip()
    if format_ == "xml" and lead.isspace():
        # A declaration may only be the very beginning of XML.
        text = lead + text.partition("?>")[2].lstrip()
    assert list(read_ads(io.BytesIO(text.encode()))) == SAMPLE


@pytest.mark.parametrize(
    ("text", "ads"),
    [
        ("[a = 1]", 1),
        ("// note\n[a = 1]", 1),
        ("/* note */ { [a = 1], [a = 2] }", 2),
        ("# note\na = 1", 1),
        ("a = 1\n\na = 2", 2),
        ("{}", None),
        ('{"a": 1}', 1),
        ('[{"a": 1}]', 1),
        ('[\n  {"a": 1}\n]', 1),
        ("[]", None),
        ("<c/>", 1),
        ('<?xml version="1.0"?><classads/>', 0),
        ("", 0),
        ("\n", 0),
        ("{ [ a = 1 ] }", 1),
        ("[ a = { 1 } ]", 1),
        ("{[a=1],[a=2]}", 2),
    ],
)
def test_signs(text: str, ads: int | None) -> None:
    found = list(parse_ads(text))
    in_pieces = list(read_ads(TrickleBytes(text.encode())))
    assert found == in_pieces
    if ads is not None:
        assert len(found) == ads


@pytest.mark.parametrize("format_", FORMATS)
def test_a_path_a_text_file_and_a_byte_file_give_the_same(format_: str, tmp_path: Path) -> None:
    path = tmp_path / "ads"
    path.write_text(written(format_, SAMPLE), "utf-8")
    assert list(read_ads(path)) == SAMPLE
    assert list(read_ads(str(path), format_)) == SAMPLE
    with path.open("rb") as binary, path.open(encoding="utf-8") as text:
        assert list(read_ads(binary)) == SAMPLE
        assert list(read_ads(text)) == SAMPLE


@pytest.mark.parametrize("format_", FORMATS)
def test_crlf_is_read(format_: str) -> None:
    text = written(format_, SAMPLE).replace("\n", "\r\n")
    assert list(read_ads(io.BytesIO(text.encode()))) == SAMPLE


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("kind", [io.BytesIO, TrickleBytes])
def test_bytes_that_are_no_text_are_an_error_with_their_line(
    format_: str, kind: type[io.BytesIO]
) -> None:
    text = written(format_, [ClassAd({"s": "HERE"})])
    line = text[: text.index("HERE")].count("\n") + 1
    for chosen in (format_, "auto"):
        with pytest.raises(ParseError, match="is not UTF-8") as caught:
            list(read_ads(kind(text.encode().replace(b"HERE", b"\xff")), chosen))
        assert caught.value.line == line


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"\0" * 100, bytes(range(256))])
def test_junk_is_an_error(data: bytes) -> None:
    with pytest.raises(ParseError):
        list(read_ads(io.BytesIO(data)))


def test_text_cut_within_a_character_is_an_error() -> None:
    with pytest.raises(ParseError, match="is not UTF-8"):
        list(read_ads(io.BytesIO('[s = "é"]'.encode()[:7])))


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read_ads(tmp_path / "missing"))
    with pytest.raises(IsADirectoryError):
        list(read_ads(tmp_path))


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown format 'yaml'; there are new, old, json, xml"):
        list(parse_ads("", "yaml"))
    with pytest.raises(ValueError, match="unknown format 'yaml'"):
        dumps(ClassAd(), "yaml")
    with pytest.raises(ValueError, match="unknown format 'auto'"):
        dumps(ClassAd(), "auto")


def test_bytes_are_not_text() -> None:
    with pytest.raises(TypeError, match="text was expected, not bytes"):
        parse_ads(b"[]")  # type: ignore[arg-type]


@pytest.mark.parametrize("format_", FORMATS)
def test_the_talks_ce_goes_through_every_format(format_: str) -> None:
    [ce] = read_ads(EXAMPLES / "atlfarm006.ad")
    text = dumps(ce, format_)
    assert parse_ad(text) == ce
    assert list(read_ads(TrickleBytes(text.encode()), format_)) == [ce]
    inner = parse_ad(text).eval("info")
    assert isinstance(inner, ClassAd)
    # The unquoted name: an expression whose value is undefined, in every format.
    assert (
        str(inner.expr("CloseStorageElements"))
        == '{[ mount = "/mn/SE2"; name = gridftp05.cern.ch ]}'
    )


@pytest.mark.parametrize("format_", FORMATS)
def test_all_examples_go_through_every_format(format_: str) -> None:
    nodes = list(read_ads(EXAMPLES / "nodes.ad"))
    assert list(parse_ads(written(format_, nodes))) == nodes


def test_a_comment_may_lie_across_two_pieces_of_a_file() -> None:
    # Files are read in pieces of 64 KiB; a comment is put astride the first border.
    filler = "[ a = 1 ]\n" * 6553
    for shift in range(12):
        text = filler + " " * shift + "// a comment ]\n[ a = 2 ]\n"
        ads = list(read_ads(io.BytesIO(text.encode())))
        assert len(ads) == 6554
        assert ads[-1].eval("a") == 2


@pytest.mark.parametrize("comment", ["# [\n", "// [\n", "/* [ */", "#\n//\n"])
def test_comments_in_a_list_are_passed_over_however_it_comes(comment: str) -> None:
    text = f'[\n{comment} {{"a": 1}}]'
    assert list(parse_ads(text)) == [ClassAd(a=1)]
    assert list(read_ads(TrickleBytes(text.encode()))) == [ClassAd(a=1)]
