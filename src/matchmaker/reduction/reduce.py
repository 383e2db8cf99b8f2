"""Reduction: turns a job's requirement and one queue into a verdict and a condition on hosts.

The theorem: for every host, the requirement is true of the queue with that host exactly when the
residual is true of the host. Binding is in ``bind``, the laws are in ``simplify``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import cache
from typing import Any, Final

import attrs

from matchmaker.classad.ad import ClassAd, an_ad, some_ads
from matchmaker.classad.evaluate import charged
from matchmaker.classad.functions import INSIDE
from matchmaker.classad.nodes import FALSE, INEXACT, TRUE, Binary, Expr, Literal, identity
from matchmaker.classad.operators import truth
from matchmaker.classad.printer import unparse, unparse_value
from matchmaker.classad.walks import compared, conjunction, conjuncts, names_of, postorder, weight
from matchmaker.reduction.bind import HOST, TOO_DEEP, Binder, Binding, ReductionError, ScopeOf
from matchmaker.reduction.boxes import tested
from matchmaker.reduction.domains import NOTHING, common
from matchmaker.reduction.facts import is_boolean, is_moving
from matchmaker.reduction.simplify import (
    MATCH,
    distinct,
    numeric_subject,
    report,
    simplify,
    watched,
    watchers,
)


def alike(
    ads: Iterable[ClassAd], significant: Iterable[str], other: ClassAd | None = None
) -> list[list[int]]:
    """The indices of ads in classes that agree in the attributes of some folded names.

    Attributes named in turn count too, also through the ``other`` ad of
    a match and back.

    >>> from matchmaker import parse_ads
    >>> alike(parse_ads("[ A = 1; B = 1 ] [ A = 1; B = 2 ] [ A = C; C = 1 ]"), {"a"})
    [[0, 1], [2]]
    """
    every = list(ads)
    names, inexact = set(significant), frozenset(INEXACT)
    look = cache(names_in)
    while True:
        whole = other is not None and _leads_through(other, names, look)
        order = sorted(names)
        # Expressions are interned: two that are equal are one object.
        classes: dict[tuple[tuple[Any, ...], tuple[type, ...]], list[int]] = {}
        for place, ad in enumerate(every):
            held = tuple(map(ad._held.get, order))
            kinds = tuple(map(type, held))
            if not inexact.isdisjoint(kinds):
                held = tuple(map(identity, held))
            classes.setdefault((held, kinds), []).append(place)
        more: set[str] = set()
        found: list[list[int]] = []
        for (held, _), places in classes.items():
            alone = whole
            for part in held:
                if isinstance(part, Expr):
                    needed = look(part)
                    alone = alone or needed is None
                    more |= needed or set()
            found += [[place] for place in places] if alone else [places]
        if more <= names:
            return found
        names |= more


def _leads_through(ad: ClassAd, names: set[str], look: Callable[[Expr], set[str] | None]) -> bool:
    """Adds the names that an ad's attributes lead to; true if one depends on more than names."""
    pending = list(names)
    for name in pending:
        part = ad._held.get(name)
        if isinstance(part, Expr):
            needed = look(part)
            if needed is None:
                return True
            pending += needed - names
            names |= needed
    return False


def names_in(node: Expr) -> set[str] | None:
    """Every name in an expression, folded; None if it depends on whole ads or on the time.

    >>> from matchmaker import parse_expr
    >>> sorted(names_in(parse_expr("other.A > b")) or ()), names_in(parse_expr("size(other) > 1"))
    (['a', 'b', 'other'], None)
    """
    names = names_of(node)
    if is_moving(names) or names.traits & INSIDE:
        return None
    return {name for path in names.paths for name in path.folded}


class Verdict(StrEnum):
    """Whether a requirement is true for no host of a queue, for every host, or for some."""

    NEVER = "never"
    ALWAYS = "always"
    RESIDUAL = "residual"


@attrs.frozen(slots=True)
class Fate:
    """The result for one clause of the requirement: settled by the queue, or left to the host."""

    clause: Expr
    verdict: Verdict
    residual: Expr
    bound: Expr = FALSE

    def steps(self) -> list[tuple[Expr, Expr]]:
        """The rewrites that lead from the clause, with all facts put in, to its residual.

        Parts come before the whole; each rewrite is listed once.
        """
        found: dict[tuple[Expr, Expr], None] = {}
        with watched(lambda before, demand, after: found.setdefault((before, after))):
            simplify(self.bound, MATCH)
        return list(found)


