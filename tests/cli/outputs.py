"""Holds what subcommands print with ``--json`` to the published schema of each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any
from urllib.parse import quote

import click
import jsonschema

from matchmaker._data import data_text
from matchmaker.cli.group import classad


def subcommands() -> Iterator[tuple[str, click.Command]]:
    """All that can be called, by name: ``match``, ``factory run``."""

    def below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(command, click.Group):
            yield name, command
            return
        inside = click.Context(command)
        for one in command.list_commands(inside):
            found = command.get_command(inside, one)
            assert found is not None
            yield from below(f"{name} {one}".lstrip(), found)

    return below("", classad)


@cache
def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(data_text("schemas", "output.json"))
    jsonschema.Draft202012Validator.check_schema(found)
    return found


@cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(
        {"$ref": f"#/$defs/{quote(name)}", "$defs": schema()["$defs"]}
    )


def check_output(words: Sequence[object], status: int, out: str) -> None:
    """Fails where a run with ``--json`` printed something else than its schema says.

    What was printed before a failure is not looked at; nor is text that is no JSON on purpose, of
    a run that wrote something else to standard output as well.
    """
    given = [str(word) for word in words]
    if "--json" not in given or status not in (0, 1):
        return
    name = next((one for one in _names() if given[: one.count(" ") + 1] == one.split()), None)
    if name is None:
        return
    rest = out.strip()
    while rest:
        value, end = json.JSONDecoder().raw_decode(rest)
        _validator(name).validate(value)
        rest = rest[end:].strip()


@cache
def _names() -> tuple[str, ...]:
    return tuple(name for name, _ in subcommands())
