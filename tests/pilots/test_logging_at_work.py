"""What a binder and a pilot log: each event with its key, by option alone, and never a secret."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from matchmaker.classad import parse_ad
from matchmaker.pilots.wire import connect
from matchmaker.pilots.wire.protocol import split_token
from tests.pilots.real import Grid, grid

JOB = '[ Cmd = "/bin/sh"; Arguments = {"-c", "cat $CLASSAD_BINDER_TOKEN >&2"}; MayConnect = true;'


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Grid]:
    with grid(tmp_path) as made:
        yield made


def events(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def named(found: list[dict[str, object]], event: str, **keys: object) -> list[dict[str, object]]:
    return [
        each for each in found
        if each["event"] == event and all(each.get(key) == value for key, value in keys.items())
    ]  # fmt: skip


def until(file: Path, event: str) -> None:
    deadline = time.monotonic() + 20
    while event not in file.read_text():
        assert time.monotonic() < deadline, event
        time.sleep(0.05)


def test_a_job_is_followed_by_its_key_and_no_secret_is_written(here: Grid) -> None:
    at_binder, at_pilot = here.folder / "binder.log", here.folder / "pilot.log"
    here.binder("--log-json", "--log-level", "debug", "--log-file", str(at_binder))
    pilot_token = here.pilot_token()
    text = pilot_token.read_text()
    here.start(
        "pilot", "pilot", "--token", pilot_token, "--dir", here.folder / "work", "--log-json",
        "--log-level", "debug", "--log-file", at_pilot,
    )  # fmt: skip

    async def case() -> connect.JobFacts:
        async with connect.binder(here.place()) as binder:
            ad = parse_ad(f"{JOB} Requirements = true ]")
            job = await binder.submit(ad, f"k{time.time()}")
            return await binder.job(job.id, seconds=30.0)

    job = asyncio.run(case())
    here.signal("pilot", signal.SIGKILL)
    until(at_binder, "session over: its pilot was silent")
    assert job.result is not None
    grant = str(job.result.eval("Err")).strip()
    binder, pilot = events(at_binder), events(at_pilot)
    for stage in ("queued", "given", "running", "ended"):
        assert len(named(binder, f"job {stage}", job=job.id)) == 1, stage
    (session,) = {each["session"] for each in named(pilot, "registered")}
    for log, event in [
        (binder, "pilot registered"), (binder, "session over: its pilot was silent"),
    ]:  # fmt: skip
        assert named(log, event, session=session), event
    assert named(pilot, "job accepted", job=job.id, epoch=1)
    assert named(pilot, "job ended", job=job.id, exit=0)
    secrets = [text, grant, (here.folder / "client.token").read_text()]
    written = at_binder.read_text() + at_pilot.read_text()
    written += "".join(each.read_text() for each in here.logs.iterdir())
    assert grant.count(".") == 2
    for secret in secrets:
        unsigned, signature = split_token(secret)
        for part in (unsigned, secret.strip().rpartition(".")[2], signature.hex()):
            assert part not in written
    assert (here.folder / "key").read_text().strip() not in written


def test_nothing_is_logged_unasked(here: Grid) -> None:
    here.binder()
    refused = here.start("pilot", "pilot", "--token", here.folder / "client.token")
    assert refused.wait(30) == 2
    said = (here.logs / "pilot.log").read_text()
    assert said.count("\n") == 1
    assert "scope client" in said
    here.end("binder")
    assert (here.logs / "binder.log").read_text() == "classad: binder: stopped by SIGTERM\n"


def test_the_page_shows_the_lines_of_a_pilot_that_died(here: Grid) -> None:
    page = (Path(__file__).parents[2] / "docs" / "binder.md").read_text()
    shown = page.partition("## What went wrong")[2].partition("```text\n")[2].partition("```")[0]
    log = here.folder / "binder.log"
    here.binder("--log-file", str(log))
    here.pilot("pilot")
    until(log, "pilot registered")

    async def case() -> None:
        async with connect.binder(here.place()) as binder:
            ad = parse_ad('[ Cmd = "/bin/sleep"; Arguments = {"600"}; Requirements = true ]')
            await binder.submit(ad, "night-7")

    asyncio.run(case())
    until(log, "job running")
    here.signal("pilot", signal.SIGKILL)
    until(log, "session over: its pilot was silent")
    until(log, "reason=")

    def events_of(text: str) -> list[str]:
        words = (line.partition(" ")[2].partition("=")[0] for line in text.splitlines())
        return [line.rpartition(" ")[0] for line in words]

    assert events_of(log.read_text()) == events_of(shown)
