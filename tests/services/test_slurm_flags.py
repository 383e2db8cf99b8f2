"""What our flags select on a real Slurm controller, against what the residual accepts."""

from __future__ import annotations

import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import attrs
import pytest

from matchmaker import ClassAd, Expr, batch, broker, glue, parse_ad, parse_expr, read_ads, reduce
from matchmaker.batch import Fit, NoFlagsError, NoHostError, NotTakenError, Submission
from matchmaker.batch.check import check, with_attributes
from matchmaker.classad.operators import truth
from tests.batch.farm import CPUS, RAM, SI00, TAGS, random_nodes
from tests.services.slurm import SlurmNode, SlurmOracle
from tests.services.test_description import asked

pytestmark = pytest.mark.service

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

Start = Callable[[Iterable[SlurmNode]], SlurmOracle]

MAPPING = """
[attributes.GlueHostApplicationSoftwareRunTimeEnvironment]
kind = "member"
features = { "GLITE_1_2" = "glite12", "GLITE_1_4" = "glite14", "APP1" = "app1", "APP2" = "app2" }

[attributes.GlueHostOperatingSystemRelease]
kind = "eq"
features = { "3.0.5" = "el305", "4.0" = "el40", "4.8" = "el48", "5.2" = "el52" }
"""

# Speeds as features, of which a node without a speed has none.
BUCKETS = """
[attributes.GlueHostBenchmarkSI00]
kind = "bucket"
buckets = { si400 = [400, 499], si500 = [500, 599], si600 = [600, inf] }
complete = true
"""
SPEEDS = {400: "si400", 500: "si500", 501: "si500", 620: "si600"}
FEATURES = {"GLITE_1_2": "glite12", "GLITE_1_4": "glite14", "APP1": "app1", "APP2": "app2"}


def slurm_node(ad: ClassAd, features: Iterable[str]) -> SlurmNode:
    name, cpus, memory = (
        ad.eval(a) for a in ("Name", "GlueHostArchitectureSMPSize", "GlueHostMainMemoryRAMSize")
    )
    assert isinstance(name, str)
    assert isinstance(cpus, int)
    assert isinstance(memory, int)
    return SlurmNode(name, cpus, memory, features=tuple(features))


def tags(ad: ClassAd) -> list[str]:
    found = ad.eval("GlueHostApplicationSoftwareRunTimeEnvironment")
    return [FEATURES[tag] for tag in found if tag in FEATURES] if isinstance(found, list) else []


def speed(ad: ClassAd) -> list[str]:
    found = ad.eval("GlueHostBenchmarkSI00")
    return [SPEEDS[found]] if isinstance(found, int) else []


NODES = random_nodes(2005, 14, tags=[*FEATURES], speeds=[400, 500, 501, 620, "fast", None])


@pytest.fixture(scope="module")
def oracle(slurm: Start) -> SlurmOracle:
    return slurm([slurm_node(ad, [*tags(ad), *speed(ad)]) for ad in NODES])


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site.toml"
    path.write_text(MAPPING)
    return path


def accepted(residual: Expr, ads: Iterable[ClassAd] = NODES) -> set[str]:
    return {str(ad.eval("Name")) for ad in ads if truth(residual.eval(target=ad)) is True}


def planned(
    requirement: str,
    site: Path | None,
    nodes: list[ClassAd] | None = None,
    want: Fit = Fit.NECESSARY,
) -> tuple[Submission | None, Expr]:
    reduction = reduce(ClassAd({"Requirements": parse_expr(requirement)}), ClassAd(), glue.scope)
    try:
        made = batch.flags(reduction, "slurm", site, nodes, want)
    except NoHostError:
        return None, reduction.residual
    return made, reduction.residual


def hold(
    oracle: SlurmOracle, requirement: str, site: Path | None, nodes: list[ClassAd] | None = None
) -> None:
    """Check that Slurm selects what the verdict says, of the nodes of an inventory if given."""
    submission, residual = planned(requirement, site, nodes)
    of_queue = NODES if nodes is None else nodes
    wanted = accepted(residual, of_queue)
    if submission is None:
        assert not wanted
        return
    selected = oracle.selected(submission.argv) & {str(ad.eval("Name")) for ad in of_queue}
    about = f"{requirement}: {submission}"
    if submission.verdict is Fit.EXACT:
        assert selected == wanted, about
    elif submission.verdict is Fit.NECESSARY:
        assert selected >= wanted, about
    else:
        assert selected <= wanted, about


