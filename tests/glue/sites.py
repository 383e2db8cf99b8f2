"""One site described twice: in GLUE 1.3 and in GLUE 2.0."""

from __future__ import annotations

OLD_BASE = "Mds-Vo-name=S,Mds-Vo-name=local,o=grid"
LONG = "ce.s.grid:8443/cream-slurm-long"
SHORT = "ce.s.grid:8443/cream-slurm-short"

GLUE13 = f"""\
dn: GlueSiteUniqueID=S,{OLD_BASE}
objectClass: GlueSite
GlueSiteUniqueID: S
GlueSiteName: Site S

dn: GlueClusterUniqueID=ce.s.grid,{OLD_BASE}
objectClass: GlueCluster
GlueClusterUniqueID: ce.s.grid
GlueForeignKey: GlueSiteUniqueID=S

dn: GlueSubClusterUniqueID=nodes,GlueClusterUniqueID=ce.s.grid,{OLD_BASE}
objectClass: GlueSubCluster
GlueSubClusterUniqueID: nodes
GlueChunkKey: GlueClusterUniqueID=ce.s.grid
GlueSubClusterPhysicalCPUs: 40
GlueSubClusterLogicalCPUs: 160
GlueHostMainMemoryRAMSize: 16000
GlueHostMainMemoryVirtualSize: 24000
GlueHostArchitectureSMPSize: 8
GlueHostArchitecturePlatformType: x86_64
GlueHostProcessorClockSpeed: 2400
GlueHostOperatingSystemName: ScientificSL
GlueHostOperatingSystemRelease: 6.4
GlueHostNetworkAdapterOutboundIP: TRUE
GlueHostNetworkAdapterInboundIP: FALSE
GlueHostBenchmarkSI00: 2200
GlueHostApplicationSoftwareRunTimeEnvironment: ROOT-6
GlueHostApplicationSoftwareRunTimeEnvironment: VO-cms-CMSSW

dn: GlueCEUniqueID={LONG},{OLD_BASE}
objectClass: GlueCE
GlueCEUniqueID: {LONG}
GlueCEName: long
GlueCEInfoLRMSType: slurm
GlueCEInfoHostName: ce.s.grid
GlueCEInfoTotalCPUs: 160
GlueCEStateStatus: Production
GlueCEStateFreeCPUs: 12
GlueCEStateFreeJobSlots: 12
GlueCEStateWaitingJobs: 3
GlueCEStateRunningJobs: 148
GlueCEStateTotalJobs: 151
GlueCEStateEstimatedResponseTime: 600
GlueCEStateWorstResponseTime: 7200
GlueCEPolicyMaxCPUTime: 2880
GlueCEPolicyMaxWallClockTime: 4320
GlueCEPolicyMaxTotalJobs: 999999999
GlueCEAccessControlBaseRule: VO:cms
GlueCEAccessControlBaseRule: VO:dteam
GlueForeignKey: GlueClusterUniqueID=ce.s.grid

dn: GlueVOViewLocalID=cms,GlueCEUniqueID={LONG},{OLD_BASE}
objectClass: GlueVOView
GlueVOViewLocalID: cms
GlueCEStateFreeCPUs: 4
GlueCEStateFreeJobSlots: 4
GlueCEStateWaitingJobs: 3
GlueCEStateEstimatedResponseTime: 1200
GlueCEAccessControlBaseRule: VO:cms
GlueChunkKey: GlueCEUniqueID={LONG}

dn: GlueCEUniqueID={SHORT},{OLD_BASE}
objectClass: GlueCE
GlueCEUniqueID: {SHORT}
GlueCEName: short
GlueCEInfoLRMSType: slurm
GlueCEInfoHostName: ce.s.grid
GlueCEInfoTotalCPUs: 160
GlueCEStateStatus: Draining
GlueCEStateFreeCPUs: 30
GlueCEStateFreeJobSlots: 30
GlueCEStateWaitingJobs: 444444
GlueCEStateEstimatedResponseTime: 0
GlueCEPolicyMaxCPUTime: 60
GlueCEPolicyMaxWallClockTime: 90
GlueCEAccessControlBaseRule: VO:cms
GlueCEAccessControlBaseRule: VO:dteam
GlueForeignKey: GlueClusterUniqueID=ce.s.grid

dn: GlueCESEBindGroupCEUniqueID={LONG},{OLD_BASE}
objectClass: GlueCESEBindGroup
GlueCESEBindGroupCEUniqueID: {LONG}
GlueCESEBindGroupSEUniqueID: se.s.grid

dn: GlueCESEBindSEUniqueID=se.s.grid,GlueCESEBindGroupCEUniqueID={LONG},{OLD_BASE}
objectClass: GlueCESEBind
GlueCESEBindCEUniqueID: {LONG}
GlueCESEBindSEUniqueID: se.s.grid
GlueCESEBindCEAccesspoint: /data

dn: GlueSEUniqueID=se.s.grid,{OLD_BASE}
objectClass: GlueSE
GlueSEUniqueID: se.s.grid
GlueSETotalOnlineSize: 500

dn: GlueSALocalID=cms,GlueSEUniqueID=se.s.grid,{OLD_BASE}
objectClass: GlueSA
GlueSALocalID: cms
GlueSAFreeOnlineSize: 20
GlueSAStateAvailableSpace: 20000000
GlueChunkKey: GlueSEUniqueID=se.s.grid
"""

