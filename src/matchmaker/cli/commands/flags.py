"""``classad flags``, ``reduce``, ``policy``, ``blah-local-submit-attributes``: flags for a job."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence

import click

from matchmaker import ClassAd, Verdict, batch, broker, glue, reduce
from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.blah import demands, plain_variables, read_variables
from matchmaker.batch.check import check
from matchmaker.batch.flags.render import refusal
from matchmaker.batch.flags.requests import request_names
from matchmaker.batch.mapping import packaged_text, replaceable
from matchmaker.batch.policy import carry, of_queued, required_policy
from matchmaker.broker import Hosts
from matchmaker.classad.nodes import TRUE
from matchmaker.cli import inputs, queues, reports
from matchmaker.cli.options import (
    flag_options,
    host_attribute_option,
    submitter,
    warn_of_contradictions,
)
from matchmaker.cli.output import count, print_json, printable, warn


@click.command("flags")
@click.argument("job_file", metavar="JOB", required=False)
@click.option("--lrms", metavar="NAME", help="The batch system, such as slurm.")
@queues.options
@click.option("--queue", metavar="NAME", help="The queue to take; by default the broker's choice.")
@flag_options
@click.option(
    "--policy",
    type=click.Choice([str(policy) for policy in batch.Strictness]),
    help="What to do with clauses that have no flag; replaces --want.",
)
@click.option("--explain", is_flag=True, help="Show every step from the requirement to the flags.")
@click.option("--check-mapping", is_flag=True, help="Look for mistakes in the mapping instead.")
@click.option(
    "--show-mapping",
    metavar="LRMS",
    help="Print the package's table of a batch system, with the names that a site may replace.",
)
@click.option(
    "--forward-policy",
    is_flag=True,
    help="Write the job's requirement on queue policy into its flags.",
)
@click.option("--submit", "script", metavar="SCRIPT", help="Submit SCRIPT with these flags.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def flags_command(
    *, job_file: str | None, lrms: str | None, places: queues.Sources, queue: str | None,
    nodes_file: str | None, mapping: str | None, host_attributes: tuple[str, ...], want: str,
    policy: str | None, explain: bool, check_mapping: bool, show_mapping: str | None,
    forward_policy: bool, script: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Print the submit flags for JOB on its queue, with a verdict and what they leave out.

    Nothing is submitted unless --submit names a job script.
    """
    if show_mapping is not None:
        return _show(show_mapping, as_json=as_json)
    lrms = _known(lrms, job_file, script, check_mapping=check_mapping)
    table = batch.load_mapping(lrms, mapping)
    program = _program(table) if script else ""
    if check_mapping:
        return _check(table, nodes_file, as_json=as_json)
    if job_file is None:
        raise click.UsageError("Missing argument 'JOB'.")
    job = inputs.one_job(job_file)
    inventory = inputs.ads(nodes_file) if nodes_file else None
    known = queues.read(places, nodes=inventory)
    hosts = broker.Hosts(
        nodes=inventory, mapping=table, want=batch.Fit(want),
        policy=batch.Strictness(policy) if policy else None,
        attributes=host_attributes, submitter=submitter(),
    )  # fmt: skip
    chosen, reduction, made = queues.routed(job, known, queue, places.at, hosts)
    assert made is not None  # noqa: S101 - there is a mapping, so there are flags or an error
    forwarded = required_policy(job, glue.scope) if forward_policy else None
    if forwarded is not None:
        made = carry(made, forwarded, table)
    if script:
        warn_of_contradictions(script, made, table)
    if as_json:
        data = {
            "queue": chosen.name,
            "residual": str(reduction.residual),
            **reports.submission_data(made),
        }
        if forwarded is not None:
            data["policy"] = str(forwarded)
        done = _submit(program, made, script, captured=True) if script else None
        print_json(data if done is None else {**data, "submitted": _answer(done)})
    else:
        page = reports.Page(f"queue {chosen.name}")
        if explain:
            page.lines(reduction.explain(steps=True).split("\n"))
            page.fates(reduction, made)
        else:
            page.reduction(reduction)
        page.submission(made)
        if policy == batch.Strictness.LENIENT and made.recheck is not None:
            page.say("recheck", f"{made.recheck}, by the job, on the node")
        if forwarded is not None:
            nothing = "nothing to forward: any queue policy will do"
            page.say("policy", nothing if forwarded is TRUE else f"{forwarded}, with the job")
        page.print()
        sys.stdout.flush()
        done = _submit(program, made, script) if script else None
    return 1 if done is not None and done.returncode else 0


