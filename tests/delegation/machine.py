"""A Hypothesis state machine: delegators over a world that goes wrong, and what must hold.

Whatever happens, no payload starts twice, no job is lost, and every record is terminal or has a
deadline ahead. At the end the faults stop, and every job must come to its end.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from matchmaker import parse_ad
from matchmaker.delegation import moves
from matchmaker.delegation.database import LedgerError
from matchmaker.delegation.delegate import Delegator
from matchmaker.delegation.record import Deadlines, Record, UnansweredError
from matchmaker.delegation.record import JobState as State
from matchmaker.delegation.states import NotPossibleError
from tests.delegation.world import Killed, MemoryLedger, World

AD: Final = parse_ad("[ a = 1 ]")
DEADLINES: Final = Deadlines(lease=2000.0, attempts=3, backoff=40.0)
KEYS: Final = ("a", "b", "c", "d", "e", "f")

FAULTS: Final = (
    ("park", "nothing"), ("park", "nothing"), ("park", "refused"), ("park", "refused twice"),
    ("park", "lost"), ("park", "late"), ("park", "twice"), ("park", "killed"),
    ("look", "silent"), ("look", "stale"), ("recall", "silent"), ("marks", "silent"),
    ("release", "nothing"), ("release", "lost"), ("cancel", "nothing"), ("cancel", "lost"),
    ("prepare", "nothing"), ("prepare", "lost"), ("commit", "nothing"), ("commit", "lost"),
    ("forbid", "nothing"), ("forbid", "lost"), ("renew", "nothing"),
    ("ledger", "fails"), ("ledger", "killed"), ("ledger", "killed after"),
)  # fmt: skip

SECONDS: Final = (1.0, 6.0, 12.0, 35.0, 35.0, 120.0)

Ill = tuple[Sequence[tuple[str, str]], int | None, int, int]
"""Faults of the calls that follow, when the delegator is killed, and which other comes between."""


NO_ILL: Final[Ill] = ((), None, 0, 0)


def _ill(chance: Random) -> Ill:
    """One of many ills, or none."""
    return (
        chance.choices(FAULTS, k=chance.choice([0, 1, 1, 2, 3])),
        chance.choice([None, None, None, chance.randrange(13)]),
        chance.randrange(2),
        chance.choice([0, 0, chance.randrange(1, 11)]),
    )


CHANCES: Final = st.integers(0, 1 << 24).map(Random)
"""A step draws one number, and its parts come from that: drawing takes most of the time."""

TABLE: Final = {
    *((str(s), str(m.target)) for m in moves.MOVES for s in m.sources),
    *((str(s), str(t)) for s, t in moves.BY_OWNER),
    ("new", str(State.INTENT)),
    ("new", str(State.UNKNOWN)),
}


FIGURES: Final = Counter[str]()
"""How many schedules, steps and jobs there were."""


def script() -> Path:
    """A job's script, which nobody runs."""
    path = Path(tempfile.gettempdir()) / "matchmaker-delegation-test.sh"
    if not path.exists():
        path.write_text("#!/bin/sh\n")
    return path


