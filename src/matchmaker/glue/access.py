"""Rules of access: whom they admit, whom they deny, and what becomes of one that cannot be read.

A rule is ``VO:name``, ``VOMS:/group/Role=…``, the subject of a certificate, ``ALL`` for everybody,
or ``DENY:`` and one of these. Queues, views, shares and endpoints have lists of them. A job is
refused where a rule denies it, and where no rule admits it. A rule that cannot be read might have
denied anybody: `CLOSED` stands in its place. (GLUE 1.3, GlueCEAccessControlBase; GFD.147, basic
policy scheme; gLite WMS.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from matchmaker.classad import UNDEFINED, Value

RULES: Final = "GlueCEAccessControlBaseRule"
POLICY_RULE: Final = "GLUE2PolicyRule"
CLOSED: Final = "DENY:ALL"
"""The rule that denies everybody."""

_ALL: Final = "all"
_VO: Final = re.compile(r"[\w.-]+", re.ASCII)
# A "deny:" within another rule is what is left where two lines ran together, and a backslash or
# a blank at the end where a line was cut.
_WHOM: Final = r"VO:[^\s:]+|VOMS:\S.*|/.+CN=.+"
_RULE: Final = re.compile(
    r"(?!.*.deny:)(?!.*[\x00-\x1f\x7f\ufffd])(?!.*[\s\\]\Z)"
    rf"(?:{_WHOM}|DENY:(?:{_WHOM}|ALL|/.+|[\w.-]+))",
    re.IGNORECASE | re.DOTALL,
)
_LIKE_A_RULE: Final = re.compile(r"deny:|(?:^|\n)(?:vo:|voms:|all(?:\n|\Z))", re.IGNORECASE)


def authorised(job: str, rules: str) -> str:
    """The text of the condition that a rule of access admits a job.

    A rule admits everybody (``ALL``), or the job's certificate, its organisation, or one of its
    VOMS groups and roles: ``FQAN`` is a string or a list of them. An ad without the attribute is
    open: whoever wrote it set no rule; ads that are made of a dump always have it. An empty list
    admits nobody. The condition is undefined where the job lacks what a rule asks about, and no
    other rule admits it. (gLite WMS, access control.)

    Args:
        job: the scope that the job is in, ``MY`` or ``other``.
        rules: the reference to the list of rules.

    >>> from matchmaker.classad import ClassAd, parse_expr
    >>> check = parse_expr(authorised("other", '{ "VOMS:/cms/Role=pilot" }'))
    >>> check.eval(target=ClassAd({"FQAN": "/cms/Role=pilot", "VirtualOrganisation": "cms"}))
    True
    """
    return (
        f"{rules} is undefined"
        f' || member("ALL", {rules})'
        f" || member({job}.CertificateSubject, {rules})"
        f' || member(strcat("VO:", {job}.VirtualOrganisation), {rules})'
        f' || FQANmember({job}.FQAN, {rules}, "VOMS:")'
    )


def not_denied(job: str, rules: str) -> str:
    """The text of the condition that no rule denies a job.

    A rule denies everybody, a certificate, an organisation, or a VOMS group and role; what the job
    does not have is not denied. A job whose ``FQAN`` is no name counts as denied.

    >>> from matchmaker.classad import ClassAd, parse_expr
    >>> check = parse_expr(not_denied("other", '{ "VO:cms", "DENY:/cms/Role=pilot" }'))
    >>> check.eval(target=ClassAd({"FQAN": ["/cms", "/cms/Role=pilot"]}))
    False
    >>> check = parse_expr(not_denied("other", '{ "VO:cms", "DENY:/O=grid/CN=Eve" }'))
    >>> check.eval(target=ClassAd({"CertificateSubject": "/O=grid/CN=Eve"}))
    False
    """
    subject, vo, fqan = (
        f"{job}.{name}" for name in ("CertificateSubject", "VirtualOrganisation", "FQAN")
    )
    return (
        f'{rules} is undefined || regexpMember("^DENY:", {rules}, "i") is false'
        f' || member("{CLOSED}", {rules}) is false'
        f' && ({subject} is undefined || member(strcat("DENY:", {subject}), {rules}) is false)'
        f" && ({vo} is undefined"
        f' || member(strcat("DENY:", {vo}), {rules}) is false'
        f' && member(strcat("DENY:VO:", {vo}), {rules}) is false'
        f' && member(strcat("DENY:/", {vo}), {rules}) is false'
        f' && member(strcat("DENY:/", {vo}, "/*"), {rules}) is false)'
        f" && ({fqan} is undefined"
        f' || FQANmember({fqan}, {rules}, "DENY:") is false'
        f' && FQANmember({fqan}, {rules}, "DENY:VOMS:") is false)'
    )


def is_rule(text: str) -> bool:
    """Whether a text names whom it admits or denies. ``ALL`` is a word of GLUE 2.0 alone.

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


