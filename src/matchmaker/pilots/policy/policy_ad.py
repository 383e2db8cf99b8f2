"""The policy ad: the numbers of a decision, as expressions with defaults, and their values.

The terms are in the table ``TERMS``: each with the facts that it is evaluated against, its unit,
its default and the reason for it. docs/pilots.md says the same for people. How a decision uses them
is in ``decision``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from matchmaker.classad import ClassAd, Expr, Value, dumps, parse_ad, parse_expr
from matchmaker.classad.errors import closest, printable, shorten
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.values import is_number
from matchmaker.classad.walks import names_of
from matchmaker.linting import lint
from matchmaker.matching.pair import value_text

if TYPE_CHECKING:
    import numpy.typing as npt


class Of(StrEnum):
    """Whose facts a term is evaluated against, as TARGET."""

    POOL = "pool"
    KIND = "kind"
    QUEUE = "queue"


@attrs.frozen(slots=True)
class PolicyTerm:
    """One attribute of a policy ad.

    Attributes:
        name: the attribute.
        of: whose facts it is evaluated against.
        unit: of its value; ``condition`` for a term that is true or false, else a number of at
            least 0.
        default: its text if the policy does not give it.
        meaning: the decision that it makes.
        reason: the reason for the default.
    """

    name: str
    of: Of
    unit: str
    default: str
    meaning: str
    reason: str

    @property
    def truth(self) -> bool:
        """Whether the value is a condition."""
        return self.unit == CONDITION


CONDITION: Final = "condition"

_LIST: Final = (
    PolicyTerm("Minimum", Of.POOL, "pilots", "0",
               "free pilots (queued, starting or idle) that are kept though no job waits",
               "an idle pilot costs a slot: users and sites have to agree"),
    PolicyTerm("Everywhere", Of.KIND, "jobs", "10",
               "jobs without a pilot that ask for one at every queue that fits",
               "nobody knows which queue starts first"),
    PolicyTerm("Copies", Of.KIND, "queues", "max({1, 0.25 * TARGET.Queues})",
               "queues at which each further job asks, in shares",
               "at a quarter jobs wait hardly longer than at all"),
    PolicyTerm("Ready", Of.KIND, "pilots", "200 * TARGET.Arrivals",
               "idle pilots that are kept for jobs to come; none is submitted for them",
               "one that is used within three minutes saves a wait of that order"),
    PolicyTerm("Grace", Of.POOL, "seconds", "60",
               "until idle pilots that nobody needs end; waiting ones ten times as long",
               "a new one takes a minute to come up"),
    PolicyTerm("Weight", Of.QUEUE, "share", "1",
               "share of a queue of jobs that ask at some only",
               "past waits tell little"),
    PolicyTerm("Use", Of.QUEUE, CONDITION, "true",
               "whether pilots may be submitted",
               "a queue that is listed is meant to be used"),
    PolicyTerm("Limit", Of.QUEUE, "pilots", "1000",
               "pilots that wait at most, beside the queue's own limits",
               "thousands of one owner slow a batch system"),
    PolicyTerm("SilentHold", Of.POOL, "seconds", "1800",
               "without an answer about demand, until free pilots end little by little",
               "a restart of the source is over by then"),
)  # fmt: skip

TERMS: Final[Mapping[str, PolicyTerm]] = {ascii_fold(term.name): term for term in _LIST}
"""The terms by their folded names."""

LEND: Final = "Lend"
"""If given, idle pilots beyond need are not ended: they take the jobs for which it is true."""

_POOL: Final = {
    "Waiting": 1, "Running": 1, "Arrived": 1, "Arrivals": 0.1, "Pilots": 1, "Queued": 1,
    "Starting": 1, "Idle": 1, "Busy": 1, "Draining": 1, "Free": 1,
}  # fmt: skip
FACTS: Final[Mapping[Of, ClassAd]] = {
    Of.POOL: ClassAd(_POOL),
    Of.KIND: ClassAd({
        "Kind": "a", "Group": "b", "Waiting": 1, "Running": 1, "Arrived": 1, "Arrivals": 0.1,
        "Oldest": 1.0, "Wall": 1.0, "Queues": 1, "Job": ClassAd(), "Pool": ClassAd(_POOL),
    }),
    Of.QUEUE: ClassAd({
        "Queue": "a", "Slots": 1.0, "Response": 1.0, "Late": 1.0, "Wall": 1.0, "Known": True,
        "Failures": 0.1, "Streak": 0, "Probing": False, "Started": 1, "Pilots": 1, "Queued": 1,
        "Starting": 1, "Idle": 1, "Busy": 1, "Draining": 1, "Pilot": ClassAd(),
        "Pool": ClassAd(_POOL),
    }),
}  # fmt: skip
"""For each kind of facts an ad of typical ones: their names and kinds of values."""


def _ad(given: ClassAd | str | Mapping[str, Any]) -> ClassAd:
    if isinstance(given, str):
        return parse_ad(given)
    if not isinstance(given, Mapping):
        raise TypeError(f"a policy is an ad or its text, not {type(given).__name__}")
    return ClassAd(given)


@attrs.frozen(eq=False)
class PolicyAd:
    """The terms of decisions about pilots: an ad or its text, with defaults for missing terms.

    Raises ParseError for text that is no ad, and TypeError for other types. Mistakes in it are
    found by :meth:`problems`; a decision goes on without them and says so.

    >>> policy = PolicyAd("[ Minimum = 5; Readye = 3 ]")
    >>> policy.whole["Minimum"], policy.whole.expr("Ready").references().target
    (5, ('Arrivals',))
    >>> policy.problems()
    ['Readye is no term of a policy, and no term uses it; perhaps Ready is meant']
    """

    ad: ClassAd = attrs.field(factory=ClassAd, converter=_ad)

    @cached_property
    def whole(self) -> ClassAd:
        """The ad, with the defaults of the terms that it does not give."""
        whole = ClassAd({term.name: parse_expr(term.default) for term in TERMS.values()})
        whole.update(self.ad)
        return whole

    def reach(self, name: str) -> frozenset[str] | None:
        """Return the folded names of the facts that a term's value may depend on; None for any.

        References through the policy's own attributes count too.

        >>> policy = PolicyAd("[ Ready = MY.Some; Some = TARGET.Waiting > 5 ? 1 : 0 ]")
        >>> sorted(policy.reach("Ready"))
        ['some', 'waiting']
        """
        if name not in self._reach:
            self._reach[name] = self._reached(ascii_fold(name))
        return self._reach[name]

    _reach: dict[str, frozenset[str] | None] = attrs.field(factory=dict, init=False, repr=False)

    def _reached(self, name: str) -> frozenset[str] | None:
        found: set[str] = set()
        left = [name]
        while left:
            held = self.whole._held.get(left.pop())
            if not isinstance(held, Expr):
                continue
            names = names_of(held)
            if names.whole or names.opaque or names.nested:
                return None
            left.extend(names.attributes - found)
            found |= names.attributes
        return frozenset(found)

    @cached_property
    def expressions(self) -> Mapping[str, Expr]:
        """The expression of each term, by the name in ``TERMS``."""
        return {term.name: self.whole.expr(term.name) for term in TERMS.values()}

    @cached_property
    def uses(self) -> frozenset[str]:
        """The folded names that the policy's expressions refer to, in any scope."""
        names = [
            names_of(expression).attributes for expression in self.whole.expressions().values()
        ]
        return frozenset[str]().union(*names)

    @property
    def lends(self) -> str:
        """The condition on jobs that idle pilots beyond need may take; empty if they are ended."""
        return str(self.ad.expr(LEND)) if LEND in self.ad else ""

    def value(self, term: PolicyTerm, facts: ClassAd) -> float:
        """Return the value of a term on facts: a number of at least 0; 1 and 0 for true and false.

        Raises ValueError, with the value that was found, for anything else.

        >>> PolicyAd("[ Limit = -1 ]").value(TERMS["limit"], ClassAd())
        Traceback (most recent call last):
        ...
        ValueError: Limit = -1 is -1; a number of at least 0 was expected
        """
        held: Value = self.expressions[term.name].eval(my=self.whole, target=facts)
        if term.truth and isinstance(held, bool):
            return float(held)
        if not term.truth and is_number(held) and 0 <= held < math.inf:
            return float(held)
        expected = "true or false" if term.truth else "a number of at least 0"
        text = printable(shorten(str(self.whole.expr(term.name)), 80))
        raise ValueError(
            f"{term.name} = {text} is {printable(value_text(held))}; {expected} was expected"
        )

    def problems(self) -> list[str]:
        """List mistakes in the ad as sentences; empty for a sound policy.

        Names that no facts and no term have, mistakes that ``lint`` finds, and values of the wrong
        kind on typical facts.
        """
        used = {
            ascii_fold(name)
            for expression in self.ad.expressions().values()
            for name in (*expression.references().my, *expression.references().unscoped)
        }
        found = []
        for name in self.ad:
            folded = ascii_fold(name)
            if folded == ascii_fold(LEND):
                # Other work is not known here: its attributes are not checked.
                found += self._mistakes(name)
                held = self.ad.eval(name)
                if isinstance(held, str) or is_number(held):
                    found.append(
                        f"{LEND} is {printable(value_text(held))}; true, false or a condition on"
                        " a job was expected"
                    )
                continue
            term = TERMS.get(folded)
            if term is not None:
                found += self._mistakes(name, [FACTS[term.of]])
                try:
                    self.value(term, FACTS[term.of])
                except ValueError as problem:
                    # The attributes of jobs and pilots are not known here.
                    if not self.uses & {"job", "pilot"}:
                        found.append(str(problem))
            elif folded not in used:
                near = closest(name, {key: one.name for key, one in TERMS.items()})
                meant = f"; perhaps {near} is meant" if near else ""
                found.append(
                    f"{printable(name)} is no term of a policy, and no term uses it{meant}"
                )
        return found

    def _mistakes(self, name: str, facts: Sequence[ClassAd] = ()) -> list[str]:
        """Lint one term with the names of the facts and the policy; without facts any name goes."""
        text = dumps(ClassAd({name: self.whole.expr(name)}))
        return [
            f"{printable(name)}: {finding.message}"
            for finding in lint(text, targets=facts, schema=list(self.whole) if facts else None)
        ]


