"""``classad binder``: run the service, make tokens, and ask it as a client."""

from __future__ import annotations

import asyncio
import gc
import os
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from matchmaker.cli import inputs
from matchmaker.cli.group import Subcommands
from matchmaker.cli.options import FiniteRange, logs, together
from matchmaker.cli.output import count, facts, plain, print_json, printable, show, table, warn
from matchmaker.cli.transfers import say_exposed, state_folder

if TYPE_CHECKING:
    from matchmaker import ClassAd
    from matchmaker.pilots.wire.connect import BinderAddress, BinderClient, JobFacts


PORT: Final = 9675
# A token that leaks is good for a day at most, unless its maker asks for more.
_HOURS: Final = 24.0
# Pieces of 64 KiB that a typed text may be ahead of the network: more would only take memory.
_PIECES = 4
_BRIEF = ("ExitCode", "ExitSignal", "Reason")
_T = TypeVar("_T")


@click.group("binder", cls=Subcommands)
def binder_command() -> None:
    """Bring clients and pilots together, and ask for pilots."""


_FOLDER = click.option(
    "--folder", metavar="DIR",
    help="Where the key and the tables are; by default in the user's own state folder.",
)  # fmt: skip


def _folder(given: str | None) -> Path:
    from matchmaker.delegation.database import make_private_folder

    folder = Path(given) if given is not None else state_folder() / "binder"
    make_private_folder(folder)
    say_exposed(folder)
    return folder


@binder_command.command("run")
@_FOLDER
@click.option("--listen", metavar="HOST:PORT", envvar="CLASSAD_BINDER_LISTEN",
              default=f"127.0.0.1:{PORT}", show_default=True,
              help="Where clients and pilots connect; port 0 is any free one.")  # fmt: skip
@click.option("--name", metavar="NAME", default="binder", show_default=True,
              help="The binder's name, which its tokens bear.")  # fmt: skip
@click.option("--tables", metavar="PLACE", help="A file of SQLite or the URL of a PostgreSQL.")
@click.option("--cert", metavar="FILE", help="The certificate, in PEM; needed beyond this machine.")
@click.option("--cert-key", metavar="FILE", help="The certificate's key, where it is not with it.")
@click.option("--lease", metavar="SECONDS", type=FiniteRange(1, 86_400), default=60.0,
              show_default=True, help="How long a pilot may be silent.")  # fmt: skip
@click.option("--most-jobs", metavar="NUMBER", type=click.IntRange(1), default=10_000,
              show_default=True, help="How many open jobs each client may have.")  # fmt: skip
@click.option("--most-output", metavar="MIB", type=FiniteRange(0), default=16.0,
              show_default=True, help="How much a job may give back of its output, of its errors,"
              " and of its files.")  # fmt: skip
@click.option("--most-stored", metavar="MIB", type=FiniteRange(0), default=1024.0,
              show_default=True, help="How much of this is stored for each client.")  # fmt: skip
@logs
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def run(
    *, folder: str | None, listen: str, name: str, tables: str | None, cert: str | None,
    cert_key: str | None, lease: float, most_jobs: int, most_output: float, most_stored: float,
    as_json: bool,
) -> int:  # fmt: skip
    """Run a binder until an interrupt; jobs and pilots go on, and come back to the next run."""
    from matchmaker.pilots.binder import server
    from matchmaker.pilots.binder.admission import BinderSettings, load_key
    from matchmaker.pilots.binder.relay import installed
    from matchmaker.pilots.binder.tables import SupersededError, Tables
    from matchmaker.pilots.wire.connection import parse_address

    place = _folder(folder)
    host, port = parse_address(listen)
    tls = None
    if cert is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.minimum_version = ssl.TLSVersion.TLSv1_2
        tls.load_cert_chain(cert, cert_key)
    settings = BinderSettings(
        name=name, key=load_key(place / "key"), host=host, port=port, tls=tls, lease=lease,
        most_jobs=most_jobs, handled=installed(), most_output=int(most_output * (1 << 20)),
        most_stored=int(most_stored * (1 << 20)),
    )  # fmt: skip
    kept = Tables(tables or place / "binder.db")
    say_exposed(tables or place / "binder.db")

    def ready(address: str) -> None:
        if as_json:
            print_json({"name": name, "address": address, "folder": str(place)})
        else:
            print(printable(f"{name} listens at {address}"))
        sys.stdout.flush()
        # What is loaded by now stays: a walk of it by the collector would hold up who connects.
        gc.freeze()

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
    """Run until a signal asks for its end, and return the signal's name."""
    import signal

    stop, names = asyncio.Event(), [""]

    def ask(number: signal.Signals) -> None:
        names[0] = number.name
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ask, number)
    await work(stop)
    return names[0]


