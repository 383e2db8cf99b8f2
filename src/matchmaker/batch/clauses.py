"""A condition on hosts as clauses with their bounds, and which of them flags are proven to carry.

Flags read the bounds of a requirement here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.classad import Expr
from matchmaker.classad.nodes import TRUE
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.unparse import brief
from matchmaker.classad.walks import conjuncts
from matchmaker.reduction.boxes import Bounds, bounds, everything
from matchmaker.reduction.domains import Box, Domain, meet_all


@attrs.frozen(slots=True)
class Clause:
    """A clause of a condition, and its bounds: it is true of the hosts in one of their boxes."""

    expression: Expr
    bounds: Bounds

    @property
    def boxes(self) -> tuple[Box, ...]:
        """The alternatives of the clause."""
        return self.bounds.boxes


@attrs.frozen(slots=True)
class Dropped:
    """A clause that the flags do not carry, or not completely, and the reason."""

    clause: Expr
    reason: str


def clauses_of(
    condition: Expr, universe: Callable[[str], Domain] = everything
) -> tuple[Clause, ...]:
    """The clauses of a condition, with bounds among the values that hosts may have.

    ``universe`` gives these values for the folded name of an attribute.

    >>> from matchmaker import parse_expr
    >>> [str(clause.expression) for clause in clauses_of(parse_expr("other.A > 5 && other.B"))]
    ['other.A > 5', 'other.B']
    """
    return tuple(
        Clause(each, bounds(each, universe)) for each in conjuncts(condition) if each is not TRUE
    )


def is_possible(condition: Expr) -> bool:
    """Whether the bounds of a condition allow any values of attributes at all."""
    return bool(bounds(condition).boxes)


def unproven(
    clauses: Iterable[Clause],
    certain: Iterable[Box],
    chosen: Mapping[Expr, Sequence[Sequence[Box]]],
) -> list[Clause]:
    """The clauses that may be untrue of a host that flags admit.

    A clause counts as carried only if the meaning of the flags implies it, no matter how they were
    chosen. So nothing is lost if a reason to drop a clause goes unnoticed.

    Args:
        clauses: the clauses of the condition.
        certain: boxes that every admitted host is in.
        chosen: for a clause, groups of boxes; every admitted host is in one box of each group. Any
            such groups are correct; those that were chosen for the clause can prove it.

    >>> from matchmaker import parse_expr
    >>> from matchmaker.reduction.domains import numbers
    >>> clauses = clauses_of(parse_expr("other.A > 5 && other.B == 1"))
    >>> [str(c.expression) for c in unproven(clauses, [Box({"a": numbers(">=", 7)})], {})]
    ['other.B == 1']
    """
    base = meet_all(certain)
    if base is None:
        return []

    def is_carried(clause: Clause) -> bool:
        return _implies(base, clause) or any(
            all(
                met is None or _implies(met, clause)
                for met in (box.meet(base.on([box, *clause.boxes])) for box in group)
            )
            for group in chosen.get(clause.expression, ())
        )

    return [clause for clause in clauses if not is_carried(clause)]


def _implies(box: Box, clause: Clause) -> bool:
    return any(box.within(each) for each in clause.boxes)


_OTHER_NAMES: Final = {
    "memory": "GlueHostMainMemoryRAMSize",
    "cpus": "GlueHostArchitectureSMPSize",
}
"""What HTCondor's slots have under another name than GLUE, and so than the rules for flags."""


def other_name(name: str) -> str:
    """GLUE's name, which rules for flags have, for an attribute of slots; empty if it has none.

    >>> other_name("Memory"), other_name("Scratch")
    ('GlueHostMainMemoryRAMSize', '')
    """
    return _OTHER_NAMES.get(ascii_fold(name), "")


def as_host_attribute(name: str) -> str:
    """How a requirement on an attribute that nobody knows to be of hosts is written instead.

    >>> as_host_attribute("Scratch")
    '--host-attribute Scratch (attributes= of Hosts) says that hosts have it'
    """
    other = other_name(name)
    return (
        f"{f'write {other}, or ' if other else ''}--host-attribute {name} (attributes= of Hosts)"
        " says that hosts have it"
    )


def shown(clause: Expr) -> str:
    """A clause in a message, shortened."""
    return brief(clause, LIMITS.shown)
