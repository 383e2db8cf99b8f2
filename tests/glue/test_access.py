"""Access never fails open: what has no rule, or one that cannot be read, admits nobody."""

from __future__ import annotations

import gzip
import io
import json
from typing import Literal

import attrs
import pytest

from matchmaker import broker, glue, parse_ad, parse_ads
from matchmaker.glue import agreement
from matchmaker.glue.access import RULES
from matchmaker.glue.limits import LIMITS
from matchmaker.glue.v2 import adrift, link, pairs

CE = "dn: GlueCEUniqueID=c:1/cream-slurm-q,o=grid\nobjectClass: GlueCE\n"
CMS = """[ VirtualOrganisation = "cms"; FQAN = "/cms"; CertificateSubject = "/O=grid/CN=Ada";
    Rank = 1 ]"""
ZULU = '[ VirtualOrganisation = "zulu"; FQAN = "/zulu"; CertificateSubject = "/CN=Z"; Rank = 1 ]'


def admitted(found: glue.Glue, job: str = CMS) -> int:
    """How many queues may take a job."""
    return len(broker.choose(parse_ad(job), found).ranked)


def ldif(text: str, *, open_without_rules: bool = False) -> glue.Glue:
    return glue.read_ldif(text.split("\n"), open_without_rules=open_without_rules)


def rules_of(found: glue.Glue) -> set[str]:
    return {issue.rule for issue in found.issues}


def arc(*, endpoints: int, shares: int, rule: str = "VO:cms") -> str:
    """A service as ARC publishes it: one PolicyID under each endpoint, no policies of shares."""
    place = "GLUE2ServiceID=arc,o=glue"
    text = f"dn: {place}\nobjectClass: GLUE2ComputingService\n\n"
    for n in range(endpoints):
        dn = f"GLUE2EndpointID=e{n},{place}"
        text += f"dn: {dn}\nobjectClass: GLUE2ComputingEndpoint\n\n"
        text += f"dn: GLUE2PolicyID=urn:ogf:AccessPolicy:arc:basic,{dn}\n"
        text += "objectClass: GLUE2AccessPolicy\nGLUE2PolicyID: urn:ogf:AccessPolicy:arc:basic\n"
        text += f"GLUE2PolicyRule: {rule}\nGLUE2AccessPolicyEndpointForeignKey: e{n}\n\n"
    for n in range(shares):
        text += f"dn: GLUE2ShareID=s{n},{place}\nobjectClass: GLUE2ComputingShare\n\n"
    return text


def test_one_policy_id_under_every_endpoint() -> None:
    found = ldif(arc(endpoints=5, shares=3))
    assert admitted(found) == 15
    assert admitted(found, ZULU) == 0
    assert rules_of(found).isdisjoint({"link.duplicate", "access.none"})


def test_one_share_id_under_two_services() -> None:
    first = arc(endpoints=1, shares=1)
    second = first.replace("=arc,", "=other,").replace("VO:cms", "VO:zulu")
    found = ldif(first + second)
    assert len(found.computing_elements()) == 2
    assert (admitted(found), admitted(found, ZULU)) == (1, 1)


@pytest.mark.parametrize(
    ("rules", "admits"),
    [
        ([": VO:cms"], 1),
        ([": VO:cms", ": VO:cms"], 1),
        ([], 0),
        ([": EGEE"], 0),
        ([":"], 0),
        ([": undefined"], 0),
        ([": true"], 0),
        ([":: *"], 0),
        ([":< file:///etc/passwd"], 0),
        ([": VO: cms"], 0),
        ([": VO:cms\ufffd"], 0),
        ([": VO:cms", ":: *"], 0),
        ([": VO:cms", ": DEN"], 0),
        ([": VO:cms", ": DENY:"], 0),
        ([": VO:cms", ": DENY:ALL"], 0),
        ([": VO:cms", ": DENY:VO:cms"], 0),
        ([": VO:cms", ": DENY:cms"], 0),
        ([": VO:cms", ": DENY:/cms"], 0),
        ([": VO:cms", ": DENY:VOMS:/cms"], 0),
        ([": VO:cms", ": DENY:/O=grid/CN=Ada"], 0),
        ([": VO:cms", ": DENY:/O=grid/CN=Eve"], 1),
        ([": VO:cms", ": DENY:VO:zulu"], 1),
        ([": /O=grid/CN=Ada", ": DENY:VO:cms"], 0),
    ],
)
def test_rules_of_a_queue(rules: list[str], admits: int) -> None:
    old = ldif(CE + "".join(f"{RULES}{rule}\n" for rule in rules))
    assert admitted(old) == admits
    new = arc(endpoints=1, shares=1).replace(
        "GLUE2PolicyRule: VO:cms\n", "".join(f"GLUE2PolicyRule{rule}\n" for rule in rules)
    )
    assert admitted(ldif(new)) == admits
    if not admits:
        assert rules_of(old) & {"access.none", "clean.access-rule"} or "DENY" in rules[-1]


