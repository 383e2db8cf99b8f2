from __future__ import annotations

import io
from pathlib import Path

import pytest

from matchmaker import ClassAd, ParseError, dumps, parse_ad, parse_ads, read_ads, write_ads
from matchmaker.classad.formats.old import read
from tests.classad.formats.trickle import Trickle

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def old(text: str) -> ClassAd:
    return parse_ad(text, "old")


STREAMS = [
    ("a = 1", 1),
    ("a = 1\nb = 2\n", 1),
    ("a = 1\n\na = 2", 2),
    ("a = 1\n\n\n \t\na = 2\n\n", 2),
    ("\n\n# a comment\na = 1\n  # another\nb = 2\n\n# alone\n\na = 3", 2),
    ("a = 1\r\nb = 2\r\n\r\na = 3\r\n", 2),
    ("", 0),
    ("\n\n", 0),
    ("# nothing\n", 0),
]


@pytest.mark.parametrize(("text", "count"), STREAMS)
def test_streams(text: str, count: int) -> None:
    assert len(list(parse_ads(text, "old"))) == count
    assert list(read_ads(Trickle(text), "old")) == list(parse_ads(text, "old"))


def test_a_comment_does_not_end_an_ad() -> None:
    assert old("a = 1\n# in between\nb = 2") == parse_ad("[a = 1; b = 2]")


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (r's = "plain"', "plain"),
        (r's = ""', ""),
        (r's = "x\ty"', "x\\ty"),
        (r's = "C:\new\dir"', "C:\\new\\dir"),
        (r's = "say \"hi\" to"', 'say "hi" to'),
        (r's = "a\\b"', "a\\\\b"),
        (r's = "ends in a backslash\"', "ends in a backslash\\"),
        ('s = "ends in a backslash\\"  ', "ends in a backslash\\"),
        (r's = "\"', "\\"),
        (r's = "\"quoted\""', '"quoted"'),
        (r's = "regexp ^\d+\.\w*$"', r"regexp ^\d+\.\w*$"),
        ('s = "a // b"', "a // b"),
        ('s = "a /* b"', "a /* b"),
        ('s = "a=b # c"', "a=b # c"),
        ('s = "héllo"', "héllo"),
    ],
)
def test_strings_know_one_escape(line: str, value: str) -> None:
    assert old(line).eval("s") == value


def test_strings_inside_expressions() -> None:
    ad = old(r'r = strcat("a\b", "\"", "c") == "a\b\"c" && regexp("^\.x", ".x")')
    assert ad.eval("r") is True


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("3a = 1", "3a"),
        ("a.b = 1", "a.b"),
        ("a-b = 1", "a-b"),
        ("_x9 = 1", "_x9"),
        ("  a   =   1  ", "a"),
        ("a=1", "a"),
        ("'two words' = 1", "two words"),
        ("'it\\'s' = 1", "it's"),
        ("true = 1", "true"),
    ],
)
def test_names_are_taken_leniently(line: str, name: str) -> None:
    ad = old(line)
    assert list(ad) == [name]
    assert ad.eval(name) == 1


def test_the_last_of_duplicates_counts_under_the_first_spelling() -> None:
    ad = old("Cpus = 1\nCPUS = 2")
    assert list(ad) == ["Cpus"]
    assert ad.eval("cpus") == 2


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a = ", 1, None),
        ("a", 1, 1),
        ("a = 1\nnonsense", 2, 1),
        ("a = 1\n\nb = 2\nc = 3 4", 4, 7),
        ("a = 1 +", 1, 8),
        ("  a =   *", 1, 9),
        (r'a = "x\y" "z\t" *', 1, 18),
        (r'a = "x\y\z" + )', 1, 15),
        ("= 1", 1, 1),
        ("# c\n\n\n a = 5 b", 4, 8),
        ("a = 1\r\nb = )", 2, 5),
        ("[a = 1]", 1, None),
    ],
)
@pytest.mark.parametrize("kind", [io.StringIO, Trickle])
def test_a_bad_line_is_an_error_with_its_place(
    kind: type[io.StringIO], text: str, line: int, column: int | None
) -> None:
    with pytest.raises(ParseError) as caught:
        list(read_ads(kind(text), "old"))
    assert caught.value.line == line
    if column is not None:
        assert caught.value.column == column


