"""The jobs of a pilot: what it takes, and what it gives back."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from matchmaker.classad import ClassAd
from matchmaker.pilots.node import running
from matchmaker.pilots.node.slots import NodeResources, NodeState
from matchmaker.pilots.node.works import PilotJobs, PilotSettings
from matchmaker.pilots.wire.connect import BinderAddress
from matchmaker.pilots.wire.connection import Connection
from matchmaker.pilots.wire.protocol import Frame, FrameKind

JOB = '[ Cmd = "/bin/sh"; Arguments = { "-c", "echo begun >> ../../begun" } ]'


def said_of(folder: Path, lease: float) -> list[tuple[FrameKind, str]]:
    """What a pilot says of a job that comes when its lease ends in so many seconds."""
    said: list[tuple[FrameKind, str]] = []

    def tell(kind: FrameKind, **fields: Any) -> None:
        said.append((kind, fields.get("reason", "")))

    async def case() -> None:
        home = folder / "home"
        home.mkdir()
        works = PilotJobs(
            PilotSettings(
                place=BinderAddress(address="127.0.0.1:1", token=""), directory=home,
                node=NodeState(total=NodeResources(cpus=1, memory=99), most=1), machine=ClassAd(),
            ),
            tell,
        )  # fmt: skip
        works.allow(time.monotonic() + lease)
        fields = {"job": "j", "epoch": 1, "ad": JOB, "stream": False}
        # What it answers on the slot's connection counts as all else.
        slot = Mock(spec=Connection, send=tell)
        works.accept(Frame(FrameKind.PAIRED, fields), slot, None)
        for _ in range(1200):
            if said and said[-1][0] is not FrameKind.ACCEPTED:
                break
            await asyncio.sleep(0.05)

    asyncio.run(case())
    return said


def test_a_job_begins_within_the_lease(tmp_path: Path) -> None:
    assert [kind for kind, _ in said_of(tmp_path, 60)] == [FrameKind.ACCEPTED, FrameKind.ENDED]
    assert (tmp_path / "begun").read_text() == "begun\n"


def test_a_job_that_comes_after_the_lease_is_given_back(tmp_path: Path) -> None:
    # The pilot stood still: by now another one may have it.
    assert said_of(tmp_path, 0) == [(FrameKind.DECLINED, "the binder was silent for a lease")]
    assert not (tmp_path / "begun").exists()


def test_a_job_whose_lease_ends_before_it_begins_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(said: object) -> int:
        time.sleep(0.5)
        return json_file(said)

    json_file = running._json_file
    monkeypatch.setattr(running, "_json_file", late)
    started, given_back = said_of(tmp_path, 0.4)
    assert started[0] is FrameKind.ACCEPTED
    assert given_back == (FrameKind.DECLINED, "nobody allowed it longer")
    assert not (tmp_path / "begun").exists()
