"""Pages of explanations in a real browser: they show what they should, and ask for nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import escape, unescape
from pathlib import Path
from typing import Any

import attrs
import pytest

from matchmaker import Pool, parse_ad, parse_ads, read_ads
from matchmaker.pilots.simulation.report import html
from matchmaker.pilots.simulation.simulation import simulate
from matchmaker.pilots.simulation.workload import Load
from tests.cli.conftest import EXAMPLES, Run, classad
from tests.cli.test_explain import HOSTILE, hostile_files
from tests.services.chromium import show

__all__ = ["classad"]

pytestmark = pytest.mark.service

BLUE, GREEN = (0x3B, 0x82, 0xC4), (0x1A, 0x7F, 0x4B)


def test_the_funnel_is_seen(classad: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    classad("explain", EXAMPLES / "local.ad", EXAMPLES / "nodes.ad", "--html", page)
    shown = show(page, 900, 500)
    assert (shown.console, shown.requests) == ((), ())
    assert "<title>10 of 47 match: job local.ad, pool nodes.ad, 20" in shown.dom
    assert shown.dom.count('<li class="stage"') == 5
    assert {BLUE, GREEN} <= shown.colours


def test_one_pair_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    [job] = read_ads(EXAMPLES / "local.ad")
    page.write_text(
        Pool(read_ads(EXAMPLES / "nodes.ad")).explain_pair(job, "wn023").html(), "utf-8"
    )
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


# --- how it is laid out ---------------------------------------------------------------------------

WIDTHS = (1280, 768, 390)

BROKEN = """<script>
const broken = [];
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  if (["STYLE", "SCRIPT"].includes(texts.currentNode.parentNode.tagName)) continue;
  for (const word of texts.currentNode.data.matchAll(/\\S+/g)) {
    const range = document.createRange();
    range.setStart(texts.currentNode, word.index);
    range.setEnd(texts.currentNode, word.index + word[0].length);
    const tops = new Set(Array.from(range.getClientRects(), (box) => Math.round(box.top)));
    if (tops.size > 1) broken.push(word[0]);
  }
}
const found = document.createElement("code");
found.className = "measured";
found.textContent = JSON.stringify([innerWidth, broken]);
parent.document.body.append(found);
</script>"""

FIRST = """<script>
const found = document.createElement("code");
found.className = "measured";
found.textContent = JSON.stringify(Array.from(document.querySelectorAll("h2, .funnel, table"))
  .filter((one) => one.getBoundingClientRect().height)
  .sort((one, two) => one.getBoundingClientRect().top - two.getBoundingClientRect().top)
  .map((one) => one.textContent)[0]);
