"""``classad completion``, and the offers to a shell for a word that is being typed.

Click knows subcommands, options and choices; the rest goes by the name of a parameter in help.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from matchmaker.cli.output import print_json

FILES: Final = frozenset({
    "FILE", "FILE|TEXT", "JOB", "JOBS", "OUT", "PLACE", "POOL", "SCRIPT", "TRACE",
})  # fmt: skip
LARGE: Final = 1 << 20
"""Of a larger file no attributes are offered: a shell does not wait."""

_WORD: Final = re.compile(r"[A-Za-z_]\w*\Z")


def teach(command: click.Command) -> None:
    """Make the parameters of a command, and of its subcommands, offer possible values."""
    for each in command.commands.values() if isinstance(command, click.Group) else [command]:
        for parameter in each.params:
            parameter.shell_complete = partial(offered, parameter)  # type: ignore[method-assign]


def offered(parameter: click.Parameter, ctx: click.Context, word: str) -> list[CompletionItem]:
    """Return the values of a parameter that continue a word."""
    if not isinstance(parameter.type, click.types.StringParamType):
        return parameter.type.shell_complete(ctx, parameter, word)
    called = set(re.split(r"[\s\[\].…]+", parameter.make_metavar(ctx)))
    if "--lrms" in parameter.opts or "LRMS" in called:
        return [CompletionItem(name) for name in _systems() if name.startswith(word)]
    if "DIR" in called:
        return [CompletionItem(word, type="dir")]
    if called & FILES:
        return [CompletionItem(word, type="file")]
    if called & {"EXPR", "NAME"}:
        begun = _WORD.search(word)
        start = word[: begun.start()] if begun else word
        names = _attributes(ctx)
        return [
            CompletionItem(start + name)
            for name in names
            if name.lower().startswith(word[len(start) :].lower())
        ]
    return []


def _systems() -> list[str]:
    from matchmaker.batch.mapping import known_lrms

    return list(known_lrms())


def _attributes(ctx: click.Context) -> list[str]:
    """The names in the files of ads that were given, sorted."""
    from matchmaker import read_ads

    found: dict[str, None] = {}
    for path in _files([*ctx.params.values(), *ctx.args]):
        try:
            for ad in read_ads(path, errors="report", report=lambda error: None):
                found.update(dict.fromkeys(ad))
        except (ValueError, OSError):
            # Nothing may be written on the line that is being typed.
            continue
    return sorted(found, key=str.lower)


def _files(values: Iterable[object]) -> Iterable[Path]:
    for value in values:
        if isinstance(value, tuple):
            yield from _files(value)
        elif isinstance(value, str):
            path = Path(value)
            if path.is_file() and path.stat().st_size <= LARGE:
                yield path


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def completion_command(*, shell: str, as_json: bool) -> int:
    """Print what makes SHELL complete subcommands, options, files and attributes.

    For bash: classad completion bash > ~/.local/share/bash-completion/completions/classad
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    script = kind(
        click.get_current_context().find_root().command, {}, "classad", "_CLASSAD_COMPLETE"
    ).source()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)
    return 0
