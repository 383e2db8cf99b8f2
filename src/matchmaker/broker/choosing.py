"""Choose the computing elements (queues) that may take a job, and the best of them.

The rules are the gLite broker's: both sides agree, the broker's own conditions hold, a queue whose
rank is not a number is left out, and so is an ad past its expiry. ``glue`` reads the ads;
``routing`` finds nodes and flags of the chosen queue.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Final, get_args

import attrs

from matchmaker.broker.sources import NAMES, each_named, own_name
from matchmaker.classad import ClassAd, Expr, parse_expr
from matchmaker.classad.ad import an_ad, some_ads
from matchmaker.classad.evaluate import charged
from matchmaker.classad.operators import truth
from matchmaker.classad.values import is_error, is_number
from matchmaker.classad.walks import conjuncts
from matchmaker.glue import expires
from matchmaker.glue.access import ALSO, IGNORED, RULES, Access, authorised, known, not_denied
from matchmaker.glue.flatten import CHECKS, END, REASON, START
from matchmaker.matching.pair import RANK, REQUIREMENTS
from matchmaker.matching.ranking import fuzzy
from matchmaker.matching.selection import NamedAds, Refusal, Selection, refused_by

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from matchmaker.matching.columns.column import Rows
    from matchmaker.matching.columns.masks import MatchDecision
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

AUTHORISED: Final = authorised("MY", "other.")
"""A rule of access names the job's certificate, VO, or one of its VOMS groups and roles, or
everybody. Whom a queue without rules admits is unknown: it passes (see ``Rules.access``)."""

NOT_DENIED: Final = not_denied("MY", "other.")
"""No rule denies the job's certificate, VO, or VOMS group or role, or everybody."""

KNOWN: Final = known("other.")
"""The queue publishes rules of access, so that whom it admits is known."""

NOT_FULL: Final = """other.GlueCEPolicyMaxTotalJobs is undefined
    || other.GlueCEPolicyMaxTotalJobs == 0
    || (other.GlueCEStateRunningJobs + other.GlueCEStateWaitingJobs
        < other.GlueCEPolicyMaxTotalJobs) isnt false"""
"""The queue has fewer jobs than its limit. A limit of 0 is no limit; unknown numbers pass."""

SHORT_ENOUGH: Final = """(MY.MaxWallTime <= other.GlueCEPolicyMaxWallClockTime) isnt false
    || other.GlueCEPolicyMaxWallClockTime == 0"""
"""The job asks for no more wall time than the queue allows, both in minutes. A limit of 0 is no
limit; unknown numbers pass."""

SMALL_ENOUGH: Final = """(MY.RequestCpus <= other.MaxCpusPerNode) isnt false
    && (MY.RequestMemory <= other.MaxMemoryPerNode) isnt false"""
"""The job asks for no more processors and memory (MiB) than the queue gives one job on a node."""

TAKES_JOBS: Final = """(other.GlueCEStateStatus == "Draining"
        || other.GlueCEStateStatus == "Closed") isnt true
    || other.QueueName is undefined || other.GlueCEUniqueID isnt undefined"""
"""The batch system accepts jobs for the queue, if it was asked itself: such a queue has a
``QueueName`` and no id of a grid. Of a grid's queue the job's own requirements decide (gLite)."""

NO_DOWNTIME: Final = f"""(int(other.{END}) <= CurrentTime
        || int(other.{START}) >= CurrentTime + 60 * (MY.MaxWallTime ?: 1)) isnt false"""
"""The queue is in no downtime, and none begins before the job's wall time (minutes) is over; a job
that names none is taken until the downtime begins. The time is the broker's (``at``)."""

FREE_SLOTS: Final = "other.GlueCEStateFreeJobSlots ?: other.GlueCEStateFreeCPUs"
"""The slots of a queue that are free now, one processor each, for jobs that are chosen together."""

CPUS: Final = "MY.RequestCpus ?: MY.CPUNumber ?: 1"
"""The slots that a job takes: its processors, as HTCondor or as gLite calls them."""