class Transfers(RuleBasedStateMachine):
    """Two delegators, a ledger, some jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.script = script()
        self.world = World()
        self.ledger = MemoryLedger(self.world)
        self.skews = [0.0, 0.0]
        self.clocks_agreed = True
        self.nodes_lost = False
        self.asked = 0

    def delegator(self, number: int) -> Delegator:
        ledger: Any = self.ledger
        return Delegator(
            ledger, self.world, self.world, deadlines=DEADLINES,
            owner=f"d{number}", clock=lambda: self.world.now + self.skews[number],
        )  # fmt: skip

    # --- what may happen ----------------------------------------------------------------------

    @initialize(chance=CHANCES)
    def begin(self, chance: Random) -> None:
        self.world.status = chance.choice([0, 0, 3])
        self.world.length = chance.choice([5.0, 100.0, 700.0])
        self.hand_over(chance)

    def suffer(self, ill: Ill) -> None:
        """What goes wrong in the calls that follow."""
        faults, kill_after, other, wait = ill
        self.world.faults = {}
        for kind, fault in faults:
            self.world.faults.setdefault(kind, []).append(fault)
        self.world.kill_after = kill_after
        self.world.between = None

        def later() -> None:
            nonlocal wait
            wait -= 1
            if wait > 0:
                self.world.between = later
            else:
                self.tried(lambda: self.delegator(other).reconcile())

        if wait:
            self.world.between = later

    @rule(chance=CHANCES)
    def hand_over(self, chance: Random) -> None:
        """Hands the next job over, or the last one again."""
        number = chance.randrange(2)
        self.asked += (chance.random() < 0.5 or not self.asked) and self.asked < len(KEYS)
        self.suffer(_ill(chance))
        key = KEYS[self.asked - 1]
        self.tried(lambda: self.delegator(number).submit(AD, self.script, key=key))
        self.check()

    @rule(chance=CHANCES)
    def look(self, chance: Random) -> None:
        self.looks(chance, _ill(chance))

    @rule(chance=CHANCES)
    def look_undisturbed(self, chance: Random) -> None:
        self.looks(chance, NO_ILL)

    def looks(self, chance: Random, ill: Ill) -> None:
        number, seconds = chance.randrange(2), chance.choice(SECONDS)
        self.suffer(ill)
        for _ in range(chance.randint(1, 5)):
            self.world.pass_time(seconds)
            alone = self.world.between is None or self.clocks_agreed
            if self.tried(lambda: self.delegator(number).reconcile()) and alone:
                self.check_deadlines(number)
            self.check()

    @rule(clean=st.booleans())
    def batch_system_crashes(self, clean: bool) -> None:
        self.world.crash(clean=clean)

    @rule(chance=CHANCES)
    def happens(self, chance: Random) -> None:
        what = chance.choice(["node", "accounting", "clock", "time", "power"])
        if what == "node":
            self.nodes_lost = True
            self.world.lose_node()
        elif what == "accounting":
            self.world.accounting_delay = 90.0 - self.world.accounting_delay
        elif what == "clock":
            self.clocks_agreed = False
            self.skews[chance.randrange(2)] = chance.choice([-3600.0, -60.0, 60.0, 3600.0])
        elif what == "power":
            self.ledger.lose_power()
        else:
            self.world.pass_time(1000.0)

    @rule(chance=CHANCES)
    def owner(self, chance: Random) -> None:
        key = KEYS[max(0, self.asked - 1 - chance.randrange(3))]
        if key in self.ledger.rows:
            self.suffer(_ill(chance))
            act = getattr(
                self.delegator(chance.randrange(2)),
                chance.choice(["cancel", "cancel", "renew", "resume", "acknowledge"]),
            )
            self.tried(lambda: act(key))
            self.check()

    @invariant()
    def counted(self) -> None:
        """One more step."""
        FIGURES["steps"] += 1

    # --- what must hold -----------------------------------------------------------------------

    def tried(self, call: Callable[[], object]) -> bool:
        """Whether a call came to its end; a kill and a refusal are no failures."""
        try:
            call()
        except (Killed, LedgerError, NotPossibleError, UnansweredError):
            return False
        return True

    def check(self) -> None:
        for key, starts in self.world.starts.items():
            assert starts <= 1, f"{key} started {starts} times"
        for record in self.ledger.rows.values():
            assert not record.state.live or record.deadline is not None
            if record.state is State.DONE:
                assert self.world.finished.get(record.key) == 0, "done without an end"
            if record.state is State.CANCELLED and self.clocks_agreed:
                assert record.key not in self.world.runs_of, "cancelled, and it runs"
        for key in self.ledger.rows:
            self.check_log(key)

    def check_log(self, key: str) -> None:
        entries = [(e.source, e.target) for e in self.ledger.history(key)]
        assert entries[0][0] == "new"
        for (_, before), (after, _) in pairwise(entries):
            assert after in {before, "new"}, "the log has a gap"
        assert set(entries) <= TABLE, set(entries) - TABLE

    def check_deadlines(self, number: int) -> None:
        now = self.world.now + self.skews[number]
        for record in self.ledger.live():
            assert record.deadline is not None
            assert record.deadline > now, f"{record.key}: {record.state} is past its deadline"

    def teardown(self) -> None:
        """The faults stop; every job that was asked for must come to its end."""
        FIGURES["schedules"] += 1
        FIGURES["jobs"] += len(self.ledger.rows)
        world = self.world
        world.faults, world.kill_after, world.between = {}, None, None
        world.accounting_delay = world.stale_until = 0.0
        for round_ in range(200):
            if not self.ledger.live() and not world.delayed:
                break
            world.pass_time(11.0 if round_ < 60 else 300.0)
            self.delegator(0).reconcile()
            for record in self.ledger.live():
                if record.state is State.PAUSED:
                    FIGURES["paused"] += 1
                    self.delegator(0).resume(record.key)
            self.check()
        assert not self.ledger.live(), [str(r.state) for r in self.ledger.live()]
        # What is left in the queue of jobs that have ended is taken away.
        for _ in range(3):
            world.pass_time(1000.0)
            self.delegator(1).reconcile()
        self.check()
        assert not [job for job in world.jobs.values() if job.phase not in {"ended", "cancelled"}]
        for record in self.ledger.rows.values():
            self.check_end(record)

    def check_end(self, record: Record) -> None:
        """A payload that ran to its end is not lost, unless its node was."""
        code = self.world.finished.get(record.key)
        if record.state is State.LOST:
            assert code is None or self.nodes_lost or not self.clocks_agreed, "lost, and it ended"
        if code == 0 and not self.nodes_lost:
            wanted = {State.DONE, State.ACKNOWLEDGED}
            if not self.clocks_agreed:
                wanted |= {State.CANCELLED, State.LOST, State.FAILED}
            assert record.state in wanted, f"it ended well and is {record.state}"
