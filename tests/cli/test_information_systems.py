"""Queues of one information system, and what others say of them, from files to the broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.glue.registries import (
    COLLECTOR,
    ENDPOINTS,
    FACTORY,
    GROUP,
    GROUP_DOWNTIMES,
    RESOURCES,
    outages,
    rg_downtimes,
)

JOB = '[ VirtualOrganisation = "cms"; Requirements = true; Rank = 1 ]'
ARC = "arc.fjord.example:443/nordugrid-slurm-long"
LDIF = f"""dn: GlueCEUniqueID={ARC},o=grid
objectClass: GlueCE
GlueCEUniqueID: {ARC}
GlueCEInfoHostName: arc.fjord.example
GlueCEStateStatus: Production
GlueCEAccessControlBaseRule: VO:cms
"""
MAIN = "ce1.lake.example:9620/condorce-slurm-main"
LAKE = "ce1.lake.example:9619/condorce-unknown-grid"
HILL = '[ CEid = "ce.hill.example:9619/condorce-slurm-up"; GlueCEStateStatus = "Production" ]'


def files(folder: Path, **texts: str) -> dict[str, Path]:
    found = {}
    for name, text in texts.items():
        found[name] = folder / name
        found[name].write_text(text)
    return found


def asked(classad: Run, job: Path, at: str, *sources: Path) -> dict[str, str | None]:
    """Return the queues that the broker looked at, each with the reason why it is refused."""
    given = [word for path in sources for word in ("--ce", path)]
    done = classad("broker", job, *given, "--at", at, "--json")
    assert done.status in (0, 1), done.err
    queues = json.loads(done.out)["queues"]
    refused = {row["name"]: row["reason"] for row in queues["refused"]}
    return {row["name"]: None for row in queues["ranked"]} | refused


TIMES = "from 2026-12-01T12:00:00Z to 2026-12-01T18:00:00Z"


@pytest.mark.parametrize(
    ("queues", "queue", "down", "why"),
    [
        (COLLECTOR, MAIN, rg_downtimes(), "scheduled: The pump of the lake is replaced"),
        (COLLECTOR, MAIN, GROUP_DOWNTIMES, "unscheduled: Power cut: no cooling"),
        (FACTORY, LAKE, rg_downtimes(), "scheduled: The pump of the lake is replaced"),
        (FACTORY, LAKE, GROUP_DOWNTIMES, "unscheduled: Power cut: no cooling"),
        (LDIF, ARC, outages(), "scheduled: Storage & network are moved"),
        (LDIF, ARC, outages(nested=True), "scheduled: Storage & network are moved"),
    ],
)
def test_a_downtime_closes_a_queue_of_another_source_and_says_why(
    classad: Run, tmp_path: Path, *, queues: str, queue: str, down: str, why: str
) -> None:
    made = files(tmp_path, job=JOB, queues=queues, down=down, other=HILL)
    option = "--ldif" if queues == LDIF else "--ce"
    given = ["broker", made["job"], option, made["queues"], "--ce", made["other"]]
    for at, reason in (
        ("2026-12-01T11:00:00Z", None),
        ("2026-12-01T12:00:00Z", f"the broker refuses: the queue has a downtime {TIMES}: {why}"),
        ("2026-12-01T18:00:00Z", None),
    ):
        done = classad(*given, "--ce", made["down"], "--at", at, "--json")
        assert done.status == 0, done.err
        answer = json.loads(done.out)["queues"]
        refused = {row["name"]: row["reason"] for row in answer["refused"]}
        assert refused.get(queue) == reason
        assert (queue in {row["name"] for row in answer["ranked"]}) == (reason is None)
        told = classad(*given, "--ce", made["down"], "--at", at)
        assert (why in " ".join(told.out.split())) == (reason is not None)
    alone = classad(*given, "--at", "2026-12-01T12:00:00Z", "--json")
    assert queue in {row["name"] for row in json.loads(alone.out)["queues"]["ranked"]}


def test_what_is_at_risk_stays_open(classad: Run, tmp_path: Path) -> None:
    made = files(
        tmp_path, job=JOB, queues=COLLECTOR, down=rg_downtimes(severity="Intermittent Outage")
    )
    at = "2026-12-01T13:00:00Z"
    assert asked(classad, made["job"], at, made["queues"], made["down"])[MAIN] is None


@pytest.mark.parametrize("first", ["queues", "registry"])
@pytest.mark.parametrize("registry", [RESOURCES, GROUP])
def test_a_registry_tells_queues_of_other_sources(
    classad: Run, tmp_path: Path, registry: str, first: str
) -> None:
    made = files(tmp_path, job=JOB, queues=COLLECTOR, registry=registry)
    second = {"queues": "registry", "registry": "queues"}[first]
    sources = made[first], made[second]
    found = asked(classad, made["job"], "2026-12-01T13:00:00Z", *sources)
    # The CE of the collector's queues is no queue beside them; that of the other has no queues.
    assert {name for name, reason in found.items() if reason is None and "lake" in name} == {
        MAIN, MAIN.replace("main", "gpu"), MAIN.replace("main", "whole"),
    } | ({"ce2.lake.example:9700"} if registry == RESOURCES else set()) | {
        "ce3.lake.example:9619"
    }  # fmt: skip
    inactive = registry.replace("<Active>True", "<Active>False").replace(
        "Active: true", "Active: false"
    )
    made["registry"].write_text(inactive)
    plain = files(tmp_path, job="[ VirtualOrganisation = 'cms' ]".replace("'", '"'))
    reasons = asked(classad, plain["job"], "2026-12-01T13:00:00Z", *sources)
    assert "GlueCEStateStatus" in str(reasons[MAIN])


def test_a_registry_alone_gives_ces_of_unknown_capacity(classad: Run, tmp_path: Path) -> None:
    made = files(tmp_path, job=JOB, registry=ENDPOINTS)
    given = ["broker", made["job"], "--ce", made["registry"]]
    assert classad(*given).status == 0
    known = classad(*given, "--access", "known")
    assert known.status == 1
    assert "publishes no rule of access" in known.out
    sized = tmp_path / "sized"
    sized.write_text('[ VirtualOrganisation = "cms"; Requirements = other.GPUs > 1 ]')
    assert classad("broker", sized, "--ce", made["registry"]).status == 1
    listed = classad("ces", "--ce", made["registry"])
    assert "arc.fjord.example:8443" in listed.out


@pytest.mark.parametrize("option", ["--ce", "--dump"])
@pytest.mark.parametrize(
    "text",
    [
        "<results><SITE", "<results><other/></results>", "<ResourceSummary>", "<glidein/>",
        '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><Downtimes>&b;</Downtimes>',
        "<Downtimes>" * 3000, "Resources: [[[", "Resources: *a\n", "- Class: \0\n",
        "GroupID: 1\nResources: " + "[" * 5000, "Production: true\n",
        "[ OSG_ResourceCatalog = {", '{"OSG_ResourceCatalog": [',
    ],
)  # fmt: skip
def test_what_is_no_document_is_refused_in_a_line(
    classad: Run, tmp_path: Path, option: str, text: str
) -> None:
    made = files(tmp_path, job=JOB, bad=text)
    done = classad("broker", made["job"], option, made["bad"])
    assert done.status == 2
    assert str(made["bad"]) in done.err
    assert "Traceback" not in done.err


EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("option", ["--ce", "--dump"])
def test_a_job_finds_a_queue_of_cric(classad: Run, option: str) -> None:
    done = classad("broker", EXAMPLES / "atlas.jdl", option, EXAMPLES / "cric.json", "--json")
    assert done.status == 0, done.err
    found = json.loads(done.out)
    assert found["queues"]["chosen"] == "arc.hill.example:443/nordugrid-slurm-grid"
    assert "grid_resource = arc https://arc.hill.example:443/arex/rest/1.0" in found["grid"]
    words = ["--lrms", "slurm", "--json"]
    done = classad("broker", EXAMPLES / "atlas.jdl", option, EXAMPLES / "cric.json", *words)
    found = json.loads(done.out)
    assert "--partition=grid" in found["submission"]["argv"]
    assert "grid" not in found


@pytest.mark.parametrize("option", ["--ce", "--dump"])
@pytest.mark.parametrize(
    "text",
    ['{"foo": {"bar": 1}}', '[{"foo": 1}]', "[]", "{}", '{"a": [[[]]]}', "<a><b/></a>", "[tool]\n"],
)
def test_a_document_of_no_known_form_is_bad_input(
    classad: Run, tmp_path: Path, option: str, text: str
) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    done = classad("ces", option, file)
    assert done.status == 2
    assert str(file) in done.err
    assert "of no form that is known; known are GLUE" in done.err


@pytest.mark.parametrize(
    "text", ['{"Name": "q"}', '[{"FreeCPUs": 3}]', 'Name = "q"\n', "[ a = 1 ]"]
)
def test_ads_of_any_format_are_still_ads(classad: Run, tmp_path: Path, text: str) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    assert classad("ces", "--ce", file).status == 0


@pytest.mark.parametrize("text", ['{"a":' * 100_000, "[" * 100_000, '{"X": {"queues": [' * 9])
def test_what_is_no_json_is_bad_input(classad: Run, tmp_path: Path, text: str) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    for option in ("--ce", "--dump"):
        done = classad("ces", option, file)
        assert (done.status, str(file) in done.err) == (2, True)


def test_what_shares_a_queue_is_listed_once(classad: Run, tmp_path: Path) -> None:
    dump = tmp_path / "site.ldif"
    name = "arc.hill.example:2811/nordugrid-SLURM-grid"
    dump.write_text(
        f"dn: GlueCEUniqueID={name},o=grid\nobjectClass: GlueCE\nGlueCEUniqueID: {name}\n"
        "GlueCEInfoHostName: arc.hill.example\nGlueCEStateFreeCPUs: 5\n"
        "GlueCEAccessControlBaseRule: VO:atlas\n"
    )
    words = ["--attrs", "FreeCPUs,RAMSize,AlsoDescribedBy", "--json"]
    done = classad("ces", "--ce", EXAMPLES / "cric.json", "--dump", dump, *words)
    rows = {row.pop("name"): list(row.values()) for row in json.loads(done.out)}
    assert rows[name] == [5, 16000, ["CRIC"]]
    assert len(rows) == 3


def test_a_queue_that_no_grid_reaches_says_so(classad: Run, tmp_path: Path) -> None:
    """The one of ACCESS is reached by SSH."""
    made = files(tmp_path, job="[ Requirements = true; Rank = 1 ]")
    asked = ["broker", made["job"], "--ldif", "examples/providers/ipf.json"]
    assert "grid         no lines: neither HTCondor-CE nor ARC" in classad(*asked).out
    assert "no lines" not in classad(*asked, "--lrms", "slurm").out


def test_queues_of_unknown_access_are_marked(classad: Run, tmp_path: Path) -> None:
    unruled = LDIF.replace("GlueCEAccessControlBaseRule: VO:cms\n", "").replace("fjord", "lake")
    by_hand = f'[ CEid = "{ARC.replace("fjord", "moor")}" ]'
    made = files(tmp_path, job=JOB, queues=LDIF, open=unruled, hand=by_hand)
    asked = ["broker", made["job"], "--ldif", made["queues"]]
    assert "access" not in classad(*asked).out
    asked += ["--ldif", made["open"], "--ce", made["hand"]]
    shown = [line.split() for line in classad(*asked).out.splitlines() if line[:1].isdigit()][1:]
    assert [(row[1].split(".")[1], row[-1]) for row in shown] == [
        ("fjord", "known"), ("lake", "unknown"), ("moor", "unknown")
    ]  # fmt: skip
    ranked = json.loads(classad(*asked, "--json").out)["queues"]["ranked"]
    assert [row.get("access") for row in ranked] == [None, "unknown", None]


def test_without_any_queue_the_findings_are_named(classad: Run, tmp_path: Path) -> None:
    made = files(tmp_path, job=JOB, downtimes=rg_downtimes())
    done = classad("broker", made["job"], "--ce", made["downtimes"])
    assert done.status == 1
    assert "hint    no source describes a queue" in done.out


def test_a_submit_file_finds_a_queue_of_cric(classad: Run, tmp_path: Path) -> None:
    description = tmp_path / "job.sub"
    description.write_text(
        'executable = sim\nrequest_memory = 12 GB\n+VirtualOrganisation = "atlas"\n'
        "requirements = other.GlueHostMainMemoryRAMSize >= 12288\nqueue 20\n"
    )
    found = classad("broker", str(description), "--ce", "examples/cric.json")
    assert found.status == 0
    assert "chosen       arc.hill.example:443/nordugrid-slurm-grid" in found.out
    description.write_text("executable = sim\nif true\nqueue\n")
    refused = classad("broker", str(description), "--ce", "examples/cric.json")
    assert refused.status == 2
    assert f"{description}, line 2: a condition" in refused.err


def test_an_error_in_a_job_with_an_attribute_queue_names_the_file(
    classad: Run, tmp_path: Path
) -> None:
    job = tmp_path / "job.ad"
    job.write_text('Queue = "long"\nRank = (\n')
    for words in (("broker", "--ce", "examples/cric.json"), ("flags", "--lrms", "slurm")):
        refused = classad(words[0], str(job), *words[1:])
        assert (refused.status, refused.out) == (2, "")
        assert f"{job}, line 2" in refused.err
