"""Describe a site to publish it: its queues, the hosts behind them, its endpoint and its users.

A batch system knows its queues by name, and users, groups and accounts. To publish them one names
the endpoint for jobs (`place`), the virtual organisations of the queues, and the local names that
their jobs run under (`admit`). Hosts that are known one by one are described by what they have in
common, each group of like ones apart (`describe_site`). A TOML file names the site, its location
and its contacts (`site_values`).
"""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from matchmaker.classad import UNDEFINED, ClassAd, Value
from matchmaker.classad.ad import first_text
from matchmaker.classad.values import is_number
from matchmaker.glue.access import CLOSED, RULES, denies, is_rule, is_vo, vo_of
from matchmaker.glue.clean import whole
from matchmaker.glue.flatten import unflatten, unwrap
from matchmaker.glue.records import (
    ComputingElement,
    GlueCluster,
    GlueRecords,
    GlueSite,
    SubCluster,
    queue_name,
    texts,
)
from matchmaker.glue.schema import attribute

_OF_HOSTS = "GlueHost"
_LOCAL: Final[Mapping[str, tuple[str, ...]]] = {
    "GlueHostMainMemoryRAMSize": ("TotalMemory", "Memory"),
    "GlueHostArchitectureSMPSize": ("TotalCpus", "DetectedCpus", "Cpus"),
    "GlueHostArchitecturePlatformType": ("Arch",),
    "GlueHostOperatingSystemName": ("OpSysName", "OpSys"),
    "GlueHostOperatingSystemRelease": ("OpSysVersion", "OpSysMajorVer"),
}
"""The names of facts of hosts in HTCondor's ads of machines."""

_PASSING: Final = re.compile(r"GlueHost(?:Name|UniqueID|.*Load.*|.*Available(?:Space)?)")
"""The identity of a node, and values that change from minute to minute."""

_MEMORY: Final = "GlueHostMainMemoryRAMSize"
_SAME_MEMORY: Final = 1.1
"""The greatest memory of a node in a group, as a multiple of the least."""

_ALL_CPUS: Final = "GLUE2ComputingManagerTotalLogicalCPUs"

Hosts = Sequence[Mapping[str, Value]]


def describe_site(
    queues: Iterable[ClassAd], hosts: Iterable[ClassAd] = (), *, split: bool = True
) -> GlueRecords:
    """Make the records of queues and of the worker nodes behind them, ready to be published.

    Args:
        queues: ads of computing elements, as `Glue.computing_elements` gives them or written by
            hand; ``CEid`` is required.
        hosts: ads of the worker nodes, with the names of GLUE (``GlueHost…``) or of HTCondor. One
            that lists its ``Queues``, as a batch system does, is behind these alone, another behind
            all. A queue without any keeps its own values of hosts; it is closed if it has no
            processors either, as batch systems refuse its jobs.
        split: whether the nodes of a queue are a SubCluster for each group of like ones, the least
            memory first, or one for all. Either promises what each of its nodes keeps: the least of
            each number, facts that hold for all, tags that all have. Queues with the same nodes
            share them.

    Raises:
        ValueError: a queue has no id.

    >>> from matchmaker import parse_ad, parse_ads
    >>> queue = parse_ad('[ CEid = "ce.s.grid:8443/cream-slurm-long" ]')
    >>> hosts = list(parse_ads("[ Memory = 4000; Cpus = 4 ] [ Memory = 2000; Cpus = 8 ]"))
    >>> [cluster] = describe_site([queue], hosts).clusters
    >>> [sub.values["GlueHostMainMemoryRAMSize"] for sub in cluster.subclusters]
    [2000, 4000]
    >>> [cluster] = describe_site([queue], hosts, split=False).clusters
    >>> [sub.values["GlueHostMainMemoryRAMSize"] for sub in cluster.subclusters]
    [2000]
    """
    found = unflatten(queues)
    nodes = [_host(ad) for ad in hosts]
    seen: dict[tuple[str, tuple[int, ...]], list[ComputingElement]] = {}
    for ce in found.computing_elements:
        if ce.cluster is not None:
            seen.setdefault((ce.cluster.id, _behind(ce, nodes)), []).append(ce)
    several = {cluster for cluster, count in Counter(c for c, _ in seen).items() if count > 1}
    # The processors of a node that several queues share count once.
    behind_all = {ident: set().union(*(b for c, b in seen if c == ident)) for ident, _ in seen}
    totals = {c: _cores([nodes[n] for n in sorted(those)]) for c, those in behind_all.items()}
    clusters: dict[str, GlueCluster] = {}
    for (ident, behind), queues_there in seen.items():
        cluster = queues_there[0].cluster
        name = f"{ident}/{queue_name(queues_there[0].id)}" if ident in several else ident
        subs = _subclusters(name, [nodes[number] for number in behind], split=split)
        if nodes and cluster is not None and not (subs or cluster.subclusters):
            subs = (_unseen(name, queues_there, nodes),)
        if cluster is not None and subs:
            number = totals[ident]
            total: Mapping[str, Value] = {_ALL_CPUS: number} if number else {}
            cluster = attrs.evolve(cluster, subclusters=subs, values={**cluster.values, **total})
        if cluster is not None:
            clusters.update((ce.id, cluster) for ce in queues_there)
    return attrs.evolve(
        found,
        clusters=tuple(dict.fromkeys(clusters.values())),
        computing_elements=tuple(
            attrs.evolve(_closed(ce) if nodes and not behind else ce, cluster=clusters.get(ce.id))
            for ce, behind in ((ce, _behind(ce, nodes)) for ce in found.computing_elements)
        ),
    )


