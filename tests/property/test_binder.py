"""The binder's jobs under pilots, connections and restarts that fail at any point."""

from __future__ import annotations

from collections import deque
from typing import Any

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from matchmaker.pilots.binder import state
from matchmaker.pilots.binder.state import (
    BinderChange,
    BinderJob,
    Book,
    JobStage,
    PilotSession,
    apply_change,
)
from matchmaker.pilots.wire.protocol import FrameKind
from tests.cases import cases

LEASE, MARGIN = 10.0, 1.0
PILOTS = st.integers(0, 2)


@attrs.define
class Node:
    """A pilot that keeps the promises of ``moves``, and its two connections' words under way."""

    session: str = ""
    good_until: float = 0.0
    connected: bool = False
    runs: dict[str, int] = attrs.field(factory=dict)
    reports: dict[str, int] = attrs.field(factory=dict)
    up: deque[tuple[Any, ...]] = attrs.field(factory=deque)
    control: deque[tuple[Any, ...]] = attrs.field(factory=deque)
    slots: deque[tuple[Any, ...]] = attrs.field(factory=deque)
    answers: deque[tuple[Any, ...]] = attrs.field(factory=deque)

    def cut(self) -> None:
        self.connected = False
        for words in (self.up, self.control, self.slots, self.answers):
            words.clear()

    def die(self) -> None:
        self.cut()
        self.session = ""
        self.runs.clear()
        self.reports.clear()


