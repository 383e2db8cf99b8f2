"""Terms on many facts: evaluated once where they are equal, with the same values as one by one."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from matchmaker import ClassAd
from matchmaker.pilots import PolicyAd
from matchmaker.pilots.policy.decision import Pairs
from matchmaker.pilots.policy.policy_ad import TERMS, FactColumns, PolicyTerm, Values

ROWS = 60
ALL = np.ones(ROWS, np.bool_)
POLICIES = [
    "[ Ready = 2 ]",
    "[ Ready = TARGET.Known ? TARGET.Waiting : 1 ]",
    "[ Ready = MY.Each + Waiting; Each = TARGET.Job.Cpus ]",
    "[ Ready = size(TARGET.Kind) ]",
    '[ Ready = [ Waiting = 3; Here = Waiting ].Here; Each = eval("TARGET.Waiting") ]',
    '[ Ready = eval(strcat("TARGET.Wai", "ting")) ]',
    "[ Ready = TARGET.Waiting > 2 ? -1 : undefined ]",
]


def facts() -> FactColumns:
    chance = Random(1)
    small, large = ClassAd(Cpus=1), ClassAd(Cpus=8)
    columns: dict[str, list[Any]] = {
        "Kind": [chance.choice(["a", "bb"]) for _ in range(ROWS)],
        "Waiting": [chance.randrange(4) for _ in range(ROWS)],
        "Known": [chance.random() < 0.5 for _ in range(ROWS)],
        "Job": [chance.choice([small, large]) for _ in range(ROWS)],
    }  # fmt: skip
    return FactColumns(lambda: columns)


@pytest.mark.parametrize("text", POLICIES)
def test_a_term_has_the_value_that_it_has_on_each_by_itself(text: str) -> None:
    on, policy = facts(), PolicyAd(text)
    unsound: dict[int, str] = {}
    found = Values(policy).each("Ready", on, ALL, unsound.setdefault)
    for row in range(ROWS):
        if row in unsound:
            with pytest.raises(ValueError, match="Ready"):
                policy.value(TERMS["ready"], on[row])
        else:
            assert found[row] == policy.value(TERMS["ready"], on[row])


def test_a_term_is_evaluated_once_for_equal_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[ClassAd] = []
    value = PolicyAd.value

    def noted(self: PolicyAd, term: PolicyTerm, on: ClassAd) -> float:
        asked.append(on)
        return value(self, term, on)

    monkeypatch.setattr(PolicyAd, "value", noted)
    terms = Values(PolicyAd("[ Ready = TARGET.Known ? 10 : 1 ]"))
    terms.each("Ready", facts(), ALL)
    assert len(asked) == 2


def test_pairs_are_kept_while_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ads that are there again take no room anew."""
    kinds, pilots = [ClassAd(Requirements=True) for _ in range(4)], [ClassAd() for _ in range(3)]
    monkeypatch.setattr("matchmaker.pilots.policy.decision.MOST_PAIRS", 12)
    pairs = Pairs()
    first = pairs.table(kinds, pilots)
    assert pairs.table(kinds, pilots) is first
    assert pairs.table([*kinds, ClassAd()], pilots) is not first
