"""The process between a pilot and a task's program: the parent of all processes of the program.

It runs as a separate program, from this module's text, with the standard library alone. As a
subreaper (``prctl(2)``) it becomes the parent of processes whose parents have ended, so none
escapes by forks or new sessions. It ends them all in three cases: the program has ended; the pilot
asks for it; the pilot is gone, so that its end of a pipe closes. If no pilot is left, it also
removes the directories. If the task has a control group (``isolation``), the keeper is outside of
it, and kills it too. The pilot enforces the limits. Code that both need to look at processes,
groups and directories is here, because the keeper can import nothing else.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import secrets
import select
import signal
import stat
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

OWN = "matchmaker-pilot."
"""What the name of a pilot's own directory begins with."""
# PR_SET_CHILD_SUBREAPER and PR_SET_NO_NEW_PRIVS of prctl(2).
_SUBREAPER = 36
_PAGE = os.sysconf("SC_PAGE_SIZE")
# From SIGTERM to SIGKILL if the pilot is gone: as long as pilots allow by themselves.
_GRACE = 5.0
# A killed group is empty within milliseconds, unless a process hangs in the kernel.
_UNGROUP = 2.0
# As for a group: a process in the kernel may take a while to die.
_VACATE = 5.0
_NO_NEW_PRIVILEGES = 38
# A pilot that is killed may close its pipes before its lock, and be held up between the two.
_DYING = 10.0
_LAPSED = "nobody allowed it longer"
_ASKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> None:
    """Run a program that an open file describes in JSON: argv, env, a control group, two pipes.

    The first argument is the number of the open file. ``control`` is the pipe from the pilot: ``end
    SECONDS`` asks for the end, with so long a grace; ``allow TIME`` lets the program run until
    then, as ``time.monotonic`` counts, and no longer unless it is repeated. ``until`` is the first
    such time; after it, nothing begins. ``status`` receives the result.
    """
    with os.fdopen(int(sys.argv[1]), "rb") as file:
        said = json.load(file)
    control, status = said["control"], said["status"]
    directory = Path.cwd()
    home = next((each for each in directory.parents if each.name.startswith(OWN)), None)
    held = None if home is None else lock(home, fcntl.LOCK_SH)
    adopt_orphans(yes=True)
    awake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for asked in _ASKED:
        signal.signal(asked, signal.SIG_IGN)
    os.set_inheritable(control, False)
    os.set_inheritable(status, False)
    group = Path(said["group"]) if said["group"] else None
    until: float | None = said["until"]
    lapsed = until is not None and time.monotonic() >= until
    under: dict[str, Any] | None = said.get("account")
    if under is not None:
        # Held until this process has ended, and not by the program.
        os.set_inheritable(under["lock"], False)
    pid, problem = (
        (0, _LAPSED) if lapsed else _start_program(said["argv"], said["env"], group, under)
    )
    result: dict[str, Any] = {"exit": None, "signal": None, "problem": problem, "lapsed": lapsed}
    alone = False
    if pid:
        # Only the program holds its standard streams now, so that their ends are its own.
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        code, alone, result["lapsed"] = _wait_for_all(pid, control, awake, group, until)
        if os.WIFEXITED(code):
            result["exit"] = os.WEXITSTATUS(code)
        else:
            result["signal"] = os.WTERMSIG(code)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    result["cpu"] = used.ru_utime + used.ru_stime
    result["memory"] = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    if group is not None:
        result.update(group_usage(group))
        remove_group(group)
    with contextlib.suppress(OSError):
        os.write(status, json.dumps(result).encode())
    if alone:
        if under is not None:
            end_processes_of(under["user"], under["group"])
        remove(directory)
    if home is not None and held is not None:
        # While the pilot lives, its lock keeps this from removing anything.
        os.close(held)
        until = time.monotonic() + (_DYING if alone else 0.0)
        while not remove_dead(home) and time.monotonic() < until:
            time.sleep(0.05)


def lock(directory: Path, how: int) -> int | None:
    """Lock a directory of this user (``flock(2)``), until the returned file is closed.

    None if it cannot be locked, or is a link, or another user's.
    """
    with contextlib.suppress(OSError):
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(opened).st_uid == os.getuid():
                fcntl.flock(opened, how | fcntl.LOCK_NB)
                return opened
        except OSError:
            pass
        os.close(opened)
    return None


def remove_dead(home: Path) -> bool:
    """Remove a pilot's own directory if the pilot and all keepers of its jobs have ended.

    Each of them holds a lock on it. On a file system without locks, nothing is removed. Returns
    whether it is gone.
    """
    held = lock(home, fcntl.LOCK_EX)
    if held is not None:
        remove(home)
        os.close(held)
    return held is not None or not home.exists()


def write_group(group: Path | None, name: str, text: str) -> bool:
    """Write a word to a file of a control group, if there is one; whether the kernel took it."""
    if group is None:
        return False
    try:
        file = os.open(group / name, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)
    except OSError:
        return False
    return True


