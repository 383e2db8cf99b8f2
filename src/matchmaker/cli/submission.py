"""The options for submit flags of ``classad flags`` and ``classad broker``, and who submits."""

from __future__ import annotations

import os
from pathlib import Path

import click

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch import Mapping, Submission, Submitter
from matchmaker.batch.flags.submission import contradictions
from matchmaker.cli import output
from matchmaker.cli.options import together

host_attributes = click.option(
    "--host-attribute", "host_attributes", multiple=True, metavar="NAME",
    help="An attribute of hosts that neither the GLUE schema nor the mapping knows.",
)  # fmt: skip


mapping = click.option(
    "--mapping", metavar="FILE", help="The site's own mapping to submit flags (TOML)."
)


options = together(
    host_attributes,
    click.option(
        "--want",
        type=click.Choice(["necessary", "sufficient", "exact"]),
        default="necessary",
        show_default=True,
        help="How flags that cannot be exact may err.",
    ),
    mapping,
    click.option("--nodes", "nodes_file", metavar="FILE", help="Ads of the queue's worker nodes."),
)
"""``--nodes``, ``--mapping``, ``--host-attribute`` and ``--want``."""


def submitter() -> Submitter:
    """The account that runs this command, with the names of its groups, the main one first."""
    import grp
    import pwd

    def name_of(number: int) -> str:
        try:
            return grp.getgrgid(number).gr_name
        except KeyError:
            return ""

    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = ""
    names = (name_of(number) for number in (os.getegid(), *os.getgroups()))
    return Submitter(user, tuple(dict.fromkeys(filter(None, names))))


def warn(script: str, made: Submission, table: Mapping) -> None:
    """Prints where a script contradicts its flags. A script that cannot be read is left alone."""
    path = Path(script)
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            text = file.read(LIMITS.script).decode("utf-8", "replace")
    except OSError:
        return
    for line in contradictions(text, made, table):
        output.warn(f"{script}: {line}")