def test_a_rule_in_another_charset_or_without_end_is_none() -> None:
    for rule in (b"VO:cms\xff", b"VO:" + b"x" * (1 << 20)):
        dump = f"{CE}{RULES}: VO:cms\n{RULES}: ".encode() + rule + b"\n\n"
        assert admitted(glue.read(io.BytesIO(dump))) == 0


def test_a_switch_opens_what_publishes_no_rule_and_nothing_else() -> None:
    assert admitted(ldif(CE, open_without_rules=True), ZULU) == 1
    assert admitted(ldif(f"{CE}{RULES}: EGEE\n", open_without_rules=True), ZULU) == 0
    bare = arc(endpoints=1, shares=1).replace("PolicyRule: VO:cms", "PolicyScheme: basic")
    assert admitted(ldif(bare, open_without_rules=True), ZULU) == 0
    none = "\n\n".join(part for part in bare.split("\n\n") if "AccessPolicy" not in part)
    assert admitted(ldif(none), ZULU) == 0
    assert admitted(ldif(none, open_without_rules=True), ZULU) == 1
    osg = list(parse_ads('[ Name = "ce"; OSG_ResourceCatalog = { [ Memory = 1 ] } ]'))
    assert admitted(glue.read_osg(osg), ZULU) == 0
    assert admitted(glue.read_osg(osg, open_without_rules=True), ZULU) == 1


def test_an_entry_of_a_catalogue_twice_admits_whom_both_admit() -> None:
    def rules(*vos: str) -> object:
        listed = ", ".join(
            f'[ Name = "{name}"; AllowedVOs = {{ {vo} }} ]'
            for name, vo in zip("aA", vos, strict=True)
        )
        ad = f'[ Name = "ce"; OSG_ResourceCatalog = {{ {listed} }} ]'
        [queue] = glue.read_osg(parse_ads(ad)).computing_elements()
        return queue.eval(RULES)

    assert rules('"cms", "atlas"', '"cms"') == rules('"cms"', '"atlas", "cms"') == ["VO:cms"]
    assert rules('"cms"', '"atlas"') == []


def test_two_descriptions_that_differ_admit_whom_both_admit() -> None:
    one, other = f"{CE}{RULES}: VO:cms\n{RULES}: VO:zulu\n\n", f"{CE}{RULES}: VO:zulu\n\n"
    for text in (one + other, other + one):
        found = ldif(text)
        assert (admitted(found), admitted(found, ZULU)) == (0, 1)
        assert {"link.duplicate", "access.conflict"} <= rules_of(found)
    assert admitted(ldif(one + one)) == 1


def test_a_share_without_a_policy_among_others_that_have_one() -> None:
    place = "GLUE2ShareID=s0,GLUE2ServiceID=arc,o=glue"
    policy = f"dn: GLUE2PolicyID=p,{place}\nobjectClass: GLUE2MappingPolicy\n"
    found = ldif(arc(endpoints=1, shares=2) + policy + "GLUE2PolicyRule: VO:cms\n")
    assert admitted(found) == 1
    assert "access.none" in rules_of(found)


def test_a_queue_whose_views_admit_nobody_has_rules_that_say_so() -> None:
    """Without the attribute an ad is open."""
    text = arc(endpoints=1, shares=1, rule="VO:atlas")
    place = "GLUE2ShareID=s0,GLUE2ServiceID=arc,o=glue"
    named = f"dn: {place}\nobjectClass: GLUE2ComputingShare\n"
    assert named in text
    marked = named + "GLUE2EntityOtherInfo: VOView=cms\n"
    policy = f"\ndn: GLUE2PolicyID=m,{place}\nobjectClass: GLUE2MappingPolicy\n"
    text = text.replace(named, marked) + policy + "GLUE2PolicyRule: VO:cms\n"
    found = ldif(text)
    assert [ad.eval(RULES) for ad in found.computing_elements()] == [[]]
    assert admitted(found) == 0


