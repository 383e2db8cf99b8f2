"""What one source lost may deny the queues of another: they admit nobody until somebody says so."""

from __future__ import annotations

import socket
from io import BytesIO

import pytest

from matchmaker import ClassAd, broker, glue, parse_ad, parse_ads
from matchmaker.glue.access import RULES
from matchmaker.glue.readers.ldap import Bounds
from tests.glue.ldap_server import done, entry, queue, server

ID = "h:1/jm-pbs-q"
JOB = parse_ad('[ VirtualOrganisation = "cms"; Requirements = true; Rank = 1 ]')
ADS = list(parse_ads('[ CEid = "x" ] [ CEid = "y"; GlueSiteUniqueID = "S" ]'))


def site(name: str = "S") -> glue.Glue:
    """A queue that admits cms."""
    text = f"""dn: GlueSiteUniqueID={name},o=grid
objectClass: GlueSite
GlueSiteUniqueID: {name}

dn: GlueClusterUniqueID=c,o=grid
objectClass: GlueCluster
GlueClusterUniqueID: c
GlueForeignKey: GlueSiteUniqueID={name}

dn: GlueCEUniqueID={ID},o=grid
objectClass: GlueCE
GlueCEUniqueID: {ID}
{RULES}: VO:cms
GlueForeignKey: GlueClusterUniqueID=c
"""
    return glue.read(BytesIO(text.encode()))


def broken(base: str, code: int | None = None) -> glue.Glue:
    """What a server sent under a base before it broke off, or stopped at a limit or a referral."""

    def answer(peer: socket.socket, number: int) -> None:
        peer.sendall(entry(number, "GlueSiteUniqueID=R,o=grid", objectClass=b"GlueSite"))
        if code is None:
            peer.sendall(queue(number, GlueCEAccessControlBaseRule=b"DENY:VO:cms")[:-5])
            peer.close()
        else:
            peer.sendall(done(number, code))

    with server(answer) as url:
        return glue.read_ldap(url, base, bounds=Bounds(timeout=2, total=4))


def taken(found: broker.Queues) -> list[str]:
    return sorted(candidate.name for candidate in broker.choose(JOB, found.ads).ranked)


@pytest.mark.parametrize("code", [None, 4])
@pytest.mark.parametrize("base", ["o=grid", "Mds-Vo-name=resource,o=grid"])
def test_what_a_source_lost_may_deny_any_queue_of_another(base: str, code: int | None) -> None:
    lost = broken(base, code)
    assert taken(broker.merged([("site", site()), ("ads", ADS)])) == [ID, "x", "y"]
    sources: list[tuple[str, glue.Glue | list[ClassAd]]]
    sources = [("site", site()), ("ads", ADS), ("bdii", lost)]
    for _ in range(2):
        sources.reverse()
        found = broker.merged(sources)
        assert taken(found) == []
        assert not found.whole
        [(source, issue)] = [(s, i) for s, i in found.issues if i.rule == "source.partial"]
        assert source == "bdii"
        assert "queues admit nobody: read it again, leave it out, or accept" in issue.message
        assert issue.level == "E"
        for ce in found.records.computing_elements:
            assert "DENY:ALL" in str(ce.values[RULES])
        assert taken(broker.merged(sources, accept_partial=True)) == [ID, "x", "y"]


@pytest.mark.parametrize("base", ["Mds-Vo-name=s,Mds-Vo-name=local,o=grid", "GLUE2DomainID=s,o=x"])
def test_a_server_that_was_asked_for_one_site_may_deny_its_queues_alone(base: str) -> None:
    lost = broken(base)
    for name, expected in (("S", ["z"]), ("R", ["z"]), ("T", [ID, "z"])):
        # A queue whose site is not known may be of any; one of another site is not.
        ads = [*ADS, ClassAd({"CEid": "z", "GlueSiteUniqueID": "Z"})]
        found = broker.merged([("site", site(name)), ("bdii", lost), ("ads", ads)])
        assert taken(found) == expected
        [issue] = [i for _, i in found.issues if i.rule == "source.partial"]
        assert "queues of s in other sources admit nobody" in issue.message


def test_the_answer_names_the_base_that_it_is_of() -> None:
    for base, code in (("o=x", None), ("Mds-Vo-name=s,o=grid", 4)):
        [issue] = [issue for issue in broken(base, code).issues if issue.partial]
        assert issue.dn == base


def test_a_source_alone_has_no_other_to_close() -> None:
    found = broker.merged([("bdii", broken("o=grid"))])
    assert [i.rule for _, i in found.issues if i.partial] == ["ldap.partial"]