_MAY_START: Final = """other.GlueCEPolicyMaxRunningJobs > 0
    ? other.GlueCEPolicyMaxRunningJobs - other.GlueCEStateRunningJobs : undefined"""
_MAY_COME: Final = """other.GlueCEPolicyMaxTotalJobs > 0
    ? other.GlueCEPolicyMaxTotalJobs - other.GlueCEStateRunningJobs - other.GlueCEStateWaitingJobs
    : undefined"""

ADMISSION: Final = (
    *(AUTHORISED, NOT_DENIED, NOT_FULL),
    *(SHORT_ENOUGH, SMALL_ENOUGH, TAKES_JOBS, NO_DOWNTIME),
)
"""The broker's own conditions, checked before the job's requirements. The first three are those of
the gLite WMS."""

NOT_TAKEN: Final = "the batch system takes no jobs for the queue"
"""What ``TAKES_JOBS`` means when it is not true."""

YEAR_1: Final = -62135596800
"""The seconds from 1970 to the earliest time that Python has."""

IDENTITY: Final = ("CertificateSubject", "VirtualOrganisation", "FQAN")
"""The attributes of the user. They are evaluated without a queue, so none can change them."""


@attrs.frozen(slots=True, kw_only=True)
class Rules:
    """Settings of the broker's decision.

    ``admission`` are its own conditions, expressions with the job as MY, as text. ``both_ways``
    says whether the requirements of queues count. Queues in ``tried`` had this job before: they
    come after all others, the one that was tried first before the next. ``access`` says which
    queues a job may use: those that are ``known`` to admit it by the rules that they publish; with
    ``published`` those too that publish none, which come after all that are known; ``any`` ignores
    rules. With ``fuzzy``, a number above 0, queues are drawn by lot, better ranks sooner
    (:func:`matchmaker.Pool.top` says how). ``free_slots`` is an expression, as text, for the free
    slots of a queue, which :func:`choose_many` does not give away twice; with None it chooses for
    each job as if no other came.

    >>> Rules(fuzzy=-1)
    Traceback (most recent call last):
    ...
    ValueError: fuzzy is a number above 0, such as 1.0, or None for no lot; not -1
    """

    admission: Sequence[str] = ADMISSION
    both_ways: bool = True
    access: Access = "published"
    tried: Sequence[str] = ()
    fuzzy: float | None = None
    free_slots: str | None = FREE_SLOTS

    def __attrs_post_init__(self) -> None:
        for name, several in (("admission", self.admission), ("tried", self.tried)):
            if isinstance(several, str):
                raise TypeError(
                    f"{name} takes several texts, such as a list of them: [{several!r}]"
                )
        if self.access not in (known := get_args(Access)):
            raise ValueError(f"access is one of {', '.join(known)}; not {self.access!r}")
        free: object = self.free_slots
        if free is not None and not isinstance(free, str):
            raise TypeError(f"free_slots takes an expression as text, or None, not {free!r}")
        said = f"fuzzy is a number above 0, such as 1.0, or None for no lot; not {self.fuzzy!r}"
        if self.fuzzy is not None and not is_number(self.fuzzy):
            raise TypeError(said)
        if self.fuzzy is not None and not 0 < self.fuzzy < math.inf:
            raise ValueError(said)


DEFAULT: Final = Rules()


