"""The methods of expressions and ads, in one table, and those that rewrite expressions.

Nodes and ads are imported by every module that does something with them. Their methods, such as
``Expr.eval``, call these modules through the table, so that no import goes in a circle.
"""

from __future__ import annotations

from typing import Any, Final

from matchmaker.classad import nodes
from matchmaker.classad.ad import ClassAd, literal
from matchmaker.classad.evaluate import evaluate, evaluate_attribute
from matchmaker.classad.functions import (
    BOOLEAN,
    INSIDE,
    UNFOLDABLE,
    Trait,
    Traits,
    result_of,
    traits_of,
)
from matchmaker.classad.nodes import AdExpr, Attr, Binary, Call, Expr, Literal
from matchmaker.classad.operators import CONNECTIVES, IDENTITY, RELATIONS
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.printer import quote as between
from matchmaker.classad.printer import unparse
from matchmaker.classad.values import UNDEFINED, Value
from matchmaker.classad.walks import children, fold, names_of, rebuild, references

_UNDECIDED: Final = UNFOLDABLE | {Trait.CHANCE}


def quote(text: str) -> str:
    r"""A string as it is written in an expression, in ASCII; ``unquote`` reads it back.

    Raises ValueError for a NUL and half a surrogate pair, which no string of an ad holds.

    >>> print(quote('say "é"'), unquote(quote('say "é"')))
    "say \"\303\251\"" say "é"
    """
    if not isinstance(text, str):
        raise TypeError(f"text was expected, not {type(text).__name__}")
    if "\0" in text:
        raise ValueError("a string cannot hold the character \\0")
    return "".join(
        char if char.isascii() else "".join(f"\\{byte:03o}" for byte in char.encode())
        for char in between(text, '"')
    )


def unquote(text: str) -> str:
    r"""The string that a text writes in double quotes. Raises ValueError for any other text.

    >>> unquote(r'"a\tb"')
    'a\tb'
    """
    node = parse_expr(text)
    # In parentheses it would be an expression, which has a value of its own.
    if not isinstance(node, Literal) or not isinstance(node.value, str) or text.lstrip()[0] == "(":
        raise ValueError(f"a string in double quotes was expected, not {text[:60]}")
    return node.value


def simplify(node: Expr, my: ClassAd | None = None, target: ClassAd | None = None) -> Expr:
    """See :meth:`Expr.simplify`."""
    return literal(evaluate(node, my, target))


def flatten(node: Expr, my: ClassAd | None = None) -> Value | Expr:
    """See :meth:`Expr.flatten`."""
    return _Flattening(ClassAd() if my is None else my).of(node)


class _Flattening:
    """Replace the parts of an expression that one ad decides by their values."""

    def __init__(self, ad: ClassAd) -> None:
        self._ad = ad
        self._known: dict[str, bool] = {}

    def of(self, root: Expr) -> Value | Expr:
        node = fold(root, self._step)
        if node is None:
            return evaluate(root, self._ad)
        return node.value if isinstance(node, Literal) else node

    def _step(self, node: Expr, parts: tuple[Expr | None, ...]) -> Expr | None:
        """Rewrite a node by its rewritten parts; None if the ad decides its value.

        So only the largest parts that the ad decides are evaluated, each once.
        """
        if isinstance(node, Attr):
            scope = nodes.scope_of(node)
            own = scope in nodes.MY_SCOPES and scope not in self._ad
            if own or node.base is None:
                return None if not node.absolute and self._decides(node.folded) else node
        traits: Traits = frozenset()
        if isinstance(node, Call):
            traits = traits_of(node.function, len(node.arguments))
        if isinstance(node, AdExpr) or traits & INSIDE:
            # In there names mean something else.
            return node
        if all(part is None for part in parts) and not traits & _UNDECIDED:
            return None
        old = children(node)
        new = [self._valued(old[at]) if part is None else part for at, part in enumerate(parts)]
        return _shorter(rebuild(node, tuple(new)))

    def _valued(self, node: Expr) -> Expr:
        """The literal of an expression that the ad decides; itself for a list or an ad."""
        value = evaluate(node, self._ad)
        return node if isinstance(value, (list, ClassAd)) else literal(value)

    def _decides(self, name: str) -> bool:
        """Whether the value of an attribute depends on no other ad and on no moment."""
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            folded = waiting.pop()
            if folded in seen or self._known.get(folded):
                continue
            seen.add(folded)
            if folded not in self._ad:
                # The other ad may have it.
                return self._known.setdefault(name, False)
            held: Any = self._ad[folded]
            names = names_of(held if isinstance(held, Expr) else nodes.TRUE)
            if names.opaque or names.volatile or names.target or names.traits & _UNDECIDED:
                return self._known.setdefault(name, False)
            waiting += names.bare | {each for each in names.my if each in self._ad}
        self._known |= dict.fromkeys(seen, True)
        return True


def _shorter(node: Expr) -> Expr:
    """Drop an operand that a constant makes idle, if that changes no value."""
    if isinstance(node, nodes.Ternary) and isinstance(node.condition, Literal):
        chosen = {True: node.then, False: node.otherwise}
        value = node.condition.value
        return chosen[value] if isinstance(value, bool) else node
    if not isinstance(node, Binary):
        return node
    left, right = node.left, node.right
    if node.operator == "?:" and isinstance(left, Literal):
        return right if left.value is UNDEFINED else left
    if node.operator in CONNECTIVES:
        idle = node.operator == "&&"
        if isinstance(left, Literal) and isinstance(left.value, bool):
            if left.value is not idle:
                return left
            return right if _is_condition(right) else node
        if isinstance(right, Literal) and right.value is idle and _is_condition(left):
            return left
    return node


def _is_condition(node: Expr) -> bool:
    """Whether a value can only be true or false, undefined or an error."""
    if isinstance(node, Binary):
        return node.operator in RELATIONS | IDENTITY | CONNECTIVES
    if isinstance(node, nodes.Unary):
        return node.operator == "!"
    return isinstance(node, Call) and result_of(node.function) == BOOLEAN


def bind() -> None:
    """Fill the table; ``matchmaker.classad`` does so once."""
    nodes.METHODS.update(
        evaluate=evaluate,
        evaluate_attribute=evaluate_attribute,
        flatten=flatten,
        parse_expr=parse_expr,
        references=references,
        simplify=simplify,
        unparse=unparse,
    )