def condition(chance: random.Random) -> str:
    kind = chance.randrange(7)
    if kind < 2:
        bound = chance.choice([0, 511, 512, 1000, 1023.5, 1024, 2047, 2048, 4096, 4097])
        return f"{RAM} {chance.choice(['>', '>=', '>=', '<', '<=', '==', '!='])} {bound}"
    if kind < 4:
        relation = chance.choice([">", ">", ">=", ">=", "<", "==", "is"])
        return f"{CPUS} {relation} {chance.choice([0, 1, 2, 4, 8])}"
    if kind == 4:
        return f"{SI00} {chance.choice(['>', '>=', '<', '!='])} {chance.choice([400, 500, 620])}"
    tag = chance.choice(sorted(FEATURES))
    return f'{chance.choice(["", "", "!"])}member("{tag}", {TAGS})'


def requirement(seed: int) -> str:
    """A conjunction; here and there an alternative, a negation or a ternary of conditions."""
    chance = random.Random(seed)
    clauses = []
    for _ in range(chance.randint(1, 2)):
        shape = chance.randrange(10)
        a, b, c = (condition(chance) for _ in range(3))
        clauses.append(
            f"({a} || {b})" if shape == 0 else
            f"!({a} && {b})" if shape == 1 else
            f"({a} ? {b} : {c})" if shape == 2 else
            f"!({a})" if shape == 3 else a
        )  # fmt: skip
    return " && ".join(clauses)


@pytest.mark.parametrize("chunk", range(6))
def test_flags_select_what_the_verdict_says(oracle: SlurmOracle, site: Path, chunk: int) -> None:
    for seed in range(25 * chunk, 25 * (chunk + 1)):
        hold(oracle, requirement(seed), site)


@pytest.mark.parametrize("chunk", range(4))
def test_flags_for_an_inventory_select_exactly(oracle: SlurmOracle, site: Path, chunk: int) -> None:
    chance = random.Random(chunk)
    for seed in range(200 + 25 * chunk, 225 + 25 * chunk):
        nodes = chance.sample(NODES, chance.randint(1, len(NODES)))
        submission, _ = planned(requirement(seed), site, nodes)
        assert submission is None or submission.verdict is Fit.EXACT
        hold(oracle, requirement(seed), site, nodes)


@pytest.mark.parametrize("seed", range(300, 340))
def test_flags_that_make_sure_select_accepted_nodes_only(
    oracle: SlurmOracle, site: Path, seed: int
) -> None:
    text = f"({requirement(seed)}) || {RAM} > 1000 || {CPUS} >= 8"
    try:
        submission, residual = planned(text, site, want=Fit.SUFFICIENT)
    except NoFlagsError:
        # There are none only where no alternative can be asked for as it is.
        plain, _ = planned(requirement(seed), site)
        assert plain is None or plain.verdict is not Fit.EXACT
        return
    assert submission is not None
    assert oracle.selected(submission.argv) <= accepted(residual)


@pytest.fixture
def buckets(tmp_path: Path) -> Path:
    path = tmp_path / "buckets.toml"
    path.write_text(MAPPING + BUCKETS)
    return path


def alternatives(seed: int) -> str:
    """Features in every arrangement: alternatives of conjunctions, and conjunctions of these."""
    chance = random.Random(seed)

    def feature() -> str:
        if chance.random() < 0.4:
            return f"{SI00} {chance.choice(['>=', '<'])} {chance.choice([500, 600])}"
        return f'member("{chance.choice(sorted(FEATURES))}", {TAGS})'

    def tree(depth: int) -> str:
        if not depth:
            return feature()
        word = chance.choice([" && ", " || "])
        return "(" + word.join(tree(depth - 1) for _ in range(2)) + ")"

    return " && ".join(tree(chance.randint(1, 2)) for _ in range(chance.randint(1, 2)))


