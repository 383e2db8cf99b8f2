"""Shards on a cluster with certificates: answers as ever, and none for who has no certificate."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from distributed import Client
from distributed.security import Security

from matchmaker import Pool, Shards
from matchmaker.shards import ClusterError
from matchmaker.shards.cluster import DaskCluster
from tests.services.slapd import Certificate, make_certificate
from tests.shards.inline import written
from tests.shards.test_shards import jobs, slots


def security(own: Certificate, trusted: Certificate) -> Security:
    files = {"tls_ca_file": str(trusted.certificate), "require_encryption": True}
    for role in ("client", "scheduler", "worker"):
        files |= {f"tls_{role}_cert": str(own.certificate), f"tls_{role}_key": str(own.key)}
    return Security(**files)


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [str(Path(sys.executable).with_name("dask")), *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def cluster(folder: Path, own: Certificate) -> Iterator[str]:
    """The commands of docs/scale.md, on free ports of loopback."""
    tls = (
        *("--tls-ca-file", str(own.certificate), "--tls-cert", str(own.certificate)),
        *("--tls-key", str(own.key), "--no-dashboard", "--host", "127.0.0.1"),
    )
    said = str(folder / "scheduler.json")
    with running(
        *("scheduler", "--protocol", "tls", "--port", "0", "--scheduler-file", said), *tls
    ) as scheduler:
        while not Path(said).exists():
            assert scheduler.poll() is None
            time.sleep(0.05)
        address = json.loads(Path(said).read_text())["address"]
        with running("worker", address, "--nthreads", "1", *tls):
            yield address


def test_a_cluster_with_certificates_answers_who_has_one(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    own, stranger = make_certificate(tmp_path), make_certificate(tmp_path / "theirs")
    pool, many = Pool(slots(30)), jobs(20)
    with cluster(tmp_path, own) as address:
        assert address.startswith("tls://127.0.0.1:")
        with Client(address, security=security(own, own), set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
            with Shards(pool, client, shards=3) as shards:
                assert written(shards.assign(many)) == written(pool.assign(many))
        with pytest.raises(ClusterError, match="no scheduler answers"):
            DaskCluster.at(address.replace("tls://", "tcp://"), 2.0)
        with pytest.raises(OSError):  # noqa: PT011 - whatever Dask says
            Client(address, security=security(stranger, own), set_as_default=False, timeout=3)
