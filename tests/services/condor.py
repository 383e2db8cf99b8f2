"""A real HTCondor pool: which machines does a submit description match, where does its job run?

One ``condor_master`` runs a collector, a negotiator, a schedd and a startd for each machine of the
pool, all on this host and on loopback alone, in a private temporary folder. The release of Debian
at hand has no HTCondor; ``unpack_condor.sh`` has unpacked that of a later one, with the C library
it needs, and each program is run by that library's own loader, through a script of a line. Jobs are
started without it: they live in the machine as it is. Its procd follows their processes: without
one, starter and startd crash here where many processes come and go beside them.

HTCondor lets nobody submit as root, so that root runs all of it as an ordinary user. The master
stops its daemons and they their jobs; should the test process be killed, the kernel tells the
master to.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

STOP_SECONDS = 20.0

UNPACKED = Path(__file__).resolve().parents[2] / ".peers" / "condor"
USER = "nobody"

_CONFIGURATION = """\
CONDOR_HOST = 127.0.0.1
COLLECTOR_HOST = 127.0.0.1:{port}
BIND_ALL_INTERFACES = False
NETWORK_INTERFACE = 127.0.0.1
ENABLE_IPV6 = False
NO_DNS = True
DEFAULT_DOMAIN_NAME = test
FULL_HOSTNAME = pool.test
UID_DOMAIN = test
FILESYSTEM_DOMAIN = test
TRUST_UID_DOMAIN = True

LOCAL_DIR = {folder}
RELEASE_DIR = {folder}
BIN = {folder}/bin
SBIN = {folder}/bin
LIBEXEC = {folder}/bin
LOG = {folder}/log
RUN = {folder}/log
LOCK = {folder}/log
SPOOL = {folder}/spool
EXECUTE = {folder}/execute

SEC_DEFAULT_AUTHENTICATION = OPTIONAL
SEC_DEFAULT_AUTHENTICATION_METHODS = FS, CLAIMTOBE
SEC_CLIENT_AUTHENTICATION_METHODS = FS, CLAIMTOBE
SEC_DEFAULT_ENCRYPTION = OPTIONAL
SEC_DEFAULT_INTEGRITY = OPTIONAL
ALLOW_READ = *
ALLOW_WRITE = *
ALLOW_ADMINISTRATOR = *
ALLOW_CONFIG =
ALLOW_NEGOTIATOR = *
ALLOW_DAEMON = *

USE_SHARED_PORT = False
USE_PROCD = True
PROCD_ADDRESS = {folder}/log/procd
PROCD_LOG = {folder}/log/ProcLog
RUNBENCHMARKS = False
SHUTDOWN_GRACEFUL_TIMEOUT = 5
SHUTDOWN_FAST_TIMEOUT = 5

