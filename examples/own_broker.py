"""A broker in a hundred lines: two sites, 200 jobs, one refresh.

One site publishes GLUE 1.3, the other GLUE 2.0. Their queues become one pool; each job gets a
queue, no free slot twice; each refusal has its reason; the chosen queues get flags for their own
worker nodes; and what the sites publish a moment later replaces the pool. Run it from anywhere:
``python examples/own_broker.py``.
"""

from __future__ import annotations

from collections import Counter

import matchmaker as mm

CLUSTER = """\
dn: GlueClusterUniqueID=ce.alpha.grid,Mds-Vo-name=ALPHA,Mds-Vo-name=local,o=grid
objectClass: GlueCluster
GlueClusterUniqueID: ce.alpha.grid
GlueForeignKey: GlueSiteUniqueID=ALPHA

dn: GlueSubClusterUniqueID=hosts.alpha.grid,GlueClusterUniqueID=ce.alpha.grid,\
Mds-Vo-name=ALPHA,Mds-Vo-name=local,o=grid
objectClass: GlueSubCluster
GlueSubClusterUniqueID: hosts.alpha.grid
GlueChunkKey: GlueClusterUniqueID=ce.alpha.grid
GlueHostMainMemoryRAMSize: 64000
"""

QUEUE = """\
dn: GlueCEUniqueID=ce.alpha.grid:8443/cream-slurm-{name},Mds-Vo-name=ALPHA,Mds-Vo-name=local,o=grid
objectClass: GlueCE
GlueCEUniqueID: ce.alpha.grid:8443/cream-slurm-{name}
GlueCEInfoLRMSType: slurm
GlueCEInfoHostName: ce.alpha.grid
GlueCEStateStatus: {status}
{state}
GlueCEPolicyMaxWallClockTime: 2880
GlueCEAccessControlBaseRule: VO:{vo}
GlueForeignKey: GlueClusterUniqueID=ce.alpha.grid
"""

BETA = """\
dn: GLUE2ServiceID=beta,GLUE2GroupID=resource,GLUE2DomainID=BETA,GLUE2GroupID=grid,o=glue
objectClass: GLUE2ComputingService
GLUE2ServiceID: beta

dn: GLUE2EndpointID=beta.ac,GLUE2ServiceID=beta,GLUE2GroupID=resource,GLUE2DomainID=BETA,\
GLUE2GroupID=grid,o=glue
objectClass: GLUE2ComputingEndpoint
GLUE2EndpointID: beta.ac
GLUE2EndpointURL: https://ce.beta.grid:8443/arex
GLUE2EndpointInterfaceName: arex
GLUE2EndpointServingState: production
GLUE2EndpointServiceForeignKey: beta

dn: GLUE2ManagerID=beta.slurm,GLUE2ServiceID=beta,GLUE2GroupID=resource,GLUE2DomainID=BETA,\
GLUE2GroupID=grid,o=glue
objectClass: GLUE2ComputingManager
GLUE2ManagerID: beta.slurm
GLUE2ManagerProductName: slurm
GLUE2ManagerServiceForeignKey: beta

dn: GLUE2ResourceID=beta.hosts,GLUE2ManagerID=beta.slurm,GLUE2ServiceID=beta,\
GLUE2GroupID=resource,GLUE2DomainID=BETA,GLUE2GroupID=grid,o=glue
objectClass: GLUE2ExecutionEnvironment
GLUE2ResourceID: beta.hosts
GLUE2ExecutionEnvironmentMainMemorySize: 128000
GLUE2ResourceManagerForeignKey: beta.slurm

dn: GLUE2ShareID=beta.main,GLUE2ServiceID=beta,GLUE2GroupID=resource,GLUE2DomainID=BETA,\
GLUE2GroupID=grid,o=glue
objectClass: GLUE2ComputingShare
GLUE2ShareID: beta.main
GLUE2ComputingShareMappingQueue: main
GLUE2ComputingShareServingState: production
GLUE2ComputingShareFreeSlots: 70
GLUE2ComputingShareWaitingJobs: 0
GLUE2ComputingShareMaxWallTime: 172800
GLUE2ShareEndpointForeignKey: beta.ac
GLUE2ShareResourceForeignKey: beta.hosts
GLUE2ShareServiceForeignKey: beta

dn: GLUE2PolicyID=beta.rules,GLUE2ShareID=beta.main,GLUE2ServiceID=beta,GLUE2GroupID=resource,\
GLUE2DomainID=BETA,GLUE2GroupID=grid,o=glue
objectClass: GLUE2MappingPolicy
GLUE2PolicyID: beta.rules
GLUE2PolicyScheme: org.glite.standard
GLUE2PolicyRule: VO:cms
GLUE2MappingPolicyShareForeignKey: beta.main
"""

