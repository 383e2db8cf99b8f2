"""A real Grid Engine master: which queues do these submit options select, what does it say of them?

Only ``sge_qmaster`` runs. Each class of nodes is a queue on this host, with what the nodes have as
the queue's complex values, which the options of ``qsub`` and ``qselect`` are held against in
the same way; where names of hosts matter, the master has its own table of hosts, all of them this
one. Everything lives in a private temporary folder and on free loopback ports.

The master insists on not being root, so that root runs it as the user of Debian's package.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
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

LIBRARY = Path("/usr/lib/gridengine")
SHARED = Path("/usr/share/gridengine")
ADMIN = "sgeadmin"

_HOST = """\
hostname localhost
load_scaling NONE
complex_values NONE
user_lists NONE
xuser_lists NONE
projects NONE
xprojects NONE
usage_scaling NONE
report_variables NONE
"""


class RefusedError(Exception):
    """Grid Engine does not understand the options, or refuses them; the message is its own."""


@attrs.frozen
class Complex:
    """A resource of the site's own: its type (INT, MEMORY, BOOL …) and how it compares."""

    name: str
    type: str
    relation: str
    requestable: str = "YES"
    consumable: str = "NO"

    def line(self) -> str:
        """Its line in the list of complexes."""
        default = "NONE" if self.type in ("STRING", "CSTRING", "RESTRING", "HOST") else "0"
        words = (self.name, self.name, self.type, self.relation, self.requestable)
        return " ".join((*words, self.consumable, default, "0"))


@attrs.frozen
class QueueOf:
    """A queue that stands for a class of nodes: what they have, and settings of queue_conf."""

    name: str
    values: Mapping[str, str] = attrs.Factory(dict)
    slots: int = 1
    settings: Mapping[str, str] = attrs.Factory(dict)


@attrs.frozen
class GridEngine:
    """A running master."""

    environment: dict[str, str] = attrs.field(repr=False)
    folder: Path
    prefix: tuple[str, ...] = ()
    as_admin: tuple[str, ...] = ()
    process: list[subprocess.Popen[bytes]] = attrs.field(factory=list, repr=False)

    def start(self, stack: contextlib.ExitStack) -> None:
        """Starts the master, on what state there is, until the stack is closed."""
        log = self.folder / "qmaster.log"
        argv = [*self.as_admin, str(LIBRARY / "sge_qmaster")]
        process = stack.enter_context(daemon(argv, log, self.environment))
        wait(lambda: _answers(self), process, log)
        self.process[:] = [process]

    def run(self, argv: Sequence[str]) -> str:
        """What one of its commands prints. Raises RefusedError where it fails."""
        done = subprocess.run(
            [*self.prefix, str(LIBRARY / argv[0]), *argv[1:]],
            capture_output=True,
            text=True,
            check=False,
            env=self.environment,
            cwd=self.folder,
            timeout=START_SECONDS,
        )
        if done.returncode != 0:
            raise RefusedError((done.stderr or done.stdout).strip())
        return done.stdout

    def selected(self, argv: Sequence[str]) -> set[str]:
        """The names of the queues that a job with these options may run in.

        Raises RefusedError where Grid Engine does not understand the options.
        """
        try:
            printed = self.run(["qselect", *argv])
        except RefusedError as error:
            if not str(error):
                self._check(argv)
                return set()
            raise
        return {line.partition("@")[0] for line in printed.split()}

    def _check(self, argv: Sequence[str]) -> None:
        """It fails in silence both where no queue will do and where a resource is unknown."""
        try:
            self.run(["qsub", "-w", "v", "-b", "y", *argv, "true"])
        except RefusedError as error:
            if "verification:" not in str(error):
                raise

    def add_host(self, name: str) -> None:
        """Adds a host on which jobs may run."""
        self._give("-Ae", _HOST.replace("localhost", name))

    def submitted(self, argv: Sequence[str], lines: Sequence[str] = ()) -> dict[str, str]:
        """What Grid Engine says of a job that is held, submitted with options and a job script."""
        script = self.folder / "job.sh"
        script.write_text("\n".join(("#!/bin/sh", *lines, "true")) + "\n")
        job = self.run(["qsub", "-terse", "-h", *argv, str(script)]).strip()
        said = self.run(["qstat", "-j", job])
        self.run(["qdel", job])
        return {
            name.strip(): value.strip()
            for name, value in re.findall(r"^([^:\n]+):(.*)$", said, re.MULTILINE)
        }

    def configure(self, complexes: Iterable[Complex], queues: Iterable[QueueOf]) -> None:
        """Sets the complexes and adds queues."""
        known = self.run(["qconf", "-sc"])
        self._give("-Mc", known + "".join(f"{one.line()}\n" for one in complexes))
        template = self.run(["qconf", "-sq"])
        for queue in queues:
            values = ",".join(f"{name}={value}" for name, value in queue.values.items())
            settings = {
                "qname": queue.name,
                "hostlist": "localhost",
                "load_thresholds": "NONE",
                "pe_list": "NONE",
                "slots": str(queue.slots),
                "complex_values": values or "NONE",
                **queue.settings,
            }
            lines = [
                f"{name} {settings.get(name, value)}"
                for name, value in (line.split(None, 1) for line in template.splitlines())
            ]
            self._give("-Aq", "\n".join(lines) + "\n")

    def _give(self, option: str, text: str) -> None:
        with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".txt") as file:
            file.write(text)
            file.flush()
            self.run(["qconf", option, file.name])


