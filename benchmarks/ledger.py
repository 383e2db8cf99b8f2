"""Prints what delegation costs on our side: a look at many live jobs, a ledger of many records.

``make bench-all``, or ``python benchmarks/ledger.py [--quick]``. The batch system is a list in
memory that counts its calls; the spool and the ledger are real, in a temporary folder.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import attrs
from timing import figure

import matchmaker as mm
from matchmaker.delegation.ledger import job_rows, jobs, log, row_of, transfers
from matchmaker.delegation.record import (
    Answer,
    JobState,
    JobStatus,
    NoAnswer,
    Payload,
    Phase,
    QueueListing,
    Record,
    job_name,
)
from matchmaker.delegation.spool import SharedSpool
from matchmaker.delegation.states import begin

JOBS = 10_000
RECORDS = 1_000_000
LIVE = 1000
DAY = 86_400.0


@attrs.define
class Queue:
    """A batch system that has what it is given, and counts its calls."""

    statuses: tuple[JobStatus, ...] = ()
    calls: int = 0
    name: str = "slurm"

    def refusal(self, words: Sequence[str], folder: Path) -> str:
        """Refuses nothing."""
        return ""

    def park(self, name: str, script: Path, words: Sequence[str], *,
             metadata: Mapping[str, str], seconds: float,
             content: bytes | None = None) -> str | NoAnswer:  # fmt: skip
        """Submits nothing."""
        self.calls += 1
        return "1"

    def look(self) -> Answer:
        """Every job, in one call."""
        self.calls += 1
        return QueueListing(self.statuses)

    def recall(self, names: Collection[str], since: float) -> Answer:
        """No accounting."""
        self.calls += 1
        return QueueListing(())

    def release(self, jobs: Sequence[tuple[str, str]]) -> list[NoAnswer | None]:
        """Lets nothing go."""
        self.calls += 1
        return [None] * len(jobs)

    def cancel(self, remote_id: str, name: str) -> NoAnswer | None:
        """Ends nothing."""
        self.calls += 1
        return None


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds that some work takes of this process's own time, and by the clock on the wall."""
    start, own = time.perf_counter(), time.process_time()
    work()
    return time.process_time() - own, time.perf_counter() - start


def both(seconds: tuple[float, float], unit: float = 1.0) -> str:
    """The two times as text."""
    return f"{figure(seconds[0] * unit)} of our time, {figure(seconds[1] * unit)} on the wall"


def record(number: int, now: float, state: JobState) -> Record:
    """A record of a job in some state."""
    made = begin(f"k{number:07}", now - DAY / 10, digest="d", owner="me", cluster="slurm").record
    ended = not state.live
    return attrs.evolve(
        made, state=state, remote_id=str(number), remote_submitted=now - DAY / 10, epoch=1,
        revision=4, deadline=None if ended else made.lease_until, seen=now,
        exit=0 if ended else None,
    )  # fmt: skip


def filled(place: Path, records: int, live: int, now: float) -> mm.delegation.Ledger:
    """A ledger with so many records, each with a job and four transitions."""
    ledger = mm.delegation.Ledger(place)
    job = Payload('[ Requirements = other.Memory > 1; Owner = "ana" ]', "/home/ana/job.sh", ("-x",))
    step = 20_000
    for start in range(0, records, step):
        rows = [
            record(n, now, JobState.RUNNING if n >= records - live else JobState.ACKNOWLEDGED)
            for n in range(start, min(records, start + step))
        ]
        entries = [
            {"key": row.key, "attempt": 1, "revision": n, "at": now, "source": source,
             "target": target, "by": "me", "reason": ""}
            for row in rows
            for n, (source, target) in enumerate([("new", "intent"), ("intent", "prepared"),
                                                  ("prepared", "committed"), ("committed", "done")])
        ]  # fmt: skip
        with ledger._writing() as write:  # noqa: SLF001 - a million rows, not one by one
            write.execute(transfers.insert(), [row_of(row) for row in rows])
            write.execute(jobs.insert(), [job_rows(row.key, job)[0] for row in rows])
            write.execute(log.insert(), entries)
    return ledger


def reconciling(folder: Path, jobs: int) -> None:
    """Looks at many live jobs: where nothing happened, and where all of them ended."""
    now = time.time()
    ledger = filled(folder / "live.db", jobs, jobs, now)
    spool = SharedSpool(folder / "spool")
    script = folder / "job.sh"
    script.write_text("#!/bin/sh\n")
    spool.prepare("k0000000", 1, script.read_bytes())
    for number in range(jobs):
        room = spool.root / f"k{number:07}" / "1"
        room.mkdir(parents=True, exist_ok=True)
        (room / "commit").write_text("commit\n")
        (room / "start").write_text("started n1\n")
    queue = Queue(
        tuple(
            JobStatus(job_name(f"k{n:07}", 1), str(n), now - DAY / 10, Phase.RUNNING)
            for n in range(jobs)
        )
    )
    delegator = mm.delegation.Delegator(ledger, queue, spool)
    delegator.reconcile()
    queue.calls = 0
    same = timed(delegator.reconcile)
    print(f"reconcile, {jobs} live jobs, nothing new: {both(same)} (s), {queue.calls} call(s)")
    for number in range(jobs):
        (spool.root / f"k{number:07}" / "1" / "end").write_text("0 n1\n")
    queue.statuses, queue.calls = (), 0
    ended = timed(delegator.reconcile)
    print(f"reconcile, {jobs} live jobs, all ended: {both(ended)} (s), {queue.calls} call(s)")
    assert not ledger.live()
    ledger.close()


def many_records(folder: Path, records: int) -> None:
    """What each command asks of a large ledger."""
    now = time.time()
    place = folder / "many.db"
    took = timed(lambda: filled(place, records, LIVE, now).close())
    size = place.stat().st_size / records
    print(f"ledger of {records} records, {LIVE} of them live: {size:.0f} bytes each, made in"
          f" {both(took)} (s)")  # fmt: skip
    ledger = mm.delegation.Ledger(place)
    key = f"k{records // 2:07}"
    job = Payload("[]", "/x", ())
    fresh = begin("new", now, digest="d", cluster="slurm").record
    found = ledger.find(key)
    assert found is not None
    works: dict[str, Callable[[], object]] = {
        "open": lambda: mm.delegation.Ledger(place).close(),
        "submit: add": lambda: ledger.add(fresh, job),
        "renew, acknowledge: find and save": lambda: ledger.save(
            [(found, attrs.evolve(found, seen=now))]
        ),
        "jobs KEY: find and history": lambda: (ledger.find(key), ledger.history(key)),
        f"jobs, reconcile: {LIVE} live": lambda: ledger.live("slurm"),
        "jobs --all: the youngest 1000": lambda: ledger.recent(1000),
        "jobs of a state: the youngest 1000": lambda: ledger.recent(1000, ["acknowledged"]),
    }
    for name, work in works.items():
        print(f"  {name}: {both(timed(work), 1000)} (ms)")
    ledger.close()


def main() -> None:
    """Prints all figures."""
    quick = "--quick" in sys.argv
    with tempfile.TemporaryDirectory() as name:
        reconciling(Path(name), JOBS // 10 if quick else JOBS)
        many_records(Path(name), RECORDS // 100 if quick else RECORDS)


if __name__ == "__main__":
    main()
