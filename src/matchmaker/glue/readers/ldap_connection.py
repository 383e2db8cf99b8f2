"""A connection to a server that may be slow or hostile: whole messages, each within its bounds.

LDAP is a stream of BER messages, each with its length in front. That is read first, so that a
message that is too large, an answer that is too long and one that takes too long break off; and
`measure` holds the lengths within a message against it. What goes wrong is a `ConnectionError` or a
`MessageError` that says so in a sentence. The source is RFC 4511, section 5.1.
"""

from __future__ import annotations

import socket
import ssl
import time
from typing import Final

import attrs

_LONGEST: Final = 8  # bytes that hold any sensible length
_NUMBERS: Final = (0x02, 0x0A)
_NUMBER_SIZE: Final = 4
_FLAT: Final = frozenset((*_NUMBERS, 0x01, 0x04, 0x8A, 0x8B))  # those that ldap3 does not go into
_BUILT: Final = 0x20  # the bit of a tag whose value is made of values
_DEEPEST: Final = 8  # values within values; a value of an entry is the sixth
_CHUNK: Final = 1 << 16
_OTHER_HOST: Final = {62, 64}  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH


class MessageError(ValueError):
    """An answer that is not of LDAP."""


@attrs.define(slots=True, eq=False)
class Wire:
    """A connected socket that is read message by message.

    Attributes:
        timeout: seconds to wait for each piece.
        deadline: the time by `time.monotonic` at which reading ends.
        message_limit: most bytes of one message.
        left: bytes that all messages together may still have.
    """

    _socket: socket.socket
    timeout: float
    deadline: float
    message_limit: int
    left: int
    _held: bytearray = attrs.field(factory=bytearray, init=False)
    _place: int = attrs.field(default=0, init=False)

    def close(self) -> None:
        """Ends the connection, whatever state its server left it in."""
        self._socket.close()

    def secure(self, context: ssl.SSLContext, host: str, trusted: str) -> None:
        """Goes on with TLS; ``trusted`` says where the certificates of the context come from."""
        if self._place < len(self._held):
            raise ConnectionError("the server sends in clear what should come within TLS")
        self._socket.settimeout(self._patience())
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            if error.verify_code in _OTHER_HOST:
                todo = "ask for the server by a name that its certificate has"
            else:
                todo = f"it was held against {trusted}; --ldap-ca FILE (ca_file) names others"
            said = error.verify_message.rstrip(".")
            raise ConnectionError(f"the certificate does not verify: {said}; {todo}") from error
        except TimeoutError as error:
            raise ConnectionError(f"no TLS within {self.timeout:g} s") from error
        except (ssl.SSLEOFError, ConnectionError) as error:
            raise ConnectionError("the server hangs up when asked for TLS") from error
        except ssl.SSLError as error:
            said = (error.reason or str(error)).replace("_", " ").lower()
            raise ConnectionError(f"no TLS: {said}; does this port speak it?") from error

    def send(self, data: bytes) -> None:
        """Sends a request."""
        self._socket.settimeout(self._patience())
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ConnectionError(f"the server takes no request: {_said(error)}") from error

    def receive(self) -> bytes:
        """The next message, whole."""
        while True:
            if self._place < len(self._held) and self._held[self._place] != 0x30:
                raise MessageError("the answer is not of LDAP")
            if (found := _content(self._held, self._place)) is not None:
                start, end = found
                if end - start > self.message_limit:
                    raise ConnectionError(
                        f"a message of {end - start} bytes; at most {self.message_limit} are read"
                    )
                if end <= len(self._held):
                    message = bytes(self._held[self._place : end])
                    self._place = end
                    return message
            self._fill()

    def _fill(self) -> None:
        del self._held[: self._place]
        self._place = 0
        if not self.left:
            raise ConnectionError("the answer is too long")
        self._socket.settimeout(self._patience())
        try:
            data = self._socket.recv(min(_CHUNK, self.left))
        except TimeoutError as error:
            self._patience()
            raise ConnectionError(f"nothing came for {self.timeout:g} s") from error
        except OSError as error:
            raise ConnectionError(f"the connection broke: {_said(error)}") from error
        if not data:
            raise ConnectionError("the server closed the connection")
        self.left -= len(data)
        self._held += data

    def _patience(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise ConnectionError("the answer takes too long")
        return min(self.timeout, left)


def connect(
    host: str, port: int, *, timeout: float, total: float, message_limit: int, answer_limit: int
) -> Wire:
    """A connection to a host's port; times in seconds, sizes in bytes. Raises ConnectionError."""
    deadline = time.monotonic() + total
    try:
        connected = socket.create_connection((host, port), min(timeout, total))
    except socket.gaierror as error:
        raise ConnectionError(f"no address of this host is known: {_said(error)}") from error
    except UnicodeError as error:
        raise ConnectionError("this is no name of a host") from error
    except TimeoutError as error:
        raise ConnectionError(f"no connection within {timeout:g} s") from error
    except OSError as error:
        raise ConnectionError(f"no connection: {_said(error)}") from error
    return Wire(connected, timeout, deadline, message_limit, answer_limit)


def _said(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def _content(data: bytes | bytearray, place: int) -> tuple[int, int] | None:
    """Where the content of the value at a place begins and ends; None: its length is not all there.

    >>> _content(bytes([0x30, 5]), 0), _content(bytes([0x30, 0x82, 1, 0]), 0), _content(b"0", 0)
    ((2, 7), (4, 260), None)
    """
    start = place + 2
    if start > len(data):
        return None
    length = data[place + 1]
    if length < 0x80:
        return start, start + length
    count = length - 0x80
    if not 1 <= count <= _LONGEST:
        raise MessageError("the answer is not of LDAP")
    place, start = start, start + count
    if start > len(data):
        return None
    return start, start + int.from_bytes(data[place:start], "big")


def measure(data: bytes) -> None:
    """Raises MessageError unless a list and all values within it fit into what holds them.

    Reading with `ldap3` is safe after this alone: it holds no length against what is there, so that
    it cuts a value short and makes up the next, and it takes minutes for a number of a megabyte.

    >>> measure(bytes([0x30, 3, 4, 1, 65]))
    >>> measure(bytes([0x30, 3, 4, 2, 65]))
    Traceback (most recent call last):
        ...
    matchmaker.glue.readers.ldap_connection.MessageError: a value of LDAP is longer than its room
    """
    place, ends = 0, [len(data)]
    while ends:
        if place == ends[-1]:
            ends.pop()
            continue
        tag, found = data[place], _content(data, place)
        if found is None:
            raise MessageError("a value of LDAP ends half-way")
        place, end = found
        if end > ends[-1]:
            raise MessageError("a value of LDAP is longer than its room")
        if tag in _NUMBERS and not 1 <= end - place <= _NUMBER_SIZE:
            raise MessageError("a number of LDAP is missing or too large")
        if tag in _FLAT and len(ends) > 1:
            place = end
        elif tag & _BUILT and len(ends) <= _DEEPEST:
            ends.append(end)
        else:
            raise MessageError("the answer is not of LDAP")
