"""Each subcommand on good input: what it prints, as data, and its exit status."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from matchmaker import __version__, glue, parse_ad, read_ads
from matchmaker.classad import UNDEFINED
from matchmaker.cli.group import SUBCOMMANDS
from tests.cli.conftest import Run


def test_version_and_help(classad: Run) -> None:
    assert classad("--version").out == f"classad, version {__version__}\n"
    for word in ("--help", "-h"):
        done = classad(word)
        assert (done.status, done.err) == (0, "")
        for name in SUBCOMMANDS:
            assert name in done.out


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_subcommand_has_help(classad: Run, name: str) -> None:
    done = classad(name, "--help")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"Usage: classad {name}")


ROOT = Path(__file__).resolve().parents[2]
PAGES = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
TESTS = "\n".join(path.read_text("utf-8") for path in sorted(Path(__file__).parent.glob("*.py")))


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_subcommand_has_a_page_and_tests(name: str) -> None:
    assert re.search(rf"(?:^|[$|] |`)classad {name} ", PAGES, re.MULTILINE), "no page shows it"
    assert re.search(rf'(?:classad|run_here)\(\s*"{name}"', TESTS), "no test runs it"


# --- eval -----------------------------------------------------------------------------------------


def test_eval_prints_a_value_a_line(classad: Run) -> None:
    done = classad("eval", "1 + 1", '"a" == "A"', "nothing", "1/0", '{ 1, "x" }', "2.5")
    assert done.status == 0
    assert done.out.splitlines() == [
        "2", "true", "undefined", "error: integer division by zero", '{1, "x"}', "2.5",
    ]  # fmt: skip


def test_eval_in_an_ad_and_against_another(classad: Run, tmp_path: Path) -> None:
    mine, other = tmp_path / "mine.ad", tmp_path / "other.ad"
    mine.write_text("[ Want = 2 ]")
    other.write_text("Cpus = 4")
    done = classad("eval", "TARGET.Cpus > MY.Want", "Cpus", "--ad", mine, "--target", other)
    assert done.out.splitlines() == ["true", "4"]


def test_eval_as_data(classad: Run) -> None:
    done = classad("eval", "--json", "1", "x", "1/0", '{ "a" }', "[ a = 1 ]", 'real("INF")', "true")
    records = json.loads(done.out)
    assert [record["expression"] for record in records[:3]] == ["1", "x", "1 / 0"]
    data = [record["value"] for record in records]
    assert data[:5] == [1, None, {"error": "integer division by zero"}, ["a"], {"a": 1}]
    assert isinstance(data[5], str)
    assert data[6] is True


# --- convert --------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", ["new", "old", "json", "xml"])
def test_convert_goes_there_and_back(
    classad: Run, examples: Path, tmp_path: Path, format_: str
) -> None:
    done = classad("convert", examples / "nodes.ad", "--to", format_)
    assert (done.status, done.err) == (0, "")
    again = tmp_path / "again"
    again.write_text(done.out, "utf-8")
    assert list(read_ads(again)) == list(read_ads(examples / "nodes.ad"))


def test_convert_reads_standard_input_and_writes_a_file(classad: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = classad("convert", "-", out, "--to", "json", stdin="a = 1\n\na = 2\n")
    assert (done.status, done.out, done.err) == (0, "", "")
    assert json.loads(out.read_text()) == [{"a": 1}, {"a": 2}]
    assert list(tmp_path.iterdir()) == [out]


def test_convert_over_its_own_input(classad: Run, tmp_path: Path) -> None:
    path = tmp_path / "ads"
    path.write_text("[ a = 1 ]")
    assert classad("convert", path, path, "--to", "old").status == 0
    assert path.read_text() == "a = 1\n"


def test_convert_through_a_link_leaves_the_link(classad: Run, tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("as it was")
    link.symlink_to(real)
    assert classad("convert", "-", link, stdin="a = 1").status == 0
    assert link.is_symlink()
    assert real.read_text() == "[ a = 1 ]\n"


def test_convert_to_a_device_does_not_put_a_file_in_its_place(classad: Run, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        done = classad("convert", "-", pipe, stdin="a = 1")
        assert pipe.is_fifo()
        # To refuse what is no file is as good as to write to it.
        assert done.status == 2 or os.read(reader, 100) == b"[ a = 1 ]\n"
    finally:
        os.close(reader)


def test_convert_to_standard_output_by_name(classad: Run) -> None:
    assert classad("convert", "-", "-", stdin="a = 1").out == "[ a = 1 ]\n"


# --- match, nodes ---------------------------------------------------------------------------------

JOB = '[ Requirements = other.Cpus >= 4; Rank = other.Cpus; Owner = "ben" ]'
POOL = (
    '[ Name = "a"; Cpus = 4 ] [ Name = "b"; Cpus = 16 ] [ Name = "c"; Cpus = 1 ]'
    ' [ Name = "d"; Cpus = 8; Requirements = other.Owner == "ana" ]'
)


def test_match_best_first_with_reasons(classad: Run, pool: Path) -> None:
    done = classad("match", "-", pool, stdin=JOB)
    assert (done.status, done.err) == (0, "")
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0][:4] == ["2", "of", "4", "match"]
    assert ["1", "b", "16"] in lines
    assert ["2", "a", "4"] in lines
    assert "other.Cpus >= 4 is false (Cpus = 1)" in done.out
    assert 'it refuses the job: other.Owner == "ana" is false (Owner = "ben")' in done.out


def test_match_as_data(classad: Run, pool: Path) -> None:
    data = json.loads(classad("match", "-", pool, pool, "--json", stdin=JOB).out)
    assert data["chosen"] == "b"
    assert [(found["name"], found["rank"]) for found in data["ranked"]] == [
        ("b", 16), ("b", 16), ("a", 4), ("a", 4),
    ]  # fmt: skip
    assert {(refused["name"], refused["by"]) for refused in data["refused"]} == {
        ("c", "job"), ("d", "resource"),
    }  # fmt: skip


def test_match_of_nothing_is_status_one(classad: Run, pool: Path) -> None:
    done = classad("match", "-", pool, stdin="[ Requirements = false ]")
    assert (done.status, done.err) == (1, "")
    assert "0 of 4 match" in done.out


def test_nodes_as_they_stand(classad: Run, pool: Path) -> None:
    done = classad("nodes", "-", "--nodes", pool, stdin=JOB)
    assert (done.status, done.err) == (0, "")
    assert "2 of 4: b a" in done.out
    data = json.loads(classad("nodes", "-", "--nodes", pool, "--json", stdin=JOB).out)
    assert data["chosen"] == "b"


def test_nodes_of_the_queue_that_the_broker_chooses(
    classad: Run, examples: Path, site: list[object]
) -> None:
    done = classad("nodes", examples / "job.jdl", "--nodes", examples / "nodes.ad", *site)
    assert (done.status, done.err) == (0, "")
    assert "22 of 47: wn001 " in done.out


def test_nodes_of_a_named_queue(classad: Run, examples: Path, site: list[object]) -> None:
    done = classad(
        "nodes", examples / "job.jdl", "--nodes", examples / "nodes.ad", *site, "--json",
        "--queue", "atlfarm006.mi.infn.it:2119/blah-pbs-long",
    )  # fmt: skip
    # There any host with a number for SI00 will do: three have none, and two have a text.
    data = json.loads(done.out)
    assert done.status == 0
    assert len(data["ranked"]) > 22
    refused = " ".join(node["reason"] for node in data["refused"])
    assert "> 500" not in refused


# --- ces, reduce, flags ---------------------------------------------------------------------------


def test_ces_shows_a_row_a_queue(classad: Run, site: list[object]) -> None:
    done = classad("ces", *site)
    assert (done.status, done.err) == (0, "")
    assert len(done.out.splitlines()) == 21
    assert "atlfarm006.mi.infn.it:2119/blah-pbs-long" in done.out


def test_ces_shows_chosen_attributes(classad: Run, site: list[object]) -> None:
    done = classad("ces", *site, "--attrs", "QueueName, GlueHostBenchmarkSI00", "--json")
    rows = json.loads(done.out)
    assert len(rows) == 20
    assert rows[-1] == {
        "name": "atlfarm006.mi.infn.it:2119/blah-pbs-long",
        "QueueName": "infinite",
        "GlueHostBenchmarkSI00": 400,
    }


def test_ces_check_reports_what_was_mended(classad: Run, examples: Path) -> None:
    done = classad("ces", "--ldif", examples / "site.ldif", "--check")
    assert (done.status, done.err) == (1, "")
    lines = done.out.splitlines()
    findings = [line for line in lines if line[:2] in ("E ", "W ", "I ")]
    counts = lines[len(findings) : -1]
    number = sum(int(line.split()[0]) for line in counts)
    assert lines[-1] == f"{number} findings"
    # The same finding on several entries is one line, with its number and some of them.
    assert len(findings) < number / 2
    assert any("GlueCEStateWaitingJobs='444444' (2 entries: ce" in line for line in findings)
    assert len({line.partition(" (")[0] for line in findings}) == len(findings)
    assert "      1 error of link.no-subcluster" in counts
    assert "      7 warnings of clean.default-number" in counts
    assert any(re.search(r"site\.ldif: line [0-9]+: clean\.", line) for line in lines)
    data = json.loads(classad("ces", "--ldif", examples / "site.ldif", "--check", "--json").out)
    assert len(data) == number
    assert set(data[0]) >= {"level", "rule", "line", "text", "attribute", "raw"}


def test_ces_check_tells_nagios(classad: Run, examples: Path, tmp_path: Path) -> None:
    done = classad("ces", "--ldif", examples / "site.ldif", "--check", "--nagios")
    found = re.fullmatch(
        r"GLUE CRITICAL - 19 queues, 8 errors, \d+ warnings, \d+ notes"
        r" \| errors=8 warnings=\d+ notes=\d+\n",
        done.out,
    )
    assert (done.status, bool(found)) == (2, True)
    done = classad("ces", "--ce", examples / "atlfarm006.ad", "--check", "--nagios")
    assert done.status == 1
    assert done.out.startswith("GLUE WARNING - 1 queue, 0 errors, 2 warnings")
    (tmp_path / "sound.ad").write_text('[ CEid = "q"; GlueCEStateFreeCPUs = 4 ]')
    done = classad("ces", "--ce", tmp_path / "sound.ad", "--check", "--nagios")
    assert done.status == 0
    assert done.out.startswith("GLUE OK - 1 queue, 0 errors")
    (tmp_path / "doubtful.ldif").write_text(
        "dn: GlueClusterUniqueID=h,o=grid\nobjectClass: GlueCluster\n\n"
        "dn: GlueSubClusterUniqueID=h,GlueClusterUniqueID=h,o=grid\nobjectClass: GlueSubCluster\n"
        "GlueHostMainMemoryRAMSize: 16\n"
    )
    done = classad("ces", "--ldif", tmp_path / "doubtful.ldif", "--check", "--nagios")
    assert (done.status, done.out.split()[1]) == (1, "WARNING")
    done = classad("ces", "--ldif", tmp_path / "nothing.ldif", "--check", "--nagios")
    assert (done.status, done.err) == (3, "")
    assert done.out == f"GLUE UNKNOWN - {tmp_path / 'nothing.ldif'}: No such file or directory\n"
    done = classad("ces", "--ce", examples / "atlfarm006.ad", "--nagios")
    assert done.status == 2
    assert "--check" in done.err


SERVICES = """dn: GLUE2ServiceID=bdii,GLUE2DomainID=S,o=glue
objectClass: GLUE2Service
GLUE2ServiceID: bdii
GLUE2ServiceType: bdii_site
GLUE2ServiceQualityLevel: production
GLUE2ServiceAdminDomainForeignKey: S
GLUE2EntityCreationTime: 2026-06-01T12:00:00Z
GLUE2EntityValidity: 3600

