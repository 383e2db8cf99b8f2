"""Small descriptions that would make large ads, and what is left of them."""

from __future__ import annotations

import io
import json

import pytest

from matchmaker import glue
from matchmaker._limits import GLUE_LIMITS as LIMITS
from matchmaker.classad import ClassAd
from matchmaker.classad.parser import parse_expr
from matchmaker.glue import translation as translate
from tests.limits import fields


def entry(dn: str, kind: str, *lines: str) -> list[str]:
    return [f"dn: {dn},o=grid", f"objectClass: {kind}", *lines, ""]


def queue(name: str, cluster: str, *lines: str) -> list[str]:
    ident = f"h:1/jm-pbs-{name}"
    key = f"GlueForeignKey: GlueClusterUniqueID={cluster}"
    return entry(f"GlueCEUniqueID={ident}", "GlueCE", f"GlueCEUniqueID: {ident}", key, *lines)


def view(name: str, of: str) -> list[str]:
    dn = f"GlueVOViewLocalID={name},GlueCEUniqueID=h:1/jm-pbs-{of}"
    return entry(
        dn, "GlueVOView", f"GlueVOViewLocalID: {name}", f"GlueCEAccessControlBaseRule: VO:{name}"
    )


def cluster(name: str, *lines: str) -> list[str]:
    return entry(f"GlueClusterUniqueID={name}", "GlueCluster", *lines)


def close(name: str) -> list[str]:
    dn = f"GlueCESEBindSEUniqueID=se,GlueCESEBindGroupCEUniqueID=h:1/jm-pbs-{name}"
    return entry(dn, "GlueCESEBind", "GlueCESEBindSEUniqueID: se")


MANY = range(200)
HOSTILE = {
    "a large cluster of many queues": [
        *cluster("big", *(f"x{n}: 1" for n in MANY)),
        *(line for n in MANY for line in queue(f"bad{n}", "big")),
    ],
    "a cluster with many keys": [
        *cluster("big", *(f"GlueForeignKey: X={n}" for n in MANY)),
        *(line for n in MANY for line in queue(f"bad{n}", "big")),
    ],
    "a large queue with many views": [
        *queue("bad", "none", *(f"x{n}: 1" for n in MANY)),
        *(line for n in MANY for line in view(f"v{n}", "bad")),
    ],
    "rules that deny, for many views": [
        *queue("bad", "none", *(f"GlueCEAccessControlBaseRule: DENY:/{n}" for n in MANY)),
        *(line for n in MANY for line in view(f"v{n}", "bad")),
    ],
    "storage of many areas that is close many times": [
        *entry("GlueSEUniqueID=se", "GlueSE"),
        *(
            line
            for n in MANY
            for line in (
                *queue(f"bad{n}", "none", *(f"GlueCEAccessControlBaseRule: VO:v{m}" for m in MANY)),
                *close(f"bad{n}"),
            )
        ),
        *(line for n in MANY for line in entry(f"GlueSALocalID=v{n},GlueSEUniqueID=se", "GlueSA")),
    ],
}


@pytest.mark.parametrize("lines", HOSTILE.values(), ids=HOSTILE)
def test_what_swells_is_left_out_and_the_others_stay(
    lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fields(LIMITS), "ads", 1000)
    monkeypatch.setitem(fields(LIMITS), "ads_each", 10)
    sound = [*cluster("small"), *(line for n in range(5) for line in queue(f"good{n}", "small"))]
    found = glue.read_ldif([*lines, *sound])
    ads = found.computing_elements()
    size = sum(
        len(value) if isinstance(value, list) else 1 for ad in ads for value in map(ad.eval, ad)
    )
    assert size < 1000 + 10 * 700 + 1000
    names = {str(ad.eval("QueueName")) for ad in ads}
    assert {f"good{n}" for n in range(5)} <= names
    told = [issue.raw for issue in found.issues if issue.rule == "link.too-many"]
    assert told
    assert all("bad" in name for name in told)


def test_a_cluster_that_names_all_its_queues_is_none_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(fields(LIMITS), "ads", 0)
    monkeypatch.setitem(fields(LIMITS), "ads_each", 50)
    keys = (f"GlueForeignKey: GlueCEUniqueID=h:1/jm-pbs-q{n}" for n in MANY)
    queues = (line for n in MANY for line in queue(f"q{n}", "c"))
    assert len(glue.read_ldif([*cluster("c", *keys), *queues]).computing_elements()) == len(MANY)


def test_storage_that_is_close_twice_is_one_storage() -> None:
    lines = [*queue("q", "c"), *entry("GlueSEUniqueID=se", "GlueSE", "GlueSEName: disk")]
    name, *again = close("q")
    found = glue.read_ldif([*lines, *close("q"), f"{name},o=top", *again])
    assert "link.repeated" in {issue.rule for issue in found.issues}
    [ad] = found.computing_elements()
    assert len(ad.eval(parse_expr("storage.CloseSEs"), list)) == 1


def service(share: list[str], endpoints: int) -> list[str]:
    lines = entry("GLUE2ServiceID=s", "GLUE2ComputingService")
    lines += entry("GLUE2ShareID=h,GLUE2ServiceID=s", "GLUE2ComputingShare", *share)
    for number in range(endpoints):
        dn = f"GLUE2EndpointID=e{number},GLUE2ServiceID=s"
        lines += entry(dn, "GLUE2ComputingEndpoint", f"GLUE2EndpointURL: https://h:{number + 1}/x")
    return lines


def test_a_large_share_at_many_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [f"GLUE2EntityOtherInfo: X={number}" for number in range(100)]
    assert len(glue.read_ldif(service(said, 30)).computing_elements()) == 30
    monkeypatch.setitem(fields(LIMITS), "taken", 1000)
    monkeypatch.setitem(fields(LIMITS), "taken_each", 0)
    found = glue.read_ldif(service(said, 30))
    assert len(found.computing_elements()) == 9
    [issue] = [issue for issue in found.issues if issue.rule == "link.too-many"]
    assert "its shares at its endpoints repeat too much" in issue.message


def test_names_of_strangers_are_not_kept() -> None:
    before = translate._nearest.cache_info().currsize
    found = glue.read_ldif(service([f"unheardof{number}: 1" for number in range(3000)], 1))
    assert len(found.computing_elements()) == 1
    assert translate._nearest.cache_info().currsize < before + 1000


@pytest.mark.parametrize("form", ["json", "xml"])
def test_objects_of_a_document_are_limited(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fields(LIMITS), "objects", 10)
    if form == "json":
        shares = [{"ID": f"s{number}"} for number in range(30)]
        text = json.dumps({"ComputingService": {"ID": "c", "ComputingShare": shares}})
    else:
        shares_text = "".join(
            f"<ComputingShare ID='s{n}'><Name>x</Name></ComputingShare>" for n in range(30)
        )
        text = f"<ComputingService ID='c'>{shares_text}</ComputingService>"
    found = glue.read(io.BytesIO(text.encode()))
    assert len(found.snapshot.computing_elements) == 9
    [issue] = [issue for issue in found.issues if issue.partial]
    assert issue.rule == "document.partial"
    assert "more than 10 objects" in issue.message


def test_a_share_of_no_service_is_told() -> None:
    found = glue.read(io.BytesIO(b'{"ComputingShare": {"ID": "s"}}'))
    assert found.computing_elements() == list[ClassAd]()
    assert [issue.rule for issue in found.issues] == ["link.dangling", "link.no-queue"]
