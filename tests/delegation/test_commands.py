"""What commands are run, and what their failures mean: silence, and never an absence."""

from __future__ import annotations

import os
import shlex
from importlib.resources import files
from pathlib import Path
from typing import Any

import attrs
import pytest

from matchmaker import parse_expr
from matchmaker.batch import known_lrms, load_mapping
from matchmaker.batch.policy import decoded, encoded
from matchmaker.delegation.commands import Commands, entries
from matchmaker.delegation.control import load_control
from matchmaker.delegation.record import JobStatus, NoAnswer, Phase, QueueListing, Refused
from tests.delegation.test_readers import QUEUES

# Of each batch system the command that submits, its answer, and the number that it gives a job.
REPLIES = {
    "slurm": ("sbatch", "17\n", "17"), "sge": ("qsub", "17\n", "17"),
    "htcondor": ("condor_submit", "17.0 - 17.0\n", "17"), "pbspro": ("qsub", "17.h\n", "17.h"),
    "torque": ("qsub", "17.h\n", "17.h"),
    "lsf": ("bsub", "Job <17> is submitted to queue <normal>.\n", "17"),
}  # fmt: skip
SCRIPT = Path("/spool/k/1/start.sh")
PLAIN: Any = {"directory": "", "environment": {}}
MARK = "00112233aabbccdd"
SQUEUE_OF_2 = (
    "last_update_time=1795366170 records=1\n"
    "2|PENDING|2026-11-22T16:49:26|2026-11-22T16:59:26|0|4294901758|None||mm-a-1|\n"
)


@attrs.frozen
class Site:
    """Commands that write down their words and answer what is laid down for them."""

    folder: Path

    @property
    def path(self) -> str:
        return f"{self.folder}{os.pathsep}{os.environ['PATH']}"

    def answer(self, name: str, output: str = "", complaint: str = "", status: int = 0) -> None:
        path = self.folder / name
        path.write_text(
            f'#!/bin/sh\nprintf \'%s\\n\' "${{0##*/}}" "$@" =end= >>{self.folder}/asked\n'
            f'for last; do :; done; cat "$last" >{self.folder}/given 2>/dev/null\n'
            f"printf '%s' {shlex.quote(output)}\nprintf '%s' {shlex.quote(complaint)} >&2\n"
            f"exit {status}\n"
        )
        path.chmod(0o755)

    def asked(self) -> list[list[str]]:
        text = (self.folder / "asked").read_text()
        return [words.split("\n") for words in text.removesuffix("\n=end=\n").split("\n=end=\n")]

    def commands(self, lrms: str, *, seconds: float = 10.0) -> Commands:
        environment = {"PATH": self.path, "SBATCH_ARRAY_INX": "1-9", "SQUEUE_PARTITION": "other",
                       "SLURM_CLUSTERS": "other"}  # fmt: skip
        return Commands(load_control(lrms), seconds, environment)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_every_system_that_takes_flags_takes_jobs() -> None:
    tables = files("matchmaker.delegation").joinpath("systems").iterdir()
    assert sorted(table.name.removesuffix(".toml") for table in tables) == sorted(REPLIES)
    assert set(REPLIES) <= set(known_lrms())
    for lrms in REPLIES:
        assert load_control(lrms).lrms == lrms
    with pytest.raises(ValueError, match="known are htcondor, lsf"):
        load_control("blah")
    with pytest.raises(ValueError, match="cannot be handed over"):
        load_control("../batch/slurm")


@pytest.mark.parametrize("lrms", REPLIES)
def test_a_job_is_parked(site: Site, lrms: str) -> None:
    command, reply, number = REPLIES[lrms]
    site.answer(command, reply)
    script = site.folder / "start.sh"
    options = {"htcondor": ["-append", "+a = 5"], "slurm": ["--mem", "a b"]}.get(
        lrms, ["-q", "a b"]
    )
    found = site.commands(lrms).park(
        "mm-k7-1",
        script,
        options,
        metadata={"key": "k7", "ad": "[ A = 1 ]", "mark": MARK},
        seconds=900,
        **PLAIN,
    )
    assert found == number
    (words,) = site.asked()
    text = "\n".join(words)
    assert words[1:3] == options
    if lrms == "htcondor":
        text += (site.folder / "given").read_text()
    assert "mm-k7-1" in text
    assert MARK in text
    assert "/start.sh" in text
    assert "base64:WyBBID0gMSBd" in text
    held = {"lsf": "-H", "htcondor": "hold = true"}.get(lrms, "-h")
    assert (held in text.split("\n")) is (lrms != "slurm")
    assert ("--begin=now+900" in words) is (lrms == "slurm")


