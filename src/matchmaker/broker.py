"""Global matchmaking: which computing elements (queues) may take a job, and which is best.

The rules are the gLite broker's: both sides must agree, a queue whose rank is not a number is left
out, an ad past its expiry is not believed. Where the ads come from is ``glue``'s affair.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

import attrs

from matchmaker.classad import ClassAd, Expr, parse_expr
from matchmaker.classad.ad import first_text
from matchmaker.glue import Glue, expires, unwrap
from matchmaker.matching.names import RANK
from matchmaker.matching.selection import Refusal, Selection, select

DEFAULT_RANK: Final = "-other.GlueCEStateEstimatedResponseTime"

NAMES: Final = ("CEid", "GlueCEUniqueID", "id", "Name")
"""The attributes that may name a computing element, the first that it has."""


def choose(
    job: ClassAd,
    ces: Glue | Iterable[ClassAd],
    at: datetime | None = None,
    tie: random.Random | None = None,
) -> Selection:
    """Filters and ranks computing elements for a job, with a reason for each that is refused.

    ``ces`` is a GLUE snapshot, or ads of computing elements, also in the wrapping of an information
    system (``[id; update_time; expiry_time; info = […]]``). ``at`` is the time by which an ad must
    not have expired, now if not given. A job without Requirements accepts what accepts it; without
    Rank it prefers the shortest estimated response time. Equal ranks go by name, or by chance where
    ``tie`` is given. (gLite WMS, matchmaking; see docs/glue.md.)

    >>> from matchmaker import parse_ad
    >>> job = parse_ad("[ Requirements = other.FreeCPUs > 0; Rank = other.FreeCPUs ]")
    >>> found = choose(job, [parse_ad('[ CEid = "a"; FreeCPUs = 3 ]'), parse_ad('[ CEid = "b" ]')])
    >>> found.chosen.name, found.refused[0].reason
    ('a', 'the job refuses: other.FreeCPUs > 0 is undefined (FreeCPUs = undefined)')
    """
    if RANK not in job:
        job = job.copy()
        job[RANK] = _default_rank()
    now = at if at is not None else datetime.now(UTC)
    ads = ces.computing_elements() if isinstance(ces, Glue) else ces
    current: list[tuple[str, ClassAd]] = []
    expired: list[Refusal] = []
    for name, ad in named(ads):
        end = expires(ad)
        if end is not None and end < now:
            expired.append(
                Refusal(name, ad, "expiry", f"its ad expired at {end:%Y-%m-%dT%H:%M:%SZ}")
            )
        else:
            current.append((name, ad))
    found = select(job, current, tie=tie)
    return attrs.evolve(found, refused=(*found.refused, *expired))


def named(ads: Iterable[ClassAd]) -> Iterator[tuple[str, ClassAd]]:
    """Each computing element, out of its wrapping, with the name that it goes by."""
    for number, wrapped in enumerate(ads, 1):
        ad = unwrap(wrapped)
        yield first_text(ad, NAMES) or f"CE {number}", ad


def _default_rank() -> Expr:
    return parse_expr(DEFAULT_RANK)
