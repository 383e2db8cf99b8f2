"""A ``CERequirements`` that BLAH reads exactly.

BLAH takes ``CERequirements`` apart without regard to its structure: of ``A >= 5`` it makes the
shell variable ``A_Min='5'``, of ``A <= 5`` ``A_Max='5'``, of ``A == 5`` ``A='5'``, of
``Member("X", other.L)`` ``L[0]='"X"'``, whatever stands around it. What is written here is a
conjunction of these alone, one bound a name, of names and texts that mean nothing to a shell. What
BLAH makes of it is read in ``blah_variables``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from matchmaker.batch.constraints import PLAIN_TEXT, Constraint, constraint, has_variable
from matchmaker.batch.errors import NoHostError
from matchmaker.batch.flags.choose import Clause, Dropped, clauses_of, shown, unproven
from matchmaker.batch.flags.expression import check_possible, of_clauses
from matchmaker.batch.flags.plan import FlagPlan
from matchmaker.batch.flags.requests import Requested
from matchmaker.batch.mapping import Mapping
from matchmaker.classad.nodes import TRUE, Attr, Binary, Call, Expr, Literal
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.unparse import unparse
from matchmaker.classad.walks import conjunction, conjuncts, postorder
from matchmaker.reduction import Reduction
from matchmaker.reduction.domains import NUMBERS, Domain, first_contrary, hull, meet_all

_OTHER: Final = Attr(None, "other", False)


@attrs.frozen(slots=True)
class Unwound:
    """The part of a condition that BLAH reads exactly, and the clauses that it cannot carry.

    ``requirements`` is true of every host that the condition is true of. If nothing is dropped, it
    is true of no other host whose bounded attributes are integers.
    """

    requirements: Expr
    dropped: tuple[Dropped, ...]


def plan(
    reduction: Reduction, table: Mapping, requested: Requested, *, sure: bool, by_name: bool
) -> FlagPlan:
    """A plan that carries what BLAH reads. Raises errors as ``expression.plan`` does."""
    if len(conjuncts(reduction.residual)) > 1:
        # Of a single clause its own bounds say whether it is possible.
        check_possible(reduction.residual)
    found = ce_requirements(reduction.residual)
    carried = conjuncts(found.requirements)
    return of_clauses(reduction, table, requested, carried, found.dropped, sure=sure)


def ce_requirements(condition: Expr) -> Unwound:
    """A condition on hosts as a ``CERequirements`` that BLAH reads as it is meant.

    Raises NoHostError if nothing satisfies the condition.

    >>> from matchmaker import parse_expr
    >>> found = ce_requirements(parse_expr("!(other.M < 1024) && other.M > 2047 && other.S != 3"))
    >>> print(found.requirements)
    other.M >= 2048
    >>> [str(dropped.clause) for dropped in found.dropped]
    ['other.S != 3']
    """
    clauses = clauses_of(condition)
    for clause in clauses:
        if not clause.boxes:
            raise NoHostError(f"nothing satisfies {shown(clause.expression)}")
    names: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for clause in clauses:
        names = {**clause.bounds.names, **names}
        texts = [n.value for n in postorder(clause.expression) if isinstance(n, Literal)]
        spelled |= {ascii_fold(text): text for text in texts if isinstance(text, str)}
    demanded = [hull(clause.boxes) for clause in clauses]
    met = meet_all(demanded)
    if met is None:
        contrary = clauses[first_contrary(demanded)].expression
        raise NoHostError(f"nothing satisfies {shown(contrary)} with what else is required")
    for name, domain in met.domains.items():
        if domain == Domain(nan=True):
            raise NoHostError(f"no whole number satisfies what is required of {names[name]}")
    carried = [
        leaf
        for name, box in sorted(met.by_subject().items(), key=lambda item: item[0])
        for leaf in _leaves(constraint(names.get(name, name), name, box), spelled)
    ]
    meant = [box for clause in clauses_of(conjunction(carried)) for box in clause.boxes]
    return Unwound(
        conjunction(carried),
        tuple(
            Dropped(clause.expression, _reason(clause, names))
            for clause in unproven(clauses, meant, {})
        ),
    )


def _reason(clause: Clause, names: dict[str, str]) -> str:
    """Why BLAH does not carry a clause."""
    if len(clause.boxes) > 1:
        return "BLAH has no alternatives"
    box = clause.boxes[0]
    if box.others:
        return "BLAH reads only comparisons of one attribute with a whole number or a text"
    for name in sorted(box.by_subject()):
        each = constraint(names.get(name, name), name, box)
        if not has_variable(each.attribute):
            return f"BLAH's variable for {each.attribute} would stand for something else"
        if box.domains.get(name) == NUMBERS:
            return f"BLAH has no variable for {each.attribute} being a number"
        if not each.exact or each.lacks or (each.texts and len(each.texts) > 1):
            return f"BLAH has no variable for what is demanded of {each.attribute}"
        if not all(PLAIN_TEXT.fullmatch(text) for text in (*(each.texts or ()), *each.has)):
            return "BLAH would give the text to a shell"
    return f"no whole number of {names.get(name, name)} satisfies it with what else is required"


def _leaves(each: Constraint, spelled: dict[str, str]) -> Iterator[Expr]:
    """Return the bounds that BLAH reads from a constraint."""
    if not has_variable(each.attribute):
        return
    subject = Attr(_OTHER, each.attribute, False)
    if each.least is not None and each.least == each.greatest:
        yield Binary("==", subject, Literal(each.least))
    else:
        if each.least is not None:
            yield Binary(">=", subject, Literal(each.least))
        if each.greatest is not None:
            yield Binary("<=", subject, Literal(each.greatest))
    if each.texts and len(each.texts) == 1 and PLAIN_TEXT.fullmatch(each.texts[0]):
        yield Binary("==", subject, Literal(spelled.get(each.texts[0], each.texts[0])))
    for text in each.has:
        if PLAIN_TEXT.fullmatch(text):
            yield Call("Member", (Literal(spelled.get(text, text)), subject))


def lines(plan: FlagPlan) -> list[str]:
    """The line of a BLAH submission, if there is anything to require."""
    return [] if plan.carried is TRUE else [submit_text(plan.carried)]


def submit_text(requirements: Expr) -> str:
    r"""The line of a BLAH submission for a ``CERequirements``: an expression within a string.

    >>> from matchmaker import parse_expr
    >>> submit_text(parse_expr('other.Os == "SL"'))
    'CERequirements = "other.Os == \\"SL\\""'
    """
    return f"CERequirements = {unparse(Literal(unparse(requirements)))}"
