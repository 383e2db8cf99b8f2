"""Pilots that share a bucket of a real S3 server: moto's, in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from matchmaker.pilots.store.protocol import StoreError, UnsureError
from matchmaker.pilots.store.remote import bucket
from matchmaker.pilots.store.worker import plan_of
from tests.cli.conftest import COMMAND
from tests.services.daemons import START_SECONDS, free_port
from tests.services.test_remote_stores import run, tasks_on

pytestmark = [pytest.mark.service, pytest.mark.slow]

MOTO = Path(__file__).resolve().parents[2] / ".peers" / "moto" / "bin" / "moto_server"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "store"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of an S3 server that has begun."""
    if not MOTO.exists():
        pytest.skip("moto's server is not there (`make .peers/moto` installs it)")
    port = free_port()
    with subprocess.Popen(
        [MOTO, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            yield _waited(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()


def _waited(url: str) -> str:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            with urlopen(url, timeout=5):  # noqa: S310 - our own server
                return url
        except (URLError, OSError):
            if time.monotonic() > end:
                pytest.skip("moto's server does not begin")
            time.sleep(0.1)


@pytest.fixture
def pool(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The URL of a store in a new bucket."""
    settings = {
        "AWS_ENDPOINT_URL": server, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true",
    }  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    name = f"pool{os.getpid()}-{tmp_path.name.strip('_').replace('_', '-')}".lower()[:60]
    with urlopen(Request(f"{server}/{name}", method="PUT"), timeout=10):  # noqa: S310
        pass
    store = bucket(f"s3://{name}/sweep")
    for path in EXAMPLE.rglob("*"):
        if path.is_file() and not path.name.startswith("votes6"):
            text = path.read_bytes().replace(b"ttl = 60", b"ttl = 5\nagain = 5")
            assert store.create(str(path.relative_to(EXAMPLE)), text)
    return store.url


def test_pilots_share_a_bucket_and_one_is_killed(pool: str, tmp_path: Path) -> None:
    def pilot(number: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, "pilot", "--store", pool, "--json", "--dir", str(tmp_path / str(number))],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    pilots = [pilot(number) for number in range(4)]
    store = bucket(pool)
    while not any(each.name.startswith("votes6") for each in store.listing("shuf2296.arff") or ()):
        time.sleep(0.05)
    pilots[0].kill()
    said = [each.communicate(timeout=120) for each in pilots]
    told = [json.loads(out) for out, _ in said[1:]]
    assert [each.returncode for each in pilots[1:]] == [0, 0, 0], said
    assert {each["ended"] for each in told} == {"all is done"}
    plan = plan_of(store)
    for input_ in ("shuf1148.arff", "shuf2296.arff"):
        names = {entry.name for entry in store.listing(input_) or ()}
        assert set(plan.results) <= names
        result = store.read(f"work/{input_}/votes80.txt") or b""
        number = 1 if input_ == "shuf1148.arff" else 6
        assert result.startswith(b"%d %d\n" % (number, number * 80 % 7))
    assert (store.inputs(), len(store.inputs(finished=True))) == ([], 2)
    assert sum(each["duplicates"] for each in told) <= 4
    shown = subprocess.run(
        [*COMMAND, "store", "status", pool], capture_output=True, text=True, check=False
    )
    assert (shown.returncode, shown.stdout.splitlines()[-1][:17]) == (0, "40 of 40 results;")


def test_of_many_that_put_a_claim_one_has_it(pool: str) -> None:
    store = bucket(pool)

    def create(number: int) -> bool:
        for _ in range(20):
            try:
                return store.create("work/shuf1148.arff/active90", b"pilot %d" % number)
            except UnsureError:
                time.sleep(0.05)
        raise AssertionError("the server never answers")

    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(create, range(24)))
    assert made.count(True) == 1
    assert store.read("work/shuf1148.arff/active90") == b"pilot %d" % made.index(True)


def test_what_cannot_be_run_is_said(pool: str, tmp_path: Path) -> None:
    store = bucket(f"{pool}/odd")
    assert store.create(
        "plan.toml", b'command = ["touch", "votes{parameter}.txt"]\nparameters = "1"'
    )
    for path in ("good/data", "good/", "my data/x", "deep/sub/x", "README"):
        assert store.create(f"work/{path}", b"x")
    done = run("pilot", "--store", store.url, "--dir", tmp_path / "node")
    assert (done.returncode, "all else is done; 1 stored" in done.stdout) == (1, True), done.stderr
    assert {line.removeprefix("classad: ") for line in done.stderr.splitlines()} == {
        "work/my data is left out: rename it; an input's name has letters, digits, _ . + - only",
        "work/deep is left out: sub is a folder; it may hold plain files only",
        "work/README is left out: it is a file; an input is a folder",
    }


def test_a_list_of_tasks_is_put_there_and_done(pool: str, tmp_path: Path) -> None:
    tasks_on(f"{pool}/list", tmp_path)
    assert bucket(f"{pool}/list").read("work/tasks/3.out") == b"3\n"


def test_what_is_refused_is_said(pool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises((StoreError, UnsureError), match="NoSuchBucket"):
        bucket("s3://there-is-none/x").inputs()
    done = subprocess.run(
        [*COMMAND, "store", "status", f"{pool}/elsewhere"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no plan.toml" in done.stderr
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    done = subprocess.run(
        [*COMMAND, "store", "status", pool], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