def test_a_document_keeps_every_rule_and_closes_what_it_cannot_read() -> None:
    def read(policy: object) -> glue.Glue:
        endpoint = {"ID": "e", "URL": "https://h:1/x", "AccessPolicy": policy}
        service = {"ID": "s", "ComputingShare": {"ID": "q"}, "ComputingEndpoint": endpoint}
        return glue.read(io.BytesIO(json.dumps({"ComputingService": service}).encode()))

    assert admitted(read({"Rule": ["VO:zulu", "VO:cms"]})) == 1
    assert admitted(read({"Rule": ["VO:cms", "DENY:VO:cms"]})) == 0
    for policy in (None, [None], {}, {"Rule": None}, {"Rule": ["VO:cms", 7]}, {"Rul": ["VO:cms"]}):
        assert admitted(read(policy)) == 0
    twice = b'{"ComputingService": {"ComputingShare": {"ID": "q", "MappingPolicy": '
    twice += b'{"Rule": "DENY:VO:cms", "Rule": "VO:cms"}}}}'
    assert admitted(glue.read(io.BytesIO(twice))) == 0


LARGE = {
    "ldif": b"dn: o=grid\n\n" * 20_000,
    "empty lines": b"\n" * 2_000_000,
    "json": b'{"ComputingShare":[' + b"{}," * 20_000 + b"{}]}",
    "xml": b"<r>" + b"<a/>" * 20_000 + b"</r>",
    "text": b'{"a":"' + b"x" * 2_000_000 + b'"}',
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("packed", [False, True])
def test_what_is_read_is_bounded(name: str, packed: bool) -> None:
    data = gzip.compress(LARGE[name], 1) if packed else LARGE[name]

    class Counted(io.BytesIO):
        taken = 0

        def read(self, size: int | None = -1, /) -> bytes:
            piece = super().read(size)
            self.taken += len(piece)
            return piece

    file = Counted(data)
    with pytest.raises(ValueError, match="raise max_size"):
        glue.read(file, max_size=200_000)
    assert packed or file.taken < 600_000
    glue.read(io.BytesIO(data), max_size=20_000_000)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("dn: GLUE2ServiceID=other,", "dn: GLUE2ServiceID=lost,"),
        ("\nobjectClass: GLUE2ComputingService\n", "\nobjectClass;x: GLUE2ComputingService\n"),
        ("e0,GLUE2ServiceID=other,", "e0,"),
        ("e0,GLUE2ServiceID=other,", "e0,GLUE2ServiceID=lost,"),
    ],
)
def test_a_policy_of_a_service_that_is_lost_joins_no_other(was: str, becomes: str) -> None:
    first = arc(endpoints=1, shares=1)
    second = first.replace("=arc,", "=other,").replace("VO:cms", "VO:zulu")
    assert was in second
    [kept, *_] = ldif(first + second.replace(was, becomes)).computing_elements()
    rules = str(kept.eval(RULES))
    assert "VO:cms" in rules
    assert "VO:zulu" not in rules


@pytest.mark.parametrize(
    "classes",
    ["objectClass: GLUE2Share\n", "objectClass: GLUE2Share\nobjectClass;x: GLUE2ComputingShare\n"],
)
def test_a_share_that_lost_its_class_opens_no_other(classes: str) -> None:
    text = arc(endpoints=1, shares=2)
    policy = "dn: GLUE2PolicyID=p,GLUE2ShareID=s0,GLUE2ServiceID=arc,o=glue\n"
    policy += "objectClass: GLUE2MappingPolicy\nGLUE2PolicyRule: VO:cms\n"
    assert admitted(ldif(text + policy)) == 1
    dn = "dn: GLUE2ShareID=s0,GLUE2ServiceID=arc,o=glue\n"
    whole = f"{dn}objectClass: GLUE2ComputingShare\n"
    assert whole in text
    assert admitted(ldif(text.replace(whole, dn + classes) + policy)) == 0


def test_lines_between_an_empty_line_and_a_name_damage_both_entries() -> None:
    first = f"{CE}GlueCEAccessControlBaseRule: VO:cms\n"
    second = first.replace("c:1/", "d:1/")
    lost = "\nGlueCEAccessControlBaseRule: DENY:VO:cms\nGlueCEStateStatus: Production\n"
    assert admitted(ldif(f"{first}\n{second}")) == 2
    assert admitted(ldif(first + lost + second)) == 0


