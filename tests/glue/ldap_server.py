"""A server that says over LDAP whatever a test lets it say, byte by byte."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


def ber(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    length = bytes([size]) if size < 0x80 else b"\x84" + size.to_bytes(4, "big")
    return bytes([tag]) + length + content


def message(number: int, operation: bytes, controls: bytes = b"") -> bytes:
    return ber(0x30, ber(0x02, number.to_bytes(4, "big")), operation, controls)


def entry(number: int, name: str, **attributes: bytes) -> bytes:
    pairs = [
        ber(0x30, ber(0x04, key.encode()), ber(0x31, ber(0x04, value)))
        for key, value in attributes.items()
    ]
    return message(number, ber(0x64, ber(0x04, name.encode()), ber(0x30, *pairs)))


def queue(number: int, name: str = "q", **attributes: bytes) -> bytes:
    dn = f"GlueCEUniqueID=h:1/jm-pbs-{name},o=grid"
    ident = f"h:1/jm-pbs-{name}".encode()
    return entry(number, dn, objectClass=b"GlueCE", GlueCEUniqueID=ident, **attributes)


def done(number: int, code: int = 0, cookie: bytes = b"", extra: bytes = b"") -> bytes:
    page = ber(0x30, ber(0x02, b"\0"), ber(0x04, cookie))
    control = ber(0x30, ber(0x04, b"1.2.840.113556.1.4.319"), ber(0x04, page))
    outcome = code.to_bytes(code.bit_length() // 8 + 1, "big")  # its first bit is the sign
    result = ber(0x65, ber(0x0A, outcome), ber(0x04), ber(0x04), extra)
    return message(number, result, ber(0xA0, control))


def overrun(number: int) -> bytes:
    """An entry whose name says that it is longer than the message."""
    return message(number, ber(0x64, b"\x04\x7fo=grid"))


def ends_session() -> bytes:
    """A notice of disconnection, as of RFC 4511, section 4.4.1."""
    return message(0, ber(0x78, ber(0x0A, b"\x34"), ber(0x04), ber(0x04, b"going down")))


Answer = Callable[[socket.socket, int], None]


@contextmanager
def server(answer: Answer, host: str = "127.0.0.1") -> Iterator[str]:
    """The URL of a server that answers each request by a function of the peer and its number."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                peer, _ = listening.accept()
                with peer, suppress(OSError):
                    while request := peer.recv(10_000):
                        # 30 length 02 length number: the first length may take several bytes
                        start = 2 if request[1] < 0x80 else 2 + (request[1] & 0x7F)
                        number = request[start + 2 : start + 2 + request[start + 1]]
                        answer(peer, int.from_bytes(number, "big"))

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            shown = f"[{host}]" if ":" in host else host
            yield f"ldap://{shown}:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            listening.close()
            thread.join()
