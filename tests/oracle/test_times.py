"""Texts of times: what HTCondor reads in them, we read too, and nothing else.

Not compared are what `docs/differences.md` lists: years and other fields
with too few digits, fractions and offsets with seconds, spans without a digit, and huge ones.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from matchmaker.classad.printer import quote
from matchmaker.classad.values import parse_absolute, parse_relative
from tests.oracle.oracle import Answer, Case, Oracle

pytestmark = pytest.mark.oracle

_BETWEEN = st.sampled_from(["-", ":", "/", ".", " ", "T", ", ", "", "", "h", "+", " the ", "\t"])
_PAIR = st.one_of(
    st.integers(0, 99).map("{:02}".format), st.integers(1, 28).map(str), st.just("007")
)
_YEAR = st.one_of(st.integers(1990, 2030).map(str), st.integers(1, 999).map(str))
_OFFSET = re.compile(r"[+-]\d\d:?\d\d\Z")
_DOCUMENTED = re.compile(r"\D*\d{4}(?:\D*\d\d){2,5}\D*")
_ZONE = st.sampled_from(
    ["", "", "Z", "z", " Z ", "+01:00", "-0530", " +0100", "+1:00", "+01:00 ", "-00:00", "+9:9"]
)


@st.composite
def absolute_texts(draw: st.DrawFn) -> str:
    """Dates in every order of digits and separators."""
    pairs = draw(st.lists(_PAIR, min_size=1, max_size=6))
    words = [draw(st.sampled_from(["", "", " ", "on "])), draw(_YEAR)]
    for pair in pairs:
        words += draw(_BETWEEN), pair
    return "".join(words) + draw(st.sampled_from(["", "", "s", " UTC"])) + draw(_ZONE)


_SPAN = st.lists(
    st.one_of(
        st.sampled_from([":", "+", "-", "d", "D", "h", "m", "M", "s", "S", ".", " ", "\t", "x"]),
        st.integers(0, 99).map(str),
    ),
    max_size=9,
).map("".join)


def _asked(oracle: Oracle, name: str, texts: list[str]) -> list[Answer]:
    return oracle.answers([Case(f"{name}({quote(text, chr(34))})", "") for text in texts])


@settings(max_examples=6, phases=[Phase.generate])
@given(st.lists(absolute_texts(), min_size=80, max_size=160, unique=True))
def test_absolute_times_are_read_alike(oracle: Oracle, texts: list[str]) -> None:
    for text, theirs in zip(texts, _asked(oracle, "absTime", texts), strict=True):
        ours = parse_absolute(text)
        if ours is None:
            known = _DOCUMENTED.fullmatch(_OFFSET.sub("", text))
            long_offset = re.search(r"[+-](?:2[4-9]|[3-9]\d):?\d\d\Z", text)
            assert theirs == ["unreadable"] or known is None or long_offset, text
        elif theirs == ["unreadable"]:
            assert re.search(r"\.\d", text) or re.search(r"[+-]\d\d:\d\d:\d\d\Z", text), text
        else:
            assert theirs[1].replace("-00:00", "+00:00").zfill(25) == ours.isoformat(), text


@settings(max_examples=6, phases=[Phase.generate])
@given(st.lists(_SPAN, min_size=80, max_size=160, unique=True))
def test_relative_times_are_read_alike(oracle: Oracle, texts: list[str]) -> None:
    for text, theirs in zip(texts, _asked(oracle, "relTime", texts), strict=True):
        ours = parse_relative(text)
        if ours is None:
            huge = re.search(r"\d{7}", text)
            assert theirs == ["unreadable"] or huge or not re.search(r"\d", text), text
        elif abs(ours.total_seconds()) < 1 << 31:
            # The bindings give the number of seconds.
            assert theirs[0] == "real", text
            assert float(theirs[1]) == pytest.approx(ours.total_seconds(), abs=1e-5), text