def test_ldif_that_ends_within_a_name_closes_its_shares() -> None:
    whole = arc(endpoints=1, shares=1)
    cut = whole[: whole.rindex("dn: GLUE2PolicyID") + len("dn: GLUE2Pol")]
    found = ldif(cut)
    assert "ldif.partial" in {issue.rule for issue in found.issues}
    assert admitted(found) == 0
    assert "ldif.partial" not in {issue.rule for issue in ldif(whole).issues}


@pytest.mark.parametrize(
    ("where", "field", "admits"),
    [
        ("share", {"Associations": {"ComputingEndpointID": ["free"]}}, 1),
        ("share", {"Associations": {"EndpointID": []}}, 0),
        ("share", {"Associations": {"ComputingEndpointID": []}}, 0),
        ("share", {"Associations": []}, 0),
        ("share", {"ComputingEndpointID": []}, 0),
        ("share", {"ComputingEndpointID": None}, 0),
        ("share", {"Associations": {"MappingPolicyID": []}}, 0),
        ("endpoint", {"Associations": {"AccessPolicyID": []}}, 0),
        ("endpoint", {"Associations": {"AccessPolicyID": None}}, 0),
        ("endpoint", {"Associations": {"ShareID": []}}, 1),
    ],
)
def test_an_empty_list_of_what_restricts(where: str, field: dict[str, object], admits: int) -> None:
    parts: dict[str, dict[str, object]] = {
        "endpoint": {"ID": "free", "AccessPolicy": {"ID": "p", "Rule": "VO:cms"}},
        "share": {"ID": "q"},
    }
    parts[where] |= field
    service = {"ID": "s", "ComputingEndpoint": parts["endpoint"], "ComputingShare": parts["share"]}
    document = json.dumps({"ComputingService": service}).encode()
    assert admitted(glue.read(io.BytesIO(document))) == admits


SHARES = """dn: GLUE2ServiceID=s,o=glue
objectClass: GLUE2ComputingService

dn: GLUE2ManagerID=m,GLUE2ServiceID=s,o=glue
objectClass: GLUE2ComputingManager
GLUE2ManagerProductName: slurm

dn: GLUE2EndpointID=e,GLUE2ServiceID=s,o=glue
objectClass: GLUE2ComputingEndpoint
GLUE2EndpointURL: https://h.grid:443/x
GLUE2EndpointInterfaceName: i

dn: GLUE2ShareID=a,GLUE2ServiceID=s,o=glue
objectClass: GLUE2ComputingShare
GLUE2ComputingShareMappingQueue: q
GLUE2ShareEndpointForeignKey: e

dn: GLUE2PolicyID=p,GLUE2ShareID=a,GLUE2ServiceID=s,o=glue
objectClass: GLUE2MappingPolicy
GLUE2PolicyRule: VO:cms

dn: GLUE2ShareID=b,GLUE2ServiceID=s,o=glue
objectClass: GLUE2ComputingShare
GLUE2EntityOtherInfo: VOView=atlas
GLUE2ComputingShareMappingQueue: q
GLUE2ShareEndpointForeignKey: e

dn: GLUE2PolicyID=p,GLUE2ShareID=b,GLUE2ServiceID=s,o=glue
objectClass: GLUE2MappingPolicy
GLUE2PolicyRule: VO:atlas
GLUE2PolicyRule: DENY:VO:cms
"""

