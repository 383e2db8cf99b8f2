"""From a residual, a condition on hosts, to a batch system's submit flags, with a verdict.

Each clause of the residual that the mapping has a flag for becomes that flag; what it cannot say is
dropped and named. With an inventory of the queue's nodes, the nodes that the residual refuses are
excluded by name instead, so that the flags select exactly the right ones.

A flag is one word of an argument vector. Ad text gets into flags only as numbers, as names from the
mapping, and as node names of plain characters.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from enum import StrEnum

import attrs

from matchmaker.batch.mapping import Mapping, Rule, load_mapping, safe
from matchmaker.classad import ClassAd, Expr
from matchmaker.classad.ad import HOST_NAMES, first_text
from matchmaker.classad.nodes import (
    TARGET_SCOPES,
    TRUE,
    Attr,
    Binary,
    Call,
    Literal,
    Unary,
    conjuncts,
    disjuncts,
    scope_of,
)
from matchmaker.classad.operators import ascii_fold, truth
from matchmaker.classad.unparse import unparse
from matchmaker.classad.values import MAX_INT
from matchmaker.reduction import Reduction, Verdict


class Fit(StrEnum):
    """How flags and residual relate.

    ``exact``: the flags admit the hosts that the residual accepts, and no others. ``necessary``:
    they admit all of those and maybe others, so that the job must check again on the node.
    ``sufficient``: they admit only such hosts, maybe not all.
    """

    EXACT = "exact"
    NECESSARY = "necessary"
    SUFFICIENT = "sufficient"


class NoFlagsError(ValueError):
    """There are no flags of the kind that was asked for; the message says which clause is why."""


class NoHostError(NoFlagsError):
    """No host can satisfy the requirement, so that there is nothing to submit."""


@attrs.frozen(slots=True)
class Dropped:
    """A clause that the flags do not carry, or not whole, and why."""

    clause: Expr
    reason: str


@attrs.frozen(slots=True)
class Submission:
    """What the batch system is told: as arguments of its command and as lines of a job script.

    ``excluded`` are the nodes excluded by name, on the inventory's word.
    """

    lrms: str
    command: str
    argv: tuple[str, ...]
    directives: tuple[str, ...]
    verdict: Fit
    dropped: tuple[Dropped, ...] = ()
    excluded: tuple[str, ...] = ()


@attrs.frozen(slots=True)
class _Bound:
    """A clause as a rule can carry it: at least a number, or a feature; ``lost`` is what lacks."""

    rule: Rule
    least: int = 0
    feature: str = ""
    lost: str = ""


def flags(
    reduction: Reduction,
    lrms: str = "slurm",
    mapping: Mapping | str | os.PathLike[str] | None = None,
    inventory: Iterable[ClassAd] | None = None,
    want: Fit = Fit.NECESSARY,
) -> Submission:
    """The submit flags for what a reduction left to the hosts.

    ``mapping`` is a site's mapping or the path of its TOML file; without it, the one that comes
    with the package is used. ``inventory`` is the ads of all the queue's nodes, with their names;
    the verdict then holds for them. Where no exact flags are found, ``want`` says which way they
    may err: ``NECESSARY`` drops what it cannot say, ``SUFFICIENT`` asks for one alternative of an
    ``||`` and drops the others, and ``EXACT`` allows neither. All verdicts take hosts to have
    attributes of the mapping's types.

    Raises NoHostError where no host will do, NoFlagsError where there are no flags of the kind
    wanted, ValueError for an unknown batch system, and as :func:`load_mapping` does for a file.

    >>> from matchmaker import parse_ad, reduce
    >>> wanted = "other.GlueHostMainMemoryRAMSize >= 2000 && other.GlueHostX"
    >>> job = parse_ad(f"[ Requirements = {wanted} ]")
    >>> s = flags(reduce(job, parse_ad("[]"), lambda name: "host"))
    >>> s.argv, str(s.verdict), [d.reason for d in s.dropped]
    (('--mem=2000M',), 'necessary', ['no flag for GlueHostX'])
    """
    want = Fit(want)
    table = mapping if isinstance(mapping, Mapping) else load_mapping(lrms, mapping)
    if table.lrms != lrms:
        raise ValueError(f"the mapping is for {table.lrms!r}, not for {lrms!r}")
    if reduction.verdict is Verdict.NEVER:
        raise NoHostError("the requirement is true of no host of this queue")
    asked: list[_Bound] = []
    dropped: list[Dropped] = []
    choice = _sufficient if want is Fit.SUFFICIENT and inventory is None else _necessary
    for clause in conjuncts(reduction.residual):
        bounds, lost = choice(clause, table) if clause is not TRUE else ([], [])
        asked += bounds
        dropped += lost
    excluded: tuple[str, ...] = ()
    if inventory is not None:
        accepted, excluded = _divided(reduction, list(inventory))
        # What the flags ask for must be had by every node that will do, by its own word.
        asked = [bound for bound in asked if all(_admits(bound, ad) for ad in accepted)]
        dropped = []
    argv = _argv(asked, table)
    if excluded:
        argv.append(table.exclude.replace("{hosts}", ",".join(excluded)))
    if dropped and want is Fit.EXACT:
        raise NoFlagsError(f"{table.lrms} has no exact flags: {dropped[0].reason}")
    directives = tuple(table.directive.replace("{flag}", flag) for flag in argv)
    fit = want if dropped else Fit.EXACT
    return Submission(
        table.lrms, table.submit, tuple(argv), directives, fit, tuple(dropped), excluded
    )


def _admits(bound: _Bound, ad: ClassAd) -> bool:
    """Whether a node has what a flag asks for; of features the site's word is taken."""
    if bound.rule.kind != "min":
        return True
    value = ad.eval(bound.rule.attribute)
    return isinstance(value, (int, float)) and value >= bound.least


