"""A grid's information system, made up: as many sites, queues and hosts as the large ones had.

``python benchmarks/grid.py FILE`` writes it as LDIF of GLUE 1.3, about 100 MB for the usual 300
sites, 5,000 queues and 20,000 SubClusters. The same numbers give the same file.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SITES, QUEUES, SUBCLUSTERS = 300, 5_000, 20_000
CLUSTERS_PER_SITE: Final = 2
VOS: Final = ("atlas", "cms", "lhcb", "alice", "biomed", "dteam", "ops", "esr", "geant4", "ilc")
LRMS: Final = ("pbs", "lsf", "sge", "slurm")
NAMES: Final = ("short", "medium", "long", "infinite", "grid", "express", "parallel", "test")
SCHEMA: Final = ("GlueSchemaVersionMajor: 1", "GlueSchemaVersionMinor: 3")

Lines = list[str]


def grid(
    sites: int = SITES, queues: int = QUEUES, subclusters: int = SUBCLUSTERS, seed: int = 7
) -> Iterator[str]:
    """The entries as LDIF, parents first, each with the empty line that ends it."""
    rnd = random.Random(seed)
    yield entry("o=grid", ["organization"], ["o: grid"])
    yield entry("Mds-Vo-name=local,o=grid", ["Mds"], ["Mds-Vo-name: local"])
    for number in range(sites):
        name = f"SITE-{number:03}"
        base = f"Mds-Vo-name={name},Mds-Vo-name=local,o=grid"
        yield entry(base, ["Mds"], [f"Mds-Vo-name: {name}"])
        yield entry(
            f"GlueSiteUniqueID={name},{base}",
            ["GlueTop", "GlueSite", "GlueKey", "GlueSchemaVersion"],
            [
                f"GlueSiteUniqueID: {name}",
                f"GlueSiteName: {name}",
                f"GlueSiteDescription: The computing centre number {number} of a grid",
                f"GlueSiteWeb: https://www.site{number:03}.grid/",
                f"GlueSiteLocation: Town {number}, Land {number % 40}",
                f"GlueForeignKey: GlueSiteUniqueID={name}",
                *SCHEMA,
            ],
        )
        yield from storage(f"se.site{number:03}.grid", base, rnd)
        for part in range(CLUSTERS_PER_SITE):
            which = number * CLUSTERS_PER_SITE + part
            all_of_them = sites * CLUSTERS_PER_SITE
            yield from cluster(
                f"ce{part}.site{number:03}.grid",
                name,
                base,
                (share(queues, which, all_of_them), share(subclusters, which, all_of_them)),
                rnd,
            )


def share(total: int, which: int, of: int) -> int:
    """How many of a total fall to one of several."""
    return total * (which + 1) // of - total * which // of


def entry(dn: str, classes: Lines, lines: Lines) -> str:
    """An entry of LDIF; long lines are folded at 76 characters, as servers do."""
    text = [f"dn: {dn}", *(f"objectClass: {name}" for name in classes), *lines]
    return "\n".join(map(folded, text)) + "\n\n"


def folded(line: str) -> str:
    """A line of LDIF, folded."""
    if len(line) <= 78:
        return line
    rest = [line[i : i + 77] for i in range(78, len(line), 77)]
    return "\n ".join([line[:78], *rest])


def storage(host: str, base: str, rnd: random.Random) -> Iterator[str]:
    """A storage element and the areas of its VOs."""
    dn = f"GlueSEUniqueID={host},{base}"
    yield entry(
        dn,
        ["GlueSETop", "GlueSE", "GlueKey", "GlueSchemaVersion"],
        [f"GlueSEUniqueID: {host}", f"GlueSETotalOnlineSize: {rnd.randrange(9000)}", *SCHEMA],
    )
    for vo in VOS:
        free = rnd.randrange(1, 10_000)
        yield entry(
            f"GlueSALocalID={vo},{dn}",
            ["GlueSATop", "GlueSA", "GlueSAState", "GlueKey", "GlueSchemaVersion"],
            [
                f"GlueSALocalID: {vo}",
                f"GlueSAStateAvailableSpace: {free * 1_000_000}",
                f"GlueSAFreeOnlineSize: {free}",
                f"GlueChunkKey: GlueSEUniqueID={host}",
                *SCHEMA,
            ],
        )


def cluster(
    host: str, site: str, base: str, parts: tuple[int, int], rnd: random.Random
) -> Iterator[str]:
    """A cluster with its SubClusters, its queues, their views and their close storage."""
    queues, subclusters = parts
    lrms, cores = rnd.choice(LRMS), rnd.choice((64, 256, 1024, 4096))
    dn = f"GlueClusterUniqueID={host},{base}"
    ids = [
        f"{host}:8443/cream-{lrms}-{NAMES[number % len(NAMES)]}{number // len(NAMES) or ''}"
        for number in range(queues)
    ]
    yield entry(
        dn,
        ["GlueClusterTop", "GlueCluster", "GlueKey", "GlueSchemaVersion"],
        [
            f"GlueClusterUniqueID: {host}",
            f"GlueClusterName: {host}",
            f"GlueForeignKey: GlueSiteUniqueID={site}",
            *(f"GlueForeignKey: GlueCEUniqueID={ident}" for ident in ids),
            *SCHEMA,
        ],
    )
    for number in range(subclusters):
        yield subcluster(f"{host}-{number}", host, dn, cores, rnd)
    for ident in ids:
        yield from queue(ident, host, base, cores, rnd)


def subcluster(name: str, host: str, dn: str, cores: int, rnd: random.Random) -> str:
    """A set of like hosts, with some forty tags of software, as experiments left them."""
    tags = [f"VO-cms-CMSSW_{rnd.randrange(3, 9)}_{rnd.randrange(9)}_{i}_patch1" for i in range(28)]
    tags += [
        f"VO-atlas-production-{rnd.randrange(15, 20)}.{rnd.randrange(9)}.{i}-x86_64-slc6-gcc47-opt"
        for i in range(16)
    ]
    return entry(
        f"GlueSubClusterUniqueID={name},{dn}",
        [
            *("GlueClusterTop", "GlueSubCluster", "GlueHostApplicationSoftware"),
            *("GlueHostArchitecture", "GlueHostBenchmark", "GlueHostMainMemory"),
            *("GlueHostNetworkAdapter", "GlueHostOperatingSystem", "GlueHostProcessor"),
            *("GlueKey", "GlueSchemaVersion"),
        ],
        [
            f"GlueSubClusterUniqueID: {name}",
            f"GlueSubClusterName: {name}",
            f"GlueSubClusterPhysicalCPUs: {cores // 8}",
            f"GlueSubClusterLogicalCPUs: {cores}",
            f"GlueChunkKey: GlueClusterUniqueID={host}",
            f"GlueHostBenchmarkSI00: {rnd.randrange(800, 4000)}",
            f"GlueHostBenchmarkSF00: {rnd.randrange(800, 4000)}",
            f"GlueHostMainMemoryRAMSize: {rnd.choice((2000, 16000, 32000, 64000, 128000))}",
            f"GlueHostMainMemoryVirtualSize: {rnd.choice((4000, 20000, 64000, 256000))}",
            f"GlueHostArchitectureSMPSize: {rnd.choice((4, 8, 16, 32))}",
            "GlueHostArchitecturePlatformType: x86_64",
            "GlueHostProcessorVendor: GenuineIntel",
            f"GlueHostProcessorModel: Xeon E5-{rnd.randrange(2600, 2700)}",
            f"GlueHostProcessorClockSpeed: {rnd.randrange(1800, 3600)}",
            "GlueHostOperatingSystemName: ScientificSL",
            f"GlueHostOperatingSystemRelease: 6.{rnd.randrange(10)}",
            "GlueHostOperatingSystemVersion: Carbon",
            "GlueHostNetworkAdapterOutboundIP: TRUE",
            "GlueHostNetworkAdapterInboundIP: FALSE",
            *(f"GlueHostApplicationSoftwareRunTimeEnvironment: {tag}" for tag in tags),
            *SCHEMA,
        ],
    )


def queue(ident: str, host: str, base: str, cores: int, rnd: random.Random) -> Iterator[str]:
    """A queue, its views, and the storage that is close to it."""
    vos = rnd.sample(VOS, 3)
    dn = f"GlueCEUniqueID={ident},{base}"
    hours = rnd.choice((1, 6, 25, 50, 100))
    name = ident.rpartition("-")[2]
    se = f"se.{host.partition('.')[2]}"
    yield entry(
        dn,
        [
            *("GlueCETop", "GlueCE", "GlueCEAccessControlBase", "GlueCEInfo", "GlueCEPolicy"),
            *("GlueCEState", "GlueInformationService", "GlueKey", "GlueSchemaVersion"),
        ],
        [
            f"GlueCEUniqueID: {ident}",
            f"GlueCEName: {name}",
            f"GlueCEHostingCluster: {host}",
            f"GlueCEInfoHostName: {host}",
            "GlueCEInfoGatekeeperPort: 8443",
            f"GlueCEInfoLRMSType: {ident.split('-')[1]}",
            f"GlueCEInfoTotalCPUs: {cores}",
            "GlueCEInfoJobManager: cream",
            f"GlueCEInfoContactString: {ident}",
            "GlueCEImplementationName: CREAM",
            "GlueCEImplementationVersion: 1.16",
            "GlueCEStateStatus: Production",
            *state(cores, rnd),
            f"GlueCEPolicyMaxCPUTime: {hours * 60}",
            f"GlueCEPolicyMaxWallClockTime: {hours * 90}",
            f"GlueCEPolicyMaxRunningJobs: {cores}",
            f"GlueCEPolicyMaxTotalJobs: {cores * 3}",
            "GlueCEPolicyPriority: 1",
            *(f"GlueCEAccessControlBaseRule: VO:{vo}" for vo in vos),
            f"GlueForeignKey: GlueClusterUniqueID={host}",
            f"GlueInformationServiceURL: ldap://{host}:2170/mds-vo-name=resource,o=grid",
            *SCHEMA,
        ],
    )
    for vo in vos[:2]:
        yield entry(
            f"GlueVOViewLocalID={vo},{dn}",
            ["GlueClusterTop", "GlueVOView", "GlueCETop", "GlueCEState", "GlueKey"],
            [
                f"GlueVOViewLocalID: {vo}",
                *state(cores, rnd),
                f"GlueCEAccessControlBaseRule: VO:{vo}",
                f"GlueChunkKey: GlueCEUniqueID={ident}",
            ],
        )
    group = f"GlueCESEBindGroupCEUniqueID={ident},{base}"
    yield entry(
        group,
        ["GlueGeneralTop", "GlueCESEBindGroup", "GlueSchemaVersion"],
        [f"GlueCESEBindGroupCEUniqueID: {ident}", f"GlueCESEBindGroupSEUniqueID: {se}", *SCHEMA],
    )
    yield entry(
        f"GlueCESEBindSEUniqueID={se},{group}",
        ["GlueGeneralTop", "GlueCESEBind", "GlueSchemaVersion"],
        [
            f"GlueCESEBindCEUniqueID: {ident}",
            f"GlueCESEBindSEUniqueID: {se}",
            "GlueCESEBindCEAccesspoint: /data",
            *SCHEMA,
        ],
    )


def state(cores: int, rnd: random.Random) -> Lines:
    """What a queue is doing."""
    free, waiting = rnd.randrange(cores), rnd.choice((0, 0, 3, 40, 500))
    return [
        f"GlueCEStateFreeCPUs: {free}",
        f"GlueCEStateFreeJobSlots: {free}",
        f"GlueCEStateRunningJobs: {cores - free}",
        f"GlueCEStateWaitingJobs: {waiting}",
        f"GlueCEStateTotalJobs: {cores - free + waiting}",
        f"GlueCEStateEstimatedResponseTime: {waiting * 60}",
        f"GlueCEStateWorstResponseTime: {waiting * 600}",
    ]


def write(path: Path, sites: int, queues: int, subclusters: int) -> int:
    """Write the grid to a file; how many bytes it has."""
    with path.open("w", encoding="ascii") as file:
        return sum(file.write(text) for text in grid(sites, queues, subclusters))


if __name__ == "__main__":
    print(f"{write(Path(sys.argv[1]), SITES, QUEUES, SUBCLUSTERS) / 1e6:.0f} MB")
