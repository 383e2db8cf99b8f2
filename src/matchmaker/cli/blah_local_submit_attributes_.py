"""``classad blah-local-submit-attributes``: in place of BLAH's script of a site."""

from __future__ import annotations

import sys

import click

from matchmaker import ClassAd, batch, reduce
from matchmaker.batch.blah import MOST_INPUT, condition_of, plain_variables, read_variables
from matchmaker.cli.output import printable


@click.command("blah-local-submit-attributes")
@click.option("--lrms", required=True, metavar="NAME", help="The batch system, such as slurm.")
@click.option("--mapping", metavar="FILE", help="The site's own mapping to submit flags (TOML).")
@click.option("--strict", is_flag=True, help="Refuse the job where something cannot be carried.")
def command(*, lrms: str, mapping: str | None, strict: bool) -> int:
    """Print the directives for the shell variables that BLAH made of a job's requirements.

    They are read from standard input as bash's "declare -p" prints them, so that a site's
    LRMS_local_submit_attributes.sh is this one line:

        declare -p | classad blah-local-submit-attributes --lrms LRMS
    """
    table = batch.load_mapping(lrms, mapping)
    if sys.stdin is None:
        raise click.UsageError("standard input is closed")
    text = sys.stdin.buffer.read(MOST_INPUT + 1).decode("utf-8", "replace")
    names = [rule.attribute for rule in table.rules.values()]
    condition, foreign = condition_of(read_variables(text), names, plain_variables(text))
    reduction = reduce(ClassAd({"Requirements": condition}), ClassAd(), lambda name: "host")
    want = batch.Fit.EXACT if strict else batch.Fit.NECESSARY
    submission = batch.flags(reduction, table.lrms, table, want=want)
    lost = [f"{dropped.clause}: {dropped.reason}" for dropped in submission.dropped]
    lost += [f"{name}: no flag for it, or no value that can be read" for name in foreign]
    for line in lost:
        print(f"classad: not carried: {printable(line)}", file=sys.stderr)
    if strict and lost:
        return 1
    for line in submission.directives:
        print(line)
    return 0
