"""Binding: the facts of job and queue put into a requirement, host attributes left open.

After binding, an expression names only attributes of the host, as ``other.Name``, and has the same
value as before for every host. ``simplify`` then makes it shorter.

A name is a constant of the job or the queue, a variable of the host, or absent, which is UNDEFINED.
A requirement sees a queue and a host as one ad: the queue's attributes without those that describe
hosts, and the host's own. A scope's word (``my``, ``target``) is a name if an ad defines it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import attrs

from matchmaker._limits import REDUCTION_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd, literal
from matchmaker.classad.evaluate import evaluate, evaluate_counted
from matchmaker.classad.functions import INSIDE, UNFOLDABLE
from matchmaker.classad.nodes import FALSE, TARGET_SCOPES, TRUE, AdExpr, Attr, Expr, Literal
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.printer import brief, unparse
from matchmaker.classad.values import UNDEFINED, Value
from matchmaker.classad.walks import CLOCK, WORDS, children, names_of, rebuild, spine
from matchmaker.reduction.facts import MOVING, is_moving, traits

ScopeOf: TypeAlias = Callable[[str], str]
"""Says what a name, as it is spelled, describes; ``host`` makes it a variable."""

HOST: Final = "host"

TOO_DEEP: Final = "the requirement nests too deep to be reduced"


class ReductionError(ValueError):
    """A requirement cannot be reduced soundly; the message names the part and the reason."""


@attrs.frozen(slots=True)
class Binding:
    """The meaning of a name: ``host``, ``absent``, or ``constant`` with its value."""

    name: str
    kind: str
    value: Value = UNDEFINED


@attrs.frozen(slots=True, eq=False)
class _Side:
    """An ad as one side of the match. A queue's attributes that describe hosts are ignored."""

    ad: ClassAd
    is_queue: bool


def host_of(job: ClassAd) -> Attr:
    """Name a host in conditions that are evaluated with a job as ``MY``.

    Raises ReductionError for a job whose attributes hide both words.

    >>> print(host_of(ClassAd()), host_of(ClassAd(Other=1)))
    other TARGET
    """
    word = next((word for word in ("other", "TARGET") if word not in job), None)
    if word is None:
        raise ReductionError("the job has attributes named other and TARGET: rename one")
    return Attr(None, word, False)


