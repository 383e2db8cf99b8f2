"""One record for a fault in an input: by which rule, how bad, where, and in which text.

Readers, cleaning rules, the linter and checks of mappings all give it. Which rules there are, and
how bad each is, is for the part that has them.
"""

from __future__ import annotations

from typing import Final

import attrs

ERROR: Final = "error"
WARNING: Final = "warning"
NOTE: Final = "note"

LEVELS: Final = {ERROR: "E", WARNING: "W", NOTE: "I"}
"""The severities as glue-validator codes them."""


@attrs.frozen(slots=True)
class Diagnostic:
    """A fault, and where it is.

    Attributes:
        rule: the id of the rule, such as ``ldif.no-colon``; it stays from release to release.
        message: what was found, and what was done or is to do, in one sentence.
        line: the line, from 1, of the fault or of the entry that has it; 0 where there are none.
        dn: the name of the entry, empty where it is not known.
        attribute: the attribute's name, empty where the fault is in a whole line or entry.
        raw: the text as it was published, cut where it is long; the whole of it from the linter.
        count: how many faults it stands for; more than one where those beyond a limit were only
            counted.
        severity: ``error`` (something is lost or of no use, or can only fail), ``warning`` (a value
            is set aside or doubted, or probably not meant) or ``note`` (a value is only put into
            its usual form, or something is worth knowing).
        source: where the text came from, such as a file's name; the linter gives it, and what
            describes a batch system.
        column: of the first character of `raw`, from 1, in characters.
        end_line: of the place after its last character.
        end_column: of the place after its last character.
        fix: what to put instead of `raw`, or empty where no one thing is right.

    >>> print(Diagnostic("clean.default-number", "a default", 7, "o=grid", "Jobs", "444444"))
    line 7: clean.default-number: a default: Jobs='444444' in o=grid
    """

    rule: str
    message: str
    line: int = 0
    dn: str = ""
    attribute: str = ""
    raw: str = ""
    count: int = 1
    severity: str = WARNING
    source: str = ""
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    fix: str = ""

    @property
    def level(self) -> str:
        """E, W or I, by `LEVELS`.

        >>> Diagnostic("link.dangling", "the key leads nowhere", severity=ERROR).level
        'E'
        """
        return LEVELS[self.severity]

    @property
    def partial(self) -> bool:
        """Whether the source was not read to its end, or has a part elsewhere.

        >>> Diagnostic("ldap.partial", "the answer is not whole").partial
        True
        """
        return self.rule.endswith((".partial", ".referral"))

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        text = f"{where}{self.rule}: {self.message}"
        if self.attribute:
            text += f": {self.attribute}={self.raw!r}"
        elif self.raw:
            text += f": {self.raw!r}"
        return f"{text} in {self.dn}" if self.dn else text
