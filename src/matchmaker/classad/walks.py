"""Walks over expressions: parts, rebuilding, folding, left chains, clauses.

No walk recurses, since chains may be thousands long. The kinds of nodes are in ``nodes``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, reduce
from operator import attrgetter
from typing import Any, Final, TypeVar

import attrs

from matchmaker.classad import nodes
from matchmaker.classad.functions import Trait, Traits, traits_of
from matchmaker.classad.nodes import (
    FALSE,
    MY_SCOPES,
    TRUE,
    AdExpr,
    Attr,
    Binary,
    Call,
    Expr,
    Literal,
)
from matchmaker.classad.operators import MIRRORED, ascii_fold
from matchmaker.classad.printer import unparse
from matchmaker.classad.values import Value

_R = TypeVar("_R")
_weight: Final = attrgetter("weight")


def children(node: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside a node, in the order in which they are written."""
    return _CHILDREN[type(node)](node)


_CHILDREN: Final[Mapping[type, Callable[[Any], tuple[Expr, ...]]]] = {
    Literal: lambda n: (),
    Attr: lambda n: (n.base,) if n.base is not None else (),
    nodes.Unary: lambda n: (n.operand,),
    Binary: attrgetter("left", "right"),
    nodes.Ternary: attrgetter("condition", "then", "otherwise"),
    Call: attrgetter("arguments"),
    nodes.Subscript: attrgetter("base", "index"),
    nodes.ListExpr: attrgetter("items"),
    nodes.AdExpr: attrgetter("expressions"),
}


def rebuild(node: Expr, parts: tuple[Expr, ...]) -> Expr:
    """The same kind of node around other children."""
    if parts == children(node):
        return node
    return _REBUILD[type(node)](node, parts)


_REBUILD: Final[Mapping[type, Callable[[Any, tuple[Expr, ...]], Expr]]] = {
    Attr: lambda n, p: Attr(p[0], n.name, n.absolute),
    nodes.Unary: lambda n, p: nodes.Unary(n.operator, *p),
    Binary: lambda n, p: Binary(n.operator, *p),
    nodes.Ternary: lambda n, p: nodes.Ternary(*p),
    Call: lambda n, p: Call(n.function, p),
    nodes.Subscript: lambda n, p: nodes.Subscript(*p),
    nodes.ListExpr: lambda n, p: nodes.ListExpr(p),
    nodes.AdExpr: lambda n, p: nodes.AdExpr(n.names, p),
}


def postorder(root: Expr) -> Iterator[Expr]:
    """Every distinct node, children before parents, left to right, without recursion."""
    seen: set[Expr] = set()
    # None stands above a node whose children are done.
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if node is None:
            yield stack.pop()
        elif node not in seen:
            seen.add(node)
            stack += (node, None)
            stack += reversed(_CHILDREN[type(node)](node))


def fold(root: Expr, step: Callable[[Expr, tuple[_R, ...]], _R]) -> _R:
    """Computes something bottom-up: ``step(node, results of its children)``, once a distinct node.

    >>> from matchmaker import parse_expr
    >>> fold(parse_expr("1 + 2 * 3"), lambda node, parts: 1 + sum(parts))
    5
    """
    results: dict[Expr, _R] = {}
    for node in postorder(root):
        results[node] = step(node, tuple(results[child] for child in children(node)))
    return results[root]


def replaced(root: Expr, old: Expr, new: Expr) -> Expr:
    """An expression with each occurrence of one part replaced by another.

    >>> from matchmaker import parse_expr
    >>> replaced(parse_expr("a > 1 && (b || a > 1)"), parse_expr("a > 1"), parse_expr("c"))
    Expr('c && (b || c)')
    """
    return fold(root, lambda node, parts: new if node is old else rebuild(node, parts))


def weight(root: Expr) -> int:
    """Count the nodes of a tree, each as often as it occurs; kept on each node of it.

    >>> from matchmaker import parse_expr
    >>> weight(parse_expr("a + 1 > a + 1"))
    7
    """
    # What has its weight is not walked: around a chain there may be another one link longer.
    pending = [] if root.weight else [root]
    while pending:
        node = pending[-1]
        inner = children(node)
        lacking = [child for child in inner if not child.weight]
        if lacking:
            pending += lacking
        else:
            object.__setattr__(pending.pop(), "weight", 1 + sum(map(_weight, inner)))
    return root.weight


