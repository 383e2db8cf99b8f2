"""``classad explain``: for people, as data, as a page, and one pair."""

from __future__ import annotations

import json
import os
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from matchmaker import ClassAd, dumps
from matchmaker.cli import output
from matchmaker.cli.commands import explain as explain_
from tests.cli.conftest import COMMAND, EXAMPLES, Run
from tests.cli.test_terminal import NASTY, loaded, with_terminal

pytestmark = pytest.mark.slow

JOB = """[ Owner = "ben"; RequestMemory = 8192;
  Requirements = other.Cpus >= 4 && other.Memory >= RequestMemory ]"""
POOL = """
[ Name = "a"; Cpus = 4; Memory = 4096 ]
[ Name = "b"; Cpus = 16; Memory = 6144 ]
[ Name = "c"; Cpus = 1; Memory = 8192 ]
[ Name = "d"; Cpus = 8; Memory = 9000; Requirements = START; START = other.Owner == "ana" ]
"""


def test_the_page_for_people(classad: Run, pool: Path) -> None:
    done = classad("explain", "-", pool, stdin=JOB)
    assert (done.status, done.err) == (1, "")
    assert done.out.splitlines() == [
        "   alone  so far  near misses                   clause",
        "1      3       3            1  ███████████████  other.Cpus >= 4",
        "2      2       1            2  █████            other.Memory >= RequestMemory",
        "0 of 4 match; 1 satisfy it, but refuse the job",
        "",
        "every slot that satisfies clauses 1 and 2 refuses the job",
        "",
        "RequestMemory 8192 -> 4096 gains 2 slots",
        "dropping clause 2, other.Memory >= RequestMemory, gains 2 slots",
        "other.Cpus >= 4 -> 1 gains 1 slot",
        "RequestMemory 8192 -> 6144 gains 1 slot",
        "",
        "held by  refuses  suitable         clause of the slots",
        '      1        1         1  █████  START: other.Owner == "ana"',
    ]


def test_as_data(classad: Run, pool: Path) -> None:
    done = classad("explain", "-", pool, "--json", stdin=JOB)
    assert (done.status, done.err) == (1, "")
    data = json.loads(done.out)
    assert (data["total"], data["matched"], data["refused_by_ads"]) == (4, 0, 1)
    assert data["clauses"][1] == {
        "text": "other.Memory >= RequestMemory", "via": [], "matched": 2, "cumulative": 1,
        "near": 2, "false": 2, "undefined": 0, "error": 0,
    }  # fmt: skip
    assert (data["error"], data["notes"]) == (None, [])
    assert data["conflicts"] == [{"clauses": [1, 2], "ads": True}]
    assert data["suggestions"][0] == {
        "text": "RequestMemory 8192 -> 4096 gains 2 slots", "what": "RequestMemory",
        "before": "8192", "after": "4096", "gain": 2, "matched": 2,
        "free": None, "sooner": 0,
    }  # fmt: skip
    assert data["suggestions"][1]["after"] is None
    assert data["ad_clauses"] == [
        {
            "text": 'other.Owner == "ana"',
            "via": ["START"],
            "held": 1,
            "refused": 1,
            "suitable": 1,
            "lumped": False,
        }
    ]


def test_a_side_that_requires_nothing_says_so(classad: Run, tmp_path: Path) -> None:
    path = tmp_path / "pool"
    path.write_text('[ Name = "a" ]')
    done = classad("explain", "-", path, "--with", "a", stdin="[ Owner = 1 ]")
    assert done.out.split("\n\n")[1:] == ["the job requires nothing", "the slot requires nothing\n"]


def test_one_pair(classad: Run, pool: Path) -> None:
    done = classad("explain", "-", pool, "--with", "d", stdin=JOB)
    assert (done.status, done.err) == (1, "")
    lines = [re.sub(" {2,}", "  ", line.strip()) for line in done.out.splitlines()]
    assert lines == [
        "d refuses the job",
        "",
        "is  the job requires  with",
        "1  true  other.Cpus >= 4  Cpus = 8",
        "2  true  other.Memory >= RequestMemory  Memory = 9000, RequestMemory = 8192",
        "",
        "is  the slot requires  with",
        '1  false  START: other.Owner == "ana"  Owner = "ben"',
    ]
    data = json.loads(classad("explain", "-", pool, "--with", "d", "--json", stdin=JOB).out)
    assert (data["key"], data["matched"], data["rank"]) == ("d", False, None)
    assert data["ad_clauses"] == [
        {"number": "1", "clause": "START", "definition": 'other.Owner == "ana"',
         "value": False, "facts": {"Owner": "ben"}, "more_facts": 0,
         "element": None, "short": None}
    ]  # fmt: skip
    assert classad("explain", "-", pool, "--with", "d", stdin='[ Owner = "ana" ]').status == 0


