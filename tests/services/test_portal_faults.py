"""A portal hands orders over to a real Slurm whose commands fail one time in three.

Everything is killed at random: the commands of the portal, the reconcilers, Slurm's controller. The
ledger is lost and rebuilt, and another ledger has the same keys on the same Slurm. The portal does
what the messages say, so that a message that is not true makes a payload start twice, or never. In
the end each order's payload has started once, with the script, the directory, the environment and
the arguments of its order.

``PORTAL_ORDERS`` is the number of orders, and ``PORTAL_SEED`` repeats the choices of a run.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from matchmaker import ClassAd
from matchmaker.delegation import Deadlines, Delegator, Ledger
from matchmaker.delegation.commands import Commands
from matchmaker.delegation.control import load_control
from tests.services import unreliable
from tests.services.breakable import BreakableSlurm, breakable, until
from tests.services.daemons import PATH, ServiceUnavailable, program
from tests.services.portal import Forks, Order, Portal

pytestmark = [pytest.mark.service, pytest.mark.slow]

ORDERS = int(os.environ.get("PORTAL_ORDERS", "40"))
SEED = int(os.environ.get("PORTAL_SEED") or secrets.randbelow(10**6))
RATE = float(os.environ.get("PORTAL_RATE", "0.3334"))
KILLS = 0.4
AT_ONCE = 3 if ORDERS < 200 else 6
# How long nothing may end.
PATIENCE = 300.0

TIMES = {
    "reply": 4.0, "settle": 1.0, "absent": 2.0, "hold": 200.0, "margin": 5.0, "cancel": 2.0,
    "attempts": 4, "backoff": 1.0, "backoff_most": 4.0,
}  # fmt: skip


@attrs.define
class Scene:
    """A portal, its reconcilers, another ledger, and a Slurm that all of them use."""

    slurm: BreakableSlurm
    folder: Path
    chance: random.Random
    portal: Portal
    ends: threading.Event = attrs.Factory(threading.Event)
    waiting: deque[Order] = attrs.Factory(deque)
    wrong: list[BaseException] = attrs.Factory(list)
    events: Counter[str] = attrs.Factory(Counter)
    begun: float = attrs.Factory(time.monotonic)

    @property
    def ledger(self) -> Path:
        return self.folder / "state" / "jobs.db"

    @property
    def over(self) -> bool:
        """Whether every order has ended."""
        return all(order.ended for order in self.portal.orders.values())

    @contextlib.contextmanager
    def beside(self, work: Callable[[], None]) -> Iterator[None]:
        """Some work in a thread, awaited at the end; what it raises ends everything."""

        def guarded() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - raised again by `check`
                self.wrong.append(error)
                self.stop()

        thread = threading.Thread(target=guarded)
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def stop(self) -> None:
        """Ends everything, what waits for the ledger too."""
        self.ends.set()
        self.portal.open_.set()

    def check(self) -> None:
        if self.wrong:
            raise self.wrong[0]

    def tell(self, what: str) -> None:
        """Notes for the report where the time went."""
        every = self.portal.orders.values()
        taken, ended = sum(o.taken is not None for o in every), sum(o.ended for o in every)
        self.portal.said.append(
            f"{time.monotonic() - self.begun:.0f} s: {what}; {taken} handed over, {ended} ended"
        )

    # --- what goes on beside ----------------------------------------------------------------------

    def reconciler(self) -> None:
        """A reconciler that is killed now and then, and begun again from elsewhere."""
        with Forks.started() as forks:
            while not self.ends.is_set():
                self.portal.reconcile(forks)
                self.events["reconcilers killed"] += 1

    def other(self, keys: list[str]) -> None:
        """Another ledger hands over the same keys, and nobody else touches its jobs."""
        place = self.folder / "other"
        place.mkdir()
        system = Commands(load_control("slurm"), environment=self.slurm.environment)
        ledger = Ledger(place / "jobs.db")
        by = Delegator(ledger, system, place / "spool", deadlines=Deadlines(settle=6.0, absent=6.0,
                       backoff=1.0, backoff_most=2.0, reply=5.0, attempts=20))  # fmt: skip
        left = deque(keys)
        while left or any(record.state.live for record in ledger.records(keys)):
            if left:
                key = left.popleft()
                script = f"#!/bin/sh\necho $$ >>'{place}/ran-{key}'\nsleep 3\n".encode()
                by.submit(ClassAd(), script, ["--output=/dev/null"], key=key, directory=place,
                          environment=self.slurm.environment)  # fmt: skip
            by.reconcile()
            if self.ends.wait(0.5) and self.wrong:
                return
        for key in keys:
            record = ledger.get(key)
            starts = (place / f"ran-{key}").read_text().split()
            assert (key, str(record.state), len(starts)) == (key, "done", 1), ledger.history(key)

    # --- what is broken ---------------------------------------------------------------------------

    def kill_controller(self) -> None:
        """Kills the controller while no payload runs: Slurm ends those that it has not saved."""
        for name in ("main", "other"):
            self.slurm.command("scontrol", "update", f"PartitionName={name}", "State=DOWN")
        until(
            lambda: not self.slurm.command("squeue", "-h", "-t", "R,CG"),
            "that no job runs",
            PATIENCE,
        )
        self.slurm.just_saved()
        self.tell("nothing runs")
        # What it acknowledges from now on is lost.
        time.sleep(self.chance.uniform(0, 4))
        self.slurm.kill()
        time.sleep(self.chance.uniform(0, 2))
        self.slurm.start()
        for name in ("main", "other"):
            self.slurm.command("scontrol", "update", f"PartitionName={name}", "State=UP")
        self.events["controllers killed"] += 1
        self.tell("a new controller")

    def lose_ledger(self, forks: Forks) -> None:
        """Removes the ledger while calls are under way; makes it anew as the page says."""
        portal = self.portal
        portal.open_.clear()
        self.tell("the ledger is lost")
        for end in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self.ledger}{end}").unlink()
        self._rebuild(forks)
        until(portal.idle, "the end of the calls", PATIENCE)
        # What was handed over meanwhile is in the file that was removed, and in the spool.
        for _ in range(20):
            done = portal.call(forks, ["jobs", "--check"], kills=0.0)
            if done.status == 0:
                break
            portal.said.append(f"check {done.status}: {done.out}{done.err}")
            self._rebuild(forks)
        else:
            raise AssertionError(f"the ledger is not sound: {portal.said[-3:]}")
        portal.open_.set()
        self.tell("the ledger is rebuilt")
        self.events["ledgers lost"] += 1

    def _rebuild(self, forks: Forks) -> None:
        for _ in range(40):
            done = self.portal.call(forks, ["jobs", "--rebuild", "slurm"], kills=KILLS)
            if done.status == 0:
                return
            self.portal.said.append(f"rebuild {done.status}: {done.err}")
        raise AssertionError(f"the ledger cannot be rebuilt: {self.portal.said[-3:]}")

    # --- the whole --------------------------------------------------------------------------------

    def hand_over(self) -> None:
        """Hands over what waits, until everything has ended."""
        with Forks.started() as forks:
            while not self.ends.is_set() and not self.over:
                orders = self.taken()
                if orders:
                    self.portal.hand_over(orders, forks, kills=KILLS)
                else:
                    time.sleep(0.2)

    def taken(self) -> list[Order]:
        """The next order, with others that go into the same file."""
        with self.portal.lock:
            some = [self.waiting.popleft()] if self.waiting else []
            while some and len(some) < 5 and some[0].way == "file" and self.waiting:
                if self.waiting[0].way != "file":
                    break
                some.append(self.waiting.popleft())
        return some

    def follow(self) -> None:
        """Follows all orders to their ends; those that must be handed over again wait for that."""
        chance = random.Random(f"{self.portal.seed} follow")
        ended, last = -1, time.monotonic()
        with Forks.started() as forks:
            while not self.ends.is_set() and not self.over:
                for order in self.portal.look(forks, chance, kills=KILLS):
                    order.taken = None
                    self.waiting.append(order)
                now = sum(order.ended for order in self.portal.orders.values())
                if now > ended:
                    ended, last = now, time.monotonic()
                    self.tell("they go on")
                if time.monotonic() > last + PATIENCE:
                    left = [(o.key, o.state) for o in self.portal.orders.values() if not o.ended]
                    queue = self.slurm.command("squeue", "-t", "all", "-o", "%i %j %T %r %S")
                    raise AssertionError(f"no end of {left[:9]}; {queue}")
                self.ends.wait(1.0 + ORDERS / 200)

    def breaks(self, forks: Forks) -> None:
        """Kills the controller and loses the ledger, spread over all orders."""
        some = max(1, ORDERS // 150)
        whats = [self.kill_controller] * (2 * some)
        whats += [lambda: self.lose_ledger(forks)] * max(1, min(4, some))
        self.chance.shuffle(whats)
        for number, what in enumerate(whats):
            least = ORDERS * (number + 1) // (len(whats) + 1)
            while sum(order.taken is not None for order in self.portal.orders.values()) < least:
                if self.ends.wait(0.1):
                    return
            what()

    def play(self) -> None:
        """Everything at once, to the end."""
        self.waiting.extend(self.portal.order(f"p{n}", self.chance) for n in range(ORDERS))
        # Files of several have neighbours.
        self.waiting = deque(sorted(self.waiting, key=lambda o: (int(o.nonce[1:]) // 9, o.way)))
        shared = [order.nonce for order in self.portal.orders.values() if order.key is not None]
        shared = self.chance.sample(shared, max(2, len(shared) // 10))
        with self.beside(self.reconciler), self.beside(self.reconciler):
            try:
                with contextlib.ExitStack() as works:
                    works.enter_context(self.beside(lambda: self.other(shared)))
                    for _ in range(AT_ONCE):
                        works.enter_context(self.beside(self.hand_over))
                    works.enter_context(self.beside(self.follow))
                    # In this thread, with whose end the controller would end.
                    try:
                        with Forks.started() as forks:
                            self.breaks(forks)
                    except BaseException:
                        self.stop()
                        raise
            finally:
                self.stop()

    def faults_of(self, order: Order) -> list[str]:
        """What is wrong with an order in the end."""
        starts = self.portal.starts(order)
        if len(starts) != 1:
            names = [start.name for start in starts]
            return [f"{order.nonce} ({', '.join(order.keys)}) started {len(starts)} times: {names}"]
        (start,) = starts
        found = []
        number = start.environment.get("PORTAL_CALL")
        call = next((each for each in order.calls if str(each.number) == number), None)
        if call is None:
            return [f"{order.nonce} has the environment of no call of its own: {number}"]
        if order.taken is not None and call.number > order.taken:
            found.append(f"{order.nonce} is of call {number}, and was on record by {order.taken}")
        if start.directory != str(call.directory):
            found.append(f"{order.nonce} ran in {start.directory}, not in {call.directory}")
        differs = [
            name for name, text in call.environment.items()
            if not name.startswith("CLASSAD_") and start.environment.get(name) != text
        ]  # fmt: skip
        if start.environment.get("FROM_AD") != order.nonce:
            differs.append("FROM_AD")
        extra = [n for n in start.environment if n.startswith(("CLASSAD_", "ONLY_", "RECONCILER"))]
        differs += [name for name in extra if name not in call.environment or "CLASSAD" in name]
        if differs:
            found.append(f"{order.nonce} has another environment: {differs}")
        if order.arguments != start.arguments:
            found.append(f"{order.nonce} has the arguments {start.arguments}")
        if start.umask != call.umask:
            found.append(f"{order.nonce} has the umask {start.umask:o}, not {call.umask:o}")
        return found


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    real = {name: program(name) for name in unreliable.KINDS}
    tmp_path.chmod(0o755)
    (tmp_path / "state").mkdir()
    (tmp_path / "faults").mkdir()
    place = unreliable.install(tmp_path / "faults", real, SEED, rate=RATE, hangs=ORDERS // 40)
    try:
        with breakable(("n1",), cpus=8, min_age=20) as slurm:
            conf = slurm.folder / "slurm.conf"
            line = "PartitionName=other Nodes=n1 MaxTime=UNLIMITED State=UP\n"
            conf.write_text(conf.read_text() + line)
            slurm.command("scontrol", "reconfigure")
            until(lambda: "other" in slurm.command("sinfo", "-h", "-o", "%R"), "a second partition")
            settings = {
                "CLASSAD_LEDGER": str(tmp_path / "state" / "jobs.db"),
                "CLASSAD_SPOOL": str(tmp_path / "state" / "our spool"),
                "CLASSAD_DEADLINES": ",".join(f"{n}={v:g}" for n, v in TIMES.items()),
            }
            site = {"SLURM_CONF": slurm.environment["SLURM_CONF"]}
            paths = [str(place), *PATH.split(os.pathsep)]
            portal = Portal(tmp_path / "portal", SEED, settings, paths, site)
            yield Scene(slurm, tmp_path, random.Random(SEED), portal)
    except ServiceUnavailable as error:
        pytest.skip(f"no Slurm here: {error}")


def test_every_order_ends_once_as_it_was_given(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        scene.play()
    finally:
        portal = scene.portal
        found = [line for order in portal.orders.values() for line in scene.faults_of(order)]
        calls, faults = unreliable.seen(scene.folder / "faults")
        keys = sum(len(order.keys) for order in portal.orders.values())
        counts = {
            **portal.tally,
            **scene.events,
            **{f"{name} calls": n for name, n in calls.items()},
        }
        said = (
            f"portal: seed {SEED}, {len(portal.orders)} orders, {keys} keys,"
            f" {time.monotonic() - scene.begun:.0f} s, {sum(faults.values())} faults of"
            f" {len(faults)} kinds, {len(found)} wrong; "
            + ", ".join(f"{number} {what}" for what, number in counts.items())
        )
        with capsys.disabled():
            sys.stdout.write(f"\n{said}\n")
        if "PORTAL_REPORT" in os.environ:
            lines = (said, *found, *map(str, scene.wrong), *portal.said)
            Path(os.environ["PORTAL_REPORT"]).write_text("\n".join(lines) + "\n")
    scene.check()
    assert not found, "\n".join(found[:20])
