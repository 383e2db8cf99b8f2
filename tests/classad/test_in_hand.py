"""What a person meets at the prompt: names as asked for, typed values, errors in sentences."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import matchmaker as mm


def test_a_missing_attribute_is_named_as_it_was_asked_for() -> None:
    ad = mm.parse_ad("[ Cpus = 4 ]")
    with pytest.raises(KeyError, match="RequestMemory"):
        ad["RequestMemory"]
    with pytest.raises(KeyError, match="RequestMemory"):
        del ad["RequestMemory"]


def test_a_value_of_a_type_is_given_or_its_default() -> None:
    ad = mm.parse_ad("[ Cpus = 4; Half = 0.5; Ok = true; Name = 'a'; Twice = 2 * Cpus ]")
    assert ad.eval("Twice", int) == 8
    assert ad.eval("Cpus", float) == 4.0
    assert isinstance(ad.eval("Cpus", float), float)
    assert ad.eval("Memory", int, default=0) == 0
    assert ad.eval("Half", int, default=None) is None
    assert ad.eval("Ok", int, default=7) == 7
    assert ad.eval("Ok", bool) is True
    assert ad.eval(mm.parse_expr("other.Cpus"), int, target=mm.parse_ad("[ Cpus = 3 ]")) == 3
    assert ad.eval("other.Cpus", target=mm.parse_ad("[ Cpus = 3 ]")) is mm.UNDEFINED


def test_a_value_of_another_type_is_an_error_that_says_both() -> None:
    ad = mm.parse_ad('[ Cpus = "four"; Wrong = 1 / 0 ]')
    with pytest.raises(TypeError, match='Cpus is "four"; int was expected'):
        ad.eval("Cpus", int)
    with pytest.raises(TypeError, match="Memory is undefined; int was expected"):
        ad.eval("Memory", int)
    with pytest.raises(TypeError, match="Wrong is ERROR"):
        ad.eval("Wrong", int)
    with pytest.raises(TypeError, match="the other ad is a ClassAd, not str"):
        ad.eval("Cpus", target="wn1")  # type: ignore[call-overload]


def test_what_is_no_ad_is_said_where_an_ad_is_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="an ad was expected, not str"):
        mm.dumps("x")  # type: ignore[arg-type]
    out = tmp_path / "ads"
    with pytest.raises(TypeError, match="several ads were expected, not ClassAd"):
        mm.write_ads(mm.parse_ad("[ a = 1 ]"), out)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="an ad was expected, not int"):
        mm.write_ads([1], out)  # type: ignore[list-item]
    assert not out.exists()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda ad: mm.ClassAd("[ a = 1 ]"), "not str; parse_ad() makes an ad of a text"),  # type: ignore[arg-type]
        (lambda ad: mm.ClassAd(b"a = 1"), "not bytes; parse_ad() makes an ad of a text"),  # type: ignore[arg-type]
        (lambda ad: ad.eval("Cpus", 0), "a type, such as int, not 0; what to give instead"),
        (lambda ad: mm.match({"a": 1}, ad), "not dict; ClassAd() makes one of a mapping"),  # type: ignore[arg-type]
        (lambda ad: ad.expr("More").eval("x"), "not str; parse_ad() makes one of a text"),
        (lambda ad: ad.expr("More").eval(target={"a": 1}), "not dict; ClassAd() makes one of a"),
        (lambda ad: ad.expr("More").simplify("x"), "not str; parse_ad() makes one of a text"),
        (lambda ad: ad.expr("More").flatten({}), "not dict; ClassAd() makes one of a mapping"),
    ],
)
def test_what_is_taken_for_an_ad_is_told_with_what_makes_one(
    wrong: Callable[[mm.ClassAd], object], says: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(says)):
        wrong(mm.parse_ad("[ Cpus = 4; More = x + Cpus ]"))


def test_a_key_that_is_no_text_is_in_no_ad() -> None:
    ad: Any = mm.parse_ad("[ Cpus = 4 ]")
    for key in (1, None, ("Cpus",)):
        assert key not in ad
        assert (ad.get(key), ad.get(key, 7), ad.pop(key, 8), ad.expr(key, 9)) == (None, 7, 8, 9)
        for wrong in (ad.__getitem__, ad.__delitem__, ad.pop, ad.expr):
            with pytest.raises(KeyError):
                wrong(key)
