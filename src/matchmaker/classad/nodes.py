"""The tree of an expression: eight kinds of frozen, slotted, interned nodes, and how to walk them.

Equal nodes are one object, so that a million slots with one START expression hold one tree, a node
is compared and hashed by identity, and whatever is derived from a node can be cached by it. What a
node evaluates to is in ``evaluate``; how it prints is in ``unparse``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from sys import intern
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import attrs

from matchmaker.classad.interning import EXACT, TABLE, entered, exactly
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.values import Ad, Value

_R = TypeVar("_R")
_N = TypeVar("_N", bound="Expr")


METHODS: Final[dict[str, Callable[..., Any]]] = {}
"""The functions behind the methods of expressions and ads. They stand in modules that import this
one; ``methods`` enters them."""


@attrs.frozen(slots=True)
class References:
    """Names by scope: those after MY or self, those after TARGET or other, and bare ones."""

    my: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    unscoped: tuple[str, ...] = ()


@attrs.frozen(slots=True, eq=False, repr=False, str=False, init=False)
class Expr:
    """An expression. Equal expressions are the same object; ``str()`` prints one back.

    >>> from matchmaker import parse_expr
    >>> parse_expr("1+x") is parse_expr("1 + x")
    True
    """

    depth: int = attrs.field(init=False)
    # What is found out about a node later; before, it is as in _UNKNOWN.
    run: Callable[..., Value] | None = attrs.field(init=False)
    uses: int = attrs.field(init=False)
    weight: int = attrs.field(init=False)
    mentions: Any = attrs.field(init=False)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _UNKNOWN:
                return _UNKNOWN[name]
            raise AttributeError(name=name, obj=self)

    def __str__(self) -> str:
        text: str = METHODS["unparse"](self)
        return text

    def __repr__(self) -> str:
        return f"Expr({str(self)!r})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        # For IPython and Hypothesis, which would print a node field by field.
        printer.text(f"parse_expr({str(self)!r})")

    def __reduce__(self) -> tuple[Any, ...]:
        # As text, because a long chain is deeper than pickle can follow.
        return _from_text, (str(self),)

    def __copy__(self) -> Expr:
        return self

    def __deepcopy__(self, memo: object) -> Expr:
        return self

    def eval(self, my: Ad[Expr] | None = None, target: Ad[Expr] | None = None) -> Value:
        """The value of the expression with ``MY`` the one ad and ``TARGET`` the other.

        Never raises on any expression: what cannot be computed is ERROR, with its reason.

        >>> from matchmaker import parse_expr, parse_ad
        >>> parse_expr("TARGET.Memory >= 2 * MY.Want").eval(
        ...     my=parse_ad("[Want = 1]"), target=parse_ad("[Memory = 2]"))
        True
        >>> parse_expr("nothing").eval()
        UNDEFINED
        """
        value: Value = METHODS["evaluate"](self, my, target)
        return value

    def references(self) -> References:
        """The attribute names that the expression mentions, by scope, in their first spelling.

        >>> from matchmaker import parse_expr
        >>> parse_expr("TARGET.Memory > MY.Want && Cpus > 1 && target.memory < 9").references()
        References(my=('Want',), target=('Memory',), unscoped=('Cpus',))
        """
        found: References = METHODS["references"](self)
        return found


_UNKNOWN: Final[Mapping[str, Any]] = {"run": None, "uses": 0, "weight": 0, "mentions": None}


def _from_text(text: str) -> Expr:
    node: Expr = METHODS["parse_expr"](text)
    return node


_node: Final = attrs.frozen(slots=True, eq=False, repr=False, str=False, init=False)
"""The kinds of nodes. Each looks for the node that there is of its fields before it makes one, and
fills it by itself: attrs and a metaclass would take twice the time."""

_new: Final[Callable[[type], Any]] = object.__new__


@_node
class Literal(Expr):
    """A constant: boolean, integer, real, string, time, UNDEFINED or ERROR."""

    value: Value

    def __new__(cls, value: Value) -> Self:
        return constant(value)  # type: ignore[return-value]


def constant(value: Value) -> Literal:
    """The node of a value, as ``Literal(value)`` gives it, without the cost of calling a class."""
    kind = type(value)
    key = (kind, value) if kind in EXACT else exactly(value)
    known: Any = TABLE.get(key)
    node: Literal | None = known and known()
    if node is None:
        node = _new(Literal)
        _value(node, value)
        _depth(node, 1)
        node = entered(key, node)
    return node


@_node
class Attr(Expr):
    """A name: bare (``x``), of another expression (``base.x``), or of the root ad (``.x``)."""

    base: Expr | None
    name: str
    absolute: bool
    folded: str = attrs.field(init=False)

    def __new__(cls, base: Expr | None, name: str, absolute: bool) -> Self:
        # Interned, as in ads: a string that is the same object is found at once.
        return _of(
            cls, (base, name, absolute), (base,) if base else (), lambda: intern(ascii_fold(name))
        )


@_node
class Unary(Expr):
    """An operator of one operand: ``- + ! ~``."""

    operator: str
    operand: Expr

    def __new__(cls, operator: str, operand: Expr) -> Self:
        return _of(cls, (operator, operand), (operand,))


@_node
class Binary(Expr):
    """An operator of two operands; ``=?=`` is kept as ``is``, ``=!=`` as ``isnt``.

    A chain such as ``a || b || c`` leans to the left. It does not count as nesting, and whoever
    walks a tree takes it in a loop, so that a requirement may list thousands of machines.
    """

    operator: str
    left: Expr
    right: Expr

    def __new__(cls, operator: str, left: Expr, right: Expr) -> Self:
        return binary(operator, left, right)  # type: ignore[return-value]


def binary(operator: str, left: Expr, right: Expr) -> Binary:
    """The node of two operands, as ``Binary`` gives it, without the cost of calling a class."""
    key = (operator, left, right)
    known: Any = TABLE.get(key)
    node: Binary | None = known and known()
    if node is None:
        node = _new(Binary)
        _operator(node, operator)
        _left(node, left)
        _right(node, right)
        depth, other = left.depth + (type(left) is not Binary), right.depth + 1
        _depth(node, depth if depth > other else other)  # noqa: FURB136 - max() takes longer
        node = entered(key, node)
    return node


@_node
class Ternary(Expr):
    """``condition ? then : otherwise``."""

    condition: Expr
    then: Expr
    otherwise: Expr

    def __new__(cls, *parts: Expr) -> Self:
        return _of(cls, parts, parts)


@_node
class Call(Expr):
    """A function applied to arguments. An unknown function is allowed: its value is ERROR."""

    function: str
    arguments: tuple[Expr, ...]

    def __new__(cls, function: str, arguments: tuple[Expr, ...]) -> Self:
        return _of(cls, (function, arguments), arguments)


@_node
class Subscript(Expr):
    """``list[index]`` or ``ad["name"]``."""

    base: Expr
    index: Expr

    def __new__(cls, *parts: Expr) -> Self:
        return _of(cls, parts, parts)


_SHORT: Final = 32
"""Up to this length, making a list of constants is no more work than other nodes are."""


@_node
class ListExpr(Expr):
    """``{a, b, c}``. Of a short list of literals ``constants`` are the values, to be copied."""

    items: tuple[Expr, ...]
    constants: list[Value] | None = attrs.field(init=False)

    def __new__(cls, items: tuple[Expr, ...]) -> Self:
        return _of(cls, (items,), items, lambda: _constants(items))


def _constants(items: tuple[Expr, ...]) -> list[Value] | None:
    values = [item.value for item in items[:_SHORT] if type(item) is Literal]
    return values if len(values) == len(items) else None


@_node
class AdExpr(Expr):
    """``[a = 1; b = 2]`` inside an expression. Of duplicate names the last one has been kept."""

    names: tuple[str, ...]
    expressions: tuple[Expr, ...]

    def __new__(cls, names: tuple[str, ...], expressions: tuple[Expr, ...]) -> Self:
        return _of(cls, (names, expressions), expressions)


_FIELDS: Final[Mapping[Any, list[Callable[[Any, Any], None]]]] = {
    kind: [
        vars(kind)[field.name].__set__ for field in attrs.fields(kind)[len(attrs.fields(Expr)) :]
    ]
    for kind in (Literal, Attr, Unary, Binary, Ternary, Call, Subscript, ListExpr, AdExpr)
}
_operator, _left, _right = _FIELDS[Binary]
[_value] = _FIELDS[Literal]
_depth: Final = vars(Expr)["depth"].__set__


def _of(
    kind: type[_N],
    fields: tuple[Any, ...],
    parts: tuple[Expr, ...],
    *more: Callable[[], Any],
) -> _N:
    """The node of these fields, the parts among them, and of what follows from them.

    No two kinds have the same fields.
    """
    known: Any = TABLE.get(fields)
    node: _N | None = known and known()
    if node is None:
        node = _new(kind)
        for put, value in zip(_FIELDS[kind], (*fields, *[each() for each in more]), strict=True):
            put(node, value)
        _depth(node, 1 + max([part.depth for part in parts], default=0))
        node = entered(fields, node)
    return node


TRUE: Final = Literal(True)
FALSE: Final = Literal(False)

MY_SCOPES: Final = frozenset({"my", "self"})
TARGET_SCOPES: Final = frozenset({"target", "other"})


def children(node: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside a node, in the order in which they are written."""
    return _CHILDREN[type(node)](node)


