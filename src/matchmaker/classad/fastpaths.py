"""When Python's own operator gives the result of an operator of the language, as generated source.

``compile`` writes these conditions before its call of the total operator, which serves the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from matchmaker.classad.limits import LONG
from matchmaker.classad.operators import RELATIONS, ascii_fold
from matchmaker.classad.values import MAX_INT, MIN_INT, UNDEFINED

_EXACT: Final = 2**53
"""Up to here an integer and a real compare in Python as they do after promotion."""

ARITHMETIC: Final = frozenset({"+", "-", "*", "/"})


@attrs.frozen(slots=True)
class Operand:
    """A result in generated code: its variable, and what is known of it.

    ``kind`` is ``raw`` for what an ad holds (not yet a value), ``value`` for any value, ``number``
    for a number, a time, undefined or error, ``logical`` for true, false, undefined or error,
    ``constant`` for a literal whose value is ``value``. ``follow`` gives the value of what is raw.
    ``perhaps`` is the name of its key, and what an ad held under that.
    """

    name: str
    kind: str
    follow: str = ""
    value: Any = None
    perhaps: tuple[str, Any] = ("", None)

    @property
    def is_constant(self) -> bool:
        """Whether its value is known."""
        return self.kind == "constant"

    @property
    def may_be_long(self) -> bool:
        """Whether it may be text, or a list."""
        if self.is_constant:
            return isinstance(self.value, str)
        return self.kind in ("raw", "value")

    @property
    def type(self) -> str:
        """The variable that has the class of what is no constant."""
        return f"{self.name}_type"


@attrs.frozen(slots=True)
class Way:
    """A condition, the statement that gives the result under it, and when that does not hold."""

    test: str
    statement: str
    unless: str = ""


def ways(
    operator: str, left: Operand, right: Operand, result: str, constant: Callable[[Any], str]
) -> list[Way]:
    """The fast ways to a result, in order; `constant` gives the name of a value in the source."""
    if left.kind == "logical" or right.kind == "logical":
        return []
    if operator in ARITHMETIC:
        return _arithmetic(operator, left, right, result)
    if operator not in RELATIONS or left.is_constant:
        return []
    if right.is_constant:
        return _against_constant(operator, left, right, result, constant)
    a, b = left.name, right.name
    plain = f"{result} = {a} {operator} {b}"
    found = [
        Way(f"{left.type} is int and {right.type} is int", plain),
        Way(f"{left.type} is float and {right.type} is float", plain),
    ]
    if operator in ("==", "!=") and left.may_be_long and right.may_be_long:
        strings = f"{left.type} is str and {right.type} is str"
        equal = f"{a} == {b} or len({a}) == len({b}) and FOLD({a}) == FOLD({b})"
        found.append(
            Way(
                f"{strings} and len({a}) + len({b}) <= {LONG}",
                f"{result} = {_equality(operator, equal)}",
            )
        )
    return found


def _equality(operator: str, test: str) -> str:
    return test if operator == "==" else f"not ({test})"


def _arithmetic(operator: str, left: Operand, right: Operand, result: str) -> list[Way]:
    """Integers as long as they fit, and reals with reals or integers."""
    a, b = left.name, right.name
    constants = [type(side.value) for side in (left, right) if side.is_constant]
    variables = [side for side in (left, right) if not side.is_constant]
    if not variables or not set(constants) <= {int, float}:
        return []
    plain = f"{result} = {a} {operator} {b}"
    found: list[Way] = []
    if float not in constants:
        integers = " and ".join(f"{side.type} is int" for side in variables)
        if operator == "/":
            found.append(Way(f"{integers} and {a} >= 0 and {b} > 0", f"{result} = {a} // {b}"))
        else:
            # What does not fit 64 bits, or a real's range, is the total operator's affair.
            found.append(Way(integers, plain, f"not {MIN_INT} <= {result} <= {MAX_INT}"))
    numbers = " and ".join(f"({side.type} is float or {side.type} is int)" for side in variables)
    if operator == "/":
        if float not in constants:
            numbers += f" and ({' or '.join(f'{side.type} is float' for side in variables)})"
        if not right.is_constant or right.value == 0:
            numbers += f" and {b} != 0"
    found.append(Way(numbers, plain, f"{result} == INF"))
    return found


def _against_constant(
    operator: str, left: Operand, right: Operand, result: str, constant: Callable[[Any], str]
) -> list[Way]:
    a, kind, value = left.name, left.type, right.value
    plain = f"{result} = {a} {operator} {right.name}"
    if isinstance(value, bool):
        return []
    if isinstance(value, int) and abs(value) <= _EXACT:
        return [Way(f"{kind} is int or {kind} is float", plain)]
    if isinstance(value, float):
        return [
            Way(f"{kind} is float", plain),
            Way(f"{kind} is int", f"{result} = float({a}) {operator} {right.name}"),
        ]
    if isinstance(value, str) and operator in ("==", "!="):
        folded = constant(ascii_fold(value))
        # Folding keeps the length.
        equal = f"{a} == {right.name} or len({a}) == {len(value)} and FOLD({a}) == {folded}"
        return [Way(f"{kind} is str", f"{result} = {_equality(operator, equal)}")]
    return []


def identity(operator: str, a: str, right: Operand, result: str) -> str | None:
    """The statement for ``is`` and ``isnt`` with a plain constant on the right, else None."""
    if not right.is_constant:
        return None
    value = right.value
    if value is UNDEFINED or isinstance(value, bool):
        return f"{result} = {a} is {'' if operator == 'is' else 'not '}{right.name}"
    if isinstance(value, (str, int)):
        same = f"type({a}) is {type(value).__name__} and {a} == {right.name}"
        return f"{result} = {same if operator == 'is' else f'not ({same})'}"
    return None
