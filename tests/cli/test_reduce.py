"""``classad reduce`` on jobs that nobody should write: an answer or a refusal, and its status."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run

SITE = Path(__file__).resolve().parents[2] / "examples" / "site.ldif"
QUEUE = ("--ldif", str(SITE), "--queue", "ce.lyon.grid:2119/jobmanager-sge-long")
RAM = "other.GlueHostMainMemoryRAMSize"


def chain(step: str, length: int, start: str) -> str:
    """Attributes a0, a1, … of which each is made of the one before it."""
    steps = "; ".join(f"a{n + 1} = {step.format(f'a{n}')}" for n in range(length))
    return f"a0 = {start}; {steps}"


CNF = " && ".join(f'({RAM} > {n} || other.GlueHostName == "x{n}")' for n in range(1500))


@pytest.mark.parametrize(
    ("job", "status", "last"),
    [
        (f"Requirements = {RAM} > 5 && {RAM} < 3", 1, "residual: false"),
        ('Requirements = "true"', 1, "residual: false"),
        ("Requirements = Requirements", 1, "residual: false"),
        ("", 0, "residual: true"),
        (f"Requirements = {CNF}", 0, f"residual: ({RAM} > 0 || other.GlueHostName =="),
        (f"Requirements = {' + '.join([RAM] * 4000)} > 5", 0, f"residual: {RAM} + {RAM} +"),
        (f'Requirements = other.GlueHostName == "{"x" * 100_000}"', 0, "residual: other.GlueHost"),
        ("Requirements = size(other) > 5", 2, "the whole ad other cannot"),
        (f"{chain('{0} || {0}', 60, RAM)}; Requirements = a60", 2, "more than 100000 steps"),
        (f"{chain('{0}', 3000, RAM)}; Requirements = a3000", 2, "nests too deep"),
        (f"Requirements = {'(' * 3000}{RAM}{'[0])' * 3000}", 2, "nested more than 200 deep"),
        ("other = 1; target = 2; Requirements = GlueHostName", 2, "rename one"),
        ("Requirements = a >>", 2, "expected"),
    ],
)  # fmt: skip
def test_each_has_an_answer_or_a_refusal(classad: Run, job: str, status: int, last: str) -> None:
    done = classad("reduce", "-", *QUEUE, stdin=f"[ {job} ]")
    assert done.status == status
    lines = (done.err if status == 2 else done.out).rstrip("\n").split("\n")
    assert last in (lines[-1] if status < 2 else done.err)
    assert (done.out == "") is (status == 2)
    assert "Traceback" not in done.err
