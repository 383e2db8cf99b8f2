"""A long run of random cases: ``python -m tests.oracle.nightly --cases 1000000 --seed 7``.

Without a seed each run takes a new one and prints it. The cases are made, sent and compared in
batches and then forgotten. The figures at the end say how many cases agree, what each difference
accounts for, and where HTCondor gave no answer; what nothing accounts for is shown in the smallest
form that still shows it, one example of each class, and makes the run fail.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import attrs

from matchmaker import ParseError, parse_expr
from matchmaker.classad.nodes import Attr, Binary, Call, Unary
from tests.oracle.answers import Compared, agree, compared
from tests.oracle.differences import account
from tests.oracle.generate import Generator
from tests.oracle.oracle import CRASHES, HANGS, Case, Oracle, batches
from tests.oracle.shrink import minimised

KEPT: Final = 5
"""How many examples of each rough class are made small; the rest of them is only counted."""

SHOWN: Final = 3
"""How many cases without an answer are shown."""

PROGRESS: Final = 50_000


@attrs.define(slots=True)
class Figures:
    """What has come of the cases so far. Of the cases themselves only few are kept."""

    cases: int = 0
    agreeing: int = 0
    differences: Counter[str] = attrs.field(factory=Counter)
    unexplained: Counter[str] = attrs.field(factory=Counter)
    examples: dict[str, list[Compared]] = attrs.field(factory=dict)
    unanswered: list[Case] = attrs.field(factory=list)

    def add(self, one: Compared) -> None:
        """Counts one case."""
        self.cases += 1
        if agree(one):
            self.agreeing += 1
            return
        if one.theirs in (CRASHES, HANGS) and len(self.unanswered) < SHOWN:
            self.unanswered.append(one.case)
        names = account(one)
        if names:
            self.differences[" and ".join(names)] += 1
            return
        kind = rough_class(one)
        self.unexplained[kind] += 1
        kept = self.examples.setdefault(kind, [])
        if len(kept) < KEPT:
            kept.append(one)

    def lines(self) -> list[str]:
        """The figures as they are printed."""
        accounted = self.differences.total()
        return [
            f"{self.cases:>12,} cases",
            f"{self.agreeing:>12,} agree",
            f"{accounted:>12,} differ as listed in docs/differences.md",
            *(f"{number:>16,} {name}" for name, number in self.differences.most_common()),
            f"{self.unexplained.total():>12,} unexplained",
        ]


def kinds(one: Compared) -> tuple[str, ...]:
    """The types of the answers, which stay the same while a case is made small."""
    return one.ours[0], one.compiled[0], one.theirs[0]


def rough_class(one: Compared) -> str:
    """What kind of disagreement it is: the types of both answers, and the outermost operation."""
    compiled = "" if one.compiled == one.ours else f" ({one.compiled[0]} compiled)"
    return f"{operation(one.case)}: ours {one.ours[0]}{compiled}, HTCondor's {one.theirs[0]}"


def operation(case: Case) -> str:
    """The name of the outermost operation of an expression.

    >>> operation(Case("size(x) + 1")), operation(Case("size(x)")), operation(Case("1 +"))
    ('+', 'size()', 'unreadable')
    """
    try:
        node = parse_expr(case.text)
    except ParseError:
        return "unreadable"
    if isinstance(node, (Unary, Binary)):
        return node.operator
    if isinstance(node, Call):
        return f"{node.function.lower()}()"
    return "name" if isinstance(node, Attr) else type(node).__name__.lower()


def classes(figures: Figures, oracle: Oracle) -> dict[str, tuple[int, Compared]]:
    """The unexplained in their smallest form: one of each class, and how many there were."""

    def like(example: Compared) -> Callable[[list[Case]], list[bool]]:
        return lambda cases: [
            kinds(one) == kinds(example) and not agree(one) and not account(one)
            for one in compared(oracle, cases)
        ]

    found: dict[str, tuple[int, Compared]] = {}
    for kind, number in figures.unexplained.most_common():
        examples = figures.examples[kind]
        for index, example in enumerate(examples):
            small = minimised(example.case, like(example))
            one = compared(oracle, [small])[0]
            name = rough_class(one)
            # Those that were not kept are counted with the first.
            more = number - len(examples) if index == 0 else 0
            before, shown = found.get(name, (0, one))
            found[name] = (before + 1 + more, min(shown, one, key=lambda each: len(str(each))))
    return found


def run(cases: int, seed: int, oracle: Oracle) -> Figures:
    """Asks a number of cases, and says from time to time how far it is."""
    figures = Figures()
    for batch in batches(itertools.islice(Generator(seed).cases(), cases)):
        before = figures.cases // PROGRESS
        for one in compared(oracle, batch):
            figures.add(one)
        if figures.cases // PROGRESS > before:
            say(f"… {figures.cases:,} cases, {figures.unexplained.total():,} unexplained")
    return figures


def report(figures: Figures, oracle: Oracle) -> None:
    """Prints the figures, and an example of each class of what is unexplained."""
    for line in figures.lines():
        say(line)
    if figures.unanswered:
        say("\nHTCondor crashed or hung over, among others:")
        for case in figures.unanswered:
            say(f"  {case}")
    if figures.unexplained:
        say("\nUnexplained, one of each class:")
        for number, one in sorted(classes(figures, oracle).values(), key=lambda each: -each[0]):
            say(f"  {number:>6,} x {one}")


def say(text: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """The command. Its status is 1 where anything is unexplained."""
    parser = argparse.ArgumentParser(prog="nightly", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cases", type=int, default=1_000_000, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, help="the same seed gives the same cases")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**31)
    # Local time is UTC, as it is for the reference implementation.
    os.environ["TZ"] = "UTC"
    time.tzset()
    say(f"seed {seed}: make nightly CASES={options.cases} SEED={seed} gives these cases again")
    start = time.monotonic()
    oracle = Oracle()
    try:
        figures = run(options.cases, seed, oracle)
        report(figures, oracle)
    finally:
        oracle.close()
    seconds, starts = time.monotonic() - start, oracle.starts
    say(f"\n{seconds:,.0f} seconds, {starts} process(es) of HTCondor's library")
    return 1 if figures.unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
