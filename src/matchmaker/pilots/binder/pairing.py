"""Which client gets which pilot's free slot: those that wait, in the order of their arrival.

A slot and a client match both ways; of the slots that match the client gets the one that it ranks
highest, of equal ones the first by key. What becomes of a pair is in ``moves``.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Final

from matchmaker.classad import ClassAd
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.quoting import printable
from matchmaker.matching.pool import Pool

APPLICATION: Final = "Application"
"""The attribute of a client's ad that names the application that it wants."""
APPLICATIONS: Final = "Applications"
"""The attribute of a slot's ad with the list of applications that its pilot has."""
_AT_FIRST: Final = 16
_MORE: Final = 8
"""How many slots are ranked for a kind of clients, and by what more when these are taken."""
_MOST_NAMES: Final = 8
_MOST_REASON: Final = 1000
_MOST_ADVICE: Final = 2


def pair(slots: Pool, waiting: Mapping[str, ClassAd]) -> dict[str, str]:
    """The slots of clients that get one now.

    Args:
        slots: the ads of the free slots, which stay in the pool.
        waiting: the clients' ads by their ids, in the order of their arrival.

    Clients whose ads are equal in all that matters are matched once. No ad raises.

    >>> slots = Pool([ClassAd(Name="s1", Cpus=2), ClassAd(Name="s2", Cpus=8)])
    >>> from matchmaker.classad import parse_ad
    >>> large = parse_ad("[ Requirements = TARGET.Cpus >= 2; Rank = TARGET.Cpus ]")
    >>> pair(slots, {"c1": large, "c2": large, "c3": large})
    {'c1': 's2', 'c2': 's1'}
    """
    now = slots.snapshot()
    taken: set[str] = set()
    ranked: dict[Hashable, tuple[Sequence[str], int]] = {}
    pairs: dict[str, str] = {}
    for id_, ad in waiting.items():
        if len(taken) == len(now):
            break
        kind = now.cluster(ad)
        keys, place = ranked.get(kind) or (now.top(ad, _AT_FIRST).keys, 0)
        while place < len(keys) and keys[place] in taken:
            place += 1
            if place == len(keys) < len(now):
                keys = now.top(ad, _MORE * len(keys)).keys
        ranked[kind] = keys, place
        if place < len(keys):
            pairs[id_] = keys[place]
            taken.add(keys[place])
    return pairs


def why_waiting(pilots: Pool, ad: ClassAd) -> str:
    """Why a client has no pilot yet, in words, at most 1,000 characters.

    Args:
        pilots: the ads of all slots, of busy ones too.
        ad: the client's ad.

    >>> slots = Pool([ClassAd(Name="s1", Applications=["render"])])
    >>> why_waiting(slots, ClassAd(Application="blast"))
    'no pilot has the application blast; there are: render'
    >>> why_waiting(slots, ClassAd(Application="Render"))
    'all 1 slots that match are taken; the first that is free is yours'
    >>> why_waiting(Pool(), ClassAd())
    'no pilot is connected'
    """
    if not len(pilots):
        return "no pilot is connected"
    wanted = ad.eval(APPLICATION)
    if isinstance(wanted, str):
        there = applications(pilots)
        if ascii_fold(wanted) not in map(ascii_fold, there):
            names = ", ".join(sorted(there)[:_MOST_NAMES]) or "none"
            more = f" and {len(there) - _MOST_NAMES} more" if len(there) > _MOST_NAMES else ""
            said = f"no pilot has the application {wanted}; there are: {names}{more}"
            return printable(said)[:_MOST_REASON]
    matching = len(pilots.match(ad))
    if matching:
        return f"all {matching} slots that match are taken; the first that is free is yours"
    found = pilots.explain(ad)
    parts = [found.summary(), *map(str, found.advice()[:_MOST_ADVICE])]
    return printable("; ".join(" ".join(part.split()) for part in parts))[:_MOST_REASON]


def applications(pilots: Pool) -> Collection[str]:
    """The applications that the pilots have.

    >>> sorted(applications(Pool([ClassAd(Name="a", Applications=["x", "y"]), ClassAd(Name="b")])))
    ['x', 'y']
    """
    found: set[str] = set()
    for lists in set(map(_names, pilots.snapshot().values(APPLICATIONS))):
        found.update(lists)
    return found


def _names(value: object) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()
