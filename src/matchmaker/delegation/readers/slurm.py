"""Read the answers of Slurm's commands, from version 22.05 on.

States: https://slurm.schedmd.com/squeue.html, "JOB STATE CODES". A state that is not in the table
is shown as running, with its name, because the job is there and has not ended.
"""

from __future__ import annotations

import re
from typing import Final

from matchmaker.delegation.readers.reading import (
    Reader,
    UnreadableError,
    carried,
    moment,
    seen,
    status_of,
    whole,
)
from matchmaker.delegation.record import JobStatus, Phase, ReasonCode

_ENDED: Final = {"COMPLETED": Phase.ENDED, "FAILED": Phase.ENDED} | dict.fromkeys(
    ("CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY",
     "REVOKED"), Phase.CANCELLED,
)  # fmt: skip

_CODES: Final = {
    "TIMEOUT": ReasonCode.TIMEOUT, "DEADLINE": ReasonCode.TIMEOUT,
    "PREEMPTED": ReasonCode.PREEMPTED, "OUT_OF_MEMORY": ReasonCode.OUT_OF_MEMORY,
    "NODE_FAIL": ReasonCode.NODE_FAIL, "BOOT_FAIL": ReasonCode.NODE_FAIL,
}  # fmt: skip

_RECORDS: Final = re.compile(r"^last_update_time=([0-9]+) records=([0-9]+)\n", re.MULTILINE)
# Before the comment and the name, which may hold anything, even a new line: id, state, submitted,
# may start from then on, exit status, priority, reason.
_ROW: Final = re.compile(
    r"^([0-9]+)\|([A-Z_]+)\|([0-9T:-]+|N/A|Unknown)\|([0-9T:-]+|N/A|Unknown)\|([0-9]{1,9})\|([0-9]+)"
    r"\|([^|\n]*)\|",
    re.MULTILINE,
)

_ACCOUNT: Final = re.compile(
    r"[0-9]+\|[A-Z_]+( [^|]*)?\|([0-9T:-]+|Unknown|None|N/A)\|[0-9]{1,9}:[0-9]{1,9}"
)


def _queue(text: str) -> list[JobStatus]:
    head = _RECORDS.search(text)
    if head is None:
        raise UnreadableError("cut short: it lacks the number of records")
    rows = list(_ROW.finditer(text, head.end()))
    ends = [row.start() for row in rows[1:]] + [len(text.rstrip()) + 1]
    tails = [text[row.end() : end] for row, end in zip(rows, ends, strict=False)]
    complete = sum(tail.endswith("|\n") for tail in tails)
    # A row that stands in a name would be one too many, or leave that name without its end.
    if not len(rows) == complete == whole(head[2]):
        raise UnreadableError(f"cut short, or with a row in a name: {complete} of {head[2][:20]}")
    now = float(whole(head[1]))
    return [_sight(row, tail[:-2], now) for row, tail in zip(rows, tails, strict=True)]


def _sight(row: re.Match[str], tail: str, now: float) -> JobStatus:
    number, state, submitted, eligible, wait, priority, reason = row.groups()
    comment, bar, name = tail.partition("|")
    # With another bar within, nobody can say where the name begins; none of ours has one.
    if not bar or "|" in name:
        comment, name = "", tail
    # The reason that Slurm gives is of its last attempt to start the job, if there was one.
    held = priority == "0" or (moment(eligible) or 0.0) > now
    phase = _phase(state, held=held)
    done = phase in (Phase.ENDED, Phase.CANCELLED)
    why = reason if reason != "None" else ""
    why = why if state in ("PENDING", "FAILED", "COMPLETED") else f"{state} {why}".strip()
    code = status_of(whole(wait))
    exit_ = code if done and (phase is Phase.ENDED or wait != "0") else None
    name, mark = carried(comment.rstrip(), name)
    return seen(name, number, moment(submitted), phase, exit_, why, mark, _CODES.get(state))


def _phase(state: str, *, held: bool) -> Phase:
    if state == "PENDING":
        return Phase.PARKED if held else Phase.WAITING
    return _ENDED.get(state, Phase.RUNNING)


def _accounts(text: str) -> list[JobStatus]:
    found = []
    *lines, rest = text.split("\n")
    if rest:
        raise UnreadableError("cut short: a line without its end")
    for line in lines:
        number, state, submitted, code, name = _fields(line)
        phase = _phase(state.split(" ")[0], held=False)
        status, _, by = code.partition(":")
        exit_ = None
        if phase in (Phase.ENDED, Phase.CANCELLED):
            exit_ = 128 + whole(by) if by != "0" else whole(status)
            exit_ = None if phase is Phase.CANCELLED and exit_ == 0 else exit_
        why = "" if phase is Phase.ENDED else state
        ended = _CODES.get(state.split(" ")[0])
        found.append(seen(name, number, moment(submitted), phase, exit_, why, "", ended))
    return found


def _fields(line: str) -> list[str]:
    """The fields of a line; one that does not begin as a job does is a part of a name."""
    fields = line.split("|", 4)
    if len(fields) != 5 or not _ACCOUNT.fullmatch("|".join(fields[:4])):
        raise UnreadableError(f"cut short, or a name of several lines, at {line[:80]!r}")
    return fields


READER: Final = Reader(r"\A([0-9]{1,15})(;[^\n]*)?\n\Z", _queue, _accounts)
