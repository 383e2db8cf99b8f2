"""A real HTCondor pool of three machines: it describes itself, and runs jobs where they belong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping

import pytest

from matchmaker import ClassAd, batch, parse_ads, parse_expr
from matchmaker.batch.description import formats
from tests.services.condor import Machine, Pool

pytestmark = pytest.mark.service

SI00 = "other.GlueHostBenchmarkSI00"
OS = "other.GlueHostOperatingSystemName"
NOTE = "other.GlueHostOperatingSystemVersion"
CPU_TIME = "other.GlueCEPolicyMaxCPUTime"

SITE = ("GlueHostOperatingSystemVersion", "GlueHostBenchmarkSI00")
STRANGE = r"it's 50% $x \d, [a] # b == c"

MACHINES = [
    Machine("n1", 1, 1000, {"GlueHostBenchmarkSI00": "400", "GlueHostOperatingSystemName": '"SL"'}),
    Machine("n2", 2, 2000, {
        "GlueHostBenchmarkSI00": "Cpus > 0 ? 300 * 2 : 0", "GlueHostOperatingSystemName": '"SL"',
        # A configuration would replace $x, too.
        "GlueHostOperatingSystemVersion": '"' + STRANGE.replace("$", "$(DOLLAR)") + '"',
    }),
    Machine("n3", 4, 4000, {
        "GlueHostBenchmarkSI00": '"fast"', "GlueHostOperatingSystemName": '"Debian"',
    }),
]  # fmt: skip


@pytest.fixture(scope="module")
def pool(condor: Callable[[Iterable[Machine]], Pool]) -> Pool:
    return condor(MACHINES)


def classad(pool: Pool, *argv: str) -> subprocess.CompletedProcess[str]:
    """Runs our command where HTCondor's are on the path."""
    return subprocess.run(
        [sys.executable, "-c", "from matchmaker.cli import main; main()", *argv],
        capture_output=True, text=True, check=False, cwd=pool.folder, timeout=120,
        env={**os.environ, **pool.environment},
    )  # fmt: skip


def ask(pool: Pool) -> Callable[[Iterable[str]], str]:
    return lambda argv: pool.run(*argv)


def machine_of(slot: object) -> str:
    return str(slot).split("@")[1]


# --- what it says of itself -----------------------------------------------------------------------


def test_htcondor_describes_itself(pool: Pool) -> None:
    found = batch.describe("htcondor", ask(pool))
    assert not found.issues
    by_name = {machine_of(ad.eval("Name")): ad for ad in found.nodes}
    assert sorted(by_name) == ["n1", "n2", "n3"]
    (release,) = {str(ad.eval("GlueHostOperatingSystemRelease")) for ad in found.nodes}
    # In HTCondor's words 1200, the number, where it is 12.
    native = found.nodes[0].eval("OpSysVer")
    assert isinstance(native, int)
    assert float(release) * 100 == native
    for machine in MACHINES:
        ad = by_name[machine.name]
        assert ad.eval("TotalSlotMemory") == machine.memory
        assert ad.eval("TotalSlotCpus") == machine.cpus
        assert ad.eval("GlueHostArchitectureSMPSize") == ad.eval("DetectedCpus")
        assert ad.eval("GlueHostMainMemoryRAMSize") == ad.eval("DetectedMemory")
        assert ad.eval("NodeState") == "Unclaimed"
        assert ad.eval("Available") is True
        # The slot's own condition on jobs, as a job's ad would meet it.
        asking = ClassAd({"RequestCpus": 1, "RequestDisk": 1, "RequestMemory": machine.memory})
        assert ad.eval("Requirements", target=asking) is True
        asking["RequestMemory"] = machine.memory + 1
        assert ad.eval("Requirements", target=asking) is False
    assert by_name["n2"].eval("GlueHostBenchmarkSI00") == 600
    assert by_name["n2"].eval("GlueHostOperatingSystemVersion") == STRANGE
    (schedd,) = found.queues
    assert schedd.eval("GlueCEStateStatus") == "Production"
    assert schedd.eval("GlueCEStateWaitingJobs") == 0


