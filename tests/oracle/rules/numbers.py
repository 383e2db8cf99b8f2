"""HTCondor's arithmetic where it is not ours: shifts, powers, what does not fit, 32 bits.

Each set of rules stands beside the other words for what we do, from which a defect of ours would
differ.
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from typing import Any, Final

from matchmaker import ClassAd
from matchmaker.classad.functions import conversions
from matchmaker.classad.nodes import Literal
from matchmaker.classad.values import ERROR, MAX_INT, MIN_INT
from tests.oracle.emulation import Rules, Wrapper


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_real(value: Any) -> bool:
    return isinstance(value, float)


def _integers(rule: Wrapper) -> Wrapper:
    """A rule that holds for two integers; anything else is done as ever."""

    def wrapper(inner: Wrapper, left: Any, right: Any) -> Any:
        if is_integer(left) and is_integer(right):
            return rule(left, right)
        return inner(left, right)

    return wrapper


# --- shifts: bit by bit, with the sign put back in; the machine takes places modulo 64 ------------


def _shift(left: int, right: int) -> int:
    if left >= 0:
        return left >> right % 64
    return left >> min(64, right) if right > 0 else left


def _unsigned_shift(left: int, right: int) -> int:
    if left >= 0:
        return left >> right % 64
    return (left // 2 % 2**63) >> (right - 1) % 64


def _unsigned_shift_of_ours(left: int, right: int) -> int:
    shifted = left % 2**64 // (1 << right % 64)
    return shifted if shifted < 2**63 else shifted - 2**64


SHIFTS: Final = Rules(operators={">>": _integers(_shift), ">>>": _integers(_unsigned_shift)})
OUR_SHIFTS: Final = Rules(
    operators={
        ">>": _integers(lambda left, right: left // (1 << right % 64)),
        ">>>": _integers(_unsigned_shift_of_ours),
    }
)

# --- powers: by way of a real, and one half added -------------------------------------------------


def cast_of_64(number: float) -> int:
    """What the machine makes of a real that is wanted as an integer of 64 bits."""
    return int(number) if -(2.0**63) <= number < 2.0**63 else MIN_INT


def _power(inner: Wrapper, base: Any, exponent: Any) -> Any:
    if not (is_integer(base) and is_integer(exponent) and exponent >= 0):
        return inner(base, exponent)
    try:
        return cast_of_64(math.pow(base, exponent) + 0.5)
    except OverflowError:
        return MIN_INT


def _power_of_ours(inner: Wrapper, base: Any, exponent: Any) -> Any:
    if not (is_integer(base) and is_integer(exponent) and exponent >= 0):
        return inner(base, exponent)
    power = 1
    for _ in range(exponent if abs(base) > 1 else exponent % 2 + 2 * bool(exponent)):
        power *= base
        # Further on only the sign can change, and the last factor decides it.
        if abs(power) > 2**63:
            return MIN_INT if base < 0 and exponent % 2 else MAX_INT
    return max(MIN_INT, min(MAX_INT, power))


POWERS: Final = Rules(functions={"pow": _power})
OUR_POWERS: Final = Rules(functions={"pow": _power_of_ours})

# --- saturation -----------------------------------------------------------------------------------

_SATURATED: Final = tuple(
    f"matchmaker.classad.functions.{module}:saturated" for module in ("conversions", "times")
)


def _nearest(number: float) -> int:
    if number != number:  # noqa: PLR0124 - NaN
        return 0
    return int(min(max(number, MIN_INT), MAX_INT))


SATURATION: Final = Rules(
    places=dict.fromkeys(_SATURATED, lambda inner, number: cast_of_64(number))
)
OUR_SATURATION: Final = Rules(
    places=dict.fromkeys(_SATURATED, lambda inner, number: _nearest(number))
)

# --- 32 bits --------------------------------------------------------------------------------------


def wrapped(number: int) -> int:
    """An integer of which all but 32 bits are dropped."""
    return (number + 2**31) % 2**32 - 2**31


def cast(number: float) -> int:
    """What the machine makes of a real that is wanted as an integer of 32 bits."""
    return int(number) if _fits(number) else -(2**31)


def _narrowed(value: Any) -> Any:
    if is_integer(value):
        return wrapped(value)
    return -(2**31) if is_real(value) and not _fits(value) else value


def _fits(number: float) -> bool:
    return -(2.0**31) - 1 < number < 2.0**31


def _narrow(*positions: int, reals: bool = True) -> Wrapper:
    """The rule of a function that takes only 32 bits of its arguments at some positions."""

    def wrapper(inner: Wrapper, *values: Any, **more: Any) -> Any:
        given = [
            _narrowed(value) if index in positions and (reals or is_integer(value)) else value
            for index, value in enumerate(values)
        ]
        return inner(*given, **more)

    return wrapper


def _narrow_time(inner: Wrapper, *values: Any) -> Any:
    if len(values) == 2 and isinstance(values[1], timedelta):
        seconds = values[1] / timedelta(seconds=1)
        values = values if _fits(seconds) else (values[0], -(2**31))
    return _narrow(0, 1)(inner, *values)


def _interval(inner: Wrapper, value: Any) -> Any:
    seconds = conversions.to_integer(value)
    return inner(value if seconds is None else wrapped(seconds))


def _format(inner: Wrapper, arguments: tuple[Any, ...], scope: Any) -> Any:
    if arguments:
        value = scope.eval(arguments[0])
        if is_real(value):
            arguments = (Literal(_narrowed(value)), *arguments[1:])
    return inner(arguments, scope)


def _subscript(inner: Wrapper, base: Any, index: Any) -> Any:
    return inner(base, wrapped(index) if isinstance(base, list) and is_integer(index) else index)


def _whole(inner: Wrapper, time: datetime | timedelta) -> Any:
    if not isinstance(time, timedelta):
        return inner(time)
    return inner(timedelta(seconds=cast(time / timedelta(seconds=1))))


def _relative_text(inner: Wrapper, seconds: int) -> Any:
    # The least integer has no negative, so that all its parts are negative.
    return "--24855+-3:-14:-8" if seconds == -(2**31) else inner(seconds)


def _split(inner: Wrapper, value: Any) -> Any:
    if isinstance(value, timedelta) and abs(value) >= timedelta(seconds=2**31):
        return parts_of_least(value / timedelta(seconds=1))
    return inner(_narrowed(value) if is_real(value) else value)


def parts_of_least(seconds: float) -> ClassAd:
    """What splitTime() gives for a time of more seconds than fit, instead of which the least is."""
    fraction = (
        math.nan if not math.isfinite(seconds) else abs(seconds) - abs(math.floor(abs(seconds)))
    )
    second = (-8 + fraction) * (-1 if seconds < 0 else 1)
    return ClassAd(Type="RelativeTime", Days=-24855, Hours=-3, Minutes=-14, Seconds=second)


def _moved(inner: Wrapper, left: Any, right: Any) -> Any:
    """An absolute time and a relative one: its seconds are cut to 32 bits, the fraction kept."""
    if isinstance(left, datetime) and isinstance(right, timedelta):
        return inner(left, _shortened(right))
    if isinstance(right, datetime) and isinstance(left, timedelta):
        return inner(_shortened(left), right)
    return inner(left, right)


def _shortened(span: timedelta) -> timedelta:
    seconds = span / timedelta(seconds=1)
    whole = int(seconds)
    return span if cast(seconds) == whole else timedelta(seconds=cast(seconds))


BITS: Final = Rules(
    operators={"+": _moved, "-": _moved},
    functions={
        "interval": _interval,
        "abstime": _narrow_time,
        "reltime": _narrow(0, reals=False),
        "splittime": _split,
        "formattime": _format,
        "substr": _narrow(1, 2, reals=False),
        "argstolist": _narrow(1, reals=False),
        "listtoargs": _narrow(1, reals=False),
    },
    places={
        "matchmaker.classad.reference:subscript": _subscript,
        "matchmaker.classad.functions.conversions:whole_seconds": _whole,
        "matchmaker.classad.functions.times:whole_seconds": _whole,
        "matchmaker.classad.functions.conversions:_relative_text": _relative_text,
    },
)


def _wide_time(inner: Wrapper, *values: Any) -> Any:
    if len(values) > 1 or not (is_integer(values[0]) or is_real(values[0])):
        return inner(*values)
    try:
        return conversions.EPOCH + timedelta(seconds=_nearest(values[0]))
    except OverflowError:
        return ERROR


def _wide_span(inner: Wrapper, value: Any) -> Any:
    if not is_integer(value):
        return inner(value)
    days, seconds = divmod(value, 86400)
    return timedelta(days, seconds) if abs(days) < 10**9 else ERROR


def _wide_interval(inner: Wrapper, value: Any) -> Any:
    seconds = conversions.to_integer(value)
    if seconds is None:
        return inner(value)
    days, clock = abs(seconds) // 86400, [abs(seconds) // unit for unit in (3600, 60, 1)]
    hours, minutes, rest = clock[0] % 24, clock[1] % 60, clock[2] % 60
    text = f"{days}+{hours:02}:{minutes:02}:{rest:02}"
    while re.match(r"0+[+:]", text):
        text = re.sub(r"^0+[+:]", "", text)
    text = re.sub(r"^0(?=\d)", "", text)
    return f"-{text}" if seconds < 0 else text


def _wide_text(inner: Wrapper, seconds: int) -> Any:
    days, rest = divmod(abs(seconds), 86400)
    text = f"{days}+{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return "-" * (seconds < 0) + re.sub(r"^0\+(?:00:)*", "", text)


def _wide_split(inner: Wrapper, value: Any) -> Any:
    if not isinstance(value, timedelta):
        return inner(_nearest(value) if is_real(value) else value)
    minutes, seconds = divmod(abs(value), timedelta(minutes=1))
    days, hours, second = minutes // 1440, minutes // 60 % 24, seconds / timedelta(seconds=1)
    parts = {"Days": days, "Hours": hours, "Minutes": minutes % 60, "Seconds": second}
    signed = next((name for name, number in parts.items() if number), "")
    if value < timedelta():
        parts[signed] *= -1
    return ClassAd({"Type": "RelativeTime"} | parts)


def _wide_format(inner: Wrapper, arguments: tuple[Any, ...], scope: Any) -> Any:
    value = scope.eval(arguments[0]) if arguments else None
    first = [Literal(_nearest(value))] if isinstance(value, float) else arguments[:1]
    return inner((*first, *arguments[1:]), scope)


def _element(inner: Wrapper, base: Any, index: Any) -> Any:
    if not isinstance(base, list) or not is_integer(index):
        return inner(base, index)
    return dict(enumerate(base)).get(index, ERROR)


OUR_BITS: Final = Rules(
    functions={
        "abstime": _wide_time, "reltime": _wide_span, "interval": _wide_interval,
        "splittime": _wide_split, "formattime": _wide_format,
    },
    places={
        "matchmaker.classad.reference:subscript": _element,
        "matchmaker.classad.functions.conversions:_relative_text": _wide_text,
    },
)  # fmt: skip
