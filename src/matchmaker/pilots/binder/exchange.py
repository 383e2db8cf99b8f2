"""The state of a running binder: its book, the free slots, the waiting jobs, the connections.

Each event becomes a change (``state``). The exchange enters it at once; one task stores it
(``tables``); then pilots get its messages. So the binder never forgets what it sent to a pilot. A
job whose client is connected ends with the binder, so its messages need not wait. ``relay`` joins
the connections of a pair, and ``server`` checks frames. All methods are called in one event loop.

The next ad to be matched is one of the owner whose ads have taken least time so far. So an owner
whose ads take long to match slows nobody else. The ads of one owner are matched in the order of
their arrival, new ones before those that are matched again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Sequence
from contextlib import closing, suppress
from heapq import heappop, heappush
from typing import Final
from weakref import WeakValueDictionary

import attrs

from matchmaker.classad import ClassAd, parse_ad
from matchmaker.classad.errors import printable
from matchmaker.classad.operators import ascii_fold
from matchmaker.matching.pool import Pool
from matchmaker.pilots.binder import state
from matchmaker.pilots.binder.admission import (
    MATCHING,
    MOST_OUTPUT,
    MOST_STORED,
    MOST_TEXT,
    bounded_value,
    job_token_id,
    token_problem,
)
from matchmaker.pilots.binder.relay import (
    APPLICATION,
    HandlerProcesses,
    SlotOffer,
    join_pair,
    send_directly,
)
from matchmaker.pilots.binder.state import (
    BinderChange,
    BinderJob,
    BinderMessage,
    JobStage,
    OpenJobs,
    PilotSession,
    apply_change,
)
from matchmaker.pilots.binder.tables import (
    OutputStore,
    PendingChanges,
    Tables,
)
from matchmaker.pilots.node.slots import for_owners
from matchmaker.pilots.wire.connection import ClosedError, Connection
from matchmaker.pilots.wire.protocol import FrameKind, Token, TokenScope

_LOG: Final = logging.getLogger(__name__)
APPLICATIONS: Final = "Applications"
"""The attribute of a slot's ad with the list of applications that its pilot has."""
# Slots ranked for a kind of clients at first: most rounds pair only a few of a kind.
_AT_FIRST: Final = 16
# By this factor more slots are ranked when those are taken, so that the ranking is paid for seldom.
_MORE: Final = 8
_OWN: Final = "the job's "
"""The beginning of a reason if the client's own ad took too many steps."""
# A reason is read on one line of a terminal.
_MOST_NAMES: Final = 8
# More than two suggestions hide the first one, which is the best.
_MOST_ADVICE: Final = 2
# An ad that took so long to match is not explained: that takes many times as long.
_LONG_SECONDS: Final = 0.2
# Owners whose turn has passed are remembered at least in this number: one that returns at once gets
# no second turn.
_MOST_SPENT: Final = 1000
SLOT_KEY: Final = "BinderSlot"
"""The attribute that names a free slot among all of a binder; the binder sets it."""
# Ended jobs that are kept for their clients to ask; the oldest go first.
MOST_ENDED: Final = 10_000
# And their bytes, since a result may have 32 KiB.
MOST_ENDED_BYTES: Final = 64 << 20
# How often leases, and a storage that is away, are looked at: small beside any lease.
_LOOK_SECONDS: Final = 0.5
# A client that asks why it waits gets another answer if so many others ask.
_EXPLAIN_SECONDS: Final = 5.0
# A job that returns to the queue is given again at once so often, and then waits before each time.
_QUICK_GIVINGS: Final = 8
# The wait doubles from the first to the longest, so that pilots that decline a job cost little.
_FIRST_REST: Final = 0.1
# A person who repairs such a pilot does not wait much longer than this.
_LONGEST_REST: Final = 10.0
# Matching holds up all connections: after this time they have their turn; the last ad may take
# longer.
_TURN_SECONDS: Final = 0.002


