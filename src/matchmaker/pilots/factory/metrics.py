"""A factory's numbers for Prometheus, in OpenMetrics, on this machine alone.

The numbers are those of the last cycle, as the list of services has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from matchmaker.pilots.factory.services import Service

_Family: TypeAlias = CounterMetricFamily | GaugeMetricFamily


class _Numbers(Collector):
    """Gives the numbers of a service each time that they are asked for."""

    def __init__(self, last: Callable[[], Service | None]) -> None:
        self._last = last

    def collect(self) -> Iterator[Metric]:
        service = self._last()
        if service is not None:
            yield from metrics(service)


def metrics(service: Service) -> Iterator[Metric]:
    """The numbers of a service's last cycle.

    Demand that is unknown has no number: it is not 0.
    """
    facts = service.facts
    name = service.name

    def one(kind: type[_Family], called: str, text: str, value: Any) -> Metric:
        made = kind(f"classad_factory_{called}", text, labels=["service"])
        if value is not None:
            made.add_metric([name], float(value))
        return made

    def by_queue(called: str, text: str, *more: str) -> GaugeMetricFamily:
        labels = ["service", "queue", "site", *more]
        return GaugeMetricFamily(f"classad_factory_{called}", text, labels=labels)

    gauge, counter = GaugeMetricFamily, CounterMetricFamily
    yield one(counter, "cycles", "Decisions that were made.", service.cycles)
    yield one(counter, "pilots_submitted", "Pilots that were handed over.", service.submitted)
    yield one(gauge, "heartbeat_timestamp_seconds", "The last heartbeat.", service.beat)
    yield one(gauge, "jobs_waiting", "Jobs that wait for a pilot.", facts.get("waiting"))
    yield one(gauge, "jobs_running", "Jobs that run.", facts.get("running"))
    yield one(gauge, "pilots_target", "Pilots that the policy aims at.", facts.get("target"))
    silent = facts.get("silent")
    said = None if silent is None else len(silent)
    yield one(gauge, "sources_silent", "Sources that gave no answer.", said)
    pilots = by_queue("pilots", "Pilots that have not ended.", "state")
    held = by_queue("queue_held", "Whether nothing is submitted to a queue.")
    median = by_queue("queue_response_seconds", "Half of a queue's pilots start within it.")
    for queue in facts.get("queues", ()):
        of = [name, queue["queue"], queue["site"]]
        for state, count in queue["pilots"].items():
            pilots.add_metric([*of, state], count)
        held.add_metric(of, bool(queue["held"]))
        if queue["median"] is not None:
            median.add_metric(of, queue["median"])
    yield pilots
    yield held
    yield median


def serve(port: int, last: Callable[[], Service | None]) -> Callable[[], None]:
    """Serves the numbers at a port of this machine, until the function that it gives is called.

    Raises OSError where the port is taken.
    """
    registry = CollectorRegistry()
    registry.register(_Numbers(last))
    server, thread = start_http_server(port, addr="127.0.0.1", registry=registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
