"""What a pilot runs: a task with its limits, and what it came to. Running it is in ``running``."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import attrs

from matchmaker.classad import ClassAd

MIB: Final = 1 << 20
HANDLER: Final = "handler:"
"""What the words of an application begin with that is a function of Python; see ``dispatch``."""
_MOST_HANDLERS: Final = 10_000


class TaskError(ValueError):
    """A job's ad is no task; the message says what was expected."""


@attrs.frozen(slots=True, kw_only=True)
class Limits:
    """What a task may use; None where there is no limit.

    Attributes:
        seconds: how long it may run; the time while it is suspended does not count.
        memory: bytes of all its processes together.
        disk: bytes of all files in its directory.
        output: how many bytes of its output, and of its errors, are kept.
    """

    seconds: float | None = None
    memory: int | None = None
    disk: int | None = None
    output: int = 8192


@attrs.frozen(slots=True, kw_only=True)
class Task:
    """Something to run.

    Attributes:
        id: names its directory; letters, digits, ``-``, ``_`` and dots.
        argv: the program and its arguments.
        env: its environment, beside what every task has (``PATH``, ``HOME``, ``TMPDIR``).
        limits: what it may use.
        files: names in its directory, and the files that are copied there.
        keep: names in its directory, and where such a file is moved at the end; one that is not
            there, or is no plain file, is left out.
        token: by which the task is a client of the binder; it is in a file of its directory, which
            ``CLASSAD_BINDER_TOKEN`` names. Empty for none.
        until: from when on it may not begin, and is ended where nobody has allowed it longer; as
            ``time.monotonic`` counts. None for never.
    """

    id: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = MappingProxyType({})
    limits: Limits = Limits()
    files: Mapping[str, Path] = MappingProxyType({})
    keep: Mapping[str, Path] = MappingProxyType({})
    token: str = attrs.field(default="", repr=False)
    until: float | None = None


@attrs.frozen(slots=True, kw_only=True)
class Result:
    """What became of a task.

    Attributes:
        exit: the status with which its program ended; None where it did not end by itself.
        signal: the signal that ended it, or None.
        reason: why it was ended, or could not begin; empty where it ended by itself.
        seconds: how long it ran; without the time while it was suspended.
        cpu: seconds of a processor that its processes took.
        memory: the most bytes that its processes had together, at a look each second.
        output: what it printed: the beginning and the end where it was long.
        errors: the same of its standard error.
        lapsed: whether it did not begin, or was ended, since nobody had allowed it longer.
    """

    exit: int | None = None
    signal: int | None = None
    reason: str = ""
    seconds: float = 0.0
    cpu: float = 0.0
    memory: int = 0
    output: bytes = b""
    errors: bytes = b""
    lapsed: bool = False

    def ad(self) -> ClassAd:
        """The result as an ad, as pilots report it."""
        said: dict[str, Any] = {
            "ExitCode": self.exit, "ExitSignal": self.signal, "Reason": self.reason or None,
            "WallSeconds": round(self.seconds, 3), "CpuSeconds": round(self.cpu, 3),
            "MemoryBytes": self.memory, "Out": _text(self.output), "Err": _text(self.errors),
        }  # fmt: skip
        return ClassAd({name: value for name, value in said.items() if value is not None})


def _text(data: bytes) -> str:
    # A null byte cannot stand in a string of an ad.
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


def task(id_: str, ad: ClassAd, applications: Mapping[str, tuple[str, ...]]) -> Task:
    """The task of a job's ad.

    Args:
        id_: names it.
        ad: ``Cmd``, or ``Application`` with a name that the pilot knows; ``Arguments``, a list of
            strings; ``Env``, a nested ad of strings; ``MaxSeconds``, ``MaxMemory`` and ``MaxDisk``
            in MiB; ``MaxOutput`` in bytes.
        applications: the pilot's applications, and the program with its first arguments of each.

    Raises:
        TaskError: an attribute is missing, or has another value than it must have.

    >>> from matchmaker.classad import parse_ad
    >>> job = parse_ad('[ Application = "Echo"; Arguments = {"a b"}; MaxMemory = 2 ]')
    >>> found = task("1", job, {"echo": ("/bin/echo", "-n")})
    >>> found.argv, found.limits.memory
    (('/bin/echo', '-n', 'a b'), 2097152)
    """
    command, wanted = ad.eval("Cmd"), ad.eval("Application")
    if isinstance(command, str) and command.startswith(HANDLER):
        raise TaskError("Cmd names a handler: only the site names these, as applications")
    if isinstance(command, str) and command:
        argv: tuple[str, ...] = (command,)
    elif isinstance(wanted, str):
        known = {name.lower(): words for name, words in applications.items()}
        if wanted.lower() not in known:
            raise TaskError(f"no application {wanted[:80]!r} is here")
        argv = known[wanted.lower()]
    else:
        raise TaskError("Cmd is no text, and Application neither: one of them says what to run")
    env = ad.eval("Env") if "Env" in ad else ClassAd()
    if not isinstance(env, ClassAd):
        raise TaskError('Env is no nested ad of strings, such as [ LANG = "C" ]')
    made = Task(
        id=id_, argv=(*argv, *_words(ad)),
        env={name: _word(f"Env.{name}", env.eval(name)) for name in env},
        limits=Limits(
            seconds=_number(ad, "MaxSeconds"), memory=_bytes(ad, "MaxMemory"),
            disk=_bytes(ad, "MaxDisk"),
            output=int(min(_number(ad, "MaxOutput") or Limits().output, Limits().output)),
        ),
    )  # fmt: skip
    if any("=" in name or not name for name in made.env):
        raise TaskError("a name in Env holds =, or is empty")
    return made


def _words(ad: ClassAd) -> tuple[str, ...]:
    value = ad.eval("Arguments") if "Arguments" in ad else []
    if not isinstance(value, list) or len(value) > _MOST_HANDLERS:
        raise TaskError(f"Arguments is no list of at most {_MOST_HANDLERS} strings")
    return tuple(_word("Arguments", each) for each in value)


def _word(place: str, value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TaskError(f"{place[:80]} holds what is no string")
    return value


def _number(ad: ClassAd, name: str) -> float | None:
    if name not in ad:
        return None
    value = ad.eval(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise TaskError(f"{name} is no number above 0")
    if isinstance(value, float) and not isfinite(value):
        raise TaskError(f"{name} is not finite")
    return min(value, 1e15)


def _bytes(ad: ClassAd, name: str) -> int | None:
    value = _number(ad, name)
    return None if value is None else int(value * MIB)
