"""The subcommands by name; each module is imported when its subcommand is called."""

from __future__ import annotations

from importlib import import_module

import click

from matchmaker import __version__

SUBCOMMANDS = {
    "acknowledge": "take the results of jobs that have ended",
    "assign": "a negotiation cycle: each of many jobs to its best free slot",
    "blah-local-submit-attributes": "directives for what BLAH made of a job's requirements",
    "broker": "choose a queue for a job, its worker nodes, and the submit flags",
    "cancel": "end jobs that were handed over",
    "ces": "describe computing elements: queues from LDIF, LDAP or ads",
    "convert": "turn ads of one format into another",
    "eval": "the value of expressions",
    "explain": "why a job matches as few ads as it does",
    "factory": "keep pilots where jobs wait for them",
    "flags": "the batch system's submit flags for a job on a queue",
    "jobs": "the jobs that were handed over, and what they wait for",
    "lint": "mistakes in ads and expressions",
    "match": "the ads of a pool that match a job, best first",
    "nodes": "the worker nodes that a job may run on",
    "pilots": "how many pilots, and where: compare policies by simulation",
    "policy": "what a queued job requires of its queue's policy",
    "publish": "queues and worker nodes as LDIF of GLUE, for a site's server",
    "reconcile": "look at the batch systems, and take each job its next step",
    "reduce": "a job's requirement without the facts of its queue",
    "renew": "begin the leases of jobs again",
    "submit": "choose a queue for a job, and hand it over to the batch system, once",
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        if cmd_name not in SUBCOMMANDS:
            ctx.fail(f"no subcommand {cmd_name!r}; classad --help lists them")
        command: click.Command = import_module(
            f"matchmaker.cli.{cmd_name.replace('-', '_')}_"
        ).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SUBCOMMANDS.items()))


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="classad")
@click.pass_context
def classad(ctx: click.Context) -> None:
    """Which resource may run this job, which is best, and how is the batch system asked for it?

    Files are ads in any format; - is standard input. Exit status: 0 yes, 1 no match, 2 bad input.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
