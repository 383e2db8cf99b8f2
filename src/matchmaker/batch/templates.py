"""Templates of flags: words with one slot, without anything that a shell acts on."""

from __future__ import annotations

import re
from collections.abc import Mapping as MappingType
from typing import Any, Final

import attrs

from matchmaker.batch.errors import MappingError

NAME_SIGNS: Final = "._+:@-"
"""Signs that names in flags may have beside letters and digits; most batch systems allow fewer."""

HOST_SIGNS: Final = "._-"
"""Signs that names of hosts may have; any other has a meaning to some batch system."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9]+")

# A word of a template: no space, quote, backslash, dollar or semicolon, and nothing beyond ASCII.
_WORD: Final = re.compile(r"[A-Za-z0-9._:,=+@%&|!()\[\]<>*/{}-]+")
_OPTION: Final = re.compile(r"--?[A-Za-z][A-Za-z0-9_-]*(=.*|\{[a-z]+\}.*)?")
_SLOT: Final = re.compile(r"\{[a-z]+\}")

_DIRECTIVE: Final = re.compile(r"#[A-Za-z$]+ \{flag\}")
_REQUIREMENTS: Final = re.compile(r"[A-Za-z]+ = \{expression\}")


def safe(text: str, signs: str = NAME_SIGNS) -> bool:
    """Whether a text may be part of a flag: letters and digits, and signs after the first.

    >>> safe("wn001.cnaf.grid"), safe("--wrap=rm"), safe("a b"), safe("x;y")
    (True, False, False, False)
    >>> safe("wn1+2", HOST_SIGNS)
    False
    """
    letters = text[:1] + text[1:].translate(dict.fromkeys(map(ord, signs)))
    return _PLAIN.fullmatch(letters) is not None


def filled(template: str, value: str) -> tuple[str, ...]:
    """A template as words, with a value in its slot.

    >>> filled("-l mem={value}mb", "5")
    ('-l', 'mem=5mb')
    """
    return tuple(_SLOT.sub(lambda _: value, word) for word in template.split(" "))


@attrs.frozen(slots=True)
class Templates:
    """Reads templates of one table."""

    table: MappingType[str, Any]
    where: str
    complete: bool

    def directive(self, name: str, default: str) -> str:
        """A line of a job script with ``{flag}``; empty if none is needed."""
        found = self.table.get(name, default)
        if not self.complete and not found:
            return ""
        plain = not self.complete and found == "{flag}"
        if not isinstance(found, str) or not (plain or _DIRECTIVE.fullmatch(found)):
            raise MappingError(
                f"{self.where}: {name} must be a comment such as #SBATCH with {{flag}}, "
                f"not {found!r}"
            )
        return found

    def flag(self, name: str, slot: str, default: str, *, needed: bool = False) -> str:
        """An option with a slot; empty if there is none and none is needed."""
        if name not in self.table and default:
            return default
        found = template(self.table.get(name, default))
        if found == "" and not (self.complete and needed):
            return ""
        if found is None or slot not in found or not found.startswith("-"):
            raise MappingError(
                f"{self.where}: {name} must be a flag without spaces, or a list of words, "
                f"with {slot}, not {self.table.get(name, default)!r}"
            )
        return found

    def requirements(self, default: str) -> str:
        """A line of HTCondor's submit file with ``{expression}``."""
        found = self.table.get("requirements", default)
        if not isinstance(found, str) or (found and not _REQUIREMENTS.fullmatch(found)):
            raise MappingError(
                f"{self.where}: requirements must be like 'requirements = {{expression}}'"
            )
        return found


def template(found: Any) -> str | None:
    """A template as text: one word, or a list of words, with one slot; None for anything else."""
    words = [found] if isinstance(found, str) else found
    if found == "":
        return ""
    if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
        return None
    if not all(_WORD.fullmatch(word) for word in words):
        return None
    if words[0].startswith("-") and not _OPTION.fullmatch(words[0]):
        return None
    text = " ".join(words)
    return text if len(_SLOT.findall(text)) == 1 else None
