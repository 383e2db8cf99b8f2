from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker.classad import UNDEFINED, Value
from matchmaker.glue.clean import (
    ALL_RULES,
    ALWAYS,
    DEFAULT_RULES,
    check_rules,
    clean_text,
    values,
)
from matchmaker.glue.clean.rules import AT_MOST, SUMS, UNLIMITED
from matchmaker.glue.issues import Issue
from matchmaker.glue.readers.ldif import Attributes, Entry
from matchmaker.glue.schema import attribute, attributes


def clean(
    name: str, text: str, rules: frozenset[str] = DEFAULT_RULES
) -> tuple[str | None, list[str]]:
    found: list[Issue] = []
    meant = clean_text(name, text, rules, found.append)
    assert all(finding.raw == text and finding.attribute == name for finding in found)
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
        ("GlueHostMainMemoryRAMSize", "0", None, ["default-number"]),
        ("GlueHostBenchmarkSI00", "0", None, ["default-number"]),
        ("GLUE2ExecutionEnvironmentMainMemorySize", "0", None, ["default-number"]),
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
        ("GLUE2ExecutionEnvironmentPlatform", "X86_64", "x86_64", ["platform"]),
        ("GLUE2ExecutionEnvironmentPlatform", "x86_64", "x86_64", []),
        ("GlueHostArchitecturePlatformType", "UNDEFINEDVALUE", None, ["placeholder"]),
        ("GlueHostProcessorModel", "amd64", "amd64", []),
        (RULE, "vo:cms", "VO:cms", ["case"]),
        (RULE, "voms:/cms/Role=a", "VOMS:/cms/Role=a", ["case"]),
        (RULE, "/O=grid/CN=Ada", "/O=grid/CN=Ada", []),
        (RULE, "DENY:/cms/Role=b", "DENY:/cms/Role=b", []),
        (RULE, "cms", "unreadable", ["access-rule"]),
        (RULE, "vo:", "unreadable", ["case", "access-rule"]),
        (RULE, "DENY : /cms/Role=b", "DENY:/cms/Role=b", ["case"]),
        (RULE, "VO: cms", "unreadable", ["access-rule"]),
        (RULE, "DENY:/vo.example.org/Role=b", "DENY:/vo.example.org/Role=b", []),
        (RULE, "VO:vo.invalid", "VO:vo.invalid", []),
        (RULE, "unset", "unreadable", ["access-rule"]),
        ("GlueCEStateStatus", "production", "Production", ["case"]),
        ("GlueCEStateStatus", "Queuing", "Queueing", ["status"]),
        ("GlueCEStateStatus", "Queueing", "Queueing", []),
        ("GlueCEStateStatus", "up", None, ["status"]),
        ("GlueSEStatus", "up", "up", []),
        ("GLUE2ComputingShareServingState", "production", "production", []),
        ("GLUE2ComputingShareServingState", "Queuing", "queueing", ["status"]),
        ("GLUE2EndpointServingState", "up", None, ["status"]),
        ("GLUE2PolicyRule", "ALL", "ALL", []),
        ("GLUE2PolicyRule", "everybody", "unreadable", ["access-rule"]),
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


EXAMPLES: dict[str, dict[str, str]] = {
    "access-rule": {RULE: "EGEE"},
    "benchmark": {"GlueHostProcessorOtherDescription": "Cores=4,Benchmark=8.2-HEP-SPEC06"},
    "case": {RULE: "vo:a"},
    "cpu-time": {"GlueCEPolicyMaxWallClockTime": "100"},
    "default-number": {"GlueCEStateWaitingJobs": "444444"},
    "example-host": {"GlueSiteWeb": "http://www.example.org/"},
    "limit-unknown": {CPU: "999999999"},
    "limit-unlimited": {CPU: "2147483647"},
    "mail": {"GlueSiteSecurityContact": "security"},
    "memory-size": {"GlueHostMainMemoryRAMSize": "5"},
    "no-dynamic-information": {"GlueCEStateWaitingJobs": "444444", "GlueCEStateFreeCPUs": "0"},
    "no-limit": {"GlueCEPolicyMaxTotalJobs": "0"},
    "order": {"GlueSubClusterPhysicalCPUs": "9", "GlueSubClusterLogicalCPUs": "8"},
    "placeholder": {"GlueCEName": "unset"},
    "platform": {"GlueHostArchitecturePlatformType": "amd64"},
    "response-time": {"GlueCEStateWorstResponseTime": "2146660842"},
    "slots-per-job": {"GlueCEPolicyMaxSlotsPerJob": "0"},
    "speed": {
        "GlueHostBenchmarkSI00": "2000",
        "GlueHostProcessorOtherDescription": "Cores=4,Benchmark=10.1-HEP-SPEC06",
    },
    "stale": {"GLUE2EntityCreationTime": "2001-01-01T00:00:00Z"},
    "status": {"GlueCEStateStatus": "Queuing"},
    "sum": {
        "GlueCEStateTotalJobs": "100",
        "GlueCEStateRunningJobs": "40",
        "GlueCEStateWaitingJobs": "40",
    },
    "unit": {CPU: "24"},
}


