"""Jobs with our flags on a real Slurm of three nodes: they land where the requirement is true."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from matchmaker import ClassAd, batch, glue, parse_expr, reduce
from matchmaker.batch import Fit
from matchmaker.batch.flags.render import directive, refusal
from matchmaker.batch.policy import carry, decoded, of_queued
from matchmaker.classad.operators import truth
from tests.batch.farm import CPUS, OS, RAM
from tests.services.daemons import ServiceUnavailable
from tests.services.slurm import Farm, SlurmNode, UsageError, farm

pytestmark = pytest.mark.service

NODES = [
    ClassAd({"Name": name, "GlueHostMainMemoryRAMSize": ram, "GlueHostArchitectureSMPSize": cpus,
             "GlueHostOperatingSystemName": system})
    for name, ram, cpus, system in (
        ("n1", 1000, 1, "SL"), ("n2", 2000, 2, "SL"), ("n3", 4000, 4, "Debian"),
    )
]  # fmt: skip

MAPPING = """
[attributes.GlueHostOperatingSystemName]
kind = "eq"
features = { SL = "sl", Debian = "deb" }
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Farm]:
    features = {"SL": ("sl",), "Debian": ("deb",)}
    nodes = []
    for ad in NODES:
        name, ram, cpus, system = (str(ad.eval(attribute)) for attribute in ad)
        nodes.append(SlurmNode(name, int(cpus), int(ram), features=features[system]))
    try:
        with farm(nodes) as made:
            yield made
    except ServiceUnavailable as error:
        pytest.skip(f"no Slurm here: {error}")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site.toml"
    path.write_text(MAPPING)
    return path


def planned(text: str, site: Path, *, nodes: bool = False) -> tuple[batch.Submission, set[str]]:
    made = reduce(ClassAd({"Requirements": parse_expr(text)}), ClassAd(), glue.scope)
    good = {str(ad.eval("Name")) for ad in NODES if truth(made.residual.eval(target=ad)) is True}
    return batch.flags(made, "slurm", site, NODES if nodes else None), good


@pytest.mark.parametrize(
    "text",
    [f"{RAM} > 1000 && {RAM} > 3000", f"{CPUS} >= 2", f'{OS} == "Debian"',
     f'{OS} == "SL" && {RAM} > 1500'],
)  # fmt: skip
def test_a_job_lands_on_a_node_that_satisfies_the_requirement(
    cluster: Farm, site: Path, text: str
) -> None:
    submission, good = planned(text, site)
    assert submission.verdict is Fit.EXACT
    assert cluster.submit(submission.argv, "echo $SLURMD_NODENAME").strip() in good


def test_jobs_for_an_inventory_land_on_its_good_nodes_alone(cluster: Farm, site: Path) -> None:
    chance = random.Random(3)
    for _ in range(4):
        text = f"{RAM} != {chance.choice([1000, 2000, 4000])} && {CPUS} < {chance.choice([3, 5])}"
        submission, good = planned(text, site, nodes=True)
        assert cluster.submit(submission.argv, "echo $SLURMD_NODENAME").strip() in good


def test_directives_in_the_script_do_the_same(cluster: Farm, site: Path) -> None:
    submission, good = planned(f"{RAM} > 3000", site)
    lines = "\n".join((*submission.directives, "echo $SLURMD_NODENAME"))
    assert cluster.submit([], lines).strip() in good == {"n3"}


