"""How many random cases properties try: few in each run of all tests, many in `make nightly`."""

from __future__ import annotations

import os

SCALE = float(os.environ.get("PROPERTY_SCALE", "0.4"))
"""Of the numbers that properties name; `make nightly` sets 10."""


def cases(number: int) -> int:
    """Scale a number of cases; ten at least."""
    return max(10, round(SCALE * number))
