"""HTCondor's lists and ads where they are not ours: as expressions, as copies, and as text.

There a list is an expression: its elements are evaluated when they are asked for, by a function in
the ad where the function is called. What a function or a projection makes is a copy, which has lost
the ad in which it stood.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final, SupportsIndex

from matchmaker import ClassAd, Expr
from matchmaker.classad import reference as evaluation
from matchmaker.classad.ad import literal
from matchmaker.classad.functions import FUNCTIONS, conversions
from matchmaker.classad.nodes import (
    AdExpr,
    Attr,
    Binary,
    Call,
    ListExpr,
    Literal,
    Subscript,
    Ternary,
    Unary,
)
from matchmaker.classad.printer import _LEVEL, _level, unparse_name, unparse_value
from matchmaker.classad.state import CallScope, EvaluationState, OutOfBoundsError
from matchmaker.classad.values import UNDEFINED, ErrorType, Value
from matchmaker.classad.walks import postorder
from tests.oracle.answers import REFUSED
from tests.oracle.emulation import NoValueError, Rules, Wrapper
from tests.oracle.oracle import Answer, Case
from tests.oracle.rules.names import meant


class _NothingPickedError(NoValueError):
    """A projection has no value, of which a name leaves UNDEFINED."""


class Listed(list[Any]):
    """A list as the expression that it is written as, in the ad where it stands.

    `place` is the ad from which its elements are looked up; ads that are written in it stay.
    """

    def __init__(
        self, node: ListExpr, state: EvaluationState, ad: ClassAd | None, place: ClassAd | None
    ) -> None:
        super().__init__([None] * len(node.items))
        self.node = node
        self.state = state
        self.ad = ad
        self.place = place

    def called_from(self, place: ClassAd | None) -> Listed:
        """The list as a function that is called in another ad sees it."""
        return Listed(self.node, self.state, self.ad, place)

    def _value(self, item: Expr) -> Any:
        place = self.ad if isinstance(item, (AdExpr, ListExpr)) else self.place
        try:
            return self.state.table[type(item)](item, self.state, place)
        except (OutOfBoundsError, RecursionError):
            raise NoValueError(REFUSED) from None

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        """An element by its place, where HTCondor does not mind that it has no value."""
        assert isinstance(index, int)
        item = self.node.items[index]
        try:
            return self._value(item)
        except NoValueError as none:
            named = isinstance(item, Attr) and isinstance(none, _NothingPickedError)
            return UNDEFINED if named else ErrorType()

    def settled(self) -> list[Any]:
        """The elements as the ads that something is evaluated in: one without a value is none."""
        return [_or_error(self._value, item) for item in self.node.items]

    def __iter__(self) -> Iterator[Any]:
        return map(self._value, self.node.items)


def _or_error(values: Callable[..., Any], *given: Any) -> Any:
    try:
        return values(*given)
    except NoValueError:
        return ErrorType()


def _home(node: Expr, state: Any, ad: ClassAd | None) -> ClassAd | None:
    return getattr(state, "homes", {}).get(node, ad) if ad is state.context else ad


def _listed(inner: Wrapper, node: ListExpr, state: Any, ad: ClassAd | None) -> Value:
    home = _home(node, state, ad)
    return Listed(node, state, home, home)


def _nested(inner: Wrapper, node: AdExpr, state: Any, ad: ClassAd | None) -> Value:
    value: Value = inner(node, state, _home(node, state, ad))
    return value


def _in_contexts(inner: Wrapper, arguments: tuple[Expr, ...], scope: CallScope) -> Any:
    """evalInEachContext(x, L): lists and ads that are written in x stay where x is."""
    state: Any = scope.budget
    before = getattr(state, "homes", {})
    expression, home = arguments[0], scope.ad
    if isinstance(expression, Attr):
        expression, home = meant(expression, scope) or (expression, home)
    written_in = [node for node in postorder(expression) if isinstance(node, (ListExpr, AdExpr))]
    state.homes = before | dict.fromkeys(written_in, home)
    value = inner(arguments, scope)
    state.homes = before
    return value


def _seen_from(value: Any, place: ClassAd | None) -> Any:
    return value.called_from(place) if isinstance(value, Listed) else value


def _called(inner: Wrapper, node: Call, state: EvaluationState, ad: ClassAd | None) -> Value:
    """A call with lists as they look from where it stands, if they are Listed."""
    function = FUNCTIONS.get(node.function.lower())
    if function is None or function.lazy or not function.accepts(len(node.arguments)):
        value: Value = inner(node, state, ad)
        return value
    values = [_seen_from(state.table[type(item)](item, state, ad), ad) for item in node.arguments]
    more = {"budget": state} if function.budgeted else {}
    return function.call(*values, **more)


def _picked(copied: Callable[[Any], Any]) -> Wrapper:
    """What a projection picks out of each ad of a list; HTCondor's are copies."""

    def wrapper(inner: Wrapper, node: Attr, state: EvaluationState, ad: ClassAd | None) -> Value:
        base = state.table[type(node.base)](node.base, state, ad) if node.base is not None else None
        if not isinstance(base, list):
            value: Value = inner(node, state, ad)
            return value
        items = _seen_from(base, ad)
        try:
            return [copied(evaluation._select(item, node.folded, state)) for item in items]
        except NoValueError as none:
            raise _NothingPickedError(none.answer) from None

    return wrapper