def test_a_name_that_no_ad_has_and_one_of_the_jobs_own(classad: Run, pool: Path) -> None:
    job = "[ Requirements = Fits; Fits = other.Cpus >= 4 && other.Memroy > 1 ]"
    done = classad("explain", "-", pool, stdin=job)
    note = "no slot has Memroy (clause 2); did you mean Memory?"
    assert done.out.splitlines()[:5] == [
        "   alone  so far  near misses  undefined                   clause",
        "1      3       3            0          0  ███████████████  Fits: other.Cpus >= 4",
        "2      0       0            2          4                   Fits: other.Memroy > 1",
        "0 of 4 match",
        "",
    ]
    assert note in done.out.splitlines()
    data = json.loads(classad("explain", "-", pool, "--json", stdin=job).out)
    assert data["notes"] == [note]
    assert data["clauses"][1]["via"] == ["Fits"]
    assert [data["clauses"][1][fate] for fate in ("false", "undefined", "error")] == [0, 4, 0]
    page = classad("explain", "-", pool, "--html", "-", stdin=job).out
    assert note in page
    assert '<th class="n">undefined</th>' in page


def test_a_page_is_in_utf_8_whatever_the_terminal_has(pool: Path) -> None:
    job = '[ Requirements = other.Name != "Zürich" && other.Cpus > 99 ]'
    done = subprocess.run(
        [*COMMAND, "explain", "-", str(pool), "--html", "-"], input=job.encode(),
        capture_output=True, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, b"")
    assert "Zürich" in done.stdout.decode()


def test_status_is_zero_where_something_matches(classad: Run, pool: Path) -> None:
    assert classad("explain", "-", pool, stdin="[ Requirements = other.Cpus > 8 ]").status == 0


