"""Functions on lists: membership, size, sums, comparisons. String lists are in ``stringlists``."""

# ruff: noqa: D402 - a docstring begins with the signature that the function has in an ad.

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Final, TypeAlias

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.operators import BINARY, ascii_fold
from matchmaker.classad.registry import BOOLEAN, NUMBER, function, wrong
from matchmaker.classad.values import UNDEFINED, ErrorType, UndefinedType, Value, is_error

Number: TypeAlias = "int | float"
_COMPARISONS: Final = frozenset({"<", "<=", "==", "!=", ">=", ">", "is", "isnt"})


@function("member", 2, result=BOOLEAN)
def member(value: Value, items: Value) -> Value:
    """member(x, L): whether an element of the list L ``==`` x; strings without regard to case.

    Undefined where x or L is; elements that cannot be compared with x are passed over. Error where
    L is no list, or x is a list, an ad or error. (HTCondor manual.)

    >>> member("A", ["b", "a"]), member(2, [UNDEFINED, 1])
    (True, False)
    """
    if isinstance(value, str) and isinstance(items, list) and value in items:
        # The very same string: most often so, and found at once.
        return True
    if value is UNDEFINED or items is UNDEFINED:
        return UNDEFINED
    if is_error(value):
        return value
    return _contains("member", "==", value, items)


@function("identicalMember", 2, result=BOOLEAN)
def identical_member(value: Value, items: Value) -> Value:
    """identicalMember(x, L): whether an element of the list L ``is`` x; undefined can be found too.

    Undefined where L is; error where L is no list, or x is a list or an ad. (HTCondor manual.)

    >>> identical_member("A", ["a"]), identical_member(UNDEFINED, [UNDEFINED])
    (False, True)
    """
    if items is UNDEFINED:
        return UNDEFINED
    return _contains("identicalMember", "is", value, items)


def _contains(name: str, symbol: str, value: Value, items: Value) -> Value:
    if not isinstance(items, list):
        return wrong(name, "a list as its second argument", items)
    if isinstance(value, (list, ClassAd)):
        return wrong(name, "a plain value as its first argument", value)
    if symbol == "==" and isinstance(value, str):
        folded = ascii_fold(value)
        return folded in [ascii_fold(item) for item in items if isinstance(item, str)]
    compare = BINARY[symbol]
    return any(compare(item, value) is True for item in items)


@function("size", 1, result=NUMBER)
def size(value: Value) -> Value:
    """size(x): the characters of a string, the elements of a list, the attributes of an ad.

    Undefined stays; anything else is an error. (HTCondor manual.)

    >>> size("abc"), size([1, 2]), size(3)
    (3, 2, ERROR(size() takes a string, a list or an ad, not integer))
    """
    if isinstance(value, (str, list, ClassAd)):
        return len(value)
    return value if value is UNDEFINED else wrong("size", "a string, a list or an ad", value)


@function("sum", 1)
def sum_(items: Value) -> Value:
    """sum(L): the sum of the numbers in a list; undefined elements are skipped, none gives 0.

    Undefined where L is; error where L is no list or an element no number. (HTCondor manual.)

    >>> sum_([1, UNDEFINED, 2.5]), sum_([])
    (3.5, 0)
    """
    numbers = _numbers("sum", items)
    return _total(numbers) if isinstance(numbers, list) else numbers


@function("avg", 1)
def avg(items: Value) -> Value:
    """avg(L): the mean of the numbers in a list as a real, but 0 of none.

    Undefined elements are skipped. Undefined where L is; error where L is no list or an element no
    number. (HTCondor manual.)

    >>> avg([1, 2]), avg([])
    (1.5, 0)
    """
    numbers = _numbers("avg", items)
    if not isinstance(numbers, list):
        return numbers
    return BINARY["/"](_total(numbers), float(len(numbers))) if numbers else 0


def _total(numbers: list[Number]) -> Value:
    total: Value = numbers[0] if numbers else 0
    for number in numbers[1:]:
        total = BINARY["+"](total, number)
    return total


@function("min", 1)
def min_(items: Value) -> Value:
    """min(L): the smallest number of a list; undefined without any.

    Undefined elements are skipped. Undefined where L is; error where L is no list or an element no
    number. Of integers and reals it is a real. (HTCondor manual.)

    >>> min_([3, 1.0, UNDEFINED]), min_([])
    (1.0, UNDEFINED)
    """
    return _extreme("min", items, operator.lt)


@function("max", 1)
def max_(items: Value) -> Value:
    """max(L): the largest number of a list; undefined without any.

    Undefined elements are skipped. Undefined where L is; error where L is no list or an element no
    number. Of integers and reals it is a real. (HTCondor manual.)

    >>> max_([1, 3]), max_([1, 3, 2.0])
    (3, 3.0)
    """
    return _extreme("max", items, operator.gt)


def _extreme(name: str, items: Value, choose: Callable[[Number, Number], bool]) -> Value:
    numbers = _numbers(name, items)
    if not isinstance(numbers, list):
        return numbers
    if not numbers:
        return UNDEFINED
    best, *others = numbers
    for number in others:
        if isinstance(number, float) or isinstance(best, float):
            best, number = float(best), float(number)  # noqa: PLW2901 - both count as reals
        best = number if choose(number, best) else best
    return int(best) if others and isinstance(best, bool) else best


def _numbers(name: str, items: Value) -> list[Number] | UndefinedType | ErrorType:
    if not isinstance(items, list):
        return UNDEFINED if items is UNDEFINED else wrong(name, "a list", items)
    numbers: list[Number] = []
    for item in items:
        if isinstance(item, (int, float)):
            numbers.append(item)
        elif item is not UNDEFINED:
            return wrong(name, "a list of numbers", item)
    return numbers


@function("anyCompare", 3, result=BOOLEAN)
def any_compare(symbol: Value, items: Value, value: Value) -> Value:
    """anyCompare(op, L, x): whether ``element op x`` is true of any element of the list.

    op is one of ``< <= == != >= > is isnt`` as a string. The first element that cannot be compared
    ends the search: with false where the comparison is undefined, with error where it is error.
    Undefined where op or L is. (HTCondor manual.)

    >>> any_compare("<", [5, 3], 4), any_compare("==", [UNDEFINED, 1], 1)
    (True, False)
    """
    return _compare_all("anyCompare", symbol, items, value, wanted=True)


@function("allCompare", 3, result=BOOLEAN)
def all_compare(symbol: Value, items: Value, value: Value) -> Value:
    """allCompare(op, L, x): whether ``element op x`` is true of every element.

    op as in anyCompare(). False where a comparison is false or undefined, error where one before is
    an error. Undefined where op or L is. (HTCondor manual.)

    >>> all_compare("<", [1, 3], 4), all_compare("<", [], 4)
    (True, True)
    """
    return _compare_all("allCompare", symbol, items, value, wanted=False)


def _compare_all(name: str, symbol: Value, items: Value, value: Value, *, wanted: bool) -> Value:
    if symbol is UNDEFINED:
        return UNDEFINED
    if not isinstance(symbol, str):
        return wrong(name, "an operator as a string", symbol)
    if symbol not in _COMPARISONS:
        return ErrorType(f"{name}() knows no operator {symbol[:20]!r}")
    if not isinstance(items, list):
        return items if items is UNDEFINED else wrong(name, "a list", items)
    compare = BINARY[symbol]
    for item in items:
        result = compare(item, value)
        if is_error(result):
            return result
        if result is UNDEFINED:
            return False
        if result is wanted:
            return wanted
    return not wanted
