"""The jobs of a pilot: accepts them, applies the policy, and reports ends until acknowledged.

``slots`` decides what a slot may take, and ``running`` runs it. ``pilot`` has the connection to the
binder, and decides when a pilot ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from matchmaker.classad import ClassAd, ParseError, parse_ad
from matchmaker.pilots.node import slots
from matchmaker.pilots.node.isolation import Account, Accounts
from matchmaker.pilots.node.keeper import remove
from matchmaker.pilots.node.running import (
    GRACE,
    Door,
    DoorSettings,
    RunningTask,
    run,
    run_with_client,
    run_with_direct_client,
)
from matchmaker.pilots.node.slots import NodeState
from matchmaker.pilots.node.task import HANDLER, ResultPart, Task, TaskError, TaskResult, task_of_ad
from matchmaker.pilots.store.protocol import SharedStore, StoreError, UnsureError
from matchmaker.pilots.wire.connect import BinderAddress
from matchmaker.pilots.wire.connection import Connection, PairStream
from matchmaker.pilots.wire.protocol import FILE, Frame, FrameKind

_LOG: Final = logging.getLogger(__name__)

# How often the site's policy is evaluated: it depends on seconds and minutes.
_JUDGE_SECONDS: Final = 1.0
# Beyond their grace, jobs that cannot be killed or removed may wait for a disk; then the pilot
# ends.
_LAST: Final = 30.0
# A binder that could not store a piece gets it again after this time.
_AGAIN_SECONDS: Final = 1.0
# A store that fails three times is away; the result says so.
_PUBLISH_TRIES: Final = 3
# Refused assignments that are remembered: their pairing arrives within seconds, if at all.
_MOST_REFUSED: Final = 10_000


@attrs.frozen(slots=True, kw_only=True)
class PilotSettings:
    """The settings of a pilot.

    Attributes:
        place: the binder, with a pilot's token.
        directory: the parent of its tasks' directories.
        node: the resources for jobs, and the site's policy.
        machine: the ad of its machine.
        applications: names, and the program with its first words of each.
        idle: after how many seconds without a job it ends; None for never.
        wall: how many seconds it may run; None for no limit.
        least: how many seconds must be left for it to offer a slot.
        report: the file in which a factory looks for its state; None for no factory.
        doors: the address for direct clients; None without them.
        token_file: the file with its token, which it removes when the token is used.
        accounts: the accounts of jobs, one each; None for the pilot's account.
        output: a store for output files that are too large for the binder; None for none.
        mixed: whether it takes jobs of several owners though its token names none; its jobs then
            share its account, or run under accounts of their own.
        ca: the authority of the binder's certificate, in PEM; None without one.
    """

    place: BinderAddress
    directory: Path
    node: NodeState
    machine: ClassAd
    applications: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    idle: float | None = None
    wall: float | None = None
    least: float = 0.0
    report: Path | None = None
    doors: DoorSettings | None = None
    ca: Path | None = None
    token_file: Path | None = None
    mixed: bool = False
    accounts: Accounts | None = None
    output: SharedStore | None = None

    def granted(self, task: Task, token: str) -> Task:
        """Return a task with the binder's address, and a token for it."""
        there = {"CLASSAD_BINDER": self.place.address}
        if self.ca is not None:
            there["CLASSAD_BINDER_CA"] = str(self.ca.absolute())
        return attrs.evolve(task, env={**task.env, **there}, token=token)


def write_report(file: Path, state: str, ad: ClassAd) -> None:
    """Write a pilot's report, whole: its state, and its ad. Raises OSError."""
    new = file.with_name(f".{file.name}.new")
    new.unlink(missing_ok=True)
    opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(opened, "w", encoding="utf-8") as stream:
        stream.write(f"{state}\n{ad}\n")
    new.replace(file)


