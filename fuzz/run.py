"""Drives the targets with a coverage-guided fuzzer: ``python -m fuzz.run [TARGET …]``.

Each target runs in a process of its own, for its share of the time, from the committed corpus and
from what earlier runs found (``build/fuzz/TARGET``). A crash, a hang or too much memory ends the
run, with the input in ``build/fuzz``; put it into the corpus with the mending. ``--merge`` adds to
the committed corpus the inputs that reach something new, smallest first.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
CORPUS: Final = ROOT / "fuzz" / "corpus"
FOUND: Final = ROOT / "build" / "fuzz"

# Longest input, seconds of one input before it counts as a hang, and megabytes of memory.
LIMITS: Final = ("-max_len=1024", "-timeout=20", "-rss_limit_mb=1500")


def main() -> int:
    """Runs each target in turn; gives the exit status of the first that fails."""
    options = argparse.ArgumentParser(description="Fuzz the library.")
    options.add_argument("--seconds", type=int, default=600, help="of all targets together")
    options.add_argument("--merge", action="store_true", help="add what was found to the corpus")
    options.add_argument("targets", nargs="*", help="by default all")
    given = options.parse_args()
    from fuzz.targets import TARGETS

    unknown = set(given.targets) - TARGETS.keys()
    if unknown:
        options.error(f"no such target: {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    chosen = given.targets or list(TARGETS)
    for target in chosen:
        print(f"=== {target}", flush=True)
        status = launched(target, max(1, given.seconds // len(chosen)), merge=given.merge)
        if status:
            return status
    return 0


def launched(target: str, seconds: int, *, merge: bool) -> int:
    """Fuzzes a target in another process; gives its exit status."""
    found, corpus = FOUND / target, CORPUS / target
    for folder in (found, corpus):
        folder.mkdir(parents=True, exist_ok=True)
    task = (
        ["-merge=1", str(corpus), str(found)]
        if merge
        else [f"-max_total_time={seconds}", str(found), str(corpus)]
    )
    words = ROOT / "fuzz" / "classad.dict"
    fixed = [*LIMITS, f"-dict={words}", f"-artifact_prefix={FOUND}/{target}-"]
    command = [sys.executable, "-m", "fuzz.run", "--fuzz", target, *fixed, *task]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def fuzz(target: str, arguments: list[str]) -> None:
    """Fuzzes a target in this process, which ends with it."""
    import atheris

    # Our own code is watched for coverage, and Lark's for how far a text is read.
    with atheris.instrument_imports(include=["matchmaker"]):
        from fuzz.mutate import mutated
        from fuzz.targets import TARGETS

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        return bytes(atheris.Mutate(data, most)) if seed % 2 else mutated(data, most, seed)

    atheris.Setup([sys.argv[0], *arguments], TARGETS[target], custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--fuzz"]:
        fuzz(sys.argv[2], sys.argv[3:])
    sys.exit(main())
