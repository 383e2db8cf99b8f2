"""A client of a binder: ask for a pilot and talk to it, or submit jobs that run without the client.

``wire`` describes the frames, and ``docs/binder.md`` the ads of jobs.
"""

from __future__ import annotations

import json
import os
import ssl
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs

from matchmaker.classad import ClassAd, parse_ad
from matchmaker.pilots.wire.connection import ClosedError, Connection, PairStream, dial
from matchmaker.pilots.wire.protocol import (
    ERR,
    FILE,
    OUT,
    Frame,
    FrameKind,
    PeerRefusedError,
    Role,
    is_path,
)

# Jobs of a request, and their bytes: the binder accepts so many, and a frame holds them.
_TOGETHER = 100
_TOGETHER_BYTES = 180 << 10
"""How many jobs, and how many bytes of them, one request takes."""
# Jobs of an answer: the binder lists so many.
_ASKED = 60
# Beyond its own wait, a busy binder has so many seconds to answer.
_GRACE = 30.0


class NoSlotError(PeerRefusedError):
    """No slot came in time; the message says why."""


@attrs.frozen(slots=True, kw_only=True)
class BinderAddress:
    """The address of a binder as ``HOST:PORT``, with the text of a token.

    ``tls`` checks the binder's certificate; needed beyond this machine.
    """

    address: str
    token: str = attrs.field(repr=False)
    tls: ssl.SSLContext | None = None


def here(environment: Mapping[str, str] = os.environ) -> BinderAddress:
    """Return the binder of the environment, as a job that may connect finds it.

    ``CLASSAD_BINDER`` is its address, ``CLASSAD_BINDER_TOKEN`` a file with a token, and the
    optional ``CLASSAD_BINDER_CA`` a file with the authority of its certificate.

    Raises ValueError if one of the first two is missing, and OSError.
    """
    address, file = (environment.get(f"CLASSAD_BINDER{more}", "") for more in ("", "_TOKEN"))
    if not (address and file):
        raise ValueError("no binder in the environment: CLASSAD_BINDER and CLASSAD_BINDER_TOKEN")
    ca = environment.get("CLASSAD_BINDER_CA")
    tls = tls_context([ca]) if ca else None
    return BinderAddress(address=address, token=Path(file).read_text("ascii").strip(), tls=tls)


@attrs.frozen(slots=True, kw_only=True)
class JobFacts:
    """A job as a binder describes it.

    Attributes:
        key: the client's name of it.
        stage: queued, given, running, ended, cancelled or lost.
        given: how often it was given to a pilot.
        reason: why it was cancelled, lost or given again; empty otherwise.
        result: its pilot's report of its end; None before, and if many jobs were requested.
        ad: its ad, if requested.
        output: the stored bytes of its parts, by their names; of one job alone.
    """

    id: str
    owner: str
    key: str
    stage: str
    given: int
    reason: str
    result: ClassAd | None
    ad: ClassAd | None = None
    output: Mapping[str, int] = MappingProxyType({})

    @property
    def over(self) -> bool:
        """Whether it cannot change any more."""
        return self.stage in {"ended", "cancelled", "lost"}


@attrs.frozen(slots=True, kw_only=True)
class OutputPart:
    """A part of an ended job's output: standard output (``out``), errors (``err``), or a file.

    ``size`` is its length at the pilot, ``stored`` at the binder; ``data`` has its bytes if the
    result's ad holds them. The name of a file begins with ``file:``.
    """

    name: str
    size: int
    stored: int
    data: bytes = attrs.field(default=b"", repr=False)

    @property
    def whole(self) -> bool:
        """Whether all of it was stored."""
        return self.stored == self.size

    @property
    def path(self) -> tuple[str, ...]:
        """Its path in a directory of its own: ``out``, ``err``, or below ``files``."""
        before, _, name = self.name.rpartition(FILE)
        return ("files", *name.split("/")) if not before and name != self.name else (self.name,)


def parts(job: JobFacts) -> list[OutputPart]:
    """Return the parts of an ended job's output.

    Names of files that lead out of a directory are left out, whatever the pilot reported.

    >>> done = parse_ad('[ Out = "hello"; OutputFiles = {"a", "../b"}; OutputSizes = {7, 7} ]')
    >>> facts = JobFacts(id="1", owner="ana", key="1", stage="ended", given=1, reason="",
    ...                  result=done, output={"file:a": 5})
    >>> [(each.name, each.size, each.stored, each.path) for each in parts(facts)]
    [('out', 5, 5, ('out',)), ('err', 0, 0, ('err',)), ('file:a', 7, 5, ('files', 'a'))]
    """
    result = job.result if job.result is not None else ClassAd()
    found = []
    for name, text, size in ((OUT, "Out", "OutBytes"), (ERR, "Err", "ErrBytes")):
        number, shown = result.eval(size), result.eval(text)
        if isinstance(number, int):
            found.append(OutputPart(name=name, size=number, stored=job.output.get(name, 0)))
        else:
            data = shown.encode() if isinstance(shown, str) else b""
            found.append(OutputPart(name=name, size=len(data), stored=len(data), data=data))
    names, sizes = result.eval("OutputFiles"), result.eval("OutputSizes")
    if isinstance(names, list) and isinstance(sizes, list):
        for name, size in zip(names, sizes, strict=False):
            if isinstance(name, str) and isinstance(size, int) and is_path(name):
                part = f"{FILE}{name}"
                stored = job.output.get(part, 0)
                found.append(OutputPart(name=part, size=size, stored=stored))
    return found


