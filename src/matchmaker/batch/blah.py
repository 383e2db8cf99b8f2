"""BLAH's requirements, both ways: a ``CERequirements`` that it reads exactly, and its variables.

BLAH takes ``CERequirements`` apart without regard to its structure: of ``A >= 5`` it makes the
shell variable ``A_Min='5'``, of ``A <= 5`` ``A_Max='5'``, of ``A == 5`` ``A='5'``, of
``Member("X", other.L)`` ``L[0]='"X"'``, whatever stands around it. What ``ce_requirements`` writes
is a conjunction of these alone, one bound a name, of names and texts that mean nothing to a shell.

``demands`` reads the variables back. A site's ``<lrms>_local_submit_attributes.sh`` can be one
line::

    declare -p | classad blah-local-submit-attributes --lrms slurm
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import Final, TypeAlias

import attrs

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.errors import NoHostError
from matchmaker.batch.flags.choose import Dropped, HostClause, clauses_of, shown, unproven
from matchmaker.batch.flags.expression import check_possible, of_clauses
from matchmaker.batch.flags.render import FlagPlan
from matchmaker.batch.flags.requests import Requested
from matchmaker.batch.mapping import Mapping
from matchmaker.batch.site_code import PLAIN_TEXT, Constraint, constraint, has_variable
from matchmaker.classad import ClassAd
from matchmaker.classad.nodes import TRUE, Attr, Binary, Call, Expr, Literal
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.printer import unparse
from matchmaker.classad.walks import conjunction, conjuncts, postorder
from matchmaker.reduction import Reduction
from matchmaker.reduction.domains import NUMBERS, Domain, first_contrary, hull, meet_all

_OTHER: Final = Attr(None, "other", False)


@attrs.frozen(slots=True)
class BlahRequirements:
    """The part of a condition that BLAH reads exactly, and the clauses that it cannot carry.

    ``requirements`` is true of every host that the condition is true of. If nothing is dropped, it
    is true of no other host whose bounded attributes are integers.
    """

    requirements: Expr
    dropped: tuple[Dropped, ...]


def plan(
    reduction: Reduction, table: Mapping, requested: Requested, *, sure: bool, by_name: bool
) -> FlagPlan:
    """Plan the clauses that BLAH reads; raise errors as ``expression.plan`` does."""
    if len(conjuncts(reduction.residual)) > 1:
        # Of a single clause its own bounds say whether it is possible.
        check_possible(reduction.residual)
    found = ce_requirements(reduction.residual)
    carried = conjuncts(found.requirements)
    return of_clauses(reduction, table, requested, carried, found.dropped, sure=sure)


def ce_requirements(condition: Expr) -> BlahRequirements:
    """Write a condition on hosts as a ``CERequirements`` that BLAH reads as it is meant.

    Raises NoHostError if nothing satisfies the condition.

    >>> from matchmaker import parse_expr
    >>> found = ce_requirements(parse_expr("!(other.M < 1024) && other.M > 2047 && other.S != 3"))
    >>> print(found.requirements)
    other.M >= 2048
    >>> [str(dropped.clause) for dropped in found.dropped]
    ['other.S != 3']
    """
    clauses = clauses_of(condition)
    for clause in clauses:
        if not clause.boxes:
            raise NoHostError(f"nothing satisfies {shown(clause.expression)}")
    names: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for clause in clauses:
        names = {**clause.bounds.names, **names}
        texts = [n.value for n in postorder(clause.expression) if isinstance(n, Literal)]
        spelled |= {ascii_fold(text): text for text in texts if isinstance(text, str)}
    demanded = [hull(clause.boxes) for clause in clauses]
    met = meet_all(demanded)
    if met is None:
        contrary = clauses[first_contrary(demanded)].expression
        raise NoHostError(f"nothing satisfies {shown(contrary)} with what else is required")
    for name, domain in met.domains.items():
        if domain == Domain(nan=True):
            raise NoHostError(f"no whole number satisfies what is required of {names[name]}")
    carried = [
        leaf
        for name, box in sorted(met.by_subject().items(), key=lambda item: item[0])
        for leaf in _leaves(constraint(names.get(name, name), name, box), spelled)
    ]
    meant = [box for clause in clauses_of(conjunction(carried)) for box in clause.boxes]
    return BlahRequirements(
        conjunction(carried),
        tuple(
            Dropped(clause.expression, _reason(clause, names))
            for clause in unproven(clauses, meant, {})
        ),
    )


def _reason(clause: HostClause, names: dict[str, str]) -> str:
    """Explain why BLAH does not carry a clause."""
    if len(clause.boxes) > 1:
        return "BLAH has no alternatives"
    box = clause.boxes[0]
    if box.others:
        return "BLAH reads only comparisons of one attribute with a whole number or a text"
    for name in sorted(box.by_subject()):
        each = constraint(names.get(name, name), name, box)
        if not has_variable(each.attribute):
            return f"BLAH's variable for {each.attribute} would stand for something else"
        if box.domains.get(name) == NUMBERS:
            return f"BLAH has no variable for {each.attribute} being a number"
        if not each.exact or each.lacks or (each.texts and len(each.texts) > 1):
            return f"BLAH has no variable for what is demanded of {each.attribute}"
        if not all(PLAIN_TEXT.fullmatch(text) for text in (*(each.texts or ()), *each.has)):
            return "BLAH would give the text to a shell"
    return f"no whole number of {names.get(name, name)} satisfies it with what else is required"


def _leaves(each: Constraint, spelled: dict[str, str]) -> Iterator[Expr]:
    """Yield the comparisons that BLAH reads from a constraint."""
    if not has_variable(each.attribute):
        return
    subject = Attr(_OTHER, each.attribute, False)
    if each.least is not None and each.least == each.greatest:
        yield Binary("==", subject, Literal(each.least))
    else:
        if each.least is not None:
            yield Binary(">=", subject, Literal(each.least))
        if each.greatest is not None:
            yield Binary("<=", subject, Literal(each.greatest))
    if each.texts and len(each.texts) == 1 and PLAIN_TEXT.fullmatch(each.texts[0]):
        yield Binary("==", subject, Literal(spelled.get(each.texts[0], each.texts[0])))
    for text in each.has:
        if PLAIN_TEXT.fullmatch(text):
            yield Call("Member", (Literal(spelled.get(text, text)), subject))


def lines(plan: FlagPlan) -> list[str]:
    """Write the line of a BLAH submission, if there is anything to require."""
    return [] if plan.carried is TRUE else [submit_text(plan.carried)]


def submit_text(requirements: Expr) -> str:
    r"""Write the line of a BLAH submission for a ``CERequirements``: an expression in a string.

    >>> from matchmaker import parse_expr
    >>> submit_text(parse_expr('other.Os == "SL"'))
    'CERequirements = "other.Os == \\"SL\\""'
    """
    return f"CERequirements = {unparse(Literal(unparse(requirements)))}"


# A line of `declare -p`: flags, a name, a value that may go on over lines.
_VARIABLE: Final = re.compile(r"declare -([A-Za-z-]+) ([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
# bash quotes an element with control characters as $'…', any other as "…".
_ELEMENT: Final = re.compile(r'\[([0-9]+)\]=("(?:[^"\\]|\\.)*"|\$\'(?:[^\'\\]|\\.)*\')', re.DOTALL)
_START: Final = re.compile(r"^declare -", re.MULTILINE)
# Whole numbers that bash itself has in variables without a flag.
_BASHS: Final = frozenset({
    "COLUMNS", "EPOCHREALTIME", "EPOCHSECONDS", "HISTCMD", "HISTFILESIZE", "HISTSIZE", "LINENO",
    "LINES", "OPTERR", "OPTIND", "RANDOM", "SECONDS", "SRANDOM", "TMOUT",
})  # fmt: skip
# Any number: BLAH writes whole ones, but others under its names show a bound that is lost.
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


@attrs.frozen(slots=True)
class UnreadValue:
    """A value with characters that no bound has, and whether it is within quotes, as texts are."""

    quoted: bool


Value: TypeAlias = str | UnreadValue


def read_variables(text: str) -> dict[str, Value | list[Value]]:
    r"""Read the shell variables that bash's ``declare -p`` prints; arrays as lists.

    A value with control characters is an ``UnreadValue``: no bound has any. Raises ValueError for a
    text that is too long.

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
    r"""Return the names of variables without any flag, as BLAH's are, except those of bash itself.

    >>> plain_variables('declare -- OPTERR="1"\ndeclare -x HOME="/"\ndeclare -- Cpus="4"')
    {'Cpus'}
    """
    return {name for flags, name, _ in _declared(text) if flags == "-" and name not in _BASHS}


def _declared(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield each variable: its flags, its name, and its value as it is printed."""
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
    return UnreadValue(text.startswith(("$'\"", '"\\"')))


@attrs.frozen(slots=True)
class BlahDemands:
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
) -> BlahDemands:
    """Return the condition and the requests that BLAH's variables stand for.

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
        if any(isinstance(each, UnreadValue) for each in values):
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
    return BlahDemands(conjunction(clauses), ClassAd(asked), tuple(foreign), tuple(respelled))


def _is_bound(value: Value, numeric: object) -> bool:
    """Tell whether the value of a variable looks like one that BLAH has written."""
    if isinstance(value, UnreadValue):
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
