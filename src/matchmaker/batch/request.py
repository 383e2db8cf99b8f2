"""A job's requests: resources that are set aside on one host, and other values for flags.

A host must have what is requested, as far as its ad says how much it has. Amounts are rounded up to
the batch system's unit: a job that gets less than it requested is killed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

import attrs

from matchmaker.batch.clauses import Dropped
from matchmaker.batch.errors import NoFlagsError
from matchmaker.batch.limits import LIMITS
from matchmaker.batch.mapping import Mapping
from matchmaker.batch.request_rules import RESOURCES, TEXT_SIGNS, Request
from matchmaker.batch.templates import safe, slot_of
from matchmaker.classad import ClassAd, Expr
from matchmaker.classad.clauses import conjunction
from matchmaker.classad.nodes import TRUE, Attr, Binary, Call, Literal
from matchmaker.classad.operators import ascii_fold, truth
from matchmaker.classad.values import MAX_INT, UNDEFINED, is_integer, is_number
from matchmaker.reduction.bind import host_of

# The resource, its name in messages, the job's attribute, that of hosts, and how many base units
# of the resource one of either attribute is.
_ATTRIBUTES: Final = (
    ("memory", "memory", "RequestMemory", "GlueHostMainMemoryRAMSize", Fraction(1)),
    ("cpus", "processors", "RequestCpus", "GlueHostArchitectureSMPSize", Fraction(1)),
    ("disk", "disk", "RequestDisk", "Disk", Fraction(1, 1024)),
    ("gpus", "GPUs", "RequestGPUs", "GPUs", Fraction(1)),
    ("wall", "wall time", "MaxWallTime", "", Fraction(60)),
)

_PROCESSORS: Final = ascii_fold("GlueHostArchitectureSMPSize")

# What numbers count that no attribute of hosts is compared with: seconds, and units of the site.
# No folded name of an attribute has capitals.
_TIMES: Final = "SECONDS"
_NUMBERS: Final = "NUMBERS"


def _amount(_: object, attribute: attrs.Attribute[int], value: object) -> None:
    if not is_integer(value) or not 0 <= value <= MAX_INT:
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
        for resource, _, attribute, _, unit in _ATTRIBUTES:
            if attribute not in job:
                continue
            value = job.eval(attribute)
            if value is UNDEFINED:
                continue
            if not is_number(value):
                value = -1
            if not 0 <= value * float(unit) < MAX_INT:
                raise ValueError(f"{attribute} of the job must be a size")
            found[resource] = math.ceil(Fraction(value) * unit)
        return cls(**found)


@attrs.frozen(slots=True)
class Submitter:
    """The account that submits a job: its name, and its groups, the first of them the main one."""

    user: str = ""
    groups: tuple[str, ...] = ()


@attrs.frozen(slots=True)
class Item:
    """One request in terms of a mapping.

    Attributes:
        template: of the flag or term, or the slot of ``[flags]`` that it fills.
        value: what goes into the template.
        clause: what is dropped if no flag carries it: its ``need``, or the attribute's name.
        need: a condition that is true of hosts with as much as the flag sets aside, and of hosts
            that do not say how much they have; None if hosts have no such attribute.
        bare: whether a form carries it that only stands ``with`` it.
        subject: for a number, the folded attribute of hosts that it is compared with, or what else
            it counts.
        unit: how much of the subject one unit of the number is; 0 for a share of each processor.
        divided: whether the number is a share of each of several processors, so that it is right
            only beside the flag that asks for these.
    """

    template: str
    value: int | str
    clause: Expr
    need: Expr | None = None
    bare: bool = False
    subject: str = ""
    unit: Fraction = Fraction(1)
    divided: bool = False

    @property
    def setting(self) -> tuple[object, ...]:
        """What the template is set to: the same for numbers of which the largest may count."""
        if isinstance(self.value, str):
            return (self.value,)
        return "min", self.subject, self.unit

    @property
    def is_share(self) -> bool:
        """Whether the number is a share of each processor."""
        return not self.unit


@attrs.frozen(slots=True)
class Requested:
    """A job's requests in terms of one mapping, and those without a flag."""

    items: tuple[Item, ...] = ()
    lacking: tuple[Dropped, ...] = ()

    @property
    def numbers(self) -> dict[str, int]:
        """The amounts by template; the largest of several."""
        found: dict[str, int] = {}
        for item in self.items:
            if isinstance(item.value, int):
                found[item.template] = max(found.get(item.template, 0), item.value)
        return found

    @property
    def texts(self) -> dict[str, str]:
        """The texts by template."""
        return {item.template: item.value for item in self.items if isinstance(item.value, str)}

    @property
    def has_processors(self) -> bool:
        """Whether processors are among what is requested."""
        return any(item.subject == _PROCESSORS for item in self.items)

    @property
    def needs(self) -> tuple[Expr, ...]:
        """What hosts must have for the items."""
        return tuple(item.need for item in self.items if item.need is not None)

    def has_room(self, node: ClassAd) -> bool | None:
        """Whether a node may have what the flags set aside; None if its ad has no number for it."""
        outcomes = [truth(need.eval(target=node)) for need in self.needs]
        if any(outcome is False for outcome in outcomes):
            return False
        return True if all(outcome is True for outcome in outcomes) else None

    def condition(self, residual: Expr) -> Expr:
        """What a host must satisfy: a residual, and room for all that the job requests."""
        lacking = (each.clause for each in self.lacking if not isinstance(each.clause, Attr))
        needs = (*self.needs, *lacking)
        return conjunction([*([] if residual is TRUE and needs else [residual]), *needs])


