"""Records of commits, starts, leases and ends: files in a directory shared with the nodes.

An attempt has a directory, ``KEY/N``, with the payload, its start script and the records. Each
record is written under another name, made durable, and renamed; the record of the start is a link,
which only one process can make. The lease is also the record of the commit: its time of change is
its end, so that only the storage's clock counts. The start script, ``start.sh`` in POSIX sh, starts
the payload only with a lease that lasts and the record of the start; it passes signals on, ends
the payload after the lease, and records the end.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import secrets
import shlex
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

import attrs

from matchmaker._files import plain
from matchmaker._limits import DELEGATION_LIMITS as LIMITS
from matchmaker.delegation.contact import Origin, SpoolMarks
from matchmaker.delegation.group_commit import GroupCommit
from matchmaker.delegation.record import PREFIX, Invocation, NoAnswer, Payload, check_key, key_of

REFUSED: Final = 75
"""Exit status of a job that found no commit, a lease that is over, or another start."""

NO_SPOOL: Final = 78
"""Exit status of a job that cannot use the directory with the records."""


_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_exports(call: Invocation) -> None:
    """Raises ValueError if the name of an exported variable is not one of the shell."""
    for name, _ in call.exports:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name[:80]!r} is no name of a variable: letters, digits and _")


def render(room: Path, invocation: Invocation | None = None, *, grace: int = 10) -> str:
    r"""The script that starts the payload in a directory of records.

    Args:
        room: the directory, by the path that nodes know it by.
        invocation: how the payload is called; by default without arguments, in the batch system's
            directory.
        grace: seconds between the first signal and the last when the lease is over.

    Raises:
        ValueError: an exported variable has no name of a shell's variable.

    >>> "room='/shared/my spool/k7/1'" in render(Path("/shared/my spool/k7/1"))
    True
    >>> text = render(Path("/s"), Invocation(arguments=("a b", "$x"), exports=(("LANG", "C d"),)))
    >>> "payload\" 'a b' '$x'\n" in text, "export LANG='C d'" in text
    (True, True)
    """
    call = invocation if invocation is not None else Invocation()
    check_exports(call)
    text = files("matchmaker.delegation").joinpath("start.sh").read_text("utf-8")
    slots = {
        "ROOM": shlex.quote(str(room)), "GRACE": str(int(grace)),
        "DIRECTORY": shlex.quote(call.directory), "UMASK": shlex.quote(call.umask),
        "STDIN": shlex.quote(call.stdin), "STDOUT": shlex.quote(call.stdout),
        "STDERR": shlex.quote(call.stderr),
        "EXPORTS": "\n".join(f"export {name}={shlex.quote(text)}" for name, text in call.exports),
        "ARGUMENTS": "".join(f" {shlex.quote(each)}" for each in call.arguments),
    }  # fmt: skip
    # At once: what one slot holds may look like another.
    return re.sub(r"@([A-Z]+)@", lambda slot: slots[slot[1]], text)


_MARKER: Final = ".matchmaker-spool"
# A record is a line; a longer file is none of ours, and is not read to its end.
_RECORD: Final = 4096
_FIRST: Final = f"{_MARKER}.ledger"
_ORIGIN: Final = "origin"
_ORDER: Final = "order"
_LARGEST: Final = 6 * (LIMITS.ad + LIMITS.environment + LIMITS.words)
_JOB: Final = "job."
_CLUSTER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,99}")
_ATTEMPT: Final = re.compile(r"[1-9][0-9]{0,5}")
_P = ParamSpec("_P")
_T = TypeVar("_T")


def _absolute(path: str | os.PathLike[str]) -> Path:
    return Path(path).absolute()


def _or_no_answer(work: Callable[_P, _T]) -> Callable[_P, _T | NoAnswer]:
    """Some work on files that gives NoAnswer for an error of the system."""

    @functools.wraps(work)
    def quiet(*args: _P.args, **named: _P.kwargs) -> _T | NoAnswer:
        try:
            return work(*args, **named)
        except OSError as error:
            return NoAnswer(f"{error.filename or 'the spool'}: {error.strerror or error}")

    return quiet


@attrs.frozen(slots=True)
class SharedSpool:
    """A spool in a directory that the nodes see by the same path; errors of files are NoAnswer.

    Attributes:
        root: the directory; it is made, and marked as a spool, on first use.
        grace: seconds that a payload has between TERM and KILL when its lease is over.
    """

    root: Path = attrs.field(converter=_absolute)
    grace: int = 10

    @property
    def place(self) -> str:
        """The path of the directory."""
        return str(self.root)

    @_or_no_answer
    def ready(self) -> Path:
        """Make the spool, if there is none; return its directory."""
        _mark(self.root)
        return self.root

    @_or_no_answer
    def prepare(
        self, key: str, attempt: int, payload: Payload, job: str = "", cluster: str = ""
    ) -> Path:
        """Make the directory of an attempt; return the script to submit, which fences it.

        With the digest of a job, NoAnswer if the directory is another job's, and always if there is
        a later attempt, which may have started: who asks was late, or has another ledger. The batch
        system ``cluster`` is on record with it.
        """
        _mark(self.root)
        room = self._room(key, attempt)
        later = _latest(room.parent)
        if later > attempt:
            said = f"there is an attempt {later}: classad jobs --rebuild takes it in"
            raise FileExistsError(0, said, room)
        for folder in (room.parent, room):
            _own(folder)
        if job:
            _take(room, job, cluster)
        text = render(room, payload.invocation, grace=self.grace)
        _write(room / "payload", payload.content, mode=0o700)
        _write(room / _ORDER, payload.to_json().encode("utf-8"))
        _write(room / "start.sh", text.encode("utf-8", "surrogateescape"), mode=0o700)
        return room / "start.sh"

    @_or_no_answer
    def sign(self, key: str, attempt: int, origin: Origin) -> None:
        """Write down whose attempt it is, and whose spool, if that is not on record."""
        text = f"{json.dumps(attrs.asdict(origin))}\n"
        if not (self.root / _FIRST).exists():
            _link(self.root / _FIRST, text)
        _write(self._there(key, attempt) / _ORIGIN, text.encode())

    @_or_no_answer
    def origins(self, names: Iterable[tuple[str, int]]) -> Mapping[tuple[str, int], Origin]:
        """Return the origin of each attempt (key, attempt) that has one on record."""
        self._check()
        found = {name: _origin(self._room(*name) / _ORIGIN) for name in names}
        return {name: origin for name, origin in found.items() if origin is not None}

    @_or_no_answer
    def described(self, names: Iterable[tuple[str, int]]) -> Mapping[str, Payload]:
        """Return the payloads of attempts (key, attempt) by key, as far as they are on record."""
        self._check()
        found = {name[0]: _described(self._room(*name)) for name in names}
        return {key: payload for key, payload in found.items() if payload is not None}

    @_or_no_answer
    def first(self) -> Origin | None:
        """Whose spool it is: the ledger that signed first; None if none did."""
        self._check()
        return _origin(self.root / _FIRST)

    @_or_no_answer
    def commit(self, key: str, attempt: int, seconds: float, length: float | None = None) -> None:
        """Let the payload start, with a lease of ``seconds`` from now; again: no change.

        With a ``length``, it may start within ``seconds``, and then runs for that long.
        """
        room = self._there(key, attempt)
        if not (room / "lease").exists():
            _sync(room / "payload")
            _sync(room.parent)
            _FOLDERS(self.root)
            with contextlib.suppress(FileExistsError):
                _lease(room, seconds, os.link, length)

    @_or_no_answer
    def renew(self, key: str, attempt: int, seconds: float, length: float | None = None) -> None:
        """Make the lease end ``seconds`` from now; at 0 or less at once. None without a commit.

        With a ``length``, a payload that has started runs for that long from now, and one that has
        not as after ``commit``.
        """
        room = self._there(key, attempt)
        if (room / "lease").exists():
            if length is not None and (room / "start").exists():
                seconds, length = length, None
            _lease(room, seconds, os.replace, length)

    @_or_no_answer
    def forbid(self, key: str, attempt: int) -> None:
        """Take the record of the start if it is free, so that no payload can start."""
        _link(self._there(key, attempt) / "start", "forbidden by its owner\n")

    @_or_no_answer
    def marks(
        self, names: Iterable[tuple[str, int]]
    ) -> Mapping[tuple[str, int], SpoolMarks | NoAnswer]:
        """The records in the directories of attempts (key, attempt), each in the answer."""
        self._check()
        return {name: _marks(self._room(*name)) for name in names}

    @_or_no_answer
    def attempts(self) -> Mapping[tuple[str, int], str]:
        """Every attempt (key, attempt) that there is a directory for, and its batch system."""
        return dict(self._attempts())

    @_or_no_answer
    def forget(self, key: str, job: str = "") -> None:
        """Remove the directory of a key, unless it has an attempt of another job."""
        self._check()
        folder = self.root / check_key(key)
        for room in folder.iterdir() if job and folder.is_dir() else ():
            if _job({entry.name for entry in room.iterdir()})[0] not in {"", job}:
                raise FileExistsError(0, "another job has this directory: it stays", room)
        gone = self.root / f".gone.{secrets.token_hex(8)}"
        with contextlib.suppress(FileNotFoundError):
            folder.rename(gone)
        _sync(self.root)
        shutil.rmtree(gone, ignore_errors=True)

    def _room(self, key: str, attempt: int) -> Path:
        return self.root / check_key(key) / str(int(attempt))

    def _there(self, key: str, attempt: int) -> Path:
        """The directory of an attempt that was prepared.

        If it is missing, the shared directory is not mounted, or is another one.
        """
        room = self._room(key, attempt)
        if not room.is_dir():
            raise FileNotFoundError(0, "no such attempt: is the shared directory mounted?", room)
        return room

    def _check(self) -> None:
        if not (self.root / _MARKER).is_file():
            raise FileNotFoundError(0, "no spool: is the shared directory mounted?", self.root)

    def _attempts(self) -> Iterator[tuple[tuple[str, int], str]]:
        self._check()
        for key in self.root.iterdir():
            for room in key.iterdir() if key.is_dir() and not key.name.startswith(".") else ():
                name = key_of(f"{PREFIX}{key.name}-{room.name}")
                if name is not None and name[0] == key.name and room.is_dir():
                    yield name, _job({entry.name for entry in room.iterdir()})[1]


def _mark(root: Path) -> None:
    """Make a spool of a directory that is empty or not there.

    Several processes may do so at once: the markers of others do not count as content, and the
    first job comes after the marker.
    """
    marker = root / _MARKER
    if marker.is_file():
        return
    if root.exists() and not root.is_dir():
        raise NotADirectoryError(0, "it is a file, not a directory: name another", root)
    if not root.exists():
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        root.chmod(0o700)
    strange = [entry for entry in root.iterdir() if _MARKER not in entry.name]
    if strange and not marker.is_file():
        raise FileExistsError(0, "it is not empty and no spool: name another directory", root)
    _write(marker, b"matchmaker 1\n")


def _own(folder: Path) -> None:
    """Make a directory that only this account may write to, or accept one that it owns.

    Whoever else may write to it, or may put another in its place, could change what a job runs.
    """
    folder.mkdir(exist_ok=True, mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(0, "it is a link, not a directory: remove it", folder)
    if found.st_uid != os.geteuid():
        # A server may give this account's files to another one, such as root's to nobody.
        with _beside(folder / "owner", b"") as made:
            if made.stat().st_uid != found.st_uid:
                raise PermissionError(0, "it is another account's: name another spool", folder)
    elif found.st_mode & 0o022:
        folder.chmod(0o700)


# --- records --------------------------------------------------------------------------------------


def _marks(room: Path) -> SpoolMarks | NoAnswer:
    try:
        with os.scandir(room) as entries:
            there = {entry.name for entry in entries}
        by = _first_word(room / "start") if "start" in there else ""
        end = _first_word(room / "end") if "end" in there else ""
        runs = by not in {"", "forbidden"} and not end and "lease" in there
        granted = _first_word(room / "lease") if runs else ""
    except FileNotFoundError:
        return SpoolMarks()
    except OSError as error:
        return NoAnswer(f"{error.filename or room}: {error.strerror or error}")
    return SpoolMarks(
        job=_job(there)[0], stopped=granted.strip() == "0", over="over" in there,
        committed="lease" in there, started=bool(by) and by != "forbidden",
        forbidden=by == "forbidden", exit=int(end) if re.fullmatch(r"[0-9]{1,3}", end) else None,
    )  # fmt: skip


def _origin(path: Path) -> Origin | None:
    """Read the file of an attempt's origin; None if it is missing or damaged."""
    try:
        with plain(path) as file:
            found = json.loads(file.read(_RECORD))
        origin = Origin(**found)
    except (FileNotFoundError, TypeError, ValueError):
        return None
    texts = (origin.ledger, origin.place, origin.owner, origin.job)
    sound = all(isinstance(text, str) for text in texts) and isinstance(origin.created, float)
    lease = origin.lease
    sound = sound and (
        lease is None or (type(lease) in {float, int} and isfinite(lease) and lease > 0)
    )
    sound = sound and isinstance(origin.from_start, bool)
    return origin if sound and isfinite(origin.created) else None


