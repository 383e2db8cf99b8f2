"""What a pilot runs: a job's ad, its task with limits, and the result. ``running`` runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeGuard

import attrs

from matchmaker.classad import UNDEFINED, ClassAd
from matchmaker.classad.values import ErrorType, Value
from matchmaker.pilots.node.accounts import Account
from matchmaker.pilots.node.output import (
    ERR,
    FILE,
    MOST_MARK,
    MOST_SHOWN,
    OUT,
    Part,
    is_path,
    left_out,
    shown,
)  # fmt: skip

MIB: Final = 1 << 20
HANDLER: Final = "handler:"
"""What the words of an application begin with that is a function of Python; see ``dispatch``."""
MOST_FILES: Final = 100
"""How many files of a job come back."""
MOST_RESULT: Final = 32 << 10
"""How many characters the ad of a result may have."""
_MOST_WORDS: Final = 10_000


class TaskError(ValueError):
    """A job's ad does not describe a task; the message says what was expected."""


@attrs.frozen(slots=True, kw_only=True)
class TaskLimits:
    """What a task may use; None where there is no limit.

    Attributes:
        seconds: how long it may run; the time while it is suspended does not count.
        memory: bytes of all its processes together.
        disk: bytes of all files in its directory.
        output: how many bytes come back of its output, of its errors, and of its files together.
    """

    seconds: float | None = None
    memory: int | None = None
    disk: int | None = None
    output: int = MIB


@attrs.frozen(slots=True, kw_only=True)
class Task:
    """Something to run.

    Attributes:
        id: names its directory; letters, digits, ``-``, ``_`` and dots.
        argv: the program and its arguments.
        env: its environment, beside what every task has (``PATH``, ``HOME``, ``TMPDIR``).
        limits: what it may use.
        files: names in its directory, and the files that are copied there.
        keep: names in its directory, and where such a file is moved at the end; a missing file, or
            one that is not a plain file, is left out.
        outputs: the names of files in its directory that come back with its result.
        token: with which the task is a client of the binder; it is in a file of its directory,
            which ``CLASSAD_BINDER_TOKEN`` names. Empty for none.
        large: whether files beyond its limit of output go to a store of the site.
        account: the account that it runs under; None for the pilot's own.
        until: when it is ended, or may no longer begin, unless it is allowed longer; the time of
            ``time.monotonic``. None for never.
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
class Result:
    """What became of a task.

    Attributes:
        exit: the status with which its program ended; None if it did not end by itself.
        signal: the signal that ended it, or None.
        reason: why it was ended, or could not begin; empty if it ended by itself.
        seconds: how long it ran; without the time while it was suspended.
        cpu: seconds of a processor that its processes took.
        memory: the most bytes that its processes had together, measured each second.
        output: its standard output; if it was long, the beginning and the end.
        errors: its standard error, likewise.
        parts: what comes back in pieces, beside the ad; whoever gets the result closes them.
        notes: what does not come back, or not whole, and why.
        urls: where the files are that were too large for the binder.
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
    parts: tuple[Part, ...] = attrs.field(default=(), eq=False)
    notes: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    lapsed: bool = False

    def ad(self) -> ClassAd:
        """The result as an ad, as pilots report it; its texts are cut if they are too long."""
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
        data = first + left_out(len(data) - len(first) - len(last)) + last
    return shown(data)


def task(id_: str, ad: ClassAd, applications: Mapping[str, tuple[str, ...]]) -> Task:
    """The task of a job's ad.

    Args:
        id_: names it.
        ad: ``Cmd``, or ``Application`` with a name that the pilot knows; ``Arguments``, a list of
            strings; ``Env``, a nested ad of strings; ``MaxSeconds``, ``MaxMemory``, ``MaxDisk``
            and ``MaxOutput`` in MiB; ``OutputFiles``, a list of relative paths.
        applications: the pilot's applications, and the program with its first arguments of each.

    Raises:
        TaskError: an attribute is missing, or has another value than it must have.

    >>> from matchmaker.classad import parse_ad
    >>> job = parse_ad('[ Application = "Echo"; Arguments = {"a b"}; MaxMemory = 2 ]')
    >>> found = task("1", job, {"echo": ("/bin/echo", "-n")})
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
    """How many bytes of each kind of output come back by ``MaxOutput``, without a site's limit.

    >>> output_bytes(2), output_bytes(None)
    (2097152, 1048576)
    """
    return int(min(value, 1 << 20) * MIB) if _is_number(value) and value > 0 else MIB


def check_job(ad: ClassAd, value: Callable[[ClassAd, str], Value] = ClassAd.eval) -> dict[str, Any]:
    """The values of the attributes of a job's ad that a binder and a pilot use.

    Args:
        ad: the job's ad.
        value: gives the value of an attribute; it is called once for each, since an expression may
            have another value each time.

    Raises:
        TaskError: one has the wrong type.

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
"""What an attribute of a job must be, where it is there."""
