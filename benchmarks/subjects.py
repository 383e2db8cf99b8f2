"""What is measured: ads and expressions such as pools are full of, and an example site."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

EXAMPLES: Final = Path(__file__).resolve().parents[1] / "examples"

MACHINE: Final = """[
  Name = "slot1@wn{number:06}.cnaf.grid"; Machine = "wn{number:06}.cnaf.grid"; SlotID = 1;
  State = "Unclaimed"; Activity = "Idle"; OpSys = "LINUX"; OpSysAndVer = "AlmaLinux9";
  Arch = "X86_64"; Cpus = 16; Memory = {memory}; Disk = 203812345; LoadAvg = 0.25;
  KFlops = 1812345; Mips = 25123; HasSingularity = true; IsDesktop = false;
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

_numbers = count(1)


def machine_texts(size: int) -> list[str]:
    """Texts of that many machine ads, none of which was ever given before."""
    return [MACHINE.format(number=n, memory=32000 + n) for n in _fresh(size)]


def expression_texts(size: int) -> list[str]:
    """Texts of that many expressions, none of which was ever given before."""
    return [EXPRESSION.format(number=n) for n in _fresh(size)]


def _fresh(size: int) -> Iterator[int]:
    return (next(_numbers) for _ in range(size))
