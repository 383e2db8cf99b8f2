"""ClassAd: attributes by name, case-insensitive, in the order and the spelling they were given.

An ad holds expressions; ``eval`` gives values. Reading and writing ads is in ``formats``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from sys import intern
from typing import Any, Final, TypeGuard, TypeVar, overload

from matchmaker._cache import BoundedCache
from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.nodes import METHODS, AdExpr, Expr, ListExpr, Literal, References, no_ad
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.printer import unparse_ad, unparse_name
from matchmaker.classad.values import (
    MAX_INT,
    MIN_INT,
    UNDEFINED,
    Ad,
    ErrorType,
    UndefinedType,
    Value,
    is_error,
)

_MODULES: Final = ("classad", "htcondor")
_VALUES: Final = {"Undefined": UNDEFINED, "Error": ErrorType()}


def is_ad(given: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether an object is an ad of the bindings."""
    return _is(given, "ClassAd")


def ours(value: Any) -> Any:
    """A value of the bindings that Python has none for, as ours; anything else as it is.

    An expression is parsed from its ``str()``, which may raise ParseError.
    """
    if _is(value, "ExprTree"):
        return parse_expr(str(value))
    return _VALUES.get(value.name, value) if _is(value, "Value") else value


def _is(given: object, name: str) -> bool:
    kind = type(given)
    return kind.__name__ == name and kind.__module__.startswith(_MODULES)


_V = TypeVar("_V")
_D = TypeVar("_D")
_NONE: Final[Any] = object()
"""Stands for what was not given, and for what is not there."""

FIRST: Final[dict[str, str]] = {}
"""How each folded name was spelled first. Nothing is ever dropped from it, since ads rest on it."""


class _Spellings(BoundedCache[str, str | tuple[str, str]]):
    """Map names to their folded names, paired with spellings that differ from the first."""

    __slots__ = ()

    def __missing__(self, name: str) -> str | tuple[str, str]:
        if not isinstance(name, str):
            raise TypeError(f"an attribute name is a string, not {type(name).__name__}")
        folded = intern(ascii_fold(name))
        first = FIRST.get(folded)
        if first is None and len(FIRST) < LIMITS.spellings and len(name) <= LIMITS.spelling:
            first = FIRST.setdefault(folded, name)
        return self.put(name, folded if first == name else (folded, name), len(name))


spelling_of: Final = _Spellings("names of attributes", 1 << 19).__getitem__
"""The folded name of a name. With the name, where it is spelled otherwise than it was first: an ad
notes only such spellings. Raises TypeError for a name that is no string."""


def unusual_names(names: Iterable[str]) -> dict[str, str] | None:
    """The spellings that an ad notes, by folded names; of one that comes twice the first counts.

    >>> unusual_names(["OnlyThere"]), unusual_names(["ONLYTHERE", "OnlyThere"])
    (None, {'onlythere': 'ONLYTHERE'})
    """
    found: dict[str, str] = {}
    for known in map(spelling_of, names):
        if isinstance(known, str):
            found.setdefault(known, "")
        else:
            found.setdefault(*known)
    return {folded: name for folded, name in found.items() if name} or None