def _unseen(name: str, queues: Sequence[ComputingElement], nodes: Sequence[_Host]) -> SubCluster:
    """Describe the hosts of queues that show no node by what all nodes of the batch system have.

    The platform and the system are those that all have; a queue has none of the others' processors.
    """
    shared = common([host.values for host in nodes])
    values = {"GlueSubClusterUniqueID": name, "GlueSubClusterName": name}
    values |= {attr: value for attr, value in shared.items() if isinstance(value, str)}
    none = {"GlueSubClusterLogicalCPUs": 0} if all(map(is_empty, queues)) else {}
    return SubCluster(name, {**values, **none})


def is_empty(ce: ComputingElement) -> bool:
    """Whether a queue has no processors."""
    return ce.values.get("GlueCEInfoTotalCPUs") == 0


def _closed(ce: ComputingElement) -> ComputingElement:
    closed: Mapping[str, Value] = {"GlueCEStateStatus": "Closed", "GlueCEStateFreeCPUs": 0}
    return attrs.evolve(ce, values={**ce.values, **closed}) if is_empty(ce) else ce


_DISTRIBUTIONS: Final[Mapping[str, str]] = {
    "centos": "CentOS",
    "debian": "Debian",
    "fedora": "Fedoracore",
    "gentoo": "Gentoo",
    "opensuse-leap": "SUSE LINUX",
    "rhel": "RedhatEnterpriseAS",
    "scientific": "ScientificSL",
    "sles": "SUSE LINUX",
    "ubuntu": "Ubuntu",
}
"""Names of distributions in EGI's glue-validator, by the ID of os-release(5); others go by NAME."""

_SYSTEM: Final = "GlueHostOperatingSystemName"
_OF_RELEASE: Final = {
    "VERSION_ID": "GlueHostOperatingSystemRelease",
    "VERSION_CODENAME": "GlueHostOperatingSystemVersion",
}
# Batch systems give the kernel's name, or none, for the operating system.
_KERNELS: Final = frozenset({"", "linux", "gnu/linux"})
# Of these two the version of the kernel names the distribution; of others it does not.
_BUILT_BY: Final = re.compile(r"\b(Debian)(?= \d)|(?<=-)(Ubuntu)\b")