def group_usage(group: Path) -> dict[str, Any]:
    """Return the usage of a control group, as far as the kernel counts it there.

    Seconds of a processor, bytes of memory at most, and whether processes were killed for memory.
    """
    found: dict[str, Any] = {}
    for name, word, key in (
        ("cpu.stat", "usage_usec", "cpu"), ("memory.events", "oom_kill", "starved"),
    ):  # fmt: skip
        with contextlib.suppress(OSError, ValueError, KeyError):
            lines = (group / name).read_text().splitlines()
            found[key] = int(dict(line.split() for line in lines)[word])
    if "cpu" in found:
        found["cpu"] /= 1e6
    with contextlib.suppress(OSError, ValueError):
        found["memory"] = int((group / "memory.peak").read_text())
    return found


def remove_group(group: Path) -> None:
    """Kill the rest of a control group, and remove it with the groups in it."""
    until = time.monotonic() + _UNGROUP
    while group.is_dir() and time.monotonic() < until:
        write_group(group, "cgroup.kill", "1")
        for place, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                Path(place).rmdir()
        if group.is_dir():
            time.sleep(0.01)


def _start_program(
    argv: list[str], env: dict[str, str], group: Path | None, account: Mapping[str, Any] | None
) -> tuple[int, str]:
    """Start the program; return its number, or 0 and why it could not be started."""
    heard, say = os.pipe2(os.O_CLOEXEC)
    if account is not None:
        for number in range(3):
            # So that the program can open /dev/stdout.
            os.fchown(number, account["user"], account["group"])
    pid = os.fork()
    if not pid:
        try:
            os.setpgid(0, 0)
            if group is not None and not write_group(group, "cgroup.procs", "0"):
                raise OSError("its control group is not there")  # noqa: TRY301 - said below
            for number in (*_ASKED, signal.SIGCHLD, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            if account is not None:
                _change_account(account)
            os.execvpe(argv[0], argv, env)  # noqa: S606 - a shell would read the words
        except BaseException as error:  # noqa: BLE001 - nothing may leave the child alive
            with contextlib.suppress(OSError):
                os.write(say, (getattr(error, "strerror", None) or str(error)).encode()[:500])
        os._exit(127)
    os.close(say)
    problem = os.read(heard, 500).decode("utf-8", "replace")
    os.close(heard)
    if problem:
        os.waitpid(pid, 0)
        return 0, f"{argv[0][:200]}: {problem}"
    return pid, ""


def _change_account(account: Mapping[str, Any]) -> None:
    """Give up all rights for those of an account, for good. Raises OSError."""
    os.setgroups(account["groups"])
    os.setresgid(*3 * (account["group"],))
    os.setresuid(*3 * (account["user"],))
    # Programs such as crontab and at would leave something that runs in a later job's time.
    if ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError("the kernel cannot keep programs from other rights (no_new_privs)")


def as_account(user: int, group: int, script: str, *words: str, at: str = "/") -> int:
    """Run a shell script as an account, by root, in a directory; return its status."""
    import subprocess

    made = subprocess.Popen(  # noqa: S603 - scripts of ours, and paths
        ["/bin/sh", "-c", script, "sh", *words], user=user, group=group, extra_groups=(), cwd=at,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}, start_new_session=True,
    )  # fmt: skip
    return made.wait()


def processes_of(user: int) -> list[int]:
    """Return the processes of an account by its number, without those that have ended."""
    found = []
    for place in Path("/proc").glob("[0-9]*/status"):
        # In the file system root owns it if the program is not dumpable.
        with contextlib.suppress(OSError, ValueError):
            said = dict(line.partition(":")[::2] for line in place.read_text().splitlines())
            if str(user) in said["Uid"].split() and said["State"].split()[0] not in "ZX":
                found.append(int(place.parent.name))
    return found


def end_processes_of(user: int, group: int) -> str:
    """Kill all processes of an account, by root; return why some are left, or "".

    The account kills them all at once, also those that are being started (``kill(2)``, -1).
    """
    until = time.monotonic() + _VACATE
    while left := processes_of(user):
        if time.monotonic() > until:
            return f"its processes could not be ended: {left[:5]}"
        as_account(user, group, "kill -s KILL -- -1")
        for pid in left:
            send_signal(pid, signal.SIGKILL)
        time.sleep(0.01)
    return ""


