"""What clauses leave of the alternatives of each other."""

from __future__ import annotations

import attrs

from matchmaker.batch.clauses import is_possible, shown
from matchmaker.batch.errors import NoHostError
from matchmaker.batch.limits import LIMITS
from matchmaker.classad.nodes import Expr
from matchmaker.classad.walks import conjunction
from matchmaker.reduction.domains import Box, first_contrary, meet_all


@attrs.define(slots=True, eq=False)
class Part:
    """A clause with its alternatives; those that other clauses rule out are removed."""

    clause: Expr
    boxes: list[Box]


def settle(parts: list[Part]) -> tuple[Box, list[Part]]:
    """The bounds of all clauses of one alternative together, and these clauses.

    Removes alternatives that those bounds rule out. A clause left without any is true of no host
    whose values are as in the mapping; other hosts may still satisfy the requirement.
    """
    common = Box()
    settled: list[Part] = []
    several = [part for part in parts if part.boxes]
    for _ in range(LIMITS.rounds):
        for part in several if settled else ():
            part.boxes = _possible(part.boxes, common)
        alone = [part for part in several if len(part.boxes) == 1]
        several = [part for part in several if len(part.boxes) > 1]
        while (met := meet_all([common, *(part.boxes[0] for part in alone)])) is None:
            contrary = alone.pop(first_contrary([common, *(part.boxes[0] for part in alone)]) - 1)
            contrary.boxes = []
            _check_possible(parts, contrary)
        common = met
        settled += alone
        if not alone:
            break
    empty = [part for part in parts if not part.boxes]
    if empty:
        _check_possible(parts, empty[0])
    return common, settled


def _check_possible(parts: list[Part], contrary: Part) -> None:
    """Raises NoHostError if no values satisfy all clauses, not even values beyond the mapping."""
    if not is_possible(conjunction([part.clause for part in parts])):
        raise NoHostError(
            f"the requirement is true of no host: its bounds contradict each other at "
            f"{shown(contrary.clause)}"
        )


def _possible(boxes: list[Box], common: Box) -> list[Box]:
    """The alternatives that the common bounds allow, without those within others."""
    near = common.on(boxes)
    left = [(box, met) for box in boxes if (met := box.meet(near)) is not None]
    return [
        box
        for place, (box, met) in enumerate(left)
        if not any(
            met.within(other) and (at < place or not other.within(met))
            for at, (_, other) in enumerate(left)
            if at != place
        )
    ]