def os_release_values(text: str) -> dict[str, Value]:
    r"""Return the operating system of an os-release file under the names of GLUE 1.3.

    Raises:
        ValueError: the text names no system.

    >>> os_release_values('NAME="AlmaLinux"\nVERSION_ID="9.4"\nID="almalinux"')
    {'GlueHostOperatingSystemName': 'AlmaLinux', 'GlueHostOperatingSystemRelease': '9.4'}
    """
    told: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if equals:
            told[key] = value.strip("\"'")
    name = _DISTRIBUTIONS.get(told.get("ID", "").lower()) or told.get("NAME") or told.get("ID")
    if not name:
        raise ValueError("neither NAME nor ID is there; expected is an os-release file")
    return {_SYSTEM: name, **{of: told[key] for key, of in _OF_RELEASE.items() if told.get(key)}}


def with_system(
    hosts: Iterable[ClassAd], system: Mapping[str, Value], kernel: str | None = None
) -> list[ClassAd]:
    """Return ads of nodes with their distribution in place of "Linux", which is only the kernel.

    Args:
        hosts: as a batch system describes them; those with a distribution stay.
        system: as `os_release_values` gives it.
        kernel: the output of ``uname -srv`` on the system. Nodes with another kernel then have the
            distribution that built theirs, if its version names one. None: all are of the system.

    >>> [ad] = with_system([ClassAd({"OpSys": "LINUX"})], {"GlueHostOperatingSystemName": "Debian"})
    >>> ad.eval("GlueHostOperatingSystemName")
    'Debian'
    """
    found = []
    for host in hosts:
        ad = host.copy()
        if str(host_values(ad).get(_SYSTEM, "")).lower() in _KERNELS:
            mine = _kernel(ad)
            built = _BUILT_BY.search(mine)
            other: Mapping[str, Value] = {_SYSTEM: built[0]} if built else {}
            ad.update(system if kernel is None or mine == kernel else other)
        found.append(ad)
    return found


def _kernel(host: ClassAd) -> str:
    """Return a node's kernel as ``uname -srv`` prints it; empty if the batch system tells none."""
    native = host.eval("Native")
    if not isinstance(native, ClassAd):
        return ""
    told = first_text(native, ("OS", "operating_system"))
    if told is None and (said := first_text(native, ("status_uname",))):
        name, _, *rest = [*said.split(" "), "", ""]
        told = " ".join((name, *rest[:-3]))
    return told or ""


@attrs.frozen(slots=True)
class _Host:
    """A worker node: its queues, None if it does not list them, and its facts.

    Several slots may be of one machine.
    """

    machine: str | None
    queues: frozenset[str] | None
    available: bool
    values: Mapping[str, Value]


def _host(ad: ClassAd) -> _Host:
    listed = ad.eval("Queues")
    queues = frozenset(texts(listed)) if isinstance(listed, list) else None
    # What is true of it tomorrow, and could be of others.
    lasting = {n: value for n, value in host_values(ad).items() if not _PASSING.fullmatch(n)}
    return _Host(first_text(ad, ("Machine",)), queues, ad.eval("Available") is not False, lasting)


def _behind(ce: ComputingElement, nodes: Sequence[_Host]) -> tuple[int, ...]:
    name = queue_name(ce.id)
    return tuple(n for n, h in enumerate(nodes) if h.queues is None or name in h.queues)


def host_values(ad: ClassAd) -> dict[str, Value]:
    """Return the facts of a worker node under the names of GLUE 1.3, whichever its ad uses."""
    found: dict[str, Value] = {}
    for name in ad:
        known = attribute(name)
        if known is not None and known.name.startswith(_OF_HOSTS):
            found[known.name] = ad.eval(name)
    for name, others in _LOCAL.items():
        for other in others:
            value = ad.eval(other)
            if name not in found and isinstance(value, (int, str)):
                found[name] = value.lower() if other == "Arch" and isinstance(value, str) else value
    return {name: value for name, value in found.items() if _fits(name, value)}