class ClassAd(Ad[Value | Expr]):
    """A mapping from attribute names to values and expressions.

    ``ad[name]``, ``get``, ``items`` and ``values`` give the Python value of a literal: of a list
    without expressions a new list, of a nested ad a new ClassAd, UNDEFINED and ERROR as they are.
    Anything else is an ``Expr``, which ``eval`` computes. ``expr`` gives the expression always.
    A new list or ad is a copy: set the attribute again to change it.

    Setting an attribute takes an expression or a value (a string is text, not code: use
    ``parse_expr`` for an expression). Mappings, ads of HTCondor's Python bindings among them, are
    taken whole, with their expressions. Names are compared without regard to ASCII case; the first
    spelling is kept. Two ads are equal when they hold the same expressions under the same names;
    any other mapping is compared as the ad that it makes.

    >>> from matchmaker import parse_expr
    >>> ad = ClassAd({"Cpus": 4, "Tags": ["el9"]})
    >>> ad["Memory"] = parse_expr("Cpus * 2048")
    >>> ad["cpus"], ad["Tags"], ad["Memory"], ad.eval("Memory"), "NAME" in ad
    (4, ['el9'], Expr('Cpus * 2048'), 8192, False)
    >>> print(ad)
    [ Cpus = 4; Tags = {"el9"}; Memory = Cpus * 2048 ]
    """

    __slots__ = ("__weakref__", "_held", "_names", "parent")

    _held: dict[str, Any]
    """A plain value or an expression under each name in small letters."""

    _names: dict[str, str] | None
    """By folded names, the spellings that differ from the first that was ever met."""

    parent: ClassAd | None
    """The ad in which this one is nested, or None."""

    def __init__(
        self, attributes: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), /, **more: Any
    ) -> None:
        self.parent = None
        if not attributes:
            attributes, more = more, {}
        if type(attributes) is dict:
            held = [_stored(value) for value in (*attributes.values(), *more.values())]
            self._fill((*attributes, *more), held)
            return
        given: object = attributes
        text = isinstance(given, (str, bytes))
        if text or (not isinstance(given, Iterable) and not hasattr(given, "keys")):
            advice = "; parse_ad() makes an ad of a text" if text else ""
            raise TypeError(f"attributes by name were expected, not {type(given).__name__}{advice}")
        self._held = {}
        self._names = None
        self.update(attributes, **more)

    def _fill(self, names: Sequence[str], held: Iterable[Any]) -> None:
        """Set all attributes; of a name that comes twice the last one counts."""
        known: list[Any] = list(map(spelling_of, names))
        usual = tuple not in set(map(type, known))
        folded = known if usual else [each if type(each) is str else each[0] for each in known]
        self._held = dict(zip(folded, held, strict=True))
        self._names = None if usual else unusual_names(names)

    @classmethod
    def _of(cls, held: dict[str, Any], names: dict[str, str] | None = None) -> ClassAd:
        """Make an ad of values and expressions by folded names, without a copy.

        ``names`` are unusual spellings, as :func:`unusual_names` gives them.
        """
        ad = _new(cls)
        ad._held = held
        ad._names = names
        ad.parent = None
        return ad

    @classmethod
    def _of_values(cls, names: Sequence[str], held: Iterable[Any]) -> ClassAd:
        """Make an ad of names and their values or expressions, in order."""
        ad = _new(cls)
        ad._fill(names, held)  # noqa: SLF001 - its own
        ad.parent = None
        return ad

    @classmethod
    def from_expression(cls, node: AdExpr, parent: ClassAd | None = None) -> ClassAd:
        """The ad that ``[…]`` denotes; ``parent`` is the ad in which it is written, if any."""
        ad = cls._of_values(
            node.names, [each.value if type(each) is Literal else each for each in node.expressions]
        )
        ad.parent = parent
        return ad

    def expression(self) -> AdExpr:
        """The ad as a node, to be set inside another expression."""
        return AdExpr(tuple(self), tuple(self.expressions().values()))

    @overload
    def expr(self, name: str) -> Expr: ...

    @overload
    def expr(self, name: str, default: _D) -> Expr | _D: ...

    def expr(self, name: str, default: Any = _NONE) -> Any:
        """The expression of an attribute, also of a literal.

        ``default`` stands for a missing attribute; without it KeyError is raised.

        >>> ClassAd(Cpus=4).expr("cpus"), ClassAd().expr("Rank", None)
        (Expr('4'), None)
        """
        if default is not _NONE and name not in self:
            return default
        held = self._lookup(name)
        return held if isinstance(held, Expr) else Literal(held)

    def expressions(self) -> dict[str, Expr]:
        """The expression under each name, also of literals, in the order of the ad.

        >>> ClassAd(Cpus=4, Tags=["el9"]).expressions()
        {'Cpus': Expr('4'), 'Tags': Expr('{"el9"}')}
        """
        held = [each if isinstance(each, Expr) else Literal(each) for each in self._held.values()]
        return dict(zip(self, held, strict=True))

    def _lookup(self, name: str) -> Any:
        """The plain value or the expression of an attribute."""
        folded = _folded(name)
        held = self._held.get(folded, _NONE)
        if held is _NONE:
            raise KeyError(name)
        return held

    @property
    def root(self) -> ClassAd:
        """The outermost ad around this one."""
        ad = self
        while ad.parent is not None:
            ad = ad.parent
        return ad

    @overload
    def eval(self, what: str | Expr, *, target: ClassAd | None = None) -> Value: ...

    @overload
    def eval(self, what: str | Expr, kind: type[_V], *, target: ClassAd | None = None) -> _V: ...

    @overload
    def eval(
        self, what: str | Expr, kind: type[_V], *, target: ClassAd | None = None, default: _D
    ) -> _V | _D: ...

    def eval(
        self, what: str | Expr, kind: Any = None, *, target: Any = None, default: Any = _NONE
    ) -> Any:
        """The value of an attribute, or of an expression in which this ad is ``MY``.

        ``target`` is the other ad of a match. A missing attribute is UNDEFINED; nothing raises.

        With a type (bool, int, float, str, list, ClassAd, datetime, timedelta) the value is of it:
        a float may come from an integer, and no integer from a truth. Any other value, UNDEFINED
        and ERROR too, gives ``default``, or raises TypeError if there is none.

        >>> from matchmaker import parse_ad
        >>> ad = parse_ad("[Cpus = 4; Memory = Cpus * 2048]")
        >>> ad.eval("memory"), ad.eval("Memory", int), ad.eval("Disk", int, default=0)
        (8192, 8192, 0)
        """
        if isinstance(kind, ClassAd):
            raise TypeError("the second argument is a type; the other ad is given as target=…")
        if target is not None and not isinstance(target, ClassAd):
            raise TypeError(f"the other ad is a ClassAd, not {type(target).__name__}")
        if isinstance(what, str):
            value = METHODS["evaluate_attribute"](self, ascii_fold(what), target)
        else:
            value = METHODS["evaluate"](what, self, target)
        if kind is None:
            return value
        if not isinstance(kind, type):
            raise TypeError(
                f"the second argument is a type, such as int, not {kind!r};"
                " what to give instead of another type is default=…"
            )
        if kind is float and value.__class__ is int:
            return float(value)
        if isinstance(value, kind) and (kind is bool or value.__class__ is not bool):
            return value
        if default is not _NONE:
            return default
        shown = str(value) if is_error(value) else str(literal(value))
        raise TypeError(f"{what} is {shown}; {kind.__name__} was expected")

    def flatten(self, expression: Expr) -> Value | Expr:
        """See :meth:`Expr.flatten`; so is it called in HTCondor's bindings."""
        return expression.flatten(self)

    def to_dict(self) -> dict[str, Any]:
        """The ad as Python's values by name; ``ClassAd(ad.to_dict())`` is equal to it.

        Lists are lists, nested ads are dicts, and UNDEFINED is None. An expression stays one: for
        values, ``eval`` each attribute. ERROR stays as it is.

        >>> ClassAd({"Cpus": 4, "Tags": ["el9"], "Nothing": None, "Site": {"Name": "x"}}).to_dict()
        {'Cpus': 4, 'Tags': ['el9'], 'Nothing': None, 'Site': {'Name': 'x'}}
        """
        return {name: _python(held) for name, held in self.expressions().items()}

    def references(self) -> References:
        """The names that all the ad's expressions mention together, by scope."""
        return self.expression().references()

    def copy(self) -> ClassAd:
        """Another ad with the same attributes."""
        names = self._names.copy() if self._names else None
        twin = ClassAd._of(self._held.copy(), names)
        twin.parent = self.parent
        return twin

    __copy__ = copy

    def spelling(self, name: str) -> str:
        """The name as the ad spells it. Raises KeyError if the attribute is missing."""
        folded = ascii_fold(name)
        if folded not in self._held:
            raise KeyError(name)
        return (self._names and self._names.get(folded)) or FIRST[folded]

    def __getitem__(self, name: str) -> Value | Expr:
        held = self._lookup(name)
        value: Value | Expr = _value_of(held, self) if isinstance(held, Expr) else held
        return value

    def __setitem__(self, name: str, value: Expr | Value) -> None:
        known = spelling_of(name)
        folded = known if isinstance(known, str) else known[0]
        held = _stored(value)
        if folded is not known and folded not in self._held:
            self._names = self._names or {}
            self._names[folded] = name
        self._held[folded] = held

    def __delitem__(self, name: str) -> None:
        folded = _folded(name)
        if self._held.pop(folded, _NONE) is _NONE:
            raise KeyError(name)
        if self._names is not None:
            self._names.pop(folded, None)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and ascii_fold(name) in self._held

    def __iter__(self) -> Iterator[str]:
        names = self._names
        if names is None:
            return iter([FIRST[folded] for folded in self._held])
        return iter([names.get(folded) or FIRST[folded] for folded in self._held])

    def __len__(self) -> int:
        return len(self._held)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClassAd):
            if not isinstance(other, Mapping):
                return NotImplemented
            try:
                other = ClassAd(other)
            except (TypeError, ValueError):
                return False
        if self._held.keys() != other._held.keys():
            return False
        return all(self.expr(folded) is other.expr(folded) for folded in self._held)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        # By name and expression: how an ad keeps its spellings is this process's own affair.
        return _restored, (self.expressions(), self.parent)

    def __str__(self) -> str:
        return unparse_ad(self, self._held.values())

    def __repr__(self) -> str:
        text = str(self)
        return f"<ClassAd {text if len(text) <= 200 else text[:197] + '...'}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        # For IPython and Hypothesis: the whole ad, in Python that reads it back.
        lines = [str(self)]
        if len(lines[0]) > 60 and len(self) > 1:
            # One attribute a line; strings that stand side by side are one.
            lines = [
                f"{unparse_name(name)} = {held}; " for name, held in self.expressions().items()
            ]
            lines[0] = f"[ {lines[0]}"
            lines[-1] += "]"
        with printer.group(4, "parse_ad(", ")"):
            for line in lines:
                if len(lines) > 1:
                    printer.break_()
                printer.text(repr(line))


