"""Answers the requests of clients and admins, one after another on a connection.

A client sees its own jobs; an admin sees all jobs.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import dropwhile, islice
from typing import Any, Final

import attrs

from matchmaker.classad import ClassAd, parse_ad
from matchmaker.delegation.errors import LedgerError
from matchmaker.pilots.binder import grants, moves
from matchmaker.pilots.binder.ads import an_ad, asked, sendable
from matchmaker.pilots.binder.bounds import MOST_KEY, MOST_TEXT, Pace, Settings
from matchmaker.pilots.binder.exchange import Exchange
from matchmaker.pilots.binder.states import Job, Stage
from matchmaker.pilots.node.task import check_job
from matchmaker.pilots.wire.connection import Connection
from matchmaker.pilots.wire.frames import Frame, FrameKind
from matchmaker.pilots.wire.handshake import Greeting, RefusedError, Role
from matchmaker.pilots.wire.tokens import Scope

_SOON: Final = 1.0
"""Seconds after which a client hears why it waits."""
_MOST_SECONDS: Final = 86_400.0
_MOST_LISTED: Final = 60
"""How many jobs an answer lists, without their results and the ends of long reasons."""
_LISTED_REASON: Final = 200
_MOST_TOGETHER: Final = 100
"""How many jobs are submitted by one request."""
_MOST_ADS: Final = 64 << 10
"""How many bytes of ads an answer lists; one ad may be longer."""


async def client(
    connection: Connection, greeting: Greeting, exchange: Exchange, settings: Settings
) -> None:
    """Serves a connection until it ends, or becomes one side of a pair.

    Raises:
        RefusedError: the client sent a frame that it may not send.
        ClosedError: the connection has ended.
    """
    pace = Pace()
    while True:
        frame = await connection.receive()
        await pace.step(frame)
        if why := grants.refusal(greeting.token, exchange.book, exchange.revoked):
            raise RefusedError(why)
        try:
            if frame.kind is FrameKind.CONNECT and greeting.role is not Role.FACTORY:
                job = _new_job(greeting, _owned(greeting, frame["ad"]), exchange, settings)
                await _wait(connection, exchange, job, float(frame["seconds"]))
                return
            kind, fields = await _answer(greeting, frame, exchange, settings)
            connection.send(kind, **fields)
        except RefusedError:
            raise
        except ValueError as error:
            connection.send(FrameKind.FAILED, reason=str(error)[:MOST_TEXT])


async def _answer(
    greeting: Greeting, frame: Frame, exchange: Exchange, settings: Settings
) -> tuple[FrameKind, dict[str, Any]]:
    if greeting.role is Role.FACTORY:
        if frame.kind is not FrameKind.TOKEN:
            raise RefusedError(f"a factory may not say {frame.kind}")
        made = grants.pilot_token(greeting.token, frame, settings.key, time.time())
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
            if job.stage is not Stage.ENDED:
                raise ValueError(f"the job is {job.stage}: only one that has ended has output")
            data = await exchange.outputs.piece(job.id, frame["name"], frame["offset"])
            size = exchange.outputs.sizes(job.id).get(frame["name"], 0)
            return FrameKind.PIECE, {"data": b64encode(data).decode("ascii"), "size": size}
        case FrameKind.CANCEL:
            job = _job(greeting, exchange, frame["job"])
            reason = frame["reason"][:MOST_TEXT] or "its owner cancelled it"
            await exchange.settle(moves.cancel(exchange.book, job.id, reason))
            return FrameKind.JOBS, {"jobs": [_facts(_job(greeting, exchange, job.id))]}
    if greeting.role is not Role.ADMIN:
        raise RefusedError(f"a client may not say {frame.kind}")
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
    raise RefusedError(f"an admin may not say {frame.kind}")


def _owned(greeting: Greeting, text: str) -> str:
    """A job's ad with the subject of its client's token as ``Owner``, whatever the ad says."""
    ad = an_ad(text)
    check_job(ad, asked)
    grants.note(ad, greeting.token)
    ad["Owner"] = greeting.token.subject
    return sendable(str(ad))


def _new_job(
    greeting: Greeting, ad: str, exchange: Exchange, settings: Settings, key: str = ""
) -> Job:
    """A new job of the client; a job with a key continues without its client."""
    owner, id_ = greeting.token.subject, secrets.token_hex(8)
    job = Job(id=id_, owner=owner, key=key or id_, ad=ad, detached=bool(key))
    count, size = exchange.open.of(owner)
    if count >= settings.most_jobs:
        raise ValueError(f"you have {settings.most_jobs} open jobs, which are the most")
    if size + job.bytes > settings.most_bytes:
        raise ValueError(
            f"your {count} open jobs take {size} bytes, and with this one more than the"
            f" {settings.most_bytes} that they may: wait for some to end"
        )
    exchange.storing.room()
    if grants.is_jobs(greeting.token):
        asker = greeting.token.id
        if exchange.open.of(asker)[0] >= grants.MOST_OPEN:
            raise ValueError(f"this job has {grants.MOST_OPEN} open jobs, which are the most")
        exchange.open.enter(owner, id_, job.bytes, asker)
    return job


async def _submit(
    greeting: Greeting, frame: Frame, exchange: Exchange, settings: Settings
) -> dict[str, Any]:
    job = _entered(greeting, frame["key"], frame["ad"], exchange, settings)
    # A known one may be on its way into the storage, by an earlier request.
    await exchange.storing.stored()
    return _facts(exchange.book.jobs.get(job.id, job))


async def _submit_all(
    greeting: Greeting, frame: Frame, exchange: Exchange, settings: Settings
) -> list[dict[str, Any]]:
    """Enters jobs, each by itself, and waits once until they are stored; in their order.

    One that is not taken has its key and why in its place.
    """
    pairs = frame["jobs"]
    if not 0 < len(pairs) <= _MOST_TOGETHER or not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair)
        for pair in pairs
    ):
        raise ValueError(f"1 to {_MOST_TOGETHER} pairs of a key and an ad were expected")
    taken: list[Job | dict[str, Any]] = []
    for key, text in pairs:
        try:
            taken.append(_entered(greeting, key, text, exchange, settings))
        except ValueError as error:
            taken.append({"key": key[:MOST_KEY], "refused": str(error)[:_LISTED_REASON]})
        # Others have their turn in between.
        await asyncio.sleep(0)
    await exchange.storing.stored()
    jobs = exchange.book.jobs
    return [_listed(jobs.get(each.id, each)) if isinstance(each, Job) else each for each in taken]


def _entered(
    greeting: Greeting, key: str, text: str, exchange: Exchange, settings: Settings
) -> Job:
    """The client's job under a key: a new one, or the one that is there. Raises ValueError."""
    ad = _owned(greeting, text)
    if not 0 < len(key) <= MOST_KEY or not key.isprintable():
        raise ValueError(f"a key of 1 to {MOST_KEY} printable characters was expected")
    book = exchange.book
    known = book.keys.get((greeting.token.subject, key))
    if known is None:
        new = _new_job(greeting, ad, exchange, settings, key)
        job, change = moves.submit(book, new)
        exchange.post(change)
    else:
        job = book.jobs[known]
    if not grants.same(job.ad, ad):
        raise ValueError(f"the key {key} stands for the job {job.id}, which has another ad")
    return job


