"""Where queues are offered: a batch system's queues as those of a site's computing element.

A batch system knows its queues by name. Who publishes them must say besides at which endpoint jobs
are submitted, of which site they are, and whom they admit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from matchmaker.classad import ClassAd, Value
from matchmaker.classad.ad import first_text
from matchmaker.glue.flatten import unwrap
from matchmaker.glue.publish.local_access import admit

_ENDPOINT: Final = re.compile(
    r"(?P<host>[a-z0-9](?:[a-z0-9.-]{0,252}[a-z0-9])?):(?P<port>[0-9]{1,5})/(?P<kind>[a-z0-9_.]+)",
    re.IGNORECASE | re.ASCII,
)
_NAMES: Final = ("CEid", "GlueCEUniqueID")


def place(
    queues: Iterable[ClassAd],
    endpoint: str | None = None,
    *,
    site: str | None = None,
    vos: Iterable[str] = (),
    local: Mapping[str, Sequence[str]] | None = None,
) -> list[ClassAd]:
    """Ads of queues with what a batch system does not know of them, ready for `describe_site`.

    Args:
        queues: as a batch system describes them, or ads of computing elements, which keep what they
            say of themselves.
        endpoint: where jobs are submitted, ``HOST:PORT/INTERFACE``; with batch system and queue it
            makes ``CEid``, as the gLite broker reads it.
        site: the name of the site.
        vos: whom the queues admit: virtual organisations, VOMS groups and roles, which begin with a
            slash, or whole rules. Without any the ads have no rule, and what is published of them
            admits nobody.
        local: the local names that their jobs run as; a queue that the batch system keeps for some
            admits as in `admit`, and nobody without ``vos``.

    Raises:
        ValueError: for another endpoint, for what is no rule, and for a queue that has no
            ``CEid`` and no endpoint, name or batch system that would make one.

    >>> queue = ClassAd({"QueueName": "long", "LRMSType": "slurm"})
    >>> [ce] = place([queue], "ce.s.grid:8443/cream", site="S", vos=["cms", "/atlas/Role=pilot"])
    >>> ce.eval("CEid"), ce.eval("GlueSiteUniqueID")
    ('ce.s.grid:8443/cream-slurm-long', 'S')
    >>> ce.eval("GlueCEAccessControlBaseRule")
    ['VO:cms', 'VOMS:/atlas/Role=pilot']
    """
    if site is not None and not site.strip():
        raise ValueError("a site needs a name")
    found = admit(map(unwrap, queues), vos, local)
    for ad in found:
        if not first_text(ad, _NAMES):
            for name, value in _placed(ad, endpoint).items():
                ad[name] = value
        if site is not None and "GlueSiteUniqueID" not in ad:
            ad["GlueSiteUniqueID"] = site.strip()
    return found


def _placed(ad: ClassAd, endpoint: str | None) -> dict[str, Value]:
    """What an endpoint makes of a batch system's queue."""
    queue = first_text(ad, ("QueueName", "Name"))
    lrms = first_text(ad, ("LRMSType", "GlueCEInfoLRMSType"))
    if not queue or not lrms:
        raise ValueError("an ad of a queue has neither a CEid nor a QueueName and an LRMSType")
    if endpoint is None:
        raise ValueError(
            f"{queue} is a queue of {lrms}; to be published it needs the endpoint (--endpoint) that"
            " jobs are submitted to, such as ce.site.org:8443/cream"
        )
    known = _ENDPOINT.fullmatch(endpoint)
    if known is None or not 0 < int(known["port"]) < 1 << 16:
        raise ValueError(
            f"{endpoint!r} is no endpoint HOST:PORT/INTERFACE, such as ce.site.org:8443/cream"
        )
    host = known["host"].lower()
    place = f"{host}:{int(known['port'])}/{known['kind']}"
    return {
        "CEid": f"{place}-{lrms.replace('-', '_')}-{queue}",
        "GlueClusterUniqueID": host,
        "GlueCEHostingCluster": host,
        "GlueCEInfoHostName": host,
        "GlueCEInfoGatekeeperPort": int(known["port"]),
        "GlueCEInfoJobManager": known["kind"],
    }
