"""Which computing elements (queues) may take a job, and which is best.

The rules are the gLite broker's: both sides agree, the broker's own conditions hold, a queue whose
rank is not a number is left out, and so is an ad past its expiry. Reading the ads is ``glue``'s
part; nodes and flags of the chosen queue are in ``routing``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Final

import attrs

from matchmaker.broker.sources import NAMES, named
from matchmaker.classad import ClassAd, Expr, parse_expr
from matchmaker.classad.evaluate import charged
from matchmaker.classad.given import an_ad, some_ads
from matchmaker.classad.values import is_error, is_number
from matchmaker.glue import Glue, expires
from matchmaker.glue.access import RULES, authorised, not_denied
from matchmaker.matching.names import RANK, REQUIREMENTS
from matchmaker.matching.pair import value_text
from matchmaker.matching.ranking import fuzzy
from matchmaker.matching.selection import Refusal, Resources, Selection, refused_by

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from matchmaker.matching.decision import Decision
    from matchmaker.matching.pool import Pool
    from matchmaker.matching.snapshot import Snapshot

UNKNOWN_RANK: Final = -2146660842.0
"""The default rank of a queue without an estimate of its response time."""
DEFAULT_RANK: Final = "-(other.GlueCEStateEstimatedResponseTime ?: 2146660842)"
"""The rank of a job without one: prefers the shortest estimated response time. A queue without an
estimate comes last: it counts as the number of seconds that providers publish for unknown."""
DEFAULT_REQUIREMENTS: Final = """other.GlueCEStateStatus is undefined
    || other.GlueCEStateStatus == "Production\""""
"""The requirements of a job without any: a queue in production, or one without a status."""

AUTHORISED: Final = authorised("MY", f"other.{RULES}")
"""A rule of access admits everybody, as GLUE 2.0 writes it, or the job's certificate, organisation,
or one of its VOMS groups and roles. An ad without the attribute is open: its author set no rule. A
queue of a dump always has it."""

NOT_DENIED: Final = not_denied("MY", f"other.{RULES}")
"""No rule denies everybody, or the job's certificate, organisation, or VOMS group or role."""

NOT_FULL: Final = """other.GlueCEPolicyMaxTotalJobs is undefined
    || other.GlueCEPolicyMaxTotalJobs == 0
    || (other.GlueCEStateRunningJobs + other.GlueCEStateWaitingJobs
        < other.GlueCEPolicyMaxTotalJobs) isnt false"""
"""The queue has fewer jobs than its limit. A limit of 0 is no limit; unknown numbers pass."""

ADMISSION: Final = (AUTHORISED, NOT_DENIED, NOT_FULL)
"""The broker's own conditions, checked before the job's requirements. (gLite WMS.)"""

YEAR_1: Final = -62135596800
"""The seconds from 1970 to the earliest time that Python has."""

IDENTITY: Final = ("CertificateSubject", "VirtualOrganisation", "FQAN")
"""The attributes of the user. They are evaluated without a queue, so none can change them."""


@attrs.frozen(slots=True, kw_only=True)
class Rules:
    """How the broker decides.

    ``admission`` are its own conditions, expressions with the job as MY, as text. ``both_ways``
    says whether the requirements of queues count. Queues in ``tried`` had this job before: they
    come after all others, the one that was tried first before the next. With ``fuzzy``, a number
    above 0, queues are drawn by lot, better ranks sooner (:func:`matchmaker.Pool.top` says how).

    Raises ValueError for another ``fuzzy``; TypeError for one that is no number, and for one text
    in the place of several.

    >>> Rules(fuzzy=-1)
    Traceback (most recent call last):
    ...
    ValueError: fuzzy is a number above 0, such as 1.0, or None for no lot; not -1
    """

    admission: Sequence[str] = attrs.field(default=ADMISSION)
    both_ways: bool = True
    tried: Sequence[str] = attrs.field(default=())
    fuzzy: float | None = attrs.field(default=None)

    @admission.validator
    @tried.validator
    def _several(self, field: attrs.Attribute[Sequence[str]], texts: object) -> None:
        if isinstance(texts, str):
            raise TypeError(
                f"{field.name} takes several texts, such as a list of them: [{texts!r}]"
            )

    @fuzzy.validator
    def _above_0(self, _: object, fuzzy: object) -> None:
        if fuzzy is None:
            return
        said = f"fuzzy is a number above 0, such as 1.0, or None for no lot; not {fuzzy!r}"
        if not is_number(fuzzy):
            raise TypeError(said)
        if not 0 < fuzzy < math.inf:
            raise ValueError(said)


