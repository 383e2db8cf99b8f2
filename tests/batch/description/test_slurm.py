"""Slurm as it answers, from version 14.03 to 25.11 and in JSON from 0.0.37 to 0.0.45."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker import glue, parse_ad, parse_expr
from matchmaker.batch.description import DescriptionError, read_description
from matchmaker.classad import UNDEFINED, ClassAd
from tests.batch.description.shapes import SHAPES
from tests.batch.description.test_description import by_name, facts, said

RULES = "GlueCEAccessControlBaseRule"
ALL_QOS = "AllowAccounts=ALL AllowQos=ALL"
WALL = "GlueCEPolicyMaxWallClockTime"


def node(line: str) -> ClassAd:
    [ad] = read_description("slurm", [("lines", f"NodeName=n {line}")]).nodes
    return ad


def queue(text: str, *issues: str) -> ClassAd:
    line = text if text.startswith("{") else f"PartitionName=p State=UP {text}"
    found = read_description("slurm", [("lines", line)])
    assert said(found) == list(issues)
    [ad] = found.queues
    return ad


ON = ("CLOUD", "COMPLETING", "DYNAMIC_NORM", "PLANNED", "POWER", "POWERED_DOWN", "POWERING_UP",
      "POWER_UP", "RESUME", "UNDRAIN")  # fmt: skip
OFF = ("BLOCKED", "DRAIN", "DYNAMIC_FUTURE", "EXTERNAL", "FAIL", "INVALID_REG", "MAINTENANCE",
       "NOT_RESPONDING", "PERFCTRS", "POWER_DOWN", "POWER_DRAIN", "POWERING_DOWN",
       "REBOOT_CANCELED", "REBOOT_ISSUED", "REBOOT_REQUESTED", "RESERVED",
       "A_FLAG_OF_TOMORROW")  # fmt: skip
BASES = {"IDLE": True, "ALLOCATED": True, "MIXED": True, "COMPLETING": True, "PLANNED": True,
         "DOWN": False, "ERROR": False, "FAIL": False, "FUTURE": False, "INVAL": False,
         "MAINT": False, "DRAINED": False, "DRAINING": False, "RESERVED": False, "UNKNOWN": False,
         "SHINY": False, "IDLE*": False, "IDLE~": True, "IDLE#": True, "IDLE!": False,
         "IDLE%": False, "IDLE$": False, "IDLE@": False, "IDLE^": False, "IDLE-": True,
         "DOWN~": False, "MIXED*+DRAIN": False}  # fmt: skip
STATES = {
    **BASES,
    **{f"{base}+{flag}": True for base in ("IDLE", "MIXED", "ALLOCATED") for flag in ON},
    **{f"{base}+{flag}": False for base in ("IDLE", "MIXED", "ALLOCATED") for flag in OFF},
    "DOWN+CLOUD+POWERED_DOWN": False, "IDLE+CLOUD+POWERED_DOWN": True,
    "IDLE+PLANNED+MAINTENANCE": False,
}  # fmt: skip


@pytest.mark.parametrize(("state", "available"), STATES.items())
def test_states_and_flags(state: str, available: bool) -> None:
    ad = node(f"CPUTot=1 State={state}")
    assert facts(ad, "Available", "NodeState") == [available, state]
    words = state.split("+")
    forms: list[dict[str, object]] = [
        {"state": words},
        {"state": words[0].lower(), "state_flags": words[1:]},
    ]
    for form in forms:
        text = json.dumps({"nodes": [{"name": "n", **form}]})
        [other] = read_description("slurm", [("json", text)]).nodes
        assert other.eval("Available") is available


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # What can be had, of what is there: two CPUs are kept for the system.
        ("CPUAlloc=4 CPUEfctv=14 CPUTot=16", {"Cpus": 14, "FreeCpus": 10}),
        ("CPUAlloc=4 CPUTot=16", {"Cpus": 16, "FreeCpus": 12}),
        ("RealMemory=9000 MemSpecLimit=1000 AllocMem=3000", {"Memory": 8000, "FreeMemory": 5000}),
        # Before version 22.05 only the cores that are kept are said, of one CPU or as many as
        # their threads.
        ("CPUAlloc=2 CPUTot=16 CoresPerSocket=4 Sockets=2 ThreadsPerCore=2 CoreSpecCount=2",
         {"Cpus": 12, "FreeCpus": 10}),
        ("CPUTot=8 CoresPerSocket=8 Sockets=1 ThreadsPerCore=2 CoreSpecCount=2", {"Cpus": 6}),
        ("CPUTot=8 CoresPerSocket=4 Sockets=2 ThreadsPerCore=1 CoreSpecCount=3", {"Cpus": 5}),
        ("CPUTot=16 CoresPerSocket=4 Sockets=2 ThreadsPerCore=2 CPUSpecList=6-7,14-15",
         {"Cpus": 12}),
        ("CPUTot=16 CoresPerSocket=4 Sockets=2 ThreadsPerCore=2 CPUSpecList=0,1,8", {"Cpus": 12}),
        # Where only the resources are counted, their counts are taken.
        ("CfgTRES=cpu=8,mem=15.5G,billing=8 AllocTRES=cpu=3,mem=2G",
         {"Cpus": 8, "FreeCpus": 5, "Memory": 15872, "FreeMemory": 13824}),
        ("CfgTRES=cpu=8,mem=16G AllocTRES=", {"FreeCpus": 8, "FreeMemory": 16384}),
        # GPUs in use: GresUsed, or what AccountingStorageTRES counts; else nobody knows.
        ("Gres=gpu:a100:4 GresUsed=gpu:a100:3(IDX:0-1,3)", {"GPUs": 4, "FreeGPUs": 1}),
        ("Gres=gpu:4(S:0-1) GresUsed=gpu:0", {"GPUs": 4, "FreeGPUs": 4}),
        ("Gres=gpu:4 CfgTRES=cpu=8,gres/gpu=4 AllocTRES=cpu=8,gres/gpu=1,gres/gpu:a100=1",
         {"GPUs": 4, "FreeGPUs": 3}),
        ("Gres=gpu:4 CfgTRES=cpu=8,gres/gpu=4 AllocTRES=cpu=8", {"GPUs": 4, "FreeGPUs": 4}),
        ("Gres=gpu:4 CfgTRES=cpu=8 AllocTRES=cpu=8", {"GPUs": 4, "FreeGPUs": UNDEFINED}),
        ("Gres=gpu:4", {"GPUs": 4, "FreeGPUs": UNDEFINED}),
        ("Gres=(null) GresUsed=gpu:0", {"GPUs": 0, "FreeGPUs": 0}),
        # The models of GPUs, and how many of each.
        ("Gres=gpu:a100:2(S:0-1)", {"GPUs": 2, "GPUModel": "a100"}),
        ("Gres=gpu:a100:2,gpu:h100:no_consume:1,tmp:9", {"GPUs": 3, "GPUModel": ["a100", "h100"]}),
        ("Gres=gpu:a100", {"GPUs": 1, "GPUModel": "a100"}),
        ("Gres=gpu:2", {"GPUs": 2, "GPUModel": UNDEFINED, "GPUModels": UNDEFINED}),
        ("Gres=gpu:no_consume:2", {"GPUs": 2, "GPUModel": UNDEFINED}),
        ("Gres=(null)", {"GPUs": 0, "GPUModel": UNDEFINED}),
        ("Gres=gpu:2 CfgTRES=cpu=8,gres/gpu=2,gres/gpu:v100=2", {"GPUs": 2, "GPUModel": "v100"}),
        ("CfgTRES=cpu=8,gres/gpu:v100=2,gres/gpu:t4=1", {"GPUs": 3, "GPUModel": ["v100", "t4"]}),
        # Features under each of their names.
        ("Features=el6,ib", {"Features": ["el6", "ib"]}),
        ("AvailableFeatures=el6,ib", {"Features": ["el6", "ib"]}),
        ("AvailableFeatures=knl,a2a ActiveFeatures=knl", {"Features": ["knl"]}),
        ("AvailableFeatures=knl ActiveFeatures=(null)", {"Features": []}),
        ("Arch=x86_64", {"GlueHostArchitecturePlatformType": "x86_64"}),
        ("Arch=linux", {"GlueHostArchitecturePlatformType": UNDEFINED}),
    ],
)  # fmt: skip
def test_what_is_there_and_what_is_free(line: str, expected: dict[str, Any]) -> None:
    ad = node(f"State=IDLE {line}")
    assert {name: ad.eval(name) for name in expected} == expected


def test_gpus_are_counted_by_model() -> None:
    ad = node("State=IDLE Gres=gpu:a100:2(S:0-1),gpu:nvidia_a100_1g.5gb:7")
    models = ad.eval("GPUModels")
    assert isinstance(models, ClassAd)
    assert models.to_dict() == {"a100": 2, "nvidia_a100_1g_5gb": 7}
    assert parse_expr("other.GPUModels.a100 >= 2").eval(target=ad) is True
    assert parse_expr('member("A100", other.GPUModel)').eval(target=ad) is True


PBS = "wn1\n     Mom = wn1\n     state = free\n"


@pytest.mark.parametrize(
    ("lrms", "text", "expected"),
    [
        ("pbspro", (f"{PBS}     resources_available.ngpus = 2\n"
         "     resources_available.gpu_model = A100"), "A100"),
        ("pbspro", (f"{PBS}     resources_available.ngpus = 2\n"
         "     resources_available.accelerator_model = NVIDIA_P100"), "NVIDIA_P100"),
        ("pbspro", f"{PBS}     resources_available.ngpus = 2", UNDEFINED),
        ("sge", ("<qhost><host name='wn1'><hostvalue name='num_proc'>8</hostvalue>"
         "<resourcevalue name='gpu' dominance='hc'>2.000000</resourcevalue>"
         "<resourcevalue name='gpu_model' dominance='hf'>A100</resourcevalue></host></qhost>"),
         "A100"),
        ("sge", ("<qhost><host name='wn1'><hostvalue name='num_proc'>8</hostvalue>"
         "<resourcevalue name='gpu' dominance='hc'>2.000000</resourcevalue>"
         "<resourcevalue name='gpu_type' dominance='hf'>NONE</resourcevalue></host></qhost>"),
         UNDEFINED),
    ],
)  # fmt: skip
def test_other_batch_systems_name_the_model_in_a_resource(
    lrms: str, text: str, expected: object
) -> None:
    [ad] = read_description(lrms, [("text", text)]).nodes
    assert (ad.eval("GPUs"), ad.eval("GPUModel")) == (2, expected)
    models = ad.eval("GPUModels")
    assert (models.to_dict() if isinstance(models, ClassAd) else models) == (
        UNDEFINED if expected is UNDEFINED else {expected: 2}
    )


def everything(lrms: str, *texts: str) -> dict[str, dict[str, Any]]:
    """All that is said of nodes and queues, but for the words that a version says it in."""
    found = read_description(lrms, [(f"text {number}", text) for number, text in enumerate(texts)])
    assert found.issues == ()
    return {
        str(ad.eval("Name")): {
            name: str(ad.eval(name)) for name in ad if name not in ("Native", "NodeState")
        }
        for ad in (*found.nodes, *found.queues)
    }


def shape(output: str, version: str) -> str:
    return SHAPES["slurm"][output][version]


RECENT = everything(
    "slurm",
    shape("scontrol show node", "25.11"),
    shape("scontrol show partition", "25.11"),
    shape("squeue --format='Job=%i Partition=%P State=%T'", "22.05"),
)


def test_the_newest_lines() -> None:
    assert RECENT["wn1"] | {
        "Cpus": "8", "FreeCpus": "5", "FreeMemory": "14000", "GPUs": "2", "FreeGPUs": "1",
        "Available": "True", "Features": "['el9', 'si600']", "Queues": "['long', 'short']",
    } == RECENT["wn1"]  # fmt: skip
    assert RECENT["wn02"]["Available"] == "False"
    assert RECENT["wn1"]["QueueAds"] == str([
        parse_ad('[ Name = "long"; IsDefault = true; GlueCEStateStatus = "Production";'
                 " GlueCEPolicyMaxWallClockTime = 2880; MaxCpusPerNode = 4;"
                 " MaxMemoryPerNode = 3000 ]"),
        parse_ad('[ Name = "short"; IsDefault = false; GlueCEStateStatus = "Draining";'
                 " GlueCEPolicyMaxWallClockTime = 999999999; MaxMemoryPerCpu = 500 ]"),
    ])  # fmt: skip
    assert RECENT["wn1"]["MaxWallClockTime"] == "999999999", "the greatest of its queues"
    assert RECENT["long"] | {
        WALL: "2880", "GlueCEStateStatus": "Production", "GlueCEStateRunningJobs": "1",
        "GlueCEStateWaitingJobs": "6", "IsDefault": "True", "MaxCpusPerNode": "4",
        "MaxMemoryPerNode": "3000",
    } == RECENT["long"]  # fmt: skip
    assert RECENT["short"] | {
        WALL: "999999999", "GlueCEStateStatus": "Draining", "GlueCEStateWaitingJobs": "7",
        "MaxMemoryPerCpu": "500",
    } == RECENT["short"]  # fmt: skip


@pytest.mark.parametrize("version", ["14.03", "22.05"])
def test_older_lines_say_the_same(version: str) -> None:
    jobs = shape("squeue --format='Job=%i Partition=%P State=%T'", "22.05")
    nodes = shape("scontrol show node", version)
    found = everything("slurm", nodes, shape("scontrol show partition", version), jobs)
    wanted = {name: dict(said) for name, said in RECENT.items()}
    if version == "14.03":
        # Which GPUs are in use is not said; which partitions have a node, partitions say.
        del wanted["wn1"]["FreeGPUs"]
    assert found == wanted


@pytest.mark.parametrize("version", SHAPES["slurm"]["nodes in JSON"])
def test_json_says_the_same_as_lines(version: str) -> None:
    jobs = shape("jobs in JSON", version)
    nodes = shape("nodes in JSON", version)
    found = everything("slurm", nodes, shape("partitions in JSON", version), jobs)
    wanted = {name: dict(said) for name, said in RECENT.items()}
    if "0.0.38" < version < "0.0.45":
        for name in ("long", "short"):
            del wanted[name]["IsDefault"]
        for name in ("wn1", "wn02"):
            told = wanted[name]["QueueAds"]
            wanted[name]["QueueAds"] = re.sub(" IsDefault = (true|false);", "", told)
    assert found == wanted


@pytest.mark.parametrize("version", SHAPES["slurm"]["nodes in JSON"])
def test_lists_alone_say_the_same(version: str) -> None:
    """As Slurm-web hands on what slurmrestd answers."""
    texts = (shape("nodes in JSON", version), shape("partitions in JSON", version))
    lists = [shape(f"{kind} in JSON, as a list", version) for kind in ("nodes", "partitions")]
    assert everything("slurm", *lists) == everything("slurm", *texts)
    one, other = json.loads(lists[0])
    assert everything("slurm", json.dumps(one))["wn1"] == everything("slurm", lists[0])["wn1"]
    assert everything("slurm", json.dumps([other, one, *json.loads(lists[1])])) == everything(
        "slurm", *texts
    )


WEB_NODE = {"name": "cn1", "cpus": 64, "sockets": 2, "cores": 16, "gres": "", "gres_used": "gpu:0",
            "real_memory": 256000, "state": ["IDLE"], "reason": "", "partitions": ["normal"],
            "alloc_cpus": 0, "alloc_idle_cpus": 64}  # fmt: skip


def test_what_slurm_web_asks_for_is_enough() -> None:
    """The fields that it takes by default of nodes and of partitions."""
    lists = [json.dumps([WEB_NODE]), json.dumps([{"name": "normal", "node_sets": ""}])]
    found = read_description("slurm", [("nodes", lists[0]), ("partitions", lists[1])])
    assert found.issues == ()
    [ad] = found.nodes
    assert facts(ad, "Cpus", "FreeCpus", "Memory", "Queues", "Available") == [
        64, 64, 256000, ["normal"], True,
    ]  # fmt: skip
    assert [ad.eval("Name") for ad in found.queues] == ["normal"]
    assert read_description("slurm", [("none", "[]")]).nodes == ()
    found = read_description("slurm", [("x", json.dumps([7, WEB_NODE, {"name": "x"}]))])
    assert len(found.nodes) == 1
    assert said(found) == [
        f"x: expected a node, a partition or a job of slurmrestd, left out {text!r}"
        for text in ("7", "{'name': 'x'}")
    ]


KEPT = "sinfo does not say what nodes keep for the system (MemSpecLimit, CoreSpecCount);"


@pytest.mark.parametrize("version", SHAPES["slurm"]["sinfo --json"])
@pytest.mark.parametrize("output", ["sinfo --json", "sinfo --Node --json"])
def test_sinfo_says_the_same_of_what_it_says(output: str, version: str) -> None:
    found = read_description("slurm", [("sinfo", shape(output, version))])
    kept = [issue.message.startswith(KEPT) for issue in found.issues]
    assert kept == [True] * (version < "0.0.43")
    texts = (shape("nodes in JSON", version), shape("partitions in JSON", version))
    wanted = everything("slurm", *texts)
    other = ("GlueHostArchitecturePlatformType", "GlueHostOperatingSystemName")
    for ad in (*found.nodes, *found.queues):
        for name in wanted[str(ad.eval("Name"))].keys() - {*other}:
            assert str(ad.eval(name)) == wanted[str(ad.eval("Name"))][name], (name, ad)
    # Beside what says more it adds nothing.
    for order in ([*texts, shape(output, version)], [shape(output, version), *texts]):
        assert everything("slurm", *order) == wanted


@pytest.mark.parametrize(
    ("kept", "cpus"),
    [
        ({"effective_cpus": 12}, 12),
        ({"specialized_cores": 2, "specialized_cpus": "0-1,8-9"}, 12),
        ({"specialized_cores": 0, "specialized_cpus": "6-7,14-15"}, 12),
        ({"specialized_cores": 0, "specialized_cpus": ""}, 16),
        # Versions 0.0.37 and 0.0.38 have it among the resources alone.
        ({"tres": "cpu=12,mem=128000M,billing=12"}, 12),
    ],
)
def test_what_json_says_is_kept_for_the_system(kept: dict[str, Any], cpus: int) -> None:
    node = {"name": "n", "state": ["IDLE"], "cpus": 16, "sockets": 2, "cores": 4, "threads": 2,
            "alloc_cpus": 4, "real_memory": 128000, "alloc_memory": 1000,
            "specialized_memory": 3000, **kept}  # fmt: skip
    found = read_description("slurm", [("x", json.dumps({"nodes": [node]}))])
    assert found.issues == ()
    assert facts(found.nodes[0], "Cpus", "FreeCpus", "Memory", "FreeMemory") == [
        cpus, cpus - 4, 125000, 124000,
    ]  # fmt: skip


def test_what_sinfo_says_is_kept_for_the_system() -> None:
    text = json.loads(shape("sinfo --Node --json", "0.0.44"))
    for entry in text["sinfo"]:
        entry["resource_spec"] = {"cpus": "0-1", "memory": 3000}
    found = read_description("slurm", [("sinfo", json.dumps(text))])
    assert found.issues == ()
    assert facts(by_name(found.nodes)["wn1"], "Cpus", "Memory") == [6, 13000]


def test_sinfo_groups_nodes_and_tells_only_what_they_share() -> None:
    text = json.loads(shape("sinfo --json", "0.0.42"))
    [entry] = [one for one in text["sinfo"] if one["nodes"]["nodes"] == ["wn02"]]
    entry["nodes"]["nodes"] = ["wn02", "wn03"]
    entry["cpus"] |= {"total": 12, "idle": 12, "maximum": 8}
    found = read_description("slurm", [("sinfo", json.dumps(text))])
    two, three = by_name(found.nodes)["wn02"], by_name(found.nodes)["wn03"]
    assert facts(two, "Cpus", "Memory", "FreeMemory", "GPUs", "Features") == [
        UNDEFINED, 8000, 8000, UNDEFINED, [],
    ]  # fmt: skip
    assert facts(three, "NodeState", "Available", "Queues") == ["IDLE+DRAIN", False, ["long"]]
    assert said(found)[0] == (
        "sinfo: sinfo groups 2 nodes, such as wn02: their features, GPUs and what differs is not"
        " said; ask sinfo --Node --json, or scontrol show nodes --json"
    )


def test_json_that_says_little_leaves_it_unknown() -> None:
    found = read_description(
        "slurm", [("x", '{"nodes": [{"name": "n"}], "partitions": [{"name": "p"}]}')]
    )
    assert facts(found.nodes[0], "Available", "Cpus", "FreeCpus", "GPUs", "Memory") == [
        False, *[UNDEFINED] * 4,
    ]  # fmt: skip
    unknown = ("GlueCEStateStatus", "IsDefault", WALL, "GlueCEStateWaitingJobs", RULES)
    assert facts(found.queues[0], *unknown) == [UNDEFINED] * len(unknown)
    infinite = {"set": False, "infinite": True, "number": 0}
    unset = {"set": False, "infinite": False, "number": 0}
    for number, limit in ((infinite, 999999999), (unset, UNDEFINED), (-1, 999999999)):
        text = json.dumps({"partitions": [{"name": "p", "maximums": {"time": number}}]})
        assert queue(text).eval(WALL) == limit
    with pytest.raises(DescriptionError, match="none of nodes, partitions, jobs, sinfo is in it"):
        read_description("slurm", [("sinfo", '{"meta": {}}')])


def test_unlimited_is_the_number_of_glue() -> None:
    assert queue("MaxTime=UNLIMITED").eval(WALL) == glue.UNLIMITED
    assert queue("MaxTime=1-00:00:00").eval(WALL) == 1440
    assert queue("TotalCPUs=1").eval(WALL) == UNDEFINED


LISTS = '"groups": {"allowed": ""}, "accounts": {"allowed": "", "deny": ""}'
IN_JSON = f'{{"partitions": [{{"name": "p", {LISTS}, "qos": {{"allowed": "", "deny": ""}}}}]}}'


@pytest.mark.parametrize(
    ("line", "lists"),
    [
        ("AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL", None),
        (f"RootOnly=NO AllocNodes=login1 AllowGroups=ALL {ALL_QOS}", None),
        ("AllowGroups=cms,ops AllowAccounts=ALL AllowQos=ALL", {"AllowedGroups": ["cms", "ops"]}),
        ("AllowGroups=domain users AllowAccounts=ALL AllowQos=ALL",
         {"AllowedGroups": ["domain users"]}),
        ("AllowGroups=ALL AllowAccounts=cms AllowQos=ALL", {"AllowedAccounts": ["cms"]}),
        ("AllowGroups=ALL DenyAccounts=evil AllowQos=ALL", {"DeniedAccounts": ["evil"]}),
        ("AllowGroups=ALL AllowAccounts=ALL AllowQos=high", {"AllowedQos": ["high"]}),
        ("AllowGroups=ALL AllowAccounts=ALL DenyQos=low", {"DeniedQos": ["low"]}),
        ("AllowGroups=cms AllowAccounts=lhc DenyQos=low",
         {"AllowedGroups": ["cms"], "AllowedAccounts": ["lhc"], "DeniedQos": ["low"]}),
        ("AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL RootOnly=YES",
         {"AllowedUsers": ["root"]}),
        ('{"partitions": [{"name": "p", "flags": ["root_only"]}]}', {"AllowedUsers": ["root"]}),
        ('{"partitions": [{"name": "p", "flags": ["HIDDEN", "ROOT_ONLY"]}]}',
         {"AllowedUsers": ["root"]}),
        ('{"partitions": [{"name": "p", "flags": ["ROOT_ONLY_CLEAR"]}]}', None),
        (IN_JSON, None),
        (IN_JSON.replace('"qos": {"allowed": "", "deny": ""', '"qos": {"allowed": "", "deny": "a"'),
         {"DeniedQos": ["a"]}),
    ],
)  # fmt: skip
def test_access(line: str, lists: dict[str, list[str]] | None) -> None:
    ad = queue(line)
    if lists is None:
        assert facts(ad, "LocalAccess", RULES) == [UNDEFINED, UNDEFINED]
        return
    assert facts(ad, "LocalAccess", RULES) == [[ClassAd(lists)], ["DENY:ALL"]]


def test_a_name_has_no_blank() -> None:
    line = f"PartitionName=p Allow\xb7Groups=ALL {ALL_QOS} DenyAccounts=ops State=UP"
    found = read_description("slurm", [("lines", line)])
    [ad] = found.queues
    assert facts(ad, "Name", RULES) == ["p", ["DENY:ALL"]]
    [issue] = said(found)
    assert issue.startswith("lines: partition p admits nobody")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"AllowGroups= {ALL_QOS}", "AllowGroups="),
        (f"AllowGroups=(null) {ALL_QOS}", "AllowGroups=(null)"),
        (f"AllowGroups=cms,,ops {ALL_QOS}", "AllowGroups=cms,,ops"),
        (f"AllowGroups=c\ufffdms {ALL_QOS}", "AllowGroups=c\ufffdms"),
        (f"AllowGroups=cms, {ALL_QOS}", "AllowGroups=cms,"),
        (f"AllowGroups=ALL AllowGroups=cms {ALL_QOS}", "AllowGroups=ALL=cms"),
        ("AllowGroups=ALL DenyAccounts=ada,eve All AllowQos=ALL", "DenyAccounts=ada,eve All"),
        ("AllowGroups=ALL DenyAccounts= AllowQos=ALL", "DenyAccounts="),
        ("AllowGroups=ALL DenyAccounts=(null) AllowQos=ALL", "DenyAccounts=(null)"),
        ("AllowGroups=ALL DenyAccounts=ALL AllowQos=ALL", "DenyAccounts=ALL"),
        (f"AllowGroups=ALL {ALL_QOS} DenyGroups=cms", "DenyGroups=cms"),
        (f"AllowGroups=ALL {ALL_QOS} AllowUsers=ada", "AllowUsers=ada"),
        ("RootOnly=YES AllowGroups=\x07", "AllowGroups=\x07"),
        ('{"partitions": [{"name": "p", "groups": {"allowed": {"x": "cms"}}}]}',
         "groups.allowed.x=cms"),
        ('{"partitions": [{"name": "p", "groups": {"allowed": "", "deny": "cms"}}]}',
         "groups.deny=cms"),
        ('{"partitions": [{"name": "p", "users": {"allowed": "ada"}}]}', "users.allowed=ada"),
        ('{"partitions": [{"name": "p", "denied_users": "ada"}]}', "denied_users=ada"),
        ('{"partitions": [{"name": "p", "flags": 7}]}', "flags=7"),
        ('{"partitions": [{"name": "p", "flags": [null]}]}', "flags=(null)"),
        ('{"partitions": [{"name": "p", "flags": ["root_only\\u2028"]}]}', "flags=root_only\u2028"),
        *(
            (f'{{"partitions": [{{"name": "p", {json.dumps(name)}: {value}}}]}}', f"{name}=(null)")
            for name in ("denied_accounts", "allowed_qos")
            for value in ("null", "[]", '[""]', "{}", '{"set": true, "number": ""}')
        ),
        *(
            (f'{{"partitions": [{{"name": "p", "qos": {{"deny": {value}}}}}]}}', "qos.deny=(null)")
            for value in ("null", "[]", '[""]', "{}", '{"set": true, "number": ""}')
        ),
        ('{"partitions": [{"name": "p", "groups": {"allowed": ["cms", null]}}]}',
         "groups.allowed=cms,(null)"),
    ],
)  # fmt: skip
def test_access_that_cannot_be_read_admits_nobody_and_says_so(line: str, said: str) -> None:
    ad = queue(line, f"lines: partition p admits nobody: {said} cannot be read")
    assert facts(ad, "LocalAccess", RULES) == [[ClassAd({"AllowedUsers": []})], ["DENY:ALL"]]


def test_a_partition_whose_line_is_cut_admits_nobody() -> None:
    for line in ("PartitionName=p", "PartitionName=p AllowGroups=ALL DenyAccou"):
        found = read_description("slurm", [("lines", line)])
        assert facts(found.queues[0], RULES) == [["DENY:ALL"]]
        assert "the end of the line, is missing" in said(found)[0]


@pytest.mark.parametrize(
    "text",
    [
        f"AllocNodes=ALL {ALL_QOS}",
        "AllowGroups=ALL Hidden=NO",
        '{"partitions": [{"name": "p", "allowed_allocation_nodes": "", "allowed_qos": ""}]}',
        '{"partitions": [{"name": "p", "nodes": {"allowed_allocation": ""}, "qos": {"deny": ""}}]}',
    ],
)
def test_a_list_that_is_missing_from_a_whole_answer_admits_nobody(text: str) -> None:
    said = "lines: partition p admits nobody: a list of groups, accounts or QOS is missing"
    assert queue(text, said).eval(RULES) == ["DENY:ALL"]


@pytest.mark.parametrize(
    ("output", "version", "old", "new", "lost"),
    [
        ("partitions in JSON", "0.0.44", '"deny": "evil"', '"dny": "evil"', "DeniedAccounts"),
        ("partitions in JSON", "0.0.44", '"qos": {"allowed": "", "deny"',
         '"qos": {"allowed": "", "dny"', "DeniedQos"),
        ("partitions in JSON", "0.0.44", '"qos": {"allowed"', '"qos": {"alowed"', "AllowedQos"),
        ("partitions in JSON", "0.0.38", "denied_accounts", "dnied_accounts", "DeniedAccounts"),
        ("partitions in JSON", "0.0.38", '"flags"', '"flag"', "flags"),
        ("scontrol show partition", "25.11", "RootOnly", "RotOnly", "RootOnly"),
    ],
)  # fmt: skip
def test_a_fact_on_access_that_is_missing_beside_others_admits_nobody(
    output: str, version: str, old: str, new: str, lost: str
) -> None:
    text = shape(output, version)
    assert old in text
    found = read_description("slurm", [("x", text.replace(old, new))])
    ad = by_name(found.queues)["short"]
    assert ad.eval("LocalAccess") == [ClassAd({"AllowedUsers": []})]
    assert f"x: partition short admits nobody: {lost} is missing" in said(found)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Comment=x AllowGroups=cms State=UP", "Allow or Deny=x AllowGroups=cms State=UP"),
        ("Reason=RootOnly=YES State=UP", "Allow or Deny=RootOnly=YES State=UP"),
    ],
)
def test_a_comment_in_a_partition_may_have_taken_in_its_lists(line: str, said: str) -> None:
    ad = queue(line, f"lines: partition p admits nobody: {said} cannot be read")
    assert ad.eval("LocalAccess") == [ClassAd({"AllowedUsers": []})]


def test_a_partition_that_may_be_for_root_alone_is() -> None:
    line = f"AllowGroups=ALL {ALL_QOS} RootOnly=NO RootOnly=YES"
    assert queue(line).eval("LocalAccess") == [ClassAd({"AllowedUsers": ["root"]})]


@pytest.mark.parametrize("version", ["14.03", "25.11"])
@given(data=st.data())
def test_no_damage_to_a_line_opens_a_partition(version: str, data: st.DataObject) -> None:
    """A piece is lost, and maybe another in its place: both partitions stay restricted."""
    lines = shape("scontrol show partition", version).split("\n")[:2]
    line = data.draw(st.sampled_from(lines))
    begin = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(begin, min(len(line), begin + 60)))
    piece = data.draw(st.sampled_from(["", "", " ", "=", "x", "\n", "\x00", "\ufffd", "Allow"]))
    try:
        found = read_description("slurm", [("x", line[:begin] + piece + line[end:])])
    except DescriptionError:
        return
    assert all(ad.eval(RULES) == ["DENY:ALL"] for ad in found.queues)


def test_an_error_of_slurm_is_reported() -> None:
    text = '{"errors": [{"error": "Unable to contact slurm controller"}], "nodes": []}'
    with pytest.raises(DescriptionError, match=r"^x: Slurm reports an error: Unable to contact"):
        read_description("slurm", [("x", text)])


def test_a_restricted_partition_admits_no_job_of_the_broker() -> None:
    from matchmaker import broker, parse_ad

    job = parse_ad('[ VirtualOrganisation = "cms"; Requirements = true; Rank = 1 ]')
    restricted = queue(f"AllowGroups=cms {ALL_QOS}")
    for ad in (restricted, queue(f"AllowGroups=ALL {ALL_QOS}")):
        ad["CEid"] = "ce:1/cream-slurm-p"
        assert bool(broker.choose(job, [ad]).ranked) is (ad is not restricted)


def test_a_partition_lists_its_nodes_where_they_do_not_say_theirs() -> None:
    lines = "".join(f"NodeName=n{number} State=IDLE CPUTot=1\n" for number in range(12))
    lines += "PartitionName=a Nodes=n[0-3,10],x\nPartitionName=b Nodes=(null)\n"
    lines += "PartitionName=c Nodes=n[01-11]\n"
    found = read_description("slurm", [("x", lines)])
    queues = {ad.eval("Name"): ad.eval("Queues") for ad in found.nodes}
    assert [name for name, mine in queues.items() if mine == ["a"]] == ["n0", "n1", "n2", "n3"]
    assert (queues["n10"], queues["n11"], queues["n4"]) == (["a", "c"], ["c"], [])


@pytest.mark.parametrize(
    ("state", "status"),
    [("UP", "Production"), ("DRAIN", "Draining"), ("INACTIVE", "Closed"), ("UPP", "Closed")],
)
def test_a_partition_in_a_state_that_is_not_known_is_closed(state: str, status: str) -> None:
    found = read_description("slurm", [("saved", f"PartitionName=p MaxTime=60 State={state}\n")])
    assert [queue.eval("GlueCEStateStatus") for queue in found.queues] == [status]


def test_a_load_that_is_not_set_is_unknown() -> None:
    nodes = [
        {"name": f"n{load}", "state": ["IDLE"], "cpu_load": load} for load in (150, 4294967294)
    ]
    found = read_description("slurm", [("saved", json.dumps({"nodes": nodes}))])
    assert [node.eval("GlueHostProcessorLoadLast1Min") for node in found.nodes] == [150, UNDEFINED]


def test_a_range_that_ends_before_it_begins_is_no_list_of_cpus() -> None:
    line = "NodeName=n CPUTot=8 CPUSpecList=5-3 State=IDLE\n"
    found = read_description("slurm", [("saved", line)])
    assert any("CPUSpecList='5-3'" in issue for issue in said(found))


def test_jobs_of_which_one_cannot_be_counted_are_unknown() -> None:
    jobs = [
        {"job_id": n, "partition": "p", "job_state": ["PENDING"], "array_task_string": tasks}
        for n, tasks in enumerate(("1,...", "1-3"))
    ]
    partitions = [{"name": "p", "partition": {"state": ["UP"]}}]
    text = json.dumps({"partitions": partitions, "jobs": jobs})
    [queue] = read_description("slurm", [("saved", text)]).queues
    assert queue.eval("GlueCEStateWaitingJobs") is UNDEFINED
    text = json.dumps({"partitions": partitions, "jobs": jobs[1:]})
    [queue] = read_description("slurm", [("saved", text)]).queues
    assert queue.eval("GlueCEStateWaitingJobs") == 3
