from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from matchmaker import read_ads
from matchmaker.batch.description import describable, formats
from tests.batch.description import outputs
from tests.cli.conftest import Run

# An interrupt is to end it, also where whoever runs the tests ignores them.
COMMAND = (
    sys.executable,
    "-c",
    (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from matchmaker.cli import main; main()"
    ),
)


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, Path]:
    nodes, queues = tmp_path / "nodes.json", tmp_path / "queues.json"
    nodes.write_text(outputs.PBS_NODES)
    queues.write_text(outputs.PBS_QUEUES)
    return nodes, queues


def test_nodes_and_queues_of_a_batch_system(classad: Run, saved: tuple[Path, Path]) -> None:
    words = ["nodes", "--lrms", "pbspro", "--saved", saved[0], "--saved", saved[1]]
    listed = classad(*words)
    assert listed.status == 0
    assert [line.split() for line in listed.out.splitlines()] == [
        ["2", "worker", "nodes"],
        ["name", "state", "available", "free", "cpus", "cpus", "free", "MB", "MB", "gpus"],
        ["wn1", "free", "true", "5", "8", "12000", "16000", "2"],
        ["wn2", "offline,job-busy", "false", "4", "4", "8000", "8000", "-"],
    ]
    queues = json.loads(classad(*words, "--queues", "--json").out)
    assert [queue["Name"] for queue in queues] == ["workq", "special", "routing"]


def test_described_nodes_are_written_and_chosen(
    classad: Run, saved: tuple[Path, Path], tmp_path: Path
) -> None:
    described = ["--lrms", "pbspro", "--saved", saved[0], "--saved", saved[1]]
    written = tmp_path / "nodes.ad"
    assert classad("nodes", *described, "--write", written).status == 0
    assert [ad.eval("Name") for ad in read_ads(written)] == ["wn1", "wn2"]
    job = "[ Requirements = TARGET.Memory > 1000 || TARGET.Memory > 2000 ]"
    for where in (described, ["--nodes", written]):
        found = json.loads(classad("nodes", "-", *where, "--json", stdin=job).out)
        assert found["chosen"] == "wn1"
        (refused,) = found["refused"]
        assert refused["name"] == "wn2"
        assert "Available" in refused["reason"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "where are the nodes?"),
        (["--lrms", "pbspro", "--nodes", "x"], "where are the nodes?"),
        (["--lrms", "pbss"], "unknown batch system 'pbss'"),
        (["--nodes", "x", "--saved", "y"], "--saved needs --lrms"),
        (["job", "--lrms", "pbspro", "--write", "x"], "do not go with a job"),
        (["--lrms", "lsf"], "lshosts: no such command here"),
        (["--lrms", "lsf", "--watch", "0"], "--watch"),
        (["--nodes", "x"], "name the job first"),
        (["--lrms", "slurm", "--ce", "x"], "--at are for a job's queue: name the job"),
    ],
)
def test_what_does_not_go_together(classad: Run, words: list[str], message: str) -> None:
    done = classad("nodes", *words)
    assert done.status == 2
    assert message in done.err
    assert not done.out


