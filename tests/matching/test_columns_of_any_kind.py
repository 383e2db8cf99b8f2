"""Pools whose columns hold values of many types: each answer is that of the pair alone."""

from __future__ import annotations

import pytest

from matchmaker import ClassAd, Pool, match, parse_ad

# As strings are the common case, a column of them has ways of its own; these are no strings.
ODD: list[str | float | None] = [
    "wn1",
    "WN2",
    "5",
    5,
    5.0,
    True,
    None,
    "error",
    "{ 1 }",
    "[ a = 1 ]",
    "undefined",
]


def machines() -> list[ClassAd]:
    ads = []
    for number in range(60):
        ad = parse_ad(f'[ Name = "m{number:02}"; Rare = {number % 7} ]')
        odd = ODD[number % len(ODD)]
        if odd is None:
            pass
        elif isinstance(odd, str) and odd[0] in "eu{[":
            ad["Kind"] = parse_ad(f"[ x = {odd} ]")["x"]
        else:
            ad["Kind"] = odd
        if number % 20 == 3:
            ad["Seldom"] = "x"
        ads.append(ad)
    return ads


@pytest.mark.parametrize(
    "requirement",
    [
        'member(TARGET.Kind, { "wn1", "wn2" })',
        'identicalMember(TARGET.Kind, { "wn1", "WN2" })',
        'member(TARGET.Kind, { "wn1", 5 })',
        'member(TARGET.Kind, { "5" }) isnt true',
        '!member(TARGET.Kind, { "wn1" })',
        'TARGET.Kind == "wn1" || TARGET.Kind is 5',
        'TARGET.Kind =!= "wn2"',
        'TARGET.Seldom == "x"',
        'TARGET.Seldom isnt "x" && member(TARGET.Seldom, { "y", "x" }) isnt true',
        'member(MY.Mine, { "b" }) && TARGET.Rare > 3',
    ],
)  # fmt: skip
def test_a_pool_answers_as_pairs_do(requirement: str) -> None:
    job = parse_ad(f'[ Mine = "B"; Requirements = {requirement} ]')
    ads = machines()
    alone = [str(ad.eval("Name")) for ad in ads if match(job, ad).matched]
    assert sorted(Pool(ads).match(job).keys) == alone


def test_an_explanation_counts_requirements_that_all_differ() -> None:
    """More policies than are looked at one by one: the rest are counted together."""
    ads = [
        parse_ad(f'[ Name = "m{n:03}"; START = TARGET.Want < {n}; Requirements = START ]')
        for n in range(300)
    ]
    ads += [ClassAd(Name=f"open{n}") for n in range(5)]
    ads += [ClassAd(Name=f"text{n}", Requirements=f"policy {n}") for n in range(5)]
    job = parse_ad("[ Want = 100; Requirements = true ]")
    found = Pool(ads).explain(job)
    assert (found.total, found.matched) == (310, 199 + 5)
    assert found.refused_by_ads == 310 - found.matched
    refused = [clause.refused for clause in found.ad_clauses]
    assert 0 < max(refused) <= found.refused_by_ads
    assert refused == sorted(refused, reverse=True)