DEFAULT: Final = Rules()


@charged
def choose(
    job: ClassAd,
    ces: Glue | Iterable[ClassAd] | Pool,
    at: datetime | None = None,
    tie: random.Random | None = None,
    rules: Rules = DEFAULT,
) -> Selection:
    """Filters and ranks computing elements for a job, with a reason for each refusal.

    A job without Requirements wants a queue in production. Without Rank it prefers the shortest
    estimated response time, and queues without an estimate come last. (gLite WMS, matchmaking; see
    docs/broker.md.)

    Args:
        job: the job's ad.
        ces: a GLUE description; or ads of computing elements, also wrapped as an information system
            does (``[id; update_time; expiry_time; info = […]]``); or a :func:`pool` of them.
        at: the time by which an ad must not have expired; by default now.
        tie: breaks ties of rank by chance, and draws for ``rules.fuzzy``; without it the batch
            system's default queue (``IsDefault``) comes first, then names decide.
        rules: how the broker decides.

    Raises:
        ParseError: a condition of ``rules.admission`` is no expression.

    >>> from matchmaker import parse_ad
    >>> job = parse_ad("[ Requirements = other.FreeCPUs > 0; Rank = other.FreeCPUs ]")
    >>> found = choose(job, [parse_ad('[ CEid = "a"; FreeCPUs = 3 ]'), parse_ad('[ CEid = "b" ]')])
    >>> found.chosen.name, found.refused[0].reason
    ('a', 'the job refuses: other.FreeCPUs > 0 is undefined (FreeCPUs = undefined)')
    """
    queues, asking, conditions = _loaded(ces), _asking(job), _conditions(rules)
    decision = queues.snapshot.decide(
        asking, conditions, _expired(queues.snapshot, at), both_ways=rules.both_ways
    )
    return queues.selection(
        decision,
        _order(queues, decision, tie, rules),
        lambda row: _refusal(queues, decision, row, asking, conditions),
    )


@attrs.frozen(slots=True)
class Choice:
    """The broker's decision for one of many jobs: names of queues, best first, and their ranks.

    ``unranked`` names queues that match and are left out because their rank is not a number.
    """

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    unranked: tuple[str, ...] = ()

    @property
    def chosen(self) -> str | None:
        """The name of the best queue, or None if none matches."""
        return self.names[0] if self.names else None


def pool(ces: Glue | Iterable[ClassAd]) -> Pool:
    """Makes a pool of computing elements by name, to be loaded once for many jobs.

    To change one later, ``update`` its ad, by its ``CEid``, or ``remove`` its name. Raises
    ValueError if two have the same name.

    >>> from matchmaker import parse_ad
    >>> kept = pool([parse_ad('[ CEid = "a"; FreeCPUs = 3 ]'), parse_ad('[ CEid = "b" ]')])
    >>> kept.keys()
    ['a', 'b']
    """
    from matchmaker.matching.pool import Pool

    made = Pool.of_named(named(_ads(ces)), key=NAMES[0])
    # The broker's own conditions are evaluated now, so that the first job need not wait.
    choose(ClassAd(), made)
    return made


def choose_many(
    jobs: Iterable[ClassAd],
    queues: Glue | Iterable[ClassAd] | Pool,
    tie: random.Random | None = None,
    rules: Rules = DEFAULT,
    at: datetime | None = None,
) -> Iterator[Choice]:
    """Ranks queues for many jobs as :func:`choose` does; equivalent jobs are decided once.

    Raises ParseError for an admission that is no expression.

    >>> from matchmaker import parse_ad
    >>> kept = pool([parse_ad('[ CEid = "a"; FreeCPUs = 3 ]'), parse_ad('[ CEid = "b" ]')])
    >>> jobs = [parse_ad(f"[ Requirements = other.FreeCPUs > {n}; Rank = 1 ]") for n in (1, 5)]
    >>> [choice.chosen for choice in choose_many(jobs, kept)]
    ['a', None]
    """
    from matchmaker.matching.decision import By

    loaded = _loaded(queues)
    for decision in loaded.snapshot.decide_many(
        map(_asking, some_ads(jobs)),
        _conditions(rules),
        _expired(loaded.snapshot, at),
        both_ways=rules.both_ways,
    ):
        order = _order(loaded, decision, tie, rules)
        names = tuple(loaded.names[row] for row in decision.rows[order].tolist())
        unranked = loaded.rows(decision.by == By.RANK)
        ranks = tuple(decision.ranks[order].tolist())
        yield Choice(names, ranks, tuple(loaded.names[row] for row in unranked))


