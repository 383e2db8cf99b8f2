"""Report of selections, reductions and submissions, for several subcommands.

Each is data for ``--json`` and a part of a page for people.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import attrs
from rich.console import RenderableType

from matchmaker.batch import Fit, Submission
from matchmaker.broker.choosing import UNKNOWN_RANK
from matchmaker.classad.errors import shorten
from matchmaker.classad.printer import brief
from matchmaker.classad.walks import conjuncts
from matchmaker.cli.output import (
    console,
    count,
    facts,
    number,
    plain,
    print_json,
    printable,
    show,
    table,
    wrapped,
)
from matchmaker.glue.access import UNKNOWN, of_ad, required
from matchmaker.matching.pair import value_text
from matchmaker.matching.selection import Candidate, Refusal, Selection
from matchmaker.reduction import Reduction, Verdict, phrase


def rank_text(rank: float) -> str:
    """A rank as text; ``undefined`` for a queue without an estimate, if the job has no rank.

    >>> rank_text(2.0), rank_text(-2146660842.0)
    ('2', 'undefined')
    """
    return "undefined" if rank == UNKNOWN_RANK else number(rank)


def rank_data(rank: float) -> Any:
    """A rank for JSON; null for a queue without an estimate, if the job has no rank."""
    return None if rank == UNKNOWN_RANK else plain(rank)


def selection_data(selection: Selection) -> dict[str, Any]:
    """The ranking, the refusals with their reasons, and the choice."""
    return {
        "chosen": selection.chosen.name if selection.chosen else None,
        "ranked": [_ranked_data(candidate) for candidate in selection.ranked],
        "refused": [_refusal_data(refusal) for refusal in selection.refused],
    }


def _ranked_data(candidate: Candidate) -> dict[str, Any]:
    data = {"name": candidate.name, "rank": rank_data(candidate.rank)}
    return data | ({"access": "unknown"} if _of_unknown_access(candidate) else {})


def _of_unknown_access(candidate: Candidate) -> bool:
    return candidate.ad.eval(UNKNOWN) is True


def _refusal_data(refusal: Refusal) -> dict[str, Any]:
    data: dict[str, Any] = {"name": refusal.name, "by": refusal.by, "reason": refusal.reason}
    if refusal.clause is not None:
        data["clause"] = str(refusal.clause.expression)
        data["value"] = plain(refusal.clause.value)
        data["facts"] = {name: plain(value) for name, value in refusal.clause.facts}
        if refusal.clause.more:
            data["more_facts"] = refusal.clause.more
    return data


def reduction_data(reduction: Reduction) -> dict[str, Any]:
    """The verdict, the residual and the fate of each clause."""
    return {
        "requirement": str(reduction.requirement),
        "verdict": str(reduction.verdict),
        "residual": str(reduction.residual),
        "clauses": [
            {"clause": str(f.clause), "verdict": str(f.verdict), "residual": str(f.residual)}
            for f in reduction.fates
        ],
        "bindings": [
            {"name": b.name, "kind": b.kind, "value": plain(b.value)} for b in reduction.bindings
        ],
    }


def submission_data(submission: Submission) -> dict[str, Any]:
    """Return the flags, their verdict, and the clauses that they drop."""
    certificate = submission.certificate
    return {
        "lrms": submission.lrms, "command": submission.command, "argv": list(submission.argv),
        "directives": list(submission.directives), "lines": list(submission.lines),
        "verdict": str(submission.verdict), "waits": submission.waits,
        "condition": str(submission.condition),
        "dropped": [{"clause": str(d.clause), "reason": d.reason} for d in submission.dropped],
        "excluded": list(submission.excluded),
        "recheck": None if submission.recheck is None else str(submission.recheck),
        "certificate": None if certificate is None else attrs.asdict(certificate),
    }  # fmt: skip


class Page:
    """A page for people. It is printed once all parts are known.

    ``data`` is the same for ``--json``.
    """

    def __init__(self, first: str) -> None:
        self.data: dict[str, Any] = {}
        self._parts: list[RenderableType] = [first]
        self._facts: list[tuple[str, object]] = []

    def say(self, name: str, value: object) -> None:
        """Add a line with a name and a value."""
        self._facts.append((name, value))

    def show(self, part: RenderableType) -> None:
        """Add a part after an empty line."""
        self._close()
        self._parts += ["", part]

    def selection(
        self, selection: Selection, kind: str, also: str = "", attribute: str = "",
        states: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        """Add a table of the ranking, and one of the refusals with their reasons.

        Last columns show the states, if they are given, and which access is unknown, if any is.
        """
        unknown = any(map(_of_unknown_access, selection.ranked))
        columns = ["", kind, "rank", *([also] if also else []), *(["state"] if states else [])]
        columns += ["access"] if unknown else []
        rows = [
            [
                place,
                candidate.name,
                rank_text(candidate.rank),
                *([value_text(candidate.ad.eval(attribute))] if also else []),
                *([states[place - 1]] if states else []),
                *(["known" if required(of_ad(candidate.ad)) else "unknown"] if unknown else []),
            ]
            for place, candidate in enumerate(selection.ranked, 1)
        ]
        if rows:
            self.show(table(columns, rows, right=(0, 2, *([3] if also else [])), whole=(1,)))
        if selection.refused:
            out = console()
            if out.is_terminal:
                self.lines(by_reason(selection.refused, out.width))
            else:
                refusals = [[refusal.name, refusal.reason] for refusal in selection.refused]
                self.show(table(["refused", "why"], refusals, whole=(0,)))

    def reduction(self, reduction: Reduction) -> None:
        """Add the requirement and its residual on hosts."""
        self.say("requirement", brief(reduction.requirement, 400))
        left = {Verdict.NEVER: "never true", Verdict.ALWAYS: "always true: any host will do"}
        self.say("residual", left.get(reduction.verdict, phrase(reduction.residual)))

    def nodes(self, selection: Selection) -> None:
        """Add the number of matching nodes, their names, and why the others are refused."""
        total = len(selection.ranked) + len(selection.refused)
        names = " ".join(candidate.name for candidate in selection.ranked)
        self.say("worker nodes", f"{len(selection.ranked)} of {total}: {names or 'none will do'}")
        clauses = Counter(_gist(refusal) for refusal in selection.refused)
        for reason, times in clauses.most_common(8):
            self.say("", f"{times} refused: {reason}")

    def submission(self, submission: Submission) -> None:
        """Add the flags as a command line, the verdict, and the dropped clauses."""
        if submission.command:
            self.say(submission.lrms, shlex.join((submission.command, *submission.argv)))
        for line in () if submission.command else submission.directives:
            self.say(submission.lrms, line)
        for line in submission.lines:
            self.say("script", line)
        whom = ""
        if submission.verdict is Fit.EXACT and submission.certificate is None:
            whom = " for the hosts that the flags describe; no inventory was given"
        self.say("verdict", f"{submission.verdict}{whom}")
        if submission.excluded:
            named = count(len(submission.excluded), "node")
            self.say("excluded", f"{named} by name, from the inventory")
        certificate = submission.certificate
        if certificate is not None and not certificate.exact:
            for what, names in (
                ("wrongly in", certificate.wrongly_included),
                ("wrongly out", certificate.wrongly_excluded),
            ):
                if names:
                    self.say(what, shorten(f"{count(len(names), 'node')}: {' '.join(names)}", 400))
        if not submission.dropped:
            self.say("dropped", "nothing")
        for dropped in submission.dropped:
            self.say("dropped", f"{phrase(dropped.clause)}: {dropped.reason}")

    def lines(self, lines: Sequence[str], *, apart: bool = True) -> None:
        """Add lines as one part, after an empty line if they stand apart."""
        self._close()
        self._parts += [*([""] if apart else []), *lines]

    def fates(self, reduction: Reduction, submission: Submission) -> None:
        """Add a table that shows for each clause of the residual whether the flags carry it."""
        reasons = {dropped.clause: dropped.reason for dropped in submission.dropped}
        clauses = [] if reduction.verdict is not Verdict.RESIDUAL else conjuncts(reduction.residual)
        kept = "in the flags"
        if submission.excluded:
            kept += ", or by the nodes that are left out"
        rows = [[shorten(phrase(clause), 200), reasons.get(clause, kept)] for clause in clauses]
        if rows:
            self.show(table(["clause of the residual", "what became of it"], rows))

    def _close(self) -> None:
        if self._facts:
            self._parts += ["", facts(self._facts)]
            self._facts = []

    def print(self, *, as_json: bool = False) -> None:
        """Print the page, or its data."""
        if as_json:
            print_json(self.data)
            return
        self._close()
        for part in self._parts:
            show(part)


NAMED: Final = 8
"""How many of those that are refused alike are named on a terminal."""

_HEADS: Final = {
    "job": "{} refused by the job",
    "resource": "the job is refused by {}",
    "broker": "{} refused by the broker",
}


def by_reason(refused: Sequence[Refusal], width: int) -> list[str]:
    """Lines for a terminal that say why some are refused: each reason once, the commonest first.

    What all of a reason have found stands under it, what differs behind their names.
    """
    groups: dict[tuple[str, str], list[tuple[str, list[str]]]] = {}
    for one in refused:
        reason, found = _reason(one)
        groups.setdefault((one.by, reason), []).append((one.name, found))
    lines: list[str] = []
    for (by, reason), members in sorted(groups.items(), key=lambda group: -len(group[1])):
        head = _HEADS.get(by, "{} refused").format(f"{len(members):,}")
        first, *more = wrapped(printable(f"{head}: {reason}"), width - 4)
        lines += ["", first, *(f"    {line}" for line in more)]
        alike = [fact for fact in members[0][1] if all(fact in found for _, found in members)]
        lines += _listed(alike, width)
        for name, found in members[:NAMED]:
            own = [fact for fact in found if fact not in alike]
            line = f"  {printable(name)}"
            short = f"{line}  {', '.join(own)}"
            lines += [short.rstrip()] if len(short) <= width else [line, *_listed(own, width)]
        if len(members) > NAMED:
            lines.append(f"  and {len(members) - NAMED:,} more: --json names all")
    return lines[1:]


def _reason(refusal: Refusal) -> tuple[str, list[str]]:
    """Split a refusal into its reason, the party that refuses, and the values found."""
    clause = refusal.clause
    if clause is None:
        return refusal.reason, []
    found = clause.found
    said = refusal.reason.removesuffix(f" ({', '.join(found)})")
    return said.partition(": ")[2] if refusal.by in _HEADS else said, [*map(printable, found)]


def _listed(found: Sequence[str], width: int) -> list[str]:
    """Facts in lines that fit, none of them broken that fits in one."""
    lines: list[str] = []
    for place, fact in enumerate(found):
        text = fact if place == len(found) - 1 else f"{fact},"
        if lines and len(lines[-1]) + 1 + len(text) <= width:
            lines[-1] += f" {text}"
        else:
            lines += [f"    {part}" for part in wrapped(text, max(width - 4, 20))]
    return lines


def _gist(refusal: Refusal) -> str:
    if refusal.clause is None:
        return refusal.reason
    return f"{brief(refusal.clause.expression)} is {value_text(refusal.clause.value)}"
