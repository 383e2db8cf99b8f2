"""Answers of batch systems: read right, and never read where they are cut short."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker.delegation.readers import READERS
from matchmaker.delegation.readers.reading import UnreadableError
from matchmaker.delegation.record import JobStatus, Phase, ReasonCode

SQUEUE = """\
-----------------------------
states      = all
users       = 1000
-----------------------------


last_update_time=1795366170 records=7
17|CANCELLED|2026-11-22T16:49:26|2026-11-22T16:49:26|0|4294901759|BeginTime|mark=00112233aabbccdd|mm-a-1|
18|PENDING|2026-11-22T16:49:26|2026-11-22T16:59:26|0|4294901758|None||b
c||
19|PENDING|2026-11-22T16:49:27|N/A|0|0|None||mm-c-1|
20|RUNNING|2026-11-22T16:49:28|2026-11-22T16:49:28|0|4294901757|None||mm-d-1|
21|FAILED|2026-11-22T16:49:29|2026-11-22T16:49:29|768|4294901756|NonZeroExitCode|key=k|mm-e-12|
22|TIMEOUT|Unknown|2026-11-22T16:49:29|15|4294901755|TimeLimit|a comment|mm-f-1|
23|PENDING|2026-11-22T16:49:30|2026-11-22T16:49:30|0|4294901754|BeginTime||mm-g-1|
"""
SQUEUE_SIGHTS = [
    JobStatus(
        "mm-a-1",
        "17",
        1795366166.0,
        Phase.CANCELLED,
        None,
        "CANCELLED BeginTime",
        "00112233aabbccdd",
    ),
    JobStatus("mm-c-1", "19", 1795366167.0, Phase.PARKED),
    JobStatus("mm-d-1", "20", 1795366168.0, Phase.RUNNING, None, "RUNNING"),
    JobStatus("mm-e-12", "21", 1795366169.0, Phase.ENDED, 3, "NonZeroExitCode"),
    JobStatus(
        "mm-f-1", "22", None, Phase.CANCELLED, 143, "TIMEOUT TimeLimit", code=ReasonCode.TIMEOUT
    ),
    JobStatus("mm-g-1", "23", 1795366170.0, Phase.WAITING, None, "BeginTime"),
]

QSTAT = """\
<?xml version='1.0'?>
<job_info  xmlns:xsd="http://example.org/qstat.xsd">
  <queue_info>
    <job_list state="running">
      <JB_job_number>1</JB_job_number>
      <JB_name>mm-a-1</JB_name>
      <state>r</state>
      <JAT_start_time>2026-11-22T16:50:25</JAT_start_time>
    </job_list>
  </queue_info>
  <job_info>
    <job_list state="pending">
      <JB_job_number>2</JB_job_number>
      <JB_name>mm-b-1</JB_name>
      <state>hqw</state>
      <JB_submission_time>2026-11-22T16:50:24</JB_submission_time>
    </job_list>
    <job_list state="pending">
      <JB_job_number>3</JB_job_number>
      <JB_name>mm-c-1</JB_name>
      <state>Eqw</state>
      <JB_submission_time>2026-11-22T16:50:24</JB_submission_time>
    </job_list>
  </job_info>