def _fits(name: str, value: Value) -> bool:
    known = attribute(name)
    if known is None:
        return False
    if known.multi:
        return isinstance(value, list)
    if known.classad in ("integer", "real"):
        return is_number(value) and math.isfinite(value)
    return isinstance(value, bool if known.classad == "boolean" else str)


def _subclusters(cluster: str, hosts: Sequence[_Host], *, split: bool) -> tuple[SubCluster, ...]:
    groups = _alike(hosts) if split or not hosts else [hosts]
    made = []
    for number, group in enumerate(groups, 1):
        name = cluster if len(groups) == 1 else f"{cluster}/{number}"
        live = [host.values for host in group if host.available]
        out = [host.values for host in group if not host.available]
        facts = common(live, out) if live else common(out)
        values = {"GlueSubClusterUniqueID": name, "GlueSubClusterName": name, **facts}
        if (total := _cores(group)) is not None:
            values["GlueSubClusterLogicalCPUs"] = total
        made.append(SubCluster(name, values))
    return tuple(made)


def _cores(hosts: Sequence[_Host]) -> int | None:
    """Count the processors of some nodes; None if one does not tell its own."""
    cores = {
        host.machine or place: host.values.get("GlueHostArchitectureSMPSize")
        for place, host in enumerate(hosts)
    }
    known = [core for core in cores.values() if isinstance(core, int)]
    total = whole(sum(known))
    return total if len(known) == len(cores) and isinstance(total, int) else None


def _alike(hosts: Sequence[_Host]) -> list[list[_Host]]:
    """Group like nodes, the least memory first: equal, but for a tenth of the memory.

    Nodes of one purchase differ by what their firmware keeps. One that is out, and may lack facts,
    is of the first group that has all its own.
    """
    groups: dict[str, list[list[_Host]]] = {}
    for host in sorted(hosts, key=lambda host: (not host.available, _memory(host))):
        like = repr(sorted((n, v) for n, v in host.values.items() if n != _MEMORY))
        near = [group for group in groups.get(like, ()) if _near(host, group[0])]
        if not near and not host.available:
            fits = {n: v for n, v in host.values.items() if n != _MEMORY}.items()
            every = (group for some in groups.values() for group in some)
            near = [g for g in every if fits <= g[0].values.items() and _near(host, g[0])]
        if near:
            near[0].append(host)
        else:
            groups.setdefault(like, []).append([host])
    found = [group for some in groups.values() for group in some]
    return sorted(found, key=lambda group: (min(map(_memory, group)), _cores(group) or 0))


def _memory(host: _Host) -> float:
    found = host.values.get(_MEMORY)
    return found if isinstance(found, (int, float)) else math.inf


def _near(host: _Host, other: _Host) -> bool:
    """Whether two nodes have the same memory but for a tenth; one that is out may tell none."""
    if _MEMORY not in host.values or _MEMORY not in other.values:
        return not host.available or (_MEMORY not in other.values and _MEMORY not in host.values)
    less, more = sorted((_memory(host), _memory(other)))
    return more <= less * _SAME_MEMORY


def common(nodes: Hosts, out: Hosts = ()) -> dict[str, Value]:
    """Return what every node keeps: the least of numbers, equal facts, items that all lists hold.

    A fact that one node lacks is left out for all. Nodes that are out, and take no jobs at the
    moment, count only with the facts that they have: one that is down may have none.

    >>> common([{"GlueHostBenchmarkSI00": 620}, {"GlueHostBenchmarkSI00": 400}], [{}])
    {'GlueHostBenchmarkSI00': 400}
    """
    made: dict[str, Value] = {}
    for name in nodes[0]:
        values = [node.get(name, UNDEFINED) for node in nodes]
        if any(value is UNDEFINED for value in values):
            continue
        merged = _merged([*values, *(node[name] for node in out if name in node)])
        if merged is not UNDEFINED:
            made[name] = merged
    return made


