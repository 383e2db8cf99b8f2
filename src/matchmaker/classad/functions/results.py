"""What functions answer to arguments they cannot use, and the bounds on what they give back.

A result is bounded because the arguments come from strangers: a few attributes that double a string
could otherwise fill the memory. The functions themselves are in the modules by subject.
"""

from __future__ import annotations

from collections.abc import Sequence

from matchmaker.classad.limits import LIMITS
from matchmaker.classad.values import ErrorType, Value, is_error, type_name


def wrong(function: str, wanted: str, value: Value) -> ErrorType:
    """The error of a function given the wrong kind of value; an error given to it stays itself.

    >>> wrong("size", "a string, a list or an ad", 1)
    ERROR(size() takes a string, a list or an ad, not integer)
    """
    if is_error(value):
        return value
    return ErrorType(f"{function}() takes {wanted}, not {type_name(value)}")


def joined(function: str, parts: Sequence[str], separator: str = "") -> Value:
    """The parts as one string, if it is not too long."""
    length = sum(map(len, parts)) + len(separator) * max(0, len(parts) - 1)
    if length > LIMITS.result:
        return ErrorType(f"{function}() would give {length} characters, at most {LIMITS.result}")
    return separator.join(parts)


def listed(function: str, items: Sequence[Value]) -> Value:
    """The items as a list, if they are not too many."""
    if len(items) > LIMITS.items:
        return ErrorType(f"{function}() would give {len(items)} elements, at most {LIMITS.items}")
    return list(items)
