"""Damage never takes a denial away: what is lost may have been a restriction.

Each case is a dump and the same dump damaged. No queue of the damaged one may take a job that it
refused before, and a finding says what was damaged.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import matchmaker as mm

JOBS = {
    vo: mm.parse_ad(
        f'[ VirtualOrganisation = "{vo}"; FQAN = "/{vo}"; Requirements = true; Rank = 1 ]'
    )
    for vo in ("cms", "atlas")
}
Case = tuple[str, str, str]

RULE = "GlueCEAccessControlBaseRule"
QUEUE = f"""dn: GlueCEUniqueID=h:1/jm-pbs-q,Mds-Vo-name=s,o=grid
objectClass: GlueCE
GlueCEUniqueID: h:1/jm-pbs-q
{RULE}: VO:cms
{RULE}: VO:atlas

"""
VIEW = f"""dn: GlueVOViewLocalID=v,GlueCEUniqueID=h:1/jm-pbs-q,Mds-Vo-name=s,o=grid
changetype: add
objectClass: GlueVOView
GlueVOViewLocalID: v
{RULE}: DENY:VO:atlas

"""


def old_cases() -> Iterator[Case]:
    whole = QUEUE + VIEW

    def case(name: str, was: str, becomes: str) -> Case:
        assert was in VIEW
        return name, whole, QUEUE + VIEW.replace(was, becomes, 1)

    yield case("the rule folded into the line before", f"\n{RULE}", f"\n {RULE[1:]}")
    yield case("the rule joined to the line before", f"\n{RULE}", RULE)
    yield case("an unknown change", ": add", ": adx")
    yield case("a change", ": add", ": modify")
    yield case("the view's name without its first comma", "v,GlueCE", "vGlueCE")
    yield case("the view's name without its second comma", "q,Mds", "qMds")
    for other in ("GlueSA", "GlueSE", "GlueSite", "GLUE2Benchmark", "GLUE2StorageShare"):
        yield case(f"a view of class {other}", "objectClass: GlueVOView", f"objectClass: {other}")
    yield case("a denial that ends in a backslash", "DENY:VO:atlas", "DENY:/atlas \\\\")
    yield case("a queue and a place that do not exist", "q,Mds-Vo-name=s", "x,Mds-Vo-name=x")
    yield case("an unreadable name", "h:1/jm-pbs-q,Mds", "h:1/jm\0,,pbs-q,Mds")
    nameless = f"\n{RULE}: DENY:VO:atlas\nGlueChunkKey: GlueCEUniqueID=h:1/jm-pbs-x\n"
    yield "rules of a lost view", whole, QUEUE + VIEW[: VIEW.index(RULE)] + nameless
    far = QUEUE.replace("h:1/", "i:1/")
    yield (
        "rules of a lost view, a queue further on",
        VIEW + far,
        VIEW[: VIEW.index(RULE)] + nameless + "\n" + "dn: o=a\n\n" + far,
    )
    keyed = VIEW.rstrip("\n") + "\nGlueChunkKey: GlueCEUniqueID=h:1/jm-pbs-q\n\n"
    other = keyed.replace("h:1/", "i:1/").replace("=v,", "=w,").replace(": v\n", ": w\n")
    lost = keyed.replace("DENY:VO:atlas", "VO:cms").replace("dn: ", "dn ")
    yield (
        "two views whose names are lost",
        far + QUEUE + other,
        far + QUEUE + lost + other.replace("dn: ", "dn "),
    )
    closed = QUEUE.replace(f"{RULE}: VO:atlas\n", "")
    more = f"objectClass: GlueCE\n{RULE}: VO:atlas\n"
    yield "two queues in one entry", closed, closed.rstrip("\n") + "\n" + more
    named = closed.replace("ID: h:1/jm-pbs-q", "ID: h:1/jm-pbs-é")
    again = QUEUE.replace("Mds-Vo-name=s", "Mds-Vo-name=t")
    yield "a queue twice, once with two ids", closed, named + again
    # The queue under another name has every right to admit cms, if that were its name.
    renamed = QUEUE.replace("jm-", "j\tm-")
    yield "a tab in the name of a queue", closed, closed + renamed


def service(
    ident: str = "S", *, endpoint: str = "VO:cms", share: str = "VO:cms VO:atlas", more: str = ""
) -> str:
    """A service with one share and one endpoint, each with a policy."""
    place = f"GLUE2ServiceID={ident},o=glue"
    rules = "".join(f"GLUE2PolicyRule: {rule}\n" for rule in share.split())
    return f"""dn: {place}
