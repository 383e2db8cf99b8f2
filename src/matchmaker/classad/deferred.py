"""Expressions that are read when they are looked at.

Most attributes of most ads never are. ``scanner`` has checked before that the text is an
expression, so a syntax error is still reported when the ad is read.
"""

from __future__ import annotations

from typing import Any

from matchmaker.classad.nodes import METHODS, Expr, Literal


class Deferred:
    """An expression whose text has been checked: its nodes are made when they are looked at."""

    __slots__ = ("_node", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._node: Expr | None = None

    @property
    def node(self) -> Expr:
        """The expression."""
        if self._node is None:
            self._node = METHODS["read"](self.text)
        return self._node

    @property
    def held(self) -> Any:
        """What an ad holds for it: the value, if it is a constant."""
        node = self.node
        return node.value if type(node) is Literal else node
