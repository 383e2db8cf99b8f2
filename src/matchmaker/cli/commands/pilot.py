"""``classad pilot`` and ``store``: run jobs on this node; show the storage they come from."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from matchmaker.cli.group import Subcommands
from matchmaker.cli.options import FiniteRange, logs
from matchmaker.cli.output import count, plain, print_json, printable, show, table, warn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matchmaker import ClassAd
    from matchmaker.pilots.node.isolation import Accounts
    from matchmaker.pilots.node.pilot import PilotAgent
    from matchmaker.pilots.node.slots import SitePolicy
    from matchmaker.pilots.store.protocol import SharedStore
    from matchmaker.pilots.store.worker import Worker


_APPLICATION = re.compile(r"([A-Za-z0-9_.-]{1,64})=(.+)\Z", re.DOTALL)
_POLICY = ("Start", "Suspend", "Continue", "Preempt", "Rank")


@click.command("pilot")
@click.option("--binder", "at", metavar="HOST:PORT", envvar="CLASSAD_BINDER",
              help="Where the binder is.")  # fmt: skip
@click.option("--store", "store_url", metavar="URL",
              help="Without a binder: claim work on this storage, a directory or s3://, gs://, az://,"
              " sftp://, davs://; of the other options --tasks, --node, --failures, --slots,"
              " --idle, --wall, --dir, --report count."
)  # fmt: skip
@click.option("--tasks", "tasks_file", metavar="FILE",
              help="With --store: put this list of tasks into the store as tasks.csv, unless it is"
              " there; - reads standard input.")  # fmt: skip
@click.option("--node", metavar="NAME",
              help="With --store: by which failures are counted; this machine by default."
)  # fmt: skip
@click.option("--failures", metavar="NUMBER", type=click.IntRange(0), default=10, show_default=True,
              help="With --store: end after so many parameters in a row failed here and on no other"
              " node; 0 for never.")  # fmt: skip
@click.option("--token", "token_file", metavar="FILE", envvar="CLASSAD_BINDER_TOKEN",
              help="The file with the pilot's token, which is removed when it is used; - for"
              " standard input.")  # fmt: skip
@click.option("--mix-owners", "mixed", is_flag=True,
              help="Take jobs of several owners, who then share this account. By default the first"
              " job's owner gets the pilot, unless its token names owners."
)  # fmt: skip
@click.option("--run-as", metavar="ACCOUNT[,ACCOUNT…]",
              help="Run each job under one of these accounts, which no other job has then; for"
              " root. They must be for jobs alone: all their processes are ended after a job."
)  # fmt: skip
@click.option("--output-store", metavar="URL", help="A directory or s3://, gs://, az://, sftp://,"
              " davs:// for output files that are too large for the binder.")  # fmt: skip
@click.option("--ca", metavar="FILE", envvar="CLASSAD_BINDER_CA",
              help="Who signed the binder's certificate, in PEM.")  # fmt: skip
@click.option("--app", "apps", metavar="NAME=WORDS", multiple=True,
              help="An application for jobs, and its program with its first words.")  # fmt: skip
@click.option("--ad", "ad_file", metavar="FILE", help="Attributes that the slots' ads have too.")
@click.option("--policy", "policy_file", metavar="FILE",
              help=f"An ad with {', '.join(_POLICY[:-1])} and {_POLICY[-1]}.")  # fmt: skip
@click.option("--cpus", metavar="NUMBER", type=click.IntRange(1, 100_000),
              help="Processors to share; by default all that it may use.")  # fmt: skip
@click.option("--slots", "most", metavar="NUMBER", type=click.IntRange(1, 10_000),
              help="How many jobs at once; by default one a processor, with --store one."
)  # fmt: skip
@click.option("--foreground", metavar="NUMBER", type=click.IntRange(0, 10_000), default=0,
              show_default=True, help="Places for jobs for which others stand still.")  # fmt: skip
@click.option("--idle", metavar="SECONDS", type=FiniteRange(0.1), help="End after so long"
              " without a job.")  # fmt: skip
@click.option(
    "--wall", metavar="SECONDS", type=FiniteRange(1),
    help="End after so long; or earlier, where the batch system says so.",
)  # fmt: skip
@click.option("--least", metavar="SECONDS", type=FiniteRange(0), default=0.0,
              help="Take no job when less is left till then.")  # fmt: skip
@click.option("--dir", "folder", metavar="DIR", help="Where jobs run; by default in $TMPDIR.")
@click.option("--direct", metavar="HOST", help="Let clients whose ads have Direct = true connect to"
              " this address of the node.")  # fmt: skip
@click.option("--cert", metavar="FILE", help="With --direct beyond this machine: the certificate.")
@click.option("--cert-key", metavar="FILE", help="The certificate's key, where it is not with it.")
@logs
@click.option("--report", metavar="FILE", help="Where a factory looks for the pilot's state.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def pilot_command(
    *, at: str | None, store_url: str | None, tasks_file: str | None, node: str | None,
    failures: int, token_file: str | None, ca: str | None, mixed: bool, run_as: str | None,
    output_store: str | None,
    apps: tuple[str, ...], ad_file: str | None, policy_file: str | None, cpus: int | None,
    most: int | None, foreground: int, idle: float | None, wall: float | None, least: float,
    folder: str | None, direct: str | None, cert: str | None, cert_key: str | None,
    report: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Run jobs on this node for a binder, or tasks from a storage, until nothing is left to do.

    A pilot whose time is over, or that gets SIGTERM, gives its jobs back, and leaves no process and
    no file behind. With --store, exit status 1 if parameters failed too often, the node
    seems to be bad, or something in the store cannot be run.
    """
    wall = _wall(wall)
    if store_url is not None and run_as is not None:
        raise click.UsageError("--run-as is for jobs of a binder, not for --store")
    if store_url is not None:
        return _store(
            store_url, slots=most or 1, idle=idle, wall=wall, folder=folder, report=report,
            as_json=as_json, tasks=tasks_file, node=node, failures=failures,
        )  # fmt: skip
    if at is None or token_file is None:
        raise click.UsageError("give --binder and --token, or --store")
    import attrs

    from matchmaker.pilots.node import describe
    from matchmaker.pilots.node.isolation import own_directory
    from matchmaker.pilots.node.pilot import PilotAgent, hide_process
    from matchmaker.pilots.node.running import door_settings as doorway
    from matchmaker.pilots.node.slots import NodeState
    from matchmaker.pilots.node.works import PilotSettings
    from matchmaker.pilots.wire.connect import BinderAddress, tls_context

    hide_process()
    from_input = token_file == "-"  # noqa: S105 - a place, and no token
    applications = dict(map(_application, apps))
    place = BinderAddress(
        address=at,
        token=(sys.stdin.read() if from_input else Path(token_file).read_text("utf-8")).strip(),
        tls=None if ca is None else tls_context([ca]),
    )  # fmt: skip
    given = _ad(ad_file)
    policy = _policy(policy_file)
    doors = None if direct is None else doorway(direct, cert, cert_key)
    began = time.monotonic()
    ends = None if wall is None else time.time() + wall
    accounts = None if run_as is None else _accounts(run_as, applications, token_file)
    if accounts is not None:
        most = min(most or len(accounts), len(accounts) - foreground)
        if most < 1:
            raise click.UsageError(f"--run-as: more accounts than --foreground {foreground}")
    with own_directory(folder, passable=accounts is not None) as root:
        if accounts is not None:
            accounts.admits(root)
        has = describe.resources(root, os.environ)
        if cpus is not None:
            has = attrs.evolve(has, cpus=cpus)
        settings = PilotSettings(
            place=place, directory=root, applications=applications, idle=idle, wall=wall,
            least=least, doors=doors, report=None if report is None else Path(report),
            node=NodeState(total=has, most=most or has.cpus, reserved=foreground, policy=policy),
            machine=describe.machine(applications, given, os.environ, ends),
            ca=None if ca is None else Path(ca), mixed=mixed or accounts is not None,
            accounts=accounts, output=None if output_store is None else _output(output_store),
            token_file=None if from_input else Path(token_file),
        )  # fmt: skip
        ended = asyncio.run(_live(PilotAgent(settings, warn), root))
    if as_json:
        print_json({"ended": ended, "seconds": round(time.monotonic() - began, 3)})
    else:
        print(printable(f"the pilot has ended: {ended}"))
    return 0


