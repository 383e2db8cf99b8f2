"""Facts of an expression without any ad: the kinds of its value, and the value of constants.

An expression whose set of kinds is empty is undefined or an error wherever it is evaluated. The
sets are never too small; an unknown value has all kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from matchmaker._limits import LINT_LIMITS as LIMITS
from matchmaker.classad import nodes
from matchmaker.classad.ad import ClassAd, literal
from matchmaker.classad.errors import LONGEST, closest
from matchmaker.classad.evaluate import evaluate
from matchmaker.classad.functions import (
    BOOLEAN,
    FUNCTIONS,
    NUMBER,
    STRING,
    UNFOLDABLE,
    Trait,
    result_of,
    traits_of,
)
from matchmaker.classad.nodes import AdExpr, Expr
from matchmaker.classad.operators import RELATIONS
from matchmaker.classad.values import UNDEFINED, ErrorType, Value, is_error, is_exceptional
from matchmaker.classad.walks import postorder, rebuild
from matchmaker.linting.model import AdScope, LintSite, NodePlace, Unit, role_of

LIST: Final = "list"
AD: Final = "ad"
TIME: Final = "absolute time"
SPAN: Final = "relative time"
ANY: Final = frozenset({NUMBER, BOOLEAN, STRING, LIST, AD, TIME, SPAN})
NONE: Final[frozenset[str]] = frozenset()
CONDITIONS: Final = frozenset({NUMBER, BOOLEAN})
_TIMES: Final = frozenset({TIME, SPAN})
_CALCULABLE: Final = CONDITIONS | _TIMES


class Unknown:
    """The class of the value of parts that are not constant."""


UNKNOWN: Final = Unknown()


@attrs.frozen(slots=True)
class Fact:
    """Facts of a node at a place.

    Attributes:
        kinds: of its value, besides undefined and error.
        value: of a constant; else UNKNOWN.
        by_target: whether this was concluded from the target ads.
    """

    kinds: frozenset[str]
    value: Value | Unknown = UNKNOWN
    by_target: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether it has the same value everywhere."""
        return self.value is not UNKNOWN


Facts = Mapping[NodePlace, Fact]
TargetKinds = Mapping[str, frozenset[str]]


def kind_of(value: object) -> frozenset[str]:
    """The kind of a value, as a set; empty for undefined and error."""
    if is_exceptional(value):
        return NONE
    for types, kind in _KINDS:
        if isinstance(value, types):
            return frozenset({kind})
    return ANY


_KINDS: Final[tuple[tuple[Any, str], ...]] = (
    (bool, BOOLEAN), ((int, float), NUMBER), (str, STRING), ((list, nodes.ListExpr), LIST),
    ((ClassAd, nodes.AdExpr), AD), (datetime, TIME), (timedelta, SPAN),
)  # fmt: skip


def held_kinds(held: object) -> frozenset[str]:
    """The kinds of a value, or of an unknown expression."""
    if isinstance(held, nodes.Literal):
        return kind_of(held.value)
    if isinstance(held, (nodes.ListExpr, nodes.AdExpr)):
        return kind_of(held)
    return ANY if isinstance(held, Expr) else kind_of(held)


def facts_of(unit: Unit, targets: TargetKinds) -> Facts:
    """Facts of every node; the parts of a node before itself."""
    facts: dict[NodePlace, Fact] = {}
    for site in reversed(unit.sites):
        facts[site.place] = _fact(site, [facts[part] for part in _parts(site.place)], targets)
    return facts


def _parts(place: NodePlace) -> Iterable[NodePlace]:
    return () if isinstance(place.node, nodes.Literal) else place.parts


def _fact(site: LintSite, parts: list[Fact], targets: TargetKinds) -> Fact:
    node = site.place.node
    if isinstance(node, nodes.Literal):
        return Fact(kind_of(node.value), node.value)
    if isinstance(node, nodes.Attr):
        return _attribute(site, targets)
    by_target = any(part.by_target for part in parts)
    if all(part.is_constant for part in parts):
        value = _constant(node, parts)
        if value is not UNKNOWN:
            return Fact(kind_of(value), value, by_target)
    if undivided(node, parts):
        return Fact(NONE, UNKNOWN, by_target)
    return Fact(_KINDS_OF[type(node)](node, [part.kinds for part in parts]), UNKNOWN, by_target)


