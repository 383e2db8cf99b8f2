"""Start, check and end the cluster of the shards, and get answers or clear errors from it.

Dask does the scheduling. This module switches off stealing and sampling of shards, and has the
errors for a cluster that cannot answer.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any, Final, TypeAlias

import attrs


class ShardError(ValueError):
    """A shard that holds what no pool may hold, or cannot be read; the message names it."""


class ClusterError(OSError):
    """A cluster that cannot answer: lost, too slow, of another version. The message says what."""


VERSION: Final = metadata.version("classad-matchmaker")
"""Of the library, in this process."""


def version() -> str:
    """Return the version of the library of this process."""
    return VERSION


def refuse_version(who: str, theirs: str, ours: str) -> None:
    """Raises ClusterError for another version, which might give other answers."""
    if theirs != ours:
        raise ClusterError(
            f"{who} has matchmaker {theirs}, and here is {ours}: install one version everywhere"
        )


Client: TypeAlias = Any
Future: TypeAlias = Any
"""Those of ``distributed``, which carries no types."""

SETTINGS: Final[Mapping[str, Any]] = {
    # A shard stays where it is: to move it costs more than to wait for its worker.
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,
    # A question takes a worker whole; to look at its stack a hundred times a second helps nobody.
    "distributed.worker.profile.enabled": False,
    # Spilling would pickle the columns to disk.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
}
"""How a cluster is set up that is started here; docs/scale.md says why, for others."""


def distributed() -> Any:
    """The library, or an ImportError that says how to get it."""
    try:
        import distributed as library
    except ImportError:
        raise ImportError("shards need Dask: pip install 'classad-matchmaker[shards]'") from None
    return library


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check(library: Any, address: str) -> None:
    """Raises ClusterError for what cannot be a scheduler's address, or needs a certificate."""
    from distributed.comm.addressing import get_address_host_port

    try:
        get_address_host_port(address)
    except ValueError as error:
        raise ClusterError(
            f"{address!r} is no tcp://HOST:PORT or tls://HOST:PORT: {error}"
        ) from None
    scheme = address.partition("://")[0] if "://" in address else "tcp"
    if scheme not in {"tcp", "tls"}:
        raise ClusterError(f"{address!r} is no tcp://HOST:PORT or tls://HOST:PORT")
    if scheme == "tls" and not library.Security().get_connection_args("client").get("ssl_context"):
        raise ClusterError(
            f"{address} needs a certificate: distributed.comm.tls in Dask's configuration names it"
        )


@attrs.frozen(slots=True, eq=False)
class DaskCluster:
    """A client and how long it waits; ``ours`` is the local cluster if it was started here."""

    client: Client
    timeout: float
    ours: Any = None

    @classmethod
    def local(cls, workers: int, timeout: float, memory: str | int | None = None) -> DaskCluster:
        """Starts workers on this machine, of one thread each, that listen on loopback only."""
        library = distributed()
        import dask

        with dask.config.set(dict(SETTINGS)):
            ours = library.LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1",
                dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
                memory_limit=memory if memory is not None else "auto",
            )  # fmt: skip
        try:
            return cls(library.Client(ours, set_as_default=False), timeout, ours)
        except BaseException:
            ours.close()
            raise

    @classmethod
    def at(cls, address: str, timeout: float) -> DaskCluster:
        """Connects to a scheduler. Raises ClusterError if there is none."""
        library = distributed()
        # A client that fails to begin complains once more when it is collected.
        _check(library, address)
        try:
            client = library.Client(address, timeout=min(timeout, 30), set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(f"no scheduler answers at {address}: {error}") from None
        return cls(client, timeout)

    def close(self, *, with_client: bool) -> None:
        """Ends workers that were started here, and with ``with_client`` the connection."""
        if with_client:
            self.client.close()
        if self.ours is not None:
            self.ours.close()

    # --- who is there -----------------------------------------------------------------------------

    def check(self) -> int:
        """How many workers there are. Raises ClusterError if one has another version."""
        try:
            if not self.client.scheduler_info()["workers"]:
                self.client.wait_for_workers(1, timeout=min(self.timeout, 30))
            found = self.client.run(version, on_error="return")
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterError(f"the cluster has no worker that answers: {error}") from None
        for worker, theirs in sorted(found.items()):
            if isinstance(theirs, BaseException):
                raise ClusterError(f"worker {worker} has no matchmaker that answers: {theirs}")
            refuse_version(f"worker {worker}", theirs, VERSION)
        return len(found)

    # --- questions --------------------------------------------------------------------------------

    def submit(self, function: Callable[..., Any], *args: Any, **options: Any) -> Future:
        """Submits a call. Raises ClusterError if the scheduler is lost."""
        self._alive()
        return self.client.submit(function, *args, **options)

    def scatter(self, data: bytes) -> Future:
        """Sends bytes to all workers once, as an argument of many questions."""
        self._alive()
        return self.client.scatter(data, broadcast=True, hash=False)

    def ask(
        self, shards: Sequence[tuple[str, Future]], question: Callable[..., Any],
        each: Iterable[tuple[Any, ...]],
    ) -> list[Any]:  # fmt: skip
        """Asks some shards, by name, each with its arguments; the answers in the same order.

        Raises ShardError or ClusterError, with the shard, if one cannot answer.
        """
        futures = [
            self.submit(question, future, *given, pure=False)
            for (_, future), given in zip(shards, each, strict=True)
        ]
        return self.results([name for name, _ in shards], futures)

    def results(self, names: Sequence[str], futures: Sequence[Future]) -> list[Any]:
        """The results of some calls, one for each named shard."""
        until = time.monotonic() + self.timeout
        found = []
        try:
            for name, future in zip(names, futures, strict=True):
                found.append(self._result(name, future, until - time.monotonic()))
        except BaseException:
            for future in futures:
                if future.status == "pending":
                    future.cancel()
            raise
        return found

    def _result(self, name: str, future: Future, seconds: float) -> Any:
        library = distributed()
        try:
            return future.result(timeout=max(seconds, 0.01))
        except ShardError:
            raise
        except library.scheduler.KilledWorker:
            why = "every worker that tried was lost; is there too little memory for it?"
        except (TimeoutError, library.TimeoutError):
            self._alive()
            why = f"no answer in {self.timeout:g} s"
        except (library.client.FutureCancelledError, library.comm.CommClosedError):
            self._alive()
            why = "its worker was lost, and nothing is left to make it again from"
        except MemoryError:
            why = "too little memory on its worker"
        except Exception as error:  # noqa: BLE001 - whatever a worker raised comes here
            self._alive()
            why = f"{type(error).__name__}: {error}"
        raise ClusterError(f"shard {name}: {why}")

    def _alive(self) -> None:
        if self.client.status != "running":
            raise ClusterError(
                f"the scheduler of the shards is lost ({self.client.status}); make them again"
            )