@attrs.frozen(slots=True)
class Reduction:
    """A job's requirement reduced: ``residual`` names host attributes only, as ``other.Name``."""

    job: ClassAd
    requirement: Expr
    verdict: Verdict
    residual: Expr
    fates: tuple[Fate, ...]
    bindings: tuple[Binding, ...]

    def explain(self, *, steps: bool = False) -> str:
        """A text: the requirement, the meaning of each name, the fate of each clause, the residual.

        With ``steps``, also each clause with the facts put in, and every rewrite of it.
        """
        lines = [f"requirement: {unparse(self.requirement)}"]
        lines += [f"  {_binding(binding)}" for binding in self.bindings]
        shown = 0
        for fate in self.fates:
            lines.append(f"clause: {unparse(fate.clause)}")
            if steps:
                lines.append(f"  with the facts: {unparse(fate.bound)}")
                for before, after in fate.steps():
                    # Each step of a chain has the whole of it, so all would be its square.
                    shown += weight(before)
                    if shown <= _SHOWN:
                        lines.append(f"    {unparse(before)}  =>  {phrase(after)}")
            left = phrase(fate.residual) if fate.verdict is Verdict.RESIDUAL else ""
            lines.append(f"  {_FATES[fate.verdict]}{left}")
        if shown > _SHOWN:
            lines.append("further steps are not shown: the expressions are too long")
        never = any(fate.verdict is Verdict.NEVER for fate in self.fates)
        if self.verdict is Verdict.NEVER and not never:
            lines.append("the clauses contradict each other: no value does for all of them")
        return "\n".join([*lines, f"verdict: {self.verdict}", f"residual: {phrase(self.residual)}"])


_FATES = {
    Verdict.NEVER: "never true on this queue",
    Verdict.ALWAYS: "settled: true on this queue",
    Verdict.RESIDUAL: "left to the host: ",
}


def _binding(binding: Binding) -> str:
    if binding.kind == HOST:
        return f"{binding.name}: of the host"
    if binding.kind == "absent":
        return f"{binding.name}: absent, so undefined"
    value = binding.value
    shown = "a list" if isinstance(value, list) else "an ad"
    if not isinstance(value, (list, ClassAd)):
        shown = unparse_value(value)
    return f"{binding.name}: {shown}, a fact of the queue or the job"


@charged
def reduce(
    job: ClassAd, queue: ClassAd, scope: ScopeOf, attribute: str = "Requirements"
) -> Reduction:
    """Puts the facts of a queue and of the job into the job's requirement.

    ``scope(name)`` gives ``"host"`` for attributes of single hosts; the queue's own values of these
    are ignored. It receives names as they are spelled, so it should fold them:
    ``name.lower() in {"cpus", "memory"}``. Hosts are taken to have values, not expressions that
    name a queue's facts, and no attributes named like a scope; evaluation is taken to stay within
    its limits. A job without the attribute requires nothing: always.
    Raises ReductionError if no plain condition on hosts can replace the requirement.

    >>> from matchmaker import parse_ad
    >>> wanted = "other.SI00 > 500 ? other.MaxCPU > 1000 : other.MaxCPU > 2000"
    >>> job = parse_ad(f"[Requirements = {wanted}]")
    >>> of_hosts = lambda name: "host" if name.lower() == "si00" else "policy"
    >>> for cpu in ("1500", "3000", "500", "undefined"):
    ...     r = reduce(job, parse_ad(f"[MaxCPU = {cpu}]"), of_hosts)
    ...     print(cpu, r.verdict, phrase(r.residual), sep=": ")
    1500: residual: other.SI00 > 500
    3000: residual: other.SI00 is a number
    500: never: false
    undefined: never: false
    """
    job, queue = an_ad(job), an_ad(queue)
    given: object = scope
    if not callable(given):
        found = type(given).__name__
        raise TypeError(f"scope is a function of a name, such as mm.glue.scope, not {found}")
    requirement = job.expr(attribute, TRUE)
    binder = Binder.of(job, queue, scope, attribute)
    fates = []
    for clause in conjuncts(requirement):
        with_facts = binder.bind(clause)
        try:
            residual = simplify(with_facts, MATCH)
        except RecursionError:
            raise ReductionError(TOO_DEEP) from None
        fates.append(Fate(clause, verdict_of(residual), residual, with_facts))
    whole = conjunction_of([fate.residual for fate in fates])
    verdict = verdict_of(whole)
    if verdict is not Verdict.RESIDUAL:
        whole = TRUE if verdict is Verdict.ALWAYS else FALSE
    elif (len(fates) > 1 or whole is not fates[0].bound) and not is_boolean(whole):
        # Where the requirement says true, a number that counts as true will not do.
        whole = Binary("&&", TRUE, whole)
    if watchers:
        report(conjunction([fate.bound for fate in fates]), MATCH, whole)
    return Reduction(
        job, requirement, verdict, whole, tuple(fates), tuple(binder.bindings.values())
    )


