"""Run a batch system's commands as its table declares, and reads their answers.

This is the only module of delegation that starts programs. No method raises for the outcome of a
command: an error, a time-out, an output that is cut short or that cannot be read is a
:class:`~matchmaker.delegation.record.NoAnswer` with the reason in words.
"""

from __future__ import annotations

import base64
import contextlib
import os
import pwd
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import attrs

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.programs import NoProgramError, ProgramError, ProgramResult, run
from matchmaker.delegation.control import Control, OwnOptions, SystemCommand, filled, own_options
from matchmaker.delegation.readers.reading import UnreadableError
from matchmaker.delegation.record import PREFIX, Answer, JobStatus, NoAnswer, QueueListing, Refused

_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:+@-]*")
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_PATH: Final = re.compile(r"/[A-Za-z0-9_.,:+@=/ -]*")
_AT_ONCE: Final = 500
"""How many jobs are named in one command."""
_SHORT: Final = 15
"""What every version of PBS and Torque takes as a job's name."""

_T = TypeVar("_T")


@attrs.frozen(slots=True)
class Commands:
    """A batch system that is asked by its own commands.

    Attributes:
        control: its table, of :func:`~matchmaker.delegation.control.load_control`.
        seconds: how long one command may take.
        environment: the variables that commands run with; this process's if None.
    """

    control: Control
    seconds: float = 30.0
    environment: Mapping[str, str] | None = attrs.field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The name of the batch system, such as ``slurm``."""
        return self.control.lrms

    def refusal(self, words: Sequence[str], folder: Path) -> str:
        """Why a job cannot be submitted from here; words that the table does not name are wrong."""
        command = self.control.park[0]
        wrong = self.control.options.wrong(words)
        if wrong:
            return f"{wrong} to {command}: give options, each value with its option"
        if not _plain_path(folder, self.control):
            return f"{str(folder)!r} is a path that {command} may take otherwise: choose another"
        if shutil.which(command, path=self._environment().get("PATH")) is None:
            return f"{command}: no such command here: submit where {self.name} is installed"
        return ""

    def park(
        self, name: str, script: Path, words: Sequence[str], *, metadata: Mapping[str, str],
        seconds: float, directory: str, environment: Mapping[str, str], umask: str = "",
    ) -> str | Refused | NoAnswer:  # fmt: skip
        """Submit a job by the table, with as much metadata as there is room for, shortest first.

        The script's path must be absolute.
        """
        wrong = self.control.options.wrong(words)
        if wrong:
            return Refused(wrong)
        values = self._values() | {"name": name, "short": name[:_SHORT]}
        values["seconds"] = str(max(1, round(seconds)))
        values["marked"] = f"{name}.{metadata['mark']}" if metadata.get("mark") else name
        carried, rest = entries(metadata, words, self.control, values)
        if not _plain_path(script, self.control):
            return Refused(
                f"{str(script)!r} is a path that {self.control.park[0]} may take otherwise"
            )
        values["script"] = str(script)
        try:
            if self.control.description:
                values["metadata"] = "\n".join(carried)
                path = script.with_name(f"{script.name}.sub")
                path.write_text(filled(self.control.description, values))
                values["description"] = str(path)
                carried = []
            if directory and not Path(directory).is_dir():
                return NoAnswer(
                    f"{directory}: no such directory here; the job was handed over there"
                )
        except OSError as error:
            return NoAnswer(f"{error.filename}: {error.strerror}")
        argv: list[str] = []
        several = {"{words}": rest, "{metadata}": carried}
        for word in self.control.park:
            argv += several[word] if word in several else [filled(word, values)]
        return self._submitted(argv, directory, environment, int(umask, 8) if umask else -1)

    def own_options(
        self, script: bytes, environment: Mapping[str, str], given: Sequence[str],
        found: Sequence[str] = (),
    ) -> OwnOptions:  # fmt: skip
        """An owner's options by the table; raises RefusedError."""
        return own_options(self.control, script, environment, given, found)

    def sets_directory(self, words: Sequence[str]) -> bool:
        """Whether the words have an option for the directory of the job."""
        return self.control.sets_directory(words)

    def _submitted(
        self, argv: list[str], directory: str, environment: Mapping[str, str], umask: int
    ) -> str | Refused | NoAnswer:
        """Submit from the directory, and with the environment and the umask, of the order.

        Variables of the batch system's own client, such as SLURM_CONF, are the submitter's.
        """
        ours = self._environment()
        program = shutil.which(argv[0], path=ours.get("PATH"))
        if program is None:
            return NoAnswer(f"{argv[0]}: no such command here")
        own = (*self.control.client, *self.control.without)
        env = {name: text for name, text in environment.items() if not name.startswith(own)}
        env |= {n: text for n, text in ours.items() if n.startswith(self.control.client or ("\0",))}
        ended = self._run([program, *argv[1:]], env=env, cwd=directory, umask=umask)
        if isinstance(ended, NoAnswer):
            return ended
        remote_id = self.control.reader.new_id(ended.output.decode("utf-8", "replace"))
        if ended.status == 0 and remote_id is not None:
            return remote_id
        complaint = _complaint(argv, ended)
        # With an id in the answer there may be a job, whatever else it says.
        definite = ended.status != 0 and remote_id is None and self.control.refuses(_said(ended))
        return Refused(complaint) if definite else NoAnswer(complaint)

    def look(self) -> Answer:
        """All jobs in the queue with names that begin ``mm-``; others are absent."""
        return self._list(self.control.look, self._values(), self.control.reader.queue)

    def recall(self, names: Mapping[str, str], since: float) -> Answer:
        """The named jobs in the accounting, from ``since`` on (seconds since 1970).

        Each name has the job's id, or an empty text. A command that takes ids or names is asked for
        these alone; a job of one of the ids has its name, whatever the accounting says.
        """
        call = self.control.recall
        if call is None:
            return QueueListing(())
        begin = max(0, int(since))
        form = self.control.since
        at = datetime.fromtimestamp(begin, UTC).strftime(form) if form else str(begin)
        values = self._values() | {"since": at}
        found: list[JobStatus] = []
        for asked, some in _in_parts(call, names):
            given = {**values, "list": ",".join(some)}
            answer = self._list(asked, given, self.control.reader.accounts, named=not asked.by_id)
            if isinstance(answer, NoAnswer):
                return answer
            ids = some if asked.by_id else {}
            found += [attrs.evolve(s, name=ids.get(s.remote_id, s.name)) for s in answer.statuses]
        return QueueListing(tuple({status: None for status in found if status.name in names}))

    def release(self, jobs: Sequence[tuple[str, str]]) -> list[NoAnswer | None]:
        """Let parked jobs start, each by its id and name, if the id has that name.

        One command releases all; if it fails, one for each job does.
        """
        call = self.control.release
        bad = self._strange(call, jobs)
        good = [job for job in jobs if job not in bad]
        done = self._together(call, good) if len(good) > 1 else False
        if not done:
            bad |= {job: trouble for job in good for trouble in [self._act(call, [job])] if trouble}
        return [bad.get(job) for job in jobs]

    def cancel(self, remote_id: str, name: str) -> NoAnswer | None:
        """End a job, if the id has that name. A job that is not there is ended."""
        call, job = self.control.cancel, (remote_id, name)
        strange = self._strange(call, [job])
        if strange:
            return None if strange[job].reason == _missing(self.name, job) else strange[job]
        return self._act(call, [job])

    def _strange(
        self, call: SystemCommand, jobs: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], NoAnswer]:
        """The jobs that a command must not be given, and why: those whose id is another's now."""
        bad = {
            job: NoAnswer(f"{job[0][:100]!r} is no id of a job")
            for job in jobs
            if not _ID.fullmatch(job[0])
        }
        if not call.check or len(bad) == len(jobs):
            return bad
        answer = self.look()
        if isinstance(answer, NoAnswer):
            return dict.fromkeys(jobs, answer)
        there = {(status.remote_id, status.name) for status in answer.statuses}
        missing = {job: NoAnswer(_missing(self.name, job)) for job in jobs if job not in there}
        return missing | bad

    def _together(self, call: SystemCommand, jobs: Sequence[tuple[str, str]]) -> bool:
        ended = self._run(self._filled(call, jobs))
        return isinstance(ended, ProgramResult) and ended.status == 0 and not ended.complaint

    def _act(self, call: SystemCommand, jobs: Sequence[tuple[str, str]]) -> NoAnswer | None:
        argv = self._filled(call, jobs)
        ended = self._run(argv)
        if isinstance(ended, NoAnswer) or ended.status == 0:
            return ended if isinstance(ended, NoAnswer) else None
        (remote_id, name) = jobs[0]
        harmless = {"id": re.escape(remote_id), "name": re.escape(name)}
        if call.done and _all_match(filled(call.done, harmless), ended):
            return None
        return NoAnswer(_complaint(argv, ended))

    def _filled(self, call: SystemCommand, jobs: Sequence[tuple[str, str]]) -> list[str]:
        """The words of a command for some jobs; ``{id}`` and ``{name}`` are of the first."""
        slots = [self._values() | {"id": number, "name": name} for number, name in jobs]
        each = [filled(call.each, values) for values in slots]
        words: list[str] = []
        for word in call.argv:
            several = [call.join.join(each)] if call.join else each
            if "{jobs}" in word:
                words += [word.replace("{jobs}", one) for one in several]
            else:
                words.append(filled(word, slots[0]))
        return words

    def _list(
        self, call: SystemCommand, values: Mapping[str, str],
        read: Callable[[str], Sequence[JobStatus]],
        *, named: bool = True,
    ) -> Answer:  # fmt: skip
        """The jobs of an answer; only those with names of ours, if they are asked for by name."""
        if "user" not in values and "{user}" in call.argv:
            return NoAnswer(f"{call.argv[0]}: user {values['uid']} has no name on this machine")
        argv = [filled(word, values) for word in call.argv]
        ended = self._run(argv)
        if (
            isinstance(ended, ProgramResult)
            and call.none
            and not ended.output.strip()
            and _all_match(call.none, ended)
        ):
            return QueueListing(())
        found = _read(argv, ended, read)
        if isinstance(found, NoAnswer):
            return found
        if not found and call.count:
            return self._none([filled(word, values) for word in call.count])
        return QueueListing(tuple(s for s in found if s.name.startswith(PREFIX) or not named))

    def _none(self, argv: Sequence[str]) -> Answer:
        """An empty listing, if the number of jobs is 0 as well."""
        number = _read(argv, self._run(argv), self.control.reader.count)
        if isinstance(number, NoAnswer):
            return number
        if number:
            return NoAnswer(f"{argv[0]} counts {number} jobs, and the listing was empty")
        return QueueListing(())

    def _environment(self) -> dict[str, str]:
        kept = os.environ if self.environment is None else self.environment
        env = {n: v for n, v in kept.items() if not n.startswith(self.control.without or ("\0",))}
        return env | {"LC_ALL": "C", **self.control.environment}

    def _run(
        self, argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: str = "",
        umask: int = -1,
    ) -> ProgramResult | NoAnswer:  # fmt: skip
        env = self._environment() if env is None else env
        folder = Path(cwd) if cwd else None
        try:
            return run(
                argv, seconds=self.seconds, most=LIMITS.describe_output, env=env, cwd=folder,
                umask=umask,
            )  # fmt: skip
        except NoProgramError:
            return NoAnswer(f"{argv[0]}: no such command here")
        except ProgramError as error:
            return NoAnswer(f"{argv[0]}: {error}")

    def _values(self) -> dict[str, str]:
        """What slots stand for in each command; no ``user`` for an account without a name."""
        uid = os.getuid()
        with contextlib.suppress(KeyError):
            return {"uid": str(uid), "user": pwd.getpwuid(uid).pw_name}
        return {"uid": str(uid)}


