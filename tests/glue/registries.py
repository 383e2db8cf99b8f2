"""Documents as today's registries and factories give them, written here by their public sources."""

from __future__ import annotations

from typing import Final

COLLECTOR: Final = """
[ MyType = "Scheduler"; Name = "ce1.lake.example"; OSG_Resource = "Lake-CE1";
  OSG_ResourceGroup = "Lake"; OSG_BatchSystems = "Slurm";
  grid_resource = "condor ce1.lake.example ce1.lake.example:9620";
  OSG_ResourceCatalog = {
    [ Name = "main"; CPUs = 8; Memory = 16000; MaxWallTime = 1440; Subclusters = { "main" };
      AllowedVOs = { "cms", "\\"OSG\\"" }; VOTag = "lake";
      Requirements = TARGET.RequestCPUs <= CPUs && member(TARGET.VO, AllowedVOs);
      Transform = [ set_xcount = RequestCPUs; set_remote_queue = "grid" ] ],
    [ Name = "gpu"; IsPilotEntry = true; CPUs = 4; Memory = 32000; GPUs = 2; MaxPilots = 30;
      RequireSingularity = false; OS = "rhel9"; Queue = "gpu"; AllowedVOs = {  } ],
    [ Name = "whole"; IsPilotEntry = true; WholeNode = true; EstimatedCPUs = 64;
      AllowedVOs = { "cms" } ] } ]
"""
"""Two kinds of ads: a CE, as osg-configure fills its catalogue, and nothing else."""

RESOURCES: Final = """<?xml version="1.0" encoding="UTF-8"?>
<ResourceSummary xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="https://topology.opensciencegrid.org/schema/rgsummary.xsd">
  <ResourceGroup>
    <GridType>OSG Production Resource</GridType>
    <GroupID>901</GroupID>
    <GroupName>Lake</GroupName>
    <Disable>False</Disable>
    <Facility><ID>1</ID><Name>University of the Lake</Name></Facility>
    <Site><ID>2</ID><Name>Lake Computing</Name></Site>
    <SupportCenter><ID>3</ID><Name>Self Supported</Name></SupportCenter>
    <GroupDescription>A cluster by the lake</GroupDescription>
    <Resources>
      <Resource>
        <ID>11</ID><Name>Lake-CE1</Name><Active>True</Active><Disable>False</Disable>
        <Services><Service><ID>1</ID><Name>CE</Name><Description>Compute Element</Description>
          <Details><hidden>False</hidden></Details></Service></Services>
        <FQDN>CE1.lake.example</FQDN>
        <VOOwnership><Ownership><Percent>60</Percent><VO>CMS</VO></Ownership>
          <Ownership><Percent>40</Percent><VO>(Other)</VO></Ownership>
          <ChartURL>http://charts.example</ChartURL></VOOwnership>
      </Resource>
      <Resource>
        <ID>12</ID><Name>Lake-CE2</Name><Active>True</Active><Disable>False</Disable>
        <Services><Service><ID>1</ID><Name>CE</Name><Description/>
          <Details><uri_override>ce2.lake.example:9700</uri_override></Details>
          </Service></Services>
        <FQDN>ce2.lake.example</FQDN>
        <VOOwnership>(Information not available)</VOOwnership>
      </Resource>
      <Resource>
        <ID>13</ID><Name>Lake-CE3</Name><Active>False</Active><Disable>False</Disable>
        <Services><Service><ID>1</ID><Name>CE</Name><Description/></Service></Services>
        <FQDN>ce3.lake.example</FQDN>
      </Resource>
      <Resource>
        <ID>14</ID><Name>Lake-Squid</Name><Active>True</Active><Disable>False</Disable>
        <Services><Service><ID>138</ID><Name>Squid</Name><Description/></Service></Services>
        <FQDN>squid.lake.example</FQDN>
      </Resource>
    </Resources>
  </ResourceGroup>
</ResourceSummary>
"""

GROUP: Final = """
# A comment, as most of these files begin
Production: true
SupportCenter: Self Supported
GroupDescription: |
  A cluster
  by the lake
GroupID: 901
Resources:
  Lake-CE1:
    Active: true
    Description: The first
    ID: 11
    FQDN: ce1.lake.example
    Services:
      CE:
        Description: Compute Element
        Details:
          hidden: false
    VOOwnership:
      CMS: 60
  Lake-CE3:
    Active: no
    ID: 13
    FQDN: ce3.lake.example
    Services: {CE: {Description: Compute Element}}
  Lake-Squid:
    Active: true
    FQDN: squid.lake.example
    Services:
      Squid:
"""


