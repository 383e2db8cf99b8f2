"""Rules of access: whom they admit, and which virtual organisation they name.

A rule is ``VO:name``, ``VOMS:/group/Role=…``, the subject of a certificate, ``ALL`` for everybody,
or ``DENY:`` and the name of a VOMS group or role. Queues, views, shares and endpoints have lists of
them. What no rule admits is refused; a queue without a list is open. (GLUE 1.3,
GlueCEAccessControlBase; GFD.147, basic policy scheme; gLite WMS.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from matchmaker.classad import UNDEFINED, Value

RULES: Final = "GlueCEAccessControlBaseRule"
_ALL: Final = "all"
_VO: Final = re.compile(r"[\w.-]+", re.ASCII)
_RULE: Final = re.compile(r"(?:DENY:|VOMS:|VO:).+|/.+CN=.+", re.DOTALL)


def authorised(job: str, rules: str) -> str:
    """The text of the condition that rules of access cover a job.

    A rule covers everybody, ``ALL``, as GLUE 2.0 writes it, or the job's certificate, organisation,
    or one of its VOMS groups and roles: ``FQAN`` is a string or a list of them. A queue without
    rules is open; an empty list covers nobody: that is what is left where rules were no rules, or a
    share and its endpoint agree on none. What the job does not say makes it undefined, where
    nothing else covers the job. (gLite WMS, access control.)

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
    """The text of the condition that no rule denies one of a job's VOMS groups and roles.

    Where that cannot be told, since ``FQAN`` is no name, the job counts as denied.

    >>> from matchmaker.classad import ClassAd, parse_expr
    >>> check = parse_expr(not_denied("other", '{ "VO:cms", "DENY:/cms/Role=pilot" }'))
    >>> check.eval(target=ClassAd({"FQAN": ["/cms", "/cms/Role=pilot"]}))
    False
    """
    return (
        f"{rules} is undefined || {job}.FQAN is undefined"
        f' || FQANmember({job}.FQAN, {rules}, "DENY:") is false'
    )


def is_rule(text: str) -> bool:
    """Whether a text names whom it admits or denies. ``ALL`` is a word of GLUE 2.0 alone.

    >>> is_rule("VO:EGEE"), is_rule("/O=grid/CN=Ada"), is_rule("EGEE")
    (True, True, False)
    """
    return _RULE.fullmatch(text) is not None


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
    if not (text.isascii() and text.isprintable()) or not is_rule(text):
        raise ValueError(f"{vo!r} names no virtual organisation, group, role or subject")
    kind, _, name = text.partition(":")
    if kind.upper() == "VO" and not _VO.fullmatch(name):
        raise ValueError(f"{vo!r} is no name of a virtual organisation; give several one by one")
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
    return _folded(rule).startswith("deny:")


def everybody(rule: str) -> bool:
    """Whether a rule admits everybody. ``VO:all`` does not: it names an organisation.

    >>> everybody("all"), everybody("VO:all")
    (True, False)
    """
    return _folded(rule) == _ALL


def both(share: Sequence[str] | None, endpoint: Sequence[str] | None) -> list[str]:
    """The rules that admit to a share through an endpoint, both of which have a say.

    The share's rules stay where the endpoint admits everybody, the same rule, or another of the
    same VO. None is for one that has no rules, and leaves it to the other; an empty list, or one
    that only denies, admits nobody. ``DENY:`` rules of both stay.

    >>> both(["VO:cms", "VO:atlas"], ["VOMS:/atlas/Role=production"])
    ['VO:atlas']
    >>> both(None, ["VO:cms"]), both(["VO:cms"], ["ALL"]), both([], ["VO:cms"])
    (['VO:cms'], ['VO:cms'], [])
    >>> both(["ALL", "DENY:/cms/Role=bad"], ["VO:cms"])
    ['VO:cms', 'DENY:/cms/Role=bad']
    """
    denied = [rule for rule in (*(share or ()), *(endpoint or ())) if denies(rule)]
    ours, theirs = _admitting(share), _admitting(endpoint)
    if any(map(everybody, ours)):
        kept = theirs
    elif any(map(everybody, theirs)):
        kept = ours
    else:
        known = set(map(_whom, theirs))
        kept = [rule for rule in ours if _whom(rule) in known]
    return list(dict.fromkeys([*kept, *denied]))


def admits(rules: Value, vo: str) -> bool:
    """Whether a queue's rules name a virtual organisation or admit everybody, or there are none.

    >>> admits(["VO:cms", "DENY:/atlas"], "CMS"), admits(["VO:all"], "cms"), admits(UNDEFINED, "")
    (True, False, True)
    """
    if rules is UNDEFINED:
        return True
    texts = [rule for rule in rules if isinstance(rule, str)] if isinstance(rules, list) else []
    return any(everybody(rule) or (vo and vo_of(rule).lower() == vo.lower()) for rule in texts)


def _admitting(rules: Sequence[str] | None) -> list[str]:
    return ["ALL"] if rules is None else [rule for rule in rules if not denies(rule)]


def _whom(rule: str) -> tuple[bool, str]:
    """The VO of a rule, or the rule itself, without regard to case; and which of the two."""
    vo = vo_of(rule)
    return bool(vo), vo.lower() or _folded(rule)


def _folded(rule: str) -> str:
    return rule.strip().lower()
