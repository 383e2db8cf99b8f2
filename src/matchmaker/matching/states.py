"""Whether a slot that matches is free now, and if not, why not.

A match says that a slot could run a job. Whether it can now is in other attributes of its ad:
HTCondor's State, Activity, Draining and Start, and the Available of described worker nodes. Here
each slot gets one word for that; ``columns.masks`` decides which slots match. A slot whose ad does
not say that it is free never counts as free. (HTCondor manual, "Policy Configuration for Execution
Points": the states and activities of a machine.)
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.evaluate import Allowance
from matchmaker.classad.nodes import Expr
from matchmaker.classad.operators import ascii_fold, truth
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.printer import unparse_name
from matchmaker.matching.columns.column import FALSE, TRUE, Rows
from matchmaker.matching.columns.evaluator import own_values
from matchmaker.matching.columns.store import View
from matchmaker.matching.columns.vectors import is_true, truths
from matchmaker.matching.pair import with_scopes

if TYPE_CHECKING:
    import numpy.typing as npt

NAMES: Final = ("State", "Activity", "Available", "Draining", "Start")
"""The attributes of a slot that say whether it is free. A pool may have other names for them."""

_NOBODY: Final = ClassAd()


class SlotState(StrEnum):
    """Whether a slot is free, or why it is not.

    ``RESERVED``: it is matched with a job of another, which has not claimed it yet. ``FULL``: a
    partitionable slot without a CPU left. ``SHUT``: its Start is false for the job. ``OTHER``: it
    is in another state, such as Backfill. ``UNSAID``: its ad does not say.
    """

    FREE = "free"
    CLAIMED = "claimed"
    DRAINING = "draining"
    OWNER = "owner"
    RESERVED = "reserved"
    FULL = "full"
    UNAVAILABLE = "unavailable"
    SHUT = "shut"
    OTHER = "other"
    UNSAID = "unsaid"

    @property
    def words(self) -> str:
        """The state in words that follow a number of slots: ``2`` ``kept by their owners``."""
        return _WORDS.get(self, self.value)

    @property
    def sentence(self) -> str:
        """A sentence about one slot in this state: ``it is claimed``."""
        return _SENTENCES.get(self, f"it is {self.value}")


_WORDS: Final = {
    SlotState.OWNER: "kept by their owners",
    SlotState.RESERVED: "reserved for another",
    SlotState.SHUT: "closed to the job by Start",
    SlotState.OTHER: "in another state",
    SlotState.UNSAID: "that do not say whether they are free",
}

_SENTENCES: Final = {
    SlotState.FREE: "it is free now",
    SlotState.OWNER: "its owner keeps it",
    SlotState.RESERVED: "it is reserved for another",
    SlotState.SHUT: "its Start is false for the job",
    SlotState.OTHER: "it is in another state",
    SlotState.UNSAID: "it does not say whether it is free",
}

_RULES: Final = (
    (SlotState.OWNER, '{State} == "Owner"'),
    (SlotState.DRAINING, '{State} == "Drained" || {Activity} == "Retiring" || {Draining} is true'),
    (SlotState.CLAIMED, '{State} == "Claimed" || {State} == "Preempting"'),
    (SlotState.CLAIMED, '{State} is undefined && {Activity} == "Busy"'),
    (SlotState.RESERVED, '{State} == "Matched"'),
    (SlotState.UNAVAILABLE, "{Available} is false"),
    (SlotState.FULL, "MY.PartitionableSlot is true && MY.Cpus is 0"),
    (SlotState.FREE, '{State} == "Unclaimed" && ({Available} is undefined || {Available} is true)'),
    (SlotState.FREE, "{State} is undefined && {Available} is true"),
    (SlotState.OTHER, '{State} != "Unclaimed"'),
)
"""The first rule that is true of a slot gives its state; if none is, the state is UNSAID. The Start
of a slot that would be free is evaluated as well."""

_ORDER: Final = tuple(SlotState)
_CODES: Final = {state: np.int8(code) for code, state in enumerate(_ORDER)}


def state_names(given: Mapping[str, str]) -> Mapping[str, str]:
    """A pool's own names for some of ``NAMES``. Raise ValueError for another name."""
    for name in given:
        if name not in NAMES:
            raise ValueError(f"{name} is none of {', '.join(NAMES)}, which say whether it is free")
    return dict(given)


def own_names(given: Mapping[str, str]) -> tuple[str, ...]:
    """All of ``NAMES``, with a pool's own names for some. Raise ValueError as above."""
    given = state_names(given)
    return tuple(given.get(name, name) for name in NAMES)


def _rules(names: tuple[str, ...]) -> tuple[tuple[SlotState, Expr], ...]:
    written = {name: f"MY.{unparse_name(own)}" for name, own in zip(NAMES, names, strict=True)}
    return tuple((state, parse_expr(text.format(**written))) for state, text in _RULES)


def _start(names: tuple[str, ...]) -> Expr:
    return parse_expr(f"MY.{unparse_name(names[-1])}")


