"""The plan of a store, and how far an input is by one listing of its folder. Reads no storage.

A plan is the text of ``plan.toml`` at the top of a store. Each folder below ``work/`` is an input;
the command runs once for each input and parameter. Instead of parameters a store may have a list of
tasks, ``tasks.csv``; then each task is a parameter, and the one input is ``work/tasks``.

A result counts more than all claims. A parameter's claims are numbered by epochs. Nobody removes
another's claim, so the highest number says how often the parameter was taken over.
"""

from __future__ import annotations

import csv
import io
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from random import Random
from types import MappingProxyType
from typing import Any, Final, Literal

import attrs

PLAN: Final = "plan.toml"
LIST: Final = "tasks.csv"
WORK: Final = "work"
TASKS: Final = "tasks"
"""The input of a list of tasks."""
FINISHED: Final = "finished"
PILOTS: Final = "pilots"
# The file of a pilot that was killed is removed after a day; a slow pilot makes its own anew.
ABANDONED: Final = 86_400.0
CLAIM: Final = "active"
FAILURE: Final = "failed"
# An input with more is too large for one listing.
MOST_PARAMETERS: Final = 1_000_000
# A plan is written by hand.
MOST_PLAN: Final = 1 << 20
# A million tasks with 256 characters each.
MOST_LIST: Final = 1 << 28

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}\Z", re.ASCII)
_PARAMETER: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z", re.ASCII)
_RANGE: Final = re.compile(r"(\d{1,9})-(\d{1,9})\Z", re.ASCII)
_FIELD: Final = re.compile(r"\{([^{}]*)\}")
_COLUMN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z", re.ASCII)
_NOTE: Final = re.compile(rf"{FAILURE}([^.]+)\.([0-9a-z]+)\.[0-9a-z]+\Z", re.ASCII)
_QUOTED: Final = re.compile(r"""(?:[^'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")*\Z""")
"""What shlex splits: it takes a second for a few thousand lines, this for a few million."""
_KEYS: Final = (
    "command", "parameters", "result", "stdout", "shell", "executable", "ttl", "again", "attempts",
    "seconds",
)  # fmt: skip
# A second copy helps against a slow node; more would take processors from other work.
COPIES: Final = 2
_CLAIMED: Final = re.compile(rf"{CLAIM}([^.]+)(?:\.([0-9]{{0,9}}))?\Z")
"""The name of a claim: its parameter, and its number if that is above 1."""
Kind = Literal["file", "folder", "link", "other"]
_KINDS: Final = {"file": "a file", "folder": "a folder", "link": "a symbolic link",
                 "other": "a pipe, a socket or a device"}  # fmt: skip


class PlanError(ValueError):
    """A plan cannot be used; the message names the key, the value and the expected form."""


@attrs.frozen(slots=False, kw_only=True)
class StorePlan:
    """The runs of a store.

    Attributes:
        command: the words; ``{input}`` and ``{parameter}`` stand for the folder's name and the
            parameter, and ``{column}`` for a task's value. Empty if each task is a command line.
        parameters: in the plan's order, each once; the names of the tasks, if there are some.
        result: the name of the result, with ``{parameter}``.
        stdout: whether the result is the program's standard output, and not a file.
        shell: whether ``/bin/sh`` reads a task's command line.
        executable: the path in the store of a program that is fetched first; it is put beside the
            input's files under its last name. None if the command is on the node.
        ttl: seconds after which a claim that was not renewed may be taken over.
        again: seconds for which a pilot that finds nothing free sees the same claim before it runs
            it a second time.
        attempts: on how many nodes a parameter may fail; also how often on one of them.
        seconds: how long one run may take; None without limit.
        columns: of the list of tasks; empty if each task is a command line.
        tasks: each task's command line, or its values by columns; None without a list.
    """

    command: tuple[str, ...]
    parameters: tuple[str, ...]
    result: str = "votes{parameter}.txt"
    stdout: bool = False
    shell: bool = False
    executable: str | None = None
    ttl: float = 180.0
    again: float = 180.0
    attempts: int = 3
    seconds: float | None = None
    columns: tuple[str, ...] = ()
    tasks: Mapping[str, str | tuple[str, ...]] | None = attrs.field(default=None, repr=False)

    @cached_property
    def results(self) -> Mapping[str, str]:
        """Each result's name, and its parameter."""
        return {self.result_of(each): each for each in self.parameters}

    def result_of(self, parameter: str) -> str:
        """Return the name of a parameter's result."""
        return self.result.replace("{parameter}", parameter)

    def words(self, input_: str, parameter: str) -> tuple[str, ...]:
        """Return the command's words for one run.

        >>> plan = StorePlan(command=("./f", "-c{parameter}", "{input}"), parameters=("7",))
        >>> plan.words("a.arff", "7")
        ('./f', '-c7', 'a.arff')
        """
        task = None if self.tasks is None else self.tasks[parameter]
        if isinstance(task, str):
            return ("/bin/sh", "-c", task) if self.shell else tuple(shlex.split(task))
        fields = {**dict(zip(self.columns, task or (), strict=True)),
                  "input": input_, "parameter": parameter}  # fmt: skip
        return tuple(_FIELD.sub(lambda found: fields[found[1]], word) for word in self.command)


