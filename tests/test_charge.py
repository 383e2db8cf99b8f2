"""Work that is not charged cannot be written: one entry to evaluation, one allowance a question."""

from __future__ import annotations

import ast
from typing import Any, Final

import pytest

from matchmaker import ClassAd, batch, broker, lint, nodes, parse_ad, parse_expr, reduce, refusal
from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad import evaluate as evaluation
from matchmaker.classad.evaluate import Allowance, charged
from matchmaker.classad.functions import patterns
from matchmaker.classad.state import Budget
from matchmaker.classad.values import is_error
from tests.limits import fields
from tests.test_architecture import MODULES, PACKAGE, module_name

INSIDE: Final = {
    "classad.state.EvaluationState": {"classad.evaluate", "classad.reference", "classad.trace"},
    "classad.reference.REFERENCE": {"classad.evaluate", "classad.trace"},
    "classad.reference.run": {"classad.evaluate"},
    "classad.reference.admit": {"classad.evaluate", "classad.trace"},
    "classad.compile.compile_expression": {"classad.reference"},
    "classad.evaluate.evaluate_counted": {
        "reduction.bind",
        "matching.columns.evaluator",
        "matching.explanation.counts",
    },
}
"""What evaluates, and the modules that may name it. All others go by the entry, ``evaluate``."""


def names_of(tree: ast.AST) -> set[str]:
    """What a module imports, each name with its module, and not for types alone."""
    typed = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    return {
        f"{node.module.removeprefix(PACKAGE + '.')}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in typed
        for alias in node.names
    }


