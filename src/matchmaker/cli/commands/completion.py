"""``classad completion``: the lines that make a shell complete the command's words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from matchmaker.cli.output import print_json


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, shell: str, as_json: bool) -> int:
    """Print what makes SHELL complete subcommands, options, files and attributes.

    For bash: classad completion bash > ~/.local/share/bash-completion/completions/classad
    """
    from matchmaker.cli.group import classad

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    script = kind(classad, {}, "classad", "_CLASSAD_COMPLETE").source()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)
    return 0
