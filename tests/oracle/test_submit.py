"""What HTCondor's own library makes of our lines of a submit file, and what the verdict says."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from matchmaker import ClassAd, Expr, batch, parse_expr, reduce
from matchmaker.batch import Fit, NoHostError, Resources, Submission
from matchmaker.batch.policy import carry, decoded
from matchmaker.classad.errors import printable
from matchmaker.classad.nodes import Attr, Binary, Call, ListExpr, Literal, Ternary, Unary
from matchmaker.classad.operators import truth

pytestmark = pytest.mark.oracle

WORKER = Path(__file__).with_name("submitting.py")
SECONDS = 120
CASES = 600

RAM, CPUS = "GlueHostMainMemoryRAMSize", "GlueHostArchitectureSMPSize"
OS, TAGS = "GlueHostOperatingSystemName", "GlueHostApplicationSoftwareRunTimeEnvironment"

HOSTILE = [
    "SL",
    "$(HOME)",
    "$$(x)",
    "$",
    "a$",
    "$(DOLLAR)",
    "$ENV(HOME)",
    "$$",
    'a"b',
    'a"',
    "a\\b",
    "a\\",
    "\\",
    "\\n",
    "a\nb",
    "a\tb",
    "a\\\\b\\",
    "# no comment",
    "queue 9",
    " = ",
    "x\nqueue 5",
    "é",
    "'",
    "$F(x)",
    "$INT(y)",
    "(",
    '\\"',
    "@=end",
    "",
    "\x01",
    "'a'\\",
    "$(a:b)",
    "$(DOLLAR:x)",
    "$RANDOM_CHOICE(1,2)",
]

MAPPING = 'others = "same"\n'


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    if importlib.util.find_spec("htcondor2") is None:
        pytest.skip("the package htcondor, the reference implementation, is not installed")


def judged(requests: list[tuple[Submission, ClassAd, list[ClassAd]]]) -> list[list[Any]]:
    """The answers of the library, of a process of its own."""
    plain = [[made.directives, str(job), [str(m) for m in machines]]
             for made, job, machines in requests]  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(WORKER)], input=json.dumps(plain) + "\n", capture_output=True,
        text=True, encoding="utf-8", timeout=SECONDS, check=True,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(requests)
    return answers


class Chance(random.Random):
    """Random requirements on hosts, and hosts."""

    def host(self, name: str) -> Expr:
        return Attr(Attr(None, self.choice(("other", "TARGET")), False), name, False)

    def text(self) -> Literal:
        return Literal(self.choice(HOSTILE))

    def leaf(self) -> Expr:
        kind = self.randrange(8)
        relation = self.choice(("<", "<=", ">", ">=", "==", "!=", "is", "isnt"))
        if kind < 3:
            return Binary(
                relation, self.host(self.choice((RAM, CPUS))), Literal(self.randint(-1, 5))
            )
        if kind == 3:
            return Binary(self.choice(("==", "!=", "is")), self.host(OS), self.text())
        if kind == 4:
            return Call("member", (self.text(), self.host(TAGS)))
        if kind == 5:
            return Call("member", (self.host(OS), ListExpr((self.text(), self.text()))))
        if kind == 6:
            return Binary(relation, Attr(None, "WantCpus", False), self.host(CPUS))
        return Call(
            "regexp", (Literal(self.choice((r"^S\w+$", r"\$", r"a\\b", "a$"))), self.host(OS))
        )

    def tree(self, depth: int) -> Expr:
        if not depth:
            return self.leaf()
        kind = self.randrange(6)
        if kind < 4:
            return Binary("||" if kind == 3 else "&&", self.tree(depth - 1), self.tree(depth - 1))
        if kind == 4:
            return Unary("!", self.tree(depth - 1))
        return Ternary(self.tree(depth - 1), self.tree(depth - 1), self.tree(depth - 1))

    def node(self) -> ClassAd:
        return ClassAd({RAM: self.randint(0, 5), CPUS: self.randint(0, 5), OS: self.choice(HOSTILE),
                        TAGS: self.sample(HOSTILE, 3)})  # fmt: skip


def machine(node: ClassAd) -> ClassAd:
    """A node as its pool advertises it, by the mapping's names."""
    names = {RAM: "DetectedMemory", CPUS: "DetectedCpus"}
    return ClassAd({names.get(name, name): value for name, value in node.items()})


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> batch.Mapping:
    path = tmp_path_factory.mktemp("site") / "htcondor.toml"
    path.write_text(MAPPING)
    return batch.load_mapping("htcondor", path)


