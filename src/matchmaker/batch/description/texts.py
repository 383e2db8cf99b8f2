"""The output of a batch system's command: numbers, lists and forms, and notes on lines left out.

Sizes, times and numbers are read as batch systems write them; an unlimited or unreadable one is
None. JSON and XML are read within bounds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from matchmaker._diagnostics import WARNING, Diagnostic
from matchmaker._limits import BATCH_LIMITS as LIMITS

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


UNLIMITED: Final = 999_999_999
"""A limit that does not bind, as GLUE writes it."""

# Slurm prints UNLIMITED, Grid Engine INFINITY, PBS -1.
_NO_LIMIT: Final = frozenset({"unlimited", "infinite", "infinity", "-1"})
_PLATFORMS: Final = {
    "x86_64": "x86_64", "amd64": "x86_64", "x64": "x86_64", "em64t": "x86_64",
    "i686": "i686", "i586": "i686", "i386": "i686", "x86": "i686", "86": "i686", "intel": "i686",
    "aarch64": "aarch64", "arm64": "aarch64", "armv7l": "armv7l", "ppc64": "ppc64",
    "ppc64le": "ppc64le", "ia64": "ia64", "s390x": "s390x", "riscv64": "riscv64",
}  # fmt: skip
"""Architectures by what batch systems call them, without the system that may stand before."""
# `lx-amd64` of Grid Engine, `LINUX86` of LSF: the system stands before the architecture.
_SYSTEM: Final = re.compile(r"(?:(lx)\d*[-_]?|(linux|nt|sol|darwin)[-_]?)(?=.)", re.IGNORECASE)
_SYSTEMS: Final = {"lx": "linux", "nt": "windows", "sol": "solaris"}

# `8009628kb` of PBS, `7.5G` of Grid Engine, `4000M`, `16GiB`, and words (w) of PBS.
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtpe]?)i?([bw]?)", re.IGNORECASE)
_POWERS: Final = {letter: power for power, letter in enumerate(("", "k", "m", "g", "t", "p", "e"))}
_WORD: Final = 8
"""Bytes of what PBS calls a word."""

# Days, hours, minutes, seconds; a fraction of a second is cut off.
_TIME: Final = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?(?:\.\d*)?")
# More digits do not fit 64 bits, and cost time to convert.
_MOST_DIGITS: Final = 18
_LARGEST: Final = 1e15
"""Larger numbers are taken for unknown, so that no sum or product overflows."""


def whole(text: str | None) -> int | None:
    """Read a whole number.

    >>> whole("12"), whole("-1"), whole("N/A"), whole("1" * 30)
    (12, -1, None, None)
    """
    if text is None or not re.fullmatch(r"-?\d+", text, re.ASCII) or len(text) > _MOST_DIGITS:
        return None
    number = int(text)
    return number if abs(number) < _LARGEST else None


def count(text: str | None) -> int | None:
    """Read a whole number from 0.

    >>> count("12"), count("-4"), count("abc")
    (12, None, None)
    """
    number = whole(text)
    return None if number is None or number < 0 else number


def real(text: str | None) -> float | None:
    """Read a finite number that is not too large.

    >>> real("0.25"), real("nan"), real("1e300")
    (0.25, None, None)
    """
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if abs(number) < _LARGEST else None


def megabytes(text: str | None, unit: str = "b") -> int | None:
    """Read a size in whole MiB, rounded down; ``unit`` is that of a bare number.

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
    """Read a time: ``1-02:00:00``, ``24:00:00``, ``30:00``, or a bare number of units of seconds.

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
    """Read a time limit in seconds, as `seconds` does; `UNLIMITED` for a word such as INFINITY.

    >>> limit("60", 60), limit("UNLIMITED"), limit("INFINITY"), limit("NONE"), limit(None)
    (3600, 999999999, 999999999, None, None)
    """
    return UNLIMITED if (text or "").strip().lower() in _NO_LIMIT else seconds(text, unit)


def platform(text: str | None) -> str | None:
    """Return the architecture that a text names, as ``uname -m`` does; None for an unknown one.

    An operating system alone is unknown.

    >>> platform("lx-amd64"), platform("X86_64"), platform("LINUX_ARM64"), platform("LINUX86")
    ('x86_64', 'x86_64', 'aarch64', 'i686')
    >>> platform("linux"), platform("-"), platform(None)
    (None, None, None)
    """
    return _PLATFORMS.get(_SYSTEM.sub("", text.strip(), count=1).lower()) if text else None


def operating_system(text: str | None) -> str | None:
    """Return the operating system in front of an architecture, if there is one.

    >>> operating_system("lx-amd64"), operating_system("LINUX86"), operating_system("X86_64")
    ('linux', 'linux', None)
    """
    found = _SYSTEM.match(text.strip()) if text and platform(text) else None
    name = (found[1] or found[2]).lower() if found else None
    return _SYSTEMS.get(name, name) if name else None


def first(facts: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """Return the fact of the first of some names that has one.

    >>> first({"cpus": "4", "CPUTot": "8"}, ("CPUEfctv", "CPUTot", "cpus")), first({}, ("x",))
    ('8', None)
    """
    return next((facts[name] for name in names if name in facts), None)


def words(text: str | None, separator: str = ",") -> tuple[str, ...]:
    """Split a list, without empty parts; a word such as ``NONE`` is an empty list.

    >>> words("el8,si600"), words("(null)"), words(None)
    (('el8', 'si600'), (), ())
    """
    if text is None or text in ("(null)", "NONE", "-"):
        return ()
    return tuple(part.strip() for part in text.split(separator) if part.strip())


def less(total: int | None, used: int | None) -> int | None:
    """Return the unused part of a number, at least 0; None if either number is unknown.

    >>> less(8, 2), less(8, 9), less(8, None), less(None, 2)
    (6, 0, None, None)
    """
    return None if total is None or used is None else max(0, total - used)


_MOST: Final = 7
"""Parts of a name between and in brackets, of which Slurm takes two pairs, or three."""
# A comma within brackets belongs to a name: `n[1,3]`.
_TERM: Final = re.compile(r"(?:[^\s,\[\]]|\[[^\[\]]*\])+")
_RANGE: Final = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)


def terms(hosts: str) -> list[str]:
    """Split a list of hosts at commas and blanks.

    >>> terms("n[1-3,07]x, login")
    ['n[1-3,07]x', 'login']
    """
    return _TERM.findall(hosts)


def has(hosts: str | None, name: str) -> bool:
    """Tell whether a list of hosts, ``n[1-3,07],login``, has a name.

    >>> [has("n[1-3,07]x,login", name) for name in ("n2x", "n07x", "n7x", "login", "n2")]
    [True, True, False, True, False]
    """
    return any(_is(term, name) for term in terms(hosts or ""))


def _is(term: str, name: str) -> bool:
    parts = re.split(r"\[([^\]]*)\]", term)
    if len(parts) > _MOST:
        return False
    pattern = r"(\d{1,18})".join(re.escape(part) for part in parts[::2])
    found = re.fullmatch(pattern, name, re.ASCII)
    return found is not None and all(map(_in_ranges, parts[1::2], found.groups()))


def _in_ranges(ranges: str, number: str) -> bool:
    for low, high in _RANGE.findall(ranges):
        written = str(int(number)).zfill(len(low)) if low.startswith("0") else str(int(number))
        if number == written and int(low) <= int(number) <= int(high or low):
            return True
    return False


_Value = TypeVar("_Value")

_UNSET: Final = frozenset({"", "-", "(null)", "n/a", "n/s", "none", "null", "unknown"})
"""Texts that batch systems print for an unknown value."""

LINE: Final = "describe.line"
"""The rule of lines that are left out."""

# A name alone on its line begins a block; brackets are of a vnode, `n1[0]`.
_HEAD: Final = re.compile(r"(?:Queue: *)?[\w.:-]+(?:\[[\w.,-]+\])?\s*")
_FACT: Final = re.compile(r"[\w.:-]+")


class DescriptionError(ValueError):
    """A batch system that cannot be asked, or output that cannot be read; the message is why."""


@attrs.frozen(slots=True)
class OutputFormat:
    """An output that a reader was tested with.

    Attributes:
        output: the command, or the contents of the output.
        versions: those of the batch system, or of the form, whose shapes are among the tests.
        running: those of them that the tests take from a daemon.
    """

    output: str
    versions: tuple[str, ...]
    running: tuple[str, ...] = attrs.field(default=(), kw_only=True)


@attrs.frozen(slots=True)
class _UnreadValues:
    """Values of one name that cannot be read: their finding, and the records that have them."""

    index: int
    message: str
    places: set[str]


@attrs.frozen(slots=True)
class Output:
    """The output of a command, the name of its file or command, and findings on parts left out."""

    content: str
    source: str
    skipped: list[Diagnostic] = attrs.Factory(list)
    _unread: dict[str, _UnreadValues] = attrs.Factory(dict)

    def skip(self, line: str, expected: str) -> None:
        """Note a line that is left out."""
        message = f"expected {expected}, left out {line.strip()[:80]!r}"
        self.skipped.append(Diagnostic(LINE, message, source=self.source))

    def note(self, message: str, severity: str = WARNING) -> None:
        """Note a fault of the output for an administrator, or a surprising fact (NOTE)."""
        found = Diagnostic("describe.output", message, source=self.source, severity=severity)
        self.skipped.append(found)

    def note_value(self, place: str, name: str, value: str, expected: str) -> None:
        """Note a value that cannot be read: the first of a name, and the number of others."""
        if name not in self._unread:
            said = f"{place}: {name}={value[:80]!r}: expected {expected}; it counts as unknown"
            self._unread[name] = _UnreadValues(len(self.skipped), said, {place})
            found = Diagnostic("describe.value", said, source=self.source)
            self.skipped.append(attrs.evolve(found, attribute=name, raw=value[:80]))
            return
        known = self._unread[name]
        known.places.add(place)  # a value may be read twice
        many = len(known.places)
        said = known.message if many == 1 else f"{known.message}; such values: {many}"
        found = self.skipped[known.index]
        self.skipped[known.index] = attrs.evolve(found, message=said, count=many)

    def check_end(self, kind: str, records: Mapping[str, Collection[str]], least: int = 3) -> None:
        """Note that the output is cut, if its last record lacks a fact that all others have.

        An output that ends with a line is whole; fewer records than ``least`` prove nothing.
        """
        if self.content.endswith("\n") or len(records) < least:
            return
        *others, last = records.values()
        place = f"{kind} {[*records][-1]}"
        common = [name for name in others[0] if all(name in other for other in others)]
        lost = next((name for name in common if name not in last), None)
        if lost is not None:
            self.note(f"the output ends within {place}: {lost} was expected, as the others have it")

    def error(self, why: str) -> DescriptionError:
        """Make the error for an output that cannot be read."""
        return DescriptionError(f"{self.source}: {why}")


@attrs.frozen(slots=True)
class FactReader:
    """Read the facts of a node or queue; note, with its place, a value that cannot be read."""

    place: str
    facts: Mapping[str, str]
    text: Output

    def value(
        self,
        names: Iterable[str],
        read: Callable[[str], _Value | None],
        expected: str,
        unset: Collection[str] = (),
    ) -> _Value | None:
        """Read the fact of the first of some names that has one; ``unset`` are words for none."""
        name = next((each for each in names if each in self.facts), None)
        if name is None:
            return None
        said = self.facts[name]
        found = read(said)
        if found is None and said.strip().lower() not in _UNSET and said not in unset:
            self.text.note_value(self.place, name, said, expected)
        return found

    def number(self, *names: str, unset: Collection[str] = ()) -> int | None:
        """Read a whole number."""
        return self.value(names, count, "a whole number from 0", unset)

    def size(self, *names: str, unit: str = "b") -> int | None:
        """Read a size, in megabytes."""
        return self.value(names, lambda said: megabytes(said, unit), "a size such as 16gb")

    def load(self, *names: str) -> float | None:
        """Read a load."""
        return self.value(names, real, "a number")

    def time(self, *names: str, unit: int = 1) -> int | None:
        """Read a limit on time, in seconds."""
        return self.value(names, lambda said: limit(said, unit), "a time such as 24:00:00")


@attrs.frozen(slots=True)
class FactBlock:
    """The facts below a head, and the lines that may be of another block or of a lost fact."""

    head: str
    facts: dict[str, str] = attrs.Factory(dict)
    damage: list[str] = attrs.Factory(list)


def blocks(text: Output) -> list[FactBlock]:
    r"""Split output into blocks of ``name = value`` below a head, as PBS and Torque print them.

    A tab begins a line that continues a value. Any other line is left out and noted. It damages its
    block, as does a name that comes again (the first one counts), a line with two facts, and one
    whose name is not a word.

    >>> blocks(Output("Queue: q\n  a = 1,\n\t2\nn1\n  b = 2\n  b = 3", "x"))
    [FactBlock(head='Queue: q', facts={'a': '1,2'}, damage=[]),
     FactBlock(head='n1', facts={'b': '2'}, damage=['b = 3'])]
    """
    found: list[FactBlock] = []
    name = ""
    parts: list[str] = []  # of the last value

    def end() -> None:
        if name:
            found[-1].facts.setdefault(name, "".join(parts))

    for line in text.content.split("\n"):
        if _HEAD.fullmatch(line):
            end()
            found.append(FactBlock(line.strip()))
            name = ""
        elif line.startswith("\t") and name:
            parts.append(line.strip())
        elif " = " in line and found:
            end()
            name, _, value = (part.strip() for part in line.partition(" = "))
            if name in found[-1].facts or " = " in value or not _FACT.fullmatch(name):
                found[-1].damage.append(line.strip())
            parts = [value]
        elif line.strip():
            if found:
                found[-1].damage.append(line.strip())
            text.skip(line, "NAME = VALUE, or the name of a node or queue")
    end()
    return found


# Full disks and broken pipes cut outputs, which then look like damaged ones.
_CUT: Final = "; it ends too early: is the output cut?"
_EARLY_ENDS: Final = (3, 5)
"""XML_ERROR_NO_ELEMENTS and XML_ERROR_UNCLOSED_TOKEN of expat."""


def as_object(text: Output) -> dict[str, Any]:
    """Read an output as a JSON object; raise DescriptionError for anything else.

    >>> as_object(Output('{"a": 1}', "x"))
    {'a': 1}
    """
    data = as_json(text)
    if not isinstance(data, dict):
        raise text.error("a JSON object was expected")
    return data


def as_json(text: Output, constant: Callable[[str], Any] = str) -> Any:
    """Read an output as JSON; raise DescriptionError for anything else.

    Also for an object with two different values of one name: either may be a restriction.
    ``constant`` replaces ``NaN`` and ``Infinity``, which JSON lacks; as texts, they are noted as
    unreadable numbers.

    >>> as_json(Output('{"a": 1, "b": 2, "a": 1}', "x"))
    {'a': 1, 'b': 2}
    >>> as_json(Output('{"a": 1, "b": 2, "a": 3}', "x"))
    Traceback (most recent call last):
    ...
    matchmaker.batch.description.texts.DescriptionError: x: 'a' has two values in one object
    """

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if found.setdefault(name, value) != value:
                raise text.error(f"{name[:80]!r} has two values in one object")
        return found

    try:
        return json.loads(text.content, parse_constant=constant, object_pairs_hook=fields)
    except DescriptionError:
        raise
    except ValueError as error:
        content = text.content.rstrip()
        cut = getattr(error, "pos", 0) >= len(content) or not content.endswith(("}", "]"))
        raise text.error(f"not JSON: {error}{_CUT if cut else ''}") from None
    except RecursionError:
        raise text.error("the JSON nests too deep") from None


def listed(text: Output, data: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in the list of a name, which may be missing; note other things."""
    found = data.get(name, [])
    if isinstance(found, dict):
        found = found.get(name, [])
    if not isinstance(found, list):
        raise text.error(f"{name} should be a list")
    for entry in found:
        if isinstance(entry, dict):
            yield entry
        else:
            text.skip(str(entry), f"an object in {name}")


