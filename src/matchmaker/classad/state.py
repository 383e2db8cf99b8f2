"""What an evaluation carries along: the two ads, what is being evaluated, what is used up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.budget import Budget
from matchmaker.classad.nodes import Expr
from matchmaker.classad.values import Value

Table: TypeAlias = "Mapping[type, Callable[[Any, State, ClassAd | None], Value]]"


class State(Budget):
    """One evaluation: the two ads of the match, and what has been used up."""

    # What few evaluations need stays with the class until it is set: a state is made for each one.
    active: set[tuple[int, str]] | None = None
    depth = 0
    nested: dict[tuple[int, Expr], ClassAd] | None = None
    context: ClassAd | None = None
    """The nested ad in which a function evaluates an expression of the match, if one does."""
    table: Table
    """What evaluates each kind of node: ``REFERENCE``, or what watches it and hands on to that."""
    watched = False

    def __init__(
        self,
        left: ClassAd | None,
        right: ClassAd | None,
        ad: ClassAd | None = None,
        folded: str = "",
    ) -> None:
        self.left = left
        self.right = right
        # The attribute with which the evaluation began.
        self.ad = ad
        self.folded = folded

    def circular(self) -> None:
        """Called when the attribute being evaluated leads back to itself."""

    def opposite(self, ad: ClassAd | None) -> ClassAd | None:
        """The ad that is TARGET for an expression in `ad`."""
        if ad is None:
            return self.right
        root = ad.root
        if root is self.left:
            return self.right
        return self.left if root is self.right else None


@attrs.frozen(slots=True, eq=False)
class Scope:
    """Where an expression stands: what functions that evaluate their own arguments are given."""

    budget: State
    ad: ClassAd | None

    def eval(self, node: Expr) -> Value:
        """The value of an expression here."""
        return self.budget.table[type(node)](node, self.budget, self.ad)

    def within(self, ad: ClassAd) -> Scope:
        """The scope of an expression that stands in another ad of the same evaluation."""
        return Scope(self.budget, ad)

    def in_context(self, ad: ClassAd, node: Expr) -> Value:
        """The value of an expression in a nested ad; bare names that it lacks may be in TARGET."""
        before, self.budget.context = self.budget.context, ad
        value = self.within(ad).eval(node)
        self.budget.context = before
        return value

    def against(self, other: ClassAd, node: Expr) -> Value:
        """The value of an expression here with another ad as TARGET."""
        state = self.budget
        before = state.left, state.right
        state.left, state.right = (None if self.ad is None else self.ad.root), other
        value = self.eval(node)
        state.left, state.right = before
        return value

    def spend(self, steps: int) -> None:
        """Counts work against the bound of the evaluation."""
        self.budget.spend(steps)
