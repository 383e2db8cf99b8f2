"""Whom queues admit, from whom the batch system admits by its own names.

A batch system knows users, groups and accounts, a grid virtual organisations. Who publishes a queue
says which organisations it is for, and under which local names their jobs run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from matchmaker.classad import UNDEFINED, ClassAd, Value
from matchmaker.glue.access import CLOSED, RULES, denies, is_rule, is_vo, vo_of

LOCAL: Final = "LocalAccess"
"""The attribute of a described queue that does not admit everybody: alternatives of lists."""


def admit(
    queues: Iterable[ClassAd],
    vos: Iterable[str] = (),
    local: Mapping[str, Sequence[str]] | None = None,
) -> list[ClassAd]:
    """Ads of queues with rules of access.

    A queue that says nothing of access admits all of ``vos``; one with rules keeps them. One with
    ``LocalAccess`` admits those of which a local name is allowed and none is denied: in one of its
    alternatives each ``Allowed…`` list must hold one, and no ``Denied…`` list any. Where it admits
    none, and where the lists cannot be read, it denies everybody.

    Args:
        queues: as a batch system describes them.
        vos: virtual organisations, VOMS groups and roles, which begin with a slash, or whole rules.
        local: the users, groups or accounts that jobs run as, by those; by default the name of the
            organisation.

    Raises:
        ValueError: for what is no rule, and for a local name of what is not among ``vos``.

    >>> queue = ClassAd({"Name": "q", "LocalAccess": [ClassAd({"AllowedGroups": ["cms", "lhc"]})]})
    >>> [admitted] = admit([queue], ["cms", "atlas"])
    >>> admitted.eval("GlueCEAccessControlBaseRule")
    ['VO:cms']
    >>> [admitted] = admit([queue], ["cms", "atlas"], {"atlas": ["lhc"], "cms": ["cmsprod"]})
    >>> admitted.eval("GlueCEAccessControlBaseRule")
    ['VO:atlas']
    """
    rules = {vo: rule(vo) for vo in vos}
    names = {vo: _names(vo, known, local or {}) for vo, known in rules.items()}
    for vo in local or ():
        if not any(vo in (one, vo_of(known)) for one, known in rules.items()):
            raise ValueError(
                f"a local name of {vo!r}, which is not among the VOs that are admitted"
            )
    found = []
    for queue in queues:
        ad = queue.copy()
        lists = ad.eval(LOCAL)
        if LOCAL in ad and ad.eval(RULES) in (UNDEFINED, [CLOSED]):
            kept = [r for vo, r in rules.items() if denies(r) or _admits(lists, names[vo])]
            ad[RULES] = kept if any(not denies(r) for r in kept) else [CLOSED]
        elif rules and RULES not in ad:
            ad[RULES] = list[Value](rules.values())
        found.append(ad)
    return found


def admits_nobody(ad: ClassAd) -> bool:
    """Whether a queue denies everybody because of the batch system's own lists.

    >>> [admits_nobody(ad) for ad in admit([ClassAd({"LocalAccess": []}), ClassAd()])]
    [True, False]
    """
    return LOCAL in ad and ad.eval(RULES) == [CLOSED]


def _names(vo: str, known: str, local: Mapping[str, Sequence[str]]) -> frozenset[str]:
    own = vo_of(known)
    return frozenset(local.get(vo) or local.get(own) or (own or vo,))


def _admits(lists: Value, names: frozenset[str]) -> bool:
    return isinstance(lists, list) and any(
        isinstance(one, ClassAd) and one and all(_passes(n, one.eval(n), names) for n in one)
        for one in lists
    )


def _passes(kind: str, listed: Value, names: frozenset[str]) -> bool:
    """Whether a list lets names pass; one that cannot be read lets none."""
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        return False
    held = bool(names.intersection(map(str, listed)))
    allows, denied = (kind.lower().startswith(word) for word in ("allowed", "denied"))
    return held if allows else denied and not held


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
    if kind.upper() == "VO" and name and not is_vo(name):
        raise ValueError(
            f"{vo!r} is not the name of a virtual organisation; give each name separately"
        )
    if not is_rule(text):
        raise ValueError(refused)
    if kind.upper() in ("VOMS", "DENY") and not name.startswith("/"):
        raise ValueError(f"{vo!r}: a VOMS group or role begins with a slash, such as /cms/Role=x")
    return text
