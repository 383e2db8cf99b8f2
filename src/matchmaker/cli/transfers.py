"""The ledger's options, and jobs that were handed over, for several subcommands.

The library decides the states of a job; here they become a table, JSON and a waiting line.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from matchmaker.classad.errors import shorten
from matchmaker.cli.options import gathered
from matchmaker.cli.output import table, waiting, warn

if TYPE_CHECKING:
    from rich.table import Table

    from matchmaker.delegation import Deadlines, Delegator, Ledger, Reconciliation, Record
    from matchmaker.delegation.contact import Spool

# A look costs the batch system a command; a job settles in 10 seconds at least.
_LOOK_SECONDS: Final = 2.0
# With key, state and exit status before it, a reason fits on a line of a wide terminal.
_SHORT: Final = 90
EARLY: Final = frozenset({"intent", "unknown", "prepared"})
"""The states of a job that may not start yet."""


@attrs.frozen(slots=True)
class LedgerOptions:
    """The places of the records: the ledger's file or URL, and the spool's directory.

    ``cluster`` tells batch systems of one kind apart, if one ledger serves several.
    ``deadlines`` are those that differ from the default, as ``NAME=SECONDS,…``.
    """

    ledger: str | None
    spool: str | None
    cluster: str | None = None
    deadlines: str | None = None

    def name_of(self, system: str) -> str:
        """The name of a batch system in the ledger."""
        return system if self.cluster is None else f"{system}@{self.cluster}"


options = gathered(
    LedgerOptions, "place",
    click.option(
        "--deadlines", metavar="NAME=SECONDS,...", envvar="CLASSAD_DEADLINES",
        help="How long steps may take where that is not the default, such as settle=6,backoff=30.",
    ),
    click.option(
        "--cluster", metavar="NAME", envvar="CLASSAD_CLUSTER",
        help="Which batch system of its kind this is, where one ledger serves several.",
    ),
    click.option(
        "--spool", metavar="DIR", envvar="CLASSAD_SPOOL",
        help="The directory for the records of starts and ends of new jobs, shared with the nodes;"
        " by default beside the ledger's file.",
    ),
    click.option(
        "--ledger", metavar="PLACE", envvar="CLASSAD_LEDGER",
        help="The ledger's file, or the URL of a PostgreSQL; by default in the user's"
        " own state folder.",
    ),
)  # fmt: skip
"""The options for the ledger, the spool and the deadlines; the command gets them as ``place``."""


def state_folder() -> Path:
    """Return the folder for files that outlast the command."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "classad"


def ledger_at(place: LedgerOptions) -> str:
    """The ledger's file or URL; the folder of the default one is made."""
    if place.ledger is not None:
        return place.ledger
    from matchmaker.delegation.database import make_private_folder

    folder = state_folder()
    make_private_folder(folder)
    say_exposed(folder)
    return str(folder / "jobs.db")


def say_exposed(*places: str | Path) -> None:
    """Say on standard error, once, which files and folders others may read."""
    from matchmaker.delegation.database import exposed

    for place in {str(place) for place in places} - _said:
        if "://" not in place and (said := exposed(Path(place))):
            _said.add(place)
            warn(said)


_said: Final[set[str]] = set()


@contextmanager
def opened(place: LedgerOptions) -> Iterator[Ledger]:
    """The ledger, closed at the end. Raises LedgerError."""
    from matchmaker.delegation import Ledger

    ledger = Ledger(ledger_at(place))
    say_exposed(ledger.place)
    try:
        yield ledger
    finally:
        ledger.close()


def delegator(place: LedgerOptions, ledger: Ledger, system: str, *, parallel: int = 4) -> Delegator:
    """Who hands jobs over to a batch system. Raises ValueError for an unknown one."""
    from matchmaker.delegation import Delegator

    spool = spool_of(place, ledger)
    if spool is not None:
        say_exposed(spool.place)
    return Delegator(
        ledger, system, place.spool or "", cluster=place.cluster, parallel=parallel,
        deadlines=deadlines_of(place),
    )  # fmt: skip


def deadlines_of(place: LedgerOptions) -> Deadlines:
    """The deadlines with those given as ``NAME=SECONDS,…``. Raises ValueError for wrong ones."""
    from matchmaker.delegation import Deadlines

    names = [field.name for field in attrs.fields(Deadlines)]
    given: dict[str, float] = {}
    for part in filter(None, (place.deadlines or "").split(",")):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in names or not re.fullmatch(r"[0-9]{1,10}(\.[0-9]{1,9})?", value):
            raise ValueError(
                f"--deadlines: {part[:80]!r} is no NAME=SECONDS; the names are {', '.join(names)}"
            )
        given[name] = float(value)
    return attrs.evolve(Deadlines(), **given)  # type: ignore[arg-type]