def test_alternatives_of_features_are_exact(oracle: SlurmOracle, buckets: Path) -> None:
    # Only nodes whose speed is a number or missing: a text would be another feature's to tell.
    typed = {str(ad.eval("Name")) for ad in NODES if ad.eval("GlueHostBenchmarkSI00") != "fast"}
    exact = 0
    for seed in range(40):
        text = alternatives(seed)
        submission, residual = planned(text, buckets)
        wanted = accepted(residual) & typed
        if submission is None:
            assert not wanted
            continue
        selected = oracle.selected(submission.argv) & typed
        about = (text, submission.argv, submission.dropped)
        if submission.verdict is Fit.EXACT:
            exact += 1
            assert selected == wanted, about
        else:
            assert selected >= wanted, about
    assert exact >= 30


def test_random_requirements_are_of_every_verdict(site: Path) -> None:
    made = [planned(requirement(seed), site)[0] for seed in range(24)]
    fits = [submission.verdict for submission in made if submission is not None]
    assert fits.count(Fit.EXACT) >= 4
    assert fits.count(Fit.NECESSARY) >= 4


@pytest.mark.parametrize(
    "text",
    [
        f"{RAM} > 1000 && {RAM} >= 1024 && {CPUS} > 1",
        f"!({RAM} < 2048)",
        f"{RAM} >= 1023.5",
        f"{RAM} >= 0 && {CPUS} >= 0",
        f'member("GLITE_1_2", {TAGS}) && member("APP1", {TAGS}) && member("APP2", {TAGS})',
        f'member("GLITE_1_2", {TAGS}) && {RAM} > 512 && {CPUS} >= 2',
    ],
)
def test_what_slurm_can_be_asked_is_exact(oracle: SlurmOracle, site: Path, text: str) -> None:
    submission, _ = planned(text, site)
    assert submission is not None
    assert submission.verdict is Fit.EXACT
    hold(oracle, text, site)


@pytest.mark.parametrize(
    "text",
    [
        f"{CPUS} >= 65536",
        f"{CPUS} >= 65537",
        f"{CPUS} >= 4294967297",
        f"{RAM} >= 4294967297",
        f"{RAM} >= 9007199254740993",
        f"{RAM} >= 9223372036854775000",
    ],
)
def test_sizes_beyond_what_slurm_can_count_select_no_node(oracle: SlurmOracle, text: str) -> None:
    # Numbers that wrap round in the controller would ask for less than was wanted; where the
    # controller cannot be asked, the clause is dropped and the verdict says so.
    hold(oracle, text, None)


# --- the examples ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def example_nodes() -> list[ClassAd]:
    return list(read_ads(EXAMPLES / "nodes.ad"))


@pytest.fixture(scope="module")
def farm(slurm: Start, example_nodes: list[ClassAd]) -> SlurmOracle:
    def release(ad: ClassAd) -> str:
        return "el" + str(ad.eval("GlueHostOperatingSystemRelease")).replace(".", "")

    return slurm(slurm_node(ad, [*tags(ad), release(ad)]) for ad in example_nodes)


def test_the_demos_job_on_the_demos_nodes(
    farm: SlurmOracle, example_nodes: list[ClassAd], site: Path
) -> None:
    job = parse_ad((EXAMPLES / "job.jdl").read_text())
    chosen = broker.choose(job, glue.read_ldif(EXAMPLES / "site.ldif")).chosen
    assert chosen is not None
    reduction = reduce(job, chosen.ad, glue.scope)
    wanted = accepted(reduction.residual, example_nodes)
    assert len(wanted) == 22

    named = batch.flags(reduction, "slurm", None, example_nodes)
    assert named.verdict is Fit.EXACT
    assert farm.selected(named.argv) == wanted

    # Without the inventory, SI00 cannot be asked for, and the tag only through the site's mapping.
    plain = batch.flags(reduction, "slurm", None)
    tagged = batch.flags(reduction, "slurm", site)
    assert plain.verdict is tagged.verdict is Fit.NECESSARY
    assert "--constraint=glite12" in tagged.argv
    by_size, by_tag = farm.selected(plain.argv), farm.selected(tagged.argv)
    assert by_size > by_tag > wanted


