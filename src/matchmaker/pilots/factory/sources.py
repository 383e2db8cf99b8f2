"""Readers of a factory's sources: queues, demand, and the reports of pilots.

A reader either returns all that its source says or raises :class:`SilentError`: an error is not
zero. What is made of the answers is in :mod:`~matchmaker.pilots.factory.inventory`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from matchmaker._files import plain
from matchmaker.batch import NoFlagsError, describe, known_lrms, load_mapping, same_system
from matchmaker.batch.programs import ProgramError, run
from matchmaker.broker import Hosts, merged, route
from matchmaker.broker.routing import local_name
from matchmaker.broker.sources import NAMES
from matchmaker.classad import ClassAd, ParseError, parse_ad, parse_ads, read_ads
from matchmaker.classad.ad import first_text
from matchmaker.classad.errors import printable
from matchmaker.delegation.record import PREFIX
from matchmaker.glue import read as read_glue
from matchmaker.glue import read_ldap
from matchmaker.matching.pair import match
from matchmaker.pilots.factory.inventory import DemandJob, PilotReport, PilotReports, job_of
from matchmaker.pilots.factory.settings import (
    DemandSource,
    FactorySettings,
    QueueSettings,
    QueueSource,
)
from matchmaker.pilots.policy.snapshot import PilotQueue, PilotState

if TYPE_CHECKING:
    from matchmaker.delegation.ledger import Ledger

_MOST_OUTPUT: Final = 256 << 20
"""Bytes that a command may print: the ads of a hundred thousand jobs."""
_MOST_JOBS: Final = 1_000_000
"""Jobs of a source: a factory holds their ads in memory, some kilobytes each."""
_MOST_REPORT: Final = 65_536
"""Bytes of a pilot's report: an ad of a node has a tenth of it."""
_END: Final = ".end"
_LEND: Final = ".lend"
_GIVEN: Final = ".token"


class SilentError(Exception):
    """A source gave no answer that can be relied on; the message says why."""


@attrs.frozen(slots=True, kw_only=True)
class PilotTarget:
    """A queue, and how pilots are submitted to it.

    Attributes:
        queue: the queue, without an estimate.
        site: the name of its site.
        lrms: the kind of its batch system.
        cluster: which of several batch systems of its kind it is at.
        words: options of the command that submits.
    """

    queue: PilotQueue
    site: str
    lrms: str
    cluster: str | None
    words: tuple[str, ...]

    @property
    def system(self) -> str:
        """The batch system, by its name in the ledger."""
        return self.lrms if self.cluster is None else f"{self.lrms}@{self.cluster}"


# --- queues -------------------------------------------------------------------------------------


def written(settings: FactorySettings, queue: QueueSettings) -> PilotTarget:
    """Make a queue of a table ``[[queue]]``."""
    ad = ClassAd({"QueueName": queue.name, "Site": queue.site})
    ad.update(settings.pilot.ad)
    ad.update(queue.ad)
    made = PilotQueue(
        key=queue.name, pilot=ad, wall=queue.wall or settings.pilot.wall,
        max_pilots=queue.max_pilots, max_queued=queue.max_queued, rate=queue.rate,
    )  # fmt: skip
    return PilotTarget(
        queue=made, site=queue.site, lrms=queue.lrms, cluster=queue.cluster, words=queue.words
    )


def described(settings: FactorySettings, source: QueueSource) -> list[PilotTarget]:
    """Read the queues that a source describes. Raises SilentError."""
    try:
        ads = _ads_of(source)
    except (OSError, ValueError) as error:
        raise SilentError(f"{called(source)}: {_said(error)}") from None
    return [
        _place(settings, source, name, ad)
        for name, ad in ads
        if not source.only or name in source.only
    ]


def _ads_of(source: QueueSource) -> list[tuple[str, ClassAd]]:
    if source.describe is not None:
        found = describe(source.describe)
        return [(local_name(ad) or first_text(ad, ("Name",)) or "", ad) for ad in found.queues]
    if source.ldap is not None:
        given = read_ldap(source.ldap, timeout=source.timeout)
        queues = merged([(source.ldap, given)])
    elif source.ldif is not None:
        with Path(source.ldif).open("rb") as file:
            queues = merged([(source.ldif, read_glue(file))])
    else:
        queues = merged([(str(source.ads), list(read_ads(str(source.ads))))])
    if not queues.whole:
        raise ValueError("it was not read to its end")
    return [(queue.name, queue.ad) for queue in queues.all]