def requested(
    asked: Resources,
    table: Mapping,
    job: ClassAd,
    queue: str = "",
    submitter: Submitter | None = None,
) -> Requested:
    """The requests in a mapping's terms.

    Raises:
        NoFlagsError: a number is too large for the batch system, which would misread it.
        ValueError: an attribute of the job has a value of a wrong type.
    """
    items: list[Item] = []
    lacking: list[Dropped] = []

    def add(item: Item) -> None:
        if all(e.template != item.template or e.setting == item.setting for e in items):
            items.append(item)
        else:
            lacking.append(Dropped(item.clause, "another request sets the same flag"))

    # Without a request for processors there is one, whose share is everything.
    cpus = table.requests.get("cpus")
    several = max(1, _counted(asked.cpus, cpus, "RequestCpus", table)) if cpus is not None else 1
    for name, words, attribute, of_hosts, unit in _ATTRIBUTES:
        amount: int = getattr(asked, name)
        if not amount:
            continue
        request = table.requests.get(name)
        if request is None:
            reason = f"{table.lrms} has no flag for {words}"
            clause = _need(job, of_hosts, amount / unit) or Attr(None, attribute, False)
            lacking.append(Dropped(clause, reason))
            continue
        parts = several if request.per_cpu else 1
        number = _counted(-(-amount // parts), request, attribute, table)
        need = _need(job, of_hosts, number * request.unit * parts / unit)
        clause = need or Attr(None, attribute, False)
        share = Fraction(0) if request.per_cpu else request.unit / (unit if of_hosts else 1)
        subject = ascii_fold(of_hosts) or _TIMES
        add(Item(
            request.flag, number, clause, need, subject=subject, unit=share, divided=parts > 1
        ))  # fmt: skip
    origin = submitter or Submitter()
    given: dict[str, list[str]] = {
        "queue": [queue] if queue else [],
        "user": [origin.user] if origin.user else [],
        "group": list(origin.groups),
    }
    used = table.used
    for name, request in table.requests.items():
        slot = slot_of(request.flag)
        if name in RESOURCES or (slot and slot not in used):
            continue
        clause = Attr(None, name, False)
        try:
            value = (
                _of_job(job, request, table, several)
                if request.origin == "job"
                else _word(given[request.origin], request)
            )
        except NotAllowedError as error:
            lacking.append(Dropped(clause, str(error)))
            continue
        if value is None:
            continue
        add(Item(
            request.flag,
            value,
            clause,
            bare=request.kind == "present",
            subject=_TIMES if request.kind == "time" else _NUMBERS,
            unit=Fraction(0) if request.per_cpu else request.unit,
            divided=request.per_cpu and several > 1,
        ))  # fmt: skip
    return Requested(tuple(items), tuple(lacking))


def request_names(table: Mapping) -> list[str]:
    """The names of the job's attributes that a mapping has flags for.

    >>> from matchmaker.batch import load_mapping
    >>> request_names(load_mapping("sge"))
    ['RequestMemory', 'MaxWallTime']
    """
    resources = [attribute for name, _, attribute, *_ in _ATTRIBUTES if name in table.requests]
    others = [
        name
        for name, request in table.requests.items()
        if name not in RESOURCES and request.origin == "job"
    ]
    return [*resources, *others]


class NotAllowedError(Exception):
    """A mapping does not allow the value of a request; the message says why."""


def _counted(amount: int, request: Request, attribute: str, table: Mapping) -> int:
    """An amount in the unit of a flag. Raises NoFlagsError for one that it cannot count."""
    number = math.ceil(amount / request.unit)
    if number > request.most:
        raise NoFlagsError(
            f"{table.lrms} cannot be asked for {number} as in {request.flag}, which is what "
            f"{attribute} of the job comes to; the most is {request.most}"
        )
    return number


def _of_job(job: ClassAd, request: Request, table: Mapping, several: int) -> int | str | None:
    """The value of a request for an attribute of the job; None if the job has no such request.

    ``several``: how many processors the job requests, for a share of each.
    """
    value = job.eval(request.name)
    if value is UNDEFINED or value == "":
        return None
    if request.kind == "present":
        if not isinstance(value, (bool, int, float, str)):
            raise ValueError(f"{request.name} of the job must be a boolean, a number or a text")
        return request.value if value else None
    if request.kind == "text":
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise ValueError(f"{request.name} of the job must be a text")
        return _word([str(value)], request)
    if request.kind == "time" and isinstance(value, str):
        match = _TIME.fullmatch(value)
        if match is None:
            raise ValueError(
                f"{request.name} of the job must be seconds or hh:mm:ss, not {value!r}"
            )
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        value = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if not is_number(value) or not 0 <= value < MAX_INT:
        raise ValueError(f"{request.name} of the job must be a number, 0 or more")
    parts = several if request.per_cpu else 1
    return _counted(-(-math.ceil(value) // parts), request, request.name, table) or None


_TIME: Final = re.compile(r"(?:([0-9]{1,5})-)?([0-9]{1,6}):([0-5][0-9]):([0-5][0-9])")


def _word(given: Iterable[str], request: Request) -> str | None:
    """The batch system's word for the first text that the mapping allows; None for no text.

    Raises NotAllowedError if the mapping allows none of the texts.
    """
    texts = list(given)
    known = {ascii_fold(text): word for text, word in request.values.items()}
    for text in texts:
        if ascii_fold(text) in known:
            return known[ascii_fold(text)] or None
        if _is_allowed(text, request):
            return text
    # An account asks for nothing: a mapping may have words for some of them alone.
    of_account = request.origin in ("user", "group") and (request.values or request.pattern)
    if not texts or of_account:
        return None
    text = texts[0] if len(texts[0]) <= request.most else texts[0][: request.most] + " ..."
    if request.values and not request.pattern:
        raise NotAllowedError(f"{text!r} is none of the values of {request.name}")
    pattern = f"the pattern {request.pattern} and " if request.pattern else ""
    raise NotAllowedError(
        f"{text!r} is not allowed for {request.name}: {pattern}at most {request.most} letters, "
        f"digits and {TEXT_SIGNS}"
    )


def _is_allowed(text: str, request: Request) -> bool:
    if (request.values and not request.pattern) or len(text) > request.most:
        return False
    if not safe(text, TEXT_SIGNS):
        return False
    import regex

    try:
        found = regex.fullmatch(request.pattern, text, timeout=LIMITS.pattern_seconds)
    except TimeoutError:
        return False
    return not request.pattern or found is not None


def _need(job: ClassAd, attribute: str, amount: Fraction) -> Expr | None:
    """The condition that a host has an amount, or does not say; None without such an attribute."""
    if not attribute:
        return None
    subject = Attr(host_of(job), attribute, False)
    least = Literal(min(math.ceil(amount), MAX_INT))
    return Binary("||", Call("isUndefined", (subject,)), Binary(">=", subject, least))
