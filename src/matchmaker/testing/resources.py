"""Strategies for ads: any, machines, jobs and queues, and ads in which something is wrong.

The attributes and their units are HTCondor's for machines and jobs (HTCondor manual, "Machine
ClassAd Attributes", "Job ClassAd Attributes") and GLUE 1.3's for queues.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from hypothesis import reject
from hypothesis import strategies as st

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.nodes import FALSE, TRUE, AdExpr, Expr, ListExpr, Literal
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.values import ERROR, UNDEFINED, is_exceptional, wrap
from matchmaker.classad.walks import conjunction
from matchmaker.matching.pair import REQUIREMENTS, match
from matchmaker.testing.policies import draw_condition, opposite, ranks, requirements
from matchmaker.testing.trees import NAMES, Attributes, expressions, is_text, strategy_of

_OWNERS: Final = ("ana", "ben", "cleo")

MACHINE: Final[Attributes] = MappingProxyType({
    "Name": st.builds("slot{}@wn{:02}.example.org".format, st.integers(1, 8), st.integers(1, 99)),
    "Arch": st.sampled_from(("X86_64", "aarch64", "ppc64le")),
    "OpSys": st.sampled_from(("LINUX", "WINDOWS")),
    "OpSysMajorVer": st.integers(7, 10),
    "State": st.sampled_from(("Unclaimed", "Claimed", "Owner", "Preempting", "Drained")),
    "Activity": st.sampled_from(("Idle", "Busy", "Retiring", "Suspended", "Vacating")),
    "Draining": st.booleans(),
    "Cpus": st.integers(1, 128),
    "Memory": st.integers(0, 1 << 20),
    "Disk": st.integers(0, 1 << 31),
    "GPUs": st.integers(0, 8),
    "HasSingularity": st.booleans(),
    "LoadAvg": st.floats(0, 200, width=32),
    "KeyboardIdle": st.integers(0, 100_000),
})  # fmt: skip
"""The attributes of a machine (a slot), Memory in MB, Disk in kB, KeyboardIdle in seconds."""

JOB: Final[Attributes] = MappingProxyType({
    "ClusterId": st.integers(1, 1000),
    "ProcId": st.integers(0, 10),
    "Owner": st.sampled_from(_OWNERS),
    "AccountingGroup": st.sampled_from(("atlas.production", "atlas.user", "cms")),
    "JobUniverse": st.sampled_from((5, 7, 9, 11)),
    "JobPrio": st.integers(-20, 20),
    "RequestCpus": st.integers(1, 64),
    "RequestMemory": st.integers(0, 1 << 19),
    "RequestDisk": st.integers(0, 1 << 30),
    "RequestGPUs": st.integers(0, 2),
    "WantContainer": st.booleans(),
    "NumJobStarts": st.integers(0, 5),
})  # fmt: skip
"""The attributes of a job, RequestMemory in MB, RequestDisk in kB."""

QUEUE: Final[Attributes] = MappingProxyType({
    "CEid": st.builds(
        "ce{:02}.example.org:8443/cream-{}-{}".format, st.integers(1, 99),
        st.sampled_from(("slurm", "pbs")), st.sampled_from(("short", "long")),
    ),
    "GlueCEInfoLRMSType": st.sampled_from(("slurm", "pbs", "sge", "lsf", "condor")),
    "GlueCEStateStatus": st.sampled_from(("Production", "Draining", "Queueing", "Closed")),
    "GlueCEStateFreeCPUs": st.integers(0, 10_000),
    "GlueCEStateWaitingJobs": st.integers(0, 10_000) | st.just(444_444),
    "GlueCEStateEstimatedResponseTime": st.integers(0, 1_000_000) | st.just(2_146_660_842),
    "GlueCEPolicyMaxCPUTime": st.integers(0, 10_000),
    "GlueCEPolicyMaxWallClockTime": st.integers(0, 10_000),
    "GlueCEAccessControlBaseRule": st.lists(
        st.sampled_from(("VO:atlas", "VO:cms", "VO:dteam")), max_size=2, unique=True
    ),
    "GlueHostMainMemoryRAMSize": st.integers(0, 1 << 20),
    "GlueHostBenchmarkSI00": st.integers(0, 5000),
    "GlueHostArchitectureSMPSize": st.integers(1, 128),
    "GlueHostNetworkAdapterOutboundIP": st.booleans(),
    "GlueHostApplicationSoftwareRunTimeEnvironment": st.lists(
        st.sampled_from(("GLITE_1_2", "LCG-2_6_0", "VO-cms-CMSSW_0_8_0")), max_size=3, unique=True
    ),
})  # fmt: skip
"""The attributes of a queue and its hosts as GLUE 1.3 has them, times in minutes (response times in
seconds), memory in MB. 444444 and 2146660842 are what sites publish for "unknown"."""


def ads(
    attributes: Attributes | None = None, *, names: Sequence[str] = NAMES, max_size: int = 5
) -> st.SearchStrategy[ClassAd]:
    """Ads with given attributes, or any ads.

    Args:
        attributes: names, each with a strategy for its content, or with the one value or
            expression. If the strategy gives None the attribute is left out.
        names: of the attributes if none are given. They then hold small expressions of any
            kind, which may refer to each other, in circles too.
        max_size: how many attributes such an ad has at most.

    >>> from hypothesis import find
    >>> some = ads({"Memory": st.integers(0, 4096), "GPUs": st.none() | st.integers(1, 8)})
    >>> print(find(some, lambda ad: ad.eval("Memory") > 1000))
    [ Memory = 1001 ]
    >>> print(find(some, lambda ad: "GPUs" in ad))
    [ Memory = 0; GPUs = 1 ]
    """
    if attributes is None:
        return st.dictionaries(
            st.sampled_from(names), expressions(names, max_depth=1), max_size=max_size
        ).map(ClassAd)
    held = {name: strategy_of(one) for name, one in attributes.items()}
    return st.fixed_dictionaries(held).map(_ad)


def _ad(held: dict[str, Any]) -> ClassAd:
    return ClassAd({name: value for name, value in held.items() if value is not None})


def with_own(common: Attributes, own: Attributes | None) -> Attributes:
    """The usual attributes and a user's own, which come instead of the usual ones of that name."""
    own = own or {}
    taken = {ascii_fold(name) for name in own}
    return {**{name: one for name, one in common.items() if ascii_fold(name) not in taken}, **own}


