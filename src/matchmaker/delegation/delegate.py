"""Hand jobs over: the shell around the pure states, for threads and for asyncio.

A :class:`Delegator` records the next action, does it, then records the result. It may be killed
between any two of these: whoever reconciles next continues. :mod:`matchmaker.delegation.states`
decides; the interfaces of :mod:`matchmaker.delegation.contact` hide how a batch system is asked.
"""

from __future__ import annotations

import asyncio
import functools
import getpass
import logging
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Literal, ParamSpec, TypeVar

import attrs

from matchmaker._limits import DELEGATION_LIMITS as LIMITS
from matchmaker.batch import Submission
from matchmaker.batch.policy import encoded
from matchmaker.classad import ClassAd, Expr, dumps
from matchmaker.delegation import states
from matchmaker.delegation.contact import BatchSystem, Spool
from matchmaker.delegation.database import LedgerError, UnfinishedError
from matchmaker.delegation.effects import (
    TRIES,
    DelegationContext,
    digest_of,
    hand_in_all,
    script_at,
)
from matchmaker.delegation.reconcile import Reconciliation, rebuild, reconcile
from matchmaker.delegation.record import (
    Deadlines,
    Invocation,
    JobState,
    KeyTakenError,
    NoAnswer,
    NoJobError,
    Payload,
    Record,
    RefusedError,
    Transition,
    UnansweredError,
    check_key,
)
from matchmaker.delegation.spool import check_exports
from matchmaker.delegation.states import Effect

if TYPE_CHECKING:
    from matchmaker.delegation.ledger import Ledger


def new_key() -> str:
    """Ten characters: with ``mm-`` and an attempt, as long a name as every batch system takes."""
    return "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(10))


@attrs.frozen(slots=True, kw_only=True)
class Order:
    """A job to be handed over: the arguments of :meth:`Delegator.submit`, by a key."""

    job: ClassAd
    script: str | Path | bytes = attrs.field(repr=False)
    key: str
    submission: Submission | None = None
    lease: float | None = None
    lease_from: Literal["start", "submit"] = "start"
    policy: Expr | None = None
    words: Sequence[str] = ()
    invocation: Invocation | None = None
    directory: str | Path | None = None
    environment: Mapping[str, str] | None = attrs.field(default=None, repr=False)


_LOG: Final = logging.getLogger(__name__)
_AT_ONCE: Final = 200
"""How many orders are written down in one transaction."""


