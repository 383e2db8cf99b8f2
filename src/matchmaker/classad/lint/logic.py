"""Rules about conditions: clauses that are always or never true, and branches never taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from matchmaker.classad.lint.bounds import Bound, bound_of, contradictions, coverings
from matchmaker.classad.lint.fixes import text_of, whole
from matchmaker.classad.lint.kinds import RELATIONS, Facts
from matchmaker.classad.lint.known import Known
from matchmaker.classad.lint.model import Report, Site
from matchmaker.classad.nodes import Binary, Call, Expr, Literal, Ternary, Unary
from matchmaker.classad.operators import truth
from matchmaker.classad.places import Place
from matchmaker.classad.values import UNDEFINED, Value, is_error

_CHAINS: Final = frozenset({"&&", "||"})
_TESTS: Final = RELATIONS | {"is", "isnt"} | _CHAINS


def _is_chain(node: Expr | None, operator: str = "") -> bool:
    if not isinstance(node, Binary):
        return False
    return node.operator == operator if operator else node.operator in _CHAINS


def _node_above(site: Site) -> Expr | None:
    return site.above.place.node if site.above is not None else None


def _constant_clause(site: Site, facts: Facts) -> Value | None:
    """The truth of a clause that is constant, with nothing constant around it; else None."""
    fact = facts[site.place]
    value = fact.value
    if not fact.is_constant or isinstance(value, str):
        return None
    above = site.above
    clause = above is not None and _is_chain(above.place.node)
    if not (clause if isinstance(site.place.node, Literal) else _is_test(site.place.node)):
        return None
    if above is not None and (
        facts[above.place].is_constant
        or _condition(above.place) is site.place
        or (isinstance(above.place.node, Binary) and not clause)
    ):
        return None
    return truth(value)  # type: ignore[arg-type]


def _is_test(node: Expr) -> bool:
    if isinstance(node, Unary):
        return node.operator == "!"
    return isinstance(node, Binary) and node.operator in _TESTS


def _condition(place: Place) -> Place | None:
    """The condition of a ternary, or of ifThenElse()."""
    node = place.node
    if isinstance(node, Ternary) or (
        isinstance(node, Call) and node.function.lower() == "ifthenelse" and len(place.parts) == 3
    ):
        return place.parts[0]
    return None


def never_true(site: Site, facts: Facts, known: Known) -> Iterator[Report]:
    """A clause that no value makes true."""
    truth_ = _constant_clause(site, facts)
    if (
        truth_ is False
        or truth_ is UNDEFINED
        or (is_error(truth_) and isinstance(site.place.node, Literal))
    ):
        above = _node_above(site)
        effect = (
            ", and so nothing is" if _is_chain(above, "&&")
            else ": it has no effect" if _is_chain(above, "||") else ""
        )  # fmt: skip
        yield site.report(f"{str(site.place.node)[:60]} is never true{effect}")
    for first, second in contradictions(_bounds(site, "&&")):
        yield Report(
            site.piece, second.place.start, second.place.end,
            f"never true: nothing meets {first} and {second}",
        )  # fmt: skip


def always_true(site: Site, facts: Facts, known: Known) -> Iterator[Report]:
    """A clause that every value makes true."""
    if _constant_clause(site, facts) is True:
        above = _node_above(site)
        effect = (
            ": it has no effect" if _is_chain(above, "&&")
            else ", and so is the whole" if _is_chain(above, "||") else ""
        )  # fmt: skip
        yield site.report(f"{str(site.place.node)[:60]} is always true{effect}")
    for first, second in coverings(_bounds(site, "||")):
        kind = "string" if isinstance(second.value, str) else "number"
        yield Report(
            site.piece, second.place.start, second.place.end,
            f"every {kind} meets {first} or {second}: this is true wherever"
            f" {second.attribute} is a {kind}",
        )  # fmt: skip


def _bounds(site: Site, operator: str) -> list[Bound]:
    """The bounds among the clauses of a whole chain of ``&&`` or ``||``, in order."""
    if not _is_chain(site.place.node, operator) or _is_chain(_node_above(site), operator):
        return []
    bounds: list[Bound] = []
    stack = [site.place]
    while stack:
        place = stack.pop()
        if _is_chain(place.node, operator):
            stack.extend(reversed(place.parts))
        else:
            bound = bound_of(place)
            if bound is not None:
                bounds.append(bound)
    return bounds


def dead_branch(site: Site, facts: Facts, known: Known) -> Iterator[Report]:
    """A branch that a constant condition rules out."""
    condition = _condition(site.place)
    if condition is None or not facts[condition].is_constant:
        return
    value = facts[condition].value
    outcome = truth(value)  # type: ignore[arg-type]
    text = str(condition.node)[:60]
    _, then, otherwise = site.place.parts
    if isinstance(outcome, bool):
        taken, dead = (then, otherwise) if outcome else (otherwise, then)
        yield site.report(
            f"{text} is {'always' if outcome else 'never'} true:"
            f" {str(dead.node)[:60]} is never reached",
            whole(site, text_of(site, taken)),
        )
    elif not isinstance(value, str):
        yield site.report(f"{text} is never true or false: neither branch is reached")


def letter_case(site: Site, facts: Facts, known: Known) -> Iterator[Report]:
    """``x is "Linux"``: unlike ``==`` it tells "linux" from "Linux"."""
    node = site.place.node
    if not isinstance(node, Binary) or node.operator not in ("is", "isnt"):
        return
    for side in (node.left, node.right):
        value = side.value if isinstance(side, Literal) else None
        if isinstance(value, str) and value.upper() != value.lower():
            plain = "==" if node.operator == "is" else "!="
            yield site.report(f"{node.operator} tells upper from lower case; {plain} does not")
            return
