from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker.classad import UNDEFINED, Value
from matchmaker.glue.clean import (
    ALL_RULES,
    DEFAULT_RULES,
    UNLIMITED,
    Finding,
    check_rules,
    clean_text,
)
from matchmaker.glue.issues import Issue
from matchmaker.glue.ldif import Attributes, Entry
from matchmaker.glue.schema import attributes
from matchmaker.glue.typed import values


def clean(
    name: str, text: str, rules: frozenset[str] = DEFAULT_RULES
) -> tuple[str | None, list[str]]:
    found: list[Finding] = []
    meant = clean_text(name, text, rules, found.append)
    assert all(finding.raw == text and finding.name == name for finding in found)
    return meant, [finding.rule.removeprefix("clean.") for finding in found]


CPU = "GlueCEPolicyMaxCPUTime"
RULE = "GlueCEAccessControlBaseRule"


@pytest.mark.parametrize(
    ("name", "text", "meant", "rules"),
    [
        ("GlueCEStateWaitingJobs", "444444", None, ["default-number"]),
        ("GlueCEStateFreeCPUs", "4444444444", None, ["default-number"]),
        ("GlueCEStateFreeCPUs", "4444", "4444", []),
        ("GlueCEStateFreeCPUs", "99999", "99999", []),
        ("GlueHostMainMemoryRAMSize", "444444", None, ["default-number"]),
        ("GlueCEPolicyMaxRunningJobs", "99999", None, ["default-number"]),
        ("GlueCEPolicyMaxTotalJobs", "999999", None, ["default-number"]),
        ("GlueCEPolicyMaxTotalJobs", "9999", "9999", []),
        ("GlueCEPolicyMaxTotalJobs", "0", "0", []),
        (CPU, "444444", None, ["default-number"]),
        ("GlueSchemaVersionMajor", "444444", "444444", []),
        ("GlueCEName", "444444", "444444", []),
        ("GlueCEStateWorstResponseTime", "2146660842", None, ["response-time"]),
        ("GlueSAStateUsedSpace", "2146660842", "2146660842", []),
        (CPU, "999999999", None, ["limit-unknown"]),
        (CPU, "9" * 18, None, ["limit-unknown"]),
        (CPU, "2147483647", None, ["limit-unknown"]),
        (CPU, "172800", "172800", []),
        ("GlueSiteDescription", "UNDEFINEDVALUE", None, ["placeholder"]),
        ("GlueSiteDescription", "UNDEFINEDVALUE: none", None, ["placeholder"]),
        ("GlueSiteDescription", "not UNDEFINEDVALUE", "not UNDEFINEDVALUE", []),
        ("GlueCEInfoDataDir", "/UNDEFINEDPATH", None, ["placeholder"]),
        ("GlueHostNetworkAdapterIPAddress", "192.0.2.250", None, ["placeholder"]),
        ("GlueHostNetworkAdapterIPAddress", "2001:db8::ffff", None, ["placeholder"]),
        ("GlueCEInfoDefaultSE", "unset", None, ["placeholder"]),
        ("GlueCEInfoDefaultSE", "None", None, ["placeholder"]),
        ("GlueCEInfoHostName", "ce.example.org", None, ["example-host"]),
        ("GlueCEInfoHostName", "ce.site.invalid", None, ["example-host"]),
        ("GlueSiteWeb", "http://example.org:80/", None, ["example-host"]),
        ("GlueCEInfoHostName", "counterexample.org", "counterexample.org", []),
        ("GlueCEInfoHostName", "example.org.cnaf.grid", "example.org.cnaf.grid", []),
        ("GlueHostArchitecturePlatformType", "AMD64", "x86_64", ["platform"]),
        ("GlueHostArchitecturePlatformType", "Intel(R) Xeon(R) X5", "x86_64", ["platform"]),
        ("GlueHostArchitecturePlatformType", "i686", "i686", []),
        ("GlueHostArchitecturePlatformType", "UNDEFINEDVALUE", None, ["placeholder"]),
        ("GlueHostProcessorModel", "amd64", "amd64", []),
        (RULE, "vo:cms", "VO:cms", ["case"]),
        (RULE, "voms:/cms/Role=a", "VOMS:/cms/Role=a", ["case"]),
        (RULE, "/O=grid/CN=Ada", "/O=grid/CN=Ada", []),
        (RULE, "DENY:/cms/Role=b", "DENY:/cms/Role=b", []),
        (RULE, "cms", None, ["access-rule"]),
        (RULE, "vo:", None, ["case", "access-rule"]),
        ("GlueCEStateStatus", "production", "Production", ["case"]),
        ("GlueCEStateStatus", "Queuing", "Queueing", ["status"]),
        ("GlueCEStateStatus", "Queueing", "Queueing", []),
        ("GlueCEStateStatus", "up", None, ["status"]),
        ("GlueSEStatus", "up", "up", []),
        ("NotInTheSchema", "444444", "444444", []),
    ],
)
def test_rule(name: str, text: str, meant: str | None, rules: list[str]) -> None:
    assert clean(name, text) == (meant, rules)


