"""Frames and tokens: what was sent arrives in any cut, and nothing else is taken for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker.pilots.wire import protocol
from matchmaker.pilots.wire.protocol import (
    GREETING_BYTES,
    MOST_BYTES,
    Frame,
    FrameDecoder,
    FrameError,
    FrameKind,
    Token,
    TokenError,
    TokenScope,
    decode,
    encode,
)  # fmt: skip

CHARACTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(CHARACTERS, max_size=40),
    int: st.integers(-(2**70), 2**70),
    bool: st.booleans(),
    (int, float): st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    list: st.lists(st.integers() | st.text(CHARACTERS, max_size=5), max_size=4),
    dict: st.dictionaries(st.text(CHARACTERS, max_size=5), st.integers(), max_size=4),
}


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    kind = draw(st.sampled_from(FrameKind))
    return Frame(kind, {name: draw(VALUES[types]) for name, types in kind.fields.items()})


@given(st.lists(frames(), max_size=6), st.randoms(use_true_random=False))
def test_frames_arrive_as_they_were_sent_in_any_cut(sent: list[Frame], random: Any) -> None:
    data = b"".join(encode(frame.kind, **frame.fields) for frame in sent)
    decoder, came = FrameDecoder(MOST_BYTES), []
    while data:
        cut = random.randint(1, len(data))
        decoder.feed(data[:cut])
        data = data[cut:]
        while (frame := decoder.next()) is not None:
            came.append(frame)
    assert came == sent
    assert decoder.rest() == b""


@given(st.binary(max_size=200))
def test_other_bytes_give_frames_or_a_frame_error(data: bytes) -> None:
    decoder = FrameDecoder()
    decoder.feed(data)
    try:
        while decoder.next() is not None:
            pass
    except FrameError:
        pass


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"7", b"{}", b'{"kind":"hello"}', b'{"kind":"shout"}', b'{"kind":7}',
        b'{"kind":["beat"]}', b'{"kind":"beat","number":true}', b'{"kind":"beat","number":"1"}',
        b'{"kind":"beat","number":1e999}', b'{"kind":"beat","number":NaN}', b"\xff\xfe",
        b'{"kind":"ask","jobs":[],"seconds":1e999}',
        b'{"kind":"beat","number":' + b"9" * 5000 + b"}",
        b"[" * 100_000, b'{"kind":' * 20_000,
    ],
)  # fmt: skip
def test_what_is_no_frame_is_refused(body: bytes) -> None:
    with pytest.raises(FrameError):
        decode(body)


def test_a_frame_over_the_limit_is_refused_by_its_length_alone() -> None:
    decoder = FrameDecoder()
    decoder.feed((GREETING_BYTES + 1).to_bytes(4))
    with pytest.raises(FrameError, match="at most 8192"):
        decoder.next()
    with pytest.raises(ValueError, match="at most 262144 can be sent"):
        encode(FrameKind.REFUSED, reason="x" * MOST_BYTES)
    with pytest.raises(ValueError, match="beat needs number"):
        encode(FrameKind.BEAT)


NAMES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=20)
TOKENS = st.builds(
    Token, subject=NAMES, scope=st.sampled_from(TokenScope), pool=NAMES, id=NAMES,
    ends=st.floats(0, 1e12),
)  # fmt: skip


@given(TOKENS, st.binary(min_size=32, max_size=32))
def test_a_token_says_what_was_signed(token: Token, key: bytes) -> None:
    said, signature = protocol.split_token(protocol.sign(key, token))
    assert protocol.read_token(said) == token
    assert signature == protocol.signature_of(key, said)


@given(TOKENS, st.data())
def test_another_text_is_another_token_or_none(token: Token, data: st.DataObject) -> None:
    key = b"k" * 32
    text = protocol.sign(key, token)
    place = data.draw(st.integers(0, len(text) - 1))
    other = text[:place] + data.draw(st.characters(codec="latin-1")) + text[place + 1 :]
    try:
        said, signature = protocol.split_token(other)
        changed = protocol.read_token(said)
    except TokenError:
        return
    # The last character of a part in base64 may have bits that say nothing.
    assert signature != protocol.signature_of(key, said) or changed == token


def test_a_token_of_another_form_is_refused() -> None:
    def text(header: Any, claims: Any) -> str:
        return ".".join(protocol._encoded(json.dumps(part).encode()) for part in (header, claims))

    good = {"sub": "a", "scope": "pilot", "pool": "p", "jti": "1", "exp": 9}
    right: dict[str, Any] = {"alg": "HS256", "typ": "JWT"}
    assert protocol.read_token(text(right, good)).scope is TokenScope.PILOT
    headers: list[Any] = [{"alg": "none", "typ": "JWT"}, {**right, "kid": "x"}, [], "x"]
    for header in headers:
        with pytest.raises(TokenError):
            protocol.read_token(text(header, good))
    for change in (
        {"sub": ""}, {"sub": "a b"}, {"sub": 1}, {"scope": "root"}, {"scope": ["pilot"]},
        {"exp": None}, {"exp": True}, {"exp": 10**400}, {"exp": -1}, {"pool": None}, {"jti": "é"},
    ):  # fmt: skip
        with pytest.raises(TokenError):
            protocol.read_token(text(right, {**good, **change}))
    for bad in ("", "a", "a.b", "a.b.c.d", "é.é", "." * 3000, "a" * 3000):
        with pytest.raises(TokenError):
            protocol.read_token(bad)


@pytest.mark.parametrize("text", [r"\ud800", r"a\uDFFFb", r"\u0000"])
@pytest.mark.parametrize("body", ['{"kind":"leave","reason":"%s"}', '{"kind":"status","%s":[{}]}'])
def test_text_that_no_database_stores_is_refused(text: str, body: str) -> None:
    decode((body % "caf\\u00e9 \\ud83d\\ude00 \\\\u0000").encode())
    with pytest.raises(FrameError, match="text"):
        decode((body % text).encode())


@pytest.mark.parametrize(
    "body", [b'{"kind":"welcome","a":"\xed\xa0\x80"}', '{"kind":"welcome"}'.encode("utf-16")]
)
def test_what_is_not_utf_8_is_refused(body: bytes) -> None:
    with pytest.raises(FrameError):
        decode(body)


def test_a_number_that_no_float_holds_is_refused() -> None:
    with pytest.raises(FrameError):
        decode(b'{"kind":"ask","jobs":[],"seconds":1%s}' % (b"0" * 400))
