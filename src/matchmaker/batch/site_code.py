"""The administrator's own code for hard cases: a Python function, or a program.

Both get constraints, plain typed bounds and never text of an ad, and return words for the batch
system. A program runs without a shell, with BLAH's variables in its environment, for a bounded time
and output.
"""

from __future__ import annotations

import math
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
from matchmaker.batch.errors import MappingError, NoFlagsError
from matchmaker.batch.flags.render import Flag
from matchmaker.batch.mapping import Mapping as Table
from matchmaker.batch.programs import ProgramError
from matchmaker.reduction.domains import LISTS, TEXTS, Box, Domain

# A value that a script may use unquoted.
PLAIN_TEXT: Final = re.compile(r"[A-Za-z0-9_/][A-Za-z0-9_.+:/@=-]*(?: [A-Za-z0-9_.+:/@=-]+)*")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Variables of the shell, of the loader and of BLAH's scripts, which a bound must not replace.
_TAKEN: Final = re.compile(
    r"_|BASH\w*|CDPATH|CHILD_MAX|COLUMNS|COMP\w*|COPROC|DIRSTACK|E?UID|ENV|EPOCH\w+|EXECIGNORE"
    r"|FCEDIT|FIGNORE|FUNCNAME|FUNCNEST|GLOBIGNORE|GROUPS|HIST\w+|HOME|HOST\w+|IFS|IGNOREEOF"
    r"|INPUTRC|LANG|LC_\w+|LD_\w+|LINENO|LINES|MACHTYPE|MAIL\w*|MAPFILE|OLDPWD|OPT(ARG|ERR|IND)"
    r"|OSTYPE|PATH|PIPESTATUS|POSIXLY_CORRECT|PPID|PROMPT_\w+|PS[0-4]|PWD|PYTHON\w+|RANDOM"
    r"|READLINE\w+|REPLY|SECONDS|SHELL\w*|SHLVL|SRANDOM|TERM|TIMEFORMAT|TMOUT|TMPDIR"
    r"|(bls|blah|BLAH|GLITE)\w*|auto_resume|histchars"
)


def has_variable(name: str) -> bool:
    """Tell whether BLAH's variables for an attribute stand for nothing else.

    ``A_Min`` is the least value of ``A``; and a name such as ``PATH`` is a shell's.

    >>> [has_variable(name) for name in ("SI00", "SI00_Min", "PATH", "a b")]
    [True, False, False, False]
    """
    plain = _PLAIN_NAME.fullmatch(name) and not name.endswith(("_Min", "_Max"))
    return bool(plain) and not _TAKEN.fullmatch(name)


@attrs.frozen(slots=True)
class Constraint:
    """The demand on one attribute of a host.

    Attributes:
        attribute: the name of the attribute, as the mapping spells it.
        least, greatest: integers, or None.
        texts: the folded texts that it may equal, or None for any.
        has, lacks: texts that its list must hold, or must not hold.
        exact: whether nothing else is demanded.
    """

    attribute: str
    least: int | None = None
    greatest: int | None = None
    texts: tuple[str, ...] | None = None
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    exact: bool = True


def constraint(attribute: str, name: str, box: Box) -> Constraint:
    """Return the demand of a box on the attribute with a folded name.

    >>> from matchmaker import parse_expr
    >>> from matchmaker.reduction import bounds
    >>> box = bounds(parse_expr("other.SI00 > 500 && other.SI00 <= 900")).boxes[0]
    >>> constraint("SI00", "si00", box)
    Constraint(attribute='SI00', least=501, greatest=900, texts=None, has=(), lacks=(), exact=True)
    """
    domain = box.domains.get(name, LISTS)
    tags = sorted(tag for tag in box.tags if tag.attribute == name)
    has = tuple(tag.text for tag in tags if tag.has)
    lacks = tuple(tag.text for tag in tags if not tag.has)
    texts = None
    if domain.texts and domain <= TEXTS and not domain.but:
        texts = tuple(sorted(domain.texts))
    least, greatest, whole = _ends(domain)
    if least is not None and greatest is not None and least > greatest:
        # No integer satisfies it, which bounds cannot say.
        least, greatest, whole = None, None, False
    exact = texts is not None or whole or (bool(tags) and domain <= LISTS)
    return Constraint(attribute, least, greatest, texts, has, lacks, exact)