def _copy(value: Any) -> Any:
    if isinstance(value, Listed):
        nowhere = ClassAd()
        return Listed(value.node, value.state, nowhere, nowhere)
    if isinstance(value, ClassAd):
        value = value.copy()
        value.parent = None
    return value


_LISTS: Final[dict[type, Wrapper]] = {
    ListExpr: _listed, AdExpr: _nested, Call: _called, Attr: _picked(_copy),
}  # fmt: skip

_CONTEXTS: Final = dict.fromkeys(("evalineachcontext", "countmatches"), _in_contexts)


def _ads_from_here(inner: Wrapper, node: Expr, ads: Any, scope: CallScope) -> Any:
    return inner(
        node, ads.called_from(scope.ad).settled() if isinstance(ads, Listed) else ads, scope
    )


_CONTROL: Final[dict[str, Wrapper]] = {
    # A list that holds itself would be counted without end.
    "matchmaker.classad.reference:bulk": lambda inner, value: 0,
    "matchmaker.classad.functions.control:_in_each": _ads_from_here,
    "matchmaker.classad.functions.control:_in_context": _or_error,
}

LISTS: Final = Rules(nodes=_LISTS, functions=_CONTEXTS, places=_CONTROL)


def _values(inner: Wrapper, node: ListExpr, state: EvaluationState, ad: ClassAd | None) -> Value:
    return [state.table[type(item)](item, state, ad) for item in node.items]


def _one_ad(inner: Wrapper, node: AdExpr, state: Any, ad: ClassAd | None) -> Value:
    """A nested ad, which is one and the same wherever it is come to."""
    made = state.__dict__.setdefault("made", {})
    nested: Value = made.setdefault((id(ad), node), ClassAd.from_expression(node, ad))
    return nested


_OUR_LISTS: Final[dict[type, Wrapper]] = {
    ListExpr: _values, AdExpr: _one_ad, Call: _called, Attr: _picked(lambda value: value),
}  # fmt: skip

OUR_LISTS: Final = Rules(nodes=_OUR_LISTS)

# --- two kinds of lists: those written, and those that functions make -----------------------------


class Made(list[Any]):
    """A list that a function has made."""


def _made(inner: Wrapper, *arguments: Any) -> Any:
    value = inner(*arguments)
    return Made(value) if type(value) is list else value


def _of_two_kinds(unlike: bool) -> Wrapper:
    def wrapper(inner: Wrapper, left: Any, right: Any) -> Any:
        lists = isinstance(left, list) and isinstance(right, list)
        if lists and isinstance(left, Made) != isinstance(right, Made):
            return unlike
        return inner(left, right)

    return wrapper


_MAKERS: Final = ("split", "splitusername", "splitslotname", "argstolist", "evalineachcontext")

KINDS: Final = Rules(
    operators={"is": _of_two_kinds(False), "isnt": _of_two_kinds(True)},
    functions=dict.fromkeys(_MAKERS, _made),
)


def _incomparable(inner: Wrapper, left: Any, right: Any) -> Any:
    both = isinstance(left, list) and isinstance(right, list)
    return ErrorType() if both else inner(left, right)


OUR_KINDS: Final = Rules(operators={"is": _incomparable, "isnt": _incomparable})

# --- the text of lists and ads --------------------------------------------------------------------


def written(node: Expr, indent: int | None = None) -> str:
    """An expression as HTCondor writes it; with an indent, over several lines as unparse() does."""
    pretty = indent is not None
    indent = indent or 0

    def inner(child: Expr, loosest: int = 0) -> str:
        text = written(child, indent if pretty else None)
        return f"({text})" if _level(child) < loosest else text

    if isinstance(node, Literal):
        return _constant(node.value)
    if isinstance(node, Attr):
        if node.base is None:
            return "." * node.absolute + _name(node.name)
        number = isinstance(node.base, Literal) and isinstance(node.base.value, (int, float))
        base = f"({inner(node.base)})" if number else inner(node.base, 13)
        return f"{base}.{node.name}"
    if isinstance(node, Unary):
        loosest = 15 if isinstance(node.operand, Literal) and node.operator == "-" else 11
        return f" {node.operator}{inner(node.operand, loosest)}"
    if isinstance(node, Binary):
        level = _LEVEL[node.operator]
        return f"{inner(node.left, level)} {node.operator} {inner(node.right, level + 1)}"
    if isinstance(node, Ternary):
        return f"{inner(node.condition, 1)} ? {inner(node.then)} : {inner(node.otherwise)}"
    if isinstance(node, Call):
        return f"{node.function}({','.join(map(inner, node.arguments))})"
    if isinstance(node, Subscript):
        return f"{inner(node.base, 13)}[{inner(node.index)}]"
    if isinstance(node, ListExpr):
        return _written_list(node, indent if pretty else None)
    assert isinstance(node, AdExpr)
    return _written_ad(node, indent if pretty else None)


