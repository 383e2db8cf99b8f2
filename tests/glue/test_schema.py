from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from matchmaker.glue import schema
from matchmaker.glue.schema import attribute, attributes, classes, convert, scope

LDAP = Path("/etc/ldap/schema")
FILES = {
    "1.3": ("Glue-CORE", "Glue-MDS", "Glue-CE", "Glue-CESEBind", "Glue-SE"),
    "2.0": ("GLUE20",),
}
SYNTAX = {"7": "boolean", "15": "string", "24": "time", "26": "string", "27": "integer"}


def test_every_class_and_attribute_is_there() -> None:
    known = {a.name: a for a in attributes().values()}
    assert Counter(a.version for a in known.values()) == {"1.3": 280, "2.0": 315}
    assert Counter(c.version for c in classes().values()) == {"1.3": 58, "2.0": 36}


def test_facts_are_within_their_vocabulary() -> None:
    for a in attributes().values():
        assert a.ldap in {"string", "integer", "boolean", "time"}
        assert a.classad in {"string", "integer", "real", "boolean"}
        assert a.scope in {"identity", "state", "policy", "access", "host", "storage"}
        assert {*a.apart} <= {"from", "to", "rest"}
        assert a.owner.lower() in classes()
        assert a.unit
        if a.glue2:
            other = attribute(a.glue2)
            assert other is not None
            assert other.version == "2.0"
        if a.unit != "none":
            assert a.classad in {"integer", "real"}, a


def test_classes_name_known_attributes_and_parents() -> None:
    for made in classes().values():
        assert all(attribute(name) is not None for name in (*made.must, *made.may))
        assert not made.parent or made.parent.lower() in classes()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("GlueHostBenchmarkSI00", "host"),
        ("GLUEHOSTMAINMEMORYRAMSIZE", "host"),
        ("GlueHostApplicationSoftwareRunTimeEnvironment", "host"),
        ("GlueSubClusterWNTmpDir", "host"),
        ("GlueSubClusterLogicalCPUs", "state"),
        ("GlueSubClusterUniqueID", "identity"),
        ("GlueCEPolicyMaxCPUTime", "policy"),
        ("GlueCEStateFreeCpus", "state"),
        ("GlueCEAccessControlBaseRule", "access"),
        ("GlueSAStateAvailableSpace", "storage"),
        ("GLUE2ExecutionEnvironmentMainMemorySize", "host"),
        ("GLUE2ComputingShareMaxCPUTime", "policy"),
        ("GLUE2GroupName", "identity"),
        ("Memory", "unknown"),
        ("", "unknown"),
    ],
)
def test_scope(name: str, expected: str) -> None:
    assert scope(name) == expected


def test_all_facts_of_hosts_have_the_scope_of_hosts() -> None:
    for a in attributes().values():
        if a.name.startswith("GlueHost"):
            assert a.scope == "host"
        if a.name.startswith(("GlueCE", "GlueSite", "GlueVO")):
            assert a.scope != "host"


def test_units_and_sentinels() -> None:
    times = [attribute("GlueCEPolicyMaxCPUTime"), attribute("GLUE2ComputingShareMaxCPUTime")]
    assert [a.unit for a in times if a] == ["minutes", "seconds"]
    memory = attribute("GlueHostMainMemoryRAMSize")
    assert memory is not None
    assert (memory.unit, memory.sentinel, memory.multi) == ("MB", (444444, 0), False)


def statements(text: str) -> list[tuple[str, str]]:
    text = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
    text = re.sub(r"DESC\s*'[^']*'", "", text)
    parts = re.split(r"(?im)^\s*(attributetype|objectclass)\b", text)
    return list(zip((kind.lower() for kind in parts[1::2]), parts[2::2], strict=True))


def words(body: str, keyword: str) -> list[str]:
    """The names behind a keyword of a class, in lower case; names of both kinds of the schema."""
    found = re.search(rf"\b{keyword}\s*(\([^)]*\)|'?[\w-]+)", body)
    return [word.lower() for word in re.findall(r"[\w-]+", found[1])] if found else []


def check_class(known: schema.ObjectClass, name: str, body: str) -> None:
    assert known.name == name
    assert [m.lower() for m in known.must] == words(body, "MUST")
    # The lists of the schema spell some names as nobody defines them: FreeCpus.
    spelt = [attribute(m) for m in words(body, "MAY")]
    assert None not in spelt
    assert [attribute(m) for m in known.may] == spelt
    assert ([known.parent.lower()] if known.parent else []) == [
        parent for parent in words(body, "SUP") if parent != "top"
    ]
    kinds = re.findall(r"(?i)\b(abstract|structural|auxiliary)\b", body)
    assert known.kind == (kinds[0].lower() if kinds else "structural")


def test_a_unit_becomes_that_of_the_other_version() -> None:
    pairs = [(a, attribute(a.glue2)) for a in attributes().values() if a.glue2]
    assert len(pairs) > 100
    for one, other in pairs:
        assert other is not None
        if other.unit != "none":
            assert convert(1, one.unit, other.unit) is not None, one.name
    assert convert(1440, "minutes", "seconds") == 86400
    assert convert(2_097_152, "kB", "GB") == 2
    assert convert(1.5, "seconds", "minutes") == 0.025
    assert convert(1, "MB", "seconds") is None


@pytest.mark.service
@pytest.mark.skipif(not (LDAP / "GLUE20.schema").exists(), reason="glue-schema is not installed")
@pytest.mark.parametrize("version", ["1.3", "2.0"])
def test_facts_are_those_of_the_published_schema(version: str) -> None:
    names = set()
    for file in FILES[version]:
        text = (LDAP / f"{file}.schema").read_text(encoding="utf-8", errors="replace")
        for kind, body in statements(text):
            published = re.findall(r"'([^']*)'", body.split("NAME", 1)[1].split(")")[0])
            name = published[0]
            if kind == "objectclass":
                check_class(schema.classes()[name.lower()], name, body)
                continue
            syntax = re.search(r"SYNTAX\s+[\d.]*\.(\d+)", body)
            assert syntax
            a = attribute(name)
            assert a is not None
            assert (a.name, a.version, a.ldap) == (name, version, SYNTAX[syntax[1]])
            assert a.multi is ("SINGLE-VALUE" not in body)
            names.add(name)
    assert len(names) == {"1.3": 280, "2.0": 315}[version]
