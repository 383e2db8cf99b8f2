"""The rule of access, on small descriptions; `test_providers` has those of real sites."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchmaker import UNDEFINED, ClassAd, Value, broker, glue, parse_ad, parse_ads, parse_expr
from matchmaker.classad.functions.control import access_by
from matchmaker.classad.values import ErrorType, is_error
from matchmaker.glue.access import (
    ALSO,
    RULES,
    Access,
    agreed_queues,
    differ,
    is_rule,
    nobody,
    not_denied,
    of_ad,
    readable,
    required,
    restricted,
    views,
)
from matchmaker.glue.publish import with_one_list
from matchmaker.glue.records import ComputingElement, Values, VOView

CE = "dn: GlueCEUniqueID=c:1/cream-slurm-q,o=grid\nobjectClass: GlueCE\n"
CMS = """[ VirtualOrganisation = "cms"; FQAN = "/cms"; CertificateSubject = "/O=grid/CN=Ada";
    Rank = 1 ]"""
ZULU = '[ VirtualOrganisation = "zulu"; FQAN = "/zulu"; CertificateSubject = "/CN=Z"; Rank = 1 ]'


def admitted(found: glue.Glue, job: str = CMS) -> int:
    """How many queues may take a job."""
    return len(broker.choose(parse_ad(job), found).ranked)


def ldif(text: str) -> glue.Glue:
    return glue.read_ldif(text.split("\n"))


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
        assert rules_of(old) & {"clean.access-rule"} or "DENY" in rules[-1]


def test_a_rule_in_another_charset_or_without_end_is_none() -> None:
    for rule in (b"VO:cms\xff", b"VO:" + b"x" * (1 << 20)):
        dump = f"{CE}{RULES}: VO:cms\n{RULES}: ".encode() + rule + b"\n\n"
        assert admitted(glue.read(io.BytesIO(dump))) == 0


def test_an_entry_of_a_catalogue_twice_admits_whom_both_admit() -> None:
    def rules(*vos: str) -> list[Value]:
        listed = ", ".join(
            f'[ Name = "{name}"; AllowedVOs = {{ {vo} }} ]'
            for name, vo in zip("aA", vos, strict=True)
        )
        ad = f'[ Name = "ce"; OSG_ResourceCatalog = {{ {listed} }} ]'
        [queue] = glue.read_osg(parse_ads(ad)).computing_elements()
        return required(of_ad(queue))

    assert rules('"cms"', '"cms"') == [["VO:cms"]]
    assert rules('"cms"', '"atlas", "ops"') == [["VO:cms"], ["VO:atlas", "VO:ops"]]


def test_two_descriptions_that_differ_admit_whom_both_admit() -> None:
    one, other = f"{CE}{RULES}: VO:cms\n{RULES}: VO:zulu\n\n", f"{CE}{RULES}: VO:zulu\n\n"
    for text in (one + other, other + one):
        found = ldif(text)
        assert (admitted(found), admitted(found, ZULU)) == (0, 1)
        assert {"link.duplicate", "access.conflict"} <= rules_of(found)
    assert admitted(ldif(one + one)) == 1


def test_a_description_without_rules_contradicts_none() -> None:
    """Neither in one source, as an entry twice or in both trees, nor in two."""
    of = "objectClass: GLUE2ComputingEndpoint\n"
    tree = arc(endpoints=1, shares=1).replace(of, f"{of}GLUE2EndpointURL: https://c:1/arex\n")
    tree = f"{tree.rstrip()}\nGLUE2EntityOtherInfo: CEid=c:1/cream-slurm-q\n"
    listed = f"{CE}{RULES}: VO:cms\n"
    for one, other in [(CE, listed), (listed, CE), (CE, tree)]:
        found = ldif(f"{one}\n{other}")
        assert (admitted(found), admitted(found, ZULU)) == (1, 0)
        assert "access.conflict" not in rules_of(found)
        two = broker.merged([("a", ldif(one)), ("b", ldif(other))])
        assert "access.conflict" not in {issue.rule for _, issue in two.issues}


def test_a_queue_whose_views_admit_nobody_has_rules_that_say_so() -> None:
    """It keeps its id, so that another source of the queue does not open it."""
    text = arc(endpoints=1, shares=1, rule="VO:atlas")
    place = "GLUE2ShareID=s0,GLUE2ServiceID=arc,o=glue"
    named = f"dn: {place}\nobjectClass: GLUE2ComputingShare\n"
    assert named in text
    marked = named + "GLUE2EntityOtherInfo: VOView=cms\n"
    policy = f"\ndn: GLUE2PolicyID=m,{place}\nobjectClass: GLUE2MappingPolicy\n"
    text = text.replace(named, marked) + policy + "GLUE2PolicyRule: VO:cms\n"
    found = ldif(text)
    assert [required(of_ad(ad)) for ad in found] == [[["VO:cms"], ["VO:atlas"]]]
    assert admitted(found) == admitted(found, ZULU) == 0


def test_a_document_keeps_every_rule_and_closes_what_it_cannot_read() -> None:
    def read(policy: object) -> glue.Glue:
        endpoint = {"ID": "e", "URL": "https://h:1/x", "AccessPolicy": policy}
        service = {"ID": "s", "ComputingShare": {"ID": "q"}, "ComputingEndpoint": endpoint}
        return glue.read(io.BytesIO(json.dumps({"ComputingService": service}).encode()))

    assert admitted(read({"Rule": ["VO:zulu", "VO:cms"]})) == 1
    assert admitted(read({"Rule": ["VO:cms", "DENY:VO:cms"]})) == 0
    lost: tuple[object, ...] = (None, [None], {"Rule": None}, {"Rule": ["VO:cms", 7]})
    for policy in lost:
        assert admitted(read(policy)) == 0
    # A policy that says nothing leaves it open whom it admits.
    silent: tuple[object, ...] = ({}, {"Rul": ["VO:cms"]})
    for policy in silent:
        assert admitted(read(policy)) == 1
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
    nothing = name in ("xml", "text")
    with pytest.raises(ValueError, match="of no form") if nothing else nullcontext():
        glue.read(io.BytesIO(data), max_size=20_000_000)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("dn: GLUE2ServiceID=other,", "dn: GLUE2ServiceID=lost,"),
        ("\nobjectClass: GLUE2ComputingService\n", "\nobjectClass;x: GLUE2ComputingService\n"),
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


def test_lines_between_an_empty_line_and_a_name_damage_both_entries() -> None:
    first = f"{CE}GlueCEAccessControlBaseRule: VO:cms\n"
    second = first.replace("c:1/", "d:1/")
    lost = "\nGlueCEAccessControlBaseRule: DENY:VO:cms\nGlueCEStateStatus: Production\n"
    assert admitted(ldif(f"{first}\n{second}")) == 2
    assert admitted(ldif(first + lost + second)) == 0


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
            "h1.grid": ["VO:cms", "DENY:VO:cms"],
        }
        assert admitted(each) == 1


@pytest.mark.parametrize("name", ["b\u00e9"])
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


PLACE = "GLUE2ServiceID=arc,o=glue"


def published(*rules: str, of: str = "ShareID=s0", key: str = "", kind: str = "Mapping") -> str:
    """A policy: under what it stands, and what its key names."""
    text = f"dn: GLUE2PolicyID=p,GLUE2{of},{PLACE}\nobjectClass: GLUE2{kind}Policy\n"
    text += "".join(f"GLUE2PolicyRule: {rule}\n" for rule in rules)
    return text + (f"GLUE2{key}\n" if key else "") + "\n"


BARE = arc(endpoints=1, shares=1).partition("dn: GLUE2PolicyID")[0] + (
    f"dn: GLUE2ShareID=s0,{PLACE}\nobjectClass: GLUE2ComputingShare\n\n"
)
"""A share at an endpoint, without a policy."""
SHARE_KEY = "MappingPolicyShareForeignKey: s0"
ENDPOINT_KEY = "AccessPolicyEndpointForeignKey: e0"


def test_a_queue_without_a_rule_is_taken_last_or_left_out() -> None:
    known = f"{CE}{RULES}: VO:cms\n\n"
    osg = '[ Name = "ce"; OSG_ResourceCatalog = { [ Memory = 1 ] } ]'
    for unknown in (ldif(CE), ldif(BARE), glue.read_osg(parse_ads(osg))):
        assert [ad.eval("AccessUnknown") for ad in unknown] == [True]
        assert "access.none" in rules_of(unknown)
        ads = [*unknown, *ldif(known.replace("c:1", "z:1"))]
        job = parse_ad(CMS.replace("Rank = 1", "Rank = TARGET.AccessUnknown is true ? 9 : 1"))
        modes: tuple[tuple[Access, int], ...] = (("known", 1), ("published", 2), ("any", 2))
        for access, names in modes:
            found = broker.choose(job, ads, rules=broker.Rules(access=access)).ranked
            assert len(found) == names
            # By rank alone the unknown queue would be first.
            assert (found[0].ad.eval("AccessUnknown") is True) == (access == "any")
            assert (
                len(broker.choose_many([job], ads, rules=broker.Rules(access=access))[0].names)
                == names
            )
        refused = broker.choose(job, ads, rules=broker.Rules(access="known")).refused
        assert "the queue publishes no rule of access" in refused[0].reason


def test_any_ignores_rules_and_a_job_cannot_ask_for_it() -> None:
    found = ldif(f"{CE}{RULES}: VO:cms\n{RULES}: DENY:VO:zulu\n")
    job = parse_ad(ZULU)
    assert broker.choose(job, found, rules=broker.Rules(access="any")).ranked
    job["IgnoreAccess"] = True
    assert not broker.choose(job, found).ranked
    with pytest.raises(ValueError, match="access is one of known, published, any; not 'all'"):
        broker.Rules(access="all")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policies", "cms", "zulu"),
    [
        ([published("VO:cms")], 1, 0),
        ([published("VO:cms", key=SHARE_KEY)], 1, 0),
        ([published("VO:cms", of="EndpointID=e0", kind="Access")], 1, 0),
        # What the key names goes before the place, and the place is what is left of a lost key.
        ([published("VO:cms", of="ShareID=s0", key=ENDPOINT_KEY, kind="Access")], 1, 0),
        ([published("VO:cms", of="EndpointID=e0", key=SHARE_KEY)], 1, 0),
        ([published("VO:cms", key=SHARE_KEY.replace("s0", "lost"))], 1, 0),
        # Of share and endpoint both must admit, of several policies of one any.
        ([published("VO:cms"), published("VO:zulu", of="EndpointID=e0", kind="Access")], 0, 0),
        ([published("VO:cms"), published("VO:zulu").replace("ID=p", "ID=q")], 1, 1),
        ([published("ALL"), published("VO:cms", of="EndpointID=e0", kind="Access")], 1, 0),
        (
            [
                published("/O=grid/CN=Ada"),
                published("VO:cms", "VO:zulu", of="EndpointID=e0", kind="Access"),
            ],
            1,
            0,
        ),
        # One that cannot be read admits nobody, and others of the same share do as before.
        ([published("VO:cms", "EGEE")], 0, 0),
        ([published("VO:cms", "EGEE"), published("VO:zulu").replace("ID=p", "ID=q")], 0, 1),
        ([published("ALL"), published("EGEE", "DENY:VO:zulu").replace("ID=p", "ID=q")], 1, 0),
        # Denials count wherever they stand.
        ([published("ALL"), published("DENY:VO:CMS", of="EndpointID=e0", kind="Access")], 0, 0),
        ([published("ALL", of="EndpointID=e0", kind="Access"), published("DENY:/cms/*")], 0, 0),
        # Policies of nothing, and of other things, say nothing.
        ([published("VO:zulu", of="ShareID=other"), published("VO:cms")], 1, 0),
    ],
)
def test_what_policies_admit(policies: list[str], cms: int, zulu: int) -> None:
    found = ldif(BARE + "".join(policies))
    assert (admitted(found), admitted(found, ZULU)) == (cms, zulu)


def test_a_share_beside_others_with_policies_is_unknown_without_one() -> None:
    found = ldif(BARE + f"dn: GLUE2ShareID=s1,{PLACE}\nobjectClass: GLUE2ComputingShare\n\n")
    assert admitted(found) == admitted(found, ZULU) == 2
    found = ldif(
        BARE
        + f"dn: GLUE2ShareID=s1,{PLACE}\nobjectClass: GLUE2ComputingShare\n\n"
        + published("VO:cms")
    )
    assert (admitted(found), admitted(found, ZULU)) == (2, 1)


@pytest.mark.parametrize(
    ("key", "ends"),
    [
        ("e", {"e:ac", "e:am"}),
        ("e:am", {"e:am"}),
        ("lost", {"e:ac", "e:am", "ee"}),
        ("", {"e:ac", "e:am", "ee"}),
    ],
)
def test_the_endpoints_of_a_share(key: str, ends: set[str]) -> None:
    """As ARC names them, by the beginning of their ids; without one that is there, by service."""
    text = f"dn: {PLACE}\nobjectClass: GLUE2ComputingService\n\n"
    for name in ("e:ac", "e:am", "ee"):
        text += f"dn: GLUE2EndpointID={name},{PLACE}\nobjectClass: GLUE2ComputingEndpoint\n"
        text += f"GLUE2EndpointURL: https://{name.replace(':', '.')}.grid:443/\n\n"
    text += f"dn: GLUE2ShareID=s0,{PLACE}\nobjectClass: GLUE2ComputingShare\n"
    text += f"GLUE2ShareEndpointForeignKey: {key}\n" if key else ""
    ads = ldif(text).computing_elements()
    hosts = {f"{name.replace(':', '.')}.grid" for name in ends}
    assert {ad.eval("GlueCEInfoHostName") for ad in ads} == hosts


def test_an_unknown_capability_changes_nothing() -> None:
    text = arc(endpoints=2, shares=1)
    said = "objectClass: GLUE2ComputingEndpoint\nGLUE2EndpointCapability: {}\n"
    text = text.replace(
        said.partition("GLUE2Endp")[0], said.format("executionmanagement.jobcreation")
    )
    odd = "information.query.xpath1\nGLUE2EndpointCapability: x"
    assert admitted(ldif(text)) == 2
    assert admitted(ldif(text.replace("executionmanagement.jobcreation", odd, 1))) == 1


IN_CMS = 'VirtualOrganisation = "cms"'
IS_ADA = 'CertificateSubject = "/O=grid/CN=Ada"'


@pytest.mark.parametrize(
    ("rules", "who", "admits"),
    [
        (["VO:cms", "DENY:VO:ATLAS"], 'FQAN = "/atlas"; VirtualOrganisation = "cms"', False),
        (["VO:CMS"], 'FQAN = "/cms/Role=pilot"', True),
        (["VOMS:/CMS/Role=Pilot"], 'FQAN = { "/cms/role=PILOT" }', True),
        (["VO:cms", "DENY:/CMS/Role=bad"], f'{IN_CMS}; FQAN = "/cms/Role=BAD"', False),
        (["VO:cms", "DENY:/cms/Role=bad"], f'{IN_CMS}; FQAN = "/cms,/cms/Role=bad"', False),
        (["VO:cms", "DENY:/cms/Role=bad"], f'{IN_CMS}; FQAN = {{ "/cms", 5 }}', False),
        (["VO:cms", "DENY:VO:atlas"], f'{IN_CMS}; FQAN = "cms"', False),
        (["VO:cms", "DENY:/O=grid/CN=Eve"], f'{IN_CMS}; FQAN = "cms"', True),
        (["VOMS:/cms*"], 'FQAN = "/cms,/cms/Role=bad"', False),
        (["/cms/Role=pilot"], 'FQAN = "/cms/Role=Pilot"', True),
        (["/cms"], IS_ADA, False),
        (["DENY:VO:cms"], 'VirtualOrganisation = "atlas"', False),
    ],
)  # fmt: skip
def test_whom_a_list_of_rules_admits(rules: list[str], who: str, admits: bool) -> None:
    [queue] = parse_ads('[ CEid = "q" ]')
    queue[RULES] = list[Value](rules)
    job = parse_ad(f"[ {who}; Requirements = true; Rank = 1 ]")
    assert bool(broker.choose(job, [queue]).ranked) is admits


NAMES = ("VO:a", "VO:b", "VOMS:/a/Role=x", "VOMS:/a/Role=y", "/CN=A", "/CN=B", "ALL", "/a/Role=y")
LISTS = st.one_of(
    st.none(),
    st.lists(st.sampled_from((*NAMES, *(f"DENY:{name}" for name in NAMES))), max_size=5),
)
PEOPLE = [
    (dn, vo, fqan)
    for dn in ("/CN=A", "/CN=B", UNDEFINED)
    for vo in ("a", "B", UNDEFINED)
    for fqan in ("/a", ["/a", "/a/Role=x"], ["/a/Role=x", "/a/Role=y"], "/b", "/a,/b", UNDEFINED)
]
Person = tuple[Any, Any, Any]
JOBS = [
    ClassAd(
        {"CertificateSubject": dn, "VirtualOrganisation": vo, "FQAN": fqan}
        | {"Requirements": True, "Rank": 1}
    )
    for dn, vo, fqan in PEOPLE[::3]
]


def admit(values: Values, person: Person) -> bool:
    lists = [values.get(name, UNDEFINED) for name in (RULES, ALSO)]
    return not required(values) or access_by(lists[0], *person, lists[1]) is True


def own(rules: list[str] | None) -> Values:
    return {} if rules is None else {RULES: list[Value](rules)}


@given(LISTS, st.lists(st.lists(LISTS, max_size=3), max_size=3))
def test_who_is_admitted_by_rules_and_by_one_of_each_others(
    rules: list[str] | None, others: list[list[list[str] | None]]
) -> None:
    made = own(rules)
    for ways in others:
        made = restricted(made, [required(own(way)) for way in ways])
    for person in PEOPLE:
        each = [[own(way) for way in ways if way is not None] for ways in others]
        assert admit(made, person) is (
            admit(own(rules), person)
            and all(any(admit(way, person) for way in ways) for ways in each if ways)
        )
        # One list in place of them, as for publishing, admits nobody else.
        assert not required(made) or not admit(with_one_list(made), person) or admit(made, person)


def ads(source: Sequence[list[str] | None]) -> list[ClassAd]:
    """A queue as a source has it: an ad for each of its views."""
    found = []
    for number, rules in enumerate(source):
        ad = ClassAd({"CEid": f"q/{number}", "GlueCEUniqueID": "q", **own(rules)})
        found.append(ad)
    return found


@given(st.lists(st.lists(LISTS, min_size=1, max_size=3), min_size=2, max_size=3))
@settings(max_examples=20, deadline=None)
def test_merged_admits_then_every_source_that_publishes_rules_admits(
    sources: list[list[list[str] | None]],
) -> None:
    """The property, with each source's rules divided among views in its own way."""
    merged = broker.merged((str(n), ads(source)) for n, source in enumerate(sources))
    for job in JOBS:
        each = [bool(broker.choose(job, ads(source)).ranked) for source in sources]
        found = bool(broker.choose(job, merged).ranked)
        # A view without rules may admit anybody, and says nothing of the others.
        assert not found or all(
            admits or None in source for admits, source in zip(each, sources, strict=True)
        )
        assert found or not all(each) or any(None in source for source in sources)


