"""Runs a task in its own directory and within its limits, and leaves nothing behind.

Between the pilot and the task's program stands the ``keeper``, a process that ends all processes of
the program, even if the pilot is killed. ``slots`` and ``pilot`` decide what runs when.

A task may have a client, whose bytes go to a handler or a program, and the answer back. A handler
is a coroutine function, ``handler:MODULE:FUNCTION`` in the list of applications. It gets the stream
and the job's ad, and answers without a new process. A program reads standard input and writes
standard output. If its words contain ``{port}``, it connects to that port on ``{address}`` instead.

A client may come to a port of the slot's own, a door, without the binder. The binder gives it a
token for one job, and the pilot the key that signed it. With these they do the same greeting as
with the binder (``wire``), so nobody else can connect, and nobody twice. Beyond this machine the
door has a certificate, which the client gets from the binder.
"""

from __future__ import annotations

import asyncio
import json
import os
import pkgutil
import secrets
import shutil
import ssl
import stat
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import attrs

from matchmaker.classad import ClassAd
from matchmaker.pilots.node.isolation import (
    KEEPERS,
    STARTING,
    ControlGroup,
    ProcessTree,
    end_orphans,
    new_group,
)
from matchmaker.pilots.node.keeper import end_processes_of, remove, remove_group
from matchmaker.pilots.node.task import HANDLER, CapturedOutput, Task, TaskResult, collect_files
from matchmaker.pilots.wire.connection import (
    ClosedError,
    Connection,
    PairStream,
    is_loopback,
    welcome,
)
from matchmaker.pilots.wire.protocol import ERR, OUT, PeerRefusedError

# From SIGTERM to SIGKILL: time for a program to save its work; short beside any lease.
GRACE: Final = 5.0
NOT_STARTED: Final = "it could not be started"
NOT_KEPT: Final = "its output could not be written"
"""How reasons begin that are this node's: its disk is full, perhaps."""
# How often memory and disk are measured: more often would cost the jobs' time.
_LOOK_SECONDS: Final = 0.5
# As much as one read of a pipe gives.
_PIECE: Final = 1 << 16
_CONNECT_FILE: Final = ".binder.token"
# Beyond the grace, a keeper that does not act may be stopped itself, and is killed.
_PATIENCE: Final = 3.0
# Below the 4,096 bytes of PATH_MAX, beyond which nothing can be measured by its path.
_LONGEST_PATH: Final = 3500
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
# A client that was paired comes at once, or has gone.
_DOOR_SECONDS = 30.0
# A program may load for a while before it connects to its port.
_CONNECT_SECONDS: Final = 30.0
# A client that reads slowly has so long for the rest after the program's end.
_TAKE_SECONDS: Final = 60.0
Handler = Callable[[PairStream, ClassAd], Awaitable[None]]


