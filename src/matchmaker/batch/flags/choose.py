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
    choice = _Choice(table, dict(spelled), called, sure, dict(taken or {}))
    for part in parts:
        if not part.boxes:
            choice.lose(part.clause, "no host with values as in the mapping satisfies it")
    choice.add_common(common, settled)
    for part in parts:
        if len(part.boxes) > 1:
            choice.add_alternatives(part)
    return ChosenTerms(
        clauses, tuple(choice.groups), common, choice.sources, choice.reasons,
        tuple(choice.narrowed),
    )  # fmt: skip


def _universe(table: Mapping, name: str) -> Domain:
    rule = table.rules.get(name)
    return ANY if rule is None else values_of(rule)


@attrs.define(slots=True, eq=False)
class _Choice:
    """The terms that are chosen so far, and why they lose or narrow clauses.

    A first reason for a clause counts: later ones follow from it.
    """

    table: Mapping
    names: MappingType[str, str]
    called: Collection[str]
    sure: bool
    taken: dict[str, object]
    groups: dict[Group, None] = attrs.Factory(dict)
    sources: dict[Expr, tuple[Group, ...]] = attrs.Factory(dict)
    reasons: dict[Expr, str] = attrs.Factory(dict)
    narrowed: list[Dropped] = attrs.Factory(list)

    def lose(self, clause: Expr, reason: str) -> None:
        """Note why no term stands for a clause; raise NoFlagsError if terms must be sure."""
        if self.sure:
            raise NoFlagsError(
                f"{self.table.lrms} has no flags that make sure of {shown(clause)}: {reason}"
            )
        self.reasons.setdefault(clause, reason)

    def blur(self, clause: Expr, reason: str) -> None:
        """Note why terms are wider than a clause or, if they must be sure, narrower."""
        if self.sure:
            self.narrowed.append(Dropped(clause, reason))
        else:
            self.reasons.setdefault(clause, reason)

    def add(self, groups: Iterable[Group]) -> None:
        """Add groups; raise NoTermError if they set an option that has another value."""
        groups = list(groups)
        twice = clash(groups, self.taken)
        if twice:
            before = self.taken.get(twice)
            said = f"{before[0]} is set" if isinstance(before, tuple) else before
            why = f": {said}" if said else ""
            raise NoTermError(f"{self.table.lrms} can be asked for {twice} in one way only{why}")
        self.groups.update(dict.fromkeys(groups))
        self.taken.update(assignments(groups))

    def add_common(self, common: Box, parts: list[Alternatives]) -> None:
        """Add terms for the common bounds of clauses of one alternative."""
        concerned: dict[_Demand, list[Expr]] = {}
        for part in parts:
            box = part.boxes[0]
            demands: list[_Demand] = [*box.domains, *sorted(box.tags)]
            for demand in demands:
                concerned.setdefault(demand, []).append(part.clause)
            if box.others:
                self.lose(part.clause, _open(self.table, part.clause))
        order = [demand for demand in concerned if isinstance(demand, Tag)]
        for demand, domain in _demands(common, order):
            if _subject(demand) in self.called:
                continue
            try:
                groups, loss = self.demanded(demand, domain)
                self.add(groups)
            except NoTermError as error:
                for clause in concerned[demand]:
                    self.lose(clause, str(error))
            else:
                for clause in concerned[demand] if loss else ():
                    self.blur(clause, loss)

    def add_alternatives(self, part: Alternatives) -> None:
        """Add terms for a clause of several alternatives."""
        try:
            groups, loss = self.joined(part.boxes)
            self.add(groups)
        except NoTermError as error:
            if self.sure:
                self.add_one(part, str(error))
                return
            self.lose(part.clause, str(error))
            # The hull is wider than the alternatives, but better than nothing.
            for group in self.translated(hull(part.boxes))[0]:
                with suppress(NoTermError):
                    self.add([group])
            return
        self.sources[part.clause] = tuple(groups)
        if loss:
            self.blur(part.clause, loss)

    def add_one(self, part: Alternatives, reason: str) -> None:
        """Add terms for the alternatives that can be joined, or else for one of them."""

        def can_add(boxes: list[Box]) -> bool:
            try:
                groups, _ = self.joined(boxes)
            except NoTermError:
                return False
            return not clash(groups, self.taken)

        possible = [box for box in part.boxes if can_add([box])]
        several = (possible, *([box] for box in possible))
        chosen = next((boxes for boxes in several if boxes and can_add(boxes)), None)
        if chosen is None:
            self.lose(part.clause, reason)
            return
        groups, _ = self.joined(chosen)
        self.add(groups)
        self.sources[part.clause] = tuple(groups)
        every = disjuncts(part.clause)
        universe = partial(_universe, self.table)
        others = [
            each
            for each in every
            if not all(
                any(box.within(one) for one in chosen) for box in bounds(each, universe).boxes
            )
        ]
        for other in others if 0 < len(others) < len(every) else [part.clause]:
            self.blur(other, "another alternative is asked for")

    def demanded(self, demand: _Demand, domain: Domain) -> _Translation:
        """Return terms for a demand; the site's own code has the bounds of every host alone."""
        name = _subject(demand)
        spelled = self.names.get(name, name)
        if name in self.called:
            raise NoTermError(f"an alternative cannot be left to the site's own code for {spelled}")
        rule = self.table.rules.get(name)
        if rule is None or (isinstance(demand, str) and rule.kind in ("name", "python", "shell")):
            known = other_name(name)
            other = f"; there is one for {known}" if ascii_fold(known) in self.table.rules else ""
            raise NoTermError(f"no flag for {spelled}{other}")
        if isinstance(demand, str):
            return of_domain(self.table, rule, domain, sure=self.sure)
        return of_tag(self.table, rule, demand, sure=self.sure)

    def translated(self, box: Box) -> _Translation:
        """Return terms for a box, and the reason why they are wider; sure terms are not."""
        groups: list[Group] = []
        lost = OPEN if box.others else ""
        if lost and self.sure:
            raise NoTermError(lost)
        for demand, domain in _demands(box):
            try:
                more, loss = self.demanded(demand, domain)
                groups += more
            except NoTermError as error:
                if self.sure:
                    raise
                loss = str(error)
            lost = lost or loss
        return groups, lost

    def joined(self, boxes: list[Box]) -> _Translation:
        """Return all alternatives as one group, after the terms that all have in common."""
        several: list[tuple[FlagTerm, ...]] = []
        lost = ""
        for box in boxes:
            groups, loss = self.translated(box)
            lost = lost or loss
            if not groups and not loss:
                return [], ""
            if not groups:
                raise NoTermError(loss)
            every = (
                dict.fromkeys(t for terms in choice for t in terms) for choice in product(*groups)
            )
            several += islice(map(tuple, every), LIMITS.alternatives + 1)
            if len(several) > LIMITS.alternatives:
                raise NoTermError(f"there are more than {LIMITS.alternatives} alternatives")
        shared = [term for term in several[0] if all(term in terms for terms in several)]
        rest = [tuple(term for term in terms if term not in shared) for terms in several]
        common: list[Group] = [((term,),) for term in shared]
        if not all(rest):
            return common, lost
        lrms = self.table.lrms
        if not self.table.terms.or_:
            raise NoTermError(f"{lrms} cannot be asked for alternatives")
        if any(term.is_option for terms in rest for term in terms):
            raise NoTermError(f"{lrms} cannot be asked for alternatives of options")
        unique = list(dict.fromkeys(rest))
        # An alternative that demands more than another one adds nothing.
        shortest = [one for one in unique if not any(set(other) < set(one) for other in unique)]
        return [*common, tuple(shortest)], lost


def _open(table: Mapping, clause: Expr) -> str:
    """Explain why a clause that bounds cannot express has no flag."""
    if isinstance(clause, Binary) and clause.operator in ("is", "isnt"):
        subject = clause.left
        rule = table.rules.get(subject.folded) if isinstance(subject, Attr) else None
        if rule is not None and rule.kind in ("eq", "member") and not rule.flag:
            return "a feature does not distinguish upper from lower case"
        if rule is not None:
            return "a flag does not distinguish kinds of numbers"
    if any("gpumodels" in path.folded for path in names_of(clause).paths):
        return f"{OPEN}; the GPUModel that goes with RequestGPUs may have one"
    return OPEN


def _demands(box: Box, tags: Iterable[Tag] | None = None) -> Iterator[tuple[_Demand, Domain]]:
    """Yield each demand of a box: an attribute with its domain, or a tag."""
    listed = {tag.attribute for tag in box.tags if tag.has}
    for name, domain in box.domains.items():
        if not (name in listed and domain >= LISTS):
            yield name, domain
    for tag in sorted(box.tags) if tags is None else tags:
        yield tag, LISTS


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
