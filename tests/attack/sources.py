"""A queue that several sources describe admits a job if each of them admits it, and no other.

A case is two or three sources: dumps of GLUE 1.3, 2.0 or both, ads made of a dump, and what Slurm
prints of the queue; one may have broken off, and is left out whole. They are merged in two orders.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from typing import Final, TypeAlias

import attrs

from matchmaker import glue
from matchmaker.batch.description import DescriptionError, read_description
from matchmaker.broker import merged
from matchmaker.classad import ClassAd
from matchmaker.glue.issues import issue
from tests.attack import two_trees
from tests.attack.access import Admitted, more, of_ads, read
from tests.attack.run import Attack, main
from tests.attack.sites import DENYING, SITES, site

Given: TypeAlias = glue.Glue | list[ClassAd]

VOS: Final = ("alpha", "bravo")
ENDPOINT: Final = two_trees.IDENT.removesuffix(f"-slurm-{two_trees.QUEUE}")


@attrs.frozen(slots=True)
class Part:
    """One source.

    Attributes:
        kind: ``glue`` for a dump, ``ads`` for its ads alone, ``slurm`` for partitions.
        data: what it says.
        broken: whether it broke off.
    """

    kind: str
    data: bytes
    broken: bool = False


def partition(chance: random.Random) -> str:
    """The queue of `two_trees` as Slurm prints it."""
    accounts = ",".join(chance.sample(VOS, chance.randint(1, 2)))
    lists = chance.choice((f"AllowAccounts={accounts}", f"DenyAccounts={accounts}"))
    return (
        f"PartitionName={two_trees.QUEUE} AllowGroups=ALL {lists} AllowQos=ALL AllocNodes=ALL"
        " Default=NO QoS=N/A Hidden=NO MaxTime=1-00:00:00 Nodes=wn[1-2] RootOnly=NO ReqResv=NO"
        " State=UP TotalCPUs=8\n"
    )


def described(part: Part) -> Given | None:
    """What a source says; None where it says nothing that can be read."""
    if part.kind == "slurm":
        try:
            found = read_description("slurm", [("output", part.data.decode())]).queues
        except DescriptionError:
            return None
        return glue.place(found, ENDPOINT, vos=[*VOS, *DENYING[:1]])
    known = read(part.data)
    if known is None or part.kind == "ads":
        return known and known.computing_elements()
    if part.broken:
        lost = issue("ldif.partial", "broken off")
        return attrs.evolve(known, issues=(*known.issues, lost))
    return known


def part(chance: random.Random) -> Part:
    """One source."""
    kind = chance.choice(("glue", "glue", "ads", "slurm"))
    if kind == "slurm":
        return Part(kind, partition(chance).encode())
    if chance.random() < 0.2:
        return Part(kind, site(chance.randrange(SITES))[1])
    case = two_trees.make(chance)
    trees = chance.choice(((case.old, case.new), (case.old,), (case.new,), (case.new,)))
    return Part(kind, two_trees.text(*trees), kind == "glue" and chance.random() < 0.1)


def make(chance: random.Random) -> tuple[Part, ...]:
    """Two or three sources."""
    return tuple(part(chance) for _ in range(chance.choice((2, 2, 3))))


def together(sources: Iterable[tuple[str, Given]]) -> Admitted | None:
    """The jobs that each merged queue admits; None where all sources are refused."""
    try:
        return of_ads(merged(sources).ads)
    except ValueError:
        return None


def judge(case: tuple[Part, ...]) -> str | None:
    """Says whom a queue admits whom one of its sources refuses, or refuses whom all admit."""
    given = [(str(n), found) for n, each in enumerate(case) if (found := described(each))]
    whole = [together([pair]) for pair in given]
    each = {ident for jobs in whole if jobs is not None for ident in jobs}
    both: Admitted = {}
    for ident in each:
        lists = [jobs[ident] for jobs in whole if jobs is not None and ident in jobs]
        both[ident] = frozenset.intersection(*lists)
    for ordered in (given, given[::-1]):
        if (jobs := together(ordered)) is None:
            return None if not both else "all sources are refused"
        if wrong := more(both, jobs):
            return wrong
        if wrong := more(jobs, both):
            return f"each source, but not together: {wrong}"
    return None


def smaller(case: tuple[Part, ...]) -> Iterable[tuple[Part, ...]]:
    """Fewer sources, and sources with fewer entries."""
    for number, each in enumerate(case):
        if len(case) > 2:
            yield case[:number] + case[number + 1 :]
        entries = each.data.split(b"\n\n")
        for place in range(len(entries)):
            data = b"\n\n".join(entries[:place] + entries[place + 1 :])
            yield (*case[:number], attrs.evolve(each, data=data), *case[number + 1 :])


def show(case: tuple[Part, ...]) -> str:
    """All sources."""
    return "\n".join(f"=== {each.kind}, {each.broken}\n{each.data.decode()}" for each in case)


ATTACK = Attack("sources", make, judge, smaller, show, nightly=20_000, smoke=100)

if __name__ == "__main__":
    sys.exit(main(ATTACK))
