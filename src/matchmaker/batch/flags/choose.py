"""Choose terms of a batch system for a condition on hosts.

The condition is split into clauses with bounds; flags read the bounds of a requirement here and
nowhere else. Clauses of one alternative are met with each other first: contradictions show, and the
strongest of several bounds is asked for. A clause of several alternatives becomes one group if the
batch system has alternatives; otherwise its hull is asked for, or one of the alternatives. A clause
counts as carried only if the meaning of the chosen terms implies it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Mapping as MappingType
from contextlib import suppress
from functools import partial
from itertools import islice, product
from typing import Final, TypeAlias

import attrs

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.errors import NoFlagsError, NoHostError, NoTermError
from matchmaker.batch.flags.terms import (
    FlagTerm,
    Group,
    assignments,
    clash,
    meaning,
    of_domain,
    of_tag,
    values_of,
)
from matchmaker.batch.mapping import Mapping
from matchmaker.classad.nodes import TRUE, Attr, Binary, Expr
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.printer import brief
from matchmaker.classad.walks import conjunction, conjuncts, disjuncts, names_of
from matchmaker.reduction.boxes import Bounds, bounds, everything
from matchmaker.reduction.domains import (
    ANY,
    LISTS,
    Box,
    Domain,
    Tag,
    first_contrary,
    hull,
    meet_all,
)


@attrs.frozen(slots=True)
class HostClause:
    """A clause of a condition on hosts; it is true of the hosts in a box of its bounds."""

    expression: Expr
    bounds: Bounds

    @property
    def boxes(self) -> tuple[Box, ...]:
        """The alternatives of the clause."""
        return self.bounds.boxes


@attrs.frozen(slots=True)
class Dropped:
    """A clause that the flags do not carry, or not completely, and the reason."""

    clause: Expr
    reason: str


def clauses_of(
    condition: Expr, universe: Callable[[str], Domain] = everything
) -> tuple[HostClause, ...]:
    """Split a condition into clauses, with bounds among the values that hosts may have.

    ``universe`` gives these values for the folded name of an attribute.

    >>> from matchmaker import parse_expr
    >>> [str(clause.expression) for clause in clauses_of(parse_expr("other.A > 5 && other.B"))]
    ['other.A > 5', 'other.B']
    """
    return tuple(
        HostClause(each, bounds(each, universe))
        for each in conjuncts(condition)
        if each is not TRUE
    )


def is_possible(condition: Expr) -> bool:
    """Tell whether the bounds of a condition allow any values of attributes at all."""
    return bool(bounds(condition).boxes)


def unproven(
    clauses: Iterable[HostClause],
    certain: Iterable[Box],
    chosen: MappingType[Expr, Sequence[Sequence[Box]]],
) -> list[HostClause]:
    """Return the clauses that may be untrue of a host that flags admit.

    A clause counts as carried only if the meaning of the flags implies it, no matter how they were
    chosen. So nothing is lost if a reason to drop a clause goes unnoticed. Every admitted host is
    in each of the ``certain`` boxes, and for a clause in one box of each group that ``chosen`` has
    for it. Any such groups are correct; those that were chosen for the clause can prove it.

    >>> from matchmaker import parse_expr
    >>> from matchmaker.reduction.domains import numbers
    >>> clauses = clauses_of(parse_expr("other.A > 5 && other.B == 1"))
    >>> [str(c.expression) for c in unproven(clauses, [Box({"a": numbers(">=", 7)})], {})]
    ['other.B == 1']
    """
    base = meet_all(certain)
    if base is None:
        return []

    def is_carried(clause: HostClause) -> bool:
        return _implies(base, clause) or any(
            all(
                met is None or _implies(met, clause)
                for met in (box.meet(base.on([box, *clause.boxes])) for box in group)
            )
            for group in chosen.get(clause.expression, ())
        )

    return [clause for clause in clauses if not is_carried(clause)]


def _implies(box: Box, clause: HostClause) -> bool:
    return any(box.within(each) for each in clause.boxes)


_OTHER_NAMES: Final = {
    "memory": "GlueHostMainMemoryRAMSize",
    "cpus": "GlueHostArchitectureSMPSize",
}
"""What HTCondor's slots have under another name than GLUE, and so than the rules for flags."""


def other_name(name: str) -> str:
    """Return GLUE's name, which rules for flags have, for an attribute of slots, or nothing.

    >>> other_name("Memory"), other_name("Scratch")
    ('GlueHostMainMemoryRAMSize', '')
    """
    return _OTHER_NAMES.get(ascii_fold(name), "")