SITE = "GLUE2DomainID=S,GLUE2GroupID=grid,o=glue"
SERVICE = f"GLUE2ServiceID=ce.s.grid,GLUE2GroupID=resource,{SITE}"
MANAGER = f"GLUE2ManagerID=slurm,{SERVICE}"
HOSTS = f"GLUE2ResourceID=nodes,{MANAGER}"
STORE = f"GLUE2ServiceID=se.s.grid,GLUE2GroupID=resource,{SITE}"


def share(name: str, queue: str, rest: str) -> str:
    return f"""\
dn: GLUE2ShareID={name},{SERVICE}
objectClass: GLUE2Entity
objectClass: GLUE2Share
objectClass: GLUE2ComputingShare
GLUE2ShareID: {name}
GLUE2ComputingShareMappingQueue: {queue}
GLUE2ShareServiceForeignKey: ce.s.grid
GLUE2ShareEndpointForeignKey: cream
GLUE2ShareResourceForeignKey: nodes
{rest}
"""


def rules(name: str, *texts: str) -> str:
    lines = "\n".join(f"GLUE2PolicyRule: {text}" for text in texts)
    return f"""\
dn: GLUE2PolicyID=map_{name},GLUE2ShareID={name},{SERVICE}
objectClass: GLUE2Policy
objectClass: GLUE2MappingPolicy
GLUE2PolicyID: map_{name}
GLUE2PolicyScheme: basic
{lines}
GLUE2MappingPolicyShareForeignKey: {name}

"""


LIMITS = """\
GLUE2ComputingShareMaxCPUTime: 172800
GLUE2ComputingShareMaxWallTime: 259200
GLUE2ComputingShareMaxTotalJobs: 999999999
GLUE2ComputingShareServingState: production
GLUE2ComputingShareRunningJobs: 148
GLUE2ComputingShareTotalJobs: 151
GLUE2ComputingShareWaitingJobs: 3
GLUE2ComputingShareEstimatedWorstWaitingTime: 7200
"""

