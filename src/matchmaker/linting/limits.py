"""What the linter may try for one text: its time is to be linear in the text's length."""

from __future__ import annotations

from typing import Final

import attrs

from matchmaker.classad.limits import limit


@attrs.frozen(slots=True)
class Limits:
    """What one text may take at most. Each field says what it bounds."""

    names: int = limit(200_000, "comparisons of names, after which nothing is suggested")
    mended: int = limit(20, "syntax errors that are reported in one ad or expression")
    circles: int = limit(20, "circles of attributes that are reported in one ad")
    bounds: int = limit(60, "bounds of one attribute in a chain that are compared in pairs")
    pattern: int = limit(1_000, "size of a regular expression that is tried")
    fixed: int = limit(1_024, "characters of a text in which it is tried whether a fix needs"
                       " parentheses")  # fmt: skip


LIMITS: Final = Limits()