def as_host_attribute(name: str) -> str:
    """Advise on a requirement on an attribute that may not be of hosts.

    >>> as_host_attribute("Scratch")
    '--host-attribute Scratch (attributes= of Hosts) says that hosts have it'
    """
    other = other_name(name)
    return (
        f"{f'write {other}, or ' if other else ''}--host-attribute {name} (attributes= of Hosts)"
        " says that hosts have it"
    )


def shown(clause: Expr) -> str:
    """Shorten a clause for a message."""
    return brief(clause, LIMITS.shown)


Options: TypeAlias = MappingType[str, object]
"""Options and resources with the value that each is given."""

_Translation: TypeAlias = tuple[list[Group], str]
_Demand: TypeAlias = str | Tag
"""An attribute whose value must be in a domain, by its folded name; or a text in a list."""

OPEN: Final = "only a comparison of one host attribute with a constant has a flag"


@attrs.frozen(slots=True)
class ChosenTerms:
    """The terms for a condition, with the proof of the clauses that they carry.

    Attributes:
        clauses: the clauses of the condition.
        groups: the terms.
        common: the bounds that every host must keep.
        sources: for each clause of several alternatives, the groups chosen for it.
        reasons: why a clause may not be carried; ``dropped`` decides whether it is.
        narrowed: clauses that sure terms make narrower than the condition.
        trusted: the bounds that the site's own code takes care of.
    """

    clauses: tuple[HostClause, ...]
    groups: tuple[Group, ...]
    common: Box
    sources: MappingType[Expr, tuple[Group, ...]]
    reasons: MappingType[Expr, str]
    narrowed: tuple[Dropped, ...]
    trusted: Box = attrs.Factory(Box)

    def dropped(self) -> list[Dropped]:
        """Return every clause that the terms and the trusted bounds do not prove."""
        meant = {group: meaning(group) for group in self.groups}
        certain = [boxes[0] for boxes in meant.values() if len(boxes) == 1]
        several = {
            clause: [meant[group] for group in groups if group in meant]
            for clause, groups in self.sources.items()
        }
        return [
            Dropped(clause.expression, self.reasons.get(clause.expression, OPEN))
            for clause in unproven(self.clauses, [self.trusted, *certain], several)
        ]


def choose(
    condition: Expr,
    table: Mapping,
    *,
    sure: bool = False,
    called: Collection[str] = (),
    taken: Options | None = None,
) -> ChosenTerms:
    """Choose terms for a condition.

    If ``sure``, the terms must imply the condition; otherwise the condition implies the terms. The
    site's own code takes care of the attributes that are ``called``, by folded names; options and
    resources that are ``taken`` have a value already.

    Raises NoHostError if no host can satisfy the condition, and NoFlagsError if ``sure`` terms are
    wanted and there are none for a clause.
    """
    clauses = clauses_of(condition, partial(_universe, table))
    parts = [Alternatives(clause.expression, list(clause.boxes)) for clause in clauses]
    common, settled = settle(parts)
    spelled = (item for clause in clauses[::-1] for item in clause.bounds.names.items())
    task = _Task(table, dict(spelled), frozenset(called), sure)
    found = _Found(taken or {})
    for part in parts:
        if not part.boxes:
            found = _lost(
                task, found, part.clause, "no host with values as in the mapping satisfies it"
            )
    found = _with_common(task, found, common, settled)
    for part in parts:
        if len(part.boxes) > 1:
            found = _with_alternatives(task, found, part)
    return ChosenTerms(
        clauses, tuple(found.groups), common, found.sources, found.reasons, found.narrowed
    )


def _universe(table: Mapping, name: str) -> Domain:
    rule = table.rules.get(name)
    return ANY if rule is None else values_of(rule)


@attrs.frozen(slots=True)
class _Task:
    """The arguments of ``choose``, and names as they are spelled."""

    table: Mapping
    names: MappingType[str, str]
    called: frozenset[str]
    sure: bool

    def spelled(self, name: str) -> str:
        return self.names.get(name, name)


@attrs.frozen(slots=True)
class _Found:
    """The terms that are chosen so far, and why they lose or narrow clauses."""

    taken: Options
    groups: MappingType[Group, None] = attrs.Factory(dict)
    sources: MappingType[Expr, tuple[Group, ...]] = attrs.Factory(dict)
    reasons: MappingType[Expr, str] = attrs.Factory(dict)
    narrowed: tuple[Dropped, ...] = ()


def _lost(task: _Task, found: _Found, clause: Expr, reason: str) -> _Found:
    """Note why no term stands for a clause; raise NoFlagsError if terms must be sure."""
    if task.sure:
        raise NoFlagsError(
            f"{task.table.lrms} has no flags that make sure of {shown(clause)}: {reason}"
        )
    return attrs.evolve(found, reasons={clause: reason, **found.reasons})