def called(source: QueueSource | DemandSource) -> str:
    """Return what messages call a source: its file, its command or its URL."""
    if isinstance(source, DemandSource):
        if source.command is not None:
            return source.command[0] if source.command else "command"
        return source.file or (f"ledger {source.ledger}" if source.ledger else "condor_q")
    return source.ldap or source.ldif or source.ads or str(source.describe)


def _said(error: BaseException) -> str:
    if isinstance(error, ParseError):
        return " ".join(error.summary().split())[:300]
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:300]


_LRMS: Final = ("GlueCEInfoLRMSType", "LRMSType", "BatchSystem")
_MINUTES: Final = "GlueCEPolicyMaxWallClockTime"
_UNLIMITED: Final = 10**8
_SITE: Final = ("GlueSiteUniqueID", "GlueSiteName", "Site")


def _place(settings: FactorySettings, source: QueueSource, name: str, ad: ClassAd) -> PilotTarget:
    lrms, unknown = _system(source.lrms or source.describe or first_text(ad, _LRMS) or "")
    pilot = ad.copy()
    pilot.pop("Requirements", None)
    pilot.pop("Rank", None)
    pilot.update(settings.pilot.ad)
    words, closed = ((), unknown) if unknown else _options(settings, source, name, ad, lrms)
    status = first_text(ad, ("GlueCEStateStatus",))
    if status is not None and status.lower() not in {"production", "queueing"}:
        closed = closed or f"its site says that it is {status}"
    queue = PilotQueue(
        key=name, pilot=pilot, wall=min(_wall(ad), settings.pilot.wall),
        max_pilots=source.max_pilots, max_queued=source.max_queued, rate=source.rate,
        closed=closed,
    )  # fmt: skip
    return PilotTarget(
        queue=queue, site=first_text(ad, _SITE) or source.site, lrms=lrms,
        cluster=source.cluster, words=(*words, *source.words),
    )  # fmt: skip


def _system(published: str) -> tuple[str, str]:
    """Return the batch system that a queue is published with; and why it is not known."""
    name = published.lower()
    of = [name] if name in known_lrms() else [one for one in known_lrms() if same_system(name, one)]
    if len(of) == 1:
        return of[0], ""
    found = f"its batch system is {printable(published)[:60] or 'not named'}"
    meant = f", which may be {' or '.join(of)}" if of else ", which is none that is known"
    return name, f'{found}{meant}: give the source lrms = "…"'


def _wall(ad: ClassAd) -> float:
    """Return the wall time of a queue in seconds; infinite if it names none."""
    minutes = ad.eval(_MINUTES) if _MINUTES in ad else None
    if isinstance(minutes, int | float) and 0 < minutes < _UNLIMITED:
        return minutes * 60.0
    return float("inf")


def _options(
    settings: FactorySettings, source: QueueSource, name: str, ad: ClassAd, lrms: str
) -> tuple[tuple[str, ...], str]:
    """Return the options that follow from the pilot's request; and why there are none."""
    request = settings.pilot.request
    if not match(request, ad).matched:
        return (), "the pilot's request and the queue's requirements do not match"
    try:
        mapping = load_mapping(lrms, source.mapping)
        taken = ad.copy()
        taken["Name"] = name
        found = route(
            request, [taken], Hosts(mapping=mapping), queue=first_text(taken, NAMES) or name
        )
    except (ValueError, OSError) as error:
        return (), _said(error)
    if found.failure is not None:
        return (), _said(found.failure)
    return (found.submission.argv if found.submission is not None else ()), ""


# --- demand -------------------------------------------------------------------------------------


def jobs(source: DemandSource, ledger: Ledger, ours: Collection[str]) -> list[DemandJob]:
    """Read the jobs of a source; not pilots, by their keys `ours`. Raises SilentError."""
    try:
        found = [
            job
            for ad in _job_ads(source, ledger, ours)
            if (job := job_of(ad, source.wall, source.group)) is not None
        ]
    except (OSError, ValueError, ProgramError, NoFlagsError) as error:
        raise SilentError(f"{called(source)}: {_said(error)}") from None
    if len(found) > _MOST_JOBS:
        raise SilentError(f"{called(source)}: more than {_MOST_JOBS} jobs")
    return found


def _job_ads(source: DemandSource, ledger: Ledger, ours: Collection[str]) -> Iterator[ClassAd]:
    if source.file is not None:
        yield from read_ads(source.file)
    elif source.command is not None:
        yield from parse_ads(_printed(source.command, source.timeout))
    elif source.condor is not None:
        text = _printed(("condor_q", *source.condor, "-json"), source.timeout)
        for ad in parse_ads(text, format="json") if text.strip() else ():
            # Pilots, and jobs that were handed over from a ledger.
            if not str(ad.eval("JobBatchName") if "JobBatchName" in ad else "").startswith(PREFIX):
                yield ad
    else:
        yield from _delegated(str(source.ledger), ledger, ours)


