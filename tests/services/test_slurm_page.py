"""The commands of ``docs/slurm.md``, run as they stand there on a real Slurm."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.daemons import ServiceUnavailable, program
from tests.services.slurm import SlurmNode, farm
from tests.test_docs import agrees, folder, text_of

__all__ = ["folder"]

pytestmark = pytest.mark.service

NODES = [
    SlurmNode("wn1", 4, 8000, features=("el9",)),
    SlurmNode("wn2", 4, 8000, features=("el9",)),
    SlurmNode("wn3", 2, 4000, features=("el8",)),
]
LONG = "PartitionName=long Nodes=ALL MaxTime=2-00:00:00 State=UP\n"


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of the page, with what is shown below it; a file in it ends with END."""
    for block in re.findall(r"^```shell-session\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield from re.findall(
            r"^\$ (.*<<'END'\n(?:.*\n)*?END\n|.*\n)((?:(?!\$ ).*\n)*)", block, re.MULTILINE
        )


def test_an_administrator_follows_the_page(tmp_path: Path, folder: str) -> None:
    shown = list(commands(text_of("docs/slurm.md")))
    assert len(shown) == 11
    try:
        with farm(NODES, LONG) as made:
            environment = made.oracle.environment
            environment = {**environment, "PATH": f"{folder}:{environment['PATH']}"}
            jobs = [program("squeue"), "--noheader"]
            for command, output in shown:
                while subprocess.check_output(jobs, env=environment, timeout=60):
                    time.sleep(0.05)  # the next command looks at what the job has written
                done = subprocess.run(
                    ["/bin/sh", "-c", command],
                    cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, timeout=60,
                    check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                )  # fmt: skip
                if not agrees(output, done.stdout):
                    assert done.stdout == output, command
    except ServiceUnavailable as error:
        pytest.skip(f"no Slurm here: {error}")
