"""``classad binder``: brings clients and pilots together, and asks for pilots and jobs.

The service's own subcommands are ``run`` and ``token``; the others are clients of it.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from matchmaker.cli import sources
from matchmaker.cli.output import facts, plain, print_json, printable, show, table, warn
from matchmaker.cli.transfers import state_folder

if TYPE_CHECKING:
    from matchmaker import ClassAd
    from matchmaker.pilots.connect import Binder, JobFacts, Place

_HOURS = 24.0
PORT = 9675
_PIECES = 4


@click.group()
def command() -> None:
    """Bring clients and pilots together, and ask for pilots."""


# --- the service ----------------------------------------------------------------------------------

_FOLDER = click.option(
    "--folder", metavar="DIR",
    help="Where the key and the tables are; by default in the user's own state folder.",
)  # fmt: skip


def _folder(given: str | None) -> Path:
    folder = Path(given) if given is not None else state_folder() / "binder"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


@command.command("run")
@_FOLDER
@click.option("--listen", metavar="HOST:PORT", envvar="CLASSAD_BINDER_LISTEN",
              default=f"127.0.0.1:{PORT}", show_default=True,
              help="Where clients and pilots connect; port 0 is any free one.")  # fmt: skip
@click.option("--name", metavar="NAME", default="binder", show_default=True,
              help="The binder's name, which its tokens bear.")  # fmt: skip
@click.option("--tables", metavar="PLACE", help="A file of SQLite or the URL of a PostgreSQL.")
@click.option("--cert", metavar="FILE", help="The certificate, in PEM; needed beyond this machine.")
@click.option("--cert-key", metavar="FILE", help="The certificate's key, where it is not with it.")
@click.option("--lease", metavar="SECONDS", type=click.FloatRange(1, 86_400), default=60.0,
              show_default=True, help="How long a pilot may be silent.")  # fmt: skip
@click.option("--most-jobs", metavar="NUMBER", type=click.IntRange(1), default=10_000,
              show_default=True, help="How many open jobs each client may have.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def run(
    *, folder: str | None, listen: str, name: str, tables: str | None, cert: str | None,
    cert_key: str | None, lease: float, most_jobs: int, as_json: bool,
) -> int:  # fmt: skip
    """Run a binder until an interrupt; jobs and pilots go on, and come back to the next run."""
    try:
        from matchmaker.pilots.binder.tables import SupersededError, Tables
    except ModuleNotFoundError:
        raise click.UsageError(
            "the binder needs SQLAlchemy: pip install 'classad-matchmaker[delegation]'"
        ) from None
    from matchmaker.pilots.binder import server
    from matchmaker.pilots.binder.bounds import Settings
    from matchmaker.pilots.binder.handlers import installed
    from matchmaker.pilots.binder.keys import own_key
    from matchmaker.pilots.wire.connection import parse_address

    place = _folder(folder)
    host, port = parse_address(listen)
    tls = None
    if cert is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.minimum_version = ssl.TLSVersion.TLSv1_2
        tls.load_cert_chain(cert, cert_key)
    settings = Settings(
        name=name, key=own_key(place / "key"), host=host, port=port, tls=tls, lease=lease,
        most_jobs=most_jobs, handled=installed(),
    )  # fmt: skip
    kept = Tables(tables or place / "binder.db")

    def ready(address: str) -> None:
        if as_json:
            print_json({"name": name, "address": address, "folder": str(place)})
        else:
            print(printable(f"{name} listens at {address}"))
        sys.stdout.flush()

    # The thread that writes to the storage must not keep the one that answers from its turn.
    sys.setswitchinterval(0.0005)
    try:
        ended = asyncio.run(_until_stopped(lambda stop: server.serve(
            settings, kept, ready=ready, stop=stop
        )))  # fmt: skip
    except SupersededError as error:
        raise click.ClickException(str(error)) from None
    finally:
        kept.close()
    warn(f"{name}: stopped by {ended}")
    return 0


async def _until_stopped(work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> str:
    """Runs until a signal asks for its end, and gives the signal's name."""
    import signal

    stop, names = asyncio.Event(), [""]

    def ask(number: signal.Signals) -> None:
        names[0] = number.name
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ask, number)
    await work(stop)
    return names[0]


@command.command("token")
@click.argument("scope", type=click.Choice(["client", "pilot", "admin"]))
@click.argument("subject")
@_FOLDER
@click.option("--name", metavar="NAME", default="binder", show_default=True,
              help="The binder's name.")  # fmt: skip
@click.option("--hours", metavar="HOURS", type=click.FloatRange(0.01, 87_600), default=_HOURS,
              show_default=True, help="How long it is good.")  # fmt: skip