@pytest.mark.parametrize("lrms", REPLIES)
def test_a_job_is_submitted_from_the_place_of_its_order(site: Site, lrms: str) -> None:
    """In its directory and environment; what the client reads is of whoever submits."""
    command, reply, _ = REPLIES[lrms]
    own = {"slurm": "SLURM_CONF", "sge": "SGE_ROOT", "lsf": "LSF_ENVDIR"}.get(lrms, "")
    own = own or ("CONDOR_CONFIG" if lrms == "htcondor" else "PBS_SERVER")
    site.answer(command, reply)
    program = site.folder / command
    program.write_text(
        program.read_text().replace(
            "#!/bin/sh\n", f"#!/bin/sh\n{{ pwd; env; }} >{site.folder}/from\n", 1
        )
    )
    home = site.folder / "home"
    home.mkdir()
    commands = attrs.evolve(
        site.commands(lrms), environment={"PATH": site.path, own: "ours", "OF_US": "1"}
    )
    environment = {"PATH": "/usr/bin:/bin", own: "theirs", "TZ": "Europe/Rome", "LANG": "it_IT"}
    script = site.folder / "start.sh"
    commands.park(
        "mm-k-1", script, [], metadata={}, seconds=9, directory=str(home), environment=environment
    )
    folder, *lines = (site.folder / "from").read_text().splitlines()
    assert folder == str(home)
    assert {"TZ=Europe/Rome", "LANG=it_IT", f"{own}=ours", "PATH=/usr/bin:/bin"} <= set(lines)
    assert "OF_US=1" not in lines
    assert "LC_ALL=C" not in lines
    home.rmdir()
    gone = commands.park(
        "mm-k-1", script, [], metadata={}, seconds=9, directory=str(home), environment=environment
    )
    assert isinstance(gone, NoAnswer)
    assert "no such directory here" in gone.reason


REFUSALS = """
slurm + sbatch: error: Batch job submission failed: Invalid partition name specified
slurm + Batch job submission failed: Invalid account or account/partition combination specified
slurm + sbatch: error: QOSMaxSubmitJobPerUserLimit; Job violates accounting/QOS policy (…)
slurm + sbatch: unrecognized option '--nope'
slurm - Batch job submission failed: Required partition not available (inactive or drain)
slurm - Batch job submission failed: Unable to contact slurm controller (connect failure)
slurm - Batch job submission failed: Socket timed out on send/recv operation
slurm - Batch job submission failed: Invalid job credential
pbspro + qsub: Unknown queue
pbspro + qsub: Access to queue is denied
pbspro + qsub: Job violates queue and/or server resource limits
pbspro - qsub: Queue is not enabled
pbspro - qsub: Maximum number of jobs already in queue
torque + qsub: submit error (Unknown queue MSG=cannot locate queue)
torque + qsub: submit error (Job exceeds queue resource limits MSG=cannot satisfy walltime)
torque - qsub: submit error (Queue is not enabled)
lsf + nope: No such queue. Job not submitted.
lsf + User cannot use the queue. Job not submitted.
lsf - Queue has been closed. Job not submitted.
lsf - Cannot connect to LSF. Please wait ...
sge + Unable to run job: job rejected: the requested project "x" does not exist.
sge - Unable to run job: job rejected: only 5 jobs are allowed per user (current job count: 5)
sge - error: unable to contact qmaster using port 6444 on host "h"
htcondor + ERROR: Parse error in expression
htcondor - ERROR: Failed to commit job submission into the queue.
htcondor - ERROR: Can't find address of local schedd
"""
"""What commands for submissions say; + for a refusal for good, - for what passes."""


@pytest.mark.parametrize("line", REFUSALS.strip().splitlines())
def test_a_refusal_is_told_from_what_passes(site: Site, line: str) -> None:
    lrms, sign, said = line.split(" ", 2)
    command, reply, _ = REPLIES[lrms]
    commands = site.commands(lrms)
    for status, out in ((1, ""), (1, reply), (0, "")):
        site.answer(command, out, said, status)
        found = commands.park("mm-k-1", site.folder / "s", [], metadata={}, seconds=60, **PLAIN)
        definite = sign == "+" and status == 1 and not out
        assert isinstance(found, Refused if definite else NoAnswer), (status, out, found)
        assert said in found.reason


