"""Plan one job's flags: choose terms for the residual, and change them for an inventory.

``plan`` makes a plan from a residual, ``select`` changes it for an inventory (to terms that all
accepted nodes have, and nodes by name), and ``render`` writes it as words. Each step returns a new
plan. A node is named only if its name is plain and means nothing else to the batch system.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as MappingType
from typing import Final

import attrs

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.errors import NoFlagsError, TooManyError
from matchmaker.batch.flags.choose import ChosenTerms, Dropped, Options, choose, shown
from matchmaker.batch.flags.inventory import Certificate, Inventory, NodeClass
from matchmaker.batch.flags.render import Flag, expressed, unwritten, written
from matchmaker.batch.flags.requests import PROCESSORS, Requested
from matchmaker.batch.flags.terms import FlagTerm, Group, admits, all_of, clash
from matchmaker.batch.mapping import FEATURES, Mapping
from matchmaker.batch.site_code import SiteAnswers, answers
from matchmaker.batch.templates import HOST_SIGNS, assigned, safe
from matchmaker.classad import ClassAd, Expr
from matchmaker.classad.nodes import TRUE
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.values import is_number
from matchmaker.reduction import Reduction
from matchmaker.reduction.domains import Box, meet_all


@attrs.frozen(slots=True)
class FlagPlan:
    """The terms that a batch system is asked for, and the clauses that they leave out.

    Attributes:
        condition: the demand on hosts: the residual, and room for the job's requests.
        dropped: the clauses of the residual that are not carried; if ``sure``, the excluded ones.
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
    """Return the options that requests, and nodes ``by_name``, set already."""
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
    """Plan by terms: exact if possible, else wider than the residual or, if ``sure``, narrower.

    Raises NoHostError if no host can satisfy the residual, and NoFlagsError if ``sure`` terms are
    wanted and there are none.
    """
    residual, busy = reduction.residual, taken(table, requested, by_name=by_name)
    called = [name for name, rule in table.rules.items() if rule.kind in ("python", "shell")]
    chosen = choose(residual, table, called=called, taken=busy)
    answered = answers(chosen.common, called, table) if called else SiteAnswers()
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


def _expressed(
    chosen: ChosenTerms, requested: Requested, table: Mapping
) -> tuple[ChosenTerms, Requested]:
    """Drop terms and requests in slots of ``[flags]`` without a complete form."""
    groups, carried = expressed(chosen.groups, requested, table)
    lost = {
        ascii_fold(term.rule.attribute): unwritten(term.slot or FEATURES)
        for group in chosen.groups
        if group not in groups
        for terms in group
        for term in terms
    }
    return attrs.evolve(_with_reasons(chosen, lost), groups=tuple(groups)), carried


def _with_answers(chosen: ChosenTerms, answered: SiteAnswers) -> ChosenTerms:
    """Trust the site's own code for the attributes that it carries."""
    if not (answered.carried or answered.refused):
        return chosen
    by_subject = chosen.common.by_subject()
    trusted = meet_all([by_subject[name] for name in answered.carried]) or Box()
    return attrs.evolve(_with_reasons(chosen, answered.refused), trusted=trusted)


def _with_reasons(chosen: ChosenTerms, lost: MappingType[str, str]) -> ChosenTerms:
    """Add reasons, by attribute, to the clauses that name one."""
    found = {
        clause.expression: reason
        for clause in chosen.clauses
        for name, reason in lost.items()
        if name in clause.bounds.names
    }
    return attrs.evolve(chosen, reasons={**found, **chosen.reasons})


def _writable(chosen: ChosenTerms, table: Mapping, requested: Requested) -> ChosenTerms:
    """Drop alternatives that the language of the batch system cannot write."""
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


