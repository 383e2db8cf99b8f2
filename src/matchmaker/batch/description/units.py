"""Reads sizes, times and numbers as batch systems write them; None for unlimited or unreadable."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

UNLIMITED: Final = 999_999_999
"""A limit that does not bind, as GLUE writes it."""

_NO_LIMIT: Final = frozenset({"unlimited", "infinite", "infinity", "-1"})
_PLATFORMS: Final = {
    "x86_64": "x86_64", "amd64": "x86_64", "x64": "x86_64", "em64t": "x86_64",
    "i686": "i686", "i586": "i686", "i386": "i686", "x86": "i686", "86": "i686", "intel": "i686",
    "aarch64": "aarch64", "arm64": "aarch64", "armv7l": "armv7l", "ppc64": "ppc64",
    "ppc64le": "ppc64le", "ia64": "ia64", "s390x": "s390x", "riscv64": "riscv64",
}  # fmt: skip
"""Architectures by what batch systems call them, without the system that may stand before."""
_SYSTEM: Final = re.compile(r"(?:(lx)\d*[-_]?|(linux|nt|sol|darwin)[-_]?)(?=.)", re.IGNORECASE)
_SYSTEMS: Final = {"lx": "linux", "nt": "windows", "sol": "solaris"}

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtpe]?)i?([bw]?)", re.IGNORECASE)
_POWERS: Final = {letter: power for power, letter in enumerate(("", "k", "m", "g", "t", "p", "e"))}
_WORD: Final = 8
"""Bytes of what PBS calls a word."""

_TIME: Final = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?(?:\.\d*)?")
_MOST_DIGITS: Final = 18
_LARGEST: Final = 1e15
"""Larger numbers are taken for unknown, so that no sum or product overflows."""


def whole(text: str | None) -> int | None:
    """A whole number.

    >>> whole("12"), whole("-1"), whole("N/A"), whole("1" * 30)
    (12, -1, None, None)
    """
    if text is None or not re.fullmatch(r"-?\d+", text, re.ASCII) or len(text) > _MOST_DIGITS:
        return None
    number = int(text)
    return number if abs(number) < _LARGEST else None


def count(text: str | None) -> int | None:
    """A whole number from 0.

    >>> count("12"), count("-4"), count("abc")
    (12, None, None)
    """
    number = whole(text)
    return None if number is None or number < 0 else number


def real(text: str | None) -> float | None:
    """A finite number that is not too large.

    >>> real("0.25"), real("nan"), real("1e300")
    (0.25, None, None)
    """
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if abs(number) < _LARGEST else None


def megabytes(text: str | None, unit: str = "b") -> int | None:
    """A size in whole megabytes of 2**20 bytes, rounded down; ``unit`` is that of a bare number.

    >>> megabytes("8009628kb"), megabytes("7.5G"), megabytes("4000", "m"), megabytes("-")
    (7821, 7680, 4000, None)
    """
    found = _SIZE.fullmatch(text.strip()) if text else None
    if found is None or len(found[1]) > _MOST_DIGITS:
        return None
    letter = found[2].lower() if found[2] or found[3] else unit.rstrip("b")
    size = float(found[1]) * 1024.0 ** _POWERS[letter] * (_WORD if found[3].lower() == "w" else 1)
    return int(size / 1024**2) if size / 1024**2 < _LARGEST else None


def seconds(text: str | None, unit: int = 1) -> int | None:
    """A time limit: ``1-02:00:00``, ``24:00:00``, ``30:00``, or a bare number of units of seconds.

    Two parts without days are minutes and seconds; with days, hours and minutes (Slurm).

    >>> seconds("1-02:00:00"), seconds("24:00:00"), seconds("30:00"), seconds("90", 60)
    (93600, 86400, 1800, 5400)
    >>> seconds("1-12"), seconds("UNLIMITED"), seconds("INFINITY")
    (129600, None, None)
    """
    found = _TIME.fullmatch(text.strip()) if text else None
    if found is None or any(part and len(part) > _MOST_DIGITS // 2 for part in found.groups()):
        return None
    days, *parts = (None if part is None else int(part) for part in found.groups())
    given = [part for part in parts if part is not None]
    if days is not None:
        hours, minutes, rest = (*given, 0, 0)[:3]
        return ((days * 24 + hours) * 60 + minutes) * 60 + rest
    if len(given) == 1:
        return given[0] * unit
    hours, minutes, rest = given if len(given) == 3 else (0, *given)
    return (hours * 60 + minutes) * 60 + rest


def limit(text: str | None, unit: int = 1) -> int | None:
    """A time limit in seconds, as `seconds` reads it; `UNLIMITED` for a word that says so.

    >>> limit("60", 60), limit("UNLIMITED"), limit("INFINITY"), limit("NONE"), limit(None)
    (3600, 999999999, 999999999, None, None)
    """
    return UNLIMITED if (text or "").strip().lower() in _NO_LIMIT else seconds(text, unit)


def platform(text: str | None) -> str | None:
    """The architecture that a text names, as ``uname -m`` does; None for one that is not known.

    An operating system alone is no architecture.

    >>> platform("lx-amd64"), platform("X86_64"), platform("LINUX_ARM64"), platform("LINUX86")
    ('x86_64', 'x86_64', 'aarch64', 'i686')
    >>> platform("linux"), platform("-"), platform(None)
    (None, None, None)
    """
    return _PLATFORMS.get(_SYSTEM.sub("", text.strip(), count=1).lower()) if text else None


def operating_system(text: str | None) -> str | None:
    """The operating system that stands before an architecture; None where none does.

    >>> operating_system("lx-amd64"), operating_system("LINUX86"), operating_system("X86_64")
    ('linux', 'linux', None)
    """
    found = _SYSTEM.match(text.strip()) if text and platform(text) else None
    name = (found[1] or found[2]).lower() if found else None
    return _SYSTEMS.get(name, name) if name else None


def first(facts: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """The fact of the first of some names that has one.

    >>> first({"cpus": "4", "CPUTot": "8"}, ("CPUEfctv", "CPUTot", "cpus")), first({}, ("x",))
    ('8', None)
    """
    return next((facts[name] for name in names if name in facts), None)


def words(text: str | None, separator: str = ",") -> tuple[str, ...]:
    """The parts of a list, without empty ones; none for a word such as ``NONE``.

    >>> words("el8,si600"), words("(null)"), words(None)
    (('el8', 'si600'), (), ())
    """
    if text is None or text in ("(null)", "NONE", "-"):
        return ()
    return tuple(part.strip() for part in text.split(separator) if part.strip())


def less(total: int | None, used: int | None) -> int | None:
    """The unused part of a number, at least 0; None if either number is unknown.

    >>> less(8, 2), less(8, 9), less(8, None), less(None, 2)
    (6, 0, None, None)
    """
    return None if total is None or used is None else max(0, total - used)
