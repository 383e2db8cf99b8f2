"""What one source lost may deny the queues of another: they admit nobody until somebody says so."""

from __future__ import annotations

import json
import socket
from io import BytesIO
from xml.etree.ElementTree import Element, fromstring

import pytest

from matchmaker import ClassAd, broker, glue, parse_ad, parse_ads
from matchmaker.glue.access import RULES
from matchmaker.glue.limits import LIMITS
from matchmaker.glue.readers.ldap import Bounds
from tests.glue.ldap_server import done, entry, queue, server
from tests.limits import fields

ID = "h:1/jm-pbs-q"
JOB = parse_ad('[ VirtualOrganisation = "cms"; Requirements = true; Rank = 1 ]')
ADS = list(parse_ads('[ CEid = "x" ] [ CEid = "y"; GlueSiteUniqueID = "S" ]'))


def site(name: str = "S") -> glue.Glue:
    """A queue that admits cms."""
    text = f"""dn: GlueSiteUniqueID={name},o=grid
objectClass: GlueSite
GlueSiteUniqueID: {name}

dn: GlueClusterUniqueID=c,o=grid
objectClass: GlueCluster
GlueClusterUniqueID: c
GlueForeignKey: GlueSiteUniqueID={name}

dn: GlueCEUniqueID={ID},o=grid
objectClass: GlueCE
GlueCEUniqueID: {ID}
{RULES}: VO:cms
GlueForeignKey: GlueClusterUniqueID=c
"""
    return glue.read(BytesIO(text.encode()))


def broken(base: str, code: int | None = None) -> glue.Glue:
    """What a server sent under a base before it broke off, or stopped at a limit or a referral."""

    def answer(peer: socket.socket, number: int) -> None:
        peer.sendall(entry(number, "GlueSiteUniqueID=R,o=grid", objectClass=b"GlueSite"))
        if code is None:
            peer.sendall(queue(number, GlueCEAccessControlBaseRule=b"DENY:VO:cms")[:-5])
            peer.close()
        else:
            peer.sendall(done(number, code))

    with server(answer) as url:
        return glue.read_ldap(url, base, bounds=Bounds(timeout=2, total=4))


def taken(found: broker.Queues) -> list[str]:
    return sorted(candidate.name for candidate in broker.choose(JOB, found.ads).ranked)


@pytest.mark.parametrize("code", [None, 4])
@pytest.mark.parametrize("base", ["o=grid", "Mds-Vo-name=resource,o=grid"])
def test_what_a_source_lost_may_deny_any_queue_of_another(base: str, code: int | None) -> None:
    lost = broken(base, code)
    assert taken(broker.merged([("site", site()), ("ads", ADS)])) == [ID, "x", "y"]
    sources: list[tuple[str, glue.Glue | list[ClassAd]]]
    sources = [("site", site()), ("ads", ADS), ("bdii", lost)]
    for _ in range(2):
        sources.reverse()
        found = broker.merged(sources)
        assert taken(found) == []
        assert not found.whole
        [(source, issue)] = [(s, i) for s, i in found.issues if i.rule == "source.partial"]
        assert source == "bdii"
        assert "queues admit nobody: read it again, leave it out, or accept" in issue.message
        assert issue.level == "E"
        for ce in found.records.computing_elements:
            assert "DENY:ALL" in str(ce.values[RULES])
        assert taken(broker.merged(sources, accept_partial=True)) == [ID, "x", "y"]


@pytest.mark.parametrize("base", ["Mds-Vo-name=s,Mds-Vo-name=local,o=grid", "GLUE2DomainID=s,o=x"])
def test_a_server_that_was_asked_for_one_site_may_deny_its_queues_alone(base: str) -> None:
    lost = broken(base)
    for name, expected in (("S", ["z"]), ("R", ["z"]), ("T", [ID, "z"])):
        # A queue whose site is not known may be of any; one of another site is not.
        ads = [*ADS, ClassAd({"CEid": "z", "GlueSiteUniqueID": "Z"})]
        found = broker.merged([("site", site(name)), ("bdii", lost), ("ads", ads)])
        assert taken(found) == expected
        [issue] = [i for _, i in found.issues if i.rule == "source.partial"]
        assert "queues of s in other sources admit nobody" in issue.message


def test_the_answer_names_the_base_that_it_is_of() -> None:
    for base, code in (("o=x", None), ("Mds-Vo-name=s,o=grid", 4)):
        [issue] = [issue for issue in broken(base, code).issues if issue.partial]
        assert issue.dn == base


