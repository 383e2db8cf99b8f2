"""The slots of one negotiation cycle: which are free, and what those that divide have left.

A static slot serves one job. A partitionable one gives a job the part that it asks for, and its ad
then says what remains. Who gets which slot is in ``candidates`` and ``assignment``.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import numpy as np

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.evaluate import Allowance
from matchmaker.classad.nodes import Attr, Expr
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.values import UNDEFINED, Value
from matchmaker.matching.columns.column import Rows
from matchmaker.matching.columns.evaluator import own_values
from matchmaker.matching.columns.forms import unshared
from matchmaker.matching.columns.kept import Cache
from matchmaker.matching.columns.sparse import Shown
from matchmaker.matching.columns.step_budget import allowance
from matchmaker.matching.columns.vectors import (
    Mask,
    Same,
    Vector,
    is_true,
    numbers,
    values,
)
from matchmaker.matching.columns.views import View
from matchmaker.matching.decision import Decision, decide
from matchmaker.matching.given import with_scopes
from matchmaker.matching.pair import value_text
from matchmaker.matching.states import States

if TYPE_CHECKING:
    import numpy.typing as npt

Amounts: TypeAlias = "dict[str, int | float]"

PARTITIONABLE: Final = "partitionableslot"
_WHOLE: Final = 2.0**53
_NOBODY: Final = ClassAd()


def amount(value: Value) -> int | float | None:
    """A value as an amount of a resource: a finite number from 0 on, or None for any other value.

    A boolean counts as 0 or 1; a whole real becomes an integer.

    >>> amount(2.5), amount(1024.0), amount(True), amount(-1), amount("8 GB")
    (2.5, 1024, 1, None, None)
    """
    if not isinstance(value, (bool, int, float)) or not math.isfinite(value) or value < 0:
        return None
    whole = isinstance(value, float) and value.is_integer() and value < _WHOLE
    return int(value) if whole or isinstance(value, bool) else value


def no_amount(resource: str, expression: Expr, value: Value) -> str:
    """The error message for a request that is not an amount."""
    return f"{expression} is {value_text(value)}, which is no amount of {resource}"


@attrs.frozen(slots=True)
class Short:
    """Which resource a slot cannot give to a job, and why, in words."""

    resource: str
    reason: str


class Slots:
    """The slots of a pool in one cycle, by row.

    ``resources`` is what a job takes of a partitionable slot: by the slot's attribute, an
    expression of the job. ``free`` is an expression of the slots, ``names`` are their own names for
    what says whether they are free.
    """

    def __init__(
        self,
        view: View,
        cache: Cache,
        resources: Mapping[str, Expr],
        free: Expr,
        names: Mapping[str, str],
    ) -> None:
        self.view = view
        """The ads as they were when the cycle began."""
        self._names = names
        self.cache = cache
        self.resources = resources
        self._folded = {name: ascii_fold(name) for name in resources}
        columns = dict(view.held)
        for folded in self._folded.values():
            if folded in columns:
                columns[folded] = unshared(view.columns[folded])
        self.now: View = attrs.evolve(view, columns=Shown(columns), changing=True)
        """The ads as they are by now, with what is left of the resources."""
        alive = np.ones(view.size, np.bool_) if view.alive is None else view.alive
        self.free: Mask = alive & is_true(own_values(view, free), view.size)
        # Where it is true: not a number, and nothing else.
        divides = (value is True for value in values(_own(view, PARTITIONABLE), view.size))
        self.divisible: Mask = np.fromiter(divides, np.bool_, view.size)
        self.left: dict[str, npt.NDArray[np.float64]] = {}
        """About how much of each resource is left: reals, where the ads may hold integers."""
        for name, folded in self._folded.items():
            has, _ = numbers(_own(view, folded), view.size)
            self.left[name] = np.where(np.isfinite(has) & (has > 0), has, 0.0)
        self.clean: Mask = self.free.copy()
        """Free slots that are as they were when the cycle began."""
        self.each = allowance(len(view))
        """The steps that may be taken for each slot, by each question."""
        self.log = array("q")
        """The rows that have given a part, in the order in which they did."""
        self._touched = np.zeros(view.size, np.int64)

    @cached_property
    def places(self) -> npt.NDArray[np.int32]:
        """The place of each row in the order of the keys."""
        keys = self.now.keys
        found = np.zeros(self.now.size, np.int32)
        ordered = sorted(self.now.rows().tolist(), key=keys.__getitem__)
        found[ordered] = np.arange(len(ordered), dtype=np.int32)
        return found

    @cached_property
    def states(self) -> States:
        """What the slots say of being free."""
        return States.of(self.view, self._names)

    def decide(self, job: ClassAd) -> Decision:
        """Which slots match a job as they were when the cycle began."""
        return decide(self.view, job, self.cache, default_rank=0.0)

    def changed_since(self, moment: int) -> Rows:
        """The rows that have given a part since the log had this length, each once."""
        rows = np.frombuffer(self.log, np.int64)[moment:].copy()
        last: Rows = rows[self._touched[rows] == np.arange(moment + 1, len(self.log) + 1)]
        return last

    def unchanged_since(self, rows: Rows, moment: int) -> Mask:
        """Which of some rows have not given a part since the log had this length."""
        return np.less_equal(self._touched[rows], moment)

    def ask(self, job: ClassAd, row: int) -> Amounts | Short:
        """What a job would take of a slot as it is by now, or what the slot cannot give."""
        ad, job = self.now.ad(row), with_scopes(job)
        within = Allowance(self.each)
        divisible = self.divisible[row]
        taken: Amounts = {}
        for name, expression in self.resources.items():
            value = within.value(expression, job, ad)
            wanted = amount(value)
            if wanted is None:
                return Short(name, no_amount(name, expression, value))
            if not wanted or not divisible:
                continue
            has = self._own(ad, name) or 0
            if wanted > has:
                return Short(name, f"{wanted} {name} are more than the {has} left")
            taken[name] = wanted
        if not divisible:
            return {name: own for name in self.resources if (own := self._own(ad, name))}
        return taken

    def _own(self, ad: ClassAd, name: str) -> int | float | None:
        folded = self._folded[name]
        held = ad._held.get(folded, UNDEFINED)
        if isinstance(held, Expr):
            held = Allowance(self.each).value(held, ad, _NOBODY, folded)
        return amount(held)

    def take(self, row: int, taken: Amounts) -> None:
        """Gives a slot to a job: a static one whole, of a partitionable one what it takes."""
        if not self.divisible[row]:
            self.clean[row] = False
            return
        if not taken:
            return
        ad = self.now.ad(row)
        for name, wanted in taken.items():
            left = amount((self._own(ad, name) or 0) - wanted) or 0
            self.now.columns[self._folded[name]].put(row, left)
        # A resource may be defined by another: Disk = Cpus * 1000.
        ad = self.now.ad(row)
        for name in self.resources:
            self.left[name][row] = self._own(ad, name) or 0
        self.clean[row] = False
        self.log.append(row)
        self._touched[row] = len(self.log)

    def remains(self) -> dict[str, Amounts]:
        """What the slots that have given a part still have, by key."""
        found = {}
        for row in sorted(set(self.log)):
            ad = self.now.ad(row)
            own = {name: self._own(ad, name) for name in self.resources}
            found[self.now.keys[row]] = {n: has for n, has in own.items() if has is not None}
        return found


def _own(view: View, folded: str) -> Vector:
    """The values of an attribute of the slots, each by itself."""
    if folded not in view.columns:
        return Same(UNDEFINED)
    return own_values(view, Attr(None, folded, False))
