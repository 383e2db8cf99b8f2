"""A pilot: offers its node's slots to a binder, runs what it gets, reports until it is heard.

What a slot may take is in ``slots``, running in ``running``, what a pilot promises to the binder in
``binder.moves``: it ends its jobs one lease after the last heartbeat that was answered, closes the
connections of its slots before it comes back, and names each job whose end was not acknowledged.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from matchmaker.classad import ClassAd, ParseError, parse_ad
from matchmaker.pilots.node import slots
from matchmaker.pilots.node.direct import Door
from matchmaker.pilots.node.dispatch import HANDLER, converse, directly
from matchmaker.pilots.node.running import GRACE, Running, adopting, run
from matchmaker.pilots.node.settings import Settings, Work, write_report
from matchmaker.pilots.node.slots import Node
from matchmaker.pilots.node.task import Result, TaskError, task
from matchmaker.pilots.wire.connection import ClosedError, Connection, dial
from matchmaker.pilots.wire.frames import Frame, FrameKind
from matchmaker.pilots.wire.handshake import RefusedError, Role
from matchmaker.pilots.wire.stream import Stream

_FIRST_WAIT: Final = 0.2
_LONGEST_WAIT: Final = 15.0
_PATIENCE: Final = 600.0
"""How many seconds a pilot looks for a binder that it never met."""
_JUDGE_SECONDS: Final = 1.0
_MOST_REFUSED: Final = 10_000
_LAST: Final = 30.0
"""How many seconds a pilot that ends waits for jobs that cannot be killed, or removed."""


class Pilot:
    """A pilot at work. ``live`` is its life."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        """``say`` takes what people may want to know, a line each."""
        self._settings = settings
        self._say = say
        self._node = settings.node
        self._works: dict[str, Work] = {}
        self._refused: dict[tuple[str, int], None] = {}
        self._session = ""
        self._control: Connection | None = None
        self._lease = 60.0
        self._good_until = 0.0
        self._began = self._busy = time.monotonic()
        self._ending = ""
        self._changed = asyncio.Event()
        self._sent: dict[int, float] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def live(self, stop: asyncio.Event) -> str:
        """Works until there is a reason to end, and gives the reason.

        Args:
            stop: set to end it; its jobs are given back.

        Raises:
            RefusedError: the binder refuses it at its first greeting.
            OSError, ValueError: the binder cannot be reached at first, or its address is none.
        """
        with adopting():
            return await self._lived(stop)

    async def _lived(self, stop: asyncio.Event) -> str:
        chores = [
            asyncio.create_task(each)
            for each in (
                self._stay(), self._rule(), self._keep_lease(), self._tell_factory(),
                self._until_end(stop),
            )
        ]  # fmt: skip
        try:
            done, _ = await asyncio.wait(chores, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
            return self._ending
        finally:
            await self._all_returned("the pilot ends", 0.0, _LAST)
            for each in (*chores, *self._tasks):
                each.cancel()
            ended = asyncio.gather(*chores, *self._tasks, return_exceptions=True)
            await asyncio.wait([ended], timeout=_LAST)
            if self._control is not None:
                self._control.close("the pilot ends")

    # --- the binder

    async def _dial(self, role: Role) -> Connection:
        place = self._settings.place
        return await dial(place.address, place.token, role, place.tls)

    async def _greet(self, control: Connection) -> Connection:
        """Begins the session or comes back to it."""
        while True:
            sent = time.monotonic()
            running = {id_: work.epoch for id_, work in self._works.items()}
            control.send(
                FrameKind.REGISTER, ad=str(self._settings.machine), session=self._session,
                running=running,
            )  # fmt: skip
            answer = await control.receive(30)
            if answer.kind is FrameKind.OVER:
                # The binder may have given the jobs to others: they end before the next greeting.
                await self._all_returned("the binder ended its session", 0.0)
                self._works.clear()
                self._session = ""
                continue
            control.check(answer, FrameKind.REGISTERED)
            break
        self._session = answer["session"]
        self._lease = float(answer["lease"])
        self._control = control
        self._allowed(sent)
        for work in self._works.values():
            self._report(work)
        return control

    async def _stay(self) -> None:
        """Keeps the connection to the binder, and comes back where it breaks.

        Raises RefusedError and OSError where it never came about: at once where it is refused.
        """
        patience = time.monotonic() + (self._settings.idle or _PATIENCE)
        wait, said = _FIRST_WAIT, ""
        while True:
            try:
                control = await self._greet(await self._dial(Role.PILOT))
                wait, said = _FIRST_WAIT, ""
                await self._session_with(control)
            except (OSError, RefusedError) as error:
                first = not self._session
                if first and (isinstance(error, RefusedError) or time.monotonic() > patience):
                    raise
                if str(error) != said and not self._ending:
                    said = str(error)
                    self._say(f"the binder is away: {said or type(error).__name__}")
            self._control = None
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT, self._lease / 4)

    async def _session_with(self, control: Connection) -> None:
        """Listens, beats and offers, until the connection ends."""
        tasks = [
            asyncio.create_task(each)
            for each in (self._listen(control), self._beat(control), self._offer_all())
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            control.close("the pilot comes back")
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _beat(self, control: Connection) -> None:
        number = 0
        self._sent.clear()
        while True:
            await asyncio.sleep(self._lease / 4)
            number += 1
            self._sent[number] = time.monotonic()
            control.send(FrameKind.BEAT, number=number)
            if time.monotonic() > self._good_until:
                raise ClosedError("the binder was silent for a lease")

    def _allowed(self, sent: float) -> None:
        """A word that was sent at a time was answered: jobs may run for a lease from then on.

        Their keepers hear of it, and end them by themselves where this process stands still.
        """
        self._good_until = max(self._good_until, sent + self._lease)
        left = self._good_until - time.monotonic()
        for work in self._works.values():
            if work.running is not None:
                work.running.allow(left)

    async def _keep_lease(self) -> None:
        """Ends all jobs where no word was answered for a lease."""
        while True:
            await asyncio.sleep(min(1.0, self._lease / 20))
            if time.monotonic() > self._good_until and self._works:
                await self._all_returned("the binder was silent for a lease", 0.0)

    async def _listen(self, control: Connection) -> None:
        while True:
            frame = await control.receive()
            match frame.kind:
                case FrameKind.ALIVE:
                    if (sent := self._sent.pop(frame["number"], None)) is not None:
                        self._allowed(sent)
                case FrameKind.KILL:
                    self._kill(frame["job"], frame["epoch"])
                case FrameKind.ACKNOWLEDGE:
                    work = self._works.get(frame["job"])
                    if work is not None and work.epoch == frame["epoch"] and work.report:
                        del self._works[frame["job"]]
                case FrameKind.OVER:
                    await self._all_returned("the binder ended its session", 0.0)
                    self._works.clear()
                    self._session = ""
                    raise ClosedError("the session is over")
                case FrameKind.STOP:
                    self._end(f"the binder asked for it: {frame['reason']}")
                case FrameKind.REFUSED:
                    raise ClosedError(frame["reason"])

    def _kill(self, id_: str, epoch: int) -> None:
        work = self._works.get(id_)
        if work is not None and work.epoch == epoch:
            if work.report is None:
                self._give_back(work, "the binder asked for its end", GRACE)
            self._report(work)
            return
        # Its pairing may be on its way on another connection, and counts no more.
        self._refused[id_, epoch] = None
        if len(self._refused) > _MOST_REFUSED:
            del self._refused[next(iter(self._refused))]
        self._tell(FrameKind.DECLINED, job=id_, epoch=epoch, reason="it is not here")

    def _tell(self, kind: FrameKind, **fields: Any) -> None:
        if self._control is not None:
            self._control.send(kind, **fields)

    def _report(self, work: Work) -> None:
        if work.report is not None:
            self._tell(work.report[0], **work.report[1])

    # --- slots

    async def _offer_all(self) -> None:
        """Keeps an offer open for each slot that may be taken."""
        open_: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                self._changed.clear()
                wanted = {} if self._closing() else slots.offers(self._node, self._settings.machine)
                for name, ad in wanted.items():
                    if name not in open_ or open_[name].done():
                        open_[name] = asyncio.create_task(self._offer(name, ad))
                for name in open_.keys() - wanted.keys():
                    open_.pop(name).cancel()
                await self._changed.wait()
        finally:
            for each in open_.values():
                each.cancel()
            await asyncio.gather(*open_.values(), return_exceptions=True)

    async def _offer(self, name: str, ad: ClassAd) -> None:
        """Waits on a slot's connection for jobs, one after another, with the newest ad."""
        door, doors = None, self._settings.doors
        try:
            connection = await self._dial(Role.SLOT)
            if doors is not None:
                door = await Door.open(doors)
        except (OSError, ValueError):
            await asyncio.sleep(_FIRST_WAIT)
            self._changed.set()
            return
        said = ""
        try:
            while True:
                if door is not None and doors is not None:
                    ad["DirectAddress"] = door.address
                    ad["DirectCertificate"] = doors.certificate
                if str(ad) != said:
                    said = str(ad)
                    connection.send(FrameKind.OFFER, session=self._session, slot=name, ad=said)
                receiving = asyncio.ensure_future(connection.receive())
                changing = asyncio.ensure_future(self._changed.wait())
                try:
                    await asyncio.wait({receiving, changing}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    taken = receiving.done()
                    receiving.cancel()
                    changing.cancel()
                if taken:
                    frame = receiving.result()
                    connection.check(frame, FrameKind.PAIRED)
                    self._accept(frame, connection, door)
                    said = ""
                    if frame["stream"]:
                        door = None  # It is the job's now, if its client comes that way.
                        return
                now = slots.offers(self._node, self._settings.machine).get(name)
                if now is None or self._closing():
                    return
                ad = now
                await asyncio.sleep(0)
        except (ClosedError, ValueError) as error:
            self._say(f"slot {name}: {error}")
            await asyncio.sleep(_FIRST_WAIT)
        finally:
            connection.close("the slot is taken")
            if door is not None:
                door.close()
            self._changed.set()

    def _accept(self, frame: Frame, connection: Connection, door: Door | None) -> None:
        """Takes a job, or gives it back with the reason."""
        id_, epoch = frame["job"], frame["epoch"]
        fields = {"job": id_, "epoch": epoch}
        if (id_, epoch) in self._refused or self._ending:
            self._tell(FrameKind.DECLINED, **fields, reason=self._ending or "it was ended before")
            return
        try:
            ad = parse_ad(frame["ad"])
            made = task(id_, ad, self._settings.applications)
        except (ParseError, TaskError) as error:
            self._works[id_] = work = Work(epoch)
            self._over(id_, work, Result(reason=str(error)))
            return
        taken = slots.take(self._node, id_, ad)
        if taken is None:
            self._tell(FrameKind.DECLINED, **fields, reason="its slot was taken meanwhile")
            return
        self._works[id_] = work = Work(epoch)
        self._become(taken)
        self._tell(FrameKind.STARTED, **fields)

        def started(running: Running) -> None:
            work.running = running
            running.allow(self._good_until - time.monotonic())
            if work.ends:
                running.end(work.ends, 0.0)
            self._settle()

        root = self._settings.directory
        doing: Awaitable[Result]
        if "key" in frame.fields and door is not None:
            came = door.client(id_, bytes.fromhex(frame["key"]))
            doing = directly(made, root, came, ad, started=started)
        elif frame["stream"]:
            if door is not None:
                door.close()
            stream = Stream()
            stream.data_received(connection.hand_over(stream))
            doing = converse(made, root, stream, ad, started=started)
        else:
            doing = run(made, root, started=started)
        work.handled = made.argv[0].startswith(HANDLER)
        work.doer = doer = asyncio.ensure_future(self._do(id_, work, doing))
        self._tasks.add(doer)
        doer.add_done_callback(self._tasks.discard)

    async def _do(self, id_: str, work: Work, doing: Awaitable[Result]) -> None:
        try:
            result = await doing
        except asyncio.CancelledError:
            if not work.ends:
                raise
            result = Result(reason=work.ends)
        except Exception as error:  # noqa: BLE001 - a job's end must be told, whatever it was
            result = Result(reason=f"the pilot failed: {type(error).__name__}: {error}")
        self._become(slots.leave(self._node, id_))
        self._over(id_, work, result)

    def _over(self, id_: str, work: Work, result: Result) -> None:
        """Reports the end of a job, or that it is given back."""
        self._busy = time.monotonic()
        work.running = None
        fields: dict[str, Any] = {"job": id_, "epoch": work.epoch}
        if work.returned:
            work.report = FrameKind.DECLINED, {**fields, "reason": work.ends or result.reason}
        else:
            work.report = FrameKind.ENDED, {**fields, "result": str(result.ad())}
        if self._works.get(id_) is work:
            self._report(work)
            if work.returned:
                # It is not reported again: who comes back without it does not have it.
                del self._works[id_]
        self._changed.set()

    def _become(self, node: Node) -> None:
        """The node as it is now: some stand still, some go on, some are given back."""
        self._node = node
        self._settle()
        self._changed.set()

    def _settle(self) -> None:
        for claim in self._node.claims:
            work = self._works.get(claim.job)
            if work is None or work.running is None:
                continue
            if claim.preempted and not work.returned:
                self._give_back(work, "the site's policy gave it back", GRACE)
            elif claim.suspended and not work.running.suspended:
                work.running.suspend()
            elif not claim.suspended and work.running.suspended:
                work.running.resume()

    async def _rule(self) -> None:
        """Applies the site's policy, again and again."""
        while True:
            await asyncio.sleep(_JUDGE_SECONDS)
            seconds = {
                id_: work.running.seconds
                for id_, work in self._works.items() if work.running is not None
            }  # fmt: skip
            now = slots.judge(self._node, self._settings.machine, seconds)
            if now != self._node:
                self._become(now)

    async def _tell_factory(self) -> None:
        """Keeps the report that a factory reads, and ends where the factory asks for it."""
        file = self._settings.report
        if file is None:
            await asyncio.Event().wait()
            return
        asked, said = file.with_name(f"{file.name}.end"), ""
        while True:
            state = "starting"
            if self._session:
                state = "busy" if self._works else "idle"
            if self._closing():
                state = "draining"
            try:
                if state != said:
                    await asyncio.to_thread(write_report, file, state, self._settings.machine)
                    said = state
                if asked.exists():
                    self._end("the factory asked for it")
            except OSError as error:
                self._say(f"{file}: {error}")
            await asyncio.sleep(_JUDGE_SECONDS)

    # --- the end

    def _left(self) -> float | None:
        wall = self._settings.wall
        return None if wall is None else self._began + wall - time.monotonic()

    def _closing(self) -> bool:
        left = self._left()
        return bool(self._ending) or (left is not None and left < self._settings.least)

    def _end(self, reason: str) -> None:
        self._ending = self._ending or reason
        self._changed.set()

    async def _until_end(self, stop: asyncio.Event) -> None:
        """Waits for a reason to end, gives back what runs, and says goodbye."""
        idle = self._settings.idle
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(0.5, self._lease / 10)):
                    await stop.wait()
            left = self._left()
            if stop.is_set():
                self._end("it was asked to end")
                break
            if left is not None and left < 2 * GRACE:
                self._end("its time is over")
                break
            if self._works:
                self._busy = time.monotonic()
            elif self._ending:
                break
            elif idle is not None and time.monotonic() - self._busy > idle:
                self._end(f"no job came in {idle:g} s")
                break
        await self._all_returned(self._ending, GRACE, GRACE + _LAST)
        # Ends that were not acknowledged wait for a moment.
        for _ in range(20):
            if not self._works or self._control is None:
                break
            await asyncio.sleep(0.1)
        self._tell(FrameKind.LEAVE, reason=self._ending[:500])
        await asyncio.sleep(0.1)

    def _give_back(self, work: Work, reason: str, grace: float) -> None:
        """Ends a job that another pilot may then have."""
        work.returned = True
        work.ends = work.ends or reason
        if work.running is not None:
            work.running.resume()
            work.running.end(work.ends, grace)
        elif work.handled and work.doer is not None:
            work.doer.cancel()

    async def _all_returned(self, reason: str, grace: float, most: float | None = None) -> None:
        """Ends all jobs, and waits until nothing of them is left.

        For `most` seconds where the pilot ends; else as long as it takes, since the binder may give
        them to others.
        """
        doing = [each for each in self._tasks if not each.done()]
        for work in list(self._works.values()):
            if work.report is None:
                self._give_back(work, reason, grace)
        if doing:
            await asyncio.wait(doing, timeout=most)
