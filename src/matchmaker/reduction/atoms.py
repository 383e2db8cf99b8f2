"""Atoms: conditions on one attribute of a host, as the values that give each outcome.

An outcome is T (true), F (false), U (undefined) or E (error).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from matchmaker.classad import nodes
from matchmaker.classad.nodes import TARGET_SCOPES, TRUE, Expr, scope_of
from matchmaker.classad.operators import RELATIONS, ascii_fold, truth
from matchmaker.classad.values import UNDEFINED, Value, is_error
from matchmaker.classad.walks import compared, disjunction
from matchmaker.reduction.domains import ANY, LISTS, MISSING, NUMBERS, TEXTS, Domain, numbers
from matchmaker.reduction.laws import numeric_subject

_EXACT: Final = 2**53
"""Below this an integer and a real compare as their values do."""


def outcome(value: Value) -> str:
    """The outcome of a value as a condition.

    >>> outcome(2), outcome(0.0), outcome(UNDEFINED), outcome("yes")
    ('T', 'F', 'U', 'E')
    """
    came_to = truth(value)
    if came_to is UNDEFINED:
        return "U"
    return "E" if is_error(came_to) else "T" if came_to else "F"


def host_attribute(node: Expr) -> nodes.Attr | None:
    """The node if it is an attribute of the host, such as ``other.Name``, else None."""
    return node if isinstance(node, nodes.Attr) and scope_of(node) in TARGET_SCOPES else None


def comes_to(node: Expr, outcomes: Iterable[str]) -> Expr:
    """An expression that is true exactly if another one, as a condition, has one of the outcomes.

    >>> from matchmaker import parse_expr
    >>> print(comes_to(parse_expr("x"), "T")), print(comes_to(parse_expr("x"), "FU"))
    x
    (x && true) =?= false || isUndefined(x && true)
    (None, None)
    """
    wanted = [outcome for outcome in "TFUE" if outcome in outcomes]
    if wanted == ["T"]:
        return node
    plain = nodes.Binary("&&", node, TRUE)
    tests: dict[str, Expr] = {
        "T": nodes.Binary("is", plain, TRUE),
        "F": nodes.Binary("is", plain, nodes.Literal(False)),
        "U": nodes.Call("isUndefined", (plain,)),
        "E": nodes.Call("isError", (plain,)),
    }
    return disjunction([tests[each] for each in wanted])


Tested: TypeAlias = tuple[nodes.Attr, Mapping[str, Domain], Expr | None]


def tested(node: Expr) -> Tested | None:
    """A condition on the value of one attribute: which values give which outcome.

    The expression beside the domains must have the same outcome: it decides what domains cannot,
    such as letter case for ``is``.
    """
    attribute = host_attribute(node)
    if attribute is not None:
        zero = numbers("==", 0)
        return attribute, _parts(NUMBERS & ~zero, zero), None
    subject = numeric_subject(node)
    attribute = host_attribute(subject) if subject is not None else None
    if attribute is not None:
        return attribute, {"T": NUMBERS, "F": ~NUMBERS}, None
    if isinstance(node, nodes.Call) and len(node.arguments) == 1:
        attribute = host_attribute(node.arguments[0])
        domain = {"isundefined": MISSING, "isstring": TEXTS, "islist": LISTS}.get(
            node.function.lower()
        )
        if attribute is None or domain is None:
            return None
        return attribute, {"T": domain, "F": ~domain}, None
    found = compared(node)
    if found is None:
        return None
    subject, relation, value = found
    attribute = host_attribute(subject)
    return None if attribute is None else _compared(attribute, relation, value, node)


def _parts(true: Domain, false: Domain) -> dict[str, Domain]:
    return {"T": true, "F": false, "U": MISSING, "E": ~(true | false | MISSING)}


def _compared(attribute: nodes.Attr, operator: str, value: Value, node: Expr) -> Tested | None:
    if operator in ("is", "isnt"):
        same = _same(value)
        if same is None:
            return None
        domain, rest = same
        unlike, like = ("T", "F") if operator == "isnt" else ("F", "T")
        if rest:
            # `is` may be false of some values in the domain.
            return attribute, {like: domain, unlike: ANY}, node
        return attribute, {like: domain, unlike: ~domain}, None
    split = divided(operator, value)
    return None if split is None else (attribute, _parts(*split), None)


def divided(relation: str, value: Value) -> tuple[Domain, Domain] | None:
    """The values for which a relation to a constant is true, and those for which it is false.

    None for a constant or a relation that domains cannot say this of.

    >>> divided("==", "Linux") == (Domain(texts=frozenset({"linux"})), divided("!=", "Linux")[0])
    True
    """
    if isinstance(value, str) and relation in ("==", "!="):
        same = Domain(texts=frozenset({ascii_fold(value)}))
        return (same, TEXTS & ~same) if relation == "==" else (TEXTS & ~same, same)
    if isinstance(value, (int, float)) and relation in RELATIONS and abs(value) < _EXACT:
        true = numbers(relation, value + 0)
        return true, NUMBERS & ~true
    return None


def _same(value: Value) -> tuple[Domain, bool] | None:
    """The domain of values that may be identical to a constant, and whether some may differ."""
    if value is UNDEFINED:
        return MISSING, False
    if isinstance(value, str):
        return Domain(texts=frozenset({ascii_fold(value)})), True
    if isinstance(value, (int, float)) and abs(value) < _EXACT:
        return numbers("==", value + 0), True
    return None
