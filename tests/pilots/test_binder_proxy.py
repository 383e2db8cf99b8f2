"""The proxy between real sockets: bytes, half-closes, slow and broken ends."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from matchmaker.pilots.binder.relay import HIGH, RelayEnd, join_ends

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def paired(pairs: int = 1) -> AsyncIterator[list[tuple[Stream, Stream, RelayEnd, RelayEnd]]]:
    """Pairs of clients of a proxy; all connections of a pair are real."""
    loop = asyncio.get_running_loop()
    ends: asyncio.Queue[RelayEnd] = asyncio.Queue()

    class Arriving(RelayEnd):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            ends.put_nowait(self)

    server = await loop.create_server(Arriving, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    made = []
    for _ in range(pairs):
        one = await asyncio.open_connection("127.0.0.1", port)
        first = await ends.get()
        two = await asyncio.open_connection("127.0.0.1", port)
        second = await ends.get()
        join_ends(first, second)
        made.append((one, two, first, second))
    try:
        yield made
    finally:
        for one, two, first, second in made:
            for _, writer in (one, two):
                writer.close()
            await asyncio.wait_for(asyncio.gather(first.over, second.over), 10)
        server.close()


def within_time(run: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def test() -> None:
        asyncio.run(asyncio.wait_for(run(), 30))

    return test


@within_time
async def test_bytes_go_both_ways_whole() -> None:
    async with paired() as [((ra, wa), (rb, wb), _, _)]:
        there, back = bytes(range(256)) * 20_000, b"answer" * 200_000

        async def send(writer: asyncio.StreamWriter, data: bytes) -> None:
            writer.write(data)
            await writer.drain()
            writer.write_eof()

        _, _, got, answered = await asyncio.gather(
            send(wa, there), send(wb, back), rb.read(), ra.read()
        )
        assert (got, answered) == (there, back)


@within_time
async def test_a_half_close_leaves_the_other_way_open() -> None:
    async with paired() as [((ra, wa), (rb, wb), _, _)]:
        wa.write(b"question")
        wa.write_eof()
        assert await rb.read() == b"question"
        wb.write(b"late answer")
        wb.close()
        assert await ra.read() == b"late answer"


@within_time
async def test_an_end_that_breaks_ends_the_other() -> None:
    async with paired() as [((ra, _), (_, wb), _, _)]:
        broken = wb.get_extra_info("socket")
        broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wb.transport.abort()
        with suppress(ConnectionResetError):
            assert await ra.read() == b""


@within_time
async def test_a_slow_end_holds_a_bounded_amount_and_slows_no_other_pair() -> None:
    async with paired(2) as [((_, wa), _, slow, silent), ((rc, wc), (rd, wd), _, _)]:
        for _ in range(400):
            wa.write(bytes(64 << 10))
        for _ in range(100):
            wc.write(b"ping")
            assert await rd.readexactly(4) == b"ping"
            wd.write(b"pong")
            assert await rc.readexactly(4) == b"pong"
        assert slow.transport is not None
        assert silent.transport is not None
        assert silent.transport.get_write_buffer_size() <= 2 * HIGH
        assert not slow.transport.is_reading()
        wa.transport.abort()


def test_only_connected_ends_become_a_pair() -> None:
    async def run() -> None:
        with pytest.raises(ValueError, match="connected"):
            join_ends(RelayEnd(), RelayEnd())

    asyncio.run(run())
