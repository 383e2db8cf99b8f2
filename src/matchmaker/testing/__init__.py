"""Hypothesis strategies for values, expressions, ads, and jobs and machines that meet.

For the property tests of those who write policies: START expressions, ranks, brokers. Needs
Hypothesis, which the extra ``testing`` brings; nothing else of the library imports this.

>>> from hypothesis import given
>>> from matchmaker import match, testing
>>> @given(testing.pairs(matching=1))
... def test_a_match_is_mutual(pair):
...     assert match(pair.job, pair.machine).left is match(pair.machine, pair.job).right is True
>>> test_a_match_is_mutual()
"""

try:
    import hypothesis as _hypothesis  # noqa: F401 - to say what is missing before anything else
except ImportError as error:
    raise ImportError(
        "matchmaker.testing needs Hypothesis: pip install 'classad-matchmaker[testing]'",
        name="hypothesis",
    ) from error

from matchmaker.testing import first_use as _first_use
from matchmaker.testing.pairing import Pair, pairs
from matchmaker.testing.plain import (
    NAMES,
    exceptional,
    integers,
    names,
    plain_values,
    reals,
    texts,
    times,
    values,
)
from matchmaker.testing.policies import ranks, requirements
from matchmaker.testing.resources import (
    FAULTS,
    JOB,
    MACHINE,
    QUEUE,
    ads,
    jobs,
    machines,
    queues,
    spoiled,
)
from matchmaker.testing.trees import (
    Attributes,
    boolean_expressions,
    expressions,
    number_expressions,
    references,
    text_expressions,
)

__all__ = [
    "FAULTS",
    "JOB",
    "MACHINE",
    "NAMES",
    "QUEUE",
    "Attributes",
    "Pair",
    "ads",
    "boolean_expressions",
    "exceptional",
    "expressions",
    "integers",
    "jobs",
    "machines",
    "names",
    "number_expressions",
    "pairs",
    "plain_values",
    "queues",
    "ranks",
    "reals",
    "references",
    "requirements",
    "spoiled",
    "text_expressions",
    "texts",
    "times",
    "values",
]

# What is loaded on first use would count against the deadline of somebody's first test.
_first_use.load()
