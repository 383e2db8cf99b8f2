"""A real Slurm controller as an oracle: which nodes do these submit options select?

Only two daemons run: ``munged``, which signs messages, and ``slurmctld``, which schedules. No node
daemon is needed, because every node is declared ``State=CLOUD``: the controller takes such a node
to be asleep but able to start, believes the sizes and features in the configuration, and plans jobs
on it. The question is put with ``sbatch --test-only -w NODE OPTIONS --wrap true``, which plans a
job, prints where it would run and forgets it; an answer takes a few milliseconds.

Slurm's answer to one node is one of three:

- it prints a start time: **yes**;
- *Requested node configuration is not available*, or *More processors requested than permitted*,
  by the limit of the partition or by all its nodes together: **no**;
- anything else (an unknown option, feature, host or generic resource, a bad size) is a fault of the
  options themselves and raises `UsageError` with Slurm's own words.

One message means two things: *Invalid node name specified* is the answer both when ``-x`` names a
host that does not exist and when it names the very node asked for. The second is a plain no, so the
question is put again without ``-w``, and only if that fails in the same way are the options wrong.

Everything lives in a private temporary folder and on free loopback ports, so that several
controllers (one for each inventory, in each test process) run side by side. The daemons run in the
foreground as children of the test process, as its own user; they are stopped through their process
objects, and the kernel stops them should the test process be killed.

The fixture `slurm` is a factory and remembers its controllers until the session ends::

    def test_memory(slurm):
        oracle = slurm([SlurmNode("n1", cpus=2, memory_mb=1000), SlurmNode("n2", 8, 8000)])
        assert oracle.selected(["--mem=4000M"]) == {"n2"}
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import attrs
import pytest

from tests.services.daemons import (
    PATH,
    START_SECONDS,
    ServiceUnavailable,
    daemon,
    free_port,
    program,
    wait,
)

_ATTEMPTS = 5

_NOT_AVAILABLE = "Requested node configuration is not available"
_TOO_MANY = "More processors requested than permitted"
_NO_SUCH_NODE = "Invalid node name specified"
_PORT_TAKEN = "Address already in use"

_CONFIGURATION = """\
ClusterName=matchmaker
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
CommunicationParameters=NoCtldInAddrAny
SlurmUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdSpoolDir={folder}/spool.%n
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdUser={user}
SlurmdParameters=config_overrides
ReturnToService=2
JobCompType=jobcomp/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
MailProg={true}
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerNode=1
EnforcePartLimits=ALL
SuspendProgram={true}
ResumeProgram={true}
SuspendTime={suspend}
PrivateData=cloud
"""


class UsageError(Exception):
    """The options are wrong in themselves, whatever the node; the message is Slurm's."""


def _plain(_: object, attribute: attrs.Attribute[str], value: str) -> None:
    """Refuse a word that would mean something else in slurm.conf."""
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*", value) is None:
        raise ValueError(f"{attribute.name} {value!r} cannot stand in slurm.conf")


@attrs.frozen
class SlurmNode:
    """A node as slurm.conf describes it; ``gres`` is like ``gpu:2`` or ``gpu:a100:2``.

    A node without ``partitions`` is in ``main``, which has all nodes if none names a partition.
    ``settings`` are further words of its line, such as ``MemSpecLimit=3000``.
    """

    name: str = attrs.field(validator=_plain)
    cpus: int
    memory_mb: int
    tmp_mb: int = 0
    features: tuple[str, ...] = attrs.field(
        default=(),
        validator=attrs.validators.deep_iterable(_plain, attrs.validators.instance_of(tuple)),
    )
    gres: str | None = attrs.field(default=None, validator=attrs.validators.optional(_plain))
    partitions: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    def line(self) -> str:
        """The node's line in slurm.conf."""
        words = [
            f"NodeName={self.name}",
            f"CPUs={self.cpus}",
            f"RealMemory={self.memory_mb}",
            f"TmpDisk={self.tmp_mb}",
        ]
        if self.features:
            words.append(f"Feature={','.join(self.features)}")
        if self.gres is not None:
            words.append(f"Gres={self.gres}")
        return " ".join([*words, *self.settings])


