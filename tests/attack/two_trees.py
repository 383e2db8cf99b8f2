"""No damage to GLUE 2.0 opens a queue that a site describes in GLUE 1.3 too.

A case is a queue with its views in both trees, and the same with a service, a manager, an endpoint
or a key of GLUE 2.0 that is lost, renamed or empty. `access` damages dumps at random, and so meets
these links too seldom.
"""

from __future__ import annotations

import random
import sys
from typing import Final

from matchmaker.glue.access import RULES
from tests.attack.access import Case, judge, show, smaller
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


LINES: Final = (
    ("ShareEndpointForeignKey: urn:e", "ShareEndpointForeignKey: urn:lost"),
    ("ShareServiceForeignKey: urn:s", "ShareServiceForeignKey: urn:lost"),
    ("ProductName: slurm", "ProductName:"),
    ("ProductName: slurm", "ProductNam: slurm"),
    (f"URL: https://{HOST}:443/x", "URL: nowhere"),
    (f"URL: https://{HOST}:443/x", "URL:"),
    ("InterfaceName: rest", "InterfaceName:"),
    ("GLUE2EndpointInterfaceName: rest\n", ""),
    ("\nobjectClass: GLUE2ComputingShare", "\n\nobjectClass: GLUE2ComputingShare"),
    ("objectClass: GLUE2ComputingManager", "objectClass: GLUE2Manager"),
    ("objectClass: GLUE2ComputingEndpoint", "objectClass: GLUE2Endpoint"),
    ("objectClass: GLUE2ComputingService", "objectClass: x"),
    ("dn: GLUE2EndpointID=urn:e,", "dn: GLUE2EndpointID=urn:lost,"),
    ("GLUE2EndpointID: urn:e", "GLUE2EndpointID: urn:lost"),
    ("GLUE2ManagerID: urn:m", "GLUE2ManagerID:"),
    ("dn: GLUE2ManagerID=urn:m,GLUE2ServiceID=urn:s", "dn: GLUE2ManagerID=urn:m,GLUE2ServiceID=x"),
    ("GLUE2ServiceID: urn:s", "GLUE2ServiceID: urn:lost"),
)
"""What becomes of a line, in one place of the dump."""

WHOLE: Final = ("dn: GLUE2ServiceID", "dn: GLUE2ManagerID")
"""Entries that are lost; what stands below them still names them."""


def broken(chance: random.Random, entries: list[Entry]) -> Case:
    """Entries, and the same damaged once or twice."""
    whole = "\n\n".join("\n".join(each) for each in entries) + "\n\n"
    damaged = whole
    for _ in range(chance.choice((1, 1, 2))):
        if chance.random() < 0.15:
            head = chance.choice(WHOLE)
            damaged = "\n\n".join(e for e in damaged.split("\n\n") if not e.startswith(head))
            continue
        was, becomes = chance.choice(LINES)
        parts = damaged.split(was)
        at = chance.randrange(len(parts))
        if at:
            damaged = was.join(parts[:at]) + becomes + was.join(parts[at:])
    return Case(whole.encode(), damaged.encode())


def make(chance: random.Random) -> Case:
    """A queue in both trees, damaged."""
    return broken(chance, [*old_tree(chance), *new_tree(chance)])


ATTACK = Attack("two_trees", make, judge, smaller, show, nightly=20_000, smoke=500)

if __name__ == "__main__":
    sys.exit(main(ATTACK))
