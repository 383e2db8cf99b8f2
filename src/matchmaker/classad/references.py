"""What an expression refers to: the names in it, by scope, and the kinds of functions it calls.

The one analysis of names. It is done once for a node and kept on it. What the names stand for is
not known here: that depends on the ads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

import attrs

from matchmaker.classad import nodes
from matchmaker.classad.nodes import MY_SCOPES, AdExpr, Attr, Call, Expr, Literal
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.registry import Trait, Traits, traits_of
from matchmaker.classad.unparse import unparse
from matchmaker.classad.walks import children, postorder

SCOPES: Final = MY_SCOPES | nodes.TARGET_SCOPES

SPECIAL: Final[Mapping[str, str]] = {
    "my": "MY", "target": "TARGET", "other": "other", "self": "self", "parent": "parent",
    "root": "root", "toplevel": "toplevel", "currenttime": "CurrentTime",
}  # fmt: skip
"""The folded names that mean something where no ad defines them, as they are mostly spelled."""

CLOCK: Final = "currenttime"
"""The one of them that stands for the seconds since 1970."""

WORDS: Final = frozenset(SPECIAL) - {CLOCK}
"""Those that stand for a whole ad."""


@attrs.frozen(slots=True, eq=False)
class Path:
    """A name with all that is written before it, such as ``other.Disk.Free``.

    ``base`` is the expression before the last name, ``start`` the one before the first, as in
    ``f(x).y``; ``absolute`` whether the first name is one of the root ad, as in ``.x``.
    """

    base: Expr | None
    names: tuple[str, ...]
    folded: tuple[str, ...]
    start: Expr | None
    absolute: bool

    @cached_property
    def text(self) -> str:
        """The whole as text."""
        return unparse(self.node)

    @property
    def node(self) -> Attr:
        """The expression; not kept, since it may keep the path itself."""
        return Attr(self.base, self.names[-1], self.absolute and self.base is None)

    @property
    def scope(self) -> str:
        """The folded word MY, self, TARGET or other before the second name, or empty."""
        scoped = self.start is None and not self.absolute and len(self.folded) > 1
        return self.folded[0] if scoped and self.folded[0] in SCOPES else ""


@attrs.frozen(slots=True, eq=False)
class Names:
    """The names in an expression, and the traits of all functions that it calls.

    ``parts`` are all but constants and the whole, each before what it is a part of; ``my`` the
    folded names after MY or self, ``target`` those after TARGET or other, ``bare`` those at the
    beginning of a path, ``behind`` those behind any other name or expression, or of the root ad,
    ``defined`` those that nested ads define. ``whole`` says whether an ad as a whole is a value, as
    in ``size(other)``, ``opaque`` whether other names or chance may count, ``volatile`` whether the
    value may differ the next time. ``bytes`` is 0 until ``size_of`` asks.
    """

    parts: tuple[Expr, ...]
    paths: tuple[Path, ...]
    spelled: tuple[str, ...]
    my: frozenset[str]
    target: frozenset[str]
    bare: frozenset[str]
    behind: frozenset[str]
    defined: frozenset[str]
    nested: bool
    traits: Traits
    whole: bool
    opaque: bool
    volatile: bool
    bytes: int = attrs.field(init=False, default=0)

    @property
    def attributes(self) -> frozenset[str]:
        """The folded names of all attributes, without the scopes before them."""
        return self.my | self.target | self.bare | self.behind


def names_of(root: Expr) -> Names:
    """The names in an expression. The answer is kept on the node.

    >>> from matchmaker import parse_expr
    >>> found = names_of(parse_expr("other.Ram > 2 * MY.Want && time() > Disk.Free"))
    >>> found.spelled, [path.text for path in found.paths], found.volatile
    (('other', 'Ram', 'MY', 'Want', 'Disk', 'Free'), ['other.Ram', 'MY.Want', 'Disk.Free'], True)
    """
    if root.mentions is None:
        object.__setattr__(root, "mentions", _names_of(root))
    return root.mentions  # type: ignore[no-any-return]


def _names_of(root: Expr) -> Names:
    inside = list(postorder(root))
    paths = list(_paths(root, inside))
    my: set[str] = set()
    target: set[str] = set()
    bare: set[str] = set()
    behind: set[str] = set()
    opaque = False
    for path in paths:
        found, rest = behind, path.folded
        if path.scope:
            found, rest = my if path.scope in MY_SCOPES else target, path.folded[1:]
        elif path.start is None and not path.absolute:
            found = bare
        found.add(rest[0])
        behind.update(rest[1:])
        opaque = opaque or not WORDS.isdisjoint(rest)
    traits: Traits = frozenset()
    for node in inside:
        if isinstance(node, Call):
            traits |= traits_of(node.function, len(node.arguments))
    nested = [node for node in inside if isinstance(node, AdExpr)]
    return Names(
        tuple(node for node in inside[:-1] if not isinstance(node, Literal)),
        tuple(paths),
        tuple(dict.fromkeys(name for path in paths for name in path.names)),
        *(frozenset(my), frozenset(target), frozenset(bare), frozenset(behind)),
        defined=frozenset(ascii_fold(name) for node in nested for name in node.names),
        nested=bool(nested),
        traits=traits,
        whole=any(path.folded[-1] in WORDS for path in paths),
        opaque=opaque or bool(traits & {Trait.REFLECTIVE, Trait.CHANCE}),
        volatile=bool(traits & {Trait.VOLATILE, Trait.LOCAL})
        or any(CLOCK in path.folded for path in paths),
    )


def _paths(root: Expr, inside: list[Expr]) -> Iterator[Path]:
    # Equal nodes are one, so that `other` may stand before a name here and alone there.
    ends = {child for node in inside if not isinstance(node, Attr) for child in children(node)}
    ends.add(root)
    for node in inside:
        if isinstance(node, Attr) and node in ends:
            chain = [node]
            while isinstance(base := chain[-1].base, Attr):
                chain.append(base)
            chain.reverse()
            names, folded = tuple(n.name for n in chain), tuple(n.folded for n in chain)
            yield Path(node.base, names, folded, chain[0].base, chain[0].absolute)


def references(root: Expr) -> nodes.References:
    """See :meth:`Expr.references`. Names inside nested ads that the ad itself defines count too."""
    my: dict[str, str] = {}
    target: dict[str, str] = {}
    unscoped: dict[str, str] = {}
    for path in names_of(root).paths:
        if path.scope:
            found = my if path.scope in MY_SCOPES else target
            found.setdefault(path.folded[1], path.names[1])
        elif path.start is None:
            unscoped.setdefault(path.folded[0], path.names[0])
    return nodes.References(tuple(my.values()), tuple(target.values()), tuple(unscoped.values()))
