"""Never or later: what matches once the jobs end that divide the machines now.

The ad of a partitionable slot has in ``Cpus`` and ``Memory`` what its jobs leave, and in
``TotalSlotCpus`` and ``TotalSlotMemory`` what the machine gives. A job that the rest is too small
for matches when others end; one that the whole is too small for never does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs
import numpy as np

from matchmaker.classad.nodes import Attr, ListExpr
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.parser import parse_expr
from matchmaker.matching.columns.column import Coded, Column, Rows, Table, narrowest
from matchmaker.matching.columns.contents import MISSING
from matchmaker.matching.columns.evaluator import own_values
from matchmaker.matching.columns.forms import settled
from matchmaker.matching.columns.kept import Cache
from matchmaker.matching.columns.sparse import Shown
from matchmaker.matching.columns.step_budget import OverworkError
from matchmaker.matching.columns.vectors import Mask, is_true
from matchmaker.matching.columns.views import View
from matchmaker.matching.explanation.counts import Counts
from matchmaker.matching.explanation.elements import Elements
from matchmaker.matching.explanation.limits import LIMITS
from matchmaker.matching.explanation.report import Later, Suggestion
from matchmaker.matching.explanation.suggestions import suggestions
from matchmaker.matching.snapshot import Snapshot
from matchmaker.matching.states import State

_TOTAL: Final = "totalslot"
_PARTITIONABLE: Final = "partitionableslot"
_DYNAMIC: Final = "dynamicslot"
_GPUS: Final = ("availablegpus", "assignedgpus", "offlinegpus")

_ENDING: Final = (
    State.FREE, State.CLAIMED, State.DRAINING, State.RESERVED, State.FULL, State.UNSAID,
)  # fmt: skip
"""Whether a slot takes jobs again when those that it has end."""


def columns_of_machines(names: Iterable[str]) -> set[str]:
    """The attributes, folded, that say how large a machine is as a whole, and what it divides."""
    known = set(names)
    totals = {name for name in known if _divided(name) in known}
    divided = {_divided(name) for name in totals}
    return totals | divided | ({_PARTITIONABLE, _DYNAMIC, *_GPUS} & known)


def _divided(folded: str) -> str:
    """The attribute of the rest: ``cpus`` of ``totalslotcpus``, and nothing of another."""
    # TotalSlots is the number of slots of a machine.
    return folded.removeprefix(_TOTAL) if folded.startswith(_TOTAL) and folded[9:] != "s" else ""


@attrs.frozen(slots=True, eq=False)
class Machines:
    """A pool whose jobs have ended: partitionable slots are whole, dynamic ones are gone."""

    snapshot: Snapshot
    partitionable: Mask

    @classmethod
    def of(cls, pool: Snapshot) -> Machines | None:
        """The pool as it is then; None where no slot is partitionable."""
        view = pool._view
        parts = _where(view, _PARTITIONABLE)
        if not parts.any():
            return None
        rows = np.flatnonzero(parts)
        held = dict(view.held)
        for name in list(held):
            rest = _divided(name)
            if rest in held:
                held[rest] = _filled(
                    held[rest], view.size, rows, held[name].contents(rows.tolist())
                )
        if _GPUS[0] in held and _GPUS[1] in held:
            lists = [_gpus(view, row) for row in rows.tolist()]
            held[_GPUS[0]] = _filled(held[_GPUS[0]], view.size, rows, lists)
        alive = ~_where(view, _DYNAMIC)
        if view.alive is not None:
            alive &= view.alive
        columns = Shown(held) if isinstance(view.columns, Shown) else held
        then = attrs.evolve(view, columns=columns, alive=None if alive.all() else alive)
        return cls(Snapshot(then, Cache(pool._cache.limits)), parts)


def _where(view: View, folded: str) -> Mask:
    found = np.zeros(view.size, np.bool_)
    if folded in view.columns:
        rows = view.rows()
        found[rows] = is_true(own_values(view, parse_expr(f"MY.{folded} is true"), rows), len(rows))
    return found


def _filled(column: Column, size: int, rows: Rows, contents: list[Any]) -> Column:
    """A column with other contents in some rows, where these are not missing."""
    every = column.contents(range(size))
    for row, content in zip(rows.tolist(), contents, strict=True):
        if content is not MISSING:
            every[row] = content
    table = Table((MISSING,))
    codes = np.array(table.codes(every), np.uint32)
    return settled(Coded(codes.astype(narrowest(len(table))), table), size)


def _gpus(view: View, row: int) -> Any:
    """The list of all GPUs of a machine: of GPU-1a2b it is the attribute GPUs_GPU_1a2b."""
    said = [view.columns[name].get(row) if name in view.columns else "" for name in _GPUS[1:]]
    if not isinstance(said[0], str):
        return MISSING
    assigned, offline = (
        [one.strip() for one in text.split(",") if one.strip()] if isinstance(text, str) else []
        for text in said
    )
    names = [f"GPUs_{one.replace('-', '_')}" for one in assigned if one not in offline]
    # Where the ad does not describe each of them, the list stays as it is.
    described = all(
        (column := view.columns.get(ascii_fold(name))) is not None
        and column.get(row) is not MISSING
        for name in names
    )
    return ListExpr(tuple(Attr(None, name, False) for name in names)) if described else MISSING


def later(counts: Counts) -> tuple[Later, Counts] | None:
    """How many slots match now, when their jobs end, and never; and the clauses then.

    None where no slot is partitionable, or where that takes too much. ``counts.later`` gets the
    slots that match then and not now.
    """
    machines = Machines.of(counts.pool)
    if machines is None:
        return None
    try:
        then = Counts(machines.snapshot, counts.job, counts.own_names)
    except OverworkError:
        return None
    counts.later = then.matching & ~counts.matching
    alive = then.view.alive
    matching = counts.matching if alive is None else counts.matching & alive
    free = _of_states(counts, matching, (State.FREE,)) if counts.states.said else matching
    ever = then.matching | matching
    ending = _of_states(then, ever, _ENDING) & ~free
    never = then.total - int(ever.sum())
    now, soon = int(free.sum()), int(ending.sum())
    found = Later(now, soon, never, then.total - now - soon - never, counts.states.said)
    return found, then


def lasting(then: Counts, found: Iterable[Suggestion]) -> tuple[Suggestion, ...]:
    """The changes that gain slots that would never match, however many jobs end."""
    known = {(one.what, one.after) for one in found}
    best = suggestions(then, Elements(then))
    fresh = [one for one in best if (one.what, one.after) not in known]
    return tuple(attrs.evolve(one, free=None) for one in fresh[: LIMITS.lasting])


def _of_states(counts: Counts, mask: Mask, states: Iterable[State]) -> Mask:
    rows = np.flatnonzero(mask)
    codes = counts.states.codes(counts.job, rows)
    order = list(State)
    found = np.zeros(len(mask), np.bool_)
    found[rows[np.isin(codes, [order.index(state) for state in states])]] = True
    return found