def note_of(parameter: str, node: str, random: Random) -> str:
    """Make a name for the note of a failure: pilots that fail at once do not share one."""
    return f"{FAILURE}{parameter}.{node}.{random.getrandbits(32):08x}"


def failure_of(name: str) -> tuple[str, str] | None:
    """Return the parameter and the node of a note of a failure; None for another name.

    >>> failure_of("failed407.5ae1.0c3d"), failure_of("votes407.txt")
    (('407', '5ae1'), None)
    """
    found = _NOTE.match(name)
    return None if found is None else (found[1], found[2])


def claim_of(parameter: str, epoch: int) -> str:
    """Return the name of a claim.

    >>> claim_of("407", 1), claim_of("407", 2)
    ('active407', 'active407.2')
    """
    return f"{CLAIM}{parameter}" + (f".{epoch}" if epoch > 1 else "")


def is_safe_name(name: str) -> bool:
    """Whether a folder of this name is an input: it cannot steer a path, a command or a terminal.

    >>> is_safe_name("shuf1148.arff"), is_safe_name(".."), is_safe_name("-rf")
    (True, False, False)
    """
    return _NAME.match(name) is not None and name != ".."


def read_plan(text: str, tasks: str | None = None) -> StorePlan:
    r"""Parse ``plan.toml`` and ``tasks.csv``.

    Raises PlanError for a syntax error, a missing or unknown key, or a bad value.

    Args:
        text: TOML with ``command`` (a list of strings), ``parameters`` (``"63-1063"``,
            ``"1,5,10-20"``, or a list), and the other fields of a StorePlan, by the same names.
        tasks: the list of tasks, in place of parameters: CSV with a header if there is a command,
            else one command line each. None without a list.

    >>> read_plan('command = ["echo", "{parameter}"]\nparameters = "1-3,7"').parameters
    ('1', '2', '3', '7')
    >>> plan = read_plan("", "./fit -c 7\n./fit -c 8 'my data'\n")
    >>> plan.words("tasks", "2"), plan.result_of("2")
    (('./fit', '-c', '8', 'my data'), '2.out')
    """
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{PLAN} is no TOML: {error}") from None
    unknown = given.keys() - set(_KEYS)
    if unknown:
        raise PlanError(
            f"{PLAN}: unknown key {min(unknown)[:60]!r}; the keys are {', '.join(_KEYS)}"
        )
    made = dict(given)
    for key in ("stdout", "shell"):
        if not isinstance(given.get(key, False), bool):
            raise PlanError(f"{PLAN}: {key} is neither true nor false")
    if tasks is None:
        for key in ("command", "parameters"):
            if key not in given:
                more = f", and there is no {LIST}" if key == "parameters" else ""
                raise PlanError(f"{PLAN}: {key} is missing{more}")
        made["parameters"] = tuple(dict.fromkeys(_parameters(given["parameters"])))
    else:
        if "parameters" in given:
            raise PlanError(f"{PLAN} has parameters, and there is {LIST}: keep one of them")
        made.setdefault("stdout", "result" not in given)
        made.setdefault("result", "{parameter}.out")
        made["columns"], made["tasks"] = _tasks(tasks, by_columns="command" in given)
        made["parameters"] = tuple(made["tasks"])
    if given.get("shell") and (tasks is None or "command" in given):
        raise PlanError(
            f'{PLAN}: shell is for command lines in {LIST}; here write command = ["sh", "-c", …]'
        )
    made["command"] = (
        _command(given["command"], made.get("columns", ())) if "command" in given else ()
    )
    for key in ("ttl", "again", "seconds"):
        if key in given:
            made[key] = _number(key, given[key])
    if "attempts" in given:
        made["attempts"] = int(_number("attempts", given["attempts"]))
    if "executable" in given and not _sound_path(given["executable"]):
        raise PlanError(f"{PLAN}: executable is no path in the store such as bin/program")
    _check_result(made.get("result", StorePlan(command=(), parameters=()).result))
    return StorePlan(**made)


def _sound_path(given: Any) -> bool:
    return isinstance(given, str) and all(map(is_safe_name, given.split("/")))


