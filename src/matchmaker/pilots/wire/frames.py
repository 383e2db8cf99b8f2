"""Frames: what pilots, clients and the binder say to each other, one JSON object each.

A frame is the length of what follows, in four bytes, the highest first, and a JSON object in UTF-8
with its ``kind``. ``FrameKind`` lists the fields that each kind must have. A reader passes over
other fields, so that a later program may add some. Who may say what, and when, is not here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from math import isfinite
from types import MappingProxyType
from typing import Any, Final, Self

import attrs

VERSIONS: Final = (2,)
"""The versions of the protocol that this program speaks, the best last."""
GREETING_BYTES: Final = 8 << 10
"""The longest frame before a peer has proven itself."""
MOST_BYTES: Final = 256 << 10
"""The longest frame afterwards."""
MOST_PIECE: Final = 96 << 10
"""How many bytes of a job's output one frame carries, as text in base 64."""
_HEAD: Final = 4
_MOST_DIGITS: Final = 300
_UNSTORED: Final = re.compile("[\0\ud800-\udfff]")
"""Halves of characters, which UTF-8 has not, and the null byte, which PostgreSQL has not."""


Fields = Mapping[str, type | tuple[type, ...]]


class FrameError(ValueError):
    """A peer sent what is no frame, or none that fits here."""


class FrameKind(StrEnum):
    """What a frame says, and the fields that it must have, with the types of their values."""

    fields: Fields

    def __new__(cls, name: str, fields: Fields = MappingProxyType({})) -> Self:
        """A kind by its name."""
        kind = str.__new__(cls, name)
        kind._value_, kind.fields = name, fields
        return kind

    HELLO = "hello", {"versions": list, "role": str, "token": str, "nonce": str}
    CHALLENGE = "challenge", {"version": int, "nonce": str, "proof": str}
    PROOF = "proof", {"proof": str}
    WELCOME = "welcome"
    REFUSED = "refused", {"reason": str}

    REGISTER = "register", {"ad": str, "session": str, "running": dict}
    REGISTERED = "registered", {"session": str, "lease": (int, float), "token": str}
    BEAT = "beat", {"number": int}
    ALIVE = "alive", {"number": int}
    DECLINED = "declined", {"job": str, "epoch": int, "reason": str}
    CHUNK = "chunk", {"job": str, "epoch": int, "name": str, "offset": int, "data": str}
    STORED = "stored", {"job": str, "epoch": int, "name": str, "size": int, "reason": str}
    ENDED = "ended", {"job": str, "epoch": int, "result": str}
    LEAVE = "leave", {"reason": str}
    KILL = "kill", {"job": str, "epoch": int}
    ACKNOWLEDGE = "acknowledge", {"job": str, "epoch": int}
    OVER = "over"
    STOP = "stop", {"reason": str}

    OFFER = "offer", {"session": str, "slot": str, "ad": str}
    PAIRED = "paired", {"job": str, "epoch": int, "ad": str, "stream": bool}
    ACCEPTED = "accepted", {"job": str, "epoch": int}

    CONNECT = "connect", {"ad": str, "seconds": (int, float)}
    WAITING = "waiting", {"job": str, "reason": str}
    SUBMIT = "submit", {"key": str, "ad": str}
    SUBMIT_ALL = "submit_all", {"jobs": list}
    ASK = "ask", {"jobs": list, "seconds": (int, float)}
    FETCH = "fetch", {"job": str, "name": str, "offset": int}
    PIECE = "piece", {"data": str, "size": int}
    CANCEL = "cancel", {"job": str, "reason": str}
    JOBS = "jobs", {"jobs": list}

    TOKEN = "token", {"subject": str, "owners": list, "seconds": (int, float)}

    STATUS = "status"
    REVOKE = "revoke", {"token": str, "ends": (int, float)}
    END = "end", {"session": str, "reason": str}
    DONE = "done"
    FAILED = "failed", {"reason": str}


