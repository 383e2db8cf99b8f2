"""The plan of a store, and the names of claims and results. Reads no storage.

A plan is the text of ``plan.toml`` at the top of a store. Each folder below ``work/`` is an input;
the command runs once for each input and parameter.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final

import attrs

PLAN: Final = "plan.toml"
WORK: Final = "work"
FINISHED: Final = "finished"
PILOTS: Final = "pilots"
CLAIM: Final = "active"
FAILURE: Final = "failed"
MOST_PARAMETERS: Final = 1_000_000
MOST_PLAN: Final = 1 << 20
"""Bytes of a plan."""

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}\Z", re.ASCII)
_PARAMETER: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z", re.ASCII)
_RANGE: Final = re.compile(r"(\d{1,9})-(\d{1,9})\Z", re.ASCII)
_FIELD: Final = re.compile(r"\{([^{}]*)\}")


class PlanError(ValueError):
    """A plan cannot be used; the message names the key, what was found and what was expected."""


@attrs.frozen(slots=False, kw_only=True)
class Plan:
    """The runs of a store.

    Attributes:
        command: the words; ``{input}`` and ``{parameter}`` stand for the folder's name and the
            parameter.
        parameters: in the plan's order, each once.
        result: the name of the file that the program leaves, with ``{parameter}``.
        executable: the path in the store of a program that is fetched first; it is put beside the
            input's files under its last name. None if the command is on the node.
        ttl: seconds after which a claim that was not renewed may be taken over.
        again: seconds for which a pilot that finds nothing free sees the same claim before it runs
            it a second time.
        attempts: how often a parameter may fail.
        seconds: how long one run may take; None without limit.
    """

    command: tuple[str, ...]
    parameters: tuple[str, ...]
    result: str = "votes{parameter}.txt"
    executable: str | None = None
    ttl: float = 180.0
    again: float = 180.0
    attempts: int = 3
    seconds: float | None = None

    @cached_property
    def results(self) -> Mapping[str, str]:
        """Each result's name, and its parameter."""
        return {self.result_of(each): each for each in self.parameters}

    def result_of(self, parameter: str) -> str:
        """The name of a parameter's result."""
        return self.result.replace("{parameter}", parameter)

    def words(self, input_: str, parameter: str) -> tuple[str, ...]:
        """The command's words for one run.

        >>> plan = Plan(command=("./f", "-c{parameter}", "{input}"), parameters=("7",))
        >>> plan.words("a.arff", "7")
        ('./f', '-c7', 'a.arff')
        """
        fields = {"input": input_, "parameter": parameter}
        return tuple(_FIELD.sub(lambda found: fields[found[1]], word) for word in self.command)


def claim_of(parameter: str, epoch: int) -> str:
    """The name of a claim; the first is as the seed's pilots name it.

    >>> claim_of("407", 1), claim_of("407", 2)
    ('active407', 'active407.2')
    """
    return f"{CLAIM}{parameter}" + (f".{epoch}" if epoch > 1 else "")


def sound_name(name: str) -> bool:
    """Whether a folder of this name is an input: it cannot steer a path, a command or a terminal.

    >>> sound_name("shuf1148.arff"), sound_name(".."), sound_name("-rf")
    (True, False, False)
    """
    return _NAME.match(name) is not None and name != ".."


def read_plan(text: str) -> Plan:
    r"""The plan of ``plan.toml``.

    Args:
        text: TOML with ``command`` (a list of strings), ``parameters`` (``"63-1063"``,
            ``"1,5,10-20"``, or a list), and what else a Plan has, by the same names.

    Raises:
        PlanError: it is not TOML, a key is missing or unknown, or a value is not allowed.

    >>> read_plan('command = ["echo", "{parameter}"]\nparameters = "1-3,7"').parameters
    ('1', '2', '3', '7')
    """
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{PLAN} is no TOML: {error}") from None
    unknown = given.keys() - {field.name for field in attrs.fields(Plan)}
    if unknown:
        names = ", ".join(field.name for field in attrs.fields(Plan))
        raise PlanError(f"{PLAN}: unknown key {min(unknown)[:60]!r}; the keys are {names}")
    for key in ("command", "parameters"):
        if key not in given:
            raise PlanError(f"{PLAN}: {key} is missing")
    made = {**given, "command": _command(given["command"]),
            "parameters": tuple(dict.fromkeys(_parameters(given["parameters"])))}  # fmt: skip
    for key in ("ttl", "again", "seconds"):
        if key in given:
            made[key] = _number(key, given[key])
    if "attempts" in given:
        made["attempts"] = int(_number("attempts", given["attempts"]))
    if "executable" in given and not _sound_path(given["executable"]):
        raise PlanError(f"{PLAN}: executable is no path in the store such as bin/program")
    _check_result(given.get("result", Plan(command=(), parameters=()).result))
    return Plan(**made)


def _sound_path(given: Any) -> bool:
    return isinstance(given, str) and all(map(sound_name, given.split("/")))


def _command(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not given or not all(isinstance(w, str) for w in given):
        raise PlanError(f'{PLAN}: command is no list of strings such as ["./run", "{{parameter}}"]')
    for word in given:
        for name in _FIELD.findall(word):
            if name not in {"input", "parameter"}:
                raise PlanError(
                    f"{PLAN}: {{{name[:40]}}} in command; {{input}} and {{parameter}} are known"
                )
        if "\0" in word:
            raise PlanError(f"{PLAN}: a word of command holds a null byte")
    return tuple(given)


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
    if not sound or not sound_name(given.replace("{parameter}", "0")):
        raise PlanError(f"{PLAN}: result is no file name with {{parameter}} in it once")
    if given.startswith((CLAIM, FAILURE)):
        raise PlanError(f"{PLAN}: result begins with {CLAIM} or {FAILURE}, as other files do")
