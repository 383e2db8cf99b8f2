"""Read the answers of LSF's commands: JSON of ``bjobs``, which has its own number of jobs."""

from __future__ import annotations

from typing import Final

from matchmaker.delegation.readers.reading import (
    Reader,
    UnreadableError,
    as_json,
    carried,
    seen,
    whole,
)
from matchmaker.delegation.record import JobStatus, Phase, ReasonCode

_PHASES: Final = {
    "PSUSP": Phase.PARKED, "PEND": Phase.WAITING, "FWD_PEND": Phase.WAITING, "WAIT": Phase.WAITING,
    "DONE": Phase.ENDED, "EXIT": Phase.ENDED,
}  # fmt: skip


_CODES: Final = {
    "TERM_RUNLIMIT": ReasonCode.TIMEOUT, "TERM_CPULIMIT": ReasonCode.TIMEOUT,
    "TERM_DEADLINE": ReasonCode.TIMEOUT, "TERM_MEMLIMIT": ReasonCode.OUT_OF_MEMORY,
    "TERM_SWAP": ReasonCode.OUT_OF_MEMORY, "TERM_PREEMPT": ReasonCode.PREEMPTED,
    "TERM_ZOMBI": ReasonCode.NODE_FAIL, "TERM_UNKNOWN": None, "TERM_OWNER": ReasonCode.CANCELLED,
    "TERM_FORCE_OWNER": ReasonCode.CANCELLED, "TERM_ADMIN": ReasonCode.CANCELLED,
    "TERM_FORCE_ADMIN": ReasonCode.CANCELLED,
}  # fmt: skip
"""The first word of ``exit_reason``, from IBM's page "Termination reasons displayed by bacct"."""


def _queue(text: str) -> list[JobStatus]:
    found = as_json(text)
    records = found.get("RECORDS") if isinstance(found, dict) else None
    if not isinstance(records, list) or found.get("JOBS") != len(records):
        raise UnreadableError("the number of jobs is not that of the records")
    return [_status(record) for record in records]


def _status(record: object) -> JobStatus:
    if not isinstance(record, dict) or not record.get("JOBID") or not record.get("STAT"):
        raise UnreadableError("a job without its number or its state")
    state = str(record["STAT"])
    # ZOMBI, UNKWN, RUN, USUSP, SSUSP: it has started, and no one knows that it has ended.
    phase = _PHASES.get(state, Phase.RUNNING)
    code = str(record.get("EXIT_CODE") or "")
    exit_ = whole(code) if state == "EXIT" and code else 0 if state == "DONE" else None
    if state == "EXIT" and exit_ is None:
        phase = Phase.CANCELLED
    why = str(record.get("PEND_REASON") or "") if phase in (Phase.PARKED, Phase.WAITING) else ""
    name, mark = carried(record.get("JOB_DESCRIPTION"), str(record.get("JOB_NAME", "")))
    ended = _CODES.get(str(record.get("EXIT_REASON") or "").partition(":")[0])
    # With a status 128 and more, and the words of a limit, LSF ended it.
    phase = Phase.CANCELLED if ended is not None and state == "EXIT" else phase
    why = str(record.get("EXIT_REASON")) if phase is Phase.CANCELLED and ended else why
    return seen(name, record["JOBID"], None, phase, exit_, why, mark, ended)


READER: Final = Reader(r"^Job <([0-9]{1,15})> is submitted to ", _queue, _queue)