def pair(
    slots: Pool, waiting: Iterable[tuple[str, ClassAd]],
    refuse: Callable[[str, str], object] = lambda _, __: None,
) -> dict[str, str]:  # fmt: skip
    """Choose slots for the waiting clients.

    Slot and client must match both ways. Of the slots that match, the client gets the one that it
    ranks highest; of equal ones, the first by key. Clients whose ads are equal in all that matters
    are matched once. No ad raises.

    Args:
        slots: the ads of the free slots, which stay in the pool.
        waiting: the clients' ids and ads, in the order of their arrival. No more are requested
            after the last slot.
        refuse: called with the id of a client whose own ad takes more steps than the pool's limits
            allow, and with the reason.

    >>> slots = Pool([ClassAd(Name="s1", Cpus=2), ClassAd(Name="s2", Cpus=8)])
    >>> from matchmaker.classad import parse_ad
    >>> large = parse_ad("[ Requirements = TARGET.Cpus >= 2; Rank = TARGET.Cpus ]")
    >>> pair(slots, [("c1", large), ("c2", large), ("c3", large)])
    {'c1': 's2', 'c2': 's1'}
    """
    now = slots.snapshot()
    taken: set[str] = set()
    ranked: dict[Hashable, tuple[Sequence[str], int, str]] = {}
    pairs: dict[str, str] = {}
    for id_, ad in waiting if len(now) else ():
        kind = now.cluster(ad)
        if kind not in ranked:
            best = now.top(ad, _AT_FIRST)
            ranked[kind] = best.keys, 0, "" if best.keys else best.error or ""
        keys, place, error = ranked[kind]
        if error.startswith(_OWN):
            refuse(id_, error)
        while place < len(keys) and keys[place] in taken:
            place += 1
            if place == len(keys) < len(now):
                keys = now.top(ad, _MORE * len(keys)).keys
        ranked[kind] = keys, place, error
        if place < len(keys):
            pairs[id_] = keys[place]
            taken.add(keys[place])
            if len(taken) == len(now):
                break
    return pairs


def why_waiting(pilots: Pool, ad: ClassAd) -> str:
    """Return why a client has no pilot yet, in at most 1,000 characters.

    ``pilots`` has the ads of all slots, of busy ones too.

    >>> slots = Pool([ClassAd(Name="s1", Applications=["render"])])
    >>> why_waiting(slots, ClassAd(Application="blast"))
    'no pilot has the application blast; there are: render'
    >>> why_waiting(slots, ClassAd(Application="Render"))
    'all 1 slots that match are taken; the first that is free is yours'
    >>> why_waiting(Pool(), ClassAd())
    'no pilot is connected'
    """
    if not len(pilots):
        return "no pilot is connected"
    wanted = bounded_value(ad, APPLICATION)
    if isinstance(wanted, str):
        there = applications(pilots)
        if ascii_fold(wanted) not in map(ascii_fold, there):
            names = ", ".join(sorted(there)[:_MOST_NAMES]) or "none"
            more = f" and {len(there) - _MOST_NAMES} more" if len(there) > _MOST_NAMES else ""
            said = f"no pilot has the application {wanted}; there are: {names}{more}"
            return printable(said)[:MOST_TEXT]
    begun, found = time.thread_time(), pilots.match(ad)
    if time.thread_time() - begun > _LONG_SECONDS:
        return f"{len(found)} of {len(pilots)} slots match; its ad takes long to match: simplify it"
    if found:
        return f"all {len(found)} slots that match are taken; the first that is free is yours"
    why = pilots.explain(ad)
    parts = [why.summary(), *map(str, why.advice()[:_MOST_ADVICE])]
    return printable("; ".join(" ".join(part.split()) for part in parts))[:MOST_TEXT]


def applications(pilots: Pool) -> Collection[str]:
    """Return the applications of the pilots.

    >>> sorted(applications(Pool([ClassAd(Name="a", Applications=["x", "y"]), ClassAd(Name="b")])))
    ['x', 'y']
    """
    return {
        name
        for names in pilots.snapshot().values(APPLICATIONS) if isinstance(names, list)
        for name in names if isinstance(name, str)
    }  # fmt: skip