@pytest.mark.parametrize("rule", sorted(ALL_RULES - ALWAYS))
def test_each_rule_is_switched_by_its_id(rule: str) -> None:
    entry = Entry("o=grid", Attributes(EXAMPLES[rule.removeprefix("clean.")].items()))

    def said(rules: frozenset[str]) -> set[str]:
        issues: list[Issue] = []
        values(entry, issues.append, rules)
        return {issue.rule for issue in issues}

    assert said(frozenset({rule})) == {rule}
    assert rule not in said(ALL_RULES - {rule})
    assert said(frozenset()) == set()


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


NOW = datetime(2013, 6, 1, tzinfo=UTC)


def entry_values(
    *pairs: tuple[str, str], rules: frozenset[str] = DEFAULT_RULES
) -> tuple[dict[str, Value], list[str]]:
    issues: list[Issue] = []
    found = values(Entry("o=grid", Attributes(pairs)), issues.append, rules, NOW)
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


WALL = "GlueCEPolicyMaxWallClockTime"
SHARE = "GLUE2ComputingShare"
MEMORY = "GlueHostMainMemoryRAMSize"
OTHER = "GlueHostProcessorOtherDescription"
SI00 = "GlueHostBenchmarkSI00"
MADE = "GLUE2EntityCreationTime"
VALID = "GLUE2EntityValidity"


@pytest.mark.parametrize(
    ("pairs", "meant", "rules"),
    [
        # 12, 24, 36, 48 or 168 minutes of CPU time are hours
        ({CPU: "48"}, {CPU: 2880}, ["unit"]),
        ({CPU: "36", WALL: "48"}, {CPU: 2160, WALL: 2880}, ["unit"] * 2),
        ({CPU: "48", WALL: "36"}, {CPU: 2880, WALL: 2160}, ["unit", "unit", "order"]),
        # as CERN publishes them
        (
            {f"{SHARE}MaxCPUTime": "10080", f"{SHARE}MaxWallTime": "30240"},
            {f"{SHARE}MaxCPUTime": 604800, f"{SHARE}MaxWallTime": 1814400},
            ["unit"] * 2,
        ),
        # with what was published beside them in the same numbers
        (
            {
                f"{SHARE}MaxCPUTime": "10080",
                f"{SHARE}DefaultCPUTime": "10080",
                f"{SHARE}MinCPUTime": "60",
                f"{SHARE}MaxWallTime": "30240",
                f"{SHARE}MaxMultiSlotWallTime": "30240",
            },
            {
                f"{SHARE}MaxCPUTime": 604800,
                f"{SHARE}DefaultCPUTime": 604800,
                f"{SHARE}MinCPUTime": 60,
                f"{SHARE}MaxWallTime": 1814400,
                f"{SHARE}MaxMultiSlotWallTime": 1814400,
            },
            ["unit"] * 4,
        ),
        ({CPU: "48", WALL: "4320"}, {CPU: 2880, WALL: 4320}, ["unit"]),
        ({CPU: "60", WALL: "36"}, {CPU: 60, WALL: 36}, ["order"]),
        ({WALL: "36"}, {WALL: 36}, []),
        # and 2880 seconds, which are 48 minutes, are 2880 minutes
        ({f"{SHARE}MaxCPUTime": "2880"}, {f"{SHARE}MaxCPUTime": 172800}, ["unit"]),
        ({f"{SHARE}MaxCPUTime": "172800"}, {f"{SHARE}MaxCPUTime": 172800}, []),
        ({f"{SHARE}MaxCPUTime": "48"}, {f"{SHARE}MaxCPUTime": 48}, []),
        # 0 jobs at most
        ({"GlueCEPolicyMaxTotalJobs": "0"}, {"GlueCEPolicyMaxTotalJobs": UNLIMITED}, ["no-limit"]),
        ({f"{SHARE}MaxTotalJobs": "0"}, {f"{SHARE}MaxTotalJobs": UNLIMITED}, ["no-limit"]),
        ({"GlueCEPolicyMaxTotalJobs": "5"}, {"GlueCEPolicyMaxTotalJobs": 5}, []),
        ({"GlueCEPolicyMaxRunningJobs": "0"}, {"GlueCEPolicyMaxRunningJobs": 0}, []),
        # slots and memory beyond belief
        (
            {"GlueCEPolicyMaxSlotsPerJob": "2000000000"},
            {"GlueCEPolicyMaxSlotsPerJob": UNDEFINED},
            ["slots-per-job"],
        ),
        ({f"{SHARE}MaxSlotsPerJob": "0"}, {f"{SHARE}MaxSlotsPerJob": UNDEFINED}, ["slots-per-job"]),
        ({f"{SHARE}MaxSlotsPerJob": "512"}, {f"{SHARE}MaxSlotsPerJob": 512}, []),
        ({MEMORY: "64"}, {MEMORY: 64}, ["memory-size"]),
        ({MEMORY: "4000001"}, {MEMORY: 4000001}, ["memory-size"]),
        ({MEMORY: "100"}, {MEMORY: 100}, []),
        ({MEMORY: "4000000"}, {MEMORY: 4000000}, []),
        # HEP-SPEC06 in the description of a processor
        (
            {OTHER: "Cores=4,Benchmark=8.2-HEP-SPEC06"},
            {OTHER: "Cores=4,Benchmark=8.2-HEP-SPEC06", SI00: 2050},
            ["benchmark"],
        ),
        (
            {OTHER: "Cores = 3.5, Benchmark = (10)-HEP-SPEC06"},
            {OTHER: "Cores = 3.5, Benchmark = (10)-HEP-SPEC06", SI00: 2500},
            ["benchmark"],
        ),
        (
            {OTHER: "Benchmark=8.2-HEP-SPEC06", SI00: "2000"},
            {OTHER: "Benchmark=8.2-HEP-SPEC06", SI00: 2000},
            [],
        ),
        (
            {OTHER: "Benchmark=8.2-HEP-SPEC06", SI00: "381"},
            {OTHER: "Benchmark=8.2-HEP-SPEC06", SI00: 381},
            ["speed"],
        ),
        ({OTHER: "Benchmark=fast"}, {OTHER: "Benchmark=fast"}, []),
        # entries past their time
        (
            {MADE: "2013-05-31T23:00:00Z", VALID: "3601"},
            {MADE: "2013-05-31T23:00:00Z", VALID: 3601},
            [],
        ),
        (
            {MADE: "2013-05-31T23:00:00Z", VALID: "3599"},
            {MADE: "2013-05-31T23:00:00Z", VALID: 3599},
            ["stale"],
        ),
        ({MADE: "2012-05-31T00:00:00Z"}, {MADE: "2012-05-31T00:00:00Z"}, ["stale"]),
        ({MADE: "2013-06-01T01:00:00Z"}, {MADE: "2013-06-01T01:00:00Z"}, ["stale"]),
        ({MADE: "2013-06-01T01:00:00+02:00"}, {MADE: "2013-06-01T01:00:00+02:00"}, []),
        ({MADE: "in spring"}, {MADE: "in spring"}, []),
    ],
)
def test_rule_on_an_entry(pairs: dict[str, str], meant: dict[str, Value], rules: list[str]) -> None:
    found, said = entry_values(*pairs.items())
    assert found == meant
    assert said == [f"clean.{rule}" for rule in rules]
    quiet = DEFAULT_RULES - {f"clean.{rule}" for rule in (*rules, "order")}
    assert entry_values(*pairs.items(), rules=quiet)[1] == []


