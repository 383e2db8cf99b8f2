"""Accounts of a factory: the facts of a cycle, the reason for a queue or a job, OpenMetrics.

The facts of the last cycle are kept in the list of services, so that each account can be given
while the factory runs and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from matchmaker.pilots.factory.services import QueueCounts, SeenJob, Service
from matchmaker.pilots.factory.sources import PilotTarget
from matchmaker.pilots.policy.snapshot import Decision, Pilot, PilotSnapshot, PilotState

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

MOST: Final = 1000
"""How many queues, kinds and troubles of a cycle are kept: a row of the list stays below 1 MB."""


def facts(
    snapshot: PilotSnapshot, decision: Decision, targets: Mapping[str, PilotTarget]
) -> dict[str, Any]:
    """Return the numbers and reasons of a cycle, as values that JSON can hold."""
    counts = _counts(snapshot.pilots)
    held = {one.queue: one.reason for one in decision.held}
    for queue in snapshot.queues:
        if queue.closed:
            held[queue.key] = queue.closed
    demand = snapshot.demand
    return {
        "at": snapshot.now,
        "mode": decision.mode,
        "target": decision.target,
        "waiting": None if demand is None else sum(kind.waiting - kind.silent for kind in demand),
        "running": None if demand is None else sum(kind.running for kind in demand),
        "pilots": _total(counts),
        "queues": [
            {
                "queue": queue.key,
                "site": targets[queue.key].site,
                "system": targets[queue.key].system,
                "held": held.get(queue.key, ""),
                "median": queue.estimate.median,
                "failures": queue.estimate.failures,
                "rate": queue.rate,
                "max_pilots": queue.max_pilots,
                "max_queued": queue.max_queued,
                "pilots": counts.get(queue.key, _NONE),
            }
            for queue in snapshot.queues[:MOST]
        ],
        "submissions": [[o.queue, o.count, o.reason] for o in decision.submissions[:MOST]],
        "ends": [[one.pilot, one.reason] for one in decision.ends[:MOST]],
        "lends": [[one.pilot, one.takes, one.reason] for one in decision.lends[:MOST]],
        "waits": [[one.kind, one.jobs, one.reason] for one in decision.waits[:MOST]],
        "notes": list(decision.notes[:MOST]),
    }


def recounted(facts: Mapping[str, Any], pilots: Iterable[Pilot]) -> dict[str, Any]:
    """Return the facts of a cycle with the pilots that there are now."""
    if "at" not in facts:
        return dict(facts)
    counts = _counts(pilots)
    queues = [{**queue, "pilots": counts.get(queue["queue"], _NONE)} for queue in facts["queues"]]
    return {**facts, "pilots": _total(counts), "queues": queues}


_NONE: Final[Mapping[str, int]] = {str(state): 0 for state in PilotState}


def _counts(pilots: Iterable[Pilot]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for pilot in pilots:
        found.setdefault(pilot.queue, dict(_NONE))[str(pilot.state)] += 1
    return found


def _total(counts: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {state: sum(of[state] for of in counts.values()) for state in _NONE}


# --- why ------------------------------------------------------------------------------------------


@attrs.frozen(slots=True, kw_only=True)
class PilotReason:
    """Why pilots were submitted or not, for a queue or a job, in the last cycle of a service.

    Attributes:
        service: the service's name.
        subject: ``queue`` or ``job``.
        name: the queue's key, or the job's id.
        at: when the cycle was, in seconds since 1970.
        submitted: how many pilots it decided to submit there, or for all jobs.
        pilots: how many pilots there are, by state: at the queue, or in all.
        sentence: the reason, with its numbers.
    """

    service: str
    subject: str
    name: str
    at: float
    submitted: int
    pilots: Mapping[str, int]
    sentence: str


def reasons(
    services: Iterable[Service], counts: Mapping[str, QueueCounts],
    job: Callable[[str], SeenJob | None], name: str, now: float,
) -> list[PilotReason]:  # fmt: skip
    """Return the reasons that services give for a queue or a job of a name.

    Args:
        services: the services, each with the facts of its last cycle.
        counts: the pilots on record by queue.
        job: returns the job of the name as a service, by its name, saw it last.
        name: the queue's key or the job's id.
        now: the time, in seconds since 1970.
    """
    found = []
    for service in services:
        if "at" not in service.facts:
            continue
        found += [
            _why_queue(service, queue, counts.get(name, QueueCounts()), now)
            for queue in service.facts.get("queues", ())
            if queue["queue"] == name
        ]
        seen = job(service.name)
        if seen is not None:
            found.append(_why_job(service, seen, now))
    return found


def _why_queue(
    service: Service, queue: Mapping[str, Any], counts: QueueCounts, now: float
) -> PilotReason:
    facts, name, states = service.facts, queue["queue"], queue["pilots"]
    decided = next((one for one in facts.get("submissions", ()) if one[0] == name), None)
    number = decided[1] if decided is not None else 0
    free = sum(states.get(state, 0) for state in ("queued", "starting", "idle"))
    if queue["held"]:
        because = queue["held"]
    elif decided is not None:
        because = decided[2]
    elif facts.get("waiting"):
        because = (
            f"{_number(facts['waiting'], 'job')} wait, and none of them needs another pilot there"
            f" beside the {free} that are free or wait"
        )
    elif facts.get("waiting") is None:
        because = "how many jobs wait is not known"
    else:
        because = "no job waits"
    new = _number(number, "pilot") if number else "no pilot"
    rate = f"at most {queue.get('rate', 1.0):g} submitted a second"
    parts = [
        f"{name}: {new} to submit {_when(service, now)}: {because}",
        f"{_pilots(states)} there{_limits(queue)}, {rate}",
    ]
    if silent := silence(service):
        parts.insert(1, silent)
    if queue["median"] is not None:
        parts.append(f"half of its pilots start within {queue['median']:.0f} s")
    parts.append(
        f"on record: {counts.submitted} submitted, {counts.started} started, {counts.ended} ended,"
        f" {counts.lost} lost, {counts.refused} refused"
    )
    return PilotReason(
        service=service.name, subject="queue", name=name, at=facts["at"], submitted=number,
        pilots=states, sentence="; ".join(parts) + _ended(service),
    )  # fmt: skip


def _why_job(service: Service, job: SeenJob, now: float) -> PilotReason:
    facts = service.facts
    submissions = facts.get("submissions", ())
    wait = next((one for one in facts.get("waits", ()) if one[0] == job.kind), None)
    if facts["waiting"] is None:
        text = "what it waits for is not known: no source of demand answers"
    elif job.runs:
        text = "it runs, and needs no pilot"
    elif wait is None:
        text = f"the reason for its kind is not on record, which has those of {MOST} kinds"
    else:
        others = f"one of {_number(wait[1], 'waiting job')} of its kind"
        text = f"{others}, for {max(now - job.since, 0):.0f} s: they wait for {wait[2]}"
        if ": " in wait[2] or wait[2].startswith(("none ", "no ", "all ", "there ", "the ")):
            text = text.replace("they wait for ", "", 1)
    number = sum(one[1] for one in submissions)
    where = ", ".join(f"{one[1]} to {one[0]}" for one in submissions[:5])
    more = f" ({where}{', …' if len(submissions) > 5 else ''})" if where else ""
    sentence = (
        f"{job.id}, of kind {job.kind}: {text}; {_when(service, now)}"
        f" {_number(number, 'pilot') if number else 'no pilot'} to submit{more};"
        f" {_pilots(facts['pilots'])} in all"
    )
    if silent := silence(service):
        sentence += f"; {silent}"
    return PilotReason(
        service=service.name, subject="job", name=job.id, at=facts["at"], submitted=number,
        pilots=facts["pilots"], sentence=sentence + _ended(service),
    )  # fmt: skip


def silence(service: Service) -> str:
    """Say how many of a service's sources of demand were silent in its last cycle, and how long.

    >>> facts = {"at": 50.0, "sources": {"demand": 2, "silent": [["[[demand]] 2 a.sh", 38.0]]}}
    >>> silence(Service(name="grid", token="", started=0.0, beat=50.0, facts=facts))
    '1 of 2 sources of demand has been silent for 12 s'
    """
    known = service.facts.get("sources", {"demand": 0, "silent": ()})
    since = [when for name, when in known["silent"] if name.startswith("[[demand]]")]
    if not since:
        return ""
    of = _number(known["demand"], "source")
    has = "has" if len(since) == 1 else "have"
    longest = service.facts["at"] - min(since)
    upto = "" if len(since) == 1 else "up to "
    return f"{len(since)} of {of} of demand {has} been silent for {upto}{max(longest, 0):.0f} s"


def _when(service: Service, now: float) -> str:
    ago = max(now - service.facts["at"], 0)
    return f"in cycle {service.cycles} of {service.name}, {ago:.0f} s ago"


def _number(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _pilots(states: Mapping[str, int]) -> str:
    shown = ", ".join(f"{number} {state}" for state, number in states.items() if number)
    total = sum(states.values())
    return f"{_number(total, 'pilot')} ({shown})" if shown else "no pilots"


def _limits(queue: Mapping[str, Any]) -> str:
    limits = [
        f"{queue[key]}{text}"
        for key, text in (("max_pilots", ""), ("max_queued", " queued"))
        if queue.get(key) is not None
    ]
    return f" of at most {' and '.join(limits)}" if limits else ""


def _ended(service: Service) -> str:
    if service.state == "running":
        return ""
    return f"; {service.name} has {service.state}: {service.reason}"


# --- OpenMetrics ----------------------------------------------------------------------------------


def metrics(service: Service) -> Iterator[Metric]:
    """Yield the numbers of a service's last cycle.

    Demand that is unknown has no number: it is not 0.
    """
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    facts = service.facts
    name = service.name

    def one(
        kind: type[CounterMetricFamily | GaugeMetricFamily], called: str, text: str, value: Any
    ) -> Metric:
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
    """Serve the numbers at a port of this machine; return the function that ends it.

    Raises OSError if the port is taken.
    """
    from prometheus_client import CollectorRegistry, start_http_server
    from prometheus_client.registry import Collector

    class Numbers(Collector):
        def collect(self) -> Iterator[Metric]:
            service = last()
            if service is not None:
                yield from metrics(service)

    registry = CollectorRegistry()
    registry.register(Numbers())
    server, thread = start_http_server(port, addr="127.0.0.1", registry=registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
