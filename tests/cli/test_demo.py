"""The main job: a grid job meets a site, down to the flags for the batch system."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from matchmaker import parse_expr
from tests.cli.conftest import Run

RANKED = [
    "ce01.cnaf.grid:8443/cream-slurm-egee",
    "ce2.lyon.grid:8443/cream-slurm-grid",
    "ce01.cnaf.grid:8443/cream-slurm-long/EGEE",
    "ce.lyon.grid:2119/jobmanager-sge-long",
    "atlfarm006.mi.infn.it:2119/blah-pbs-long",
]

RESIDUAL = (
    "other.GlueHostBenchmarkSI00 > 500 && other.GlueHostMainMemoryRAMSize >= 1000 && "
    'Member("GLITE_1_2", other.GlueHostApplicationSoftwareRunTimeEnvironment)'
)


@pytest.fixture
def demo(examples: Path, site: list[object]) -> list[object]:
    return ["broker", examples / "job.jdl", *site, "--nodes", examples / "nodes.ad",
            "--lrms", "slurm"]  # fmt: skip


def test_as_a_process_of_its_own(classad_process: Run, demo: list[object]) -> None:
    done = classad_process(*demo)
    assert (done.status, done.err) == (0, "")
    assert RANKED[0] in done.out


def test_the_page_for_people(classad: Run, demo: list[object]) -> None:
    done = classad(*demo)
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    ranked = [line.split() for line in lines if re.match(r"[0-9]+ +\S+:", line)]
    assert [(words[0], words[1]) for words in ranked] == [
        (str(place), name) for place, name in enumerate(RANKED, 1)
    ]
    facts = dict(line.split(None, 1) for line in lines if re.match(r"[a-z]+ {2,}\S", line))
    assert facts["chosen"] == RANKED[0]
    assert facts["residual"] == RESIDUAL
    assert facts["slurm"].startswith("sbatch --mem=1000M --partition=egee --exclude=wn013,")
    assert facts["verdict"] == "exact"
    assert facts["dropped"] == "nothing"
    assert any(line.startswith("worker nodes  22 of 47: wn001 wn002 ") for line in lines)


def test_the_pages_have_the_numbers_of_the_output(
    classad: Run, demo: list[object], examples: Path
) -> None:
    readme = (examples.parent / "README.md").read_text("utf-8")
    told = re.search(r"(?m)^make demo +# a grid job meets (\d+) queues of five sites", readme)
    first = classad(*demo).out.splitlines()[0]
    assert told is not None
    assert first.startswith(f"{told[1]} queues, ")
    sources = demo[2 : demo.index("--nodes")]
    hosts = [
        row["name"].partition(":")[0] for row in json.loads(classad("ces", *sources, "--json").out)
    ]
    assert len(hosts) == int(told[1])
    assert len({host.partition(".")[2] for host in hosts}) == 5
    # The queues of site.ldif itself: entries of the tree, and as the command counts them.
    entries = re.findall(r"(?im)^dn: GlueCEUniqueID=", (examples / "site.ldif").read_text())
    assert len(entries) == 17
    shown = len(classad("ces", "--ldif", examples / "site.ldif").out.splitlines()) - 1
    about = (examples / "README.md").read_text("utf-8")
    assert "four sites with seventeen queues" in about
    assert f"so that the command shows {shown} |" in about


def test_every_refused_queue_says_by_which_clause(classad: Run, demo: list[object]) -> None:
    lines = classad(*demo).out.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("refused"))
    refused = lines[start + 1 : lines.index("", start)]
    assert len(refused) == 15
    for line in refused:
        assert re.search(
            r" the job refuses: .+ is (false|undefined|error)"
            r"| it refuses the job: no rule of access covers the job \(.+ = ",
            line,
        )


def test_all_of_it_as_data(classad: Run, demo: list[object]) -> None:
    done = classad(*demo, "--json")
    assert (done.status, done.err) == (0, "")
    data: dict[str, Any] = json.loads(done.out)
    assert data["queues"]["chosen"] == RANKED[0]
    assert [queue["name"] for queue in data["queues"]["ranked"]] == RANKED
    assert [queue["rank"] for queue in data["queues"]["ranked"]] == [212, 96, 40, 25, 1]
    assert len(data["queues"]["refused"]) == 15
    for refused in data["queues"]["refused"]:
        assert refused["by"] in ("job", "resource")
        assert refused["reason"]
        assert refused["clause"]
        assert refused["facts"]
        assert refused["value"] is not True
    assert data["reduction"]["verdict"] == "residual"
    assert parse_expr(data["reduction"]["residual"]) is parse_expr(RESIDUAL)
    assert [clause["verdict"] for clause in data["reduction"]["clauses"]] == [
        "residual", "always", "residual", "residual",
    ]  # fmt: skip
    kinds = {binding["name"]: binding["kind"] for binding in data["reduction"]["bindings"]}
    assert kinds["other.GlueHostBenchmarkSI00"] == "host"
    assert kinds["other.GlueCEPolicyMaxCPUTime"] == "constant"
    assert (len(data["nodes"]["ranked"]), len(data["nodes"]["refused"])) == (22, 25)
    submission = data["submission"]
    assert submission["verdict"] == "exact"
    assert submission["dropped"] == []
    assert submission["argv"][0] == "--mem=1000M"
    assert submission["directives"] == [f"#SBATCH {flag}" for flag in submission["argv"]]
    chosen = {node["name"] for node in data["nodes"]["ranked"]}
    refused_nodes = {node["name"] for node in data["nodes"]["refused"]}
    assert set(submission["excluded"]) == refused_nodes
    assert not chosen & refused_nodes


def test_without_nodes_the_flags_are_necessary(
    classad: Run, examples: Path, site: list[object]
) -> None:
    done = classad("broker", examples / "job.jdl", *site, "--lrms", "slurm", "--json")
    data = json.loads(done.out)
    assert "nodes" not in data
    assert data["submission"]["argv"] == ["--mem=1000M", "--partition=egee"]
    assert data["submission"]["verdict"] == "necessary"
    assert len(data["submission"]["dropped"]) == 2


def test_without_lrms_there_are_no_flags(classad: Run, examples: Path, site: list[object]) -> None:
    data = json.loads(classad("broker", examples / "job.jdl", *site, "--json").out)
    assert "submission" not in data
    assert data["reduction"]["verdict"] == "residual"


def test_where_no_queue_matches_the_status_is_one(
    classad: Run, examples: Path, site: list[object]
) -> None:
    job = "[ Requirements = other.GlueCEStateFreeCPUs > 100000; Rank = 1 ]"
    done = classad("broker", "-", *site, "--lrms", "slurm", stdin=job)
    assert (done.status, done.err) == (1, "")
    assert "no queue matches" in done.out
    data = json.loads(classad("broker", "-", *site, "--json", stdin=job).out)
    assert data["queues"]["chosen"] is None
    assert data["queues"]["ranked"] == []
    assert "reduction" not in data


def test_where_no_node_will_do_the_status_is_one(
    classad: Run, site: list[object], tmp_path: Path
) -> None:
    nodes = tmp_path / "nodes.ad"
    nodes.write_text('[ Name = "n1"; GlueHostBenchmarkSI00 = 100 ]')
    job = (
        '[ VirtualOrganisation = "EGEE"; CertificateSubject = "x"; Rank = 1;'
        " Requirements = other.GlueHostBenchmarkSI00 > 500 ]"
    )
    done = classad("broker", "-", *site, "--nodes", nodes, "--lrms", "slurm", stdin=job)
    assert (done.status, done.err) == (1, "")
    assert "0 of 1" in done.out
    assert "sbatch" not in done.out


def test_a_job_without_requirements_wants_a_queue_in_production_that_accepts_it(
    classad: Run, site: list[object]
) -> None:
    job = '[ VirtualOrganisation = "EGEE"; CertificateSubject = "/CN=x" ]'
    done = classad("broker", "-", *site, "--json", stdin=job)
    assert (done.status, done.err) == (0, "")
    data = json.loads(done.out)
    assert data["queues"]["chosen"] is not None
    assert {refused["by"] for refused in data["queues"]["refused"]} == {"job", "resource"}
    assert data["reduction"]["verdict"] == "always"
    assert data["reduction"]["residual"] == "true"


def test_what_any_host_will_do_for_has_no_flags(classad: Run, tmp_path: Path) -> None:
    queue = tmp_path / "queue.ad"
    queue.write_text('[ CEid = "q"; GlueCEInfoLRMSType = "slurm"; LRMSType = "slurm" ]')
    done = classad("broker", "-", "--ce", queue, "--lrms", "slurm", "--json", stdin="[ Rank = 1 ]")
    assert done.status == 0
    assert "no flag names the queue" in done.err
    submission = json.loads(done.out)["submission"]
    assert (submission["argv"], submission["directives"]) == ([], [])
    assert (submission["verdict"], submission["dropped"]) == ("exact", [])


def test_flags_of_another_batch_system_than_the_queues_are_not_given(
    classad: Run, tmp_path: Path
) -> None:
    queue = tmp_path / "queue.ad"
    queue.write_text('[ CEid = "q"; GlueCEInfoLRMSType = "pbs"; LRMSType = "pbs" ]')
    done = classad("broker", "-", "--ce", queue, "--lrms", "slurm", stdin="[ Rank = 1 ]")
    assert (done.status, done.err) == (1, "")
    assert "is run by pbs, not by slurm" in done.out
    assert "sbatch" not in done.out
