"""Hard cases, given to an administrator's own code: a Python function, or a program.

Either receives what is demanded of an attribute as plain typed bounds, never as text of the ad, and
answers with words or lines for the batch system. A program is called without a shell, with BLAH's
variables in its environment, bounded in time and output.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Final

import attrs

from matchmaker.batch import programs
from matchmaker.batch.errors import MappingError
from matchmaker.batch.mapping import Mapping
from matchmaker.batch.programs import ProgramError
from matchmaker.reduction.domains import LISTS, TEXTS, Box, Domain

SECONDS: Final = 10.0
MOST_OUTPUT: Final = 64 << 10

_WORD: Final = re.compile(r"[\x20-\x7e]+")
# A value that a script may use without quoting it and come to no harm.
PLAIN_TEXT: Final = re.compile(r"[A-Za-z0-9_/][A-Za-z0-9_.+:/@=-]*(?: [A-Za-z0-9_.+:/@=-]+)*")
PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@attrs.frozen(slots=True)
class Constraint:
    """What is demanded of one attribute of a host.

    ``least`` and ``greatest`` are the least and the greatest whole number, None without a bound
    that every host that will do keeps; ``texts`` the folded texts that it may equal, None where
    any; ``has`` and ``lacks`` what its list must hold and must not. ``exact`` tells whether that is
    all that is demanded.
    """

    attribute: str
    least: int | None = None
    greatest: int | None = None
    texts: tuple[str, ...] | None = None
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    exact: bool = True


def constraint(attribute: str, name: str, box: Box) -> Constraint:
    """What a box demands of the attribute of a folded name.

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
        # Of no whole number: no bounds can say that.
        least, greatest, whole = None, None, False
    exact = texts is not None or whole or (bool(tags) and domain <= LISTS)
    return Constraint(attribute, least, greatest, texts, has, lacks, exact)


def _ends(domain: Domain) -> tuple[int | None, int | None, bool]:
    """The least and the greatest whole number, and whether the domain is just these.

    Beside a missing attribute, a text or a list that will do there are no bounds.
    """
    spans = domain.spans
    if not spans or Domain(domain.cuts, nan=domain.nan) != domain:
        return None, None, False
    (low, after), (high, through) = spans[0][0], spans[-1][1]
    least = None if math.isinf(low) else math.floor(low) + 1 if after else math.ceil(low)
    greatest = None if math.isinf(high) else math.floor(high) if through else math.ceil(high) - 1
    return least, greatest, len(spans) == 1


# --- a Python function ----------------------------------------------------------------------------


def call(entry: str, demanded: Constraint) -> tuple[str, ...] | None:
    """The words that a function ``module:function`` gives for a constraint; None: it cannot say.

    Its words are told exactly what is demanded, on its author's word. Raises MappingError where
    there is no such function, where it fails, or where it gives anything but plain words.
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


# --- a program ------------------------------------------------------------------------------------


def variables(demanded: Iterable[Constraint]) -> dict[str, str]:
    """BLAH's variables for constraints: ``A_Min``, ``A_Max``, ``A`` and ``A_0``, ``A_1`` and so on.

    An environment has no arrays, so that the texts of a list are numbered. Only exact constraints
    of plain names and values are given; raises ValueError for another.

    >>> variables([Constraint("SI00", least=501)])
    {'SI00_Min': '501'}
    """
    found: dict[str, str] = {}
    for each in demanded:
        many = each.texts is not None and len(each.texts) > 1
        if not each.exact or each.lacks or many or not PLAIN_NAME.fullmatch(each.attribute):
            raise ValueError(f"BLAH has no variables for what is demanded of {each.attribute}")
        name = each.attribute
        if each.least is not None and each.least == each.greatest:
            found[name] = str(each.least)
        else:
            found |= {f"{name}_Min": str(each.least)} if each.least is not None else {}
            found |= {f"{name}_Max": str(each.greatest)} if each.greatest is not None else {}
        texts = {name: each.texts[0]} if each.texts else {}
        texts |= {f"{name}_{number}": text for number, text in enumerate(each.has)}
        for key, text in texts.items():
            if not PLAIN_TEXT.fullmatch(text):
                raise ValueError(f"{text!r} is no plain value for {each.attribute}")
            found[key] = f'"{text}"'
    return found


def run(program: str, demanded: Iterable[Constraint], table: Mapping) -> list[tuple[str, ...]]:
    """The flags in the directives that a program prints for constraints.

    It sees nothing but ``PATH`` and BLAH's variables. Raises ValueError for constraints without
    such variables, MappingError where the program fails, takes too long, or prints anything but
    directives.
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
            [program], seconds=SECONDS, most=MOST_OUTPUT, env=environment, cwd=Path("/")
        )
    except ProgramError as error:
        raise MappingError(f"{program}: {error}") from None
    if ended.status:
        raise MappingError(f"{program}: exit status {ended.status}")
    return ended.output
