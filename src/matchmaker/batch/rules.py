"""The rules of a mapping: how to ask for an attribute of hosts, and for a request of a job.

``read_rule`` and ``read_requests`` make rules of a ``TomlTable``; every error names the file, the
table, the key, the expected values and the found one. docs/mappings.md explains the entries.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable
from collections.abc import Mapping as MappingType
from fractions import Fraction
from typing import Any, Final, NoReturn

import attrs

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.errors import MappingError
from matchmaker.batch.templates import (
    NAME_SIGNS,
    VALUE,
    formatted,
    safe,
    slot_of,
    slots,
    template,
)
from matchmaker.classad import Expr, ParseError, parse_expr
from matchmaker.classad.errors import closest, shorten
from matchmaker.classad.functions import FUNCTIONS, unknown
from matchmaker.classad.nodes import Call
from matchmaker.classad.values import MAX_INT, is_integer, is_number
from matchmaker.classad.walks import postorder

# A smaller unit makes numbers that no integer of 64 bits holds.
LEAST_UNIT: Final = 1e-12

# None is a value that TOML cannot have, but callers may pass; an object of its own cannot clash.
_MISSING: Final = object()


@attrs.frozen(slots=True)
class TomlTable:
    """A table of a mapping file: the name of the file, of the table (or empty), and its facts."""

    where: str
    name: str
    facts: MappingType[str, Any]

    def fail(self, key: str, expected: str, found: object = _MISSING) -> NoReturn:
        """Raise MappingError for a key of the table, or for the table if ``key`` is empty."""
        if found is _MISSING:
            found = self.facts.get(key, _MISSING)
        table = f"[{self.name}]" if self.name else ""
        place = f"{' '.join(filter(None, (table, key)))}" or "the file"
        text = "nothing" if found is _MISSING else shorten(repr(found), LIMITS.shown)
        raise MappingError(f"{self.where}: {place}: expected {expected}, found {text}")

    def only(self, known: Collection[str]) -> None:
        """Raise MappingError for an unknown key."""
        for key in self.facts:
            if key not in known:
                near = alike(key, known)
                self.fail(key, f"{one_of(known)}{near}", self.facts[key])

    def section(self, key: str) -> TomlTable:
        """Return the table under a key; an empty one without the key."""
        facts = self.facts.get(key, {})
        name = f"{self.name}.{key}" if self.name else key
        if not isinstance(facts, dict):
            TomlTable(self.where, name, {}).fail("", "a table", facts)
        return TomlTable(self.where, name, facts)

    def choice(self, key: str, choices: Iterable[Any], default: Any) -> Any:
        """Read a value that must be one of some."""
        found = self.facts.get(key, default)
        choices = tuple(choices)
        if not any(found is each or (found == each and type(found) is type(each))
                   for each in choices):  # fmt: skip
            self.fail(key, one_of([repr(choice) for choice in choices]))
        return found

    def text(self, key: str, default: str) -> str:
        """Read a text of ASCII characters on one line."""
        found = self.facts.get(key, default)
        if not isinstance(found, str) or not (found.isascii() and (found + "x").isprintable()):
            self.fail(key, "a text of ASCII characters")
        return found

    def words(self, key: str, default: Iterable[str] = ()) -> tuple[str, ...]:
        """Read a list of texts."""
        found = self.facts.get(key, list(default))
        if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
            self.fail(key, "a list of words")
        return tuple(found)

    def most(self, key: str, default: int) -> int:
        """Read the largest number that is allowed."""
        found = self.facts.get(key, default)
        if not is_integer(found) or not 0 < found <= MAX_INT:
            self.fail(key, "a positive integer")
        return found

    def unit(self) -> Fraction:
        """Read the size of a unit: exactly the decimal that the file has."""
        found = self.facts.get("unit", 1)
        number = is_number(found)
        if not number or not LEAST_UNIT <= found < MAX_INT:
            self.fail("unit", "a number above 0")
        return Fraction(str(found))


def one_of(names: Iterable[str]) -> str:
    """Join names as alternatives, for a message.

    >>> one_of(["min", "max", "eq"])
    'min, max or eq'
    """
    *first, last = [*names] or ["nothing"]
    return f"{', '.join(first)} or {last}" if first else last


def alike(name: str, known: Iterable[str]) -> str:
    """Ask whether another name was meant; empty if none is similar.

    >>> alike("el99", ["el8", "el9", "gpu"]), alike("x", ["el8"])
    ('; did you mean el9?', '')
    """
    near = closest(name, {each.lower(): each for each in known}, 0.6)
    return f"; did you mean {near}?" if near else ""


KINDS: Final = ("min", "max", "range", "eq", "member", "bool", "bucket", "name", "python", "shell")

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# `module:function`, as entry points are written.
_CALL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")


@attrs.frozen(slots=True)
class Rule:
    """How to ask for one host attribute.

    Attributes:
        kind: one of ``KINDS``.
        flag, greatest: templates for a minimum and a maximum. One that begins with a dash is a
            separate option, one of a slot alone fills that slot of ``[flags]``, any other is a term
            in the mapping's ``features``.
        most: the largest number that the batch system can count.
        features: the batch system's names by the texts of ads.
        unit: how much of the attribute one unit of the flag is.
        rounding: ``safe``, ``up`` or ``down``.
        term: the template for names.
        buckets: the batch system's names with the least and the greatest number of each; the
            greatest of an open bucket is infinite.
        join: the sign between several names in one term.
        negate: the sign before names to negate them, or the template for hosts without them.
        complete: ``features`` lists every text that hosts have, or ``buckets`` every number.
        name: HTCondor's name of the attribute.
        call: the function of kind ``python``.
    """

    attribute: str
    kind: str
    flag: str = ""
    most: int = MAX_INT
    features: MappingType[str, str] = attrs.field(factory=dict, hash=False)
    greatest: str = ""
    unit: Fraction = Fraction(1)
    rounding: str = "safe"
    term: str = "{value}"
    buckets: MappingType[str, tuple[int, float]] = attrs.field(factory=dict, hash=False)
    join: str = ""
    negate: str = ""
    complete: bool = False
    name: str = ""
    call: str = ""

    @property
    def named(self) -> tuple[str, ...]:
        """The batch system's names that the rule knows, each once."""
        return tuple(dict.fromkeys((*self.features.values(), *self.buckets)))

    @property
    def templates(self) -> tuple[str, ...]:
        """The templates that are not empty."""
        negated = self.negate if VALUE in slots(self.negate) else ""
        names = (self.term, negated) if self.features or self.buckets else ()
        return tuple(filter(None, (self.flag, self.greatest, *names)))