def machines(attributes: Attributes | None = None) -> st.SearchStrategy[ClassAd]:
    """Ads of machines: the attributes of ``MACHINE``, and Requirements and a Rank of jobs.

    Args:
        attributes: own ones, besides the usual ones or instead of them, as for ``ads()``; None in
            place of a strategy leaves an attribute out.

    >>> from hypothesis import given
    >>> @given(machines({"Draining": True, "Disk": None}))
    ... def test_own_attributes(machine):
    ...     assert machine.eval("Draining") is True
    ...     assert "Disk" not in machine
    ...     assert 1 <= machine.eval("Cpus") <= 128
    >>> test_own_attributes()
    """
    policy = {"Requirements": requirements(JOB, MACHINE, max_clauses=3), "Rank": ranks(JOB)}
    return ads(with_own({**MACHINE, **policy}, attributes))


def jobs(attributes: Attributes | None = None) -> st.SearchStrategy[ClassAd]:
    """Ads of jobs: the attributes of ``JOB``, and Requirements and a Rank of machines.

    Args:
        attributes: own ones, besides the usual ones or instead of them, as for ``ads()``; None in
            place of a strategy leaves an attribute out.

    >>> from hypothesis import given
    >>> @given(jobs({"Owner": "ana", "Rank": None}), machines())
    ... def test_requirements_decide(job, machine):
    ...     assert job.eval("Requirements", target=machine) in (True, False)
    ...     assert job.eval("Owner") == "ana" and "Rank" not in job
    >>> test_requirements_decide()
    """
    policy = {"Requirements": requirements(MACHINE, JOB, max_clauses=3), "Rank": ranks(MACHINE)}
    return ads(with_own({**JOB, **policy}, attributes))


def queues(attributes: Attributes | None = None) -> st.SearchStrategy[ClassAd]:
    """Ads of queues (computing elements) as ``broker.choose`` takes them: those of ``QUEUE``.

    They accept every job. For Requirements of them: ``requirements(QUEUE, scope="other")``.

    Args:
        attributes: own ones, besides the usual ones or instead of them, as for ``ads()``; None in
            place of a strategy leaves an attribute out.

    >>> from hypothesis import given
    >>> from matchmaker import broker, parse_ad
    >>> job = parse_ad('[ Requirements = other.GlueCEStateStatus == "Production" ]')
    >>> @given(queues({"GlueCEStateStatus": "Production"}))
    ... def test_a_single_queue_is_chosen(queue):
    ...     rules = broker.Rules(admission=())
    ...     assert broker.choose(job, [queue], rules=rules).chosen.ad is queue
    >>> test_a_single_queue_is_chosen()
    """
    return ads(with_own(QUEUE, attributes))


