"""Functions on strings: joining, cutting, letter case, order, splitting, and version numbers.

Strings are counted in characters, not in bytes. Letter case is ASCII's. Patterns are in
``patterns``, lists written as one string in ``stringlists``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import dropwhile
from typing import Final

from matchmaker.classad.functions import BOOLEAN, NUMBER, STRING, function, joined, listed, wrong
from matchmaker.classad.functions.conversions import to_text
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.state import Budget
from matchmaker.classad.values import UNDEFINED, Value, is_error, is_integer

_DIGITS: Final = re.compile(r"[0-9]*")


@function("strcat", 0, None, budgeted=True, result=STRING)
def strcat(*values: Value, budget: Budget | None = None) -> Value:
    """strcat(x, …): the values as text, one after the other; any type.

    The first undefined or error argument is the result. (HTCondor manual.)

    >>> strcat("a", 1, True), strcat("a", UNDEFINED)
    ('a1true', UNDEFINED)
    """
    parts: list[str] = []
    for value in values:
        text = to_text(value, budget)
        if not isinstance(text, str):
            return text
        parts.append(text)
    return joined("strcat", parts)


@function("join", 0, None, budgeted=True, result=STRING)
def join(*values: Value, budget: Budget | None = None) -> Value:
    """join(sep, x, …), join(sep, L), join(L): the values as text, with sep between them.

    Undefined values are left out; if nothing else is there, the result is undefined. An error is
    the result. (HTCondor manual.)

    >>> join(",", ["a", UNDEFINED, 2]), join(["a", "b"]), join("-", "a", "b")
    ('a,2', 'ab', 'a-b')
    """
    if len(values) in (1, 2) and isinstance(values[-1], list):
        values = ((values[0] if len(values) == 2 else ""), *values[-1])
    texts = [to_text(value, budget) for value in values]
    for text in texts:
        if is_error(text):
            return text
    separator = texts[0] if texts and isinstance(texts[0], str) else ""
    parts = [text for text in texts[1:] if isinstance(text, str)]
    if not parts and UNDEFINED in texts:
        return UNDEFINED
    # What is empty so far gets no separator after it.
    return joined("join", list(dropwhile(lambda part: not part, parts)), separator)


@function("toUpper", 1, budgeted=True, result=STRING)
def to_upper(value: Value, *, budget: Budget | None = None) -> Value:
    """toUpper(x): the text of x with a-z made large; any type. Undefined and error stay.

    (HTCondor manual.)

    >>> to_upper("abc1")
    'ABC1'
    """
    text = to_text(value, budget)
    if not isinstance(text, str):
        return text
    if text.isascii():
        return text.upper()
    return text.encode("utf-8", "surrogatepass").upper().decode("utf-8", "surrogatepass")


@function("toLower", 1, budgeted=True, result=STRING)
def to_lower(value: Value, *, budget: Budget | None = None) -> Value:
    """toLower(x): the text of x with A-Z made small; any type. Undefined and error stay.

    (HTCondor manual.)

    >>> to_lower("ABC1")
    'abc1'
    """
    text = to_text(value, budget)
    return ascii_fold(text) if isinstance(text, str) else text


@function("substr", 2, 3, result=STRING)
def substr(text: Value, offset: Value, length: Value | None = None) -> Value:
    """substr(s, offset[, length]): a part of a string; negative numbers count from the end.

    s is a string, the others integers. A negative length leaves out that many characters at the
    end. Undefined if an argument is; any other type is an error. (HTCondor manual.)

    >>> substr("abcdef", 1, -2), substr("abcdef", -2), substr("abc", 9)
    ('bcd', 'ef', '')
    """
    if UNDEFINED in (text, offset, length):
        return UNDEFINED
    if not isinstance(text, str):
        return wrong("substr", "a string", text)
    if not is_integer(offset):
        return wrong("substr", "integers after the string", offset)
    start = max(0, len(text) + offset) if offset < 0 else min(offset, len(text))
    if length is None:
        return text[start:]
    if not is_integer(length):
        return wrong("substr", "integers after the string", length)
    end = len(text) + length if length < 0 else start + length
    return text[start : max(start, end)]


@function("strcmp", 2, budgeted=True, result=NUMBER)
def strcmp(left: Value, right: Value, *, budget: Budget | None = None) -> Value:
    """strcmp(a, b): -1, 0 or 1 as the text of a comes before b, equals it, or comes after it.

    Values of other types are compared as text. Undefined if an argument is, else error if one
    is. (HTCondor manual.)

    >>> strcmp("a", "B"), strcmp("a", "a"), strcmp("a", UNDEFINED)
    (1, 0, UNDEFINED)
    """
    texts = two_texts(left, right, budget)
    return _order(*texts) if isinstance(texts, tuple) else texts


@function("stricmp", 2, budgeted=True, result=NUMBER)
def stricmp(left: Value, right: Value, *, budget: Budget | None = None) -> Value:
    """stricmp(a, b): as strcmp(), without regard to letter case.

    Undefined if an argument is, else error if one is. (HTCondor manual.)

    >>> stricmp("a", "B"), stricmp("a", "A")
    (-1, 0)
    """
    texts = two_texts(left, right, budget)
    return _order(*map(ascii_fold, texts)) if isinstance(texts, tuple) else texts


def two_texts(left: Value, right: Value, budget: Budget | None) -> tuple[str, str] | Value:
    """Two values as text. Undefined if one is, else error if one is."""
    if left is UNDEFINED or right is UNDEFINED:
        return UNDEFINED
    one, other = to_text(left, budget), to_text(right, budget)
    if not isinstance(one, str):
        return one
    return (one, other) if isinstance(other, str) else other


def _order(left: str, right: str) -> int:
    return (left > right) - (left < right)


@function("split", 1, 2, budgeted=True)
def split(text: Value, delimiters: Value = ", \t", *, budget: Budget | None = None) -> Value:
    """split(s[, delimiters]): the words of a string as a list; by default at spaces and commas.

    delimiters is a string of characters that each end a word. Words are not empty, except between
    two of the same delimiter, and white space next to another delimiter counts with it. Any other
    type, undefined too, is an error. (HTCondor manual.)

    >>> split("a, b c"), split("a,,b"), split("a;,b", ";,")
    (['a', 'b', 'c'], ['a', '', 'b'], ['a', 'b'])
    """
    if not isinstance(text, str):
        return wrong("split", "a string", text)
    if not isinstance(delimiters, str):
        return wrong("split", "delimiters as a string", delimiters)
    if budget is not None:
        budget.spend(len(text) + 4 * len(delimiters))
    return listed("split", words(text, delimiters))


def words(text: str, delimiters: str) -> list[str]:
    """The words of a text; see split()."""
    marks = frozenset(delimiters)
    found: list[str] = []
    start, last = 0, ""
    for place, char in enumerate(text):
        if char not in marks:
            continue
        if place > start:
            found.append(text[start:place])
        elif char == last:
            found.append("")
        if not char.isspace():
            last = char
        start = place + 1
    return [*found, text[start:]] if start < len(text) else found


def alike(text: str, chars: Sequence[str]) -> str:
    """A text with each of some characters replaced by the first of them.

    So no pattern is made, and kept, of delimiters that are a stranger's.

    >>> alike("a,b;c", ",;")
    'a,b,c'
    """
    return text.translate(dict.fromkeys(map(ord, chars[1:]), chars[0])) if chars[1:] else text


def _splitting(name: str, before: str, after: str, empty: int) -> Callable[[Value], Value]:
    """Enter a function; `empty` is the place of the part that is empty without an ``@``."""

    @function(name, 1)
    def split_name(text: Value) -> Value:
        if not isinstance(text, str):
            return wrong(name, "a string", text)
        parts = text.split("@", 1)
        return parts if len(parts) == 2 else [*parts[:empty], "", *parts[empty:]]

    split_name.__doc__ = f"""{name}(s): {{{before}, {after}}} of ``{before}@{after}``.

    Without an ``@`` the {(before, after)[empty]} is empty. What is no string, undefined too, is an
    error. (HTCondor manual.)

    >>> from matchmaker import parse_expr
    >>> [parse_expr(f'{name}("{{text}}")[{empty}]').eval() for text in ("a@b", "a")]
    ['{"ab"[empty]}', '']
    """
    return split_name


split_user_name = _splitting("splitUserName", "user", "domain", 1)
split_slot_name = _splitting("splitSlotName", "slot", "host", 0)


def natural_order(left: str, right: str) -> int:
    """Below 0, 0 or above 0 as the one version comes before the other, as strverscmp orders them.

    Numbers are compared by value; one that begins with more zeros comes first.

    >>> natural_order("1.9", "1.10") < 0, natural_order("1.02", "1.2") < 0
    (True, True)
    """
    start = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    if start is None:
        start = min(len(left), len(right))
        if len(left) == len(right):
            return 0
    difference = _code(left, start) - _code(right, start)
    first = start
    while first and left[first - 1] in "0123456789":
        first -= 1
    one, other = _digits(left, first), _digits(right, first)
    if first == start and not (one and other):
        return difference
    zeros, other_zeros = _leading_zeros(one), _leading_zeros(other)
    if zeros != other_zeros:
        return other_zeros - zeros
    return difference if zeros or len(one) == len(other) else len(one) - len(other)


def _code(text: str, index: int) -> int:
    return ord(text[index]) if index < len(text) else 0


def _digits(text: str, index: int) -> str:
    match = _DIGITS.match(text, index)
    return match[0] if match else ""


def _leading_zeros(digits: str) -> int:
    zeros = len(digits) - len(digits.lstrip("0"))
    # The zero of the number 0 is no leading one.
    return zeros - 1 if zeros and zeros == len(digits) else zeros


@function("versioncmp", 2, budgeted=True, result=NUMBER)
def versioncmp(left: Value, right: Value, *, budget: Budget | None = None) -> Value:
    """versioncmp(a, b): below 0, 0 or above 0 as version a is older than, equal to or newer than b.

    Digits are compared by their value, all else by character. Undefined if an argument is, else
    error if one is; other values are compared as text. (HTCondor manual.)

    >>> versioncmp("1.9", "1.10"), versioncmp("1.2", "1.2"), versioncmp("1", UNDEFINED)
    (-1, 0, UNDEFINED)
    """
    texts = two_texts(left, right, budget)
    return natural_order(*texts) if isinstance(texts, tuple) else texts


def _relation(
    name: str, sign: str, holds: Callable[[int], bool], results: str
) -> Callable[..., Value]:
    """Enters a relation; the results are those for an older, the same and a newer version."""

    @function(name, 2, budgeted=True, result=BOOLEAN)
    def compare(left: Value, right: Value, *, budget: Budget | None = None) -> Value:
        order = versioncmp(left, right, budget=budget)
        return holds(order) if isinstance(order, int) else order

    compare.__doc__ = f"""{name}(a, b): whether version a {sign} b, by the order of versioncmp().

    Undefined where an argument is, else error where one is. (HTCondor manual.)

    >>> from matchmaker import parse_expr
    >>> [parse_expr(f'{name}("{{v}}", "1.10")').eval() for v in ("1.9", "1.10", "1.11")]
    {results}
    """
    return compare


version_le = _relation("versionLE", "<=", lambda order: order <= 0, "[True, True, False]")
version_lt = _relation("versionLT", "<", lambda order: order < 0, "[True, False, False]")
version_ge = _relation("versionGE", ">=", lambda order: order >= 0, "[False, True, True]")
version_gt = _relation("versionGT", ">", lambda order: order > 0, "[False, False, True]")
version_eq = _relation("versionEQ", "==", lambda order: order == 0, "[False, True, False]")


@function("version_in_range", 3, budgeted=True, result=BOOLEAN)
def version_in_range(
    version: Value, least: Value, most: Value, *, budget: Budget | None = None
) -> Value:
    """version_in_range(v, lo, hi): whether version v is neither older than lo nor newer than hi.

    Undefined if lo or hi is; an undefined v is an error. (HTCondor manual.)

    >>> version_in_range("1.10", "1.9", "1.11")
    True
    """
    if least is UNDEFINED or most is UNDEFINED:
        return UNDEFINED
    texts = [to_text(value, budget) for value in (version, least, most)]
    for text in texts:
        if not isinstance(text, str):
            return wrong("version_in_range", "versions", text)
    version, least, most = texts
    lowest = versioncmp(least, version, budget=budget)
    highest = versioncmp(version, most, budget=budget)
    return isinstance(lowest, int) and isinstance(highest, int) and lowest <= 0 and highest <= 0
