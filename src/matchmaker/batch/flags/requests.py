"""A job's requests: resources that are set aside on one host, and other values for flags.

A host must have the requested resources, as far as its ad says how much it has. Amounts are rounded
up to the batch system's unit: a job that gets less than it requested is killed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as MappingType
from fractions import Fraction
from typing import Final, NoReturn, TypeAlias

import attrs

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.errors import NoFlagsError, NotTakenError
from matchmaker.batch.flags.choose import Dropped, shown
from matchmaker.batch.mapping import Mapping
from matchmaker.batch.rules import RESOURCES, TEXT_SIGNS, Request
from matchmaker.batch.templates import assigned, safe, slot_of
from matchmaker.classad import ClassAd, Expr
from matchmaker.classad.nodes import TRUE, Attr, Binary, Call, Literal
from matchmaker.classad.operators import ascii_fold, truth
from matchmaker.classad.printer import unparse_value
from matchmaker.classad.values import MAX_INT, UNDEFINED, Value, is_error, is_integer, is_number
from matchmaker.classad.walks import conjunction
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

PROCESSORS: Final = ascii_fold("GlueHostArchitectureSMPSize")

QUEUE: Final = "queue"
"""The slot of the queue that was chosen for a job."""

# What numbers count that no attribute of hosts is compared with: seconds, and units of the site.
# No folded name of an attribute has capitals.
_TIMES: Final = "SECONDS"
_NUMBERS: Final = "NUMBERS"


def _amount(_: object, attribute: attrs.Attribute[int], value: object) -> None:
    if not is_integer(value) or not 0 <= value <= MAX_INT:
        raise ValueError(f"{attribute.name} must be a whole number, 0 or more, not {value!r}")


@attrs.frozen(slots=True)
class Resources:
    """The resources to set aside: memory and disk in MiB, wall time in seconds, CPUs, GPUs.

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
        """Read the requests of a job's ad, in HTCondor's units: MiB, KiB of disk, minutes.

        Undefined requests nothing. Raises ValueError for any other value that is not a size.
        """
        return cls(**{
            resource: _size(job, attribute, unit) for resource, _, attribute, _, unit in _ATTRIBUTES
        })  # fmt: skip


def _size(job: ClassAd, attribute: str, unit: Fraction) -> int:
    value = job.eval(attribute) if attribute in job else UNDEFINED
    if value is UNDEFINED:
        return 0
    if not is_number(value) or not 0 <= value * float(unit) < MAX_INT:
        raise ValueError(f"{attribute} of the job must be a size")
    return math.ceil(Fraction(value) * unit)


@attrs.frozen(slots=True, kw_only=True)
class QueueLimits:
    """The most that a queue gives one job; None if it is unlimited or unknown.

    Attributes:
        wall: seconds of wall time.
        cpus, memory: processors, and MiB of memory, on a node.
        cpu_memory: MiB for each processor. A job that asks for more gets more processors. (Slurm.)
    """

    wall: int | None = None
    cpus: int | None = None
    memory: int | None = None
    cpu_memory: int | None = None

    @classmethod
    def of(cls, queue: ClassAd) -> QueueLimits:
        """Read the limits from the ad of a queue.

        >>> from matchmaker import parse_ad
        >>> QueueLimits.of(parse_ad("[ GlueCEPolicyMaxWallClockTime = 120; MaxCpusPerNode = 4 ]"))
        QueueLimits(wall=7200, cpus=4, memory=None, cpu_memory=None)
        """

        def told(name: str, unit: int = 1) -> int | None:
            value = queue.eval(name) if name in queue else UNDEFINED
            return math.floor(value * unit) if is_number(value) and 0 < value < MAX_INT else None

        return cls(
            wall=told("GlueCEPolicyMaxWallClockTime", 60),
            cpus=told("MaxCpusPerNode"),
            memory=told("MaxMemoryPerNode"),
            cpu_memory=told("MaxMemoryPerCpu"),
        )


NO_LIMITS: Final = QueueLimits()

_MEMORY: Final = ascii_fold("GlueHostMainMemoryRAMSize")
_WORDS: Final = {name: words for name, words, *_ in _ATTRIBUTES}


