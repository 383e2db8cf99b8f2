"""A pool over several machines: its slots in shards, on the workers of Dask (extra ``shards``).

``Shards`` has the interface of a ``Pool``, and gives the same matches, ranks and assignments as one
pool of all slots. ``shard`` is the data on a worker, ``questions`` are the functions that run
there; ``merge`` and ``supply`` combine the answers. Dask does the scheduling.
"""

from matchmaker.shards.cluster import ClusterError, ShardError
from matchmaker.shards.shards import Across, Shards

__all__ = ["Across", "ClusterError", "ShardError", "Shards"]
