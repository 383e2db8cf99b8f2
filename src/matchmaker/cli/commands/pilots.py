"""``classad pilots``: how many pilots, and where. ``simulate`` compares policies on a workload."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import attrs
import click

from matchmaker._diagnostics import Diagnostic
from matchmaker._files import replacing
from matchmaker.classad import ParseError, parse_expr
from matchmaker.classad.nodes import ListExpr
from matchmaker.cli import inputs
from matchmaker.cli.group import Subcommands
from matchmaker.cli.options import FiniteRange
from matchmaker.cli.output import count, print_json, show, table, waiting, warn
from matchmaker.pilots.simulation import PEERS
from matchmaker.pilots.simulation.delays import ASSUMPTIONS, SHARED
from matchmaker.pilots.simulation.workload import Load, TraceFile, read_trace, survey

if TYPE_CHECKING:
    from matchmaker.pilots.simulation.report import SimulationReport
    from matchmaker.pilots.simulation.rules import PilotRule

# The mean of 100 runs is sure to a tenth of the spread; a typing error would run for days.
MOST_SEEDS = 100
SHOWN = 10
"""How many lines of a trace that are left out are said one by one."""


@click.group("pilots", cls=Subcommands)
def pilots_command() -> None:
    """Decide how many pilots to submit, and where."""


@pilots_command.command("simulate")
@click.argument("trace", required=False)
@click.option("--load", metavar="NAME=NUMBER,…", help="Make up a workload: jobs=1000,hours=24,…")
@click.option(
    "--policy", "policies", multiple=True, metavar="NAME|FILE",
    help=f"matchmaker (ours), {', '.join(PEERS)}, all, or a file with a policy ad; repeatable.",
)  # fmt: skip
@click.option(
    "--sweep", "sweeps", multiple=True, metavar="TERM=VALUE,…",
    help="Run our policy with each value of a term; repeatable.",
)  # fmt: skip
@click.option(
    "--delays", "delays", multiple=True, type=click.Choice([*ASSUMPTIONS, "all"]),
    help="The world of queues; may be repeated. All: those that pilots share."
    "  [default: usual]",
)  # fmt: skip
@click.option("--seeds", default="7", show_default=True, metavar="N,…", help="Seeds, or 1-5.")
@click.option(
    "--cycle", default=120.0, show_default=True, type=FiniteRange(1, 86_400),
    help="Seconds between decisions.",
)  # fmt: skip
@click.option("--at-home", is_flag=True, help="Run each job only at its site in the trace.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--html", "html_file", metavar="FILE", help="Write a page with the drawing.")
@click.option("--svg", "svg_file", metavar="FILE", help="Write the drawing.")
def simulate(
    *, trace: str | None, load: str | None, policies: tuple[str, ...], sweeps: tuple[str, ...],
    delays: tuple[str, ...], seeds: str, cycle: float, at_home: bool, as_json: bool,
    html_file: str | None, svg_file: str | None,
) -> int:  # fmt: skip
    """Run policies on the jobs of TRACE, and compare pilots, waste and wait.

    TRACE is in the Standard Workload Format, plain or gzip; - is standard input. The table has
    medians over all seeds and delays. Exit status 1 if a policy left jobs without a pilot.
    """
    if "" in (html_file, svg_file) or "-" in (html_file, svg_file):
        raise click.UsageError("--html and --svg name a file each")
    from matchmaker.pilots.simulation import report as reporting
    from matchmaker.pilots.simulation import simulation
    from matchmaker.pilots.simulation.grid import SimulationSettings

    rules = {name: rule for sweep in sweeps for name, rule in _swept(sweep).items()}
    rules |= _policies(policies or (("dirac", "glideinwms") if sweeps else ()))
    chosen = list(SHARED) if "all" in delays else list(dict.fromkeys(delays)) or ["usual"]
    numbers = _seeds(seeds)
    settings = SimulationSettings(cycle=cycle, at_home=at_home)
    with _workload(trace, load) as jobs:
        world = survey(jobs)
        reports = []
        with waiting("simulating") as say:
            for name in rules:
                for assumption in chosen:
                    for seed in numbers:
                        say(f"simulating {name}, delays {assumption}, seed {seed}")
                        reports.append(simulation.run(
                            jobs, world, rules[name], ASSUMPTIONS[assumption], seed,
                            settings=settings, assumption=assumption,
                        ))  # fmt: skip
    for path, draw in ((svg_file, reporting.svg), (html_file, _page)):
        if path is not None:
            drawn = draw(reports)
            with replacing(path) as file:
                file.write(drawn)
    if as_json:
        print_json({"rows": list(map(attrs.asdict, reporting.rows(reports))),
                    "simulations": list(map(_data, reports))})  # fmt: skip
    else:
        show(f"{count(world.jobs, 'job')} of {world.work / 3600:,.0f} hours at"
             f" {count(len(world.sites), 'site')};"
             f" {count(len(chosen) * len(numbers), 'simulation')} of each policy")  # fmt: skip
        cells = map(reporting.cells, reporting.rows(reports))
        show(table(reporting.TITLES, cells, right=range(1, len(reporting.TITLES)), whole=(0,)))
    return 1 if any(report.not_run for report in reports) else 0


def _page(reports: Sequence[SimulationReport]) -> str:
    from matchmaker.pilots.simulation import report as reporting

    return reporting.html(reports, "Policies side by side")


def _policies(names: tuple[str, ...]) -> dict[str, PilotRule]:
    """Return the policies by name; by default all."""
    from matchmaker.pilots.simulation import simulation

    every = (simulation.OURS, *PEERS)
    wanted = [one for name in names or ("all",) for one in (every if name == "all" else (name,))]
    return {name: _policy(name) for name in wanted}


def _policy(name: str) -> PilotRule:
    """Return a rule of that name, or our policy with the terms of an ad in a file."""
    from matchmaker.pilots.policy.policy_ad import PolicyAd
    from matchmaker.pilots.simulation import simulation

    if name in (simulation.OURS, *PEERS):
        return simulation.named(name)
    if not Path(name).exists():
        raise click.UsageError(
            f"no policy {name!r}; there are {simulation.OURS}, {', '.join(PEERS)}, all, and files"
        )
    policy = PolicyAd(inputs.one_ad(name))
    for problem in policy.problems():
        warn(f"{name}: {problem}")
    return simulation.ours(policy, name)


def _swept(text: str) -> dict[str, PilotRule]:
    """Return our policy with each value of a term, as in ``Copies=1,2,4``."""
    from matchmaker.pilots.policy.policy_ad import PolicyAd
    from matchmaker.pilots.simulation import simulation

    name, _, values = text.partition("=")
    found = {}
    try:
        # As a list of expressions, of which each may have commas in parentheses and brackets.
        listed = parse_expr(f"{{ {values} }}")
        each = [str(item) for item in listed.items] if isinstance(listed, ListExpr) else []
        policies = {f"{name.strip()}={value}": PolicyAd(f"[ {name} = {value} ]") for value in each}
    except ParseError:
        policies = {}
    if not policies:
        raise click.UsageError(f"--sweep {text[:60]!r}: give TERM=VALUE,… as in Copies=1,2,4")
    for shown, policy in policies.items():
        for problem in policy.problems():
            raise click.UsageError(f"--sweep {shown[:60]!r}: {problem}")
        found[shown] = simulation.ours(policy, shown)
    return found


def _seeds(text: str) -> list[int]:
    """Parse the seeds of ``7``, ``1,2,3`` or ``1-5``."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part, re.ASCII)
        first = int(match[1]) if match else 1
        last = int(match[2] or first) if match else 0
        if not 0 <= last - first < MOST_SEEDS:
            raise click.UsageError(f"--seeds {text[:60]!r}: give numbers as 7 or 1,2,3 or 1-5")
        found += range(first, last + 1)
    if len(set(found)) > MOST_SEEDS:
        raise click.UsageError(f"--seeds has more than {MOST_SEEDS} seeds")
    return list(dict.fromkeys(found))


