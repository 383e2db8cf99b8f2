from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker.classad import UNDEFINED, Value
from matchmaker.glue.clean import typed, values
from matchmaker.glue.issues import Issue
from matchmaker.glue.readers.ldif import Attributes, Entry
from matchmaker.glue.schema import attribute, attributes


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("GlueHostBenchmarkSI00", "620", 620),
        ("GlueHostBenchmarkSI00", "-1", -1),
        ("GlueHostBenchmarkSI00", "620.5", 620.5),
        ("GlueHostBenchmarkSI00", "1e3", 1000.0),
        ("GlueHostBenchmarkSI00", "381 (dual)", None),
        ("GlueHostBenchmarkSI00", "true", None),
        ("GlueHostBenchmarkSI00", "undefined", UNDEFINED),
        ("GlueHostBenchmarkSI00", str(2**63 - 1), 2**63 - 1),
        ("GlueHostBenchmarkSI00", str(2**63), None),
        ("GlueHostBenchmarkSI00", "9" * 10_000, None),
        ("GlueHostBenchmarkSI00", "1e999", None),
        ("GlueHostBenchmarkSI00", "٣", None),
        ("GlueCEInfoGatekeeperPort", "2119", 2119),
        ("GlueHostNetworkAdapterOutboundIP", "TRUE", True),
        ("GlueHostNetworkAdapterOutboundIP", "no", None),
        ("GLUE2BenchmarkValue", "10.5", 10.5),
        ("GLUE2ComputingSharePreemption", "undefined", UNDEFINED),
        ("GlueCEName", "620", "620"),
        ("GlueCEName", "true", True),
        ("Unknown", "620", "620"),
        ("GlueCEName", "a\0b", None),
        ("Unknown", "a\0b", None),
    ],
)
def test_typed(name: str, text: str, value: Value | None) -> None:
    found = typed(attribute(name), text)
    assert found == value
    assert type(found) is type(value)


def read(*pairs: tuple[str, str]) -> tuple[dict[str, Value], list[tuple[str, str]]]:
    issues: list[Issue] = []
    found = values(Entry("o=grid", Attributes(pairs), 7), issues.append)
    assert all(issue.line == 7 and issue.dn == "o=grid" for issue in issues)
    return found, [(issue.rule, issue.raw) for issue in issues]


def test_names_take_the_spelling_of_the_schema() -> None:
    assert read(("gluecestatefreecpus", "7"), ("other", "x")) == (
        {"GlueCEStateFreeCPUs": 7, "other": "x"},
        [],
    )


def test_multiplicity_follows_the_schema() -> None:
    found, issues = read(
        ("GlueForeignKey", "a=b"),
        ("GlueCEName", "long"),
        ("GlueCEName", "short"),
        ("other", "1"),
        ("other", "2"),
    )
    assert found == {"GlueForeignKey": ["a=b"], "GlueCEName": "long", "other": ["1", "2"]}
    assert issues == [("typed.several", "long; short")]


def test_what_is_not_known_leaves_a_list_and_stays_undefined_in_a_scalar() -> None:
    found, issues = read(
        ("GlueCECapability", "unset"),
        ("GlueCECapability", "a"),
        ("GlueCEInfoJobManager", "unset"),
        ("GlueHostBenchmarkSI00", "fast"),
        ("GlueCEInfoDataDir", "  "),
    )
    assert found == {
        "GlueCECapability": ["a"],
        "GlueCEInfoJobManager": UNDEFINED,
        "GlueHostBenchmarkSI00": UNDEFINED,
    }
    assert issues == [
        ("clean.placeholder", "unset"),
        ("clean.placeholder", "unset"),
        ("typed.mismatch", "fast"),
    ]


@given(st.sampled_from(sorted(attributes())), st.text(max_size=30))
def test_a_value_has_its_type_or_is_reported(name: str, text: str) -> None:
    known = attributes()[name]
    found, issues = read((name, text))
    for value in found.values():
        for item in value if isinstance(value, list) else [value]:
            if item is UNDEFINED:
                assert issues or text.strip().lower() == "undefined"
            elif known.classad in ("integer", "real"):
                assert type(item) in (int, float)
            elif known.classad == "boolean":
                assert type(item) is bool
            else:
                assert type(item) in (str, bool)