# --- ads in which something is wrong --------------------------------------------------------------

FAULTS: Final = ("missing", "undefined", "error", "mistyped")
"""What can be wrong with an attribute."""


def spoiled(
    strategy: st.SearchStrategy[ClassAd],
    attributes: Collection[str] | None = None,
    *,
    faults: Sequence[str] = FAULTS,
    most: int = 2,
) -> st.SearchStrategy[ClassAd]:
    """The ads of another strategy, each with one or a few attributes spoiled.

    An attribute is left out, is ``undefined`` or ``error``, or is of another kind: a number stands
    in quotes, a string is a number, an expression is only its text. An ad without any of the
    attributes stays as it is.

    Args:
        strategy: for ads in which all is well.
        attributes: which may be spoiled; by default all that an ad has.
        faults: some of ``FAULTS``.
        most: how many attributes are spoiled at most, at least 1.

    Raises ValueError for a fault that is not known.

    >>> from hypothesis import find
    >>> some = spoiled(ads({"Memory": st.integers(0, 4096)}))
    >>> print(find(some, lambda ad: isinstance(ad.eval("Memory"), str)))
    [ Memory = "0" ]
    >>> print(find(some, lambda ad: "Memory" not in ad))
    [ ]
    """
    unknown = [fault for fault in faults if fault not in FAULTS]
    if unknown or not faults:
        raise ValueError(f"unknown fault {unknown[:1]}; there are {', '.join(FAULTS)}")
    return _spoiled(strategy, attributes, tuple(faults), most)


@st.composite
def _spoiled(
    draw: st.DrawFn,
    strategy: st.SearchStrategy[ClassAd],
    attributes: Collection[str] | None,
    faults: tuple[str, ...],
    most: int,
) -> ClassAd:
    ad = draw(strategy).copy()
    names = [name for name in (ad if attributes is None else attributes) if name in ad]
    if not names:
        return ad
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=most, unique=True))
    for name in chosen:
        fault = draw(st.sampled_from(faults))
        if fault == "missing":
            del ad[name]
        elif fault == "mistyped":
            ad[name] = draw(st.sampled_from(_mistyped(ad.expr(name))))
        else:
            ad[name] = UNDEFINED if fault == "undefined" else ERROR
    return ad


def _mistyped(held: Expr) -> tuple[Any, ...]:
    """Mistakes in place of an expression, of other kinds than its own."""
    value = held.value if isinstance(held, Literal) else held
    if isinstance(value, str):
        return 1, [value]
    if isinstance(value, ListExpr):
        return ",".join(map(str, value.items)), 1
    if isinstance(value, AdExpr) or is_exceptional(value):
        return 1, str(held)
    return str(held), [value]


# How often two ads are drawn until they match or do not, as wanted.
_TRIES: Final = 20


class Pair(NamedTuple):
    """A job and a machine."""

    job: ClassAd
    machine: ClassAd

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        with printer.group(4, "Pair(", ")"):
            for name, ad in zip(self._fields, self, strict=True):
                printer.break_()
                printer.text(f"{name}=")
                printer.pretty(ad)
                printer.text(",")


def pairs(
    job: Attributes | st.SearchStrategy[ClassAd] | None = None,
    machine: Attributes | st.SearchStrategy[ClassAd] | None = None,
    *,
    matching: float | None = 0.5,
) -> st.SearchStrategy[Pair]:
    """Pairs of a job and a machine; a given share of them match.

    Args:
        job: own attributes of the job, as for ``jobs()``, or a strategy for whole ads.
        machine: own attributes of the machine, as for ``machines()``, or a strategy for whole ads.
        matching: the share of pairs that match, from 0 to 1; None takes them as they come.

    An ad without Requirements gets some that fit. Those that are given, or that the ads of a
    strategy have, are left alone: if they accept or refuse nearly everything, a share of the
    other kind cannot be found, and Hypothesis says that too much is filtered out.

    Raises ValueError for a share below 0 or above 1.

    >>> from hypothesis import given
    >>> from matchmaker import match, parse_expr
    >>> @given(pairs({"RequestMemory": 2048}, matching=0))
    ... def test_one_of_them_refuses(pair):
    ...     assert not match(*pair).matched
    >>> test_one_of_them_refuses()
    >>> policy = parse_expr("TARGET.RequestMemory <= MY.Memory")
    >>> @given(pairs(machine={"Requirements": policy}, matching=1))
    ... def test_the_policy_holds(pair):
    ...     assert pair.job.eval("RequestMemory") <= pair.machine.eval("Memory")
    >>> test_the_policy_holds()
    """
    if matching is not None and not 0 <= matching <= 1:
        raise ValueError(f"a share is from 0 to 1, not {matching}")
    unset = {REQUIREMENTS: None}
    return _pairs(
        job if isinstance(job, st.SearchStrategy) else jobs(with_own(unset, job)),
        machine if isinstance(machine, st.SearchStrategy) else machines(with_own(unset, machine)),
        matching,
    )


