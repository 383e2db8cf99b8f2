"""Each deliberate difference is one: both sides answer as the list says."""

from __future__ import annotations

import pytest

from tests.oracle.differences import DIFFERENCES, Difference
from tests.oracle.oracle import Compared, Oracle, agree, ours


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.name)
def test_what_we_do(difference: Difference) -> None:
    assert difference.examples
    for example in difference.examples:
        assert ours(example.case) == example.ours, example.text


@pytest.mark.oracle
@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.name)
def test_reference_does_otherwise(oracle: Oracle, difference: Difference) -> None:
    for example in difference.examples:
        one = Compared(example.case, example.ours, oracle.ask(example.case))
        assert not agree(one), example.text
        assert difference.excuses(one), str(one)
