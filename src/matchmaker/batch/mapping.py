"""The table of what a batch system can be told: for each host attribute, its kind and its flag.

One TOML file a batch system comes with the package; a site's own file, of the same form, is laid
over it. What a rule can say of a condition is in ``asks``, turning conditions into flags in
``flags``.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable
from collections.abc import Mapping as MappingType
from fractions import Fraction
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import attrs

from matchmaker.batch.templates import MappingError, Templates, safe, template
from matchmaker.classad.values import MAX_INT

KINDS: Final = ("min", "max", "range", "eq", "member", "bool", "bucket", "name", "python", "shell")

STYLES: Final = ("flags", "classad", "blah")

_ATTRIBUTE: Final = re.compile(r'\+[A-Za-z]+ = "\{policy\}"')
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CALL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")


@attrs.frozen(slots=True)
class Rule:
    """How one host attribute is asked for.

    ``flag`` asks for at least so much at ``{value}``, ``greatest`` for at most; a template that
    begins with a dash is an option of its own, any other a term among the others in the mapping's
    ``features``. A number over ``most``, the largest that the batch system can count, has no flag;
    ``unit`` is how much of the attribute one of the flag's is. ``features`` are the batch system's
    names by the texts of the ad, ``buckets`` its names by the least and the greatest number; they
    are put into ``term``, several of them with ``join`` between.
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


@attrs.frozen(slots=True)
class Terms:
    """How terms are put together: the words for and, or, not, and whether parentheses nest.

    What is empty, the batch system cannot say.
    """

    and_: str = "&"
    or_: str = ""
    not_: str = ""
    nested: bool = False


@attrs.frozen(slots=True)
class Request:
    """How a resource of the job itself is asked for: a template, and what one of its units is."""

    flag: str
    unit: Fraction = Fraction(1)
    per_cpu: bool = False


@attrs.frozen(slots=True)
class Mapping:
    """What one batch system can be told: its rules by folded attribute name, and its templates.

    ``style`` is how it is told: by ``flags``, by a ``classad`` expression in ``requirements``, or
    by what ``blah`` reads.
    """

    lrms: str
    submit: str
    directive: str
    exclude: str
    features: str
    rules: MappingType[str, Rule]
    include: str = ""
    host_join: str = ","
    terms: Terms = attrs.field(factory=Terms)
    requests: MappingType[str, Request] = attrs.Factory(dict)
    style: str = "flags"
    requirements: str = ""
    quotes: bool = False
    others: str = ""
    shell: str = ""
    metadata: str = ""


def known_lrms() -> tuple[str, ...]:
    """The batch systems that there is a table for.

    >>> known_lrms()
    ('blah', 'htcondor', 'lsf', 'pbspro', 'sge', 'slurm', 'torque')
    """
    folder = files("matchmaker.batch").joinpath("systems")
    return tuple(
        sorted(f.name[: -len(".toml")] for f in folder.iterdir() if f.name.endswith(".toml"))
    )