@pytest.mark.parametrize(
    ("name", "text", "doubted"),
    [
        ("GlueSiteSysAdminContact", "mailto:admin@s.org", False),
        ("GlueSiteSysAdminContact", "mailto: a@s.org;b@t.s.org", False),
        ("GlueSiteSysAdminContact", "mailto:admin at s.org", True),
        ("GLUE2ContactDetail", "mailto:admin@s.org", False),
        ("GLUE2ContactDetail", "https://s.org/support", False),
        ("GLUE2ContactDetail", "admin@s", True),
    ],
)
def test_addresses_of_mail(name: str, text: str, doubted: bool) -> None:
    assert entry_values((name, text))[1] == ["clean.mail"] * doubted


@pytest.mark.parametrize(("small", "large", "code"), AT_MOST)
def test_a_part_above_its_whole(small: str, large: str, code: str) -> None:
    assert entry_values((small, "700"), (large, "800"))[1] == []
    issues: list[Issue] = []
    values(Entry("o=grid", Attributes([(small, "800"), (large, "700")])), issues.append, now=NOW)
    [found] = issues
    assert (found.rule, found.attribute) == ("clean.order", small)
    assert code in str(found)


@pytest.mark.parametrize(("total", "parts", "code"), SUMS)
def test_a_total_unlike_its_parts(total: str, parts: tuple[str, ...], code: str) -> None:
    said = [(name, "50") for name in parts]
    assert entry_values((total, str(50 * len(parts))), *said)[1] == []
    assert entry_values((total, str(54 * len(parts))), *said)[1] == []
    assert entry_values((total, str(20 * len(parts))), *said)[1] == ["clean.sum"]
    assert entry_values((total, "60"), said[0])[1] == []
    assert all(attribute(name) for name in (total, *parts))
    assert code == "" or code.startswith("W")


def test_a_changed_value_knows_its_rule_and_what_was_published() -> None:
    issues: list[Issue] = []
    pairs = [(CPU, "48"), ("GlueCEStateWaitingJobs", "444444"), ("GlueCEName", "long")]
    found = values(Entry("o=grid", Attributes(pairs)), issues.append)
    assert {name: (i.rule, i.raw) for name, i in found.cleaned.items()} == {
        CPU: ("clean.unit", "48"),
        "GlueCEStateWaitingJobs": ("clean.default-number", "444444"),
    }
    assert list(found.cleaned.values()) == issues
