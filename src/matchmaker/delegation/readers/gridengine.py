"""Read the answers of Grid Engine's commands: XML of ``qstat``, records of ``qacct``."""

from __future__ import annotations

import re
from typing import Final

from matchmaker.delegation.readers.reading import Reader, UnreadableError, as_xml, moment, seen
from matchmaker.delegation.record import JobStatus, Phase, ReasonCode


def _queue(text: str) -> list[JobStatus]:
    found = []
    for job in as_xml(text).iter("job_list"):
        fact = {part.tag: (part.text or "").strip() for part in job}
        name, number, state = (fact.get(n, "") for n in ("JB_name", "JB_job_number", "state"))
        if not (name and number and state):
            raise UnreadableError("a job without its name, number or state")
        submitted = moment(fact.get("JB_submission_time", ""))
        ours, mark = _name(name)
        why = f"in error, state {state}" if "E" in state else ""
        found.append(seen(ours, number, submitted, _phase(state), None, why, mark))
    return found


def _name(name: str) -> tuple[str, str]:
    """Our name and the mark in the name of a job, which has nothing else that a listing shows."""
    match = _MARKED.fullmatch(name)
    return (match[1], match[2]) if match else (name, "")


def _phase(state: str) -> Phase:
    """The phase for letters such as ``hqw``, ``Eqw``, ``r``, ``dr``, ``t``, ``Rr``, ``z``."""
    if "z" in state:
        return Phase.CANCELLED
    if "q" in state:
        return Phase.PARKED if "h" in state else Phase.WAITING
    return Phase.RUNNING


# Codes of sge_status(5): 37 and 100 also stand for a limit of memory, which they do not tell apart.
_CODES: Final = {"37": ReasonCode.TIMEOUT}
# A site's script may put something in front of a name.
_MARKED: Final = re.compile(r"(?:.*[^A-Za-z0-9])?(mm-.*-[0-9]+)\.([0-9a-f]{16})")
_SEPARATOR: Final = re.compile(r"^={20,}$", re.MULTILINE)


def _accounts(text: str) -> list[JobStatus]:
    found = []
    if not text.endswith("\n"):
        raise UnreadableError("cut short: a line without its end")
    for record in _SEPARATOR.split(text)[1:]:
        fact = dict(re.findall(r"^(\w+) +(.*?) *$", record, re.MULTILINE))
        # The last line of a record is arid or pe_taskid by version; exit_status stands before.
        if (
            not {"jobname", "jobnumber", "exit_status", "failed"} <= fact.keys()
            or "cpu" not in fact
        ):
            raise UnreadableError("cut short: a record without its end")
        submitted = moment(fact.get("qsub_time", ""), "%a %b %d %H:%M:%S %Y")
        code = re.fullmatch(r"([0-9]{1,9})( .*)?", fact["exit_status"])
        if code is None:
            raise UnreadableError("a record without its exit status")
        name, mark = _name(fact["jobname"])
        failed = fact["failed"].split(" ")[0] not in ("0", "")
        why = fact["failed"] if failed else ""
        found.append(
            seen(name, fact["jobnumber"], submitted,
                 Phase.CANCELLED if failed else Phase.ENDED, code[1], why, mark,
                 _CODES.get(fact["failed"].split(" ")[0]))
        )  # fmt: skip
    return found


READER: Final = Reader(r"\A([0-9]{1,15})\n\Z", _queue, _accounts)
