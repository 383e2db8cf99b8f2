"""Checks that workers have the client's version: another one might give other answers."""

from __future__ import annotations

from importlib import metadata
from typing import Final

from matchmaker.shards.errors import ClusterError

VERSION: Final = metadata.version("classad-matchmaker")
"""Of the library, in this process."""


def version() -> str:
    """The version of the library where this runs."""
    return VERSION


def refuse_version(who: str, theirs: str, ours: str) -> None:
    """Raises ClusterError for another version, which might give other answers."""
    if theirs != ours:
        raise ClusterError(
            f"{who} has matchmaker {theirs}, and here is {ours}: install one version everywhere"
        )
