"""A batch system, a spool and nodes that go wrong on demand, and a ledger in memory.

The world has one clock; delegators may have others. A fault waits in a list until the next call of
its kind. Nothing here decides what a delegator does, and it counts what a delegator must not cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import attrs

from matchmaker.delegation.contact import Origin, SpoolMarks
from matchmaker.delegation.control import OwnOptions
from matchmaker.delegation.database import LedgerError
from matchmaker.delegation.ledger import Ledger, New
from matchmaker.delegation.record import (
    Answer,
    JobStatus,
    NoAnswer,
    Payload,
    Phase,
    QueueListing,
    Record,
    Refused,
    Transition,
    Unreadable,
    key_of,
)

BROKEN = NoAnswer("the command failed")
REFUSED = Refused("no such partition")
OVER = {Phase.ENDED, Phase.CANCELLED}


class Killed(BaseException):
    """The delegator is killed here."""


@attrs.define
class Job:
    """A job as the batch system has it."""

    name: str
    remote_id: str
    submitted: float
    begin: float
    phase: Phase = Phase.PARKED
    exit: int | None = None
    ended: float = 0.0
    mark: str = ""


@attrs.define
class Files:
    """The records of an attempt."""

    committed: bool = False
    start: str = ""
    lease_until: float = 0.0
    stopped: bool = False
    exit: int | None = None
    origin: Origin | None = None
    length: float | None = None
    over: bool = False
    payload: Payload | None = None


@attrs.define
class Run:
    """A payload on a node, which goes on whatever the batch system forgets."""

    key: str
    attempt: int
    until: float
    job: Job
    reachable: bool = True


class World:
    """The other side: what really is, and how it answers."""

    name = "faulty"
    place = "/spool"

    def __init__(self, *, length: float = 100.0) -> None:
        self.now = 1_000_000.0
        self.parked: list[tuple[str, Mapping[str, str]]] = []
        self.length = length
        self.status = 0
        self.jobs: dict[str, Job] = {}
        self.accounts: list[tuple[float, JobStatus]] = []
        self.files: dict[tuple[str, int], Files] = {}
        self.runs: list[Run] = []
        self.next_id = 1
        self.saved: tuple[float, int, dict[str, Job]] = (self.now, 1, {})
        self.delayed: list[tuple[float, Callable[[], object]]] = []
        self.last_listing: tuple[JobStatus, ...] = ()
        self.stale_until = 0.0
        self.faults: dict[str, list[str]] = {}
        self.calls = Counter[str]()
        self.kill_after: int | None = None
        self.between: Callable[[], None] | None = None
        self.starts = Counter[str]()
        self.signed: Origin | None = None
        self.finished: dict[str, int] = {}
        self.accounting_delay = 0.0

    # --- faults -------------------------------------------------------------------------------

    def boundary(self, kind: str) -> str:
        """Every call passes here: it may be interrupted, killed, or go wrong."""
        self.calls[kind] += 1
        if self.between is not None:
            other, self.between = self.between, None
            other()
        if self.kill_after is not None:
            self.kill_after -= 1
            if self.kill_after < 0:
                self.kill_after = None
                raise Killed
        waiting = self.faults.get(kind)
        return waiting.pop(0) if waiting else ""

    # --- the batch system ---------------------------------------------------------------------

    def _new(self, name: str, seconds: float, mark: str = "") -> Job:
        job = Job(name, str(self.next_id), self.now, self.now + seconds, mark=mark)
        self.next_id += 1
        self.jobs[job.remote_id] = job
        return job

    def refusal(self, words: Sequence[str], folder: Path) -> str:
        return ""

    def own_options(
        self, script: bytes, environment: Mapping[str, str], given: Sequence[str],
        found: Sequence[str] = (),
    ) -> OwnOptions:  # fmt: skip
        return OwnOptions(words=tuple(given))

    def sets_directory(self, words: Sequence[str]) -> bool:
        return False

    def park(
        self, name: str, script: Path, words: Sequence[str], *, metadata: Mapping[str, str],
        seconds: float, directory: str, environment: Mapping[str, str], umask: str = "",
    ) -> str | Refused | NoAnswer:  # fmt: skip
        fault = self.boundary("park")
        self.parked.append((directory, environment))
        mark = metadata.get("mark", "")
        if fault in {"nothing", "refused"}:
            return BROKEN if fault == "nothing" else REFUSED
        if fault == "late":
            self.delayed.append((self.now + 45.0, lambda: self._new(name, seconds, mark)))
            return BROKEN
        job = self._new(name, seconds, mark)
        if fault == "twice":
            self._new(name, seconds, mark)
        if fault == "killed":
            raise Killed
        # A wrapper that submits twice may print the refusal of its second try.
        if fault == "refused twice":
            return REFUSED
        return BROKEN if fault == "lost" else job.remote_id

    def _listing(self) -> tuple[JobStatus, ...]:
        return tuple(_status(job) for job in self.jobs.values())

    def look(self) -> Answer:
        fault = self.boundary("look")
        if fault == "silent":
            return BROKEN
        if fault == "stale":
            self.stale_until = self.now + 50.0
        if self.now < self.stale_until:
            return QueueListing(self.last_listing)
        self.last_listing = self._listing()
        return QueueListing(self.last_listing)

    def recall(self, names: Mapping[str, str], since: float) -> Answer:
        if self.boundary("recall") == "silent":
            return BROKEN
        return QueueListing(
            tuple(s for at, s in self.accounts if at <= self.now and s.name in names)
        )

    def release(self, jobs: Sequence[tuple[str, str]]) -> list[NoAnswer | None]:
        return [self._release(*job) for job in jobs]

    def _release(self, remote_id: str, name: str) -> NoAnswer | None:
        fault = self.boundary("release")
        job = self.jobs.get(remote_id)
        there = fault != "nothing" and job is not None and job.name == name
        if there and job is not None and job.phase is Phase.PARKED:
            job.begin = self.now
            job.phase = Phase.WAITING
        return BROKEN if fault else None

    def cancel(self, remote_id: str, name: str) -> NoAnswer | None:
        fault = self.boundary("cancel")
        job = self.jobs.get(remote_id)
        if fault != "nothing" and job is not None and job.name == name and job.phase not in OVER:
            self._end(job, Phase.CANCELLED, None)
            for run in list(self.runs):
                if run.job is job and run.reachable:
                    self._finish(run, 143)
        return BROKEN if fault else None

    def _end(self, job: Job, phase: Phase, code: int | None) -> None:
        job.phase, job.exit, job.ended = phase, code, self.now
        self.accounts.append((self.now + self.accounting_delay, _status(job)))

    # --- the spool ----------------------------------------------------------------------------

    def ready(self) -> Path | NoAnswer:
        return Path("/spool")

    def prepare(
        self, key: str, attempt: int, payload: Payload, job: str = "", cluster: str = ""
    ) -> Path | NoAnswer:
        fault = self.boundary("prepare")
        if fault != "nothing":
            self.files.setdefault((key, attempt), Files()).payload = payload
        return BROKEN if fault else Path(f"/spool/{key}/{attempt}/start.sh")

    def sign(self, key: str, attempt: int, origin: Origin) -> NoAnswer | None:
        self.files[key, attempt].origin = origin
        self.signed = self.signed or origin
        return None

    def origins(
        self, names: Iterable[tuple[str, int]]
    ) -> Mapping[tuple[str, int], Origin] | NoAnswer:
        found = {name: self.files.get(name, Files()).origin for name in names}
        return {name: origin for name, origin in found.items() if origin is not None}

    def described(self, names: Iterable[tuple[str, int]]) -> Mapping[str, Payload] | NoAnswer:
        found = {name[0]: self.files.get(name, Files()).payload for name in names}
        return {key: payload for key, payload in found.items() if payload is not None}

    def first(self) -> Origin | NoAnswer | None:
        return self.signed

    def commit(
        self, key: str, attempt: int, seconds: float, length: float | None = None
    ) -> NoAnswer | None:
        fault = self.boundary("commit")
        files = self.files.get((key, attempt))
        if files is None:
            return BROKEN
        if fault != "nothing" and not files.committed:
            files.committed, files.lease_until = True, self.now + seconds
            files.length = length
        return BROKEN if fault else None

    def renew(
        self, key: str, attempt: int, seconds: float, length: float | None = None
    ) -> NoAnswer | None:
        fault = self.boundary("renew")
        files = self.files.get((key, attempt))
        if files is not None and length is not None and files.start:
            seconds, length = length, None
        if files is not None and files.committed and fault != "nothing":
            files.lease_until, files.length = self.now + seconds, length
            files.stopped = seconds <= 0
        return BROKEN if fault or files is None else None

    def forbid(self, key: str, attempt: int) -> NoAnswer | None:
        fault = self.boundary("forbid")
        files = self.files.get((key, attempt))
        if files is not None and fault != "nothing":
            files.start = files.start or "forbidden"
        return BROKEN if fault or files is None else None

    def marks(
        self, names: Iterable[tuple[str, int]]
    ) -> Mapping[tuple[str, int], SpoolMarks | NoAnswer] | NoAnswer:
        if self.boundary("marks"):
            return BROKEN
        return {name: _marks(self.files.get(name, Files())) for name in names}

    def attempts(self) -> Mapping[tuple[str, int], str] | NoAnswer:
        return BROKEN if self.boundary("attempts") else dict.fromkeys(self.files, "")

    def forget(self, key: str, job: str = "") -> NoAnswer | None:
        self.boundary("forget")
        for name in [name for name in self.files if name[0] == key]:
            del self.files[name]
        return None

    # --- time and the nodes -------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        """Lets time pass: holds end, jobs start and end, leases run out, queues forget."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + max(1.0, seconds / 20))
            due = [act for at, act in self.delayed if at <= self.now]
            self.delayed = [(at, act) for at, act in self.delayed if at > self.now]
            for act in due:
                act()
            for job in list(self.jobs.values()):
                self._live(job)
            for run in list(self.runs):
                lease = self.files.get((run.key, run.attempt), Files()).lease_until
                if self.now >= lease:
                    if run.reachable and (run.key, run.attempt) in self.files:
                        self.files[run.key, run.attempt].over = True
                    self._finish(run, 143)
                elif self.now >= run.until:
                    self._finish(run, self.status)
            if self.now - self.saved[0] >= 5.0:
                self.save()

    def _live(self, job: Job) -> None:
        if job.phase is Phase.PARKED and self.now >= job.begin:
            job.phase = Phase.WAITING
        elif job.phase is Phase.WAITING:
            self._start(job)
        elif job.phase in OVER and self.now - job.ended > 60.0:
            self.jobs.pop(job.remote_id, None)

    def _start(self, job: Job) -> None:
        """The start script on a node."""
        named = key_of(job.name)
        assert named is not None
        files = self.files.setdefault(named, Files())
        if not files.committed or self.now >= files.lease_until:
            files.start = files.start or "forbidden"
            self._end(job, Phase.ENDED, 75)
        elif files.start:
            self._end(job, Phase.ENDED, 75)
        else:
            files.start = "started"
            if files.length is not None:
                files.lease_until = self.now + files.length
            job.phase = Phase.RUNNING
            self.starts[named[0]] += 1
            self.runs.append(Run(*named, self.now + self.length, job))

    def _finish(self, run: Run, code: int) -> None:
        self.runs.remove(run)
        if not run.reachable:
            return
        self.finished[run.key] = code
        if (run.key, run.attempt) in self.files:
            self.files[run.key, run.attempt].exit = code
        if self.jobs.get(run.job.remote_id) is run.job and run.job.phase not in OVER:
            self._end(run.job, Phase.ENDED, code)

    def save(self) -> None:
        """The batch system's own state, as it saves it every few seconds."""
        copies = {number: attrs.evolve(job) for number, job in self.jobs.items()}
        self.saved = (self.now, self.next_id, copies)

    def crash(self, *, clean: bool = False) -> None:
        """The batch system comes back with its last saved state, or with none: ids come again."""
        _, self.next_id, jobs = self.saved
        self.jobs = {} if clean else {number: attrs.evolve(job) for number, job in jobs.items()}
        there = [run for run in self.runs if run.reachable]
        for run in there:
            same = self.jobs.get(run.job.remote_id)
            if same is not None and same.name == run.job.name:
                same.phase = Phase.RUNNING
                run.job = same
        running = {id(run.job) for run in there}
        for job in self.jobs.values():
            if job.phase is Phase.RUNNING and id(job) not in running:
                self._end(job, Phase.CANCELLED, None)
        self.save()

    def lose_node(self) -> None:
        """A node is gone with its payload, which leaves no record of its end."""
        if self.runs:
            run = self.runs[0]
            run.reachable = False
            if self.jobs.get(run.job.remote_id) is run.job:
                self._end(run.job, Phase.CANCELLED, None)

    @property
    def runs_of(self) -> set[str]:
        """The keys whose payload runs; on a lost node it ends by itself when its lease does."""
        return {
            run.key
            for run in self.runs
            if run.reachable
            or self.files.get((run.key, run.attempt), Files()).lease_until > self.now
        }


