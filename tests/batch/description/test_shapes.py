"""PBS, Torque, Grid Engine, LSF and HTCondor as they answer at real sites."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from matchmaker._diagnostics import NOTE
from matchmaker.batch.description import Description, DescriptionError, describe, read_description
from matchmaker.classad import UNDEFINED, ClassAd, parse_expr
from tests.batch.description import outputs, shapes
from tests.batch.description.test_description import by_name, described, facts, said

WALL, CPU = "GlueCEPolicyMaxWallClockTime", "GlueCEPolicyMaxCPUTime"
RULES = "GlueCEAccessControlBaseRule"
NOBODY = [ClassAd({"AllowedUsers": []})]


def queues_of(found: Description) -> dict[Any, Any]:
    return {ad.eval("Name"): ad.eval("Queues") for ad in found.nodes}


LISTS = "user_lists {}\nxuser_lists NONE\nsubordinate_list NONE\nprojects NONE\nxprojects NONE\n"
CLUSTER_QUEUES = f"qname a\n{LISTS.format('cms')}\nqname b\n{LISTS.format('NONE')}"
NOTES = ("jobs come to ",)
"""How notes begin, of what is as it should be."""


# --- PBS Pro --------------------------------------------------------------------------------------

ON = {"queue_type": "Execution", "enabled": "True", "started": "True"}


def pbs(nodes: Mapping[str, Any], queues: Mapping[str, Any], *issues: str) -> Description:
    """What is made of vnodes by their resources, and of queues by their attributes."""
    vnodes = {
        name: {"state": "free", **{k: v for k, v in has.items() if k == "queue"},
               "resources_available": {k: v for k, v in has.items() if k != "queue"}}
        for name, has in nodes.items()
    }  # fmt: skip
    texts = [
        ("nodes", json.dumps({"nodes": vnodes})),
        ("queues", json.dumps({"Queue": {name: {**ON, **one} for name, one in queues.items()}})),
    ]
    found = read_description("pbspro", texts)
    assert said(found, *NOTES) == list(issues)
    return found


@pytest.mark.parametrize("resource", ["Qlist", "qlist", "node_class"])
def test_a_resource_is_no_queue_and_a_chunk_asks_for_it(resource: str) -> None:
    found = pbs(
        {
            "both": {"ncpus": 4, resource: "long,short"},
            "long": {"ncpus": 4, resource: "long"},
            "none": {"ncpus": 4},
        },
        {
            "workq": {},
            "longq": {"default_chunk": {resource: "long", "ncpus": 1, "mem": "2gb"}},
            "shortq": {"default_chunk": {resource: "short"}},
        },
    )
    assert queues_of(found) == {
        "both": ["workq", "longq", "shortq"], "long": ["workq", "longq"], "none": ["workq"],
    }  # fmt: skip
    assert by_name(found.queues)["shortq"].eval("GlueCEInfoTotalCPUs") == 4


def test_a_chunk_asks_for_a_boolean() -> None:
    found = pbs(
        {"gpu": {"ncpus": 4, "gpu_node": "True"}, "cpu": {"ncpus": 4, "gpu_node": "False"}},
        {"gpuq": {"default_chunk": {"gpu_node": "true"}}},
    )
    assert queues_of(found) == {"gpu": ["gpuq"], "cpu": []}


def test_vnodes_without_cpus_are_left_out() -> None:
    found = pbs({"natural": {"ncpus": 0, "mem": "64gb"}, "v[0]": {"ncpus": 4}}, {"workq": {}})
    assert list(queues_of(found)) == ["v[0]"]


ROUTED = {
    "feed": {"queue_type": "Route", "route_destinations": "short,long,far@other",
             "state_count": "Queued:0 Running:0 "},
    "short": {"from_route_only": "True", "resources_max": {"walltime": "01:00:00"},
              "state_count": "Queued:2 Running:3 "},
    "long": {"from_route_only": "True", "resources_max": {"walltime": "10:00:00"},
             "state_count": "Queued:1 Running:1 ", "default_chunk": {"Qlist": "long"}},
    "direct": {"state_count": "Queued:0 Running:5 "},
}  # fmt: skip


def test_a_routing_queue_stands_for_those_that_only_it_feeds() -> None:
    nodes = {"n1": {"ncpus": 4, "Qlist": "long"}, "n2": {"ncpus": 8, "queue": "short"},
             "n3": {"ncpus": 2}}  # fmt: skip
    found = pbs(nodes, ROUTED)
    queues = by_name(found.queues)
    assert set(queues) == {"feed", "direct"}
    feed = queues["feed"]
    assert facts(feed, "GlueCEStateRunningJobs", "GlueCEStateWaitingJobs", WALL) == [4, 3, 600]
    assert facts(feed, "GlueCEInfoTotalCPUs", "GlueCEStateStatus") == [12, "Production"]
    assert queues_of(found) == {"n1": ["feed", "direct"], "n2": ["feed"], "n3": ["direct"]}
    [note] = found.issues
    assert (note.severity, note.message) == (
        NOTE,
        "jobs come to short, long from routing queues alone (from_route_only): submit to feed",
    )


ERRORS = [
    # Versions 19 to 23, and the one after them.
    ({"wn9": {"Error": "Unknown node "}}, "saved: node wn9: PBS reports an error: Unknown node"),
    ({"wn9": {"wn9": "Unknown node "}}, "saved: node wn9: PBS reports an error: Unknown node"),
    ({"wn9": {"Mom": "wn9.x"}}, "saved: expected a node with its state, left out 'wn9'"),
]


@pytest.mark.parametrize(("entry", "finding"), ERRORS)
def test_an_error_in_place_of_a_node_is_a_finding(entry: dict[str, Any], finding: str) -> None:
    nodes = json.loads(outputs.PBS_NODES)["nodes"]
    found = read_description("pbspro", [("saved", json.dumps({"nodes": nodes | entry}))])
    assert [ad.eval("Name") for ad in found.nodes] == ["wn1", "wn2"]
    assert said(found) == [finding]
    alone = json.dumps({"nodes": entry})
    with pytest.raises(DescriptionError, match=re.escape(finding.removeprefix("saved: "))):
        read_description("pbspro", [("saved", alone)])


# As pbsnodes of versions 19 to 23 prints it: what C reads as a number has no quotes.
OPENPBS_20 = """\
{
    "timestamp":1763740000,
    "pbs_version":"20.0.1",
    "pbs_server":"pbs",
    "nodes":{
        "wn1":{
            "Mom":"wn1.cnaf.grid",
            "state":"free",
            "comment":0x1f,
            "resources_available":{
                "arch":"linux",
                "mem":"16384000kb",
                "ncpus":8,
                "rack":007,
                "zone":inf
            },
            "resources_assigned":{}
        }
    }
}
"""


def test_numbers_of_c_without_quotes_are_texts() -> None:
    found = read_description("pbspro", [("saved", OPENPBS_20)])
    assert found.issues == ()
    native = ("comment", "resources_available_rack", "resources_available_zone")
    assert facts(found.nodes[0], "Cpus", *(f"Native.{name}" for name in native)) == [
        8, "0x1f", "007", "inf",
    ]  # fmt: skip


RECORDS = {
    "pbspro": "n{}\n     Mom = n{}.x\n     state = free\n     resources_available.ncpus = 4\n\n",
    "torque": "n{}\n     state = free\n     np = 8\n     properties = el9\n\n",
    "sge": f"qname n{{}}\n{LISTS.format('NONE')}calendar NONE\nh_rt 1:0:0\n",
    "htcondor": 'Name = "n{}"\nMyType = "Machine"\nCpus = 4\nMemory = 8000\n\n',
}


@pytest.mark.parametrize(
    ("lrms", "kind", "lost"),
    [("pbspro", "node", "resources_available.ncpus"), ("torque", "node", "properties"),
     ("sge", "queue", "h_rt"), ("htcondor", "slot", "Memory")],
)  # fmt: skip
def test_lines_that_end_within_a_record_are_a_finding(lrms: str, kind: str, lost: str) -> None:
    text = "".join(RECORDS[lrms].replace("{}", str(number)) for number in range(4)).rstrip()
    assert read_description(lrms, [("saved", text)]).issues == ()
    found = read_description(lrms, [("saved", text.rpartition("\n")[0])])
    wanted = f"saved: the output ends within {kind} n3: {lost} was expected, as the others have it"
    assert wanted in said(found)


WRONG_VALUES = [
    ("pbspro", '{"nodes": {"n": {"state": "free", "resources_available": {"ncpus": -4}}}}',
     "node n: resources_available.ncpus='-4': expected a whole number from 0"),
    ("pbspro", '{"nodes": {"n": {"state": "free", "resources_available": {"mem": "much"}}}}',
     "node n: resources_available.mem='much': expected a size such as 16gb"),
    ("pbspro", "n\n    state = free\n    pcpus = four\n",
     "node n: pcpus='four': expected a whole number from 0"),
    ("pbspro", '{"Queue": {"q": {"queue_type": "Execution", "enabled": "True", "max_run": "ten"}}}',
     "queue q: max_run='ten': expected a number, or limits such as [o:PBS_ALL=100]"),
    ("pbspro", ('{"Queue": {"q": {"queue_type": "Execution", "enabled": "True",'
                ' "max_run": "[o:PBS_ALL=-4]"}}}'),
     "queue q: max_run='[o:PBS_ALL=-4]': expected a number, or limits such as [o:PBS_ALL=100]"),
    ("pbspro", ("Queue: q\n    queue_type = Execution\n    enabled = True\n"
                "    resources_max.walltime = long\n"),
     "queue q: resources_max.walltime='long': expected a time such as 24:00:00"),
    ("torque", "<Data><Node><name>n</name><state>free</state><np>x</np></Node></Data>",
     "node n: np='x': expected a whole number from 0"),
    ("torque", "n\n    state = free\n    np = 1\n    status = physmem=12q,loadave=nan\n",
     "node n: status: physmem='12q': expected a size such as 16gb"),
    ("lsf", '{"COMMAND": "bhosts", "RECORDS": [{"HOST_NAME": "n", "MAX": "-4"}]}',
     "host n: max='-4': expected a whole number from 0"),
    ("lsf", '{"COMMAND": "lshosts", "RECORDS": [{"HOST_NAME": "n", "maxmem": "12 sheep"}]}',
     "host n: maxmem='12 sheep': expected a size such as 16gb"),
    ("lsf", '{"COMMAND": "bqueues", "RECORDS": [{"QUEUE_NAME": "q", "RUNLIMIT": "long"}]}',
     "queue q: runlimit='long': expected minutes such as 60.0"),
    ("sge", "<qhost><host name='n'><hostvalue name='num_proc'>x</hostvalue></host></qhost>",
     "host n: num_proc='x': expected a number"),
    ("sge", "<qhost><host name='n'><hostvalue name='mem_total'>1Q</hostvalue></host></qhost>",
     "host n: mem_total='1Q': expected a size such as 16gb"),
    ("sge", ("qname q\nuser_lists NONE\nxuser_lists NONE\nprojects NONE\nxprojects NONE\n"
             "calendar NONE\nh_rt soon\n"),
     "queue q: h_rt='soon': expected a time such as 24:00:00, or INFINITY"),
    ("sge", ("<job_info><queue_info><Queue-List><name>q@n</name><slots_total>-1</slots_total>"
             "</Queue-List></queue_info></job_info>"),
     "queue q@n: slots_total='-1': expected a whole number from 0"),
]  # fmt: skip


@pytest.mark.parametrize(("lrms", "text", "finding"), WRONG_VALUES)
def test_a_value_that_cannot_be_read_is_a_finding(lrms: str, text: str, finding: str) -> None:
    found = read_description(lrms, [("saved", text)])
    assert f"saved: {finding}; it counts as unknown" in said(found)


def test_routes_that_lead_nowhere_or_in_circles() -> None:
    routes = {
        "a": {"queue_type": "Route", "route_destinations": "b"},
        "b": {"queue_type": "Route", "route_destinations": "a,work"},
        "c": {"queue_type": "Route", "route_destinations": "gone"},
        "work": {},
        "unsure": {"from_route_only": "perhaps"},
    }
    said = "queues: queue c admits nobody: no destination of it is known"
    found = pbs({"n": {"ncpus": 1}}, routes, said)
    assert queues_of(found) == {"n": ["a", "b", "work"]}
    assert by_name(found.queues)["c"].eval("LocalAccess") == NOBODY
    assert "unsure" not in by_name(found.queues)


def test_many_ways_through_routing_queues_are_followed_once() -> None:
    layers = 50
    routes = {
        f"{side}{n}": {"queue_type": "Route", "route_destinations": f"a{n + 1},b{n + 1}"}
        for n in range(layers)
        for side in "ab"
    }
    ends = {f"{side}{layers}": {"from_route_only": "True"} for side in "ab"}
    found = pbs({"n": {"ncpus": 1}}, {**routes, **ends})
    assert queues_of(found) == {"n": list(routes)}


ACLS = [
    ({"acl_users": "ada"}, [{"AllowedUsers": ["ada"]}]),
    ({"acl_hosts": "login", "acl_host_enable": "True"}, None),
    ({"acl_user_enable": "False", "acl_users": "ada"}, None),
    ({"acl_user_enable": "True", "acl_users": "ada,ben@ce.x,-eve@*,+cleo@*"},
     [{"AllowedUsers": ["ada", "ben@ce.x", "cleo"], "DeniedUsers": ["eve"]}]),
    ({"acl_group_enable": "True", "acl_groups": "cms,ops"}, [{"AllowedGroups": ["cms", "ops"]}]),
    ({"acl_user_enable": "True", "acl_users": "ada",
      "acl_group_enable": "true", "acl_groups": "cms"},
     [{"AllowedUsers": ["ada"], "AllowedGroups": ["cms"]}]),
]  # fmt: skip


@pytest.mark.parametrize(("facts_", "access"), ACLS)
def test_lists_of_users_and_groups(facts_: dict[str, str], access: Any) -> None:
    ad = by_name(pbs({"n": {"ncpus": 1}}, {"q": facts_}).queues)["q"]
    wanted = UNDEFINED if access is None else [ClassAd(one) for one in access]
    assert ad.eval("LocalAccess") == wanted
    assert ad.eval(RULES) == (UNDEFINED if access is None else ["DENY:ALL"])


def test_a_queue_that_may_require_credentials_admits_as_any_other() -> None:
    credentials = {"require_cred": "krb5", "require_cred_enable": "False"}
    ad = by_name(pbs({"n": {"ncpus": 1}}, {"q": credentials}).queues)["q"]
    assert facts(ad, "LocalAccess", RULES) == [UNDEFINED, UNDEFINED]


@pytest.mark.parametrize(
    ("facts_", "wrong"),
    [
        ({"acl_user_enable": "True"}, "acl_users cannot be read"),
        ({"acl_user_enable": "True", "acl_users": ""}, "acl_users cannot be read"),
        ({"acl_user_enable": "Tru", "acl_users": "ada"}, "acl_users cannot be read"),
        ({"acl_users": {"x": "ada"}}, "acl_users.x is not known"),
        ({"queue_type": None}, "it has no queue_type"),
        ({"enabled": None}, "enabled is missing, which comes behind its lists"),
        ({"acl_user_enable": "True", "acl_users": "ada,\x85eve"}, "acl_users cannot be read"),
        ({"acl_user_enable": "True", "acl_users": "ada,-eve ops"}, "acl_users cannot be read"),
        ({"q": {"queue_type": "Execution", "acl_users": "ada"}}, "q.acl_users is not known"),
        ({"acl_group_enable": "True", "acl_groups": "cms,\ufffd"}, "acl_groups cannot be read"),
    ],
)
def test_lists_that_cannot_be_read_admit_nobody(facts_: dict[str, Any], wrong: str) -> None:
    said = f"queues: queue q admits nobody: {wrong}"
    ad = by_name(pbs({"n": {"ncpus": 1}}, {"q": facts_}, said).queues)["q"]
    assert facts(ad, "LocalAccess", RULES) == [NOBODY, ["DENY:ALL"]]


TWO_QUEUES = """\
Queue: a
    queue_type = Execution
    acl_user_enable = True
    acl_users = ada
    enabled = True

