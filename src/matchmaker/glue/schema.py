"""The GLUE 1.3 and 2.0 schemas as data: the name, type, unit, multiplicity and scope of attributes.

The facts are in ``schemas/glue/*.toml``, made from the LDAP schemas of the OGF GLUE working group
(GLUE 1.3 and GFD.147); this module loads and looks them up. `clean` turns text into values and
judges them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import attrs

from matchmaker._data import data_text

FILES = ("glue13.toml", "glue20.toml")

FACTORS: Final[Mapping[tuple[str, str], int]] = MappingProxyType(
    {("seconds", "minutes"): 60, ("MB", "GB"): 1000, ("kB", "MB"): 1000, ("kB", "GB"): 1_000_000}
)
"""The number of the first unit in one of the second (a GB is 10^9 bytes in GLUE 2)."""

# The attribute that names an entry of each class, most particular class first.
GLUE1_IDS: Final[Mapping[str, str]] = {
    "gluevoview": "GlueVOViewLocalID",
    "gluecesebindgroup": "GlueCESEBindGroupCEUniqueID",
    "gluecesebind": "GlueCESEBindSEUniqueID",
    "gluesubcluster": "GlueSubClusterUniqueID",
    "gluecluster": "GlueClusterUniqueID",
    "gluece": "GlueCEUniqueID",
    "gluesa": "GlueSALocalID",
    "gluese": "GlueSEUniqueID",
    "gluesite": "GlueSiteUniqueID",
}

GLUE2_IDS: Final[Mapping[str, str]] = {
    "glue2admindomain": "GLUE2DomainID",
    "glue2location": "GLUE2LocationID",
    "glue2contact": "GLUE2ContactID",
    "glue2computingservice": "GLUE2ServiceID",
    "glue2storageservice": "GLUE2ServiceID",
    "glue2computingendpoint": "GLUE2EndpointID",
    "glue2computingshare": "GLUE2ShareID",
    "glue2storageshare": "GLUE2ShareID",
    "glue2computingmanager": "GLUE2ManagerID",
    "glue2executionenvironment": "GLUE2ResourceID",
    "glue2benchmark": "GLUE2BenchmarkID",
    "glue2applicationenvironment": "GLUE2ApplicationEnvironmentID",
    "glue2mappingpolicy": "GLUE2PolicyID",
    "glue2accesspolicy": "GLUE2PolicyID",
    "glue2tostorageservice": "GLUE2ToStorageServiceID",
    "glue2storageservicecapacity": "GLUE2StorageServiceCapacityID",
    "glue2storagesharecapacity": "GLUE2StorageShareCapacityID",
}
"""The classes that are read, and the attribute that names an entry of each."""


@attrs.frozen(slots=True)
class Attribute:
    """An attribute of the schema.

    Attributes:
        owner: the object class that defines it.
        ldap: its type on the wire: string, integer, boolean or time.
        classad: its type in an ad: string, integer, real or boolean.
        unit: as published: MB, GB, kB, bytes, minutes, seconds, MHz, …, or ``none``.
        scope: identity, state, policy or access of a queue, host, or storage.
        sentinel: numbers that are published for "not known".
        glue2: the nearest attribute of GLUE 2.0, or empty.
        apart: directions in which code replaces the renaming to and from that one: ``from``,
            ``to``, and ``rest`` if nothing of it is left over for OtherInfo.
        usual: the value of a mandatory attribute that is not known, if not a word for that.
    """

    name: str
    owner: str
    version: str
    ldap: str
    classad: str
    multi: bool
    unit: str
    scope: str
    sentinel: tuple[int, ...] = ()
    glue2: str = ""
    apart: tuple[str, ...] = ()
    usual: str = ""


@attrs.frozen(slots=True)
class ObjectClass:
    """An object class: the attributes that it adds to entries, and its parent."""

    name: str
    version: str
    kind: str
    parent: str = ""
    must: tuple[str, ...] = ()
    may: tuple[str, ...] = ()


def _frozen(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in facts.items()}


@cache
def attributes() -> Mapping[str, Attribute]:
    """Return every attribute of both schemas, by its name or alias in lower case.

    >>> len({known.name for known in attributes().values()})
    595
    """
    known: dict[str, Attribute] = {}
    for file in FILES:
        schema = tomllib.loads(data_text("schemas", "glue", file))
        for name, facts in schema["attributes"].items():
            aliases, owner = facts.pop("aliases", ()), facts.pop("class")
            made = Attribute(name, owner, schema["version"], **_frozen(facts))
            for spelling in (name, *aliases):
                known[spelling.lower()] = made
    return MappingProxyType(known)


@cache
def benchmark_attributes() -> Mapping[str, str]:
    """Return the attribute of GLUE 1.3 for each type of benchmark that GLUE 2.0 names: its unit.

    >>> benchmark_attributes()["specint2000"]
    'GlueHostBenchmarkSI00'
    """
    return {
        known.unit.lower(): known.name
        for known in attributes().values()
        if known.glue2 == "GLUE2BenchmarkValue"
    }


@cache
def classes() -> Mapping[str, ObjectClass]:
    """Return every object class of both schemas, by its name in lower case.

    >>> classes()["gluece"].must
    ('GlueCEUniqueID',)
    """
    known: dict[str, ObjectClass] = {}
    for file in FILES:
        schema = tomllib.loads(data_text("schemas", "glue", file))
        for name, facts in schema["classes"].items():
            known[name.lower()] = ObjectClass(name, schema["version"], **_frozen(facts))
    return MappingProxyType(known)


def ancestry(name: str) -> tuple[ObjectClass, ...]:
    """Return a class and its ancestors, the most general first; nothing for an unknown one.

    >>> [known.name for known in ancestry("GLUE2ComputingShare")]
    ['GLUE2Entity', 'GLUE2Share', 'GLUE2ComputingShare']
    """
    known = classes().get(name.lower())
    return () if known is None else (*ancestry(known.parent), known)


def class_attributes(name: str) -> frozenset[str]:
    """Return the attributes of a class and its ancestors, in lower case; none if it is unknown.

    >>> sorted(class_attributes("GlueKey"))
    ['gluechunkkey', 'glueforeignkey']
    """
    return frozenset().union(*map(_own, ancestry(name)))


@cache
def short_names(kind: str) -> Mapping[str, str]:
    """Return the attributes of a class and those above it by short name in lower case.

    Of two with one short name that of the more particular class counts.

    >>> short_names("GLUE2ComputingShare")["maxcputime"], short_names("GLUE2ComputingShare")["name"]
    ('GLUE2ComputingShareMaxCPUTime', 'GLUE2EntityName')
    """
    return {
        name.removeprefix(owner.name.lower()): known.name
        for owner in ancestry(kind)
        for name, known in attributes().items()
        if known.owner == owner.name
    }


def object_classes(structural: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the classes that an entry must name for a server to take its attributes.

    Args:
        structural: the class of the entry.
        names: its attributes; those that no class can bring into such an entry are left out of
            account.

    >>> object_classes("GlueVOView", ["GlueVOViewLocalID", "GlueChunkKey"])
    ('GlueClusterTop', 'GlueVOView', 'GlueKey')
    """
    found = [known.name for known in ancestry(structural) if known.name != "GlueTop"]
    allowed = set(class_attributes(structural))
    version = classes()[structural.lower()].version
    wanted = {name.lower() for name in names}
    for name in sorted(wanted):
        if name in allowed:
            continue
        for made in _auxiliary(version):
            own = _own(made)
            if name in own and wanted >= {must.lower() for must in made.must}:
                found.append(made.name)
                allowed |= own
                break
    return tuple(found)