def check_names(
    rules: Iterable[Rule], where: str, lrms: str, signs: str, no_names: Iterable[str]
) -> None:
    """Raise MappingError for a feature whose name has another meaning to the batch system."""
    taken = {word.lower() for word in no_names}
    for rule in rules:
        for name in rule.named:
            if not safe(name, signs) or name.lower() in taken:
                beside = f"letters, digits and {' '.join(signs)}" if signs else "letters and digits"
                raise MappingError(
                    f"{where}: [attributes.{rule.attribute}]: expected names of {beside} that mean "
                    f"nothing else to {lrms}, found {name!r}"
                )


def read_rule(name: str, section: TomlTable, term: str = "{value}", negate: str = "") -> Rule:
    """Read the rule for an attribute from its table."""
    kind = section.choice("kind", KINDS, None)
    keys, read = _READERS[kind]
    made = attrs.evolve(read(section), attribute=name, kind=kind)
    section.only(("kind", *keys))
    if kind in ("min", "max") and not made.flag and not made.greatest:
        slot = f"{{{name}}}"
        made = attrs.evolve(made, flag=slot if kind == "min" else "",
                            greatest=slot if kind == "max" else "")  # fmt: skip
    own = made.negate or (negate if not made.term else "")
    return attrs.evolve(made, term=made.term or term, negate=own)


def _template(section: TomlTable, keys: tuple[str, ...], *, needed: bool = True) -> str:
    """Read the template in the only one of several entries that the table has."""
    given = [key for key in keys if key in section.facts]
    if not given and not needed:
        return ""
    key = given[0] if given else keys[0]
    expected = _EXPECTED[keys]
    if len(given) > 1:
        section.fail(given[1], f"{expected}, not both")
    found = template(section.facts.get(key))
    names = [] if found is None else list(slots(found))
    slot = found is not None and len(names) == 1 and found == f"{{{names[0]}}}"
    plain = found is not None and VALUE in names and len(names) == 1
    if found is None or not (plain or slot) or (
        key == "flag" and not (found.startswith("-") or (slot and not plain))
    ):  # fmt: skip
        section.fail(key, expected)
    return found


