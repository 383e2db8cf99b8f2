"""Expressions as Python functions: the fast form of ``evaluate``, equal to it by a property.

A function is made of an expression when it pays, and kept on the interned node. What is generated
is the shape of the expression only: names and constants are arguments, so that no text of an ad is
ever part of generated source. Plain operands (numbers, strings, booleans) take a fast path; the
rest goes to the total operators of ``operators`` and, for the rarer kinds of nodes, to the
reference evaluation itself.

A function has the arguments ``ad``, ``other`` and ``state``: the ad in which the expression stands,
which is nested in no other, the ad that it is matched with or None, and the evaluation's state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from matchmaker.classad.bounds import LONG, bulk, cost
from matchmaker.classad.functions import FUNCTIONS
from matchmaker.classad.nodes import (
    MY_SCOPES,
    TARGET_SCOPES,
    Attr,
    Binary,
    Call,
    Expr,
    ListExpr,
    Literal,
    Ternary,
    Unary,
    scope_of,
    weight,
)
from matchmaker.classad.operators import BINARY, UNARY, ascii_fold, truth
from matchmaker.classad.values import MAX_INT, MIN_INT, UNDEFINED, Value

MAX_DEPTH: Final = 40
MAX_NODES: Final = 500
"""Larger expressions are left to the reference evaluation: compiling them would not pay."""

_EXACT: Final = 2**53
"""Up to here an integer and a real compare in Python as they do after promotion."""


@attrs.frozen(slots=True)
class Surroundings:
    """What generated code calls: ways to an attribute's value, and the reference evaluation.

    ``own``, ``mine`` and ``theirs`` take what an ad holds under a name (a bare one, one after MY
    and one after TARGET) and give its value. ``slow`` holds the classes of what is no value yet.
    """

    missing: object
    slow: frozenset[type]
    own: Callable[..., Value]
    mine: Callable[..., Value]
    theirs: Callable[..., Value]
    reference: Mapping[type, Callable[..., Value]]
    special: frozenset[str]


def compile_expression(node: Expr, around: Surroundings) -> Callable[..., Value] | None:
    """The function of an expression, or None where the reference evaluation serves it better."""
    if node.depth > MAX_DEPTH or isinstance(node, Literal):
        return None
    if weight(node) > MAX_NODES:
        return None
    return _Coder(around).function(node)


@attrs.frozen(slots=True)
class _Operand:
    """A result in generated code: its variable, and what is known of it.

    ``kind`` is ``raw`` for what an ad holds (not yet a value), ``logical`` for true, false,
    undefined or error, ``constant`` for a literal whose value is ``value``, else ``value``.
    """

    name: str
    kind: str
    resolve: str = ""
    value: Any = None


class _Coder:
    """Writes the source of one function, and collects what it refers to."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._lines: list[str] = []
        self._indent = 1
        self._count = 0
        self._names: dict[str, Any] = {
            "M": around.missing,
            "SLOW": around.slow,
            "OWN": around.own,
            "MINE": around.mine,
            "THEIRS": around.theirs,
            "U": UNDEFINED,
            "TRUTH": truth,
            "FOLD": ascii_fold,
            "MAX": MAX_INT,
            "MIN": MIN_INT,
            "EMPTY": {},
            "INF": math.inf,
            "LONG": LONG,
            "COST": cost,
            "BULK": bulk,
        }
        self._known: dict[tuple[type, Any], str] = {}
        self._words: set[str] = set()

    def function(self, node: Expr) -> Callable[..., Value]:
        result = self._value(self._emit(node))
        head = ["def run(ad, other, state):", " held = ad.content"]
        if self._words:
            # An attribute named like a scope hides the scope; rare enough for the slow way.
            hidden = " or ".join(f"{self._constant(word)} in held" for word in sorted(self._words))
            self._names["REFERENCE"] = self._around.reference[type(node)]
            head += [f" if {hidden}:", f"  return REFERENCE({self._constant(node)}, state, ad)"]
        head.append(" theirs = other.content if other is not None else EMPTY")
        source = "\n".join([*head, *self._lines, f" return {result}"])
        # Made of the fixed words in this module and of numbered names, never of an ad's text.
        exec(compile(source, "<expression>", "exec"), self._names)  # noqa: S102
        run: Callable[..., Value] = self._names.pop("run")
        return run

    # --- the text of the function -----------------------------------------------------------------

    def _line(self, text: str) -> None:
        self._lines.append(" " * self._indent + text)

    def _fresh(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _constant(self, value: Any) -> str:
        """The name under which the function knows a value."""
        if value is True or value is False:
            return str(value)
        if value is UNDEFINED:
            return "U"
        key = (type(value), repr(value) if isinstance(value, float) else id(value))
        name = self._known.get(key)
        if name is None:
            name = self._known[key] = f"k{len(self._known)}"
            self._names[name] = value
        return name

    def _value(self, operand: _Operand) -> str:
        """The name of an operand once it is a value."""
        if operand.kind == "raw":
            self._line(f"if {operand.name}.__class__ in SLOW: {operand.resolve}")
        return operand.name

    def _logical(self, operand: _Operand) -> str:
        """The name of an operand once it is true, false, undefined or error."""
        if operand.kind == "logical":
            return operand.name
        if operand.kind == "constant":
            return self._constant(truth(operand.value))
        name = operand.name
        if operand.kind == "raw":
            self._line(f"if {name} is not True and {name} is not False:")
            self._line(f" if {name}.__class__ in SLOW: {operand.resolve}")
            self._line(f" {name} = TRUTH({name})")
        else:
            self._line(f"if {name} is not True and {name} is not False: {name} = TRUTH({name})")
        return name

    # --- nodes ------------------------------------------------------------------------------------

    def _emit(self, node: Expr) -> _Operand:
        if isinstance(node, Literal):
            return _Operand(self._constant(node.value), "constant", value=node.value)
        if isinstance(node, Attr):
            return self._attribute(node)
        if isinstance(node, Binary):
            return self._binary(node)
        if isinstance(node, Unary):
            return self._unary(node)
        if isinstance(node, Ternary):
            return self._ternary(node)
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, ListExpr):
            result = self._fresh()
            items = [self._value(self._emit(item)) for item in node.items]
            self._line(f"{result} = [{', '.join(items)}]")
            self._line(f"state.spend(BULK({result}))")
            return _Operand(result, "value")
        return self._refer(node)

    def _refer(self, node: Expr) -> _Operand:
        """A node that the reference evaluation is asked for."""
        result = self._fresh()
        handler = self._constant(self._around.reference[type(node)])
        self._line(f"{result} = {handler}({self._constant(node)}, state, ad)")
        return _Operand(result, "value")

    def _attribute(self, node: Attr) -> _Operand:
        scope = scope_of(node)
        if node.absolute or node.folded in self._around.special:
            return self._refer(node)
        if node.base is None:
            held, way = "held", "OWN"
        elif scope in MY_SCOPES:
            held, way = "held", "MINE"
        elif scope in TARGET_SCOPES:
            held, way = "theirs", "THEIRS"
        else:
            return self._refer(node)
        if scope is not None:
            self._words.add(scope)
        result, key = self._fresh(), self._constant(node.folded)
        self._line(f"{result} = {held}.get({key}, M)")
        return _Operand(result, "raw", f"{result} = {way}({result}, {key}, ad, other, state)")

    def _unary(self, node: Unary) -> _Operand:
        result = self._fresh()
        if node.operator == "!":
            name = self._logical(self._emit(node.operand))
            self._line(
                f"{result} = False if {name} is True else True if {name} is False else {name}"
            )
            return _Operand(result, "logical")
        name = self._value(self._emit(node.operand))
        self._line(f"{result} = {self._constant(UNARY[node.operator])}({name})")
        return _Operand(result, "value")

    def _ternary(self, node: Ternary) -> _Operand:
        result = self._fresh()
        condition = self._logical(self._emit(node.condition))
        for word, outcome, branch in (("if", "True", node.then), ("elif", "False", node.otherwise)):
            self._line(f"{word} {condition} is {outcome}:")
            self._indent += 1
            self._line(f"{result} = {self._value(self._emit(branch))}")
            self._indent -= 1
        self._line(f"else: {result} = {condition}")
        return _Operand(result, "value")

    def _call(self, node: Call) -> _Operand:
        function = FUNCTIONS.get(node.function.lower())
        if function is None or function.lazy or not function.accepts(len(node.arguments)):
            return self._refer(node)
        result = self._fresh()
        arguments = [self._value(self._emit(argument)) for argument in node.arguments]
        self._line(f"state.spend(COST([{', '.join(arguments)}]))")
        if function.budgeted:
            arguments.append("budget=state")
        self._line(f"{result} = {self._constant(function.call)}({', '.join(arguments)})")
        self._line(f"if {result}.__class__ is str or {result}.__class__ is list:")
        self._line(f" state.spend(BULK({result}))")
        return _Operand(result, "value")

    def _binary(self, node: Binary) -> _Operand:
        # The left spine in a loop, as in the reference.
        spine = [node]
        while isinstance(spine[-1].left, Binary):
            spine.append(spine[-1].left)
        result = self._emit(spine[-1].left)
        for link in reversed(spine):
            result = self._operation(link.operator, result, link.right)
        return result

    def _operation(self, operator: str, left: _Operand, right: Expr) -> _Operand:
        if operator in ("&&", "||"):
            return self._connective(operator, left, right)
        if operator == "?:":
            return self._elvis(left, right)
        other = self._emit(right)
        if operator in ("is", "isnt"):
            return self._identity(operator, left, other)
        result = self._fresh()
        fast = self._fast(operator, left, other, result)
        if fast:
            for test, statement in fast:
                self._line(f"{test}: {statement}")
            self._line("else:")
            self._indent += 1
        first, second = self._value(left), self._value(other)
        self._count_text(left, other)
        self._line(f"{result} = {self._constant(BINARY[operator])}({first}, {second})")
        if fast:
            self._indent -= 1
            if operator in ("+", "-", "*", "/"):
                # What does not fit 64 bits, or a real's range, is the total operator's affair.
                exact = self._constant(BINARY[operator])
                self._line(f"if {result}.__class__ is int:")
                self._line(
                    f" if not MIN <= {result} <= MAX: {result} = {exact}({left.name}, {other.name})"
                )
                self._line(f"elif {result} == INF: {result} = {exact}({left.name}, {other.name})")
        return _Operand(result, "logical" if operator in _RELATIONS else "value")

    def _count_text(self, left: _Operand, right: _Operand) -> None:
        """Counts long text that an operator is applied to."""
        if left.kind == "logical" or right.kind == "logical":
            return
        a, b = left.name, right.name
        self._line(f"if {a}.__class__ is str and {b}.__class__ is str:")
        self._line(f" if len({a}) + len({b}) > LONG: state.spend((len({a}) + len({b})) >> 4)")

    def _fast(
        self, operator: str, left: _Operand, right: _Operand, result: str
    ) -> list[tuple[str, str]]:
        """Conditions under which Python's own operator gives the result, and that statement."""
        if left.kind == "logical" or right.kind == "logical":
            return []
        a, b = left.name, right.name
        plain = f"{result} = {a} {operator} {b}"
        if operator in _RELATIONS:
            if left.kind != "constant" and right.kind == "constant":
                return self._against_constant(operator, a, right, result)
            return [
                (f"if {a}.__class__ is int and {b}.__class__ is int", plain),
                (f"elif {a}.__class__ is float and {b}.__class__ is float", plain),
            ]
        if operator in ("+", "-", "*", "/"):
            return self._arithmetic(operator, left, right, result)
        return []

    def _arithmetic(
        self, operator: str, left: _Operand, right: _Operand, result: str
    ) -> list[tuple[str, str]]:
        """Integers as long as they fit, and reals with reals or integers."""
        a, b = left.name, right.name
        plain = f"{result} = {a} {operator} {b}"
        integers, reals = _both(left, right, "int", "int"), []
        for kinds in (("float", "float"), ("float", "int"), ("int", "float")):
            test = _both(left, right, *kinds)
            if test:
                reals.append(f"({test})")
        nonzero = f" and {b} != 0" if operator == "/" else ""
        ways: list[tuple[str, str]] = []
        if integers and operator == "/":
            ways.append((f"{integers} and {a} >= 0 and {b} > 0", f"{result} = {a} // {b}"))
        elif integers:
            ways.append((integers, plain))
        if reals:
            ways.append((f"({' or '.join(reals)}){nonzero}", plain))
        return [(f"{'el' if n else ''}if {test}", then) for n, (test, then) in enumerate(ways)]

    def _against_constant(
        self, operator: str, a: str, right: _Operand, result: str
    ) -> list[tuple[str, str]]:
        value = right.value
        plain = f"{result} = {a} {operator} {right.name}"
        if isinstance(value, bool):
            return []
        if isinstance(value, int) and abs(value) <= _EXACT:
            return [(f"if {a}.__class__ is int or {a}.__class__ is float", plain)]
        if isinstance(value, float):
            return [
                (f"if {a}.__class__ is float", plain),
                (f"elif {a}.__class__ is int", f"{result} = float({a}) {operator} {right.name}"),
            ]
        if isinstance(value, str) and operator in ("==", "!="):
            folded = self._constant(ascii_fold(value))
            # Folding keeps the length.
            equal = f"{a} == {right.name} or len({a}) == {len(value)} and FOLD({a}) == {folded}"
            equal = equal if operator == "==" else f"not ({equal})"
            return [(f"if {a}.__class__ is str", f"{result} = {equal}")]
        return []

    def _identity(self, operator: str, left: _Operand, right: _Operand) -> _Operand:
        result = self._fresh()
        a, b = self._value(left), self._value(right)
        if right.kind == "constant" and (right.value is UNDEFINED or isinstance(right.value, bool)):
            negation = "" if operator == "is" else "not "
            self._line(f"{result} = {a} is {negation}{b}")
        elif right.kind == "constant" and isinstance(right.value, (str, int)):
            kind = "str" if isinstance(right.value, str) else "int"
            same = f"{a}.__class__ is {kind} and {a} == {b}"
            self._line(f"{result} = {same if operator == 'is' else f'not ({same})'}")
        else:
            self._count_text(left, right)
            self._line(f"{result} = {self._constant(BINARY[operator])}({a}, {b})")
        return _Operand(result, "logical")

    def _connective(self, operator: str, left: _Operand, right: Expr) -> _Operand:
        result = self._fresh()
        neutral = "True" if operator == "&&" else "False"
        first = self._logical(left)
        self._line(f"if {first} is {neutral} or {first} is U:")
        self._indent += 1
        second = self._logical(self._emit(right))
        exact = self._constant(BINARY[operator])
        self._line(f"{result} = {second} if {first} is {neutral} else {exact}({first}, {second})")
        self._indent -= 1
        self._line(f"else: {result} = {first}")
        return _Operand(result, "logical")

    def _elvis(self, left: _Operand, right: Expr) -> _Operand:
        result = self._fresh()
        self._line(f"{result} = {self._value(left)}")
        self._line(f"if {result} is U:")
        self._indent += 1
        self._line(f"{result} = {self._value(self._emit(right))}")
        self._indent -= 1
        return _Operand(result, "value")


def _both(left: _Operand, right: _Operand, first: str, second: str) -> str:
    """The test that two operands are of given classes; empty where a constant is not."""
    tests = []
    for operand, kind in ((left, first), (right, second)):
        if operand.kind != "constant":
            tests.append(f"{operand.name}.__class__ is {kind}")
        elif type(operand.value).__name__ != kind:
            return ""
    return " and ".join(tests)


_RELATIONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">="})