def test_by_another_key(classad: Run, tmp_path: Path) -> None:
    pool = tmp_path / "pool.ad"
    pool.write_text("[ Id = 7 ] [ Id = 8 ]")
    job = "[ Requirements = other.Id > 7 ]"
    done = classad("explain", "-", pool, "--key", "Id", stdin=job)
    assert done.status == 0
    assert "1 of 2 match" in done.out.splitlines()
    done = classad("explain", "-", pool, "--key", "Id", "--with", "7", stdin=job)
    assert done.out.splitlines()[0] == "the job refuses 7"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--with", "nobody"], "no ad of the pool has Name = nobody"),
        (["--key", "Memory"], "no Memory"),
        (["--html", "nowhere/page.html"], "nowhere/page.html: No such file"),
        (["--html", "-", "--json"], "standard output"),
        (["--html", ""], "--html names no file"),
        (["--key", ""], "--key names no attribute"),
    ],
)
def test_bad_input(classad: Run, tmp_path: Path, words: list[str], said: str) -> None:
    pool = tmp_path / "pool.ad"
    pool.write_text('[ Name = "a" ]')
    done = classad("explain", "-", pool, *words, stdin=JOB)
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_terminal_gets_a_table_with_bars_in_its_width(pool: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.ad"
    job.write_text(JOB.replace("other.Cpus >= 4", f"{' + '.join(['other.Cpus'] * 20)} >= 80"))
    status, _, shown = with_terminal(["explain", str(job), str(pool)], stdout=True)
    assert status == 1
    assert "█████" in shown
    assert all(len(line) <= 100 for line in re.sub("\x1b\\[[0-9;]*m", "", shown).splitlines())


def test_bars_of_few_of_many_and_in_a_narrow_encoding(pool: Path) -> None:
    assert explain_.bar(1, 1_000_000) == "▏"
    assert explain_.bar(0, 0) == ""
    assert explain_.bar(7, 7) == "█" * explain_.BAR
    assert explain_.bar(1, 1_000_000, "ascii") == "#"
    done = subprocess.run(
        [*COMMAND, "explain", "-", str(pool)], input=JOB, capture_output=True, text=True,
        check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    assert "###############  other.Cpus >= 4" in done.stdout


def test_only_what_it_takes_is_loaded() -> None:
    modules = loaded(
        "import sys\nfrom matchmaker.cli import main\n"
        f"sys.argv = ['classad', 'explain', {str(EXAMPLES / 'local.ad')!r},"
        f" {str(EXAMPLES / 'nodes.ad')!r}]\n"
        "try: main()\nexcept SystemExit: pass"
    )
    assert "matchmaker.matching.explanation.suggestions" in modules
    assert not modules & {
        "ldap3", "matchmaker.glue", "matchmaker.batch", "matchmaker.broker", "asyncio",
        "matchmaker.matching.page",
    }  # fmt: skip


# --- the page -------------------------------------------------------------------------------------


class Seen(HTMLParser):
    """The tags of a page, and its texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


HOSTILE = (
    '</code></svg></style><script>alert(1)</script><img src=x onerror="alert(2)">\'&lt;' + NASTY
)


def hostile_files(folder: Path) -> tuple[Path, Path]:
    """A job and a pool in which every text is markup."""
    text = dumps(ClassAd({"s": HOSTILE})).split(" = ", 1)[1].rsplit("]", 1)[0].rstrip(" ;\n")
    name = "'" + text[1:-1].replace("'", "\\'") + "'"
    job, pool = folder / "job.ad", folder / "pool.ad"
    job.write_text(
        f"[ {name} = {text}; Want = 8; Requirements = other.Os == {text}"
        f" && other.{name} == MY.{name} && other.Memory >= Want ]",
        "utf-8",
    )
    pool.write_text(
        f"[ Name = {text}; Os = {text}; {name} = {text}; Memory = 4; START = TARGET.x == {text};"
        f" Requirements = START && TARGET.{name} isnt {text} ]"
        f"[ Name = 2; Os = {text}; {name} = {text}; Memory = 4 ]",
        "utf-8",
    )
    return job, pool


@pytest.mark.parametrize("one", [False, True], ids=["pool", "pair"])
def test_a_page_of_its_own_with_nothing_of_the_ads_in_its_markup(
    classad: Run, tmp_path: Path, one: bool
) -> None:
    job, pool = hostile_files(tmp_path)
    page = tmp_path / "page.html"
    words = ["--with", HOSTILE] if one else []
    done = classad("explain", job, pool, "--html", page, *words)
    assert (done.status, done.out, done.err) == (1, "", "")
    text = page.read_text("utf-8")
    seen = Seen(text)
    assert {tag for tag, _ in seen.tags} <= {
        "html", "head", "meta", "title", "style", "body", "div", "h1", "h2", "ol", "i", "b",
        "table", "thead", "tbody", "tr", "th", "td", "code", "span", "ul",
        "li", "p", "br",
    }  # fmt: skip
    for tag, attributes in seen.tags:
        assert not any(name.startswith("on") for name in attributes), tag
        assert not attributes.keys() & {"src", "href", "xlink:href", "action"}, tag
    assert "url(" not in text
    assert "@import" not in text
    # The texts are there, as texts.
    assert any("<script>alert(1)</script>" in one for one in seen.texts)
    assert not set(text) & {"\x1b", "\x07", "\x9b", "\r", "\u202e"}


def test_a_page_has_what_the_text_has(classad: Run, pool: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    classad("explain", "-", pool, "--html", page, stdin=JOB)
    seen = Seen(page.read_text("utf-8"))
    texts = " ".join(seen.texts)
    for words in classad("explain", "-", pool, stdin=JOB).out.splitlines()[3:10]:
        assert words in texts
    assert sum(a.get("class") == "stage" for _, a in seen.tags) == 4
    widths = [a["style"] for tag, a in seen.tags if tag == "i"]
    assert widths == ["width: 100.0%", "width: 75.0%", "width: 25.0%", "width: 0.0%"]


def test_a_page_to_standard_output(classad: Run, pool: Path) -> None:
    assert classad("explain", "-", pool, "--html", "-", stdin=JOB).out.startswith("<!DOCTYPE html>")


def test_a_page_is_there_as_a_whole_or_not_at_all(
    classad: Run, pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.html"
    page.write_text("as it was")
    before = sorted(tmp_path.iterdir())

    class Full:
        def write(self, text: str) -> None:
            raise OSError(28, "No space left on device")

    from contextlib import contextmanager

    from matchmaker._files import replacing

    @contextmanager
    def full(path: str):  # type: ignore[no-untyped-def]
        with replacing(path) as file:
            file.write("<!DOC")
            yield Full()

    monkeypatch.setattr(explain_, "replacing", full)
    done = classad("explain", "-", pool, "--html", page, stdin=JOB)
    assert (done.status, done.out) == (2, "")
    assert "No space left" in done.err
    assert page.read_text() == "as it was"
    assert sorted(tmp_path.iterdir()) == before


def test_of_many_clauses_the_picture_shows_those_that_exclude_something(
    classad: Run, pool: Path
) -> None:
    clauses = " && ".join(f"other.Cpus > {-n}" for n in range(60)) + " && other.Cpus > 4"
    done = classad("explain", "-", pool, "--html", "-", stdin=f"[ Requirements = {clauses} ]")
    assert sum(a.get("class") == "stage" for _, a in Seen(done.out).tags) == 3


@pytest.mark.parametrize("width", [100, 80, 60])
def test_a_terminal_of_any_width_has_counts_in_line(
    width: int,
) -> None:
    words = ["explain", str(EXAMPLES / "local.ad"), str(EXAMPLES / "nodes.ad")]
    _, _, shown = with_terminal(words, stdout=True, columns=width)
    lines = re.sub("\x1b\\[[0-9;]*m", "", shown).splitlines()
    assert max(map(len, lines)) <= width
    head = lines[0].split("clause")[0].rstrip()
    ends = [match.end() for match in re.finditer("alone|so far|near misses|undefined|error", head)]
    assert len(ends) == 5
    counts = [[33, 33, 0, 0, 0], [16, 16, 17, 3, 2], [41, 10, 6, 0, 0]]
    rows = [line for line in lines[1:12] if re.match(r"[123] ", line)]
    # Each number ends below its title.
    assert [[int(row[:end].split()[-1]) for end in ends] for row in rows] == counts
    assert sum("█" in line for line in rows) == 3
    # A clause is broken before an operator.
    text = " ".join(line[max(ends) :].strip(" █▏▎▍▌▋▊▉") for line in lines[1:9])
    whole = [line.strip() for line in lines]
    if width < 100:
        assert "TARGET.GlueHostBenchmarkSI00 > 800" in whole
        assert any(line.endswith("MY.RequestMemory") for line in whole)
    else:
        assert "TARGET.GlueHostBenchmarkSI00 > 800" in text


def test_clauses_wrap_at_operators() -> None:
    text = "(TARGET.A > 1 || TARGET.B isnt undefined) && member(TARGET.C, {1, 2}) && x =?= y"
    assert output.wrapped(text, 44) == [
        "(TARGET.A > 1 || TARGET.B isnt undefined)", "&& member(TARGET.C, {1, 2}) && x =?= y",
    ]  # fmt: skip
    assert all(len(line) <= 10 for line in output.wrapped(text, 10))
    assert "".join(output.wrapped(text, 10)).replace(" ", "") == text.replace(" ", "")


GPUS = """
[ Name = "a"; AvailableGPUs = { [ Id = "t4"; Capability=7.5 ], [ Id = "<b>"; Capability = 6.0 ] } ]
[ Name = "b"; AvailableGPUs = { [ Id = "p100"; Capability = 6.0 ] } ]
"""
WANTS = """[ RequestGPUs = 1; RequireGPUs = Capability >= 8.0; Requirements =
  countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= MY.RequestGPUs ]"""


def test_gpus_are_explained_one_by_one(classad: Run, tmp_path: Path) -> None:
    pool = tmp_path / "gpus.ad"
    pool.write_text(GPUS)
    said = "clause 1 refuses 2 slots: 0 of their 3 elements of TARGET.AvailableGPUs satisfy"
    done = classad("explain", "-", pool, stdin=WANTS)
    assert said in done.out
    assert "Capability >= 8.0 (nearest: Capability = 7.5, 0.5 too low)" in done.out
    [data] = json.loads(classad("explain", "-", pool, "--json", stdin=WANTS).out)["elements"]
    assert (data["elements"], data["satisfying"], data["holder"]) == (3, 0, "RequireGPUs")
    page = classad("explain", "-", pool, "--html", "-", stdin=WANTS).out
    assert f"<h2>{said} RequireGPUs</h2>" in page
    pair = classad("explain", "-", pool, "--with", "a", stdin=WANTS).out
    assert "t4: Capability >= 8.0" in pair
    assert "Capability = 7.5, 0.5 too low" in pair
    found = json.loads(classad("explain", "-", pool, "--with", "a", "--json", stdin=WANTS).out)
    assert [(one["number"], one["element"], one["short"]) for one in found["job_clauses"]] == [
        ("1", None, None), ("1.1", "t4", "0.5 too low"), ("1.2", "<b>", "2 too low"),
    ]  # fmt: skip
    page = classad("explain", "-", pool, "--with", "a", "--html", "-", stdin=WANTS).out
    assert "<code>&lt;b&gt;</code>: <code>Capability &gt;= 8.0</code>" in page


def test_never_is_told_from_later(classad: Run, tmp_path: Path) -> None:
    pool = tmp_path / "machines.ad"
    pool.write_text("".join(
        f'[ Name = "m{n}"; PartitionableSlot = true; State = "Unclaimed"; Cpus = 2;'
        f" TotalSlotCpus = {cpus} ]" for n, cpus in enumerate((64, 8))
    ))  # fmt: skip
    job = "[ RequestCpus = 16; Requirements = TARGET.Cpus >= RequestCpus ]"
    lines = classad("explain", "-", pool, stdin=job).out.splitlines()
    assert "0 free now, 1 when their jobs end, 1 never" in lines
    assert "when their jobs end: RequestCpus 16 -> 8 gains 1 slot" in lines
    data = json.loads(classad("explain", "-", pool, "--json", stdin=job).out)
    assert [data["later"][name] for name in ("now", "later", "never")] == [0, 1, 1]
    assert data["suggestions"][0]["sooner"] == 1
    page = classad("explain", "-", pool, "--html", "-", stdin=job).out
    assert "<li>0 free now, 1 when their jobs end, 1 never</li>" in page