_new: Final = object.__new__


# These are held as they are; all else is asked of `literal`.
_PLAIN: Final = frozenset({bool, str, float, UndefinedType})


def _folded(name: object) -> str:
    """A name in small letters. Raises KeyError for another key, which no ad has, as a dict does."""
    if not isinstance(name, str):
        raise KeyError(name)
    return ascii_fold(name)


def _stored(value: Any) -> Any:
    """Convert a value or an expression to the form that an ad stores."""
    kind = type(value)
    if kind in _PLAIN or (kind is int and MIN_INT <= value <= MAX_INT):
        return value
    expression = value if isinstance(value, Expr) else literal(value)
    return expression.value if type(expression) is Literal else expression


HOST_NAMES: Final = ("Name", "Machine", "GlueHostName", "GlueHostUniqueID")
"""The attributes that may name a machine, the first that it has."""


def _restored(items: dict[str, Expr], parent: ClassAd | None) -> ClassAd:
    ad = ClassAd(items)
    ad.parent = parent
    return ad


def first_text(ad: ClassAd, attributes: Iterable[str]) -> str | None:
    """The first of several attributes that is a text and not empty: the name that an ad goes by.

    >>> first_text(ClassAd({"Name": "", "Machine": "wn1"}), ("Name", "Machine"))
    'wn1'
    """
    values = (ad.eval(attribute) for attribute in attributes)
    return next((value for value in values if isinstance(value, str) and value), None)


