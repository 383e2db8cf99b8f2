"""The policy ad: every threshold and target of a decision, as expressions with defaults.

Which terms there are, what each is evaluated against, its default and the reason for it are in the
table ``TERMS``; docs/pilots.md says the same for people. How a decision uses the values is in
:mod:`matchmaker.pilots.policy`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

import attrs

from matchmaker.classad import ClassAd, Expr, Value, dumps, parse_ad, parse_expr
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.quoting import closest, printable, shorten
from matchmaker.classad.references import names_of
from matchmaker.classad.values import is_number
from matchmaker.linting import lint
from matchmaker.matching.pair import value_text


class Of(StrEnum):
    """Whose facts a term is evaluated against, as TARGET."""

    POOL = "pool"
    KIND = "kind"
    QUEUE = "queue"


@attrs.frozen(slots=True)
class Term:
    """One attribute of a policy ad.

    Attributes:
        name: the attribute.
        of: whose facts it is evaluated against.
        default: its text where the policy does not give it.
        meaning: what it decides.
        reason: why the default is what it is.
        truth: whether it is a condition; else it is a number, at least 0.
    """

    name: str
    of: Of
    default: str
    meaning: str
    reason: str
    truth: bool = False


_LIST: Final = (
    Term("Active", Of.POOL, "TARGET.Waiting + TARGET.Running + TARGET.Arrived > 0",
         "whether the mode is active; else it is idle",
         "clients that ask for pilots have waiting jobs, clients that use them running ones", True),
    Term("Minimum", Of.POOL, "0",
         "free pilots (queued, starting or idle) that are there in either mode",
         "an idle pilot costs a slot: users and sites have to agree on one for nobody"),
    Term("Ready", Of.KIND, "120 * TARGET.Arrivals",
         "idle pilots that are kept for a kind in active mode",
         "the jobs that come while one is replaced: the wait for the next decision, and a minute to"
         " come up"),
    Term("Keep", Of.POOL, "0.25",
         "the part of a free pilot that kinds must want together, so that it is kept whole",
         "it idles for a cycle of two minutes; used, it saves a job some four minutes, and a minute"
         " waited counts for two idle ones: used one time in four, it is worth it"),
    Term("Standby", Of.KIND, "TARGET.Response * TARGET.Arrivals",
         "pilots that are queued ahead of a kind's jobs in active mode",
         "the jobs that come before a pilot submitted now would start"),
    Term("Hedge", Of.KIND, "TARGET.Known ? pow(TARGET.Response / 2, 2.0 / 3) : 1",
         "queued pilots for each waiting job; the rest are cancelled when the job runs",
         "the first of n starts about sqrt(n) times sooner than one, and each takes a second to"
         " submit: as many as save more than that; one until one of its queues started a pilot, so"
         " that no dead one is flooded"),
    Term("Horizon", Of.KIND, "60",
         "seconds within which a busy pilot must be expected to be free to count as supply",
         "one that is free sooner than a new pilot comes up is supply"),
    Term("Patience", Of.KIND, "2 * TARGET.Response",
         "seconds of waiting after which a kind no longer counts on busy pilots",
         "a new pilot would have started: those that were counted on served others"),
    Term("IdleThrottle", Of.POOL, "2 * TARGET.Free < TARGET.Minimum",
         "whether the quickest queues come first in idle mode",
         "nobody waits: haste only where the pool is less than half of what was agreed", True),
    Term("ActiveThrottle", Of.POOL, "TARGET.Unmet > 0",
         "whether the quickest queues come first in active mode",
         "a job waits that no free pilot can run", True),
    Term("Spread", Of.POOL, "4",
         "at full throttle, queues up to this many times slower than the quickest share",
         "starts scatter by about that factor, so that a slower queue is often the first"),
    Term("Weight", Of.QUEUE, "TARGET.Slots / TARGET.Response",
         "the chance of a queue under regular selection, relative to the others",
         "in proportion to the remaining slots; one that comes free sooner counts for more"),
    Term("Use", Of.QUEUE, "true", "whether pilots may be submitted to a queue",
         "a queue that is listed is meant to be used", True),
    Term("Failing", Of.QUEUE, "TARGET.Probing || TARGET.Streak >= 3",
         "whether a queue loses pilots: it gets a probe, and no more until that came back",
         "three losses in a row: one in a thousand where one pilot in ten is lost", True),
    Term("ProbeAfter", Of.QUEUE, "600 * pow(2, min({TARGET.Streak - 3, 6}))",
         "seconds between two probes of a queue that loses pilots",
         "ten minutes, and twice as long after each loss, at most half a day"),
    Term("MaxQueued", Of.QUEUE, "1000", "pilots that may wait at a queue, beside its own limit",
         "batch systems grow slow with thousands of waiting jobs of one owner"),
    Term("MaxPilots", Of.QUEUE, "10000", "pilots that may be at a queue, beside its own limit",
         "as many as the jobs that Slurm keeps in all by default"),
    Term("MaxTotal", Of.POOL, "1000000", "pilots that may be in all", "far above any pool so far"),
    Term("QueueStep", Of.QUEUE, "100", "pilots submitted to one queue in a cycle",
         "a submission takes about a second, and a cycle two minutes"),
    Term("Step", Of.POOL, "5000", "pilots submitted in a cycle",
         "fifty queues at their full step"),
    Term("Large", Of.POOL, "TARGET.Surplus >= 1",
         "whether there are enough pilots beyond need to end some",
         "what is wanted has its reserves already: Ready, Standby and the two graces", True),
    Term("IdleGrace", Of.POOL, "60",
         "seconds for which a pilot must have been idle to be ended",
         "ending and replacing it costs a minute too"),
    Term("QueuedGrace", Of.POOL, "120",
         "seconds for which a pilot must have been queued to be cancelled",
         "a cycle: what nobody wants a decision later would start for nothing"),
    Term("UnknownResponse", Of.POOL, "600",
         "seconds to a pilot's start where no queue has a history",
         "a few rounds of a batch system's scheduler"),
    Term("Memory", Of.POOL, "1800",
         "seconds after which an arrival weighs half in the rate of arrivals",
         "several response times, and short against a working day"),
    Term("Gap", Of.POOL, "3600",
         "a cycle of more seconds is taken for a jump of the clock",
         "no cycle is as long: after it no rate is learned and nothing is ended"),
    Term("SilentHold", Of.POOL, "1800",
         "seconds without an answer about demand after which free pilots are ended",
         "a restart of the source is over by then; longer, and idle slots are wasted"),
    Term("SilentShare", Of.POOL, "0.1",
         "share of the free pilots that is ended in each such cycle, queued ones first",
         "half of them stay for another seven cycles, if the source comes back"),
)  # fmt: skip

TERMS: Final[Mapping[str, Term]] = {ascii_fold(term.name): term for term in _LIST}
"""The terms by their folded names."""

LEND: Final = "Lend"
"""If given, idle pilots beyond need are not ended: they take the jobs for which it is true."""

_POOL: Final = {
    "Waiting": 1, "Running": 1, "Arrived": 1, "Arrivals": 0.1, "Unmet": 1, "Pilots": 1,
    "Queued": 1, "Starting": 1, "Idle": 1, "Busy": 1, "Draining": 1, "Free": 1, "Minimum": 1.0,
    "Surplus": 1,
}  # fmt: skip
FACTS: Final[Mapping[Of, ClassAd]] = {
    Of.POOL: ClassAd(_POOL),
    Of.KIND: ClassAd({
        "Kind": "a", "Group": "b", "Waiting": 1, "Running": 1, "Arrived": 1, "Arrivals": 0.1,
        "Bursts": 1.0, "Oldest": 1.0, "Wall": 1.0, "Response": 1.0, "Known": True,
        "Job": ClassAd(), "Pool": ClassAd(_POOL),
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
    """The terms of decisions about pilots: an ad, or its text, with defaults for what it lacks.

    Raises ParseError for text that is no ad, and TypeError for what is of another type. What makes
    no sense in it is found by :meth:`problems`; a decision goes on without it and says so.

    >>> policy = PolicyAd("[ Minimum = 5; Standbye = 3 ]")
    >>> policy.whole["Minimum"], policy.whole.expr("Hedge").references().target
    (5, ('Known', 'Response'))
    >>> policy.problems()
    ['Standbye is no term of a policy, and no term uses it; perhaps Standby is meant']
    """

    ad: ClassAd = attrs.field(factory=ClassAd, converter=_ad)

    @cached_property
    def whole(self) -> ClassAd:
        """The ad, with the defaults of the terms that it does not give."""
        whole = ClassAd({term.name: parse_expr(term.default) for term in TERMS.values()})
        whole.update(self.ad)
        return whole

    def reach(self, name: str) -> frozenset[str] | None:
        """The folded names of the facts that a term's value may hang on; None for any.

        What the policy's own attributes refer to in turn counts too.

        >>> policy = PolicyAd("[ Ready = MY.Keep; Keep = TARGET.Waiting > 5 ? 1 : 0 ]")
        >>> sorted(policy.reach("Ready"))
        ['keep', 'waiting']
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
        """What idle pilots beyond need may take, as text; empty where they are ended."""
        return str(self.ad.expr(LEND)) if LEND in self.ad else ""

    def value(self, term: Term, facts: ClassAd) -> float:
        """The value of a term on facts: a number of at least 0; 1 and 0 for true and false.

        Raises ValueError, saying what was found, for anything else.

        >>> PolicyAd("[ Step = -1 ]").value(TERMS["step"], ClassAd())
        Traceback (most recent call last):
        ...
        ValueError: Step = -1 is -1; a number of at least 0 was expected
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
        """What is wrong in the ad, or probably not meant, as sentences; empty for a sound policy.

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
                    # What the ads of jobs and pilots say is not known here.
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
        """What the linter finds in one term, with the names of the facts and the policy known.

        Without facts any name may be meant.
        """
        text = dumps(ClassAd({name: self.whole.expr(name)}))
        return [
            f"{printable(name)}: {finding.message}"
            for finding in lint(text, targets=facts, schema=list(self.whole) if facts else None)
        ]
