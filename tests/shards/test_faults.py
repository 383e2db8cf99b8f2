"""What breaks: the same answer all the same, or a clear error that names what is missing."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from matchmaker import ClassAd, Pool, Shards
from matchmaker.shards import ClusterError, ShardError, questions
from matchmaker.shards import cluster as clusters
from matchmaker.shards.cluster import DaskCluster
from matchmaker.shards.shard import Shard
from tests.shards.inline import written
from tests.shards.test_shards import jobs, slots


def files(folder: Path, pieces: list[list[ClassAd]]) -> list[Path]:
    paths = [folder / f"{number}.arrow" for number in range(len(pieces))]
    for path, ads in zip(paths, pieces, strict=True):
        Pool(ads).save(path)
    return paths


# --- bad input, with the shard named --------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("half.ads", '[ Name = "a"; Cpus = 1 ] [ Name = "b"; Cp', "half.ads"),
        ("keyless.ads", "[ Cpus = 1 ]", "an ad has no Name"),
        ("twice.ads", '[ Name = "a" ] [ Name = "a" ]', "two ads have Name = "),
        ("half.arrow", "ARROW1\0\0 and then nothing", "not a saved pool, or only a part of one"),
        ("half.parquet", "PAR1 and then nothing", "half.parquet"),
    ],
)  # fmt: skip
def test_a_shard_that_no_pool_would_be_is_named(
    client: Any, tmp_path: Path, name: str, content: str, said: str
) -> None:
    good, bad = tmp_path / "good.ads", tmp_path / name
    good.write_text('[ Name = "good" ]')
    bad.write_text(content)
    with pytest.raises(ShardError) as caught:
        Shards([good, bad], client)
    assert said in str(caught.value)
    assert str(bad) in str(caught.value)


def test_a_file_that_is_not_there_is_named(client: Any, tmp_path: Path) -> None:
    with pytest.raises(ShardError, match="No such file") as caught:
        Shards([tmp_path / "gone.arrow"], client)
    assert "gone.arrow" in str(caught.value)


def test_a_key_in_two_shards_is_named_with_both(client: Any, tmp_path: Path) -> None:
    paths = files(tmp_path, [slots(3), [ClassAd(Name="slot1")]])
    with pytest.raises(ShardError) as caught:
        Shards(paths, client)
    for part in (*map(str, paths), "Name = 'slot1'"):
        assert part in str(caught.value)


def test_shards_by_several_keys_are_refused(client: Any, tmp_path: Path) -> None:
    paths = [tmp_path / "a.arrow", tmp_path / "b.arrow"]
    Pool([ClassAd(Name="a")]).save(paths[0])
    Pool([ClassAd(Machine="b")], key="Machine").save(paths[1])
    with pytest.raises(ShardError, match=r"by Name, shard .* by Machine"):
        Shards(paths, client)


@pytest.mark.parametrize("number", [0, 2])
def test_more_shards_than_slots_are_as_one_pool(client: Any, number: int) -> None:
    pool, many = Pool(slots(number)), jobs(3)
    with Shards(pool, client, shards=4) as shards:
        assert len(shards) == number
        assert written(shards.assign(many)) == written(pool.assign(many))
        assert shards.match(many[0]) == pool.match(many[0])
        assert shards.top(many[0], 5) == pool.top(many[0], 5)
        found, expected = shards.explain(many[0]), pool.explain(many[0])
        assert (found.summary(), found.clauses) == (expected.summary(), expected.clauses)


def test_no_shards_and_a_shard_twice_are_refused(client: Any, tmp_path: Path) -> None:
    (path,) = files(tmp_path, [slots(1)])
    with pytest.raises(ShardError, match="no file is given"):
        Shards([], client)
    with pytest.raises(ShardError, match="is given twice"):
        Shards([path, path], client)


# --- updates --------------------------------------------------------------------------------------


def test_an_update_without_a_key_or_of_no_slot_changes_nothing(client: Any) -> None:
    with Shards(Pool(slots(4)), client, shards=2) as shards:
        with pytest.raises(ValueError, match="an ad has no Name"):
            shards.update([ClassAd(Name="new"), ClassAd()])
        with pytest.raises(KeyError, match="gone"):
            shards.update([ClassAd(Name="new")], remove=["gone"])
        with pytest.raises(ValueError, match="two ads of an update"):
            shards.update([ClassAd(Name="new"), ClassAd(Name="new")])
        assert (shards.epoch, len(shards), "new" in shards) == (0, 4, False)


def test_an_update_that_is_lost_on_the_way_is_an_error(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Shards(Pool(slots(4)), client, shards=2) as shards:
        submit = client.submit

        def losing(function: Any, *args: Any, **options: Any) -> Any:
            if function.__name__ == "changed":
                return args[0]
            return submit(function, *args, **options)

        monkeypatch.setattr(client, "submit", losing)
        with pytest.raises(ShardError, match="an update was lost on the way"):
            shards.update(ClassAd(Name="slot1", Cpus=100))
        monkeypatch.undo()
        assert shards.epoch == 0
        assert shards["slot1"] == slots(4)[1]
        shards.update(ClassAd(Name="slot1", Cpus=100))
        assert shards["slot1"].eval("Cpus") == 100


# --- versions -------------------------------------------------------------------------------------


def test_another_version_is_refused(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "VERSION", "99.0")
    with pytest.raises(ClusterError, match=r"worker tcp://.* has matchmaker .*, and here is 99\.0"):
        Shards(Pool(slots(2)), client)


# --- lost workers, and slow ones ------------------------------------------------------------------


@pytest.fixture
def fragile() -> Iterator[DaskCluster]:
    """A cluster that may break."""
    made = DaskCluster.local(2, 60.0)
    yield made
    made.close(with_client=True)


def die_once(shard: Shard, *args: Any) -> Any:
    """Ends the worker at the first question, and answers the next."""
    mark = Path(args[-1])
    if not mark.exists():
        mark.write_text("was here")
        os.kill(os.getpid(), signal.SIGKILL)
    return questions.stamp(shard)


def test_a_worker_that_dies_changes_no_answer(fragile: DaskCluster, tmp_path: Path) -> None:
    pool, many = Pool(slots(60)), jobs(40)
    expected = written(pool.assign(many))
    paths = files(tmp_path, [list(pool)[:20], list(pool)[20:40], list(pool)[40:]])
    with Shards(paths, fragile.client) as shards:
        shards.update(pool["slot3"])
        pids = list(fragile.client.run(os.getpid).values())
        # While it is asked: at whatever task of the cycle it is.
        for number in range(2):
            killer = threading.Timer(
                0.03 * (1 + 2 * number), os.kill, (pids[number], signal.SIGKILL)
            )
            killer.start()
            assert written(shards.assign(many)) == expected
            killer.join()
            fragile.client.wait_for_workers(2, timeout=60)
        # And at a question, surely.
        named = shards.snapshot().shards
        mark = str(tmp_path / "mark")
        assert fragile.ask(named[:1], die_once, [(mark,)]) == fragile.ask(
            named[:1], questions.stamp, [()]
        )
        assert written(shards.assign(many)) == expected


def fatal_once(mark: str, function: Callable[..., Any], *args: Any) -> Any:
    """Ends the worker when it is first called, and then does what was asked."""
    if not Path(mark).exists():
        Path(mark).write_text("was here")
        os.kill(os.getpid(), signal.SIGKILL)
    return function(*args)


def test_a_worker_that_dies_at_any_task_changes_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One task after the other; the first few, unless SHARD_KILLS says how many."""
    pool, many = Pool(slots(60)), jobs(40)
    pool.update(ClassAd(Name="slot3", Cpus=7, Memory=9000, KFlops=60))
    expected = written(pool.assign(many))
    paths = files(tmp_path, [slots(60)[:20], slots(60)[20:40], slots(60)[40:]])
    submit = DaskCluster.submit
    asked = fatal = 0

    def submitted(
        self: DaskCluster, function: Callable[..., Any], *args: Any, **options: Any
    ) -> Any:
        nonlocal asked
        asked += 1
        if asked == fatal:
            return submit(self, fatal_once, str(tmp_path / f"{fatal}"), function, *args, **options)
        return submit(self, function, *args, **options)

    monkeypatch.setattr(DaskCluster, "submit", submitted)
    most = int(os.environ.get("SHARD_KILLS", "3"))
    step = 1 if most > 3 else 9
    for fatal in range(1, 1 + most * step, step):
        asked = 0
        # New workers each time: Dask does not start each worker again that is killed early.
        with Shards(paths, workers=2) as shards:
            shards.update(pool["slot3"])
            assert written(shards.assign(many)) == expected
        assert (tmp_path / f"{fatal}").exists() == (fatal <= asked)
        if fatal > asked:
            break
    else:
        assert asked > 9


