"""Strategies for a job and a machine that meet, with the share of those that match.

Where an ad comes without Requirements they are made to measure: clauses on what the other ad holds,
turned so that they are true of it where the two are to match, and one of them false where not.
Requirements that an ad has stay as they are; then pairs are drawn until one is as wanted.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from hypothesis import reject
from hypothesis import strategies as st

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import FALSE, TRUE, Expr, ListExpr, Literal
from matchmaker.classad.values import is_exceptional, wrap
from matchmaker.classad.walks import conjunction
from matchmaker.matching.pair import REQUIREMENTS, match
from matchmaker.testing.policies import draw_condition, opposite
from matchmaker.testing.resources import jobs, machines, with_own
from matchmaker.testing.trees import Attributes, is_text

# How often two ads are drawn until they match or do not, as wanted.
_TRIES: Final = 20


class Pair(NamedTuple):
    """A job and a machine."""

    job: ClassAd
    machine: ClassAd

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        with printer.group(4, "Pair(", ")"):
            for name, ad in zip(self._fields, self, strict=True):
                printer.break_()
                printer.text(f"{name}=")
                printer.pretty(ad)
                printer.text(",")


def pairs(
    job: Attributes | st.SearchStrategy[ClassAd] | None = None,
    machine: Attributes | st.SearchStrategy[ClassAd] | None = None,
    *,
    matching: float | None = 0.5,
) -> st.SearchStrategy[Pair]:
    """Pairs of a job and a machine, of which a given share match.

    Args:
        job: own attributes of the job, as for ``jobs()``, or a strategy for whole ads.
        machine: own attributes of the machine, as for ``machines()``, or a strategy for whole ads.
        matching: the share of pairs that match, from 0 to 1; None takes them as they come.

    An ad without Requirements gets some that fit. Those that are given, or that the ads of a
    strategy have, are left alone: where they accept or refuse nearly everything, a share of the
    other kind cannot be found, and Hypothesis says that too much is filtered out.

    Raises ValueError for a share below 0 or above 1.

    >>> from hypothesis import given
    >>> from matchmaker import match, parse_expr
    >>> @given(pairs({"RequestMemory": 2048}, matching=0))
    ... def test_one_of_them_refuses(pair):
    ...     assert not match(*pair).matched
    >>> test_one_of_them_refuses()
    >>> policy = parse_expr("TARGET.RequestMemory <= MY.Memory")
    >>> @given(pairs(machine={"Requirements": policy}, matching=1))
    ... def test_the_policy_holds(pair):
    ...     assert pair.job.eval("RequestMemory") <= pair.machine.eval("Memory")
    >>> test_the_policy_holds()
    """
    if matching is not None and not 0 <= matching <= 1:
        raise ValueError(f"a share is from 0 to 1, not {matching}")
    unset = {REQUIREMENTS: None}
    return _pairs(
        job if isinstance(job, st.SearchStrategy) else jobs(with_own(unset, job)),
        machine if isinstance(machine, st.SearchStrategy) else machines(with_own(unset, machine)),
        matching,
    )


@st.composite
def _pairs(
    draw: st.DrawFn,
    jobs: st.SearchStrategy[ClassAd],
    machines: st.SearchStrategy[ClassAd],
    matching: float | None,
) -> Pair:
    wanted = None if matching is None else draw(_chance(matching))
    for _ in range(_TRIES):
        job, machine = draw(jobs), draw(machines)
        if wanted and not match(job, machine).matched:
            # Given requirements refuse, and an ad without any accepts.
            continue
        unset = [number for number, ad in enumerate((job, machine)) if REQUIREMENTS not in ad]
        refusing = draw(st.sampled_from(unset)) if unset and wanted is False else None
        pair = Pair(
            _with_requirements(draw, job, machine, wanted, refuse=refusing == 0),
            _with_requirements(draw, machine, job, wanted, refuse=refusing == 1),
        )
        if wanted is None or match(*pair).matched is wanted:
            return pair
    return reject()


def _chance(share: float) -> st.SearchStrategy[bool]:
    """True in a share of cases, to a hundredth; the simplest is true where it can be."""
    hundredths = round(share * 100)
    return st.integers(1, 100).map(lambda number: number <= hundredths)


def _with_requirements(
    draw: st.DrawFn, ad: ClassAd, other: ClassAd, wanted: bool | None, *, refuse: bool
) -> ClassAd:
    """The ad itself if it has Requirements, else with such as refuse the other ad or do not."""
    if REQUIREMENTS in ad:
        return ad
    found = ad.copy()
    found[REQUIREMENTS] = _requirements(draw, ad, other, wanted, refuse=refuse)
    return found


def _requirements(
    draw: st.DrawFn, ad: ClassAd, other: ClassAd, wanted: bool | None, *, refuse: bool
) -> Expr:
    theirs = _near(other)
    if not theirs:
        return FALSE if refuse else TRUE
    mine = _near(ad)
    count = draw(st.integers(int(refuse), 4))
    clauses = [draw_condition(draw, theirs, mine, "TARGET") for _ in range(count)]
    if refuse:
        at = draw(st.integers(0, count - 1))
        turned_clause = _turned(clauses[at], ad, other, False)
        clauses[at] = clauses[at] if turned_clause is None else turned_clause
    elif wanted is not None:
        turned = (_turned(clause, ad, other, True) for clause in clauses)
        clauses = [clause for clause in turned if clause is not None]
    return conjunction(clauses)


def _turned(clause: Expr, ad: ClassAd, other: ClassAd, wanted: bool) -> Expr | None:
    """A clause or its opposite, whichever is as wanted of the other ad; None if neither is."""
    for one in (clause, opposite(clause)):
        if one.eval(ad, other) is wanted:
            return one
    return None


def _near(ad: ClassAd) -> dict[str, st.SearchStrategy[Any]]:
    """What to compare the attributes of an ad with: their values, and others close to them."""
    found: dict[str, st.SearchStrategy[Any]] = {}
    for name, held in ad.expressions().items():
        if isinstance(held, (Literal, ListExpr)):
            value = ad.eval(name)
            if not is_exceptional(value):
                found[name] = _around(value)
    return found


def _around(value: Any) -> st.SearchStrategy[Any]:
    if isinstance(value, bool):
        return st.just(value)
    if isinstance(value, int):
        return st.sampled_from((value, wrap(value + 1), wrap(value - 1), wrap(value * 2)))
    if isinstance(value, float) and math.isfinite(value):
        return st.sampled_from((value, value / 2, value + 1))
    if is_text(value):
        return st.sampled_from((value, value.swapcase(), "other"))
    return st.just(value)
