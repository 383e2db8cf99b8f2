"""Flags and lines in several forms: the first form whose slots are all filled is taken.

A form without slots is a constant; at the end of a list it is a default. ``with`` names slots that
must be filled, too, without being part of the text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from collections.abc import Mapping as MappingType
from typing import Any, Final, NoReturn

import attrs

from matchmaker.batch.sections import Section, alike
from matchmaker.batch.templates import NUMBER_FORMATS, formatted, slots, template

_LINE: Final = re.compile(r"[\x20-\x7e]+")
_ASSIGNMENT: Final = re.compile(r"\+?[A-Za-z_]\w*( =)? .+", re.ASCII)


@attrs.frozen(slots=True)
class Form:
    """One way to write a flag or a line.

    Attributes:
        text: the template.
        needs: the slots that must be filled for it: those in the text, and those of ``with``.
    """

    text: str
    needs: frozenset[str]

    @property
    def carries(self) -> frozenset[str]:
        """The slots in the text."""
        return frozenset(slots(self.text))


def form(text: str, beside: Iterable[str] = ()) -> Form:
    """A form of a template that also needs the slots ``beside``.

    >>> sorted(form("--gres=gpu:{type}:{gpus}").needs)
    ['gpus', 'type']
    """
    return Form(text, frozenset(slots(text)) | frozenset(beside))


def chosen(several: MappingType[str, tuple[Form, ...]], filled: Collection[str]) -> list[Form]:
    """For each name the first form whose slots are all filled, if there is one.

    >>> gpu = (form("--gres=gpu:{type}:{gpus}"), form("--gres=gpu:{gpus}"))
    >>> [each.text for each in chosen({"gpu": gpu}, {"gpus"})]
    ['--gres=gpu:{gpus}']
    """
    have = set(filled)
    firsts = (next((each for each in forms if each.needs <= have), None)
              for forms in several.values())  # fmt: skip
    return [first for first in firsts if first is not None]


def flag_forms(section: Section, style: str) -> dict[str, tuple[Form, ...]]:
    """The forms in ``[flags]``: options, or for HTCondor lines of its submit file."""
    kind = "an option" if style == "flags" else "a line such as ['+Project', '=', 'x']"
    expected = f"{kind}, a list of such forms, or {{ with = SLOT, flag = FORM }}"

    def read(key: str, found: Any) -> str:
        text = template(found)
        option = text is not None and text.startswith("-")
        right = option if style == "flags" else text is not None and _ASSIGNMENT.fullmatch(text)
        if text is None or not right:
            words = "; the words of one form stand in a list of their own: [['-l', 'x={y}']]"
            section.fail(key, expected + (words if isinstance(found, str) else ""), found)
        return text

    return {key: _several(section, key, "flag", read, expected) for key in section.facts}


def line_forms(section: Section) -> dict[str, tuple[Form, ...]]:
    """The forms in ``[lines]``: whole lines of a job script."""
    expected = "a line of ASCII characters, a list of such, or { with = SLOT, line = LINE }"

    def read(key: str, found: Any) -> str:
        if not isinstance(found, str) or not _LINE.fullmatch(found):
            section.fail(key, expected, found)
        unknown = [each for each in formatted(found).values() if each not in NUMBER_FORMATS]
        if unknown:
            section.fail(key, f"a format of {', '.join(NUMBER_FORMATS)}", unknown[0])
        return found

    return {key: _several(section, key, "line", read, expected) for key in section.facts}


def _several(section: Section, key: str, word: str, read: Any, expected: str) -> tuple[Form, ...]:
    given = section.facts[key]
    found: list[Form] = []
    for each in given if isinstance(given, list) else [given]:
        if not isinstance(each, dict):
            found.append(form(read(key, each)))
            continue
        beside = each.get("with")
        names = [beside] if isinstance(beside, str) else beside
        if set(each) != {"with", word} or not isinstance(names, list):
            section.fail(key, expected, each)
        found.append(form(read(key, each[word]), map(str, names)))
    return tuple(found)


def check_slots(
    section: Section,
    forms: MappingType[str, tuple[Form, ...]],
    known: Collection[str],
    numbers: Collection[str],
    flags: MappingType[str, str],
) -> None:
    """Raises MappingError for a slot that nothing fills, or a format of what is no number.

    ``flags`` are those of requests, by name, which fill a slot of their name without them.
    """
    for key, several in forms.items():
        for each in several:
            for slot, name in formatted(each.text).items():
                if slot in known and slot not in numbers:
                    section.fail(key, f"{{{slot}}}, which is no number", f"{{{slot}:{name}}}")
            for slot in sorted(each.needs - set(known)):
                _unknown(section, key, slot, known, flags.get(slot, ""))


def _unknown(section: Section, key: str, slot: str, known: Collection[str], own: str) -> NoReturn:
    names = ", ".join(sorted(known)) or "none"
    how = f"; requests.{slot} = {{}} fills it in place of {own!r}" if own else alike(slot, known)
    section.fail(key, f"slots that are filled ({names}){how}", f"{{{slot}}}")
