"""Pilots that share a directory: results and second runs when pilots are killed; listings of many.

``python benchmarks/stores.py [--quick]``. First 16 processes of ``classad pilot --store`` on 1,000
parameters, of which 4 get SIGKILL while they run something. Then 100,000 parameters in one folder,
of which all but 2,000 are done: how long a listing takes, and how many two pilots need for these.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from matchmaker.pilots.store import protocol
from matchmaker.pilots.store.backends import Directory
from matchmaker.pilots.store.plan import StorePlan, input_state
from matchmaker.pilots.store.protocol import OwnTime, Pause, RunCommand, RunOutcome, WorkerTally
from matchmaker.pilots.store.status import status

CLASSAD = [sys.executable, "-c", "from matchmaker.cli import main; main()"]
KILLED = 4
DONE = 2000


def main() -> None:
    """Prints the figures."""
    quick = "--quick" in sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        killed(Path(folder), processes=6 if quick else 16, parameters=100 if quick else 1000)
    with tempfile.TemporaryDirectory() as folder:
        many(Path(folder), 20_000 if quick else 100_000)


def killed(folder: Path, *, processes: int, parameters: int) -> None:
    """Pilots that are killed while they run something."""
    store, log = folder / "store", folder / "runs"
    (store / "work" / "input").mkdir(parents=True)
    command = f"echo $0 >>{log}; sleep 0.2; echo $0 >votes$0.txt"
    (store / "plan.toml").write_text(
        f'command = ["sh", "-c", {json.dumps(command)}, "{{parameter}}"]\n'
        f'parameters = "1-{parameters}"\nttl = 10\nagain = 20\n'
    )
    began = time.monotonic()
    pilots = [
        subprocess.Popen(
            [*CLASSAD, "pilot", "--store", str(store), "--json", "--dir", str(folder / str(n))],
            stdout=subprocess.PIPE, text=True,
        )
        for n in range(processes)
    ]  # fmt: skip
    random = Random(7)
    for number, victim in enumerate(random.sample(pilots, KILLED), 1):
        while len(list((store / "work").rglob("votes*"))) < number * parameters // (KILLED + 2):
            time.sleep(0.05)
        mine = f" {victim.pid} "
        while not any(mine in text for text in claims(store)):
            time.sleep(0.01)
        victim.kill()
    told = [json.loads(out) for out in (pilot.communicate()[0] for pilot in pilots) if out]
    took = time.monotonic() - began
    runs = len(log.read_text().splitlines())
    results = len(list((store / "finished").rglob("votes*")))
    assert results == parameters, "results are missing"
    assert len(told) == processes - KILLED, "a pilot has ended early"
    again = {name: sum(each[name] for each in told) for name in ("taken_over", "repeated", "lost")}
    print(f"{processes} pilots, {KILLED} killed: {results} results in {took:.1f} s, {runs} runs;"
          f" {runs - results} second runs ({again['taken_over']} taken over, {again['repeated']}"
          f" repeated at the end); {sum(each['listings'] for each in told)} listings,"
          f" {again['lost']} claims lost to others")  # fmt: skip


def claims(store: Path) -> list[str]:
    """What stands in the claims now."""
    found = []
    for path in (store / "work").rglob("active*"):
        try:
            found.append(path.read_text())
        except FileNotFoundError:
            continue
    return found


def many(folder: Path, parameters: int) -> None:
    """A folder with very many results."""
    plan = StorePlan(command=("f",), parameters=tuple(map(str, range(parameters))))
    (folder / "work" / "input").mkdir(parents=True)
    for number in range(parameters - DONE):
        (folder / "work" / "input" / plan.result_of(str(number))).touch()
    store = Directory(str(folder), folder)
    began = time.perf_counter()
    entries = store.listing("input") or []
    listed = time.perf_counter()
    assert len(input_state(plan, entries).done) == parameters - DONE
    read = time.perf_counter()
    status(store, plan)
    shown = time.perf_counter()
    print(f"{parameters} parameters: listing {listed - began:.2f} s, reading it"
          f" {read - listed:.2f} s, the whole status {shown - read:.2f} s")  # fmt: skip
    tallies = together(store, plan, folder, 2)
    done, listings = sum(t.stored for t in tallies), sum(t.listings for t in tallies)
    took = time.perf_counter() - shown
    assert done == DONE, "results are missing"
    print(f"2 pilots, {done} of {parameters} left: {listings} listings,"
          f" {done / listings:.0f} results a listing; {done / took:.0f} results a second,"
          " without the time of the programs")  # fmt: skip


def together(store: Directory, plan: StorePlan, folder: Path, pilots: int) -> list[WorkerTally]:
    """Pilots whose programs take no time, one step of each after the other."""
    result = folder / "result"
    result.write_text("votes")
    tallies = [WorkerTally() for _ in range(pilots)]
    steps: dict[str, Any] = {}
    waits: dict[str, Any] = {}
    for number, tally in enumerate(tallies):
        me = protocol.StorePilot(nonce=str(number), label=f"pilot {number}", pause=0.0)
        steps[me.nonce] = protocol.pilot(plan, me, Random(number), tally)
        waits[me.nonce] = next(steps[me.nonce])
    while steps:
        for nonce, pilot in list(steps.items()):
            match waits[nonce]:
                case OwnTime():
                    answer: Any = time.monotonic()
                case Pause():
                    answer = True
                case RunCommand():
                    answer = RunOutcome(result=result)
                case operation:
                    answer = operation(store)
            try:
                waits[nonce] = pilot.send(answer)
            except StopIteration:
                del steps[nonce]
    return tallies


if __name__ == "__main__":
    main()
