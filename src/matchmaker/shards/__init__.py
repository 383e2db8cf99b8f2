"""A pool over several machines: its slots in shards, on the workers of Dask (extra ``shards``).

``Shards`` has the interface of a ``Pool``: the same matches, ranks and assignments as one pool of
all slots. ``shard`` is what a worker holds and ``questions`` what it is asked, ``merge`` and
``supply`` put answers together; nothing of a scheduler is here.
"""

from matchmaker.shards.across import Across
from matchmaker.shards.errors import ClusterError, ShardError
from matchmaker.shards.shards import Shards

__all__ = ["Across", "ClusterError", "ShardError", "Shards"]