NODES = """
[ Name = "a1"; Queues = { "short", "long" }; Cpus = 16; GlueHostMainMemoryRAMSize = 64000 ]
[ Name = "a2"; Queues = { "long" }; Cpus = 16; GlueHostMainMemoryRAMSize = 2000 ]
[ Name = "b1"; Queues = { "main" }; Cpus = 32; GlueHostMainMemoryRAMSize = 128000 ]
"""

JOB = """[ VirtualOrganisation = "cms"; FQAN = "/cms";
    Requirements = other.GlueHostMainMemoryRAMSize >= 4000
        && other.GlueCEPolicyMaxWallClockTime >= 600 && other.GlueCEStateStatus == "Production";
    Rank = other.GlueCEStateFreeJobSlots - other.GlueCEStateWaitingJobs ]"""


def alpha(**free: int | None) -> str:
    """The LDIF of a site that publishes GLUE 1.3, with the free slots of its queues."""
    status, vo = {"drain": "Draining"}, {"atlas": "atlas"}
    texts = [CLUSTER]
    for name, slots in free.items():
        state = ["GlueCEStateWaitingJobs: 0"]
        if slots is not None:
            state.append(f"GlueCEStateFreeJobSlots: {slots}")
        texts.append(QUEUE.format(
            name=name, state="\n".join(state),
            status=status.get(name, "Production"), vo=vo.get(name, "cms"),
        ))  # fmt: skip
    return "\n".join(texts)


def sites(alpha_now: str) -> mm.broker.Queues:
    """What both sites publish; a broker would call ``mm.glue.read_ldap`` for each."""
    found = mm.broker.merged(
        (name, mm.glue.read_ldif(ldif.splitlines()))
        for name, ldif in (("alpha", alpha_now), ("beta", BETA))
    )
    if not found.whole:
        raise ConnectionError("a site was not read to its end; the pool stays as it is")
    return found


def main() -> None:
    """Choose, explain, write flags, and refresh."""
    queues = mm.broker.pool(sites(alpha(short=55, long=40, drain=90, atlas=500, silent=None)))
    jobs = [mm.parse_ad(JOB) for _ in range(200)]

    choices = mm.broker.choose_many(jobs, queues)
    for (name, waits), count in sorted(Counter((c.chosen, c.waits) for c in choices).items()):
        print(f"{count:4} {'wait at' if waits else 'go to'} {name}")

    print("\nwhy not elsewhere:")
    for refusal in mm.broker.choose(jobs[0], queues).refused:
        print(f"     {refusal}")

    hosts = mm.broker.Hosts(nodes=mm.parse_ads(NODES), mapping=mm.batch.load_mapping("slurm"))
    print("\nflags:")
    for name in sorted({choice.chosen for choice in choices if choice.chosen is not None}):
        route = mm.broker.route(jobs[0], queues, hosts, queue=name)
        if route.submission is None:
            print(f"     {name}: {route.failure}")
        else:
            made = route.submission
            print(f"     {name}: {made.command} {' '.join(made.argv)} ({made.verdict})")

    changes = queues.replace(sites(alpha(short=3, long=40, gpu=8, drain=90, atlas=500)))
    print("\na moment later:")
    for what in ("added", "changed", "vanished"):
        print(f"     {what}: {', '.join(getattr(changes, what)) or 'none'}")
    again = mm.broker.choose_many(jobs, queues)
    print(f"     {sum(choice.waits for choice in again)} of {len(again)} jobs would wait")


if __name__ == "__main__":
    main()
