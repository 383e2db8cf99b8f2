"""One cluster for all tests of shards: two workers on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from matchmaker.shards.cluster import DaskCluster


@pytest.fixture(scope="package")
def cluster() -> Iterator[DaskCluster]:
    made = DaskCluster.local(2, 60.0)
    yield made
    made.close(with_client=True)


@pytest.fixture
def client(cluster: DaskCluster) -> Any:
    return cluster.client