@binder_command.command("token")
@click.argument("scope", type=click.Choice(["client", "pilot", "factory", "admin"]))
@click.argument("subject")
@_FOLDER
@click.option("--name", metavar="NAME", default="binder", show_default=True,
              help="The binder's name.")  # fmt: skip
@click.option("--hours", metavar="HOURS", type=FiniteRange(0.01, 87_600), default=_HOURS,
              show_default=True, help="How long it is good.")  # fmt: skip
@click.option("--owner", "owners", metavar="NAME", multiple=True,
              help="Of a pilot or a factory: whose jobs alone its pilots get.")  # fmt: skip
@click.option("--to", "file", metavar="FILE", help="Write it to a new file that you alone read.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def token(
    *, scope: str, subject: str, folder: str | None, name: str, hours: float,
    owners: tuple[str, ...], file: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Make a token for SUBJECT. Keep it as you keep a password.

    A pilot's token buys one registration: make one for each pilot, or a factory's, which asks the
    binder for them.
    """
    if owners and scope not in {"pilot", "factory"}:
        raise click.UsageError(f"--owner is for pilots and factories, not for scope {scope}")
    from matchmaker.pilots.binder.admission import load_key, write_secret
    from matchmaker.pilots.wire.protocol import Token, TokenScope, sign

    made = Token(
        subject=subject, scope=TokenScope(scope), pool=name, owners=owners,
        ends=float(int(time.time() + hours * 3600)),
    )  # fmt: skip
    text = sign(load_key(_folder(folder) / "key"), made)
    if file is not None:
        write_secret(Path(file), text + "\n")
    if as_json:
        shown = {} if file is not None else {"token": text}
        print_json({"id": made.id, "subject": subject, "scope": scope, "ends": made.ends, **shown})
    elif file is None:
        print(text)
    else:
        warn(f"{file}: the token {made.id}, good for {hours:g} hours")
    return 0


def _asks(asked: Callable[..., int]) -> Callable[..., int]:
    """Add the options for the binder's address; the command gets them as ``place``."""

    @wraps(asked)
    def gathered(*, at: str, token_file: str, ca: str | None, **values: Any) -> int:
        from matchmaker.pilots.wire.connect import BinderAddress, tls_context

        text = Path(token_file).read_text("utf-8").strip()
        tls = None if ca is None else tls_context([ca])
        return asked(place=BinderAddress(address=at, token=text, tls=tls), **values)

    return together(
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
    )(gathered)  # fmt: skip


def _asked(
    place: BinderAddress, ask: Callable[[BinderClient], Awaitable[_T]], *, admin: bool = False
) -> _T:
    """Return a binder's answer, if need be to the owner of an admin's token."""

    async def asked() -> _T:
        from matchmaker.pilots.wire import connect

        async with (connect.admin if admin else connect.binder)(place) as found:
            return await ask(found)

    return asyncio.run(asked())


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
    printed = {name: result.pop(name) for name in ("Out", "Err") if result.get(name)}
    pairs = [*row.items(), *result.items()]
    show(facts((name, value) for name, value in pairs if value != ""))
    for name, text in printed.items():
        print(f"{name}:")
        for line in str(text).splitlines():
            print(printable(f"  {line}"))


@binder_command.command("submit")
@click.argument("file", required=False)
@click.option(
    "--jobs", "jobs_file", metavar="FILE",
    help="Many jobs in one file, - for standard input; FILE then has what all have.",
)  # fmt: skip
@click.option(
    "--commands",
    is_flag=True,
    help="With --jobs: a command line on each line, as a shell separates its words.",
)
@click.option("--key", metavar="KEY", help="The job's name: one job for each; by default random."
              " Of many jobs, what their numbers follow.")  # fmt: skip
@click.option("--wait", metavar="SECONDS", type=FiniteRange(0, 86_400), default=0.0,
              help="Wait so long for its end.")  # fmt: skip
@_asks
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def submit(
    *, file: str | None, jobs_file: str | None, commands: bool, key: str | None, wait: float,
    place: BinderAddress, as_json: bool,
) -> int:  # fmt: skip
    """Hand in the job of FILE, or all of --jobs, which go on without you.

    Each of many jobs has the key in its Key, or --key and its number: the same file with the same
    --key again gives the same jobs. All are read and checked before one is handed in.

    With --wait, exit status 1 if one has not ended well by then.
    """
    import secrets

    if jobs_file is not None:
        jobs = _jobs_of(jobs_file, file, key, commands=commands)
        return _submit_all(jobs, place, wait, as_json=as_json)
    if file is None or commands:
        raise click.UsageError("give FILE, or --jobs FILE; --commands is for --jobs")
    ad = inputs.one_ad(file)

    async def submitted(found: BinderClient) -> JobFacts:
        job = await found.submit(ad, key or secrets.token_hex(8))
        return await found.job(job.id, seconds=wait) if wait else job

    job = _asked(place, submitted)
    if wait or as_json:
        _print_job(job, as_json=as_json)
    else:
        print(job.id)
    return 0 if not wait or _well(job) else 1


def _jobs_of(
    path: str, common: str | None, prefix: str | None, *, commands: bool
) -> dict[str, ClassAd]:
    """Read and check all jobs of a file, by their keys.

    Raises ValueError with the line, or the number, of one that cannot be handed in.
    """
    from matchmaker import ClassAd
    from matchmaker.pilots.binder.admission import MOST_KEY
    from matchmaker.pilots.node.task import check_job

    shared = ClassAd() if common is None else inputs.one_ad(common)

    def with_shared(own: ClassAd) -> ClassAd:
        ad = shared.copy()
        ad.update(own)
        return ad

    def check(key: str) -> None:
        if not 0 < len(key) <= MOST_KEY or not key.isprintable():
            raise ValueError(
                f"a key has 1 to {MOST_KEY} printable characters, not {key[:MOST_KEY]!r}"
            )

    def checked(ad: ClassAd) -> ClassAd:
        check_job(ad)
        return ad

    read = _command_lines(path) if commands else enumerate(inputs.ads(path), 1)
    jobs = ((number, with_shared(own)) for number, own in read)
    return inputs.keyed(path, jobs, prefix, check, checked, word="line" if commands else "job")


def _command_lines(path: str) -> Iterator[tuple[int, ClassAd]]:
    """The jobs of command lines, with their numbers; empty lines and comments (#) are none."""
    import shlex

    from matchmaker import ClassAd

    with inputs.opened(path) as file:
        for number, line in enumerate(file, 1):
            try:
                text = line.decode("utf-8").strip()
                words = [] if text.startswith("#") else shlex.split(text)
            except ValueError as error:
                raise ValueError(f"{path}: line {number}: {error}") from None
            if words:
                yield number, ClassAd(Cmd=words[0], Arguments=words[1:], Requirements=True)


def _submit_all(
    jobs: dict[str, ClassAd], place: BinderAddress, wait: float, *, as_json: bool
) -> int:
    """Hand in many jobs, perhaps waits for them, and print what became of each."""

    async def submitted(found: BinderClient) -> dict[str, JobFacts | str]:
        done = {key: job async for key, job in found.submit_all(jobs.items())}
        ids = [job.id for job in done.values() if not isinstance(job, str)]
        if wait:
            done.update({job.key: job async for job in found.ended(ids, seconds=wait)})
        return done

    found = _asked(place, submitted)
    if as_json:
        print_json([
            {"key": key, "refused": job} if isinstance(job, str) else _row(job)
            for key, job in found.items()
        ])  # fmt: skip
    bad: list[list[str]] = []
    counts: Counter[str] = Counter()
    for key, job in found.items():
        if isinstance(job, str):
            counts["refused"] += 1
            bad.append([key, "", job])
        elif job.result is None:
            counts[job.stage] += 1
            if job.stage in {"cancelled", "lost"}:
                bad.append([key, job.id, f"{job.stage}: {job.reason}"])
        else:
            counts["ended well" if _well(job) else "ended badly"] += 1
            if not _well(job):
                ad = job.result
                said = [f"{name} {plain(ad.eval(name))}" for name in _BRIEF if name in ad]
                bad.append([key, job.id, ", ".join(said)])
    if not as_json:
        numbers = ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))
        print(f"{count(len(found), 'job')}: {numbers}")
        if bad:
            show(table(("key", "job", "why"), bad, whole=(0, 1)))
    well = counts["ended well"] == len(found) if wait else not counts["refused"]
    return 0 if well else 1


