"""Mistakes in the table of moves, such as others make, which the searches must find."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from matchmaker.delegation import states
from matchmaker.delegation.moves import MOVES, Move, Situation
from matchmaker.delegation.record import JobState as State

Table = tuple[Move, ...]


def _first(move: Move) -> Table:
    return (move, *MOVES)


def _no_answer_is_absence() -> Table:
    """What is not shown, even by no answer, is submitted again, and its start is not forbidden."""
    again = next(m for m in MOVES if m.target is State.INTENT and State.COMMITTED in m.sources)

    def unseen(s: Situation) -> bool:
        return not s.alive and s.marks.exit is None and s.record.attempt < s.deadlines.attempts

    return _first(Move((State.COMMITTED,), State.INTENT, "", unseen, again.changes))


def _absence_is_completion() -> Table:
    return _first(
        Move((State.COMMITTED, State.RUNNING), State.DONE, "", lambda s: s.gone,
             lambda s: {"exit": 0})
    )  # fmt: skip


def _cancelled_when_asked() -> Table:
    return _first(Move((State.CANCELLING,), State.CANCELLED, "", lambda s: True))


def _holds_end_unnoticed() -> Table:
    return tuple(m for m in MOVES if m.sources != (State.PREPARED,) or m.target is State.COMMITTED)


PLANTED: Final[dict[str, tuple[Callable[[], Table], str]]] = {
    "no answer is absence": (_no_answer_is_absence, "started 2 times"),
    "absence is completion": (_absence_is_completion, "done without an end"),
    "cancelled when asked": (_cancelled_when_asked, "cancelled, and it runs"),
    "holds end unnoticed": (_holds_end_unnoticed, "past its deadline"),
}


@contextlib.contextmanager
def planted(name: str) -> Iterator[str]:
    """Puts one of the mistakes in place; gives what must be found."""
    table, found = PLANTED[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(states, "MOVES", table())
        yield found
