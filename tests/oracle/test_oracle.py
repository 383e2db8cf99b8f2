"""The same answer as HTCondor's own library, to tens of thousands of expressions.

Each case is answered by the reference evaluation and by compiled expressions, and both are held to
HTCondor's answer. What disagrees must be accounted for by ``differences``. Nothing is compared that
depends on the moment. The figures of all tests together are printed at the end of a run.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from matchmaker.classad.functions import Function
from tests.oracle import cases, scopes
from tests.oracle.answers import agree, compared
from tests.oracle.differences import account
from tests.oracle.figures import AGREEING, DIFFERING
from tests.oracle.generate import Generator
from tests.oracle.oracle import Case, Oracle, batches

pytestmark = pytest.mark.oracle

Record = pytest.FixtureRequest

CHUNKS = 24
CHUNK = 1500
"""The random cases: as many seeds, and as many cases from each."""

SHARE = 0.95
SHARE_OF_FUNCTION = 0.6
"""The least part of the cases of a test that has to agree outright."""


TELLING: Final = 5
"""In how many cases of a function there is a value."""

VALUES: Final = (
    "boolean", "integer", "real", "string", "list", "classad", "absolute time", "relative time",
)  # fmt: skip


def assert_agreement(
    oracle: Oracle, request: pytest.FixtureRequest, asked: Iterable[Case], share: float = SHARE
) -> int:
    """Fails with the disagreements that nothing accounts for, and where too many differ at all.

    Gives the number of cases that agree on a value other than undefined and error.
    """
    agreeing, differing, telling, faults = 0, 0, 0, []
    for batch in batches(asked):
        for one in compared(oracle, batch):
            if agree(one):
                agreeing += 1
                telling += one.theirs[0] in VALUES
            elif account(one):
                differing += 1
            else:
                faults.append(str(one))
    request.node.user_properties += [(AGREEING, agreeing), (DIFFERING, differing)]
    total = agreeing + differing + len(faults)
    shown = "\n".join(faults[:20])
    assert not faults, f"{len(faults)} of {total} disagree:\n{shown}"
    assert agreeing >= share * total > 0
    return telling


@pytest.mark.parametrize("pattern", cases.operators())
def test_operator(oracle: Oracle, request: Record, pattern: str) -> None:
    assert_agreement(oracle, request, cases.operator_cases(pattern))


@pytest.mark.parametrize("function", cases.functions(), ids=lambda function: function.name)
def test_function(oracle: Oracle, request: Record, function: Function) -> None:
    asked = cases.function_cases(function)
    telling = assert_agreement(oracle, request, asked, SHARE_OF_FUNCTION)
    # Errors alone tell nothing of what a function does.
    assert telling >= (TELLING if function.most != 0 else 1)


def test_written_expressions(oracle: Oracle, request: Record) -> None:
    assert_agreement(oracle, request, cases.written_cases(), SHARE_OF_FUNCTION)


@pytest.mark.parametrize("part", range(4))
def test_scopes(oracle: Oracle, request: Record, part: int) -> None:
    assert_agreement(oracle, request, itertools.islice(scopes.scope_cases(), part, None, 4))


@pytest.mark.parametrize("seed", range(CHUNKS))
def test_random(oracle: Oracle, request: Record, seed: int) -> None:
    assert_agreement(oracle, request, itertools.islice(Generator(seed).cases(), CHUNK))


def test_a_run_in_which_too_few_agree_fails() -> None:
    """As `make test` claims it of all tests: by what was compared, not by what was to be."""
    some = f"{Path(__file__)}::test_operator[-({{0}})]"
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "--conformance", "50000", some]
    checkout = Path(__file__).parents[2]
    run = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert "1 passed" in run.stdout
    assert "at least 50,000 must agree" in run.stdout
    assert run.returncode == 1