def test_a_bad_line_leaves_nothing_for_the_next_ad() -> None:
    for line in ("NoSign", "NoSign5"):
        with pytest.raises(ParseError):
            parse_ad(f"{line}\nAfterwards = 1\n")


def test_nothing_is_dropped_in_silence() -> None:
    for text in ("a = 1 garbage", "a = 1\nbad line\nb = 2", "a = 1; b = 2"):
        with pytest.raises(ParseError):
            old(text)


ADS = [
    '[ a = 1; b = a + 1; c = "x" ]',
    r'[ s = "back\\slash and \"quotes\"" ]',
    r'[ s = "ends in \\" ]',
    r'[ t = "tab\there" ]',
    "[ 'two words' = 1; 'a.b' = 2; 'true' = 3; 'it\\'s' = 4; '#x' = 5 ]",
    '[ e = member("a", { "a", b.c }) ? [ x = 1 ] : undefined ]',
    '[ t = absTime("2005-10-03T15:05:00Z"); r = relTime("01:00:00"); i = real("-INF") ]',
    "[ u = undefined; e = error; n = -5; x = -0.0; y = 1e300 ]",
    '[ s = "é ☃ // # = [ ] { }" ]',
]


@pytest.mark.parametrize("text", ADS)
def test_written_ads_read_back(text: str) -> None:
    ad = parse_ad(text, "new")
    assert old(dumps(ad, "old")) == ad


def test_streams_read_back() -> None:
    ads = [parse_ad(text, "new") for text in ADS]
    for count in (0, 1, 2, len(ads)):
        file = io.StringIO()
        assert write_ads(ads[:count], file, "old") == count
        assert list(parse_ads(file.getvalue(), "old")) == ads[:count]
        assert list(read_ads(Trickle(file.getvalue()), "old")) == ads[:count]


def test_the_talks_ce_reads_back() -> None:
    [ce] = read_ads(EXAMPLES / "atlfarm006.ad")
    text = dumps(ce, "old")
    assert old(text) == ce
    assert "name = gridftp05.cern.ch" in text


def test_a_name_holds_no_nul() -> None:
    for line in ("'a\0b' = 1", "'\\\0' = 1", "a\0 = 1"):
        with pytest.raises(ParseError, match="not an assignment"):
            old(line)


@pytest.mark.parametrize("part", ["\\'", '\\"', "'", "'\"", '\\" '])
def test_quotes_without_end_are_looked_at_once(part: str) -> None:
    for begun in ("'", '"', ""):
        wrong: list[ParseError] = []
        text = f"x = {begun}{part * 100_001}\ny = 1"
        [ad] = parse_ads(text, "old", errors="report", report=wrong.append)
        assert ("x" in ad) is not bool(wrong)
        assert ad.eval("y") == 1


def test_a_string_without_end_is_said_to_be_one() -> None:
    for text in ('"abc', 'strcat("a", "b \\" c)', 'x + "\\" \\"\\" y'):
        with pytest.raises(ParseError, match="unexpected '\"'") as caught:
            old(f"x = {text}")
        assert caught.value.hint == "this string is not closed"


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_a_file_of_histories_has_lines_between_its_ads(size: int) -> None:
    text = (
        'Cmd = "a"\n*** Offset = 0 ClusterId = 1 ProcId = 0 Owner = "ada" CompletionDate = 17\n'
        'Cmd = "b *** c"\r\nExitCode = 1\r\n*** Offset = 9 ClusterId = 2\r\nCmd = \n*** Offset = 99'
    )
    wrong: list[ParseError] = []
    pieces = iter([text[at : at + size] for at in range(0, len(text), size)])
    ads = [dict(ad) for ad in read(pieces, wrong.append)]
    assert ads == [{"Cmd": "a"}, {"Cmd": "b *** c", "ExitCode": 1}]
    assert [error.line for error in wrong] == [6]
