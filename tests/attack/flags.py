"""Submit flags of random jobs, mappings and inventories, judged host by host.

A case is a batch system, a mapping, a job and some nodes. What its flags select is read back by
judges of the systems' languages that share nothing with what writes them. The verdict, the
certificate and the condition to check again must be right for every node, and no text of an ad may
reach a word of a command.
"""

from __future__ import annotations

import random
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import attrs

from matchmaker import ClassAd, batch, parse_ad, parse_ads, parse_expr, reduce
from matchmaker.batch import Fit, Mapping, NoFlagsError, NoHostError, Submission
from matchmaker.classad.nodes import Attr, Binary, Call, Literal
from matchmaker.classad.operators import ascii_fold, truth
from matchmaker.classad.walks import conjunction, conjuncts
from tests.attack.run import Attack, main
from tests.batch.systems import SYSTEMS as EXPECTED
from tests.property import languages

RAM, CPUS = "GlueHostMainMemoryRAMSize", "GlueHostArchitectureSMPSize"
SI00, OS = "GlueHostBenchmarkSI00", "GlueHostOperatingSystemName"
OUT, TAGS = "GlueHostNetworkAdapterOutboundIP", "GlueHostApplicationSoftwareRunTimeEnvironment"

SYSTEMS: Final = ("slurm", *batch.known_lrms())

# What means something to one batch system or to a shell.
HOSTILE: Final = (
    "a|b", "!a", "a&b", "(a)", "a,b", "a b", "a:b=c", "a+b", "a;id", "$(id)", "`id`", "$$(x)",
    "$INT(", "$x", "a\nb", "x\nqueue 5", "#SBATCH --wrap=id", "--wrap=id", '"', "'", "a\\", "[1-3]",
    "*", "=", "", "NONE", "all", "é", "{value}", "{flag}",
)  # fmt: skip
SYSTEM_NAMES: Final = ("SL", "Debian", "CentOS", "5.2", *HOSTILE)
LABELS: Final = ("A", "B", "C", *HOSTILE)
GPU_TYPES: Final = ("NVIDIA A100", "Tesla V100", "none")
# Attributes whose names are a shell's, or those of BLAH's variables for other attributes.
LIKE_VARIABLES: Final = (f"{RAM}_Min", f"{CPUS}_Max", "UID", "IFS")
BUCKETS: Final = {"si0": (0, 2), "si3": (3, 5), "si6": (6, 9)}


@attrs.frozen(slots=True)
class Case:
    """All that flags are made of, as texts."""

    lrms: str
    mapping: str
    job: tuple[tuple[str, str], ...]
    clauses: tuple[str, ...]
    nodes: tuple[tuple[tuple[str, str], ...], ...]
    inventory: bool
    want: str


# Values of several attributes and requests in one flag, defaults, presence, texts and lines.
FORMS: Final = """
[attributes.GPUs]
kind = "min"
flag = "{gpus}"
[attributes.GpuType]
kind = "eq"
features = { "NVIDIA A100" = "a100", "Tesla V100" = "v100" }
term = "{type}"
[requests]
gpus = {}
Test = { kind = "present" }
Account = { kind = "text", pattern = ".*" }
Limit = { kind = "time" }
"""
_BOTH, _SIZE, _TYPE = "--gres=gpu:{type}:{gpus}", "--gres=gpu:{gpus}", "--gres=gpu:{type}:0"
GRES: Final = (
    (_BOTH,), (_BOTH, _SIZE), (_BOTH, _TYPE), (_SIZE, _TYPE), (_TYPE, _BOTH), (_BOTH, _SIZE, _TYPE),
)  # fmt: skip
OTHER_FORMS: Final = """
qos = [{ with = "Test", flag = "--qos=test" }, "--qos=normal"]
account = ["--account={Account}", "--account=guests"]
limit = ["--time-min={Limit:hms}", "--time-min=24:00:00"]
[lines]
account = 'export ACCOUNT={Account}'
"""

