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

SUBCOMMANDS = {
    "acknowledge": "take the results of jobs that have ended",
    "assign": "a negotiation cycle: each of many jobs to its best free slot",
    "binder": "bring clients and pilots together, and ask for pilots",
    "blah-local-submit-attributes": "directives for what BLAH made of a job's requirements",
    "broker": "choose a queue for a job, its worker nodes, and the submit flags",
    "cancel": "end jobs that were handed over",
    "ces": "describe computing elements: queues from LDIF, LDAP or ads",
    "completion": "what makes a shell complete the command's words",
    "convert": "turn ads of one format into another",
    "eval": "the value of expressions",
    "explain": "why a job matches as few ads as it does",
    "factory": "keep pilots where jobs wait for them",
    "flags": "the batch system's submit flags for a job on a queue",
    "jobs": "the jobs that were handed over, and what they wait for",
    "lint": "mistakes in ads and expressions",
    "match": "the ads of a pool that match a job, best first",
    "nodes": "the worker nodes that a job may run on",
    "pilot": "run jobs on this node for a binder, or from a storage",
    "pilots": "how many pilots, and where: compare policies by simulation",
    "policy": "what a queued job requires of its queue's policy",
    "publish": "queues and worker nodes as LDIF of GLUE, for a site's server",
    "reconcile": "look at the batch systems, and take each job its next step",
    "reduce": "a job's requirement without the facts of its queue",
    "renew": "begin the leases of jobs again",
    "resume": "submit paused jobs again",
    "store": "work that pilots claim on a storage: what is free, claimed, done",
    "submit": "choose a queue for a job, and hand it over to the batch system, once",
}


GUIDE = """\
Which resource may run this job, which is best, how is the batch system asked?

  who matches, best first         classad match JOB POOL
  why so few, and what to change  classad explain JOB POOL
  many jobs to free slots         classad assign JOBS --pool POOL
  the value of an expression      classad eval 'Cpus * 2' --my '[ Cpus = 4 ]'
  mistakes in an ad               classad lint FILE
  another format                  classad convert FILE --to json

  queues of a site or a grid      classad ces SITE.ldif
  worker nodes of a site          classad nodes --lrms slurm
  a queue, its nodes, the flags   classad broker JOB --ces SITE.ldif
  the flags alone                 classad flags JOB --ce SITE.ldif --lrms slurm

  hand a job over, exactly once   classad submit JOB --script FILE
  what became of the jobs         classad jobs
  how many pilots, and where      classad pilots simulate TRACE
  keep pilots where jobs wait     classad factory run FILE.toml

Files are ads in any format; - is standard input.
Exit status: 0 yes, 1 no match, 2 bad input.
All subcommands: classad --help    One of them: classad SUBCOMMAND --help"""
"""What ``classad`` alone prints: the most common tasks, on one screen of 24 lines."""


class ReaderGoneError(Exception):
    """Nobody reads standard output any more."""


@contextmanager
def _written() -> Iterator[None]:
    """Says that a reader has gone before click makes it an exit with status 1.

    Where another connection broke off, such as a server's, that is no way to end in silence.
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
            from matchmaker.classad.likeness import closest

            meant = closest(cmd_name, {name: name for name in SUBCOMMANDS}, 0.6)
            hint = f"did you mean {meant}? " if meant else ""
            ctx.fail(f"no subcommand {cmd_name!r}; {hint}classad --help lists them")
        command: click.Command = import_module(
            f"matchmaker.cli.{cmd_name.replace('-', '_')}_"
        ).command
        if "_CLASSAD_COMPLETE" in os.environ:
            from matchmaker.cli.completion import teach

            teach(command)
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
        click.echo(GUIDE)
