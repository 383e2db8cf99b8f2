"""An application on worker nodes that answers at once: two pilots wait, a client talks to one.

A binder and two pilots run on this machine, as processes of their own; on a site, a batch system
would start the pilots. The pilots know one application, ``volume``: a handler of Python in this
file. The first answers are timed. Where this machine has a Slurm (``sbatch`` is found and works),
the same question goes through it for comparison.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from matchmaker import ClassAd
from matchmaker.pilots.wire import connect
from matchmaker.pilots.wire.connect import BinderAddress
from matchmaker.pilots.wire.connection import PairStream

CLASSAD = (sys.executable, "-c", "from matchmaker.cli import main; main()")
HERE = Path(__file__).resolve()


async def answer(stream: PairStream, _: ClassAd) -> None:
    """The application: the volume of a sphere for each radius, a line each."""
    while line := await stream.read():
        radius = float(line)
        await stream.write(f"{4.18879 * radius**3:.3f}\n".encode())


@contextmanager
def running(*words: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A subcommand of classad as a process, which is ended in order."""
    command = [*CLASSAD, *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "PYTHONPATH": str(HERE.parent), **environment},
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()


async def ask(place: BinderAddress, times: int) -> list[float]:
    """Seconds from each call to its answer; each call has a pilot for itself."""
    took = []
    for radius in range(1, times + 1):
        began = time.perf_counter()
        wanted = ClassAd(Application="volume", Requirements=True)
        async with connect.paired(place, wanted, seconds=30) as stream:
            await stream.write(str(radius).encode())
            said = await stream.read()
        took.append(time.perf_counter() - began)
        assert float(said) > 0
    return took


def through_slurm() -> float | None:
    """Seconds until a job of Slurm has answered; None without one."""
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        return None
    began = time.perf_counter()
    done = subprocess.run([sbatch, "--wait", "--wrap", "true"], check=False, capture_output=True)
    return time.perf_counter() - began if done.returncode == 0 else None


def main() -> None:
    """Runs the example."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for scope, file in (("client", "client"), ("pilot", "pilot1"), ("pilot", "pilot2")):
            # A pilot's token buys one registration.
            words = ("binder", "token", scope, f"a-{scope}", "--folder", name, "--to")
            subprocess.run(
                [*CLASSAD, *words, str(folder / file)], check=True, stderr=subprocess.DEVNULL
            )
        with running("binder", "run", "--folder", name, "--listen", "127.0.0.1:0") as binder:
            assert binder.stdout is not None
            address = binder.stdout.readline().split()[-1]
            pilots = [
                ("pilot", "--binder", address, "--token", str(folder / f"pilot{number}"),
                 "--cpus", "1", "--app", f"volume=handler:{HERE.stem}:answer")
                for number in (1, 2)
            ]  # fmt: skip
            with running(*pilots[0]), running(*pilots[1]):
                place = BinderAddress(
                    address=address, token=(folder / "client").read_text().strip()
                )
                first, *others = asyncio.run(ask(place, 50))
                print(f"the first answer, pilots just started: {first:.2f} s")
                print(f"from pilots that wait: {median(others) * 1000:.1f} ms")
                if (seconds := through_slurm()) is not None:
                    print(f"through sbatch: {seconds:.1f} s")


if __name__ == "__main__":
    main()
