"""From a residual, a condition on hosts, to a batch system's submit flags, with a verdict.

What the mapping has a flag for is asked for; what it cannot say is dropped and named. With an
inventory of the queue's nodes, the nodes that the residual refuses are excluded by name instead,
so that the flags select exactly the right ones, and a certificate says so node by node.

A flag is words of an argument vector. Ad text gets into flags only as numbers, as names from the
mapping, and as node names of plain characters.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from enum import StrEnum

import attrs

from matchmaker.batch import constraints, expression
from matchmaker.batch.asks import assigned
from matchmaker.batch.blah import ce_requirements, submit_text
from matchmaker.batch.clauses import Dropped, shown
from matchmaker.batch.errors import MappingError, NoFlagsError, NoHostError, TooManyError
from matchmaker.batch.inventory import Certificate, Inventory, NodeClass, is_willing, survey
from matchmaker.batch.mapping import Mapping, load_mapping
from matchmaker.batch.request import Requested, Resources, requested
from matchmaker.batch.selection import selected
from matchmaker.batch.templates import filled
from matchmaker.batch.told import Told, tell
from matchmaker.batch.words import Flag, directive, options
from matchmaker.classad import ClassAd, Expr
from matchmaker.classad.nodes import TRUE, Attr, conjunction, conjuncts, postorder
from matchmaker.classad.operators import truth
from matchmaker.classad.unparse import unparse, unparse_value
from matchmaker.reduction import Reduction, Verdict
from matchmaker.reduction.bind import HOST
from matchmaker.reduction.bounds import bounds
from matchmaker.reduction.domains import Box, meet_all

__all__ = [
    "Dropped",
    "Fit",
    "NoFlagsError",
    "NoHostError",
    "Policy",
    "Submission",
    "flags",
]


class Fit(StrEnum):
    """How flags and residual relate.

    ``exact``: the flags admit the hosts that the residual accepts, and no others. ``necessary``:
    they admit all of those and maybe others, so that the job must check again on the node.
    ``sufficient``: they admit only such hosts, maybe not all.
    """

    EXACT = "exact"
    NECESSARY = "necessary"
    SUFFICIENT = "sufficient"


class Policy(StrEnum):
    """What a site does about what it cannot say.

    ``strict``: no flags but exact ones. ``lenient``: necessary ones, with the condition that the
    job checks again on the node. ``reject-never``: necessary ones and no check; only a job that no
    host can satisfy is refused.
    """

    STRICT = "strict"
    LENIENT = "lenient"
    REJECT_NEVER = "reject-never"


@attrs.frozen(slots=True)
class Submission:
    """What the batch system is told: as arguments of its command and as lines of a job script.

    ``excluded`` are the nodes excluded by name, on the inventory's word; ``certificate`` proves
    what is selected of the inventory. ``recheck`` is the condition that the job must check on the
    node, with the job as ``MY`` and the node as ``TARGET``: what flags do not carry, or None.
    ``condition`` is what a host must satisfy, which verdict and certificate speak of: the residual,
    and room for the job's requests.
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


