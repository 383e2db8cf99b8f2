"""What is plainly amiss: a name that nothing has, a string instead of an expression."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from matchmaker._limits import EXPLANATION_LIMITS as LIMITS
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.errors import closest, shorten
from matchmaker.classad.evaluate import Allowance
from matchmaker.classad.nodes import Attr, Binary, Expr, Literal
from matchmaker.classad.operators import ORDER, truth
from matchmaker.classad.parser import parse_expr
from matchmaker.classad.printer import brief
from matchmaker.classad.values import is_error
from matchmaker.classad.walks import SPECIAL, postorder, replaced
from matchmaker.matching.columns.contents import ERROR_KIND
from matchmaker.matching.columns.dependencies import Side
from matchmaker.matching.columns.step_budget import OverworkError, stopped
from matchmaker.matching.columns.vectors import truths
from matchmaker.matching.explanation.counts import Counts
from matchmaker.matching.explanation.report import counted
from matchmaker.matching.names import FOLDED_REQUIREMENTS, REQUIREMENTS


def notes(
    counts: Counts, known: Mapping[str, str] | None = None, of_lists: Iterable[str] = ()
) -> tuple[str, ...]:
    """Sentences, the first few. `known` are the names of the slots, if these have more.

    `of_lists` are those on the conditions of elements.
    """
    found = [
        *_strings(counts),
        *_errors(counts),
        *_names(counts, known),
        *of_lists,
        *_strings_of_slots(counts),
    ]
    more = len(found) - LIMITS.notes
    last = [f"and {more} more of the kind"] if more > 0 else []
    if counts.stopped:
        why = stopped(counts.total, counts.pool._cache.limits)
        last.append(f"not all changes of the job were tried: {why}")
    return (*found[: LIMITS.notes], *last)


# --- strings --------------------------------------------------------------------------------------


def _strings(counts: Counts) -> Iterator[str]:
    content = counts.job._held
    for number, clause in enumerate(counts.clauses, 1):
        if isinstance(content.get(FOLDED_REQUIREMENTS), str):
            yield f"the job's {REQUIREMENTS} {_AMISS}"
        elif isinstance(clause, Literal) and isinstance(clause.value, str):
            yield f"clause {number} {_AMISS}"
        elif isinstance(clause, Attr):
            holder = counts.evaluator.reaches.holder(clause, Side.JOB)
            if holder is Side.JOB and isinstance(content.get(clause.folded), str):
                yield f"the job's {clause.name} (clause {number}) {_AMISS}"


_AMISS: Final = "is a string, which is true of no slot: write the expression without quotes"


def _strings_of_slots(counts: Counts) -> Iterator[str]:
    """How many slots say what they require in a string."""
    times: Counter[str] = Counter()
    for held in counts.held:
        if isinstance(held.node, Literal) and isinstance(held.node.value, str):
            times[held.via[-1] if held.via else REQUIREMENTS] += len(held.rows)
    for name, count in times.items():
        yield f"{counted(count)} refuse every job: {name} is a string there, and no expression"


# --- errors ---------------------------------------------------------------------------------------


def _errors(counts: Counts) -> Iterator[str]:
    """Why clauses are errors: the reason on the first such slot, and what to write instead."""
    allowance = Allowance()
    for number, count in enumerate(counts.of_clauses()):
        clause = counts.clauses[number]
        # What is said of strings is not said again.
        said = isinstance(clause, Literal) or isinstance(
            counts.job._held.get(clause.folded if isinstance(clause, Attr) else ""), str
        )
        if not count.error or counts.error is not None or said:
            continue
        try:
            rows = np.flatnonzero(counts.fails(clause))
            vector = counts.evaluator.attempt(clause, Side.JOB, rows)
        except OverworkError:
            return
        kinds = np.broadcast_to(truths(vector), rows.shape)
        wrong = rows[kinds == ERROR_KIND]
        if not len(wrong):
            continue
        ad = counts.view.ad(int(wrong[0]))
        value = truth(allowance.value(clause, counts.job, ad))
        if is_error(value) and value.reason:
            fix = _unquoted(clause, counts.job, ad, allowance)
            advice = f"; write {brief(fix)}" if fix is not None else ""
            slots = counted(count.error)
            yield f"clause {number + 1} is an error for {slots}: {value.reason}{advice}"


def _unquoted(clause: Expr, job: ClassAd, ad: ClassAd, allowance: Allowance) -> Expr | None:
    """A clause with a number for a number in quotes that is compared with a number."""
    for node in postorder(clause):
        if not isinstance(node, Binary) or node.operator not in ORDER | {"==", "!="}:
            continue
        for text, other in ((node.right, node.left), (node.left, node.right)):
            if not isinstance(text, Literal) or not isinstance(text.value, str):
                continue
            if not _NUMBER.fullmatch(text.value):
                continue
            if type(allowance.value(other, job, ad)) not in (int, float):
                continue
            plain = parse_expr(text.value)
            fresh = (other, plain) if text is node.right else (plain, other)
            return replaced(clause, node, Binary(node.operator, *fresh))
    return None


_NUMBER: Final = re.compile(r"\d{1,18}(?:\.\d{1,18})?", re.ASCII)


# --- names ----------------------------------------------------------------------------------------


def _names(counts: Counts, of_slots: Mapping[str, str] | None) -> Iterator[str]:
    """Attributes that clauses are undefined for the lack of."""
    clauses: dict[tuple[str, str], list[int]] = {}
    names: dict[tuple[str, str], str] = {}
    for number, count in enumerate(counts.of_clauses()):
        if count.undefined or count.error:
            for node, who in _lacking(counts, counts.clauses[number]):
                names.setdefault((who, node.folded), node.name)
                numbers = clauses.setdefault((who, node.folded), [])
                if number + 1 not in numbers:
                    numbers.append(number + 1)
    spelled: dict[str, Mapping[str, str]] = {}
    for order, ((who, folded), name) in enumerate(names.items()):
        numbers = clauses[who, folded]
        shown = ", ".join(map(str, numbers[:3])) + (", ..." if len(numbers) > 3 else "")
        place = f"clause{'s' if len(numbers) > 1 else ''} {shown}"
        like = ""
        # Each name is compared with all others: only where it will be read.
        if order < LIMITS.notes:
            if who not in spelled:
                spelled[who] = _known(counts, who, of_slots)
            known = spelled[who]
            like = closest(name, known) if len(known) <= LIMITS.names else ""
        hint = f"; did you mean {shorten(like)}?" if like else ""
        yield f"{who} {shorten(name)} ({place}){hint}"


_SLOTS: Final = "no slot has"
_JOB: Final = "the job has no"
_EITHER: Final = "neither the job nor any slot has"


def _lacking(counts: Counts, clause: Expr) -> Iterator[tuple[Attr, str]]:
    """The names in a clause, and in what it names of the job, that nothing stands for."""
    pending, seen = [clause], {clause}
    while pending and len(seen) <= LIMITS.followed:
        for node in postorder(pending.pop()):
            if not isinstance(node, Attr) or node.folded in SPECIAL:
                continue
            holder = counts.evaluator.reaches.holder(node, Side.JOB)
            content = counts.job._held.get(node.folded)
            if holder is Side.JOB and node.folded not in counts.job._held:
                yield node, _JOB
            elif holder is Side.JOB and isinstance(content, Expr) and content not in seen:
                seen.add(content)
                pending.append(content)
            elif holder is Side.ROW and not counts.view.has(node.folded):
                yield node, _SLOTS if node.base is not None else _EITHER


def _known(counts: Counts, who: str, of_slots: Mapping[str, str] | None) -> Mapping[str, str]:
    """The names that one may have meant, as spelled, by their folded forms."""
    found: dict[str, str] = {}
    if who != _JOB and of_slots is not None:
        found.update(of_slots)
    elif who != _JOB:
        view = counts.view
        for number in np.unique(view.layout[view.rows()])[: LIMITS.layouts].tolist():
            layout = view.layouts[number]
            for folded, name in zip(layout.folded, layout.names, strict=True):
                found.setdefault(folded, name)
    if who != _SLOTS:
        found = dict(zip(counts.job._held, counts.job, strict=True)) | found
    return found
