from __future__ import annotations

from matchmaker.glue.issues import Issue
from matchmaker.glue.readers.ldif import Entry, read_entries
from matchmaker.glue.records import GlueRecords, split_id
from matchmaker.glue.snapshot import build

SITE = "Mds-Vo-name=S,Mds-Vo-name=local,o=grid"
CE = "ce.s.grid:2119/jobmanager-pbs-long"

WHOLE = f"""\
dn: GlueSiteUniqueID=S,{SITE}
objectClass: GlueSite
GlueSiteUniqueID: S

dn: GlueClusterUniqueID=ce.s.grid,{SITE}
objectClass: GlueCluster
GlueClusterUniqueID: ce.s.grid
GlueForeignKey: GlueSiteUniqueID=S

dn: GlueSubClusterUniqueID=old,GlueClusterUniqueID=ce.s.grid,{SITE}
objectClass: GlueSubCluster
GlueSubClusterUniqueID: old
GlueChunkKey: GlueClusterUniqueID=ce.s.grid
GlueHostMainMemoryRAMSize: 4000

dn: GlueSubClusterUniqueID=new,GlueClusterUniqueID=ce.s.grid,{SITE}
objectClass: GlueSubCluster
GlueSubClusterUniqueID: new
GlueHostMainMemoryRAMSize: 2000

dn: GlueCEUniqueID={CE},{SITE}
objectClass: GlueCE
GlueCEUniqueID: {CE}
GlueForeignKey: glueclusteruniqueid=CE.S.GRID
GlueCEAccessControlBaseRule: VO:egee

dn: GlueVOViewLocalID=egee,GlueCEUniqueID={CE},{SITE}
objectClass: GlueVOView
GlueVOViewLocalID: egee
GlueChunkKey: GlueCEUniqueID={CE}

dn: GlueCESEBindGroupCEUniqueID={CE},{SITE}
objectClass: GlueCESEBindGroup
GlueCESEBindGroupCEUniqueID: {CE}
GlueCESEBindGroupSEUniqueID: se.s.grid

dn: GlueCESEBindSEUniqueID=se.s.grid,GlueCESEBindGroupCEUniqueID={CE},{SITE}
objectClass: GlueCESEBind
GlueCESEBindCEUniqueID: {CE}
GlueCESEBindSEUniqueID: se.s.grid
GlueCESEBindCEAccesspoint: /data

dn: GlueSEUniqueID=se.s.grid,{SITE}
objectClass: GlueSE
GlueSEUniqueID: se.s.grid

dn: GlueSALocalID=egee,GlueSEUniqueID=se.s.grid,{SITE}
objectClass: GlueSA
GlueSALocalID: egee
GlueChunkKey: GlueSEUniqueID=se.s.grid
"""


def entries(text: str) -> list[Entry]:
    issues: list[Issue] = []
    found = list(read_entries(text.split("\n"), issues.append))
    assert issues == []
    return found


def snapshot(found: list[Entry]) -> tuple[GlueRecords, list[str]]:
    issues: list[Issue] = []
    return build(found, issues.append), [issue.rule for issue in issues]


def without(text: str) -> list[Entry]:
    """The whole, less the entries whose names contain a text."""
    return [entry for entry in entries(WHOLE) if text not in entry.dn]


def test_links_are_resolved_in_any_order() -> None:
    for found in (entries(WHOLE), entries(WHOLE)[::-1]):
        made, rules = snapshot(found)
        assert rules == []
        [ce] = made.computing_elements
        assert ce.id == CE
        assert ce.cluster is made.clusters[0]
        assert ce.cluster.site is made.sites[0]
        assert ce.cluster.site_id == "S"
        assert {sub.id for sub in ce.cluster.subclusters} == {"old", "new"}
        assert [view.id for view in ce.views] == ["egee"]
        assert ce.bound == ("se.s.grid",)
        assert [(bind.se_id, bind.mount) for bind in ce.binds] == [("se.s.grid", "/data")]
        assert ce.binds[0].se is made.storage_elements[0]
        assert [area.id for area in made.storage_elements[0].areas] == ["egee"]


def test_a_class_is_told_from_the_name_where_there_is_no_objectclass() -> None:
    text = "\n".join(line for line in WHOLE.split("\n") if not line.startswith("objectClass"))
    made, rules = snapshot(entries(text))
    assert rules == []
    assert len(made.computing_elements) == 1
    assert made.computing_elements[0].binds


