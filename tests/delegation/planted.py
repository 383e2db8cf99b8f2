"""Mistakes in the table of moves, such as others make, which the searches must find."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

import attrs
import pytest

from matchmaker.delegation import states
from matchmaker.delegation.moves import MOVES, Move
from matchmaker.delegation.record import State
from matchmaker.delegation.situation import Situation

Table = tuple[Move, ...]


def _without(target: State, source: State) -> Table:
    """The table with no move from one state to another."""
    kept = [
        attrs.evolve(move, sources=tuple(s for s in move.sources if s is not source))
        if move.target is target
        else move
        for move in MOVES
    ]
    return tuple(kept)


def _first(move: Move) -> Table:
    return (move, *MOVES)


def _again_unfenced() -> Table:
    """What is gone is submitted again, without a word to the start of the first."""
    again = next(m for m in MOVES if m.target is State.INTENT and State.COMMITTED in m.sources)
    return _first(Move((State.COMMITTED,), State.INTENT, "", lambda s: s.gone, again.changes))


def _absence_is_completion() -> Table:
    return _first(
        Move((State.COMMITTED, State.RUNNING), State.DONE, "", lambda s: s.gone,
             lambda s: {"exit": 0})
    )  # fmt: skip


def _cancelled_when_asked() -> Table:
    return _first(Move((State.CANCELLING,), State.CANCELLED, "", lambda s: True))


def _lease_is_forever() -> Table:
    """Neither a lease that is over nor a wish ends a job that runs."""
    return _without(State.CANCELLING, State.COMMITTED)


def _unknown_is_forever() -> Table:
    """What is not known stays so."""
    found = _without(State.INTENT, State.UNKNOWN)
    return tuple(m for m in found if not (m.target is State.FAILED and State.UNKNOWN in m.sources))


PLANTED: Final[dict[str, tuple[Callable[[], Table], str]]] = {
    "absence is completion": (_absence_is_completion, "done without an end"),
    "cancelled when asked": (_cancelled_when_asked, "cancelled, and it runs"),
}


@contextlib.contextmanager
def planted(name: str) -> Iterator[str]:
    """Puts one of the mistakes in place; gives what must be found."""
    table, found = PLANTED[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(states, "MOVES", table())
        yield found


def silence_is_absence(s: Situation) -> bool:
    """What peers do: no answer counts as no job."""
    return not s.alive
