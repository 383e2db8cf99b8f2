"""Mappings: for each batch system a table of its flags, and for each host attribute a rule.

What is here is data; ``loading`` reads it from TOML. docs/mappings.md explains the entries.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from typing import Final

import attrs

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.forms import Form
from matchmaker.batch.request_rules import Request
from matchmaker.batch.rules import Rule
from matchmaker.batch.templates import NAME_SIGNS

FEATURES: Final = "features"
"""The slot for all terms together, and the name of its forms."""


@attrs.frozen(slots=True)
class Syntax:
    """How terms are joined: the signs for and, or, not, and whether parentheses nest.

    A batch system has no connective whose sign is empty. ``group`` encloses a conjunction within
    alternatives. If ``flat``, the whole is always one disjunction of such groups.
    """

    and_: str = "&"
    or_: str = ""
    not_: str = ""
    nested: bool = False
    group: str = "({terms})"
    flat: bool = False


@attrs.frozen(slots=True)
class Mapping:
    """The table of one batch system. docs/batch.md explains the entries of the TOML file.

    Attributes:
        lrms: the name of the batch system.
        submit: its command for submitting, with the words that come first; empty if there is none.
        directive: the template of a line of a job script.
        exclude, include: templates of the flags that exclude nodes, or name those to use. One that
            is no option is a term.
        rules: the rules by folded name of the attribute.
        flags: the flags with several slots or none, each with its forms.
        lines: the lines of a job script that are no directives, each with its forms.
        ignore: the folded names of attributes in conditions that mean nothing here.
        letters: the long options that one letter stands for, by the letter with its dash.
        host_join: what stands between names of nodes.
        terms: how terms are joined.
        requests: how resources are requested, by name of the resource.
        style: ``flags``, ``classad`` (an expression in ``requirements``), or ``blah``.
        quotes: characters that make a word of a directive be quoted; empty without quotes.
        others: ``same`` if a pool has attributes without a rule under the same names.
        shell: the path of the site's own program.
        metadata, room: where a policy travels with the job, and how many characters it may have.
        signs: what names of features may hold beside letters and digits.
        term, negate: how a feature is asked for, or its absence, if its rule says nothing else.
        no_names, no_hosts: words that mean something else than a feature, or a host, of that name.
        domains: name hosts with and without their domains.
        published: other names under which information systems publish the batch system.
        query, job_name: the command that shows a queued job, and a pattern of the names of jobs.
    """

    lrms: str
    submit: tuple[str, ...]
    directive: str
    exclude: str
    rules: MappingType[str, Rule]
    flags: MappingType[str, tuple[Form, ...]] = attrs.Factory(dict)
    lines: MappingType[str, tuple[Form, ...]] = attrs.Factory(dict)
    ignore: frozenset[str] = frozenset({"condorce"})
    letters: MappingType[str, str] = attrs.Factory(dict)
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
    negate: str = ""
    no_names: tuple[str, ...] = ()
    no_hosts: tuple[str, ...] = ()
    domains: bool = False
    published: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    job_name: str = r"[0-9][A-Za-z0-9_.\[\]@-]*"

    @property
    def features(self) -> str:
        """The template of the flag for all terms together, in its last form."""
        forms = self.flags.get(FEATURES, ())
        return forms[-1].text if forms else ""

    @property
    def used(self) -> frozenset[str]:
        """The slots that a form of a flag or a line needs."""
        several = (*self.flags.values(), *self.lines.values())
        return frozenset(slot for forms in several for each in forms for slot in each.needs)

    @property
    def attributes(self) -> frozenset[str]:
        """The folded names of the host attributes that the mapping knows."""
        return frozenset(self.rules)