@attrs.define(slots=True, eq=False)
class Binder:
    """Puts the facts of one job and one queue into one attribute of the job."""

    job: _Side
    queue: _Side
    scope: ScopeOf
    attribute: str
    host: Attr
    bindings: dict[str, Binding] = attrs.Factory(dict)
    _hosts: dict[str, bool] = attrs.Factory(dict)
    _open: dict[Expr, bool] = attrs.Factory(dict)
    _open_names: dict[str, bool] = attrs.Factory(dict)
    _defined_names: set[str] = attrs.Factory(set)
    _bound: dict[tuple[Expr, bool], Expr] = attrs.Factory(dict)
    _active: list[tuple[bool, str]] = attrs.Factory(list)
    _circular: set[tuple[bool, str]] = attrs.Factory(set)
    _steps: int = 0
    _evaluated: int = 0

    @classmethod
    def of(
        cls, job: ClassAd, queue: ClassAd, scope: ScopeOf, attribute: str = "Requirements"
    ) -> Binder:
        """The binder for an attribute of a job, such as its requirements, and a queue."""
        # A scope that takes every name it does not know for a host's means no word by that.
        named = {word for word in WORDS if scope(word) == HOST}
        if named and (named != WORDS or not named.isdisjoint(queue._held)):
            raise ReductionError(f"hosts may have an attribute named like a scope: {min(named)}")
        folded = ascii_fold(attribute)
        binder = cls(_Side(job, False), _Side(queue, True), scope, folded, host_of(job))
        binder._active.append((False, folded))
        return binder

    def bind(self, node: Expr) -> Expr:
        """Turns an expression of the job into one on the host alone, with the same values.

        Raises ReductionError if that would change the meaning.
        """
        if self._is_of_host(node):
            return node
        try:
            return self._bind(node, self.job)
        except RecursionError:
            raise ReductionError(TOO_DEEP) from None

    def _is_of_host(self, node: Expr) -> bool:
        """Whether an expression names attributes of the host alone, so that it needs no binding."""
        names = names_of(node)
        if not names.paths or names.nested or names.traits & UNFOLDABLE:
            return False
        for path in names.paths:
            if path.base is not self.host or not self._is_hosts(path.names[-1]):
                return False
        for path in names.paths:
            self.bindings.setdefault(path.text.lower(), Binding(path.text, HOST))
        return True

    def _bind(self, node: Expr, side: _Side) -> Expr:
        first, links = spine(node, self._is_open)
        bound = self._bind_part(first, side)
        for link in reversed(links):
            bound = rebuild(link, (bound, self._bind(link.right, side)))
        return bound

    def _bind_part(self, node: Expr, side: _Side) -> Expr:
        self._steps += 1
        if self._steps > LIMITS.steps:
            raise ReductionError(f"the requirement takes more than {LIMITS.steps} steps to reduce")
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
        elif isinstance(node, AdExpr) or traits(node) & INSIDE:
            raise ReductionError(
                f"{brief(node, 80)} looks at the host from inside; only plain conditions on "
                "the host can be reduced"
            )
        else:
            bound = rebuild(node, tuple(self._bind(child, side) for child in children(node)))
        if len(self._active) == 1 and circles == len(self._circular):
            # Inside an attribute the value may hang on which attributes led there.
            self._bound[node, side.is_queue] = bound
        return bound

    def _constant(self, node: Expr, side: _Side) -> Expr:
        """Evaluates a part that does not depend on the host to a literal."""
        names = names_of(node)
        # Expressions of the ads may take long, and many clauses may refer to them: count the steps.
        follows = not self._defined_names.isdisjoint(names.spelled)
        evaluate = self._counted if follows else self._evaluate
        for path in names.paths:
            folded = path.text.lower()
            if folded not in self.bindings:
                value = evaluate(path.node, side)
                kind = "absent" if value is UNDEFINED else "constant"
                self.bindings[folded] = Binding(path.text, kind, value)
        value = evaluate(node, side)
        if isinstance(value, bool):
            return TRUE if value else FALSE
        if _holds_ad(value):
            # An ad's attributes have their values in the ads around it, which a literal has not.
            raise ReductionError(f"{brief(node, 80)} is an ad, and meets what only a host knows")
        return literal(value)

    def _evaluate(self, node: Expr, side: _Side) -> Value:
        inside = "" if side.is_queue else self.attribute
        return evaluate(node, side.ad, self._opposite(side).ad, inside)

    def _counted(self, node: Expr, side: _Side) -> Value:
        inside = "" if side.is_queue else self.attribute
        value, used = evaluate_counted(node, side.ad, self._opposite(side).ad, inside)
        self._evaluated += used.steps
        if self._evaluated > LIMITS.evaluated:
            raise ReductionError("the facts of the requirement take too long to evaluate")
        return value

    def _opposite(self, side: _Side) -> _Side:
        return self.job if side.is_queue else self.queue

    def _attribute(self, node: Attr, side: _Side) -> Expr:
        if node.base is None:
            own = self._defined(node, side)
            if own is not None:
                if side.is_queue and self._is_hosts(node.name) and node.name in self.job.ad:
                    # Where the host has no such attribute, the bare name means the job's.
                    raise ReductionError(f"{node.name} may be the host's or the job's")
                return own
            if node.folded == CLOCK:
                return self._now(node)
            if node.folded in WORDS:
                raise _whole_ad(node)
            return Literal(UNDEFINED) if node.absolute else self._in(node, self._opposite(side))
        named = self._side_named(node.base, side)
        if named is None:
            base = self._bind(node.base, side)
            if node.folded in WORDS or (
                node.name in self.queue.ad and not self._is_hosts(node.name)
            ):
                # A name that an ad of the host lacks is looked up in the ads around it.
                raise ReductionError(
                    f"{node.name} in {brief(node, 80)} may be the host's or the queue's"
                )
            return rebuild(node, (base,))
        if node.name not in named.ad and not (named.is_queue and self._is_hosts(node.name)):
            if node.folded == CLOCK:
                return self._now(node)
            if node.folded in WORDS:
                raise _whole_ad(node)
        return self._in(node, named)

    def _now(self, node: Attr) -> Expr:
        if CLOCK in self.job.ad:
            raise ReductionError("the job sets CurrentTime, and also asks for the time")
        return Attr(None, node.name, False)

    def _side_named(self, base: Expr, side: _Side) -> _Side | None:
        """The side that words such as ``other`` or ``target.my`` stand for, or None."""
        if not isinstance(base, Attr) or base.absolute or base.folded not in WORDS:
            return None
        here = side if base.base is None else self._side_named(base.base, side)
        if here is None or base.folded == "parent" or base.folded in here.ad:
            return None
        return self._opposite(here) if base.folded in TARGET_SCOPES else here

    def _in(self, node: Attr, side: _Side) -> Expr:
        found = self._defined(node, side)
        return found if found is not None else Literal(UNDEFINED)

    def _defined(self, node: Attr, side: _Side) -> Expr | None:
        """The bound definition of a name on one side; None if that side lacks it."""
        if side.is_queue and self._is_hosts(node.name):
            found = node if node.base is self.host else Attr(self.host, node.name, False)
            text = f"{self.host.name}.{node.name}"
            self.bindings.setdefault(text.lower(), Binding(text, HOST))
            return found
        definition = side.ad.expr(node.name, None)
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

    def _is_hosts(self, name: str) -> bool:
        known = self._hosts.get(name)
        if known is None:
            known = self._hosts[name] = self.scope(name) == HOST and ascii_fold(name) not in WORDS
        return known

    def _is_open(self, node: Expr) -> bool:
        """Whether the value may depend on the host, by every name that the expression leads to.

        Errs on the safe side: a name that only looks like a host's makes a part open.
        """
        known = self._open.get(node)
        if known is None:
            names = names_of(node)
            if not is_moving(names) and not any(map(self._is_name_open, names.spelled)):
                self._open[node] = False
                return False
            for part in (*names.parts, node):
                if part not in self._open:
                    self._open[part] = self._is_part_open(part)
            known = self._open[node]
        return known

    def _is_part_open(self, node: Expr) -> bool:
        """As ``_is_open`` of an expression whose parts are known."""
        if not isinstance(node, Attr):
            is_open = self._open
            return bool(traits(node) & MOVING) or any(is_open.get(part) for part in children(node))
        # Behind any ad a scope's word leads to a whole ad.
        if node.folded in WORDS or node.folded == CLOCK or self._is_name_open(node.name):
            return True
        base = node.base
        if base is None or not _is_scope(base):
            return base is not None and self._open.get(base, False)
        # Where an ad defines a word, it is a name like any other.
        return any(self._is_name_open(name) for name in names_of(base).spelled)

    def _is_name_open(self, name: str) -> bool:
        """Whether a definition of a name, in either ad, leads to an attribute of the host."""
        if name not in self._open_names:
            self._follow(name)
        return self._open_names[name]

    def _follow(self, start: str) -> None:
        """Decides for a name, and for all names that it leads to, whether they lead to the host."""
        # Names as they are spelled: whether letter case counts is for the scope to say.
        pending = [start]
        mentioned_by: dict[str, list[str]] = {start: []}
        leading: list[str] = []
        while pending:
            name = pending.pop()
            folded = ascii_fold(name)
            if self._open_names.get(name) or folded == CLOCK or self._is_hosts(name):
                leading.append(name)
                continue
            if name in self._open_names:
                continue
            for side in (self.job, self.queue):
                definition = side.ad._held.get(folded)
                if isinstance(definition, Expr):
                    found = names_of(definition)
                    self._defined_names.add(name)
                    if is_moving(found):
                        leading.append(name)
                    pending += [inner for inner in found.spelled if inner not in mentioned_by]
                    for inner in found.spelled:
                        mentioned_by.setdefault(inner, []).append(name)
        for name in mentioned_by:
            self._open_names.setdefault(name, False)
        for name in leading:
            self._open_names[name] = True
        while leading:
            for name in mentioned_by[leading.pop()]:
                if not self._open_names[name]:
                    self._open_names[name] = True
                    leading.append(name)


def _is_scope(node: Expr) -> bool:
    """Whether a node is nothing but words for ads: ``other``, ``target.my``."""
    while isinstance(node, Attr) and node.folded in WORDS:
        if node.base is None:
            return True
        node = node.base
    return False


def _whole_ad(node: Attr) -> ReductionError:
    return ReductionError(f"the whole ad {unparse(node)} cannot be compared or passed on")


def _holds_ad(value: Value) -> bool:
    if isinstance(value, list):
        return any(_holds_ad(item) for item in value)
    return isinstance(value, ClassAd)