def test_lists_of_lists_are_no_trap() -> None:
    """As deep as a text may nest; what is no list of rules admits nobody."""
    deep = "{" * 60 + '"VO:a"' + "}" * 60
    who = 'undefined, "a", undefined'
    assert parse_expr(f"accessBy({deep}, {who})").eval() is True
    assert parse_expr(f"accessBy({{}}, {who}, {deep})").eval() is UNDEFINED
    for wrong in ('"VO:a"', '{ "VO:a" }, ' + who + ', { "VO:a" }', "7"):
        rules, *rest = wrong.split(f", {who}, ")
        also = f", {rest[0]}" if rest else ""
        found = parse_expr(f"accessBy({rules}, {who}{also})").eval()
        assert isinstance(found, ErrorType)


CUT = "dn: GlueCEUniqueID={}:1/cream-slurm-q,o=grid\nobjectClass: GlueCE\n"
CUT += "GlueCEUniqueID: {}:1/cream-slurm-q\nGlueCEAccessControlBaseRule: VO:cms\n"
CUT += "GlueCEAccessControlBaseRule: DENY:VO:zulu\n\n"
ONE = CUT.replace("{}", "c").encode()
TWO = ONE + CUT.replace("{}", "d").encode()


@pytest.mark.parametrize("end", range(len(ONE) + 1, len(TWO) - 1))
def test_a_file_that_was_cut_is_noticed_wherever_it_was_cut(end: int) -> None:
    """By its last line, which has no end, or by an entry of which only the name came."""
    found = glue.read(io.BytesIO(TWO[:end]))
    if not TWO[:end].endswith(b"\n"):
        assert rules_of(found) & {"ldif.no-end", "ldif.partial"}
    if any(issue.partial for issue in found.issues):
        with pytest.raises(ValueError, match="--accept-partial"):
            broker.merged([("a.ldif", found)])
    else:
        # What is cut names another VO, or none.
        assert admitted(found, ZULU) <= (b"AccessControlBaseRule: VO" not in TWO[len(ONE) : end])