def _output(url: str) -> SharedStore:
    from matchmaker.pilots.store.backends import open_store

    with storage():
        return open_store(url)


def _accounts(
    names: str, applications: Mapping[str, tuple[str, ...]], token_file: str
) -> Accounts:  # fmt: skip
    """The accounts for jobs. Raises ValueError for what would give them the pilot's rights."""
    from matchmaker.pilots.node.isolation import Accounts
    from matchmaker.pilots.node.task import HANDLER

    for name, words in applications.items():
        if words[0].startswith(HANDLER):
            raise ValueError(f"--run-as: the handler {name} would run as root; name a program")
    if token_file != "-" and Path(token_file).stat().st_mode & 0o077:  # noqa: S105 - a place
        raise ValueError(f"{token_file}: others may read this token: chmod 600 it")
    return Accounts([name for name in names.split(",") if name])


def _wall(given: float | None) -> float | None:
    """How many seconds the pilot may run: as many as it is let, and the batch system lets it."""
    from matchmaker.pilots.node import describe

    left = describe.seconds_left(os.environ, time.time(), describe.read_file, describe.ask_command)
    return min((each for each in (given, left) if each is not None), default=None)


async def _live(pilot: PilotAgent, root: Path) -> str:
    ended = await pilot.live(_stopping())
    if pilot.stuck:
        from matchmaker.pilots.node.keeper import remove

        names = ", ".join(pilot.stuck)[:200]
        warn(f"the pilot has ended: {ended}; these jobs could not be ended: {names}")
        # Where the disk does not answer, the next pilot here does it.
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(remove, root), 10)
        # Python would wait for them for ever.
        os._exit(1)
    return ended


