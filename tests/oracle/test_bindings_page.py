"""The page for those who come from HTCondor's bindings: both columns of its table give the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import matchmaker as mm

# This import sets the semantics of the next one.
pytest.importorskip("htcondor2")
classad2: Any = pytest.importorskip("classad2")

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "bindings.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+?) \| `(.+?)` \| `(.+?)` \|$", PAGE, re.MULTILINE)[1:]
ADS = dict(re.findall(r">>> (\w+) = mm\.parse_ad\('(.+)'\)", PAGE))


def plain(value: Any) -> Any:
    """A result in a form that both sides share."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, (mm.ClassAd, classad2.ClassAd)):
        return sorted((name.lower(), str(each)) for name, each in mm.ClassAd(value).items())
    if isinstance(value, (mm.Expr, classad2.ExprTree)):
        return str(value)
    if isinstance(value, str) and value.startswith("{"):
        return json.loads(value)
    if isinstance(value, str) and "\n" in value:
        return sorted(value.strip().splitlines())
    return value


def test_the_table_is_read() -> None:
    assert len(ROWS) >= 13
    assert set(ADS) == {"job", "slot"}


@pytest.mark.parametrize(("task", "theirs", "ours"), ROWS, ids=[row[0] for row in ROWS])
def test_both_columns_give_the_same(task: str, theirs: str, ours: str) -> None:
    text = "\n".join(ADS.values())
    names = {name: classad2.ClassAd(ad) for name, ad in ADS.items()}
    other = eval(theirs, {"classad2": classad2, "text": text, **names})  # noqa: S307 - our page
    mine = {name: mm.parse_ad(ad) for name, ad in ADS.items()}
    found = eval(ours, {"mm": mm, "text": text, **mine})  # noqa: S307 - our page
    assert plain(found) == plain(other), task


@given(st.text())
def test_a_text_is_quoted_as_the_library_quotes_it(text: str) -> None:
    try:
        other = classad2.quote(text)
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011 - either has its own words
            mm.quote(text)
        return
    assert mm.quote(text) == other
    assert mm.unquote(other) == text


@pytest.mark.parametrize(
    "text",
    ['"a"', ' "a" ', '"a" "b"', '"a\\tb"', '"\\101\\q"', '""', '"a" // c', '"\\303\\251"', '"é"',
     '"a\nb"', "a", "1", "", '"a', '"a" + "b"', '("a")', "'a'", '"\\0"', '"a"b', '"a";'],
)  # fmt: skip
def test_a_quoted_text_is_read_as_the_library_reads_it(text: str) -> None:
    try:
        other = classad2.unquote(text)
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011 - either has its own words
            mm.unquote(text)
        return
    assert mm.unquote(text) == other
