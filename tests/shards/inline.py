"""A client that runs everything here, at once: as many examples as one likes, without a cluster.

What goes to a worker and comes from it is pickled, and each question goes to a shard that is made
again from its file in between now and then, as if its worker had been lost.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from typing import Any

import attrs

from matchmaker.matching.assignment import Assignment


@attrs.define(eq=False)
class Made:
    """A future: the call that makes it, and what came of it."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    pure: bool
    chance: random.Random
    status: str = "finished"
    _value: Any = None
    _known: bool = False

    def result(self, timeout: float = 0.0) -> Any:
        if not self._known or (self.pure and self.chance.random() < 0.2):
            args = [a.result() if isinstance(a, Made) else _sent(a) for a in self.args]
            self._value, self._known = self.function(*args), True
        return self._value if self.pure else _sent(self._value)

    def cancel(self) -> None:
        pass


def _sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - made a moment ago


@attrs.define(eq=False)
class Inline:
    """The few methods of ``distributed.Client`` that shards use."""

    chance: random.Random
    workers: int = 2
    status: str = "running"

    def submit(self, function: Callable[..., Any], *args: Any, **options: Any) -> Made:
        return Made(function, args, pure="key" in options, chance=self.chance)

    def scatter(self, data: Any, **_: Any) -> Made:
        return Made(bytes, (data,), pure=False, chance=self.chance)

    def run(self, function: Callable[[], Any], **_: Any) -> dict[str, Any]:
        return {f"worker-{n}": function() for n in range(self.workers)}

    def scheduler_info(self) -> dict[str, Any]:
        return {"workers": dict.fromkeys(range(self.workers))}

    def close(self) -> None:
        self.status = "closed"


def written(found: Assignment) -> str:
    """All that a cycle came to, as text: NaN and the sign of zero too."""
    return repr(attrs.astuple(found, recurse=False))
