"""The shell variables that BLAH makes of a job's requirements, read back.

A site's ``<lrms>_local_submit_attributes.sh`` can be one line::

    declare -p | classad blah-local-submit-attributes --lrms slurm
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import Final, TypeAlias

import attrs

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.classad import ClassAd
from matchmaker.classad.nodes import Attr, Binary, Call, Expr, Literal
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.walks import conjunction

_OTHER: Final = Attr(None, "other", False)

_VARIABLE: Final = re.compile(r"declare -([A-Za-z-]+) ([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_ELEMENT: Final = re.compile(r'\[([0-9]+)\]=("(?:[^"\\]|\\.)*"|\$\'(?:[^\'\\]|\\.)*\')', re.DOTALL)
_START: Final = re.compile(r"^declare -", re.MULTILINE)
# Whole numbers that bash itself has in variables without a flag.
_BASHS: Final = frozenset({
    "COLUMNS", "EPOCHREALTIME", "EPOCHSECONDS", "HISTCMD", "HISTFILESIZE", "HISTSIZE", "LINENO",
    "LINES", "OPTERR", "OPTIND", "RANDOM", "SECONDS", "SRANDOM", "TMOUT",
})  # fmt: skip
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


@attrs.frozen(slots=True)
class Unread:
    """A value with characters that no bound has, and whether it is within quotes, as texts are."""

    quoted: bool


Value: TypeAlias = str | Unread


def read_variables(text: str) -> dict[str, Value | list[Value]]:
    r"""The shell variables in what bash's ``declare -p`` prints; arrays as lists.

    A value with control characters is ``Unread``: no bound has any.
    Raises ValueError for a text that is too long.

    >>> read_variables('declare -- SI00_Min="500"\ndeclare -a L=([0]="\\"X\\"")')
    {'SI00_Min': '500', 'L': ['"X"']}
    """
    if len(text) > LIMITS.variables:
        raise ValueError(f"more than {LIMITS.variables} characters of variables")
    found: dict[str, Value | list[Value]] = {}
    for flags, name, value in _declared(text):
        if "a" in flags and value.startswith("("):
            found[name] = [_unquoted(item) for _, item in _ELEMENT.findall(value)]
        elif not value.startswith("("):
            found[name] = _unquoted(value)
    return found


def plain_variables(text: str) -> set[str]:
    r"""The names of variables without any flag, as BLAH's are, that bash does not have of itself.

    >>> plain_variables('declare -- OPTERR="1"\ndeclare -x HOME="/"\ndeclare -- Cpus="4"')
    {'Cpus'}
    """
    return {name for flags, name, _ in _declared(text) if flags == "-" and name not in _BASHS}


def _declared(text: str) -> Iterator[tuple[str, str, str]]:
    """Each variable: its flags, its name, and its value as it is printed."""
    starts = [match.start() for match in _START.finditer(text)]
    for start, end in pairwise([*starts, len(text)]):
        match = _VARIABLE.fullmatch(text[start:end].rstrip("\n"))
        if match is not None:
            flags, name, value = match.groups()
            yield flags, name, value


def _unquoted(text: str) -> Value:
    if len(text) > 1 and text[0] == text[-1] == '"':
        plain = re.sub(r'\\(["\\$`])', r"\1", text[1:-1])
        if plain.isprintable():
            return plain
    return Unread(text.startswith(("$'\"", '"\\"')))


@attrs.frozen(slots=True)
class Demands:
    """The demands that BLAH's variables express.

    Attributes:
        condition: the condition on hosts.
        requests: values that the mapping takes for requests, as attributes of a job.
        foreign: the variables that look like bounds and that the mapping does not know, or whose
            values cannot be read.
        respelled: variables that differ from the mapping's name in case alone, with that name.
    """

    condition: Expr
    requests: ClassAd
    foreign: tuple[str, ...] = ()
    respelled: tuple[tuple[str, str], ...] = ()


def demands(
    variables: dict[str, Value | list[Value]],
    names: Iterable[str],
    plain: Collection[str] = (),
    requests: Iterable[str] = (),
    ignore: Collection[str] = (),
) -> Demands:
    """The condition and the requests that BLAH's variables stand for.

    A whole number of an unknown name looks like any of a shell's variables: without ``_Min`` or
    ``_Max`` it is a bound only if its name is ``plain``.

    Args:
        variables: as :func:`read_variables` gives them.
        names: the names of the host attributes in conditions.
        plain: the names of variables without any flag of the shell.
        requests: the names of the job's own attributes, which have one value each.
        ignore: the folded names of variables that mean nothing.

    Raises ValueError for a bound that is neither a whole number nor a text.

    >>> found = demands({"RAM_Min": "2000", "Walltime": "3600"}, ["RAM"], (), ["Walltime"])
    >>> print(found.condition, found.requests)
    other.RAM >= 2000 [ Walltime = 3600 ]
    """
    known = {ascii_fold(name): name for name in names}
    own = {ascii_fold(name): name for name in requests}
    clauses: list[Expr] = []
    asked: dict[str, int | str] = {}
    foreign: list[str] = []
    respelled: list[tuple[str, str]] = []
    for variable, value in variables.items():
        base, suffix = _split(variable)
        folded = ascii_fold(variable)
        values = value if isinstance(value, list) else [value]
        if folded in known and suffix and ascii_fold(base) in known:
            # A bound of one attribute, or the value of another.
            foreign.append(variable)
            continue
        if folded in known or folded in own or folded in ignore:
            base, suffix = variable, ""
        name = known.get(ascii_fold(base))
        request = own.get(folded) if name is None else None
        if name is None and (request is None or isinstance(value, list)):
            if ascii_fold(base) not in ignore and any(
                _is_bound(each, suffix or variable in plain) for each in values
            ):
                foreign.append(variable)
            continue
        if any(isinstance(each, Unread) for each in values):
            foreign.append(variable)
        texts = [each for each in values if isinstance(each, str)]
        if (name or request) != base and texts:
            respelled.append((variable, str(name or request)))
        if request is not None:
            for text in filter(None, texts):
                constant = _constant(text, variable).value
                assert isinstance(constant, (int, str))  # noqa: S101 - what _constant gives
                if asked.setdefault(request, constant) != constant:
                    foreign.append(variable)
            continue
        subject = Attr(_OTHER, str(name), False)
        for text in texts:
            if isinstance(value, list):
                clauses.append(Call("member", (_constant(text, variable), subject)))
            elif text != "":
                operator = {"_Min": ">=", "_Max": "<="}.get(suffix, "==")
                clauses.append(Binary(operator, subject, _constant(text, variable)))
    return Demands(conjunction(clauses), ClassAd(asked), tuple(foreign), tuple(respelled))


def _is_bound(value: Value, numeric: object) -> bool:
    """Whether the value of a variable, by its looks, is one that BLAH has written."""
    if isinstance(value, Unread):
        return value.quoted
    if numeric and _NUMBER.fullmatch(value):
        return True
    return len(value) > 1 and value[0] == value[-1] == '"'


def _split(variable: str) -> tuple[str, str]:
    for suffix in ("_Min", "_Max"):
        if variable.endswith(suffix):
            return variable[: -len(suffix)], suffix
    return variable, ""


def _constant(text: str, variable: str) -> Literal:
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        return Literal(int(text))
    inner = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else None
    if inner is None or '"' in inner or "\\" in inner:
        raise ValueError(
            f"{variable} is neither a whole number nor a text in quotes: {text[:80]!r}"
        )
    return Literal(inner)