def test_a_file_of_whole_lines_is_not_said_to_be_cut() -> None:
    for text in (TWO, TWO[:-1], gzip.compress(TWO)):
        assert not {rule for rule in rules_of(glue.read(io.BytesIO(text))) if "ldif" in rule}


@pytest.mark.parametrize("result", ["4 Size limit exceeded", "3 Time limit exceeded", "0 Success"])
def test_what_ldapsearch_says_of_its_result(result: str) -> None:
    """Saved without -LLL, its output ends in the server's result."""
    text = TWO + f"# search result\nsearch: 2\nresult: {result}\n\n# numEntries: 2\n".encode()
    found = glue.read(io.BytesIO(text))
    said = [(issue.rule, issue.partial) for issue in found.issues if issue.rule.startswith("ldif")]
    if result.startswith("0"):
        assert said == []
        assert len(broker.merged([("a.ldif", found)])) == 2
        return
    assert said == [("ldif.partial", True)]
    with pytest.raises(ValueError, match=f"did not send all: {result}.*--accept-partial"):
        broker.merged([("a.ldif", found)])
    assert len(broker.merged([("a.ldif", found)], accept_partial=True)) == 2


def test_endpoints_of_one_address_are_doors_to_one_queue() -> None:
    """Whom one of them admits may use it, whatever the other says."""
    text = f"dn: {PLACE}\nobjectClass: GLUE2ComputingService\n\n"
    text += f"dn: GLUE2ManagerID=m,{PLACE}\nobjectClass: GLUE2ComputingManager\n"
    text += "GLUE2ManagerProductName: slurm\n\n"
    for name, rule in (("e", "VO:cms"), ("f", "VO:zulu")):
        dn = f"GLUE2EndpointID={name},{PLACE}"
        text += f"dn: {dn}\nobjectClass: GLUE2ComputingEndpoint\n"
        text += "GLUE2EndpointURL: https://h.grid:443/x\nGLUE2EndpointInterfaceName: i\n\n"
        text += published(rule, of=f"EndpointID={name}", kind="Access")
    text += f"dn: GLUE2ShareID=s0,{PLACE}\nobjectClass: GLUE2ComputingShare\n"
    text += "GLUE2ComputingShareMappingQueue: q\n"
    found = ldif(text)
    assert {ad.eval("GlueCEUniqueID") for ad in found} == {"h.grid:443/i-slurm-q"}
    assert (admitted(found), admitted(found, ZULU)) == (1, 1)
    same = ldif(text.replace("VO:zulu", "VO:cms"))
    assert (len(same.computing_elements()), admitted(same), admitted(same, ZULU)) == (1, 1, 0)


