"""Read the answers of HTCondor's commands, JSON but for the totals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from matchmaker.delegation.readers.reading import Reader, UnreadableError, as_json, seen, whole
from matchmaker.delegation.record import JobStatus, Phase, ReasonCode

_PHASES: Final = {
    1: Phase.WAITING, 2: Phase.RUNNING, 3: Phase.CANCELLED, 4: Phase.ENDED, 5: Phase.PARKED,
    6: Phase.RUNNING, 7: Phase.RUNNING,
}  # fmt: skip
"""JobStatus: idle, running, removed, completed, held, transferring output, suspended."""


_CODES: Final = {
    "34": ReasonCode.OUT_OF_MEMORY, "46": ReasonCode.TIMEOUT, "47": ReasonCode.TIMEOUT,
}  # fmt: skip
"""Why a job that was removed had been held: JobOutOfResources, JobDurationExceeded,
JobExecuteExceeded of HTCondor's manual, "Hold Reason Codes"."""


def _jobs(text: str) -> list[JobStatus]:
    if not text.strip():
        return []
    found = as_json(text)
    if not isinstance(found, list) or not all(isinstance(ad, dict) for ad in found):
        raise UnreadableError("a list of ads was expected")
    return [_sight(ad) for ad in found]


def _sight(ad: Mapping[str, Any]) -> JobStatus:
    try:
        number, status, name = ad["ClusterId"], ad["JobStatus"], ad["ClassAdJob"]
        phase = _PHASES[whole(status)]
    except KeyError as error:
        raise UnreadableError(f"an ad without {error}, or with an unknown value of it") from None
    why = ad.get("HoldReason") or ad.get("RemoveReason") or ""
    exit_ = ad.get("ExitCode")
    if ad.get("ExitBySignal") and ad.get("ExitSignal") is not None:
        exit_ = 128 + whole(ad["ExitSignal"])
    done = phase is Phase.ENDED
    return seen(
        name, number, ad.get("QDate"), phase, exit_ if done else None, why, ad.get("ClassAdMark"),
        _CODES.get(str(ad.get("LastHoldReasonCode"))),
    )  # fmt: skip


READER: Final = Reader(
    r"\A([0-9]{1,15})\.0 - \1\.0\n\Z", _jobs, _jobs, r"^Total for query: ([0-9]+) jobs;.*\n"
)
