"""Local matchmaking: which worker nodes of a queue may run a job.

The same matchmaker as the broker's, on the ads of hosts. Describing the nodes of a batch system is
in ``batch``; taking the queue's facts out of a requirement first is in ``reduction``.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Final

from matchmaker.classad import ClassAd, Expr, parse_expr
from matchmaker.classad.ad import HOST_NAMES, an_ad, first_text
from matchmaker.classad.evaluate import charged
from matchmaker.classad.nodes import TRUE
from matchmaker.matching.pair import REQUIREMENTS
from matchmaker.matching.selection import Selection, select

AVAILABLE: Final = "TARGET.Available isnt false"
"""The node takes jobs, or does not say whether it does."""


@charged
def choose(
    job: ClassAd,
    worker_nodes: Iterable[ClassAd],
    requirements: Expr | None = None,
    tie: random.Random | None = None,
) -> Selection:
    """Choose worker nodes: those that match the job both ways, best rank first.

    ``requirements`` replaces the job's own: the residual of a reduction. A node whose ``Available``
    is false takes no jobs now and is refused. A rank that is not a number counts as 0, as in
    HTCondor: a rank of queues says nothing of hosts. Nodes of equal rank go by name, or by chance
    where ``tie`` is given.

    >>> from matchmaker import parse_ad, parse_ads, parse_expr
    >>> nodes = parse_ads('[ Name = "wn1"; SI00 = 400 ] [ Name = "wn2"; SI00 = 620 ]')
    >>> [n.name for n in choose(parse_ad("[]"), nodes, parse_expr("other.SI00 > 500")).ranked]
    ['wn2']
    """
    wanted = requirements if requirements is not None else an_ad(job).get(REQUIREMENTS, TRUE)
    job = job.copy()
    job[REQUIREMENTS] = wanted
    conditions = (parse_expr(AVAILABLE),)
    return select(job, named(worker_nodes), default_rank=0.0, tie=tie, conditions=conditions)


@charged
def in_queue(worker_nodes: Iterable[ClassAd], queue: str) -> list[ClassAd]:
    """Keep the nodes to which a queue may send jobs.

    Args:
        worker_nodes: ads of nodes. ``Queues`` lists the queues of a node by their names in the
            batch system, as ``classad nodes --write`` records them. A node without the list may be
            of any queue.
        queue: the name of the queue in the batch system.

    >>> from matchmaker import parse_ads
    >>> nodes = parse_ads('[ Name = "a"; Queues = { "gpu" } ] [ Name = "b"; Queues = { "main" } ]')
    >>> [ad.eval("Name") for ad in in_queue(nodes, "gpu")]
    ['a']
    """
    return [ad for ad in worker_nodes if (listed := queues_of(ad)) is None or queue in listed]


def queues_of(worker_node: ClassAd) -> tuple[str, ...] | None:
    """Return the names of a node's queues; None if its ad has no list of them."""
    listed = worker_node.eval("Queues")
    if not isinstance(listed, list):
        return None
    return tuple(name for name in listed if isinstance(name, str))


@charged
def policies_of(worker_nodes: Iterable[ClassAd]) -> dict[str, ClassAd]:
    """Return the policy of each queue that worker nodes tell of, by the name of the queue.

    The first node that has a policy for a queue counts.

    >>> from matchmaker import parse_ads
    >>> nodes = parse_ads('[ QueueAds = { [ Name = "gpu"; MaxCpusPerNode = 4 ] } ]')
    >>> policies_of(nodes)["gpu"].eval("MaxCpusPerNode")
    4
    """
    found: dict[str, ClassAd] = {}
    for node in worker_nodes:
        listed = node.eval("QueueAds")
        for ad in listed if isinstance(listed, list) else ():
            if isinstance(ad, ClassAd) and isinstance(name := ad.eval("Name"), str):
                found.setdefault(name, ad)
    return found


@charged
def with_policy(queue: ClassAd, policy: ClassAd | None) -> ClassAd:
    """Return the ad of a queue with what another ad says of its policy, beside what it says itself.

    >>> with_policy(ClassAd(QueueName="gpu"), ClassAd(QueueName="x", MaxCpusPerNode=4)).to_dict()
    {'QueueName': 'gpu', 'MaxCpusPerNode': 4}
    """
    if policy is None or all(attribute in queue for attribute in policy):
        return queue
    found = queue.copy()
    for attribute in policy:
        if attribute not in queue:
            found[attribute] = policy.eval(attribute)
    return found


def named(worker_nodes: Iterable[ClassAd]) -> Iterator[tuple[str, ClassAd]]:
    """Each node with the name that it goes by; a node without one is ``node 3`` for the third."""
    for number, ad in enumerate(worker_nodes, 1):
        yield first_text(ad, HOST_NAMES) or f"node {number}", ad
