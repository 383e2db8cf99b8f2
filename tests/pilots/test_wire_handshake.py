"""The greeting: who knows the token comes in, and nobody else, whatever is changed on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker.pilots.wire import connection as wire
from matchmaker.pilots.wire import protocol
from matchmaker.pilots.wire.connection import ClosedError, Connection, PairStream, dial, welcome
from matchmaker.pilots.wire.protocol import (
    Frame,
    FrameError,
    FrameKind,
    Greeting,
    PeerRefusedError,
    Role,
    Token,
    TokenScope,
    encode,
    sign,
)

KEY = b"k" * 32
NONCE = "n" * 32


def token(scope: TokenScope = TokenScope.PILOT, *, pool: str = "p", ends: float = 100.0) -> str:
    return sign(KEY, Token(subject="ana", scope=scope, pool=pool, id="t1", ends=ends))


def answer(said: dict[str, Any], **how: Any) -> tuple[dict[str, Any], Greeting]:
    known = {"pool": "p", "now": 50.0, "revoked": frozenset[str](), **how}
    return protocol.challenge(said, KEY, "m" * 32, **known)


def test_a_peer_with_a_token_and_the_binder_prove_themselves() -> None:
    said = protocol.hello(token(), Role.PILOT, NONCE)
    assert token().rpartition(".")[2] not in str(said)
    fields, greeting = answer(said)
    proof = protocol.answer_challenge(token(), said, Frame(FrameKind.CHALLENGE, fields))
    protocol.check_proof(greeting, proof)
    assert (greeting.token.subject, greeting.role, greeting.version) == ("ana", Role.PILOT, 2)


@given(st.data())
def test_nothing_of_a_greeting_can_be_changed(data: st.DataObject) -> None:
    said = protocol.hello(token(TokenScope.SESSION), Role.PILOT, NONCE)
    heard = dict(said)
    which = data.draw(st.sampled_from(["versions", "role", "nonce", "more", "version", "answer"]))
    if which == "versions":
        heard["versions"] = data.draw(st.sampled_from([[1, 2], [2, 2], [2, 3]]))
    elif which == "role":
        heard["role"] = Role.SLOT
    elif which == "nonce":
        heard["nonce"] = data.draw(st.text(min_size=32, max_size=40).filter(lambda n: n != NONCE))
    elif which == "more":
        heard["more"] = 1
    fields, greeting = answer(heard)
    if which == "version":
        fields["version"] = 0
    elif which == "answer":
        fields["nonce"] = "o" * 32
    elif which != "more":
        assert heard != said
    with pytest.raises(PeerRefusedError, match="not the binder"):
        protocol.answer_challenge(
            token(TokenScope.SESSION), said, Frame(FrameKind.CHALLENGE, fields)
        )
    # And the binder takes no proof that was made over the peer's own words.
    with pytest.raises(PeerRefusedError, match="another key"):
        protocol.check_proof(greeting, protocol._proof(KEY, "peer", said, fields))


def test_a_proof_is_good_for_one_greeting_and_one_side() -> None:
    said = protocol.hello(token(), Role.PILOT, NONCE)
    fields, first = answer(said)
    proof = protocol.answer_challenge(token(), said, Frame(FrameKind.CHALLENGE, fields))
    _, second = protocol.challenge(said, KEY, "x" * 32, pool="p", now=50.0, revoked=())
    with pytest.raises(PeerRefusedError):
        protocol.check_proof(second, proof)
    with pytest.raises(PeerRefusedError):
        protocol.check_proof(first, fields["proof"])
    with pytest.raises(PeerRefusedError):
        protocol.check_proof(first, "é\ud800")


@pytest.mark.parametrize(
    ("text", "role", "how", "words"),
    [
        (token(pool="q"), Role.PILOT, {}, "for the binder q; this one is p"),
        (token(ends=10), Role.PILOT, {}, "ended 40 s ago"),
        (token(), Role.PILOT, {"revoked": {"t1"}}, "was revoked"),
        (token(), Role.CLIENT, {}, "scope pilot does not allow 'client'"),
        (token(TokenScope.CLIENT), Role.ADMIN, {}, "scope client does not allow 'admin'"),
        (token(TokenScope.CLIENT), Role.SLOT, {}, "scope client does not allow 'slot'"),
    ],
)
def test_who_may_not_come_in_is_told_why(
    text: str, role: Role, how: dict[str, Any], words: str
) -> None:
    with pytest.raises(PeerRefusedError, match=words):
        answer(protocol.hello(text, role, NONCE), **how)


def test_versions_and_nonces_are_checked() -> None:
    said = protocol.hello(token(), Role.PILOT, NONCE)
    with pytest.raises(PeerRefusedError, match="no common version"):
        answer({**said, "versions": [1, 3]})
    for bad in ([True], ["1"], [1] * 17, [[1]]):
        with pytest.raises(FrameError):
            answer({**said, "versions": bad})
    with pytest.raises(PeerRefusedError, match="at least 32"):
        answer({**said, "nonce": "short"})


# --- over real connections ------------------------------------------------------------------------


async def served(
    serve: Callable[[Connection], Coroutine[None, None, None]],
) -> tuple[asyncio.Server, str]:
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    class Served(Connection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            task = loop.create_task(serve(self))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    server = await loop.create_server(Served, "127.0.0.1", 0)
    return server, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def greeted(connection: Connection) -> Greeting:
    return await welcome(connection, KEY, pool="p", now=lambda: 50.0, revoked=())


async def until_it_fails(stream: PairStream) -> None:
    for _ in range(500):
        await stream.write(b"more")
        await asyncio.sleep(0.01)


def test_a_greeting_and_a_stream_with_what_came_early() -> None:
    got: list[Any] = []

    async def serve(connection: Connection) -> None:
        got.append((await greeted(connection)).token.subject)
        frame = await connection.expect(FrameKind.CONNECT)
        # The first bytes of the pair leave with the frame that makes it one.
        connection.send(FrameKind.PAIRED, job="1", epoch=1, ad=frame["ad"], stream=True)
        stream = PairStream()
        connection.hand_over(stream)
        await stream.write(b"x" * 3_000_000)
        await stream.end()
        while part := await stream.read():
            got.append(part)
        stream.close()

    async def main() -> None:
        server, address = await served(serve)
        connection = await dial(address, token(TokenScope.CLIENT), Role.CLIENT)
        connection.send(FrameKind.CONNECT, ad="[]", seconds=1)
        assert (await connection.expect(FrameKind.PAIRED, 5))["ad"] == "[]"
        await asyncio.sleep(0.1)
        stream = PairStream()
        stream.data_received(connection.hand_over(stream))
        length = 0
        while part := await stream.read():
            length += len(part)
        assert length == 3_000_000
        await stream.write(b"done")
        await stream.end()
        with pytest.raises(ConnectionError):
            await until_it_fails(stream)
        server.close()

    asyncio.run(main())
    assert got[0] == "ana"
    assert b"".join(got[1:]) == b"done"


def test_a_peer_of_another_key_is_refused_by_the_words_of_the_other_side() -> None:
    async def serve(connection: Connection) -> None:
        with pytest.raises((PeerRefusedError, ClosedError)):
            await greeted(connection)

    other = sign(b"o" * 32, Token(subject="ana", scope=TokenScope.PILOT, pool="p", ends=100.0))

    async def main() -> None:
        server, address = await served(serve)
        with pytest.raises(PeerRefusedError, match="not the binder that made this token"):
            await dial(address, other, Role.PILOT)
        with pytest.raises(PeerRefusedError, match="does not allow"):
            await dial(address, token(), Role.ADMIN)
        server.close()

    asyncio.run(main())


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", bytes(8), encode(FrameKind.OVER)])
def test_who_says_something_else_is_cut_off(said: bytes) -> None:
    async def serve(connection: Connection) -> None:
        with pytest.raises(ClosedError):
            await greeted(connection)

    async def main() -> None:
        server, address = await served(serve)
        host, port = wire.parse_address(address)
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(said)
        answer = await asyncio.wait_for(reader.read(), 10)
        assert not answer or b'"refused"' in answer
        writer.close()
        server.close()

    asyncio.run(main())


def test_a_silent_peer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "GREETING_SECONDS", 0.2)
    done = []

    async def serve(connection: Connection) -> None:
        with pytest.raises(TimeoutError):
            await greeted(connection)
        done.append(1)

    async def main() -> None:
        server, address = await served(serve)
        _, writer = await asyncio.open_connection(*wire.parse_address(address))
        await asyncio.sleep(0.5)
        writer.close()
        server.close()

    asyncio.run(main())
    assert done


def test_beyond_this_machine_a_certificate_is_needed() -> None:
    with pytest.raises(ValueError, match="not this machine"):
        asyncio.run(dial("192.0.2.1:9618", token(), Role.PILOT))
    for bad in ("", "host", "host:", ":1", "host:99999", "host:x", "host:٣"):
        with pytest.raises(ValueError, match="HOST:PORT"):
            wire.parse_address(bad)
