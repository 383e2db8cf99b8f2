"""Makes a pair of a client and a slot: end to end, through a handler, or directly.

``pairing`` chooses the slot, ``exchange`` changes the job, and ``proxy`` passes the bytes on.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any, Final

import attrs

from matchmaker.classad import ClassAd
from matchmaker.pilots.binder.proxy import End, join
from matchmaker.pilots.binder.states import Job
from matchmaker.pilots.wire.connection import Connection
from matchmaker.pilots.wire.frames import FrameKind
from matchmaker.pilots.wire.tokens import Scope, Token, sign

_DIRECT_SECONDS: Final = 60.0
"""How long the token of a direct pair is good."""


@attrs.define(slots=True, eq=False)
class Offer:
    """A free slot, and the connection on which its pilot waits for a job.

    A message of the pilot may cross the one that gives it a job. So from the moment that a slot is
    taken, later offers on its connection count for nothing until the pilot has answered.

    Attributes:
        session: the pilot's session.
        slot: the pilot's name of it.
        connection: where its pilot waits.
        ad: as its pilot sent it.
        direct: the address at which a client may reach it; empty for none.
        certificate: of that address, in PEM.
        key: names it among all free slots.
        owners: those whose jobs alone it was entered for; empty for anybody's.
        taken: whether a job was chosen for it.
        job: the job, once the pilot was told of it; None before.
        secret: signs the token of a client that goes to ``direct``.
    """

    session: str
    slot: str
    connection: Connection
    ad: ClassAd
    direct: str = ""
    certificate: str = ""
    key: str = attrs.field(factory=lambda: secrets.token_hex(8))
    owners: str = ""
    taken: bool = False
    job: Job | None = None
    secret: bytes = attrs.field(default=b"", repr=False)

    def give(self, job: Job, *, grant: str = "", directly: bool = False) -> None:
        """Tells the pilot of its job. Raises ValueError for one that is too long for a frame."""
        more = {"grant": grant} if grant else {}
        if directly:
            self.secret = secrets.token_bytes(32)
            more["key"] = self.secret.hex()
        self.connection.send(FrameKind.PAIRED, **_said(job), **more)
        self.job = job


def joined(
    job: Job, client: Connection, slot: Connection, between: Sequence[Connection] = ()
) -> None:
    """Makes the connections of a pair pass bytes on.

    All are open but perhaps the slot's: a pilot may be done before its client hears of it.
    ``between`` are connections to a handler, for the client's and the pilot's side; or none.
    """
    client.send(FrameKind.PAIRED, **_said(job))
    near = client
    if between:
        _join(client, between[0])
        near = between[1]
    if slot.open:
        _join(near, slot)
    else:
        near.finish(slot.rest())


def _join(one: Connection, other: Connection) -> None:
    """Makes two connections pass on each other's bytes."""
    ends = End(), End()
    early = one.hand_over(ends[0]), other.hand_over(ends[1])
    join(*ends)
    for end, data in zip(ends, early, strict=True):
        end.data_received(data)


def introduce(job: Job, client: Connection, offer: Offer) -> None:
    """Sends a client to its pilot's own port, with a token for this job alone."""
    ends = time.time() + _DIRECT_SECONDS
    made = Token(subject=job.owner, scope=Scope.CLIENT, pool=job.id, ends=ends)
    client.send(
        FrameKind.PAIRED, **_said(job), direct=offer.direct, certificate=offer.certificate,
        token=sign(offer.secret, made),
    )  # fmt: skip
    client.close("it talks to its pilot")


def _said(job: Job) -> dict[str, Any]:
    """What both hear."""
    return {"job": job.id, "epoch": job.epoch, "ad": job.ad, "stream": not job.detached}
