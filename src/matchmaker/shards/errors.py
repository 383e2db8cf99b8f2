"""The errors of shards: in the data of a shard, or in the cluster."""

from __future__ import annotations


class ShardError(ValueError):
    """A shard that holds what no pool may hold, or cannot be read; the message names it."""


class ClusterError(OSError):
    """A cluster that cannot answer: lost, too slow, of another version. The message says what."""
