"""Jobs that callers of matching give, whose names hide nothing.

That ads are ads and expressions expressions is checked in ``classad.given``.
"""

from __future__ import annotations

from matchmaker.classad.ad import ClassAd
from matchmaker.classad.operators import ascii_fold
from matchmaker.classad.walks import WORDS


def with_scopes(job: ClassAd) -> ClassAd:
    """The job without attributes named like scopes, for expressions that are not its own.

    In the job's own expressions such a name hides the scope. It must hide no queue from the broker,
    and from the policy of a cycle neither the job's requests nor its owner.

    >>> print(with_scopes(ClassAd(Owner="ada", other=1, My=2)))
    [ Owner = "ada" ]
    """
    if WORDS.isdisjoint(job._held):
        return job
    return ClassAd(
        (name, held) for name, held in job.expressions().items() if ascii_fold(name) not in WORDS
    )