@contextlib.contextmanager
def working(slots: int = 4) -> Iterator[GridEngine]:
    """Runs a master, and on this host a daemon that runs jobs in a queue of some slots.

    Raises:
        ServiceUnavailable: They are not installed or do not start here.
    """
    program("sge_execd")
    if os.getuid() != 0:
        raise ServiceUnavailable("sge_execd runs jobs as root only")
    with master() as engine, contextlib.ExitStack() as stack:
        spool = engine.folder / "execd"
        spool.mkdir()
        shutil.chown(spool, ADMIN, ADMIN)
        known = engine.run(["qconf", "-sconf"]).replace("\\\n", "")
        known = re.sub(r"(?m)^#.*\n", "", known)
        known = re.sub(r"(?m)^execd_spool_dir .*", f"execd_spool_dir {spool}", known)
        # What has ended is in the accounting at once.
        known = known.replace(
            "flush_time=00:00:15", "flush_time=00:00:00 accounting_flush_time=00:00:00"
        )
        (engine.folder / "global").write_text(known.lstrip())
        engine.run(["qconf", "-Mconf", str(engine.folder / "global")])
        engine._give("-Msconf", engine.run(["qconf", "-ssconf"]).replace("0:0:15", "0:0:1"))
        engine.configure([], [QueueOf("all.q", slots=slots)])
        log = engine.folder / "execd.log"
        argv = [str(LIBRARY / "sge_execd")]
        process = stack.enter_context(daemon(argv, log, engine.environment))
        wait(lambda: " - " not in engine.run(["qhost", "-h", "localhost"]).splitlines()[-1],
             process, log)  # fmt: skip
        yield engine


@contextlib.contextmanager
def master(hosts: Iterable[str] = ()) -> Iterator[GridEngine]:
    """Runs a master without queues; it and its folder are gone afterwards.

    ``hosts`` are further names that this machine has for the master and its commands alone.

    Raises:
        ServiceUnavailable: It is not installed or does not start here.
    """
    for name in ("sge_qmaster", "qconf", "qhost", "qselect"):
        program(name)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gridengine-")))
        environment = _prepared(folder)
        under = _with_hosts(folder, tuple(hosts))
        as_admin = [program("setpriv"), f"--reuid={ADMIN}", f"--regid={ADMIN}", "--clear-groups"]
        prefix = as_admin if os.getuid() == 0 else []
        for words in (
            ["spoolinit", "berkeleydb", "libspoolb", str(folder / "spool"), "init"],
            ["spooldefaults", "configuration", str(folder / "configuration")],
            ["spooldefaults", "complexes", str(SHARED / "util/resources/centry")],
            ["spooldefaults", "usersets", str(SHARED / "util/resources/usersets")],
            ["spooldefaults", "managers", ADMIN, "root"],
        ):
            subprocess.run(
                [*prefix, str(LIBRARY / words[0]), *words[1:]],
                check=True, env=environment, capture_output=True, timeout=START_SECONDS,
            )  # fmt: skip
        engine = GridEngine(environment, folder, under, (*under, *prefix))
        engine.start(stack)
        engine.run(["qconf", "-as", "localhost"])
        engine._give("-Ae", _HOST)
        yield engine


