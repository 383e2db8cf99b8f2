"""The table of moves, row by row, and laws of `step` for all observations."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker.delegation import states
from matchmaker.delegation.contact import SpoolMarks
from matchmaker.delegation.moves import BY_OWNER, MOVES, Observation
from matchmaker.delegation.record import (
    Deadlines,
    JobStatus,
    NoAnswer,
    Phase,
    ReasonCode,
    Record,
    Refused,
)
from matchmaker.delegation.record import (
    JobState as State,
)
from matchmaker.delegation.states import (
    Act,
    Effect,
    NotPossibleError,
    acknowledged,
    begin,
    renewed,
    resumed,
    wish_end,
)

NOW = 10_000.0
SILENT = NoAnswer("no answer")
NOTHING = SpoolMarks()


def record(state: State, **known: Any) -> Record:
    """A record that entered its state two minutes ago, with a lease of a day ahead."""
    made = begin("k", NOW - 120, digest="d", lease=86_400.0, cluster="slurm").record
    values = {"remote_id": "7", "deadline": made.lease_until, **known}
    return attrs.evolve(made, state=state, **values)


def status(phase: Phase, number: int = 7, **more: Any) -> JobStatus:
    return JobStatus(
        f"mm-k-{more.pop('attempt', 1)}", str(number), more.pop("submitted", 50.0), phase, **more
    )


def seen(*queue: JobStatus, marks: SpoolMarks | NoAnswer = NOTHING, accounting: Any = (),
         reply: str | Refused | NoAnswer | None = None) -> Observation:  # fmt: skip
    return Observation(queue=queue, accounting=accounting, marks=marks, reply=reply)


def step(before: Record, what: Observation, now: float = NOW) -> tuple[str, int, list[str]]:
    made = states.step(before, what, now)
    acts = [f"{e.act} {e.remote_id}".strip() for e in made.effects]
    return str(made.record.state), made.record.attempt, acts


GONE = NOW - 30
PARKED, WAITING, RUNNING = Phase.PARKED, Phase.WAITING, Phase.RUNNING
ENDED, CANCELLED = Phase.ENDED, Phase.CANCELLED
S = State
LATE = {"lease_until": NOW - 1}
COMMIT, START = SpoolMarks(committed=True), SpoolMarks(committed=True, started=True)
NEVER = SpoolMarks(committed=True, forbidden=True)

ROWS: dict[str, tuple[Record, Observation, tuple[str, int, list[str]]]] = {
    "an id is prepared":
        (record(S.INTENT, remote_id=""), seen(reply="9"), ("prepared", 1, [])),
    "any other reply is unknown":
        (record(S.INTENT, remote_id=""), Observation(queue=SILENT, reply=SILENT),
         ("unknown", 1, [])),
    "no reply in time is unknown":
        (record(S.INTENT, remote_id="", deadline=NOW - 1), seen(), ("unknown", 1, [])),
    "an intent waits for its reply":
        (record(S.INTENT, remote_id=""), seen(), ("intent", 1, [])),
    "of several the lowest id stays":
        (record(S.UNKNOWN, remote_id=""), seen(status(PARKED, 10), status(PARKED, 9)),
         ("prepared", 1, ["cancel 10"])),
    "an error is not absence":
        (record(S.UNKNOWN, absent_since=GONE), Observation(queue=SILENT, marks=NOTHING),
         ("unknown", 1, [])),
    "accounting that is silent proves nothing":
        (record(S.UNKNOWN, absent_since=GONE), seen(accounting=SILENT), ("unknown", 1, [])),
    "records that cannot be read prove nothing":
        (record(S.UNKNOWN, absent_since=GONE), seen(marks=SILENT), ("unknown", 1, [])),
    "absent for a moment is not gone":
        (record(S.UNKNOWN, absent_since=NOW - 29), seen(), ("unknown", 1, [])),
    "proven absent is submitted again":
        (record(S.UNKNOWN, absent_since=GONE), seen(), ("intent", 2, ["park"])),
    "with records of starts an end in the queue is no start":
        (record(S.UNKNOWN, absent_since=GONE), seen(status(ENDED, exit=75)),
         ("intent", 2, ["park"])),
    "not before it is due":
        (record(S.UNKNOWN, absent_since=GONE, retry_at=NOW + 1), seen(), ("unknown", 1, [])),
    "as often as it may be, then it is paused":
        (record(S.UNKNOWN, absent_since=GONE, attempt=9, tries=8), seen(), ("paused", 9, [])),
    "what can never start is paused too":
        (record(S.COMMITTED, absent_since=GONE, attempt=9, tries=8), seen(marks=NEVER),
         ("paused", 9, [])),
    "what is paused is not submitted again":
        (record(S.PAUSED, absent_since=GONE), seen(), ("paused", 1, [])),
    "what is paused and comes late is taken":
        (record(S.PAUSED, remote_id=""), seen(status(PARKED, 9)), ("prepared", 1, [])),
    "unless it may never start":
        (record(S.PAUSED, remote_id=""), seen(status(PARKED, 9), marks=NEVER),
         ("paused", 1, ["cancel 9"])),
    "what is paused and began after all is committed":
        (record(S.PAUSED), seen(marks=START), ("committed", 1, [])),
    "what is paused ends with its lease":
        (record(S.PAUSED, **LATE), seen(), ("cancelling", 1, ["forbid"])),
    "resumed, it is submitted again":
        (resumed(record(S.PAUSED, absent_since=GONE, attempt=8, tries=8), NOW), seen(),
         ("intent", 9, ["park"])),
    "a refusal is final":
        (record(S.INTENT, remote_id=""), seen(reply=Refused("no such partition")),
         ("failed", 1, [])),
    "a refusal that comes late is final":
        (record(S.UNKNOWN, remote_id=""), seen(reply=Refused("no such partition")),
         ("failed", 1, [])),
    "a start on record is a commit that was forgotten":
        (record(S.UNKNOWN, absent_since=GONE), seen(marks=START), ("committed", 1, [])),
    "too soon to commit":
        (record(S.PREPARED, since=NOW - 9), seen(status(PARKED)), ("prepared", 1, [])),
    "seen for long enough is committed, and then let go":
        (record(S.PREPARED, since=NOW - 10), seen(status(PARKED)),
         ("committed", 1, ["commit", "release 7"])),
    "two are not committed, one goes":
        (record(S.PREPARED), seen(status(PARKED), status(PARKED, 8)),
         ("prepared", 1, ["cancel 8"])),
    "nothing is committed unseen":
        (record(S.PREPARED), Observation(queue=SILENT, marks=NOTHING), ("prepared", 1, [])),
    "nothing is committed whose records cannot be read":
        (record(S.PREPARED), seen(status(PARKED), marks=SILENT), ("prepared", 1, [])),
    "a hold that ends is not committed":
        (record(S.PREPARED, hold_until=NOW + 60), seen(status(PARKED)),
         ("unknown", 1, ["cancel 7"])),
    "what the batch system lost is unknown":
        (record(S.PREPARED, absent_since=GONE), seen(), ("unknown", 1, [])),
    "what began unasked can never start":
        (record(S.PREPARED), seen(marks=SpoolMarks(forbidden=True)), ("intent", 2, ["park"])),
    "a release that had no effect is repeated":
        (record(S.COMMITTED), seen(status(PARKED), marks=COMMIT), ("committed", 1, ["release 7"])),
    "none is let go while the records cannot be read":
        (record(S.COMMITTED), seen(status(PARKED), marks=NoAnswer("away")), ("committed", 1, [])),
    "a commit that is not on record is repeated":
        (record(S.COMMITTED), seen(status(WAITING)), ("committed", 1, ["commit"])),
    "a start is on record":
        (record(S.COMMITTED), seen(status(RUNNING), marks=START), ("running", 1, [])),
    "gone before its start: no start any more":
        (record(S.COMMITTED, absent_since=GONE), seen(marks=COMMIT), ("committed", 1, ["forbid"])),
    "then submitted again":
        (record(S.COMMITTED, absent_since=GONE), seen(marks=NEVER), ("intent", 2, ["park"])),
    "ended by a person before its start: no start any more":
        (record(S.COMMITTED), seen(status(CANCELLED), marks=COMMIT), ("committed", 1, ["forbid"])),
    "then failed, and not submitted again":
        (record(S.COMMITTED), seen(status(CANCELLED), marks=NEVER), ("failed", 1, [])),
    "absence is not completion":
        (record(S.RUNNING, absent_since=GONE), seen(marks=START), ("running", 1, [])),
    "lost once its lease ran out":
        (record(S.RUNNING, absent_since=GONE, **LATE), seen(marks=START), ("lost", 1, [])),
    "the record of the end: done":
        (record(S.RUNNING), Observation(queue=SILENT, marks=attrs.evolve(START, exit=0)),
         ("done", 1, [])),
    "the record of the end: failed":
        (record(S.COMMITTED), seen(marks=attrs.evolve(START, exit=3)), ("failed", 1, [])),
    "an id that is used again is another job":
        (record(S.RUNNING, remote_submitted=10.0), seen(status(ENDED, exit=0), marks=START),
         ("running", 1, [])),
    "killed without a record of its end":
        (record(S.RUNNING, absent_since=GONE), seen(status(CANCELLED), marks=START),
         ("failed", 1, ["stop"])),
    "a lease that is over ends it":
        (record(S.RUNNING, **LATE), seen(status(RUNNING), marks=START),
         ("cancelling", 1, ["stop", "cancel 7"])),
    "a wish before the commit":
        (record(S.PREPARED, cancel_wanted=True), seen(status(PARKED)),
         ("cancelling", 1, ["forbid", "cancel 7"])),
    "forbidden is cancelled":
        (record(S.CANCELLING, cancel_wanted=True), seen(marks=NEVER), ("cancelled", 1, [])),
    "asked to end, and it ended well":
        (record(S.CANCELLING), seen(marks=attrs.evolve(START, exit=0)), ("done", 1, [])),
    "asked to end, and it was ended":
        (record(S.CANCELLING), seen(marks=attrs.evolve(START, exit=143)), ("cancelled", 1, [])),
    "a node that is cut off may still run it":
        (record(S.CANCELLING, absent_since=GONE), seen(marks=START), ("cancelling", 1, ["stop"])),
    "jobs of earlier attempts end":
        (record(S.RUNNING, attempt=2),
         seen(status(RUNNING, 8, attempt=2), status(PARKED), marks=START),
         ("running", 2, ["cancel 7"])),
    "one that runs and was not submitted here is left alone":
        (record(S.PREPARED), seen(status(PARKED), status(RUNNING, 3)), ("prepared", 1, [])),
    "also while its own is not known":
        (record(S.UNKNOWN, remote_id=""), seen(status(RUNNING, 3)), ("unknown", 1, [])),
    "also when its own is to end":
        (record(S.CANCELLING, remote_id=""), seen(status(RUNNING, 3)),
         ("cancelling", 1, ["forbid"])),
    "also when its own has ended":
        (record(S.CANCELLED), seen(status(RUNNING, 3), marks=NEVER), ("cancelled", 1, [])),
    "what is left of a job that ended goes":
        (record(S.DONE), seen(status(PARKED)), ("done", 1, ["cancel 7"])),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_a_row(name: str) -> None:
    before, what, after = ROWS[name]
    assert step(before, what) == after


def test_the_rows_reach_every_move() -> None:
    reached = set()
    for before, what, _ in ROWS.values():
        reached.add((before.state, states.step(before, what, NOW).record.state))
    named = {(source, move.target) for move in MOVES for source in move.sources}
    alike = {S.INTENT, S.UNKNOWN, S.PAUSED, S.PREPARED, S.COMMITTED, S.RUNNING}
    missing = {pair for pair in named - reached if pair[0] not in alike}
    assert not missing


def test_a_clock_that_went_back_does_not_wait_for_years() -> None:
    ahead = record(S.PREPARED, since=NOW + 3600, hold_until=NOW + 4500, deadline=NOW + 4440)
    made = states.step(ahead, seen(status(PARKED)), NOW).record
    assert made.since == NOW
    assert made.deadline is not None
    assert made.deadline <= NOW + 900
    assert step(made, seen(status(PARKED)), NOW + 10)[0] == "committed"


def test_the_owner_may() -> None:
    running = record(S.RUNNING)
    assert renewed(running, NOW, 60).lease_until == NOW + 60
    assert renewed(running, NOW).lease_until == NOW + 86_400
    assert wish_end(running).cancel_wanted
    done = record(S.DONE, deadline=None)
    taken = acknowledged(done, NOW)
    assert taken.state is S.ACKNOWLEDGED
    assert acknowledged(taken, NOW + 5) == taken
    cancelled = record(S.CANCELLED)
    assert wish_end(cancelled) == cancelled


@pytest.mark.parametrize(
    "asked",
    [
        lambda: acknowledged(record(S.RUNNING), NOW),
        lambda: renewed(record(S.DONE), NOW),
        lambda: renewed(record(S.CANCELLING), NOW),
        lambda: renewed(record(S.RUNNING, absent_since=GONE), NOW),
        lambda: wish_end(record(S.DONE)),
        lambda: resumed(record(S.UNKNOWN), NOW),
        lambda: resumed(record(S.FAILED), NOW),
    ],
)
def test_the_owner_may_not(asked: Any) -> None:
    with pytest.raises(NotPossibleError):
        asked()


# --- laws -----------------------------------------------------------------------------------------

MOMENTS = st.sampled_from([NOW - 86_500, NOW - 1000, NOW - 31, NOW - 5, NOW, NOW + 50, NOW + 9e4])
SIGHTS = st.builds(
    JobStatus,
    name=st.sampled_from(["mm-k-1", "mm-k-2", "mm-k-3", "mm-j-1", "other"]),
    remote_id=st.sampled_from(["7", "8", "10", "x.y"]),
    submitted=st.sampled_from([None, 50.0, 60.0]),
    phase=st.sampled_from(Phase),
    exit=st.sampled_from([None, 0, 3]),
)
LISTED = st.lists(SIGHTS, max_size=4).map(tuple)
OBSERVATIONS = st.builds(
    Observation,
    queue=LISTED | st.just(SILENT),
    accounting=LISTED | st.just(SILENT) | st.none(),
    marks=st.builds(SpoolMarks, st.booleans(), st.booleans(), st.booleans(),
                    st.sampled_from([None, 0, 3])) | st.just(SILENT) | st.none(),
    reply=st.sampled_from([None, None, None, "7", SILENT, Refused("no")]),
)  # fmt: skip
RECORDS = st.builds(
    record, st.sampled_from(State), attempt=st.integers(1, 5), since=MOMENTS, hold_until=MOMENTS,
    lease_until=MOMENTS, seen=st.none() | MOMENTS, absent_since=st.none() | MOMENTS,
    cancel_wanted=st.booleans(), digest=st.sampled_from(["", "d"]), retry_at=MOMENTS,
    tries=st.integers(1, 8),
    remote_id=st.sampled_from(["", "7", "8"]),
)  # fmt: skip
TABLE = {*((s, m.target) for m in MOVES for s in m.sources), *BY_OWNER}


@given(RECORDS, OBSERVATIONS)
def test_whatever_is_seen_a_live_record_has_a_deadline_ahead(before: Record,
                                                            what: Observation) -> None:  # fmt: skip
    made = states.step(before, what, NOW)
    after = made.record
    if before.state.live:
        assert not after.state.live or (after.deadline is not None and after.deadline > NOW)
    assert after.state is before.state or (before.state, after.state) in TABLE
    assert after.attempt - before.attempt == (
        after.state is S.INTENT and before.state is not S.INTENT
    )
    parks = [effect for effect in made.effects if effect.act is Act.PARK]
    assert bool(parks) == (after.attempt > before.attempt)
    if not before.state.live:
        kept = ("state", "attempt", "exit", "reason", "cancel_wanted")
        assert [getattr(after, n) for n in kept] == [getattr(before, n) for n in kept]
    assert all(
        effect.name.startswith("mm-k-")
        for effect in made.effects
        if effect.act in {Act.CANCEL, Act.RELEASE}
    ), "jobs of others are left alone"


@given(RECORDS, OBSERVATIONS)
def test_no_job_is_let_go_that_is_not_committed(before: Record, what: Observation) -> None:
    made = states.step(before, what, NOW)
    allowed = {Act.COMMIT, Act.RELEASE} & {effect.act for effect in made.effects}
    assert not allowed or made.record.state is S.COMMITTED
    if made.record.state is S.DONE and before.state is not S.DONE:
        ends = [s for place in (what.queue, what.accounting) if isinstance(place, tuple)
                for s in place if s.phase is ENDED and s.exit == 0]  # fmt: skip
        assert ends or (isinstance(what.marks, SpoolMarks) and what.marks.exit == 0)


def test_deadlines_are_data() -> None:
    quick = Deadlines(settle=1, hold=100, margin=5)
    made = states.step(record(S.PREPARED, since=NOW - 2), seen(status(PARKED)), NOW, quick)
    assert made.record.state is S.COMMITTED
    assert made.effects[1] == Effect(Act.RELEASE, "7", "mm-k-1")


def test_what_ended_after_its_lease_is_not_lost() -> None:
    """Nobody looked for long: the record of the end says that it ended, and how."""
    made = record(State.RUNNING, lease_until=NOW - 1, absent_since=NOW - 100)
    gone = Observation(
        queue=(), accounting=(), marks=SpoolMarks(committed=True, started=True, exit=3)
    )
    ending = states.step(made, gone, NOW).record
    assert ending.state is State.CANCELLING
    ended = states.step(ending, gone, NOW + 1).record
    assert (ended.state, ended.exit) == (State.CANCELLED, 3)


@pytest.mark.parametrize("state", [State.RUNNING, State.COMMITTED])
def test_what_may_have_ended_is_not_lost_where_its_records_are_silent(state: State) -> None:
    """Its lease is over and it is gone: the record of its end may be there."""
    made = record(state, lease_until=NOW - 1, absent_since=NOW - 100)
    silent = Observation(queue=(), accounting=(), marks=NoAnswer("the storage does not answer"))
    ending = states.step(made, silent, NOW).record
    assert ending.state is State.CANCELLING
    answer = attrs.evolve(silent, marks=SpoolMarks(committed=True, started=True, exit=0))
    assert states.step(ending, answer, NOW + 1).record.state is State.DONE


def test_what_runs_on_a_lost_node_is_not_cancelled_before_its_lease_is_ended() -> None:
    """The batch system calls it ended; the payload goes on there while it has a lease."""
    made = record(State.CANCELLING, absent_since=NOW - 100, remote_submitted=50.0)
    lost = (status(Phase.CANCELLED),)
    runs = Observation(queue=lost, accounting=(), marks=SpoolMarks(committed=True, started=True))
    step = states.step(made, runs, NOW)
    assert step.record.state is State.CANCELLING
    assert Effect(Act.STOP) in step.effects
    stopped = attrs.evolve(runs, marks=SpoolMarks(committed=True, started=True, stopped=True))
    assert states.step(made, stopped, NOW).record.state is State.CANCELLED


def test_a_reply_after_the_hold_has_a_deadline_ahead() -> None:
    made = record(State.INTENT, hold_until=NOW - 1)
    late = states.step(made, Observation(queue=NoAnswer("not asked"), reply="7"), NOW).record
    assert late.deadline is not None
    assert late.deadline > NOW
    assert late.state is State.UNKNOWN
    held = (JobStatus(made.name, "7", NOW, Phase.PARKED),)
    again = states.step(late, Observation(queue=held, marks=SpoolMarks()), NOW + 1)
    assert again.record.state is State.UNKNOWN
    assert Effect(Act.CANCEL, "7", made.name) in again.effects


def test_the_schedule_is_in_the_record() -> None:
    """Twice as long each time, by the number of submissions; whoever looks reads the same."""
    made = begin("k", NOW, digest="d", cluster="slurm").record
    moments = [made.retry_at - NOW]
    now = NOW
    while made.state is not S.PAUSED:
        now = max(now + 30, made.retry_at)
        made = attrs.evolve(made, state=S.UNKNOWN, absent_since=now - 30, reason="no answer")
        assert states.step(made, seen(), made.retry_at - 1).record.state is S.UNKNOWN
        made = states.step(made, seen(), now).record
        moments.append(made.retry_at - now)
    assert moments[:-1] == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert made.reason == "submitted 8 times, and it never started: no answer"
    assert states.stuck(made, now) == f"{made.reason}; classad resume k submits it again"


REASONS: dict[ReasonCode, tuple[Record, Observation]] = {
    ReasonCode.NO_ANSWER: (record(S.INTENT), seen(reply=SILENT)),
    ReasonCode.REFUSED: (record(S.INTENT), seen(reply=Refused("no such partition"))),
    ReasonCode.NOT_STARTED: (record(S.UNKNOWN, absent_since=GONE), seen()),
    ReasonCode.OWNER: (record(S.RUNNING, cancel_wanted=True), seen(status(RUNNING), marks=START)),
    ReasonCode.LEASE: (record(S.RUNNING, **LATE), seen(status(RUNNING), marks=START)),
    ReasonCode.LOST: (record(S.RUNNING, absent_since=GONE, **LATE), seen(marks=START)),
    ReasonCode.EXIT_STATUS: (record(S.RUNNING), seen(marks=attrs.evolve(START, exit=3))),
    ReasonCode.SIGNAL: (record(S.RUNNING), seen(marks=attrs.evolve(START, exit=139))),
    ReasonCode.TIMEOUT: (
        record(S.RUNNING),
        seen(status(CANCELLED, code=ReasonCode.TIMEOUT, why="TIMEOUT"),
             marks=attrs.evolve(START, exit=143)),
    ),
    ReasonCode.NODE_FAIL: (
        record(S.RUNNING, absent_since=GONE),
        seen(status(CANCELLED, code=ReasonCode.NODE_FAIL), marks=START),
    ),
    ReasonCode.CANCELLED: (
        record(S.RUNNING, absent_since=GONE), seen(status(CANCELLED), marks=START),
    ),
}  # fmt: skip


@pytest.mark.parametrize("code", REASONS)
def test_a_reason_has_a_code(code: ReasonCode) -> None:
    before, what = REASONS[code]
    made = states.step(before, what, NOW).record
    assert (made.code, bool(made.reason)) == (code, True)
    ended = states.step(made, what, NOW + 1).record
    assert not made.state.live or ended.code is code or ended.state is S.INTENT


def test_a_signal_waits_for_the_batch_systems_word() -> None:
    """The record of the end comes first: whether it was a limit, the queue says a little later."""
    before = record(S.RUNNING, remote_submitted=50.0)
    killed = attrs.evolve(START, exit=143)
    first = states.step(before, seen(status(RUNNING), marks=killed), NOW).record
    assert (first.state, first.deadline) == (S.RUNNING, NOW + 30)
    again = states.step(first, seen(status(RUNNING), marks=killed), NOW + 29).record
    assert again == first
    over = seen(status(CANCELLED, code=ReasonCode.TIMEOUT, why="TIMEOUT"), marks=killed)
    told = states.step(again, over, NOW + 29).record
    assert (told.state, told.code, told.exit) == (S.FAILED, ReasonCode.TIMEOUT, 143)
    for queue in (seen(status(RUNNING), marks=killed), Observation(queue=SILENT, marks=killed)):
        late = states.step(again, queue, NOW + 30).record
        assert (late.state, late.code) == (S.FAILED, ReasonCode.SIGNAL)


def test_a_lease_that_begins_with_the_start_leaves_out_the_queue() -> None:
    """Ten days in the queue: the lease of a day begins when the start is seen."""
    begun = begin("k", NOW, digest="d", lease=86_400.0, cluster="slurm", from_start=True).record
    assert begun.lease_until == NOW + 30 * 86_400
    later = NOW + 10 * 86_400
    waits = attrs.evolve(begun, state=S.COMMITTED, remote_id="7", deadline=begun.lease_until)
    assert (
        states.step(waits, seen(status(WAITING), marks=COMMIT), later).record.state is S.COMMITTED
    )
    runs = states.step(waits, seen(status(RUNNING), marks=START), later).record
    assert (runs.state, runs.started) == (S.RUNNING, later)
    assert runs.lease_until == runs.deadline == later + 86_400
    again = renewed(waits, later)
    assert again.lease_until == later + 30 * 86_400
    assert renewed(runs, later + 5).lease_until == later + 5 + 86_400
    over = states.step(runs, seen(status(RUNNING), marks=START), later + 86_401).record
    assert (over.state, over.code) == (S.CANCELLING, ReasonCode.LEASE)
    ended = attrs.evolve(START, exit=143, over=True)
    itself = states.step(runs, seen(marks=ended), later + 80_000).record
    assert (itself.state, itself.code) == (S.CANCELLING, ReasonCode.LEASE)
    assert states.step(itself, seen(marks=ended), later + 80_001).record.code is ReasonCode.LEASE
    never = states.step(waits, seen(status(WAITING), marks=COMMIT), NOW + 31 * 86_400).record
    assert (never.state, never.code) == (S.CANCELLING, ReasonCode.LEASE)