def _status(job: Job) -> JobStatus:
    return JobStatus(job.name, job.remote_id, job.submitted, job.phase, job.exit, mark=job.mark)


def _marks(files: Files) -> SpoolMarks:
    return SpoolMarks(
        files.committed, files.start == "started", files.start == "forbidden", files.exit,
        stopped=files.stopped and files.exit is None, over=files.over,
    )  # fmt: skip


class MemoryLedger:
    """The ledger's methods over dictionaries; :mod:`tests.delegation.test_ledger` holds both."""

    sqlite = True
    identity = "0000000a"
    place = "memory"

    def __init__(self, world: World | None = None) -> None:
        self.rows: dict[str, Record] = {}
        self.payloads: dict[str, Payload] = {}
        self.log: list[tuple[str, Transition]] = []
        self.epoch = 1
        self.world = world
        self.on_disk: tuple[dict[str, Record], int] | None = None

    def _boundary(self) -> str:
        return self.world.boundary("ledger") if self.world is not None else ""

    def add(self, wanted: Sequence[New]) -> list[Record | None]:
        return [self._add(*one) for one in wanted]

    def _add(self, record: Record, payload: Payload, by: str) -> Record | None:
        self._fail(self._boundary())
        if record.key in self.rows:
            return None
        self.on_disk = None
        made = attrs.evolve(record, epoch=self.epoch, revision=1)
        self.rows[made.key], self.payloads[made.key] = made, payload
        self._note("new", made, by)
        return made

    def save(
        self, changes: Sequence[tuple[Record, Record]], by: str = "", *, durable: bool = True
    ) -> list[Record | None]:
        fault = self._boundary() if changes else ""
        if fault == "killed":
            raise Killed
        self._fail(fault)
        if durable:
            self.on_disk = None
        elif self.on_disk is None:
            self.on_disk = (dict(self.rows), len(self.log))
        done: list[Record | None] = []
        for before, after in changes:
            known = self.rows.get(before.key)
            if known is None or (known.revision, known.epoch) != (before.revision, before.epoch):
                done.append(None)
                continue
            made = attrs.evolve(after, revision=before.revision + 1)
            self.rows[made.key] = made
            if (before.state, before.attempt) != (made.state, made.attempt):
                self._note(str(before.state), made, by)
            done.append(made)
        if fault == "killed after":
            raise Killed
        return done

    def lose_power(self) -> None:
        """The machine stops: what was written and need not be durable is gone."""
        if self.on_disk is not None:
            self.rows, kept = self.on_disk
            del self.log[kept:]
            self.on_disk = None

    def rebuild(
        self, records: Sequence[Record], at: float, by: str = "",
        payloads: Mapping[str, Payload] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        self.payloads = {**payloads, **self.payloads}
        self.epoch += 1
        self.on_disk = None
        self.rows = {k: attrs.evolve(r, epoch=self.epoch) if r.state.live else r
                     for k, r in self.rows.items()}  # fmt: skip
        for record in records:
            known = self.rows.get(record.key)
            made = attrs.evolve(record, epoch=self.epoch, revision=1)
            if known is not None:
                made = attrs.evolve(
                    made,
                    digest=known.digest,
                    created=known.created,
                    owner=known.owner,
                    ledger=known.ledger,
                )
            self.rows[record.key] = made
            self._note("new", made, by)

    def adopt(self, identity: str) -> bool:
        if not self.log:
            self.identity = identity
        return not self.log

    def last_states(self, keys: Collection[str]) -> dict[str, str]:
        return {key: entry.target for key, entry in self.log if key in keys}

    def find(self, key: str) -> Record | None:
        return self.rows.get(key)

    get = Ledger.get

    def records(self, keys: Collection[str]) -> list[Record]:
        return [self.rows[key] for key in sorted(keys) if key in self.rows]

    def live(self, cluster: str | None = None) -> list[Record]:
        return [r for r in self.rows.values() if r.state.live and cluster in {None, r.cluster}]

    def live_rows(self, cluster: str | None = None) -> list[Record | Unreadable]:
        return [*self.live(cluster)]

    def payload(self, key: str) -> Payload | None:
        return self.payloads.get(key)

    def history(self, key: str) -> list[Transition]:
        return [entry for name, entry in self.log if name == key]

    def _note(self, source: str, made: Record, by: str) -> None:
        entry = Transition(
            made.attempt, made.revision, made.since, source, str(made.state), by, made.reason
        )
        self.log.append((made.key, entry))

    def _fail(self, fault: str) -> None:
        if fault == "fails":
            raise LedgerError("the disk is full")


def _check_protocols(world: World) -> None:
    """For mypy: the world is a batch system and a spool."""
    from matchmaker.delegation.contact import BatchSystem, Spool

    system: BatchSystem = world
    spool: Spool = world
    del system, spool
