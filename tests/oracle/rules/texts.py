"""HTCondor's reading of characters, numbers and functions where it is not ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from matchmaker.classad.functions import conversions, patterns, stringlists
from matchmaker.classad.values import MAX_INT, UNDEFINED, is_error
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
    code = ord(text[index]) if index < len(text) else 0
    return code - 256 if code > 127 else code


BYTES: Final = Rules(
    text=_as_bytes,
    answer=_from_bytes,
    places={"matchmaker.classad.functions.versions:_code": _signed},
)

# --- integers of more than 64 bits are 0 ----------------------------------------------------------

_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[\w.]+(?:(?<=[eE])[+-]\d+)?')


def _zeroed(text: str) -> str:
    def token(match: re.Match[str]) -> str:
        if not match[0].isdigit():
            return match[0]
        least = text[: match.start()].endswith("-")
        return "0" if int(match[0]) > MAX_INT + least else match[0]

    return _TOKEN.sub(token, text)


INTEGERS: Final = Rules(text=_zeroed)

# --- two dots are one -----------------------------------------------------------------------------

_DOTS: Final = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?<!\d)\.\s*\.(?!\d)""")

DOTS: Final = Rules(text=lambda text: _DOTS.sub(lambda match: match[1] or ".", text))

# --- eval() reads numbers in C's way --------------------------------------------------------------


def _read_as_c(inner: Wrapper, text: str) -> Any:
    def decimal(match: re.Match[str]) -> str:
        token = match[0]
        if re.fullmatch(r"0[0-7]+", token):
            return str(int(token, 8))
        return str(int(token, 16)) if re.fullmatch(r"0[xX][0-9a-fA-F]+", token) else token

    return inner(_TOKEN.sub(decimal, text))


NUMBERS: Final = Rules(places={"matchmaker.classad.parser:parse_expr": _read_as_c})

# --- a name in parentheses is an expression -------------------------------------------------------

_PARENTHESES: Final = re.compile(
    r"\b(countMatches|evalInEachContext|unresolved|unparse)\(\s*\(\s*([A-Za-z_][\w.]*)\s*\)",
    re.IGNORECASE,
)

PARENTHESES: Final = Rules(text=lambda text: _PARENTHESES.sub(r"\1(debug(\2)", text))

# --- numbers in string lists are reals, and the search for the largest begins with a number -------

_LEAST: Final = 1.1754943508222875e-38
"""The least positive number of 32 bits, with which the search for the largest begins."""
_MOST: Final = 3.4028234663852886e38


def _of_reals(combine: Callable[[list[float]], float]) -> Wrapper:
    def wrapper(inner: Wrapper, *values: Any) -> Any:
        texts = [value for value in values if isinstance(value, str)]
        if len(texts) < len(values) or not stringlists.elements(*texts):
            return inner(*values)
        elements = stringlists.elements(*texts)
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


BROKEN: Final = Rules(functions={"regexpmember": _member})
