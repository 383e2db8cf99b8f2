"""Damage never takes a denial away."""

import io

import pytest

import matchmaker as mm

QUEUE = """dn: GlueCEUniqueID=h:1/jm-pbs-q,o=grid
changetype: add
objectClass: GlueCE
GlueCEAccessControlBaseRule: VO:cms

"""
VIEW = """dn: GlueVOViewLocalID=v,GlueCEUniqueID=h:1/jm-pbs-q,o=grid
GlueCEAccessControlBaseRule: DENY:VO:cms
changetype: add
objectClass: GlueVOView

"""


@pytest.mark.parametrize(
    "damaged",
    [
        QUEUE + VIEW.replace("\nGlueCEAcc", "\n lueCEAcc"),
        QUEUE + VIEW.replace("\nGlueCEAcc", "GlueCEAcc"),
        QUEUE + VIEW.replace(": add", ": adx"),
    ],
)
def test_a_view_that_denies_still_denies(damaged: str) -> None:
    job = mm.parse_ad('[VirtualOrganisation = "cms"; FQAN = "/cms"; Requirements = true; Rank = 1]')
    site = mm.glue.read(io.BytesIO(damaged.encode()))
    assert mm.broker.choose(job, site).chosen is None
