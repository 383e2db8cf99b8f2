"""A job's ad, its task with limits, its result, and its output. ``running`` runs it.

A short text is in the ad of the result. All other output is in parts, which the pilot sends in
pieces before it reports the job's end (``works``). All of it is limited by the job's ``MaxOutput``;
a note says what does not come back. Nothing a job leaves in its directory leads to other people's
files.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeGuard

import attrs

from matchmaker.classad import UNDEFINED, ClassAd
from matchmaker.classad.values import ErrorType, Value
from matchmaker.pilots.node.isolation import Account
from matchmaker.pilots.wire.protocol import ERR, FILE, MOST_PIECE, OUT, is_path

# Bytes of the output and of the errors in the ad of a result, which must fit in MOST_RESULT.
MOST_SHOWN: Final = 8192
# The words in the place of bytes that were left out, with any number.
MOST_MARK: Final = 80
# As much as one read of a pipe gives.
_READ: Final = 1 << 16
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""A pipe that nobody writes to is opened at once, too."""
_WORDS: Final = {
    errno.ENOENT: "there is no such file",
    errno.ELOOP: "it is a link, and links are not followed",
    errno.ENOTDIR: "a folder of its path is a link, or no folder",
    errno.ENXIO: "it is no plain file",
}
MIB: Final = 1 << 20
HANDLER: Final = "handler:"
"""The beginning of an application's words if it is a function of Python (``running``)."""
# Each file has a line in the ad of the result, and is open until it was sent.
MOST_FILES: Final = 100
# Characters of the ad of a result, which the binder keeps in memory and in its tables.
MOST_RESULT: Final = 32 << 10
# Far below the limit of the kernel for the words of a command (ARG_MAX).
_MOST_WORDS: Final = 10_000


@attrs.frozen(slots=True, eq=False)
class ResultPart:
    """Bytes that come back in pieces: ``out``, ``err``, or ``file:`` and the file's name.

    Attributes:
        data: the bytes, if there is no file.
        file: an open file that has them; -1 for none.
        large: whether it is a file that is too large for the binder, and goes to another store.
    """

    name: str
    size: int
    data: bytes = attrs.field(default=b"", repr=False)
    file: int = -1
    large: bool = False

    def piece(self, offset: int) -> bytes:
        """Return the bytes from an offset, at most as many as a frame carries."""
        most = min(MOST_PIECE, self.size - offset)
        if self.file < 0:
            return self.data[offset : offset + most]
        return os.pread(self.file, most, offset)

    def close(self) -> None:
        """Close the file."""
        if self.file >= 0:
            with suppress(OSError):
                os.close(self.file)


