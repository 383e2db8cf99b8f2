"""Pools that subcommands ask in shards: the options, and the shards while they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from matchmaker.cli import pools
from matchmaker.cli.options import together

if TYPE_CHECKING:
    from matchmaker import Expr, Pool, Shards

options = together(
    click.option(
        "--scheduler", metavar="ADDRESS",
        help="A scheduler of Dask, such as tcp://host:8786, whose workers hold the pool. Each"
        " file is a shard, unless --shards says how many.",
    ),
    click.option(
        "--shards", type=click.IntRange(min=1, max=1000), metavar="N",
        help="Divide the pool into N shards in processes of this machine or of --scheduler.",
    ),
)  # fmt: skip
"""``--shards`` and ``--scheduler``."""


def asked(shards: int | None, scheduler: str | None) -> bool:
    """Whether the options ask for shards."""
    return shards is not None or scheduler is not None


@contextmanager
def pool(
    paths: tuple[str, ...],
    key: str | None,
    constraint: Expr | None,
    shards: int | None,
    scheduler: str | None,
) -> Iterator[Pool | Shards]:
    """The pool of some files, of the ads for which a constraint is true, in shards if asked for."""
    if asked(shards, scheduler):
        with in_shards(paths, key, constraint, shards, scheduler) as found:
            yield found
    else:
        yield pools.read(paths, key, constraint)


@contextmanager
def in_shards(
    paths: tuple[str, ...],
    key: str | None,
    constraint: Expr | None,
    shards: int | None,
    scheduler: str | None,
) -> Iterator[Shards]:
    """The shards of some files. What is counted out or chosen is read here, and then divided."""
    from matchmaker.shards import Shards
    from matchmaker.shards.cluster import Cluster, cores

    by_file = shards is None and constraint is None
    given = list(paths) if by_file else pools.read(paths, key, constraint)
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
