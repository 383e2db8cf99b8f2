"""GLUE as its publishers print it: ARC, HTCondor-CE, ipf, the OSG. The shapes are theirs."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from matchmaker import UNDEFINED, glue, parse_ads, parse_expr

Entries = list[tuple[str, list[str]]]


def ldif(*entries: tuple[str, str, str]) -> list[str]:
    """The lines of entries: the start of a name, the class, and attributes without GLUE2."""
    made = []
    for dn, kind, said in entries:
        first, _, _ = dn.partition(",")
        name, _, ident = first.partition("=")
        made += [f"dn: {dn}", f"objectClass: {kind}", f"{name}: {ident}"]
        made += [f"GLUE2{line.strip()}" for line in said.splitlines() if line.strip()]
        made.append("")
    return made


SERVICE = "GLUE2ServiceID=s,GLUE2GroupID=resource,o=glue"
MANAGER = (
    f"GLUE2ManagerID=m,{SERVICE}",
    "GLUE2ComputingManager",
    "ManagerProductName: SLURM\nManagerProductVersion: 22.05",
)


def endpoint(name: str, capabilities: str, *, interface: str = "org.nordugrid.arcrest") -> Any:
    said = f"EndpointURL: https://ce.s.org:443/{name}\nEndpointInterfaceName: {interface}\n"
    said += "\n".join(f"EndpointCapability: {one}" for one in capabilities.split())
    return f"GLUE2EndpointID={name},{SERVICE}", "GLUE2ComputingEndpoint", said


def share(name: str, said: str) -> Any:
    return f"GLUE2ShareID={name},{SERVICE}", "GLUE2ComputingShare", said


def policy(parent: str, rule: str) -> Any:
    kind = "GLUE2AccessPolicy" if "Endpoint" in parent else "GLUE2MappingPolicy"
    return f"GLUE2PolicyID=p,{parent}", kind, f"PolicyRule: {rule}"


def ids(found: glue.Glue) -> list[str]:
    return [str(ad.eval("CEid")) for ad in found.computing_elements()]


ROOT = (SERVICE, "GLUE2ComputingService", "ServiceType: org.nordugrid.arex")


def test_an_endpoint_that_only_manages_jobs_is_no_queue() -> None:
    create = endpoint(
        "create",
        "executionmanagement.jobcreation executionmanagement.jobdescription",
        interface="org.ogf.glue.emies.activitycreation",
    )
    manage = endpoint(
        "manage",
        "executionmanagement.jobmanagement information.lookup.job",
        interface="org.ogf.glue.emies.activitymanagement",
    )
    found = glue.read_ldif(ldif(ROOT, MANAGER, create, manage, share("q", "EntityName: q")))
    assert ids(found) == ["ce.s.org:443/activitycreation-slurm-q"]


def test_a_queue_is_called_as_htcondor_ce_calls_it() -> None:
    said = "EntityOtherInfo: HTCondorCEId=ce.s.org:9619/htcondorce-condor-group_cms"
    execute = endpoint("e", "executionmanagement.jobexecution", interface="org.osg.htcondorce")
    found = glue.read_ldif(ldif(ROOT, MANAGER, execute, share("grid_cms", said)))
    assert ids(found) == ["ce.s.org:9619/htcondorce-condor-group_cms"]


HTCONDOR_CE = "GLUE2ServiceID=cm.s.org,GLUE2GroupID=resource,o=glue"


def test_what_the_provider_of_htcondor_ce_prints() -> None:
    """Shares without a queue, a URL of its own, HTCondor's spelling of platforms."""
    resource = "cm.s.org_X86_64_LINUX_AlmaLinux_9_64_257000"
    entries = [
        (HTCONDOR_CE, "GLUE2ComputingService", "ServiceAdminDomainForeignKey: S"),
        (
            f"GLUE2ManagerID=cm.s.org_Manager,{HTCONDOR_CE}",
            "GLUE2ComputingManager",
            "ManagerProductName: HTCondor\nComputingManagerTotalLogicalCPUs: 320",
        ),
        (
            f"GLUE2ResourceID={resource},{HTCONDOR_CE}",
            "GLUE2ExecutionEnvironment",
            """ExecutionEnvironmentMainMemorySize: 257000
            ExecutionEnvironmentOSFamily: LINUX
            ExecutionEnvironmentOSName: AlmaLinux
            ExecutionEnvironmentPlatform: X86_64
            ExecutionEnvironmentConnectivityOut: TRUE
            ResourceManagerForeignKey:  cm.s.org_Manager""",
        ),
        (
            f"GLUE2EndpointID=ce.s.org_HTCondorCE,{HTCONDOR_CE}",
            "GLUE2ComputingEndpoint",
            """EndpointCapability: executionmanagement.jobexecution
            EndpointInterfaceName: org.opensciencegrid.htcondorce
            EndpointURL: condor://ce.s.org:9619
            EndpointServingState: production""",
        ),
    ]
    for vo in ("cms", "atlas"):
        ident = f"GLUE2ShareID=ce.s.org_{vo}_share,{HTCONDOR_CE}"
        said = f"""ComputingShareServingState: production
            ComputingShareWaitingJobs: 2
            ShareEndpointForeignKey: ce.s.org_HTCondorCE
            ShareResourceForeignKey: {resource}"""
        entries += [(ident, "GLUE2ComputingShare", said), policy(ident, f"vo:{vo}")]
    lines = ldif(*entries)
    found = glue.read_ldif(lines, rules=glue.DEFAULT_RULES | glue.VALIDATORS)
    wanted = {
        "LRMSType": "htcondor",
        "GlueCEInfoHostName": "ce.s.org",
        "GlueCEInfoTotalCPUs": 320,
        "GlueCEStateWaitingJobs": 2,
        "GlueHostMainMemoryRAMSize": 257000,
        "GlueHostArchitecturePlatformType": "x86_64",
        "GlueHostNetworkAdapterOutboundIP": True,
    }
    for vo, queue in zip(("atlas", "cms"), found.computing_elements(), strict=True):
        assert queue.eval("CEid") == f"ce.s.org_{vo}_share"
        assert queue.eval("GlueCEAccessControlBaseRule") == [f"VO:{vo}"]
        assert {name: queue.eval(name) for name in wanted} == wanted
    # A resource does not know the site that it is put under.
    assert [str(issue) for issue in found.issues if issue.level == "E"] == []


