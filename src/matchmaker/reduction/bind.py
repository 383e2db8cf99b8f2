"""Binding: the facts of job and queue put into a requirement, host attributes left open.

After binding, an expression names nothing but attributes of the host, each as ``other.Name``, and
has the same value for every host as before. Making it shorter is ``simplify``'s affair.

Three bindings, as a name may be: a constant of the job or the queue, a variable of the host, or
absent, which is UNDEFINED and not left open. A requirement meets a queue and a host as one ad: the
queue's attributes without those that describe hosts, and the host's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import attrs

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.evaluate import evaluate
from matchmaker.classad.nodes import (
    MY_SCOPES,
    TARGET_SCOPES,
    AdExpr,
    Attr,
    Call,
    Expr,
    Literal,
    children,
    literal,
    postorder,
    rebuild,
)
from matchmaker.classad.unparse import unparse
from matchmaker.classad.values import UNDEFINED, Value
from matchmaker.reduction.simplify import REFLECTIVE, VOLATILE

ScopeOf: TypeAlias = Callable[[str], str]
"""Tells what a name describes; the answer ``host`` makes it a variable."""

HOST: Final = "host"

MAX_STEPS: Final = 100_000

OTHER: Final = Attr(None, "other", False)

NOW: Final = "currenttime"
"""An attribute that no ad needs to define, and that is no constant: the time of evaluation."""

_SCOPE_WORDS: Final = MY_SCOPES | TARGET_SCOPES | {"parent", "root", "toplevel"}


class ReductionError(ValueError):
    """A requirement that cannot be reduced soundly; the message names the part and says why."""


@attrs.frozen(slots=True)
class Binding:
    """What became of a name: ``host``, ``absent``, or ``constant`` with the value it has."""

    name: str
    kind: str
    value: Value = UNDEFINED


@attrs.frozen(slots=True, eq=False)
class _Side:
    """An ad as one side of the match. What a queue says of its hosts is never looked at."""

    ad: ClassAd
    is_queue: bool


@attrs.define(slots=True, eq=False)
class Binder:
    """One job and one queue, whose facts are put into expressions of the job."""

    job: _Side
    queue: _Side
    scope: ScopeOf
    bindings: dict[str, Binding] = attrs.Factory(dict)
    _open: dict[Expr, bool] = attrs.Factory(dict)
    _bound: dict[tuple[Expr, bool], Expr] = attrs.Factory(dict)
    _active: list[tuple[bool, str]] = attrs.Factory(list)
    _circular: set[tuple[bool, str]] = attrs.Factory(set)
    _steps: int = 0

    @classmethod
    def of(cls, job: ClassAd, queue: ClassAd, scope: ScopeOf) -> Binder:
        """The binder for a job and a queue."""
        return cls(_Side(job, False), _Side(queue, True), scope)

    def bind(self, node: Expr) -> Expr:
        """An expression of the job as one on the host alone, equal in value for every host.

        Raises ReductionError for what cannot be bound without changing its meaning.
        """
        try:
            return self._bind(node, self.job)
        except RecursionError:
            raise ReductionError("the requirement nests too deep to be reduced") from None

    def _bind(self, node: Expr, side: _Side) -> Expr:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise ReductionError(f"the requirement takes more than {MAX_STEPS} steps to reduce")
        if isinstance(node, Literal):
            return node
        known = self._bound.get((node, side.is_queue))
        if known is not None:
            return known
        circles = len(self._circular)
        if not self._is_open(node):
            bound = self._constant(node, side)
        elif isinstance(node, Attr):
            bound = self._attribute(node, side)
        elif isinstance(node, AdExpr) or (
            isinstance(node, Call) and node.function.lower() in REFLECTIVE
        ):
            raise ReductionError(
                f"{unparse(node)[:80]} looks at the host from inside; only plain conditions on "
                "the host can be reduced"
            )
        else:
            bound = rebuild(node, self._children(node, side))
        if not self._active and circles == len(self._circular):
            # Inside an attribute the value may hang on which attributes led there.
            self._bound[node, side.is_queue] = bound
        return bound

    def _children(self, node: Expr, side: _Side) -> tuple[Expr, ...]:
        return tuple(self._bind(child, side) for child in children(node))

    def _constant(self, node: Expr, side: _Side) -> Expr:
        """A part that no host has a say in, as the literal that it comes to."""
        opposite = self._opposite(side)
        bases = {part.base for part in postorder(node) if isinstance(part, Attr)}
        for part in postorder(node):
            if isinstance(part, Attr) and part not in bases:
                value = evaluate(part, side.ad, opposite.ad)
                kind = "absent" if value is UNDEFINED else "constant"
                self._note(unparse(part), kind, value)
        return literal(_closed(evaluate(node, side.ad, opposite.ad), 0))

    def _note(self, text: str, kind: str, value: Value = UNDEFINED) -> None:
        self.bindings.setdefault(text.lower(), Binding(text, kind, value))

    def _opposite(self, side: _Side) -> _Side:
        return self.job if side.is_queue else self.queue

    def _attribute(self, node: Attr, side: _Side) -> Expr:
        if node.base is None:
            own = self._defined(node, side)
            if own is not None:
                return own
            if node.folded == NOW:
                return node
            if node.folded in _SCOPE_WORDS:
                raise ReductionError(f"the whole ad {node.name} cannot be compared or passed on")
            return Literal(UNDEFINED) if node.absolute else self._in(node, self._opposite(side))
        named = self._side_named(node.base, side)
        if named is not None:
            return node if node.folded == NOW else self._in(node, named)
        return rebuild(node, (self._bind(node.base, side),))

    def _side_named(self, base: Expr, side: _Side) -> _Side | None:
        """The side that words such as ``other`` or ``target.my`` name; None for anything else."""
        if not isinstance(base, Attr) or base.absolute or base.folded not in _SCOPE_WORDS:
            return None
        here = side if base.base is None else self._side_named(base.base, side)
        if here is None or base.folded == "parent" or base.folded in here.ad:
            return None
        return self._opposite(here) if base.folded in TARGET_SCOPES else here

    def _in(self, node: Attr, side: _Side) -> Expr:
        found = self._defined(node, side)
        return found if found is not None else Literal(UNDEFINED)

    def _defined(self, node: Attr, side: _Side) -> Expr | None:
        """A name as one side defines it, with that side's facts put in; None where it does not."""
        if side.is_queue and self.scope(node.name) == HOST:
            self._note(f"other.{node.name}", HOST)
            return Attr(OTHER, node.name, False)
        definition = side.ad.get(node.name)
        if definition is None:
            return None
        key = (side.is_queue, node.folded)
        if key in self._active:
            self._circular.add(key)
            return Literal(UNDEFINED)
        self._active.append(key)
        try:
            return self._bind(definition, side)
        finally:
            self._active.pop()

    def _is_open(self, node: Expr) -> bool:
        """Whether a host may have a say in the value: judged by every name within reach.

        Errs on the open side: a name that only looks like a host's keeps the part open.
        """
        known = self._open.get(node)
        if known is None:
            known = self._open[node] = self._reaches_host(node)
        return known

    def _reaches_host(self, node: Expr) -> bool:
        seen: set[str] = set()
        pending = [node]
        while pending:
            parts = list(postorder(pending.pop()))
            bases = {part.base for part in parts if isinstance(part, Attr)}
            for part in parts:
                if isinstance(part, Call) and part.function.lower() in VOLATILE | {"eval"}:
                    return True
                if not isinstance(part, Attr) or part.folded in seen:
                    continue
                if (
                    part.folded == NOW
                    or self.scope(part.name) == HOST
                    or (
                        # An ad as a whole, which holds the host's attributes with the others.
                        part.folded in _SCOPE_WORDS and part not in bases
                    )
                ):
                    return True
                seen.add(part.folded)
                definitions = (side.ad.get(part.name) for side in (self.job, self.queue))
                pending += [definition for definition in definitions if definition is not None]
        return False


def _closed(value: Value, depth: int) -> Value:
    """A value without references to the ads around it: the attributes of nested ads as values."""
    if depth > 50:
        raise ReductionError("an ad in the requirement nests too deep")
    if isinstance(value, list):
        return [_closed(item, depth + 1) for item in value]
    if isinstance(value, ClassAd):
        return ClassAd((name, _closed(value.eval(name), depth + 1)) for name in value)
    return value
