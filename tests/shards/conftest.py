"""One cluster for all tests of shards: two workers on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from matchmaker.shards.cluster import Cluster


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    made = Cluster.local(2, 60.0)
    yield made
    made.close(with_client=True)


@pytest.fixture
def client(cluster: Cluster) -> Any:
    return cluster.client