@pytest.mark.parametrize(
    "text",
    [
        "other.GlueCEPolicyMaxCPUTime > 1000",
        r'other.GlueCEPolicyX == "\" Comment=classad1:AAAA \n#SBATCH --wrap=id $(id) é"',
        f'other.GlueCEPolicyX == "{"x" * 730}"',
    ],
)
def test_the_policy_is_read_back_from_a_queued_job(
    cluster: Farm, site: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    policy = parse_expr(text)
    submission, _ = planned(f"{RAM} > 3000", site)
    made = carry(submission, policy, batch.load_mapping("slurm"))
    job = cluster.queue(made.argv)
    for name, value in cluster.oracle.environment.items():
        monkeypatch.setenv(name, value)
    assert of_queued("slurm", job) is policy
    assert decoded(str(cluster.queued([], made.directives))) is policy


def test_a_refusal_is_a_line_that_no_job_is_taken_with(cluster: Farm) -> None:
    with pytest.raises(UsageError, match="refused-by-classad"):
        cluster.queued([], [refusal(batch.load_mapping("slurm"))])


def test_a_policy_that_slurm_would_not_take_is_refused(cluster: Farm) -> None:
    table = batch.load_mapping("slurm")
    assert cluster.queued([f"--comment={'x' * table.room}"])["Comment"] == "x" * table.room
    with pytest.raises(UsageError, match="too long"):
        cluster.queued([f"--comment={'x' * (table.room + 1)}"])
    long = parse_expr(f'other.GlueCEPolicyX == "{"x" * 800}"')
    made = batch.flags(reduce(ClassAd(), ClassAd(), glue.scope), "slurm")
    with pytest.raises(batch.NoFlagsError, match="room for 1024"):
        carry(made, long, table)


# --- job scripts and numbers ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "word", ["plain", "a b", "a  b", "a$b", "$(id)", "`id`", "a;b&c|d", "(a)[b]*!~", "-z", "<a>%j",
             "a'b", 'a"b', "a\\b", "a#b", " #x", "a\tb", "=x", "a,b", "é"],
)  # fmt: skip
def test_a_line_of_a_job_script_reads_back_as_the_argument_or_is_refused(
    cluster: Farm, word: str
) -> None:
    flag = (f"--comment={word}",)
    try:
        line = directive(flag, batch.load_mapping("slurm"))
    except batch.MappingError:
        assert set(word) & set("\"'\\#`$\t")
        return
    assert cluster.queued([], [line])["Comment"] == cluster.queued(flag)["Comment"] == word


@pytest.mark.parametrize(
    "text", [f"{RAM} > 3000", f'{OS} == "SL" || {OS} == "Debian"', f"{CPUS} != 2 && {RAM} != 1000"]
)
def test_the_lines_of_a_job_script_ask_for_the_same(cluster: Farm, site: Path, text: str) -> None:
    submission, _ = planned(text, site, nodes=True)
    names = ("MinMemoryNode", "MinCPUsNode", "Features", "ExcNodeList")
    one, other = cluster.queued(submission.argv), cluster.queued([], submission.directives)
    assert {n: one.get(n) for n in names} == {n: other.get(n) for n in names}
    assert one["MinMemoryNode"] != "1M" or one["ExcNodeList"] != "(null)" or "Features" in one


@pytest.mark.parametrize(
    ("asked", "fact", "kept"),
    [
        ({"wall": 60}, "TimeLimit", "00:01:00"),
        ({"wall": 61}, "TimeLimit", "00:02:00"),
        ({"wall": 35_000_000 * 60}, "TimeLimit", "24305-13:20:00"),
        ({"disk": 4_000_000_000}, "MinTmpDiskNode", "3906250G"),
        ({"memory": 4000}, "MinMemoryNode", "4000M"),
        ({"cpus": 4}, "CPUs/Task", "4"),
    ],
)
def test_what_is_asked_for_is_kept_as_it_is(
    cluster: Farm, asked: dict[str, int], fact: str, kept: str
) -> None:
    made = batch.flags(
        reduce(ClassAd(), ClassAd(), glue.scope), "slurm", resources=batch.Resources(**asked)
    )
    assert cluster.queued(made.argv)[fact] == kept


@pytest.mark.parametrize(
    ("flag", "fact", "kept"),
    [("--time=71582789", "TimeLimit", "00:01:00"), ("--time=0", "TimeLimit", "UNLIMITED"),
     (f"--tmp={2**32}M", "MinTmpDiskNode", "0")],
)  # fmt: skip
def test_why_there_is_a_most(cluster: Farm, flag: str, fact: str, kept: str) -> None:
    assert cluster.queued([flag])[fact] == kept