async def _ask(greeting: Greeting, frame: Frame, exchange: Exchange) -> list[dict[str, Any]]:
    ids, jobs = frame["jobs"], exchange.book.jobs
    if len(ids) > _MOST_LISTED or not all(isinstance(id_, str) for id_ in ids):
        raise ValueError(f"at most {_MOST_LISTED} ids of jobs were expected")
    if not ids:
        mine: Iterator[Job] = (job for job in reversed(jobs.values()) if _sees(greeting, job))
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
        return [{**_facts(job), "output": exchange.outputs.sizes(job.id)}]
    return list(map(_brief, found))


async def _explained(job: Job, exchange: Exchange) -> Job:
    """A job that waits, with the reason: a slot's policy may refuse it, and nobody would say so."""
    if job.stage is not Stage.QUEUED:
        return job
    why = await exchange.why(job.id)
    # What brought it back to the queue is worth reading, too.
    reason = "; ".join(filter(None, (job.reason, why)))
    return attrs.evolve(job, reason=reason[:MOST_TEXT])


def _page(jobs: Iterable[Job], *, ads: bool) -> list[dict[str, Any]]:
    """As many jobs as an answer may list; at least one, if there is one."""
    page: list[dict[str, Any]] = []
    room = _MOST_ADS
    for job in islice(jobs, _MOST_LISTED):
        room -= len(json.dumps(job.ad)) if ads else 0
        if page and room < 0:
            break
        page.append({**_listed(job), "ad": job.ad} if ads else _listed(job))
    return page


def _sees(greeting: Greeting, job: Job) -> bool:
    return greeting.token.scope is Scope.ADMIN or job.owner == greeting.token.subject


def _job(greeting: Greeting, exchange: Exchange, id_: str) -> Job:
    job = exchange.book.jobs.get(id_)
    if job is None or not _sees(greeting, job):
        raise ValueError(
            f"there is no job {id_[:80]!r} of yours; a job has the id that its submission printed"
        )
    return job


async def _wait(connection: Connection, exchange: Exchange, job: Job, seconds: float) -> None:
    """Waits for a slot, until the job has a pair, the connection breaks, or the time is over."""
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
                raise RefusedError("nothing is expected from a client that waits")
        reason = f"no slot came in {seconds:g} s: {why}"
        connection.send(FrameKind.FAILED, reason=reason[:MOST_TEXT], in_time=False)
    finally:
        exchange.leave(job.id, why)


async def _status(exchange: Exchange, settings: Settings) -> dict[str, Any]:
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
        "jobs": {str(stage): stages[str(stage)] for stage in Stage},
        "delays": delays,
        "trouble": trouble,
    }


def _facts(job: Job) -> dict[str, Any]:
    return {
        "job": job.id, "owner": job.owner, "key": job.key, "stage": str(job.stage),
        "given": job.epoch, "reason": job.reason, "result": job.result,
    }  # fmt: skip


def _listed(job: Job) -> dict[str, Any]:
    facts = _facts(job)
    return {**facts, "reason": job.reason[:_LISTED_REASON], "result": ""}


def _brief(job: Job) -> dict[str, Any]:
    """A job among others that were asked for by name: of its result, how it ended."""
    result = ClassAd()
    if job.result:
        ad = parse_ad(job.result)
        for name in ("ExitCode", "ExitSignal", "Reason", "WallSeconds"):
            if name in ad:
                value = ad.eval(name)
                result[name] = value[:_LISTED_REASON] if isinstance(value, str) else value
    return {**_listed(job), "result": str(result) if job.result else ""}