@attrs.frozen
class SlurmOracle:
    """Puts submit options to one running controller."""

    nodes: tuple[SlurmNode, ...]
    sbatch: str
    folder: Path
    environment: dict[str, str] = attrs.field(repr=False)

    def accepts(self, node_name: str, argv: Sequence[str]) -> bool:
        """Whether a job of one node with these ``sbatch`` options may run on the node.

        Raises:
            UsageError: The options are wrong in themselves.
            ValueError: The node is unknown, or the options choose hosts with ``-w`` or ``-F``,
                where the oracle's own ``-w`` would take their place without a word.
        """
        if all(node.name != node_name for node in self.nodes):
            raise ValueError(f"no node {node_name!r} in this inventory")
        if any(re.match(r"-w|-F|--nodel|--nodef", word) for word in argv):
            raise ValueError("the oracle chooses the node itself: -w and -F cannot be tried")
        message = self._submit(["-w", node_name, *argv])
        if message is None:
            return True
        if _NO_SUCH_NODE in message:
            # Excluded by -x, or -x names a host that does not exist? Only the second is wrong
            # without our own -w.
            anywhere = self._submit(argv)
            if anywhere is None or _NOT_AVAILABLE in anywhere:
                return False
        if _NOT_AVAILABLE in message or _TOO_MANY in message:
            return False
        raise UsageError(message)

    def selected(self, argv: Sequence[str]) -> set[str]:
        """The names of all nodes on which a job of one node with these options may run."""
        return {node.name for node in self.nodes if self.accepts(node.name, argv)}

    def takes(self, argv: Sequence[str]) -> str | None:
        """Submit a job that is held, and cancel it; None if it was taken, else what Slurm said.

        Some limits count only here, and not with ``--test-only``: memory for each processor.
        """
        done = self._run(self.sbatch, "--hold", "--parsable", "-N", "1", *argv, "--wrap", "true")
        if done.returncode:
            return done.stderr.strip()
        self._run(program("scancel"), done.stdout.strip())
        return None

    def _submit(self, argv: Sequence[str]) -> str | None:
        """Plan a job; None if it can run, else what Slurm said."""
        done = self._run(self.sbatch, "--test-only", "-N", "1", *argv, "--wrap", "true")
        return None if done.returncode == 0 else (done.stderr or done.stdout).strip()

    def _run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv, capture_output=True, text=True, check=False, env=self.environment,
            cwd=self.folder, timeout=START_SECONDS,
        )  # fmt: skip


@contextlib.contextmanager
def _munge(folder: Path) -> Iterator[None]:
    """Run ``munged`` with a key of its own in ``folder``."""
    folder.mkdir(mode=0o755)
    key = folder / "key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    places = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed"}
    argv = [program("munged"), "--foreground", "--num-threads=2"]
    argv += [f"--{option}={folder / place}" for option, place in places.items()]
    log = folder / "munged.log"
    with daemon(argv, log) as process:
        wait((folder / "socket").exists, process, log)
        yield


def _configured(
    folder: Path,
    nodes: tuple[SlurmNode, ...],
    where: Callable[[SlurmNode], str],
    settings: str = "",
) -> SlurmOracle:
    """Write slurm.conf for a controller on a free port.

    ``where`` is the rest of a node's line: how its daemon is reached, or that it needs none.
    """
    configuration = folder / "slurm.conf"
    (folder / "state").mkdir(exist_ok=True)
    head = _CONFIGURATION.format(
        folder=folder, port=free_port(), user=os.getuid(), true=program("true"),
        # Only nodes without a daemon are put to sleep.
        suspend=600 if all("CLOUD" in where(node) for node in nodes) else "INFINITE",
    )  # fmt: skip
    kinds = {node.gres.partition(":")[0] for node in nodes if node.gres is not None}
    lines = [f"GresTypes={','.join(sorted(kinds))}"] if kinds else []
    lines += [f"{node.line()} {where(node)}" for node in nodes]
    partitions: dict[str, list[str]] = {"main": []}
    for node in nodes:
        for name in node.partitions or ("main",):
            partitions.setdefault(name, []).append(node.name)
    lines += [
        f"PartitionName={name} Nodes={','.join(members)} MaxTime=UNLIMITED State=UP"
        f" Default={'YES' if name == 'main' else 'NO'}"
        for name, members in partitions.items() if members
    ]  # fmt: skip
    configuration.write_text(head + settings + "\n".join(lines) + "\n")
    # Nothing of the caller's: SBATCH_* variables are options too.
    environment = {"PATH": PATH, "LC_ALL": "C", "SLURM_CONF": str(configuration)}
    return SlurmOracle(nodes, program("sbatch"), folder, environment)


