"""Pages of explanations in a real browser: they show what they should, and ask for nothing."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from matchmaker import Pool, parse_ad, parse_ads, read_ads
from matchmaker.pilots.figures import html
from matchmaker.pilots.loads import Load
from matchmaker.pilots.simulation import simulate
from tests.cli.conftest import EXAMPLES, Run, classad
from tests.cli.test_explain import HOSTILE, hostile_files
from tests.services.chromium import show

__all__ = ["classad"]

pytestmark = pytest.mark.service

BLUE, GREEN = (0x3B, 0x82, 0xC4), (0x1A, 0x7F, 0x4B)


def test_the_funnel_is_seen(classad: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    classad("explain", EXAMPLES / "local.ad", EXAMPLES / "nodes.ad", "--html", page)
    shown = show(page)
    assert (shown.console, shown.requests) == ((), ())
    assert "<title>10 of 47 match</title>" in shown.dom
    assert shown.dom.count('<g class="stage">') == 5
    assert shown.dom.count("<polygon") == 4
    assert {BLUE, GREEN} <= shown.colours


def test_one_pair_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    [job] = read_ads(EXAMPLES / "local.ad")
    page.write_text(Pool(read_ads(EXAMPLES / "nodes.ad")).explain(job, "wn023").html(), "utf-8")
    shown = show(page)
    assert (shown.console, shown.requests) == ((), ())
    assert "<title>wn023 matches; the job's rank of it is 900</title>" in shown.dom
    assert len(shown.colours) > 10


def test_policies_side_by_side_are_seen(tmp_path: Path) -> None:
    names = ("dirac", "<script>alert(1)</script> $x_2$ &amp;\u202e")
    load = Load(jobs=50, hours=2)
    reports = [attrs.evolve(simulate(load, "dirac"), policy=name) for name in names]
    page = tmp_path / "page.html"
    page.write_text(html(reports, "Two <policies>"), "utf-8")
    shown = show(page, 1000, 1200)
    assert (shown.console, shown.requests) == ((), ())
    assert "<title>Two &lt;policies&gt;</title>" in shown.dom
    assert not re.search(r"<(script|img|iframe|a|link)\b", shown.dom)
    assert shown.dom.count("&lt;script&gt;alert(1)&lt;/script&gt; $x_2$ &amp;amp;") == 6
    assert {(0x1A, 0x7F, 0x4B), (0xE8, 0xA3, 0x3D)} <= shown.colours


@pytest.mark.parametrize("words", [[], ["--with", HOSTILE]], ids=["pool", "pair"])
def test_hostile_texts_stay_texts(classad: Run, tmp_path: Path, words: list[str]) -> None:
    page = tmp_path / "page.html"
    job, pool = hostile_files(tmp_path)
    assert classad("explain", job, pool, "--html", page, *words).status == 1
    shown = show(page)
    assert (shown.console, shown.requests) == ((), ())
    assert not re.search(r"<(script|img|iframe|a|link)\b", shown.dom)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown.dom


def test_that_a_page_asks_and_complains_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<title>x</title><img src='http://192.0.2.1/x.png'><script>console.error('no')</script>"
    )
    shown = show(page)
    assert shown.requests == ("http://192.0.2.1/x.png",)
    assert any('"no"' in line for line in shown.console)
    assert BLUE not in shown.colours


def test_the_page_forbids_what_it_does_not_need(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    text = Pool(parse_ads('[ Name = "a" ]')).explain(parse_ad("[]")).html()
    bad = "<script>document.title = 'taken'</script><img src='http://192.0.2.1/x.png'>"
    page.write_text(text.replace("</body>", f"{bad}</body>"), "utf-8")
    shown = show(page)
    assert shown.requests == ()
    assert "<title>1 of 1 match</title>" in shown.dom
    assert len(shown.console) >= 2
