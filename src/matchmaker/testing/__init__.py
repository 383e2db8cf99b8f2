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

from matchmaker import batch, broker, glue, nodes, pilots
from matchmaker.classad import ClassAd, ParseError, parse_ad, parse_ads
from matchmaker.classad.formats import FORMATS, dumps
from matchmaker.classad.trace import trace
from matchmaker.linting import lint
from matchmaker.matching.assignment import Policy
from matchmaker.matching.pair import match
from matchmaker.matching.pool import Pool
from matchmaker.reduction import reduce
from matchmaker.testing.policies import ranks, requirements
from matchmaker.testing.resources import (
    FAULTS,
    JOB,
    MACHINE,
    QUEUE,
    Pair,
    ads,
    jobs,
    machines,
    pairs,
    queues,
    spoiled,
)
from matchmaker.testing.trees import (
    NAMES,
    Attributes,
    boolean_expressions,
    exceptional,
    expressions,
    integers,
    names,
    number_expressions,
    plain_values,
    reals,
    references,
    text_expressions,
    texts,
    times,
    values,
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


def _load() -> None:
    """Asks each question of the library once."""
    job = parse_ad("""[ Owner = "a"; RequestCpus = 1; RequestMemory = 1; Rank = TARGET.Cpus;
        Requirements = TARGET.Cpus >= 1 && regexp("a", TARGET.Name) && TARGET.Memory > 1 ]""")
    slot = parse_ad('[ Name = "a"; Cpus = 2; Memory = 1; Requirements = TARGET.Owner == "a" ]')
    match(job, slot)
    _print_all(job)
    trace("TARGET.Cpus * 2 > 1", job, slot)
    lint(job, targets=[slot])
    pool = Pool([slot])
    pool.top(job, 1)
    pool.assign([job], Policy())
    for asked in (pool.explain(job), pool.explain_pair(job, "a")):
        asked.html()
        str(asked)
    _of_queues(job)


def _print_all(ad: ClassAd) -> None:
    """Writes an ad in every format and reads it; reads a text that is none."""
    for format_ in FORMATS:
        parse_ad(dumps(ad, format_), format_)
    try:
        list(parse_ads("[ a = ( ]"))
    except ParseError as error:
        str(error)


def _of_queues(job: ClassAd) -> None:
    """Choose a queue and a node, reduce a requirement, and decide on pilots."""
    queue = parse_ad('[ CEid = "a"; LRMSType = "slurm"; GlueCEStateFreeCPUs = 1 ]')
    broker.choose(job, [queue], rules=broker.Rules(admission=()))
    node = parse_ad('[ Name = "a"; GlueHostMainMemoryRAMSize = 2 ]')
    nodes.choose(job, [node])
    asking = parse_ad("[ Requirements = other.GlueHostMainMemoryRAMSize >= 1 ]")
    reduction = reduce(asking, queue, glue.scope)
    reduction.explain()
    batch.flags(reduction, lrms="slurm", inventory=[node])
    pilots.decide(pilots.PilotSnapshot(now=0, demand=(), queues=()))


# What is loaded on first use would count against the deadline of somebody's first test.
_load()
