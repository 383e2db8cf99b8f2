"""Mappings: for each batch system a table of its flags, and for each host attribute a rule.

The package has one TOML file for each batch system, in ``systems``. A site's own file has the same
form and is laid over it.
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
from typing import Any, Final, TypeAlias

import attrs

from matchmaker.batch.errors import MappingError
from matchmaker.batch.limits import LIMITS
from matchmaker.batch.rules import (
    Rule,
    check_names,
    check_options,
    most_of,
    one_of,
    read_rule,
    term_of,
    unit_of,
    value_template,
)
from matchmaker.batch.templates import NAME_SIGNS, Templates, safe

STYLES: Final = ("flags", "classad", "blah")

_ATTRIBUTE: Final = re.compile(r'\+[A-Za-z]+ = "\{policy\}"')


@attrs.frozen(slots=True)
class Syntax:
    """How terms are joined: the signs for and, or, not, and whether parentheses nest.

    A batch system has no connective whose sign is empty.
    """

    and_: str = "&"
    or_: str = ""
    not_: str = ""
    nested: bool = False


@attrs.frozen(slots=True)
class Request:
    """How a resource is requested: a template, the size of its unit, and the largest number."""

    flag: str
    unit: Fraction = Fraction(1)
    per_cpu: bool = False
    most: int = LIMITS.amount


@attrs.frozen(slots=True)
class Mapping:
    """The table of one batch system. docs/batch.md explains the entries of the TOML file.

    Attributes:
        lrms: the name of the batch system.
        submit: its command for submitting; empty for BLAH, which has none.
        directive: the template of a line of a job script.
        exclude, include: templates of the flags that exclude nodes, or name those to use.
        features: the template of the flag for all terms together.
        rules: the rules by folded name of the attribute.
        host_join: what stands between names of nodes.
        terms: how terms are joined.
        requests: how resources are requested, by name of the resource.
        style: ``flags``, ``classad`` (an expression in ``requirements``), or ``blah``.
        quotes: characters that make a word of a directive be quoted; empty without quotes.
        others: ``same`` if a pool has attributes without a rule under the same names.
        shell: the path of the site's own program.
        metadata, room: where a policy travels with the job, and how many characters it may have.
        signs: what names of features may hold beside letters and digits.
        term: how a feature is asked for if its rule says nothing else.
        no_names, no_hosts: words that mean something else than a feature, or a host, of that name.
        domains: name hosts with and without their domains.
        published: other names under which information systems publish the batch system.
        query, job_name: the command that shows a queued job, and a pattern of the names of jobs.
    """

    lrms: str
    submit: str
    directive: str
    exclude: str
    features: str
    rules: MappingType[str, Rule]
    include: str = ""
    host_join: str = ","
    terms: Syntax = attrs.field(factory=Syntax)
    requests: MappingType[str, Request] = attrs.Factory(dict)
    style: str = "flags"
    requirements: str = ""
    quotes: str = ""
    others: str = ""
    shell: str = ""
    metadata: str = ""
    room: int = LIMITS.policy
    signs: str = NAME_SIGNS
    term: str = "{value}"
    no_names: tuple[str, ...] = ()
    no_hosts: tuple[str, ...] = ()
    domains: bool = False
    published: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    job_name: str = r"[0-9][A-Za-z0-9_.\[\]@-]*"


def known_lrms() -> tuple[str, ...]:
    """The batch systems that have a table: one for each file in ``systems``.

    >>> known_lrms()[:3]
    ('blah', 'htcondor', 'lsf')
    """
    folder = files("matchmaker.batch").joinpath("systems")
    return tuple(
        sorted(f.name[: -len(".toml")] for f in folder.iterdir() if f.name.endswith(".toml"))
    )


def load_mapping(lrms: str, site: str | os.PathLike[str] | None = None) -> Mapping:
    """The mapping for a batch system, with a site's own file laid over it.

    Args:
        lrms: the name of the batch system.
        site: the path of the site's TOML file.

    Raises:
        ValueError: the batch system is unknown.
        OSError: the site's file cannot be read.
        MappingError: the site's file is invalid.

    >>> load_mapping("slurm").rules["gluehostmainmemoryramsize"].flag
    '--mem={value}M'
    """
    mapping = _packaged(lrms)
    if site is None:
        return mapping
    name = os.fspath(site)
    data = Path(site).read_bytes()
    try:
        table = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise MappingError(
            f"{name}: not TOML: byte {data[error.start]:#04x} in line {line} is not UTF-8 text"
        ) from None
    except (ValueError, RecursionError) as error:
        raise MappingError(f"{name}: not TOML: {error}") from None
    return _merged(mapping, table, name)


@cache
def _packaged(lrms: str) -> Mapping:
    if lrms not in known_lrms():
        raise ValueError(f"unknown batch system {lrms!r}; known: {', '.join(known_lrms())}")
    text = files("matchmaker.batch").joinpath("systems", f"{lrms}.toml").read_text("utf-8")
    return _merged(None, tomllib.loads(text), lrms)


def same_system(published: str, lrms: str) -> bool:
    """Whether a queue that is published with a type may run on a batch system.

    >>> same_system("PBS", "torque"), same_system("slurm", "slurm"), same_system("lsf", "slurm")
    (True, True, False)
    """
    name, ours = published.lower(), lrms.lower()
    return name == ours or (ours in known_lrms() and name in _packaged(ours).published)


# --- reading --------------------------------------------------------------------------------------

_NO_RULE: Final = {
    "classad": "HTCondor takes expressions: kind must be name, with the pool's name of it",
    "blah": "BLAH takes attributes under their own names; a mapping is for the system behind it",
}

_Read: TypeAlias = Callable[[Templates, str, Any], Any]
"""Reads an entry of a table by its name; a third argument is what it is without the entry."""

_EMPTY: Final = Mapping("", "", "", "", "", {})

_OWN_ENTRIES: Final = ("published", "query", "job_name")
"""Entries of the package's tables alone."""