@pytest.mark.parametrize(
    "denial",
    ["DENY:VO:cms,atlas", "DENY:VO:/cms", "DENY:VOMS:cms", "DENY:/cms,/cms/Role=bad",
     "DENY://cms/Role=bad", "DENY:VO:*"],
)  # fmt: skip
def test_a_denial_that_names_nobody_cannot_be_read(denial: str) -> None:
    assert readable(["ALL", denial]) == []


@pytest.mark.parametrize("denial", ["DENY:/cms/Role=bad/", "DENY:VOMS:/cms/Role=Bad/"])
def test_a_slash_at_the_end_of_a_denied_role_is_no_part_of_it(denial: str) -> None:
    assert readable(["ALL", denial]) == ["ALL", denial]
    rules: list[Value] = ["ALL", denial]
    assert access_by(rules, UNDEFINED, "cms", "/cms/Role=bad") is False
    assert access_by(rules, UNDEFINED, "cms", "/cms/Role=good") is True


@pytest.mark.parametrize("vo", [["atlas"], 7, True])
def test_a_vo_that_is_no_text_passes_no_denial(vo: Value) -> None:
    assert is_error(access_by(["ALL", "DENY:VO:atlas"], UNDEFINED, vo, UNDEFINED))
    assert is_error(access_by(["ALL", "DENY:/O=grid/CN=Eve"], vo, UNDEFINED, UNDEFINED))
    job = ClassAd(VirtualOrganisation=vo)
    queue = ClassAd({RULES: ["ALL", "DENY:VO:atlas"]})
    assert parse_expr(not_denied("MY", "TARGET.")).eval(job, queue) is not True


