"""What a terminal sees: progress for large files, no commands out of ads; and a quick start."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from matchmaker import ClassAd, dumps, parse_ads
from matchmaker.cli import inputs, output
from tests.cli.conftest import COMMAND, EXAMPLES, Run

pytestmark = pytest.mark.slow

pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")

NASTY = "\x1b[35m\x07\x9b2J\r\u202e[bold]x[/bold]"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """One ad, large enough for its reading to show progress."""
    path = tmp_path / "large.json"
    path.write_text(json.dumps({"Name": "a", "s": "x" * inputs.LARGE}))
    return path


def with_terminal(
    words: list[str], *, stdout: bool = False, columns: int = 100
) -> tuple[int, str, str]:
    """Runs the command with a terminal as standard error, or as standard output too.

    Gives the exit status, what the pipe got and what the terminal got.
    """
    keyboard, screen = pty.openpty()
    try:
        process = subprocess.Popen(
            [*COMMAND, *words],
            stdin=subprocess.DEVNULL,
            stdout=screen if stdout else subprocess.PIPE,
            stderr=screen,
            env={**os.environ, "TERM": "xterm", "COLUMNS": str(columns)},
        )
    finally:
        os.close(screen)
    shown = bytearray()
    # Nothing is written to the pipe before the screen has shown all: the page comes at the end.
    while True:
        try:
            data = os.read(keyboard, 4096)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            break
        if not data:
            break
        shown += data
    out, _ = process.communicate()
    os.close(keyboard)
    return process.returncode, (out or b"").decode(), shown.decode()


def test_a_large_file_shows_progress_on_a_terminal(large: Path) -> None:
    status, out, shown = with_terminal(["eval", "Name", "--ad", str(large)])
    assert (status, out) == (0, '"a"\n')
    assert large.name in shown


def test_a_small_file_shows_none(tmp_path: Path) -> None:
    small = tmp_path / "small.ad"
    small.write_text('[ Name = "a" ]')
    status, out, shown = with_terminal(["eval", "Name", "--ad", str(small)])
    assert (status, out, shown) == (0, '"a"\n', "")


def test_without_a_terminal_there_is_no_progress(classad_process: Run, large: Path) -> None:
    done = classad_process("eval", "Name", "--ad", large)
    assert (done.status, done.out, done.err) == (0, '"a"\n', "")


def test_waiting_for_a_job_shows_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sbatch", "squeue", "sacct", "scontrol"):
        (tmp_path / name).write_text("#!/bin/sh\necho no answer >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "job.ad").write_text("[ Requirements = true ]")
    (tmp_path / "ce.ad").write_text('[ CEid = "ce.example.org:short" ]')
    (tmp_path / "job.sh").write_text("#!/bin/sh\n")
    status, out, shown = with_terminal([
        "submit", str(tmp_path / "job.ad"), "--ce", str(tmp_path / "ce.ad"), "--lrms", "slurm",
        "--script", str(tmp_path / "job.sh"), "--ledger", str(tmp_path / "jobs.db"),
        "--key", "run-7", "--wait", "0.5",
    ])  # fmt: skip
    assert status == 0
    assert "unknown" in out
    assert "run-7 is unknown" in shown


@pytest.fixture
def nasty(tmp_path: Path) -> Path:
    """Ads whose every text would steer a terminal."""
    path = tmp_path / "nasty.ad"
    ads = [
        ClassAd({"Name": NASTY + "1", "CEid": NASTY, "Cpus": NASTY, "QueueName": NASTY}),
        ClassAd({"Name": NASTY + "2", "Cpus": 5, "Requirements": NASTY}),
    ]
    path.write_text("\n".join(map(dumps, ads)), "utf-8")
    return path


@pytest.mark.parametrize("terminal", [False, True], ids=["file", "terminal"])
def test_ad_text_does_not_steer_the_terminal(nasty: Path, tmp_path: Path, terminal: bool) -> None:
    job = tmp_path / "job.ad"
    text = _escaped(NASTY)
    job.write_text(
        f'[ Owner = "{text}"; Requirements = other.Cpus is 5 || other.Cpus == "{text}"; Rank = 1 ]',
        "utf-8",
    )
    nodes = ["--nodes", str(nasty), "--lrms", "slurm"]
    for words in (
        ["match", str(job), str(nasty)],
        ["assign", str(job), "--pool", str(nasty)],
        ["nodes", str(job), "--nodes", str(nasty)],
        ["flags", str(job), "--ce", str(nasty), "--queue", NASTY, *nodes],
        ["lint", "-e", f'"{NASTY}" + 1'],
        ["explain", str(job), str(nasty), "--with", f"{NASTY}2"],
        ["eval", "--trace", "Requirements", "--ad", str(job)],
        ["ces", "--ce", str(nasty), "--attrs", "QueueName,Cpus"],
        ["broker", str(job), "--ce", str(nasty)],
        ["explain", str(job), str(nasty)],
        ["eval", "Requirements", "Owner", "--ad", str(job)],
        ["reduce", str(job), "--ce", str(nasty), "--queue", NASTY],
    ):
        if terminal:
            _, out, shown = with_terminal(words, stdout=True)
        else:
            done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False)
            out, shown = done.stdout, done.stderr
        page = (out + shown).replace("\r\n", "\n")
        assert "Traceback" not in page
        for control in ("\x1b[35m", "\x07", "\x9b", "\r", "\u202e"):
            assert control not in page, words
        # Nor is it taken for markup of our own.
        assert "[bold]x[/bold]" in page, words


@pytest.mark.parametrize("to", ["new", "old", "json", "xml"])
def test_converted_ads_do_not_steer_the_terminal(nasty: Path, tmp_path: Path, to: str) -> None:
    """A terminal gets none of it raw; a pipe and a file get every byte."""
    _, _, shown = with_terminal(["convert", str(nasty), "--to", to], stdout=True)
    text = "".join(map(str, shown.replace("\r\n", "\n").split("\n")))
    assert "[bold]x[/bold]" in text
    assert text.isprintable() or to == "xml", text
    assert not {*"\x1b\x07\x9b\r\u202e"} & {*text}
    piped = subprocess.run(
        [*COMMAND, "convert", str(nasty), "--to", to], capture_output=True, check=True
    ).stdout
    subprocess.run([*COMMAND, "convert", str(nasty), str(tmp_path / "out"), "--to", to], check=True)
    assert (tmp_path / "out").read_bytes() == piped
    kept = parse_ads(piped.decode())
    assert [ad.eval("Name") for ad in kept] == [NASTY + "1", NASTY + "2"]
    assert to == "json" or "\u202e" in piped.decode()


def test_a_page_on_a_terminal_does_not_steer_it(nasty: Path, tmp_path: Path) -> None:
    (tmp_path / "job.ad").write_text("[ Requirements = other.Cpus is 5 ]")
    words = ["explain", str(tmp_path / "job.ad"), str(nasty), "--html", "-"]
    _, _, shown = with_terminal(words, stdout=True)
    assert "</html>" in shown
    assert not {*"\x1b\x07\x9b\u202e"} & {*shown}


def test_messages_do_not_steer_the_terminal(tmp_path: Path) -> None:
    name = tmp_path / "\x1b[35m\u202e.ad"
    name.write_text("[ a = ]")
    for words in (["eval", "a", "--ad", str(name)], ["lint", str(name)]):
        _, _, shown = with_terminal(words, stdout=True)
        assert "\u202e" not in shown, words
        assert "\x1b[35m\u202e" not in shown
        assert "?[35m?.ad" in shown


def _escaped(text: str) -> str:
    return dumps(ClassAd({"s": text})).split('"')[1]


def test_json_escapes_control_characters(classad: Run, nasty: Path) -> None:
    done = classad("match", "-", nasty, "--json", stdin="[ Requirements = other.Cpus isnt 5 ]")
    data = json.loads(done.out)
    assert data["chosen"] == NASTY + "1"
    assert "\x1b" not in done.out


def test_a_page_in_a_file_has_a_row_a_line(classad: Run, tmp_path: Path) -> None:
    pool = tmp_path / "pool.ad"
    name = "n" * 500
    pool.write_text(f'[ Name = "{name}"; Cpus = 4 ]')
    done = classad("match", "-", pool, stdin="[ Rank = 1 ]")
    assert any(line.split()[1:2] == [name] for line in done.out.splitlines())


def test_output_in_a_narrow_encoding_is_no_crash(examples: Path, tmp_path: Path) -> None:
    pool = tmp_path / "pool.ad"
    pool.write_text('[ Name = "caf\u00e9 \u2603"; Cpus = 4 ]', "utf-8")
    job = tmp_path / "job.ad"
    job.write_text("[ Rank = 1 ]")
    for words in (
        ["match", str(job), str(pool)],
        ["match", str(job), str(pool), "--json"],
        ["convert", str(pool)],
        ["convert", str(pool), "--to", "json"],
    ):
        done = subprocess.run(
            [*COMMAND, *words], capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
        )  # fmt: skip
        assert "Traceback" not in done.stderr, words
        assert done.returncode in (0, 2)
        if done.returncode == 2:
            assert done.stderr.count("\n") == 1


def loaded(code: str) -> set[str]:
    """The modules that are loaded after some code has run in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stdout.split())


