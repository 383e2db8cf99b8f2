"""Work that threads share: each gets its own result, and errors reach those that they concern."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from matchmaker.delegation.group_commit import GroupCommit


def test_who_comes_meanwhile_is_served_together() -> None:
    first, go = threading.Event(), threading.Event()
    batches: list[int] = []

    def work(asked: Sequence[int]) -> list[int]:
        batches.append(len(asked))
        first.set()
        assert go.wait(30)
        return [2 * each for each in asked]

    double = GroupCommit(work)
    with ThreadPoolExecutor(300) as pool:
        results = [pool.submit(double, 0)]
        assert first.wait(30)
        results += [pool.submit(double, number) for number in range(1, 300)]
        while len(double._queue) < 299:
            pass
        go.set()
        assert [each.result(30) for each in results] == [2 * number for number in range(300)]
    assert batches == [1, 200, 99]


def test_an_error_reaches_who_asked_and_nobody_else() -> None:
    def work(asked: Sequence[int]) -> list[int]:
        return [1 // each for each in asked]

    inverse = GroupCommit(work)
    with pytest.raises(ZeroDivisionError):
        inverse(0)
    assert inverse(1) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_nobody_waiting() -> None:
    """What threads of the parent asked for is not done again in the child."""
    first, go = threading.Event(), threading.Event()
    done: list[int] = []

    def work(asked: Sequence[int]) -> list[int]:
        first.set()
        assert go.wait(30)
        done.extend(asked)
        return list(asked)

    same = GroupCommit(work)
    with ThreadPoolExecutor(4) as pool:
        results = [pool.submit(same, 1)]
        assert first.wait(30)
        results += [pool.submit(same, number) for number in (2, 3)]
        while len(same._queue) < 2:
            pass
        child = os.fork()
        if child == 0:
            go.set()
            os._exit(0 if same(9) == 9 and done == [9] else 1)
        assert os.waitpid(child, 0)[1] == 0
        go.set()
        assert [each.result(30) for each in results] == [1, 2, 3]