dn: GLUE2EndpointID=e,GLUE2ServiceID=bdii,GLUE2DomainID=S,o=glue
objectClass: GLUE2Endpoint
GLUE2EndpointID: e
GLUE2EndpointURL: ldap://bdii.s.org:2170

dn: GlueServiceUniqueID=bdii,Mds-Vo-name=S,o=grid
objectClass: GlueService
GlueServiceUniqueID: bdii
GlueServiceType: bdii_site
GlueServiceStatus: OK

"""


def test_nagios_is_critical_only_for_what_is(classad: Run, tmp_path: Path) -> None:
    """Services without a queue are one part of a site; an entry that has expired is useless."""
    path = tmp_path / "services.ldif"

    def nagios(text: str, now: str = "2026-06-01T12:30:00Z") -> tuple[int, str]:
        path.write_text(text)
        done = classad("ces", "--ldif", path, "--at", now, "--check", "--nagios")
        return done.status, done.out.split(" - ")[0]

    alone = SERVICES[: SERVICES.index("dn: GLUE2Endpoint")]
    assert nagios(alone) == (0, "GLUE OK")
    assert nagios(SERVICES[SERVICES.index("dn: GlueService") :]) == (0, "GLUE OK")
    # Endpoints have policies somewhere; here is none.
    assert nagios(SERVICES) == (1, "GLUE WARNING")
    assert nagios(alone, "2026-06-01T14:00:00Z") == (2, "GLUE CRITICAL")
    one = "dn: GlueCEUniqueID=a:1/b-pbs-c,o=grid\nobjectClass: GlueCE\n"
    key = "GlueForeignKey: GlueClusterUniqueID=a\nGlueCEAccessControlBaseRule: VO:cms\n"
    assert nagios(one + key) == (0, "GLUE OK")
    # A queue that admits nobody is of no use.
    assert nagios(one) == (2, "GLUE CRITICAL")


def test_ces_check_of_sound_data_is_status_zero(classad: Run, tmp_path: Path) -> None:
    path = tmp_path / "sound.ad"
    path.write_text('[ CEid = "q"; GlueCEStateFreeCPUs = 4; GlueCEStateStatus = "Production" ]')
    done = classad("ces", "--ce", path, "--check")
    assert (done.status, done.out) == (0, "0 findings\n")


def test_ces_check_looks_into_ads(classad: Run, tmp_path: Path) -> None:
    path = tmp_path / "queues.ad"
    path.write_text('[ CEid = "q"; GlueCEStateWaitingJobs = 444444; GlueCEStateFreeCPUs = "x" ]')
    done = classad("ces", "--ce", path, "--check", "--json")
    assert done.status == 1
    found = [(one["rule"], one["attribute"], one["dn"]) for one in json.loads(done.out)]
    assert found == [
        ("clean.default-number", "GlueCEStateWaitingJobs", "q"),
        ("typed.mismatch", "GlueCEStateFreeCPUs", "q"),
    ]
    assert classad("ces", "--ce", path, "--check", "--nagios").status == 2


def test_ces_looks_for_queues(classad: Run, examples: Path) -> None:
    site = ("--ldif", examples / "site.ldif")
    query = ("--vo", "cms", "--query", "FreeCPUs>=20,Tag=VO-cms-*", "--attrs", "CE,FreeCPUs")
    [row] = json.loads(classad("ces", *site, *query, "--json").out)
    assert row["CE"] == row["name"] == "ce02.cnaf.grid:2119/jobmanager-lsf-cms"
    assert row["FreeCPUs"] == 350
    none = classad("ces", *site, "--query", "FreeCPUs>100000")
    assert none.status == 1
    bad = classad("ces", *site, "--query", "FreeCPUs")
    assert (bad.status, bad.out) == (2, "")
    assert bad.err.startswith("classad: 'FreeCPUs' is no condition: a query is")
    listed = classad("ces", "--list-attrs")
    assert listed.status == 0
    assert re.search(r"^FreeCPUs +GlueCEStateFreeCPUs +integer$", listed.out, re.MULTILINE)
    assert re.search(
        r"^MaxTime +GlueCEPolicyMaxWall\w+ +integer +minutes$", listed.out, re.MULTILINE
    )


def test_ces_says_what_is_wrong_with_a_query(classad: Run, examples: Path) -> None:
    site = ("--ldif", examples / "site.ldif")
    for option in ("--attrs", "--query"):
        done = classad("ces", *site, option, "FreeCPU" if option == "--attrs" else "FreeCPU>20")
        assert (done.status, done.out) == (2, "")
        assert done.err == "classad: queues have no attribute 'FreeCPU'; did you mean FreeCPUs?\n"
    assert classad("ces", *site, "--query", "FreeCPUs>>20").status == 2
    assert "virtual organisation" in classad("ces", *site, "--vo", "").err
    none = classad("ces", *site, "--query", "FreeCPUs>=2000", "--vo", "cms")
    assert (none.status, none.out) == (1, "")
    said = "none of 19 queues is left: FreeCPUs>=2000 leaves 0, --vo cms leaves 2"
    assert none.err == f"classad: {said}\n"
    assert classad("ces", *site, "--query", "FreeCPUs>=2000", "--json").out == "[]\n"


def test_ces_shows_a_vo_what_the_broker_would_let_it_use(classad: Run, tmp_path: Path) -> None:
    rules = {"open": "", "ours": '"VO:cms"', "named": '"VO:all"', "everybody": '"ALL"'}
    path = tmp_path / "queues.ad"
    path.write_text("".join(
        f'[ CEid = "{name}"; {f"GlueCEAccessControlBaseRule = {{ {rule} }}" if rule else ""} ]'
        for name, rule in (*rules.items(), ("nobody", " "))
    ))  # fmt: skip
    found = json.loads(classad("ces", "--ce", path, "--vo", "cms", "--json").out)
    assert [row["name"] for row in found] == ["open", "ours", "everybody"]
    job = tmp_path / "job.ad"
    job.write_text(
        '[ VirtualOrganisation = "cms"; CertificateSubject = ""; FQAN = "/cms"; Rank = 1 ]'
    )
    found = json.loads(classad("broker", job, "--ce", path, "--json").out)["queues"]["ranked"]
    assert sorted(row["name"] for row in found) == ["everybody", "open", "ours"]


def test_publish_writes_what_ces_reads(classad: Run, examples: Path, tmp_path: Path) -> None:
    path = tmp_path / "site.ldif"
    told = ("--ce", examples / "atlfarm006.ad", "--nodes", examples / "nodes.ad", "--split")
    homeless = classad("publish", *told, "-o", path)
    assert (homeless.status, homeless.out) == (1, "")
    assert "has no site; name one with --site" in homeless.err
    done = classad("publish", *told, "--site", "INFN-MILANO", "-o", path)
    assert (done.status, done.out, done.err) == (0, "", "")
    [row] = json.loads(classad("ces", "--ldif", path, "--json", "--attrs", "QueueName").out)
    assert row == {"name": "atlfarm006.mi.infn.it:2119/blah-pbs-long", "QueueName": "long"}
    for more in ("--split", "--together", "--os-release=x"):
        alone = classad("publish", "--ce", examples / "atlfarm006.ad", more)
        assert alone.status == 2
        assert "need --nodes or --lrms" in alone.err


def test_publish_loses_nothing_of_a_dump_unsaid(
    classad: Run, examples: Path, tmp_path: Path
) -> None:
    path = tmp_path / "again.ldif"
    done = classad("publish", "--ldif", examples / "site.ldif", "--glue", "1.3", "-o", path)
    assert done.status == 1
    warning, homeless, *said = done.err.splitlines()
    assert "at 2 queues (ce.ams.grid:2119/jobmanager-pbs-short, " in warning  # unreadable rules
    assert "publish.no-site" in homeless
    assert "ce4.ams.grid" in homeless
    assert [line.split(": ")[1] for line in said] == ["publish.value", "publish.access"]
    assert "GlueSiteDescription" in said[0]
    assert all("(2 " in line for line in said)
    before = glue.read_ldif(examples / "site.ldif").snapshot
    after = glue.read_ldif(path).snapshot
    assert [c.id for c in after.computing_elements] == [c.id for c in before.computing_elements]
    known = {site.id: site.values for site in after.sites}
    for site in before.sites:
        told = {name for name, value in site.values.items() if value is not UNDEFINED}
        assert told - known[site.id].keys() <= {"GlueSiteDescription"}
    hosts = {s.id: s.values for c in after.clusters for s in c.subclusters}
    for cluster in before.clusters:
        for sub in cluster.subclusters:
            assert hosts[sub.id]["GlueSubClusterUniqueID"] == sub.id
    assert {e.id for e in after.storage_elements} == {e.id for e in before.storage_elements}


TORQUE = ("--lrms", "torque", "--saved", "examples/torque-nodes.xml",
          "--saved", "examples/torque-queues.txt")  # fmt: skip
OFFER = ("--endpoint", "ce.s.grid:8443/cream", "--site", "S", "--vo", "cms")


@pytest.mark.parametrize("version", ["1.3", "2.0", "both"])
def test_what_is_published_stands_up_to_the_check(
    classad: Run, tmp_path: Path, examples: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch system: only notes. Ads and dumps: what was wrong with them before, and no more."""
    monkeypatch.chdir(examples.parent)
    path, place = tmp_path / "site.ldif", tmp_path / "site.toml"
    place.write_text('name = "S"\nlocation = "Milano, Italy"\nadmin = "grid@s.org"\n')
    for more in (("--site-file", place), ("--site-file", place, "--together"), ()):
        done = classad("publish", *TORQUE, *OFFER, *more, "--glue", version, "-o", path)
        assert (done.status, done.err) == (0, "")
        checked = classad("ces", "--ldif", path, "--check", "--json")
        told = {(one["level"], one["rule"]) for one in json.loads(checked.out)}
        wrong = {rule for level, rule in told if level != "I"}
        assert wrong == ({"glue-validator.E025"} if version != "1.3" and not more else set())
        assert checked.status == bool(wrong)

    def rules(*words: object) -> set[str]:
        found = json.loads(classad("ces", *words, "--check", "--json").out)
        return {one["rule"] for one in found if not one["rule"].startswith(("glue-", "gstat"))}

    ads = ("--ce", examples / "atlfarm006.ad", "--site", "S")
    assert classad("publish", *ads, "--glue", version, "-o", path).status == 0
    assert rules("--ldif", path) == rules("--ce", examples / "atlfarm006.ad")
    dump = ("--ldif", examples / "site.ldif")
    classad("publish", *dump, "--glue", version, "-o", path)
    assert rules("--ldif", path) <= rules(*dump)
    assert "clean.placeholder" not in rules("--ldif", path)


