"""A condition on hosts in one batch system's terms: what is asked for, and what is dropped.

Each clause is read as bounds. Clauses of one alternative are met with each other first, so that
contradictions show and the strongest bound of several is the one that is asked for; a clause of
several alternatives is asked for whole where the batch system can be told alternatives, and by its
hull, or by one alternative, where it cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from collections.abc import Mapping as MappingType
from contextlib import suppress
from functools import partial
from itertools import islice, product
from typing import Final, TypeAlias

import attrs

from matchmaker.batch.asks import Ask, Group, Speaker, all_given, clash, values_of
from matchmaker.batch.clauses import Clause, Dropped, clauses_of, shown
from matchmaker.batch.errors import NoFlagsError, NoHostError, UnsayableError
from matchmaker.batch.mapping import Mapping
from matchmaker.batch.proof import meanings, unproven
from matchmaker.classad.nodes import Attr, Binary, Expr, conjunction, disjuncts
from matchmaker.reduction.bounds import bounds
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

MOST_ALTERNATIVES: Final = 16
"""So many alternatives a group may have."""

MOST_ROUNDS: Final = 16
"""So often what clauses leave of the alternatives of others is looked at anew."""

Called: TypeAlias = Collection[str]

Taken: TypeAlias = MappingType[str, object]
_NOTHING_TAKEN: Final[Taken] = {}

_Said: TypeAlias = tuple[list[Group], str]

OPEN: Final = "only a comparison of one host attribute with a constant has a flag"


@attrs.define(slots=True, eq=False)
class _Part:
    """A clause with its alternatives; those that other clauses rule out are struck off."""

    clause: Expr
    boxes: list[Box]


@attrs.frozen(slots=True)
class Told:
    """Terms for a condition, what is known of the hosts they must admit, and what they lose.

    ``groups`` are the terms, ``chosen`` those of each clause of several alternatives. ``common``
    are the bounds that every host must keep. ``reasons`` say why a clause may not be carried;
    whether it is, ``dropped`` decides.
    """

    clauses: tuple[Clause, ...]
    groups: tuple[Group, ...]
    chosen: MappingType[Expr, tuple[Group, ...]]
    common: Box
    names: MappingType[str, str]
    reasons: MappingType[Expr, str]
    narrowed: tuple[Dropped, ...] = ()
    trusted: Box = attrs.Factory(Box)

    def dropped(self) -> list[Dropped]:
        """Every clause that the terms, and what is trusted beside them, do not prove."""
        meant = {group: meanings(group) for group in self.groups}
        certain = [boxes[0] for boxes in meant.values() if len(boxes) == 1]
        several = {
            clause: [meant[group] for group in groups if group in meant]
            for clause, groups in self.chosen.items()
        }
        return [
            Dropped(clause.expression, self.reasons.get(clause.expression, OPEN))
            for clause in unproven(self.clauses, [self.trusted, *certain], several)
        ]


def tell(
    condition: Expr,
    table: Mapping,
    *,
    sure: bool = False,
    called: Called = (),
    taken: Taken = _NOTHING_TAKEN,
) -> Told:
    """What a batch system is asked for on account of a condition.

    Without ``sure`` all asks follow from the condition; with it the condition follows from the
    asks. ``called`` are the folded names of attributes that somebody else sees to, ``taken`` the
    options and resources that are given values already.

    Raises NoHostError where no host can satisfy the condition, and NoFlagsError where it is to be
    made sure of and cannot be.
    """
    clauses = clauses_of(condition, _universe(table))
    names: dict[str, str] = {}
    for clause in clauses:
        for folded, name in clause.names.items():
            names.setdefault(folded, name)
    parts = [_Part(clause.expression, list(clause.boxes)) for clause in clauses]
    common, settled = _settled(parts)
    teller = _Teller(table, names, Speaker(table, sure), called, taken)
    for part in parts:
        if not part.boxes:
            teller.lose(part.clause, "no host with values as the mapping has them satisfies it")
    teller.common(common, settled)
    for part in parts:
        if len(part.boxes) > 1:
            teller.alternatives(part)
    return Told(
        clauses,
        tuple(teller.groups),
        teller.chosen,
        common,
        names,
        teller.reasons,
        tuple(teller.narrowed),
    )


def _universe(table: Mapping) -> Callable[[str], Domain]:
    def universe(name: str) -> Domain:
        rule = table.rules.get(name)
        return ANY if rule is None else values_of(rule)

    return universe


def _settled(parts: list[_Part]) -> tuple[Box, list[_Part]]:
    """What all clauses of one alternative demand together, and these clauses.

    Strikes off alternatives that they rule out. A clause without any is one that no host satisfies
    as the mapping describes them; that alone does not make a requirement one of no host.
    """
    common = Box()
    settled: list[_Part] = []
    several = [part for part in parts if part.boxes]
    for _ in range(MOST_ROUNDS):
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


def _check_possible(parts: list[_Part], contrary: _Part) -> None:
    """Raises NoHostError where no values at all satisfy all clauses, not only none of a mapping."""
    if not bounds(conjunction([part.clause for part in parts])).boxes:
        raise NoHostError(
            f"the requirement is true of no host: its bounds contradict each other at "
            f"{shown(contrary.clause)}"
        )


def _possible(boxes: list[Box], common: Box) -> list[Box]:
    """The alternatives that are left with what else is demanded, without those within others."""
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


@attrs.define(slots=True, eq=False)
class _Teller:
    """Collects terms, and why clauses are lost or narrowed."""

    table: Mapping
    names: dict[str, str]
    speaker: Speaker
    called: Called
    taken: Taken
    groups: dict[Group, None] = attrs.Factory(dict)
    chosen: dict[Expr, tuple[Group, ...]] = attrs.Factory(dict)
    reasons: dict[Expr, str] = attrs.Factory(dict)
    narrowed: list[Dropped] = attrs.Factory(list)

    def common(self, common: Box, parts: list[_Part]) -> None:
        """Asks for what clauses of one alternative demand together."""
        concerning: dict[str | Tag, list[_Part]] = {}
        for part in parts:
            box = part.boxes[0]
            demands: list[str | Tag] = [*box.domains, *sorted(box.tags)]
            for each in demands:
                concerning.setdefault(each, []).append(part)
            if box.others:
                self.lose(part.clause, self._open(part.clause))
        order = [each for each in concerning if isinstance(each, Tag)]
        for demand, say in self._demands(common, order):
            if _subject(demand) in self.called:
                continue
            concerned = [part.clause for part in concerning[demand]]
            try:
                groups, loss = say()
                self._add(groups)
            except UnsayableError as error:
                for clause in concerned:
                    self.lose(clause, str(error))
            else:
                for clause in concerned if loss else ():
                    self._narrow(clause, loss)

    def alternatives(self, part: _Part) -> None:
        """Asks for a clause of several alternatives."""
        try:
            groups, loss = self._joined(part.boxes)
            self._add(groups)
            self.chosen[part.clause] = tuple(groups)
            if loss:
                self._narrow(part.clause, loss)
        except UnsayableError as error:
            if self.speaker.sure:
                self._one_alternative(part, str(error))
                return
            self.lose(part.clause, str(error))
            for group in self._lenient(hull(part.boxes))[0]:
                with suppress(UnsayableError):
                    self._add([group])

    def lose(self, clause: Expr, reason: str) -> None:
        """Notes why a clause may not be carried. Raises NoFlagsError where it must be."""
        if self.speaker.sure:
            raise NoFlagsError(
                f"{self.table.lrms} has no flags that make sure of {shown(clause)}: {reason}"
            )
        self.reasons.setdefault(clause, reason)

    def _narrow(self, clause: Expr, reason: str) -> None:
        """Notes why terms are not exact: too wide, or where they must make sure, too narrow."""
        if self.speaker.sure:
            self.narrowed.append(Dropped(clause, reason))
        else:
            self.reasons.setdefault(clause, reason)

    def _add(self, groups: Iterable[Group]) -> None:
        groups = list(groups)
        twice = clash(groups, self.taken)
        if twice:
            raise UnsayableError(f"{self.table.lrms} can be asked for {twice} in one way only")
        self.groups |= dict.fromkeys(groups)
        self.taken = {**self.taken, **dict(all_given(groups))}

    # --- boxes

    def _demands(
        self, box: Box, tags: Iterable[Tag] | None = None
    ) -> Iterable[tuple[str | Tag, Callable[[], _Said]]]:
        """Each thing that a box demands, an attribute's values or a tag, and how it is said."""
        listed = {tag.attribute for tag in box.tags if tag.has}
        for name, domain in box.domains.items():
            if not (name in listed and domain >= LISTS):
                yield name, partial(self._domain, name, domain)
        for tag in sorted(box.tags) if tags is None else tags:
            yield tag, partial(self._tag, tag)

    def _own(self, name: str) -> None:
        """Somebody else's attribute: told of what is always demanded, never of an alternative."""
        if name in self.called:
            raise UnsayableError(
                f"an alternative cannot be left to the site's own code for "
                f"{self.names.get(name, name)}"
            )

    def _domain(self, name: str, domain: Domain) -> _Said:
        self._own(name)
        rule = self.table.rules.get(name)
        if rule is None or rule.kind in ("name", "python", "shell"):
            raise UnsayableError(f"no flag for {self.names.get(name, name)}")
        return self.speaker.domain(rule, domain)

    def _tag(self, tag: Tag) -> _Said:
        self._own(tag.attribute)
        rule = self.table.rules.get(tag.attribute)
        if rule is None:
            raise UnsayableError(f"no flag for {self.names.get(tag.attribute, tag.attribute)}")
        return self.speaker.tag(rule, tag)

    def _lenient(self, box: Box) -> _Said:
        """What of a box can be said, and what is lost of it; a sure speaker says all or nothing."""
        groups: list[Group] = []
        lost = OPEN if box.others else ""
        if lost and self.speaker.sure:
            raise UnsayableError(lost)
        for _, say in self._demands(box):
            try:
                said, loss = say()
                groups += said
            except UnsayableError as error:
                if self.speaker.sure:
                    raise
                loss = str(error)
            lost = lost or loss
        return groups, lost

    def _open(self, clause: Expr) -> str:
        """Why an expression that no domain tells has no flag."""
        if isinstance(clause, Binary) and clause.operator in ("is", "isnt"):
            subject = clause.left
            rule = self.table.rules.get(subject.folded) if isinstance(subject, Attr) else None
            if rule is not None and rule.kind in ("eq", "member"):
                return "a feature does not tell upper from lower case"
            if rule is not None:
                return "a flag does not tell kinds of numbers"
        return OPEN

    # --- alternatives

    def _joined(self, boxes: list[Box]) -> _Said:
        """All alternatives as one group, after what all have in common."""
        several: list[tuple[Ask, ...]] = []
        lost = ""
        for box in boxes:
            groups, loss = self._lenient(box)
            lost = lost or loss
            if not groups and not loss:
                return [], ""
            if not groups:
                raise UnsayableError(loss)
            several += islice(
                (
                    tuple(dict.fromkeys(ask for asks in choice for ask in asks))
                    for choice in product(*groups)
                ),
                MOST_ALTERNATIVES + 1,
            )
            if len(several) > MOST_ALTERNATIVES:
                raise UnsayableError(f"there are more than {MOST_ALTERNATIVES} alternatives")
        shared = [ask for ask in several[0] if all(ask in asks for asks in several)]
        rest = [tuple(ask for ask in asks if ask not in shared) for asks in several]
        common: list[Group] = [((ask,),) for ask in shared]
        if not all(rest):
            return common, lost
        if not self.table.terms.or_:
            raise UnsayableError(f"{self.table.lrms} cannot be asked for alternatives")
        if any(ask.is_option for asks in rest for ask in asks):
            raise UnsayableError(f"{self.table.lrms} cannot be asked for alternatives of options")
        every = list(dict.fromkeys(rest))
        shortest = [asks for asks in every if not any(set(other) < set(asks) for other in every)]
        return [*common, tuple(shortest)], lost

    def _one_alternative(self, part: _Part, reason: str) -> None:
        """Asks for those alternatives that can be said together, or for one of them."""
        sayable = [box for box in part.boxes if self._is_sayable([box])]
        chosen = next(
            (c for c in (sayable, *([box] for box in sayable)) if c and self._is_sayable(c)), None
        )
        if chosen is None:
            self.lose(part.clause, reason)
            return
        groups, _ = self._joined(chosen)
        self._add(groups)
        self.chosen[part.clause] = tuple(groups)
        every = disjuncts(part.clause)
        others = [each for each in every if not self._holds(each, chosen)]
        for other in others if 0 < len(others) < len(every) else [part.clause]:
            self._narrow(other, "another alternative is asked for")

    def _is_sayable(self, boxes: list[Box]) -> bool:
        try:
            groups, _ = self._joined(boxes)
        except UnsayableError:
            return False
        return not clash(groups, self.taken)

    def _holds(self, alternative: Expr, chosen: list[Box]) -> bool:
        found = bounds(alternative, _universe(self.table)).boxes
        return all(any(box.within(each) for each in chosen) for box in found)


def _subject(demand: str | Tag) -> str:
    return demand if isinstance(demand, str) else demand.attribute
