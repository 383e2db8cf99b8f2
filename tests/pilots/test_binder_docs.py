"""docs/binder.md as written, and docs/pilot-protocol.md against the code."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from matchmaker.classad import ClassAd, parse_ad
from matchmaker.pilots.wire import connect
from matchmaker.pilots.wire.protocol import FrameKind
from tests.pilots.real import COMMAND, free_port, grid

DOCS = Path(__file__).resolve().parents[2] / "docs"

pytestmark = pytest.mark.slow


def test_the_first_binder_works_as_written(tmp_path: Path) -> None:
    text = (DOCS / "binder.md").read_text()
    start, talk, batch = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[:3]
    command = tmp_path / "classad"
    command.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{COMMAND[2]}' \"$@\"\n")
    command.chmod(0o755)
    script = f"""
{start}
pilot=$!
# Exit status 1 says that there are no jobs, and that the binder answers.
until classad binder jobs --token ana.token 2>/dev/null || [ $? = 1 ]; do sleep 0.1; done
{talk}
{batch}
kill $pilot $binder
wait
""".replace("--folder grid &\n", "--folder grid &\nbinder=$!\n", 1)
    done = subprocess.run(
        ["sh", "-eu", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300,
        check=False,
        env={
            **os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "CLASSAD_BINDER": (address := f"127.0.0.1:{free_port()}"),
            "CLASSAD_BINDER_LISTEN": address,
        },
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "\nHELLO\n" in f"\n{done.stdout}"
    first, second = re.findall(r"^[0-9a-f]{16}$", done.stdout, re.MULTILINE)
    assert first == second
    assert "it did not end well" in done.stdout
    assert re.search(r"ExitCode +3", done.stdout)
    assert re.search(rf"{first} +first +ana +ended", done.stdout)
    assert "the pilot has ended" in done.stdout


def test_the_policy_of_the_guide_is_one(tmp_path: Path) -> None:
    from matchmaker.cli.commands.pilot import _policy

    text = (DOCS / "binder.md").read_text()
    (policy,) = re.findall(r"```\n(\[.*?\n\])\n```", text, re.DOTALL)
    (tmp_path / "policy.ad").write_text(policy)
    assert str(_policy(str(tmp_path / "policy.ad")).resume) == "true"
    assert "Suspend" in parse_ad(policy)


def test_every_frame_is_described_with_its_fields() -> None:
    text = (DOCS / "pilot-protocol.md").read_text()
    for kind in FrameKind:
        assert f"`{kind}`" in text, kind
        for field in kind.fields:
            assert f"`{field}`" in text, (kind, field)


def test_the_pilot_in_one_file_runs_where_nothing_is_installed(tmp_path: Path) -> None:
    file = tmp_path / "pilot.pyz"
    build = [sys.executable, str(DOCS.parent / "tools" / "zip_pilot.py"), str(file)]
    subprocess.run(build, check=True, timeout=60)
    with grid(tmp_path) as made:
        made.binder()
        job = ClassAd(Cmd="/bin/sh", Arguments=["-c", "setsid sleep 600 & exit 4"])

        async def ran() -> connect.JobFacts:
            async with connect.binder(made.place()) as binder:
                return await binder.job((await binder.submit(job, "k")).id, seconds=60)

        # Without site-packages, and without this checkout.
        words = [sys.executable, "-I", "-S", str(file), "--binder", made.address, "--idle", "5"]
        words += ["--token", str(made.pilot_token()), "--dir", str(tmp_path / "work")]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as pilot:
            try:
                done = asyncio.run(ran())
            finally:
                pilot.terminate()
                out, err = pilot.communicate(timeout=30)
    assert done.result is not None
    assert done.result.eval("ExitCode") == 4
    assert b"the pilot has ended: it was asked to end" in out
    assert b"Traceback" not in err
