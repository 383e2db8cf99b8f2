"""What a factory works with, and what one cycle leaves to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from matchmaker.classad import ClassAd
from matchmaker.pilots.factory.services import Row, Service, Services
from matchmaker.pilots.factory.sources import Place
from matchmaker.pilots.policy.snapshot import Decision, PilotSnapshot

if TYPE_CHECKING:
    from matchmaker.delegation.delegate import Delegator
    from matchmaker.delegation.ledger import Ledger
    from matchmaker.pilots.factory.settings import Settings


@attrs.frozen(slots=True, kw_only=True)
class Means:
    """What a factory works with.

    Attributes:
        settings: its file.
        rule: the decision, from a snapshot and a seed.
        ledger: the records of pilots as jobs.
        services: the factory's own tables.
        delegator: who hands pilots over to a batch system, by its name in the ledger.
        clock: gives the time in seconds since 1970, and does not jump while the process lives.
        new_key: makes the keys of pilots.
        serves: whether pilots are submitted to a queue by this service.
    """

    settings: Settings
    rule: Callable[[PilotSnapshot, int], Decision]
    ledger: Ledger
    services: Services
    delegator: Callable[[str], Delegator]
    clock: Callable[[], float]
    new_key: Callable[[], str]
    serves: Callable[[Place], bool] = lambda _: True


@attrs.frozen(slots=True, kw_only=True)
class Known:
    """What a cycle leaves to the next in the same process; a restart begins with the first.

    Attributes:
        service: the service's row.
        places: the queues by source, and when each source last answered.
        first_seen: when each job was first seen; None before the first answer.
        over: the pilots that ended and whose results were not taken yet; None before the first
            look, which finds those that an earlier process left.
        ads: the ads of the last snapshot by their text: equal ones are matched once.
    """

    service: Service
    places: Mapping[int, tuple[float, tuple[Place, ...]]] = attrs.Factory(dict)
    first_seen: Mapping[str, float] | None = None
    over: tuple[Row, ...] | None = None
    ads: Mapping[str, ClassAd] = attrs.Factory(dict)


def beat(means: Means, known: Known, **changes: Any) -> Known:
    """Writes down that the service lives, with what has changed of it."""
    service = attrs.evolve(known.service, beat=means.clock(), **changes)
    return attrs.evolve(known, service=attrs.evolve(service, wish=means.services.save(service)))
