"""A factory as a service: it is opened from its settings, runs cycles, and is closed.

Signals and printing belong to the command; a single cycle is in
:mod:`matchmaker.pilots.factory.cycle`.
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from matchmaker.classad import ClassAd
from matchmaker.delegation.control import load_control, own_options
from matchmaker.delegation.database import LedgerError, make_private_folder
from matchmaker.delegation.delegate import Delegator
from matchmaker.delegation.ledger import Ledger
from matchmaker.delegation.record import NoAnswer
from matchmaker.delegation.spool import SharedSpool
from matchmaker.pilots.factory.cycle import (
    FactoryContext,
    FactoryState,
    ask,
    beat,
    carry_out,
    cycle,
    last_look,
    noted,
)
from matchmaker.pilots.factory.services import Service, ServiceError, Services, TakenOverError
from matchmaker.pilots.factory.settings import FactorySettings, SettingsError
from matchmaker.pilots.factory.sources import PilotTarget
from matchmaker.pilots.policy.decision import rule
from matchmaker.pilots.policy.policy_ad import PolicyAd, Values

_LOG: Final = logging.getLogger(__name__)

_LOOK: Final = 2.0
"""Seconds until a wish to stop is seen, at most: a command that stops a service waits for it."""
_COMMANDS: Final = 60.0
"""Seconds that the slowest command of a batch system may take."""


def policy(settings: FactorySettings) -> PolicyAd:
    """Read the policy of a factory. Raises OSError, and SettingsError for an unsound one."""
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


def check(settings: FactorySettings) -> None:
    """Check a factory's file further than its form: the policy, the script and every queue's words.

    Options are checked as a submission checks them. A source that does not name its batch system is
    checked when it describes its queues. Raises OSError and SettingsError, which names the place.
    """
    policy(settings)
    script = Path(_script(settings)).read_bytes()
    tables = [("queue", n, queue.lrms, queue.words) for n, queue in enumerate(settings.queue, 1)]
    tables += [
        ("source", n, source.lrms or source.describe or "", source.words)
        for n, source in enumerate(settings.source, 1)
    ]
    for table, number, lrms, words in tables:
        if not lrms:
            continue
        place = f"[[{table}]] {number} lrms"
        try:
            control = load_control(lrms)
            place = "[pilot] script"
            own_options(control, script, {}, ())
            place = f"[[{table}]] {number} words"
            own_options(control, script, {}, words)
        except ValueError as error:
            said = str(error).removeprefix("the command line: ")
            raise SettingsError(f"{place}: {said}") from None


def _script(settings: FactorySettings) -> str:
    if not Path(settings.pilot.script).is_file():
        raise SettingsError(f"[pilot] script: {settings.pilot.script} is no file")
    return settings.pilot.script


def steady_clock() -> Callable[[], float]:
    """Make a clock in seconds since 1970 that follows no jump while this process lives."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()


def chosen(sites: tuple[str, ...], queues: tuple[str, ...]) -> Callable[[PilotTarget], bool]:
    """Make the test whether a service for some sites and queues, or for all, serves a queue."""
    if not sites and not queues:
        return lambda _: True
    return lambda place: place.site in sites or place.queue.key in queues


def serves(sites: tuple[str, ...], queues: tuple[str, ...]) -> str:
    """Return the sites and queues of a service in words.

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
    """Open a factory: yield its collaborators, and its row, which this process has taken.

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
    _script(settings)
    clock = steady_clock()
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
            settings=settings, rule=rule(terms), ledger=ledger, services=services,
            hold=Values(terms).pool("SilentHold", ClassAd()),
            delegator=delegator, clock=clock, new_key=new_key, serves=chosen(sites, queues),
        )  # fmt: skip
        yield context, service
    finally:
        services.close()
        ledger.close()


def new_key() -> str:
    """Make a key for a pilot: with it a job's name is as long as every batch system takes."""
    return "p" + "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(11))


def listed(services: Services, now: float) -> list[Service]:
    """Return every service; one whose process is gone is recorded as failed first."""
    for known in services.all():
        if known.state == "running" and dead(known, now):
            last = now - known.beat
            services.bury(
                known, now, f"its process is gone; its last heartbeat was {last:.0f} s ago"
            )
    return services.all()


