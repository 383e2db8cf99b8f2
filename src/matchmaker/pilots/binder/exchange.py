"""The binder's one room: its book, the free slots, those who wait, and who is connected.

Each event becomes a change (``moves``). It is entered at once, stored by one task, and said to
pilots only once it is stored; so what a pilot heard is never forgotten. A job whose client is
connected is never given again after a restart, so its words need not wait for the storage. All
methods are called in one event loop. What peers may say is in ``server``.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from matchmaker.classad import ClassAd, parse_ad
from matchmaker.delegation.errors import LedgerError
from matchmaker.matching.pool import Pool
from matchmaker.pilots.binder import moves
from matchmaker.pilots.binder.handlers import Handlers
from matchmaker.pilots.binder.pairing import pair, why_waiting
from matchmaker.pilots.binder.proxy import End, join
from matchmaker.pilots.binder.states import (
    Change,
    Job,
    Kind,
    Session,
    Stage,
    Word,
    apply,
)  # fmt: skip
from matchmaker.pilots.binder.tables import Tables
from matchmaker.pilots.wire.connection import ClosedError, Connection
from matchmaker.pilots.wire.frames import FrameKind
from matchmaker.pilots.wire.tokens import Scope, Token, sign

SLOT_KEY: Final = "BinderSlot"
"""The attribute that names a free slot among all of a binder; the binder sets it."""
MOST_ENDED: Final = 10_000
"""How many jobs that have ended are kept; the oldest go first."""
_AGAIN_SECONDS: Final = 1.0
_LATER_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.5
_EXPLAIN_SECONDS: Final = 5.0
"""How long a client waits until it is looked why it waits."""
_QUICK_GIVINGS: Final = 8
"""After how many givings a job that comes back waits before it is given again."""
_FIRST_REST: Final = 0.1
_LONGEST_REST: Final = 10.0
_DIRECT_SECONDS: Final = 60.0
"""How long the token of a direct pair is good."""
_REST: Final = 4
"""After a look at all who wait, no other one is made for as many times as long as it took."""


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


class Exchange:
    """What a binder knows. ``store``, ``bring_together`` and ``watch`` are its tasks.

    Attributes:
        book: jobs and sessions.
        slots: the ads of the free slots.
        pilots: the connection of each pilot that is connected, by its session.
        revoked: the ids of tokens that are refused.
        trouble: why changes cannot be stored at the moment; empty where they can.
    """

    def __init__(
        self, tables: Tables, *, lease: float, clock: Callable[[], float],
        applications: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """Reads what was stored.

        Args:
            tables: where changes are stored.
            lease: for how many seconds a pilot may be silent, by its own clock.
            clock: seconds that follow no jump.
            applications: those, in lower case, whose pairs go through a handler.

        Raises:
            LedgerError: the tables cannot be read.
        """
        self.lease = lease
        self.slots = Pool(key=SLOT_KEY)
        self.pilots: dict[str, Connection] = {}
        self.trouble = ""
        self.revoked = set(tables.revoked())
        self._tables = tables
        self._handlers = Handlers(applications)
        self._tasks: set[asyncio.Task[None]] = set()
        self._clock = clock
        self._offers: dict[str, Offer] = {}
        self._given: dict[tuple[str, int], Offer] = {}
        self._waiting: dict[str, ClassAd] = {}
        self._new: dict[str, ClassAd] = {}
        self._clients: dict[str, Connection] = {}
        self._watchers: dict[str, set[asyncio.Future[None]]] = {}
        # Threads are few, and the storage needs one.
        self._explaining = asyncio.Semaphore(1)
        self._ended: deque[str] = deque()
        self._open: dict[str, set[str]] = {}
        self._to_store: list[tuple[Change, asyncio.Future[None] | None]] = []
        self._stored_soon = asyncio.Event()
        self._stored_later: asyncio.TimerHandle | None = None
        self._paired_soon = asyncio.Event()
        self._more_slots = False
        self.book, change = moves.restored(*tables.read(), clock())
        for job in self.book.jobs.values():
            self._entered(job)
        self.post(change)

    # --- changes

    def post(self, change: Change) -> None:
        """Enters a change, which is stored soon and then said."""
        self._enter(change, None)

    async def settle(self, change: Change) -> None:
        """Enters a change, and waits until it is stored."""
        if change:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._enter(change, done)
            await done

    async def stored(self) -> None:
        """Waits until all that was entered so far is stored."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._to_store.append((Change(), done))
        self._stored_soon.set()
        await done

    def _enter(self, change: Change, done: asyncio.Future[None] | None) -> None:
        apply(self.book, change)
        for job in change.jobs:
            self._entered(job)
        for name in change.over:
            self._leave(name)
        attached = not (change.begun or change.over) and not any(j.detached for j in change.jobs)
        if attached:
            self._say(change.words)
            change = attrs.evolve(change, words=())
        if change.stored or done is not None:
            self._to_store.append((change, done))
            if change.words or done is not None:
                self._stored_soon.set()
            elif self._stored_later is None:
                # Nobody waits for it: several such changes are one write.
                loop = asyncio.get_running_loop()
                self._stored_later = loop.call_later(_LATER_SECONDS, self._stored_soon.set)

    def _entered(self, job: Job) -> None:
        if job.stage is Stage.QUEUED and job.id not in self._waiting:
            if job.epoch < _QUICK_GIVINGS:
                self._waits(job)
            else:
                # Its pilots may decline it at once, again and again.
                wait = min(_LONGEST_REST, _FIRST_REST * 2.0 ** min(job.epoch - _QUICK_GIVINGS, 20))
                asyncio.get_running_loop().call_later(wait, self._waits, job)
        elif job.stage is not Stage.QUEUED:
            self._waiting.pop(job.id, None)
            self._new.pop(job.id, None)
        if job.stage is not Stage.GIVEN:
            self._given.pop((job.id, job.epoch), None)
        if job.stage.open:
            self._open.setdefault(job.owner, set()).add(job.id)
        else:
            self._shut(job.owner, job.id)
            self._ended.append(job.id)
            self._clients.pop(job.id, None)
            for watcher in self._watchers.pop(job.id, ()):
                if not watcher.done():
                    watcher.set_result(None)

    def _waits(self, job: Job) -> None:
        """Looks for a slot for a job, if nothing has become of it meanwhile."""
        if self.book.jobs.get(job.id) is job:
            self._waiting[job.id] = self._new[job.id] = parse_ad(job.ad)
            self._paired_soon.set()

    def _shut(self, owner: str, id_: str) -> None:
        mine = self._open.get(owner, set())
        mine.discard(id_)
        if not mine:
            self._open.pop(owner, None)

    async def store(self) -> None:
        """Stores changes, and says their words. A failed write is repeated until it succeeds.

        Raises SupersededError where another binder works with the tables.
        """
        while True:
            await self._stored_soon.wait()
            self._stored_soon.clear()
            if self._stored_later is not None:
                self._stored_later.cancel()
                self._stored_later = None
            batch, self._to_store = self._to_store, []
            await self._written([change for change, _ in batch])
            for change, done in batch:
                self._say(change.words)
                if done is not None and not done.done():
                    done.set_result(None)
            await self._forget()

    async def _written(self, changes: list[Change]) -> None:
        while True:
            try:
                await asyncio.to_thread(self._tables.write, changes)
            except LedgerError as error:
                self.trouble = str(error)
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                self.trouble = ""
                return

    async def _forget(self) -> None:
        old: list[str] = []
        while len(self._ended) > MOST_ENDED:
            job = self.book.jobs.get(self._ended.popleft())
            if job is not None and not job.stage.open:
                old.append(job.id)
        if old:
            self.book.forget(dict.fromkeys(old))
            try:
                await asyncio.to_thread(self._tables.forget, old)
            except LedgerError as error:
                self.trouble = str(error)

    # --- words

    def _say(self, words: Iterable[Word]) -> None:
        for word in words:
            if word.kind is Kind.PAIRED:
                client = self._clients.get(word.job)
                try:
                    self._pair(word)
                except ValueError as error:
                    self._unsaid(word, client, str(error))
                continue
            control = self.pilots.get(word.session)
            if control is not None and word.kind is Kind.OVER:
                control.send(FrameKind.OVER)
            elif control is not None:
                control.send(FrameKind(word.kind), job=word.job, epoch=word.epoch)

    def _pair(self, word: Word) -> None:
        offer = self._given.get((word.job, word.epoch))
        job = self.book.jobs.get(word.job)
        if job is None or job.epoch != word.epoch or job.stage is not Stage.GIVEN:
            return
        if offer is None or not offer.connection.open:
            reason = "its slot left before it came"
            self.post(moves.declined(self.book, word.session, job.id, job.epoch, reason))
            return
        fields = {"job": job.id, "epoch": job.epoch, "ad": job.ad, "stream": not job.detached}
        if job.detached:
            offer.connection.send(FrameKind.PAIRED, **fields)
            return
        client = self._clients.pop(job.id, None)
        # From now on the connection is the pair's, and its end is no lost slot.
        self._given.pop((job.id, job.epoch), None)
        ad = parse_ad(job.ad)
        application = self._handlers.wanted(ad)
        if not application and offer.direct and ad.eval("Direct") is True:
            _introduce(client, offer, job, fields)
            return
        offer.connection.send(FrameKind.PAIRED, **fields)
        if not application:
            self._joined(word, client, offer.connection, fields, ())
            return
        task = asyncio.get_running_loop().create_task(
            self._through(application, word, client, offer.connection, fields)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _unsaid(self, word: Word, client: Connection | None, why: str) -> None:
        """A pairing is too long to be said: the job ends, and its pilot offers the slot anew."""
        offer = self._given.get((word.job, word.epoch))
        if client is not None:
            client.send(FrameKind.FAILED, reason=why)
            client.close(why)
        self.post(moves.cancel(self.book, word.job, why))
        if offer is not None:
            offer.connection.close(why)

    async def _through(
        self, application: str, word: Word, client: Connection | None, slot: Connection,
        fields: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Makes a pair by way of a handler's process."""
        try:
            between = await self._handlers.sides(application, fields["ad"])
        except ClosedError as error:
            slot.close(str(error))
            if client is not None:
                client.send(FrameKind.FAILED, reason=str(error))
                client.close(str(error))
            self.post(moves.cancel(self.book, word.job, str(error)))
            return
        self._joined(word, client, slot, fields, between)

    def _joined(
        self, word: Word, client: Connection | None, slot: Connection, fields: Mapping[str, Any],
        between: Sequence[Connection],
    ) -> None:  # fmt: skip
        try:
            over = _carry(client, slot, fields, between)
        except ClosedError as error:
            # Its pilot may have heard of it, and is to say that it does not run it.
            self.post(moves.cancel(self.book, word.job, str(error)))
        else:
            over.add_done_callback(lambda _: self._unstarted(word))

    def _unstarted(self, word: Word) -> None:
        """A pair's connections have ended: asks its pilot for a job of which it said nothing."""
        job, control = self.book.jobs.get(word.job), self.pilots.get(word.session)
        if job is not None and job.stage is Stage.GIVEN and control is not None:
            control.send(FrameKind.KILL, job=word.job, epoch=word.epoch)

    async def close(self) -> None:
        """Ends what belongs to pairs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._handlers.close()

    # --- pilots and slots

    def session(self, name: str, subject: str) -> Session | None:
        """The session of a name, where it belongs to a subject."""
        found = self.book.sessions.get(name)
        return found if found is not None and found.subject == subject else None

    def offer(self, offer: Offer, ad: ClassAd) -> None:
        """Enters a free slot."""
        ad[SLOT_KEY] = offer.key
        self.slots.update(ad)
        self._offers[offer.key] = offer
        self._more_slots = True
        self._paired_soon.set()

    def withdraw(self, offer: Offer) -> None:
        """Takes a slot back, if it is still free."""
        if self._offers.pop(offer.key, None) is not None:
            self.slots.remove(offer.key)

    def _leave(self, session: str) -> None:
        """Takes back all slots of a session that is over, or whose pilot is not connected."""
        for offer in [each for each in self._offers.values() if each.session == session]:
            self.withdraw(offer)
            offer.connection.close("its pilot has gone")

    def gone(self, session: str, control: Connection) -> None:
        """The connection of a pilot has ended; the pilot may come back within its lease."""
        if self.pilots.get(session) is control:
            del self.pilots[session]
            self._leave(session)

    def unheard(self, slots: Connection) -> None:
        """A connection of slots has ended: asks the pilot for the jobs that may have got lost."""
        for (id_, epoch), offer in self._given.items():
            control = self.pilots.get(offer.session)
            if offer.connection is slots and control is not None:
                control.send(FrameKind.KILL, job=id_, epoch=epoch)

    # --- clients

    def wait(self, job: Job, client: Connection) -> None:
        """Enters a job whose client is connected and waits for a slot."""
        self._clients[job.id] = client
        self.post(moves.submit(self.book, job)[1])

    def open_jobs(self, owner: str) -> int:
        """How many jobs of an owner may still change."""
        return len(self._open.get(owner, ()))

    async def revoke(self, token: str, ends: float) -> None:
        """Refuses a token by its id until its end, in seconds since 1970. Raises LedgerError."""
        await asyncio.to_thread(self._tables.revoke, token, ends, time.time())
        self.revoked.add(token)

    async def why(self, id_: str) -> str:
        """Why a job that is queued has no slot yet, in words."""
        ad = self._waiting.get(id_)
        if ad is None:
            return ""
        try:
            async with asyncio.timeout(_EXPLAIN_SECONDS):
                await self._explaining.acquire()
        except TimeoutError:
            return "the binder has not looked why: many others wait"
        try:
            return await asyncio.to_thread(why_waiting, self.slots, ad)
        finally:
            self._explaining.release()

    async def all_ended(self, ids: Iterable[str], seconds: float) -> None:
        """Waits until jobs have ended, or the time is over."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                for id_ in ids:
                    job = self.book.jobs.get(id_)
                    if job is not None and job.stage.open:
                        watcher: asyncio.Future[None] = loop.create_future()
                        self._watchers.setdefault(id_, set()).add(watcher)
                        try:
                            await watcher
                        finally:
                            self._unwatch(id_, watcher)
        except TimeoutError:
            pass

    def _unwatch(self, id_: str, watcher: asyncio.Future[None]) -> None:
        watchers = self._watchers.get(id_, set())
        watchers.discard(watcher)
        if not watchers:
            self._watchers.pop(id_, None)

    def waiting(self) -> dict[str, ClassAd]:
        """The ads of the jobs that have no slot, by their ids."""
        return dict(self._waiting)

    # --- tasks

    async def bring_together(self) -> None:
        """Gives slots to those who wait, at each change of either.

        Those who are new are looked at as soon as they come; all who wait, when slots have come,
        and seldom where that takes long.
        """
        next_whole = 0.0
        while True:
            wait = next_whole - time.monotonic() if self._more_slots else None
            try:
                async with asyncio.timeout(wait):
                    await self._paired_soon.wait()
            except TimeoutError:
                pass
            self._paired_soon.clear()
            begun = time.monotonic()
            if whole := self._more_slots and begun >= next_whole:
                self._more_slots = False
            waiting, self._new = self._waiting if whole else self._new, {}
            for id_, key in (pair(self.slots, waiting) if waiting else {}).items():
                offer = self._offers[key]
                self.withdraw(offer)
                change = moves.give(self.book, id_, offer.session)
                for word in change.words:
                    self._given[word.job, word.epoch] = offer
                self.post(change)
            if whole:
                next_whole = time.monotonic() + _REST * (time.monotonic() - begun)
            await asyncio.sleep(0)

    async def watch(self) -> None:
        """Ends the sessions of pilots that were silent for too long."""
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, self.lease / 10))
            change = moves.expire(self.book, self._clock(), 1.25 * self.lease)
            for name in change.over:
                if (control := self.pilots.get(name)) is not None:
                    control.send(FrameKind.OVER)
            self.post(change)


