from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from matchmaker import glue
from matchmaker.classad import UNDEFINED, ClassAd
from matchmaker.glue.schema import attribute
from tests.services.slapd import slapd

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


def sound(entries: list[glue.Entry]) -> str:
    """LDIF by the book of what a server accepts, parents first, values in base64."""
    lines: list[str] = []
    for entry in sorted(entries, key=lambda entry: entry.dn.count(",")):
        lines.append(f"dn: {entry.dn}")
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
def url(text: str, slapd: Callable[[str], str]) -> str:
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
