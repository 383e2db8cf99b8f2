"""Values made comparable: what ``==`` of Python takes for equal is not always the same value."""

from __future__ import annotations

import math
from typing import Any

import attrs

from matchmaker import ClassAd, Expr, is_error


def canonical(value: Any) -> Any:
    """A value as something that ``==`` compares exactly: by type, and reals by their bits."""
    if is_error(value):
        return "error"
    if isinstance(value, float):
        return "real", "nan" if math.isnan(value) else value.hex()
    if isinstance(value, list):
        return [canonical(item) for item in value]
    if isinstance(value, ClassAd):
        return {name.lower(): str(value[name]) for name in value}
    if isinstance(value, Expr):
        return value
    return type(value), value


def fields_of(node: Expr) -> tuple[Any, ...]:
    """The constructor arguments of a node: ``type(node)(*fields_of(node)) is node``."""
    return tuple(getattr(node, a.name) for a in attrs.fields(type(node)) if a.init)
