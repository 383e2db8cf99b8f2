"""Reads the answers of Slurm's commands, from version 22.05 on.

States: https://slurm.schedmd.com/squeue.html, "JOB STATE CODES". A state that is not in the table
is shown as running, with its name, because the job is there and has not ended.
"""

from __future__ import annotations

import re
from typing import Final

from matchmaker.delegation.observation import Phase, Sight
from matchmaker.delegation.readers.reading import (
    Reader,
    UnreadableError,
    moment,
    no_count,
    status_of,
)

_ENDED: Final = {"COMPLETED": Phase.ENDED, "FAILED": Phase.ENDED} | dict.fromkeys(
    ("CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY",
     "REVOKED"), Phase.CANCELLED,
)  # fmt: skip

_RECORDS: Final = re.compile(r"^last_update_time=([0-9]+) records=([0-9]+)\n", re.MULTILINE)
# Before the name, which comes last because it may hold anything, even a new line: id, state,
# submitted, may start from then on, exit status, priority, reason.
_ROW: Final = re.compile(
    r"^([0-9]+)\|([A-Z_]+)\|([0-9T:-]+|N/A|Unknown)\|([0-9T:-]+|N/A|Unknown)\|([0-9]+)\|([0-9]+)"
    r"\|([^|\n]*)\|",
    re.MULTILINE,
)


def _queue(text: str) -> list[Sight]:
    head = _RECORDS.search(text)
    if head is None:
        raise UnreadableError("cut short: it lacks the number of records")
    rows = list(_ROW.finditer(text, head.end()))
    ends = [row.start() for row in rows[1:]] + [len(text.rstrip()) + 1]
    names = [text[row.end() : end] for row, end in zip(rows, ends, strict=False)]
    whole = sum(name.endswith("|\n") for name in names)
    if whole != int(head[2]):
        raise UnreadableError(f"cut short: {whole} whole records of {head[2]}")
    now = float(head[1])
    return [_sight(row, name[:-2], now) for row, name in zip(rows, names, strict=True)]


def _sight(row: re.Match[str], name: str, now: float) -> Sight:
    number, state, submitted, eligible, wait, priority, reason = row.groups()
    # The reason that Slurm gives is of its last attempt to start the job, if there was one.
    held = priority == "0" or (moment(eligible) or 0.0) > now
    phase = _phase(state, held=held)
    done = phase in (Phase.ENDED, Phase.CANCELLED)
    why = reason if reason != "None" else ""
    why = why if state in ("PENDING", "FAILED", "COMPLETED") else f"{state} {why}".strip()
    exit_ = status_of(int(wait)) if done and (phase is Phase.ENDED or wait != "0") else None
    return Sight(name, number, moment(submitted), phase, exit_, why)


def _phase(state: str, *, held: bool) -> Phase:
    if state == "PENDING":
        return Phase.PARKED if held else Phase.WAITING
    return _ENDED.get(state, Phase.RUNNING)


def _accounts(text: str) -> list[Sight]:
    found = []
    for line in text.splitlines(keepends=True):
        fields = line.rstrip("\n").split("|", 4)
        if not line.endswith("\n") or len(fields) != 5:
            raise UnreadableError(f"cut short at {line[:80]!r}")
        number, state, submitted, code, name = fields
        phase = _phase(state.split(" ")[0], held=False)
        status, _, by = code.partition(":")
        exit_ = None
        if phase in (Phase.ENDED, Phase.CANCELLED) and status.isdigit() and by.isdigit():
            exit_ = 128 + int(by) if by != "0" else int(status)
            exit_ = None if phase is Phase.CANCELLED and exit_ == 0 else exit_
        why = "" if phase is Phase.ENDED else state
        found.append(Sight(name, number, moment(submitted), phase, exit_, why))
    return found


def _new_id(text: str) -> str | None:
    match = re.fullmatch(r"([0-9]+)(;[^\n]*)?\n", text)
    return match[1] if match else None


READER: Final = Reader(_new_id, _queue, _accounts, no_count)
