"""The processes of this machine by ``proc(5)``: who is whose child, and what they take."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@attrs.frozen(slots=True)
class Process:
    """One process: its parent, its state (a letter, as ``ps`` has it), its memory in bytes."""

    pid: int
    parent: int
    state: str
    memory: int


def processes() -> dict[int, Process]:
    """All processes by their numbers; none where the system has no ``/proc``.

    >>> os.getpid() in processes() or not Path("/proc/self").exists()
    True
    """
    found = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        # It may end while it is looked at.
        with suppress(OSError, ValueError, IndexError):
            pid, words = int(place.parent.name), place.read_bytes().rpartition(b")")[2].split()
            memory = int(words[21]) * _PAGE
            found[pid] = Process(pid, int(words[1]), words[0].decode("ascii"), memory)
    return found


def below(root: int, among: Mapping[int, Process]) -> list[Process]:
    """The processes that one has started, and those that these have, and so on.

    >>> family = {n: Process(n, n - 1, "S", 0) for n in (2, 3, 4)}
    >>> [each.pid for each in below(2, family)]
    [3, 4]
    """
    children: dict[int, list[Process]] = {}
    for each in among.values():
        children.setdefault(each.parent, []).append(each)

    def walk(parent: int) -> Iterator[Process]:
        at = [parent]
        while at:
            for child in children.get(at.pop(), ()):
                yield child
                at.append(child.pid)

    return list(walk(root))
