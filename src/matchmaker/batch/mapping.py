"""Mappings: for each batch system a table of its flags, and for each host attribute a rule.

The package has one TOML file for each batch system, in ``systems``. A site's own file has the same
form and is laid over it.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping as MappingType
from fractions import Fraction
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

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

_EMPTY: Final = Mapping("", "", "", "", "", {})

_PLAIN_ENTRIES: Final = ("lrms", "submit", "directive", "exclude", "features")
_MORE_ENTRIES: Final = (
    "metadata", "room", "include", "host_join", "style", "requirements", "quotes", "others",
    "shell", "signs", "term", "no_names", "no_hosts", "domains", "terms", "requests",
)  # fmt: skip
_OWN_ENTRIES: Final = ("published", "query", "job_name")
"""Entries of the package's tables alone."""


def _merged(base: Mapping | None, table: MappingType[str, Any], where: str) -> Mapping:
    """A table laid over a mapping; without one, the table of a batch system itself."""
    before = base or _EMPTY
    lrms = table.get("lrms", before.lrms)
    if base is not None and lrms != base.lrms:
        raise MappingError(f"{where}: it is a mapping for {lrms!r}, not for {base.lrms!r}")
    attributes = table.get("attributes", {})
    unknown = set(table) - {*_PLAIN_ENTRIES, *_MORE_ENTRIES, "attributes"}
    if base is None:
        unknown -= set(_OWN_ENTRIES)
    if unknown or not isinstance(attributes, dict):
        raise MappingError(
            f"{where}: unknown entry {', '.join(sorted(unknown)) or 'attributes'}; expected "
            f"{', '.join((*_PLAIN_ENTRIES, *_MORE_ENTRIES))} and tables [attributes.NAME]"
        )
    term = term_of(table, where) if "term" in table else before.term
    signs = _text(table, "signs", before.signs, where)
    no_names = _words(table, "no_names", before.no_names, where)
    rules = dict(before.rules)
    for name, facts in attributes.items():
        rules[name.lower()] = read_rule(name, facts, where, term)
    check_options(rules.values(), where)
    check_names(rules.values(), where, lrms, signs, no_names)
    submit = table.get("submit", before.submit)
    style = one_of(table, "style", STYLES, before.style, where)
    for name in attributes if style != "flags" else ():
        if style == "blah" or rules[name.lower()].kind != "name":
            raise MappingError(f"{where}: [attributes.{name}]: {_NO_RULE[style]}")
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
        host_join=one_of(table, "host_join", (",", "|", " ", "+"), before.host_join, where),
        terms=_terms(table, before.terms, where),
        requests=_requests(table, before.requests, where),
        style=style,
        requirements=reader.requirements(before.requirements),
        quotes=_text(table, "quotes", before.quotes, where),
        others=one_of(table, "others", ("", "same"), before.others, where),
        shell=_shell(table, before.shell, where),
        room=most_of(table, before.room, where, "room"),
        signs=signs,
        term=term,
        no_names=no_names,
        no_hosts=_words(table, "no_hosts", before.no_hosts, where),
        domains=one_of(table, "domains", (True, False), before.domains, where),
        published=_words(table, "published", before.published, where),
        query=_words(table, "query", before.query, where),
        job_name=_text(table, "job_name", before.job_name, where),
    )


def _metadata(table: MappingType[str, Any], default: str, reader: Templates) -> str:
    """The place of a policy in a job's metadata: a flag, or a line of HTCondor's submit file."""
    found = table.get("metadata", default)
    if isinstance(found, str) and _ATTRIBUTE.fullmatch(found):
        return found
    return reader.flag("metadata", "{policy}", default)


def _shell(table: MappingType[str, Any], default: str, where: str) -> str:
    path = table.get("shell", default)
    if not isinstance(path, str) or (path and not (path.startswith("/") and path.isprintable())):
        raise MappingError(f"{where}: shell must be the full path of a program, not {path!r}")
    return path


def _text(table: MappingType[str, Any], name: str, default: str, where: str) -> str:
    found = table.get(name, default)
    if not isinstance(found, str) or not all(
        char.isascii() and char.isprintable() for char in found
    ):
        raise MappingError(f"{where}: {name} must be a text of characters, not {found!r}")
    return found


def _words(
    table: MappingType[str, Any], name: str, default: tuple[str, ...], where: str
) -> tuple[str, ...]:
    found = table.get(name, list(default))
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise MappingError(f"{where}: {name} must be a list of words, not {found!r}")
    return tuple(found)


def _terms(table: MappingType[str, Any], default: Syntax, where: str) -> Syntax:
    facts = table.get("terms")
    if facts is None:
        return default
    words = {"and": default.and_, "or": default.or_, "not": default.not_}
    if not isinstance(facts, dict) or set(facts) - {*words, "nested"}:
        raise MappingError(f"{where}: [terms] has and, or, not and nested")
    joins = ("&", "&&", "|", "||", "!", ":", ",", "")
    words = {name: one_of(facts, name, joins, word, where) for name, word in words.items()}
    nested = one_of(facts, "nested", (True, False), default.nested, where)
    return Syntax(words["and"], words["or"], words["not"], nested)


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
        if not isinstance(entry, dict) or set(entry) - {"flag", "term", "unit", "per_cpu", "most"}:
            raise MappingError(f"{place}: expected flag or term, unit, per_cpu and most")
        flag = value_template(entry, ("flag", "term"), place)
        per_cpu = one_of(entry, "per_cpu", (True, False), False, place)
        unit = unit_of(entry, place)
        before = found.get(name)
        # The same amount, in the new unit, is the largest unless the entry says another.
        most = max(1, int(before.most * before.unit / unit)) if before else LIMITS.amount
        found[name] = Request(flag, unit, per_cpu, most_of(entry, most, place))
    return found