def key_size(key: object) -> int:
    """Bytes of the texts and expressions in a key of a cache; a node has 800 with compiled code.

    >>> from matchmaker import parse_expr
    >>> key_size(("abc", (parse_expr("a + 1"), 7)))
    2403
    """
    size = 0
    pending = [key]
    while pending:
        part = pending.pop()
        if isinstance(part, Expr):
            size += 800 * weight(part)
        elif isinstance(part, str):
            size += len(part)
        elif isinstance(part, (tuple, frozenset)):
            pending += part
    return size


def spine(node: Expr, belongs: Callable[[Binary], bool] | None = None) -> tuple[Expr, list[Binary]]:
    """The first operand of a left chain of operators, and its links from the last to the first.

    Chains may be thousands long: hence a loop. `belongs` refuses the link where a chain ends.
    """
    links: list[Binary] = []
    while type(node) is Binary and (belongs is None or belongs(node)):
        links.append(node)
        node = node.left
    return node, links


def operands(node: Binary) -> list[Expr]:
    """The operands of a left chain of one operator, in order."""
    first, links = spine(node, lambda link: link.operator == node.operator)
    return [first, *(link.right for link in reversed(links))]


def conjuncts(root: Expr) -> list[Expr]:
    """The clauses of a requirement: the operands of its outermost ``&&`` chain, in order.

    >>> from matchmaker import parse_expr
    >>> [str(c) for c in conjuncts(parse_expr("a > 1 && (b || c) && d"))]
    ['a > 1', 'b || c', 'd']
    """
    return _flattened(root, "&&")


def disjuncts(root: Expr) -> list[Expr]:
    """The alternatives of a condition: the operands of its outermost ``||`` chain, in order."""
    return _flattened(root, "||")


def _flattened(root: Expr, operator: str) -> list[Expr]:
    found, stack = [], [root]
    while stack:
        node = stack.pop()
        if isinstance(node, Binary) and node.operator == operator:
            stack += (node.right, node.left)
        else:
            found.append(node)
    return found


def conjunction(clauses: list[Expr]) -> Expr:
    """The clauses joined with ``&&``; no clause at all is ``true``."""
    return reduce(lambda left, right: Binary("&&", left, right), clauses or [TRUE])


def disjunction(alternatives: list[Expr]) -> Expr:
    """The alternatives joined with ``||``; no alternative at all is ``false``.

    >>> from matchmaker import parse_expr
    >>> print(disjunction(disjuncts(parse_expr("a > 1 || (b || c)"))))
    a > 1 || b || c
    """
    return reduce(lambda left, right: Binary("||", left, right), alternatives or [FALSE])


def compared(node: Expr) -> tuple[Expr, str, Value] | None:
    """The subject, the relation and the constant of a comparison with a constant.

    The constant may stand on either side: ``5 < x`` is ``x > 5``. None for any other expression.

    >>> from matchmaker import parse_expr
    >>> compared(parse_expr("5 < x")), compared(parse_expr("x is undefined")), compared(TRUE)
    ((Expr('x'), '>', 5), (Expr('x'), 'is', UNDEFINED), None)
    """
    if not isinstance(node, Binary) or node.operator not in MIRRORED:
        return None
    if isinstance(node.right, Literal):
        return node.left, node.operator, node.right.value
    if isinstance(node.left, Literal):
        return node.right, MIRRORED[node.operator], node.left.value
    return None


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

    ``parts`` are all but constants and the whole, inner ones first; ``my`` the
    folded names after MY or self, ``target`` those after TARGET or other, ``bare`` those at the
    beginning of a path, ``behind`` those behind any other name or expression, or of the root ad,
    ``defined`` those that nested ads define. ``whole`` says whether an ad as a whole is a value, as
    in ``size(other)``, ``opaque`` whether other names or chance may count, ``volatile`` whether the
    value may differ the next time.
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
