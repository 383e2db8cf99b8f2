"""How long a batch system lets a pilot run, by what each says and where."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker.pilots.node.describe import ask_command, read_file, seconds_left
from tests.pilots.real import grid

NOW = 1_800_000_000.0
SLURM = {"SLURM_JOB_ID": "7"}
LSF = {"LSB_JOBID": "7", "LSB_JOBINDEX": "0"}
SGE = {"SGE_ROOT": "/sge", "JOB_ID": "7"}
PBS = {"PBS_JOBID": "7.server"}
FEATURES = {"JOBFEATURES": "/j", "MACHINEFEATURES": "/m"}
CONDOR = {"_CONDOR_JOB_AD": "/job.ad", "_CONDOR_MACHINE_AD": "/machine.ad"}
HEADED = "JOBID USER STAT QUEUE FROM_HOST EXEC_HOST JOB_NAME SUBMIT_TIME TIME_LEFT\n"


def found(
    environment: Mapping[str, str], files: Mapping[str, str], printed: Mapping[str, str]
) -> float | None:
    def ask(words: Sequence[str]) -> str:
        return printed.get(" ".join(words), "")

    return seconds_left(environment, NOW, lambda path: files.get(path, ""), ask)


@pytest.mark.parametrize(
    ("environment", "printed", "seconds"),
    [
        ({}, {}, None),
        ({"SLURM_JOB_END_TIME": f"{NOW + 90:.0f}", **SLURM}, {}, 90.0),
        ({"SLURM_JOB_END_TIME": f"{NOW - 90:.0f}"}, {}, 0.0),
        ({"SLURM_JOB_END_TIME": "soon"}, {}, None),
        *(
            (SLURM, {"squeue -h -j 7 -o %L": f"{said}\n"}, seconds)
            for said, seconds in (
                ("59:30", 3570.0), ("0:09", 9.0), ("2:00:01", 7201.0), ("1-00:00:02", 86_402.0),
                ("UNLIMITED", None), ("NOT_SET", None), ("INVALID", None), ("", None),
            )
        ),
        ({"SLURM_JOB_ID": "-7"}, {"squeue -h -j -7 -o %L": "1:00"}, None),
        ({"PBS_WALLTIME": "3600", **PBS}, {}, 3600.0),
        (
            PBS,
            {
                "qstat -f 7.server": "    Resource_List.walltime = 01:00:00\n"
                "    resources_used.walltime = 00:10:00\n"
            },
            3000.0,
        ),
        (PBS, {"qstat -f 7.server": "    Resource_List.ncpus = 1\n"}, None),
        (LSF, {"bjobs -noheader -WL 7": "7 ann RUN q a b c Nov 23 13:51 1:30 L\n"}, 5400.0),
        (LSF, {"bjobs -noheader -WL 7": HEADED + "7 ann RUN q a b c Nov 23 13:51 0:05 L"}, 300.0),
        (LSF, {"bjobs -noheader -WL 7": "7 ann RUN q a b c Nov 23 13:51 1:30 E\n"}, None),
        (LSF, {"bjobs -noheader -WL 7": "7 ann RUN q a b c Nov 23 13:51 -\n"}, None),
        (
            {**LSF, "LSB_JOBINDEX": "3"},
            {"bjobs -noheader -WL 7[3]": "7 ann RUN q a b c Nov 23 13:51 0:01 L\n"},
            60.0,
        ),
        (SGE, {"qstat -j 7": "hard resource_list:         mem=1G,h_rt=600\n"}, 600.0),
        (SGE, {"qstat -j 7": "hard_resource_list:         h_rt=1:00:00,mem=1G\n"}, 3600.0),
        (SGE, {"qstat -j 7": "soft resource_list:         h_rt=600\n"}, None),
        ({"JOB_ID": "7"}, {"qstat -j 7": "hard resource_list: h_rt=600\n"}, None),
    ],
)  # fmt: skip
def test_what_the_environment_and_commands_say(
    environment: Mapping[str, str], printed: Mapping[str, str], seconds: float | None
) -> None:
    assert found(environment, {}, printed) == seconds


@pytest.mark.parametrize(
    ("environment", "files", "seconds"),
    [
        (CONDOR, {}, None),
        (CONDOR, {"/job.ad": 'AllowedExecuteDuration = 600\nCmd = "x"\n'}, 600.0),
        (CONDOR, {"/job.ad": "AllowedJobDuration = 60 * 10\n"}, 600.0),
        (
            CONDOR,
            {"/job.ad": f"AllowedJobDuration = 600\nJobCurrentStartDate = {NOW - 100:.0f}\n"},
            500.0,
        ),
        (CONDOR, {"/job.ad": "AllowedExecuteDuration = undefined\n"}, None),
        (CONDOR, {"/job.ad": "AllowedExecuteDuration = -1\n"}, None),
        (CONDOR, {"/job.ad": 'AllowedExecuteDuration = real("INF")\n'}, None),
        (CONDOR, {"/job.ad": "this is = = no ad"}, None),
        (CONDOR, {"/machine.ad": f"GLIDEIN_ToDie = {NOW + 50:.0f}\n"}, 50.0),
        (
            CONDOR,
            {"/job.ad": "AllowedExecuteDuration = 4", "/machine.ad": f"GLIDEIN_ToDie = {NOW + 50}"},
            4.0,
        ),
        (FEATURES, {"/j/wall_limit_secs": "600\n"}, 600.0),
        (FEATURES, {"/j/wall_limit_secs": "600", "/j/jobstart_secs": f"{NOW - 60}"}, 540.0),
        (FEATURES, {"/j/wall_limit_secs": "600", "/j/jobstart_secs": f"{NOW + 3600}"}, 600.0),
        (FEATURES, {"/j/shutdowntime_job": f"{NOW + 30:.2f}"}, 30.0),
        (FEATURES, {"/m/shutdowntime": f"{NOW + 20}", "/j/wall_limit_secs": "600"}, 20.0),
        (FEATURES, {"/j/wall_limit_secs": "", "/m/shutdowntime": "never"}, None),
        ({"JOBFEATURES": ""}, {"/wall_limit_secs": "600"}, None),
    ],
)  # fmt: skip
def test_what_files_say(
    environment: Mapping[str, str], files: Mapping[str, str], seconds: float | None
) -> None:
    assert found(environment, files, {}) == seconds


NAMES = ["SLURM_JOB_END_TIME", "PBS_WALLTIME", "LSB_JOBINDEX", *SLURM, *LSF, *SGE, *PBS, *FEATURES]


@given(
    st.dictionaries(st.sampled_from([*NAMES, *CONDOR]), st.text() | st.just("7")),
    st.text() | st.from_regex(r"[0-9:.-]{1,30}( L)?"),
)
def test_whatever_is_said_it_is_none_or_some_seconds(
    environment: Mapping[str, str], said: str
) -> None:
    seconds = seconds_left(environment, NOW, lambda _: said, lambda _: said)
    assert seconds is None or 0.0 <= seconds < 1e16


def test_files_and_commands_that_are_not_there_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("600")
    assert read_file(str(tmp_path / "there")) == "600"
    assert read_file(str(tmp_path / "missing")) == ""
    assert read_file("a\0b") == ""
    assert ask_command(("/bin/echo", "1:00")) == "1:00\n"
    assert ask_command(("/nowhere/squeue",)) == ""
    assert ask_command(("/bin/sh", "-c", "echo 1:00; exit 1")) == ""


def test_a_pilot_ends_before_its_batch_system_ends_it(tmp_path: Path) -> None:
    with grid(tmp_path) as made:
        made.binder()
        (tmp_path / "shutdowntime").write_text(f"{time.time() + 13:.0f}")
        token = made.pilot_token()
        pilot = made.start("p", "pilot", "--token", token, MACHINEFEATURES=str(tmp_path))
        printed, _ = pilot.communicate(timeout=60)
    assert "its time is over" in printed
