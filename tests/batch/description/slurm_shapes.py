"""One small cluster as each version of Slurm prints it: lines, and JSON of each form."""

from __future__ import annotations

import json
from typing import Any

NODES = ({"name": "wn1", "cpus": 8, "used": 3, "state": "MIXED", "flags": ("CLOUD",), "gpus": 2,
          "memory": 16000, "taken": 2000, "features": ("el9", "si600"), "load": 150,
          "partitions": ("long", "short")},
         {"name": "wn02", "cpus": 4, "used": 0, "state": "IDLE", "flags": ("DRAIN",), "gpus": 0,
          "memory": 8000, "taken": 0, "features": (), "load": 0, "partitions": ("long",)},
         )  # fmt: skip
PARTITIONS = ({"name": "long", "cpus": 12, "tier": 5, "minutes": 2880, "state": "UP",
               "groups": "cms,ops", "deny": "", "nodes": "wn1,wn[01-03]", "default": True,
               "of_node": 4, "megabytes": 3000, "of_cpu": None},
              {"name": "short", "cpus": 8, "tier": 1, "minutes": None, "state": "DRAIN",
               "groups": "", "deny": "evil", "nodes": "wn1", "default": False,
               "of_node": None, "megabytes": None, "of_cpu": 500})  # fmt: skip
JOBS = (("long", "RUNNING", ""), ("long,short", "PENDING", "1-9:2,20%3"), ("short", "PENDING", ""))


def _tres(node: dict[str, Any], *, used: bool) -> str:
    cpus, memory = ("used", "taken") if used else ("cpus", "memory")
    if used and not node["used"]:
        return ""
    gpus = node["gpus"] and (1 if used else node["gpus"])
    more = f",gres/gpu={gpus}" if gpus else ""
    return f"cpu={node[cpus]},mem={node[memory]}M{more}" + ("" if used else ",billing=8")


def _gres(node: dict[str, Any], *, used: bool, nothing: str) -> str:
    if not node["gpus"]:
        return "gpu:0" if used else nothing
    return "gpu:a100:1(IDX:0)" if used else "gpu:a100:2(S:0-1)"


def node_lines(version: str) -> str:
    """``scontrol --details --oneliner show node``."""
    return "".join(_node_line(version, node) + "\n" for node in NODES)


def _node_line(version: str, node: dict[str, Any]) -> str:
    state = "+".join((node["state"], *node["flags"]))
    features = ",".join(node["features"]) or "(null)"
    gres = _gres(node, used=False, nothing="(null)")
    begin = f"NodeName={node['name']} Arch=x86_64 CoresPerSocket=4 CPUAlloc={node['used']} "
    middle = (
        f"NodeAddr={node['name']} NodeHostName={node['name']} Version={version} "
        "OS=Linux 5.14.0 #1 SMP a=b "
        f"RealMemory={node['memory']} AllocMem={node['taken']} Sockets=2 Boards=1 "
    )
    if version == "14.03":
        return (
            f"{begin}CPUErr=0 CPUTot={node['cpus']} CPULoad={node['load'] / 100} "
            f"Features={features} Gres={gres} {middle}State={state} ThreadsPerCore=1 TmpDisk=500 "
            "Weight=1 BootTime=2026-11-21T10:00:00 CurrentWatts=0 LowestJoules=0"
        )
    return (
        f"{begin}CPUEfctv={node['cpus']} CPUTot={node['cpus']} CPULoad={node['load'] / 100} "
        f"AvailableFeatures={features} ActiveFeatures={features} Gres={gres} GresDrain=N/A "
        f"GresUsed={_gres(node, used=True, nothing='')} {middle}State={state} ThreadsPerCore=1 "
        f"TmpDisk=500 Weight=1 Owner=N/A MCS_label=N/A Partitions={','.join(node['partitions'])} "
        f"BootTime=2026-11-21T10:00:00 CfgTRES={_tres(node, used=False)} "
        f"AllocTRES={_tres(node, used=True)} CurrentWatts=0 AveWatts=0"
    )


def partition_lines(version: str) -> str:
    """``scontrol --oneliner show partition``."""
    return "".join(_partition_line(version, one) + "\n" for one in PARTITIONS)


def _partition_line(version: str, one: dict[str, Any]) -> str:
    time = "UNLIMITED" if one["minutes"] is None else "2-00:00:00"
    accounts = f"DenyAccounts={one['deny']}" if one["deny"] else "AllowAccounts=ALL"
    old = version == "14.03"
    tier = f"Priority={one['tier']}" if old else f"PriorityJobFactor=1 PriorityTier={one['tier']}"
    return (
        f"PartitionName={one['name']} AllowGroups={one['groups'] or 'ALL'} {accounts} AllowQos=ALL "
        f"AllocNodes=ALL Default={'YES' if one['default'] else 'NO'} QoS=N/A DefaultTime=NONE "
        f"DisableRootJobs=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime={time} MinNodes=0 "
        f"LLN=NO MaxCPUsPerNode={one['of_node'] or 'UNLIMITED'} Nodes={one['nodes']} {tier} "
        f"RootOnly=NO ReqResv=NO State={one['state']} TotalCPUs={one['cpus']} TotalNodes=2 "
        f"{_memory(one)}"
    )


