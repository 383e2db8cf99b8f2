"""What is published passes the rules of EGI's glue-validator."""

from __future__ import annotations

from pathlib import Path

import pytest

from matchmaker import glue, parse_ads
from matchmaker.cli import described
from matchmaker.glue import Attributes, Entry
from matchmaker.glue.publish.site_file import site_values, with_site
from matchmaker.glue.publish.tree1 import entries13
from matchmaker.glue.publish.tree2 import entries20
from tests.glue.validator import findings

EXAMPLES = Path(__file__).parents[2] / "examples"
SAVED = tuple(str(EXAMPLES / name) for name in ("torque-nodes.xml", "torque-queues.txt"))
SITE = """name = "Site S"
description = "For the tests"
web = "https://www.s.org/"
location = "Milano, Italy"
latitude = 45.47
longitude = 9.19
support = "support@s.org"
admin = "mailto:grid@s.org"
security = "security@s.org"
"""


@pytest.fixture(scope="module", params=[False, True], ids=["together", "split"])
def site(request: pytest.FixtureRequest) -> glue.GlueRecords:
    """A site of a batch system, with all that its site file says."""
    found = described.description("torque", SAVED)
    queues = glue.place(found.queues, "ce.s.org:8443/cream", site="S", vos=["cms", "/atlas"])
    made = glue.describe_site(queues, found.nodes, split=request.param)
    return with_site(made, site_values(SITE))


def test_a_batch_system_passes(site: glue.GlueRecords) -> None:
    issues: list[glue.Issue] = []
    entries = list(entries20(site, issues.append))
    assert [(code, e.dn) for e in entries for code in findings(e)] == []
    assert issues == []
    kinds = {name for e in entries for name in e.attributes["objectClass"]}
    assert {"GLUE2AccessPolicy", "GLUE2MappingPolicy", "GLUE2Location", "GLUE2Contact"} <= kinds


def test_what_passes_is_read_back(site: glue.GlueRecords) -> None:
    entries = [*entries13(site, print), *entries20(site, print)]
    for some in (entries, list(entries20(site, print))):
        lines = [
            line
            for e in some
            for line in (
                f"dn: {e.dn}",
                *(f"{n}: {t}" for n, ts in e.attributes.items() for t in ts),
                "",
            )
        ]
        found = glue.read_ldif(lines)
        assert found.issues == ()
        [made] = found.snapshot.sites
        assert {**made.values} == {**made.values, **site_values(SITE)}
        queues = found.computing_elements()
        assert {q.eval("CEid") for q in queues} == {ce.id for ce in site.computing_elements}
        for queue in queues:
            assert queue.eval("GlueCEAccessControlBaseRule") == ["VO:cms", "VOMS:/atlas"]


def test_a_dump_published_again_has_an_error_only_where_it_names_no_site() -> None:
    found = glue.read_ldif(EXAMPLES / "site.ldif").snapshot
    issues: list[glue.Issue] = []
    entries = list(entries20(found, issues.append))
    errors = [(code, e.dn) for e in entries for code in findings(e) if not code.startswith("W")]
    assert [code for code, _ in errors] == ["E026"]
    assert "ce4.ams.grid" in errors[0][1]
    assert "publish.no-site" in {issue.rule for issue in issues}


@pytest.mark.parametrize(
    ("kind", "said", "code"),
    [
        ("Location", "GLUE2LocationLatitude: 91", "E009"),
        ("Location", "GLUE2LocationLongitude: -181", "E008"),
        ("Location", "GLUE2LocationDomainForeignKey: T", "E026"),
        ("Entity", "GLUE2EntityCreationTime: 2030-01-01T00:00:00Z", "E001"),
        ("ComputingManager", "GLUE2EntityOtherInfo: Share=cms:101", "E003"),
        ("ComputingShare", "GLUE2ComputingShareWaitingJobs: 444444", "E022"),
        ("ComputingShare", "GLUE2ComputingShareEstimatedWorstWaitingTime: 2146660842", "E024"),
        ("NoClass", "GLUE2EntityName: x", "E021"),
        ("Contact", "GLUE2ContactType: boss", "W037"),
        ("ExecutionEnvironment", "GLUE2ExecutionEnvironmentPlatform: vax", "W042"),
    ],
)
def test_the_rules_find_what_they_are_for(kind: str, said: str, code: str) -> None:
    name, _, text = said.partition(": ")
    entry = Entry(
        "GLUE2ID=x,GLUE2DomainID=S,o=glue",
        Attributes([("objectClass", f"GLUE2{kind}"), (name, text)]),
    )
    assert code in set(findings(entry))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('nam = "x"', "no key 'nam'"),
        ("latitude = 91", "latitude is a number of degrees from -90 to 90: found 91"),
        ("longitude = true", "longitude is a number"),
        ('admin = "nobody"', "admin is an address of mail"),
        ('name = "a\\nb"', "name is a text on one line"),
        ("name = 7", "name is a text on one line: found 7"),
        ("=", "line 1"),
    ],
)
def test_a_site_file_with_a_fault_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        site_values(text)


def test_a_share_that_admits_nobody_stays_closed_beside_others() -> None:
    ads = list(
        parse_ads(
            """[ CEid = "ce.s.org:8443/cream-pbs-a"; GlueCEAccessControlBaseRule = {"VO:cms"} ]
               [ CEid = "ce.s.org:8443/cream-pbs-b"; GlueCEAccessControlBaseRule = {} ]"""
        )
    )
    entries = entries20(glue.describe_site(ads), lambda issue: None)
    lines = [
        line
        for e in entries
        for line in (
            f"dn: {e.dn}",
            *(f"{n}: {t}" for n, ts in e.attributes.items() for t in ts),
            "",
        )
    ]
    rules = {
        ad.eval("QueueName"): ad.eval("GlueCEAccessControlBaseRule")
        for ad in glue.read_ldif(lines).computing_elements()
    }
    assert rules == {"a": ["VO:cms"], "b": []}