@asynccontextmanager
async def paired(
    place: BinderAddress, ad: ClassAd, *, seconds: float = 60.0,
    waiting: Callable[[str], None] | None = None,
) -> AsyncIterator[PairStream]:  # fmt: skip
    """Connect to a pilot, for as long as the block lasts.

    Args:
        place: the binder.
        ad: the client's ad: its requirements of a slot, and its job.
        seconds: how long to wait for a slot.
        waiting: called with the reason if there is none yet.

    Raises NoSlotError, PeerRefusedError, and all that ``wire.connection.dial`` raises.
    """
    connection = await dial(place.address, place.token, Role.CLIENT, place.tls)
    stream = PairStream()
    try:
        connection.send(FrameKind.CONNECT, ad=str(ad), seconds=seconds)
        while True:
            frame = await connection.receive(seconds + _GRACE)
            if frame.kind is FrameKind.WAITING:
                if waiting is not None:
                    waiting(frame["reason"])
                continue
            if frame.kind is FrameKind.FAILED and frame.fields.get("in_time") is False:
                raise NoSlotError(frame["reason"])
            connection.check(frame, FrameKind.PAIRED)
            break
        if "direct" in frame.fields:
            connection.close("it talks to its pilot")
            connection = await _directly(frame)
        stream.data_received(connection.hand_over(stream))
        yield stream
        with suppress(ConnectionError):
            await stream.end()
    finally:
        connection.close("the client has ended")
        stream.close()


async def _directly(frame: Frame) -> Connection:
    """Connect to the pilot's own port, to which a binder sent the client.

    Raises ClosedError for a bad address, and OSError and PeerRefusedError as ``dial`` does.
    """
    said = [frame.fields.get(name) for name in ("direct", "token", "certificate")]
    address, token, certificate = (each if isinstance(each, str) else "" for each in said)
    tls = None
    if certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # This certificate and no other; the name is of no weight, since no authority gave it.
        tls.check_hostname = False
        tls.load_verify_locations(cadata=certificate)
    return await dial(address, token, Role.CLIENT, tls)


