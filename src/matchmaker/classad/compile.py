"""Expressions as Python functions: the fast form of ``evaluate``, equal to it by a property.

A function is made of an expression when it pays, and kept on the interned node. The source has
the shape of the expression only: names and constants are arguments, so that no text of an ad is
ever part of generated source, and expressions of one shape share their code. Plain operands take a
fast path (``ways``); the rest goes to the total operators of ``operators`` and, for the rarer
kinds of nodes, to the reference evaluation.

Its arguments are ``ad``, in which the expression stands and which is nested in no other, ``other``,
with which that is matched, or None, the ``state`` of the evaluation, and ``inside``, the attribute
with which it began. If the state is None, one is begun when it is first needed; until then
``steps`` adds up the cost of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import attrs

from matchmaker._cache import BoundedCache
from matchmaker.classad import nodes
from matchmaker.classad.functions import FUNCTIONS
from matchmaker.classad.nodes import Expr
from matchmaker.classad.operators import BINARY, RELATIONS, UNARY, ascii_fold, truth
from matchmaker.classad.state import CALL, FOUR, LONG, bulk, cost
from matchmaker.classad.values import MAX_INT, MIN_INT, UNDEFINED, Value
from matchmaker.classad.walks import postorder, spine, weight

_EXACT: Final = 2**53
"""Up to here an integer and a real compare in Python as they do after promotion."""

ARITHMETIC: Final = frozenset({"+", "-", "*", "/"})


@attrs.frozen(slots=True)
class Operand:
    """A result in generated code: its variable, and the facts known of it.

    ``kind`` is ``raw`` for a value or expression of an ad, ``value`` for any value, ``number``
    for a number, a time, undefined or error, ``logical`` for true, false, undefined or error,
    ``constant`` for a literal whose value is ``value``. ``follow`` evaluates a raw one.
    ``perhaps`` is the name of its key, with the expression that an ad had there.
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
        """The variable that has the class of a result that is not constant."""
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


MAX_DEPTH: Final = 40
MAX_NODES: Final = 500
"""Larger expressions are left to the reference evaluation: compiling them would not pay."""

_SHORT: Final = 50
"""The most nodes of all that is referred to that become part of a function."""

_FEW: Final = 1000
"""How many steps a function adds up before it counts them."""


@attrs.frozen(slots=True)
class Surroundings:
    """Functions that generated code calls: for attributes, and the reference evaluation.

    ``begin`` makes a state; ``follow`` gives the value of an expression that an ad holds under a
    name. ``special`` are the names that mean something if no ad has them.
    """

    begin: Callable[..., Any]
    follow: Callable[..., Value]
    reference: Mapping[type, Callable[..., Value]]
    special: frozenset[str]
    common: dict[str, Any] = attrs.field(init=False)
    """What all generated code has in common."""

    @common.default
    def _common(self) -> dict[str, Any]:
        return {
            "SLOW": frozenset(self.reference) | {type(None)},
            "LIST": nodes.ListExpr,
            "BEGIN": self.begin,
            "FOLLOW": self.follow,
            "U": UNDEFINED,
            "TRUTH": truth,
            "FOLD": ascii_fold,
            "EMPTY": {},
            "INF": float("inf"),
            "BULK": bulk,
        }


def compile_expression(
    node: Expr, around: Surroundings, held: Mapping[str, Any] | None = None
) -> Callable[..., Value] | None:
    """The function of an expression, or None if the reference evaluation serves it better.

    `held` is the content of an ad with the expression. The definitions that it refers to become
    part of the function if it is short, for ads that hold the same, as the machines of a pool do.
    """
    if node.depth > MAX_DEPTH or isinstance(node, nodes.Literal) or weight(node) > MAX_NODES:
        return None
    return _Coder(around, node, held or {}).function()


_PLAIN: Final = (nodes.Literal, nodes.Attr, nodes.Binary, nodes.Unary, nodes.Ternary)

_SHAPES: Final[BoundedCache[str, Callable[..., Callable[..., Value]]]] = BoundedCache(
    "compiled shapes", 1 << 20
)