@contextmanager
def _workload(trace: str | None, load: str | None) -> Iterator[TraceFile | Load]:
    """Yield the jobs of a trace or a load; name lines that are left out."""
    if (trace is None) == (load is None):
        raise click.UsageError("give a TRACE or --load, one of the two")
    if load is not None:
        yield _load(load)
    elif trace == "-":
        # A trace is read once for its sites, and once for each simulation.
        with TemporaryDirectory() as folder, inputs.opened("-") as source:
            path = Path(folder, "standard input")
            with path.open("wb") as file:
                shutil.copyfileobj(source, file)
            yield _checked(path)
    elif trace is not None:
        yield _checked(Path(trace))


def _checked(path: Path) -> TraceFile:
    left_out = 0

    def say(problem: Diagnostic) -> None:
        nonlocal left_out
        left_out += 1
        if left_out <= SHOWN:
            warn(f"{path.name}: line {problem.line} is left out: {problem.message}")

    for _ in read_trace(path, say):
        pass
    if left_out > SHOWN:
        warn(f"{path.name}: {count(left_out, 'line')} are left out in all")
    return TraceFile(path)


def _load(text: str) -> Load:
    fields = {field.name for field in attrs.fields(Load)}
    given: dict[str, int] = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        if name.strip() not in fields or not re.fullmatch(r"\s*\d{1,9}\s*", number, re.ASCII):
            raise click.UsageError(
                f"--load {part[:60]!r}: give NAME=NUMBER; the names are {', '.join(sorted(fields))}"
            )
        if name.strip() in given:
            raise click.UsageError(f"--load has {name.strip()} twice")
        given[name.strip()] = int(number)
    return Load(**given)


def _data(report: SimulationReport) -> dict[str, Any]:
    data = attrs.asdict(report, filter=lambda field, _: field.name not in {"pool", "by_group"})
    data["by_group"] = {group: attrs.asdict(waits) for group, waits in report.by_group.items()}
    data["pool"] = [moment._asdict() for moment in report.pool]
    return data
