"""Undamaged output of real providers refuses no user whom it names, and admits no other."""

from __future__ import annotations

import io

import pytest

from matchmaker import broker, glue, parse_ad, parse_ads
from matchmaker.glue.access import Access
from tests.glue.providers import SITES, USERS, Provided

CASES = [(site, user) for site in SITES for user in USERS]


def described(site: Provided) -> glue.Glue:
    if site.catalog:
        return glue.read_osg(parse_ads(site.text(), format="old"))
    return glue.read(io.BytesIO(site.text().encode()))


def chosen(site: str, user: str, access: Access = "published") -> bool:
    rules = broker.Rules(access=access)
    found = broker.choose(parse_ad(USERS[user]), described(SITES[site]), rules=rules)
    return bool(found.ranked)


@pytest.mark.parametrize(("site", "user"), CASES)
def test_who_is_admitted(site: str, user: str) -> None:
    known = user in SITES[site].known
    assert chosen(site, user, access="known") is known
    assert chosen(site, user) is (known or SITES[site].unknown)
    assert chosen(site, user, access="any")
