"""The rules of a mapping for single attributes, and the reader of their TOML tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from collections.abc import Mapping as MappingType
from fractions import Fraction
from typing import Any, Final

import attrs

from matchmaker.batch.errors import MappingError
from matchmaker.batch.templates import NAME_SIGNS, safe, template
from matchmaker.classad.values import MAX_INT

KINDS: Final = ("min", "max", "range", "eq", "member", "bool", "bucket", "name", "python", "shell")

LEAST_UNIT: Final = 1e-12

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CALL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")


@attrs.frozen(slots=True)
class Rule:
    """How to ask for one host attribute. docs/batch.md explains the entries of the TOML table.

    Attributes:
        attribute: the name of the attribute.
        kind: one of ``KINDS``.
        flag, greatest: templates for a minimum and a maximum. One that begins with a dash is a
            separate option, any other a term in the mapping's ``features``.
        most: the largest number that the batch system can count.
        features: the batch system's names by the texts of ads.
        unit: how much of the attribute one unit of the flag is.
        rounding: ``safe``, ``up`` or ``down``.
        term: the template for names.
        buckets: the batch system's names with the least and the greatest number of each.
        join, negate: what joins several names in one term, and what negates them.
        complete: ``features`` lists every text that hosts have.
        name: HTCondor's name of the attribute.
        call: the function of kind ``python``.
    """

    attribute: str
    kind: str
    flag: str = ""
    most: int = MAX_INT
    features: MappingType[str, str] = attrs.field(factory=dict, hash=False)
    greatest: str = ""
    unit: Fraction = Fraction(1)
    rounding: str = "safe"
    term: str = "{value}"
    buckets: MappingType[str, tuple[int, int]] = attrs.field(factory=dict, hash=False)
    join: str = ""
    negate: str = ""
    complete: bool = False
    name: str = ""
    call: str = ""


def one_of(
    table: MappingType[str, Any], name: str, choices: tuple[Any, ...], default: Any, where: str
) -> Any:
    """An entry that must be one of some values."""
    found = table.get(name, default)
    if not any(found is choice or found == choice for choice in choices):
        said = ", ".join(repr(choice) for choice in choices)
        raise MappingError(f"{where}: {name} must be one of {said}, not {found!r}")
    return found


def check_options(rules: Iterable[Rule], where: str) -> None:
    """Raises MappingError if two rules set one option in different ways."""
    options: dict[str, str] = {}
    for rule in rules:
        for flag in filter(None, (rule.flag, rule.greatest)):
            option = re.split(r"[={<>]", flag, maxsplit=1)[0]
            same = options.setdefault(option, flag) == flag
            if flag.startswith("-") and not same:
                raise MappingError(
                    f"{where}: {option} is asked for in two ways; one would undo the other"
                )


def check_names(
    rules: Iterable[Rule], where: str, lrms: str, signs: str, no_names: Iterable[str]
) -> None:
    """Raises MappingError for a feature whose name has another meaning to the batch system."""
    taken = {word.lower() for word in no_names}
    for rule in rules:
        for name in (*rule.features.values(), *rule.buckets):
            if not safe(name, signs) or name.lower() in taken:
                beside = f"letters, digits and {' '.join(signs)}" if signs else "letters and digits"
                raise MappingError(
                    f"{where}: [attributes.{rule.attribute}]: {name!r} means something else to "
                    f"{lrms}, or nothing; a name there has {beside}"
                )


def most_of(facts: MappingType[str, Any], default: int, place: str, name: str = "most") -> int:
    """The largest number that a table allows."""
    most = facts.get(name, default)
    if not isinstance(most, int) or isinstance(most, bool) or not 0 < most <= MAX_INT:
        raise MappingError(f"{place}: {name} must be a positive integer, not {most!r}")
    return most


def unit_of(facts: MappingType[str, Any], place: str) -> Fraction:
    """The size of a flag's unit: exactly the decimal that the file has."""
    unit = facts.get("unit", 1)
    whole = isinstance(unit, (int, float)) and not isinstance(unit, bool)
    if not whole or not LEAST_UNIT <= unit < MAX_INT:
        raise MappingError(f"{place}: unit must be a number above 0, not {unit!r}")
    return Fraction(str(unit))


def value_template(facts: MappingType[str, Any], names: tuple[str, ...], place: str) -> str:
    """The template in the only one of several entries that the table has."""
    given = [name for name in names if name in facts]
    raw = facts[given[0]] if len(given) == 1 else None
    found = template(raw)
    option = "flag" in names and given == ["flag"]
    if not found or "{value}" not in found or (option and not found.startswith("-")):
        said = ", ".join(f"{name} = {facts[name]!r}" for name in given) or "nothing"
        raise MappingError(f"{place}: expected {_EXPECTED[names]}, found {said}")
    return found


_EXPECTED: Final = {
    ("flag", "term"): "flag, an option like '--mem={value}M', or term, a word like 'mem>={value}'",
    ("min",): "min, an option or a word like 'mem>={value}'",
    ("max",): "max, an option or a word like 'mem<={value}'",
}


