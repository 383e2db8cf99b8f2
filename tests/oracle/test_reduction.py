"""The theorems of reduction on 50,000 random cases, judged by us and by HTCondor's own library.

A case is a requirement, a queue and a host. For each: the residual is true of the host exactly when
the requirement is true of the queue with the host, by our evaluation and by HTCondor's; *never* and
*always* are never wrong; the hull of the bounds holds wherever the residual is true, and it
is true of every host in the best alternative; the printed residual is the residual.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from matchmaker import ClassAd, Expr, Verdict, parse_expr, reduce
from matchmaker.classad.nodes import Attr, Binary, Call, ListExpr, Literal, Ternary, Unary
from matchmaker.classad.operators import truth
from matchmaker.classad.values import ERROR, UNDEFINED, Value
from matchmaker.reduction import bounds
from tests.oracle.oracle import Case, Oracle

pytestmark = pytest.mark.oracle

CHUNKS = 10
REQUIREMENTS = 500
HOSTS = 10

HOST_NAMES = ("HostA", "HostB", "HostC")
FACTS = ("FactA", "FactB")
VALUES: tuple[Value, ...] = (
    -2, -1, 0, 1, 2, 3, 0.5, 2.0, True, False, "a", "A", "b", "", UNDEFINED, ERROR
)  # fmt: skip
TESTS = ("isUndefined", "isError", "isString", "isInteger", "isReal", "isBoolean")


class Chance(random.Random):
    """Random requirements, of the kind that people write, and of every other."""

    def value(self) -> Value:
        return self.choice(VALUES)

    def name(self) -> Expr:
        name = self.choice((*HOST_NAMES, *HOST_NAMES, *FACTS, "Missing", "WantA"))
        scope = Attr(None, self.choice(("other", "TARGET")), False)
        return Attr(None, name, False) if name == "WantA" else Attr(scope, name, False)

    def leaf(self) -> Expr:
        kind = self.randrange(10)
        if kind < 6:
            relation = self.choice(("<", "<=", ">", ">=", "==", "!=", "is", "isnt"))
            right = self.name() if self.random() < 0.2 else Literal(self.value())
            return Binary(relation, self.name(), right)
        if kind == 6:
            return Call(self.choice(TESTS), (self.name(),))
        if kind == 7:
            items = ListExpr(tuple(Literal(self.choice(VALUES[10:13])) for _ in range(2)))
            return Call("member", (self.name(), items))
        if kind == 8:
            sum_ = Binary(self.choice(("+", "-", "*")), self.name(), self.name())
            return Binary(self.choice((">", "<=")), sum_, Literal(1))
        return self.name() if self.random() < 0.7 else Literal(self.value())

    def tree(self, depth: int) -> Expr:
        if depth == 0 or self.random() < 0.15:
            return self.leaf()
        kind = self.randrange(8)
        if kind < 5:
            operator = "&&" if kind < 3 else "||"
            return Binary(operator, self.tree(depth - 1), self.tree(depth - 1))
        if kind == 5:
            return Unary("!", self.tree(depth - 1))
        parts = (self.tree(depth - 1), self.tree(depth - 1), self.tree(depth - 1))
        return Ternary(*parts) if kind == 6 else Call("ifThenElse", parts)

    def ad(self, names: tuple[str, ...]) -> ClassAd:
        return ClassAd({name: self.value() for name in names if self.random() < 0.85})


def is_true(answer: list[Any]) -> bool:
    """Whether an answer of HTCondor's counts as true."""
    return answer[0] in ("boolean", "integer", "real") and bool(answer[1]) and answer[1] != "0"


@pytest.mark.parametrize("seed", range(CHUNKS))
def test_residual_and_requirement_agree(oracle: Oracle, seed: int) -> None:
    chance = Chance(seed)
    verdicts = dict.fromkeys(Verdict, 0)
    for _ in range(REQUIREMENTS):
        job = ClassAd({"WantA": chance.value(), "Requirements": chance.tree(chance.randint(0, 3))})
        queue = chance.ad((*FACTS, "HostA"))
        made = reduce(job, queue, lambda name: "host" if name in HOST_NAMES else "queue")
        verdicts[made.verdict] += 1
        assert parse_expr(str(made.residual)) is made.residual
        found = bounds(made.residual)
        hosts = [chance.ad(HOST_NAMES) for _ in range(HOSTS)]
        asked: list[Case] = []
        for host in hosts:
            both = ClassAd((name, e) for name, e in queue.items() if name not in HOST_NAMES)
            both.update(host)
            wanted = truth(job.eval("Requirements", target=both)) is True
            about = (made.explain(), str(host))
            assert wanted == (truth(made.residual.eval(job, host)) is True), about
            assert not (wanted and made.verdict is Verdict.NEVER), about
            assert wanted or made.verdict is not Verdict.ALWAYS, about
            assert found.accepts(host, job) == wanted, about
            if wanted:
                assert found.necessary is not None, about
                assert found.necessary.accepts(host), about
            elif found.sufficient is not None:
                assert not found.sufficient.accepts(host), about
            asked += [
                Case(str(job["Requirements"]), str(job), str(both)),
                Case(str(made.residual), str(job), str(host)),
            ]
        answers = oracle.answers(asked)
        for number, case in enumerate(asked[::2]):
            first, second = answers[2 * number : 2 * number + 2]
            assert is_true(first) == is_true(second), (case, asked[2 * number + 1], first, second)
    assert min(verdicts.values()) >= REQUIREMENTS // 50
