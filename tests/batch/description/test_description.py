from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker import glue
from matchmaker._diagnostics import NOTE
from matchmaker._limits import BatchLimits
from matchmaker.batch import description
from matchmaker.batch.description import Description, DescriptionError, ask, read_description
from matchmaker.batch.description.records import Access, QueueRecord, both, either
from matchmaker.classad import UNDEFINED, ClassAd, parse_expr
from tests.batch.description import outputs, shapes


def described(lrms: str, *texts: str) -> Description:
    """What is made of some outputs, which come in one order and in the other."""
    named = [(f"output {number}", text) for number, text in enumerate(texts)]
    found, other = read_description(lrms, named), read_description(lrms, named[::-1])
    assert sorted(map(str, found.nodes)) == sorted(map(str, other.nodes))
    assert sorted(map(str, found.queues)) == sorted(map(str, other.queues))
    return found


def facts(ad: ClassAd, *names: str) -> list[Any]:
    return [parse_expr(name).eval(ad) for name in names]


def said(found: Description, *left_out: str) -> list[str]:
    """What is noted, each with the output that it is of, less what begins so."""
    noted = [issue for issue in found.issues if not issue.message.startswith(left_out)]
    return [f"{issue.source}: {issue.message}" for issue in noted]


def by_name(ads: tuple[ClassAd, ...]) -> dict[Any, ClassAd]:
    return {ad.eval("Name"): ad for ad in ads}


def test_pbs() -> None:
    found = described("pbspro", outputs.PBS_NODES, outputs.PBS_QUEUES)
    one, two = found.nodes
    assert facts(one, "Name", "Available", "Cpus", "FreeCpus") == ["wn1", True, 8, 5]
    assert facts(one, "Memory", "FreeMemory", "GPUs", "FreeGPUs") == [16000, 12000, 2, 1]
    assert facts(one, "Features", "Queues") == [["bigmem"], ["workq", "routing"]]
    assert facts(one, "Native.resources_available_mem") == ["16384000kb"]
    assert facts(two, "Available", "NodeState", "Queues") == [
        False, "offline,job-busy", ["special"],
    ]  # fmt: skip
    queues = by_name(found.queues)
    assert set(queues) == {"workq", "special", "routing"}
    work = queues["workq"]
    assert facts(work, "GlueCEStateStatus", "GlueCEPolicyMaxWallClockTime") == ["Production", 2880]
    assert facts(work, "GlueCEPolicyMaxCPUTime", "GlueCEPolicyMaxRunningJobs") == [1470, 100]
    assert facts(work, "GlueCEStateWaitingJobs", "GlueCEStateRunningJobs") == [9, 3]
    assert facts(work, "GlueCEInfoTotalCPUs", "GlueCEStateFreeCPUs") == [8, 5]
    assert queues["special"].eval("GlueCEStateStatus") == "Queueing"
    assert queues["special"].eval("GlueCEStateFreeCPUs") == 0


def test_what_is_in_use_and_no_number_leaves_nothing_known_to_be_free() -> None:
    node = {"state": "free", "resources_available": {"ncpus": 8, "mem": "16gb"},
            "resources_assigned": {"ncpus": "many", "mem": "some"}}  # fmt: skip
    [ad] = described("pbspro", json.dumps({"nodes": {"wn1": node}})).nodes
    assert facts(ad, "Cpus", "Memory") == [8, 16384]
    assert facts(ad, "FreeCpus", "FreeMemory") == [UNDEFINED, UNDEFINED]


