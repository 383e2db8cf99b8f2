"""Strategies for expressions: any, and those whose value is a number, a text or a condition.

Every tree is one that the parser could have made: its text reads back as itself. Conditions that
are sensible for given attributes are in ``policies``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from matchmaker.classad import nodes
from matchmaker.classad.ad import ClassAd, literal
from matchmaker.classad.functions import FUNCTIONS, Function, Trait, traits_of
from matchmaker.classad.nodes import FALSE, TRUE, Expr, call
from matchmaker.classad.operators import BINARY, MIRRORED
from matchmaker.classad.values import (
    ERROR,
    MAX_INT,
    MIN_INT,
    UNDEFINED,
    ErrorType,
    Value,
    is_number,
)

NAMES: Final = ("a", "b", "c", "Cpus", "Memory", "x y")
"""A few names of attributes, so few that expressions meet the attributes of ads."""

_EDGES: Final = (0, 1, -1, 63, 64, 2**53 + 1, MAX_INT, MIN_INT + 1, MIN_INT)

# What a string or a name can hold: no NUL, and no half of a surrogate pair.
_CHARACTERS: Final = st.characters(codec="utf-8", exclude_characters="\0")


def names() -> st.SearchStrategy[str]:
    """Names of attributes: a few that come again and again, plain words, and odd ones to be quoted.

    >>> from hypothesis import find
    >>> find(names(), lambda name: " " in name and "x" in name)
    'x y'
    """
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
    words = st.builds(
        str.__add__, st.sampled_from(letters), st.text(letters + "0123456789", max_size=8)
    )
    return st.sampled_from(NAMES) | words | st.text(_CHARACTERS, min_size=1, max_size=5)


def integers() -> st.SearchStrategy[int]:
    """Integers of 64 bits, often small or at the edge.

    >>> from hypothesis import find
    >>> find(integers(), lambda n: n > 100)
    101
    """
    return _integers()


@st.composite
def _integers(draw: st.DrawFn) -> int:
    # Always two draws: an edge that is not needed shrinks to any number, and that to the smallest.
    kind, number = draw(st.integers(0, 7)), draw(st.integers(MIN_INT, MAX_INT))
    if kind < 4:
        return number
    return number % 21 - 10 if kind < 6 else _EDGES[number % len(_EDGES)]


def reals() -> st.SearchStrategy[float]:
    """Reals of every kind: infinite ones, NaN and ``-0.0`` among them.

    >>> from hypothesis import find
    >>> find(reals(), lambda x: x != x), find(reals(), lambda x: x > 2.5)
    (nan, 3.0)
    """
    return st.sampled_from((0.0, 0.5, 2.5, -1.5, -0.0)) | st.floats()


def texts() -> st.SearchStrategy[str]:
    """Strings: words, numbers in quotes, lists in strings, and any characters a string can hold.

    >>> from hypothesis import find
    >>> find(texts(), lambda text: "a" in text and ", " in text)
    'a, b'
    """
    return _texts()


_WORDS: Final = ("a", "A", "abc", "10", "9", "true", "a, b", 'say "hi"', "x\ty\\")
_ANY_TEXT: Final = st.text(_CHARACTERS, max_size=8)


@st.composite
def _texts(draw: st.DrawFn) -> str:
    # As with integers: a word that is not needed shrinks to any text.
    kind, text = draw(st.integers(0, 7)), draw(_ANY_TEXT)
    return text if kind < 4 else draw(st.sampled_from(_WORDS))


def times() -> st.SearchStrategy[datetime | timedelta]:
    """Absolute times with offsets of whole seconds, and relative ones.

    >>> from hypothesis import find
    >>> find(times(), lambda time: isinstance(time, timedelta))
    datetime.timedelta(0)
    """
    offsets = st.integers(-86399, 86399).map(lambda s: timezone(timedelta(seconds=s)))
    absolute = st.datetimes(timezones=st.just(UTC) | offsets)
    return st.timedeltas() | absolute


def exceptional() -> st.SearchStrategy[Value]:
    """UNDEFINED, ERROR, and errors with a reason. An ad keeps of all errors only that they are.

    >>> from hypothesis import find
    >>> find(exceptional(), lambda value: value is not UNDEFINED) == ERROR
    True
    """
    found: tuple[Value, ...] = (UNDEFINED, ERROR, ErrorType("integer division by zero"))
    return st.sampled_from(found)


def plain_values() -> st.SearchStrategy[Value]:
    """Values without parts: booleans, numbers, strings, times, UNDEFINED and ERROR.

    >>> from hypothesis import find
    >>> find(plain_values(), lambda value: type(value) is int and value > 5)
    6
    """
    return st.booleans() | integers() | reals() | texts() | times() | exceptional()


def values(max_depth: int = 2) -> st.SearchStrategy[Value]:
    """Values of every type, lists and ads of them too.

    Args:
        max_depth: how many lists and ads stand within each other at most.

    >>> from hypothesis import find
    >>> len(find(values(), lambda value: isinstance(value, list) and len(value) > 1))
    2
    """
    plain = plain_values()
    found = plain
    for _ in range(max_depth):
        found = _values(plain, found)
    return found


_VALUE_SHAPES: Final = st.sampled_from(("plain", "plain", "list", "ad"))


@st.composite
def _values(
    draw: st.DrawFn, plain: st.SearchStrategy[Value], inner: st.SearchStrategy[Value]
) -> Value:
    shape = draw(_VALUE_SHAPES)
    if shape == "list":
        return draw(st.lists(inner, max_size=3))
    if shape == "ad":
        return ClassAd(draw(st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)))
    return draw(plain)


Attributes: TypeAlias = Mapping[str, Any]
"""Names with what they may hold: a strategy, or the one value or expression. None: left out."""

ARITHMETIC: Final = ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", ">>>")

_UNREPEATABLE: Final = frozenset({Trait.VOLATILE, Trait.LOCAL})


def _arities(function: Function) -> range:
    most = function.most if function.most is not None else function.least + 2
    return range(function.least, most + 1)


CALLS: Final = tuple(
    (function.name, count)
    for name, function in FUNCTIONS.items()
    for count in _arities(function)
    if not traits_of(name, count) & _UNREPEATABLE
)
"""Each function whose value depends on its arguments alone, with each number of arguments."""


def strategy_of(held: object) -> st.SearchStrategy[Any]:
    """Convert the content of an attribute to a strategy."""
    return held if isinstance(held, st.SearchStrategy) else st.just(held)


def reference(scope: str, name: str) -> Expr:
    """``TARGET.name``, or the bare name if the scope is empty."""
    return nodes.Attr(nodes.Attr(None, scope, False) if scope else None, name, False)


def as_written(held: Any) -> Expr:
    """Convert an attribute's content to an expression; undefined for one left out."""
    if isinstance(held, Expr):
        return held
    return literal(UNDEFINED if held is None else held)


