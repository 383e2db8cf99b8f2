"""What is measured: ads and expressions such as pools are full of, and an example site."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

EXAMPLES: Final = Path(__file__).resolve().parents[1] / "examples"

MACHINE: Final = """[
  Name = "slot1@wn{number:06}.cnaf.grid"; Machine = "wn{number:06}.cnaf.grid"; SlotID = 1;
  State = "Unclaimed"; Activity = "Idle"; OpSys = "LINUX"; OpSysAndVer = "AlmaLinux9";
  Arch = "X86_64"; Cpus = 16; Memory = {memory}; Disk = {disk}; LoadAvg = {load};
  KFlops = {kflops}; Mips = {mips}; HasSingularity = true; IsDesktop = false;
  Tags = {{ "el9", "x86_64", "si900" }}; TotalLoad = LoadAvg * Cpus;
  Requirements = TARGET.RequestCpus <= Cpus && TARGET.RequestMemory <= Memory
                 && (TARGET.Owner =!= "nobody" || MY.IsDesktop);
  Rank = TARGET.Prio
]"""
"""An ad of twenty attributes: sixteen constants, a list and three expressions."""

JOB: Final = """[
  Owner = "ada"; RequestCpus = 4; RequestMemory = 8000; Prio = 0.5;
  Requirements = TARGET.Arch == "X86_64" && TARGET.OpSys == "LINUX"
                 && TARGET.Memory >= 2 * MY.RequestMemory && TARGET.Cpus >= RequestCpus
                 && member("el9", TARGET.Tags);
  Rank = TARGET.KFlops / 1000.0 + TARGET.Memory * 0.001 - (TARGET.LoadAvg > 1 ? 500 : 0)
]"""

EXPRESSION: Final = (
    'TARGET.Arch == "X86_64" && TARGET.Memory >= {number} && (TARGET.HasSingularity =?= true '
    '|| regexp("^wn{number}", TARGET.Machine)) && TARGET.Cpus >= RequestCpus * 2'
)

SLOT: Final = """Name = "slot{slot}@wn{host:06}.cnaf.grid"
Machine = "wn{host:06}.cnaf.grid"
MyAddress = "<10.{high}.{low}.7:9618?addrs=10.{high}.{low}.7-9618&alias=wn{host:06}.cnaf.grid>"
MyType = "Machine"
SlotID = {slot}
State = "{state}"
Activity = "{activity}"
OpSys = "LINUX"
OpSysAndVer = "{system}"
Arch = "X86_64"
Cpus = {cpus}
Memory = {memory}
Disk = {disk}
LoadAvg = {load:.2f}
KFlops = {kflops}
HasSingularity = true
LastHeardFrom = {heard}
TotalLoad = LoadAvg * Cpus
Requirements = TARGET.RequestCpus <= Cpus && TARGET.RequestMemory <= Memory
Rank = TARGET.Prio
"""
"""An ad of twenty attributes as ``condor_status -long`` prints it."""

SLOTS: Final = 8
"""How many slots a host has: their ads have the host's name, address and speed in common."""

_numbers = count(1)


def machine_texts(size: int) -> list[str]:
    """Texts of that many machine ads, none of which was ever given before: machines of one kind."""
    return [
        _machine(n, disk=203812345, load=0.25, kflops=1812345, mips=25123) for n in _fresh(size)
    ]


def unlike_machine_texts(size: int) -> list[str]:
    """The same for machines of which no two have a name or a number in common."""
    return [
        _machine(n, disk=10**8 + 3 * n, load=n / 2**20, kflops=10**6 + 5 * n, mips=10**4 + n)
        for n in _fresh(size)
    ]


def _machine(number: int, **values: float) -> str:
    return MACHINE.format(number=number, memory=32000 + number, **values)


def expression_texts(size: int) -> list[str]:
    """Texts of that many expressions, none of which was ever given before."""
    return [EXPRESSION.format(number=n) for n in _fresh(size)]


def slot_stream(size: int) -> str:
    """The slots of a pool, a multiple of eight: names, disks and loads were never given before."""
    return "\n".join(ad for host in _fresh(size // SLOTS) for ad in _slots(host))


def _slots(host: int) -> Iterator[str]:
    chance = random.Random(host)
    cpus, kflops = chance.choice((1, 2, 4, 8)), 1_800_000 + chance.randrange(100_000)
    system, memory = chance.choice(("AlmaLinux9", "CentOS7")), cpus * chance.choice((2000, 4000))
    for slot in range(1, SLOTS + 1):
        claimed = chance.random() < 0.8
        yield SLOT.format(
            slot=slot,
            host=host,
            high=host >> 8 & 255,
            low=host & 255,
            state="Claimed" if claimed else "Unclaimed",
            activity="Busy" if claimed else "Idle",
            system=system,
            cpus=cpus,
            memory=memory,
            disk=chance.randrange(10**9),
            load=chance.random(),
            kflops=kflops,
            heard=1_763_740_000 + chance.randrange(300),
        )


def _fresh(size: int) -> Iterator[int]:
    return (next(_numbers) for _ in range(size))
