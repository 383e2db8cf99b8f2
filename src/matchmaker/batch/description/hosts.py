"""Lists of hosts as Slurm and LSF write them: ``n[1-3,07],login``."""

from __future__ import annotations

import re
from typing import Final

_MOST: Final = 7
"""Parts of a name between and in brackets, of which Slurm takes two pairs, or three."""
_TERM: Final = re.compile(r"(?:[^\s,\[\]]|\[[^\[\]]*\])+")
_RANGE: Final = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)


def terms(hosts: str) -> list[str]:
    """The parts of a list, between which are commas and blanks.

    >>> terms("n[1-3,07]x, login")
    ['n[1-3,07]x', 'login']
    """
    return _TERM.findall(hosts)


def has(hosts: str | None, name: str) -> bool:
    """Whether a list of hosts, ``n[1-3,07],login``, has a name.

    >>> [has("n[1-3,07]x,login", name) for name in ("n2x", "n07x", "n7x", "login", "n2")]
    [True, True, False, True, False]
    """
    return any(_is(term, name) for term in terms(hosts or ""))


def _is(term: str, name: str) -> bool:
    parts = re.split(r"\[([^\]]*)\]", term)
    if len(parts) > _MOST:
        return False
    pattern = r"(\d{1,18})".join(re.escape(part) for part in parts[::2])
    found = re.fullmatch(pattern, name, re.ASCII)
    return found is not None and all(map(_in_ranges, parts[1::2], found.groups()))


def _in_ranges(ranges: str, number: str) -> bool:
    for low, high in _RANGE.findall(ranges):
        written = str(int(number)).zfill(len(low)) if low.startswith("0") else str(int(number))
        if number == written and int(low) <= int(number) <= int(high or low):
            return True
    return False