@cache
def _auxiliary(version: str) -> tuple[ObjectClass, ...]:
    """Return the classes that may join others; small ones first, which bring the least."""
    found = [c for c in classes().values() if c.version == version and c.kind == "auxiliary"]
    return tuple(sorted(found, key=lambda c: len(c.must) + len(c.may)))


@cache
def _own(made: ObjectClass) -> frozenset[str]:
    return frozenset(name.lower() for name in (*made.must, *made.may))


def attribute(name: str) -> Attribute | None:
    """Return the attribute of a name, in any case; None if neither schema has it.

    >>> attribute("gluecestatefreecpus").name
    'GlueCEStateFreeCPUs'
    >>> attribute("GlueCEPolicyMaxCPUTime").unit, attribute("GLUE2ComputingShareMaxCPUTime").unit
    ('minutes', 'seconds')
    >>> attribute("Memory") is None
    True
    """
    return attributes().get(name.lower())


def convert(value: float, unit: str, to: str) -> int | float | None:
    """Convert a number to another unit; None if the units have nothing in common.

    A whole number stays whole if it can. A larger unit is rounded down, as a limit of 90 seconds is
    no limit of 2 minutes.

    >>> convert(1440, "minutes", "seconds"), convert(90, "seconds", "minutes")
    (86400, 1)
    >>> convert(5, "GB", "minutes") is None
    True
    """
    if unit == to:
        return value
    if (factor := FACTORS.get((to, unit))) is not None:
        return value * factor
    if (factor := FACTORS.get((unit, to))) is not None:
        return value // factor if isinstance(value, int) else value / factor
    return None


def scope(name: str) -> str:
    """Return the scope of an attribute; ``host`` for facts about a worker node.

    The reduction of a requirement keeps names of scope ``host`` as variables and puts in the CE's
    values for all others.

    Returns:
        ``identity``, ``state``, ``policy``, ``access``, ``host`` or ``storage``, and ``unknown``
            for a name that neither schema has.

    >>> scope("GlueHostBenchmarkSI00"), scope("glueCEPolicyMaxCPUTime"), scope("QueueName")
    ('host', 'policy', 'unknown')
    """
    # Not by attribute(): reduction asks this more often than anything else.
    found = attributes().get(name.lower())
    return "unknown" if found is None else found.scope


# The endings of names in both versions.
_DECIDING = ("foreignkey", "chunkkey", "accesscontrolbaserule", "policyrule", "endpointcapability")


def decides_access(name: str) -> bool:
    """Whether an attribute holds rules of access, or says which rules count.

    Keys lead from or to rules, and those of an endpoint for information do not count for jobs.

    >>> [decides_access(name) for name in ("GLUE2PolicyRule", "GlueChunkKey", "GlueCEName")]
    [True, True, False]
    """
    folded = name.lower()
    return folded.endswith(_DECIDING)


# The longest name of either schema has 57 letters. The bound keeps the search linear; each begins
# with plain letters, which are searched for fast.
_NAMED = tuple(
    re.compile(rf"({stem}\w{{0,80}}):")
    for stem in ("Glue(?=[A-Z])", "GLUE2(?=[A-Z])", "objectClass")
)


def name_within(text: str) -> int | None:
    """Return the place in a text at which an attribute's name and a colon begin, or None.

    A newline went missing there. Only names of the schema count, and objectClass.

    >>> name_within("longGlueCEStateFreeCPUs: 7"), name_within("GlueClusterUniqueID=ce.lyon.grid")
    (4, None)
    """
    first: int | None = None
    for pattern in _NAMED:
        found = pattern.search(text)
        while found and (first is None or found.start() < first):
            if found[1] == "objectClass" or attribute(found[1]) is not None:
                first = found.start()
            found = pattern.search(text, found.start() + 1)
    return first
