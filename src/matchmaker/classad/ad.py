"""ClassAd: attributes by name, case-insensitive, in the order and the spelling they were given.

An ad holds expressions; ``eval`` gives values. Reading and writing ads is in ``formats``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from matchmaker.classad.nodes import AdExpr, Expr, literal
from matchmaker.classad.unparse import unparse
from matchmaker.classad.values import UNDEFINED, Value

if TYPE_CHECKING:
    from matchmaker.classad.nodes import References


class ClassAd(MutableMapping[str, Expr]):
    """A mapping from attribute names to expressions.

    Setting an attribute takes an expression or a value (a string is text, not code: use
    ``parse_expr`` for an expression). Names are compared without regard to ASCII case; the first
    spelling is kept. Two ads are equal when they hold the same expressions under the same names.

    >>> ad = ClassAd({"Cpus": 4})
    >>> ad["Name"] = "wn1"
    >>> ad["cpus"], "NAME" in ad, list(ad)
    (Expr('4'), True, ['Cpus', 'Name'])
    >>> print(ad)
    [ Cpus = 4; Name = "wn1" ]
    """

    __slots__ = ("__weakref__", "_entries", "_parent")

    _entries: dict[str, tuple[str, Expr]]
    _parent: ClassAd | None

    def __init__(
        self, attributes: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), /, **more: Any
    ) -> None:
        self._entries = {}
        self._parent = None
        self.update(attributes, **more)

    @classmethod
    def from_expression(cls, node: AdExpr, parent: ClassAd | None = None) -> ClassAd:
        """The ad that ``[…]`` denotes; ``parent`` is the ad in which it is written, if any."""
        ad = cls()
        ad._entries = {
            name.lower(): (name, expression)
            for name, expression in zip(node.names, node.expressions, strict=True)
        }
        ad._parent = parent
        return ad

    def expression(self) -> AdExpr:
        """The ad as a node, to be set inside another expression."""
        names = tuple(name for name, _ in self._entries.values())
        return AdExpr(names, tuple(expression for _, expression in self._entries.values()))

    @property
    def parent(self) -> ClassAd | None:
        """The ad in which this one is nested, or None."""
        return self._parent

    @property
    def root(self) -> ClassAd:
        """The outermost ad around this one."""
        ad = self
        while ad._parent is not None:
            ad = ad._parent
        return ad

    def lookup(self, folded: str) -> Expr | None:
        """The expression under a name that is already in small letters, or None."""
        entry = self._entries.get(folded)
        return entry[1] if entry is not None else None

    def eval(self, what: str | Expr, target: ClassAd | None = None) -> Value:
        """The value of an attribute, or of an expression in which this ad is ``MY``.

        ``target`` is the other ad of a match. A missing attribute is UNDEFINED; nothing raises.

        >>> from matchmaker import parse_ad
        >>> parse_ad("[Cpus = 4; Memory = Cpus * 2048]").eval("memory")
        8192
        """
        expression: Expr | None = self.get(what) if isinstance(what, str) else what
        if expression is None:
            return UNDEFINED
        from matchmaker.classad.evaluate import evaluate, evaluate_attribute

        if isinstance(what, str):
            return evaluate_attribute(self, what, target)
        return evaluate(expression, self, target)

    def references(self) -> References:
        """The names that all the ad's expressions mention together, by scope."""
        return self.expression().references()

    def copy(self) -> ClassAd:
        """Another ad with the same attributes."""
        twin = ClassAd()
        twin._entries = dict(self._entries)
        twin._parent = self._parent
        return twin

    __copy__ = copy

    def spelling(self, name: str) -> str:
        """The name as the ad spells it. Raises KeyError where the attribute is missing."""
        return self._entries[name.lower()][0]

    def __getitem__(self, name: str) -> Expr:
        return self._entries[name.lower()][1]

    def __setitem__(self, name: str, value: Expr | Value) -> None:
        if not isinstance(name, str):
            raise TypeError(f"an attribute name is a string, not {type(name).__name__}")
        expression = value if isinstance(value, Expr) else literal(value)
        folded = name.lower()
        known = self._entries.get(folded)
        self._entries[folded] = (known[0] if known else name, expression)

    def __delitem__(self, name: str) -> None:
        del self._entries[name.lower()]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._entries

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClassAd):
            return NotImplemented
        if len(self) != len(other):
            return False
        return all(e is other.lookup(name) for name, (_, e) in self._entries.items())

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return unparse(self.expression())

    def __repr__(self) -> str:
        text = str(self)
        return f"<ClassAd {text if len(text) <= 200 else text[:197] + '...'}>"
