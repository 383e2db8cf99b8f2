"""What nodes of a real Slurm keep for the system is not offered to jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from matchmaker import ClassAd, batch, glue, parse_ad, reduce
from matchmaker.batch import Fit, NoHostError
from tests.services.daemons import ServiceUnavailable
from tests.services.slurm import Farm, SlurmNode, farm
from tests.services.test_description import asked

pytestmark = pytest.mark.service

THREADS = ("Sockets=2", "CoresPerSocket=4", "ThreadsPerCore=2")
OFFERED = {
    SlurmNode("memory", 8, 128000, settings=("MemSpecLimit=3000",)): (8, 125000),
    SlurmNode("cores", 16, 16000, settings=(*THREADS, "CoreSpecCount=2")): (12, 16000),
    # One CPU a core: the threads of a core are one to Slurm.
    SlurmNode(
        "single", 8, 16000,
        settings=("Sockets=1", "CoresPerSocket=8", "ThreadsPerCore=2", "CoreSpecCount=2",
                  "MemSpecLimit=500"),
    ): (6, 15500),
    SlurmNode("listed", 16, 16000, settings=(*THREADS, "CpuSpecList=0,1,8,9")): (12, 16000),
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Farm]:
    try:
        with farm(OFFERED) as made:
            yield made
    except ServiceUnavailable as error:
        pytest.skip(f"no Slurm here: {error}")


@pytest.fixture(scope="module")
def described(cluster: Farm) -> dict[str, ClassAd]:
    found = batch.describe("slurm", lambda argv: asked(cluster.oracle, argv))
    assert not found.issues
    return {str(ad.eval("Name")): ad for ad in found.nodes}


def flags(ad: ClassAd, request: str, amount: int) -> batch.Submission:
    job = parse_ad(f"[ {request} = {amount}; Requirements = true ]")
    return batch.flags(reduce(job, ClassAd(), glue.scope), "slurm", None, [ad])


@pytest.mark.parametrize("node", OFFERED, ids=lambda node: node.name)
def test_the_largest_job_is_taken_and_one_more_is_refused(
    cluster: Farm, described: dict[str, ClassAd], node: SlurmNode
) -> None:
    ad = described[node.name]
    cpus, memory = OFFERED[node]
    assert (ad.eval("Cpus"), ad.eval("FreeCpus")) == (cpus, cpus)
    assert (ad.eval("Memory"), ad.eval("FreeMemory")) == (memory, memory)
    for request, most in (("RequestMemory", memory), ("RequestCpus", cpus)):
        made = flags(ad, request, most)
        assert made.verdict is Fit.EXACT
        assert cluster.oracle.accepts(node.name, made.argv)
        assert cluster.refusal(["-w", node.name, *made.argv]) == ""
        with pytest.raises(NoHostError):
            flags(ad, request, most + 1)
        more = [word.replace(str(most), str(most + 1)) for word in made.argv]
        assert more != list(made.argv)
        assert not cluster.oracle.accepts(node.name, more)
        assert "configuration is not available" in cluster.refusal(["-w", node.name, *more])


def test_a_version_that_does_not_say_what_is_offered_gives_the_same(
    cluster: Farm, described: dict[str, ClassAd]
) -> None:
    """Before version 22.05 Slurm prints what is kept, and neither CPUEfctv nor its resources."""
    lines = asked(cluster.oracle, batch.description.commands("slurm")[0])
    kept = ("CPUEfctv=", "CfgTRES=")
    old = "\n".join(
        " ".join(word for word in line.split(" ") if not word.startswith(kept))
        for line in lines.split("\n")
    )
    assert old != lines
    found = batch.read_description("slurm", [("old", old)])
    assert not found.issues
    for ad in found.nodes:
        cpus = described[str(ad.eval("Name"))].eval("Cpus")
        assert (ad.eval("Name"), ad.eval("Cpus")) == (ad.eval("Name"), cpus)


def test_json_gives_the_same_cpus(cluster: Farm, described: dict[str, ClassAd]) -> None:
    """Version 0.0.38 of the form has no field for what is kept, and CPUs among resources."""
    text = asked(cluster.oracle, ["sinfo", "--json"])
    for ad in batch.read_description("slurm", [("sinfo", text)]).nodes:
        cpus = described[str(ad.eval("Name"))].eval("Cpus")
        assert (ad.eval("Name"), ad.eval("Cpus")) == (ad.eval("Name"), cpus)
