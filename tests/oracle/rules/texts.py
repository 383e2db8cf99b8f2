"""HTCondor's reading of characters, numbers and functions where it is not ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from matchmaker import ParseError
from matchmaker.classad.functions import conversions, lists, patterns
from matchmaker.classad.nodes import Ternary
from matchmaker.classad.values import ERROR, MAX_INT, UNDEFINED, is_error, wrap
from tests.oracle.emulation import Rules, Wrapper
from tests.oracle.oracle import Answer
from tests.oracle.rules.numbers import cast_of_64

# --- bytes: each byte of UTF-8 is a character -----------------------------------------------------


def _as_bytes(text: str) -> str:
    return text.encode("utf-8").decode("latin-1")


def _from_bytes(answer: Answer) -> Answer:
    try:
        decoded = _decoded(answer)
    except UnicodeDecodeError:
        return ["exception", "UnicodeDecodeError"]
    assert isinstance(decoded, list)
    return decoded


def _decoded(part: Any) -> Any:
    if isinstance(part, list):
        return list(map(_decoded, part))
    return part.encode("latin-1").decode("utf-8") if isinstance(part, str) else part


def _signed(inner: Wrapper, text: str, index: int) -> int:
    """The code of a byte for the comparison of versions, which takes it with a sign."""
    code: int = inner(text, index)
    return code - 256 if code > 127 else code


BYTES: Final = Rules(
    text=_as_bytes,
    answer=_from_bytes,
    places={"matchmaker.classad.functions.strings:_code": _signed},
)

# --- texts that are read otherwise, by eval() too -------------------------------------------------


def _reading(otherwise: Callable[[str], str]) -> Rules:
    """The rules by which all texts are read as others are."""
    return Rules(text=otherwise, places={_PARSER: lambda inner, text: inner(otherwise(text))})


def _refusing(otherwise: Callable[[str], str]) -> Rules:
    """What we do: texts that are read otherwise elsewhere cannot be read at all."""

    def same(text: str) -> str:
        if otherwise(text) != text:
            raise ParseError("this is no expression")
        return text

    return _reading(same)


_PARSER: Final = "matchmaker.classad.parser:parse_expr"

# --- what follows a choice is not looked at by eval() ---------------------------------------------

_WHOLE_NUMBER: Final = re.compile(
    r"(?:0|[1-9]\d*)(?:\.\d+)?(?:e[+-]?\d+)?(?![\de]|x[\da-f])", re.IGNORECASE
)


def _first(inner: Wrapper, text: str) -> Any:
    try:
        return inner(text)
    except ParseError as error:
        lines = text.split("\n")[: error.line]
        place = sum(len(line) + 1 for line in lines[:-1]) + error.column - 1
        number = _WHOLE_NUMBER.match(text, place)
        # To us a number does not end where a letter follows, nor one begin with a point.
        for end in (place, number.end() if number else place, place - 1):
            if _is_choice(inner, text[:end]):
                return inner(text[:end])
        raise


def _is_choice(inner: Wrapper, text: str) -> bool:
    """Whether a text is ``a ? b : c``, and not in parentheses."""
    try:
        node, longer = inner(text), inner(f"{text} ? 0 : 0")
    except ParseError:
        return False
    return isinstance(node, Ternary) and longer.condition == node.condition


REST: Final = Rules(places={_PARSER: _first})

# --- integers of more than 64 bits are 0 ----------------------------------------------------------

_TOKEN: Final = re.compile(
    r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|\d+(?=(?i:is|isnt)\b)|[\w.]+(?:(?<=[eE])[+-]\d+)?"""
)


def _zeroed(text: str) -> str:
    def token(match: re.Match[str]) -> str:
        if not match[0].isdigit():
            return match[0]
        least = re.search(r"""(?:^|[^\w)\]}"'\s])\s*-\Z""", text[: match.start()]) is not None
        return "0" if int(match[0]) > MAX_INT + least else match[0]

    return _TOKEN.sub(token, text)


INTEGERS: Final = _reading(_zeroed)
OUR_INTEGERS: Final = _refusing(_zeroed)

# --- two dots are one, or 0.0 before digits, and semicolons separate arguments as commas do -------

_MARK: Final = re.compile(
    r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|\.\.(\d+(?:e[+-]?\d+)?(?![\w.]))?|[][(){};]""",
    re.IGNORECASE,
)


def _punctuated(text: str) -> str:
    open_brackets = [""]

    def mark(match: re.Match[str]) -> str:
        sign = match[0]
        if sign in ("(", "[", "{"):
            open_brackets.append(sign)
        elif sign in (")", "]", "}") and len(open_brackets) > 1:
            open_brackets.pop()
        elif sign == ";" and open_brackets[-1] == "(":
            return ","
        if sign[0] == ".":
            return " 0.0" if match[2] else "."
        return sign

    return _MARK.sub(mark, text)


PUNCTUATION: Final = _reading(_punctuated)
OUR_PUNCTUATION: Final = _refusing(_punctuated)

# --- a negative number may begin with needless zeros, as if it were octal, and is decimal ---------

_ZEROS: Final = re.compile(
    r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
    r"""|(?<![\w)\]}"'])(\s*-)0(?:([0-7]+)|x[0-9a-f]+)(?![\w.])""",
    re.IGNORECASE,
)


