"""The binder's port: who may connect, which frames each role may send, and how fast.

``exchange`` applies frames to jobs and slots. Each connection is one task. It reads a frame when
the one before is done, and no faster than ``RateLimit`` allows. So a peer that floods is read
slowly, and slows nobody else. Clients and admins send requests, which are answered one after
another: a client sees its own jobs; an admin sees all jobs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from itertools import dropwhile, islice
from typing import Any, Final

import attrs

from matchmaker.classad import ClassAd, parse_ad
from matchmaker.delegation.database import LedgerError
from matchmaker.pilots.binder import admission, state
from matchmaker.pilots.binder.admission import (
    MOST_KEY,
    MOST_TEXT,
    BinderSettings,
    RateLimit,
    bounded_value,
    check_length,
    checked_result,
    job_token,
    parse_job_ad,
    parse_slot_ad,
    session_token,
    token_problem,
)
from matchmaker.pilots.binder.exchange import Exchange
from matchmaker.pilots.binder.relay import RelayEnd, SlotOffer
from matchmaker.pilots.binder.state import BinderJob, JobStage, PilotSession
from matchmaker.pilots.binder.tables import SupersededError, Tables
from matchmaker.pilots.node.task import check_job
from matchmaker.pilots.wire.connection import (
    GREETING_SECONDS,
    ClosedError,
    Connection,
    is_loopback,
    welcome,
)
from matchmaker.pilots.wire.protocol import (
    Frame,
    FrameKind,
    Greeting,
    PeerRefusedError,
    Role,
    Token,
    TokenScope,
)

_LOG: Final = logging.getLogger(__name__)
# A client hears after so many seconds why it waits; most are paired sooner.
_SOON: Final = 1.0
# A day: a client that waits longer asks again.
_MOST_SECONDS: Final = 86_400.0
# Jobs of an answer: one frame must hold them, with reasons that are cut.
_MOST_LISTED: Final = 60
# Characters of a reason in a list.
_LISTED_REASON: Final = 200
# Jobs of one request: between them other connections have their turn.
_MOST_TOGETHER: Final = 100
# Bytes of ads in an answer, which is one frame; one ad may be longer.
_MOST_ADS: Final = 64 << 10
# Jobs of one pilot: more than the processors of today's nodes.
_MOST_RUNNING: Final = 4096
_ANSWERS: Final = FrameKind.ACCEPTED, FrameKind.DECLINED


async def serve_client(
    connection: Connection, greeting: Greeting, exchange: Exchange, settings: BinderSettings
) -> None:
    """Serve a connection until it ends, or becomes one side of a pair.

    Raises PeerRefusedError for a frame that the client may not send, and ClosedError.
    """
    pace = RateLimit()
    while True:
        frame = await connection.receive()
        await pace.step(frame)
        if why := admission.token_problem(greeting.token, exchange.book, exchange.revoked):
            raise PeerRefusedError(why)
        try:
            if frame.kind is FrameKind.CONNECT and greeting.role is not Role.FACTORY:
                job = _new_job(greeting, _with_owner(greeting, frame["ad"]), exchange, settings)
                await _wait(connection, exchange, job, float(frame["seconds"]))
                return
            kind, fields = await _answer(greeting, frame, exchange, settings)
            connection.send(kind, **fields)
        except PeerRefusedError:
            raise
        except ValueError as error:
            connection.send(FrameKind.FAILED, reason=str(error)[:MOST_TEXT])


async def _answer(
    greeting: Greeting, frame: Frame, exchange: Exchange, settings: BinderSettings
) -> tuple[FrameKind, dict[str, Any]]:
    if greeting.role is Role.FACTORY:
        if frame.kind is not FrameKind.TOKEN:
            raise PeerRefusedError(f"a factory may not say {frame.kind}")
        made = admission.pilot_token(greeting.token, frame, settings.key, time.time())
        return FrameKind.DONE, {"token": made}
    match frame.kind:
        case FrameKind.SUBMIT:
            return FrameKind.JOBS, {"jobs": [await _submit(greeting, frame, exchange, settings)]}
        case FrameKind.SUBMIT_ALL:
            return FrameKind.JOBS, {"jobs": await _submit_all(greeting, frame, exchange, settings)}
        case FrameKind.ASK:
            return FrameKind.JOBS, {"jobs": await _ask(greeting, frame, exchange)}
        case FrameKind.FETCH:
            job = _job(greeting, exchange, frame["job"])
            if job.stage is not JobStage.ENDED:
                raise ValueError(f"the job is {job.stage}: only one that has ended has output")
            data = await exchange.outputs.piece(job.id, frame["name"], frame["offset"])
            size = exchange.outputs.sizes(job.id).get(frame["name"], 0)
            return FrameKind.PIECE, {"data": b64encode(data).decode("ascii"), "size": size}
        case FrameKind.CANCEL:
            job = _job(greeting, exchange, frame["job"])
            reason = frame["reason"][:MOST_TEXT] or "its owner cancelled it"
            await exchange.settle(state.cancel(exchange.book, job.id, reason))
            return FrameKind.JOBS, {"jobs": [_job_facts(_job(greeting, exchange, job.id))]}
    if greeting.role is not Role.ADMIN:
        raise PeerRefusedError(f"a client may not say {frame.kind}")
    match frame.kind:
        case FrameKind.STATUS:
            return FrameKind.DONE, await _status(exchange, settings)
        case FrameKind.REVOKE:
            await exchange.revoke(frame["token"][:MOST_KEY], float(frame["ends"]))
            return FrameKind.DONE, {}
        case FrameKind.END:
            control = exchange.pilots.get(frame["session"])
            if control is None:
                raise ValueError(f"no pilot of the session {frame['session'][:80]!r} is here")
            control.send(FrameKind.STOP, reason=frame["reason"][:MOST_TEXT])
            return FrameKind.DONE, {}
    raise PeerRefusedError(f"an admin may not say {frame.kind}")


def _with_owner(greeting: Greeting, text: str) -> str:
    """Return a job's ad with the subject of its client's token as ``Owner``."""
    ad = parse_job_ad(text)
    check_job(ad, bounded_value)
    admission.note_submitter(ad, greeting.token)
    ad["Owner"] = greeting.token.subject
    return check_length(str(ad))


def _new_job(
    greeting: Greeting, ad: str, exchange: Exchange, settings: BinderSettings, key: str = ""
) -> BinderJob:
    """Make a new job of the client; a job with a key continues without its client."""
    owner, id_ = greeting.token.subject, secrets.token_hex(8)
    job = BinderJob(id=id_, owner=owner, key=key or id_, ad=ad, detached=bool(key))
    count, size = exchange.open.of(owner)
    if count >= settings.most_jobs:
        raise ValueError(f"you have {settings.most_jobs} open jobs, which are the most")
    if size + job.bytes > settings.most_bytes:
        raise ValueError(
            f"your {count} open jobs take {size} bytes, and with this one more than the"
            f" {settings.most_bytes} that they may: wait for some to end"
        )
    exchange.storing.room()
    if admission.is_job_token(greeting.token):
        asker = greeting.token.id
        if exchange.open.of(asker)[0] >= admission.MOST_OPEN:
            raise ValueError(f"this job has {admission.MOST_OPEN} open jobs, which are the most")
        exchange.open.enter(owner, id_, job.bytes, asker)
    return job


async def _submit(
    greeting: Greeting, frame: Frame, exchange: Exchange, settings: BinderSettings
) -> dict[str, Any]:
    job = _enter_job(greeting, frame["key"], frame["ad"], exchange, settings)
    # A known one may be on its way into the storage, by an earlier request.
    await exchange.storing.stored()
    return _job_facts(exchange.book.jobs.get(job.id, job))


async def _submit_all(
    greeting: Greeting, frame: Frame, exchange: Exchange, settings: BinderSettings
) -> list[dict[str, Any]]:
    """Enter jobs, each by itself, and wait once until they are stored.

    The answer has them in their order; instead of a refused one, its key and the reason.
    """
    pairs = frame["jobs"]
    if not 0 < len(pairs) <= _MOST_TOGETHER or not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair)
        for pair in pairs
    ):
        raise ValueError(f"1 to {_MOST_TOGETHER} pairs of a key and an ad were expected")
    taken: list[BinderJob | dict[str, Any]] = []
    for key, text in pairs:
        try:
            taken.append(_enter_job(greeting, key, text, exchange, settings))
        except ValueError as error:
            taken.append({"key": key[:MOST_KEY], "refused": str(error)[:_LISTED_REASON]})
        # Others have their turn in between.
        await asyncio.sleep(0)
    await exchange.storing.stored()
    jobs = exchange.book.jobs
    return [
        _listed_facts(jobs.get(each.id, each)) if isinstance(each, BinderJob) else each
        for each in taken
    ]


def _enter_job(
    greeting: Greeting, key: str, text: str, exchange: Exchange, settings: BinderSettings
) -> BinderJob:
    """Return the client's job under a key, new or old. Raises ValueError."""
    ad = _with_owner(greeting, text)
    if not 0 < len(key) <= MOST_KEY or not key.isprintable():
        raise ValueError(f"a key of 1 to {MOST_KEY} printable characters was expected")
    book = exchange.book
    known = book.keys.get((greeting.token.subject, key))
    if known is None:
        new = _new_job(greeting, ad, exchange, settings, key)
        job, change = state.submit(book, new)
        exchange.post(change)
    else:
        job = book.jobs[known]
    if not admission.same_job(job.ad, ad):
        raise ValueError(f"the key {key} stands for the job {job.id}, which has another ad")
    return job


