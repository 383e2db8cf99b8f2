"""Undamaged output of real providers refuses no user whom it names, and admits no other."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import pytest

from matchmaker import ClassAd, broker, glue, parse_ad, parse_ads
from matchmaker.glue.access import Access
from tests.glue import providers
from tests.glue.providers import SITES, USERS, Provided

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "providers"
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


def test_the_examples_are_what_the_providers_print() -> None:
    made = {name: text() for name, text in providers.EXAMPLES.items()}
    assert {path.name: path.read_text(encoding="utf-8") for path in EXAMPLES.iterdir()} == made


def test_a_queue_has_one_id_in_every_form() -> None:
    """ARC's three renderings are of one site, and each user finds the same queues in each."""
    site = ("arc.a.org", {"q1": ("atlas",), "q2": None}, ("ops",))
    xml = providers.arc_xml(*site)
    forms = (providers.arc(*site), xml, providers.arc_json(xml))
    described = [glue.read(io.BytesIO(text.encode())) for text in forms]
    # Merged they are one another's confirmation.
    merged = broker.merged(zip("abc", described, strict=True))
    every: list[Iterable[ClassAd]] = [*described, merged]
    for said in USERS.values():
        chosen = [broker.choose(parse_ad(said), form) for form in every]
        found = [sorted(each.name for each in one.ranked) for one in chosen]
        assert found == [found[0]] * 4