_EXPECTED: Final = {
    ("flag", "term"): "flag, an option like '--mem={value}M', or term, a word like 'mem>={value}'",
    ("min",): "min, an option or a word like 'mem>={value}'",
    ("max",): "max, an option or a word like 'mem<={value}'",
}


def _number(section: TomlTable) -> Rule:
    kind = section.facts["kind"]
    least = greatest = ""
    if kind == "range":
        least = _template(section, ("min",))
        greatest = _template(section, ("max",))
    elif kind == "min":
        least = _template(section, ("flag", "term"), needed=False)
    else:
        greatest = _template(section, ("flag", "term"), needed=False)
    return Rule(
        "", kind, least, section.most("most", MAX_INT), {}, greatest, section.unit(),
        section.choice("rounding", ("safe", "up", "down"), "safe"),
    )  # fmt: skip


def _features(section: TomlTable) -> Rule:
    facts, kind = section.facts, section.facts["kind"]
    by_text = {"features", "values"} & set(facts)
    if kind == "eq" and not by_text and {"flag", "term"} & set(facts):
        section.only(("kind", "flag", "term"))
        return Rule("", "eq", _template(section, ("flag", "term")))
    if kind == "eq" and "flag" in facts:
        section.fail("flag", "flag without features and values: a number in an option, or term")
    if len(by_text) == 2:
        section.fail("values", "features or values, not both")
    if kind == "eq" and "values" in facts:
        values = section.words("values")
        features: Any = {value: value for value in values}
    else:
        features = facts.get("features")
    if not isinstance(features, dict):
        section.fail("features", 'a table like { "SL" = "sl" }')
    for name in features.values():
        if not (isinstance(name, str) and safe(name)):
            section.fail(
                "features", f"plain names of features: letters, digits and {NAME_SIGNS}", name
            )
    if kind == "bool" and not {"true"} <= set(features) <= {"true", "false"}:
        section.fail("features", "a name for true, and for false if there is one")
    if kind == "bool" and len(set(features.values())) < len(features):
        section.fail("features", "different names for true and false")
    return Rule("", kind, features=features, **_names(section))


def _names(section: TomlTable) -> dict[str, Any]:
    return {
        "term": term_of(section, "term") if "term" in section.facts else "",
        "join": section.choice("join", ("", "|", '","'), ""),
        "negate": negate_of(section, ""),
        "complete": section.choice("complete", (True, False), default=False),
    }


def term_of(section: TomlTable, key: str) -> str:
    """Read the template for names, which must not be an option."""
    found = template(section.facts[key])
    if not found or found.startswith("-") or len(slots(found)) != 1:
        section.fail(key, "a word like arch={value}, or a slot of [flags]")
    if formatted(found) or (VALUE not in slots(found) and not slot_of(found)):
        section.fail(key, "a word like arch={value}, or a slot of [flags]")
    return found


def negate_of(section: TomlTable, default: str) -> str:
    """Read the sign that negates names, or the template for hosts without them."""
    found = section.facts.get("negate", default)
    if found in ("", "!"):
        return str(found)
    text = template(found)
    if text is None or VALUE not in slots(text) or text.startswith("-"):
        section.fail("negate", "'!' or a word like arch!={value}")
    return text


def read_buckets(section: TomlTable) -> dict[str, tuple[int, float]]:
    """Read the buckets of a table: the least and the greatest number of each name."""
    found: dict[str, tuple[int, float]] = {}
    buckets = section.facts.get("buckets")
    for name, bound in buckets.items() if isinstance(buckets, dict) else [("", None)]:
        ends: list[Any] = bound if isinstance(bound, list) else [bound, bound]
        if not safe(name) or not _is_run(ends):
            section.fail(
                "buckets",
                "a table of plain names of features to numbers, [from, to] or [from, inf]",
            )
        found[name] = (ends[0], ends[1])
    return found


