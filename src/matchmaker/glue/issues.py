"""The faults of a description of a grid: how bad each rule's are, and what keeps and counts them.

Readers, cleaning rules and links report a `Diagnostic` each; the rules themselves are with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import attrs

from matchmaker._diagnostics import ERROR, NOTE, WARNING, Diagnostic
from matchmaker._diagnostics import LEVELS as CODES
from matchmaker.classad.quoting import shorten
from matchmaker.glue.limits import LIMITS


def _rules(names: Mapping[str, str]) -> frozenset[str]:
    return frozenset(f"{kind}.{name}" for kind, said in names.items() for name in said.split())


ERRORS: Final = _rules({
    "ldif": "base64 bad-name change folding no-colon no-dn line-limit entry-limit partial url",
    "ldap": "partial value-limit",
    "document": "partial empty no-object",
    "osg": "no-catalog entry",
    "typed": "mismatch",
    "clean": "access-rule stale",
    "access": "conflict damaged",
    "link": "dangling duplicate no-id no-cluster no-endpoint no-subcluster too-many",
    "source": "duplicate partial",
    "system": "downtime entry no-endpoint",
})  # fmt: skip
"""Rules that say that something is lost, or is of no use to a broker."""

NOTES: Final = _rules({
    "clean": "benchmark case cpu-time no-limit platform",
    "link": "elsewhere no-queue repeated",
})  # fmt: skip
"""Rules that only put a spelling or a number into its usual form, or say what a source has."""

LEVELS: Final = {letter: severity for severity, letter in CODES.items()}
"""The severities by their codes: ``error`` by E."""


Issue: TypeAlias = Diagnostic
"""A value, line or link that was mended, dropped or doubted."""


def issue(
    rule: str,
    message: str,
    line: int = 0,
    dn: str = "",
    *,
    attribute: str = "",
    raw: str = "",
    count: int = 1,
) -> Issue:
    """The issue of a rule, with the severity that `ERRORS` and `NOTES` give it; ``raw`` is cut.

    >>> issue("link.dangling", "the key leads nowhere").level
    'E'
    """
    severity = ERROR if rule in ERRORS else NOTE if rule in NOTES else WARNING
    return Issue(rule, message, line, dn, attribute, shorten(raw, LIMITS.raw), count, severity)


Report: TypeAlias = Callable[[Issue], None]
"""What the readers call for each finding; ``list.append`` will do."""


@attrs.frozen(slots=True)
class Issues:
    """Keeps the issues of a source: of each rule the first, then only their number.

    Attributes:
        kept: in the order they came, but for the numbers.
        beyond: how many more there were of a rule.

    >>> issues = Issues()
    >>> for line in range(LIMITS.issues + 2):
    ...     issues.report(issue("ldif.no-colon", "no colon, skipped", line))
    >>> len(issues.all()), print(issues.all()[-1])
    ldif.no-colon: 2 more of this rule, which were only counted
    (10001, None)
    """

    kept: list[Issue] = attrs.Factory(list)
    beyond: Counter[str] = attrs.Factory(Counter)
    _counted: Counter[str] = attrs.Factory(Counter)

    def report(self, found: Issue) -> None:
        """Takes one issue."""
        self._counted[found.rule] += 1
        if self._counted[found.rule] > LIMITS.issues:
            self.beyond[found.rule] += found.count
        else:
            self.kept.append(found)

    def partial(self) -> bool:
        """Whether one says that the source was not read to its end."""
        return any(issue.partial for issue in self.kept)

    def all(self) -> tuple[Issue, ...]:
        """What was kept, and for each rule that went beyond the limit an issue with the number."""
        said = "more of this rule, which were only counted"
        more = (issue(rule, f"{n} {said}", count=n) for rule, n in sorted(self.beyond.items()))
        return (*self.kept, *more)


def total(issues: Iterable[Issue]) -> int:
    """How many findings there are, with those that were only counted.

    >>> total([issue("clean.case", "x"), issue("clean.case", "7 more", count=7)])
    8
    """
    return sum(issue.count for issue in issues)


def tally(issues: Iterable[Issue]) -> list[tuple[str, str, int]]:
    """The level, the rule and the number of issues of each rule: errors first, then by number.

    >>> tally([issue("clean.case", "x"), issue("link.no-id", "x"), issue("clean.case", "y")])
    [('E', 'link.no-id', 1), ('I', 'clean.case', 2)]
    """
    counted: Counter[tuple[str, str]] = Counter()
    for issue in issues:
        counted[issue.level, issue.rule] += issue.count
    order = list(LEVELS)
    rows = sorted(counted.items(), key=lambda row: (order.index(row[0][0]), -row[1], row[0][1]))
    return [(level, rule, number) for (level, rule), number in rows]