def test_a_damaged_file_is_named_when_its_shard_must_be_made_again(
    fragile: DaskCluster, tmp_path: Path
) -> None:
    paths = files(tmp_path, [slots(6)[:3], slots(6)[3:]])
    with Shards(paths, fragile.client) as shards:
        paths[1].write_bytes(b"ARROW1\0\0")
        fragile.client.restart_workers(list(fragile.client.scheduler_info()["workers"]))
        with pytest.raises((ShardError, ClusterError)) as caught:
            shards.match(jobs(1)[0])
        assert str(paths[1]) in str(caught.value)


def slow(shard: Shard) -> None:
    del shard
    time.sleep(3)


def greedy(shard: Shard) -> None:
    raise MemoryError(f"of {shard.name}")


def test_a_worker_that_is_too_slow_or_full_is_said(client: Any) -> None:
    with Shards(Pool(slots(4)), client, shards=2) as shards:
        named = shards.snapshot().shards
        with pytest.raises(ClusterError, match=r"shard 1 of 2: no answer in 0\.5 s"):
            DaskCluster(client, 0.5).ask(named, slow, [()] * 2)
        with pytest.raises(ClusterError, match="shard 1 of 2: too little memory"):
            DaskCluster(client, 60).ask(named, greedy, [()] * 2)