def _memory(one: dict[str, Any]) -> str:
    if one["of_cpu"]:
        return f"DefMemPerNode=UNLIMITED MaxMemPerCPU={one['of_cpu']}"
    return f"DefMemPerNode=UNLIMITED MaxMemPerNode={one['megabytes'] or 'UNLIMITED'}"


def job_lines(_: str) -> str:
    """``squeue --noheader --array`` in our format."""
    lines = ["Job=1 Partition=long State=RUNNING", "Job=9 Partition=short State=PENDING"]
    return "\n".join([*lines, *["Job=2_1 Partition=long,short State=PENDING"] * 6]) + "\n"


def _minor(version: str) -> int:
    return int(version.rpartition(".")[2])


def nodes_json(version: str) -> str:
    """The nodes of slurmrestd, with much left out."""
    return _answer(version, "nodes", [_node_json(_minor(version), node) for node in NODES])


def _node_json(minor: int, node: dict[str, Any]) -> dict[str, Any]:
    listed = list(node["features"])
    features = ",".join(listed) if minor <= 38 else listed
    made: dict[str, Any] = {
        "architecture": "x86_64", "burstbuffer_network_address": "", "boards": 1, "comment": "",
        "cores": 4, "cpu_load": node["load"], "cpus": node["cpus"], "features": features,
        "active_features": features, "gres": _gres(node, used=False, nothing=""),
        "gres_drained": "N/A", "gres_used": _gres(node, used=True, nothing=""),
        "name": node["name"], "operating_system": "Linux 5.14.0 #1 SMP",
        "partitions": list(node["partitions"]), "real_memory": node["memory"],
        "temporary_disk": 500, "tres": _tres(node, used=False), "alloc_memory": node["taken"],
        "alloc_cpus": node["used"],
        "tres_used": _tres(node, used=True) or (None if minor <= 39 else ""),
    }  # fmt: skip
    if minor <= 38:
        # Version 0.0.37 has other words for some flags.
        flags = [{"DRAIN": "DRAINING"}.get(f, f) if minor == 37 else f for f in node["flags"]]
        flags = [flag for flag in flags if minor == 38 or flag != "CLOUD"]
        state = {"state": node["state"].lower(), "state_flags": flags}
        idle = {"idle_cpus": node["cpus"] - node["used"], "free_memory": 12000}
        return {**made, **state, **idle}
    made |= {"state": [node["state"], *node["flags"]], "free_mem": _number(12000)}
    made["alloc_idle_cpus"] = node["cpus"] - node["used"]
    if minor >= 39:
        made |= {"effective_cpus": node["cpus"], "specialized_memory": 0, "specialized_cpus": ""}
    return made


def _number(value: int | None) -> dict[str, Any]:
    return {"set": value is not None, "infinite": value is None, "number": value or 0}


def partitions_json(version: str) -> str:
    """The partitions of slurmrestd, with much left out."""
    minor = _minor(version)
    return _answer(version, "partitions", [_partition_json(minor, one) for one in PARTITIONS])


