"""Suspends, continues and kills all processes of a task at once, and measures their memory.

If the pilot may divide its own control group (``cgroups(7)``, version 2), each task has a group in
it. No process leaves a group by a fork or a new session; the kernel freezes and kills a group at
once, and limits its memory. Otherwise the processes below the task's keeper get signals. The pilot
looks once which of the two it can use. ``keeper`` says what keepers do with a group.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Final

import attrs

from matchmaker.pilots.node.keeper import Process, below, processes, put, send, ungroup

_DIVIDED: Final[ContextVar[Path | None]] = ContextVar("_DIVIDED", default=None)
"""The control group in which each task gets its own; None for none."""
_ROUNDS: Final = 40


@attrs.frozen(slots=True)
class Family:
    """The processes below a keeper, which get signals."""

    keeper: int

    def members(self) -> list[Process]:
        """The processes at this moment."""
        return below(self.keeper, processes())

    def stop(self) -> None:
        """Suspends all, also processes that are started meanwhile."""
        for _ in range(_ROUNDS):
            active = [each for each in self.members() if each.state not in "TtZX"]
            if not active:
                return
            for each in active:
                send(each.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Continues all."""
        for each in self.members():
            send(each.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kills all, and the keeper."""
        for each in self.members():
            send(each.pid, signal.SIGKILL)
        send(self.keeper, signal.SIGKILL)

    def memory(self) -> int:
        """Bytes of memory that they take."""
        return sum(each.memory for each in self.members())

    def remove(self) -> None:
        """Nothing, when all have ended."""


@attrs.frozen(slots=True)
class Group(Family):
    """The same in a control group."""

    directory: Path

    def stop(self) -> None:
        """Freezes the group."""
        if not put(self.directory, "cgroup.freeze", "1"):
            Family.stop(self)

    def go_on(self) -> None:
        """Lets the group go on."""
        if not put(self.directory, "cgroup.freeze", "0"):
            Family.go_on(self)

    def kill(self) -> None:
        """Kills the group, and the keeper."""
        put(self.directory, "cgroup.kill", "1")
        Family.kill(self)

    def memory(self) -> int:
        """Bytes that the group takes, where the kernel counts them."""
        try:
            return int((self.directory / "memory.current").read_text())
        except (OSError, ValueError):
            return Family.memory(self)

    def remove(self) -> None:
        """Removes the group, and kills what is left in it."""
        ungroup(self.directory)


def new_group(memory: int | None) -> Path | None:
    """A control group for a task; None if the pilot may not divide its own.

    Args:
        memory: how many bytes its processes may have together, if the kernel can limit them.
    """
    place = _DIVIDED.get()
    if place is None:
        return None
    directory = place / f"task.{secrets.token_hex(8)}"
    try:
        directory.mkdir()
    except OSError:
        return None
    limit(directory, memory)
    return directory


def limit(directory: Path, memory: int | None) -> None:
    """Limits the memory of a group; beyond it, the kernel kills all its processes."""
    if memory is not None and put(directory, "memory.max", str(memory)):
        put(directory, "memory.oom.group", "1")
        put(directory, "memory.swap.max", "0")


@contextmanager
def dividing(place: Path | None) -> Iterator[None]:
    """Gives each task that starts in the block a control group in one.

    Args:
        place: this process's own group, as ``own_group`` finds it; None for no groups.

    Memory is limited if the process is alone in its group: it moves to a group below, because a
    group with its own processes does not pass memory on (``cgroups(7)``, "no internal processes").
    """
    if place is None:
        yield
        return
    leaf = place / f"pilot.{os.getpid()}"
    moved = _moved(place, leaf)
    token = _DIVIDED.set(place)
    try:
        yield
    finally:
        _DIVIDED.reset(token)
        if moved:
            _moved_back(place, leaf)


def own_group() -> Path | None:
    """The control group of this process, if this process may divide it; else None."""
    try:
        said = Path("/proc/self/cgroup").read_text("utf-8")
        place = group_of(said, Path("/proc/self/mountinfo").read_text("utf-8"))
        if place is None or not os.access(place / "cgroup.procs", os.W_OK):
            return None
        # The root of all groups is no one's to divide, and has no type.
        if (place / "cgroup.type").read_text().strip() != "domain":
            return None
        trial = place / f"trial.{secrets.token_hex(8)}"
        trial.mkdir()
        able = all((trial / f"cgroup.{name}").exists() for name in ("freeze", "kill", "procs"))
        trial.rmdir()
    except (OSError, ValueError):
        return None
    return place if able else None


def group_of(said: str, mounts: str) -> Path | None:
    """The directory of a process's group of version 2.

    Args:
        said: ``/proc/PID/cgroup``.
        mounts: ``/proc/PID/mountinfo``.

    >>> mounts = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
    >>> str(group_of("0::/user.slice/a", mounts))
    '/sys/fs/cgroup/user.slice/a'
    >>> group_of("3:cpuset:/a", mounts), group_of("0::/../a", mounts), group_of("0::/a", "")
    (None, None, None)
    """
    groups = [line[3:] for line in said.splitlines() if line.startswith("0::/")]
    if not groups or ".." in groups[0].split("/"):
        return None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        words = before.split()
        if after.startswith("cgroup2 ") and len(words) > 4:
            with suppress(ValueError):
                return Path(words[4]) / Path(groups[0]).relative_to(words[3])
    return None


def _moved(place: Path, leaf: Path) -> bool:
    """Whether the process has moved below its group, so that this passes memory on."""
    try:
        if "memory" not in (place / "cgroup.controllers").read_text().split():
            return False
        leaf.mkdir()
    except OSError:
        return False
    done = put(leaf, "cgroup.procs", "0") and put(place, "cgroup.subtree_control", "+memory")
    if not done:
        _moved_back(place, leaf)
    return done


def _moved_back(place: Path, leaf: Path) -> None:
    put(place, "cgroup.subtree_control", "-memory")
    put(place, "cgroup.procs", "0")
    with suppress(OSError):
        leaf.rmdir()