# A slot that is written only beside another one, which may itself be written nowhere.
BESIDE: Final = """
[attributes.Far]
kind = "min"
flag = "{far}"
[attributes.Load]
kind = "min"
flag = "{load}"
"""
_FAR: Final = 'far = [{ with = "load", flag = "--far={far}" }]\n'
_LOAD: Final = 'load = [{ with = "far", flag = "--load={load}" }]\n'
FAR: Final = (_FAR, f"{_FAR}{_LOAD}", f'far = "--far={{far}}"\n{_LOAD}')


# A share of the memory for each processor, of which a condition may ask for more.
_OF_SLURM: Final = '[requests.memory]\nflag = "--mem-per-cpu={value}M"\nper_cpu = true\n'
SHARES: Final = {
    "torque": ('[requests.memory]\nflag = ["-l", "pmem={value}mb"]\nper_cpu = true\n',),
    "slurm": (
        _OF_SLURM,
        f'{_OF_SLURM}[attributes.{CPUS}]\nkind = "min"\nflag = "--cpus-per-task={{value}}"\n',
    ),
}

# Amounts that are computed and the same, and a number, a text and words that are computed.
COMPUTED: Final = """
[requests.cpus]
value = "MY.RequestCpus * 2 / 2"
flag = "--cpus-per-task={value}"
[requests.disk]
value = "ceiling(MY.RequestDisk / 1024.0)"
flag = "--tmp={value}M"
[requests.Nice]
value = "20 - MY.MaxWallTime"
flag = "--nice={value}"
[requests.Name]
kind = "text"
value = 'substr(replaceAll("[^A-Za-z0-9;]", MY.Account, "_"), 0, 15)'
pattern = ".*"
flag = "--job-name={value}"
[requests.partition]
kind = "bucket"
value = "MY.MaxWallTime"
buckets = { short = [0, 30], long = [31, 60] }
[flags]
queue = ["--partition={partition}", "--partition={queue}"]
"""


# --- making ---------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    return str(Literal(text))


def toml(text: str) -> str:
    escaped = "".join(f"\\u{ord(char):04x}" if char in '"\\\n' else char for char in text)
    return f'"{escaped}"'


