"""Prints how long reductions and submit flags take, beside what HTCondor's flatten takes.

``make bench-all``, or ``python benchmarks/flags.py [--quick]``. Flatten does less: it folds
constants and knows no verdicts; where a host's attribute stands under ``TARGET`` it folds nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from timing import Work, figure, interleaved

import matchmaker as mm
from matchmaker.reduction import reduce_many

REQUIREMENT = """(other.GlueHostBenchmarkSI00 > 500 ? other.GlueCEPolicyMaxCPUTime > 1000
    : other.GlueCEPolicyMaxCPUTime > 2000) && other.GlueCEStateStatus == "Production"
    && other.GlueHostMainMemoryRAMSize >= 1000
    && Member("GLITE_1_2", other.GlueHostApplicationSoftwareRunTimeEnvironment)"""

# As flatten wants it: the queue's own names without a scope, and undefined ones left open.
FLAT = """(GlueHostBenchmarkSI00 > 500 ? GlueCEPolicyMaxCPUTime > 1000
    : GlueCEPolicyMaxCPUTime > 2000) && GlueCEStateStatus == "Production"
    && GlueHostMainMemoryRAMSize >= 1000"""
QUEUE = '[ GlueCEPolicyMaxCPUTime = 1500; GlueCEStateStatus = "Production" ]'

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

QUEUES = 5000
VARIED = 200
NODES = 10_000
CLASSES = 50


def job() -> mm.ClassAd:
    """The job of the examples."""
    return mm.parse_ad(f"[ Requirements = {REQUIREMENT} ]")


def queues(distinct: int) -> list[mm.ClassAd]:
    """Queues of so many policies."""
    return [
        mm.ClassAd(
            {
                "GlueCEUniqueID": f"ce{number}",
                "GlueCEPolicyMaxCPUTime": 60 * (number % distinct),
                "GlueCEStateStatus": "Production",
            }
        )
        for number in range(QUEUES)
    ]


def varied() -> list[tuple[mm.ClassAd, mm.ClassAd]]:
    """Jobs that each want something else, and a queue of the example's 59 attributes for each."""
    ad = mm.glue.unwrap(mm.parse_ad((EXAMPLES / "atlfarm006.ad").read_text()))
    pairs = []
    for number in range(VARIED):
        queue = ad.copy()
        queue["GlueCEPolicyMaxCPUTime"] = 900 + number
        wanted = mm.parse_ad(
            f"""[ Want = {1000 + number}; Requirements = other.GlueHostMainMemoryRAMSize >= MY.Want
            && other.GlueCEPolicyMaxCPUTime > {number} && other.GlueCEStateStatus == "Production"
            && Member("T{number}", other.GlueHostApplicationSoftwareRunTimeEnvironment)
            && (other.GlueHostOperatingSystemName == "SL"
            || RegExp("^Cent", other.GlueHostOperatingSystemName)) ]"""
        )
        pairs.append((wanted, queue))
    return pairs


def nodes() -> list[mm.ClassAd]:
    """Ten thousand nodes in fifty classes; an attribute of their own tells nothing apart."""
    return [
        mm.parse_ad(
            f"""[ Name = "wn{number:05}"; GlueHostMainMemoryRAMSize = {500 * (number % 10)};
            GlueHostBenchmarkSI00 = {300 + 100 * (number % CLASSES // 10)}; Disk = {number};
            GlueHostApplicationSoftwareRunTimeEnvironment = {{ "GLITE_1_2" }} ]"""
        )
        for number in range(NODES)
    ]


def flatten() -> Work | None:
    """HTCondor's flatten, where its library is here."""
    try:
        import htcondor2  # noqa: F401 - it gives the process the semantics that its users see
        import classad2  # isort: skip
    except ImportError:
        return None
    ad, expression = classad2.ClassAd(QUEUE), classad2.ExprTree(FLAT)
    if not hasattr(ad, "flatten"):
        return None
    return lambda _: ad.flatten(expression)


def main() -> None:
    """Measures and prints the table."""
    rounds = 2 if "--quick" in sys.argv[1:] else 9
    wanted, queue = job(), mm.parse_ad(QUEUE)
    made = mm.reduce(wanted, queue, mm.glue.scope)
    inventory = nodes()
    assert mm.batch.flags(made, "slurm", None, inventory).verdict is mm.batch.Fit.EXACT
    peer = flatten()

    def reduce_one(_: Any) -> object:
        return mm.reduce(wanted, queue, mm.glue.scope)

    # What is measured, by us and where it can by the peer, and the pieces of a round.
    rows: list[tuple[str, tuple[Work, ...], Sequence[Any]]] = [
        (
            "reduce one requirement for one queue",
            (reduce_one, *([peer] if peer else [])),
            [None] * 200,
        ),
        (
            "reduce another one for another queue of 59 attributes",
            (lambda pair: mm.reduce(*pair, mm.glue.scope),),
            varied(),
        ),
        (
            f"reduce for {QUEUES:,} queues of 20 policies",
            (lambda each: reduce_many(wanted, each, mm.glue.scope),),
            [queues(20)],
        ),
        (
            f"reduce for {QUEUES:,} queues, each of its own policy",
            (lambda each: reduce_many(wanted, each, mm.glue.scope),),
            [queues(QUEUES)],
        ),
        ("bounds of the residual", (lambda _: mm.reduction.bounds(made.residual),), [None] * 100),
        ("flags of the residual", (lambda _: mm.batch.flags(made, "slurm"),), [None] * 50),
        (
            f"flags with an inventory of {NODES:,} nodes in {CLASSES} classes",
            (lambda _: mm.batch.flags(made, "slurm", None, inventory),),
            [None],
        ),
    ]
    print("µs for one: median (least-most)\n")
    for what, sides, pieces in rows:
        batch: Callable[[], Sequence[Any]] = lambda pieces=pieces: pieces  # noqa: E731
        ours, *theirs = interleaved(sides, batch, rounds)
        beside = f"flatten {theirs[0]}, {figure(theirs[0].ratio_to(ours))}" if theirs else ""
        print(f"{what:<60} | {ours!s:>26} | {beside}")


if __name__ == "__main__":
    main()