def test_a_release_by_a_feature_of_the_site(
    farm: SlurmOracle, example_nodes: list[ClassAd], site: Path
) -> None:
    text = f'other.GlueHostOperatingSystemRelease == "4.8" && {RAM} > 2000'
    reduction = reduce(ClassAd({"Requirements": parse_expr(text)}), ClassAd(), glue.scope)
    submission = batch.flags(reduction, "slurm", site)
    assert submission.verdict is Fit.EXACT
    assert submission.argv == ("--mem=2001M", "--constraint=el48")
    assert farm.selected(submission.argv) == accepted(reduction.residual, example_nodes) != set()


# --- flags of several values ----------------------------------------------------------------------

GPUS = """
[attributes.GPUs]
kind = "min"
flag = "{gpus}"
[attributes.GpuType]
kind = "eq"
features = { "NVIDIA A100" = "a100", "Tesla V100" = "v100" }
term = "{type}"
[requests]
gpus = {}
wall = {}
TestJob = { kind = "present" }
JobName = { kind = "text", pattern = "[a-z0-9.]+", flag = "--job-name={value}" }
[flags]
gpu = ["--gres=gpu:{type}:{gpus}", "--gres=gpu:{gpus}", "--gres=gpu:{type}:1"]
time = ["--time={wall:hms}", "--time=24:00:00"]
share = [{ with = "TestJob", flag = "--oversubscribe" }, "--exclusive"]
queue = ["--partition={queue}", "--partition=main"]
"""
GPU_NODES = [
    parse_ad(
        f'[ Name = "g{at}"; GPUs = {many}; GpuType = "{kind}"; GlueHostMainMemoryRAMSize = 4000 ]'
    )
    for at, (kind, many) in enumerate(
        [("NVIDIA A100", 1), ("NVIDIA A100", 4), ("Tesla V100", 2), ("Tesla V100", 8), ("none", 0)]
    )
]


@pytest.fixture(scope="module")
def gpus(slurm: Start) -> SlurmOracle:
    names = {"NVIDIA A100": "a100", "Tesla V100": "v100"}

    def node(ad: ClassAd) -> SlurmNode:
        kind, many = str(ad.eval("GpuType")), ad.eval("GPUs")
        gres = f"gpu:{names[kind]}:{many}" if kind in names else None
        return SlurmNode(str(ad.eval("Name")), 4, 4000, gres=gres)

    return slurm([node(ad) for ad in GPU_NODES])


def gpu_condition(chance: random.Random) -> str:
    if chance.random() < 0.5:
        return f"other.GPUs {chance.choice(['>', '>=', '>=', '<', '=='])} {chance.randint(0, 5)}"
    kind = chance.choice(["NVIDIA A100", "tesla v100", "none", "H100"])
    return f'other.GpuType {chance.choice(["==", "==", "!="])} "{kind}"'


def test_types_and_numbers_of_gpus_in_one_flag(gpus: SlurmOracle, tmp_path: Path) -> None:
    site = tmp_path / "gpus.toml"
    site.write_text(GPUS)
    verdicts: list[Fit] = []
    for seed in range(60):
        chance = random.Random(seed)
        clauses = [gpu_condition(chance) for _ in range(chance.randint(0, 3))]
        job = ClassAd({"Requirements": parse_expr(" && ".join(clauses) or "true")})
        if chance.random() < 0.4:
            job["RequestGPUs"] = chance.randint(1, 4)
        if chance.random() < 0.5:
            job["TestJob"] = True
        if chance.random() < 0.5:
            job["MaxWallTime"] = chance.randint(1, 3000)
        job["JobName"] = chance.choice(["job.7", "x; id", "$(id)"])
        reduction = reduce(job, ClassAd(), lambda name: "host")
        queue = chance.choice(["main", ""])
        try:
            made = batch.flags(reduction, "slurm", site, queue=queue)
        except NoHostError:
            assert not accepted(reduction.residual, GPU_NODES)
            continue
        wanted = accepted(made.condition, GPU_NODES)
        selected = gpus.selected(made.argv)
        names = [word for word in made.argv if word.startswith("--job-name")]
        assert names == (["--job-name=job.7"] if job.eval("JobName") == "job.7" else [])
        # What else is dropped than the name decides whether the hosts are exact.
        exact = all(str(dropped.clause) == "JobName" for dropped in made.dropped)
        verdicts.append(Fit.EXACT if exact else Fit.NECESSARY)
        assert selected == wanted if exact else selected >= wanted, (seed, made)
        again = made.recheck
        for ad in GPU_NODES:
            if ad.eval("Name") in selected and again is not None and not exact:
                right = truth(again.eval(job, ad)) is True
                assert right == (ad.eval("Name") in wanted), (seed, made)
    assert verdicts.count(Fit.EXACT) >= 10
    assert verdicts.count(Fit.NECESSARY) >= 10


