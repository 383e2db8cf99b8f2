"""The terms of a negotiation cycle, and which of them change nothing.

A misspelt group, resource or attribute would else pass in silence: the cycle runs as if it were not
there. What the terms do is in ``assignment``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, SupportsFloat

import attrs

from matchmaker.classad.ad import ClassAd, an_expression
from matchmaker.classad.errors import closest, printable, shorten
from matchmaker.classad.evaluate import Allowance
from matchmaker.classad.nodes import Expr
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.printer import brief
from matchmaker.matching.given import with_scopes
from matchmaker.matching.slots import amount
from matchmaker.matching.states import state_names

RESOURCES: Final = {
    "Cpus": "MY.RequestCpus ?: 1",
    "Memory": "MY.RequestMemory ?: 0",
    "Disk": "MY.RequestDisk ?: 0",
    "GPUs": "MY.RequestGPUs ?: 0",
}
"""What a job takes of a partitionable slot: a CPU if it does not say otherwise."""

GROUP: Final = (
    "MY.AcctGroup ?: (isString(MY.AccountingGroup)"
    ' ? replace("[.][^.]*$", MY.AccountingGroup, "") : (MY.AccountingGroup ?: MY.Owner))'
)
"""The group of ``group_atlas.u0`` is ``group_atlas``: HTCondor puts the user behind the last dot.
(HTCondor manual, "Group Accounting")"""

FREE: Final = (
    '(MY.State is undefined || MY.State == "Unclaimed")'
    " && MY.Available isnt false && MY.Draining isnt true && MY.Start isnt false"
)
"""Which slots may be assigned: those that do not say that they are not free."""

NO_GROUP: Final = "<none>"
"""The group of the jobs that name none."""


def _share(given: Expr | str | Mapping[str, float]) -> Expr | Mapping[str, float]:
    return an_expression(given) if isinstance(given, (Expr, str)) else _by_group(given)


def _by_group(given: Mapping[str, float]) -> Mapping[str, float]:
    if not isinstance(given, Mapping):
        raise TypeError(f"numbers by group were expected, not {type(given).__name__}")
    for group, number in given.items():
        if not isinstance(group, str):
            raise TypeError(f"groups go by their names, not by {type(group).__name__}")
        if not isinstance(number, SupportsFloat):
            raise TypeError(
                f"the share or usage of {group} is a number, not {type(number).__name__}"
            )
        if not 0 <= number < math.inf:
            raise ValueError(f"{group} cannot have a share or usage of {number}")
    return dict(given)


def _resources(given: Mapping[str, Expr | str]) -> Mapping[str, Expr]:
    if not isinstance(given, Mapping):
        raise TypeError(f"expressions by resource were expected, not {type(given).__name__}")
    if len({ascii_fold(name) for name in given}) < len(given):
        raise ValueError(f"a resource is named twice: {', '.join(given)}")
    return {name: an_expression(expression) for name, expression in given.items()}


@attrs.frozen(slots=True, kw_only=True)
class Policy:
    """The terms of a negotiation cycle. Expressions may be given as text.

    - ``priority``, of a job: a number, the highest first; anything else counts as 0.
    - ``group``, of a job: the name of its accounting group; without a text it is ``<none>``.
    - ``share``: by group, 1 where none is given, or an expression of a job, which stands for its
      group while it is next. Twice the share is twice the CPUs, while there are jobs. What is no
      number above 0 comes after all others.
    - ``usage``: the usage that groups begin with, 0 where none is given.
    - ``free``, of a slot: whether it may be assigned.
    - ``names``: the slots' own names for State, Activity, Available, Draining and Start, by which
      reasons say why slots that match are not free.
    - ``resources``: by the attribute of a partitionable slot, how much a job takes of it, an
      expression of the job, with the slot as TARGET.

    Raises ParseError for text that is no expression, ValueError for a share or usage below 0 or
    infinite and for a resource that is named twice, and TypeError for what is of another type.
    """

    priority: Expr = attrs.field(factory=lambda: parse_expr("MY.JobPrio"), converter=an_expression)
    group: Expr = attrs.field(factory=lambda: parse_expr(GROUP), converter=an_expression)
    share: Expr | Mapping[str, float] = attrs.field(factory=dict, converter=_share)
    usage: Mapping[str, float] = attrs.field(factory=dict, converter=_by_group)
    free: Expr = attrs.field(factory=lambda: parse_expr(FREE), converter=an_expression)
    resources: Mapping[str, Expr] = attrs.field(factory=lambda: RESOURCES, converter=_resources)
    names: Mapping[str, str] = attrs.field(factory=dict, converter=state_names)


SHOWN: Final = 8
"""How many groups are named in one note."""

LOOKED_AT: Final = 1000
"""Of how many kinds of jobs it is looked whether they ask for a resource."""


def without_effect(
    policy: Policy, columns: Collection[str], kinds: Sequence[ClassAd], groups: Collection[str]
) -> tuple[str, ...]:
    """Sentences on the terms that change nothing for some kinds of jobs, which are of some groups.

    `columns` are the folded names of what slots have, nothing where there are no slots. Without
    jobs there is nothing to say.
    """
    if not kinds:
        return ()
    found = [*_groups(policy, groups), *_unasked(policy.resources, columns, kinds)]
    return tuple(map(printable, found))


def _groups(policy: Policy, groups: Collection[str]) -> Iterator[str]:
    if policy.group is not parse_expr(GROUP) and set(groups) == {NO_GROUP}:
        yield f"no job has a group: all are of {NO_GROUP}, by {brief(policy.group)}"
    shares = {} if isinstance(policy.share, Expr) else policy.share
    for what, given in (("share", shares), ("usage", policy.usage)):
        unknown = [group for group in given if group not in groups]
        known = {ascii_fold(group): group for group in groups}
        hints = [
            f"did you mean {shorten(like, 60)}?"
            for group in unknown[:SHOWN]
            if (like := known.get(ascii_fold(group)) or closest(group, known))
        ]
        if unknown:
            names = ", ".join(shorten(group, 60) for group in unknown[:SHOWN])
            more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
            hint = f"; {hints[0]}" if hints else ""
            yield f"no job is of {names}{more}, for which a {what} is given{hint}"


def _unasked(
    resources: Mapping[str, Expr], columns: Collection[str], kinds: Sequence[ClassAd]
) -> Iterator[str]:
    standard = _resources(RESOURCES)
    for name in resources:
        if resources[name] is standard.get(name) or not columns:
            continue
        if ascii_fold(name) not in columns:
            yield f"no slot has {shorten(name, 60)}, which is a resource of the policy"
        elif len(kinds) <= LOOKED_AT and not any(_asks(resources[name], job) for job in kinds):
            asked = brief(resources[name])
            yield f"no job asks for {shorten(name, 60)}: {asked} is 0 for all of them"


def _asks(expression: Expr, job: ClassAd) -> bool:
    """Whether a job asks for some of a resource, or for no amount; or that depends on the slot."""
    return amount(Allowance().value(expression, with_scopes(job), None)) != 0
