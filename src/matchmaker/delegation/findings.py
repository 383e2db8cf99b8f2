"""Whether a ledger is sound: its database, its rows, and the jobs that it should know.

Findings are words for people. :func:`~matchmaker.delegation.reconcile.rebuild` repairs; here
:func:`prune` alone changes a ledger.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from matchmaker.delegation.observation import Silence
from matchmaker.delegation.spool import SharedSpool

if TYPE_CHECKING:
    from matchmaker.delegation.contact import Spool
    from matchmaker.delegation.ledger import Ledger

_NAMED: Final = 5
"""How many jobs a finding names."""


def check(ledger: Ledger, spool: Spool | None = None) -> list[str]:
    """The faults of a ledger, one finding a line; nothing if it is sound.

    Args:
        ledger: the ledger, every row of which is read.
        spool: the records of starts and ends, whose jobs the ledger should know; None to leave
            them out.

    Raises LedgerError where the ledger cannot be read for another reason than damage.
    """
    damage = ledger.check()
    if damage:
        return damage
    found = [f"{row.key}: {row.why}" for row in ledger.unreadable()]
    unknown = unknown_to(ledger, spool) if spool is not None else []
    if isinstance(unknown, Silence):
        return [*found, f"the spool cannot be read: {unknown.reason}"]
    if unknown:
        more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        found.append(
            f"the ledger does not know jobs that the spool has: "
            f"{', '.join(unknown[:_NAMED])}{more}; classad jobs --rebuild takes them in"
        )
    return found


def unknown_to(ledger: Ledger, spool: Spool) -> list[str] | Silence:
    """The keys of jobs that the spool has and the ledger has not, as after the loss of its file."""
    kept = spool.attempts()
    if isinstance(kept, Silence):
        return kept
    keys = {key for key, _ in kept}
    return sorted(keys - ledger.known(keys))


def prune(ledger: Ledger, before: float) -> tuple[int, list[tuple[str, str]]]:
    """Removes the records of jobs that ended before a time, and what their spools have of them.

    Gives how many are gone, and what could not be done, by key: such a record stays.
    """
    gone, last = 0, ""
    troubles: list[tuple[str, str]] = []
    while some := ledger.ended(before, after=last):
        last = some[-1].key
        left = []
        for record in some:
            done = SharedSpool(Path(record.spool)).forget(record.key, record.digest)
            if isinstance(done, Silence):
                troubles.append((record.key, done.reason))
            else:
                left.append(record)
        gone += ledger.remove(left)
    if gone:
        ledger.drop_contents()
    return gone, troubles
