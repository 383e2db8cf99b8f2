"""What goes wrong with shards: what is in one, or what it runs on."""

from __future__ import annotations


class ShardError(ValueError):
    """A shard that holds what no pool may hold, or cannot be read; the message names it."""


class ClusterError(OSError):
    """A cluster that cannot answer: lost, too slow, of another version. The message says what."""
