"""Read the answers of PBS Pro (JSON) and of Torque (XML).

Both number states by the same letters, and keep our name among the variables of a job, because the
names of jobs themselves are cut to 15 characters by some versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from matchmaker.delegation.readers.reading import (
    Reader,
    UnreadableError,
    as_json,
    as_xml,
    moment,
    seen,
    whole,
)
from matchmaker.delegation.record import JobStatus, Phase, ReasonCode

_PHASES: Final = {
    "H": Phase.PARKED, "W": Phase.PARKED, "Q": Phase.WAITING, "T": Phase.WAITING,
    "M": Phase.WAITING, "C": Phase.ENDED, "F": Phase.ENDED, "X": Phase.ENDED,
}  # fmt: skip
"""Letters of states; the others are of jobs that have started and not ended: R, E, S, U, B."""

_SIGNAL: Final = 256
"""An exit status is this and a signal's number, where a signal ended the job."""


_PRO: Final = {
    -26: ReasonCode.OUT_OF_MEMORY, -27: ReasonCode.OUT_OF_MEMORY, -28: ReasonCode.TIMEOUT,
    -29: ReasonCode.TIMEOUT,
}  # fmt: skip
"""JOB_EXEC_KILL_VMEM, _MEM, _CPUT and _WALLTIME of PBS Pro."""
_TORQUE: Final = {
    -10: ReasonCode.OUT_OF_MEMORY, -11: ReasonCode.TIMEOUT, -12: ReasonCode.TIMEOUT,
}  # fmt: skip
"""JOB_EXEC_OVERLIMIT_MEM, _WT and _CPUT of Torque's manual, "Job exit status"."""


def _status(
    number: str, fact: Mapping[str, str], variables: Mapping[str, str],
    codes: Mapping[int, ReasonCode],
) -> JobStatus:  # fmt: skip
    state = fact.get("job_state", "")
    if not number or not state:
        raise UnreadableError("a job without its number or its state")
    phase = _PHASES.get(state, Phase.RUNNING)
    code = fact.get("Exit_status", fact.get("exit_status", ""))
    exit_ = ended = None
    if phase is Phase.ENDED and code:
        value = -whole(code[1:]) if code.startswith("-") else whole(code)
        ended = codes.get(value)
        exit_ = value if value < _SIGNAL else 128 + value - _SIGNAL
        # Negative: PBS itself ended it, or never started it.
        if value < 0 or value in (_SIGNAL + 9, _SIGNAL + 15):
            phase, exit_ = Phase.CANCELLED, None if value < 0 else exit_
    created = fact.get("ctime", "")
    since = moment(created, "%a %b %d %H:%M:%S %Y")
    if since is None and created:
        since = float(whole(created))
    name = variables.get("CLASSAD_JOB", fact.get("Job_Name", ""))
    mark = variables.get("CLASSAD_MARK", "")
    return seen(name, number, since, phase, exit_, fact.get("comment", ""), mark, ended)


def _queue_json(text: str) -> list[JobStatus]:
    found = as_json(text)
    jobs = found.get("Jobs", {}) if isinstance(found, dict) else None
    if not isinstance(jobs, dict) or "pbs_server" not in found:
        raise UnreadableError("an object with pbs_server and Jobs was expected")
    return [_of_json(number, fact) for number, fact in jobs.items()]


def _of_json(number: str, fact: Any) -> JobStatus:
    if not isinstance(fact, dict):
        raise UnreadableError(f"job {number} is no object")
    variables = fact.get("Variable_List", {})
    variables = variables if isinstance(variables, dict) else {}
    plain = {name: str(value) for name, value in fact.items()}
    return _status(number, plain, {name: str(value) for name, value in variables.items()}, _PRO)


def _queue_xml(text: str) -> list[JobStatus]:
    if not text.strip():
        return []
    found = []
    for job in as_xml(text).iter("Job"):
        fact = {part.tag: (part.text or "").strip() for part in job}
        listed = (word.partition("=") for word in fact.get("Variable_List", "").split(","))
        found.append(_status(fact.get("Job_Id", ""), fact, {n: v for n, _, v in listed}, _TORQUE))
    return found


_NEW: Final = r"\A([0-9]{1,15}\.[A-Za-z0-9._-]{1,80}|[0-9]{1,15})\n\Z"
PBSPRO: Final = Reader(_NEW, _queue_json, _queue_json)
TORQUE: Final = Reader(_NEW, _queue_xml, _queue_xml, r"^ *total_jobs = ([0-9]+)\n")