@contextlib.contextmanager
def _running(
    oracle: SlurmOracle, *options: str, prefix: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``slurmctld`` beside a running ``munged``; it answers when this yields."""
    scontrol = program("scontrol")
    log = oracle.folder / "slurmctld.log"

    def answers() -> bool:
        done = subprocess.run(
            [scontrol, "ping"],
            capture_output=True,
            text=True,
            check=False,
            env=oracle.environment,
            timeout=START_SECONDS,
        )
        return done.returncode == 0 and " is UP" in done.stdout

    argv = [*prefix, program("slurmctld"), "-D", "-f", str(oracle.folder / "slurm.conf"), *options]
    with daemon(argv, log) as process:
        wait(answers, process, log)
        yield process


@contextlib.contextmanager
def _controller(
    folder: Path,
    nodes: tuple[SlurmNode, ...],
    where: Callable[[SlurmNode], str] = lambda node: "State=CLOUD",
    settings: str = "",
) -> Iterator[SlurmOracle]:
    oracle = _configured(folder, nodes, where, settings)
    with _running(oracle):
        yield oracle


@contextlib.contextmanager
def cluster(nodes: Iterable[SlurmNode]) -> Iterator[SlurmOracle]:
    """Run a controller for these nodes; the daemons and their folder are gone afterwards.

    Raises:
        ServiceUnavailable: The daemons are not installed or do not start here.
    """
    inventory = tuple(nodes)
    for name in ("munged", "slurmctld", "scontrol", "sbatch"):
        program(name)
    # Not pytest's own folder: the name of a socket may not be longer than about 100 characters.
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        # munged insists that others may pass through the folder of its socket.
        folder.chmod(0o755)
        stack.enter_context(_munge(folder / "munge"))
        for attempt in range(_ATTEMPTS):
            try:
                oracle = stack.enter_context(_controller(folder, inventory))
            except ServiceUnavailable as error:
                # Another process may have taken the port since it was found free.
                if _PORT_TAKEN not in str(error) or attempt == _ATTEMPTS - 1:
                    raise
            else:
                yield oracle
                return


@contextlib.contextmanager
def restartable(
    nodes: Iterable[SlurmNode],
) -> Iterator[Callable[[], contextlib.AbstractContextManager[SlurmOracle]]]:
    """A function that runs a controller for these nodes; the next goes on where one was stopped.

    Raises:
        ServiceUnavailable: The daemons are not installed or do not start here.
    """
    inventory = tuple(nodes)
    for name in ("munged", "slurmctld", "scontrol", "sbatch"):
        program(name)
    with tempfile.TemporaryDirectory(prefix="slurm-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with _munge(folder / "munge"):
            yield lambda: _controller(folder, inventory)


@attrs.frozen
class Farm:
    """A cluster whose nodes run a daemon each, all on this machine, so that jobs run."""

    oracle: SlurmOracle

    def submit(self, argv: Sequence[str], script: str) -> str:
        """Submits a job script and waits for its end; what it wrote. Raises UsageError."""
        path = self.oracle.folder / "job.sh"
        path.write_text(f"#!/bin/sh\n{script}\n")
        output = self.oracle.folder / "job.out"
        output.unlink(missing_ok=True)
        done = self._run("sbatch", "--parsable", f"--output={output}", "-N1", *argv, str(path))
        if done.returncode:
            raise UsageError(done.stderr.strip())
        # The option --wait asks after seconds only.
        job = done.stdout.strip()
        give_up = time.monotonic() + START_SECONDS
        state = ""
        while state != "COMPLETED":
            if time.monotonic() > give_up or state == "FAILED":
                raise UsageError(f"the job has not come to its end, but is {state}")
            time.sleep(0.05)
            state = self._run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").stdout.strip()
        return output.read_text()

    def refusal(self, argv: Sequence[str]) -> str:
        """Submits a job, and cancels it; why Slurm did not take it, empty where it did."""
        done = self._run("sbatch", "--parsable", "-N1", *argv, "--wrap", "true")
        if done.returncode == 0:
            self._run("scancel", done.stdout.strip())
        return done.stderr.strip()

    def queue(self, argv: Sequence[str]) -> str:
        """Submits a job that is held, and so stays queued; its name."""
        done = self._run("sbatch", "--hold", "--parsable", *argv, "--wrap", "true")
        if done.returncode:
            raise UsageError(done.stderr.strip())
        return done.stdout.strip()

    def queued(self, argv: Sequence[str], lines: Sequence[str] = ()) -> dict[str, str]:
        """What Slurm says of a job that is held, submitted with options and a job script."""
        script = self.oracle.folder / "held.sh"
        script.write_text("\n".join(("#!/bin/sh", *lines, "true")) + "\n")
        done = self._run("sbatch", "--hold", "--parsable", *argv, str(script))
        if done.returncode:
            raise UsageError(done.stderr.strip())
        job = done.stdout.strip()
        said = self._run("scontrol", "show", "job", job).stdout
        self._run("scancel", job)
        # One line of the answer may hold several facts; a comment has a line of its own.
        found = dict(re.findall(r"^ +(Comment)=(.*?) ?$", said, re.MULTILINE))
        return {**dict(re.findall(r"([A-Za-z/]+)=(\S+)", said)), **found}

    def _run(self, name: str, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program(name), *argv], capture_output=True, text=True, check=False,
            env=self.oracle.environment, cwd=self.oracle.folder, timeout=START_SECONDS,
        )  # fmt: skip


@contextlib.contextmanager
def farm(nodes: Iterable[SlurmNode], settings: str = "") -> Iterator[Farm]:
    """Run a controller and a ``slurmd`` for each node, with more lines of ``slurm.conf``.

    Raises:
        ServiceUnavailable: The daemons are not installed or do not start here.
    """
    inventory = tuple(nodes)
    if os.getuid() != 0:
        raise ServiceUnavailable("slurmd runs jobs as root only")
    slurmd = program("slurmd")
    ports = {node.name: free_port() for node in inventory}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        folder.chmod(0o755)
        stack.enter_context(_munge(folder / "munge"))

        def where(node: SlurmNode) -> str:
            here = f"NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[node.name]}"
            return f"{here} State=UNKNOWN"

        # Devices are files, one each.
        gres = []
        for node in (node for node in inventory if node.gres):
            kind, model, count = str(node.gres).split(":")
            for number in range(int(count)):
                (device := folder / f"{node.name}.{kind}{number}").touch()
                gres.append(f"NodeName={node.name} Name={kind} Type={model} File={device}\n")
        (folder / "gres.conf").write_text("".join(gres))
        oracle = stack.enter_context(_controller(folder, inventory, where, settings))
        made = Farm(oracle)
        for node in inventory:
            log = folder / f"slurmd-{node.name}.log"
            (folder / f"spool.{node.name}").mkdir()
            argv = [slurmd, "-D", "-N", node.name, "-f", str(folder / "slurm.conf")]
            process = stack.enter_context(daemon(argv, log, oracle.environment))

            def is_idle(name: str = node.name) -> bool:
                said = made._run("sinfo", "-h", "-n", name, "-o", "%t").stdout
                return set(said.split()) == {"idle"}

            wait(is_idle, process, log)
        yield made


@pytest.fixture(scope="session")
def slurm() -> Iterator[Callable[[Iterable[SlurmNode]], SlurmOracle]]:
    """A factory of oracles: nodes to a running controller, the same nodes to the same one."""
    with contextlib.ExitStack() as stack:
        running: dict[tuple[SlurmNode, ...], SlurmOracle] = {}

        def start(nodes: Iterable[SlurmNode]) -> SlurmOracle:
            inventory = tuple(nodes)
            if inventory not in running:
                try:
                    running[inventory] = stack.enter_context(cluster(inventory))
                except ServiceUnavailable as error:
                    pytest.skip(f"no Slurm here: {error}")
            return running[inventory]

        # Programs that are not installed skip every test at once, before any of its work.
        try:
            for name in ("munged", "slurmctld", "sbatch"):
                program(name)
        except ServiceUnavailable as error:
            pytest.skip(f"no Slurm here: {error}")
        yield start
