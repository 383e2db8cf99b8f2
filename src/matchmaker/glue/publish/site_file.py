"""What a site says of itself, in a TOML file: its name, where it is, and whom to write to.

The keys are those of the table `KEYS`; what they mean is in docs/glue.md.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any, Final

import attrs

from matchmaker.classad import Value
from matchmaker.classad.values import is_number
from matchmaker.glue.records import Cluster, GlueRecords, Site

KEYS: Final[Mapping[str, str]] = {
    "name": "GlueSiteName",
    "description": "GlueSiteDescription",
    "web": "GlueSiteWeb",
    "location": "GlueSiteLocation",
    "latitude": "GlueSiteLatitude",
    "longitude": "GlueSiteLongitude",
    "mail": "GlueSiteEmailContact",
    "support": "GlueSiteUserSupportContact",
    "admin": "GlueSiteSysAdminContact",
    "security": "GlueSiteSecurityContact",
}
"""The keys of the file, and what GLUE 1.3 calls them."""

_MAIL: Final = frozenset({"mail", "support", "admin", "security"})
_DEGREES: Final = {"latitude": 90, "longitude": 180}


def site_values(text: str) -> dict[str, Value]:
    """The values of a GlueSite that a file gives.

    Raises:
        ValueError: the text is no TOML, has another key, or a value of another kind.

    >>> site_values('admin = "grid@s.org"')
    {'GlueSiteSysAdminContact': 'mailto:grid@s.org'}
    """
    return {KEYS[key]: _text(key, value) for key, value in _checked(tomllib.loads(text)).items()}


def _checked(found: dict[str, Any]) -> dict[str, Any]:
    for key in found.keys() - KEYS.keys():
        raise ValueError(f"a site file has no key {key!r}; expected are {', '.join(KEYS)}")
    return found


def _text(key: str, value: Any) -> str:
    if key in _DEGREES:
        most = _DEGREES[key]
        number = is_number(value)
        if not number or not -most <= value <= most:
            raise ValueError(
                f"{key} is a number of degrees from -{most} to {most}: found {value!r}"
            )
        return f"{value:.15g}"
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(f"{key} is a text on one line: found {value!r}")
    if key in _MAIL and "@" not in value:
        raise ValueError(f"{key} is an address of mail, such as grid@site.org: found {value!r}")
    return f"mailto:{value}" if key in _MAIL and not value.startswith("mailto:") else value


def with_site(records: GlueRecords, values: Mapping[str, Value]) -> GlueRecords:
    """Records of which each site has values besides its own."""
    changed = {site.id: Site(site.id, {**site.values, **values}) for site in records.sites}

    def placed(cluster: Cluster) -> Cluster:
        return attrs.evolve(cluster, site=changed.get(cluster.site_id, cluster.site))

    # Each queue sees a cluster with the hosts of its own, so that an id says not which one.
    queues = (
        attrs.evolve(ce, cluster=placed(ce.cluster)) if ce.cluster else ce
        for ce in records.computing_elements
    )
    return attrs.evolve(
        records,
        sites=tuple(changed.values()),
        clusters=tuple(map(placed, records.clusters)),
        computing_elements=tuple(queues),
    )
