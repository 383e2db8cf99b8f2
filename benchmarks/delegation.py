"""Prints what handing jobs over in two phases costs, beside plain ``sbatch`` on the same Slurm.

``make bench-all``, or ``PYTHONPATH=. python benchmarks/delegation.py [--quick]``. Transfers a
second: from the job's ad to a job that may start, with everything durable (intent, submission,
commit, release), against a loop of ``sbatch``. The wait before the commit (``settle``) is left out
there, and a stream of jobs has it in full: some wait while others are submitted. Latency: from the
call to the payload's first act, for some waits. Wall-clock time, because Slurm, the file system and
its ``fsync`` are part of it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from matchmaker import ClassAd
from matchmaker.delegation.commands import Commands
from matchmaker.delegation.control import load_control
from matchmaker.delegation.delegate import Delegator
from matchmaker.delegation.ledger import Ledger
from matchmaker.delegation.record import Deadlines
from tests.services.breakable import breakable, until
from tests.services.slurm import SlurmNode, SlurmOracle, cluster

WORDS = ("--output=/dev/null", "--mem=5M")
IN_PARALLEL = 16


def plain(oracle: SlurmOracle, script: Path, number: int) -> float:
    """Seconds of ``sbatch``, one after the other."""
    began = time.perf_counter()
    for _ in range(number):
        subprocess.run(
            [oracle.sbatch, "--parsable", *WORDS, str(script)], env=oracle.environment,
            cwd=oracle.folder, check=True, capture_output=True,
        )  # fmt: skip
    return time.perf_counter() - began


@contextmanager
def delegator(oracle: SlurmOracle, settle: float, parallel: int) -> Iterator[Delegator]:
    """A delegator with a new ledger; at the end its jobs are removed."""
    with tempfile.TemporaryDirectory(dir=oracle.folder) as name:
        ledger = Ledger(Path(name) / "jobs.db")
        system = Commands(load_control("slurm"), environment=oracle.environment)
        deadlines = Deadlines(settle=settle)
        yield Delegator(ledger, system, deadlines=deadlines, parallel=parallel)
        assert {record.state for record in ledger.recent()} == {"committed"}
        subprocess.run(["scancel", "--me"], env=oracle.environment, check=True)
        ledger.close()


def transfers(oracle: SlurmOracle, script: Path, number: int, parallel: int) -> float:
    """Seconds of transfers, the wait before the commit left out."""
    with delegator(oracle, 1e-9, parallel) as made:
        began = time.perf_counter()
        with ThreadPoolExecutor(parallel) as pool:
            list(pool.map(lambda _: made.submit(ClassAd(), script, WORDS), range(number)))
        troubles = made.reconcile().troubles
        assert not troubles, troubles[0]
        return time.perf_counter() - began


def stream(oracle: SlurmOracle, script: Path, number: int, settle: float) -> float:
    """Seconds of transfers with the wait: some jobs wait while others are submitted."""
    with delegator(oracle, settle, IN_PARALLEL) as made:
        began = time.perf_counter()
        early = number
        with ThreadPoolExecutor(IN_PARALLEL) as pool:
            for _ in range(number):
                pool.submit(made.submit, ClassAd(), script, WORDS)
            while early:
                time.sleep(0.5)
                report = made.reconcile()
                assert not report.troubles, report.troubles[0]
                early -= sum(new.state == "committed" for _, new in report.moved)
        return time.perf_counter() - began


def throughput(number: int, rounds: int, settle: float) -> None:
    """Prints transfers a second: ``sbatch`` alone, ours one by one, in parallel, as a stream."""
    with cluster([SlurmNode("n1", 4, 1000)]) as oracle:
        script = oracle.folder / "job.sh"
        script.write_text("#!/bin/sh\nexit 0\n")
        # Jobs stay queued: what Slurm does to start one is not what is measured.
        subprocess.run(
            ["scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=benchmark"],
            env=oracle.environment, check=True,
        )  # fmt: skip
        sides: dict[str, list[float]] = {"sbatch": [], "one by one": [], "in parallel": []}
        for _ in range(rounds):
            sides["sbatch"].append(plain(oracle, script, number))
            sides["one by one"].append(transfers(oracle, script, number, 1))
            sides["in parallel"].append(transfers(oracle, script, number, IN_PARALLEL))
        many = 20 * number
        alone = plain(oracle, script, many)
        streamed = stream(oracle, script, many, settle)
    base = sides["sbatch"]
    print(f"transfers of {number} jobs, a second, without the wait before the commit;"
          f" {rounds} rounds")  # fmt: skip
    for side, taken in sides.items():
        ratio = median(b / t for b, t in zip(base, taken, strict=True))
        print(f"  {side:<12} {number / median(taken):8.1f}   {ratio:.2f} x sbatch")
    print(f"a stream of {many} jobs, {IN_PARALLEL} in parallel, with a wait of {settle:g} s:"
          f" {streamed:.1f} s; sbatch: {alone:.1f} s")  # fmt: skip
    print(f"  the wait included: {many / streamed:8.1f}   {alone / streamed:.2f} x sbatch")
    beside = streamed - settle
    print(f"  besides the wait:  {many / beside:8.1f}   {alone / beside:.2f} x sbatch")


def latency(waits: Sequence[float], rounds: int) -> None:
    """Prints how long it takes until the payload begins, for waits before the commit."""
    with breakable(("n1",)) as slurm, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("from the call to the payload's first act, seconds (the median)")
        script = folder / "job.sh"
        script.write_text(f"#!/bin/sh\ntouch {folder}/began\n")
        began = folder / "began"

        def waited() -> float:
            until(began.exists, "a start")
            began.unlink()
            return time.perf_counter()

        found = []
        for _ in range(rounds):
            start = time.perf_counter()
            slurm.command("sbatch", "--parsable", *WORDS, str(script))
            found.append(waited() - start)
        print(f"  {'sbatch':<12} {median(found):8.1f}")
        for settle in waits:
            found = []
            for number in range(rounds):
                delegator = Delegator(
                    Ledger(folder / "jobs.db"),
                    Commands(load_control("slurm"), environment=slurm.environment),
                    deadlines=Deadlines(settle=settle),
                )
                start = time.perf_counter()
                delegator.submit(ClassAd(), script, WORDS, key=f"k{settle:g}-{number}")
                while not began.exists():
                    delegator.reconcile()
                    time.sleep(0.1)
                found.append(waited() - start)
            print(f"  settle={settle:<5g} {median(found):8.1f}")


if __name__ == "__main__":
    quick = "--quick" in sys.argv
    throughput(20 if quick else 50, 1 if quick else 7, 1.0 if quick else 6.0)
    latency((1.0,) if quick else (1.0, 6.0, 10.0), 1 if quick else 3)