class Maker:
    """Random parts of a case."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def site(self, lrms: str) -> str:
        """A mapping that knows some attributes, and of some only a few texts."""
        if lrms in ("htcondor", "blah"):
            return 'others = "same"\n' if lrms == "htcondor" and self.chance.random() < 0.7 else ""
        pick = random.Random(self.chance.randrange(60))
        join = 'join = "|"\nnegate = "!"\n' if lrms == "sge" else ""
        named = "{value}=TRUE" if lrms == "sge" else "{value}=True" if lrms == "pbspro" else ""
        term = f'term = "{named}"\n' if named else ""
        parts = []
        if pick.random() < 0.8:
            known = pick.sample(SYSTEM_NAMES, pick.randint(1, 4)) + ["SL"] * (pick.random() < 0.5)
            shared = pick.random() < 0.3
            features = {text: f"os{0 if shared else at}" for at, text in enumerate(known)}
            parts.append(self._table(OS, "eq", features, join, "os={value}" if join else named))
        if pick.random() < 0.8:
            known = pick.sample(LABELS, pick.randint(1, 3)) + ["A"] * (pick.random() < 0.5)
            shared = pick.random() < 0.3
            features = {text: f"t{0 if shared else at}" for at, text in enumerate(known)}
            parts.append(self._table(TAGS, "member", features, "", named))
        if pick.random() < 0.5:
            parts.append(
                f'[attributes.{OUT}]\nkind = "bool"\n{term}features = {{ true = "outbound" }}\n'
            )
        if pick.random() < 0.5:
            runs = ", ".join(f"{name} = [{low}, {high}]" for name, (low, high) in BUCKETS.items())
            own = 'term = "si={value}"\njoin = "|"\n' if lrms == "sge" else term
            own += pick.choice(["", "complete = true\n"])
            parts.append(f'[attributes.{SI00}]\nkind = "bucket"\n{own}buckets = {{ {runs} }}\n')
        if lrms == "slurm" and pick.random() < 0.6:
            gres = ", ".join(map(toml, pick.choice(GRES)))
            more, forms = "", ""
            if pick.random() < 0.6:
                more, forms = BESIDE, pick.choice(FAR)
            parts.append(f"{more}{FORMS}[flags]\n{forms}gpu = [{gres}]\n{OTHER_FORMS}")
        if lrms == "kubernetes":
            parts.append(
                f'[attributes.{RAM}]\nkind = "range"\n'
                """min = '{"key":"ram","operator":"Gt","values":["{value:below}"]}'\n"""
                """max = '{"key":"ram","operator":"Lt","values":["{value:above}"]}'\n"""
            )
        if lrms == "slurm" and pick.random() < 0.3:
            parts = [part for part in parts if "[flags]" not in part] + [COMPUTED]
        if lrms in SHARES and pick.random() < 0.4:
            parts.append(pick.choice(SHARES[lrms]))
        elif lrms == "slurm" and pick.random() < 0.3:
            parts.append(f'[attributes.{RAM}]\nkind = "min"\nflag = "--mem={{value}}G"\nunit = 2\n')
        return "".join(parts)

    @staticmethod
    def _table(attribute: str, kind: str, features: dict[str, str], more: str, term: str) -> str:
        names = ", ".join(f"{toml(text)} = {toml(name)}" for text, name in features.items())
        own = f"term = {toml(term)}\n" if term else ""
        return f'[attributes.{attribute}]\nkind = "{kind}"\n{more}{own}features = {{ {names} }}\n'

    def leaf(self) -> str:
        chance = self.chance
        relation = chance.choice(("<", "<=", ">", ">=", "==", "!=", ">", ">="))
        bound = chance.choice((str(chance.randint(-1, 9)), "2.5", "4.0"))
        match chance.randrange(17):
            case 16:
                return f"other.{chance.choice(LIKE_VARIABLES)} {relation} {chance.randint(0, 9)}"
            case 14 | 15:
                return f"other.{chance.choice(('Far', 'Load'))} >= {chance.randint(1, 9)}"
            case 12:
                return f"other.GPUs {relation} {bound}"
            case 13:
                text = quoted(chance.choice((*GPU_TYPES, "nvidia a100", "x")))
                return f"other.GpuType {chance.choice(('==', '==', '!='))} {text}"
            case 0 | 1 | 2:
                return f"other.{chance.choice((RAM, CPUS))} {relation} {bound}"
            case 3 | 4:
                text = quoted(chance.choice(SYSTEM_NAMES))
                return f"other.{OS} {chance.choice(('==', '!=', '!=', 'is'))} {text}"
            case 5 | 6:
                return f"member({quoted(chance.choice(LABELS))}, other.{TAGS})"
            case 7:
                return f"other.{OUT}"
            case 8 | 9:
                return f"other.{SI00} {relation} {chance.randint(0, 9)}"
            case 10:
                return chance.choice(("MY.Mine", f"other.{RAM} > other.{CPUS}", "other.Load < 5"))
            case _:
                name = chance.choice(HOSTILE) or "x"
                return f"other.{_name(name)} is undefined"

    def tree(self, depth: int) -> str:
        if not depth:
            return self.leaf()
        match self.chance.randrange(6):
            case 0 | 1:
                return f"({self.tree(depth - 1)} && {self.tree(depth - 1)})"
            case 2 | 3:
                return f"({self.tree(depth - 1)} || {self.tree(depth - 1)})"
            case 4:
                return f"!({self.tree(depth - 1)})"
            case _:
                parts = [self.tree(depth - 1) for _ in range(3)]
                return f"({parts[0]} ? {parts[1]} : {parts[2]})"

    def clauses(self) -> tuple[str, ...]:
        """Clauses, now and then several on one attribute."""
        chance = self.chance
        if chance.random() < 0.2:
            texts = chance.sample(SYSTEM_NAMES, 3)
            return tuple(f"other.{OS} != {quoted(text)}" for text in texts)
        if chance.random() < 0.1:
            return tuple(f"other.{name} >= {chance.randint(1, 9)}" for name in ("Far", "Load"))
        return tuple(self.tree(chance.randrange(3)) for _ in range(chance.randint(1, 4)))

    def job(self) -> tuple[tuple[str, str], ...]:
        chance = self.chance
        facts = {
            "Owner": quoted(chance.choice(("ana", "ben"))),
            "Ok": f"TARGET.Load {chance.choice('<>')} {chance.randint(0, 9)}",
            "Deep": "Ok && TARGET.Far > 3",
            "Mine": f"other.{RAM} > {chance.randint(0, 9)}",
        }
        for name, most, unit in (("RequestMemory", 12, 1), ("RequestCpus", 9, 1),
                                 ("RequestDisk", 9, 1024), ("RequestGPUs", 3, 1),
                                 ("MaxWallTime", 90, 1)):  # fmt: skip
            if chance.random() < 0.25:
                facts[name] = str(chance.randint(0, most) * unit)
        if chance.random() < 0.3:
            facts["Test"] = chance.choice(("true", "false", "1", '"yes"', "undefined"))
        if chance.random() < 0.5:
            facts["Account"] = quoted(chance.choice(("group.a", *HOSTILE)))
        if chance.random() < 0.3:
            facts["Limit"] = chance.choice(("90", '"1-02:03:04"', "0.5"))
        return tuple(facts.items())

    def node(self, number: int, least: int) -> tuple[tuple[str, str], ...]:
        chance = self.chance
        tags = ", ".join(map(quoted, chance.sample(LABELS, chance.randint(0, 3))))
        facts = {
            "Name": quoted(f"wn{number}"),
            RAM: str(chance.randint(least, 10)),
            CPUS: str(chance.randint(0, 9)),
            OS: quoted(chance.choice((*SYSTEM_NAMES[:4], *SYSTEM_NAMES))),
            TAGS: f"{{ {tags} }}",
            OUT: chance.choice(("true", "false")),
            "Load": str(chance.randint(0, 9)),
            "Far": str(chance.randint(0, 9)),
            "GPUs": str(chance.randint(0, 9)),
            "GpuType": quoted(chance.choice(GPU_TYPES)),
        }
        facts |= {name: str(chance.randint(0, 9)) for name in LIKE_VARIABLES}
        if chance.random() < 0.9:
            facts[SI00] = str(chance.randint(0, 9))
        if chance.random() < 0.5:
            facts["Disk"] = str(chance.randint(0, 9) * 1024)
        if chance.random() < 0.5:
            facts["Requirements"] = chance.choice(
                (
                    "TARGET.Ok",
                    "TARGET.Deep",
                    'TARGET.Owner == "ana"',
                    "Load < 7",
                    "other.Ok || Far > 6",
                )
            )
        return tuple(facts.items())


def _name(text: str) -> str:
    return str(parse_expr("other.x")).replace("x", "'" + text.replace("\\", "\\\\").replace(
        "'", "\\'").replace("\n", "\\n") + "'").removeprefix("other.")  # fmt: skip


def make(chance: random.Random) -> Case:
    maker = Maker(chance)
    lrms = chance.choice(SYSTEMS)
    inventory = chance.random() < 0.5
    # A node of an inventory may have a size that no mapping foresees.
    least = -1 if inventory and chance.random() < 0.3 else 0
    # A job may have an attribute that hides the host from its requirements.
    hidden = chance.random() < 0.1
    word = "TARGET." if hidden else "other."
    job = [(name, value.replace("other.", word)) for name, value in maker.job()]
    if hidden:
        job.append(("other", f"[ {RAM} = {chance.choice((0, 99))}; {CPUS} = 99; GPUs = 0 ]"))
    return Case(
        lrms,
        maker.site(lrms),
        tuple(job),
        tuple(clause.replace("other.", word) for clause in maker.clauses()),
        tuple(maker.node(number, least) for number in range(chance.randint(1, 8))),
        inventory,
        chance.choice(("necessary", "necessary", "sufficient", "exact")),
    )


def smaller(case: Case) -> Iterator[Case]:
    for at in range(len(case.nodes)):
        yield attrs.evolve(case, nodes=case.nodes[:at] + case.nodes[at + 1 :])
    for at in range(len(case.clauses)):
        yield attrs.evolve(case, clauses=case.clauses[:at] + case.clauses[at + 1 :])
    for at in range(len(case.job)):
        yield attrs.evolve(case, job=case.job[:at] + case.job[at + 1 :])
    for at, node in enumerate(case.nodes):
        facts = [fact for fact in node if fact[0] != "Requirements"]
        if len(facts) < len(node):
            nodes = (*case.nodes[:at], tuple(facts), *case.nodes[at + 1 :])
            yield attrs.evolve(case, nodes=nodes)


# --- what is right --------------------------------------------------------------------------------


@cache
def mapping(lrms: str, text: str) -> Mapping:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "site.toml"
        path.write_text(text, encoding="utf-8")
        return batch.load_mapping(lrms, path)


def ad(facts: Iterable[tuple[str, str]]) -> ClassAd:
    return parse_ad("[" + "; ".join(f"{name} = {value}" for name, value in facts) + "]")


def has_room(job: ClassAd, node: ClassAd, table: Mapping) -> bool:
    """Whether a node has what a job requests, as far as it says how much it has.

    Of a share for each processor, all have as much as the largest.
    """
    memory, slots = table.requests.get("memory"), job.eval("RequestCpus")
    shared = memory is not None and memory.per_cpu and "cpus" in table.requests
    for request, attribute in (("RequestMemory", RAM), ("RequestCpus", CPUS),
                               ("RequestDisk", "Disk"), ("RequestGPUs", "GPUs")):  # fmt: skip
        wanted, has = job.eval(request), node.eval(attribute)
        if shared and attribute == RAM and isinstance(wanted, int) and isinstance(slots, int):
            wanted = -(-wanted // max(1, slots)) * max(1, slots)
        if isinstance(wanted, int) and isinstance(has, int) and wanted > max(has, 0):
            return False
    return True


def judge(case: Case) -> str | None:
    table = mapping(case.lrms, case.mapping)
    job = ad(case.job)
    requirement = conjunction([parse_expr(clause) for clause in case.clauses])
    job["Requirements"] = requirement
    nodes = [ad(node) for node in case.nodes]
    reduction = reduce(job, ClassAd(), lambda name: "host")
    fit = [
        truth(requirement.eval(job, node)) is True and has_room(job, node, table) for node in nodes
    ]
    willing = [
        "Requirements" not in node or truth(node.eval("Requirements", target=job)) is True
        for node in nodes
    ]
    good = [a and b for a, b in zip(fit, willing, strict=True)] if case.inventory else fit
    try:
        made = batch.flags(
            reduction, case.lrms, table, nodes if case.inventory else None, Fit(case.want)
        )
    except NoHostError as error:
        return f"no host: {error}, but {good}" if any(good) else None
    except NoFlagsError:
        return "refused" if case.want == "necessary" else None
    selected = [selects(table, made, node, job) for node in nodes]
    if case.lrms == "htcondor" and case.inventory:
        # It looks at the machine's requirements itself.
        selected = [a and b for a, b in zip(selected, willing, strict=True)]
    about = f"selected {selected}, right is {good}: {made}"
    wrong = unsafe(made, table)
    if wrong:
        return f"{wrong}: {about}"
    if made.verdict is Fit.EXACT and selected != good:
        return f"not exact: {about}"
    if made.verdict is Fit.SUFFICIENT and any(
        s and not g for s, g in zip(selected, good, strict=True)
    ):
        return f"not sufficient: {about}"
    if made.verdict is Fit.NECESSARY:
        if not case.inventory and any(g and not s for s, g in zip(selected, good, strict=True)):
            return f"not necessary: {about}"
        again = [
            made.recheck is None or truth(made.recheck.eval(job, node)) is True for node in nodes
        ]
        both = [a and b for a, b in zip(selected, again, strict=True)]
        allowed = [g or not w for g, w in zip(good, willing, strict=True)]
        if any(b and not a for a, b in zip(allowed, both, strict=True)):
            return f"what is dropped is not checked again: {about}"
    if case.inventory:
        certificate = made.certificate
        assert certificate is not None
        names = [str(node.eval("Name")) for node in nodes]
        facts = list(zip(names, selected, good, strict=True))
        if set(certificate.wrongly_included) < {n for n, s, g in facts if s and not g}:
            return f"the certificate hides a node: {about}"
        if certificate.accepted != sum(good):
            return f"the certificate counts {certificate.accepted}: {about}"
    return None


# --- what flags select ----------------------------------------------------------------------------

_FLAGS: Final = {"memory": "RequestMemory", "cpus": "RequestCpus", "disk": "RequestDisk",
                 "gpus": "RequestGPUs"}  # fmt: skip


def selects(table: Mapping, made: Submission, node: ClassAd, job: ClassAd) -> bool:
    """Whether a batch system runs a job with such flags on a node."""
    asked = ClassAd({name: job[name] for known, name in _FLAGS.items()
                     if known in table.requests and name in job})  # fmt: skip
    if not has_room(asked, node, table):
        return False
    words = list(made.argv if made.command else made.directives)
    return SELECTS[table.lrms](words, node, job, carried(table, node))


def carried(table: Mapping, node: ClassAd) -> dict[str, set[str]]:
    """The features of a node by its attributes, as the site gives them out."""
    found: dict[str, set[str]] = {}
    for rule in table.rules.values():
        value = node.eval(rule.attribute)
        if rule.kind == "bucket" and isinstance(value, int):
            names = {name for name, (low, high) in rule.buckets.items() if low <= value <= high}
        elif rule.kind == "bool":
            names = {rule.features["true"]} if value is True else set()
        else:
            texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
            folded = {ascii_fold(text) for text in texts if isinstance(text, str)}
            names = {name for text, name in rule.features.items() if ascii_fold(text) in folded}
        found[rule.attribute] = names
    return found


Carried = dict[str, set[str]]


def number(node: ClassAd, name: str) -> int:
    found = node.eval(name)
    assert isinstance(found, int)
    return found


_LEAST: Final = {"--mincpus": CPUS, "--cpus-per-task": CPUS, "--far": "Far", "--load": "Load"}


def slurm(argv: list[str], node: ClassAd, job: ClassAd, features: Carried) -> bool:
    every = set().union(*features.values()) if features else set()
    given = dict(word.split("=", 1) for word in argv)
    assert len(given) == len(argv), "an option twice"
    for option, value in given.items():
        if option == "--mem":
            assert re.fullmatch("[0-9]+[MG]", value)
            if number(node, RAM) < int(value[:-1]) * (2 if value[-1] == "G" else 1):
                return False
        elif option == "--mem-per-cpu":
            assert "--mem" not in given, "what Slurm takes one of"
            several = max(int(given.get(name, 1)) for name in ("--cpus-per-task", "--mincpus"))
            if number(node, RAM) < int(value.removesuffix("M")) * several:
                return False
        elif option in _LEAST:
            if number(node, _LEAST[option]) < int(value):
                return False
        elif option == "--constraint":
            if not _constrained(value, every):
                return False
        elif option == "--exclude":
            if str(node.eval("Name")) in value.split(","):
                return False
        elif option == "--gres":
            *types, many = value.removeprefix("gpu:").split(":")
            known = {name for names in features.values() for name in names}
            if number(node, "GPUs") < int(many) or not set(types) <= known:
                return False
        else:
            assert option in (
                "--tmp", "--time", "--qos", "--account", "--time-min",
                "--nice", "--job-name", "--partition",
            ), option  # fmt: skip
    return True


def _constrained(text: str, features: set[str]) -> bool:
    """Features with & or |; parentheses of one level, around the other of the two."""

    def flat(inner: str) -> bool:
        assert not {"&", "|"} <= set(inner), text
        test = all if "|" not in inner else any
        return test(each in {*features, "1"} for each in re.split("[&|]", inner))

    assert re.fullmatch(r"[a-z0-9&|()]+", text), text
    outer = re.sub(r"\(([a-z0-9&|]+)\)", lambda match: "1" if flat(match.group(1)) else "0", text)
    return flat(outer)


def sge(argv: list[str], node: ClassAd, job: ClassAd, features: Carried) -> bool:
    assert argv[::2] == ["-l"] * (len(argv) // 2)
    pairs = [pair.partition("=")[::2] for word in argv[1::2] for pair in word.split(",")]
    assert len(dict(pairs)) == len(pairs), "a complex twice"
    return all(_complex(name, value, node, features) for name, value in pairs)


def _complex(name: str, value: str, node: ClassAd, features: Carried) -> bool:
    if name in ("mem_total", "virtual_total"):
        return number(node, RAM) >= int(value.removesuffix("M"))
    if name == "num_proc":
        return number(node, CPUS) == int(value)
    if name in ("h_vmem", "h_rt"):
        return True
    own = {"hostname": {str(node.eval("Name"))}, "os": features.get(OS, set()),
           "si": features.get(SI00, set())}  # fmt: skip
    if name in own:
        assert re.fullmatch(r"!?(\([a-z0-9|.*]+\)|[a-z0-9.*]+)|[a-z0-9|]+", value), value
        listed = set(value.strip("!()").split("|"))
        if not own[name] and name == "si":
            return False
        return (not listed.isdisjoint(own[name])) != value.startswith("!")
    assert value == "TRUE", value
    return any(name in names for names in features.values())


def pbspro(argv: list[str], node: ClassAd, job: ClassAd, features: Carried) -> bool:
    assert argv[::2] == ["-l"] * (len(argv) // 2)
    facts: dict[str, object] = {name: True for names in features.values() for name in names}
    facts |= {"mem": number(node, RAM), "ncpus": number(node, CPUS), "ngpus": 999}
    # Room for what the job requests has been looked at.
    chunks = [word for word in argv[1::2] if not word.startswith("walltime=")]
    return all(languages.pbspro(word, facts) for word in chunks)


def torque(argv: list[str], node: ClassAd, job: ClassAd, features: Carried) -> bool:
    every = set().union(*features.values()) if features else set()
    assert argv[::2] == ["-l"] * (len(argv) // 2)
    for word in argv[1::2]:
        name, _, value = word.partition("=")
        slots = re.search(r":ppn=([0-9]+)", " ".join(argv)) if name == "pmem" else None
        size = languages.kilobytes(value) if name in ("mem", "pmem") else 0
        if size and size * (int(slots[1]) if slots else 1) > number(node, RAM) * 1024:
            return False
        if name == "nodes" and not languages.torque(
            re.sub(r":gpus=[0-9]+", "", word), every, number(node, CPUS)
        ):
            return False
    return True


def lsf(argv: list[str], node: ClassAd, job: ClassAd, features: Carried) -> bool:
    facts: dict[str, float] = {name: 1 for names in features.values() for name in names}
    facts |= {"maxmem": number(node, RAM), "ncpus": number(node, CPUS), "maxswp": 0}
    words = iter(argv)
    for option in words:
        value = next(words)
        if option == "-m":
            if str(node.eval("Name")) not in value.split(" "):
                return False
        elif option == "-R" and value.startswith("select["):
            if not languages.lsf(value, facts):
                return False
        else:
            assert option in ("-R", "-n", "-gpu", "-W"), option
    return True


_LINE: Final = re.compile(r"(requirements|request_(?:memory|cpus|disk|gpus)) = (.*)", re.DOTALL)


def htcondor(argv: list[str], node: ClassAd, job: ClassAd, features: Carried) -> bool:
    machine = ClassAd((name, value) for name, value in node.items() if name not in (RAM, CPUS))
    machine.update({"DetectedMemory": node[RAM], "DetectedCpus": node[CPUS]})
    assert argv[::2] == ["-append"] * (len(argv) // 2)
    for line in argv[1::2]:
        match = _LINE.fullmatch(line)
        assert match is not None, line
        assert line.isprintable(), line
        if match[1] == "requirements":
            (read,) = parse_ads(f"R = {match[2].replace('$(DOLLAR)', '$')}\n", format="old")
            if truth(read.expr("R").eval(job, machine)) is not True:
                return False
    return True


_SUFFIXES: Final = {">=": "_Min", "<=": "_Max", "==": ""}


def blah(lines: list[str], node: ClassAd, job: ClassAd, features: Carried) -> bool:
    """The leaves of what BLAH is given, each a bound whatever stands around it.

    A site knows no more than the variable of a bound, so that it reads ``A_Min`` as the least A.
    """
    known: set[str] = set()
    for line in lines:
        text = line.removeprefix("CERequirements = ")
        value = parse_expr(text).eval()
        assert isinstance(value, str)
        for leaf in conjuncts(parse_expr(value)):
            assert isinstance(leaf, (Binary, Call)), leaf
            if isinstance(leaf, Binary):
                assert isinstance(leaf.right, Literal), leaf
                assert isinstance(leaf.left, Attr), leaf
                variable = leaf.left.name + _SUFFIXES[leaf.operator]
                assert variable not in known | {"UID", "IFS"}, leaf
                assert not leaf.left.name.endswith(("_Min", "_Max")), leaf
                known.add(variable)
            if truth(leaf.eval(target=node)) is not True:
                return False
    return True


def kubernetes(lines: list[str], node: ClassAd, job: ClassAd, features: Carried) -> bool:
    """Features are keys of labels."""
    labels = {name: "x" for names in features.values() for name in names}
    labels |= {"kubernetes.io/hostname": str(node.eval("Name")), "ram": str(number(node, RAM))}
    assert len(lines) <= 1
    return all(languages.kubernetes(line, labels) for line in lines)


def by_entry(lrms: str) -> Callable[[list[str], ClassAd, ClassAd, Carried], bool]:
    """The judge of a system's entry in the table of expectations."""
    judges = EXPECTED[lrms].selects
    assert judges is not None

    def selects(argv: list[str], node: ClassAd, job: ClassAd, features: Carried) -> bool:
        return judges(argv, node, set().union(*features.values()))

    return selects