@st.composite
def _pairs(
    draw: st.DrawFn,
    jobs: st.SearchStrategy[ClassAd],
    machines: st.SearchStrategy[ClassAd],
    matching: float | None,
) -> Pair:
    wanted = None if matching is None else draw(_chance(matching))
    for _ in range(_TRIES):
        job, machine = draw(jobs), draw(machines)
        if wanted and not match(job, machine).matched:
            # Given requirements refuse, and an ad without any accepts.
            continue
        unset = [number for number, ad in enumerate((job, machine)) if REQUIREMENTS not in ad]
        refusing = draw(st.sampled_from(unset)) if unset and wanted is False else None
        pair = Pair(
            _with_requirements(draw, job, machine, wanted, refuse=refusing == 0),
            _with_requirements(draw, machine, job, wanted, refuse=refusing == 1),
        )
        if wanted is None or match(*pair).matched is wanted:
            return pair
    return reject()


def _chance(share: float) -> st.SearchStrategy[bool]:
    hundredths = round(share * 100)
    return st.integers(1, 100).map(lambda number: number <= hundredths)


def _with_requirements(
    draw: st.DrawFn, ad: ClassAd, other: ClassAd, wanted: bool | None, *, refuse: bool
) -> ClassAd:
    """The ad itself if it has Requirements, else with such as refuse the other ad or do not."""
    if REQUIREMENTS in ad:
        return ad
    found = ad.copy()
    found[REQUIREMENTS] = _requirements(draw, ad, other, wanted, refuse=refuse)
    return found


def _requirements(
    draw: st.DrawFn, ad: ClassAd, other: ClassAd, wanted: bool | None, *, refuse: bool
) -> Expr:
    theirs = _near(other)
    if not theirs:
        return FALSE if refuse else TRUE
    mine = _near(ad)
    count = draw(st.integers(int(refuse), 4))
    clauses = [draw_condition(draw, theirs, mine, "TARGET") for _ in range(count)]
    if refuse:
        at = draw(st.integers(0, count - 1))
        turned_clause = _turned(clauses[at], ad, other, False)
        clauses[at] = clauses[at] if turned_clause is None else turned_clause
    elif wanted is not None:
        turned = (_turned(clause, ad, other, True) for clause in clauses)
        clauses = [clause for clause in turned if clause is not None]
    return conjunction(clauses)


def _turned(clause: Expr, ad: ClassAd, other: ClassAd, wanted: bool) -> Expr | None:
    """A clause or its opposite, whichever is as wanted of the other ad; None if neither is."""
    for one in (clause, opposite(clause)):
        if one.eval(ad, other) is wanted:
            return one
    return None


def _near(ad: ClassAd) -> dict[str, st.SearchStrategy[Any]]:
    """Constants for comparisons with the attributes of an ad: their values, and close ones."""
    found: dict[str, st.SearchStrategy[Any]] = {}
    for name, held in ad.expressions().items():
        if isinstance(held, (Literal, ListExpr)):
            value = ad.eval(name)
            if not is_exceptional(value):
                found[name] = _around(value)
    return found


def _around(value: Any) -> st.SearchStrategy[Any]:
    if isinstance(value, bool):
        return st.just(value)
    if isinstance(value, int):
        return st.sampled_from((value, wrap(value + 1), wrap(value - 1), wrap(value * 2)))
    if isinstance(value, float) and math.isfinite(value):
        return st.sampled_from((value, value / 2, value + 1))
    if is_text(value):
        return st.sampled_from((value, value.swapcase(), "other"))
    return st.just(value)