def _ads(ces: Glue | Iterable[ClassAd]) -> Iterable[ClassAd]:
    return ces.computing_elements() if isinstance(ces, Glue) else some_ads(ces)


def _loaded(ces: Glue | Iterable[ClassAd] | Pool) -> Resources:
    from matchmaker.matching.pool import Pool

    if isinstance(ces, Pool):
        now = ces.snapshot()
        return Resources(now, now.view.keys, now.view.ad)
    return Resources.of(named(_ads(ces)))


def _expired(queues: Snapshot, at: datetime | None) -> npt.NDArray[np.bool_] | None:
    """A mask of the ads that have expired by a time; None if no ad has an expiry."""
    import numpy as np

    if "update_time" not in queues.view.columns or "expiry_time" not in queues.view.columns:
        return None
    now = (at if at is not None else datetime.now(UTC)).timestamp()
    ends = queues.values(parse_expr("other.update_time + other.expiry_time"))
    mask = np.zeros(queues.view.size, np.bool_)
    # An ad whose expiry is no time, or before the year 1, never expires.
    mask[queues.view.rows()] = [
        isinstance(end, (int, float)) and YEAR_1 <= end < now for end in ends
    ]
    return mask


def _refusal(
    queues: Resources, decision: Decision, row: int, job: ClassAd, conditions: Sequence[Expr]
) -> Refusal:
    """Explains why a row is refused."""
    from matchmaker.matching.decision import By

    name, ad, by = queues.names[row], queues.ad(row), By(int(decision.by[row]))
    if by is By.EXPIRY:
        said = f"its ad expired at {expires(ad):%Y-%m-%dT%H:%M:%SZ}"
        return Refusal(name, ad, "expiry", said)
    found = refused_by(by.name.lower(), job, name, ad, conditions, error=decision.error)
    clause = found.clause
    if clause is None or is_error(clause.value):
        return found
    meant = _meant().get(clause.definition or clause.expression)
    if meant is None:
        return found
    facts = ", ".join(f"{name} = {value_text(value)}" for name, value in clause.facts)
    return attrs.evolve(found, reason=f"{found.reason.partition(': ')[0]}: {meant} ({facts})")


@cache
def _meant() -> dict[Expr, str]:
    """Short words for the broker's own conditions when they are not true."""
    return {
        parse_expr(AUTHORISED): "no rule of access covers the job",
        parse_expr(authorised("other", RULES)): "no rule of access covers the job",
        parse_expr(NOT_DENIED): "a rule of access denies the job",
        parse_expr(not_denied("other", RULES)): "a rule of access denies the job",
        parse_expr(NOT_FULL): "the queue has as many jobs as it takes",
    }


@charged
def _asking(job: ClassAd) -> ClassAd:
    """The job to match: with default requirements and rank, and the user's attributes evaluated."""
    asking = an_ad(job).copy()
    for name in IDENTITY:
        if name in asking:
            asking[name] = job.eval(name)
    asking.setdefault(RANK, parse_expr(DEFAULT_RANK))
    asking.setdefault(REQUIREMENTS, parse_expr(DEFAULT_REQUIREMENTS))
    return asking


def _conditions(rules: Rules) -> list[Expr]:
    return [parse_expr(text) for text in rules.admission]


@charged
def _order(
    queues: Resources, decision: Decision, tie: random.Random | None, rules: Rules
) -> list[int]:
    """The places in ``decision.rows``, best first."""
    order = queues.ordered(decision, tie)
    if tie is None and "isdefault" in queues.snapshot.view.columns:
        # Of equal queues the batch system's own default comes first, then names decide.
        ranks, rows = decision.ranks.tolist(), decision.rows.tolist()
        order.sort(key=lambda at: (-ranks[at], queues.ad(rows[at]).eval("IsDefault") is not True))
    if rules.fuzzy is not None:
        chance = tie if tie is not None else random.Random()  # noqa: S311 - spreads jobs only
        drawn = fuzzy(decision.ranks[order], len(order), chance, rules.fuzzy)
        order = [order[place] for place in drawn]
    tried = {name: number for number, name in enumerate(rules.tried, 1)}
    if tried:
        rows = decision.rows.tolist()
        order.sort(key=lambda place: tried.get(queues.names[rows[place]], 0))
    return order