def spool_of(place: LedgerOptions, ledger: Ledger) -> Spool | None:
    """Return the spool of a ledger; None if there is none yet, or it is unknown."""
    from matchmaker.delegation.spool import SharedSpool

    root = place.spool or (f"{ledger.place}.spool" if ledger.sqlite else "")
    if not root or (place.spool is None and not Path(root).exists()):
        return None
    return SharedSpool(Path(root))


def delegator_of(place: LedgerOptions, ledger: Ledger, key: str) -> Delegator:
    """Who handed a job over.

    Raises NoJobError for an unknown key, and UsageError for a job of another cluster.
    """
    found = ledger.get(key)
    system, _, cluster = found.cluster.partition("@")
    if found.cluster != place.name_of(system):
        raise click.UsageError(
            f"{key} is at {found.cluster}: give --cluster {cluster or 'no name'}"
        )
    return delegator(place, ledger, system)


def record_data(record: Record) -> dict[str, Any]:
    """A record for ``--json``."""
    data = attrs.asdict(record)
    data["state"] = str(record.state)
    data["code"] = None if record.code is None else str(record.code)
    data["name"] = record.name
    del data["epoch"], data["revision"], data["digest"], data["ledger"]
    return data


def report_data(report: Reconciliation) -> dict[str, Any]:
    """A reconciliation for ``--json``."""
    return {
        "live": report.live,
        "paused": report.paused,
        "moved": [
            {"key": new.key, "from": str(old.state), "to": str(new.state), "reason": new.reason}
            for old, new in report.moved
        ],
        "silence": report.silence,
        "troubles": dict(report.troubles),
        "strangers": report.strangers,
    }


def jobs_table(records: list[Record], now: float, waits: list[str]) -> Table:
    """Make a table of jobs, each with the reason for its wait or its state."""
    rows = [
        [record.key, record.state, record.cluster, record.remote_id or "-",
         span(now - record.created),
         span(record.lease_until - now) if record.state.live else "-", why]
        for record, why in zip(records, waits, strict=True)
    ]  # fmt: skip
    columns = ["key", "state", "batch system", "id", "age", "lease", "why"]
    return table(columns, rows, right=(3, 4, 5), whole=(0, 1))


def short(reason: str) -> str:
    """A reason for one line: what commands print at length is in the job's history.

    >>> short("sbatch: status 1: " + "e" * 300)[-4:]
    'e...'
    """
    return shorten(reason, _SHORT)


def span(seconds: float) -> str:
    """A length of time, to its largest unit.

    >>> span(45), span(7300), span(200_000), span(-3)
    ('45 s', '2 h', '2 d', 'over')
    """
    if seconds < 0:
        return "over"
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"


def until_committed(made: Delegator, record: Record, seconds: float) -> Record:
    """Look again until a job may start or has ended, for `seconds` at most."""
    end = time.monotonic() + seconds
    with waiting(f"{record.key} is {record.state}") as say:
        while record.state in EARLY and time.monotonic() < end:
            time.sleep(min(_LOOK_SECONDS, max(0.0, end - time.monotonic())))
            report = made.reconcile([record.key])
            record = made.job(record.key)
            silent = f"; {report.silence}" if report.silence else ""
            say(f"{record.key} is {record.state}, for {span(time.time() - record.since)}{silent}")
    return record


def all_committed(
    made: Delegator, ledger: Ledger, records: Sequence[Record], seconds: float
) -> dict[str, Record]:
    """Look again until all jobs may start or have ended, for `seconds` at most; by key."""
    end = time.monotonic() + seconds
    found = {record.key: record for record in records}
    early = [key for key, record in found.items() if record.state in EARLY]
    with waiting(f"{len(early)} of {len(found)} jobs may not start yet") as say:
        while early and time.monotonic() < end:
            time.sleep(min(_LOOK_SECONDS, max(0.0, end - time.monotonic())))
            report = made.reconcile(early)
            # The report has only its own moves, and another reconciliation may run.
            found |= {record.key: record for record in ledger.records(early)}
            early = [key for key in early if found[key].state in EARLY]
            silent = f"; {report.silence}" if report.silence else ""
            say(f"{len(early)} of {len(found)} jobs may not start yet{silent}")
    return found
