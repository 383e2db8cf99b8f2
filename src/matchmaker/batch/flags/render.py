"""Write terms and requests as words of an argument vector and as lines of a job script."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Final, TypeAlias

import attrs

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.errors import MappingError, TooManyError
from matchmaker.batch.flags.choose import Dropped
from matchmaker.batch.flags.inventory import Certificate
from matchmaker.batch.flags.requests import QUEUE, Requested, RequestItem
from matchmaker.batch.flags.terms import FlagTerm, Group
from matchmaker.batch.mapping import FEATURES, Mapping, TermSyntax, chosen
from matchmaker.batch.templates import assigned, fill, filled, slot_of
from matchmaker.classad import ClassAd, Expr
from matchmaker.classad.nodes import TRUE

Flag: TypeAlias = tuple[str, ...]
"""One option of a command with its value: one word, or several."""

_DIVIDED: Final = "it is a share of each processor, and no flag asks for the processors"


@attrs.frozen(slots=True)
class FlagPlan:
    """The terms that a batch system is asked for, and the clauses that they leave out.

    Attributes:
        condition: the demand on hosts: the residual, and room for the job's requests.
        dropped: the clauses of the residual that are not carried; if ``sure``, the excluded ones.
        sure: the flags imply the condition, instead of the other way round.
        groups: terms, for a batch system with flags.
        options: options of the site's own code.
        carried: for a batch system with expressions, the carried clauses in the residual's names.
        hosts: the words for nodes by name, to exclude them or to use no others.
        excluded: names of nodes that are excluded by name.
        certificate: the nodes of the inventory that are selected wrongly.
    """

    table: Mapping
    job: ClassAd
    condition: Expr
    requested: Requested
    dropped: tuple[Dropped, ...]
    sure: bool = False
    groups: tuple[Group, ...] = ()
    options: tuple[Flag, ...] = ()
    carried: Expr = TRUE
    hosts: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    certificate: Certificate | None = None


@attrs.frozen(slots=True)
class WrittenFlags:
    """The flags for terms and requests, and other lines of the job script."""

    flags: list[Flag]
    lines: list[str]


@attrs.frozen(slots=True)
class _Filled:
    """Groups and requests as values: by template of a flag or term, and by slot of ``[flags]``."""

    words: list[tuple[str, int | str]]
    terms: list[Group]
    slots: dict[str, int | str]


def _filled(groups: Iterable[Group], requested: Requested) -> _Filled:
    """Fill templates: of several minima the largest counts, of maxima the smallest."""
    least, greatest, names = requested.numbers, dict[str, int](), list[Group]()
    texts: dict[str, int | str] = {**requested.texts}
    for group in groups:
        for term in group[0] if len(group) == 1 else ():
            if term.kind == "max":
                known = greatest.get(term.template, term.number)
                greatest[term.template] = min(known, term.number)
            elif term.kind == "min":
                least[term.template] = max(least.get(term.template, 0), term.number)
            elif term.slot:
                texts[term.template] = _value(term)
            else:
                names.append(((term,),))
        if len(group) > 1:
            names.append(group)
    words = [
        *((template, number) for template, number in least.items() if number > 0),
        *greatest.items(),
        *texts.items(),
    ]
    slots = {slot_of(template): value for template, value in words if slot_of(template)}
    return _Filled([each for each in words if not slot_of(each[0])], names, slots)


def expressed(
    groups: Iterable[Group], requested: Requested, table: Mapping, *, by_name: bool = False
) -> tuple[list[Group], Requested]:
    """Return the groups and requests that flags carry: those in a slot need a form that writes it.

    A dropped one fills no slot, so that other forms are chosen: this goes on until the chosen forms
    carry all that is left. Requests that no flag carries are among the lacking ones. ``by_name``:
    nodes are named beside the terms.
    """
    left, items, lost = list(groups), requested.items, list(requested.lacking)
    while True:
        is_carried, has_flag = _carriers(left, Requested(items), table, by_name=by_name)
        said = [group for group in left if is_carried(group)]
        flagged = tuple(item for item in items if has_flag(item))
        several = Requested(flagged).has_processors
        kept = tuple(item for item in flagged if several or not item.divided)
        lost += [
            Dropped(
                item.clause,
                _DIVIDED if item in flagged else unwritten(_slot(item.template, table)),
            )
            for item in items
            if item not in kept
        ]
        if len(said) == len(left) and len(kept) == len(items):
            return said, Requested(kept, tuple(lost))
        left, items = said, kept


def _carriers(
    groups: list[Group], requested: Requested, table: Mapping, *, by_name: bool
) -> tuple[Callable[[Group], bool], Callable[[RequestItem], bool]]:
    """Return tests of whether the chosen forms carry a group, or a request."""
    found = _filled(groups, requested)
    named = [term for group in found.terms for terms in group for term in terms]
    by_term = by_name and not (table.exclude or table.include).startswith("-")
    has_terms = any(not template.startswith("-") for template, _ in found.words)
    has_terms = has_terms or by_term or not all(term.is_option for term in named)
    features = {FEATURES} if has_terms and table.style == "flags" else set()
    names = {*found.slots, *features}
    flags, lines = chosen(table.flags, names), chosen(table.lines, names)
    carried = frozenset[str]().union(*(each.carries for each in flags))
    shown = carried.union(*(each.carries for each in lines))
    needed = frozenset[str]().union(*(each.needs for each in (*flags, *lines)))

    def is_carried(group: Group) -> bool:
        return {_slot(term.template, table) for terms in group for term in terms} <= {"", *carried}

    def has_flag(item: RequestItem) -> bool:
        slot = _slot(item.template, table)
        among = needed if item.bare else shown if isinstance(item.value, str) else carried
        return not slot or slot in among or is_said(slot, item.value)

    def is_said(slot: str, value: int | str) -> bool:
        """Whether another form says the same word: the queue that the job names, or the site."""
        if slot == QUEUE and any(
            form.text.endswith((f"={value}", f" {value}")) for form in flags if not form.carries
        ):
            return True
        for forms in table.flags.values():
            written = [other for form in forms if form in flags for other in form.carries]
            said = isinstance(value, str) and value in map(found.slots.get, written)
            if said and any(slot in form.carries for form in forms):
                return True
        return False

    return is_carried, has_flag


def _slot(template: str, table: Mapping) -> str:
    """Return the slot of ``[flags]`` that a template fills; empty for an option or a line."""
    own = "" if template.startswith("-") or table.style != "flags" else FEATURES
    return slot_of(template) or own


def unwritten(slot: str) -> str:
    """Explain why a value that needs a slot is dropped."""
    return f"no form of [flags] has the slot {{{slot}}} in this case"


def written(
    groups: Iterable[Group], requested: Requested, table: Mapping, hosts: Sequence[str] = ()
) -> WrittenFlags:
    """Write the flags for groups, for requests and for ``hosts`` by name, and the lines.

    All terms that are not options share the slot ``features``. Raises TooManyError if the
    alternatives cannot be written.
    """
    found = _filled(groups, requested)
    flags = [filled(template, value) for template, value in found.words if template.startswith("-")]
    terms = [filled(t, value)[0] for t, value in found.words if not t.startswith("-")]
    if table.style == "classad":
        flags, terms = [filled(*each) for each in found.words], []
    own = [group[0][0] for group in found.terms if len(group) == 1 and group[0][0].is_option]
    flags += [filled(term.template, _value(term)) for term in own]
    rest = [group for group in found.terms if not (len(group) == 1 and group[0][0].is_option)]
    by_name = table.exclude or table.include if hosts else ""
    named = by_name.replace("{hosts}", table.host_join.join(hosts))
    if named and not named.startswith("-"):
        terms.append(named)
    together = joined(terms, rest, table.terms)
    if len(together) > LIMITS.word:
        raise TooManyError("what is asked for is too long for one word of a command")
    slots = {**found.slots, **({FEATURES: together} if together else {})}
    forms = chosen(table.flags, slots)
    if together and not any(FEATURES in each.carries for each in forms):
        raise MappingError(f"{table.lrms}: {unwritten(FEATURES)}, and nodes are left out by name")
    flags += [tuple(fill(word, slots) for word in each.text.split(" ")) for each in forms]
    if named.startswith("-"):
        flags.append(tuple(
            word.replace("{hosts}", table.host_join.join(hosts)) for word in by_name.split(" ")
        ))  # fmt: skip
    lines = [fill(each.text, slots) for each in chosen(table.lines, slots)]
    return WrittenFlags(flags, lines)


def _value(term: FlagTerm) -> int | str:
    if term.kind != "name":
        return term.number
    value = term.rule.join.join(term.names)
    if term.negated and term.rule.negate and not term.without:
        return f"{term.rule.negate}({value})" if len(term.names) > 1 else term.rule.negate + value
    return value


def joined(terms: Sequence[str], groups: Sequence[Group], language: TermSyntax) -> str:
    """Join terms and groups to one text in the language of a batch system.

    If parentheses do not nest, the text is one disjunction of conjunctions, or a conjunction of
    disjunctions of single terms.
    """
    parts = [[[term]] for term in dict.fromkeys(terms)]
    parts += [[[_term(term, language) for term in each] for each in group] for group in groups]
    parts = [part for number, part in enumerate(parts) if part not in parts[:number]]
    deep = any(len(each) > 1 for part in parts for each in part)
    if parts and (language.flat or (deep and not language.nested and len(parts) > 1)):
        if math.prod(len(part) for part in parts) > LIMITS.written:
            raise TooManyError("the alternatives are too many to write")
        parts = [
                [list(dict.fromkeys(term for each in choice for term in each))
                 for choice in product(*parts)]
            ]  # fmt: skip
    alone = len(parts) == 1
    return language.and_.join(_alternatives(part, language, alone=alone) for part in parts)


def _term(term: FlagTerm, language: TermSyntax) -> str:
    text = filled(term.template, _value(term))[0]
    return language.not_ + text if term.negated and not term.rule.negate else text


def _alternatives(part: list[list[str]], language: TermSyntax, *, alone: bool) -> str:
    if len(part) == 1 and not language.flat:
        return language.and_.join(part[0])
    each = [
        fill(language.group, {"terms": language.and_.join(terms)})
        if len(terms) > 1 or language.flat
        else terms[0]
        for terms in part
    ]
    text = language.or_.join(each)
    return text if alone else f"({text})"


def directive(flag: Flag, table: Mapping) -> str:
    """Write a flag as a line of a job script.

    A word that the batch system would split is put in double quotes, if it knows quotes. Raises
    MappingError for a word that would be read differently; only a site's own code returns such.
    """
    words = []
    # A line of a submit file is written by the table alone, quotes and all.
    unreadable = _UNREADABLE.replace('"', "") if table.directive == "{flag}" else _UNREADABLE
    for word in flag:
        broken = any(char in table.quotes for char in word)
        if (
            not word.isprintable()
            or any(char in unreadable for char in word)
            or (" " in word and not broken)
        ):
            raise MappingError(f"no line of a job script of {table.lrms} can carry {word!r}")
        words.append(f'"{word}"' if broken else word)
    return table.directive.replace("{flag}", " ".join(words))


def refusal(table: Mapping) -> str:
    """Write a line of a job script with an unknown option: the batch system refuses the job.

    For a caller that looks only at the printed lines, and not at the exit status.

    >>> from matchmaker.batch import load_mapping
    >>> refusal(load_mapping("slurm"))
    '#SBATCH --refused-by-classad'
    """
    return table.directive.replace("{flag}", "--refused-by-classad")


_UNREADABLE: Final = "\"'\\`$#"
"""What readers of job scripts take for quotes, comments or variables, each in its own way."""


def check_once(flags: Iterable[Flag], table: Mapping) -> None:
    """Raise MappingError if flags set an option twice, as a site's own code may do."""
    known: dict[str, str] = {}
    for flag in flags:
        for part in parts(flag):
            option = assigned(part)
            if option and known.setdefault(option, part) != part:
                raise MappingError(
                    f"{table.lrms} would be asked for {option} in two ways, {known[option]} and "
                    f"{part}; one would undo the other"
                )


def parts(flag: Flag) -> list[str]:
    """Split a flag into settings with their values: resources between commas, or the option.

    >>> parts(("-l", "mem=3gb,walltime=60")), parts(("-W", "90"))
    (['mem=3gb', 'walltime=60'], ['-W 90'])
    """
    return flag[1].split(",") if flag[:1] == ("-l",) and len(flag) == 2 else [" ".join(flag)]
