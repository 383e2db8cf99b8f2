"""The nodes of a queue in classes of equal nodes, and the certificate of what flags select.

Nodes are equal if they agree in everything that a decision depends on, so ten thousand nodes of
fifty kinds cost fifty evaluations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import attrs

from matchmaker.batch.errors import NoHostError
from matchmaker.batch.flags.choose import shown
from matchmaker.classad import ClassAd, Expr
from matchmaker.classad.ad import HOST_NAMES, first_text
from matchmaker.classad.operators import ascii_fold, truth
from matchmaker.classad.values import Value
from matchmaker.classad.walks import conjuncts
from matchmaker.reduction.reduce import alike, names_in

AVAILABLE: Final = "other.Available isnt false"
"""The node takes jobs, or does not say whether it does."""


@attrs.frozen(slots=True, eq=False)
class NodeClass:
    """Equal nodes: their places in the inventory, the ad of one, and whether they are accepted."""

    ad: ClassAd
    numbers: tuple[int, ...]
    accepted: bool

    def value(self, attribute: str) -> Value:
        """Return the value of an attribute of each of the nodes."""
        return self.ad.eval(attribute)


@attrs.frozen(slots=True)
class Certificate:
    """The nodes of an inventory that flags select wrongly, by the meaning of the mapping.

    A node is accepted if the submission's ``condition`` is true of it, the residual and room for
    the job's requests, and its own requirements are true of the job. ``wrongly_included`` are
    admitted but not accepted, or it is unknown whether they are admitted; ``wrongly_excluded`` are
    accepted but not admitted.
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
    named: list[str | None]
    classes: list[NodeClass]

    @property
    def accepted(self) -> list[NodeClass]:
        """The classes that are accepted."""
        return [each for each in self.classes if each.accepted]

    @property
    def refused(self) -> list[NodeClass]:
        """The classes that are not accepted."""
        return [each for each in self.classes if not each.accepted]

    @property
    def waiting(self) -> str:
        """Explain why a job has to wait if no accepted node takes jobs; empty if one does."""
        if any(each.value("Available") is not False for each in self.accepted):
            return ""
        first = self.accepted[0]
        state = first.value("NodeState")
        said = f" is {state}" if isinstance(state, str) else ""
        return f"no node that will do takes jobs now: {self.labels(first.numbers)[0]}{said}"

    def names(self, classes: Iterable[NodeClass]) -> list[str | None]:
        """Return the names of the nodes of classes, in the inventory's order."""
        numbers = sorted(number for each in classes for number in each.numbers)
        return [self.named[number] for number in numbers]

    def labels(self, numbers: Iterable[int]) -> tuple[str, ...]:
        """Return names for people: those of the nodes, or their numbers in the inventory."""
        return tuple(self.named[n] or f"node {n + 1}" for n in sorted(numbers))

    def certificate(
        self, admitted: Callable[[NodeClass], bool | None], by_name: Callable[[str | None], bool]
    ) -> Certificate:
        """Compare nodes ``admitted``, as a class and ``by_name``, with the accepted ones."""
        wrong_in: list[int] = []
        wrong_out: list[int] = []
        for each in self.classes:
            verdict = admitted(each)
            # Unknown counts as wrong either way.
            right, wrong = (True, wrong_out) if each.accepted else (False, wrong_in)
            for number in each.numbers:
                chosen = verdict if by_name(self.named[number]) else False
                if chosen is not right:
                    wrong.append(number)
        return Certificate(
            len(self.ads),
            len(self.classes),
            sum(len(each.numbers) for each in self.accepted),
            self.labels(wrong_in),
            self.labels(wrong_out),
        )


def node_name(ad: ClassAd) -> str | None:
    """Return the name of a node."""
    found = ad._held.get("name")
    return found if isinstance(found, str) and found else first_text(ad, HOST_NAMES)


def survey(
    ads: Iterable[ClassAd], condition: Expr, job: ClassAd, attributes: Iterable[str]
) -> Inventory:
    """Sort nodes into classes, and evaluate each class once.

    A node is accepted if the condition is true of it, and its own requirements are true of the
    ``job``. ``attributes`` matter beside those that the condition reaches, because flags use them.
    Raises NoHostError if no node is accepted.
    """
    every = list(ads)
    significant = {ascii_fold(name) for name in attributes} | {"requirements", "available"}
    named = names_in(condition)
    together = [[n] for n in range(len(every))] if named is None else alike(
        every, significant | named, job
    )  # fmt: skip
    classes = []
    for numbers in together:
        ad = every[numbers[0]]
        accepted = truth(condition.eval(job, ad)) is True and is_willing(ad, job)
        classes.append(NodeClass(ad, tuple(numbers), accepted))
    found = Inventory(every, [node_name(ad) for ad in every], classes)
    if not found.accepted:
        raise NoHostError(_why(found, condition, job))
    return found


def _why(found: Inventory, condition: Expr, job: ClassAd) -> str:
    """Explain why no node is accepted, by the clause that most of them fail."""
    if not found.ads:
        return "the inventory has no nodes"
    failed: Counter[Expr | None] = Counter()
    for each in found.classes:
        clauses = conjuncts(condition)
        untrue = (c for c in clauses if truth(c.eval(job, each.ad)) is not True)
        failed[next(untrue, None)] += len(each.numbers)
    clause, many = failed.most_common(1)[0]
    what = "what they require of the job" if clause is None else shown(clause)
    total = len(found.ads)
    return f"no node of the inventory will do: {what} is not true of {many} of {total}"


def is_willing(ad: ClassAd, job: ClassAd) -> bool:
    """Tell whether a node's own requirements, if it has any, are true of a job."""
    return "Requirements" not in ad or truth(ad.eval("Requirements", target=job)) is True
