"""What a simulation runs: jobs, the sites that can run them, and kinds of jobs as ads.

Jobs come from a trace (``swf``) or are made up
(``loads``). :func:`survey` derives the sites from the jobs, and says what it
assumes. How long a site takes to start a pilot is in ``delays``.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable

import attrs

from matchmaker.classad import ClassAd, parse_expr

HOUR = 3600.0
CLASSES = (300.0, 1200.0, HOUR, 4 * HOUR, 12 * HOUR, 24 * HOUR, 48 * HOUR, 72 * HOUR, 168 * HOUR)
"""The classes of requested wall clock, in seconds; above the last, whole weeks."""
SPARE = 1.5
"""A pilot's wall clock over the longest class of its site."""


@attrs.frozen(slots=True, kw_only=True)
class Job:
    """A job of a workload, which takes one pilot.

    Attributes:
        submit: when it arrives, in seconds from any origin.
        run: how long it runs, in seconds.
        wall: how long it asks to run, in seconds; what it ran where that is unknown or less.
        group: whose job it is (a VO); empty where that is unknown.
        site: where it ran; empty where that is unknown.
        wait: how long it waited there, in seconds; None where that is unknown.
    """

    submit: float
    run: float
    wall: float = 0.0
    group: str = ""
    site: str = ""
    wait: float | None = None


@attrs.frozen(slots=True, kw_only=True)
class Site:
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

    sites: tuple[Site, ...]
    jobs: int
    first: float
    last: float
    work: float


def wall_class(wall: float) -> float:
    """The class of a requested wall clock, in seconds: the least that is no shorter.

    >>> wall_class(250), wall_class(3601), wall_class(700_000)
    (300.0, 14400.0, 1209600.0)
    """
    for bound in CLASSES:
        if wall <= bound:
            return bound
    return math.ceil(wall / CLASSES[-1]) * CLASSES[-1]


def survey(jobs: Iterable[Job]) -> World:
    """The sites that a workload shows, in one pass.

    Assumptions: a site runs jobs of the groups whose jobs ran there, in as many slots as it had
    jobs running at the same time, started when they arrived; a pilot there may run half as long
    again as the longest class of wall clock that a job asked for there.

    Raises:
        ValueError: there is no job.

    >>> world = survey([Job(submit=0, run=60, site="a"), Job(submit=30, run=60, site="a")])
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
        Site(
            key=key,
            groups=frozenset(groups[key]),
            slots=peaks[key],
            wall=SPARE * wall_class(walls[key]),
        )
        for key in sorted(peaks)
    )
    return World(sites=sites, jobs=count, first=first, last=last, work=work)


def kind_ad(group: str, wall: float, site: str | None) -> ClassAd:
    """The ad of a kind of job: of a group, with a class of wall clock, at one site or at any."""
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
