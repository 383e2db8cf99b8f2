"""What entries say of access, where a part of them is lost, repeated or contradicted.

A rule that is lost might have denied anybody. So a damaged entry that holds rules of access, or
that leads to some, denies everybody. What the rules mean is in `access`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Final

import attrs

from matchmaker.classad import UNDEFINED, Value
from matchmaker.classad.quoting import shorten
from matchmaker.glue.access import (
    CLOSED,
    POLICY_RULE,
    RULES,
    agreed,
    denies,
    differ,
)
from matchmaker.glue.clean.texts import RULES_OF_ACCESS
from matchmaker.glue.clean.typed import Facts
from matchmaker.glue.entries import Entry
from matchmaker.glue.issues import Issue, Report
from matchmaker.glue.limits import LIMITS
from matchmaker.glue.linking import Record, finding, rdns
from matchmaker.glue.records import ComputingElement, Values, texts
from matchmaker.glue.schema import (
    attribute,
    attributes,
    class_attributes,
    classes,
    decides_access,
)

HOLDERS: Final[Mapping[str, str]] = {
    "gluece": RULES,
    "gluevoview": RULES,
    "glue2accesspolicy": POLICY_RULE,
    "glue2mappingpolicy": POLICY_RULE,
    "glue2computingshare": POLICY_RULE,
    "glue2computingendpoint": POLICY_RULE,
}
"""The classes whose entries decide on access, and the attribute that has their rules.

A share and an endpoint have policies for that, and the attribute only where they are damaged."""

POLICIES: Final = frozenset({"glue2accesspolicy", "glue2mappingpolicy"})
"""The classes of `HOLDERS` whose ids are their own only within what they are of."""

APART: Final = frozenset({"glue2computingshare", "glue2computingendpoint"})
"""The classes of `HOLDERS` whose rules stand in entries of policies."""

_APART_BY_OWNER: Final[Mapping[str, str]] = {
    f"glue2{more}{part}": f"glue2computing{part}"
    for part in ("share", "endpoint")
    for more in ("", "computing")
}
"""The class of `APART` that an attribute is of, by the class that the schema gives it to."""

_HOLDERS_NAMED_BY: Final = frozenset(
    {"gluevoviewlocalid", "glueceuniqueid", "glue2policyid", "glue2shareid", "glue2endpointid"}
)
"""The attributes that name the entries of `HOLDERS`, in lower case."""

_PLACING: Final = (
    "GLUE2ComputingShareMappingQueue",
    "GLUE2EndpointURL",
    "GLUE2EndpointInterfaceName",
)
"""Attributes that say which queue of which server a share is, and have one value each."""

_MARKS: Final = "GLUE2EntityOtherInfo"
"""The attribute in which a share says of which queue it is a view."""

_FOREIGN: Final = frozenset(
    {
        "contextcsn",
        "createtimestamp",
        "creatorsname",
        "entrycsn",
        "entrydn",
        "entryuuid",
        "hassubordinates",
        "modifiersname",
        "modifytimestamp",
        "numsubordinates",
        "objectclass",
        "structuralobjectclass",
        "subschemasubentry",
    }
)
"""Attributes of entries that servers add (RFC 4512, section 3.4)."""

_CAPABILITY: Final = "GLUE2EndpointCapability"
_CAPABILITIES: Final = re.compile(r"(?:data|executionmanagement|information|security)\.[a-z.]+")
"""Most of Capability_t (GFD.147, appendix B)."""

_SUBMISSION: Final = ("jobcreation", "jobexecution", "jobsubmission")
_NOT_FOR_JOBS: Final = re.compile(
    r"(?:data|information|security)\.[a-z.]+|[a-z]+=.*"
    r"|executionmanagement\.(?:candidatesetgenerator|dynamicvmdeploy|executionandplanning"
    r"|jobdescription|jobmanagement|jobmanager|reservation)"
)
"""What else an endpoint may be for; sites add marks such as ``QueueName=long``."""

_BROKEN: Final = re.compile(r"[\x00-\x1f\x7f\ufffd]")
_DENY: Final = re.compile(r"deny\s*:", re.IGNORECASE)


def like_a_capability(text: str) -> bool:
    """Whether a text is what an endpoint may be for, as GLUE 2.0 spells it.

    >>> like_a_capability("information.monitoring"), like_a_capability("information")
    (True, False)
    """
    return _CAPABILITIES.fullmatch(text) is not None


def for_jobs(capabilities: Iterable[str]) -> bool:
    """Whether an endpoint takes jobs by what it is for.

    >>> for_jobs(["security.delegation", "executionmanagement.jobCreation"])
    True
    """
    return any(word in text.lower() for text in capabilities for word in _SUBMISSION)


def may_take_jobs(entry: Entry) -> bool:
    """Whether what is left of an endpoint's capabilities may say that it takes jobs."""
    left = entry.attributes.get(_CAPABILITY, ())
    return any(_NOT_FOR_JOBS.fullmatch(text.strip().lower()) is None for text in left)