def select(plan: FlagPlan, nodes: Inventory) -> FlagPlan:
    """Change a plan for an inventory: terms that all accepted nodes have, nodes by name, the proof.

    Options of the site's own code are kept only if the plan is not exact without them. Raises
    ValueError for nodes that must be named and have no plain name, or share it with others.
    """
    table = plan.table

    def all_have(group: Group) -> bool:
        return all(admits([group], node.value) is True for node in nodes.accepted)

    groups = [group for group in plan.groups if all_have(group)]
    by_name = bool(table.exclude or table.include)
    if not by_name:
        groups = _narrowed(groups, nodes, plan)
    groups, requested = expressed(groups, plan.requested, table)

    def admitted(node: NodeClass) -> bool | None:
        return all_of((requested.has_room(node.ad), admits(groups, node.value)))

    names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    if nodes.refused and by_name:
        names, words = _plain_names(
            nodes, nodes.refused if table.exclude else nodes.accepted, table
        )
        if table.exclude and _is_long(words):
            # Only the nodes that nothing else keeps out.
            left = [node for node in nodes.refused if admitted(node) is not False]
            names, words = _plain_names(nodes, left, table)
        if _is_long(words):
            names = words = ()
    # Nodes by name may be a term, and fill a slot that other forms are chosen for.
    groups, requested = expressed(groups, requested, table, by_name=bool(names))
    listed = set(names)
    certificate = nodes.certificate(
        admitted, lambda name: not names or (name in listed) != bool(table.exclude)
    )
    return attrs.evolve(
        plan,
        groups=tuple(groups),
        requested=requested,
        options=() if certificate.exact else plan.options,
        hosts=words if names else (),
        excluded=names if table.exclude else (),
        certificate=certificate,
    )


def _is_long(words: tuple[str, ...]) -> bool:
    return sum(map(len, words)) + len(words) > LIMITS.hosts


def _narrowed(groups: list[Group], nodes: Inventory, plan: FlagPlan) -> list[Group]:
    """Add terms that every accepted node has and some other node has not."""
    found = list(groups)
    busy = taken(plan.table, plan.requested, by_name=False)
    for term in _shared(nodes.accepted, plan.table):
        group: Group = ((term,),)
        still = [node for node in nodes.refused if admits(found, node.value) is not False]
        if not still:
            break
        narrower = any(admits([group], node.value) is False for node in still)
        if narrower and not clash([*found, group], busy):
            found.append(group)
    return found


def _shared(accepted: list[NodeClass], table: Mapping) -> Iterable[FlagTerm]:
    """Yield all terms that every node of some classes has."""
    for rule in table.rules.values():
        values = [each.value(rule.attribute) for each in accepted]
        if rule.kind in ("min", "range", "max"):
            sizes = [v for v in values if is_number(v)]
            if len(sizes) < len(values) or not all(abs(size) < rule.most for size in sizes):
                continue
            for kind, bound in (("min", min(sizes)), ("max", max(sizes))):
                number = int(bound // rule.unit) if kind == "min" else -int(-bound // rule.unit)
                term = FlagTerm(rule, kind, number)
                if term.template and (kind == "max" or number > 0):
                    yield term
        else:
            yield from (
                term
                for name in rule.named
                if all(
                    (term := FlagTerm(rule, "name", names=(name,))).admits(v) is True
                    for v in values
                )
            )


def _plain_names(
    nodes: Inventory, classes: list[NodeClass], table: Mapping
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the nodes of classes, and their words on a command line.

    The names must be plain, and no other node may have one of them.
    """
    named = nodes.names(classes)
    taken = {word.lower() for word in table.no_hosts}
    numbers = sorted(number for each in classes for number in each.numbers)
    for number, name in zip(numbers, named, strict=True):
        if name is None or not safe(name, HOST_SIGNS) or name.lower() in taken:
            found = "none" if name is None else repr(name)
            raise ValueError(
                f"node {number + 1} of the inventory needs a plain name, and has {found}: letters, "
                f"digits and {HOST_SIGNS}, and nothing that means more to {table.lrms}"
            )
    # Most batch systems ignore case in names of hosts.
    folded = {name.lower(): name for name in named if name is not None}
    inside = {id(each) for each in classes}
    others = nodes.names(each for each in nodes.classes if id(each) not in inside)
    for other in others:
        if other is not None and other.lower() in folded:
            raise ValueError(f"two nodes of the inventory are named {other}; only one will do")
    names = tuple(dict.fromkeys(name for name in named if name is not None))
    return names, _with_domains(names, others) if table.domains else names


def _with_domains(names: Iterable[str], others: Iterable[str | None]) -> tuple[str, ...]:
    """Return names with and without their domains, for a batch system that compares them as text.

    Only the batch system knows which form it uses; the other form excludes nothing.
    """
    short = {name.partition(".")[0].lower(): name for name in others if name is not None}
    words: dict[str, None] = {}
    for name in names:
        first, dot, _ = name.partition(".")
        other = short.get(first.lower())
        words[name] = None
        if other is None:
            words[first if dot else f"{name}.*"] = None
        elif not (dot and "." in other):
            raise ValueError(
                f"nodes {name} and {other} of the inventory may be one; only one will do"
            )
    return tuple(words)
