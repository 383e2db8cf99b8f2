"""Twice the text takes about twice the work, counted in calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from matchmaker import ClassAd, Pool, batch, forget, lint, parse_ad, parse_expr, reduce
from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.trace import trace
from matchmaker.classad.values import is_error
from matchmaker.reduction.boxes import bounds

SLOTS = Pool(ClassAd({"Name": str(n), "a": n}) for n in range(20))


def chain(operator: str, operand: str = "TARGET.a") -> Callable[[int], str]:
    return lambda count: f" {operator} ".join([operand] * count)


def explained(text: str) -> object:
    return SLOTS.explain(parse_ad(f"[ Requirements = {text} ]"))


def traced(text: str) -> object:
    return str(trace(text, ClassAd(a=1)))


def bounded(text: str) -> object:
    return bounds(parse_expr(text))


def doublings(count: int) -> str:
    return "; ".join(f"a{n} = a{n + 1} + a{n + 1}" for n in range(count))


def linted(text: str) -> object:
    return lint(f"[ Requirements = {text} ]")


OPERATORS = ["<", "==", "is", "+", "&&", "||", "&", "?:"]


def calls(work: Callable[[], object]) -> int:
    """How many functions are called, Python's and C's."""
    made = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal made
        made += event.endswith("call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return made


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("work", [linted, explained, traced])
def test_twice_the_chain_is_twice_the_work(work: Callable[[str], object], operator: str) -> None:
    text = chain(operator)
    work(text(3))
    small, large = (calls(partial(work, text(size))) for size in (150, 300))
    assert large < 2.4 * small


def named(count: int, joined: str, name: str) -> str:
    return joined.join(name.format(n) for n in range(count))


EXPLAINED: dict[str, Callable[[int], tuple[str, str]]] = {
    "a sum of the job's attributes": lambda n: (
        f"{named(n, '; ', 'a{0} = {0}')}; Requirements = TARGET.x > {named(n, ' + ', 'a{0}')}",
        "x = 0",
    ),
    "a sum in a slot of the job's attributes": lambda n: (
        named(n, "; ", "a{0} = {0}"),
        f"x = 0; Requirements = MY.x > {named(n, ' + ', 'TARGET.a{0}')}",
    ),
    "a text of the job's attributes": lambda n: (
        f"{named(n, '; ', 'a{0}=0')}; Requirements = TARGET.x == strcat({named(n, ', ', 'a{0}')})",
        'x = ""',
    ),
    "clauses of a slot that lead in a circle": lambda n: (
        "x = 1",
        # Each clause needs the whole ad, most of which no clause names.
        named(10 * n, " ", "b{0} = {0};")
        + "; ".join(f"a{i} = a{(7 * i + 1) % n} > TARGET.x + {i}" for i in range(n))
        + f"; Requirements = {named(n, ' && ', 'a{0} > TARGET.x')}",
    ),
    "names that nothing has": lambda n: (
        f"Requirements = {named(n, ' || ', 'TARGET.b{0} > 1')}",
        named(n, "; ", "a{0} = {0}"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", EXPLAINED)
def test_explaining_twice_the_attributes_is_twice_the_work(shape: str) -> None:
    def made(count: int) -> int:
        job, slot = EXPLAINED[shape](count)
        pool, ad = Pool([parse_ad(f"[ Name = 1; {slot} ]")]), parse_ad(f"[ {job} ]")
        return calls(lambda: pool.explain(ad))

    made(3)
    small, large = made(150), made(300)
    assert large < 2.4 * small


def test_alternatives_of_which_each_slot_has_another_take_little_more_than_twice_the_work() -> None:
    def matched(count: int) -> int:
        slots = Pool(ClassAd({"Name": str(n), f"a{n}": n}) for n in range(count))
        text = " ?: ".join(f"TARGET.a{n}" for n in range(count))
        job = parse_ad(f"[ Requirements = ({text}) >= 0 ]")
        assert len(slots.match(job)) == count
        slots.forget()
        return calls(lambda: slots.match(job))

    small, large = matched(100), matched(200)
    assert large < 2.4 * small


@pytest.mark.parametrize("system", ["slurm", "lsf"])
def test_flags_of_twice_the_alternatives_take_little_more_than_twice_the_work(system: str) -> None:
    def made(count: int) -> object:
        text = " || ".join(
            f"(other.GlueHostMainMemoryRAMSize >= {10 * n} && other.GlueHostMainMemoryRAMSize <="
            f" {10 * n + 5})" for n in range(count)
        )  # fmt: skip
        job = parse_ad(f"[ Requirements = {text} ]")
        return batch.flags(reduce(job, parse_ad("[]"), lambda name: "host"), system)

    def from_nothing(count: int) -> object:
        # What other tests left in the caches may be dropped just now, and made again.
        forget()
        return made(count)

    made(3)
    small, large = (calls(partial(from_nothing, size)) for size in (75, 150))
    assert large < 2.6 * small


def test_bounds_of_more_alternatives_take_no_more_than_their_steps() -> None:
    def text(count: int) -> str:
        return " || ".join(f"other.A{n} > {n} && other.B{n} < {n}" for n in range(count))

    bounded(text(3))
    small, large = (calls(partial(bounded, text(size))) for size in (75, 150))
    assert large < 1.5 * small


@pytest.mark.slow
def test_a_trace_of_doublings_is_bounded_and_says_so() -> None:
    few, many = (parse_ad(f"[ {doublings(size)}; a{size} = 1 ]") for size in (17, 60))
    found = trace("a0", few)
    assert found.value == 2**17
    assert found.note == "stopped after 100,000 steps: later parts are not shown"
    assert found.children[0].value is None
    assert is_error(trace("a0", many).value)
    watched = calls(lambda: trace("a0", many)) - calls(lambda: many.eval("a0"))
    assert watched < 20 * LIMITS.trace_steps
