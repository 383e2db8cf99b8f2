"""What is matched: a job with machines of one kind; and where the example site is."""

from __future__ import annotations

from itertools import count, islice
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

_numbers = count(1)


def machine_texts(size: int) -> list[str]:
    """Texts of that many machine ads, none of which was ever given before: machines of one kind."""
    return [
        MACHINE.format(number=n, memory=32000 + n, disk=203812345, load=0.25, kflops=1812345,
                       mips=25123)
        for n in islice(_numbers, size)
    ]  # fmt: skip