def _merged(base: Mapping | None, table: MappingType[str, Any], where: str) -> Mapping:
    """A table laid over a mapping, or the package's table of a batch system itself."""
    before = base or _EMPTY
    lrms = table.get("lrms", before.lrms)
    if base is not None and lrms != base.lrms:
        raise MappingError(f"{where}: it is a mapping for {lrms!r}, not for {base.lrms!r}")
    attributes = table.get("attributes", {})
    known = [name for name in _READERS if base is None or name not in _OWN_ENTRIES]
    unknown = set(table) - {"lrms", "attributes", *known}
    if unknown or not isinstance(attributes, dict):
        raise MappingError(
            f"{where}: unknown entry {', '.join(sorted(unknown)) or 'attributes'}; expected lrms, "
            f"{', '.join(known)} and tables [attributes.NAME]"
        )
    style = one_of(table, "style", STYLES, before.style, where)
    reader = Templates(table, where, complete=style == "flags")
    entries = {name: read(reader, name, getattr(before, name)) for name, read in _READERS.items()}
    rules = dict(before.rules)
    for name, facts in attributes.items():
        rules[name.lower()] = rule = read_rule(name, facts, where, entries["term"])
        if style == "blah" or (style == "classad" and rule.kind != "name"):
            raise MappingError(f"{where}: [attributes.{name}]: {_NO_RULE[style]}")
    check_options(rules.values(), where)
    check_names(rules.values(), where, lrms, entries["signs"], entries["no_names"])
    if style != "blah" and not entries["submit"]:
        raise MappingError(f"{where}: submit must be the name of a command, not ''")
    return Mapping(lrms=lrms, rules=rules, **entries)


def _submit(reader: Templates, name: str, default: str) -> str:
    found = reader.table.get(name, default)
    if not isinstance(found, str) or (found and not safe(found)):
        raise MappingError(f"{reader.where}: submit must be the name of a command, not {found!r}")
    return found


def _term(reader: Templates, name: str, default: str) -> str:
    return term_of(reader.table, reader.where) if name in reader.table else default


def _choice(*choices: object) -> _Read:
    return lambda reader, name, default: one_of(reader.table, name, choices, default, reader.where)


