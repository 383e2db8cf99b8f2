"""Which of some names one was probably meant for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LONGEST: Final = 64
"""Of longer names the likeness is not sought: it takes its time."""


def closest(name: str, candidates: Mapping[str, str], likeness: float = 0.8) -> str:
    """The spelling whose key, in small letters, is most like a name, or empty.

    `likeness` is the least that counts, from 0 to 1, which is the same name.

    >>> closest("Memroy", {"memory": "Memory", "cpus": "Cpus"}), closest("x", {"memory": "Memory"})
    ('Memory', '')
    """
    from difflib import get_close_matches

    short = [folded for folded in candidates if len(folded) <= LONGEST]
    found = get_close_matches(name.lower()[:LONGEST], short, n=1, cutoff=likeness)
    return candidates[found[0]] if found else ""
