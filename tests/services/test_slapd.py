from __future__ import annotations

import base64
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from matchmaker import glue
from matchmaker.classad import UNDEFINED, ClassAd
from matchmaker.glue.readers.ldap import LdapBounds
from matchmaker.glue.schema import attribute, classes, object_classes
from tests.glue.sites import GLUE13, LONG, SHORT
from tests.services.daemons import free_port
from tests.services.slapd import Certificate, Setup, Start, make_certificate, slapd

__all__ = ["slapd"]

pytestmark = pytest.mark.service

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "site.ldif"


def acceptable(name: str, value: str) -> bool:
    """Whether a server that checks types takes a value: dirty types arrive by file alone."""
    known = attribute(name)
    if known is None:
        return name.lower() in {"objectclass", "o"}
    if not value.isascii() or not value.strip():
        return False
    return known.ldap != "integer" or value.lstrip("-").isdecimal()


def is_structural(name: str) -> bool:
    return name in classes() and classes()[name].kind == "structural"


def sound(entries: list[glue.Entry]) -> str:
    """LDIF by the book of what a server accepts, parents first, values in base64."""
    lines: list[str] = []
    for entry in sorted(entries, key=lambda entry: entry.dn.count(",")):
        lines.append(f"dn: {entry.dn}")
        named = {name.lower() for name in entry.attributes.get("objectClass", ())}
        for kind in sorted(name for name in named if is_structural(name)):
            needed = object_classes(kind, entry.attributes)
            lines += [f"objectClass: {name}" for name in needed if name.lower() not in named]
        for name, values in entry.attributes.items():
            lines += [
                f"{name}:: {base64.b64encode(value.encode()).decode()}"
                for value in dict.fromkeys(values)
                if acceptable(name, value)
            ]
        lines.append("")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def text() -> str:
    entries = list(glue.read_entries(EXAMPLE, lambda issue: None))
    assert len(entries) > 60
    return sound(entries)


@pytest.fixture(scope="module")
def url(text: str, slapd: Start) -> str:
    return slapd(text)


def by_id(found: glue.Glue) -> dict[str, ClassAd]:
    return {str(ad.eval("CEid")): ad for ad in found.computing_elements()}


def findings(found: glue.Glue) -> list[tuple[str, str, str, str]]:
    """What was found, less the lines, which a server does not have."""
    return sorted((i.rule, i.dn, i.attribute, i.raw) for i in found.issues)


def test_a_live_server_gives_the_same_ads_as_a_dump(url: str, text: str) -> None:
    live = glue.read_ldap(url, timeout=10)
    dump = glue.read_ldif(text.split("\n"))
    assert len(by_id(live)) == 19
    assert by_id(live) == by_id(dump)
    assert findings(live) == findings(dump)
    assert all(issue.line == 0 for issue in live.issues)


def test_dirty_values_are_cleaned_on_the_way(url: str) -> None:
    ads = by_id(glue.read_ldap(url, timeout=10))
    assert ads["ce.ams.grid:2119/jobmanager-pbs-short"].eval("GlueCEStateFreeCPUs") is UNDEFINED
    assert ads["ce.lyon.grid:2119/jobmanager-sge-long"].eval("GlueCEStateStatus") == "Production"


def test_pages_of_any_size_hold_the_same(url: str) -> None:
    whole = by_id(glue.read_ldap(url, timeout=10))
    assert by_id(glue.read_ldap(url, timeout=10, page_size=7)) == whole


def test_a_site_alone(url: str) -> None:
    found = glue.read_ldap(url, "Mds-Vo-name=LYON-CC,Mds-Vo-name=local,o=grid", timeout=10)
    assert [site.id for site in found.snapshot.sites] == ["LYON-CC"]
    assert len(found.computing_elements()) == 4


def test_a_base_that_is_not_there(url: str) -> None:
    with pytest.raises(ConnectionError, match="o=elsewhere"):
        glue.read_ldap(url, "o=elsewhere", timeout=10)


GRID = """\
dn: o=grid
objectClass: organization
o: grid

dn: Mds-Vo-name=local,o=grid
objectClass: Mds
Mds-Vo-name: local

dn: Mds-Vo-name=S,Mds-Vo-name=local,o=grid
objectClass: Mds
Mds-Vo-name: S

"""


@pytest.fixture(scope="module")
def grid() -> str:
    """The 1.3 entries that a server takes: 8 queues, views and hosts of one site."""
    return GRID + sound(list(glue.read_entries(GLUE13.split("\n"), lambda issue: None)))


def test_both_schemas_are_searched_where_no_base_is_given(slapd: Start, grid: str) -> None:
    url = slapd(grid)
    assert set(by_id(glue.read_ldap(url))) == {LONG, f"{LONG}/cms", SHORT}
    below = f"{url}/Mds-Vo-name=S,Mds-Vo-name=local,o=grid"
    assert set(by_id(glue.read_ldap(below))) == {LONG, f"{LONG}/cms", SHORT}
    # The server has the suffix o=glue, and nothing there.
    with pytest.raises(ConnectionError, match="noSuchObject"):
        glue.read_ldap(url, "o=glue")