_ELSEWHERE = "VOView=atlas\nGLUE2ComputingShareMappingQueue: q\nGLUE2ShareEndpointForeignKey: lost"


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("", ""),
        (_ELSEWHERE.replace("lost", "e"), _ELSEWHERE),
        ("ProductName: slurm", "ProductVersion: 1"),
        ("GLUE2EndpointInterfaceName: i\n", ""),
        ("https://h.grid:443/x", "nowhere"),
        ("OtherInfo: VOView=atlas", "OtherInfo:"),
        ("OtherInfo: VOView=atlas", "OtherInf: VOView=atlas"),
        ("OtherInfo: VOView=atlas", "OtherInfo: VO\tView=atlas"),
    ],
)
@pytest.mark.parametrize("manager", ["ProductName: slurm", "ProductVersion: 1"])
def test_a_share_that_lost_its_queue_denies_as_before(was: str, becomes: str, manager: str) -> None:
    assert was in SHARES
    whole = SHARES.replace("ProductName: slurm", manager)
    assert admitted(ldif(whole.replace(was, becomes) if was else whole)) == 0


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("", ""),
        ("ShareEndpointForeignKey: e", "ShareEndpointForeignKey: lost"),
        ("ProductName: slurm", "ProductVersion: 1"),
        ("GLUE2EndpointInterfaceName: i\n", ""),
        ("https://h.grid:443/x", "nowhere"),
    ],
)
def test_a_queue_in_both_trees_of_which_one_lost_its_id(was: str, becomes: str) -> None:
    old = f"{CE}{RULES}: VO:cms\n\n".replace("c:1/cream-slurm-q", "h.grid:443/i-slurm-q")
    new = SHARES.replace("VO:cms", "VO:zulu")
    assert was in new
    found = ldif(old + new.replace(was, becomes) if was else old + new)
    assert admitted(found) == 0


_KEYED = "ComputingShareMappingQueue: q\n"
_WITHOUT_SERVICE = SHARES.partition("\n\n")[0] + "\n\n"


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (_WITHOUT_SERVICE, ""),
        ("objectClass: GLUE2ComputingService", "objectClass: x"),
        (
            "objectClass: GLUE2ComputingService",
            "objectClass: GLUE2ComputingService\nGLUE2ServiceID: t",
        ),
        (_KEYED, f"{_KEYED}GLUE2ShareServiceForeignKey: t\n"),
        ("ProductName: slurm", "ProductVersion: 1"),
        ("objectClass: GLUE2ComputingManager", "objectClass: GLUE2Manager"),
        ("GLUE2EndpointInterfaceName: i\n", ""),
        ("https://h.grid:443/x", "nowhere"),
    ],
)
@pytest.mark.parametrize(("first", "second"), [("VO:cms", "VO:zulu"), ("VO:zulu", "VO:cms")])
def test_what_is_left_of_a_queue_in_both_trees_admits_whom_both_admit(
    was: str, becomes: str, first: str, second: str
) -> None:
    old = f"{CE}{RULES}: {first}\n\n".replace("c:1/cream-slurm-q", "h.grid:443/i-slurm-q")
    new = SHARES.partition("dn: GLUE2ShareID=b")[0].replace("VO:cms", second)
    assert was in new
    assert admitted(ldif(old + new)) == 0
    assert admitted(ldif(old + new.replace(was, becomes))) == 0


def test_a_share_that_lost_all_but_its_name_closes_the_queues_of_its_host() -> None:
    """At several endpoints it stands apart at each, and the host is the same at all."""
    old = f"{CE}{RULES}: VO:cms\n\n".replace("c:1/cream-slurm-q", "h.grid:443/i-slurm-q")
    new = SHARES.partition("dn: GLUE2ShareID=b")[0].replace("VO:cms", "VO:zulu")
    endpoint = new[new.index("dn: GLUE2EndpointID") : new.index("dn: GLUE2ShareID")]
    endpoint = endpoint.replace("GLUE2EndpointID=e", "GLUE2EndpointID=f").replace(":443", ":444")
    new = new.replace("ForeignKey: e", "ForeignKey: e\nGLUE2ShareEndpointForeignKey: f") + "\n"
    named = "objectClass: GLUE2ComputingShare\nGLUE2ShareID: a\nGLUE2ShareServiceForeignKey: s"
    cut = new.replace("objectClass: GLUE2ComputingShare", f"\n{named}")
    for text in (new, cut):
        assert admitted(ldif(old + text + endpoint)) == 0


@pytest.mark.parametrize(("place", "admits"), [("Here", 0), ("There", 1)])
def test_a_share_without_id_says_nothing_of_other_sites(place: str, admits: int) -> None:
    """Only sites that both trees know by one id are known to differ."""
    sites = "".join(
        f"dn: GlueSiteUniqueID={name},o=grid\nobjectClass: GlueSite\nGlueSiteUniqueID: {name}\n\n"
        f"dn: GLUE2DomainID={name},o=glue\nobjectClass: GLUE2AdminDomain\n"
        f"GLUE2DomainID: {name}\n\n"
        for name in ("Here", "There")
    )
    cluster = "dn: GlueClusterUniqueID=k,o=grid\nobjectClass: GlueCluster\nGlueClusterUniqueID: k\n"
    cluster += "GlueForeignKey: GlueSiteUniqueID=Here\n\n"
    old = f"{CE}{RULES}: VO:cms\nGlueForeignKey: GlueClusterUniqueID=k\n\n"
    new = SHARES.partition("dn: GLUE2ShareID=b")[0].replace("VO:cms", "VO:zulu")
    new = new.replace("https://h.grid:443/x", "nowhere")
    key = f"objectClass: GLUE2ComputingService\nGLUE2ServiceAdminDomainForeignKey: {place}"
    new = new.replace("objectClass: GLUE2ComputingService", key)
    assert admitted(ldif(sites + cluster + old + new)) == admits