def test_long_ads_and_json_describe_alike(pool: Pool) -> None:
    def described(form: str) -> dict[str, dict[str, str]]:
        commands = ("condor_status", f"-{form}"), ("condor_status", "-schedd", f"-{form}")
        texts = [(" ".join(argv), pool.run(*argv)) for argv in commands]
        found = batch.read_description("htcondor", texts)
        assert found.issues == ()
        stable = ("Name", "Machine", "Available", "GlueHostMainMemoryRAMSize", "Requirements",
                  "GlueHostArchitecturePlatformType", "GlueCEInfoTotalCPUs", "GlueCEStateStatus",
                  "GlueCEStateFreeCPUs")  # fmt: skip
        return {
            str(ad.eval("Name")): {name: str(ad.get(name)) for name in stable}
            for ad in (*found.nodes, *found.queues)
        }

    found = described("json")
    assert len(found) == len(MACHINES) + 1
    assert described("long") == found
    [schedd] = [said for said in found.values() if said["GlueCEStateStatus"] != "None"]
    assert schedd["GlueCEInfoTotalCPUs"] == str(sum(machine.cpus for machine in MACHINES))


ROUTES = """
JOB_ROUTER_SCHEDD2_NAME = local.test
JOB_ROUTER_SCHEDD2_POOL = 127.0.0.1:9618
JOB_ROUTER_USE_DEPRECATED_ROUTER_ENTRIES = True
JOB_ROUTER_ENTRIES @=jre
[ name = "Old"; GridResource = "batch slurm"; TargetUniverse = 9; set_default_queue = "long";
  MaxJobs = 100; MaxIdleJobs = 20; Requirements = TARGET.Owner == "cms"; ]
@jre
JOB_ROUTER_ROUTE_NAMES = New Old
JOB_ROUTER_ROUTE_New @=jrt
  REQUIREMENTS RequestCpus >= 8
  GridResource = "batch slurm"
  UNIVERSE GRID
  SET default_queue "big"
  MaxJobs = 5
@jrt
"""


def test_routes_of_a_job_router_are_read(pool: Pool) -> None:
    configuration = pool.folder / "routes_config"
    configuration.write_text(f"include : {pool.environment['CONDOR_CONFIG']}\n{ROUTES}")
    done = subprocess.run(
        ["condor_job_router_info", "-config"], capture_output=True, text=True, check=True,
        cwd=pool.folder, timeout=60, env={**pool.environment, "CONDOR_CONFIG": str(configuration)},
    )  # fmt: skip
    schedds = pool.run("condor_status", "-schedd", "-long")
    found = batch.read_description("htcondor-ce", [("q", schedds), ("r", done.stdout)])
    routes = found.queues[0].eval("Routes")
    assert isinstance(routes, list)
    said = {
        str(ad.eval("Name")): [ad.eval(name) for name in ("Queue", "MaxJobs", "GridResource")]
        for ad in routes
        if isinstance(ad, ClassAd)
    }
    assert said == {"New": ["big", 5, "batch slurm"], "Old": ["long", 100, "batch slurm"]}


def test_the_version_that_runs_here_is_declared(pool: Pool) -> None:
    release = pool.run("condor_version").split()[1]
    running = {version for known in formats("htcondor") for version in known.running}
    assert ".".join(release.split(".")[:2]) in running, release


def test_all_forms_of_its_ads_are_read_alike(pool: Pool) -> None:
    def read(form: str) -> list[dict[str, str]]:
        # What the clock changes between one answer and the next is left out.
        names = ",".join(["Name", "Cpus", "Requirements", "WithinResourceLimits", *SITE])
        text = pool.run("condor_status", f"-long:{form}", "-attributes", names)
        ads = list(parse_ads(text, format="old" if form == "long" else form))
        return [{name: str(ad[name]) for name in sorted(ad)} for ad in ads]

    wanted = read("long")
    assert len(wanted) == 3
    assert [ad.get("GlueHostOperatingSystemVersion") for ad in wanted].count(None) == 2
    for form in ("json", "xml", "new"):
        assert read(form) == wanted, form


def test_the_command_lists_slots_and_schedds(pool: Pool) -> None:
    listed = classad(pool, "nodes", "--lrms", "htcondor")
    assert listed.returncode == 0, listed.stderr
    assert "3 worker nodes" in listed.stdout
    for machine in MACHINES:
        assert re.search(rf"^slot1@{machine.name}@.* Unclaimed +true ", listed.stdout, re.MULTILINE)
    schedds = classad(pool, "nodes", "--lrms", "htcondor", "--queues")
    assert schedds.returncode == 0, schedds.stderr
    assert "Production" in schedds.stdout