def test_keys_that_lead_nowhere() -> None:
    assert snapshot(without("GlueSiteUniqueID"))[1] == ["link.elsewhere"]
    made, rules = snapshot(without("=new,"))
    assert rules == []
    assert made.clusters[0].subclusters[0].id == "old"
    found = [e for e in entries(WHOLE) if not e.dn.startswith("GlueClusterUniqueID")]
    made, rules = snapshot(found)
    assert sorted(rules) == ["link.dangling"] * 2 + ["link.elsewhere"]
    assert made.computing_elements[0].cluster is None
    found = [e for e in entries(WHOLE) if not e.dn.startswith("GlueSEUniqueID")]
    made, rules = snapshot(found)
    assert rules == ["link.elsewhere"]
    assert made.computing_elements[0].binds[0].se is None
    found = [e for e in entries(WHOLE) if not e.dn.startswith("GlueCEUniqueID")]
    made, rules = snapshot(found)
    assert rules == [*["link.dangling"] * 3, "link.no-queue"]
    assert made.computing_elements == ()


def test_a_cluster_without_subclusters() -> None:
    made, rules = snapshot(without("GlueSubCluster"))
    assert rules == ["link.no-subcluster"]
    assert made.computing_elements[0].cluster is made.clusters[0]


def test_the_host_name_leads_to_the_cluster_where_no_key_does() -> None:
    key = "GlueForeignKey: glueclusteruniqueid=CE.S.GRID"
    for key_now in ("", "GlueForeignKey: GlueClusterUniqueID=gone\n"):
        text = WHOLE.replace(key + "\n", f"{key_now}GlueCEInfoHostName: ce.s.grid\n")
        made, rules = snapshot(entries(text))
        assert made.computing_elements[0].cluster is made.clusters[0]
        assert rules == (["link.dangling"] if key_now else [])
    made, rules = snapshot(entries(WHOLE.replace(key + "\n", "")))
    assert made.computing_elements[0].cluster is None
    assert rules == ["link.no-cluster"]


def test_duplicates() -> None:
    twice = [*entries(WHOLE), *entries(WHOLE)]
    made, rules = snapshot(twice)
    assert len(made.computing_elements) == 1
    assert rules == ["link.repeated"] * 10
    unlike = WHOLE.replace("objectClass: GlueSE\n", "objectClass: GlueSE\nGlueSEName: disk\n")
    made, rules = snapshot([*entries(WHOLE), *entries(unlike)])
    assert sorted(rules) == ["link.duplicate", *["link.repeated"] * 9]
    other = WHOLE + f"\ndn: GlueCEUniqueID=x,{SITE}\nobjectClass: GlueCE\nGlueCEUniqueID: {CE}\n"
    made, rules = snapshot(entries(other))
    assert [ce.id for ce in made.computing_elements] == [CE]
    assert "link.duplicate" in rules


def test_several_keys_to_one_kind() -> None:
    key = "GlueForeignKey: GlueSiteUniqueID=S\n"
    made, rules = snapshot(entries(WHOLE.replace(key, key + key.replace("=S", "=T"))))
    assert made.clusters[0].site_id == "S"
    assert rules == ["link.several"]


def test_ids() -> None:
    assert split_id("h:1/jm-pbs-q") == ("h:1/jm-pbs", "pbs", "q")
    assert split_id("h:1/jobmanager-lcgpbs-long-2") == ("h:1/jobmanager-lcgpbs", "lcgpbs", "long-2")
    for bad in ("", "h", "h:1/pbs-q", "/jm-pbs-q", "h/-" * 50_000):
        assert split_id(bad) is None
    text = WHOLE.replace(CE, "strange")
    made, rules = snapshot(entries(text))
    assert made.computing_elements[0].id == "strange"
    assert rules == ["link.ce-id"]


def test_an_id_that_is_no_text_is_taken_from_the_name() -> None:
    for text in ("undefined", "true"):
        dump = f"dn: GlueCEUniqueID={CE},{SITE}\nobjectClass: GlueCE\nGlueCEUniqueID: {text}\n"
        made, _ = snapshot(entries(dump))
        assert [ce.id for ce in made.computing_elements] == [CE]


def test_an_id_that_no_ad_can_hold_is_none() -> None:
    made, rules = snapshot(entries(f"dn: GlueCEUniqueID=a\0b,{SITE}\nobjectClass: GlueCE\n"))
    assert made.computing_elements == ()
    assert rules == ["link.no-id", "link.no-queue"]