# --- partitions with different nodes and limits ---------------------------------------------------

PARTED = [
    SlurmNode("p1", 4, 2000, features=("el8",), partitions=("main",)),
    SlurmNode("p2", 8, 4000, features=("el9",), gres="gpu:v100:1", partitions=("main", "gpu")),
    SlurmNode("p3", 8, 8000, features=("el9",), gres="gpu:a100:2", partitions=("gpu",)),
    SlurmNode("p4", 2, 1000, features=("el8",), partitions=("small",)),
    SlurmNode("p5", 2, 3000, features=("el9",), partitions=("small", "main")),
    SlurmNode("p6", 16, 16000, features=("el9",), partitions=("main",)),
    SlurmNode("p7", 16, 12000, features=("el8",), partitions=("part",)),
    SlurmNode("p8", 8, 8000, features=("el9",), partitions=("part", "closed")),
    SlurmNode("p9", 8, 6000, features=("el8",), partitions=("percpu",)),
]
DRAINED = "p6"


@attrs.frozen
class Limits:
    """What slurm.conf would say of a partition; the most by default."""

    minutes: int = 10**9
    cpus: int = 10**9
    memory: int = 10**9
    cpu_memory: int = 10**9
    state: str = "UP"

    def settings(self) -> list[str]:
        facts = {"MaxTime": self.minutes, "MaxCPUsPerNode": self.cpus,
                 "MaxMemPerNode": self.memory, "MaxMemPerCPU": self.cpu_memory}  # fmt: skip
        told = [f"{name}={most}" for name, most in facts.items() if most < 10**9]
        return [*told, f"State={self.state}"]


LIMITS = {
    "main": Limits(120),
    "gpu": Limits(1440),
    "small": Limits(30),
    "part": Limits(2880, cpus=4, memory=3000),
    "percpu": Limits(600, cpu_memory=500),
    "closed": Limits(state="DRAIN"),
}
"""The partitions; ``main`` is the default."""

OF_PARTITIONS = """
[attributes.GlueHostOperatingSystemRelease]
kind = "eq"
features = { "8" = "el8", "9" = "el9" }
[attributes.GPUModel]
kind = "eq"
values = ["a100", "v100"]
term = "{model}"
[requests]
gpus = {}
cpus = { value = "MY.Cores / MY.Threads", flag = "--cpus-per-task={value}" }
"""
TYPED = """
[flags]
gpu = ["--gres=gpu:{model}:{gpus}", "--gres=gpu:{gpus}", "--gres=gpu:{model}:1"]
"""
PER_CPU = """memory = { flag = "--mem-per-cpu={value}M", per_cpu = true }"""
# How a mapping may write the time: the package's way, by an expression, by another attribute as
# a text or as a time, and all jobs alike.
TIMES = {
    "usual": ("", TYPED),
    "computed": ("wall = { value = 'MY.Hours * 3600', flag = '--time={value}', unit = 60 }", TYPED),
    "text": ("Until = { kind = 'text', pattern = '[0-9-]+', flag = '--time={value}' }", TYPED),
    "time": ("Seconds = { kind = 'time', unit = 60, flag = '--time={value}' }", TYPED),
    "fixed": ("wall = {}", TYPED + "time = ['--time={wall:hms}', '--time=1:00:00']"),
}
# How many random jobs, and which; `make nightly` tries more.
JOBS = int(os.environ.get("FLAG_JOBS", "60"))


