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

from matchmaker.batch.asks import Ask, Group, Speaker, UnsayableError, clash, values_of
from matchmaker.batch.mapping import Mapping
from matchmaker.classad.nodes import (
    TRUE,
    Attr,
    Binary,
    Expr,
    conjunction,
    conjuncts,
    disjuncts,
)
from matchmaker.classad.unparse import unparse
from matchmaker.reduction.bounds import bounds
from matchmaker.reduction.domains import ANY, LISTS, Box, Domain, Tag, hull

MOST_ALTERNATIVES: Final = 16
"""So many alternatives a group may have."""

Called: TypeAlias = Collection[str]

Taken: TypeAlias = MappingType[str, object]
_NOTHING_TAKEN: Final[Taken] = {}

_Said: TypeAlias = tuple[list[Group], str]

OPEN: Final = "only a comparison of one host attribute with a constant has a flag"


class NoFlagsError(ValueError):
    """There are no flags of the kind that was asked for; the message says which clause is why."""


class NoHostError(NoFlagsError):
    """No host can satisfy the requirement, so that there is nothing to submit."""


@attrs.frozen(slots=True)
class Dropped:
    """A clause that the flags do not carry, or not whole, and why."""

    clause: Expr
    reason: str


@attrs.define(slots=True, eq=False)
class _Part:
    """A clause with its alternatives; those that other clauses rule out are struck off."""

    clause: Expr
    boxes: list[Box]


@attrs.frozen(slots=True)
class Told:
    """What is asked for, what is dropped of the condition, and the bounds of what is common."""

    groups: tuple[Group, ...]
    dropped: tuple[Dropped, ...]
    common: Box
    names: dict[str, str]


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
    universe = _universe(table)
    names: dict[str, str] = {}
    parts: list[_Part] = []
    for clause in conjuncts(condition):
        if clause is not TRUE:
            found = bounds(clause, universe)
            names = {**found.names, **names}
            parts.append(_Part(clause, list(found.boxes)))
    common, settled = _settled(parts)
    teller = _Teller(table, names, Speaker(table, sure), called, taken)
    for part in parts:
        if not part.boxes:
            teller.impossible(part.clause)
    teller.common(common, settled)
    for part in parts:
        if len(part.boxes) > 1:
            teller.alternatives(part)
    return Told(tuple(teller.groups), tuple(teller.dropped), common, names)


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
    before = -1
    while before != len(settled):
        before = len(settled)
        for part in parts:
            if part in settled or not part.boxes:
                continue
            part.boxes = _possible(part.boxes, common)
            if len(part.boxes) == 1:
                common = common.meet(part.boxes[0]) or common
                settled.append(part)
    empty = [part.clause for part in parts if not part.boxes]
    if empty and not bounds(conjunction([part.clause for part in parts])).boxes:
        raise NoHostError(
            f"the requirement is true of no host: its bounds contradict each other at "
            f"{shown(empty[0])}"
        )
    return common, settled


def _possible(boxes: list[Box], common: Box) -> list[Box]:
    """The alternatives that are left with what else is demanded, without those within others."""
    left = [(box, met) for box in boxes if (met := box.meet(common)) is not None]
    return [
        box
        for place, (box, met) in enumerate(left)
        if not any(
            met.within(other) and (at < place or not other.within(met))
            for at, (_, other) in enumerate(left)
            if at != place
        )
    ]


def shown(clause: Expr) -> str:
    """A clause within a message."""
    text = unparse(clause)
    return text if len(text) <= 200 else f"{text[:200]} ..."


