"""No damage to one of several sources makes a merged queue accept a job that a source refuses.

A case is two or three sources that describe the same queues: dumps of GLUE 1.3 and 2.0, one tree
in each or both in one, ads made of a dump, and what Slurm prints of the queue. The same are
damaged, one or all, and merged in another order. `access` and `two_trees` damage one dump alone.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeAlias

import attrs

from matchmaker import glue
from matchmaker.batch.description import DescriptionError, read_description
from matchmaker.broker import merged
from matchmaker.classad import ClassAd, Value
from matchmaker.glue.agreement import Description
from matchmaker.glue.records import split_id
from tests.attack import access, local_access, two_trees
from tests.attack.access import Admitted, Case, more, of_ads, read
from tests.attack.damage import damage
from tests.attack.run import Attack, main
from tests.attack.sites import DENYING, SITES, site

Given: TypeAlias = glue.Glue | list[ClassAd]

VOS: Final = ("alpha", "bravo")
ENDPOINT: Final = two_trees.IDENT.removesuffix(f"-slurm-{two_trees.QUEUE}")


@attrs.frozen(slots=True)
class Part:
    """One source, whole and damaged.

    Attributes:
        kind: ``glue`` for a dump, ``ads`` for its ads alone, ``slurm`` for partitions.
        case: what it says.
    """

    kind: str
    case: Case


def partition(chance: random.Random) -> str:
    """The queue of `two_trees` as Slurm prints it."""
    accounts = ",".join(chance.sample(VOS, chance.randint(1, 2)))
    lists = chance.choice((f"AllowAccounts={accounts}", f"DenyAccounts={accounts}"))
    return (
        f"PartitionName={two_trees.QUEUE} AllowGroups=ALL {lists} AllowQos=ALL AllocNodes=ALL"
        " Default=NO QoS=N/A Hidden=NO MaxTime=1-00:00:00 Nodes=wn[1-2] RootOnly=NO ReqResv=NO"
        " State=UP TotalCPUs=8\n"
    )


def described(kind: str, data: bytes) -> Given | None:
    """What a source says; None where it is refused whole."""
    if kind == "slurm":
        try:
            found = read_description("slurm", [("output", data.decode())]).queues
        except DescriptionError:
            return None
        return glue.place(found, ENDPOINT, vos=[*VOS, *DENYING[:1]])
    known = read(data)
    return known.computing_elements() if kind == "ads" and known is not None else known


def part(chance: random.Random) -> Part:
    """One source, damaged more often than not."""
    kind = chance.choice(("glue", "glue", "ads", "slurm"))
    if kind == "slurm":
        text = partition(chance)
        damaged = local_access.in_text(text, chance) if chance.random() < 0.5 else text
        return Part(kind, Case(text.encode(), damaged.encode()))
    if chance.random() < 0.3:
        form, data = site(chance.randrange(SITES))
        same = kind == "ads" or chance.random() < 0.4
        damaged_dump = data if same else damage(form, data, chance)
        return Part(kind, Case(data, damaged_dump))
    trees = two_trees.old_tree(chance), two_trees.new_tree(chance)
    chosen = chance.choice((trees, trees[:1], trees[1:], trees[1:]))
    case = two_trees.broken(chance, [each for tree in chosen for each in tree])
    if chance.random() < 0.3:
        case = Case(case.whole, damage("ldif", case.damaged, chance))
    # What becomes of a damaged dump is not said by its ads alone.
    return Part(kind, Case(case.whole, case.whole) if kind == "ads" else case)


@attrs.frozen(slots=True)
class Merge:
    """Sources, and the order that they are merged in once damaged."""

    parts: tuple[Part, ...]
    order: tuple[int, ...]


def make(chance: random.Random) -> Merge:
    """Two or three sources."""
    parts = tuple(part(chance) for _ in range(chance.choice((2, 2, 3))))
    return Merge(parts, tuple(chance.sample(range(len(parts)), len(parts))))


def together(all_given: Iterable[tuple[int, Given | None]]) -> tuple[Admitted, set[str]] | None:
    """The jobs that each merged queue admits, and all rules; None where a source is refused."""
    sources = [(str(number), given) for number, given in all_given if given is not None]
    try:
        return of_ads(merged(sources).ads)
    except ValueError:
        return None


def judge(case: Merge) -> str | None:
    """Says which queue admits more than it did."""
    wholes = [described(each.kind, each.case.whole) for each in case.parts]
    damaged = [described(each.kind, each.case.damaged) for each in case.parts]
    if None in damaged or renamed(wholes, damaged):
        return None
    if any(access.silent(each.case) for each in case.parts if each.kind != "slurm"):
        return None
    before = together(enumerate(wholes))
    after = together((number, damaged[number]) for number in case.order)
    if before is None or after is None or after[1] - access.KNOWN:
        return None
    alone = by_each(wholes)
    known = {
        ident: before[0].get(ident, frozenset()) | alone.get(ident, frozenset())
        for ident in before[0].keys() | alone.keys()
    }
    return more(known, after[0])


def by_each(wholes: Sequence[Given | None]) -> Admitted:
    """The jobs that each source which describes a queue admits to it, some by a view perhaps.

    Sources are merged view by view, and refuse a job that one admits by a view and another by the
    queue itself. No source refuses it, and so damage to a view may let it in.
    """
    found: dict[str, frozenset[int]] = {}
    for given in wholes:
        one = together([(0, given)])
        for ident, numbers in one[0].items() if one is not None else ():
            found[ident] = found.get(ident, numbers) & numbers
    return found


def renamed(all_before: Iterable[Given | None], all_after: Iterable[Given | None]) -> bool:
    """Whether an id, a host, a queue or a name of a list became another one that can be read."""
    before, after = (set(chain.from_iterable(map(names, each))) for each in (all_before, all_after))
    return any(name.isprintable() and "\ufffd" not in name for name in after - before)


def names(given: Given | None) -> Iterator[str]:
    """The ids and places of the queues that a source describes, and the names of their lists."""
    if isinstance(given, glue.Glue):
        parts = given.snapshot
        for ce in (*parts.computing_elements, *parts.adrift):
            yield from placed(ce.id, ce.values.get)
        return
    for ad in given or ():
        yield from placed(str(ad.eval("CEid")), ad.eval)
        for listed in local_access.values(ad.eval("LocalAccess")):
            yield from map(str, listed)


def placed(ident: str, value: Callable[[str], Value | None]) -> Iterator[str]:
    """The id of a queue, its host and its name, as far as they can be read."""
    host, name, _ = Description.of(ident, value, None).place
    yield from filter(None, (host, name, ident.lower() if split_id(ident) else ""))


def smaller(case: Merge) -> Iterable[Merge]:
    """Fewer sources, whole ones, and the same damage with fewer entries."""
    for number, each in enumerate(case.parts):
        rest = case.parts[:number] + case.parts[number + 1 :]
        if rest:
            yield Merge(rest, tuple(n - (n > number) for n in case.order if n != number))
        cases: Sequence[Case] = [Case(each.case.whole, each.case.whole), *access.smaller(each.case)]
        for fewer in cases:
            if fewer != each.case:
                changed = attrs.evolve(each, case=fewer)
                yield Merge((*case.parts[:number], changed, *case.parts[number + 1 :]), case.order)


def show(case: Merge) -> str:
    """All sources."""
    parts = (f"=== {each.kind}\n{access.show(each.case)}" for each in case.parts)
    return "\n".join((*parts, f"=== merged as {case.order}"))


ATTACK = Attack("sources", make, judge, smaller, show, nightly=20_000, smoke=100)

if __name__ == "__main__":
    sys.exit(main(ATTACK))
