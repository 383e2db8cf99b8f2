"""Errors for arguments of the wrong type, and limits on the results of functions.

A result is bounded because the arguments come from strangers: a few attributes that double a string
could otherwise fill the memory. The functions themselves are in the modules by subject.
"""

from __future__ import annotations

from collections.abc import Sequence

from matchmaker.classad.limits import LIMITS
from matchmaker.classad.values import ErrorType, Value, is_error, type_name


def wrong(function: str, wanted: str, value: Value) -> ErrorType:
    """The error for an argument of the wrong type; an argument that is an error is returned.

    >>> wrong("size", "a string, a list or an ad", 1)
    ERROR(size() takes a string, a list or an ad, not integer)
    """
    if is_error(value):
        return value
    return ErrorType(f"{function}() takes {wanted}, not {type_name(value)}")


def joined(function: str, parts: Sequence[str], separator: str = "") -> Value:
    """Joins parts into one string; an error if it is too long."""
    length = sum(map(len, parts)) + len(separator) * max(0, len(parts) - 1)
    if length > LIMITS.result:
        return ErrorType(f"{function}() would give {length} characters, at most {LIMITS.result}")
    return separator.join(parts)


def listed(function: str, items: Sequence[Value]) -> Value:
    """Makes a list of items; an error if they are too many."""
    if len(items) > LIMITS.items:
        return ErrorType(f"{function}() would give {len(items)} elements, at most {LIMITS.items}")
    return list(items)