def _store(
    url: str, *, slots: int, idle: float | None, wall: float | None, folder: str | None,
    report: str | None, as_json: bool, tasks: str | None, node: str | None, failures: int,
) -> int:  # fmt: skip
    """Work on a store, without a binder."""
    from collections import Counter

    import attrs

    from matchmaker.pilots.node.isolation import (
        adopting_orphans,
        dividing_group,
        own_directory,
        own_group,
    )
    from matchmaker.pilots.store.backends import open_store
    from matchmaker.pilots.store.protocol import NodeHistory
    from matchmaker.pilots.store.worker import NodeName, Worker, plan_of, send_tasks

    said: set[str] = set()

    def warn_once(text: str) -> None:
        """Print a warning that several slots or answers repeat, once."""
        if text not in said:
            said.add(text)
            warn(text)

    with storage():
        place = open_store(url)
        if tasks is not None:
            send_tasks(place, sys.stdin.buffer.read() if tasks == "-" else Path(tasks).read_bytes())
        plan = plan_of(place)
    began = time.monotonic()
    with own_directory(folder) as root, storage(), adopting_orphans(), dividing_group(own_group()):
        here, history = NodeName.of(node), NodeHistory()
        workers = [
            Worker(
                place, plan, root / f"slot{number}", idle=idle, warn=warn_once, node=here,
                failures=failures, history=history,
            )
            for number in range(slots)
        ]  # fmt: skip
        asyncio.run(_together(workers, wall, None if report is None else Path(report)))
    counts: Counter[str] = Counter()
    for worker in workers:
        counts.update(attrs.asdict(worker.tally, filter=lambda field, _: field.name != "ended"))
    for each in ("given_up", "failed_here", "refused"):
        counts[each] = max(getattr(worker.tally, each) for worker in workers)
    ended = history.leaving or workers[0].tally.ended
    if as_json:
        print_json({"ended": ended, "seconds": round(time.monotonic() - began, 3), **counts})
    else:
        words = {"others_first": "that others had first, as happens where several work"}
        shown = [
            f"{number} {words.get(name, name.replace('_', ' '))}"
            for name, number in counts.items() if number
        ]  # fmt: skip
        print(printable("; ".join([f"the pilot has ended: {ended}", *shown])))
    bad = history.leaving or counts["given_up"] or counts["failed_here"] or counts["refused"]
    return 1 if bad else 0


