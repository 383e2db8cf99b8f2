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
import numpy.typing as npt

from matchmaker._limits import EXPLANATION_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import AdExpr, Attr, ListExpr
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.values import is_number
from matchmaker.classad.walks import names_of
from matchmaker.matching.columns.column import Coded, Column, Rows, Table, narrowest
from matchmaker.matching.columns.contents import MISSING
from matchmaker.matching.columns.evaluator import own_values
from matchmaker.matching.columns.forms import settled
from matchmaker.matching.columns.kept import Cache
from matchmaker.matching.columns.sparse import Shown
from matchmaker.matching.columns.step_budget import OverworkError
from matchmaker.matching.columns.vectors import Mask, is_true
from matchmaker.matching.columns.views import Layout, View
from matchmaker.matching.explanation.counts import Counts
from matchmaker.matching.explanation.elements import Elements, listings
from matchmaker.matching.explanation.report import Later, Suggestion
from matchmaker.matching.explanation.suggestions import suggestions
from matchmaker.matching.snapshot import Snapshot
from matchmaker.matching.states import State

_TOTAL: Final = "totalslot"
_PARTITIONABLE: Final = "partitionableslot"
_DYNAMIC: Final = "dynamicslot"
_AVAILABLE: Final = "availablegpus"
_GPUS: Final = (_AVAILABLE, "assignedgpus", "offlinegpus", "totalslotgpus", "totalgpus")
_GPU: Final = "gpus_"
"""How the names begin of attributes that describe one GPU: of GPU-1a2b it is GPUs_GPU_1a2b."""

_ENDING: Final = (
    State.FREE, State.CLAIMED, State.DRAINING, State.RESERVED, State.FULL, State.UNSAID,
)  # fmt: skip
"""Whether a slot takes jobs again when those that it has end."""


def columns_of_machines(names: Iterable[str]) -> set[str]:
    """The attributes, folded, that say how large a machine is as a whole, and what it divides."""
    known = set(names)
    totals = {name for name in known if _divided(name) in known}
    divided = {_divided(name) for name in totals}
    gpus = {name for name in known if name.startswith(_GPU)}
    return totals | divided | gpus | ({_PARTITIONABLE, _DYNAMIC, *_GPUS} & known)


def _divided(folded: str) -> str:
    """The attribute of the rest: ``cpus`` of ``totalslotcpus``, and nothing of another."""
    # TotalSlots is the number of slots of a machine.
    return folded.removeprefix(_TOTAL) if folded.startswith(_TOTAL) and folded[9:] != "s" else ""


@attrs.frozen(slots=True, eq=False)
class Machines:
    """A pool whose jobs have ended: partitionable slots are whole, dynamic ones are gone.

    ``gpus`` is how many GPUs each slot has then, where its ad does not describe all of them now;
    else 0.
    """

    snapshot: Snapshot
    gpus: npt.NDArray[np.int64]

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
        numbers = np.zeros(view.size, np.int64)
        if _AVAILABLE in held:
            gpus = [_gpus(view, row) for row in rows.tolist()]
            numbers[rows] = [number for _, number in gpus]
            lists = [listed for listed, _ in gpus]
            held[_AVAILABLE] = _filled(held[_AVAILABLE], view.size, rows, lists)
        alive = ~_where(view, _DYNAMIC)
        if view.alive is not None:
            alive &= view.alive
        columns = Shown(held) if isinstance(view.columns, Shown) else held
        then = attrs.evolve(view, columns=columns, alive=None if alive.all() else alive)
        return cls(Snapshot(then, Cache(pool._cache.limits)), numbers)


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


def _gpus(view: View, row: int) -> tuple[Any, int]:
    """The list of all GPUs of a machine, and their number if its ad does not describe them all.

    MISSING where the list stays as it is.
    """
    available, assigned, offline, *totals = (
        view.columns[name].get(row) if name in view.columns else MISSING for name in _GPUS
    )
    if available is MISSING:
        return MISSING, 0
    layout: Layout = view.layouts[view.layout[row]]
    described = {
        folded: Attr(None, name, False)
        for folded, name in zip(layout.folded, layout.names, strict=True)
        if folded.startswith(_GPU) and isinstance(view.columns[folded].get(row), (AdExpr, ClassAd))
    }
    off, listed = _attributes(offline), _attributes(assigned)
    names = [name for name in listed or described if name not in off]
    whole = len(names) if listed else int(next(filter(is_number, totals), 0))
    found = [described[name] for name in names if name in described]
    if not found:
        # Where only the list itself describes them, what is in it now is all that is known.
        count = len(available.items) if isinstance(available, ListExpr) else 0
        return MISSING, whole if whole > count else 0
    return ListExpr(tuple(found)), whole if whole > len(found) else 0


def _attributes(ids: Any) -> list[str]:
    """The attributes, folded, of GPUs of which a text lists the ids."""
    words = ids.split(",") if isinstance(ids, str) else []
    return [_GPU + ascii_fold(one.strip().replace("-", "_")) for one in words if one.strip()]


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
        hidden = _hidden(then, machines.gpus)
    except OverworkError:
        return None
    counts.later = then.matching & ~counts.matching
    alive = then.view.alive
    matching = counts.matching if alive is None else counts.matching & alive
    free = _of_states(counts, matching, (State.FREE,)) if counts.states.said else matching
    ever = then.matching | matching
    ending = _of_states(then, ever, _ENDING) & ~free
    perhaps = int((hidden & ~ever).sum())
    never = then.total - int(ever.sum()) - perhaps
    now, soon = int(free.sum()), int(ending.sum())
    other = then.total - now - soon - never - perhaps
    return Later(now, soon, never, other, counts.states.said, perhaps=perhaps), then


def _hidden(then: Counts, gpus: npt.NDArray[np.int64]) -> Mask:
    """The slots for which GPUs decide alone that their ads do not describe."""
    found = np.zeros(then.view.size, np.bool_)
    about = [node for node in then.clauses if _AVAILABLE in names_of(node).attributes]
    own = [one for one in then.held if _AVAILABLE in names_of(one.node).attributes]
    if not gpus.any() or not (about or own):
        return found
    needed = [1.0]
    for listing in (listing for node in about for listing in listings(node, then.job)):
        if listing.needed is not None:
            value = then.value(listing.needed, then.job, ClassAd())
            needed += [value + listing.beyond] if is_number(value) else []
    rows = then.open_but_for(about, own)
    found[rows] = gpus[rows] >= max(needed)
    return found


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