@click.option("--to", "file", metavar="FILE", help="Write it to a new file that you alone read.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def token(
    *, scope: str, subject: str, folder: str | None, name: str, hours: float, file: str | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Make a token for SUBJECT. Keep it as you keep a password."""
    from matchmaker.pilots.binder.keys import own_key, written
    from matchmaker.pilots.wire.tokens import Scope, Token, sign

    made = Token(
        subject=subject, scope=Scope(scope), pool=name, ends=float(int(time.time() + hours * 3600))
    )
    text = sign(own_key(_folder(folder) / "key"), made)
    if file is not None:
        written(Path(file), text + "\n")
    if as_json:
        shown = {} if file is not None else {"token": text}
        print_json({"id": made.id, "subject": subject, "scope": scope, "ends": made.ends, **shown})
    elif file is None:
        print(text)
    else:
        warn(f"{file}: the token {made.id}, good for {hours:g} hours")
    return 0


# --- its clients ----------------------------------------------------------------------------------


def _asks(asked: Callable[..., int]) -> Callable[..., int]:
    """Adds the options that say where the binder is; the command gets them as ``place``."""

    @wraps(asked)
    def gathered(*, at: str, token_file: str, ca: str | None, **values: Any) -> int:
        from matchmaker.pilots.connect import Place, authorities

        text = Path(token_file).read_text("utf-8").strip()
        tls = None if ca is None else authorities([ca])
        return asked(place=Place(address=at, token=text, tls=tls), **values)

    for option in (
        click.option(
            "--ca", metavar="FILE", envvar="CLASSAD_BINDER_CA",
            help="Who signed the binder's certificate, in PEM; needed beyond this machine.",
        ),
        click.option(
            "--token", "token_file", metavar="FILE", envvar="CLASSAD_BINDER_TOKEN", required=True,
            help="The file with your token.",
        ),
        click.option(
            "--at", metavar="HOST:PORT", envvar="CLASSAD_BINDER", default=f"127.0.0.1:{PORT}",
            show_default=True, help="Where the binder is.",
        ),
    ):  # fmt: skip
        gathered = option(gathered)
    return gathered


@asynccontextmanager
async def _open(place: Place) -> AsyncIterator[Binder]:
    from matchmaker.pilots import connect

    async with connect.binder(place) as found:
        yield found


def _row(job: JobFacts) -> dict[str, Any]:
    result = None
    if job.result is not None:
        result = {name: plain(job.result.eval(name)) for name in job.result}
    return {
        "job": job.id, "key": job.key, "owner": job.owner, "stage": job.stage, "given": job.given,
        "reason": job.reason, "result": result,
    }  # fmt: skip


def _print_job(job: JobFacts, *, as_json: bool) -> None:
    if as_json:
        print_json(_row(job))
        return
    row = _row(job)
    result = row.pop("result") or {}
    pairs = [*row.items(), *result.items()]
    show(facts((name, value) for name, value in pairs if value != ""))


@command.command("submit")
@click.argument("file")
@click.option("--key", metavar="KEY", help="The job's name: one job for each; by default random.")
@click.option("--wait", metavar="SECONDS", type=click.FloatRange(0, 86_400), default=0.0,
              help="Wait so long for its end.")  # fmt: skip
@_asks
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def submit(*, file: str, key: str | None, wait: float, place: Place, as_json: bool) -> int:
    """Hand in the job of FILE, which goes on without you.

    With --wait, exit status 1 if it has not ended well by then.
    """
    import secrets

    ad = sources.one_ad(file)

    async def asked() -> JobFacts:
        async with _open(place) as found:
            job = await found.submit(ad, key or secrets.token_hex(8))
            return await found.job(job.id, seconds=wait) if wait else job

    job = asyncio.run(asked())
    if wait or as_json:
        _print_job(job, as_json=as_json)
    else:
        print(job.id)
    return 0 if not wait or _well(job) else 1


def _well(job: JobFacts) -> bool:
    return job.stage == "ended" and job.result is not None and job.result.eval("ExitCode") == 0


@command.command("jobs")
@click.argument("job", required=False)
@click.option("--waiting", is_flag=True, help="Only those that wait for a slot.")
@click.option("--ads", is_flag=True, help="Print their ads, as a factory reads its demand.")
@_asks
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def jobs(
    *, job: str | None, waiting: bool, ads: bool, place: Place, as_json: bool
) -> int:  # fmt: skip
    """List your jobs, the latest first, or show JOB with its result.

    Exit status 1 if there are none.
    """

    async def asked() -> list[JobFacts]:
        async with _open(place) as found:
            if job is not None:
                return [await found.job(job)]
            return [
                each async for each in found.jobs(ads=ads)
                if each.stage == "queued" or not waiting
            ]  # fmt: skip

    found = asyncio.run(asked())
    if job is not None:
        _print_job(found[0], as_json=as_json)
    elif as_json:
        print_json([_row(each) for each in found])
    elif ads:
        for each in found:
            print(_named(each))
    elif found:
        headings = ("job", "key", "owner", "stage", "given", "reason")
        rows = [[_row(each)[name] for name in headings] for each in found]
        show(table(headings, rows, right=(4,), whole=(0, 1)))
    return 0 if found else 1


def _named(job: JobFacts) -> ClassAd:
    """The job's ad with its name at the binder, for who reads them all."""
    from matchmaker import ClassAd

    ad = job.ad if job.ad is not None else ClassAd()
    ad["BinderJob"] = job.id
    return ad


@command.command("cancel")
@click.argument("job")
@click.option("--reason", metavar="TEXT", default="", help="Why, for whoever looks at it.")
@_asks
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def cancel(*, job: str, reason: str, place: Place, as_json: bool) -> int:
    """End JOB: at once where no pilot has it, otherwise as soon as its pilot has ended it."""

    async def asked() -> JobFacts:
        async with _open(place) as found:
            return await found.cancel(job, reason)

    _print_job(asyncio.run(asked()), as_json=as_json)
    return 0


@command.command("status")
@_asks
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(*, place: Place, as_json: bool) -> int:
    """Show the numbers of a binder; for the owner of an admin's token."""

    async def asked() -> dict[str, Any]:
        from matchmaker.pilots import connect

        async with connect.admin(place) as found:
            return await found.status()

    found = asyncio.run(asked())
    if as_json:
        print_json(found)
        return 0
    stages = ", ".join(f"{number} {stage}" for stage, number in found["jobs"].items() if number)
    delays = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in found["delays"].items())
    shown = {
        **found, "jobs": stages or "none", "delays": delays or "none",
        "trouble": found["trouble"] or "none",
    }  # fmt: skip
    show(facts(shown.items()))
    return 0


