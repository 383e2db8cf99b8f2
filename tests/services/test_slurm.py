from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import pytest

from tests.services.slurm import SlurmNode, SlurmOracle, UsageError, cluster

pytestmark = pytest.mark.service

SMALL = SlurmNode("n1", cpus=2, memory_mb=1000, tmp_mb=1000, features=("el8", "si300"))
LARGE = SlurmNode("n2", cpus=8, memory_mb=8000, tmp_mb=9000, features=("el9", "si600"))
PLAIN = SlurmNode("n3", cpus=8, memory_mb=4000, gres="gpu:a100:2")


@pytest.fixture
def oracle(slurm: Callable[[Iterable[SlurmNode]], SlurmOracle]) -> SlurmOracle:
    return slurm([SMALL, LARGE, PLAIN])


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], {"n1", "n2", "n3"}),
        (["--mem=1000M"], {"n1", "n2", "n3"}),
        (["--mem=1001M"], {"n2", "n3"}),
        (["--mem=8001M"], set()),
        (["--mincpus=2"], {"n1", "n2", "n3"}),
        (["--mincpus=3"], {"n2", "n3"}),
        (["-c", "9"], set()),
        (["-n", "4"], {"n2", "n3"}),
        (["--tmp=1001M"], {"n2"}),
        (["-C", "el8"], {"n1"}),
        (["-C", "el8|el9"], {"n1", "n2"}),
        (["-C", "(el8|el9)&si600"], {"n2"}),
        (["-C", "el8&si600"], set()),
        (["--gres=gpu:a100:2"], {"n3"}),
        (["--gres=gpu:3"], set()),
        (["-x", "n1"], {"n2", "n3"}),
        (["-x", "n[1-2]"], {"n3"}),
        (["-x", "n1,n2,n3"], set()),
        (["-x", "n2", "--mem=1001M", "--mincpus=4"], {"n3"}),
    ],
)
def test_selected_nodes(oracle: SlurmOracle, argv: list[str], expected: set[str]) -> None:
    assert oracle.selected(argv) == expected


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["-C", "el7"], "Invalid feature specification"),
        (["-C", "!el8"], "Invalid feature specification"),
        (["--mem=much"], "Invalid --mem specification"),
        (["--no-such-option"], "unrecognized option"),
        (["-x", "n9"], "Invalid node name specified"),
        (["-x", "n1,n9"], "Invalid node name specified"),
        (["--gres=fpga:1"], "Invalid generic resource"),
    ],
)
def test_wrong_options_are_not_a_no(oracle: SlurmOracle, argv: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        oracle.accepts("n1", argv)


def test_job_stays_on_the_one_node_asked_for(oracle: SlurmOracle) -> None:
    # Twelve tasks fit on n2 and n3 together; the oracle must not say yes for either.
    assert oracle.selected(["-n", "12"]) == set()


@pytest.mark.parametrize("argv", [["-w", "n2"], ["-wn2"], ["--nodelist=n2"], ["-F", "hosts"]])
def test_options_that_choose_hosts_are_refused(oracle: SlurmOracle, argv: list[str]) -> None:
    with pytest.raises(ValueError, match="chooses the node itself"):
        oracle.accepts("n1", argv)


def test_unknown_node_is_refused(oracle: SlurmOracle) -> None:
    with pytest.raises(ValueError, match="no node 'n9'"):
        oracle.accepts("n9", [])


def test_options_of_the_caller_in_the_environment_do_not_count(
    oracle: SlurmOracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBATCH_CONSTRAINT", "el8")
    assert oracle.selected([]) == {"n1", "n2", "n3"}


def test_same_nodes_share_a_controller(
    slurm: Callable[[Iterable[SlurmNode]], SlurmOracle], oracle: SlurmOracle
) -> None:
    assert slurm([SMALL, LARGE, PLAIN]) is oracle


def test_nothing_is_left_behind(oracle: SlurmOracle) -> None:
    # The fixture has shown that Slurm starts here; this one is ours to watch.
    with cluster([SMALL]) as own:
        assert own.folder != oracle.folder
        assert own.selected([]) == {"n1"}
        daemons = [own.folder / "slurmctld.pid", own.folder / "munge" / "pid"]
        pids = [int(file.read_text()) for file in daemons]
    assert not own.folder.exists()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert oracle.selected([]) == {"n1", "n2", "n3"}


@pytest.mark.parametrize("word", ["a b", "x=1", "a,b", "a\nb", "#", ""])
def test_words_that_would_change_the_configuration_are_refused(word: str) -> None:
    with pytest.raises(ValueError, match=r"cannot stand in slurm\.conf"):
        SlurmNode(word, cpus=1, memory_mb=1)
    with pytest.raises(ValueError, match=r"cannot stand in slurm\.conf"):
        SlurmNode("n1", cpus=1, memory_mb=1, features=(word,))
