"""Options that subcommands share: several at once, and several as one record."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import attrs

_F = TypeVar("_F", bound=Callable[..., object])


def together(*options: Callable[[Any], Any]) -> Callable[[_F], _F]:
    """Several options as one decorator; ``--help`` shows the last one first."""

    def add(command: _F) -> _F:
        for option in options:
            command = option(command)
        return command

    return add


def gathered(
    record: type, name: str, *options: Callable[[Any], Any]
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """As ``together``; the command gets the values as one attrs record under a name."""
    fields = [field.name for field in attrs.fields(record)]

    def add(command: Callable[..., int]) -> Callable[..., int]:
        @wraps(command)
        def called(**values: Any) -> int:
            made = record(**{field: values.pop(field) for field in fields})
            return command(**{name: made}, **values)

        return together(*options)(called)

    return add