def test_htcondor_selects_what_the_verdict_says(table: batch.Mapping) -> None:
    chance = Chance(1988)
    cases: list[tuple[Submission, ClassAd, list[ClassAd]]] = []
    for _ in range(CASES):
        job = ClassAd(
            {"WantCpus": chance.randint(0, 5), "Requirements": chance.tree(chance.randint(0, 2))}
        )
        nodes = [chance.node() for _ in range(6)]
        reduction = reduce(job, ClassAd(), lambda name: "host")
        try:
            made = batch.flags(reduction, "htcondor", table)
        except NoHostError:
            assert not any(truth(reduction.residual.eval(job, node)) is True for node in nodes)
            continue
        cases.append((made, job, nodes))
    answers = judged([(made, job, [machine(n) for n in nodes]) for made, job, nodes in cases])
    exact = 0
    for (made, job, nodes), (values, _) in zip(cases, answers, strict=True):
        requirement = job["Requirements"]
        about = printable(f"{requirement}: {made.directives}")
        assert values != "unreadable", about
        wanted = [truth(job.eval("Requirements", target=node)) is True for node in nodes]
        selected = [value is True for value in values]
        if made.verdict is Fit.EXACT:
            exact += 1
            assert selected == wanted, about
        else:
            assert all(has or not want for has, want in zip(selected, wanted, strict=True)), about
            assert made.recheck is not None
            again = [truth(made.recheck.eval(job, node)) is True for node in nodes]
            both = [a and b for a, b in zip(selected, again, strict=True)]
            assert both == wanted, about
    assert exact > CASES // 3
    assert exact < len(cases)


def test_requests_and_a_policy_are_read_as_they_are_meant(table: batch.Mapping) -> None:
    policy = parse_expr(
        r'other.GlueCEPolicyX == "$(HOME) \" \n" && other.GlueCEPolicyMaxCPUTime > 5'
    )
    reduction = reduce(ClassAd(), ClassAd(), lambda name: "host")
    asked = Resources(memory=2000, cpus=4, disk=5, gpus=1)
    made = carry(batch.flags(reduction, "htcondor", table, resources=asked), policy, table)
    ((values, entries),) = judged([(made, ClassAd(), [ClassAd()])])
    assert values == [True]
    word = entries.pop("MY.ClassAdPolicy")
    assert decoded(word) is policy
    assert entries == {"request_memory": "2000", "request_cpus": "4", "request_disk": "5120",
                       "request_gpus": "1"}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_reaches_htcondor_as_it_is_or_not_at_all(table: batch.Mapping, text: str) -> None:
    wanted = Binary("is", Attr(Attr(None, "TARGET", False), OS, False), Literal(text))
    job = ClassAd({"Requirements": wanted})
    made = batch.flags(reduce(job, ClassAd(), lambda name: "host"), "htcondor", table)
    others = [other for other in HOSTILE if other != text]
    ((values, entries),) = judged([(made, job, [ClassAd({OS: each}) for each in (text, *others)])])
    if made.verdict is Fit.EXACT:
        assert values == [True] + [False] * len(others)
        assert list(entries) == ["requirements"]
    else:
        assert "$$" in text or "$(DOLLAR" in text or not text.isprintable()
        assert not entries