objectClass: GLUE2ComputingService
GLUE2ServiceID: {ident}

dn: GLUE2EndpointID=e,{place}
objectClass: GLUE2ComputingEndpoint
GLUE2EndpointID: e
GLUE2EndpointCapability: executionmanagement.jobexecution
GLUE2EndpointURL: https://h.grid:443/arex
GLUE2EndpointInterfaceName: org.nordugrid.arcrest

dn: GLUE2PolicyID=p,GLUE2EndpointID=e,{place}
objectClass: GLUE2AccessPolicy
GLUE2PolicyID: p
GLUE2PolicyRule: {endpoint}

dn: GLUE2ShareID=s,{place}
objectClass: GLUE2ComputingShare
GLUE2ShareID: s
GLUE2ComputingShareMappingQueue: q
{more}
dn: GLUE2PolicyID=m,GLUE2ShareID=s,{place}
objectClass: GLUE2MappingPolicy
GLUE2PolicyID: m
{rules}
"""


def new_cases() -> Iterator[Case]:
    whole = service()

    def case(name: str, was: str, becomes: str, whole: str = whole) -> Case:
        assert was in whole
        return name, whole, whole.replace(was, becomes)

    yield case("an endpoint's capability", "jobexecution", "jobexecutjon")
    yield case("an endpoint's class", "GLUE2ComputingEndpoint", "GLUE2Endpoint")
    key = "GLUE2EndpointID: e\nGLUE2EndpointServiceForeignKey: X\n"
    yield case("an endpoint of a service that does not exist", "GLUE2EndpointID: e\n", key)
    for was in ("GLUE2MappingPolicy", "GLUE2AccessPolicy"):
        for other in ("AccessPolicy", "MappingPolicy", "Benchmark", "StorageShare", "AdminDomain"):
            both = service(endpoint="VO:cms", share="VO:cms")
            yield case(f"a {was} of class {other}", was, f"GLUE2{other}", both)
    denied = service(endpoint="ALL", share="VO:cms VO:atlas")
    more = denied[denied.index("dn: GLUE2PolicyID=m") :].replace("VO:cms", "DENY:VO:atlas", 1)
    more = more.replace("GLUE2PolicyRule: VO:atlas\n", "").replace("PolicyID=m", "PolicyID=n")
    more = more.replace("PolicyID: m", "PolicyID: n")
    for other in ("GlueSA", "GLUE2Benchmark", "GLUE2StorageShare", "GLUE2ComputingService"):
        yield (
            f"a denial of class {other}",
            denied + more,
            denied + more.replace("GLUE2MappingPolicy", other),
        )
    two = service(endpoint="ALL", share="VO:cms")
    second = two[two.index("dn: GLUE2ShareID") : two.index("dn: GLUE2PolicyID=m")]
    two += second.replace("=s,", "=t,").replace("ID: s", "ID: t").replace("Queue: q", "Queue: r")
    at = two.index("GLUE2ComputingShare\n")
    for other in ("StorageShare", "ComputingManager", "Share"):
        changed = two[:at] + two[at:].replace("GLUE2ComputingShare\n", f"GLUE2{other}\n", 1)
        yield f"a share of class {other}", two, changed
    monitor = whole[whole.index("dn: GLUE2EndpointID") : whole.index("dn: GLUE2ShareID")]
    monitor = monitor.replace("EndpointID=e", "EndpointID=i").replace("ID: e", "ID: i")
    monitor = monitor.replace("Rule: VO:cms", "Rule: ALL").replace(":443", ":444")
    monitor = monitor.replace("executionmanagement.jobexecution", "information.monitoring")
    named = "GLUE2EndpointCapability: information.monitoring"
    for becomes in (
        "GLUE2EndpointCapability:",
        "GLUE2EndpointCapability: unset",
        "GLUE2EntityOtherInfo: information.monitoring",
    ):
        yield case(f"a monitor's {becomes}", named, becomes, whole + monitor)
    marked = service(more="GLUE2EntityOtherInfo: CEid=h.grid:443/arcrest-pbs-q\n")
    open_ = service("T", endpoint="ALL", more="GLUE2EntityOtherInfo: CEid=h.grid:443/arcrest-pbs-q")
    yield "a queue of two services", marked, marked + open_
    yield "a queue of two services, the first open", marked, open_.replace("=T", "=A") + marked
    both = QUEUE.replace("h:1/jm-pbs-q", "h.grid:443/arcrest-pbs-q")
    yield "a queue of three descriptions", both + marked, both + marked + open_
    first = marked[marked.index("dn: GLUE2EndpointID") : marked.index("dn: GLUE2ShareID")]
    second = first.replace("ID=e", "ID=f").replace("ID: e", "ID: f").replace("VO:cms", "ALL")
    keys = "".join(f"GLUE2ComputingShareComputingEndpointForeignKey: {e}\n" for e in "ef")
    two = (
        marked.replace("CEid=", f"CEid=h.grid:443/arcrest-pbs-q\n{keys}GLUE2EntityName: ") + second
    )
    far = second.replace("/h.grid:443", "/i.grid:443")
    yield (
        "an endpoint that takes no jobs any more, and one that lost its address",
        marked + far,
        marked.replace(
            "Capability: ", "Capabé\nGLUE2EndpointCapability: data.x\nGLUE2EntityName: ", 1
        )
        + far.replace(":443/arex", ":4!/arex"),
    )
    for was in ("GLUE2EndpointID: e", "dn: GLUE2EndpointID=e", f"{keys[:-2]}"):
        yield case(f"one of the endpoints of a queue, {was[:20]}", was, was[:-1] + "x", two)
    for name in ("GlueCEUniqueID: h", "dn: GlueCEUniqueID=h"):
        closed = both.replace("Rule: VO:atlas", "Rule: VO:cms")
        broken = closed.replace(name, name.replace("h", "x"))
        yield "a queue of both trees, with two ids in one", closed + open_, broken + open_
    policy = """dn: GLUE2PolicyID=m,o=glue
