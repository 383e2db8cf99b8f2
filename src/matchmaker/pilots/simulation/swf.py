"""Traces in the Standard Workload Format of the Parallel Workloads Archive.

A line a job with 18 numbers, -1 for what is unknown; further ones, which some logs append, are
passed over. Lines that begin with a semicolon are comments. Read as a stream, gzip or plain; what a
simulation needs of a line is a ``Job``.
"""

from __future__ import annotations

import gzip
import heapq
import math
import zlib
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import BinaryIO

import attrs

from matchmaker._diagnostics import Diagnostic
from matchmaker.pilots.simulation.workload import Job

FIELDS = 18
MAX_LINE = 4096
"""The longest line, in bytes."""
MAX_PROBLEMS = 1000
"""With more lines that are left out, a file is refused."""
WINDOW = 10_000
"""How many jobs a line may be late: jobs are put in the order of their submit times."""
MAX_SECONDS = 1e10
"""The latest submit time and the longest run time: three hundred years."""


class TraceError(ValueError):
    """A trace that cannot be read: the message has the file and the line."""


@attrs.frozen(slots=True)
class Trace:
    """The jobs of a file, which are read anew each time that they are iterated over."""

    path: Path = attrs.field(converter=Path)

    def __iter__(self) -> Iterator[Job]:
        return read(self.path)


def read(
    path: str | PathLike[str], problem: Callable[[Diagnostic], object] = lambda _: None
) -> Iterator[Job]:
    """The jobs of a file, in the order of their submit times.

    The group is the field "group", or the user where that is unknown; the site is the partition, or
    the queue. A job whose run time is unknown is left out, and so is one that arrives before a job
    that was given already, which happens to lines more than 10,000 jobs late.

    Args:
        path: the file; gzip is recognised by its first two bytes.
        problem: called with each line that is left out.

    Raises:
        TraceError: the file is cut, is no text, or has more than 1,000 bad lines.
        OSError: the file cannot be opened.
    """
    with Path(path).open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        stream: BinaryIO = gzip.GzipFile(fileobj=file) if zipped else file  # type: ignore[assignment]
        yield from _ordered(_jobs(stream, str(path), problem), problem)


def _jobs(
    stream: BinaryIO, name: str, problem: Callable[[Diagnostic], object]
) -> Iterator[tuple[int, Job]]:
    bad = 0
    for number, line in _lines(stream, name):
        found = _job(line)
        if isinstance(found, Job):
            yield number, found
            continue
        bad += 1
        if bad > MAX_PROBLEMS:
            raise TraceError(
                f"{name}: line {number}: {found}; with more than {MAX_PROBLEMS} lines like it this"
                " is not taken for the Standard Workload Format"
            )
        problem(Diagnostic("trace.line", found, number))


def _lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """The lines that are no comments, with their numbers."""
    number = 0
    while True:
        try:
            line = stream.readline(MAX_LINE + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise TraceError(
                f"{name}: the gzip data is cut or damaged after line {number}: {error}; fetch the"
                " file again"
            ) from None
        if not line:
            return
        number += 1
        if len(line) > MAX_LINE:
            raise TraceError(f"{name}: line {number} has more than {MAX_LINE} bytes")
        line = line.strip()
        if line and not line.startswith(b";"):
            yield number, line


def _job(line: bytes) -> Job | str:
    """The job of a line, or what is wrong with it."""
    fields = line.split()
    if len(fields) < FIELDS:
        return f"it has {len(fields)} fields instead of {FIELDS}"
    times = (fields[1], fields[2], fields[3], fields[8])
    try:
        submit, wait, run, wall = map(float, times)
    except ValueError:
        shown = b" ".join(times).decode("ascii", "backslashreplace")
        return f"submit, wait, run and requested time are not numbers: {shown[:60]}"
    if not 0 <= submit <= MAX_SECONDS:
        return f"the submit time is {submit:g}; 0 to {MAX_SECONDS:g} seconds are expected"
    if run == -1:
        return "the run time is unknown"
    if not 0 <= run <= MAX_SECONDS:
        return f"the run time is {run:g}; 0 to {MAX_SECONDS:g} seconds are expected"
    if math.isnan(wall) or wall > MAX_SECONDS:
        return f"the requested time is {wall:g}; -1 or up to {MAX_SECONDS:g} seconds are expected"
    return Job(
        submit=submit,
        run=run,
        wall=max(wall, run),
        group=_first(fields[12], fields[11]),
        site=_first(fields[15], fields[14]),
        wait=wait if 0 <= wait <= MAX_SECONDS else None,
    )


def _first(*fields: bytes) -> str:
    """The first of some fields that is known; empty if none is."""
    for field in fields:
        if field != b"-1":
            return field[:20].decode("ascii", "backslashreplace")
    return ""


def _ordered(
    jobs: Iterator[tuple[int, Job]], problem: Callable[[Diagnostic], object]
) -> Iterator[Job]:
    """The jobs by submit time, through a window of bounded size."""
    window: list[tuple[float, int, Job]] = []
    last = -math.inf
    for number, job in jobs:
        if job.submit < last:
            late = f"it is submitted at {job.submit:g}, long before the lines above it ({last:g})"
            problem(Diagnostic("trace.order", late, number))
            continue
        heapq.heappush(window, (job.submit, number, job))
        if len(window) > WINDOW:
            last, _, first = heapq.heappop(window)
            yield first
    while window:
        yield heapq.heappop(window)[2]