def test_rules_that_are_no_list_admit_nobody() -> None:
    assert required({RULES: "VO:cms"}) == [[]]
    assert required({ALSO: "VO:cms"}) == [[]]


@pytest.mark.parametrize("rule", ["VO:cms\\", "VOMS:/cms ", "/O=grid/CN=Ada\\"])
def test_a_rule_that_ends_where_its_line_was_cut_is_none(rule: str) -> None:
    assert is_rule(rule[:-1])
    assert not is_rule(rule)


def test_rules_that_differ_in_case_alone_are_the_same() -> None:
    assert not differ(["VO:CMS"], ["vo:cms "])
    assert differ(["VO:CMS"], ["vo:atlas"])


def test_a_queue_of_which_a_rule_denies_and_another_admits_is_not_closed() -> None:
    assert not nobody(ComputingElement("q", {RULES: ["VO:cms", "DENY:VO:zulu"]}))
    assert nobody(ComputingElement("q", {RULES: ["DENY:VO:zulu"]}))


def test_what_another_description_says_of_a_queue_is_said_of_its_views() -> None:
    first, second = (
        ComputingElement("q", {}, views=(VOView("v", {RULES: [rule]}),))
        for rule in ("VO:cms", "ALL")
    )
    [queue] = agreed_queues([first], [second], list[glue.Issue]().append)
    # Of itself it has no rules, so that nobody uses it without one of its views.
    assert [(view and view.id, required(values)) for view, values in views(queue)] == [
        ("v", [["VO:cms"], ["ALL"]])
    ]