def limited(table: Mapping, limits: QueueLimits) -> Mapping:
    """Lower the memory that a mapping asks of hosts to the most that a queue gives a job.

    A host may have more, so that a condition above the limit has no flag.
    """
    request, rule = table.requests.get("memory"), table.rules.get(_MEMORY)
    most = min((n for n in (limits.memory, limits.cpu_memory) if n is not None), default=None)
    if most is None or request is None or rule is None or not rule.flag:
        return table
    # Only an option that also sets memory aside is limited.
    if assigned(rule.flag) != assigned(request.flag):
        return table
    lowered = attrs.evolve(rule, most=min(rule.most, int(most / rule.unit)))
    return attrs.evolve(table, rules={**table.rules, _MEMORY: lowered})


def _check(limits: QueueLimits, name: str, asked: Fraction, attribute: str, unit: Fraction) -> None:
    """Raise NotTakenError if a job asks for more of a resource than the queue gives."""
    most = getattr(limits, name, None)
    if most is not None and asked > most:
        raise NotTakenError(
            f"the job asks for more {_WORDS[name]} than the queue allows ({attribute} ="
            f" {_plain(asked / unit)}, the most is {_plain(Fraction(most) / unit)})"
        )


def _plain(number: Fraction) -> str:
    return f"{float(number):g}" if number.denominator != 1 else str(number.numerator)


@attrs.frozen(slots=True)
class Submitter:
    """The account that submits a job: its name, and its groups, the first of them the main one."""

    user: str = ""
    groups: tuple[str, ...] = ()