def references(names: Sequence[str] = NAMES) -> st.SearchStrategy[Expr]:
    """Names, bare and after ``MY`` and ``TARGET``.

    Args:
        names: those to choose from.

    >>> from hypothesis import find
    >>> find(references(["Cpus"]), lambda name: "." in str(name))
    Expr('MY.Cpus')
    """
    return st.builds(reference, st.sampled_from(("", "MY", "TARGET")), st.sampled_from(names))


def grown(
    leaves: st.SearchStrategy[Expr],
    node: Callable[[st.SearchStrategy[Expr], st.SearchStrategy[Expr]], st.SearchStrategy[Expr]],
    depth: int,
) -> st.SearchStrategy[Expr]:
    """Trees of a depth: ``node(leaves, smaller)`` is a leaf, or something around smaller trees.

    Each size is a separate strategy, named once in the next, so that its print by Hypothesis
    when it shrinks does not double with each.
    """
    found = leaves
    for _ in range(depth):
        found = node(leaves, found)
    return found


def expressions(
    names: Sequence[str] = NAMES,
    *,
    constants: st.SearchStrategy[Value] | None = None,
    calls: Sequence[tuple[str, int]] = CALLS,
    max_depth: int = 3,
) -> st.SearchStrategy[Expr]:
    """Expressions of any kind: every operator and function on anything. Most are ill-typed.

    Args:
        names: of the attributes that are mentioned.
        constants: the values in them; by default those of ``plain_values()``.
        calls: the functions, each with a number of arguments; by default all whose value depends
            on nothing else.
        max_depth: how many operators and calls stand within each other at most.

    >>> from hypothesis import find
    >>> from matchmaker import is_error, parse_expr
    >>> found = find(expressions(), lambda expression: is_error(expression.eval()))
    >>> is_error(found.eval()), parse_expr(str(found)) is found
    (True, True)
    """
    leaves = (plain_values() if constants is None else constants).map(literal) | references(names)
    named, called = tuple(names), tuple(calls)
    return grown(
        leaves,
        lambda plain, inner: _shaped(_SHAPES, plain, inner, names=named, calls=called),
        max_depth,
    )