objectClass: GLUE2MappingPolicy
GLUE2PolicyID: m
GLUE2MappingPolicyShareForeignKey: s
GLUE2PolicyRule: VO:cms
GLUE2PolicyRule: VO:atlas

"""
    narrow = service(endpoint="ALL", share="VO:cms")
    yield "a policy twice, once in no service", narrow, narrow + policy
    lost = policy.replace("m,o=glue", "m,GLUE2ShareID=s,GLUE2ServiceIX=S,o=glue")
    yield "a policy twice, once in an unreadable place", narrow, narrow + lost
    change = "ID: m\nchangetype: modify\nGLUéce: "
    yield case("a policy that became a change", "ID: m\nGLUE2PolicyRule: ", change, narrow)
    share = narrow[narrow.index("dn: GLUE2ShareID") : narrow.index("dn: GLUE2PolicyID=m")]
    again = share.replace("GLUE2ServiceID=S,", "").rstrip("\n")
    again += "\nGLUE2ShareServiceForeignKey: S\n\n"
    bound = narrow.replace("Queue: q\n", "Queue: q\nGLUE2ShareEndpointForeignKey: x\n", 1)
    yield "a share twice, once unbound and in no service", bound, bound + again
    unnamed = "\n\n" + service("T", endpoint="ALL").replace("T,o=glue\n", "T,o=glue\n\n", 1)
    broken = (narrow + unnamed).replace("ShareID=s,GLUE2ServiceID", "ShareID=s,GLUE2SeviceID")
    yield "policies in no service, and a service without a name", narrow, broken
    shares = service(endpoint="ALL", share="VO:cms").rstrip("\n")
    second = shares[shares.index("dn: GLUE2ShareID") :]
    second = second.replace("ShareID=s", "ShareID=t").replace("ShareID: s", "ShareID: t")
    second = second.replace("Queue: q", "Queue: r").replace("VO:cms", "VO:atlas")
    manager = "dn: GLUE2ManagerID=g,GLUE2ServiceID=S,o=glue\nobjectClass: GLUE2ComputingManager\n"
    whole = f"{shares}\n\n{second}\n\n{manager}GLUE2ManagerProductName: slurm\n"
    yield case(
        "a share of two queues",
        "Queue: r\n",
        "Queue: q\nGLUE2ComputingShareMappingQueue: r\n",
        whole,
    )


def flat() -> dict[str, list[dict[str, Any]]]:
    """A document as ipf publishes it: a list for each class."""
    return {
        "ComputingService": [
            {"ID": "S", "Associations": {"ComputingEndpointID": ["e"], "ComputingShareID": ["s"]}}
        ],
        "ComputingEndpoint": [
            {
                "ID": "e",
                "URL": "https://h.g:443/x",
                "InterfaceName": "arcrest",
                "Capability": ["executionmanagement.jobexecution"],
            }
        ],
        "AccessPolicy": [
            {"ID": "p", "Rule": ["VO:cms"], "Associations": {"ComputingEndpointID": "e"}}
        ],
        "ComputingShare": [{"ID": "s", "MappingQueue": "q"}],
        "MappingPolicy": [
            {
                "ID": "m",
                "Rule": ["VO:cms", "VO:atlas"],
                "Associations": {"ComputingShareID": "s"},
            }
        ],
    }


def json_cases() -> Iterator[Case]:
    text = json.dumps(flat())

    def case(name: str, was: str, becomes: str, whole: str = text) -> Case:
        assert was in whole
        return name, whole, whole.replace(was, becomes)

    yield case(
        "another endpoint's id", '"ComputingEndpointID": ["e"]', '"ComputingEndpointID": ["x"]'
    )
    yield case("a misspelt association", '"ComputingEndpointID": [', '"ComputingEndpoinID": [')
    yield case("misspelt policies of endpoints", "AccessPolicy", "AccessPolicx")
    yield case("an endpoint's capability", "jobexecution", "jobexecutiox")
    yield case("misspelt endpoints", '"ComputingEndpoint"', '"ComputingEndpoinx"')
    denied = flat()
    denied["AccessPolicy"][0]["Rule"] = ["ALL"]
    denied["MappingPolicy"][0]["Rule"] = ["VO:cms", "VO:atlas", "DENY:VO:atlas"]
    whole = json.dumps(denied)
    yield case("misspelt policies of shares", "MappingPolicy", "MappingPolicx", whole)
    yield case("nested rules", '"DENY:VO:atlas"', '["VO:cms", ["DENY:VO:atlas"]]', whole)
    yield case("a rule in a list", '"DENY:VO:atlas"', '["VO:cms", null]', whole)
    yield case("a rule elsewhere", '"Rule": ["VO:cms", "VO:atlas"', '"Rules": ["VO:cms"', whole)
    for key in ("Rule", "rule"):
        for rules in ('"ALL"', '["ALL"]'):
            yield case("a rule twice", '["VO:cms"]', f'["VO:cms"], "{key}": {rules}')
            yield case(
                "a rule twice, the other first",
                '"Rule": ["VO:cms"]',
                f'"{key}": {rules}, "Rule": ["VO:cms"]',
            )
    policy = '{"ID": "r", "Rule": ["ALL"], "Associations": {"ComputingEndpointID": "e"}}'
    yield case(
        "policies twice", '"ComputingShare": [', f'"AccessPolicy": [{policy}], "ComputingShare": ['
    )
    bound = flat()
    bound["ComputingService"][0]["Associations"]["ComputingEndpointID"].append("f")
    bound["ComputingEndpoint"].append({"ID": "f", "URL": "https://h.g:444/", "InterfaceName": "x"})
    bound["AccessPolicy"].append(
        {"ID": "o", "Rule": ["ALL"], "Associations": {"ComputingEndpointID": "f"}}
    )
    bound["ComputingManager"] = [
        {"ID": "g", "ProductName": "slurm", "Associations": {"ComputingServiceID": "S"}}
    ]
    bound["ComputingShare"][0]["Associations"] = {"ComputingEndpointID": "e"}
    whole = json.dumps(bound)
    own = '"Associations": {"ComputingEndpointID": "e"}}], "MappingPolicy"'
    for what in ("null", '""', "{}", "[null]", '["  "]', "[[]]"):
        becomes = own.replace('"e"', what)
        yield case(f"a share's endpoint is {what}", own, becomes, whole)
    yield case("a list of associations", own, own.replace("{", "[{").replace("}}]", "}]}]"), whole)
    yield case("misspelt associations", own, own.replace("Associations", "Associatioms"), whole)
    yield case(
        "associations of another kind",
        own,
        own.replace('{"ComputingEndpointID": "e"}', '"e"'),
        whole,
    )
    endpoint = '{"ID": "e", "AccessPolicy": {"ID": "p", "Rule": "VO:cms"}}'
    share = '{"ID": "s", "MappingPolicy": {"ID": "m", "Rule": ["VO:cms", "VO:atlas"]}}'
    inner = f'"ComputingEndpoint": {endpoint}, "ComputingShare": {share}'
    whole = f'{{"ComputingService": {{"ID": "S", {inner}}}}}'
    yield case("an endpoint whose fields are gone", endpoint, '{"x": ""}', whole)
    narrow, broad = '{"ID": "p", "Rule": "VO:cms"}', '{"ID": "a", "Rule": ["VO:cms", "VO:atlas"]}'
    first = f'{{"ID": "s", "MappingPolicy": {narrow}}}'
    shares = f'"ComputingShare": [{first}, {{"ID": "t"}}]'
    endpoint = f'{{"ID": "e", "AccessPolicy": {broad}}}'
    inner = f'"ComputingEndpoint": {endpoint}, {shares}'
    whole = f'{{"ComputingService": {{"ID": "S", {inner}}}}}'
    for becomes in ("null", '"x"', f"[{first}]", "{}", f"[[{first}]]"):
        yield case(f"a share is {becomes}", first, becomes, whole)
    first = f'{{"ID": "e", "AccessPolicy": {narrow}}}'
    endpoints = f'"ComputingEndpoint": [{first}, {{"ID": "f"}}]'
    inner = f'{endpoints}, "ComputingShare": {{"ID": "s", "MappingPolicy": {broad}}}'
    whole = f'{{"ComputingService": {{"ID": "S", {inner}}}}}'
    for becomes in ("null", '"x"', f"[{first}]", "{}"):
        yield case(f"an endpoint is {becomes}", first, becomes, whole)
    monitor = '{"ID": "i", "Capability": ["information.monitoring"], "AccessPolicy": '
    monitor += '{"ID": "b", "Rule": "ALL"}}'
    whole = whole.replace('{"ID": "f"}', monitor)
    named = '"Capability": ["information.monitoring"]'
    for becomes in (
        '"Capability": [null]',
        '"Capability": [""]',
        '"Capability": null',
        '"Capability": {}',
        '"Capability": "unset"',
        '"Capabilitx": ["information.monitoring"]',
    ):
        yield case(f"a monitor's {becomes}", named, becomes, whole)


XML = """<ComputingService><ID>S</ID>
<ComputingEndpoint><ID>e</ID><URL>https://h.g:443/x</URL><InterfaceName>arcrest</InterfaceName>
<Capability>executionmanagement.jobexecution</Capability>
<AccessPolicy><ID>p</ID><Rule>VO:cms</Rule></AccessPolicy></ComputingEndpoint>
<ComputingEndpoint><ID>f</ID><URL>https://h.g:444/y</URL><InterfaceName>arcrest</InterfaceName>
<AccessPolicy><ID>p</ID><Rule>ALL</Rule></AccessPolicy></ComputingEndpoint>
<ComputingShare><ID>s</ID><MappingQueue>q</MappingQueue>
<MappingPolicy><ID>m</ID><Rule>VO:cms</Rule><Rule>VO:atlas</Rule></MappingPolicy>
<Associations><ComputingEndpointID>e</ComputingEndpointID></Associations></ComputingShare>
<ComputingManager><ID>g</ID><ProductName>slurm</ProductName></ComputingManager>
</ComputingService>"""


def xml_cases() -> Iterator[Case]:
    def case(name: str, was: str, becomes: str, whole: str = XML) -> Case:
        assert was in whole
        return name, whole, whole.replace(was, becomes)

    yield case("an empty association", "ID>e</ComputingE", "ID></ComputingE")
    yield case("a misspelt association", "ComputingEndpointID", "ComputingEndpoinxID")
    yield case("misspelt associations", "Associations", "Associatioms")
    yield case("a capability", "jobexecution", "jobexecutiox")
    yield case("misspelt endpoints", "ComputingEndpoint>", "ComputingEndpoinx>")
    start, end = XML.index("<ComputingEndpoint><ID>f"), XML.index("<ComputingShare>")
    alone = (XML[:start] + XML[end:]).replace(
        "<Associations><ComputingEndpointID>e</ComputingEndpointID></Associations>", ""
    )
    yield case("the capability of the only endpoint", "jobexecution", "jobexecutiox", alone)
    yield case("the only endpoint misspelt", "ComputingEndpoint>", "ComputingEndpoinx>", alone)
    yield case("misspelt policies", "AccessPolicy>", "AccessPolicx>", alone)
    subject = alone.replace("VO:cms</Rule></Acc", "/O=grid/CN=Ada</Rule></Acc")
    yield case("misspelt policies of a subject", "AccessPolicy>", "AccessPolicx>", subject)
    yield case("a policy of endpoints in a share", "MappingPolicy>", "AccessPolicy>", alone)
    broad = alone.replace("VO:cms</Rule></A", "ALL</Rule></A").replace("<Rule>VO:atlas</Rule>", "")
    later = "<ComputingShare><ID>t</ID><MappingQueue>r</MappingQueue></ComputingShare><ComputingM"
    broad = broad.replace("<ComputingM", later, 1)
    yield case("a policy of endpoints in one share", "MappingPolicy>", "AccessPolicy>", broad)
    yield case("a share of storage", "ComputingShare><ID>s", "StorageShare><ID>s", broad)
    beside = """<r><AccessPolicy><ID>p</ID><Rule>DENY:VO:atlas</Rule><Associations>