def rg_downtimes(*, severity: str = "Outage", service: str = "CE") -> str:
    """Return topology's XML of a downtime on 1 December 2026 from 12 to 18 h."""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<Downtimes xsi:schemaLocation="https://topology.opensciencegrid.org/schema/rgdowntime.xsd"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <PastDowntimes/>
  <CurrentDowntimes/>
  <FutureDowntimes>
    <Downtime>
      <ID>99</ID><ResourceID>11</ResourceID>
      <ResourceGroup><GroupName>Lake</GroupName><GroupID>901</GroupID></ResourceGroup>
      <ResourceName>Lake-CE1</ResourceName><ResourceFQDN>ce1.lake.example</ResourceFQDN>
      <StartTime>Dec 01, 2026 12:00 PM UTC</StartTime><EndTime>Dec 01, 2026 18:00 PM UTC</EndTime>
      <Class>SCHEDULED</Class><Severity>{severity}</Severity>
      <CreatedTime>Nov 20, 2026 09:00 AM UTC</CreatedTime><UpdateTime>Not Available</UpdateTime>
      <Services><Service><ID>1</ID><Name>{service}</Name><Description/></Service></Services>
      <Description>The pump of the
        lake is replaced</Description>
    </Downtime>
  </FutureDowntimes>
</Downtimes>
"""


GROUP_DOWNTIMES: Final = """- Class: UNSCHEDULED
  ID: 100
  Description: "Power cut: no cooling"
  Severity: Severe
  StartTime: Dec 01, 2026 07:00 -0500
  EndTime: Dec 01, 2026 13:00 -0500
  CreatedTime: Dec 01, 2026 07:00 -0500
  ResourceName: Lake-CE1
  Services:
  - Squid
  - CE
# ---------------------------------------------------------
- Class: SCHEDULED
  ID: 101
  Severity: Outage
  StartTime: Dec 03, 2026 07:00 +0000
  EndTime: Dec 03, 2026 07:00 +0000
  ResourceName: Lake-CE1
  Services:
  - CE
"""

SITES: Final = """<?xml version="1.0" encoding="UTF-8"?>
<results>
  <SITE ID="77" PRIMARY_KEY="77G0" NAME="FJORD-T2">
    <PRIMARY_KEY>77G0</PRIMARY_KEY><SHORT_NAME>FJORD-T2</SHORT_NAME>
    <OFFICIAL_NAME>University by the Fjord</OFFICIAL_NAME>
    <HOME_URL>https://fjord.example</HOME_URL><COUNTRY>Norway</COUNTRY>
    <PRODUCTION_INFRASTRUCTURE>Production</PRODUCTION_INFRASTRUCTURE>
    <CERTIFICATION_STATUS>Certified</CERTIFICATION_STATUS>
    <DOMAIN><DOMAIN_NAME>fjord.example</DOMAIN_NAME></DOMAIN>
  </SITE>
</results>
"""


def endpoint(host: str, kind: str, url: str = "", production: str = "Y") -> str:
    """Return an endpoint of GOCDB."""
    return f"""<SERVICE_ENDPOINT PRIMARY_KEY="5G0"><PRIMARY_KEY>5G0</PRIMARY_KEY>
    <HOSTNAME>{host}</HOSTNAME><BETA>N</BETA><SERVICE_TYPE>{kind}</SERVICE_TYPE><CORE/>
    <IN_PRODUCTION>{production}</IN_PRODUCTION><NODE_MONITORED>Y</NODE_MONITORED>
    <SITENAME>FJORD-T2</SITENAME><URL>{url}</URL><ENDPOINTS/>
    <SCOPES><SCOPE>EGI</SCOPE><SCOPE>wlcg</SCOPE></SCOPES><EXTENSIONS/></SERVICE_ENDPOINT>"""


ENDPOINTS: Final = f"""<results>
  {endpoint("arc.fjord.example", "ARC-CE", "https://arc.fjord.example:8443/arex")}
  {endpoint("htc.fjord.example", "org.opensciencegrid.htcondorce")}
  {endpoint("test.fjord.example", "org.opensciencegrid.htcondorce", production="N")}
  {endpoint("bdii.fjord.example", "Site-BDII", "ldap://bdii.fjord.example:2170")}