def deadly(shard: Shard) -> None:
    del shard
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_question_that_ends_every_worker_ends(fragile: DaskCluster) -> None:
    with Shards(Pool(slots(4)), fragile.client, shards=1) as shards:
        named = shards.snapshot().shards
        with pytest.raises(ClusterError, match="every worker that tried was lost"):
            fragile.ask(named, deadly, [()])


def test_a_lost_scheduler_is_said(fragile: DaskCluster) -> None:
    client = fragile.client
    shards = Shards(Pool(slots(4)), client, shards=2)
    fragile.ours.close()
    with pytest.raises(ClusterError, match="lost"):
        DaskCluster(client, 5).ask(shards.snapshot().shards, questions.stamp, [()] * 2)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("nonsense", r"'nonsense' is no tcp://HOST:PORT or tls://HOST:PORT: missing port"),
        ("", "missing port"),
        ("foo://x:1", "unknown address scheme"),
        ("ws://127.0.0.1:1", "is no tcp://HOST:PORT"),
        ("ucx://127.0.0.1:1", "is no tcp://HOST:PORT"),
        ("tls://127.0.0.1:1", "tls://127.0.0.1:1 needs a certificate"),
    ],
)
def test_an_address_that_is_none_is_said_at_once(
    address: str, said: str, recwarn: pytest.WarningsRecorder
) -> None:
    with pytest.raises(ClusterError, match=said):
        DaskCluster.at(address, 1.0)
    gc.collect()
    assert not recwarn.list


def test_no_scheduler_is_said() -> None:
    with pytest.raises(ClusterError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9"):
        DaskCluster.at("tcp://127.0.0.1:9", 1.0)