def _is_run(ends: Any) -> bool:
    if len(ends) == 2 and ends[1] == math.inf:
        return _is_run([ends[0], MAX_INT])
    plain = all(isinstance(end, int) and not isinstance(end, bool) for end in ends)
    return plain and len(ends) == 2 and 0 <= ends[0] <= ends[1] <= MAX_INT


def _named(section: TomlTable, key: str, pattern: re.Pattern[str], expected: str) -> Rule:
    found = section.facts.get(key)
    if not isinstance(found, str) or not pattern.fullmatch(found):
        section.fail(key, expected)
    named: dict[str, Any] = {key: found}
    return Rule("", section.facts["kind"], **named)


_NUMBER: Final = ("flag", "term", "most", "unit", "rounding")
_WORDS: Final = ("features", "term", "join", "negate", "complete")

_READERS: Final[MappingType[str, tuple[tuple[str, ...], Callable[[TomlTable], Rule]]]] = {
    "min": (_NUMBER, _number),
    "max": (_NUMBER, _number),
    "range": (("min", "max", "most", "unit", "rounding"), _number),
    "eq": ((*_WORDS, "values", "flag"), _features),
    "member": (("features", "term", "join", "negate"), _features),
    "bool": (("features", "term", "negate"), _features),
    "bucket": (
        ("buckets", "term", "join", "negate", "complete"),
        lambda section: Rule("", "bucket", buckets=read_buckets(section), **_names(section)),
    ),
    "name": (("name",), lambda section: _named(section, "name", _NAME, "the name of an attribute")),
    "python": (
        ("call",),
        lambda section: _named(section, "call", _CALL, "a function like module:function"),
    ),
    "shell": ((), lambda section: Rule("", "shell")),
}


RESOURCES: Final = ("memory", "cpus", "disk", "gpus", "wall")
"""Requests with a unit of their own; other names are of attributes of the job."""

REQUEST_KINDS: Final = ("number", "time", "text", "bucket", "present")
ORIGINS: Final = ("job", "queue", "user", "group")

CONTEXT: Final = ("Queue", "User", "Group")
"""What a request's expression sees as ``TARGET``: no attribute of the job can pose as one."""

TEXT_SIGNS: Final = "._@/-"
"""Signs that a text of a job may have in a flag, whatever its pattern allows."""


@attrs.frozen(slots=True)
class Request:
    """How a request of a job becomes a value in a flag.

    It is an amount of a resource, another attribute of the job's ad, who submits it to which queue,
    or an expression on these.

    Attributes:
        name: a name of ``RESOURCES``, or of an attribute of the job.
        flag: the template of a flag or term; a template of one slot fills that slot of ``[flags]``.
        kind: one of ``REQUEST_KINDS``.
        origin: the source of the value, one of ``ORIGINS``.
        unit: how much of the request is one unit of the flag.
        per_cpu: whether the flag counts for each slot.
        most: the largest number, or the largest number of characters.
        pattern: the regular expression that a text must match as a whole; empty for any.
        values: the batch system's words by the texts of jobs.
        buckets: the batch system's words with the least and the greatest number of each.
        expression: the value, in place of the attribute of that name; None without one.
    """

    name: str
    flag: str
    kind: str = "number"
    origin: str = "job"
    unit: Fraction = Fraction(1)
    per_cpu: bool = False
    most: int = LIMITS.amount
    pattern: str = ""
    values: MappingType[str, str] = attrs.field(factory=dict, hash=False)
    buckets: MappingType[str, tuple[int, float]] = attrs.field(factory=dict, hash=False)
    expression: Expr | None = None

    def attributes(self, name: str) -> tuple[str, ...]:
        """Return the attributes of the job that the value depends on; ``name`` is the usual one."""
        if self.expression is None:
            return (name,)
        named = self.expression.references()
        return (*named.my, *named.unscoped)


_KEYS: Final = {
    "number": ("unit", "per_cpu", "most"),
    "time": ("unit", "most"),
    "text": ("pattern", "values", "most"),
    "bucket": ("buckets",),
    "present": (),
}


def read_requests(section: TomlTable, before: MappingType[str, Request]) -> dict[str, Request]:
    """Read the requests of a table, over those of another mapping."""
    found = dict(before)
    for name in section.facts:
        found[name] = _read_request(name, section.section(name), before.get(name))
    return found


