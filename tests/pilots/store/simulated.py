"""Pilots on a simulated storage, which interleaves, kills, breaks off, repeats, and lies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Literal

import attrs

from matchmaker.pilots.store import protocol
from matchmaker.pilots.store.plan import StoreClaim, StoreEntry, StorePlan
from matchmaker.pilots.store.protocol import (
    Operation,
    RunOutcome,
    Steps,
    StoreError,
    UnsureError,
    WorkerTally,
)

Fault = Literal["run", "start", "node"]


@attrs.frozen(slots=True, kw_only=True)
class Trouble:
    """How often, between 0 and 1, what goes wrong at a step.

    Attributes:
        lost: an operation is broken off and not done.
        doubtful: it is done, and broken off all the same.
        killed: a pilot is killed.
        old: a listing is one of before.
        failed: a run fails.
        silent: a run's claim is not renewed.
        gone: the pilot is to end, and gives back what it runs.
    """

    lost: float = 0.0
    doubtful: float = 0.0
    killed: float = 0.0
    old: float = 0.0
    failed: float = 0.0
    silent: float = 0.0
    gone: float = 0.0


@attrs.define(slots=True)
class _Pilot:
    name: str
    node: str
    steps: Steps
    tally: WorkerTally
    operation: Operation
    ready: float = 0.0
    claim: protocol.RunCommand | None = None
    renews: bool = True
    bad: bool = False


@attrs.define
class World:
    """A storage, its clock and its pilots.

    Attributes:
        folders: whether a finished input is moved, as on a disk, or marked, as in a bucket.
        runs: each run that began.
        together: the most runs of one parameter at once.
        failed: of each input and parameter, on which nodes it failed, and how often.
        most: how many failures in a row make a pilot leave.
        problems: what may never happen.
    """

    plan: StorePlan
    random: Random
    trouble: Trouble
    folders: bool = True
    now: float = 1000.0
    files: dict[str, tuple[bytes, float]] = attrs.Factory(dict)
    finished: set[str] = attrs.Factory(set)
    inputs: list[str] = attrs.Factory(list)
    pilots: list[_Pilot] = attrs.Factory(list)
    ended: list[WorkerTally] = attrs.Factory(list)
    runs: list[StoreClaim] = attrs.Factory(list)
    completed: list[StoreClaim] = attrs.Factory(list)
    results: list[str] = attrs.Factory(list)
    failed: dict[tuple[str, str], Counter[str]] = attrs.Factory(dict)
    most: int = 10
    fault: Fault = "run"
    killed: int = 0
    listings: int = 0
    together: int = 0
    old: dict[str, list[list[StoreEntry]]] = attrs.Factory(dict)
    problems: list[str] = attrs.Factory(list)

    def begin(self, name: str, node: str | None = None, *, bad: bool = False) -> None:
        """Begins a pilot, on a node of its own by default; on a bad one each run fails."""
        tally = WorkerTally()
        me = protocol.StorePilot(
            nonce=name, label="host", node=node or name, pause=3.0, failures=self.most
        )  # fmt: skip
        steps = protocol.pilot(self.plan, me, Random(name), tally)
        self.pilots.append(_Pilot(name, me.node, steps, tally, next(steps), self.now, bad=bad))

    def live(self, most: int = 200_000) -> None:
        """Until no pilot is left."""
        for _ in range(most):
            if not self.pilots:
                return
            first = min(pilot.ready for pilot in self.pilots)
            self.now = max(self.now, first) + self.random.random() * 0.2
            ready = [pilot for pilot in self.pilots if pilot.ready <= self.now]
            self.step(self.random.choice(ready))
        self.problems.append("the pilots do not end")

    def step(self, pilot: _Pilot) -> None:
        """Carries out the operation that a pilot waits for."""
        trouble, random = self.trouble, self.random
        if random.random() < trouble.killed:
            self.pilots.remove(pilot)
            self.killed += 1
            return
        send: Callable[[], Operation]
        if isinstance(
            pilot.operation,
            protocol.OwnTime | protocol.Pause | protocol.Notify | protocol.RunCommand,
        ):
            answer = self.local(pilot)
            if answer is None:
                return
            send = lambda: pilot.steps.send(answer)  # noqa: E731
        elif random.random() < trouble.lost:
            send = lambda: pilot.steps.throw(UnsureError("lost"))  # noqa: E731
        else:
            answer = pilot.operation(self.storage())
            doubtful = random.random() < trouble.doubtful
            send = lambda: (  # noqa: E731
                pilot.steps.throw(UnsureError("doubtful")) if doubtful else pilot.steps.send(answer)
            )
        try:
            pilot.operation = send()
        except StopIteration:
            self.pilots.remove(pilot)
            self.ended.append(pilot.tally)
        except StoreError as error:
            if isinstance(error, UnsureError):
                self.problems.append("what was broken off was not tried again")
            # It ends without a word, as if it was killed.
            self.pilots.remove(pilot)
            self.killed += 1
        if isinstance(pilot.operation, protocol.Pause):
            pilot.ready = self.now + pilot.operation.seconds

    def local(self, pilot: _Pilot) -> Any:
        """What a pilot does by itself; None while it still runs something."""
        match pilot.operation:
            case protocol.OwnTime():
                return self.now
            case protocol.Notify():
                return ""
            case protocol.Pause():
                return self.random.random() >= self.trouble.gone
            case protocol.RunCommand() as work if pilot.claim is None:
                if any(p.claim is not None and p.claim.path == work.path for p in self.pilots):
                    self.problems.append(f"two pilots have the claim {work.path}")
                self.runs.append(work.claim)
                pilot.claim = work
                now = Counter(
                    (p.claim.claim.input, p.claim.claim.parameter) for p in self.pilots if p.claim
                )
                self.together = max(self.together, *now.values())
                pilot.renews = self.random.random() >= self.trouble.silent
                pilot.ready = self.now + self.random.expovariate(1 / 5)
                return None
            case protocol.RunCommand() as work:
                pilot.claim = None
                if self.random.random() < self.trouble.gone:
                    return RunOutcome()
                if pilot.bad or self.random.random() < self.trouble.failed:
                    where = work.claim.input, work.claim.parameter
                    self.failed.setdefault(where, Counter())[pilot.node] += 1
                    return RunOutcome(problem="it failed", fault=self.fault)
                self.completed.append(work.claim)
                return RunOutcome(result=pilot.name)
        raise AssertionError(pilot.operation)

    def storage(self) -> Any:
        """What the storage does and answers."""
        return _Storage(self)

    def put(self, path: str, data: bytes) -> bool:
        if path in self.files or (self.folders and path.split("/")[1] in self.finished):
            return False
        self.files[path] = data, self.now
        return True

    def finish(self, name: str) -> None:
        missing = {f"work/{name}/{self.plan.result_of(p)}" for p in self.plan.parameters}
        if name not in self.finished and missing - set(self.results):
            self.problems.append(f"{name} was moved aside before all results were there")
        self.finished.add(name)
        if self.folders:
            for path in [path for path in self.files if path.startswith(f"work/{name}/")]:
                del self.files[path]

    def listing(self, name: str) -> list[StoreEntry] | None:
        self.listings += 1
        if self.folders and name in self.finished:
            return None
        for pilot in self.pilots:
            if pilot.claim is not None and pilot.renews and pilot.claim.path in self.files:
                self.files[pilot.claim.path] = pilot.claim.data, self.now
        start = f"work/{name}/"
        found = [
            StoreEntry(path.removeprefix(start), time)
            for path, (_, time) in self.files.items() if path.startswith(start)
        ]  # fmt: skip
        before = self.old.setdefault(name, [])
        before.append(found)
        return self.random.choice(before[-5:]) if self.random.random() < self.trouble.old else found


@attrs.frozen
class _Storage:
    """What of a store pilots ask for."""

    world: World

    def now(self, _: str) -> float:
        return self.world.now

    def inputs(self) -> list[StoreEntry]:
        world = self.world
        return [
            StoreEntry(each, 0.0, "folder") for each in world.inputs if each not in world.finished
        ]

    def prepare(self, name: str) -> None:
        assert name in self.world.inputs

    def listing(self, name: str) -> list[StoreEntry] | None:
        return self.world.listing(name)

    def read(self, path: str) -> bytes | None:
        return self.world.files.get(path, (None, 0.0))[0]

    def needed(self, name: str, path: str) -> bool:
        world = self.world
        return path not in world.files and not (world.folders and name in world.finished)

    def remove(self, path: str) -> None:
        self.world.files.pop(path, None)

    def create(self, path: str, data: bytes) -> bool:
        return self.world.put(path, data)

    def publish(self, path: str, result: object) -> bool:
        made = self.world.put(path, str(result).encode())
        if made:
            self.world.results.append(path)
        return made

    def finish(self, name: str) -> None:
        self.world.finish(name)