@attrs.define(slots=True, eq=False)
class _Teller:
    """Collects what is asked for and what is dropped."""

    table: Mapping
    names: dict[str, str]
    speaker: Speaker
    called: Called
    taken: Taken
    groups: list[Group] = attrs.Factory(list)
    dropped: list[Dropped] = attrs.Factory(list)

    def common(self, common: Box, parts: list[_Part]) -> None:
        """Asks for what clauses of one alternative demand together."""
        lost: dict[Expr, str] = {}
        order = list(dict.fromkeys(tag for part in parts for tag in sorted(part.boxes[0].tags)))
        for name, say in self._demands(common, order):
            if name in self.called:
                continue
            concerned = [part for part in parts if name in _subjects(part.boxes[0])]
            try:
                groups, loss = say()
                self._add(groups)
            except UnsayableError as error:
                loss = str(error)
                self._insist(concerned[0].clause, loss)
            if loss:
                # Only clauses that are lossy by themselves are to blame, if there are such.
                blamed = [p for p in concerned if self._loses(name, p.boxes[0])] or concerned
                lost.update({part.clause: loss for part in blamed})
        for part in parts:
            if part.boxes[0].others:
                reason = self._open(part.clause)
                self._insist(part.clause, reason)
                lost.setdefault(part.clause, reason)
        for part in parts:
            if part.clause in lost:
                self.drop(part.clause, lost[part.clause])

    def alternatives(self, part: _Part) -> None:
        """Asks for a clause of several alternatives."""
        try:
            groups, lost = self._joined(part.boxes)
            self._add(groups)
        except UnsayableError as error:
            if self.speaker.sure:
                self._one_alternative(part, str(error))
                return
            lost = str(error)
            for group in self._lenient(hull(part.boxes))[0]:
                with suppress(UnsayableError):
                    self._add([group])
        if lost:
            self.drop(part.clause, lost)

    def impossible(self, clause: Expr) -> None:
        """Notes that only hosts with values that the mapping does not know satisfy a clause."""
        reason = "no host with values as the mapping has them satisfies it"
        self._insist(clause, reason)
        self.drop(clause, reason)

    def drop(self, clause: Expr, reason: str) -> None:
        """Notes that a clause is not carried, or not whole."""
        self.dropped.append(Dropped(clause, reason))

    def _add(self, groups: Iterable[Group]) -> None:
        every = list(dict.fromkeys([*self.groups, *groups]))
        twice = clash(every, self.taken)
        if twice:
            raise UnsayableError(f"{self.table.lrms} can be asked for {twice} in one way only")
        self.groups = every

    def _insist(self, clause: Expr, reason: str) -> None:
        if self.speaker.sure:
            raise NoFlagsError(
                f"{self.table.lrms} has no flags that make sure of {shown(clause)}: {reason}"
            )

    # --- boxes

    def _demands(
        self, box: Box, tags: Iterable[Tag] | None = None
    ) -> Iterable[tuple[str, Callable[[], _Said]]]:
        """Each thing that a box demands, by its attribute, and how it is said."""
        for name, domain in box.domains.items():
            listed = any(tag.attribute == name and tag.has for tag in box.tags)
            if not (listed and domain >= LISTS):
                yield name, partial(self._domain, name, domain)
        for tag in sorted(box.tags) if tags is None else tags:
            yield tag.attribute, partial(self._tag, tag)

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

    def _loses(self, name: str, box: Box) -> bool:
        try:
            return any(say()[1] for subject, say in self._demands(box) if subject == name)
        except UnsayableError:
            return True

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
            self._insist(part.clause, reason)
            return
        self._add(self._joined(chosen)[0])
        every = disjuncts(part.clause)
        others = [each for each in every if not self._holds(each, chosen)]
        for other in others if 0 < len(others) < len(every) else [part.clause]:
            self.drop(other, "another alternative is asked for")

    def _is_sayable(self, boxes: list[Box]) -> bool:
        try:
            groups, _ = self._joined(boxes)
        except UnsayableError:
            return False
        return not clash([*self.groups, *groups], self.taken)

    def _holds(self, alternative: Expr, chosen: list[Box]) -> bool:
        found = bounds(alternative, _universe(self.table)).boxes
        return all(any(box.within(each) for each in chosen) for box in found)


def _subjects(box: Box) -> set[str]:
    return {*box.domains, *(tag.attribute for tag in box.tags)}