def test_what_tells_of_nothing_is_said(classad: Run, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    for lrms in ("slurm", "torque", "lsf"):
        done = classad("nodes", "--lrms", lrms, "--saved", empty)
        assert (done.status, done.out) == (2, "")
        assert "the output is empty" in done.err
    empty.write_text("JOBID PARTITION NAME\n")
    done = classad("nodes", "--lrms", "slurm", "--saved", empty)
    assert "squeue --noheader --array '--format=Job=%i Partition=%P State=%T'" in done.err
    empty.write_text("No nodes in the system")
    written = tmp_path / "nodes.ad"
    done = classad("nodes", "--lrms", "slurm", "--saved", empty, "--write", written)
    assert done.status == 1
    assert done.out == "0 worker nodes\n"
    assert "slurm described no worker nodes" in done.err
    assert "scontrol --details --oneliner show node" in done.err
    assert not written.read_text().strip()
    data = classad("nodes", "--lrms", "slurm", "--saved", empty, "--json")
    assert (data.status, json.loads(data.out)) == (1, [])


def test_watching_prints_changes_and_keeps_the_file(
    saved: tuple[Path, Path], tmp_path: Path
) -> None:
    written = tmp_path / "nodes.ad"
    words = ["nodes", "--lrms", "pbspro", "--saved", str(saved[0]), "--watch", "0.1"]
    with subprocess.Popen(
        [*COMMAND, *words, "--write", str(written)], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().split()[1:] == ["wn1", "is", "here"]
        assert process.stdout.readline().split()[1:] == ["wn2", "is", "here"]
        replace(saved[0], outputs.PBS_NODES.replace('"ncpus": 3', '"ncpus": 7'))
        line = process.stdout.readline()
        assert "wn1: FreeCpus 5 -> 1" in line
        assert next(iter(read_ads(written))).eval("FreeCpus") == 1
        # While it cannot be asked, what is known stays.
        replace(saved[0], "pbsnodes: cannot connect to server")
        assert "no line is an output of pbspro" in process.stderr.readline()
        changed = json.loads(outputs.PBS_NODES)
        del changed["nodes"]["wn2"]
        replace(saved[0], json.dumps(changed))
        assert "wn1: FreeCpus 1 -> 5" in process.stdout.readline()
        assert process.stdout.readline().split()[1:] == ["wn2", "is", "gone"]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert len(list(read_ads(written))) == 1


def replace(path: Path, text: str) -> None:
    """Writes a file as a whole, so that no half of it is read."""
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)


def test_changes_as_data(saved: tuple[Path, Path]) -> None:
    words = ["nodes", "--lrms", "pbspro", "--saved", str(saved[0]), "--watch", "0.1", "--json"]
    with subprocess.Popen([*COMMAND, *words], text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
    assert (first["name"], first["changed"], first["ad"]["Cpus"]) == ("wn1", [], 8)


def test_what_a_reader_was_tested_with(classad: Run) -> None:
    for lrms in describable():
        listed = classad("nodes", "--lrms", lrms, "--formats")
        assert listed.status == 0, listed.err
        head, columns, *rows = listed.out.splitlines()
        assert head == f"{lrms}: {len(formats(lrms))} outputs"
        assert columns.split() == ["output", "versions", "tested", "from", "a", "daemon"]
        for row, known in zip(rows, formats(lrms), strict=True):
            assert row.startswith(known.output)
            assert ", ".join(known.versions) in row
        said = json.loads(classad("nodes", "--lrms", lrms, "--formats", "--json").out)
        assert [one["output"] for one in said] == [known.output for known in formats(lrms)]
    assert classad("nodes", "--lrms", "lfs", "--formats").status == 2
    assert "--formats needs --lrms" in classad("nodes", "--nodes", "x", "--formats").err


@pytest.fixture
def restricted(tmp_path: Path) -> list[object]:
    """The words for two partitions, one for a group and one whose groups cannot be read."""
    path = tmp_path / "partitions"
    path.write_text(
        "PartitionName=open AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL State=UP\n"
        "PartitionName=grid AllowGroups=cmsgrp,ops AllowAccounts=ALL AllowQos=ALL State=UP\n"
        "PartitionName=lost AllowGroups= AllowAccounts=ALL AllowQos=ALL State=UP\n"
    )
    return ["--lrms", "slurm", "--saved", path]


ADMITS = "GlueCEAccessControlBaseRule"


def test_queues_admit_whom_the_batch_system_admits(classad: Run, restricted: list[object]) -> None:
    def rules(*words: str) -> tuple[dict[str, object], str]:
        done = classad("nodes", *restricted, "--queues", "--json", *words)
        return {ad["Name"]: ad.get(ADMITS) for ad in json.loads(done.out)}, done.err

    nobody = ["DENY:ALL"]
    found, said = rules()
    assert found == {"open": None, "grid": nobody, "lost": nobody}
    assert "partition lost admits nobody: AllowGroups= cannot be read" in said
    assert "grid admits nobody: the batch system admits" in said
    assert "--local VO=NAME" in said
    found, said = rules("--vo", "ops")
    assert found == {"open": ["VO:ops"], "grid": ["VO:ops"], "lost": nobody}
    assert "grid admits nobody" not in said
    found, _ = rules("--vo", "cms")
    assert found == {"open": ["VO:cms"], "grid": nobody, "lost": nobody}
    found, _ = rules("--vo", "cms", "--vo", "atlas", "--local", "cms=cmsgrp")
    assert found == {"open": ["VO:cms", "VO:atlas"], "grid": ["VO:cms"], "lost": nobody}


def test_a_published_queue_admits_whom_the_batch_system_admits(
    classad: Run, restricted: list[object], tmp_path: Path
) -> None:
    site = tmp_path / "site.ldif"
    where = ["--endpoint", "ce.s.grid:8443/cream", "--site", "S", "-o", site]
    vos = ["--vo", "cms", "--vo", "atlas", "--local", "cms=cmsgrp"]
    done = classad("publish", *restricted, *where, *vos)
    # The admin is to look at what could not be read.
    assert done.status == 1
    assert "lost admits nobody" in done.err
    for version in ("1.3", "2.0"):
        assert classad("publish", *restricted, *where, *vos, "--glue", version).status == 1
        for vo, queues in (("cms", {"open", "grid"}), ("atlas", {"open"})):
            job = f'[ VirtualOrganisation = "{vo}"; Rank = 1; Requirements = true ]'
            chosen = classad("broker", "-", "--ldif", site, "--json", stdin=job)
            ranked = json.loads(chosen.out)["queues"]["ranked"]
            assert {one["name"].rpartition("-")[2] for one in ranked} == queues, version


@pytest.mark.parametrize("word", ["cms", "=x", "cms=", " = "])
def test_a_local_name_of_another_form(classad: Run, restricted: list[object], word: str) -> None:
    done = classad("nodes", *restricted, "--queues", "--vo", "cms", "--local", word)
    assert done.status == 2
    assert "expected VO=NAME, such as cms=cmsgrp" in done.err
    done = classad("nodes", *restricted, "--vo", "cms")
    assert "--vo and --local go with --queues" in done.err


# --- a mapping run backwards ----------------------------------------------------------------------

SHOWN = """NodeName=n1 Arch=x86_64 CPUTot=4 AvailableFeatures=el9,gpu ActiveFeatures=el9,gpu \
RealMemory=8000 Sockets=4 State=IDLE TmpDisk=100 Partitions=main OS=Linux 5.14
   NodeAddr=n1 NodeHostName=n1

NodeName=n2 Arch=x86_64 CPUTot=4 AvailableFeatures=el8,el9 ActiveFeatures=el8,el9 \
RealMemory=8000 Sockets=4 State=IDLE TmpDisk=100 Partitions=main OS=Linux 5.14
   NodeAddr=n2 NodeHostName=n2
"""
FEATURES = """
[attributes.GlueHostOperatingSystemRelease]
kind = "eq"
features = { "8.10" = "el8", "9.5" = "el9" }
[attributes.Accelerated]
kind = "bool"
features = { true = "gpu" }
"""


@pytest.fixture
def slurm(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "nodes.txt").write_text(SHOWN)
    (tmp_path / "site.toml").write_text(FEATURES)
    return ("--lrms", "slurm", "--saved", str(tmp_path / "nodes.txt"),
            "--mapping", str(tmp_path / "site.toml"))  # fmt: skip


def test_features_become_attributes(classad: Run, slurm: tuple[str, ...]) -> None:
    done = classad("nodes", *slurm, "--json")
    first, second = json.loads(done.out)
    assert (first["GlueHostOperatingSystemRelease"], first["Accelerated"]) == ("9.5", True)
    assert "GlueHostOperatingSystemRelease" not in second
    assert second["Accelerated"] is False
    assert done.err == (
        "classad: GlueHostOperatingSystemRelease: n2 has features el8 and el9, which stand for"
        " different values; none is taken\n"
    )


def test_a_job_may_require_what_features_stand_for(
    classad: Run, slurm: tuple[str, ...], tmp_path: Path
) -> None:
    job = tmp_path / "job.ad"
    job.write_text("[ Requirements = other.Accelerated ]")
    assert json.loads(classad("nodes", str(job), *slurm, "--json").out)["chosen"] == "n1"


@pytest.mark.parametrize("command", ["nodes", "publish"])
def test_a_mapping_without_its_batch_system_is_a_mistake(
    classad: Run, command: str, tmp_path: Path
) -> None:
    done = classad(command, "--mapping", str(tmp_path / "site.toml"), "--nodes", "x")
    assert done.status == 2
    assert "--mapping needs --lrms" in done.err


def test_what_is_published_is_what_the_flags_select(
    classad: Run, slurm: tuple[str, ...], tmp_path: Path
) -> None:
    part = tmp_path / "queues.txt"
    part.write_text("PartitionName=main AllowGroups=ALL Default=YES MaxTime=60 State=UP Nodes=n1\n")
    words = ("publish", *slurm, "--saved", str(part), "--endpoint", "ce.site.org:8443/cream",
             "--site", "S", "--vo", "ops", "--split")  # fmt: skip
    assert "GlueHostOperatingSystemRelease: 9.5" in classad(*words).out.splitlines()
    plain = [word for at, word in enumerate(words) if "--mapping" not in words[at - 1 : at + 1]]
    assert "GlueHostOperatingSystemRelease: 9.5" not in classad(*plain).out.splitlines()


QUEUED = """
[ Name = "wn1"; Cpus = 4; GlueHostMainMemoryRAMSize = 2000; Queues = { "main" } ]
[ Name = "wn2"; Cpus = 8; GlueHostMainMemoryRAMSize = 8000; Queues = { "gpu" } ]
"""
WANTS = "[ Requirements = other.GlueHostMainMemoryRAMSize >= 4000 ]"


@pytest.fixture
def queued(tmp_path: Path) -> tuple[Path, Path]:
    nodes, job = tmp_path / "nodes.ad", tmp_path / "job.ad"
    nodes.write_text(QUEUED)
    job.write_text(WANTS)
    return nodes, job


def test_a_queue_has_the_nodes_that_list_it(classad: Run, queued: tuple[Path, Path]) -> None:
    nodes, job = queued
    found = classad("nodes", job, "--nodes", nodes, "--queue", "main")
    assert found.status == 1
    assert "main, with 1 worker node" in found.out
    assert classad("nodes", job, "--nodes", nodes, "--queue", "gpu").status == 0
    found = classad("nodes", job, "--nodes", nodes, "--queue", "gpus")
    assert found.status == 2
    assert "no node is of the queue gpus; by their Queues: gpu, main" in found.err


def test_the_nodes_of_a_queue_are_listed_without_a_job(
    classad: Run, saved: tuple[Path, Path]
) -> None:
    words = ["nodes", "--lrms", "pbspro", "--saved", saved[0], "--saved", saved[1]]
    every = json.loads(classad(*words, "--json").out)
    assert [node["Queues"] for node in every] == [["workq", "routing"], ["special"]]
    found = classad(*words, "--queue", "workq", "--json")
    assert json.loads(found.out) == every[:1]
    queue = classad(*words, "--queues", "--queue", "workq", "--json")
    assert [ad["QueueName"] for ad in json.loads(queue.out)] == ["workq"]
    lost = classad(*words, "--queue", "gpus")
    assert (lost.status, lost.out) == (2, "")
    assert "no node is of the queue gpus; by their Queues: routing, special, workq" in lost.err
    assert "no queue is named gpus; there are" in classad(*words, "--queues", "--queue", "gpus").err


def test_names_that_nobody_knows_to_be_of_hosts_come_with_a_hint(
    classad: Run, queued: tuple[Path, Path]
) -> None:
    nodes, job = queued
    nodes.write_text(QUEUED.replace("GlueHostMainMemoryRAMSize", "Memory"))
    job.write_text(WANTS.replace("GlueHostMainMemoryRAMSize", "Memory"))
    words = (job, "--nodes", nodes, "--lrms", "slurm")
    hint = "write GlueHostMainMemoryRAMSize, or --host-attribute Memory"
    for refused in (classad("broker", *words).out, classad("flags", *words).err,
                    classad("flags", *words, "--queue", "gpu").err):  # fmt: skip
        assert hint in refused
    made = classad("flags", *words, "--host-attribute", "Memory")
    assert (made.status, hint in made.out) == (0, False)
    queue = nodes.with_name("queue.ad")
    queue.write_text('[ Name = "gpu" ]')
    alone = classad("flags", job, "--ce", queue, "--queue", "gpu", "--lrms", "slurm",
                    "--host-attribute", "Memory")  # fmt: skip
    assert "no flag for Memory; there is one for GlueHostMainMemoryRAMSize" in alone.out
    job.write_text("[ Requirements = TARGET.GPUModels.a100 >= 1 ]")
    assert "--host-attribute GPUModels" in classad("broker", *words).out
    alone = classad("flags", job, "--ce", queue, "--queue", "gpu", "--lrms", "slurm",
                    "--host-attribute", "GPUModels")  # fmt: skip
    assert "the GPUModel that goes with RequestGPUs may have one" in alone.out


def test_an_exact_verdict_without_an_inventory_says_of_whom(
    classad: Run, queued: tuple[Path, Path]
) -> None:
    nodes, job = queued
    job.write_text("[ Requirements = other.GlueHostMainMemoryRAMSize >= 1000000 ]")
    queue = nodes.with_name("queue.ad")
    queue.write_text('[ QueueName = "gpu"; Name = "gpu" ]')
    words = ("flags", job, "--ce", queue, "--lrms", "slurm", "--queue", "gpu")
    made = classad(*words)
    assert "exact for the hosts that the flags describe; no inventory was given" in made.out
    job.write_text(WANTS)
    assert "no inventory" not in classad(*words, "--nodes", nodes).out


def test_a_queue_that_does_not_take_the_job_is_no_place(
    classad: Run, queued: tuple[Path, Path]
) -> None:
    nodes, job = queued
    nodes.write_text(QUEUED.replace(
        'Queues = { "gpu" }',
        'Queues = { "gpu" }; QueueAds = { [ Name = "gpu"; GlueCEPolicyMaxWallClockTime = 60 ] }',
    ))  # fmt: skip
    job.write_text(WANTS.replace("[", "[ MaxWallTime = 90;"))
    found = classad("nodes", job, "--nodes", nodes, "--queue", "gpu")
    assert found.status == 1
    assert "the job asks for more wall time than the queue allows" in found.out
    found = classad("flags", job, "--nodes", nodes, "--lrms", "slurm", "--queue", "gpu")
    assert found.status == 1
    assert "(MaxWallTime = 90, the most is 60)" in found.err


def test_without_descriptions_the_queues_are_those_of_the_nodes(
    classad: Run, queued: tuple[Path, Path]
) -> None:
    nodes, job = queued
    found = classad("broker", job, "--nodes", nodes, "--lrms", "slurm")
    assert found.status == 0
    assert "--partition=gpu" in found.out
    assert "undefined" in next(line for line in found.out.splitlines() if line.startswith("1  gpu"))
    flags = classad("flags", job, "--nodes", nodes, "--lrms", "slurm", "--json")
    assert json.loads(flags.out)["queue"] == "gpu"
    assert classad("flags", job, "--nodes", nodes, "--lrms", "slurm", "--queue", "main").status == 1


def test_without_any_queue_the_message_says_what_names_one(
    classad: Run, queued: tuple[Path, Path]
) -> None:
    nodes, job = queued
    nodes.write_text(QUEUED.replace("Queues", "Others"))
    found = classad("broker", job, "--nodes", nodes, "--lrms", "slurm")
    assert found.status == 2
    assert "nodes that list their queues" in found.err
