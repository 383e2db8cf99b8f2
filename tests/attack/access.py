"""No damage to a dump makes a queue accept a job that it refused before.

A case is a small site, in GLUE 1.3, 2.0 or both, as LDIF, XML or JSON, and the same dump damaged.
Damage that leaves no trace is left out: rules and policies that vanish whole, and a rule that
becomes another rule that can be read.
"""

from __future__ import annotations

import io
import json
import random
import re
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final
from xml.sax.saxutils import escape

import attrs

from matchmaker import glue, parse_ad
from matchmaker.broker import AUTHORISED, NOT_DENIED
from matchmaker.classad import ClassAd, parse_expr
from matchmaker.glue.access import CLOSED, RULES, denials
from tests.attack.run import Attack, main

SITES: Final = 400
"""How many different sites there are; each is read once."""

ADMITTING: Final = ("VO:alpha", "VO:bravo", "VOMS:/alpha/Role=pilot", "/O=grid/CN=Ada Lovelace")
DENYING: Final = (
    "DENY:/alpha/Role=banned",
    "DENY:VO:bravo",
    "DENY:/O=grid/CN=Eve Mallory",
    "DENY:VOMS:/bravo/Role=pilot",
)
JOBS: Final = tuple(
    parse_ad(f"[ {text} ]")
    for text in (
        'VirtualOrganisation = "alpha"',
        'VirtualOrganisation = "alpha"; FQAN = "/alpha"',
        'VirtualOrganisation = "alpha"; FQAN = {"/alpha", "/alpha/Role=banned"}',
        'VirtualOrganisation = "alpha"; FQAN = "/alpha/Role=pilot"',
        'VirtualOrganisation = "alpha"; CertificateSubject = "/O=grid/CN=Eve Mallory"',
        'VirtualOrganisation = "bravo"; FQAN = "/bravo"',
        'VirtualOrganisation = "bravo"; FQAN = "/bravo/Role=pilot"',
        'CertificateSubject = "/O=grid/CN=Ada Lovelace"; VirtualOrganisation = "zulu"',
        'VirtualOrganisation = "zulu"; FQAN = "/zulu"',
    )
)
_CHECKS: Final = (parse_expr(AUTHORISED), parse_expr(NOT_DENIED))


@attrs.frozen(slots=True)
class Case:
    """A dump, and the same dump damaged."""

    whole: bytes
    damaged: bytes


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


# --- damage ---------------------------------------------------------------------------------------

JUNK: Final = (
    b"\xff",
    b"\0",
    b"!",
    b"x",
    b":",
    b" ",
    b"\t",
    b"\n",
    b"\r",
    b"\n\n",
    b"=",
    b",",
    b"\\",
)


