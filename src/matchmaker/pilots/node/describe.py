"""A worker node within the limits of its batch system: an ad of the machine, and the time left.

How long the batch system lets a pilot run is read from its environment variables and its files. If
neither says it, a command of the batch system is run. A limit that counts from the start of the job
counts from now if the start is not known, because a job starts its pilot first.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from matchmaker.classad import ClassAd, ParseError, parse_ads
from matchmaker.pilots.node.slots import NodeResources
from matchmaker.pilots.node.task import MIB

_MEMORY: Final = (
    "/sys/fs/cgroup{group}/memory.max",
    "/sys/fs/cgroup/memory{group}/memory.limit_in_bytes",
)
_BATCH_CPUS: Final = ("SLURM_CPUS_ON_NODE", "NSLOTS", "PBS_NP", "LSB_DJOB_NUMPROC")
Read = Callable[[str], str]
Ask = Callable[[Sequence[str]], str]
_NUMBER: Final = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*\Z")
_CLOCK: Final = re.compile(r"(?:(\d{1,6})-)?(\d{1,9}):(\d{1,9})(?::(\d{1,9}))?\Z")
_LSF: Final = re.compile(r"(?<![\d:])(\d{1,9}):(\d{1,2}) +L\s*$", re.MULTILINE)
_PBS: Final = re.compile(r"\b(Resource_List|resources_used)\.walltime = ([\d:]+)")
_GRID_ENGINE: Final = re.compile(r"^hard[ _]resource_list:.*\bh_rt=([\d:]+)", re.MULTILINE)
_ID: Final = re.compile(r"[\w.\[\]-]{1,200}\Z")
# Job ads and listings have some kilobytes.
_MOST: Final = 1 << 20
# A batch system that is away must not hold up the pilot.
_ASK_SECONDS: Final = 10.0


def resources(directory: Path, environment: Mapping[str, str]) -> NodeResources:
    """Return the processors, memory, disk and GPUs that the pilot's tasks may share.

    The least counts of the machine, the pilot's affinity, its control group (``cgroups(7)``), and
    the variables of the batch system. ``directory`` is the place of the tasks.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for name in _BATCH_CPUS:
        if (said := environment.get(name, "")).isdigit() and int(said) > 0:
            cpus = min(cpus, int(said))
    given = environment.get("SLURM_MEM_PER_NODE", "")
    memory = min(_machine_memory(), _group_memory())
    if given.isdigit() and int(given) > 0:
        memory = min(memory, int(given) * MIB)
    return NodeResources(
        cpus=max(1, cpus), memory=memory // MIB, disk=shutil.disk_usage(directory).free // MIB,
        gpus=len(_gpus(environment)),
    )  # fmt: skip


def machine(
    applications: Mapping[str, tuple[str, ...]], given: ClassAd, environment: Mapping[str, str],
    ends: float | None = None,
) -> ClassAd:  # fmt: skip
    """Return the machine's ad, without free resources: these are in the ads of its slots.

    Attributes that the site adds (``given``) win. ``ends`` is the end of the pilot's time, in
    seconds since the epoch; None if it is unknown.
    """
    there = [name for name, words in applications.items() if is_installed(words)]
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


def is_installed(words: tuple[str, ...]) -> bool:
    """Whether an application's program is here.

    >>> [is_installed((word,)) for word in ("/bin/sh", "/nowhere/x", "handler:json:loads")]
    [True, False, True]
    """
    return bool(words) and (words[0].startswith("handler:") or shutil.which(words[0]) is not None)


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _group_memory() -> int:
    """Return the least memory limit of the control group and those above it."""
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


def seconds_left(environment: Mapping[str, str], now: float, read: Read, ask: Ask) -> float | None:
    """Return the seconds left for a pilot that begins now; None if no batch system says it.

    The least counts of Slurm, PBS, LSF, Grid Engine, HTCondor, glideinWMS and the machine and job
    features of HEPiX (HSF-TN-2016-02). A value that cannot be read is ignored. ``read`` returns a
    file's text, ``ask`` the output of a command; both are empty on failure.

    >>> seconds_left({"SLURM_JOB_END_TIME": "1600"}, 1000.0, lambda _: "", lambda _: "")
    600.0
    >>> seconds_left({}, 1000.0, lambda _: "", lambda _: "") is None
    True
    """
    sources = (
        _slurm(environment, now, ask), _pbs(environment, ask), _lsf(environment, ask),
        _grid_engine(environment, ask), _condor(environment, now, read),
        _features(environment, now, read),
    )  # fmt: skip
    found = [seconds for source in sources for seconds in source if seconds is not None]
    return max(0.0, min(found)) if found else None


