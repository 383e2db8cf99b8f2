"""What a name as the argument of a function stands for, with HTCondor and in a match of its."""

from __future__ import annotations

from matchmaker import ClassAd, Expr
from matchmaker.classad import reference as evaluation
from matchmaker.classad.nodes import Attr
from matchmaker.classad.state import CallScope, EvaluationState


class Match(EvaluationState):
    """An evaluation of two ads with one around both: what one of them lacks, the other may have."""

    def other(self, ad: ClassAd | None) -> ClassAd | None:
        """The ad in which a bare name is looked up that nothing around `ad` has."""
        if ad is self.left:
            return self.right
        return self.left if ad is self.right else None


def meant(name: Attr, scope: CallScope) -> tuple[Expr, ClassAd] | None:
    """The expression that a name stands for, and the ad that it stands in."""
    ad = scope.ad
    if name.base is not None:
        base = scope.eval(name.base)
        ad = base if isinstance(base, ClassAd) else None
    elif name.absolute and ad is not None:
        ad = ad.root
    holder = evaluation._defining(ad, name.folded)
    if holder is None and name.base is None and not name.absolute:
        state = scope.budget
        other = state.other(ad) if isinstance(state, Match) else state.opposite(ad)
        holder = evaluation._defining(other, name.folded)
    if holder is not None:
        return holder.expr(name.name), holder
    special = name.base is None and name.folded in evaluation._SPECIAL
    value = evaluation._special(name.folded, scope.budget, ad) if special else None
    return (value.expression(), value) if isinstance(value, ClassAd) else None
