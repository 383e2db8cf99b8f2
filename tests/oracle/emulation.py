"""Evaluation by other rules than ours: how a difference tells what HTCondor must answer.

``Rules`` replace parts of our own evaluation for the time of one answer. A difference has two sets
of them: what HTCondor does, and, where our own way can be said in other words than the code has it,
what we do. See ``differences``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeAlias

import attrs

from matchmaker import ClassAd, Expr, ParseError, parse_expr
from matchmaker.classad.functions import FUNCTIONS
from matchmaker.classad.operators import BINARY, UNARY
from matchmaker.classad.reference import REFERENCE
from matchmaker.classad.state import EvaluationState
from tests.oracle.answers import UNREADABLE, ad_of, answer
from tests.oracle.oracle import Answer, Case

Wrapper: TypeAlias = Callable[..., Any]
"""What is called in the place of something: with that first, then with its arguments."""


ANYTHING: Final[Answer] = ["anything"]
"""What HTCondor answers where it gives what happens to stand in its memory."""


class NoValueError(BaseException):
    """Ends an evaluation that has no value, with the answer that says so.

    Not an Exception, so that nothing that makes a value of any fault makes one of this.
    """

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self.answer = answer


@attrs.frozen(slots=True, kw_only=True)
class Rules:
    """What is done otherwise.

    ``operators`` and ``unary`` (by symbol), ``functions`` (by folded name) and ``nodes`` (by class)
    hold wrappers; ``places`` those of functions in modules, ``module:name``. ``text`` rewrites all
    texts of a case before they are read, ``tree`` looks at the expression that was read,
    ``surround`` changes the two ads, and ``answer`` the answer. ``state`` is what kind of
    evaluation it is. ``view`` takes away from both answers, before they are compared, what is left
    to chance.
    """

    operators: Mapping[str, Wrapper] = attrs.field(factory=dict)
    unary: Mapping[str, Wrapper] = attrs.field(factory=dict)
    functions: Mapping[str, Wrapper] = attrs.field(factory=dict)
    nodes: Mapping[type, Wrapper] = attrs.field(factory=dict)
    places: Mapping[str, Wrapper] = attrs.field(factory=dict)
    text: Callable[[str], str] | None = None
    tree: Callable[[Expr], None] | None = None
    surround: Callable[[ClassAd, ClassAd], tuple[ClassAd, ClassAd]] | None = None
    view: Callable[[Answer, Case], Answer] | None = None
    answer: Callable[[Answer], Answer] | None = None
    state: type[EvaluationState] | None = None


OURS: Final = Rules()
"""Nothing is done otherwise."""


def answer_by(case: Case, rules: Sequence[Rules]) -> Answer:
    """The answer of the reference evaluation with some rules replaced, the last ones outermost."""
    texts = [case.text, case.my, case.target]
    try:
        for one in rules:
            texts = [one.text(text) for text in texts] if one.text else texts
        given = _evaluated(texts, rules)
    except ParseError:
        given = UNREADABLE
    except NoValueError as none:
        given = none.answer
    except Exception as error:  # noqa: BLE001 - rules that cannot tell account for nothing
        return ["unknown", repr(error)]
    for one in reversed(rules):
        given = one.answer(given) if one.answer else given
    return given


def _evaluated(texts: list[str], rules: Sequence[Rules]) -> Answer:
    expression = parse_expr(texts[0])
    my, target = ad_of(texts[1]), ad_of(texts[2])
    kind = EvaluationState
    for one in rules:
        if one.tree:
            one.tree(expression)
        if one.surround and my is not None and target is not None:
            my, target = one.surround(my, target)
        kind = one.state or kind
    with replaced(rules) as table:

        def run(ad: ClassAd | None, other: ClassAd | None, state: EvaluationState) -> Any:
            return table[type(expression)](expression, state, ad)

        return answer(run, my, target, kind=type("Emulated", (kind,), {"table": table}))


def _uncounted(wrapper: Wrapper, inner: Wrapper) -> Wrapper:
    """A wrapper that need not know of the budget, which goes on to what it wraps."""

    def call(*values: Any, budget: Any = None) -> Any:
        return wrapper(partial(inner, budget=budget), *values)

    return call


@contextmanager
def replaced(rules: Sequence[Rules]) -> Iterator[dict[type, Wrapper]]:
    """Puts the rules in place, and gives the table of what evaluates each kind of node."""
    table: dict[type, Wrapper] = dict(REFERENCE)
    undo: list[Callable[[], None]] = []

    def put(where: Any, key: Any, value: Any) -> None:
        undo.append(partial(where.__setitem__, key, where[key]))
        where[key] = value

    try:
        for one in rules:
            for known, wrappers in ((BINARY, one.operators), (UNARY, one.unary)):
                for symbol, wrapper in wrappers.items():
                    put(known, symbol, partial(wrapper, known[symbol]))
            for name, wrapper in one.functions.items():
                function = FUNCTIONS[name]
                around = _uncounted if function.budgeted else partial
                call = around(wrapper, function.call)
                put(FUNCTIONS, name, attrs.evolve(function, call=call))
            for place, wrapper in one.places.items():
                module, _, name = place.partition(":")
                names = vars(importlib.import_module(module))
                put(names, name, partial(wrapper, names[name]))
            for kind, wrapper in one.nodes.items():
                table[kind] = partial(wrapper, table[kind])
        yield table
    finally:
        for put_back in reversed(undo):
            put_back()