def _command(given: Any, columns: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(given, list) or not given or not all(isinstance(w, str) for w in given):
        raise PlanError(f'{PLAN}: command is no list of strings such as ["./run", "{{parameter}}"]')
    known = ("input", "parameter", *columns)
    for word in given:
        for name in _FIELD.findall(word):
            if name not in known:
                *most, last = (f"{{{each}}}" for each in known)
                raise PlanError(
                    f"{PLAN}: {{{name[:40]}}} in command; {', '.join(most)} and {last} are known"
                )
        if "\0" in word:
            raise PlanError(f"{PLAN}: a word of command holds a null byte")
    return tuple(given)


def _tasks(
    text: str, *, by_columns: bool
) -> tuple[tuple[str, ...], Mapping[str, str | tuple[str, ...]]]:
    """Return the columns and the tasks of a list; a task without a name has its line's number."""
    if "\0" in text:
        raise PlanError(f"{LIST} holds a null byte")
    columns: tuple[str, ...] = ()
    made: dict[str, str | tuple[str, ...]] = {}
    if by_columns:
        records = _records(text)
        _, columns = next(records, (0, ()))
        _check_columns(columns)
        named = columns[0] == "name"
        for number, record in records:
            if len(record) != len(columns):
                raise PlanError(
                    f"{LIST}, line {number}: {len(record)} values; the header has {len(columns)}"
                )
            name = record[0] if named else str(number)
            if not _PARAMETER.match(name):
                raise PlanError(
                    f"{LIST}, line {number}: name {name[:60]!r}: give letters, digits, _ and -"
                )
            if name in made:
                raise PlanError(f"{LIST}, line {number}: there is a task {name} already")
            made[name] = record
    else:
        for number, line in enumerate(text.split("\n"), 1):
            line = line.strip()  # noqa: PLW2901 - the rest is no part of the command
            if line and not line.startswith("#"):
                if not _QUOTED.match(line):
                    raise PlanError(f"{LIST}, line {number}: a quote is open: {line[:60]!r}")
                made[str(number)] = line
    if not made:
        raise PlanError(f"{LIST} has no tasks")
    if len(made) > MOST_PARAMETERS:
        raise PlanError(f"{LIST}: more than {MOST_PARAMETERS} tasks")
    return columns, MappingProxyType(made)


def _records(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the records of CSV that are not empty, with the number of their first line."""
    reader, number = csv.reader(io.StringIO(text, newline=""), strict=True), 1
    try:
        for record in reader:
            if record:
                yield number, tuple(record)
            number = reader.line_num + 1
    except csv.Error as error:
        raise PlanError(f"{LIST}, line {number}: {error}") from None


def _check_columns(columns: tuple[str, ...]) -> None:
    for each in columns or ("",):
        if not _COLUMN.match(each) or each in {"input", "parameter"} or columns.count(each) > 1:
            raise PlanError(
                f"{LIST}: {each[:60]!r} in the first line, which names the columns for the command"
                f" of {PLAN}: give letters, digits and _, each name once, not input or parameter"
            )


def _parameters(given: Any) -> Iterable[str]:
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, list) or not parts:
        raise PlanError(f'{PLAN}: parameters is neither "63-1063" nor a list')
    made: list[str] = []
    for part in parts:
        text = str(part).strip() if isinstance(part, str | int) else ""
        found = _RANGE.match(text)
        if found:
            first, last = int(found[1]), int(found[2])
            if last < first or last - first >= MOST_PARAMETERS:
                raise PlanError(
                    f"{PLAN}: parameters {text}: the first is at most the last, and there are at"
                    f" most {MOST_PARAMETERS}"
                )
            made += map(str, range(first, last + 1))
        elif _PARAMETER.match(text):
            made.append(text)
        else:
            raise PlanError(
                f"{PLAN}: parameter {str(part)[:60]!r}: give letters, digits, _ and -, or a range"
            )
        if len(made) > MOST_PARAMETERS:
            raise PlanError(f"{PLAN}: more than {MOST_PARAMETERS} parameters")
    return made


def _number(key: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= 1e9:
        raise PlanError(f"{PLAN}: {key} is no number above 0 and up to 1e9")
    return float(given)


def _check_result(given: Any) -> None:
    sound = isinstance(given, str) and given.count("{parameter}") == 1
    if not sound or not is_safe_name(given.replace("{parameter}", "0")):
        raise PlanError(f"{PLAN}: result is no file name with {{parameter}} in it once")
    if given.startswith((CLAIM, FAILURE)):
        raise PlanError(f"{PLAN}: result begins with {CLAIM} or {FAILURE}, as other files do")


@attrs.frozen(slots=True)
class StoreEntry:
    """A file of a listing; links are not followed.

    ``modified`` is in seconds since 1970 by the storage's clock, and may be 0 except for a claim.
    """

    name: str
    modified: float
    kind: Kind = "file"


def inputs_of(plan: StorePlan, entries: Iterable[StoreEntry]) -> tuple[list[str], list[str]]:
    """Return the names of the inputs in ``work/``, and sentences about the other entries.

    >>> plan = StorePlan(command=("./f",), parameters=("1",))
    >>> found = ("a", "folder"), ("b", "link"), ("d e", "folder")
    >>> entries = [StoreEntry(name, 0.0, kind) for name, kind in found]
    >>> names, refused = inputs_of(plan, entries)
    >>> names
    ['a']
    >>> for each in refused:
    ...     print(each)
    work/b is left out: it is a symbolic link; an input is a folder
    work/d e is left out: rename it; an input's name has letters, digits, _ . + - only
    """
    names, refused = [], []
    found = {entry.name: entry for entry in entries}
    if plan.tasks is not None:
        # It has no files of its own, so a bucket knows of it only by the first claim.
        found.setdefault(TASKS, StoreEntry(TASKS, 0.0, "folder"))
    for _, entry in sorted(found.items()):
        at = f"{WORK}/{entry.name} is left out"
        if entry.name.startswith("."):
            continue
        if entry.kind != "folder":
            refused.append(f"{at}: it is {_KINDS[entry.kind]}; an input is a folder")
        elif not is_safe_name(entry.name):
            refused.append(f"{at}: rename it; an input's name has letters, digits, _ . + - only")
        elif plan.tasks is not None and entry.name != TASKS:
            refused.append(f"{at}: of a list of tasks the one input is {WORK}/{TASKS}")
        else:
            names.append(entry.name)
    return names, refused


@attrs.frozen(slots=True)
class InputState:
    """The progress of an input.

    Attributes:
        free: parameters without result, claim or too many failures, in the plan's order.
        claims: of each parameter that is neither, its epochs and when each was renewed.
        failures: of each parameter that failed, how often on each node.
        given_up: parameters without a result that failed on too many nodes.
        files: the input's own files.
        odd: why the input cannot be run: sentences about entries that are not plain files.
    """

    free: tuple[str, ...]
    done: frozenset[str]
    claims: Mapping[str, Mapping[int, float]]
    failures: Mapping[str, Mapping[str, int]]
    given_up: frozenset[str]
    files: tuple[str, ...]
    odd: tuple[str, ...] = ()

    @property
    def all_done(self) -> bool:
        """Whether every parameter has its result."""
        return not (self.free or self.claims or self.given_up)

    def living(self, parameter: str, now: float, ttl: float) -> int:
        """Return how many claims of a parameter were renewed lately.

        A time far in the future was set by a wrong clock, and would never pass.
        """
        return sum(abs(now - at) <= ttl for at in self.claims.get(parameter, {}).values())

    def next_epoch(self, parameter: str) -> int:
        """Return the number of the next claim."""
        return max(self.claims.get(parameter, {}), default=0) + 1


def input_state(plan: StorePlan, listing: Iterable[StoreEntry]) -> InputState:
    """Read a listing.

    >>> plan = StorePlan(command=("./f",), parameters=("1", "2", "3"))
    >>> names = "votes1.txt", "active1", "active2", "active2.2", "data.gz"
    >>> found = input_state(plan, [StoreEntry(name, 9.0) for name in names])
    >>> found.free, sorted(found.done), found.claims, found.files
    (('3',), ['1'], {'2': {1: 9.0, 2: 9.0}}, ('data.gz',))
    """
    done: set[str] = set()
    claims: dict[str, dict[int, float]] = {}
    failures: dict[str, dict[str, int]] = {}
    files: list[str] = []
    odd: list[str] = []
    for entry in listing:
        name = entry.name
        if entry.kind != "file":
            if not name.startswith("."):
                odd.append(f"{name} is {_KINDS[entry.kind]}")
        elif name in plan.results:
            done.add(plan.results[name])
        elif (found := _CLAIMED.match(name)) and plan.result_of(found[1]) in plan.results:
            claims.setdefault(found[1], {})[int(found[2] or 1)] = entry.modified
        elif (note := failure_of(name)) and plan.result_of(note[0]) in plan.results:
            nodes = failures.setdefault(note[0], {})
            nodes[note[1]] = nodes.get(note[1], 0) + 1
        elif not name.startswith("."):
            files.append(name)
    given_up = {p for p, nodes in failures.items() if len(nodes) >= plan.attempts} - done
    rest = done | given_up
    claims = {each: epochs for each, epochs in claims.items() if each not in rest}
    return InputState(
        tuple(p for p in plan.parameters if p not in rest and p not in claims), frozenset(done),
        claims, failures, frozenset(given_up), tuple(sorted(files)), tuple(sorted(odd)),
    )  # fmt: skip


@attrs.frozen(slots=True)
class StoreClaim:
    """A claim that may be tried; its ``epoch`` is above 1 if it takes over another one."""

    input: str
    parameter: str
    epoch: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return claim_of(self.parameter, self.epoch)
