from __future__ import annotations

import io
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker import glue, parse_ad, parse_ads
from matchmaker.classad import UNDEFINED, ClassAd
from matchmaker.glue.describe import common, gather, host_values
from matchmaker.glue.ldif import Attributes, Entry, read_entries, write_entries
from matchmaker.glue.linking import rdns
from matchmaker.glue.publish import rdn, text_of
from matchmaker.glue.schema import ancestry, attribute
from tests.glue.sites import GLUE13, LONG

QUEUE = '[ CEid = "ce.s.grid:8443/cream-slurm-long"; GlueSiteUniqueID = "S" ]'


def published(source: list[ClassAd], version: str = "both") -> tuple[str, list[str]]:
    text = io.StringIO()
    issues = glue.write_ldif(source, text, version=version)  # type: ignore[arg-type]
    return text.getvalue(), [issue.rule for issue in issues]


def read(text: str) -> list[Entry]:
    issues: list[glue.Issue] = []
    found = list(read_entries(io.StringIO(text), issues.append))
    assert issues == []
    return found


@given(st.dictionaries(st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,8}", fullmatch=True), st.text()))
def test_what_is_written_is_read(found: dict[str, str]) -> None:
    entry = Entry("o=grid", Attributes(found.items()))
    text = io.StringIO()
    write_entries([entry], text)
    assert text.getvalue().isascii()
    assert all(len(line) <= 76 for line in text.getvalue().split("\n"))
    wanted = Attributes((k, v) for k, v in found.items() if k.lower() not in ("dn", "changetype"))
    if len(wanted) == len(found):
        [back] = read(text.getvalue())
        assert (back.dn, back.attributes) == (entry.dn, entry.attributes)


@given(st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1, max_size=20))
def test_names_keep_what_they_are_made_of(value: str) -> None:
    name = f"{rdn('GlueCEUniqueID', value)},o=grid"
    assert rdns(name)["o"] == "grid"
    if value == value.strip():
        assert rdns(name)["glueceuniqueid"] == value


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("GlueCEStateFreeCPUs", 7, "7"),
        ("GlueCEStateFreeCPUs", 7.6, "8"),
        ("GlueCEStateFreeCPUs", True, "true"),
        ("GlueCEPolicyMaxTotalJobs", glue.UNLIMITED, "0"),
        ("GlueCEPolicyMaxCPUTime", glue.UNLIMITED, "999999999"),
        ("GlueHostNetworkAdapterOutboundIP", False, "FALSE"),
        ("GLUE2ExecutionEnvironmentConnectivityIn", False, "false"),
        ("GLUE2BenchmarkValue", 8.2, "8.2"),
        ("GlueSiteDescription", "caf\u00e9", None),
        ("GLUE2DomainDescription", "caf\u00e9", "caf\u00e9"),
        ("GlueCEName", "a\nb", None),
        ("GlueCEName", "", None),
        ("GlueCEName", ClassAd(), None),
        ("NoSuchName", "x", None),
    ],
)
def test_values_as_a_directory_has_them(name: str, value: object, expected: str | None) -> None:
    assert text_of(name, value) == expected  # type: ignore[arg-type]


def test_what_cannot_be_published_is_told() -> None:
    ad = parse_ad(QUEUE)
    ad["GlueCEName"] = "caf\u00e9"
    ad["GlueCEStateFreeCPUs"] = "many"
    text, rules = published([ad], "1.3")
    assert rules == ["publish.value"] * 2
    assert "many" not in text


def test_entries_have_what_their_classes_must_have() -> None:
    hosts = list(parse_ads("[ Memory = 4000; Cpus = 4 ] [ Memory = 2000; Cpus = 8 ]"))
    for source in ([parse_ad(QUEUE)], glue.read_ldif(GLUE13.split("\n")).computing_elements()):
        text = io.StringIO()
        assert glue.write_ldif(glue.describe(source, hosts, split=True), text) == ()
        entries = read(text.getvalue())
        names = {entry.dn for entry in entries}
        assert len(names) == len(entries)
        for entry in entries:
            _, comma, above = entry.dn.partition(",")
            assert not comma or above in names
            for kind in entry.attributes["objectClass"]:
                for known in ancestry(kind):
                    assert all(name in entry.attributes for name in known.must), (kind, entry)
            assert all(attribute(n) or n in ("objectClass", "o") for n in entry.attributes)


