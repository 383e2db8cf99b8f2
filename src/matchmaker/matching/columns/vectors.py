"""The values of an expression on many rows, and the connectives on them.

Four forms, by what the values allow: ``Same`` (one value for all rows), ``Scalars`` (truths and
numbers, as kinds and bits), ``Chosen`` (a table of values and a code a row) and ``Objects`` (a
value a row). Arithmetic and comparisons on scalars are in ``kernels``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from matchmaker.classad.operators import BINARY, truth
from matchmaker.classad.values import ERROR, UNDEFINED, Value, is_error
from matchmaker.matching.columns.column import (
    ERROR_KIND,
    FALSE,
    INTEGER,
    OTHER,
    REAL,
    TRUE,
    UNDEFINED_KIND,
    Bits,
    Codes,
    Kinds,
    Rows,
    encoded,
)

Mask: TypeAlias = "npt.NDArray[np.bool_]"


@attrs.frozen(slots=True, eq=False)
class Same:
    """One value for every row."""

    value: Value


@attrs.frozen(slots=True, eq=False)
class Scalars:
    """Truths and numbers: a kind a row, or one for all, and the 64 bits of each.

    The bits of a truth are 0 for false and 1 for true; ``bits`` is None where all are truths.
    Reasons of errors are not kept.
    """

    kinds: Kinds
    bits: Bits | None


@attrs.frozen(slots=True, eq=False)
class Chosen:
    """Values by the code of each row."""

    codes: Codes
    table: Sequence[Value]


@attrs.frozen(slots=True, eq=False)
class Objects:
    """A value a row."""

    values: Sequence[Value]


Vector: TypeAlias = "Same | Scalars | Chosen | Objects"

_PLAIN_LIMIT: Final = ERROR_KIND


def scalars(vector: Vector) -> Scalars | None:
    """The vector as scalars, or None where a value is neither a truth nor a number.

    One of a single value has one row, which NumPy broadcasts.
    """
    if isinstance(vector, Scalars):
        return vector
    if isinstance(vector, Same):
        kinds, bits = encoded([vector.value])
    elif isinstance(vector, Chosen):
        kinds, bits = encoded(list(vector.table))
    else:
        kinds, bits = encoded(list(vector.values))
    if kinds.size and kinds.max() == OTHER:
        return None
    if isinstance(vector, Chosen):
        if not len(kinds) or kinds.max() <= ERROR_KIND:
            return Scalars(kinds[vector.codes], None)
        uniform = kinds[0] if (kinds == kinds[0]).all() else None
        return Scalars(
            kinds[:1] if uniform is not None else kinds[vector.codes], bits[vector.codes]
        )
    return Scalars(kinds, None if not kinds.size or kinds.max() <= ERROR_KIND else bits)


def truths(vector: Vector) -> Kinds:
    """The values as conditions: FALSE, TRUE, UNDEFINED_KIND or ERROR_KIND a row, or one for all."""
    if isinstance(vector, Scalars):
        kinds = vector.kinds
        if vector.bits is None:
            return kinds
        # Minus zero is as false as zero; its bits are not.
        nonzero = np.where(kinds == REAL, vector.bits.view(np.float64) != 0, vector.bits != 0)
        return np.where(kinds >= INTEGER, nonzero.view(np.uint8), kinds)
    if isinstance(vector, Chosen):
        return _conditions(vector.table)[vector.codes]
    return _conditions([vector.value] if isinstance(vector, Same) else vector.values)


def _conditions(values: Sequence[Value]) -> Kinds:
    return np.fromiter((_condition(value) for value in values), np.uint8, len(values))


def _condition(value: Value) -> int:
    value = truth(value)
    if isinstance(value, bool):
        return TRUE if value else FALSE
    return ERROR_KIND if is_error(value) else UNDEFINED_KIND


TRUTHS: Final[tuple[Value, ...]] = (False, True, UNDEFINED, ERROR)


def _connective(function: Callable[[Value, Value], Value]) -> Kinds:
    """A connective as a table of sixteen: the total operator applied to every pair of truths."""
    return np.array([_condition(function(a, b)) for a in TRUTHS for b in TRUTHS], np.uint8)


_TABLES: Final[dict[str, Kinds]] = {symbol: _connective(BINARY[symbol]) for symbol in ("&&", "||")}
_NOT: Final = np.array([TRUE, FALSE, UNDEFINED_KIND, ERROR_KIND], np.uint8)


def connect(symbol: str, left: Vector, right: Vector) -> Vector:
    """``left && right`` and ``left || right``."""
    pairs = (truths(left) << 2) | truths(right)
    return Scalars(_TABLES[symbol][pairs], None)


def negate(vector: Vector) -> Vector:
    """``!vector``."""
    return Scalars(_NOT[truths(vector)], None)


def is_true(vector: Vector, size: int) -> Mask:
    """Where the values are true as conditions."""
    return np.broadcast_to(truths(vector) == TRUE, (size,))


def where_undefined(vector: Vector, size: int) -> Mask:
    """Where the values are UNDEFINED."""
    if isinstance(vector, Same):
        found: Any = np.array([vector.value is UNDEFINED])
    elif isinstance(vector, Scalars):
        found = vector.kinds == UNDEFINED_KIND
    elif isinstance(vector, Chosen):
        found = np.array([value is UNDEFINED for value in vector.table], np.bool_)[vector.codes]
    else:
        found = np.array([value is UNDEFINED for value in vector.values], np.bool_)
    return np.broadcast_to(found, (size,))


def merged(parts: Sequence[tuple[Rows, Vector]], size: int) -> Vector:
    """One vector of the parts, each with the places in it that its rows have."""
    plain = [scalars(vector) for _, vector in parts]
    if any(part is None for part in plain):
        values = np.empty(size, object)
        for places, vector in parts:
            values[places] = _objects(vector, len(places))
        return Objects(values.tolist())
    kinds = np.zeros(size, np.uint8)
    bits = (
        np.zeros(size, np.int64)
        if any(p is not None and p.bits is not None for p in plain)
        else None
    )
    for (places, _), part in zip(parts, filter(None, plain), strict=True):
        kinds[places] = part.kinds
        if bits is not None:
            bits[places] = part.bits if part.bits is not None else part.kinds == TRUE
    return Scalars(kinds, bits)


def _objects(vector: Vector, size: int) -> Any:
    found = np.empty(size, object)
    found[:] = values(vector, size)
    return found


def values(vector: Vector, size: int) -> list[Value]:
    """The values as Python has them, one a row."""
    if isinstance(vector, Same):
        return [vector.value] * size
    if isinstance(vector, Objects):
        return list(vector.values)
    if isinstance(vector, Chosen):
        return [vector.table[code] for code in vector.codes.tolist()]
    kinds = np.broadcast_to(vector.kinds, (size,)).tolist()
    if vector.bits is None:
        return [TRUTHS[kind] for kind in kinds]
    integers = np.broadcast_to(vector.bits, (size,))
    reals = np.ascontiguousarray(integers).view(np.float64).tolist()
    return [
        integer if kind == INTEGER else real if kind == REAL else TRUTHS[kind]
        for kind, integer, real in zip(kinds, integers.tolist(), reals, strict=True)
    ]


def numbers(vector: Vector, size: int) -> tuple[npt.NDArray[np.float64], Mask]:
    """The values as ranks: a real a row, 0.0 for what is no number, and where there is none.

    A boolean counts as a number; NaN does not.
    """
    plain = scalars(vector)
    if plain is None:
        numeric = [v if isinstance(v, (bool, int, float)) else ERROR for v in values(vector, size)]
        plain = Scalars(*encoded(numeric))
    kinds = np.broadcast_to(plain.kinds, (size,))
    if plain.bits is None:
        reals = (kinds == TRUE).astype(np.float64)
    else:
        bits = np.broadcast_to(plain.bits, (size,))
        reals = np.where(kinds == REAL, np.ascontiguousarray(bits).view(np.float64), bits)
    none = (kinds == UNDEFINED_KIND) | (kinds == ERROR_KIND) | np.isnan(reals)
    return np.where(none, 0.0, reals), none
