"""What of HTCondor's JSON is an expression and what is a string: as its own library reads it."""

from __future__ import annotations

import io
import itertools
from typing import Any

import pytest

from matchmaker import ClassAd, Expr, Pool, dumps, parse_ad

# This import sets the semantics of the next one.
pytest.importorskip("htcondor2")
classad2: Any = pytest.importorskip("classad2")

BEGINS = [r"\/Expr(", "/Expr(", r"\/expr(", "/EXPR(", r"\u002fExpr(", r"\/\u0045xpr(", r" \/Expr("]
ENDS = [r")\/", ")/", r")\u002f", r")\/ ", r")\\/", ")", r"\)\/"]
MIDDLES = ["1 + x", r"\"a\" == y", r"x == \"\/Expr(1)\/\"", "f(1)/2", r"\u0041"]
STRINGS = [
    *(f'"{begin}1 + x{end}"' for begin, end in itertools.product(BEGINS, ENDS)),
    *(rf'"\/Expr({middle})\/"' for middle in MIDDLES),
    *(f'"/Expr({middle})/"' for middle in MIDDLES),
    r'"x\"\/Expr(1)\/"', r'"x\\"', r'"a\/b"', r'["\/Expr(x)\/", "/Expr(x)/"]', r'"\\\/Expr(1)\/"',
    r'{"b": "\/Expr(x)\/", "c": "/Expr(x)/"}', r'{"/Expr(x)/": 1}', '"/Expr("', r'"\/Expr(1)"',
]  # fmt: skip


def theirs(raw: str) -> Any:
    """How the library prints what a value is, or None where it reads no ad."""
    ad = classad2.parseOne(f'{{"v": {raw}}}', classad2.ParserType.JSON)
    return repr(ad.lookup("v")) if "v" in ad else None


def mine(ad: ClassAd) -> str:
    return str(dict(zip(ad, ad.expression().expressions, strict=True))["v"])


def normal(printed: str) -> Expr:
    return parse_ad(f"[v = {printed}]").expression()


@pytest.mark.parametrize("raw", STRINGS)
def test_it_is_read_as_the_library_reads_it(raw: str) -> None:
    other = theirs(raw)
    text = f'{{"Name": "n", "v": {raw}}}'
    try:
        ad = parse_ad(text, "json")
    except ValueError:
        assert other is None or "\\)" in raw
        return
    assert other is not None
    assert normal(mine(ad)) is normal(other)
    many = "\n".join(text.replace('"n"', f'"n{each}"') for each in range(20))
    for row in Pool.read(io.StringIO(many), format="json"):
        assert normal(mine(row)) is normal(other)


@pytest.mark.parametrize("raw", STRINGS)
def test_it_is_written_as_the_library_reads_it(raw: str) -> None:
    if theirs(raw) is None or "\\)" in raw:
        return
    ad = parse_ad(f'{{"v": {raw}}}', "json")
    again = classad2.parseOne(dumps(ad, "json"), classad2.ParserType.JSON)
    assert normal(repr(again.lookup("v"))) is normal(mine(ad))