async def _ask(greeting: Greeting, frame: Frame, exchange: Exchange) -> list[dict[str, Any]]:
    ids, jobs = frame["jobs"], exchange.book.jobs
    if len(ids) > _MOST_LISTED or not all(isinstance(id_, str) for id_ in ids):
        raise ValueError(f"at most {_MOST_LISTED} ids of jobs were expected")
    if not ids:
        mine: Iterator[BinderJob] = (job for job in reversed(jobs.values()) if _sees(greeting, job))
        after = frame.fields.get("after")
        if after is not None:
            mine = islice(dropwhile(lambda job: job.id != after, mine), 1, None)
        return _page(mine, ads=frame.fields.get("ads") is True)
    named = [_job(greeting, exchange, id_).id for id_ in ids]
    if frame["seconds"] > 0:
        await exchange.all_ended(named, min(frame["seconds"], _MOST_SECONDS))
    found = [jobs[id_] for id_ in named if id_ in jobs]
    if len(found) == 1 == len(ids):
        job = await _explained(found[0], exchange)
        return [{**_job_facts(job), "output": exchange.outputs.sizes(job.id)}]
    return list(map(_brief_facts, found))


async def _explained(job: BinderJob, exchange: Exchange) -> BinderJob:
    """Add the reason to a job that waits: a slot's policy may refuse it."""
    if job.stage is not JobStage.QUEUED:
        return job
    why = await exchange.why(job.id)
    # What brought it back to the queue is worth reading, too.
    reason = "; ".join(filter(None, (job.reason, why)))
    return attrs.evolve(job, reason=reason[:MOST_TEXT])


