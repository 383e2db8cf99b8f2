"""Runs a task in its own directory and within its limits, and leaves nothing behind.

Between the pilot and the task's program stands the ``keeper``, a process that ends all that the
program starts, even if the pilot is killed. This module has the directory, the limits, and
suspending. ``slots`` and ``pilot`` decide what runs when.
"""

from __future__ import annotations

import asyncio
import json
import os
import pkgutil
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs

from matchmaker.pilots.node.families import Family, Group, new_group
from matchmaker.pilots.node.keeper import remove, ungroup, vacate
from matchmaker.pilots.node.output import ERR, OUT, Printed, collected
from matchmaker.pilots.node.strays import KEEPERS, STARTING, end_strays
from matchmaker.pilots.node.task import Result, Task

GRACE: Final = 5.0
"""How many seconds a program has from SIGTERM to SIGKILL."""
NOT_STARTED: Final = "it could not be started"
NOT_KEPT: Final = "its output could not be written"
"""How reasons begin that are this node's: its disk is full, perhaps."""
_LOOK_SECONDS: Final = 0.5
_PIECE: Final = 1 << 16
_CONNECT_FILE: Final = ".binder.token"
_PATIENCE: Final = 3.0
"""How many seconds more than the grace a keeper has."""
_LONGEST_PATH: Final = 3500
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


class Running:
    """A task that was started. Its output is read by whoever started it.

    Attributes:
        task: what runs.
        directory: where it runs; it is removed at the end.
        stdin: the program's standard input.
        stdout: its standard output.
        stderr: its standard error.
        suspended: whether it is suspended.
        asked: whether its end was requested.
    """

    def __init__(
        self, task: Task, directory: Path, keeper: asyncio.subprocess.Process, *, control: int,
        status: int, group: Path | None,
    ) -> None:  # fmt: skip
        if keeper.stdin is None or keeper.stdout is None or keeper.stderr is None:
            raise ValueError("the keeper needs pipes for its standard streams")
        self.task = task
        self.directory = directory
        self.stdin = keeper.stdin
        self.stdout = keeper.stdout
        self.stderr = keeper.stderr
        self.suspended = False
        self.asked = asyncio.Event()
        self._keeper = keeper
        self._family = Family(keeper.pid) if group is None else Group(keeper.pid, group)
        self._control = control
        self._status = status
        self._reason = ""
        self._closed = False
        self._forced: asyncio.TimerHandle | None = None
        os.set_blocking(control, False)
        self._seconds = 0.0
        self._since = time.monotonic()
        self._memory = 0
        KEEPERS.add(keeper.pid)
        self._result = asyncio.create_task(self._ended())

    @property
    def seconds(self) -> float:
        """How long it has run; the time while it was suspended does not count."""
        return self._seconds + (0.0 if self.suspended else time.monotonic() - self._since)

    async def result(self) -> Result:
        """The result, once no process of the task is left and its directory is removed."""
        return await asyncio.shield(self._result)

    def release(self) -> None:
        """Closes the pipes of a task that has ended; output that nobody has read by now is lost."""
        keeper: Any = self._keeper
        if keeper.returncode is not None:
            # Nothing else closes a pipe that was not read to its end, until it is collected.
            keeper._transport.close()  # noqa: SLF001

    def end(self, reason: str, grace: float = GRACE) -> None:
        """Ends the task; the first reason is the one that is reported.

        Args:
            reason: why, in words.
            grace: seconds from SIGTERM to SIGKILL.
        """
        self._reason = self._reason or reason
        self.asked.set()
        self._tell(f"end {grace:.3f}")
        # The keeper may not see to it: the program has stopped it, perhaps.
        loop = asyncio.get_running_loop()
        when = loop.time() + grace + _PATIENCE
        if not self._closed and (self._forced is None or when < self._forced.when()):
            self._unforced()
            self._forced = loop.call_at(when, self._family.kill)

    def _unforced(self) -> None:
        if self._forced is not None:
            self._forced.cancel()

    def allow(self, until: float) -> None:
        """Lets it run until then, and no longer unless it is allowed again.

        The time is that of ``time.monotonic``, which all processes share. So a keeper that gets it
        late ends the task at the same moment, also while this process is suspended.
        """
        self._tell(f"allow {until:.3f}")

    def _tell(self, line: str) -> None:
        if not self._closed:
            with suppress(OSError):
                os.write(self._control, f"{line}\n".encode())

    def suspend(self) -> None:
        """Suspends all its processes, also those that are started meanwhile."""
        if self.suspended or self._result.done():
            return
        self._seconds = self.seconds
        self.suspended = True
        self._family.stop()

    def resume(self) -> None:
        """Continues its processes."""
        if self.suspended:
            self._family.go_on()
            self.suspended = False
            self._since = time.monotonic()

    async def _ended(self) -> Result:
        watching = asyncio.create_task(self._watch())
        kept: dict[str, Any] = {"exit": None, "signal": None, "cpu": 0.0, "memory": 0}
        try:
            said = await _all_of(self._status)
            try:
                kept.update(json.loads(said))
            except ValueError:
                # Its pipes may be held by what it leaves behind.
                kept["problem"] = "the process that kept it was killed"
                await asyncio.to_thread(end_strays, self._keeper.pid)
            await self._keeper.wait()
        finally:
            watching.cancel()
            self._unforced()
            self._closed = True
            os.close(self._control)
            await asyncio.to_thread(self._family.remove)
            account = self.task.account
            if account is not None:
                await asyncio.to_thread(vacate, account.user, account.group)
            await asyncio.to_thread(_kept, self.directory, self.task)
            parts, notes = await asyncio.to_thread(
                collected,
                self.directory,
                self.task.outputs,
                self.task.limits.output,
                os.getuid() if account is None else account.user,
                large=self.task.large,
            )
            await asyncio.to_thread(remove, self.directory)
        KEEPERS.discard(self._keeper.pid)
        seconds, memory = self.seconds, self._memory
        if kept.get("starved") and self.task.limits.memory is not None:
            self._reason = (
                self._reason or f"it took more memory than its {self.task.limits.memory} bytes"
            )
        return Result(
            exit=kept["exit"], signal=kept["signal"], cpu=kept["cpu"], seconds=seconds,
            reason=self._reason or kept.get("problem", ""), memory=max(memory, kept["memory"]),
            lapsed=bool(kept.get("lapsed")), parts=tuple(parts), notes=tuple(notes),
        )  # fmt: skip

    async def _watch(self) -> None:
        """Keeps the limits."""
        limits = self.task.limits
        while True:
            left = _LOOK_SECONDS
            if limits.seconds is not None and not self.suspended:
                left = min(left, max(0.01, limits.seconds - self.seconds))
            await asyncio.sleep(left)
            memory = await asyncio.to_thread(self._family.memory)
            self._memory = max(self._memory, memory)
            if limits.seconds is not None and self.seconds >= limits.seconds:
                self.end(f"it ran for the {limits.seconds:g} s that it may")
            elif limits.memory is not None and memory > limits.memory:
                self.end(f"it took {memory} bytes of memory, of {limits.memory}", grace=0.0)
            elif limits.disk is not None:
                taken = await asyncio.to_thread(disk, self.directory, limits.disk)
                if taken > limits.disk:
                    self.end(f"it took {taken} bytes of disk, of {limits.disk}", grace=0.0)