_SHAPES: Final = st.sampled_from(
    ("leaf",) * 6
    + ("unary", "binary", "binary", "binary", "logic", "logic", "ternary", "subscript", "select")
    + ("list", "ad", "call", "call")
)
_ANY_UNARY: Final = st.sampled_from("-+!~")
_ANY_BINARY: Final = st.sampled_from(sorted(BINARY))
_LOGIC: Final = st.sampled_from(("&&", "||"))
_ARITHMETIC: Final = st.sampled_from(ARITHMETIC)
_RELATIONS: Final = st.sampled_from(tuple(MIRRORED))
_FEW: Final = st.integers(0, 3)


@st.composite
def _shaped(
    draw: st.DrawFn,
    shapes: st.SearchStrategy[str],
    leaves: st.SearchStrategy[Expr],
    inner: st.SearchStrategy[Expr],
    *,
    names: tuple[str, ...] = (),
    calls: tuple[tuple[str, int], ...] = (),
) -> Expr:
    shape = draw(shapes)
    return draw(leaves) if shape == "leaf" else _MAKERS[shape](draw, inner, names, calls)


def _drawn(draw: st.DrawFn, inner: st.SearchStrategy[Expr], count: int) -> tuple[Expr, ...]:
    return tuple(draw(inner) for _ in range(count))


def _an_ad(draw: st.DrawFn, inner: st.SearchStrategy[Expr], names: tuple[str, ...]) -> Expr:
    entries = [(draw(st.sampled_from(names)), draw(inner)) for _ in range(draw(_FEW))]
    return ClassAd(entries).expression()


def _a_call(
    draw: st.DrawFn, inner: st.SearchStrategy[Expr], calls: tuple[tuple[str, int], ...]
) -> Expr:
    function, count = draw(st.sampled_from(calls))
    arguments = _drawn(draw, inner, count)
    # As the parser makes it, which takes some calls for the constants that they stand for.
    return call(function, arguments)


_MAKERS: Final[Mapping[str, Callable[..., Expr]]] = {
    "unary": lambda draw, inner, *_: nodes.Unary(draw(_ANY_UNARY), draw(inner)),
    "binary": lambda draw, inner, *_: nodes.Binary(draw(_ANY_BINARY), *_drawn(draw, inner, 2)),
    "logic": lambda draw, inner, *_: nodes.Binary(draw(_LOGIC), *_drawn(draw, inner, 2)),
    "arithmetic": lambda draw, inner, *_: nodes.Binary(draw(_ARITHMETIC), *_drawn(draw, inner, 2)),
    "-": lambda draw, inner, *_: nodes.Unary("-", draw(inner)),
    "!": lambda draw, inner, *_: nodes.Unary("!", draw(inner)),
    "ternary": lambda draw, inner, *_: nodes.Ternary(*_drawn(draw, inner, 3)),
    "than": lambda draw, inner, *_: nodes.Ternary(
        nodes.Binary(draw(_RELATIONS), *_drawn(draw, inner, 2)), *_drawn(draw, inner, 2)
    ),
    "subscript": lambda draw, inner, *_: nodes.Subscript(*_drawn(draw, inner, 2)),
    "select": lambda draw, inner, names, _: nodes.Attr(
        draw(inner), draw(st.sampled_from(names)), False
    ),
    "list": lambda draw, inner, *_: nodes.ListExpr(_drawn(draw, inner, draw(_FEW))),
    "ad": lambda draw, inner, names, _: _an_ad(draw, inner, names),
    "call": lambda draw, inner, _, calls: _a_call(draw, inner, calls),
    "strcat": lambda draw, inner, *_: nodes.Call("strcat", _drawn(draw, inner, draw(_FEW))),
    "toLower": lambda draw, inner, *_: nodes.Call("toLower", _drawn(draw, inner, 1)),
    "toUpper": lambda draw, inner, *_: nodes.Call("toUpper", _drawn(draw, inner, 1)),
}