Queue: b
    queue_type = Execution
    acl_user_enable = False
    enabled = True
"""
ROUTE_AND_END = """\
Queue: a
    queue_type = Route
    route_destinations = end
    enabled = True

Queue: end
    queue_type = Execution
    from_route_only = True
    acl_user_enable = True
    acl_users = ada
    enabled = True
"""


@pytest.mark.parametrize("lrms", ["pbspro", "torque"])
@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (TWO_QUEUES, "Queue: b", "Qeue: b"),
        (TWO_QUEUES, "Queue: b", " Queue: b"),
        (TWO_QUEUES, "Queue: b", ""),
        (TWO_QUEUES, "    acl_user_enable", "Queue: z\n    acl_user_enable"),
        (TWO_QUEUES, "acl_user_enable = True", "acl_user_enable  True"),
        (TWO_QUEUES, "acl_user_enable = True\n    acl_users", "@acl_enable\tacl_users@"),
        (TWO_QUEUES, "    acl_user_enable = True\n    acl_users = ada\n    enabled = True\n", ""),
        (TWO_QUEUES, "acl_user_enable = True\n   ", "Priority = 1 acl_user_enable = True"),
        (TWO_QUEUES, "acl_user_enable = True\n    acl_users", "acl_user_enabl = 1\n    acl_uses"),
        (TWO_QUEUES, "acl_user_enable = True\n    acl_users", "cl_user_enable = 1\n    cl_users"),
        (TWO_QUEUES, "    acl_user_enable", "user_enable\n"),
        (ROUTE_AND_END, "queue_type = Route\n    route_destinations", "queue_te_destinations"),
        (ROUTE_AND_END, "queue_type = Route", "queue_typ = Route"),
        (ROUTE_AND_END, "queue_type = Route", "queue_type = Soute"),
        (ROUTE_AND_END, "queue_type = Route", "queue_type ="),
        (ROUTE_AND_END, "queue_type = Route", "queue_type = Execution"),
        (ROUTE_AND_END, "queue_type = Route", "queue_type  Route"),
        (ROUTE_AND_END, "route_destinations", "route_destination"),
        (ROUTE_AND_END, "queue_type = Route\n    route_destinations",
         "queue_type = Soute\n    route_destination"),
    ],
)  # fmt: skip
def test_a_damaged_queue_admits_nobody(lrms: str, text: str, old: str, new: str) -> None:
    whole = read_description(lrms, [("x", text)])
    assert by_name(whole.queues)["a"].eval("LocalAccess") == [ClassAd({"AllowedUsers": ["ada"]})]
    assert said(whole, *NOTES) == []
    found = read_description(lrms, [("x", text.replace(old, new, 1))])
    assert by_name(found.queues)["a"].eval("LocalAccess") == NOBODY
    assert any("queue a admits nobody: " in issue for issue in said(found))


def test_whom_a_routing_queue_admits() -> None:
    inner = {"from_route_only": "True", "acl_group_enable": "True"}
    queues = {
        "feed": {"queue_type": "Route", "route_destinations": "one,two",
                 "acl_group_enable": "True", "acl_groups": "cms,ops"},
        "open": {"queue_type": "Route", "route_destinations": "one,two,three"},
        "one": {**inner, "acl_groups": "cms,lhcb"},
        "two": {**inner, "acl_groups": "ops"},
        "three": {"from_route_only": "True"},
    }  # fmt: skip
    found = by_name(pbs({"n": {"ncpus": 1}}, queues).queues)
    assert found["feed"].eval("LocalAccess") == [
        ClassAd({"AllowedGroups": ["cms"]}), ClassAd({"AllowedGroups": ["ops"]}),
    ]  # fmt: skip
    assert found["open"].eval("LocalAccess") == UNDEFINED


def test_linux_is_no_architecture() -> None:
    for arch, platform, system in (("linux", UNDEFINED, "linux"), ("x86_64", "x86_64", UNDEFINED)):
        [ad] = pbs({"n": {"ncpus": 1, "arch": arch}}, {}).nodes
        assert facts(ad, "GlueHostArchitecturePlatformType", "GlueHostOperatingSystemName") == [
            platform, system,
        ]  # fmt: skip
        assert facts(ad, "Native.resources_available_arch") == [arch]


def test_text_of_pbs_says_what_json_does() -> None:
    found = described("pbspro", shapes.PBS_TEXT_NODES, outputs.TORQUE_QUEUES)
    one, two = found.nodes
    assert facts(one, "Cpus", "FreeCpus", "Memory", "FreeMemory") == [8, 5, 16000, 12000]
    assert facts(one, "Features", "Native.jobs") == [["bigmem"], "17.pbs/0, 17.pbs/1,18.pbs/0"]
    assert facts(two, "Available", "Queues") == [False, []]


# --- Torque ---------------------------------------------------------------------------------------


def test_text_of_torque_says_what_xml_does() -> None:
    one = described("torque", outputs.TORQUE_NODES, outputs.TORQUE_QUEUES)
    other = described("torque", shapes.TORQUE_TEXT_NODES, outputs.TORQUE_QUEUES)
    assert list(map(str, one.nodes)) == list(map(str, other.nodes))
    assert list(map(str, one.queues)) == list(map(str, other.queues))


@pytest.mark.parametrize(
    ("status", "memory", "free"),
    [
        # 4 GB of 20 are swap, and may be what is free.
        ("physmem=16384000kb,availmem=12288000kb,totmem=20480000kb", 16000, 8000),
        ("physmem=16384000kb,availmem=2048000kb,totmem=20480000kb", 16000, 0),
        ("physmem=16384000kb,availmem=12288000kb", 16000, UNDEFINED),
        ("physmem=16384000kb,totmem=16384000kb,availmem=16000000kb", 16000, 15625),
    ],
)
def test_memory_of_torque_is_without_swap(status: str, memory: int, free: object) -> None:
    text = f"n\n     state = free\n     np = 1\n     status = {status}\n"
    [ad] = read_description("torque", [("pbsnodes", text)]).nodes
    assert facts(ad, "Memory", "FreeMemory") == [memory, free]


def test_one_list_of_torque_is_enough_where_it_says_so() -> None:
    text = ("Queue: q\n    queue_type = Execution\n    enabled = True\n    started = True\n"
            "    acl_user_enable = True\n    acl_users = ada\n    acl_group_enable = True\n"
            "    acl_groups = cms\n    acl_logic_or = True\n")  # fmt: skip
    [ad] = read_description("torque", [("qstat", text)]).queues
    assert ad.eval("LocalAccess") == [
        ClassAd({"AllowedUsers": ["ada"]}), ClassAd({"AllowedGroups": ["cms"]}),
    ]  # fmt: skip
    for lost in ("    acl_user_enable = True\n", "    acl_group_enable = True\n"):
        [ad] = read_description("torque", [("qstat", text.replace(lost, ""))]).queues
        both = ClassAd({"AllowedUsers": ["ada"], "AllowedGroups": ["cms"]})
        assert ad.eval("LocalAccess") == [both]


def test_words_without_facts_are_no_nodes() -> None:
    with pytest.raises(DescriptionError, match=r"^x: no line is an output of torque"):
        read_description("torque", [("x", "nonsense\nmore\n")])


# --- Grid Engine ----------------------------------------------------------------------------------


def test_qhost_alone() -> None:
    one, two = described("sge", shapes.GRIDENGINE_QHOST).nodes
    assert facts(one, "Cpus", "Memory", "GlueHostArchitecturePlatformType") == [8, 15974, "x86_64"]
    unknown = ("Available", "NodeState", "FreeCpus")
    assert facts(one, *unknown) == [UNDEFINED] * 3
    # Of a host whose daemon has not reported it is known that it runs nothing.
    assert facts(two, "Available", "Cpus", "GlueHostArchitecturePlatformType") == [
        False, UNDEFINED, UNDEFINED,
    ]  # fmt: skip


def test_qstat_alone() -> None:
    found = described("sge", shapes.GRIDENGINE_QSTAT)
    one, two = found.nodes
    assert facts(one, "Name", "Cpus", "FreeCpus", "Available", "NodeState") == [
        "wn1", 8, 5, True, "ok",
    ]  # fmt: skip
    assert facts(one, "GlueHostArchitecturePlatformType", "GlueHostProcessorLoadLast1Min") == [
        "x86_64", 50,
    ]  # fmt: skip
    assert facts(two, "Available", "NodeState", "Queues") == [False, "au", ["all.q"]]
    [queue] = found.queues
    assert facts(queue, "GlueCEInfoTotalCPUs", "GlueCEStateFreeCPUs", "GlueCEStateRunningJobs") == [
        12, 5, 2,
    ]  # fmt: skip
    assert facts(queue, "GlueCEStateStatus", WALL) == ["Production", UNDEFINED]


def test_qconf_alone_says_nothing_of_a_queues_state() -> None:
    [queue] = described("sge", outputs.GRIDENGINE_QUEUES).queues
    assert facts(queue, "GlueCEStateStatus", WALL) == [UNDEFINED, 1440]


LIMITS = [
    ("01:30:00,[wn2=01:00:00]", 60, 90, 60),
    ("01:00:00,[wn2=01:30:00]", 60, 60, 90),
    ("INFINITY,[wn2=01:00:00]", 60, 999999999, 60),
    ("INFINITY", 999999999, 999999999, 999999999),
    ("24:0:0,[wn1=2:0:0],[wn2=3:0:0]", 120, 120, 180),
    # Which hosts are in the group is not said.
    ("24:0:0,[@big=2:0:0]", 120, 120, 120),
    ("24:0:0,[@big=2:0:0],[wn1=3:0:0]", 120, 180, 120),
    ("nonsense", UNDEFINED, UNDEFINED, UNDEFINED),
]


@pytest.mark.parametrize(("limit", "lowest", "first", "second"), LIMITS)
def test_limits_of_a_host(limit: str, lowest: object, first: object, second: object) -> None:
    queues = f"qname all.q\nh_rt {limit}\nh_cpu 0:10:0\n"
    found = described("sge", shapes.GRIDENGINE_QSTAT, queues)
    [queue] = found.queues
    assert facts(queue, WALL, CPU) == [lowest, 10]
    assert [ad.eval("MaxWallClockTime") for ad in found.nodes] == [first, second]
    assert [ad.eval("MaxCPUTime") for ad in found.nodes] == [10, 10]


def test_what_a_host_says_of_its_limit_counts() -> None:
    found = described("sge", shapes.GRIDENGINE_QSTAT_RESOURCES)
    assert [ad.eval("MaxWallClockTime") for ad in found.nodes] == [90, UNDEFINED]
    assert found.queues[0].eval(WALL) == 90


CLUSTER_QUEUE = (
    "qname a\nseq_no 0\nuser_lists NONE\nxuser_lists NONE\nprojects NONE\nxprojects NONE\n"
)


@pytest.mark.parametrize(
    ("old", "new", "access"),
    [
        ("", "", UNDEFINED),
        (
            "\nuser_lists NONE",
            "\nuser_lists cms ops",
            [ClassAd({"AllowedUserLists": ["cms", "ops"]})],
        ),
        ("xprojects NONE", "xprojects evil", [ClassAd({"DeniedProjects": ["evil"]})]),
        ("\nuser_lists NONE", "\nuser_lists cms,[wn1=ops]", NOBODY),
        ("xuser_lists NONE", "xuser_lists", NOBODY),
        ("\nuser_lists", "\nser_lists", NOBODY),
        ("xuser_lists NONE", "xuser_lists cms\n,ops", NOBODY),
        ("xuser_lists NONE", "xuser_lists cms NONE", NOBODY),
        ("xuser_lists NONE", "xuser_lists cms\n ada eve", NOBODY),
        ("xuser_lists NONE", "xuser_lists cms \nada eve", NOBODY),
        ("seq_no 0", "seq_no 0\nqname b", NOBODY),
        ("xuser_lists NONE\nprojects NONE\nxprojects NONE\n", "", NOBODY),
    ],
)
def test_lists_of_a_cluster_queue(old: str, new: str, access: object) -> None:
    found = read_description("sge", [("qconf", CLUSTER_QUEUE.replace(old, new, 1))])
    assert found.queues[0].eval("LocalAccess") == access
    assert bool(found.issues) is (access == NOBODY)


def test_a_cluster_queue_without_its_configuration_admits_nobody() -> None:
    """Its record may have lost its name; without any configuration nothing is known of access."""
    texts = [shapes.GRIDENGINE_QSTAT, CLUSTER_QUEUE]
    for given, access in ((texts, NOBODY), (texts[:1], UNDEFINED)):
        queues = by_name(described("sge", *given).queues)
        assert queues["all.q"].eval("LocalAccess") == access


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("qname b", "qame b"),
        ("qname b", ""),
        ("xprojects NONE\n\n", "xprojects NONE\nuser_lists NONE\n\n"),
        ("qname a\n", "qname a\nuser_lists NONE\n"),
    ],
)
def test_a_cluster_queue_with_two_of_a_list_admits_nobody(old: str, new: str) -> None:
    found = read_description("sge", [("qconf", CLUSTER_QUEUES.replace(old, new))])
    assert found.queues[0].eval("LocalAccess") == NOBODY
    assert "qconf: queue a admits nobody: user_lists '(there twice)' cannot be read" in (
        said(found)
    )


# --- LSF ------------------------------------------------------------------------------------------


def lsf_hosts(hosts: str | None, groups: str = shapes.LSF_GROUPS) -> tuple[list[Any], list[str]]:
    """The hosts of a queue, of wn1 to wn4 and a client, and what is said of them."""
    names = [f"wn{number}" for number in range(1, 5)]
    records = [{"HOST_NAME": name, "ncpus": "4", "server": "Yes"} for name in names]
    records.append({"HOST_NAME": "login", "ncpus": "4", "server": "No"})
    queue = {"QUEUE_NAME": "q", "STATUS": "Open:Active", **({"HOSTS": hosts} if hosts else {})}
    found = read_description(
        "lsf",
        [("lshosts", json.dumps({"COMMAND": "lshosts", "RECORDS": records})),
         ("bqueues", json.dumps({"COMMAND": "bqueues", "RECORDS": [queue]})),
         ("bmgroup", groups)],
    )  # fmt: skip
    return [name for name, mine in queues_of(found).items() if mine], said(found)


def test_an_error_of_lsf_in_place_of_a_record_is_a_finding() -> None:
    error = "Bad host name, host group name or cluster name. "
    records = [{"HOST_NAME": "wn9", "ERROR": error}, {"HOST_NAME": "wn1", "STATUS": "ok"}]
    text = json.dumps({"COMMAND": "bhosts", "HOSTS": 2, "RECORDS": records})
    found = read_description("lsf", [("saved", text)])
    assert [ad.eval("Name") for ad in found.nodes] == ["wn1"]
    assert said(found) == [f"saved: bhosts wn9: LSF reports an error: {error.strip()}"]
    text = json.dumps({"COMMAND": "bqueues", "ERROR": "LSF is down. Please wait ..."})
    with pytest.raises(DescriptionError, match="bqueues: LSF reports an error: LSF is down"):
        read_description("lsf", [("saved", text)])


EVERY = ["wn1", "wn2", "wn3", "wn4"]


@pytest.mark.parametrize(
    ("hosts", "members"),
    [
        (None, EVERY),
        ("-", EVERY),
        ("all", EVERY),
        ("none", []),
        ("wn1 wn3+2", ["wn1", "wn3"]),
        ("big", ["wn1", "wn2"]),
        ("big/ wn4", ["wn1", "wn2", "wn4"]),
        ("big+3 others", EVERY),
        ("others+1 wn1", EVERY),
        ("all ~wn2", ["wn1", "wn3", "wn4"]),
        ("all ~big", ["wn3", "wn4"]),
        ("others ~wn4 wn1", ["wn1", "wn2", "wn3"]),
        ("fast", ["wn1"]),
        ("everything ~fast", ["wn2", "wn3", "wn4"]),
        ("wn1 login", ["wn1"]),
        ("wn[1-2,4]+5", ["wn1", "wn2", "wn4"]),
        ("all ~wn[2-3]", ["wn1", "wn4"]),
    ],
)
def test_hosts_of_a_queue(hosts: str | None, members: list[str]) -> None:
    found, issues = lsf_hosts(hosts)
    assert found == members
    assert bool(issues) is ("login" in (hosts or ""))


def test_groups_of_hosts_that_are_not_known_or_not_sound() -> None:
    said = "bqueues: 'big' is no host that runs jobs and no group of bmgroup"
    assert lsf_hosts("wn1 big", "") == (["wn1"], [said])
    found, issues = lsf_hosts("a", "GROUP_NAME HOSTS\na b wn1\nb a wn2\n")
    assert (found, len(issues)) == (["wn1", "wn2"], 1)
    assert lsf_hosts("big", shapes.LSF_GROUPS_WITH_ADMINS) == (["wn1", "wn2"], [])


def test_many_ways_through_groups_are_followed_once() -> None:
    rows = [f"{side}{n} a{n + 1} b{n + 1}" for n in range(50) for side in "ab"]
    groups = "\n".join(["GROUP_NAME HOSTS", *rows, "a50 wn1", "b50 wn2"])
    assert lsf_hosts("a0 ~a50", groups) == (["wn2"], [])
    rows = [f"a{n} a{n + 1}" for n in range(5000)]
    found, issues = lsf_hosts("a0", "\n".join(["GROUP_NAME HOSTS", *rows]))
    assert (found, len(issues)) == ([], 1)


@pytest.mark.parametrize(
    ("users", "access"),
    [
        ("all", UNDEFINED),
        ("cms/ ada", [ClassAd({"AllowedUsers": ["cms", "ada"]})]),
        ("all ~eve", [ClassAd({"DeniedUsers": ["eve"]})]),
        ("(null)", NOBODY),
        ("all ~ eve", NOBODY),
        ("all ~~eve", NOBODY),
        ("all ops}~eve", NOBODY),
        ("all ops~eve", NOBODY),
        ("all ~all", NOBODY),
        ("", NOBODY),
        (None, NOBODY),
        ({}, NOBODY),
        ({"x": "ada"}, NOBODY),
    ],
)
def test_users_of_a_queue(users: object, access: object) -> None:
    record = {"QUEUE_NAME": "q", "USERS": users}
    text = json.dumps({"COMMAND": "bqueues", "RECORDS": [record]})
    found = read_description("lsf", [("bqueues", text)])
    assert found.queues[0].eval("LocalAccess") == access
    assert bool(found.issues) is (access == NOBODY)
    assert facts(found.queues[0], "GlueCEStateStatus") == [UNDEFINED]


@pytest.mark.parametrize(
    ("records", "access"),
    [
        ([{}], UNDEFINED),
        ([{"SUSP": "0", "USUSP": "0"}], UNDEFINED),
        ([{"USRS": "ada"}], NOBODY),
        ([{"USER": "ada"}], NOBODY),
        ([{"USER(null)": "ada"}], NOBODY),
        ([{"US(null)ERS": "ada"}], NOBODY),
        ([{"QQQQ": "ada"}, {"USERS": "all"}], NOBODY),
    ],
)
def test_users_that_are_lost_admit_nobody(records: list[dict[str, str]], access: object) -> None:
    named = [{"QUEUE_NAME": f"q{number}", **one} for number, one in enumerate(records)]
    text = json.dumps({"COMMAND": "bqueues", "RECORDS": named})
    found = read_description("lsf", [("bqueues", text)])
    assert found.queues[0].eval("LocalAccess") == access
    assert bool(found.issues) is (access == NOBODY)


# --- HTCondor -------------------------------------------------------------------------------------


def test_long_ads_say_what_json_does() -> None:
    one = described("htcondor", outputs.CONDOR_SLOTS, outputs.CONDOR_SCHEDDS)
    other = described("htcondor", shapes.CONDOR_LONG_SLOTS, shapes.CONDOR_LONG_SCHEDDS)
    for old, new in zip((*one.nodes, *one.queues), (*other.nodes, *other.queues), strict=True):
        assert {name: str(old.eval(name)) for name in old} == {
            name: str(new.eval(name)) for name in new
        }


def test_two_slots_of_one_name_are_noted() -> None:
    text = shapes.CONDOR_LONG_SLOTS + "\n" + shapes.CONDOR_LONG_SLOTS.replace("4000", "1")
    found = read_description("htcondor", [("slots", text)])
    assert [ad.eval("Memory") for ad in found.nodes] == [4000, 8000]
    assert said(found) == [
        f"slots: two slots are named slot1@wn{number}.cnaf.grid; the first is kept"
        for number in (1, 2)
    ]


def test_two_schedds_of_one_name_are_noted() -> None:
    again = [("a", outputs.CONDOR_SCHEDDS), ("b", shapes.CONDOR_LONG_SCHEDDS)]
    found = read_description("htcondor", again)
    assert len(found.queues) == 1
    assert said(found) == ["b: two schedds are named schedd.cnaf.grid; the first is kept"]


def slot(name: str, cpus: int, state: str = "Unclaimed", **more: object) -> dict[str, object]:
    return {"MyType": "Machine", "Name": name, "Cpus": cpus, "State": state, **more}


def test_ads_of_other_daemons_are_no_slots() -> None:
    others = [{"MyType": kind, "Name": "x"} for kind in ("Collector", "DaemonMaster", "Submitter")]
    found = described("htcondor", json.dumps([*others, slot("a", 1)]))
    assert [ad.eval("Name") for ad in found.nodes] == ["a"]
    assert found.queues == ()


def test_totals_of_a_pool() -> None:
    slots = [
        slot("a", 3, PartitionableSlot=True, SlotType="Partitionable", TotalSlotCpus=16),
        slot("a_1", 8, "Claimed", SlotType="Dynamic", TotalSlotCpus=8),
        slot("a_2", 5, "Claimed", SlotType="Dynamic"),
        slot("b", 4, "Claimed", SlotType="Static"),
        slot("c", 2),
    ]
    found = described("htcondor", json.dumps(slots), outputs.CONDOR_SCHEDDS)
    assert facts(found.queues[0], "GlueCEInfoTotalCPUs", "GlueCEStateFreeCPUs") == [22, 5]
    [alone] = described("htcondor", outputs.CONDOR_SCHEDDS).queues
    assert facts(alone, "GlueCEInfoTotalCPUs", "GlueCEStateFreeCPUs") == [UNDEFINED] * 2


def routes_of(queue: ClassAd) -> list[ClassAd]:
    found = queue.eval("Routes")
    assert isinstance(found, list)
    return [ad for ad in found if isinstance(ad, ClassAd)]


def test_the_schedd_of_a_ce_has_its_routes() -> None:
    ce = shapes.CONDOR_LONG_SCHEDDS.replace("schedd.", "ce.") + 'HTCondorCEVersion = "23.9"\n'
    found = described("htcondor-ce", ce, shapes.CONDOR_LONG_SCHEDDS, shapes.CONDOR_ROUTES)
    queues = by_name(found.queues)
    assert queues["schedd.cnaf.grid"].eval("Routes") == UNDEFINED
    big, local = routes_of(queues["ce.cnaf.grid"])
    assert facts(big, "Name", "GridResource", "Queue", "MaxJobs", "MaxIdleJobs") == [
        "Big_Slurm", "batch slurm", "big", 5, 50,
    ]  # fmt: skip
    assert big["Requirements"] == parse_expr("RequestCpus >= 8")
    assert facts(local, "Name", "GridResource", "Queue", "Universe") == [
        "Local_Condor", UNDEFINED, UNDEFINED, 5,
    ]  # fmt: skip
    assert found.nodes == ()
    old = described("htcondor-ce", shapes.CONDOR_LONG_SCHEDDS, shapes.CONDOR_OLD_ROUTES)
    [route] = routes_of(old.queues[0])
    assert facts(route, "Name", "Queue", "MaxJobs") == ["Local_PBS", "long", 10000]


def test_a_route_that_cannot_be_read_takes_no_job() -> None:
    routes = shapes.CONDOR_ROUTES.replace('Owner == "cms"', 'Owner == "cms')
    found = read_description("htcondor-ce", [("q", shapes.CONDOR_LONG_SCHEDDS), ("r", routes)])
    [_, local] = routes_of(found.queues[0])
    assert local.eval("Requirements") is False
    assert said(found) == [
        "r: route Local_Condor: its Requirements cannot be read: it takes no job"
    ]


def test_a_ce_is_asked_for_its_schedds_and_routes() -> None:
    answers = {"-json": outputs.CONDOR_SCHEDDS, "-config": shapes.CONDOR_ROUTES}
    found = describe("htcondor-ce", lambda argv: answers[argv[-1]])
    assert len(routes_of(found.queues[0])) == 2


def test_a_part_of_long_ads_that_cannot_be_read_is_left_out() -> None:
    text = shapes.CONDOR_LONG_SLOTS.replace("Cpus = 4", 'Cpus = "4')
    found = read_description("htcondor", [("slots", text)])
    assert len(found.nodes) == 1
    assert len(found.issues) == 1
