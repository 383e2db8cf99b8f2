"""The options for submit flags of ``classad flags`` and ``classad broker``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., object])


def options(command: _F) -> _F:
    """Adds ``--nodes``, ``--mapping`` and ``--want``."""
    for option in (
        click.option(
            "--want",
            type=click.Choice(["necessary", "sufficient", "exact"]),
            default="necessary",
            show_default=True,
            help="How flags that cannot be exact may err.",
        ),
        click.option(
            "--mapping", metavar="FILE", help="The site's own mapping to submit flags (TOML)."
        ),
        click.option(
            "--nodes", "nodes_file", metavar="FILE", help="Ads of the queue's worker nodes."
        ),
    ):
        command = option(command)
    return command
