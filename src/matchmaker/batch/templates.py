"""Templates of flags: words with slots, without anything that a shell acts on.

A slot is a name in braces, ``{value}`` or ``{gpus}``, with an optional format of numbers,
``{wall:hms}``. Only here do values become parts of words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping as MappingType
from typing import Any, Final, TypeAlias

NAME_SIGNS: Final = "._+:@-"
"""Signs that names in flags may have beside letters and digits; most batch systems allow fewer."""

HOST_SIGNS: Final = "._-"
"""Signs that names of hosts may have; any other has a meaning to some batch system."""

VALUE: Final = "value"
"""The slot of a template for a single value."""

Values: TypeAlias = MappingType[str, int | str]
"""Values by the names of slots."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9]+")

# A word of a template: no space, single quote, backslash, dollar or semicolon; ASCII alone.
_WORD: Final = re.compile(r"[A-Za-z0-9._:,=+@%&|!()\[\]<>*/{}\"-]+")
# An option is one word, with a value behind `=`; a short one may have its slot at once, -l{x}.
_OPTION: Final = re.compile(r"--?[A-Za-z][A-Za-z0-9_-]*(=.*|\{[A-Za-z_]\w*(:[a-z]+)?\}.*)?")
# A dollar before the brace is HTCondor's macro, not a slot.
_SLOT: Final = re.compile(r"(?<!\$)\{([A-Za-z_]\w*)(?::([a-z]+))?\}", re.ASCII)


def _hms(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _hm(seconds: int) -> str:
    minutes = -(-seconds // 60)
    return f"{minutes // 60}:{minutes % 60:02}"


NUMBER_FORMATS: Final[MappingType[str, Callable[[int], str]]] = {
    "hms": _hms,
    "hm": _hm,
    "below": lambda number: str(number - 1),
    "above": lambda number: str(number + 1),
}
"""How a slot may write a number: as hours, minutes and seconds, hours and minutes, or one less or
more."""


def safe(text: str, signs: str = NAME_SIGNS) -> bool:
    """Tell whether a text may be part of a flag: letters and digits, and signs after the first.

    >>> safe("wn001.cnaf.grid"), safe("--wrap=rm"), safe("a b"), safe("x;y")
    (True, False, False, False)
    >>> safe("wn1+2", HOST_SIGNS)
    False
    """
    letters = text[:1] + text[1:].translate(dict.fromkeys(map(ord, signs)))
    return _PLAIN.fullmatch(letters) is not None


def fill(text: str, values: Values) -> str:
    """Put values into the slots of a template.

    >>> fill("walltime={wall:hms}", {"wall": 5400})
    'walltime=01:30:00'
    """

    def put(slot: re.Match[str]) -> str:
        value = values[slot[1]]
        return NUMBER_FORMATS[slot[2]](value) if slot[2] and isinstance(value, int) else str(value)

    return _SLOT.sub(put, text)


def filled(template: str, value: int | str) -> tuple[str, ...]:
    """Write a template as words, with a value in its slot.

    >>> filled("-l mem={value}mb", 5)
    ('-l', 'mem=5mb')
    """
    values = dict.fromkeys(slots(template), value)
    return tuple(fill(word, values) for word in template.split(" "))


def slots(template: str) -> dict[str, None]:
    """Return the names of the slots of a template.

    >>> list(slots("--gres=gpu:{type}:{gpus}"))
    ['type', 'gpus']
    """
    return {slot[1]: None for slot in _SLOT.finditer(template)}


def formatted(template: str) -> dict[str, str]:
    """Return the slots of a template that have a format, with its name."""
    return {slot[1]: slot[2] for slot in _SLOT.finditer(template) if slot[2]}


def slot_of(template: str) -> str:
    """Return the slot that a template consists of; empty for one with other words.

    >>> slot_of("{gpus}"), slot_of("--mem={value}M"), slot_of("{value}")
    ('gpus', '', '')
    """
    found = _SLOT.fullmatch(template)
    return "" if found is None or found[1] == VALUE else found[1]


def template(found: Any) -> str | None:
    """Read a template: one word, or a list of words; None for anything else."""
    words = [found] if isinstance(found, str) else found
    if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
        return None
    if not all(_WORD.fullmatch(word) for word in words):
        return None
    if words[0].startswith("-") and not _OPTION.fullmatch(words[0]):
        return None
    text = " ".join(words)
    known = all(each in NUMBER_FORMATS for each in formatted(text).values())
    return text if known else None


SHARED: Final = {"--mem-per-cpu": "--mem", "--mem-per-gpu": "--mem"}
"""Options that set the same as another, for each processor or GPU. Slurm takes one of them."""

REPEATED: Final = frozenset({"-l", "-R", "-v", "-ac", "-append"})
"""Options that may occur several times, with values of different kinds."""

# A long option, a resource of -l before its `=` (not `==`), or a slot alone.
_ASSIGNED: Final = re.compile(r"(--[^={<> ]*)|([A-Za-z_][\w.]*)=(?!=)|(\{[A-Za-z_]\w*\})\Z")


def assigned(template: str) -> str:
    """Return the option, resource or slot that a template sets, so that a second would undo it.

    Empty if it sets none.

    >>> assigned("--mem={value}M"), assigned("-l h_vmem={value}G"), assigned("maxmem>={value}")
    ('--mem', 'h_vmem', '')
    >>> assigned("--mem-per-cpu={value}M")
    '--mem'
    """
    found = _ASSIGNED.match(template.removeprefix("-l "))
    text = "" if found is None else next(filter(None, found.groups()))
    return "" if text == "{value}" else SHARED.get(text, text)
