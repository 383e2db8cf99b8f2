"""Pools that subcommands read."""

from __future__ import annotations

from matchmaker import Pool
from matchmaker.cli import sources


def read(paths: tuple[str, ...], key: str) -> Pool:
    """The pool of all ads in some files, in any format.

    Raises ValueError where the key does not tell them apart.
    """
    return Pool((ad for path in paths for ad in sources.ads(path)), key)