def test_a_job_is_held_against_the_slots_that_were_asked_for(pool: Pool) -> None:
    wanted = f'Requirements = {OS} == "SL" && {SI00} > 500'
    (pool.folder / "job.ad").write_text(
        f"[ {wanted}; RequestCpus = 1; RequestMemory = 100; RequestDisk = 100 ]"
    )
    chosen = classad(pool, "nodes", "job.ad", "--lrms", "htcondor")
    assert chosen.returncode == 0, chosen.stderr
    assert re.findall(r"slot1@(n\d)@", chosen.stdout) == ["n2"]
    # A slot asks what a job requests; condor_submit would say it of each.
    (pool.folder / "job.ad").write_text(f"[ {wanted} ]")
    none = classad(pool, "nodes", "job.ad", "--lrms", "htcondor")
    assert none.returncode == 1
    assert "WithinResourceLimits is undefined" in none.stdout


# --- jobs -----------------------------------------------------------------------------------------


def submit(
    pool: Pool, requirements: str, *options: str, job: Mapping[str, int] | None = None
) -> tuple[str, ClassAd]:
    """Submits a job by our command; its number, and what was said of it."""
    ad = ClassAd({"Requirements": parse_expr(requirements), **(job or {})})
    (pool.folder / "grid.ad").write_text(str(ad))
    (pool.folder / "queue.ad").write_text(
        '[ GlueCEUniqueID = "ce/condor"; GlueCEInfoLRMSType = "condor"; LRMSType = "htcondor";'
        " GlueCEPolicyMaxCPUTime = 2000 ]"
    )
    (pool.folder / "site.toml").write_text('others = "same"\n')
    (pool.folder / "grid.sub").write_text("executable = /bin/true\nqueue\n")
    made = classad(
        pool, "flags", "grid.ad", "--lrms", "htcondor", "--ce", "queue.ad", "--queue",
        "ce/condor", "--mapping", "site.toml", "--submit", "grid.sub", *options,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    match = re.search(r"submitted to cluster (\d+)\.", made.stdout)
    assert match is not None, made.stdout
    return match[1], ad


@pytest.mark.parametrize(
    ("requirements", "machines"),
    [
        (f"{SI00} > 500", {"n2"}),
        (f"{SI00} > 300 && {CPU_TIME} > 1000", {"n1", "n2"}),
        (f'{CPU_TIME} > 5000 ? {SI00} > 500 : {OS} isnt "SL"', {"n3"}),
        (f"isString({SI00})", {"n3"}),
        (f"({SI00} ?: 0) < 500", {"n1"}),
        (f'{NOTE} == "{STRANGE.replace(chr(92), chr(92) * 2)}"', {"n2"}),
        (f'regexp("^it\'s \\\\d+% [$]", {NOTE})', {"n2"}),
        (f'{NOTE} is undefined && {OS} != "Debian"', {"n1"}),
    ],
)  # fmt: skip
def test_a_job_lands_on_a_machine_that_satisfies_the_requirement(
    pool: Pool, requirements: str, machines: set[str]
) -> None:
    number, _ = submit(pool, requirements)
    assert pool.landed(number) in machines


def test_what_a_job_requests_it_is_given(pool: Pool) -> None:
    number, _ = submit(pool, f'{OS} == "SL" || {OS} == "Debian"', job={"RequestMemory": 3000})
    assert pool.landed(number) == "n3"


def test_the_policy_is_read_back_from_a_queued_job(pool: Pool) -> None:
    policy = (
        f'{CPU_TIME} > 1000 && other.GlueCEPolicyMaxWallClockTime isnt "a\\n$(x) \\\\\' queue 9"'
    )
    number, _ = submit(pool, f'{OS} == "nowhere" && {policy}', "--forward-policy")
    try:
        found = classad(pool, "policy", "htcondor", number, "--json")
        assert found.returncode == 0, found.stderr
        assert parse_expr(json.loads(found.stdout)["policy"]) is parse_expr(policy)
        one = classad(pool, "policy", "htcondor", f"{number}.0", "--json")
        assert json.loads(one.stdout)["policy"] == json.loads(found.stdout)["policy"]
    finally:
        pool.run("condor_rm", number)
    # The owner of the job is no job, nor is a number that nobody has.
    owner = classad(pool, "policy", "htcondor", "nobody")
    assert (owner.returncode, "not the name of a job" in owner.stderr) == (2, True)
    assert classad(pool, "policy", "htcondor", "99999").returncode == 1