def the_service(services: Services, name: str | None) -> str:
    """Return the name of the service that is meant. Raises ServiceError if that is not clear."""
    names = [one.name for one in services.all()]
    if name is None and len(names) == 1:
        return names[0]
    if name is None:
        raise ServiceError(f"name one of the services: {', '.join(names) or 'there are none'}")
    return name


# --- from the first cycle to the end --------------------------------------------------------------


def run(
    context: FactoryContext, service: Service, *, steady: Callable[[], float],
    wait: Callable[[float], str], said: Callable[[Service], None] = lambda _: None,
    most: int | None = None,
) -> Service:  # fmt: skip
    """Run cycles until the service is stopped; its row then says how it ended.

    Args:
        context: the factory's collaborators.
        service: its row, which this process has taken.
        steady: a clock that never jumps, in seconds.
        wait: waits a number of seconds, or less; returns why to stop, or nothing.
        said: is called with the row after each cycle.
        most: how many cycles at most. The last one ends when its pilots are handed over.

    Raises the errors of a cycle that are no passing trouble; the row says so.
    """
    state = FactoryState(service=service)
    left = most
    _LOG.info("service started", extra={"service": service.name, "serves": service.serves})
    try:
        while True:
            begun = steady()
            try:
                state = cycle(context, state)
                said(state.service)
            except LedgerError as error:
                state = _failed(state, error)
                said(state.service)
            left = None if left is None else left - 1
            beaten = steady()
            while (rest := begun + context.settings.cycle - steady()) > 0:
                if left == 0 and not state.submissions and not state.cancels:
                    break
                try:
                    state, due = carry_out(context, state)
                    if steady() - beaten >= min(_LOOK, context.settings.beat):
                        state = beat(context, state)
                        beaten = steady()
                except LedgerError as error:
                    # What was reserved is decided anew in the next cycle.
                    state, due = _failed(state, error), math.inf
                if state.service.wish:
                    return _close(context, state, "stopped", "stopped by command")
                if reason := wait(min(rest, context.settings.beat, _LOOK, due)):
                    return _close(context, state, "stopped", reason)
            if left == 0:
                reason = "it made as many cycles as it should"
                return _close(context, state, "stopped", reason)
            if reason := wait(0):
                return _close(context, state, "stopped", reason)
    except TakenOverError:
        raise
    except BaseException as error:
        _LOG.exception("service failed", extra={"service": service.name})
        _close(context, state, "failed", f"{type(error).__name__}: {error}")
        raise


def _failed(state: FactoryState, error: LedgerError) -> FactoryState:
    """Note that the ledger could not be read or written; the next cycle tries again."""
    return noted(_stopped(state), troubles=[str(error)])


def _stopped(state: FactoryState) -> FactoryState:
    """Drop the pilots to be handed over or cancelled, and the troubles so far."""
    facts = {**state.service.facts, "troubles": []}
    service = attrs.evolve(state.service, facts=facts)
    return attrs.evolve(state, service=service, submissions=(), cancels=())


def end_pilots(context: FactoryContext, service: Service) -> Service:
    """End the free pilots of a service that does not run, which this process has taken."""
    state = FactoryState(service=attrs.evolve(service, wish="end"))
    return _close(context, state, "stopped", "its pilots were ended by command")


def _close(context: FactoryContext, state: FactoryState, kind: str, reason: str) -> Service:
    """Write down the end of a service; with the wish ``end``, its free pilots end first."""
    service = state.service
    context.services.release(service)
    if service.wish == "end":
        mine = [row for row in context.services.live() if row.service == service.name]
        # All are asked at once, so that none takes another job; queues are asked at their rates.
        asked, troubles = ask(context, mine)
        state = attrs.evolve(_stopped(state), cancels=tuple(asked))
        while state.cancels:
            state, due = carry_out(context, state)
            if state.cancels:
                # A queue may take a request in many minutes: the service shows that it lives.
                context.sleep(min(due, context.settings.beat))
                state = beat(context, state)
        troubles += state.service.facts.get("troubles", ())
        # Who asks later shall not be shown pilots that are gone.
        state = last_look(context, state)
        reason = f"{reason}; {len(asked)} of {len(mine)} pilots were asked to end"
        reason = "; ".join((reason, *troubles[:3]))
    service = attrs.evolve(
        state.service, state=kind, ended=context.clock(), beat=context.clock(),
        reason=reason[:500], wish="",
    )  # fmt: skip
    context.services.save(service)
    _LOG.info("service ended", extra={"service": service.name, "reason": service.reason})
    return service