@pytest.mark.parametrize("status", [0, 1])
@pytest.mark.parametrize("reply", ["", "17", "sbatch: error: 17\n", "17\n18\n"])
def test_any_other_reply_is_silence(site: Site, reply: str, status: int) -> None:
    site.answer("sbatch", reply, "sbatch: error: Socket timed out", status)
    found = site.commands("slurm").park("mm-k-1", SCRIPT, [], metadata={}, seconds=1, **PLAIN)
    assert isinstance(found, NoAnswer)
    assert "Socket timed out" in found.reason


def test_a_command_that_hangs_is_silence(site: Site) -> None:
    (site.folder / "squeue").write_text("#!/bin/sh\nsleep 60\n")
    (site.folder / "squeue").chmod(0o755)
    found = site.commands("slurm", seconds=0.2).look()
    assert found == NoAnswer("squeue: it did not end within 0.2 seconds")


def test_a_command_that_is_not_there_is_silence(tmp_path: Path) -> None:
    commands = Commands(load_control("lsf"), environment={"PATH": str(tmp_path)})
    assert commands.look() == NoAnswer("bjobs: no such command here")


@pytest.mark.parametrize("script", ["/a\tb/start.sh", "/a$(id)/s", "relative", "/a\nqueue 9", "/é"])
def test_a_path_that_a_command_may_take_otherwise_is_refused(site: Site, script: str) -> None:
    site.answer("condor_submit", "17.0 - 17.0\n")
    found = site.commands("htcondor").park(
        "mm-k-1", Path(script), [], metadata={}, seconds=1, **PLAIN
    )
    assert isinstance(found, Refused)
    assert not (site.folder / "asked").exists()


