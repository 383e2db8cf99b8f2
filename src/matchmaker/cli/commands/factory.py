"""``classad factory``: a service that submits pilots where jobs wait for them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from matchmaker.cli import transfers
from matchmaker.cli.group import Subcommands
from matchmaker.cli.options import FiniteRange, logs
from matchmaker.cli.output import complaint, count, print_json, printable, show, table, warn

if TYPE_CHECKING:
    from matchmaker.pilots.factory.services import Service, Services
    from matchmaker.pilots.factory.settings import FactorySettings


@click.group("factory", cls=Subcommands)
def factory_command() -> None:
    """Keep pilots where jobs wait for them."""


def _settings(file: str) -> FactorySettings:
    from matchmaker.pilots.factory.settings import read_settings

    return read_settings(Path(file))


@factory_command.command("run")
@click.argument("file")
@click.option("--site", "sites", multiple=True, metavar="SITE", help="Submit to this site.")
@click.option("--queue", "queues", multiple=True, metavar="QUEUE", help="Submit to this queue.")
@click.option("--name", metavar="NAME", help="The service's name; by default the file's.")
@click.option("--cycles", metavar="NUMBER", type=click.IntRange(min=1),
              help="Stop after this number of cycles.")  # fmt: skip
@click.option(
    "--check", is_flag=True, help="Check the file, the policy and the queues' options, and end."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for each cycle on a line.")
@logs
def run(
    *, file: str, sites: tuple[str, ...], queues: tuple[str, ...], name: str | None,
    cycles: int | None, check: bool, as_json: bool,
) -> int:  # fmt: skip
    """Run a factory: read the sources in FILE, decide, submit and end pilots, every cycle.

    Without --site and --queue it submits to all queues. It runs until classad factory stop, an
    interrupt, or a failure; its pilots stay, and the next run goes on with them.
    """
    settings = _settings(file)
    from matchmaker.pilots.factory import running

    if check:
        running.check(settings)
        print(f"{file}: all is well")
        return 0
    with running.opened(settings, sites, queues, name=name, file=str(Path(file).absolute())) as (
        means,
        service,
    ):
        last = [service]

        def said(now: Service) -> None:
            last[0] = now
            _say(now, as_json=as_json)

        with _exposed(settings, last), _stopping() as stopped:
            ended = running.run(
                means, service, steady=time.monotonic, wait=stopped, said=said, most=cycles
            )
    warn(f"{ended.name}: {ended.reason}")
    return 0


@contextmanager
def _exposed(settings: FactorySettings, last: list[Service]) -> Iterator[None]:
    if settings.metrics is None:
        yield
        return
    from matchmaker.pilots.factory.metrics import serve

    stop = serve(settings.metrics.port, lambda: last[0])
    try:
        yield
    finally:
        stop()


@contextmanager
def _stopping() -> Iterator[Any]:
    """A function that waits some seconds, and gives why to stop, once a signal asks for it."""
    asked = threading.Event()
    names: list[str] = []

    def ask(number: int, _: FrameType | None) -> None:
        names.append(signal.Signals(number).name)
        asked.set()

    def wait(seconds: float) -> str:
        return f"stopped by {names[0]}" if asked.wait(seconds) and names else ""

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(service: Service, *, as_json: bool) -> None:
    facts = service.facts
    if as_json:
        print_json({"service": service.name, "cycle": service.cycles, **facts})
        return
    states = facts.get("pilots", {})
    shown = ", ".join(f"{number} {state}" for state, number in states.items() if number)
    waiting = facts.get("waiting")
    demand = "demand unknown" if waiting is None else count(waiting, "waiting job")
    print(printable(f"{service.name} {service.cycles}: {demand}; pilots: {shown or 'none'}"),
          flush=True)  # fmt: skip
    for queue, number, reason in facts.get("submissions", ()):
        print(printable(f"  {queue}: +{number}: {reason}"), flush=True)
    for pilot, reason in facts.get("ends", ()):
        print(printable(f"  {pilot} ends: {reason}"), flush=True)
    for pilot, takes, reason in facts.get("lends", ()):
        print(printable(f"  {pilot} takes other work ({takes}): {reason}"), flush=True)
    for trouble in (*facts.get("silent", ()), *facts.get("troubles", ()), *facts.get("notes", ())):
        warn(transfers.short(trouble))


# --- what others see ------------------------------------------------------------------------------

_LEDGER = click.option(
    "--ledger", metavar="PLACE", envvar="CLASSAD_LEDGER",
    help="The ledger's file or URL; by default in the user's own state folder.",
)  # fmt: skip


@contextmanager
def _services(ledger: str | None) -> Iterator[Services]:
    from matchmaker.pilots.factory.services import Services

    place = transfers.ledger_at(transfers.LedgerOptions(ledger, None))
    opened = Services(place)
    transfers.say_exposed(place)
    try:
        yield opened
    finally:
        opened.close()


@factory_command.command("status")
@click.argument("name", required=False)
@_LEDGER
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(*, name: str | None, ledger: str | None, as_json: bool) -> int:
    """Show the services of a ledger: pilots, decisions, and sites that are held back.

    Exit status 1 if a service has failed, or there is none.
    """
    with _services(ledger) as services:
        from matchmaker.pilots.factory.running import listed

        now = time.time()
        found = [one for one in listed(services, now) if name in {None, one.name}]
        if name is not None and not found:
            services.wish(name, "")
        if as_json:
            print_json([_data(one) for one in found])
        else:
            _show(found, now)
    return 1 if not found or any(one.state == "failed" for one in found) else 0


def _data(service: Service) -> dict[str, Any]:
    import attrs

    data = attrs.asdict(service)
    del data["token"], data["memory"]
    return data


def _show(services: list[Service], now: float) -> None:
    if not services:
        print("no services")
        return
    states = ("queued", "starting", "idle", "busy", "draining")
    rows = [
        [one.name, one.state, one.serves, f"{one.host} {one.pid}",
         f"{transfers.span(max(0.0, now - one.beat))} ago", one.cycles, one.submitted,
         *(one.facts.get("pilots", {}).get(state, 0) for state in states), one.reason]
        for one in services
    ]  # fmt: skip
    columns = ["service", "state", "serves", "process", "heartbeat", "cycles", "submitted",
               *states, "why"]  # fmt: skip
    show(table(columns, rows, right=tuple(range(4, 12)), whole=(0, 1)))
    for one in services:
        facts = one.facts
        held = [queue for queue in facts.get("queues", ()) if queue["held"]]
        for queue in held:
            print(printable(f"{one.name}: {queue['queue']} is held back: {queue['held']}"))
        for queue, number, reason in facts.get("submissions", ()):
            print(printable(f"{one.name}: {queue}: +{number}: {reason}"))
        for kind, jobs, reason in facts.get("waits", ()):
            print(printable(f"{one.name}: {count(jobs, 'job')} of {kind}: {reason}"))
        for said in ("silent", "notes", "troubles"):
            for line in facts.get(said, ()):
                print(printable(f"{one.name}: {transfers.short(line)}"))


@factory_command.command("why")
@click.argument("name", metavar="QUEUE|JOB")
@_LEDGER
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def why(*, name: str, ledger: str | None, as_json: bool) -> int:
    """Say why pilots were submitted or not, to a queue or for a job, in the last cycle.

    The answer is from the ledger, while the factory runs and after. Exit status 1 if no service
    knows a queue or a job of this name.
    """
    from matchmaker.pilots.factory.metrics import reasons, silence
    from matchmaker.pilots.factory.running import listed

    with _services(ledger) as services:
        now = time.time()
        known = listed(services, now)
        found = reasons(known, services.counts(), lambda one: services.job(one, name), name, now)
    if as_json:
        import attrs

        print_json([attrs.asdict(one) for one in found])
    else:
        for one in found:
            print(printable(one.sentence))
    if not found:
        queues = [q["queue"] for one in known for q in one.facts.get("queues", ())]
        there = ", ".join(dict.fromkeys(queues[:10])) or "none"
        warn(f"no service knows a queue or a job {name!r}; queues are: {there}")
        for service in known:
            if silent := silence(service):
                warn(f"{service.name}: {silent}; the job may be one of theirs")
    return 0 if found else 1


@factory_command.command("stop")
@click.argument("name", required=False)
@_LEDGER
@click.option(
    "--end-pilots", is_flag=True,
    help="Cancel its queued pilots, and ask the others to end after their jobs.",
)  # fmt: skip
@click.option("--wait", "seconds", metavar="SECONDS", type=FiniteRange(min=0, max=86_400),
              default=60.0, show_default=True, help="How long to wait for its end.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def stop(
    *, name: str | None, ledger: str | None, end_pilots: bool, seconds: float, as_json: bool
) -> int:
    """Stop a service after its cycle; with --end-pilots one that has stopped, too.

    Exit status 1 if it has not stopped in time, or its pilots cannot be ended.
    """
    with _services(ledger) as services:
        from matchmaker.pilots.factory.running import listed, the_service

        called = the_service(services, name)
        known = next((one for one in listed(services, time.time()) if one.name == called), None)
        if known is not None and known.state != "running" and end_pilots:
            return _end_pilots(known, as_json=as_json)
        services.wish(called, "end" if end_pilots else "stop")
        end = time.monotonic() + seconds
        while True:
            found = next(one for one in listed(services, time.time()) if one.name == called)
            stopped = found.state != "running"
            if stopped or time.monotonic() >= end:
                break
            time.sleep(0.2)
    if as_json:
        print_json(_data(found))
    elif stopped:
        print(printable(f"{called}: {found.state}: {found.reason}"))
    if not stopped:
        warn(f"{called} has not stopped yet; it does after its cycle")
    return 0 if stopped else 1


def _end_pilots(known: Service, *, as_json: bool) -> int:
    """End the free pilots of a service that does not run, by the settings it ran with."""
    try:
        settings = _settings(known.file)
    except (OSError, ValueError) as error:
        warn(
            f"{known.name} does not run, and its pilots were not ended: its settings cannot be"
            f" read: {complaint(error)}; classad cancel KEY ends each, classad jobs lists them"
        )
        return 1
    from matchmaker.pilots.factory import running

    with running.opened(settings, (), (), name=known.name, file=known.file) as (means, service):
        ended = running.end_pilots(means, service)
        left = [row.key for row in means.services.live() if row.service == known.name]
    if as_json:
        print_json(_data(ended))
    else:
        print(printable(f"{ended.name}: {ended.state}: {ended.reason}"))
    if left:
        warn(f"{count(len(left), 'pilot')} end after their jobs: {' '.join(left[:5])}")
    return 0


@factory_command.command("list-queues")
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_queues(*, file: str, as_json: bool) -> int:
    """List the queues that a factory of FILE would submit to, and why not to the others.

    Exit status 1 if a source is silent, or no queue is open.
    """
    settings = _settings(file)
    from matchmaker.pilots.factory.sources import SilentError, described, written

    places = {queue.name: written(settings, queue) for queue in settings.queue}
    silent = []
    for source in settings.source:
        try:
            for place in described(settings, source):
                places.setdefault(place.queue.key, place)
        except SilentError as error:
            silent.append(str(error))
            warn(f"silent: {error}")
    if as_json:
        print_json([
            {"queue": name, "site": p.site, "system": p.system, "words": list(p.words),
             "wall": p.queue.wall, "max_pilots": p.queue.max_pilots,
             "max_queued": p.queue.max_queued, "closed": p.queue.closed}
            for name, p in places.items()
        ])  # fmt: skip
    else:
        rows = [
            [name, p.site, p.system, transfers.span(p.queue.wall), " ".join(p.words),
             p.queue.closed]
            for name, p in places.items()
        ]  # fmt: skip
        columns = ["queue", "site", "batch system", "wall", "options", "closed"]
        show(table(columns, rows, right=(3,), whole=(0, 1, 2)))
    return 1 if silent or all(place.queue.closed for place in places.values()) else 0
