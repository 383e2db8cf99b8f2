"""Traces: what is shown of an evaluation, and that nothing else changes."""

from __future__ import annotations

import pytest

import matchmaker as mm
from matchmaker import ParseError, Trace, parse_ad, parse_expr
from matchmaker._limits import CLASSAD_LIMITS as LIMITS
from matchmaker.classad.values import UNDEFINED, is_error

MACHINE = """[
    START = Load < 0.5 && Idle > 900 && TARGET.Owner == "ana";
    Requirements = START || Cpus + 1 > 3 && isUndefined(loop);
    Load = 0.3; Idle = 1000; Cpus = 4;
    loop = loop2; loop2 = loop + 1;
    n = [ x = Cpus ]; bad = {1 / 0, Cpus}
]"""


def lines(text: str, my: str = MACHINE, target: str = '[ Owner = "eve"; R = TARGET.n.x ]') -> str:
    return str(mm.trace(text, parse_ad(my), parse_ad(target) if target else None))


SHOWN = [
    (
        "MY.Requirements",
        """
MY.Requirements is true
  START || Cpus + 1 > 3 && isUndefined(loop) is true
    START is false
      Load < 0.5 && Idle > 900 && TARGET.Owner == "ana" is false
        Load < 0.5 is true
          Load is 0.3
        Idle > 900 is true
          Idle is 1000
        TARGET.Owner == "ana" is false
          TARGET.Owner is "eve"
    Cpus + 1 > 3 && isUndefined(loop) is true
      Cpus + 1 > 3 is true
        Cpus + 1 is 5
          Cpus is 4
      isUndefined(loop) is true
        loop is undefined
          loop2 is undefined
            loop + 1 is undefined
              loop is undefined (leads back to itself)
""",
    ),
    (
        "TARGET.R + 1",
        """
TARGET.R + 1 is 5
  TARGET.R is 4
    TARGET.n.x is 4
      TARGET.n is [ x = Cpus ]
      Cpus is 4
""",
    ),
    ("Load ?: Idle", "Load ?: Idle is 0.3\n  Load is 0.3\n  Idle: not evaluated"),
    (
        "Cpus > 9 ? Load : Idle",
        """
Cpus > 9 ? Load : Idle is 1000
  Cpus > 9 is false
    Cpus is 4
  Load: not evaluated
  Idle is 1000
""",
    ),
    (
        "ifThenElse(Cpus > 3, Load, Idle)",
        """
ifThenElse(Cpus > 3, Load, Idle) is 0.3
  Cpus > 3 is true
    Cpus is 4
  Load is 0.3
  Idle: not evaluated
""",
    ),
    (
        "false || Load || Idle || Cpus > 1",
        """
false || Load || Idle || Cpus > 1 is true
  Load is 0.3
  Idle: not evaluated
  Cpus > 1: not evaluated
""",
    ),
    (
        "bad[0]",
        """
bad[0] is error: integer division by zero
  bad is {error, 4}
    {1 / 0, Cpus} is {error, 4}
      1 / 0 is error: integer division by zero
      Cpus is 4
""",
    ),
    (
        "countMatches(x > 3, {n, [ x = 1 ]})",
        """
countMatches(x > 3, {n, [ x = 1 ]}) is 1
  x > 3 is true
    x is 4
      Cpus is 4
  {n, [ x = 1 ]} is {[ x = Cpus ], [ x = 1 ]}
    n is [ x = Cpus ]
  x > 3 is false
    x is 1
""",
    ),
    (
        "Cpus - 1 - Cpus * 2 + Cpus",
        """
Cpus - 1 - Cpus * 2 + Cpus is -1
  Cpus - 1 - Cpus * 2 is -5
    Cpus is 4
    Cpus * 2 is 8
      Cpus is 4
  Cpus is 4
""",
    ),
    ('eval("Cpus")', 'eval("Cpus") is 4\n  Cpus is 4'),
    ("1 + 1", "1 + 1 is 2"),
    ("undefined", "undefined is undefined"),
]


@pytest.mark.parametrize(("text", "shown"), SHOWN, ids=[text for text, _ in SHOWN])
def test_what_is_shown(text: str, shown: str) -> None:
    assert lines(text) == shown.strip()


def test_without_ads() -> None:
    assert str(mm.trace(parse_expr("a && b"))) == (
        "a && b is undefined\n  a is undefined\n  b is undefined"
    )
    assert lines("TARGET.x", target="") == "TARGET.x is undefined\n  TARGET is undefined"


def test_parts_are_data() -> None:
    whole = mm.trace("a ? b : c", parse_ad("[ a = false ]"))
    assert isinstance(whole, Trace)
    assert whole.value is UNDEFINED
    assert [(str(p.expression), p.value, p.note) for p in whole.children] == [
        ("a", False, ""),
        ("b", None, "not evaluated"),
        ("c", UNDEFINED, ""),
    ]
    with pytest.raises(AttributeError):
        whole.note = "x"  # type: ignore[misc] # frozen


def test_text_that_is_no_expression() -> None:
    with pytest.raises(ParseError):
        mm.trace("1 +")


def test_large_expressions_are_cut() -> None:
    ad = parse_ad("[ x = -1 ]")
    text = " || ".join(f"x == {i}" for i in range(3000))
    whole = mm.trace(text, ad)
    assert whole.value is False
    assert str(LIMITS.trace_parts) in whole.note
    assert sum(1 for _ in whole.walk()) <= 2 * LIMITS.trace_parts
    assert whole.children[-1].note == "not shown"
    assert len(whole.children) == 3000


def test_out_of_bounds_is_the_same_error() -> None:
    links = "; ".join(f"a{i} = a{i + 1}" for i in range(2000))
    ad = parse_ad(f"[ {links} ]")
    whole = mm.trace("a0", ad)
    assert is_error(whole.value)
    assert whole.value.reason == parse_expr("a0").eval(ad).reason  # type: ignore[union-attr]
    assert "given up" in whole.note


def test_deep_attributes_have_their_value() -> None:
    links = "; ".join(f"a{i} = a{i + 1} + 1" for i in range(140))
    ad = parse_ad(f"[ {links}; a140 = 0 ]")
    assert mm.trace("a0", ad).value == 140


def test_a_compiled_expression_is_still_seen() -> None:
    ad = parse_ad("[ a = b + 1; b = 1 + c; c = 1 ]")
    node = parse_expr("a * 7")
    for _ in range(40):
        assert node.eval(ad) == 21
    assert node.run is not None
    assert str(mm.trace(node, ad)).count("\n") == 5


@pytest.mark.slow
def test_a_long_expression_is_shown_by_its_beginning() -> None:
    text = str(mm.trace("b + c - " * 4_000 + "d", parse_ad("[ b = 1; c = 2 ]")))
    assert len(text) < 400 * LIMITS.trace_parts


def test_a_long_value_is_shown_by_its_beginning() -> None:
    links = "; ".join(f"a{i} = a{i + 1}" for i in range(90))
    items = ", ".join(f'"{"y" * 100}"' for _ in range(1000))
    ad = parse_ad(f'[ {links}; a90 = {{{items}}}; b = strcat("x", "{"z" * 10_000}") ]')
    shown = str(mm.trace("a0", ad)).split("\n")
    assert len(shown) == 92
    assert {line.rpartition(" is ")[2][:4] for line in shown} == {'{"yy'}
    assert max(map(len, str(mm.trace("b", ad)).split("\n"))) < 400