def flags(
    reduction: Reduction,
    lrms: str = "slurm",
    mapping: Mapping | str | os.PathLike[str] | None = None,
    inventory: Iterable[ClassAd] | None = None,
    want: Fit = Fit.NECESSARY,
    *,
    policy: Policy | None = None,
    resources: Resources | None = None,
) -> Submission:
    """The submit flags for what a reduction left to the hosts.

    ``mapping`` is a site's mapping or the path of its TOML file; without it, the one that comes
    with the package is used. ``inventory`` is the ads of all the queue's nodes, with their names;
    the verdict then holds for them. Where no exact flags are found, ``want`` says which way they
    may err: ``NECESSARY`` drops what it cannot say, ``SUFFICIENT`` asks for one alternative of an
    ``||`` and drops the others, and ``EXACT`` allows neither. All verdicts take hosts to have
    attributes of the mapping's types: whole numbers, texts, lists. ``policy`` says the same in a
    site's terms, and goes before ``want``. ``resources`` are what the job needs set aside, by
    default what its ad requests.

    Raises NoHostError where no host will do, NoFlagsError where there are no flags of the kind
    wanted, ValueError for an unknown batch system, and as :func:`load_mapping` does for a file.

    >>> from matchmaker import parse_ad, reduce
    >>> wanted = "other.GlueHostMainMemoryRAMSize >= 2000 && other.GlueHostX"
    >>> job = parse_ad(f"[ Requirements = {wanted} ]")
    >>> s = flags(reduce(job, parse_ad("[]"), lambda name: "host"))
    >>> s.argv, str(s.verdict), [d.reason for d in s.dropped]
    (('--mem=2000M',), 'necessary', ['no flag for GlueHostX'])
    >>> print(s.recheck)
    other.GlueHostX
    """
    want = Fit(want) if policy is None else _WANTED[Policy(policy)]
    table = mapping if isinstance(mapping, Mapping) else load_mapping(lrms, mapping)
    if table.lrms != lrms:
        raise ValueError(f"the mapping is for {table.lrms!r}, not for {lrms!r}")
    if reduction.verdict is Verdict.NEVER:
        raise NoHostError(f"the requirement is true of no host of this queue: {_why(reduction)}")
    asked = requested(resources if resources is not None else Resources.of(reduction.job), table)
    if table.style == "flags":
        made = _by_flags(reduction, table, inventory, want, asked)
    else:
        nodes = (
            None
            if inventory is None
            else survey(inventory, asked.condition(reduction.residual), reduction.job, ())
        )
        made = _by_expression(reduction, table, want, asked, nodes)
    if policy is Policy.REJECT_NEVER:
        made = attrs.evolve(made, recheck=None)
    return made


_WANTED = {
    Policy.STRICT: Fit.EXACT,
    Policy.LENIENT: Fit.NECESSARY,
    Policy.REJECT_NEVER: Fit.NECESSARY,
}


def _why(reduction: Reduction) -> str:
    """Which clause can never be true, and by which facts."""
    clause = next((f.clause for f in reduction.fates if f.verdict is Verdict.NEVER), None)
    if clause is None:
        return "its clauses contradict each other"
    named = {unparse(node) for node in postorder(clause) if isinstance(node, Attr)}
    facts = [
        f"{binding.name}: the queue has none, and it is no attribute of hosts"
        if binding.kind == "absent"
        else f"{binding.name} = {unparse_value(binding.value)}"
        for binding in reduction.bindings
        if binding.kind != HOST
        and binding.name in named
        and not isinstance(binding.value, (list, ClassAd))
    ]
    with_facts = f" ({'; '.join(facts)})" if facts else ""
    return f"{shown(clause)} is never true{with_facts}"


def _refuse(table: Mapping, want: Fit, dropped: Iterable[Dropped]) -> None:
    """Raises NoFlagsError where something is dropped and nothing may be."""
    for each in dropped:
        if want is Fit.EXACT:
            raise NoFlagsError(
                f"{table.lrms} has no exact flags: {shown(each.clause)}: {each.reason}"
            )


def _recheck(condition: Expr, dropped: Iterable[Dropped], fit: Fit) -> Expr | None:
    """The clauses of the condition that flags do not carry whole."""
    if fit is not Fit.NECESSARY:
        return None
    lost = {each.clause for each in dropped}
    if condition in lost:
        return condition
    left = [clause for clause in conjuncts(condition) if clause in lost]
    return conjunction(left) if left else None


# --- by flags -------------------------------------------------------------------------------------