def _name(name: str) -> str:
    """A name as it stands alone; after a dot it never has quotes."""
    return "'" + name + "'" if name.lower() == "parent" else unparse_name(name)


def _written_list(node: ListExpr, indent: int | None) -> str:
    if indent is None:
        return f"{{ {','.join(map(written, node.items))} }}"
    outer, within = "\n" + " " * (indent + 3), "\n" + " " * (indent + 6)
    items = ",".join(within + written(item, indent + 6) for item in node.items)
    return f"{outer}{{{items}{outer}}}"


def _written_ad(node: AdExpr, indent: int | None) -> str:
    # Short names come first.
    entries = sorted(
        zip(node.names, node.expressions, strict=True),
        key=lambda entry: (len(entry[0]), entry[0].lower()),
    )
    if indent is None:
        texts = [f"{_name(name)} = {written(value)}" for name, value in entries]
        return f"[ {'; '.join(texts)} ]"
    outer, within = "\n" + " " * (indent + 4), "\n" + " " * (indent + 8)
    lines = [f"{within}{_name(name)} = {written(value, indent + 8)}"
             for name, value in entries]  # fmt: skip
    return f"{outer}[{'; '.join(lines)}{outer}]"


def _constant(value: Value) -> str:
    if isinstance(value, float) and value and math.isfinite(value):
        return f"{value:.15E}"
    if isinstance(value, datetime):
        return f'absTime("{conversions.to_text(value)}")'
    return _OCTAL.sub(lambda match: f"\\{ord(match[0]):03o}", unparse_value(value))


# What bytes are written as: a character of more than one byte is one only by the rules for those.
_OCTAL: Final = re.compile(r"[\x80-\xff]")


def _text(inner: Wrapper, value: Value, budget: object = None) -> Any:
    if isinstance(value, Listed):
        return written(value.node)
    if isinstance(value, list):
        return f"{{ {','.join(_element(inner, item) for item in value)} }}"
    return written(value.expression()) if isinstance(value, ClassAd) else inner(value)


def _element(inner: Wrapper, value: Any) -> str:
    if isinstance(value, timedelta):
        return f'relTime("{inner(value)}")'
    if isinstance(value, (list, ClassAd)):
        return str(_text(inner, value))
    return written(literal(value))


def _unparsed(write: Callable[[Expr], str]) -> Wrapper:
    def wrapper(inner: Wrapper, arguments: tuple[Expr, ...], scope: CallScope) -> Any:
        name = arguments[0]
        if not isinstance(name, Attr) or name.base is not None or name.absolute:
            return inner(arguments, scope)
        known = scope.ad is not None and name.name in scope.ad
        return write(scope.ad.expr(name.name)) if scope.ad is not None and known else ""

    return wrapper


def _our_text(inner: Wrapper, value: Value, budget: object = None) -> Any:
    """What we do: a list by its values, an ad as it is written anywhere."""
    if isinstance(value, list):
        return f"{{ {','.join(map(_our_element, value))} }}"
    return str(value.expression()) if isinstance(value, ClassAd) else inner(value)


def _our_element(value: Value) -> str:
    if isinstance(value, list):
        return str(_our_text(_our_text, value))
    if isinstance(value, float) and value and math.isfinite(value):
        return f"{value:.15E}"
    return str(value.expression()) if isinstance(value, ClassAd) else str(literal(value))


def _has_brackets(part: Any) -> bool:
    if isinstance(part, list):
        return any(map(_has_brackets, part))
    return isinstance(part, str) and re.search(r"[\[{]", part) is not None


def _without_parentheses(answer: Answer, case: Case) -> Answer:
    """An answer without what a text may have of a source and not of its meaning.

    Only what unparse() gives is such a text, and what has braces or brackets.
    """
    whole = any("unparse" in text.lower() for text in (case.text, case.my, case.target))
    if not whole and not _has_brackets(answer):
        return answer

    def seen(answer: Answer) -> Answer:
        if answer[0] == "string":
            return ["string", re.sub(r"[()\s]", "", answer[1])]
        if answer[0] == "list" and isinstance(answer[1], list):
            return ["list", list(map(seen, answer[1]))]
        if answer[0] == "classad" and answer[1] and isinstance(answer[1][0], list):
            return ["classad", [[name, seen(value)] for name, value in answer[1]]]
        return answer

    return seen(answer)


_TO_TEXT: Final = [
    f"matchmaker.classad.functions.{module}:to_text"
    for module in ("conversions", "strings", "control")
]

TEXTS: Final = Rules(
    nodes=_LISTS,
    places=_CONTROL | dict.fromkeys(_TO_TEXT, _text),
    functions={"unparse": _unparsed(lambda node: written(node, 0))} | _CONTEXTS,
    view=_without_parentheses,
)
OUR_TEXTS: Final = Rules(
    nodes=_OUR_LISTS,
    places=dict.fromkeys(_TO_TEXT, _our_text),
    functions={"unparse": _unparsed(str)},
)
