"""``classad completion``: the lines that make a shell complete the command's words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(*, shell: str) -> int:
    """Print what makes SHELL complete subcommands, options, files and attributes.

    For bash: classad completion bash > ~/.local/share/bash-completion/completions/classad
    """
    from matchmaker.cli.group import classad

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(classad, {}, "classad", "_CLASSAD_COMPLETE").source())
    return 0