async def _together(workers: Sequence[Worker], wall: float | None, report: Path | None) -> None:
    stop = _stopping()
    if wall is not None:
        asyncio.get_running_loop().call_later(wall, stop.set)
    reporting = asyncio.create_task(_report(workers, report)) if report is not None else None
    try:
        async with asyncio.TaskGroup() as group:
            for worker in workers:
                group.create_task(worker.live(stop))
    finally:
        if reporting is not None:
            reporting.cancel()


async def _report(workers: Sequence[Worker], file: Path) -> None:
    """Report the pilot's state to a factory each second, and end the pilot on its request."""
    from matchmaker.classad import ClassAd
    from matchmaker.pilots.node.works import write_report

    while True:
        # A factory that hears nothing asks the batch system.
        with suppress(OSError):
            asked = file.with_name(f"{file.name}.end").exists()
            for worker in workers:
                worker.drain = worker.drain or asked
            busy = any(worker.busy for worker in workers)
            state = "draining" if asked else "busy" if busy else "idle"
            write_report(file, state, ClassAd())
        await asyncio.sleep(1)


def _stopping() -> asyncio.Event:
    """Return the event that SIGINT and SIGTERM set."""
    import signal

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _application(text: str) -> tuple[str, tuple[str, ...]]:
    found = _APPLICATION.match(text)
    words = shlex.split(found[2]) if found else []
    if found is None or not words:
        raise click.BadParameter(f"{text[:80]!r}: NAME=WORDS was expected", param_hint="--app")
    return found[1], tuple(words)


def _ad(file: str | None) -> ClassAd:
    from matchmaker.classad import ClassAd, ParseError, parse_ad

    if file is None:
        return ClassAd()
    try:
        return parse_ad(Path(file).read_text("utf-8"))
    except ParseError as error:
        raise click.ClickException(f"{file}: {error.summary()}") from None


def _policy(file: str | None) -> SitePolicy:
    from matchmaker.classad.errors import closest
    from matchmaker.pilots.node.slots import SitePolicy

    ad = _ad(file)
    known = {name.lower(): name for name in _POLICY}
    fields = {"Continue": "resume"}
    said = {}
    for name in ad:
        if name.lower() not in known:
            near = closest(name, known, 0.6)
            hint = f"; did you mean {near}?" if near else ""
            raise click.BadParameter(
                f"{file}: {name} is none of {', '.join(_POLICY)}{hint}", param_hint="--policy"
            )
        field = known[name.lower()]
        said[fields.get(field, field.lower())] = ad.expr(name)
    return SitePolicy(**said)


@contextmanager
def storage() -> Iterator[None]:
    """Turn a storage's refusals into bad input; of several errors at once the first."""
    from matchmaker.pilots.store.protocol import StoreError

    try:
        yield
    except (StoreError, BaseExceptionGroup) as raised:
        error: BaseException = raised
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if not isinstance(error, StoreError):
            raise
        # A handler of `except*` would wrap this in a group of its own.
        raise click.ClickException(str(error)) from None


@click.group("store", cls=Subcommands)
def store_command() -> None:
    """Look at work that pilots claim on a storage (classad pilot --store)."""


@store_command.command("demand")
@click.argument("url")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def demand_(*, url: str, as_json: bool) -> int:
    """Print an ad for each parameter that is not done, for a factory that submits pilots.

    JobStatus is 2 if a pilot runs it, and 1 if none does. Exit status 0 also if nothing is
    left: a factory takes any other for an error.
    """
    from matchmaker.pilots.store.backends import open_store
    from matchmaker.pilots.store.status import demand
    from matchmaker.pilots.store.worker import plan_of

    with storage():
        store = open_store(url)
        ads = demand(store, plan_of(store))
        if as_json:
            print_json([plain(ad) for ad in ads])
        else:
            for ad in ads:
                print(printable(str(ad)))
    return 0