def test_limits_have_three_states() -> None:
    rules = DEFAULT_RULES - {"clean.limit-unknown"}
    assert clean(CPU, "2147483647", rules) == ("2147483647", [])
    rules |= {"clean.limit-unlimited"}
    assert clean(CPU, "2147483647", rules) == (str(UNLIMITED), ["limit-unlimited"])
    assert clean(CPU, "1440", rules) == ("1440", [])
    assert clean(CPU, "999999999") == (None, ["limit-unknown"])


@pytest.mark.parametrize("rule", sorted(DEFAULT_RULES))
def test_a_rule_that_is_off_is_silent(rule: str) -> None:
    texts = ["444444", "2146660842", "999999999", "unset", "x.example.org", "amd64", "vo:a", "up"]
    for name in ("GlueCEStateWaitingJobs", "GlueCEStateWorstResponseTime", CPU, RULE, "GlueCEName"):
        for text in texts:
            said = clean(name, text, DEFAULT_RULES - {rule})[1]
            assert rule.removeprefix("clean.") not in said


def test_unknown_rules_are_refused() -> None:
    check_rules(ALL_RULES)
    with pytest.raises(ValueError, match=r"clean\.colour"):
        check_rules(frozenset({"clean.colour"}))


@given(st.sampled_from(sorted(attributes())), st.text(max_size=30))
def test_cleaning_twice_is_cleaning_once(name: str, text: str) -> None:
    known = attributes()[name]
    meant = clean(known.name, text)[0]
    if meant is not None:
        assert clean(known.name, meant) == (meant, [])


def entry_values(
    *pairs: tuple[str, str], rules: frozenset[str] = DEFAULT_RULES
) -> tuple[dict[str, Value], list[str]]:
    issues: list[Issue] = []
    found = values(Entry("o=grid", Attributes(pairs)), issues.append, rules)
    return found, [issue.rule for issue in issues]


def test_no_dynamic_information() -> None:
    found, rules = entry_values(
        ("GlueCEStateWaitingJobs", "444444"),
        ("GlueCEStateFreeCPUs", "0"),
        ("GlueCEStateRunningJobs", "0"),
        ("GlueCEStateTotalJobs", "3"),
        ("GlueCEStateEstimatedResponseTime", "0"),
    )
    assert found["GlueCEStateFreeCPUs"] is UNDEFINED
    assert found["GlueCEStateRunningJobs"] is UNDEFINED
    assert found["GlueCEStateTotalJobs"] == 3
    assert found["GlueCEStateEstimatedResponseTime"] is UNDEFINED
    assert rules == ["clean.default-number"] + ["clean.no-dynamic-information"] * 3


def test_zeros_beside_true_figures_stay() -> None:
    found, rules = entry_values(("GlueCEStateWaitingJobs", "4"), ("GlueCEStateFreeCPUs", "0"))
    assert found == {"GlueCEStateWaitingJobs": 4, "GlueCEStateFreeCPUs": 0}
    assert rules == []


def test_cpu_time_from_wall_time_is_an_option() -> None:
    wall = ("GlueCEPolicyMaxWallClockTime", "1000")
    assert CPU not in entry_values(wall)[0]
    found, rules = entry_values(wall, rules=ALL_RULES)
    assert found[CPU] == 800
    assert rules == ["clean.cpu-time"]
    assert entry_values(wall, (CPU, "70"), rules=ALL_RULES) == (
        {"GlueCEPolicyMaxWallClockTime": 1000, CPU: 70},
        [],
    )
