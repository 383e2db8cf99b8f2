"""The measures of a simulation, and policies side by side: a table, a drawing, a page with both.

A :class:`RunTally` collects in memory that does not grow with the number of jobs, and makes a
:class:`SimulationReport`. Waits are kept to three digits, so quantiles are exact to half a percent.
Matplotlib draws, the extra ``plots``: axes, ticks and labels that do not overlap are its field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import attrs

from matchmaker.matching.page import Drawing, PageTable, page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

POINTS = 2000
"""Points of the pool over time at most: more than a drawing has pixels."""
SHORTEST = 10.0
"""A job counts as at least this long in its slowdown, in seconds (bounded slowdown)."""


@attrs.frozen(slots=True, kw_only=True)
class Waits:
    """The waits of jobs for a pilot, in seconds; 0 if no job ran.

    Attributes:
        jobs: how many ran.
        mean: their mean wait.
        median: half of them waited no longer.
        late: 95 of 100 waited no longer.
        worst: the longest wait.
        slowdown: the mean of (wait + run) / run, with a run of at least ten seconds.
    """

    jobs: int
    mean: float
    median: float
    late: float
    worst: float
    slowdown: float


class Moment(NamedTuple):
    """The pool at one time, in seconds: jobs that wait, and pilots by state."""

    time: float
    waiting: int
    queued: int
    starting: int
    idle: int
    busy: int


@attrs.frozen(slots=True, kw_only=True)
class SimulationReport:
    """The result of a simulation.

    Attributes:
        policy: the name of the policy.
        delays: the name of the assumption on start delays.
        seed: the seed.
        jobs: how many jobs arrived.
        not_run: how many of them found no pilot before the end.
        pilots: how many pilots were submitted.
        unused: how many of them ran no job, whether cancelled, lost or left idle.
        cancelled: how many of the unused were cancelled in their queue.
        lost: how many of the unused were lost when they started.
        hours: how long pilots held slots.
        busy_hours: how long they ran jobs.
        wasted_hours: the difference.
        waits: of all jobs.
        by_group: of the jobs of each group.
        fairness: Jain's index of the groups' mean slowdowns: 1 if all are equal, 1/n at worst.
        first_job: seconds from the first arrival to the first start of a job; None for no start.
        lasted: seconds from the first arrival to the end of the last job, or of the simulation.
        cycles: how many decisions were made.
        pool: the pool over time, at most 2,000 points.
    """

    policy: str
    delays: str
    seed: int
    jobs: int
    not_run: int
    pilots: int
    unused: int
    cancelled: int
    lost: int
    hours: float
    busy_hours: float
    wasted_hours: float
    waits: Waits
    by_group: Mapping[str, Waits]
    fairness: float
    first_job: float | None
    lasted: float
    cycles: int
    pool: tuple[Moment, ...]


@attrs.define(slots=True)
class _Group:
    waits: Counter[float] = attrs.field(factory=Counter)
    total: float = 0.0
    slowdowns: float = 0.0
    worst: float = 0.0


@attrs.define(slots=True)
class RunTally:
    """The counts of a simulation that goes on."""

    jobs: int = 0
    ran: int = 0
    pilots: int = 0
    unused: int = 0
    cancelled: int = 0
    lost: int = 0
    held: float = 0.0
    busy: float = 0.0
    cycles: int = 0
    lasted: float = 0.0
    begin: float | None = None
    first: float | None = None
    groups: dict[str, _Group] = attrs.field(factory=dict)
    pool: list[Moment] = attrs.field(factory=list)
    _every: int = 1

    def started(self, group: str, now: float, wait: float, run: float) -> None:
        """Count a job that starts now, after a wait, and will run so long; all in seconds."""
        found = self.groups.get(group)
        if found is None:
            found = self.groups[group] = _Group()
        found.waits[float(f"{wait:.3g}")] += 1
        found.total += wait
        found.slowdowns += 1 + wait / max(run, SHORTEST)
        found.worst = max(found.worst, wait)
        self.ran += 1
        self.busy += run
        if self.first is None:
            self.first = now

    def sample(self, moment: Moment) -> None:
        """Note the pool at a cycle; of a long simulation keep every second, fourth, … one."""
        self.cycles += 1
        if self.cycles % self._every:
            return
        self.pool.append(moment)
        if len(self.pool) >= POINTS:
            self._every *= 2
            self.pool = self.pool[1::2]

    def report(self, policy: str, delays: str, seed: int) -> SimulationReport:
        """Sum up the simulation."""
        by_group = {
            group: _waits(found.waits, [found]) for group, found in sorted(self.groups.items())
        }
        together: Counter[float] = Counter()
        for found in self.groups.values():
            together.update(found.waits)
        return SimulationReport(
            policy=policy,
            delays=delays,
            seed=seed,
            jobs=self.jobs,
            not_run=self.jobs - self.ran,
            pilots=self.pilots,
            unused=self.unused,
            cancelled=self.cancelled,
            lost=self.lost,
            hours=self.held / 3600,
            busy_hours=self.busy / 3600,
            wasted_hours=(self.held - self.busy) / 3600,
            waits=_waits(together, self.groups.values()),
            by_group=by_group,
            fairness=jain(waits.slowdown for waits in by_group.values()),
            first_job=None if self.first is None else self.first - (self.begin or 0.0),
            lasted=self.lasted,
            cycles=self.cycles,
            pool=tuple(self.pool),
        )


def jain(values: Iterable[float]) -> float:
    """Return Jain's index of fairness: 1 if all values are equal, 1/n if one of n has everything.

    >>> jain([3, 3]), jain([1, 0]), jain([])
    (1.0, 0.5, 1.0)
    """
    held = list(values)
    squares = sum(value * value for value in held)
    return sum(held) ** 2 / (len(held) * squares) if squares else 1.0


def _waits(counts: Counter[float], groups: Iterable[_Group]) -> Waits:
    jobs = counts.total()
    held = list(groups)
    ordered = sorted(counts.items())
    return Waits(
        jobs=jobs,
        mean=sum(group.total for group in held) / jobs if jobs else 0.0,
        median=_quantile(ordered, jobs, 0.5),
        late=_quantile(ordered, jobs, 0.95),
        worst=max((group.worst for group in held), default=0.0),
        slowdown=sum(group.slowdowns for group in held) / jobs if jobs else 0.0,
    )


def _quantile(ordered: list[tuple[float, int]], jobs: int, share: float) -> float:
    """Return the least wait that a share of the jobs did not exceed."""
    seen = 0
    for wait, count in ordered:
        seen += count
        if seen >= share * jobs:
            return wait
    return 0.0


# --- policies side by side ------------------------------------------------------------------------

TITLES = (
    "policy", "submissions", "cancelled", "pilots a job", "wasted hours", "mean", "p95",
    "worst wait (min)", "fairness", "not run",
)  # fmt: skip


@attrs.frozen(slots=True, kw_only=True)
class PolicyRow:
    """One policy: medians over its simulations.

    Attributes:
        policy: its name.
        runs: how many simulations.
        pilots: how many pilots were submitted.
        cancelled: how many of them were cancelled in their queue.
        a_job: how many were submitted for each job.
        unused: the share of them that ran no job, 0 to 1.
        wasted_hours: how long pilots held slots without a job.
        mean: the mean wait of a job, in seconds.
        late: 95 of 100 jobs waited no longer, in seconds.
        worst: the longest wait, in seconds.
        fairness: Jain's index of the groups' mean slowdowns.
        not_run: how many jobs found no pilot; the most of all simulations, not the median.
    """

    policy: str
    runs: int
    pilots: float
    cancelled: float
    a_job: float
    unused: float
    wasted_hours: float
    mean: float
    late: float
    worst: float
    fairness: float
    not_run: int


def rows(reports: Iterable[SimulationReport]) -> list[PolicyRow]:
    """Return a row for each policy, in the order of their first reports."""
    by_policy: dict[str, list[SimulationReport]] = {}
    for report in reports:
        by_policy.setdefault(report.policy, []).append(report)
    return [
        PolicyRow(
            policy=policy,
            runs=len(held),
            pilots=median(r.pilots for r in held),
            cancelled=median(r.cancelled for r in held),
            a_job=median(r.pilots / r.jobs for r in held),
            unused=median(r.unused / r.pilots if r.pilots else 0.0 for r in held),
            wasted_hours=median(r.wasted_hours for r in held),
            mean=median(r.waits.mean for r in held),
            late=median(r.waits.late for r in held),
            worst=median(r.waits.worst for r in held),
            fairness=median(r.fairness for r in held),
            not_run=max(r.not_run for r in held),
        )
        for policy, held in by_policy.items()
    ]


def cells(row: PolicyRow) -> tuple[str, ...]:
    """Format a row under :data:`TITLES`."""
    return (
        row.policy,
        f"{row.pilots:,.0f}",
        f"{row.cancelled:,.0f}",
        f"{row.a_job:.2f}",
        f"{row.wasted_hours:,.0f}",
        *(f"{wait / 60:,.1f}" for wait in (row.mean, row.late, row.worst)),
        f"{row.fairness:.2f}",
        f"{row.not_run:,}",
    )


def svg(reports: Sequence[SimulationReport]) -> str:
    """Draw two pictures: wasted hours against the mean wait, and the pool of each policy over time.

    The pool is that of the first simulation of a policy. The same reports give the same text.

    Raises:
        ModuleNotFoundError: the extra ``plots`` is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "drawings need Matplotlib: pip install 'classad-matchmaker[plots]'", name=error.name
        ) from None
    firsts = list({report.policy: report for report in reversed(reports)}.values())[::-1]
    with mpl.rc_context(
        {"svg.hashsalt": "matchmaker", "svg.fonttype": "none", "text.parse_math": False}
    ):
        height = 4.2 + 1.7 * len(firsts)
        figure = Figure(figsize=(8, height), layout="constrained")
        FigureCanvasSVG(figure)
        grid = figure.add_gridspec(1 + len(firsts), 1, height_ratios=[4.2] + [1.7] * len(firsts))
        _waste_against_wait(figure.add_subplot(grid[0]), rows(reports))
        shared: Axes | None = None
        for place, report in enumerate(firsts, 1):
            shared = figure.add_subplot(grid[place], sharex=shared)
            _pool(shared, report, last=place == len(firsts), first=place == 1)
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def _waste_against_wait(axes: Axes, points: Sequence[PolicyRow]) -> None:
    for place, row in enumerate(points):
        axes.plot(row.mean / 60, row.wasted_hours, "o", color=f"C{place % 10}")
        axes.annotate(
            _short(row.policy), (row.mean / 60, row.wasted_hours),
            textcoords="offset points", xytext=(6, 4),
        )  # fmt: skip
    front = front_of(points)
    axes.plot(
        [row.mean / 60 for row in front], [row.wasted_hours for row in front], ":", color="gray"
    )
    if points and min(row.mean for row in points) > 0:
        axes.set_xscale("log")
        _plain(axes.xaxis)
    if points and min(row.wasted_hours for row in points) > 0:
        axes.set_yscale("log")
        _plain(axes.yaxis)
    axes.margins(0.15)
    axes.set_xlabel("mean wait of a job (minutes)")
    axes.set_ylabel("wasted hours")
    axes.set_title("Waste against wait: lower left is better")
    axes.grid(visible=True, which="both", alpha=0.3)


