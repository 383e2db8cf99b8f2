"""Make submit flags for a residual: plan them, change the plan for an inventory, write it as words.

``flags`` is the way from a reduction to a ``Submission``. A plan by terms is made from the residual
(``plan_terms``) and changed for an inventory (``select_nodes``) to terms that all accepted nodes
have, and nodes by name; a node is named only if its name is plain and means nothing else to the
batch system. Each step returns a new plan. ``expression`` and ``blah`` plan for systems that take
expressions.

A flag is words of an argument vector. Text of an ad gets into flags only as numbers, as names from
the mapping, and as names of nodes that are plain. ``contradictions`` compares the directives of a
job script with the flags that it is submitted with.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

import attrs

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch import blah
from matchmaker.batch.description.texts import seconds
from matchmaker.batch.errors import NoFlagsError, NoHostError, NotTakenError, TooManyError
from matchmaker.batch.flags import expression
from matchmaker.batch.flags.choose import (
    ChosenTerms,
    Dropped,
    Options,
    as_host_attribute,
    choose,
    shown,
)
from matchmaker.batch.flags.inventory import AVAILABLE, Certificate, Inventory, NodeClass, survey
from matchmaker.batch.flags.render import (
    FlagPlan,
    check_once,
    directive,
    expressed,
    parts,
    unwritten,
    written,
)
from matchmaker.batch.flags.requests import (
    NO_LIMITS,
    PROCESSORS,
    QueueLimits,
    Requested,
    Resources,
    Submitter,
    limited,
    requested,
)
from matchmaker.batch.flags.terms import FlagTerm, Group, admits, all_of, clash
from matchmaker.batch.mapping import FEATURES, Form, load_mapping
from matchmaker.batch.mapping import Mapping as Table
from matchmaker.batch.site_code import SiteAnswers, answers
from matchmaker.batch.templates import HOST_SIGNS, REPEATED, assigned, safe
from matchmaker.classad import ClassAd, Expr, parse_expr
from matchmaker.classad.evaluate import charged
from matchmaker.classad.nodes import TARGET_SCOPES, TRUE, Attr
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.printer import unparse_value
from matchmaker.classad.values import is_number
from matchmaker.classad.walks import conjunction, conjuncts, names_of
from matchmaker.reduction import Reduction, Verdict
from matchmaker.reduction.bind import HOST
from matchmaker.reduction.domains import Box, meet_all


class Fit(StrEnum):
    """How the flags relate to the condition on hosts.

    ``exact``: they admit the hosts that satisfy it, and no others. ``necessary``: they admit all
    of those and maybe others, so the job must check again on the node. ``sufficient``: they admit
    only such hosts, maybe not all.
    """

    EXACT = "exact"
    NECESSARY = "necessary"
    SUFFICIENT = "sufficient"


class Strictness(StrEnum):
    """The site's policy for flags that cannot be exact.

    ``strict``: refuse the job. ``lenient``: give necessary flags, and the condition that the job
    checks again on the node. ``reject-never``: give necessary flags and no such condition; refuse
    only a job that no host can satisfy.
    """

    STRICT = "strict"
    LENIENT = "lenient"
    REJECT_NEVER = "reject-never"


@attrs.frozen(slots=True)
class Submission:
    """Submit flags, as arguments of a command and as lines of a job script, and their meaning.

    Attributes:
        command: the command for submitting; empty if the batch system has none.
        argv: the arguments; first the rest of the command's words, such as ``batch`` of ``flux``.
        directives: the same as lines of a job script, or of a submit file for HTCondor.
        verdict: how the flags relate to ``condition``.
        dropped: the clauses that the flags do not carry.
        excluded: names of nodes that are excluded by name.
        certificate: with an inventory, the nodes that are selected wrongly.
        recheck: the clauses that the job must check again on the node, or None. Evaluate it with
            the job as ``MY`` and the node as ``TARGET``.
        condition: the demand on hosts: the residual, and room for the job's requests.
        lines: lines of the job script that stand behind all directives, such as ``module load``.
        waits: whether none of the inventory's nodes that will do takes jobs now. Such flags are not
            exact: nobody knows whether the nodes come back.
    """

    lrms: str
    command: str
    argv: tuple[str, ...]
    directives: tuple[str, ...]
    verdict: Fit
    dropped: tuple[Dropped, ...] = ()
    excluded: tuple[str, ...] = ()
    certificate: Certificate | None = None
    recheck: Expr | None = None
    condition: Expr = TRUE
    lines: tuple[str, ...] = ()
    waits: bool = False


@charged
def flags(
    reduction: Reduction,
    lrms: str = "slurm",
    mapping: Table | str | os.PathLike[str] | None = None,
    inventory: Iterable[ClassAd] | None = None,
    want: Fit = Fit.NECESSARY,
    *,
    policy: Strictness | None = None,
    resources: Resources | None = None,
    queue: str = "",
    submitter: Submitter | None = None,
    limits: QueueLimits = NO_LIMITS,
) -> Submission:
    """Make the submit flags for a residual, the condition that a reduction left to the hosts.

    Every verdict takes hosts to have attributes of the mapping's types: integers, texts, lists.

    Args:
        reduction: the job's requirement, reduced for a queue.
        lrms: the batch system.
        mapping: a site's mapping or the path of its TOML file; by default the package's table.
        inventory: the ads of all nodes of the queue, with their names. The verdict holds for them.
        want: which way flags may err that cannot be exact. ``NECESSARY`` drops clauses,
            ``SUFFICIENT`` asks for one alternative of an ``||``, ``EXACT`` allows neither.
        policy: the same in a site's terms; replaces ``want``.
        resources: the resources to set aside for the job; by default those of its ad.
        queue: the batch system's name of the queue that was chosen, for its flag.
        submitter: the account that submits the job, for mappings that use it.
        limits: the most that the queue gives a job: ``QueueLimits.of`` its ad.

    Raises:
        NotTakenError: the flags would ask for more than the queue gives a job.
        NoHostError: no host can satisfy the condition.
        NoFlagsError: no flags of the wanted kind exist.
        ValueError: the batch system is unknown, or a node that must be named has no plain name.
        TypeError: ``reduction`` is not a Reduction.
        OSError, MappingError: as :func:`load_mapping` raises them.

    >>> from matchmaker import parse_ad, reduce
    >>> wanted = "other.GlueHostMainMemoryRAMSize >= 2000 && other.GlueHostX"
    >>> job = parse_ad(f"[ Requirements = {wanted} ]")
    >>> s = flags(reduce(job, parse_ad("[]"), lambda name: "host"))
    >>> s.argv, str(s.verdict), [d.reason for d in s.dropped]
    (('--mem=2000M',), 'necessary', ['no flag for GlueHostX'])
    >>> print(s.recheck)
    other.GlueHostX
    """
    if not isinstance(reduction, Reduction):
        raise TypeError(
            f"a reduction was expected, not {type(reduction).__name__}; reduce() makes one"
        )
    want = Fit(want) if policy is None else _WANTED[Strictness(policy)]
    table = mapping if isinstance(mapping, Table) else load_mapping(lrms, mapping)
    if table.lrms != lrms:
        raise ValueError(f"the mapping is for {table.lrms!r}, not for {lrms!r}")
    if reduction.verdict is Verdict.NEVER:
        raise NoHostError(f"the requirement is true of no host of this queue: {_why(reduction)}")
    asked = requested(
        resources, table, reduction.job, queue, submitter, fixed=_is_fixed(table), limits=limits
    )
    table, style = limited(table, limits), _STYLES[table.style]
    sure = want is Fit.SUFFICIENT and inventory is None
    plan = style.plan(reduction, table, asked, sure=sure, by_name=inventory is not None)
    waiting = ""
    if inventory is not None:
        names = (rule.attribute for rule in table.rules.values() if table.style == "flags")
        nodes = survey(inventory, plan.condition, plan.job, names)
        plan = _certified(style.select(plan, nodes), want)
        waiting = nodes.waiting
        if waiting:
            lost = Dropped(parse_expr(AVAILABLE), waiting)
            sure = want is Fit.SUFFICIENT
            plan = attrs.evolve(plan, dropped=(*plan.dropped, lost), sure=plan.sure or sure)
    made = _submission(_checked(_in_time(plan, limits), want), style)
    made = attrs.evolve(made, waits=bool(waiting))
    return attrs.evolve(made, recheck=None) if policy is Strictness.REJECT_NEVER else made


def _is_fixed(table: Table) -> bool:
    """Tell whether a mapping writes a queue, be it that of the job or another."""

    def option(form: Form) -> str:
        return re.split("[= ]", form.text, maxsplit=1)[0]

    usual = {option(form) for form in load_mapping(table.lrms).flags.get("queue", ())}
    return any(option(form) in usual for forms in table.flags.values() for form in forms)


# REJECT_NEVER differs from LENIENT in the recheck alone, which `flags` removes.
_WANTED: Final = {
    Strictness.STRICT: Fit.EXACT,
    Strictness.LENIENT: Fit.NECESSARY,
    Strictness.REJECT_NEVER: Fit.NECESSARY,
}


# --- a plan by terms ------------------------------------------------------------------------------

_NO_ANSWERS: Final = SiteAnswers()

SHARES: Final = "as many as there are shares"
"""What stands in place of a number of processors that each bring a share of the memory."""


def taken(table: Table, requested: Requested, *, by_name: bool) -> Options:
    """Return the options that requests, and nodes ``by_name``, set already."""
    found: dict[str, object] = {
        assigned(item.template) or item.template: (item.template, *item.setting)
        for item in requested.items
    }
    if any(item.is_share for item in requested.items) and "cpus" in table.requests:
        # With more processors than shares were made for, the job would get more than it requests.
        processors = table.requests["cpus"].flag
        found[assigned(processors) or processors] = SHARES
        # Slurm has a share of the memory for each of --mincpus, too.
        rule = table.rules.get(PROCESSORS)
        if rule is not None and rule.flag.startswith("-"):
            found.setdefault(assigned(rule.flag) or rule.flag, SHARES)
    by_host = table.exclude or table.include
    if by_name and by_host.startswith("-"):
        found[assigned(by_host)] = by_host
    return found


def plan_terms(
    reduction: Reduction, table: Table, requested: Requested, *, sure: bool, by_name: bool
) -> FlagPlan:
    """Plan by terms: exact if possible, else wider than the residual or, if ``sure``, narrower.

    Raises NoHostError if no host can satisfy the residual, and NoFlagsError if ``sure`` terms are
    wanted and there are none.
    """
    residual, busy = reduction.residual, taken(table, requested, by_name=by_name)
    called = [name for name, rule in table.rules.items() if rule.kind in ("python", "shell")]
    chosen = choose(residual, table, called=called, taken=busy)
    answered = answers(chosen.common, called, table) if called else _NO_ANSWERS
    chosen = _writable(_with_answers(chosen, answered), table, requested)
    chosen, carried = _expressed(chosen, requested, table)
    dropped = chosen.dropped()
    sure = sure and bool(dropped)
    if sure:
        chosen = choose(residual, table, sure=True, called=called, taken=busy)
        chosen, carried = _expressed(_with_answers(chosen, answered), requested, table)
        for each in chosen.dropped():  # not proven to be implied
            said = f"{table.lrms} has no flags that make sure of {shown(each.clause)}"
            raise NoFlagsError(f"{said}: {each.reason}")
        written(chosen.groups, carried, table)
        dropped = list(chosen.narrowed) or dropped
    return FlagPlan(
        table,
        reduction.job,
        carried.condition(residual),
        carried,
        tuple(dropped),
        sure,
        chosen.groups,
        answered.options,
    )


def _expressed(
    chosen: ChosenTerms, requested: Requested, table: Table
) -> tuple[ChosenTerms, Requested]:
    """Drop terms and requests in slots of ``[flags]`` without a complete form."""
    groups, carried = expressed(chosen.groups, requested, table)
    lost = {
        ascii_fold(term.rule.attribute): unwritten(term.slot or FEATURES)
        for group in chosen.groups
        if group not in groups
        for terms in group
        for term in terms
    }
    return attrs.evolve(_with_reasons(chosen, lost), groups=tuple(groups)), carried


def _with_answers(chosen: ChosenTerms, answered: SiteAnswers) -> ChosenTerms:
    """Trust the site's own code for the attributes that it carries."""
    if not (answered.carried or answered.refused):
        return chosen
    by_subject = chosen.common.by_subject()
    trusted = meet_all([by_subject[name] for name in answered.carried]) or Box()
    return attrs.evolve(_with_reasons(chosen, answered.refused), trusted=trusted)


