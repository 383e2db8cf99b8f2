"""Jobs and slots that take as much work as they can, in pools with modest ones.

Each operation on a pool must stay within the work that docs/safety.md states, and each slot within
its allowance must match as a pair does, whatever the others take. Bounds are lowered for this, so
that a case takes milliseconds.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest import mock

import attrs

from matchmaker import ClassAd, Pool, match, parse_ad
from matchmaker._limits import PoolLimits
from matchmaker.classad import evaluate as evaluation
from matchmaker.classad import reference
from matchmaker.classad.evaluate import evaluate_counted
from matchmaker.classad.nodes import Expr
from matchmaker.classad.state import Budget
from matchmaker.matching.columns import evaluator
from tests.attack.run import Attack, main

LIMIT, FLAT, EACH = 4_000, 8_000, 100
LOW = PoolLimits(flat=FLAT, each=EACH)

AMPLE: Final = 1_000_000
"""With fewer steps a pair may give up what a pool, by columns, finds."""

MARGIN: Final = 32
"""What an expression takes may differ so much when a function is made of it."""

TIMES: Final = {"match": 5, "top": 5, "explain": 12, "assign": 14, "values": 3}
"""How often an operation may take the steps that are allowed by columns."""


@attrs.frozen(slots=True)
class Case:
    """A job, the ads of a pool, and whether even few slots are evaluated by columns."""

    job: ClassAd
    slots: tuple[ClassAd, ...]
    by_columns: bool


# --- making cases ---------------------------------------------------------------------------------

NAMES: Final = ("TARGET.Cpus", "TARGET.Memory", "MY.Want", "TARGET.Name", "TARGET.Load", "Owner")


def leaf(chance: random.Random) -> str:
    return chance.choice([*NAMES, "i", "1", "7", '"x"', "undefined"])


def greedy(chance: random.Random, deep: int = 2) -> str:
    """A number that takes some work, or a great deal."""
    inner = greedy(chance, deep - 1) if deep and chance.random() < 0.6 else leaf(chance)
    count = chance.choice([3, 20, 200])
    return chance.choice([
        f"size(evalInEachContext({inner}, MY.L))",
        f"countMatches({inner} > {chance.randrange(9)}, MY.L)",
        "size(MY.z0)",
        "MY.y0",
        f'size(split(strcat(MY.z{chance.randrange(9)}, ",", {inner})))',
        f'ifThenElse(stringListMember("q", "{"a," * count}"), 1, {inner})',
        f'ifThenElse(regexp("(x+x+)+y", "{"x" * chance.choice([3, 12])}"), 1, {inner})',
        f"size({{{', '.join([inner] * 4)}}})",
        f"({' + '.join([inner] * chance.choice([2, 9]))})",
        f"({' < '.join([leaf(chance)] * count)})",
        f'eval("{count} + 1")',
        inner,
    ])  # fmt: skip


def modest(chance: random.Random) -> str:
    """A clause as people write them."""
    return chance.choice([
        "TARGET.Cpus > 1", "TARGET.Memory >= 1000", 'TARGET.Name != "s3"', "TARGET.Owner != 3",
        "MY.Cpus >= TARGET.Want", "isUndefined(TARGET.GPUs)", "TARGET.Load < 0.5", "true",
    ])  # fmt: skip


def clause(chance: random.Random, greed: float) -> str:
    if chance.random() >= greed:
        return modest(chance)
    relation = chance.choice(["> 0", "< 3", "=!= 1", "> TARGET.Cpus", "< MY.Want"])
    made = f"{greedy(chance)} {relation}"
    return f"({modest(chance)} || {made})" if chance.random() < 0.2 else made


def means(chance: random.Random) -> str:
    """Attributes that greedy expressions use."""
    count = chance.randint(1, 14)
    elements = ", ".join(f"[i = {n}]" for n in range(chance.choice([2, 8, 30])))
    texts = "; ".join(f"z{n} = strcat(z{n + 1}, z{n + 1})" for n in range(count))
    sums = "; ".join(f"y{n} = y{n + 1} + y{n + 1}" for n in range(count))
    return f'L = {{{elements}}}; {texts}; z{count} = "ab"; {sums}; y{count} = 1'


def ad(chance: random.Random, name: str, greed: float, *, job: bool) -> ClassAd:
    clauses = [clause(chance, greed) for _ in range(chance.randint(1, 4))]
    parts = [f'Name = "{name}"', f"Requirements = {' && '.join(clauses)}"]
    if greed:
        parts.append(means(chance))
    if job:
        rank = greedy(chance) if chance.random() < greed else "TARGET.Memory"
        parts += [f"Want = {chance.randint(0, 4)}", f"Rank = {rank}", 'Owner = "ana"']
        if chance.random() < greed:
            parts.append(f"{chance.choice(['RequestCpus', 'JobPrio'])} = {greedy(chance)}")
    else:
        memory = greedy(chance) if chance.random() < greed / 2 else str(chance.randrange(4000))
        parts += [
            f"Cpus = {chance.randrange(9)}",
            f"Memory = {memory}",
            f"Load = {chance.random()}",
        ]
        parts.append(f"PartitionableSlot = {chance.choice(['true', 'false'])}")
    return parse_ad(f"[ {'; '.join(parts)} ]")


def make(chance: random.Random) -> Case:
    count, hostile = chance.choice([3, 12, 40]), chance.choice([0, 2, 10])
    slots = [ad(chance, f"s{n}", 0.0, job=False) for n in range(count)]
    slots += [ad(chance, f"h{n}", 0.8, job=False) for n in range(hostile)]
    if chance.random() < 0.3:
        # Slots of one site require the same.
        for slot in slots[count:]:
            slot["Requirements"] = slots[-1]["Requirements"]
    chance.shuffle(slots)
    job = ad(chance, "job", chance.choice([0.0, 0.7]), job=True)
    return Case(job, tuple(slots), chance.random() < 0.5)


# --- judging them ---------------------------------------------------------------------------------


@contextmanager
def lowered(made: list[int], *, by_columns: bool) -> Iterator[None]:
    """With low bounds; notes the steps of each evaluation that a pool makes."""

    def watched(*given: Any) -> tuple[Any, Budget]:
        value, used = evaluate_counted(*given)
        # What goes past the limit is counted before it is done.
        made.append(min(used.steps, used.limit))
        return value, used

    with (
        mock.patch.object(Budget, "limit", LIMIT),
        mock.patch.object(evaluator, "evaluate_counted", watched),
        mock.patch.object(evaluation, "evaluate_counted", watched),
        mock.patch.object(reference, "COMPILE_AFTER", 1 << 60),
        mock.patch.object(evaluator, "FEW_ROWS", 0 if by_columns else evaluator.FEW_ROWS),
    ):
        yield


def judge(case: Case) -> str | None:
    made: list[int] = []
    with lowered(made, by_columns=case.by_columns):
        pool = Pool(case.slots, limits=LOW)
        found = pool.match(case.job)
        return (
            unlike_pairs(case, set(found.keys))
            or too_much(case, pool, made)
            or (None if pool.match(case.job) == found else "another answer the second time")
        )


def unlike_pairs(case: Case, keys: set[str]) -> str | None:
    most = evaluator.allowance(len(case.slots), LOW) - MARGIN
    for slot in case.slots:
        name = str(slot.eval("Name"))
        outcome = match(case.job, slot)
        with mock.patch.object(Budget, "limit", AMPLE):
            ample = match(case.job, slot)
        if name in keys and not ample.matched:
            return f"the pool matches {name}, a pair does not: {ample}"
        taken = max(steps(case.job, slot), steps(slot, case.job))
        if taken <= most and outcome.matched and name not in keys:
            return f"a pair matches {name} in {taken} of {most} steps, the pool does not"
    return None


def steps(one: ClassAd, other: ClassAd) -> int:
    held = one._held.get("requirements")
    if not isinstance(held, Expr):
        return 0
    return evaluate_counted(held, one, other, "requirements")[1].steps


def too_much(case: Case, pool: Pool, made: list[int]) -> str | None:
    most = FLAT + EACH * len(case.slots)
    operations: dict[str, Callable[[], object]] = {
        "match": lambda: pool.match(case.job),
        "top": lambda: pool.top(case.job, 3),
        "explain": lambda: str(pool.explain(case.job)),
        "assign": lambda: str(pool.assign([case.job, case.job])),
        "values": lambda: pool.snapshot().values(case.job.expr("Requirements"), case.job),
    }
    for name, operation in operations.items():
        pool.forget()
        made.clear()
        operation()
        allowed = TIMES[name] * most + 8 * LIMIT
        if sum(made) > allowed:
            return f"{name} took {sum(made):,} steps, at most {allowed:,} are stated"
    return None


def smaller(case: Case) -> Iterable[Case]:
    for place in range(len(case.slots)):
        yield attrs.evolve(case, slots=case.slots[:place] + case.slots[place + 1 :])
    for name in list(case.job):
        less = case.job.copy()
        del less[name]
        if "Requirements" in less:
            yield attrs.evolve(case, job=less)


def show(case: Case) -> str:
    slots = "\n".join(f"slot: {slot}" for slot in case.slots)
    return f"job: {case.job}\n{slots}\nby columns: {case.by_columns}"


ATTACK: Final = Attack("work", make, judge, smaller, show, nightly=10_000, smoke=8)

if __name__ == "__main__":
    sys.exit(main(ATTACK))
