"""What was wrong with the data, and where: one `Issue` for each finding.

The LDIF reader, the cleaning rules and the resolving of links all report here. What the rules are
is in `ldif`, `clean` and `snapshot`; this module only says what a finding looks like.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import attrs

ERRORS: Final = frozenset(
    f"{kind}.{name}"
    for kind, names in {
        "ldif": "base64 bad-name change folding no-colon no-dn line-limit entry-limit url",
        "ldap": "partial value-limit",
        "document": "partial empty",
        "osg": "no-catalog entry",
        "typed": "mismatch",
        "clean": "access-rule stale",
        "access": "conflict damaged none",
        "link": "dangling duplicate no-id no-cluster no-endpoint no-subcluster too-many",
        "source": "duplicate",
    }.items()
    for name in names.split()
)
"""Rules that say that something is lost, or is of no use to a broker."""

NOTES: Final = frozenset(
    f"clean.{name}" for name in ("case", "platform", "benchmark", "cpu-time", "no-limit")
)
"""Rules that only put a spelling or a number into its usual form."""

LEVELS: Final = {"E": "error", "W": "warning", "I": "note"}


@attrs.frozen(slots=True)
class Issue:
    """One value, line or link that was mended, dropped or doubted.

    Attributes:
        rule: the id of the rule, such as ``ldif.no-colon`` or ``clean.default-number``.
        message: what was found and what was done, in one sentence.
        line: the first line of the entry or of the bad line, from 1; 0 where there are no lines.
        dn: the name of the entry, empty where it is not known.
        attribute: the attribute's name, empty where the finding is on a whole line or entry.
        raw: the text as it was published, cut where it is long.
        count: how many findings it stands for; more than one where those beyond a limit were only
            counted.

    >>> print(Issue("clean.default-number", "a default", 7, "o=grid", "Jobs", "444444"))
    line 7: clean.default-number: a default: Jobs='444444' in o=grid
    """

    rule: str
    message: str
    line: int = 0
    dn: str = ""
    attribute: str = ""
    raw: str = ""
    count: int = 1

    @property
    def level(self) -> str:
        """E, W or I: an error, a warning or a note, as glue-validator codes them.

        >>> Issue("link.dangling", "the key leads nowhere").level
        'E'
        """
        return "E" if self.rule in ERRORS else "I" if self.rule in NOTES else "W"

    @property
    def partial(self) -> bool:
        """Whether it says that the source was not read to its end, and what came before stands.

        >>> Issue("ldap.partial", "the answer is not whole").partial
        True
        """
        return self.rule.endswith(".partial")

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        text = f"{where}{self.rule}: {self.message}"
        if self.attribute:
            text += f": {self.attribute}={self.raw!r}"
        elif self.raw:
            text += f": {self.raw!r}"
        return f"{text} in {self.dn}" if self.dn else text


Report: TypeAlias = Callable[[Issue], None]
"""What the readers call for each finding; ``list.append`` will do."""


KEPT_ISSUES: Final = 10_000
"""Issues of one rule that are kept; those beyond are counted."""

RAW_LIMIT: Final = 1000
"""Characters of published text that an issue repeats."""


@attrs.frozen(slots=True)
class Issues:
    """Keeps the issues of a source: of each rule so many, then only their number.

    Attributes:
        kept: in the order they came, but for the numbers.
        beyond: how many more there were of a rule.

    >>> issues = Issues()
    >>> for line in range(KEPT_ISSUES + 2):
    ...     issues.report(Issue("ldif.no-colon", "no colon, skipped", line))
    >>> len(issues.all()), print(issues.all()[-1])
    ldif.no-colon: 2 more of this rule, which were only counted
    (10001, None)
    """

    kept: list[Issue] = attrs.Factory(list)
    beyond: Counter[str] = attrs.Factory(Counter)
    _counted: Counter[str] = attrs.Factory(Counter)

    def report(self, issue: Issue) -> None:
        """Takes one issue."""
        self._counted[issue.rule] += 1
        if self._counted[issue.rule] > KEPT_ISSUES:
            self.beyond[issue.rule] += issue.count
        else:
            self.kept.append(issue)

    def partial(self) -> bool:
        """Whether one says that the source was not read to its end."""
        return any(issue.partial for issue in self.kept)

    def all(self) -> tuple[Issue, ...]:
        """What was kept, and for each rule that went beyond the limit an issue with the number."""
        said = "more of this rule, which were only counted"
        more = (Issue(rule, f"{n} {said}", count=n) for rule, n in sorted(self.beyond.items()))
        return (*self.kept, *more)


def excerpt(text: str, length: int = RAW_LIMIT) -> str:
    """A text, cut where it is longer than so many characters.

    >>> excerpt("abc", 2)
    'ab…'
    """
    return text if len(text) <= length else text[:length] + "…"


def total(issues: Iterable[Issue]) -> int:
    """How many findings there are, with those that were only counted.

    >>> total([Issue("clean.case", "x"), Issue("clean.case", "7 more", count=7)])
    8
    """
    return sum(issue.count for issue in issues)


def tally(issues: Iterable[Issue]) -> list[tuple[str, str, int]]:
    """The level, the rule and the number of issues of each rule: errors first, then by number.

    >>> tally([Issue("clean.case", "x"), Issue("link.no-id", "x"), Issue("clean.case", "y")])
    [('E', 'link.no-id', 1), ('I', 'clean.case', 2)]
    """
    counted: Counter[tuple[str, str]] = Counter()
    for issue in issues:
        counted[issue.level, issue.rule] += issue.count
    order = list(LEVELS)
    rows = sorted(counted.items(), key=lambda row: (order.index(row[0][0]), -row[1], row[0][1]))
    return [(level, rule, number) for (level, rule), number in rows]
