"""From linked records to the CE ads of a matchmaker, one for each queue and VO view.

Follows the flattening of the gLite broker, which made the ad of the founding talk: the facts of a
queue, its cluster, one of its SubClusters and its close storage in one ad, with the access checks
of the time as ``requirements``. One difference: a CE without a cluster or a SubCluster is kept,
with its host attributes undefined. Also here: `unwrap`, for ads that an information system wrapped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Final, TypeAlias

from matchmaker.classad import UNDEFINED, ClassAd, Expr, Value, parse_expr
from matchmaker.glue.issues import Issue
from matchmaker.glue.records import (
    Bind,
    ComputingElement,
    Snapshot,
    StorageArea,
    SubCluster,
    VOView,
    split_id,
)

# The broker's checks, as the CE ad of the talk has them.
CHECKS: Final[Mapping[str, str]] = {
    "AuthorizationCheck": "member(other.CertificateSubject, GlueCEAccessControlBaseRule)"
    ' || member(strcat("VO:", other.VirtualOrganisation), GlueCEAccessControlBaseRule)',
    "CloseOutputSECheck": "isUndefined(other.OutputSE)"
    " || member(other.OutputSE, GlueCESEBindGroupSEUniqueID)",
}
PURCHASED_BY: Final = "matchmaker"

_RULES = "GlueCEAccessControlBaseRule"
_KEYS = ("GlueForeignKey", "GlueChunkKey")  # lists that all levels add to

Choice: TypeAlias = Callable[[Sequence[SubCluster]], SubCluster | None]
"""Which SubCluster speaks for the hosts of a cluster."""


def first(subclusters: Sequence[SubCluster]) -> SubCluster | None:
    """The SubCluster with the first id. The gLite broker took the first that a server gave it."""
    return subclusters[0] if subclusters else None


def lowest_memory(subclusters: Sequence[SubCluster]) -> SubCluster | None:
    """The SubCluster with the least RAM (MB), as DIRAC chooses; unknown counts as most."""

    def memory(sub: SubCluster) -> float:
        found = sub.values.get("GlueHostMainMemoryRAMSize")
        return found if isinstance(found, int | float) else float("inf")

    return min(subclusters, key=memory, default=None)


def ads(snapshot: Snapshot, choose: Choice = first) -> Iterator[ClassAd]:
    """The CE ads of a snapshot, in the order its queues were published.

    Args:
        snapshot: linked records.
        choose: which SubCluster of several gives the attributes of hosts.
    """
    for ce in snapshot.computing_elements:
        yield from flatten(ce, choose)


def flatten(ce: ComputingElement, choose: Choice = first) -> Iterator[ClassAd]:
    """The ads of one queue: one for each VOView with rules of access, and itself if rules remain.

    A view's ad is a copy of the queue's, updated with the view, named ``<CE id>/<view id>`` in
    ``CEid``; ``GlueCEUniqueID`` stays the queue's own. The rules of views leave the queue's.
    """
    common = _common(ce, choose)
    own = _texts(common.get(_RULES))
    views = [(view, rules) for view in ce.views if (rules := _texts(view.values.get(_RULES)))]
    taken = {rule.lower() for _, rules in views for rule in rules}
    remaining = [rule for rule in own if rule.lower() not in taken]
    if remaining or not views:
        if _RULES in common:
            common[_RULES] = list(remaining)
        yield _ad(common, ce, ce.id, remaining)
    for view, rules in views:
        yield _ad(_viewed(common, view), ce, f"{ce.id}/{view.id}", rules)


def provenance(ce: ComputingElement, view: VOView | None, choose: Choice) -> dict[str, Issue]:
    """What cleaning changed or doubted in the ad of a queue or its view, by attribute."""
    levels: list[Mapping[str, Value]] = [view.values] if view is not None else []
    levels.append(ce.values)
    if ce.cluster is not None:
        chosen = choose(ce.cluster.subclusters)
        levels += [ce.cluster.values, *([chosen.values] if chosen is not None else [])]
    found: dict[str, Issue] = {}
    settled: set[str] = set()
    for level in levels:
        cleaned: Mapping[str, Issue] = getattr(level, "cleaned", {})
        found |= {name: issue for name, issue in cleaned.items() if name not in settled}
        settled.update(level)
    return found


def _common(ce: ComputingElement, choose: Choice) -> dict[str, Value]:
    """What all ads of a queue share. The queue's own word goes before its cluster's."""
    found: dict[str, Value] = {}
    cluster = ce.cluster
    levels: list[Mapping[str, Value]] = [ce.values]
    if cluster is not None:
        chosen = choose(cluster.subclusters)
        levels += [cluster.values, *([chosen.values] if chosen is not None else [])]
    for level in levels:
        for name, value in level.items():
            if name.lower() != "objectclass":
                found.setdefault(name, value)
    for name in _KEYS:
        merged = [key for level in levels for key in _texts(level.get(name))]
        if merged:
            found[name] = list(dict.fromkeys(merged))
    _nest(found, levels)
    found["GlueCEUniqueID"] = ce.id
    if cluster is not None and cluster.site_id:
        found["GlueSiteUniqueID"] = cluster.site_id
    parts = split_id(ce.id)
    if parts is not None:
        contact, lrms, queue = parts
        found |= {"GlobusResourceContactString": contact, "LRMSType": lrms, "QueueName": queue}
    preferred = ce.values.get("GlueCEInfoLRMSType")
    if isinstance(preferred, str):
        found["LRMSType"] = preferred
    return found | _close(ce)


def _nest(found: dict[str, Value], levels: Sequence[Mapping[str, Value]]) -> None:
    """What GLUE 2.0 says, in its own names: of the queue and of its hosts, in one ad."""
    parts = [part for level in levels if isinstance(part := level.get("GLUE2"), ClassAd)]
    if parts:
        found["GLUE2"] = ClassAd({name: part[name] for part in parts for name in part})


def _close(ce: ComputingElement) -> dict[str, Value]:
    """The storage elements that are close to a queue."""
    found: dict[str, Value] = {}
    ids = list(dict.fromkeys((*ce.bound, *(bind.se_id for bind in ce.binds))))
    if ids:
        found["GlueCESEBindGroupCEUniqueID"] = ce.id
        found["GlueCESEBindGroupSEUniqueID"] = ids
    if ce.binds:
        found["CloseStorageElements"] = [
            ClassAd({"mount": bind.mount or UNDEFINED, "name": bind.se_id}) for bind in ce.binds
        ]
    return found


def _viewed(common: Mapping[str, Value], view: VOView) -> dict[str, Value]:
    changed = {k: v for k, v in view.values.items() if k.lower() != "objectclass"}
    for name in _KEYS:
        keys = dict.fromkeys((*_texts(common.get(name)), *_texts(changed.get(name))))
        if keys:
            changed[name] = list(keys)
    _nest(changed, [common, changed])
    return {**common, **changed}


def _ad(
    found: Mapping[str, Value], ce: ComputingElement, ce_id: str, rules: Sequence[str]
) -> ClassAd:
    ad = ClassAd(found)
    ad["CEid"] = ce_id
    if ce.binds:
        ad["storage"] = _storage(ce.binds, _vos(rules))
    ad["PurchasedBy"] = PURCHASED_BY
    for name, text in CHECKS.items():
        ad[name] = _expression(text)
    ad["requirements"] = _expression(" && ".join(CHECKS))
    return ad


def _vos(rules: Sequence[str]) -> list[str]:
    """The virtual organisations that rules of access name, by ``VO:`` or a VOMS attribute."""
    names: dict[str, None] = {}
    for rule in rules:
        kind, _, rest = rule.partition(":")
        if kind.upper() == "VO":
            names[rest] = None
        elif kind.upper() == "VOMS":
            names[rest.strip("/").partition("/")[0]] = None
    return [name for name in names if name]


def _storage(binds: Sequence[Bind], vos: Sequence[str]) -> ClassAd:
    """Close storage for gang matching: each SE with the area of each VO that the ad admits.

    The broker made the list anew for the VO of each job; here it holds all, and ``VO`` is set where
    there is but one. Sizes in ``freespace`` are kB, as GlueSAStateAvailableSpace is published.
    """
    wanted = {vo.lower() for vo in vos}
    elements: list[Value] = []
    for bind in binds:
        areas: list[StorageArea | None] = [None]
        if bind.se is not None:
            areas = [area for area in bind.se.areas if area.id.lower() in wanted] or [None]
        for area in areas:
            element = ClassAd()
            for level in (bind.se, area):
                # In order of name: a server's order varies, and nested ads are equal in order.
                for name, value in sorted(level.values.items()) if level is not None else ():
                    if name.lower() != "objectclass":
                        element[name] = value
            free = area.values.get("GlueSAStateAvailableSpace") if area is not None else None
            element["name"] = bind.se_id
            element["mount"] = bind.mount or UNDEFINED
            element["freespace"] = UNDEFINED if free is None else free
            elements.append(element)
    storage = ClassAd({"CloseSEs": elements})
    if len(wanted) == 1:
        storage["VO"] = vos[0]
    return storage


def _texts(value: object) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    return tuple(item for item in items if isinstance(item, str))


@cache
def _expression(text: str) -> Expr:
    return parse_expr(text)


def unwrap(ad: ClassAd) -> ClassAd:
    """The CE ad inside an information system's ``[id; update_time; expiry_time; info = […]]``.

    The times and the id join the inner ad where it has none of that name. ``requirements`` are made
    of the ad's own AuthorizationCheck and CloseOutputSECheck where it has no requirements. An ad
    without ``info`` is returned as it is.

    >>> from matchmaker.classad import parse_ad
    >>> ce = unwrap(parse_ad('[ id = "q"; update_time = 1128351882; expiry_time = 300;'
    ...     ' info = [ GlueCEName = "long"; AuthorizationCheck = other.VO == "EGEE" ] ]'))
    >>> print(ce["requirements"], ce.eval("GlueCEName"), expires(ce))
    AuthorizationCheck long 2005-10-03 15:09:42+00:00
    """
    inner = ad.eval("info")
    if not isinstance(inner, ClassAd):
        return ad
    ce = ClassAd(inner)
    for name in ("id", "update_time", "expiry_time"):
        if name in ad and name not in ce:
            ce[name] = ad[name]
    checks = [name for name in CHECKS if name in ce]
    if checks and "requirements" not in ce:
        ce["requirements"] = _expression(" && ".join(checks))
    return ce


def expires(ad: ClassAd) -> datetime | None:
    """When an ad from an information system goes stale: its update_time plus expiry_time (s)."""
    updated, lasts = ad.eval("update_time"), ad.eval("expiry_time")
    if not isinstance(updated, int | float) or not isinstance(lasts, int | float):
        return None
    try:
        return datetime.fromtimestamp(updated + lasts, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return None
