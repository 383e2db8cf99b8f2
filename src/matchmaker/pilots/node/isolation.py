"""Isolation of jobs: accounts, control groups, orphaned processes, and the pilot's own directory.

Jobs may run under accounts, each for one running job (``classad pilot --run-as``). Root alone can
do this: the keeper's child becomes the account before it runs the program (``keeper``). An account
gets its next job only after the last one has left nothing: no process, no directory, no file in the
shared temporary directories, no shared memory. An account that cannot be cleared gets no job any
more. A lock keeps two pilots of one node from the same account; keepers hold it too, so that a
killed pilot's account stays taken until its job has ended.

If the pilot may divide its own control group (``cgroups(7)``, version 2), each task has a group in
it. No process leaves a group by a fork or a new session; the kernel freezes and kills a group at
once, and limits its memory. Otherwise the processes below the task's keeper get signals. If a
keeper is killed, the pilot becomes the parent of its processes, and ends them (``prctl(2)``).

The pilot and the keepers of its jobs hold a lock on the pilot's directory. If a pilot was killed
together with its keepers, as when the node lost power, the next pilot on the node removes it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import pwd
import secrets
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Final

import attrs

from matchmaker.pilots.node.keeper import (
    OWN,
    Process,
    adopt_orphans,
    as_account,
    below,
    end_processes_of,
    lock,
    processes,
    processes_of,
    remove,
    remove_dead,
    remove_group,
    send_signal,
    write_group,
)

LOCKS: Final = Path("/run/classad-pilot")
"""Where the locks of accounts are; root alone may enter it."""
SHARED: Final = ("/tmp", "/var/tmp", "/run/lock", "/dev/shm", "/dev/mqueue")  # noqa: S108 - to be cleared
# A helper may be killed as an orphan, since the pilot does not know it: then it runs again.
_TRIES: Final = 5
_PROGRAMS: Final = ("sh", "chmod", "find")
_DIVIDED: Final[ContextVar[Path | None]] = ContextVar("_DIVIDED", default=None)
"""The control group in which each task gets its own; None for none."""
# Processes that fork while they are stopped are found in the next round.
_ROUNDS: Final = 40
KEEPERS: Final[set[int]] = set()
"""The keepers of this process; its other children are orphans of killed keepers."""
STARTING: Final[set[str]] = set()
"""The directories of tasks whose keepers are being made, and are not known yet."""
# A child that is still unknown at the sixth look is an orphan: a keeper becomes known at once.
_LOOKS: Final = 6
# The hunt for orphans ends after this time, since the job's result waits for it.
_SECONDS: Final = 2.0


@attrs.frozen(slots=True, kw_only=True)
class Account:
    """An account of this node, for jobs alone; ``lock`` is an open file with its lock."""

    name: str
    user: int
    group: int
    groups: tuple[int, ...]
    lock: int = attrs.field(eq=False)


class Accounts:
    """The accounts of a pilot; one thread takes them, any may return one."""

    def __init__(self, names: Iterable[str], *, locks: Path = LOCKS) -> None:
        """Lock accounts by their names. Raises ValueError for an unusable one, and OSError."""
        if os.geteuid() != 0:
            raise ValueError(
                "--run-as: this pilot is not root, and cannot run a job under another account."
                " Start it as root; or let the batch system run one pilot for each account, as in"
                " sudo -u ACCOUNT classad pilot …, and give its token that account's owner"
            )
        for program in _PROGRAMS:
            if shutil.which(program) is None:
                raise ValueError(f"--run-as needs the program {program}, which is not here")
        self._free: list[Account] = []
        self._all: list[Account] = []
        self._locks = locks
        try:
            for name in names:
                self._all.append(self._taken(name))
        except BaseException:
            self.close()
            raise
        self._free += self._all

    def __len__(self) -> int:
        """Return how many are free."""
        return len(self._free)

    def take(self) -> Account | None:
        """Return an account for a job; None if none is free."""
        return self._free.pop(0) if self._free else None

    def leave(self, account: Account, directory: Path) -> str:
        """Clear the account of a job that has ended; return why it gets no other job, or "".

        ``directory`` is the pilot's, with those of its jobs.
        """
        problem = clear_account(account)
        for _ in range(_TRIES):
            left = [] if problem else _owned_by(account, directory)
            for path in left:
                remove(path)
        if left := _owned_by(account, directory):
            problem = problem or f"{account.name}: {left[0]} could not be removed"
        if not problem:
            self._free.append(account)
        return problem

    def admits(self, directory: Path) -> None:
        """Raise ValueError if an account cannot enter a directory."""
        for account in self._free:
            if as_account(account.user, account.group, 'cd -- "$1"', str(directory)) != 0:
                raise ValueError(
                    f"--run-as: {account.name} cannot enter {directory}: give --dir with a"
                    " directory that all may pass through (chmod 711 it and those above it)"
                )

    def close(self) -> None:
        """Release the accounts to other pilots, but for those that keepers lock."""
        for account in self._all:
            os.close(account.lock)
        self._all.clear()
        self._free.clear()

    def _taken(self, name: str) -> Account:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            raise ValueError(f"--run-as: there is no account {name!r} on this node") from None
        user, group = found.pw_uid, found.pw_gid
        if user == 0 or user in {each.user for each in self._all}:
            why = "is root" if user == 0 else "is named twice"
            raise ValueError(f"--run-as: {name} {why}; name accounts that are for jobs alone")
        groups = tuple(os.getgrouplist(name, group))
        if 0 in groups:
            raise ValueError(f"--run-as: {name} is in root's group; take it out")
        self._locks.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._locks / str(user), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        account = Account(name=name, user=user, group=group, groups=groups, lock=lock)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ValueError(
                    f"--run-as: another pilot's jobs run as {name}: give each pilot accounts of"
                    " its own"
                ) from None
            there = processes_of(user)
            problem = (
                f"processes of {name} run already, such as {there[0]}: name accounts that are for"
                " jobs alone, since all their processes are ended after each job"
                if there
                else clear_account(account)
            )
        except BaseException:
            os.close(lock)
            raise
        if problem:
            os.close(lock)
            raise ValueError(f"--run-as: {problem}")
        return account


def clear_account(account: Account) -> str:
    """End an account's processes, and remove its files in shared places; return why not, or ""."""
    if problem := end_processes_of(account.user, account.group):
        return f"{account.name}: {problem}"
    _remove_ipc(account.user)
    left: list[Path] = []
    for _ in range(_TRIES):
        left = [path for place in SHARED for path in _owned_by(account, Path(place))]
        if not left:
            return ""
        for path in left:
            remove(path)
    return f"{account.name}: {left[0]} could not be removed"