def front_of(points: Iterable[PolicyRow]) -> list[PolicyRow]:
    """Return the policies that no other one beats in waste and mean wait at once, by wait."""
    front: list[PolicyRow] = []
    for row in sorted(points, key=lambda row: (row.mean, row.wasted_hours)):
        if not front or row.wasted_hours < front[-1].wasted_hours:
            front.append(row)
    return front


def _plain(axis: Axis) -> None:
    """Set the ticks of a logarithmic axis at 1, 2, 5, 10, … with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_locator(NullLocator())


def _pool(axes: Axes, report: SimulationReport, *, first: bool, last: bool) -> None:
    begin = report.pool[0].time if report.pool else 0.0
    hours = [(moment.time - begin) / 3600 for moment in report.pool]
    axes.stackplot(
        hours,
        [moment.busy for moment in report.pool],
        [moment.starting + moment.idle for moment in report.pool],
        labels=["busy", "starting or idle"],
        colors=["#1a7f4b", "#e8a33d"],
    )
    axes.plot(hours, [m.queued for m in report.pool], color="#3b82c4", lw=0.8, label="queued")
    axes.plot(hours, [m.waiting for m in report.pool], color="#c2410c", lw=0.8, label="jobs wait")
    axes.set_title(f"{_short(report.policy)}: pilots and jobs that wait", loc="left", fontsize=9)
    axes.set_ylim(bottom=0)
    if first:
        axes.legend(loc="upper right", fontsize=7, ncols=4)
    if last:
        axes.set_xlabel("hours")
    else:
        axes.tick_params(labelbottom=False)


def _short(name: str) -> str:
    shown = name if len(name) <= 40 else f"…{name[-39:]}"
    return "".join(char if char.isprintable() else "?" for char in shown)


def html(reports: Sequence[SimulationReport], title: str) -> str:
    """Make a page with the table, the drawing, and the waits of each group under each policy.

    Raises:
        ModuleNotFoundError: the extra ``plots`` is not installed.
    """
    groups = [
        (f"{waits.jobs:,}", *(f"{wait / 60:,.1f}" for wait in
          (waits.mean, waits.median, waits.late, waits.worst)), f"{waits.slowdown:,.1f}",
         group or "(none)", report.policy, report.delays, str(report.seed))
        for report in reports
        for group, waits in report.by_group.items()
    ]  # fmt: skip
    drawing = svg(reports)
    return page(
        title,
        [
            PageTable(
                "Policies",
                (*TITLES[1:], TITLES[0]),
                [(*texts[1:], texts[0]) for texts in map(cells, rows(reports))],
                numbers=len(TITLES) - 1,
                note="Medians over all seeds and assumptions on start delays. Waits in minutes.",
            ),
            Drawing("Waste, wait and the pool over time", drawing[drawing.index("<svg") :]),
            PageTable(
                "Waits by group",
                ("jobs", "mean", "median", "p95", "worst (min)", "slowdown", "group", "policy",
                 "delays", "seed"),
                groups,
                numbers=6,
            ),
        ],
    )  # fmt: skip