def _necessary(clause: Expr, table: Mapping) -> tuple[list[_Bound], list[Dropped]]:
    """What can be asked for of what a clause demands, and what of it is dropped."""
    bound = _bound(clause, table)
    if isinstance(bound, str):
        return [], [Dropped(clause, bound)]
    return [bound], [Dropped(clause, bound.lost)] if bound.lost else []


def _sufficient(clause: Expr, table: Mapping) -> tuple[list[_Bound], list[Dropped]]:
    """What makes sure of a clause: itself, or the first alternative that can be said whole.

    An alternative that is an error on some host would make an error of all that stand behind it.
    """
    alternatives = disjuncts(clause)
    for alternative in alternatives:
        bounds = [_bound(part, table) for part in conjuncts(alternative)]
        whole = [bound for bound in bounds if isinstance(bound, _Bound) and not bound.lost]
        if len(whole) == len(bounds):
            others = [other for other in alternatives if other is not alternative]
            return whole, [Dropped(other, "another alternative is asked for") for other in others]
        if not all(_is_typed(part, table) for part in conjuncts(alternative)):
            break
    raise NoFlagsError(f"{table.lrms} has no flags that make sure of {unparse(clause)}")


def _is_typed(part: Expr, table: Mapping) -> bool:
    """Whether a condition is no error on hosts whose attributes have the mapping's types."""
    subject, operator, value = _condition(part)
    rule = table.rules.get(subject.lower()) if subject is not None else None
    if rule is None:
        return False
    if rule.kind == "min":
        return isinstance(value, (int, float)) and operator not in ("has", "true")
    if rule.kind == "member":
        return operator == "has"
    return isinstance(value, str) and operator not in ("has", "true")


def _argv(asked: list[_Bound], table: Mapping) -> list[str]:
    """The flags for all bounds together: the largest of minima, the features in one list."""
    least: dict[str, int] = {}
    features: dict[str, None] = {}
    for bound in asked:
        if bound.rule.kind == "min":
            flag = bound.rule.flag
            least[flag] = max(least.get(flag, 0), bound.least)
        else:
            features[bound.feature] = None
    argv = [flag.replace("{value}", str(number)) for flag, number in least.items() if number > 0]
    if features:
        argv.append(table.features.replace("{features}", "&".join(features)))
    return argv


