"""The prompt of ``classad eval``, on a real terminal: a pseudo-terminal, read until it answers."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from matchmaker import ClassAd
from matchmaker.cli import prompt
from matchmaker.cli.prompt import is_open

pytestmark = pytest.mark.slow

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[=>()][0-9A-Za-z]?|[78])")
PATIENCE = 60.0


@attrs.define(slots=True)
class Terminal:
    """A command on a pseudo-terminal, and what it has printed that was not looked at yet."""

    process: subprocess.Popen[bytes]
    master: int
    raw: bytes = b""

    def expect(self, pattern: str) -> str:
        """Reads until the pattern is there; gives the text up to its end."""
        until = time.monotonic() + PATIENCE
        while True:
            text = _ESCAPES.sub("", self.raw.decode("utf-8", "replace"))
            found = re.search(pattern, text, re.DOTALL)
            if found:
                self.raw = text[found.end() :].encode()
                return text[: found.end()]
            ready, _, _ = select.select([self.master], [], [], max(0, until - time.monotonic()))
            assert ready, f"{pattern!r} did not come; instead: {text!r}"
            try:
                more = os.read(self.master, 65536)
            except OSError:
                more = b""
            assert more, f"the command ended before {pattern!r}: {text!r}"
            self.raw += more

    def send(self, text: str) -> None:
        os.write(self.master, text.encode())

    def ask(self, line: str, answer: str) -> str:
        """Types a line and reads its answer and the prompt after it."""
        self.send(line + "\r")
        return self.expect(answer + r".*?\nclassad>")

    def ends(self) -> int:
        """Reads to the end; gives the exit status."""
        while select.select([self.master], [], [], PATIENCE)[0]:
            try:
                if not os.read(self.master, 65536):
                    break
            except OSError:
                break
        return self.process.wait(PATIENCE)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def terminals(state: Path) -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()
        os.close(terminal.master)


def start(terminals: list[Terminal], state: Path, *arguments: str) -> Terminal:
    master, slave = pty.openpty()
    environment = {
        **os.environ, "XDG_STATE_HOME": str(state), "TERM": "xterm", "PYTHONUTF8": "1",
        "PROMPT_TOOLKIT_NO_CPR": "1", "COLUMNS": "200", "LINES": "50",
    }  # fmt: skip
    # A hang-up is to end it, also where whoever runs the tests ignores them.
    unignored = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)"
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"{unignored}; from matchmaker.cli import main; main()",
            "eval",
            *arguments,
        ],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
        start_new_session=True,
    )
    os.close(slave)
    terminal = Terminal(process, master)
    terminals.append(terminal)
    terminal.expect("Ctrl-D ends.*classad>")
    return terminal


def test_expressions_and_errors(terminals: list[Terminal], state: Path) -> None:
    terminal = start(terminals, state, "--my", "[ Cpus = 4 ]", "--target", "[ Owner = 7 ]")
    terminal.ask("Cpus * 10 + 2", r"\n42\r")
    terminal.ask("TARGET.Owner * 11", r"\n77\r")
    shown = terminal.ask("1 + * 2", r"unexpected '\*'")
    assert "\n  1 + * 2\r\n      ^\r\n" in shown
    terminal.ask("1/0", "error: integer division by zero")
    terminal.send("\x04")
    assert terminal.ends() == 0


def test_commands(terminals: list[Terminal], state: Path, tmp_path: Path) -> None:
    slots = tmp_path / "slots.ad"
    slots.write_text("[ Cpus = 4 ] [ Cpus = 8; Mem = Cpus * 2 ]", encoding="utf-8")
    terminal = start(terminals, state)
    terminal.ask(f":ad {slots}", "1 attribute, number 1 of 2")
    terminal.ask(f":ad {slots} 2", "2 attributes, number 2 of 2")
    terminal.ask("Mem + 1", r"\n17\r")
    terminal.ask(f":ad {slots} 3", "has 2 ads")
    terminal.ask(":ad no/such", "No such file")
    terminal.ask(f":target {slots} 1", "number 1 of 2")
    terminal.ask("TARGET.Cpus * 11", r"\n44\r")
    terminal.ask(":set Cpus = 50", "")
    terminal.ask("Mem + 3", r"\n103\r")
    terminal.ask(":set 1 = 2", "for example :set")
    terminal.ask(":trace false || Mem > 5", r"Mem > 5 is true.*Mem is 100.*Cpus is 50")
    terminal.ask(":show", r"MY has 2 attributes.*Mem = Cpus \* 2.*TARGET has 1 attribute")
    terminal.ask(":nonsense", "there is no :nonsense")
    terminal.ask(":help", ":quit")
    terminal.send(":quit\r")
    assert terminal.ends() == 0


def test_open_brackets_go_on_in_the_next_line(terminals: list[Terminal], state: Path) -> None:
    terminal = start(terminals, state)
    terminal.send("size({1,\r")
    terminal.expect(r"\.\.\.")
    terminal.ask("2, 3}) * 14", r"\n42\r")


def test_completion(terminals: list[Terminal], state: Path) -> None:
    terminal = start(terminals, state, "--my", "[ Frobnication = 42 ]")
    terminal.send("frob\t")
    terminal.expect("Frobnication")
    terminal.ask(" + 1", r"\n43\r")
    terminal.send("MY.fr\t")
    terminal.expect("MY.Frobnication")
    terminal.ask(" + 2", r"\n44\r")
    terminal.send("stringListsInt\t")
    terminal.expect(r"stringListsIntersect\(")
    terminal.ask('"a", "a")', r"\ntrue\r")


def test_interrupting_a_line(terminals: list[Terminal], state: Path) -> None:
    terminal = start(terminals, state)
    terminal.send("1 + 1")
    terminal.expect(r"1.*\+.*1")
    terminal.send("\x03")
    terminal.expect(r"\n.*classad>")
    terminal.ask("40 + 2", r"\n42\r")


def test_history_is_kept(terminals: list[Terminal], state: Path) -> None:
    first = start(terminals, state)
    first.ask("21 * 2", r"\n42\r")
    first.send(":quit\r")
    assert first.ends() == 0
    path = state / "classad" / "history"
    assert "+21 * 2" in path.read_text(encoding="utf-8")
    assert path.stat().st_mode & 0o777 == 0o600
    second = start(terminals, state)
    second.send("\x1b[A\x1b[A")
    second.expect(r"21.*\*.*2")
    second.ask("", r"\n42\r")


def test_without_a_place_for_history(terminals: list[Terminal], tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    terminal = start(terminals, blocked)
    terminal.ask("40 + 2", r"\n42\r")


def test_hanging_up_ends_it(terminals: list[Terminal], state: Path) -> None:
    terminal = start(terminals, state)
    terminal.process.send_signal(signal.SIGHUP)
    terminal.ends()
    assert terminal.process.returncode is not None


@pytest.mark.parametrize(
    ("text", "open_"),
    [
        ("(1 + ", True),
        ("{1, [ a = 2 ]", True),
        ("(1)", False),
        ("'a(' + 1", False),
        ('"(', False),
        ("/* ( */ 1", False),
        ("1 // (", False),
        (":ad x(", False),
        (":set a = (", True),
        (")", False),
    ],
)
def test_is_open(text: str, open_: bool) -> None:
    assert is_open(text) is open_


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("Cp", ["Cpus"]),
        ("TARGET.", ["Owner"]),
        ("MY.C", ["Cpus"]),
        ("other.C", []),
        ("1 + isun", ["isUndefined("]),
        ("undef", ["undefined"]),
        (":qu", ["quit"]),
        (":ta", ["target"]),
    ],
)
def test_what_tab_offers(text: str, offered: list[str]) -> None:
    desk = prompt._Desk(ClassAd(Cpus=4), ClassAd(Owner="ana"))
    found = prompt._Names(desk).get_completions(Document(text), CompleteEvent())
    assert [completion.text for completion in found] == offered


def test_tab_offers_files_after_a_command_that_reads_one(tmp_path: Path) -> None:
    (tmp_path / "machine.ad").touch()
    names = prompt._Names(prompt._Desk(ClassAd()))
    found = names.get_completions(Document(f":ad {tmp_path}/mach"), CompleteEvent())
    assert [completion.text for completion in found] == ["ine.ad"]


def test_an_ad_by_its_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.ad"
    path.write_text("[ Cpus = 1 ] [ Cpus = 2 ]", encoding="utf-8")
    desk = prompt._Desk(ClassAd())
    assert prompt.answer(f":ad {path} 2", desk)
    assert desk.my.eval("Cpus") == 2
    for wrong in (f":ad {path} 3", ":ad", ":ad -"):
        assert prompt.answer(wrong, desk)
    assert desk.my.eval("Cpus") == 2
    assert "2 ads" in capsys.readouterr().out


def test_a_name_that_is_no_attribute(capsys: pytest.CaptureFixture[str]) -> None:
    desk = prompt._Desk(ClassAd())
    assert prompt.answer(":set x == 1", desk)
    assert prompt.answer(":set x = ", desk)
    assert len(desk.my) == 0
    assert "what?" in capsys.readouterr().out
    assert not prompt.answer(":q", desk)