def _blurred(task: _Task, found: _Found, clause: Expr, reason: str) -> _Found:
    """Note why terms are wider than a clause or, if they must be sure, narrower."""
    if task.sure:
        return attrs.evolve(found, narrowed=(*found.narrowed, Dropped(clause, reason)))
    return attrs.evolve(found, reasons={clause: reason, **found.reasons})


def _added(task: _Task, found: _Found, groups: Iterable[Group]) -> _Found:
    """Add groups; raise NoTermError if they set an option that has another value."""
    groups = list(groups)
    twice = clash(groups, found.taken)
    if twice:
        before = found.taken.get(twice)
        said = f"{before[0]} is set" if isinstance(before, tuple) else before
        why = f": {said}" if said else ""
        raise NoTermError(f"{task.table.lrms} can be asked for {twice} in one way only{why}")
    return attrs.evolve(
        found,
        groups={**found.groups, **dict.fromkeys(groups)},
        taken={**found.taken, **dict(assignments(groups))},
    )


def _with_common(task: _Task, found: _Found, common: Box, parts: list[Alternatives]) -> _Found:
    """Add terms for the common bounds of clauses of one alternative."""
    concerned: dict[_Demand, list[Expr]] = {}
    for part in parts:
        box = part.boxes[0]
        demands: list[_Demand] = [*box.domains, *sorted(box.tags)]
        for demand in demands:
            concerned.setdefault(demand, []).append(part.clause)
        if box.others:
            found = _lost(task, found, part.clause, _open(task, part.clause))
    order = [demand for demand in concerned if isinstance(demand, Tag)]
    for demand, domain in _demands(common, order):
        if _subject(demand) in task.called:
            continue
        try:
            groups, loss = _demanded(task, demand, domain)
            found = _added(task, found, groups)
        except NoTermError as error:
            for clause in concerned[demand]:
                found = _lost(task, found, clause, str(error))
        else:
            for clause in concerned[demand] if loss else ():
                found = _blurred(task, found, clause, loss)
    return found


def _with_alternatives(task: _Task, found: _Found, part: Alternatives) -> _Found:
    """Add terms for a clause of several alternatives."""
    try:
        groups, loss = _joined(task, part.boxes)
        found = _added(task, found, groups)
    except NoTermError as error:
        if task.sure:
            return _with_one(task, found, part, str(error))
        found = _lost(task, found, part.clause, str(error))
        for group in _translated(task, hull(part.boxes))[0]:
            with suppress(NoTermError):
                found = _added(task, found, [group])
        return found
    found = attrs.evolve(found, sources={**found.sources, part.clause: tuple(groups)})
    return _blurred(task, found, part.clause, loss) if loss else found


def _open(task: _Task, clause: Expr) -> str:
    """Explain why a clause that bounds cannot express has no flag."""
    if isinstance(clause, Binary) and clause.operator in ("is", "isnt"):
        subject = clause.left
        rule = task.table.rules.get(subject.folded) if isinstance(subject, Attr) else None
        if rule is not None and rule.kind in ("eq", "member") and not rule.flag:
            return "a feature does not distinguish upper from lower case"
        if rule is not None:
            return "a flag does not distinguish kinds of numbers"
    if any("gpumodels" in path.folded for path in names_of(clause).paths):
        return f"{OPEN}; the GPUModel that goes with RequestGPUs may have one"
    return OPEN


# --- boxes ----------------------------------------------------------------------------------------


def _demands(box: Box, tags: Iterable[Tag] | None = None) -> Iterator[tuple[_Demand, Domain]]:
    """Yield each demand of a box: an attribute with its domain, or a tag."""
    listed = {tag.attribute for tag in box.tags if tag.has}
    for name, domain in box.domains.items():
        if not (name in listed and domain >= LISTS):
            yield name, domain
    for tag in sorted(box.tags) if tags is None else tags:
        yield tag, LISTS


def _demanded(task: _Task, demand: _Demand, domain: Domain) -> _Translation:
    """Return terms for a demand; the site's own code is left the bounds of every host alone."""
    name = _subject(demand)
    if name in task.called:
        raise NoTermError(
            f"an alternative cannot be left to the site's own code for {task.spelled(name)}"
        )
    rule = task.table.rules.get(name)
    if rule is None or (isinstance(demand, str) and rule.kind in ("name", "python", "shell")):
        known = other_name(name)
        other = f"; there is one for {known}" if ascii_fold(known) in task.table.rules else ""
        raise NoTermError(f"no flag for {task.spelled(name)}{other}")
    if isinstance(demand, str):
        return of_domain(task.table, rule, domain, sure=task.sure)
    return of_tag(task.table, rule, demand, sure=task.sure)


