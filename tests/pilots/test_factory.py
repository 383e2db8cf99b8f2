"""Cycles of a factory on a batch system that goes wrong: caps hold, none is doubled, none is lost.

The batch system, the spool and the faults are those of the tests of delegation; the ledger and the
factory's tables are real ones, of SQLite and, for the tables alone, of PostgreSQL.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import attrs
import pytest
import sqlalchemy as sql
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker.delegation.database import LedgerError
from matchmaker.delegation.delegate import Delegator
from matchmaker.delegation.ledger import Ledger
from matchmaker.delegation.record import JobState as State
from matchmaker.delegation.record import ReasonCode, Record, key_of
from matchmaker.delegation.states import wish_end
from matchmaker.pilots.factory import cycle, running, sources
from matchmaker.pilots.factory.cycle import FactoryContext, FactoryState
from matchmaker.pilots.factory.inventory import PilotReport, PilotReports, histories, pilot, settled
from matchmaker.pilots.factory.metrics import reasons
from matchmaker.pilots.factory.services import (
    PilotRow,
    QueueCounts,
    Reservation,
    Service,
    ServiceError,
    Services,
    TakenOverError,
)
from matchmaker.pilots.factory.settings import SettingsError
from matchmaker.pilots.factory.settings import settings as settings_of
from matchmaker.pilots.policy.decision import rule
from matchmaker.pilots.policy.estimates import PilotRecord, estimate
from matchmaker.pilots.policy.snapshot import PilotState
from matchmaker.pilots.wire import connect
from tests.delegation.postgres import postgres
from tests.delegation.world import OVER, Killed, World
from tests.services.daemons import ServiceUnavailable

CAP = 3
FILE = f"""
ledger = "jobs.db"
[pilot]
script = "pilot.sh"
[caps]
pilots = {CAP}
[policy]
ad = "[ Grace = 3 ]"
[[demand]]
file = "jobs.ads"
[[queue]]
name = "faulty"
lrms = "slurm"
rate = 1000
"""


@attrs.define
class Site:
    """A factory's files and its batch system, through any number of its processes."""

    folder: Path
    world: World = attrs.Factory(World)
    file: str = FILE
    keys: Iterator[int] = attrs.Factory(count)
    tokens: Iterator[int] = attrs.Factory(count)
    most: int = CAP

    def __attrs_post_init__(self) -> None:
        (self.folder / "pilot.sh").write_text("#!/bin/sh\n")
        self.demand(0)

    def demand(self, jobs: int) -> None:
        ads = (f'[ Id = "{number}"; JobStatus = 1 ]\n' for number in range(jobs))
        (self.folder / "jobs.ads").write_text("".join(ads) or "[ JobStatus = 4 ]\n")

    def silent(self) -> None:
        (self.folder / "jobs.ads").unlink()

    @contextlib.contextmanager
    def process(self, name: str = "grid") -> Iterator[tuple[FactoryContext, FactoryState]]:
        """A process of the factory, which takes the service over at once."""
        made = settings_of(self.file, self.folder, name=name)
        ledger, services = Ledger(made.ledger), Services(made.ledger)
        for engine in (ledger._database.engine, services._database.engine):
            sql.event.listen(engine, "commit", lambda _: self.world.boundary("sql"))
        delegator = Delegator(ledger, self.world, self.world, clock=lambda: self.world.now)
        means = FactoryContext(
            settings=made, rule=rule(running.policy(made)), ledger=ledger, services=services,
            delegator=lambda _: delegator, clock=lambda: self.world.now,
            new_key=lambda: f"p{next(self.keys)}", sleep=self.world.pass_time,
        )  # fmt: skip
        new = Service(
            name=name, token=str(next(self.tokens)), started=self.world.now, beat=self.world.now
        )
        try:
            yield means, FactoryState(service=services.begin(new, lambda _: True))
        finally:
            services.close()
            ledger.close()

    def cycles(self, number: int = 1, seconds: float = 20.0) -> FactoryState:
        """Some cycles of a new process."""
        with self.process() as (means, begun):
            known = begun
            for _ in range(number):
                known = cycle.cycle(means, known)
                self.check()
                known = self.pass_time(means, known, seconds)
        return known

    def pass_time(
        self, context: FactoryContext, state: FactoryState, seconds: float
    ) -> FactoryState:
        """The time until the next cycle, in which pilots are handed over at the queues' rates."""
        end = self.world.now + seconds
        while self.world.now < end:
            state, due = cycle.carry_out(context, state)
            self.check()
            self.world.pass_time(min(due, end - self.world.now))
        return state

    def killed(self, after: int) -> bool:
        """A cycle of a process that is killed after so many acts; whether it was."""
        self.world.kill_after = after
        try:
            self.cycles()
        except Killed:
            return True
        finally:
            self.world.kill_after = None
            self.check()
        return False

    def alive(self) -> set[str]:
        """The keys that the batch system has, or that run on a node."""
        there = {named[0] for job in self.world.jobs.values()
                 if job.phase not in OVER and (named := key_of(job.name)) is not None}  # fmt: skip
        return there | self.world.runs_of

    def check(self) -> None:
        assert len(self.alive()) <= self.most
        assert all(starts == 1 for starts in self.world.starts.values())

    def rows(self) -> list[PilotRow]:
        with contextlib.closing(Services(str(self.folder / "jobs.db"))) as services:
            return services.history(0.0)

    def records(self) -> dict[str, Record]:
        with contextlib.closing(Ledger(self.folder / "jobs.db")) as ledger:
            return {record.key: record for record in ledger.recent()}

    def all_over(self) -> None:
        """Without demand and faults every pilot ends, and every row says so."""
        self.world.faults.clear()
        self.demand(0)
        with self.process() as (means, begun):
            known = begun
            for _ in range(60):
                known = cycle.cycle(means, known)
                self.world.pass_time(20.0)
                if not (means.services.live() or self.alive() or known.over):
                    break
        assert self.alive() == set()
        rows = self.rows()
        assert [row for row in rows if row.live] == []
        records = self.records()
        assert records.keys() == {row.key for row in rows if row.handed}
        assert {record.state for record in records.values()} <= {State.ACKNOWLEDGED}
        self.counts_agree(records)

    def counts_agree(self, records: Mapping[str, Record]) -> None:
        """The counts of the tables are those of the ledger, whatever was killed."""
        with contextlib.closing(Services(str(self.folder / "jobs.db"))) as services:
            counts = services.counts().get("faulty", QueueCounts())
            (service,) = services.all()
        # Those that the batch system refused were handed over, and are in the ledger.
        taken = [r for r in self.rows() if r.handed and not r.refused]
        assert counts.submitted == counts.ended == len(taken)
        assert service.submitted == sum(r.handed for r in self.rows()) == len(records)
        assert counts.started >= sum(self.world.starts[key] for key in records)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_pilots_are_submitted_for_waiting_jobs_and_run(site: Site) -> None:
    site.demand(2)
    known = site.cycles(4)
    # The file says that both still wait, and what runs is not known to be idle: up to the cap.
    assert site.world.starts == {"p0": 1, "p1": 1, "p2": 1}
    assert known.service.facts["pilots"]["busy"] >= 2
    assert known.service.submitted == CAP
    site.all_over()