def _merged(values: Sequence[Value]) -> Value:
    first = values[0]
    if isinstance(first, bool):
        return all(value is True for value in values)
    if isinstance(first, (int, float)):
        return min(value for value in values if isinstance(value, (int, float)))
    if isinstance(first, list):
        return [item for item in first if all(isinstance(v, list) and item in v for v in values)]
    return first if all(value == first for value in values) else UNDEFINED


# As the ids of GLUE 1.3 begin: a host has at most 254 characters, a port five digits.
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
    """Add to ads of queues what a batch system does not know of them, for `describe_site`.

    Args:
        queues: as a batch system describes them, or ads of computing elements, which keep their own
            values.
        endpoint: the address for jobs, ``HOST:PORT/INTERFACE``; with batch system and queue it
            makes ``CEid``, as the gLite broker reads it.
        site: the name of the site.
        vos: whom the queues admit: virtual organisations, VOMS groups and roles, which begin with a
            slash, or whole rules. Without any the ads have no rule, and admit nobody once
            published.
        local: the local names that their jobs run as; a queue that the batch system keeps for some
            admits as in `admit`, and nobody without ``vos``.

    Raises:
        ValueError: the endpoint or a rule has another form, or a queue has no ``CEid`` and no
            endpoint, name or batch system that would make one.

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
    """Return what an endpoint adds to a batch system's queue."""
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
        said = "is no endpoint HOST:PORT/INTERFACE, such as ce.site.org:8443/cream"
        raise ValueError(f"{endpoint!r} {said}")
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


LOCAL: Final = "LocalAccess"
"""The attribute of a described queue that does not admit everybody: alternatives of lists."""


def admit(
    queues: Iterable[ClassAd],
    vos: Iterable[str] = (),
    local: Mapping[str, Sequence[str]] | None = None,
) -> list[ClassAd]:
    """Give ads of queues rules of access.

    A queue without values of access admits all of ``vos``; one with rules keeps them. One with
    ``LocalAccess`` admits those of which a local name is allowed and none is denied: in one of its
    alternatives each ``Allowed…`` list must hold one, and no ``Denied…`` list any. If it admits
    none, or if the lists cannot be read, it denies everybody.

    Args:
        queues: as a batch system describes them.
        vos: virtual organisations, VOMS groups and roles, which begin with a slash, or whole rules.
        local: the users, groups or accounts that jobs run as, by those; by default the name of the
            organisation.

    Raises:
        ValueError: a text is no rule, or a local name is of none of ``vos``.

    >>> queue = ClassAd({"Name": "q", "LocalAccess": [ClassAd({"AllowedGroups": ["cms", "lhc"]})]})
    >>> [admitted] = admit([queue], ["cms", "atlas"])
    >>> admitted.eval("GlueCEAccessControlBaseRule")
    ['VO:cms']
    >>> [admitted] = admit([queue], ["cms", "atlas"], {"atlas": ["lhc"], "cms": ["cmsprod"]})
    >>> admitted.eval("GlueCEAccessControlBaseRule")
    ['VO:atlas']
    """
    rules = {vo: rule(vo) for vo in vos}
    owners = {vo: vo_of(known) or vo for vo, known in rules.items()}
    named = {vo: (local or {}).get(vo) or (local or {}).get(own) for vo, own in owners.items()}
    names = {vo: frozenset(named[vo] or (own,)) for vo, own in owners.items()}
    for vo in local or ():
        if not any(vo in (one, vo_of(known)) for one, known in rules.items()):
            said = "which is not among the VOs that are admitted"
            raise ValueError(f"a local name of {vo!r}, {said}")
    found = []
    for queue in queues:
        ad = queue.copy()
        lists = ad.eval(LOCAL)
        if LOCAL in ad and ad.eval(RULES) in (UNDEFINED, [CLOSED]):
            kept = [r for vo, r in rules.items() if denies(r) or _admits(lists, names[vo])]
            ad[RULES] = kept if any(not denies(r) for r in kept) else [CLOSED]
        elif rules and RULES not in ad:
            ad[RULES] = list[Value](rules.values())
        found.append(ad)
    return found


