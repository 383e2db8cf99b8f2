"""A connection that a hostile server cannot make endless: bounds on time, messages and bytes.

LDAP is a stream of BER messages, each with its length in front. The client library waits for as
much as that length says and keeps it; here the length is read first, and a message that is too
large, an answer or a page of it that is too long, and one that takes too long break off.
"""

from __future__ import annotations

import socket
import time
from typing import Any, Final

MESSAGE_LIMIT: Final = 1 << 22
"""Bytes of one message, which holds one entry. Real ones stay below 100 kB."""

ANSWER_LIMIT: Final = 1 << 30
"""Bytes of a whole answer. The grid of 2012 took some 150 MB."""

PAGE_LIMIT: Final = 1 << 26
"""Bytes of one page, which the client library holds whole. 500 real entries take some 1 MB."""

PAGE_MESSAGES: Final = 100_000
"""Messages of one page; a server that knows no pages gives all that it has as one."""

_HEAD = 10  # bytes that hold any sensible length


class BoundedSocket:
    """A connected socket whose reading is bounded.

    What is not about reading is the socket's own. Exceeding a bound raises `OSError`, which
    clients take for a broken connection.

    Args:
        inner: the socket, plain or wrapped in TLS.
        timeout: seconds to wait for each piece.
        deadline: the time by `time.monotonic` at which reading ends.
        message_limit: bytes of one message.
        answer_limit: bytes of all.
        page_limit: bytes between two requests.
        page_messages: messages between two requests.
    """

    def __init__(
        self,
        inner: socket.socket,
        timeout: float,
        deadline: float,
        *,
        message_limit: int = MESSAGE_LIMIT,
        answer_limit: int = ANSWER_LIMIT,
        page_limit: int = PAGE_LIMIT,
        page_messages: int = PAGE_MESSAGES,
    ) -> None:
        self.inner = inner
        self._timeout = timeout
        self._deadline = deadline
        self._message_limit = message_limit
        self._left = answer_limit
        self._page_limits = page_limit, page_messages
        self._page_left, self._messages_left = self._page_limits
        self._head = b""  # of a message whose length is not yet known
        self._body = 0  # bytes of a message that are still to come

    def __getattr__(self, name: str) -> Any:
        """Everything but reading is the socket's own."""
        return getattr(self.inner, name)

    def sendall(self, data: bytes, flags: int = 0) -> None:
        """Sends a request, whose answer is a page of its own."""
        self._page_left, self._messages_left = self._page_limits
        self.inner.sendall(data, flags)

    def recv(self, size: int, flags: int = 0) -> bytes:
        """The next bytes, at most so many; raises OSError where a bound is exceeded."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer takes too long")
        self.inner.settimeout(min(self._timeout, left))
        data = self.inner.recv(size, flags)
        self._left -= len(data)
        if self._left < 0:
            raise OSError("the answer is too long")
        self._page_left -= len(data)
        if self._page_left < 0:
            raise OSError(f"a page of more than {self._page_limits[0]} bytes")
        self._measure(data)
        return data

    def _measure(self, data: bytes) -> None:
        """Follow the messages in the stream, and refuse one that is too large."""
        place = 0
        while place < len(data):
            if self._body:
                step = min(self._body, len(data) - place)
                self._body -= step
                place += step
                continue
            missing = _HEAD - len(self._head)
            head = self._head + data[place : place + missing]
            measured = _length(head)
            if measured is None:
                if len(head) >= _HEAD:
                    raise OSError("the answer is not of LDAP")
                self._head = head
                return
            before, length = measured
            if length > self._message_limit:
                raise OSError(
                    f"a message of {length} bytes; at most {self._message_limit} are read"
                )
            self._messages_left -= 1
            if self._messages_left < 0:
                raise OSError(f"a page of more than {self._page_limits[1]} messages")
            place += before - len(self._head)
            self._head, self._body = b"", length


def _length(head: bytes) -> tuple[int, int] | None:
    """How many bytes stand before a message's content, and how long that is; None: not all there.

    >>> _length(bytes([0x30, 5])), _length(bytes([0x30, 0x82, 1, 0])), _length(bytes([0x30]))
    ((2, 5), (4, 256), None)
    """
    if head[:1] not in (b"", b"\x30"):
        raise OSError("the answer is not of LDAP")
    if len(head) < 2:
        return None
    count = head[1] & 0x7F
    if head[1] < 0x80:
        return 2, head[1]
    if not 1 <= count <= 8:
        raise OSError("the answer is not of LDAP")
    if len(head) < 2 + count:
        return None
    return 2 + count, int.from_bytes(head[2 : 2 + count], "big")