def others(text: str, module: str) -> list[str]:
    """What a module names of what evaluates, and may not."""
    own = module.removeprefix(PACKAGE + ".")
    calls = {
        node.func.attr
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    # The function that is made of an expression counts only what its state is to count.
    compiled = ["Expr.run"] if "run" in calls and own.startswith("classad.") else []
    named = names_of(ast.parse(text))
    return compiled + [
        name for name, allowed in INSIDE.items() if name in named and own not in allowed
    ]


def test_only_the_entry_evaluates() -> None:
    found = {
        module_name(path): wrong
        for path in MODULES
        if (wrong := others(path.read_text(encoding="utf-8"), module_name(path)))
        # The state is also the type of what functions are given.
        and not (wrong == ["classad.state.EvaluationState"] and "functions" in path.parts)
    }
    assert found == {}


def test_a_module_that_evaluates_by_itself_is_seen() -> None:
    text = "from matchmaker.classad.state import EvaluationState\nState(None, None)"
    assert others(text, "matchmaker.batch.new") == ["classad.state.EvaluationState"]
    text = "from matchmaker.classad.evaluate import evaluate_counted"
    assert others(text, "matchmaker.broker.new") == ["classad.evaluate.evaluate_counted"]


def test_evaluations_of_a_question_share_steps_and_each_has_some() -> None:
    chain = parse_expr(" + ".join(["MY.x"] * 400))
    short = parse_expr("x + x")

    @charged
    def asked() -> list[Any]:
        return [*(chain.eval(ClassAd(x=1)) for _ in range(9)), short.eval(ClassAd(x=1))]

    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(fields(LIMITS), "question", 5000)
        patched.setitem(fields(LIMITS), "question_each", 20)
        found = asked()
        assert found[:2] == [400, 400]
        assert is_error(found[8])
        assert found[9] == 2
        # The next question has all of it again, and a question in a question has what is left.
        assert asked() == found
        assert is_error(charged(lambda: (asked(), chain.eval(ClassAd(x=1))))()[1])
    assert chain.eval(ClassAd(x=1)) == 400


def test_a_bound_of_its_own_within_a_question_counts_for_both() -> None:
    chain = parse_expr(" + ".join(["MY.x"] * 400))
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(fields(LIMITS), "question", 3000)
        patched.setitem(fields(LIMITS), "question_each", 20)
        asked = charged(lambda: [Allowance().value(chain, ClassAd(x=1), None) for _ in range(9)])
        assert is_error(asked()[-1])


def test_a_refusal_looks_up_no_more_names_than_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    job = parse_ad(f"[ Requirements = {' ?: '.join(f'TARGET.b{n}' for n in range(2000))} ]")
    made = 0
    evaluate_counted = evaluation.evaluate_counted

    def counted(*given: Any) -> Any:
        nonlocal made
        made += 1
        return evaluate_counted(*given)

    monkeypatch.setattr(evaluation, "evaluate_counted", counted)
    found = nodes.choose(job, inventory(50))
    made = 0
    reasons = [refusal.reason for refusal in found.refused]
    assert len(reasons) == 50
    assert reasons[0].endswith("b18 = undefined, b19 = undefined, 1,980 more)")
    assert made <= 50 * (LIMITS.facts + 2)


def test_a_refusal_looks_up_no_name_without_steps_left(monkeypatch: pytest.MonkeyPatch) -> None:
    job = parse_ad(f"[ Requirements = {' + '.join(f'TARGET.b{n}' for n in range(9))} > 1 ]")
    monkeypatch.setattr(Budget, "limit", 10)
    clause = refusal(job, ClassAd())
    assert clause is not None
    assert 0 < len(clause.facts) < 9
    assert len(clause.facts) + clause.more == 9


HOSTILE: Final = 'regexp("(x+x+)+y", other.Tag) || other.GlueHostMainMemoryRAMSize < 5'


def inventory(count: int) -> list[ClassAd]:
    return [ClassAd(Name=f"wn{n}", GlueHostMainMemoryRAMSize=n, Tag="x" * n) for n in range(count)]


def flags(count: int) -> None:
    job = parse_ad(f"[ Requirements = {HOSTILE} ]")
    made = reduce(job, ClassAd(), lambda name: "host")
    assert batch.flags(made, inventory=inventory(count)).certificate is not None


def reasons(count: int) -> None:
    job = parse_ad(f"[ Requirements = {HOSTILE.replace('<', '<=')} && other.No ]")
    for choose in (nodes.choose, broker.choose):
        assert all(one.reason for one in choose(job, inventory(count)).refused)


def facts(count: int) -> None:
    clauses = [f'!regexp("(x+x+)+{n}", "xxx{n}")' for n in range(count)]
    job = parse_ad(f"[ Requirements = {' && '.join(clauses)} ]")
    reduce(job, ClassAd(), lambda name: "host")


def linted(count: int) -> None:
    clauses = [f'!regexp("(x+x+)+{n}", "xxx{n}")' for n in range(count)]
    lint(f"[ Requirements = {' && '.join(clauses)} ]")


def queues(count: int) -> None:
    hidden = 'ifThenElse(regexp("(x+x+)+y", "xxxx"), { "a" }, { "b" })'
    ads = [parse_ad(f'[ Name = "n{n}"; Queues = {hidden} ]') for n in range(count)]
    nodes.in_queue(ads, "b")


@pytest.mark.parametrize("ask", [flags, reasons, facts, linted, queues])
def test_patterns_of_many_nodes_take_the_seconds_of_one_question(
    ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed: list[float] = []

    def greedy(name: str, pattern: str, options: str, budget: Budget, run: Any) -> Any:
        allowed.append(max(0.0, budget.seconds - budget.searched))
        budget.searched = max(budget.searched, budget.seconds)
        return name == "never"

    monkeypatch.setattr(patterns, "_timed", greedy)
    ask(40)
    # Matching with a pool is a question of its own, for the job and for the ads.
    most = 4 * LIMITS.question_seconds + len(allowed) * LIMITS.question_least
    assert len(allowed) >= 40 or ask is linted
    assert sum(allowed) < most


def test_an_evaluation_within_a_question_has_its_function_too() -> None:
    node = parse_expr("MY.a * 2 + MY.b_of_this_test")
    ad = ClassAd(a=2, b_of_this_test=1)
    assert {node.eval(ad) for _ in range(100)} == {5}
    assert node.run is not None
    assert charged(node.eval)(ad) == 5
    assert evaluation.evaluate_attribute(ad, "a") == 2
