"""What ``classad renew``, ``cancel`` and ``acknowledge`` have in common: some keys, one act."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from matchmaker.cli import transfers
from matchmaker.cli.output import print_json, show, table, warn

if TYPE_CHECKING:
    from matchmaker.delegation import Delegator, Record


def act(
    place: transfers.Place,
    keys: tuple[str, ...],
    do: Callable[[Delegator, str], Record],
    *,
    as_json: bool,
) -> int:
    """Does something for each job, and prints what became of it.

    Exit status 1, with the reason on standard error, if the state of a job does not allow it, or
    the job may not know of it; the others are done.
    """
    from matchmaker.delegation import NotPossibleError, UnansweredError

    rows: list[tuple[Record, str]] = []
    with transfers.opened(place) as ledger:
        # A mistyped key is found before anything is done.
        made = {key: transfers.delegator_of(place, ledger, key) for key in keys}
        for key, delegator in made.items():
            try:
                rows.append((do(delegator, key), ""))
            except (NotPossibleError, UnansweredError) as error:
                rows.append((delegator.job(key), str(error)))
                warn(str(error))
    if as_json:
        print_json([
            {**transfers.record_data(record), "refused": why or None} for record, why in rows
        ])  # fmt: skip
    else:
        cells = [
            [record.key, record.state, "" if record.exit is None else record.exit,
             transfers.short(record.reason)]
            for record, _ in rows
        ]  # fmt: skip
        show(table(["key", "state", "exit", "why"], cells, right=(2,), whole=(0,)))
    return 1 if any(why for _, why in rows) else 0