@attrs.define(slots=True, eq=False)
class HeldJob:
    """A job that the pilot was given, until its end is acknowledged.

    Attributes:
        epoch: the number of the assignment.
        doer: the asyncio task that runs it; cancelling it ends a handler, which has no process.
        handled: whether a handler runs it.
        ends: why it is being ended; empty if it is not.
        returned: whether it is given back and not reported as ended.
        report: the frame that reports its end, until it is acknowledged.
        sending: whether its processes have ended and its output is being sent.
        account: the account that it runs under; None for the pilot's own.
    """

    epoch: int
    doer: asyncio.Future[None] | None = None
    handled: bool = False
    running: RunningTask | None = None
    ends: str = ""
    returned: bool = False
    report: tuple[FrameKind, dict[str, Any]] | None = None
    sending: bool = False
    account: Account | None = None


class PilotJobs:
    """The jobs of a pilot that run, and those whose end is not acknowledged.

    Attributes:
        busy: when a job ran last, as ``time.monotonic`` counts.
        refusing: why no more jobs are accepted; empty if they are.
        served: the owner of the first job that was accepted; empty before.
        stuck: the asyncio tasks of jobs that could not be ended; with any, the pilot must end.
        changed: set when the free slots have changed.
    """

    def __init__(self, settings: PilotSettings, tell: Callable[..., None]) -> None:
        """``tell`` sends a frame to the binder, if it is connected: a kind, and fields by name."""
        self.node: NodeState = settings.node
        self.busy = time.monotonic()
        self.refusing = ""
        self.stuck: set[asyncio.Task[Any]] = set()
        self.changed = asyncio.Event()
        self.served = ""
        self._settings = settings
        self._tell = tell
        self._works: dict[str, HeldJob] = {}
        self._refused: dict[tuple[str, int], None] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._until = 0.0
        # One piece at a time, so that a heartbeat waits for no more than one.
        self._sending = asyncio.Lock()
        self._sent: tuple[tuple[str, int, str], asyncio.Future[Frame | None]] | None = None

    def __len__(self) -> int:
        """Return how many jobs run, or have ended without an acknowledgement."""
        return len(self._works)

    def offers(self) -> dict[str, ClassAd]:
        """Return the slots that may be taken, and their ads."""
        return slots.offers(self.node, self._settings.machine)

    def epochs(self) -> dict[str, int]:
        """Return the jobs with their epochs."""
        return {id_: work.epoch for id_, work in self._works.items()}

    def allow(self, until: float) -> None:
        """Let all run until then, as ``time.monotonic`` counts.

        Their keepers get the time too, and end the jobs themselves if this process hangs.
        """
        self._until = until
        for work in self._works.values():
            if work.running is not None:
                work.running.allow(until)

    def report(self) -> None:
        """Report each job whose end was not acknowledged, on a new connection."""
        for work in self._works.values():
            self._report(work)
        if self._sent is not None and not self._sent[1].done():
            self._sent[1].set_result(None)

    def stored(self, frame: Frame) -> None:
        """Handle the answer to a piece of a job's output."""
        if self._sent is not None and not self._sent[1].done():
            piece, answer = self._sent
            if piece == (frame["job"], frame["epoch"], frame["name"]):
                answer.set_result(frame)

    def acknowledged(self, id_: str, epoch: int) -> None:
        """Forget a job whose end was acknowledged."""
        work = self._works.get(id_)
        if work is not None and work.epoch == epoch and work.report:
            del self._works[id_]

    def forget(self) -> None:
        """Forget all jobs: the binder does not know them any more."""
        self._works.clear()

    def accept(self, frame: Frame, connection: Connection, door: Door | None) -> bool:
        """Take or decline a job; return whether its connection serves for the next offer.

        The answer goes to the slot's connection, which is the job's then if its client uses it.
        """
        id_, epoch = frame["job"], frame["epoch"]
        fields = {"job": id_, "epoch": epoch}
        refusing = self.refusing
        if time.monotonic() >= self._until:
            # This process stood still, perhaps, and another pilot has the job by now.
            refusing = refusing or "the binder was silent for a lease"
        if (id_, epoch) in self._refused or refusing:
            reason = refusing or "it was ended before"
            _LOG.info("job declined", extra={**fields, "reason": reason})
            connection.send(FrameKind.DECLINED, **fields, reason=reason)
            return True
        try:
            ad = parse_ad(frame["ad"])
            made = self._task(frame, ad)
        except (ParseError, TaskError) as error:
            self._works[id_] = work = HeldJob(epoch)
            connection.send(FrameKind.ACCEPTED, **fields)
            if frame["stream"] and door is not None:
                door.close()
            self._over(id_, work, TaskResult(reason=str(error)))
            return not frame["stream"]
        taken, accounts = slots.take(self.node, id_, ad), self._settings.accounts
        account = None if taken is None or accounts is None else accounts.take()
        if taken is None or (accounts is not None and account is None):
            reason = "its slot was taken meanwhile"
            _LOG.info("job declined", extra={**fields, "reason": reason})
            connection.send(FrameKind.DECLINED, **fields, reason=reason)
            return True
        made = attrs.evolve(made, account=account)
        self._works[id_] = work = HeldJob(epoch, account=account)
        owner = ad.eval("Owner")
        self.served = self.served or (owner if isinstance(owner, str) else "")
        self.apply_node_state(taken)
        _LOG.info("job accepted", extra=fields)
        connection.send(FrameKind.ACCEPTED, **fields)

        def started(running: RunningTask) -> None:
            work.running = running
            running.allow(self._until)
            if work.ends:
                running.end(work.ends, 0.0)
            self._follow_claims()

        doing = self._begun(made, ad, frame, connection, door, started=started)
        work.handled = made.argv[0].startswith(HANDLER)
        work.doer = doer = asyncio.create_task(self._do(id_, work, doing), name=id_)
        self._tasks.add(doer)
        doer.add_done_callback(self._tasks.discard)
        return not frame["stream"]

    def _begun(
        self, made: Task, ad: ClassAd, frame: Frame, connection: Connection, door: Door | None, *,
        started: Callable[[RunningTask], object],
    ) -> Awaitable[TaskResult]:  # fmt: skip
        """Start a job's run: alone, or with a client through a door or the binder."""
        root = self._settings.directory
        doing: Awaitable[TaskResult]
        if "key" in frame.fields and door is not None:
            came = door.client(frame["job"], bytes.fromhex(frame["key"]))
            doing = run_with_direct_client(made, root, came, ad, started=started)
        elif frame["stream"]:
            if door is not None:
                door.close()
            stream = PairStream()
            stream.data_received(connection.hand_over(stream))
            doing = run_with_client(made, root, stream, ad, started=started)
        else:
            doing = run(made, root, started=started)
        return doing

    def _task(self, frame: Frame, ad: ClassAd) -> Task:
        made = task_of_ad(frame["job"], ad, self._settings.applications)
        if isinstance(grant := frame.fields.get("grant"), str):
            made = self._settings.granted(made, grant)
        return attrs.evolve(made, until=self._until, large=self._settings.output is not None)

    async def _do(self, id_: str, work: HeldJob, doing: Awaitable[TaskResult]) -> None:
        try:
            result = await doing
        except asyncio.CancelledError:
            if not work.ends:
                raise
            result = TaskResult(reason=work.ends)
        except Exception as error:  # noqa: BLE001 - a job's end must be reported, whatever it was
            result = TaskResult(reason=f"the pilot failed: {type(error).__name__}: {error}")
        if result.parts:
            result = await self._send_parts(id_, work, result)
        if result.lapsed:
            # Another pilot may have it.
            work.returned = True
        if len(self._tasks) == 1:
            # No other job has a directory, and none that begins now has one of these names.
            for each in _entries(self._settings.directory):
                await asyncio.to_thread(remove, each)
        if work.account is not None:
            await self._clear(work.account)
        self.apply_node_state(slots.leave(self.node, id_))
        self._over(id_, work, result)

    async def _clear(self, account: Account) -> None:
        """Clear the account of a job that has ended; one that stays unclear gets no other job."""
        accounts = self._settings.accounts
        if accounts is None or not (
            problem := await asyncio.to_thread(accounts.leave, account, self._settings.directory)
        ):
            return
        _LOG.warning("account gets no job any more", extra={"reason": problem})
        self.node = attrs.evolve(self.node, most=self.node.most - 1)
        if self.node.most < 1:
            self.refuse(f"no account is left for jobs: {problem}")

    async def _send_parts(self, id_: str, work: HeldJob, result: TaskResult) -> TaskResult:
        """Send a result's parts to the binder, which must have them before it hears of the end.

        The slot is free when they are there: so no more wait than jobs run.
        """
        notes, there, urls = list(result.notes), list[ResultPart](), list[str]()
        work.running, work.sending = None, True
        try:
            for part in () if work.returned or result.lapsed else result.parts:
                if part.large:
                    url, note = await self._published(f"{id_}.{work.epoch}", part)
                    urls += [url] if url else []
                    notes.append(note)
                    continue
                if why := await self._send(id_, work.epoch, part):
                    notes.append(f"{part.name}: {why}")
                if not (why and part.name.startswith(FILE)):
                    there.append(part)
        except asyncio.CancelledError:
            if not work.ends:
                raise
        except (OSError, ValueError) as error:
            notes.append(f"its output could not be sent: {error}")
        finally:
            work.sending = False
            for part in result.parts:
                part.close()
        return attrs.evolve(
            result, parts=tuple(there), notes=tuple(notes), urls=tuple(urls)
        )  # fmt: skip

    async def _published(self, run: str, part: ResultPart) -> tuple[str, str]:
        """Put a large file into the site's store; return its URL or "", and a note."""
        store, name = self._settings.output, part.name.removeprefix(FILE)
        at = f"{run}.{name.replace('/', '.')}"
        why = "no store takes it"
        for _ in range(_PUBLISH_TRIES if store is not None else 0):
            try:
                # Opened anew by its number: no path leads to it any more.
                source = Path(f"/proc/self/fd/{part.file}")
                if store is not None and await asyncio.to_thread(store.publish, at, source):
                    url = f"{store.url.rstrip('/')}/{at}"
                    return url, f"{name}: its {part.size} bytes are at {url}"
                why = "the store has such a file already, or no such folder"
                break
            except UnsureError as error:
                why = str(error)
            except StoreError as error:
                why = str(error)
                break
        return "", f"{name}: its {part.size} bytes were not stored: {why}"

    async def _send(self, id_: str, epoch: int, part: ResultPart) -> str:
        """Send a part in pieces, each after the one before is stored; return why not, or ""."""
        offset = 0
        while offset < part.size:
            data = await asyncio.to_thread(part.piece, offset)
            if not data:
                return f"it became shorter while it was sent: {offset} bytes"
            async with self._sending:
                answer = asyncio.get_running_loop().create_future()
                self._sent = (id_, epoch, part.name), answer
                self._tell(
                    FrameKind.CHUNK, job=id_, epoch=epoch, name=part.name, offset=offset,
                    data=b64encode(data).decode("ascii"),
                )  # fmt: skip
                try:
                    said = await answer
                finally:
                    self._sent = None
            if said is None:
                continue
            if said["reason"]:
                return str(said["reason"])
            if said["size"] == offset:
                # The binder cannot store it now.
                await asyncio.sleep(_AGAIN_SECONDS)
            offset = min(max(0, said["size"]), part.size)
        return ""

    def _over(self, id_: str, work: HeldJob, result: TaskResult) -> None:
        """Report the end of a job, or that it is given back."""
        self.busy = time.monotonic()
        work.running = None
        fields: dict[str, Any] = {"job": id_, "epoch": work.epoch}
        _LOG.info(
            "job given back" if work.returned else "job ended",
            extra={
                **fields, "exit": result.exit, "signal": result.signal,
                "seconds": round(result.seconds, 3), "reason": work.ends or result.reason,
            },
        )  # fmt: skip
        if work.returned:
            work.report = FrameKind.DECLINED, {**fields, "reason": work.ends or result.reason}
        else:
            work.report = FrameKind.ENDED, {**fields, "result": str(result.ad())}
        if self._works.get(id_) is work:
            self._report(work)
            if work.returned:
                # It is not reported again: a pilot that comes back without it does not have it.
                del self._works[id_]
        self.changed.set()

    def apply_node_state(self, node: NodeState) -> None:
        """Suspend, resume or return jobs as the new node state says."""
        self.node = node
        self._follow_claims()
        self.changed.set()

    def _follow_claims(self) -> None:
        for claim in self.node.claims:
            work = self._works.get(claim.job)
            if work is None or work.running is None:
                continue
            if claim.preempted and not work.returned:
                self._give_back(work, "the site's policy gave it back", GRACE)
            elif claim.suspended and not work.running.suspended:
                _LOG.info("job suspended", extra={"job": claim.job, "epoch": work.epoch})
                work.running.suspend()
            elif not claim.suspended and work.running.suspended:
                _LOG.info("job resumed", extra={"job": claim.job, "epoch": work.epoch})
                work.running.resume()

    def kill(self, id_: str, epoch: int) -> None:
        """End a job that the binder wants to end."""
        work = self._works.get(id_)
        if work is not None and work.epoch == epoch:
            if work.report is None:
                grace = 0.0 if work.sending else GRACE
                self._give_back(work, "the binder asked for its end", grace)
            self._report(work)
            return
        # Its pairing may be on its way on another connection, and counts no more.
        self._refused[id_, epoch] = None
        if len(self._refused) > _MOST_REFUSED:
            del self._refused[next(iter(self._refused))]
        self._tell(FrameKind.DECLINED, job=id_, epoch=epoch, reason="it is not here")

    async def judge(self) -> None:
        """Apply the site's policy every second."""
        while True:
            await asyncio.sleep(_JUDGE_SECONDS)
            seconds = {
                id_: work.running.seconds
                for id_, work in self._works.items() if work.running is not None
            }  # fmt: skip
            now = slots.apply_policy(self.node, self._settings.machine, seconds)
            if now != self.node:
                self.apply_node_state(now)

    def _give_back(self, work: HeldJob, reason: str, grace: float) -> None:
        """End a job that another pilot may then have."""
        work.returned = True
        work.ends = work.ends or reason
        if work.running is not None:
            work.running.resume()
            work.running.end(work.ends, grace)
        elif work.handled and work.doer is not None:
            work.doer.cancel()
        elif work.sending and work.doer is not None:
            # It has ended, and need not run again if the rest can be sent within the grace.
            work.returned = work.returned and grace <= 0
            asyncio.get_running_loop().call_later(grace, self._give_up, work)

    def _give_up(self, work: HeldJob) -> None:
        if work.sending and work.doer is not None:
            work.returned = True
            work.doer.cancel()

    async def end_all(self, reason: str, grace: float) -> None:
        """End all jobs, and wait until none is left, or half a minute more.

        The rest is ``stuck``: killed, and still there. The binder may give none of these jobs to
        others, and hears nothing.
        """
        for work in list(self._works.values()):
            if work.report is None:
                self._give_back(work, reason, grace)
        doing = {each for each in self._tasks if not each.done()} - self.stuck
        if doing:
            _, left = await asyncio.wait(doing, timeout=grace + _LAST)
            if left:
                self.stuck |= left
                names = sorted(each.get_name() for each in left)
                _LOG.error("jobs cannot be ended", extra={"jobs": names})
                self.refuse("jobs cannot be ended")

    def refuse(self, reason: str) -> None:
        """Take no more jobs; the first reason is kept."""
        if not self.refusing:
            _LOG.info("no more jobs are taken", extra={"reason": reason})
        self.refusing = self.refusing or reason
        self.changed.set()

    def _report(self, work: HeldJob) -> None:
        if work.report is not None:
            self._tell(work.report[0], **work.report[1])


def _entries(directory: Path) -> list[Path]:
    """Return the entries of a directory, but follow no link."""
    try:
        return [] if directory.is_symlink() else list(directory.iterdir())
    except OSError:
        return []
