"""Sites as the information providers of grids print them, and whom each admits, stated by hand.

Each generator follows the public source that its docstring names: the names of entries, the keys
between them, the capabilities, the spelling of rules. What a queue is sized or loaded like is left
out. `SITES` says who may use each site: ``known`` are the users whom a published rule names, and
of a site that publishes no rule every user's access is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from xml.etree.ElementTree import Element, fromstring

import attrs

USERS: Final[Mapping[str, str]] = {
    "alice": '[ VirtualOrganisation = "atlas"; FQAN = { "/atlas" };'
    ' CertificateSubject = "/DC=ch/CN=Alice" ]',
    "production": '[ VirtualOrganisation = "atlas"; FQAN = { "/atlas/Role=production", "/atlas" };'
    ' CertificateSubject = "/DC=ch/CN=Producer" ]',
    "pilot": '[ VirtualOrganisation = "cms"; FQAN = { "/cms/Role=pilot", "/cms" };'
    ' CertificateSubject = "/DC=ch/CN=Pilot" ]',
    "carol": '[ VirtualOrganisation = "CMS"; FQAN = { "/cms/Role=NULL/Capability=NULL" };'
    ' CertificateSubject = "/DC=ch/CN=Carol" ]',
    "ada": '[ VirtualOrganisation = "zulu"; FQAN = { "/zulu" };'
    ' CertificateSubject = "/O=Grid/CN=Ada Lovelace" ]',
    "oscar": '[ VirtualOrganisation = "ops"; FQAN = { "/ops" };'
    ' CertificateSubject = "/DC=ch/CN=Oscar" ]',
}
"""Six users, as the attributes of their jobs."""

ATLAS: Final = frozenset({"alice", "production"})
CMS: Final = frozenset({"pilot", "carol"})


def entry(dn: str, classes: Iterable[str], *lines: str) -> str:
    """An entry of LDIF."""
    said = [f"objectClass: {name}" for name in classes]
    return "\n".join([f"dn: {dn}", *said, *lines]) + "\n\n"


def _glue2(kind: str) -> tuple[str, ...]:
    parent = kind.removeprefix("Computing").removeprefix("Mapping").removeprefix("Access")
    parent = "Resource" if kind == "ExecutionEnvironment" else parent
    return tuple(dict.fromkeys(("GLUE2Entity", f"GLUE2{parent}", f"GLUE2{kind}")))


_ARC_CAPABILITIES: Final = {
    "ac": ("executionmanagement.jobcreation", "executionmanagement.jobdescription"),
    "am": ("executionmanagement.jobmanagement", "information.lookup.job"),
    "ri": ("information.discovery.resource", "information.query.xpath1"),
    "ai": ("information.discovery.job", "information.lookup.job"),
    "d": ("security.delegation",),
    "rest": (
        "executionmanagement.jobcreation",
        "executionmanagement.jobdescription",
        "executionmanagement.jobmanagement",
        "information.discovery.resource",
        "information.discovery.job",
        "information.lookup.job",
        "security.delegation",
    ),
}
_ARC_INTERFACES: Final = {
    "ac": "org.ogf.glue.emies.activitycreation",
    "am": "org.ogf.glue.emies.activitymanagement",
    "ri": "org.ogf.glue.emies.resourceinfo",
    "ai": "org.ogf.glue.emies.activityinfo",
    "d": "org.ogf.glue.emies.delegation",
    "rest": "org.nordugrid.arcrest",
}


def arc(
    host: str, queues: Mapping[str, Iterable[str] | None], cluster: Iterable[str] = (),
    *, rest: bool = True,
) -> str:  # fmt: skip
    """ARC's GLUE 2.0 (nordugrid/arc, infoproviders/ARC1ClusterInfo.pm and GLUE2ldifPrinter.pm).

    A queue is a share without a policy; each VO that it advertises (else the cluster's) is one more
    share with a mapping policy. Every endpoint has the same access policy, of one id, with the
    union of the VOs. Shares name the endpoint ``…:emies:URL``, which is the beginning of the ids of
    entries: ``…:emies:URL:ac``.
    """
    service = f"urn:ogf:ComputingService:{host}:arex"
    root = f"GLUE2ServiceID={service},GLUE2GroupID=services,o=glue"
    url = f"https://{host}:443/arex"
    emies = f"urn:ogf:ComputingEndpoint:{host}:emies:{url}"
    by_rest = f"urn:ogf:ComputingEndpoint:{host}:rest:{url}"
    vos = {q: list(cluster) if its is None else list(its) for q, its in queues.items()}
    union = list(dict.fromkeys([*cluster, *(vo for its in vos.values() for vo in its)]))
    text = entry("o=glue", ["organization"], "o: glue")
    text += entry("GLUE2GroupID=services,o=glue", ["GLUE2Group"], "GLUE2GroupID: services")
    said = sorted({one for its in _ARC_CAPABILITIES.values() for one in its})
    text += entry(
        root, _glue2("ComputingService"), f"GLUE2ServiceID: {service}",
        *(f"GLUE2ServiceCapability: {one}" for one in said),
        "GLUE2ServiceType: org.nordugrid.arex", "GLUE2ServiceQualityLevel: production",
        f"GLUE2ServiceAdminDomainForeignKey: urn:ad:{host}",
    )  # fmt: skip
    endpoints = {part: f"{emies}:{part}" for part in ("ac", "am", "ri", "ai", "d")}
    endpoints |= {"rest": by_rest} if rest else {}
    for part, ident in endpoints.items():
        computing = part not in ("ri", "d")
        dn = f"GLUE2EndpointID={ident},{root}"
        text += entry(
            dn, _glue2("ComputingEndpoint" if computing else "Endpoint"),
            f"GLUE2EndpointID: {ident}", f"GLUE2EndpointURL: {url}",
            *(f"GLUE2EndpointCapability: {one}" for one in _ARC_CAPABILITIES[part]),
            f"GLUE2EndpointTechnology: {'rest' if part == 'rest' else 'webservice'}",
            f"GLUE2EndpointInterfaceName: {_ARC_INTERFACES[part]}",
            f"GLUE2EndpointQualityLevel: {'testing' if part == 'rest' else 'production'}",
            "GLUE2EndpointHealthState: ok",
            "GLUE2EndpointServingState: production",
            f"GLUE2EndpointServiceForeignKey: {service}",
            *([f"GLUE2ComputingEndpointComputingServiceForeignKey: {service}"] * computing),
        )  # fmt: skip
        if union:
            name = f"urn:ogf:AccessPolicy:{host}:basic"
            text += entry(
                f"GLUE2PolicyID={name},{dn}", _glue2("AccessPolicy"), f"GLUE2PolicyID: {name}",
                "GLUE2PolicyScheme: basic", *(f"GLUE2PolicyRule: vo:{vo}" for vo in union),
                f"GLUE2AccessPolicyEndpointForeignKey: {ident}",
            )  # fmt: skip
    for queue, its in vos.items():
        for vo in ("", *its):
            name = f"{queue}_{vo}" if vo else queue
            ident = f"urn:ogf:ComputingShare:{host}:{name}"
            dn = f"GLUE2ShareID={ident},{root}"
            keys = [emies, *([by_rest] if rest else [])]
            text += entry(
                dn, _glue2("ComputingShare"), f"GLUE2EntityName: {name}", f"GLUE2ShareID: {ident}",
                f"GLUE2ComputingShareMappingQueue: {queue}",
                "GLUE2ComputingShareServingState: production",
                *(f"GLUE2ShareEndpointForeignKey: {key}" for key in keys),
                *(f"GLUE2ComputingShareComputingEndpointForeignKey: {key}" for key in keys),
                f"GLUE2ShareServiceForeignKey: {service}",
                f"GLUE2ComputingShareComputingServiceForeignKey: {service}",
            )  # fmt: skip
            if vo:
                name = f"urn:ogf:MappingPolicy:{host}:basic:{vo}"
                text += entry(
                    f"GLUE2PolicyID={name},{dn}", _glue2("MappingPolicy"),
                    f"GLUE2PolicyID: {name}", "GLUE2PolicyScheme: basic",
                    f"GLUE2PolicyRule: vo:{vo}", f"GLUE2MappingPolicyShareForeignKey: {ident}",
                )  # fmt: skip
    manager = f"urn:ogf:ComputingManager:{host}:slurm"
    text += entry(
        f"GLUE2ManagerID={manager},{root}", _glue2("ComputingManager"),
        f"GLUE2ManagerID: {manager}", "GLUE2ManagerProductName: slurm",
        f"GLUE2ManagerServiceForeignKey: {service}",
    )  # fmt: skip
    return text


def arc_xml(
    host: str, queues: Mapping[str, Iterable[str] | None], cluster: Iterable[str] = ()
) -> str:
    """ARC's GLUE 2.0 as XML, which its REST interface gives (GLUE2xmlPrinter.pm, rest.cpp).

    Policies stand in what they are of and have no key; an endpoint names all shares, a share the
    beginnings of the ids of its endpoints.
    """
    url = f"https://{host}:443/arex"
    prefix = f"urn:ogf:ComputingEndpoint:{host}"
    emies, by_rest = f"{prefix}:emies:{url}", f"{prefix}:rest:{url}"
    vos = {q: list(cluster) if its is None else list(its) for q, its in queues.items()}
    union = list(dict.fromkeys([*cluster, *(vo for its in vos.values() for vo in its)]))
    names = [(f"{q}_{vo}" if vo else q, q, vo) for q, its in vos.items() for vo in ("", *its)]
    share_ids = [f"urn:ogf:ComputingShare:{host}:{name}" for name, _, _ in names]

    def policy(kind: str, ident: str, rules: Iterable[str]) -> str:
        said = "".join(f"<Rule>vo:{vo}</Rule>" for vo in rules)
        return (
            f'<{kind} BaseType="Policy" CreationTime="2026-01-01T00:00:00Z" Validity="10800">'
            f"<ID>urn:ogf:{kind}:{host}:{ident}</ID><Scheme>basic</Scheme>{said}</{kind}>"
        )

    text = f"""<InfoRoot>
<Domains xmlns="http://schemas.ogf.org/glue/2009/03/spec_2.0_r1"
  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="https://raw.github.com/OGF-GLUE/XSD/master/schema/GLUE2.xsd">
<AdminDomain BaseType="Domain"><ID>urn:ad:{host}</ID><Services>
<ComputingService BaseType="Service"><ID>urn:ogf:ComputingService:{host}:arex</ID>
<Type>org.nordugrid.arex</Type><QualityLevel>production</QualityLevel>
"""
    idents = {part: f"{emies}:{part}" for part in ("ac", "am", "ai")} | {"rest": by_rest}
    for part, ident in idents.items():
        said = "".join(f"<Capability>{each}</Capability>" for each in _ARC_CAPABILITIES[part])
        rules = policy("AccessPolicy", "basic", union) if union else ""
        shares = "".join(f"<ComputingShareID>{each}</ComputingShareID>" for each in share_ids)
        text += (
            f'<ComputingEndpoint BaseType="Endpoint"><ID>{ident}</ID><URL>{url}</URL>{said}'
            f"<InterfaceName>{_ARC_INTERFACES[part]}</InterfaceName>"
            f"<ServingState>production</ServingState>{rules}"
            f"<Associations>{shares}</Associations></ComputingEndpoint>\n"
        )
    for ident, (name, queue, vo) in zip(share_ids, names, strict=True):
        rules = policy("MappingPolicy", f"basic:{vo}", [vo]) if vo else ""
        text += (
            f'<ComputingShare BaseType="Share"><ID>{ident}</ID><Name>{name}</Name>{rules}'
            f"<MappingQueue>{queue}</MappingQueue><ServingState>production</ServingState>"
            f"<Associations><ComputingEndpointID>{emies}</ComputingEndpointID>"
            f"<ComputingEndpointID>{by_rest}</ComputingEndpointID></Associations>"
            "</ComputingShare>\n"
        )
    manager = f"urn:ogf:ComputingManager:{host}:slurm"
    return text + (
        f'<ComputingManager BaseType="Manager"><ID>{manager}</ID><ProductName>slurm</ProductName>'
        "</ComputingManager></ComputingService></Services></AdminDomain></Domains></InfoRoot>\n"
    )


def arc_json(xml: str) -> str:
    """The same as JSON (nordugrid/arc, a-rex/rest/rest.cpp): elements of one name make a list."""

    def made(element: Element) -> object:
        if not len(element):
            return element.text or ""
        found: dict[str, object] = {}
        for tag in dict.fromkeys(child.tag for child in element):
            its = [made(child) for child in element if child.tag == tag]
            found[tag.rpartition("}")[2]] = its[0] if len(its) == 1 else its
        return found | ({"_attributes": dict(element.attrib)} if element.attrib else {})

    return json.dumps(made(fromstring(xml)))  # noqa: S314 - of our own making


def arc_glue1(host: str, cluster: Iterable[str], queues: Mapping[str, Iterable[str]]) -> str:
    """ARC's GLUE 1.3 (nordugrid/arc, infoproviders/glue-generator.pl): views of the cluster's VOs.

    The queue's own rules are its own VOs, ``VO:ops`` where it has none, so that a view may be of a
    VO that the queue leaves out.
    """
    text = entry(
        f"GlueClusterUniqueID={host},mds-vo-name=resource,o=grid", ["GlueCluster"],
        f"GlueClusterUniqueID: {host}", "GlueForeignKey: GlueSiteUniqueID=ARC",
    )  # fmt: skip
    for queue, its in queues.items():
        ident = f"{host}:2811/nordugrid-SLURM-{queue}"
        text += entry(
            f"GlueCEUniqueID={ident},mds-vo-name=resource,o=grid",
            ["GlueCETop", "GlueCE", "GlueSchemaVersion", "GlueCEAccessControlBase", "GlueCEInfo",
             "GlueCEPolicy", "GlueCEState", "GlueInformationService", "GlueKey"],
            f"GlueCEUniqueID: {ident}", f"GlueCEName: {queue}", f"GlueCEInfoHostName: {host}",
            "GlueCEInfoJobManager: arc", "GlueCEInfoLRMSType: SLURM",
            "GlueCEStateStatus: Production",
            *(f"GlueCEAccessControlBaseRule: VO:{vo}" for vo in [*its] or ["ops"]),
            f"GlueForeignKey: GlueClusterUniqueID={host}",
        )  # fmt: skip
        for vo in cluster:
            text += entry(
                f"GlueVOViewLocalID={vo},GlueCEUniqueID={ident},Mds-Vo-name=resource,o=grid",
                ["GlueCETop", "GlueVOView", "GlueCEInfo", "GlueCEState", "GlueCEAccessControlBase",
                 "GlueCEPolicy", "GlueKey", "GlueSchemaVersion"],
                "GlueCEInfoDataDir: unset", f"GlueCEAccessControlBaseRule: VO:{vo}",
                f"GlueChunkKey: GlueCEUniqueID={ident}", f"GlueVOViewLocalID: {vo}",
            )  # fmt: skip
    return text


def htcondor_ce(host: str, vos: Iterable[str], *, access: bool = True) -> str:
    """HTCondor-CE's own provider (htcondor/htcondor-ce, contrib/bdii/htcondor-ce-provider).

    The mapping policy and, since 2019, the access policy of the *endpoint* stand below the share of
    each VO. Two spaces stand before some keys, and an empty line too many behind shares.
    """
    manager = f"cm.{host}:9618"
    root = f"GLUE2ServiceID={manager},GLUE2GroupID=resource,o=glue"
    resource = f"{manager}_x86_64_linux_AlmaLinux_9_64_257000"
    endpoint = f"{host}_HTCondorCE"
    text = entry(
        f"GLUE2ResourceID={resource},{root}", _glue2("ExecutionEnvironment"),
        f"GLUE2ResourceID: {resource}", "GLUE2ExecutionEnvironmentMainMemorySize: 257000",
        "GLUE2ExecutionEnvironmentOSFamily: linux", "GLUE2ExecutionEnvironmentPlatform: x86_64",
        "GLUE2ExecutionEnvironmentConnectivityIn: TRUE",
        "GLUE2ExecutionEnvironmentConnectivityOut: TRUE",
        f"GLUE2ResourceManagerForeignKey:  {manager}_Manager",
        f"GLUE2ExecutionEnvironmentComputingManagerForeignKey:  {manager}_Manager",
    )  # fmt: skip
    text += entry(
        f"GLUE2ManagerID={manager}_Manager,{root}", _glue2("ComputingManager"),
        f"GLUE2ManagerID: {manager}_Manager", "GLUE2ManagerProductName: HTCondor",
        "GLUE2ComputingManagerTotalLogicalCPUs: 320",
        f"GLUE2ManagerServiceForeignKey: {manager}",
    )  # fmt: skip
    text += entry(
        root, _glue2("ComputingService"), f"GLUE2ServiceID: {manager}",
        "GLUE2ServiceCapability: executionmanagement.jobexecution",
        "GLUE2ServiceType: org.opensciencegrid.htcondorce",
        "GLUE2ServiceQualityLevel: production", "GLUE2ServiceAdminDomainForeignKey: SITE",
    )  # fmt: skip
    text += entry(
        f"GLUE2EndpointID={endpoint},{root}", _glue2("ComputingEndpoint"),
        f"GLUE2EndpointID: {endpoint}",
        "GLUE2EndpointCapability: executionmanagement.jobexecution",
        "GLUE2EndpointInterfaceName: org.opensciencegrid.htcondorce",
        f"GLUE2EndpointURL: condor://{host}:9619", "GLUE2EndpointQualityLevel: production",
        "GLUE2EndpointServingState: production", "GLUE2EndpointHealthState: ok",
        "GLUE2EndpointDowntimeInfo: See the GOC DB for downtimes: https://goc.egi.eu/",
        f"GLUE2EndpointServiceForeignKey: {manager}",
        f"GLUE2ComputingEndpointComputingServiceForeignKey: {manager}",
    )  # fmt: skip
    for vo in vos:
        share = f"{host}_{vo}_share"
        dn = f"GLUE2ShareID={share},{root}"
        text += entry(
            dn, _glue2("ComputingShare"), f"GLUE2ShareID: {share}",
            "GLUE2ComputingShareServingState: production", "GLUE2ComputingShareTotalJobs: 3",
            f"GLUE2ComputingShareComputingServiceForeignKey: {manager}",
            f"GLUE2ComputingShareComputingEndpointForeignKey: {endpoint}",
            f"GLUE2ShareServiceForeignKey: {manager}",
            f"GLUE2ShareEndpointForeignKey: {endpoint}",
            f"GLUE2ComputingShareExecutionEnvironmentForeignKey: {resource}",
            f"GLUE2ShareResourceForeignKey: {resource}",
        ) + "\n"  # fmt: skip
        text += entry(
            f"GLUE2PolicyID={host}_{vo}_policy,{dn}", _glue2("MappingPolicy"),
            f"GLUE2PolicyID: {host}_{vo}_policy", "GLUE2PolicyScheme: org.glite.standard",
            f"GLUE2PolicyRule: vo:{vo}", f"GLUE2MappingPolicyShareForeignKey: {share}",
        )  # fmt: skip
        if access:
            text += entry(
                f"GLUE2PolicyID={host}_{vo}_policy_access,{dn}", _glue2("AccessPolicy"),
                f"GLUE2PolicyID: {host}_{vo}_policy_access",
                "GLUE2PolicyScheme: org.glite.standard", f"GLUE2PolicyRule: vo:{vo}",
                f"GLUE2AccessPolicyEndpointForeignKey: {endpoint}",
            )  # fmt: skip
    return text


def cream(host: str, queues: Mapping[str, Mapping[str, str]], endpoint_rules: Iterable[str]) -> str:
    """CREAM's GLUE 2.0 (italiangrid, GLUEInfoProvider: GLUE2ShareHandler and the endpoint's).

    A share for each queue and VO or FQAN, with its mapping policy; one access policy of the
    endpoint lists all; the endpoint of RTEPublisher is for information.

    Args:
        host: of the CE.
        queues: by name, the rule of each share by the share's name.
        endpoint_rules: of the endpoint.
    """
    service = f"{host}_ComputingElement"
    root = f"GLUE2ServiceID={service},GLUE2GroupID=resource,o=glue"
    endpoint = f"{host}_org.glite.ce.CREAM"
    text = entry(
        root, _glue2("ComputingService"), f"GLUE2ServiceID: {service}",
        "GLUE2ServiceType: org.glite.ce.CREAM", "GLUE2ServiceQualityLevel: production",
        "GLUE2ServiceCapability: executionmanagement.jobexecution",
        "GLUE2ServiceAdminDomainForeignKey: SITE",
    )  # fmt: skip
    text += entry(
        f"GLUE2ManagerID={service}_Manager,{root}", _glue2("ComputingManager"),
        f"GLUE2ManagerID: {service}_Manager", "GLUE2ManagerProductName: torque",
        f"GLUE2ManagerServiceForeignKey: {service}",
    )  # fmt: skip
    for ident, capability, interface in (
        (endpoint, "executionmanagement.jobexecution", "org.glite.ce.CREAM"),
        (f"{host}_org.glite.ce.ApplicationPublisher", "information.publication",
         "org.glite.ce.ApplicationPublisher"),
    ):  # fmt: skip
        dn = f"GLUE2EndpointID={ident},{root}"
        text += entry(
            dn, _glue2("ComputingEndpoint"), f"GLUE2EndpointID: {ident}",
            "GLUE2EntityOtherInfo: HostDN=/DC=ch/CN=" + host,
            f"GLUE2EndpointURL: https://{host}:8443/ce-cream/services",
            f"GLUE2EndpointCapability: {capability}",
            f"GLUE2EndpointInterfaceName: {interface}",
            "GLUE2EndpointServingState: production",
            f"GLUE2EndpointServiceForeignKey: {service}",
            f"GLUE2ComputingEndpointComputingServiceForeignKey: {service}",
        )  # fmt: skip
        text += entry(
            f"GLUE2PolicyID={ident}_Policy,{dn}", _glue2("AccessPolicy"),
            f"GLUE2PolicyID: {ident}_Policy", "GLUE2PolicyScheme: org.glite.standard",
            *(f"GLUE2PolicyRule: {rule}" for rule in endpoint_rules),
            *(f"GLUE2PolicyUserDomainForeignKey: {vo}" for vo in ("atlas", "cms")),
            f"GLUE2AccessPolicyEndpointForeignKey: {ident}",
        )  # fmt: skip
    for queue, shares in queues.items():
        for name, rule in shares.items():
            share = f"{queue}_{name}_{service}"
            dn = f"GLUE2ShareID={share},{root}"
            text += entry(
                dn, _glue2("ComputingShare"),
                f"GLUE2EntityOtherInfo: CREAMCEId={host}:8443/cream-pbs-{queue}",
                "GLUE2EntityOtherInfo: ServiceType=org.glite.ce.CREAM", f"GLUE2ShareID: {share}",
                f"GLUE2ShareDescription: Share of {queue} for {name}",
                f"GLUE2ComputingShareMappingQueue: {queue}",
                "GLUE2ComputingShareServingState: production",
                "GLUE2ComputingShareMaxCPUTime: 999999999",
                "GLUE2ComputingShareWaitingJobs: 444444",
                f"GLUE2ShareEndpointForeignKey: {endpoint}",
                f"GLUE2ComputingShareComputingEndpointForeignKey: {endpoint}",
                f"GLUE2ShareServiceForeignKey: {service}",
                f"GLUE2ComputingShareComputingServiceForeignKey: {service}",
            )  # fmt: skip
            text += entry(
                f"GLUE2PolicyID={share}_policy,{dn}", _glue2("MappingPolicy"),
                f"GLUE2PolicyID: {share}_policy", "GLUE2PolicyScheme: org.glite.standard",
                f"GLUE2PolicyRule: {rule}", "GLUE2PolicyUserDomainForeignKey: atlas",
                f"GLUE2MappingPolicyShareForeignKey: {share}",
            )  # fmt: skip
    return text


def cream_glue1(host: str, rules: Iterable[str], views: Mapping[str, Iterable[str]]) -> str:
    """CREAM's GLUE 1.3 (italiangrid, GLUEInfoProvider): views with rules, and denials in views.

    The queue lists the rules of all its views. A view of a whole VO denies the roles that have
    views of their own, so that each job finds one view.
    """
    ident = f"{host}:8443/cream-pbs-long"
    text = entry(
        f"GlueCEUniqueID={ident},mds-vo-name=resource,o=grid",
        ["GlueCETop", "GlueCE", "GlueCEAccessControlBase", "GlueCEInfo", "GlueCEPolicy",
         "GlueCEState", "GlueInformationService", "GlueKey", "GlueSchemaVersion"],
        f"GlueCEUniqueID: {ident}", "GlueCEName: long", f"GlueCEInfoHostName: {host}",
        "GlueCEStateStatus: Production",
        *(f"GlueCEAccessControlBaseRule: {rule}" for rule in rules),
        f"GlueForeignKey: GlueClusterUniqueID={host}",
    )  # fmt: skip
    for name, its in views.items():
        text += entry(
            f"GlueVOViewLocalID={name},GlueCEUniqueID={ident},mds-vo-name=resource,o=grid",
            ["GlueCETop", "GlueVOView", "GlueCEInfo", "GlueCEState", "GlueCEAccessControlBase",
             "GlueCEPolicy", "GlueKey", "GlueSchemaVersion"],
            f"GlueVOViewLocalID: {name}", "GlueCEStateRunningJobs: 0",
            *(f"GlueCEAccessControlBaseRule: {rule}" for rule in its),
            f"GlueChunkKey: GlueCEUniqueID={ident}",
        )  # fmt: skip
    return text


def nikhef(host: str, rules: Iterable[str]) -> str:
    """Nikhef's GRAM, GLUE 1.3 and 2.0 (static providers for gLite's BDII, by dvandok and davidg).

    In GLUE 2.0 shares of one VO have one id, as have their policies; the endpoint repeats rules as
    its file has them, a group without ``VOMS:``. In GLUE 1.3 the view of a VO denies the roles that
    have views of their own, without ``VOMS:``.
    """
    listed = list(rules)
    service, place = f"{host}_gram5", f"GLUE2ServiceID={host}_gram5,GLUE2GroupID=resource,o=glue"
    text = entry(place, _glue2("ComputingService"), f"GLUE2ServiceID: {service}")
    end = f"{host}_org.globus.gram"
    text += entry(
        f"GLUE2EndpointID={end},{place}", _glue2("ComputingEndpoint"), f"GLUE2EndpointID: {end}",
        f"GLUE2EndpointURL: https://{host}:2119/jobmanager",
        "GLUE2EndpointCapability: executionmanagement.jobexecution",
        "GLUE2EndpointInterfaceName: org.globus.gram", "GLUE2EndpointServingState: production",
        f"GLUE2EndpointServiceForeignKey: {service}",
    )  # fmt: skip
    text += entry(
        f"GLUE2PolicyID={end}_Policy,GLUE2EndpointID={end},{place}", _glue2("AccessPolicy"),
        f"GLUE2PolicyID: {end}_Policy", "GLUE2PolicyScheme: org.glite.standard",
        *(f"GLUE2PolicyRule: {rule.removeprefix('VOMS:')}" for rule in listed),
        f"GLUE2AccessPolicyEndpointForeignKey: {end}",
    )  # fmt: skip
    views: dict[str, list[str]] = {}
    for rule in listed:
        group = rule.partition(":")[2]
        vo = group.strip("/").partition("/")[0]
        share = f"long{vo}_{service}"
        text += entry(
            f"GLUE2ShareID={share},{place}", _glue2("ComputingShare"), f"GLUE2ShareID: {share}",
            "GLUE2ComputingShareMappingQueue: long",
            "GLUE2ComputingShareServingState: production",
            f"GLUE2ShareServiceForeignKey: {service}",
        )  # fmt: skip
        text += entry(
            f"GLUE2PolicyID={share}_policy,GLUE2ShareId={share},{place}", _glue2("MappingPolicy"),
            f"GLUE2PolicyID: {share}_policy", "GLUE2PolicyScheme: org.glite.standard",
            f"GLUE2PolicyRule: {rule}", f"GLUE2MappingPolicyShareForeignKey: {share}",
        )  # fmt: skip
        roles = [each.partition(":")[2] for each in listed]
        below = [f"DENY:{role}" for role in roles if role.startswith(f"/{group.strip('/')}/")]
        views[group.replace("=", "_")] = [rule, *(below if "/" not in group.strip("/") else [])]
    return text + cream_glue1(host, listed, views)


def dcache(site: str, vos: Iterable[str]) -> str:
    """DCache's GLUE 2.0 (dCache/dcache, skel/share/info-provider/glue-2.0.xml): storage alone.

    The access policy of its door is ``ALL``; each share's mapping policy has the rules of its
    reservation. None of them is of a queue.
    """
    service = f"glue:{site}/data"
    root = f"GLUE2ServiceID={service},GLUE2GroupID=resource,o=glue"
    door = f"{service}/ep/webdav"
    text = entry(root, ("GLUE2Entity", "GLUE2Service", "GLUE2StorageService"),
                 f"GLUE2ServiceID: {service}", "GLUE2ServiceType: org.dcache.storage")  # fmt: skip
    dn = f"GLUE2EndpointID={door},{root}"
    text += entry(dn, ["GLUE2Endpoint", "GLUE2StorageEndpoint"], f"GLUE2EndpointID: {door}",
                  f"GLUE2EndpointURL: https://{site}:2880/",
                  "GLUE2EndpointCapability: data.management.transfer",
                  f"GLUE2EndpointServiceForeignKey: {service}")  # fmt: skip
    ident = f"{door}/ap/basic"
    text += entry(f"GLUE2PolicyID={ident},{dn}", ["GLUE2AccessPolicy", "GLUE2Policy"],
                  f"GLUE2PolicyID: {ident}", "GLUE2PolicyScheme: basic", "GLUE2PolicyRule: ALL",
                  f"GLUE2AccessPolicyEndpointForeignKey: {door}")  # fmt: skip
    for vo in vos:
        share = f"{service}/ss/{vo}"
        dn = f"GLUE2ShareID={share},{root}"
        text += entry(dn, ["GLUE2Share", "GLUE2StorageShare"], f"GLUE2ShareID: {share}",
                      "GLUE2StorageShareServingState: production",
                      f"GLUE2ShareServiceForeignKey: {service}")  # fmt: skip
        text += entry(f"GLUE2PolicyID={share}/mp/basic,{dn}",
                      ["GLUE2MappingPolicy", "GLUE2Policy"], f"GLUE2PolicyID: {share}/mp/basic",
                      "GLUE2PolicyScheme: basic", f"GLUE2PolicyRule: VOMS:/{vo}/Role=production",
                      f"GLUE2PolicyRule: VO:{vo}",
                      f"GLUE2MappingPolicyShareForeignKey: {share}")  # fmt: skip
    return text


def ipf(host: str, queues: Iterable[str]) -> str:
    """Ipf's JSON, as ACCESS publishes it (access-ci-org/ipf, ipf/glue2): it has no policies."""
    service, manager = f"urn:glue2:ComputingService:{host}", f"urn:glue2:ComputingManager:{host}"
    endpoint = f"urn:glue2:ComputingEndpoint:ssh.{host}"
    shares = [f"urn:glue2:ComputingShare:{queue}.{host}" for queue in queues]
    return json.dumps({
        "ComputingService": [{
            "ID": service, "Type": "org.teragrid.Slurm", "QualityLevel": "production",
            "Associations": {"ComputingManagerID": [manager], "ComputingShareID": shares},
        }],
        "ComputingEndpoint": [{
            "ID": endpoint, "URL": f"ssh://{host}", "InterfaceName": "org.globus.openssh",
            "Capability": ["executionmanagement.jobexecution", "executionmanagement.jobmanager"],
            "ServingState": "production", "Associations": {"ServiceID": service},
        }],
        "ComputingShare": [{
            "ID": share, "Name": share.split(":")[3].split(".")[0], "ServingState": "production",
            "MappingQueue": share.split(":")[3].split(".")[0], "MaxWallTime": 172800,
            "Associations": {"ResourceID": [], "EnvironmentID": [], "ServiceID": service},
        } for share in shares],
        "ComputingManager": [{
            "ID": manager, "ProductName": "SLURM", "Associations": {"ServiceID": service},
        }],
    })  # fmt: skip


