"""Damage to dumps of sites: bytes, lines, entries, objects and elements.

Damage that leaves no trace is left out: rules and policies that vanish whole, and a rule that
becomes another rule that can be read.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any, Final

from tests.attack.sites import Node

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
