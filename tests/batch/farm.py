"""Host attributes as requirements name them, and random worker nodes that have them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from matchmaker import ClassAd

RAM = "other.GlueHostMainMemoryRAMSize"
CPUS = "other.GlueHostArchitectureSMPSize"
SI00 = "other.GlueHostBenchmarkSI00"
OS = "other.GlueHostOperatingSystemName"
OUT = "other.GlueHostNetworkAdapterOutboundIP"
TAGS = "other.GlueHostApplicationSoftwareRunTimeEnvironment"


def own(attribute: str) -> str:
    """The name that a node itself has for an attribute."""
    return attribute.removeprefix("other.")


def random_nodes(
    seed: int,
    number: int,
    *,
    tags: Sequence[str],
    speeds: Sequence[int | str | None],
    systems: Sequence[str] = (),
) -> list[ClassAd]:
    """Nodes that differ in memory, processors, tags, speed (None: they have none) and system."""
    chance = random.Random(seed)
    ads = []
    for place in range(number):
        ad = ClassAd({"Name": f"wn{place:02}"})
        ad[own(RAM)] = chance.choice([512, 1000, 1024, 2048, 4096])
        ad[own(CPUS)] = chance.choice([1, 2, 4, 8])
        if systems:
            ad[own(OS)] = chance.choice(systems)
        ad[own(TAGS)] = sorted(chance.sample(sorted(tags), chance.randint(0, len(tags))))
        speed = chance.choice(speeds)
        if speed is not None:
            ad[own(SI00)] = speed
        ads.append(ad)
    return ads
