"""Both tiers of reading give equal ads: what the patterns take, the grammar reads alike."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, ParseError
from matchmaker.classad import scanner
from matchmaker.classad.formats.old import _read_lines, read
from matchmaker.classad.parser import MAX_TEXT, parse_ad_expr, parse_expr
from matchmaker.classad.scanner import PLAIN_LINES, read_flat_ad
from tests import strategies

spaces = st.sampled_from(["", " ", "\n", "\t ", " // no ]\n", "/* ; */"])
names = st.sampled_from(["a", "A", "Cpus", "cpus", "x1", "true", "is", "'a b'", "ä", "1a", ""])
fragments = st.sampled_from(
    ["1", "-5", "007", "1.5", "1.", ".5", "1e3", "9223372036854775807", "9223372036854775808",
     '"x"', '"a;b"', '"a]b"', '"q\\"r"', '"\\\\"', '"\n"', '"open', "true", "FALSE", "undefined",
     "error", "a", "a + 1", 'b == "x;y" && c', "{1, 2}", "[z = 1]", "x[0]", "a ? b : c", "a/2",
     "a//2", "a/*c*/b", "'q;r'", "= 1", "1 2", "", '"a" "b"', 'real("INF")', "\0", "é", "a ?: -1",
     "0", "00", "٣", '"é"']
)  # fmt: skip


@st.composite
def lists(draw: st.DrawFn) -> str:
    """Lists, most of them of plain values; some are spoiled."""
    parts = draw(st.lists(st.tuples(spaces, fragments, spaces), max_size=4))
    comma = draw(st.sampled_from([",", ",", ",", " ", ",,"]))
    before, after = (
        draw(st.sampled_from(["{", "{", " {", "{,"])),
        draw(st.sampled_from(["}", ",}", "} ", "", "}}"])),
    )
    return before + comma.join(a + item + b for a, item, b in parts) + after


values = fragments | lists() | strategies.expressions(max_leaves=4).map(str)


@st.composite
def flat_ads(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.tuples(spaces, names, spaces, spaces, values, spaces), max_size=5))
    text = ";".join(f"{a}{n}{b}={c}{v}{d}" for a, n, b, c, v, d in parts)
    end = draw(st.sampled_from(["", ";", ";;", " ; "]))
    before, after = draw(st.sampled_from(["", " ", "\n"])), draw(st.sampled_from(["", " ", "x"]))
    return f"{before}[{text}{end}]{after}"


def by_grammar(text: str) -> ClassAd | None:
    try:
        return ClassAd.from_expression(parse_ad_expr(text))
    except ParseError:
        return None


@settings(max_examples=800)
@given(flat_ads() | st.text("[];=ab1\"'/ .{}", max_size=20).map(lambda t: f"[{t}]"))
def test_a_flat_ad_is_what_the_grammar_reads(text: str) -> None:
    ad = read_flat_ad(text)
    if ad is not None:
        read = by_grammar(text)
        assert read is not None
        assert ad == read
        assert list(ad) == list(read)


@settings(max_examples=800)
@given(lists() | st.text('{},1-. "at', max_size=12).map(lambda text: f"{{{text}}}"))
def test_a_plain_list_is_what_the_grammar_reads(text: str) -> None:
    found = scanner._plain_list(text.strip())
    if found is not None:
        assert found is parse_expr(text)


def test_plain_lists_need_no_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> None:
        raise AssertionError(f"the grammar was asked for {text!r}")

    monkeypatch.setattr(scanner, "parse_expr", refuse)
    text = ", ".join(f'{number}, -{number}.25, "host{number};x", TRUE' for number in range(2000))
    for ad in (
        read_flat_ad(f"[ l = {{ {text} }}; one = {{1}} ]"),
        *read(iter([f"l = {{{text}}}\n"])),
    ):
        assert ad is not None
        held = ad.eval("l")
        assert isinstance(held, list)
        assert len(held) == 8000
        assert held[-4:] == [1999, -1999.25, "host1999;x", True]


def test_a_list_of_too_many_characters_is_for_the_grammar_to_refuse() -> None:
    text = "{" + "1," * (MAX_TEXT // 2) + "1}"
    assert scanner._plain_list(text) is None


def test_the_first_tier_takes_plain_ads() -> None:
    assert read_flat_ad('[ A = 1; b = "x;]"; c = a + B / 2; ]') is not None
    assert read_flat_ad("[ a = 1; A = 2 ]") is None
    assert read_flat_ad("[ a = [ b = 1 ] ]") is None


def test_the_first_tier_takes_any_spelling_and_semicolons_in_strings() -> None:
    first, second = read_flat_ad('[ Spelled = 1; Also = "x" ]'), read_flat_ad("[ SPELLED = 2 ]")
    assert first is not None
    assert second is not None
    assert (list(first), list(second)) == (["Spelled", "Also"], ["SPELLED"])
    both = '[ spelled = 2; Also = "y;z"; e = "\\";" ]'
    assert read_flat_ad(both) == by_grammar(both)
    assert list(read_flat_ad(both) or ()) == ["spelled", "Also", "e"]
    assert read_flat_ad('[ a = "x; b = 1 ]') is None


old_values = values | st.sampled_from(['"x\\ty"', '"x\\"', '"x" // c', "1 # c"])


@st.composite
def old_blocks(draw: st.DrawFn) -> str:
    lines = st.tuples(
        st.sampled_from(["", " ", "\t"]), names, st.sampled_from(["", " "]), old_values
    ).map(lambda parts: f"{parts[0]}{parts[1]}{parts[2]}={parts[3]}")
    odd = st.sampled_from(["", " ", "# note", "junk", "a = 1\r"])
    return "\n".join(draw(st.lists(lines | lines | odd, max_size=5)))


def outcome(ads: Iterator[ClassAd]) -> list[tuple[str, list[str]]] | str:
    """What is read, each ad as text and with its spellings, or the error that ends it."""
    try:
        return [(str(ad), list(ad)) for ad in ads]
    except ParseError as error:
        return str(error)


@settings(max_examples=800)
@given(old_blocks())
def test_old_lines_are_what_the_slow_way_reads(text: str) -> None:
    slow = outcome(_read_lines(text.split("\n"), 1))
    assert outcome(read(iter([text]))) == slow
    assert outcome(read(iter(text))) == slow


def test_known_lines_are_taken_from_the_table() -> None:
    read_ads = list(read(iter(['Some = 1\nText = "x"\n\nsome = 2\n'])))
    assert [list(ad) for ad in read_ads] == [["Some", "Text"], ["some"]]
    assert PLAIN_LINES["Some = 1"] == ("some", 1)
    assert PLAIN_LINES['Text = "x"'] == ("text", "x")
    with pytest.raises(ParseError):
        PLAIN_LINES["some = 2"]