def _by_flags(
    reduction: Reduction,
    table: Mapping,
    inventory: Iterable[ClassAd] | None,
    want: Fit,
    asked: Requested,
) -> Submission:
    condition = asked.condition(reduction.residual)
    called = [name for name, rule in table.rules.items() if rule.kind in ("python", "shell")]
    taken: dict[str, object] = {assigned(template): template for template in asked.numbers}
    if inventory is not None:
        by_name = table.exclude or table.include
        taken[assigned(by_name)] = by_name
    told = tell(reduction.residual, table, called=called, taken=taken)
    extra, told = _called(told, table)
    told = _writable(told, asked, table)
    dropped = told.dropped()
    if want is Fit.SUFFICIENT and inventory is None and dropped:
        told = attrs.evolve(
            tell(reduction.residual, table, sure=True, called=called, taken=taken),
            trusted=told.trusted,
        )
        options(told.groups, asked.numbers, table)
        unsure = told.dropped()
        if unsure:
            raise NoFlagsError(
                f"{table.lrms} has no flags that make sure of {shown(unsure[0].clause)}: "
                f"{told.reasons.get(unsure[0].clause, unsure[0].reason)}"
            )
        dropped = list(told.narrowed)
    groups = list(told.groups)
    excluded: tuple[str, ...] = ()
    certificate = None
    if inventory is not None:
        names = (rule.attribute for rule in table.rules.values())
        nodes = survey(inventory, condition, reduction.job, names)
        groups, named, excluded, certificate = selected(
            groups, nodes, table, taken, lambda each: _has_room(each, asked)
        )
        extra = [*named] if certificate.exact else [*extra, *named]
        if certificate.exact:
            dropped = []
        elif want is Fit.EXACT:
            wrong = certificate.wrongly_included or certificate.wrongly_excluded
            raise NoFlagsError(
                f"{table.lrms} has no flags for exactly the nodes that will do: "
                f"{', '.join(wrong[:5])}{' ...' if len(wrong) > 5 else ''} would be wrong"
            )
        elif want is Fit.SUFFICIENT:
            raise NoFlagsError(
                f"{table.lrms} has no flags that select none of the nodes that will not do, as "
                f"{certificate.wrongly_included[0]}"
            )
    dropped += asked.lacking
    if asked.lacking and want is Fit.SUFFICIENT:
        raise NoFlagsError(asked.lacking[-1].reason)
    _refuse(table, want, dropped)
    said = options(groups, asked.numbers, table)
    said += extra
    _asked_once(said, table)
    fit = want if dropped else Fit.EXACT
    if certificate is not None and not certificate.exact:
        fit = Fit.NECESSARY
        dropped.append(_wrong(certificate, condition))
    return Submission(
        table.lrms,
        table.submit,
        tuple(word for flag in said for word in flag),
        tuple(directive(flag, table) for flag in said),
        fit,
        tuple(dropped),
        excluded,
        certificate,
        _recheck(condition, dropped, fit),
        condition,
    )


def _writable(told: Told, asked: Requested, table: Mapping) -> Told:
    """What is told, without alternatives that the batch system's language cannot write."""
    try:
        options(told.groups, asked.numbers, table)
    except TooManyError:
        nested = "" if table.terms.nested else " without nested parentheses"
        reason = f"its alternatives are too many to write{nested}"
        return attrs.evolve(
            told,
            groups=tuple(group for group in told.groups if len(group) == 1),
            reasons={**told.reasons, **dict.fromkeys(told.chosen, reason)},
        )
    return told


def _has_room(node: NodeClass, asked: Requested) -> bool:
    """Whether a node may have what the flags of the job's requests set aside."""
    return all(truth(need.eval(target=node.ad)) is True for need in asked.needs)


def _asked_once(said: Iterable[Flag], table: Mapping) -> None:
    """Raises MappingError where a site's own code gives an option that is given already."""
    known: dict[str, str] = {}
    for flag in said:
        parts = flag[1].split(",") if flag[:1] == ("-l",) and len(flag) == 2 else [" ".join(flag)]
        for part in parts:
            what = assigned(part)
            if what and known.setdefault(what, part) != part:
                raise MappingError(
                    f"{table.lrms} would be asked for {what} in two ways, {known[what]} and "
                    f"{part}; one would undo the other"
                )


def _wrong(certificate: Certificate, condition: Expr) -> Dropped:
    """That flags do not select the right nodes of an inventory, so that all is checked again."""
    wrong = (certificate.wrongly_included or certificate.wrongly_excluded)[0]
    return Dropped(condition, f"{wrong} of the inventory would be wrong")