def _page(jobs: Iterable[BinderJob], *, ads: bool) -> list[dict[str, Any]]:
    """Return as many jobs as an answer may list; at least one, if there is one."""
    page: list[dict[str, Any]] = []
    room = _MOST_ADS
    for job in islice(jobs, _MOST_LISTED):
        room -= len(json.dumps(job.ad)) if ads else 0
        if page and room < 0:
            break
        page.append({**_listed_facts(job), "ad": job.ad} if ads else _listed_facts(job))
    return page


def _sees(greeting: Greeting, job: BinderJob) -> bool:
    return greeting.token.scope is TokenScope.ADMIN or job.owner == greeting.token.subject


def _job(greeting: Greeting, exchange: Exchange, id_: str) -> BinderJob:
    job = exchange.book.jobs.get(id_)
    if job is None or not _sees(greeting, job):
        raise ValueError(
            f"there is no job {id_[:80]!r} of yours; a job has the id that its submission printed"
        )
    return job


async def _wait(connection: Connection, exchange: Exchange, job: BinderJob, seconds: float) -> None:
    """Wait for a slot, until the job has a pair, the connection breaks, or the time is over."""
    seconds = min(max(0.0, seconds), _MOST_SECONDS)
    exchange.wait(job, connection)
    why = "its client has gone"
    try:
        for step in (min(_SOON, seconds), max(0.0, seconds - _SOON)):
            try:
                await connection.receive(step)
            except TimeoutError:
                why = await exchange.why(job.id)
                if connection.open:
                    connection.send(FrameKind.WAITING, job=job.id, reason=why)
            else:
                raise PeerRefusedError("nothing is expected from a client that waits")
        reason = f"no slot came in {seconds:g} s: {why}"
        connection.send(FrameKind.FAILED, reason=reason[:MOST_TEXT], in_time=False)
    finally:
        exchange.leave(job.id, why)


