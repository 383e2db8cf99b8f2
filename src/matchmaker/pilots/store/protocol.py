"""A pilot's work on a store: a pure generator of operations, and the storage that performs them.

The generator yields each operation, and gets its answer. If an operation may or may not have been
done, UnsureError is thrown into the generator. So a simulator can interleave pilots at every step,
end them, repeat or lose operations; ``worker`` carries the operations out on real storage.

These rules always hold. A result is stored only whole and only once. A claim is created only if it
does not exist, and only its creator removes it. Nobody waits for a pilot that has died, only for
the end of its claim's time to live. Each failure is a file of its own, whose name has the node; so
none is lost if pilots fail at once, and one bad node counts as one, however often it fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, Protocol

import attrs

from matchmaker.pilots.store.plan import (
    ABANDONED,
    COPIES,
    TASKS,
    WORK,
    InputState,
    StoreClaim,
    StoreEntry,
    StorePlan,
    input_state,
    inputs_of,
    note_of,
)

# Claims and notes have some hundred bytes, a plan some thousand.
MOST_SMALL: Final = 1 << 20
# With pauses of up to 20 s: a server may restart within these tries.
TRIES: Final = 6
# A pilot lists anew after so many claims that others had: 4, or one for each _WORTH parameters,
_MISSES: Final = 4
# as a listing costs a request for a thousand.
_WORTH: Final = 300


class SharedStore(Protocol):
    """A storage that pilots share. Paths are relative to it, with ``/``.

    Each method may raise UnsureError if it was interrupted, and StoreError if it was refused.
    """

    @property
    def url(self) -> str:
        """The URL of the storage."""

    def now(self, nonce: str) -> float:
        """Return the storage's time, in seconds since 1970."""

    def inputs(self, *, finished: bool = False) -> Iterable[StoreEntry] | None:
        """Return the unfinished or the finished entries of ``work/``; None without the folder."""

    def prepare(self, input_: str) -> None:
        """Make an input's folder, unless it exists."""

    def listing(self, input_: str, *, finished: bool = False) -> Iterable[StoreEntry] | None:
        """Return the files of an input; None if it does not exist."""

    def read(self, path: str) -> bytes | None:
        """Return a small file; None if it does not exist."""

    def needed(self, input_: str, path: str) -> bool:
        """Whether a result does not exist yet, and its input was not moved."""

    def create(self, path: str, data: bytes) -> bool:
        """Create a small file, if there is none."""

    def publish(self, path: str, source: Path) -> bool:
        """Store a file whole, if there is none."""

    def renew(self, path: str, data: bytes) -> None:
        """Set the time of a claim that this pilot has made."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def fetch(self, path: str, target: Path) -> bool:
        """Copy a file from the storage to the node; whether it was there."""

    def finish(self, input_: str) -> None:
        """Move an input to ``finished/``, or mark it as finished."""

    def leave(self, nonce: str, age: float = ABANDONED) -> None:
        """Remove this pilot's file of ``now``, and those of pilots that were killed.

        These must be ``age`` seconds older, by the storage's clock.
        """


class StoreError(Exception):
    """The storage refuses an operation, or gave no answer; the message has the operation."""


class UnsureError(StoreError):
    """An operation was interrupted, and may have been done or not; it may be tried again."""


@attrs.frozen(slots=True)
class OwnTime:
    """Returns this pilot's own time in seconds, for its own intervals; does not ask the storage."""


@attrs.frozen(slots=True)
class Pause:
    """Waits a number of seconds; answers False if the pilot is to end."""

    seconds: float


@attrs.frozen(slots=True)
class Notify:
    """Shows people a message, once."""

    text: str


@attrs.frozen(slots=True)
class RunCommand:
    """Runs the command while it renews the claim; answers a RunOutcome."""

    claim: StoreClaim
    path: str
    data: bytes
    files: tuple[str, ...]


StoreCall = Callable[[SharedStore], Any]
"""Calls one method of the storage, and returns its answer to the pilot."""
Operation = StoreCall | OwnTime | Pause | Notify | RunCommand
Steps = Generator[Operation, Any, Any]


@attrs.frozen(slots=True)
class RunOutcome:
    """The outcome of a run.

    Attributes:
        result: the file to store, or None.
        problem: why there is none; empty if the pilot is to end and gives the work back.
        fault: the part that failed: the run; the start of the program; or the node, before that.
    """

    result: Any = None
    problem: str = ""
    fault: Literal["run", "start", "node"] = "run"


