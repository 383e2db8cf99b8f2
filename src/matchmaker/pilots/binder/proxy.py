"""Passes the bytes of a pair on in both directions, without reading them.

The ends choose their own protocol; half-closes are passed on too. The bytes that one end sent and
the other has not yet taken are limited: a slow peer slows only the one that sends to it.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

HIGH: Final = 256 << 10
"""How many bytes may wait for an end; then nothing more is read from the other one."""
LOW: Final = 64 << 10
"""How many bytes wait when reading goes on."""


class End(asyncio.Protocol):
    """One end of a pair: what it receives is written to the other end.

    ``half`` says that no more will come from this end. The future ``over`` is done when its
    connection is; then the other end gets what is under way, and ends too.
    """

    __slots__ = ("half", "other", "over", "transport")

    def __init__(self) -> None:
        self.other: asyncio.Transport | None = None
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.half = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Nothing is read before there is another end."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(HIGH, LOW)
        if self.other is None:
            self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        """Writes to the other end, which pauses this one when it is full."""
        if self.other is not None:
            self.other.write(data)

    def eof_received(self) -> bool:
        """Half-closes the other end, where the connection can; TLS cannot, and ends.

        When both ends have sent their last byte, both connections end.
        """
        other = self.other
        if other is None or other.is_closing() or not other.can_write_eof():
            return False
        self.half = True
        partner = other.get_protocol()
        if isinstance(partner, End) and partner.half:
            other.close()
            return False
        other.write_eof()
        return True

    def pause_writing(self) -> None:
        """This end is full: nothing more is read from the other one."""
        if self.other is not None:
            self.other.pause_reading()

    def resume_writing(self) -> None:
        """This end has taken what waited."""
        if self.other is not None and not self.other.is_closing():
            self.other.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Ends the other one: after what is under way, or at once where this one broke."""
        if self.other is not None:
            if error is None:
                self.other.close()
            else:
                self.other.abort()
        self.other = None
        if not self.over.done():
            self.over.set_result(None)


def join(one: End, two: End) -> None:
    """Makes two connected ends a pair. Raises ValueError for an end that is not connected."""
    if one.transport is None or two.transport is None:
        raise ValueError("both ends are connected before they become a pair")
    one.other, two.other = two.transport, one.transport
    for transport in (one.transport, two.transport):
        if one.over.done() or two.over.done():
            transport.close()
        else:
            transport.resume_reading()
