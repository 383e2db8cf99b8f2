"""Traces in the Standard Workload Format: what is read, what is left out, what is refused."""

from __future__ import annotations

import gzip
import io
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker._diagnostics import Diagnostic
from matchmaker.pilots.simulation import workload
from matchmaker.pilots.simulation.workload import (
    MAX_SECONDS,
    TraceError,
    TraceFile,
    TraceJob,
    read_trace,
    survey,
)


def line(submit: object = 0, run: object = 60, wall: object = -1, **known: object) -> str:
    fields = [1, submit, -1, run, 1, -1, -1, -1, wall, -1, 1, 5, 2, -1, -1, 3, -1, -1]
    for name, place in {"user": 11, "group": 12, "queue": 14, "site": 15}.items():
        fields[place] = known.get(name, fields[place])
    return " ".join(map(str, fields)) + "\n"


def jobs(path: Path, text: str) -> tuple[list[TraceJob], list[str]]:
    path.write_text(text, encoding="utf-8")
    problems: list[str] = []
    return list(
        read_trace(path, lambda found: problems.append(f"{found.line}: {found.message}"))
    ), problems


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.swf"


def test_a_line_is_a_job(path: Path) -> None:
    found, problems = jobs(path, "; Version: 2.2\n\n" + line(10, 60, 300))
    assert found == [TraceJob(submit=10, run=60, wall=300, group="2", site="3")]
    assert problems == []


def test_what_is_unknown_is_taken_from_the_next_field(path: Path) -> None:
    found, _ = jobs(path, line(group=-1, site=-1, queue=7) + line(user=-1, group=-1, site=-1))
    assert [(job.group, job.site) for job in found] == [("5", "7"), ("", "")]
    # A job that ran for longer than it asked for, or did not say, needs what it ran.
    assert found[0].wall == 60


def test_gzip_is_recognised_by_its_bytes(path: Path) -> None:
    path.write_bytes(gzip.compress(line(4).encode()))
    assert [job.submit for job in read_trace(path)] == [4]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1 2 3\n", "it has 3 fields instead of 18"),
        (line(run=-1), "the run time is unknown"),
        (line(run=-7), "the run time is -7"),
        (line(run="nan"), "the run time is nan"),
        (line(run="inf"), "the run time is inf"),
        (line(submit=-1), "the submit time is -1"),
        (line(submit="nan"), "the submit time is nan"),
        (line(submit="1e300"), "the submit time is 1e+300"),
        (line(wall="nan"), "the requested time is nan"),
        (line(submit="x\x1b[31m"), "are not numbers: x"),
    ],
)
def test_a_bad_line_is_left_out_and_said(path: Path, text: str, reason: str) -> None:
    found, problems = jobs(path, line(1) + text + line(2))
    assert [job.submit for job in found] == [1, 2]
    [problem] = problems
    assert problem.startswith("2: ")
    assert reason in problem


def test_lines_out_of_order_are_put_in_order(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, problems = jobs(path, line(5) + line(3) + line(4))
    assert ([job.submit for job in found], problems) == ([3, 4, 5], [])
    monkeypatch.setattr(workload, "WINDOW", 2)
    found, problems = jobs(path, "".join(line(n) for n in (5, 6, 7, 8, 1, 9)))
    assert [job.submit for job in found] == [5, 6, 7, 8, 9]
    assert len(problems) == 1
    assert problems[0].startswith("5: it is submitted at 1, long before")


def test_a_cut_or_damaged_file_is_refused_with_its_place(path: Path) -> None:
    whole = gzip.compress("".join(line(n) for n in range(5000)).encode())
    for broken in (whole[: len(whole) // 2], whole[:40] + b"\xff" * 40 + whole[80:], whole[:12]):
        path.write_bytes(broken)
        with pytest.raises(TraceError, match=r"t\.swf: the gzip data is cut or damaged after"):
            list(read_trace(path))


def test_a_file_of_something_else_is_refused(path: Path) -> None:
    path.write_text("hello\n" * 2000, encoding="utf-8")
    with pytest.raises(TraceError, match="line 1001: it has 1 fields"):
        list(read_trace(path))
    path.write_bytes(b"x" * 10_000)
    with pytest.raises(TraceError, match="line 1 has more than 4096 bytes"):
        list(read_trace(path))


def test_a_bomb_is_read_as_a_stream(path: Path) -> None:
    text = io.BytesIO()
    with gzip.GzipFile(fileobj=text, mode="wb", compresslevel=1) as file:
        for _ in range(20):
            file.write(b"\0" * (1 << 20))
    path.write_bytes(text.getvalue())
    with pytest.raises(TraceError, match="line 1 has more than 4096 bytes"):
        list(read_trace(path))


def test_a_trace_without_jobs_has_no_sites(path: Path) -> None:
    path.write_text("; nothing\n", encoding="utf-8")
    with pytest.raises(ValueError, match="the workload has no job"):
        survey(TraceFile(path))


FIELD = st.sampled_from(["-1", "0", "7", "1e300", "nan", "-inf", "0x1", "\0", "\u0661", "x" * 30])
NEAR = st.builds(line, st.integers(-2, 40), st.integers(-2, 40), st.integers(-2, 40))
TEXT = st.lists(
    NEAR | st.lists(FIELD, min_size=17, max_size=19).map(lambda row: " ".join(row) + "\n"),
    max_size=8,
).map("".join)


@settings(max_examples=150, deadline=None)
@given(
    TEXT.map(str.encode) | TEXT.map(lambda text: gzip.compress(text.encode())) | st.binary(),
    st.integers(0, 400),
    st.integers(1, 3),
)
def test_any_bytes_give_sound_jobs_in_order_or_are_refused(
    data: bytes, cut: int, window: int
) -> None:
    problems: list[Diagnostic] = []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(workload, "WINDOW", window)
        file = Path(folder, "t.swf")
        file.write_bytes(data[:cut] if cut else data)
        try:
            found = list(read_trace(file, problems.append))
        except TraceError as refused:
            assert str(file) in str(refused)  # noqa: PT017 - either answer is right
            return
    assert [job.submit for job in found] == sorted(job.submit for job in found)
    for job in found:
        assert 0 <= job.submit <= MAX_SECONDS
        assert 0 <= job.run <= job.wall <= MAX_SECONDS
        assert f"{job.group}{job.site}".isascii()
    lines = [text for text in file_lines(data[:cut] if cut else data) if text[:1] != b";"]
    assert len(found) + len(problems) == len(lines)


def file_lines(data: bytes) -> list[bytes]:
    """The lines that are not empty, unpacked."""
    plain = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return [text.strip() for text in plain.split(b"\n") if text.strip()]