def conjunction_of(residuals: list[Expr]) -> Expr:
    """Joins simplified clauses; the result is false if one is never true, or two contradict."""
    left: list[Expr] = []
    for residual in residuals:
        if isinstance(residual, Literal):
            if truth(residual.value) is not True:
                return FALSE
        else:
            left += conjuncts(residual)
    left = distinct(left)
    return FALSE if contradict(left) else conjunction(left)


def contradict(clauses: Iterable[Expr]) -> bool:
    """Whether comparisons among the clauses exclude every value: ``x > 5 && x < 3``.

    >>> from matchmaker import parse_expr
    >>> for text in ("other.x > 5 && other.x < 9", "other.x > 5 && other.y && other.x < 3"):
    ...     print(contradict(conjuncts(parse_expr(text))))
    False
    True
    """
    by_subject: dict[Expr, list[Expr]] = {}
    for clause in clauses:
        found = compared(clause)
        if found is not None:
            by_subject.setdefault(found[0], []).append(clause)
    for several in by_subject.values():
        if len(several) < 2:
            continue
        atoms = [atom for clause in several if (atom := tested(clause))]
        if atoms and common([parts["T"] for _, parts, _ in atoms]) == NOTHING:
            return True
    return False


@charged
def reduce_many(
    job: ClassAd, queues: Iterable[ClassAd], scope: ScopeOf, attribute: str = "Requirements"
) -> list[Reduction]:
    """Reduces a job's requirement for many queues.

    Queues that agree in all attributes that the requirement leads to share one reduction.

    >>> from matchmaker import parse_ad, parse_ads
    >>> job = parse_ad("[ Requirements = other.Ram > 5 && other.Free > 0 ]")
    >>> queues = list(parse_ads("[ Free = 3; Id = 1 ] [ Free = 0; Id = 2 ] [ Free = 3; Id = 3 ]"))
    >>> made = reduce_many(job, queues, lambda name: "host" if name == "Ram" else "queue")
    >>> [str(r.verdict) for r in made], made[0] is made[2]
    (['residual', 'never', 'residual'], True)
    """
    job, every = an_ad(job), list(some_ads(queues))
    names = _reached(job, attribute)
    together = [[n] for n in range(len(every))] if names is None else alike(every, names)
    found: dict[int, Reduction] = {}
    for places in together:
        made = reduce(job, every[places[0]], scope, attribute)
        found |= dict.fromkeys(places, made)
    return [found[place] for place in range(len(every))]


def _reached(job: ClassAd, attribute: str) -> set[str] | None:
    """Every name that a requirement leads to within the job; None if it depends on whole ads."""
    found: set[str] = set()
    pending = [job.expr(attribute, TRUE), *job.expressions().values()]
    for expression in pending:
        names = names_in(expression)
        if names is None:
            return None
        found |= names
    return found


def verdict_of(residual: Expr) -> Verdict:
    """The verdict of a simplified condition: a constant settles it."""
    if isinstance(residual, Literal):
        return Verdict.ALWAYS if truth(residual.value) is True else Verdict.NEVER
    return Verdict.RESIDUAL


_SHOWN: Final = 20_000
"""The most nodes of expressions that steps show."""

_WORDED: Final = 20_000
"""The most characters of a residual that is put into words."""


def phrase(residual: Expr) -> str:
    """A residual as text for people, with "x is a number" in words.

    >>> from matchmaker import parse_expr
    >>> phrase(parse_expr("isInteger(x) || isReal(x) || isBoolean(x)"))
    'x is a number'
    """
    text = unparse(residual)
    # Each of many such conditions would go through the whole text.
    for node in postorder(residual) if len(text) <= _WORDED else ():
        subject = numeric_subject(node)
        if subject is not None:
            text = text.replace(unparse(node), f"{unparse(subject)} is a number")
    return text
