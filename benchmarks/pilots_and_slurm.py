"""Prints what pilots give beside the batch system that they run on, here a real Slurm.

``PYTHONPATH=. python benchmarks/pilots_and_slurm.py [--quick]``. Throughput: jobs of one second on
two nodes, one at a time on each, by ``sbatch`` one after the other, and through two pilots that the
same Slurm started; the time to submit the pilots and to wait for them counts. Beside it stands what
the model of the pilot factory's plan predicts from the measured wait of one job. First answer:
``srun`` of a program that prints one byte, and a client whose handler answers from a pilot that
waits.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from matchmaker.classad import ClassAd
from matchmaker.pilots.wire import connect
from tests.pilots.real import COMMAND, Grid, grid
from tests.services.breakable import BreakableSlurm, breakable

SECONDS = 1.0
WORDS = ("--output=/dev/null", "--exclusive")
HANDLER = """
async def answer(stream, ad):
    while data := await stream.read():
        await stream.write(data)
"""


def by_sbatch(slurm: BreakableSlurm, number: int, folder: Path) -> float:
    """Seconds until jobs of Slurm have all ended."""
    script = folder / "job.sh"
    script.write_text(f"#!/bin/sh\nsleep {SECONDS}\necho x >> {folder}/ended\n")
    began = time.perf_counter()
    for _ in range(number):
        slurm.command("sbatch", "--parsable", *WORDS, str(script))
    ended = folder / "ended"
    while not ended.exists() or len(ended.read_text().split()) < number:
        time.sleep(0.02)
    return time.perf_counter() - began


def pilots(slurm: BreakableSlurm, made: Grid, number: int, *words: str) -> None:
    """Submits pilots, which find modules in the folder."""
    script = made.folder / "pilot.sh"
    for _ in range(number):
        token = made.pilot_token()
        script.write_text(
            f"#!/bin/sh\nexec env PYTHONPATH={made.folder} {sys.executable} -c '{COMMAND[2]}'"
            f" pilot --binder {made.address} --token {token} --cpus 1 --idle 8"
            f" --dir {made.folder}/work.$SLURM_JOB_ID"
            f" {' '.join(words)} >> {made.folder}/pilots.log 2>&1\n"
        )
        slurm.command("sbatch", "--parsable", *WORDS, str(script))


async def through_pilots(made: Grid, number: int) -> None:
    """Hands jobs in, and waits for their ends."""
    ad = ClassAd(Cmd="/bin/sleep", Arguments=[str(SECONDS)], Requirements=True)
    async with connect.binder(made.place()) as binder:
        ids = [(await binder.submit(ad, f"k{each}")).id for each in range(number)]
        for id_ in ids:
            assert (await binder.job(id_, seconds=600)).stage == "ended"


async def answers(made: Grid, number: int) -> list[float]:
    """Seconds from a client's call to the first byte of a handler."""
    took = []
    for _ in range(number):
        ad = ClassAd(Application="answer", Requirements=True)
        began = time.perf_counter()
        async with connect.paired(made.place(), ad, seconds=60) as stream:
            await stream.write(b"x")
            await stream.read()
            took.append(time.perf_counter() - began)
    return took


def main() -> None:
    """Prints the figures."""
    quick = "--quick" in sys.argv
    number = 8 if quick else 40
    with (
        breakable(("n1", "n2")) as slurm,
        tempfile.TemporaryDirectory() as name,
        grid(Path(name)) as made,
    ):
        made.binder()
        (made.folder / "answering.py").write_text(HANDLER)
        one = by_sbatch(slurm, 1, made.folder)
        (made.folder / "ended").unlink()
        plain = by_sbatch(slurm, number, made.folder)
        began = time.perf_counter()
        pilots(slurm, made, 2)
        asyncio.run(through_pilots(made, number))
        through = time.perf_counter() - began
        wait, rounds = one - SECONDS, number / 2
        model = (rounds * (wait + SECONDS)) / (wait + SECONDS + (rounds - 1) * SECONDS)
        print(
            f"{number} jobs of {SECONDS:g} s on two slots: sbatch {plain:.1f} s, through pilots"
            f" {through:.1f} s: {plain / through:.2f} times as fast; the model says {model:.2f}"
            f" with a wait of {wait:.1f} s for each job"
        )
        time.sleep(10)
        environment = {**os.environ, **slurm.environment}
        took = []
        for _ in range(3 if quick else 10):
            began = time.perf_counter()
            subprocess.run(
                ["srun", "--quiet", "--exclusive", "echo", "x"], env=environment, check=True,
                capture_output=True, cwd=slurm.folder,
            )  # fmt: skip
            took.append(time.perf_counter() - began)
        slurm_answer = median(took)
        pilots(slurm, made, 1, "--app", "answer=handler:answering:answer")
        got = sorted(asyncio.run(answers(made, 20 if quick else 200))[1:])
        print(
            f"first answer: srun {slurm_answer * 1e3:.0f} ms, from a waiting pilot median"
            f" {median(got) * 1e3:.1f} ms: {slurm_answer / median(got):.0f} times as quick"
        )


if __name__ == "__main__":
    main()
