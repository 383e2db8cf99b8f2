"""Merge the descriptions of one queue in several information systems.

Two ads are of one queue if their computing element, by host and port, and the queue in the batch
system are the same, whatever ids they have. `merge_by_trust` goes by a fixed order of trust
(`ORDER`): who is nearer to the queue knows better. The ad of the most trusted system stays, with
its name and its rules of access; attributes that it lacks are taken from the next. A denial by all
ads of a system counts too. Registries name computing elements without queues: `with_registered`
gives what they know to the queues that other systems describe there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, TypeAlias

import attrs

from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad import ClassAd, Value
from matchmaker.classad.ad import first_text
from matchmaker.classad.values import is_integer
from matchmaker.glue.access import (
    ALSO,
    RULES,
    UNKNOWN,
    all_of,
    denies,
    of_ad,
    required,
    restricted,
    vo_of,
)
from matchmaker.glue.records import split_id, texts
from matchmaker.glue.systems.building import (
    CONDOR_URL,
    DEFAULT_QUEUE,
    PORTS,
    QUEUES_UNKNOWN,
    SYSTEM,
)

ORDER: Final[Mapping[str, int]] = {
    "queues.toml": 0,
    "": 1,
    "OSG collector": 1,
    "CRR": 2,
    "CRIC": 3,
    "glideinWMS": 4,
}
"""How near a system is to the queues that it describes, the nearest first: what the user wrote
down; what the computing element says itself (GLUE, which has no name here, and OSG's collector);
its site; and the catalogues that experiments keep of the sites that they use."""

_SITE: Final = 2
"""The last place in the order that speaks of all who may use a queue, and not of some of them."""

ALSO_DESCRIBED: Final = "AlsoDescribedBy"
"""The attribute of a queue with the other systems that described it."""

_OWN: Final = frozenset(
    name.lower()
    for name in (
        "CEid", "GlueCEUniqueID", "id", "Name", "info", "GlobusResourceContactString", RULES,
        ALSO, UNKNOWN, SYSTEM, ALSO_DESCRIBED, "requirements", "storage", "GlueSubClusterUniqueID",
        "GLUE2",
    )
)  # fmt: skip
"""Attributes of one description, which another description does not take over."""

QueueAddress: TypeAlias = tuple[str, int, str]
"""The host, the port and the queue of an ad."""


@attrs.frozen(slots=True)
class MergedAd:
    """The outcome of a merge for one ad, which is None if it went into others.

    `view` is the place of the ad of the same queue that this one is a view of, `refused` the VOs
    that this one names, and a more trusted one does not.
    """

    ad: ClassAd | None
    view: int | None = None
    refused: tuple[str, ...] = ()


def address_of(ad: ClassAd) -> QueueAddress | None:
    """Return the host, port and queue of an ad; None if it does not say them.

    >>> address_of(ClassAd(GlueCEUniqueID="CE.t2.grid:2811/nordugrid-SLURM-grid", QueueName="grid"))
    ('ce.t2.grid', 443, 'grid')
    """
    ident = first_text(ad, ("GlueCEUniqueID", "CEid")) or ""
    parts = split_id(ident)
    endpoint, _, kind = (parts[0] if parts is not None else "").partition("/")
    host = first_text(ad, ("GlueCEInfoHostName",)) or endpoint.partition(":")[0]
    queue = first_text(ad, ("QueueName",)) or (parts[2] if parts is not None else "")
    urls = texts(ad.eval("GlueCEInfoContactString"))
    if not queue and any(url.lower().startswith(CONDOR_URL) for url in urls):
        queue = DEFAULT_QUEUE  # HTCondor-CE publishes shares for VOs, and no queue
    port: Value = ad.eval("GlueCEInfoGatekeeperPort")
    if not is_integer(port):
        said = endpoint.rpartition(":")[2]
        port = int(said) if said.isascii() and said.isdecimal() and len(said) < 6 else 0
    if kind.lower().startswith("nordugrid"):
        port = PORTS["arc-ce"]  # GridFTP and REST lead to the same queues
    return (host.lower(), port, queue) if host and queue and port else None


def merge_by_trust(described: Sequence[tuple[int, ClassAd]]) -> list[MergedAd]:
    """Merge the descriptions of each queue by the order of trust.

    Args:
        described: the number of a source, and an ad of it. Ads of systems that are trusted alike
            are left to the rules for ads with the same id.

    >>> site = ClassAd(CEid="ce:443/nordugrid-slurm-q", GlueCEInfoTotalCPUs=8)
    >>> other = ClassAd(CEid="ce:2811/nordugrid-SLURM-q", GlueHostMainMemoryRAMSize=64000,
    ...                 GlueCEInfoTotalCPUs=2, InformationSystem="CRIC")
    >>> first, second = merge_by_trust([(1, other), (2, site)])
    >>> print(first.ad, second.ad["GlueCEInfoTotalCPUs"], second.ad["GlueHostMainMemoryRAMSize"])
    None 8 64000
    """
    found = [MergedAd(ad) for _, ad in described]
    groups: dict[QueueAddress, list[int]] = {}
    for number, (_, ad) in enumerate(described):
        if (place := address_of(ad)) is not None:
            groups.setdefault(place, []).append(number)
    for numbers in groups.values():
        levels = {number: _level(described[number][1]) for number in numbers}
        # The work grows with the square of them; an honest queue has some ten descriptions.
        if len(set(levels.values())) > 1 and len(numbers) <= LIMITS.queues:
            _unite(found, sorted(numbers, key=levels.__getitem__), levels)
    return found


def _level(ad: ClassAd) -> int:
    return ORDER.get(first_text(ad, (SYSTEM,)) or "", ORDER["CRIC"])


def _unite(found: list[MergedAd], numbers: Sequence[int], levels: Mapping[int, int]) -> None:
    """Merge the ads of one queue, the most trusted first."""
    base: list[int] = []
    for level, numbers_of_level in groupby(numbers, key=levels.__getitem__):
        same, above = [*numbers_of_level], list(base)
        denials = _denied_by_all(ad for number in same if (ad := found[number].ad) is not None)
        telling: dict[int, list[tuple[int, ClassAd]]] = {}
        for number in same:
            ad = found[number].ad
            if ad is None or not above:
                base.append(number)
                continue
            targets = [other for other in above if _share(found[other].ad, ad)]
            for other in targets:
                telling.setdefault(other, []).append((number, ad))
            if targets:
                found[number] = MergedAd(None)
            elif any(levels[other] <= _SITE for other in above):
                found[number] = MergedAd(None, refused=tuple(sorted(_vos(ad) or ())))
            else:
                # A catalogue speaks of the VOs that it serves: the other is one more view.
                named = ad.copy()
                ids = first_text(ad, ("CEid",)) or "", first_text(ad, (SYSTEM,)) or "other"
                named["CEid"] = "/".join(ids)
                found[number] = MergedAd(named, view=base[0])
                base.append(number)
        for other, those in telling.items():
            _merge_into(found, other, those, denials, views=level > _SITE and len(those) > 1)
            if found[other].ad is None:
                base.remove(other)
                base.extend(number for number, _ in those)


def _denied_by_all(ads: Iterable[ClassAd]) -> list[str]:
    lists = [all_of([access]) for ad in ads if required(access := of_ad(ad))]
    first = lists[0] if lists else []
    return [rule for rule in first if denies(rule) and all(rule in its for its in lists)]


def _merge_into(
    found: list[MergedAd], place: int, others: Sequence[tuple[int, ClassAd]],
    denials: Sequence[str], *, views: bool,
) -> None:  # fmt: skip
    """Give an ad the values of others of one system about its queue.

    Several entries of a catalogue, such as the PanDA queues of one batch queue, have limits and VOs
    of their own: each is a view. If the queue publishes no rules, there are only these.
    """
    ad = found[place].ad
    if ad is None:
        return
    if not views:
        for _, other in others:
            ad = _with_values_of(ad, other, denials)
        found[place] = attrs.evolve(found[place], ad=ad)
        return
    for number, other in others:
        found[number] = MergedAd(_view(ad, other, denials), view=place)
    if not required(of_ad(ad)):
        found[place] = MergedAd(None)


def _vos(ad: ClassAd) -> frozenset[str] | None:
    """Return the VOs that the rules of an ad admit, and ``*`` for anybody; None without rules."""
    access = of_ad(ad)
    if not required(access):
        return None
    admitting = [rule for rule in all_of([access]) if not denies(rule)]
    return frozenset(vo_of(rule).lower() or "*" for rule in admitting)


def _share(first: ClassAd | None, second: ClassAd) -> bool:
    """Whether somebody may be admitted by both ads, as far as their rules are known."""
    ours, theirs = _vos(first) if first is not None else None, _vos(second)
    return ours is None or theirs is None or bool(ours & theirs) or "*" in ours | theirs


def _with_values_of(ad: ClassAd, other: ClassAd, denials: Iterable[str]) -> ClassAd:
    """Return an ad with the attributes that only another has, and denials beside its rules."""
    made = ad.copy()
    for name in other:
        if name not in made and name.lower() not in _OWN:
            made[name] = other.expr(name)
    lists = required(of_ad(made))
    if not lists and (access := of_ad(other)):
        made.update(access)
        made.pop(UNKNOWN, None)
    elif further := [*denials]:
        # Whom the computing element denies, it will deny whatever others say.
        before = made.eval(ALSO) if ALSO in made else []
        rules: list[Value] = ["ALL", *further]
        if rules not in lists:
            made[ALSO] = [*(before if isinstance(before, list) else [[]]), rules]
    known = texts(made.eval(ALSO_DESCRIBED)) if ALSO_DESCRIBED in made else []
    system = first_text(other, (SYSTEM,)) or "GLUE"
    also = [*known, system, *texts(other.eval(ALSO_DESCRIBED))]
    made[ALSO_DESCRIBED] = list[Value](dict.fromkeys(also))
    return made


def _view(ad: ClassAd, entry: ClassAd, denials: Sequence[str]) -> ClassAd:
    """Return an ad with the facts of one entry of a catalogue, for those whom both admit."""
    made = _with_values_of(ad, entry, denials)
    made.update(restricted(of_ad(made), [required(of_ad(entry))]))
    entry_name = (first_text(entry, ("CEid",)) or "").rpartition("/")[2]
    made["CEid"] = f"{first_text(ad, ('CEid',)) or ''}/{entry_name}"
    return made


CLOSED_BY: Final = "ClosedBy"
"""The attribute of a queue with the name of the registry that closed it."""


_ADDED: Final = (
    "GlueSiteUniqueID", "OSG_Resource", "OSG_Facility", "OSG_Site", "VOOwnership", "ServiceType",
    "Scopes",
)  # fmt: skip
"""The attributes that a queue takes over from registries that name its computing element."""


def with_registered(ads: Sequence[ClassAd]) -> list[ClassAd | None]:
    """Add to queues the values that registries have of their computing elements.

    Returns:
        The ads in their order; None for a computing element of which other ads are the queues. A
        queue of one that a registry has closed is closed.

    >>> closed = ClassAd(QueuesUnknown=True, GlueCEInfoHostName="ce", GlueCEStateStatus="Closed",
    ...                  InformationSystem="GOCDB")
    >>> left, queue = with_registered([closed, ClassAd(CEid="q", GlueCEInfoHostName="CE")])
    >>> left is None, queue["GlueCEStateStatus"], queue["ClosedBy"]
    (True, 'Closed', 'GOCDB')
    """
    named: dict[str, list[ClassAd]] = {}
    for ad in ads:
        if ad.eval(QUEUES_UNKNOWN) is True and (host := _host_of(ad)):
            its = named.setdefault(host, [])
            its += [ad] if len(its) < LIMITS.registered else []
    if not named:
        return list(ads)
    described = {_host_of(ad) for ad in ads if ad.eval(QUEUES_UNKNOWN) is not True}
    found: list[ClassAd | None] = []
    for ad in ads:
        host = _host_of(ad)
        if ad.eval(QUEUES_UNKNOWN) is True:
            found.append(None if host in described else ad)
        else:
            found.append(_with_values_of_registry(ad, named[host]) if host in named else ad)
    return found


def _host_of(ad: ClassAd) -> str:
    said = first_text(ad, ("GlueCEInfoHostName",))
    parts = None if said else split_id(first_text(ad, ("GlueCEUniqueID", "CEid")) or "")
    return (said or (parts[0].partition("/")[0].partition(":")[0] if parts else "")).lower()


def _with_values_of_registry(queue: ClassAd, registered: Iterable[ClassAd]) -> ClassAd:
    """Return a queue with the values that registries have of its computing element."""
    made = queue.copy()
    registered = list(registered)
    for ce in registered:
        for name in _ADDED:
            if name in ce and name not in made:
                made[name] = ce.expr(name)
    # A host may be named by several registries, or at several ports: one that is open is enough.
    if all(ce.eval("GlueCEStateStatus") == "Closed" for ce in registered):
        made["GlueCEStateStatus"] = "Closed"
        made[CLOSED_BY] = first_text(registered[0], (SYSTEM,)) or "a registry"
    return made
