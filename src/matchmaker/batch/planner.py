"""The plan: everything decided about one job's flags, and the plan by terms of a mapping.

A plan is made from a residual, changed by an inventory (``selection``, ``expression``), and written
as words (``render``, ``expression``). Each step returns a new plan.
"""

from __future__ import annotations

from typing import Final

import attrs

from matchmaker.batch.chooser import Chosen, Options, choose
from matchmaker.batch.clauses import Dropped, shown
from matchmaker.batch.errors import NoFlagsError, TooManyError
from matchmaker.batch.inventory import Certificate
from matchmaker.batch.mapping import FEATURES, Mapping
from matchmaker.batch.render import Flag, expressed, unwritten, written
from matchmaker.batch.request import PROCESSORS, Requested
from matchmaker.batch.site_code import Answers, answers
from matchmaker.batch.templates import assigned
from matchmaker.batch.terms import Group
from matchmaker.classad import ClassAd, Expr
from matchmaker.classad.nodes import TRUE
from matchmaker.classad.operators import ascii_fold
from matchmaker.reduction import Reduction
from matchmaker.reduction.domains import Box, meet_all


@attrs.frozen(slots=True)
class FlagPlan:
    """The terms that a batch system is asked for, and the clauses that they leave out.

    Attributes:
        table: the mapping of the batch system.
        job: the job's ad.
        condition: what a host must satisfy: the residual, and room for the job's requests.
        requested: the job's requests.
        dropped: the clauses of the residual that are not carried; if ``sure``, what is excluded.
        sure: the flags imply the condition, instead of the other way round.
        groups: terms, for a batch system with flags.
        options: options of the site's own code.
        carried: for a batch system with expressions, the carried clauses in the residual's names.
        hosts: the words for nodes by name, to exclude them or to use no others.
        excluded: names of nodes that are excluded by name.
        certificate: the nodes of the inventory that are selected wrongly.
    """

    table: Mapping
    job: ClassAd
    condition: Expr
    requested: Requested
    dropped: tuple[Dropped, ...]
    sure: bool = False
    groups: tuple[Group, ...] = ()
    options: tuple[Flag, ...] = ()
    carried: Expr = TRUE
    hosts: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    certificate: Certificate | None = None


SHARES: Final = "as many as there are shares"
"""What stands in place of a number of processors that each bring a share of the memory."""


def taken(table: Mapping, requested: Requested, *, by_name: bool) -> Options:
    """The options that requests, and nodes ``by_name``, set already."""
    found: dict[str, object] = {
        assigned(item.template) or item.template: (item.template, *item.setting)
        for item in requested.items
    }
    if any(item.is_share for item in requested.items) and "cpus" in table.requests:
        # With more processors than shares were made for, the job would get more than it requests.
        processors = table.requests["cpus"].flag
        found[assigned(processors) or processors] = SHARES
        # Slurm has a share of the memory for each of --mincpus, too.
        rule = table.rules.get(PROCESSORS)
        if rule is not None and rule.flag.startswith("-"):
            found.setdefault(assigned(rule.flag) or rule.flag, SHARES)
    by_host = table.exclude or table.include
    if by_name and by_host.startswith("-"):
        found[assigned(by_host)] = by_host
    return found


def plan(
    reduction: Reduction, table: Mapping, requested: Requested, *, sure: bool, by_name: bool
) -> FlagPlan:
    """A plan by terms: exact if possible, else wider than the residual or, if ``sure``, narrower.

    Raises NoHostError if no host can satisfy the residual, and NoFlagsError if ``sure`` terms are
    wanted and there are none.
    """
    residual, busy = reduction.residual, taken(table, requested, by_name=by_name)
    called = [name for name, rule in table.rules.items() if rule.kind in ("python", "shell")]
    chosen = choose(residual, table, called=called, taken=busy)
    answered = answers(chosen.common, called, table)
    chosen = _writable(_with_answers(chosen, answered), table, requested)
    chosen, carried = _expressed(chosen, requested, table)
    dropped = chosen.dropped()
    sure = sure and bool(dropped)
    if sure:
        chosen = choose(residual, table, sure=True, called=called, taken=busy)
        chosen, carried = _expressed(_with_answers(chosen, answered), requested, table)
        for each in chosen.dropped():  # not proven to be implied
            said = f"{table.lrms} has no flags that make sure of {shown(each.clause)}"
            raise NoFlagsError(f"{said}: {each.reason}")
        written(chosen.groups, carried, table)
        dropped = list(chosen.narrowed) or dropped
    return FlagPlan(
        table,
        reduction.job,
        carried.condition(residual),
        carried,
        tuple(dropped),
        sure,
        chosen.groups,
        answered.options,
    )


def _expressed(chosen: Chosen, requested: Requested, table: Mapping) -> tuple[Chosen, Requested]:
    """Drops terms and requests in slots of ``[flags]`` for which no form is complete."""
    groups, carried = expressed(chosen.groups, requested, table)
    lost = {
        ascii_fold(term.rule.attribute): unwritten(term.slot or FEATURES)
        for group in chosen.groups
        if group not in groups
        for terms in group
        for term in terms
    }
    unsaid = {
        clause.expression: reason
        for clause in chosen.clauses
        for name, reason in lost.items()
        if name in clause.bounds.names
    }
    return attrs.evolve(chosen, groups=tuple(groups), reasons={**unsaid, **chosen.reasons}), carried


def _with_answers(chosen: Chosen, answered: Answers) -> Chosen:
    """Trusts the site's own code for the attributes that it carries."""
    if not (answered.carried or answered.refused):
        return chosen
    by_subject = chosen.common.by_subject()
    unsaid = {
        clause.expression: reason
        for clause in chosen.clauses
        for name, reason in answered.refused.items()
        if name in clause.bounds.names
    }
    return attrs.evolve(
        chosen,
        trusted=meet_all([by_subject[name] for name in answered.carried]) or Box(),
        reasons={**unsaid, **chosen.reasons},
    )


def _writable(chosen: Chosen, table: Mapping, requested: Requested) -> Chosen:
    """Drops alternatives that the language of the batch system cannot write."""
    if all(len(group) == 1 for group in chosen.groups):
        return chosen
    try:
        written(chosen.groups, requested, table)
    except TooManyError:
        nested = "" if table.terms.nested else " without nested parentheses"
        reason = f"its alternatives are too many to write{nested}"
        return attrs.evolve(
            chosen,
            groups=tuple(group for group in chosen.groups if len(group) == 1),
            reasons={**chosen.reasons, **dict.fromkeys(chosen.sources, reason)},
        )
    return chosen
