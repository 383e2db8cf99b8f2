"""Renders terms as words of an argument vector and as lines of a job script."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final, TypeAlias

from matchmaker.batch.errors import MappingError, TooManyError
from matchmaker.batch.limits import LIMITS
from matchmaker.batch.mapping import Mapping, Syntax
from matchmaker.batch.templates import filled
from matchmaker.batch.terms import Group, Term, assigned

Flag: TypeAlias = tuple[str, ...]
"""One option of a command with its value: one word, or several."""


def options(groups: Iterable[Group], numbers: dict[str, int], table: Mapping) -> list[Flag]:
    """The flags for all groups, and for the numbers that the job requests, by template.

    Of several minima with the same template the largest counts, of maxima the smallest. All terms
    that are not options share the mapping's ``features``.

    Raises TooManyError if the alternatives cannot be written.
    """
    least, greatest, named = dict(numbers), dict[str, int](), list[Group]()
    for group in groups:
        for term in group[0] if len(group) == 1 else ():
            if term.kind == "max":
                known = greatest.get(term.template, term.number)
                greatest[term.template] = min(known, term.number)
            elif term.kind == "min":
                least[term.template] = max(least.get(term.template, 0), term.number)
            else:
                named.append(((term,),))
        if len(group) > 1:
            named.append(group)
    words = [(template, str(number)) for template, number in least.items() if number > 0]
    words += [(template, str(number)) for template, number in greatest.items()]
    flags = [filled(template, value) for template, value in words if template.startswith("-")]
    terms = [filled(t, value)[0] for t, value in words if not t.startswith("-")]
    own = [group[0][0] for group in named if len(group) == 1 and group[0][0].is_option]
    flags += [filled(term.template, _value(term)) for term in own]
    rest = [group for group in named if not (len(group) == 1 and group[0][0].is_option)]
    written = joined(terms, rest, table.terms)
    if len(written) > LIMITS.word:
        raise TooManyError("what is asked for is too long for one word of a command")
    if written:
        flags.append(filled(table.features, written))
    return flags


def _value(term: Term) -> str:
    if term.kind != "name":
        return str(term.number)
    value = term.rule.join.join(term.names)
    if term.negated and term.rule.negate:
        return f"{term.rule.negate}({value})" if len(term.names) > 1 else term.rule.negate + value
    return value


def joined(terms: Sequence[str], groups: Sequence[Group], language: Syntax) -> str:
    """Terms and groups as one text in the language of a batch system.

    If parentheses do not nest, the text is one disjunction of conjunctions, or a conjunction of
    disjunctions of single terms.
    """
    parts = [[[term]] for term in dict.fromkeys(terms)]
    parts += [[[_term(term, language) for term in each] for each in group] for group in groups]
    parts = [part for number, part in enumerate(parts) if part not in parts[:number]]
    deep = any(len(each) > 1 for part in parts for each in part)
    if deep and not language.nested and len(parts) > 1:
        if math.prod(len(part) for part in parts) > LIMITS.written:
            raise TooManyError("the alternatives are too many to write")
        parts = [
                [list(dict.fromkeys(term for each in choice for term in each))
                 for choice in product(*parts)]
            ]  # fmt: skip
    alone = len(parts) == 1
    return language.and_.join(_alternatives(part, language, alone=alone) for part in parts)


def _term(term: Term, language: Syntax) -> str:
    text = filled(term.template, _value(term))[0]
    return language.not_ + text if term.negated and not term.rule.negate else text


def _alternatives(part: list[list[str]], language: Syntax, *, alone: bool) -> str:
    if len(part) == 1:
        return language.and_.join(part[0])
    each = [
        f"({language.and_.join(terms)})" if len(terms) > 1 else terms[0] for terms in part
    ]  # fmt: skip
    text = language.or_.join(each)
    return text if alone else f"({text})"


def directive(flag: Flag, table: Mapping) -> str:
    """A flag as a line of a job script.

    A word that the batch system would split is put in double quotes, if it knows quotes. Raises
    MappingError for a word that would be read differently; only a site's own code returns such.
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
    """A line of a job script with an unknown option, so that the batch system refuses the job.

    For a caller that looks only at the printed lines, and not at the exit status.

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


def check_once(flags: Iterable[Flag], table: Mapping) -> None:
    """Raises MappingError if flags set an option twice, as a site's own code may do."""
    known: dict[str, str] = {}
    for flag in flags:
        parts = flag[1].split(",") if flag[:1] == ("-l",) and len(flag) == 2 else [" ".join(flag)]
        for part in parts:
            option = assigned(part)
            if option and known.setdefault(option, part) != part:
                raise MappingError(
                    f"{table.lrms} would be asked for {option} in two ways, {known[option]} and "
                    f"{part}; one would undo the other"
                )
