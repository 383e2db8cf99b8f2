"""A real Slurm that a test may break: its controller and its nodes are killed, stopped, restarted.

The controller saves its state every five seconds, as everywhere; a test that kills it sooner loses
what it acknowledged since.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import attrs
import pytest

from matchmaker.pilots.node.keeper import below, processes
from tests.services.daemons import ServiceUnavailable, daemon, free_port, program, wait
from tests.services.slurm import SlurmNode, SlurmOracle, _configured, _munge, _running

PATIENCE = 60.0

_SETTINGS = """\
MessageTimeout=3
KillWait=1
SlurmdTimeout=6
MinJobAge={min_age}
"""


def until(holds: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Waits until something holds; fails with what it was."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.1)


@attrs.define
class BreakableSlurm:
    """A controller and its nodes, by their processes."""

    oracle: SlurmOracle
    _controller: contextlib.ExitStack = attrs.Factory(contextlib.ExitStack)
    _nodes: dict[str, contextlib.ExitStack] = attrs.Factory(dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def folder(self) -> Path:
        return self.oracle.folder

    @property
    def environment(self) -> dict[str, str]:
        """The variables for commands."""
        return self.oracle.environment

    def start(self, *options: str, prefix: Sequence[str] = ()) -> None:
        """Starts the controller, on what state there is; ``-c`` forgets it."""
        self.process = self._controller.enter_context(
            _running(self.oracle, *options, prefix=prefix)
        )

    def kill(self) -> None:
        """Kills the controller at once; it saves nothing more."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self._controller.close()

    def _last_save(self) -> int:
        path = self.folder / "state" / "job_state"
        return path.stat().st_mtime_ns if path.exists() else 0

    def saved(self) -> None:
        """Waits until the controller has saved what it knows by now."""
        # A change is saved at once, unless the last save is less than five seconds old.
        for _ in range(2):
            self.just_saved()

    def just_saved(self) -> None:
        """Makes a change and waits until it is saved: five seconds pass before the next save."""
        before = self._last_save()
        number = self.command(
            "sbatch", "--parsable", "--hold", "--job-name=other", "--wrap", "true"
        )  # fmt: skip
        until(lambda: self._last_save() != before, "a saved state")
        self.command("scancel", number.strip())

    def stop(self) -> None:
        """Stops the controller: its port is open, and nobody answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def start_node(self, name: str) -> None:
        """Starts the daemon of a node, and waits until it is idle."""
        log = self.folder / f"slurmd-{name}.log"
        (self.folder / f"spool.{name}").mkdir(exist_ok=True)
        argv = [program("slurmd"), "-D", "-N", name, "-f", str(self.folder / "slurm.conf")]
        stack = self._nodes[name] = contextlib.ExitStack()
        process = stack.enter_context(daemon(argv, log))
        wait(lambda: self.command("sinfo", "-h", "-n", name, "-o", "%t").strip() == "idle",
             process, log)  # fmt: skip

    def lose_node(self, name: str) -> None:
        """Kills a node, its daemon first, and all jobs: nobody can report their end."""
        self._nodes.pop(name).close()
        self._kill()

    def kill_node(self, name: str) -> list[int]:
        """Kills a node as a power cut does: its daemon, and the jobs that run there, at once.

        Gives the processes that were of its jobs. Those of other nodes live.
        """
        among = processes()
        inside = f"SLURM_CONF={self.folder}/".encode()
        here = f"SLURMD_NODENAME={name}\0".encode()
        found: set[int] = set()
        for each in among.values():
            with contextlib.suppress(OSError):
                environment = Path(f"/proc/{each.pid}/environ").read_bytes() + b"\0"
                if inside in environment and here in environment:
                    shepherd = Path(f"/proc/{each.parent}/comm").read_text().strip()
                    top = each.parent if shepherd == "slurmstepd" else each.pid
                    found |= {top, each.pid, *(one.pid for one in below(top, among))}
        # None may see the end of another.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        self._nodes.pop(name).close()
        return sorted(found)

    def _kill(self) -> None:
        """Kills the shepherds of jobs and what they have started, known by their environment."""
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                number = entry.name
                inside = (entry / "environ").read_bytes() if number.isdigit() else b""
                if f"SLURM_CONF={self.folder}/".encode() in inside:
                    os.kill(int(number), signal.SIGKILL)

    def command(self, name: str, *words: str) -> str:
        """What one of Slurm's own commands prints."""
        done = subprocess.run(
            [program(name), *words], capture_output=True, text=True, check=False,
            env=self.oracle.environment, cwd=self.folder, timeout=PATIENCE,
        )  # fmt: skip
        return done.stdout

    def jobs(self, states: str = "") -> list[str]:
        """The names of our jobs that the controller has: of all states that are not over, or some.

        Those that have ended, and whose node is not yet clean, are COMPLETING.
        """
        said = self.command("squeue", "-h", "-o", "%j", *(("-t", states) if states else ()))
        return sorted(name for name in said.split() if name.startswith("mm-"))

    def close(self) -> None:
        for stack in self._nodes.values():
            stack.close()
        if self.process is not None:
            self.go_on()
        self._controller.close()
        # The shepherd of a job waits for its daemon to come back.
        self._kill()


@contextlib.contextmanager
def breakable(
    names: Sequence[str] = ("n1",), *, cpus: int = 4, min_age: int = 300
) -> Iterator[BreakableSlurm]:
    """Runs a controller and nodes of these names.

    Raises:
        ServiceUnavailable: The daemons are not installed or do not start here.
    """
    with breakable_with(lambda _: contextlib.nullcontext(), names, cpus=cpus, min_age=min_age) as (
        made,
        _,
    ):
        yield made


_Beside = TypeVar("_Beside")


@contextlib.contextmanager
def breakable_with(
    beside: Callable[[SlurmOracle], contextlib.AbstractContextManager[_Beside]],
    names: Sequence[str] = ("n1",), *, cpus: int = 4, min_age: int = 300,
) -> Iterator[tuple[BreakableSlurm, _Beside]]:  # fmt: skip
    """The same with what must run before the controller, such as a database.

    Raises:
        ServiceUnavailable: The daemons are not installed or do not start here.
    """
    if os.getuid() != 0:
        raise ServiceUnavailable("slurmd runs jobs as root only")
    for name in ("munged", "slurmctld", "slurmd", "scontrol", "sbatch"):
        program(name)
    ports = {name: free_port() for name in names}
    nodes = tuple(SlurmNode(name, cpus=cpus, memory_mb=1000) for name in names)

    def where(node: SlurmNode) -> str:
        here = f"NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[node.name]}"
        return f"{here} State=UNKNOWN"

    with tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        folder.chmod(0o755)
        with _munge(folder / "munge"):
            oracle = _configured(folder, nodes, where, _SETTINGS.format(min_age=min_age))
            made = BreakableSlurm(oracle)
            with beside(oracle) as more:
                try:
                    made.start()
                    for name in names:
                        made.start_node(name)
                    yield made, more
                finally:
                    made.close()


def two_nodes() -> Iterator[BreakableSlurm]:
    """A Slurm of two nodes, for a fixture; the tests are skipped where there is none."""
    try:
        with breakable(("n1", "n2")) as made:
            yield made
    except ServiceUnavailable as error:
        pytest.skip(f"no Slurm here: {error}")
