"""Who may use a queue, as what providers publish predicts it. The computing element decides.

A job is admitted at a queue if the rules that its share's mapping policies and its endpoint's
access policies publish admit its VO, FQAN or DN; where a queue publishes none, access is unknown.
In GLUE 1.3 a queue and its views have the rules, in the OSG's catalogue ``AllowedVOs``.

- A rule is ``VO:name``, ``VOMS:/group/Role=…``, the subject of a certificate, ``ALL``, or ``DENY:``
  and one of these. Names compare without case. Denials count wherever they stand.
- What a policy is of is said by its foreign key, else by its place in the tree.
- A rule that cannot be read makes its policy admit nobody; what else is odd changes nothing.
- Of several descriptions of a queue, each that publishes rules must admit, by one of its views.

In an ad the rules are a list, ``GlueCEAccessControlBaseRule``; access is unknown where there is
none. Where two policies must admit whom no one rule names, a rule has both with `` && `` between
them. The function accessBy() of the language says whom a list admits. (GLUE 1.3,
GlueCEAccessControlBase; GFD.147, sections 5.4 and 6; gLite WMS.)
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import Final, Literal, TypeAlias, cast

import attrs

from matchmaker.classad import UNDEFINED, Value
from matchmaker.classad.functions.control import AND, access_by
from matchmaker.glue.issues import Issue, Report, issue
from matchmaker.glue.linking import Children, Record, dangling, finding, home, keys_of, rdns
from matchmaker.glue.records import ComputingElement, Values, VOView, texts

RULES: Final = "GlueCEAccessControlBaseRule"
POLICY_RULE: Final = "GLUE2PolicyRule"
CLOSED: Final = "DENY:ALL"
"""The rule that denies everybody."""
UNREADABLE: Final = "unreadable"
"""What cleaning puts in the place of a rule that cannot be read; it is no rule."""

_VO: Final = re.compile(r"[\w.-]+", re.ASCII)
# A "deny:" within another rule is what is left where two lines ran together, and a backslash or
# a blank at the end where a line was cut.
_WHOM: Final = r"VO:[^\s:]+|VOMS:\S.*|/.+CN=.+|ALL"
_RULE: Final = re.compile(
    r"(?!.*.deny:)(?!.*[\x00-\x1f\x7f\ufffd])(?!.*[\s\\]\Z)"
    rf"(?:{_WHOM}|DENY:(?:{_WHOM}|/.+|[\w.-]+))",
    re.IGNORECASE | re.DOTALL,
)

Access: TypeAlias = Literal["known", "published", "any"]
"""Which queues a job may use: those that are known to admit it, those too whose access is unknown,
or all."""

MOST: Final = 10_000
"""The most rules that two lists are combined to."""

HOLDERS: Final[Mapping[str, str]] = {
    "gluece": RULES,
    "gluevoview": RULES,
    "glue2accesspolicy": POLICY_RULE,
    "glue2mappingpolicy": POLICY_RULE,
}
"""The classes whose entries have rules of access, and the attribute that has them."""

IGNORED: Final = "IgnoreAccess"
"""The attribute of a job for which the broker ignores rules; the checks of queues ask for it."""

UNKNOWN: Final = "AccessUnknown"
"""The attribute, true, of a queue of an information system that publishes no rule of access."""


def _asked(job: str, rules: str) -> str:
    facts = ", ".join(f"{job}.{n}" for n in ("CertificateSubject", "VirtualOrganisation", "FQAN"))
    return f"accessBy({rules}, {facts})"


def authorised(job: str, rules: str) -> str:
    """Return the condition, as text, that a rule of access names the user of a job.

    A queue without rules passes. `job` is the job's scope, `rules` the reference to the list.

    >>> from matchmaker.classad import ClassAd, parse_expr
    >>> check = parse_expr(authorised("other", '{ "VOMS:/cms/Role=pilot" }'))
    >>> check.eval(target=ClassAd({"FQAN": "/cms/Role=pilot", "VirtualOrganisation": "cms"}))
    True
    """
    return f"{rules} is undefined || {_asked(job, rules)} isnt undefined"


def not_denied(job: str, rules: str) -> str:
    """Return the condition, as text, that no rule denies the user of a job.

    >>> from matchmaker.classad import ClassAd, parse_expr
    >>> check = parse_expr(not_denied("other", '{ "VO:cms", "DENY:/cms/Role=pilot" }'))
    >>> check.eval(target=ClassAd({"FQAN": ["/cms", "/cms/Role=pilot"]}))
    False
    """
    # An error, as of rules that are no list, is neither.
    asked = _asked(job, rules)
    return f"{rules} is undefined || {asked} is true || {asked} is undefined"


def admits(rules: Value, vo: str) -> bool:
    """Whether a queue's rules name a virtual organisation or admit everybody, or there are none.

    >>> admits(["VO:cms", "DENY:/atlas"], "CMS"), admits(["VO:all"], "cms"), admits(UNDEFINED, "")
    (True, False, True)
    >>> admits(["VOMS:/cms/Role=pilot"], "cms"), admits(["ALL", "DENY:VO:CMS"], "cms")
    (True, False)
    """
    if rules is UNDEFINED:
        return True
    known = texts(rules) if isinstance(rules, list) else []
    found = access_by(list[Value](known), UNDEFINED, vo, UNDEFINED)
    if isinstance(found, bool):
        return found
    # A group or role of the VO is enough here, where no user is.
    wanted = vo.lower()
    return bool(vo) and any(vo_of(rule).lower() == wanted for rule in known if not denies(rule))


# The text of rules


def is_rule(text: str) -> bool:
    """Whether a text names whom it admits or denies.

    >>> is_rule("VO:EGEE"), is_rule("/O=grid/CN=Ada"), is_rule("DENY:VO:cms"), is_rule("EGEE")
    (True, True, True, False)
    """
    parts = text.split(AND)
    return all(map(_RULE.fullmatch, parts)) and (len(parts) == 1 or not denies(text))


def is_vo(name: object) -> bool:
    """Whether a value is the name of a virtual organisation.

    >>> is_vo("vo.gear.cern.ch"), is_vo("cms, atlas"), is_vo(7)
    (True, False, False)
    """
    return isinstance(name, str) and _VO.fullmatch(name) is not None


def vo_of(rule: str) -> str:
    """Return the virtual organisation that a rule names, as it is written; empty where none.

    >>> vo_of("VO:EGEE"), vo_of("VOMS:/cms/Role=NULL"), vo_of("/O=grid/CN=Ada"), vo_of("ALL")
    ('EGEE', 'cms', '', '')
    """
    kind, _, rest = rule.partition(AND)[0].strip().partition(":")
    if kind.upper() == "VO":
        return rest.strip()
    return rest.strip().strip("/").partition("/")[0] if kind.upper() == "VOMS" else ""


def denies(rule: str) -> bool:
    """Whether a rule keeps somebody out."""
    return folded(rule).startswith("deny:")


def folded(rule: str) -> str:
    """Return a rule as it is compared: without upper case and blanks around."""
    return rule.strip().lower()


# What policies publish


def readable(rules: Iterable[str]) -> list[str]:
    """Return the rules of a policy; without those that admit if one of them cannot be read.

    >>> readable(["VO:cms", "DENY:VO:atlas"]), readable(["VO:cms", "DENY:VO:atlas", "EGEE"])
    (['VO:cms', 'DENY:VO:atlas'], ['DENY:VO:atlas'])
    """
    given = list(dict.fromkeys(rules))
    sound = all(map(is_rule, given))
    return [rule for rule in given if is_rule(rule) and (sound or denies(rule))]


def both(first: Sequence[str] | None, second: Sequence[str] | None) -> list[str] | None:
    """Return the rules that admit whom two lists admit; None for a list says nothing.

    Of two rules on one VO the narrower stays. ``DENY:`` rules of both stay.

    >>> both(["VO:cms", "VO:atlas"], ["VOMS:/Atlas/Role=production"])
    ['VOMS:/Atlas/Role=production']
    >>> both(None, ["VO:cms"]), both(["VO:cms"], ["ALL"]), both([], ["VO:cms"]), both(None, None)
    (['VO:cms'], ['VO:cms'], [], None)
    >>> both(["VO:cms", "DENY:/cms/Role=bad"], ["/O=grid/CN=Ada"])
    ['VO:cms && /O=grid/CN=Ada', 'DENY:/cms/Role=bad']
    """
    if first is None or second is None:
        given = second if first is None else first
        return None if given is None else list(dict.fromkeys(given))
    denied = {folded(rule): rule for rule in (*first, *second) if denies(rule)}
    by_vo: dict[str, list[str]] = {}
    for rule in second:
        if not denies(rule):
            by_vo.setdefault(_vo(rule), []).append(rule)
    kept: dict[frozenset[str], str] = {}
    for rule in first:
        if denies(rule):
            continue
        vo = _vo(rule)
        groups = [by_vo.get(vo, []), by_vo.get("", [])] if vo else by_vo.values()
        for other in chain.from_iterable(groups):
            if len(kept) >= MOST:
                break
            if met := _met(rule, other):
                parts = {folded(p): p for p in met.split(AND) if folded(p) not in denied}
                kept.setdefault(frozenset(parts), AND.join(parts.values()))
    # Whom two rules name, one of them names: where that stands alone, it is enough.
    least = [
        rule
        for parts, rule in kept.items()
        if len(parts) == 1 or not any(frozenset({part}) in kept for part in parts)
    ]
    return [*least, *denied.values()]


def either(lists: Iterable[Sequence[str] | None]) -> list[str] | None:
    """Return the rules that admit whom one of several lists admits, such as those of views.

    What only some of them deny stands behind the rules of these. A list that is None, of a view
    that publishes no rule, says nothing; None where all are.

    >>> either([["VO:cms", "DENY:/cms/Role=pilot"], ["VOMS:/cms/Role=pilot"]])
    ['VO:cms && DENY:/cms/Role=pilot', 'VOMS:/cms/Role=pilot']
    >>> either([["VO:cms", "DENY:ALL"], None]), either([])
    (['VO:cms', 'DENY:ALL'], None)
    """
    given = [rules for rules in lists if rules is not None]
    if not given:
        return None
    denied = [{folded(rule): rule for rule in rules if denies(rule)} for rules in given]
    common = reduce(lambda a, b: {k: a[k] for k in a if k in b}, denied)
    found: dict[str, str] = {}
    for rules, its in zip(given, denied, strict=True):
        more = [rule for key, rule in its.items() if key not in common]
        for rule in rules:
            if not denies(rule) and len(found) < MOST:
                found.setdefault(folded(made := AND.join((rule, *more))), made)
    return [*found.values(), *common.values()]


def _met(one: str, other: str) -> str:
    """Return the rule for whom two rules name; empty where they name nobody in common."""
    first, second = folded(one), folded(other)
    if second in (first, "all"):
        return one
    if first == "all":
        return other
    vos = _vo(one), _vo(other)
    if all(vos) and vos[0] != vos[1]:
        return ""
    if first == f"vo:{vos[1]}":
        return other
    if second == f"vo:{vos[0]}":
        return one
    if first.startswith("/") and second.startswith("/") and AND not in first + second:
        return ""  # a user has one subject
    parts = {folded(part): part for part in (*one.split(AND), *other.split(AND))}
    return AND.join(parts.values())


def _vo(rule: str) -> str:
    """Return the VO that a rule is of, in lower case; empty where it names none, or parts of it."""
    named = {vo_of(part).lower() for part in rule.split(AND) if not denies(part)} - {""}
    return named.pop() if len(named) == 1 else ""


# GLUE 2.0: policies, and what they are of


@attrs.frozen(slots=True)
class Policies:
    """The policies of a source, by the share or the endpoint that each is of."""

    _shares: Children
    _endpoints: Children

    @classmethod
    def of(cls, kinds: Mapping[str, Sequence[Record]], report: Report) -> Policies:
        """Link the policies among records by class.

        The id of a policy is its own only within what it is of: ARC repeats one under every
        endpoint. HTCondor-CE puts the access policy of its endpoint below a share.
        """
        targets = {
            "Share": _ids(kinds["glue2computingshare"], kinds["glue2storageshare"]),
            "Endpoint": _ids(kinds["glue2computingendpoint"]),
        }
        found: dict[str, list[tuple[str, str, Record]]] = {"Share": [], "Endpoint": []}
        for kind, usual in (("Mapping", "Share"), ("Access", "Endpoint")):
            for policy in kinds[f"glue2{kind.lower()}policy"]:
                for of, ident, service in _owners(policy, usual, targets, report):
                    found[of].append((ident, service, policy))
        return cls(Children(found["Share"]), Children(found["Endpoint"]))

    def rules(self, share: Record, endpoint: Record | None) -> list[str] | None:
        """Return the rules of a share at an endpoint; None where none is published."""
        of_share = self._published(self._shares.of(share))
        if endpoint is None:
            return of_share
        return both(of_share, self._published(self._endpoints.of(endpoint)))

    def parts(self, share: Record, endpoint: Record | None) -> list[Record]:
        """Return the policies of a share and of an endpoint."""
        more = [] if endpoint is None else self._endpoints.of(endpoint)
        return [*self._shares.of(share), *more]

    @staticmethod
    def _published(policies: Iterable[Record]) -> list[str] | None:
        lists = [readable(p.texts(POLICY_RULE)) for p in policies if POLICY_RULE in p.values]
        return list(dict.fromkeys(chain.from_iterable(lists))) if lists else None


def _ids(*kinds: Sequence[Record]) -> dict[str, set[str]]:
    """Return the services that have a record of an id, all in lower case."""
    found: dict[str, set[str]] = {}
    for record in (record for records in kinds for record in records):
        found.setdefault(record.id.lower(), set()).add(home(record))
    return found


def _owners(
    policy: Record, usual: str, targets: Mapping[str, Mapping[str, set[str]]], report: Report
) -> Iterator[tuple[str, str, str]]:
    """Yield what a policy is of: ``Share`` or ``Endpoint``, its id, and its service."""
    kind = "Mapping" if usual == "Share" else "Access"
    name = f"GLUE2{kind}Policy{usual}ForeignKey"
    named = [(usual, key) for key in keys_of(policy, (name,), "")]
    placed = rdns(policy.entry.dn)
    places = [(of, placed.get(f"glue2{of.lower()}id", "").lower()) for of in (usual, *targets)]
    known = [(of, ident) for of, ident in named if ident in targets[of]]
    if not known:
        known = [(of, ident) for of, ident in places if ident and ident in targets[of]][:1]
        for of, ident in named if placed.get("glue2serviceid") and targets[usual] else ():
            report(dangling(policy, f"GLUE2{of}ID={ident}"))
    for of, ident in known:
        services = targets[of][ident]
        # The ids of shares and endpoints may repeat in other services.
        if home(policy) in services or len(services) == 1:
            yield of, ident, home(policy) if home(policy) in services else next(iter(services))
        else:
            report(dangling(policy, f"GLUE2{of}ID={ident}"))


# Queues, and what several descriptions say of them


def published(values: Values) -> Values:
    """Return the values of a queue or view of GLUE 1.3, with those of its rules that count."""
    return _with(values, readable(texts(values[RULES]))) if RULES in values else values


def without_rules(record: Record) -> Issue:
    """Return the finding that whom a queue admits is not known."""
    return finding(record, "access.none", "no rule of access: whom it admits is unknown", record.id)


def views(ce: ComputingElement) -> list[tuple[VOView | None, list[str] | None]]:
    """Return the views of a queue with their rules; None is the queue itself, or rules not known.

    What views take over is not the queue's own any more: whoever is left uses the queue itself.
    Each view denies whom the queue denies. A view of GLUE 1.3 counts if it has rules.
    """
    own = texts(ce.values[RULES]) if RULES in ce.values else None
    its = [view for view in ce.views if _counts(view)]
    by_view = [(v, texts(v.values[RULES]) if RULES in v.values else None) for v in its]
    denied = [rule for rule in own or () if denies(rule)]
    taken = {folded(rule) for _, rules in by_view for rule in rules or ()}
    remaining = [r for r in own or () if not denies(r) and folded(r) not in taken]
    found: list[tuple[VOView | None, list[str] | None]] = []
    if remaining or not its:
        theirs = [rule for _, rules in by_view for rule in rules or () if denies(rule)]
        left = list(dict.fromkeys((*remaining, *denied, *theirs)))
        found.append((None, None if own is None else left))
    for view, rules in by_view:
        found.append((view, None if rules is None else list(dict.fromkeys((*rules, *denied)))))
    return found


def all_rules(ce: ComputingElement) -> list[str]:
    """Return the rules of access of a queue and of its views."""
    levels = (ce.values, *(view.values for view in ce.views))
    return list(dict.fromkeys(rule for values in levels for rule in texts(values.get(RULES))))


def unknown(ce: ComputingElement) -> bool:
    """Whether neither a queue nor a view of it publishes a rule of access."""
    return all(RULES not in values for values in (ce.values, *(v.values for v in ce.views)))


def restricted(ce: ComputingElement, rules: Sequence[str]) -> ComputingElement:
    """Return a queue that admits, by itself and by its views, whom other rules admit too."""

    def made(values: Values) -> Values:
        own = texts(values[RULES]) if RULES in values else None
        return _with(values, both(own, rules) or [])

    if RULES in ce.values or not any(map(_counts, ce.views)):
        ce = attrs.evolve(ce, values=made(ce.values))
    changed = (attrs.evolve(v, values=made(v.values)) if _counts(v) else v for v in ce.views)
    return attrs.evolve(ce, views=tuple(changed))


def _counts(view: VOView) -> bool:
    """Whether a view is used for itself: it has rules, or it is a share of GLUE 2.0."""
    return RULES in view.values or "GLUE2" in view.values


def with_denials(ce: ComputingElement, denied: Sequence[str]) -> ComputingElement:
    """Return a queue that denies more, and so do its views."""
    own = texts(ce.values.get(RULES))
    return attrs.evolve(ce, values=_with(ce.values, list(dict.fromkeys((*own, *denied)))))


def agreeing(first: Record, second: Record, rules: str, report: Report) -> Record:
    """Return the first of two entries of one name, admitting whom the rules of both admit."""
    ours, theirs = (
        readable(r.texts(rules)) if rules in r.values else None for r in (first, second)
    )
    if theirs is None or not differ(ours or (), theirs):
        return first
    said = "it is described twice with different rules of access; what only one admits is refused"
    report(finding(second, "access.conflict", said, first.id))
    return attrs.evolve(first, values=_with(first.values, both(ours, theirs) or [], rules))


def agreed_queues(
    first: Sequence[ComputingElement], second: Sequence[ComputingElement], report: Report
) -> list[ComputingElement]:
    """Return queues, each restricted to whom another description of the same id admits."""
    others: dict[str, list[ComputingElement]] = {}
    for ce in second:
        others.setdefault(ce.id.lower(), []).append(ce)
    made = []
    for ce in first:
        lists = [rules for other in others.get(ce.id.lower(), ()) for _, rules in views(other)]
        rules = either(lists)
        changed = ce if rules is None else restricted(ce, rules)
        if differ(all_rules(changed), all_rules(ce)):
            report(conflict(ce.id))
            made.append(changed)
        else:
            made.append(ce)
    return made


def differ(first: Iterable[str], second: Iterable[str]) -> bool:
    """Whether two lists are not of the same rules."""
    return set(map(folded, first)) != set(map(folded, second))


def conflict(ident: str) -> Issue:
    """Return the finding that descriptions of a queue differ in whom they admit."""
    said = "it is described twice with different rules of access; what only one admits is refused"
    return issue("access.conflict", said, raw=ident)


def merged_rules(
    described: Sequence[Sequence[Sequence[str] | None]],
) -> list[list[list[str] | None]]:
    """Return the rules of a queue's ads from several sources, so that all of the sources admit.

    Args:
        described: by source the rules of its ads of the queue, None for an ad without rules.

    >>> merged_rules([[["VO:cms"], ["VO:atlas"]], [["VO:atlas", "VO:ops"]], [None]])
    [[[], ['VO:atlas']], [['VO:atlas']], [['VO:atlas']]]
    """
    of_source = [either(lists) for lists in described]
    found: list[list[list[str] | None]] = []
    for number, lists in enumerate(described):
        others: list[str] | None = None
        for other, rules in enumerate(of_source):
            if other != number:
                others = both(others, rules)
        found.append([both(own, others) for own in lists])
    return found


def _with(values: Values, rules: Sequence[str], name: str = RULES) -> Values:
    """Return values, with what is known of their cleaning, with other rules of access."""
    made = cast("dict[str, Value]", copy.copy(values))
    made[name] = list[Value](rules)
    return made


def damaged(record: Record, name: str, report: Report) -> Record:
    """Return an entry of which a part was lost, as one that has a rule that cannot be read."""
    said = "a part of it cannot be read; it admits nobody"
    report(finding(record, "access.damaged", said, record.id))
    rules = [rule for rule in record.texts(name) if denies(rule) and is_rule(rule)]
    return attrs.evolve(record, values=_with(record.values, rules, name))
