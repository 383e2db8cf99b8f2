"""The attribute names that an expression mentions, by scope."""

from __future__ import annotations

from matchmaker.classad.nodes import (
    MY_SCOPES,
    TARGET_SCOPES,
    Attr,
    Expr,
    References,
    postorder,
    scope_of,
)


def references(root: Expr) -> References:
    """See :meth:`Expr.references`. Names inside nested ads that the ad itself defines count too."""
    found: tuple[dict[str, str], dict[str, str], dict[str, str]] = ({}, {}, {})
    scoped: set[Expr] = set()
    attributes = [node for node in postorder(root) if isinstance(node, Attr)]
    for node in attributes:
        scope = scope_of(node)
        if scope in MY_SCOPES or scope in TARGET_SCOPES:
            names = found[0] if scope in MY_SCOPES else found[1]
            names.setdefault(node.folded, node.name)
            if node.base is not None:
                scoped.add(node.base)
    for node in attributes:
        if node.base is None and node not in scoped:
            found[2].setdefault(node.folded, node.name)
    return References(*(tuple(names.values()) for names in found))
