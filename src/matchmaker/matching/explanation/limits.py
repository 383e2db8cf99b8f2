"""Bounds of an explanation: ads come from strangers, and people read it.

What matching with a pool may take is in ``matching.limits``.
"""

from __future__ import annotations

from typing import Final

import attrs

from matchmaker.classad.limits import limit


@attrs.frozen(slots=True)
class Limits:
    """What one explanation may look at, try and report at most."""

    clauses: int = limit(256, "clauses of a job, followed through names")
    conflict: int = limit(4, "clauses of one conflict")
    conflict_work: int = limit(100_000_000, "combinations of clauses that are compared with slots"
                               " to find conflicts")  # fmt: skip
    conflicts: int = limit(100, "conflicts that are found")
    groups: int = limit(64, "distinct requirements of slots, or definitions of a name, that are"
                        " counted apart, the most frequent first")  # fmt: skip
    comparisons: int = limit(64, "comparisons that may be changed")
    attributes: int = limit(8, "attributes of the job in one comparison that may be changed")
    listed: int = limit(4096, "slots whose lists of ads are looked at for a clause that asks their"
                        " elements for conditions")  # fmt: skip
    elements: int = limit(32, "elements of a list that are shown of one slot")
    terms: int = limit(64, "terms of a sum in a comparison")
    changed: int = limit(64, "clauses that one change may affect")
    tried: int = limit(12, "changes that are tried, those first that promise most")
    tried_anywhere: int = limit(6, "changes that are tried if a clause of the job may depend on"
                                " any attribute")  # fmt: skip
    suggestions: int = limit(8, "suggestions")
    lasting: int = limit(3, "suggestions for machines whose jobs have ended")
    levers: int = limit(8, "attributes of the job that may be changed together")
    shared: int = limit(4, "clauses of the job that rest on such an attribute, of which some may be"
                        " dropped")  # fmt: skip
    choices: int = limit(4, "strings and truths that are tried for such an attribute")
    joint: int = limit(4096, "choices of attributes to change together")
    joint_work: int = limit(20_000_000, "clauses that are looked at, in all patterns of slots, to"
                            " find the smallest set of changes")  # fmt: skip
    notes: int = limit(8, "notes; how many more there are is said")
    followed: int = limit(16, "definitions in the job that are searched for missing names")
    layouts: int = limit(4096, "orders of attributes of slots whose names are looked at for similar"
                         " ones")  # fmt: skip
    names: int = limit(4096, "attributes among which similar names are looked for")
    deep: int = limit(8, "how deep names are followed in an explanation of one pair")
    stages: int = limit(30, "clauses in the picture; of more, only those that exclude something")
    shown: int = limit(20, "clauses of slots that are shown to people; the data holds all")


LIMITS: Final = Limits()
