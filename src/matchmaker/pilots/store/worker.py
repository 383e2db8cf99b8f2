"""Carries out a pilot's operations on a store, and runs its programs on this node.

Threads talk to the storage, so that claims are renewed meanwhile. Each input's files are fetched
once. ``protocol`` decides.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, TypeVar

import attrs

from matchmaker.classad.errors import printable
from matchmaker.pilots.node.keeper import remove
from matchmaker.pilots.node.running import NOT_KEPT, NOT_STARTED, run
from matchmaker.pilots.node.task import Task, TaskLimits
from matchmaker.pilots.store import protocol
from matchmaker.pilots.store.plan import (
    LIST,
    MOST_LIST,
    MOST_PLAN,
    PLAN,
    WORK,
    PlanError,
    StorePlan,
    read_plan,
)
from matchmaker.pilots.store.protocol import (
    NodeHistory,
    Notify,
    Operation,
    OwnTime,
    Pause,
    RunCommand,
    RunOutcome,
    SharedStore,
    StoreError,
    StorePilot,
    UnsureError,
    WorkerTally,
)  # fmt: skip

_LOG: Final = logging.getLogger(__name__)
# Three renewals may fail before the claim is old enough to be taken over.
RENEWALS: Final = 4
# Bytes of a program's errors in the note of a failure: its last lines.
_SHOWN: Final = 500
_NO_START: Final = frozenset({126, 127})
"""The statuses by which a shell says that it could not start a program."""
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


T = TypeVar("T")


def plan_of(store: SharedStore) -> StorePlan:
    """Return the plan of a store, with its list of tasks.

    Raises StoreError if there is none, or the storage gives no answer, and PlanError.
    """
    text, tasks = _again(lambda: store.read(PLAN)), _tasks_of(store)
    if text is None and tasks is None:
        raise StoreError(
            f"{store.url}: there is no {PLAN}, which says what pilots run there, and no {LIST}"
        )
    if text is not None and len(text) >= MOST_PLAN:
        raise PlanError(f"{PLAN} is longer than {MOST_PLAN} bytes")
    return _read_plan(text, tasks)


def _read_plan(plan: bytes | None, tasks: bytes | None) -> StorePlan:
    texts = []
    for name, data in ((PLAN, plan), (LIST, tasks)):
        try:
            # A list that a spreadsheet has written may begin with a byte order mark.
            texts.append(None if data is None else data.decode("utf-8-sig"))
        except UnicodeDecodeError:
            raise PlanError(f"{name} is not in UTF-8") from None
    return read_plan(texts[0] or "", texts[1])


def _tasks_of(store: SharedStore) -> bytes | None:
    with TemporaryDirectory() as folder:
        target = Path(folder) / LIST
        if not _again(lambda: store.fetch(LIST, target)):
            return None
        if target.stat().st_size > MOST_LIST:
            raise PlanError(f"{LIST} is longer than {MOST_LIST} bytes")
        return target.read_bytes()


def send_tasks(store: SharedStore, tasks: bytes) -> None:
    """Put a list of tasks into a store that has none; all pilots work on the same one.

    Raises StoreError if it has another one, and PlanError if the list cannot be used.
    """
    if len(tasks) > MOST_LIST:
        raise PlanError(f"the list of tasks is longer than {MOST_LIST} bytes")
    _read_plan(_again(lambda: store.read(PLAN)), tasks)
    with TemporaryDirectory() as folder:
        source = Path(folder) / LIST
        source.write_bytes(tasks)
        if not _again(lambda: store.publish(LIST, source)) and _tasks_of(store) != tasks:
            raise StoreError(
                f"{store.url} has another {LIST}: leave --tasks out to work on that one, or use"
                " another store"
            )


def _again(operation: Callable[[], T]) -> T:
    for _ in range(protocol.TRIES - 1):
        with suppress(UnsureError):
            return operation()
        time.sleep(0.2)
    return operation()


@attrs.frozen(slots=True)
class NodeName:
    """The node of a pilot: its name for people, and letters that tell it from all others."""

    name: str
    id: str

    @classmethod
    def of(cls, given: str | None) -> NodeName:
        """Return the node of a name, or this one.

        This one is identified by the start of its system: containers on one node have different
        host names, but share the cause of failures, which a new start may remove.
        """
        name, identity = given or socket.gethostname(), given or ""
        if not identity:
            with suppress(OSError):
                identity = _BOOT.read_text("ascii")
        found = blake2b((identity or name).encode(), digest_size=5).hexdigest()
        return cls(printable(name).replace(" ", "_")[:64], found)


class Worker:
    """A pilot on this node.

    After ``drain`` was set, it claims nothing more and ends after its current runs.
    """

    def __init__(
        self, store: SharedStore, plan: StorePlan, folder: Path, *, idle: float | None = None,
        pause: float = 5.0, fresh: float = 60.0, warn: Callable[[str], object] = id,
        node: NodeName | None = None, failures: int = 10, history: NodeHistory | None = None,
    ) -> None:  # fmt: skip
        """Make a pilot that has not begun.

        Args:
            store: the storage.
            plan: its plan.
            folder: the place of fetched files and of programs.
            idle: seconds without anything to do after which it ends.
            pause: seconds between two looks when there is nothing to do.
            fresh: seconds after which a listing is too old to claim from.
            warn: called with problems, for people.
            node: this node by default.
            failures: how many parameters that failed here in a row, and on no other node, make it
                leave; 0 for never.
            history: shared with the other slots of a pilot.
        """
        node = node or NodeName.of(None)
        self.me = StorePilot(
            nonce=secrets.token_hex(16), label=f"{node.name} {os.getpid()}", node=node.id,
            idle=idle, pause=pause, fresh=fresh, failures=failures,
            history=history or NodeHistory(),
        )  # fmt: skip
        self.tally = WorkerTally()
        self.busy = False
        self.drain = False
        self._store, self._plan, self._folder, self._warn = store, plan, folder, warn
        self._stop = asyncio.Event()
        self._fetched: dict[str, dict[str, Path]] = {}

    async def live(self, stop: asyncio.Event) -> WorkerTally:
        """Work until the protocol ends, or until `stop` is set: then give the runs back.

        Raises StoreError if the storage gave no answer, or has no executable.
        """
        self._stop = stop
        program = await self._executable()
        random = Random(self.me.nonce)  # noqa: S311 - chooses among what is free
        steps = protocol.pilot(self._plan, self.me, random, self.tally)
        try:
            answer: Any = None
            operation: Operation = next(steps)
            while True:
                try:
                    answer = await self._answer(operation, program)
                except UnsureError as error:
                    _LOG.warning("storage did not answer", extra={"reason": str(error)})
                    self._warn(str(error))
                    operation = steps.throw(error)
                else:
                    operation = steps.send(answer)
        except StopIteration:
            return self.tally
        finally:
            await asyncio.to_thread(self._store.leave, self.me.nonce)

    async def _answer(self, operation: Operation, program: dict[str, Path]) -> Any:
        match operation:
            case OwnTime():
                return time.monotonic()
            case Pause(seconds):
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), seconds)
                return not (self._stop.is_set() or self.drain)
            case Notify(text):
                self._warn(text)
                return None
            case RunCommand():
                return await self._work(operation, program)
        return await asyncio.to_thread(operation, self._store)

    async def _executable(self) -> dict[str, Path]:
        """Fetch the program first; without it the pilot claims nothing."""
        if self._plan.executable is None:
            return {}
        name = self._plan.executable.rpartition("/")[2]
        target = self._folder / "program" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not await self._fetch(self._plan.executable, target):
            raise StoreError(f"{self._store.url}: the plan's {self._plan.executable} is not there")
        target.chmod(0o700)
        return {name: target}

    async def _fetch(self, path: str, target: Path) -> bool:
        problem = ""
        for attempt in range(protocol.TRIES):
            try:
                return await asyncio.to_thread(self._store.fetch, path, target)
            except UnsureError as error:
                problem = str(error)
            await asyncio.sleep(0.2 * 2**attempt)
        raise StoreError(problem)

    async def _files(self, work: RunCommand) -> dict[str, Path]:
        """Return the input's files on this node. Raises StoreError if one cannot be fetched."""
        input_ = work.claim.input
        if input_ not in self._fetched:
            # The files of one input at a time: pilots stay with an input while it has work.
            for other in list(self._fetched):
                del self._fetched[other]
                await asyncio.to_thread(remove, self._folder / "inputs" / other)
            folder = self._folder / "inputs" / input_
            folder.mkdir(parents=True, exist_ok=True)
            found = {name: folder / name for name in work.files}
            for name, target in found.items():
                if not await self._fetch(f"{WORK}/{input_}/{name}", target):
                    raise StoreError(f"{WORK}/{input_}/{name} is not there any more")
            self._fetched[input_] = found
        return self._fetched[input_]

    async def _work(self, work: RunCommand, program: dict[str, Path]) -> RunOutcome:
        if self._stop.is_set() or self.drain:
            return RunOutcome()
        keys = {
            "input": work.claim.input, "parameter": work.claim.parameter,
            "claim_number": work.claim.epoch,
        }  # fmt: skip
        _LOG.info("run begins", extra=keys)
        self.busy = True
        over = asyncio.Event()
        renewing = asyncio.create_task(self._renew(work, over))
        try:
            outcome = await self._run(work, program)
            _LOG.info("run ended", extra={**keys, "problem": outcome.problem.partition("\n")[0]})
            return outcome
        finally:
            # One that is under way would make the claim again after it was removed.
            over.set()
            await renewing
            self.busy = False

    async def _run(self, work: RunCommand, program: dict[str, Path]) -> RunOutcome:
        input_, parameter = work.claim.input, work.claim.parameter
        try:
            files = await self._files(work)
            argv = self._plan.words(input_, parameter)
        except (StoreError, OSError) as error:
            return RunOutcome(problem=str(error), fault="node")
        name = self._plan.result_of(parameter)
        # Together with the input's, its name may be too long for a file system.
        kept = self._folder / "results" / "last"
        kept.parent.mkdir(exist_ok=True)
        kept.unlink(missing_ok=True)
        task = Task(
            id=parameter, argv=argv,
            files={**files, **program}, limits=TaskLimits(seconds=self._plan.seconds),
            keep={} if self._plan.stdout else {name: kept},
        )  # fmt: skip
        watch: list[asyncio.Task[None]] = []

        async def end(running: Any) -> None:
            await self._stop.wait()
            running.end("the pilot ends")

        result = await run(
            task, self._folder / "tasks",
            started=lambda running: watch.append(asyncio.create_task(end(running))),
            output=kept if self._plan.stdout else None,
        )  # fmt: skip
        for each in watch:
            each.cancel()
        if result.exit == 0 and not result.reason and kept.is_file():
            return RunOutcome(result=kept)
        if self._stop.is_set():
            return RunOutcome()
        problem = result.reason or (
            f"signal {result.signal}" if result.signal else f"exit status {result.exit}"
        )
        if result.exit == 0 and not result.reason:
            problem = f"the program left no plain file {name}"
        self._warn(f"{input_}, {parameter}: {problem}")
        errors = result.errors[-_SHOWN:].decode("utf-8", "replace")
        fault: Literal["run", "start", "node"] = "run"
        if result.reason.startswith((NOT_STARTED, NOT_KEPT)):
            fault = "node"
        elif result.exit in _NO_START or (result.exit is None and result.signal is None):
            fault = "start"
        return RunOutcome(problem=f"{problem}\n{errors}", fault=fault)

    async def _renew(self, work: RunCommand, over: asyncio.Event) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), self._plan.ttl / RENEWALS)
            if over.is_set():
                return
            try:
                await asyncio.to_thread(self._store.renew, work.path, work.data)
            except StoreError as error:
                # The next may come through; else another takes over, and one result counts.
                _LOG.warning("claim not renewed", extra={"path": work.path, "reason": str(error)})
                self._warn(str(error))
