"""The resources that a job asks for itself: memory, processors, disk, GPUs and wall time.

They are no condition on hosts, but what is set aside for the job on one. All are rounded up in the
batch system's unit: a job that is given less than it asked for is killed, or kills.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import attrs

from matchmaker.batch.mapping import Mapping
from matchmaker.batch.told import Dropped, NoFlagsError
from matchmaker.classad import ClassAd
from matchmaker.classad.nodes import Attr
from matchmaker.classad.values import MAX_INT, UNDEFINED

# The job's attribute, the resource, and how many of its base units one of the attribute's is.
_ATTRIBUTES: Final = (
    ("RequestMemory", "memory", Fraction(1)),
    ("RequestCpus", "cpus", Fraction(1)),
    ("RequestDisk", "disk", Fraction(1, 1024)),
    ("RequestGPUs", "gpus", Fraction(1)),
    ("MaxWallTime", "wall", Fraction(60)),
)


def _amount(_: object, attribute: attrs.Attribute[int], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INT:
        raise ValueError(f"{attribute.name} must be a whole number, 0 or more, not {value!r}")


@attrs.frozen(slots=True)
class Resources:
    """What a job needs set aside: memory and disk in MiB, wall time in seconds; 0 is nothing said.

    Raises ValueError for what is no such number.

    >>> from matchmaker import parse_ad
    >>> Resources.of(parse_ad("[ RequestMemory = 2000; RequestDisk = 5000000; MaxWallTime = 90 ]"))
    Resources(memory=2000, cpus=0, disk=4883, gpus=0, wall=5400)
    """

    memory: int = attrs.field(default=0, validator=_amount)
    cpus: int = attrs.field(default=0, validator=_amount)
    disk: int = attrs.field(default=0, validator=_amount)
    gpus: int = attrs.field(default=0, validator=_amount)
    wall: int = attrs.field(default=0, validator=_amount)

    @classmethod
    def of(cls, job: ClassAd) -> Resources:
        """The requests of a job's ad, in HTCondor's units: MiB, KiB of disk, minutes of wall time.

        Undefined says nothing. Raises ValueError for what is no size.
        """
        found: dict[str, int] = {}
        for attribute, resource, unit in _ATTRIBUTES:
            if attribute not in job:
                continue
            value = job.eval(attribute)
            if value is UNDEFINED:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                value = -1
            if not 0 <= value * float(unit) < MAX_INT:
                raise ValueError(f"{attribute} of the job must be a size")
            found[resource] = math.ceil(Fraction(value) * unit)
        return cls(**found)


def numbers(asked: Resources, table: Mapping) -> tuple[dict[str, int], list[Dropped]]:
    """The numbers for a mapping's templates, and what the batch system has no flag for.

    Raises NoFlagsError for more than the batch system can count: it would be taken for less.
    """
    found: dict[str, int] = {}
    dropped: list[Dropped] = []
    for attribute, name, _ in _ATTRIBUTES:
        amount: int = getattr(asked, name)
        if not amount:
            continue
        request = table.requests.get(name)
        if request is None:
            reason = f"{table.lrms} has no flag for {_WORDS[name]}"
            dropped.append(Dropped(Attr(None, attribute, False), reason))
            continue
        # A share for each slot is the whole, too, where nothing asks for more slots than one.
        slots = max(1, asked.cpus) if request.per_cpu and "cpus" in table.requests else 1
        share = -(-amount // slots)
        number = math.ceil(share / request.unit)
        if number > request.most:
            raise NoFlagsError(
                f"{table.lrms} cannot be asked for {number} as in {request.flag}, which is what "
                f"{attribute} of the job comes to; the most is {request.most}"
            )
        found[request.flag] = max(found.get(request.flag, 0), number)
    return found, dropped


_WORDS: Final = {
    "memory": "memory", "cpus": "processors", "disk": "disk", "gpus": "GPUs", "wall": "wall time"
}  # fmt: skip