class Binding(RuleBasedStateMachine):
    """Three pilots and a binder; what was stored is all that a restart has."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.made = 0
        self.nodes = [Node(), Node(), Node()]
        self.book = Book()
        self.rows: dict[str, BinderJob] = {}
        self.sessions: dict[str, PilotSession] = {}
        self.submitted: set[str] = set()
        self.ended: set[str] = set()
        self.unsaid: list[BinderChange] = []

    # --- the binder's shell: stored, then said ---

    def does(self, change: BinderChange) -> None:
        apply_change(self.book, change)
        for job in change.jobs:
            if not self.book.jobs[job.id].stage.open:
                self.ended.add(job.id)
            self.rows[job.id] = job
        for session in change.begun:
            self.sessions[session.name] = session
        for name in change.over:
            self.sessions.pop(name, None)
        self.unsaid.append(change)

    @precondition(lambda self: any(change.messages for change in self.unsaid))
    @rule()
    def said(self) -> None:
        for change in self.unsaid:
            for word in change.messages:
                for node in self.nodes:
                    if node.connected and node.session == word.session:
                        way = node.slots if word.kind is FrameKind.PAIRED else node.control
                        way.append((word.kind, word.job, word.epoch))
        self.unsaid.clear()

    def restart(self) -> None:
        """The binder is killed: what was stored and not yet said is never said."""
        self.unsaid.clear()
        for node in self.nodes:
            node.cut()
        self.book, change = state.restore(self.rows.values(), self.sessions.values(), self.now)
        self.does(change)

    @rule(detached=st.booleans(), key=st.integers(0, 5))
    def submit(self, detached: bool, key: int) -> None:
        self.made += 1
        new = BinderJob(id=f"j{self.made}", owner="a", key=f"{key}", ad="[]", detached=detached)
        job, change = state.submit(self.book, new)
        self.does(change)
        self.submitted.add(job.id)

    @precondition(lambda self: self.book.sessions)
    @rule(data=st.data())
    def give(self, data: st.DataObject) -> None:
        """Also jobs that are not queued any more are tried: they stay where they are."""
        name = data.draw(st.sampled_from(sorted(self.book.sessions)))
        for id_ in list(self.book.jobs):
            self.does(state.give(self.book, id_, name))
        self.said()

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if self.book.jobs:
            id_ = data.draw(st.sampled_from(sorted(self.book.jobs)))
            self.does(state.cancel(self.book, id_, "asked for"))

    @rule(seconds=st.sampled_from([0.5, 3.0, 6.0, 12.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for node in self.nodes:
            if node.session and self.now >= node.good_until:
                node.die()
        self.does(state.expire(self.book, self.now, LEASE + MARGIN))

    # --- pilots ---

    @rule(which=PILOTS)
    def greet(self, which: int) -> None:
        node = self.nodes[which]
        if not node.session:
            self.made += 1
            session = PilotSession(name=f"s{self.made}", subject="p", ad="[]", heard=self.now)
            self.does(state.begin(session))
            node.session, node.connected = session.name, True
            node.good_until = self.now + LEASE
        elif not node.connected:
            node.connected = True
            named = {**node.runs, **node.reports}
            self.does(state.resume(self.book, node.session, named, self.now))
            for id_, epoch in node.reports.items():
                node.up.append(("ended", id_, epoch))

    @rule(which=PILOTS)
    def beat(self, which: int) -> None:
        if self.nodes[which].connected:
            self.nodes[which].up.append(("beat", self.now, 0))

    def cut(self, which: int) -> None:
        self.nodes[which].cut()

    def kill_pilot(self, which: int) -> None:
        self.nodes[which].die()

    def leave(self, which: int) -> None:
        node = self.nodes[which]
        if node.connected:
            self.does(state.leave(self.book, node.session, "it ends"))
            node.die()

    @precondition(lambda self: any(node.runs for node in self.nodes))
    @rule(which=PILOTS)
    def finish(self, which: int) -> None:
        node = self.nodes[which]
        if node.runs:
            id_, epoch = node.runs.popitem()
            node.reports[id_] = epoch
            if node.connected:
                node.up.append(("ended", id_, epoch))

    @precondition(lambda self: any(node.up for node in self.nodes))
    @rule(which=PILOTS)
    def up(self, which: int) -> None:
        node = self.nodes[which]
        if not node.up:
            return
        kind, what, epoch = node.up.popleft()
        name = node.session
        if kind == "beat":
            change = state.hear(self.book, name, self.now)
            if change.heard:
                node.control.append(("beat", what, 0))
        elif kind == "declined":
            change = state.declined(self.book, name, what, epoch, "full")
        else:
            change = state.ended(self.book, name, what, epoch, f"[by = {name!r}]")
        self.does(change)

    @precondition(lambda self: any(node.control for node in self.nodes))
    @rule(which=PILOTS)
    def down(self, which: int) -> None:
        node = self.nodes[which]
        if not node.control:
            return
        kind, what, epoch = node.control.popleft()
        if kind == "beat":
            node.good_until = max(node.good_until, what + LEASE)
        elif kind is FrameKind.OVER:
            node.die()
        elif kind is FrameKind.ACKNOWLEDGE and node.reports.get(what) == epoch:
            del node.reports[what]
        elif kind is FrameKind.KILL and node.runs.get(what) == epoch:
            del node.runs[what]
            node.reports[what] = epoch
            node.up.append(("ended", what, epoch))

    @precondition(lambda self: any(node.slots for node in self.nodes))
    @rule(which=PILOTS, accepts=st.booleans())
    def pair(self, which: int, accepts: bool) -> None:
        node = self.nodes[which]
        if not node.slots:
            return
        _, id_, epoch = node.slots.popleft()
        if accepts:
            node.runs[id_] = epoch
        node.answers.append((accepts, id_, epoch))

    @precondition(lambda self: any(node.answers for node in self.nodes))
    @rule(which=PILOTS)
    def answer(self, which: int) -> None:
        """An answer on a slot's connection, which what is said on the other one may overtake."""
        node = self.nodes[which]
        if not node.answers:
            return
        accepts, id_, epoch = node.answers.popleft()
        if accepts:
            change = state.accepted(self.book, node.session, id_, epoch)
        else:
            change = state.declined(self.book, node.session, id_, epoch, "full", begun=False)
        self.does(change)

    @rule(which=PILOTS, what=st.sampled_from(["cut", "cut", "kill_pilot", "leave", "restart"]))
    def disturb(self, which: int, what: str) -> None:
        if what == "restart":
            self.restart()
        else:
            getattr(self, what)(which)

    @rule(which=PILOTS)
    def carry(self, which: int) -> None:
        """All words under way arrive, and the answers to them."""
        node = self.nodes[which]
        self.said()
        while node.up or node.control or node.slots or node.answers:
            self.pair(which, accepts=True)
            self.answer(which)
            self.down(which)
            self.up(which)
            self.said()
        for id_, epoch in node.runs.items() if node.connected else ():
            job = self.book.jobs[id_]
            assert job.stage is JobStage.RUNNING
            assert (job.session, job.epoch, job.cancel) == (node.session, epoch, False)

    @rule(which=PILOTS, detached=st.booleans(), carried=st.booleans())
    def work(self, which: int, detached: bool, carried: bool) -> None:
        """A job is submitted and given at once."""
        node = self.nodes[which]
        if not node.connected:
            self.greet(which)
        self.made += 1
        name = f"j{self.made}"
        job = BinderJob(id=name, owner="a", key=name, ad="[]", detached=detached)
        self.does(state.submit(self.book, job)[1])
        self.submitted.add(job.id)
        self.does(state.give(self.book, job.id, node.session))
        if carried:
            self.carry(which)

    @rule(which=PILOTS)
    def take(self, which: int) -> None:
        """A pilot gets all that is queued, at once."""
        if not self.nodes[which].connected:
            self.greet(which)
        for id_ in list(self.book.jobs):
            self.does(state.give(self.book, id_, self.nodes[which].session))
        self.carry(which)

    # --- what must hold ---

    @invariant()
    def none_runs_twice(self) -> None:
        running = [id_ for node in self.nodes for id_ in node.runs]
        assert len(running) == len(set(running))

    @invariant()
    def none_is_lost(self) -> None:
        assert self.submitted <= set(self.rows)
        assert self.rows == self.book.jobs

    @invariant()
    def what_ended_stays(self) -> None:
        assert not any(self.rows[id_].stage.open for id_ in self.ended)

    @invariant()
    def indexes_hold(self) -> None:
        held: dict[str, set[str]] = {}
        for job in self.book.jobs.values():
            if job.stage.held:
                held.setdefault(job.session, set()).add(job.id)
        assert {name: ids for name, ids in self.book.held.items() if ids} == held
        assert set(held) <= set(self.book.sessions)

    def teardown(self) -> None:
        """With one pilot that lasts, every job comes to its end."""
        for node in self.nodes:
            node.die()
        self.now += LEASE + MARGIN + 1
        self.does(state.expire(self.book, self.now, LEASE + MARGIN))
        self.does(state.begin(PilotSession(name="last", subject="p", ad="[]", heard=self.now)))
        for job in list(self.book.jobs.values()):
            self.does(state.give(self.book, job.id, "last"))
            self.does(state.ended(self.book, "last", job.id, self.book.jobs[job.id].epoch, "[]"))
        assert not any(job.stage.open for job in self.book.jobs.values())


TestBinding = Binding.TestCase
TestBinding.settings = settings(max_examples=cases(100), stateful_step_count=50)