def _with_hosts(folder: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    """The words before a command that give it a table of hosts of its own."""
    if not names:
        return ()
    if os.getuid() != 0:
        raise ServiceUnavailable("only root can give a command a table of hosts of its own")
    table = folder / "hosts"
    lines = [f"127.0.0.1 localhost {os.uname().nodename}"]
    lines += [f"127.0.0.{number} {name}" for number, name in enumerate(names, 2)]
    table.write_text("\n".join(lines) + "\n")
    script = 'mount --bind "$0" /etc/hosts && exec "$@"'
    under = (program("unshare"), "--mount", "sh", "-c", script, str(table))
    done = subprocess.run([*under, "true"], capture_output=True, check=False)
    if done.returncode:
        raise ServiceUnavailable("no table of hosts of its own can be given to a command here")
    return under


def _answers(engine: GridEngine) -> bool:
    try:
        engine.run(["qconf", "-sm"])
    except RefusedError:
        return False
    return True


def _prepared(folder: Path) -> dict[str, str]:
    """The root of an installation of its own, and the environment that points to it."""
    cell = folder / "root" / "cell" / "common"
    for place in (cell, folder / "spool", folder / "qmaster" / "job_scripts"):
        place.mkdir(parents=True)
    folder.chmod(0o755)
    for part in ("bin", "lib", "utilbin", "util"):
        (folder / "root" / part).symlink_to(Path("/var/lib/gridengine", part).resolve())
    bootstrap = (SHARED / "default-bootstrap").read_text()
    for old, new in (("spooldb", "spool"), ("qmaster", "qmaster")):
        bootstrap = bootstrap.replace(f"/var/spool/gridengine/{old}", str(folder / new))
    (cell / "bootstrap").write_text(bootstrap)
    # Tests may run as root, whose jobs are refused otherwise.
    configuration = (SHARED / "default-configuration").read_text()
    for limit in ("min_uid", "min_gid"):
        configuration = re.sub(rf"^{limit} .*$", f"{limit} 0", configuration, flags=re.MULTILINE)
    (folder / "configuration").write_text(configuration)
    (cell / "act_qmaster").write_text("localhost\n")
    (cell / "host_aliases").write_text(f"localhost {os.uname().nodename}\n")
    if os.getuid() == 0:
        for place in (folder, *folder.rglob("*")):
            if not place.is_symlink():
                shutil.chown(place, ADMIN, ADMIN)
    return {
        "PATH": PATH,
        "LC_ALL": "C",
        "SGE_ROOT": str(folder / "root"),
        "SGE_CELL": "cell",
        "SGE_QMASTER_PORT": str(free_port()),
        "SGE_EXECD_PORT": str(free_port()),
        # It stays in the foreground.
        "SGE_ND": "1",
    }


@pytest.fixture(scope="session")
def gridengine() -> Iterator[Callable[..., GridEngine]]:
    """A factory of masters, each without queues as yet, which run until the session ends.

    It may be given further names of hosts.
    """
    with contextlib.ExitStack() as stack:

        def start(hosts: Iterable[str] = ()) -> GridEngine:
            try:
                return stack.enter_context(master(hosts))
            except ServiceUnavailable as error:
                pytest.skip(f"no Grid Engine here: {error}")

        yield start
