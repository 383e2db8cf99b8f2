"""What a worker node has: an ad of the machine, within what the batch system gave to the pilot."""

from __future__ import annotations

import os
import platform
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from matchmaker.classad import ClassAd
from matchmaker.pilots.node.slots import Resources
from matchmaker.pilots.node.task import MIB

_MEMORY: Final = (
    "/sys/fs/cgroup{group}/memory.max",
    "/sys/fs/cgroup/memory{group}/memory.limit_in_bytes",
)
_BATCH_CPUS: Final = ("SLURM_CPUS_ON_NODE", "NSLOTS", "PBS_NP", "LSB_DJOB_NUMPROC")


def resources(directory: Path, environment: Mapping[str, str]) -> Resources:
    """What the pilot's tasks may share: processors, memory, disk and GPUs.

    Args:
        directory: where they will run.
        environment: of the pilot, by which batch systems say what they gave it.

    The least of what the machine has, of the pilot's affinity, its control group (``cgroups(7)``),
    and the batch system's word counts.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for name in _BATCH_CPUS:
        if (said := environment.get(name, "")).isdigit() and int(said) > 0:
            cpus = min(cpus, int(said))
    given = environment.get("SLURM_MEM_PER_NODE", "")
    memory = min(_machine_memory(), _group_memory())
    if given.isdigit() and int(given) > 0:
        memory = min(memory, int(given) * MIB)
    return Resources(
        cpus=max(1, cpus), memory=memory // MIB, disk=shutil.disk_usage(directory).free // MIB,
        gpus=len(_gpus(environment)),
    )  # fmt: skip


def machine(
    applications: Mapping[str, tuple[str, ...]], given: ClassAd, environment: Mapping[str, str],
    ends: float | None = None,
) -> ClassAd:  # fmt: skip
    """The machine's ad, without what is free of it: that is in the ads of its slots.

    Args:
        applications: names, and the program with its first words of each.
        given: attributes that the site adds, which win.
        environment: of the pilot.
        ends: when its time is over, in seconds since the epoch; None where that is unknown.
    """
    there = [name for name, words in applications.items() if found(words)]
    said: dict[str, Any] = {
        "Machine": socket.gethostname(), "Arch": platform.machine(), "OpSys": platform.system(),
        "OpSysVer": platform.release(), "Applications": sorted(there),
    }  # fmt: skip
    if ends is not None:
        said["EndTime"] = int(ends)
    for name in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"):
        if name in environment:
            said["BatchJob"] = environment[name][:80]
    ad = ClassAd(said)
    for name in given:
        ad[name] = given[name]
    return ad


def found(words: tuple[str, ...]) -> bool:
    """Whether an application's program is here.

    >>> found(("/bin/sh", "-c")), found(("/nowhere/x",)), found(("handler:json:loads",))
    (True, False, True)
    """
    return bool(words) and (words[0].startswith("handler:") or shutil.which(words[0]) is not None)


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _group_memory() -> int:
    """The memory limit of the control group, and of those above it; a huge number for none."""
    least = 1 << 62
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return least
    for line in lines:
        _, controllers, group = line.split(":", 2)
        place = _MEMORY[1] if "memory" in controllers.split(",") else _MEMORY[0]
        at = Path(group)
        for each in (at, *at.parents):
            file = Path(place.format(group="" if str(each) == "/" else each))
            try:
                said = file.read_text().strip()
            except OSError:
                continue
            if said.isdigit():
                least = min(least, int(said))
    return least


def _gpus(environment: Mapping[str, str]) -> list[str]:
    given = environment.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [each for each in given.split(",") if each.strip() not in {"", "-1", "NoDevFiles"}]
    return [str(each) for each in Path("/dev").glob("nvidia[0-9]*")]
