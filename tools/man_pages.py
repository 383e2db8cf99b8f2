"""Writes a man page for each subcommand of ``classad``, from the help that ``--help`` prints.

``python tools/man_pages.py FOLDER``. The pages are made by click-man, which Debian's packages of
click programs use.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
from click_man.core import write_man_pages

from matchmaker import __version__
from matchmaker.cli.group import SUBCOMMANDS, classad

END = """\
.SH EXIT STATUS
0: yes. 1: no match, or nothing found. 2: bad input.
.SH SEE ALSO
.BR classad (1)
"""


def loaded(command: click.Command) -> click.Command:
    """A group with its subcommands at hand, which the command itself loads on call."""
    if not isinstance(command, click.Group):
        return command
    context = click.Context(command)
    inside = {}
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None  # noqa: S101 - it is listed
        inside[name] = loaded(found)
        if command is classad:
            inside[name].short_help = SUBCOMMANDS[name]
    return click.Group(
        command.name, commands=inside, help=command.help, params=command.params,
        short_help=command.short_help,
    )  # fmt: skip


def main(folder: Path) -> None:
    """Writes the pages into a folder, which is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    write_man_pages("classad", loaded(classad), version=__version__, target_dir=str(folder))
    for page in folder.glob("classad*.1"):
        page.write_text(page.read_text(encoding="utf-8").rstrip() + "\n" + END, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
