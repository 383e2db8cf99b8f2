"""The bytes of a pair between its two ends: parts with their length, and an end for each way.

A part of no bytes ends its direction, since a connection with TLS cannot be half-closed. The
binder carries these bytes and does not look at them.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, cast

_HEAD: Final = 4
_MOST_PART: Final = 1 << 20
_HIGH: Final = 1 << 20
"""How many bytes may wait to be read; then nothing more is read from the connection."""


class Stream(asyncio.Protocol):
    """One end of a pair. A task may read while another one writes."""

    __slots__ = (
        "_buffer",
        "_came",
        "_drained",
        "_ended",
        "_left",
        "_paused",
        "_sent_end",
        "_transport",
        "_why",
    )  # fmt: skip

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._left: int | None = None  # of the part under way; None where its length comes next
        self._ended = False
        self._sent_end = False
        self._why = ""
        self._paused = False
        self._came = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._transport: asyncio.Transport | None = None

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Keeps what came until it is read."""
        self._buffer += data
        if len(self._buffer) > _HIGH and self._transport is not None:
            self._transport.pause_reading()
            self._paused = True
        self._came.set()

    def pause_writing(self) -> None:
        """The other end takes no more for now."""
        self._drained.clear()

    def resume_writing(self) -> None:
        """It does again."""
        self._drained.set()

    def connection_lost(self, error: Exception | None) -> None:
        """Who reads gets what came, then the end or an error."""
        self._why = self._why or (str(error) if error else "the other end has gone")
        self._drained.set()
        self._came.set()

    # --- what the owner calls

    @property
    def lost(self) -> bool:
        """Whether the connection has ended."""
        return bool(self._why)

    async def read(self, most: int = 1 << 16) -> bytes:
        """The next bytes; none where the other end has ended its direction.

        Args:
            most: how many at most, at least 1.

        Raises ConnectionError where the connection ended without that, or the other end speaks
        otherwise.
        """
        while (found := self._next(most)) is None:
            if self._why:
                raise ConnectionError(self._why)
            self._came.clear()
            await self._came.wait()
        return found

    async def write(self, data: bytes) -> None:
        """Sends bytes. Raises ConnectionError where nobody can take them."""
        view = memoryview(data)
        for start in range(0, len(view), _MOST_PART):
            part = view[start : start + _MOST_PART]
            await self._room()
            if self._transport is not None:
                self._transport.writelines((len(part).to_bytes(_HEAD), part))
        await self._room()

    async def end(self) -> None:
        """Says that this end sends nothing more. Raises ConnectionError as ``write`` does."""
        if not self._sent_end:
            await self._room()
            self._sent_end = True
            if self._transport is not None:
                self._transport.write(bytes(_HEAD))

    async def finish(self, seconds: float = 2.0) -> None:
        """Ends this direction and then the connection, once the other end has nothing to say.

        To close while bytes are unread would reset the connection, and what was written would be
        lost on its way.

        Args:
            seconds: how long to wait for the other end at most.
        """
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(seconds):
                await self.end()
                while await self.read():
                    pass
        self.close()

    def close(self) -> None:
        """Ends the connection after what was written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    # --- within

    async def _room(self) -> None:
        await self._drained.wait()
        if self._why or self._transport is None or self._transport.is_closing():
            raise ConnectionError(self._why or "the connection has ended")

    def _next(self, most: int) -> bytes | None:
        """The next bytes, none where the direction has ended, or None where more must come."""
        if self._ended:
            return b""
        if self._left is None:
            if len(self._buffer) < _HEAD:
                return None
            self._left = int.from_bytes(self._buffer[:_HEAD])
            del self._buffer[:_HEAD]
            if self._left > _MOST_PART:
                self._why = f"a part of {self._left} bytes came; {_MOST_PART} are the most"
                self.abort()
            elif not self._left:
                self._ended = True
                return b""
        if self._why and self._left > _MOST_PART:
            return None
        found = bytes(self._buffer[: min(most, self._left)])
        del self._buffer[: len(found)]
        self._left = self._left - len(found) or None
        if self._paused and len(self._buffer) < _HIGH // 2 and self._transport is not None:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()
        return found or None
