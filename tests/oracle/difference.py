"""What a difference is, and how it accounts for a disagreement. The list is in ``differences``.

A difference says in ``Rules`` what HTCondor does, so that its answer can be computed: it accounts
for a disagreement only if HTCondor's answer is exactly what the rules give, and ours exactly what
ours give. Where no rules can be told, as for another library's regular expressions, it accounts for
its examples and for nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tests.oracle.answers import Compared, same
from tests.oracle.emulation import ANYTHING, OURS, Rules, answer_by
from tests.oracle.oracle import CRASHES, HANGS, Answer, Case


@attrs.frozen(slots=True)
class Example:
    """An expression, what we make of it, and, where no rules tell it, what HTCondor makes of it."""

    text: str
    ours: Answer
    my: str = "[ ]"
    target: str = ""
    theirs: Answer | None = None

    @property
    def case(self) -> Case:
        """The example as a case to ask both sides."""
        return Case(self.text, self.my, self.target)


@attrs.frozen(slots=True)
class Difference:
    """A kind of disagreement, why it is meant, what each side does, and examples of it.

    ``ours`` says in other words than the code what we do, where that can be said.
    """

    name: str
    reason: str
    examples: tuple[Example, ...]
    theirs: Rules | None = None
    ours: Rules = OURS
    unanswered: bool = False
    """Whether HTCondor gives no answer at all, which no rules can tell."""

    def accounts_for(self, one: Compared) -> bool:
        """Whether both answers to a case are just those that this difference says they are."""
        if self.unanswered:
            return one.theirs in (CRASHES, HANGS) and one.ours == answer_by(one.case, ())
        if self.theirs is not None:
            return computed(one, (self,))
        return any(
            one.case == example.case and one.ours == example.ours and one.theirs == example.theirs
            for example in self.examples
        )


def computed(one: Compared, chosen: Sequence[Difference]) -> bool:
    """Whether both answers are those that the rules of some differences together give."""
    views = [difference.theirs.view for difference in chosen if difference.theirs]

    def seen(answer: Answer) -> Answer:
        for view in views:
            answer = view(answer, one.case) if view else answer
        return answer

    theirs = answer_by(one.case, [known.theirs for known in chosen if known.theirs is not None])
    if theirs != ANYTHING and not same(seen(theirs), seen(one.theirs)):
        return False
    return answer_by(one.case, [known.ours for known in chosen]) == one.ours
