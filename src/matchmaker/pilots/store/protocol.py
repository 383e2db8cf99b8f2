"""How a pilot works on a store: a pure generator of operations, which others carry out.

The generator yields each operation, and gets its answer. If an operation may or may not have been
done, Unsure is thrown into the generator. So a simulator can interleave pilots at every step, end
them, repeat or lose operations; ``worker`` carries the operations out on real storage.

These rules always hold. A result is stored only whole and only once. A claim is created only if it
does not exist, and only its creator removes it. Nobody waits for a pilot that has died, only for
the end of its claim's time to live.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from random import Random
from typing import Any, Final

import attrs

from matchmaker.pilots.store.places import Store
from matchmaker.pilots.store.plan import FAILURE, WORK, Plan
from matchmaker.pilots.store.standing import COPIES, Claim, Standing, standing

TRIES: Final = 6
"""How often an operation is tried that nobody knows the end of."""
_MISSES: Final = 4
_WORTH: Final = 300
"""A pilot lists anew after so many claims that others had: 4, or one for so many parameters,
as a listing costs a request for a thousand."""


class StoreError(Exception):
    """The storage refuses an operation, or gave no answer; the message says which."""


class Unsure(StoreError):  # noqa: N818 - it is tried again, and shown in the end alone
    """An operation was interrupted, and may have been done or not; it may be tried again."""


@attrs.frozen(slots=True)
class Own:
    """This pilot's own time in seconds, for its own intervals; does not ask the storage."""


@attrs.frozen(slots=True)
class Pause:
    """Waits a number of seconds; answers False if the pilot is to end."""

    seconds: float


@attrs.frozen(slots=True)
class Work:
    """Runs the command while it renews the claim; answers an Outcome."""

    claim: Claim
    path: str
    data: bytes
    files: tuple[str, ...]


Asked = Callable[[Store], Any]
"""Calls one method of the storage; the pilot gets what it gives."""
Operation = Asked | Own | Pause | Work
Steps = Generator[Operation, Any, Any]


