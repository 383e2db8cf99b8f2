"""Chooses terms of a batch system for a condition on hosts.

Clauses of one alternative are met with each other first: contradictions show, and the strongest of
several bounds is asked for. A clause of several alternatives becomes one group if the batch system
has alternatives; otherwise its hull is asked for, or one of the alternatives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from collections.abc import Mapping as MappingType
from contextlib import suppress
from functools import partial
from itertools import islice, product
from typing import Final, TypeAlias

import attrs

from matchmaker.batch.alternatives import Part, settle
from matchmaker.batch.clauses import Clause, Dropped, boxes_of, clauses_of, shown, unproven
from matchmaker.batch.errors import NoFlagsError, NoTermError
from matchmaker.batch.limits import LIMITS
from matchmaker.batch.mapping import Mapping
from matchmaker.batch.terms import Group, Term, assignments, clash, meaning, values_of
from matchmaker.batch.translation import Translator
from matchmaker.classad.nodes import Attr, Binary, Expr, disjuncts
from matchmaker.reduction.domains import ANY, LISTS, Box, Domain, Tag, hull

Options: TypeAlias = MappingType[str, object]
"""Options and resources with the value that each is given."""

_Translation: TypeAlias = tuple[list[Group], str]
_Demand: TypeAlias = str | Tag
"""An attribute whose value must be in a domain, by its folded name; or a text in a list."""

OPEN: Final = "only a comparison of one host attribute with a constant has a flag"


@attrs.frozen(slots=True)
class Chosen:
    """The terms for a condition, and what is known about them.

    Attributes:
        clauses: the clauses of the condition.
        groups: the terms.
        common: the bounds that every host must keep.
        sources: for each clause of several alternatives, the groups chosen for it.
        reasons: why a clause may not be carried; ``dropped`` decides whether it is.
        narrowed: what terms that must be sure exclude beyond the condition.
        trusted: the bounds that the site's own code takes care of.
    """

    clauses: tuple[Clause, ...]
    groups: tuple[Group, ...]
    common: Box
    sources: MappingType[Expr, tuple[Group, ...]]
    reasons: MappingType[Expr, str]
    narrowed: tuple[Dropped, ...]
    trusted: Box = attrs.Factory(Box)

    def dropped(self) -> list[Dropped]:
        """Every clause that the terms and the trusted bounds do not prove."""
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
) -> Chosen:
    """Chooses terms for a condition.

    Args:
        condition: the condition on hosts.
        table: the mapping of the batch system.
        sure: the terms must imply the condition; otherwise the condition implies the terms.
        called: folded names of attributes that the site's own code takes care of.
        taken: options and resources that have a value already.

    Raises:
        NoHostError: no host can satisfy the condition.
        NoFlagsError: ``sure`` terms are wanted, and there are none for a clause.
    """
    clauses = clauses_of(condition, partial(_universe, table))
    parts = [Part(clause.expression, list(clause.boxes)) for clause in clauses]
    common, settled = settle(parts)
    spelled = (item for clause in clauses[::-1] for item in clause.bounds.names.items())
    chooser = _Chooser(table, dict(spelled), Translator(table, sure), called, taken or {})
    for part in parts:
        if not part.boxes:
            chooser.lose(part.clause, "no host with values as in the mapping satisfies it")
    chooser.common(common, settled)
    for part in parts:
        if len(part.boxes) > 1:
            chooser.several(part)
    return Chosen(
        clauses,
        tuple(chooser.groups),
        common,
        chooser.sources,
        chooser.reasons,
        tuple(chooser.narrowed),
    )


def _universe(table: Mapping, name: str) -> Domain:
    rule = table.rules.get(name)
    return ANY if rule is None else values_of(rule)


@attrs.define(slots=True, eq=False)
class _Chooser:
    """Collects terms, and why they lose or narrow a clause."""

    table: Mapping
    names: MappingType[str, str]
    translator: Translator
    called: Collection[str]
    taken: Options
    groups: dict[Group, None] = attrs.Factory(dict)
    sources: dict[Expr, tuple[Group, ...]] = attrs.Factory(dict)
    reasons: dict[Expr, str] = attrs.Factory(dict)
    narrowed: list[Dropped] = attrs.Factory(list)

    def common(self, common: Box, parts: list[Part]) -> None:
        """Adds terms for the common bounds of clauses of one alternative."""
        concerned: dict[_Demand, list[Expr]] = {}
        for part in parts:
            box = part.boxes[0]
            demands: list[_Demand] = [*box.domains, *sorted(box.tags)]
            for demand in demands:
                concerned.setdefault(demand, []).append(part.clause)
            if box.others:
                self.lose(part.clause, self._open(part.clause))
        order = [demand for demand in concerned if isinstance(demand, Tag)]
        for demand, translate in self._demands(common, order):
            if _subject(demand) in self.called:
                continue
            try:
                groups, loss = translate()
                self._add(groups)
            except NoTermError as error:
                for clause in concerned[demand]:
                    self.lose(clause, str(error))
            else:
                for clause in concerned[demand] if loss else ():
                    self._blur(clause, loss)

    def several(self, part: Part) -> None:
        """Adds terms for a clause of several alternatives."""
        try:
            groups, loss = self._joined(part.boxes)
            self._add(groups)
        except NoTermError as error:
            if self.translator.sure:
                self._one_alternative(part, str(error))
                return
            self.lose(part.clause, str(error))
            for group in self._translated(hull(part.boxes))[0]:
                with suppress(NoTermError):
                    self._add([group])
        else:
            self.sources[part.clause] = tuple(groups)
            if loss:
                self._blur(part.clause, loss)

    def lose(self, clause: Expr, reason: str) -> None:
        """Notes why no term stands for a clause. Raises NoFlagsError if terms must be sure."""
        if self.translator.sure:
            raise NoFlagsError(
                f"{self.table.lrms} has no flags that make sure of {shown(clause)}: {reason}"
            )
        self.reasons.setdefault(clause, reason)

    def _blur(self, clause: Expr, reason: str) -> None:
        """Notes why terms are wider than a clause or, if they must be sure, narrower."""
        if self.translator.sure:
            self.narrowed.append(Dropped(clause, reason))
        else:
            self.reasons.setdefault(clause, reason)

    def _add(self, groups: Iterable[Group]) -> None:
        groups = list(groups)
        twice = clash(groups, self.taken)
        if twice:
            raise NoTermError(f"{self.table.lrms} can be asked for {twice} in one way only")
        self.groups |= dict.fromkeys(groups)
        self.taken = {**self.taken, **dict(assignments(groups))}

    def _open(self, clause: Expr) -> str:
        """Why a clause that bounds cannot express has no flag."""
        if isinstance(clause, Binary) and clause.operator in ("is", "isnt"):
            subject = clause.left
            rule = self.table.rules.get(subject.folded) if isinstance(subject, Attr) else None
            if rule is not None and rule.kind in ("eq", "member"):
                return "a feature does not tell upper from lower case"
            if rule is not None:
                return "a flag does not tell kinds of numbers"
        return OPEN

    # --- boxes

    def _demands(
        self, box: Box, tags: Iterable[Tag] | None = None
    ) -> Iterator[tuple[_Demand, Callable[[], _Translation]]]:
        """Each demand of a box, and the function that translates it."""
        listed = {tag.attribute for tag in box.tags if tag.has}
        for name, domain in box.domains.items():
            if not (name in listed and domain >= LISTS):
                yield name, partial(self._domain, name, domain)
        for tag in sorted(box.tags) if tags is None else tags:
            yield tag, partial(self._tag, tag)

    def _domain(self, name: str, domain: Domain) -> _Translation:
        self._check_not_called(name)
        rule = self.table.rules.get(name)
        if rule is None or rule.kind in ("name", "python", "shell"):
            raise NoTermError(f"no flag for {self.names.get(name, name)}")
        return self.translator.domain(rule, domain)

    def _tag(self, tag: Tag) -> _Translation:
        self._check_not_called(tag.attribute)
        rule = self.table.rules.get(tag.attribute)
        if rule is None:
            raise NoTermError(f"no flag for {self.names.get(tag.attribute, tag.attribute)}")
        return self.translator.tag(rule, tag)

    def _check_not_called(self, name: str) -> None:
        """The site's own code is given what every host must keep, never an alternative."""
        if name in self.called:
            raise NoTermError(
                f"an alternative cannot be left to the site's own code for "
                f"{self.names.get(name, name)}"
            )

    def _translated(self, box: Box) -> _Translation:
        """Terms for a box, and what is lost of it; sure terms lose nothing."""
        groups: list[Group] = []
        lost = OPEN if box.others else ""
        if lost and self.translator.sure:
            raise NoTermError(lost)
        for _, translate in self._demands(box):
            try:
                more, loss = translate()
                groups += more
            except NoTermError as error:
                if self.translator.sure:
                    raise
                loss = str(error)
            lost = lost or loss
        return groups, lost

    # --- alternatives

    def _joined(self, boxes: list[Box]) -> _Translation:
        """All alternatives as one group, after the terms that all have in common."""
        several: list[tuple[Term, ...]] = []
        lost = ""
        for box in boxes:
            groups, loss = self._translated(box)
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
        if not self.table.terms.or_:
            raise NoTermError(f"{self.table.lrms} cannot be asked for alternatives")
        if any(term.is_option for terms in rest for term in terms):
            raise NoTermError(f"{self.table.lrms} cannot be asked for alternatives of options")
        every = list(dict.fromkeys(rest))
        shortest = [terms for terms in every if not any(set(other) < set(terms) for other in every)]
        return [*common, tuple(shortest)], lost

    def _one_alternative(self, part: Part, reason: str) -> None:
        """Adds terms for the alternatives that can be joined, or else for one of them."""
        possible = [box for box in part.boxes if self._can_add([box])]
        chosen = next(
            (c for c in (possible, *([box] for box in possible)) if c and self._can_add(c)), None
        )
        if chosen is None:
            self.lose(part.clause, reason)
            return
        groups, _ = self._joined(chosen)
        self._add(groups)
        self.sources[part.clause] = tuple(groups)
        every = disjuncts(part.clause)
        others = [each for each in every if not self._is_within(each, chosen)]
        for other in others if 0 < len(others) < len(every) else [part.clause]:
            self._blur(other, "another alternative is asked for")

    def _can_add(self, boxes: list[Box]) -> bool:
        try:
            groups, _ = self._joined(boxes)
        except NoTermError:
            return False
        return not clash(groups, self.taken)

    def _is_within(self, alternative: Expr, chosen: list[Box]) -> bool:
        found = boxes_of(alternative, partial(_universe, self.table))
        return all(any(box.within(each) for each in chosen) for box in found)


def _subject(demand: _Demand) -> str:
    return demand if isinstance(demand, str) else demand.attribute