<ComputingEndpointID>e</ComputingEndpointID></Associations></AccessPolicy>""" + alone.replace(
        "<AccessPolicy><ID>p</ID><Rule>VO:cms", "<AccessPolicy><ID>o</ID><Rule>ALL"
    )
    yield case("a misspelt policy on top", "r><AccessPolicy", "r><AccessPolicx", beside + "</r>")
    denied = alone.replace("VO:cms</Rule></A", "ALL</Rule></A")
    denied = denied.replace("<Rule>VO:cms", "<Rule>DENY:VO:atlas</Rule><Rule>VO:cms")
    for within in ("<b/>", "<b>x</b>", "<Rule/>"):
        yield case(f"{within} within a denial", "DENY:V", f"DENY:{within}V", denied)
    yield case("a denial before a rule", "<Rule>DENY:VO:atlas</Rule>", "DENY:VO:atlas", denied)
    policy = "<AccessPolicy><ID>p</ID><Rule>VO:cms</Rule></AccessPolicy>"
    again = "<AccessPolicy><Rule>ALL</Rule></AccessPolicy>"
    yield case("a policy again, without its id", policy, policy + again, alone)
    yield case("a policy again, without its id, first", policy, again + policy, alone)
    service = alone.replace("VO:cms</Rule></A", "ALL</Rule></A").replace("<ID>S</ID>", "")
    yield "a service again, without its id", f"<r>{alone}</r>", f"<r>{alone}{service}</r>"


CASES = [*old_cases(), *new_cases(), *json_cases(), *xml_cases()]


def admitted(dump: str) -> tuple[dict[str, set[str]], Counter[tuple[str, str, str]]]:
    """The queues that take each job, by id without a view's, and the findings."""
    found = mm.glue.read(io.BytesIO(dump.encode()))
    queues = mm.broker.pool(found)  # each name is there once
    taken = {
        vo: {"/".join(c.name.split("/")[:2]) for c in mm.broker.choose(job, queues).ranked}
        for vo, job in JOBS.items()
    }
    return taken, Counter((i.rule, i.dn, i.message) for i in found.issues)


@pytest.mark.parametrize(
    ("whole", "damaged"),
    [case[1:] for case in CASES],
    ids=[f"{n} {case[0]}" for n, case in enumerate(CASES)],
)
def test_no_queue_takes_a_job_that_it_refused(whole: str, damaged: str) -> None:
    before, findings = admitted(whole)
    try:
        after, more = admitted(damaged)
    except ValueError:
        return
    anywhere = set().union(*before.values())
    for vo in JOBS:
        new = after[vo] - before[vo]
        assert not new & anywhere
        assert not new or before[vo], "a job that no queue took is taken"
    assert more - findings or after == before