def _ends(domain: Domain) -> tuple[int | None, int | None, bool]:
    """Return the least and the greatest integer, and whether the domain is exactly their range.

    A domain that also allows a missing attribute, a text or a list has no bounds.
    """
    spans = domain.spans
    if not spans or Domain(domain.cuts, nan=domain.nan) != domain:
        return None, None, False
    (low, after), (high, through) = spans[0][0], spans[-1][1]
    least = None if math.isinf(low) else math.floor(low) + 1 if after else math.ceil(low)
    greatest = None if math.isinf(high) else math.floor(high) if through else math.ceil(high) - 1
    return least, greatest, len(spans) == 1


def variables(demanded: Iterable[Constraint]) -> dict[str, str]:
    """Write constraints as BLAH's variables: ``A_Min``, ``A_Max``, ``A``, ``A_0`` and so on.

    An environment has no arrays, so the texts of a list are numbered. Raises ValueError for a
    constraint that is not exact, or whose names or values are not plain.

    >>> variables([Constraint("SI00", least=501)])
    {'SI00_Min': '501'}
    """
    found: dict[str, str] = {}
    for each in demanded:
        name = each.attribute
        many = each.texts is not None and len(each.texts) > 1
        if not each.exact or each.lacks or many or not has_variable(name):
            raise ValueError(f"BLAH has no variables for what is demanded of {name}")
        own: dict[str, str] = {}
        if each.least is not None and each.least == each.greatest:
            own[name] = str(each.least)
        else:
            own |= {f"{name}_Min": str(each.least)} if each.least is not None else {}
            own |= {f"{name}_Max": str(each.greatest)} if each.greatest is not None else {}
        texts = {name: each.texts[0]} if each.texts else {}
        texts |= {f"{name}_{number}": text for number, text in enumerate(each.has)}
        for key, text in texts.items():
            if not PLAIN_TEXT.fullmatch(text):
                raise ValueError(f"{text!r} is no plain value for {name}")
            own[key] = f'"{text}"'
        for twice in own.keys() & found.keys():
            raise ValueError(f"two attributes have the variable {twice}")
        found |= own
    return found


# Printable ASCII: a word of a command line and of a directive alike.
_WORD: Final = re.compile(r"[\x20-\x7e]+")


@attrs.frozen(slots=True)
class SiteAnswers:
    """The answers of the code.

    Attributes:
        options: the options.
        carried: the folded names of the attributes whose bounds the options carry.
        refused: for other attributes, the reason why they are not carried.
    """

    options: tuple[Flag, ...] = ()
    carried: tuple[str, ...] = ()
    refused: Mapping[str, str] = attrs.Factory(dict)


def answers(common: Box, called: Collection[str], table: Table) -> SiteAnswers:
    """Call the site's own code for those attributes of ``common`` bounds that are ``called`` for.

    Raises MappingError if the code fails, and NoFlagsError if the mapping names no program.
    """
    options: list[Flag] = []
    carried: list[str] = []
    refused: dict[str, str] = {}
    for_program: list[Constraint] = []
    for name, box in common.by_subject().items():
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
    return SiteAnswers(tuple(options), tuple(carried), refused)


def call(entry: str, demanded: Constraint) -> tuple[str, ...] | None:
    """Return the words of ``module:function`` for a constraint, or None.

    The words are trusted to be exact. Raises MappingError if the function does not exist, fails, or
    returns anything but plain words.
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
    """Return the flags in the directives that a program prints for constraints.

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