class RunningTask:
    """A task that was started. Its output is read by whoever started it.

    ``asked`` is set when its end was requested.
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
        self._family = ProcessTree(keeper.pid) if group is None else ControlGroup(keeper.pid, group)
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
        """Its time so far; the time while it was suspended does not count."""
        return self._seconds + (0.0 if self.suspended else time.monotonic() - self._since)

    async def result(self) -> TaskResult:
        """Return the result, once all its processes have ended and its directory is removed."""
        return await asyncio.shield(self._result)

    def release(self) -> None:
        """Close the pipes of a task that has ended; unread output is lost."""
        keeper: Any = self._keeper
        if keeper.returncode is not None:
            # Nothing else closes a pipe that was not read to its end, until it is collected.
            keeper._transport.close()  # noqa: SLF001

    def end(self, reason: str, grace: float = GRACE) -> None:
        """End the task, ``grace`` seconds after SIGTERM; the first reason is reported."""
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
        """Let it run until then, and no longer unless it is allowed again.

        The time is that of ``time.monotonic``, which all processes share. So a keeper that gets it
        late ends the task at the same moment, also while this process is suspended.
        """
        self._tell(f"allow {until:.3f}")

    def _tell(self, line: str) -> None:
        if not self._closed:
            with suppress(OSError):
                os.write(self._control, f"{line}\n".encode())

    def suspend(self) -> None:
        """Suspend all its processes, also those that are started meanwhile."""
        if self.suspended or self._result.done():
            return
        self._seconds = self.seconds
        self.suspended = True
        self._family.stop()

    def resume(self) -> None:
        """Continue its processes."""
        if self.suspended:
            self._family.go_on()
            self.suspended = False
            self._since = time.monotonic()

    async def _ended(self) -> TaskResult:
        watching = asyncio.create_task(self._watch())
        kept: dict[str, Any] = {"exit": None, "signal": None, "cpu": 0.0, "memory": 0}
        try:
            said = await _read_pipe(self._status)
            try:
                kept.update(json.loads(said))
            except ValueError:
                # Its orphans may hold its pipes open.
                kept["problem"] = "the process that kept it was killed"
                await asyncio.to_thread(end_orphans, self._keeper.pid)
            await self._keeper.wait()
        finally:
            watching.cancel()
            self._unforced()
            self._closed = True
            os.close(self._control)
            await asyncio.to_thread(self._family.remove)
            account = self.task.account
            if account is not None:
                await asyncio.to_thread(end_processes_of, account.user, account.group)
            await asyncio.to_thread(_keep_files, self.directory, self.task)
            parts, notes = await asyncio.to_thread(
                collect_files,
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
        return TaskResult(
            exit=kept["exit"], signal=kept["signal"], cpu=kept["cpu"], seconds=seconds,
            reason=self._reason or kept.get("problem", ""), memory=max(memory, kept["memory"]),
            lapsed=bool(kept.get("lapsed")), parts=tuple(parts), notes=tuple(notes),
        )  # fmt: skip

    async def _watch(self) -> None:
        """Enforce the limits."""
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
                taken = await asyncio.to_thread(disk_usage, self.directory, limits.disk)
                if taken > limits.disk:
                    self.end(f"it took {taken} bytes of disk, of {limits.disk}", grace=0.0)


async def start(task: Task, root: Path) -> RunningTask:
    """Start a task in a new directory below ``root``.

    Raises OSError if it cannot be started: the disk is full, a file is missing, there are too many
    processes. Nothing is left behind. A program that cannot be run gives a TaskResult.
    """
    directory = root / f"{task.id}.{secrets.token_hex(4)}"
    opened: list[int] = []
    group = new_group(task.limits.memory)
    try:
        await asyncio.to_thread(_make_directory, directory, task)
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
        told = await asyncio.to_thread(_json_file, said)
        opened.append(told)
        keeper = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", *_keeper_words(), str(told),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, pass_fds=(*passed, told), cwd=directory,
            start_new_session=True, env={"PATH": _PATH, "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        running = RunningTask(
            task, directory, keeper, control=control_end, status=status, group=group
        )
    except BaseException:
        for each in opened:
            os.close(each)
        if group is not None:
            remove_group(group)
        remove(directory)
        raise
    finally:
        STARTING.discard(str(directory))
    for each in (control, status_end, told):
        os.close(each)
    return running


async def run(
    task: Task,
    root: Path,
    *,
    started: Callable[[RunningTask], object] = id,
    output: Path | None = None,
) -> TaskResult:
    """Run a task without input, to its end, and keep its output.

    Never raises because of the task: the result has the reason.

    Args:
        task: the program.
        root: the parent of its directory.
        started: called with it as soon as it runs, so that it may be suspended or ended.
        output: a file for its whole standard output, which is then not in the result.
    """
    try:
        running = await start(task, root)
    except OSError as error:
        return TaskResult(reason=f"{NOT_STARTED}: {error}")
    try:
        started(running)
        running.stdin.close()
        most = task.limits.output
        errors = CapturedOutput(ERR, most, root)
        if output is not None:
            await asyncio.gather(_save(running, output), errors.read(running.stderr))
            return await with_output(await running.result(), errors)
        shown = CapturedOutput(OUT, most, root)
        await asyncio.gather(shown.read(running.stdout), errors.read(running.stderr))
        return await with_output(await running.result(), shown, errors)
    finally:
        running.release()


async def with_output(result: TaskResult, *printed: CapturedOutput) -> TaskResult:
    """Add the captured output to a result: the ends in it, the whole in parts."""
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


async def _save(running: RunningTask, target: Path) -> None:
    """Write the output to a file; end the task if that fails."""
    try:
        with target.open("wb") as file:
            while data := await running.stdout.read(_PIECE):
                await asyncio.to_thread(file.write, data)
    except OSError as error:
        running.end(f"{NOT_KEPT}: {error}")
        while await running.stdout.read(_PIECE):
            pass


def disk_usage(directory: Path, most: int) -> int:
    """Return the disk usage of a directory in bytes; the count stops beyond the limit.

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