def _known(
    lrms: str | None, job_file: str | None, script: str | None, *, check_mapping: bool
) -> str:
    """The batch system that is named. Raises UsageError for options that do not fit together."""
    if lrms is None:
        raise click.UsageError("Missing option '--lrms'.")
    if script == "":
        raise click.UsageError("--submit needs the name of a job script, not an empty one")
    if check_mapping and (job_file is not None or script is not None):
        raise click.UsageError(
            "--check-mapping is about the mapping, and takes neither JOB nor --submit; without it,"
            " --explain shows what the mapping does with a job"
        )
    return lrms


def _show(lrms: str, *, as_json: bool) -> int:
    names = replaceable(batch.load_mapping(lrms))
    if as_json:
        print_json([{"name": name, "templates": list(texts)} for name, texts in names.items()])
        return 0
    print("# What a site's file replaces by an entry of the same name, and what it is here:")
    for name, texts in names.items():
        print(f"#   {name}: {' or '.join(text or 'nothing' for text in texts)}")
    print(f"# flags.NAME = [] removes a flag.\n\n{packaged_text(lrms)}", end="")
    return 0


def _check(table: batch.Mapping, nodes_file: str | None, *, as_json: bool) -> int:
    nodes = inputs.ads(nodes_file) if nodes_file else []
    findings = check(table, nodes, lambda name: glue.scope(name) in ("host", "unknown"))
    if as_json:
        print_json([{"attribute": f.attribute, "message": f.message} for f in findings])
    else:
        for finding in findings:
            print(printable(f"{finding.attribute}: {finding.message}"))
        held = f", held against {count(len(nodes), 'node')}" if nodes else ""
        print(f"{count(len(table.rules), 'attribute')} of {table.lrms}{held}: ", end="")
        print(count(len(findings), "finding"))
    return 1 if findings else 0


def _program(table: batch.Mapping) -> str:
    """Find the batch system's command for submitting. Raises UsageError if there is none."""
    if not table.submit:
        raise click.UsageError(f"{table.lrms} has no command to submit with")
    command = table.submit[0]
    program = shutil.which(command)
    if program is None:
        raise click.UsageError(f"{command} is not installed here")
    return program