def _in_parts(
    call: SystemCommand, names: Mapping[str, str]
) -> Iterator[tuple[SystemCommand, Mapping[str, str]]]:
    """The commands for jobs by id and by name, with what each asks for and the name of each."""
    by_id = {number: name for name, number in names.items() if _ID.fullmatch(number)}
    by_name = {name: name for name in names if name not in by_id.values()}
    if not call.by_id:
        yield call, {}
        return
    for words, known in ((call.by_id, by_id), (call.by_name, by_name)):
        for start in range(0, len(known), _AT_ONCE):
            some = dict(list(known.items())[start : start + _AT_ONCE])
            yield (
                attrs.evolve(
                    call, argv=(*call.argv, *words), by_id=words if words is call.by_id else ()
                ),
                some,
            )


def _read(
    argv: Sequence[str], ended: ProgramResult | NoAnswer, read: Callable[[str], _T]
) -> _T | NoAnswer:
    """Parse a command's answer with a reader."""
    if isinstance(ended, NoAnswer):
        return ended
    if ended.status != 0:
        return NoAnswer(_complaint(argv, ended))
    try:
        return read(ended.output.decode("utf-8", "replace"))
    except UnreadableError as error:
        return NoAnswer(f"{argv[0]}: {error}")


def entries(
    metadata: Mapping[str, str], words: Sequence[str], control: Control, values: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """The words, or lines, that carry metadata, and the other words.

    Text that the words already put in the same place, such as ``--comment=classad1:…``, stays.
    Values that are not plain are written as ``base64:…``, by the alphabet for URLs.

    >>> from matchmaker.delegation.control import load_control
    >>> entries({"key": "k7"}, ["--mem=5M", "--comment=classad1:AA"], load_control("slurm"), {})
    (['--comment=key=k7 classad1:AA'], ['--mem=5M'])
    """
    carrier = control.metadata
    earlier, rest = _taken(words, carrier.argv)
    room = carrier.room - sum(len(text) + len(carrier.join) for text in earlier)
    made: list[tuple[str, str]] = []
    for name, value in sorted(metadata.items(), key=lambda item: len(item[1])):
        names = {"name": name, "Name": name.capitalize(), "NAME": name.upper()}
        slots = {**names, "value": _word(value)}
        text = filled(carrier.entry or carrier.line, slots)
        room -= len(text) + len(carrier.join)
        if room < 0:
            break
        made.append((name, text))
    # The mark, the attempt and the key come first: listings show the beginning.
    first = ("mark", "attempt", "key")
    named = dict(made)
    texts = [named[name] for name in first if name in named]
    texts += [*earlier, *(text for name, text in sorted(made) if name not in first)]
    if carrier.line:
        return texts, rest
    if not texts:
        return [], rest
    slots = {**values, "entries": carrier.join.join(texts)}
    return [filled(word, slots) for word in carrier.argv], rest


def _taken(words: Sequence[str], option: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split words into the values of an option and the other words."""
    earlier: list[str] = []
    rest: list[str] = []
    left = list(words)
    begin = option[0].partition("{")[0] if len(option) == 1 else ""
    while left:
        word = left.pop(0)
        # A long option may have its value in a word of its own.
        if word == (option[0] if len(option) == 2 else begin.removesuffix("=")) and left:
            earlier.append(left.pop(0))
        elif begin and word.startswith(begin):
            earlier.append(word.removeprefix(begin))
        else:
            rest.append(word)
    return earlier, rest


def _plain_path(path: Path, control: Control) -> bool:
    """Whether no command of a batch system takes a path otherwise than as one word."""
    return _PATH.fullmatch(str(path)) is not None and (control.spaces or " " not in str(path))


def _missing(system: str, job: tuple[str, str]) -> str:
    return f"{system} has no job {job[0][:100]} with the name {job[1]}"


def _word(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    return "base64:" + base64.urlsafe_b64encode(value.encode()).decode().rstrip("=")


def _all_match(pattern: str, ended: ProgramResult) -> bool:
    """Whether a pattern matches a whole complaint, or each line of it."""
    said = _said(ended).strip()
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return bool(lines) and (
        re.fullmatch(pattern, said) is not None
        or all(re.fullmatch(pattern, line) for line in lines)
    )


def _said(ended: ProgramResult) -> str:
    return (ended.complaint or ended.output).decode("utf-8", "replace")


def _complaint(argv: Sequence[str], ended: ProgramResult) -> str:
    said = _said(ended)
    lines = "; ".join(line.strip() for line in said.splitlines() if line.strip())
    shown = f": {lines[: LIMITS.complaint]}" if lines else ""
    return f"{shlex.join(argv[:2])}: status {ended.status}{shown}"