@pytest.mark.slow
@pytest.mark.parametrize("before", [0, 2])
def test_a_crash_at_every_point_of_a_cycle(before: int, tmp_path: Path) -> None:
    """From the first look to the last record, in a cycle that submits, commits or goes on."""
    for point in count():
        (tmp_path / str(point)).mkdir()
        site = Site(tmp_path / str(point), World(length=30.0))
        site.demand(2)
        site.cycles(before)
        killed = site.killed(point)
        site.cycles(1)
        # What was reserved counts.
        assert sum(row.live for row in site.rows()) <= CAP
        site.all_over()
        if not killed:
            break
    assert point >= 4


def test_who_looks_while_pilots_are_submitted_finds_one_cycle(site: Site) -> None:
    """The number of a cycle and its facts are one row, and a kill loses no submitted pilot."""
    site.demand(2)
    seen: list[tuple[int, float, int]] = []

    def look() -> None:
        with contextlib.closing(Services(str(site.folder / "jobs.db"))) as services:
            (row,) = services.all()
            seen.append((row.cycles, row.facts["at"], row.submitted))

    def park(*words: Any, **named: Any) -> Any:
        look()
        return real(*words, **named)

    real, site.world.park = site.world.park, park  # type: ignore[method-assign]
    for number in range(1, 3):
        at = site.world.now
        site.cycles(1)
        assert seen, "pilots were submitted"
        assert {each[:2] for each in seen} == {(number, at)}
        assert seen[-1][2] == len(site.rows())
        seen.clear()
        site.demand(2 + 2 * number)
    site.world.park = real  # type: ignore[method-assign]
    site.demand(9)
    site.world.faults = {"park": ["killed"]}
    with contextlib.suppress(Killed):
        site.cycles(1)
    look()
    handed = [row for row in site.rows() if row.handed]
    assert seen[-1][2] == len(handed), "what was handed over before the kill counts"


ACTS = st.one_of(
    st.tuples(st.just("demand"), st.integers(0, 5)),
    st.tuples(st.just("kill"), st.integers(0, 40)),
    st.tuples(st.just("cycle"), st.integers(1, 3)),
    st.tuples(st.just("time"), st.integers(1, 200)),
    st.tuples(st.just("park"), st.sampled_from(["nothing", "late", "twice", "lost", "killed"])),
    st.tuples(st.just("look"), st.sampled_from(["silent", "stale"])),
    st.tuples(st.just("cancel"), st.sampled_from(["nothing", "lost"])),
    st.tuples(st.just("crash"), st.just(0)),
)