NEGOTIATOR_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
NEGOTIATOR_MIN_INTERVAL = 1
NEGOTIATOR_UPDATE_INTERVAL = 10
SCHEDD_INTERVAL = 1
SCHEDD_MIN_INTERVAL = 1
UPDATE_INTERVAL = 5
CLAIM_WORKLIFE = 0
START = True
SUSPEND = False
PREEMPT = False
KILL = False
RANK = 0
DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD
"""

_MACHINE = """\
STARTD_{name} = $(STARTD)
STARTD_{name}_ARGS = -f -local-name {name}
{name}.STARTD_NAME = {name}
{name}.STARTD_LOG = {folder}/log/StartLog.{name}
{name}.STARTD_ADDRESS_FILE = {folder}/log/{name}.address
{name}.STARTER_LOG = {folder}/log/StarterLog.{name}
{name}.EXECUTE = {folder}/execute/{name}
{name}.NUM_CPUS = {cpus}
{name}.MEMORY = {memory}
{name}.STARTD_ATTRS = $(STARTD_ATTRS) {names}
DAEMON_LIST = $(DAEMON_LIST), STARTD_{name}
"""


class RefusedError(Exception):
    """HTCondor does not understand what it is told, or refuses it; the message is its own."""


@attrs.frozen
class Machine:
    """A machine of the pool, with what it advertises besides: names and expressions."""

    name: str
    cpus: int = 1
    memory: int = 1000
    attributes: Mapping[str, str] = attrs.Factory(dict)

    def lines(self, folder: Path) -> str:
        """Its part of the configuration."""
        text = _MACHINE.format(
            name=self.name, folder=folder, cpus=self.cpus, memory=self.memory,
            names=" ".join(self.attributes),
        )  # fmt: skip
        return text + "".join(f"{self.name}.{n} = {v}\n" for n, v in self.attributes.items())


@attrs.frozen
class Pool:
    """A running pool, and the environment in which HTCondor's commands reach it."""

    folder: Path
    environment: dict[str, str] = attrs.field(repr=False)

    def run(self, *argv: str) -> str:
        """What one of its commands prints. Raises RefusedError where it fails."""
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False,
            env=self.environment, cwd=self.folder, timeout=START_SECONDS,
        )  # fmt: skip
        if done.returncode != 0:
            raise RefusedError((done.stderr or done.stdout).strip())
        return done.stdout

    def advertise(self, ads: Iterable[Mapping[str, object]]) -> None:
        """Tells the collector of machines that are nowhere else; expressions by name."""
        texts = ["".join(f"{name} = {value}\n" for name, value in ad.items()) for ad in ads]
        self._write("machines.ads", "\n".join(texts))
        self.run("condor_advertise", "-multiple", "UPDATE_STARTD_AD", "machines.ads")

    def rewritten(self, text: str, form: str, to: str) -> str:
        """What ``condor_transform_ads`` writes of ads: forms are long, new, json and xml."""
        self._write("same.rules", "NAME same\nTRANSFORM\n")
        self._write("ads.in", text)
        argv = ["condor_transform_ads", "-rules", "same.rules", f"-in:{form}", "ads.in"]
        # Its exit status says how many ads there were.
        return subprocess.run(
            [*argv, f"-out:{to},nosort", "-"], capture_output=True, text=True, check=False,
            env=self.environment, cwd=self.folder, timeout=START_SECONDS,
        ).stdout  # fmt: skip

    def job(self, argv: Sequence[str], *lines: str) -> str:
        """The ad that ``condor_submit`` makes of a job, which is not submitted.

        Raises RefusedError where it does not understand what it is told.
        """
        self._description(lines)
        # What was there of an earlier job would be added to.
        (self.folder / "job.ad").unlink(missing_ok=True)
        self.run("condor_submit", "-dry-run", "job.ad", *argv, "job.sub")
        return (self.folder / "job.ad").read_text()

    def matched(self, argv: Sequence[str], *lines: str) -> set[str]:
        """The machines that a job so described matches, by ``condor_q``'s analysis of the pool.

        Raises RefusedError where the description is not understood.
        """
        self.job(argv, *lines)
        printed = self.run("condor_q", "-better-analyze:reverse,summary", "-jobads", "job.ad")
        # Name, kind of slot, the slot takes the job, the job takes the slot, both of them.
        rows = [line.split() for line in printed.splitlines()]
        table = [row for row in rows if len(row) == 5 and row[2].isdigit()]
        return {row[0] for row in table if row[4] == "100.00"}

    def submit(self, argv: Sequence[str], *lines: str) -> str:
        """Submits a job with these lines in its description; its number."""
        self._description(lines)
        return self.run("condor_submit", "-terse", *argv, "job.sub").split()[0]

    def landed(self, job: str) -> str:
        """Waits for the end of a job; the name of the startd that ran it."""
        give_up = time.monotonic() + START_SECONDS
        while time.monotonic() < give_up:
            slot = self.run("condor_history", job, "-af", "LastRemoteHost").strip()
            if slot:
                return slot.split("@")[1]
            time.sleep(0.1)
        said = self.run("condor_q", job, "-af", "JobStatus", "HoldReason")
        raise RefusedError(f"job {job} did not run: {said.strip()}")

    def _description(self, lines: Iterable[str]) -> None:
        self._write("job.sub", "\n".join(["executable = /bin/true", *lines, "queue", ""]))

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")