def test_publish_warns_of_queues_that_admit_nobody(
    classad: Run, examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(examples.parent)
    offer = OFFER[: OFFER.index("--vo")]
    done = classad("publish", *TORQUE, *offer)
    assert done.status == 0
    [warning] = done.err.splitlines()
    assert "no rule of access admits anybody at 2 queues (ce.s.grid:8443/cream-torque" in warning
    assert "name a VO with --vo" in warning
    assert "PolicyRule" not in done.out
    assert classad("publish", *TORQUE, *OFFER).err == ""


def test_publish_takes_what_a_site_says_of_itself(
    classad: Run, examples: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(examples.parent)
    path = tmp_path / "site.toml"
    path.write_text('location = "Milano, Italy"\nsecurity = "s@s.org"\n', encoding="utf-8")
    done = classad("publish", *TORQUE, *OFFER, "--site-file", path)
    assert (done.status, done.err) == (0, "")
    for line in (
        "GlueSiteLocation: Milano, Italy",
        "GlueSiteSecurityContact: mailto:s@s.org",
        "GLUE2LocationCountry: Italy",
        "GLUE2ContactType: security",
    ):
        assert f"\n{line}\n" in done.out
    path.write_text("latitude = 100\n", encoding="utf-8")
    refused = classad("publish", *TORQUE, *OFFER, "--site-file", path)
    assert refused.status == 2
    assert "site.toml: latitude is a number of degrees" in refused.err
    path.write_text("latitude = 10\n", encoding="utf-8")
    several = classad("publish", "--ldif", examples / "site.ldif", "--site-file", path)
    assert (several.status, several.out) == (2, "")
    assert f"--site-file {path} tells of one site; published are 4: CNAF-T1, " in several.err


def test_publish_says_once_that_no_site_is_named(
    classad: Run, examples: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The name is that of --site, else of the site file; without any, the option is named."""
    monkeypatch.chdir(examples.parent)
    path, ldif = tmp_path / "site.toml", tmp_path / "site.ldif"
    offer = ("--endpoint", "ce.s.grid:8443/cream", "--vo", "cms", "-o", ldif)
    homeless = classad("publish", *TORQUE, *offer, "--glue", "1.3")
    assert homeless.status == 1
    [said] = homeless.err.splitlines()
    assert "publish.no-site: this cluster has no site; name one with --site" in said
    assert said.endswith("'ce.s.grid', 'ce.s.grid/big' (2 times)")
    before = ldif.read_text()
    path.write_text('location = "Milano, Italy"\n')
    refused = classad("publish", *TORQUE, *offer, "--site-file", path)
    assert refused.status == 2
    assert "name it with --site, or as `name` in the file" in refused.err
    assert ldif.read_text() == before
    path.write_text('name = "GRID-S"\nlocation = "Milano, Italy"\n')
    for more, name in (((), "GRID-S"), (("--site", "S"), "S")):
        done = classad("publish", *TORQUE, *offer, "--site-file", path, *more)
        assert (done.status, done.err) == (0, "")
        assert [site.id for site in glue.read_ldif(ldif).snapshot.sites] == [name]


def test_publish_names_the_distribution_of_nodes(
    classad: Run, examples: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(examples.parent)
    path = tmp_path / "os-release"

    def systems(*words: object) -> set[tuple[object, object]]:
        ldif = tmp_path / "site.ldif"
        assert classad("publish", *TORQUE, *OFFER, *words, "-o", ldif).status == 0
        ads = glue.read_ldif(ldif).computing_elements()
        names = ("GlueHostOperatingSystemName", "GlueHostOperatingSystemRelease")
        return {tuple(ad.eval(name) for name in names) for ad in ads}  # type: ignore[misc]

    assert systems() == {("linux", UNDEFINED)}  # another kernel than this machine's
    path.write_text('NAME="AlmaLinux"\nVERSION="9.4 (Seafoam Ocelot)"\nID="almalinux"\n'
                    'VERSION_ID="9.4"\n# a note\n')  # fmt: skip
    assert systems("--os-release", path) == {("AlmaLinux", "9.4")}
    path.write_text("hello")
    refused = classad("publish", *TORQUE, *OFFER, "--os-release", path)
    assert refused.status == 2
    assert f"{path}: neither NAME nor ID is there" in refused.err


def test_publish_says_what_it_needs(
    classad: Run, examples: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(examples.parent)
    path = tmp_path / "out.ldif"
    for words, status, said in (
        (TORQUE, 2, "--lrms needs --endpoint HOST:PORT/INTERFACE"),
        ((*TORQUE, "--endpoint", "ce"), 2, "'ce' is no endpoint"),
        ((*TORQUE, *OFFER, "--vo", "ab\n"), 0, ""),
        ((*TORQUE, *OFFER, "--vo", "cms,atlas"), 2, "give each name separately"),
        ((*TORQUE, *OFFER, "--vo", "\u00e9"), 2, "names no virtual organisation"),
        ((*TORQUE, *OFFER, "--nodes", "examples/nodes.ad"), 2, "--nodes needs --ce"),
        ((*TORQUE[:4], *OFFER), 1, "nothing is published: torque described no queues"),
        (("--ldif", "examples/site.ldif", "--nodes", "examples/nodes.ad"), 2, "--nodes needs"),
        (("--ldif", "examples/site.ldif", "--site", "S"), 2, "are about the queues of --lrms"),
        (("--saved", "x"), 2, "--saved needs --lrms"),
        ((), 2, "nothing to publish: give --lrms NAME"),
    ):
        path.unlink(missing_ok=True)
        done = classad("publish", *words, "-o", path)
        assert done.status == status, words
        assert said in done.err
        assert path.exists() == (status == 0)


def test_publish_puts_sources_together_and_loses_nothing(
    classad: Run, examples: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(examples.parent)
    path = tmp_path / "out.ldif"
    dump = ("--ldif", "examples/site.ldif")
    done = classad("publish", *dump, *TORQUE, *OFFER, "--ce", "examples/atlfarm006.ad",
                   "--nodes", "examples/nodes.ad", "--glue", "1.3", "-o", path)  # fmt: skip
    assert done.status == 1
    alone = classad("publish", *dump, "--glue", "1.3", "-o", tmp_path / "alone.ldif")
    assert done.err == alone.err
    before = glue.read_ldif(tmp_path / "alone.ldif").snapshot
    after = glue.read_ldif(path).snapshot
    for kind in ("sites", "clusters", "computing_elements", "storage_elements"):
        known = {record.id: record.values for record in getattr(after, kind)}
        for record in getattr(before, kind):
            assert known[record.id] == record.values
    names = {ce.id for ce in after.computing_elements} - {ce.id for ce in before.computing_elements}
    assert names == {
        *("atlfarm006.mi.infn.it:2119/blah-pbs-long", "ce.s.grid:8443/cream-torque-long"),
        "ce.s.grid:8443/cream-torque-big",
    }


def test_a_source_that_breaks_off_is_told_and_not_published(
    classad: Run, tmp_path: Path, examples: Path
) -> None:
    path, output = tmp_path / "site.xml", tmp_path / "out.ldif"
    path.write_text(
        '<ComputingService xmlns="http://schemas.ogf.org/glue/2009/03/spec_2.0_r1"><ID>c</ID>'
        "<ComputingShare><ID>urn:s</ID><MappingQueue>q</MappingQueue></ComputingShare>"
        "<ComputingShare><ID>urn:t</ID></ComputingShare><Broken"
    )
    output.write_text("as it was")
    for command in (["ces"], ["broker", examples / "job.jdl"], ["reduce", examples / "job.jdl"]):
        done = classad(*command, "--ldif", path)
        assert "site.xml: line 1: document.partial: the document breaks off" in done.err
    done = classad("publish", "--ldif", path, "-o", output)
    assert (done.status, done.out) == (2, "")
    assert "document.partial" in done.err
    assert "--accept-partial" in done.err
    assert output.read_text() == "as it was"


def test_documents_are_read_as_dumps_are(classad: Run, tmp_path: Path) -> None:
    path = tmp_path / "site.json"
    path.write_text('{"ComputingService": {"ID": "c", "ComputingShare": {"ID": "urn:s"}}}')
    [row] = json.loads(classad("ces", "--dump", path, "--json").out)
    assert row["name"] == "urn:s"
    path.write_text("<a")
    done = classad("ces", "--ldif", path)
    assert (done.status, done.out) == (2, "")
    assert "site.json: not a GLUE 2.0 document" in done.err


def test_reduce_explains(classad: Run, examples: Path, site: list[object]) -> None:
    done = classad("reduce", examples / "job.jdl", *site)
    assert (done.status, done.err) == (0, "")
    assert "other.GlueHostBenchmarkSI00: of the host" in done.out
    assert "residual: other.GlueHostBenchmarkSI00 > 500 && " in done.out


@pytest.mark.parametrize(
    ("cpu_time", "residual", "status"),
    [
        ("1500", "other.GlueHostBenchmarkSI00 > 500", 0),
        ("3000", "other.GlueHostBenchmarkSI00 is a number", 0),
        ("500", "false", 1),
        ("undefined", "false", 1),
    ],
)
def test_reduce_of_the_talks_example(
    classad: Run, tmp_path: Path, cpu_time: str, residual: str, status: int
) -> None:
    queue = tmp_path / "queue.ad"
    queue.write_text(f'[ CEid = "q"; GlueCEPolicyMaxCPUTime = {cpu_time} ]')
    job = (
        "[ Requirements = other.GlueHostBenchmarkSI00 > 500 ? other.GlueCEPolicyMaxCPUTime > 1000"
        " : other.GlueCEPolicyMaxCPUTime > 2000 ]"
    )
    done = classad("reduce", "-", "--ce", queue, "--queue", "q", stdin=job)
    assert (done.status, done.err) == (status, "")
    assert done.out.splitlines()[-1] == f"residual: {residual}"


def test_flags_for_a_queue(classad: Run, examples: Path, site: list[object]) -> None:
    done = classad("flags", examples / "job.jdl", "--lrms", "slurm", *site)
    assert (done.status, done.err) == (0, "")
    assert "sbatch --mem=1000M" in done.out
    assert "necessary" in done.out


def test_flags_with_nodes_and_a_mapping(
    classad: Run, examples: Path, site: list[object], tmp_path: Path
) -> None:
    mapping = tmp_path / "site.toml"
    mapping.write_text(
        "[attributes.GlueHostApplicationSoftwareRunTimeEnvironment]\n"
        'kind = "member"\nfeatures = { "GLITE_1_2" = "glite12" }\n'
    )
    words = [
        "flags",
        examples / "job.jdl",
        "--lrms",
        "slurm",
        *site,
        "--mapping",
        mapping,
        "--json",
    ]
    data = json.loads(classad(*words).out)
    assert data["argv"] == ["--mem=1000M", "--constraint=glite12", "--partition=egee"]
    assert data["verdict"] == "necessary"
    data = json.loads(classad(*words, "--nodes", examples / "nodes.ad").out)
    assert data["verdict"] == "exact"
    assert len(data["excluded"]) == 25


def test_flags_of_what_is_never_true_are_status_one(
    classad: Run, examples: Path, site: list[object]
) -> None:
    job = "[ Requirements = other.GlueCEPolicyMaxCPUTime > 1000000 ]"
    queue = "ce01.cnaf.grid:8443/cream-slurm-egee"
    done = classad("flags", "-", "--lrms", "slurm", *site, "--queue", queue, stdin=job)
    assert (done.status, done.out) == (1, "")
    assert done.err == (
        "classad: the requirement is true of no host of this queue: other.GlueCEPolicyMaxCPUTime > "
        "1000000 is never true (other.GlueCEPolicyMaxCPUTime = 1440)\n"
    )
    job = "[ Requirements = other.Memory > 1000 ]"
    done = classad("flags", "-", "--lrms", "slurm", *site, "--queue", queue, stdin=job)
    assert done.err.endswith(
        "(other.Memory: the queue has none, and it is no attribute of hosts: write "
        "GlueHostMainMemoryRAMSize, or --host-attribute Memory (attributes= of Hosts) says that "
        "hosts have it)\n"
    )


def test_standard_input_may_be_the_queues_too(classad: Run, examples: Path) -> None:
    talk = (examples / "atlfarm006.ad").read_text()
    done = classad("ces", "--ce", "-", "--json", stdin=talk)
    assert len(json.loads(done.out)) == 1
    assert parse_ad(talk).eval("id") == json.loads(done.out)[0]["name"]


def test_an_unknown_subcommand_is_refused_with_the_way_to_the_list(classad: Run) -> None:
    done = classad("zzz", "1")
    assert (done.status, done.out) == (2, "")
    assert done.err == "classad: no subcommand 'zzz'; classad --help lists them\n"


def test_options_of_help_name_what_they_take(classad: Run) -> None:
    """A placeholder is a word of the reader, never an expression of the code."""
    for name in SUBCOMMANDS:
        assert "LIMITS." not in classad(name, "--help").out


def test_without_queues_ces_says_that_there_are_none(classad: Run, tmp_path: Path) -> None:
    (tmp_path / "site").write_text(
        "dn: GlueSiteUniqueID=s,o=grid\nobjectClass: GlueSite\nGlueSiteUniqueID: s\n"
    )
    done = classad("ces", "--ldif", tmp_path / "site")
    assert (done.status, done.err) == (
        1,
        "classad: none of 0 queues is left: the source describes no queue; it has 1 GlueSite\n",
    )  # fmt: skip