CERN = "GLUE2ServiceID=ce.c.org_ComputingElement,GLUE2GroupID=resource,o=glue"


def test_what_cern_prints_of_htcondor_ce() -> None:
    """Its endpoint stands under another service; minutes that look like seconds."""
    entries = [
        (CERN, "GLUE2ComputingService", "ServiceType: HTCondor-CE"),
        (
            f"GLUE2EndpointID=ce.c.org_HTCondor-CE,{CERN.replace('.org_', '.org.ch_')}",
            "GLUE2ComputingEndpoint",
            """EndpointCapability: executionmanagement.jobexecution
            EndpointServiceForeignKey: _ComputingElement
            ComputingEndpointComputingServiceForeignKey: ce.c.org_ComputingElement
            EndpointInterfaceName: org.opensciencegrid.htcondorce
            EndpointURL: https://ce.c.org:8443/""",
        ),
        (
            f"GLUE2ManagerID=m,{CERN}",
            "GLUE2ComputingManager",
            "ManagerProductName: HTCondor\nEntityOtherInfo: Share=atlas:22",
        ),
        (
            f"GLUE2ResourceID=ce.c.org,{CERN}",
            "GLUE2ExecutionEnvironment",
            """ExecutionEnvironmentMainMemorySize: 2000
            ExecutionEnvironmentPlatform: amd64
            EntityOtherInfo: Cores=0
            ResourceManagerForeignKey: m
            ComputingShareTotalJobs: 10""",
        ),
        (
            f"GLUE2ShareID=grid_atlas_atlas_ce.c.org_ComputingElement,{CERN}",
            "GLUE2ComputingShare",
            """ComputingShareMappingQueue: grid_atlas
            EntityOtherInfo: HTCondorCEId=ce.c.org:9619/htcondorce-condor-group_atlas
            ShareEndpointForeignKey: ce.c.org_HTCondor-CE
            ShareResourceForeignKey: ce.c.org
            ComputingShareMaxCPUTime: 10080
            ComputingShareDefaultCPUTime: 10080
            ComputingShareMaxWallTime: 30240
            ComputingShareFreeSlots: 3""",
        ),
        policy(
            f"GLUE2ShareID=grid_atlas_atlas_ce.c.org_ComputingElement,{CERN}",
            "VO:atlas",
        ),
    ]
    [queue] = glue.read_ldif(ldif(*entries)).computing_elements()
    assert queue.eval("CEid") == "ce.c.org:9619/htcondorce-condor-group_atlas"
    assert queue.eval("QueueName") == "group_atlas"
    assert queue.eval("GlueCEPolicyMaxCPUTime") == 10080
    assert queue.eval("GlueCEPolicyMaxWallClockTime") == 30240
    assert queue.eval(parse_expr("GLUE2.Computing.Share.DefaultCPUTime")) == 604800
    assert queue.eval("GlueCEAccessControlBaseRule") == ["VO:atlas"]
    assert queue.eval("GlueHostMainMemoryRAMSize") == 2000