@attrs.frozen(slots=True)
class Frame:
    """One frame.

    Attributes:
        kind: what it says.
        fields: all its fields but the kind; those that its kind must have are there.
        size: how many bytes it came in.
    """

    kind: FrameKind
    fields: Mapping[str, Any] = attrs.field(factory=dict)
    size: int = attrs.field(default=0, eq=False, repr=False)

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]


def encode(kind: FrameKind, **fields: Any) -> bytes:
    r"""The bytes of a frame.

    Raises ValueError where it is longer than a peer takes, or holds what JSON cannot.

    >>> encode(FrameKind.BEAT, number=7)
    b'\x00\x00\x00\x1a{"kind":"beat","number":7}'
    """
    if lacking := kind.fields.keys() - fields.keys():
        raise ValueError(f"{kind} needs {', '.join(sorted(lacking))}")
    body = canonical({"kind": kind, **fields})
    if len(body) > MOST_BYTES:
        raise ValueError(f"a {kind} of {len(body)} bytes; at most {MOST_BYTES} can be sent")
    return len(body).to_bytes(_HEAD) + body


def canonical(fields: Mapping[str, Any]) -> bytes:
    """One text for equal objects: keys in order, no spaces, ASCII."""
    return _WRITER.encode(fields).encode("ascii")


def decode(body: bytes) -> Frame:
    """The frame of a body, without its length. Raises FrameError, and nothing else.

    >>> decode(b'{"kind": "beat", "number": 7, "later": true}')
    Frame(kind=<FrameKind.BEAT: 'beat'>, fields={'number': 7, 'later': True})
    """
    try:
        found = _READER.decode(body.decode())
    except (ValueError, RecursionError):
        raise FrameError("a frame that is no JSON object") from None
    if not isinstance(found, dict):
        raise FrameError("a frame that is no JSON object")
    if b"\\u" in body and not _storable(found):
        raise FrameError("a frame with text that holds a null byte, or half a character")
    name = found.pop("kind", None)
    try:
        kind = FrameKind(name)
    except ValueError:
        raise FrameError(f"a frame of the unknown kind {str(name)[:40]!r}") from None
    for field, types in kind.fields.items():
        value = found.get(field)
        if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
            raise FrameError(f"{kind}: {field} is missing or of another type than it must be")
    return Frame(kind, found, len(body))


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is too large")
    return value


def _whole(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits is too large")
    return int(text)


def _storable(found: object) -> bool:
    """Whether every text can be stored; only an escape brings one in that cannot."""
    at = [found]
    while at:
        value = at.pop()
        if isinstance(value, str) and _UNSTORED.search(value):
            return False
        if isinstance(value, dict):
            at += (*value, *value.values())
        elif isinstance(value, list):
            at += value
    return True


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


_READER: Final = json.JSONDecoder(parse_constant=_no_number, parse_float=_finite, parse_int=_whole)
_WRITER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


class Decoder:
    """Cuts the bytes of one connection into frames.

    ``limit`` is the length of the longest frame that is taken, and may change between frames.
    """

    __slots__ = ("_buffer", "limit")

    def __init__(self, limit: int = GREETING_BYTES) -> None:
        self.limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Takes bytes as they come."""
        self._buffer += data

    def next(self) -> Frame | None:
        r"""The next frame, or None where it is not yet whole.

        Raises FrameError; nothing more can be read then.

        >>> decoder = Decoder()
        >>> decoder.feed(encode(FrameKind.BEAT, number=1) + b"\0")
        >>> decoder.next(), decoder.next(), decoder.rest()
        (Frame(kind=<FrameKind.BEAT: 'beat'>, fields={'number': 1}), None, b'\x00')
        """
        buffer = self._buffer
        if len(buffer) < _HEAD:
            return None
        length = int.from_bytes(buffer[:_HEAD])
        if length > self.limit:
            raise FrameError(f"a frame of {length} bytes; at most {self.limit} are taken here")
        if len(buffer) < _HEAD + length:
            return None
        body = bytes(buffer[_HEAD : _HEAD + length])
        del buffer[: _HEAD + length]
        return decode(body)

    def __len__(self) -> int:
        """How many bytes wait."""
        return len(self._buffer)

    def rest(self) -> bytes:
        """What came and was not yet read, which is given away."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest
