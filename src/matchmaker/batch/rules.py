"""The rules of a mapping for single attributes of hosts, and the reader of their TOML tables."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from collections.abc import Mapping as MappingType
from fractions import Fraction
from typing import Any, Final

import attrs

from matchmaker.batch.errors import MappingError
from matchmaker.batch.sections import Section
from matchmaker.batch.templates import (
    NAME_SIGNS,
    VALUE,
    formatted,
    safe,
    slot_of,
    slots,
    template,
)
from matchmaker.classad.values import MAX_INT

KINDS: Final = ("min", "max", "range", "eq", "member", "bool", "bucket", "name", "python", "shell")

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CALL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")


@attrs.frozen(slots=True)
class Rule:
    """How to ask for one host attribute. docs/mappings.md explains the entries of the TOML table.

    Attributes:
        attribute: the name of the attribute.
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
        join: what joins several names in one term.
        negate: what stands before names to negate them, or the template for names to be without.
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
    """Raises MappingError for a feature whose name has another meaning to the batch system."""
    taken = {word.lower() for word in no_names}
    for rule in rules:
        for name in rule.named:
            if not safe(name, signs) or name.lower() in taken:
                beside = f"letters, digits and {' '.join(signs)}" if signs else "letters and digits"
                raise MappingError(
                    f"{where}: [attributes.{rule.attribute}]: expected names of {beside} that mean "
                    f"nothing else to {lrms}, found {name!r}"
                )


def read_rule(name: str, section: Section, term: str = "{value}", negate: str = "") -> Rule:
    """The rule for an attribute from its table.

    Raises MappingError for an invalid table.
    """
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


def _template(section: Section, keys: tuple[str, ...], *, needed: bool = True) -> str:
    """The template in the only one of several entries that the table has."""
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


def _number(section: Section) -> Rule:
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


def _features(section: Section) -> Rule:
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


def _names(section: Section) -> dict[str, Any]:
    return {
        "term": term_of(section, "term") if "term" in section.facts else "",
        "join": section.choice("join", ("", "|", '","'), ""),
        "negate": negate_of(section, ""),
        "complete": section.choice("complete", (True, False), default=False),
    }


def term_of(section: Section, key: str) -> str:
    """The template for names, which must not be an option."""
    found = template(section.facts[key])
    if not found or found.startswith("-") or len(slots(found)) != 1:
        section.fail(key, "a word like arch={value}, or a slot of [flags]")
    if formatted(found) or (VALUE not in slots(found) and not slot_of(found)):
        section.fail(key, "a word like arch={value}, or a slot of [flags]")
    return found


def negate_of(section: Section, default: str) -> str:
    """The sign that negates names, or the template to be without them."""
    found = section.facts.get("negate", default)
    if found in ("", "!"):
        return str(found)
    text = template(found)
    if text is None or VALUE not in slots(text) or text.startswith("-"):
        section.fail("negate", "'!' or a word like arch!={value}")
    return text


def _buckets(section: Section) -> Rule:
    return Rule("", "bucket", buckets=read_buckets(section), **_names(section))


def read_buckets(section: Section) -> dict[str, tuple[int, float]]:
    """The buckets of a table: the least and the greatest number of each name."""
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


def _named(section: Section) -> Rule:
    name = section.facts.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        section.fail("name", "the name of an attribute")
    return Rule("", "name", name=name)


def _called(section: Section) -> Rule:
    call = section.facts.get("call")
    if not isinstance(call, str) or not _CALL.fullmatch(call):
        section.fail("call", "a function like module:function")
    return Rule("", "python", call=call)


_NUMBER: Final = ("flag", "term", "most", "unit", "rounding")
_WORDS: Final = ("features", "term", "join", "negate", "complete")

_READERS: Final[MappingType[str, tuple[tuple[str, ...], Callable[[Section], Rule]]]] = {
    "min": (_NUMBER, _number),
    "max": (_NUMBER, _number),
    "range": (("min", "max", "most", "unit", "rounding"), _number),
    "eq": ((*_WORDS, "values", "flag"), _features),
    "member": (("features", "term", "join", "negate"), _features),
    "bool": (("features", "term", "negate"), _features),
    "bucket": (("buckets", "term", "join", "negate", "complete"), _buckets),
    "name": (("name",), _named),
    "python": (("call",), _called),
    "shell": ((), lambda section: Rule("", "shell")),
}
