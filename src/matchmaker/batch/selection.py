"""Selects the right nodes of an inventory: by terms that all accepted nodes have, and by name.

A node is named only if its name is plain and means nothing else to the batch system.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.inventory import Inventory, NodeClass
from matchmaker.batch.mapping import Mapping
from matchmaker.batch.planner import FlagPlan, taken
from matchmaker.batch.render import expressed
from matchmaker.batch.templates import HOST_SIGNS, safe
from matchmaker.batch.terms import Group, Term, admits, clash
from matchmaker.classad.values import is_number


def select(plan: FlagPlan, nodes: Inventory) -> FlagPlan:
    """The plan with an inventory: terms that all accepted nodes have, nodes by name, and the proof.

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
        outcomes = (requested.has_room(node.ad), admits(groups, node.value))
        return False if False in outcomes else None if None in outcomes else True

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
    """Adds terms that every accepted node has and some other node has not."""
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


def _shared(accepted: list[NodeClass], table: Mapping) -> Iterable[Term]:
    """All terms that every node of some classes has."""
    for rule in table.rules.values():
        values = [each.value(rule.attribute) for each in accepted]
        if rule.kind in ("min", "range", "max"):
            sizes = [v for v in values if is_number(v)]
            if len(sizes) < len(values) or not all(abs(size) < rule.most for size in sizes):
                continue
            for kind, bound in (("min", min(sizes)), ("max", max(sizes))):
                number = int(bound // rule.unit) if kind == "min" else -int(-bound // rule.unit)
                term = Term(rule, kind, number)
                if term.template and (kind == "max" or number > 0):
                    yield term
        else:
            yield from (
                term
                for name in rule.named
                if all(
                    (term := Term(rule, "name", names=(name,))).admits(v) is True for v in values
                )
            )


def _plain_names(
    nodes: Inventory, classes: list[NodeClass], table: Mapping
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the nodes of some classes, and the words that stand for them on a command line.

    The names must be plain, and no other node may have one of them.
    """
    named = nodes.names(classes)
    taken = {word.lower() for word in table.no_hosts}
    for number, name in zip(_numbers(classes), named, strict=True):
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
    """Names with and without their domains, for a batch system that compares them as text.

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


def _numbers(classes: Iterable[NodeClass]) -> list[int]:
    return sorted(number for each in classes for number in each.numbers)
