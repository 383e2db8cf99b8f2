"""From places to sites: every node with what stands around it."""

from __future__ import annotations

from collections.abc import Iterator

from matchmaker.classad.functions import FUNCTIONS, Trait, traits_of
from matchmaker.classad.nodes import AdExpr, Attr, Binary, Call, Expr, Literal
from matchmaker.linting.model import Definition, Scope, Site, Unit
from matchmaker.linting.pieces import Whole


def unit_of(whole: Whole) -> Unit:
    """Every node of an ad or expression, each before its parts, without recursion."""
    sites: list[Site] = []
    scopes = [whole.scope]
    stack = [Site(place, piece, None, whole.scope, set()) for piece, place in reversed(whole.roots)]
    while stack:
        site = stack.pop()
        sites.append(site)
        node, place = site.place.node, site.place
        site.guards.update(_guarded(node))
        if isinstance(node, Literal):
            continue
        parts: list[Site] = []
        if isinstance(node, AdExpr):
            scope = Scope(
                tuple(
                    Definition(name, part, site.piece, site.piece)
                    for name, part in zip(place.names, place.parts, strict=True)
                ),
                site.scope,
            )
            scopes.append(scope)
            for part in place.parts:
                parts.append(Site(part, site.piece, site, scope, set(), site.elsewhere))  # noqa: PERF401
        else:
            function = FUNCTIONS.get(node.function.lower()) if isinstance(node, Call) else None
            elsewhere = function.elsewhere if function is not None else -1
            for index, part in enumerate(place.parts):
                parts.append(
                    Site(part, site.piece, site, site.scope, site.guards,
                         site.elsewhere or index == elsewhere)
                )  # fmt: skip
        stack.extend(reversed(parts))
    return Unit(tuple(sites), tuple(scopes))


def _guarded(node: Expr) -> Iterator[str]:
    """The names that a node tests for being there, in lower case."""
    asked: tuple[Expr, ...] = ()
    if isinstance(node, Call) and Trait.ASKING in traits_of(node.function, len(node.arguments)):
        asked = node.arguments
    elif isinstance(node, Binary) and node.operator in ("is", "isnt"):
        asked = (node.left, node.right)
    elif isinstance(node, Binary) and node.operator == "?:":
        asked = (node.left,)
    for part in asked:
        if isinstance(part, Attr):
            yield part.folded