@charged
def choose(
    job: ClassAd,
    ces: Iterable[ClassAd] | Pool,
    *,
    at: datetime | None = None,
    tie: random.Random | None = None,
    rules: Rules = DEFAULT,
) -> Selection:
    """Filter and rank computing elements for a job, with a reason for each refusal.

    A job without Requirements wants a queue in production. Without Rank it prefers the shortest
    estimated response time, and queues without an estimate come last. (gLite WMS, matchmaking; see
    docs/broker.md.)

    Args:
        job: the job's ad.
        ces: a GLUE description; queues from :func:`merged`; ads of computing elements, also wrapped
            as an information system does (``[id; update_time; expiry_time; info = […]]``); or a
            :func:`pool` of any of these.
        at: the time by which an ad must not have expired; by default now.
        tie: breaks ties of rank by chance, and draws for ``rules.fuzzy``; without it the batch
            system's default queue (``IsDefault``) comes first, then names decide.
        rules: how the broker decides.

    Raises:
        ParseError: a condition of ``rules.admission`` cannot be read.

    >>> from matchmaker import parse_ad
    >>> job = parse_ad("[ Requirements = other.FreeCPUs > 0; Rank = other.FreeCPUs ]")
    >>> found = choose(job, [parse_ad('[ CEid = "a"; FreeCPUs = 3 ]'), parse_ad('[ CEid = "b" ]')])
    >>> found.chosen.name, found.refused[0].reason
    ('a', 'the job refuses: other.FreeCPUs > 0 is undefined (FreeCPUs = undefined)')
    """
    _check(at, tie, rules)
    queues, asking = _loaded(ces), _asking(job, rules)
    conditions = _conditions(rules, queues.snapshot, at)
    decision = queues.snapshot.decide(
        asking, conditions, _expired(queues.snapshot, at), both_ways=rules.both_ways
    )
    return queues.selection(
        decision,
        _order(queues, decision, tie, rules, _Marked.of(queues.snapshot)),
        lambda row: _refusal(queues, decision, row, asking, conditions),
    )


def _few(items: Sequence[object]) -> str:
    return repr(tuple(items)) if len(items) <= 3 else f"({repr(items[:3])[1:-1]}, ... {len(items)})"


@attrs.frozen(slots=True)
class Choice:
    """The broker's decision for one of many jobs.

    Attributes:
        names: the queues that match, best rank first.
        chosen: the name of the queue that the job goes to; None if none matches, or if all are
            full.
        waits: whether the job waits there: no queue that matches has enough free slots left.
        unranked: queues that match and are left out, as their rank is not a number.
    """

    names: tuple[str, ...] = attrs.field(repr=_few)
    ranks: tuple[float, ...] = attrs.field(repr=_few)
    chosen: str | None
    waits: bool = False
    unranked: tuple[str, ...] = attrs.field(default=(), repr=_few)

    @property
    def rank(self) -> float | None:
        """The rank of the queue that the job goes to."""
        return None if self.chosen is None else self.ranks[self.names.index(self.chosen)]


def pool(ces: Iterable[ClassAd]) -> Pool:
    """Make a pool of computing elements by name, to be loaded once for many jobs.

    To change it later, ``update`` an ad, ``remove`` a name, or ``replace`` all by a new reading.
    Both go by the name that an ad gives itself (``CEid``, ``GlueCEUniqueID``, ``id``, ``Name``).
    Raises ValueError if two have the same name; :func:`merged` keeps the first of them.

    >>> from matchmaker import parse_ad
    >>> kept = pool([parse_ad('[ CEid = "a"; FreeCPUs = 3 ]'), parse_ad('[ CEid = "b" ]')])
    >>> kept.replace([parse_ad('[ CEid = "a"; FreeCPUs = 2 ]'), parse_ad('[ CEid = "c" ]')])
    PoolChanges(added=('c',), changed=('a',), vanished=('b',))
    """
    from matchmaker.matching.pool import Pool

    made = Pool.of_named(each_named(ces), key=NAMES[0], naming=own_name)
    # The broker's own conditions are evaluated now, so that the first job need not wait.
    choose(ClassAd(), made)
    return made


