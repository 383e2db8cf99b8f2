"""Which client gets which free slot; clients are served in the order of their arrival.

Slot and client must match both ways. Of the slots that match, the client gets the one that it ranks
highest; of equal ones, the first by key. ``moves`` says what becomes of a pair.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Final

from matchmaker.classad import ClassAd
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.quoting import printable
from matchmaker.matching.pool import Pool
from matchmaker.pilots.binder.ads import asked

APPLICATION: Final = "Application"
"""The attribute of a client's ad that names the application that it wants."""
APPLICATIONS: Final = "Applications"
"""The attribute of a slot's ad with the list of applications that its pilot has."""
_AT_FIRST: Final = 16
_MORE: Final = 8
"""How many slots are ranked for a kind of clients, and by what more when these are taken."""
_OWN: Final = "the job's "
"""What a reason begins with where it is the client's ad that took too much."""
_MOST_NAMES: Final = 8
_MOST_REASON: Final = 1000
_MOST_ADVICE: Final = 2
_LONG_SECONDS: Final = 0.2
"""An ad that took so long to match is not explained: that takes many times as long."""


def pair(
    slots: Pool, waiting: Iterable[tuple[str, ClassAd]],
    refuse: Callable[[str, str], object] = lambda _, __: None,
) -> dict[str, str]:  # fmt: skip
    """The slots of clients that get one now.

    Args:
        slots: the ads of the free slots, which stay in the pool.
        waiting: the clients' ids and ads, in the order of their arrival. No more are asked for
            when no slot is left.
        refuse: called with the id of a client that gets none because its own ad takes more steps
            than the pool's limits give it, and with that in words.

    Clients whose ads are equal in all that matters are matched once. No ad raises.

    >>> slots = Pool([ClassAd(Name="s1", Cpus=2), ClassAd(Name="s2", Cpus=8)])
    >>> from matchmaker.classad import parse_ad
    >>> large = parse_ad("[ Requirements = TARGET.Cpus >= 2; Rank = TARGET.Cpus ]")
    >>> pair(slots, [("c1", large), ("c2", large), ("c3", large)])
    {'c1': 's2', 'c2': 's1'}
    """
    now = slots.snapshot()
    taken: set[str] = set()
    ranked: dict[Hashable, tuple[Sequence[str], int, str]] = {}
    pairs: dict[str, str] = {}
    for id_, ad in waiting if len(now) else ():
        kind = now.cluster(ad)
        if kind not in ranked:
            best = now.top(ad, _AT_FIRST)
            ranked[kind] = best.keys, 0, "" if best.keys else best.error or ""
        keys, place, error = ranked[kind]
        if error.startswith(_OWN):
            refuse(id_, error)
        while place < len(keys) and keys[place] in taken:
            place += 1
            if place == len(keys) < len(now):
                keys = now.top(ad, _MORE * len(keys)).keys
        ranked[kind] = keys, place, error
        if place < len(keys):
            pairs[id_] = keys[place]
            taken.add(keys[place])
            if len(taken) == len(now):
                break
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
    wanted = asked(ad, APPLICATION)
    if isinstance(wanted, str):
        there = applications(pilots)
        if ascii_fold(wanted) not in map(ascii_fold, there):
            names = ", ".join(sorted(there)[:_MOST_NAMES]) or "none"
            more = f" and {len(there) - _MOST_NAMES} more" if len(there) > _MOST_NAMES else ""
            said = f"no pilot has the application {wanted}; there are: {names}{more}"
            return printable(said)[:_MOST_REASON]
    begun, found = time.thread_time(), pilots.match(ad)
    if time.thread_time() - begun > _LONG_SECONDS:
        return f"{len(found)} of {len(pilots)} slots match; its ad takes long to match: simplify it"
    if found:
        return f"all {len(found)} slots that match are taken; the first that is free is yours"
    why = pilots.explain(ad)
    parts = [why.summary(), *map(str, why.advice()[:_MOST_ADVICE])]
    return printable("; ".join(" ".join(part.split()) for part in parts))[:_MOST_REASON]


def applications(pilots: Pool) -> Collection[str]:
    """The applications that the pilots have.

    >>> sorted(applications(Pool([ClassAd(Name="a", Applications=["x", "y"]), ClassAd(Name="b")])))
    ['x', 'y']
    """
    return {
        name
        for names in pilots.snapshot().values(APPLICATIONS) if isinstance(names, list)
        for name in names if isinstance(name, str)
    }  # fmt: skip