GLUE20 = (
    f"""\
dn: {SITE}
objectClass: GLUE2Domain
objectClass: GLUE2AdminDomain
GLUE2DomainID: S
GLUE2EntityName: Site S

dn: {SERVICE}
objectClass: GLUE2Entity
objectClass: GLUE2Service
objectClass: GLUE2ComputingService
GLUE2ServiceID: ce.s.grid
GLUE2ServiceType: org.glite.ce.CREAM
GLUE2ServiceQualityLevel: production
GLUE2ServiceAdminDomainForeignKey: S

dn: GLUE2EndpointID=cream,{SERVICE}
objectClass: GLUE2Endpoint
objectClass: GLUE2ComputingEndpoint
GLUE2EndpointID: cream
GLUE2EndpointURL: https://ce.s.grid:8443/ce-cream/services
GLUE2EndpointInterfaceName: org.glite.ce.CREAM
GLUE2EndpointCapability: executionmanagement.jobexecution
GLUE2EndpointServingState: production
GLUE2EndpointServiceForeignKey: ce.s.grid

dn: GLUE2EndpointID=info,{SERVICE}
objectClass: GLUE2Endpoint
objectClass: GLUE2ComputingEndpoint
GLUE2EndpointID: info
GLUE2EndpointURL: ldap://ce.s.grid:2170/o=glue
GLUE2EndpointInterfaceName: bdii
GLUE2EndpointCapability: information.discovery.resource
GLUE2EndpointServiceForeignKey: ce.s.grid

dn: GLUE2PolicyID=access,GLUE2EndpointID=cream,{SERVICE}
objectClass: GLUE2Policy
objectClass: GLUE2AccessPolicy
GLUE2PolicyID: access
GLUE2PolicyScheme: basic
GLUE2PolicyRule: VO:cms
GLUE2PolicyRule: VO:dteam
GLUE2AccessPolicyEndpointForeignKey: cream

dn: {MANAGER}
objectClass: GLUE2Manager
objectClass: GLUE2ComputingManager
GLUE2ManagerID: slurm
GLUE2ManagerProductName: SLURM
GLUE2ManagerServiceForeignKey: ce.s.grid
GLUE2ComputingManagerTotalLogicalCPUs: 160

dn: {HOSTS}
objectClass: GLUE2Resource
objectClass: GLUE2ExecutionEnvironment
GLUE2ResourceID: nodes
GLUE2ResourceManagerForeignKey: slurm
GLUE2ExecutionEnvironmentPlatform: amd64
GLUE2ExecutionEnvironmentTotalInstances: 20
GLUE2ExecutionEnvironmentPhysicalCPUs: 2
GLUE2ExecutionEnvironmentLogicalCPUs: 8
GLUE2ExecutionEnvironmentCPUClockSpeed: 2400
GLUE2ExecutionEnvironmentMainMemorySize: 16000
GLUE2ExecutionEnvironmentVirtualMemorySize: 24000
GLUE2ExecutionEnvironmentOSFamily: linux
GLUE2ExecutionEnvironmentOSName: ScientificSL
GLUE2ExecutionEnvironmentOSVersion: 6.4
GLUE2ExecutionEnvironmentConnectivityIn: false
GLUE2ExecutionEnvironmentConnectivityOut: true

dn: GLUE2BenchmarkID=hs06,{HOSTS}
objectClass: GLUE2Benchmark
GLUE2BenchmarkID: hs06
GLUE2BenchmarkType: hep-spec06
GLUE2BenchmarkValue: 8.8
GLUE2BenchmarkExecutionEnvironmentForeignKey: nodes

dn: GLUE2ApplicationEnvironmentID=root,{MANAGER}
objectClass: GLUE2ApplicationEnvironment
GLUE2ApplicationEnvironmentID: root
GLUE2ApplicationEnvironmentAppName: ROOT
GLUE2ApplicationEnvironmentAppVersion: 6
GLUE2ApplicationEnvironmentComputingManagerForeignKey: slurm

dn: GLUE2ApplicationEnvironmentID=cmssw,{MANAGER}
objectClass: GLUE2ApplicationEnvironment
GLUE2ApplicationEnvironmentID: cmssw
GLUE2ApplicationEnvironmentAppName: VO-cms-CMSSW
GLUE2ApplicationEnvironmentComputingManagerForeignKey: slurm
GLUE2ApplicationEnvironmentExecutionEnvironmentForeignKey: nodes

"""
    + share(
        "long",
        "long",
        LIMITS
        + "GLUE2ComputingShareFreeSlots: 12\n"
        + "GLUE2ComputingShareEstimatedAverageWaitingTime: 600\n",
    )
    + rules("long", "VO:cms", "VO:dteam")
    + share(
        "long_cms",
        "long",
        LIMITS
        + "GLUE2ComputingShareFreeSlots: 4\n"
        + "GLUE2ComputingShareEstimatedAverageWaitingTime: 1200\n"
        + "GLUE2EntityOtherInfo: VOView=cms\n",
    )
    + rules("long_cms", "VO:cms")
    + share(
        "short",
        "short",
        """\
GLUE2ComputingShareMaxCPUTime: 3600
GLUE2ComputingShareMaxWallTime: 5400
GLUE2ComputingShareServingState: draining
GLUE2ComputingShareFreeSlots: 30
GLUE2ComputingShareWaitingJobs: 444444
GLUE2ComputingShareEstimatedAverageWaitingTime: 0
""",
    )
    + rules("short", "VO:cms", "VO:dteam", "VO:lhcb")
    + f"""\
dn: {STORE}
objectClass: GLUE2Service
objectClass: GLUE2StorageService
GLUE2ServiceID: se.s.grid
GLUE2ServiceAdminDomainForeignKey: S

dn: GLUE2StorageServiceCapacityID=all,{STORE}
objectClass: GLUE2StorageServiceCapacity
GLUE2StorageServiceCapacityID: all
GLUE2StorageServiceCapacityType: online
GLUE2StorageServiceCapacityTotalSize: 500

dn: GLUE2ShareID=disk,{STORE}
objectClass: GLUE2Share
objectClass: GLUE2StorageShare
GLUE2ShareID: disk
GLUE2ShareServiceForeignKey: se.s.grid

dn: GLUE2PolicyID=diskmap,GLUE2ShareID=disk,{STORE}
objectClass: GLUE2MappingPolicy
GLUE2PolicyID: diskmap
GLUE2PolicyRule: VO:cms
GLUE2MappingPolicyShareForeignKey: disk

dn: GLUE2StorageShareCapacityID=diskonline,GLUE2ShareID=disk,{STORE}
objectClass: GLUE2StorageShareCapacity
GLUE2StorageShareCapacityID: diskonline
GLUE2StorageShareCapacityType: online
GLUE2StorageShareCapacityFreeSize: 20

dn: GLUE2ToStorageServiceID=close,{SERVICE}
objectClass: GLUE2ToStorageService
GLUE2ToStorageServiceID: close
GLUE2ToStorageServiceLocalPath: /data
GLUE2ToStorageServiceComputingServiceForeignKey: ce.s.grid
GLUE2ToStorageServiceStorageServiceForeignKey: se.s.grid
GLUE2EntityOtherInfo: CEid={LONG}
"""
)