class CapturedOutput:
    """Reads a stream, and keeps it whole up to a limit; beyond it its beginning and its end.

    A short text stays in memory; a long one is in a file without a name, which goes with the pilot.
    """

    def __init__(self, name: str, most: int, folder: Path) -> None:
        """Args: the part's name, its limit in bytes, and the folder of its file."""
        self.name = name
        self.length = 0
        self._folder = folder
        shown = min(MOST_SHOWN, most)
        self._half = shown // 2
        self._rest = shown - self._half
        self._first, self._last = bytearray(), bytearray()
        # How many bytes the file takes; the end, which is in memory, comes behind them.
        self._room = most - self._rest if most > MOST_SHOWN else 0
        self._file = -1
        self._problem = ""

    async def read(self, reader: asyncio.StreamReader) -> None:
        """Read a stream to its end."""
        while data := await reader.read(_READ):
            if self._room > 0 and self.length + len(data) > self._half + self._rest:
                # A disk may not answer, and other jobs have their own.
                await asyncio.to_thread(self._write, bytes(data))
            self._keep(data)

    def _keep(self, data: bytes) -> None:
        self.length += len(data)
        if (room := self._half - len(self._first)) > 0:
            self._first += data[:room]
            data = data[room:]
        self._last += data
        del self._last[: max(0, len(self._last) - self._rest)]

    def _write(self, data: bytes) -> None:
        if self._problem:
            return
        try:
            if self._file < 0:
                with tempfile.TemporaryFile(dir=self._folder) as made:
                    self._file = os.dup(made.fileno())
                data = bytes(self._first + self._last) + data
                done = 0
            else:
                done = self.length
            _written(self._file, data[: max(0, self._room - done)], done)
        except OSError as error:
            self._problem = error.strerror or str(error)

    def shown(self) -> bytes:
        """Return the beginning and the end, for the ad."""
        missing = self.length - len(self._first) - len(self._last)
        return bytes(self._first) + (omission_mark(missing) if missing else b"") + bytes(self._last)

    def close(self) -> None:
        """Close the file, if no part has it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def part(self) -> tuple[ResultPart | None, str]:
        """Return the part that the ad cannot hold, and a note if it is cut. Raises OSError."""
        whole = self.length - len(self._first) - len(self._last)
        if self._problem:
            return None, f"{self.name}: only its ends are here: {self._problem}"
        if self._file < 0:
            data = self.shown()
            note = f"{self.name}: {whole} bytes are over MaxOutput" if whole else ""
            same = as_text(data).encode() == data
            return (None if same else ResultPart(self.name, len(data), data)), note
        beyond = self.length - self._room
        if beyond <= 0:
            return self._given(self.length), ""
        last = bytes(self._last)
        note, mark = "", b""
        if beyond > len(last):
            missing = beyond - len(last)
            mark, note = omission_mark(missing), f"{self.name}: {missing} bytes are over MaxOutput"
        else:
            last = last[len(last) - beyond :]
        _written(self._file, mark + last, self._room)
        return self._given(self._room + len(mark) + len(last)), note

    def _given(self, size: int) -> ResultPart:
        part = ResultPart(self.name, size, file=self._file)
        self._file = -1
        return part


def _written(file: int, data: bytes, offset: int) -> None:
    while data:
        count = os.pwrite(file, data, offset)
        data, offset = data[count:], offset + count


def omission_mark(number: int) -> bytes:
    """Return the words in the place of bytes that were left out."""
    return f"\n[{number} bytes are left out]\n".encode()


def as_text(data: bytes) -> str:
    """Return bytes as a text that an ad can hold."""
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


def collect_files(
    directory: Path, names: Iterable[str], most: int, owner: int, *, large: bool = False
) -> tuple[list[ResultPart], list[str]]:
    """Open the files of a job that has ended; return them, and why others do not come back.

    No link is followed, and a file of another account does not come: a job can make a hard link to
    one.

    Args:
        directory: the job's.
        names: relative paths in it.
        most: how many bytes they may have together.
        owner: the number of the account that the job ran under.
        large: whether a store takes those that have more.
    """
    parts: list[ResultPart] = []
    notes: list[str] = []
    for name in names:
        try:
            file, size = _opened(directory, name, owner)
        except OSError as error:
            notes.append(f"{name}: {_WORDS.get(error.errno or 0, error.strerror or str(error))}")
            continue
        part = ResultPart(f"{FILE}{name}", size, file=file, large=size > most)
        if part.large and large:
            parts.append(part)
            continue
        if part.large:
            notes.append(f"{name}: it has {size} bytes; {most} are left of MaxOutput")
            part.close()
            continue
        most -= size
        parts.append(part)
    return parts, notes


def _opened(directory: Path, name: str, owner: int) -> tuple[int, int]:
    """Open a file below a directory; return it and its size. Raises OSError."""
    *folders, last = name.split("/")
    at = os.open(directory, _FOLDER)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER, dir_fd=at)
            os.close(at)
            at = inner
        file = os.open(last, _PLAIN, dir_fd=at)
    finally:
        os.close(at)
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != owner:
        os.close(file)
        why = "it is another account's" if stat.S_ISREG(found.st_mode) else "it is no plain file"
        raise OSError(0, why)
    return file, found.st_size


class TaskError(ValueError):
    """A job's ad does not describe a task; the message has the expected form."""


@attrs.frozen(slots=True, kw_only=True)
class TaskLimits:
    """The limits of a task; None for none. Memory, disk and output are in bytes.

    Attributes:
        seconds: its time, without the time while it is suspended.
        memory: all its processes together.
        output: of its output, of its errors, and of its files together.
    """

    seconds: float | None = None
    memory: int | None = None
    disk: int | None = None
    output: int = MIB