def choose_many(
    jobs: Iterable[ClassAd],
    queues: Iterable[ClassAd] | Pool,
    *,
    at: datetime | None = None,
    tie: random.Random | None = None,
    rules: Rules = DEFAULT,
) -> list[Choice]:
    """Choose a queue for each of many jobs, in their order, and give no free slot away twice.

    Jobs match and rank queues as in :func:`choose`; equivalent jobs are decided once, and ranks are
    not computed anew as slots are taken. A job goes to the best queue with as many free slots left
    as it has processors (``RequestCpus``, else ``CPUNumber``, else 1). If no queue that matches
    has, it goes to the best one, takes no slot, and ``Choice.waits`` says so.

    A queue that does not publish its free slots has room, and one with
    ``GlueCEPolicyMaxRunningJobs`` starts no more jobs than that. With the condition ``NOT_FULL`` no
    queue gets more jobs than ``GlueCEPolicyMaxTotalJobs`` in all. ``Rules(free_slots=None)``
    chooses the best queue for each job, as if no other came.

    >>> from matchmaker import parse_ad
    >>> kept = pool(parse_ad(f'[ CEid = "{name}"; GlueCEStateFreeJobSlots = 1; P = {p} ]')
    ...             for name, p in (("a", 2), ("b", 1)))
    >>> jobs = [parse_ad("[ Requirements = true; Rank = other.P ]")] * 3
    >>> [(choice.chosen, choice.waits) for choice in choose_many(jobs, kept)]
    [('a', False), ('b', False), ('a', True)]
    """
    _check(at, tie, rules)
    loaded = _loaded(queues)
    loaded = attrs.evolve(loaded, names=list(loaded.names))
    now, conditions = loaded.snapshot, _conditions(rules, loaded.snapshot, at)
    room, clusters = _Room(now, rules), now.clusters(conditions)
    expired, marked = _expired(now, at), _Marked.of(now)
    drawn = tie is not None or rules.fuzzy is not None
    known: dict[Hashable, tuple[MatchDecision | None, Rows, Choice]] = {}
    found = []
    for asking in (_asking(job, rules) for job in some_ads(jobs)):
        cluster = clusters.of(asking)
        decision, rows, choice = known.get(cluster, (None, None, None))
        if rows is None or choice is None or drawn:
            decision = decision or now.decide(
                asking, conditions, expired, both_ways=rules.both_ways
            )
            rows, choice = _choice(loaded, decision, _order(loaded, decision, tie, rules, marked))
            known[cluster] = decision if drawn else None, rows, choice
        row, waits = room.take(rows, asking)
        chosen = None if row is None else loaded.names[row]
        found.append(attrs.evolve(choice, chosen=chosen, waits=waits))
    return found


def _choice(queues: NamedAds, decision: MatchDecision, order: list[int]) -> tuple[Rows, Choice]:
    """Return the rows that match a job, best first, and the choice by name."""
    from matchmaker.matching.columns.masks import RefusedBy

    rows = decision.rows[order]
    unranked = queues.rows(decision.by == RefusedBy.RANK)
    return rows, Choice(
        tuple(queues.names[row] for row in rows.tolist()),
        tuple(decision.ranks[order].tolist()),
        chosen=None,
        unranked=tuple(queues.names[row] for row in unranked),
    )


def _check(at: object, tie: object, rules: object) -> None:
    if at is not None and not isinstance(at, datetime):
        raise TypeError(f"at is a datetime, such as datetime.now(UTC), not {at!r}")
    if tie is not None and not isinstance(tie, random.Random):
        raise TypeError(f"tie is a random.Random, such as random.Random(7), not {tie!r}")
    if not isinstance(rules, Rules):
        raise TypeError(f"rules is a Rules, such as Rules(fuzzy=1.0), not {rules!r}")


class _Room:
    """The free slots of queues while jobs are assigned to them."""

    def __init__(self, queues: Snapshot, rules: Rules) -> None:
        """Read the published numbers, as far as the rules respect them; the unknown is infinite."""
        import numpy as np

        def each(expression: str | None) -> npt.NDArray[np.float64]:
            left = np.full(queues._view.size, np.inf)
            if expression is not None:
                left[queues._view.rows()] = [
                    value if is_number(value) and not math.isnan(value) else math.inf
                    for value in queues.values(parse_expr(expression))
                ]
            return left

        free = rules.free_slots
        limited = free is not None and NOT_FULL in rules.admission
        self._slots = each(free)
        self._starts = each(_MAY_START if free is not None else None)
        self._comes = each(_MAY_COME if limited else None)

    def take(self, rows: Rows, job: ClassAd) -> tuple[int | None, bool]:
        """Give a job to the first row with room for it, else to the first, where it waits."""
        import numpy as np

        cpus = job.eval(_cpus())
        wanted = float(cpus) if is_number(cpus) and cpus > 1 else 1.0
        rows = rows[self._comes[rows] >= 1]
        fits = np.flatnonzero((self._slots[rows] >= wanted) & (self._starts[rows] >= 1))
        if not len(rows):
            return None, False
        waits = not len(fits)
        row = int(rows[0 if waits else fits[0]])
        self._comes[row] -= 1
        if not waits:
            self._slots[row] -= wanted
            self._starts[row] -= 1
        return row, waits