class _Coder:
    """Write the source of one function, and collect the objects that it refers to."""

    def __init__(self, around: Surroundings, node: Expr, held: Mapping[str, Any]) -> None:
        self._around = around
        self._node = node
        self._held = held
        self._room = _SHORT
        # Whether what is written belongs to an expression that the own one refers to.
        self._inner = False
        self._begun = "state = state or BEGIN(ad, other, inside, NODE)"
        self._lines: list[str] = []
        self._indent = 1
        self._count = 0
        self._counting = False
        self._names: dict[str, Any] = {"NODE": node}
        self._known: dict[tuple[type, Any], str] = {}
        self._words: set[str] = set()

    def function(self) -> Callable[..., Value]:
        result = self._value(self._emit(self._node))
        head = ["def run(ad, other, state=None, inside=''):", " held = ad._held"]
        if self._words:
            # An attribute named like a scope hides the scope; rare enough for the slow way.
            hidden = " or ".join(f"{self._constant(word)} in held" for word in sorted(self._words))
            handler, node = self._handler(self._node)
            head += [f" if {hidden}:", f"  {self._begun}", f"  return {handler}({node}, state, ad)"]
        head.append(" theirs = other._held if other is not None else EMPTY")
        if self._counting:
            head.append(" steps = 0")
            self._line("if state is not None: state.spend(steps)")
        body = [f" {line}" for line in (*head, *self._lines, f" return {result}")]
        source = "\n".join([f"def made({', '.join(self._names)}):", *body, " return run"])
        # Expressions of one shape differ in these arguments alone.
        made = _SHAPES.get(source) or _SHAPES.put(source, self._made(source), len(source))
        return made(*self._names.values())

    def _made(self, source: str) -> Any:
        names: dict[str, Any] = {}
        # Made of the fixed words in this module and of numbered names, never of an ad's text.
        exec(compile(source, "<expression>", "exec"), self._around.common, names)  # noqa: S102
        return names["made"]

    # --- the text of the function -----------------------------------------------------------------

    def _line(self, text: str) -> None:
        self._lines.append(" " * self._indent + text)

    @contextmanager
    def _under(self, head: str) -> Iterator[None]:
        """Indent the lines that are written meanwhile below a line."""
        self._line(head)
        self._indent += 1
        yield
        self._indent -= 1

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

    def _handler(self, node: Expr) -> tuple[str, str]:
        return self._constant(self._around.reference[type(node)]), self._constant(node)

    def _state(self) -> None:
        """From here on there is a state, which has counted all steps."""
        if self._inner:
            self._line("break")
        self._line(self._begun)
        if self._counting:
            self._line("state.spend(steps); steps = 0")

    def _charge(self, steps: str) -> None:
        """Counts steps, given as an expression."""
        if self._inner:
            self._line(f"if ({steps}): break")
            return
        self._counting = True
        self._line(f"steps += {steps}")
        self._line(f"if steps > {_FEW}: {self._begun}; state.spend(steps); steps = 0")

    def _value(self, operand: Operand, *, listed: bool = False) -> str:
        """The name of an operand once it is a value; `listed` if that may well be a list."""
        name = operand.name
        if operand.kind == "raw":
            with self._under(f"if type({name}) in SLOW:"):
                self._line(f"if {name} is None: {name} = U")
                if listed:
                    # As plain as a string, and in many requirements.
                    self._line(f"elif type({name}) is LIST and {name}.constants is not None:")
                    self._line(f" {name} = {name}.constants.copy()")
                with self._under("else:"):
                    self._follow(operand)
        return name

    def _follow(self, operand: Operand) -> None:
        """Puts the value of the expression that an ad holds in its place."""
        name, (key, node), head = operand.name, operand.perhaps, "if True:"
        short = isinstance(node, Expr) and weight(node) <= self._room and not self._inner
        if short and all(isinstance(each, _PLAIN) for each in postorder(node)):
            self._room -= weight(node)
            result, known = self._fresh(), self._constant(node)
            self._line(f"{result} = None")
            # Left where an attribute leads further, which only a state can follow and count.
            with self._under(f"while {name} is {known} and state is None and inside != {key}:"):
                self._inner = True
                self._line(f"{result} = {self._value(self._emit(node))}")
                self._line("break")
                self._inner = False
            self._line(f"if {result} is not None: {name} = {result}")
            head = "else:"
        with self._under(head):
            self._state()
            self._line(f"{name} = {operand.follow}")

    def _logical(self, operand: Operand) -> str:
        """The name of an operand once it is true, false, undefined or error."""
        name = operand.name
        if operand.is_constant:
            return self._constant(truth(operand.value))
        if operand.kind != "logical":
            with self._under(f"if {name} is not True and {name} is not False:"):
                self._value(operand)
                self._line(f"{name} = TRUTH({name})")
        return name

    # --- nodes ------------------------------------------------------------------------------------

    def _emit(self, node: Expr) -> Operand:
        return _EMIT.get(type(node), _Coder._refer)(self, node)

    def literal(self, node: nodes.Literal) -> Operand:
        return Operand(self._constant(node.value), "constant", value=node.value)

    def items(self, node: nodes.ListExpr) -> Operand:
        result = self._fresh()
        items = [self._value(self._emit(item)) for item in node.items]
        self._line(f"{result} = [{', '.join(items)}]")
        self._charge(f"BULK({result})")
        return Operand(result, "value")

    def _refer(self, node: Expr) -> Operand:
        """A node that the reference evaluation is asked for."""
        result = self._fresh()
        handler, known = self._handler(node)
        self._state()
        self._line(f"{result} = {handler}({known}, state, ad)")
        return Operand(result, "value")

    def attribute(self, node: nodes.Attr) -> Operand:
        scope = nodes.scope_of(node)
        bare = node.base is None
        known = bare or scope in nodes.MY_SCOPES or scope in nodes.TARGET_SCOPES
        if node.absolute or node.folded in self._around.special or not known:
            return self._refer(node)
        if scope is not None:
            self._words.add(scope)
        result, key = self._fresh(), self._constant(node.folded)
        perhaps = key, self._held.get(node.folded)
        mine = Operand(result, "raw", f"FOLLOW({result}, {key}, ad, other, state)", perhaps=perhaps)
        theirs = Operand(result, "raw", f"FOLLOW({result}, {key}, other, ad, state)")
        if scope in nodes.TARGET_SCOPES:
            self._line(f"{result} = theirs.get({key})")
            return theirs
        self._line(f"{result} = held.get({key})")
        if bare:
            # What the ad lacks is looked up in the other one.
            with self._under(f"if {result} is None:"):
                self._line(f"{result} = theirs.get({key})")
                self._value(theirs)
        return mine

    def unary(self, node: nodes.Unary) -> Operand:
        result = self._fresh()
        if node.operator == "!":
            name = self._logical(self._emit(node.operand))
            opposite = f"False if {name} is True else True if {name} is False else {name}"
            self._line(f"{result} = {opposite}")
            return Operand(result, "logical")
        name = self._value(self._emit(node.operand))
        self._line(f"{result} = {self._constant(UNARY[node.operator])}({name})")
        return Operand(result, "value")

    def ternary(self, node: nodes.Ternary) -> Operand:
        result = self._fresh()
        condition = self._logical(self._emit(node.condition))
        for word, outcome, branch in (("if", "True", node.then), ("elif", "False", node.otherwise)):
            with self._under(f"{word} {condition} is {outcome}:"):
                self._line(f"{result} = {self._value(self._emit(branch))}")
        self._line(f"else: {result} = {condition}")
        return Operand(result, "value")

    def call(self, node: nodes.Call) -> Operand:
        function = FUNCTIONS.get(node.function.lower())
        if function is None or function.lazy or not function.accepts(len(node.arguments)):
            return self._refer(node)
        result = self._fresh()
        arguments = [self._emit(argument) for argument in node.arguments]
        names = [self._value(argument, listed=True) for argument in arguments]
        self._count_arguments(arguments)
        if function.budgeted:
            self._state()
            names.append("budget=state")
        self._line(f"{result} = {self._constant(function.call)}({', '.join(names)})")
        with self._under(f"if type({result}) is str or type({result}) is list:"):
            self._charge(f"BULK({result})")
        return Operand(result, "value")

    def _count_arguments(self, arguments: list[Operand]) -> None:
        """What ``limits.cost`` gives for the arguments, those that are constants counted here."""
        constants = [argument.value for argument in arguments if argument.is_constant]
        self._line(f"text, items = {cost(constants) - CALL + 1}, 0")
        for argument in arguments:
            if argument.may_be_long and not argument.is_constant:
                name = argument.name
                self._line(f"if type({name}) is str: text += len({name}) >> {FOUR}")
                self._line(f"elif type({name}) is list: items += len({name})")
        self._charge(f"{CALL - 1} + text + text * items")

    def binary(self, node: nodes.Binary) -> Operand:
        first, links = spine(node)
        result = self._emit(first)
        for link in reversed(links):
            result = self._operation(link.operator, result, link.right)
        return result

    def _operation(self, operator: str, left: Operand, right: Expr) -> Operand:
        if operator in ("&&", "||"):
            return self._connective(operator, left, right)
        if operator == "?:":
            return self._elvis(left, right)
        other = self._emit(right)
        if operator in ("is", "isnt"):
            return self._identity(operator, left, other)
        result, total = self._fresh(), self._constant(BINARY[operator])
        found = ways(operator, left, other, result, self._constant)
        for operand in (left, other) if found else ():
            if not operand.is_constant:
                self._line(f"{operand.type} = type({operand.name})")
        for word, way in zip(["if", *["elif"] * len(found)], found, strict=False):
            self._line(f"{word} {way.test}:")
            self._line(f" {way.statement}")
            if way.unless:
                self._line(f" if {way.unless}: {result} = {total}({left.name}, {other.name})")
        with self._under("else:" if found else "if True:"):
            first, second = self._value(left), self._value(other)
            self._count_text(left, other)
            self._line(f"{result} = {total}({first}, {second})")
        return Operand(result, "logical" if operator in RELATIONS else "number")

    def _count_text(self, left: Operand, right: Operand) -> None:
        """Counts long text that an operator is applied to."""
        if left.may_be_long and right.may_be_long:
            a, b = left.name, right.name
            with self._under(f"if type({a}) is str and type({b}) is str:"):
                self._charge(f"len({a}) + len({b}) >> 4 if len({a}) + len({b}) > {LONG} else 0")

    def _identity(self, operator: str, left: Operand, right: Operand) -> Operand:
        result, a, b = self._fresh(), self._value(left), self._value(right)
        plain = identity(operator, a, right, result)
        if plain is None:
            self._count_text(left, right)
        self._line(plain or f"{result} = {self._constant(BINARY[operator])}({a}, {b})")
        return Operand(result, "logical")

    def _connective(self, operator: str, left: Operand, right: Expr) -> Operand:
        result = self._fresh()
        neutral = "True" if operator == "&&" else "False"
        first = self._logical(left)
        with self._under(f"if {first} is {neutral} or {first} is U:"):
            second, exact = self._logical(self._emit(right)), self._constant(BINARY[operator])
            both = f"{second} if {first} is {neutral} else {exact}({first}, {second})"
            self._line(f"{result} = {both}")
        self._line(f"else: {result} = {first}")
        return Operand(result, "logical")

    def _elvis(self, left: Operand, right: Expr) -> Operand:
        result = self._fresh()
        self._line(f"{result} = {self._value(left)}")
        with self._under(f"if {result} is U:"):
            self._line(f"{result} = {self._value(self._emit(right))}")
        return Operand(result, "value")


_EMIT: Final[Mapping[type, Callable[[_Coder, Any], Operand]]] = {
    nodes.Literal: _Coder.literal, nodes.Attr: _Coder.attribute, nodes.Binary: _Coder.binary,
    nodes.Unary: _Coder.unary, nodes.Ternary: _Coder.ternary, nodes.Call: _Coder.call,
    nodes.ListExpr: _Coder.items,
}  # fmt: skip
"""How each kind of nodes is written; the others are left to the reference evaluation."""
