"""The idioms of local submit scripts run: real Slurm and Grid Engine take what the mappings print.

Two of the seventeen are for PBS, of which Debian has no daemon.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.batch import test_site_scripts as scripts
from tests.batch.test_idioms import IDIOMS
from tests.services.daemons import ServiceUnavailable
from tests.services.gridengine import working
from tests.services.slurm import Farm, SlurmNode, farm

pytestmark = pytest.mark.service

NODES = [
    SlurmNode("n1", 2, 2000, features=("el8",), gres="gpu:v100:2"),
    SlurmNode("n2", 2, 2000, features=("el9",), gres="gpu:a100:2"),
]
PARTITIONS = "".join(
    f"PartitionName={name} Nodes=ALL MaxTime=UNLIMITED State=UP\n" for name in ("batch", "long")
)
ANSWERS: dict[str, list[dict[str, str]]] = {
    "1": [{"TimeLimit": "02:00:00"}, {"TimeLimit": "UNLIMITED"}],
    "2": [{"TimeLimit": "01:30:00"}, {"TimeLimit": "1-00:00:00"}],
    "3": [{"OverSubscribe": "NO"}],
    "4": [{"Partition": "long"}, {"Partition": "batch"}],
    "5": [{"TresPerNode": "gres:gpu:2"}, {"TresPerNode": "gres:gpu:a100:2"}],
    "8": [{}, {}],  # without a database, Slurm takes any QOS, and shows none
    "9": [{"Account": "hep7", "JobName": "run-2"}],
    "10": [{"Account": "admins"}],
    "11": [{"TresPerNode": "gres:gpu:1"}, {"TresPerNode": ""}],
    "13": [{"Features": "el9"}],
    "14": [{"Partition": "batch"}, {"Partition": "long"}, {"Partition": "main"}],
    "15": [{"Nice": "70"}, {"Nice": "70", "TimeLimit": "02:00:00"}, {"Nice": "0"}],
    "16": [{"NumNodes": "2-2", "C": "2:0:*:*"}, {"NumNodes": "1"}],
    "17": [{"JobName": "my_first_job__o"}, {"JobName": "held.sh"}],
}
"""What Slurm says of a job with the directives of each case of an idiom."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Farm]:
    try:
        with farm(NODES, PARTITIONS) as made:
            yield made
    except ServiceUnavailable as error:
        pytest.skip(f"no Slurm here: {error}")


@pytest.mark.parametrize("number", ANSWERS)
def test_slurm_runs_jobs_with_what_the_mapping_prints(
    cluster: Farm, tmp_path: Path, number: str
) -> None:
    idiom = next(each for each in IDIOMS if each.name.startswith(f"{number}."))
    for (given, _), answers in zip(idiom.cases, ANSWERS[number], strict=True):
        lines = idiom.printed("slurm", given, tmp_path)
        job = cluster.queued([], lines)
        assert {name: job.get(name, "") for name in answers} == answers
        # The lines that are no directives are for the shell of the job.
        script = ["module() { echo loaded $2; }", "echo on $SLURMD_NODENAME"]
        directives = [line for line in lines if line.startswith("#")]
        others = [line for line in lines if not line.startswith("#")]
        said = cluster.submit([], "\n".join([*directives, *script, *others])).split("\n")
        assert said[0] == "on n2" if "el9" in str(lines) + str(answers) else "on n" in said[0]
        assert ("loaded cuda" in said) == ("module load cuda" in lines)


OF_SCRIPTS = {
    "ARC": [
        {"Nice": "70", "JobName": "N7_seas__a_name", "TimeLimit": "01:01:00", "NumTasks": "2",
         "MinMemoryCPU": "500M", "Partition": "long"},
        {"TimeLimit": "00:01:00", "OverSubscribe": "NO", "JobName": "run", "NumTasks": "2",
         "C": "1:0:*:*"},
    ],
    "DIRAC": [
        {"NumNodes": "1-2", "Account": "lhcb", "CPUs/Task": "2", "Partition": "long"},
        {"NumNodes": "1-1", "CPUs/Task": "1", "TresPerTask": "gres:gpu:1"},
    ],
    "TARDIS": [{"NumTasks": "2", "MinMemoryNode": "1500M", "TimeLimit": "01:30:00"}],
    "Pegasus": [
        {"NumNodes": "2-2", "NumTasks": "3", "C": "2:0:*:*", "JobName": "stage-in--1-",
         "Account": "hep7", "TimeLimit": "01:30:00", "MinMemoryNode": "1000M"},
        {"NumNodes": "1-1", "Partition": "long"},
    ],
    "HTCondor-CE to Slurm": [
        {"Partition": "long", "TimeLimit": "03:20:00", "Account": "hep_cms", "CPUs/Task": "2"},
        {"TimeLimit": "1-00:00:00", "Account": "hep_atlas", "Partition": "long"},
    ],
}  # fmt: skip
"""What Slurm says of the jobs of each script that is for it."""


@pytest.mark.parametrize("name", OF_SCRIPTS)
def test_slurm_takes_what_whole_scripts_ask_for(cluster: Farm, tmp_path: Path, name: str) -> None:
    script = next(each for each in scripts.SCRIPTS if each.name == name)
    for (job, _), answers in zip(script.cases, OF_SCRIPTS[name], strict=True):
        made = script.planned(tmp_path, job)
        for argv, lines in ((made.argv, ()), ((), made.directives)):
            said = cluster.queued(argv, lines)
            assert {name: said.get(name, "") for name in answers} == answers


PARALLEL = """pe_name ompi
slots 16
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule $pe_slots
control_slaves FALSE
job_is_first_task TRUE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
"""


def test_grid_engine_runs_a_job_in_the_parallel_environment(tmp_path: Path) -> None:
    idiom = next(each for each in IDIOMS if each.name.startswith("7."))
    script = tmp_path / "job.sh"
    try:
        with working(16) as engine:
            (engine.folder / "ompi").write_text(PARALLEL)
            engine.run(["qconf", "-Ap", str(engine.folder / "ompi")])
            engine.run(["qconf", "-aattr", "queue", "pe_list", "ompi", "all.q"])
            for (given, _), slots in zip(idiom.cases, ("ompi 16", " 1"), strict=True):
                lines = idiom.printed("sge", given, tmp_path)
                script.write_text("\n".join(["#!/bin/sh", *lines, "echo $PE $NSLOTS", ""]))
                output = engine.folder / "job.out"
                engine.run(["qsub", "-sync", "y", "-j", "y", "-o", str(output), str(script)])
                assert output.read_text().rstrip("\n") == slots.strip()
                output.unlink()
    except ServiceUnavailable as error:
        pytest.skip(f"no Grid Engine here: {error}")
