"""Hands jobs over: the shell around the pure states, and the only part that acts.

A :class:`Delegator` records what is to happen, then does it, then records the result. It may be
killed between any two of these steps: whoever reconciles next continues.
:mod:`matchmaker.delegation.states` decides; the interfaces of :mod:`matchmaker.delegation.contact`
hide how a batch system is asked.
"""

from __future__ import annotations

import getpass
import secrets
import socket
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from matchmaker.batch import Submission
from matchmaker.batch.policy import encoded
from matchmaker.classad import ClassAd, Expr, dumps
from matchmaker.delegation import states
from matchmaker.delegation.contact import BatchSystem, Spool, check_key
from matchmaker.delegation.effects import TRIES, Means, digest_of, hand_in, script_at
from matchmaker.delegation.errors import KeyTakenError, RefusedError, UnansweredError
from matchmaker.delegation.limits import LIMITS
from matchmaker.delegation.observation import Silence
from matchmaker.delegation.reconcile import Reconciliation, rebuild, reconcile
from matchmaker.delegation.record import Deadlines, Payload, Record, State, Transition

if TYPE_CHECKING:
    from matchmaker.delegation.ledger import Ledger


class Delegator:
    """Hands jobs over to one batch system under the contract of docs/delegation.md.

    Several may share a ledger, on one machine or, with PostgreSQL, on many. Every method raises
    LedgerError where the ledger cannot be read or written; no job has been submitted then that the
    ledger does not know.
    """

    def __init__(
        self,
        ledger: Ledger,
        system: BatchSystem | str = "slurm",
        spool: Spool | str | Path | None = "",
        *,
        cluster: str | None = None,
        deadlines: Deadlines = states.DEFAULT,
        owner: str | None = None,
        parallel: int = 1,
        clock: Callable[[], float] = time.time,
        new_key: Callable[[], str] | None = None,
    ) -> None:
        """A delegator on a ledger.

        Args:
            ledger: where the records are.
            system: the batch system, by its name or as an object.
            spool: the records of starts and ends, or their directory, which the nodes must share;
                by default a directory beside a ledger of SQLite. None: there are no records, and
                only the batch system's answers count.
            cluster: which of several batch systems of its kind this is, where one ledger serves
                them all. What one does not show is not absent from the others.
            deadlines: how long each step may take.
            owner: who hands jobs over; by default the user at this machine.
            parallel: how many commands of the batch system may run at a time.
            clock: gives the time in seconds since 1970.
            new_key: makes the keys of jobs that come without one.

        Raises:
            ValueError: the batch system is not known, or a spool must be named.
        """
        kept = _spool(spool, ledger)
        asked = _system(system, fenced=kept is not None) if isinstance(system, str) else system
        name = asked.name if cluster is None else f"{asked.name}@{check_key(cluster)}"
        self._means = Means(
            ledger,
            asked,
            kept,
            deadlines,
            owner if owner is not None else f"{_user()}@{socket.gethostname()}",
            parallel,
            clock,
            name,
        )
        self._new_key = new_key if new_key is not None else _random_key

    # --- what the owner asks for --------------------------------------------------------------

    def submit(
        self,
        job: ClassAd,
        script: str | Path,
        submission: Submission | Sequence[str] | None = None,
        *,
        key: str | None = None,
        lease: float | None = None,
        policy: Expr | None = None,
    ) -> Record:
        """Hands a job over: it is written down, and submitted so that it cannot start yet.

        A later :meth:`reconcile` commits it. The same key with the same job gives the record that
        there is, and submits nothing.

        Args:
            job: the job's ad, which travels with it.
            script: the job's script.
            submission: the flags for the batch system, or words.
            key: the job's name in the ledger; by default a new one.
            lease: how many seconds the job lives after its owner last renewed it.
            policy: what the job requires of its queue's policy, which travels with it.

        Raises:
            OSError: the script cannot be read.
            RefusedError: a job cannot be submitted from here as it is: a word is no option of the
                batch system's command, the command is missing, or the spool cannot be used.
                Nothing was written down.
            KeyTakenError: the key stands for another job.
            ValueError: the key, the lease or a word is not valid, something is too large, or the
                flags are for another system.
            NoFlagsError: the policy is too long to travel with the job.
        """
        key = check_key(key if key is not None else self._new_key())
        _check_lease(lease)
        text = dumps(job)
        if len(text) > LIMITS.ad:
            raise ValueError(f"the job's ad has more than {LIMITS.ad} characters")
        metadata = {"key": key, "owner": self._means.owner, "ad": text}
        if policy is not None:
            metadata["policy"] = encoded(policy)
        path = Path(script).absolute()
        words = self._words(submission)
        content = script_at(path)
        self._check_place(words, path)
        payload = Payload(text, str(path), words, tuple(metadata.items()))
        digest = digest_of(payload, content, self._means.system.name)
        made = states.begin(
            key, self._means.clock(), self._means.deadlines, lease=lease, owner=self._means.owner,
            cluster=self._means.cluster, digest=digest,
        )  # fmt: skip
        written = self._means.ledger.add(made.record, payload, self._means.owner)
        if written is None:
            known = self.job(key)
            if known.digest != digest:
                raise KeyTakenError(
                    f"the key {key} stands for another job, handed over by {known.owner}; choose "
                    f"another key"
                )
            return known
        (park,) = made.effects
        return hand_in(self._means, written, park, (payload, content)) or self.job(key)

    def job(self, key: str) -> Record:
        """The record of a job. Raises NoJobError for an unknown key."""
        return self._means.ledger.get(key)

    def history(self, key: str) -> list[Transition]:
        """The transitions of a job, the first one first. Raises NoJobError for an unknown key."""
        self.job(key)
        return self._means.ledger.history(key)

    def renew(self, key: str, seconds: float | None = None) -> Record:
        """Makes a job's lease run from now on, for `seconds` or as long as it was given for.

        Raises NoJobError, NotPossibleError for a job that has no lease to renew, and
        UnansweredError where the job itself may still have the lease from before.
        """
        _check_lease(seconds)
        record = self._update(
            key, lambda known: states.renewed(known, self._means.clock(), seconds)
        )
        spool = self._means.spool
        if spool is not None and record.state in {State.COMMITTED, State.RUNNING}:
            left = record.lease_until - self._means.clock()
            answer = None
            if record.state is State.COMMITTED:
                # Its commit may not be on record yet, and the lease would begin with the old one.
                answer = spool.commit(key, record.attempt, left)
            answer = answer or spool.renew(key, record.attempt, left)
            if isinstance(answer, Silence):
                raise UnansweredError(
                    f"{key}: the ledger has the new lease, and the job may still end by the one "
                    f"from before: renew it again ({answer.reason})"
                )
        return record

    def cancel(self, key: str) -> Record:
        """Ends a job, or begins to: the wish is written down, then one look follows.

        Raises NoJobError, and NotPossibleError for a job that has ended otherwise.
        """
        self._update(key, states.wish_end)
        self.reconcile([key])
        return self.job(key)

    def resume(self, key: str) -> Record:
        """Submits a paused job again, as often as at first, once one look shows that it may be.

        Raises NoJobError, and NotPossibleError for a job that is not paused.
        """
        means = self._means
        self._update(key, lambda known: states.resumed(known, means.clock(), means.deadlines))
        self.reconcile([key])
        return self.job(key)

    def acknowledge(self, key: str) -> Record:
        """Takes the result of a job that has ended; the records of its start and end are removed.

        Raises NoJobError, and NotPossibleError for a job that has not ended.
        """
        record = self._update(key, lambda known: states.acknowledged(known, self._means.clock()))
        if self._means.spool is not None:
            self._means.spool.forget(key, record.digest)
        return record

    # --- what keeps the jobs going ------------------------------------------------------------

    def reconcile(self, keys: Collection[str] | None = None) -> Reconciliation:
        """One look at the batch system, and one move at most for each live job.

        Asks the batch system for its queue once, and for its accounting at most once. Safe to run
        at any time, anywhere, as often as wanted.

        Args:
            keys: only these jobs; by default all live ones.
        """
        return reconcile(self._means, keys)

    def rebuild(self) -> Reconciliation:
        """Makes the missing records anew from the batch system and the records of starts and ends.

        What the ledger has stays, unless there is a later attempt of a live job. Whoever had the
        ledger open must open it again.

        Raises UnansweredError while the batch system or the spool gives no answer.
        """
        return rebuild(self._means)

    # --- how it is done -----------------------------------------------------------------------

    def _words(self, submission: Submission | Sequence[str] | None) -> tuple[str, ...]:
        goes_to = self._means.system.name
        if isinstance(submission, Submission) and submission.lrms != goes_to:
            raise ValueError(f"the flags are for {submission.lrms}, and the job goes to {goes_to}")
        words = submission.argv if isinstance(submission, Submission) else tuple(submission or ())
        for word in words:
            if not word.isprintable():
                raise ValueError(f"no word for a command: {word[:80]!r}")
        if sum(map(len, words)) > LIMITS.words:
            raise ValueError(f"the words for the command have more than {LIMITS.words} characters")
        return words

    def _check_place(self, words: Sequence[str], script: Path) -> None:
        """Raises RefusedError where nothing could be submitted from here."""
        folder: Path | Silence = script
        if self._means.spool is not None:
            folder = self._means.spool.ready()
        if isinstance(folder, Silence):
            raise RefusedError(f"the spool cannot be used: {folder.reason}")
        why = self._means.system.refusal(words, folder)
        if why:
            raise RefusedError(why)

    def _update(self, key: str, change: Callable[[Record], Record]) -> Record:
        """Changes a record, and again if another wrote it meanwhile."""
        for _ in range(TRIES):
            known = self.job(key)
            wanted = change(known)
            if wanted == known:
                return known
            written = self._means.ledger.save([(known, wanted)], self._means.owner)[0]
            if written is not None:
                return written
        raise ValueError(f"{key} is being changed by others all the time; try again")


def _check_lease(seconds: float | None) -> None:
    if seconds is not None and not 0 < seconds <= LIMITS.seconds:
        raise ValueError(
            f"a lease is a number of seconds above 0, up to {LIMITS.seconds}, not {seconds!r}"
        )


def _random_key() -> str:
    """Ten characters: with ``mm-`` and an attempt, as long a name as every batch system takes."""
    return "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(10))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _system(name: str, *, fenced: bool) -> BatchSystem:
    from matchmaker.delegation.commands import Commands
    from matchmaker.delegation.control import load_control

    return Commands(load_control(name), fenced=fenced)


def _spool(spool: Spool | str | Path | None, ledger: Ledger) -> Spool | None:
    """The spool itself, of a directory, or beside the ledger."""
    if not isinstance(spool, (str, Path)):
        return spool
    if spool == "" and not ledger.sqlite:
        raise ValueError("name the spool's directory: a ledger of PostgreSQL has none beside it")
    from matchmaker.delegation.spool import SharedSpool

    return SharedSpool(Path(spool or f"{ledger.place}.spool"))