def _described(room: Path) -> Payload | None:
    """Read the payload of an attempt; None if it is missing or damaged."""
    try:
        with plain(room / _ORDER) as file:
            text = file.read(_LARGEST)
        with plain(room / "payload") as file:
            return Payload.from_json(text, file.read(LIMITS.script))
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return None


def _job(there: Collection[str]) -> tuple[str, str]:
    """The digest and the batch system in the name of a file ``job.DIGEST.CLUSTER``.

    Of several such files the digest is ``?``, which matches none.
    """
    jobs = [name.removeprefix(_JOB) for name in there if name.startswith(_JOB)]
    digest, _, cluster = jobs[0].partition(".") if len(jobs) == 1 else ("?" if jobs else "", "", "")
    return digest, cluster


def _latest(folder: Path) -> int:
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if _ATTEMPT.fullmatch(name)), default=0)


def _take(room: Path, job: str, cluster: str) -> None:
    """Make a directory the job's, unless it is another's; with the commit it is durable."""
    made = room / (f"{_JOB}{job}.{cluster}" if _CLUSTER.fullmatch(cluster) else f"{_JOB}{job}")
    there = {entry.name for entry in room.iterdir()}
    if not _job(there)[0] and "payload" not in there:
        _write(made, b"")
        there = {entry.name for entry in room.iterdir()}
    if _job(there)[0] != job:
        raise FileExistsError(0, "another job has this directory: choose another key", room)