def _metadata(reader: Templates, name: str, default: str) -> str:
    """The place of a policy in a job's metadata: a flag, or a line of HTCondor's submit file."""
    found = reader.table.get(name, default)
    if isinstance(found, str) and _ATTRIBUTE.fullmatch(found):
        return found
    return reader.flag(name, "{policy}", default)


def _shell(reader: Templates, name: str, default: str) -> str:
    path = reader.table.get(name, default)
    if not isinstance(path, str) or (path and not (path.startswith("/") and path.isprintable())):
        raise MappingError(
            f"{reader.where}: shell must be the full path of a program, not {path!r}"
        )
    return path


def _text(reader: Templates, name: str, default: str) -> str:
    found = reader.table.get(name, default)
    if not isinstance(found, str) or not all(
        char.isascii() and char.isprintable() for char in found
    ):
        raise MappingError(f"{reader.where}: {name} must be a text of characters, not {found!r}")
    return found


def _words(reader: Templates, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    found = reader.table.get(name, list(default))
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise MappingError(f"{reader.where}: {name} must be a list of words, not {found!r}")
    return tuple(found)


def _terms(reader: Templates, name: str, default: Syntax) -> Syntax:
    facts, where = reader.table.get(name), reader.where
    if facts is None:
        return default
    words = {"and": default.and_, "or": default.or_, "not": default.not_}
    if not isinstance(facts, dict) or set(facts) - {*words, "nested"}:
        raise MappingError(f"{where}: [terms] has and, or, not and nested")
    joins = ("&", "&&", "|", "||", "!", ":", ",", "")
    words = {each: one_of(facts, each, joins, word, where) for each, word in words.items()}
    nested = one_of(facts, "nested", (True, False), default.nested, where)
    return Syntax(words["and"], words["or"], words["not"], nested)


def _requests(
    reader: Templates, name: str, default: MappingType[str, Request]
) -> MappingType[str, Request]:
    facts, where = reader.table.get(name, {}), reader.where
    known = ("memory", "cpus", "disk", "gpus", "wall")
    if not isinstance(facts, dict) or set(facts) - set(known):
        raise MappingError(f"{where}: [requests] has {', '.join(known)}")
    found = dict(default)
    for resource, entry in facts.items():
        place = f"{where}: [requests] {resource}"
        if not isinstance(entry, dict) or set(entry) - {"flag", "term", "unit", "per_cpu", "most"}:
            raise MappingError(f"{place}: expected flag or term, unit, per_cpu and most")
        flag = value_template(entry, ("flag", "term"), place)
        per_cpu = one_of(entry, "per_cpu", (True, False), False, place)
        unit = unit_of(entry, place)
        before = found.get(resource)
        # The same amount, in the new unit, is the largest unless the entry says another.
        most = max(1, int(before.most * before.unit / unit)) if before else LIMITS.amount
        found[resource] = Request(flag, unit, per_cpu, most_of(entry, most, place))
    return found


_READERS: Final[MappingType[str, _Read]] = {
    "submit": _submit,
    "directive": Templates.directive,
    "exclude": lambda reader, name, default: reader.flag(name, "{hosts}", default),
    "features": lambda reader, name, default: reader.flag(name, "{features}", default, needed=True),
    "include": lambda reader, name, default: reader.flag(name, "{hosts}", default),
    "metadata": _metadata,
    "room": lambda reader, name, default: most_of(reader.table, default, reader.where, name),
    "host_join": _choice(",", "|", " ", "+"),
    "style": _choice(*STYLES),
    "requirements": lambda reader, name, default: reader.requirements(default),
    "quotes": _text,
    "others": _choice("", "same"),
    "shell": _shell,
    "signs": _text,
    "term": _term,
    "no_names": _words,
    "no_hosts": _words,
    "domains": _choice(True, False),
    "terms": _terms,
    "requests": _requests,
    "published": _words,
    "query": _words,
    "job_name": _text,
}
"""The entries of a table beside ``lrms`` and its rules, in the order of messages."""
