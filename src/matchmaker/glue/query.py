"""ueries for queues as users of grids know them from lcg-info: short names, conditions, a VO.

``OS=Scientific*,FreeCPUs>=10`` holds for an ad if every condition does. No part of a query is
evaluated as an expression: a condition compares one attribute with one text.
"""

from __future__ import annotations

import operator
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import attrs

from matchmaker._data import data_text
from matchmaker.classad import UNDEFINED, ClassAd, Value
from matchmaker.classad.errors import closest
from matchmaker.classad.functions.control import access_by, rule_texts
from matchmaker.glue.access import ALSO, RULES, denies, folded, of_ad, required, vo_of
from matchmaker.glue.schema import attribute, attributes

SHORT: Final[Mapping[str, str]] = tomllib.loads(data_text("schemas", "glue", "lcg-info.toml"))
"""The short names of lcg-info that do not follow from the attribute's own."""

# Longer ones first, where one begins another.
_PREFIXES: Final = (
    *("GlueCEState", "GlueCEInfo", "GlueCEPolicy", "GlueCE", "GlueSubCluster"),
    *("GlueHostNetworkAdapter", "GlueHostProcessor", "GlueHostMainMemory", "GlueHostBenchmark"),
)
_OTHERS: Final = frozenset({"glue2", *map(str.lower, SHORT.values())})
"""Names that queues have and the schema of GLUE 1.3 has not, in small letters."""

_CONDITION = re.compile(r'\s*([\w.]+)\s*(>=|<=|!=|==|=|>|<)\s*("[^"]*"|[^,"]*?)\s*(?:,|\Z)')
_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
}


@cache
def short_names() -> Mapping[str, str]:
    """Return the attributes of queues by short name: lcg-info's, and names without a prefix.

    >>> short_names()["FreeCPUs"], short_names()["Tag"]
    ('GlueCEStateFreeCPUs', 'GlueHostApplicationSoftwareRunTimeEnvironment')
    """
    found = dict(SHORT)
    for prefix in _PREFIXES:
        for known in dict.fromkeys(attributes().values()):
            rest = known.name.removeprefix(prefix)
            if known.version == "1.3" and known.name.startswith(prefix) and rest:
                found.setdefault(rest, known.name)
    return MappingProxyType(dict(sorted(found.items())))


@cache
def _folded() -> Mapping[str, str]:
    return {short.lower(): name for short, name in short_names().items()}


def full_name(name: str) -> str:
    """Return the attribute that a short name, in any case, means; any other name as it is.

    >>> full_name("freecpus"), full_name("gluecename"), full_name("GLUE2.Computing.Share.ID")
    ('GlueCEStateFreeCPUs', 'GlueCEName', 'GLUE2.Computing.Share.ID')
    """
    known = attribute(name)
    return known.name if known is not None else _folded().get(name.lower(), name)


def short_name(name: str) -> str:
    """Return an attribute's name without its class's prefix, if that still means the attribute.

    >>> short_name("GlueHostMainMemoryRAMSize"), short_name("GlueSubClusterUniqueID")
    ('RAMSize', 'GlueSubClusterUniqueID')
    """
    rests = (name.removeprefix(prefix) for prefix in _PREFIXES if name.startswith(prefix))
    return next((rest for rest in rests if short_names().get(rest) == name), name)


def check_name(name: str, ads: Iterable[ClassAd]) -> None:
    """Refuse a name that means no attribute of queues and that none of the ads has.

    Raises:
        ValueError: with the name that was probably meant.

    >>> check_name("freecpu", [])
    Traceback (most recent call last):
    ...
    ValueError: queues have no attribute 'freecpu'; did you mean FreeCPUs?
    """
    first = name.partition(".")[0]
    folded = first.lower()
    known = folded in _folded() or folded in _OTHERS or attribute(first) is not None
    if known or any(first in ad for ad in ads):
        return
    meant = closest(name, {each.lower(): each for pair in short_names().items() for each in pair})
    hint = f"did you mean {meant}?" if meant else "--list-attrs shows those that there are"
    raise ValueError(f"queues have no attribute {name!r}; {hint}")


