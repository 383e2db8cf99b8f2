"""``classad blah-local-submit-attributes``: replaces the site's script of BLAH."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from matchmaker import ClassAd, batch, reduce
from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.blah import demands, plain_variables, read_variables
from matchmaker.batch.flags.render import refusal
from matchmaker.batch.flags.requests import request_names
from matchmaker.cli import submission
from matchmaker.cli.output import print_json, warn


@click.command("blah-local-submit-attributes")
@click.option("--lrms", required=True, metavar="NAME", help="The batch system, such as slurm.")
@click.option("--mapping", metavar="FILE", help="The site's own mapping to submit flags (TOML).")
@click.option("--strict", is_flag=True, help="Refuse the job where something cannot be carried.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for people: BLAH reads lines.")
def command(*, lrms: str, mapping: str | None, strict: bool, as_json: bool) -> int:
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
    """The lines for what is on standard input, and what they do not carry.

    There are no lines if all must be carried and something is not.

    Directives stand first: a batch system stops reading them at the first other line.
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
        variables,
        [rule.attribute for rule in table.rules.values()],
        plain_variables(text),
        request_names(table),
        table.ignore,
    )
    job = ClassAd({**demanded.requests, "Requirements": demanded.condition})
    made = batch.flags(
        reduce(job, ClassAd(), lambda name: "host"),
        table.lrms,
        table,
        want=batch.Fit.EXACT if strict else batch.Fit.NECESSARY,
        queue=queue if isinstance(queue, str) else "",
        submitter=submission.submitter(),
    )
    lost = [f"{dropped.clause}: {dropped.reason}" for dropped in made.dropped]
    lost += [f"{name}: no flag for it, or no value that can be read" for name in demanded.foreign]
    for line in lost:
        warn(f"not carried: {line}")
    for variable, name in demanded.respelled:
        warn(f"{variable} is {name} of the mapping")
    return None if strict and lost else (*made.directives, *made.lines), lost
