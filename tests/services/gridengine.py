"""A real Grid Engine master as an oracle: which hosts do these submit options select?

Only ``sge_qmaster`` runs, in the foreground, as the test's own user, on a private folder and free
ports. No execution host is needed: each host of an inventory is a queue on ``localhost`` with the
complexes that describe it, and ``qselect`` lists the queues that a job with some options may run
in. It says nothing of a complex that is unknown, so that the oracle looks at the names itself. The
one thing that cannot be tried so is the name of a host; queues are named instead.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
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
RESOURCES = Path("/usr/share/gridengine/util/resources")
PACKAGES = "gridengine-master gridengine-client"

_BOOTSTRAP = """\
admin_user none
default_domain none
ignore_fqdn true
spooling_method classic
spooling_lib libspoolc
spooling_params {cell}/common;{cell}/spool/qmaster
binary_path /usr/sbin
qmaster_spool_dir {cell}/spool/qmaster
security_mode none
listener_threads 2
worker_threads 2
scheduler_threads 1
jvm_threads 0
"""

_CONFIGURATION = """\
execd_spool_dir {cell}/spool
mailer /bin/true
xterm /bin/true
load_sensor none
prolog none
epilog none
shell_start_mode posix_compliant
login_shells sh,bash
min_uid 0
min_gid 0
user_lists none
xuser_lists none
projects none
xprojects none
enforce_project false
enforce_user auto
load_report_time 00:00:40
max_unheard 00:05:00
reschedule_unknown 00:00:00
loglevel log_warning
administrator_mail none
set_token_cmd none
pag_cmd none
token_extend_time none
shepherd_cmd none
qmaster_params none
execd_params none
reporting_params accounting=false reporting=false flush_time=00:00:15 joblog=false
finished_jobs 0
gid_range 20000-20100
qlogin_command builtin
qlogin_daemon builtin
rlogin_command builtin
rlogin_daemon builtin
rsh_command builtin
rsh_daemon builtin
max_aj_instances 2000
max_aj_tasks 75000
max_u_jobs 0
max_jobs 0
auto_user_oticket 0
auto_user_fshare 0
auto_user_default_project none
auto_user_delete_time 86400
delegated_file_staging false
reprioritize false
jsv_url none
jsv_allowed_mod ac,h,i,e,o,j,M,N,p,w
"""

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

_LIMITS = ("rt", "cpu", "fsize", "data", "stack", "core", "rss", "vmem")

_QUEUE = """\
qname {name}
hostlist localhost
seq_no 0
load_thresholds NONE
suspend_thresholds NONE
nsuspend 1
suspend_interval 00:05:00
priority 0
min_cpu_interval 00:05:00
processors UNDEFINED
qtype BATCH INTERACTIVE
ckpt_list NONE
pe_list NONE
rerun FALSE
slots 1
tmpdir /tmp
shell /bin/sh
prolog NONE
epilog NONE
shell_start_mode posix_compliant
starter_method NONE
suspend_method NONE
resume_method NONE
terminate_method NONE
notify 00:00:60
owner_list NONE
user_lists NONE
xuser_lists NONE
subordinate_list NONE
complex_values {values}
projects NONE
xprojects NONE
calendar NONE
initial_state default
"""


class UsageError(Exception):
    """The options are wrong in themselves; the message is Grid Engine's."""