HEAVY = {
    "asyncio", "dask", "lark", "ldap3", "numpy", "prompt_toolkit", "regex", "rich", "sqlalchemy",
    "ssl",
}  # fmt: skip
"""What takes longer to load than the shortest commands take."""


def loaded_by(*words: str) -> set[str]:
    """The modules that are loaded after the command has run."""
    return loaded(
        f"import sys\nfrom matchmaker.cli import main\nsys.argv = ['classad', *{words!r}]\n"
        "try: main()\nexcept SystemExit: pass"
    )


def test_import_of_the_library_loads_nothing_heavy() -> None:
    assert not loaded("import matchmaker") & {"click", "attr", "matchmaker.classad", *HEAVY}


def test_what_asks_for_no_ad_loads_no_language() -> None:
    for words in ([], ["--version"], ["--help"]):
        assert not loaded_by(*words) & {"attr", "matchmaker.classad", *HEAVY}, words


def test_a_value_is_computed_without_formats_tables_and_pools() -> None:
    modules = loaded_by("eval", "1 + 1")
    assert "matchmaker.classad.parser" in modules
    small = {"hashlib", "json", "pathlib", "random", "urllib"}
    assert not modules & {"matchmaker.classad.formats", "matchmaker.glue", *small, *HEAVY}


@pytest.mark.parametrize(
    "name", ["assign", "ces", "convert", "explain", "match", "nodes", "pilots", "submit"]
)
def test_help_of_what_may_need_no_pool_loads_none(name: str) -> None:
    assert not loaded_by(name, "--help") & {"ldap3", "matchmaker.matching.pool", "numpy"}


