"""The part of a requirement about queue policy, carried with the job and read back.

A batch system may move a job to another queue, whose limits of CPU and wall time must still satisfy
the job. That part of the requirement travels in the job's own metadata.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from collections.abc import Mapping as MappingType
from contextlib import suppress
from typing import Final

import attrs

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.errors import NoFlagsError
from matchmaker.batch.flags.render import directive
from matchmaker.batch.flags.submission import Submission
from matchmaker.batch.mapping import Mapping, load_mapping
from matchmaker.batch.programs import NoProgramError, ProgramError, run
from matchmaker.batch.templates import filled
from matchmaker.classad import ClassAd, Expr, parse_expr
from matchmaker.classad.nodes import TRUE, Attr, Binary, Literal, Subscript, scope_of
from matchmaker.classad.printer import unparse
from matchmaker.classad.walks import (
    SCOPES,
    conjunction,
    conjuncts,
    disjunction,
    names_of,
    postorder,
)
from matchmaker.reduction import bounds, reduce
from matchmaker.reduction.domains import TEXTS, Box, Domain, as_one

POLICY: Final = "policy"

# The mark has a version, and finds the word in whatever the batch system prints around it.
_MARK: Final = re.compile(r"classad1:([A-Za-z0-9_-]+)")


class NoPolicyError(NoFlagsError):
    """A queued job carries no policy, or does not exist."""


def required_policy(job: ClassAd, scope: Callable[[str], str]) -> Expr:
    """Derive a job's condition on queues: true of every queue that can satisfy the job.

    Keeps clauses that name only attributes of the policy (by ``scope``). Other clauses are
    projected on the policy: the condition that some host can satisfy them.

    >>> from matchmaker import parse_ad
    >>> wanted = "other.SI00 > 500 ? other.MaxCPU > 1000 : other.MaxCPU > 2000"
    >>> job = parse_ad(f"[ Need = 5; Requirements = ({wanted}) && other.MaxWall >= Need ]")
    >>> print(required_policy(job, lambda name: "policy" if name.startswith("Max") else "host"))
    other.MaxCPU > 1000 && other.MaxWall >= 5
    """
    everything = reduce(job, ClassAd(), lambda name: "host").residual
    kept: list[Expr] = []
    for clause in conjuncts(everything):
        kinds = _kinds(clause, scope)
        if kinds == {True}:
            kept.append(clause)
        elif True in kinds:
            kept += conjuncts(_projected(clause, scope))
    return conjunction([clause for clause in dict.fromkeys(kept) if clause is not TRUE])


def _kinds(condition: Expr, scope: Callable[[str], str]) -> set[bool]:
    """Tell whether the names in a condition are of the policy: some, all or none.

    A name behind a path or an index may be an attribute of the host: a name that an ad within the
    policy lacks is looked up around it.
    """
    paths = names_of(condition).paths
    kinds = {scope(path.names[1]) == POLICY for path in paths if path.scope}
    if any(map(_looks_around, postorder(condition))):
        kinds.add(False)
    return kinds


def _looks_around(node: Expr) -> bool:
    if isinstance(node, Attr):
        return scope_of(node) is None and node.folded not in SCOPES
    return isinstance(node, Subscript)


def _projected(clause: Expr, scope: Callable[[str], str]) -> Expr:
    """Return the condition on policies that a clause can be true of some host."""
    found = bounds(clause)
    merged: list[Box] = []
    for box in found.boxes:
        new = _policy_of(box, found.names, scope)
        if any(new.within(old) for old in merged):
            continue
        # The alternatives of one attribute read best as one run.
        for old in tuple(merged):
            one = new if old.within(new) else as_one(old, new)
            if one is not None:
                merged.remove(old)
                new = one
        merged.append(new)
    whole = [_written(box, found.names) for box in merged]
    if TRUE in whole or len(whole) == 1:
        return TRUE if TRUE in whole else whole[0]
    # An alternative on a fact of another type is an error, which must not be one for all of them.
    return disjunction([Binary("is", Binary("&&", each, TRUE), TRUE) for each in whole])


def _policy_of(box: Box, names: MappingType[str, str], scope: Callable[[str], str]) -> Box:
    domains = {n: d for n, d in box.domains.items() if scope(names.get(n, n)) == POLICY}
    others = [part for part in box.others if _kinds(part, scope) == {True}]
    return Box(domains, others=tuple(others))


def _written(box: Box, names: MappingType[str, str]) -> Expr:
    parts = [within(names.get(name, name), domain) for name, domain in box.domains.items()]
    return conjunction([part for part in (*parts, *box.others) if part is not TRUE])


def within(name: str, domain: Domain) -> Expr:
    """Make a condition that is true of every value in a domain of numbers or texts.

    >>> from matchmaker.reduction.domains import numbers
    >>> print(within("A", numbers(">", 5) & numbers("<=", 9)))
    other.A > 5 && other.A <= 9
    >>> print(within("A", Domain(missing=True)))
    true
    """
    subject = Attr(Attr(None, "other", False), name, False)
    if domain.missing or domain.lists or domain.other or domain.but:
        return TRUE
    runs: list[Expr] = []
    for (low, after), (high, through) in domain.spans:
        ends: list[Expr] = []
        if low != -math.inf:
            ends.append(Binary(">" if after else ">=", subject, Literal(low)))
        if high != math.inf:
            ends.append(Binary("<=" if through else "<", subject, Literal(high)))
        if not ends:
            return TRUE
        runs.append(conjunction(ends))
    if domain.nan or (runs and domain & TEXTS != Domain()):
        return TRUE
    runs += [Binary("==", subject, Literal(text)) for text in sorted(domain.texts)]
    return disjunction(runs)


# --- with a job -----------------------------------------------------------------------------------


def encoded(policy: Expr, room: int = LIMITS.policy) -> str:
    """Write a policy as one word of letters, digits, ``-`` and ``_`` behind its mark.

    Raises NoFlagsError if the word is longer than ``room``, or if the policy cannot be written as
    text, such as a text with the character 0.

    >>> encoded(parse_expr("other.A > 5"))
    'classad1:KG90aGVyLkEgPiA1KQ'
    """
    text = f"({unparse(policy)})"  # a word that is cut is no expression
    word = "classad1:" + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    if len(word) > room:
        raise NoFlagsError(
            f"the policy that the job requires takes {len(word)} characters, and there is room for "
            f"{room}"
        )
    try:
        same = parse_expr(text) is policy
    except ValueError:
        same = False
    if not same:
        raise NoFlagsError("the policy that the job requires cannot be carried as text")
    return word


def decoded(text: str) -> Expr | None:
    """Read the policy from a batch system's description of a job; None if it carries none.

    Raises ValueError if the word is not an expression.
    """
    # qstat breaks long values across lines, with a tab before the rest; blanks begin another value.
    match = _MARK.search(re.sub(r"\r?\n\t", "", text))
    if match is None:
        return None
    word = match.group(1)
    with suppress(ValueError):
        text = base64.urlsafe_b64decode(word + "=" * (-len(word) % 4)).decode("utf-8")
        if text.startswith("(") and text.endswith(")"):
            return parse_expr(text)
    raise ValueError("what the job carries as its policy is no expression")


def carry(submission: Submission, policy: Expr, table: Mapping) -> Submission:
    """Put the policy that the job requires into the metadata of a submission.

    Raises NoFlagsError if the batch system's table names no place for it, or too small a place.
    """
    if policy is TRUE:
        return submission
    if not table.metadata:
        raise NoFlagsError(f"{table.lrms} has no place for the policy that a job requires")
    word = encoded(policy, table.room)
    if table.style == "classad":
        line = table.metadata.replace("{policy}", word)
        return attrs.evolve(
            submission,
            argv=(*submission.argv, "-append", line),
            directives=(*submission.directives, line),
        )
    flag = filled(table.metadata, word)
    return attrs.evolve(
        submission,
        argv=(*submission.argv, *flag),
        directives=(*submission.directives, directive(flag, table)),
    )


def of_queued(lrms: str, job: str) -> Expr:
    """Ask the batch system's own command for the policy that a queued job carries.

    Raises NoPolicyError if the job carries no policy or does not exist, and ValueError for an
    unknown batch system, or a name that no job can have.
    """
    table = load_mapping(lrms)
    query = table.query
    if not query:
        raise ValueError(f"{lrms} has no command that shows a queued job")
    if not re.fullmatch(table.job_name, job):
        raise ValueError(f"{job!r} is not the name of a job")
    argv = [word.replace("{job}", job) for word in query]
    try:
        ended = run(argv, seconds=LIMITS.query_seconds, most=LIMITS.query_output)
    except NoProgramError:
        raise ValueError(f"{query[0]} is not installed here") from None
    except ProgramError as error:
        raise ValueError(f"{query[0]}: {error}") from None
    if ended.status != 0:
        lines = ended.complaint.decode("utf-8", "replace").strip().splitlines()[:3]
        said = "; ".join(lines) or f"status {ended.status}"
        raise NoPolicyError(f"{query[0]} shows no job {job}: {said}")
    policy = decoded(ended.output.decode("utf-8", "replace"))
    if policy is None:
        raise NoPolicyError(
            f"job {job} carries no policy; classad flags --forward-policy is what gives it one"
        )
    return policy