@attrs.frozen
class GridEngine:
    """Puts submit options to one running master, whose queues are the hosts of an inventory."""

    folder: Path
    environment: dict[str, str] = attrs.field(repr=False)
    known: set[str] = attrs.field(factory=set, repr=False)

    def run(self, name: str, *argv: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Runs one of Grid Engine's commands."""
        return subprocess.run(
            [program(name, PACKAGES, self.environment["PATH"]), *argv],
            env=self.environment,
            cwd=self.folder,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=START_SECONDS,
        )

    def configure(self, option: str, text: str) -> None:
        """``qconf`` with a file. Raises ServiceUnavailable for what it does not take."""
        file = self.folder / "given"
        file.write_text(text)
        done = self.run("qconf", option, str(file))
        if done.returncode:
            raise ServiceUnavailable(f"qconf {option}: {done.stderr or done.stdout}")

    def complexes(self, lines: Iterable[str]) -> None:
        """Declares complexes, each a line as in ``qconf -mc``."""
        known = self.run("qconf", "-sc").stdout
        self.configure("-Mc", known + "".join(f"{line}\n" for line in lines))
        text = self.run("qconf", "-sc").stdout
        self.known.update(line.split()[0] for line in text.splitlines())

    def host(self, name: str, values: Mapping[str, object]) -> None:
        """Adds a host of some complexes, as a queue of its name."""
        pairs = ",".join(f"{key}={value}" for key, value in values.items()) or "NONE"
        limits = "".join(f"{kind}_{limit} INFINITY\n" for limit in _LIMITS for kind in "sh")
        self.configure("-Aq", _QUEUE.format(name=name, values=pairs) + limits)

    def selected(self, argv: Sequence[str]) -> set[str]:
        """The hosts that a job with these options may run on. Raises UsageError for bad options."""
        for option, value in pairwise(argv):
            for pair in value.split(",") if option == "-l" else []:
                if pair.partition("=")[0] not in self.known:
                    raise UsageError(f"there is no complex {pair}")
        done = self.run("qselect", *argv)
        if done.stderr.strip():
            raise UsageError(done.stderr.strip())
        return {line.partition("@")[0] for line in done.stdout.split()}


@contextlib.contextmanager
def master() -> Iterator[GridEngine]:
    """Run a master without hosts; it and its folder are gone afterwards.

    Raises:
        ServiceUnavailable: Grid Engine is not installed or does not start here.
    """
    qmaster = program("sge_qmaster", PACKAGES)
    if not (LIBRARY / "spoolinit").exists() or not RESOURCES.is_dir():
        raise ServiceUnavailable(f"Grid Engine is not there (Debian: apt-get install {PACKAGES})")
    with tempfile.TemporaryDirectory(prefix="sge-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        cell = folder / "default"
        (cell / "common").mkdir(parents=True)
        (cell / "spool" / "qmaster").mkdir(parents=True)
        (cell / "common" / "bootstrap").write_text(_BOOTSTRAP.format(cell=cell))
        (cell / "common" / "act_qmaster").write_text("localhost\n")
        own = {os.uname().nodename, "vm"} - {"localhost"}
        (cell / "common" / "host_aliases").write_text(f"localhost {' '.join(sorted(own))}\n")
        (folder / "configuration").write_text(_CONFIGURATION.format(cell=cell))
        (folder / "util").symlink_to(RESOURCES.parent)
        environment = {
            "PATH": f"{PATH}:{LIBRARY}",
            "LC_ALL": "C",
            "LD_LIBRARY_PATH": str(LIBRARY),
            "SGE_ROOT": str(folder),
            "SGE_CELL": "default",
            "SGE_QMASTER_PORT": str(free_port()),
            "SGE_EXECD_PORT": str(free_port()),
            "SGE_ND": "1",
        }
        engine = GridEngine(folder, environment)
        _spool(engine, cell)
        log = folder / "qmaster.log"
        with daemon([qmaster], log, environment) as process:
            wait(lambda: engine.run("qconf", "-sc").returncode == 0, process, log)
            engine.configure("-Ae", _HOST)
            engine.run("qconf", "-as", "localhost")
            yield engine


def _spool(engine: GridEngine, cell: Path) -> None:
    """Writes what a master must find when it starts for the first time."""
    for argv in (
        ["spoolinit", "classic", "libspoolc", f"{cell}/common;{cell}/spool/qmaster", "init"],
        ["spooldefaults", "configuration", str(engine.folder / "configuration")],
        ["spooldefaults", "complexes", str(RESOURCES / "centry")],
        ["spooldefaults", "usersets", str(RESOURCES / "usersets")],
        ["spooldefaults", "managers", _user()],
        ["spooldefaults", "adminhosts", "localhost"],
    ):
        done = engine.run(argv[0], *argv[1:])
        if done.returncode:
            raise ServiceUnavailable(f"{' '.join(argv[:2])}: {done.stderr or done.stdout}")


def _user() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture(scope="session")
def gridengine() -> Iterator[Callable[[], GridEngine]]:
    """The one master of a session, started when it is first asked for."""
    with contextlib.ExitStack() as stack:
        running: list[GridEngine] = []

        def start() -> GridEngine:
            if not running:
                try:
                    running.append(stack.enter_context(master()))
                except ServiceUnavailable as error:
                    pytest.skip(f"no Grid Engine here: {error}")
            return running[0]

        yield start
