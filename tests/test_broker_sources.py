"""What several sources say of one queue, and sources that broke off."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from io import BytesIO

import pytest

from matchmaker import ClassAd, broker, glue, parse_ad, parse_ads
from matchmaker.glue.access import RULES
from matchmaker.glue.readers.ldap import LdapBounds
from tests.glue.ldap_server import done, entry, queue, server

ID = "h:1/jm-pbs-q"
JOB = parse_ad('[ VirtualOrganisation = "cms"; Requirements = true; Rank = 1 ]')
ADS = list(parse_ads('[ CEid = "x" ] [ CEid = "y"; GlueSiteUniqueID = "S" ]'))


def site(*rules: str, views: Sequence[tuple[str, ...]] = ()) -> glue.Glue:
    """A queue of GLUE 1.3 with rules, and views with theirs."""
    place = f"GlueCEUniqueID={ID},o=grid"
    text = f"dn: {place}\nobjectClass: GlueCE\nGlueCEUniqueID: {ID}\n"
    text += "".join(f"{RULES}: {rule}\n" for rule in rules) + "\n"
    for number, its in enumerate(views):
        text += f"dn: GlueVOViewLocalID=v{number},{place}\nobjectClass: GlueVOView\n"
        text += f"GlueVOViewLocalID: v{number}\nGlueChunkKey: GlueCEUniqueID={ID}\n"
        text += "".join(f"{RULES}: {rule}\n" for rule in its) + "\n"
    return glue.read(BytesIO(text.encode()))


def broken(code: int | None = None) -> glue.Glue:
    """What a server sent before it broke off, or stopped at a limit."""

    def answer(peer: socket.socket, number: int) -> None:
        peer.sendall(entry(number, "GlueSiteUniqueID=R,o=grid", objectClass=b"GlueSite"))
        if code is None:
            peer.sendall(queue(number, GlueCEAccessControlBaseRule=b"VO:cms")[:-5])
            peer.close()
        else:
            peer.sendall(queue(number, GlueCEAccessControlBaseRule=b"VO:cms") + done(number, code))

    with server(answer) as url:
        return glue.read_ldap(url, "o=grid", bounds=LdapBounds(timeout=2, total=4))


def taken(found: broker.Queues, job: ClassAd = JOB) -> list[str]:
    return sorted(candidate.name for candidate in broker.choose(job, found.ads).ranked)


@pytest.mark.parametrize("code", [None, 4])
def test_a_source_that_broke_off_is_left_out_whole(code: int | None) -> None:
    lost = broken(code)
    sources: list[tuple[str, glue.Glue | list[ClassAd]]] = [("ads", ADS), ("bdii", lost)]
    for _ in range(2):
        sources.reverse()
        found = broker.merged(sources)
        assert taken(found) == ["x", "y"]
        assert not found.whole
        [(source, issue)] = [(s, i) for s, i in found.issues if i.rule == "source.partial"]
        assert source == "bdii"
        assert "it is left out whole: read it again, or take what came of it" in issue.message
        assert issue.level == "E"
        accepted = broker.merged(sources, accept_partial=True)
        assert taken(accepted) == (["x", "y"] if code is None else ["h:1/jm-pbs-q", "x", "y"])
        assert not accepted.whole


def test_where_all_sources_broke_off_there_is_an_error() -> None:
    lost = broken()
    with pytest.raises(ValueError, match=r"bdii: ldap\.partial: .*--accept-partial"):
        broker.merged([("bdii", lost)])
    with pytest.raises(ValueError, match="broke off"):
        broker.choose(JOB, lost)
    assert broker.merged([("bdii", lost)], accept_partial=True).records.sites


@pytest.mark.parametrize(
    ("first", "second", "admits"),
    [
        (site("VO:cms"), site("VO:cms"), True),
        (site("VO:cms"), site("VO:atlas"), False),
        (site("VO:atlas"), site("VO:lhcb"), False),
        # The same rules divided otherwise.
        (site("VO:cms", "VO:atlas"), site(views=[("VO:atlas",), ("VO:cms",)]), True),
        (site(views=[("VO:cms",), ("VO:atlas",)]), site(views=[("VO:atlas",), ("VO:cms",)]), True),
        (site("/O=g/CN=Ada", "VO:cms"), site(views=[("VO:cms",), ("/O=g/CN=Ada",)]), True),
        # Rules of two kinds, of which no one says whom both admit.
        (site("VO:cms"), site("/O=g/CN=Ada"), True),
        (site("VO:cms"), site("/O=g/CN=Eve"), False),
        (site("VO:cms"), site("VOMS:/cms/Role=pilot"), True),
        (site("VO:cms"), site("VOMS:/cms/Role=other"), False),
        # A source that publishes no rule says nothing.
        (site("VO:cms"), site(), True),
        (site(), site(), True),
        # Nobody, as no rule can be read: the queue keeps its id, and the other opens nothing.
        (site("VO:cms"), site("EGEE"), False),
        # Denials count, and those of a view in the view.
        (site("VO:cms"), site("VO:cms", "DENY:VO:CMS"), False),
        (site("VO:cms"), site("ALL", "DENY:/O=g/CN=Ada"), False),
        (
            site("VO:cms"),
            site(views=[("VO:cms", "DENY:/cms/Role=pilot"), ("VOMS:/cms/Role=pilot",)]),
            True,
        ),
        (
            site("VO:cms"),
            site(views=[("VO:cms", "DENY:/cms/Role=pilot"), ("VOMS:/cms/Role=other",)]),
            False,
        ),
    ],
)
def test_a_queue_admits_whom_each_source_admits(
    first: glue.Glue, second: glue.Glue, admits: bool
) -> None:
    job = parse_ad("""[ VirtualOrganisation = "cms"; FQAN = { "/cms/Role=pilot", "/cms" };
        CertificateSubject = "/O=g/CN=Ada"; Requirements = true; Rank = 1 ]""")
    for sources in ([("a", first), ("b", second)], [("b", second), ("a", first)]):
        found = broker.merged(sources)
        assert bool(taken(found, job)) is admits
        assert {ad.eval("GlueCEUniqueID") for ad in found} == {ID}
        each = [bool(taken(broker.merged([source]), job)) for source in sources]
        assert all(each) or not admits


def test_three_sources() -> None:
    sources = [("a", site("VO:cms")), ("b", site()), ("c", site("/O=g/CN=Ada", "VO:atlas"))]
    found = broker.merged(sources)
    [ad] = found.ads
    assert ad.eval(RULES) == ["VO:cms"]
    assert ad.eval("AccessAlso") == [["/O=g/CN=Ada", "VO:atlas"]]
    assert "AccessUnknown" not in ad
    conflicts = [(s, i.rule) for s, i in found.issues if i.rule.startswith("access")]
    assert conflicts == [("b", "access.none"), ("c", "access.conflict")]


def test_ads_of_two_sources_are_of_one_queue_by_its_id() -> None:
    def ads(view: str, other: str) -> list[ClassAd]:
        part = '[ CEid = {}; GlueCEUniqueID = "q"; GlueCEAccessControlBaseRule = {} ]'
        rules = (("q/v", view), ("q/w", other))
        return [parse_ad(part.format(f'"{n}"', f'{{ "VO:{vo}" }}')) for n, vo in rules]

    sources = [("a", ads("cms", "atlas")), ("b", ads("atlas", "cms"))]
    assert taken(broker.merged(sources)) == ["q/v"]
    assert taken(broker.merged(sources[::-1])) == ["q/w"]
    assert taken(broker.merged([("a", ads("cms", "atlas")), ("b", ads("lhcb", "ops"))])) == []
