"""The cases of ``reduction.txt``: each says what is left of a requirement for a queue's hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from matchmaker import ClassAd, Verdict, parse_ad, parse_ads, parse_expr, reduce
from matchmaker.classad.operators import truth
from matchmaker.reduction import phrase

HOST = {"ram", "smp", "si00", "os", "model", "tags", "outbound"}

HOSTS = [
    ClassAd(),
    *parse_ads(
        """
        [ RAM = 512; SMP = 1; SI00 = 400; OS = "SL"; Tags = { "APP1" }; Outbound = true ]
        [ RAM = 1000; SMP = 2; SI00 = 500; OS = "VO:EGEE"; Tags = { "APP2", "APP1" } ]
        [ RAM = 4096; SMP = 8; SI00 = 900; OS = "Debian"; Model = "Xeon 5130"; Outbound = false ]
        [ RAM = "much"; SMP = "many"; SI00 = "fast"; OS = 4; Model = 5; Tags = 6; Outbound = "no" ]
        [ RAM = true; SMP = 2.5; SI00 = false; OS = undefined; Tags = { }; Outbound = 0 ]
        [ RAM = error; SMP = 9; SI00 = real("NaN"); OS = error; Outbound = 2.5 ]
        [ RAM = real("INF"); SMP = error; SI00 = undefined; OS = "sl" ]
        """
    ),
]


def scope(name: str) -> str:
    return "host" if name.lower() in HOST else "policy"


def cases() -> list[tuple[str, str, str]]:
    """The requirement, the facts and the expected result of each line."""
    found = []
    for line in Path(__file__).with_name("reduction.txt").read_text("utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            requirement, rest = line.split(" @", 1)
            facts, expected = rest.rsplit("=> ", 1)
            found.append((requirement.strip(), facts.strip(), expected.strip()))
    return found


CASES = cases()


def ads(requirement: str, facts: str) -> tuple[ClassAd, ClassAd]:
    """The job and the queue of a case."""
    every = parse_ad(f"[ {facts} ]")
    job = ClassAd((name, e) for name, e in every.items() if name.startswith("Want"))
    job["Requirements"] = parse_expr(requirement)
    return job, ClassAd((name, e) for name, e in every.items() if name not in job)


def test_there_are_many_cases_and_none_twice() -> None:
    assert len(CASES) >= 200
    assert len({(requirement, facts) for requirement, facts, _ in CASES}) == len(CASES)


@pytest.mark.parametrize(
    ("requirement", "facts", "expected"), CASES, ids=[f"{r} @ {f}" for r, f, _ in CASES]
)
def test_residual(requirement: str, facts: str, expected: str) -> None:
    made = reduce(*ads(requirement, facts), scope)
    found = phrase(made.residual) if made.verdict is Verdict.RESIDUAL else str(made.verdict)
    assert found == expected


@pytest.mark.parametrize(
    ("requirement", "facts", "expected"), CASES, ids=[f"{r} @ {f}" for r, f, _ in CASES]
)
def test_the_expectation_itself_is_right(requirement: str, facts: str, expected: str) -> None:
    job, queue = ads(requirement, facts)
    text = {"never": "false", "always": "true"}.get(expected, expected)
    for name in HOST:
        number = f"isInteger(other.{name}) || isReal(other.{name}) || isBoolean(other.{name})"
        text = text.replace(f"other.{name.upper()} is a number", number)
    condition = parse_expr(text)
    for host in HOSTS:
        # The ad that the requirement meets: the queue's facts with the host's own attributes.
        both = ClassAd((name, e) for name, e in queue.items() if scope(name) != "host")
        both.update(host)
        wanted = truth(job.eval("Requirements", target=both)) is True
        assert wanted == (truth(condition.eval(target=host)) is True), host