async def start(task: Task, root: Path) -> Running:
    """Starts a task in a new directory.

    Args:
        task: what to run.
        root: where its directory is made.

    Raises:
        OSError: it cannot be started: the disk is full, a file is missing, there are too many
            processes. Nothing is left behind. A program that cannot be run gives a Result.
    """
    directory = root / f"{task.id}.{secrets.token_hex(4)}"
    opened: list[int] = []
    group = new_group(task.limits.memory)
    try:
        await asyncio.to_thread(_filled, directory, task)
        control, control_end = os.pipe()
        opened += control, control_end
        status, status_end = os.pipe()
        opened += status, status_end
        home = str(directory)
        more = {"CLASSAD_BINDER_TOKEN": f"{home}/{_CONNECT_FILE}"} if task.token else {}
        STARTING.add(home)
        said: dict[str, Any] = {
            "argv": task.argv, "control": control, "status": status_end,
            "group": "" if group is None else str(group), "until": task.until,
            "env": {"PATH": _PATH, "HOME": home, "TMPDIR": home, **task.env, **more},
        }  # fmt: skip
        passed = [control, status_end]
        if (account := task.account) is not None:
            said["account"] = attrs.asdict(account)
            said["env"] = {"USER": account.name, "LOGNAME": account.name, **said["env"]}
            passed.append(account.lock)
        # A file, since the words of a command are bounded.
        told = await asyncio.to_thread(_written, said)
        opened.append(told)
        keeper = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", *_keeper_words(), str(told),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, pass_fds=(*passed, told), cwd=directory,
            start_new_session=True, env={"PATH": _PATH, "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        running = Running(task, directory, keeper, control=control_end, status=status, group=group)
    except BaseException:
        for each in opened:
            os.close(each)
        if group is not None:
            ungroup(group)
        remove(directory)
        raise
    finally:
        STARTING.discard(str(directory))
    for each in (control, status_end, told):
        os.close(each)
    return running


async def run(
    task: Task, root: Path, *, started: Callable[[Running], object] = id, output: Path | None = None
) -> Result:
    """Runs a task without input, to its end, and keeps its output.

    Args:
        task: what to run.
        root: where its directory is made.
        started: called with it as soon as it runs, so that it may be suspended or ended.
        output: a file for its whole standard output, of which the result has nothing then.

    Never raises because of the task: the result says what happened.
    """
    try:
        running = await start(task, root)
    except OSError as error:
        return Result(reason=f"{NOT_STARTED}: {error}")
    try:
        started(running)
        running.stdin.close()
        most = task.limits.output
        errors = Printed(ERR, most, root)
        if output is not None:
            await asyncio.gather(_save(running, output), errors.read(running.stderr))
            return await with_printed(await running.result(), errors)
        shown = Printed(OUT, most, root)
        await asyncio.gather(shown.read(running.stdout), errors.read(running.stderr))
        return await with_printed(await running.result(), shown, errors)
    finally:
        running.release()


async def with_printed(result: Result, *printed: Printed) -> Result:
    """A result with what the program printed: the ends in it, the whole in parts."""
    parts, notes = [], []
    for each in printed:
        try:
            part, note = await asyncio.to_thread(each.part)
        except OSError as error:
            part, note = None, f"{each.name}: only its ends are here: {error.strerror or error}"
        finally:
            each.close()
        parts += [part] if part is not None else []
        notes += [note] if note else []
        if each.name == OUT:
            result = attrs.evolve(result, output=each.shown())
        else:
            result = attrs.evolve(result, errors=each.shown())
    return attrs.evolve(
        result, parts=(*parts, *result.parts), notes=(*notes, *result.notes)
    )  # fmt: skip


async def _save(running: Running, target: Path) -> None:
    """Writes the output to a file; where that cannot be, ends the task."""
    try:
        with target.open("wb") as file:
            while data := await running.stdout.read(_PIECE):
                await asyncio.to_thread(file.write, data)
    except OSError as error:
        running.end(f"{NOT_KEPT}: {error}")
        while await running.stdout.read(_PIECE):
            pass


def disk(directory: Path, most: int) -> int:
    """How many bytes of disk a directory takes; the count stops beyond the limit.

    A directory that is too deep to be counted counts as beyond the limit.
    """
    taken, at = 0, [directory]
    while at and taken <= most:
        with suppress(OSError), os.scandir(at.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    taken += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        at.append(Path(entry.path))
                        if len(os.fsencode(entry.path)) > _LONGEST_PATH:
                            return most + 1
    return taken


async def _all_of(pipe: int) -> bytes:
    """All that comes through a pipe until nobody can write to it any more; closes it."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(pipe, "rb"))
    try:
        return await reader.read()
    finally:
        transport.close()


def _filled(directory: Path, task: Task) -> None:
    directory.mkdir(mode=0o700, parents=True)
    for name, source in task.files.items():
        target = directory / name
        if target.parent != directory:
            raise ValueError(f"{name!r} is no name of a file in the task's directory")
        shutil.copy(source, target)
    if task.token:
        opened = os.open(directory / _CONNECT_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "w", encoding="ascii") as file:
            file.write(f"{task.token}\n")
    if (account := task.account) is not None:
        # The last one is the directory: until then the account cannot enter it.
        for path in (*directory.iterdir(), directory):
            os.chown(path, account.user, account.group, follow_symlinks=False)


def _written(said: object) -> int:
    """A file without a name that holds something as JSON, at its beginning. Raises OSError."""
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(said).encode())
        file.seek(0)
        return os.dup(file.fileno())


def _kept(directory: Path, task: Task) -> None:
    """Moves the kept files out. Follows no link, which could lead to other people's files."""
    for name, target in task.keep.items():
        path = directory / name
        with suppress(OSError):
            if path.parent == directory and stat.S_ISREG(path.lstat().st_mode):
                shutil.move(path, target)


def _keeper_words() -> tuple[str, ...]:
    """What runs the keeper: its file, or its text where this is a zip application."""
    file = Path(__file__).with_name("keeper.py")
    if file.is_file():
        return (str(file),)
    return ("-c", (pkgutil.get_data(__package__, "keeper.py") or b"").decode())