def _divided(
    reduction: Reduction, inventory: list[ClassAd]
) -> tuple[list[ClassAd], tuple[str, ...]]:
    """The nodes that will do, of which there must be one, and the names of those that will not.

    A node will do where the residual is true of it and its own requirements are true of the job.
    """
    job = reduction.job
    accepted: list[ClassAd] = []
    good: set[str | None] = set()
    refused: dict[str, None] = {}
    for number, ad in enumerate(inventory, 1):
        name = first_text(ad, HOST_NAMES)
        theirs = ad.eval("Requirements", job) if "Requirements" in ad else True
        if truth(reduction.residual.eval(job, ad)) is True and truth(theirs) is True:
            accepted.append(ad)
            good.add(name)
        elif name is not None and safe(name):
            refused[name] = None
        else:
            found = "none" if name is None else repr(name)
            raise ValueError(f"node {number} of the inventory needs a plain name, and has {found}")
    if not accepted:
        raise NoHostError(f"none of the {len(inventory)} nodes satisfies what is left to the host")
    both = good.intersection(refused)
    if both:
        raise ValueError(f"two nodes of the inventory are named {both.pop()}; only one will do")
    return accepted, tuple(refused)


def _bound(clause: Expr, table: Mapping) -> _Bound | str:
    """How a clause is asked for, or in words why it cannot be."""
    subject, operator, value = _condition(clause)
    if subject is None:
        return "only a comparison of one host attribute with a constant has a flag"
    rule = table.rules.get(subject.lower())
    if rule is None:
        return f"no flag for {subject}"
    if rule.kind != "min":
        return _feature(rule, operator, value, table)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < MAX_INT:
        return f"{table.lrms} takes a number for {subject}"
    if operator not in (">", ">=", "==", "is"):
        return f"{table.lrms} can only be asked for at least so much {subject}"
    least = math.floor(value) + 1 if operator == ">" else math.ceil(value)
    if least > rule.most:
        return f"{table.lrms} cannot count {least} for {subject}"
    lost = "" if operator in (">", ">=") else f"{table.lrms} can ask for at least {value} only"
    return _Bound(rule, least, lost=lost)


def _feature(rule: Rule, operator: str, value: object, table: Mapping) -> _Bound | str:
    accepted = ("has",) if rule.kind == "member" else ("==", "is")
    if operator not in accepted or not isinstance(value, str):
        holds = "a text in its list" if rule.kind == "member" else "a text that it equals"
        return f"{table.lrms} can only be asked for {holds} for {rule.attribute}"
    # The language compares texts without regard to case, but for `is`.
    wanted = {text for text in rule.features if ascii_fold(text) == ascii_fold(value)}
    if not wanted:
        return f"the mapping has no feature for {rule.attribute} {value!r}"
    if len(wanted) > 1:
        return f"the mapping has several features for {rule.attribute} {value!r}"
    lost = "a feature does not tell upper from lower case" if operator == "is" else ""
    return _Bound(rule, feature=rule.features[wanted.pop()], lost=lost)


_COMPLEMENT = {"<": ">=", "<=": ">"}


def _condition(clause: Expr) -> tuple[str | None, str, object]:
    """A clause as (host attribute, operator, constant); no attribute where it is something else.

    ``!(x < 5)`` is taken as ``x >= 5``: they differ for NaN only, which no batch system reports.
    """
    if isinstance(clause, Unary) and clause.operator == "!" and isinstance(clause.operand, Binary):
        subject, operator, value = _condition(clause.operand)
        if operator in _COMPLEMENT:
            return subject, _COMPLEMENT[operator], value
    if isinstance(clause, Binary) and isinstance(clause.right, Literal):
        return _host_attribute(clause.left), clause.operator, clause.right.value
    if isinstance(clause, Call) and clause.function.lower() == "member":
        wanted, *among = clause.arguments or (clause,)
        if len(among) == 1 and isinstance(wanted, Literal):
            return _host_attribute(among[0]), "has", wanted.value
    if isinstance(clause, Attr):
        return _host_attribute(clause), "true", True
    return None, "", None


def _host_attribute(node: Expr) -> str | None:
    return node.name if isinstance(node, Attr) and scope_of(node) in TARGET_SCOPES else None
