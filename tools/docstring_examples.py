"""Lets the documentation site show the examples of docstrings as code.

A docstring of ours holds its examples as doctests among the text. Markdown would take ``>>>`` for
quotations, so each run of such lines gets fences. Loaded by mkdocstrings (see ``mkdocs.yml``).
"""

from __future__ import annotations

import re
from typing import Any

import griffe

# From a line that begins with the prompt up to an empty line or the end.
EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?! *$).*)*", re.MULTILINE)


def fenced(text: str) -> str:
    """A docstring with fences around each doctest."""
    return EXAMPLE.sub(
        lambda found: f"{found['indent']}```pycon\n{found[0]}\n{found['indent']}```", text
    )


class DocstringExamples(griffe.Extension):
    """Puts the doctests of each docstring into fences."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe with each object that it has loaded."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
