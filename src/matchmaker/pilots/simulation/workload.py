"""The work of a simulation: jobs, the sites that can run them, and kinds of jobs as ads.

Jobs are made up (:class:`Load`: bags of jobs, busier by day than by night) or come from a trace in
the Standard Workload Format of the Parallel Workloads Archive (:func:`read_trace`): a line a job
with 18 numbers, -1 for unknown ones; further ones, which some logs append, are passed over; lines
that begin with a semicolon are comments. Both can be iterated over again. :func:`survey` derives
the sites from the jobs. How long a site takes to start a pilot is in ``delays``.
"""

from __future__ import annotations

import gzip
import heapq
import math
import zlib
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from random import Random
from typing import BinaryIO, Final

import attrs
from attrs.validators import ge, le

from matchmaker._diagnostics import Diagnostic
from matchmaker.classad import ClassAd, parse_expr

HOUR: Final = 3600.0
CLASSES = (300.0, 1200.0, HOUR, 4 * HOUR, 12 * HOUR, 24 * HOUR, 48 * HOUR, 72 * HOUR, 168 * HOUR)
"""The classes of requested wall clock, in seconds; above the last, whole weeks."""
SPARE = 1.5
"""A pilot's wall clock over the longest class of its site."""


@attrs.frozen(slots=True, kw_only=True)
class TraceJob:
    """A job of a workload, which takes one pilot.

    Attributes:
        submit: when it arrives, in seconds from any origin.
        run: how long it runs, in seconds.
        wall: how long it asks to run, in seconds; its run time if that is unknown or less.
        group: its owner (a VO); empty if unknown.
        site: the site that ran it; empty if unknown.
        wait: how long it waited there, in seconds; None if unknown.
    """

    submit: float
    run: float
    wall: float = 0.0
    group: str = ""
    site: str = ""
    wait: float | None = None


@attrs.frozen(slots=True, kw_only=True)
class SimulatedSite:
    """A site of the simulated grid.

    Attributes:
        key: its name.
        groups: the groups whose jobs it runs.
        slots: how many pilots it runs at a time.
        wall: how long a pilot may run there, in seconds.
    """

    key: str
    groups: frozenset[str]
    slots: int
    wall: float

    def pilot(self) -> ClassAd:
        """The ad of a pilot that would run here."""
        return ClassAd({"Site": self.key, "Groups": sorted(self.groups), "WallClock": self.wall})


@attrs.frozen(slots=True, kw_only=True)
class World:
    """The sites that a workload runs on, and how much work there is.

    Attributes:
        sites: by name.
        jobs: how many jobs the workload has.
        first: when the first job arrives, in seconds.
        last: when the last job arrives, in seconds.
        work: how long all jobs run together, in seconds.
    """

    sites: tuple[SimulatedSite, ...]
    jobs: int
    first: float
    last: float
    work: float


def wall_class(wall: float) -> float:
    """Return the class of a requested wall clock, in seconds: the least that is no shorter.

    >>> wall_class(250), wall_class(3601), wall_class(700_000)
    (300.0, 14400.0, 1209600.0)
    """
    for bound in CLASSES:
        if wall <= bound:
            return bound
    return math.ceil(wall / CLASSES[-1]) * CLASSES[-1]


def survey(jobs: Iterable[TraceJob]) -> World:
    """Derive the sites from a workload, in one pass.

    Assumptions: a site runs jobs of the groups whose jobs ran there, in as many slots as it had
    jobs running at the same time, started when they arrived; a pilot there may run half as long
    again as the longest class of wall clock that a job asked for there.

    Raises:
        ValueError: there is no job.

    >>> world = survey([TraceJob(submit=0, run=60), TraceJob(submit=30, run=60)])
    >>> world.sites[0].slots, world.sites[0].wall
    (2, 450.0)
    """
    running: dict[str, list[float]] = {}
    peaks: dict[str, int] = {}
    groups: dict[str, set[str]] = {}
    walls: dict[str, float] = {}
    count, work, first, last = 0, 0.0, math.inf, -math.inf
    for job in jobs:
        site = job.site
        ends = running.setdefault(site, [])
        while ends and ends[0] <= job.submit:
            heapq.heappop(ends)
        heapq.heappush(ends, job.submit + job.run)
        peaks[site] = max(peaks.get(site, 0), len(ends))
        groups.setdefault(site, set()).add(job.group)
        walls[site] = max(walls.get(site, 0.0), job.wall, job.run)
        count += 1
        work += job.run
        first, last = min(first, job.submit), max(last, job.submit)
    if not count:
        raise ValueError("the workload has no job")
    sites = tuple(
        SimulatedSite(
            key=key,
            groups=frozenset(groups[key]),
            slots=peaks[key],
            wall=SPARE * wall_class(walls[key]),
        )
        for key in sorted(peaks)
    )
    return World(sites=sites, jobs=count, first=first, last=last, work=work)