def unicore(host: str, rules: Iterable[str]) -> str:
    """A UNICORE/X in the XML of GLUE 2.0: ipf/glue2/unicore.py's endpoint, GFD.209's rendering.

    The endpoint, for which UNICORE's gateway decides, has the policy; shares have none.
    """
    said = "".join(f"<Rule>{rule}</Rule>" for rule in rules)
    words = ("jobdescription", "jobexecution", "jobmanager")
    capabilities = "".join(f"<Capability>executionmanagement.{word}</Capability>" for word in words)
    return f"""<?xml version="1.0"?>
<ComputingService xmlns="http://schemas.ogf.org/glue/2009/03/spec_2.0_r1">
  <ID>unicore:{host}</ID><Type>eu.unicore.site</Type>
  <ComputingEndpoint><ID>unicore:{host}:tss</ID>
    <URL>https://{host}:8080/X/services/TargetSystemFactoryService</URL>{capabilities}
    <InterfaceName>ogf.bes</InterfaceName><ServingState>production</ServingState>
    <AccessPolicy><ID>unicore:{host}:tss:ap</ID><Scheme>basic</Scheme>{said}</AccessPolicy>
  </ComputingEndpoint>
  <ComputingShare><ID>unicore:{host}:batch</ID><MappingQueue>batch</MappingQueue>
    <ServingState>production</ServingState></ComputingShare>
  <ComputingManager><ID>unicore:{host}:lrms</ID><ProductName>slurm</ProductName></ComputingManager>
</ComputingService>
"""


