"""Loads, with the strategies, what the library otherwise loads on its first use.

Hypothesis gives each example of a test 200 ms by default. The first example that makes a pool or
reduces a requirement would need more: its modules, numpy among them, and the tables that they read.
So this module asks every question once, of ads that are small. What only reads files, talks to
servers or hands jobs over is left to its first use.
"""

from __future__ import annotations

from matchmaker import batch, broker, glue, nodes, pilots
from matchmaker.classad import ClassAd, ParseError, parse_ad, parse_ads
from matchmaker.classad.formats import FORMATS, dumps
from matchmaker.classad.trace import trace
from matchmaker.linting import lint
from matchmaker.matching.assignment import Policy
from matchmaker.matching.pair import match
from matchmaker.matching.pool import Pool
from matchmaker.reduction import reduce


def load() -> None:
    """Asks each question of the library once."""
    job = parse_ad("""[ Owner = "a"; RequestCpus = 1; RequestMemory = 1; Rank = TARGET.Cpus;
        Requirements = TARGET.Cpus >= 1 && regexp("a", TARGET.Name) && TARGET.Memory > 1 ]""")
    slot = parse_ad('[ Name = "a"; Cpus = 2; Memory = 1; Requirements = TARGET.Owner == "a" ]')
    match(job, slot)
    print_all(job)
    trace("TARGET.Cpus * 2 > 1", job, slot)
    lint(job, targets=[slot])
    pool = Pool([slot])
    pool.top(job, 1)
    pool.assign([job], Policy())
    for asked in (pool.explain(job), pool.explain_pair(job, "a")):
        asked.html()
        str(asked)
    of_queues(job)


def print_all(ad: ClassAd) -> None:
    """Writes an ad in every format and reads it; reads a text that is none."""
    for format_ in FORMATS:
        parse_ad(dumps(ad, format_), format_)
    try:
        list(parse_ads("[ a = ( ]"))
    except ParseError as error:
        str(error)


def of_queues(job: ClassAd) -> None:
    """Chooses a queue and a node, reduces to what the queue leaves open, and decides on pilots."""
    queue = parse_ad('[ CEid = "a"; LRMSType = "slurm"; GlueCEStateFreeCPUs = 1 ]')
    broker.choose(job, [queue], rules=broker.Rules(admission=()))
    node = parse_ad('[ Name = "a"; GlueHostMainMemoryRAMSize = 2 ]')
    nodes.choose(job, [node])
    asking = parse_ad("[ Requirements = other.GlueHostMainMemoryRAMSize >= 1 ]")
    reduction = reduce(asking, queue, glue.scope)
    reduction.explain()
    batch.flags(reduction, lrms="slurm", inventory=[node])
    pilots.decide(pilots.PilotSnapshot(now=0, demand=(), queues=()))