@attrs.frozen(slots=True)
class RequestItem:
    """One request in terms of a mapping.

    Attributes:
        template: of the flag or term, or the slot of ``[flags]`` that it fills.
        clause: the dropped clause if no flag carries it: its ``need``, or the attribute's name.
        need: a condition that is true of hosts with as much as the flag sets aside, and of hosts
            that do not say how much they have; None if hosts have no such attribute.
        bare: whether a form carries it that only stands ``with`` it.
        subject: for a number, the folded attribute of hosts that it is compared with, or the thing
            that it counts.
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
        """The key of the setting; of several numbers with the same key the largest counts."""
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

    items: tuple[RequestItem, ...] = ()
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
        """Whether processors are requested."""
        return any(item.subject == PROCESSORS for item in self.items)

    @property
    def needs(self) -> tuple[Expr, ...]:
        """The conditions on hosts with room for the items."""
        return tuple(item.need for item in self.items if item.need is not None)

    def has_room(self, node: ClassAd) -> bool | None:
        """Tell whether a node may have the resources; None if its ad has no number for one."""
        outcomes = [truth(need.eval(target=node)) for need in self.needs]
        if any(outcome is False for outcome in outcomes):
            return False
        return True if all(outcome is True for outcome in outcomes) else None

    def condition(self, residual: Expr) -> Expr:
        """Join a residual and the room for all that the job requests."""
        lacking = (each.clause for each in self.lacking if not isinstance(each.clause, Attr))
        needs = (*self.needs, *lacking)
        return conjunction([*([] if residual is TRUE and needs else [residual]), *needs])


def requested(
    asked: Resources | None,
    table: Mapping,
    job: ClassAd,
    queue: str = "",
    submitter: Submitter | None = None,
    *,
    fixed: bool = False,
    limits: QueueLimits = NO_LIMITS,
) -> Requested:
    """Return the requests of a job in a mapping's terms.

    ``asked`` are amounts that replace those of the job's ad. If the mapping writes a queue
    (``fixed``), it must be the one that was chosen. ``limits`` are those of the queue.

    Raises:
        NotTakenError: more is requested than the queue gives a job.
        NoFlagsError: a number is too large for the batch system, which would misread it.
        ValueError: an attribute of the job has a value of a wrong type.
    """
    origin = submitter or Submitter()
    given: dict[str, list[str]] = {
        "queue": [queue] if queue else [],
        "user": [origin.user] if origin.user else [],
        "group": list(origin.groups),
    }
    context = ClassAd({name.capitalize(): texts[0] for name, texts in given.items() if texts})
    amounts, lost = _amounts(asked, table, job, context)
    # Without a request for processors there is one, whose share is everything.
    cpus = table.requests.get("cpus")
    several = max(1, _counted(amounts["cpus"], cpus, "RequestCpus", table)) if cpus else 1
    found = [*_resources(amounts, table, job, several, limits)]
    found += _others(table, job, several, given, context, fixed=fixed)
    kept: list[tuple[str, RequestItem]] = []
    for name, each in found:
        if isinstance(each, Dropped):
            lost.append(each)
            continue
        before = {owner: e.setting for owner, e in kept if e.template == each.template}
        if all(setting == each.setting for setting in before.values()):
            kept.append((name, each))
        else:
            lost.append(Dropped(each.clause, f"request {min(before)} sets the same flag"))
    return Requested(tuple(item for _, item in kept), tuple(lost))


_Found: TypeAlias = Iterator[tuple[str, RequestItem | Dropped]]
"""Requests by name, with what becomes of each."""


def _amounts(
    asked: Resources | None, table: Mapping, job: ClassAd, context: ClassAd
) -> tuple[dict[str, int], list[Dropped]]:
    """Return the requested amount of each resource, and the amounts that cannot be computed."""
    found: dict[str, int] = {}
    lost: list[Dropped] = []
    for name, _, attribute, _, unit in _ATTRIBUTES:
        request = table.requests.get(name)
        if asked is not None:
            found[name] = getattr(asked, name)
        elif request is None or request.expression is None:
            found[name] = _size(job, attribute, unit)
        else:
            try:
                value = _computed(request, job, context)
                found[name] = 0 if value is UNDEFINED else math.ceil(_number(value, request))
            except NotAllowedError as error:
                found[name] = 0
                lost.append(Dropped(Attr(None, name, False), str(error)))
    return found, lost


def _resources(
    amounts: MappingType[str, int],
    table: Mapping,
    job: ClassAd,
    several: int,
    limits: QueueLimits,
) -> _Found:
    for name, words, attribute, of_hosts, unit in _ATTRIBUTES:
        amount = amounts[name]
        if not amount:
            continue
        request = table.requests.get(name)
        if request is None:
            _check(limits, name, Fraction(amount), attribute, unit)
            reason = f"{table.lrms} has no flag for {words}"
            need = _need(job, of_hosts, amount / unit)
            clause = Attr(None, attribute, False) if need is None else need
            yield name, Dropped(clause, reason)
            continue
        parts = several if request.per_cpu else 1
        number = _counted(-(-amount // parts), request, attribute, table)
        in_all = number * request.unit * parts
        _check(limits, name, in_all, attribute, unit)
        need = _need(job, of_hosts, in_all / unit)
        if name == "memory" and need is not None:
            # Slurm gives more processors to a job that asks for more memory than comes with them.
            each = limits.cpu_memory
            with_them = parts * math.ceil(in_all / parts / each) if each else 0
            more = _need(job, "GlueHostArchitectureSMPSize", Fraction(with_them))
            need = Binary("&&", need, more) if with_them > 1 and more is not None else need
        clause = Attr(None, attribute, False) if need is None else need
        share = Fraction(0) if request.per_cpu else request.unit / (unit if of_hosts else 1)
        subject = ascii_fold(of_hosts) or _TIMES
        yield (
            name,
            RequestItem(
                request.flag, number, clause, need, subject=subject, unit=share, divided=parts > 1
            ),
        )


def _others(
    table: Mapping,
    job: ClassAd,
    several: int,
    given: MappingType[str, list[str]],
    context: ClassAd,
    *,
    fixed: bool,
) -> _Found:
    used = table.used | ({QUEUE} if fixed else frozenset())
    for name, request in table.requests.items():
        slot = slot_of(request.flag)
        if name in RESOURCES or (slot and slot not in used):
            continue
        clause = Attr(None, name, False)
        try:
            value: int | str | None
            if request.origin != "job":
                value = _word(given[request.origin], request)
            elif request.expression is not None:
                value = _of_job(_computed(request, job, context), request, table, several)
            else:
                value = _of_job(job.eval(request.name), request, table, several)
        except NotAllowedError as error:
            yield name, Dropped(clause, str(error))
            continue
        if value is None:
            continue
        yield (
            name,
            RequestItem(
                request.flag,
                value,
                clause,
                bare=request.kind == "present",
                subject=_TIMES if request.kind == "time" else _NUMBERS,
                unit=Fraction(0) if request.per_cpu else request.unit,
                divided=request.per_cpu and several > 1,
            ),
        )


def request_names(table: Mapping) -> list[str]:
    """Return the names of the job's attributes that a mapping has flags for.

    >>> from matchmaker.batch import load_mapping
    >>> request_names(load_mapping("sge"))
    ['RequestMemory', 'MaxWallTime']
    """
    resources = {
        name: attribute for name, _, attribute, *_ in _ATTRIBUTES if name in table.requests
    }
    others = {
        name: name
        for name, request in table.requests.items()
        if name not in RESOURCES and request.origin == "job"
    }
    return list(dict.fromkeys(
        attribute
        for name, usual in {**resources, **others}.items()
        for attribute in table.requests[name].attributes(usual)
    ))  # fmt: skip


class NotAllowedError(Exception):
    """A mapping does not allow the value of a request; the message says why."""


def _counted(amount: int, request: Request, attribute: str, table: Mapping) -> int:
    """Convert an amount to the unit of a flag; raise NoFlagsError if it cannot count so far."""
    number = math.ceil(amount / request.unit)
    if number > request.most:
        raise NoFlagsError(
            f"{table.lrms} cannot be asked for {number} as in {request.flag}, which is what "
            f"{attribute} of the job comes to; the most is {request.most}"
        )
    return number


def _computed(request: Request, job: ClassAd, context: ClassAd) -> Value:
    """Evaluate a request's expression.

    Raises NotAllowedError for an error; one of a function of undefined is as undefined.
    """
    assert request.expression is not None  # noqa: S101 - only such requests are computed
    value = request.expression.eval(job, context)
    if is_error(value):
        # Some functions, such as ceiling(), make an error of undefined.
        if value.reason.endswith("not undefined"):
            return UNDEFINED
        raise NotAllowedError(f"{_subject(request)} is an error: {value.reason}")
    return value


def _subject(request: Request) -> str:
    if request.expression is None:
        return f"{request.name} of the job"
    return f"the value {shown(request.expression)}"


def _of_job(value: Value, request: Request, table: Mapping, several: int) -> int | str | None:
    """Convert a value to a request; None if it requests nothing.

    ``several``: how many processors the job requests, for a share of each. Raises NotAllowedError
    for a value that the mapping does not allow, and for a computed one of a wrong type; ValueError
    for an attribute of a wrong type.
    """
    if value is UNDEFINED or value == "":
        return None
    if request.kind == "present":
        if not isinstance(value, (bool, int, float, str)):
            _fail(request, "must be a boolean, a number or a text")
        return "" if value else None
    if request.kind == "text":
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            _fail(request, "must be a text")
        return _word([str(value)], request)
    if request.kind in ("time", "bucket") and isinstance(value, str):
        value = _seconds(value, request)
    number = math.ceil(_number(value, request))
    if request.kind == "bucket":
        return _bucket(number, request)
    parts = several if request.per_cpu else 1
    return _counted(-(-number // parts), request, request.name, table) or None


def _number(value: Value, request: Request) -> int | float:
    if not is_number(value) or not 0 <= value < MAX_INT:
        wrong = f"must be a number, 0 or more, not {unparse_value(value)}"
        text = isinstance(value, str) and request.expression is not None
        _fail(request, f'{wrong} (of a text: kind = "text")' if text else wrong)
    return value


def _fail(request: Request, wrong: str) -> NoReturn:
    message = f"{_subject(request)} {wrong}"
    raise ValueError(message) if request.expression is None else NotAllowedError(message)


def _seconds(text: str, request: Request) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        _fail(request, f"must be seconds or hh:mm:ss, not {text!r}")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


# `hh:mm:ss` with optional days, as schedulers print it; digits are bounded to fit an integer.
_TIME: Final = re.compile(r"(?:([0-9]{1,5})-)?([0-9]{1,6}):([0-5][0-9]):([0-5][0-9])")


def _bucket(number: int, request: Request) -> str:
    """Return the word of the first bucket that has a number."""
    for word, (low, high) in request.buckets.items():
        if low <= number <= high:
            return word
    raise NotAllowedError(f"{number} is in none of the buckets of {request.name}")


def _word(given: Iterable[str], request: Request) -> str | None:
    """Return the batch system's word for the first text that the mapping allows; None for no text.

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
        f"digits and {TEXT_SIGNS}, the first a letter or digit"
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
    """Demand that a host has an amount, or does not say; None without such an attribute."""
    if not attribute:
        return None
    subject = Attr(host_of(job), attribute, False)
    least = Literal(min(math.ceil(amount), MAX_INT))
    return Binary("||", Call("isUndefined", (subject,)), Binary(">=", subject, least))