@attrs.frozen
class Drawn:
    """A random job, what a host must be or have for it, and what it asks of a partition."""

    job: ClassAd
    condition: Expr
    several: int
    memory: int
    minutes: int

    def fits(self, node: SlurmNode, partition: str, *, per_cpu: bool) -> bool:
        most = LIMITS[partition]
        each = -(-self.memory // self.several)
        memory = each * self.several if per_cpu else self.memory
        extra = (self.several * -(-each // most.cpu_memory) if per_cpu
                 else -(-memory // most.cpu_memory))  # fmt: skip
        return (
            most.state == "UP" and self.minutes <= most.minutes and self.several <= most.cpus
            and memory <= min(most.memory, node.memory_mb) and extra <= node.cpus
        )  # fmt: skip


def of_partitions(chance: random.Random, time: str) -> Drawn:
    wanted = [
        f"{RAM} >= {chance.choice((500, 1500, 1500, 3500, 6000, 9000))}",
        f"{CPUS} {chance.choice(('>=', '<='))} {chance.choice((2, 4, 8, 16))}",
        f'other.GlueHostOperatingSystemRelease == "{chance.choice("89")}"',
        f'other.GPUModel {chance.choice(("==", "!="))} "{chance.choice(("a100", "v100"))}"',
    ]
    clauses = chance.sample(wanted, chance.choice((1, 1, 1, 2)))
    job = parse_ad(f"[ Requirements = {' && '.join(clauses)} ]")
    several, memory, minutes = 1, 0, 60 if time == "fixed" else 0
    if chance.random() < 0.5:
        several = chance.choice((1, 2, 4, 5, 8))
        job["Cores"], job["Threads"] = 2 * several, 2
        clauses.append(f"{CPUS} >= {several}")
    if chance.random() < 0.4:
        job["RequestMemory"] = memory = chance.choice((500, 2001, 3000, 3001, 4000, 4001))
    if chance.random() < 0.2:
        job["RequestGPUs"] = gpus = chance.randint(1, 2)
        clauses.append(f"other.GPUs >= {gpus}")
    if chance.random() < 0.6:
        minutes = chance.choice((10, 30, 31, 60, 120, 121, 600, 1440, 1441, 2880, 3000))
        if time == "computed":
            job["Hours"] = minutes / 60
        elif time == "text":
            days = f"{minutes // 1440}-{minutes // 60 % 24}"
            job["Until"] = str(minutes) if minutes % 60 else days
        elif time == "time":
            job["Seconds"] = minutes * 60
        else:
            job["MaxWallTime"] = minutes
    return Drawn(job, parse_expr(" && ".join(clauses)), several, memory, minutes)


@pytest.fixture(scope="module")
def parted(slurm: Start) -> SlurmOracle:
    controller = slurm(PARTED)
    for name, limits in LIMITS.items():
        asked(controller, ("scontrol", "update", f"PartitionName={name}", *limits.settings()))
    drain = ("State=DRAIN", "Reason=test")
    asked(controller, ("scontrol", "update", f"NodeName={DRAINED}", *drain))
    return controller


def test_no_exact_is_refused_where_partitions_have_nodes_and_limits_of_their_own(
    parted: SlurmOracle, tmp_path: Path
) -> None:
    """Flags for a queue are for its nodes and within its limits: Slurm takes each *exact*."""
    site = batch.describe("slurm", lambda argv: asked(parted, argv))
    tables = {}
    for time, (request, forms) in TIMES.items():
        for per_cpu in (False, True):
            path = tmp_path / f"{time}{per_cpu}.toml"
            path.write_text(f"{OF_PARTITIONS}{request}\n{PER_CPU if per_cpu else ''}\n{forms}")
            tables[time, per_cpu] = batch.load_mapping("slurm", path)
    nodes, issues = with_attributes(site.nodes, tables["usual", False])
    assert not issues
    assert not check(tables["usual", False], nodes)
    queues = {"described": site.queues, "of nodes": broker.of_nodes(nodes)}
    chance = random.Random(os.environ.get("FLAG_SEED") or 8)
    counts = Counter[str]()
    for _ in range(JOBS):
        time, per_cpu = chance.choice(list(tables))
        drawn = of_partitions(chance, time)
        queue = chance.choice((*LIMITS, *[None] * len(LIMITS)))
        known = queues[chance.choice(list(queues))]
        # A queue that is named may be described without its nodes.
        bare = known is site.queues and queue is not None and chance.random() < 0.3
        hosts = broker.Hosts(nodes=None if bare else nodes, mapping=tables[time, per_cpu])
        found = broker.route(drawn.job, known, hosts, queue=queue)
        about = "\n".join(map(str, (
            time, per_cpu, drawn, drawn.job, queue, found.queue, found.submission, found.failure,
        )))  # fmt: skip
        good = accepted(drawn.condition, nodes)
        places = {
            name: {node.name for node in PARTED if node.name in good and name in node.partitions
                   and drawn.fits(node, name, per_cpu=per_cpu)}
            for name in LIMITS
        }  # fmt: skip
        now = {name: members - {DRAINED} for name, members in places.items()}
        if found.submission is None:
            counts["refused"] += 1
            assert isinstance(found.failure, NoHostError) or found.queue is None, about
            assert not any(places.values() if queue is None else [places[queue]]), about
            continue
        assert found.queue is not None
        argv, taken = found.submission.argv, found.queue.name
        assert f"--partition={taken}" in argv
        members = [node.name for node in PARTED if taken in node.partitions]
        selected = {
            name for name in members
            if parted.accepts(name, argv) and parted.takes(["-w", name, *argv]) is None
        }  # fmt: skip
        assert selected >= now[taken], about
        verdict = found.submission.verdict
        counts[f"{verdict} without nodes" if bare else str(verdict)] += 1
        if verdict is Fit.EXACT:
            # Slurm may take a share of memory for which the node has too few processors.
            assert selected == now[taken] or (bare and taken == "percpu"), about
            assert bare or selected, about
            assert bool(selected) <= (parted.takes(argv) is None), about
        if bare:
            continue
        assert found.submission.waits == (not now[taken]), about
        if queue is None:
            # The default partition comes first, then names decide.
            able = sorted((n for n in now if now[n] or (not any(now.values()) and places[n])),
                          key=lambda name: (name != "main", name))  # fmt: skip
            assert taken == able[0], about
    logging.getLogger(__name__).info("seed %s: %s", os.environ.get("FLAG_SEED") or 8, dict(counts))
    assert counts["exact"] > JOBS / 6
    assert counts["refused"] > JOBS / 12


def test_no_flags_ask_for_more_time_than_a_partition_allows(parted: SlurmOracle) -> None:
    site = batch.describe("slurm", lambda argv: asked(parted, argv))
    hosts = broker.Hosts(nodes=site.nodes, mapping=batch.load_mapping("slurm"))
    for minutes in (20, 30, 31, 120, 121, 600, 1440, 1441, 2880, 2881):
        job = parse_ad(f"[ MaxWallTime = {minutes}; Requirements = {CPUS} >= 2 ]")
        allowing = {name for name in LIMITS if minutes <= LIMITS[name].minutes} - {"closed"}
        for queues in (site.queues, broker.of_nodes(site.nodes)):
            best = broker.route(job, queues, hosts).queue
            assert (best is None and not allowing) or (best is not None and best.name in allowing)
            for name in LIMITS:
                found = broker.route(job, queues, hosts, queue=name)
                assert (found.submission is not None) == (name in allowing), (minutes, name)
                if found.submission is None:
                    assert isinstance(found.failure, NotTakenError)
                    closed = "the batch system takes no jobs" if name == "closed" else ""
                    assert (closed or f"MaxWallTime = {minutes}") in str(found.failure)
                else:
                    assert found.submission.verdict is Fit.EXACT
                    members = (node.name for node in PARTED if name in node.partitions)
                    assert any(parted.accepts(node, found.submission.argv) for node in members)


def test_a_drained_node_alone_is_no_place(parted: SlurmOracle) -> None:
    site = batch.describe("slurm", lambda argv: asked(parted, argv))
    hosts = broker.Hosts(nodes=site.nodes, mapping=batch.load_mapping("slurm"))
    job = parse_ad(f"[ Requirements = {RAM} >= 13000 ]")
    found = broker.route(job, site.queues, hosts).submission
    assert found is not None
    assert found.verdict is Fit.NECESSARY
    assert "no node that will do takes jobs now: p6" in found.dropped[-1].reason
    # Slurm keeps such a job until the node comes back, and can plan it nowhere.
    assert parted.takes(found.argv) is None
    assert not parted.accepts(DRAINED, found.argv)
    strict = broker.Hosts(nodes=site.nodes, mapping=hosts.mapping, want=Fit.EXACT)
    assert isinstance(broker.route(job, site.queues, strict).failure, NoFlagsError)