async def _status(exchange: Exchange, settings: BinderSettings) -> dict[str, Any]:
    trouble, delays = exchange.storing.trouble, {}
    try:
        delays = await exchange.delays()
    except LedgerError as error:
        trouble = trouble or str(error)
    stages = Counter(str(job.stage) for job in exchange.book.jobs.values())
    return {
        "name": settings.name,
        "sessions": len(exchange.book.sessions),
        "pilots": len(exchange.pilots),
        "slots": len(exchange.slots),
        "jobs": {str(stage): stages[str(stage)] for stage in JobStage},
        "delays": delays,
        "trouble": trouble,
    }


def _job_facts(job: BinderJob) -> dict[str, Any]:
    return {
        "job": job.id, "owner": job.owner, "key": job.key, "stage": str(job.stage),
        "given": job.epoch, "reason": job.reason, "result": job.result,
    }  # fmt: skip


def _listed_facts(job: BinderJob) -> dict[str, Any]:
    facts = _job_facts(job)
    return {**facts, "reason": job.reason[:_LISTED_REASON], "result": ""}


def _brief_facts(job: BinderJob) -> dict[str, Any]:
    """Return a job among others that were requested by name, with how it ended."""
    result = ClassAd()
    if job.result:
        ad = parse_ad(job.result)
        for name in ("ExitCode", "ExitSignal", "Reason", "WallSeconds"):
            if name in ad:
                value = ad.eval(name)
                result[name] = value[:_LISTED_REASON] if isinstance(value, str) else value
    return {**_listed_facts(job), "result": str(result) if job.result else ""}


async def serve(
    settings: BinderSettings, tables: Tables, *, ready: Callable[[str], None], stop: asyncio.Event
) -> None:
    """Run a binder until ``stop`` is set; jobs go on, and pilots connect to the next run.

    ``ready`` is called with its address when it listens.

    Raises ValueError if it would listen beyond this machine without a certificate, OSError if it
    cannot listen, LedgerError if the tables cannot be read, and SupersededError if another binder
    works with them.
    """
    if settings.tls is None and not is_loopback(settings.host):
        raise ValueError(
            f"{settings.host} is not this machine: a certificate and its key are needed (TLS)"
        )
    loop = asyncio.get_running_loop()
    binder: _Binder

    def accept() -> asyncio.BaseProtocol:
        return binder.accept()

    # Who reads the tables ends the binder that works with them: not before the port is ours.
    server = await loop.create_server(
        accept, settings.host, settings.port, backlog=1024, start_serving=False,
        ssl=settings.tls, ssl_handshake_timeout=GREETING_SECONDS if settings.tls else None,
    )  # fmt: skip
    try:
        binder = _Binder(settings, tables)
        await server.start_serving()
    except BaseException:
        server.close()
        raise
    tasks: list[Coroutine[Any, Any, Any]] = [
        binder.exchange.store(), binder.exchange.match_jobs(), binder.exchange.expire_sessions(),
        stop.wait(),
    ]  # fmt: skip
    running = [loop.create_task(each) for each in tasks]
    host, port = server.sockets[0].getsockname()[:2]
    try:
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        ready(address)
        _LOG.info("binder listens", extra={"address": address, "binder": settings.name})
        ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await binder.end()
        _LOG.info("binder ended", extra={"binder": settings.name})


