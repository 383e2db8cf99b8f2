"""Rules about conditions: clauses that are always or never true, and branches never taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import attrs

from matchmaker._limits import LINT_LIMITS as LIMITS
from matchmaker.classad import nodes
from matchmaker.classad.nodes import Attr, Call, Expr, Unary, scope_of
from matchmaker.classad.operators import BINARY, CONNECTIVES, IDENTITY, MIRRORED, ascii_fold, truth
from matchmaker.classad.printer import brief, symbol_of, unparse_name
from matchmaker.classad.values import UNDEFINED, UndefinedType, Value, is_error, is_number
from matchmaker.classad.walks import SCOPES, compared
from matchmaker.linting.kinds import Facts, KnownNames
from matchmaker.linting.model import LintSite, NodePlace, Report, text_of, whole
from matchmaker.reduction.boxes import divided
from matchmaker.reduction.domains import NOTHING, TEXTS, Domain, numbers


@attrs.frozen(slots=True, eq=False)
class Bound:
    """A clause: the attribute, its relation to a constant, and its site."""

    attribute: Expr
    relation: str
    value: float | str | UndefinedType
    place: NodePlace

    @property
    def is_text(self) -> bool:
        """Whether it compares with a string."""
        return isinstance(self.value, str)

    @property
    def is_exact(self) -> bool:
        """Whether it compares by type too, and with undefined."""
        return self.relation in IDENTITY

    @property
    def domain(self) -> Domain:
        """The values that meet it, and perhaps more strings."""
        split = divided(self.relation, self.value)
        return TEXTS if split is None else split[0]

    def holds_of(self, value: Value) -> bool:
        """Whether the clause is true if the attribute has a value."""
        return BINARY[self.relation](value, self.value) is True

    def __str__(self) -> str:
        return str(self.place.node)


def bound_of(place: NodePlace) -> Bound | None:
    """The bound that a clause sets, if it is of the plain form."""
    node = place.node
    asked = _asked_for(node)
    if asked is not None:
        return Bound(asked, "is", UNDEFINED, place)
    if isinstance(node, Unary) and node.operator == "!":
        asked = _asked_for(node.operand)
        return Bound(asked, "isnt", UNDEFINED, place) if asked is not None else None
    found = compared(node)
    if found is None or not isinstance(found[0], Attr):
        return None
    attribute, relation, value = found
    exactly = relation in IDENTITY
    if exactly and (value is UNDEFINED or isinstance(value, bool)):
        return Bound(attribute, relation, value, place)
    if isinstance(value, str):
        return Bound(attribute, relation, value if exactly else ascii_fold(value), place)
    if not is_number(value):
        return None
    exact = divided("==", value) is not None
    return Bound(attribute, relation, value, place) if exact else None


def _asked_for(node: Expr) -> Attr | None:
    """The attribute x of ``isUndefined(x)``."""
    if isinstance(node, Call) and node.function.lower() == "isundefined":
        [asked, *_] = [*node.arguments, None]
        return asked if isinstance(asked, Attr) and len(node.arguments) == 1 else None
    return None


def contradictions(bounds: Iterable[Bound]) -> Iterator[tuple[Bound, Bound]]:
    """Pairs of bounds, joined by ``&&``, that no value meets: the first pair of each attribute."""
    return _pairs(bounds, excludes)


def coverings(bounds: Iterable[Bound]) -> Iterator[tuple[Bound, Bound]]:
    """Pairs of bounds, joined by ``||``, that every number (or every string) meets."""
    return _pairs(bounds, covers)


def _pairs(
    bounds: Iterable[Bound], test: Callable[[Bound, Bound], bool]
) -> Iterator[tuple[Bound, Bound]]:
    groups: dict[Expr, list[Bound]] = {}
    for bound in bounds:
        groups.setdefault(bound.attribute, []).append(bound)
    for group in groups.values():
        pairs = (
            (first, second)
            for later, second in enumerate(group[: LIMITS.bounds])
            for first in group[:later]
            if test(first, second)
        )
        found = next(pairs, None)
        if found is not None:
            yield found


def excludes(one: Bound, other: Bound) -> bool:
    """Whether no value meets both."""
    for this, its in ((one, other), (other, one)):
        if this.relation == "is":
            return not its.holds_of(this.value)
    return not (one.is_exact or other.is_exact) and one.domain & other.domain == NOTHING


def covers(one: Bound, other: Bound) -> bool:
    """Whether every value of the kind meets one of them."""
    for this, its in ((one, other), (other, one)):
        same_kind = not its.is_exact and this.is_text is its.is_text
        if this.relation == "isnt" or (this.relation == "!=" and same_kind):
            # All values but one meet it.
            return its.holds_of(this.value)
    if one.is_exact or other.is_exact or one.is_text or other.is_text:
        return False
    return one.domain | other.domain >= _ALL_NUMBERS


_ALL_NUMBERS: Final = numbers("<", 0) | numbers(">=", 0)


_TESTS: Final = MIRRORED.keys() | CONNECTIVES


def _is_chain(node: Expr | None, operator: str = "") -> bool:
    if not isinstance(node, nodes.Binary):
        return False
    return node.operator == operator if operator else node.operator in CONNECTIVES


def _constant_clause(site: LintSite, facts: Facts) -> Value | None:
    """The truth of a clause that is constant, with nothing constant around it; else None."""
    fact = facts[site.place]
    value = fact.value
    if not fact.is_constant or isinstance(value, str):
        return None
    above = site.above
    clause = above is not None and _is_chain(above.place.node)
    if not (clause if isinstance(site.place.node, nodes.Literal) else _is_test(site.place.node)):
        return None
    if above is not None and (
        facts[above.place].is_constant
        or _condition(above.place) is site.place
        or (isinstance(above.place.node, nodes.Binary) and not clause)
    ):
        return None
    return truth(value)  # type: ignore[arg-type]


def _is_bare_error(site: LintSite) -> bool:
    """Whether an expression that stands in no ad is nothing but ``error``."""
    node = site.place.node
    alone = site.above is None and not site.scope.definitions
    return alone and isinstance(node, nodes.Literal) and is_error(node.value)


def _is_test(node: Expr) -> bool:
    if isinstance(node, nodes.Unary):
        return node.operator == "!"
    return isinstance(node, nodes.Binary) and node.operator in _TESTS


def _condition(place: NodePlace) -> NodePlace | None:
    """The condition of a ternary, or of ifThenElse()."""
    node = place.node
    if isinstance(node, nodes.Ternary) or (
        isinstance(node, nodes.Call)
        and node.function.lower() == "ifthenelse"
        and len(place.parts) == 3
    ):
        return place.parts[0]
    return None


def never_true(site: LintSite, facts: Facts, known: KnownNames) -> Iterator[Report]:
    """A clause that no value makes true."""
    truth_ = _constant_clause(site, facts)
    if (
        truth_ is False
        or truth_ is UNDEFINED
        or (is_error(truth_) and isinstance(site.place.node, nodes.Literal))
        or _is_bare_error(site)
    ):
        yield from _constant(site, "never true", "&&", "nothing is")
    relation = _compares_with_itself(site)
    if relation in ("!=", "isnt", "<", ">"):
        alone = " but of NaN" if relation in ("!=", "isnt") else ""
        yield _with_other_ad(site, f"is never true{alone}")
    clauses = _clauses(site, "&&")
    for first, second in contradictions(_bounds(clauses)):
        message = f"never true: nothing meets {first} and {second}"
        kinds = first.is_text is second.is_text or "is" in (first.relation, second.relation)
        sensible = kinds and not covers(first, second)
        yield _pair(site, first.place, second.place, message, "||" if sensible else "")
    for place, clause in _denials(clauses):
        yield site.report(f"never true together with {brief(clause, 60)}", at=place)


def always_true(site: LintSite, facts: Facts, known: KnownNames) -> Iterator[Report]:
    """A clause that every value makes true."""
    if _constant_clause(site, facts) is True:
        yield from _constant(site, "always true", "||", "so is the whole")
    if _compares_with_itself(site) in ("==", "is", "<=", ">="):
        yield _with_other_ad(site, "is true wherever that can be compared")
    clauses = _clauses(site, "||")
    for first, second in coverings(_bounds(clauses)):
        message = f"everything meets {first} or {second}: this is always true"
        if not (first.is_exact and second.is_exact):
            kind = "string" if (first if second.is_exact else second).is_text else "number"
            message = (
                f"every {kind} meets {first} or {second}: this is true wherever"
                f" {second.attribute} is a {kind}"
            )
        operator = "" if excludes(first, second) else "&&"
        yield _pair(site, first.place, second.place, message, operator)
    for place, clause in _denials(clauses):
        message = f"with {brief(clause, 60)} this is always true, unless that has no value"
        yield site.report(message, at=place)


def _constant(site: LintSite, what: str, deciding: str, outcome: str) -> Iterator[Report]:
    """A constant clause that decides a chain of the one operator.

    In a chain of the other one it has no effect. Policies that are made by macros are full of
    these (``true && START``), and nothing is wrong with them.
    """
    message = f"{brief(site.place.node, 60)} is {what}"
    above = site.above
    if above is None or not _is_chain(above.place.node):
        yield site.report(message)
    elif _is_chain(above.place.node, deciding):
        yield site.report(f"{message}, and {outcome}")


def _compares_with_itself(site: LintSite) -> str:
    """The relation of a comparison between an attribute and itself, or empty."""
    node = site.place.node
    if (
        isinstance(node, nodes.Binary)
        and node.operator in _TESTS - CONNECTIVES
        and node.left is node.right
    ):
        return node.operator if isinstance(node.left, nodes.Attr) else ""
    return ""


def _with_other_ad(site: LintSite, what: str) -> Report:
    """An attribute compared with itself: the one in the other ad may be meant."""
    left, right = site.place.parts
    node = left.node
    message = f"{brief(node, 60)} compared with itself {what}"
    if not isinstance(node, nodes.Attr) or (node.base is not None and scope_of(node) not in SCOPES):
        return site.report(message)
    text = site.piece.text
    name = unparse_name(node.name)
    fix = f"MY.{name}{text[left.outer_end : right.outer_start]}TARGET.{name}"
    return site.report(f"{message}: is the other ad's meant?", fix)


def _pair(
    site: LintSite, first: NodePlace, second: NodePlace, message: str, operator: str
) -> Report:
    """Two clauses of a chain, to be joined by another operator if nothing stands between."""
    text = site.piece.text
    between = text[first.outer_end : second.outer_start]
    node = site.place.node
    if not operator or not isinstance(node, nodes.Binary) or between.strip() != node.operator:
        return site.report(message, at=second)
    fix = "".join(
        (text_of(site, first), between.replace(node.operator, operator), text_of(site, second))
    )
    start, end = first.outer_start, second.outer_end
    if (start, end) == (site.place.start, site.place.end):
        fix = whole(site, fix)
    elif operator == "||":
        fix = f"({fix})"
    return Report(site.piece, start, end, message, fix)


def _clauses(site: LintSite, operator: str) -> list[NodePlace]:
    """The clauses of a whole chain of ``&&`` or ``||``, in order; none of a part of a chain."""
    above = site.above
    if above is not None and _is_chain(above.place.node, operator):
        return []
    if not _is_chain(site.place.node, operator):
        return []
    clauses: list[NodePlace] = []
    stack = [site.place]
    while stack:
        place = stack.pop()
        if _is_chain(place.node, operator):
            stack.extend(reversed(place.parts))
        else:
            clauses.append(place)
    return clauses


def _bounds(clauses: Iterable[NodePlace]) -> list[Bound]:
    return [bound for place in clauses if (bound := bound_of(place)) is not None]


def _denials(clauses: Sequence[NodePlace]) -> Iterator[tuple[NodePlace, Expr]]:
    """The clauses ``!x`` beside which there is ``x``, with that."""
    clear = {place.node for place in clauses if not isinstance(place.node, nodes.Literal)}
    for place in clauses:
        node = place.node
        denied = node.operand if isinstance(node, nodes.Unary) and node.operator == "!" else None
        # What isUndefined() says is a bound.
        if denied is not None and denied in clear and bound_of(place) is None:
            yield place, denied


def dead_branch(site: LintSite, facts: Facts, known: KnownNames) -> Iterator[Report]:
    """A branch that a constant condition rules out."""
    condition = _condition(site.place)
    if condition is None or not facts[condition].is_constant:
        return
    value = facts[condition].value
    if isinstance(condition.node, nodes.Literal) and isinstance(value, bool):
        # A switch that a macro has set.
        return
    outcome = truth(value)  # type: ignore[arg-type]
    text = brief(condition.node, 60)
    _, then, otherwise = site.place.parts
    if isinstance(outcome, bool):
        taken, dead = (then, otherwise) if outcome else (otherwise, then)
        yield site.report(
            f"{text} is {'always' if outcome else 'never'} true:"
            f" {brief(dead.node, 60)} is never reached",
            whole(site, text_of(site, taken)),
        )
    elif not isinstance(value, (str, list)):
        yield site.report(f"{text} is never true or false: neither branch is reached")


def letter_case(site: LintSite, facts: Facts, known: KnownNames) -> Iterator[Report]:
    """``x is "Linux"``: unlike ``==`` it is false of "linux"."""
    node = site.place.node
    if not isinstance(node, nodes.Binary) or node.operator not in ("is", "isnt"):
        return
    for side in (node.left, node.right):
        value = side.value if isinstance(side, nodes.Literal) else None
        if isinstance(value, str) and value.upper() != value.lower():
            plain = "==" if node.operator == "is" else "!="
            yield site.report(
                f"{symbol_of(node.operator)} tells upper from lower case; {plain} does not"
            )
            return
