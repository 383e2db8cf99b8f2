"""A pilot: keeps its connection to a binder, offers the slots of its node, and ends in time.

``works`` runs its jobs. A pilot promises three things to the binder (``binder.state``): it ends its
jobs one lease after the last heartbeat that was answered; it closes the connections of its slots
before it registers again; and it then names each job whose end was not acknowledged.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from matchmaker.classad import ClassAd
from matchmaker.pilots.node.isolation import adopting_orphans, dividing_group, own_group
from matchmaker.pilots.node.running import GRACE, Door
from matchmaker.pilots.node.slots import for_owners
from matchmaker.pilots.node.works import PilotJobs, PilotSettings, write_report
from matchmaker.pilots.wire import protocol
from matchmaker.pilots.wire.connection import ClosedError, Connection, dial
from matchmaker.pilots.wire.protocol import FrameKind, PeerRefusedError, Role

_LOG: Final = logging.getLogger(__name__)
# Between two connections to a binder; it doubles up to the longest.
_FIRST_WAIT: Final = 0.2
# A binder that returns has its pilots back soon, and thousands of them do not flood it.
_LONGEST_WAIT: Final = 15.0
# A pilot that never met its binder gives the node back after ten minutes.
_PATIENCE: Final = 600.0
# How often the factory's file is looked at: a factory waits longer than this.
_LOOK_SECONDS: Final = 1.0
_DUMPABLE: Final = 4
"""``PR_SET_DUMPABLE``."""


def hide_process() -> None:
    """Keep this process's memory and environment from others of its account, such as its jobs.

    Linux then lets only root trace it or read its files in ``/proc`` (``prctl(2)``).
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)


