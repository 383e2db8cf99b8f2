"""The delegator for asyncio: it waits in threads."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

import attrs

from matchmaker.delegation.delegate import Delegator

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
