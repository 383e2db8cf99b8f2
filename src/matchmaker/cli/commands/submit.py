"""``classad submit``: chooses a queue for a job, and hands it over to the batch system."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from matchmaker import ClassAd, batch, broker
from matchmaker.cli import handing, inputs, queues, reports, submission, transfers
from matchmaker.cli.output import count, print_json, show, table

if TYPE_CHECKING:
    from matchmaker.reduction import Reduction


@click.command()
@click.argument("job_file", metavar="[JOB]", required=False)
@click.argument("words", metavar="[-- FLAGS...]", nargs=-1)
@click.option("--jobs", "jobs_file", metavar="FILE",
              help="Many jobs in one file, in place of JOB; each by its Key, or by --key and its"
              " number.")  # fmt: skip
@click.option("--script", metavar="FILE",
              help="The job's script; by default the Executable of its description.")  # fmt: skip
@click.option("--args", "arguments", metavar="TEXT",
              help="Its arguments, as a shell separates them; by default the job's.")  # fmt: skip
@click.option("--lrms", required=True, metavar="NAME", help="The batch system, such as slurm.")
@transfers.options
@handing.options
@queues.options
@click.option("--queue", metavar="NAME", help="The queue to take; by default the broker's choice.")
@queues.choice_options
@submission.options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *,
    job_file: str | None,
    jobs_file: str | None,
    words: tuple[str, ...],
    script: str | None,
    arguments: str | None,
    lrms: str,
    place: transfers.Place,
    wish: handing.Wish,
    places: queues.Sources,
    queue: str | None,
    rules: broker.Rules,
    tie: random.Random | None,
    nodes_file: str | None,
    mapping: str | None,
    host_attributes: tuple[str, ...],
    want: str,
    as_json: bool,
) -> int:
    """Choose a queue for JOB, and hand it over: record, submit and release it, each once.

    It is submitted so that it cannot start, and let go once the batch system surely has it. The
    same --key with the same order submits nothing again, and chooses no queue: the job goes on.

    FLAGS after -- are your own options for the batch system; lines such as #SBATCH of the script
    and variables such as SBATCH_ACCOUNT count as well, and what cannot count is named.
    """
    site = batch.load_mapping(lrms, mapping)
    if jobs_file is not None:
        # What stands after -- is all flags then.
        words = (*((job_file,) if job_file is not None else ()), *words)
    elif job_file is None:
        raise click.UsageError("Missing argument 'JOB'; or give --jobs FILE.")

    def order_of(job: ClassAd, path: str) -> handing.OrderedJob:
        return handing.ordered(job, path, lrms, script=script, arguments=arguments, given=words)

    @cache
    def described() -> tuple[broker.Queues, broker.Hosts]:
        inventory = inputs.ads(nodes_file) if nodes_file else None
        hosts = broker.Hosts(
            nodes=inventory, mapping=site, want=batch.Fit(want), attributes=host_attributes,
            submitter=submission.submitter(),
        )  # fmt: skip
        return queues.read(places, nodes=inventory), hosts

    def routed(job: ClassAd) -> tuple[broker.Queue, Reduction, batch.Submission]:
        known, hosts = described()
        chosen, reduction, made = queues.routed(
            job, known, queue, places.at, hosts, tie=tie, rules=rules
        )
        assert made is not None  # noqa: S101 - there is a mapping, so there are flags or an error
        return chosen, reduction, made

    if jobs_file is not None:
        from matchmaker.delegation.record import check_key

        jobs = enumerate(inputs.ads(jobs_file), 1)
        orders = inputs.keyed(
            jobs_file, jobs, wish.key, check_key, lambda job: order_of(job, jobs_file)
        )
        outcomes = handing.many(orders, place, wish, lambda job: routed(job)[2])
        return _report(outcomes, as_json=as_json)
    assert job_file is not None  # noqa: S101 - checked above
    job = inputs.one_ad(job_file)
    order = order_of(job, job_file)
    page = reports.Page("handed over before")

    def choose() -> batch.Submission:
        nonlocal page
        chosen, reduction, made = routed(job)
        page = reports.Page(f"queue {chosen.name}")
        page.data = {"queue": chosen.name, "submission": reports.submission_data(made)}
        page.reduction(reduction)
        page.submission(made)
        return made

    found = handing.over(order, place, wish, choose)
    assert found is not None  # noqa: S101 - there are flags or an error
    record, options = found
    handing.explain(page, order, options)
    done = handing.say(page, record)
    page.print(as_json=as_json)
    return 0 if done else 1


def _report(outcomes: list[handing.Outcome], *, as_json: bool) -> int:
    """Prints what became of many jobs. Returns the exit status."""
    rows: list[dict[str, Any]] = []
    for each in outcomes:
        record = each.record
        row: dict[str, Any] = {"key": each.key, "refused": each.why or None}
        if record is not None:
            row["transfer"] = transfers.record_data(record)
        if each.options is not None:
            row["options"] = each.options
        rows.append(row)
    if as_json:
        print_json(rows)
    else:
        states = Counter(str(o.record.state) if o.record else "refused" for o in outcomes)
        print(f"{count(len(outcomes), 'job')}: ", end="")
        print(", ".join(f"{number} {state}" for state, number in sorted(states.items())))
        left = Counter(text for o in outcomes if o.options for text in o.options["left_out"])
        for text, number in left.items():
            print(f"left out of {count(number, 'job')}: {text}")
        if any(o.record and o.record.state in transfers.EARLY for o in outcomes):
            print("next: classad reconcile finds out where they are, and lets them start")
    bad = [o for o in outcomes if o.record is None or str(o.record.state) in handing.ENDED_BADLY]
    # Those that wait for their start have a reason only if something is in their way.
    told = [o for o in outcomes if o in bad or (o.record and o.record.reason)]
    if not as_json and told:
        whys = [[o.key, o.why or (transfers.short(o.record.reason) if o.record else "")]
                for o in told]  # fmt: skip
        show(table(["key", "why"], whys, whole=(0,)))
    if any(o.status == 2 for o in outcomes):
        return 2
    return 1 if bad else 0
