"""The values an expression can have: Python's own, and two that Python lacks.

Here live UNDEFINED, ERROR, the type alias ``Value`` and 64-bit wrapping. Operators on values are in
``operators``; how an expression comes to its value is in ``evaluate``.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from datetime import datetime, timedelta
from typing import Any, Final, NoReturn, TypeAlias, TypeGuard, TypeVar

import attrs

_T = TypeVar("_T")

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1


@attrs.frozen(slots=True, eq=False, repr=False)
class UndefinedType:
    """The type of UNDEFINED, the value of an attribute that is not there.

    >>> UNDEFINED
    UNDEFINED
    >>> bool(UNDEFINED)
    Traceback (most recent call last):
    ...
    TypeError: UNDEFINED is neither true nor false; compare it with `is`
    """

    def __repr__(self) -> str:
        return "UNDEFINED"

    def __bool__(self) -> NoReturn:
        raise TypeError("UNDEFINED is neither true nor false; compare it with `is`")

    def __reduce__(self) -> str:
        return "UNDEFINED"


@attrs.frozen(slots=True, eq=False, repr=False)
class ErrorType:
    """The type of ERROR, the value of an expression that cannot be computed.

    All errors are equal, whatever their reason; test for one with ``is_error(value)``.

    >>> ErrorType("integer division by zero") == ERROR
    True
    >>> ErrorType("integer division by zero")
    ERROR(integer division by zero)
    """

    reason: str = ""

    def __repr__(self) -> str:
        return f"ERROR({self.reason})" if self.reason else "ERROR"

    def __bool__(self) -> NoReturn:
        raise TypeError("ERROR is neither true nor false; test it with is_error(value)")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ErrorType)

    def __hash__(self) -> int:
        return hash(ErrorType)


class Ad(MutableMapping[str, _T]):
    """What an ad is among the values: a mapping from names. ``ClassAd`` is the only kind."""

    __slots__ = ()


UNDEFINED: Final = UndefinedType()
ERROR: Final = ErrorType()

Value: TypeAlias = (
    bool
    | int
    | float
    | str
    | list[Any]
    | Ad[Any]
    | datetime
    | timedelta
    | UndefinedType
    | ErrorType
)


def is_error(value: object) -> TypeGuard[ErrorType]:
    """Whether a value is ERROR, whatever its reason."""
    return isinstance(value, ErrorType)


def is_exceptional(value: object) -> TypeGuard[UndefinedType | ErrorType]:
    """Whether a value is UNDEFINED or ERROR."""
    return value is UNDEFINED or isinstance(value, ErrorType)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is an integer or a real, and no boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is an integer, and no boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def wrap(number: int) -> int:
    """Brings an integer into 64 bits as two's complement does (C++ ClassAds, long long).

    >>> wrap(2**63)
    -9223372036854775808
    """
    if MIN_INT <= number <= MAX_INT:
        return number
    return (number + 2**63) % 2**64 - 2**63


def type_name(value: Value) -> str:
    """The field's name of a value's type, for messages.

    >>> type_name("x"), type_name(1.5), type_name(UNDEFINED)
    ('string', 'real', 'undefined')
    """
    for python, name in _TYPE_NAMES.items():
        if isinstance(value, python):
            return name
    return "classad"


_TYPE_NAMES: Final[dict[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "real",
    str: "string",
    list: "list",
    datetime: "absolute time",
    timedelta: "relative time",
    UndefinedType: "undefined",
    ErrorType: "error",
}
