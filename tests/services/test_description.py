"""What real batch systems say of themselves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from matchmaker import batch, glue, read_ads
from matchmaker.batch.description import commands, formats
from matchmaker.classad import UNDEFINED, ClassAd
from tests.cli.test_nodes import COMMAND as INTERRUPTED
from tests.services.daemons import ServiceUnavailable, program
from tests.services.gridengine import Complex, GridEngine, QueueOf, RefusedError, working
from tests.services.slurm import SlurmNode, SlurmOracle, restartable

pytestmark = pytest.mark.service

NODES = (
    SlurmNode("n1", cpus=2, memory_mb=1000, tmp_mb=1500, features=("el8", "si300")),
    SlurmNode("n2", cpus=8, memory_mb=8000, features=("el9",), gres="gpu:a100:2"),
    SlurmNode("n3", cpus=16, memory_mb=4000),
)


def asked(oracle: SlurmOracle, argv: Sequence[str]) -> str:
    done = subprocess.run(
        argv, capture_output=True, text=True, check=True, env=oracle.environment, timeout=60
    )
    return done.stdout


def test_slurm_describes_itself(slurm: Callable[[Iterable[SlurmNode]], SlurmOracle]) -> None:
    oracle = slurm(NODES)
    found = batch.describe("slurm", lambda argv: asked(oracle, argv))
    assert not found.issues
    for node, ad in zip(NODES, found.nodes, strict=True):
        assert ad.eval("Name") == node.name
        assert ad.eval("Cpus") == ad.eval("FreeCpus") == node.cpus
        assert ad.eval("Memory") == ad.eval("FreeMemory") == node.memory_mb
        assert ad.eval("Disk") == node.tmp_mb * 1024
        assert ad.eval("Features") == list(node.features)
        assert ad.eval("GPUs") == ad.eval("FreeGPUs") == (2 if node.gres else 0)
        assert ad.eval("GPUModel") == ("a100" if node.gres else UNDEFINED)
        assert ad.eval("Queues") == ["main"]
        assert ad.eval("Available") is True
    (queue,) = found.queues
    assert queue.eval("GlueCEStateStatus") == "Production"
    assert queue.eval("GlueCEInfoTotalCPUs") == queue.eval("GlueCEStateFreeCPUs") == 26
    assert queue.eval("GlueCEStateTotalJobs") == 0
    assert queue.eval("IsDefault") is True


def test_slurm_says_the_same_in_json(
    slurm: Callable[[Iterable[SlurmNode]], SlurmOracle],
) -> None:
    oracle = slurm(NODES)
    lines = batch.describe("slurm", lambda argv: asked(oracle, argv))
    data = batch.read_description("slurm", [("sinfo", asked(oracle, ["sinfo", "--json"]))])
    # What partitions say is not there.
    for one, other in zip(lines.nodes, data.nodes, strict=True):
        for name in one:
            if name not in ("Native", "NodeState", "QueueAds", "MaxWallClockTime"):
                assert one.eval(name) == other.eval(name), name


def test_changes_are_seen_where_a_node_is_drained(
    slurm: Callable[[Iterable[SlurmNode]], SlurmOracle],
) -> None:
    oracle = slurm(NODES)

    def ask(argv: Sequence[str]) -> str:
        return asked(oracle, argv)

    before = batch.describe("slurm", ask)
    update = ["scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=NodeName=n9 State=IDLE"]
    asked(oracle, update)
    try:
        after = batch.describe("slurm", ask)
        (change,) = batch.changes(before.nodes, after.nodes)
        assert change.name == "n2"
        assert change.attributes() == ["NodeState", "Available"]
        assert after.nodes[1].eval("Available") is False
        (queue,) = after.queues
        assert queue.eval("GlueCEStateFreeCPUs") == 18
    finally:
        asked(oracle, ["scontrol", "update", "NodeName=n2", "State=RESUME"])
    assert len(commands("slurm")) == 3


def test_watching_goes_on_while_slurm_is_down(tmp_path: Path) -> None:
    """A change is seen, the daemon dies and comes back, and an interrupt ends it at any time."""
    written = tmp_path / "nodes.ad"
    with ExitStack() as stack:
        try:
            controller = stack.enter_context(restartable(NODES[:2]))
            running = stack.enter_context(ExitStack())
            oracle = running.enter_context(controller())
        except ServiceUnavailable as error:
            pytest.skip(f"no Slurm here: {error}")
        words = ["nodes", "--lrms", "slurm", "--watch", "0.2", "--write", str(written)]
        environment = {**os.environ, **oracle.environment}
        process = stack.enter_context(
            subprocess.Popen(
                [*INTERRUPTED, *words],
                text=True,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
        stack.callback(process.kill)
        assert process.stdout is not None
        assert process.stderr is not None
        for name in ("n1", "n2"):
            assert process.stdout.readline().split()[1:] == [name, "is", "here"]
        asked(oracle, ["scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=x"])
        assert "Available true -> false" in process.stdout.readline()
        assert [ad.eval("Available") for ad in read_ads(written)] == [True, False]
        running.close()
        said = process.stderr.readline()
        while "Connection reset by peer" in said:  # As it ended, it was being asked.
            said = process.stderr.readline()
        assert "Unable to contact slurm controller" in said
        assert len(list(read_ads(written))) == 2
        running.enter_context(controller())
        asked(oracle, ["scontrol", "delete", "NodeName=n1"])
        said = ""
        while "n1 is gone" not in said:
            said = process.stdout.readline()
            assert said
        assert [ad.eval("Name") for ad in read_ads(written)] == ["n2"]
        running.close()
        # Until the next complaint a command waits for the daemon, most of the time.
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        left = process.stderr.read()
        assert "Traceback" not in left
        assert left.endswith("classad: interrupted\n")


@pytest.fixture(scope="module")
def engine(gridengine: Callable[[], GridEngine]) -> GridEngine:
    made = gridengine()
    made.configure(
        [Complex("bigmem", "BOOL", "=="), Complex("si00", "INT", "<=")],
        [
            QueueOf("fast.q", {"bigmem": "TRUE", "si00": "600"}, 4, {"h_rt": "24:00:00"}),
            QueueOf("slow.q", {"bigmem": "FALSE", "si00": "1"}, 2, {"h_cpu": "0:30:0"}),
        ],
    )
    return made


def test_grid_engine_describes_itself(engine: GridEngine) -> None:
    found = batch.describe("sge", engine.run)
    assert not found.issues
    (node,) = found.nodes
    assert node.eval("Name") == "localhost"
    assert node.eval("Cpus") == node.eval("FreeCpus") == 6
    assert node.eval("Queues") == ["fast.q", "slow.q"]
    # An integer of 1 is no feature.
    assert node.eval("Features") == ["bigmem"]
    # No execution daemon has reported from there.
    assert node.eval("NodeState") == "u"
    assert node.eval("Available") is False
    fast, slow = found.queues
    assert fast.eval("GlueCEPolicyMaxWallClockTime") == 24 * 60
    assert slow.eval("GlueCEPolicyMaxCPUTime") == 30
    assert fast.eval("GlueCEInfoTotalCPUs") == 4
    assert fast.eval("GlueCEStateStatus") == "Queueing"


def test_the_oracle_selects_as_grid_engine_does(engine: GridEngine) -> None:
    assert engine.selected(["-l", "si00=500"]) == {"fast.q"}
    assert engine.selected(["-l", "si00=1"]) == {"fast.q", "slow.q"}
    assert engine.selected(["-l", "bigmem=TRUE"]) == {"fast.q"}
    assert engine.selected(["-l", "si00=601"]) == set()
    with pytest.raises(RefusedError, match="nothere"):
        engine.selected(["-l", "nothere=1"])


def test_slurm_says_whom_a_partition_admits(
    slurm: Callable[[Iterable[SlurmNode]], SlurmOracle],
) -> None:
    oracle = slurm(NODES)

    def described() -> ClassAd:
        [queue] = batch.describe("slurm", lambda argv: asked(oracle, argv)).queues
        return queue

    def update(*words: str) -> None:
        asked(oracle, ["scontrol", "update", "PartitionName=main", *words])

    assert described().eval("LocalAccess") is UNDEFINED
    update("AllowGroups=adm,root", "DenyAccounts=evil")
    try:
        assert described().eval("LocalAccess") == [
            ClassAd({"AllowedGroups": ["adm", "root"], "DeniedAccounts": ["evil"]})
        ]
        assert described().eval("GlueCEAccessControlBaseRule") == ["DENY:ALL"]
    finally:
        update("AllowGroups=ALL", "DenyAccounts=")
    assert described().eval("LocalAccess") is UNDEFINED
    assert described().eval("GlueCEPolicyMaxWallClockTime") == glue.UNLIMITED


def test_slurm_keeps_nodes_for_maintenance(
    slurm: Callable[[Iterable[SlurmNode]], SlurmOracle],
) -> None:
    oracle = slurm(NODES)

    def state_while(wanted: bool) -> ClassAd:
        """The node, when it is kept or no longer is, or after a minute."""
        give_up = time.monotonic() + 60
        while True:
            node = batch.describe("slurm", lambda argv: asked(oracle, argv)).nodes[2]
            kept = "MAINTENANCE" in str(node.eval("NodeState"))
            if kept is wanted or time.monotonic() > give_up:
                return node
            time.sleep(0.2)

    asked(oracle, ["scontrol", "create", "reservation", "ReservationName=m", "StartTime=now",
                   "Duration=60", "Flags=maint", "Nodes=n3", "Users=root"])  # fmt: skip
    try:
        assert state_while(wanted=True).eval("Available") is False
    finally:
        asked(oracle, ["scontrol", "delete", "ReservationName=m"])
    assert state_while(wanted=False).eval("Available") is True


def rest(oracle: SlurmOracle, version: str, what: str) -> str:
    """What slurmrestd answers, started for one request alone."""
    request = f"GET /slurm/v{version}/{what} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    done = subprocess.run(
        [program("slurmrestd"), "-a", "rest_auth/local", "-s", f"openapi/v{version}"],
        input=request, capture_output=True, text=True, check=True, timeout=60,
        # It would rather not run as root, and not as the user of the controller.
        env={**oracle.environment, "SLURMRESTD_SECURITY": "disable_user_check"},
    )  # fmt: skip
    return done.stdout[done.stdout.index("{") : done.stdout.rindex("}") + 1]


@pytest.mark.parametrize("version", ["0.0.37", "0.0.38"])
@pytest.mark.parametrize("kind", ["MaxMemPerNode", "MaxMemPerCPU"])
def test_slurmrestd_says_what_lines_say(
    slurm: Callable[[Iterable[SlurmNode]], SlurmOracle], version: str, kind: str
) -> None:
    oracle = slurm(NODES)
    try:
        asked(oracle, ["scontrol", "update", "PartitionName=main", "AllowGroups=adm,root",
                       "MaxCPUsPerNode=4", f"{kind}=3000", "MaxTime=90"])  # fmt: skip
        asked(oracle, ["sbatch", "--hold", "--array=1-5", "--wrap", "true"])
        lines = batch.describe("slurm", lambda argv: asked(oracle, argv))
        texts = [(what, rest(oracle, version, what)) for what in ("nodes", "partitions", "jobs")]
        data = batch.read_description("slurm", texts)
    except ServiceUnavailable as error:
        pytest.skip(f"no slurmrestd here: {error}")
    finally:
        asked(oracle, ["scontrol", "update", "PartitionName=main", "AllowGroups=ALL",
                       "MaxCPUsPerNode=UNLIMITED", "MaxMemPerNode=0",
                       "MaxTime=UNLIMITED"])  # fmt: skip
        asked(oracle, ["scancel", "--me"])
    assert data.issues == ()
    # Slurm-web hands on the lists alone.
    lists = [(what, json.dumps(json.loads(text)[what])) for what, text in texts]
    assert batch.read_description("slurm", lists) == data
    [partition] = json.loads(dict(texts)["partitions"])["partitions"]
    assert {partition[name] for name in ("denied_accounts", "allowed_qos", "denied_qos")} == {""}
    for one, other in zip((*lines.nodes, *lines.queues), (*data.nodes, *data.queues), strict=True):
        for name in one:
            if name not in ("Native", "NodeState"):
                assert one.eval(name) == other.eval(name), name
    assert lines.queues[0].eval("GlueCEStateWaitingJobs") == 5
    limit = {"MaxMemPerNode": "MaxMemoryPerNode", "MaxMemPerCPU": "MaxMemoryPerCpu"}[kind]
    facts = [lines.queues[0].eval(name) for name in ("MaxCpusPerNode", limit)]
    assert (facts, lines.nodes[0].eval("MaxWallClockTime")) == ([4, 3000], 90)


def test_the_version_that_runs_here_is_declared(
    slurm: Callable[[Iterable[SlurmNode]], SlurmOracle], engine: GridEngine
) -> None:
    running = {version for known in formats("slurm") for version in known.running}
    release = asked(slurm(NODES), ["scontrol", "--version"]).split()[1]
    meta = json.loads(asked(slurm(NODES), ["sinfo", "--json"]))["meta"]
    assert ".".join(release.split(".")[:2]) in running
    assert meta["plugin"]["type"].rpartition("/v")[2] in running
    running = {version for known in formats("sge") for version in known.running}
    release = engine.run(["qconf", "-help"]).split("\n")[0].split()[-1]
    assert any(release.startswith(version) for version in running), release


@pytest.fixture(scope="module")
def two_hosts(gridengine: Callable[..., GridEngine]) -> GridEngine:
    made = gridengine(["node1", "node2"])
    for name in ("node1", "node2"):
        made.add_host(name)
    settings = {
        "hostlist": "node1 node2",
        "h_rt": "01:30:00,[node2=01:00:00]",
        "user_lists": "deadlineusers",
    }
    made.configure([], [QueueOf("all.q", {}, 4, settings)])
    return made


def test_limits_of_hosts_of_a_real_queue(two_hosts: GridEngine) -> None:
    found = batch.describe("sge", two_hosts.run)
    limits = {ad.eval("Name"): ad.eval("MaxWallClockTime") for ad in found.nodes}
    assert limits == {"localhost": UNDEFINED, "node1": 90, "node2": 60}
    [queue] = found.queues
    assert queue.eval("GlueCEPolicyMaxWallClockTime") == 60
    assert queue.eval("GlueCEPolicyMaxCPUTime") == glue.UNLIMITED
    assert queue.eval("LocalAccess") == [ClassAd({"AllowedUserLists": ["deadlineusers"]})]
    # The configuration alone says the same of the queue, and the instances of the hosts.
    for argv in (["qconf", "-sq", "*"], ["qstat", "-F", "-xml"]):
        alone = batch.read_description("sge", [("x", two_hosts.run(argv))])
        assert alone.queues[0].eval("GlueCEPolicyMaxWallClockTime") == 60


def test_one_output_of_grid_engine_is_enough(two_hosts: GridEngine) -> None:
    qhost = batch.read_description("sge", [("qhost", two_hosts.run(["qhost", "-xml"]))])
    assert [ad.eval("Name") for ad in qhost.nodes] == ["localhost", "node1", "node2"]
    # No execution daemon has reported from there.
    assert [ad.eval("Available") for ad in qhost.nodes] == [False] * 3
    assert qhost.queues == ()
    qstat = batch.read_description("sge", [("qstat", two_hosts.run(["qstat", "-f", "-xml"]))])
    nodes = {ad.eval("Name"): (ad.eval("Cpus"), ad.eval("NodeState")) for ad in qstat.nodes}
    assert nodes == {"node1": (4, "u"), "node2": (4, "u")}
    [queue] = qstat.queues
    assert queue.eval("GlueCEInfoTotalCPUs") == 8
    assert queue.eval("GlueCEStateStatus") == "Queueing"


def test_a_host_of_grid_engine_that_reports() -> None:
    with ExitStack() as stack:
        try:
            engine = stack.enter_context(working())
        except ServiceUnavailable as error:
            pytest.skip(f"no Grid Engine here: {error}")
        platform = "GlueHostArchitecturePlatformType"
        commands_ = (["qhost", "-xml"], ["qhost", "-F", "-q", "-xml"], ["qstat", "-f", "-xml"])
        for argv in commands_:
            [node] = batch.read_description("sge", [("x", engine.run(argv))]).nodes
            assert node.eval(platform) == os.uname().machine, argv
            knows_queues = argv != ["qhost", "-xml"]
            assert node.eval("Available") is (True if knows_queues else UNDEFINED), argv
            assert isinstance(node.eval("Memory"), int) is (argv[0] == "qhost"), argv
        [node] = batch.describe("sge", engine.run).nodes
        assert node.eval("NodeState") == "ok"
        assert node.eval("MaxWallClockTime") == glue.UNLIMITED
