"""Read jobs of HTCondor's submit descriptions as ads that a broker matches to queues of a grid.

A description names the program, requests, ``requirements`` and ``rank``, and ends with ``queue``.
The ad has only the description's own values: the conditions on machines of a pool, which
condor_submit adds for other universes than ``grid``, are left out. Conditions, ``include``, ``use``
and several different jobs are refused, with their place: condor_submit itself reads them. (HTCondor
manual, "Submit Description File Commands".)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from matchmaker.classad import ClassAd, ParseError, Value, parse_ads
from matchmaker.classad.errors import printable, shorten

QUEUE: Final = re.compile(r"(?im)^[ \t]*queue(?:[ \t]+(?P<rest>[^\s=][^\n]*))?[ \t]*$")
"""The line with which a description ends."""
_ASSIGNMENT: Final = re.compile(
    r"\s*(?P<name>(?:\+|MY\.)?[A-Za-z_][\w.]*)\s*=(?P<value>.*)", re.IGNORECASE
)
_FURTHER: Final = re.compile(
    r"\s*(?:if|elif|else|endif|include|use|warning|error)\b", re.IGNORECASE
)
# A doubled dollar is left to the machine that runs the job.
_MACRO: Final = re.compile(r"(?<!\$)\$(?P<function>\w*)\((?P<name>[^()]*)\)")
# With nine digits any unit fits the 64 bits of an integer.
_SIZE: Final = re.compile(
    r"\s*(?P<number>\d{1,9}(?:\.\d{1,9})?)\s*(?P<unit>[KMGT])B?\s*", re.IGNORECASE | re.ASCII
)
_WAY: Final = "condor_submit -dry-run JOB.ad FILE writes the ad of its job"

_LONGEST, _DEEPEST = 100_000, 20
"""Characters that macros put into a value in all, and how deep they may name each other."""
_ENDLESS: Final = "a macro that names itself, or grows too large,"

_EXPRESSIONS: Final[Mapping[str, str]] = {
    "request_cpus": "RequestCpus",
    "request_gpus": "RequestGPUs",
    "request_memory": "RequestMemory",
    "request_disk": "RequestDisk",
    "requirements": "Requirements",
    "rank": "Rank",
    "priority": "JobPrio",
}
_TEXTS: Final[Mapping[str, str]] = {
    "executable": "Cmd",
    "accounting_group": "AcctGroup",
    "grid_resource": "GridResource",
}
_UNITS: Final[Mapping[str, int]] = {"request_memory": 1 << 20, "request_disk": 1 << 10}
"""The bytes of one, of numbers without a unit."""


def is_submit_file(text: str) -> bool:
    r"""Tell whether a text is a submit description: a line says ``queue``, and it is not an ad.

    >>> is_submit_file("executable = a\nqueue 3\n"), is_submit_file("[ queue = 3 ]")
    (True, False)
    """
    return QUEUE.search(text) is not None and not text.lstrip().startswith(("[", "{", "<"))


def read_submit_file(text: str) -> ClassAd:
    r"""Make the ad of the job of a submit description.

    Args:
        text: the description, up to its first ``queue``.

    Returns:
        Its requests (memory in MB, disk in KB), ``Requirements``, ``Rank``, ``Cmd``, and each
        attribute that is set by ``+Name`` or ``MY.Name``.

    Raises:
        ParseError: a line cannot be read, or needs condor_submit itself.

    >>> text = '''executable = sim
    ... memory = 12
    ... request_memory = $(memory) GB
    ... +VirtualOrganisation = "atlas"
    ... requirements = other.GlueCEInfoTotalCPUs > 8
    ... queue 5'''
    >>> job = read_submit_file(text)
    >>> job["RequestMemory"], job["VirtualOrganisation"], str(job["Requirements"])
    (12288, 'atlas', 'other.GlueCEInfoTotalCPUs > 8')
    """
    said: dict[str, tuple[str, str, int]] = {}
    for number, line in _lines(text):
        if (found := QUEUE.fullmatch(line)) is not None:
            rest = (found["rest"] or "1").strip()
            if not rest.isdecimal():
                raise _refused(line, number, "a queue statement of several different jobs")
            break
        match = _ASSIGNMENT.fullmatch(line)
        if match is None:
            what = "a condition or an inclusion" if _FURTHER.match(line) else "not a command"
            raise _refused(line, number, what)
        said[match["name"].lower()] = match["name"], match["value"].strip(), number
    macros = {name: value for name, (_, value, _) in said.items()}
    ad = ClassAd()
    for name, (spelled, value, number) in said.items():
        if name[0] == "+" or name.startswith("my."):
            attribute = spelled[1:] if name[0] == "+" else spelled[3:]
        else:
            attribute = _EXPRESSIONS.get(name) or _TEXTS.get(name, "")
        if not attribute or not value:
            continue
        expanded = _expanded(value, macros, number)
        if name in _TEXTS:
            ad[attribute] = expanded
        elif name in _UNITS and (size := _SIZE.fullmatch(expanded)):
            ad[attribute] = _size(size, _UNITS[name])
        else:
            ad[attribute] = _expression(attribute, expanded, number)
    return ad


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers: without comments, those that go on in one."""
    whole, first = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if not whole:
            first = number
            if not line.strip() or line.lstrip().startswith("#"):
                continue
        elif line.lstrip().startswith("#"):
            continue
        if line.rstrip().endswith("\\"):
            whole += line.rstrip()[:-1]
            continue
        yield first, whole + line.rstrip("\r")
        whole = ""
    if whole:
        yield first, whole


def _expanded(value: str, macros: Mapping[str, str], number: int) -> str:
    """Return a value with its macros replaced; the longest text bounds what they may grow to."""
    grown = 0

    def replaced(match: re.Match[str]) -> str:
        nonlocal grown
        name, colon, default = match["name"].partition(":")
        if match["function"] or (name.strip().lower() not in macros and not colon):
            raise _refused(value, number, f"the macro {printable(shorten(match[0], 40))}")
        found = macros.get(name.strip().lower(), default)
        grown += len(found)
        if grown > _LONGEST:
            raise _refused("", number, _ENDLESS)
        return found

    for _ in range(_DEEPEST):
        made = _MACRO.sub(replaced, value)
        if made == value:
            return made
        value = made
    raise _refused("", number, _ENDLESS)


def _size(found: re.Match[str], unit: int) -> int:
    given = float(found["number"]) * (1 << 10 * (1 + "KMGT".index(found["unit"].upper())))
    return int(-(-given // unit))


def _expression(attribute: str, text: str, number: int) -> Value:
    try:
        [ad] = parse_ads(f"{attribute} = {text}\n", "old")
    except (ParseError, ValueError) as error:
        message = error.message if isinstance(error, ParseError) else "not one expression"
        raise ParseError(f"{attribute}: {message}", text=text, line=number) from None
    held: Value = ad[attribute]  # type: ignore[assignment] # an expression is set as it is
    return held


def _refused(line: str, number: int, what: str) -> ParseError:
    return ParseError(f"{what} in a submit description", text=line, line=number, hint=_WAY)