class BinderClient:
    """A connection for requests; one at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def submit(self, ad: ClassAd, key: str) -> JobFacts:
        """Submit a job that runs without its client; the same job with the same key is one job.

        Raises PeerRefusedError with the reason if it was refused. After ClosedError or TimeoutError
        it may have been accepted: submit it again.
        """
        (job,) = await self._jobs(FrameKind.SUBMIT, key=key, ad=str(ad))
        return job

    async def submit_all(
        self, jobs: Iterable[tuple[str, ClassAd]]
    ) -> AsyncIterator[tuple[str, JobFacts | str]]:
        """Submit many jobs, a hundred in a request; yield each key, and its job or an error.

        Raises ClosedError, TimeoutError and PeerRefusedError as ``submit`` does, for the jobs left.
        """
        some: list[tuple[str, str]] = []
        size = 0
        for key, ad in jobs:
            text = str(ad)
            length = len(json.dumps([key, text]))
            if some and (size + length > _TOGETHER_BYTES or len(some) >= _TOGETHER):
                async for each in self._submit_some(some):
                    yield each
                some, size = [], 0
            some.append((key, text))
            size += length
        if some:
            async for each in self._submit_some(some):
                yield each

    async def _submit_some(
        self, some: list[tuple[str, str]]
    ) -> AsyncIterator[tuple[str, JobFacts | str]]:
        answer = await self._ask(FrameKind.SUBMIT_ALL, FrameKind.JOBS, jobs=some)
        for (key, _), said in zip(some, answer["jobs"], strict=True):
            yield key, said["refused"] if "refused" in said else _job(said)

    async def ended(self, ids: Sequence[str], *, seconds: float) -> AsyncIterator[JobFacts]:
        """Yield jobs with how they ended, when all have ended or the seconds are over.

        A result has ``ExitCode``, ``ExitSignal``, ``Reason`` and ``WallSeconds``. Raises
        PeerRefusedError if one is not a job of this client.
        """
        until = time.monotonic() + seconds
        for start in range(0, len(ids), _ASKED):
            some = list(ids[start : start + _ASKED])
            left = max(0.0, until - time.monotonic())
            for job in await self._jobs(FrameKind.ASK, seconds=left, jobs=some):
                yield job

    async def job(self, id_: str, *, seconds: float = 0.0) -> JobFacts:
        """Return a job with its result; wait for its end for some seconds, if given.

        Raises PeerRefusedError if it is not a job of this client.
        """
        (job,) = await self._jobs(FrameKind.ASK, seconds=seconds, jobs=[id_])
        return job

    async def read(self, job: JobFacts, part: OutputPart) -> AsyncIterator[bytes]:
        """Yield the stored bytes of a part of a job's output, in pieces.

        ``job`` has its result, as ``job`` returns it. Raises PeerRefusedError if the binder has
        deleted them meanwhile.
        """
        if part.data:
            yield part.data
        offset = len(part.data)
        while offset < part.stored:
            found = await self._ask(
                FrameKind.FETCH, FrameKind.PIECE, job=job.id, name=part.name, offset=offset
            )
            data = b64decode(found["data"])
            if not data:
                raise ClosedError(f"{part.name} ends at {offset} of {part.stored} bytes")
            yield data
            offset += len(data)

    async def jobs(self, *, ads: bool = False) -> AsyncIterator[JobFacts]:
        """Yield all jobs that the client may see, the latest first, without results."""
        after: dict[str, str] = {}
        while some := await self._jobs(FrameKind.ASK, jobs=[], seconds=0, ads=ads, **after):
            for job in some:
                yield job
            after = {"after": some[-1].id}

    async def cancel(self, id_: str, reason: str = "") -> JobFacts:
        """Cancel a job. Raises PeerRefusedError if it is not a job of this client."""
        (job,) = await self._jobs(FrameKind.CANCEL, job=id_, reason=reason)
        return job

    async def status(self) -> dict[str, Any]:
        """Return numbers of the binder; for admins."""
        return dict(await self._ask(FrameKind.STATUS, FrameKind.DONE))

    async def revoke(self, token: str, ends: float) -> None:
        """Refuse a token by its id until it ends, in seconds since 1970; for admins."""
        await self._ask(FrameKind.REVOKE, FrameKind.DONE, token=token, ends=ends)

    async def pilot_token(
        self, subject: str, *, owners: Sequence[str] = (), seconds: float
    ) -> str:  # fmt: skip
        """Return the text of a new pilot's token; for factories.

        The pilot must register within some seconds. The pilot gets only jobs of ``owners``; by
        default, those of the factory's token. Raises PeerRefusedError for other owners.
        """
        said = {"subject": subject, "owners": list(owners), "seconds": seconds}
        answer = await self._ask(FrameKind.TOKEN, FrameKind.DONE, 0.0, **said)
        return str(answer["token"])

    async def _jobs(self, kind: FrameKind, **fields: Any) -> list[JobFacts]:
        answer = await self._ask(kind, FrameKind.JOBS, fields.get("seconds", 0), **fields)
        return [_job(each) for each in answer["jobs"]]

    async def _ask(
        self, kind: FrameKind, wanted: FrameKind, wait: float = 0.0, **fields: Any
    ) -> dict[str, Any]:
        self._connection.send(kind, **fields)
        answer = await self._connection.expect(wanted, wait + _GRACE)
        return dict(answer.fields)


@asynccontextmanager
async def binder(place: BinderAddress, *, role: Role = Role.CLIENT) -> AsyncIterator[BinderClient]:
    """Open a connection for requests, for as long as the block lasts.

    Raises all that ``wire.connection.dial`` raises.
    """
    connection = await dial(place.address, place.token, role, place.tls)
    try:
        yield BinderClient(connection)
    finally:
        connection.close(f"the {role} has ended")


def admin(place: BinderAddress) -> AbstractAsyncContextManager[BinderClient]:
    """Open a connection as ``binder`` does, with the rights of an admin's token."""
    return binder(place, role=Role.ADMIN)


def factory(place: BinderAddress) -> AbstractAsyncContextManager[BinderClient]:
    """Open a connection as ``binder`` does, to ask for pilots' tokens and nothing else."""
    return binder(place, role=Role.FACTORY)


def tls_context(files: Iterable[str]) -> ssl.SSLContext:
    """Return a context that accepts certificates of some authorities alone. Raises OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for file in files:
        context.load_verify_locations(file)
    return context


def _job(said: dict[str, Any]) -> JobFacts:
    return JobFacts(
        id=said["job"], owner=said["owner"], key=said["key"], stage=said["stage"],
        given=said["given"], reason=said["reason"],
        result=parse_ad(said["result"]) if said["result"] else None,
        ad=parse_ad(said["ad"]) if "ad" in said else None, output=said.get("output", {}),
    )  # fmt: skip
