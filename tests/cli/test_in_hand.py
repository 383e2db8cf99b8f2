"""The command in a person's hands: pipes, slips of the keyboard, colours, a first look."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, EXAMPLES, Run
from tests.cli.outputs import subcommands
from tests.cli.test_terminal import with_terminal

MANY = "".join(f'[ Name = "n{number}"; Cpus = {number % 9} ]\n' for number in range(20_000))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ads") / "many.ads"
    path.write_text(MANY)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("convert", "{many}", "--to", "old"),
        ("match", "{job}", "{many}"),
        ("match", "{job}", "{many}", "--json"),
        ("assign", "{many}", "--pool", "{many}"),
        ("eval", "--ad", "{many}", "Cpus + 1"),
        ("lint", "{bad}"),
        ("--help",),
        (),
    ],
)
def test_a_reader_that_goes_away_is_no_failure(
    words: tuple[str, ...], many: Path, tmp_path: Path
) -> None:
    files = {"many": many, "job": tmp_path / "job.ad", "bad": tmp_path / "bad.ad"}
    files["job"].write_text("[ Requirements = TARGET.Cpus > 1 ]")
    files["bad"].write_text("[ " + "Requirements = Cpsu > 1; " * 400 + "]")
    for read in (0, 60):
        with subprocess.Popen(
            [*COMMAND, *(word.format(**files) for word in words)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.read(read)
            process.stdout.close()
            said = process.stderr.read()
        # What a pipe takes at once may be written before the reader goes: lint then ends with 1.
        assert (process.returncode, said) in {(0, b""), (int("lint" in words), b"")}


FORKING = """
# A process for each line of words: standard output is a pipe that nobody reads, or is closed.
import os, sys
import matchmaker.cli
for line in sys.stdin.read().splitlines():
    how, *words = line.split(" ")
    if (child := os.fork()) == 0:
        if how == "closed":
            sys.stdout = None
            os.close(1)
        else:
            reading, writing = os.pipe()
            os.close(reading)
            os.dup2(writing, 1)
            os.close(writing)
        sys.argv = ["classad", *words]
        matchmaker.cli.main()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), line, flush=True)
"""


def test_no_subcommand_minds_that_nobody_reads_its_help() -> None:
    names = [name for name, _ in subcommands()]
    # In turn: the two ways end in the same code, and each line loads a subcommand.
    lines = [f"{('pipe', 'closed')[at % 2]} {name} --help" for at, name in enumerate(names)]
    done = subprocess.run(
        [sys.executable, "-c", FORKING], input="\n".join(lines), check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    wanted = {"pipe": 0, "closed": 2}
    assert done.stdout.splitlines() == [f"{wanted[line.split()[0]]} {line}" for line in lines]
    assert set(done.stderr.splitlines()) == {"classad: standard output is closed"}


def test_another_connection_that_breaks_off_is_no_reader_that_went_away() -> None:
    program = """
import matchmaker.cli, matchmaker.cli.commands.eval as module, click, sys
@click.command
def eval_command(): raise BrokenPipeError(32, "Broken pipe")
module.eval_command = eval_command
sys.argv = ["classad", "eval"]
matchmaker.cli.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "classad: a connection broke off; try again\n"


@pytest.mark.parametrize(
    ("word", "meant"), [("exlain", "explain"), ("mach", "match"), ("Broker", "broker")]
)
def test_a_slip_in_a_subcommand_is_mended(classad: Run, word: str, meant: str) -> None:
    done = classad(word)
    assert done.status == 2
    assert done.err == (
        f"classad: no subcommand {word!r}; did you mean {meant}? classad --help lists them\n"
    )


def test_the_command_alone_is_a_guide_of_one_screen(classad: Run) -> None:
    done = classad()
    lines = done.out.splitlines()
    assert done.status == 0
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    for subcommand in ("match", "explain", "broker", "flags", "submit", "lint", "convert"):
        assert f"classad {subcommand}" in done.out
    assert "classad --help" in done.out


@pytest.mark.slow
@pytest.mark.parametrize("command", ["explain", "lint", "match"])
def test_no_colour_is_no_escape_sequence_at_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    bad = tmp_path / "bad.ad"
    bad.write_text('[ Requirements = Cpsu > 1 && TARGET.Memory > "8" ]\n')
    nodes = str(EXAMPLES / "nodes.ad")
    words = {
        "explain": ["explain", str(bad), nodes],
        "match": ["match", str(bad), nodes],
        "lint": ["lint", str(bad)],
    }[command]
    monkeypatch.setenv("NO_COLOR", "1")
    *_, shown = with_terminal(words, stdout=True)
    assert shown.strip()
    assert "\x1b[" not in shown
    monkeypatch.delenv("NO_COLOR")
    if command == "lint":
        *_, shown = with_terminal(words, stdout=True)
        assert "\x1b[" in shown
