"""What selects the right nodes of an inventory: conditions that all of them keep, and their names.

A node is named only where its name is a plain one that means nothing else to the batch system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Mapping as MappingType

from matchmaker.batch.asks import Ask, Group, clash
from matchmaker.batch.inventory import Certificate, Inventory, NodeClass
from matchmaker.batch.mapping import Mapping
from matchmaker.batch.templates import HOST_SIGNS, safe
from matchmaker.batch.words import Flag, admits, hosts

MOST_HOSTS = 60_000
"""So many characters a list of nodes may have; one word of a command holds 128 KiB."""


def selected(
    groups: list[Group],
    nodes: Inventory,
    table: Mapping,
    taken: MappingType[str, object],
    has_room: Callable[[NodeClass], bool],
) -> tuple[list[Group], list[Flag], tuple[str, ...], Certificate]:
    """What is asked for with an inventory: groups, flags for names, the excluded, and the proof.

    Nothing that is ``taken`` is given another value. Nodes without room for the job's requests are
    admitted by no flag.
    Raises ValueError for nodes that must be named and cannot be, or not apart from others.
    """

    def admitted(asked: list[Group]) -> dict[int, bool | None]:
        return {
            id(each): admits(asked, each.value) if has_room(each) else False
            for each in nodes.classes
        }

    # What is asked for must be had by every node that will do, by its own word.
    kept = [g for g in groups if all(admits([g], each.value) is True for each in nodes.accepted)]
    verdicts = admitted(kept)
    if not table.exclude and not table.include:
        kept = _narrowed(kept, nodes, table, taken)
        verdicts = admitted(kept)
    refused = nodes.refused
    named: list[Flag] = []
    names: tuple[str, ...] = ()
    if refused and (table.exclude or table.include):
        chosen = refused if table.exclude else nodes.accepted
        names, words = _plain_names(nodes, chosen, table)
        if table.exclude and sum(map(len, words)) + len(words) > MOST_HOSTS:
            # Too long: only those that nothing else keeps out.
            left = [each for each in refused if verdicts[id(each)] is not False]
            names, words = _plain_names(nodes, left, table)
        if sum(map(len, words)) + len(words) > MOST_HOSTS:
            names = words = ()
        if names:
            named = [hosts(table.exclude or table.include, words, table)]
    listed = set(names)
    certificate = nodes.certificate(
        lambda each: verdicts[id(each)],
        lambda name: not names or (name in listed) != bool(table.exclude),
    )
    return kept, named, names if table.exclude else (), certificate


def _narrowed(
    groups: list[Group], nodes: Inventory, table: Mapping, taken: MappingType[str, object]
) -> list[Group]:
    """Asks for more, so long as every node that will do has it and one that will not has it not."""
    found = list(groups)
    for ask in _shared(nodes.accepted, table):
        group: Group = ((ask,),)
        still = [each for each in nodes.refused if admits(found, each.value) is not False]
        if not still:
            break
        narrower = any(admits([group], each.value) is False for each in still)
        if narrower and not clash([*found, group], taken):
            found.append(group)
    return found


def _shared(accepted: list[NodeClass], table: Mapping) -> Iterable[Ask]:
    """All that every node of some classes can be asked for."""
    for rule in table.rules.values():
        values = [each.value(rule.attribute) for each in accepted]
        if rule.kind in ("min", "range", "max"):
            sizes = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
            if len(sizes) < len(values) or not all(abs(size) < rule.most for size in sizes):
                continue
            for kind, bound in (("min", min(sizes)), ("max", max(sizes))):
                number = int(bound // rule.unit) if kind == "min" else -int(-bound // rule.unit)
                ask = Ask(rule, kind, number)
                if ask.template:
                    yield ask
        else:
            yield from (
                ask
                for name in dict.fromkeys((*rule.features.values(), *rule.buckets))
                if all((ask := Ask(rule, "name", names=(name,))).admits(v) is True for v in values)
            )


def _plain_names(
    nodes: Inventory, classes: list[NodeClass], table: Mapping
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the nodes of some classes, which must be plain, and those of no other node.

    With them, the words that stand for them with the batch system.
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
    # Most batch systems do not tell upper from lower case in the name of a host.
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

    Only it knows which it goes by: a name that it does not go by keeps nothing out.
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