def test_torque() -> None:
    found = described("torque", outputs.TORQUE_NODES, outputs.TORQUE_QUEUES)
    one, two = found.nodes
    assert facts(one, "Cpus", "FreeCpus", "Memory", "GPUs") == [8, 5, 16000, 1]
    assert facts(one, "Features", "Queues") == [["el8", "bigmem"], ["batch", "big"]]
    assert facts(one, "GlueHostArchitecturePlatformType", "GlueHostProcessorLoadLast1Min") == [
        "x86_64", 125,
    ]  # fmt: skip
    assert facts(two, "Available", "Memory", "Queues") == [False, UNDEFINED, ["batch"]]
    batch, big = found.queues
    assert facts(batch, "GlueCEPolicyMaxWallClockTime", "GlueCEStateWaitingJobs") == [1440, 2]
    assert facts(batch, "Native.acl_users") == ["ada,ben,cleo"]
    assert facts(big, "GlueCEStateStatus", "GlueCEInfoTotalCPUs") == ["Draining", 8]


def test_lsf() -> None:
    found = described("lsf", outputs.LSF_HOSTS, outputs.LSF_BATCH_HOSTS, outputs.LSF_QUEUES)
    nodes = by_name(found.nodes)
    assert set(nodes) == {"wn1", "wn2"}
    one, two = nodes["wn1"], nodes["wn2"]
    assert facts(one, "Cpus", "FreeCpus", "Memory") == [16, 11, 31948]
    assert one.eval("Disk") == 100 * 1024 * 1024
    # Others are all that a queue does not name.
    assert facts(one, "Features", "Queues") == [["mg", "el8", "bigmem"], ["normal", "night"]]
    assert facts(two, "Available", "Queues") == [False, ["normal", "night"]]
    assert facts(one, "GlueHostArchitecturePlatformType") == ["x86_64"]
    normal, night = by_name(found.queues)["normal"], by_name(found.queues)["night"]
    assert facts(normal, "GlueCEPolicyMaxWallClockTime", "GlueCEPolicyMaxRunningJobs") == [
        720, UNDEFINED,
    ]  # fmt: skip
    assert facts(night, "GlueCEStateStatus", "GlueCEPolicyMaxRunningJobs") == ["Queueing", 8]


def test_htcondor() -> None:
    found = described("htcondor", outputs.CONDOR_SLOTS, outputs.CONDOR_SCHEDDS)
    one, two = found.nodes
    assert facts(one, "Memory", "GlueHostMainMemoryRAMSize", "GlueHostArchitectureSMPSize") == [
        4000, 64000, 16,
    ]  # fmt: skip
    assert one.eval("Requirements", target=ClassAd({"RequestCpus": 4})) is False
    assert facts(one, "Available", "LRMSType") == [True, "htcondor"]
    assert facts(one, "GlueHostOperatingSystemName", "GlueHostOperatingSystemRelease") == [
        "AlmaLinux", "9.4",
    ]  # fmt: skip
    assert facts(two, "GlueHostOperatingSystemRelease") == [UNDEFINED]
    assert facts(two, "Available", "GlueHostMainMemoryRAMSize") == [False, 8000]
    assert facts(found.queues[0], "GlueCEStateTotalJobs", "GlueCEPolicyMaxRunningJobs") == [
        27, 5000,
    ]  # fmt: skip


def test_gridengine() -> None:
    found = described(
        "sge",
        outputs.GRIDENGINE_HOSTS,
        outputs.GRIDENGINE_USE,
        outputs.GRIDENGINE_QUEUES,
        outputs.GRIDENGINE_COMPLEXES,
    )
    one, two = found.nodes
    assert facts(one, "Cpus", "FreeCpus", "Memory", "FreeMemory") == [8, 6, 15974, 14848]
    assert facts(one, "Features", "Queues", "Available") == [["bigmem"], ["all.q"], True]
    assert facts(one, "GPUs") == [1]
    assert facts(two, "Cpus", "Available", "NodeState", "Memory") == [4, False, "au", UNDEFINED]
    (queue,) = found.queues
    assert facts(queue, "GlueCEPolicyMaxWallClockTime", "GlueCEPolicyMaxCPUTime") == [
        1440, 999999999,
    ]  # fmt: skip
    assert facts(queue, "GlueCEInfoTotalCPUs", "GlueCEStateFreeCPUs") == [12, 6]
    assert facts(queue, "Native.pe_list") == ["make smp mpi"]


