"""A node with a place for analysis: a long job stands still while a short one runs, and goes on.

A binder and one pilot with one processor run on this machine. A background job counts; a job of
the foreground comes, finds no free processor, and runs at once all the same.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from matchmaker import ClassAd
from matchmaker.pilots.wire import connect
from matchmaker.pilots.wire.connect import BinderAddress

CLASSAD = (sys.executable, "-c", "from matchmaker.cli import main; main()")
COUNT = "import time\nfor n in range(40): print(time.time(), flush=True); time.sleep(0.1)"


async def both(place: BinderAddress) -> tuple[ClassAd, ClassAd]:
    """Runs both jobs; gives their results."""
    slow = ClassAd(Cmd=sys.executable, Arguments=["-c", COUNT], Requirements=True)
    fast = ClassAd(
        Cmd="/bin/sleep", Arguments=["1"], JobClass="foreground", Requirements=True
    )  # fmt: skip
    async with connect.binder(place) as binder:
        first = await binder.submit(slow, "slow")
        # It counts for a while before the other one comes.
        while (await binder.job(first.id, seconds=1.0)).stage != "running":
            pass
        second = await binder.submit(fast, "fast")
        results = [(await binder.job(job.id, seconds=60)).result for job in (second, first)]
    assert results[0] is not None
    assert results[1] is not None
    return results[0], results[1]


def main() -> None:
    """Runs the example."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for scope in ("client", "pilot"):
            words = ("binder", "token", scope, f"a-{scope}", "--folder", name, "--to")
            subprocess.run(
                [*CLASSAD, *words, str(folder / scope)], check=True, stderr=subprocess.DEVNULL
            )
        words = ("binder", "run", "--folder", name, "--listen", "127.0.0.1:0")
        with subprocess.Popen([*CLASSAD, *words], stdout=subprocess.PIPE, text=True) as binder:
            assert binder.stdout is not None
            address = binder.stdout.readline().split()[-1]
            token = (folder / "client").read_text().strip()
            pilot = subprocess.Popen(
                [*CLASSAD, "pilot", "--token", str(folder / "pilot"), "--cpus", "1",
                 "--slots", "1", "--foreground", "1"],
                env={**os.environ, "CLASSAD_BINDER": address}, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            try:
                fast, slow = asyncio.run(both(BinderAddress(address=address, token=token)))
                times = [float(line) for line in str(slow.eval("Out")).split()]
                still = max(after - before for before, after in pairwise(times))
                print(f"the short job ended with status {fast.eval('ExitCode')}")
                print(f"the long job stood still for {still:.1f} s, and counted to {len(times)}")
                assert still > 0.9
                assert len(times) == 40
            finally:
                pilot.terminate()
                pilot.wait()
                binder.terminate()


if __name__ == "__main__":
    main()
