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
from matchmaker.matching.columns.column import Codes, Rows
from matchmaker.matching.columns.contents import (
    ERROR_KIND,
    FALSE,
    INTEGER,
    OTHER,
    REAL,
    TRUE,
    UNDEFINED_KIND,
    Bits,
    Kinds,
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
class Objects:
    """A value a row."""

    values: Sequence[Value]


@attrs.frozen(slots=True, eq=False)
class Chosen:
    """Values by the code of each row, from a table that is a vector of full length itself."""

    codes: Codes
    table: Scalars | Objects


Vector: TypeAlias = "Same | Scalars | Chosen | Objects"


def scalars(vector: Vector) -> Scalars | None:
    """The vector as scalars, or None where a value is neither a truth nor a number.

    One of a single value has one row, which NumPy broadcasts.
    """
    if isinstance(vector, Scalars):
        return vector
    if isinstance(vector, Chosen):
        table = vector.table
        return gathered(table, vector.codes) if isinstance(table, Scalars) else None
    table = tabled([vector.value] if isinstance(vector, Same) else vector.values)
    return Scalars(uniform(table.kinds), table.bits) if isinstance(table, Scalars) else None


def uniform(kinds: Kinds) -> Kinds:
    """One kind for all rows where they agree, so that what follows has one thing to look at."""
    if len(kinds) > 1 and kinds[0] == kinds[-1] and (kinds == kinds[0]).all():
        return kinds[:1]
    return kinds


def gathered(table: Scalars, places: Any) -> Scalars:
    """The scalars at some places."""
    kinds = uniform(table.kinds)
    if len(kinds) > 1:
        kinds = kinds[places]
    bits = table.bits
    return Scalars(kinds, bits[places] if bits is not None and len(bits) > 1 else bits)


def table_of(vector: Vector, size: int) -> Scalars | Objects:
    """A vector of full length."""
    if not isinstance(vector, Scalars):
        return tabled(values(vector, size))
    bits = np.broadcast_to(vector.bits, (size,)) if vector.bits is not None else None
    return Scalars(np.broadcast_to(vector.kinds, (size,)), bits)


def tabled(held: Sequence[Value]) -> Scalars | Objects:
    """Values as a table: scalars where all are truths and numbers."""
    kinds, bits = encoded(held)
    greatest = kinds.max(initial=0)
    if greatest == OTHER:
        return Objects(held)
    return Scalars(kinds, bits if greatest > ERROR_KIND else None)


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
        return np.take(truths(vector.table), vector.codes)
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
_TRUTH: Final = np.array([FALSE, TRUE, UNDEFINED_KIND, ERROR_KIND], np.uint8)
_NOT: Final = np.array([TRUE, FALSE, UNDEFINED_KIND, ERROR_KIND], np.uint8)


def connect(symbol: str, left: Vector, right: Vector) -> Vector:
    """``left && right`` and ``left || right``."""
    table = _TABLES[symbol]
    if isinstance(left, Same):
        table = table.reshape(4, 4)[_condition(left.value)]
        if (table == table[0]).all():
            return Same(TRUTHS[table[0]])
        kinds = truths(right)
        return Scalars(kinds if (table == _TRUTH).all() else np.take(table, kinds), None)
    return Scalars(np.take(table, (truths(left) << 2) | truths(right)), None)


def negate(vector: Vector) -> Vector:
    """``!vector``."""
    return Scalars(np.take(_NOT, truths(vector)), None)


def is_true(vector: Vector, size: int) -> Mask:
    """Where the values are true as conditions."""
    if isinstance(vector, Chosen):
        return _selected(vector.codes, truths(vector.table) == TRUE)
    return np.broadcast_to(truths(vector) == TRUE, (size,))


_FEW: Final = 6


def _selected(codes: Codes, wanted: Mask) -> Mask:
    """Where the code is one of those wanted. A few comparisons are faster than a look-up."""
    count = int(np.count_nonzero(wanted))
    if min(count, len(wanted) - count) > _FEW:
        return np.take(wanted, codes)
    wanting = count <= len(wanted) - count
    chosen = np.flatnonzero(wanted == wanting).tolist()
    if not chosen:
        return np.full(len(codes), not wanting)
    found: Mask = np.equal(codes, chosen[0])
    more = np.empty_like(found)
    for code in chosen[1:]:
        np.logical_or(found, np.equal(codes, code, out=more), out=found)
    return found if wanting else np.logical_not(found, out=found)


def where_is(kind: int, vector: Vector, size: int) -> Mask:
    """Where the values are UNDEFINED or ERROR, whichever of the two kinds is given."""
    found: Any
    if isinstance(vector, Chosen):
        found = where_is(kind, vector.table, _length(vector.table))[vector.codes]
    elif isinstance(vector, Scalars):
        found = vector.kinds == kind
    else:
        held = [vector.value] if isinstance(vector, Same) else vector.values
        found = encoded(held)[0] == kind
    return np.broadcast_to(found, (size,))


def largest(size: Callable[[Value], int], vector: Vector) -> int:
    """The greatest size that one of the values has, where truths and numbers have none."""
    if isinstance(vector, Chosen):
        vector = vector.table
    if isinstance(vector, Scalars):
        return 0
    return max(map(size, [vector.value] if isinstance(vector, Same) else vector.values), default=0)


def applied(function: Callable[[Value], Value], vector: Vector) -> Vector:
    """The values of a function of one value that is no table of truths and numbers."""
    if isinstance(vector, Same):
        return Same(function(vector.value))
    if isinstance(vector, Chosen):
        held = values(vector.table, _length(vector.table))
        return Chosen(vector.codes, tabled(list(map(function, held))))
    if isinstance(vector, Objects):
        return Objects(list(map(function, vector.values)))
    return Objects(list(map(function, values(vector, len(vector.kinds)))))


def paired(
    function: Callable[[Value, Value], Value], left: Vector, right: Vector, size: int, few: int
) -> Vector:
    """The values of a function of two, once for each pair where that saves some."""
    if isinstance(right, Same):
        other = right.value
        if isinstance(left, (Same, Chosen)):
            return applied(lambda value: function(value, other), left)
        return Objects([function(value, other) for value in values(left, size)])
    if isinstance(left, Chosen) and isinstance(right, Chosen):
        first, second = _length(left.table), _length(right.table)
        if first * second <= max(few, size >> 1):
            codes = left.codes.astype(np.uint32) * second + right.codes
            found: list[Value] = [UNDEFINED] * (first * second)
            a, b = values(left.table, first), values(right.table, second)
            for code in np.flatnonzero(np.bincount(codes, minlength=len(found))).tolist():
                found[code] = function(a[code // second], b[code % second])
            return Chosen(codes, tabled(found))
    return Objects(list(map(function, values(left, size), values(right, size))))


def pairs(left: Vector, right: Vector, size: int) -> int:
    """How often ``paired`` applies its function at most."""
    if isinstance(right, Same) and isinstance(left, Chosen):
        return _length(left.table)
    return 1 if isinstance(right, Same) and isinstance(left, Same) else size


def part(vector: Vector, places: Rows) -> Vector:
    """The values of some of the rows of a vector."""
    if isinstance(vector, Same):
        return vector
    if isinstance(vector, Chosen):
        return Chosen(vector.codes[places], vector.table)
    if isinstance(vector, Objects):
        return Objects([vector.values[place] for place in places.tolist()])
    return gathered(vector, places)


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
        held = values(vector.table, _length(vector.table))
        return [held[code] for code in vector.codes.tolist()]
    kinds = np.broadcast_to(vector.kinds, (size,)).tolist()
    if vector.bits is None:
        return [TRUTHS[kind] for kind in kinds]
    integers = np.broadcast_to(vector.bits, (size,))
    reals = np.ascontiguousarray(integers).view(np.float64).tolist()
    return [
        integer if kind == INTEGER else real if kind == REAL else TRUTHS[kind]
        for kind, integer, real in zip(kinds, integers.tolist(), reals, strict=True)
    ]


def _length(table: Scalars | Objects) -> int:
    return len(table.values if isinstance(table, Objects) else table.kinds)


def numbers(vector: Vector, size: int) -> tuple[npt.NDArray[np.float64], Mask]:
    """The values as ranks: a real a row, 0.0 for anything else, and a mask of those.

    A boolean counts as a number; NaN does not.
    """
    plain = scalars(vector)
    if plain is None:
        numeric = [v if isinstance(v, (bool, int, float)) else ERROR for v in values(vector, size)]
        plain = Scalars(*encoded(numeric))
    if plain.bits is not None and len(plain.kinds) == 1 and plain.kinds[0] == REAL:
        reals = np.ascontiguousarray(np.broadcast_to(plain.bits, (size,))).view(np.float64)
        none = np.isnan(reals)
        return (np.where(none, 0.0, reals) if none.any() else reals), none
    kinds = np.broadcast_to(plain.kinds, (size,))
    if plain.bits is None:
        reals = (kinds == TRUE).astype(np.float64)
    else:
        bits = np.broadcast_to(plain.bits, (size,))
        reals = np.where(kinds == REAL, np.ascontiguousarray(bits).view(np.float64), bits)
    none = (kinds == UNDEFINED_KIND) | (kinds == ERROR_KIND) | np.isnan(reals)
    return np.where(none, 0.0, reals), none
