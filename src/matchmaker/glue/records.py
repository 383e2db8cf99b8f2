"""The records of an information system, which refer to each other by object.

Sites, clusters, sets of like hosts, queues and their views, and storage: the model of GLUE 1.3,
into which every source is read. `linking` makes records of entries, `flatten` makes ads of records,
and `publish` makes entries of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final, TypeAlias

import attrs

from matchmaker.classad import Value

Values: TypeAlias = Mapping[str, Value]
"""By attribute, in the schema's spelling; UNDEFINED stands for a value known to be unknown."""

QUEUE: Final = "QueueName="
"""The prefix of the local queue among the capabilities of a CE whose id names it otherwise."""

NOT_KNOWN: Final = "unknown"
"""The part of a CE's id that names an unknown batch system."""

CE_KEY: Final = "glueceuniqueid="
"""The prefix of a key to a queue: a cluster has one for each of its queues, which ads leave out."""

# One slash, and no dash before the last part: so the pattern cannot backtrack.
_ID = re.compile(r"(?P<contact>[^/\n]+/[^-\n]+-(?P<lrms>[^-\n]+))-(?P<queue>[^\n]+)\Z")


@attrs.frozen(slots=True, eq=False)
class GlueRecord:
    """A thing that a source describes: its id, and its values."""

    id: str
    values: Values


@attrs.frozen(slots=True, eq=False)
class GlueSite(GlueRecord):
    """A site (GlueSite)."""


@attrs.frozen(slots=True, eq=False)
class SubCluster(GlueRecord):
    """A set of like hosts in a cluster (GlueSubCluster)."""


@attrs.frozen(slots=True, eq=False)
class GlueCluster(GlueRecord):
    """A cluster (GlueCluster); its site's key is kept as it may name a site not in the snapshot."""

    site_id: str = ""
    site: GlueSite | None = None
    subclusters: tuple[SubCluster, ...] = ()


@attrs.frozen(slots=True, eq=False)
class StorageArea(GlueRecord):
    """The part of a storage element for one virtual organisation (GlueSA)."""


@attrs.frozen(slots=True, eq=False)
class StorageElement(GlueRecord):
    """A storage element (GlueSE)."""

    areas: tuple[StorageArea, ...] = ()


@attrs.frozen(slots=True, eq=False)
class Bind:
    """A storage element close to a CE (GlueCESEBind), with the path it is mounted on."""

    se_id: str
    mount: str
    values: Values
    se: StorageElement | None = None


@attrs.frozen(slots=True, eq=False)
class VOView(GlueRecord):
    """A queue as one virtual organisation sees it (GlueVOView)."""


@attrs.frozen(slots=True, eq=False)
class ComputingElement(GlueRecord):
    """A queue of a batch system (GlueCE) with all that is linked to it.

    `bound` are the ids that its GlueCESEBindGroup lists.
    """

    cluster: GlueCluster | None = None
    views: tuple[VOView, ...] = ()
    binds: tuple[Bind, ...] = ()
    bound: tuple[str, ...] = ()


OUTAGE: Final = "OUTAGE"
"""The severity that closes a queue. Any other, such as ``WARNING``, is an announcement (GOCDB)."""


@attrs.frozen(slots=True)
class Downtime:
    """A downtime of a computing element; one of another severity than ``OUTAGE`` does not close it.

    `ce` is its host, ``host:port``, the id of a queue, or the name of the resource in OSG topology,
    in either case. `service` is the type of the service as published, such as ``ARC-CE``.
    """

    ce: str
    service: str
    start: datetime
    end: datetime
    severity: str = OUTAGE
    reason: str = ""
    url: str = ""


@attrs.frozen(slots=True, repr=False)
class GlueRecords:
    """The records of an information system, in the order they were published.

    `downtimes` are those that it announces, of its own queues or of others.
    """

    sites: tuple[GlueSite, ...]
    clusters: tuple[GlueCluster, ...]
    computing_elements: tuple[ComputingElement, ...]
    storage_elements: tuple[StorageElement, ...]
    downtimes: tuple[Downtime, ...] = ()

    @property
    def summary(self) -> str:
        """The number of records of each kind."""
        return (
            f"{len(self.sites)} sites, {len(self.clusters)} clusters,"
            f" {len(self.computing_elements)} computing elements,"
            f" {len(self.storage_elements)} storage elements"
        )

    def __repr__(self) -> str:
        # Not the records: an information system has tens of thousands of them.
        return f"<GlueRecords: {self.summary}>"


def texts(value: Value | None) -> list[str]:
    """Return the texts of a value: of a list those in it, of a text itself.

    >>> texts("VO:cms"), texts(["VO:cms", 7]), texts(None)
    (['VO:cms'], ['VO:cms'], [])
    """
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str)]


def split_id(ce_id: str) -> tuple[str, str, str] | None:
    """Split a CE's id into contact string, batch system and queue; None if it has another form.

    The broker's pattern, ``(.+/[^-]+-([^-]+))-(.+)``, held to one slash so as not to backtrack.

    >>> split_id("ce01.cnaf.grid:8443/cream-slurm-egee")
    ('ce01.cnaf.grid:8443/cream-slurm', 'slurm', 'egee')
    >>> split_id("ce01.cnaf.grid") is None
    True
    """
    found = _ID.match(ce_id)
    return (found["contact"], found["lrms"], found["queue"]) if found else None


def local_queue(values: Mapping[str, Value]) -> str | None:
    """Return the queue that ``QueueName=`` among a CE's capabilities names; None without one.

    >>> local_queue({"GlueCECapability": ["Share=cms:60", "QueueName=long"]}), local_queue({})
    ('long', None)
    """
    said = texts(values.get("GlueCECapability"))
    names = {text.removeprefix(QUEUE) for text in said if text.startswith(QUEUE)}
    return names.pop() or None if len(names) == 1 else None


def queue_name(ce_id: str) -> str:
    """Return the queue of a batch system that a CE's id ends in; the id itself if it names none.

    >>> queue_name("ce01.cnaf.grid:8443/cream-slurm-egee"), queue_name("ce01.cnaf.grid")
    ('egee', 'ce01.cnaf.grid')
    """
    parts = split_id(ce_id)
    return parts[2] if parts is not None else ce_id