class PilotAgent:
    """A pilot on this node. ``live`` runs it."""

    def __init__(self, settings: PilotSettings, say: Callable[[str], None]) -> None:
        """``say`` gets messages for people, one line each."""
        self._settings = settings
        self._say = say
        self._works = PilotJobs(settings, self._tell)
        self._session = ""
        self._token = settings.place.token
        self._renew = 0.0
        self._control: Connection | None = None
        self._lease = 60.0
        self._good_until = 0.0
        self._began = time.monotonic()
        self._sent: dict[int, float] = {}
        # In memory alone: a thief of the token's file has the token, and not this.
        self._nonce = secrets.token_hex(16)

    @property
    def stuck(self) -> list[str]:
        """The jobs that it could not end. They end with the process, so nothing may wait for them.

        Their tasks ignore their cancellation, or their threads wait for a disk.
        """
        return sorted(each.get_name() for each in self._works.stuck)

    async def live(self, stop: asyncio.Event) -> str:
        """Work until there is a reason to end, and return the reason; ``stop`` is one.

        Raises PeerRefusedError if the binder refuses its first greeting, and OSError or ValueError
        if the binder cannot be reached at first.
        """
        with adopting_orphans(), dividing_group(own_group()):
            return await self._lived(stop)

    async def _lived(self, stop: asyncio.Event) -> str:
        chores = [
            asyncio.create_task(each)
            for each in (
                self._stay(), self._works.judge(), self._keep_lease(), self._tell_factory(),
                self._until_end(stop),
            )
        ]  # fmt: skip
        try:
            done, _ = await asyncio.wait(chores, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
            return self._works.refusing
        finally:
            _LOG.info(
                "pilot ends", extra={"session": self._session, "reason": self._works.refusing}
            )
            await self._works.end_all("the pilot ends", 0.0)
            for each in chores:
                each.cancel()
            await asyncio.gather(*chores, return_exceptions=True)
            if self._control is not None:
                self._control.close("the pilot ends")

    # --- the binder

    async def _dial(self, role: Role) -> Connection:
        place = self._settings.place
        return await dial(place.address, self._token, role, place.tls)

    async def _greet(self, control: Connection) -> Connection:
        """Begin the session, or continue it."""
        while True:
            if self._works.stuck:
                # It must not say that it has none of the jobs of a session.
                await asyncio.Event().wait()
            sent = time.monotonic()
            control.send(
                FrameKind.REGISTER, ad=str(self._settings.machine), session=self._session,
                running=self._works.epochs(), mixed=self._settings.mixed,
                served=self._works.served, nonce=self._nonce,
            )  # fmt: skip
            answer = await control.receive(30)
            if answer.kind is FrameKind.OVER:
                await self._over()
                continue
            control.check(answer, FrameKind.REGISTERED)
            break
        self._session = answer["session"]
        _LOG.info(
            "registered",
            extra={"session": self._session, "lease": answer["lease"], "jobs": len(self._works)},
        )
        self._lease = float(answer["lease"])
        # From here on the token that it began with is used up.
        self._token = answer["token"]
        self._renew = (
            time.time() + protocol.read_token(protocol.split_token(self._token)[0]).ends
        ) / 2
        if (file := self._settings.token_file) is not None:
            with suppress(OSError):
                await asyncio.to_thread(file.unlink)
        self._control = control
        self._allowed(sent)
        self._works.report()
        return control

    async def _stay(self) -> None:
        """Keep the connection to the binder, and connect again when it breaks.

        Raises PeerRefusedError and OSError if the first connection fails; PeerRefusedError at once.
        """
        patience = time.monotonic() + (self._settings.idle or _PATIENCE)
        wait, said = _FIRST_WAIT, ""
        while True:
            try:
                control = await self._greet(await self._dial(Role.PILOT))
                wait, said = _FIRST_WAIT, ""
                await self._session_with(control)
            except (OSError, PeerRefusedError) as error:
                first = not self._session
                if first and (isinstance(error, PeerRefusedError) or time.monotonic() > patience):
                    raise
                if str(error) != said and not self._works.refusing:
                    said = str(error)
                    _LOG.warning("binder is away", extra={"session": self._session, "reason": said})
                    self._say(f"the binder is away: {said or type(error).__name__}")
            self._control = None
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT, self._lease / 4)

    async def _session_with(self, control: Connection) -> None:
        """Listen, beat and offer, until the connection ends."""
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
            if time.time() > self._renew:
                raise ClosedError("its token is old: it registers for a new one")

    def _allowed(self, sent: float) -> None:
        """Let jobs run for a lease after the sending of a frame that was answered."""
        self._good_until = max(self._good_until, sent + self._lease)
        self._works.allow(self._good_until)

    async def _keep_lease(self) -> None:
        """End all jobs if no frame was answered for a lease."""
        while True:
            await asyncio.sleep(min(1.0, self._lease / 20))
            if time.monotonic() > self._good_until and self._works:
                _LOG.warning("lease is over", extra={"session": self._session})
                await self._works.end_all("the binder was silent for a lease", 0.0)

    async def _listen(self, control: Connection) -> None:
        while True:
            frame = await control.receive()
            match frame.kind:
                case FrameKind.ALIVE:
                    if (sent := self._sent.pop(frame["number"], None)) is not None:
                        self._allowed(sent)
                case FrameKind.KILL:
                    self._works.kill(frame["job"], frame["epoch"])
                case FrameKind.ACKNOWLEDGE:
                    self._works.acknowledged(frame["job"], frame["epoch"])
                case FrameKind.STORED:
                    self._works.stored(frame)
                case FrameKind.OVER:
                    await self._over()
                    raise ClosedError("the session is over")
                case FrameKind.STOP:
                    self._works.refuse(f"the binder asked for it: {frame['reason']}")
                case FrameKind.REFUSED:
                    raise ClosedError(frame["reason"])

    async def _over(self) -> None:
        """End all jobs of a session that is over: the binder may have given them to others."""
        _LOG.warning("session over", extra={"session": self._session})
        await self._works.end_all("the binder ended its session", 0.0)
        self._works.forget()
        self._session = ""

    def _tell(self, kind: FrameKind, **fields: Any) -> None:
        if self._control is not None:
            self._control.send(kind, **fields)

    # --- slots

    async def _offer_all(self) -> None:
        """Keep an offer open for each slot that may be taken."""
        open_: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                self._works.changed.clear()
                wanted = {} if self._closing() else self._works.offers()
                for name, ad in wanted.items():
                    if name not in open_ or open_[name].done():
                        open_[name] = asyncio.create_task(self._offer(name, ad))
                for name in open_.keys() - wanted.keys():
                    open_.pop(name).cancel()
                await self._works.changed.wait()
        finally:
            for each in open_.values():
                each.cancel()
            await asyncio.gather(*open_.values(), return_exceptions=True)

    async def _offer(self, name: str, ad: ClassAd) -> None:
        """Wait on a slot's connection for jobs, one after another, with the newest ad."""
        door, doors = None, self._settings.doors
        try:
            connection = await self._dial(Role.SLOT)
            if doors is not None:
                door = await Door.open(doors)
        except (OSError, ValueError):
            await asyncio.sleep(_FIRST_WAIT)
            self._works.changed.set()
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
                changing = asyncio.ensure_future(self._works.changed.wait())
                try:
                    await asyncio.wait({receiving, changing}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    taken = receiving.done()
                    receiving.cancel()
                    changing.cancel()
                if taken:
                    frame = receiving.result()
                    connection.check(frame, FrameKind.PAIRED)
                    said = ""
                    if not self._works.accept(frame, connection, door):
                        door = None  # It is the job's now, if its client comes that way.
                        return
                now = self._works.offers().get(name)
                if now is None or self._closing():
                    return
                ad = now
                await asyncio.sleep(0)
        except (ClosedError, ValueError) as error:
            _LOG.info("slot withdrawn", extra={"slot": name, "reason": str(error)})
            self._say(f"slot {name}: {error}")
            await asyncio.sleep(_FIRST_WAIT)
        finally:
            connection.close("the slot is taken")
            if door is not None:
                door.close()
            self._works.changed.set()

    async def _tell_factory(self) -> None:
        """Write the report for a factory, and end the pilot when the factory asks for it."""
        file = self._settings.report
        if file is None:
            await asyncio.Event().wait()
            return
        asked, said = file.with_name(f"{file.name}.end"), ("", "")
        while True:
            state = "starting"
            if self._session:
                state = "busy" if self._works else "idle"
            if self._closing():
                state = "draining"
            try:
                if (state, self._works.served) != said:
                    said = state, self._works.served
                    await asyncio.to_thread(write_report, file, state, self._machine())
                if asked.exists():
                    self._works.refuse("the factory asked for it")
            except OSError as error:
                self._say(f"{file}: {error}")
            await asyncio.sleep(_LOOK_SECONDS)

    def _machine(self) -> ClassAd:
        """Return the machine's ad for a factory, with the pilot's owners in its requirements."""
        ad, served = self._settings.machine.copy(), self._works.served
        owners = protocol.read_token(protocol.split_token(self._token)[0]).owners
        if not owners and served and not self._settings.mixed:
            owners = (served,)
        if owners:
            ad["Requirements"] = for_owners(ad, owners)
        return ad

    # --- the end

    def _left(self) -> float | None:
        wall = self._settings.wall
        return None if wall is None else self._began + wall - time.monotonic()

    def _closing(self) -> bool:
        left = self._left()
        return bool(self._works.refusing) or (left is not None and left < self._settings.least)

    async def _until_end(self, stop: asyncio.Event) -> None:
        """Wait for a reason to end, give the running jobs back, and sign off."""
        idle = self._settings.idle
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(0.5, self._lease / 10)):
                    await stop.wait()
            left = self._left()
            if stop.is_set():
                self._works.refuse("it was asked to end")
                break
            if left is not None and left < 2 * GRACE:
                self._works.refuse("its time is over")
                break
            if self._works.stuck:
                break
            if self._works:
                self._works.busy = time.monotonic()
            elif self._works.refusing:
                break
            elif idle is not None and time.monotonic() - self._works.busy > idle:
                self._works.refuse(f"no job came in {idle:g} s")
                break
        await self._works.end_all(self._works.refusing, GRACE)
        if self._works.stuck:
            # Nobody may have these jobs before the lease is over.
            return
        # Ends that were not acknowledged wait for a moment.
        for _ in range(20):
            if not self._works or self._control is None:
                break
            await asyncio.sleep(0.1)
        self._tell(FrameKind.LEAVE, reason=self._works.refusing[:500])
        await asyncio.sleep(0.1)
