"""Lets the documentation site show the docstrings of the library, which are not Markdown.

They hold examples as doctests among the text. Markdown would take ``>>>`` for quotations, so each
run of such lines gets fences. Roles such as ``:func:`` go. Loaded by mkdocstrings (``mkdocs.yml``).
"""

from __future__ import annotations

import re
from typing import Any

import griffe

# From a line that begins with the prompt up to an empty line or the end.
EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?! *$).*)*", re.MULTILINE)
ROLE = re.compile(r":(?:class|func|meth|mod):(?=`)")


def as_markdown(text: str) -> str:
    """A docstring with fences around each doctest, and without roles."""
    return EXAMPLE.sub(
        lambda found: f"{found['indent']}```pycon\n{found[0]}\n{found['indent']}```",
        ROLE.sub("", text),
    )


class DocstringExamples(griffe.Extension):
    """Turns each docstring into Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe with each object that it has loaded."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