def like_a_rule(text: str) -> bool:
    r"""Whether a text, of one or several lines, has what only a rule of access has.

    >>> like_a_rule("x\nvo:cms"), like_a_rule("long queue")
    (True, False)
    """
    return _LIKE_A_RULE.search(text) is not None


def rule(vo: str) -> str:
    """The rule that admits a virtual organisation, or a VOMS group and role; a rule is itself.

    Raises ValueError for what names none of them, and for what GLUE 1.3 cannot publish.

    >>> rule("cms"), rule("/cms/Role=pilot"), rule("DENY:/cms/Role=bad"), rule("/O=grid/CN=Ada")
    ('VO:cms', 'VOMS:/cms/Role=pilot', 'DENY:/cms/Role=bad', '/O=grid/CN=Ada')
    """
    text = vo.strip()
    if not text.upper().startswith(("VO:", "VOMS:", "DENY:")) and not (
        text.startswith("/") and "/CN=" in text
    ):
        text = f"VOMS:{text}" if text.startswith("/") else f"VO:{text}"
    kind, _, name = text.partition(":")
    refused = f"{vo!r} names no virtual organisation, group, role or subject"
    if not (text.isascii() and text.isprintable()):
        raise ValueError(refused)
    if kind.upper() == "VO" and name and not _VO.fullmatch(name):
        raise ValueError(
            f"{vo!r} is not the name of a virtual organisation; give each name separately"
        )
    if not is_rule(text):
        raise ValueError(refused)
    if kind.upper() in ("VOMS", "DENY") and not name.startswith("/"):
        raise ValueError(f"{vo!r}: a VOMS group or role begins with a slash, such as /cms/Role=x")
    return text


def vo_of(rule: str) -> str:
    """The virtual organisation that a rule names, as it is written; empty where it names none.

    >>> vo_of("VO:EGEE"), vo_of("VOMS:/cms/Role=NULL"), vo_of("/O=grid/CN=Ada"), vo_of("ALL")
    ('EGEE', 'cms', '', '')
    """
    kind, _, rest = rule.strip().partition(":")
    if kind.upper() == "VO":
        return rest.strip()
    return rest.strip().strip("/").partition("/")[0] if kind.upper() == "VOMS" else ""


def denies(rule: str) -> bool:
    """Whether a rule keeps somebody out."""
    return folded(rule).startswith("deny:")


def denials(rules: Iterable[str]) -> list[str]:
    """The rules that deny; one on a VO is joined by one on all groups and roles of the VO.

    >>> denials(["VO:atlas", "DENY:VO:cms", "DENY:/lhcb/Role=bad"])
    ['DENY:VO:cms', 'DENY:/cms/*', 'DENY:/lhcb/Role=bad']
    """
    found: dict[str, None] = {}
    for rule in filter(denies, rules):
        found[rule] = None
        whom = rule.strip()[len("DENY:") :].strip()
        vo = whom[len("VO:") :] if whom.upper().startswith("VO:") else whom
        if _VO.fullmatch(vo) and vo.lower() != _ALL:
            found[f"DENY:/{vo}/*"] = None
    return list(found)


