"""Functions on lists: counts, sums, membership; and on lists that are written in one string."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Final, TypeAlias

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.functions import BOOLEAN, NUMBER, Trait, function, wrong
from matchmaker.classad.functions.conversions import leading_number
from matchmaker.classad.functions.patterns import exceptional, search
from matchmaker.classad.functions.strings import alike
from matchmaker.classad.operators import BINARY, ascii_fold
from matchmaker.classad.state import Budget
from matchmaker.classad.values import UNDEFINED, ErrorType, UndefinedType, Value, is_error, wrap

Number: TypeAlias = "int | float"
_COMPARISONS: Final = frozenset({"<", "<=", "==", "!=", ">=", ">", "is", "isnt"})


@function("member", 2, result=BOOLEAN)
def member(value: Value, items: Value) -> Value:
    """member(x, L): whether an element of the list L ``==`` x; strings without regard to case.

    Undefined if x or L is; elements that cannot be compared with x are passed over. Error if
    L is not a list, or x is a list, an ad or error. (HTCondor manual.)

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

    Undefined if L is; error if L is not a list, or x is a list or an ad. (HTCondor manual.)

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

    Undefined if L is; error if L is not a list or an element no number. (HTCondor manual.)

    >>> sum_([1, UNDEFINED, 2.5]), sum_([])
    (3.5, 0)
    """
    numbers = _numbers("sum", items)
    return _total(numbers) if isinstance(numbers, list) else numbers


@function("avg", 1)
def avg(items: Value) -> Value:
    """avg(L): the mean of the numbers in a list as a real, but 0 of none.

    Undefined elements are skipped. Undefined if L is; error if L is not a list or an element no
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
    """Enter a function; the examples are its values of three lists."""

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


_DELIMITERS: Final = " ,"
_MORE_DELIMITERS: Final = ", \t\r\n"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")


def elements(
    text: str, delimiters: str = _DELIMITERS, *, budget: Budget | None = None
) -> list[str]:
    """The elements of a list written as a string. They count against the budget.

    >>> elements("a, b,,c"), elements("x y; z", ";")
    (['a', 'b', 'c'], ['x y', 'z'])
    """
    return [stripped for part in _cut(text, delimiters, budget) if (stripped := part.strip())]


def _cut(text: str, delimiters: str, budget: Budget | None) -> list[str]:
    if budget is not None:
        # There may be as many elements as every other character.
        budget.spend(len(text))
    return alike(text, delimiters).split(delimiters[0]) if delimiters else [text]


def _strings(name: str, values: tuple[Value, ...]) -> list[str] | ErrorType:
    """The arguments, if all are strings; else the error for the first other one."""
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) == len(values):
        return texts
    return wrong(name, "strings", next(value for value in values if not isinstance(value, str)))


def _numbers_in(
    name: str, values: tuple[Value, ...], budget: Budget | None
) -> list[int | float] | ErrorType:
    texts = _strings(name, values)
    if isinstance(texts, ErrorType):
        return texts
    numbers: list[int | float] = []
    for element in elements(*texts, budget=budget):
        number = leading_number(element)
        if number is None:
            return ErrorType(f"{name}() takes a list of numbers, not of {element[:40]!r}")
        numbers.append(wrap(int(element)) if _INTEGER.fullmatch(element) else number)
    return numbers


@function("stringListSize", 1, 2, budgeted=True)
def string_list_size(*values: Value, budget: Budget | None = None) -> Value:
    """stringListSize(s[, delimiters]): the number of elements of a list written as a string.

    An argument that is not a string, undefined too, is an error. (HTCondor manual.)

    >>> string_list_size("a, b,,c"), string_list_size("a;b", ";")
    (3, 2)
    """
    texts = _strings("stringListSize", values)
    return texts if isinstance(texts, ErrorType) else len(elements(*texts, budget=budget))


def _number_of(
    name: str,
    what: str,
    examples: dict[str, str],
    combine: Callable[[list[int | float]], int | float],
    of_none: Value = 0.0,
) -> Callable[..., Value]:
    """Enters a function that makes one number of those in a list; `of_none` if there is none."""

    @function(name, 1, 2, budgeted=True)
    def number(*values: Value, budget: Budget | None = None) -> Value:
        numbers = _numbers_in(name, values, budget)
        if not isinstance(numbers, list):
            return numbers
        if not numbers:
            return of_none
        if any(isinstance(number, float) for number in numbers):
            numbers = [float(number) for number in numbers]
        result = combine(numbers)
        return wrap(result) if isinstance(result, int) else result

    number.__doc__ = f"""{name}(s[, delimiters]): {what} in a list written as a string.

    An argument that is no string, undefined too, is an error, and so is an element that is no
    number. (HTCondor manual.)

    >>> from matchmaker import parse_expr
    >>> [parse_expr(f"{name}('{{text}}')".replace("'", '"')).eval() for text in {[*examples]}]
    [{", ".join(examples.values())}]
    """
    return number


def _mean(numbers: list[int | float]) -> int | float:
    total = sum(numbers)
    if isinstance(total, float):
        return total / len(numbers)
    return abs(total) // len(numbers) * (-1 if total < 0 else 1)


