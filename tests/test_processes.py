"""The library in several processes: forks under load, and what can be sent to another process."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import re
import signal
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import matchmaker as mm
from matchmaker import _locks as locks
from tests.busy import busy

ROOT = Path(__file__).resolve().parents[1]
# Far more than any of it takes, even on a busy machine: only a hang is longer.
DEADLINE = 120.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
]


def slot(name: int, total: int) -> mm.ClassAd:
    """An ad whose attributes agree: free and busy make the total."""
    busy = name * 7919 % (total + 1)
    return mm.ClassAd(
        Name=f"slot{name}", Total=total, Busy=busy, Free=total - busy, Memory=2048,
        Requirements=mm.parse_expr("TARGET.Want >= 0"),
    )  # fmt: skip


SOUND = mm.parse_ad("""[
    Want = 0; Requirements = TARGET.Total == TARGET.Busy + TARGET.Free; Rank = TARGET.Free
]""")
QUEUE = mm.parse_ad('[ CEid = "a"; Site = "x"; Requirements = true ]')


def scope(name: str) -> str:
    return "host" if name.lower() in {"memory", "total", "busy", "free"} else "queue"


def work(number: int, pool: mm.Pool) -> bool:
    """Parses, evaluates, matches and reduces something new; whether all results are right."""
    expression = mm.parse_expr(f"TARGET.Memory + x{number} * {number} >= MY.Want{number}")
    ad = mm.parse_ad(f'[ x{number} = 2; Want{number} = {number}; text{number} = "n{number}" ]')
    value = expression.eval(ad, mm.ClassAd({"Memory": 1, f"x{number}": 2}))
    job = mm.parse_ad(
        f'[ Want = 0; Requirements = TARGET.Memory >= {number} && other.Site == "x" ]'
    )
    residual = mm.reduce(job, QUEUE, scope).residual
    found = pool.match(SOUND)
    fresh = mm.Pool([slot(number, 7), slot(number + 1, 8)])
    return (
        value is True
        and str(residual) == f"other.Memory >= {number}"
        and len(found) >= 300
        and len(fresh.match(SOUND)) == 2
        and ad.eval(f"text{number}") == f"n{number}"
    )


def status_of_child(job: Callable[[], bool]) -> int:
    """What a forked child ends with: 0 where its job came out right; -9 where it hung."""
    child = os.fork()
    if child == 0:
        status = 2
        try:
            status = 0 if job() else 1
        finally:
            os._exit(status)
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def pool() -> mm.Pool:
    made = mm.Pool(slot(number, number % 50) for number in range(300))
    # What is imported when it is first used, is: a lock of Python's imports is none of ours.
    assert work(0, made)
    return made


def test_children_of_a_busy_process_do_the_same_work(pool: mm.Pool) -> None:
    numbers = count(1)

    def working() -> bool:
        return work(next(numbers), pool)

    def changing() -> None:
        number = next(numbers)
        pool.update(slot(number % 400, number % 50))

    def child() -> bool:
        return all(work(number, pool) for number in range(10**6, 10**6 + 20))

    with busy([working, working, changing]):
        assert [status_of_child(child) for _ in range(12)] == [0] * 12


def test_a_pool_is_whole_in_a_child(pool: mm.Pool) -> None:
    numbers = count(1)

    def changing() -> None:
        number = next(numbers)
        pool.update(slot(number % 300, number % 50))

    def child() -> bool:
        return len(pool.match(SOUND)) == 300 and all(
            ad.eval("Total") == ad.eval("Busy") + ad.eval("Free")  # type: ignore[operator]
            for ad in pool
        )

    with busy([changing, changing]):
        assert [status_of_child(child) for _ in range(10)] == [0] * 10


def test_a_fork_waits_for_a_lock_and_renews_it() -> None:
    lock, taken, let_go = locks.Lock(), threading.Event(), threading.Event()
    guarded = []

    def change() -> None:
        with lock:
            guarded.append("half")
            taken.set()
            let_go.wait(0.2)
            guarded.append("whole")

    thread = threading.Thread(target=change)
    thread.start()
    taken.wait()

    def child() -> bool:
        with lock:
            return guarded == ["half", "whole"]

    assert status_of_child(child) == 0
    thread.join()
    with lock:
        pass


def test_a_lock_that_is_never_released_stops_no_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "PATIENCE", 0.05)
    lock, taken, let_go = locks.Lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            let_go.wait()

    def child() -> bool:
        with lock:
            return True

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        assert status_of_child(child) == 0
    finally:
        let_go.set()
        thread.join()


def test_locks_are_made_in_one_place() -> None:
    made = re.compile(
        r"\b(?:threading|_thread)(?:\.| import [\w, ]*)(?:R?Lock|Condition|\w*Semaphore|allocate)"
    )
    sources = (ROOT / "src").rglob("*.py")
    assert {path.name for path in sources if made.search(path.read_text("utf-8"))} == {"_locks.py"}


# --- what is sent to another process --------------------------------------------------------------

JOB = mm.parse_ad("[ Requirements = TARGET.Memory > 1 && TARGET.Cpus >= 2; Rank = TARGET.Cpus ]")
AD = mm.parse_ad("""[
    Name = "a"; Cpus = 4; Memory = Cpus * 1024; Since = absTime("2020-01-01T00:00:00Z");
    Nothing = undefined; Wrong = error; List = { 1, 2.5, real("NaN") }; Inner = [ q = 1 ]
]""")


def results() -> dict[str, object]:
    """One of each kind of object that the library gives."""
    glue = mm.glue.read_ldif(ROOT / "examples/site.ldif")
    pool = mm.Pool([AD, slot(1, 7)])
    pool.remove("slot1")
    reduction = mm.reduce(JOB, QUEUE, mm.glue.scope)
    return {
        "ad": AD,
        "expression": mm.parse_expr("a + b"),
        "undefined": mm.UNDEFINED,
        "error": mm.parse_expr("1 / 0").eval(),
        "match": mm.match(JOB, AD),
        "matches": pool.match(JOB),
        "pool": pool,
        "snapshot": pool.snapshot(),
        "explanation": pool.explain(JOB),
        "explanation of a pair": pool.explain_pair(JOB, "a"),
        "assignment": pool.assign([JOB]),
        "policy": mm.Policy(),
        "plan": pool.plan("TARGET.Cpus > 1"),
        "queues": glue,
        "selection of queues": mm.broker.choose(JOB, glue),
        "choices": list(mm.broker.choose_many([JOB], glue)),
        "route": mm.broker.route(JOB, glue),
        "selection of nodes": mm.nodes.choose(JOB, [AD]),
        "reduction": reduction,
        "submission": mm.batch.flags(mm.reduce(mm.ClassAd(), QUEUE, mm.glue.scope), "slurm"),
        "references": mm.parse_expr("a").references(),
        "findings": mm.lint("a <"),
        "trace": mm.trace(mm.parse_expr("a + 1"), AD),
    }


def plain(thing: object) -> object:
    """What tells one object from another, where it does not do so itself."""
    if isinstance(thing, mm.Pool | mm.Snapshot):
        return [str(ad) for ad in thing], thing.match(JOB).keys
    if isinstance(thing, mm.glue.Glue):
        return [str(ad) for ad in thing.computing_elements()], thing.issues
    return thing


def test_results_are_pickled_and_copied() -> None:
    for kind, thing in results().items():
        again = pickle.loads(pickle.dumps(thing))  # noqa: S301 - made above
        assert plain(again) == plain(thing), kind
        assert plain(copy.deepcopy(thing)) == plain(thing), kind


def test_a_copy_of_a_pool_changes_alone() -> None:
    pool = mm.Pool([slot(1, 7)])
    other = copy.copy(pool)
    other.update(slot(2, 8))
    assert (len(pool), len(other)) == (1, 2)


def test_an_error_in_a_text_is_pickled() -> None:
    with pytest.raises(mm.ParseError) as caught:
        mm.parse_ad("[ a = ")
    context: BaseException | None = caught.value
    while context is not None:  # Dask sends it too
        assert isinstance(context, mm.ParseError)
        context = context.__context__
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - made above
    assert str(again) == str(caught.value)
    assert isinstance(again, mm.ParseError)


def keys_of(pool: mm.Pool, job: mm.ClassAd) -> tuple[mm.ClassAd, mm.Matches]:
    return job, pool.match(job)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_multiprocessing_match(method: str) -> None:
    pool = mm.Pool([AD])
    context: Any = multiprocessing.get_context(method)
    with context.Pool(2) as workers:
        found = workers.starmap(keys_of, [(pool, JOB), (pool, mm.parse_ad("[x = 1]"))])
    assert found == [(JOB, pool.match(JOB)), (mm.parse_ad("[x = 1]"), pool.match(mm.ClassAd()))]
