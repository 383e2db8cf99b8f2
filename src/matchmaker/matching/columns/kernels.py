"""Arithmetic and comparisons on columns of truths and numbers, as ``classad.operators`` has them.

Integers have 64 bits and wrap; an integer meets a real as a real; booleans are 0 and 1 where
the operators take them so; an error wins over UNDEFINED. A property holds each kernel equal to its
operator. Values of other types are not for here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from matchmaker.classad.values import MAX_INT, MIN_INT
from matchmaker.matching.columns.contents import (
    ERROR_KIND,
    INTEGER,
    REAL,
    TRUE,
    UNDEFINED_KIND,
    Kinds,
)
from matchmaker.matching.columns.vectors import Mask, Scalars

Ints: TypeAlias = "npt.NDArray[np.int64]"
Reals: TypeAlias = "npt.NDArray[np.float64]"
Kernel: TypeAlias = "Callable[[Scalars, Scalars], Scalars]"


def _integers(side: Scalars) -> Ints:
    """Integers and truths as integers; what is neither is anything."""
    return side.bits if side.bits is not None else (side.kinds == TRUE).astype(np.int64)


def _reals(side: Scalars) -> Reals:
    """Numbers and truths as reals."""
    whole = _integers(side)
    if side.bits is None or not (side.kinds == REAL).any():
        return whole.astype(np.float64)
    reals = np.ascontiguousarray(side.bits).view(np.float64)
    if (side.kinds == REAL).all():
        return reals
    return np.where(side.kinds == REAL, reals, whole)


def _strict(left: Scalars, right: Scalars, kinds: Kinds, bits: Ints | None) -> Scalars:
    """The result of an operation but where a side is an error or, failing that, undefined."""
    error = (left.kinds == ERROR_KIND) | (right.kinds == ERROR_KIND)
    undefined = (left.kinds == UNDEFINED_KIND) | (right.kinds == UNDEFINED_KIND)
    if undefined.any():
        kinds = np.where(undefined, np.uint8(UNDEFINED_KIND), kinds)
    if error.any():
        kinds = np.where(error, np.uint8(ERROR_KIND), kinds)
    return Scalars(kinds, bits)


def _where_real(left: Scalars, right: Scalars) -> Mask | bool:
    """Where one side is a real: nowhere, everywhere, or by row."""
    real: Mask = (left.kinds == REAL) | (right.kinds == REAL)
    return False if not real.any() else True if real.all() else real


def _comparison(relation: Callable[[Any, Any], Any]) -> Kernel:
    def compare(left: Scalars, right: Scalars) -> Scalars:
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
    """Of the operation on integers, which also says where it has no result, and that on reals."""

    def calculate(left: Scalars, right: Scalars) -> Scalars:
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
    left: Scalars, right: Scalars, operation: Callable[[Reals, Reals], Reals]
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
    def combine(left: Scalars, right: Scalars) -> Scalars:
        bits = operation(_integers(left), _integers(right))
        both = (left.kinds == INTEGER) & (right.kinds == INTEGER)
        kinds = np.where(both, np.uint8(INTEGER), np.uint8(ERROR_KIND))
        return _strict(left, right, kinds, bits)

    return combine


def _unsigned_shift(left: Ints, right: Ints) -> Ints:
    shifted = left.view(np.uint64) >> (right & 63).view(np.uint64)
    return shifted.view(np.int64)


def _identity(same: bool) -> Kernel:
    def compare(left: Scalars, right: Scalars) -> Scalars:
        a, b = left.kinds, right.kinds
        truth = (a <= TRUE) & (b <= TRUE)
        kinds = (a == b) | truth
        bits = _integers(left) == _integers(right)
        equal = kinds & np.where(
            a == REAL, _reals(left) == _reals(right), bits | (a >= UNDEFINED_KIND) & (a < INTEGER)
        )
        return Scalars((equal == same).view(np.uint8), None)

    return compare


BINARY: Final[Mapping[str, Kernel]] = {
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


def _minus(side: Scalars) -> Scalars:
    with np.errstate(over="ignore"):
        whole = -_integers(side)
    if not (side.kinds == REAL).any():
        return Scalars(_signed(side.kinds), whole)
    return Scalars(
        _signed(side.kinds), np.where(side.kinds == REAL, (-_reals(side)).view(np.int64), whole)
    )


def _plus(side: Scalars) -> Scalars:
    return Scalars(_signed(side.kinds), _integers(side))


def _signed(kinds: Kinds) -> Kinds:
    """Booleans have no sign."""
    return np.where(kinds <= TRUE, np.uint8(ERROR_KIND), kinds)


def _invert(side: Scalars) -> Scalars:
    taken = (side.kinds == INTEGER) | (side.kinds == UNDEFINED_KIND)
    return Scalars(np.where(taken, side.kinds, np.uint8(ERROR_KIND)), ~_integers(side))


UNARY: Final[Mapping[str, Callable[[Scalars], Scalars]]] = {
    "-": _minus,
    "+": _plus,
    "~": _invert,
}
