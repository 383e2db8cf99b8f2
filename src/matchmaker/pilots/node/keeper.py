"""The process between a pilot and a task's program: it keeps all that the program starts.

It runs as a program of its own, from this module's text, with the standard library alone. As a
subreaper (``prctl(2)``) it becomes the parent of whatever the program's processes leave behind, so
that none flees by forks or new sessions. It ends them all when the program has ended, when it is
asked to, and when the pilot is gone: then its end of a pipe closes. Limits are the pilot's matter.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

_SUBREAPER = 36
_GRACE = 5.0
_ASKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> None:
    """Runs the program that the first argument names, in JSON: argv, env, and two numbers.

    ``control`` is the pipe from the pilot: ``end SECONDS`` asks for the end, with so long a grace;
    ``allow SECONDS`` lets the program run so long from now, and no longer unless it is said again.
    ``status`` takes the result.
    """
    said = json.loads(sys.argv[1])
    control, status = said["control"], said["status"]
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    awake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for asked in _ASKED:
        signal.signal(asked, signal.SIG_IGN)
    os.set_inheritable(control, False)
    os.set_inheritable(status, False)
    pid, problem = _begun(said["argv"], said["env"])
    result: dict[str, Any] = {"exit": None, "signal": None, "problem": problem}
    if pid:
        # Only the program holds its standard streams now, so that their ends are its own.
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        code = _watched(pid, control, awake)
        if os.WIFEXITED(code):
            result["exit"] = os.WEXITSTATUS(code)
        else:
            result["signal"] = os.WTERMSIG(code)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    result["cpu"] = used.ru_utime + used.ru_stime
    result["memory"] = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    with contextlib.suppress(OSError):
        os.write(status, json.dumps(result).encode())


def _begun(argv: list[str], env: dict[str, str]) -> tuple[int, str]:
    """Starts the program; its number, or 0 and why it could not be started."""
    heard, say = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if not pid:
        try:
            os.setpgid(0, 0)
            for number in (*_ASKED, signal.SIGCHLD, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
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


def _watched(program: int, control: int, awake: int) -> int:
    """Waits for the end of the program and of all others; gives the status of the program."""
    code, left, kill = 0, True, False
    deadline: float | None = None
    allowed: float | None = None
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
                until = time.monotonic() + float(seconds)
                if word == b"allow":
                    allowed = until
                    continue
                _tell(signal.SIGTERM)
                _tell(signal.SIGCONT)
                # To ask again makes the end no later.
                deadline = until if deadline is None else min(until, deadline)
        kill = kill or (allowed is not None and time.monotonic() >= allowed)
        kill = kill or (deadline is not None and time.monotonic() >= deadline)
        if kill:
            deadline = allowed = None
            _tell(signal.SIGKILL)
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
    return code


def _tell(number: int) -> None:
    for pid in _below(os.getpid()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _below(root: int) -> list[int]:
    """The processes below one, by ``proc(5)``; none where the system has no such files."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        # It may end while it is looked at.
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int(place.read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(place.parent.name))
    found: list[int] = []
    at = [root]
    while at:
        more = children.get(at.pop(), [])
        found += more
        at += more
    return found


if __name__ == "__main__":
    main()