def republished(found: glue.Glue, version: Literal["1.3", "2.0", "both"]) -> glue.Glue:
    text = io.StringIO()
    glue.write_ldif(found, text, version=version)
    return ldif(text.getvalue())


def test_a_share_at_two_endpoints_is_published_with_what_each_admits() -> None:
    place = "GLUE2ServiceID=s,o=glue"
    ends = "".join(
        f"""
dn: GLUE2EndpointID=e{n},{place}
objectClass: GLUE2ComputingEndpoint
GLUE2EndpointURL: https://h{n}.grid:443/x
GLUE2EndpointInterfaceName: i

dn: GLUE2PolicyID=p{n},GLUE2EndpointID=e{n},{place}
objectClass: GLUE2AccessPolicy
GLUE2PolicyRule: VO:cms
GLUE2PolicyRule: {rule}
"""
        for n, rule in enumerate(("VO:atlas", "DENY:VO:cms"))
    )
    one_end = SHARES.partition("dn: GLUE2EndpointID")[0] + ends.lstrip("\n")
    found = ldif(f"{one_end}\ndn: GLUE2ShareID=a,{place}\nobjectClass: GLUE2ComputingShare\n")
    for each in (found, republished(found, "2.0")):
        hosts = {ad.eval("GlueCEInfoHostName"): ad.eval(RULES) for ad in each.computing_elements()}
        assert hosts == {
            "h0.grid": ["VO:cms", "VO:atlas"],
            "h1.grid": ["VO:cms", "DENY:VO:cms", "DENY:/cms/*"],
        }
        assert admitted(each) == 1


@pytest.mark.parametrize("name", ["b\u00e9", "\u00a0"])
def test_a_view_that_cannot_be_published_denies_for_its_queue(name: str) -> None:
    queue = f"{CE}{RULES}: VO:cms\n\n"
    view = f"GlueVOViewLocalID: {name}\n{RULES}: DENY:VO:cms\nGlueChunkKey: GlueCEUniqueID="
    found = ldif(
        f"{queue}dn: GlueVOViewLocalID=b,GlueCEUniqueID=c:1/cream-slurm-q,o=grid\n"
        f"objectClass: GlueVOView\n{view}c:1/cream-slurm-q\n".replace(
            "LocalID=b", f"LocalID={name}"
        )
    )
    assert admitted(found) == admitted(republished(found, "1.3")) == 0


def test_a_denial_that_a_directory_cannot_hold_denies_everybody() -> None:
    [queue] = parse_ads('[ CEid = "c:1/cream-slurm-q" ]')
    queue[RULES] = ["VO:cms", "DENY:/O=grid/CN=Ad\u00e0"]
    text = io.StringIO()
    glue.write_ldif([queue], text, version="1.3")
    assert admitted(ldif(text.getvalue())) == 0


def test_many_shares_without_ids_agree_in_linear_time() -> None:
    """Denials of many are one, so that what each queue repeats stays small."""
    place = "GLUE2ServiceID=s,o=glue"
    text = f"dn: {place}\nobjectClass: GLUE2ComputingService\n\n"
    for n in range(300):
        dn = f"GLUE2ShareID=h{n},{place}"
        text += (
            f"dn: {dn}\nobjectClass: GLUE2ComputingShare\nGLUE2ComputingShareMappingQueue: q\n\n"
        )
        text += f"dn: GLUE2PolicyID=p,{dn}\nobjectClass: GLUE2MappingPolicy\n"
        text += f"GLUE2PolicyRule: VO:cms\nGLUE2PolicyRule: DENY:VO:v{n}\n\n"
    found = ldif(f"{CE}{RULES}: VO:cms\n\n{text}")
    [queue] = [ad for ad in found.computing_elements() if "GLUE2" not in ad]
    assert queue.eval(RULES) == ["VO:cms", "DENY:ALL"]