def test_slurm_in_json() -> None:
    found = described("slurm", outputs.SLURM_JSON_NEW)
    one, two = found.nodes
    assert facts(one, "Cpus", "FreeCpus", "Memory", "FreeMemory") == [8, 5, 16000, 14000]
    assert facts(one, "GPUs", "FreeGPUs", "Available") == [2, 1, True]
    assert facts(one, "Features", "Queues") == [["el9", "si600"], ["long", "short"]]
    assert facts(one, "GlueHostProcessorLoadLast1Min", "GlueHostOperatingSystemName") == [
        150, "Linux",
    ]  # fmt: skip
    assert facts(two, "Available", "NodeState") == [False, "IDLE+DRAIN"]
    long, short = found.queues
    assert facts(long, "GlueCEPolicyMaxWallClockTime", "GlueCEStateStatus") == [2880, "Production"]
    assert facts(short, "GlueCEPolicyMaxWallClockTime", "GlueCEStateStatus") == [
        999999999, "Draining",
    ]  # fmt: skip


def test_slurm_in_lines() -> None:
    found = read_description("slurm", [("lines", outputs.SLURM_LINES)])
    three, four = found.nodes
    assert facts(three, "Name", "Available", "Cpus", "GPUs", "FreeGPUs") == ["wn3", False, 8, 2, 1]
    assert facts(three, "Memory", "GlueHostOperatingSystemName") == [32000, "Linux"]
    # What an admin writes as a reason is no attribute.
    assert facts(three, "Native.Reason") == ["disk full NodeName=evil State=IDLE [root@2026-11-21]"]
    assert facts(four, "Available", "Cpus", "FreeCpus") == [True, 2, UNDEFINED]
    (queue,) = found.queues
    assert facts(queue, "GlueCEStateRunningJobs", "GlueCEStateWaitingJobs") == [1, 1]
    assert facts(queue, "GlueCEPolicyMaxWallClockTime", "IsDefault") == [2880, True]
    expected = "a node, a partition, or a job as Job=%i Partition=%P State=%T has it"
    assert said(found) == [f"lines: expected {expected}, left out 'nonsense'"]


WRONG = {
    "pbspro": ["", "{}", "[]", '{"nodes": [1]}', "{", "x" * 100],
    "torque": ["<Data>", "<x/>", "[ Name = 1 ]\n[ Name = 2 ]", "<!DOCTYPE Data><Data/>"],
    "sge": ["<qhost>", "<Data/>", '<!DOCTYPE q [<!ENTITY a "b">]><qhost>&a;</qhost>'],
    "lsf": ["", "[]", '{"COMMAND": "rm"}', '{"COMMAND": "bhosts", "RECORDS": 5}'],
    "htcondor": ["{}", "x", "[" * 100_000],
    "htcondor-ce": ["{}", "x", "[" * 100_000],
    "slurm": ["<Data><Node><name>n</name></Node></Data>", "{", '{"nodes": 7}'],
}


@pytest.mark.parametrize(
    ("lrms", "text"), [(lrms, text) for lrms, texts in WRONG.items() for text in texts]
)
def test_an_output_of_something_else_is_an_error_that_names_it(lrms: str, text: str) -> None:
    with pytest.raises(DescriptionError, match=r"^saved: "):
        read_description(lrms, [("saved", text)])


