"""A job's requests: memory, processors, disk, GPUs and wall time, set aside for it on one host.

A host must have what is requested, as far as its ad says how much it has. Amounts are rounded up to
the batch system's unit: a job that gets less than it requested is killed.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import attrs

from matchmaker.batch.clauses import Dropped
from matchmaker.batch.errors import NoFlagsError
from matchmaker.batch.mapping import Mapping
from matchmaker.classad import ClassAd, Expr
from matchmaker.classad.nodes import TRUE, Attr, Binary, Call, Literal, conjunction
from matchmaker.classad.operators import truth
from matchmaker.classad.values import MAX_INT, UNDEFINED

# The job's attribute, the resource, and how many of its base units one of the attribute's is.
_ATTRIBUTES: Final = (
    ("RequestMemory", "memory", Fraction(1)),
    ("RequestCpus", "cpus", Fraction(1)),
    ("RequestDisk", "disk", Fraction(1, 1024)),
    ("RequestGPUs", "gpus", Fraction(1)),
    ("MaxWallTime", "wall", Fraction(60)),
)

# The attribute of a host that says how much of a resource it has, and its unit in base units.
_OF_HOSTS: Final = {
    "memory": ("GlueHostMainMemoryRAMSize", Fraction(1)),
    "cpus": ("GlueHostArchitectureSMPSize", Fraction(1)),
    "disk": ("Disk", Fraction(1, 1024)),
    "gpus": ("GPUs", Fraction(1)),
}


def _amount(_: object, attribute: attrs.Attribute[int], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INT:
        raise ValueError(f"{attribute.name} must be a whole number, 0 or more, not {value!r}")


@attrs.frozen(slots=True)
class Resources:
    """What to set aside: memory and disk in MiB, wall time in seconds, numbers of CPUs and GPUs.

    0 requests nothing. Raises ValueError for anything but an integer from 0 on.

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

        Undefined requests nothing. Raises ValueError for any other value that is not a size.
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


@attrs.frozen(slots=True)
class Requested:
    """A job's requests in terms of one mapping.

    Attributes:
        numbers: the amounts, by the templates of their flags.
        needs: conditions that are true of hosts with as much as the flags set aside, and of hosts
            that do not say how much they have.
        lacking: the requests without a flag.
    """

    numbers: dict[str, int]
    needs: tuple[Expr, ...]
    lacking: tuple[Dropped, ...]

    def values(self) -> list[tuple[str, str]]:
        """The templates with the values for them."""
        return [(template, str(number)) for template, number in self.numbers.items()]

    def has_room(self, node: ClassAd) -> bool:
        """Whether a node may have what the flags set aside."""
        return all(truth(need.eval(target=node)) is True for need in self.needs)

    def condition(self, residual: Expr) -> Expr:
        """What a host must satisfy: a residual, and room for all that the job requests."""
        needs = (*self.needs, *(each.clause for each in self.lacking if _is_need(each.clause)))
        return conjunction([*([] if residual is TRUE and needs else [residual]), *needs])


def requested(asked: Resources, table: Mapping) -> Requested:
    """The requests in a mapping's terms.

    Raises NoFlagsError for a number that is too large for the batch system, which would misread it.
    """
    found: dict[str, int] = {}
    needs: list[Expr] = []
    lacking: list[Dropped] = []
    for attribute, name, _ in _ATTRIBUTES:
        amount: int = getattr(asked, name)
        if not amount:
            continue
        request = table.requests.get(name)
        if request is None:
            reason = f"{table.lrms} has no flag for {_WORDS[name]}"
            clause = _need(name, Fraction(amount)) or Attr(None, attribute, False)
            lacking.append(Dropped(clause, reason))
            continue
        # Without a request for slots there is one slot, whose share is everything.
        slots = max(1, asked.cpus) if request.per_cpu and "cpus" in table.requests else 1
        share = -(-amount // slots)
        number = math.ceil(share / request.unit)
        if number > request.most:
            raise NoFlagsError(
                f"{table.lrms} cannot be asked for {number} as in {request.flag}, which is what "
                f"{attribute} of the job comes to; the most is {request.most}"
            )
        found[request.flag] = max(found.get(request.flag, 0), number)
        need = _need(name, number * request.unit * slots)
        needs += [need] if need is not None else []
    return Requested(found, tuple(needs), tuple(lacking))


def _need(resource: str, amount: Fraction) -> Expr | None:
    """The condition that a host has an amount, or does not say; None without such an attribute."""
    if resource not in _OF_HOSTS:
        return None
    attribute, unit = _OF_HOSTS[resource]
    subject = Attr(Attr(None, "other", False), attribute, False)
    least = Literal(min(math.ceil(amount / unit), MAX_INT))
    return Binary("||", Call("isUndefined", (subject,)), Binary(">=", subject, least))


def _is_need(clause: Expr) -> bool:
    return not isinstance(clause, Attr)


_WORDS: Final = {
    "memory": "memory", "cpus": "processors", "disk": "disk", "gpus": "GPUs", "wall": "wall time"
}  # fmt: skip