def contradicted(entry: Entry, kind: str, named_by: str) -> bool:
    """Whether the name or an attribute of an entry belongs to another class than the entry has.

    Only what the classes of `HOLDERS` have counts.
    """
    first = entry.dn.partition("=")[0].strip().lower()
    if kind not in HOLDERS:
        published = map(str.lower, entry.attributes.values_by_name)
        wrong = first != named_by.lower() and first in _HOLDERS_NAMED_BY
        return wrong or not _foreign(kind).isdisjoint(published)
    if first != named_by.lower() or kind not in POLICIES:
        return first != named_by.lower()
    access = kind == "glue2accesspolicy"
    key = "GLUE2MappingPolicyShareForeignKey" if access else "GLUE2AccessPolicyEndpointForeignKey"
    place = "glue2shareid" if access else "glue2endpointid"
    return key in entry.attributes or place in rdns(entry.dn)


def kind_of_damaged(entry: Entry) -> str | None:
    """The class of `HOLDERS` that an entry was of, by its name and ids; None where it was none.

    For entries whose classes say none, or several, or another than the name or an attribute. Lines
    that lost their name and class count where they deny.
    """
    placed = rdns(entry.dn)
    first = next(iter(placed), "")
    has = entry.attributes
    if first == "glue2policyid" or "GLUE2PolicyID" in has:
        access = "glue2endpointid" in placed or "GLUE2AccessPolicyEndpointForeignKey" in has
        access = access and "glue2shareid" not in placed
        return "glue2accesspolicy" if access else "glue2mappingpolicy"
    for name, kind in (("GlueVOViewLocalID", "gluevoview"), ("GlueCEUniqueID", "gluece")):
        if first == name.lower() or name in has:
            return kind
    if not entry.dn and "objectClass" not in has:
        for name, kind in ((RULES, "gluevoview"), (POLICY_RULE, "glue2mappingpolicy")):
            if any(map(denies, has.get(name, ()))):
                return kind
    meant = _APART_BY_OWNER.get(first.removesuffix("id"))
    named = {name.strip().lower() for name in has.get("objectClass", ())} - {"top"}
    owners = [_owner(name) for name in has.values_by_name]
    others = bool(named) and named <= classes().keys() - HOLDERS.keys()
    if others and any(first in class_attributes(name) for name in named):
        return meant if meant in owners else None
    if meant is None and (entry.dn or "objectClass" in has) and named.isdisjoint(classes()):
        # Its class and its name are lost.
        return next((_APART_BY_OWNER[owner] for owner in owners if owner in _APART_BY_OWNER), None)
    return meant


def _owner(name: str) -> str:
    """The class that an attribute belongs to, in lower case; empty for an unknown attribute."""
    known = attribute(name)
    return known.owner.lower() if known is not None else ""


@cache
def _foreign(kind: str) -> frozenset[str]:
    """The attributes of GLUE 2.0 that decide on access or are what does, and not of a class."""
    owners = {"glue2policy", *(name for name in HOLDERS if name.startswith("glue2"))}
    return frozenset(name for name in attributes() if _owner(name) in owners) - class_attributes(
        kind
    )


def damage(entry: Entry, values: Values, kind: str, named_by: str) -> str:
    """What is wrong with an entry that decides on access; empty where nothing is."""
    if kind in APART and POLICY_RULE in entry.attributes:
        return "it has a rule of access, which belongs to a policy"
    if not entry.dn and named_by not in entry.attributes and "objectClass" not in entry.attributes:
        return ""  # lines of the entries around them, which are damaged and closed
    if entry.damaged or not entry.dn:
        return "a part of it cannot be read"
    kinds = [name.lower() for name in entry.attributes.get("objectClass", ())]
    if len(set(kinds)) < len(kinds):
        return "it has one class twice, as two entries in one"
    if _BROKEN.search(entry.dn):
        return "its name has a character that no name has"
    ids = entry.attributes.get(named_by, ())
    if wrong := _placed_wrong(entry, kind, named_by):
        return wrong
    placed = rdns(entry.dn)
    named = placed.get(named_by.lower(), "").strip().lower()
    if ids and named and next(iter(placed)) == named_by.lower() and ids[0].strip().lower() != named:
        return "its id is not that of its name"
    published = entry.attributes.values_by_name
    for name, keys in published.items():
        if decides_access(name) and name not in RULES_OF_ACCESS:
            known = attribute(name)
            read = texts(values.get(known.name if known is not None else name))
            if len(read) < len(keys):
                return f"its key {name} cannot be read"
    for name in published.keys() - _names().keys():
        # It may be what is left of a rule or a key.
        if attribute(name) is None and name.lower() not in _FOREIGN:
            return f"{shorten(name, LIMITS.raw)!r} is no attribute of GLUE"
    return _elsewhere(entry, kind)


