"""Pools that are asked, changed and asked again, beside new pools of the ads that they hold then.

What a pool keeps between questions, masks, ranks, clusters and indexes, must never be seen: every
answer is that of a pool made at that moment, and a snapshot answers as it did when it was taken.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any, Final

import attrs

from matchmaker import ClassAd, Pool, parse_ad, parse_expr
from matchmaker.matching.snapshot import Snapshot
from tests.attack.run import Attack, main

Step = tuple[str, str, str]
"""What is done, to which slot (or how), and with what text."""


@attrs.frozen(slots=True)
class Case:
    """The ads of a pool, and what is done to it, one after another."""

    slots: tuple[str, ...]
    steps: tuple[Step, ...]


NAMES: Final = ("Cpus", "cpus", "Load", "Os", "Tags", "START", "Owner", "x", "My", "target")
VALUES: Final = (
    "0", "1", "2", "2.0", "-0.0", "0.0", "1e308 * 10", "9223372036854775807", "true", "false",
    '"LINUX"', '"linux"', '"\u0130"', '""', "undefined", "error", '{1, "a"}', "{}", "[a = 1]",
    'absTime("2024-01-01T00:00:00Z")', 'absTime("2024-01-01T01:00:00+01:00")', "relTime(60)",
    'real("NaN")', "TARGET.Want > 1", "Load + 1", "MY.Cpus * 2", "START", "x", "other.x",
    "TARGET.Cpus < MY.Cpus", "isUndefined(TARGET.Owner)", "size(Tags) > 1", "my.My", "parent.x",
)  # fmt: skip
CLAUSES: Final = (
    "TARGET.Cpus > 0", "TARGET.cpus == 2", "TARGET.Cpus =?= 2", 'TARGET.Os == "linux"',
    'TARGET.Os =?= "LINUX"', 'member("a", TARGET.Tags)', "TARGET.START", "TARGET.Load < 1",
    "TARGET.x =!= undefined", "TARGET.Cpus >= MY.Want", "isError(TARGET.Load)", "TARGET.My > 0",
    "!TARGET.target", "TARGET.Owner == Owner", 'Name != "s1"', 'TARGET.Name >= "s2"',
    "TARGET.Tags[0] == 1", "TARGET.x is TARGET.Cpus", 'regexp("^l", TARGET.Os, "i")',
    "(TARGET.Cpus ?: 0) < 2", 'anyCompare(">", {1, 2}, TARGET.Cpus)',
)  # fmt: skip
RANKS: Final = ("TARGET.Cpus", "-TARGET.Load", "TARGET.x", "size(TARGET.Tags)", "TARGET.Os", "1")


def slot(chance: random.Random, name: str) -> str:
    held = {chance.choice(NAMES): chance.choice(VALUES) for _ in range(chance.randint(0, 5))}
    if chance.random() < 0.6:
        held["Requirements"] = chance.choice((*CLAUSES, "START", "true", "TARGET.Want < 3", "x"))
    said = "".join(f"; {each} = {value}" for each, value in held.items())
    return f'[ Name = "{name}"{said} ]'


def job(chance: random.Random) -> str:
    sign = chance.choice((" && ", " && ", " || "))
    clauses = sign.join(chance.choice(CLAUSES) for _ in range(chance.randint(1, 3)))
    rank = f"; Rank = {chance.choice(RANKS)}" if chance.random() < 0.6 else ""
    more = f"; {chance.choice(NAMES)} = {chance.choice(VALUES)}" if chance.random() < 0.5 else ""
    return f"[ Want = {chance.randrange(4)}; Requirements = {clauses}{rank}{more} ]"


def make(chance: random.Random) -> Case:
    size = chance.choice((0, 1, 5, 20, 60))
    names = [f"s{number}" for number in range(size + 3)]
    jobs = [job(chance) for _ in range(chance.randint(1, 4))]
    steps: list[Step] = []
    for _ in range(chance.randint(3, 25)):
        name = chance.choice(names)
        what = chance.choice(
            ("ask", "ask", "ask", "update", "set", "set", "remove", "hold", "look")
        )
        match what:
            case "ask":
                steps.append((what, chance.choice(("match", "top", "explain", "assign")),
                              chance.choice(jobs)))  # fmt: skip
            case "update":
                steps.append((what, name, slot(chance, name)))
            case "set":
                steps.append((what, name, f"{chance.choice(NAMES)} = {chance.choice(VALUES)}"))
            case _:
                steps.append((what, name, chance.choice(jobs)))
    return Case(tuple(slot(chance, name) for name in names[:size]), tuple(steps))


def answer(pool: Pool | Snapshot, how: str, text: str) -> Any:
    """What a pool says to a job, in a form that compares."""
    asked = parse_ad(text)
    match how:
        case "match":
            found = pool.match(asked)
            return found.keys, repr(found.ranks), found.unranked
        case "top":
            best = pool.top(asked, 3)
            return best.keys, repr(best.ranks)
        case "explain" if isinstance(pool, Pool):
            return str(pool.explain(asked))
        case _:
            return str(pool.assign([asked, parse_ad(text), ClassAd(Want=1)]))


def judge(case: Case) -> str | None:
    """Where a pool answers otherwise than a new one, or a snapshot than before."""
    held = {str(ad.eval("Name")): ad for ad in map(parse_ad, case.slots)}
    pool = Pool(parse_ad(text) for text in case.slots)
    shown: list[tuple[Snapshot, str, Any]] = []
    for number, (what, how, text) in enumerate(case.steps):
        match what:
            case "ask":
                found = answer(pool, how, text)
                wanted = answer(Pool(ad.copy() for ad in held.values()), how, text)
                if found != wanted:
                    return f"step {number}, {how}: {found}, and a new pool says {wanted}"
            case "update":
                pool.update(parse_ad(text))
                held[how] = parse_ad(text)
            case "set" if how in held:
                name, _, value = text.partition(" = ")
                pool.set(how, **{name: parse_expr(value)})
                held[how] = held[how].copy()
                held[how][name] = parse_expr(value)
            case "remove" if how in held:
                pool.remove(how)
                del held[how]
            case "hold":
                taken = pool.snapshot()
                shown.append((taken, text, answer(taken, "match", text)))
            case "look":
                for taken, asked, before in shown:
                    if (now := answer(taken, "match", asked)) != before:
                        return f"step {number}: a snapshot said {before}, and says {now}"
    if [str(ad) for ad in pool] != [str(ad) for ad in held.values()]:
        return "the pool does not hold the ads that were entered"
    return None


def smaller(case: Case) -> Iterator[Case]:
    """Cases with fewer steps or slots."""
    for field in ("steps", "slots"):
        held = getattr(case, field)
        for place in range(len(held)):
            yield attrs.evolve(case, **{field: held[:place] + held[place + 1 :]})


ATTACK: Final = Attack("kept_pools", make, judge, smaller, nightly=20_000, smoke=100)

if __name__ == "__main__":
    sys.exit(main(ATTACK))
