"""HTCondor's times where they are not ours: as texts, as literals, and without fractions."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from matchmaker import ClassAd, Expr, parse_expr
from matchmaker.classad.nodes import Attr, Call, ListExpr, Literal
from matchmaker.classad.printer import quote
from matchmaker.classad.values import ERROR
from matchmaker.classad.walks import postorder
from tests.oracle.answers import REFUSED, UNREADABLE
from tests.oracle.emulation import NoValueError, Rules, Wrapper
from tests.oracle.oracle import Answer, Case
from tests.oracle.rules.numbers import cast, is_integer, is_real
from tests.oracle.rules.unbounded import Unbounded

# --- fractions: an absolute time has whole seconds ------------------------------------------------


def _whole(value: Any) -> Any:
    if isinstance(value, timedelta):
        return timedelta(seconds=int(value / timedelta(seconds=1)))
    return value


def _moved(inner: Wrapper, left: Any, right: Any) -> Any:
    if isinstance(left, datetime) != isinstance(right, datetime):
        return inner(_whole(left), _whole(right))
    return inner(left, right)


def _no_fractions(root: Expr) -> None:
    for node in postorder(root):
        if (
            isinstance(node, Literal)
            and isinstance(node.value, datetime)
            and node.value.microsecond
        ):
            raise NoValueError(UNREADABLE)


FRACTIONS: Final = Rules(operators={"+": _moved, "-": _moved}, tree=_no_fractions)

# --- microseconds: of a relative time we have no more ---------------------------------------------


def _rounded(answer: Answer, case: Case) -> Answer:
    """An answer in which the seconds of a split time have five digits after the point."""
    if answer[0] == "list" and isinstance(answer[1], list):
        return ["list", [_rounded(item, case) for item in answer[1]]]
    if answer[0] != "classad" or ["type", ["string", "RelativeTime"]] not in answer[1]:
        return answer
    parts = [
        [name, ["real", round(float(value[1]), 5)] if name == "seconds" else value]
        for name, value in answer[1]
    ]
    return ["classad", parts]


MICROSECONDS: Final = Rules(view=_rounded)

# --- literals: a relative time that is put into a literal comes out as a real ---------------------


def _real(value: Any) -> Any:
    if isinstance(value, Unbounded) and value.offset is None:
        return value.seconds
    return value / timedelta(seconds=1) if isinstance(value, timedelta) else value


def _copied(value: Any) -> Any:
    """What comes of a value that is put into a list: of a relative time its whole seconds."""
    if isinstance(value, list):
        # As when something is picked out of lists of ads in a list.
        return type(value)(map(_copied, value))
    real = _real(value)
    return real if real is value else float(cast(real))


def _reals(inner: Wrapper, *arguments: Any) -> Any:
    value = inner(*arguments)
    return type(value)(map(_copied, value)) if isinstance(value, list) else value


def _held(inner: Wrapper, ad: ClassAd, folded: str, state: Any) -> Any:
    # An ad holds a literal as its value.
    value = inner(ad, folded, state)
    return _real(value) if isinstance(ad._held.get(folded), timedelta) else value


def _projected(inner: Wrapper, node: Attr, state: Any, ad: ClassAd | None) -> Any:
    value = inner(node, state, ad)
    if node.base is None or not isinstance(value, list):
        return value
    # Either a list was picked out of an ad, or something was picked out of each ad of a list.
    base = state.table[type(node.base)](node.base, state, ad)
    return list(map(_copied, value)) if isinstance(base, list) else value


LITERALS: Final = Rules(
    nodes={Literal: lambda inner, *where: _real(inner(*where)), Attr: _projected},
    functions={"evalineachcontext": _reals},
    places={"matchmaker.classad.reference:_attribute_of": _held},
)

# --- texts: read where they stand as literals, and nowhere else -----------------------------------


def _unread(root: Expr) -> None:
    for node in postorder(root):
        if isinstance(node, Call) and node.function.lower() in ("abstime", "reltime"):
            texts = [argument for argument in node.arguments if isinstance(argument, Literal)]
            if len(node.arguments) == len(texts) == 1 and isinstance(texts[0].value, str):
                raise NoValueError(UNREADABLE)


def _text_stays(inner: Wrapper, *values: Any) -> Any:
    if not values or not isinstance(values[0], str):
        return inner(*values)
    offset = inner(0, *values[1:])
    return values[0] if isinstance(offset, (datetime, Unbounded)) else ERROR


def _text_is_nothing(inner: Wrapper, value: Any) -> Any:
    return timedelta() if isinstance(value, str) else inner(value)


def _read_as_literal(name: str) -> Wrapper:
    """What we do: a computed text is read as a literal is."""

    def wrapper(inner: Wrapper, *values: Any) -> Any:
        if len(values) != 1 or not isinstance(values[0], str):
            return inner(*values)
        literal = parse_expr(f"{name}({quote(values[0], chr(34))})")
        return literal.value if isinstance(literal, Literal) else ERROR

    return wrapper


OUR_TEXTS: Final = Rules(
    functions={name.lower(): _read_as_literal(name) for name in ("absTime", "relTime")}
)
_IN_PARENTHESES: Final = re.compile(
    r"""\b(absTime|relTime)(\s*\(\s*)(\(+\s*"(?:\\.|[^"\\])*"\s*\)+)""", re.IGNORECASE
)
"""A text that is no literal to HTCondor, for the parentheses around it."""

