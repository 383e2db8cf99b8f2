"""Hold the values of an expression on many rows, and apply operators to them.

Four forms, by the values: ``ConstantVector`` (one value for all rows), ``ScalarVector`` (truths and
numbers, as kinds and bits), ``CodedVector`` (a table of values and a code a row) and
``ObjectVector`` (a value a row). Kernels do arithmetic and comparisons on scalars as
``classad.operators`` has them: integers have 64 bits and wrap; an integer meets a real as a real;
booleans are 0 and 1 if the operators take them so; an error wins over UNDEFINED. A property holds
each kernel equal to its operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from matchmaker.classad.operators import BINARY, truth
from matchmaker.classad.values import ERROR, MAX_INT, MIN_INT, UNDEFINED, Value, is_error
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
class ConstantVector:
    """One value for every row."""

    value: Value


@attrs.frozen(slots=True, eq=False)
class ScalarVector:
    """Truths and numbers: a kind a row, or one for all, and the 64 bits of each.

    The bits of a truth are 0 for false and 1 for true; ``bits`` is None if all are truths. Reasons
    of errors are not kept.
    """

    kinds: Kinds
    bits: Bits | None


@attrs.frozen(slots=True, eq=False)
class ObjectVector:
    """A value a row."""

    values: Sequence[Value]


@attrs.frozen(slots=True, eq=False)
class CodedVector:
    """Values by the code of each row, from a table that is a vector of full length itself."""

    codes: Codes
    table: ScalarVector | ObjectVector


Vector: TypeAlias = "ConstantVector | ScalarVector | CodedVector | ObjectVector"


def scalars(vector: Vector) -> ScalarVector | None:
    """Return the vector as scalars, or None if a value is neither a truth nor a number.

    One of a single value has one row, which NumPy broadcasts.
    """
    if isinstance(vector, ScalarVector):
        return vector
    if isinstance(vector, CodedVector):
        table = vector.table
        return gathered(table, vector.codes) if isinstance(table, ScalarVector) else None
    table = tabled([vector.value] if isinstance(vector, ConstantVector) else vector.values)
    return (
        ScalarVector(uniform(table.kinds), table.bits) if isinstance(table, ScalarVector) else None
    )


def uniform(kinds: Kinds) -> Kinds:
    """Return one kind for all rows if they agree, so that the next operation is cheap."""
    if len(kinds) > 1 and kinds[0] == kinds[-1] and (kinds == kinds[0]).all():
        return kinds[:1]
    return kinds


def gathered(table: ScalarVector, places: Any) -> ScalarVector:
    """The scalars at some places."""
    kinds = uniform(table.kinds)
    if len(kinds) > 1:
        kinds = kinds[places]
    bits = table.bits
    return ScalarVector(kinds, bits[places] if bits is not None and len(bits) > 1 else bits)


def table_of(vector: Vector, size: int) -> ScalarVector | ObjectVector:
    """A vector of full length."""
    if not isinstance(vector, ScalarVector):
        return tabled(values(vector, size))
    bits = np.broadcast_to(vector.bits, (size,)) if vector.bits is not None else None
    return ScalarVector(np.broadcast_to(vector.kinds, (size,)), bits)


def tabled(held: Sequence[Value]) -> ScalarVector | ObjectVector:
    """Return values as a table: scalars if all are truths and numbers."""
    kinds, bits = encoded(held)
    greatest = kinds.max(initial=0)
    if greatest == OTHER:
        return ObjectVector(held)
    return ScalarVector(kinds, bits if greatest > ERROR_KIND else None)


def truths(vector: Vector) -> Kinds:
    """The values as conditions: FALSE, TRUE, UNDEFINED_KIND or ERROR_KIND a row, or one for all."""
    if isinstance(vector, ScalarVector):
        kinds = vector.kinds
        if vector.bits is None:
            return kinds
        # Minus zero is as false as zero; its bits are not.
        nonzero = np.where(kinds == REAL, vector.bits.view(np.float64) != 0, vector.bits != 0)
        return np.where(kinds >= INTEGER, nonzero.view(np.uint8), kinds)
    if isinstance(vector, CodedVector):
        return np.take(truths(vector.table), vector.codes)
    return _conditions([vector.value] if isinstance(vector, ConstantVector) else vector.values)


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
    if isinstance(left, ConstantVector):
        table = table.reshape(4, 4)[_condition(left.value)]
        if (table == table[0]).all():
            return ConstantVector(TRUTHS[table[0]])
        kinds = truths(right)
        return ScalarVector(kinds if (table == _TRUTH).all() else np.take(table, kinds), None)
    return ScalarVector(np.take(table, (truths(left) << 2) | truths(right)), None)


def negate(vector: Vector) -> Vector:
    """``!vector``."""
    return ScalarVector(np.take(_NOT, truths(vector)), None)


def is_true(vector: Vector, size: int) -> Mask:
    """Return which values are true as conditions."""
    if isinstance(vector, CodedVector):
        return _selected(vector.codes, truths(vector.table) == TRUE)
    return np.broadcast_to(truths(vector) == TRUE, (size,))


# Comparing the codes with six values takes as long as one look-up of each code.
_FEW: Final = 6


def _selected(codes: Codes, wanted: Mask) -> Mask:
    """Return which codes are wanted."""
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
    """Return which values are of one kind, UNDEFINED or ERROR."""
    found: Any
    if isinstance(vector, CodedVector):
        found = where_is(kind, vector.table, _length(vector.table))[vector.codes]
    elif isinstance(vector, ScalarVector):
        found = vector.kinds == kind
    else:
        held = [vector.value] if isinstance(vector, ConstantVector) else vector.values
        found = encoded(held)[0] == kind
    return np.broadcast_to(found, (size,))


def largest(size: Callable[[Value], int], vector: Vector) -> int:
    """Return the greatest size of the values; truths and numbers have none."""
    if isinstance(vector, CodedVector):
        vector = vector.table
    if isinstance(vector, ScalarVector):
        return 0
    return max(
        map(size, [vector.value] if isinstance(vector, ConstantVector) else vector.values),
        default=0,
    )


def applied(function: Callable[[Value], Value], vector: Vector) -> Vector:
    """Apply a function of one value to a vector, once for each distinct value if possible."""
    if isinstance(vector, ConstantVector):
        return ConstantVector(function(vector.value))
    if isinstance(vector, CodedVector):
        held = values(vector.table, _length(vector.table))
        return CodedVector(vector.codes, tabled(list(map(function, held))))
    if isinstance(vector, ObjectVector):
        return ObjectVector(list(map(function, vector.values)))
    return ObjectVector(list(map(function, values(vector, len(vector.kinds)))))


def paired(
    function: Callable[[Value, Value], Value], left: Vector, right: Vector, size: int, few: int
) -> Vector:
    """Apply a function of two values, once for each pair if that saves some."""
    if isinstance(right, ConstantVector):
        other = right.value
        if isinstance(left, (ConstantVector, CodedVector)):
            return applied(lambda value: function(value, other), left)
        return ObjectVector([function(value, other) for value in values(left, size)])
    if isinstance(left, CodedVector) and isinstance(right, CodedVector):
        first, second = _length(left.table), _length(right.table)
        if first * second <= max(few, size >> 1):
            codes = left.codes.astype(np.uint32) * second + right.codes
            found: list[Value] = [UNDEFINED] * (first * second)
            a, b = values(left.table, first), values(right.table, second)
            for code in np.flatnonzero(np.bincount(codes, minlength=len(found))).tolist():
                found[code] = function(a[code // second], b[code % second])
            return CodedVector(codes, tabled(found))
    return ObjectVector(list(map(function, values(left, size), values(right, size))))


def pairs(left: Vector, right: Vector, size: int) -> int:
    """How often ``paired`` applies its function at most."""
    if isinstance(right, ConstantVector) and isinstance(left, CodedVector):
        return _length(left.table)
    return 1 if isinstance(right, ConstantVector) and isinstance(left, ConstantVector) else size


def part(vector: Vector, places: Rows) -> Vector:
    """The values of some of the rows of a vector."""
    if isinstance(vector, ConstantVector):
        return vector
    if isinstance(vector, CodedVector):
        return CodedVector(vector.codes[places], vector.table)
    if isinstance(vector, ObjectVector):
        return ObjectVector([vector.values[place] for place in places.tolist()])
    return gathered(vector, places)


def merged(parts: Sequence[tuple[Rows, Vector]], size: int) -> Vector:
    """One vector of the parts, each with the places in it that its rows have."""
    plain = [scalars(vector) for _, vector in parts]
    if any(part is None for part in plain):
        values = np.empty(size, object)
        for places, vector in parts:
            values[places] = _objects(vector, len(places))
        return ObjectVector(values.tolist())
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
    return ScalarVector(kinds, bits)


def _objects(vector: Vector, size: int) -> Any:
    found = np.empty(size, object)
    found[:] = values(vector, size)
    return found


def values(vector: Vector, size: int) -> list[Value]:
    """The values as Python has them, one a row."""
    if isinstance(vector, ConstantVector):
        return [vector.value] * size
    if isinstance(vector, ObjectVector):
        return list(vector.values)
    if isinstance(vector, CodedVector):
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


def _length(table: ScalarVector | ObjectVector) -> int:
    return len(table.values if isinstance(table, ObjectVector) else table.kinds)


def numbers(vector: Vector, size: int) -> tuple[npt.NDArray[np.float64], Mask]:
    """The values as ranks: a real a row, 0.0 for anything else, and a mask of those.

    A boolean counts as a number; NaN does not.
    """
    plain = scalars(vector)
    if plain is None:
        numeric = [v if isinstance(v, (bool, int, float)) else ERROR for v in values(vector, size)]
        plain = ScalarVector(*encoded(numeric))
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


Ints: TypeAlias = "npt.NDArray[np.int64]"
Reals: TypeAlias = "npt.NDArray[np.float64]"
Kernel: TypeAlias = "Callable[[ScalarVector, ScalarVector], ScalarVector]"


def _integers(side: ScalarVector) -> Ints:
    """Return integers and booleans as integers; rows of other kinds hold anything."""
    return side.bits if side.bits is not None else (side.kinds == TRUE).astype(np.int64)


def _reals(side: ScalarVector) -> Reals:
    """Return numbers and booleans as reals."""
    whole = _integers(side)
    if side.bits is None or not (side.kinds == REAL).any():
        return whole.astype(np.float64)
    reals = np.ascontiguousarray(side.bits).view(np.float64)
    if (side.kinds == REAL).all():
        return reals
    return np.where(side.kinds == REAL, reals, whole)


def _strict(
    left: ScalarVector, right: ScalarVector, kinds: Kinds, bits: Ints | None
) -> ScalarVector:
    """Return a result, or an error if a side is an error, else undefined if a side is."""
    error = (left.kinds == ERROR_KIND) | (right.kinds == ERROR_KIND)
    undefined = (left.kinds == UNDEFINED_KIND) | (right.kinds == UNDEFINED_KIND)
    if undefined.any():
        kinds = np.where(undefined, np.uint8(UNDEFINED_KIND), kinds)
    if error.any():
        kinds = np.where(error, np.uint8(ERROR_KIND), kinds)
    return ScalarVector(kinds, bits)


def _where_real(left: ScalarVector, right: ScalarVector) -> Mask | bool:
    """Return for which rows one side is a real; False for none, True for all."""
    real: Mask = (left.kinds == REAL) | (right.kinds == REAL)
    return False if not real.any() else True if real.all() else real


def _comparison(relation: Callable[[Any, Any], Any]) -> Kernel:
    def compare(left: ScalarVector, right: ScalarVector) -> ScalarVector:
        real = _where_real(left, right)
        if real is False:
            holds = relation(_integers(left), _integers(right))
        elif real is True:
            holds = relation(_reals(left), _reals(right))
        else:
            holds = np.where(
                real,
                relation(_reals(left), _reals(right)),
                relation(_integers(left), _integers(right)),
            )
        return _strict(left, right, holds.view(np.uint8), None)

    return compare


def _arithmetic(
    integers: Callable[[Ints, Ints], tuple[Ints, Mask | None]],
    reals: Callable[[Reals, Reals], Reals],
) -> Kernel:
    """Make a kernel of the operation on integers, which also marks errors, and that on reals."""

    def calculate(left: ScalarVector, right: ScalarVector) -> ScalarVector:
        real = _where_real(left, right)
        kinds: Any = np.full(1, INTEGER, np.uint8)
        if real is True:
            bits, wrong = _of_reals(left, right, reals)
            kinds = np.full(1, REAL, np.uint8)
        else:
            bits, wrong = integers(_integers(left), _integers(right))
            if real is not False:
                others, not_real = _of_reals(left, right, reals)
                none = np.zeros(1, np.bool_)
                wrong = np.where(
                    real,
                    none if not_real is None else not_real,
                    none if wrong is None else wrong,
                )
                bits = np.where(real, others, bits)
                kinds = np.where(real, np.uint8(REAL), np.uint8(INTEGER))
        if wrong is not None and wrong.any():
            kinds = np.where(wrong, np.uint8(ERROR_KIND), kinds)
        return _strict(left, right, kinds, bits)

    return calculate


def _of_reals(
    left: ScalarVector, right: ScalarVector, operation: Callable[[Reals, Reals], Reals]
) -> tuple[Ints, Mask | None]:
    with np.errstate(all="ignore"):
        result = operation(_reals(left), _reals(right))
    return result.view(np.int64), result == np.inf


def _plain(operation: Callable[[Any, Any], Any]) -> Callable[[Ints, Ints], tuple[Ints, None]]:
    def apply(left: Ints, right: Ints) -> tuple[Ints, None]:
        with np.errstate(over="ignore"):
            return operation(left, right), None

    return apply


def _divide(left: Ints, right: Ints) -> tuple[Ints, Mask | None]:
    zero = right == 0
    # The least integer by minus one is the largest, by decree of the reference implementation.
    over = (left == MIN_INT) & (right == -1)
    divisor = np.where(zero | over, 1, right)
    quotient = left // divisor
    quotient += (left - quotient * divisor != 0) & ((left < 0) != (divisor < 0))
    return np.where(over, MAX_INT, quotient), zero


def _remainder(left: Ints, right: Ints) -> tuple[Ints, Mask | None]:
    zero = right == 0
    return np.fmod(left, np.where(zero | (right == -1), 1, right)), zero


def _bitwise(operation: Callable[[Ints, Ints], Ints]) -> Kernel:
    def combine(left: ScalarVector, right: ScalarVector) -> ScalarVector:
        bits = operation(_integers(left), _integers(right))
        both = (left.kinds == INTEGER) & (right.kinds == INTEGER)
        kinds = np.where(both, np.uint8(INTEGER), np.uint8(ERROR_KIND))
        return _strict(left, right, kinds, bits)

    return combine


def _unsigned_shift(left: Ints, right: Ints) -> Ints:
    shifted = left.view(np.uint64) >> (right & 63).view(np.uint64)
    return shifted.view(np.int64)


def _identity(same: bool) -> Kernel:
    def compare(left: ScalarVector, right: ScalarVector) -> ScalarVector:
        a, b = left.kinds, right.kinds
        truth = (a <= TRUE) & (b <= TRUE)
        kinds = (a == b) | truth
        bits = _integers(left) == _integers(right)
        equal = kinds & np.where(
            a == REAL, _reals(left) == _reals(right), bits | (a >= UNDEFINED_KIND) & (a < INTEGER)
        )
        return ScalarVector((equal == same).view(np.uint8), None)

    return compare


BINARY_KERNELS: Final[Mapping[str, Kernel]] = {
    "==": _comparison(np.equal),
    "!=": _comparison(np.not_equal),
    "<": _comparison(np.less),
    "<=": _comparison(np.less_equal),
    ">": _comparison(np.greater),
    ">=": _comparison(np.greater_equal),
    "+": _arithmetic(_plain(np.add), np.add),
    "-": _arithmetic(_plain(np.subtract), np.subtract),
    "*": _arithmetic(_plain(np.multiply), np.multiply),
    "/": _arithmetic(_divide, np.divide),
    "%": _arithmetic(_remainder, lambda *_: np.full(1, np.inf)),
    "&": _bitwise(np.bitwise_and),
    "|": _bitwise(np.bitwise_or),
    "^": _bitwise(np.bitwise_xor),
    "<<": _bitwise(lambda a, b: np.left_shift(a, b & 63)),
    ">>": _bitwise(lambda a, b: np.right_shift(a, b & 63)),
    ">>>": _bitwise(_unsigned_shift),
    "is": _identity(True),
    "isnt": _identity(False),
}


def _minus(side: ScalarVector) -> ScalarVector:
    with np.errstate(over="ignore"):
        whole = -_integers(side)
    if not (side.kinds == REAL).any():
        return ScalarVector(_signed(side.kinds), whole)
    return ScalarVector(
        _signed(side.kinds), np.where(side.kinds == REAL, (-_reals(side)).view(np.int64), whole)
    )


def _plus(side: ScalarVector) -> ScalarVector:
    return ScalarVector(_signed(side.kinds), _integers(side))


def _signed(kinds: Kinds) -> Kinds:
    """Return the kinds after a sign: ERROR for booleans, which have no sign, else the same."""
    return np.where(kinds <= TRUE, np.uint8(ERROR_KIND), kinds)


def _invert(side: ScalarVector) -> ScalarVector:
    taken = (side.kinds == INTEGER) | (side.kinds == UNDEFINED_KIND)
    return ScalarVector(np.where(taken, side.kinds, np.uint8(ERROR_KIND)), ~_integers(side))


UNARY_KERNELS: Final[Mapping[str, Callable[[ScalarVector], ScalarVector]]] = {
    "-": _minus,
    "+": _plus,
    "~": _invert,
}