</job_info>
"""
QSTAT_SIGHTS = [
    JobStatus("mm-a-1", "1", None, Phase.RUNNING),
    JobStatus("mm-b-1", "2", 1795366224.0, Phase.PARKED),
    JobStatus("mm-c-1", "3", 1795366224.0, Phase.WAITING, None, "in error, state Eqw"),
]

CONDOR_Q = """\
[
{
  "ClusterId": 1,
  "HoldReason": "submitted on hold at user's request",
  "ClassAdJob": "mm-a-1",
  "JobStatus": 5,
  "QDate": 1795366233
}
,
{
  "ClusterId": 2,
  "ExitBySignal": true,
  "ExitSignal": 9,
  "ClassAdJob": "mm-b-1",
  "JobStatus": 4,
  "QDate": 1795366233
}
]
"""
CONDOR_SIGHTS = [
    JobStatus("mm-a-1", "1", 1795366233, Phase.PARKED, None, "submitted on hold at user's request"),
    JobStatus("mm-b-1", "2", 1795366233, Phase.ENDED, 137),
]

PBS = json.dumps(
    {
        "timestamp": 1795366233,
        "pbs_server": "head",
        "Jobs": {
            "7.head": {
                "Job_Name": "mm-a-1", "job_state": "H", "Hold_Types": "u",
                "ctime": "Sun Nov 22 16:50:24 2026", "Variable_List": {"CLASSAD_JOB": "mm-a-1"},
            },
            "8.head": {
                "Job_Name": "mm-long-name-wh", "job_state": "F", "Exit_status": 271,
                "ctime": "Sun Nov 22 16:50:24 2026",
                "Variable_List": {"CLASSAD_JOB": "mm-long-name-which-is-cut-1"},
            },
            "9.head": {"Job_Name": "other", "job_state": "R"},
        },
    }
)  # fmt: skip
PBS_SIGHTS = [
    JobStatus("mm-a-1", "7.head", 1795366224.0, Phase.PARKED),
    JobStatus("mm-long-name-which-is-cut-1", "8.head", 1795366224.0, Phase.CANCELLED, 143),
    JobStatus("other", "9.head", None, Phase.RUNNING),
]

TORQUE = (
    "<Data><Job><Job_Id>7.head</Job_Id><Job_Name>mm-a-1</Job_Name><job_state>C</job_state>"
    "<exit_status>3</exit_status><ctime>1795366224</ctime>"
    "<Variable_List>PBS_O_LANG=C,CLASSAD_JOB=mm-a-1</Variable_List></Job></Data>\n"
)
TORQUE_SIGHTS = [JobStatus("mm-a-1", "7.head", 1795366224.0, Phase.ENDED, 3)]

BJOBS = json.dumps(
    {
        "COMMAND": "bjobs",
        "JOBS": 3,
        "RECORDS": [
            {"JOBID": "7", "STAT": "PSUSP", "EXIT_CODE": "", "JOB_NAME": "mm-a-1",
             "PEND_REASON": "Job was suspended by the user while pending;"},
            {"JOBID": "8", "STAT": "EXIT", "EXIT_CODE": "3", "JOB_NAME": "mm-b-1"},
            {"JOBID": "9", "STAT": "DONE", "EXIT_CODE": "", "JOB_NAME": "mm-c-1"},
        ],
    }
)  # fmt: skip
BJOBS_SIGHTS = [
    JobStatus(
        "mm-a-1", "7", None, Phase.PARKED, None, "Job was suspended by the user while pending;"
    ),
    JobStatus("mm-b-1", "8", None, Phase.ENDED, 3),
    JobStatus("mm-c-1", "9", None, Phase.ENDED, 0),
]

QUEUES = {
    "slurm": (SQUEUE, SQUEUE_SIGHTS),
    "gridengine": (QSTAT, QSTAT_SIGHTS),
    "htcondor": (CONDOR_Q, CONDOR_SIGHTS),
    "pbs": (PBS, PBS_SIGHTS),
    "torque": (TORQUE, TORQUE_SIGHTS),
    "lsf": (BJOBS, BJOBS_SIGHTS),
}


QACCT = (
    "==============================================================\n"
    "qname        q                   \njobname      mm-a-1              \n"
    "jobnumber    1                   \nqsub_time    Sun Nov 22 16:50:24 2026\n"
    "failed       0    \nexit_status  3                   \ncpu          0.0\n"
)
ACCOUNTS = {"slurm": "17|COMPLETED|2026-11-22T16:49:26|0:0|mm-a-1\n", "gridengine": QACCT}


@pytest.mark.parametrize("name", QUEUES)
def test_a_queue_is_read(name: str) -> None:
    text, statuses = QUEUES[name]
    assert [s for s in READERS[name].queue(text) if "\n" not in s.name] == statuses


@pytest.mark.parametrize("name", QUEUES)
def test_a_queue_that_is_cut_anywhere_is_not_read(name: str) -> None:
    """Nothing is absent from a part; where nothing is left at all, the number of jobs is asked."""
    text, _ = QUEUES[name]
    whole = len(text.rstrip())
    for end in range(whole):
        part = text[:end]
        if not part.strip() and name in ("htcondor", "torque"):
            assert READERS[name].queue(part) == []
            continue
        with pytest.raises(UnreadableError):
            READERS[name].queue(part)


@pytest.mark.parametrize("name", QUEUES)
def test_a_line_lost_within_a_queue_is_noticed_or_changes_no_job(name: str) -> None:
    text, statuses = QUEUES[name]
    lines = text.splitlines(keepends=True)
    names = {sight.name for sight in statuses}
    for number in range(len(lines)):
        part = "".join(lines[:number] + lines[number + 1 :])
        if not part:
            continue
        try:
            found = {sight.name for sight in READERS[name].queue(part)}
        except UnreadableError:
            continue
        assert names <= found | {""}, part


def test_an_empty_queue_is_no_cut_one() -> None:
    assert READERS["slurm"].queue("\nlast_update_time=1 records=0\n") == []
    assert READERS["pbs"].queue('{"pbs_server": "head"}') == []
    assert READERS["lsf"].queue('{"JOBS": 0, "RECORDS": []}') == []


@pytest.mark.parametrize("name", QUEUES)
@pytest.mark.parametrize("text", ["[", "[" * 100_000, "\0", "<!DOCTYPE x><a/>", "[1]", '{"a": 1}'])
def test_anything_else_is_not_read(name: str, text: str) -> None:
    with pytest.raises(UnreadableError):
        READERS[name].queue(text)


def test_the_accounting_of_slurm_is_read() -> None:
    text = (
        "17|COMPLETED|2026-11-22T16:49:26|0:0|mm-a-1\n"
        "18|CANCELLED by 1000|2026-11-22T16:49:26|0:15|mm-b-1\n"
        "19|FAILED|Unknown|3:0|a|b\n"
    )
    assert READERS["slurm"].accounts(text) == [
        JobStatus("mm-a-1", "17", 1795366166.0, Phase.ENDED, 0),
        JobStatus("mm-b-1", "18", 1795366166.0, Phase.CANCELLED, 143, "CANCELLED by 1000"),
        JobStatus("a|b", "19", None, Phase.ENDED, 3),
    ]
    with pytest.raises(UnreadableError):
        READERS["slurm"].accounts(text[:-1])


def test_the_accounting_of_grid_engine_is_read() -> None:
    record = (
        "==============================================================\n"
        "qname        q                   \njobname      mm-a-1              \n"
        "jobnumber    1                   \nqsub_time    Sun Nov 22 16:50:24 2026\n"
        "failed       {}    \nexit_status  {}                   \ncpu          0.0\n"
    )
    text = record.format("0", "3") + record.format("100 : assumedly after job", "137 (Killed)")
    assert READERS["gridengine"].accounts(text) == [
        JobStatus("mm-a-1", "1", 1795366224.0, Phase.ENDED, 3),
        JobStatus("mm-a-1", "1", 1795366224.0, Phase.CANCELLED, 137, "100 : assumedly after job"),
    ]
    with pytest.raises(UnreadableError):
        READERS["gridengine"].accounts(text[:-10])


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("slurm", "17\n", "17"), ("slurm", "17;main\n", "17"), ("slurm", "17", None),
        ("slurm", "", None), ("gridengine", "17\n", "17"), ("gridengine", "17", None),
        ("gridengine", "17.1-4:1\n", None), ("htcondor", "17.0 - 17.0\n", "17"),
        ("htcondor", "17.0 - 17.3\n", None), ("htcondor", "17.0 - 1", None),
        ("pbs", "17.head.example.org\n", "17.head.example.org"), ("pbs", "17.he", None),
        ("torque", "17[].head\n", None),
        ("lsf", "Job <17> is submitted to queue <normal>.\n", "17"), ("lsf", "Job <17", None),
    ],
)  # fmt: skip
def test_an_id_is_read_whole_or_not(name: str, text: str, found: str | None) -> None:
    assert READERS[name].new_id(text) == found


def test_numbers_of_jobs_are_read() -> None:
    totals = "\n\nTotal for query: 12 jobs; 0 completed, 0 removed\nTotal for all users: 30 jobs\n"
    assert READERS["htcondor"].count(totals) == 12
    assert READERS["torque"].count("Server: head\n    total_jobs = 3\n") == 3
    for name in QUEUES:
        with pytest.raises(UnreadableError):
            READERS[name].count("")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("htcondor", '[{"ClusterId": 1, "JobStatus": [5], "ClassAdJob": "mm-a-1"}]'),
        ("htcondor", '[{"ClusterId": 1, "JobStatus": 5, "ClassAdJob": ["mm-a-1"]}]'),
        ("htcondor", '[{"ClusterId": 1, "JobStatus": true, "ClassAdJob": "mm-a-1"}]'),
        ("htcondor", '[{"ClusterId": "1;id", "JobStatus": 5, "ClassAdJob": "mm-a-1"}]'),
        ("htcondor", f'[{{"ClusterId": {"9" * 4301}, "JobStatus": 5, "ClassAdJob": "mm-a-1"}}]'),
        ("htcondor", ('[{"ClusterId": 1, "JobStatus": 4, "ClassAdJob": "mm-a-1", '
                     '"ExitBySignal": true, "ExitSignal": "x"}]')),
        ("htcondor", ('[{"ClusterId": 1, "JobStatus": 4, "ClassAdJob": "mm-a-1", '
                     '"ExitCode": "zero"}]')),
        ("htcondor", '[{"ClusterId": 1, "JobStatus": 5, "QDate": "x", "ClassAdJob": "mm-a-1"}]'),
        ("htcondor", '[{"ClusterId": 1, "JobStatus": 5, "QDate": 1e999, "ClassAdJob": "a"}]'),
        ("lsf", '{"JOBS": 1, "RECORDS": [{"JOBID": "7", "STAT": "EXIT", "EXIT_CODE": "\u00b2"}]}'),
        ("lsf", (f'{{"JOBS": 1, "RECORDS": [{{"JOBID": "7", "STAT": "EXIT", '
                f'"EXIT_CODE": "{"9" * 4301}"}}]}}')),
        ("lsf", '{"JOBS": 1, "RECORDS": [{"JOBID": [7], "STAT": "RUN"}]}'),
        ("pbs", '{"pbs_server": "h", "Jobs": {"7.h": {"job_state": "R", "ctime": "\u00b2"}}}'),
        ("pbs", (f'{{"pbs_server": "h", "Jobs": {{"7.h": {{"job_state": "F", '
                f'"Exit_status": "{"9" * 4301}"}}}}}}')),
        ("pbs", '{"pbs_server": "h", "Jobs": {"7 h": {"job_state": "R"}}}'),
        ("torque", ("<Data><Job><Job_Id>7.h</Job_Id><job_state>R</job_state>"
                   f"<ctime>{'9' * 400}</ctime></Job></Data>")),
        ("gridengine", QSTAT.replace("<JB_job_number>1<", f"<JB_job_number>{'9' * 4301}<")),
        ("slurm", SQUEUE.replace("17|CAN", f"{'9' * 4301}|CAN")),
        ("slurm", SQUEUE.replace("|768|", f"|{'9' * 4301}|")),
        ("slurm", SQUEUE.replace("=1795366170", f"={'9' * 4301}")),
        ("slurm", SQUEUE.replace("records=7", f"records={'9' * 4301}")),
    ],
)  # fmt: skip
def test_a_strange_value_is_no_answer(name: str, text: str) -> None:
    with pytest.raises(UnreadableError):
        READERS[name].queue(text)


def test_a_row_within_a_name_is_no_job() -> None:
    """The number of records is that of the others, and a name pretends to be one of ours."""
    text = (
        "last_update_time=1795366170 records=1\n"
        "50|PENDING|2026-11-22T16:49:26|2026-11-22T16:59:26|0|4294901758|None||x\n"
        "99|COMPLETED|2026-11-22T16:49:26|2026-11-22T16:49:26|0|4294901759|None||mm-a-1|\n"
    )
    with pytest.raises(UnreadableError):
        READERS["slurm"].queue(text)
    with pytest.raises(UnreadableError):
        READERS["slurm"].accounts(
            "17|COMPLETED|2026-11-22T16:49:26|0:0|x\n99|COMPLETED|2026-11-22T16:49:26|0:0|mm-a-1\n"
            "y\n"
        )


@pytest.mark.parametrize("status", ["\u00b2:0", "0:\u00b2", f"{'9' * 4301}:0", "1" * 400 + ":0"])
def test_a_strange_exit_status_of_the_accounting_is_no_answer(status: str) -> None:
    with pytest.raises(UnreadableError):
        READERS["slurm"].accounts(f"17|COMPLETED|2026-11-22T16:49:26|{status}|mm-a-1\n")


@pytest.mark.parametrize("name", QUEUES)
def test_numbers_without_end_are_no_answer(name: str) -> None:
    many = "9" * 4301
    with pytest.raises(UnreadableError):
        READERS[name].count(f"Total for query: {many} jobs; x\n total_jobs = {many}\n")
    for text in (f"{many}\n", f"{many}.0 - {many}.0\n", f"Job <{many}> is submitted to queue x\n"):
        assert READERS[name].new_id(text) is None


ODD = st.sampled_from(
    ["\u00b2", "9" * 4301, "-1", "1e999", "NaN", "null", "[", "{}", "true", "\0", "\n", "|",
     "mm-z-9", "0", "\u0661", '"', "<", "\ud800", " ", "None", "Unknown", "256", "1795366226"]
)  # fmt: skip


@pytest.mark.parametrize("name", QUEUES)
@given(data=st.data())
def test_every_answer_is_read_or_unanswered(name: str, data: st.DataObject) -> None:
    """Anything may stand anywhere in an answer: jobs in the documented form, or no answer."""
    text = data.draw(st.sampled_from([QUEUES[name][0], ACCOUNTS.get(name, QUEUES[name][0])]))
    for _ in range(data.draw(st.integers(0, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 12)))
        text = text[:start] + data.draw(ODD | st.text(max_size=5)) + text[end:]
    reader = READERS[name]
    for read in (reader.queue, reader.accounts):
        try:
            found = read(text)
        except UnreadableError:
            continue
        for sight in found:
            assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.\[\]-]{0,99}", sight.remote_id)
            assert sight.submitted is None or math.isfinite(sight.submitted)
            assert sight.exit is None or 0 <= sight.exit < 1 << 32
            assert isinstance(sight.phase, Phase)
            assert isinstance(sight.why, str)
    number = reader.new_id(text)
    assert number is None or len(number) < 200


COMPLETED = """<Data><Job><Job_Id>1.h</Job_Id><Job_Name>mm-a-1</Job_Name>
<job_state>C</job_state><exit_status>{}</exit_status></Job></Data>"""
CODES = {
    "slurm": [
        ("1|OUT_OF_MEMORY|Unknown|0:9|mm-a-1\n", ReasonCode.OUT_OF_MEMORY),
        ("1|TIMEOUT|Unknown|0:15|mm-a-1\n", ReasonCode.TIMEOUT),
        ("1|DEADLINE|Unknown|0:0|mm-a-1\n", ReasonCode.TIMEOUT),
        ("1|PREEMPTED|Unknown|0:15|mm-a-1\n", ReasonCode.PREEMPTED),
        ("1|NODE_FAIL|Unknown|0:0|mm-a-1\n", ReasonCode.NODE_FAIL),
        ("1|CANCELLED by 7|Unknown|0:15|mm-a-1\n", None),
    ],
    "htcondor": [
        (json.dumps([{"ClusterId": 1, "JobStatus": 3, "ClassAdJob": "mm-a-1", "QDate": 5,
                      "RemoveReason": "via condor_rm", "LastHoldReasonCode": number}]), code)
        for number, code in ((15, None), (34, ReasonCode.OUT_OF_MEMORY), (46, ReasonCode.TIMEOUT))
    ],
    "lsf": [
        (json.dumps({"JOBS": 1, "RECORDS": [
            {"JOBID": "1", "STAT": "EXIT", "JOB_NAME": "mm-a-1", "EXIT_CODE": "140",
             "EXIT_REASON": why},
        ]}), code)
        for why, code in (
            ("TERM_RUNLIMIT: job killed after reaching LSF run time limit", ReasonCode.TIMEOUT),
            ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit",
             ReasonCode.OUT_OF_MEMORY),
            ("", None),
        )
    ],
    "pbs": [
        (json.dumps({"pbs_server": "h", "Jobs": {"1.h": {
            "Job_Name": "mm-a-1", "job_state": "F", "Exit_status": status}}}), code)
        for status, code in (
            (-29, ReasonCode.TIMEOUT), (-27, ReasonCode.OUT_OF_MEMORY), (-11, None), (271, None),
        )
    ],
    "torque": [
        (COMPLETED.format(status), code)
        for status, code in ((-10, ReasonCode.OUT_OF_MEMORY), (-11, ReasonCode.TIMEOUT), (-2, None))
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("lrms", "text", "code"), [(lrms, *row) for lrms, rows in CODES.items() for row in rows]
)
def test_why_it_ended_has_a_code(lrms: str, text: str, code: ReasonCode | None) -> None:
    (found,) = READERS[lrms].accounts(text)
    assert found.code is code