@cache
def _cpus() -> Expr:
    return parse_expr(CPUS)


def _loaded(ces: Iterable[ClassAd] | Pool) -> NamedAds:
    from matchmaker.matching.pool import Pool

    if not isinstance(ces, Pool):
        return NamedAds.of(each_named(ces))
    now = ces.snapshot()
    return NamedAds(now, now._view.keys, now._view.ad)


def _expired(queues: Snapshot, at: datetime | None) -> npt.NDArray[np.bool_] | None:
    """Mark the ads that have expired by a time; None if no ad has an expiry."""
    import numpy as np

    if "update_time" not in queues._view.columns or "expiry_time" not in queues._view.columns:
        return None
    now = (at if at is not None else datetime.now(UTC)).timestamp()
    ends = queues.values(parse_expr("other.update_time + other.expiry_time"))
    mask = np.zeros(queues._view.size, np.bool_)
    # An ad whose expiry is no time, or before the year 1, never expires.
    mask[queues._view.rows()] = [
        isinstance(end, (int, float)) and YEAR_1 <= end < now for end in ends
    ]
    return mask


def _refusal(
    queues: NamedAds, decision: MatchDecision, row: int, job: ClassAd, conditions: Sequence[Expr]
) -> Refusal:
    """Explain the refusal of a row."""
    from matchmaker.matching.columns.masks import RefusedBy

    name, ad, by = queues.names[row], queues.ad(row), RefusedBy(int(decision.by[row]))
    if by is RefusedBy.EXPIRY:
        said = f"its ad expired at {expires(ad):%Y-%m-%dT%H:%M:%SZ}"
        return Refusal(name, ad, "expiry", said)
    found = refused_by(by.name.lower(), job, name, ad, conditions, error=decision.error)
    clause = found.clause
    if clause is None or is_error(clause.value):
        return found
    if by is RefusedBy.BROKER and END.lower() in str(clause.expression).lower():
        return attrs.evolve(found, reason=f"{found.reason.partition(': ')[0]}: {_down(ad)}")
    meant = _meant().get(clause.expression if clause.definition is None else clause.definition)
    if meant is None:
        return found
    # A user who reads it did not set what ignores rules, and cannot.
    known = tuple(fact for fact in clause.facts if fact[0].lower() != IGNORED.lower())
    clause = attrs.evolve(clause, facts=known)
    reason = f"{found.reason.partition(': ')[0]}: {meant} ({', '.join(clause.found)})"
    return attrs.evolve(found, reason=reason, clause=clause)


def _down(ad: ClassAd) -> str:
    """Say when and why a queue takes no jobs."""
    start, end, reason = (ad.eval(attribute) for attribute in (START, END, REASON))
    times = " to ".join(
        f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if isinstance(time, datetime) else str(time)
        for time in (start, end)
    )
    why = f": {reason}" if isinstance(reason, str) else ""
    return f"the queue has a downtime from {times}{why}"


@cache
def _meant() -> dict[Expr, str]:
    """Return short words for the broker's own conditions when they are not true."""
    larger = "the job asks for more on a node than the queue allows"
    return {
        parse_expr(KNOWN): "the queue publishes no rule of access",
        parse_expr(AUTHORISED): "no rule of access covers the job",
        parse_expr(CHECKS["AuthorizationCheck"]): "no rule of access covers the job",
        parse_expr(NOT_DENIED): "a rule of access denies the job",
        parse_expr(CHECKS["DenialCheck"]): "a rule of access denies the job",
        parse_expr(NOT_FULL): "the queue has as many jobs as it takes",
        parse_expr(SHORT_ENOUGH): "the job asks for more wall time than the queue allows",
        parse_expr(SMALL_ENOUGH): larger,
        **dict.fromkeys(conjuncts(parse_expr(SMALL_ENOUGH)), larger),
        parse_expr(TAKES_JOBS): NOT_TAKEN,
    }