def test_a_source_alone_has_no_other_to_close() -> None:
    found = broker.merged([("bdii", broken("o=grid"))])
    assert [i.rule for _, i in found.issues if i.partial] == ["ldap.partial"]


OLD = f"""dn: GlueCEUniqueID=h.grid:443/rest-slurm-long,Mds-Vo-name=site,o=grid
objectClass: GlueCE
GlueCEUniqueID: h.grid:443/rest-slurm-long
{RULES}: VO:cms

"""


def service(share: str = "s", rule: str = "VO:cms") -> str:
    """That queue in GLUE 2.0."""
    place = "GLUE2ServiceID=x,o=glue"
    return f"""dn: {place}
objectClass: GLUE2ComputingService
GLUE2ServiceID: x

dn: GLUE2ManagerID=m,{place}
objectClass: GLUE2ComputingManager
GLUE2ManagerProductName: slurm

dn: GLUE2EndpointID=e,{place}
objectClass: GLUE2ComputingEndpoint
GLUE2EndpointURL: https://h.grid:443/x
GLUE2EndpointInterfaceName: rest

dn: GLUE2ShareID={share},{place}
objectClass: GLUE2ComputingShare
GLUE2ShareID: {share}
GLUE2ComputingShareMappingQueue: long

dn: GLUE2PolicyID=p,GLUE2ShareID={share},{place}
objectClass: GLUE2MappingPolicy
GLUE2PolicyID: p
GLUE2PolicyRule: {rule}

"""


DENYING = service(rule="DENY:VO:cms")
_BESIDE = DENYING[DENYING.index("dn: GLUE2EndpointID") : DENYING.index("dn: GLUE2ShareID")]
TWO = DENYING + _BESIDE.replace("ID=e", "ID=f").replace("//h.grid", "//i.grid")
"""The queue at another endpoint too."""
KEYS = "MappingQueue: long\nGLUE2ShareEndpointForeignKey: e\nGLUE2ShareEndpointForeignKey: f\n"
NAMELESS = DENYING.replace("objectClass: GLUE2ComputingShare", "objectClass: x")
_SECOND = DENYING[DENYING.index("dn: GLUE2EndpointID") : DENYING.index("dn: GLUE2ShareID")]
_SECOND = _SECOND.replace("ID=e", "ID=f").replace(":443", ":444").rstrip("\n")
_SECOND += "\nGLUE2EndpointCapability: executionmanagement.jobcreation\n\n"

