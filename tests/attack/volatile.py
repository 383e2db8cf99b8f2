"""Reduction of requirements that are left to chance: they stay as likely as they were.

Each call of ``random(2)`` is a fair coin. All sequences of coins are tried, so that the probability
that a requirement is true of a host is exact; that of the residual must be the same.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final
from unittest.mock import patch

import attrs

from matchmaker import ClassAd, Expr, ReductionError, Verdict, parse_expr, reduce
from matchmaker.classad import reference
from matchmaker.classad.nodes import Call
from matchmaker.classad.operators import truth
from matchmaker.classad.walks import children, postorder, rebuild
from tests.attack.run import Attack, main

MOST_COINS: Final = 7
ATOMS: Final = (
    *("random(2)", "other.R", "MY.S", "R", "S") * 3, *("other.Ha", "other.Hb", "Ha") * 4,
    "true", "false", "undefined", "error", "other.Q", '"a"',
)  # fmt: skip
SHAPES: Final = (
    *("({0} && {1})", "({0} || {1})", "({0} ? {1} : {2})", "({0} ? {1} : {1})") * 3,
    *("!{0}", "({0} == {1})", "({0} is {1})", "({0} ?: ({1}))", "ifThenElse({0}, {1}, {1})"),
    *("({0} && {0})", "({0} || {0})", "isUndefined({0})", "({0} + {1} > 1)", "debug({0})"),
    *("{{ {0}, {1} }}[{0}]", "member({0}, {{ {1}, {2} }})", "({0} ? true : false)"),
)


class TooManyCoinsError(Exception):
    """An evaluation tosses more coins than can all be tried."""


class Coins:
    """Stands in for chance: gives the coins of a sequence, then heads."""

    def __init__(self, sequence: tuple[int, ...]) -> None:
        self.sequence = sequence
        self.tossed = 0

    def randrange(self, most: int) -> int:
        """The next coin."""
        self.tossed += 1
        if self.tossed > MOST_COINS:
            raise TooManyCoinsError
        return self.sequence[self.tossed - 1] if self.tossed <= len(self.sequence) else 0


def likelihood(expression: Expr, my: ClassAd, target: ClassAd) -> Fraction:
    """The probability that an expression is true of two ads."""
    total = Fraction(0)
    pending: list[tuple[int, ...]] = [()]
    while pending:
        sequence = pending.pop()
        coins = Coins(sequence)
        # The compiled form may toss coins in another order, so it must not come in between.
        with (
            patch("random.randrange", coins.randrange),
            patch.object(reference, "COMPILE_AFTER", 1e9),
        ):
            value = truth(expression.eval(my, target))
        used = (*sequence, *(0,) * (coins.tossed - len(sequence)))
        # The other side of each coin that has not been turned yet.
        pending += [(*used[:place], 1) for place in range(len(sequence), len(used))]
        if value is True:
            total += Fraction(1, 2 ** len(used))
    return total


@attrs.frozen(slots=True, eq=False)
class Case:
    """A requirement, what the job's S and the queue's R stand for, and a host."""

    requirement: Expr
    of_job: Expr
    of_queue: Expr
    host: ClassAd


def make(chance: random.Random) -> Case:
    """A random case."""

    def text(depth: int) -> str:
        if depth == 0 or chance.random() < 0.15:
            return chance.choice(ATOMS)
        return chance.choice(SHAPES).format(*(text(depth - 1) for _ in range(3)))

    values: tuple[Any, ...] = (True, False, 1, 0, "a", None)
    held = {name: chance.choice(values) for name in ("Ha", "Hb")}
    return Case(
        parse_expr(" && ".join(text(chance.randint(1, 3)) for _ in range(chance.randint(1, 2)))),
        parse_expr(chance.choice(("random(2)", "other.Ha && random(2)", "other.R"))),
        parse_expr(chance.choice(("random(2)", "random(2) == 1", "Ha || random(2)", "1"))),
        ClassAd({name: value for name, value in held.items() if value is not None}),
    )


def scope(name: str) -> str:
    """A host's attributes begin with h."""
    return "host" if name[:1] in "hH" else "policy"


def judge(case: Case) -> str | None:
    """What is wrong with the reduction of a case."""
    job = ClassAd(S=case.of_job, Requirements=case.requirement)
    queue = ClassAd(R=case.of_queue, Q=1)
    try:
        made = reduce(job, queue, scope)
    except ReductionError:
        return None
    both = queue.copy()
    both.update(case.host)
    try:
        wanted = likelihood(case.requirement, job, both)
        found = likelihood(made.residual, job, case.host)
    except TooManyCoinsError:
        return None
    if wanted != found:
        return f"{made.residual} is true with probability {found}, not {wanted}"
    if made.verdict is not Verdict.RESIDUAL and wanted != (made.verdict is Verdict.ALWAYS):
        return f"the verdict is {made.verdict}, the probability is {wanted}"
    return None


def smaller(case: Case) -> Iterator[Case]:
    """Cases with shorter expressions."""
    for field in ("requirement", "of_job", "of_queue"):
        for part in _smaller(getattr(case, field)):
            yield Case(
                **{name: getattr(case, name) for name in attrs.fields_dict(Case)} | {field: part}
            )


def _smaller(node: Expr) -> Iterator[Expr]:
    if isinstance(node, Call) and len(list(postorder(node))) <= 2:
        return
    parts = children(node)
    yield from parts
    for place, part in enumerate(parts):
        for simpler in _smaller(part):
            yield rebuild(node, (*parts[:place], simpler, *parts[place + 1 :]))


ATTACK: Final = Attack("volatile", make, judge, smaller, nightly=30_000, smoke=200)

if __name__ == "__main__":
    sys.exit(main(ATTACK))