def test_shares_of_one_queue_are_called_by_their_names() -> None:
    entries = [ROOT, MANAGER, endpoint("rest", "executionmanagement.jobcreation")]
    for vo in ("atlas", "cms"):
        ident = f"urn:ogf:ComputingShare:ce.s.org:grid_{vo}"
        entries.append(share(ident, f"EntityName: grid_{vo}\nComputingShareMappingQueue: grid"))
        entries.append(policy(f"GLUE2ShareID={ident},{SERVICE}", f"VO:{vo}"))
    queue = "ce.s.org:443/arcrest-slurm-grid"
    assert ids(glue.read_ldif(ldif(*entries))) == [f"{queue}/grid_atlas", f"{queue}/grid_cms"]
    alike = [line.replace("Name: grid_cms", "Name: grid_atlas") for line in ldif(*entries)]
    assert ids(glue.read_ldif(alike)) == [
        f"{queue}/urn:ogf:ComputingShare:ce.s.org:grid_{vo}" for vo in ("atlas", "cms")
    ]


@pytest.mark.parametrize("name", ["EnvironmentID", "ExecutionEnvironmentID", "ResourceID"])
@pytest.mark.parametrize("manager", ["ManagerID", "ComputingManagerID"])
def test_ipf_links_by_either_name_of_an_association(name: str, manager: str) -> None:
    document = {
        "ComputingService": [
            {"ID": "s", "Associations": {manager: ["m"], "ShareID": ["q"], "EndpointID": ["e"]}}
        ],
        "ComputingEndpoint": [{"ID": "e", "URL": "https://h.org:2222/", "InterfaceName": "ssh"}],
        "ComputingManager": [
            {"ID": "m", "ProductName": "slurm", "Associations": {"ServiceID": "s"}}
        ],
        "ComputingShare": [{"ID": "q", "MappingQueue": "normal", "Associations": {name: ["b"]}}],
        "ExecutionEnvironment": [
            {"ID": "a", "MainMemorySize": 1000, "Associations": {manager: "m"}},
            {"ID": "b", "MainMemorySize": 2000, "Associations": {manager: "m"}},
        ],
    }
    found = glue.read(io.BytesIO(json.dumps(document).encode()))
    [queue] = found.computing_elements()
    assert queue.eval("CEid") == "h.org:2222/ssh-slurm-normal"
    assert queue.eval("GlueHostMainMemoryRAMSize") == 2000
    assert "GlueCEAccessControlBaseRule" not in queue


CE = """dn: GlueCEUniqueID=ce.s.org:8443/cream-pbs-long,Mds-Vo-name=resource,o=grid
objectClass: GlueCE
GlueCEUniqueID: ce.s.org:8443/cream-pbs-long
GlueCEAccessControlBaseRule: VO:cms
GlueForeignKey: GlueClusterUniqueID=ce.s.org

"""
CLUSTER = """dn: GlueClusterUniqueID=other.s.org,Mds-Vo-name=resource,o=grid
objectClass: GlueCluster
GlueClusterUniqueID: other.s.org
GlueForeignKey: GlueSiteUniqueID=S

"""


def levels(text: str) -> dict[str, str]:
    return {issue.rule: issue.level for issue in glue.read_ldif(text.splitlines()).issues}


def test_one_ce_alone_has_no_dangling_key() -> None:
    assert levels(CE) == {"link.elsewhere": "I"}
    assert levels(CE + CLUSTER)["link.dangling"] == "E"
    assert levels(CLUSTER)["link.elsewhere"] == "I"


