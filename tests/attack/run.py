"""Random attacks on promises of the library: ``python -m tests.attack.run --seed 7``.

Each module of this folder that ends in ``sys.exit(main(ATTACK))`` is one attack. This module runs
them all, each in its own process. An attack makes random cases and judges them. A seed and a number
give one case, so ``--only NUMBER`` repeats a finding. Findings are shrunk and printed; the exit
status is then 1.

To add an attack: a module with an ``ATTACK``, and the last two lines of ``verdicts.py``.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import attrs

FOLDER: Final = Path(__file__).resolve().parent
ROOT: Final = FOLDER.parents[1]

MOST_FINDINGS: Final = 5
"""An attack ends after this many findings."""

SHRINKING: Final = 30.0
"""Seconds spent on making one finding smaller."""


@attrs.frozen(slots=True)
class Attack:
    """One attack: how a case is made and judged.

    Attributes:
        name: the module's name.
        make: makes a case from a source of chance.
        judge: says what is wrong with a case, or gives None. What it raises is a finding too.
        smaller: smaller cases like a given one, most promising first.
        show: a case as text from which it can be repeated.
        nightly: the number of cases of a nightly run.
        smoke: the number of cases in a run of all tests.
    """

    name: str
    make: Callable[[random.Random], Any]
    judge: Callable[[Any], str | None]
    smaller: Callable[[Any], Iterable[Any]] = lambda case: ()
    show: Callable[[Any], str] = str
    nightly: int = 20_000
    smoke: int = 300


@attrs.frozen(slots=True)
class Finding:
    """A case that breaks a promise, in its smallest form, and what is wrong with it."""

    number: int
    case: str
    wrong: str


def modules() -> list[str]:
    """The names of the attacks: the modules here that are commands, but for this one."""
    last = "sys.exit(main(ATTACK))\n"
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.read_text().endswith(last))


def judged(attack: Attack, case: Any) -> str | None:
    """What is wrong with a case; an exception is wrong by itself."""
    try:
        return attack.judge(case)
    except Exception:  # noqa: BLE001 - whatever a case raises is what is looked for
        return traceback.format_exc(limit=-6)


def shrunk(attack: Attack, case: Any) -> Any:
    """A case as small as time allows that is still wrong."""
    end = time.monotonic() + SHRINKING
    while True:
        for smaller in attack.smaller(case):
            if time.monotonic() > end:
                return case
            if judged(attack, smaller) is not None:
                case = smaller
                break
        else:
            return case


def search(
    attack: Attack, seed: int, numbers: Iterable[int], seconds: float | None = None
) -> tuple[int, list[Finding]]:
    """Tries cases until time is up or there are enough findings; how many it tried, and those."""
    end = time.monotonic() + seconds if seconds is not None else None
    tried = 0
    found: list[Finding] = []
    for number in numbers:
        if len(found) >= MOST_FINDINGS or (end is not None and time.monotonic() > end):
            break
        tried += 1
        case = attack.make(random.Random(f"{seed}/{number}"))
        if judged(attack, case) is None:
            continue
        case = shrunk(attack, case)
        found.append(Finding(number, attack.show(case), judged(attack, case) or "(not again)"))
    return tried, found


def options(description: str | None) -> argparse.ArgumentParser:
    """The options of this command and of each attack."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--seed", type=int, help="the same seed gives the same cases")
    parser.add_argument("--cases", type=int, help="how many; each attack has its own number")
    parser.add_argument("--seconds", type=float, help="end each attack after this time")
    return parser


def fresh(seed: int | None) -> int:
    """The seed, or a new one."""
    return seed if seed is not None else random.SystemRandom().randrange(2**31)


def main(attack: Attack, arguments: list[str] | None = None) -> int:
    """The command of one attack. Its status is 1 where anything was found."""
    parser = options(f"The attack {attack.name}.")
    parser.add_argument("--only", type=int, help="the number of the one case to try")
    given = parser.parse_args(arguments)
    seed = fresh(given.seed)
    cases = given.cases if given.cases is not None else attack.nightly
    say(f"{attack.name}: seed {seed}")
    start = time.monotonic()
    numbers = [given.only] if given.only is not None else range(cases)
    tried, found = search(attack, seed, numbers, given.seconds)
    for finding in found:
        repeat = f"python -m tests.attack.{attack.name} --seed {seed} --only {finding.number}"
        say(f"\n{finding.case}\n{finding.wrong}\nagain: {repeat}")
    say(
        f"{attack.name}: {tried:,} cases, {len(found)} finding(s), "
        f"{time.monotonic() - start:,.0f} seconds"
    )
    return 1 if found else 0


def main_of_all(arguments: list[str] | None = None) -> int:
    """The command of all attacks, each a process. Its status is 1 where one has a finding."""
    parser = options(__doc__)
    parser.add_argument("names", nargs="*", help="attacks; by default all")
    given = parser.parse_args(arguments)
    unknown = set(given.names) - set(modules())
    if unknown:
        parser.error(f"no such attack: {', '.join(unknown)}; there are {', '.join(modules())}")
    seed = fresh(given.seed)
    failed = []
    for name in given.names or modules():
        command = [sys.executable, "-m", f"tests.attack.{name}", "--seed", str(seed)]
        for option in ("cases", "seconds"):
            value = getattr(given, option)
            command += [f"--{option}", str(value)] if value is not None else []
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            failed.append(name)
    say(f"findings: {', '.join(failed)}" if failed else "no findings")
    return 1 if failed else 0


def say(text: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main_of_all())