@pytest.mark.parametrize(
    ("lrms", "before", "again", "after"),
    [
        ("slurm", '{"partitions": [{"name": "p", ', '"groups": {"allowed": "cms"}', "}]}"),
        ("slurm", '{"partitions": [{"name": "p", "groups": {', '"allowed": "cms"', "}}]}"),
        ("pbspro", '{"Queue": {"q": {"queue_type": "Execution", ', '"acl_users": "ada"', "}}}"),
        ("pbspro", '{"Queue": {', '"q": {"acl_users": "ada"}', "}}"),
        ("htcondor", '[{"MyType": "Machine", "Name": "s", ', '"START": false', "}]"),
        ("lsf", '{"COMMAND": "bqueues", "RECORDS": [{"QUEUE_NAME": "q", ', '"USERS": "ada"', "}]}"),
    ],
)
def test_two_values_of_a_name_in_json_are_an_error(
    lrms: str, before: str, again: str, after: str
) -> None:
    """The last one alone would hide the list of users before it."""
    for more in ("", f", {again}"):
        read_description(lrms, [("saved", f"{before}{again}{more}{after}")])
    other = f'{again.partition(":")[0]}: "x"'
    for pair in (f"{again}, {other}", f"{other}, {again}"):
        with pytest.raises(DescriptionError, match="has two values in one object"):
            read_description(lrms, [("saved", f"{before}{pair}{after}")])


def test_names_that_come_to_one_are_both_doubted() -> None:
    """A name with a dot is that of an object's field, and LSF's names have any case."""
    partition = {"name": "p", "groups": {"allowed": "cms"}, "groups.allowed": ""}
    queue = {"QUEUE_NAME": "q", "USERS": "ada", "users": "all"}
    for lrms, data in (
        ("slurm", {"partitions": [partition]}),
        ("lsf", {"COMMAND": "bqueues", "RECORDS": [queue]}),
    ):
        found = read_description(lrms, [("saved", json.dumps(data))])
        assert facts(found.queues[0], "LocalAccess") == [[ClassAd({"AllowedUsers": []})]]
        assert found.issues


def test_hosts_of_lsf_whose_names_were_cut_are_refused() -> None:
    records = [{"HOST_NAME": "a-host-with-a-long-n", "ncpus": cpus} for cpus in ("4", "64")]
    for command in ("lshosts", "bhosts"):
        text = json.dumps({"COMMAND": command, "RECORDS": records})
        with pytest.raises(DescriptionError, match="two hosts are named 'a-host-with-a-long-n'"):
            read_description("lsf", [("saved", text)])
        text = json.dumps({"COMMAND": command, "RECORDS": [records[0], records[0]]})
        assert len(read_description("lsf", [("saved", text)]).nodes) == 1


def test_two_of_a_name_and_none() -> None:
    twice = [("a", outputs.PBS_NODES), ("b", outputs.SLURM_JSON_NEW)]
    with pytest.raises(DescriptionError, match="two nodes are named wn1"):
        read_description("slurm", [twice[1], twice[1]])
    with pytest.raises(DescriptionError, match="sge: queue 1 has no name"):
        read_description("sge", [("qconf", "qname\nuser_lists NONE\n")])
    with pytest.raises(DescriptionError, match="node 1 has no name"):
        read_description("torque", [("a", "<Data><Node><np>1</np></Node></Data>")])
    with pytest.raises(ValueError, match="unknown batch system 'lfs'"):
        read_description("lfs", [])


_ALL = [
    ("slurm", outputs.SLURM_JSON_NEW),
    ("slurm", outputs.SLURM_LINES),
    *(
        (lrms, text)
        for lrms, found in shapes.SHAPES.items()
        for texts in found.values()
        for text in texts.values()
    ),
]


@given(st.sampled_from(_ALL), st.data())
def test_broken_outputs_give_a_description_or_an_error(case: tuple[str, str], data: Any) -> None:
    """A piece cut out and another put in: whatever comes of it is said in words."""
    lrms, text = case
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(len(text), begin + 40)))
    piece = data.draw(st.text(max_size=6) | st.sampled_from(["null", "[]", "{}", "-1", "9" * 400]))
    try:
        found = read_description(lrms, [("saved", text[:begin] + piece + text[end:])])
    except DescriptionError:
        return
    for ad in (*found.nodes, *found.queues):
        assert isinstance(ad.eval("Name"), str)
        for name in ad:
            ad.eval(name)


