"""The fast parser is the grammar: what it takes, the grammar takes and reads alike, on any text.

Texts come from the grammar file itself, from trees printed in several spellings, and from both with
something spoiled.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.lark import from_lark

from fuzz.targets import BRACKETED
from matchmaker import ClassAd, Expr, ParseError, parse_ad
from matchmaker.classad import parser
from matchmaker.classad.formats.new import ad_in
from matchmaker.classad.formats.old import _read_lines, read
from matchmaker.classad.grammar import lark
from matchmaker.classad.nodes import AdExpr
from matchmaker.classad.parser import parse_expr, parsed, tokens_of
from tests import strategies

CASES = int(os.environ.get("PARSER_CASES", "200"))

generated = from_lark(lark())

FRAGMENTS = (
    "1", "-5", "007", "1.5", "1.", ".5", "1e3", "1E-3", "9223372036854775807",
    "9223372036854775808", '"x"', '"a;b"', '"a]b"', r'"q\"r"', r'"\\"', '"\n"', '"open', "true",
    "FALSE", "undefined", "error", "a", "A", "Cpus", "is", "isnt", "IS", "'a b'", "''", "'q;r'",
    "{1, 2}", "[z = 1]", "x[0]", "[", "]", "{", "}", "(", ")", ",", ";", ":", "?", "?:", "? :", ".",
    "+", "-", "*", "/", "%", "<", "<<", "<=", ">", ">>>", ">=", "=", "==", "=?=", "=!=", "!", "!=",
    "&", "&&", "|", "||", "^", "~", " ", "\n", "\t", "// c\n", "/* ; ] */", "/*", "\0", "é", "٣",
    "\u017f", "\xa0", "3is", "1.5.x", ".'a.b'",
    'real("INF")', "a = 1;", "b = [c = 2]", "([])", "\\", "'", '"',
)  # fmt: skip
fragments = st.sampled_from(FRAGMENTS)
soup = st.lists(fragments, max_size=8).map("".join)


def respelled(expression: Expr, seed: int) -> str:
    """The text of a tree with other spaces, comments and letters between and in its tokens."""
    chance = random.Random(seed)
    gaps = ["", " ", " ", "\n\t", "/* c */", "// ;\n"]

    def spelled(token: str) -> str:
        word = re.fullmatch(r"is|isnt|true|false|undefined|error", token)
        text = chance.choice([token.upper(), token]) if word else token
        text = {"IS": "=?=", "ISNT": "=!="}.get(text, text) if chance.random() < 0.5 else text
        gap = chance.choice(gaps)
        return text + (gap or " " if word or token[0].isalnum() else gap)

    return "".join(map(spelled, single(str(expression))))


def single(text: str) -> Iterator[str]:
    """The tokens of a text, those in parentheses too."""
    for token in tokens_of(text)[:-1]:
        if len(token) > 1 and token[0] in "([{":
            yield from (token[0], *single(token[1:-1]), token[-1])
        else:
            yield token


@st.composite
def spoiled(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    """A text with a part of it taken out, doubled or replaced."""
    text = draw(texts)
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 5)))
    return text[:start] + draw(fragments | st.just("") | st.just(2 * text[start:end])) + text[end:]


trees = st.builds(respelled, strategies.expressions(), st.integers(0, 2**16))
ads = st.builds(lambda ad, seed: respelled(ad.expression(), seed), strategies.ads(), st.integers())
good = generated | trees | ads
texts = good | spoiled(good) | soup | soup.map(lambda text: f"[{text}]")

# What the fast parser leaves to the grammar: a number with a word or a selection at its end, and a
# word for an operator with one.
LEFT = re.compile(r"[0-9](?:is|\.\s*[a-z_'])|is(?:nt)?\.", re.IGNORECASE)


def wanted_of(text: str, start: str) -> Any:
    try:
        return parser.by_grammar(text, start)
    except ParseError as error:
        return str(error)


@settings(max_examples=CASES)
@given(texts)
@example(".'a.b'")
@example("a-5(b)")
@example("(b) && a.b.c(b)")
@example("x[0](b)")
@example("f(d)(d)")
@example("f(é)")
@example("1.5.xé")
@example("[é]")
@example("{1, é}")
@example('f("" // "a"\n"b" /* "c" */)')
def test_the_fast_parser_is_the_grammar(text: str) -> None:
    # What was met before, such as a clause of this text, must make no difference.
    for part in BRACKETED.findall(text):
        parsed(part)
    node, left = parsed(text), LEFT.search(text)
    assert parsed(text) is node
    wanted = wanted_of(text, "expression")
    if isinstance(wanted, Expr):
        assert node is wanted or (node is None and left)
    else:
        assert node is None
        with pytest.raises(ParseError) as raised:
            parse_expr(text)
        assert str(raised.value) == wanted
    ad, wanted = ad_in(text), wanted_of(text, "ad")
    if isinstance(wanted, AdExpr):
        read = ClassAd.from_expression(wanted)
        assert ad == read or (ad is None and left)
        assert ad is None or list(ad) == list(read)
    else:
        assert ad is None


names = st.sampled_from(["a", "A", "Cpus", "cpus", "x1", "true", "is", "'a b'", "ä", "1a", "a.b"])
old_values = trees | soup | st.sampled_from(['"x\\ty"', '"x\\"', '"x" // c', "1 # c", '"x = y"'])


@st.composite
def old_blocks(draw: st.DrawFn) -> str:
    lines = st.tuples(
        st.sampled_from(["", " ", "\t"]), names, st.sampled_from([" = ", "=", " =", "  =\t"]),
        old_values.map(lambda text: text.replace("\n", " ")),
    ).map("".join)  # fmt: skip
    odd = st.sampled_from(["", " ", "# note", "junk", "a = 1\r"])
    return "\n".join(draw(st.lists(lines | lines | odd, max_size=5)))


def outcome(ads: Iterator[ClassAd]) -> list[tuple[str, list[str]]] | str:
    """What is read, each ad as text and with its spellings, or the error that ends it."""
    try:
        return [(str(ad), list(ad)) for ad in ads]
    except ParseError as error:
        return str(error)


@settings(max_examples=CASES)
@given(old_blocks())
def test_old_lines_are_what_the_slow_way_reads(text: str) -> None:
    slow = outcome(_read_lines(text.split("\n"), 1))
    assert outcome(read(iter([text]))) == slow
    assert outcome(read(iter(text))) == slow


plain_values = st.sampled_from(
    [
        "1",
        " 22 ",
        "-5",
        "1.5",
        '"x"',
        r'"q\"r"',
        "true",
        "1e999",
        "9223372036854775808",
        "NaN",
        "",
        "[1",
    ]
)


@st.composite
def streams(draw: st.DrawFn) -> str:
    """Ads that mostly have the names of others, among them some in the same number of lines."""
    heads = draw(st.lists(st.lists(names, min_size=1, max_size=4), min_size=1, max_size=2))
    values = plain_values | plain_values | old_values.map(lambda text: text.replace("\n", " "))
    ads = []
    for at in draw(st.lists(st.integers(0, len(heads) - 1), max_size=8)):
        lines = [
            name + draw(st.sampled_from([" = ", " = ", "="])) + draw(values) for name in heads[at]
        ]
        spoiled = draw(st.sampled_from(["", "", "", "1", '"x"', "# note", "a=1"]))
        ads.append("\n".join([*lines, spoiled] if spoiled else lines))
    return draw(st.sampled_from(["\n\n", "\n\n\n", "\n \n"])).join(ads)


@settings(max_examples=CASES)
@given(streams())
@example("a = 1\nb = 2\n\n" * 3 + "c = 1\nb = 2\n\na = 1\nb = 3\n\na = 1\nb = 2\n")
@example("a = 1\nb = 2\n\n" * 3 + '"x"\nb = 2')
def test_a_stream_is_what_the_slow_way_reads(text: str) -> None:
    assert outcome(read(iter([text]))) == outcome(_read_lines(text.split("\n"), 1))


@pytest.mark.parametrize(
    "text",
    [
        "a + b * -c ? d : {e, [f = 1; g = f]}[0].h",
        "[ a = 1; b = { [ c = 2 ], [ d = x[1] ] } ; e = [ f = [ g = [ h = [ i = 1 ] ] ] ] ]",
        '[ s = "x;]" "y" /* ; */ ; // ]\n t = \'u v\'; ]',
        "(" * 150 + "1" + ")" * 150,
    ],
)
def test_the_grammar_is_not_needed(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str, start: str) -> None:
        raise AssertionError(f"the grammar was asked for {text!r}")

    monkeypatch.setattr(parser, "by_grammar", refuse)
    node = parse_expr(text)
    if isinstance(node, AdExpr):
        assert parse_ad(text) == ClassAd.from_expression(node)


def test_expressions_that_begin_like_values_are_read_when_the_content_is() -> None:
    ad = parse_ad("[ Memory = 5000 - Cpus * 1000 ]")
    assert list(ad._held.values()) == [ad["Memory"]]


def test_a_caller_deep_in_the_stack_reads_the_same() -> None:
    text = "(" * 100 + "1" + ")" * 100

    def deep(levels: int) -> Expr:
        return deep(levels - 1) if levels else parse_expr(text)

    assert deep(800) is parse_expr(text)


def test_what_is_kept_of_a_duplicate_is_not_its_spelling() -> None:
    assert list(parse_ad("[ Twice = 1; TWICE = x && y ]")) == ["Twice"]
    assert list(parse_ad("[ TWICE = x && y ]")) == ["TWICE"]


def test_spellings_of_names_are_kept() -> None:
    first, second = parse_ad('[ Spelled = 1; Also = "x" ]'), parse_ad("[ SPELLED = 2; spelled=3]")
    assert list(first) == ["Spelled", "Also"]
    assert list(second) == ["SPELLED"]
    assert second.eval("spelled") == 3
    del second["Spelled"]
    second["Spelled"] = 1
    assert list(second) == ["Spelled"]
