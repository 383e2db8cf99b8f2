"""A binder's settings, and limits on the frames that strangers send."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Final

import attrs

from matchmaker.pilots.wire.frames import Frame, FrameKind

MOST_TEXT: Final = 1000
"""How many characters of a reason are kept."""
MOST_KEY: Final = 128
"""How long a job's key and a slot's name may be."""
_FRAMES: Final = 200
"""How many frames a second are taken from one connection for long."""
_AT_ONCE: Final = 400
_BYTES: Final = 4096
"""How many bytes of a frame count as one frame."""
_PIECE_BYTES: Final = 16_384
"""And of a piece of output, which is stored and not read."""


@attrs.frozen(slots=True, kw_only=True)
class Settings:
    """A binder's settings.

    Attributes:
        name: its name; a token holds it as its pool.
        key: signs tokens; 32 random bytes.
        host: where it listens.
        port: where it listens; 0 for any free one.
        tls: its certificate; needed to listen beyond this machine.
        lease: seconds for which a pilot may be silent.
        most_connections: the limit on connections at the same time.
        most_jobs: the limit on the open jobs of a client.
        most_bytes: the limit on the bytes of a client's open jobs together.
        handled: the applications, in lower case, whose pairs go through a handler.
        most_output: the limit on the bytes of a job's output, of its errors, and of its files.
        most_stored: the limit on the bytes of these of all jobs of an owner.
    """

    name: str = "binder"
    key: bytes = attrs.field(repr=False)
    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    lease: float = 60.0
    most_connections: int = 50_000
    most_jobs: int = 10_000
    most_bytes: int = 16 << 20
    handled: frozenset[str] = frozenset()
    most_output: int = 16 << 20
    most_stored: int = 1 << 30


class Pace:
    """Limits how fast frames are read from one connection."""

    __slots__ = ("_last", "_left")

    def __init__(self) -> None:
        self._left = float(_AT_ONCE)
        self._last = time.monotonic()

    async def step(self, frame: Frame) -> None:
        """Waits until a frame may be read; at least until other tasks had their turn."""
        bytes_ = _PIECE_BYTES if frame.kind is FrameKind.CHUNK else _BYTES
        now = time.monotonic()
        self._left = min(float(_AT_ONCE), self._left + (now - self._last) * _FRAMES)
        self._left -= max(1.0, frame.size / bytes_)
        self._last = now
        await asyncio.sleep(max(0.0, -self._left / _FRAMES))
