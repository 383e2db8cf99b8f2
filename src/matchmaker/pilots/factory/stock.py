"""What became of the pilots that a factory submitted: from records and reports to supply.

Pure: from the factory's rows, the ledger's records and what pilots report of themselves come the
rows as they should be written, the pilots of a snapshot, and the records that estimates rest on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import attrs

from matchmaker.classad import ClassAd
from matchmaker.delegation.record import Record, State
from matchmaker.pilots.policy.estimates import PilotRecord
from matchmaker.pilots.policy.snapshot import Pilot, PilotState

if TYPE_CHECKING:
    from matchmaker.pilots.factory.services import Row

_QUEUED: Final = frozenset({State.INTENT, State.UNKNOWN, State.PREPARED, State.COMMITTED})
_LOST: Final = frozenset({State.FAILED, State.LOST, State.PAUSED})


@attrs.frozen(slots=True)
class Word:
    """What a pilot says of itself.

    Attributes:
        state: starting, idle, busy or draining.
        since: when it said so, in seconds since 1970 by the storage's clock.
        ad: its ad; None where it gives none.
        asked_to_end: whether it has been asked to end.
    """

    state: PilotState
    since: float
    ad: ClassAd | None = None
    asked_to_end: bool = False


@attrs.frozen(slots=True)
class Reports:
    """The words of pilots by key; ``kept`` is whether there is a place for them that was read."""

    words: Mapping[str, Word] = attrs.Factory(dict)
    kept: bool = False


def settled(row: Row, record: Record | None, word: Word | None, early: float, *, kept: bool) -> Row:
    """The row of a pilot after a look at the ledger.

    A pilot has failed if it ended or was paused without a start, or with an error within ``early``
    seconds of it, and nobody had cancelled it; or, where pilots report (``kept``), without having
    asked for work.
    Where a start was missed between two looks, the end stands for it.
    """
    if record is None or not row.live:
        return row
    if record.state is State.RUNNING and row.started is None:
        return attrs.evolve(row, started=max(record.since, row.submitted))
    if record.state.live and record.state is not State.PAUSED:
        return row
    ended = max(record.since, row.submitted)
    started = row.started
    if started is None and (record.exit is not None or word is not None):
        started = ended
    bad = record.state in _LOST or record.exit not in {None, 0}
    ended_by_us = record.state is State.CANCELLED or record.cancel_wanted
    early_end = started is None or ended - started <= early
    silent = kept and word is None and started is not None
    return attrs.evolve(
        row, started=started, ended=ended, live=False,
        failed=not ended_by_us and ((bad and early_end) or silent), reason=record.reason[:300],
    )  # fmt: skip


def pilot(row: Row, record: Record | None, reports: Reports, wall: float) -> Pilot:
    """A live row as a pilot of a snapshot.

    A pilot that runs and cannot say more is busy: what is not known to be idle is not ended, and
    no supply.
    """
    word = reports.words.get(row.key)
    if record is None or (record.state in _QUEUED and word is None):
        return Pilot(key=row.key, queue=row.queue, state=PilotState.QUEUED, since=row.submitted)
    started = row.started if row.started is not None else (word.since if word else row.submitted)
    since = started if word is None else word.since
    if record.state is State.CANCELLING:
        state = PilotState.DRAINING
    elif word is None:
        state = PilotState.STARTING if reports.kept else PilotState.BUSY
    elif word.asked_to_end and word.state is not PilotState.BUSY:
        state = PilotState.DRAINING
    else:
        state = word.state
    return Pilot(
        key=row.key, queue=row.queue, state=state, since=since,
        ends=started + wall if math.isfinite(wall) else None,
        ad=word.ad if word is not None else None,
    )  # fmt: skip


def histories(rows: Iterable[Row]) -> dict[str, list[PilotRecord]]:
    """The records of each queue, in the order of submission."""
    found: dict[str, list[PilotRecord]] = {}
    for row in rows:
        found.setdefault(row.queue, []).append(
            PilotRecord(
                submitted=row.submitted, started=row.started, ended=row.ended, failed=row.failed
            )
        )
    return found
