"""The clauses of a job's requirements, followed through names of the job's own such as ``MY.Fits``.

The requirements are true exactly where all of them are.
"""

from __future__ import annotations

import attrs

from matchmaker._limits import EXPLANATION_LIMITS as LIMITS
from matchmaker.classad.nodes import Attr, Expr
from matchmaker.classad.walks import conjuncts
from matchmaker.matching.columns.dependencies import Side
from matchmaker.matching.columns.evaluator import Evaluator
from matchmaker.matching.names import FOLDED_REQUIREMENTS, REQUIREMENTS


@attrs.frozen(slots=True)
class Wanted:
    """A clause of a job.

    ``via`` are the names that lead to it from ``Requirements``, ``attribute`` the one of the job
    that it stands in, folded.
    """

    node: Expr
    via: tuple[str, ...]
    attribute: str


def wanted(evaluator: Evaluator) -> list[Wanted]:
    """The clauses in order. Where a name leads in a circle, or anywhere, it is a clause itself."""
    job = evaluator.job
    if REQUIREMENTS not in job:
        return []
    pending = _clauses(job.expr(REQUIREMENTS), (), FOLDED_REQUIREMENTS)
    found: list[Wanted] = []
    while pending:
        clause = pending.pop()
        node = clause.node
        if isinstance(node, Attr) and evaluator.reaches.holder(node, Side.JOB) is Side.JOB:
            content = job._held.get(node.folded)
            if isinstance(content, Expr) and not evaluator.reaches.of(node, Side.JOB).opaque:
                parts = _clauses(content, (*clause.via, node.name), node.folded)
                if len(parts) + len(pending) + len(found) <= LIMITS.clauses:
                    pending += parts
                    continue
        found.append(clause)
    return found


def _clauses(node: Expr, via: tuple[str, ...], attribute: str) -> list[Wanted]:
    """The clauses of an expression, the last first."""
    return [Wanted(clause, via, attribute) for clause in reversed(conjuncts(node))]