@pytest.mark.parametrize("root", ["Mds-Vo-name=local,o=grid", "Mds-Vo-name=resource,o=grid"])
def test_a_server_that_begins_below_the_root(slapd: Start, grid: str, root: str) -> None:
    kept = [e for e in grid.split("\n\n") if "\no: grid" not in e]
    text = "\n\n".join(kept).replace("Mds-Vo-name=local,o=grid", root)
    text = text.replace("Mds-Vo-name: local", f"Mds-Vo-name: {root[12:].partition(',')[0]}")
    url = slapd(text, Setup(suffixes=(root,)))
    assert set(by_id(glue.read_ldap(url))) == {LONG, f"{LONG}/cms", SHORT}


def test_a_server_of_something_else(slapd: Start) -> None:
    url = slapd("", Setup(suffixes=("dc=elsewhere",)))
    with pytest.raises(ConnectionError, match="neither"):
        glue.read_ldap(url)


def test_the_environment_names_the_servers(
    slapd: Start, grid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = slapd(grid)
    down = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("LCG_GFAL_INFOSYS", f"{down}, {url.removeprefix('ldap://')}")
    found = glue.read_ldap(timeout=5)
    assert set(by_id(found)) == {LONG, f"{LONG}/cms", SHORT}
    [issue] = [issue for issue in found.issues if issue.rule.startswith("ldap.")]
    assert issue.rule == "ldap.failover"
    assert down in issue.message
    monkeypatch.delenv("LCG_GFAL_INFOSYS")
    with pytest.raises(ValueError, match="LCG_GFAL_INFOSYS"):
        glue.read_ldap()


def test_all_servers_down(slapd: Start) -> None:
    urls = [f"ldap://127.0.0.1:{free_port()}" for _ in range(2)]
    with pytest.raises(ConnectionError) as failed:
        glue.read_ldap(urls, timeout=5)
    assert all(url in str(failed.value) for url in urls)


def test_pages_get_round_the_limit_of_a_search(slapd: Start, text: str) -> None:
    limits = "limits * size.soft=5 size.hard=soft size.pr=20 size.prtotal=unlimited"
    url = slapd(text, Setup(options=limits))
    whole = by_id(glue.read_ldap(url, timeout=10, page_size=20))
    assert len(whole) == 19
    # Where the server refuses pages so large, smaller ones are asked for.
    assert by_id(glue.read_ldap(url, timeout=10, page_size=500)) == whole


def test_a_server_that_refuses_pages_is_asked_without(slapd: Start, text: str) -> None:
    url = slapd(text, Setup(options="limits * size.prtotal=disabled"))
    found = glue.read_ldap(url, timeout=10)
    assert len(by_id(found)) == 19
    assert not [issue for issue in found.issues if issue.rule.startswith("ldap.")]


def test_a_server_that_refuses_pages_and_limits_searches_is_a_partial_answer(
    slapd: Start, text: str
) -> None:
    limits = "limits * size.soft=30 size.hard=soft size.prtotal=disabled"
    found = glue.read_ldap(slapd(text, Setup(options=limits)), timeout=10)
    [issue] = [issue for issue in found.issues if issue.rule.startswith("ldap.")]
    assert (issue.rule, "its size limit" in issue.message) == ("ldap.partial", True)


def test_a_server_that_gives_no_more_is_a_partial_answer(slapd: Start, text: str) -> None:
    url = slapd(text, Setup(options="limits * size.soft=5 size.hard=soft size.prtotal=40"))
    found = glue.read_ldap(url, timeout=10, page_size=20)
    [issue] = [issue for issue in found.issues if issue.rule.startswith("ldap.")]
    assert issue.rule == "ldap.partial"
    assert "limit" in issue.message
    assert 0 < len(by_id(found)) < 19


def test_bounds_on_what_is_read(url: str) -> None:
    found = glue.read_ldap(url, bounds=LdapBounds(entries=30))
    assert "ldap.partial" in {issue.rule for issue in found.issues}
    found = glue.read_ldap(url, bounds=LdapBounds(value=40))
    assert "ldap.value-limit" in {issue.rule for issue in found.issues}
    with pytest.raises(ConnectionError, match="at most 100 are read"):
        glue.read_ldap(url, bounds=LdapBounds(message=100))
    found = glue.read_ldap(url, bounds=LdapBounds(answer=20_000))
    [issue] = [issue for issue in found.issues if issue.partial]
    assert "too long" in issue.message


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


def test_tls_is_verified(slapd: Start, grid: str, certificate: Certificate) -> None:
    url = slapd(grid, Setup(certificate=certificate, scheme="ldaps"))
    with pytest.raises(ConnectionError, match=r"(?i)certificate"):
        glue.read_ldap(url, timeout=10)
    trusted = str(certificate.certificate)
    found = glue.read_ldap(url, timeout=10, ca_file=trusted)
    assert set(by_id(found)) == {LONG, f"{LONG}/cms", SHORT}
    with pytest.raises(ConnectionError, match=r"(?i)certificate"):
        glue.read_ldap(url.replace("127.0.0.1", "localhost"), timeout=10, ca_file=trusted)


def test_start_tls_is_verified(slapd: Start, grid: str, certificate: Certificate) -> None:
    url = slapd(grid, Setup(certificate=certificate))
    with pytest.raises(ConnectionError, match=r"(?i)certificate"):
        glue.read_ldap(url, timeout=10, start_tls=True)
    trusted = str(certificate.certificate)
    found = glue.read_ldap(url, timeout=10, start_tls=True, ca_file=trusted)
    assert set(by_id(found)) == {LONG, f"{LONG}/cms", SHORT}
    localhost = url.replace("127.0.0.1", "localhost")
    with pytest.raises(ConnectionError, match=r"(?i)certificate"):
        glue.read_ldap(localhost, timeout=10, start_tls=True, ca_file=trusted)


def test_a_server_without_tls_is_not_read_in_clear(slapd: Start, grid: str) -> None:
    with pytest.raises(ConnectionError):
        glue.read_ldap(slapd(grid), timeout=10, start_tls=True)


def classad(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from matchmaker.cli import main; main()", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.fixture(scope="module")
def trees() -> dict[str, str]:
    """The example's site as LDIF of GLUE 1.3 and of GLUE 2.0, by the roots of the trees."""
    found, made = glue.read_ldif(EXAMPLE), {}
    for root, version in (("o=grid", "1.3"), ("o=glue", "2.0")):
        text = io.StringIO()
        glue.write_ldif(found, text, version=version)  # type: ignore[arg-type]
        made[root] = text.getvalue()
    return made


@pytest.fixture(scope="module")
def both(trees: dict[str, str], slapd: Start) -> str:
    """The URL of a server that has the two trees."""
    return slapd("\n".join(trees.values()))


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["page", "json"])
@pytest.mark.parametrize("root", ["o=grid", "o=glue"])
def test_the_command_decides_as_from_the_file(
    both: str, trees: dict[str, str], tmp_path: Path, root: str, form: list[str]
) -> None:
    """The same bytes by way of a server, from the tree of GLUE 1.3 and from that of GLUE 2.0."""
    path = tmp_path / "site.ldif"
    path.write_text(trees[root])
    ask = ("broker", str(EXAMPLE.parent / "job.jdl"), *form)
    dump = classad(*ask, "--ldif", str(path))
    assert (dump.returncode, dump.stderr) == (0, "")
    assert "slurm-egee" in dump.stdout
    live = classad(*ask, "--ldap", f"{both}/{root}")
    assert (live.returncode, live.stderr) == (0, "")
    assert live.stdout == dump.stdout


def test_the_command_asks_the_servers_of_the_environment(url: str) -> None:
    job = str(EXAMPLE.parent / "job.jdl")
    live = classad("broker", job, "--ldap", url)
    named = classad(
        *("broker", job, "--ldap", "LCG_GFAL_INFOSYS"),
        LCG_GFAL_INFOSYS=url.removeprefix("ldap://"),
    )
    assert "cream-slurm-egee" in live.stdout
    assert named.stdout == live.stdout


def test_the_command_says_why_a_server_is_not_read(
    slapd: Start, grid: str, certificate: Certificate
) -> None:
    down = classad("ces", "--ldap", f"ldap://127.0.0.1:{free_port()}")
    assert (down.returncode, down.stdout) == (2, "")
    assert down.stderr.startswith("classad: LDAP search at ldap://127.0.0.1:")
    url = slapd(grid, Setup(certificate=certificate))
    refused = classad("ces", "--ldap", url, "--start-tls")
    assert refused.returncode == 2
    said = refused.stderr.replace("self signed", "self-signed")  # older versions of OpenSSL
    assert said == (
        f"classad: LDAP search at {url} under o=grid and o=glue: "
        "the certificate does not verify: self-signed certificate; it was held against "
        "the certificates of the system; --ldap-ca FILE (ca_file) names others\n"
    )
    trusted = ("--start-tls", "--ldap-ca", str(certificate.certificate))
    other = classad("ces", "--ldap", url.replace("127.0.0.1", "localhost"), *trusted)
    assert other.returncode == 2
    assert "Hostname mismatch, certificate is not valid for 'localhost'; ask for" in other.stderr
    found = classad("ces", "--ldap", url, *trusted)
    assert (found.returncode, found.stderr) == (0, "")
    assert SHORT in found.stdout
