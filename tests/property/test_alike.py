"""What is taken for an expression because others are like it is one, and the same one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import ParseError
from matchmaker.classad.formats import old
from matchmaker.classad.nodes import Expr
from matchmaker.classad.parser import parse_value, value_of
from matchmaker.matching.filling import alike

TOKENS = [
    "a", "TARGET.b", "f(", "(", ")", "{", "}", "[", "]", "x = ", ";", ",", "?", ":", " ", "\t",
    "+", "-", "!", "&&", "||", "=?=", "/", "//", "/*", "*/", "'", "''", "is", "isnt", "true", "E1",
    "1", "0", "007", "0x1F", "1K", "-5", "1.5", "1.", ".5", "1.2.3", "1e3", "1.5e3", "2E", "9" * 18,
    "9" * 19, "0." + "1" * 19, '""', '"', '"a"', '"//"', '"/*"', '"\'"', '"\\"', '\\"', "\\", "\1",
    '"\1"', "é", '"é"', "\n", "\0", '"\0"', "\x1c", ".", "#", "@", "x1", "1x",
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def each_by_itself() -> object:
    """Forms of one text are read too."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(alike, "_SEVERAL", 0)
        yield


@given(st.lists(st.lists(st.sampled_from(TOKENS), max_size=9).map("".join), max_size=30))
@settings(max_examples=400)
def test_what_is_known_is_an_expression(texts: list[str]) -> None:
    for text, sure in zip(texts, alike.known(texts), strict=True):
        if not sure:
            continue
        held = parse_value(text)
        assert isinstance(held, Expr)
        assert repr(held) == repr(parse_value(text.strip()))
        read = old.value(text)
        assert repr(getattr(read, "held", read)) == repr(held)


CONSTANTS = st.integers(0, 10**18 - 1).map(str) | st.sampled_from(
    ["0.25", '"a b"', '"//"', '"it\'s"', '"[;"', "10.000000000000000001"]
)
FORMS = ["a + {}", "TARGET.x >= {} && f({}, b)", "[ a = {}; b = {} ]", "!(c =?= {})", "-{} * d"]


@given(st.sampled_from(FORMS), st.lists(st.tuples(CONSTANTS, CONSTANTS), min_size=1))
def test_expressions_with_other_constants_are_known(form: str, some: list[tuple[str, str]]) -> None:
    texts = [form.format(*each) for each in some]
    assert all(alike.known(texts))
    assert not any(alike.known([f"{text} +" for text in texts]))


LONG = "(" * 300 + "1" + ")" * 300


def test_texts_of_no_use_are_not_known() -> None:
    for text in ("1", '"x"', "-1", "a \1 b", "f(1 2)", '1 "x"', "a" * 5000, LONG):
        assert alike.known([text]) == [False], text
    with pytest.raises(ParseError):
        parse_value("a \1 b")
    assert value_of("a \1 b") is None