def policy_refusal(job: ClassAd, queue: ClassAd) -> str:
    """Return why the limits or the state of a queue keep a job out; empty if they do not.

    >>> from matchmaker import parse_ad
    >>> short = parse_ad("[ GlueCEPolicyMaxWallClockTime = 60 ]")
    >>> policy_refusal(parse_ad("[ MaxWallTime = 90 ]"), short)
    'the job asks for more wall time than the queue allows'
    """
    each = (parse_expr(text) for text in (TAKES_JOBS, SHORT_ENOUGH, SMALL_ENOUGH))
    return next((_meant()[it] for it in each if truth(it.eval(job, queue)) is False), "")


@charged
def _asking(job: ClassAd, rules: Rules) -> ClassAd:
    """Add default requirements and rank to a job, and evaluate the user's attributes."""
    asking = an_ad(job).copy()
    asking.pop(IGNORED, None)
    if rules.access == "any":
        asking[IGNORED] = True
    for name in IDENTITY:
        if name in asking:
            asking[name] = job.eval(name)
    asking.setdefault(RANK, parse_expr(DEFAULT_RANK))
    asking.setdefault(REQUIREMENTS, parse_expr(DEFAULT_REQUIREMENTS))
    return asking


@attrs.frozen(slots=True)
class _Marked:
    """The rows of queues that are their batch system's default, and of those with rules."""

    default: frozenset[int]
    known: frozenset[int]

    @classmethod
    def of(cls, queues: Snapshot) -> _Marked:
        def rows(expression: str, *names: str) -> frozenset[int]:
            if all(name.lower() not in queues._view.columns for name in names):
                return frozenset()
            told = zip(queues._view.rows().tolist(), queues._own_values(expression), strict=True)
            return frozenset(row for row, value in told if value is True)

        return cls(rows("IsDefault", "IsDefault"), rows(known(), RULES, ALSO))


def _conditions(rules: Rules, queues: Snapshot, at: datetime | None) -> list[Expr]:
    """Parse the conditions that are asked; that on downtimes only if a queue has one."""
    ignored = {AUTHORISED, NOT_DENIED} if rules.access == "any" else set()
    if END.lower() not in queues._view.columns:
        ignored.add(NO_DOWNTIME)
    needed = (KNOWN,) if rules.access == "known" else ()
    texts = [text for text in (*needed, *rules.admission) if text not in ignored]
    return [parse_expr(_timed(text, at) if text == NO_DOWNTIME else text) for text in texts]


def _timed(text: str, at: datetime | None) -> str:
    """Write the time of a decision into a condition: its result is then that of a minute."""
    now = int((at if at is not None else datetime.now(UTC)).timestamp())
    return text.replace("CurrentTime", str(now if at is not None else now - now % 60))


@charged
def _order(
    queues: NamedAds,
    decision: MatchDecision,
    tie: random.Random | None,
    rules: Rules,
    marked: _Marked,
) -> list[int]:
    """Return the places in ``decision.rows``, best first."""
    order = queues.ordered(decision, tie)
    if tie is None and marked.default:
        # Of equal queues the batch system's own default comes first, then names decide.
        ranks, rows = decision.ranks.tolist(), decision.rows.tolist()
        order.sort(key=lambda at: (-ranks[at], rows[at] not in marked.default))
    if rules.fuzzy is not None:
        chance = tie if tie is not None else random.Random()  # noqa: S311 - spreads jobs only
        drawn = fuzzy(decision.ranks[order], len(order), chance, rules.fuzzy)
        order = [order[place] for place in drawn]
    if rules.access == "published" and marked.known:
        # A queue that publishes no rule may refuse the job: it comes after those that admit it.
        rows = decision.rows.tolist()
        order.sort(key=lambda at: rows[at] not in marked.known)
    tried = {name: number for number, name in enumerate(rules.tried, 1)}
    if tried:
        rows = decision.rows.tolist()
        order.sort(key=lambda place: tried.get(queues.names[rows[place]], 0))
    return order
