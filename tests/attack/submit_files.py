"""Lines of HTCondor's submit files for random expressions, read by HTCondor's own library.

What ``htcondor2.Submit`` makes of the lines for a requirement must be, parsed, the expression that
is meant, and each other entry the value that is meant. Texts are made of the syntax of submit
files. Without the library there is nothing to judge.
"""

from __future__ import annotations

import importlib.util
import os
import random
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import attrs

from matchmaker import ClassAd, batch, parse_ads, reduce
from matchmaker.batch import NoFlagsError, NoHostError, Resources
from matchmaker.batch.policy import carry, decoded
from matchmaker.classad import nodes
from matchmaker.classad.errors import printable
from matchmaker.classad.nodes import TRUE, Expr
from matchmaker.classad.walks import children, conjunction, conjuncts, postorder, rebuild
from tests.attack.flags import mapping
from tests.attack.run import Attack, main

# What a submit file, its macros and its functions are made of.
PIECES: Final = (
    "$", "$(", "$$(", "$$([", ")", "(", "$(DOLLAR)", "$(dollar:x)", "DOLLAR", "$ENV(", "$F(",
    "$Fqpd(", "$INT(", "$REAL(", "$EVAL(", "$STRING(", "$CHOICE(", "$RANDOM_CHOICE(",
    "$RANDOM_INTEGER(",
    "$SUBSTR(", "$BASENAME(", "$DIRNAME(", "$LITERAL(", "$x", "x", "HOME", "a.b", ":", ",",
    "0", " ", '"', "'", "\\", "\\\\", '\\"', "#", "# x", "=", " = ", "==", "@=end", "queue",
    "queue 5", "requirements", "if true", "endif", "include : x", "\n", "\r", "\t", "\0", "\x7f",
    "é", "&&", "||", "]", "[", "{", "}", ";", "%", "`id`", "+X",
)  # fmt: skip
PLAIN: Final = ("Os", "Tag", "GlueHostMainMemoryRAMSize", "X1")
NAMES: Final = (*PLAIN, *PLAIN, *PLAIN, "a$b", "a b", "$(x)", "true", "é", "a(")


@attrs.frozen(slots=True)
class Case:
    """Clauses of a requirement, and what else a submit file is given."""

    clauses: tuple[Expr, ...]
    policy: Expr
    memory: int


def text(chance: random.Random) -> nodes.Literal:
    return nodes.Literal("".join(chance.choices(PIECES, k=chance.randrange(5))))


def clause(chance: random.Random, depth: int = 1) -> Expr:
    name = chance.choice(NAMES)
    subject = nodes.Attr(nodes.Attr(None, chance.choice(("other", "TARGET")), False), name, False)
    match chance.randrange(7 if depth else 5):
        case 0 | 1:
            return nodes.Binary(chance.choice(("==", "!=", "is", "isnt")), subject, text(chance))
        case 2:
            return nodes.Call("member", (text(chance), subject))
        case 3:
            return nodes.Call("regexp", (text(chance), subject))
        case 4:
            return nodes.Call("member", (subject, nodes.ListExpr((text(chance), text(chance)))))
        case _:
            operator = chance.choice(("&&", "||"))
            return nodes.Binary(operator, clause(chance, 0), clause(chance, 0))


def make(chance: random.Random) -> Case:
    return Case(
        tuple(clause(chance) for _ in range(chance.randint(1, 4))),
        clause(chance),
        chance.choice((0, 1, 2000)),
    )


def smaller(case: Case) -> Iterator[Case]:
    for at in range(len(case.clauses)):
        yield attrs.evolve(case, clauses=case.clauses[:at] + case.clauses[at + 1 :])
    for at, each in enumerate(case.clauses):
        for part in children(each) if isinstance(each, nodes.Binary) else ():
            if not isinstance(part, (nodes.Attr, nodes.Literal)):
                clauses = (*case.clauses[:at], part, *case.clauses[at + 1 :])
                yield attrs.evolve(case, clauses=clauses)


@cache
def library() -> Any:
    """HTCondor's own library, or None."""
    if importlib.util.find_spec("htcondor2") is None:
        return None
    os.environ["CONDOR_CONFIG"] = "ONLY_ENV"
    return importlib.import_module("htcondor2")


def judge(case: Case) -> str | None:
    htcondor2 = library()
    if htcondor2 is None:
        return None
    table = mapping("htcondor", 'others = "same"\n')
    job = ClassAd({"Requirements": conjunction(list(case.clauses))})
    reduction = reduce(job, ClassAd(), lambda name: "host")
    try:
        made = batch.flags(reduction, "htcondor", table, resources=Resources(memory=case.memory))
    except NoHostError:
        return None
    try:
        made = carry(made, case.policy, table)
    except NoFlagsError:
        return None if "\\000" in str(case.policy) else "the policy is not carried"
    lost = {each.clause for each in made.dropped}
    meant = [c for c in conjuncts(reduction.residual) if c not in lost and c is not TRUE]
    lines = [*made.directives, "executable = /bin/true", "queue 1"]
    submit = htcondor2.Submit("\n".join(lines) + "\n")
    entries = {name: submit.expand(name) for name in submit if name != "executable"}
    about = f"{made.directives} is {entries}"
    if reduction.residual in lost:
        meant = []
    if bool(meant) != ("requirements" in entries):
        return f"requirements appear or vanish: {about}"
    if meant:
        (read,) = parse_ads(f"R = {entries.pop('requirements')}\n", format="old")
        if list(read) != ["R"] or read["R"] is not conjunction([in_pool(c) for c in meant]):
            return f"another expression: {about}"
    policy = entries.pop("MY.ClassAdPolicy", None)
    if (TRUE if policy is None else decoded(policy)) is not case.policy:
        return f"another policy: {about}"
    memory = {"request_memory": str(case.memory)} if case.memory else {}
    return None if entries == memory else f"other entries: {about}"


def in_pool(clause: Expr) -> Expr:
    """A clause in the names of the pool."""
    made: dict[Expr, Expr] = {}
    for node in postorder(clause):
        parts = tuple(made[part] for part in children(node))
        made[node] = rebuild(node, parts)
        if isinstance(node, nodes.Attr):
            names = {"gluehostmainmemoryramsize": "DetectedMemory", "other": "TARGET"}
            base = made[node.base] if node.base is not None else None
            made[node] = nodes.Attr(base, names.get(node.folded, node.name), False)
    return made[clause]


def show(case: Case) -> str:
    return printable(f"{[str(c) for c in case.clauses]} {case.policy} {case.memory}")


ATTACK: Final = Attack("submit_files", make, judge, smaller, show, nightly=100_000, smoke=300)

if __name__ == "__main__":
    sys.exit(main(ATTACK))