def kind_ad(group: str, wall: float, site: str | None) -> ClassAd:
    """Make the ad of a kind: of a group, with a class of wall clock, at one site or at any."""
    here = "" if site is None else " && TARGET.Site == MY.WantedSite"
    return ClassAd(
        {
            "Group": group,
            "RequestedWallClock": wall,
            **({} if site is None else {"WantedSite": site}),
            "Requirements": parse_expr(
                "member(MY.Group, TARGET.Groups)"
                f" && TARGET.WallClock >= MY.RequestedWallClock{here}"
            ),
        }
    )


# --- made-up workloads ----------------------------------------------------------------------------

MOST_JOBS = 10_000_000
MOST = 10_000
"""Hours, groups, sites, and jobs of a bag at most."""
SPREAD = 1.3
"""The deviation of the logarithm of run times."""


@attrs.frozen(slots=True, kw_only=True)
class Load:
    """A made-up workload.

    Attributes:
        jobs: how many jobs arrive.
        hours: over how many hours, on average.
        groups: how many groups submit; the first submits most.
        sites: how many sites there are; each group uses about half of them.
        bag: how many jobs arrive at once, on average.
        run: the median of run times, in seconds.
        seed: of all that is drawn.

    Raises:
        ValueError: a number is out of its bounds.

    >>> load = Load(jobs=100, seed=3)
    >>> len(list(load)), list(load) == list(load)
    (100, True)
    """

    jobs: int = attrs.field(default=1000, validator=[ge(1), le(MOST_JOBS)])
    hours: int = attrs.field(default=24, validator=[ge(1), le(MOST)])
    groups: int = attrs.field(default=3, validator=[ge(1), le(MOST)])
    sites: int = attrs.field(default=8, validator=[ge(1), le(MOST)])
    bag: int = attrs.field(default=5, validator=[ge(1), le(MOST)])
    run: int = attrs.field(default=1800, validator=[ge(1), le(1_000_000)])
    seed: int = 0

    def __iter__(self) -> Iterator[TraceJob]:
        """Make the jobs, in the order of their arrival."""
        random = Random(f"load {self.seed}")  # noqa: S311 - a simulation
        homes = [
            random.sample(range(1, self.sites + 1), max(1, self.sites // 2))
            for _ in range(self.groups)
        ]
        weights = [1 / place for place in range(1, self.groups + 1)]
        gap = self.hours * HOUR * self.bag / self.jobs
        now, left = 0.0, self.jobs
        while left:
            # From half to one and a half times as many as on average, by the time of day.
            busy = 1 - 0.5 * math.cos(2 * math.pi * now / (24 * HOUR))
            now += random.expovariate(busy / gap)
            group = random.choices(range(self.groups), weights)[0]
            wall = random.choice(CLASSES[1:7])
            size = min(left, 1 + int(random.expovariate(1 / (self.bag - 0.5))))
            for _ in range(size):
                run = min(random.lognormvariate(math.log(self.run), SPREAD), wall)
                yield TraceJob(
                    submit=round(now),
                    run=round(run),
                    wall=wall,
                    group=f"group{group + 1}",
                    site=f"site{random.choice(homes[group])}",
                )
            left -= size


# --- traces ---------------------------------------------------------------------------------------

SWF_FIELDS: Final = 18
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
class TraceFile:
    """The jobs of a file, which are read anew each time that they are iterated over."""

    path: Path = attrs.field(converter=Path)

    def __iter__(self) -> Iterator[TraceJob]:
        return read_trace(self.path)


def read_trace(
    path: str | PathLike[str], problem: Callable[[Diagnostic], object] = lambda _: None
) -> Iterator[TraceJob]:
    """Read the jobs of a file, in the order of their submit times.

    The group is the field "group", or the user if that is unknown; the site is the partition, or
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
) -> Iterator[tuple[int, TraceJob]]:
    bad = 0
    for number, line in _lines(stream, name):
        found = _job(line)
        if isinstance(found, TraceJob):
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
    """Read the lines that are no comments, with their numbers."""
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


def _job(line: bytes) -> TraceJob | str:
    """Parse a line; return its job or its mistake."""
    fields = line.split()
    if len(fields) < SWF_FIELDS:
        return f"it has {len(fields)} fields instead of {SWF_FIELDS}"
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
    return TraceJob(
        submit=submit,
        run=run,
        wall=max(wall, run),
        group=_first(fields[12], fields[11]),
        site=_first(fields[15], fields[14]),
        wait=wait if 0 <= wait <= MAX_SECONDS else None,
    )


def _first(*fields: bytes) -> str:
    """Return the first of some fields that is known; empty if none is."""
    for field in fields:
        if field != b"-1":
            return field[:20].decode("ascii", "backslashreplace")
    return ""


def _ordered(
    jobs: Iterator[tuple[int, TraceJob]], problem: Callable[[Diagnostic], object]
) -> Iterator[TraceJob]:
    """Sort jobs by submit time, through a window of bounded size."""
    window: list[tuple[float, int, TraceJob]] = []
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