def _well(job: JobFacts) -> bool:
    return job.stage == "ended" and job.result is not None and job.result.eval("ExitCode") == 0


@binder_command.command("jobs")
@click.argument("job", required=False)
@click.option("--waiting", is_flag=True, help="Only those that wait for a slot.")
@click.option("--ads", is_flag=True, help="Print their ads, as a factory reads its demand.")
@_asks
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def jobs(
    *, job: str | None, waiting: bool, ads: bool, place: BinderAddress, as_json: bool
) -> int:  # fmt: skip
    """List your jobs, the latest first, or show JOB with its result.

    Exit status 1 if there are none.
    """

    async def listed(found: BinderClient) -> list[JobFacts]:
        if job is not None:
            return [await found.job(job)]
        every = found.jobs(ads=ads)
        return [each async for each in every if each.stage == "queued" or not waiting]

    found = _asked(place, listed)
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


@binder_command.command("output")
@click.argument("job")
@click.option("--out", "part", flag_value="out", help="What it printed; the default.")
@click.option("--err", "part", flag_value="err", help="Its errors.")
@click.option("--file", "name", metavar="NAME", help="One of its output files.")
@click.option("--into", metavar="DIR", help="All of it, into a directory: out, err, and its files"
              " in files/.")  # fmt: skip