@attrs.define(slots=True, eq=False)
class _Owner:
    waiting: dict[str, ClassAd] = attrs.field(factory=dict)
    new: deque[str] = attrs.field(factory=deque)
    again: deque[str] = attrs.field(factory=deque)
    # Slots have come since they were begun to be looked at again.
    more: bool = False

    def take(self) -> str | None:
        """Return the next id that still waits; None if there is none."""
        for ids in (self.new, self.again):
            while ids:
                id_ = ids.popleft()
                if id_ in self.waiting:
                    return id_
        if self.more:
            self.more = False
            self.again.extend(self.waiting)
            return self.take()
        return None


class FairShare:
    """The waiting ads, by owner, and the next ad to match by the time that each owner has used.

    >>> turns, now = FairShare(), iter(range(9))
    >>> for owner, id_ in [("bad", "1"), ("bad", "2"), ("good", "3")]:
    ...     turns.enter(owner, id_, ClassAd())
    >>> [id_ for id_, _ in turns.turn(lambda: next(now), 5)]
    ['1', '3', '2']
    """

    def __init__(self) -> None:
        self._owners: dict[str, _Owner] = {}
        self._due: list[tuple[float, int, str]] = []
        self._listed: set[str] = set()
        self._spent: dict[str, float] = {}
        self._number = 0
        # The time of the last owner in turn: a new owner begins there, not at 0.
        self._now = 0.0

    def enter(self, owner: str, id_: str, ad: ClassAd) -> None:
        """Enter an ad, which is matched when it is its owner's turn."""
        mine = self._owners.setdefault(owner, _Owner())
        mine.waiting[id_] = ad
        mine.new.append(id_)
        self._list(owner)

    def leave(self, owner: str, id_: str) -> None:
        """Remove an ad, if it is there."""
        mine = self._owners.get(owner)
        if mine is not None:
            mine.waiting.pop(id_, None)
            if not mine.waiting:
                del self._owners[owner]

    def ad(self, owner: str, id_: str) -> ClassAd | None:
        """Return a waiting ad; None if it does not wait."""
        mine = self._owners.get(owner)
        return None if mine is None else mine.waiting.get(id_)

    @property
    def due(self) -> bool:
        """Whether an ad is to be matched."""
        while self._due and not self._wants(self._due[0][2]):
            self._unlist()
        return bool(self._due)

    def match_all_again(self) -> None:
        """Match all ads again, because slots have come."""
        for owner, mine in self._owners.items():
            mine.more = True
            self._list(owner)

    def none(self) -> None:
        """Match no ad before ``match_all_again``, because no slot is left."""
        for mine in self._owners.values():
            mine.new.clear()
            mine.again.clear()
            mine.more = False

    def turn(self, clock: Callable[[], float], seconds: float) -> Generator[tuple[str, ClassAd]]:
        """Yield the next ads to match, each with its id, until a number of seconds is over.

        The time until the next ad is requested is charged to the owner of the ad. ``clock`` is the
        processor time of the caller; one ad may take more than ``seconds``.
        """
        begun = last = clock()
        while self.due and last - begun < seconds:
            owner = self._unlist()
            mine = self._owners[owner]
            self._now = max(self._now, self._spent[owner])
            id_ = mine.take()
            if id_ is None:
                continue
            try:
                yield id_, mine.waiting[id_]
            finally:
                now = clock()
                self._spent[owner] += now - last
                last = now
                self._list(owner)

    def _wants(self, owner: str) -> bool:
        mine = self._owners.get(owner)
        return mine is not None and bool(mine.new or mine.again or mine.more)

    def _unlist(self) -> str:
        owner = heappop(self._due)[2]
        self._listed.discard(owner)
        return owner

    def _list(self, owner: str) -> None:
        if owner in self._listed or not self._wants(owner):
            return
        self._listed.add(owner)
        if len(self._spent) > _MOST_SPENT + 2 * len(self._listed):
            self._spent = {
                name: amount for name, amount in self._spent.items()
                if amount > self._now or name in self._listed
            }  # fmt: skip
        self._spent[owner] = max(self._spent.get(owner, 0.0), self._now)
        self._number += 1
        heappush(self._due, (self._spent[owner], self._number, owner))