def _wait_for_all(
    program: int, control: int, awake: int, group: Path | None, allowed: float | None
) -> tuple[int, bool, bool]:
    """Wait for the end of the program and of all others.

    Returns the status of the program, whether the pilot has gone meanwhile, and whether they were
    ended because their permission had run out.
    """
    code, left, kill, lapsed = 0, True, False, False
    deadline: float | None = None
    asks, said = [control, awake], b""
    while left:
        times = [each for each in (deadline, allowed) if each is not None]
        wait = max(0.0, min(times) - time.monotonic()) if times else None
        if kill:
            wait = 0.05
        ready, _, _ = select.select(asks, [], [], wait)
        if awake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(awake, 4096)
        if control in ready:
            came = os.read(control, 4096)
            *lines, said = (said + came).split(b"\n")
            if not came:
                asks.remove(control)
                lines = [b"end %f" % _GRACE]
            for line in lines:
                word, seconds = line.split()
                if word == b"allow":
                    allowed = float(seconds)
                    continue
                until = time.monotonic() + float(seconds)
                _signal_all(signal.SIGTERM)
                _signal_all(signal.SIGCONT)
                write_group(group, "cgroup.freeze", "0")
                # To ask again makes the end no later.
                deadline = until if deadline is None else min(until, deadline)
        if not kill and allowed is not None and time.monotonic() >= allowed:
            kill = lapsed = True
        kill = kill or (deadline is not None and time.monotonic() >= deadline)
        if kill:
            deadline = allowed = None
            _signal_all(signal.SIGKILL)
            write_group(group, "cgroup.kill", "1")
        while True:
            try:
                pid, ended = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                left = False
                break
            if pid == 0:
                break
            if pid == program:
                # What it leaves behind ends with it.
                code, kill = ended, True
    return code, control not in asks, lapsed


def _signal_all(number: int) -> None:
    for each in below(os.getpid(), processes()):
        send_signal(each.pid, number)


class Process(NamedTuple):
    """A process: its parent, its state (a letter, as in ``ps``), its memory in bytes."""

    pid: int
    parent: int
    state: str
    memory: int


def processes() -> dict[int, Process]:
    """Return the processes of this machine by ``proc(5)``; none without such files.

    >>> os.getpid() in processes() or not Path("/proc/self").exists()
    True
    """
    found = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        # It may end while it is looked at.
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid, words = int(place.parent.name), place.read_bytes().rpartition(b")")[2].split()
            memory = int(words[21]) * _PAGE
            found[pid] = Process(pid, int(words[1]), words[0].decode("ascii"), memory)
    return found


def below(root: int, among: Mapping[int, Process]) -> list[Process]:
    """Return the descendants of a process.

    >>> family = {n: Process(n, n - 1, "S", 0) for n in (2, 3, 4)}
    >>> [each.pid for each in below(2, family)]
    [3, 4]
    """
    children: dict[int, list[Process]] = {}
    for each in among.values():
        children.setdefault(each.parent, []).append(each)
    found: list[Process] = []
    at = [root]
    while at:
        more = children.get(at.pop(), [])
        found += more
        at += [each.pid for each in more]
    return found


def send_signal(pid: int, number: int) -> None:
    """Send a signal to a process that may have ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def adopt_orphans(*, yes: bool) -> None:
    """Make this process the parent of its descendants' orphans, or no more."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SUBREAPER, int(yes), 0, 0, 0)


def remove(directory: Path) -> None:
    """Remove a directory with all its contents, whatever rights its parts were given.

    Folders are moved up first, so that none lies too deep. Nothing outside of the directory
    changes, even if a link stands in its place.
    """
    if directory.is_symlink() or not directory.is_dir():
        with contextlib.suppress(OSError):
            directory.unlink()
        return
    if _removed_as_owner(directory, directory.lstat()):
        return
    at = _emptied(directory, directory)
    while at:
        folder = at.pop()
        at += _emptied(folder, directory)
        with contextlib.suppress(OSError):
            folder.rmdir()
    with contextlib.suppress(OSError):
        directory.rmdir()


def _removed_as_owner(directory: Path, found: os.stat_result) -> bool:
    """Whether root found another account's directory, and removed it with the rights of that.

    Its processes could replace files by links while root changes them.
    """
    if os.geteuid() != 0 or found.st_uid == 0:
        return False
    with contextlib.suppress(OSError):
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(opened).st_uid == found.st_uid:
                os.fchmod(opened, stat.S_IRWXU)
        finally:
            os.close(opened)
        # It need not be able to come here by itself.
        script = "chmod -R u+rwx .; find . -mindepth 1 -delete"
        as_account(found.st_uid, found.st_gid, script, at=str(directory))
        directory.rmdir()
    return True


def _emptied(folder: Path, top: Path) -> list[Path]:
    """Remove a folder's files; return its folders, which are moved to the top."""
    found: list[Path] = []
    with contextlib.suppress(OSError):
        folder.chmod(stat.S_IRWXU)
        for entry in list(os.scandir(folder)):
            with contextlib.suppress(OSError):
                if not entry.is_dir(follow_symlinks=False):
                    Path(entry.path).unlink()
                    continue
                if _removed_as_owner(Path(entry.path), entry.stat(follow_symlinks=False)):
                    continue
                Path(entry.path).chmod(stat.S_IRWXU)
                found.append(Path(entry.path).rename(top / secrets.token_hex(8)))
    return found


if __name__ == "__main__":
    main()
