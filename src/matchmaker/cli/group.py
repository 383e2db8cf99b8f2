"""The subcommands by name; each module is imported when its subcommand is called."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from matchmaker import __version__

GROUPS = {
    "Ads and pools": {
        "match": "the ads of a pool that match a job, best first",
        "explain": "why a job matches as few ads as it does",
        "assign": "a negotiation cycle: each of many jobs to its best free slot",
        "eval": "the value of expressions",
        "lint": "mistakes in ads and expressions",
        "convert": "turn ads of one format into another",
    },
    "Sites and batch systems": {
        "ces": "describe computing elements: queues from LDIF, LDAP or ads",
        "nodes": "the worker nodes that a job may run on",
        "broker": "choose a queue for a job, its worker nodes, and the submit flags",
        "flags": "the batch system's submit flags for a job on a queue",
        "reduce": "a job's requirement without the facts of its queue",
        "publish": "queues and worker nodes as LDIF of GLUE, for a site's server",
        "policy": "what a queued job requires of its queue's policy",
        "blah-local-submit-attributes": "directives for what BLAH made of a job's requirements",
    },
    "Jobs and pilots": {
        "submit": "choose a queue for a job, and hand it over to the batch system, once",
        "jobs": "the jobs that were handed over, and what they wait for",
        "reconcile": "look at the batch systems, and take each job its next step",
        "renew": "begin the leases of jobs again",
        "resume": "submit paused jobs again",
        "cancel": "end jobs that were handed over",
        "acknowledge": "take the results of jobs that have ended",
        "pilots": "how many pilots, and where: compare policies by simulation",
        "factory": "keep pilots where jobs wait for them",
        "binder": "bring clients and pilots together, and ask for pilots",
        "pilot": "run jobs on this node for a binder, or from a storage",
        "store": "work that pilots claim on a storage: what is free, claimed, done",
    },
    "The shell": {"completion": "what makes a shell complete the command's words"},
}
"""The subcommands under the headings of ``--help``, each with its line there."""

SUBCOMMANDS = {name: line for group in GROUPS.values() for name, line in group.items()}

MODULES = {
    "completion": "completion",
    **dict.fromkeys(("reduce", "policy", "blah-local-submit-attributes"), "commands.flags"),
    **dict.fromkeys(("reconcile", "renew", "resume", "cancel", "acknowledge"), "commands.jobs"),
    "assign": "commands.match", "publish": "commands.nodes", "submit": "commands.broker",
    "store": "commands.pilot",
}  # fmt: skip
"""The modules of subcommands that share one; any other is in the module of its name."""

GUIDE = """\
Which resource may run this job, which is best, how is the batch system asked?

Ads and pools:
  who matches, best first     classad match JOB POOL
  why so few, what to change  classad explain JOB POOL
  many jobs to free slots     classad assign JOBS --pool POOL
  the value of an expression  classad eval 'Cpus * 2' --my '[ Cpus = 4 ]'
  mistakes in an ad           classad lint FILE
  another format              classad convert FILE --to json
Sites and batch systems:
  queues of a site or a grid  classad ces --ldif SITE
  worker nodes of a site      classad nodes --lrms slurm
  a queue for a job, or why   classad broker JOB --ldif SITE
  the flags of a submission   classad flags JOB --ldif SITE --lrms slurm
Jobs and pilots:
  hand a job over, just once  classad submit JOB --ldif SITE --lrms slurm
  what became of the jobs     classad jobs
  how many pilots, and where  classad pilots simulate TRACE
  pilots where jobs wait      classad factory run TOML

Files are ads in any format; SITE is a dump of LDAP; - is standard input.
Exit status: 0 yes, 1 no match, 2 bad input.
All subcommands: classad --help    One of them: classad SUBCOMMAND --help"""
"""What ``classad`` alone prints: the most common tasks, on one screen of 24 lines."""


class ReaderGoneError(Exception):
    """Nobody reads standard output any more."""


@contextmanager
def _written() -> Iterator[None]:
    """Say that a reader has gone before click makes it an exit with status 1.

    If another connection broke off, such as a server's, that is an error.
    """
    try:
        yield
    except BrokenPipeError as error:
        if _reader_gone():
            raise ReaderGoneError from error
        raise click.ClickException("a connection broke off; try again") from error


def _reader_gone() -> bool:
    """Whether nobody reads standard output any more."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return bool(poll.poll(0))


class _Lazy(click.Group):
    def make_context(self, *given: Any, **named: Any) -> click.Context:
        with _written():
            return super().make_context(*given, **named)

    def invoke(self, ctx: click.Context) -> Any:
        with _written():
            status = super().invoke(ctx)
            sys.stdout.flush()
            return status

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        if cmd_name not in SUBCOMMANDS:
            from matchmaker.classad.errors import closest

            meant = closest(cmd_name, {name: name for name in SUBCOMMANDS}, 0.6)
            hint = f"did you mean {meant}? " if meant else ""
            ctx.fail(f"no subcommand {cmd_name!r}; {hint}classad --help lists them")
        module = import_module(f"matchmaker.cli.{MODULES.get(cmd_name, f'commands.{cmd_name}')}")
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        if "_CLASSAD_COMPLETE" in os.environ:
            from matchmaker.cli.completion import teach

            teach(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(list(group.items()))


class Subcommands(click.Group):
    """A subcommand with subcommands of its own: alone it prints its help, with whole sentences."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Print the help if nothing is asked for."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands, each with the first paragraph of its help."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            formatter.write_dl([
                (name, " ".join((one.help or "").partition("\n\n")[0].split()))
                for name, one in found.items() if one is not None
            ])  # fmt: skip


@click.group(
    cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True
)
@click.version_option(__version__, prog_name="classad")
@click.pass_context
def classad(ctx: click.Context) -> None:
    """Which resource may run this job, which is best, and how is the batch system asked for it?

    Files are ads in any format; - is standard input. Exit status: 0 yes, 1 no match, 2 bad input.
    """
    if ctx.invoked_subcommand is None:
        click.echo(GUIDE)