class _Accepted(Connection):
    """A connection that is served as soon as it is made, and counts until it is lost."""

    __slots__ = ("_begin", "_gone")

    def __init__(
        self, begin: Callable[[_Accepted], None], gone: Callable[[_Accepted], None]
    ) -> None:
        super().__init__()
        self._begin = begin
        self._gone = gone

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._begin(self)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._gone(self)

    def hand_over(self, protocol: asyncio.Protocol) -> bytes:
        if isinstance(protocol, RelayEnd):
            protocol.over.add_done_callback(lambda _: self._gone(self))
        return super().hand_over(protocol)


class _Binder:
    """The connections of a binder, each with its task."""

    def __init__(self, settings: BinderSettings, tables: Tables) -> None:
        self.settings = settings
        self.exchange = Exchange(
            tables, lease=settings.lease, clock=time.monotonic,
            applications=settings.handled,
            grant=lambda job: job_token(job, settings.key, settings.name),
            most_output=settings.most_output, most_stored=settings.most_stored,
        )  # fmt: skip
        self._tables = tables
        self._tasks: dict[asyncio.Task[None], Connection] = {}
        self._pieces: set[asyncio.Task[None]] = set()
        # Those of pairs too, which no task serves.
        self._open: set[_Accepted] = set()

    def accept(self) -> Connection:
        return _Accepted(self._begin, self._open.discard)

    def _begin(self, connection: _Accepted) -> None:
        if len(self._open) >= self.settings.most_connections:
            _LOG.warning("too many connections", extra={"most": self.settings.most_connections})
            connection.send(FrameKind.REFUSED, reason="the binder has too many connections")
            connection.close("too many connections")
            return
        self._open.add(connection)
        task = asyncio.get_running_loop().create_task(self._serve(connection))
        self._tasks[task] = connection
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def end(self) -> None:
        """End all connections."""
        tasks = dict(self._tasks)
        for task, connection in tasks.items():
            connection.close("the binder ends")
            task.cancel()
        await asyncio.gather(*tasks, *self._pieces, return_exceptions=True)
        await self.exchange.close()

    async def _serve(self, connection: Connection) -> None:
        try:
            greeting = await welcome(
                connection, self.settings.key, pool=self.settings.name, now=time.time,
                revoked=self.exchange.revoked,
            )  # fmt: skip
        except (PeerRefusedError, ClosedError, TimeoutError) as error:
            _LOG.info("greeting failed", extra={"reason": str(error) or "it took too long"})
            connection.close("the greeting failed")
            return
        if why := token_problem(greeting.token, self.exchange.book, self.exchange.revoked):
            connection.send(FrameKind.REFUSED, reason=why)
            connection.close(why)
            return
        self.exchange.greeted[connection] = greeting.token
        serves = {Role.PILOT: self._pilot, Role.SLOT: self._slot}
        try:
            await serves.get(greeting.role, self._requests)(connection, greeting)
        except ValueError as error:
            _LOG.warning(
                "peer refused",
                extra={"role": str(greeting.role), "subject": greeting.token.subject,
                       "reason": str(error)[:MOST_TEXT]},
            )  # fmt: skip
            connection.send(FrameKind.REFUSED, reason=str(error)[:MOST_TEXT])
        except (ClosedError, TimeoutError):
            pass
        finally:
            del self.exchange.greeted[connection]
            connection.close("it is over")

    async def _requests(self, connection: Connection, greeting: Greeting) -> None:
        await serve_client(connection, greeting, self.exchange, self.settings)

    # --- pilots

    async def _pilot(self, connection: Connection, greeting: Greeting) -> None:
        """Serve the connection on which a pilot reports."""
        exchange, pace, session = self.exchange, RateLimit(), ""
        storing: asyncio.Task[None] | None = None
        try:
            while True:
                # A pilot that is silent for longer than a lease has nothing to say any more.
                frame = await connection.receive(2 * self.settings.lease)
                await pace.step(frame)
                if frame.kind is FrameKind.REGISTER:
                    if not frame["session"] and session in exchange.book.sessions:
                        raise PeerRefusedError("register: it has a session on this connection")
                    exchange.pilot_lost(session, connection)
                    session = await self._register(connection, greeting, frame)
                elif not session:
                    raise PeerRefusedError(f"{frame.kind} came where register was expected")
                elif frame.kind is FrameKind.BEAT:
                    change = state.hear(exchange.book, session, time.monotonic())
                    exchange.post(change)
                    if not change.messages:
                        connection.send(FrameKind.ALIVE, number=frame["number"])
                elif frame.kind is FrameKind.LEAVE:
                    reason = f"its pilot left: {frame['reason'][:MOST_TEXT]}"
                    _LOG.info("pilot left", extra={"session": session, "reason": reason})
                    await exchange.settle(state.leave(exchange.book, session, reason))
                    connection.send(FrameKind.DONE)
                    return
                elif frame.kind is FrameKind.CHUNK:
                    if storing is not None and not storing.done():
                        raise PeerRefusedError("chunk: it came before the answer to the last one")
                    # The storage may be slow, and heartbeats do not wait for it.
                    storing = asyncio.create_task(self._piece(connection, session, frame))
                    self._pieces.add(storing)
                    storing.add_done_callback(self._pieces.discard)
                else:
                    self._report(session, frame)
        finally:
            exchange.pilot_lost(session, connection)

    async def _piece(self, connection: Connection, session: str, frame: Frame) -> None:
        """Store a piece of a job's output, and answer with the stored size."""
        said = {"job": frame["job"], "epoch": frame["epoch"]}
        try:
            taken = await self.exchange.outputs.take(session, frame)
        except ValueError as error:
            connection.send(FrameKind.REFUSED, reason=str(error)[:MOST_TEXT])
            connection.close(str(error))
            return
        except SupersededError as error:
            connection.close(str(error))
            return
        if taken is None:
            connection.send(FrameKind.KILL, **said)
            return
        size, why = taken
        connection.send(FrameKind.STORED, **said, name=frame["name"], size=size, reason=why)

    def _report(self, session: str, frame: Frame) -> None:
        book = self.exchange.book
        if frame.kind is FrameKind.DECLINED:
            reason = frame["reason"][:MOST_TEXT]
            change = state.declined(book, session, frame["job"], frame["epoch"], reason)
        elif frame.kind is FrameKind.ENDED:
            result = checked_result(frame["result"])
            change = state.ended(book, session, frame["job"], frame["epoch"], result)
        else:
            raise PeerRefusedError(f"a pilot may not say {frame.kind}")
        self.exchange.post(change)

    async def _register(self, connection: Connection, greeting: Greeting, frame: Frame) -> str:
        exchange = self.exchange
        ad = parse_job_ad(frame["ad"])
        running = frame["running"]
        if len(running) > _MOST_RUNNING or not all(type(n) is int for n in running.values()):
            raise PeerRefusedError(f"running: at most {_MOST_RUNNING} jobs with their epochs")
        name: str = frame["session"]
        now = time.monotonic()
        if name:
            if exchange.session(name, greeting.token) is None:
                connection.send(FrameKind.OVER)
                return ""
            change = state.resume(exchange.book, name, running, now)
        else:
            first = greeting.token.scope is TokenScope.PILOT
            try:
                exchange.storing.room()
                mine = not first or await exchange.use(greeting.token, _nonce(frame))
            except ValueError as error:
                # Storage is full or away. A refusal would end the pilot: it is to try again.
                raise ClosedError(str(error)) from None
            if not mine:
                raise PeerRefusedError("this token was used: each pilot needs one of its own")
            # A pilot that never heard of its session gets that one.
            if first and (name := exchange.begun_with(greeting.token)):
                change = state.resume(exchange.book, name, running, now)
            else:
                name = secrets.token_hex(16)
                change = state.begin(_begun(name, greeting.token, frame, now))
                await self._measure(ad)
        await exchange.settle(attrs.evolve(change, messages=()))
        _LOG.info(
            "pilot registered" if change.begun else "pilot came back",
            extra={"session": name, "subject": greeting.token.subject, "jobs": len(running)},
        )
        before = exchange.pilots.get(name)
        exchange.pilots[name] = connection
        if before is not None and before is not connection:
            before.close("its pilot came back on another connection")
        connection.send(
            FrameKind.REGISTERED, session=name, lease=self.settings.lease,
            token=session_token(greeting.token, self.settings.key, time.time()),
        )  # fmt: skip
        for message in change.messages:
            connection.send(message.kind, job=message.job, epoch=message.epoch)
        return name

    async def _measure(self, ad: ClassAd) -> None:
        """Record how long the pilot's queue took to start it, if its ad has the times."""
        queue, submitted = bounded_value(ad, "Queue"), bounded_value(ad, "SubmittedAt")
        if isinstance(queue, str) and isinstance(submitted, int | float):
            began = bounded_value(ad, "StartedAt")
            started = began if isinstance(began, int | float) else time.time()
            # It is a figure for estimates, and no reason to refuse a pilot.
            with suppress(LedgerError, ValueError, OverflowError):
                await asyncio.to_thread(
                    self._tables.measured, queue[:MOST_KEY], float(submitted), float(started)
                )

    async def _slot(self, connection: Connection, greeting: Greeting) -> None:
        """Serve a connection on which a pilot waits with a slot, for one job after another."""
        exchange, pace = self.exchange, RateLimit()
        offer: SlotOffer | None = None
        try:
            while True:
                frame = await connection.receive()
                await pace.step(frame)
                if frame.kind is FrameKind.OFFER:
                    # An offer that crossed ``paired`` is out of date.
                    if offer is None or not offer.taken:
                        offer = self._offered(connection, greeting, frame, offer)
                    continue
                job = None if offer is None else offer.job
                if offer is None or job is None or frame.kind not in _ANSWERS:
                    raise PeerRefusedError(f"{frame.kind} came where offer was expected")
                if (frame["job"], frame["epoch"]) != (job.id, job.epoch):
                    raise PeerRefusedError(f"{frame.kind}: {job.id} was given, another was named")
                given, offer = offer, None
                if frame.kind is FrameKind.DECLINED:
                    exchange.declined(given, frame["reason"][:MOST_TEXT])
                elif await exchange.accepted(given):
                    return
        finally:
            if offer is not None:
                exchange.slot_lost(offer)

    def _offered(
        self, connection: Connection, greeting: Greeting, frame: Frame, before: SlotOffer | None
    ) -> SlotOffer:
        """Enter a free slot, in place of the one that was offered before."""
        exchange = self.exchange
        session = exchange.session(frame["session"], greeting.token)
        if session is None or session.name not in exchange.pilots:
            raise PeerRefusedError("its session is over, or its pilot is not connected")
        if before is not None:
            exchange.withdraw(before)
        ad = parse_slot_ad(frame["ad"])
        found = (bounded_value(ad, name) for name in ("DirectAddress", "DirectCertificate"))
        direct, certificate = (each if isinstance(each, str) else "" for each in found)
        slot = frame["slot"][:MOST_KEY]
        offer = SlotOffer(session.name, slot, connection, ad, direct, certificate)
        exchange.offer(offer)
        return offer


def _nonce(frame: Frame) -> str:
    """Return the number that identifies a pilot that registers twice with one token."""
    nonce = frame.fields.get("nonce", "")
    if not isinstance(nonce, str) or len(nonce) > MOST_KEY:
        raise PeerRefusedError("nonce: a text was expected")
    return nonce


def _begun(name: str, token: Token, frame: Frame, now: float) -> PilotSession:
    """Make the new session of a pilot.

    Raises PeerRefusedError if it names whose jobs it has run before in a wrong form.
    """
    mixed, served = frame.fields.get("mixed") is True, frame.fields.get("served", "")
    if not isinstance(served, str) or " " in served or len(served) > MOST_KEY:
        raise PeerRefusedError("served: the name of an owner was expected")
    owners = " ".join(token.owners) or ("" if mixed else served)
    return PilotSession(
        name=name, subject=token.subject, ad=frame["ad"], heard=now, token=token.id,
        owners=owners, mixed=mixed,
    )  # fmt: skip