def in_bytes(data: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, dropped or put in; no newline is dropped."""
    place = chance.randrange(len(data))
    line = data.find(b"\n", place)
    end = min(place + chance.choice((0, 0, 1, 1, 2, 5, 12)), line if line >= 0 else len(data))
    junk = b"".join(chance.choices(JUNK, k=chance.choice((0, 1, 1, 2, 3))))
    return data[:place] + junk + data[end:]


STATED: Final = re.compile(rb"Rule|EndpointForeignKey|OtherInfo")
"""Lines that say something wherever they are put in."""


def in_lines(data: bytes, chance: random.Random) -> bytes:
    """A line broken, doubled, moved or joined to the next."""
    lines = data.split(b"\n")
    place = chance.randrange(len(lines))
    line = lines[place]
    name, colon, value = line.partition(b":")
    what = chance.randrange(11)
    if what == 0 and colon:
        lines[place] = name + b":: " + value.strip()[: chance.randrange(9)] + b"*"
    elif what == 1 and colon:
        lines[place] = name + b":< file:///" + value.strip()
    elif what == 2:
        lines[place] = line.replace(b":", b"", 1)
    elif what == 3:
        lines[place] = name + colon
    elif what == 4 and not STATED.search(line):
        lines.insert(chance.randrange(len(lines)), line)
    elif what == 5 and place + 1 < len(lines):
        lines[place : place + 2] = [line + lines[place + 1]]
    elif what == 6:
        lines.insert(place, b"")
    elif what == 7 and (not line or line.startswith(b"dn:")):
        del lines[place]
    elif what == 10:
        lines.insert(place, b"changetype: " + chance.choice((b"add", b"modify", b"delete", b"x")))
    elif what == 8:
        lines[place] = line[: chance.randrange(len(line) + 1)] + b"\xe9" + line[-2:]
    else:
        lines[place] = name[::-1] + colon + value
    return b"\n".join(lines)


HOMES: Final = (
    (b"GLUE2ServiceID=urn:service,", b""),
    (b"urn:service", b"urn:other"),
    (b",Mds-Vo-name=site", b",Mds-Vo-name=other"),
)


def in_entries(data: bytes, chance: random.Random) -> bytes:
    """An entry doubled, whole or damaged, or moved."""
    entries = data.split(b"\n\n")
    taken = chance.choice(entries)
    if chance.random() < 0.2:
        taken = taken.replace(*chance.choice(HOMES))
    elif chance.random() < 0.1:
        entries += [each.replace(*HOMES[1]) for each in entries]
    if chance.random() < 0.5 and len(taken) > 20:
        taken = chance.choice((in_bytes, in_lines))(taken, chance)
    else:
        lines = [line for line in taken.split(b"\n") if chance.random() < 0.8]
        taken = b"\n".join(lines)
    entries.insert(chance.randrange(len(entries)), taken)
    return b"\n\n".join(entries)


def cut(data: bytes, chance: random.Random) -> bytes:
    """The beginning; of LDIF only where no denial, view, policy or key is cut off whole."""
    place = chance.randrange(1, len(data))
    if data.lstrip().startswith(b"<"):
        return data[:place]
    start = data.rfind(b"\n", 0, place)
    lost = any(word in data[start:] for word in (b"DENY:", b"VOView", b"Policy", b"Key"))
    return data if lost else data[:place]


def once(fields: list[tuple[str, Any]]) -> Node:
    """An object; one with a name twice stays as it is, as only its last value would be left."""
    made = dict(fields)
    if len(made) < len(fields):
        raise ValueError("a name twice")
    return made


def in_json(data: bytes, chance: random.Random) -> bytes:
    """A document of which objects or fields are doubled, renamed or of another kind."""
    tree = json.loads(data, object_pairs_hook=once)
    found: list[Node] = []

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            found.append(value)
        for inner in value.values() if isinstance(value, dict) else value:
            if isinstance(inner, (dict, list)):
                visit(inner)

    visit(tree)
    node = chance.choice(found)
    name = chance.choice([*node])
    what = chance.randrange(7)
    if what == 6:
        other = chance.choice(('"ALL"', '["VO:zulu"]', "null", "[]", "7"))
        text, part = json.dumps(tree), json.dumps({name: node[name]})[1:-1]
        again = f"{json.dumps(chance.choice((name, name.lower())))}: {other}"
        return text.replace(part, f"{part}, {again}").encode()
    if what == 0:
        node[name] = chance.choice((None, 7, "", [None], {"x": node[name]}, [node[name]]))
    elif what == 1:
        node[name[:-1] + "x"] = node.pop(name)
    elif what == 2 and isinstance(node[name], list):
        node[name].insert(0, chance.choice((None, 7, "", {}, *node[name])))
    elif what == 3 and isinstance(node[name], str):
        node[name] = chance.choice((node[name] * 20_000, node[name][::-1], [node[name], "x"]))
    elif what == 4:
        text = json.dumps(tree)
        part = json.dumps({name: node[name]})[1:-1]
        return text.replace(part, f"{part}, {part}").encode()
    elif isinstance(node[name], str) and name != "MappingQueue":
        chance.choice(found)[name] = node[name]
    return json.dumps(tree).encode()


WITHIN: Final = (b"<b/>", b"<b>x</b>", b"<Rule/>", b"<!-- x -->", b"<![CDATA[]]>", b"<?x y?>")


def in_xml(data: bytes, chance: random.Random) -> bytes:
    """A document of which elements are doubled, renamed, emptied or put into others."""
    lines = data.split(b"\n")
    place = chance.randrange(len(lines))
    line = lines[place]
    name = line.strip(b"</>").partition(b">")[0]
    what = chance.randrange(7)
    if what == 5 and line.count(b"<") == 2:
        at = chance.randint(line.index(b">") + 1, line.rindex(b"<"))
        lines[place] = line[:at] + chance.choice(WITHIN) + line[at:]
    elif what == 6:
        policies = [*re.finditer(rb"<(AccessPolicy|MappingPolicy)>.*?</\1>", data, re.DOTALL)]
        if policies:
            found = chance.choice(policies)
            again = re.sub(rb"<ID>.*?</ID>", b"", found[0])
            again = re.sub(rb"<Rule>.*?</Rule>", b"<Rule>ALL</Rule>", again)
            return data[: found.start()] + again + data[found.start() :]
    elif what == 0:
        return data.replace(b"<" + name + b">", b"<x>", 1).replace(b"</" + name + b">", b"</x>", 1)
    elif what == 1 and line.count(b"<") == 2:
        lines[place] = b"<" + name + b"/>"
    elif what == 2 and line.count(b"<") == 2:
        lines[place] = b"<" + name + b"><y>" + line + b"</y></" + name + b">"
    elif what == 3 and line.count(b"<") == 2:
        lines.insert(place, line)
    elif line.count(b"<") == 2:
        lines[place] = line.replace(b"</", b"x" * chance.choice((1, 70_000)) + b"</")
    return b"\n".join(lines)


def damage(form: str, data: bytes, chance: random.Random) -> bytes:
    """A dump damaged in one way to three.

    Entries are doubled last: a copy that lost a rule whole, and is then renamed, leaves no trace.
    """
    ways = {
        "ldif": (in_bytes, in_lines, in_lines, in_entries, cut),
        "xml": (in_bytes, in_xml, in_xml, in_xml, cut),
        "json": (in_bytes, in_json, in_json, in_json, in_json),
    }[form]
    chosen = chance.choices(ways, k=chance.choice((1, 1, 2, 3)))
    for way in sorted(chosen, key=lambda way: way is in_entries):
        try:
            data = way(data, chance)
        except (ValueError, IndexError):
            break
    return data


# --- judgement ------------------------------------------------------------------------------------

Admitted = dict[str, frozenset[int]]


@lru_cache(maxsize=1 << 14)
def admitted(rules: tuple[str, ...] | None) -> frozenset[int]:
    """The jobs, by number, that a list of rules admits."""
    ad = ClassAd({RULES: list(rules)} if rules is not None else {})
    return frozenset(
        number
        for number, job in enumerate(JOBS)
        if all(check.eval(my=job, target=ad) is True for check in _CHECKS)
    )


def read(data: bytes) -> tuple[Admitted, set[str]] | None:
    """The jobs that each queue admits, and all rules; None where the dump is refused whole.

    Raises ValueError for two queues of one name, of which no pool can be made.
    """
    try:
        found = glue.read(io.BytesIO(data))
    except ValueError:
        return None
    jobs: Admitted = {}
    known: set[str] = set()
    names: set[str] = set()
    for ad in found.computing_elements():
        if (name := str(ad.eval("CEid"))) in names:
            raise ValueError(f"{name} is there twice")
        names.add(name)
        rules = ad.eval(RULES)
        texts = tuple(str(rule) for rule in rules) if isinstance(rules, list) else None
        known.update(texts if texts is not None else ("ALL",))
        ident = str(ad.eval("GlueCEUniqueID")).partition("/urn:share")[0].lower()
        jobs[ident] = jobs.get(ident, frozenset()) | admitted(texts)
    return jobs, known


whole = lru_cache(maxsize=SITES)(read)
KNOWN: Final = frozenset((*ADMITTING, *DENYING, *denials(DENYING), CLOSED, "ALL"))


def make(chance: random.Random) -> Case:
    """A random site, damaged."""
    form, data = site(chance.randrange(SITES))
    return Case(data, damage(form, data, chance))


def judge(case: Case) -> str | None:
    """Says which queue admits more than it did."""
    before, after = whole(case.whole), read(case.damaged)
    if before is None:
        return "the whole dump cannot be read"
    if after is None:
        return None
    jobs, _ = before
    found, rules = after
    if rules - KNOWN or silent(case):
        return None
    anywhere = frozenset().union(*jobs.values())
    for ident, numbers in found.items():
        more = numbers - jobs.get(ident, anywhere)
        if more:
            return f"{ident} admits {', '.join(str(JOBS[number]) for number in sorted(more))}"
    return None


def silent(case: Case) -> bool:
    """Whether a denial lost its first word, and so became a rule that admits."""

    def counts(data: bytes, rule: str) -> tuple[int, int]:
        denials = data.count(rule.encode())
        return denials, data.count(rule.removeprefix("DENY:").encode()) - denials

    for rule in DENYING:
        denials, rules = counts(case.whole, rule)
        left, more = counts(case.damaged, rule)
        if left < denials and more > rules:
            return True
    return False


def smaller(case: Case) -> Iterable[Case]:
    """The same damage with fewer lines, in both dumps alike."""
    lines, damaged = case.whole.split(b"\n\n"), case.damaged.split(b"\n\n")
    for entry in lines:
        if entry in damaged and len(lines) > 1:
            yield Case(
                b"\n\n".join(each for each in lines if each != entry),
                b"\n\n".join(each for each in damaged if each != entry),
            )


def show(case: Case) -> str:
    """Both dumps."""
    return f"--- whole\n{case.whole.decode()}--- damaged\n{case.damaged!r}"


ATTACK = Attack("access", make, judge, smaller, show, nightly=100_000, smoke=10_000)

if __name__ == "__main__":
    sys.exit(main(ATTACK))