class Delegator:
    """Hand jobs over to one batch system under the contract of docs/delegation.md.

    Several may share a ledger, on one machine or, with PostgreSQL, on many. Every method raises
    LedgerError if the ledger cannot be read or written.
    """

    def __init__(
        self, ledger: Ledger, system: BatchSystem | str = "slurm", spool: Spool | str | Path = "",
        *, cluster: str | None = None, deadlines: Deadlines = states.DEFAULT,
        owner: str | None = None, parallel: int = 1, clock: Callable[[], float] = time.time,
        new_key: Callable[[], str] = new_key,
    ) -> None:  # fmt: skip
        """A delegator on a ledger.

        Args:
            ledger: the ledger of the jobs.
            system: the batch system, by its name or as an object.
            spool: the records of starts and ends of new jobs, or their directory, which the nodes
                must share; by default a directory beside a ledger of SQLite. A job that was handed
                over before keeps its own.
            cluster: which of several batch systems of its kind this is, if one ledger serves them
                all. A job that one does not show may be at another.
            deadlines: how long each step may take.
            owner: who hands jobs over; by default the user at this machine.
            parallel: how many commands of the batch system may run at a time.
            clock: gives the time in seconds since 1970.
            new_key: makes the keys of jobs that come without one.

        Raises:
            ValueError: the batch system is not known.
        """
        kept = _spool(spool, ledger)
        asked = _system(system) if isinstance(system, str) else system
        name = asked.name if cluster is None else f"{asked.name}@{check_key(cluster)}"
        self._context = DelegationContext(
            ledger, asked, kept, deadlines,
            owner if owner is not None else f"{_user()}@{socket.gethostname()}", parallel, clock,
            name,
        )  # fmt: skip
        self._new_key = new_key

    # --- what the owner asks for --------------------------------------------------------------

    def submit(
        self, job: ClassAd, script: str | Path | bytes,
        submission: Submission | Sequence[str] | None = None, *, key: str | None = None,
        lease: float | None = None, lease_from: Literal["start", "submit"] = "start",
        policy: Expr | None = None, words: Sequence[str] = (), invocation: Invocation | None = None,
        directory: str | Path | None = None, environment: Mapping[str, str] | None = None,
    ) -> Record:  # fmt: skip
        """Hand a job over: it is written down, and submitted so that it cannot start yet.

        A later :meth:`reconcile` commits it. The same key with the same order gives the record that
        there is, and submits nothing. The order is the job's ad, the content of its script, how it
        is called, and the caller's own words. The flags of a broker (``submission``) are not part
        of it, nor the directory of the caller. Each attempt has the script, the directory and the
        environment of the order, whoever submits it.

        Args:
            job: the job's ad, which travels with it.
            script: the path of the job's script, which is read now; or its content.
            submission: the flags for the batch system that were found for the job; or words of the
                caller's own, as ``words``.
            key: the job's name in the ledger; by default a new one.
            lease: how many seconds the job lives after its owner last renewed it.
            lease_from: ``start``, and the lease begins when the payload starts, or ``submit``.
            policy: the job's requirement on its queue's policy, which travels with it.
            words: the caller's own options for the batch system's command. Those in lines of the
                script, such as ``#SBATCH``, and in variables, such as ``SBATCH_ACCOUNT``, count as
                well (:func:`~matchmaker.delegation.control.own_options`).
            invocation: the script's arguments, files and variables. By default it has none, and
                runs in ``directory``, unless words say in which directory it runs.
            directory: from where the batch system's command submits; by default from here.
            environment: the variables that it submits with, which Slurm and LSF give to the job; by
                default those of this process, but for ``CLASSAD_…``, which may hold secrets.

        Raises:
            OSError: the script cannot be read.
            RefusedError: a job cannot be submitted from here as it is: an option is none of the
                batch system's command or cannot be honoured, the command is missing, or the spool
                cannot be used. Nothing was written down.
            KeyTakenError: the key stands for another order; the message says in what it differs.
            UnfinishedError: the ledger failed once the job was, or may have been, written down. It
                has the job's key and state; hand it over again by that key.
            ValueError: the key, the lease or a word is not valid, something is too large, or the
                flags are for another system.
            NoFlagsError: the policy is too long to travel with the job.
        """
        own = tuple(submission) if isinstance(submission, (list, tuple)) else ()
        (found,) = self.submit_all([
            Order(
                job=job, script=script, key=key if key is not None else self._new_key(),
                submission=submission if isinstance(submission, Submission) else None, lease=lease,
                lease_from=lease_from,
                policy=policy, words=(*own, *words), invocation=invocation, directory=directory,
                environment=environment,
            )
        ])  # fmt: skip
        if isinstance(found, Exception):
            raise found
        return found

    def submit_all(self, orders: Sequence[Order]) -> list[Record | Exception]:
        """Hand many jobs over; of each the record, or the error that :meth:`submit` raises.

        One transaction writes up to 200 orders down, and one their replies. As many commands of the
        batch system run at a time as the delegator is given (``parallel``).
        """
        found: list[Record | Exception] = []
        for start in range(0, len(orders), _AT_ONCE):
            found += self._submit_some(orders[start : start + _AT_ONCE])
        return found

    def _submit_some(self, orders: Sequence[Order]) -> list[Record | Exception]:
        found: dict[int, Record | Exception] = {}
        begun: dict[int, tuple[states.StepResult, Payload]] = {}
        keys = {
            record.key: record for record in self._context.ledger.records({o.key for o in orders})
        }
        for number, order in enumerate(orders):
            try:
                first = self._begun(order, keys.get(order.key))
            except (ValueError, OSError) as error:
                found[number] = error
            else:
                if isinstance(first, Record):
                    found[number] = first
                else:
                    begun[number] = first
        state: dict[int, Record] = {}
        try:
            written = self._context.ledger.add(
                [(made.record, payload, self._context.owner) for made, payload in begun.values()]
            )
            new: list[tuple[Record, Effect, Payload]] = []
            for number, record in zip(begun, written, strict=True):
                made, payload = begun[number]
                if record is None:
                    # Another wrote it since we looked, or an order before it has its key.
                    found[number] = self._known_or_taken(made.record.key, payload)
                else:
                    state[number] = record
                    new.append((record, made.effects[0], payload))
            found |= zip(state, hand_in_all(self._context, new), strict=True)
        except LedgerError as error:
            for number in begun.keys() - found.keys():
                key, known = begun[number][0].record.key, state.get(number)
                found[number] = _unfinished(error, key, known)
        return [found[number] for number in range(len(orders))]

    def _begun(
        self, order: Order, known: Record | None
    ) -> Record | tuple[states.StepResult, Payload]:
        """An order's first record and its description; or the record that there is."""
        key = check_key(order.key)
        _check_lease(order.lease)
        directory = str(order.directory if order.directory is not None else Path.cwd())
        payload = self._payload(
            order.job, order.script, order.words, order.invocation, found=order.submission,
            directory=directory, environment=_environment(order.environment),
        )  # fmt: skip
        if known is not None:
            return self._same(known, payload)
        metadata = {"key": key, "owner": self._context.owner, "ad": payload.ad}
        if order.policy is not None:
            metadata["policy"] = encoded(order.policy)
        call = payload.invocation
        payload = attrs.evolve(
            payload,
            invocation=attrs.evolve(call, umask=call.umask or _umask()),
            metadata=tuple(metadata.items()),
        )
        spool = self._check_place(payload)
        made = states.begin(
            key, self._context.clock(), self._context.deadlines, lease=order.lease,
            owner=self._context.owner, cluster=self._context.cluster,
            digest=digest_of(payload, self._context.system.name),
            ledger=self._context.ledger.identity, spool=spool,
            from_start=order.lease_from == "start",
        )  # fmt: skip
        return made, payload

    def _known_or_taken(self, key: str, payload: Payload) -> Record | Exception:
        try:
            return self._same(self.job(key), payload)
        except (KeyTakenError, LedgerError, NoJobError) as error:
            # One row that is damaged or gone must not keep the others from being submitted.
            return error

    def known(
        self, key: str, job: ClassAd, script: str | Path | bytes, *, words: Sequence[str] = (),
        invocation: Invocation | None = None,
    ) -> Record | None:  # fmt: skip
        """Return the record of an order that was handed over before; None for an unknown key.

        So that whoever repeats an order need not find a queue for it again. The arguments are those
        of :meth:`submit`, which raises the same for them.
        """
        known = self._context.ledger.find(check_key(key))
        return known and self._same(known, self._payload(job, script, words, invocation))

    def _payload(
        self, job: ClassAd, script: str | Path | bytes, words: Sequence[str],
        invocation: Invocation | None, *, found: Submission | None = None, directory: str = "",
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> Payload:  # fmt: skip
        text = dumps(job)
        if len(text) > LIMITS.ad:
            raise ValueError(f"the job's ad has more than {LIMITS.ad} characters")
        content = script if isinstance(script, bytes) else script_at(Path(script).absolute())
        path = "" if isinstance(script, bytes) else str(Path(script).absolute())
        system, flags = self._context.system, self._flags(found)
        options = system.own_options(content, environment, words, flags)
        every = (*flags, *options.passing, *options.words)
        for word in every:
            if not word.isprintable():
                raise ValueError(f"no word for a command: {word[:80]!r}")
        if sum(map(len, every)) > LIMITS.words:
            raise ValueError(f"the words for the command have more than {LIMITS.words} characters")
        if invocation is None:
            sets = system.sets_directory(every)
            invocation = Invocation(directory="" if sets else directory)
        check_exports(invocation)
        return Payload(
            ad=text, script=path, content=content, invocation=invocation,
            # The order is the same from another environment, and with other flags.
            own_words=system.own_options(content, {}, words).words, words=every,
            directory=directory,
            environment=tuple(sorted(environment.items())),
        )  # fmt: skip

    def _same(self, known: Record, order: Payload) -> Record:
        """Return the record of a key. Raises KeyTakenError if it stands for another order."""
        if known.digest == digest_of(order, self._context.system.name):
            return known
        key = known.key
        before = self._context.ledger.payload(key)
        if known.cluster.partition("@")[0] != self._context.system.name:
            differs = f"it was handed over to {known.cluster}"
        elif before is None:
            differs = "the ledger was rebuilt without its description"
        else:
            differs = f"it differs in {before.differs(order) or 'its description'}"
        raise KeyTakenError(
            f"the key {key} stands for another order of {known.owner}, which is {known.state}: "
            f"{differs}. Repeat that order as it was, or give this one a key of its own"
        )

    def job(self, key: str) -> Record:
        """The record of a job. Raises NoJobError for an unknown key."""
        return self._context.ledger.get(key)

    def history(self, key: str) -> list[Transition]:
        """The transitions of a job, the first one first. Raises NoJobError for an unknown key."""
        self.job(key)
        return self._context.ledger.history(key)

    def renew(self, key: str, seconds: float | None = None) -> Record:
        """Make a job's lease run from now on, for `seconds` or as long as it was given for.

        Raises NoJobError, NotPossibleError for a job without a lease to renew, and UnansweredError
        if the job itself may still have the old lease.
        """
        _check_lease(seconds)
        record = self._update(
            key,
            lambda known: states.renewed(
                known, self._context.clock(), seconds, self._context.deadlines
            ),
        )
        if record.state in {JobState.COMMITTED, JobState.RUNNING}:
            spool = self._context.spool_of(record.spool)
            left = record.lease_until - self._context.clock()
            length = record.lease if record.from_start else None
            answer = None
            if record.state is JobState.COMMITTED:
                # Its commit may not be on record yet, and the lease would begin with the old one.
                answer = spool.commit(key, record.attempt, left, length)
            answer = answer or spool.renew(key, record.attempt, left, length)
            if isinstance(answer, NoAnswer):
                raise UnansweredError(
                    f"{key}: the ledger has the new lease, and the job may still end by the one "
                    f"from before: renew it again ({answer.reason})"
                )
        return record

    def renew_all(self) -> list[tuple[str, str]]:
        """Renew the leases of this owner's live jobs here, once a third of each has gone by.

        Gives what could not be done, by key.
        """
        troubles = []
        now = self._context.clock()
        for record in self._context.ledger.live(self._context.cluster):
            ends = record.cancel_wanted or record.state is JobState.CANCELLING
            mine = record.owner == self._context.owner and not ends
            if mine and record.lease_until - now < record.lease * 2 / 3:
                try:
                    self.renew(record.key)
                except (states.NotPossibleError, UnansweredError) as error:
                    troubles.append((record.key, str(error)))
        return troubles

    def cancel(self, key: str) -> Record:
        """End a job, or begins to: the wish is written down, then one look follows.

        Raises NoJobError, and NotPossibleError for a job that has ended otherwise.
        """
        self._update(key, states.wish_end)
        self._log("end requested", key)
        self.reconcile([key])
        return self.job(key)

    def resume(self, key: str) -> Record:
        """Submit a paused job again, as often as at first, once one look shows that it may be.

        Raises NoJobError, and NotPossibleError for a job that is not paused.
        """
        context = self._context
        self._update(key, lambda known: states.resumed(known, context.clock(), context.deadlines))
        self._log("job resumed", key)
        self.reconcile([key])
        return self.job(key)

    def acknowledge(self, key: str) -> Record:
        """Take the result of a job that has ended; the records of its start and end are removed.

        Raises NoJobError, and NotPossibleError for a job that has not ended.
        """
        record = self._update(key, lambda known: states.acknowledged(known, self._context.clock()))
        self._context.spool_of(record.spool).forget(key, record.digest)
        self._log("result taken", key)
        return record

    def _log(self, event: str, key: str) -> None:
        _LOG.info(event, extra={"job": key, "cluster": self._context.cluster})

    # --- what keeps the jobs going ------------------------------------------------------------

    def reconcile(self, keys: Collection[str] | None = None) -> Reconciliation:
        """One look at the batch system, and one move at most for each live job.

        Asks the batch system for its queue once, and for its accounting at most once. Safe to run
        at any time, anywhere, as often as wanted.

        Args:
            keys: only these jobs; by default all live ones.
        """
        return reconcile(self._context, keys)

    def rebuild(self) -> Reconciliation:
        """Make the missing records anew from the batch system and the records of starts and ends.

        Rows of the ledger stay, unless there is a later attempt of a live job. A job of another
        ledger is left alone, and one that ended stays ended. Whoever had the ledger open must open
        it again.

        Raises UnansweredError while the batch system or the spool gives no answer.
        """
        return rebuild(self._context)

    # --- how it is done -----------------------------------------------------------------------

    def _flags(self, found: Submission | None) -> tuple[str, ...]:
        goes_to = self._context.system.name
        if found is not None and found.lrms != goes_to:
            raise ValueError(f"the flags are for {found.lrms}, and the job goes to {goes_to}")
        return found.argv if found is not None else ()

    def _check_place(self, order: Payload) -> str:
        """Return the place of the spool. Raises RefusedError if nothing can be submitted here."""
        spool = self._context.spool_of("")
        folder = spool.ready()
        if isinstance(folder, NoAnswer):
            raise RefusedError(f"the spool cannot be used: {folder.reason}")
        why = self._context.system.refusal(order.words, folder)
        if not why and not order.directory.isprintable():
            why = f"{order.directory!r} is no path for a job: choose a directory with a plain name"
        if why:
            raise RefusedError(why)
        return spool.place

    def _update(self, key: str, change: Callable[[Record], Record]) -> Record:
        """Change a record, and again if another wrote it meanwhile."""
        for _ in range(TRIES):
            known = self.job(key)
            wanted = change(known)
            if wanted == known:
                return known
            written = self._context.ledger.save([(known, wanted)], self._context.owner)[0]
            if written is not None:
                return written
        raise ValueError(f"{key} is being changed by others all the time; try again")


def _unfinished(error: LedgerError, key: str, known: Record | None) -> UnfinishedError:
    is_known = f"is on record as {known.state}" if known is not None else "may be on record"
    made = UnfinishedError(
        f"{error}. The job {key} {is_known}, and may have been submitted: hand it over again by the"
        f" same key, or let classad reconcile find out; classad jobs {key} shows it",
        key,
        None if known is None else str(known.state),
    )
    made.__cause__ = error
    return made


def _check_lease(seconds: float | None) -> None:
    if seconds is not None and not 0 < seconds <= LIMITS.seconds:
        raise ValueError(
            f"a lease is a number of seconds above 0, up to {LIMITS.seconds}, not {seconds!r}"
        )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _environment(given: Mapping[str, str] | None) -> dict[str, str]:
    """The variables of an order. Those of this program may hold a token or a password."""
    found = os.environ if given is None else given
    kept = {name: text for name, text in found.items() if not name.startswith("CLASSAD_")}
    if sum(map(len, kept)) + sum(map(len, kept.values())) > LIMITS.environment:
        raise ValueError(f"the environment has more than {LIMITS.environment} characters")
    return kept


def _umask() -> str:
    """Return this process's umask in octal; empty if only a change would tell it."""
    try:
        status = Path("/proc/self/status").read_text("ascii", "replace")
    except OSError:
        return ""
    found = re.search(r"^Umask:\t([0-7]{4})$", status, re.MULTILINE)
    return found[1] if found else ""


def _system(name: str) -> BatchSystem:
    from matchmaker.delegation.commands import Commands
    from matchmaker.delegation.control import load_control

    return Commands(load_control(name))


def _spool(spool: Spool | str | Path, ledger: Ledger) -> Spool | None:
    """The spool itself, of a directory, or beside a ledger that is a file."""
    if not isinstance(spool, (str, Path)):
        return spool
    if spool == "" and not ledger.sqlite:
        return None
    from matchmaker.delegation.spool import SharedSpool

    return SharedSpool(Path(spool or f"{ledger.place}.spool"))


_P = ParamSpec("_P")
_T = TypeVar("_T")


def _awaited(
    method: Callable[Concatenate[Delegator, _P], _T],
) -> Callable[Concatenate[AsyncDelegator, _P], Coroutine[Any, Any, _T]]:
    @functools.wraps(method)
    async def awaited(self: AsyncDelegator, /, *args: _P.args, **named: _P.kwargs) -> _T:
        call: Callable[_P, _T] = getattr(self.plain, method.__name__)
        return await asyncio.shield(asyncio.to_thread(call, *args, **named))

    return awaited


@attrs.frozen(slots=True)
class AsyncDelegator:
    """A :class:`Delegator` whose methods are awaited; each does and raises the same as there.

    A call that has begun is finished, even if its caller is cancelled.
    """

    plain: Delegator

    submit = _awaited(Delegator.submit)
    submit_all = _awaited(Delegator.submit_all)
    known = _awaited(Delegator.known)
    job = _awaited(Delegator.job)
    history = _awaited(Delegator.history)
    renew = _awaited(Delegator.renew)
    renew_all = _awaited(Delegator.renew_all)
    cancel = _awaited(Delegator.cancel)
    resume = _awaited(Delegator.resume)
    acknowledge = _awaited(Delegator.acknowledge)
    reconcile = _awaited(Delegator.reconcile)
    rebuild = _awaited(Delegator.rebuild)
