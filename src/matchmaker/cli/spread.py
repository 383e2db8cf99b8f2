"""Pools that subcommands ask in shards: the options, and the shards while they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from matchmaker.cli import pools

if TYPE_CHECKING:
    from matchmaker import Pool, Shards

_F = TypeVar("_F", bound=Callable[..., object])


def options(command: _F) -> _F:
    """Adds ``--shards`` and ``--scheduler``."""
    for option in (
        click.option(
            "--scheduler", metavar="ADDRESS",
            help="A scheduler of Dask, such as tcp://host:8786, whose workers hold the pool. Each"
            " file is a shard, unless --shards says how many.",
        ),
        click.option(
            "--shards", type=click.IntRange(min=1, max=1000), metavar="N",
            help="Divide the pool into N shards in processes of this machine or of --scheduler.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


@contextmanager
def pool(
    paths: tuple[str, ...], key: str | None, shards: int | None, scheduler: str | None
) -> Iterator[Pool | Shards]:
    """The pool of some files: here, or where the options ask for it, in shards."""
    if shards is None and scheduler is None:
        yield pools.read(paths, key)
        return
    from matchmaker.shards import Shards
    from matchmaker.shards.cluster import Cluster, cores

    given = list(paths) if shards is None else pools.read(paths, key)
    if scheduler is None:
        workers = min(shards or 1, cores())
        with Shards(given, key=key, shards=shards, workers=workers) as found:
            yield found
        return
    cluster = Cluster.at(scheduler, 600.0)
    try:
        with Shards(given, cluster.client, key=key, shards=shards) as found:
            yield found
    finally:
        cluster.close(with_client=True)