JOBS = [
    f'[ VirtualOrganisation = "{vo}"; CertificateSubject = "/O=grid/CN=Ada";{extra}'
    f" Rank = {rank}; Requirements = {text} ]"
    for vo in ("cms", "dteam", "lhcb")
    for extra in ("", ' OutputSE = "se.s.grid";', ' OutputSE = "elsewhere";')
    for rank in ("other.GlueCEStateFreeJobSlots", "-other.GlueCEStateEstimatedResponseTime")
    for text in (
        "true",
        'other.GlueCEStateStatus == "Production"',
        "other.GlueCEPolicyMaxCPUTime >= 60",
        "other.GlueCEPolicyMaxCPUTime > 60",
        "other.GlueCEPolicyMaxWallClockTime == 4320",
        "other.GlueCEPolicyMaxTotalJobs > 10",
        "other.GlueCEStateWaitingJobs < 5",
        "other.GlueHostMainMemoryRAMSize >= 16000 && other.GlueHostMainMemoryVirtualSize < 24001",
        "other.GlueHostBenchmarkSI00 == 2200",
        "other.GlueHostArchitectureSMPSize == 8 && other.GlueHostNetworkAdapterOutboundIP",
        "other.GlueHostNetworkAdapterInboundIP",
        'other.GlueHostArchitecturePlatformType == "x86_64"',
        'other.GlueHostOperatingSystemRelease == "6.4"',
        'member("ROOT-6", other.GlueHostApplicationSoftwareRunTimeEnvironment)',
        'regexp("cream-slurm-long", other.GlueCEUniqueID)',
        'other.GlueSiteUniqueID == "S" && other.LRMSType == "slurm" && other.QueueName == "long"',
        "other.GlueSubClusterLogicalCPUs == 160 && other.GlueCEInfoTotalCPUs == 160",
        'member("se.s.grid", other.GlueCESEBindGroupSEUniqueID)',
        "other.storage.CloseSEs[0].freespace > 100",
        'other.CloseStorageElements[0].mount == "/data"',
        'other.GlueCEInfoHostName == "ce.s.grid"',
    )
]
"""Jobs that ask of queues what jobs ask of them, in the names of GLUE 1.3."""
