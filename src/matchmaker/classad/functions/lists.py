"""Functions on lists: membership, size, sums, comparisons. String lists are in ``stringlists``."""

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


def _extreme(
    name: str, which: str, choose: Callable[[Number, Number], bool], examples: str
) -> Callable[[Value], Value]:
    """Enter a function; the examples are what it makes of three lists."""

    @function(name, 1)
    def extreme(items: Value) -> Value:
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

    extreme.__doc__ = f"""{name}(L): the {which} number of a list; undefined without any.

    Undefined elements are skipped. Undefined where L is; error where L is no list or an element no
    number. Of integers and reals it is a real. (HTCondor manual.)

    >>> from matchmaker import parse_expr
    >>> [parse_expr(f"{name}({{{{{{x}}}}}})").eval() for x in ("1, 3", "1.0, 3, undefined", "")]
    {examples}
    """
    return extreme


min_ = _extreme("min", "smallest", operator.lt, "[1, 1.0, UNDEFINED]")
max_ = _extreme("max", "largest", operator.gt, "[3, 3.0, UNDEFINED]")


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


def _comparing(name: str, which: str, *, decides: bool) -> Callable[..., Value]:
    """Enter a function; the first comparison that gives `decides` ends the search."""

    @function(name, 3, result=BOOLEAN)
    def compare_all(symbol: Value, items: Value, value: Value) -> Value:
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
            if result is decides:
                return decides
        return not decides

    compare_all.__doc__ = f"""{name}(op, L, x): whether ``element op x`` is true of {which} element.

    op is one of ``< <= == != >= > is isnt`` as a string. The first element that cannot be compared
    ends the search: with false where the comparison is undefined, with error where it is error.
    Undefined where op or L is. (HTCondor manual.)

    >>> from matchmaker import parse_expr
    >>> [parse_expr(f'{name}("<", {{{{{{n}}, 3}}}}, 4)').eval() for n in (5, 1, "undefined")]
    [{decides}, True, False]
    """
    return compare_all


any_compare = _comparing("anyCompare", "any", decides=True)
all_compare = _comparing("allCompare", "every", decides=False)