UNKNOWN = ("(null)", "-", "", "Infinity")
ODD = (
    "-4",
    "NaN",
    "abc",
    "9" * 5000,
    "12Q",
    "0x10",
    "\uff11",
    "1e999",
    *UNKNOWN,
)
SIZES = ("Cpus", "FreeCpus", "Memory", "FreeMemory", "Disk", "GPUs", "FreeGPUs",
         "GlueCEInfoTotalCPUs", "GlueCEStateFreeCPUs", "GlueCEStateRunningJobs",
         "GlueCEStateWaitingJobs", "MaxCpusPerNode", "MaxMemoryPerNode", "MaxMemoryPerCpu",
         "GlueCEPolicyMaxWallClockTime", "GlueCEPolicyMaxCPUTime")  # fmt: skip
VALUE = re.compile(r"""(?<=[:=>\s'"])-?\d[\w.:]*(?=[,\s<"'}\]]|$)""")
OF_ADS = ("htcondor", "htcondor-ce")
NUMBERS = [case for case in _ALL if case[0] not in OF_ADS and VALUE.search(case[1])]


@given(st.sampled_from(NUMBERS), st.sampled_from(ODD), st.data())
def test_a_number_that_is_damaged_is_unknown_or_an_error(
    case: tuple[str, str], odd: str, data: Any
) -> None:
    """One number of an output is another word: no size is negative, and none lost unsaid."""
    lrms, text = case
    whole = read_description(lrms, [("saved", text)])
    before = by_name((*whole.nodes, *whole.queues))
    places = list(VALUE.finditer(text))
    place = places[data.draw(st.integers(0, len(places) - 1))]
    try:
        found = read_description(
            lrms, [("saved", text[: place.start()] + odd + text[place.end() :])]
        )
    except DescriptionError:
        return
    for ad in (*found.nodes, *found.queues):
        for name in SIZES:
            value = ad.eval(name)
            assert value is UNDEFINED or (isinstance(value, int) and value >= 0), (name, value)
            known = before.get(ad.eval("Name"), ad).eval(name)
            if value is UNDEFINED and known is not UNDEFINED and odd not in UNKNOWN:
                assert any(issue.severity != NOTE for issue in found.issues), name
    for issue in found.issues:
        assert issue.source == "saved"
        assert len(issue.message) < 600


LOAD, WALL = "GlueHostProcessorLoadLast1Min", "GlueCEPolicyMaxWallClockTime"


@pytest.mark.parametrize(
    ("lrms", "text", "unknown"),
    [
        ("slurm", "NodeName=n CPULoad=1e307 State=IDLE TmpDisk=999999999999999999 Gres=gpu:9999",
         [LOAD, "Disk"]),
        ("slurm", '{"nodes": [{"name": "n", "cpu_load": -1e999}]}', [LOAD]),
        ("slurm", '{"partitions": [{"name": "n", "maximums": {"time": 1e999}}]}', [WALL]),
        ("lsf", '{"COMMAND": "bqueues", "RECORDS": [{"QUEUE_NAME": "n", "RUNLIMIT": "'
                + "9" * 400 + '"}]}', [WALL]),
        ("sge", ("<qhost><host name='n'><hostvalue name='load_avg'>1e307</hostvalue>"
                "<resourcevalue name='gpu'>1e300</resourcevalue></host></qhost>"),
         [LOAD, "GPUs"]),
    ],
)  # fmt: skip
def test_numbers_beyond_all_measure_are_unknown(lrms: str, text: str, unknown: list[str]) -> None:
    found = read_description(lrms, [("saved", text)])
    (ad,) = (*found.nodes, *found.queues)
    assert ad.eval("Name") == "n"
    assert facts(ad, *unknown) == [UNDEFINED] * len(unknown)