@command.command("revoke")
@click.argument("token_id", metavar="ID")
@_asks
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def revoke(*, token_id: str, place: Place, as_json: bool) -> int:
    """Refuse the token ID from now on; for the owner of an admin's token."""

    async def asked() -> None:
        from matchmaker.pilots import connect

        async with connect.admin(place) as found:
            await found.revoke(token_id, time.time() + 87_600 * 3600)

    asyncio.run(asked())
    if as_json:
        print_json({"revoked": token_id})
    else:
        print(printable(f"{token_id} is refused from now on"))
    return 0


@command.command("connect")
@click.argument("file")
@click.option("--seconds", metavar="SECONDS", type=click.FloatRange(0, 86_400), default=60.0,
              show_default=True, help="How long to wait for a slot.")  # fmt: skip
@_asks
@click.option("--json", "as_json", is_flag=True,
              help="Print one line of JSON at the end, on standard error.")  # fmt: skip
def connect_(*, file: str, seconds: float, place: Place, as_json: bool) -> int:
    """Talk to a pilot: standard input goes to the program of FILE's job, its output comes back.

    Exit status 1 if no slot came in time; standard error says why.
    """
    ad = sources.one_ad(file)
    sent, got = asyncio.run(_talk(place, ad, seconds))
    if as_json:
        print(f'{{"sent": {sent}, "received": {got}}}', file=sys.stderr)
    return 0


async def _talk(place: Place, ad: ClassAd, seconds: float) -> tuple[int, int]:
    """Carries bytes both ways until the pilot's side has ended; returns how many."""
    from matchmaker.pilots import connect

    numbers = [0, 0]
    async with connect.paired(place, ad, seconds=seconds, waiting=warn) as stream:
        typed: asyncio.Queue[bytes] = asyncio.Queue(_PIECES)
        loop = asyncio.get_running_loop()
        # A thread that may wait for ever in a read, and does not keep the process from its end.
        threading.Thread(target=_read, args=(loop, typed), daemon=True).start()

        async def send() -> None:
            while data := await typed.get():
                numbers[0] += len(data)
                await stream.write(data)
            await stream.end()

        sending = asyncio.create_task(send())
        try:
            while data := await stream.read():
                numbers[1] += len(data)
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
    return numbers[0], numbers[1]


def _read(loop: asyncio.AbstractEventLoop, typed: asyncio.Queue[bytes]) -> None:
    """Gives standard input to a queue, its end as no bytes."""
    stream: Any = None if sys.stdin is None else sys.stdin.buffer
    with suppress(RuntimeError, OSError, ValueError, CancelledError):
        while True:
            data = b"" if stream is None else stream.read1(1 << 16)
            asyncio.run_coroutine_threadsafe(typed.put(data), loop).result()
            if not data:
                return