def _called(told: Told, table: Mapping) -> tuple[list[Flag], Told]:
    """What the administrator's own code says of the attributes that it sees to."""
    found: list[Flag] = []
    unsaid: dict[str, str] = {}
    for_program: list[constraints.Constraint] = []
    trusted: list[str] = []
    by_subject = told.common.by_subject()
    for name, box in by_subject.items():
        rule = table.rules.get(name)
        if rule is None or rule.kind not in ("python", "shell"):
            continue
        # By the mapping's spelling: the job's is no variable that the site's code knows.
        demanded = constraints.constraint(rule.attribute, name, box)
        if rule.kind == "python":
            words = constraints.call(rule.call, demanded)
            if words is None:
                unsaid[name] = f"{rule.call} cannot say it"
            else:
                found += [words] if words else []
                if demanded.exact:
                    trusted.append(name)
                else:
                    unsaid[name] = f"{rule.call} is not told all that is demanded"
            continue
        try:
            constraints.variables([demanded])
            for_program.append(demanded)
            trusted.append(name)
        except ValueError as error:
            unsaid[name] = str(error)
    if for_program:
        if not table.shell:
            raise NoFlagsError('the mapping names no program: shell = "/path/of/it"')
        found += constraints.run(table.shell, for_program, table)
    reasons = {
        clause.expression: reason
        for clause in told.clauses
        for name, reason in unsaid.items()
        if name in clause.names
    }
    return found, attrs.evolve(
        told,
        trusted=meet_all(by_subject[name] for name in trusted) or Box(),
        reasons={**reasons, **told.reasons},
    )


# --- by an expression -----------------------------------------------------------------------------


def _by_expression(
    reduction: Reduction, table: Mapping, want: Fit, asked: Requested, nodes: Inventory | None
) -> Submission:
    condition = asked.condition(reduction.residual)
    if not bounds(reduction.residual).boxes:
        raise NoHostError(
            f"the requirement is true of no host: nothing satisfies {shown(reduction.residual)}"
        )
    if table.style == "blah":
        unwound = ce_requirements(reduction.residual)
        dropped = unwound.dropped
        said = conjuncts(unwound.requirements)
        kept = [clause for clause in said if nodes is None or _all_have(clause, nodes)]
        if len(kept) < len(said):
            reason = "BLAH has whole numbers only, and a node that will do has another"
            dropped = (*dropped, Dropped(reduction.residual, reason))
        carried = on_hosts = conjunction(kept)
        lines = [] if carried is TRUE else [submit_text(carried)]
    else:
        written = expression.expression(reduction.residual, table)
        carried, dropped = written.carried, written.dropped
        lost = {each.clause for each in dropped}
        on_hosts = conjunction([c for c in conjuncts(reduction.residual) if c not in lost])
        lines = [] if carried is TRUE else [
            table.requirements.replace("{expression}", expression.submit_text(carried))
        ]  # fmt: skip
    certificate = None
    if nodes is not None:
        certificate = nodes.certificate(
            lambda each: (
                truth(on_hosts.eval(reduction.job, each.ad)) is True
                and _has_room(each, asked)
                and (table.style == "blah" or is_willing(each.ad, reduction.job))
            ),
            lambda _: True,
        )
        if not (certificate.exact or dropped):
            dropped = (_wrong(certificate, condition),)
    dropped = (*dropped, *asked.lacking)
    if dropped and want is Fit.SUFFICIENT:
        raise NoFlagsError(
            f"{table.lrms} has no flags that make sure of {shown(dropped[0].clause)}: "
            f"{dropped[0].reason}"
        )
    _refuse(table, want, dropped)
    lines += [" ".join(filled(line, str(number))) for line, number in asked.numbers.items()]
    argv = tuple(word for line in lines for word in ("-append", line))
    fit = Fit.NECESSARY if dropped else Fit.EXACT
    return Submission(
        table.lrms, table.submit, argv if table.submit else (), tuple(lines), fit, dropped,
        certificate=certificate, recheck=_recheck(condition, dropped, fit), condition=condition,
    )  # fmt: skip


def _all_have(clause: Expr, nodes: Inventory) -> bool:
    """Whether a clause is true of every node that will do."""
    return all(truth(clause.eval(target=each.ad)) is True for each in nodes.accepted)