@contextlib.contextmanager
def pool(machines: Iterable[Machine]) -> Iterator[Pool]:
    """Runs a pool of these machines; it and its folder are gone afterwards.

    Raises:
        ServiceUnavailable: It is not unpacked or does not start here.
    """
    inventory = tuple(machines)
    if not UNPACKED.is_dir():
        raise ServiceUnavailable("HTCondor is not unpacked (`make test` does it where it may)")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="condor-")))
        made = Pool(folder, _prepared(folder, inventory))
        log = folder / "log" / "master.out"
        argv = [*_as_user(), str(folder / "bin" / "condor_master"), "-f"]
        process = stack.enter_context(daemon(argv, log, made.environment))
        try:
            wait(lambda: _answers(made, inventory), process, log)
            yield made
        finally:
            # Its daemons have groups of their own, and the jobs again: the master ends them all.
            process.send_signal(signal.SIGQUIT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)


def _as_user() -> tuple[str, ...]:
    if os.getuid() != 0:
        return ()
    user = pwd.getpwnam(USER)
    words = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--")
    return (program("setpriv"), *words)


def _answers(made: Pool, machines: Sequence[Machine]) -> bool:
    try:
        slots = made.run("condor_status", "-af", "State").split()
        return len(slots) >= len(machines) and bool(
            made.run("condor_status", "-schedd", "-af", "Name")
        )
    except RefusedError:
        return False


def _prepared(folder: Path, machines: Iterable[Machine]) -> dict[str, str]:
    """The folders, programs and configuration of a pool, and the environment that points there."""
    machines = tuple(machines)
    for name in ("bin", "log", "spool", "execute", *(f"execute/{m.name}" for m in machines)):
        (folder / name).mkdir()
    folder.chmod(0o755)
    _programs(folder)
    configuration = folder / "condor_config"
    parts = [m.lines(folder) for m in machines]
    configuration.write_text(
        _CONFIGURATION.format(folder=folder, port=free_port()) + "".join(parts)
    )
    if os.getuid() == 0:
        user = pwd.getpwnam(USER)
        for place in (folder, *folder.rglob("*")):
            os.chown(place, user.pw_uid, user.pw_gid, follow_symlinks=False)
    return {
        "PATH": os.pathsep.join([str(folder / "bin"), PATH]),
        "LC_ALL": "C",
        "CONDOR_CONFIG": str(configuration),
    }


def _programs(folder: Path) -> None:
    """A script for each program, which runs it with the C library that it was made for."""
    root = UNPACKED
    if subprocess.run([*_as_user(), "test", "-r", str(root / "usr")], check=False).returncode != 0:
        root = folder / "unpacked"
        shutil.copytree(UNPACKED, root, symlinks=True)
    libraries = next(root.glob("usr/lib/*/libc.so.6")).parent
    loader = next(libraries.glob("ld-linux*.so.*"))
    for place in ("bin", "sbin", "libexec/condor"):
        for path in (root / "usr" / place).glob("condor_*"):
            with path.open("rb") as file:
                if file.read(4) != b"\x7fELF":
                    continue
            if place == "bin":
                guard = " ".join(_as_user())
            else:
                # A daemon must not outlive the one that started it, nor the master the test
                # process; what the kernel was told of that before a change of user is forgotten.
                guard = f"{program('setpriv')} --pdeathsig TERM --"
            script = folder / "bin" / path.name
            script.write_text(
                f"#!/bin/sh\nexec {guard} '{loader}' --library-path '{libraries}:{root}/usr/lib'"
                f" --argv0 {path.name} '{path}' \"$@\"\n"
            )
            script.chmod(0o755)


@pytest.fixture(scope="session")
def condor() -> Iterator[Callable[[Iterable[Machine]], Pool]]:
    """A factory of pools, which run until the session ends."""
    with contextlib.ExitStack() as stack:

        def start(machines: Iterable[Machine]) -> Pool:
            try:
                return stack.enter_context(pool(machines))
            except ServiceUnavailable as error:
                pytest.skip(f"no HTCondor here: {error}")

        yield start