DAMAGE = {
    "nothing": DENYING,
    "the class of the endpoint that the share does not name": (
        DENYING.replace(
            "InterfaceName: rest", "InterfaceName: rest\nGLUE2EndpointCapability: jobcreation"
        ).replace("objectClass: GLUE2ComputingEndpoint", "objectClass: GLUE2Endpoint")
    )
    + _SECOND,
    "the name of a queue in GLUE 1.3, and a character of its id": OLD.replace("dn:", "nd:")
    .replace("/rest-slurm", "/\x01rest-slurm")
    .replace("VO:cms", "VO:zulu\nGlueCEName: long\nGlueCEInfoHostName: h.grid"),
    "the batch system": DENYING.replace("ProductName: slurm", "ProductName:"),
    "a batch system that is none": DENYING.replace("ProductName: slurm", "ProductName: slém"),
    "the manager": DENYING.replace("objectClass: GLUE2ComputingManager", "objectClass: x"),
    "the address": DENYING.replace("https://h.grid:443/x", "nowhere"),
    "a part of the address": DENYING.replace("https://h.grid:443/x", "https://h.grid\t!:443/x"),
    "a key to one of two endpoints": DENYING.replace(
        "MappingQueue: long\n", "MappingQueue: long\nyeK: e\nGLUE2ShareEndpointForeignKey: f\n"
    )
    + DENYING[DENYING.index("dn: GLUE2EndpointID") : DENYING.index("dn: GLUE2ShareID")]
    .replace("ID=e", "ID=f")
    .replace("//h.grid", "//i.grid"),
    "the address, with an id of another endpoint": DENYING.replace(
        "MappingQueue: long", "MappingQueue: long\nGLUE2EntityOtherInfo: CEid=i.grid:1/cream-pbs-q"
    ).replace("https://h.grid:443/x", "nowhere"),
    "the interface": DENYING.replace("GLUE2EndpointInterfaceName: rest\n", ""),
    "the service": DENYING.replace("objectClass: GLUE2ComputingService", "objectClass: x"),
    "the share's name": DENYING.replace("dn: GLUE2ShareID=s,", "dn:: "),
    "a change": DENYING.replace("ShareID: s\n", "ShareID: s\nchangetype: delete\n"),
    "the service, the queue and one of two endpoints": TWO.replace("MappingQueue: long\n", KEYS)
    .replace("objectClass: GLUE2ComputingService", "objectClass: x")
    .replace("MappingQueue: long", "MappingQueue:: lo*")
    .replace("dn: GLUE2EndpointID=e", "dn,: GLUE2EndpointID=e"),
    "the queue": DENYING.replace("MappingQueue: long", "MappingQueue:: lo*"),
    "the text of the queue": DENYING.replace("MappingQueue: long", "MappingQueue:"),
    "a letter of the queue": DENYING.replace("MappingQueue: long", "MappingQueue: lo\tg"),
    "one of two addresses": DENYING.replace(
        "GLUE2EndpointURL: https://h",
        "GLUE2EndpointURL: https://i.grid\nGLUE2EndpointURL: https://h",
    ),
    "the text of the address": DENYING.replace("URL: https://h.grid:443/x", "URL:"),
    "the share's class": DENYING.replace("objectClass: GLUE2ComputingShare", "objectClass: x"),
    "the share's class and name": NAMELESS.replace("dn: GLUE2ShareID=", "dn: x="),
    "the share's class, name and id": NAMELESS.replace("ShareID=", "x=").replace(
        "GLUE2ShareID:", "GLUE2:"
    ),
    "the share's ids": DENYING.replace("dn: GLUE2ShareID=s,", "dn: x,").replace(
        "GLUE2ShareID: s", "GLUE2ShareID:"
    ),
    "a queue's ids": OLD.replace("VO:cms", "DENY:VO:cms")
    .replace("ID=h.grid:443/rest-slurm", "ID=h.grid:443/restslurm")
    .replace("ID: h.grid:443/rest-slurm", "ID: h.grid:443/rest\tslurm")
    .replace("\nobject", "\nGlueCEName: long\nobject"),
    "the capability of one of two endpoints": TWO.replace("MappingQueue: long\n", KEYS).replace(
        "InterfaceName: rest\n",
        "InterfaceName: rest\nGLUE2EndpointCapability: executionmanreation\n",
        1,
    ),
    "the class of one of two endpoints": TWO.replace("MappingQueue: long\n", KEYS).replace(
        "objectClass: GLUE2ComputingEndpoint", "objectClass: x", 1
    ),
    "the id of one of two endpoints": TWO.replace("MappingQueue: long\n", KEYS).replace(
        "dn: GLUE2EndpointID=e,", "dn: GLUE2EndpointID=urn,"
    ),
    "the service of one of two endpoints": TWO.replace(
        "dn: GLUE2EndpointID=e,GLUE2ServiceID=x", "dn: GLUE2EndpointID=e,GLUE2ServiceID=y"
    ),
}


