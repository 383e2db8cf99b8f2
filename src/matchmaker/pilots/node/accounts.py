"""Accounts that jobs run under, each for one running job (``classad pilot --run-as``).

Root alone can do this: the keeper's child becomes the account before it runs the program
(``keeper``). An account gets its next job only after the last one has left nothing: no process, no
directory, no file in the shared temporary directories, no shared memory. An account that cannot be
cleared gets no job any more. A lock keeps two pilots of one node from the same account; keepers
hold it too, so that a killed pilot's account stays taken until its job has ended.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import pwd
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from matchmaker.pilots.node.keeper import as_account, processes_of, remove, vacate

LOCKS: Final = Path("/run/classad-pilot")
"""Where the locks of accounts are; root alone may enter it."""
SHARED: Final = ("/tmp", "/var/tmp", "/run/lock", "/dev/shm", "/dev/mqueue")  # noqa: S108 - to be cleared
_TRIES: Final = 5
"""The pilot ends processes that it does not know, which may be one of these helpers."""
_PROGRAMS: Final = ("sh", "chmod", "find")


@attrs.frozen(slots=True, kw_only=True)
class Account:
    """An account of this node, for jobs alone.

    Attributes:
        name: its name.
        user: its number.
        group: the number of its group.
        groups: the numbers of all its groups.
        lock: an open file that holds the lock on it.
    """

    name: str
    user: int
    group: int
    groups: tuple[int, ...]
    lock: int = attrs.field(eq=False)


class Accounts:
    """The accounts of a pilot; one thread takes them, any may give one back."""

    def __init__(self, names: Iterable[str], *, locks: Path = LOCKS) -> None:
        """Takes accounts by their names.

        Raises ValueError for one that cannot be used, in words for the site, and OSError.
        """
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
        """How many are free."""
        return len(self._free)

    def take(self) -> Account | None:
        """An account for a job; None if none is free."""
        return self._free.pop(0) if self._free else None

    def leave(self, account: Account, directory: Path) -> str:
        """Clears the account of a job that has ended; why it gets no other job, or "".

        ``directory`` is the pilot's, with those of its jobs.
        """
        problem = cleared(account)
        for _ in range(_TRIES):
            left = [] if problem else _of(account, directory)
            for path in left:
                remove(path)
        if left := _of(account, directory):
            problem = problem or f"{account.name}: {left[0]} could not be removed"
        if not problem:
            self._free.append(account)
        return problem

    def admits(self, directory: Path) -> None:
        """Raises ValueError if an account cannot enter a directory."""
        for account in self._free:
            if as_account(account.user, account.group, 'cd -- "$1"', str(directory)) != 0:
                raise ValueError(
                    f"--run-as: {account.name} cannot enter {directory}: give --dir with a"
                    " directory that all may pass through (chmod 711 it and those above it)"
                )

    def close(self) -> None:
        """Gives the accounts to other pilots, but for those whose keepers hold them."""
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
                else cleared(account)
            )
        except BaseException:
            os.close(lock)
            raise
        if problem:
            os.close(lock)
            raise ValueError(f"--run-as: {problem}")
        return account


def cleared(account: Account) -> str:
    """Ends all processes of an account and removes its files in shared places; why not, or ""."""
    if problem := vacate(account.user, account.group):
        return f"{account.name}: {problem}"
    _remove_ipc(account.user)
    left: list[Path] = []
    for _ in range(_TRIES):
        left = [path for place in SHARED for path in _of(account, Path(place))]
        if not left:
            return ""
        for path in left:
            remove(path)
    return f"{account.name}: {left[0]} could not be removed"


def _of(account: Account, directory: Path) -> list[Path]:
    """What belongs to an account right in a directory."""
    found = []
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_uid == account.user:
                    found.append(Path(entry.path))
    return found


def _remove_ipc(user: int) -> None:
    """Removes the shared memory, the semaphores and the queues of System V of an account."""
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