def undivided(node: Expr, parts: list[Fact]) -> str:
    """Why a division is an error whatever value is divided, or empty.

    >>> from matchmaker import parse_expr
    >>> undivided(parse_expr("x % 0"), [Fact(ANY), Fact(kind_of(0), 0)])
    'division by zero'
    """
    if not isinstance(node, nodes.Binary) or node.operator not in ("/", "%"):
        return ""
    divisor = parts[1].value
    if node.operator == "%" and isinstance(divisor, float):
        return "% takes integers"
    real = node.operator == "/" and NUMBER in parts[0].kinds
    return "division by zero" if is_zero(divisor) and not real else ""


def is_zero(value: object) -> bool:
    """Whether a value is a number that is 0; false counts as one."""
    return isinstance(value, (int, float)) and not value


def _constant(node: Expr, parts: list[Fact]) -> Value | Unknown:
    """The value of a node whose parts are constant.

    Of a call that depends on more than its arguments an error counts alone: the wrong type of an
    argument is one everywhere.
    """
    if isinstance(node, nodes.AdExpr):
        return UNKNOWN
    only_errors = False
    values = [part.value for part in parts]
    if isinstance(node, nodes.Call):
        function = FUNCTIONS.get(node.function.lower())
        if function is None or not parts or not function.accepts(len(parts)):
            return UNKNOWN
        traits = traits_of(node.function, len(parts))
        texts = all(isinstance(value, str) for value in values)
        if traits & _IN_OTHER_ADS or (Trait.LOCAL in traits and texts):
            return UNKNOWN
        only_errors = bool(traits & _ONLY_ERRORS)
        if Trait.PATTERN in traits and isinstance(values[0], str) and values[0]:
            # Whether it is one is another rule's; matching by it might take long.
            values[0] = "a"
    try:
        value = evaluate(rebuild(node, tuple(map(literal, values))))
    except (TypeError, ValueError):
        return UNKNOWN
    if only_errors and not is_error(value):
        return UNKNOWN
    return value if isinstance(value, _PLAIN) else UNKNOWN


_IN_OTHER_ADS: Final = frozenset({Trait.CODE, Trait.GANG, Trait.ASKING})
_ONLY_ERRORS: Final = UNFOLDABLE | {Trait.PATTERN}
_PLAIN: Final = (bool, int, float, str, list, timedelta, datetime, type(UNDEFINED), ErrorType)


def _attribute(site: LintSite, targets: TargetKinds) -> Fact:
    node = site.place.node
    role = role_of(site)
    if not role or not isinstance(node, nodes.Attr):
        return Fact(ANY)
    if role != "target":
        definition = site.scope.find(node.folded)
        if definition is not None:
            return Fact(held_kinds(definition.value.node))
    if role != "my" and node.folded in targets:
        # In every target where it is not undefined it is one of these.
        return Fact(targets[node.folded], UNKNOWN, True)
    return Fact(ANY)


Kinds = frozenset[str]


def comparable(left: Kinds, right: Kinds) -> bool:
    """Whether a comparison of the two can be true or false."""
    shared = left & right
    return bool(shared - {LIST, AD}) or bool(left & CONDITIONS and right & CONDITIONS)


def _unary(node: nodes.Unary, parts: list[Kinds]) -> Kinds:
    [operand] = parts
    if node.operator == "!":
        return frozenset({BOOLEAN}) if operand & CONDITIONS else NONE
    return operand & ({NUMBER} if node.operator == "~" else {NUMBER, SPAN})