def test_matching_loads_no_command_and_no_ldap() -> None:
    modules = loaded(
        "import matchmaker as mm; mm.match(mm.parse_ad('[a = 1 + 2]'), mm.parse_ad('[b = 2]'))"
    )
    assert not modules & {"ldap3", "click", "rich", "matchmaker.glue", "matchmaker.cli"}


def test_a_subcommand_loads_no_other() -> None:
    modules = loaded_by("convert", "--help")
    assert "matchmaker.cli.commands.convert" in modules
    assert not {m for m in modules if m.startswith("matchmaker.cli.")} & {
        f"matchmaker.cli.commands.{name}" for name in ("broker", "flags", "match")
    }  # fmt: skip
    assert "ldap3" not in modules


def test_words_stay_whole_where_the_terminal_is_narrow(examples: Path) -> None:
    _, _, shown = with_terminal(["ces", "--ldif", str(examples / "site.ldif")], stdout=True)
    assert len(re.findall(r'"slurm" +"Production"', shown)) == 5


_CELLS = st.lists(
    st.sampled_from(
        ["", "a", "\u65e5\u672c", "e\u0301\u0301", "x" * 50, "a\tb", "a\nb", "a  b ", " a",
         "[bold]x[/]", "\u200bz", "\U0001f44d\U0001f3fd", "-" * 130]
    ), min_size=3, max_size=3,
)  # fmt: skip


@given(rows=st.lists(_CELLS, max_size=5), right=st.sets(st.integers(0, 2)))
def test_a_table_in_a_file_is_the_one_on_a_terminal_that_is_wide(
    rows: list[list[str]], right: set[int]
) -> None:
    made = output.table(["name", "state of it", "\u65e5"], rows, right=tuple(right), whole=(0,))
    wide = Console(file=io.StringIO(), width=1000, markup=False, highlight=False, emoji=False)
    with wide.capture() as captured:
        wide.print(made)
    expected = [line.rstrip() for line in captured.get().splitlines()]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        output.show(made)
    assert said.getvalue() == "\n".join(expected) + "\n"


@pytest.mark.parametrize("width", [80, 100])
def test_a_terminal_has_each_reason_of_refusals_once(width: int) -> None:
    words = ["broker", str(EXAMPLES / "job.jdl"), "--ldif", str(EXAMPLES / "site.ldif")]
    _, _, shown = with_terminal(words, stdout=True, columns=width)
    lines = [line.rstrip() for line in re.sub("\x1b\\[[0-9;]*m", "", shown).splitlines()]
    assert max(map(len, lines)) <= width
    heads = [line for line in lines if re.match(r"\d+ refused|the job is refused", line)]
    assert [re.findall(r"\d+", line)[0] for line in heads] == ["5", "4", "3", "2", "1"]
    place = lines.index("the job is refused by 4: no rule of access covers the job")
    # What all of them have in common is said once, and what differs behind each name.
    found = lines[place : lines.index("", place)]
    assert sum("FQAN = undefined" in line for line in found) == 1
    names = [line for line in found if line.startswith("  ce")]
    assert len(names) == sum("GlueCEAccessControlBaseRule" in line for line in found) == 4
    # Refusals by two states are two facts of one reason.
    assert any("grid3000M" in line for line in lines)
    assert sum('GlueCEStateStatus == "Production" is false' in line for line in lines) == 1


def test_of_many_that_are_refused_alike_a_terminal_names_some(tmp_path: Path) -> None:
    path = tmp_path / "queues.ad"
    path.write_text("".join(f'[ GlueCEUniqueID = "ce{n:02}"; Cpus = 1 ]' for n in range(30)))
    job = tmp_path / "job.ad"
    job.write_text("[ Requirements = other.Cpus > 1 ]")
    _, _, shown = with_terminal(["broker", str(job), "--ce", str(path)], stdout=True, columns=80)
    lines = [line.rstrip() for line in re.sub("\x1b\\[[0-9;]*m", "", shown).splitlines()]
    place = lines.index("30 refused by the job: other.Cpus > 1 is false")
    assert lines[place + 1 : place + 11] == [
        "    Cpus = 1", *(f"  ce0{n}" for n in range(8)), "  and 22 more: --json names all",
    ]  # fmt: skip
