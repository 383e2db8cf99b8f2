"""Prints how long a top-level BDII of today's size takes to read, beside a plain parse of its text.

``python benchmarks/information_system.py [--quick] [--write FILE]``, or ``make bench``. The system
is made up: 300 sites with 3,000 queues, each described in GLUE 1.3 and in GLUE 2.0, are 16,800
entries and 22 MB of LDIF. Sites differ in size, in their batch system, VOs, hosts, software, limits
and names, and one in five publishes what real ones get wrong: defaults of providers, placeholders,
keys that lead nowhere. The same numbers give the same file, which ``--write`` keeps. Each
measurement is a new process, of which the processor's time without imports counts.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import attrs
from grid import Lines, entry

SITES, QUEUES = 300, 3_000
NOON: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
"""When it is read: sites wrote their entries in the hour before."""

_STEMS: Final = (
    *("ral", "desy", "cnaf", "kit", "pic", "triumf", "nikhef", "lyon", "prague", "krakow"),
    *("glasgow", "bari", "catania", "legnaro", "torino", "julich", "aachen", "wuppertal", "lisbon"),
    *("coimbra", "tallinn", "kiae", "dubna", "taipei", "tokyo", "beijing", "mumbai", "melbourne"),
    *("ankara", "athens", "bucharest", "sofia", "zagreb", "ljubljana", "bratislava", "budapest"),
    *("vienna", "geneva", "bern", "oslo", "umea", "copenhagen", "helsinki", "dublin", "oxford"),
    *("liverpool", "lancaster", "sheffield", "durham", "brunel", "madrid", "valencia", "santander"),
)  # fmt: skip
_KINDS: Final = ("t2", "lcg", "grid", "hep", "phys", "tier2", "ific", "lapp", "cloud", "hpc")
_TOPS: Final = (
    "ac.uk",
    "de",
    "it",
    "fr",
    "es",
    "pl",
    "cz",
    "edu",
    "jp",
    "org.tw",
    "ch",
    "se",
    "pt",
)
_VOS: Final = (
    *("atlas", "cms", "lhcb", "alice", "ops", "dteam", "biomed", "belle", "ilc", "dune", "icecube"),
    *("vo.cta.in2p3.fr", "enmr.eu", "lz", "t2k.org", "na62.vo.gridpp.ac.uk", "skatelescope.eu"),
    *("virgo", "magic", "euclid-ec.org", "pheno", "gridpp", "comet.j-parc.jp", "juno", "esr"),
)  # fmt: skip
_ROLES: Final = ("", "/Role=production", "/Role=pilot", "/Role=lcgadmin", "/Role=sgm")
_BATCH: Final = (
    *(("slurm", "23.11.4"), ("slurm", "24.05.1"), ("pbs", "6.1.2"), ("condor", "23.0.12")),
    *(("condor", "24.1.1"), ("sge", "8.1.9"), ("lsf", "10.1"), ("torque", "4.2.10")),
)  # fmt: skip
_DOORS: Final = (
    ("CREAM", "org.glite.ce.CREAM", 8443, "1.16.7"),
    ("ARC-CE", "org.ogf.glue.emies.activitycreation", 443, "6.18.0"),
    ("HTCondor-CE", "org.opensciencegrid.htcondorce", 9619, "23.0.8"),
)
_PROCESSORS: Final = (
    *("Intel(R) Xeon(R) CPU E5-2630 v4 @ 2.20GHz", "Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz"),
    *("Intel(R) Xeon(R) Silver 4214R CPU @ 2.40GHz", "AMD EPYC 7302 16-Core Processor"),
    *("AMD EPYC 7452 32-Core Processor", "AMD EPYC 7763 64-Core Processor", "AMD Opteron 6376"),
)  # fmt: skip
_SYSTEMS: Final = (
    *(("CentOS", "7.9.2009", "Core"), ("AlmaLinux", "9.4", "Seafoam Ocelot")),
    *(("RockyLinux", "9.3", "Blue Onyx"), ("ScientificSL", "7.9", "Nitrogen")),
    ("AlmaLinux", "8.9", "Midnight Oncilla"),
)
_QUEUES: Final = (
    *(
        "long",
        "short",
        "grid",
        "mcore",
        "score",
        "himem",
        "gpu",
        "express",
        "opportunistic",
        "test",
    ),
    *("infinite", "batch", "prod", "analysis", "multicore", "week", "day"),
)
_TAGS: Final = (
    *("VO-{vo}-production-{a}.{b}.{c}-x86_64-centos7-gcc{d}-opt", "VO-{vo}-ROOT-{a}.{b}.{c}"),
    *("VO-{vo}-CMSSW_{a}_{b}_{c}_patch{d}", "VO-{vo}-AthSimulation-{a}.{b}.{c}"),
    *("VO-{vo}-lhcb-Gauss-v{a}r{b}p{c}", "VO-{vo}-AliRoot-v{a}-{b}", "VO-{vo}-geant4-{a}.{b}"),
)  # fmt: skip
_LANDS: Final = ("UK", "Germany", "Italy", "France", "Spain", "Poland", "Japan", "USA", "Taiwan")


@attrs.frozen(slots=True)
class _Site:
    """What a site draws once and its entries repeat."""

    name: str
    domain: str
    queues: Sequence[_Queue]
    vos: Sequence[str]
    batch: tuple[str, str]
    door: tuple[str, str, int, str]
    dirty: bool
    stamp: str

    @property
    def host(self) -> str:
        """The host of its computing element."""
        return f"{self.queues[0].host}.{self.domain}"

    @property
    def service(self) -> str:
        """The id of its computing service."""
        return f"{self.host}_ComputingElement"


@attrs.frozen(slots=True)
class _Queue:
    """A queue: its name, its VO, and its figures."""

    host: str
    name: str
    vo: str
    role: str
    cores: int
    running: int
    waiting: int
    hours: int
    memory: int
    silent: bool


def entries(sites: int = SITES, queues: int = QUEUES, seed: int = 11) -> Iterator[str]:
    """The entries as LDIF, parents first, each with the empty line that ends it."""
    rnd = random.Random(seed)
    yield entry("o=grid", ["organization"], ["o: grid"])
    yield entry("Mds-Vo-name=local,o=grid", ["Mds"], ["Mds-Vo-name: local"])
    drawn = [_site(number, size, rnd) for number, size in enumerate(_sizes(sites, queues, rnd))]
    for site in drawn:
        yield from _old(site, rnd)
    yield entry("o=glue", ["organization"], ["o: glue"])
    grid = "GLUE2GroupID=grid,o=glue"
    yield entry(grid, ["GLUE2Group"], ["GLUE2GroupID: grid"])
    for site in drawn:
        yield from _new(site, grid, rnd)


def _sizes(sites: int, queues: int, rnd: random.Random) -> list[int]:
    """How many queues each site has: a few large sites, many small ones."""
    weights = [rnd.paretovariate(1.6) for _ in range(sites)]
    sizes = [max(1, int(queues * weight / sum(weights))) for weight in weights]
    for number in range(abs(queues - sum(sizes))):
        if sum(sizes) < queues:
            sizes[number % sites] += 1
        else:
            sizes[sizes.index(max(sizes))] -= 1
    return sizes


def _site(number: int, size: int, rnd: random.Random) -> _Site:
    stem, kind = rnd.choice(_STEMS), rnd.choice(_KINDS)
    vos = rnd.sample(_VOS, rnd.randrange(2, 12))
    host = f"{rnd.choice(('ce', 'arc', 'cream', 'htc-ce', 'lcgce'))}{rnd.randrange(1, 40):02}"
    dirty = rnd.random() < 0.2
    queues = []
    for place in range(size):
        cores = rnd.choice((48, 96, 320, 1200, 2816, 5400, 16_000)) + rnd.randrange(40)
        running = rnd.randrange(cores + 1)
        name = f"{rnd.choice(_QUEUES)}{place or ''}{rnd.choice(('', '_el9', '-8c', '_s', ''))}"
        hours = rnd.choice((2, 6, 13, 25, 47, 72, 96, 170)) + rnd.randrange(3)
        queues.append(
            _Queue(
                host, name, rnd.choice(vos), rnd.choice(_ROLES), cores, running,
                rnd.choice((0, 0, rnd.randrange(40), rnd.randrange(9000))), hours,
                rnd.choice((2000, 2048, 3000, 4096, 8192, 16_000, 64_000)),
                dirty and rnd.random() < 0.3,
            )
        )  # fmt: skip
    name = f"{stem.upper()}-{kind.upper()}-{number:03}"
    domain = f"{kind}{number}.{stem}.{rnd.choice(_TOPS)}"
    age = timedelta(seconds=rnd.randrange(3700))
    stamp = f"{NOON - age:%Y-%m-%dT%H:%M:%SZ}"
    return _Site(name, domain, queues, vos, rnd.choice(_BATCH), rnd.choice(_DOORS), dirty, stamp)


def _tags(site: _Site, rnd: random.Random) -> list[str]:
    """The applications that its experiments have tagged."""
    made = (
        rnd.choice(_TAGS).format(
            vo=rnd.choice(site.vos), a=rnd.randrange(4, 25), b=rnd.randrange(12),
            c=rnd.randrange(40), d=rnd.randrange(1, 9),
        )
        for _ in range(rnd.randrange(20, 120))
    )  # fmt: skip
    return list(dict.fromkeys(made))


def _ce_id(site: _Site, queue: _Queue) -> str:
    interface = site.door[1].rpartition(".")[2].lower()
    return f"{site.host}:{site.door[2]}/{interface}-{site.batch[0]}-{queue.name}"


def _rules(queue: _Queue) -> list[str]:
    if queue.role:
        return [f"VOMS:/{queue.vo}{queue.role}", f"VOMS:/{queue.vo}/Role=NULL/Capability=NULL"]
    return [f"VO:{queue.vo}"]


_VERSION: Final = ("GlueSchemaVersionMajor: 1", "GlueSchemaVersionMinor: 3")


def _old(site: _Site, rnd: random.Random) -> Iterator[str]:
    """A site in GLUE 1.3."""
    base = f"Mds-Vo-name={site.name},Mds-Vo-name=local,o=grid"
    yield entry(base, ["Mds"], [f"Mds-Vo-name: {site.name}"])
    yield entry(
        f"GlueSiteUniqueID={site.name},{base}",
        ["GlueTop", "GlueSite", "GlueKey", "GlueSchemaVersion"],
        [
            f"GlueSiteUniqueID: {site.name}",
            f"GlueSiteName: {site.name}",
            f"GlueSiteDescription: {site.name} computing centre, {site.domain}",
            f"GlueSiteEmailContact: mailto:grid-support@{site.domain}",
            f"GlueSiteSecurityContact: mailto:security@{site.domain}",
            f"GlueSiteWeb: https://www.{site.domain}/",
            f"GlueSiteLocation: {site.name.partition('-')[0].title()}, {rnd.choice(_LANDS)}",
            f"GlueSiteLatitude: {rnd.uniform(-40, 65):.4f}",
            f"GlueSiteLongitude: {rnd.uniform(-120, 150):.4f}",
            *(f"GlueSiteSponsor: {vo}:{rnd.randrange(100)}" for vo in site.vos[:3]),
            f"GlueSiteOtherInfo: GRID={rnd.choice(('WLCG', 'EGI', 'NDGF', 'OSG'))}",
            f"GlueForeignKey: GlueSiteUniqueID={site.name}",
            *_VERSION,
        ],
    )
    se = f"se{rnd.randrange(9)}.{site.domain}"
    yield entry(
        f"GlueSEUniqueID={se},{base}",
        ["GlueTop", "GlueSE", "GlueKey", "GlueSchemaVersion"],
        [
            f"GlueSEUniqueID: {se}",
            f"GlueSEName: {site.name}:{rnd.choice(('dCache', 'DPM', 'StoRM', 'EOS', 'XRootD'))}",
            f"GlueSEImplementationVersion: {rnd.randrange(1, 10)}.{rnd.randrange(20)}",
            f"GlueSETotalOnlineSize: {rnd.randrange(10_000_000)}",
            f"GlueSEUsedOnlineSize: {rnd.randrange(5_000_000)}",
            f"GlueForeignKey: GlueSiteUniqueID={site.name}",
            *_VERSION,
        ],
    )
    cluster = f"GlueClusterUniqueID={site.host},{base}"
    tags = _tags(site, rnd)
    yield entry(
        cluster,
        ["GlueTop", "GlueCluster", "GlueInformationService", "GlueKey", "GlueSchemaVersion"],
        [
            f"GlueClusterUniqueID: {site.host}",
            f"GlueClusterName: {site.host}",
            f"GlueInformationServiceURL: ldap://{site.host}:2170/mds-vo-name=resource,o=grid",
            f"GlueForeignKey: GlueSiteUniqueID={site.name}",
            *(f"GlueForeignKey: GlueCEUniqueID={_ce_id(site, queue)}" for queue in site.queues),
            *_VERSION,
        ],
    )
    yield entry(
        f"GlueSubClusterUniqueID={site.host},{cluster}",
        [
            *("GlueTop", "GlueSubCluster", "GlueHostApplicationSoftware", "GlueHostArchitecture"),
            *("GlueHostBenchmark", "GlueHostMainMemory", "GlueHostNetworkAdapter", "GlueKey"),
            *("GlueHostOperatingSystem", "GlueHostProcessor", "GlueSchemaVersion"),
        ],
        [*_hosts(site, tags, rnd), f"GlueChunkKey: GlueClusterUniqueID={site.host}", *_VERSION],
    )
    for queue in site.queues:
        yield from _old_queue(site, queue, base, se, rnd)


def _hosts(site: _Site, tags: Sequence[str], rnd: random.Random) -> Lines:
    name, release, version = rnd.choice(_SYSTEMS)
    score = rnd.uniform(7, 25)
    processor = rnd.choice(_PROCESSORS)
    cores = rnd.choice((8, 16, 20, 32, 48, 64, 128))
    return [
        f"GlueSubClusterUniqueID: {site.host}",
        f"GlueSubClusterName: {site.host}",
        f"GlueSubClusterPhysicalCPUs: {rnd.randrange(10, 900)}",
        f"GlueSubClusterLogicalCPUs: {rnd.randrange(900, 20_000)}",
        f"GlueHostApplicationSoftwareRunTimeEnvironment: {tags[0]}",
        *(f"GlueHostApplicationSoftwareRunTimeEnvironment: {tag}" for tag in tags[1:]),
        f"GlueHostArchitecturePlatformType: {'amd64' if site.dirty else 'x86_64'}",
        f"GlueHostArchitectureSMPSize: {cores}",
        f"GlueHostBenchmarkSI00: {round(score * 250)}",
        f"GlueHostBenchmarkSF00: {round(score * 220)}",
        f"GlueHostMainMemoryRAMSize: {cores * rnd.choice((2048, 3072, 4096, 8192))}",
        f"GlueHostMainMemoryVirtualSize: {cores * 8192}",
        f"GlueHostNetworkAdapterInboundIP: {'TRUE' if site.dirty else 'FALSE'}",
        "GlueHostNetworkAdapterOutboundIP: TRUE",
        f"GlueHostOperatingSystemName: {name}",
        f"GlueHostOperatingSystemRelease: {release}",
        f"GlueHostOperatingSystemVersion: {version}",
        f"GlueHostProcessorModel: {'UNDEFINEDVALUE' if site.dirty else processor}",
        f"GlueHostProcessorVendor: {'AuthenticAMD' if 'AMD' in processor else 'GenuineIntel'}",
        f"GlueHostProcessorClockSpeed: {rnd.randrange(1900, 3700)}",
        f"GlueHostProcessorOtherDescription: Cores={cores},Benchmark={score:.2f}-HEP-SPEC06",
    ]


def _old_queue(site: _Site, queue: _Queue, base: str, se: str, rnd: random.Random) -> Iterator[str]:
    ident = _ce_id(site, queue)
    dn = f"GlueCEUniqueID={ident},{base}"
    gone = site.dirty and rnd.random() < 0.1
    limit = "999999999" if site.dirty else str(queue.hours * 60 - rnd.randrange(9))
    yield entry(
        dn,
        [
            *("GlueTop", "GlueCE", "GlueCEAccessControlBase", "GlueCEInfo", "GlueCEPolicy"),
            *("GlueCEState", "GlueInformationService", "GlueKey", "GlueSchemaVersion"),
        ],
        [
            f"GlueCEUniqueID: {ident}",
            f"GlueCEName: {queue.name}",
            f"GlueCEHostingCluster: {site.host}",
            f"GlueCECapability: CPUScalingReferenceSI00={rnd.randrange(1500, 4000)}",
            f"GlueCECapability: Share={queue.vo}:{rnd.randrange(1, 100)}",
            f"GlueCEImplementationName: {site.door[0]}",
            f"GlueCEImplementationVersion: {site.door[3]}",
            f"GlueCEInfoHostName: {site.host}",
            f"GlueCEInfoGatekeeperPort: {site.door[2]}",
            f"GlueCEInfoContactString: https://{site.host}:{site.door[2]}/ce-cream/services",
            f"GlueCEInfoJobManager: {site.batch[0]}",
            f"GlueCEInfoLRMSType: {site.batch[0]}",
            f"GlueCEInfoLRMSVersion: {site.batch[1]}",
            f"GlueCEInfoTotalCPUs: {queue.cores}",
            f"GlueCEInfoDefaultSE: {se}",
            f"GlueCEInfoApplicationDir: /cvmfs/{queue.vo}",
            f"GlueCEInfoDataDir: {'unset' if site.dirty else f'/data/{queue.vo}'}",
            *_state(queue),
            f"GlueCEPolicyMaxCPUTime: {limit}",
            f"GlueCEPolicyMaxObtainableCPUTime: {limit}",
            f"GlueCEPolicyMaxWallClockTime: {queue.hours * 60}",
            f"GlueCEPolicyMaxObtainableWallClockTime: {queue.hours * 60}",
            f"GlueCEPolicyMaxRunningJobs: {queue.cores}",
            f"GlueCEPolicyMaxWaitingJobs: {queue.cores * 4}",
            f"GlueCEPolicyMaxTotalJobs: {0 if site.dirty else queue.cores * 5}",
            f"GlueCEPolicyMaxSlotsPerJob: {rnd.choice((1, 8, 16, 32, 64))}",
            f"GlueCEPolicyAssignedJobSlots: {queue.cores}",
            f"GlueCEPolicyPriority: {rnd.randrange(10)}",
            f"GlueCEPolicyPreemption: {rnd.randrange(2)}",
            *(f"GlueCEAccessControlBaseRule: {rule}" for rule in _rules(queue)),
            f"GlueInformationServiceURL: ldap://{site.host}:2170/mds-vo-name=resource,o=grid",
            f"GlueForeignKey: GlueClusterUniqueID={'gone.' if gone else ''}{site.host}",
            *_VERSION,
        ],
    )
    yield entry(
        f"GlueVOViewLocalID={queue.vo},{dn}",
        *(
            [
                *("GlueTop", "GlueVOView", "GlueCEInfo", "GlueCEState", "GlueCEPolicy"),
                *("GlueCEAccessControlBase", "GlueKey", "GlueSchemaVersion"),
            ],
            [
                f"GlueVOViewLocalID: {queue.vo}",
                f"GlueCEInfoDefaultSE: {se}",
                f"GlueCEInfoApplicationDir: /cvmfs/{queue.vo}",
                f"GlueCEInfoDataDir: /data/{queue.vo}/{queue.name}",
                *_state(queue),
                *(f"GlueCEAccessControlBaseRule: {rule}" for rule in _rules(queue)[:1]),
                f"GlueChunkKey: GlueCEUniqueID={ident}",
                *_VERSION,
            ],
        ),
    )


def _state(queue: _Queue) -> Lines:
    free = queue.cores - queue.running
    waiting = 444444 if queue.silent else queue.waiting
    estimate = 2146660842 if queue.silent else queue.waiting * 37
    return [
        "GlueCEStateStatus: Production",
        f"GlueCEStateFreeCPUs: {0 if queue.silent else free}",
        f"GlueCEStateFreeJobSlots: {0 if queue.silent else free}",
        f"GlueCEStateRunningJobs: {0 if queue.silent else queue.running}",
        f"GlueCEStateWaitingJobs: {waiting}",
        f"GlueCEStateTotalJobs: {0 if queue.silent else queue.running + queue.waiting}",
        f"GlueCEStateEstimatedResponseTime: {estimate}",
        f"GlueCEStateWorstResponseTime: {estimate if queue.silent else estimate * 3}",
    ]


def _new(site: _Site, top: str, rnd: random.Random) -> Iterator[str]:
    """A site in GLUE 2.0."""
    base = f"GLUE2DomainID={site.name},{top}"
    made = [f"GLUE2EntityCreationTime: {site.stamp}", "GLUE2EntityValidity: 3600"]
    yield entry(
        base,
        ["GLUE2Domain", "GLUE2AdminDomain"],
        [
            f"GLUE2DomainID: {site.name}",
            f"GLUE2EntityName: {site.name}",
            *made,
            f"GLUE2DomainDescription: {site.name} computing centre, {site.domain}",
            f"GLUE2DomainWWW: https://www.{site.domain}/",
            f"GLUE2EntityOtherInfo: PROFILE_VERSION=1.{rnd.randrange(4)}",
        ],
    )
    key = f"GLUE2LocationID={site.name}_loc"
    yield entry(
        f"{key},{base}",
        ["GLUE2Location"],
        [
            f"GLUE2LocationID: {site.name}_loc",
            *made,
            f"GLUE2LocationCountry: {rnd.choice(_LANDS)}",
            f"GLUE2LocationPlace: {site.name.partition('-')[0].title()}",
            f"GLUE2LocationLatitude: {rnd.uniform(-40, 65):.4f}",
            f"GLUE2LocationLongitude: {rnd.uniform(-120, 150):.4f}",
            f"GLUE2LocationDomainForeignKey: {site.name}",
        ],
    )
    yield entry(
        f"GLUE2ContactID=general_{site.name},{base}",
        ["GLUE2Contact"],
        [
            f"GLUE2ContactID: general_{site.name}",
            *made,
            f"GLUE2ContactDetail: mailto:grid-support@{site.domain}",
            "GLUE2ContactType: general",
            f"GLUE2ContactDomainForeignKey: {site.name}",
        ],
    )
    dn = f"GLUE2ServiceID={site.service},GLUE2GroupID=resource,{base}"
    yield entry(f"GLUE2GroupID=resource,{base}", ["GLUE2Group"], ["GLUE2GroupID: resource"])
    yield entry(
        dn,
        ["GLUE2Entity", "GLUE2Service", "GLUE2ComputingService"],
        [
            f"GLUE2ServiceID: {site.service}",
            f"GLUE2EntityName: {site.door[0]} at {site.name}",
            *made,
            "GLUE2ServiceCapability: executionmanagement.jobexecution",
            f"GLUE2ServiceType: {site.door[1].rpartition('.')[0]}",
            "GLUE2ServiceQualityLevel: production",
            f"GLUE2ServiceComplexity: endpointType=2, share={len(site.queues)}, resource=1",
            f"GLUE2ServiceAdminDomainForeignKey: {site.name}",
            f"GLUE2ComputingServiceRunningJobs: {sum(q.running for q in site.queues)}",
            f"GLUE2ComputingServiceWaitingJobs: {sum(q.waiting for q in site.queues)}",
            f"GLUE2EntityOtherInfo: InfoProviderHost={site.host}",
        ],
    )
    yield from _endpoints(site, dn, made, rnd)
    yield from _resources(site, dn, made, rnd)
    for queue in site.queues:
        yield from _share(site, queue, dn, made, rnd)


def _endpoints(site: _Site, dn: str, made: Lines, rnd: random.Random) -> Iterator[str]:
    name, interface, port, version = site.door
    started = f"2026-02-{rnd.randrange(1, 28):02}T{rnd.randrange(24):02}:00:00Z"
    for ident, url, words, capability in (
        (f"{site.host}_{interface}", f"https://{site.host}:{port}/ce", interface,
         ("executionmanagement.jobcreation", "executionmanagement.jobmanagement")),
        (f"{site.host}_rp", f"ldap://{site.host}:2170/o=glue", "bdii",
         ("information.discovery.resource",)),
    ):  # fmt: skip
        yield entry(
            f"GLUE2EndpointID={ident},{dn}",
            ["GLUE2Entity", "GLUE2Endpoint", "GLUE2ComputingEndpoint"],
            [
                f"GLUE2EndpointID: {ident}",
                f"GLUE2EntityName: {ident}",
                *made,
                f"GLUE2EndpointURL: {url}",
                *(f"GLUE2EndpointCapability: {word}" for word in capability),
                "GLUE2EndpointTechnology: webservice",
                f"GLUE2EndpointInterfaceName: {words}",
                f"GLUE2EndpointInterfaceVersion: {version}",
                f"GLUE2EndpointImplementor: {rnd.choice(('gLite', 'NorduGrid', 'CHTC'))}",
                f"GLUE2EndpointImplementationName: {name}",
                f"GLUE2EndpointImplementationVersion: {version}",
                "GLUE2EndpointQualityLevel: production",
                f"GLUE2EndpointHealthState: {'ok' if rnd.random() < 0.9 else 'warning'}",
                f"GLUE2EndpointHealthStateInfo: checked at {started}",
                "GLUE2EndpointServingState: production",
                f"GLUE2EndpointStartTime: {started}",
                f"GLUE2EndpointIssuerCA: /C=XX/O={site.name}/CN=CA {rnd.randrange(9)}",
                "GLUE2EndpointTrustedCA: IGTF",
                "GLUE2EndpointDowntimeInfo: See the GOC DB for downtimes",
                f"GLUE2EndpointServiceForeignKey: {site.service}",
                f"GLUE2ComputingEndpointComputingServiceForeignKey: {site.service}",
                "GLUE2ComputingEndpointStaging: staginginout",
                "GLUE2ComputingEndpointJobDescription: glite:jdl",
            ],
        )
        if words == "bdii":
            continue
        policy = f"{ident}_Policy"
        yield entry(
            f"GLUE2PolicyID={policy},GLUE2EndpointID={ident},{dn}",
            ["GLUE2Entity", "GLUE2Policy", "GLUE2AccessPolicy"],
            [
                f"GLUE2PolicyID: {policy}",
                *made,
                "GLUE2PolicyScheme: org.glite.standard",
                *(f"GLUE2PolicyRule: VO:{vo}" for vo in site.vos),
                *(f"GLUE2PolicyUserDomainForeignKey: {vo}" for vo in site.vos),
                f"GLUE2AccessPolicyEndpointForeignKey: {ident}",
            ],
        )


def _resources(site: _Site, dn: str, made: Lines, rnd: random.Random) -> Iterator[str]:
    manager = f"{site.host}_Manager"
    product, version = site.batch
    cores = sum(queue.cores for queue in site.queues)
    yield entry(
        f"GLUE2ManagerID={manager},{dn}",
        ["GLUE2Entity", "GLUE2Manager", "GLUE2ComputingManager"],
        [
            f"GLUE2ManagerID: {manager}",
            f"GLUE2EntityName: Computing Manager on {site.host}",
            *made,
            f"GLUE2ManagerProductName: {product}",
            f"GLUE2ManagerProductVersion: {version}",
            f"GLUE2ManagerServiceForeignKey: {site.service}",
            f"GLUE2ComputingManagerComputingServiceForeignKey: {site.service}",
            f"GLUE2ComputingManagerTotalLogicalCPUs: {cores}",
            f"GLUE2ComputingManagerTotalPhysicalCPUs: {cores // rnd.choice((8, 16, 32))}",
            f"GLUE2ComputingManagerTotalSlots: {cores}",
            "GLUE2ComputingManagerReservation: false",
            f"GLUE2ComputingManagerBulkSubmission: {rnd.choice(('true', 'false'))}",
            f"GLUE2EntityOtherInfo: CPUScalingReferenceSI00={rnd.randrange(1500, 4000)}",
            *(f"GLUE2EntityOtherInfo: Share={vo}:{rnd.randrange(1, 40)}" for vo in site.vos),
        ],
    )
    host = f"{site.host}_{rnd.choice(('wn', 'node', 'worker'))}{rnd.randrange(100)}"
    name, release, code = rnd.choice(_SYSTEMS)
    cpus = rnd.choice((8, 16, 20, 32, 48, 64, 128))
    yield entry(
        f"GLUE2ResourceID={host},GLUE2ManagerID={manager},{dn}",
        ["GLUE2Entity", "GLUE2Resource", "GLUE2ExecutionEnvironment"],
        [
            f"GLUE2ResourceID: {host}",
            f"GLUE2EntityName: {host}",
            *made,
            "GLUE2ExecutionEnvironmentPlatform: x86_64",
            f"GLUE2ExecutionEnvironmentTotalInstances: {rnd.randrange(1, 400)}",
            f"GLUE2ExecutionEnvironmentPhysicalCPUs: {rnd.choice((1, 2))}",
            f"GLUE2ExecutionEnvironmentLogicalCPUs: {cpus}",
            "GLUE2ExecutionEnvironmentCPUMultiplicity: multicpu-multicore",
            f"GLUE2ExecutionEnvironmentCPUVendor: {rnd.choice(('GenuineIntel', 'AuthenticAMD'))}",
            f"GLUE2ExecutionEnvironmentCPUModel: {rnd.choice(_PROCESSORS)}",
            f"GLUE2ExecutionEnvironmentCPUClockSpeed: {rnd.randrange(1900, 3700)}",
            f"GLUE2ExecutionEnvironmentMainMemorySize: {cpus * rnd.choice((2048, 4096, 8192))}",
            f"GLUE2ExecutionEnvironmentVirtualMemorySize: {cpus * 8192}",
            "GLUE2ExecutionEnvironmentOSFamily: linux",
            f"GLUE2ExecutionEnvironmentOSName: {name.lower()}",
            f"GLUE2ExecutionEnvironmentOSVersion: {release} {code}",
            "GLUE2ExecutionEnvironmentConnectivityIn: false",
            "GLUE2ExecutionEnvironmentConnectivityOut: true",
            f"GLUE2ResourceManagerForeignKey: {manager}",
            f"GLUE2ExecutionEnvironmentComputingManagerForeignKey: {manager}",
        ],
    )
    yield entry(
        f"GLUE2BenchmarkID={host}_hep-spec06,GLUE2ResourceID={host},GLUE2ManagerID={manager},{dn}",
        ["GLUE2Entity", "GLUE2Benchmark"],
        [
            f"GLUE2BenchmarkID: {host}_hep-spec06",
            *made,
            "GLUE2BenchmarkType: hep-spec06",
            f"GLUE2BenchmarkValue: {rnd.uniform(7, 25):.2f}",
            f"GLUE2BenchmarkExecutionEnvironmentForeignKey: {host}",
        ],
    )


def _share(site: _Site, queue: _Queue, dn: str, made: Lines, rnd: random.Random) -> Iterator[str]:
    ident = f"{queue.name}_{queue.vo}_{site.service}"
    door = f"{site.host}_{site.door[1]}"
    limit = "999999999" if site.dirty else str(queue.hours * 3600 - rnd.randrange(9))
    yield entry(
        f"GLUE2ShareID={ident},{dn}",
        ["GLUE2Entity", "GLUE2Share", "GLUE2ComputingShare"],
        [
            f"GLUE2ShareID: {ident}",
            f"GLUE2EntityName: {queue.name}",
            *made,
            f"GLUE2ShareDescription: Share of {queue.name} for {queue.vo}",
            f"GLUE2EntityOtherInfo: CREAMCEId={_ce_id(site, queue)}",
            f"GLUE2EntityOtherInfo: ServiceType={site.door[0]}",
            f"GLUE2ComputingShareMappingQueue: {queue.name}",
            f"GLUE2ComputingShareMaxCPUTime: {limit}",
            f"GLUE2ComputingShareDefaultCPUTime: {limit}",
            f"GLUE2ComputingShareMaxWallTime: {queue.hours * 3600}",
            f"GLUE2ComputingShareDefaultWallTime: {queue.hours * 3600}",
            f"GLUE2ComputingShareMaxRunningJobs: {queue.cores}",
            f"GLUE2ComputingShareMaxWaitingJobs: {queue.cores * 4}",
            f"GLUE2ComputingShareMaxTotalJobs: {queue.cores * 5}",
            f"GLUE2ComputingShareMaxSlotsPerJob: {rnd.choice((1, 8, 16, 32, 64))}",
            f"GLUE2ComputingShareMaxMainMemory: {queue.memory}",
            f"GLUE2ComputingShareMaxVirtualMemory: {queue.memory * 2}",
            "GLUE2ComputingShareServingState: production",
            f"GLUE2ComputingShareTotalJobs: {queue.running + queue.waiting}",
            f"GLUE2ComputingShareRunningJobs: {queue.running}",
            f"GLUE2ComputingShareWaitingJobs: {444444 if queue.silent else queue.waiting}",
            f"GLUE2ComputingShareFreeSlots: {queue.cores - queue.running}",
            f"GLUE2ComputingShareEstimatedAverageWaitingTime: {queue.waiting * 37}",
            f"GLUE2ComputingShareEstimatedWorstWaitingTime: {queue.waiting * 111}",
            f"GLUE2ComputingShareTag: {queue.vo}-{rnd.choice(('prod', 'analysis', 'mixed'))}",
            f"GLUE2ShareServiceForeignKey: {site.service}",
            f"GLUE2ComputingShareComputingServiceForeignKey: {site.service}",
            f"GLUE2ShareEndpointForeignKey: {door}",
            f"GLUE2ComputingShareComputingEndpointForeignKey: {door}",
        ],
    )
    yield entry(
        f"GLUE2PolicyID={ident}_policy,GLUE2ShareID={ident},{dn}",
        ["GLUE2Entity", "GLUE2Policy", "GLUE2MappingPolicy"],
        [
            f"GLUE2PolicyID: {ident}_policy",
            *made,
            "GLUE2PolicyScheme: org.glite.standard",
            *(f"GLUE2PolicyRule: {rule}" for rule in _rules(queue)),
            f"GLUE2PolicyUserDomainForeignKey: {queue.vo}",
            f"GLUE2MappingPolicyShareForeignKey: {ident}",
        ],
    )


def write(path: Path, sites: int = SITES, queues: int = QUEUES) -> tuple[int, int]:
    """Write the system to a file; how many entries and bytes it has."""
    with path.open("w", encoding="ascii") as file:
        sizes = [file.write(text) for text in entries(sites, queues)]
    return len(sizes), sum(sizes)


def plain(path: Path) -> list[dict[str, list[str]]]:
    """The entries as names and values: lines unfolded and cut at the colon, and nothing else."""
    found: list[dict[str, list[str]]] = []
    for block in path.read_text(encoding="utf-8").replace("\n ", "").split("\n\n"):
        entry: dict[str, list[str]] = {}
        for line in block.split("\n"):
            name, _, value = line.partition(": ")
            entry.setdefault(name, []).append(value)
        found.append(entry)
    return found


def measured(path: Path) -> dict[str, float]:
    """Seconds of the processor in this process: of the plain parse, of reading, and of the ads."""
    from matchmaker.glue import read_ldif

    start = time.process_time()
    plain(path)
    parsed = time.process_time()
    glue = read_ldif(path, at=NOON)
    read = time.process_time()
    ads = glue.computing_elements()
    made = time.process_time()
    times = {"plain": parsed - start, "read": read - parsed, "ads": made - read}
    return times | {"entries": len(ads)}


def report(path: Path, rounds: int) -> None:
    """Measure in a new process each round, and print the medians and ratios."""
    found = [
        json.loads(subprocess.check_output([sys.executable, __file__, "--measure", str(path)]))
        for _ in range(rounds)
    ]
    needed = {what: median(times[what] for times in found) for what in found[0]}

    def row(what: str, seconds: float) -> None:
        print(f"{what:44} {seconds:5.2f} s  {seconds / needed['plain']:5.1f} times the plain parse")

    row("text to names and values (plain parse)", needed["plain"])
    row("read_ldif: read, cleaned and linked", needed["read"])
    row(f"computing_elements: {needed['entries']:.0f} ads", needed["ads"])


def main() -> None:
    """Write, measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a tenth of it, once")
    parser.add_argument("--write", type=Path, help="only write the LDIF")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measured(given.measure)))
        return
    part = 10 if given.quick else 1
    with TemporaryDirectory() as folder:
        path = given.write or Path(folder) / "grid.ldif"
        count, size = write(path, SITES // part, QUEUES // part)
        print(f"{SITES // part} sites, {QUEUES // part} queues: ", end="")
        print(f"{count} entries, {size / 1e6:.1f} MB of LDIF")
        if not given.write:
            report(path, 1 if given.quick else 3)


if __name__ == "__main__":
    main()