def value_of(ad: ClassAd, name: str) -> Value:
    """Return the value of an attribute by its short or full name, or by its path in nested ads.

    An attribute that the ad has by the very name goes before the one that the name is short for.

    >>> from matchmaker.classad import parse_ad
    >>> ad = parse_ad('[ LRMSType = "slurm"; GlueCEInfoLRMSType = "pbs"; GlueCEName = "long" ]')
    >>> value_of(ad, "LRMSType"), value_of(ad, "Name")
    ('slurm', 'long')
    """
    own = name.partition(".")[0] in ad
    first, *path = (name if own else full_name(name)).split(".")
    value = ad.eval(first)
    for part in path:
        value = value.eval(part) if isinstance(value, ClassAd) else UNDEFINED
    return value


@attrs.frozen(slots=True)
class Condition:
    """One condition: an attribute, a sign of comparison, and a text."""

    name: str
    sign: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}{self.sign}{self.text}"

    def holds(self, ad: ClassAd) -> bool:
        """Whether it holds for an ad; never for an unknown value.

        A list has a value if one of its items has it, and lacks it if none has. Texts are compared
        without case, and ``*`` stands for any; so is their order.
        """
        value = value_of(ad, self.name)
        if value is UNDEFINED:
            return False
        items = value if isinstance(value, list) else [value]
        if self.sign == "!=":
            return not any(_compare(item, "=", self.text) for item in items)
        return any(_compare(item, self.sign, self.text) for item in items)


def _compare(value: Value, sign: str, text: str) -> bool:
    if isinstance(value, bool):
        return sign in ("=", "==") and text.lower() == str(value).lower()
    if isinstance(value, (int, float)):
        try:
            return _ORDER[sign](value, float(text))
        except ValueError:
            return False
    if not isinstance(value, str):
        return False
    if sign in ("=", "=="):
        return fnmatchcase(value.lower(), text.lower().replace("[", "[[]"))
    return _ORDER[sign](value.lower(), text.lower())


def parse_query(text: str) -> tuple[Condition, ...]:
    """Parse the conditions of a query: ``name=value`` and the like, between commas.

    Values may stand in double quotes, and must if they hold a comma.

    Raises:
        ValueError: it has another form; the message shows the place.

    >>> [c.name for c in parse_query('OS=Scientific*, FreeCPUs>=10, Site="a, b"')]
    ['OS', 'FreeCPUs', 'Site']
    >>> parse_query("FreeCPUs")
    Traceback (most recent call last):
    ...
    ValueError: 'FreeCPUs' is no condition: a query is name=value, name>=value, …, between commas
    """
    found: list[Condition] = []
    place = 0
    while place < len(text):
        match = _CONDITION.match(text, place)
        # A value that begins as a sign does is a sign mistyped, such as >>.
        if match is None or not match[3] or match[3][0] in "<>=!~":
            word = text[place:].partition(",")[0].strip()[:100]
            said = "is no condition: a query is name=value, name>=value, …, between commas"
            raise ValueError(f"{word!r} {said}")
        found.append(Condition(match[1], match[2], match[3].strip('"')))
        place = match.end()
    return tuple(found)


def admits(ad: ClassAd, vo: str) -> bool:
    """Whether a queue's rules name a virtual organisation or admit everybody, or there are none.

    >>> [admits(ClassAd({RULES: rules}), "CMS") for rules in (["VO:cms", "DENY:/atlas"], ["VO:x"])]
    [True, False]
    """
    if access_by(ad.eval(RULES), UNDEFINED, vo, UNDEFINED, ad.eval(ALSO)) is False:
        return False
    # A group or role of the VO is enough here, where no user is.
    wanted = {vo.lower()} - {""}
    lists = ([r for r in rule_texts([one]) if not denies(r)] for one in required(of_ad(ad)))
    return all(any(folded(r) == "all" or vo_of(r).lower() in wanted for r in one) for one in lists)