string_list_sum = _number_of(
    "stringListSum", "the sum of the numbers, a real of reals and of none,",
    {"1,2": "3", "1,2.5": "3.5", "": "0.0"}, sum,
)  # fmt: skip
string_list_avg = _number_of(
    "stringListAvg", "the mean of the numbers, of integers without the fraction,",
    {"1,2.0": "1.5", "1,2": "1", "": "0.0"}, _mean,
)  # fmt: skip
string_list_min = _number_of(
    "stringListMin", "the smallest number, undefined of none,",
    {"3,1,2": "1", "": "UNDEFINED"}, min, UNDEFINED,
)  # fmt: skip
string_list_max = _number_of(
    "stringListMax", "the largest number, undefined of none,",
    {"3,1,2": "3", "-1,-2": "-1"}, max, UNDEFINED,
)  # fmt: skip


def _texts(name: str, values: tuple[Value, ...]) -> list[str] | UndefinedType | ErrorType:
    """The arguments, undefined ones as empty strings; undefined delimiters are the usual ones."""
    bad = any(value is not UNDEFINED and not isinstance(value, str) for value in values[2:])
    if values[0] is UNDEFINED and values[1] is UNDEFINED and not bad:
        return UNDEFINED
    texts: list[str] = []
    for index, value in enumerate(values):
        if isinstance(value, str):
            texts.append(value)
        elif value is not UNDEFINED:
            return wrong(name, "strings", value)
        elif index < 2:
            texts.append("")
    return texts


def _member(
    name: str, fold: Callable[[str], str], case: str, example: bool
) -> Callable[..., Value]:
    """Enters a function; the example is whether B is in a list with b."""

    @function(name, 2, 3, budgeted=True, result=BOOLEAN)
    def member(*values: Value, budget: Budget | None = None) -> Value:
        texts = _texts(name, values)
        if not isinstance(texts, list):
            return texts
        wanted, text, delimiters, *_ = (*texts, _MORE_DELIMITERS)
        return fold(wanted) in map(fold, elements(text, delimiters, budget=budget))

    member.__doc__ = f"""{name}(x, s[, delimiters]): whether the string x is an element of s.

    Letters count {case}. Undefined counts as an empty string, unless both are: then the result is
    undefined. Any other argument that is no string is an error. (HTCondor manual.)

    >>> from matchmaker import parse_expr
    >>> [parse_expr(f'{name}("{{x}}", "a, b")').eval() for x in ("b", "B")]
    [True, {example}]
    """
    return member


string_list_member = _member("stringListMember", str, "as they are", False)
string_list_imember = _member("stringListIMember", ascii_fold, "without regard to case", True)


def _subset(
    name: str, fold: Callable[[str], str], case: str, example: bool
) -> Callable[..., Value]:
    """Enters a function; the example is whether a list with A is part of one with a."""

    @function(name, 2, 3, budgeted=True, result=BOOLEAN)
    def subset(*values: Value, budget: Budget | None = None) -> Value:
        texts = _texts(name, values)
        if not isinstance(texts, list):
            return texts
        part, whole, delimiters, *_ = (*texts, _MORE_DELIMITERS)
        wanted = set(map(fold, elements(part, delimiters, budget=budget)))
        if not wanted:
            return not part
        return wanted.issubset(map(fold, elements(whole, delimiters, budget=budget)))

    subset.__doc__ = f"""{name}(a, b[, delimiters]): whether every element of a is one of b.

    Letters count {case}. An empty a is true, but one of nothing but delimiters is false. Undefined
    and error as in stringListMember(). (HTCondor manual.)

    >>> from matchmaker import parse_expr
    >>> [parse_expr(f'{name}("{{a}}", "c,b,a")').eval() for a in ("a,b", "", "A")]
    [True, True, {example}]
    """
    return subset


string_list_subset_match = _subset("stringListSubsetMatch", str, "as they are", False)
string_list_isubset_match = _subset(
    "stringListISubsetMatch", ascii_fold, "without regard to case", True
)


@function("stringListsIntersect", 2, 3, budgeted=True, result=BOOLEAN)
def string_lists_intersect(*values: Value, budget: Budget | None = None) -> Value:
    """stringListsIntersect(a, b[, delimiters]): whether the lists have an element in common.

    Undefined if an argument is; one that is not a string is an error. White space belongs to the
    elements unless it is a delimiter, as the space is by default. (HTCondor manual.)

    >>> string_lists_intersect("a, b", "b c"), string_lists_intersect("a", "A")
    (True, False)
    """
    answer = exceptional(values)
    if answer is not None:
        return answer
    texts = _strings("stringListsIntersect", values)
    if isinstance(texts, ErrorType):
        return texts
    left, right, *rest = texts
    delimiters = rest[0] if rest and rest[0] else _DELIMITERS
    found = {part for part in _cut(left, delimiters, budget) if part}
    return not found.isdisjoint(_cut(right, delimiters, budget))


@function("stringList_regexpMember", 2, 4, budgeted=True, traits={Trait.PATTERN})
def string_list_regexp_member(*values: Value, budget: Budget | None = None) -> Value:
    """stringList_regexpMember(p, s[, delimiters[, options]]): whether p matches an element of s.

    p and the options as in regexp(). Undefined if the list is empty; an argument that is no
    string is an error. (HTCondor manual.)

    >>> string_list_regexp_member("^b", "a, bc"), string_list_regexp_member("B", "b", ",", "i")
    (True, True)
    """
    name = "stringList_regexpMember"
    texts = _strings(name, values)
    if isinstance(texts, ErrorType):
        return texts
    pattern, text, delimiters, options, *_ = (*texts, *(_DELIMITERS, "")[len(texts) - 2 :])
    # A broken pattern is an error for an empty list too.
    found = search(name, pattern, "", options, budget)
    if is_error(found):
        return found
    found = UNDEFINED
    for element in elements(text, delimiters, budget=budget):
        found = search(name, pattern, element, options, budget)
        if found is not False:
            return found
    return found
