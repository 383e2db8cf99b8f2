"""Finds the data that travels with the package: ``grammars/`` and ``schemas/``.

In a wheel they lie inside the package; in a checkout they lie at its root, two levels up.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def data_text(*parts: str) -> str:
    """The text of a data file, such as ``data_text("grammars", "classad.lark")``."""
    inside = files("matchmaker").joinpath(*parts)
    if inside.is_file():
        return inside.read_text(encoding="utf-8")
    return Path(__file__).parents[2].joinpath(*parts).read_text(encoding="utf-8")
