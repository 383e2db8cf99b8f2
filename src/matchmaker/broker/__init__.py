"""Global matchmaking: from a job and descriptions of queues to a queue, its nodes and submit flags.

``choosing`` filters and ranks queues, ``sources`` merges descriptions of queues, and ``routing``
goes on from the chosen queue to worker nodes and flags.
"""

from matchmaker.broker.choosing import (
    ADMISSION,
    AUTHORISED,
    DEFAULT_RANK,
    DEFAULT_REQUIREMENTS,
    FREE_SLOTS,
    NO_DOWNTIME,
    NOT_DENIED,
    NOT_FULL,
    SHORT_ENOUGH,
    SMALL_ENOUGH,
    TAKES_JOBS,
    UNKNOWN_RANK,
    Choice,
    Rules,
    choose,
    choose_many,
    pool,
)
from matchmaker.broker.routing import Hosts, Route, grid_lines, route
from matchmaker.broker.sources import Queue, Queues, merged, named, of_nodes

__all__ = [
    "ADMISSION",
    "AUTHORISED",
    "DEFAULT_RANK",
    "DEFAULT_REQUIREMENTS",
    "FREE_SLOTS",
    "NOT_DENIED",
    "NOT_FULL",
    "NO_DOWNTIME",
    "SHORT_ENOUGH",
    "SMALL_ENOUGH",
    "TAKES_JOBS",
    "UNKNOWN_RANK",
    "Choice",
    "Hosts",
    "Queue",
    "Queues",
    "Route",
    "Rules",
    "choose",
    "choose_many",
    "grid_lines",
    "merged",
    "named",
    "of_nodes",
    "pool",
    "route",
]
