"""Makes a pair of a client and a free slot: end to end, through a handler, or directly.

``pairing`` chooses the slot, ``exchange`` changes the job, and ``proxy`` passes the bytes on.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from matchmaker.classad import parse_ad
from matchmaker.pilots.binder.ads import asked
from matchmaker.pilots.binder.handlers import Handlers
from matchmaker.pilots.binder.proxy import End, join
from matchmaker.pilots.binder.states import Job
from matchmaker.pilots.wire.connection import ClosedError, Connection
from matchmaker.pilots.wire.frames import FrameKind
from matchmaker.pilots.wire.tokens import Scope, Token, sign

_DIRECT_SECONDS: Final = 60.0
"""How long the token of a direct pair is good."""


@attrs.define(slots=True, eq=False)
class Offer:
    """A free slot, and the connection on which its pilot waits for a job.

    ``direct`` is the address at which a client may reach it, with its certificate in PEM.
    """

    session: str
    slot: str
    connection: Connection
    direct: str = ""
    certificate: str = ""
    key: str = attrs.field(factory=lambda: secrets.token_hex(8))


@attrs.frozen(slots=True, kw_only=True)
class Pair:
    """A client and a slot that become a pair.

    Attributes:
        job: the job for the slot.
        client: the client's connection; None if it has ended.
        offer: the slot.
        lost: called with the reason if no pair was made; all connections have ended then.
        over: called when the pair has ended.
        grant: a token for the job, sent only to the slot; empty for none.
    """

    job: Job
    client: Connection | None
    offer: Offer
    lost: Callable[[str], object]
    over: Callable[[], object]
    grant: str = attrs.field(default="", repr=False)

    @property
    def said(self) -> dict[str, Any]:
        """What both hear."""
        job = self.job
        return {"job": job.id, "epoch": job.epoch, "ad": job.ad, "stream": not job.detached}

    @property
    def given(self) -> dict[str, Any]:
        """What the slot hears."""
        return {**self.said, "grant": self.grant} if self.grant else self.said


class Joining:
    """Makes pairs; a pair through a handler takes a while, and is a task."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, pair: Pair) -> None:
        """Makes a pair. Raises ValueError for a job that is too long for a frame."""
        ad = parse_ad(pair.job.ad)
        application = self._handlers.wanted(ad)
        if not application and pair.offer.direct and asked(ad, "Direct") is True:
            _introduce(pair)
            return
        pair.offer.connection.send(FrameKind.PAIRED, **pair.given)
        if not application:
            _joined(pair)
            return
        task = asyncio.get_running_loop().create_task(self._through(application, pair))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _through(self, application: str, pair: Pair) -> None:
        """Makes a pair by way of a handler's process."""
        try:
            between = await self._handlers.sides(application, pair.job.ad)
        except ClosedError as error:
            pair.offer.connection.close(str(error))
            if pair.client is not None:
                pair.client.send(FrameKind.FAILED, reason=str(error))
                pair.client.close(str(error))
            pair.lost(str(error))
            return
        _joined(pair, between)

    async def close(self) -> None:
        """Ends the handlers, and what waits for them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._handlers.close()


def _joined(pair: Pair, between: Sequence[Connection] = ()) -> None:
    """Makes the connections of a pair pass bytes on, or ends all if one has already ended.

    ``between`` are connections to a handler, for the client's and the pilot's side; or none.
    """
    client, slot = pair.client, pair.offer.connection
    try:
        if client is None:
            raise ClosedError("its client has gone")  # noqa: TRY301 - all end as below
        client.send(FrameKind.PAIRED, **pair.said)
        if between:
            _join(client, between[0])
            ending = _join(between[1], slot)
        else:
            ending = _join(client, slot)
    except ClosedError as error:
        for each in (client, slot, *between):
            if each is not None:
                each.close(str(error))
        pair.lost(str(error))
    else:
        ending.add_done_callback(lambda _: pair.over())


def _join(one: Connection, other: Connection) -> asyncio.Future[None]:
    """Makes two connections pass on each other's bytes; the future is done when the other ends."""
    ends = End(), End()
    early = one.hand_over(ends[0]), other.hand_over(ends[1])
    join(*ends)
    for end, data in zip(ends, early, strict=True):
        end.data_received(data)
    return ends[1].over


def _introduce(pair: Pair) -> None:
    """Sends a client to its pilot's own port, with a token for this job alone."""
    job, offer, key = pair.job, pair.offer, secrets.token_bytes(32)
    ends = time.time() + _DIRECT_SECONDS
    token = sign(key, Token(subject=job.owner, scope=Scope.CLIENT, pool=job.id, ends=ends))
    offer.connection.send(FrameKind.PAIRED, **pair.given, key=key.hex())
    if pair.client is not None:
        pair.client.send(
            FrameKind.PAIRED, **pair.said, direct=offer.direct, certificate=offer.certificate,
            token=token,
        )  # fmt: skip
        pair.client.close("it talks to its pilot")