def read_rule(name: str, facts: Any, where: str, term: str = "{value}") -> Rule:
    """The rule for an attribute from its table; ``term`` is how a name is asked for by default.

    Raises MappingError for an invalid table.
    """
    place = f"{where}: [attributes.{name}]"
    if not isinstance(facts, dict) or facts.get("kind") not in KINDS:
        raise MappingError(f"{place}: kind must be one of {', '.join(KINDS)}")
    kind = facts["kind"]
    wanted, read = _READERS[kind]
    if set(facts) - wanted - {"kind"}:
        extra = ", ".join(sorted(set(facts) - wanted - {"kind"}))
        raise MappingError(f"{place}: unknown entry {extra}; expected {', '.join(sorted(wanted))}")
    made = read(facts, place)
    return attrs.evolve(made, attribute=name, kind=kind, term=made.term or term)


def _number(facts: MappingType[str, Any], place: str) -> Rule:
    kind = facts["kind"]
    most = most_of(facts, MAX_INT, place)
    least = greatest = ""
    if kind == "range":
        least = value_template(facts, ("min",), place)
        greatest = value_template(facts, ("max",), place)
    elif kind == "min":
        least = value_template(facts, ("flag", "term"), place)
    else:
        greatest = value_template(facts, ("flag", "term"), place)
    rounding = one_of(facts, "rounding", ("safe", "up", "down"), "safe", place)
    return Rule("", kind, least, most, {}, greatest, unit_of(facts, place), rounding)


def _features(facts: MappingType[str, Any], place: str) -> Rule:
    features = facts.get("features")
    if facts["kind"] == "eq" and features is None and "values" in facts:
        values = facts["values"]
        features = {v: v for v in values} if _texts(values) else None
    elif facts["kind"] == "eq" and features is None and ("flag" in facts or "term" in facts):
        return Rule("", "eq", value_template(facts, ("flag", "term"), place))
    if not isinstance(features, dict):
        raise MappingError(f'{place}: features must be a table like {{ "SL" = "sl" }}')
    for name in features.values():
        if not _texts([name]):
            raise MappingError(
                f"{place}: {name!r} is no plain name of a feature: letters, digits and {NAME_SIGNS}"
            )
    if facts["kind"] == "bool" and not {"true"} <= set(features) <= {"true", "false"}:
        raise MappingError(f"{place}: features must name true, and may name false")
    if facts["kind"] == "bool" and len(set(features.values())) < len(features):
        raise MappingError(f"{place}: one feature cannot stand for both true and false")
    return Rule("", facts["kind"], features=features, **_words(facts, place))


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(v, str) and safe(v) for v in values)


def _words(facts: MappingType[str, Any], place: str) -> dict[str, Any]:
    return {
        "term": term_of(facts, place) if "term" in facts else "",
        "join": one_of(facts, "join", ("", "|"), "", place),
        "negate": one_of(facts, "negate", ("", "!"), "", place),
        "complete": one_of(facts, "complete", (True, False), False, place),
    }


def term_of(facts: MappingType[str, Any], place: str) -> str:
    """The template for names, which must not be an option."""
    term = template(facts["term"])
    if not term or "{value}" not in term or term.startswith("-"):
        raise MappingError(f"{place}: term must be like arch={{value}}, not {facts['term']!r}")
    return term


def _buckets(facts: MappingType[str, Any], place: str) -> Rule:
    found: dict[str, tuple[int, int]] = {}
    buckets = facts.get("buckets")
    for name, bound in buckets.items() if isinstance(buckets, dict) else [("", None)]:
        ends: list[Any] = bound if isinstance(bound, list) else [bound, bound]
        if not safe(name) or not _is_run(ends):
            raise MappingError(
                f"{place}: buckets must be a table of plain feature names to numbers or [from, to]"
            )
        found[name] = (ends[0], ends[1])
    return Rule("", "bucket", buckets=found, **_words(facts, place))


def _is_run(ends: Any) -> bool:
    plain = all(isinstance(end, int) and not isinstance(end, bool) for end in ends)
    return plain and len(ends) == 2 and 0 <= ends[0] <= ends[1] <= MAX_INT


def _named(facts: MappingType[str, Any], place: str) -> Rule:
    name = facts.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise MappingError(f"{place}: name must be the name of an attribute, not {name!r}")
    return Rule("", "name", name=name)


def _called(facts: MappingType[str, Any], place: str) -> Rule:
    call = facts.get("call")
    if not isinstance(call, str) or not _CALL.fullmatch(call):
        raise MappingError(f"{place}: call must be like module:function, not {call!r}")
    return Rule("", "python", call=call)


_NUMBER: Final = frozenset({"flag", "term", "most", "unit", "rounding"})
_WORDS: Final = frozenset({"features", "term", "join", "negate", "complete"})

_READERS: Final[
    MappingType[str, tuple[frozenset[str], Callable[[MappingType[str, Any], str], Rule]]]
] = {
    "min": (_NUMBER, _number),
    "max": (_NUMBER, _number),
    "range": (frozenset({"min", "max", "most", "unit", "rounding"}), _number),
    "eq": (_WORDS | {"values", "flag"}, _features),
    "member": (_WORDS - {"complete"}, _features),
    "bool": (_WORDS - {"join", "complete"}, _features),
    "bucket": (_WORDS - {"features"} | {"buckets"}, _buckets),
    "name": (frozenset({"name"}), _named),
    "python": (frozenset({"call"}), _called),
    "shell": (frozenset(), lambda facts, place: Rule("", "shell")),
}