def _submit(
    program: str, made: batch.Submission, script: str, *, captured: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run the batch system's own command, without a shell."""
    # With a folder, so that a file name that begins with a minus is no option.
    path = script if "/" in script else f"./{script}"
    argv = [program, *made.argv, path]
    return subprocess.run(argv, check=False, capture_output=captured, text=True, errors="replace")  # noqa: S603


def _answer(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    return {"status": done.returncode, "output": done.stdout, "errors": done.stderr}


@click.command("reduce")
@click.argument("job_file", metavar="JOB")
@queues.options
@click.option("--queue", metavar="NAME", help="The queue to take; by default the broker's choice.")
@host_attribute_option
@click.option("--explain", is_flag=True, help="Show every step.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def reduce_command(
    *, job_file: str, places: queues.Sources, queue: str | None, host_attributes: tuple[str, ...],
    explain: bool, as_json: bool,
) -> int:  # fmt: skip
    """Take the facts of a queue out of JOB's requirements; a condition on hosts is left."""
    job = inputs.one_job(job_file)
    chosen, reduction, _ = queues.routed(
        job, queues.read(places), queue, places.at, Hosts(attributes=host_attributes)
    )
    if as_json:
        print_json({"queue": chosen.name, **reports.reduction_data(reduction)})
    else:
        for line in (f"queue: {chosen.name}", *reduction.explain(steps=explain).split("\n")):
            print(printable(line))
    return 1 if reduction.verdict is Verdict.NEVER else 0


@click.command("policy")
@click.argument("lrms")
@click.argument("job_id", metavar="JOBID")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def policy_command(*, lrms: str, job_id: str, as_json: bool) -> int:
    """Print the requirement on queue policy that a queued job carries, put there by classad flags.

    LRMS is the batch system, such as slurm, whose own command is asked for the job.
    """
    policy = of_queued(lrms, job_id)
    if as_json:
        print_json({"lrms": lrms, "job": job_id, "policy": str(policy)})
    else:
        print(printable(str(policy)))
    return 0


@click.command("blah-local-submit-attributes")
@click.option("--lrms", required=True, metavar="NAME", help="The batch system, such as slurm.")
@click.option("--mapping", metavar="FILE", help="The site's own mapping to submit flags (TOML).")
@click.option("--strict", is_flag=True, help="Refuse the job where something cannot be carried.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for people: BLAH reads lines.")
def blah_local_submit_attributes_command(
    *, lrms: str, mapping: str | None, strict: bool, as_json: bool
) -> int:
    """Print the directives for the shell variables that BLAH made of a job's requirements.

    They are read from standard input as bash's "declare -p" prints them, so that a site's
    LRMS_local_submit_attributes.sh is this one line:

        declare -p | classad blah-local-submit-attributes --lrms LRMS

    A job that is refused gets a directive that the batch system refuses, and exit status 1: BLAH
    looks at neither the exit status nor standard error.
    """
    own = batch.load_mapping(lrms)
    if own.style == "blah":
        raise click.UsageError("--lrms names the batch system behind BLAH, such as slurm")
    # BLAH looks at neither the exit status nor standard error: without a line that says no, a
    # refused job would be submitted with no flags at all.
    try:
        lines, lost = _directives(batch.load_mapping(lrms, mapping), strict=strict)
    except (ValueError, OSError, click.UsageError):
        if not as_json:
            print(refusal(own))
        raise
    refused = lines is None
    printed = [refusal(own)] if lines is None else list(lines)
    if as_json:
        print_json({"refused": refused, "lines": printed, "not_carried": lost})
    else:
        for line in printed:
            print(line)
    return 1 if refused else 0


def _directives(table: batch.Mapping, *, strict: bool) -> tuple[Sequence[str] | None, list[str]]:
    """Return the lines for the variables on standard input, and the demands that they lose.

    With ``strict``, None in place of lines that lose a demand. Directives come first: a batch
    system stops reading them at the first other line.
    """
    if sys.stdin is None:
        raise click.UsageError("standard input is closed")
    text = sys.stdin.buffer.read(LIMITS.variables + 1).decode("utf-8-sig", "replace")
    variables = read_variables(text)
    if not variables:
        raise ValueError("no variables to read: what bash's declare -p prints is expected")
    # BLAH's own variable for the queue. BLAH writes the directive itself.
    queue = variables.pop("bls_opt_queue", "")
    demanded = demands(
        variables, [rule.attribute for rule in table.rules.values()], plain_variables(text),
        request_names(table), table.ignore,
    )  # fmt: skip
    job = ClassAd({**demanded.requests, "Requirements": demanded.condition})
    made = batch.flags(
        reduce(job, ClassAd(), lambda name: "host"), table.lrms, table,
        want=batch.Fit.EXACT if strict else batch.Fit.NECESSARY,
        queue=queue if isinstance(queue, str) else "", submitter=submitter(),
    )  # fmt: skip
    lost = [f"{dropped.clause}: {dropped.reason}" for dropped in made.dropped]
    lost += [f"{name}: no flag for it, or no value that can be read" for name in demanded.foreign]
    for line in lost:
        warn(f"not carried: {line}")
    for variable, name in demanded.respelled:
        warn(f"{variable} is {name} of the mapping")
    return None if strict and lost else (*made.directives, *made.lines), lost