def test_what_hosts_have_in_common() -> None:
    nodes = [
        {"GlueHostBenchmarkSI00": 620, "GlueHostNetworkAdapterOutboundIP": True, "x": "a"},
        {"GlueHostBenchmarkSI00": 400, "GlueHostNetworkAdapterOutboundIP": False, "x": "b"},
    ]
    assert common(nodes) == {  # type: ignore[arg-type]
        "GlueHostBenchmarkSI00": 400,
        "GlueHostNetworkAdapterOutboundIP": False,
    }
    tags = "GlueHostApplicationSoftwareRunTimeEnvironment"
    assert common([{tags: ["a", "b"]}, {tags: ["b", "c"]}]) == {tags: ["b"]}
    assert common([{"GlueHostBenchmarkSI00": 620}, {}]) == {}
    assert common([{"GlueHostBenchmarkSI00": UNDEFINED}, {"GlueHostBenchmarkSI00": 1}]) == {}


def test_hosts_by_the_names_of_condor() -> None:
    host = parse_ad(
        '[ Memory = 4000; TotalMemory = 8000; Cpus = 1; TotalCpus = 4; Arch = "X86_64";'
        ' GlueHostBenchmarkSI00 = "381 (dual)"; Features = { "x" } ]'
    )
    assert host_values(host) == {
        "GlueHostMainMemoryRAMSize": 8000,
        "GlueHostArchitectureSMPSize": 4,
        "GlueHostArchitecturePlatformType": "x86_64",
    }


def test_ads_go_back_to_what_they_are_made_of() -> None:
    read = glue.read_ldif(GLUE13.split("\n"))
    made = gather(read.computing_elements())
    assert [ce.id for ce in made.computing_elements] == [
        ce.id for ce in read.snapshot.computing_elements
    ]
    long = made.computing_elements[0]
    assert long.id == LONG
    assert [view.id for view in long.views] == ["cms"]
    assert long.cluster is not None
    assert long.cluster.subclusters[0].values["GlueHostMainMemoryRAMSize"] == 16000
    assert [(b.se_id, b.mount) for b in long.binds] == [("se.s.grid", "/data")]
    assert [area.id for area in made.storage_elements[0].areas] == ["cms"]


def test_a_queue_needs_an_id(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="CEid"):
        glue.write_ldif([parse_ad("[ LRMSType = 1 ]")], tmp_path / "x.ldif")
    with pytest.raises(ValueError, match="versions"):
        glue.write_ldif([], tmp_path / "x.ldif", version="3")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("status", "read"),
    [
        ("Production", "Production"),
        ("Draining", "Draining"),
        ("Broken", UNDEFINED),
        ("", UNDEFINED),
    ],
)
def test_a_status_that_is_not_known_is_not_published_as_production(
    status: str, read: object
) -> None:
    ad = ClassAd({"CEid": "ce.s.grid:8443/cream-slurm-long"})
    if status:
        ad["GlueCEStateStatus"] = status
    text = io.StringIO()
    glue.write_ldif([ad], text, version="2.0")
    [back] = glue.read_ldif(text.getvalue().splitlines()).computing_elements()
    assert back.eval("GlueCEStateStatus") == read


@pytest.mark.parametrize("version", ["1.3", "2.0"])
def test_a_queue_that_admits_nobody_is_told_of(version: Literal["1.3", "2.0"]) -> None:
    ad = ClassAd({"CEid": "ce.s.grid:8443/cream-slurm-long", "GlueCEAccessControlBaseRule": []})
    issues = glue.write_ldif([ad], io.StringIO(), version=version)
    assert [issue.rule for issue in issues] == ["publish.access"]