async def _read_pipe(pipe: int) -> bytes:
    """Read a pipe until its last writer has closed it; close it."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(pipe, "rb"))
    try:
        return await reader.read()
    finally:
        transport.close()


def _make_directory(directory: Path, task: Task) -> None:
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


def _json_file(said: object) -> int:
    """Return a file without a name that holds an object as JSON. Raises OSError."""
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(said).encode())
        file.seek(0)
        return os.dup(file.fileno())


def _keep_files(directory: Path, task: Task) -> None:
    """Move the kept files out. Follow no link, which could lead to other people's files."""
    for name, target in task.keep.items():
        path = directory / name
        with suppress(OSError):
            if path.parent == directory and stat.S_ISREG(path.lstat().st_mode):
                shutil.move(path, target)


def _keeper_words() -> tuple[str, ...]:
    """Return the command of the keeper: its file, or its text in a zip application."""
    file = Path(__file__).with_name("keeper.py")
    if file.is_file():
        return (str(file),)
    return ("-c", (pkgutil.get_data(__package__, "keeper.py") or b"").decode())


@attrs.frozen(slots=True, kw_only=True)
class DoorSettings:
    """The address and the certificate of a node's doors.

    ``certificate`` is a text in PEM, ``tls`` has its key too; both are empty if only this machine
    is served.
    """

    host: str
    certificate: str = ""
    tls: ssl.SSLContext | None = None


def door_settings(host: str, certificate: str | None, key: str | None) -> DoorSettings:
    """Return the settings of a node's doors.

    Raises ValueError beyond this machine without a certificate, and OSError.

    >>> door_settings("127.0.0.1", None, None).tls is None
    True
    """
    if certificate is None:
        if not is_loopback(host):
            raise ValueError(f"{host} is not this machine: a certificate and its key are needed")
        return DoorSettings(host=host)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    tls.load_cert_chain(certificate, key)
    return DoorSettings(host=host, certificate=Path(certificate).read_text("ascii"), tls=tls)


class Door:
    """A port that accepts one client."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.address = ""
        self._server: asyncio.Server | None = None
        self._expected: asyncio.Future[tuple[str, bytes]] = loop.create_future()
        self._inside: asyncio.Future[Connection] = loop.create_future()
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, where: DoorSettings) -> Door:
        """Open a new door. Raises OSError."""
        door, loop = cls(), asyncio.get_running_loop()
        door._server = await loop.create_server(door._accept, where.host, 0, ssl=where.tls)
        port = door._server.sockets[0].getsockname()[1]
        host = f"[{where.host}]" if ":" in where.host else where.host
        door.address = f"{host}:{port}"
        return door

    async def client(self, job: str, key: bytes) -> Connection:
        """Return the client of a job. Raises TimeoutError if it does not come."""
        if not self._expected.done():
            self._expected.set_result((job, key))
        try:
            async with asyncio.timeout(_DOOR_SECONDS):
                return await asyncio.shield(self._inside)
        finally:
            self.close()

    def close(self) -> None:
        """Accept no more clients."""
        if self._server is not None:
            self._server.close()

    def _accept(self) -> Connection:
        connection = Connection()
        task = asyncio.get_running_loop().create_task(self._greet(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return connection

    async def _greet(self, connection: Connection) -> None:
        try:
            async with asyncio.timeout(_DOOR_SECONDS):
                job, key = await asyncio.shield(self._expected)
            await welcome(connection, key, pool=job, now=time.time, revoked=())
        except (PeerRefusedError, ClosedError, TimeoutError):
            connection.close("nobody else comes in")
            return
        if self._inside.done():
            connection.close("one has come in")
        else:
            self._inside.set_result(connection)


async def run_with_client(
    task: Task,
    root: Path,
    stream: PairStream,
    ad: ClassAd,
    *,
    started: Callable[[RunningTask], object],
) -> TaskResult:
    """Run a task with a client's bytes as input and output, until either side has ended.

    Args:
        task: the program or the handler.
        root: the parent of the task's directory.
        stream: the client.
        ad: the job's ad.
        started: called with the program as soon as it runs.
    """
    try:
        if task.argv[0].startswith(HANDLER):
            return await _run_handler(task, stream, ad)
        if any("{port}" in word for word in task.argv):
            return await _run_connecting(task, root, stream, started)
        return await _run_piped(task, root, stream, started)
    except OSError as error:
        return TaskResult(reason=f"it could not be started: {error}")
    finally:
        await stream.finish()


async def run_with_direct_client(
    task: Task, root: Path, came: Awaitable[Connection], ad: ClassAd, *,
    started: Callable[[RunningTask], object],
) -> TaskResult:  # fmt: skip
    """Run a task, as ``run_with_client`` does, with a client that comes to a door."""
    try:
        connection = await came
        stream = PairStream()
        stream.data_received(connection.hand_over(stream))
    except (TimeoutError, ClosedError):
        return TaskResult(reason="its client did not come to its door")
    return await run_with_client(task, root, stream, ad, started=started)


async def _run_handler(task: Task, stream: PairStream, ad: ClassAd) -> TaskResult:
    began, result = time.monotonic(), TaskResult(exit=0)
    try:
        async with asyncio.timeout(task.limits.seconds):
            await _handler(task.argv[0])(stream, ad)
    except TimeoutError:
        result = TaskResult(reason=f"it ran for the {task.limits.seconds:g} s that it may")
    except Exception as error:  # noqa: BLE001 - a site's handler may raise anything
        reason = f"the handler failed: {type(error).__name__}: {error}"
        result = TaskResult(exit=1, reason=reason[:500])
    return attrs.evolve(result, seconds=time.monotonic() - began)


def _handler(word: str) -> Handler:
    """Return the function of ``handler:MODULE:FUNCTION``; only the site's list names handlers."""
    module, _, name = word.removeprefix(HANDLER).partition(":")
    found: Handler = getattr(import_module(module), name)
    return found