@attrs.frozen(slots=True, eq=False)
class SlotStates:
    """The state of each slot of a pool, as the slots themselves say.

    ``said`` is whether any slot has one of the attributes.
    """

    view: View
    names: tuple[str, ...]
    said: bool
    _codes: npt.NDArray[np.int8]

    @classmethod
    def of(cls, view: View, names: Mapping[str, str] | None = None) -> SlotStates:
        """Evaluate the states of slots. `names` are the pool's own names for some of ``NAMES``.

        Raise ValueError for another name.
        """
        own = own_names(names or {})
        codes = np.full(view.size, _CODES[SlotState.UNSAID])
        rows = view.rows()
        columns = filter(None, map(view.columns.get, map(ascii_fold, own)))
        # A column stays when the last slot that has the attribute is removed.
        said = any(not column.missing(view.size)[rows].all() for column in columns)
        if said:
            for state, rule in _rules(own):
                found = is_true(own_values(view, rule, rows), len(rows))
                codes[rows[found]] = _CODES[state]
                rows = rows[~found]
        return cls(view, own, said, codes)

    def codes(self, job: ClassAd, rows: Rows) -> npt.NDArray[np.int8]:
        """The states of some rows for a job, as places in ``SlotState``."""
        codes = self._codes[rows]
        column = self.view.columns.get(ascii_fold(self.names[-1]))
        open_ = np.flatnonzero(codes == _CODES[SlotState.FREE])
        if column is None or not len(open_):
            return codes
        open_ = open_[~column.missing(self.view.size)[rows[open_]]]
        vector = own_values(self.view, _start(self.names), rows[open_], with_scopes(job))
        kinds = np.broadcast_to(truths(vector), open_.shape)
        codes[open_[kinds != TRUE]] = _CODES[SlotState.UNSAID]
        codes[open_[kinds == FALSE]] = _CODES[SlotState.SHUT]
        return codes

    def counts(self, job: ClassAd, rows: Rows) -> dict[str, int]:
        """How many of some rows are in each state, the free first; without those that none is in.

        >>> from matchmaker import Pool, parse_ads
        >>> pool = Pool(parse_ads('''[ Name = 1; State = "Unclaimed" ]
        ...   [ Name = 2; State = "Claimed" ] [ Name = 3 ]'''))
        >>> view = pool.snapshot()._view
        >>> SlotStates.of(view).counts(ClassAd(), view.rows())
        {'free': 1, 'claimed': 1, 'unsaid': 1}
        """
        found = np.bincount(self.codes(job, rows), minlength=len(_ORDER)).tolist()
        return {state.value: n for state, n in zip(_ORDER, found, strict=True) if n}


def state_of(job: ClassAd, slot: ClassAd, names: Mapping[str, str] | None = None) -> SlotState:
    """The state of one slot for a job, as ``SlotStates`` has it.

    >>> from matchmaker import parse_ad
    >>> slot = parse_ad('[ State = "Unclaimed"; Start = TARGET.Owner == "ana" ]')
    >>> [state_of(ClassAd(Owner=name), slot).value for name in ("ana", "ben")]
    ['free', 'shut']
    >>> state_of(ClassAd(), ClassAd()).words
    'that do not say whether they are free'
    """
    own = own_names(names or {})
    within = Allowance()
    for state, rule in _rules(own):
        if within.value(rule, slot, _NOBODY) is True:
            if state is not SlotState.FREE or own[-1] not in slot:
                return state
            start = truth(within.value(_start(own), slot, with_scopes(job)))
            return (
                SlotState.FREE
                if start is True
                else SlotState.SHUT
                if start is False
                else SlotState.UNSAID
            )
    return SlotState.UNSAID


def matching(matched: int, total: int, states: Mapping[str, int]) -> str:
    """How many slots match, and how many of these are free now, if any says.

    >>> print(matching(10, 47, {"free": 4, "claimed": 6}))
    10 of 47 match, 4 of them free now
    """
    text = f"{matched:,} of {total:,} match"
    if set(states) <= {SlotState.UNSAID}:
        return text
    known = "" if not states.get(SlotState.UNSAID) else "known to be "
    return f"{text}, {free_of(states.get(SlotState.FREE, 0), matched, known)}"


def free_of(free: int, slots: int, known: str = "") -> str:
    """How many of some slots are free now, as a clause of a sentence."""
    if slots == 1:
        return f"and it is {'' if free else 'not '}free now"
    if not free:
        return f"none of them {known}free now"
    return f"{'all' if free == slots else f'{free:,}'} of them free now"


def in_words(states: Mapping[str, int]) -> str:
    """Say how many slots are not free and why, on one line; nothing if all are free.

    >>> print(in_words({"free": 4, "claimed": 3, "owner": 2, "unsaid": 1}))
    not free: 3 claimed, 2 kept by their owners; 1 does not say whether it is free
    >>> in_words({"unsaid": 9}), in_words({"free": 2})
    ('none says whether it is free', '')
    """
    unsaid = states.get(SlotState.UNSAID, 0)
    if unsaid and len(states) == 1:
        return "none says whether it is free"
    held = [
        f"{n:,} {SlotState(name).words}"
        for name, n in states.items()
        if name not in (SlotState.FREE, SlotState.UNSAID)
    ]
    parts = [f"not free: {', '.join(held)}"] if held else []
    if unsaid:
        do = "does not say whether it is" if unsaid == 1 else "do not say whether they are"
        parts.append(f"{unsaid:,} {do} free")
    return "; ".join(parts)