@attrs.define(slots=True)
class WorkerTally:
    """The counts of a pilot.

    Attributes:
        others_first: parameters that another pilot claimed or stored first, which costs nothing.
        given_up: parameters that failed on too many nodes.
        failed_here: others that failed too often on this node, and wait for another.
        refused: entries of the store that cannot be run, and were reported.
        ended: why the pilot ended.
    """

    stored: int = 0
    duplicates: int = 0
    failed: int = 0
    taken_over: int = 0
    repeated: int = 0
    others_first: int = 0
    listings: int = 0
    given_up: int = 0
    failed_here: int = 0
    refused: int = 0
    ended: str = ""


@attrs.define(slots=True)
class NodeHistory:
    """The experience of a pilot's slots on their node.

    Attributes:
        worked: whether any run had a result.
        row: the parameters, with their inputs, that failed here since then, and on no other node.
        leaving: why the pilot leaves; empty as long as it stays.
    """

    worked: bool = False
    row: dict[tuple[str, str], None] = attrs.Factory(dict)
    leaving: str = ""


@attrs.frozen(slots=True, kw_only=True)
class StorePilot:
    """A pilot as its claims name it.

    Attributes:
        nonce: no other pilot has it.
        label: its node and process, for people.
        node: names the node in the notes of failures; letters and digits.
        idle: after how many seconds without anything to do it ends; None for never.
        pause: seconds between two looks when there is nothing to do.
        fresh: after how many seconds a listing is too old to claim from.
        failures: how many parameters that failed here in a row, and nowhere else, make it leave; 0
            for never.
        history: shared by the slots of a pilot.
    """

    nonce: str
    label: str
    node: str
    idle: float | None = None
    pause: float = 5.0
    fresh: float = 60.0
    failures: int = 10
    history: NodeHistory = attrs.Factory(NodeHistory)


@attrs.frozen(slots=True)
class _View:
    """An input for a pilot: parameters that never failed on its node, and those to be tried again.

    ``claims`` are those of parameters that may be tried here.
    """

    found: InputState
    fresh: list[str]
    tried: list[str]
    claims: Mapping[str, Mapping[int, float]]

    @classmethod
    def of(cls, found: InputState, node: str, attempts: int, hidden: AbstractSet[str]) -> _View:
        own = {p: nodes[node] for p, nodes in found.failures.items() if node in nodes}
        barred = {p for p, failed in own.items() if failed >= attempts} | hidden
        return cls(
            found, [p for p in found.free if p not in own and p not in hidden],
            [p for p in found.free if p in own and p not in barred],
            {p: epochs for p, epochs in found.claims.items() if p not in barred},
        )  # fmt: skip


def pilot(plan: StorePlan, me: StorePilot, random: Random, tally: WorkerTally) -> Steps:
    """Work until every input is finished, nothing can be done for a time, or the pilot is to end.

    ``random`` decides among free parameters; ``tally`` counts even if the pilot is broken off.
    Raises StoreError if the storage gave no answer, often.
    """
    return _Session(plan, me, random, tally).live()


