"""Plans for HTCondor: clauses as a ClassAd expression, with the pool's names of attributes.

A submit file has its own rules for quotes, backslashes and macros. A clause that it cannot carry is
dropped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import attrs

from matchmaker.batch.errors import NoFlagsError, NoHostError
from matchmaker.batch.flags.choose import Dropped, is_possible, shown
from matchmaker.batch.flags.inventory import Inventory, NodeClass, is_willing
from matchmaker.batch.flags.render import FlagPlan, expressed, written
from matchmaker.batch.flags.requests import Requested
from matchmaker.batch.mapping import Mapping
from matchmaker.classad import ClassAd
from matchmaker.classad.formats.old import old_text
from matchmaker.classad.nodes import TARGET_SCOPES, TRUE, Attr, Expr, scope_of
from matchmaker.classad.operators import truth
from matchmaker.classad.printer import unparse, unparse_name
from matchmaker.classad.walks import children, conjunction, conjuncts, postorder, rebuild
from matchmaker.reduction import Reduction

_TARGET = Attr(None, "TARGET", False)


def plan(
    reduction: Reduction, table: Mapping, requested: Requested, *, sure: bool, by_name: bool
) -> FlagPlan:
    """Plan the clauses that the pool has attributes for, and that a submit file can carry.

    Raises NoHostError if no host can satisfy the residual, and NoFlagsError if a clause is dropped
    and the plan must be ``sure``.
    """
    residual = reduction.residual
    check_possible(residual)
    carried: list[Expr] = []
    dropped: list[Dropped] = []
    open_macro = False
    for clause in conjuncts(residual):
        try:
            text = _plain_text(_renamed(clause, table))
        except ValueError as error:
            dropped.append(Dropped(clause, str(error)))
            continue
        if open_macro and "$" in text:
            dropped.append(Dropped(clause, _WITHIN_MACRO))
        else:
            carried.append(clause)
            open_macro = open_macro or _ends_in_macro(text)
    return of_clauses(reduction, table, requested, carried, dropped, sure=sure)


def of_clauses(
    reduction: Reduction,
    table: Mapping,
    requested: Requested,
    carried: Sequence[Expr],
    dropped: Sequence[Dropped],
    *,
    sure: bool,
) -> FlagPlan:
    """Make a plan that carries clauses as an expression."""
    for each in dropped if sure else ():
        raise NoFlagsError(
            f"{table.lrms} has no flags that make sure of {shown(each.clause)}: {each.reason}"
        )
    _, requested = expressed((), requested, table)
    condition = requested.condition(reduction.residual)
    return FlagPlan(
        table,
        reduction.job,
        condition,
        requested,
        tuple(dropped),
        carried=conjunction(list(carried)),
    )


def check_possible(residual: Expr) -> None:
    """Raise NoHostError if the bounds of a residual contradict each other."""
    if not is_possible(residual):
        raise NoHostError(
            f"the requirement is true of no host: nothing satisfies {shown(residual)}"
        )


def select(plan: FlagPlan, nodes: Inventory) -> FlagPlan:
    """Drop the clauses that some accepted node of the inventory does not satisfy."""
    by_system = plan.table.style != "blah"
    # BLAH looks at nodes alone, and its requirements know no job whose attributes may hide theirs.
    job = plan.job if by_system else ClassAd()
    carried = conjunction([
        clause for clause in conjuncts(plan.carried)
        if all(truth(clause.eval(job, node.ad)) is True for node in nodes.accepted)
    ])  # fmt: skip

    def is_admitted(node: NodeClass) -> bool:
        # HTCondor itself looks at the requirements of a machine.
        return (
            (not by_system or is_willing(node.ad, job))
            and truth(carried.eval(job, node.ad)) is True
            and plan.requested.has_room(node.ad) is True
        )

    return attrs.evolve(
        plan, carried=carried, certificate=nodes.certificate(is_admitted, lambda _: True)
    )


def lines(plan: FlagPlan) -> list[str]:
    """Write the lines of a submit file: the requirements, and the job's requests."""
    table = plan.table
    carried = [] if plan.carried is TRUE else [submit_text(_renamed(plan.carried, table))]
    return [
        *(table.requirements.replace("{expression}", text) for text in carried),
        *(" ".join(flag) for flag in written((), plan.requested, table).flags),
    ]


def submit_text(node: Expr) -> str:
    r"""Write an expression as the value of a line in a submit file, or raise ValueError.

    ``condor_submit`` reads texts in the manner of old ClassAds: a backslash stands for itself,
    except before a quote. It replaces macros, so ``$`` is written as ``$(DOLLAR)``, and reads the
    result once more, so that a function such as ``$INT(`` hides any ``$(DOLLAR)`` up to its closing
    parenthesis. ``$$(...)`` is replaced when a machine is found, and ``$(DOLLAR)`` itself cannot be
    written.

    >>> from matchmaker import parse_expr
    >>> submit_text(parse_expr('TARGET.Os == "$(HOME)"'))
    'TARGET.Os == "$(DOLLAR)(HOME)"'
    >>> print(submit_text(parse_expr(r'regexp("^el\\d", TARGET.Os)')))
    regexp("^el\d", TARGET.Os)
    >>> submit_text(parse_expr('TARGET.Os != "$INT(" && TARGET.Tag == "$x"'))
    Traceback (most recent call last):
    ...
    ValueError: a submit file cannot carry a $ within what looks like a macro
    """
    return _plain_text(node).replace("$", "$(DOLLAR)")


_WITHIN_MACRO: Final = "a submit file cannot carry a $ within what looks like a macro"
# A dollar with a name and a parenthesis opens a macro; other parentheses are counted in it.
_MACRO: Final = re.compile(r"\$[^\s\"()$]*\(|[()$]")


def _plain_text(node: Expr) -> str:
    """Write an expression as old text that a submit file can carry once each ``$`` is quoted."""
    for part in postorder(node):
        if isinstance(part, Attr) and unparse_name(part.name) != part.name:
            raise ValueError("a submit file cannot carry a name that is no plain word")
    # condor_submit sets it in brackets: no backslash stands at the end, which would be another.
    text = old_text(f"({unparse(node)})")[1:-1]
    if not text.isprintable():
        raise ValueError("it holds characters that no submit file can carry")
    if "$$" in text or "$(dollar" in text.lower():
        raise ValueError("a submit file cannot carry $$ and $(DOLLAR) but as macros")
    _ends_in_macro(text)
    return text


def _ends_in_macro(text: str) -> bool:
    """Tell whether a text ends within an open macro; raise ValueError for a ``$`` in one."""
    depth = 0
    for match in _MACRO.finditer(text):
        sign = match.group()
        if depth and sign[0] == "$":
            raise ValueError(_WITHIN_MACRO)
        if depth:
            depth += 1 if sign == "(" else -1
        elif sign[0] == "$" and sign[-1] == "(":
            depth = 1
    return depth > 0


def _renamed(clause: Expr, table: Mapping) -> Expr:
    """Put the pool's names of attributes in a clause; raise ValueError if the pool has none."""
    made: dict[Expr, Expr] = {}
    for node in postorder(clause):
        if isinstance(node, Attr) and scope_of(node) in TARGET_SCOPES:
            rule = table.rules.get(node.folded)
            if rule is None and table.others != "same":
                raise ValueError(f"no attribute of the pool for {node.name}")
            made[node] = Attr(_TARGET, rule.name if rule else node.name, False)
        else:
            made[node] = rebuild(node, tuple(made[part] for part in children(node)))
    return made[clause]
