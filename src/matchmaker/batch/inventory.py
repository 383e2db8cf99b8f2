"""A queue's nodes as classes of equal nodes, which of them will do, and what flags select of them.

Nodes are equal where all that a decision about them rests on is equal, so that ten thousand nodes
of fifty kinds cost fifty evaluations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from matchmaker.batch.told import NoHostError
from matchmaker.classad import ClassAd, Expr
from matchmaker.classad.ad import HOST_NAMES, first_text
from matchmaker.classad.nodes import Attr, Call, Literal, postorder
from matchmaker.classad.operators import ascii_fold, truth
from matchmaker.classad.values import Value
from matchmaker.reduction import Reduction
from matchmaker.reduction.simplify import REFLECTIVE, VOLATILE

_APART: Final = VOLATILE | REFLECTIVE
_WHOLE: Final = frozenset(
    {"my", "self", "other", "target", "parent", "root", "toplevel", "currenttime"}
)


@attrs.frozen(slots=True, eq=False)
class NodeClass:
    """Nodes that nothing here can tell apart: their places in the inventory, and one of the ads."""

    ad: ClassAd
    numbers: tuple[int, ...]
    accepted: bool

    def value(self, attribute: str) -> Value:
        """An attribute of each of the nodes."""
        return self.ad.eval(attribute)


@attrs.frozen(slots=True)
class Certificate:
    """What flags select of an inventory, node by node, as the mapping means them.

    ``wrongly_included`` are admitted though the residual refuses them, or nobody can say whether
    they are admitted; ``wrongly_excluded`` the other way round.
    """

    nodes: int
    classes: int
    accepted: int
    wrongly_included: tuple[str, ...] = ()
    wrongly_excluded: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether exactly the right nodes are selected."""
        return not (self.wrongly_included or self.wrongly_excluded)


@attrs.frozen(slots=True, eq=False)
class Inventory:
    """All nodes of a queue, in classes."""

    ads: list[ClassAd]
    classes: list[NodeClass]

    @property
    def accepted(self) -> list[NodeClass]:
        """The classes that will do."""
        return [each for each in self.classes if each.accepted]

    @property
    def refused(self) -> list[NodeClass]:
        """The classes that will not do."""
        return [each for each in self.classes if not each.accepted]

    def names(self, classes: Iterable[NodeClass]) -> list[str | None]:
        """The names that the nodes of classes go by, in the inventory's order."""
        numbers = sorted(number for each in classes for number in each.numbers)
        return [node_name(self.ads[number]) for number in numbers]

    def labels(self, classes: Iterable[NodeClass]) -> tuple[str, ...]:
        """Names for people: those of the nodes, or their numbers in the inventory."""
        numbers = sorted(number for each in classes for number in each.numbers)
        return tuple(node_name(self.ads[n]) or f"node {n + 1}" for n in numbers)

    def certificate(
        self, admitted: Callable[[NodeClass], bool | None], by_name: Callable[[str | None], bool]
    ) -> Certificate:
        """Enumerates what is selected: `admitted` by what is asked for, not ruled out `by_name`."""
        wrong_in: list[NodeClass] = []
        wrong_out: list[NodeClass] = []
        for each in self.classes:
            verdict = admitted(each)
            for number in each.numbers:
                one = attrs.evolve(each, numbers=(number,))
                # Where nobody can say, it counts as wrong either way.
                chosen = verdict if by_name(node_name(self.ads[number])) else False
                if each.accepted and chosen is not True:
                    wrong_out.append(one)
                elif not each.accepted and chosen is not False:
                    wrong_in.append(one)
        return Certificate(
            len(self.ads), len(self.classes), sum(len(each.numbers) for each in self.accepted),
            self.labels(wrong_in), self.labels(wrong_out),
        )  # fmt: skip


def node_name(ad: ClassAd) -> str | None:
    """The name that a node goes by."""
    found = ad.get("Name")
    if isinstance(found, Literal) and isinstance(found.value, str) and found.value:
        return found.value
    return first_text(ad, HOST_NAMES)


def survey(ads: Iterable[ClassAd], reduction: Reduction, attributes: Iterable[str]) -> Inventory:
    """The nodes in classes, each judged once.

    A node will do where the residual is true of it and its own requirements are true of the job.
    ``attributes`` are those that flags speak of, beside the residual's. Raises NoHostError where no
    node will do.
    """
    every = list(ads)
    significant = {ascii_fold(name) for name in attributes} | {"requirements"}
    significant |= _names(reduction.residual) or set()
    grouped = _grouped(every, significant)
    classes = [
        NodeClass(every[numbers[0]], tuple(numbers), _will_do(every[numbers[0]], reduction))
        for numbers in grouped
    ]
    found = Inventory(every, classes)
    if not found.accepted:
        raise NoHostError(f"none of the {len(every)} nodes satisfies what is left to the host")
    return found


def _will_do(ad: ClassAd, reduction: Reduction) -> bool:
    job = reduction.job
    theirs = ad.eval("Requirements", job) if "Requirements" in ad else True
    return truth(reduction.residual.eval(job, ad)) is True and truth(theirs) is True


def _grouped(ads: list[ClassAd], significant: set[str]) -> list[list[int]]:
    """The numbers of nodes by class; a node that looks at more than its attributes is its own."""
    looked: dict[Expr, set[str] | None] = {}
    while True:
        names = tuple(sorted(significant))
        classes: dict[tuple[Expr | int | None, ...], list[int]] = {}
        more: set[str] = set()
        for number, ad in enumerate(ads):
            classes.setdefault(tuple(map(ad.get, names)), []).append(number)
        for key in list(classes):
            for part in key:
                if not isinstance(part, Expr) or isinstance(part, Literal):
                    continue
                if part not in looked:
                    looked[part] = _names(part)
                needed = looked[part]
                if needed is None:
                    for number in classes.pop(key, []):
                        classes[number,] = [number]
                else:
                    more |= needed
        if more <= significant:
            return list(classes.values())
        significant |= more


def _names(node: Expr) -> set[str] | None:
    """Every name within an expression; None for one that looks at whole ads or at the moment."""
    found: set[str] = set()
    bases = {part.base for part in postorder(node) if isinstance(part, Attr)}
    for part in postorder(node):
        if isinstance(part, Call) and part.function.lower() in _APART:
            return None
        if isinstance(part, Attr):
            if part.folded in _WHOLE and part not in bases:
                return None
            found.add(part.folded)
    return found
