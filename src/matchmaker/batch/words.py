"""From what is asked for to the words of an argument vector and the lines of a job script."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Final, TypeAlias

from matchmaker.batch.asks import Ask, Group
from matchmaker.batch.errors import MappingError, TooManyError
from matchmaker.batch.mapping import Mapping, Terms
from matchmaker.batch.templates import filled

MOST_TERMS: Final = 64
"""So many alternatives are written out where parentheses do not nest."""

MOST_WRITTEN: Final = 120_000
"""So many characters all terms may have; one word of a command holds 128 KiB."""

Flag: TypeAlias = tuple[str, ...]
"""One option of a command with its value: one word, or several."""


def options(groups: Iterable[Group], numbers: dict[str, int], table: Mapping) -> list[Flag]:
    """The flags for all groups, with the numbers that the job itself asks for, by template.

    Of several minima with one template the largest counts, of maxima the smallest. Terms, whether
    numbers or names, share the mapping's ``features``.
    """
    least, greatest, named = dict(numbers), dict[str, int](), list[Group]()
    for group in groups:
        for ask in group[0] if len(group) == 1 else ():
            if ask.kind == "max":
                known = greatest.get(ask.template, ask.number)
                greatest[ask.template] = min(known, ask.number)
            elif ask.kind == "min":
                least[ask.template] = max(least.get(ask.template, 0), ask.number)
            else:
                named.append(((ask,),))
        if len(group) > 1:
            named.append(group)
    words = [(template, str(number)) for template, number in least.items() if number > 0]
    words += [(template, str(number)) for template, number in greatest.items()]
    flags = [filled(template, value) for template, value in words if template.startswith("-")]
    terms = [filled(t, value)[0] for t, value in words if not t.startswith("-")]
    own = [group[0][0] for group in named if len(group) == 1 and group[0][0].is_option]
    flags += [filled(ask.template, _value(ask)) for ask in own]
    rest = [group for group in named if not (len(group) == 1 and group[0][0].is_option)]
    written = joined(terms, rest, table.terms)
    if len(written) > MOST_WRITTEN:
        raise TooManyError("what is asked for is too long for one word of a command")
    if written:
        flags.append(filled(table.features, written))
    return flags


def _value(ask: Ask) -> str:
    if ask.kind != "name":
        return str(ask.number)
    value = ask.rule.join.join(ask.names)
    if ask.negated and ask.rule.negate:
        return f"{ask.rule.negate}({value})" if len(ask.names) > 1 else ask.rule.negate + value
    return value


def joined(terms: Sequence[str], groups: Sequence[Group], language: Terms) -> str:
    """Terms and groups as one text in a batch system's own language.

    Where parentheses do not nest, all is written as alternatives without them, or as a conjunction
    of alternatives of one term each.
    """
    parts = [[[term]] for term in dict.fromkeys(terms)]
    parts += [[[_term(ask, language) for ask in asks] for asks in group] for group in groups]
    parts = [part for number, part in enumerate(parts) if part not in parts[:number]]
    deep = any(len(asks) > 1 for part in parts for asks in part)
    if deep and not language.nested and len(parts) > 1:
        if math.prod(len(part) for part in parts) > MOST_TERMS:
            raise TooManyError("the alternatives are too many to write")
        parts = [
                [list(dict.fromkeys(term for asks in choice for term in asks))
                 for choice in product(*parts)]
            ]  # fmt: skip
    alone = len(parts) == 1
    return language.and_.join(_alternatives(part, language, alone=alone) for part in parts)


def _term(ask: Ask, language: Terms) -> str:
    text = filled(ask.template, _value(ask))[0]
    return language.not_ + text if ask.negated and not ask.rule.negate else text


def _alternatives(part: list[list[str]], language: Terms, *, alone: bool) -> str:
    if len(part) == 1:
        return language.and_.join(part[0])
    each = [
        f"({language.and_.join(asks)})" if len(asks) > 1 else asks[0] for asks in part
    ]  # fmt: skip
    text = language.or_.join(each)
    return text if alone else f"({text})"


def directive(flag: Flag, table: Mapping) -> str:
    """A flag as a line of a job script.

    A word that the batch system's reader of scripts would break up is put in double quotes, where
    it knows quotes. Raises MappingError for a word that does not read back as it is: only words of
    a site's own code can be such.
    """
    words = []
    for word in flag:
        broken = any(char in table.quotes for char in word)
        if (
            not word.isprintable()
            or any(char in _UNREADABLE for char in word)
            or (" " in word and not broken)
        ):
            raise MappingError(f"no line of a job script of {table.lrms} can carry {word!r}")
        words.append(f'"{word}"' if broken else word)
    return table.directive.replace("{flag}", " ".join(words))


def refusal(table: Mapping) -> str:
    """A line of a job script that makes the batch system refuse the job: an option it has not.

    For a reader that looks at what is printed alone, and not at an exit status.

    >>> from matchmaker.batch import load_mapping
    >>> refusal(load_mapping("slurm"))
    '#SBATCH --refused-by-classad'
    """
    return table.directive.replace("{flag}", "--refused-by-classad")


_UNREADABLE: Final = "\"'\\`$#"
"""What readers of job scripts take for quotes, comments or variables, each in its own way."""


def hosts(template: str, names: Sequence[str], table: Mapping) -> Flag:
    """The flag for nodes by name."""
    return filled(template, table.host_join.join(names))


def admits(groups: Iterable[Group], value: Callable[[str], object]) -> bool | None:
    """Whether what is asked for admits a host with such values; None where none can say.

    As ``&&`` and ``||`` of three values: what is not known matters only where nothing else decides.
    """
    verdict: bool | None = True
    for group in groups:
        outcomes = [_all(asks, value) for asks in group]
        known = True if True in outcomes else None if None in outcomes else False
        if known is False:
            return False
        verdict = verdict if known else None
    return verdict


def _all(asks: Iterable[Ask], value: Callable[[str], object]) -> bool | None:
    outcomes = [ask.admits(value(ask.rule.attribute)) for ask in asks]  # type: ignore[arg-type]
    return False if False in outcomes else None if None in outcomes else True
