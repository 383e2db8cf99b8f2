"""Ads and values of HTCondor's Python bindings (``classad``, ``classad2``, ``htcondor2``) as ours.

They are recognized by the names of their types, and read by what they print and by the interface of
mappings: none of those modules is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from matchmaker.classad.parser import parse_expr
from matchmaker.classad.values import UNDEFINED, ErrorType

_MODULES: Final = ("classad", "htcondor")
_VALUES: Final = {"Undefined": UNDEFINED, "Error": ErrorType()}


def is_ad(given: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether something is an ad of the bindings."""
    return _is(given, "ClassAd")


def ours(value: Any) -> Any:
    """A value of the bindings that Python has none for, as ours; anything else as it is.

    An expression is read from what it prints: ParseError, if it is none here.
    """
    if _is(value, "ExprTree"):
        return parse_expr(str(value))
    return _VALUES.get(value.name, value) if _is(value, "Value") else value


def _is(given: object, name: str) -> bool:
    kind = type(given)
    return kind.__name__ == name and kind.__module__.startswith(_MODULES)
