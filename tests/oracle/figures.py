"""How many cases agreed in all tests of a run together, whatever process ran them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

AGREEING: Final = "cases that agree with HTCondor"
DIFFERING: Final = "cases that differ on purpose"
"""The properties of a test's report that hold its figures."""


def line(reports: Mapping[str, Iterable[Any]]) -> str | None:
    """One line with the figures of all reports; None where no test has compared anything.

    >>> from types import SimpleNamespace
    >>> line({"passed": [SimpleNamespace(user_properties=[(AGREEING, 1999), (DIFFERING, 1)])]})
    'conformance: 1,999 of 2,000 cases agree with HTCondor, 1 differs as listed'
    """
    figures = {AGREEING: 0, DIFFERING: 0}
    for kind in ("passed", "failed"):
        for report in reports.get(kind, ()):
            for name, number in getattr(report, "user_properties", ()):
                if name in figures:
                    figures[name] += number
    agreeing, differing = figures[AGREEING], figures[DIFFERING]
    if not agreeing:
        return None
    verb = "differs" if differing == 1 else "differ"
    return (
        f"conformance: {agreeing:,} of {agreeing + differing:,} cases agree with HTCondor, "
        f"{differing:,} {verb} as listed"
    )