def _with_reasons(chosen: ChosenTerms, lost: Mapping[str, str]) -> ChosenTerms:
    """Add reasons, by attribute, to the clauses that name one."""
    found = {
        clause.expression: reason
        for clause in chosen.clauses
        for name, reason in lost.items()
        if name in clause.bounds.names
    }
    return attrs.evolve(chosen, reasons={**found, **chosen.reasons})


def _writable(chosen: ChosenTerms, table: Table, requested: Requested) -> ChosenTerms:
    """Drop alternatives that the language of the batch system cannot write."""
    if all(len(group) == 1 for group in chosen.groups):
        return chosen
    try:
        written(chosen.groups, requested, table)
    except TooManyError:
        nested = "" if table.terms.nested else " without nested parentheses"
        reason = f"its alternatives are too many to write{nested}"
        return attrs.evolve(
            chosen,
            groups=tuple(group for group in chosen.groups if len(group) == 1),
            reasons={**chosen.reasons, **dict.fromkeys(chosen.sources, reason)},
        )
    return chosen


def select_nodes(plan: FlagPlan, nodes: Inventory) -> FlagPlan:
    """Change a plan for an inventory: terms that all accepted nodes have, nodes by name, the proof.

    Options of the site's own code are kept only if the plan is not exact without them. Raises
    ValueError for nodes that must be named and have no plain name, or share it with others.
    """
    table = plan.table

    def all_have(group: Group) -> bool:
        return all(admits([group], node.value) is True for node in nodes.accepted)

    groups = [group for group in plan.groups if all_have(group)]
    by_name = bool(table.exclude or table.include)
    if not by_name:
        groups = _narrowed(groups, nodes, plan)
    groups, requested = expressed(groups, plan.requested, table)

    def admitted(node: NodeClass) -> bool | None:
        return all_of((requested.has_room(node.ad), admits(groups, node.value)))

    names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    if nodes.refused and by_name:
        names, words = _plain_names(
            nodes, nodes.refused if table.exclude else nodes.accepted, table
        )
        if table.exclude and _is_long(words):
            # Only the nodes that nothing else keeps out.
            left = [node for node in nodes.refused if admitted(node) is not False]
            names, words = _plain_names(nodes, left, table)
        if _is_long(words):
            names = words = ()
    # Nodes by name may be a term, and fill a slot that other forms are chosen for.
    groups, requested = expressed(groups, requested, table, by_name=bool(names))
    listed = set(names)
    certificate = nodes.certificate(
        admitted, lambda name: not names or (name in listed) != bool(table.exclude)
    )
    return attrs.evolve(
        plan,
        groups=tuple(groups),
        requested=requested,
        options=() if certificate.exact else plan.options,
        hosts=words if names else (),
        excluded=names if table.exclude else (),
        certificate=certificate,
    )