def _carry(
    client: Connection | None, slot: Connection, paired: Mapping[str, Any],
    between: Sequence[Connection],
) -> asyncio.Future[None]:  # fmt: skip
    """Makes two connections a pair; the future is done when the slot's one has ended.

    Args:
        client: the client's connection.
        slot: the pilot's one.
        paired: what the client hears.
        between: connections to a handler, for the client's and the pilot's side; or none.

    Raises ClosedError, and ends all, where one has ended already.
    """
    try:
        if client is None:
            raise ClosedError("its client has gone")  # noqa: TRY301 - all end as below
        client.send(FrameKind.PAIRED, **paired)
        if not between:
            return _join(client, slot)
        _join(client, between[0])
        return _join(between[1], slot)
    except ClosedError as error:
        for each in (client, slot, *between):
            if each is not None:
                each.close(str(error))
        raise


def _join(one: Connection, other: Connection) -> asyncio.Future[None]:
    """Makes two connections carry each other's bytes; the future is done when the other ends."""
    ends = End(), End()
    early = one.hand_over(ends[0]), other.hand_over(ends[1])
    join(*ends)
    for end, data in zip(ends, early, strict=True):
        end.data_received(data)
    return ends[1].over


def _introduce(
    client: Connection | None, offer: Offer, job: Job, paired: Mapping[str, Any]
) -> None:
    """Sends a client to its pilot's own port, with a token for this job alone."""
    key = secrets.token_bytes(32)
    token = sign(
        key,
        Token(
            subject=job.owner, scope=Scope.CLIENT, pool=job.id, ends=time.time() + _DIRECT_SECONDS
        ),
    )
    offer.connection.send(FrameKind.PAIRED, **paired, key=key.hex())
    if client is not None:
        client.send(
            FrameKind.PAIRED, **paired, direct=offer.direct, certificate=offer.certificate,
            token=token,
        )  # fmt: skip
        client.close("it talks to its pilot")
