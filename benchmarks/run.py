"""Prints how fast expressions and matches are evaluated beside HTCondor's library.

``make bench-all``, or ``python benchmarks/run.py [--quick]``. Both sides of each comparison are
first checked to give the same answer. Where HTCondor's bindings cannot be imported, ours stand
alone.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import attrs
import subjects
from timing import Timing, Work, figure, interleaved

import matchmaker as mm

ROUNDS = 15


@attrs.frozen(slots=True)
class Row:
    """One line of the table: what is done, by us and, where it can, by the peer."""

    what: str
    ours: Work
    theirs: Work | None
    batch: Callable[[], Sequence[Any]]
    rounds: int = ROUNDS
    count: int = 1
    """How many ads one piece of data holds: times are for one ad."""
    clock: Callable[[], int] = time.process_time_ns
    wanted: str = ""
    """The ratio that is wanted, at least and as an aim."""
    collecting: bool = False
    """Whether the garbage collector is on."""


def peer() -> Any:
    """HTCondor's ClassAd library with the semantics that its users see, or why there is none."""
    os.environ.setdefault("CONDOR_CONFIG", "ONLY_ENV")
    try:
        # This import sets the semantics of the next one.
        import htcondor2  # noqa: F401
        import classad2  # isort: skip
    except ImportError as error:
        return str(error)
    return classad2


def evaluating(classad2: Any) -> list[Row]:
    """Values of expressions, and matches, on one job and one machine."""
    machine_text = subjects.machine_texts(1)[0]
    job, machine = mm.parse_ad(subjects.JOB), mm.parse_ad(machine_text)
    their_job = classad2 and classad2.ClassAd(subjects.JOB)
    their_machine = classad2 and classad2.ClassAd(machine_text)
    times = [None] * 1000

    def evaluation(attribute: str) -> tuple[Work, Work | None]:
        expression = job[attribute]
        ours: Work = lambda _: expression.eval(job, machine)  # noqa: E731
        if not classad2:
            return ours, None
        their_expression = classad2.ExprTree(str(expression))
        theirs: Work = lambda _: their_expression.eval(their_job, their_machine)  # noqa: E731
        assert ours(None) == theirs(None)
        return ours, theirs

    assert mm.match(job, machine).matched
    assert not classad2 or their_job.symmetricMatch(their_machine)
    return [
        Row("evaluate a requirement", *evaluation("Requirements"), lambda: times),
        Row("evaluate a rank", *evaluation("Rank"), lambda: times, wanted="5, 10"),
        Row(
            "match two ads, both ways",
            lambda _: mm.match(job, machine).matched,
            classad2 and (lambda _: their_job.symmetricMatch(their_machine)),
            lambda: times,
            wanted="4, 8",
        ),
    ]


def brokering() -> list[Row]:
    """What the peer has no counterpart of."""
    dump = subjects.EXAMPLES / "site.ldif"
    job = mm.parse_ad((subjects.EXAMPLES / "job.jdl").read_text(encoding="utf-8"))
    talk = mm.parse_ad((subjects.EXAMPLES / "atlfarm006.ad").read_text(encoding="utf-8"))
    ces = [*mm.glue.read_ldif(dump).computing_elements(), talk]
    hosts = list(mm.read_ads(subjects.EXAMPLES / "nodes.ad"))
    at = datetime(2005, 10, 3, 15, 5, tzinfo=UTC)

    def decide(_: object) -> tuple[str, ...]:
        chosen = mm.broker.choose(job, ces, at=at).chosen
        assert chosen is not None
        reduction = mm.reduce(job, chosen.ad, mm.glue.scope)
        assert mm.nodes.choose(job, hosts, reduction.residual).chosen is not None
        return mm.batch.flags(reduction, "slurm", inventory=hosts).argv

    assert decide(None)
    return [
        Row(
            "read examples/site.ldif into ads of CEs",
            lambda _: mm.glue.read_ldif(dump).computing_elements(),
            None,
            lambda: [None],
        ),
        Row(
            "the broker's decision on it: CE, nodes, flags",
            decide,
            None,
            lambda: [None],
        ),
        Row(
            "a new process: import, grammar, first expression",
            _begin,
            None,
            lambda: [None],
            5,
            clock=time.perf_counter_ns,
        ),
    ]


def _begin(_: object) -> None:
    code = "import matchmaker as mm; mm.parse_expr('1 + 1').eval()"
    subprocess.run([sys.executable, "-c", code], check=True)


def measured(row: Row, rounds: int) -> tuple[Timing, ...]:
    """The timings of a row: ours, and the peer's where it has one."""
    sides = [row.ours] if row.theirs is None else [row.ours, row.theirs]
    timings = interleaved(
        sides, row.batch, min(rounds, row.rounds), row.clock, collecting=row.collecting
    )
    return tuple(timing.divided(row.count) for timing in timings)


def print_row(what: str, ours: str, theirs: str, ratio: str, wanted: str = "") -> None:
    """Prints a line of the table."""
    print(f"{what:<56} | {ours:>26} | {theirs:>26} | {ratio:>6} | {wanted}", flush=True)


def main() -> None:
    """Measures and prints the table."""
    quick = "--quick" in sys.argv[1:]
    classad2 = peer()
    if isinstance(classad2, str):
        print(f"HTCondor's library is not here, ours alone ({classad2})")
        classad2 = None
    else:
        print(f"beside classad2, {classad2.version()}")
    rounds = 2 if quick else ROUNDS
    print(f"Python {platform.python_version()}, {platform.machine()}, {rounds} rounds")
    print("µs for one: median (least-most); ratio classad2/ours: above 1, ours is faster;")
    print("wanted is the ratio to have at least, and the aim\n")
    print_row("what", "ours (µs)", "classad2 (µs)", "ratio", "wanted")
    start = time.monotonic()
    for row in (*evaluating(classad2), *brokering()):
        ours, *rest = measured(row, rounds)
        theirs = str(rest[0]) if rest else "-"
        ratio = figure(rest[0].ratio_to(ours)) if rest else "-"
        print_row(row.what, str(ours), theirs, ratio, row.wanted)
    print(f"\n{time.monotonic() - start:.0f} s in all")


if __name__ == "__main__":
    main()
