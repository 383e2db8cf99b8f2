"""Bounds: a condition on hosts as alternative boxes, each with a domain for every attribute.

A condition is true of a host exactly if one of its boxes contains it. A condition that no domain
expresses (two attributes compared, a function) stays in a box as an expression that must be true.

The truth tables of the connectives come from the operators themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import reduce as fold
from itertools import product
from typing import Final, TypeAlias

import attrs

from matchmaker._limits import REDUCTION_LIMITS as LIMITS
from matchmaker.classad import nodes
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import TARGET_SCOPES, TRUE, Expr, scope_of
from matchmaker.classad.operators import RELATIONS, ascii_fold, logical_and, logical_or, truth
from matchmaker.classad.values import ERROR, UNDEFINED, Value, is_error
from matchmaker.classad.walks import compared, conjunction, conjuncts, disjunction
from matchmaker.reduction.domains import (
    ANY,
    LISTS,
    MISSING,
    NOTHING,
    NUMBERS,
    TEXTS,
    Box,
    Domain,
    Tag,
    as_one,
    hull,
    meet_all,
    numbers,
    widened,
)
from matchmaker.reduction.facts import is_volatile
from matchmaker.reduction.simplify import numeric_subject

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

    The expression beside the domains must have the same outcome: it decides the cases that domains
    cannot, such as letter case for ``is``.
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
    """Divide values by a relation to a constant: those that make it true, those that make it false.

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


@attrs.frozen(slots=True)
class Bounds:
    """A condition as alternatives: it is true of a host exactly if one of ``boxes`` contains it.

    Without a box it is true of no host. ``names`` are the attributes as they are spelled.
    """

    boxes: tuple[Box, ...]
    names: Mapping[str, str]

    def accepts(self, host: ClassAd, job: ClassAd | None = None) -> bool:
        """Whether the condition is true of a host."""
        return any(box.accepts(host, job) for box in self.boxes)

    @property
    def necessary(self) -> Box | None:
        """A box that contains every host that satisfies the condition. None if no host does."""
        return hull(self.boxes) if self.boxes else None

    @property
    def sufficient(self) -> Box | None:
        """The alternative with fewest constraints among those without expressions, if there is one.

        The condition is true of every host in it.
        """
        whole = [box for box in self.boxes if not box.others]
        return min(whole, key=lambda box: len(box.domains) + len(box.tags), default=None)


def everything(name: str) -> Domain:
    """The domain of an unknown attribute."""
    return ANY


def bounds(condition: Expr, universe: Callable[[str], Domain] = everything) -> Bounds:
    """The bounds of a condition on hosts, such as a residual.

    ``universe`` gives the domain of an attribute by its folded name; constraints that every host
    meets are then left out. A condition with too many alternatives stays an expression.

    >>> from matchmaker import parse_expr
    >>> found = bounds(parse_expr("other.A > 9 || other.A > 5 && other.B == 1"))
    >>> found.necessary
    Box(domains={'a': Domain(numbers in (5, inf])}, tags=frozenset(), others=())
    >>> bounds(parse_expr("other.A > 5 && other.A < 3")).boxes
    ()
    """
    walk = _Walk(universe)
    clauses = conjuncts(condition)
    # Alternatives evaluate a part of them more or less often than it stands there.
    volatile = [clause for clause in clauses if is_volatile(clause)]
    found = [(clause, walk.true(clause)) for clause in clauses if clause not in volatile]
    if volatile:
        whole_clause = conjunction(volatile)
        found.append((whole_clause, [Box(others=(whole_clause,))]))
    # Clauses with one box are intersected first; what touches no alternative is added last.
    settled = meet_all([boxes[0] for _, boxes in found if len(boxes) == 1])
    if settled is None or any(not boxes for _, boxes in found):
        return Bounds((), walk.names)
    boxes, rest = walk.all_of([each for each in found if len(each[1]) > 1], settled)
    whole = meet_all([settled, *rest])
    met = [] if whole is None else [both for box in boxes if (both := box.meet(whole)) is not None]
    return Bounds(tuple(met), walk.names)


_OUTCOMES: Final[Mapping[str, Value]] = {"T": True, "F": False, "U": UNDEFINED, "E": ERROR}
_ALL: Final = frozenset(_OUTCOMES)


_TABLES: Final = {
    operator: {
        (left, right): outcome(table(_OUTCOMES[left], _OUTCOMES[right]))
        for left in _OUTCOMES
        for right in _OUTCOMES
    }
    for operator, table in (("&&", logical_and), ("||", logical_or))
}
_NOT: Final = {"T": "F", "F": "T", "U": "U", "E": "E"}

