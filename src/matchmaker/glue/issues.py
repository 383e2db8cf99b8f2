"""What was wrong with the data, and where: one `Issue` for each finding.

The LDIF reader, the cleaning rules and the resolving of links all report here. What the rules are
is in `ldif`, `clean` and `snapshot`; this module only says what a finding looks like.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs


@attrs.frozen(slots=True)
class Issue:
    """One value, line or link that was mended, dropped or doubted.

    Attributes:
        rule: the id of the rule, such as ``ldif.no-colon`` or ``clean.default-number``.
        message: what was found and what was done, in one sentence.
        line: the first line of the entry or of the bad line, from 1; 0 where there are no lines.
        dn: the name of the entry, empty where it is not known.
        attribute: the attribute's name, empty where the finding is on a whole line or entry.
        raw: the text as it was published.

    >>> print(Issue("clean.default-number", "a default", 7, "o=grid", "Jobs", "444444"))
    line 7: clean.default-number: a default: Jobs='444444' in o=grid
    """

    rule: str
    message: str
    line: int = 0
    dn: str = ""
    attribute: str = ""
    raw: str = ""

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
