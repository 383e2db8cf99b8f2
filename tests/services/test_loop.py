"""The example of the whole way of a job, from Slurm's description to the acknowledged end."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.services.daemons import ServiceUnavailable

pytestmark = pytest.mark.service

LOOP = Path(__file__).resolve().parents[2] / "examples" / "loop.py"


def test_a_job_goes_all_the_way(tmp_path: Path) -> None:
    found = importlib.util.spec_from_file_location("loop", LOOP)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    said: list[tuple[str, str]] = []
    try:
        node = module.loop(tmp_path, lambda step, what: said.append((step, what)))
    except ServiceUnavailable as error:
        pytest.skip(f"no servers here: {error}")
    assert node == "n3"
    steps = dict.fromkeys(step for step, _ in said)
    assert list(steps) == [
        *("describe", "publish", "read", "broker", "reduce", "flags", "submit"),
        *("reconcile", "landed", "acknowledge"),
    ]
    told = {step: what for step, what in said if step != "reconcile"}
    assert told["flags"].endswith("(exact)")
    assert [what for step, what in said if step == "reconcile"][-1].endswith("done, exit status 0")
