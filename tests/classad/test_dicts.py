"""Ads from Python's values and back, and from the ads of HTCondor's Python bindings."""

from __future__ import annotations

import enum
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from matchmaker import ERROR, UNDEFINED, ClassAd, Pool, dumps, match, parse_ad, parse_expr
from tests.strategies import ads

PLAIN: dict[str, Any] = {
    "Cpus": 4, "Load": 0.5, "Name": "wn1", "Up": True, "Nothing": None, "Tags": ["el9", 2, [None]],
    "Site": {"Name": "x", "Inner": {"L": [{"a": 1}]}}, "Empty": {}, "None_": [],
    "When": datetime(2026, 1, 2, tzinfo=UTC), "Long": timedelta(days=1),
}  # fmt: skip


class Colour(enum.StrEnum):
    """Text of an enumeration."""

    RED = "red"


def test_pythons_values_go_in_and_come_out() -> None:
    ad = ClassAd(PLAIN)
    assert ad.to_dict() == PLAIN
    assert ClassAd(ad.to_dict()) == ad
    assert ad["Nothing"] is UNDEFINED


@settings(max_examples=150)
@given(ads())
def test_a_dict_of_an_ad_gives_it_back(ad: ClassAd) -> None:
    assert ClassAd(ad.to_dict()) == ad


def test_expressions_stay_expressions() -> None:
    ad = parse_ad("[ a = b + 1; l = {1, x}; n = [ y = a ]; e = error ]")
    assert ad.to_dict() == {
        "a": parse_expr("b + 1"), "l": [1, parse_expr("x")], "n": {"y": parse_expr("a")},
        "e": ERROR,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "plain"),
    [(Colour.RED, "red"), (enum.IntEnum("N", {"A": 7}).A, 7), (np.float64(1.5), 1.5),  # type: ignore[attr-defined]
     (("a", (1,)), ["a", [1]])],
)  # fmt: skip
def test_of_subclasses_the_plain_value_is_held(value: object, plain: object) -> None:
    ad = ClassAd(x=value)
    assert ad.to_dict() == {"x": plain}
    assert parse_ad(dumps(ad)) == ad


@pytest.mark.parametrize(
    ("value", "error", "advice"),
    [
        (b"x", TypeError, "bytes is not a ClassAd value; decode it to text"),
        (bytearray(b"x"), TypeError, "decode it to text"),
        ([{"a": b"x"}], TypeError, "decode it to text"),
        (datetime(2026, 1, 2), ValueError, r"no time zone.*\.astimezone\(\)"),  # noqa: DTZ001
        (date(2026, 1, 2), TypeError, "date is not a ClassAd value"),
        (1 << 63, ValueError, "64 bits"),
        ({1}, TypeError, "set is not a ClassAd value"),
        ({1: 2}, TypeError, "an attribute name is a string, not int"),
    ],
)
def test_what_no_ad_holds_is_refused(value: object, error: type[Exception], advice: str) -> None:
    with pytest.raises(error, match=advice):
        ClassAd(x=value)


# --- the ads of HTCondor's bindings -------------------------------------------------------------

TEXT = r"""[
    i = 1; r = 0.1; s = "it's \"q\" \\ é"; t = true; u = undefined; e = error;
    l = {1, i, "q", [z = i]};
    n = [ m = {[ k = u ]}; x = 1; y = x + i ]; plain = [ a = 1 ]; none = { };
    Requirements = TARGET.Cpus >= i && TARGET.Name =!= "a\\b \"c\"" && !(TARGET.Up =?= false);
    Rank = TARGET.Cpus * 2 + (s == "x" ? 1 : ifThenElse(t, 0, -5)); q = 'two words'.a[0] ?: 3;
    time = absTime("2004-01-01T00:00:00+00:00"); nan = real("NaN")
]"""


@pytest.fixture(scope="module")
def classad2() -> Any:
    """The bindings, with the semantics that their users see."""
    pytest.importorskip("htcondor2")
    return pytest.importorskip("classad2")


@pytest.mark.oracle
def test_their_ads_are_taken_whole(classad2: Any) -> None:
    theirs = classad2.ClassAd(TEXT)
    assert ClassAd(theirs) == ClassAd(dict(theirs)) == parse_ad(TEXT)
    nested = ClassAd(inner=theirs, more=[theirs["n"], classad2.ExprTree("a =?= b")])
    assert nested["inner"] == parse_ad(TEXT)
    assert str(nested.expr("more")) == "{[ m = {[ k = u ]}; x = 1; y = x + i ], a =?= b}"


@pytest.mark.oracle
def test_their_ads_match_as_ours(classad2: Any) -> None:
    job = classad2.ClassAd("[ Requirements = TARGET.Cpus >= 2; Rank = TARGET.Cpus ]")
    slots = [classad2.ClassAd(f'[ Name = "s{n}"; Cpus = {n} ]') for n in range(5)]
    assert [match(job, slot).matched for slot in slots] == [False, False, True, True, True]
    pool = Pool(slots)
    assert pool.match(job).keys == ("s2", "s3", "s4")
    assert pool.top(job, 1).keys == ("s4",)
    pool.update(classad2.ClassAd('[ Name = "s0"; Cpus = 9 ]'))
    assert pool.top(job, 1).keys == ("s0",)
    assert next(pool.match_many([job])).keys == ("s0", "s2", "s3", "s4")
    assert str(pool.explain(job)) == str(pool.explain(ClassAd(job)))
    with pytest.raises(TypeError, match="several ads were expected, not ClassAd"):
        Pool(job)


class _Value(enum.IntEnum):
    Error = 1
    Undefined = 2


class _Tree:
    def __str__(self) -> str:
        return "TARGET.Cpus > 1"


class _Ad:
    """An ad of the first bindings: it has what a mapping has, and is registered as none."""

    def __init__(self, **held: object) -> None:
        self.held = held

    def keys(self) -> list[str]:
        return list(self.held)

    def __getitem__(self, name: str) -> object:
        return self.held[name]


for _made, _name in ((_Value, "Value"), (_Tree, "ExprTree"), (_Ad, "ClassAd")):
    _made.__name__, _made.__module__ = _name, "classad.classad"


def test_the_first_bindings_are_taken_too() -> None:
    ad = _Ad(a=1, u=_Value.Undefined, e=_Value.Error, Requirements=_Tree(), n=_Ad(l=[_Tree(), 2]))
    read = ClassAd(ad)  # type: ignore[arg-type]
    assert read == parse_ad(
        "[ a = 1; u = undefined; e = error; Requirements = TARGET.Cpus > 1;"
        " n = [ l = {TARGET.Cpus > 1, 2} ] ]"
    )
    assert read.eval("u") is UNDEFINED
    assert match(ad, ClassAd(Cpus=4)).matched  # type: ignore[arg-type]


def test_nothing_of_the_bindings_is_imported() -> None:
    code = "import matchmaker as mm, sys; mm.Pool([mm.ClassAd(Name='a')]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"classad", "classad2", "htcondor", "htcondor2"} & set(done.stdout.split())