@pytest.mark.parametrize(
    ("lrms", "text", "finding"),
    [
        ("slurm", "NodeName=n CPUTot=-4 State=IDLE",
         "node n: CPUTot='-4': expected a whole number from 0; it counts as unknown"),
        ("slurm", "NodeName=n RealMemory=abc State=IDLE",
         "node n: RealMemory='abc': expected a whole number from 0; it counts as unknown"),
        ("slurm", "NodeName=n MemSpecLimit=abc RealMemory=9 State=IDLE",
         "node n: MemSpecLimit='abc': expected a whole number from 0; it counts as unknown"),
        ("slurm", "NodeName=n CPUTot=4 CPUSpecList=some State=IDLE",
         ("node n: CPUSpecList='some': expected numbers of CPUs such as 0-1,8;"
          " it counts as unknown")),
        ("slurm", "NodeName=n Gres=gpu:a100:-2 State=IDLE",
         ("node n: Gres='gpu:a100:-2': expected generic resources such as gpu:a100:2;"
          " it counts as unknown")),
        ("slurm", "NodeName=n CPUTot=4",
         "node n has no State: it is taken for one that takes no jobs"),
        ("slurm", ('{"sinfo": [{"nodes": {"nodes": ["n"]}, "cpus": {"minimum": 4, "maximum": NaN},'
                   ' "node": {"state": ["IDLE"]}, "partition": {"name": "p"}}]}'),
         "node n: cpus='4 to NaN': expected a whole number from 0; it counts as unknown"),
        ("slurm", '{"partitions": [{"name": "p", "maximums": {"memory_per_cpu": -4}}]}',
         ("partition p: maximums.memory_per_cpu='-4': expected a whole number of MB;"
          " it counts as unknown")),
        ("slurm", "PartitionName=p MaxTime=soon State=UP",
         "partition p: MaxTime='soon': expected a time such as 24:00:00; it counts as unknown"),
        ("slurm", "PartitionName=p MaxMemPerNode=1G State=UPP",
         "partition p: State='UPP': expected UP, DOWN, DRAIN or INACTIVE; it counts as closed"),
        ("slurm", "PartitionName=p State=UP\nJob=1 Partition=p Stat",
         "a job has no State: it is not counted"),
        ("slurm", '{"nodes": [{"name": "n", "state": ["IDLE"], "cpus": NaN}]}',
         "node n: cpus='NaN': expected a whole number from 0; it counts as unknown"),
        ("slurm", ('{"nodes": [{"name": "n", "state": "idle", "real_memory": {"set": true, '
                   '"infinite": false, "number": -Infinity}}]}'),
         "node n: real_memory='-Infinity': expected a whole number from 0; it counts as unknown"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_read_is_a_finding(lrms: str, text: str, finding: str) -> None:
    found = read_description(lrms, [("saved", text)])
    assert f"saved: {finding}" in said(found)


def test_a_field_that_many_records_have_wrong_is_one_finding() -> None:
    lines = "".join(f"NodeName=n{number} CPUTot=x State=IDLE\n" for number in range(300))
    found = read_description("slurm", [("saved", lines)])
    [issue] = found.issues
    assert issue.message == (
        "node n0: CPUTot='x': expected a whole number from 0; it counts as unknown;"
        " such values: 300"
    )
    assert (issue.rule, issue.attribute, issue.raw, issue.count) == (
        "describe.value", "CPUTot", "x", 300,
    )  # fmt: skip


@pytest.mark.parametrize("keep", [40, 300, 420])
def test_an_output_that_is_cut_within_a_record_is_a_finding(keep: int) -> None:
    lines = shapes.SHAPES["slurm"]["scontrol show node"]["25.11"]
    first, second, _ = lines.split("\n")
    cut = read_description("slurm", [("saved", f"{first}\n{second[:keep]}")])
    assert any("node wn02" in issue for issue in said(cut))
    assert read_description("slurm", [("saved", lines.rstrip())]).issues == ()


@pytest.mark.parametrize(
    ("lrms", "output", "version"),
    [
        ("slurm", "nodes in JSON", "0.0.44"), ("pbspro", "pbsnodes -a -F json", "22.05"),
        ("torque", "pbsnodes -x", "6.1"), ("sge", "qhost -F -q -xml", "8.1.9"),
        ("lsf", "bhosts -o … -json", "10.1"),
    ],
)  # fmt: skip
def test_a_document_that_is_cut_is_an_error_that_says_so(
    lrms: str, output: str, version: str
) -> None:
    text = shapes.SHAPES[lrms][output][version].rstrip()
    for size in (len(text) // 3, len(text) // 2, len(text) - 1):
        with pytest.raises(DescriptionError, match=r"^saved: .*: is the output cut"):
            read_description(lrms, [("saved", text[:size])])


def test_not_a_number_in_an_ad_is_a_finding() -> None:
    text = '[{"MyType": "Machine", "Name": "s", "Cpus": NaN, "Memory": 5}]'
    found = read_description("htcondor", [("saved", text)])
    assert facts(found.nodes[0], "Cpus", "Memory") == [UNDEFINED, 5]
    assert said(found) == [
        "saved: NaN was found where JSON has a value: the attribute is undefined"
    ]


def test_lists_in_lists_are_shortened() -> None:
    text = '{"nodes": [{"name": "n", "x": ' + "[" * 700 + "]" * 700 + "}]}"
    (ad,) = read_description("slurm", [("saved", text)]).nodes
    assert facts(ad, "Native.x") == ["..."]


def test_a_line_that_continues_nothing_is_left_out() -> None:
    text = "Queue: a\n    x = 1\nQueue: b\n    y = 2\nQueue: c\n\tfoo\n"
    found = read_description("torque", [("saved", text)])
    assert [ad.eval("Name") for ad in found.queues] == ["a", "b", "c"]
    assert facts(by_name(found.queues)["c"], "Native") == [ClassAd()]


def test_commands_are_asked_without_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(["printf", "%s", "$(id); `id`"]) == "$(id); `id`"
    with pytest.raises(DescriptionError, match="no-such-command-here: no such command here"):
        ask(["no-such-command-here"])
    fails = [sys.executable, "-c", "import sys; sys.exit('slurm_load_node error')"]
    with pytest.raises(DescriptionError, match="status 1: slurm_load_node error"):
        ask(fails)
    monkeypatch.setattr(description, "LIMITS", BatchLimits(describe_output=1000))
    with pytest.raises(DescriptionError, match="too much output"):
        ask([sys.executable, "-c", "print('x' * 10000)"])
    monkeypatch.setattr(description, "LIMITS", BatchLimits(describe_seconds=0.2))
    with pytest.raises(DescriptionError, match=r"did not end within"):
        ask(["sh", "-c", "exec >&- 2>&-; exec sleep 60"])
    with pytest.raises(DescriptionError, match=r"did not end within"):
        ask([sys.executable, "-c", "import time; time.sleep(60)"])


def test_describe_asks_the_commands_it_names() -> None:
    answers = dict(
        zip(
            description.commands("lsf"),
            (outputs.LSF_HOSTS, outputs.LSF_BATCH_HOSTS, outputs.LSF_QUEUES, shapes.LSF_GROUPS),
            strict=True,
        )
    )
    found = description.describe("lsf", lambda argv: answers[tuple(argv)])
    assert len(found.nodes) == 2
    assert json.loads(outputs.LSF_QUEUES)["QUEUES"] == len(found.queues)


def test_a_command_that_is_not_needed_may_fail() -> None:
    answers = dict(
        zip(
            description.commands("lsf"),
            (outputs.LSF_HOSTS, outputs.LSF_BATCH_HOSTS, outputs.LSF_QUEUES),
            strict=False,
        )
    )

    def ask(argv: Sequence[str]) -> str:
        if tuple(argv) not in answers:
            raise DescriptionError(f"{argv[0]}: it failed with status 255: No host group found")
        return answers[tuple(argv)]

    assert len(description.describe("lsf", ask).nodes) == 2
    del answers[description.commands("lsf")[0]]
    with pytest.raises(DescriptionError, match="lshosts: it failed"):
        description.describe("lsf", ask)


@pytest.mark.parametrize("lrms", ["slurm", "torque", "sge", "htcondor"])
def test_an_empty_output_is_no_description(lrms: str) -> None:
    with pytest.raises(DescriptionError, match="the output is empty"):
        read_description(lrms, [("first", ""), ("second", " \n")])
    with pytest.raises(DescriptionError, match="the output is empty"):
        description.describe(lrms, lambda _: "")


def test_names_within_names_do_not_swell() -> None:
    told = {"x" * 2000: {str(number): 1 for number in range(100)}, "state": "free"}
    found = read_description("pbspro", [("nodes", json.dumps({"nodes": {"n": told}}))])
    assert found.nodes[0].eval("NodeState") == "free"
    native = found.nodes[0].eval("Native")
    assert isinstance(native, ClassAd)
    assert list(native) == ["state"]


@pytest.mark.parametrize(
    ("lrms", "text"),
    [
        ("pbspro", '{"nodes": {}' + "\n" * 200_000 + "}"),
        ("pbspro", "n1\n  state = free\n  comment = x\n" + "\tmore\n" * 500_000),
        ("torque", "n1\n  state = free\n" + "  comment = x\n\tmore\n" * 300_000),
        ("slurm", "PartitionName=p " + "AllowGroups=a AllowGroups=b " * 500_000),
        ("slurm", "NodeName=n State=IDLE CPUTot=8 CPUSpecList=" + "0-65535," * 50_000 + "0\n"),
    ],
    ids=["blank lines", "a long value", "values that come again", "lists", "numbers of CPUs"],
)
def test_the_work_grows_with_the_output_alone(lrms: str, text: str) -> None:
    assert len(read_description(lrms, [("x", text)]).nodes) <= 1


def test_what_continues_a_value_that_came_before_is_not_of_the_first() -> None:
    found = described("torque", "n1\n  state = free\n  np = 4\n  np = 8\n\t0\n")
    assert facts(found.nodes[0], "Cpus") == [4]


# --- whom queues admit: together never more than each ---------------------------------------------

NAMES = st.sampled_from("abc")
LISTS = st.dictionaries(
    st.sampled_from(["AllowedUsers", "AllowedGroups", "DeniedUsers", "DeniedGroups"]),
    st.lists(NAMES, max_size=3).map(tuple),
    min_size=1,
)
ACCESS = st.lists(LISTS, max_size=3).map(tuple)


def admits(access: Access, names: set[str]) -> bool:
    """Whether an organisation whose jobs run under some names is admitted to a queue."""
    queue = QueueRecord(name="q", lrms="x", status=None, access=access)
    [ad] = glue.admit([queue.ad()], ["vo"], {"vo": sorted(names)})
    return ad.eval("GlueCEAccessControlBaseRule") == ["VO:vo"]


@given(ACCESS, ACCESS, st.sets(NAMES, min_size=1))
def test_both_admit_no_more_than_each(one: Access, other: Access, names: set[str]) -> None:
    together = admits(both(one, other), names)
    separately = admits(one, names) and admits(other, names)
    assert separately or not together
    if len(names) == 1:
        assert together == separately


@given(st.lists(ACCESS, max_size=3), st.sets(NAMES, min_size=1))
def test_either_admits_whom_one_admits(several: list[Access], names: set[str]) -> None:
    assert admits(either(several), names) is any(admits(one, names) for one in several)