def _owned_by(account: Account, directory: Path) -> list[Path]:
    """Return the entries of a directory that belong to an account."""
    found = []
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_uid == account.user:
                    found.append(Path(entry.path))
    return found


def _remove_ipc(user: int) -> None:
    """Remove the shared memory, semaphores and queues of System V of an account."""
    libc = ctypes.CDLL(None)
    removers: dict[str, Callable[[int], object]] = {
        "shm": lambda number: libc.shmctl(number, 0, None),
        "sem": lambda number: libc.semctl(number, 0, 0),
        "msg": lambda number: libc.msgctl(number, 0, None),
    }
    for kind, remover in removers.items():
        with suppress(OSError):
            heading, *lines = Path("/proc/sysvipc", kind).read_text("ascii").splitlines()
            names = heading.split()
            for line in lines:
                words = line.split()
                row = dict(zip(names, words, strict=False))
                if str(user) in {row.get("uid"), row.get("cuid")}:
                    remover(int(words[1]))


@attrs.frozen(slots=True)
class ProcessTree:
    """The processes below a keeper, which get signals."""

    keeper: int

    def members(self) -> list[Process]:
        """Return the processes at this moment."""
        return below(self.keeper, processes())

    def stop(self) -> None:
        """Suspend all, also processes that are started meanwhile."""
        for _ in range(_ROUNDS):
            active = [each for each in self.members() if each.state not in "TtZX"]
            if not active:
                return
            for each in active:
                send_signal(each.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue all."""
        for each in self.members():
            send_signal(each.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill all, and the keeper."""
        for each in self.members():
            send_signal(each.pid, signal.SIGKILL)
        send_signal(self.keeper, signal.SIGKILL)

    def memory(self) -> int:
        """Return their memory in bytes."""
        return sum(each.memory for each in self.members())

    def remove(self) -> None:
        """Do nothing: without a control group nothing remains."""


@attrs.frozen(slots=True)
class ControlGroup(ProcessTree):
    """The processes below a keeper, in a control group."""

    directory: Path

    def stop(self) -> None:
        """Freeze the group."""
        if not write_group(self.directory, "cgroup.freeze", "1"):
            ProcessTree.stop(self)

    def go_on(self) -> None:
        """Thaw the group."""
        if not write_group(self.directory, "cgroup.freeze", "0"):
            ProcessTree.go_on(self)

    def kill(self) -> None:
        """Kill the group, and the keeper."""
        write_group(self.directory, "cgroup.kill", "1")
        ProcessTree.kill(self)

    def memory(self) -> int:
        """Return the memory of the group in bytes, if the kernel counts it."""
        try:
            return int((self.directory / "memory.current").read_text())
        except (OSError, ValueError):
            return ProcessTree.memory(self)

    def remove(self) -> None:
        """Remove the group, and kill the rest of its processes."""
        remove_group(self.directory)


def new_group(memory: int | None) -> Path | None:
    """Make a control group for a task; None if the pilot may not divide its own.

    Its processes together may have a number of bytes of memory, if the kernel can limit them.
    """
    place = _DIVIDED.get()
    if place is None:
        return None
    directory = place / f"task.{secrets.token_hex(8)}"
    try:
        directory.mkdir()
    except OSError:
        return None
    limit_memory(directory, memory)
    return directory


def limit_memory(directory: Path, memory: int | None) -> None:
    """Limit the memory of a group; beyond it, the kernel kills all its processes."""
    if memory is not None and write_group(directory, "memory.max", str(memory)):
        write_group(directory, "memory.oom.group", "1")
        write_group(directory, "memory.swap.max", "0")


@contextmanager
def dividing_group(place: Path | None) -> Iterator[None]:
    """Give each task that starts in the block a control group in the pilot's own, if any.

    Memory is limited if the process is alone in its group: it moves to a group below, because a
    group with its own processes does not pass memory on (``cgroups(7)``, "no internal processes").
    """
    if place is None:
        yield
        return
    leaf = place / f"pilot.{os.getpid()}"
    moved = _move_to_leaf(place, leaf)
    token = _DIVIDED.set(place)
    try:
        yield
    finally:
        _DIVIDED.reset(token)
        if moved:
            _move_back(place, leaf)


def own_group() -> Path | None:
    """Return the control group of this process if it may divide it; else None."""
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
    """Return the directory of a process's group of version 2.

    The arguments are the texts of ``/proc/PID/cgroup`` and ``/proc/PID/mountinfo``.

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


def _move_to_leaf(place: Path, leaf: Path) -> bool:
    """Move the process below its group, which then passes memory on; False if that fails."""
    try:
        if "memory" not in (place / "cgroup.controllers").read_text().split():
            return False
        leaf.mkdir()
    except OSError:
        return False
    done = write_group(leaf, "cgroup.procs", "0") and write_group(
        place, "cgroup.subtree_control", "+memory"
    )
    if not done:
        _move_back(place, leaf)
    return done


def _move_back(place: Path, leaf: Path) -> None:
    write_group(place, "cgroup.subtree_control", "-memory")
    write_group(place, "cgroup.procs", "0")
    with suppress(OSError):
        leaf.rmdir()


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """Make this process the parent of the processes of killed keepers."""
    adopt_orphans(yes=True)
    try:
        yield
    finally:
        # Nobody would wait for the processes that others in this process leave behind.
        adopt_orphans(yes=False)


def end_orphans(keeper: int) -> None:
    """Kill the processes of a killed keeper, which are this process's now, and all below them.

    This process may have no other children but keepers. A child is only killed if it stays unknown
    for a while, because it may be a keeper that is just being started.
    """
    seen: Counter[int] = Counter()
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until:
        sure = not STARTING
        among = processes()
        sure = sure and not STARTING
        strays = [
            each.pid for each in among.values()
            if each.parent == os.getpid() and each.pid != keeper and each.pid not in KEEPERS
        ]  # fmt: skip
        # Its pipes close before its children become ours.
        dying = keeper in among and among[keeper].state not in "ZX"
        if not strays and not dying:
            return
        seen.update(strays)
        for stray in strays:
            if sure or seen[stray] > _LOOKS:
                for each in below(stray, among):
                    send_signal(each.pid, signal.SIGKILL)
                send_signal(stray, signal.SIGKILL)
                with suppress(ChildProcessError):
                    os.waitpid(stray, os.WNOHANG)
        time.sleep(0.005 if sure else 0.05)


@contextmanager
def own_directory(given: str | None, *, passable: bool = False) -> Iterator[Path]:
    """Make a new directory for a pilot, for as long as the block lasts. Raises OSError.

    It is in ``given``; by default in ``TMPDIR``, as the batch system sets it, or ``/tmp``. If it is
    ``passable``, other accounts may pass through it to directories of their own, but not list it.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as place:
    ...     with own_directory(place) as mine:
    ...         (mine / "left").touch()
    ...     os.listdir(place)
    []
    """
    place = Path(given or os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - its own one is below
    if not place.is_dir():
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(0o711 if passable else 0o700)
    for each in place.glob(f"{OWN}*"):
        remove_dead(each)
    # The name of one that waits for its lock is another, so that nobody takes it for a dead one's.
    new = place / f".{secrets.token_hex(8)}"
    new.mkdir(mode=0o700)
    if passable:
        new.chmod(0o711)
    held = lock(new, fcntl.LOCK_SH)
    mine = new.rename(place / f"{OWN}{secrets.token_hex(8)}")
    try:
        yield mine
    finally:
        remove(mine)
        if held is not None:
            os.close(held)
