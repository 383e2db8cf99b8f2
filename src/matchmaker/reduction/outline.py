"""Outlines: what an expression names, and which of its parts may hang on a host, whatever the ads.

Nodes are interned, so that an outline is read off a requirement once and serves for every queue.
"""

from __future__ import annotations

from typing import Final

import attrs

from matchmaker.classad.cache import Cache
from matchmaker.classad.footprint import size_of
from matchmaker.classad.functions.registry import UNFOLDABLE, Trait
from matchmaker.classad.nodes import (
    MY_SCOPES,
    TARGET_SCOPES,
    AdExpr,
    Attr,
    Expr,
    Literal,
    children,
    postorder,
)
from matchmaker.classad.unparse import unparse
from matchmaker.reduction.facts import NOW, traits

SCOPE_WORDS: Final = MY_SCOPES | TARGET_SCOPES | {"parent", "root", "toplevel"}

_MOVING: Final = Trait.VOLATILE | Trait.LOCAL | Trait.ZONE | Trait.CODE


@attrs.frozen(slots=True, eq=False)
class Part:
    """A part of an expression: a host has a say in it by names in it, or by the parts in it.

    Of ``my.S`` both are names: where an ad defines ``my``, that is an attribute like any other.
    """

    node: Expr
    moving: bool
    """Whether it looks at the moment, at code, or at an ad as a whole."""
    names: tuple[str, ...]
    inner: tuple[Expr, ...]


@attrs.frozen(slots=True, eq=False)
class Outline:
    """What an expression names.

    ``parts`` come before the whole, without constants. ``names`` are all names in their spelling.
    ``stated`` are those that stand for something, each with its text, also in small letters: of
    ``other.a.b`` the whole, and not ``other``. A ``plain`` expression is made of names after one
    word for an ad, constants, operators and functions of values.
    """

    parts: tuple[Part, ...]
    moving: bool
    names: tuple[str, ...]
    stated: tuple[tuple[Attr, str, str], ...]
    plain: bool
    reflective: bool


_kept: Final[Cache[Expr, Outline]] = Cache("outlines of requirements", 1 << 23)


def outline(root: Expr) -> Outline:
    """The outline of an expression, kept where it is small.

    >>> from matchmaker import parse_expr
    >>> found = outline(parse_expr("other.Ram > 2 * MY.Want && time() > 5"))
    >>> found.names, [text for _, text, _ in found.stated], found.moving
    (('other', 'Ram', 'MY', 'Want'), ['other.Ram', 'MY.Want'], True)
    """
    found = _kept[root]
    if found is None:
        found = _read(root)
        # The parts of an outline take about as much as the tree.
        _kept.put(root, found, 2 * size_of(root) + size_of(found.stated))
    return found


def _read(root: Expr) -> Outline:
    nodes = list(postorder(root))
    parts = [_part(node) for node in nodes if not isinstance(node, Literal)]
    # A word for an ad that only leads to an attribute, as in `other.a`, is not itself looked at.
    seen = {root}.union(*(part.inner for part in parts))
    attributes = [node for node in nodes if isinstance(node, Attr)]
    bases = {node.base for node in attributes}
    texts = [(node, unparse(node)) for node in attributes if node not in bases]
    return Outline(
        tuple(parts),
        any(part.moving for part in parts if part.node in seen),
        tuple(dict.fromkeys(node.name for node in attributes)),
        tuple((node, text, text.lower()) for node, text in texts),
        all(map(_is_plain, nodes)),
        any(Trait.REFLECTIVE in traits(node) for node in nodes),
    )


def _part(node: Expr) -> Part:
    if isinstance(node, Attr):
        names = [node.name]
        base = node.base
        if base is not None and is_scope(base):
            while isinstance(base, Attr):
                names.append(base.name)
                base = base.base
        # Behind any ad a scope's word leads to another whole ad.
        moving = node.folded in SCOPE_WORDS or node.folded == NOW
        return Part(node, moving, tuple(names), _variable(base))
    return Part(node, bool(traits(node) & _MOVING), (), _variable(*children(node)))


def _variable(*nodes: Expr | None) -> tuple[Expr, ...]:
    return tuple(node for node in nodes if node is not None and not isinstance(node, Literal))


def is_scope(node: Expr) -> bool:
    """Whether a node is nothing but words for ads: ``other``, ``target.my``."""
    while isinstance(node, Attr) and node.folded in SCOPE_WORDS:
        if node.base is None:
            return True
        node = node.base
    return False


def _is_plain(node: Expr) -> bool:
    if isinstance(node, Attr):
        return node.base is None or (is_scope(node.base) and node.folded not in SCOPE_WORDS)
    return not isinstance(node, AdExpr) and not traits(node) & UNFOLDABLE
