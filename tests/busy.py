"""Threads that do something again and again while a test goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def busy(jobs: list[Callable[[], object]]) -> Iterator[None]:
    """Runs each job in a thread, at least once; raises what one raises, and if one gives False."""
    done = threading.Event()
    wrong: list[BaseException] = []

    def repeat(job: Callable[[], object]) -> None:
        try:
            again = True
            while again:
                again = not done.is_set()
                assert job() is not False
        except BaseException as error:  # noqa: BLE001 - raised below
            wrong.append(error)

    threads = [threading.Thread(target=repeat, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
    if wrong:
        raise wrong[0]