def test_a_source_without_a_queue_says_what_it_has() -> None:
    text = ldif(
        ("GLUE2DomainID=S,o=glue", "GLUE2AdminDomain", ""),
        ("GLUE2LocationID=l,GLUE2DomainID=S,o=glue", "GLUE2Location", ""),
        ("GLUE2ContactID=c,GLUE2DomainID=S,o=glue", "GLUE2Contact", ""),
        ("GLUE2ContactID=d,GLUE2DomainID=S,o=glue", "GLUE2Contact", ""),
        ("GLUE2ServiceID=bdii,GLUE2DomainID=S,o=glue", "GLUE2Service", ""),
        ("GLUE2EndpointID=e,GLUE2ServiceID=bdii,GLUE2DomainID=S,o=glue", "GLUE2Endpoint", ""),
        ("GLUE2ServiceID=se,GLUE2DomainID=S,o=glue", "GLUE2StorageService", ""),
    )
    [issue] = glue.read_ldif(text).issues
    assert (issue.rule, issue.level) == ("link.no-queue", "I")
    assert "no queue" in issue.message
    kinds = ("1 GLUE2AdminDomain", "2 GLUE2Contact", "1 GLUE2Endpoint", "1 GLUE2Location")
    for counted in (*kinds, "1 GLUE2Service", "1 GLUE2StorageService"):
        assert counted in issue.message
    assert "link.no-queue" not in {issue.rule for issue in glue.read_ldif(["dn: o=grid"]).issues}


UNNAMED = {("publish.class", "GPUs"), ("publish.class", "WholeNode")}
"""GLUE has no names for these."""


def test_what_the_osg_says_of_a_resource() -> None:
    [ce] = parse_ads(
        """[ Name = "ce.t2.edu"; OSG_ResourceGroup = "T2"; OSG_BatchSystems = "SLURM";
            OSG_ResourceCatalog = { [ Name = "gpu"; IsPilotEntry = true; Memory = 8192; CPUs = 1;
                GPUs = 2; WholeNode = false; MaxPilots = 1000; RequireSingularity = false;
                OS = "rhel9"; Queue = "gpu-long"; AllowedVOs = { "icecube", "ligo" } ],
              [ Name = "whole"; Transform = [ set_xcount = RequestCPUs; set_remote_queue = "all" ];
                Requirements = TARGET.RequestCPUs <= CPUs; WholeNode = true;
                EstimatedCPUs = 64; Memory = 1; CPUs = 1; AllowedVOs = "atlas, cms" ] } ]"""
    )
    gpu, whole = glue.read_osg([ce]).computing_elements()
    wanted = {
        "GPUs": 2,
        "WholeNode": False,
        "GlueHostArchitectureSMPSize": 1,
        "GlueHostOperatingSystemName": "rhel9",
        "GlueCEPolicyMaxTotalJobs": 1000,
        "GlueCEName": "gpu-long",
        "GlueCEAccessControlBaseRule": ["VO:icecube", "VO:ligo"],
    }
    assert {name: gpu.eval(name) for name in wanted} == wanted
    assert gpu.eval("CEid") == "ce.t2.edu:9619/condorce-slurm-gpu"
    # Flags name the queue of the batch system, not the entry of the catalogue.
    assert gpu.eval("QueueName") == "gpu-long"
    assert whole.eval("QueueName") == "all"
    assert whole.eval("WholeNode") is True
    assert whole.eval("GlueHostArchitectureSMPSize") == 64
    for trees in ("1.3", "2.0", "both"):
        file = io.StringIO()
        left = glue.write_ldif(glue.read_osg([ce]), file, version=trees)
        of_queue = ("IsPilotEntry", "RequireSingularity", "GridResource", "InformationSystem")
        more = {("publish.class", name) for name in of_queue if trees != "2.0"}
        assert {(issue.rule, issue.attribute) for issue in left} == UNNAMED | more
        again = glue.read_ldif(file.getvalue().splitlines()).computing_elements()
        assert [queue.eval("QueueName") for queue in again] == ["gpu-long", "all"]
    # The memory of a whole node is not said.
    assert whole.eval("GlueHostMainMemoryRAMSize") is UNDEFINED
    assert whole.eval("GlueCEAccessControlBaseRule") == ["VO:atlas", "VO:cms"]


@pytest.mark.parametrize("vos", ["7", '{ "cms", 7 }', '"cms;atlas"'])
def test_vos_of_the_osg_that_cannot_be_read_admit_nobody(vos: str) -> None:
    text = f'[ Name = "ce"; OSG_ResourceCatalog = {{ [ Name = "a"; AllowedVOs = {vos} ] }} ]'
    [queue] = glue.read_osg(parse_ads(text)).computing_elements()
    rules = queue.eval("GlueCEAccessControlBaseRule")
    assert rules == []
