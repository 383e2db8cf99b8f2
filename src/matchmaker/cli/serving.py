"""``classad binder run`` and ``token``: the service itself, and the tokens of who may connect."""

from __future__ import annotations

import asyncio
import gc
import ssl
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import click

from matchmaker.cli.output import print_json, printable, warn
from matchmaker.cli.transfers import say_exposed, state_folder

PORT: Final = 9675
_HOURS: Final = 24.0


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


@click.command("run")
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
@click.option("--most-output", metavar="MIB", type=click.FloatRange(0), default=16.0,
              show_default=True, help="How much a job may give back of its output, of its errors,"
              " and of its files.")  # fmt: skip
@click.option("--most-stored", metavar="MIB", type=click.FloatRange(0), default=1024.0,
              show_default=True, help="How much of this is stored for each client.")  # fmt: skip
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


@click.command("token")
@click.argument("scope", type=click.Choice(["client", "pilot", "factory", "admin"]))
@click.argument("subject")
@_FOLDER
@click.option("--name", metavar="NAME", default="binder", show_default=True,
              help="The binder's name.")  # fmt: skip
@click.option("--hours", metavar="HOURS", type=click.FloatRange(0.01, 87_600), default=_HOURS,
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
