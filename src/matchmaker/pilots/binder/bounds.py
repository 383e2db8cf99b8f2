"""What a binder goes by: its settings, and the bounds that hold for what strangers send."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from typing import Final

import attrs

from matchmaker.classad import ClassAd, ParseError, parse_ad

MOST_AD: Final = 192 << 10
"""How many bytes an ad may take as a text of JSON."""
MOST_RESULT: Final = 32 << 10
"""How many characters of a job's result are kept."""
MOST_TEXT: Final = 1000
"""How many characters of a reason are kept."""
MOST_KEY: Final = 128
"""How long a job's key and a slot's name may be."""
_FRAMES: Final = 200
"""How many frames a second are taken from one connection for long."""
_AT_ONCE: Final = 400


@attrs.frozen(slots=True, kw_only=True)
class Settings:
    """What a binder goes by.

    Attributes:
        name: its name, which tokens bear.
        key: signs tokens; 32 random bytes.
        host: where it listens.
        port: where it listens; 0 for any free one.
        tls: its certificate; needed beyond this machine.
        lease: for how many seconds a pilot may be silent.
        most_connections: how many there may be at once.
        most_jobs: how many open jobs each client may have.
        handled: the applications, in lower case, whose pairs go through a handler.
    """

    name: str = "binder"
    key: bytes = attrs.field(repr=False)
    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    lease: float = 60.0
    most_connections: int = 50_000
    most_jobs: int = 10_000
    handled: frozenset[str] = frozenset()


class Pace:
    """How fast the frames of one connection are taken."""

    __slots__ = ("_last", "_left")

    def __init__(self) -> None:
        self._left = float(_AT_ONCE)
        self._last = time.monotonic()

    async def step(self) -> None:
        """Waits until one more may be taken; at least until others had their turn."""
        now = time.monotonic()
        self._left = min(float(_AT_ONCE), self._left + (now - self._last) * _FRAMES) - 1
        self._last = now
        await asyncio.sleep(max(0.0, -self._left / _FRAMES))


def sendable(text: str) -> str:
    """The text of an ad. Raises ValueError where it is too long to be sent on."""
    if len(text) > MOST_AD or len(json.dumps(text)) > MOST_AD:
        raise ValueError(f"an ad of over {MOST_AD} bytes; shorten it")
    return text


def an_ad(text: str) -> ClassAd:
    """The ad of a text. Raises ValueError for no ad, and for one that is too long to be sent on."""
    try:
        return parse_ad(sendable(text))
    except ParseError as error:
        raise ValueError(f"the ad cannot be read: {error}") from None