def admits_nobody(ad: ClassAd) -> bool:
    """Whether a queue denies everybody because of the batch system's own lists.

    >>> [admits_nobody(ad) for ad in admit([ClassAd({"LocalAccess": []}), ClassAd()])]
    [True, False]
    """
    return LOCAL in ad and ad.eval(RULES) == [CLOSED]


def _admits(lists: Value, names: frozenset[str]) -> bool:
    return isinstance(lists, list) and any(
        isinstance(one, ClassAd) and one and all(_passes(n, one.eval(n), names) for n in one)
        for one in lists
    )


def _passes(kind: str, listed: Value, names: frozenset[str]) -> bool:
    """Whether a list lets names pass; one that cannot be read lets none."""
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        return False
    held = bool(names.intersection(map(str, listed)))
    allows, denied = (kind.lower().startswith(word) for word in ("allowed", "denied"))
    return held if allows else denied and not held


def rule(vo: str) -> str:
    """Make the rule that admits a virtual organisation, or a VOMS group and role; a rule is itself.

    Raises ValueError for other texts, and for those that GLUE 1.3 cannot publish.

    >>> rule("cms"), rule("/cms/Role=pilot"), rule("DENY:/cms/Role=bad"), rule("/O=grid/CN=Ada")
    ('VO:cms', 'VOMS:/cms/Role=pilot', 'DENY:/cms/Role=bad', '/O=grid/CN=Ada')
    """
    text = vo.strip()
    if not text.upper().startswith(("VO:", "VOMS:", "DENY:")) and not (
        text.startswith("/") and "/CN=" in text
    ):
        text = f"VOMS:{text}" if text.startswith("/") else f"VO:{text}"
    kind, _, name = text.partition(":")
    plain = text.isascii() and text.isprintable()
    if plain and kind.upper() == "VO" and name and not is_vo(name):
        said = "is not the name of a virtual organisation; give each name separately"
        raise ValueError(f"{vo!r} {said}")
    if not (plain and is_rule(text)):
        raise ValueError(f"{vo!r} names no virtual organisation, group, role or subject")
    if kind.upper() in ("VOMS", "DENY") and not name.startswith("/"):
        raise ValueError(f"{vo!r}: a VOMS group or role begins with a slash, such as /cms/Role=x")
    return text


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
"""The keys of the file, and their names in GLUE 1.3."""

_MAIL: Final = frozenset({"mail", "support", "admin", "security"})
_MOST_DEGREES: Final = {"latitude": 90, "longitude": 180}


def site_values(text: str) -> dict[str, Value]:
    """Read the values of a GlueSite from a TOML file.

    Raises:
        ValueError: the text is not TOML, has another key, or a value of another kind.

    >>> site_values('admin = "grid@s.org"')
    {'GlueSiteSysAdminContact': 'mailto:grid@s.org'}
    """
    found = tomllib.loads(text)
    for key in found.keys() - KEYS.keys():
        raise ValueError(f"a site file has no key {key!r}; expected are {', '.join(KEYS)}")
    return {KEYS[key]: _site_text(key, value) for key, value in found.items()}


def _site_text(key: str, value: Any) -> str:
    if key in _MOST_DEGREES:
        most = _MOST_DEGREES[key]
        if not is_number(value) or not -most <= value <= most:
            said = f"is a number of degrees from -{most} to {most}: found {value!r}"
            raise ValueError(f"{key} {said}")
        return f"{value:.15g}"
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(f"{key} is a text on one line: found {value!r}")
    if key in _MAIL and "@" not in value:
        raise ValueError(f"{key} is an address of mail, such as grid@site.org: found {value!r}")
    return f"mailto:{value}" if key in _MAIL and not value.startswith("mailto:") else value


def with_site(records: GlueRecords, values: Mapping[str, Value]) -> GlueRecords:
    """Add values to each site of records."""
    changed = {site.id: GlueSite(site.id, {**site.values, **values}) for site in records.sites}

    def placed(cluster: GlueCluster) -> GlueCluster:
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
