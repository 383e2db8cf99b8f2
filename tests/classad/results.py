"""How the tests of this folder say what an expression gives."""

from __future__ import annotations

import math
from typing import Any

from matchmaker import ERROR, UNDEFINED, parse_ad, parse_expr
from matchmaker.classad.values import is_error

__all__ = ["ERROR", "UNDEFINED", "assert_gives", "value"]


def value(text: str, my: str = "", target: str = "") -> Any:
    """The value of an expression, perhaps in an ad matched with another."""
    return parse_expr(text).eval(parse_ad(my) if my else None, parse_ad(target) if target else None)


def assert_gives(text: str, expected: Any, my: str = "", target: str = "") -> None:
    """Fails unless the value has the expected type and is equal; an error must have a reason."""
    given = value(text, my, target)
    if is_error(expected):
        assert is_error(given), f"{text} gives {given!r}"
        assert given.reason or "error" in text, f"{text} gives an error without a reason"
        return
    assert type(given) is type(expected), f"{text} gives {given!r}"
    if isinstance(expected, float):
        assert math.isnan(given) if math.isnan(expected) else repr(given) == repr(expected), text
    else:
        assert given == expected, text