@attrs.frozen(slots=True, kw_only=True)
class Task:
    """A program to run.

    Attributes:
        id: names its directory; letters, digits, ``-``, ``_`` and dots.
        env: its environment, beside the variables of every task (``PATH``, ``HOME``, ``TMPDIR``).
        files: names in its directory, and the files that are copied there.
        keep: names in its directory, and the place of such a file at the end; a missing file, or
            one that is not a plain file, is left out.
        outputs: the names of files in its directory that come back with its result.
        token: makes the task a client of the binder; it is in a file of its directory, which
            ``CLASSAD_BINDER_TOKEN`` names. Empty for none.
        large: whether files beyond its limit of output go to a store of the site.
        account: the account that it runs under; None for the pilot's own.
        until: the time of ``time.monotonic`` at which it is ended, or may no longer begin, unless
            it is allowed longer. None for never.
    """

    id: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = MappingProxyType({})
    limits: TaskLimits = TaskLimits()
    files: Mapping[str, Path] = MappingProxyType({})
    keep: Mapping[str, Path] = MappingProxyType({})
    outputs: tuple[str, ...] = ()
    token: str = attrs.field(default="", repr=False)
    large: bool = False
    account: Account | None = None
    until: float | None = None


@attrs.frozen(slots=True, kw_only=True)
class TaskResult:
    """The result of a task.

    Attributes:
        exit: the status of its program; None if it did not end by itself.
        reason: why it was ended, or could not begin; empty if it ended by itself.
        seconds: its time, without the time while it was suspended.
        cpu: seconds of a processor.
        memory: the most bytes of its processes together, measured twice a second.
        output: its standard output; if it was long, the beginning and the end.
        errors: its standard error, likewise.
        parts: the parts beside the ad; the owner of the result closes them.
        notes: which output does not come back, or was cut, and why.
        urls: the places of files that were too large for the binder.
        lapsed: whether it did not begin, or was ended, because it was not allowed longer.
    """

    exit: int | None = None
    signal: int | None = None
    reason: str = ""
    seconds: float = 0.0
    cpu: float = 0.0
    memory: int = 0
    output: bytes = b""
    errors: bytes = b""
    parts: tuple[ResultPart, ...] = attrs.field(default=(), eq=False)
    notes: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    lapsed: bool = False

    def ad(self) -> ClassAd:
        """Return the result as an ad, as pilots report it; long texts are cut."""
        sizes = {part.name: part.size for part in self.parts}
        files = {name.removeprefix(FILE): sizes[name] for name in sizes if name.startswith(FILE)}
        said: dict[str, Any] = {
            "ExitCode": self.exit, "ExitSignal": self.signal, "Reason": self.reason or None,
            "WallSeconds": round(self.seconds, 3), "CpuSeconds": round(self.cpu, 3),
            "MemoryBytes": self.memory, "OutBytes": sizes.get(OUT), "ErrBytes": sizes.get(ERR),
            "OutputFiles": list(files) or None, "OutputSizes": list(files.values()) or None,
            "OutputUrls": list(self.urls) or None,
        }  # fmt: skip
        most = MOST_SHOWN
        while True:
            said["Out"], said["Err"] = _text(self.output, most), _text(self.errors, most)
            said["OutputNotes"] = [note[:most] for note in self.notes if most] or None
            ad = ClassAd({name: value for name, value in said.items() if value is not None})
            if most == 0 or len(str(ad)) <= MOST_RESULT:
                return ad
            most //= 2


