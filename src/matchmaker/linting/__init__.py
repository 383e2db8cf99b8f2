"""Mistakes in ads and expressions that can be seen before anything is matched.

A text is cut into pieces and placed (``pieces``), the kinds of value of each part are worked out
(``kinds``), and each rule of the table looks at each part. The text may be spoiled; its readable
parts are checked. The rules know no schema: names are given. Codes are stable: CA0 is syntax, CA1
names, CA2 operations, CA3 conditions.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from matchmaker._diagnostics import ERROR, NOTE, WARNING, Diagnostic
from matchmaker.classad.ad import ClassAd
from matchmaker.classad.evaluate import charged
from matchmaker.classad.formats import dumps
from matchmaker.classad.formats.old import old_text
from matchmaker.classad.nodes import Expr
from matchmaker.linting import comparisons, logic, names
from matchmaker.linting.kinds import KnownNames, Schema, facts_of, known_from
from matchmaker.linting.model import LintRule, Piece, Report
from matchmaker.linting.pieces import FORMATS, ParsedText, detect, read, swallowed, unit_of

__all__ = ["FORMATS", "RULES", "Diagnostic", "LintRule", "lint"]


_ALL: Final = (
    LintRule("CA001", ERROR, "text that cannot be read"),
    LintRule("CA002", ERROR, "= where == is meant"),
    LintRule("CA003", ERROR, "a sign or ! right after ?: without parentheses"),
    LintRule("CA004", ERROR, "and, or, not in place of &&, ||, !"),
    LintRule("CA005", NOTE, "a job description that HTCondor does not read"),
    LintRule("CA006", WARNING, "// before what looks like a part of the expression"),
    LintRule("CA101", WARNING, "an attribute that nothing known has", names.unknown_attribute),
    LintRule("CA102", ERROR, "an unknown function", names.unknown_function),
    LintRule("CA103", ERROR, "too many or too few arguments", names.wrong_arity),
    LintRule("CA104", WARNING, "an attribute that is set again below", names.shadowed, True),
    LintRule("CA105", WARNING, "an attribute that leads back to itself", names.circular, True),
    LintRule("CA106", WARNING, "text in single quotes, or null", names.foreign_word),
    LintRule("CA201", ERROR, "a comparison that is always an error", comparisons.mismatch),
    LintRule("CA202", ERROR, "a number in quotes, compared", comparisons.quoted_number),
    LintRule("CA203", ERROR, "undefined or error compared other than by is",
         comparisons.compared_with_undefined),
    LintRule("CA204", ERROR, "an operation that is always an error", comparisons.always_error),
    LintRule("CA205", WARNING, "comparisons in a chain", comparisons.chained),
    LintRule("CA206", ERROR, "a pattern that is no regular expression", comparisons.broken_pattern),
    LintRule("CA207", WARNING, "a backslash that a pattern has lost", comparisons.lost_backslash),
    LintRule("CA301", ERROR, "& or | between conditions", comparisons.single_operator),
    LintRule("CA302", WARNING, "a clause that is never true", logic.never_true),
    LintRule("CA303", WARNING, "a clause that is always true", logic.always_true),
    LintRule("CA304", WARNING, "a branch that is never reached", logic.dead_branch),
    LintRule("CA305", NOTE, "is, where the case of letters counts", logic.letter_case),
)  # fmt: skip

RULES: Final[Mapping[str, LintRule]] = {rule.code: rule for rule in _ALL}


@charged
def lint(
    source: str | Expr | ClassAd,
    *,
    schema: Schema | None = None,
    targets: Iterable[ClassAd] = (),
    format: str = "auto",  # noqa: A002 - the word for it, as elsewhere
    name: str = "",
) -> list[Diagnostic]:
    """Find mistakes and probable mistakes, in the order of the text.

    Args:
        source: the text of ads or of an expression; an ad or expression itself is printed first.
        schema: names of attributes that either side may have, or a function that gives them.
        targets: the ads that it is to be matched with: their names and kinds are known.
        format: ``new``, ``old``, ``expression``, or ``auto``, which detects it.
        name: the source of the text, for the findings.

    Never raises on any text: a syntax error is a finding. TypeError for a source that is
    none of these, and for a schema that is a text; ValueError for an unknown format.

    >>> for found in lint('Requirements = size(Name) > "9" && Cpus = 2'):
    ...     print(found.rule, found.line, found.column, found.message, "|", found.fix)
    CA202 1 16 "9" in quotes is a string: compared with a number it is an error | size(Name) > 9
    CA002 1 41 unexpected '='; expected an operator or the end (use == to compare) | ==
    >>> [found] = lint("TARGET.Memroy > 5", targets=[ClassAd({"Memory": 2048})])
    >>> found.rule, found.raw, found.fix
    ('CA101', 'Memroy', 'Memory')
    """
    if isinstance(source, ClassAd):
        source, format = dumps(source), "new"  # noqa: A001
    elif isinstance(source, Expr):
        source, format = str(source), "expression"  # noqa: A001
    elif not isinstance(source, str):
        raise TypeError(f"text, an ad or an expression was expected, not {type(source).__name__}")
    # Readers pass over a byte order mark; the columns of what follows stay.
    source = source.replace("\ufeff", " ", 1) if source.startswith("\ufeff") else source
    if format == "auto":
        format = detect(source)  # noqa: A001
        if format not in FORMATS:
            said = f"this seems to be {format.upper()}: convert it to new or old before"
            return [_Lines("", name).finding("CA001", Report(Piece("", 0), 0, 0, said))]
    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}; there are {', '.join(FORMATS)} and auto")
    known = known_from(targets, schema)
    placed = _Lines(source, name)
    found = {placed.finding(code, report) for code, report in _reports(source, format, known)}
    return sorted(found, key=lambda one: (one.line, one.column, one.rule, one.message))


def _reports(text: str, format_: str, known: KnownNames) -> Iterator[tuple[str, Report]]:
    for item in read(text, format_):
        if isinstance(item, ParsedText):
            yield from _checked(item, known)
        else:
            yield item.code, item.report


def _checked(whole: ParsedText, known: KnownNames) -> Iterator[tuple[str, Report]]:
    for piece in {id(piece): piece for piece, _ in whole.roots}.values():
        yield from (("CA006", report) for report in swallowed(piece))
    unit = unit_of(whole)
    facts = facts_of(unit, known.kinds)
    for rule in RULES.values():
        if rule.check is None:
            continue
        if rule.of_scope:
            for scope in unit.scopes:
                yield from ((rule.code, report) for report in rule.check(scope))
        else:
            for site in unit.sites:
                yield from ((rule.code, report) for report in rule.check(site, facts, known))


class _Lines:
    """A text, and the line and column of each offset."""

    __slots__ = ("_name", "_starts", "_text")

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._starts: Final = [0, *(match.end() for match in re.finditer("\n", text))]

    def _place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def finding(self, code: str, report: Report) -> Diagnostic:
        """A rule's report as a finding in the whole text."""
        start, end = report.piece.offset(report.start), report.piece.offset(report.end)
        fix = report.fix
        if report.piece.old and fix:
            try:
                fix = old_text(fix)
            except ValueError:
                fix = ""
        text = self._text[start:end]
        (line, column), (end_line, end_column) = self._place(start), self._place(end)
        return Diagnostic(
            code,
            report.message,
            line,
            raw=text,
            severity=report.severity or RULES[code].severity,
            source=self._name,
            column=column,
            end_line=end_line,
            end_column=end_column,
            fix=fix if fix != text else "",
        )
