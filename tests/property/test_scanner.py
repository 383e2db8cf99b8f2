"""Both tiers of reading give equal ads: what the patterns take, the grammar reads alike."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ClassAd, ParseError
from matchmaker.classad.formats.old import _read_lines
from matchmaker.classad.parser import parse_ad_expr
from matchmaker.classad.scanner import read_flat_ad, read_old_lines
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
values = fragments | strategies.expressions(max_leaves=4).map(str)


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


@settings(max_examples=1500)
@given(flat_ads() | st.text("[];=ab1\"'/ .{}", max_size=20).map(lambda t: f"[{t}]"))
def test_a_flat_ad_is_what_the_grammar_reads(text: str) -> None:
    ad = read_flat_ad(text)
    if ad is not None:
        read = by_grammar(text)
        assert read is not None
        assert ad == read
        assert list(ad) == list(read)


def test_the_first_tier_takes_plain_ads() -> None:
    assert read_flat_ad('[ A = 1; b = "x;]"; c = a + B / 2; ]') is not None
    assert read_flat_ad("[ a = 1; A = 2 ]") is None
    assert read_flat_ad("[ a = [ b = 1 ] ]") is None


old_values = values | st.sampled_from(['"x\\ty"', '"x\\"', '"x" // c', "1 # c"])


@st.composite
def old_blocks(draw: st.DrawFn) -> str:
    lines = st.tuples(
        st.sampled_from(["", " ", "\t"]), names, st.sampled_from(["", " "]), old_values
    ).map(lambda parts: f"{parts[0]}{parts[1]}{parts[2]}={parts[3]}")
    odd = st.sampled_from(["", " ", "# note", "junk", "a = 1\r"])
    return "\n".join(draw(st.lists(lines | lines | odd, max_size=5)))


@settings(max_examples=1500)
@given(old_blocks())
def test_a_block_of_old_lines_is_what_the_slow_way_reads(text: str) -> None:
    lines = text.split("\n")
    ad = read_old_lines(lines)
    if ad is not None:
        assert list(_read_lines(lines, 1)) == [ad]
        assert list(ad) == list(next(_read_lines(lines, 1)))
