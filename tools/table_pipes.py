r"""A Markdown extension for the documentation site: ``\|`` in the code of a table means ``|``.

A forge needs the backslash, so that the bar does not end the cell, and leaves it out in the page.
Python-Markdown would show it.
"""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString


class _Pipes(Treeprocessor):
    def run(self, root: Element) -> None:
        """Called by Markdown with the whole page, after code is told from text."""
        for cell in (*root.iter("td"), *root.iter("th")):
            for code in cell.iter("code"):
                code.text = AtomicString((code.text or "").replace("\\|", "|"))


class TablePipes(Extension):
    """The extension."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - Markdown's name
        """Called by Markdown to enter the extension."""
        md.treeprocessors.register(_Pipes(md), "table_pipes", 0)


def makeExtension(**settings: Any) -> TablePipes:  # noqa: N802 - Markdown's name
    """The extension, for its name in ``mkdocs.yml``."""
    return TablePipes(**settings)