def _read_request(name: str, section: TomlTable, before: Request | None) -> Request:
    kinds = ("number",) if name in RESOURCES else REQUEST_KINDS
    kind = section.choice("kind", kinds, "number")
    origin = section.choice("from", ("job",) if kind != "text" else ORIGINS, "job")
    # Processors are what others are shared among, and all of them have the same time.
    whole = {"per_cpu"} if name in ("cpus", "wall") else set[str]()
    keys = (key for key in _KEYS[kind] if key not in whole)
    section.only(("flag", "term", "kind", "from", "value", *keys))
    if origin != "job" and "value" in section.facts:
        section.fail(
            "from", f"value or from; in value, TARGET.{origin.capitalize()} is the {origin}"
        )
    made = Request(
        name, _request_flag(name, section, kind), kind, origin, expression=_value(section)
    )
    if kind == "present":
        return made
    if kind == "bucket":
        return attrs.evolve(made, buckets=read_buckets(section))
    if kind == "text":
        return attrs.evolve(
            made,
            most=section.most("most", LIMITS.text),
            pattern=_pattern(section),
            values=_values(section),
        )
    unit = section.unit()
    # The same amount, in the new unit, is the largest unless the table says another.
    most = max(1, int(before.most * before.unit / unit)) if before else LIMITS.amount
    return attrs.evolve(
        made,
        unit=unit,
        per_cpu=section.choice("per_cpu", (True, False), default=False),
        most=section.most("most", most),
    )


def _value(section: TomlTable) -> Expr | None:
    """Read the expression of a value, if the table has one."""
    if "value" not in section.facts:
        return None
    text = section.facts["value"]
    if not isinstance(text, str):
        section.fail("value", "an expression as text, such as '100 - MY.Priority'")
    try:
        found = parse_expr(text)
    except ParseError as error:
        section.fail("value", f"an expression ({str(error).splitlines()[0]})")
    for part in postorder(found):
        if isinstance(part, Call) and part.function.lower() not in FUNCTIONS:
            section.fail("value", f"functions of ClassAds ({unknown(part.function)})")
    for name in found.references().target:
        if name.lower() not in map(str.lower, CONTEXT):
            section.fail(
                "value",
                f"of TARGET {one_of(CONTEXT)} alone, as no host is known yet{alike(name, CONTEXT)}",
            )
    return found


def _request_flag(name: str, section: TomlTable, kind: str) -> str:
    given = [key for key in ("flag", "term") if key in section.facts]
    if not given:
        return f"{{{name}}}"
    slot = [] if kind == "present" else ["{value}"]
    expected = (
        f"flag, an option{' with ' + slot[0] if slot else ''} or a slot like {{{name}}}; or term, "
        "a word among the terms of features"
    )
    found = template(section.facts[given[0]])
    if len(given) > 1 or not found or not _fits(found, given[0], kind):
        section.fail(given[0], expected)
    return found


def _fits(found: str, key: str, kind: str) -> bool:
    names = list(slots(found))
    if key == "flag" and names != [VALUE] and found == f"{{{''.join(names)}}}":
        return True
    if key == "flag" and not found.startswith("-"):
        return False
    return names in ([VALUE], [] if kind == "present" else [VALUE])


def _pattern(section: TomlTable) -> str:
    pattern = section.text("pattern", "")
    try:
        re.compile(pattern)
    except re.error as error:
        section.fail("pattern", f"a regular expression ({error})")
    if not pattern and "values" not in section.facts and section.facts.get("from") not in (
        "queue", "user", "group",
    ):  # fmt: skip
        section.fail("pattern", "pattern, such as '[a-z]+', or values: a job may hold any text")
    return pattern


def _values(section: TomlTable) -> dict[str, str]:
    found = section.facts.get("values", {})
    if isinstance(found, list):
        found = {each: each for each in section.words("values")}
    if not isinstance(found, dict):
        section.fail("values", "a list of texts, or a table of texts to words")
    words: dict[str, object] = found
    for word in words.values():
        if word != "" and not (isinstance(word, str) and safe(word, TEXT_SIGNS)):
            section.fail("values", f"words of letters, digits and {one_of(list(TEXT_SIGNS))}", word)
    return {text: str(word) for text, word in words.items()}