@settings(max_examples=int(os.environ.get("FACTORY_CASES", "5")), deadline=None)
@given(st.lists(ACTS, max_size=12))
def test_caps_hold_and_none_is_lost_whatever_goes_wrong(acts: list[tuple[str, int | str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder))
        for act, what in acts:
            match act, what:
                case "demand", int(jobs):
                    site.demand(jobs)
                case "kill", int(point):
                    site.killed(point)
                case "cycle", int(number):
                    with contextlib.suppress(Killed):
                        site.cycles(number)
                case "time", int(seconds):
                    site.world.pass_time(seconds)
                case "crash", _:
                    site.world.crash()
                case _, str(fault):
                    site.world.faults.setdefault(act, []).append(fault)
            site.check()
        site.all_over()


def test_silence_is_not_zero(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    text = FILE.replace("script", 'reports = "reports"\nscript', 1)
    site = Site(tmp_path, World(length=1000.0), file=text)
    site.demand(2)
    with site.process() as process:
        grid = RunningService(site, *process)
        grid.cycle(2)
        idle(site)
        grid.cycle(1, 60.0)
        site.silent()
        facts = grid.cycle(3)
        # Nothing is submitted, idle pilots do not end, and the source is named.
        assert len(site.rows()) == len(site.alive()) == 2
        assert facts["waiting"] is None
        assert "jobs.ads" in facts["silent"][0]
        assert facts["ends"] == []
        assert asked(site) == set()
        site.demand(0)
        assert len(grid.cycle()["ends"]) == 2


LENDING = FILE.replace("Grace = 3", "Grace = 30; Lend = other.Batch is true")


def test_idle_pilots_are_lent_and_taken_back(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    reports.mkdir()
    site = Site(
        tmp_path,
        World(length=1000.0),
        file=LENDING.replace("[caps]", 'reports = "reports"\n[caps]'),
    )
    site.demand(2)
    site.cycles(3)
    keys = sorted(site.world.starts)
    for key in keys:
        (reports / key).write_text("idle\n")
        os.utime(reports / key, (site.world.now, site.world.now))
    site.demand(0)
    known = site.cycles(4)
    assert sorted(one[:2] for one in known.service.facts["lends"]) == [
        [key, "other.Batch =?= true"] for key in keys
    ]
    assert {path.name for path in reports.glob("*.lend")} == {f"{key}.lend" for key in keys}
    assert (reports / f"{keys[0]}.lend").read_text() == "other.Batch =?= true\n"
    assert site.alive() == set(keys)
    site.demand(len(keys))
    assert site.cycles(1).service.facts["lends"] == []
    assert list(reports.glob("*.lend")) == []


def test_pilots_that_do_not_report_are_not_lent(tmp_path: Path) -> None:
    site = Site(tmp_path, file=LENDING)
    site.demand(2)
    known = site.cycles(6)
    assert known.service.facts["lends"] == []


def test_a_batch_system_that_is_silent_gets_nothing(site: Site) -> None:
    site.demand(1)
    site.cycles(1)
    site.demand(3)
    site.world.faults["look"] = ["silent"]
    known = site.cycles(1)
    assert len(site.rows()) == 1
    (queue,) = known.service.facts["queues"]
    assert queue["held"].startswith("its batch system does not answer: ")


@pytest.mark.parametrize("fault", ["refused", "no script"])
def test_a_queue_that_rejects_is_left_alone_with_back_off(tmp_path: Path, fault: str) -> None:
    """After a refusal a minute, then two, four; the reason is shown; then it goes on."""
    site = Site(tmp_path)
    site.demand(3)
    tries: list[float] = []
    script = site.folder / "pilot.sh"
    if fault == "no script":
        script.unlink()
        refuse = Services.refuse

        def noted(services: Services, row: PilotRow) -> None:
            tries.append(site.world.now)
            refuse(services, row)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Services, "refuse", noted)
            known = site.cycles(48, 10.0)
        said = "No such file"
    else:
        park = site.world.park

        def refused(*words: Any, **named: Any) -> Any:
            tries.append(site.world.now)
            site.world.faults = {"park": ["refused"]}
            return park(*words, **named)

        site.world.park = refused  # type: ignore[method-assign]
        known = site.cycles(48, 10.0)
        site.world.park = park  # type: ignore[method-assign]
        said = "no such partition"
    first = tries[0]
    # One at a time, each after twice as long; a cycle is ten seconds.
    assert len(tries) == 4
    assert [round(at - first, -1) for at in tries] == pytest.approx([0, 60, 180, 420], abs=20)
    (queue,) = known.service.facts["queues"]
    assert queue["held"].startswith("it refused a pilot 4 times in a row: ")
    assert said in queue["held"]
    assert " the next is tried in " in queue["held"]
    assert site.alive() == set()
    assert all(row.refused and not row.failed for row in site.rows())
    with contextlib.closing(Services(str(site.folder / "jobs.db"))) as services:
        assert services.counts()["faulty"] == QueueCounts(refused=4)
    # A queue that takes one again is open.
    script.write_text("#!/bin/sh\n")
    site.world.faults.clear()
    site.cycles(60, 10.0)
    assert len(site.alive()) == CAP
    site.all_over()


def test_a_queue_that_may_not_have_taken_a_pilot_gets_no_other_one(site: Site) -> None:
    site.demand(3)
    site.world.faults = {"park": ["nothing"] * 3}
    known = site.cycles(2)
    assert site.world.calls["park"] == 1
    (queue,) = known.service.facts["queues"]
    assert queue["held"].startswith("it did not take pilot p0: the command failed; that is submitt")
    known = site.cycles(40)
    assert len(site.alive()) == CAP
    assert not known.service.facts["queues"][0]["held"]
    site.all_over()


# --- the rate of a queue --------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [10.0, 120.0])
def test_a_batch_system_is_asked_at_the_rate_of_its_queue(tmp_path: Path, seconds: float) -> None:
    """A submission and a cancellation count alike, whatever a cycle is."""
    text = FILE.replace("rate = 1000", "rate = 0.5").replace("pilots = 3", "pilots = 1000")
    site = Site(tmp_path, file=text, most=1000)
    asked: list[float] = []
    park, cancel = site.world.park, site.world.cancel

    def parked(*words: Any, **named: Any) -> Any:
        asked.append(site.world.now)
        return park(*words, **named)

    def cancelled(*words: Any) -> Any:
        asked.append(site.world.now)
        return cancel(*words)

    site.world.park = parked  # type: ignore[method-assign]
    site.world.cancel = cancelled  # type: ignore[method-assign,assignment]
    # The queue is full: none starts.
    site.world._start = lambda job: None  # type: ignore[method-assign]
    site.demand(500)
    # The first decision is for a minute.
    site.cycles(1, seconds)
    submitted = len(asked)
    begun = site.world.now
    site.cycles(round(240 / seconds), seconds)
    # One in two seconds.
    assert 119 <= len(asked) - submitted <= 121
    assert [row.handed for row in site.rows()].count(True) == len(asked)
    most = max(sum(at <= other < at + 20 for other in asked) for at in asked)
    assert most <= 11
    submitted = len(asked)
    site.demand(0)
    site.cycles(round(360 / seconds), seconds)
    ended = submitted - len(site.alive())
    # The first cancellations wait for the pilots' age, and for the cycle that decides.
    assert 60 <= ended <= len(asked) - submitted <= 181
    assert max(sum(at <= other < at + 20 for other in asked) for at in asked) <= 11
    assert site.world.now - begun == pytest.approx(600)
    site.world._start = World._start.__get__(site.world)  # type: ignore[method-assign]
    site.all_over()


def test_services_share_the_rate_of_a_queue_and_kills_do_not_reset_it(place: str) -> None:
    granted = []
    for tenth in range(200):
        # A process that is killed and comes again, or another service of the ledger.
        with contextlib.closing(Services(place)) as services:
            for _ in range(3):
                wait = services.grant("q", 4.0, 100.0 + tenth / 10)
                granted.append(not wait)
                assert 0 <= wait <= 0.25
            assert services.grant("r", 0.001, 100.0 + tenth / 10) == pytest.approx(
                0 if not tenth else 1000 - tenth / 10
            )
    # Four at once, then four a second.
    assert sum(granted) == 4 + 4 * 20 - 1


def test_what_was_reserved_and_not_handed_over_is_decided_anew(tmp_path: Path) -> None:
    site = Site(tmp_path, file=FILE.replace("rate = 1000", "rate = 0.05"))
    site.demand(3)
    with site.process() as (context, begun):
        state = cycle.cycle(context, begun)
        assert len(state.submissions) == 2
        assert state.service.facts["pending"] == 2
        assert len(context.services.live()) == CAP
        site.demand(0)
        state = cycle.cycle(context, state)
        # Nobody needs them any more.
        assert state.submissions == ()
        assert [row.handed for row in context.services.live()] == [True]
    site.all_over()


def test_an_estimate_does_not_count_the_wait_behind_ones_own_pilots() -> None:
    """Forty pilots at once in four slots: each would have started after a minute, were it alone."""
    rows = [
        attrs.evolve(
            ROW, key=f"p{n}", submitted=0.0, handed=True,
            started=60.0 + 500.0 * (n // 4) if n < 24 else None,
        )
        for n in range(40)
    ]  # fmt: skip
    assert estimate(histories(rows)["q"], 3000.0).median == 60.0
    # One that is submitted later waits for the next start; one that nobody overtook just waits.
    later = attrs.evolve(ROW, key="later", submitted=2000.0, handed=True)
    assert len(histories([*rows, later])["q"]) == 24
    alone = attrs.evolve(ROW, submitted=100.0, handed=True)
    assert histories([alone])["q"] == [PilotRecord(submitted=100.0)]
    # A reserved or a refused pilot did not wait in the queue.
    assert histories([ROW, attrs.evolve(ROW, handed=True, refused=True)]) == {}


# --- several sources of demand --------------------------------------------------------------------

SOURCES = (
    FILE.replace(
        '[[demand]]\nfile = "jobs.ads"',
        '[[demand]]\nfile = "ana.ads"\n[[demand]]\nfile = "eve.ads"',
    )
    .replace("pilots = 3", "pilots = 20")
    .replace("script", 'reports = "reports"\nscript', 1)
)
SOURCES += """ad = '[ For = "any" ]'\n"""


@pytest.fixture
def two(tmp_path: Path) -> Site:
    (tmp_path / "reports").mkdir()
    site = Site(tmp_path, World(length=100_000.0), file=SOURCES, most=20)
    wants(site, "ana", 2)
    wants(site, "eve", 2)
    return site


def wants(site: Site, owner: str, jobs: int) -> None:
    """An owner's jobs, in a file of their own."""
    ad = (
        '[ Id = "{0}{1}"; JobStatus = 1; Owner = "{0}";'
        ' Requirements = TARGET.For is "any" || TARGET.For is "{0}" ]\n'
    )
    text = "".join(ad.format(owner, number) for number in range(jobs))
    (site.folder / f"{owner}.ads").write_text(text or "[ JobStatus = 4 ]\n")


def for_owners(site: Site) -> list[str]:
    """Makes every pilot that runs idle, the first half for one owner; the owner of each."""
    keys = sorted(site.world.starts, key=lambda key: int(key[1:]))
    for number, key in enumerate(keys):
        owner = "ana" if number < len(keys) / 2 else "eve"
        path = site.folder / "reports" / key
        path.write_text(f'idle\n[ For = "{owner}" ]\n')
        os.utime(path, (site.world.now, site.world.now))
    return keys


def test_a_silent_source_holds_back_its_own_jobs_only(two: Site) -> None:
    with two.process() as (context, begun):
        state = cycle.cycle(context, begun)
        state = two.pass_time(context, state, 60.0)
        state = cycle.cycle(context, state)
        state = two.pass_time(context, state, 60.0)
        keys = for_owners(two)
        assert len(keys) == 4
        (two.folder / "eve.ads").unlink()
        wants(two, "ana", 0)
        # Two idle pilots for eve's jobs stay, though nobody says that they still wait; ana's end.
        for _ in range(5):
            state = cycle.cycle(context, state)
            state = two.pass_time(context, state, 20.0)
        ends = {path.name for path in (two.folder / "reports").glob("*.end")}
        assert ends == {f"{key}.end" for key in keys[:2]}
        assert "eve.ads" in state.service.facts["silent"][0]
        # Jobs of ana's get pilots; none is submitted for eve's.
        wants(two, "ana", 2)
        for key in keys:
            (two.folder / "reports" / key).write_text('busy\n[ For = "none" ]\n')
        state = cycle.cycle(context, state)
        assert state.service.facts["submitted"] == 2
        assert state.service.facts["waiting"] == 2
        (wait,) = [one for one in state.service.facts["waits"] if one[0].startswith("eve")]
        assert wait[2] == "their source is silent: nothing is submitted for them"
        # After the hold they are forgotten little by little.
        for _ in range(60):
            state = cycle.cycle(context, state)
            two.world.pass_time(200.0)
        assert not [one for one in state.service.facts["waits"] if one[0].startswith("eve")]


def test_a_source_that_never_answered_ends_no_pilot(two: Site) -> None:
    """After a restart nobody knows whom the free pilots are for, and the others go on."""
    two.cycles(4)
    for_owners(two)
    (two.folder / "eve.ads").unlink()
    wants(two, "ana", 0)
    known = two.cycles(8)
    assert list((two.folder / "reports").glob("*.end")) == []
    with two.process() as (context, state):
        two.world.pass_time(2000.0)
        known = cycle.cycle(context, state)
    assert known.service.facts["ends"]


def logged(caplog: pytest.LogCaptureFixture, *events: str) -> list[tuple[str, str, str]]:
    """The events of these names, each with its source or pilot and its reason."""
    rows = [(one.getMessage(), vars(one)) for one in caplog.records]
    return [
        (event, more.get("source") or more.get("pilot") or "", more.get("reason", ""))
        for event, more in rows
        if event in events
    ]


def test_a_silent_source_is_logged_once_by_its_name(
    two: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever its complaint says each time; and it answers only when it does."""
    caplog.set_level("INFO", "matchmaker")
    command = "echo $(cat count) >&2; echo x >> count; test -e well && echo '[ JobStatus = 4 ]'"
    script = two.folder / "portal.sh"
    script.write_text(f"#!/bin/sh\ncd {two.folder}\n{command}\n")
    script.chmod(0o755)
    (two.folder / "count").write_text("0\n")
    two.file = two.file.replace('file = "eve.ads"', f'command = ["{script}"]')
    with two.process() as (context, begun):
        state = begun
        for _ in range(3):
            state = cycle.cycle(context, state)
        (two.folder / "well").touch()
        state = cycle.cycle(context, state)
    name = f"[[demand]] 2 {script}"
    assert logged(caplog, "source silent", "source answers") == [
        ("source silent", name, "exit status 1: 0"),
        ("source answers", name, ""),
    ]


def test_a_pilot_that_shall_end_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """However many cycles its queue's rate leaves it waiting for its cancellation."""
    text = FILE.replace("rate = 1000", "rate = 0.05")
    site = Site(tmp_path, file=text)
    # The queue is full: none starts.
    site.world._start = lambda job: None  # type: ignore[method-assign]
    site.demand(3)
    site.cycles(5)
    keys = sorted(site.alive())
    site.demand(0)
    caplog.set_level("INFO", "matchmaker")
    site.cycles(60, 10.0)
    assert site.alive() == set()
    assert sorted(key for _, key, _ in logged(caplog, "pilot to end")) == keys


# --- the end of a service -------------------------------------------------------------------------


def test_pilots_that_were_ended_with_their_service_are_shown_no_more(site: Site) -> None:
    site.demand(2)
    with site.process() as (context, begun):
        state = cycle.cycle(context, begun)
        state = cycle.cycle(context, site.pass_time(context, state, 2.0))
        assert site.alive()
        assert state.service.facts["pilots"]["queued"] == 2
        ended = running.end_pilots(context, state.service)
    assert site.alive() == set()
    assert [row.key for row in site.rows() if row.live] == []
    (queue,) = ended.facts["queues"]
    assert {*ended.facts["pilots"].values(), *queue["pilots"].values()} == {0}
    (found,) = reasons([ended], {}, lambda _: None, "faulty", site.world.now)
    assert "no pilots there" in found.sentence


def test_a_service_that_ends_pilots_slowly_shows_that_it_lives(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.demand(2)
    site.cycles(2, 2.0)
    site.file = FILE.replace("rate = 1000", "rate = 0.005")
    slept: list[float] = []
    with site.process() as (context, begun):

        def pause(seconds: float) -> None:
            slept.append(seconds)
            site.world.pass_time(seconds)

        state = cycle.cycle(context, begun)
        running.end_pilots(attrs.evolve(context, sleep=pause), state.service)
    assert site.alive() == set()
    assert sum(slept) > 100
    assert max(slept) <= context.settings.beat


# --- what became of a pilot -----------------------------------------------------------------------


def record(state: State, since: float = 100.0, exit: int | None = None) -> Record:  # noqa: A002
    return Record(
        key="p", state=state, created=0, since=since, hold_until=9, lease=9, lease_until=9,
        exit=exit, cluster="slurm",
    )  # fmt: skip


ROW = PilotRow(key="p", service="s", queue="q", cluster="slurm", submitted=10.0)


def test_what_counts_as_a_lost_pilot() -> None:
    def failed(
        row: PilotRow, found: Record, word: PilotReport | None = None, *, kept: bool = False
    ) -> bool:
        return settled(row, found, word, 60.0, kept=kept).failed

    ran = attrs.evolve(ROW, started=20.0)
    assert failed(ROW, record(State.FAILED))  # it never started
    refused = attrs.evolve(record(State.FAILED), code=ReasonCode.REFUSED)
    assert not failed(ROW, refused)
    assert settled(ROW, refused, None, 60.0, kept=False).refused
    assert failed(attrs.evolve(ROW, started=90.0), record(State.FAILED, exit=1))  # died early
    assert not failed(ran, record(State.FAILED, exit=1))  # after long work
    assert not failed(ran, record(State.DONE, exit=0))
    assert not failed(ROW, record(State.CANCELLED))
    # Where pilots report, one that never did has not asked for work.
    assert failed(ran, record(State.DONE, exit=0), kept=True)
    assert not failed(
        ran, record(State.DONE, exit=0), PilotReport(PilotState.IDLE, 30.0), kept=True
    )


def test_what_is_not_known_to_be_idle_is_busy() -> None:
    found = record(State.RUNNING)
    row = attrs.evolve(ROW, started=20.0)
    assert pilot(row, found, PilotReports(), 600.0).state is PilotState.BUSY
    assert pilot(row, found, PilotReports({}, kept=True), 600.0).state is PilotState.STARTING
    idle = PilotReports({"p": PilotReport(PilotState.IDLE, 50.0)}, kept=True)
    assert (said := pilot(row, found, idle, 600.0)).state is PilotState.IDLE
    assert (said.since, said.ends) == (50.0, 620.0)
    asked = PilotReports({"p": PilotReport(PilotState.IDLE, 50.0, asked_to_end=True)}, kept=True)
    assert pilot(row, found, asked, 600.0).state is PilotState.DRAINING
    assert pilot(row, None, idle, 600.0).state is PilotState.QUEUED


def test_pilots_that_ended_long_ago_are_forgotten(site: Site) -> None:
    site.demand(1)
    site.cycles(3)
    site.all_over()
    before = {row.key for row in site.rows()}
    site.world.pass_time(20 * 86_400.0)
    site.demand(1)
    with site.process() as (means, begun):
        cycle.cycle(means, attrs.evolve(begun, service=attrs.evolve(begun.service, cycles=1000)))
    after = {row.key for row in site.rows()}
    assert before
    assert after
    assert not before & after


SOURCE = FILE.replace(
    '[[queue]]\nname = "faulty"\nlrms = "slurm"\nrate = 1000', '[[source]]\nads = "queues.ads"'
)


@pytest.mark.parametrize(
    ("published", "system", "closed"),
    [
        ("SGE", "sge", ""), ("gridengine", "sge", ""), ("condor", "htcondor", ""),
        ("PBSPro", "pbspro", ""), ("torque", "torque", ""), ("slurm", "slurm", ""),
        ("pbs", "pbs", "its batch system is pbs, which may be pbspro or torque"),
        ("fork", "fork", "its batch system is fork, which is none that is known"),
    ],
)  # fmt: skip
def test_a_published_batch_system_goes_by_its_own_name(
    tmp_path: Path, published: str, system: str, closed: str
) -> None:
    (tmp_path / "queues.ads").write_text(
        f'[ CEid = "q"; QueueName = "q"; GlueCEInfoLRMSType = "{published}" ]'
    )
    made = settings_of(SOURCE, tmp_path, name="grid")
    (place,) = sources.described(made, made.source[0])
    assert place.lrms == system
    assert place.queue.closed.startswith(closed)
    assert bool(place.queue.closed) == bool(closed), place.queue.closed


# --- the tables -----------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "jobs.db")
        return
    try:
        with postgres() as url:
            yield url
    except ServiceUnavailable as error:
        pytest.skip(f"no PostgreSQL here: {error}")


def service(token: str = "a", **more: object) -> Service:  # noqa: S107 - of a process
    return Service(name="s", token=token, started=1.0, beat=1.0, **more)  # type: ignore[arg-type]


def test_a_service_has_one_process_and_goes_on(place: str) -> None:
    with contextlib.closing(Services(place)) as services:
        first = services.begin(service(), lambda _: False)
        services.save(attrs.evolve(first, cycles=3, memory={"now": 7.0}, beat=2.0))
        with pytest.raises(ServiceError, match="s runs already"):
            services.begin(service("b"), lambda _: False)
        second = services.begin(service("b"), lambda _: True)
        assert (second.cycles, dict(second.memory)) == (3, {"now": 7.0})
        with pytest.raises(TakenOverError):
            services.save(first)
        with pytest.raises(TakenOverError):
            services.reserve(first, [Reservation("q", "slurm", 1)], 1.0, lambda: "k")
        services.wish("s", "stop")
        assert services.save(second).wish == "stop"
        with pytest.raises(ServiceError, match="no service is called 't'; there are: s"):
            services.wish("t", "stop")


def test_tables_from_before_there_was_a_rate_go_on(place: str) -> None:
    with contextlib.closing(Services(place)) as services:
        one = services.begin(service(), lambda _: False)
        (row,) = services.reserve(one, [Reservation("q", "slurm", 1)], 1.0, lambda: "k")
        with services._writing() as write:
            for text in (
                "DROP TABLE demandlist", "ALTER TABLE pilots DROP COLUMN handed",
                "ALTER TABLE pilots DROP COLUMN refused",
            ):  # fmt: skip
                write.exec_driver_sql(text)
    with contextlib.closing(Services(place)) as services:
        # It was handed over at once.
        assert services.live() == [attrs.evolve(row, handed=True)]
        assert services.jobs("s") == {}


def test_a_dead_service_has_a_true_record(place: str) -> None:
    with contextlib.closing(Services(place)) as services:
        services.begin(service(host="elsewhere", patience=60.0), lambda _: False)
        (alive,) = running.listed(services, 50.0)
        assert alive.state == "running"
        (gone,) = running.listed(services, 100.0)
        assert (gone.state, gone.ended) == ("failed", 100.0)
        assert gone.reason == "its process is gone; its last heartbeat was 99 s ago"


def test_caps_hold_between_services_that_reserve_at_once(place: str) -> None:
    keys = count()
    with contextlib.closing(Services(place)) as services:
        names = [attrs.evolve(service(), name=f"s{number}") for number in range(4)]
        for one in names:
            services.begin(one, lambda _: False)

        def reserve(one: Service) -> None:
            wanted = [
                Reservation("q", "slurm", 9, most=5),
                Reservation("r", "slurm", 9, most_queued=2),
            ]
            for _ in range(3):
                # SQLite may be busy for too long on a loaded machine.
                with contextlib.suppress(LedgerError):
                    services.reserve(one, wanted, 1.0, lambda: f"k{next(keys)}", most=6)

        threads = [Thread(target=reserve, args=(one,)) for one in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = services.live()
        assert [sum(row.queue == name for row in found) for name in "qr"] == [5, 1]
        services.update([attrs.evolve(row, live=False) for row in found if row.queue == "q"])
        made = services.reserve(names[0], [Reservation("r", "slurm", 9, most_queued=2)], 2.0,
                                lambda: f"k{next(keys)}")  # fmt: skip
        assert len(made) == 1


def test_a_pilot_that_is_paused_counts_as_refused_and_is_cancelled(tmp_path: Path) -> None:
    """Its submissions fail for hours: its place is free, and nobody has to resume it."""
    site = Site(tmp_path, file=FILE.replace("Grace = 3", "Grace = 10000"))
    site.demand(1)
    site.world.faults = {"park": ["nothing"] * 8}
    site.cycles(20, 3700.0)
    (paused,) = [row for row in site.rows() if row.refused]
    assert "submitted 8 times" in paused.reason
    site.cycles(4)
    with contextlib.closing(Ledger(str(site.folder / "jobs.db"))) as ledger:
        assert ledger.get(paused.key).state in {State.CANCELLED, State.ACKNOWLEDGED}


def test_each_pilot_gets_a_token_which_the_factory_removes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Answers:
        async def pilot_token(self, key: str, *, seconds: float) -> str:
            if len(asked) > 1:
                raise ConnectionError("it is away")
            asked.append(key)
            return f"token of {key} for {seconds:.0f}"

    @contextlib.asynccontextmanager
    async def answers(place: connect.BinderAddress) -> AsyncIterator[Answers]:
        assert (place.address, place.token) == ("localhost:1", "secret")
        yield Answers()

    monkeypatch.setattr(connect, "factory", answers)
    (tmp_path / "own").write_text("secret\n")
    reports = tmp_path / "reports"
    reports.mkdir()
    pilot = 'reports = "reports"\nbinder = "localhost:1"\ntoken = "own"\nscript'
    site = Site(tmp_path, file=FILE.replace("script", pilot, 1))
    site.demand(3)
    facts = site.cycles(1).service.facts
    left = {file.name: file for file in reports.iterdir()}
    assert left.keys() == {f"{key}.token" for key in asked}
    for key in asked:
        file = left[f"{key}.token"]
        assert file.read_text() == f"token of {key} for 604800\n"
        assert file.stat().st_mode & 0o777 == 0o600
    # One that gets none is not handed over.
    assert "the binder at localhost:1 gave no token: it is away" in str(facts["troubles"])
    assert len(site.alive()) == len(asked) == 2
    site.demand(0)
    site.cycles(30)
    assert site.alive() == set()
    assert list(reports.glob("*.token")) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('binder = "b:1"', "give both or none"),
        ('binder = "b:1"\ntoken = "own"', "reports is missing: each pilot's token is put there"),
    ],
)
def test_half_of_what_a_token_needs_is_refused(tmp_path: Path, given: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        settings_of(FILE.replace("script", f"{given}\nscript", 1), tmp_path)


def test_a_pilot_of_one_owner_is_no_supply_for_another(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    reports.mkdir()
    site = Site(tmp_path, file=FILE.replace("script", 'reports = "reports"\nscript', 1))
    ads = '[ Id = "{0}"; JobStatus = 1; Owner = "{0}"; AccountingGroup = "all" ]\n'
    (tmp_path / "jobs.ads").write_text(ads.format("ana"))
    site.cycles(1)
    (first,) = site.alive()
    for owner, pilots in (("ana", 1), ("eve", 2)):
        (tmp_path / "jobs.ads").write_text(ads.format(owner))
        (reports / first).write_text('idle\n[ Requirements = TARGET.Owner =?= "ana" ]\n')
        site.cycles(1)
        assert len(site.alive()) == pilots, owner


# --- two services of one ledger -------------------------------------------------------------------

SERVICES = (
    FILE.replace('[[demand]]\nfile = "jobs.ads"', "".join(
        f'[[demand]]\nfile = "{name}.ads"\n' for name in ("ana", "eve", "jobs")
    ))
    .replace("ledger", "stale = 100\nlease = 3000\nledger", 1)
    .replace("pilots = 3", "pilots = 20")
    .replace("script", 'reports = "reports"\nscript', 1)
    .replace("Grace = 3", "Grace = 3; Everywhere = 0; Copies = 1; Ready = 0")
)  # fmt: skip
SERVICES += '[[source]]\nads = "queues.ads"\n'


@attrs.define
class RunningService:
    """A service's process, and its state."""

    site: Site
    context: FactoryContext
    state: FactoryState

    def cycle(self, number: int = 1, seconds: float = 20.0) -> Mapping[str, Any]:
        """Make some cycles; the facts of the last."""
        facts: Mapping[str, Any] = {}
        for _ in range(number):
            self.state = cycle.cycle(self.context, self.state)
            facts = self.state.service.facts
            self.state = self.site.pass_time(self.context, self.state, seconds)
        return facts

    def keys(self) -> set[str]:
        return {
            row.key
            for row in self.context.services.live()
            if row.service == self.context.settings.name
        }

    def held(self) -> dict[str, str]:
        return {each["queue"]: each["held"] for each in self.state.service.facts["queues"]}


@pytest.fixture
def services(tmp_path: Path) -> Iterator[tuple[RunningService, RunningService]]:
    """Two services with the same queues, one of them described by a source, and the same jobs."""
    (tmp_path / "reports").mkdir()
    site = Site(tmp_path, World(length=100_000.0), file=SERVICES, most=20)
    for name in ("ana", "eve"):
        (tmp_path / f"{name}.ads").write_text("[ JobStatus = 4 ]\n")
    (tmp_path / "queues.ads").write_text(
        '[ CEid = "described"; QueueName = "described"; GlueCEInfoLRMSType = "slurm" ]'
    )
    with site.process("grid") as grid, site.process("night") as night:
        yield RunningService(site, *grid), RunningService(site, *night)


def idle(site: Site) -> None:
    """Every pilot that runs reports that it is idle."""
    for key in site.world.starts:
        path = site.folder / "reports" / key
        path.write_text("idle\n")
        os.utime(path, (site.world.now, site.world.now))


def asked(site: Site) -> set[str]:
    """The pilots that were asked to end."""
    return {path.stem for path in (site.folder / "reports").glob("*.end")}


def wishes(site: Site) -> set[str]:
    """The pilots that shall be cancelled."""
    return {
        key
        for key, found in site.records().items()
        if found.cancel_wanted or found.state in {State.CANCELLING, State.CANCELLED}
    }


Pair = tuple[RunningService, RunningService]


def test_a_pilot_that_has_reported_is_asked_and_not_cancelled(services: Pair) -> None:
    grid, _ = services
    site = grid.site
    # The batch system starts none, or it is not known yet.
    site.world._start = lambda job: None  # type: ignore[method-assign]
    site.demand(3)
    grid.cycle(3)
    first, *others = sorted(grid.keys())
    (site.folder / "reports" / first).write_text("busy\n")
    assert cycle.end(grid.context, grid.context.services.live()) == []
    assert asked(site) == {first, *others}
    assert wishes(site) == set(others)


def test_nothing_is_cancelled_while_reports_cannot_be_read(
    services: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid, _ = services
    site = grid.site
    site.world._start = lambda job: None  # type: ignore[method-assign]
    site.demand(2)
    grid.cycle(3)

    def unreadable(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", unreadable)
        troubles = cycle.end(grid.context, grid.context.services.live())
    folder = site.folder / "reports"
    assert troubles == [f"{folder} cannot be read: no pilot is cancelled"]
    assert asked(site) == grid.keys()
    assert wishes(site) == set()
    assert cycle.end(grid.context, grid.context.services.live()) == []
    assert wishes(site) == grid.keys()


def test_queues_of_a_source_that_is_silent_are_closed_after_a_while(services: Pair) -> None:
    grid, _ = services
    grid.cycle(1, 60.0)
    assert grid.held() == {"faulty": "", "described": ""}
    (grid.site.folder / "queues.ads").unlink()
    grid.cycle(1, 39.0)
    facts = grid.cycle(1, 2.0)
    assert "queues.ads" in facts["silent"][0]
    assert grid.held() == {"faulty": "", "described": ""}
    grid.site.demand(6)
    grid.cycle()
    assert grid.held() == {
        "faulty": "", "described": "its source has been silent for 101 s"
    }  # fmt: skip
    assert {row.queue for row in grid.site.rows()} == {"faulty"}


@pytest.mark.parametrize("start", [True, False])
def test_a_service_ends_only_pilots_of_its_own(services: Pair, start: bool) -> None:
    grid, night = services
    site = grid.site
    if not start:
        site.world._start = lambda job: None  # type: ignore[method-assign]
    site.demand(2)
    grid.cycle(2)
    site.demand(5)
    night.cycle(2)
    idle(site)
    mine, others = grid.keys(), night.keys()
    assert (len(mine), len(others)) == (2, 3)
    site.demand(0)
    ended = asked if start else wishes
    grid.cycle(6)
    assert ended(site) == mine
    night.cycle(6)
    assert ended(site) == mine | others


def test_a_service_takes_up_only_pilots_of_its_own(services: Pair) -> None:
    """What a kill left marked as handed over, and a queue that the other service does not have."""
    grid, night = services
    site = grid.site
    wanted = [Reservation("faulty", "slurm", 1), Reservation("elsewhere", "slurm", 1)]
    made = night.context.services.reserve(
        night.state.service, wanted, site.world.now, night.context.new_key
    )
    for row in made:
        night.context.services.hand_over(night.state.service, row, site.world.now)
    site.demand(1)
    grid.cycle(2)
    keys = {row.key for row in made}
    assert (site.records().keys() & keys, night.keys()) == (set(), keys)
    night.cycle(2)
    assert site.records().keys() & keys == {made[0].key}
    (lost,) = [row for row in site.rows() if row.key == made[1].key]
    assert (lost.live, lost.reason) == (False, "no source has the queue now")


def test_the_result_of_a_pilot_is_taken_a_while_after_its_end(services: Pair) -> None:
    """The batch system may end the job later than the record says, in the same directory."""
    grid, _ = services
    site = grid.site
    site.world.length = 30.0
    site.demand(1)
    grid.cycle(2)
    idle(site)
    site.demand(0)
    ages: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(20):
        at = site.world.now
        grid.cycle(1, 10.0)
        (row,), (found,) = site.rows(), site.records().values()
        if row.ended is not None:
            ages[found.state is State.ACKNOWLEDGED].append(at - row.ended)
    assert min(ages[False]) < 10.0
    assert 50.0 <= max(ages[False]) < 60.0 <= min(ages[True]) <= 70.0
    assert list((site.folder / "reports").iterdir()) == []


def test_a_lease_is_renewed_when_a_third_of_it_has_gone_by(services: Pair) -> None:
    grid, _ = services
    site = grid.site
    site.demand(1)
    grid.cycle(3)
    (before,) = site.records().values()
    assert (before.state, before.lease) == (State.RUNNING, 3000.0)
    site.world.pass_time(before.lease_until - 2001.0 - site.world.now)
    grid.cycle(1, 2.0)
    (still,) = site.records().values()
    assert still.lease_until == before.lease_until
    at = site.world.now
    grid.cycle()
    (after,) = site.records().values()
    assert after.lease_until == at + 3000.0


def test_the_lease_of_a_pilot_that_shall_end_is_not_renewed(services: Pair) -> None:
    grid, _ = services
    site = grid.site
    site.demand(2)
    grid.cycle(3)
    first, second = sorted(grid.keys())
    ledger = grid.context.ledger
    known = ledger.get(first)
    site.world.pass_time(1100.0)
    look = site.world.look

    def ended_meanwhile() -> Any:
        # Somebody else wants it ended, after this look has read the records.
        ledger.save([(ledger.get(first), wish_end(ledger.get(first)))])
        return look()

    site.world.look = ended_meanwhile  # type: ignore[method-assign]
    at = site.world.now
    assert grid.cycle()["troubles"] == []
    found = ledger.get(first)
    assert (found.state, found.cancel_wanted) == (State.RUNNING, True)
    assert found.lease_until == known.lease_until
    assert ledger.get(second).lease_until == at + 3000.0


@pytest.mark.parametrize(("never", "was"), [("ana", "eve"), ("eve", "ana")])
def test_any_source_that_has_never_answered_keeps_the_free_pilots(
    services: Pair, never: str, was: str
) -> None:
    grid, _ = services
    site = grid.site
    (site.folder / f"{never}.ads").unlink()
    site.demand(2)
    grid.cycle(2)
    idle(site)
    site.demand(0)
    (site.folder / f"{was}.ads").unlink()
    grid.cycle(4)
    assert asked(site) == set()
    # Once it has answered, nobody needs them.
    (site.folder / f"{never}.ads").write_text("[ JobStatus = 4 ]\n")
    grid.cycle()
    assert asked(site) == grid.keys()
