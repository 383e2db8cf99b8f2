"""Data of a job that is handed over: its record and states, its description, its log, answers.

A batch system answers with a listing of jobs, or with silence, which shows nothing absent.
:mod:`matchmaker.delegation.states` moves a record from state to state, and
:mod:`matchmaker.delegation.ledger` stores it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

import attrs

from matchmaker._limits import DELEGATION_LIMITS as LIMITS
from matchmaker.classad import parse_ad


def printable(text: str) -> str:
    r"""Return the words of a program without characters that a database or terminal cannot take.

    >>> printable("sbatch:\terror\x00\x1b[2J")
    'sbatch: error??[2J'
    """
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)


class Phase(StrEnum):
    """The place of a job in its life, as a batch system shows it.

    ``parked``: held, or with a begin time ahead: it cannot start yet. ``waiting``: it may start.
    ``running``: it has started; suspended jobs too. ``ended``: it runs no more, with an exit status
    if the batch system keeps one. ``cancelled``: ended by a person, a limit or the batch system.
    """

    PARKED = "parked"
    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    CANCELLED = "cancelled"


class ReasonCode(StrEnum):
    """The reason of a state, for programs; a record's ``reason`` has it in words.

    ``TIMEOUT``, ``OUT_OF_MEMORY``, ``PREEMPTED``, ``NODE_FAIL``, ``CANCELLED``: the batch system
    ended it, for that cause or at somebody's request. ``EXIT_STATUS``, ``SIGNAL``: its payload
    ended with a status other than 0, or by a signal. ``REFUSED``: the batch system will not take
    it. ``NO_ANSWER``: its submission had no definite answer. ``NOT_STARTED``: an
    attempt can start no more. ``OWNER``: its owner wants it ended. ``LEASE``: its lease ran out.
    ``LOST``: it is gone with no record of its end. ``REBUILT``: its row was made anew.
    """

    TIMEOUT = "TIMEOUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    PREEMPTED = "PREEMPTED"
    NODE_FAIL = "NODE_FAIL"
    CANCELLED = "CANCELLED"
    EXIT_STATUS = "EXIT_STATUS"
    SIGNAL = "SIGNAL"
    REFUSED = "REFUSED"
    NO_ANSWER = "NO_ANSWER"
    NOT_STARTED = "NOT_STARTED"
    OWNER = "OWNER"
    LEASE = "LEASE"
    LOST = "LOST"
    REBUILT = "REBUILT"


@attrs.frozen(slots=True)
class JobStatus:
    """A job as a batch system shows it at one look.

    Attributes:
        name: the name that it was submitted under, ``mm-KEY-N`` for attempt N of a key.
        remote_id: the batch system's id, which a batch system that lost its state may use again.
        submitted: when it was submitted, in seconds since 1970 by the batch system's clock, or
            None if it does not say.
        phase: its phase.
        exit: the exit status of a job that ended, or None if it is not known; 128 and the signal's
            number if a signal ended it.
        why: the batch system's own words for a job that does not go on, or empty.
        mark: the mark of the record that it was submitted for; empty if it does not show one.
        code: why the batch system ended it; None for a job that goes on or ended by itself.
    """

    name: str
    remote_id: str
    submitted: float | None
    phase: Phase
    exit: int | None = None
    why: str = ""
    mark: str = ""
    code: ReasonCode | None = None


@attrs.frozen(slots=True)
class QueueListing:
    """A healthy answer: every job of ours that the batch system knows. Others are absent."""

    statuses: tuple[JobStatus, ...]


@attrs.frozen(slots=True)
class NoAnswer:
    """No answer that can be relied on: an error, a time-out or a cut output. Nothing is absent."""

    reason: str = attrs.field(converter=printable)


@attrs.frozen(slots=True)
class Refused:
    """A definite refusal of a submission; the same one would be refused again."""

    reason: str


Answer = QueueListing | NoAnswer


class KeyTakenError(ValueError):
    """A key stands for another job already, so that nothing was submitted."""


class RefusedError(ValueError):
    """A job cannot be submitted from here as it is, so that nothing was written down."""


class NoJobError(ValueError):
    """No job has the key."""


class UnansweredError(ValueError):
    """The batch system or the spool gives no answer; the message says which step is open."""


PREFIX: Final = "mm-"
"""How the name of every job begins that was handed over here."""

_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def check_key(key: str) -> str:
    """The key, if it may name a job; it becomes part of the job's name and of file names.

    Raises ValueError for anything but 1 to 64 letters, digits, ``_``, ``.`` and ``-`` of ASCII, a
    letter or digit first.
    """
    if not _KEY.fullmatch(key):
        raise ValueError(
            f"a key has 1 to 64 letters, digits, '_', '.' or '-', a letter or digit first; "
            f"not {key[:80]!r}"
        )
    return key


def job_name(key: str, attempt: int) -> str:
    """The name under which an attempt is submitted.

    >>> job_name("k7", 2)
    'mm-k7-2'
    """
    return f"{PREFIX}{key}-{attempt}"


def key_of(name: str) -> tuple[str, int] | None:
    """The key and the attempt in a job's name; None if the name is not one of ours.

    >>> key_of("mm-run-3.b-12"), key_of("mm-x"), key_of("other-1")
    (('run-3.b', 12), None, None)
    """
    key, dash, attempt = name.removeprefix(PREFIX).rpartition("-")
    ours = name.startswith(PREFIX) and dash and _KEY.fullmatch(key)
    if not ours or not re.fullmatch(r"[1-9][0-9]{0,5}", attempt):
        return None
    return key, int(attempt)


class JobState(StrEnum):
    """The state of a transfer.

    ``intent``: written down, and then submitted so that it cannot start. ``unknown``: whether the
    batch system has it is not known. ``paused``: it was submitted as often as it may be, without a
    start, and waits for its owner. ``prepared``: the batch system has it, and it cannot start.
    ``committed``: it may start, once. ``running``: its payload started. ``cancelling``: it is
    being ended. The others are terminal: ``done``, ``failed``, ``cancelled``, ``lost`` (gone with
    no record of its end, and not submitted again), ``acknowledged`` (its owner took the result).
    """

    INTENT = "intent"
    UNKNOWN = "unknown"
    PAUSED = "paused"
    PREPARED = "prepared"
    COMMITTED = "committed"
    RUNNING = "running"
    CANCELLING = "cancelling"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    ACKNOWLEDGED = "acknowledged"

    @property
    def live(self) -> bool:
        """Whether something is still to happen; the other states are terminal."""
        return self in LIVE


LIVE: Final = frozenset(
    {
        JobState.INTENT,
        JobState.UNKNOWN,
        JobState.PAUSED,
        JobState.PREPARED,
        JobState.COMMITTED,
        JobState.RUNNING,
        JobState.CANCELLING,
    }
)


def _positive(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if isinstance(value, bool) or not 0 < value <= LIMITS.seconds:
        raise ValueError(
            f"{attribute.name} must be a number above 0, up to {LIMITS.seconds}, not {value!r}"
        )


@attrs.frozen(slots=True, kw_only=True)
class Deadlines:
    """How long each step may take, in seconds, and how often a job is submitted.

    Safety hangs on none of them: with wrong clocks a job waits longer or is submitted again, and
    still starts once. Raises ValueError for a value that is not above 0, and for a hold too short
    for the wait before the commit.

    Attributes:
        reply: how long the reply to a submission is waited for.
        settle: how long after the reply a job must still be seen before it may start. Slurm saves
            its state every 5 s, and forgets in a crash the jobs that it acknowledged since.
        absent: how long healthy answers must be without a job before it counts as gone.
        hold: how long a submitted job cannot start by itself.
        margin: how long before the end of the hold nothing is committed any more.
        lease: how long a job runs after its owner last renewed it, in seconds.
        queue: how long a job whose lease begins with its start may wait for that.
        cancel: after how long a request to end a job is repeated.
        silence: how long nothing may be seen of a job before it counts as stuck.
        attempts: how often a job is submitted before it is paused; each time only if it has not
            started.
        backoff: how long after the first submission the second may follow; from then on twice as
            long each time.
        backoff_most: the longest of these times.
    """

    reply: float = attrs.field(default=60.0, validator=_positive)
    settle: float = attrs.field(default=10.0, validator=_positive)
    absent: float = attrs.field(default=30.0, validator=_positive)
    hold: float = attrs.field(default=900.0, validator=_positive)
    margin: float = attrs.field(default=60.0, validator=_positive)
    lease: float = attrs.field(default=172_800.0, validator=_positive)
    queue: float = attrs.field(default=2_592_000.0, validator=_positive)
    cancel: float = attrs.field(default=30.0, validator=_positive)
    silence: float = attrs.field(default=600.0, validator=_positive)
    attempts: int = attrs.field(default=8, validator=_positive)
    backoff: float = attrs.field(default=60.0, validator=_positive)
    backoff_most: float = attrs.field(default=3600.0, validator=_positive)

    def __attrs_post_init__(self) -> None:
        if self.hold <= self.settle + self.margin:
            raise ValueError("hold must be longer than settle and margin together")

    def pause(self, tries: int) -> float:
        """How long after a submission the next one may follow, by the number of the submission.

        >>> [Deadlines().pause(tries) for tries in range(1, 9)]
        [60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0]
        """
        return min(self.backoff * 2.0 ** min(tries - 1, 60), self.backoff_most)


@attrs.frozen(slots=True, kw_only=True)
class Record:
    """A job that is handed over. Times are seconds since 1970 by the delegator's clock.

    Attributes:
        key: the job's name in the ledger, chosen before anything else happens.
        attempt: the number of the submission, from 1; ``mm-KEY-ATTEMPT`` is its name.
        owner: who handed it over and renews its lease.
        epoch: the ledger's epoch in which the row was written.
        revision: how often the row was written.
        state: the state of the transfer.
        cluster: the batch system.
        ledger: the identity of the ledger that it was handed over in.
        digest: a hash of the job; empty in a row that was rebuilt without the job's description.
        spool: the place of the records of its starts and ends.
        created: when the key came into the ledger.
        since: when the state was entered.
        deadline: by when something is to have happened; of live states only.
        hold_until: until when the submitted job cannot start by itself.
        lease: how many seconds the lease was given for.
        lease_until: when it ends; until the start of a lease that begins with it, by when that
            must be.
        from_start: whether the lease begins when the payload starts.
        started: when the start was seen.
        remote_id: the batch system's id; empty if none is known.
        remote_submitted: when the batch system says that it was submitted, by its own clock.
        seen: when it was last seen alive in the queue.
        absent_since: since when healthy answers are without it.
        cancel_wanted: its owner wants it ended.
        exit: the payload's exit status.
        reason: why it is in that state, if that needs saying.
        code: the same for programs.
        tries: how often it was submitted since it was handed over or resumed.
        retry_at: when it may be submitted again, if it has to be.
    """

    key: str
    attempt: int = 1
    owner: str = ""
    epoch: int = 0
    revision: int = 0
    state: JobState = JobState.INTENT
    cluster: str = ""
    ledger: str = ""
    digest: str = ""
    spool: str = ""
    created: float
    since: float
    deadline: float | None = None
    hold_until: float
    lease: float
    lease_until: float
    from_start: bool = False
    started: float | None = None
    remote_id: str = ""
    remote_submitted: float | None = None
    seen: float | None = None
    absent_since: float | None = None
    cancel_wanted: bool = False
    exit: int | None = None
    reason: str = ""
    code: ReasonCode | None = None
    tries: int = 1
    retry_at: float = 0.0

    def until(self, now: float, deadlines: Deadlines, length: float) -> float:
        """The end of a lease of `length` from now on, or of the wait for its start."""
        waits = self.from_start and self.started is None
        return now + (max(length, deadlines.queue) if waits else length)

    @property
    def name(self) -> str:
        """The name that the batch system knows the attempt by."""
        return job_name(self.key, self.attempt)

    @property
    def mark(self) -> str:
        """What tells its jobs from those that another ledger submits under the same name.

        It begins with the ledger's identity, so that they are known even if the row is lost.
        """
        made = f"{self.key} {self.created!r} {self.owner} {self.digest}"
        own = hashlib.sha256(made.encode("utf-8", "replace")).hexdigest()
        return f"{self.ledger}{own}"[:16]

    def owns(self, mark: str) -> bool:
        """Whether a job with a mark may be its own: with its mark, or with none.

        If the row was made anew without the job's digest, any mark of its ledger counts.
        """
        known = self.ledger and not self.digest
        return mark in {"", self.mark} or bool(known and mark.startswith(self.ledger))


@attrs.frozen(slots=True, kw_only=True)
class Invocation:
    """How the start script calls the payload on the node.

    Attributes:
        arguments: the payload's arguments.
        directory: its working directory; empty for the batch system's choice.
        umask: the bits that its new files do not get, in octal; empty for the batch system's.
        exports: variables that it gets in any case, whatever the batch system passes on.
        stdin, stdout, stderr: files in place of those of the batch system; empty for none.
            Relative ones are in the directory.
    """

    arguments: tuple[str, ...] = ()
    directory: str = ""
    umask: str = ""
    exports: tuple[tuple[str, str], ...] = ()
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""


@attrs.frozen(slots=True, kw_only=True)
class Payload:
    """A job as it is submitted: the same in each attempt, whoever submits it.

    Attributes:
        ad: the job's ad, as text.
        script: the path of the job's script, for people.
        content: the script, as it was read when the job was handed over.
        invocation: how the script is called.
        own_words: the arguments for the batch system's command that its owner gave.
        words: all arguments for the batch system's command.
        directory: the working directory of the batch system's command.
        environment: the variables that it runs with.
        metadata: names and texts that travel with the job.
    """

    ad: str
    script: str
    content: bytes = attrs.field(default=b"", repr=False)
    invocation: Invocation = attrs.field(factory=Invocation)
    own_words: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    directory: str = ""
    environment: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)
    metadata: tuple[tuple[str, str], ...] = ()

    def differs(self, other: Payload) -> str:
        """Name the parts of an order in which another one differs; empty if both are one order.

        The queue and flags that were found for a job, and the caller's directory, do not count.

        >>> one = Payload(ad="[ Cpus = 1; A = 2 ]", script="a.sh", content=b"true")
        >>> one.differs(attrs.evolve(one, ad="[ Cpus = 2; A = 2 ]", content=b"false"))
        'the script, Cpus of its ad'
        >>> one.differs(attrs.evolve(one, words=("--mem=5M",), directory="/tmp"))
        ''
        """
        found = ["the script"] if self.content != other.content else []
        mine, others = self.invocation, other.invocation
        found += [_PARTS[n] for n in _PARTS if getattr(mine, n) != getattr(others, n)]
        if self.own_words != other.own_words:
            found.append("the options for the batch system")
        if self.ad != other.ad:
            ad, changed = parse_ad(self.ad), parse_ad(other.ad)
            names = [
                name
                for name in dict.fromkeys((*ad, *changed))
                if ad.expr(name, None) is not changed.expr(name, None)
            ]
            found.append(f"{', '.join(names[:5]) or 'the text'} of its ad")
        return ", ".join(found)

    def to_json(self) -> str:
        """The job without the script's content, for :meth:`from_json`."""
        kept = attrs.filters.exclude(attrs.fields(Payload).content)
        return json.dumps(attrs.asdict(self, filter=kept))

    @classmethod
    def from_json(cls, text: str | bytes, content: bytes) -> Payload:
        """The job of a text, with its script's content.

        Raises KeyError, TypeError and ValueError for a text that holds something else.

        >>> call = Invocation(arguments=("a b",), exports=(("B", "2"),))
        >>> one = Payload(ad="[ A = 2 ]", script="a.sh", content=b"true", invocation=call)
        >>> Payload.from_json(one.to_json(), b"true") == one
        True
        """
        found = json.loads(text)
        call = found["invocation"]
        invocation = Invocation(**{
            **call, "arguments": tuple(call["arguments"]), "exports": pairs(call["exports"]),
        })  # fmt: skip
        return cls(**{
            **found, "content": content, "invocation": invocation,
            "own_words": tuple(found["own_words"]), "words": tuple(found["words"]),
            "environment": pairs(found["environment"]), "metadata": pairs(found["metadata"]),
        })  # fmt: skip


def pairs(found: Iterable[Iterable[object]]) -> tuple[tuple[str, str], ...]:
    """Names and texts as JSON has them."""
    return tuple((str(name), str(text)) for name, text in found)


_PARTS: Final = {
    "arguments": "the script's arguments", "exports": "its environment",
    "stdin": "its standard input", "stdout": "its standard output", "stderr": "its standard error",
}  # fmt: skip


@attrs.frozen(slots=True)
class Unreadable:
    """A damaged row of the ledger: its key and its fault."""

    key: str
    why: str


@attrs.frozen(slots=True)
class Transition:
    """A transition of a job in the log: its time, states, author and reason."""

    attempt: int
    revision: int
    at: float
    source: str
    target: str
    by: str
    reason: str
    code: ReasonCode | None = attrs.field(
        default=None, converter=attrs.converters.optional(ReasonCode)
    )