@pytest.mark.parametrize("other", [OLD, service(), service("t")], ids=["1.3", "2.0", "2.0 too"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_source_that_lost_the_name_of_a_queue_still_denies_it(damage: str, other: str) -> None:
    whole, lost = (glue.read(BytesIO(text.encode())) for text in (other, DAMAGE[damage]))
    assert len(taken(broker.merged([("whole", whole)]))) == 1
    for sources in ([("a", whole), ("b", lost)], [("b", lost), ("a", whole)]):
        assert taken(broker.merged(sources)) == []


def test_a_view_that_lost_its_system_still_admits_nobody_where_an_endpoint_admits_none() -> None:
    lost = TWO.replace("DENY:VO:cms", "VO:cms").replace("ProductName: slurm", "ProductName:")
    policy = lost[lost.index("dn: GLUE2PolicyID") :].partition("\n\n")[0]
    access = policy.replace("GLUE2ShareID=s", "GLUE2EndpointID=f").replace("Mapping", "Access")
    view = f"{KEYS}GLUE2EntityOtherInfo: VOView=cms\n"
    text = lost.replace(policy, access).replace("MappingQueue: long\n", view)
    whole, other = (glue.read(BytesIO(each.encode())) for each in (OLD, text))
    assert len(taken(broker.merged([("a", whole)]))) == 1
    for sources in ([("a", whole), ("b", other)], [("b", other), ("a", whole)]):
        assert [each for each in taken(broker.merged(sources)) if "h.grid" in str(each)] == []


DOCUMENT = """<Services><ComputingService><ID>x</ID>
<ComputingManager><ID>m</ID><ProductName>slurm</ProductName></ComputingManager>
<ComputingEndpoint><ID>e</ID><URL>https://h.grid:443/x</URL>
<InterfaceName>rest</InterfaceName></ComputingEndpoint>
<ComputingEndpoint><ID>f</ID><URL>https://i.grid:443/x</URL>
<InterfaceName>rest</InterfaceName></ComputingEndpoint>
<ComputingShare><ID>s</ID><MappingQueue>long</MappingQueue>
<MappingPolicy><ID>p</ID><Rule>DENY:VO:cms</Rule></MappingPolicy></ComputingShare>
</ComputingService></Services>"""
LOST = {
    "nothing": ("Services>", "Services>"),
    "the share's class": ("ComputingShare>", "ComputingShar>"),
    "the share's id": ("<ID>s</ID>", ""),
    "the share's id and the queue": ("<ID>s</ID><MappingQueue>long</MappingQueue>", ""),
    "the text of the queue": ("<MappingQueue>long</MappingQueue>", "<MappingQueue/>"),
    "the queue, which is too long": ("long", "long" * LIMITS.text),
    "the endpoint's class": ("ComputingEndpoint>", "Computingndpoint>"),
    "the endpoint's id": ("<ID>e</ID>", ""),
    "the endpoint's capability": ("<ID>e</ID>", "<ID>e</ID><Capability>jobcreati</Capability>"),
    "the endpoint's id and address": ("<ID>e</ID><URL>https://h.grid:443/x</URL>", ""),
}


def in_json(element: Element) -> object:
    """The element as an object; its text where it has nothing else in it."""
    made: dict[str, list[object]] = {}
    for child in element:
        made.setdefault(child.tag, []).append(in_json(child))
    single = {name: its[0] if len(its) == 1 else its for name, its in made.items()}
    return single or element.text or ""


@pytest.mark.parametrize("form", ["xml", "json"])
@pytest.mark.parametrize("other", [OLD, service(), service("t")], ids=["1.3", "2.0", "2.0 too"])
@pytest.mark.parametrize("damage", LOST)
def test_a_document_that_lost_a_part_of_a_queue_still_denies_it(
    damage: str, other: str, form: str
) -> None:
    text = DOCUMENT.replace(*LOST[damage])
    if form == "json":
        text = json.dumps(in_json(fromstring(text)))  # noqa: S314 - written above
    whole, lost = (glue.read(BytesIO(each.encode())) for each in (other, text))
    for sources in ([("a", whole), ("b", lost)], [("b", lost), ("a", whole)]):
        assert taken(broker.merged(sources)) == []


LONE = """dn: GLUE2EndpointID=f,GLUE2ServiceID=gone,o=glue
objectClass: GLUE2ComputingEndpoint
GLUE2EndpointID: f
GLUE2EndpointURL: https://h.grid:443/x
GLUE2EndpointCapability: executionmanagement.jobcreation
GLUE2EndpointCapability: executionmanagement.jobmanagement
GLUE2EndpointServiceForeignKey: gone
"""
"""An endpoint of a service that is not there."""


@pytest.mark.parametrize(
    ("capability", "closes"),
    [
        ("executionmanagement.jobcreation", True),
        ("executionmanreation", True),
        ("executionmanagement.jobcre", True),
        ("obcreat", True),
        ("Information.Discovery.Resource", False),
        ("executionmanagement.jobdescription", False),
    ],
)
def test_a_lost_endpoint_closes_its_host_whatever_is_left_of_its_capability(
    capability: str, closes: bool
) -> None:
    text = LONE.replace("executionmanagement.jobcreation", capability)
    sources = [(str(n), glue.read(BytesIO(each.encode()))) for n, each in enumerate((OLD, text))]
    for ordered in (sources, sources[::-1]):
        assert (taken(broker.merged(ordered)) == []) is closes


@pytest.mark.parametrize("kind", ["Endpoint", "StorageEndpoint"])
def test_an_endpoint_of_another_class_says_nothing_of_queues(kind: str) -> None:
    sound = DOCUMENT.replace("DENY:VO:cms", "VO:cms")
    beside = f"<{kind}><ID>g</ID><URL>https://h.grid:2811/</URL><InterfaceName>gsiftp"
    beside += f"</InterfaceName></{kind}></ComputingService>"
    text = sound.replace("</ComputingService>", beside)
    whole, other = (glue.read(BytesIO(each.encode())) for each in (OLD, text))
    assert len(taken(broker.merged([("a", whole), ("b", other)]))) == 2


def test_what_is_of_another_host_or_queue_is_no_description_of_it() -> None:
    whole = glue.read(BytesIO(OLD.encode()))
    for text in (
        DAMAGE["the batch system"].replace("/h.grid", "/i.grid"),
        DAMAGE["the address"].replace(": long", ": short"),
        DAMAGE["the class of one of two endpoints"].replace(": long", ": short"),
        DAMAGE["the service of one of two endpoints"].replace("/h.grid", "/j.grid"),
    ):
        lost = glue.read(BytesIO(text.encode()))
        assert len(taken(broker.merged([("a", whole), ("b", lost)]))) == 1


def test_shares_without_a_name_are_views_of_the_queue_of_another_source() -> None:
    text = service(rule="VO:atlas")
    text += "dn: GLUE2ShareID" + service("t").partition("dn: GLUE2ShareID")[2]
    nameless = glue.read(BytesIO(text.replace("ProductName: slurm", "ProductName:").encode()))
    wide = glue.read(BytesIO((OLD.rstrip("\n") + f"\n{RULES}: VO:atlas\n").encode()))
    found = broker.merged([("a", nameless), ("b", wide)])
    assert taken(found) == ["h.grid:443/rest-slurm-long", "t"]


def test_a_share_without_a_name_may_be_any_view_of_a_queue() -> None:
    """It admits only whom each view of another source admits, not whom only one of them does."""
    dn = OLD.partition("\n")[0].removeprefix("dn: ")
    view = f"dn: GlueVOViewLocalID=v,{dn}\nobjectClass: GlueVOView\nGlueVOViewLocalID: v\n"
    view += f"GlueChunkKey: GlueCEUniqueID=h.grid:443/rest-slurm-long\n{RULES}: VO:atlas\n"
    lost = service().replace("https://h.grid:443/x", "nowhere")
    one, two = (glue.read(BytesIO(each.encode())) for each in (OLD + view, lost))
    for sources in ([("a", one), ("b", two)], [("b", two), ("a", one)]):
        assert taken(broker.merged(sources)) == ["h.grid:443/rest-slurm-long"]


def test_a_queue_that_a_bound_left_out_denies_in_other_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = glue.read(BytesIO(OLD.encode()))
    monkeypatch.setitem(fields(LIMITS), "ads", 0)
    monkeypatch.setitem(fields(LIMITS), "ads_each", 0)
    lost = glue.read(BytesIO(OLD.encode()))
    assert lost.computing_elements() == []
    assert taken(broker.merged([("a", whole), ("b", lost)])) == []


@pytest.mark.parametrize("rule", ["VO:atlas", "DENY:ALL"])
def test_damage_that_makes_two_sources_alike_opens_nothing(rule: str) -> None:
    """What closes a part of a queue closes all of it where another source describes it."""
    part = '[ CEid = {}; GlueCEUniqueID = "q"; GlueCEAccessControlBaseRule = {} ]'
    one = parse_ad(part.format('"q"', '{ "VO:cms", "DENY:ALL" }'))
    two = parse_ad(part.format('"q/a"', '{ "VO:cms" }'))
    three = parse_ad(part.format('"q/b"', f'{{ "{rule}" }}'))
    assert taken(broker.merged([("a", [one]), ("b", [two, three])])) == []


def test_a_view_admits_whom_all_sources_admit_in_whatever_order() -> None:
    """Others of its queue may admit in each source whom the view admits in one."""

    def ads(view: str, other: str) -> list[ClassAd]:
        part = '[ CEid = {}; GlueCEUniqueID = "q"; GlueCEAccessControlBaseRule = {} ]'
        rules = (("q/v", view), ("q/w", other))
        return [parse_ad(part.format(f'"{n}"', f'{{ "VO:{vo}" }}')) for n, vo in rules]

    sources = [("a", ads("cms", "atlas")), ("b", ads("atlas", "cms"))]
    assert taken(broker.merged(sources)) == taken(broker.merged(sources[::-1])) == []