parent.document.body.append(found);
</script>"""

MEASURE = """<script>
const wide = document.documentElement.clientWidth, out = [];
for (const one of document.querySelectorAll("body *")) {
  const box = one.getBoundingClientRect();
  if (box.width && (box.right > wide + 0.5 || box.left < -0.5)) out.push(one.tagName);
}
const shown = (one) => getComputedStyle(document.querySelector(one)).display;
const found = document.createElement("code");
found.className = "measured";
found.textContent = JSON.stringify([
  innerWidth, matchMedia("(prefers-color-scheme: dark)").matches, out,
  document.documentElement.scrollWidth > wide, shown("thead"),
  parseFloat(getComputedStyle(document.querySelector(".stage, td")).fontSize),
]);
parent.document.body.append(found);
</script>"""

LONG = "A" * 300


Layout = tuple[int, bool, list[str], bool, str, float]
"""Of a page: width, whether dark, what stands beyond the edge, whether it scrolls sideways, how its
tables are headed, and the size of its text."""


def laid_out(
    texts: Iterable[str], folder: Path, widths: Iterable[int], script: str = MEASURE
) -> list[Any]:
    """Measures pages in frames of some widths, light and dark, with a script.

    The rules of a page forbid every script, so they are taken away here.
    """
    frames = "".join(
        f'<iframe style="width: {width}px; height: 900px; border: 0; color-scheme: {scheme}"'
        f' srcdoc="{escape(text)}"></iframe>'
        for text in (
            re.sub(r"<meta http-equiv[^>]*>", "", text).replace("</body>", f"{script}</body>")
            for text in texts
        )
        for width in widths
        for scheme in ("light", "dark")
    )
    page = folder / "measured.html"
    page.write_text(f'<meta charset="utf-8"><body style="margin: 0">{frames}', "utf-8")
    found = re.findall('<code class="measured">(.*?)</code>', show(page, 1400, 900).dom)
    return [json.loads(unescape(one)) for one in found]


def pages() -> dict[str, str]:
    """A page of each kind, with names and clauses that no line holds."""
    slots = [
        f'[ Name = "s{n}"; Cpus = {n}; State = "{state}"; {LONG} = 1; Requirements = TARGET.X{n} ]'
        for n, state in enumerate(("Unclaimed", "Claimed", "Owner", "Drained") * 3)
    ]
    pool = Pool(parse_ads("".join(slots)))
    job = parse_ad(
        f"[ X3 = true; X2 = true; X1 = true; X0 = true; Requirements = TARGET.Cpus >= 1"
        f" && TARGET.{LONG} == 1 && {' + '.join(['TARGET.Cpus'] * 60)} > 3 ]"
    )
    of = f"job 12.0, pool {LONG}.ad, 2026-11-23 01:46 UTC"
    return {"pool": pool.explain(job).html(of), "pair": pool.explain_pair(job, "s2").html(of)}


def test_nothing_stands_beyond_the_edge(tmp_path: Path) -> None:
    found = laid_out(pages().values(), tmp_path, WIDTHS)
    # Cards stand in place of a table where it has no room.
    wanted: list[Layout] = [
        (width, dark, [], False, "none" if width < 600 else "table-header-group", 14)
        for _ in pages()
        for width in WIDTHS
        for dark in (False, True)
    ]
    assert sorted(map(tuple, found), key=str) == sorted(wanted, key=str)


def test_no_word_is_broken_where_there_is_room(tmp_path: Path) -> None:
    names = ("GlueHostApplicationSoftwareRunTimeEnvironment", "GlueHostMainMemoryVirtualSize")
    job = parse_ad(
        f"[ Requirements = TARGET.Cpus > 1 && TARGET.{names[1]} > MY.{names[0]} && member("
        f'"GLITE_1_2", TARGET.{names[0]}) && TARGET.Missing > 1 && TARGET.Cpus > "1" ]'
    )
    slots = f'[ Name = "slot1@wn1.example.org"; Cpus = 2; {names[0]} = {{"GLITE_1_2", "LCG-2"}} ]'
    pool = Pool(parse_ads(slots + slots.replace("wn1", "wn2")))
    texts = [
        pool.explain(job).html(), pool.explain_pair(job, "slot1@wn1.example.org").html(),
    ]  # fmt: skip
    found = laid_out(texts, tmp_path, [1280, 390], BROKEN)
    # Two pages, light and dark; on a phone some words take two lines. Frames load in any order.
    wanted = [[width, width == 390] for width in (390, 1280) for _ in range(4)]
    assert sorted([width, bool(broken)] for width, broken in found) == wanted


def test_what_would_help_comes_first_on_a_phone(classad: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    texts = []
    for words in (["--job", "13.0"], []):
        classad("explain", EXAMPLES / "queue.ad", EXAMPLES / "slots.ad", "--html", page, *words)
        texts.append(page.read_text("utf-8"))
    assert laid_out(texts, tmp_path, [390], FIRST) == ["What would help"] * 4


def test_the_page_of_a_queue_has_every_job(classad: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = classad("explain", EXAMPLES / "queue.ad", EXAMPLES / "slots.ad", "--html", page)
    assert (done.status, done.out) == (1, "")
    shown = show(page, 1280, 900)
    assert (shown.console, shown.requests) == ((), ())
    assert "<title>5 jobs in 3 autoclusters, the worst first: jobs queue.ad, pool" in shown.dom
    titles = re.findall("<summary>(.*?)</summary>", shown.dom)
    assert titles == [
        "1 job, 13.0: 0 of 10 match", "1 job, 14.0: 0 of 10 match",
        "3 jobs, 12.0, 12.1, 12.2: 10 of 10 match, 4 of them free now",
    ]  # fmt: skip
    assert shown.dom.count("<details open") == 1


def test_what_stands_beyond_the_edge_would_be_seen(tmp_path: Path) -> None:
    text = pages()["pool"].replace("</h1>", '</h1><pre style="width: 70em">x</pre>')
    for found in laid_out([text], tmp_path, [390]):
        assert found[2:4] == [["PRE"], True]