def load_mapping(lrms: str, site: str | os.PathLike[str] | None = None) -> Mapping:
    """The mapping for a batch system, with a site's own file laid over it where one is given.

    Raises ValueError for an unknown batch system, OSError where the site's file cannot be read, and
    MappingError for one that does not say what a mapping must.

    >>> load_mapping("slurm").rules["gluehostmainmemoryramsize"].flag
    '--mem={value}M'
    """
    mapping = _packaged(lrms)
    if site is None:
        return mapping
    name = os.fspath(site)
    try:
        table = tomllib.loads(Path(site).read_bytes().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise MappingError(f"{name}: not TOML: {error}") from None
    return _merged(mapping, table, name)


@cache
def _packaged(lrms: str) -> Mapping:
    if lrms not in known_lrms():
        raise ValueError(f"unknown batch system {lrms!r}; there is {', '.join(known_lrms())}")
    text = files("matchmaker.batch").joinpath("systems", f"{lrms}.toml").read_text("utf-8")
    return _merged(None, tomllib.loads(text), lrms)


# --- reading --------------------------------------------------------------------------------------

_EMPTY: Final = Mapping("", "", "", "", "", {})

_PLAIN_ENTRIES: Final = ("lrms", "submit", "directive", "exclude", "features")
_MORE_ENTRIES: Final = (
    "metadata", "include", "host_join", "style", "requirements", "quotes", "others", "shell",
    "terms", "requests",
)  # fmt: skip


def _merged(base: Mapping | None, table: MappingType[str, Any], where: str) -> Mapping:
    """A table laid over a mapping; without one, the table of a batch system itself."""
    before = base or _EMPTY
    lrms = table.get("lrms", before.lrms)
    if base is not None and lrms != base.lrms:
        raise MappingError(f"{where}: it is a mapping for {lrms!r}, not for {base.lrms!r}")
    attributes = table.get("attributes", {})
    unknown = set(table) - {*_PLAIN_ENTRIES, *_MORE_ENTRIES, "attributes"}
    if unknown or not isinstance(attributes, dict):
        raise MappingError(
            f"{where}: unknown entry {', '.join(sorted(unknown)) or 'attributes'}; expected "
            f"{', '.join((*_PLAIN_ENTRIES, *_MORE_ENTRIES))} and tables [attributes.NAME]"
        )
    rules = dict(before.rules)
    for name, facts in attributes.items():
        rules[name.lower()] = _rule(name, facts, where)
    _check_options(rules, where)
    submit = table.get("submit", before.submit)
    style = _one_of(table, "style", STYLES, before.style, where)
    if not isinstance(submit, str) or not (safe(submit) or (style == "blah" and not submit)):
        raise MappingError(f"{where}: submit must be the name of a command, not {submit!r}")
    reader = Templates(table, where, complete=style == "flags")
    return Mapping(
        lrms=lrms,
        submit=submit,
        directive=reader.directive("directive", before.directive),
        exclude=reader.flag("exclude", "{hosts}", before.exclude, needed=lrms == "slurm"),
        features=reader.flag("features", "{features}", before.features, needed=True),
        rules=rules,
        include=reader.flag("include", "{hosts}", before.include),
        metadata=_metadata(table, before.metadata, reader),
        host_join=_one_of(table, "host_join", (",", "|", " ", "+"), before.host_join, where),
        terms=_terms(table, before.terms, where),
        requests=_requests(table, before.requests, where),
        style=style,
        requirements=reader.requirements(before.requirements),
        quotes=_one_of(table, "quotes", (True, False), before.quotes, where),
        others=_one_of(table, "others", ("", "same"), before.others, where),
        shell=_shell(table, before.shell, where),
    )


def _check_options(rules: MappingType[str, Rule], where: str) -> None:
    options: dict[str, str] = {}
    for rule in rules.values():
        for flag in filter(None, (rule.flag, rule.greatest)):
            option = re.split(r"[={<>]", flag, maxsplit=1)[0]
            same = options.setdefault(option, flag) == flag
            if flag.startswith("-") and not same:
                raise MappingError(
                    f"{where}: {option} is asked for in two ways; one would undo the other"
                )


def _one_of(
    table: MappingType[str, Any], name: str, choices: tuple[Any, ...], default: Any, where: str
) -> Any:
    found = table.get(name, default)
    if not any(found is choice or found == choice for choice in choices):
        said = ", ".join(repr(choice) for choice in choices)
        raise MappingError(f"{where}: {name} must be one of {said}, not {found!r}")
    return found


def _metadata(table: MappingType[str, Any], default: str, reader: Templates) -> str:
    """The place of a policy in a job's metadata: a flag, or a line of HTCondor's submit file."""
    found = table.get("metadata", default)
    if isinstance(found, str) and _ATTRIBUTE.fullmatch(found):
        return found
    return reader.flag("metadata", "{policy}", default)


def _shell(table: MappingType[str, Any], default: str, where: str) -> str:
    path = table.get("shell", default)
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise MappingError(f"{where}: shell must be the full path of a program, not {path!r}")
    return path


def _terms(table: MappingType[str, Any], default: Terms, where: str) -> Terms:
    facts = table.get("terms")
    if facts is None:
        return default
    words = {"and": "&", "or": "", "not": ""}
    if not isinstance(facts, dict) or set(facts) - {*words, "nested"}:
        raise MappingError(f"{where}: [terms] has and, or, not and nested")
    joins = ("&", "&&", "|", "||", "!", ":", ",", "")
    words = {name: _one_of(facts, name, joins, word, where) for name, word in words.items()}
    nested = _one_of(facts, "nested", (True, False), False, where)
    return Terms(words["and"], words["or"], words["not"], nested)


def _requests(
    table: MappingType[str, Any], default: MappingType[str, Request], where: str
) -> MappingType[str, Request]:
    facts = table.get("requests", {})
    known = ("memory", "cpus", "disk", "gpus", "wall")
    if not isinstance(facts, dict) or set(facts) - set(known):
        raise MappingError(f"{where}: [requests] has {', '.join(known)}")
    found = dict(default)
    for name, entry in facts.items():
        place = f"{where}: [requests] {name}"
        if not isinstance(entry, dict) or set(entry) - {"flag", "term", "unit", "per_cpu"}:
            raise MappingError(f"{place}: expected flag or term, unit and per_cpu")
        flag = _value_template(entry, ("flag", "term"), place)
        per_cpu = _one_of(entry, "per_cpu", (True, False), False, place)
        found[name] = Request(flag, _unit(entry, place), per_cpu)
    return found


def _unit(facts: MappingType[str, Any], place: str) -> Fraction:
    unit = facts.get("unit", 1)
    if isinstance(unit, bool) or not isinstance(unit, (int, float)) or not 0 < unit < MAX_INT:
        raise MappingError(f"{place}: unit must be a number above 0, not {unit!r}")
    return Fraction(unit)


def _value_template(facts: MappingType[str, Any], names: tuple[str, ...], place: str) -> str:
    """The template of the one of several entries that is there."""
    given = [name for name in names if name in facts]
    raw = facts[given[0]] if len(given) == 1 else None
    found = template(raw)
    option = "flag" in names and given == ["flag"]
    if not found or "{value}" not in found or (option and not found.startswith("-")):
        raise MappingError(f"{place}: {names[0]} must be like --mem={{value}}M, not {raw!r}")
    return found


def _rule(name: str, facts: Any, where: str) -> Rule:
    place = f"{where}: [attributes.{name}]"
    if not isinstance(facts, dict) or facts.get("kind") not in KINDS:
        raise MappingError(f"{place}: kind must be one of {', '.join(KINDS)}")
    kind = facts["kind"]
    wanted, read = _READERS[kind]
    if set(facts) - wanted - {"kind"}:
        extra = ", ".join(sorted(set(facts) - wanted - {"kind"}))
        raise MappingError(f"{place}: unknown entry {extra}; expected {', '.join(sorted(wanted))}")
    return attrs.evolve(read(facts, place), attribute=name, kind=kind)


def _number(facts: MappingType[str, Any], place: str) -> Rule:
    kind = facts["kind"]
    most = facts.get("most", MAX_INT)
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise MappingError(f"{place}: most must be a positive integer, not {most!r}")
    least = greatest = ""
    if kind == "range":
        least = _value_template(facts, ("min",), place)
        greatest = _value_template(facts, ("max",), place)
    elif kind == "min":
        least = _value_template(facts, ("flag", "term"), place)
    else:
        greatest = _value_template(facts, ("flag", "term"), place)
    rounding = _one_of(facts, "rounding", ("safe", "up", "down"), "safe", place)
    return Rule("", kind, least, most, {}, greatest, _unit(facts, place), rounding)


def _features(facts: MappingType[str, Any], place: str) -> Rule:
    features = facts.get("features")
    if facts["kind"] == "eq" and features is None and "values" in facts:
        values = facts["values"]
        features = {v: v for v in values} if _texts(values) else None
    elif facts["kind"] == "eq" and features is None and ("flag" in facts or "term" in facts):
        return Rule("", "eq", _value_template(facts, ("flag", "term"), place))
    if not isinstance(features, dict) or not _texts(list(features.values())):
        raise MappingError(f"{place}: features must be a table of texts to plain feature names")
    if facts["kind"] == "bool" and not {"true"} <= set(features) <= {"true", "false"}:
        raise MappingError(f"{place}: features must name true, and may name false")
    return Rule("", facts["kind"], features=features, **_words(facts, place))


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(v, str) and safe(v) for v in values)


def _words(facts: MappingType[str, Any], place: str) -> dict[str, Any]:
    term = template(facts.get("term", "{value}"))
    if not term or "{value}" not in term or term.startswith("-"):
        raise MappingError(f"{place}: term must be like arch={{value}}, not {facts.get('term')!r}")
    return {
        "term": term,
        "join": _one_of(facts, "join", ("", "|"), "", place),
        "negate": _one_of(facts, "negate", ("", "!"), "", place),
        "complete": _one_of(facts, "complete", (True, False), False, place),
    }


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
