"""What is published, a real server with the real schema takes entry by entry, and gives back."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from matchmaker import broker, glue, parse_ad, parse_ads
from matchmaker.classad import UNDEFINED, ClassAd, Value
from tests.glue.sites import GLUE13, GLUE20, JOBS
from tests.services.slapd import Start, slapd

__all__ = ["slapd"]

pytestmark = pytest.mark.service

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SITE = (EXAMPLES / "site.ldif").read_bytes().split(b"\n")

ONLY_ONE = {  # what one of the schemas has no word for, or makes anew
    *("GLUE2", "GlueForeignKey", "GlueChunkKey", "GlueSchemaVersionMajor"),
    *("GlueSchemaVersionMinor", "GlueVOViewLocalID", "storage", "GlueClusterUniqueID"),
}


def ldif(source: glue.Glue | list[ClassAd], version: str) -> str:
    text = io.StringIO()
    glue.write_ldif(source, text, version=version)  # type: ignore[arg-type]
    return text.getvalue()


def ads(found: glue.Glue) -> dict[str, ClassAd]:
    return {str(ad.eval("CEid")): ad for ad in found.computing_elements()}


def told(ad: ClassAd, without: set[str]) -> dict[str, object]:
    """What an ad says, but for what it does not know: lists in one order, empty ones nothing."""
    values = {name: ad.eval(name) for name in ad if name not in without}
    return {name: plain(value) for name, value in values.items() if plain(value) not in ("", [])}


def plain(value: Value) -> object:
    if isinstance(value, list):
        return sorted(str(plain(item)) for item in value)
    if isinstance(value, ClassAd):
        return sorted((name.lower(), str(plain(value.eval(name)))) for name in value)
    return "" if value is UNDEFINED else str(value)


@pytest.mark.parametrize("lines", [SITE, GLUE13.split("\n"), GLUE20.split("\n")])
def test_a_round_trip_over_a_server_loses_nothing(slapd: Start, lines: list[str]) -> None:
    """Server, reader, ads, LDIF, server, reader: the same ads, in both schemas."""
    read = glue.read_ldif(lines)
    first = glue.read_ldap(slapd(ldif(read, "1.3")), timeout=10)
    again = glue.read_ldap(slapd(ldif(first.computing_elements(), "1.3")), timeout=10)
    assert len(ads(first)) == len(ads(again)) > 0
    for name, ad in ads(first).items():
        assert told(ads(again)[name], set()) == told(ad, set()), name
    first = glue.read_ldap(slapd(ldif(read, "2.0")), timeout=10)
    again = glue.read_ldap(slapd(ldif(first.computing_elements(), "2.0")), timeout=10)
    assert len(ads(first)) == len(ads(again)) > 0
    for name, ad in ads(first).items():
        assert told(ads(again)[name], {"storage"}) == told(ad, {"storage"}), name


@pytest.mark.parametrize("lines", [SITE, GLUE13.split("\n")])
def test_both_schemas_tell_the_same(slapd: Start, lines: list[str]) -> None:
    read = glue.read_ldif(lines)
    url = slapd(ldif(read, "both"))
    old = ads(glue.read_ldap(url, "o=grid", timeout=10))
    new = ads(glue.read_ldap(url, "o=glue", timeout=10))
    assert set(old) == set(new) == set(ads(read))
    unlike = ONLY_ONE | {"GlueSubClusterLogicalCPUs", "GlueSiteUniqueID"}
    for name, ad in old.items():
        one, other = told(ad, unlike), told(new[name], unlike)
        assert {key: other.get(key) for key in one} == one, name
        # GLUE 2.0 must have the address of an endpoint, which is in the queue's id.
        assert {key.removeprefix("GlueCEInfo") for key in other.keys() - one.keys()} <= {
            *("ContactString", "GatekeeperPort", "JobManager", "HostName"),
        }
    for text in [*JOBS, (EXAMPLES / "job.jdl").read_text()]:
        job = parse_ad(text)
        first = broker.choose(job, old.values()).ranked
        second = broker.choose(job, new.values()).ranked
        assert [(c.name, c.rank) for c in first] == [(c.name, c.rank) for c in second], text


def test_a_site_described_by_its_queues_and_hosts(slapd: Start) -> None:
    queues = list(
        parse_ads(
            '[ CEid = "ce.s.grid:8443/cream-slurm-long"; GlueSiteUniqueID = "S, the site+";'
            '  GlueCEStateStatus = "Production"; GlueCEPolicyMaxCPUTime = 600;'
            '  GlueCEAccessControlBaseRule = { "VO:egee" } ]'
        )
    )
    hosts = list(parse_ads((EXAMPLES / "nodes.ad").read_text(encoding="utf-8")))
    for split, count in ((False, 1), (True, 6)):
        text = io.StringIO()
        described = glue.describe(queues, hosts, split=split)
        assert glue.write_ldif(described, text) == ()
        url = slapd(text.getvalue())
        for base in ("o=grid", "o=glue"):
            found = glue.read_ldap(url, base, timeout=10)
            [ce] = found.snapshot.computing_elements
            assert ce.cluster is not None
            assert ce.cluster.site_id == "S, the site+"
            assert len(ce.cluster.subclusters) == count
            [ad] = found.computing_elements(glue.lowest_memory)
            least = min(int(str(host.eval("GlueHostMainMemoryRAMSize"))) for host in hosts)
            assert ad.eval("GlueHostMainMemoryRAMSize") == least
            assert ad.eval("GlueCEPolicyMaxCPUTime") == 600
