"""Opening a factory: from its settings to what its cycles work with, and its row in the list.

Signals and printing belong to the command; what a cycle does is in
:mod:`matchmaker.pilots.factory.cycle`.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from matchmaker.classad import ClassAd
from matchmaker.delegation.database import make_private_folder
from matchmaker.delegation.delegate import Delegator
from matchmaker.delegation.ledger import Ledger
from matchmaker.delegation.record import NoAnswer
from matchmaker.delegation.spool import SharedSpool
from matchmaker.pilots.factory.cycle import FactoryContext
from matchmaker.pilots.factory.services import Service, ServiceError, Services
from matchmaker.pilots.factory.settings import FactorySettings, SettingsError
from matchmaker.pilots.factory.sources import PilotTarget
from matchmaker.pilots.policy.decision import rule
from matchmaker.pilots.policy.policy_ad import TERMS, PolicyAd

_COMMANDS = 60.0
"""How long the slowest command of a batch system may take, in seconds."""


def policy(settings: FactorySettings) -> PolicyAd:
    """The policy of a factory. Raises OSError, and SettingsError for one that is not sound."""
    terms = settings.policy
    if terms.file is not None and terms.ad is not None:
        raise SettingsError("[policy] found file and ad; give one")
    try:
        if terms.file is not None:
            made = PolicyAd(Path(terms.file).read_text("utf-8"))
        else:
            made = PolicyAd() if terms.ad is None else PolicyAd(terms.ad)
        problems = made.problems()
    except ValueError as error:
        raise SettingsError(f"[policy] {str(error).splitlines()[0]}") from None
    if problems:
        raise SettingsError(f"[policy] {problems[0]}")
    return made


def hold(terms: PolicyAd) -> float:
    """Return for how many seconds the jobs of a source that falls silent count as they were."""
    return terms.value(TERMS["silenthold"], ClassAd(Free=0, Pilots=0))


def steady() -> Callable[[], float]:
    """A clock in seconds since 1970 that follows no jump while this process lives."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()


def chosen(sites: tuple[str, ...], queues: tuple[str, ...]) -> Callable[[PilotTarget], bool]:
    """Whether a service for some sites and queues submits to a queue; for none of both: to all."""
    if not sites and not queues:
        return lambda _: True
    return lambda place: place.site in sites or place.queue.key in queues


def serves(sites: tuple[str, ...], queues: tuple[str, ...]) -> str:
    """The same in words.

    >>> serves((), ()), serves(("cern",), ("q1", "q2"))
    ('all sites', 'site cern, queue q1, queue q2')
    """
    words = [*(f"site {site}" for site in sites), *(f"queue {queue}" for queue in queues)]
    return ", ".join(words) or "all sites"


def dead(known: Service, now: float) -> bool:
    """Whether the process of a service is gone: it is not on this machine, or silent for long."""
    if known.host == socket.gethostname():
        try:
            os.kill(known.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
    return now - known.beat > known.patience


@contextmanager
def opened(
    settings: FactorySettings, sites: tuple[str, ...] = (), queues: tuple[str, ...] = (), *,
    name: str | None = None, file: str = "",
) -> Iterator[tuple[FactoryContext, Service]]:  # fmt: skip
    """What a factory works with, and its row, which this process has taken.

    Args:
        settings: its file.
        sites: the sites that it submits to; with no queues either: all.
        queues: the queues that it submits to.
        name: of the service; by default that of the settings.
        file: the path of the settings, for the list of services.

    Raises:
        OSError: a file cannot be read.
        SettingsError: the policy is not sound.
        ServiceError: the service is running.
        LedgerError: the ledger cannot be opened.
    """
    terms = policy(settings)
    if not Path(settings.pilot.script).is_file():
        raise SettingsError(f"[pilot] script: {settings.pilot.script} is no file")
    clock = steady()
    ledger = Ledger(settings.ledger)
    services = Services(settings.ledger)

    made: dict[str, Delegator] = {}

    def delegator(cluster: str) -> Delegator:
        if cluster not in made:
            system, _, which = cluster.partition("@")
            made[cluster] = Delegator(
                ledger, system, settings.spool or "", cluster=which or None,
                deadlines=settings.deadlines, owner=f"{called}@{socket.gethostname()}",
                parallel=4, clock=clock,
            )  # fmt: skip
        return made[cluster]

    called = name or settings.name
    try:
        if settings.pilot.reports is not None:
            # Pilots leave their ads there, and find their tokens.
            make_private_folder(Path(settings.pilot.reports))
        # A look at a batch system without pilots needs the spool too.
        ready = SharedSpool(settings.spool or f"{settings.ledger}.spool").ready()
        if isinstance(ready, NoAnswer):
            raise SettingsError(f"the spool cannot be used: {ready.reason}")
        now = clock()
        service = services.begin(
            Service(
                name=called, token=secrets.token_hex(8), serves=serves(sites, queues), file=file,
                host=socket.gethostname(), pid=os.getpid(), started=now, beat=now,
                patience=3 * settings.beat + _COMMANDS,
            ),
            lambda known: dead(known, now),
        )  # fmt: skip
        context = FactoryContext(
            settings=settings, rule=rule(terms), hold=hold(terms), ledger=ledger, services=services,
            delegator=delegator, clock=clock, new_key=new_key, serves=chosen(sites, queues),
        )  # fmt: skip
        yield context, service
    finally:
        services.close()
        ledger.close()


def new_key() -> str:
    """A key for a pilot: as long a name as every batch system takes."""
    return "p" + "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(11))


def listed(services: Services, now: float) -> list[Service]:
    """Every service; one whose process is gone without a word is recorded as failed first."""
    for known in services.all():
        if known.state == "running" and dead(known, now):
            last = now - known.beat
            services.bury(
                known, now, f"its process is gone; its last heartbeat was {last:.0f} s ago"
            )
    return services.all()


def the_service(services: Services, name: str | None) -> str:
    """The name of the service that is meant. Raises ServiceError where that is not clear."""
    names = [one.name for one in services.all()]
    if name is None and len(names) == 1:
        return names[0]
    if name is None:
        raise ServiceError(f"name one of the services: {', '.join(names) or 'there are none'}")
    return name