def test_an_account_without_a_name_has_no_answer_where_a_command_needs_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that runs under a number that its passwd does not have."""
    monkeypatch.setattr(os, "getuid", lambda: 54_321)
    site.answer("sbatch", "17\n")
    assert (
        site.commands("slurm").park("mm-k-1", SCRIPT, [], metadata={}, seconds=60, **PLAIN) == "17"
    )
    site.answer("qstat", QUEUES["gridengine"][0])
    assert site.commands("sge").look() == NoAnswer("qstat: user 54321 has no name on this machine")


def test_options_of_the_environment_are_left_out(site: Site) -> None:
    (site.folder / "squeue").write_text("#!/bin/sh\nenv | grep ^S >&2\nexit 1\n")
    (site.folder / "squeue").chmod(0o755)
    found = site.commands("slurm").look()
    assert isinstance(found, NoAnswer)
    assert "SLURM_TIME_FORMAT=standard" in found.reason
    assert "SQUEUE_" not in found.reason
    assert "SBATCH_" not in found.reason
    # Another cluster than `squeue --local` shows.
    assert "SLURM_CLUSTERS" not in found.reason


LOOKS = [
    ("slurm", "squeue", "slurm"), ("sge", "qstat", "gridengine"),
    ("htcondor", "condor_q", "htcondor"), ("pbspro", "qstat", "pbs"),
    ("torque", "qstat", "torque"), ("lsf", "bjobs", "lsf"),
]  # fmt: skip


@pytest.mark.parametrize(("lrms", "command", "reader"), LOOKS)
def test_a_look_shows_our_jobs_alone(site: Site, lrms: str, command: str, reader: str) -> None:
    text, statuses = QUEUES[reader]
    site.answer(command, text)
    ours = tuple(sight for sight in statuses if sight.name.startswith("mm-"))
    assert site.commands(lrms).look() == QueueListing(ours)


@pytest.mark.parametrize(("lrms", "command", "reader"), LOOKS)
def test_a_look_that_fails_or_is_cut_is_silence(
    site: Site, lrms: str, command: str, reader: str
) -> None:
    text, _ = QUEUES[reader]
    site.answer(command, text, "cannot contact the master", 1)
    assert isinstance(site.commands(lrms).look(), NoAnswer)
    for part in ("", text[: len(text) // 2]):
        site.answer(command, part)
        assert isinstance(site.commands(lrms).look(), NoAnswer)


def test_an_empty_queue_is_believed_where_the_count_is_0(site: Site) -> None:
    condor = (
        '#!/bin/sh\ncase "$1" in -totals) echo "Total for query: %d jobs; 0 completed";; esac\n'
    )
    for number, expected in ((0, QueueListing), (2, NoAnswer)):
        (site.folder / "condor_q").write_text(condor % number)
        (site.folder / "condor_q").chmod(0o755)
        assert isinstance(site.commands("htcondor").look(), expected)


@pytest.mark.parametrize(
    ("complaint", "status", "expected"),
    [("No job found\n", 255, QueueListing), ("No unfinished job found\n", 255, QueueListing),
     ("LSF is down. Please wait ...\n", 255, NoAnswer),
     ("No job found\nFailed in an LSF library call\n", 255, NoAnswer)],
)  # fmt: skip
def test_only_the_words_for_no_jobs_mean_that_there_are_none(
    site: Site, complaint: str, status: int, expected: type
) -> None:
    site.answer("bjobs", "", complaint, status)
    assert isinstance(site.commands("lsf").look(), expected)


def test_no_accounting_has_no_jobs_and_an_error_has_no_answer(site: Site) -> None:
    site.answer("sacct", "", "Slurm accounting storage is disabled\n", 1)
    assert site.commands("slurm").recall({"mm-a-1": ""}, 0) == QueueListing(())
    site.answer("sacct", "", "sacct: error: slurm_persist_conn_open_without_init\n", 1)
    assert isinstance(site.commands("slurm").recall({"mm-a-1": ""}, 0), NoAnswer)
    site.answer(
        "sacct", "7|COMPLETED|2026-11-22T16:49:26|0:0|mm-a-1\n8|FAILED|Unknown|1:0|mm-b-1\n"
    )
    answer = site.commands("slurm").recall({"mm-a-1": ""}, 1795366166.0)
    assert isinstance(answer, QueueListing)
    assert [(s.name, s.phase, s.exit) for s in answer.statuses] == [("mm-a-1", Phase.ENDED, 0)]
    assert "2026-11-22T16:49:26" in site.asked()[-1]
    assert site.commands("lsf").recall({"mm-a-1": ""}, 0) == QueueListing(())


@pytest.mark.parametrize(
    ("action", "complaint", "good"),
    [
        ("release", "Job has already finished for job 2\n", False),
        ("release", "Invalid job id specified for job 2\n", False),
        ("release", "", False),
        ("cancel", "scancel: error: Kill job error on job id 2: Invalid job id specified\n", True),
        ("cancel", "scancel: error: Unable to contact slurm controller\n", False),
    ],
)  # fmt: skip
def test_a_complaint_counts_unless_it_is_known_to_do_no_harm(
    site: Site, action: str, complaint: str, *, good: bool
) -> None:
    site.answer("squeue", SQUEUE_OF_2)
    site.answer("scontrol" if action == "release" else "scancel", "", complaint, 1)
    commands = site.commands("slurm")
    if action == "release":
        assert (commands.release([("2", "mm-a-1")]) == [None]) is good
    else:
        assert (commands.cancel("2", "mm-a-1") is None) is good


@pytest.mark.parametrize("status", [0, 1])
def test_releases_at_a_time_share_a_command_unless_one_fails(site: Site, status: int) -> None:
    site.answer("squeue", SQUEUE_OF_2.replace("records=1", "records=2") + (
        "3|PENDING|2026-11-22T16:49:26|2026-11-22T16:59:26|0|4294901758|None||mm-b-1|\n"
    ))  # fmt: skip
    site.answer("scontrol", "", "" if status == 0 else "Invalid job id", status)
    commands = site.commands("slurm")
    found = commands.release([("2", "mm-a-1"), ("3", "mm-b-1"), ("2", "mm-b-1")])
    assert found[2] == NoAnswer("slurm has no job 2 with the name mm-b-1")
    assert [isinstance(one, NoAnswer) for one in found[:2]] == [status != 0] * 2
    asked = [words for words in site.asked() if words[0] == "scontrol"]
    assert asked[0] == ["scontrol", "update", "JobId=2,3", "StartTime=now"]
    assert len(asked) == (1 if status == 0 else 3)


@pytest.mark.parametrize(
    ("lrms", "command", "words"),
    [
        ("sge", "qrls", ["-h", "u", "2,3"]),
        ("pbspro", "qrls", ["-h", "u", "2", "3"]), ("lsf", "bresume", ["2", "3"]),
        ("htcondor", "condor_release", [
            "-constraint", ('(ClusterId == 2 && ClassAdJob == "mm-a-1" && JobStatus == 5) || '
            '(ClusterId == 3 && ClassAdJob == "mm-b-1" && JobStatus == 5)'),
        ]),
    ],
)  # fmt: skip
def test_each_system_releases_several_by_one_command(
    site: Site, lrms: str, command: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = tuple(
        JobStatus(n, i, None, Phase.PARKED) for i, n in (("2", "mm-a-1"), ("3", "mm-b-1"))
    )
    monkeypatch.setattr(Commands, "look", lambda _: QueueListing(statuses))
    site.answer(command)
    assert site.commands(lrms).release([("2", "mm-a-1"), ("3", "mm-b-1")]) == [None, None]
    assert site.asked() == [[command, *words]]


@pytest.mark.parametrize("lrms", ["pbspro", "torque"])
def test_an_id_that_another_job_has_by_now_is_left_alone(site: Site, lrms: str) -> None:
    site.answer("qstat", QUEUES["pbs" if lrms == "pbspro" else "torque"][0])
    site.answer("qdel")
    site.answer("qrls")
    commands = site.commands(lrms)
    assert commands.cancel("7.head", "mm-other-1") is None
    assert isinstance(commands.release([("7.head", "mm-other-1")])[0], NoAnswer)
    assert [words[0] for words in site.asked()] == ["qstat", "qstat"]
    assert commands.cancel("7.head", "mm-a-1") is None
    assert site.asked()[-1] == ["qdel", "7.head"]


@pytest.mark.parametrize("number", ["", "1 2", "-1", "1;id", "all\n", "*", "x" * 200])
def test_a_hostile_id_is_asked_of_nobody(site: Site, number: str) -> None:
    site.answer("scancel")
    assert isinstance(site.commands("slurm").cancel(number, "mm-a-1"), NoAnswer)
    assert not (site.folder / "asked").exists()


@pytest.mark.parametrize("lrms", REPLIES)
def test_metadata_is_quoted_and_has_an_end(lrms: str) -> None:
    control = load_control(lrms)
    evil = '"; $(id)\nqueue 9,\\ é\0'
    many = {"key": "k", "ad": evil, "policy": "classad1:AA-_"}
    carried, _ = entries(many, [], control, {"name": "mm-k-1"})
    text = "\n".join(carried)
    assert not set(text) & set("$()\\;\0")
    for value in ("k", "classad1:AA-_"):
        assert value in text
    long = many | {"ad": "x y" * 10_000}
    carried, _ = entries(long, [], control, {"name": "mm-k-1"})
    text = "\n".join(carried)
    assert "classad1:AA-_" in text
    assert len(text) < control.metadata.room + 50
    assert "eCB5" not in text


@pytest.mark.parametrize("lrms", REPLIES)
def test_the_policy_is_read_back_from_where_it_is_carried(lrms: str) -> None:
    """By the same name as flags carry it, which is what ``classad policy`` asks for."""
    policy = parse_expr("other.GlueCEPolicyMaxCPUTime > 1000")
    metadata = {"key": "k", "policy": encoded(policy)}
    carried, _ = entries(metadata, [], load_control(lrms), {"name": "mm-k-1"})
    assert decoded("\n".join(carried)) is policy
    place = load_mapping(lrms).metadata.partition("{policy}")[0].rpartition(" ")[2]
    if lrms == "htcondor":
        assert '+ClassAdPolicy = "classad1:' in "\n".join(carried)
    elif "=" in place and not place.startswith("--"):
        assert f"{place}classad1:" in "\n".join(carried)


def test_what_the_words_already_carry_stays() -> None:
    for words in (["--comment=my note"], ["--comment", "my note"]):
        assert entries({"key": "k"}, words, load_control("slurm"), {}) == (
            ["--comment=key=k my note"], [],
        )  # fmt: skip
    words = ["-l", "mem=5M", "-ac", "classad_policy=classad1:AA", "-x"]
    assert entries({"key": "k"}, words, load_control("sge"), {}) == (
        ["-ac", "classad_key=k,classad_policy=classad1:AA"], ["-l", "mem=5M", "-x"],
    )  # fmt: skip