def literal(value: object) -> Expr:
    """The expression that has a value: a literal, a list of them, or a nested ad.

    Takes the values of the language, None as UNDEFINED, tuples as lists and mappings as ads, and
    the values of HTCondor's Python bindings. Times are literals that print as ``relTime("…")`` and
    ``absTime("…")``; ERROR loses its reason, which is not part of the language. Raises TypeError
    for another type and ValueError for an integer over 64 bits and for a time without a zone.

    >>> print(literal([1, "x", {"a": True}, None]))
    {1, "x", [ a = true ], undefined}
    """
    value = ours(value)
    if isinstance(value, int) and not MIN_INT <= value <= MAX_INT:
        raise ValueError(f"{value} does not fit the 64 bits of a ClassAd integer")
    if isinstance(value, datetime):
        offset = value.utcoffset()
        if offset is None:
            raise ValueError(
                f"{value} has no time zone, and a ClassAd time has one: .astimezone() gives it the"
                " local one"
            )
        # An ad keeps the offset, not the rules of a zone, by which sums would differ.
        value = value.replace(tzinfo=timezone(offset), fold=0)
    if isinstance(value, (bool, datetime, timedelta, UndefinedType)):
        return Literal(value)
    if value is None:
        return Literal(UNDEFINED)
    # Of a subclass, such as an enumeration or a real of NumPy, the plain value.
    if isinstance(value, int):
        return Literal(int(value))
    if isinstance(value, float):
        return Literal(float(value))
    if isinstance(value, str):
        return Literal(str.__str__(value))
    if isinstance(value, Expr):
        return value
    if is_error(value):
        return Literal(ErrorType())
    if isinstance(value, (list, tuple)):
        return ListExpr(tuple(map(literal, value)))
    if isinstance(value, Mapping) or is_ad(value):
        return (value if isinstance(value, ClassAd) else ClassAd(value)).expression()
    advice = "; decode it to text" if isinstance(value, (bytes, bytearray)) else ""
    raise TypeError(f"{type(value).__name__} is not a ClassAd value{advice}")