OWN: Final = {"slurm": slurm, "sge": sge, "pbspro": pbspro, "torque": torque, "lsf": lsf,
              "htcondor": htcondor, "blah": blah, "kubernetes": kubernetes}  # fmt: skip
SELECTS: Final = OWN | {lrms: by_entry(lrms) for lrms in EXPECTED if EXPECTED[lrms].selects}

SAFE: Final = {lrms: known.safe for lrms, known in EXPECTED.items() if known.safe}


def unsafe(made: Submission, table: Mapping) -> str | None:
    """What is wrong with the words themselves and with the lines of a job script."""
    for line in made.lines:
        if not re.fullmatch(r"export ACCOUNT=[A-Za-z0-9][A-Za-z0-9._@/-]*", line, re.ASCII):
            return f"the line {line!r}"
    pattern = SAFE.get(table.lrms)
    if pattern is None:
        return None
    for word in made.argv:
        if not re.fullmatch(pattern, word, re.ASCII):
            return f"the word {word!r}"
    prefix = table.directive.replace("{flag}", "")
    words = [word for line in made.directives for word in shlex.split(line.removeprefix(prefix))]
    prefixed = all(line.startswith(prefix) for line in made.directives)
    if words != list(made.argv[len(table.submit) - 1 :]) or not prefixed:
        return "directives that are other than the arguments"
    return None


ATTACK: Final = Attack("flags", make, judge, smaller, nightly=100_000, smoke=150)

if __name__ == "__main__":
    sys.exit(main(ATTACK))
