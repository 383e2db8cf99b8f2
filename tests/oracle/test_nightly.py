"""The long run, against a reference that answers wrongly, crashes and hangs on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.oracle import nightly
from tests.oracle.answers import Compared
from tests.oracle.generate import Generator
from tests.oracle.oracle import BATCH, CRASHES, HANGS, Case, Oracle, batches

WORKER = """
import json, os, sys, time
for line in sys.stdin:
    for text, my, target in json.loads(line):
        if "crash" in text:
            os._exit(1)
        if "hang" in text:
            time.sleep(60)
        if "once" in text and not os.path.exists({flag!r}):
            open({flag!r}, "w").close()
            os._exit(1)
        value = ["integer", "7"] if "size" in text else ["undefined"]
        print(json.dumps(value), flush=True)
"""


@pytest.fixture
def reference(tmp_path: Path) -> Iterator[Oracle]:
    """A reference to which all is undefined, but for what has a size, which is 7."""
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER.format(flag=str(tmp_path / "crashed")), encoding="utf-8")
    oracle = Oracle(worker, seconds=1.0)
    yield oracle
    oracle.close()


def test_crashes_and_hangs_are_answers(reference: Oracle) -> None:
    cases = list(map(Case, ("x", "crash", "y", "hang", "z", "crash")))
    undefined = ["undefined"]
    assert reference.answers(cases) == [undefined, CRASHES, undefined, HANGS, undefined, CRASHES]
    # Each crash was tried again, alone.
    assert reference.starts == 5


def test_a_case_is_not_blamed_for_those_before_it(reference: Oracle) -> None:
    assert reference.answers([Case("x"), Case("once"), Case("y")]) == [["undefined"]] * 3
    assert reference.starts == 2


def of_cases(cases: list[Case]) -> type[Generator]:
    """A generator that gives some cases over and over."""

    class Fixed(Generator):
        def cases(self):  # type: ignore[no-untyped-def]
            while True:
                yield from cases

    return Fixed


def output(
    monkeypatch: pytest.MonkeyPatch, reference: Oracle, cases: list[Case], *options: str
) -> tuple[int, str]:
    """The status and the output of the command with other cases and another reference."""
    printed: list[str] = []
    monkeypatch.setattr(nightly, "say", printed.append)
    monkeypatch.setattr(nightly, "Generator", of_cases(cases))
    monkeypatch.setattr(nightly, "Oracle", lambda: reference)
    return nightly.main(list(options)), "\n".join(printed)


def test_figures_and_a_small_example(monkeypatch: pytest.MonkeyPatch, reference: Oracle) -> None:
    large = Case("missing + (1 + size({x, y, 2 * size(z)}))", "[ b = [ c = a ] ]", "[ d = 1 ]")
    options = ("--cases", "60", "--seed", "5")
    status, text = output(monkeypatch, reference, [Case("x"), large], *options)
    assert status == 1
    assert "SEED=5" in text
    assert "60 cases" in text
    assert "30 agree" in text
    assert "30 unexplained" in text
    assert "30 x size(x): ours ['undefined'], HTCondor's ['integer', '7']" in text


def test_all_is_well(monkeypatch: pytest.MonkeyPatch, reference: Oracle) -> None:
    cases = [Case("x"), Case("evalInEachContext(crash, {})")]
    status, text = output(monkeypatch, reference, cases, "--cases", "4", "--seed", "1")
    assert status == 0
    assert "2 crashes" in text
    assert "0 unexplained" in text
    assert "evalInEachContext(crash, {})" in text


def test_a_run_without_a_seed_tells_its_seed(
    monkeypatch: pytest.MonkeyPatch, reference: Oracle
) -> None:
    first, again = (
        output(monkeypatch, reference, [Case("x")], "--cases", "1")[1] for _ in range(2)
    )
    assert first.split(":")[0] != again.split(":")[0]


def test_only_few_examples_are_kept() -> None:
    figures = nightly.Figures()
    for number in range(1000):
        one = Compared(Case(f"{number}"), ["error"], ["error"], ["integer", "7"])
        figures.add(one)
    assert figures.unexplained.total() == 1000
    assert sum(map(len, figures.examples.values())) == nightly.KEPT


def taken(seed: int, number: int) -> list[Case]:
    cases = Generator(seed).cases()
    return [next(cases) for _ in range(number)]


def test_a_seed_gives_the_same_cases() -> None:
    assert taken(3, 500) == taken(3, 500)
    assert taken(3, 500) != taken(4, 500)


@pytest.mark.parametrize(
    "wanted",
    [
        lambda case: case.target != "",
        lambda case: case.my != "[ ]" and not case.target,
        lambda case: "MY." in case.text or "my." in case.text,
        lambda case: "TARGET." in case.text,
        lambda case: "evalInEachContext(" in case.text,
        lambda case: "].j" in case.text or "}[0]" in case.text,
        lambda case: "é" in case.text,
    ],
)
def test_there_are_cases_of_many_kinds(wanted: Callable[[Case], bool]) -> None:
    assert any(map(wanted, taken(0, 2000)))


def test_batches_are_bounded() -> None:
    sizes = [len(batch) for batch in batches(Case("x") for _ in range(2 * BATCH + 1))]
    assert sizes == [BATCH, BATCH, 1]