TEXTS: Final = Rules(
    text=lambda text: _IN_PARENTHESES.sub(r"\1\2strcat\3", text),
    tree=_unread,
    functions={"abstime": _text_stays, "reltime": _text_is_nothing},
)

# --- the way C writes times -----------------------------------------------------------------------


class _Time(ctypes.Structure):
    """C's ``struct tm``."""

    _fields_ = (
        *[(f"tm_{name}", ctypes.c_int) for name in
          ("sec", "min", "hour", "mday", "mon", "year", "wday", "yday", "isdst")],
        ("tm_gmtoff", ctypes.c_long),
        ("tm_zone", ctypes.c_char_p),
    )  # fmt: skip


_PARTS: Final = ("Seconds", "Minutes", "Hours", "Day", "Month", "Year")


def formatted(parts: Mapping[str, int], form: str) -> str:
    """The parts of a time as C writes them, whether there is such a time or not."""
    time = _Time()
    time.tm_sec, time.tm_min, time.tm_hour, time.tm_mday = (
        parts.get(name, 0) for name in _PARTS[:4]
    )
    time.tm_mon, time.tm_year = parts.get("Month", 1) - 1, parts.get("Year", 1900) - 1900
    time.tm_wday, time.tm_yday = _day_numbers(time.tm_year + 1900, time.tm_mon + 1, time.tm_mday)
    buffer = ctypes.create_string_buffer(1024)
    if not form:
        return ""
    length = ctypes.CDLL(None).strftime(buffer, 1024, form.encode(), ctypes.byref(time))
    return buffer.raw[:length].decode()


def _day_numbers(year: int, month: int, day: int) -> tuple[int, int]:
    """The day of the week and of the year as HTCondor counts them, of days that are none too."""
    fixed = _fixed_day(year, month, day)
    return fixed % 7, fixed - _fixed_day(year, 1, 1)


def _fixed_day(year: int, month: int, day: int) -> int:
    past = year - 1
    leap = year % 4 == 0 and year % 400 not in (100, 200, 300)
    late = 0 if month <= 2 else -1 if leap else -2
    fixed = 365 * past + past // 4 - past // 100 + past // 400 + day + late
    return fixed + math.floor((367 * month - 362) / 12)


# --- calls that HTCondor gives up everything for --------------------------------------------------


def _refused(inner: Wrapper, node: Call, state: Any, ad: ClassAd | None) -> Any:
    name, count = node.function.lower(), len(node.arguments)
    if name == "userhome" and count not in (1, 2):
        raise NoValueError(REFUSED)
    if name == "abstime" and count == 2:
        time, offset = (state.table[type(item)](item, state, ad) for item in node.arguments)
        if is_integer(time) and _whole_seconds(offset) == -1:
            raise NoValueError(REFUSED)
    return inner(node, state, ad)


def _whole_seconds(offset: Any) -> int | None:
    if isinstance(offset, timedelta):
        return int(offset / timedelta(seconds=1))
    return int(offset) if is_integer(offset) or (is_real(offset) and abs(offset) < 9) else None


def _with_errors(inner: Wrapper, node: ListExpr, state: Any, ad: ClassAd | None) -> Any:
    """A list, each element of which is evaluated by itself, so that it alone can be given up."""
    try:
        return inner(node, state, ad)
    except NoValueError:
        return [_or_error(item, state, ad) for item in node.items]


def _or_error(item: Expr, state: Any, ad: ClassAd | None) -> Any:
    try:
        return state.table[type(item)](item, state, ad)
    except NoValueError:
        return ERROR


REFUSALS: Final = Rules(nodes={Call: _refused, ListExpr: _with_errors})