_Wanted: TypeAlias = frozenset[str]


class _TooMuchError(Exception):
    """A clause takes too many steps."""


@attrs.define(slots=True, eq=False)
class _Walk:
    """Computes the boxes of expressions, given the domains of the hosts' attributes."""

    universe: Callable[[str], Domain]
    names: dict[str, str] = attrs.Factory(dict)
    _known: dict[tuple[Expr, _Wanted], list[Box]] = attrs.Factory(dict)
    _steps: int = 0
    _spent: int = 0
    _held: int = 0

    def true(self, clause: Expr) -> list[Box]:
        """The boxes in which a clause is true; the clause as an expression if it is too large."""
        # A clause begins anew, as long as all together have not taken too much.
        self._steps = max(0, self._spent - LIMITS.clause_steps)
        before = self._steps
        try:
            return self._where(clause, frozenset("T"))
        except (RecursionError, _TooMuchError):
            return [Box(others=(clause,))]
        finally:
            self._spent += self._steps - before

    def all_of(
        self, several: Iterable[tuple[Expr, list[Box]]], settled: Box
    ) -> tuple[list[Box], list[Box]]:
        """Intersects the alternatives of several clauses, and the box that is required anyway.

        Also gives the condition beside any alternative: hull and expression of the clauses that
        would lead to too many.
        """
        several = list(several)
        met = [settled.on(box for _, boxes in several for box in boxes)]
        rest: list[Box] = []
        for clause, boxes in several:
            if len(met) * len(boxes) > LIMITS.boxes or self._held > LIMITS.united:
                around = hull(boxes)
                rest.append(Box(around.domains, around.tags, (clause,)))
                continue
            self._steps = 0
            found = [both for a, b in product(met, boxes) if (both := a.meet(b)) is not None]
            demands = sum(len(box.domains) + len(box.tags) + len(box.others) for box in found)
            self._held += demands * demands if len(found) > 1 else demands
            met = self._united(found)
        return met, rest

    def _where(self, node: Expr, wanted: _Wanted) -> list[Box]:
        """The boxes in which an expression, as a condition, has one of the wanted outcomes."""
        if wanted == _ALL:
            return [Box()]
        if not wanted:
            return []
        key = (node, wanted)
        if key not in self._known:
            self._known[key] = self._capped(self._found(node, wanted), node, wanted)
        return self._known[key]

    def _found(self, node: Expr, wanted: _Wanted) -> list[Box]:
        if isinstance(node, nodes.Literal):
            return [Box()] if outcome(node.value) in wanted else []
        if isinstance(node, nodes.Unary) and node.operator == "!":
            return self._where(node.operand, frozenset(_NOT[each] for each in wanted))
        if isinstance(node, nodes.Binary) and node.operator in _TABLES:
            return self._connective(node, wanted)
        if isinstance(node, nodes.Ternary):
            return self._ternary(node, wanted)
        found = self._leaf(node, wanted)
        return found if found is not None else [Box(others=(comes_to(node, wanted),))]

    def _connective(self, node: nodes.Binary, wanted: _Wanted) -> list[Box]:
        table = _TABLES[node.operator]
        # What the right side may come to, by the outcome of the left. Alternatives may overlap:
        # with more outcomes of the left each is the wider, and the shorter.
        allowed_by = {
            left: frozenset(right for right in _OUTCOMES if table[left, right] in wanted)
            for left in _OUTCOMES
        }
        by_right = {
            allowed: frozenset(left for left in _OUTCOMES if allowed <= allowed_by[left])
            for allowed in dict.fromkeys(allowed_by.values())
        }
        # With any outcome of the right, the boxes of the left are united already.
        first = self._where(node.left, by_right.pop(_ALL, frozenset()))
        return self._united(
            (
                box
                for allowed, lefts in by_right.items()
                for box in self._product((node.left, lefts), (node.right, allowed))
            ),
            first,
        )

    def _ternary(self, node: nodes.Ternary, wanted: _Wanted) -> list[Box]:
        condition = node.condition
        found = self._product((condition, frozenset("T")), (node.then, wanted))
        found += self._product((condition, frozenset("F")), (node.otherwise, wanted))
        return self._united([*found, *self._where(condition, wanted & frozenset("UE"))])

    def _product(self, left: tuple[Expr, _Wanted], right: tuple[Expr, _Wanted]) -> list[Box]:
        first = self._where(*left)
        if not first:
            return []
        second = self._where(*right)
        self._steps += len(first) * len(second) * (len(first[0].domains) + 1)
        if self._steps > LIMITS.clause_steps:
            raise _TooMuchError
        return [met for a, b in product(first, second) if (met := a.meet(b)) is not None]

    def _capped(self, boxes: list[Box], node: Expr, wanted: _Wanted) -> list[Box]:
        if len(boxes) <= LIMITS.boxes:
            return boxes
        around = hull(boxes)
        return [Box(around.domains, around.tags, (comes_to(node, wanted),))]

    def _united(self, boxes: Iterable[Box], united: Iterable[Box] = ()) -> list[Box]:
        """Drops boxes that others contain, and joins two that differ in one domain.

        Adds them to boxes that are ``united`` already.
        """
        united = list(united)
        kept = united.copy()
        for box in boxes:
            new = box
            again = True
            while again:
                again = False
                self._steps += len(kept) * (len(new.domains) + 1)
                if any(new.within(old) for old in kept):
                    break
                kept = [old for old in kept if not old.within(new)]
                for old in kept:
                    merged = as_one(old, new)
                    if merged is not None:
                        kept.remove(old)
                        new, again = self._plain(merged), True
                        break
            else:
                kept.append(new)
            if self._steps > LIMITS.clause_steps:
                raise _TooMuchError
        return self._widened(kept, {id(box) for box in united})

    def _widened(self, boxes: list[Box], united: Collection[int] = ()) -> list[Box]:
        """Drops constraints that another box makes superfluous: ``a || !a && b`` is ``a || b``.

        Boxes that are ``united`` already are not compared with each other again.
        """
        if len(boxes) == 1 or len(boxes) > LIMITS.boxes:
            return boxes
        new = [box for box in boxes if id(box) not in united]
        if not new:
            return boxes
        for place, box in enumerate(boxes):
            wide = box
            others = new if id(box) in united else boxes[:place] + boxes[place + 1 :]
            for other in others:
                self._steps += len(wide.domains) + 1
                wider = widened(wide, other)
                wide = wide if wider is wide else self._plain(wider)
            boxes[place] = wide
        kept: list[Box] = []
        changed: list[Box] = []
        for place, box in enumerate(boxes):
            is_old = id(box) in united
            if not any(box.within(other) for other in (changed if is_old else boxes[:place])):
                kept.append(box)
            if not is_old:
                changed.append(box)
        return kept

    def _plain(self, box: Box) -> Box:
        domains = {n: d for n, d in box.domains.items() if not self.universe(n) <= d}
        return attrs.evolve(box, domains=domains)

    def _leaf(self, node: Expr, wanted: _Wanted) -> list[Box] | None:
        """The boxes of a condition on one attribute, None for any other condition."""
        atom = tested(node)
        if atom is not None:
            attribute, parts, rest = atom
            known = [domain for came_to, domain in parts.items() if came_to in wanted]
            others = () if rest is None else (comes_to(rest, wanted),)
            return self._boxes(self._name(attribute), fold(Domain.__or__, known, NOTHING), others)
        if (
            isinstance(node, nodes.Call)
            and node.function.lower() == "member"
            and len(node.arguments) == 2
        ):
            text, among = node.arguments
            listed = host_attribute(among)
            said = text.value if isinstance(text, nodes.Literal) else None
            if listed is not None and isinstance(said, str):
                return self._tagged(self._name(listed), ascii_fold(said), wanted)
        return None

    def _tagged(self, name: str, text: str, wanted: _Wanted) -> list[Box]:
        # A tag stands with the domain of lists, so that what else an attribute may be rules it out.
        listed = self._boxes(name, LISTS)
        tags = [Tag(name, text, each == "T") for each in "TF" if each in wanted]
        kinds = Domain(missing="U" in wanted, other="E" in wanted)
        if "E" in wanted:
            kinds = kinds | NUMBERS | TEXTS
        if len(tags) == 2:
            return self._boxes(name, kinds | LISTS)
        found = self._boxes(name, kinds)
        return [*found, *(attrs.evolve(box, tags=frozenset(tags)) for box in listed if tags)]

    def _boxes(self, name: str, domain: Domain, others: tuple[Expr, ...] = ()) -> list[Box]:
        possible = self.universe(name)
        left = domain & possible
        if left == NOTHING:
            return []
        return [Box({} if left == possible else {name: left}, others=others)]

    def _name(self, attribute: nodes.Attr) -> str:
        return ascii_fold(self.names.setdefault(ascii_fold(attribute.name), attribute.name))
