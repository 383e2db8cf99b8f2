"""How many cases agreed in all tests of a run together, whatever process ran them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

AGREEING: Final = "cases that agree with HTCondor"
DIFFERING: Final = "cases that differ on purpose"
"""The properties of a test's report that hold its figures."""


def added_up(reports: Mapping[str, Iterable[Any]]) -> tuple[int, int]:
    """How many cases agreed and how many differed in all reports together.

    >>> from types import SimpleNamespace
    >>> report = SimpleNamespace(user_properties=[(AGREEING, 1999), (DIFFERING, 1)])
    >>> added_up({"passed": [report, report], "skipped": [SimpleNamespace()]})
    (3998, 2)
    """
    figures = {AGREEING: 0, DIFFERING: 0}
    for kind in ("passed", "failed"):
        for report in reports.get(kind, ()):
            for name, number in getattr(report, "user_properties", ()):
                if name in figures:
                    figures[name] += number
    return figures[AGREEING], figures[DIFFERING]


def line(agreeing: int, differing: int) -> str:
    """One line with the figures.

    >>> line(1999, 1)
    'conformance: 1,999 of 2,000 cases agree with HTCondor, 1 differs as listed'
    """
    verb = "differs" if differing == 1 else "differ"
    return (
        f"conformance: {agreeing:,} of {agreeing + differing:,} cases agree with HTCondor, "
        f"{differing:,} {verb} as listed"
    )