@store_command.command("retry")
@click.argument("url")
@click.argument("parameters", nargs=-1, metavar="[PARAMETER]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def retry_(*, url: str, parameters: tuple[str, ...], as_json: bool) -> int:
    """Forget failures, so that pilots try these parameters again on any node.

    Without PARAMETER all that failed and have no result. Exit status 1 if there was none.
    """
    from matchmaker.pilots.store.backends import open_store
    from matchmaker.pilots.store.status import retry
    from matchmaker.pilots.store.worker import plan_of

    with storage():
        store = open_store(url)
        plan = plan_of(store)
        if unknown := set(parameters) - set(plan.parameters):
            raise click.UsageError(f"{min(unknown)!r} is no parameter of {url}")
        found = retry(store, plan, parameters)
    if as_json:
        print_json([{"input": input_, "parameter": parameter} for input_, parameter in found])
    else:
        print(f"{count(len(found), 'parameter')} may be tried again")
    return 0 if found else 1


@store_command.command("status")
@click.argument("url")
@click.option("--claims", "with_claims", is_flag=True, help="List who runs what.")
@click.option("--failures", "with_failures", is_flag=True,
              help="List what failed, on which nodes, and why at last.")  # fmt: skip
@click.option("--wide", metavar="NUMBER", type=click.IntRange(1, 1000), default=50,
              show_default=True, help="Letters of a picture.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status_(
    *, url: str, with_claims: bool, with_failures: bool, wide: int, as_json: bool
) -> int:  # fmt: skip
    """Show what of each input is free, claimed and done.

    URL is a directory or s3://, gs://, az://, sftp://, davs://. In the picture each letter is a
    part of the parameters: # done, > running, ? claimed by a pilot that is silent, x failed and
    free for other nodes, ! given up after failures on several nodes, . free.
    Exit status 1 as long as results are missing, or something in the store cannot be run.
    """
    from matchmaker.pilots.store.backends import open_store
    from matchmaker.pilots.store.status import status
    from matchmaker.pilots.store.worker import plan_of

    with storage():
        store = open_store(url)
        found = status(
            store, plan_of(store), wide=wide, read=with_claims or with_failures or as_json
        )
    for each in found.refused:
        warn(each)
    if as_json:
        print_json({
            "done": found.all_done, "inputs": list(map(attrs.asdict, found.rows)),
            "claims": list(map(attrs.asdict, found.claims)),
            "failures": list(map(attrs.asdict, found.failures)), "refused": list(found.refused),
        })  # fmt: skip
        return 0 if found.all_done else 1
    if not found.rows:
        print("no inputs")
        return 0 if found.all_done else 1
    if with_claims:
        rows = [
            [c.input, c.parameter, c.epoch, c.by or "", f"{c.age:.0f}", "silent" if c.stale else ""]
            for c in found.claims
        ]
        show(table(["input", "parameter", "epoch", "by", "seconds", ""], rows, right=(2, 4)))
    if with_failures:
        rows = [
            [
                f.input,
                f.parameter,
                f.nodes,
                f.runs,
                "given up" if f.given_up else "",
                f.problem or "",
            ]
            for f in found.failures
        ]
        show(table(["input", "parameter", "nodes", "runs", "", "problem"], rows, right=(2, 3)))
    if not with_claims and not with_failures:
        show(table(
            ["input", "done", "running", "silent", "failed", "given up", "free", ""],
            [[r.input, r.done, r.running, r.stale, r.failed, r.given_up, r.free, r.picture]
             for r in found.rows],
            right=range(1, 7), whole=(0, 7),
        ))  # fmt: skip
        done, all_ = sum(r.done for r in found.rows), sum(r.parameters for r in found.rows)
        said = [f"{done} of {count(all_, 'result')}", count(len(found.claims), "claim")]
        if found.failures:
            said.append(f"{count(len(found.failures), 'failed parameter')} (--failures)")
        print("; ".join(said))
    return 0 if found.all_done else 1