def flat(entry: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Flatten a JSON object to names and texts; a name within another is ``outer.inner``.

    A number of Slurm, ``{"set": true, "infinite": false, "number": 7}``, is its text, or left out
    if it is not set. Different values of one name stand together, so that neither is believed.

    >>> flat({"a": 1, "b": {"c": True}, "d": ["x", "y"], "e": None})
    {'a': '1', 'b.c': 'true', 'd': 'x,y'}
    >>> flat({"a.b": "x", "a": {"b": "y"}})
    {'a.b': 'x=y'}
    >>> flat({"a": {"set": False, "infinite": True, "number": 0}, "b": {"set": False, "number": 0}})
    {'a': 'UNLIMITED'}
    """
    found: dict[str, str] = {}
    for name, outer in entry.items():
        value = _number(outer) if isinstance(outer, dict) and "set" in outer else outer
        if isinstance(value, dict):
            if prefix.count(".") < LIMITS.depth and len(prefix) + len(name) < LIMITS.name:
                join(found, flat(value, f"{prefix}{name}."))
        elif value is not None:
            join(found, {f"{prefix}{name}": _plain(value)})
    return found


def join(found: dict[str, str], more: Mapping[str, str]) -> None:
    """Add facts to others; different values of one name stand together, unlike any list."""
    for name, value in more.items():
        known = found.setdefault(name, value)
        # A length that is enough: text that repeats a name must not grow a value without end.
        if known != value and ("=" not in known or len(known) < LIMITS.name):
            found[name] += f"={value}"


def _number(value: Mapping[str, Any]) -> Any:
    if not value.keys() <= {"set", "infinite", "number"}:
        return value
    return "UNLIMITED" if value.get("infinite") else value.get("number") if value["set"] else None


_EXACT: Final = 1 << 53
"""Whole numbers below it are exact as floats, which some batch systems print: ``1.6e+07``."""


def _plain(value: Any, depth: int = 0) -> str:
    if value is None:
        return "(null)"  # as Slurm and LSF write it; no name of a list
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        value = int(value)
    if isinstance(value, list):
        return ",".join(_plain(one, depth + 1) for one in value) if depth < LIMITS.depth else "..."
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_xml(text: Output) -> Element:
    """Read an output as XML, and return its root; raise DescriptionError for anything else.

    A document type is refused, and with it every entity that could swell or fetch.
    """
    from xml.etree.ElementTree import ParseError, fromstring

    if "<!DOCTYPE" in text.content:
        raise text.error("a document type is not read")
    try:
        # Without a document type there are no entities.
        return fromstring(text.content)  # noqa: S314
    except ParseError as error:
        raise text.error(f"not XML: {error}{_CUT if error.code in _EARLY_ENDS else ''}") from None
    except UnicodeEncodeError as error:
        raise text.error(f"not XML: {error}") from None
