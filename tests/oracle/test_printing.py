"""What we print is read by HTCondor as what was meant: its own print reads back as the same."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given

from matchmaker import Expr, parse_expr
from matchmaker.classad.nodes import AdExpr, Literal
from matchmaker.classad.walks import postorder
from tests.strategies import expressions

pytestmark = pytest.mark.oracle

_REAL = re.compile(r"\d+\.\d+(?:e[-+]\d+)?|\d+e[-+]\d+")


@pytest.fixture(scope="module")
def classad2() -> Any:
    """The bindings, with the semantics that their users see."""
    pytest.importorskip("htcondor2")
    return pytest.importorskip("classad2")


def shown(expression: Expr) -> str:
    """The text, reals with the digits that HTCondor prints."""
    return _REAL.sub(lambda found: f"{float(found[0]):.13g}", str(expression))


@given(expressions())
def test_htcondor_reads_what_we_print(classad2: Any, expression: Expr) -> None:
    # Its own parser goes less deep, its times have whole seconds, and it prints a name in quotes
    # without them, where it is selected.
    assume(expression.depth < 40 and "'" not in str(expression))
    for node in postorder(expression):
        value = node.value if isinstance(node, Literal) else None
        assume(not isinstance(value, (datetime, timedelta)))
        # The attributes of an ad come back in another order.
        assume(not isinstance(node, AdExpr) or len(node.names) < 2)
    theirs = classad2.ExprTree(f"{expression}\n")
    assert shown(parse_expr(str(theirs))) == shown(expression)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("WantGPU == TotalGPUs > 0", "WantGPU == (TotalGPUs > 0)"),
        ("a < b < c", "(a < b) < c"),
        ("a & b == c | d ^ e", "(a & (b == c)) | (d ^ e)"),
        ("a << b > c >> d", "(a << b) > (c >> d)"),
        ("a & b & c", "a & b & c"),
        ("a is b && c isnt d", "a =?= b && c =!= d"),
    ],
)
def test_parentheses_where_precedence_surprises(classad2: Any, text: str, printed: str) -> None:
    assert str(parse_expr(text)) == printed
    assert parse_expr(str(classad2.ExprTree(printed))) is parse_expr(text)