def _is_long(words: tuple[str, ...]) -> bool:
    return sum(map(len, words)) + len(words) > LIMITS.hosts


def _narrowed(groups: list[Group], nodes: Inventory, plan: FlagPlan) -> list[Group]:
    """Add terms that every accepted node has and some other node has not."""
    found = list(groups)
    busy = taken(plan.table, plan.requested, by_name=False)
    for term in _shared(nodes.accepted, plan.table):
        group: Group = ((term,),)
        still = [node for node in nodes.refused if admits(found, node.value) is not False]
        if not still:
            break
        narrower = any(admits([group], node.value) is False for node in still)
        if narrower and not clash([*found, group], busy):
            found.append(group)
    return found


def _shared(accepted: list[NodeClass], table: Table) -> Iterable[FlagTerm]:
    """Yield all terms that every node of some classes has."""
    for rule in table.rules.values():
        values = [each.value(rule.attribute) for each in accepted]
        if rule.kind in ("min", "range", "max"):
            sizes = [v for v in values if is_number(v)]
            if len(sizes) < len(values) or not all(abs(size) < rule.most for size in sizes):
                continue
            for kind, bound in (("min", min(sizes)), ("max", max(sizes))):
                number = int(bound // rule.unit) if kind == "min" else -int(-bound // rule.unit)
                term = FlagTerm(rule, kind, number)
                if term.template and (kind == "max" or number > 0):
                    yield term
        else:
            yield from (
                term
                for name in rule.named
                if all(
                    (term := FlagTerm(rule, "name", names=(name,))).admits(v) is True
                    for v in values
                )
            )


def _plain_names(
    nodes: Inventory, classes: list[NodeClass], table: Table
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the nodes of classes, and their words on a command line.

    The names must be plain, and no other node may have one of them.
    """
    named = nodes.names(classes)
    taken = {word.lower() for word in table.no_hosts}
    numbers = sorted(number for each in classes for number in each.numbers)
    for number, name in zip(numbers, named, strict=True):
        if name is None or not safe(name, HOST_SIGNS) or name.lower() in taken:
            found = "none" if name is None else repr(name)
            raise ValueError(
                f"node {number + 1} of the inventory needs a plain name, and has {found}: letters, "
                f"digits and {HOST_SIGNS}, and nothing that means more to {table.lrms}"
            )
    # Most batch systems ignore case in names of hosts.
    folded = {name.lower(): name for name in named if name is not None}
    inside = {id(each) for each in classes}
    others = nodes.names(each for each in nodes.classes if id(each) not in inside)
    for other in others:
        if other is not None and other.lower() in folded:
            raise ValueError(f"two nodes of the inventory are named {other}; only one will do")
    names = tuple(dict.fromkeys(name for name in named if name is not None))
    return names, _with_domains(names, others) if table.domains else names


def _with_domains(names: Iterable[str], others: Iterable[str | None]) -> tuple[str, ...]:
    """Return names with and without their domains, for a batch system that compares them as text.

    Only the batch system knows which form it uses; the other form excludes nothing.
    """
    short = {name.partition(".")[0].lower(): name for name in others if name is not None}
    words: dict[str, None] = {}
    for name in names:
        first, dot, _ = name.partition(".")
        other = short.get(first.lower())
        words[name] = None
        if other is None:
            words[first if dot else f"{name}.*"] = None
        elif not (dot and "." in other):
            raise ValueError(
                f"nodes {name} and {other} of the inventory may be one; only one will do"
            )
    return tuple(words)


# --- from the plan to words -----------------------------------------------------------------------

_Words: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""Arguments, directives, and other lines of a job script."""


@attrs.frozen(slots=True)
class _Style:
    """The functions for a kind of batch system: plan, select from an inventory, write."""

    plan: Callable[..., FlagPlan]
    select: Callable[[FlagPlan, Inventory], FlagPlan]
    write: Callable[[FlagPlan], _Words]


def _options(plan: FlagPlan) -> _Words:
    table = plan.table
    made = written(plan.groups, plan.requested, table, plan.hosts)
    found = [*made.flags, *plan.options]
    check_once(found, table)
    words = tuple(word for flag in found for word in flag)
    if not table.submit:
        words = ()
    return words, tuple(directive(flag, table) for flag in found), tuple(made.lines)


def _submit_lines(plan: FlagPlan) -> _Words:
    lines = tuple(expression.lines(plan))
    return tuple(word for line in lines for word in ("-append", line)), lines, ()


_STYLES: Final[Mapping[str, _Style]] = {
    "flags": _Style(plan_terms, select_nodes, _options),
    "classad": _Style(expression.plan, expression.select, _submit_lines),
    "blah": _Style(blah.plan, expression.select, lambda plan: ((), tuple(blah.lines(plan)), ())),
}


def _certified(plan: FlagPlan, want: Fit) -> FlagPlan:
    """Drop no clause if the certificate is exact; otherwise drop the whole condition."""
    certificate = plan.certificate
    if certificate is None or certificate.exact:
        return attrs.evolve(plan, dropped=())
    wrong = certificate.wrongly_included or certificate.wrongly_excluded
    if want is Fit.EXACT:
        raise NoFlagsError(
            f"{plan.table.lrms} has no flags for exactly the nodes that will do: "
            f"{', '.join(wrong[:5])}{' ...' if len(wrong) > 5 else ''} would be wrong"
        )
    if want is Fit.SUFFICIENT:
        raise NoFlagsError(
            f"{plan.table.lrms} has no flags that select none of the nodes that will not do, as "
            f"{wrong[0]}"
        )
    all_of_it = Dropped(plan.condition, f"{wrong[0]} of the inventory would be wrong")
    return attrs.evolve(plan, dropped=(*plan.dropped, all_of_it))


def _in_time(plan: FlagPlan, limits: QueueLimits) -> FlagPlan:
    """Drop a time that nobody can hold against the limit, whatever in the mapping writes it.

    Raises NotTakenError for more than the queue gives.
    """
    table = plan.table
    usual = load_mapping(table.lrms).requests.get("wall")
    if limits.wall is None or usual is None or table.style != "flags":
        return plan
    option = assigned(usual.flag) or usual.flag.split(" ")[0]
    after = usual.flag.partition("{value}")[2]
    made = [*written(plan.groups, plan.requested, table, plan.hosts).flags, *plan.options]
    for part in (part for flag in made for part in parts(flag)):
        if option not in (assigned(part), part.split(" ")[0]):
            continue
        text = re.split("[= ]", part, maxsplit=1)[-1].removesuffix(after)
        # Two numbers are minutes and seconds, but hours and minutes for LSF.
        whole = f"{text}:00" if table.lrms == "lsf" and text.count(":") == 1 else text
        asked, most = seconds(whole, int(usual.unit)), limits.wall // 60
        if asked is None:
            lost = Dropped(
                Attr(None, "MaxWallTime", False),
                f"nobody can tell whether {part} is within the {most} minutes of the queue",
            )
            plan = attrs.evolve(plan, dropped=(*plan.dropped, lost))
        elif asked > limits.wall:
            raise NotTakenError(f"{part} is more wall time than the queue allows: {most} minutes")
    return plan


def _checked(plan: FlagPlan, want: Fit) -> FlagPlan:
    """Add requests without a flag to the dropped clauses, and check the wanted fit."""
    lacking = plan.requested.lacking
    if lacking and want is Fit.SUFFICIENT:
        raise NoFlagsError(lacking[-1].reason)
    if lacking:
        plan = attrs.evolve(plan, dropped=(*plan.dropped, *lacking))
    for each in plan.dropped if want is Fit.EXACT else ():
        raise NoFlagsError(
            f"{plan.table.lrms} has no exact flags: {shown(each.clause)}: {each.reason}"
        )
    return plan


def _submission(plan: FlagPlan, style: _Style) -> Submission:
    argv, directives, lines = style.write(plan)
    fit = Fit.SUFFICIENT if plan.sure else Fit.NECESSARY
    return Submission(
        plan.table.lrms,
        plan.table.submit[0] if plan.table.submit else "",
        (*plan.table.submit[1:], *argv),
        directives,
        fit if plan.dropped else Fit.EXACT,
        plan.dropped,
        plan.excluded,
        plan.certificate,
        None if plan.sure else _recheck(plan),
        plan.condition,
        lines,
    )


def _recheck(plan: FlagPlan) -> Expr | None:
    """Return the clauses of the condition that are dropped."""
    lost = {each.clause for each in plan.dropped}
    if plan.condition in lost:
        return plan.condition
    left = [clause for clause in conjuncts(plan.condition) if clause in lost]
    return conjunction(left) if left else None


def _why(reduction: Reduction) -> str:
    """Explain which clause is never true, and the facts that it depends on."""
    clause = next((f.clause for f in reduction.fates if f.verdict is Verdict.NEVER), None)
    if clause is None:
        return "its clauses contradict each other"
    named = {path.text for path in names_of(clause).paths}
    facts = [
        f"{binding.name}: the queue has none, and it is no attribute of hosts{_else(binding.name)}"
        if binding.kind == "absent"
        else f"{binding.name} = {unparse_value(binding.value)}"
        for binding in reduction.bindings
        if binding.kind != HOST
        and binding.name in named
        and not isinstance(binding.value, (list, ClassAd))
    ]
    with_facts = f" ({'; '.join(facts)})" if facts else ""
    return f"{shown(clause)} is never true{with_facts}"


def _else(path: str) -> str:
    """Advise on an attribute that neither the queue nor a host is known to have."""
    scope, _, rest = path.partition(".")
    name = rest.partition(".")[0]
    return f": {as_host_attribute(name)}" if name and scope.lower() in TARGET_SCOPES else ""


def contradictions(script: str, submission: Submission, table: Table) -> list[str]:
    r"""Find directives of a script that contradict the flags, and lines that it lacks.

    A batch system takes the option on the command line and ignores the one in the script.

    >>> from matchmaker import parse_ad, reduce
    >>> from matchmaker.batch import flags, load_mapping
    >>> anywhere = reduce(parse_ad("[]"), parse_ad("[]"), lambda name: "host")
    >>> made = flags(anywhere, "slurm", queue="long")
    >>> contradictions("#!/bin/sh\n#SBATCH -p short\n", made, load_mapping("slurm"))
    ['line 2 has -p short, and the flags --partition=long']
    """
    options = _script_options(submission.argv, table.letters)
    ours = {name: (value, text) for name, value, text in options}
    prefix = table.directive.replace("{flag}", "")
    found: list[str] = []
    lines = script[: LIMITS.script].splitlines()
    for number, line in enumerate(lines, 1):
        if not prefix or not line.startswith(prefix):
            continue
        try:
            words = shlex.split(line[len(prefix) :], comments=True)
        except ValueError:
            continue
        for name, value, text in _script_options(words, table.letters):
            own, words_of_flags = ours.get(name, (value, ""))
            if own != value and name not in REPEATED:
                found.append(f"line {number} has {text}, and the flags {words_of_flags}")
    return [*found, *lacking(script, submission)]


def lacking(script: str, submission: Submission) -> list[str]:
    r"""Name the lines that the script lacks, such as ``module load`` for a feature.

    >>> import attrs
    >>> from matchmaker import parse_ad, reduce
    >>> from matchmaker.batch import flags
    >>> made = flags(reduce(parse_ad("[]"), parse_ad("[]"), lambda name: "host"), "slurm")
    >>> lacking("#!/bin/sh\n", attrs.evolve(made, lines=("module load gcc",)))
    ['it lacks the line module load gcc']
    """
    known = {line.strip() for line in script[: LIMITS.script].splitlines()}
    return [f"it lacks the line {line}" for line in submission.lines if line not in known]


def _script_options(
    words: Iterable[str], letters: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield the long name of each option or resource, its value, and the words for both."""
    parts: list[list[str]] = []
    for word in words:
        if word.startswith("-") or not parts:
            parts.append([word])
        else:
            parts[-1].append(word)
    for option, *values in parts:
        name, equals, value = option.partition("=")
        if not equals and option[:2] in letters and len(option) > 2:
            name, value = option[:2], option[2:]
        text = " ".join([option, *values])
        if name == "-l":
            for each in ",".join(values).split(","):
                resource, _, amount = each.partition("=")
                yield resource, amount, f"-l {each}"
        else:
            yield letters.get(name, name), " ".join([*([value] if value else []), *values]), text