def _text(data: bytes, most: int) -> str:
    if len(data) > most + MOST_MARK:
        first, last = data[: most // 2], data[len(data) - most // 2 :]
        data = first + omission_mark(len(data) - len(first) - len(last)) + last
    return as_text(data)


def task_of_ad(id_: str, ad: ClassAd, applications: Mapping[str, tuple[str, ...]]) -> Task:
    """Return the task of a job's ad. Raises TaskError for a missing or bad attribute.

    The ad has ``Cmd``, or ``Application`` with a name that the pilot knows; ``Arguments``, a list
    of strings; ``Env``, a nested ad of strings; ``MaxSeconds``; ``MaxMemory``, ``MaxDisk`` and
    ``MaxOutput`` in MiB; ``OutputFiles``, a list of relative paths. ``applications`` has the
    program with its first arguments of each application.

    >>> from matchmaker.classad import parse_ad
    >>> job = parse_ad('[ Application = "Echo"; Arguments = {"a b"}; MaxMemory = 2 ]')
    >>> found = task_of_ad("1", job, {"echo": ("/bin/echo", "-n")})
    >>> found.argv, found.limits.memory
    (('/bin/echo', '-n', 'a b'), 2097152)
    """
    said = check_job(ad)
    if "Cmd" in said:
        argv: tuple[str, ...] = (said["Cmd"],)
    elif "Application" in said:
        known = {name.lower(): words for name, words in applications.items()}
        if said["Application"].lower() not in known:
            raise TaskError(f"no application {said['Application'][:80]!r} is here")
        argv = known[said["Application"].lower()]
    else:
        raise TaskError("there is no Cmd, and no Application: one of them says what to run")
    env = said.get("Env", {})
    if any("=" in name or not name for name in env):
        raise TaskError("a name in Env holds =, or is empty")
    return Task(
        id=id_, argv=(*argv, *said.get("Arguments", ())), env=env,
        outputs=tuple(said.get("OutputFiles", ())),
        limits=TaskLimits(
            seconds=_limit(said, "MaxSeconds"), memory=_bytes(said, "MaxMemory"),
            disk=_bytes(said, "MaxDisk"), output=output_bytes(said.get("MaxOutput")),
        ),
    )  # fmt: skip


def _limit(said: Mapping[str, Any], name: str) -> float | None:
    return min(said[name], 1e15) if name in said else None


def _bytes(said: Mapping[str, Any], name: str) -> int | None:
    value = _limit(said, name)
    return None if value is None else int(value * MIB)


def output_bytes(value: Value | None) -> int:
    """Return the bytes of each kind of output by ``MaxOutput``, without a site's limit.

    >>> output_bytes(2), output_bytes(None)
    (2097152, 1048576)
    """
    return int(min(value, 1 << 20) * MIB) if _is_number(value) and value > 0 else MIB


def check_job(ad: ClassAd, value: Callable[[ClassAd, str], Value] = ClassAd.eval) -> dict[str, Any]:
    """Return the values of the attributes of a job's ad that a binder and a pilot use.

    Raises TaskError for a wrong type. ``value`` evaluates an attribute; it is called once for each,
    since an expression may have another value each time.

    >>> check_job(ClassAd(Cmd="/bin/env", Env=ClassAd(A="1"), Other=7))
    {'Cmd': '/bin/env', 'Env': {'A': '1'}}
    >>> check_job(ClassAd(Cmd="/bin/true", MaxSeconds=0))
    Traceback (most recent call last):
    ...
    matchmaker.pilots.node.task.TaskError: MaxSeconds is 0; a number above 0 was expected
    """
    said: dict[str, Any] = {name: value(ad, name) for name in _JOB if name in ad}
    if isinstance(env := said.get("Env"), ClassAd):
        said["Env"] = {name: value(env, name) for name in env}
    for name, found in said.items():
        fits, expected = _JOB[name]
        if not fits(found):
            text = str(found) if isinstance(found, ErrorType) else str(ad.expr(name))
            raise TaskError(f"{name} is {text[:80]}; {expected} was expected")
    return said


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_program(value: Value) -> bool:
    return isinstance(value, str) and value != "" and not value.startswith(HANDLER)


def _is_environment(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _is_texts(value: Value) -> bool:
    return isinstance(value, list) and len(value) <= _MOST_WORDS and all(map(_is_text, value))


def _is_paths(value: Value) -> bool:
    if not _is_texts(value) or not isinstance(value, list):
        return False
    return len(value) <= MOST_FILES and len(set(value)) == len(value) and all(map(is_path, value))


def _is_amount(value: Value) -> bool:
    # What depends on the slot has no value yet.
    return value is UNDEFINED or (_is_number(value) and value >= 0)


def _is_limit(value: Value) -> bool:
    return _is_number(value) and value > 0


def _is_number(value: Value | None) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


_AMOUNT: Final = _is_amount, "a number"
_LIMIT: Final = _is_limit, "a number above 0"
_TRUTH: Final = (lambda value: isinstance(value, bool)), "true or false"
_TEXT: Final = _is_text, "a string"
_JOB: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = MappingProxyType({
    "Cmd": (_is_program, "the path of a program (handlers are the site's, as applications)"),
    "Application": _TEXT,
    "Arguments": (_is_texts, "a list of strings"),
    "Env": (_is_environment, 'an ad of strings, such as [ NAME = "value" ],'),
    "OutputFiles": (
        _is_paths,
        f'a list of at most {MOST_FILES} relative paths without "..", each once,',
    ),
    "JobClass": _TEXT,
    "Direct": _TRUTH,
    "MayConnect": _TRUTH,
    "RequestCpus": _AMOUNT, "RequestMemory": _AMOUNT, "RequestDisk": _AMOUNT,
    "RequestGpus": _AMOUNT,
    "MaxSeconds": _LIMIT, "MaxMemory": _LIMIT, "MaxDisk": _LIMIT, "MaxOutput": _LIMIT,
})  # fmt: skip
"""The check of each attribute of a job, and the expected form in words."""