class Exchange:
    """The state of a binder. ``store``, ``match_jobs`` and ``expire_sessions`` run as its tasks.

    ``pilots`` has the connection of each connected pilot by its session, ``greeted`` the token of
    each connection until it ends or joins a pair.
    """

    def __init__(
        self, tables: Tables, *, lease: float, clock: Callable[[], float],
        applications: Iterable[str] = (), grant: Callable[[BinderJob], str] = lambda _: "",
        most_output: int = MOST_OUTPUT, most_stored: int = MOST_STORED,
    ) -> None:  # fmt: skip
        """Read the stored book. Raises LedgerError.

        Args:
            tables: the storage of changes.
            lease: seconds for which a pilot may be silent, by its own clock.
            clock: a monotonic clock, in seconds.
            applications: the applications, in lower case, with a handler.
            grant: returns the token of a job that is given to a pilot; empty for none.
            most_output: the limit on the bytes of each kind of a job's output.
            most_stored: the limit on the bytes of the output of an owner's jobs together.
        """
        self.lease = lease
        self.slots = Pool(key=SLOT_KEY, limits=MATCHING)
        self.pilots: dict[str, Connection] = {}
        self.revoked = set(tables.revoked())
        self.greeted: dict[Connection, Token] = {}
        self.open = OpenJobs()
        self._grant = grant
        self._tables = tables
        self.storing = PendingChanges(tables, self._send)
        self._handlers = HandlerProcesses(applications)
        self._clock = clock
        self._offers: dict[str, SlotOffer] = {}
        self._given: dict[tuple[str, int], SlotOffer] = {}
        self._waiting = FairShare()
        self._clients: dict[str, Connection] = {}
        # Of jobs whose end somebody waits for, and holds the event as long.
        self._endings: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()
        # Threads are few, and the storage needs one.
        self._explaining = asyncio.Semaphore(1)
        self._ended: deque[str] = deque()
        self._ended_bytes = 0
        self._match_soon = asyncio.Event()
        self._more_slots = False
        self.book, change = state.restore(*tables.read(), clock())
        self.outputs = OutputStore(tables, self.book, most=most_output, each=most_stored)
        for job in self.book.jobs.values():
            self._job_changed(job)
        self.post(change)

    # --- changes

    def post(self, change: BinderChange) -> None:
        """Enter a change; it is stored soon, and then sent to pilots."""
        _log_change(change)
        apply_change(self.book, change)
        for job in change.jobs:
            self._job_changed(job)
        for name in change.over:
            self._leave(name)
        if not (change.begun or change.over or any(job.detached for job in change.jobs)):
            # Of such a job a restart knows nothing but its end: its messages need not wait for the
            # storage; yet no slot is given while the storage is away.
            away = bool(self.storing.trouble)
            later = tuple(
                message for message in change.messages if away and message.kind is FrameKind.PAIRED
            )
            self._send(message for message in change.messages if message not in later)
            change = attrs.evolve(change, messages=later)
        self.storing.add(change)

    async def settle(self, change: BinderChange) -> None:
        """Enter a change, and wait until it is stored."""
        if change:
            self.post(change)
            await self.storing.stored()

    def _job_changed(self, job: BinderJob) -> None:
        self.outputs.changed(job)
        if job.stage is JobStage.QUEUED and self._waiting.ad(job.owner, job.id) is None:
            if job.epoch < _QUICK_GIVINGS:
                self._enqueue(job)
            else:
                # Its pilots may decline it at once, again and again.
                wait = min(_LONGEST_REST, _FIRST_REST * 2.0 ** min(job.epoch - _QUICK_GIVINGS, 20))
                asyncio.get_running_loop().call_later(wait, self._enqueue, job)
        elif job.stage is not JobStage.QUEUED:
            self._waiting.leave(job.owner, job.id)
        if not job.stage.held and (asked := self.open.ids(job_token_id(job))):
            asyncio.get_running_loop().call_soon(self._end_dependents, asked)
        if job.stage.open:
            self.open.enter(job.owner, job.id, job.bytes)
        else:
            self.open.leave(job.owner, job.id)
            self._ended.append(job.id)
            self._ended_bytes += job.bytes
            if job.stage is not JobStage.ENDED:
                # One that has ended may be accepted yet, by a message on another connection.
                self._dismiss(job.id, job.reason)
            if (ending := self._endings.pop(job.id, None)) is not None:
                ending.set()

    def _enqueue(self, job: BinderJob) -> None:
        """Look for a slot for a job, if it is still queued."""
        if self.book.jobs.get(job.id) is job:
            self._waiting.enter(job.owner, job.id, parse_ad(job.ad))
            self._match_soon.set()

    def _end_dependents(self, asked: Collection[str]) -> None:
        """End the pairs that an ended job requested; the jobs that it submitted continue."""
        for id_ in asked:
            job = self.book.jobs.get(id_)
            if job is not None and not job.detached:
                self._refuse(id_, "the job that asked for it has ended")

    async def store(self) -> None:
        """Store changes, then send their messages. Repeat a failed write until it succeeds.

        Raises SupersededError if another binder works with the tables.
        """
        while True:
            await self.storing.step()
            await self._forget()
            await self.outputs.sweep()

    async def _forget(self) -> None:
        old: list[str] = []
        while len(self._ended) > MOST_ENDED or self._ended_bytes > MOST_ENDED_BYTES:
            job = self.book.jobs[self._ended.popleft()]
            self._ended_bytes -= job.bytes
            old.append(job.id)
        if old:
            self.book.forget(old)
            self.outputs.forget(old)
            await self.storing.tried(self._tables.forget, old)

    def _send(self, messages: Iterable[BinderMessage]) -> None:
        for message in messages:
            if message.kind is FrameKind.PAIRED:
                self._pair(message)
                continue
            control = self.pilots.get(message.session)
            if control is not None and message.kind is FrameKind.OVER:
                control.send(message.kind)
            elif control is not None:
                control.send(message.kind, job=message.job, epoch=message.epoch)

    def _pair(self, message: BinderMessage) -> None:
        """Tell a pilot of its job; ``accepted`` brings the client to it."""
        offer = self._given.pop((message.job, message.epoch), None)
        job = self.book.jobs.get(message.job)
        if job is None or job.epoch != message.epoch or job.stage is not JobStage.GIVEN:
            if offer is not None:
                offer.connection.close("its job has gone")
            return
        if offer is None or not offer.connection.open:
            reason = "its slot left before it came"
            change = state.declined(
                self.book, message.session, job.id, job.epoch, reason, begun=False
            )  # fmt: skip
            self.post(change)
            return
        try:
            offer.give(job, grant=self._grant(job), directly=self._directly(job, offer))
        except ValueError as error:
            # Too long to be said: the job ends, and its pilot offers the slot anew.
            self._refuse(job.id, str(error))
            offer.connection.close(str(error))

    def _directly(self, job: BinderJob, offer: SlotOffer) -> bool:
        """Whether a job's client is sent to the slot's own port."""
        if job.detached or not offer.direct:
            return False
        ad = parse_ad(job.ad)
        return not self._handlers.wanted(ad) and bounded_value(ad, "Direct") is True

    async def accepted(self, offer: SlotOffer) -> bool:
        """Bring the client of a job to the pilot that has accepted it.

        Returns whether the slot's connection is the pair's now, or has ended.
        """
        job = offer.job
        if job is None:
            return False
        self.post(state.accepted(self.book, offer.session, job.id, job.epoch))
        if job.detached:
            return False
        between: tuple[Connection, ...] = ()
        try:
            if application := self._handlers.wanted(parse_ad(job.ad)):
                between = await self._handlers.sides(application, job.ad)
        except ClosedError as error:
            self._refuse(job.id, str(error))
            offer.connection.close(str(error))
            return True
        client = self._clients.get(job.id)
        if client is None or not all(each.open for each in (client, *between)):
            self._refuse(job.id, "its client or its handler has gone")
            for each in (offer.connection, *between):
                each.close("its client or its handler has gone")
            return True
        # The connections are the pair's now, and their end is no lost slot or client.
        del self._clients[job.id]
        if offer.secret:
            send_directly(job, client, offer)
        else:
            join_pair(job, client, offer.connection, between)
        return True

    def declined(self, offer: SlotOffer, reason: str) -> None:
        """Take back the job that the pilot of a slot does not take."""
        if (job := offer.job) is not None:
            change = state.declined(
                self.book, offer.session, job.id, job.epoch, reason, begun=False
            )  # fmt: skip
            self.post(change)

    def _refuse(self, id_: str, why: str) -> None:
        """End a job that no slot can take, and tell its client why."""
        self._dismiss(id_, why)
        self.post(state.cancel(self.book, id_, why))

    def _dismiss(self, id_: str, why: str) -> None:
        """Tell a client that waits for a slot that none will come, and why."""
        client = self._clients.pop(id_, None)
        if client is not None:
            client.send(FrameKind.FAILED, reason=why)
            client.close(why)

    async def close(self) -> None:
        """End the handlers."""
        await self._handlers.close()

    # --- pilots and slots

    def session(self, name: str, token: Token) -> PilotSession | None:
        """Return the session with a name, if it began with the pilot's token of this one."""
        found = self.book.sessions.get(name)
        mine = found is not None and found.token == token.id and token.scope is TokenScope.SESSION
        return found if mine else None

    async def use(self, token: Token, nonce: str) -> bool:
        """Record the use of a pilot's token; False if another used it. Raises LedgerError."""
        return await asyncio.to_thread(self._tables.use, token.id, nonce, token.ends, time.time())

    def begun_with(self, token: Token) -> str:
        """Return the name of the session that began with a token, or an empty one."""
        found = (s.name for s in self.book.sessions.values() if s.token == token.id)
        return next(found, "")

    def offer(self, offer: SlotOffer) -> None:
        """Enter a free slot, for the owners whom its pilot may serve."""
        ad = offer.ad.copy()
        session = self.book.sessions.get(offer.session)
        if session is not None and session.owners:
            offer.owners = session.owners
            ad["Requirements"] = for_owners(ad, session.owners.split(" "))
        ad[SLOT_KEY] = offer.key
        self.slots.update(ad)
        self._offers[offer.key] = offer
        self._more_slots = True
        self._match_soon.set()

    def withdraw(self, offer: SlotOffer) -> None:
        """Withdraw a slot, if it is still free."""
        if self._offers.pop(offer.key, None) is not None:
            self.slots.remove(offer.key)

    def _leave(self, session: str) -> None:
        """Withdraw all slots of a session that is over, or whose pilot is not connected."""
        for offer in [each for each in self._offers.values() if each.session == session]:
            self.withdraw(offer)
            offer.connection.close("its pilot has gone")

    def pilot_lost(self, session: str, control: Connection) -> None:
        """Withdraw the slots of a pilot whose connection has ended; it may come back."""
        if self.pilots.get(session) is control:
            del self.pilots[session]
            self._leave(session)

    def slot_lost(self, offer: SlotOffer) -> None:
        """Ask the pilot for a job that may have got lost on a slot's broken connection."""
        self.withdraw(offer)
        if offer.job is None:
            return
        job = self.book.jobs.get(offer.job.id)
        if not offer.job.detached:
            self._refuse(offer.job.id, "its slot left before it came")
        elif job is not None and job.stage is JobStage.GIVEN and job.epoch == offer.job.epoch:
            self._send((BinderMessage(FrameKind.KILL, offer.session, job.id, job.epoch),))

    # --- clients

    def wait(self, job: BinderJob, client: Connection) -> None:
        """Enter a job whose client is connected and waits for a slot."""
        self._clients[job.id] = client
        self.post(state.submit(self.book, job)[1])

    def leave(self, id_: str, why: str) -> None:
        """End a job whose client waits no more, unless it has its pair."""
        if self._clients.pop(id_, None) is not None:
            self.post(state.cancel(self.book, id_, why))

    async def revoke(self, token: str, ends: float) -> None:
        """Refuse a token by its id until its end, in seconds since 1970. Raises LedgerError.

        It ends the connections that were greeted with it, or with a token that depends on it. A
        pilot cannot come back: it ends its jobs one lease later, and the binder then gives them to
        others.
        """
        await asyncio.to_thread(self._tables.revoke, token, ends, time.time())
        self.revoked.add(token)
        _LOG.info("token revoked", extra={"token_id": token})
        for connection, its in list(self.greeted.items()):
            if why := token_problem(its, self.book, self.revoked):
                connection.send(FrameKind.REFUSED, reason=why)
                connection.close(why)

    async def delays(self) -> dict[str, float]:
        """Return how many seconds queues take to start a pilot. Raises LedgerError."""
        return await asyncio.to_thread(self._tables.delays)

    async def why(self, id_: str) -> str:
        """Return why a job that is queued has no slot yet, in words."""
        job = self.book.jobs.get(id_)
        ad = None if job is None else self._waiting.ad(job.owner, id_)
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
        """Wait until jobs have ended, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for id_ in ids:
                    job = self.book.jobs.get(id_)
                    if job is not None and job.stage.open:
                        await self._endings.setdefault(id_, asyncio.Event()).wait()

    # --- tasks

    async def match_jobs(self) -> None:
        """Give slots to waiting jobs, whenever a job or a slot comes.

        New jobs are matched at once; when slots have come, all waiting jobs are matched again.
        While changes cannot be stored, no job gets a slot.
        """
        while True:
            await self._match_soon.wait()
            if self.storing.trouble:
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            self._match_soon.clear()
            if self._more_slots:
                self._more_slots = False
                self._waiting.match_all_again()
            with closing(self._waiting.turn(time.thread_time, _TURN_SECONDS)) as some:
                pairs = pair(self.slots, some, self._refuse)
            for id_, key in pairs.items():
                self._give(id_, self._offers[key])
            if not len(self.slots):
                self._waiting.none()
            elif self._waiting.due:
                self._match_soon.set()
            await asyncio.sleep(0)

    def _give(self, id_: str, offer: SlotOffer) -> None:
        self.withdraw(offer)
        change = state.give(self.book, id_, offer.session)
        for message in change.messages:
            offer.taken = True
            self._given[message.job, message.epoch] = offer
        self.post(change)
        session, job = self.book.sessions.get(offer.session), self.book.jobs.get(id_)
        if not change.messages and session is not None:
            told = offer.owners == session.owners
            if told and job is not None and not session.serves(job.owner):
                # Its ad has a TARGET of its own, and would match again and again.
                why = "the slot's ad matches jobs of others than the pilot's owners"
                offer.connection.send(FrameKind.REFUSED, reason=why)
                offer.connection.close(why)
            else:
                # Another job has just bound the pilot to its owner, or this job is gone.
                self.offer(offer)
        if change.begun:
            for other in [each for each in self._offers.values() if each.session == offer.session]:
                self.offer(other)

    async def expire_sessions(self) -> None:
        """End the sessions of pilots that were silent for too long."""
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, self.lease / 10))
            change = state.expire(self.book, self._clock(), 1.25 * self.lease)
            for name in change.over:
                _LOG.warning("session over: its pilot was silent", extra={"session": name})
                if (control := self.pilots.get(name)) is not None:
                    control.send(FrameKind.OVER)
            self.post(change)


def _log_change(change: BinderChange) -> None:
    """Log each job of a change, as it is now."""
    if change.jobs and _LOG.isEnabledFor(logging.INFO):
        for job in change.jobs:
            keys = {
                "job": job.id, "owner": job.owner, "epoch": job.epoch, "session": job.session,
                "reason": job.reason,
            }  # fmt: skip
            _LOG.log(
                logging.WARNING if job.stage is JobStage.LOST else logging.INFO,
                "job to be cancelled" if job.cancel and job.stage.held else f"job {job.stage}",
                extra={key: value for key, value in keys.items() if value},
            )
