"""``classad store``: work that pilots claim on a storage, and how far it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import attrs
import click

from matchmaker.cli.group import Subcommands
from matchmaker.cli.output import count, plain, print_json, printable, show, table, warn


@contextmanager
def storage() -> Iterator[None]:
    """Turn a storage's refusals into bad input; of several errors at once the first."""
    from matchmaker.pilots.store.protocol import StoreError

    try:
        yield
    except (StoreError, BaseExceptionGroup) as raised:
        error: BaseException = raised
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if not isinstance(error, StoreError):
            raise
        # A handler of `except*` would wrap this in a group of its own.
        raise click.ClickException(str(error)) from None


@click.group(cls=Subcommands)
def command() -> None:
    """Look at work that pilots claim on a storage (classad pilot --store)."""


@command.command("demand")
@click.argument("url")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def demand_(*, url: str, as_json: bool) -> int:
    """Print an ad for each parameter that is not done, for a factory that submits pilots.

    JobStatus is 2 where a pilot runs it, and 1 where none does. Exit status 0 also if nothing is
    left: a factory takes any other for an error.
    """
    from matchmaker.pilots.store.backends import open_store
    from matchmaker.pilots.store.status import demand
    from matchmaker.pilots.store.worker import plan_of

    with storage():
        store = open_store(url)
        ads = demand(store, plan_of(store))
        if as_json:
            print_json([plain(ad) for ad in ads])
        else:
            for ad in ads:
                print(printable(str(ad)))
    return 0


@command.command("retry")
@click.argument("url")
@click.argument("parameters", nargs=-1, metavar="[PARAMETER]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def retry_(*, url: str, parameters: tuple[str, ...], as_json: bool) -> int:
    """Forget failures, so that pilots try these parameters again on any node.

    Without PARAMETER all that failed and have no result. Exit status 1 if there was none.
    """
    from matchmaker.pilots.store.backends import open_store
    from matchmaker.pilots.store.status import retry
    from matchmaker.pilots.store.worker import plan_of

    with storage():
        store = open_store(url)
        plan = plan_of(store)
        if unknown := set(parameters) - set(plan.parameters):
            raise click.UsageError(f"{min(unknown)!r} is no parameter of {url}")
        found = retry(store, plan, parameters)
    if as_json:
        print_json([{"input": input_, "parameter": parameter} for input_, parameter in found])
    else:
        print(f"{count(len(found), 'parameter')} may be tried again")
    return 0 if found else 1


@command.command("status")
@click.argument("url")
@click.option("--claims", "with_claims", is_flag=True, help="List who runs what.")
@click.option("--failures", "with_failures", is_flag=True,
              help="List what failed, on which nodes, and why at last.")  # fmt: skip
@click.option("--wide", metavar="NUMBER", type=click.IntRange(1, 1000), default=50,
              show_default=True, help="Letters of a picture.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status_(
    *, url: str, with_claims: bool, with_failures: bool, wide: int, as_json: bool
) -> int:  # fmt: skip
    """Show what of each input is free, claimed and done.

    URL is a directory or s3://, gs://, az://, sftp://, davs://. In the picture each letter is a
    part of the parameters: # done, > running, ? claimed by a pilot that is silent, x failed and
    free for other nodes, ! given up after failures on several nodes, . free.
    Exit status 1 as long as results are missing, or something in the store cannot be run.
    """
    from matchmaker.pilots.store.backends import open_store
    from matchmaker.pilots.store.status import status
    from matchmaker.pilots.store.worker import plan_of

    with storage():
        store = open_store(url)
        found = status(
            store, plan_of(store), wide=wide, read=with_claims or with_failures or as_json
        )
    for each in found.refused:
        warn(each)
    if as_json:
        print_json({
            "done": found.all_done, "inputs": list(map(attrs.asdict, found.rows)),
            "claims": list(map(attrs.asdict, found.claims)),
            "failures": list(map(attrs.asdict, found.failures)), "refused": list(found.refused),
        })  # fmt: skip
        return 0 if found.all_done else 1
    if not found.rows:
        print("no inputs")
        return 0 if found.all_done else 1
    if with_claims:
        rows = [
            [c.input, c.parameter, c.epoch, c.by or "", f"{c.age:.0f}", "silent" if c.stale else ""]
            for c in found.claims
        ]
        show(table(["input", "parameter", "epoch", "by", "seconds", ""], rows, right=(2, 4)))
    if with_failures:
        rows = [
            [
                f.input,
                f.parameter,
                f.nodes,
                f.runs,
                "given up" if f.given_up else "",
                f.problem or "",
            ]
            for f in found.failures
        ]
        show(table(["input", "parameter", "nodes", "runs", "", "problem"], rows, right=(2, 3)))
    if not with_claims and not with_failures:
        show(table(
            ["input", "done", "running", "silent", "failed", "given up", "free", ""],
            [[r.input, r.done, r.running, r.stale, r.failed, r.given_up, r.free, r.picture]
             for r in found.rows],
            right=range(1, 7), whole=(0, 7),
        ))  # fmt: skip
        done, all_ = sum(r.done for r in found.rows), sum(r.parameters for r in found.rows)
        said = [f"{done} of {count(all_, 'result')}", count(len(found.claims), "claim")]
        if found.failures:
            said.append(f"{count(len(found.failures), 'failed parameter')} (--failures)")
        print("; ".join(said))
    return 0 if found.all_done else 1