def _placed_wrong(entry: Entry, kind: str, named_by: str) -> str:
    """What is wrong with what says of which queue an entry is; empty where nothing is."""
    for name in (named_by, *_PLACING):
        if len({text.strip() for text in entry.attributes.get(name, ())}) > 1:
            return f"it has several values of {name}"
    for name in (*_PLACING, *([_MARKS] if kind == "glue2computingshare" else [])):
        if any(map(unreadable, entry.attributes.get(name, ()))):
            return f"its {name} cannot be read"
    return ""


def unreadable(text: str) -> bool:
    """Whether a text is empty, or has what no name of a queue or address has."""
    return not text.strip() or _BROKEN.search(text.strip()) is not None


def unplaced(entry: Entry, values: Facts) -> Facts:
    """The values of a damaged entry; what says its place is not known where it has no one text."""
    for name in _PLACING:
        published = {text.strip() for text in entry.attributes.get(name, ())}
        if len(published) > 1 or any(map(unreadable, published)):
            values[name] = UNDEFINED
    return values


def _elsewhere(entry: Entry, kind: str) -> str:
    """What an attribute has that belongs to another one; empty where nothing is."""
    published = entry.attributes.values_by_name
    plain = _names()
    others = (
        found for name, found in published.items() if plain.get(name) or not decides_access(name)
    )
    # The name too may have taken up the line behind it.
    said = (entry.dn, *chain.from_iterable(others))
    text = "\n".join(said)
    if "deny" in text.lower() and _DENY.search(text):
        return "another attribute has a part of a rule of access"
    capabilities = entry.attributes.get(_CAPABILITY, ())
    if kind == "glue2computingendpoint" and capabilities and not for_jobs(capabilities):
        for text in capabilities:
            # It may be what is left of one that takes jobs.
            if _NOT_FOR_JOBS.fullmatch(text.strip().lower()) is None:
                return f"{shorten(text, LIMITS.raw)!r} is no capability of GLUE"
    if kind == "glue2computingendpoint" and _CAPABILITY not in entry.attributes:
        return "another attribute has its capability" if any(map(like_a_capability, said)) else ""
    return ""


@cache
def _names() -> Mapping[str, bool]:
    """The attributes of both schemas; whether each holds neither rules of access nor keys."""
    return {known.name: not decides_access(known.name) for known in attributes().values()}


def closed(record: Record, rules: str) -> Record:
    """A record that denies everybody."""
    known = record.texts(rules)
    return record if CLOSED in known else with_rules(record, rules, [*known, CLOSED])


def with_rules(record: Record, name: str, rules: list[str]) -> Record:
    """A record with other rules of access."""
    values = Facts()
    values.take(record.values)
    values[name] = list[Value](rules)
    return attrs.evolve(record, values=values)


def agreeing(first: Record, second: Record, kind: str, report: Report) -> Record:
    """The first of two descriptions of one thing, with those rules of access that both have.

    Of a thing whose policies stand elsewhere, two that differ may be two things: it is closed.
    """
    rules = HOLDERS[kind]
    ours, theirs = first.texts(rules), second.texts(rules)
    if kind in APART and first.values != second.values:
        theirs = (*theirs, CLOSED)
    if not differ(ours, theirs):
        return first
    said = "it is described twice with different rules of access; what only one admits is refused"
    report(finding(second, "access.conflict", said, first.id))
    return with_rules(first, rules, agreed(ours, theirs))


def without_policy(record: Record, more: str = "") -> Issue:
    """The issue of a thing that has no rule of access."""
    said = f"no rule of access{more}: it admits nobody"
    return finding(record, "access.none", said, record.id)


def all_rules(ce: ComputingElement) -> list[str]:
    """The rules of access of a queue and of its views."""
    levels = (ce.values, *(view.values for view in ce.views))
    return list(dict.fromkeys(rule for values in levels for rule in texts(values.get(RULES))))


def partly_closed(ce: ComputingElement) -> bool:
    """Whether some of a queue and its views with rules deny everybody, and others do not."""
    levels = (ce.values, *(view.values for view in ce.views))
    return len({CLOSED in texts(values[RULES]) for values in levels if RULES in values}) == 2


def restricted(ce: ComputingElement, rules: Sequence[str]) -> ComputingElement:
    """A queue that admits only by rules that are also among others, and denies whom those deny."""
    return _with_each(ce, lambda own: agreed(own, rules))


def with_denials(ce: ComputingElement, denied: Sequence[str]) -> ComputingElement:
    """A queue that denies more, and so do those of its views that have rules."""
    return _with_each(ce, lambda own: list(dict.fromkeys([*own, *denied])))


def _with_each(ce: ComputingElement, changed: Callable[[list[str]], list[str]]) -> ComputingElement:
    """A queue with other rules of access, and so its views that have rules."""

    def made(values: Values) -> Facts:
        facts = Facts()
        facts.take(values)
        facts[RULES] = list[Value](changed(texts(values.get(RULES))))
        return facts

    views = tuple(
        attrs.evolve(view, values=made(view.values)) if RULES in view.values else view
        for view in ce.views
    )
    return attrs.evolve(ce, values=made(ce.values), views=views)