def _first_word(path: Path) -> str:
    """The first word of a record; of a damaged one ``?``, since it is there.

    Raises OSError for anything but a file.
    """
    with plain(path) as file:
        text = file.read(_RECORD).decode("utf-8", "replace")
    return text.split(" ", 1)[0] if text.endswith("\n") else "?"


def _lease(
    room: Path, seconds: float, place: Callable[[Path, Path], object], length: float | None
) -> None:
    """A lease of ``seconds`` from now by the clock of the storage, which gives a new file its time.

    The commit places it by a link, which only the first can make, and a renewal by a rename.
    The text is for how long at most a job goes on while the storage is silent; with a ``length``,
    how long it runs from its start.
    """
    text = f"{max(0, round(seconds))}" if length is None else f"{max(1, round(length))} start"
    with _beside(room / "lease", f"{text}\n".encode()) as made:
        now = made.stat().st_mtime
        until = now + seconds if seconds > 0 else now - 1
        os.utime(made, (until, until))
        _sync(made)
        place(made, room / "lease")
    _sync(room)


def _write(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    with _beside(path, content, mode) as made:
        made.replace(path)


def _link(path: Path, text: str) -> None:
    """Make a record that only one can make; no error if another has."""
    with _beside(path, text.encode()) as made, contextlib.suppress(FileExistsError):
        _sync(made)
        os.link(made, path)
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(0, "a record is no file", path)
    _sync(path.parent)


@contextlib.contextmanager
def _beside(path: Path, content: bytes, mode: int = 0o600) -> Iterator[Path]:
    """A file of another name in the same directory; at the end it is removed."""
    made = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(content)
        yield made
    finally:
        with contextlib.suppress(FileNotFoundError):
            made.unlink()


def _sync(place: Path) -> None:
    """Make a file or the names in a directory durable."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_each(places: Sequence[Path]) -> list[None]:
    for place in set(places):
        _sync(place)
    return [None] * len(places)


_FOLDERS: Final[GroupCommit[Path, None]] = GroupCommit(_sync_each)
"""Make the names in a directory durable, once for all threads that wait for it."""