def everybody(rule: str) -> bool:
    """Whether a rule admits everybody. ``VO:all`` does not: it names an organisation.

    >>> everybody("all"), everybody("VO:all")
    (True, False)
    """
    return folded(rule) == _ALL


def both(share: Sequence[str] | None, endpoint: Sequence[str] | None) -> list[str]:
    """The rules that admit to a share through an endpoint, each of which must admit.

    Of two rules on one VO the narrower stays. None stands for one of the two that publishes no
    policy, and leaves the decision to the other; where neither publishes one, nobody is admitted.
    ``DENY:`` rules of both stay.

    >>> both(["VO:cms", "VO:atlas"], ["VOMS:/atlas/Role=production"])
    ['VOMS:/atlas/Role=production']
    >>> both(None, ["VO:cms"]), both(["VO:cms"], ["ALL"]), both([], ["VO:cms"]), both(None, None)
    (['VO:cms'], ['VO:cms'], [], [])
    >>> both(["ALL", "DENY:/cms/Role=bad"], ["VO:cms"])
    ['VO:cms', 'DENY:/cms/Role=bad']
    """
    if share is None or endpoint is None:
        return list(dict.fromkeys((*(share or ()), *(endpoint or ()))))
    denied = [rule for rule in (*share, *endpoint) if denies(rule)]
    ours, theirs = _Admitting(share), _Admitting(endpoint)
    kept = [rule for rule in ours.rules if theirs.cover(rule)]
    known = set(map(folded, kept))
    kept += [rule for rule in theirs.rules if ours.cover(rule) and folded(rule) not in known]
    return list(dict.fromkeys([*kept, *denied]))


def agreed(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """What two descriptions of one thing agree on: rules that admit in both, denials of either.

    >>> agreed(["VO:cms", "VO:atlas"], ["VO:CMS", "DENY:/cms/Role=bad"])
    ['VO:cms', 'DENY:/cms/Role=bad']
    """
    known = {folded(rule) for rule in second}
    kept = [rule for rule in first if denies(rule) or folded(rule) in known]
    own = {folded(rule) for rule in kept}
    return [*kept, *(rule for rule in second if denies(rule) and folded(rule) not in own)]


def differ(first: Iterable[str], second: Iterable[str]) -> bool:
    """Whether two lists of rules are not of the same rules."""
    return set(map(folded, first)) != set(map(folded, second))


def admits(rules: Value, vo: str) -> bool:
    """Whether a queue's rules name a virtual organisation or admit everybody, or there are none.

    >>> admits(["VO:cms", "DENY:/atlas"], "CMS"), admits(["VO:all"], "cms"), admits(UNDEFINED, "")
    (True, False, True)
    """
    if rules is UNDEFINED:
        return True
    texts = [rule for rule in rules if isinstance(rule, str)] if isinstance(rules, list) else []
    denied = {folded(rule) for rule in texts if denies(rule)}
    if denied & {CLOSED.lower(), f"deny:{vo}".lower(), f"deny:vo:{vo}".lower()}:
        return False
    return any(everybody(rule) or (vo and vo_of(rule).lower() == vo.lower()) for rule in texts)


class _Admitting:
    """The rules of a list that admit, and which rules of others they cover."""

    def __init__(self, rules: Iterable[str]) -> None:
        self.rules = [rule for rule in rules if not denies(rule)]
        self._known = set(map(folded, self.rules))

    def cover(self, rule: str) -> bool:
        """Whether whom a rule admits is admitted here."""
        known = folded(rule)
        if known in self._known or _ALL in self._known:
            return True
        vo = vo_of(rule).lower() if known.startswith("voms:/") else ""
        return bool(vo) and f"vo:{vo}" in self._known


def folded(rule: str) -> str:
    """A rule as it is compared with others: rules differ neither by case nor by blanks around."""
    return rule.strip().lower()
