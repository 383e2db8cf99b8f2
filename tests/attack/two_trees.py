"""A queue that a site describes in GLUE 1.3 and in 2.0 admits whom both admit, and no other.

A case is the queue with its views in both trees, whose rules are divided among them at random, and
entries that are there twice.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from typing import Final

import attrs

from matchmaker.glue.access import RULES
from tests.attack.access import more, of_ads, read
from tests.attack.run import Attack, main
from tests.attack.sites import some_rules

HOST: Final = "h.grid"
QUEUE: Final = "long"
IDENT: Final = f"{HOST}:443/rest-slurm-{QUEUE}"

Entry = list[str]


def entry(kind: str, ident: str, above: str, *lines: str) -> Entry:
    """An entry of GLUE 2.0."""
    named = f"GLUE2{kind.removeprefix('Computing')}ID"
    return [
        f"dn: {named}={ident},{above}",
        f"objectClass: GLUE2{kind}",
        f"{named}: {ident}",
        *lines,
    ]


def policy(kind: str, above: str, rules: list[str]) -> Entry:
    """A policy of the share or endpoint above it."""
    lines = [f"GLUE2PolicyRule: {rule}" for rule in rules]
    return [
        f"dn: GLUE2PolicyID=p,{above}",
        f"objectClass: GLUE2{kind}Policy",
        "GLUE2PolicyID: p",
        *lines,
    ]


def old_tree(chance: random.Random) -> list[Entry]:
    """A queue and its views in GLUE 1.3."""
    dn = f"GlueCEUniqueID={IDENT},Mds-Vo-name=site,o=grid"
    rules = [f"{RULES}: {rule}" for rule in some_rules(chance)]
    made = [[f"dn: {dn}", "objectClass: GlueCE", f"GlueCEUniqueID: {IDENT}", *rules]]
    made[0].append(f"GlueCEName: {QUEUE}")
    if chance.random() < 0.3:
        view = [f"dn: GlueVOViewLocalID=first,{dn}", "objectClass: GlueVOView"]
        view += ["GlueVOViewLocalID: first", f"GlueChunkKey: GlueCEUniqueID={IDENT}"]
        made.append(view + [f"{RULES}: {rule}" for rule in some_rules(chance)])
    return made


def new_tree(chance: random.Random) -> list[Entry]:
    """The service of that queue in GLUE 2.0, with a share or two of the queue."""
    place = "GLUE2ServiceID=urn:s," + chance.choice(("o=glue", "GLUE2DomainID=site,o=glue"))
    end = f"GLUE2EndpointID=urn:e,{place}"
    made = [
        entry("ComputingService", "urn:s", place.partition(",")[2]),
        entry("ComputingManager", "urn:m", place, "GLUE2ManagerProductName: slurm"),
        entry(
            "ComputingEndpoint", "urn:e", place,
            f"GLUE2EndpointURL: https://{HOST}:443/x", "GLUE2EndpointInterfaceName: rest",
            "GLUE2EndpointCapability: executionmanagement.jobcreation",
        ),
    ]  # fmt: skip
    if chance.random() < 0.4:
        made.append(policy("Access", end, some_rules(chance)))
    two = chance.random() < 0.3
    if two:
        lines = [f"GLUE2EndpointURL: https://{HOST}:444/x", "GLUE2EndpointInterfaceName: rest"]
        lines.append("GLUE2EndpointCapability: executionmanagement.jobcreation")
        made.append(entry("ComputingEndpoint", "urn:f", place, *lines))
    for number in range(chance.choice((1, 1, 2))):
        lines = [f"GLUE2ComputingShareMappingQueue: {QUEUE}"]
        some = {
            "GLUE2ShareEndpointForeignKey: urn:e": 0.7,
            "GLUE2ShareEndpointForeignKey: urn:f": 0.7 * two,
            "GLUE2ShareServiceForeignKey: urn:s": 0.5,
            f"GLUE2EntityOtherInfo: CEid={IDENT}": 0.3,
            f"GLUE2EntityOtherInfo: VOView=v{number}": float(number),
        }
        lines += [line for line, often in some.items() if chance.random() < often]
        share = entry("ComputingShare", f"urn:share:{number}", place, *lines)
        made += [share, policy("Mapping", share[0].removeprefix("dn: "), some_rules(chance))]
    return made


@attrs.frozen(slots=True)
class Case:
    """The entries of each tree, as text."""

    old: tuple[str, ...]
    new: tuple[str, ...]


def text(*trees: Iterable[str]) -> bytes:
    """Entries of trees as LDIF."""
    return ("\n\n".join(each for tree in trees for each in tree) + "\n\n").encode()


def make(chance: random.Random) -> Case:
    """A queue in both trees."""
    found = []
    for tree in (old_tree(chance), new_tree(chance)):
        entries = ["\n".join(each) for each in tree]
        if chance.random() < 0.3:
            entries.insert(chance.randrange(len(entries)), chance.choice(entries))
        found.append(tuple(entries))
    return Case(*found)


def judge(case: Case) -> str | None:
    """Says whom the queue admits whom a tree refuses, or refuses whom both admit."""
    found = [read(text(*trees)) for trees in ((case.old,), (case.new,), (case.old, case.new))]
    old, new, together = (of_ads(each.computing_elements()) for each in found if each is not None)
    both = {ident: old.get(ident, jobs) & new.get(ident, jobs) for ident, jobs in together.items()}
    if wrong := more(both, together):
        return wrong
    if wrong := more(together, both):
        return f"both trees, but not together: {wrong}"
    return None if old.keys() | new.keys() == together.keys() else "a queue is called otherwise"


def smaller(case: Case) -> Iterable[Case]:
    """Without an entry."""
    for number in range(len(case.old)):
        yield Case(case.old[:number] + case.old[number + 1 :], case.new)
    for number in range(len(case.new)):
        yield Case(case.old, case.new[:number] + case.new[number + 1 :])


def show(case: Case) -> str:
    """The dump."""
    return text(case.old, case.new).decode()


ATTACK = Attack("two_trees", make, judge, smaller, show, nightly=20_000, smoke=300)

if __name__ == "__main__":
    sys.exit(main(ATTACK))