</results>
"""


def outages(*, severity: str = "OUTAGE", kind: str = "ARC-CE", nested: bool = False) -> str:
    """Return GOCDB's XML of a downtime of a host on 1 December 2026 from 12 to 18 h UTC."""
    service = f"""<PRIMARY_KEY>5G0</PRIMARY_KEY><HOSTNAME>arc.fjord.example</HOSTNAME>
      <SERVICE_TYPE>{kind}</SERVICE_TYPE><ENDPOINT>arc.fjord.example{kind}</ENDPOINT>
      <HOSTED_BY>FJORD-T2</HOSTED_BY>"""
    services = f"<SERVICES><SERVICE>{service}</SERVICE></SERVICES>" if nested else service
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<results><DOWNTIME ID="8" PRIMARY_KEY="8G0" CLASSIFICATION="SCHEDULED">
  <SEVERITY>{severity}</SEVERITY><DESCRIPTION>Storage &amp; network are moved</DESCRIPTION>
  <INSERT_DATE>1795000000</INSERT_DATE>
  <START_DATE>1796126400</START_DATE><END_DATE>1796148000</END_DATE>
  <FORMATED_START_DATE>2026-12-01 12:00</FORMATED_START_DATE>
  <FORMATED_END_DATE>2026-12-01 18:00</FORMATED_END_DATE>
  <GOCDB_PORTAL_URL>https://goc.egi.eu/portal/index.php?Page_Type=Downtime&amp;id=8</GOCDB_PORTAL_URL>
  {services}</DOWNTIME></results>
"""


def attributes(**values: object) -> str:
    """Return the attributes of an entry of a factory."""
    return "".join(
        f'<attr name="{name}" const="True" glidein_publish="True" job_publish="True"'
        f' parameter="True" publish="True" type="string" value="{value}"/>'
        for name, value in values.items()
    )


def entry(
    name: str, gatekeeper: str, kind: str, attrs: str, asked: str = "", *, more: str = "",
    glideins: int = 500,
) -> str:  # fmt: skip
    """Return an entry of a factory."""
    return f"""<entry name="{name}" auth_method="scitoken" comment="Added by hand" enabled="True"
      gatekeeper="{gatekeeper}" gridtype="{kind}" trust_domain="grid" verbosity="std" work_dir="."
      {more}><config><max_jobs>
        <default_per_frontend glideins="100" held="10" idle="10"/>
        <per_entry glideins="{glideins}" held="20" idle="20"/><per_frontends/></max_jobs>
      <release max_per_cycle="20" sleep="0.2"/><remove max_per_cycle="5" sleep="0.2"/>
      <restrictions require_voms_proxy="False"/>
      <submit cluster_size="10" max_per_cycle="10" sleep="2" slots_layout="fixed">
        <submit_attrs>{asked}</submit_attrs></submit></config>
    <allow_frontends/><attrs>{attrs}</attrs><files/><infosys_refs/><monitorgroups/></entry>"""


def asks(name: str, value: object) -> str:
    """Return what an entry asks of the batch system."""
    return f'<submit_attr name="{name}" value="{value}"/>'


_LAKE: Final = attributes(
    GLIDEIN_CPUS=8, GLIDEIN_MaxMemMBs=16000, GLIDEIN_Max_Walltime=84600, GLIDEIN_Site="Lake",
    GLIDEIN_ResourceName="Lake-CE1", GLIDEIN_Supported_VOs="CMS,OSGVO", GLIDEIN_REQUIRED_OS="any",
)  # fmt: skip
_GPU: Final = attributes(
    GLIDEIN_CPUS="auto", GLIDEIN_ESTIMATED_CPUS=4, GLIDEIN_Max_Walltime=171000, GLIDEIN_Site="Lake",
    GLIDEIN_Resource_Slots="GPUs,2,type=main", GLIDEIN_Supported_VOs="glowGPU",
    GLIDEIN_REQUIRED_OS="rhel8",
)  # fmt: skip
_ARC: Final = attributes(GLIDEIN_CPUS=1, GLIDEIN_Site="Fjord", GLIDEIN_Supported_VOs="VIRGO")
_OFF: Final = attributes(GLIDEIN_CPUS=1, GLIDEIN_Site="Hill")

FACTORY: Final = f"""<?xml version="1.0"?>
<!-- A factory's entries -->
<glidein><entries>
  {
    entry(
        "Lake_main",
        "ce1.lake.example ce1.lake.example:9619",
        "condor",
        _LAKE,
        asks("+maxMemory", 16000) + asks("+xcount", 8) + asks("+remote_queue", "&quot;grid&quot;"),
    )
}
  {
    entry(
        "Lake_gpu",
        "ce1.lake.example ce1.lake.example:9619",
        "condor",
        _GPU,
        asks("+queue", "gpu") + asks("+WantWholeNode", "True"),
        glideins=20,
    )
}
  {entry("Fjord_arc", "arc.fjord.example", "arc", _ARC, asks("batch_queue", "long"))}
  {
    entry(
        "Fjord_old",
        "arc.fjord.example",
        "nordugrid",
        _ARC,
        more='rsl="(queue=short)(count=8)(memory=2000)"',
    )
}
  {entry("Hill_cream", "ce.hill.example:8443/cream-lsf-grid", "cream", _OFF)}
  {entry("Cloud", "https://cloud.example", "ec2", _OFF)}
</entries></glidein>
""".replace(
    'enabled="True"\n      gatekeeper="ce.hill', 'enabled="False"\n      gatekeeper="ce.hill'
)