@attrs.define(slots=True)
class _Session:
    """The life of a pilot, and its memory."""

    plan: StorePlan
    me: StorePilot
    random: Random
    tally: WorkerTally
    seen: dict[StoreClaim, float] = attrs.Factory(dict)
    refused: set[str] = attrs.Factory(set)
    unneeded: Counter[tuple[str, str]] = attrs.Factory(Counter)

    def live(self) -> Steps:
        me, tally, random = self.me, self.tally, self.random
        idle_since: float | None = None
        barren = 0
        if self.plan.tasks is not None:
            yield from _retried(lambda store: store.prepare(TASKS))
        while True:
            if me.history.leaving:
                tally.ended = me.history.leaving
                return
            now: float = yield from _retried(lambda store: store.now(me.nonce))
            own: float = yield OwnTime()
            views: Mapping[str, _View] = yield from self.look()
            claims = self.choose(views, now)
            if not any(each.fresh or each.tried or each.claims for each in views.values()):
                self.over(views)
                return
            before = tally.stored + tally.duplicates + tally.failed
            if claims and not (yield from self.batch(views, claims, now)):
                return
            if tally.stored + tally.duplicates + tally.failed > before:
                idle_since, barren = None, 0
                continue
            idle_since = own if idle_since is None else idle_since
            if me.idle is not None and own - idle_since >= me.idle:
                tally.ended = "idle"
                return
            # Claims that others had are soon in a listing.
            barren += 1
            wait = min(me.pause, _wait(barren - 1)) if claims else me.pause
            if not (yield Pause(wait * random.uniform(0.7, 1.3))):
                tally.ended = "stopped"
                return

    def over(self, views: Mapping[str, _View]) -> None:
        """Record why nothing is left for this pilot."""
        tally = self.tally
        tally.given_up = sum(len(each.found.given_up) for each in views.values())
        tally.failed_here = sum(
            self.unneeded[each, parameter] < TRIES
            for each, view in views.items()
            for parameter in (*view.found.free, *view.found.claims)
        )
        if tally.failed_here:
            tally.ended = "what is left failed on this node"
        elif tally.given_up:
            tally.ended = "given up"
        else:
            tally.ended = "all else is done" if self.refused else "all is done"

    def look(self) -> Steps:
        """List inputs until one has a new parameter; move those that are done aside."""
        entries = yield from _retried(lambda store: store.inputs())
        if entries is None:
            raise StoreError(f"there is no folder {WORK}; each folder in it is an input")
        names, refused = inputs_of(self.plan, entries)
        yield from self.refuse(refused)
        self.random.shuffle(names)
        views: dict[str, _View] = {}
        for name in names:
            found: InputState | None = yield from self.stands(name)
            if found is None:
                continue
            hidden = {
                p for (at, p), times in self.unneeded.items() if at == name and times >= TRIES
            }
            views[name] = _View.of(found, self.me.node, self.plan.attempts, hidden)
            if views[name].fresh:
                break
        return views

    def listed(self, name: str) -> Steps:
        entries = yield from _retried(lambda store: store.listing(name))
        self.tally.listings += 1
        return None if entries is None else input_state(self.plan, entries)

    def stands(self, name: str) -> Steps:
        """Return an input's state; None if it is moved aside, or refused."""
        found: InputState | None = yield from self.listed(name)
        if found is not None and found.all_done:
            # The one input of a list of tasks is made by pilots: none would know that it was moved.
            if self.plan.tasks is None:
                yield from _retried(lambda store: store.finish(name))
            return None
        if found is not None and found.odd:
            yield from self.refuse([
                f"{WORK}/{name} is left out: {each}; it may hold plain files only"
                for each in found.odd[:3]
            ])  # fmt: skip
            return None
        return found

    def refuse(self, sentences: list[str]) -> Steps:
        for each in sentences:
            yield Notify(each)
        self.refused.update(sentences)
        self.tally.refused = len(self.refused)

    def choose(self, views: Mapping[str, _View], now: float) -> list[StoreClaim]:
        """Choose claims: new, not renewed, failed here before, or run for long by others."""
        ttl, random, seen = self.plan.ttl, self.random, self.seen
        # In random order, so that pilots seldom try the same.
        current = [
            StoreClaim(name, each, view.found.next_epoch(each))
            for name, view in views.items()
            for each in random.sample(list(view.claims), len(view.claims))
        ]
        first = {claim: seen.get(claim, now) for claim in current}
        seen.clear()
        seen.update(first)
        for name, view in views.items():
            if view.fresh:
                return [StoreClaim(name, p, 1) for p in random.sample(view.fresh, len(view.fresh))]
        left = [c for c in current if not views[c.input].found.living(c.parameter, now, ttl)]
        if left:
            return left
        tried = [StoreClaim(name, each, 1) for name, view in views.items() for each in view.tried]
        if tried:
            return random.sample(tried, len(tried))
        return [
            claim for claim in current
            if now - seen[claim] >= self.plan.again
            and views[claim.input].found.living(claim.parameter, now, ttl) < COPIES
        ][:1]  # fmt: skip

    def batch(self, views: Mapping[str, _View], claims: list[StoreClaim], now: float) -> Steps:
        """Claim and run one after the other, as long as the listing is good for it.

        Returns False if the pilot is to end.
        """
        misses, most = 0, max(_MISSES, len(self.plan.parameters) // _WORTH)
        began: float = yield OwnTime()
        for claim in claims:
            ran = yield from self.one(claim, views[claim.input].found, now)
            if self.me.history.leaving:
                self.tally.ended = self.me.history.leaving
                return False
            if ran is None:
                self.tally.ended = "stopped"
                return False
            misses += not ran
            if misses >= most or (yield OwnTime()) - began > self.me.fresh:
                return True
        return True

    def one(self, claim: StoreClaim, found: InputState, now: float) -> Steps:
        """Claim, run, store. True if it ran, False if another has it, None to end."""
        tally, parameter = self.tally, claim.parameter
        path = f"{WORK}/{claim.input}/{claim.name}"
        data = f"{self.me.label} {self.me.nonce}\n".encode()
        if not (yield from _create_claim(path, data)):
            tally.others_first += 1
            return False
        result = f"{WORK}/{claim.input}/{self.plan.result_of(parameter)}"
        # Between the listing and the claim another may have stored it, and even moved all aside.
        if not (yield from _retried(lambda store: store.needed(claim.input, result))):
            yield from _remove_claim(path, data)
            tally.others_first += 1
            self.unneeded[claim.input, parameter] += 1
            if self.unneeded[claim.input, parameter] == TRIES:
                # Servers of WebDAV list only plain files and folders.
                yield from self.refuse([
                    f"{result} is there, but in no listing: remove it, if it is a link or a pipe"
                ])  # fmt: skip
            return False
        if claim.epoch > 1:
            if found.living(parameter, now, self.plan.ttl):
                tally.repeated += 1
            else:
                tally.taken_over += 1
        outcome: RunOutcome = yield RunCommand(claim, path, data, found.files)
        if outcome.result is not None:
            if (yield from _retried(lambda store: store.publish(result, outcome.result))):
                tally.stored += 1
            else:
                tally.duplicates += 1
            self.me.history.worked = True
            self.me.history.row.clear()
        elif outcome.problem:
            others = found.failures.get(parameter, {}).keys()
            if not (yield from self.failed(claim, outcome, others)):
                yield from _remove_claim(path, data)
                return None
        yield from _remove_claim(path, data)
        return True if outcome.result is not None or outcome.problem else None

    def failed(self, claim: StoreClaim, outcome: RunOutcome, others: AbstractSet[str]) -> Steps:
        """Note a failure. False if it is the node's, as nothing ever started here."""
        me, history = self.me, self.me.history
        if outcome.fault == "node" or (outcome.fault == "start" and not history.worked):
            history.leaving = "it could not start a program"
            first = outcome.problem.partition("\n")[0]
            yield Notify(
                f"{claim.input}, {claim.parameter} could not be started: {first}; the pilot leaves,"
                " and others may run it"
            )
            return False
        self.tally.failed += 1
        note = f"{WORK}/{claim.input}/{note_of(claim.parameter, me.node, self.random)}"
        text = f"{me.label}\n{outcome.problem}\n".encode()
        yield from _retried(lambda store: store.create(note, text))
        if not others - {me.node}:
            history.row[claim.input, claim.parameter] = None
        if me.failures and len(history.row) >= me.failures:
            yield from self.compare()
        if me.failures and len(history.row) >= me.failures and not history.leaving:
            history.leaving = "too many failures in a row"
            yield Notify(
                f"the last {len(history.row)} parameters failed here, and on no other node: is"
                f" something missing on {me.label.split()[0]}? The pilot leaves, and others may run"
                " them"
            )
        return True

    def compare(self) -> Steps:
        """Forget, of the failures in a row, those that other nodes have had since."""
        row = self.me.history.row
        for name in dict.fromkeys(name for name, _ in row):
            found: InputState | None = yield from self.listed(name)
            for each in [each for each in row if each[0] == name]:
                if found is None or found.failures.get(each[1], {}).keys() - {self.me.node}:
                    row.pop(each, None)


def _create_claim(path: str, data: bytes) -> Steps:
    """Whether this pilot has the claim. After an interruption, try again and read back."""
    problem = ""
    for attempt in range(TRIES):
        try:
            made = yield lambda store: store.create(path, data)
        except UnsureError as error:
            problem = str(error)
            yield Pause(_wait(attempt))
            continue
        if made or not problem:
            return made
        break
    # The file decides: with this pilot's nonce the claim is its own.
    there = yield from _retried(lambda store: store.read(path))
    if there is None and attempt == TRIES - 1:
        raise StoreError(f"{problem} ({TRIES} tries)")
    return there == data


def _remove_claim(path: str, data: bytes) -> Steps:
    """Remove this pilot's claim. After an error it may be gone, and the name another's by now."""
    problem = ""
    for attempt in range(TRIES):
        if problem and (yield from _retried(lambda store: store.read(path))) != data:
            return
        try:
            yield lambda store: store.remove(path)
        except UnsureError as error:
            problem = str(error)
            yield Pause(_wait(attempt))
        else:
            return
    raise StoreError(f"{problem} ({TRIES} tries)")


def _retried(operation: StoreCall) -> Steps:
    """Perform an operation that may be done twice; repeat it after an interruption."""
    problem = ""
    for attempt in range(TRIES):
        try:
            return (yield operation)
        except UnsureError as error:
            problem = str(error)
        yield Pause(_wait(attempt))
    raise StoreError(f"{problem} ({TRIES} tries)")


def _wait(attempt: int) -> float:
    return float(min(0.1 * 4**attempt, 20.0))
