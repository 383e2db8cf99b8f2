"""Which clauses of a condition hold on every host that the chosen terms admit.

A clause counts as carried only if the meaning of the terms implies it, whatever chose the terms.
All other clauses are dropped, and the job has to check them again on the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from matchmaker.batch.asks import Ask, Group, values_of
from matchmaker.batch.clauses import Clause
from matchmaker.batch.rules import Rule
from matchmaker.classad import Expr
from matchmaker.classad.operators import ascii_fold
from matchmaker.reduction.domains import NOTHING, Box, Domain, Tag, common, meet_all, numbers


def unproven(
    clauses: Iterable[Clause],
    certain: Iterable[Box],
    alternatives: Mapping[Expr, Sequence[Sequence[Box]]],
) -> list[Clause]:
    """The clauses that may be untrue of a host that is admitted.

    Args:
        clauses: the clauses of the condition.
        certain: what holds of every host that is admitted.
        alternatives: for a clause, groups of boxes; every host that is admitted is in a box of
            each group. Any such groups will do; those that were chosen for a clause can prove it.

    >>> from matchmaker import parse_expr
    >>> from matchmaker.batch.clauses import clauses_of
    >>> clauses = clauses_of(parse_expr("other.A > 5 && other.B == 1"))
    >>> [str(c.expression) for c in unproven(clauses, [Box({"a": numbers(">=", 7)})], {})]
    ['other.B == 1']
    """
    base = meet_all(certain)
    if base is None:
        return []
    return [
        clause
        for clause in clauses
        if not _within(base, clause)
        and not any(
            all(
                met is None or _within(met, clause)
                for met in (box.meet(base.on([box, *clause.boxes])) for box in group)
            )
            for group in alternatives.get(clause.expression, ())
        )
    ]


def _within(box: Box, clause: Clause) -> bool:
    return any(box.within(each) for each in clause.boxes)


# --- what terms mean ------------------------------------------------------------------------------


def meanings(group: Group) -> list[Box]:
    """The hosts that a group of terms admits: a box for each alternative, never too small a one.

    Alternatives on one attribute are one box.
    """
    met = (meet_all([meaning(ask) for ask in asks]) for asks in group)
    boxes = [box for box in met if box is not None]
    names = {name for box in boxes for name in box.domains}
    if len(names) != 1 or not all(box.domains and not box.tags for box in boxes):
        return boxes
    name = names.pop()
    return [Box({name: ~common([~box.domains[name] for box in boxes])})]


def meaning(ask: Ask) -> Box:
    """The hosts that a term admits, by the mapping's word; of some sets only a box around them.

    >>> from fractions import Fraction
    >>> meaning(Ask(Rule("Ram", "min", "--mem={value}G", unit=Fraction(1024)), "min", 2))
    Box(domains={'ram': Domain(numbers in [2048, inf])}, tags=frozenset(), others=())
    """
    rule, name = ask.rule, ascii_fold(ask.rule.attribute)
    if ask.kind in _RELATIONS:
        bound = ask.number * rule.unit
        whole = bound.denominator == 1
        domain = numbers(_RELATIONS[ask.kind], int(bound) if whole else float(bound))
        return Box({name: domain & values_of(rule)})
    if rule.kind == "member":
        texts = sorted(_texts(rule, ask.names))
        if ask.negated or len(texts) == 1:
            return Box(tags=frozenset(Tag(name, text, not ask.negated) for text in texts))
        return Box()
    domain = _domain(rule, ask.names)
    return Box({name: values_of(rule) & ~domain if ask.negated else domain})


_RELATIONS: Final = {"min": ">=", "max": "<=", "count": "=="}


def _texts(rule: Rule, names: Iterable[str]) -> frozenset[str]:
    return frozenset(ascii_fold(text) for text, name in rule.features.items() if name in names)


def _domain(rule: Rule, names: Iterable[str]) -> Domain:
    """The values that one of some names stands for."""
    if rule.kind == "bucket":
        runs = [rule.buckets[name] for name in names]
        spans = [numbers(">=", low) & numbers("<=", high) for low, high in runs]
    elif rule.kind == "bool":
        spans = [numbers("==", value == "true") for value in _texts(rule, names)]
    else:
        return Domain(texts=_texts(rule, names))
    found = NOTHING
    for span in spans:
        found = found | span
    return found