async def _run_piped(
    task: Task, root: Path, stream: PairStream, started: Callable[[RunningTask], object]
) -> TaskResult:
    running = await start(task, root)
    try:
        started(running)
        return await _relay(running, root, running.stdout, running.stdin, stream)
    finally:
        running.release()


async def _run_connecting(
    task: Task, root: Path, stream: PairStream, started: Callable[[RunningTask], object]
) -> TaskResult:
    """Start a program that connects to a port of this machine."""
    called: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    called = asyncio.get_running_loop().create_future()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if called.done():
            writer.close()
        else:
            called.set_result((reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = str(server.sockets[0].getsockname()[1])
    words = tuple(
        word.replace("{port}", port).replace("{address}", "127.0.0.1") for word in task.argv
    )
    running = await start(attrs.evolve(task, argv=words), root)
    started(running)
    running.stdin.close()
    ending = asyncio.create_task(running.result())
    try:
        either: set[asyncio.Future[Any]] = {called, ending}
        await asyncio.wait(either, timeout=_CONNECT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    finally:
        server.close()
    try:
        if not called.done():
            running.end(f"it did not connect to its port in {_CONNECT_SECONDS:g} s")
            return await ending
        reader, writer = called.result()
        printed = CapturedOutput(OUT, task.limits.output, root)
        reading = asyncio.create_task(printed.read(running.stdout))
        result = await _relay(running, root, reader, writer, stream)
        await reading
        return await with_output(result, printed)
    finally:
        running.release()


async def _discard(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        while await reader.read(_PIECE):
            pass


async def _wait_for_client(going: asyncio.Task[None], running: RunningTask) -> None:
    """Wait until a client has read all output, for a limited time.

    A client that does not read cannot keep a slot beyond the job's time, or long after the program.
    """
    asked = asyncio.create_task(running.asked.wait())
    ended = asyncio.create_task(running.result())
    try:
        either: set[asyncio.Task[Any]] = {going, asked, ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            await asyncio.wait(
                {going, asked}, timeout=_TAKE_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        await asyncio.wait({going}, timeout=GRACE)
    finally:
        for each in (going, asked, ended):
            each.cancel()


async def _relay(
    running: RunningTask, root: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
    stream: PairStream,
) -> TaskResult:  # fmt: skip
    """Pass bytes on in both directions. If the client has gone, end the program."""

    async def inwards() -> None:
        try:
            while data := await stream.read(_PIECE):
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()
        except ConnectionError as error:
            # Its own pipe may be closed, which is the program's right; a lost client is not.
            if stream.lost:
                running.end(f"its client has gone: {error}", GRACE)

    async def outwards() -> None:
        with suppress(ConnectionError):
            while data := await reader.read(_PIECE):
                await stream.write(data)
            await stream.end()

    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(inwards())]
    printed = CapturedOutput(ERR, running.task.limits.output, root)
    errors = asyncio.create_task(printed.read(running.stderr))
    going = asyncio.create_task(outwards())
    await _wait_for_client(going, running)
    # A process counts as ended when all that it printed is read.
    tasks.append(asyncio.create_task(_discard(reader)))
    if stream.lost:
        running.end("its client has gone", GRACE)
    result = await running.result()
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    writer.close()
    await errors
    return await with_output(result, printed)
