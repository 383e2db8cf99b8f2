"""The two interfaces to the outside: a batch system, and the records of starts and ends.

Commands of real batch systems and a shared directory implement them, and so does the simulated
batch system of the tests. No method raises because of the other side: any answer that is not
reliable is a :class:`NoAnswer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import attrs

from matchmaker.delegation.control import OwnOptions
from matchmaker.delegation.record import Answer, NoAnswer, Payload, Refused


class BatchSystem(Protocol):
    """A batch system that jobs are handed to. Every method returns."""

    @property
    def name(self) -> str:
        """The name of the batch system, such as ``slurm``."""

    def refusal(self, words: Sequence[str], folder: Path) -> str:
        """Return why a job with these words and its script in a folder cannot be submitted here.

        The text is empty if it can be. Called before anything is recorded; asks no other machine.
        """

    def own_options(
        self, script: bytes, environment: Mapping[str, str], given: Sequence[str],
        found: Sequence[str] = (),
    ) -> OwnOptions:  # fmt: skip
        """An owner's options: those given, those of variables, and those in lines of the script.

        Raises RefusedError for one that cannot be honoured, and for a given one that contradicts
        those ``found`` for the job.
        """

    def sets_directory(self, words: Sequence[str]) -> bool:
        """Whether the words say in which directory the job runs."""

    def park(
        self, name: str, script: Path, words: Sequence[str], *, metadata: Mapping[str, str],
        seconds: float, directory: str, environment: Mapping[str, str], umask: str = "",
    ) -> str | Refused | NoAnswer:  # fmt: skip
        """Submit a job so that it cannot start for `seconds`, or until it is released.

        Args:
            name: the name of the job, ``mm-KEY-N``.
            script: the script, a path that the batch system's commands take as it is.
            words: options, as of ``Submission.argv``.
            metadata: names and values that the job carries as far as the batch system has room.
            seconds: how long it must not start.
            directory: the working directory of the batch system's command.
            environment: the variables that it runs with, and may give to the job.
            umask: the same of the bits that new files do not get, in octal; empty for this
                process's.

        Returns:
            The batch system's id; Refused if it definitely will not take such a job; NoAnswer for
            every other outcome: an error, a lost reply.
        """

    def look(self) -> Answer:
        """All jobs with names that begin ``mm-``, in one call of the batch system's command."""

    def recall(self, names: Mapping[str, str], since: float) -> Answer:
        """The named jobs in the batch system's accounting, from a time on (seconds since 1970).

        Each name has the job's id, or an empty text if that is unknown.

        A job that is absent there may still be in the queue. ``QueueListing(())`` if a batch
        system keeps no accounting.
        """

    def release(self, jobs: Sequence[tuple[str, str]]) -> Sequence[NoAnswer | None]:
        """Let parked jobs start, each by its id and name, if the id has that name.

        None for each that was released.
        """

    def cancel(self, remote_id: str, name: str) -> NoAnswer | None:
        """End a job, if the id has that name. None once the batch system took the request."""


@attrs.frozen(slots=True)
class SpoolMarks:
    """Records of an attempt in the spool.

    Attributes:
        committed: the job may start.
        started: a job took the exclusive record of the start.
        forbidden: the exclusive record was taken so that no job can take it any more.
        exit: the exit status in the record of the end; None without such a record.
        job: the digest of the job that they are of; empty if they do not say.
        stopped: its lease was ended after its start, and its end is not on record.
        over: the job itself saw that its lease was over, and ended its payload.
    """

    committed: bool = False
    started: bool = False
    forbidden: bool = False
    exit: int | None = None
    job: str = ""
    stopped: bool = False
    over: bool = False


@attrs.frozen(slots=True, kw_only=True)
class Origin:
    """Whose attempt it is: what makes the job's row anew, and its mark the same, if that is lost.

    Attributes:
        ledger: the ledger's identity.
        place: the ledger's file or URL.
        created: when the key came into the ledger.
        owner: who handed the job over.
        job: the digest of the job.
        lease: the length of its lease, in seconds; None if it does not say.
        from_start: its lease begins when the payload starts.
    """

    ledger: str
    place: str = ""
    created: float = 0.0
    owner: str = ""
    job: str = ""
    lease: float | None = None
    from_start: bool = False


class Spool(Protocol):
    """Records of commits, starts, leases and ends, which the job's start script shares.

    Each record is written atomically and survives a crash once the method returned None.
    """

    @property
    def place(self) -> str:
        """The name of the spool in the ledger, by which each look at its jobs finds it."""

    def ready(self) -> Path | NoAnswer:
        """Make the place for records, if there is none; return the folder of all scripts."""

    def prepare(
        self, key: str, attempt: int, payload: Payload, job: str = "", cluster: str = ""
    ) -> Path | NoAnswer:
        """Make room for an attempt; return the script to submit, which fences the payload.

        With the digest of a job, NoAnswer if the room is another job's. ``cluster`` is the batch
        system that it is made for.
        """

    def sign(self, key: str, attempt: int, origin: Origin) -> NoAnswer | None:
        """Write down whose attempt it is, and whose spool, if that is not on record."""

    def origins(
        self, names: Iterable[tuple[str, int]]
    ) -> Mapping[tuple[str, int], Origin] | NoAnswer:
        """Return the origin of each attempt (key, attempt) that has one on record."""

    def described(self, names: Iterable[tuple[str, int]]) -> Mapping[str, Payload] | NoAnswer:
        """Return the payloads of attempts (key, attempt) by key, as far as they are on record."""

    def first(self) -> Origin | NoAnswer | None:
        """Whose spool it is: the ledger that signed first; None if none did."""

    def commit(
        self, key: str, attempt: int, seconds: float, length: float | None = None
    ) -> NoAnswer | None:
        """Let the attempt's payload start, with a lease of `seconds` from now; again: no change.

        With a `length`, it may start within `seconds`, and then runs for that long.

        Lengths of time, not moments, so that the clocks of two machines need not agree.
        """

    def renew(
        self, key: str, attempt: int, seconds: float, length: float | None = None
    ) -> NoAnswer | None:
        """Make the lease end `seconds` from now; at 0 or less at once.

        With a `length`, a payload that has started runs for that long from now, and one that has
        not as after :meth:`commit`.
        """

    def forbid(self, key: str, attempt: int) -> NoAnswer | None:
        """Take the exclusive record of the start if it is free, so that no payload can start.

        None whether it was free or not; :meth:`marks` then says who has it.
        """

    def marks(
        self, names: Iterable[tuple[str, int]]
    ) -> Mapping[tuple[str, int], SpoolMarks | NoAnswer] | NoAnswer:
        """The records of attempts (key, attempt), each in the answer; of all of them, or NoAnswer.

        An attempt whose records alone cannot be read has a NoAnswer.
        """

    def attempts(self) -> Mapping[tuple[str, int], str] | NoAnswer:
        """Every attempt (key, attempt) that there is room for, and its batch system.

        The batch system is empty if it is not on record.
        """

    def forget(self, key: str, job: str = "") -> NoAnswer | None:
        """Remove the records of a key after its owner has taken the result.

        With the digest of a job, NoAnswer if a record is another job's.
        """
