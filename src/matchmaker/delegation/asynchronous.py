"""The delegator for programs on asyncio: the same one, with its waiting in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import attrs

from matchmaker.batch import Submission
from matchmaker.classad import ClassAd, Expr
from matchmaker.delegation.delegate import Delegator
from matchmaker.delegation.reconcile import Report
from matchmaker.delegation.record import Entry, Record

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_T = TypeVar("_T")


@attrs.frozen(slots=True)
class AsyncDelegator:
    """A :class:`Delegator` whose methods are awaited; each means and raises what it does there.

    What is begun is finished, even if who awaits it is cancelled.
    """

    plain: Delegator

    async def _run(self, call: Callable[_P, _T], *args: _P.args, **named: _P.kwargs) -> _T:
        return await asyncio.shield(asyncio.to_thread(call, *args, **named))

    async def submit(
        self,
        job: ClassAd,
        script: str | Path,
        submission: Submission | Sequence[str] | None = None,
        *,
        key: str | None = None,
        lease: float | None = None,
        policy: Expr | None = None,
    ) -> Record:
        """Hands a job over."""
        return await self._run(
            self.plain.submit, job, script, submission, key=key, lease=lease, policy=policy
        )

    async def job(self, key: str) -> Record:
        """The record of a job."""
        return await self._run(self.plain.job, key)

    async def history(self, key: str) -> list[Entry]:
        """The transitions of a job."""
        return await self._run(self.plain.history, key)

    async def renew(self, key: str, seconds: float | None = None) -> Record:
        """Makes a job's lease run from now on."""
        return await self._run(self.plain.renew, key, seconds)

    async def cancel(self, key: str) -> Record:
        """Ends a job, or begins to."""
        return await self._run(self.plain.cancel, key)

    async def acknowledge(self, key: str) -> Record:
        """Takes the result of a job that has ended."""
        return await self._run(self.plain.acknowledge, key)

    async def reconcile(self, keys: Collection[str] | None = None) -> Report:
        """One look at the batch system, and one move at most for each live job."""
        return await self._run(self.plain.reconcile, keys)

    async def rebuild(self) -> Report:
        """Makes the live records anew."""
        return await self._run(self.plain.rebuild)