def osg(host: str, entries: Mapping[str, Iterable[str] | None]) -> str:
    """The ad of a CE in the OSG's collector (opensciencegrid/osg-configure, resourcecatalog.py)."""

    def one(name: str, vos: Iterable[str] | None) -> str:
        said = "" if vos is None else "AllowedVOs = {" + ",".join(f'"{v}"' for v in vos) + "}; "
        return f'[ {said}CPUs = 8; Memory = 16000; MaxWallTime = 1440; Name = "{name}" ]'

    listed = ", ".join(one(name, vos) for name, vos in entries.items())
    return (
        f'Name = "{host}"\nMachine = "{host}"\nOSG_BatchSystems = "slurm"\n'
        f'OSG_ResourceGroup = "GROUP"\nOSG_ResourceCatalog = {{ {listed} }}\n'
    )


@attrs.frozen(slots=True)
class Provided:
    """A site: what its provider prints, and who may use it."""

    text: Callable[[], str]
    known: frozenset[str]
    unknown: bool = False
    catalog: bool = False


SITES: Final[Mapping[str, Provided]] = {
    "arc": Provided(lambda: arc("arc.a.org", {"long": None, "gpu": None}, ("atlas", "cms")),
                    ATLAS | CMS),
    "arc, a VO a queue": Provided(lambda: arc("arc.b.org", {"q1": ("atlas",), "q2": ("ops",)}),
                                  ATLAS | {"oscar"}),
    "arc, EMI-ES alone": Provided(lambda: arc("arc.c.org", {"q": None}, ("CMS",), rest=False), CMS),
    "arc, no VO": Provided(lambda: arc("arc.d.org", {"q": None}), frozenset(), unknown=True),
    "arc, XML": Provided(lambda: arc_xml("arc.p.org", {"q1": ("atlas",), "q2": None}, ("ops",)),
                         ATLAS | {"oscar"}),
    "arc, JSON": Provided(
        lambda: arc_json(arc_xml("arc.q.org", {"q1": ("CMS",)})), CMS),
    "arc, XML of no VO": Provided(lambda: arc_xml("arc.r.org", {"q": None}), frozenset(),
                                  unknown=True),
    "nikhef": Provided(lambda: nikhef("gram.s.nl", ("VO:atlas", "VOMS:/atlas/Role=production",
                                                    "VOMS:/cms/Role=pilot")), ATLAS | {"pilot"}),
    "arc, GLUE 1.3 of the cluster": Provided(
        lambda: arc_glue1("arc.t.org", ("zulu",), {"q": ()}), frozenset({"ada", "oscar"})),
    "arc, GLUE 1.3": Provided(lambda: arc_glue1("arc.e.org", ("atlas", "cms"),
                                                {"q": ("atlas", "cms", "ops")}),
                              ATLAS | CMS | {"oscar"}),
    "htcondor-ce": Provided(lambda: htcondor_ce("ce.f.org", ("atlas", "zulu")), ATLAS | {"ada"}),
    "htcondor-ce of 2018": Provided(lambda: htcondor_ce("ce.g.org", ("cms", "ops"), access=False),
                                    CMS | {"oscar"}),
    "cream": Provided(
        lambda: cream("cream.h.org", {
            "short": {"atlas": "VO:atlas", "cms_pilot": "VOMS:/cms/Role=pilot"},
            "long": {"atlas_production": "VOMS:/atlas/Role=production"},
        }, ("VO:atlas", "VOMS:/cms/Role=pilot", "VOMS:/atlas/Role=production")),
        ATLAS | {"pilot"}),
    "cream, GLUE 1.3": Provided(
        lambda: cream_glue1("cream.i.org", ("VO:cms", "VOMS:/cms/Role=pilot"), {
            "cms": ("VO:cms", "DENY:VOMS:/cms/Role=pilot"),
            "pilot": ("VOMS:/cms/Role=pilot",),
        }),
        CMS),
    "dcache beside htcondor-ce": Provided(
        lambda: dcache("se.j.org", ("cms", "ops")) + htcondor_ce("ce.j.org", ("atlas",)), ATLAS),
    "ipf": Provided(lambda: ipf("k.access.org", ("normal", "gpu")), frozenset(), unknown=True),
    "unicore": Provided(lambda: unicore("ux.l.org", ("/O=Grid/CN=Ada Lovelace", "VO:cms")),
                        CMS | {"ada"}),
    "unicore, everybody": Provided(lambda: unicore("ux.m.org", ("ALL", "DENY:VO:ATLAS")),
                                   CMS | {"ada", "oscar"}),
    "osg": Provided(lambda: osg("ce.n.edu", {"main": ("CMS", "osg"), "big": ("atlas",)}),
                    ATLAS | CMS, catalog=True),
    "osg, no VO": Provided(lambda: osg("ce.o.edu", {"main": None}), frozenset(), unknown=True,
                           catalog=True),
}  # fmt: skip
"""By name, sites of the providers that grids install, and whom their rules name."""


EXAMPLES: Final[Mapping[str, Callable[[], str]]] = {
    "arc.ldif": lambda: arc("arc.s.org", {"long": ("atlas",)}, ("cms",)),
    "arc.xml": lambda: arc_xml("arc.s.org", {"long": ("atlas",)}, ("cms",)),
    "cream.ldif": lambda: cream(
        "cream.s.org",
        {"long": {"atlas": "VO:atlas", "cms_pilot": "VOMS:/cms/Role=pilot"}},
        ("VO:atlas", "VOMS:/cms/Role=pilot"),
    ),
    "cream-glue1.ldif": SITES["cream, GLUE 1.3"].text,
    "dcache.ldif": lambda: dcache("se.s.org", ("cms",)),
    "htcondor-ce.ldif": lambda: htcondor_ce("ce.s.org", ("atlas", "zulu")),
    "ipf.json": lambda: ipf("k.access.org", ("normal",)),
    "osg.ad": lambda: osg("ce.s.edu", {"main": ("CMS",), "open": None}),
    "unicore.xml": SITES["unicore"].text,
}
"""The files in examples/providers, which docs/glue.md reads."""
