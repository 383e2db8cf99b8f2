"""The tree of an expression: nine kinds of frozen, slotted, interned nodes.

Equal nodes are one object, so that a million slots with one START expression hold one tree, a node
is compared and hashed by identity, and whatever is derived from a node can be cached by it.
Evaluation is in ``evaluate``, printing in ``printer``, traversal in ``walks``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from sys import intern
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar
from weakref import ref

import attrs

from matchmaker._cache import caches
from matchmaker._locks import Lock
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.values import Ad, ErrorType, Value, parse_absolute, parse_relative

_T = TypeVar("_T")

# A WeakValueDictionary does the same at five times the cost of an entry.
TABLE: Final[dict[tuple[Any, ...], ref[Any]]] = {}
"""The nodes that there are, by their fields. Whoever makes a node looks here first."""

_lock: Final = Lock()

LEAST: Final = 1 << 13
"""At least as many entries are made before those that ended are dropped, and at least as many as
were left: a call at the end of each node would take as long as making it."""

_bound: Final = [LEAST]

EXACT: Final = frozenset({str, int, bool})
"""The types of constants that are equal to Python exactly when they are to an ad."""

INEXACT: Final[tuple[type, ...]] = (float, datetime, ErrorType)
"""The types of constants that may be equal to Python and still differ to an ad."""


def entered(key: tuple[Any, ...], node: _T) -> _T:
    """Enters a node; gives the one that another thread entered meanwhile, or this one."""
    made = ref(node)
    if TABLE.setdefault(key, made) is not made:
        # It is also in place of one that ended.
        with _lock:
            other: _T | None = TABLE[key]() if key in TABLE else None
            if other is None:
                TABLE[key] = made
            return node if other is None else other
    if len(TABLE) > _bound[0]:
        tidy()
    return node


def tidy() -> None:
    """Drops the entries of nodes that nobody holds."""
    with _lock:
        # Other threads go on making nodes.
        entries = TABLE.copy()
        # From the last to the first, as an entry holds the parts of its node.
        while entries:
            key, made = entries.popitem()
            if made() is None:
                del TABLE[key]
        _bound[0] = len(TABLE) + max(LEAST, len(TABLE))


def forget() -> None:
    """Empties every cache of the library, those of all pools too. Answers stay the same.

    Useful if memory counts more than time, as in a long-lived service between two bursts. What
    the caller's own ads, expressions and pools hold stays.

    >>> import matchmaker as mm
    >>> mm.forget()
    """
    for cache in caches():
        cache.forget()
    tidy()


def exactly(value: Any) -> tuple[Any, Any]:
    """A key for a constant, which tells 1 from 1.0 from true."""
    kind = next((each for each in INEXACT if isinstance(value, each)), type(value))
    return kind, identity(value)


def identity(value: Any) -> Any:
    """A hashable stand-in that tells constants of one type apart as ads do.

    0.0 differs from -0.0, and equal instants with different offsets differ. NaN is itself.

    >>> identity(0.0) == identity(-0.0), identity(2) == identity(2)
    (False, True)
    """
    if isinstance(value, float):
        return repr(value) if not value or math.isnan(value) else value
    if isinstance(value, datetime):
        return value, value.utcoffset()
    return value.reason if isinstance(value, ErrorType) else value


_N = TypeVar("_N", bound="Expr")


METHODS: Final[dict[str, Callable[..., Any]]] = {}
"""The functions behind the methods of expressions and ads. They stand in modules that import this
one; ``methods`` enters them."""


def no_ad(given: object) -> TypeError:
    """Make the error for an argument that is not an ad; it names the function that makes one."""
    maker = "ClassAd() makes one of a mapping" if isinstance(given, Mapping) else ""
    maker = maker or "parse_ad() makes one of a text"
    return TypeError(f"an ad was expected, not {type(given).__name__}; {maker}")


def _check_ads(*given: object) -> None:
    for each in given:
        if each is not None and not isinstance(each, Ad):
            raise no_ad(each)


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

    An expression has no truth value: ``if ad["Flag"]`` would be true for ``Flag = x && false``.
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
            raise AttributeError(f"an expression has no attribute {name!r}", name=name, obj=self)

    def __str__(self) -> str:
        text: str = METHODS["unparse"](self)
        return text

    def __repr__(self) -> str:
        return f"Expr({str(self)!r})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        # For IPython and Hypothesis, which would print a node field by field.
        printer.text(f"parse_expr({str(self)!r})")

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"the expression {_short(str(self))} is neither true nor false: evaluate it with"
            " ad.eval(name) or expr.eval(ad)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # As text, because a long chain is deeper than pickle can follow.
        return _from_text, (str(self),)

    def __copy__(self) -> Expr:
        return self

    def __deepcopy__(self, memo: object) -> Expr:
        return self

    def eval(self, my: Ad[Any] | None = None, target: Ad[Any] | None = None) -> Value:
        """The value of the expression with ``MY`` the one ad and ``TARGET`` the other.

        Never raises on any expression: a failure is ERROR, with its reason.

        >>> from matchmaker import parse_expr, parse_ad
        >>> parse_expr("TARGET.Memory >= 2 * MY.Want").eval(
        ...     my=parse_ad("[Want = 1]"), target=parse_ad("[Memory = 2]"))
        True
        >>> parse_expr("nothing").eval()
        UNDEFINED
        """
        try:
            value: Value = METHODS["evaluate"](self, my, target)
        except AttributeError:
            _check_ads(my, target)
            raise
        return value

    def simplify(self, my: Ad[Any] | None = None, target: Ad[Any] | None = None) -> Expr:
        """The value of the expression, as ``eval`` gives it, as an expression.

        >>> from matchmaker import parse_expr, parse_ad
        >>> parse_expr("{Cpus, Cpus * 2}").simplify(parse_ad("[Cpus = 4]"))
        Expr('{4, 8}')
        """
        _check_ads(my, target)
        node: Expr = METHODS["simplify"](self, my, target)
        return node

    def flatten(self, my: Ad[Any] | None = None) -> Value | Expr:
        """The expression with the values of `my` in it, or its value if `my` alone decides it.

        Parts that another ad or the moment may decide stay: names that `my` lacks, TARGET,
        ``time()``. So the value is the same in every match of `my`.

        >>> from matchmaker import parse_expr, parse_ad
        >>> job = parse_ad("[Cpus = 4; Twice = Cpus * 2]")
        >>> parse_expr("TARGET.Cpus >= Twice && Cpus > 1").flatten(job)
        Expr('TARGET.Cpus >= 8')
        >>> parse_expr("Twice + 1").flatten(job)
        9
        """
        _check_ads(my)
        found: Value | Expr = METHODS["flatten"](self, my)
        return found

    def references(self) -> References:
        """The attribute names that the expression mentions, by scope, in their first spelling.

        >>> from matchmaker import parse_expr
        >>> parse_expr("TARGET.Memory > MY.Want && Cpus > 1 && target.memory < 9").references()
        References(my=('Want',), target=('Memory',), unscoped=('Cpus',))
        """
        found: References = METHODS["references"](self)
        return found


_UNKNOWN: Final[Mapping[str, Any]] = {"run": None, "uses": 0, "weight": 0, "mentions": None}


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


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
        key = (base, name, absolute)
        known: Any = TABLE.get(key)
        node: Self | None = known and known()
        if node is None:
            node = _new(cls)
            _base(node, base)
            _name(node, name)
            _absolute(node, absolute)
            # Interned, as in ads: a string that is the same object is found at once.
            _folded(node, intern(ascii_fold(name)))
            _depth(node, 1 if base is None else 1 + base.depth)
            node = entered(key, node)
        return node


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
        key = (items,)
        known: Any = TABLE.get(key)
        node: Self | None = known and known()
        if node is None:
            node = _new(cls)
            values = [item.value for item in items[:_SHORT] if type(item) is Literal]
            flat = len(values) == len(items)
            _items(node, items)
            _constants(node, values if flat else None)
            _depth(node, 1 + _deepest(items))
            node = entered(key, node)
        return node


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
_base, _name, _absolute, _folded = _FIELDS[Attr]
_items, _constants = _FIELDS[ListExpr]
[_value] = _FIELDS[Literal]
_depth: Final = vars(Expr)["depth"].__set__


def _of(kind: type[_N], fields: tuple[Any, ...], parts: tuple[Expr, ...]) -> _N:
    """The node of these fields, the parts among them. No two kinds have the same fields."""
    known: Any = TABLE.get(fields)
    node: _N | None = known and known()
    if node is None:
        node = _new(kind)
        for put, value in zip(_FIELDS[kind], fields):  # noqa: B905 - strict takes longer
            put(node, value)
        _depth(node, 1 + _deepest(parts))
        node = entered(fields, node)
    return node


def _deepest(parts: tuple[Expr, ...]) -> int:
    return max([part.depth for part in parts]) if parts else 0


TRUE: Final = Literal(True)
FALSE: Final = Literal(False)

MY_SCOPES: Final = frozenset({"my", "self"})
TARGET_SCOPES: Final = frozenset({"target", "other"})


def scope_of(node: Attr) -> str | None:
    """The folded scope word before a name, ``my`` in ``MY.x``, or None if there is none."""
    base = node.base
    if isinstance(base, Attr) and base.base is None and not base.absolute:
        return base.folded
    return None


NAMED: Final = {"=?=": "is", "=!=": "isnt"}
"""Operators that nodes have under another name."""

PRECEDENCE: Final = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!=", "is", "isnt"), ("<", "<=", ">", ">="),
    ("<<", ">>", ">>>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
"""Operators of two operands but ``?:``, the loosest first; those of a level group from the left."""

_NOT_FINITE: Final = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}


def call(function: str, arguments: tuple[Expr, ...]) -> Expr:
    """A call; ``real("INF")``, ``absTime("…")`` and ``relTime("…")`` are the literals they denote.

    Such values have no other way to be written, and HTCondor reads them so too.
    """
    if len(arguments) == 1 and type(arguments[0]) is Literal:
        value = _constant(function.lower(), arguments[0].value)
        if value is not None:
            return Literal(value)
    return Call(function, arguments)


def _constant(function: str, text: Value) -> Value | None:
    if not isinstance(text, str):
        return None
    if function == "real":
        return _NOT_FINITE.get(text.lower())
    if function == "abstime":
        return parse_absolute(text)
    return parse_relative(text) if function == "reltime" else None


def ad_expression(assignments: Iterable[tuple[str, Expr]]) -> AdExpr:
    """An ad; the last of duplicates counts, under the first one's spelling and place."""
    entries: dict[str, tuple[str, Expr]] = {}
    for name, expression in assignments:
        folded = ascii_fold(name)
        entries[folded] = (entries[folded][0] if folded in entries else name, expression)
    names, expressions = zip(*entries.values(), strict=True) if entries else ((), ())
    return AdExpr(names, expressions)
