"""The picture and the table of states in docs/delegation.md are those of the program."""

from __future__ import annotations

import re
from pathlib import Path

from matchmaker.delegation.moves import BY_OWNER, MOVES
from matchmaker.delegation.record import LIVE
from matchmaker.delegation.record import JobState as State
from matchmaker.delegation.states import WAITS

PAGE = (Path(__file__).parents[2] / "docs" / "delegation.md").read_text("utf-8")
TABLE = {*((s, m.target) for m in MOVES for s in m.sources), *BY_OWNER}


def test_the_picture_shows_every_move() -> None:
    arrows = re.findall(r"^    (\S+) --> (\S+)$", PAGE, re.MULTILINE)
    shown = {(State(a), State(b)) for a, b in arrows if "[*]" not in {a, b}}
    assert shown == TABLE
    assert ("[*]", "intent") in arrows


def test_the_table_has_every_move_in_order() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| `(\w+)` \| (.+) \|$", PAGE, re.MULTILINE)
    found = [(tuple(re.findall(r"\w+", sources)), target, when) for sources, target, when in rows]
    assert found[:-1] == [
        (tuple(str(s) for s in move.sources), str(move.target), move.when) for move in MOVES
    ]


def test_every_live_state_waits_for_something() -> None:
    assert WAITS.keys() == LIVE
    section = PAGE.partition("| state | waits for")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| [^`|]+ \| [^`|]+ \|$", section, re.MULTILINE)
    assert rows == [str(state) for state in State if state in LIVE]


def test_every_state_can_be_reached_and_left() -> None:
    for state in State:
        assert state is State.INTENT or any(target is state for _, target in TABLE)
        assert state is State.ACKNOWLEDGED or any(source is state for source, _ in TABLE)
        if not state.live:
            assert {t for s, t in TABLE if s is state} <= {State.ACKNOWLEDGED}, "terminal once"