@_asks
@click.option("--json", "as_json", is_flag=True, help="Print JSON: what there is, and its size.")
def output(
    *, job: str, part: str | None, name: str | None, into: str | None, place: BinderAddress,
    as_json: bool,
) -> int:  # fmt: skip
    """Write the output of the ended JOB to standard output, or fetch its files.

    Exit status 1 if JOB has not ended, or if a part is not there or not whole; standard error says
    why.
    """
    if sum(each is not None for each in (part, name, into)) > 1:
        raise click.UsageError("give one of --out, --err, --file and --into")
    whole = _asked(place, lambda found: _fetched(found, job, part, name, into, as_json=as_json))
    return 0 if whole else 1


async def _fetched(
    found: BinderClient, id_: str, part: str | None, name: str | None, into: str | None, *,
    as_json: bool,
) -> bool:  # fmt: skip
    """Fetches parts of a job's output; whether all is whole."""
    from matchmaker.pilots.wire.connect import parts

    job = await found.job(id_)
    if job.result is None:
        warn(f"{id_} is {job.stage}{': ' if job.reason else ''}{job.reason}: no output is there")
        return False
    every = parts(job)
    notes = job.result.eval("OutputNotes")
    for note in notes if isinstance(notes, list) else []:
        warn(str(note))
    if as_json:
        print_json({each.name: {"size": each.size, "whole": each.whole} for each in every})
        return all(each.whole for each in every) and not isinstance(notes, list)
    wanted = every
    if into is None:
        asked = f"file:{name}" if name is not None else part or "out"
        wanted = [each for each in every if each.name == asked]
        if not wanted:
            warn(f"{id_} has no output file {name}")
    well = bool(wanted)
    for each in wanted:
        if not each.whole:
            well = False
            warn(f"{each.name}: {each.stored} of {each.size} bytes are stored")
        if into is None:
            async for data in found.read(job, each):
                sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            target = Path(into).joinpath(*each.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            new = target.with_name(f".{target.name}.{os.getpid()}")
            with new.open("xb") as file:
                async for data in found.read(job, each):
                    file.write(data)
            new.replace(target)
    return well and (into is None or not isinstance(notes, list))


@binder_command.command("cancel")
@click.argument("job")
@click.option("--reason", metavar="TEXT", default="", help="Why, for whoever looks at it.")
@_asks
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def cancel(*, job: str, reason: str, place: BinderAddress, as_json: bool) -> int:
    """End JOB: at once if no pilot has it, otherwise as soon as its pilot has ended it."""
    _print_job(_asked(place, lambda found: found.cancel(job, reason)), as_json=as_json)
    return 0


@binder_command.command("status")
@_asks
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(*, place: BinderAddress, as_json: bool) -> int:
    """Show the numbers of a binder; for the owner of an admin's token."""
    found = _asked(place, lambda found: found.status(), admin=True)
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


@binder_command.command("revoke")
@click.argument("token_id", metavar="ID")
@_asks
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def revoke(*, token_id: str, place: BinderAddress, as_json: bool) -> int:
    """Refuse the token ID from now on; for the owner of an admin's token."""
    until = time.time() + 87_600 * 3600
    _asked(place, lambda found: found.revoke(token_id, until), admin=True)
    if as_json:
        print_json({"revoked": token_id})
    else:
        print(printable(f"{token_id} is refused from now on"))
    return 0


@binder_command.command("connect")
@click.argument("file")
@click.option("--seconds", metavar="SECONDS", type=FiniteRange(0, 86_400), default=60.0,
              show_default=True, help="How long to wait for a slot.")  # fmt: skip
@_asks
@click.option("--json", "as_json", is_flag=True,
              help="Print one line of JSON at the end, on standard error.")  # fmt: skip
def connect_(*, file: str, seconds: float, place: BinderAddress, as_json: bool) -> int:
    """Talk to a pilot: standard input goes to the program of FILE's job, its output comes back.

    Exit status 1 if no slot came in time; standard error says why.
    """
    ad = inputs.one_ad(file)
    sent, got = asyncio.run(_talk(place, ad, seconds))
    if as_json:
        print(f'{{"sent": {sent}, "received": {got}}}', file=sys.stderr)
    return 0


async def _talk(place: BinderAddress, ad: ClassAd, seconds: float) -> tuple[int, int]:
    """Carry bytes both ways until the pilot's side has ended; return how many."""
    from matchmaker.pilots.wire import connect

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
    """Give standard input to a queue, its end as no bytes."""
    # The file itself: a thread that waits for a buffer's lock would abort the process at its end.
    try:
        file = None if sys.stdin is None else sys.stdin.fileno()
    except (OSError, ValueError):
        file = None
    with suppress(RuntimeError, OSError, ValueError, CancelledError):
        while True:
            data = b"" if file is None else os.read(file, 1 << 16)
            asyncio.run_coroutine_threadsafe(typed.put(data), loop).result()
            if not data:
                return