def test_a_queue_with_a_view_that_others_describe_is_used_as_they_say() -> None:
    queue = ComputingElement("q", {ALSO: [["VO:cms"]]}, views=(VOView("v", {RULES: ["VO:zulu"]}),))
    assert [view and view.id for view, _ in views(queue)] == [None, "v"]


def test_the_same_description_twice_changes_nothing() -> None:
    rules: list[Value] = ["VO:cms", "VO:zulu", "DENY:/cms/Role=bad"]
    queue = ComputingElement("q", {RULES: rules}, views=(VOView("v", {RULES: ["VO:zulu"]}),))
    found = list[glue.Issue]()
    assert [*agreed_queues([queue], [queue], found.append)] == [queue]
    assert found == []


@pytest.mark.parametrize(("services", "admits"), [(1, 1), (2, 0)])
def test_a_policy_that_names_a_share_of_another_service(services: int, admits: int) -> None:
    """Where several services have a share of the id, it is of none of them."""
    text = ""
    for number in range(services):
        place = f"GLUE2ServiceID=s{number},o=glue"
        text += f"dn: {place}\nobjectClass: GLUE2ComputingService\n\n"
        text += f"dn: GLUE2ShareID=long,{place}\nobjectClass: GLUE2ComputingShare\n\n"
    text += "dn: GLUE2PolicyID=p,GLUE2ServiceID=other,o=glue\nobjectClass: GLUE2MappingPolicy\n"
    text += "GLUE2PolicyRule: VO:cms\nGLUE2MappingPolicyShareForeignKey: long\n\n"
    found = ldif(text)
    queues = [*map(of_ad, found.computing_elements())]
    assert len(queues) == services
    assert [values.get(RULES) for values in queues] == ([["VO:cms"]] if admits else [None, None])
    assert ("link.dangling" in rules_of(found)) is not bool(admits)
