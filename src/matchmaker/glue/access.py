"""Predict who may use a queue from the rules that providers publish. The computing element decides.

A job is admitted at a queue if the rules that its share's mapping policies and its endpoint's
access policies publish admit its VO, FQAN or DN; if a queue publishes none, access is unknown.
docs/glue.md has the rule in full, with an example a provider.

Rules are never combined: accessBy() of the language asks each list by itself. An ad has the list of
its share or queue in ``GlueCEAccessControlBaseRule``, those of its endpoint and of other
descriptions in ``AccessAlso``. (GLUE 1.3, GlueCEAccessControlBase; GFD.147, sections 5.4 and 6.)
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, cast

import attrs

from matchmaker.classad import UNDEFINED, ClassAd, Value
from matchmaker.classad.functions.control import FQAN, rule_texts
from matchmaker.glue.issues import Issue, Report, issue
from matchmaker.glue.records import ComputingElement, Values, VOView, texts

RULES: Final = "GlueCEAccessControlBaseRule"
ALSO: Final = "AccessAlso"
"""The attribute with the lists of rules of an endpoint and of other descriptions of a queue. Each
must admit, too. In place of a list may stand several, such as those of views, one of which must,
and in place of one of these several again, all of which must."""
POLICY_RULE: Final = "GLUE2PolicyRule"
CLOSED: Final = "DENY:ALL"
"""The rule that denies everybody."""
UNREADABLE: Final = "unreadable"
"""The text that replaces a rule that cannot be read; it is no rule itself."""

_VO: Final = re.compile(r"[\w.-]+", re.ASCII)
# A "deny:" within another rule is what is left where two lines ran together, and a backslash or
# a blank at the end where a line was cut.
_WHOM: Final = rf"VO:[^\s:]+|VOMS:\S.*|{FQAN.pattern}|/.+CN=.+|ALL"
# A denial of what can be no name would deny nobody.
_GROUP: Final = r"(?:/[\w.*-]+)+(?:/role=[\w.*-]+)?(?:/capability=[\w.*-]+)?/?"
_DENIED: Final = rf"VO:[\w.-]+|(?:VOMS:)?{_GROUP}|/[^/=,]+=.+|ALL|[\w.-]+"
_RULE: Final = re.compile(
    r"(?!.*.deny:)(?!.*[\x00-\x1f\x7f\ufffd])(?!.*[\s\\]\Z)"
    rf"(?:{_WHOM}|DENY:(?:{_DENIED}))",
    re.IGNORECASE | re.DOTALL,
)

Access: TypeAlias = Literal["known", "published", "any"]
"""Which queues a job may use: those that are known to admit it, those too whose access is unknown,
or all."""

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


def authorised(job: str, queue: str = "") -> str:
    """Return the condition, as text, that a rule of each list names the user, or no list exists.

    `job` is the scope of the job; `queue` that of the queue with its dot, empty in its own ad.

    >>> from matchmaker.classad import parse_expr
    >>> queue = ClassAd({"GlueCEAccessControlBaseRule": ["VO:cms", "DENY:/cms/Role=bad"]})
    >>> user = ClassAd({"FQAN": "/cms/Role=BAD"})
    >>> [parse_expr(check("MY", "TARGET.")).eval(user, queue) for check in (authorised, not_denied)]
    [True, False]
    """
    return f"!{known(queue)} || {_asked(job, queue)} isnt undefined"


def not_denied(job: str, queue: str = "") -> str:
    """Return the condition, as text, that no rule denies the user of a job; see `authorised`."""
    asked = _asked(job, queue)
    # An error, as of rules that are no list, is neither.
    return f"!{known(queue)} || {asked} is true || {asked} is undefined"


def known(queue: str = "") -> str:
    """Return the condition, as text, that a queue publishes rules of access."""
    return f"({queue}{RULES} isnt undefined || {queue}{ALSO} isnt undefined)"


def _asked(job: str, queue: str) -> str:
    facts = ", ".join(f"{job}.{n}" for n in ("CertificateSubject", "VirtualOrganisation", "FQAN"))
    return f"accessBy({queue}{RULES}, {facts}, {queue}{ALSO})"


# The text of rules


def is_rule(text: str) -> bool:
    """Whether a text names whom it admits or denies.

    >>> is_rule("VO:EGEE"), is_rule("/O=grid/CN=Ada"), is_rule("DENY:VO:cms"), is_rule("EGEE")
    (True, True, True, False)
    """
    return _RULE.fullmatch(text) is not None


def is_vo(name: object) -> bool:
    """Whether a value is the name of a virtual organisation.

    >>> is_vo("vo.gear.cern.ch"), is_vo("cms, atlas"), is_vo(7)
    (True, False, False)
    """
    return isinstance(name, str) and _VO.fullmatch(name) is not None


def vo_of(rule: str) -> str:
    """Return the virtual organisation that a rule names, as it is written; empty if it names none.

    >>> vo_of("VO:EGEE"), vo_of("VOMS:/cms/Role=NULL"), vo_of("/O=grid/CN=Ada"), vo_of("ALL")
    ('EGEE', 'cms', '', '')
    """
    kind, _, rest = rule.strip().partition(":")
    if kind.upper() == "VO":
        return rest.strip()
    group = rest if kind.upper() == "VOMS" else kind if FQAN.fullmatch(kind) else ""
    return group.strip().strip("/").partition("/")[0]


def denies(rule: str) -> bool:
    """Whether a rule keeps somebody out."""
    return folded(rule).startswith("deny:")


def folded(rule: str) -> str:
    """Return a rule as it is compared: without upper case and blanks around."""
    return rule.strip().lower()


# Policies


def readable(rules: Iterable[str]) -> list[str]:
    """Return the rules of a policy; without those that admit if one of them cannot be read.

    >>> readable(["VO:cms", "DENY:VO:atlas"]), readable(["VO:cms", "DENY:VO:atlas", "EGEE"])
    (['VO:cms', 'DENY:VO:atlas'], ['DENY:VO:atlas'])
    """
    given = {rule: is_rule(rule) for rule in rules}
    sound = all(given.values())
    return [rule for rule, read in given.items() if read and (sound or denies(rule))]


def required(values: Mapping[str, Value]) -> list[Value]:
    """Return the lists of rules of a queue, view or ad, each of which must admit.

    A value of another type counts as a list that admits nobody.

    >>> required({RULES: ["VO:cms"], ALSO: [["VO:cms", "VO:atlas"]]}), required({})
    ([['VO:cms'], ['VO:cms', 'VO:atlas']], [])
    """
    own, also = (values.get(name, UNDEFINED) for name in (RULES, ALSO))
    found: list[Value] = [] if own is UNDEFINED else [own if isinstance(own, list) else []]
    return found + ([] if also is UNDEFINED else also if isinstance(also, list) else [[]])


def all_of(levels: Iterable[Values]) -> list[str]:
    """Return the rules of several levels, each once."""
    return [*dict.fromkeys(rule_texts([one for level in levels for one in required(level)]))]


def of_ad(ad: ClassAd) -> Values:
    """Return the attributes of access of an ad."""
    return {name: ad.eval(name) for name in (RULES, ALSO) if name in ad}


def restricted(values: Values, others: Iterable[Sequence[Value]]) -> Values:
    """Return values of which the rules, and those of one of several others, must admit.

    Others without rules count for nothing. Where the rules are among the others, the values stay.

    >>> restricted({RULES: ["VO:cms"]}, [[["VO:cms"]], [["VO:atlas"]], []])
    {'GlueCEAccessControlBaseRule': ['VO:cms']}
    >>> restricted({RULES: ["VO:cms"]}, [[["VO:atlas"]], [["ALL"], ["VO:cms"]]])[ALSO]
    [[[['VO:atlas']], [['ALL'], ['VO:cms']]]]
    """
    own, given = required(values), [list(other) for other in others if other]
    if not given or own in given:
        return values
    also = required({ALSO: values[ALSO]} if ALSO in values else {})
    return with_rules(
        values, [*also, given[0][0] if len(given) == len(given[0]) == 1 else given], ALSO
    )


# Queues, and what several descriptions say of them


def published(values: Values) -> Values:
    """Return the values of a queue or view of GLUE 1.3, with only those of its rules that count."""
    rules = readable(texts(values.get(RULES)))
    return values if rules == values.get(RULES, []) else with_rules(values, list[Value](rules))


def views(ce: ComputingElement) -> list[tuple[VOView | None, Values]]:
    """Return the views of a queue with the values of their access; None is the queue itself.

    A rule that a view has is not the queue's own any more; the others are for the queue itself.
    Each view denies whom the queue denies. A view of GLUE 1.3 counts if it has rules.
    """
    its = [view for view in ce.views if _counts(view)]
    denied = [rule for rule in texts(ce.values.get(RULES)) if denies(rule)]
    theirs = [rule for view in its for rule in texts(view.values.get(RULES))]
    taken = {folded(rule) for rule in theirs}
    left = [r for r in texts(ce.values.get(RULES)) if not denies(r) and folded(r) not in taken]
    found: list[tuple[VOView | None, Values]] = []
    if left or not its or (ALSO in ce.values and RULES not in ce.values):
        found.append((None, _access(ce.values, [*left, *denied, *filter(denies, theirs)])))
    found += ((v, _access(v.values, [*texts(v.values.get(RULES)), *denied])) for v in its)
    return found


def _access(values: Values, rules: Iterable[str]) -> Values:
    own = {RULES: list[Value](dict.fromkeys(rules))} if RULES in values else {}
    return own | ({ALSO: values[ALSO]} if ALSO in values else {})


def unknown(ce: ComputingElement) -> bool:
    """Whether neither a queue nor a view of it publishes a rule of access."""
    return not any(map(required, _levels(ce)))


def nobody(ce: ComputingElement) -> bool:
    """Whether no rule of a queue or of its views admits anybody."""
    return all(map(denies, all_of(_levels(ce))))


def _levels(ce: ComputingElement) -> list[Values]:
    return [ce.values, *(view.values for view in ce.views)]


def _counts(view: VOView) -> bool:
    """Whether a view is used for itself: it has rules, or it is a share of GLUE 2.0."""
    return bool(required(view.values)) or "GLUE2" in view.values


def agreed_queues(
    first: Sequence[ComputingElement], second: Sequence[ComputingElement], report: Report
) -> Iterator[ComputingElement]:
    """Yield queues, each restricted, and so its views, to whom another of its id admits."""
    others: dict[str, list[ComputingElement]] = {}
    for ce in second:
        others.setdefault(ce.id.lower(), []).append(ce)
    for ce in first:
        ours = [*map(required, _levels(ce))]
        its = others.get(ce.id.lower(), ())
        unlike = [other for other in its if [*map(required, _levels(other))] != ours]
        theirs = [access for other in unlike for _, access in views(other)]
        yield _agreed(ce, theirs, report) if any(map(required, theirs)) else ce


def _agreed(ce: ComputingElement, theirs: Sequence[Values], report: Report) -> ComputingElement:
    ways = [*map(required, theirs)]
    if not unknown(ce) and differ(all_of(_levels(ce)), all_of(theirs)):
        report(conflict(ce.id))
    its = [attrs.evolve(v, values=restricted(v.values, ways)) for v in ce.views if _counts(v)]
    own = ce.values if its and not required(ce.values) else restricted(ce.values, ways)
    rest = (view for view in ce.views if not _counts(view))
    return attrs.evolve(ce, values=own, views=(*its, *rest))


def differ(first: Iterable[str], second: Iterable[str]) -> bool:
    """Whether two lists are not of the same rules."""
    return set(map(folded, first)) != set(map(folded, second))


CONFLICT: Final = (
    "access.conflict",
    "it is described twice with different rules of access; what only one admits is refused",
)


def conflict(ident: str) -> Issue:
    """Return the finding that descriptions of a queue differ in whom they admit."""
    return issue(*CONFLICT, raw=ident)


def with_rules(values: Values, rules: Sequence[Value], name: str = RULES) -> Values:
    """Return a copy of values, and of the record of their cleaning, with other rules of access."""
    made = cast("dict[str, Value]", copy.copy(values))
    made[name] = list[Value](rules)
    return made