def _printed(argv: tuple[str, ...], seconds: float) -> str:
    if not argv:
        raise ValueError("no command is named")
    ended = run(argv, seconds=seconds, most=_MOST_OUTPUT)
    if ended.status != 0:
        said = ended.complaint.decode("utf-8", "replace").strip()
        raise ValueError(f"exit status {ended.status}{': ' if said else ''}{said[:200]}")
    return ended.output.decode("utf-8", "replace")


def _delegated(place: str, own: Ledger, ours: Collection[str]) -> Iterator[ClassAd]:
    from matchmaker.delegation.ledger import Ledger
    from matchmaker.delegation.record import JobState

    ledger = own if place == "." else Ledger(place)
    try:
        for record in ledger.live():
            payload = ledger.payload(record.key) if record.key not in ours else None
            if payload is None or record.state is JobState.CANCELLING:
                continue
            ad = parse_ad(payload.ad)
            ad["Id"] = record.key
            ad["JobStatus"] = 2 if record.state is JobState.RUNNING else 1
            yield ad
    finally:
        if ledger is not own:
            ledger.close()


# --- reports ------------------------------------------------------------------------------------


def reports(folder: str | None) -> PilotReports:
    """Read the pilots' reports in a directory; none, and not kept, if it cannot be read.

    A pilot writes the file of its key, by a rename: its state on the first line (``starting``,
    ``idle``, ``busy`` or ``draining``), and from the second on its ad, if it has one.
    """
    if folder is None:
        return PilotReports()
    try:
        with os.scandir(folder) as entries:
            names = {entry.name for entry in entries}
    except OSError:
        return PilotReports()
    found = {}
    for name in names:
        if not name.endswith((_END, _LEND, _GIVEN)) and not name.startswith("."):
            report = _report(Path(folder, name), asked=f"{name}{_END}" in names)
            if report is not None:
                found[name] = report
    return PilotReports(found, kept=True)


def _report(path: Path, *, asked: bool) -> PilotReport | None:
    try:
        with plain(path) as file:
            since = os.fstat(file.fileno()).st_mtime
            text = file.read(_MOST_REPORT).decode("utf-8", "replace")
    except OSError:
        return None
    first, _, rest = text.partition("\n")
    try:
        state = PilotState(first.strip().split(" ")[0])
    except ValueError:
        state = PilotState.STARTING
    if state is PilotState.QUEUED:
        state = PilotState.STARTING
    return PilotReport(state, since, _own_ad(rest) if rest.strip() else None, asked)


def _own_ad(text: str) -> ClassAd | None:
    with contextlib.suppress(ValueError):
        return parse_ad(text)
    return None


def ask_to_end(folder: str, key: str) -> None:
    """Ask a pilot to end before it takes another job. Raises OSError."""
    Path(folder, f"{key}{_END}").touch()


def give_token(folder: str, key: str, text: str) -> None:
    """Leave a pilot its token, which its account alone may read. Raises OSError."""
    new = Path(folder, f".{key}{_GIVEN}")
    new.unlink(missing_ok=True)
    opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(opened, "w", encoding="ascii") as file:
        file.write(f"{text}\n")
    new.replace(new.with_name(f"{key}{_GIVEN}"))


def lend(folder: str, takes: Mapping[str, str], keys: Collection[str]) -> None:
    """Let pilots take other work, each with the requirement on it; take it back from the rest.

    Args:
        folder: the directory of the reports.
        takes: the text of an expression by the key of each pilot that is lent.
        keys: the pilots that this service may lend.

    Raises:
        OSError: the directory cannot be read or written.
    """
    for key, text in takes.items():
        new = Path(folder, f".{key}{_LEND}")
        new.write_text(f"{text}\n", encoding="utf-8")
        new.replace(new.with_name(f"{key}{_LEND}"))
    for path in Path(folder).glob(f"*{_LEND}"):
        key = path.name.removesuffix(_LEND)
        if key in keys and key not in takes:
            path.unlink(missing_ok=True)


def forget(folder: str | None, key: str) -> None:
    """Remove the files of a pilot: report, requests, and a token that it never used."""
    if folder is not None:
        for name in (key, f"{key}{_END}", f"{key}{_LEND}", f"{key}{_GIVEN}"):
            with contextlib.suppress(OSError):
                Path(folder, name).unlink()