def _translated(task: _Task, box: Box) -> _Translation:
    """Return terms for a box, and the reason why they are wider; sure terms are not."""
    groups: list[Group] = []
    lost = OPEN if box.others else ""
    if lost and task.sure:
        raise NoTermError(lost)
    for demand, domain in _demands(box):
        try:
            more, loss = _demanded(task, demand, domain)
            groups += more
        except NoTermError as error:
            if task.sure:
                raise
            loss = str(error)
        lost = lost or loss
    return groups, lost


# --- alternatives ---------------------------------------------------------------------------------


def _joined(task: _Task, boxes: list[Box]) -> _Translation:
    """Return all alternatives as one group, after the terms that all have in common."""
    several: list[tuple[FlagTerm, ...]] = []
    lost = ""
    for box in boxes:
        groups, loss = _translated(task, box)
        lost = lost or loss
        if not groups and not loss:
            return [], ""
        if not groups:
            raise NoTermError(loss)
        several += islice(
            (
                tuple(dict.fromkeys(term for terms in choice for term in terms))
                for choice in product(*groups)
            ),
            LIMITS.alternatives + 1,
        )
        if len(several) > LIMITS.alternatives:
            raise NoTermError(f"there are more than {LIMITS.alternatives} alternatives")
    shared = [term for term in several[0] if all(term in terms for terms in several)]
    rest = [tuple(term for term in terms if term not in shared) for terms in several]
    common: list[Group] = [((term,),) for term in shared]
    if not all(rest):
        return common, lost
    if not task.table.terms.or_:
        raise NoTermError(f"{task.table.lrms} cannot be asked for alternatives")
    if any(term.is_option for terms in rest for term in terms):
        raise NoTermError(f"{task.table.lrms} cannot be asked for alternatives of options")
    every = list(dict.fromkeys(rest))
    shortest = [terms for terms in every if not any(set(other) < set(terms) for other in every)]
    return [*common, tuple(shortest)], lost


def _with_one(task: _Task, found: _Found, part: Alternatives, reason: str) -> _Found:
    """Add terms for the alternatives that can be joined, or else for one of them."""

    def can_add(boxes: list[Box]) -> bool:
        try:
            groups, _ = _joined(task, boxes)
        except NoTermError:
            return False
        return not clash(groups, found.taken)

    possible = [box for box in part.boxes if can_add([box])]
    chosen = next((c for c in (possible, *([box] for box in possible)) if c and can_add(c)), None)
    if chosen is None:
        return _lost(task, found, part.clause, reason)
    groups, _ = _joined(task, chosen)
    found = _added(task, found, groups)
    found = attrs.evolve(found, sources={**found.sources, part.clause: tuple(groups)})
    every = disjuncts(part.clause)
    others = [each for each in every if not _is_within(task, each, chosen)]
    for other in others if 0 < len(others) < len(every) else [part.clause]:
        found = _blurred(task, found, other, "another alternative is asked for")
    return found


def _is_within(task: _Task, alternative: Expr, chosen: list[Box]) -> bool:
    found = bounds(alternative, partial(_universe, task.table))
    return all(any(box.within(each) for each in chosen) for box in found.boxes)


def _subject(demand: _Demand) -> str:
    return demand if isinstance(demand, str) else demand.attribute


# --- alternatives of several clauses ------------------------------------------------------------


@attrs.define(slots=True, eq=False)
class Alternatives:
    """A clause with its alternatives; those that other clauses rule out are removed."""

    clause: Expr
    boxes: list[Box]


def settle(parts: list[Alternatives]) -> tuple[Box, list[Alternatives]]:
    """Meet the bounds of all clauses of one alternative; return them, and these clauses.

    Removes alternatives that those bounds rule out. A clause left without any is true of no host
    whose values are as in the mapping; other hosts may still satisfy the requirement.
    """
    common = Box()
    settled: list[Alternatives] = []
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


def _check_possible(parts: list[Alternatives], contrary: Alternatives) -> None:
    """Raise NoHostError if no values satisfy all clauses, not even values beyond the mapping."""
    if not is_possible(conjunction([part.clause for part in parts])):
        raise NoHostError(
            f"the requirement is true of no host: its bounds contradict each other at "
            f"{shown(contrary.clause)}"
        )


def _possible(boxes: list[Box], common: Box) -> list[Box]:
    """Return the alternatives that the common bounds allow, without those within others."""
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
