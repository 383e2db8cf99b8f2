"""What a mapping says of a job's own requests: ``[requests]``, one table or line for each.

A request is a value that goes into a flag: an amount of a resource, another attribute of the job's
ad, who submits it to which queue, or an expression on these. What a job requests is in ``request``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as MappingType
from fractions import Fraction
from typing import Final

import attrs

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.batch.rules import read_buckets
from matchmaker.batch.sections import Section, alike, one_of
from matchmaker.batch.templates import VALUE, safe, slots, template
from matchmaker.classad import Expr, ParseError, parse_expr
from matchmaker.classad.functions import unknown
from matchmaker.classad.nodes import Call
from matchmaker.classad.registry import FUNCTIONS
from matchmaker.classad.walks import postorder

RESOURCES: Final = ("memory", "cpus", "disk", "gpus", "wall")
"""Requests with a unit of their own; other names are of attributes of the job."""

KINDS: Final = ("number", "time", "text", "bucket", "present")
ORIGINS: Final = ("job", "queue", "user", "group")

CONTEXT: Final = ("Queue", "User", "Group")
"""What a request's expression sees as ``TARGET``: no attribute of the job can pose as one."""

TEXT_SIGNS: Final = "._@/-"
"""Signs that a text of a job may have in a flag, whatever its pattern allows."""


@attrs.frozen(slots=True)
class Request:
    """How a request is written. docs/mappings.md explains the entries of the TOML table.

    Attributes:
        name: a name of ``RESOURCES``, or of an attribute of the job.
        flag: the template of a flag or term; a template of one slot fills that slot of ``[flags]``.
        kind: one of ``KINDS``.
        origin: where the value comes from, one of ``ORIGINS``.
        unit: how much of the request is one unit of the flag.
        per_cpu: whether the flag counts for each slot.
        most: the largest number, or the largest number of characters.
        pattern: the regular expression that a text must match as a whole; empty for any.
        values: the batch system's words by the texts of jobs.
        buckets: the batch system's words with the least and the greatest number of each.
        expression: what the value is, in place of the attribute of that name; None without one.
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
        """The attributes of the job that the value depends on; ``name`` is the usual one."""
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


def read_requests(section: Section, before: MappingType[str, Request]) -> dict[str, Request]:
    """The requests of a table, over those of another mapping."""
    found = dict(before)
    for name in section.facts:
        found[name] = _read(name, section.section(name), before.get(name))
    return found


def _read(name: str, section: Section, before: Request | None) -> Request:
    kinds = ("number",) if name in RESOURCES else KINDS
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
    made = Request(name, _flag(name, section, kind), kind, origin, expression=_value(section))
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


def _value(section: Section) -> Expr | None:
    """The expression of a value, if the table has one."""
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


def _flag(name: str, section: Section, kind: str) -> str:
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


def _pattern(section: Section) -> str:
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


def _values(section: Section) -> dict[str, str]:
    found = section.facts.get("values", {})
    if isinstance(found, list):
        found = {each: each for each in section.words("values")}
    if not isinstance(found, dict):
        section.fail("values", "a list of texts, or a table of texts to words")
    words: dict[str, object] = found
    return {text: _plain(section, "values", word) for text, word in words.items()}


def _plain(section: Section, key: str, word: object) -> str:
    if word != "" and not (isinstance(word, str) and safe(word, TEXT_SIGNS)):
        section.fail(key, f"words of letters, digits and {one_of(list(TEXT_SIGNS))}", word)
    return str(word)