# --- values on many facts -------------------------------------------------------------------------


@attrs.frozen(eq=False)
class FactColumns:
    """The facts of each kind or of each queue, made when an expression first refers to one."""

    _make: Callable[[], Mapping[str, Sequence[Any]]]

    @cached_property
    def columns(self) -> Mapping[str, Sequence[Any]]:
        """The facts by name, all as long."""
        return self._make()

    @cached_property
    def folded(self) -> Mapping[str, Sequence[Any]]:
        """The facts by folded name, with the identity of an ad in its place."""
        return {
            ascii_fold(name): [*map(id, column)] if isinstance(column[0], ClassAd) else column
            for name, column in self.columns.items()
            if column
        }

    def __getitem__(self, row: int) -> ClassAd:
        return ClassAd({name: column[row] for name, column in self.columns.items()})


@attrs.frozen(eq=False)
class Values:
    """Evaluate a policy on facts, and note mistakes.

    A term without a sound value counts as 0 for a kind, and as its default for the pool; a queue is
    left out.

    Attributes:
        policy: the policy.
        notes: sentences, each once, in the order in which they came up.
    """

    policy: PolicyAd
    notes: dict[str, None] = attrs.field(factory=dict)

    def pool(self, name: str, facts: ClassAd) -> float:
        """Return the value of a term of the pool; its default's if it makes no sense."""
        term = TERMS[ascii_fold(name)]
        try:
            return self.policy.value(term, facts)
        except ValueError as problem:
            self.notes[f"{problem}; the default is used"] = None
            return _DEFAULT.value(term, facts)

    def each(
        self, name: str, facts: FactColumns, rows: npt.NDArray[np.bool_],
        unsound: Callable[[int, str], object] | None = None,
    ) -> npt.NDArray[np.float64]:  # fmt: skip
        """Return the values of a term on the marked rows of facts, 0 for the others.

        The term is evaluated once for all rows that agree in the facts that it refers to.
        `unsound` gets the row and the problem of each value that makes no sense, which is 0 too.
        """
        term = TERMS[ascii_fold(name)]
        names = self.policy.reach(term.name)
        columns = (
            [facts.folded[key] for key in sorted(names) if key in facts.folded] if names else []
        )
        values: dict[tuple[Any, ...] | int, float | str] = {}
        found = np.zeros(len(rows))
        for row in np.flatnonzero(rows).tolist():
            key = tuple(column[row] for column in columns) if names is not None else row
            value = values.get(key)
            if value is None:
                try:
                    on = ClassAd() if names == frozenset() else facts[row]
                    value = self.policy.value(term, on)
                except ValueError as problem:
                    value = str(problem)
                values[key] = value
            if isinstance(value, str):
                (unsound or self._note)(row, value)
            else:
                found[row] = value
        return found

    def _note(self, _: int, problem: str) -> None:
        if len(self.notes) < MOST_NOTES:
            self.notes[f"{problem}; it counts as 0"] = None


MOST_NOTES: Final = 100
"""Ten thousand kinds may have as many ways of being undefined."""
_DEFAULT: Final = PolicyAd()
