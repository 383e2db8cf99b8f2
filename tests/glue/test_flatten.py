from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest

from matchmaker import broker, glue, parse_ad
from matchmaker.classad import UNDEFINED, ClassAd, parse_expr

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def site() -> glue.Glue:
    return glue.read_ldif(EXAMPLES / "site.ldif")


@pytest.fixture(scope="module")
def ads(site: glue.Glue) -> dict[str, ClassAd]:
    found = site.computing_elements()
    named = {str(ad.eval("CEid")): ad for ad in found}
    assert len(named) == len(found)
    return named


@pytest.fixture(scope="module")
def talk() -> ClassAd:
    return parse_ad((EXAMPLES / "atlfarm006.ad").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def job() -> ClassAd:
    return parse_ad((EXAMPLES / "job.jdl").read_text(encoding="utf-8"))


EGEE = "ce01.cnaf.grid:8443/cream-slurm-egee"
LONG = "ce01.cnaf.grid:8443/cream-slurm-long"


def test_a_queue_has_its_cluster_its_hosts_and_its_site(ads: dict[str, ClassAd]) -> None:
    ad = ads[EGEE]
    expected = {
        "GlueCEStateFreeCPUs": 212,
        "GlueCEPolicyMaxCPUTime": 1440,
        "GlueHostBenchmarkSI00": 620,
        "GlueHostNetworkAdapterOutboundIP": True,
        "GlueClusterUniqueID": "ce01.cnaf.grid",
        "GlueSubClusterUniqueID": "ce01.cnaf.grid",
        "GlueSiteUniqueID": "CNAF-T1",
        "GlobusResourceContactString": "ce01.cnaf.grid:8443/cream-slurm",
        "LRMSType": "slurm",
        "QueueName": "egee",
        "CEid": EGEE,
        "GlueCEUniqueID": EGEE,
        "PurchasedBy": "matchmaker",
        "GlueCESEBindGroupCEUniqueID": EGEE,
    }
    assert {name: ad.eval(name) for name in expected} == expected
    assert "objectClass" not in ad
    keys = ad.eval("GlueForeignKey")
    assert isinstance(keys, list)
    assert keys[:2] == ["GlueClusterUniqueID=ce01.cnaf.grid", "GlueSiteUniqueID=CNAF-T1"]


def test_all_names_of_the_talks_ad_are_there(ads: dict[str, ClassAd], talk: ClassAd) -> None:
    wanted = {name.lower() for name in glue.unwrap(talk)}
    # Times of the wrapper, and what this dump or the later schema has no word for.
    wanted -= {"id", "update_time", "expiry_time", "ttlceinfo", "gluecesebindseuniqueid"}
    assert wanted <= {name.lower() for name in ads[EGEE]}


def test_close_storage(ads: dict[str, ClassAd]) -> None:
    ad = ads[EGEE]
    assert ad.eval("GlueCESEBindGroupSEUniqueID") == ["storm.cnaf.grid", "castor.cnaf.grid"]
    # In order of id.
    assert ad.eval(parse_expr("CloseStorageElements[0].mount")) == "/castor/cnaf.grid/egee"
    assert ad.eval(parse_expr("size(storage.CloseSEs)")) == 2
    assert ad.eval(parse_expr("storage.VO")) == "EGEE"
    assert ad.eval(parse_expr("storage.CloseSEs[1].freespace")) == 2097152
    assert ad.eval(parse_expr("storage.CloseSEs[1].GlueSETotalOnlineSize")) == 40960
    cms = ads[f"{LONG}/cms"]
    assert cms.eval(parse_expr("size(storage.CloseSEs)")) == 1
    assert cms.eval(parse_expr("storage.CloseSEs[0].GlueSALocalID")) == "cms"
    assert "storage" not in ads["ce.ral.grid:2119/jobmanager-pbs-drain"]


def test_views_become_ads_of_their_own(ads: dict[str, ClassAd]) -> None:
    assert ads[EGEE].eval("GlueCEAccessControlBaseRule") == ["VO:EGEE"]
    view = ads[f"{EGEE}/dteam"]
    assert view.eval("GlueCEAccessControlBaseRule") == ["VO:dteam"]
    assert view.eval("GlueCEStateFreeCPUs") == 16
    assert view.eval("GlueCEPolicyMaxCPUTime") == 1440
    assert view.eval("GlueCEUniqueID") == EGEE
    # All its rules are in views, so the queue itself has nothing left to offer.
    assert LONG not in ads
    assert {f"{LONG}/EGEE", f"{LONG}/cms"} <= set(ads)


def test_cleaned_values_are_undefined(ads: dict[str, ClassAd]) -> None:
    ad = ads["ce.ral.grid:2119/jobmanager-pbs-grid1000M"]
    for name in ("WaitingJobs", "FreeCPUs", "EstimatedResponseTime"):
        assert ad.eval(f"GlueCEState{name}") is UNDEFINED
    assert ad.eval("GlueCEPolicyMaxCPUTime") is UNDEFINED
    # The figures of the ad "short" come from a provider that had none.
    assert ads["ce.ams.grid:2119/jobmanager-pbs-short"].eval("GlueCEStateFreeCPUs") is UNDEFINED


def test_a_queue_without_hosts_is_kept(ads: dict[str, ClassAd]) -> None:
    for name in (
        "ce3.ams.grid:2119/jobmanager-pbs-infinite",
        "ce4.ams.grid:2119/jobmanager-pbs-lost",
    ):
        assert ads[name].eval("GlueHostMainMemoryRAMSize") is UNDEFINED
        assert ads[name].eval("GlueCEStateStatus") == "Production"


def test_which_subcluster_speaks(site: glue.Glue) -> None:
    def ram(choose: glue.SubClusterChoice) -> object:
        return next(
            ad.eval("GlueHostMainMemoryRAMSize")
            for ad in site.computing_elements(choose)
            if ad.eval("QueueName") == "grid500M"
        )

    assert ram(glue.first) == 512
    assert ram(glue.lowest_memory) == 512
    assert ram(lambda subs: subs[-1] if subs else None) == 3072


@pytest.mark.parametrize(
    ("text", "admitted"),
    [
        ('[ VirtualOrganisation = "EGEE" ]', True),
        ('[ VirtualOrganisation = "egee" ]', True),
        (
            '[ VirtualOrganisation = "atlas"; CertificateSubject = "/CN=Ada"; FQAN = "/atlas" ]',
            False,
        ),
        ('[ VirtualOrganisation = "atlas"; CertificateSubject = "/O=grid/CN=Ada" ]', False),
        ('[ VirtualOrganisation = "atlas" ]', False),
        ('[ VirtualOrganisation = "EGEE"; OutputSE = "castor.cnaf.grid" ]', True),
        ('[ VirtualOrganisation = "EGEE"; OutputSE = "srm.lyon.grid" ]', False),
        ("[ ]", False),
    ],
)
def test_requirements_of_a_queue(ads: dict[str, ClassAd], text: str, admitted: object) -> None:
    assert ads[EGEE].eval("requirements", target=parse_ad(text)) is admitted


def test_the_certificate_admits_too(ads: dict[str, ClassAd]) -> None:
    ad = ads["ce02.cnaf.grid:2119/jobmanager-lsf-atlas"]
    subject = parse_ad('[ CertificateSubject = "/O=grid/OU=cnaf/CN=Ada Rossi" ]')
    assert ad.eval("AuthorizationCheck", target=subject) is True


def test_the_ranking_that_the_examples_promise(
    ads: dict[str, ClassAd], job: ClassAd, talk: ClassAd
) -> None:
    ce = glue.unwrap(talk)
    found = {
        str(ad.eval("CEid")): job.eval("Rank", target=ad)
        for ad in [*ads.values(), ce]
        if job.eval("Requirements", target=ad) is True
        and ad.eval("requirements", target=job) is True
    }
    assert found == {
        EGEE: 212,
        "ce2.lyon.grid:8443/cream-slurm-grid": 96,
        f"{LONG}/EGEE": 40,
        "ce.lyon.grid:2119/jobmanager-sge-long": 25,
        "atlfarm006.mi.infn.it:2119/blah-pbs-long": 1,
    }


def test_unwrap(talk: ClassAd) -> None:
    before = str(talk)
    ce = glue.unwrap(talk)
    assert str(talk) == before
    assert ce.parent is None
    assert ce.eval("GlueHostMainMemoryRAMSize") == 1001
    assert str(ce["requirements"]) == "AuthorizationCheck && CloseOutputSECheck"
    assert glue.expires(ce) == datetime(2005, 10, 3, 15, 9, 42, tzinfo=UTC)
    assert ce.eval("id") == "atlfarm006.mi.infn.it:2119/blah-pbs-long"
    # The unquoted name of a host is an expression; it has no value, and does no harm.
    assert ce.eval(parse_expr("CloseStorageElements[0].name")) is UNDEFINED


def test_unwrap_leaves_other_ads_alone() -> None:
    plain = parse_ad("[ info = 3; a = 1 ]")
    assert glue.unwrap(plain) is plain
    own = glue.unwrap(parse_ad("[ info = [ requirements = false; AuthorizationCheck = true ] ]"))
    assert own.eval("requirements") is False
    bare = glue.unwrap(parse_ad("[ info = [ a = 1 ] ]"))
    assert "requirements" not in bare
    assert glue.expires(bare) is None
    assert glue.expires(parse_ad("[ update_time = 1e300; expiry_time = 1 ]")) is None


def test_ads_do_not_grow_with_the_number_of_queues() -> None:
    """A cluster's keys to its queues are not in each of them, and other lists are there once."""
    ids = [f"h:1/jm-pbs-q{number}" for number in range(200)]
    lines = ["dn: GlueClusterUniqueID=h,o=grid", "objectClass: GlueCluster"]
    lines += [f"GlueForeignKey: GlueCEUniqueID={ident}" for ident in ids]
    lines += [f"GlueClusterService: {ident}" for ident in ids]
    lines += ["GlueForeignKey: GlueSiteUniqueID=S", ""]
    for ident in ids:
        lines += [f"dn: GlueCEUniqueID={ident},o=grid", "objectClass: GlueCE"]
        lines += ["GlueForeignKey: GlueClusterUniqueID=h", ""]
    found = glue.read_ldif(lines).computing_elements()
    assert len(found) == 200
    keys = ["GlueClusterUniqueID=h", "GlueSiteUniqueID=S"]
    assert all(ad.eval("GlueForeignKey") == keys for ad in found)
    assert len({id(ad["GlueClusterService"]) for ad in found}) == 1


RULES = "GlueCEAccessControlBaseRule"
ROLE = """dn: GlueCEUniqueID=c:1/cream-slurm-pilot,Mds-Vo-name=local,o=grid
objectClass: GlueCE
GlueCEUniqueID: c:1/cream-slurm-pilot
GlueCEStateStatus: Production
GlueCEStateEstimatedResponseTime: 1
"""


@pytest.mark.parametrize(
    ("rule", "fqan", "chosen"),
    [
        ("VOMS:/cms/Role=pilot", "/cms/Role=pilot", True),
        ("VOMS:/cms/Role=pilot", "/cms", False),
        ("VO:cms", "/cms/Role=pilot", True),
        ("", "/cms", True),
        ("no rule at all", "/cms", False),
    ],
)
def test_both_versions_of_glue_admit_the_same(rule: str, fqan: str, chosen: bool) -> None:
    text = ROLE + (f"GlueCEAccessControlBaseRule: {rule}\n" if rule else "")
    job = parse_ad(f"""[ VirtualOrganisation = "cms"; CertificateSubject = "/CN=A";
        FQAN = "{fqan}" ]""")
    old = glue.read_ldif(text.splitlines())
    assert (broker.choose(job, old).chosen is not None) is chosen
    published = io.StringIO()
    everything = glue.DEFAULT_RULES - {"clean.access-rule"}
    kept = glue.read_ldif(text.splitlines(), rules=everything)
    glue.write_ldif(kept, published, version="2.0")
    new = glue.read_ldif(published.getvalue().splitlines())
    assert (broker.choose(job, new).chosen is not None) is chosen
    [one], [other] = old.computing_elements(), new.computing_elements()
    # Nobody, as no rule of GLUE says it but for a denial.
    assert other.eval(RULES) == (["DENY:ALL"] if one.eval(RULES) == [] else one.eval(RULES))


QUEUE = """dn: GlueCEUniqueID=c:1/cream-slurm-q,o=grid
objectClass: GlueCE
GlueCEUniqueID: c:1/cream-slurm-q
GlueCEStateEstimatedResponseTime: 1
GlueCEAccessControlBaseRule: VO:cms
GlueCEAccessControlBaseRule: VO:atlas
GlueCEAccessControlBaseRule: DENY:/cms/Role=bad

dn: GlueVOViewLocalID=cms,GlueCEUniqueID=c:1/cream-slurm-q,o=grid
objectClass: GlueVOView
GlueVOViewLocalID: cms
GlueChunkKey: GlueCEUniqueID=c:1/cream-slurm-q
GlueCEAccessControlBaseRule: VO:cms
"""


def test_whom_a_queue_denies_its_views_deny() -> None:
    site = glue.read_ldif(QUEUE.splitlines())
    rules = {ad.eval("CEid"): ad.eval(RULES) for ad in site.computing_elements()}
    assert rules == {
        "c:1/cream-slurm-q": ["VO:atlas", "DENY:/cms/Role=bad"],
        "c:1/cream-slurm-q/cms": ["VO:cms", "DENY:/cms/Role=bad"],
    }
    for fqan, names in (("/cms", ["c:1/cream-slurm-q/cms"]), ("/cms/Role=bad", [])):
        job = parse_ad(f'[ VirtualOrganisation = "cms"; CertificateSubject = ""; FQAN = "{fqan}" ]')
        assert [one.name for one in broker.choose(job, site).ranked] == names


def test_what_a_view_denies_the_queue_still_denies() -> None:
    text = QUEUE + "GlueCEAccessControlBaseRule: DENY:/cms/Role=bad\n"
    one, view = glue.read_ldif(text.splitlines()).computing_elements()
    assert one.eval(RULES) == ["VO:atlas", "DENY:/cms/Role=bad"]
    assert view.eval(RULES) == ["VO:cms", "DENY:/cms/Role=bad"]
    # A queue that only denies what is left of it has nothing to offer.
    [view] = glue.read_ldif(QUEUE.replace("VO:atlas", "VO:cms").splitlines()).computing_elements()
    assert view.eval("CEid") == "c:1/cream-slurm-q/cms"


def test_a_share_that_goes_by_its_id_is_a_view_at_each_endpoint() -> None:
    place = "GLUE2ServiceID=s,o=glue"
    text = f"dn: {place}\nobjectClass: GLUE2ComputingService\n\n"
    for name, rule in (("e", "VO:cms"), ("f", "VO:atlas")):
        dn = f"GLUE2EndpointID={name},{place}"
        text += f"dn: {dn}\nobjectClass: GLUE2ComputingEndpoint\n\n"
        text += f"dn: GLUE2PolicyID=p,{dn}\nobjectClass: GLUE2AccessPolicy\n"
        text += f"GLUE2PolicyRule: {rule}\n\n"
    text += f"dn: GLUE2ShareID=q,{place}\nobjectClass: GLUE2ComputingShare\n"
    found = glue.read(io.BytesIO(text.encode()))
    assert {ad.eval("CEid"): ad.eval(RULES) for ad in found.computing_elements()} == {
        "q/q/e": ["VO:cms"],
        "q/q/f": ["VO:atlas"],
    }


def test_a_queue_whose_id_tells_nothing_has_its_published_name() -> None:
    [ad] = glue.read_ldif(
        ["dn: GlueCEUniqueID=urn:q,o=grid", "objectClass: GlueCE", "GlueCEName: long"]
    ).computing_elements()
    assert (ad.eval("QueueName"), ad.eval("LRMSType")) == ("long", UNDEFINED)
