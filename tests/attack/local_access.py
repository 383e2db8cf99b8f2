"""No damage to what a batch system prints makes a queue admit an organisation that it refused.

A case is an output of Slurm, PBS, Torque, Grid Engine or LSF with queues that some users, groups or
accounts may use, and the same output damaged, or beside it. A name of a list that becomes another
name leaves no trace and is left out.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import attrs

from matchmaker import glue
from matchmaker.batch.description import DescriptionError, read_description
from matchmaker.classad import ClassAd
from tests.attack.run import Attack, main

NAMES: Final = ("cms", "atlas", "ops", "ada", "eve")
KNOWN: Final = frozenset((*NAMES, *(f"{name}@h.x" for name in NAMES), "root"))
QUEUES: Final = ("p", "q", "r")
OUTPUTS: Final = 400
"""How many different outputs there are; each is read once."""


@attrs.frozen(slots=True)
class Case:
    """The outputs of a batch system, whole, and damaged."""

    lrms: str
    whole: str
    damaged: tuple[str, ...]


def some(chance: random.Random, between: str = ",") -> str:
    """A list of names."""
    return between.join(chance.sample(NAMES, chance.randint(1, 3)))


def queues(chance: random.Random) -> tuple[str, ...]:
    """The names of some queues."""
    return QUEUES[: chance.randint(1, 3)]


def partitions(chance: random.Random) -> str:
    """Partitions of Slurm as lines."""

    def line(name: str) -> str:
        def either(*words: str) -> str:
            word = chance.choice(words)
            return f"{word}=ALL" if chance.random() < 0.4 else f"{word}={some(chance)}"

        lists = (
            either("AllowGroups"),
            either("AllowAccounts", "DenyAccounts").replace(
                "DenyAccounts=ALL", "AllowAccounts=ALL"
            ),
            either("AllowQos", "DenyQos").replace("DenyQos=ALL", "AllowQos=ALL"),
        )
        root = chance.choice(("NO", "NO", "NO", "YES"))
        return (
            f"PartitionName={name} {' '.join(lists)} AllocNodes=ALL Default=NO QoS=N/A Hidden=NO"
            f" MaxTime=1-00:00:00 Nodes=wn[1-2] RootOnly={root} ReqResv=NO State=UP TotalCPUs=8"
        )

    return "\n".join(map(line, queues(chance))) + "\n"


def partitions_in_json(chance: random.Random) -> str:
    """Partitions of Slurm as JSON."""

    def listed() -> str:
        return some(chance) if chance.random() < 0.5 else ""

    made = [
        {
            "name": name,
            "nodes": {"allowed_allocation": "", "configured": "wn[1-2]"},
            "accounts": {"allowed": listed(), "deny": listed()},
            "groups": {"allowed": listed()},
            "qos": {"allowed": listed(), "deny": listed(), "assigned": ""},
            "partition": {"state": ["UP"]},
        }
        for name in queues(chance)
    ]
    return json.dumps({"partitions": made, "errors": []}, indent=1)


def pbs_queues(chance: random.Random) -> dict[str, dict[str, str]]:
    """Queues of PBS or Torque with their attributes."""
    found: dict[str, dict[str, str]] = {}
    for name in queues(chance):
        facts = found[name] = {"queue_type": "Execution", "Priority": "1"}
        if chance.random() < 0.7:
            signs = ("", "+", "-")
            users = [chance.choice(signs) + one for one in some(chance).split(",")]
            facts |= {"acl_user_enable": "True", "acl_users": ",".join(users)}
        if chance.random() < 0.5:
            facts |= {"acl_group_enable": "True", "acl_groups": some(chance)}
        if chance.random() < 0.3:
            facts["from_route_only"] = "True"
        facts |= {"enabled": "True", "started": "True"}
    # Without a routing queue there may be none that a job can be given to.
    if chance.random() < 0.5 or all("from_route_only" in facts for facts in found.values()):
        onward = ",".join(chance.sample([*found], chance.randint(1, len(found))))
        route = {"queue_type": "Route", "route_destinations": onward}
        found["route"] = {**route, "enabled": "True", "started": "True"}
    return found


def pbs_in_text(chance: random.Random) -> str:
    """Queues of PBS as ``qstat -Q -f`` prints them."""
    return "\n".join(
        f"Queue: {name}\n" + "".join(f"    {fact} = {value}\n" for fact, value in facts.items())
        for name, facts in pbs_queues(chance).items()
    )


def pbs_in_json(chance: random.Random) -> str:
    """Queues of PBS as JSON."""
    return json.dumps({"timestamp": 1, "Queue": pbs_queues(chance)}, indent=1)


def cluster_queues(chance: random.Random) -> str:
    """Queues of Grid Engine."""

    def listed() -> str:
        return some(chance, chance.choice((" ", ","))) if chance.random() < 0.5 else "NONE"

    return "".join(
        f"qname {name}\nhostlist @allhosts\nslots 1,[n1=4],\\\n  [n2=4]\nowner_list NONE\n"
        f"user_lists {listed()}\nxuser_lists {listed()}\nsubordinate_list NONE\n"
        f"projects {listed()}\nxprojects {listed()}\ncalendar NONE\nh_rt 24:00:00\n"
        for name in queues(chance)
    )


def lsf_queues(chance: random.Random) -> str:
    """Queues of LSF."""

    def users() -> str:
        names = some(chance, " ")
        return chance.choice(("all", names, f"all ~{names.replace(' ', ' ~')}", f"{names}/"))

    records = [
        {"QUEUE_NAME": name, "STATUS": "Open:Active", "HOSTS": "all", "USERS": users()}
        for name in queues(chance)
    ]
    return json.dumps({"COMMAND": "bqueues", "RECORDS": records}, indent=1)


FORMS: Final[tuple[tuple[str, Callable[[random.Random], str]], ...]] = (
    ("slurm", partitions),
    ("slurm", partitions_in_json),
    ("pbspro", pbs_in_text),
    ("pbspro", pbs_in_json),
    ("torque", pbs_in_text),
    ("sge", cluster_queues),
    ("lsf", lsf_queues),
)


# --- damage ---------------------------------------------------------------------------------------

JUNK: Final = (
    "\0",
    "\ufffd",
    "\xa0",
    "\x85",
    "\t",
    " ",
    "\n",
    "\n\n",
    "=",
    "~",
    "}",
    "(null)",
    "\\",
)
LINES: Final = ("junk", "Queue: z", "PartitionName=", "qname z", "\tx", ",eve", "    acl_users")


def in_text(text: str, chance: random.Random) -> str:
    """A piece cut out, another one put in, or a line broken, joined, doubled or put in."""
    lines = text.split("\n")
    place = chance.randrange(len(lines))
    line = lines[place]
    what = chance.randrange(8)
    if what == 0:
        lines.insert(chance.randrange(len(lines)), line)
    elif what == 1:
        lines[place : place + 2] = [" ".join(lines[place : place + 2])]
    elif what == 2:
        at = chance.randint(0, len(line))
        lines[place : place + 1] = [line[:at], line[at:]]
    elif what == 3:
        lines.insert(place, chance.choice(LINES))
    elif what == 4 and "=" in line and text.startswith("Part"):
        lines[place] = line[: chance.randrange(len(line))]
    else:
        at = chance.randrange(len(text))
        end = at + chance.choice((0, 0, 0, 1, 1, 2, 5))
        junk = "".join(chance.choices(JUNK, k=chance.choice((0, 1, 1, 2))))
        return text[:at] + junk + text[end:]
    return "\n".join(lines)


class Fields(list[tuple[str, Any]]):
    """The fields of an object of JSON."""


def in_json(text: str, chance: random.Random) -> str:
    """An object of which a field is doubled, renamed or of another kind."""
    tree = json.loads(text, object_pairs_hook=Fields)
    found: list[Fields] = []

    def visit(value: Any) -> None:
        if isinstance(value, Fields):
            found.append(value)
        for inner in value if isinstance(value, list) else ():
            visit(inner[1] if isinstance(value, Fields) else inner)

    visit(tree)
    node = chance.choice([each for each in found if each])
    place = chance.randrange(len(node))
    name, value = node[place]
    other = chance.choice((7, Fields(), [None], "(null)"))
    what = chance.randrange(6)
    if what == 0:
        node[place] = name, other
    elif what == 1:
        node[place] = chance.choice((name + "x", name[:-1], name.swapcase(), name + " ")), value
    elif what == 2:
        again = chance.choice((name, name.swapcase(), f"{name}.x"))
        node.insert(chance.randint(0, len(node)), (again, other))
    elif what == 3:
        node[place] = name, Fields([(name, value)])
    elif what == 4 and isinstance(value, str):
        node[place] = name, value + chance.choice((",", " ", "\0", "\n", "\x85", "}"))
    else:
        chance.shuffle(node)
    return written(tree)


def written(value: Any) -> str:
    """JSON whose objects may have a name twice."""
    if isinstance(value, Fields):
        return "{" + ", ".join(f"{json.dumps(n)}: {written(v)}" for n, v in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value)


# --- judgement ------------------------------------------------------------------------------------


def admitted(lrms: str, texts: Iterable[str]) -> tuple[dict[str, frozenset[str]], bool]:
    """The organisations that each queue admits; whether it has other names than those given."""
    named = [(f"output {number}", text) for number, text in enumerate(texts)]
    found: dict[str, frozenset[str]] = {}
    other = False
    for ad in glue.admit(read_description(lrms, named).queues, NAMES):
        rules, lists = ad.eval("GlueCEAccessControlBaseRule"), ad.eval("LocalAccess")
        some_rules = rules if isinstance(rules, list) else [f"VO:{name}" for name in NAMES]
        vos = (str(rule).removeprefix("VO:") for rule in some_rules)
        found[str(ad.eval("Name"))] = frozenset(vos) & frozenset(NAMES)
        other |= any(not KNOWN.issuperset(map(str, one)) for one in values(lists))
    return found, other


def values(lists: object) -> list[list[Any]]:
    """All lists of names of a queue."""
    ads = [ad for ad in lists if isinstance(ad, ClassAd)] if isinstance(lists, list) else []
    return [value for ad in ads for name in ad if isinstance(value := ad.eval(name), list)]


@lru_cache(maxsize=OUTPUTS)
def whole(lrms: str, text: str) -> Mapping[str, frozenset[str]]:
    """The organisations that each queue of an output admits."""
    return admitted(lrms, [text])[0]


def make(chance: random.Random) -> Case:
    """A random output, damaged in one way to three."""
    number = chance.randrange(OUTPUTS)
    lrms, form = FORMS[number % len(FORMS)]
    text = form(random.Random(f"output {number}"))
    damaged = text
    for _ in range(chance.choice((1, 1, 2))):
        try:
            nested = damaged.startswith("{") and chance.random() < 0.8
            damaged = (in_json if nested else in_text)(damaged, chance)
        except ValueError:
            break
    beside = chance.choice(((damaged,),) * 8 + ((damaged, text), (text, damaged)))
    return Case(lrms, text, beside)


def judge(case: Case) -> str | None:
    """Says which queue admits more than it did."""
    before = whole(case.lrms, case.whole)
    try:
        after, other = admitted(case.lrms, case.damaged)
    except DescriptionError:
        return None
    if other or silent(case):
        return None
    for name, vos in after.items():
        if more := vos - before.get(name, frozenset(NAMES)):
            return f"{name} admits {', '.join(sorted(more))}"
    return None


def silent(case: Case) -> bool:
    """Whether a name of a list, or its sign, is lost, and no trace of it left."""
    words = case.whole.replace("\\n", " ")
    damaged = max((text for text in case.damaged if text != case.whole), default=words, key=len)
    marks = [f"{sign}{name}" for name in NAMES for sign in ("", "-", "~")]
    return any(damaged.count(mark) < words.count(mark) for mark in marks)


def show(case: Case) -> str:
    """The outputs."""
    texts = "\n".join(f"--- damaged\n{text!r}" for text in case.damaged)
    return f"--- {case.lrms}\n{case.whole}{texts}"


ATTACK = Attack("local_access", make, judge, show=show, nightly=100_000, smoke=1_000)

if __name__ == "__main__":
    sys.exit(main(ATTACK))