_CHILDREN: Final[Mapping[type, Callable[[Any], tuple[Expr, ...]]]] = {
    Literal: lambda n: (),
    Attr: lambda n: (n.base,) if n.base is not None else (),
    Unary: lambda n: (n.operand,),
    Binary: attrgetter("left", "right"),
    Ternary: attrgetter("condition", "then", "otherwise"),
    Call: attrgetter("arguments"),
    Subscript: attrgetter("base", "index"),
    ListExpr: attrgetter("items"),
    AdExpr: attrgetter("expressions"),
}


def rebuild(node: Expr, parts: tuple[Expr, ...]) -> Expr:
    """The same kind of node around other children."""
    if parts == children(node):
        return node
    return _REBUILD[type(node)](node, parts)


_REBUILD: Final[Mapping[type, Callable[[Any, tuple[Expr, ...]], Expr]]] = {
    Attr: lambda n, p: Attr(p[0], n.name, n.absolute),
    Unary: lambda n, p: Unary(n.operator, *p),
    Binary: lambda n, p: Binary(n.operator, *p),
    Ternary: lambda n, p: Ternary(*p),
    Call: lambda n, p: Call(n.function, p),
    Subscript: lambda n, p: Subscript(*p),
    ListExpr: lambda n, p: ListExpr(p),
    AdExpr: lambda n, p: AdExpr(n.names, p),
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


_weight: Final = attrgetter("weight")


def weight(root: Expr) -> int:
    """How many nodes the tree has, what occurs twice counted twice; kept on each node of it.

    >>> from matchmaker import parse_expr
    >>> weight(parse_expr("a + 1 > a + 1"))
    7
    """
    if not root.weight:
        for node in postorder(root):
            object.__setattr__(node, "weight", 1 + sum(map(_weight, children(node))))
    return root.weight


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
    found: list[Expr] = []
    first: Expr = node
    while type(first) is Binary and first.operator == node.operator:
        found.append(first.right)
        first = first.left
    return [first, *reversed(found)]


def scope_of(node: Attr) -> str | None:
    """The folded scope word before a name, ``my`` in ``MY.x``, or None where there is none."""
    base = node.base
    if isinstance(base, Attr) and base.base is None and not base.absolute:
        return base.folded
    return None