def _services(number: int, *, shares: int, endpoints: int = 1, policies: int = 0) -> str:
    """Services whose shares meet all endpoints, of which the last policy denies."""
    text = ""
    for v in range(number):
        place = f"GLUE2ServiceID=s{v},o=glue"
        text += f"dn: {place}\nobjectClass: GLUE2ComputingService\n\n"
        text += f"dn: GLUE2ManagerID=m,{place}\nobjectClass: GLUE2ComputingManager\n"
        text += "GLUE2ManagerProductName: slurm\n\n"
        for e in range(endpoints):
            dn = f"GLUE2EndpointID=e{e:02},{place}"
            text += f"dn: {dn}\nobjectClass: GLUE2ComputingEndpoint\n"
            text += (
                f"GLUE2EndpointURL: https://h{v}{e}.grid:443/x\nGLUE2EndpointInterfaceName: i\n\n"
            )
            for k in range(policies):
                rule = "DENY:VO:cms" if k == policies - 1 else "VO:cms"
                text += f"dn: GLUE2PolicyID=p{k:04},{dn}\nobjectClass: GLUE2AccessPolicy\n"
                text += f"GLUE2PolicyRule: {rule}\n\n"
        for s in range(shares):
            dn = f"GLUE2ShareID=q{s},{place}"
            text += f"dn: {dn}\nobjectClass: GLUE2ComputingShare\n"
            text += f"GLUE2ComputingShareMappingQueue: q{s}\n\n"
            if not policies:
                text += f"dn: GLUE2PolicyID=p,{dn}\nobjectClass: GLUE2MappingPolicy\n"
                text += "GLUE2PolicyRule: VO:zulu\n\n"
    return text


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a small description goes beyond."""
    few = attrs.evolve(LIMITS, links=20, links_each=0, queues=6, repeated=0)
    for module in (link, adrift, agreement, pairs):
        monkeypatch.setattr(module, "LIMITS", few)


@pytest.mark.usefixtures("narrow")
def test_a_policy_beyond_the_bound_of_links_might_deny() -> None:
    found = ldif(_services(2, shares=2, policies=9))
    assert "link.too-many" in rules_of(found)
    assert admitted(found) == 0


VIEW = """dn: GLUE2ShareID=z,GLUE2ServiceID=s0,o=glue
objectClass: GLUE2ComputingShare
GLUE2ComputingShareMappingQueue: q0
GLUE2EntityOtherInfo: VOView=cms

dn: GLUE2PolicyID=p,GLUE2ShareID=z,GLUE2ServiceID=s0,o=glue
objectClass: GLUE2MappingPolicy
GLUE2PolicyRule: VO:cms
GLUE2PolicyRule: DENY:VO:zulu

"""


@pytest.mark.usefixtures("narrow")
def test_a_view_beyond_the_bound_of_queues_might_deny() -> None:
    found = ldif(_services(1, shares=7) + VIEW)
    assert "link.too-many" in rules_of(found)
    assert admitted(found, ZULU) == 0


@pytest.mark.usefixtures("narrow")
def test_a_share_beyond_the_bound_of_queues_restricts_its_queue_in_the_other_tree() -> None:
    old = f"{CE}{RULES}: VO:cms\n\n".replace("c:1/cream-slurm-q", "h00.grid:443/i-slurm-q9")
    found = ldif(old + _services(1, shares=10))
    assert "link.too-many" in rules_of(found)
    assert admitted(found) == 0


def test_values_that_queues_repeat_beyond_the_bound_might_deny(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link, "LIMITS", attrs.evolve(LIMITS, taken=20, taken_each=0))
    found = ldif(_services(1, shares=7) + VIEW)
    assert "link.too-many" in rules_of(found)
    assert admitted(found, ZULU) == 0


@pytest.mark.parametrize("mark", ["VOView=atlas", "VOViewatlas"])
def test_a_view_of_a_queue_of_unknown_system_is_denied_what_the_queue_denies(mark: str) -> None:
    lost = SHARES.replace("ProductName: slurm", "ProductName:").replace("VOView=atlas", mark)
    text = lost.replace("VO:cms", "DENY:VO:cms", 1).replace("VO:atlas\nGLUE2PolicyRule: DENY:", "")
    assert admitted(ldif(text.replace("DENY:", ""))) > 0
    assert admitted(ldif(text)) == 0
