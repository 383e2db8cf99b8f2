"""Pilots that share a directory, without any server: four begin, one is killed, all is done.

The store of ``examples/store`` is copied. Each pilot is a process of its own, as a batch job would
start it; they could as well be on different nodes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

CLASSAD = (sys.executable, "-c", "from matchmaker.cli import main; main()")
EXAMPLE = Path(__file__).parent / "store"


def claimed(store: Path, pid: int) -> bool:
    """Whether a pilot has a claim now: a claim's file names its host and its process."""
    for path in (store / "work").rglob("active*"):
        # It may be gone by now.
        with suppress(FileNotFoundError):
            if path.read_text("utf-8").split()[1] == str(pid):
                return True
    return False


def main() -> None:
    """Runs the example."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        shutil.copytree(EXAMPLE, store)
        plan = store / "plan.toml"
        # A claim of a pilot that is killed may be taken over after so many seconds.
        plan.write_text(plan.read_text("utf-8").replace("ttl = 60", "ttl = 4\nagain = 4"), "utf-8")
        pilots = [subprocess.Popen([*CLASSAD, "pilot", "--store", str(store)]) for _ in range(4)]
        while not claimed(store, pilots[0].pid):
            time.sleep(0.02)
        pilots[0].kill()
        subprocess.run([*CLASSAD, "store", "status", str(store)], check=False)
        for pilot in pilots:
            pilot.wait()
        done = subprocess.run([*CLASSAD, "store", "status", str(store)], check=False)
        assert done.returncode == 0, "results are missing"


if __name__ == "__main__":
    main()
