"""Every call takes work in proportion to the size of a hostile shape, or less: in counted calls.

Counted are the functions that are called, Python's and C's, while a call is made with a shape of
one size and of twice that size; ``SHAPES_SIZE`` sets the size. No time is measured.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from matchmaker import ParseError, forget
from matchmaker._limits import CLASSAD_LIMITS, LINT_LIMITS, POOL_LIMITS
from matchmaker.classad import reference
from matchmaker.classad.state import Budget
from tests.attack.shapes import CALLS, SHAPES, Case, Met
from tests.limits import fields

SIZE: Final = int(os.environ.get("SHAPES_SIZE", "60"))

AMONG: Final = int(os.environ.get("SHAPES_CALLS", "2"))
"""How many of the calls each shape meets; `make nightly` makes them all."""

SLACK: Final = 20_000
"""Calls that are no matter: what a cache makes once, and what bounds leave."""

BOUNDS: Final = 1_000_000
"""Calls that are counted beyond all that, so the way that a bound leads to is counted whole."""

TIMES: Final = 2.6
"""How much more work twice the size may be. Where it is the square, it is four times as much."""


class CountedTooFarError(BaseException):
    """Ends a call that has taken too much already."""


def counted(work: Callable[[], object], most: float) -> int:
    """How many functions are called; no more than `most` are waited for."""
    made = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal made
        made += event.endswith("call")
        if made > most:
            sys.setprofile(None)
            raise CountedTooFarError

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    except (CountedTooFarError, ParseError):
        pass
    finally:
        sys.setprofile(before)
    return made


def calls_of(number: int) -> list[str]:
    """The calls that the shape of a number meets: all of them once for every few shapes."""
    names = list(CALLS)
    return [names[(number * AMONG + place) % len(names)] for place in range(min(AMONG, len(names)))]


@pytest.mark.parametrize(
    ("shape", "call"),
    [(shape, call) for number, shape in enumerate(SHAPES) for call in calls_of(number)],
)
def test_twice_the_size_is_no_more_than_twice_the_work(
    shape: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whether a function is made of an expression hangs on what was evaluated before.
    monkeypatch.setattr(reference, "COMPILE_AFTER", 1 << 60)
    # Work that grows as two to the power of the size is at its bound with either size.
    monkeypatch.setattr(Budget, "limit", 4_000)
    monkeypatch.setitem(fields(CLASSAD_LIMITS), "question", 16_000)
    monkeypatch.setitem(fields(CLASSAD_LIMITS), "question_each", 200)
    monkeypatch.setitem(fields(CLASSAD_LIMITS), "trace_steps", 4_000)
    monkeypatch.setitem(fields(LINT_LIMITS), "names", 2_000)
    monkeypatch.setitem(fields(POOL_LIMITS), "flat", 16_000)
    monkeypatch.setitem(fields(POOL_LIMITS), "each", 200)
    # The first call of its kind imports modules.
    CALLS[call](Met.of(SHAPES[shape](3)))
    before = work(shape, call, SIZE, 1 << 40)
    found = [before]
    # Where a bound is met another way may be taken, which costs more but once.
    for size in (2 * SIZE, 4 * SIZE):
        most = TIMES * before + SLACK
        before = work(shape, call, size, 4 * most + BOUNDS)
        found.append(before)
        if before <= most:
            return
    pytest.fail(f"{found[0]:,} calls, {found[1]:,} for twice, {found[2]:,} for four times the size")


def work(shape: str, call: str, size: int, most: float) -> int:
    """How many functions a call of a shape calls, with nothing in the caches."""
    met = Met.of(SHAPES[shape](size))
    forget()
    met.pool.forget()
    return counted(partial(CALLS[call], met), most)


def test_work_that_grows_with_the_square_is_seen() -> None:
    def squared(size: int) -> int:
        return counted(lambda: [len("") for _ in range(size * size)], 1 << 40)

    assert squared(2 * 200) > TIMES * squared(200) + SLACK


def test_there_are_sixty_shapes_and_each_grows() -> None:
    assert len(SHAPES) >= 60
    for make in SHAPES.values():
        small, large = (make(size) for size in (5, 20))
        assert text(small) < text(large)


def text(case: Case) -> int:
    return len(case.job) + sum(map(len, case.slots))
