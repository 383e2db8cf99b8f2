"""The faults of a description of a grid: the severity of each rule, and the record of findings.

Readers, cleaning rules and links report a `Diagnostic` each; the rules themselves are with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from matchmaker._diagnostics import ERROR, NOTE, WARNING, Diagnostic
from matchmaker._diagnostics import LEVELS as CODES
from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad.errors import shorten


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
"""Rules that find something lost, or of no use to a broker."""

NOTES: Final = _rules({
    "clean": "benchmark case cpu-time no-limit platform",
    "link": "elsewhere no-queue repeated",
    "source": "downtime",
})  # fmt: skip
"""Rules that only put a spelling or a number into its usual form, or name what a source has."""

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
    """Make the issue of a rule, with its severity by `ERRORS` and `NOTES`; ``raw`` is cut.

    >>> issue("link.dangling", "the key leads nowhere").level
    'E'
    """
    severity = ERROR if rule in ERRORS else NOTE if rule in NOTES else WARNING
    return Issue(rule, message, line, dn, attribute, shorten(raw, LIMITS.raw), count, severity)


Report: TypeAlias = Callable[[Issue], None]
"""Readers call it for each finding; ``list.append`` will do."""


@attrs.frozen(slots=True)
class Issues:
    """Keeps the issues of a source: of each rule the first, then only their number.

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
        """Take one issue."""
        self._counted[found.rule] += 1
        if self._counted[found.rule] > LIMITS.issues:
            self.beyond[found.rule] += found.count
        else:
            self.kept.append(found)

    def partial(self) -> bool:
        """Whether an issue says that the source was not read to its end."""
        return any(issue.partial for issue in self.kept)

    def all(self) -> tuple[Issue, ...]:
        """Return the kept issues, and for each rule beyond the limit an issue with the number."""
        said = "more of this rule, which were only counted"
        more = (issue(rule, f"{n} {said}", count=n) for rule, n in sorted(self.beyond.items()))
        return (*self.kept, *more)


def total(issues: Iterable[Issue]) -> int:
    """Count findings, with those that were only counted.

    >>> total([issue("clean.case", "x"), issue("clean.case", "7 more", count=7)])
    8
    """
    return sum(issue.count for issue in issues)


_EXAMPLES: Final = 3
"""The most entries and values that one line names."""


def lines(issues: Iterable[Issue]) -> list[str]:
    """Write findings as lines, the same finding on several entries once, at its first place.

    Findings are the same if they have the rule, the message and the attribute in common.

    >>> same = [issue("clean.case", "another case", n, f"GlueCEUniqueID=q{n},o=grid", attribute="X",
    ...               raw=raw) for n, raw in enumerate(["x", "x", "y", "x"], 1)]
    >>> for line in lines([*same, issue("link.no-id", "no id, skipped", 9)]):
    ...     print(line)
    clean.case: another case: X='x', 'y' (4 entries, e.g. q1, q2, q3)
    line 9: link.no-id: no id, skipped
    """
    groups: dict[tuple[str, str, str], list[Issue]] = {}
    for found in issues:
        groups.setdefault((found.rule, found.message, found.attribute), []).append(found)
    return [str(same[0]) if len(same) == 1 else _line(same) for same in groups.values()]


def _line(same: Sequence[Issue]) -> str:
    first = same[0]
    raws = list(dict.fromkeys(repr(found.raw) for found in same if found.raw or found.attribute))
    shown = ", ".join(raws[:_EXAMPLES]) + (", …" if len(raws) > _EXAMPLES else "")
    about = f"{first.attribute}={shown}" if first.attribute else shown
    places = {found.dn or found.line or found.raw: found for found in same}
    names = ", ".join(filter(None, map(_place, list(places.values())[:_EXAMPLES])))
    number = total(same)
    if len(places) == 1 or not names:
        where = f"{number} times" + (f" in {names}" if names else "")
    else:
        kind = "entries" if first.dn else "lines"
        times = f"{number} times in " if number > len(places) else ""
        some = ", e.g." if len(places) > _EXAMPLES else ":"
        where = f"{times}{len(places)} {kind}{some} {names}"
    return f"{first.rule}: {first.message}{about and f': {about}'} ({where})"


def _place(found: Issue) -> str:
    name = found.dn.replace("\\,", "\0").partition(",")[0].replace("\0", ",")
    return shorten(name.partition("=")[2] or name, 80) or (f"line {found.line}" * bool(found.line))


def tally(issues: Iterable[Issue]) -> list[tuple[str, str, int]]:
    """Return the level, rule and number of issues of each rule: errors first, then by number.

    >>> tally([issue("clean.case", "x"), issue("link.no-id", "x"), issue("clean.case", "y")])
    [('E', 'link.no-id', 1), ('I', 'clean.case', 2)]
    """
    counted: Counter[tuple[str, str]] = Counter()
    for issue in issues:
        counted[issue.level, issue.rule] += issue.count
    order = list(LEVELS)
    rows = sorted(counted.items(), key=lambda row: (order.index(row[0][0]), -row[1], row[0][1]))
    return [(level, rule, number) for (level, rule), number in rows]
