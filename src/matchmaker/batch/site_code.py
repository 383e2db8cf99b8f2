"""The administrator's own code for hard cases: a Python function, or a program.

Both get constraints, plain typed bounds and never text of an ad, and return words for the batch
system. A program runs without a shell, with BLAH's variables in its environment, for a bounded time
and output.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

import attrs

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch import programs
from matchmaker.batch.constraints import Constraint, constraint, variables
from matchmaker.batch.errors import MappingError, NoFlagsError
from matchmaker.batch.flags.render import Flag
from matchmaker.batch.mapping import Mapping as Table
from matchmaker.batch.programs import ProgramError
from matchmaker.reduction.domains import Box

_WORD: Final = re.compile(r"[\x20-\x7e]+")


@attrs.frozen(slots=True)
class Answers:
    """What the code returned.

    Attributes:
        options: the options.
        carried: the folded names of the attributes whose bounds the options carry.
        refused: for other attributes, the reason why they are not carried.
    """

    options: tuple[Flag, ...]
    carried: tuple[str, ...]
    refused: Mapping[str, str]


def answers(common: Box, called: Collection[str], table: Table) -> Answers:
    """Calls the site's own code for those attributes of ``common`` bounds that are ``called`` for.

    Raises MappingError if the code fails, and NoFlagsError if the mapping names no program.
    """
    options: list[Flag] = []
    carried: list[str] = []
    refused: dict[str, str] = {}
    for_program: list[Constraint] = []
    for name, box in common.by_subject().items() if called else ():
        if name not in called:
            continue
        rule = table.rules[name]
        # The site's code knows the mapping's spelling, not the job's.
        demanded = constraint(rule.attribute, name, box)
        if rule.kind == "shell":
            try:
                variables([demanded])
            except ValueError as error:
                refused[name] = str(error)
            else:
                for_program.append(demanded)
                carried.append(name)
            continue
        words = call(rule.call, demanded)
        if words is None:
            refused[name] = f"{rule.call} cannot say it"
            continue
        options += [words] if words else []
        if demanded.exact:
            carried.append(name)
        else:
            refused[name] = f"{rule.call} gets bounds only, but more is demanded"
    if for_program:
        if not table.shell:
            raise NoFlagsError('the mapping names no program: shell = "/path/of/it"')
        options += run(table.shell, for_program, table)
    return Answers(tuple(options), tuple(carried), refused)


def call(entry: str, demanded: Constraint) -> tuple[str, ...] | None:
    """The words that ``module:function`` returns for a constraint, or None.

    The words are trusted to be exact. Raises MappingError if there is no such function, if it
    fails, or if it returns anything but plain words.
    """
    module, _, name = entry.partition(":")
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise MappingError(f"{entry}: there is no such function: {error}") from None
    except (Exception, SystemExit) as error:
        raise MappingError(f"{entry}: its module fails: {type(error).__name__}: {error}") from error
    try:
        answer = function(demanded)
    except (Exception, SystemExit) as error:
        raise MappingError(f"{entry}: it failed: {type(error).__name__}: {error}") from error
    if answer is None:
        return None
    words = tuple(answer) if isinstance(answer, (list, tuple)) else None
    if words is None or not all(isinstance(w, str) and _WORD.fullmatch(w) for w in words):
        raise MappingError(f"{entry}: it must give a list of printable words, not {answer!r}")
    if words and not words[0].startswith("-"):
        raise MappingError(f"{entry}: its first word must be an option, not {words[0]!r}")
    return words


def run(program: str, demanded: Iterable[Constraint], table: Table) -> list[Flag]:
    """The flags in the directives that a program prints for constraints.

    Its environment is ``PATH`` and BLAH's variables. Raises ValueError for constraints without
    variables, and MappingError if the program fails, takes too long or prints anything else.
    """
    environment = {"PATH": os.defpath, "LC_ALL": "C", **variables(demanded)}
    prefix = table.directive.replace("{flag}", "")
    flags = []
    for line in _printed(program, environment).decode("ascii", "replace").splitlines():
        if not line.strip():
            continue
        try:
            words = shlex.split(line[len(prefix) :])
        except ValueError:
            words = []
        option = words[:1] and words[0].startswith("-")
        if not option or not line.startswith(prefix) or not _WORD.fullmatch(line):
            raise MappingError(f"{program}: it printed {line[:80]!r}, which is no {prefix}line")
        flags.append(tuple(words))
    return flags


def _printed(program: str, environment: dict[str, str]) -> bytes:
    """What an administrator's own program prints."""
    try:
        ended = programs.run(
            [program],
            seconds=LIMITS.site_seconds,
            most=LIMITS.site_output,
            env=environment,
            cwd=Path("/"),
        )
    except ProgramError as error:
        raise MappingError(f"{program}: {error}") from None
    if ended.status:
        raise MappingError(f"{program}: exit status {ended.status}")
    return ended.output