@attrs.frozen(slots=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        result: the file to store, or None.
        problem: why there is none; empty if the pilot is to end and gives the work back.
    """

    result: Any = None
    problem: str = ""


@attrs.define(slots=True)
class Tally:
    """What a pilot has done. ``ended`` says why it ended."""

    stored: int = 0
    duplicates: int = 0
    failed: int = 0
    taken_over: int = 0
    repeated: int = 0
    lost: int = 0
    listings: int = 0
    given_up: int = 0
    ended: str = ""


@attrs.frozen(slots=True, kw_only=True)
class Pilot:
    """A pilot as its claims name it.

    Attributes:
        nonce: no other pilot has it.
        label: its host and process, for people.
        idle: after how many seconds without anything to do it ends; None for never.
        pause: seconds between two looks when there is nothing to do.
        fresh: after how many seconds a listing is too old to claim from.
    """

    nonce: str
    label: str
    idle: float | None = None
    pause: float = 5.0
    fresh: float = 60.0


def pilot(plan: Plan, me: Pilot, random: Random, tally: Tally) -> Steps:
    """Works until every input is finished, nothing can be done for a time, or it is to end.

    Args:
        plan: what is run.
        me: who claims.
        random: decides among what is free.
        tally: counts what was done, also where the pilot is broken off.

    Raises:
        StoreError: the storage gave no answer, often.
    """
    seen: dict[Claim, float] = {}
    idle_since: float | None = None
    barren = 0
    while True:
        now: float = yield from _sure(lambda store: store.now(me.nonce))
        own: float = yield Own()
        states = yield from _look(plan, random, tally)
        claims = _choose(plan, states, now, seen, random)
        if all(not (each.free or each.claims) for each in states.values()):
            tally.given_up = sum(len(each.given_up) for each in states.values())
            tally.ended = "given up" if tally.given_up else "all is done"
            return
        before = tally.stored + tally.duplicates + tally.failed
        if claims:
            batch = _batch(plan, me, tally, states=states, claims=claims, now=now)
            if not (yield from batch):
                return
        if tally.stored + tally.duplicates + tally.failed > before:
            idle_since, barren = None, 0
            continue
        idle_since = own if idle_since is None else idle_since
        if me.idle is not None and own - idle_since >= me.idle:
            tally.ended = "idle"
            return
        # Claims that others had are soon in a listing. Those of which none ever is to be had, as a
        # folder has the claim's name, must not keep a pilot busy.
        barren += 1
        wait = min(me.pause, _wait(barren - 1)) if claims else me.pause
        if not (yield Pause(wait * random.uniform(0.7, 1.3))):
            tally.ended = "stopped"
            return


def _look(plan: Plan, random: Random, tally: Tally) -> Steps:
    """Lists inputs until one has something free; those that are done are moved aside."""
    names: list[str] = yield from _sure(lambda store: store.inputs())
    random.shuffle(names)
    states: dict[str, Standing] = {}
    for name in names:
        found: Standing | None = yield from _stands(plan, name, tally)
        if found is not None:
            states[name] = found
            if found.free:
                break
    return states


def _stands(plan: Plan, name: str, tally: Tally) -> Steps:
    """How far an input is; None where it is moved aside, by this pilot perhaps."""
    entries = yield from _sure(lambda store: store.listing(name))
    tally.listings += 1
    found = None if entries is None else standing(plan, entries)
    if found is not None and found.all_done:
        yield from _sure(lambda store: store.finish(name))
        return None
    return found


def _choose(
    plan: Plan, states: Mapping[str, Standing], now: float, seen: dict[Claim, float], random: Random
) -> list[Claim]:
    """What to try: what is free, else what nobody renews, else what others run for long."""
    # In random order, so that pilots seldom try the same.
    current = [
        Claim(name, each, found.next_epoch(each))
        for name, found in states.items()
        for each in random.sample(list(found.claims), len(found.claims))
    ]
    first = {claim: seen.get(claim, now) for claim in current}
    seen.clear()
    seen.update(first)
    for name, found in states.items():
        if found.free:
            return [Claim(name, each, 1) for each in random.sample(found.free, len(found.free))]
    left = [c for c in current if not states[c.input].living(c.parameter, now, plan.ttl)]
    if left:
        return left
    return [
        claim for claim in current
        if now - seen[claim] >= plan.again
        and states[claim.input].living(claim.parameter, now, plan.ttl) < COPIES
    ][:1]  # fmt: skip


def _batch(
    plan: Plan, me: Pilot, tally: Tally, *, states: Mapping[str, Standing], claims: list[Claim],
    now: float,
) -> Steps:  # fmt: skip
    """Claims and runs one after the other, as long as the listing is good for it.

    Gives False where the pilot is to end.
    """
    misses, most = 0, max(_MISSES, len(plan.parameters) // _WORTH)
    began: float = yield Own()
    for claim in claims:
        ran = yield from _one(plan, me, tally, claim=claim, found=states[claim.input], now=now)
        if ran is None:
            tally.ended = "stopped"
            return False
        misses += not ran
        if misses >= most or (yield Own()) - began > me.fresh:
            return True
    return True


def _one(
    plan: Plan, me: Pilot, tally: Tally, *, claim: Claim, found: Standing, now: float
) -> Steps:  # fmt: skip
    """Claims, runs, hands in. True where it ran, False where another has it, None to end."""
    path = f"{WORK}/{claim.input}/{claim.name}"
    data = f"{me.label} {me.nonce}\n".encode()
    if not (yield from _claimed(path, data)):
        tally.lost += 1
        return False
    result = f"{WORK}/{claim.input}/{plan.result_of(claim.parameter)}"
    # Between the listing and the claim another may have stored it, and even moved all aside.
    if not (yield from _sure(lambda store: store.needed(claim.input, result))):
        yield from _sure(lambda store: store.remove(path))
        tally.lost += 1
        return False
    if claim.epoch > 1:
        if found.living(claim.parameter, now, plan.ttl):
            tally.repeated += 1
        else:
            tally.taken_over += 1
    outcome: Outcome = yield Work(claim, path, data, found.files)
    if outcome.result is not None:
        if (yield from _sure(lambda store: store.publish(result, outcome.result))):
            tally.stored += 1
        else:
            tally.duplicates += 1
    elif outcome.problem:
        tally.failed += 1
        number = found.failures.get(claim.parameter, 0) + 1
        note = f"{WORK}/{claim.input}/{FAILURE}{claim.parameter}.{number}"
        text = f"{me.label}\n{outcome.problem}\n".encode()
        yield from _sure(lambda store: store.create(note, text))
    yield from _sure(lambda store: store.remove(path))
    return True if outcome.result is not None or outcome.problem else None


def _claimed(path: str, data: bytes) -> Steps:
    """Whether this pilot has the claim. What was broken off is tried again, and then read back."""
    doubt = False
    for attempt in range(TRIES):
        try:
            made = yield lambda store: store.create(path, data)
        except Unsure:
            doubt = True
            yield Pause(_wait(attempt))
            continue
        if made or not doubt:
            return made
        break
    # What stands there is what counts: with this pilot's nonce it was won.
    return (yield from _sure(lambda store: store.read(path))) == data


def _sure(operation: Asked) -> Steps:
    """The answer to an operation that may be done twice; it is tried again where it broke off."""
    problem = ""
    for attempt in range(TRIES):
        try:
            return (yield operation)
        except Unsure as error:
            problem = str(error)
        yield Pause(_wait(attempt))
    raise StoreError(problem)


def _wait(attempt: int) -> float:
    return float(min(0.1 * 4**attempt, 20.0))
