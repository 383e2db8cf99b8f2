"""What our flags select on a real Slurm controller, against what the residual accepts."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from matchmaker import ClassAd, Expr, batch, broker, glue, parse_ad, parse_expr, read_ads, reduce
from matchmaker.batch import Fit, NoFlagsError, NoHostError, Submission
from matchmaker.batch.backwards import with_attributes
from matchmaker.batch.check import check
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


# --- partitions with different nodes --------------------------------------------------------------

PARTED = [
    SlurmNode("p1", 4, 2000, features=("el8",), partitions=("main",)),
    SlurmNode("p2", 8, 4000, features=("el9",), gres="gpu:v100:1", partitions=("main", "gpu")),
    SlurmNode("p3", 8, 8000, features=("el9",), gres="gpu:a100:2", partitions=("gpu",)),
    SlurmNode("p4", 2, 1000, features=("el8",), partitions=("small",)),
    SlurmNode("p5", 2, 3000, features=("el9",), partitions=("small", "main")),
]
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
memory = { flag = "--mem-per-cpu={value}M", per_cpu = true }
cpus = { value = "MY.Cores / MY.Threads", flag = "--cpus-per-task={value}" }
[flags]
gpu = ["--gres=gpu:{model}:{gpus}", "--gres=gpu:{gpus}", "--gres=gpu:{model}:1"]
"""
# How many random jobs, and which; `make nightly` tries more.
JOBS = int(os.environ.get("FLAG_JOBS", "60"))


def of_partitions(chance: random.Random) -> tuple[ClassAd, Expr]:
    """A job, and what a host must be or have for it."""
    wanted = [
        f"{RAM} >= {chance.choice((500, 1500, 3500, 6000))}",
        f"{CPUS} {chance.choice(('>=', '<='))} {chance.choice((2, 4, 8))}",
        f'other.GlueHostOperatingSystemRelease == "{chance.choice("89")}"',
        f'other.GPUModel {chance.choice(("==", "!="))} "{chance.choice(("a100", "v100"))}"',
    ]
    clauses = chance.sample(wanted, chance.randint(1, 3))
    job = parse_ad(f"[ Requirements = {' && '.join(clauses)} ]")
    several = 1
    if chance.random() < 0.5:
        several = chance.choice((1, 2, 4))
        job["Cores"], job["Threads"] = 2 * several, 2
        clauses.append(f"{CPUS} >= {several}")
    if chance.random() < 0.3:
        job["RequestMemory"] = memory = chance.choice((500, 2001, 4000))
        # Each processor has as much.
        clauses.append(f"{RAM} >= {-(-memory // several) * several}")
    if chance.random() < 0.3:
        job["RequestGPUs"] = gpus = chance.randint(1, 2)
        clauses.append(f"other.GPUs >= {gpus}")
    return job, parse_expr(" && ".join(clauses))


def test_no_exact_is_refused_where_partitions_have_different_nodes(
    slurm: Start, tmp_path: Path
) -> None:
    """Flags for a queue are flags for its nodes: Slurm has a node for each *exact*."""
    controller = slurm(PARTED)
    path = tmp_path / "site.toml"
    path.write_text(OF_PARTITIONS)
    table = batch.load_mapping("slurm", path)
    described = batch.describe("slurm", lambda argv: asked(controller, argv)).nodes
    nodes, issues = with_attributes(described, table)
    assert not issues
    assert not check(table, nodes)
    queues = broker.of_nodes(nodes)
    chance = random.Random(os.environ.get("FLAG_SEED") or 8)
    exact = refused = 0
    for _ in range(JOBS):
        job, condition = of_partitions(chance)
        queue = chance.choice(("main", "gpu", "small", None))
        found = broker.route(job, queues, broker.Hosts(nodes=nodes, mapping=table), queue=queue)
        good = accepted(condition, nodes)
        named = {node.name for node in PARTED if node.name in good}
        if queue is not None:
            named &= {node.name for node in PARTED if queue in node.partitions}
        if found.submission is None:
            assert isinstance(found.failure, NoHostError) or found.queue is None, job
            assert not named, job
            refused += 1
            continue
        assert found.queue is not None
        argv, taken = found.submission.argv, found.queue.name
        assert f"--partition={taken}" in argv
        members = {node.name for node in PARTED if taken in node.partitions}
        selected = {name for name in members if controller.accepts(name, argv)}
        if found.submission.verdict is Fit.EXACT:
            exact += 1
            assert selected == good & members, (job, found.submission)
            assert selected, (job, found.submission)
        else:
            assert selected >= good & members, (job, found.submission)
    assert exact > JOBS / 6
    assert refused > JOBS / 12


LIMITS = {"main": 120, "small": 30, "gpu": 1440}


def test_no_flags_ask_for_more_time_than_a_partition_allows(slurm: Start) -> None:
    controller = slurm(PARTED)
    for name, minutes in LIMITS.items():
        asked(controller, ("scontrol", "update", f"PartitionName={name}", f"MaxTime={minutes}"))
    site = batch.describe("slurm", lambda argv: asked(controller, argv))
    hosts = broker.Hosts(nodes=site.nodes, mapping=batch.load_mapping("slurm"))
    for minutes in (20, 30, 31, 120, 121, 1440, 1441):
        job = parse_ad(f"[ MaxWallTime = {minutes}; Requirements = {CPUS} >= 2 ]")
        allowing = {name for name in LIMITS if minutes <= LIMITS[name]}
        best = broker.route(job, site.queues, hosts).queue
        assert (best is None and not allowing) or (best is not None and best.name in allowing)
        for name in LIMITS:
            found = broker.route(job, site.queues, hosts, queue=name)
            assert (found.submission is not None) == (name in allowing), (minutes, name)
            if found.submission is None:
                assert isinstance(found.failure, NoHostError)
                assert f"MaxWallTime = {minutes}" in str(found.failure)
            else:
                assert found.submission.verdict is Fit.EXACT
                members = (node.name for node in PARTED if name in node.partitions)
                assert any(controller.accepts(node, found.submission.argv) for node in members)