def _without_zeros(text: str) -> str:
    return _ZEROS.sub(lambda match: match[1] or f"{match[2]}{int(match[3] or 0)}", text)


ZEROS: Final = _reading(_without_zeros)
OUR_ZEROS: Final = _refusing(_without_zeros)

# --- quoted names side by side are one, and one without a character is a name, too ----------------

_QUOTED: Final = re.compile(
    r"""("(?:\\.|[^"\\])*")|'(?:\\.|[^'\\])*'(?:\s*'(?:\\.|[^'\\])*')*""", re.DOTALL
)


def _joined(text: str) -> str:
    def name(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        parts = re.findall(r"'((?:\\.|[^'\\])*)'", match[0], re.DOTALL)
        # No ad can define a name without a character, nor does any define this one.
        return f"'{''.join(parts) or ' '}'"

    return _QUOTED.sub(name, text)


QUOTED_NAMES: Final = _reading(_joined)
OUR_QUOTED_NAMES: Final = _refusing(_joined)

# --- a name in parentheses is an expression -------------------------------------------------------

_PARENTHESES: Final = re.compile(
    r"\b(countMatches|evalInEachContext|unresolved|unparse)\(\s*\(\s*([A-Za-z_][\w.]*)\s*\)",
    re.IGNORECASE,
)

PARENTHESES: Final = Rules(text=lambda text: _PARENTHESES.sub(r"\1(debug(\2)", text))
OUR_PARENTHESES: Final = Rules(text=lambda text: _PARENTHESES.sub(r"\1(\2", text))

# --- numbers in string lists are reals, and the search for the largest begins with a number -------

_LEAST: Final = 1.1754943508222875e-38
"""The least positive number of 32 bits, with which the search for the largest begins."""
_MOST: Final = 3.4028234663852886e38


def _of_reals(combine: Callable[[list[float]], float]) -> Wrapper:
    def wrapper(inner: Wrapper, *values: Any) -> Any:
        texts = [value for value in values if isinstance(value, str)]
        if len(texts) < len(values) or not lists.elements(*texts):
            return inner(*values)
        elements = lists.elements(*texts)
        numbers = [conversions.leading_number(element) for element in elements]
        known = [number for number in numbers if number is not None]
        if len(known) < len(numbers):
            return inner(*values)
        whole = all(set(element) <= set("+-0123456789") for element in elements)
        return cast_of_64(combine(known)) if whole else combine(known)

    return wrapper


def _summed(numbers: list[float]) -> float:
    total = 0.0
    for number in numbers:
        total += number
    return total


STRING_LISTS: Final = Rules(
    functions={
        "stringlistsum": _of_reals(_summed),
        "stringlistavg": _of_reals(lambda numbers: _summed(numbers) / len(numbers)),
        "stringlistmax": _of_reals(lambda numbers: max(_LEAST, *numbers)),
        "stringlistmin": _of_reals(lambda numbers: min(_MOST, *numbers)),
    }
)


def _exactly(combine: Callable[[list[Any]], Any]) -> Wrapper:
    """What we do: integers are taken as integers, of 64 bits in the end, unless a real is there."""

    def wrapper(inner: Wrapper, *values: Any) -> Any:
        texts = [value for value in values if isinstance(value, str)]
        elements = lists.elements(*texts) if len(texts) == len(values) else []
        numbers = [conversions.leading_number(each) for each in elements]
        known = [number for number in numbers if number is not None]
        if not known or len(known) < len(numbers):
            return inner(*values)
        # What is written as an integer of up to 19 digits is one, of 64 bits.
        exact = [wrap(int(each)) if re.fullmatch(r"[+-]?\d{1,19}", each) else number
                 for each, number in zip(elements, known, strict=True)]  # fmt: skip
        combined = combine(exact)
        return wrap(combined) if isinstance(combined, int) else combined

    return wrapper


def _mean(numbers: list[Any]) -> Any:
    total = sum(numbers)
    whole = isinstance(total, int)
    return int(Fraction(total, len(numbers))) if whole else total / len(numbers)


OUR_STRING_LISTS: Final = Rules(
    functions={
        "stringlistsum": _exactly(sum),
        "stringlistavg": _exactly(_mean),
        "stringlistmax": _exactly(max),
        "stringlistmin": _exactly(min),
    }
)

# --- a broken pattern matches nothing -------------------------------------------------------------


def _member(inner: Wrapper, *values: Any, **more: Any) -> Any:
    value = inner(*values, **more)
    pattern, items = values[:2]
    usable = all(isinstance(text, str) for text in (pattern, *values[2:])) and isinstance(
        items, list
    )
    if not usable or not is_error(patterns.search("", pattern, "", "".join(values[2:]))):
        return value
    found = list(items)
    if any(not isinstance(item, str) and item is not UNDEFINED for item in found):
        return value
    return UNDEFINED if UNDEFINED in found else False


def _no_member(inner: Wrapper, *values: Any, **more: Any) -> Any:
    pattern, items, *options = values
    texts = all(isinstance(text, str) for text in (pattern, *options))
    if not texts or not isinstance(items, list):
        return inner(*values, **more)
    asked = any(item is not UNDEFINED for item in items)
    broken = is_error(patterns.search("", pattern, "", "".join(options)))
    return ERROR if asked and broken else inner(*values, **more)


BROKEN: Final = Rules(functions={"regexpmember": _member})
OUR_BROKEN: Final = Rules(functions={"regexpmember": _no_member})