def _binary(node: nodes.Binary, parts: list[Kinds]) -> Kinds:
    left, right = parts
    operator = node.operator
    if operator in ("&&", "||", "is", "isnt"):
        return frozenset({BOOLEAN})
    if operator == "?:":
        return left | right
    if operator in RELATIONS:
        return frozenset({BOOLEAN}) if comparable(left, right) else NONE
    if operator in BITWISE:
        return left & right & {NUMBER}
    left, right = left & _CALCULABLE, right & _CALCULABLE
    if not left or not right:
        return NONE
    return frozenset({NUMBER, TIME, SPAN} if (left | right) & _TIMES else {NUMBER})


def _call(node: nodes.Call, parts: list[Kinds]) -> Kinds:
    result = result_of(node.function)
    return frozenset({result}) if result else ANY


BITWISE: Final = frozenset({"&", "|", "^", "<<", ">>", ">>>"})

_KINDS_OF: Final[Mapping[type, Callable[[Any, list[Kinds]], Kinds]]] = {
    nodes.Unary: _unary,
    nodes.Binary: _binary,
    nodes.Ternary: lambda node, parts: parts[1] | parts[2],
    nodes.Call: _call,
    nodes.Subscript: lambda node, parts: ANY,
    nodes.ListExpr: lambda node, parts: frozenset({LIST}),
    nodes.AdExpr: lambda node, parts: frozenset({AD}),
}


Schema = Collection[str] | Callable[[], Iterable[str]]


@attrs.frozen(slots=True)
class KnownNames:
    """Names from the target ads and from a schema, by their lower case.

    Attributes:
        targets: of each attribute of the targets, at any depth, its spelling.
        kinds: of each attribute of the targets.
        schema: of each name of the schema its spelling.
        has_targets: whether there are any targets.
        asked: suggestions made before.
    """

    targets: Mapping[str, str]
    kinds: Mapping[str, frozenset[str]]
    schema: Mapping[str, str]
    has_targets: bool
    asked: dict[tuple[str, AdScope, str], str] = attrs.field(factory=dict)

    def has(self, folded: str) -> bool:
        """Whether a name is one of the targets' or of the schema."""
        return folded in self.targets or folded in self.schema

    def suggestion(self, name: str, scope: AdScope, role: str, words: Iterable[str] = ()) -> str:
        """The known name, or the one of `words`, most like a name; empty if none is like it.

        By the role of the name, the names of the ad, of the targets, or both are compared.
        """
        key = (name.lower(), scope, role)
        if key not in self.asked:
            names = len(scope.last) + len(self.targets) + len(self.schema)
            if len(name) > LONGEST or len(self.asked) * names > LIMITS.names:
                return ""
            own = () if role == "target" else scope.names()
            theirs = {} if role == "my" else self.targets
            extra = {other.lower(): other for other in (*own, *words)}
            self.asked[key] = closest(name, {**self.schema, **theirs, **extra})
        return self.asked[key]


def known_from(targets: Iterable[ClassAd], schema: Schema | None) -> KnownNames:
    """The names in target ads and in a schema. TypeError for a schema that is a text."""
    if isinstance(schema, (str, bytes)):
        # Its letters would be the names.
        raise TypeError(
            "schema takes the names of attributes, or a function that gives them, not a text"
            f" such as {schema[:40]!r}"
        )
    spelling: dict[str, str] = {}
    kinds: dict[str, frozenset[str]] = {}

    def take(name: str, held: object) -> None:
        folded = name.lower()
        spelling.setdefault(folded, name)
        kinds[folded] = kinds.get(folded, frozenset()) | held_kinds(held)

    some = False
    for ad in targets:
        some = True
        for name, expression in ad.expressions().items():
            take(name, expression)
            if expression.depth > 1:
                # Matchmakers lift the attributes of nested ads, such as a CE's description.
                for node in postorder(expression):
                    if isinstance(node, AdExpr):
                        for inner, part in zip(node.names, node.expressions, strict=True):
                            take(inner, part)
    names = schema() if callable(schema) else schema or ()
    # An attribute that is undefined in a target may be anything in another.
    return KnownNames(spelling, {name: found for name, found in kinds.items() if found},
                 {name.lower(): name for name in names}, some)  # fmt: skip