def is_text(value: object) -> bool:
    """Whether a value is a string."""
    return isinstance(value, str)


def leaves_of_kind(
    attributes: Attributes | None,
    scope: str,
    fits: Callable[[object], bool],
    constants: st.SearchStrategy[Any],
) -> st.SearchStrategy[Expr]:
    """Constants, and references to attributes that hold what fits.

    Which attributes fit shows only when a value of theirs is drawn, so that a few are tried.
    """
    plain: st.SearchStrategy[Expr] = constants.map(nodes.Literal)
    if not attributes:
        return plain
    names = list(attributes)

    @st.composite
    def named(draw: st.DrawFn) -> Expr:
        for _ in range(3):
            name = draw(st.sampled_from(names))
            if fits(draw(strategy_of(attributes[name]))):
                return reference(scope, name)
        return draw(plain)

    return plain | named()


def number_expressions(
    attributes: Attributes | None = None, *, scope: str = "", max_depth: int = 3
) -> st.SearchStrategy[Expr]:
    """Expressions whose value is a number, or whose arithmetic goes wrong: ``1 / 0``, ``1.5 & 2``.

    Args:
        attributes: some of the leaves are those of them that hold numbers.
        scope: ``MY`` or ``TARGET`` before their names; by default none.
        max_depth: how many operators stand within each other at most.

    >>> from hypothesis import find
    >>> find(number_expressions({"Cpus": 4, "Arch": "arm"}), lambda e: e.references().unscoped)
    Expr('Cpus')
    """
    leaves = leaves_of_kind(attributes, scope, is_number, integers() | reals())
    return grown(leaves, partial(_shaped, _NUMBER_SHAPES), max_depth)


_NUMBER_SHAPES: Final = st.sampled_from(("leaf", "leaf", "arithmetic", "arithmetic", "-", "than"))


def text_expressions(
    attributes: Attributes | None = None, *, scope: str = "", max_depth: int = 2
) -> st.SearchStrategy[Expr]:
    """Expressions whose value is a string.

    Args:
        attributes: some of the leaves are those of them that hold strings.
        scope: ``MY`` or ``TARGET`` before their names; by default none.
        max_depth: how many calls stand within each other at most.

    >>> from hypothesis import find
    >>> find(text_expressions({"Owner": "ana"}), lambda e: e.references().unscoped)
    Expr('Owner')
    """
    leaves = leaves_of_kind(attributes, scope, is_text, texts())
    return grown(leaves, partial(_shaped, _TEXT_SHAPES), max_depth)


_TEXT_SHAPES: Final = st.sampled_from(("leaf", "strcat", "toLower", "toUpper"))


def boolean_expressions(
    attributes: Attributes | None = None, *, scope: str = "", max_depth: int = 3
) -> st.SearchStrategy[Expr]:
    """Conditions, good and bad: among them undefined ones, and such as are errors.

    Args:
        attributes: those that are compared, with each other and with values that they may hold; by
            default a few names, bare and after ``MY`` and ``TARGET``.
        scope: ``MY`` or ``TARGET`` before the names of attributes; by default none.
        max_depth: how many operators stand around a comparison at most.

    >>> from hypothesis import find
    >>> find(boolean_expressions({"Cpus": 8}), lambda e: e.references().unscoped).eval()
    UNDEFINED
    """
    if attributes:
        held = [strategy_of(one) for one in attributes.values()]
        names = st.sampled_from(tuple(attributes))
        sides = st.one_of(*held).map(as_written) | names.map(lambda name: reference(scope, name))
    else:
        sides = st.sampled_from((0, 1, 2, -1, 0.5)).map(literal) | references()
    comparisons = st.builds(nodes.Binary, _RELATIONS, sides, sides)
    constants = (
        TRUE,
        FALSE,
        nodes.Literal(UNDEFINED),
        nodes.Literal(ERROR),
        nodes.Literal(0),
        nodes.Literal(1),
    )
    return grown(
        st.sampled_from(constants) | comparisons, partial(_shaped, _CONDITION_SHAPES), max_depth
    )


_CONDITION_SHAPES: Final = st.sampled_from(("leaf", "leaf", "logic", "logic", "!", "ternary"))
