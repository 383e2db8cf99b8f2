"""Carries out a pilot's operations on a store, and runs its programs on this node.

Threads talk to the storage, so that claims are renewed meanwhile. Each input's files are fetched
once. ``protocol`` decides.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

from matchmaker.pilots.node.keeper import remove
from matchmaker.pilots.node.running import run
from matchmaker.pilots.node.task import Limits, Task
from matchmaker.pilots.store import protocol
from matchmaker.pilots.store.places import Store
from matchmaker.pilots.store.plan import MOST_PLAN, PLAN, WORK, Plan, PlanError, read_plan
from matchmaker.pilots.store.protocol import (
    Operation,
    Outcome,
    Own,
    Pause,
    Pilot,
    StoreError,
    Tally,
    Unsure,
    Work,
)  # fmt: skip

RENEWALS: Final = 4
"""How often a claim is renewed in its time to live."""
_SHOWN: Final = 500
"""Bytes of a program's errors that a note of a failure holds."""


def plan_of(store: Store) -> Plan:
    """The plan of a store.

    Raises:
        StoreError: there is none, or the storage gives no answer.
        PlanError: it cannot be used.
    """
    text = _text_of_plan(store)
    if text is None:
        raise StoreError(f"{store.url}: there is no {PLAN}; it says what pilots run there")
    if len(text) >= MOST_PLAN:
        raise PlanError(f"{PLAN} is longer than {MOST_PLAN} bytes")
    try:
        return read_plan(text.decode("utf-8"))
    except UnicodeDecodeError:
        raise PlanError(f"{PLAN} is not in UTF-8") from None


def _text_of_plan(store: Store) -> bytes | None:
    for _ in range(protocol.TRIES - 1):
        with suppress(Unsure):
            return store.read(PLAN)
        time.sleep(0.2)
    return store.read(PLAN)


class Worker:
    """A pilot on this node.

    Attributes:
        tally: what it has done.
        busy: whether it runs something now.
        drain: set it, and the pilot claims nothing more and ends after its current runs.
    """

    def __init__(
        self, store: Store, plan: Plan, folder: Path, *, idle: float | None = None,
        pause: float = 5.0, fresh: float = 60.0, warn: Callable[[str], object] = id,
    ) -> None:  # fmt: skip
        """Makes a pilot that has not begun.

        Args:
            store: where the work is.
            plan: what is run there.
            folder: where files are fetched to, and programs run.
            idle: seconds without anything to do after which it ends.
            pause: seconds between two looks when there is nothing to do.
            fresh: seconds after which a listing is too old to claim from.
            warn: is called with what goes wrong, for people.
        """
        nonce = secrets.token_hex(16)
        label = f"{socket.gethostname()} {os.getpid()}"
        self.me = Pilot(nonce=nonce, label=label, idle=idle, pause=pause, fresh=fresh)
        self.tally = Tally()
        self.busy = False
        self.drain = False
        self._store, self._plan, self._folder, self._warn = store, plan, folder, warn
        self._stop = asyncio.Event()
        self._fetched: dict[str, dict[str, Path]] = {}

    async def live(self, stop: asyncio.Event) -> Tally:
        """Works until the protocol ends, or until `stop` is set: then it gives its runs back.

        Raises:
            StoreError: the storage gave no answer, or has no executable.
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
                except Unsure as error:
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
            case Own():
                return time.monotonic()
            case Pause(seconds):
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), seconds)
                return not (self._stop.is_set() or self.drain)
            case Work():
                return await self._work(operation, program)
        return await asyncio.to_thread(operation, self._store)

    async def _executable(self) -> dict[str, Path]:
        """Fetches the program first; without it the pilot claims nothing."""
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
            except Unsure as error:
                problem = str(error)
            await asyncio.sleep(0.2 * 2**attempt)
        raise StoreError(problem)

    async def _files(self, work: Work) -> dict[str, Path] | None:
        """The input's files on this node; None if the store has them no more."""
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
                    return None
            self._fetched[input_] = found
        return self._fetched[input_]

    async def _work(self, work: Work, program: dict[str, Path]) -> Outcome:
        if self._stop.is_set() or self.drain:
            return Outcome()
        self.busy = True
        over = asyncio.Event()
        renewing = asyncio.create_task(self._renew(work, over))
        try:
            return await self._run(work, program)
        finally:
            # One that is under way would make the claim again after it was removed.
            over.set()
            await renewing
            self.busy = False

    async def _run(self, work: Work, program: dict[str, Path]) -> Outcome:
        input_, parameter = work.claim.input, work.claim.parameter
        files = await self._files(work)
        if files is None:
            return Outcome(problem="a file of the input is not there any more")
        name = self._plan.result_of(parameter)
        kept = self._folder / "results" / f"{input_}.{name}"
        kept.parent.mkdir(exist_ok=True)
        kept.unlink(missing_ok=True)
        task = Task(
            id=f"{input_}.{parameter}", argv=self._plan.words(input_, parameter),
            files={**files, **program}, limits=Limits(seconds=self._plan.seconds),
            keep={name: kept},
        )  # fmt: skip
        watch: list[asyncio.Task[None]] = []

        async def end(running: Any) -> None:
            await self._stop.wait()
            running.end("the pilot ends")

        result = await run(
            task, self._folder / "tasks",
            started=lambda running: watch.append(asyncio.create_task(end(running))),
        )  # fmt: skip
        for each in watch:
            each.cancel()
        if result.exit == 0 and not result.reason and kept.is_file():
            return Outcome(result=kept)
        if self._stop.is_set():
            return Outcome()
        problem = result.reason or (
            f"signal {result.signal}" if result.signal else f"exit status {result.exit}"
        )
        if result.exit == 0 and not result.reason:
            problem = f"the program left no {name}"
        self._warn(f"{input_}, {parameter}: {problem}")
        errors = result.errors[-_SHOWN:].decode("utf-8", "replace")
        return Outcome(problem=f"{problem}\n{errors}")

    async def _renew(self, work: Work, over: asyncio.Event) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), self._plan.ttl / RENEWALS)
            if over.is_set():
                return
            try:
                await asyncio.to_thread(self._store.renew, work.path, work.data)
            except StoreError as error:
                # The next may come through; else another takes over, and one result counts.
                self._warn(str(error))
