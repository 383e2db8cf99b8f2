"""Jobs with our flags on a real Slurm of three nodes: they land where the requirement is true."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from matchmaker import ClassAd, batch, glue, parse_expr, reduce
from matchmaker.batch import Fit
from matchmaker.batch.policy import carry, of_queued
from matchmaker.classad.operators import truth
from tests.services.daemons import ServiceUnavailable
from tests.services.slurm import Farm, SlurmNode, farm

pytestmark = pytest.mark.service

RAM = "other.GlueHostMainMemoryRAMSize"
CPUS = "other.GlueHostArchitectureSMPSize"
OS = "other.GlueHostOperatingSystemName"

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


def told(text: str, site: Path, *, nodes: bool = False) -> tuple[batch.Submission, set[str]]:
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
    submission, good = told(text, site)
    assert submission.verdict is Fit.EXACT
    assert cluster.submit(submission.argv, "echo $SLURMD_NODENAME").strip() in good


def test_jobs_for_an_inventory_land_on_its_good_nodes_alone(cluster: Farm, site: Path) -> None:
    chance = random.Random(3)
    for _ in range(4):
        text = f"{RAM} != {chance.choice([1000, 2000, 4000])} && {CPUS} < {chance.choice([3, 5])}"
        submission, good = told(text, site, nodes=True)
        assert cluster.submit(submission.argv, "echo $SLURMD_NODENAME").strip() in good


def test_directives_in_the_script_do_the_same(cluster: Farm, site: Path) -> None:
    submission, good = told(f"{RAM} > 3000", site)
    lines = "\n".join((*submission.directives, "echo $SLURMD_NODENAME"))
    assert cluster.submit([], lines).strip() in good == {"n3"}


def test_the_policy_is_read_back_from_a_queued_job(
    cluster: Farm, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = parse_expr("other.GlueCEPolicyMaxCPUTime > 1000")
    submission, _ = told(f"{RAM} > 3000", site)
    job = cluster.queue(carry(submission, policy, batch.load_mapping("slurm")).argv)
    for name, value in cluster.oracle.environment.items():
        monkeypatch.setenv(name, value)
    assert of_queued("slurm", job) is policy
