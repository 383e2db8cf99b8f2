"""The table of what a batch system can be told: for each host attribute, its kind and its flag.

One TOML file a batch system comes with the package; a site's own file, of the same form, is laid
over it. Turning conditions into flags is in ``flags``.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping as MappingType
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import attrs

from matchmaker.classad.values import MAX_INT

KINDS: Final = ("min", "eq", "member")

# What may stand in a flag: no space, no quote, nothing that a shell or a batch system acts on.
_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+:@-]*")
_FLAG: Final = re.compile(r"--?[A-Za-z][A-Za-z0-9-]*=?[A-Za-z0-9._:-]*\{[a-z]+\}[A-Za-z0-9._:-]*")

_DIRECTIVE: Final = re.compile(r"#[A-Za-z$]+ \{flag\}")


class MappingError(ValueError):
    """A mapping file that is not one; the message names the file, the entry and what is wrong."""


@attrs.frozen(slots=True)
class Rule:
    """How one host attribute is asked for.

    ``min`` is a number that the host has at least, put into ``flag`` at ``{value}``; a number over
    ``most``, the largest that the batch system can count, has no flag. ``eq`` is a
    text that the attribute equals, ``member`` a text that is in its list; both by the batch
    system's name for the hosts that have it, in ``features``.
    """

    attribute: str
    kind: str
    flag: str = ""
    most: int = MAX_INT
    features: MappingType[str, str] = attrs.Factory(dict)


@attrs.frozen(slots=True)
class Mapping:
    """What one batch system can be told: its rules by folded attribute name, and its templates."""

    lrms: str
    submit: str
    directive: str
    exclude: str
    features: str
    rules: MappingType[str, Rule]


def known_lrms() -> tuple[str, ...]:
    """The batch systems that there is a table for.

    >>> known_lrms()
    ('slurm',)
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
    if lrms not in known_lrms():
        raise ValueError(f"unknown batch system {lrms!r}; there is {', '.join(known_lrms())}")
    text = files("matchmaker.batch").joinpath("systems", f"{lrms}.toml").read_text("utf-8")
    mapping = _merged(None, tomllib.loads(text), lrms)
    if site is None:
        return mapping
    name = os.fspath(site)
    try:
        table = tomllib.loads(Path(site).read_bytes().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise MappingError(f"{name}: not TOML: {error}") from None
    return _merged(mapping, table, name)


def safe(text: str) -> bool:
    """Whether a text may stand in a flag as it is.

    >>> safe("wn001.cnaf.grid"), safe("--wrap=rm"), safe("a b"), safe("x;y")
    (True, False, False, False)
    """
    return _SAFE.fullmatch(text) is not None


def _merged(base: Mapping | None, table: MappingType[str, Any], where: str) -> Mapping:
    lrms = table.get("lrms", base.lrms if base else "")
    if base is not None and lrms != base.lrms:
        raise MappingError(f"{where}: it is a mapping for {lrms!r}, not for {base.lrms!r}")
    attributes = table.get("attributes", {})
    unknown = set(table) - {"lrms", "submit", "directive", "exclude", "features", "attributes"}
    if unknown or not isinstance(attributes, dict):
        raise MappingError(
            f"{where}: unknown entry {', '.join(sorted(unknown)) or 'attributes'}; expected lrms, "
            "submit, directive, exclude, features and tables [attributes.NAME]"
        )
    rules = dict(base.rules) if base else {}
    for name, facts in attributes.items():
        rules[name.lower()] = _rule(name, facts, where)
    options: dict[str, str] = {}
    for rule in rules.values():
        option = re.split(r"[={]", rule.flag, maxsplit=1)[0]
        if option and options.setdefault(option, rule.flag) != rule.flag:
            raise MappingError(
                f"{where}: {option} is asked for in two ways; one would undo the other"
            )
    submit = table.get("submit", base.submit if base else "")
    if not isinstance(submit, str) or not safe(submit):
        raise MappingError(f"{where}: submit must be the name of a command, not {submit!r}")
    return Mapping(
        lrms=lrms,
        submit=submit,
        directive=_template(table, "directive", "{flag}", base.directive if base else "", where),
        exclude=_template(table, "exclude", "{hosts}", base.exclude if base else "", where),
        features=_template(table, "features", "{features}", base.features if base else "", where),
        rules=rules,
    )


def _template(table: MappingType[str, Any], name: str, slot: str, default: str, where: str) -> str:
    template = table.get(name, default)
    pattern = _DIRECTIVE if name == "directive" else _FLAG
    if not isinstance(template, str) or slot not in template or not pattern.fullmatch(template):
        kind = "comment such as #SBATCH" if name == "directive" else "flag without spaces"
        raise MappingError(f"{where}: {name} must be a {kind} with {slot}, not {template!r}")
    return template


def _rule(name: str, facts: Any, where: str) -> Rule:
    place = f"{where}: [attributes.{name}]"
    if not isinstance(facts, dict) or facts.get("kind") not in KINDS:
        raise MappingError(f"{place}: kind must be one of {', '.join(KINDS)}")
    wanted = {"kind", "flag", "most"} if facts["kind"] == "min" else {"kind", "features"}
    if set(facts) - wanted:
        extra = ", ".join(sorted(set(facts) - wanted))
        raise MappingError(f"{place}: unknown entry {extra}; expected {', '.join(sorted(wanted))}")
    if facts["kind"] == "min":
        flag = facts.get("flag")
        if not isinstance(flag, str) or "{value}" not in flag or not _FLAG.fullmatch(flag):
            raise MappingError(f"{place}: flag must be like --mem={{value}}M, not {flag!r}")
        most = facts.get("most", MAX_INT)
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise MappingError(f"{place}: most must be a positive integer, not {most!r}")
        return Rule(name, "min", flag, most)
    features = facts.get("features")
    if not isinstance(features, dict) or not all(
        isinstance(feature, str) and safe(feature) for feature in features.values()
    ):
        raise MappingError(f"{place}: features must be a table of texts to plain feature names")
    return Rule(name, facts["kind"], features=features)