def read_file(path: str) -> str:
    """Return the beginning of a file; empty if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(_MOST).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def ask_command(words: Sequence[str]) -> str:
    """Return a command's output; empty if it fails, or takes over ten seconds."""
    try:
        done = subprocess.run(  # noqa: S603 - no shell reads the words
            words, capture_output=True, check=True, stdin=subprocess.DEVNULL, timeout=_ASK_SECONDS
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return done.stdout[:_MOST].decode("utf-8", "replace")


def _slurm(environment: Mapping[str, str], now: float, ask: Ask) -> Iterator[float | None]:
    end = _number(environment.get("SLURM_JOB_END_TIME"))
    if end is not None:
        yield end - now
    elif id_ := _id(environment, "SLURM_JOB_ID"):
        yield _clock(ask(("squeue", "-h", "-j", id_, "-o", "%L")).strip())


def _pbs(environment: Mapping[str, str], ask: Ask) -> Iterator[float | None]:
    limit = _number(environment.get("PBS_WALLTIME"))
    if limit is not None:
        yield limit
    elif id_ := _id(environment, "PBS_JOBID"):
        said = dict(_PBS.findall(ask(("qstat", "-f", id_))))
        limit = _clock(said.get("Resource_List", ""))
        if limit is not None:
            yield limit - (_clock(said.get("resources_used", "")) or 0.0)


def _lsf(environment: Mapping[str, str], ask: Ask) -> Iterator[float | None]:
    if id_ := _id(environment, "LSB_JOBID"):
        index = environment.get("LSB_JOBINDEX", "0")
        name = f"{id_}[{index}]" if index.isdecimal() and index != "0" else id_
        # An L says that it is the limit's, and no estimate.
        if found := _LSF.search(ask(("bjobs", "-noheader", "-WL", name))):
            yield 3600.0 * int(found[1]) + 60.0 * int(found[2])


def _grid_engine(environment: Mapping[str, str], ask: Ask) -> Iterator[float | None]:
    id_ = _id(environment, "JOB_ID")
    if "SGE_ROOT" in environment and id_:
        found = _GRID_ENGINE.search(ask(("qstat", "-j", id_)))
        yield _clock(found[1]) if found else None


def _condor(environment: Mapping[str, str], now: float, read: Read) -> Iterator[float | None]:
    job = _ad(environment, "_CONDOR_JOB_AD", read)
    yield _value(job, "AllowedExecuteDuration")
    allowed, began = _value(job, "AllowedJobDuration"), _value(job, "JobCurrentStartDate")
    if allowed is not None:
        yield allowed - (max(0.0, now - began) if began is not None else 0.0)
    dies = _value(_ad(environment, "_CONDOR_MACHINE_AD", read), "GLIDEIN_ToDie")
    yield dies - now if dies is not None else None


def _features(environment: Mapping[str, str], now: float, read: Read) -> Iterator[float | None]:
    def said(variable: str, name: str) -> float | None:
        place = environment.get(variable)
        return _number(read(f"{place}/{name}")) if place else None

    limit, began = said("JOBFEATURES", "wall_limit_secs"), said("JOBFEATURES", "jobstart_secs")
    if limit is not None:
        yield limit - (max(0.0, now - began) if began is not None else 0.0)
    for variable, name in (
        ("JOBFEATURES", "shutdowntime_job"), ("MACHINEFEATURES", "shutdowntime"),
    ):  # fmt: skip
        end = said(variable, name)
        yield end - now if end is not None else None


def _ad(environment: Mapping[str, str], variable: str, read: Read) -> ClassAd:
    place = environment.get(variable)
    try:
        return next(iter(parse_ads(read(place), format="old")), ClassAd()) if place else ClassAd()
    except ParseError:
        return ClassAd()


def _value(ad: ClassAd, name: str) -> float | None:
    value = ad.eval(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return _number(f"{value:.3f}")


def _number(text: str | None) -> float | None:
    found = _NUMBER.match(text or "")
    return float(found[1]) if found else None


def _clock(text: str) -> float | None:
    """Return the seconds of ``days-hours:minutes:seconds``, ``minutes:seconds`` or a number."""
    if found := _CLOCK.match(text):
        days, first, second, third = (int(each) if each else 0 for each in found.groups())
        if found[4] is None:
            first, second, third = 0, first, second
        return 86_400.0 * days + 3600.0 * first + 60.0 * second + third
    return _number(text)


def _id(environment: Mapping[str, str], name: str) -> str:
    said = environment.get(name, "")
    return said if _ID.match(said) and not said.startswith("-") else ""
