"""Small sites in GLUE 1.3, 2.0 or both, as LDIF, XML or JSON, for attacks on rules of access."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final
from xml.sax.saxutils import escape

from matchmaker.glue.access import RULES

SITES: Final = 400
"""How many different sites there are; each is read once."""

ADMITTING: Final = ("VO:alpha", "VO:bravo", "VOMS:/alpha/Role=pilot", "/O=grid/CN=Ada Lovelace")
DENYING: Final = (
    "DENY:/alpha/Role=banned",
    "DENY:VO:bravo",
    "DENY:/O=grid/CN=Eve Mallory",
    "DENY:VOMS:/bravo/Role=pilot",
)

Rule = list[str]
Node = dict[str, Any]


def some_rules(chance: random.Random) -> Rule:
    """Rules of one queue, share or endpoint."""
    rules = chance.sample(ADMITTING, chance.randint(1, 3))
    return rules + (chance.sample(DENYING, chance.randint(1, 2)) if chance.random() < 0.6 else [])


def old_site(chance: random.Random) -> Iterator[list[str]]:
    """The entries of a site in GLUE 1.3."""
    for number in range(chance.randint(1, 3)):
        ident = f"ce{number}.grid:8443/cream-slurm-queue{number}"
        dn = f"GlueCEUniqueID={ident},Mds-Vo-name=site,o=grid"
        rules = some_rules(chance)
        yield [
            f"dn: {dn}",
            "objectClass: GlueCE",
            f"GlueCEUniqueID: {ident}",
            f"GlueCEName: queue{number}",
            *(f"{RULES}: {rule}" for rule in rules),
            "GlueCEStateStatus: Production",
            "GlueForeignKey: GlueClusterUniqueID=cluster",
        ]
        for name in chance.sample(("first", "second"), chance.choice((0, 0, 1, 2))):
            yield [
                f"dn: GlueVOViewLocalID={name},{dn}",
                "objectClass: GlueVOView",
                f"GlueVOViewLocalID: {name}",
                *(f"{RULES}: {rule}" for rule in some_rules(chance)),
                f"GlueChunkKey: GlueCEUniqueID={ident}",
            ]


def new_site(chance: random.Random, *, nested: bool = True) -> Node:
    """A service in GLUE 2.0 as a tree of objects, each with its class, its fields and children.

    The ids of policies may repeat where the tree says what they are of.
    """

    def policy(kind: str, name: str) -> list[Node]:
        return [
            {"kind": f"{kind}Policy", "ID": ident, "Rule": some_rules(chance)}
            for ident in [f"urn:policy:{name}", f"urn:policy:{name}:more"][
                : chance.choice((1, 1, 2))
            ]
        ]

    every_share = chance.random() < 0.7
    every_endpoint = not every_share or chance.random() < 0.7
    repeated = nested and chance.random() < 0.5
    endpoints = [
        {
            "kind": "ComputingEndpoint",
            "ID": f"urn:endpoint:{name}",
            "URL": f"https://{name}.grid:443/arex",
            "InterfaceName": "org.nordugrid.arcrest",
            "Capability": chance.choice(CAPABILITIES),
            "children": policy("Access", "basic" if repeated else name) if every_endpoint else [],
        }
        for name in chance.sample(("alone", "beside", "third"), chance.randint(1, 3))
    ]
    bound = chance.random() < 0.5
    few = chance.randint(1, len(endpoints))

    def mark(name: str) -> str:
        host = str(endpoints[0]["URL"]).removeprefix("https://").partition("/")[0]
        return f"CEid={host}/cream-slurm-{name}"

    shares = [
        {
            "kind": "ComputingShare",
            "ID": f"urn:share:{name}",
            "MappingQueue": name,
            "ServingState": "production",
            "Endpoint": chance.sample([e["ID"] for e in endpoints], few) if bound else [],
            "OtherInfo": chance.choice(([], [], ["VOView=alpha"], ["VOView=bravo", mark(name)])),
            "children": policy("Mapping", "map" if repeated else name) if every_share else [],
        }
        for name in chance.sample(("long", "short"), chance.randint(1, 2))
    ]
    manager = {"kind": "ComputingManager", "ID": "urn:manager", "ProductName": "SLURM"}
    return {
        "kind": "ComputingService",
        "ID": "urn:service",
        "children": [*endpoints, *shares, manager],
    }


CAPABILITIES: Final[tuple[list[str], ...]] = (
    [],
    ["executionmanagement.jobexecution"],
    ["executionmanagement.jobcreation", "executionmanagement.jobmanagement"],
)

KEYS: Final = {
    "ComputingEndpoint": "GLUE2EndpointServiceForeignKey",
    "ComputingShare": "GLUE2ShareServiceForeignKey",
    "ComputingManager": "GLUE2ManagerServiceForeignKey",
    "AccessPolicy": "GLUE2AccessPolicyEndpointForeignKey",
    "MappingPolicy": "GLUE2MappingPolicyShareForeignKey",
}
NAMED: Final = {
    "ComputingService": "GLUE2Service",
    "ComputingEndpoint": "GLUE2Endpoint",
    "ComputingShare": "GLUE2Share",
    "ComputingManager": "GLUE2Manager",
    "AccessPolicy": "GLUE2Policy",
    "MappingPolicy": "GLUE2Policy",
}
NAMES: Final = {
    "URL": "GLUE2EndpointURL",
    "InterfaceName": "GLUE2EndpointInterfaceName",
    "Capability": "GLUE2EndpointCapability",
    "Endpoint": "GLUE2ComputingShareComputingEndpointForeignKey",
    "MappingQueue": "GLUE2ComputingShareMappingQueue",
    "OtherInfo": "GLUE2EntityOtherInfo",
    "ServingState": "GLUE2ComputingShareServingState",
    "ProductName": "GLUE2ManagerProductName",
    "Rule": "GLUE2PolicyRule",
}


def as_entries(node: Node, above: str, parent: str, keys: bool) -> Iterator[list[str]]:
    """The entries of a tree."""
    named = f"{NAMED[node['kind']]}ID"
    dn = f"{named}={node['ID']},{above}"
    lines = [f"dn: {dn}", f"objectClass: GLUE2{node['kind']}", f"{named}: {node['ID']}"]
    for name, value in node.items():
        if name in NAMES:
            texts = value if isinstance(value, list) else [value]
            lines += [f"{NAMES[name]}: {text}" for text in texts]
    if keys and node["kind"] in KEYS:
        lines.append(f"{KEYS[node['kind']]}: {parent}")
    yield lines
    for child in node.get("children", ()):
        yield from as_entries(child, dn, node["ID"], keys)


def as_xml(node: Node) -> str:
    """A tree as ARC publishes it."""

    def field(name: str, value: str | list[str]) -> str:
        texts = value if isinstance(value, list) else [value]
        return "".join(f"<{name}>{escape(text)}</{name}>\n" for text in texts)

    fields = "".join(field(name, value) for name, value in node.items() if name not in APART)
    links = "".join(field(name, ids) for name, ids in associations(node).items())
    links = f"<Associations>\n{links}</Associations>\n" if links else ""
    inner = "".join(map(as_xml, node.get("children", ())))
    return f"<{node['kind']}>\n{fields}{links}{inner}</{node['kind']}>\n"


def as_json(node: Node) -> Node:
    """A tree with its children under their classes."""
    made = {name: value for name, value in node.items() if name not in APART}
    if links := associations(node):
        made["Associations"] = links
    for child in node.get("children", ()):
        made.setdefault(child["kind"], []).append(as_json(child))
    return made


def flat(node: Node) -> Iterator[Node]:
    """The objects of a tree beside each other, as ipf publishes them, with associations alone."""
    children = node.get("children", ())
    links: dict[str, list[str]] = {}
    for child in children:
        if child["kind"].endswith("Policy"):
            yield {**child, f"{node['kind'].removeprefix('Computing')}Of": [node["ID"]]}
        else:
            links.setdefault(f"{child['kind']}ID", []).append(child["ID"])
            yield from flat(child)
    yield {**node, "children": (), "links": links}


def associations(node: Node) -> dict[str, list[str]]:
    """The ids that an object has of others."""
    found = dict(node.get("links", {}))
    for name in ("Endpoint", "EndpointOf", "ShareOf"):
        if ids := node.get(name):
            found[f"Computing{name.removesuffix('Of')}ID"] = ids
    return found


APART: Final = frozenset({"kind", "children", "links", "Endpoint", "EndpointOf", "ShareOf"})


@lru_cache(maxsize=SITES)
def site(number: int) -> tuple[str, bytes]:
    """The form and the bytes of a site."""
    chance = random.Random(f"site {number}")
    form = ("1.3", "2.0", "both", "2.0", "xml", "json")[number % 6]
    if form in ("xml", "json"):
        nested = chance.random() < 0.5
        tree = new_site(chance, nested=nested)
        objects = [tree] if nested else [*flat(tree)]
        if form == "xml":
            return form, f"<Root>\n{''.join(map(as_xml, objects))}</Root>\n".encode()
        return form, json.dumps(as_json({"children": objects}), indent=1).encode()
    entries: list[list[str]] = []
    if form != "2.0":
        entries += old_site(chance)
    if form != "1.3":
        entries += as_entries(new_site(chance), "o=glue", "", chance.random() < 0.5)
    return "ldif", "".join("\n".join(lines) + "\n\n" for lines in entries).encode()