def _value_of(node: Any, within: ClassAd) -> Any:
    """The value of a list without expressions or of a nested ad; any other node as it is."""
    if type(node) is Literal:
        return node.value
    if type(node) is AdExpr:
        return ClassAd.from_expression(node, parent=within)
    if type(node) is ListExpr:
        items = [_value_of(item, within) for item in node.items]
        return node if any(isinstance(item, Expr) for item in items) else items
    return node


def _python(held: Any) -> Any:
    """Convert an expression to a plain value, a list or a dict; return others unchanged."""
    if isinstance(held, Literal):
        return None if held.value is UNDEFINED else held.value
    if isinstance(held, ListExpr):
        return [_python(item) for item in held.items]
    if isinstance(held, AdExpr):
        return dict(zip(held.names, map(_python, held.expressions), strict=True))
    return held


def an_ad(given: object) -> ClassAd:
    """Convert an argument to a ClassAd: ours, or one of HTCondor's Python bindings.

    Raises TypeError for anything else, such as an ad's text.

    >>> an_ad("[ a = 1 ]")
    Traceback (most recent call last):
    ...
    TypeError: an ad was expected, not str; parse_ad() makes one of a text
    """
    if isinstance(given, ClassAd):
        return given
    if is_ad(given):
        return ClassAd(given)
    raise no_ad(given)


def some_ads(given: object) -> Iterator[ClassAd]:
    """Convert an argument to ads, one by one. Raises TypeError at once for a single thing.

    >>> some_ads("[ a = 1 ]")
    Traceback (most recent call last):
    ...
    TypeError: several ads were expected, not str; parse_ads() makes them of a text
    """
    if is_ad(given) or isinstance(given, (str, bytes, ClassAd)) or not isinstance(given, Iterable):
        text = isinstance(given, (str, bytes))
        advice = "; parse_ads() makes them of a text" if text else ", such as a list of them"
        raise TypeError(f"several ads were expected, not {type(given).__name__}{advice}")
    return map(an_ad, given)


def an_expression(given: Expr | str) -> Expr:
    """Convert an argument, an Expr or its text, to an Expr. Raises ParseError and TypeError.

    >>> an_expression(3)
    Traceback (most recent call last):
    ...
    TypeError: an expression was expected, as an Expr or as text, not int
    """
    if isinstance(given, str):
        return parse_expr(given)
    if isinstance(given, Expr):
        return given
    raise TypeError(
        f"an expression was expected, as an Expr or as text, not {type(given).__name__}"
    )