def _partition_json(minor: int, one: dict[str, Any]) -> dict[str, Any]:
    if minor <= 38:
        state = one["state"]
        numbers = {"UP": 3, "DRAIN": 2}
        return {
            "flags": ["default"] if one["default"] else [], "preemption_mode": ["disabled"],
            "allowed_allocation_nodes": "", "allowed_accounts": "",
            "allowed_groups": one["groups"], "allowed_qos": "", "alternative": "",
            "denied_accounts": one["deny"], "denied_qos": "", "default_time_limit": None,
            "max_time_limit": -1 if one["minutes"] is None else one["minutes"],
            "name": one["name"], "nodes": one["nodes"], "priority_tier": one["tier"],
            "total_cpus": one["cpus"], "total_nodes": 2,
            "maximum_cpus_per_node": one["of_node"] or -1,
            "maximum_memory_per_node": one["megabytes"],
            **({"nodes_online": numbers[state]} if minor == 37 else {"state": state}),
            # Version 0.0.37 has a number for either, with a bit that says for which.
            **({"maximum_memory_per_node": _either(one)} if minor == 37
               else {"maximum_memory_per_cpu": one["of_cpu"]}),
        }  # fmt: skip
    return {
        "nodes": {"allowed_allocation": "", "configured": one["nodes"], "total": 2},
        "accounts": {"allowed": "", "deny": one["deny"]},
        "groups": {"allowed": one["groups"]},
        "qos": {"allowed": "", "deny": "", "assigned": ""},
        "alternate": "", "tres": {"billing_weights": "", "configured": f"cpu={one['cpus']}"},
        "cluster": "", "cpus": {"task_binding": 0, "total": one["cpus"]},
        "defaults": {"memory_per_cpu": 0, "time": _number(None), "job": ""},
        "maximums": {
            "cpus_per_node": _number(one["of_node"]), "time": _number(one["minutes"]),
            **({"memory_per_cpu": _either(one)} if minor < 45 else {}),
            **({} if minor == 39 else {
                "partition_memory_per_cpu": _number(one["of_cpu"]),
                # One that is not set may be 0, too.
                "partition_memory_per_node": {"set": True, "infinite": False,
                                              "number": one["megabytes"] or 0},
            }),
        },
        "minimums": {"nodes": 0}, "name": one["name"],
        "priority": {"job_factor": 1, "tier": one["tier"]},
        "partition": {"state": [one["state"]]},
        # Flags are back since version 26.05 of Slurm.
        **({} if minor < 45 else {"flags": ["DEFAULT"] if one["default"] else []}),
    }  # fmt: skip


def _either(one: dict[str, Any]) -> int:
    return one["of_cpu"] - (1 << 63) if one["of_cpu"] else one["megabytes"] or 0


def sinfo_json(version: str, *, by_node: bool = False) -> str:
    """``sinfo --json``: an entry for the nodes of a partition that are in one state.

    With ``--Node`` there is an entry for each node of a partition.
    """
    entries = []
    for one in PARTITIONS:
        mine = [node for node in NODES if str(one["name"]) in str(node["partitions"])]
        if not by_node:  # each partition has an entry, even if no node is in it
            entries.append(_sinfo_entry(_minor(version), one, None))
        entries += [_sinfo_entry(_minor(version), one, node) for node in mine]
    return _answer(version, "sinfo", entries)


def _sinfo_entry(minor: int, one: dict[str, Any], node: dict[str, Any] | None) -> dict[str, Any]:
    of = node or {"cpus": 0, "used": 0, "memory": 0, "taken": 0, "load": 0, "features": ()}
    idle = of["cpus"] - of["used"]

    def both(value: int) -> dict[str, Any]:
        return {"minimum": value, "maximum": value}

    made: dict[str, Any] = {
        "port": 0, "node": {"state": [node["state"], *node["flags"]] if node else []},
        "nodes": {"allocated": 0, "idle": 0, "other": 0, "total": int(bool(node)),
                  "hostnames": [], "addresses": [], "nodes": [node["name"]] if node else []},
        "cpus": {"allocated": of["used"], "idle": idle, "other": 0, "total": of["cpus"],
                 **both(of["cpus"]), "load": both(of["load"]), "per_node": {"max": _number(None)}},
        "sockets": both(2), "cores": both(4), "threads": both(1), "weight": both(1),
        "disk": both(500 if node else 0),
        "memory": {**both(of["memory"]), "allocated": of["taken"],
                   "free": {"minimum": _number(None), "maximum": _number(None)}},
        "features": {"total": ",".join(of["features"]), "active": ",".join(of["features"])},
        "gres": {"total": _gres(node, used=False, nothing="") if node else "",
                 "used": _gres(node, used=True, nothing="") if node else ""},
        "cluster": "", "comment": "", "extra": "", "reservation": "",
        "reason": {"description": "", "time": 0, "user": ""},
        "partition": _partition_json(minor, one),
    }  # fmt: skip
    # Later releases of 25.11 say here what a node keeps.
    return made | ({"resource_spec": {"cpus": "", "memory": 0}} if minor >= 43 else {})


def listed(text: str, name: str) -> str:
    """The list in an answer, as Slurm-web hands it on."""
    return json.dumps(json.loads(text)[name])


def jobs_json(version: str) -> str:
    """The jobs of slurmrestd, with most left out."""
    old = _minor(version) <= 39
    jobs = [
        {"job_id": number, "partition": partition, "job_state": state if old else [state],
         "array_task_string": tasks}
        for number, (partition, state, tasks) in enumerate(JOBS, 1)
    ]  # fmt: skip
    return _answer(version, "jobs", jobs)


def _answer(version: str, name: str, entries: list[dict[str, Any]]) -> str:
    meta = {"plugin": {"type": f"openapi/v{version}", "name": f"Slurm OpenAPI v{version}"}}
    return json.dumps({"meta": meta, "errors": [], name: entries})
