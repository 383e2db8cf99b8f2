from __future__ import annotations

import io
from pathlib import Path

import pytest

from matchmaker import ClassAd, ParseError, dumps, parse_ad, parse_ads, read_ads, write_ads
from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from tests.classad.formats.trickle import Trickle
from tests.limits import fields

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


STREAMS = [
    ("[a = 1]", 1),
    ("[a = 1] [a = 2]", 2),
    ("[a = 1][a = 2]", 2),
    ("{ [a = 1], [a = 2], [a = 3] }", 3),
    ("{[a=1],[a=2]}", 2),
    ("[a = 1];\n[a = 2];\n", 2),
    ("// before\n[a = 1] // between ]\n/* [a = 9] */ [a = 2] // after", 2),
    ('[a = "]"] [a = "\\"]"] [a = 3]', 3),
    ("['a]' = 1; b = 2] [b = 3]", 2),
    ("[a = [b = [c = 1]]] [a = {[b = 2]}]", 2),
    ("[a = x[1]] [a = 2]", 2),
    ("[a = /* ] */ 1] [a = 4 / 2] [ a = 3 // ]\n]", 3),
    ("[]", 1),
    ("[][]", 2),
    ("[ ]\n\n\n[ ]", 2),
    ("", 0),
    ("  \n // nothing\n /* at all */", 0),
    ("{ }", 0),
]


@pytest.mark.parametrize(("text", "count"), STREAMS)
def test_streams(text: str, count: int) -> None:
    assert len(list(parse_ads(text, "new"))) == count


@pytest.mark.parametrize("text", [text for text, _ in STREAMS])
def test_a_stream_in_small_pieces_is_the_same_stream(text: str) -> None:
    assert list(read_ads(Trickle(text), "new")) == list(parse_ads(text, "new"))


def test_the_examples_in_small_pieces() -> None:
    for name in ("atlfarm006.ad", "job.jdl"):
        text = (EXAMPLES / name).read_text()
        assert list(read_ads(Trickle(text))) == list(parse_ads(text))


def test_ads_come_one_by_one() -> None:
    # The second ad is wrong; the first has been given by then.
    ads = parse_ads("[a = 1] [a = ]")
    assert next(ads).eval("a") == 1
    with pytest.raises(ParseError):
        next(ads)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("[a = ]", 1, 6),
        ("[a = 1]\n[b = 2 3]", 2, 8),
        ("[a = 1] [b = 2 3]", 1, 16),
        ("[\n  a = 1;\n  b = *\n]", 3, 7),
        ("[a = 1]\n\n   [b = 2;\n c = )]", 4, 6),
        ("// x\n/* y\n */ [a = +]", 3, 11),
        ("[a = 1", 1, 7),
        ("[a = 1]\n[b = 2", 2, 7),
        ('[a = "x]', 1, 6),
        ("[a = 1] x = 2", 1, 9),
        ("{ [a = 1], 5 }", 1, 12),
        ("[a = 1] ]", 1, 9),
        ("[a = {1, 2]", 1, 11),
    ],
)
@pytest.mark.parametrize("kind", [io.StringIO, Trickle])
def test_errors_have_their_place_in_the_stream(
    kind: type[io.StringIO], text: str, line: int, column: int
) -> None:
    with pytest.raises(ParseError) as caught:
        list(read_ads(kind(text), "new"))
    assert (caught.value.line, caught.value.column) == (line, column)


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.ad"
    path.write_text("[a = 1]\n[b = 2 3]")
    with pytest.raises(ParseError) as caught:
        list(read_ads(path))
    assert str(caught.value).startswith(f"{path}, line 2, column 8: ")
    assert caught.value.summary().count("\n") == 0


def test_one_ad_is_one_ad() -> None:
    assert parse_ad("[a = 1]").eval("a") == 1
    with pytest.raises(ParseError, match="no ad"):
        parse_ad("// nothing", "new")
    with pytest.raises(ParseError, match="more than one"):
        parse_ad("[a = 1] [a = 2]")


def test_an_ad_that_never_ends_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.StringIO):
        def read(self, size: int | None = -1, /) -> str:
            return "[" + "a" * 999

    monkeypatch.setitem(fields(LIMITS), "text", 100_000)
    with pytest.raises(ParseError, match="goes on for over"):
        list(read_ads(Endless(), "new"))


def test_written_ads_read_back() -> None:
    ads = [
        parse_ad("[a = 1; b = a + 1]"),
        ClassAd(),
        parse_ad('[s = "x;]\\n\\""; t = { [ u = 1 ] }]'),
    ]
    for count in range(len(ads) + 1):
        file = io.StringIO()
        assert write_ads(ads[:count], file, "new") == count
        assert list(parse_ads(file.getvalue(), "new")) == ads[:count]


def test_an_ad_is_written_on_one_line() -> None:
    assert dumps(parse_ad('[\n a = 1;\n b = "x\ny" ]')) == '[ a = 1; b = "x\\ny" ]'
    assert dumps(ClassAd()) == "[ ]"


def test_the_talks_ce_reads_back_and_prints_stably() -> None:
    [ce] = read_ads(EXAMPLES / "atlfarm006.ad")
    text = dumps(ce)
    assert parse_ad(text) == ce
    assert dumps(parse_ad(text)) == text
    assert "name = gridftp05.cern.ch" in text


@pytest.mark.parametrize("depth", range(8))
@pytest.mark.parametrize("form", ["new", "json"])
def test_an_ad_ends_where_its_brackets_do_however_deep_they_nest(depth: int, form: str) -> None:
    text = "1"
    for level in range(depth):
        text = f'{{ {text}, "]}}" }}' if level % 2 else f"[ a = {text}; b = '}}' ]"
    ads = [parse_ad(f"[ Held = {text}; Number = {number} ]") for number in range(3)]
    stream = "\n".join(dumps(ad, form) for ad in ads)
    assert list(parse_ads(stream, form)) == ads
